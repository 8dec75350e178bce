/* stub.c - libpith_cuda where pith was built without CUDA.
 * SPDX-License-Identifier: Apache-2.0 */
#include "error.h"
#include "pith/pith_cuda.h"

static pith_status refuse(pith_error *error) {
    return pithi_fail(error, PITH_ERR_UNSUPPORTED, "this build has no CUDA");
}

pith_status pith_cuda_available(int device, pith_error *error) {
    (void)device;
    return refuse(error);
}

/* ---- Plans -----------------------------------------------------------------------------------*/

pith_status pith_cuda_plan_sizes(const pith_plan *plan, pith_cuda_sizes *out, pith_error *error) {
    (void)plan, (void)out;
    return refuse(error);
}

pith_status pith_cuda_plan_create(const pith_cuda_plan **cuda, const pith_plan *plan,
                                  const pith_env *env, int device, void *memory, size_t bytes,
                                  void *cuda_stream, pith_error *error) {
    (void)plan, (void)env, (void)device, (void)memory, (void)bytes, (void)cuda_stream;
    if (cuda) *cuda = NULL;
    return refuse(error);
}

void pith_cuda_plan_destroy(const pith_cuda_plan *cuda) { (void)cuda; }

/* ---- Streams ---------------------------------------------------------------------------------*/

pith_status pith_cuda_stream_init(const pith_cuda_plan *cuda, void *memory, size_t bytes,
                                  const pith_stream_options *options, void *cuda_stream,
                                  pith_error *error) {
    (void)cuda, (void)memory, (void)bytes, (void)options, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_stream_set_step(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                      uint64_t slot, uint64_t step, void *cuda_stream,
                                      pith_error *error) {
    (void)cuda, (void)stream, (void)slot, (void)step, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_stream_set_random(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                        const pith_stream_options *options, void *cuda_stream,
                                        pith_error *error) {
    (void)cuda, (void)stream, (void)options, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_stream_set_base(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                      const void *base, uint32_t dtype, uint64_t step,
                                      void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)base, (void)dtype, (void)step, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_stream_bind_base(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                       void *base, uint64_t step, void *cuda_stream,
                                       pith_error *error) {
    (void)cuda, (void)stream, (void)base, (void)step, (void)cuda_stream;
    return refuse(error);
}

void *pith_cuda_stream_base(const pith_cuda_plan *cuda, pith_cuda_stream *stream) {
    (void)cuda, (void)stream;
    return NULL;
}

pith_status pith_cuda_stream_verify(const pith_cuda_plan *cuda, const pith_cuda_stream *stream,
                                    int32_t *status, void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)status, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_stream_rollback(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                      uint64_t step, void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)step, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_stream_pack(const pith_cuda_plan *cuda, pith_work *work,
                                  const pith_stream *host, void *bytes, size_t size,
                                  pith_error *error) {
    (void)cuda, (void)work, (void)host, (void)bytes, (void)size;
    return refuse(error);
}

pith_status pith_cuda_stream_unpack(const pith_cuda_plan *cuda, pith_work *work, pith_stream *host,
                                    const void *bytes, size_t size, pith_error *error) {
    (void)cuda, (void)work, (void)host, (void)bytes, (void)size;
    return refuse(error);
}

/* ---- Encode, decode, sums --------------------------------------------------------------------*/

pith_status pith_cuda_encode(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                             const pith_cuda_items *items, uint32_t flags, void *cuda_stream,
                             pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)flags, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_decode(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                             const pith_cuda_items *items, uint32_t flags, void *cuda_stream,
                             pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)flags, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_decode_range(const pith_cuda_plan *cuda, const pith_cuda_stream *stream,
                                   const pith_cuda_items *items, uint64_t first, uint64_t count,
                                   void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)first, (void)count, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_reduce(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                             const pith_cuda_items *items, uint32_t per_item, float scale,
                             void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)per_item, (void)scale, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_reduce_encode(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                    const pith_cuda_items *items, uint32_t per_item, float scale,
                                    const pith_cuda_plan *out, pith_cuda_stream *out_stream,
                                    const pith_cuda_items *out_items, void *cuda_stream,
                                    pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)per_item, (void)scale;
    (void)out, (void)out_stream, (void)out_items, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_verify(const pith_cuda_plan *cuda, const pith_cuda_stream *stream,
                             const pith_cuda_items *items, void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)cuda_stream;
    return refuse(error);
}

/* ---- Sets ------------------------------------------------------------------------------------*/

pith_status pith_cuda_sparse_hold(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                  const pith_cuda_items *items, uint32_t per_item, int how,
                                  void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)per_item, (void)how, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_sparse_hold_elements(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                           const pith_cuda_items *items, uint64_t run,
                                           void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)run, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_sparse_gather(const pith_cuda_plan *cuda, const pith_cuda_stream *stream,
                                    const pith_cuda_items *items, uint32_t dtype, void *cuda_stream,
                                    pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)dtype, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_sparse_scatter(const pith_cuda_plan *cuda, const pith_cuda_stream *stream,
                                     const pith_cuda_items *items, uint32_t dtype, float scale,
                                     void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)dtype, (void)scale, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_sparse_clear(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                   const pith_cuda_items *items, void *cuda_stream,
                                   pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_sparse_set_request(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                         const pith_cuda_items *items,
                                         const pith_sparse_request *requests, void *cuda_stream,
                                         pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)requests, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_sparse_report(const pith_cuda_plan *cuda, pith_cuda_stream *stream,
                                    const pith_cuda_items *items, const uint64_t *chosen,
                                    void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)chosen, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_sparse_get_state(const pith_cuda_plan *cuda, const pith_cuda_stream *stream,
                                       const pith_cuda_items *items, pith_sparse_state *states,
                                       void *cuda_stream, pith_error *error) {
    (void)cuda, (void)stream, (void)items, (void)states, (void)cuda_stream;
    return refuse(error);
}

/* ---- Pages -----------------------------------------------------------------------------------*/

pith_status pith_cuda_kv_encode_pages(const pith_cuda_plan *cuda, const pith_view *like,
                                      const pith_kv_pair *pairs, uint64_t count, int32_t *status,
                                      void *cuda_stream, pith_error *error) {
    (void)cuda, (void)like, (void)pairs, (void)count, (void)status, (void)cuda_stream;
    return refuse(error);
}

pith_status pith_cuda_kv_decode_pages(const pith_cuda_plan *cuda, const pith_view *like,
                                      const pith_kv_pair *pairs, uint64_t count, int32_t *status,
                                      void *cuda_stream, pith_error *error) {
    (void)cuda, (void)like, (void)pairs, (void)count, (void)status, (void)cuda_stream;
    return refuse(error);
}
