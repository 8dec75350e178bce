/* sets.c - the calls on sets that slots hold, and on what they remember of their choice: check the
 * arguments, fill in a call, launch.
 * SPDX-License-Identifier: Apache-2.0 */
#include "items.h"
#include "sparse.h"

/* ---- Arguments -------------------------------------------------------------------------------*/

/* Checks the arguments that calls on sets have; changes: what the slots hold, or remember. */
static pith_status open_sets(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                             const pith_cuda_items *from, bool changes, pith_cuda_items *items,
                             pith_error *error) {
    pithi_clear(error);
    const pith_status status = pithi_cuda_check_stream(c, stream, "stream", error);
    if (status != PITH_OK) return status;
    if (!pithi_cuda_is_sparse(c))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "the codec sends no sets");
    const pith_status taken = pithi_cuda_items_take(from, items, error);
    return taken == PITH_OK ? pithi_cuda_items_once(changes, items, error) : taken;
}

static pith_status check_values(uint32_t dtype, pith_error *error) {
    if (pithi_is_float16_32(dtype)) return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "values are f32, bf16 or f16, not $",
                           &(struct pithi_words){.name = {pith_dtype_name(dtype)}});
}

static struct pithi_gpu_call sets_call(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                       const pith_cuda_items *items) {
    return (struct pithi_gpu_call){
        .to = pithi_cuda_side(c, stream, items), .count = UINT64_MAX, .per_item = 1, .scale = 1};
}

/* The same of a call that looks at no tensors, which may be any address. */
static struct pithi_gpu_call slots_call(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                        pith_cuda_items *items) {
    items->tensor = NULL;
    items->tensors = NULL;
    return sets_call(c, stream, items);
}

pith_status pith_cuda_sparse_hold(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                  const pith_cuda_items *from, uint32_t per_item, int how,
                                  void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    pith_status status = open_sets(c, stream, from, true, &items, error);
    if (status == PITH_OK) status = pithi_cuda_items_frames(&items, error);
    if (status != PITH_OK) return status;
    if (!per_item || per_item > INT32_MAX)
        return pithi_fail_at(error, PITH_ERR_ARG, "no frames whose sets are held, or too many",
                             per_item);
    if (how != PITH_SET_UNION && how != PITH_SET_INTERSECTION)
        return pithi_fail(error, PITH_ERR_ARG, "neither union nor intersection");
    struct pithi_gpu_call a = slots_call(c, stream, &items);
    a.from = a.to;
    a.per_item = per_item;
    a.sparse.names = true;
    return pithi_cuda_sparse_hold(c, &a, how == PITH_SET_INTERSECTION && per_item > 1, &items,
                                  cuda_stream, error);
}

pith_status pith_cuda_sparse_hold_elements(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                           const pith_cuda_items *from, uint64_t run,
                                           void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    const pith_status status = open_sets(c, stream, from, true, &items, error);
    if (status != PITH_OK) return status;
    if (!run || (!items.frame && !items.frames))
        return pithi_fail(error, PITH_ERR_ARG, "no elements, or a run has none");
    struct pithi_gpu_call a = slots_call(c, stream, &items);
    a.sparse.run = run;
    return pithi_cuda_sparse_hold_elements(c, &a, &items, cuda_stream, error);
}

/* Opens a call that moves values of held sets, in either direction. */
static pith_status open_values(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                               const pith_cuda_items *from, uint32_t dtype, pith_cuda_items *items,
                               pith_error *error) {
    pith_status status = open_sets(c, stream, from, false, items, error);
    if (status == PITH_OK && !items->frame && !items->frames)
        status = pithi_fail(error, PITH_ERR_ARG, "no values");
    if (status == PITH_OK) status = check_values(dtype, error);
    if (status != PITH_OK || !(items->tensor || items->tensors)) return status;
    if (c->plan.device.sets.run > 1)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "the set is one of coefficients of a tensor");
    return check_values(items->dtype, error);
}

pith_status pith_cuda_sparse_gather(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                    const pith_cuda_items *from, uint32_t dtype, void *cuda_stream,
                                    pith_error *error) {
    pith_cuda_items items;
    const pith_status status = open_values(c, stream, from, dtype, &items, error);
    if (status != PITH_OK) return status;
    if (!items.tensor && !items.tensors && !c->plan.device.feedback)
        return pithi_fail(error, PITH_ERR_STATE, "the stream has no error feedback");
    struct pithi_gpu_call a = sets_call(c, stream, &items);
    a.sparse.dtype = dtype;
    return pithi_cuda_sparse_move(c, &a, false, &items, cuda_stream, error);
}

pith_status pith_cuda_sparse_scatter(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                     const pith_cuda_items *from, uint32_t dtype, float scale,
                                     void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    pith_status status = open_values(c, stream, from, dtype, &items, error);
    if (status == PITH_OK) status = pithi_cuda_items_once(!items.tensors, &items, error);
    if (status == PITH_OK) status = pithi_cuda_items_tensor(c, &items, error);
    if (status != PITH_OK) return status;
    struct pithi_gpu_call a = sets_call(c, stream, &items);
    a.sparse.dtype = dtype;
    a.scale = scale;
    return pithi_cuda_sparse_move(c, &a, true, &items, cuda_stream, error);
}

/* Opens a call that looks at nothing but slots and status. */
static pith_status open_slots(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                              const pith_cuda_items *from, pith_cuda_items *items,
                              struct pithi_gpu_call *a, pith_error *error) {
    const pith_status status = open_sets(c, stream, from, true, items, error);
    if (status != PITH_OK) return status;
    *a = slots_call(c, stream, items);
    return PITH_OK;
}

pith_status pith_cuda_sparse_clear(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                   const pith_cuda_items *from, void *cuda_stream,
                                   pith_error *error) {
    pith_cuda_items items;
    struct pithi_gpu_call a;
    const pith_status status = open_slots(c, stream, from, &items, &a, error);
    if (status != PITH_OK) return status;
    if (!c->plan.device.feedback)
        return pithi_fail(error, PITH_ERR_STATE, "the stream has no error feedback");
    return pithi_cuda_sparse_clear(c, &a, &items, cuda_stream, error);
}

/* ---- What slots remember of their choice -----------------------------------------------------*/

static pith_status ask(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                       const pith_cuda_items *from, struct pithi_gpu_sparse_call about,
                       void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    struct pithi_gpu_call a;
    pith_status status = open_slots(c, stream, from, &items, &a, error);
    if (status == PITH_OK) status = pithi_cuda_aligned("requests", about.requests, 8, error);
    if (status == PITH_OK) status = pithi_cuda_aligned("chosen", about.chosen, 8, error);
    if (status == PITH_OK) status = pithi_cuda_aligned("states", about.states, 8, error);
    if (status != PITH_OK) return status;
    a.sparse = about;
    return pithi_cuda_sparse_slots(c, &a, &items, cuda_stream, error);
}

pith_status pith_cuda_sparse_set_request(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                         const pith_cuda_items *items,
                                         const pith_sparse_request *requests, void *cuda_stream,
                                         pith_error *error) {
    return ask(c, stream, items, (struct pithi_gpu_sparse_call){.requests = requests}, cuda_stream,
               error);
}

pith_status pith_cuda_sparse_report(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                    const pith_cuda_items *items, const uint64_t *chosen,
                                    void *cuda_stream, pith_error *error) {
    pithi_clear(error);
    if (!chosen) return pithi_cuda_null("chosen", error);
    return ask(c, stream, items, (struct pithi_gpu_sparse_call){.chosen = chosen}, cuda_stream,
               error);
}

pith_status pith_cuda_sparse_get_state(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                       const pith_cuda_items *items, pith_sparse_state *states,
                                       void *cuda_stream, pith_error *error) {
    pithi_clear(error);
    if (!states) return pithi_cuda_null("states", error);
    return ask(c, stream, items, (struct pithi_gpu_sparse_call){.states = states}, cuda_stream,
               error);
}
