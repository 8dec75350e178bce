/* transform.h - values of a slot to the coefficients that topk chooses from, and back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, sections 5.3 and 5.10. Runs begin at multiples of their length, so that a tile has
 * whole ones, but for what is left at the end of a slot. */
#ifndef PITHI_GPU_DEVICE_SPARSE_TRANSFORM_H
#define PITHI_GPU_DEVICE_SPARSE_TRANSFORM_H

#include "device/group/rotate.h"
#include "device/sparse/decode.h"
#include "sparse/dct_value.h"

PITHI_DEVICE void pithi_transform_put(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_transform *r, uint64_t e, float x) {
    const uint32_t width = pithi_dtype_bytes(r->to_dtype);
    uint8_t *const to = r->to + e * width;
    if (e < r->lo || e >= r->hi) return;
    if (r->inverse && a->scale != 1.0f) x *= a->scale;
    if (r->add) x = pithi_float(pithi_unit_widen(r->to_dtype, pithi_own_get(to, width))) + x;
    pithi_own_put(to, width, pithi_unit_round(r->to_dtype, pithi_bits(x)));
}

/* ---- Cosines ---------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_cosine_fetch, uint64_t tile) {
    const struct pithi_gpu_transform *const r = &s->strip.transform;
    (void)a;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, r->count);
        uint32_t x[PITHI_UNIT];
        pithi_unit_load(r->from + e * pithi_dtype_bytes(r->from_dtype), r->from_dtype, n, x);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) s->strip.values[e - tile + k] =
            pithi_float(x[k]);
    }
}

/* Element e, which is behind the last whole run: of a run of 16 or 4, or of none. */
PITHI_DEVICE float pithi_cosine_rest(const struct pithi_gpu_shared *s, uint64_t tile, uint64_t e) {
    const struct pithi_gpu_transform *const r = &s->strip.transform;
    const uint32_t left = (uint32_t)(r->count % PITHI_DCT_ORDER);
    const uint32_t at = (uint32_t)(e - (r->count - left));
    const uint32_t order = at < left / 16 * 16 ? 16 : at < left / 4 * 4 ? 4 : 1;
    const float *const x = s->strip.values + (e - tile) - at % order;
    float sum = 0;
    if (order == 1) return *x;
    PITHI_ROLLED for (uint32_t i = 0; i < order; i++) sum +=
        x[i] * (r->inverse ? pithi_dct_number(at % order, i, order)
                           : pithi_dct_number(i, at % order, order));
    return sum;
}

/* A thread has the same place in runs that are as far apart as the team has threads. */
enum { PITHI_COSINES = PITHI_TILE / PITHI_TEAM };
PITHI_PHASE(pithi_cosine_sum, uint64_t tile) {
    const struct pithi_gpu_transform *const r = &s->strip.transform;
    const uint32_t own = t->tid % PITHI_DCT_ORDER;
    const float *const x = s->strip.values + (t->tid - own);
    const uint64_t whole = r->count - r->count % PITHI_DCT_ORDER;
    float sum[PITHI_COSINES];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_COSINES; k++) sum[k] = 0;
    PITHI_ROLLED for (uint32_t i = 0; i < PITHI_DCT_ORDER; i++) {
        const float c = r->inverse ? pithi_dct_number(own, i, PITHI_DCT_ORDER)
                                   : pithi_dct_number(i, own, PITHI_DCT_ORDER);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_COSINES; k++) sum[k] +=
            x[k * PITHI_TEAM + i] * c;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_COSINES; k++) {
        const uint64_t e = tile + t->tid + k * PITHI_TEAM;
        if (e < whole)
            pithi_transform_put(a, r, e, sum[k]);
        else if (e < r->count)
            pithi_transform_put(a, r, e, pithi_cosine_rest(s, tile, e));
    }
}

/* ---- Walsh-Hadamard --------------------------------------------------------------------------*/

enum { PITHI_WALSH = 32 };

PITHI_LOCAL(pithi_walsh_fetch, uint64_t tile) {
    const struct pithi_gpu_transform *const r = &s->strip.transform;
    (void)a;
    t->whole = false;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        uint32_t x[PITHI_UNIT];
        pithi_unit_load(r->from + e * pithi_dtype_bytes(r->from_dtype), r->from_dtype,
                        pithi_unit_left(e, r->count), x);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = pithi_float(x[k]);
        if (r->inverse) pithi_unit_shrink(t, PITHI_WALSH, r->count, e, t->x[u]);
        pithi_unit_inner(t, PITHI_WALSH, r->count, e, t->x[u]);
    }
}
PITHI_LOCAL(pithi_walsh_across, uint64_t tile, uint32_t half) {
    (void)a;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        pithi_unit_across(t, PITHI_WALSH, s->strip.transform.count, pithi_unit_at(t, tile, u), half,
                          t->x[u], t->y[u]);
}
PITHI_LOCAL(pithi_walsh_put, uint64_t tile) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++)
            pithi_transform_put(a, &s->strip.transform, pithi_unit_at(t, tile, u) + k, t->x[u][k]);
}

/* ---- Both ------------------------------------------------------------------------------------*/

/* Part of a body: the runs of tiles [begin, end). */
PITHI_DEVICE void pithi_transform_tiles(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                        struct pithi_gpu_thread *t, struct pithi_team *team,
                                        uint32_t run, uint64_t begin, uint64_t end) {
    struct pithi_rotation walsh;
    walsh.order = PITHI_WALSH;
    for (uint64_t tile = begin; tile < end; tile += PITHI_TILE) {
        if (run == PITHI_DCT_ORDER) {
            PITHI_RUN(pithi_cosine_fetch, tile);
            PITHI_RUN(pithi_cosine_sum, tile);
        } else {
            PITHI_STEP(pithi_walsh_fetch, tile);
            PITHI_ROTATE_ACROSS(&walsh, pithi_walsh_across, tile);
            PITHI_STEP(pithi_walsh_put, tile);
        }
    }
}

/* Tensors to coefficients, after pithi_sparse_begin. */
PITHI_PHASE(pithi_enter_open, uint64_t number) {
    struct pithi_gpu_transform *const r = &s->strip.transform;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->to.status = pithi_mark(a, s->to.index)->status;
    r->from = s->to.tensor;
    r->from_dtype = a->to.items.dtype;
    r->to = a->sparse.coefficients + s->to.index * a->sparse.coefficients_stride;
    r->to_dtype = PITH_F32;
    r->count = r->hi = s->to.slot->count;
    r->lo = 0;
    r->inverse = r->add = false;
}
PITHI_BODY(pithi_sparse_enter) {
    PITHI_RUN(pithi_enter_open, number);
    if (s->to.status == PITH_OK)
        pithi_transform_tiles(a, s, t, team, a->to.plan.device.sets.run, s->to.begin, s->to.end);
}

/* Coefficients of frames, or of sums of them, to tensors. */
PITHI_PHASE(pithi_leave_open, uint64_t number) {
    struct pithi_gpu_transform *const r = &s->strip.transform;
    const struct pithi_gpu_item *const it = &s->from;
    const uint64_t item = number / a->chunks, end = it->slot->count;
    if (t->tid) return;
    r->from = a->sparse.coefficients + item * a->sparse.coefficients_stride;
    r->from_dtype = PITH_F32;
    r->to = it->tensor;
    r->to_dtype = a->from.items.dtype;
    if (a->from.items.tensors) r->to -= a->first * pithi_dtype_bytes(r->to_dtype);
    r->count = end;
    r->lo = a->first < end ? a->first : end;
    r->hi = a->count < end - r->lo ? r->lo + a->count : end;
    r->inverse = true;
    r->add = a->add;
}
PITHI_BODY(pithi_sparse_leave) {
    PITHI_RUN(pithi_topk_sum_open, number, false);
    if (s->bad != UINT32_MAX) return;
    PITHI_RUN(pithi_leave_open, number);
    pithi_transform_tiles(a, s, t, team, a->from.plan.device.sets.run, s->from.begin, s->from.end);
}

#endif
