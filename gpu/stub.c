/* stub.c - libpith_cuda where pith was built without CUDA.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pith/pith_cuda.h"

static const pith_error without_cuda = {"this build has no CUDA", 0};

static pith_status refuse(pith_error *error) {
    if (error) *error = without_cuda;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_available(int device, pith_error *error) {
    (void)device;
    return refuse(error);
}

/* ---- Plans -----------------------------------------------------------------------------------*/

pith_status pith_cuda_plan_sizes(const pith_plan *plan, pith_cuda_sizes *out, pith_error *error) {
    (void)plan;
    if (out) *out = (pith_cuda_sizes){0};
    return refuse(error);
}

pith_status pith_cuda_plan_create(pith_cuda_plan **cuda, const pith_plan *plan, const pith_env *env,
                                  int device, void *table, size_t bytes, void *stream,
                                  pith_error *error) {
    (void)plan, (void)env, (void)device, (void)table, (void)bytes, (void)stream;
    if (cuda) *cuda = NULL;
    return refuse(error);
}

void pith_cuda_plan_destroy(pith_cuda_plan *cuda) { (void)cuda; }

pith_error pith_cuda_plan_error(const pith_cuda_plan *cuda) {
    (void)cuda;
    return without_cuda;
}

/* ---- State -----------------------------------------------------------------------------------*/

pith_status pith_cuda_state_init(pith_cuda_plan *cuda, void *memory, size_t bytes, void *stream) {
    (void)cuda, (void)memory, (void)bytes, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_state_set_random(pith_cuda_plan *cuda, pith_cuda_state *state, uint64_t seed,
                                       uint32_t stream_id, uint64_t step, void *stream) {
    (void)cuda, (void)state, (void)seed, (void)stream_id, (void)step, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_state_set_ranks(pith_cuda_plan *cuda, pith_cuda_state *state, uint32_t rank,
                                      uint32_t ranks, void *stream) {
    (void)cuda, (void)state, (void)rank, (void)ranks, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_state_next_step(pith_cuda_plan *cuda, pith_cuda_state *state, void *stream) {
    (void)cuda, (void)state, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_state_set_base(pith_cuda_plan *cuda, pith_cuda_state *state, const void *base,
                                     uint32_t dtype, uint64_t step, void *stream) {
    (void)cuda, (void)state, (void)base, (void)dtype, (void)step, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_state_bind_base(pith_cuda_plan *cuda, pith_cuda_state *state, void *base,
                                      uint64_t step, void *stream) {
    (void)cuda, (void)state, (void)base, (void)step, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

void *pith_cuda_state_base(const pith_cuda_plan *cuda, pith_cuda_state *state) {
    (void)cuda, (void)state;
    return NULL;
}

pith_status pith_cuda_state_verify(pith_cuda_plan *cuda, const pith_cuda_state *state,
                                   int32_t *status, void *stream) {
    (void)cuda, (void)state, (void)status, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_state_rollback(pith_cuda_plan *cuda, pith_cuda_state *state, uint64_t step,
                                     void *stream) {
    (void)cuda, (void)state, (void)step, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_state_pack(pith_cuda_plan *cuda, pith_plan *plan, const pith_state *host,
                                 void *bytes, size_t size) {
    (void)cuda, (void)plan, (void)host, (void)bytes, (void)size;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_state_unpack(pith_cuda_plan *cuda, pith_plan *plan, const void *bytes,
                                   size_t size, pith_state *host) {
    (void)cuda, (void)plan, (void)bytes, (void)size, (void)host;
    return PITH_ERR_UNSUPPORTED;
}

/* ---- Encode, decode, sums --------------------------------------------------------------------*/

pith_status pith_cuda_encode(pith_cuda_plan *cuda, pith_cuda_state *state,
                             const pith_cuda_items *items, void *stream) {
    (void)cuda, (void)state, (void)items, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_encode_key(pith_cuda_plan *cuda, pith_cuda_state *state,
                                 const pith_cuda_items *items, void *stream) {
    (void)cuda, (void)state, (void)items, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_decode(pith_cuda_plan *cuda, pith_cuda_state *state,
                             const pith_cuda_items *items, void *stream) {
    (void)cuda, (void)state, (void)items, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_decode_add(pith_cuda_plan *cuda, const pith_cuda_items *items, void *stream) {
    (void)cuda, (void)items, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_decode_range(pith_cuda_plan *cuda, const pith_cuda_state *state,
                                   const pith_cuda_items *items, uint64_t first, uint64_t count,
                                   void *stream) {
    (void)cuda, (void)state, (void)items, (void)first, (void)count, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_reduce(pith_cuda_plan *cuda, pith_cuda_state *state,
                             const pith_cuda_items *items, uint32_t per_item, float scale,
                             void *stream) {
    (void)cuda, (void)state, (void)items, (void)per_item, (void)scale, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_reduce_encode(pith_cuda_plan *cuda, pith_cuda_state *state,
                                    const pith_cuda_items *items, uint32_t per_item, float scale,
                                    pith_cuda_plan *out, pith_cuda_state *out_state,
                                    const pith_cuda_items *out_items, void *stream) {
    (void)cuda, (void)state, (void)items, (void)per_item, (void)scale;
    (void)out, (void)out_state, (void)out_items, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_kv_encode_pages(pith_cuda_plan *cuda, const pith_view *like,
                                      const pith_kv_pair *pairs, uint64_t count, int32_t *status,
                                      void *stream) {
    (void)cuda, (void)like, (void)pairs, (void)count, (void)status, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_kv_decode_pages(pith_cuda_plan *cuda, const pith_view *like,
                                      const pith_kv_pair *pairs, uint64_t count, int32_t *status,
                                      void *stream) {
    (void)cuda, (void)like, (void)pairs, (void)count, (void)status, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}

pith_status pith_cuda_verify(pith_cuda_plan *cuda, const pith_cuda_state *state,
                             const pith_cuda_items *items, void *stream) {
    (void)cuda, (void)state, (void)items, (void)stream;
    return PITH_ERR_UNSUPPORTED;
}
