/* full.h - full tiles of pages: nothing of them is missing, nor unaligned.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Most tiles of most pages are, as pithi_full_find says. What a team needs of its next tile is on
 * its way while it works on one. Along tokens a thread has all of its columns' tokens at once. */
#ifndef PITHI_GPU_DEVICE_KV_FULL_H
#define PITHI_GPU_DEVICE_KV_FULL_H

#include "device/kv/page.h"

/* ---- Numbers of 16 bits ----------------------------------------------------------------------*/

/* That of f16 in the high half of a word, when it is finite: as f32 its exponent is off by 112. */
PITHI_DEVICE float pithi_half_spread(uint32_t high) {
    return pithi_float((uint32_t)((int32_t)high >> 3) & 0x8FFFE000u);
}
PITHI_DEVICE float pithi_half_value(uint32_t high) { return pithi_half_spread(high) * 0x1p112f; }
/* The f16 that x is. */
PITHI_DEVICE uint32_t pithi_half_bits(float x) {
    const uint32_t u = pithi_bits(x * 0x1p-112f);
    return (u >> 13 & 0x7FFFu) | (u >> 16 & 0x8000u);
}
/* Not 0 when one of two is infinite or NaN. */
PITHI_DEVICE uint32_t pithi_halves_lost(uint32_t both) {
    return ((both & 0x7FFF7FFFu) + 0x04000400u) & 0x80008000u;
}

PITHI_DEVICE void pithi_full_spread(uint32_t dtype, const struct pithi_quad *raw, float x[8]) {
    uint32_t lost = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
        const uint32_t both = raw->word[k];
        lost |= pithi_halves_lost(both);
        x[2 * k] = dtype == PITH_BF16 ? pithi_float(both << 16) : pithi_half_value(both << 16);
        x[2 * k + 1] =
            dtype == PITH_BF16 ? pithi_float(both & 0xFFFF0000u) : pithi_half_value(both);
    }
    if (dtype == PITH_BF16 || !lost) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] =
        pithi_float(pithi_unit_widen(dtype, raw->word[k / 2] >> k % 2 * 16 & 0xFFFFu));
}

/* ---- Places ----------------------------------------------------------------------------------*/

/* Along heads: of a unit of the thread, its values and its codes. */
PITHI_DEVICE uint8_t *pithi_full_values(const struct pithi_gpu_page *g,
                                        const struct pithi_gpu_thread *t, uint32_t tile,
                                        uint32_t u) {
    return g->values + 2 * (g->at + (int64_t)(tile * PITHI_TILE + t->tid * PITHI_UNIT)) +
           2 * u * PITHI_ROW;
}
PITHI_DEVICE uint8_t *pithi_full_codes(const struct pithi_gpu_page *g,
                                       const struct pithi_gpu_thread *t, uint32_t tile,
                                       uint32_t u) {
    return g->codes + (tile * (PITHI_TILE / 2) + t->tid * 4) + u * (PITHI_ROW / 2);
}

/* Along tokens. The thread's columns among the page's, by eights. */
PITHI_DEVICE uint32_t pithi_full_unit(const struct pithi_gpu_thread *t, uint32_t chunk) {
    return chunk * PITHI_WARP + t->tid % PITHI_WARP;
}
/* Returns the thread's first token of group `band` of tokens; its others follow rows behind. */
PITHI_DEVICE uint32_t pithi_full_token(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_thread *t, uint32_t band) {
    return band * p->device.groups.set.group + t->tid / PITHI_WARP;
}
PITHI_DEVICE uint8_t *pithi_full_place(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_page *g,
                                       const struct pithi_gpu_thread *t, uint32_t band,
                                       uint32_t chunk) {
    const uint32_t first = pithi_full_unit(t, chunk) * PITHI_UNIT;
    int64_t at = g->at + first + pithi_full_token(p, t, band) * g->token_stride;
    if (g->head_stride != g->dim) at += first / g->dim * (g->head_stride - g->dim);
    return g->values + 2 * at;
}
PITHI_DEVICE uint8_t *pithi_full_string(const struct pithi_device_plan *p,
                                        const struct pithi_gpu_page *g,
                                        const struct pithi_gpu_thread *t, uint32_t band,
                                        uint32_t chunk) {
    return g->codes + pithi_full_token(p, t, band) * (g->heads * g->string) +
           pithi_full_unit(t, chunk) * 4;
}

/* t->kv.up of each row of threads, a row in the team's memory, and t->kv.down behind them all. */
PITHI_PHASE(pithi_columns_publish, uint32_t number) {
    float *const to = s->paged.values + t->tid * PITHI_UNIT;
    (void)a, (void)number;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k += 4) {
        const struct pithi_quad up = {{t->kv.up[k], t->kv.up[k + 1], t->kv.up[k + 2],
                                       t->kv.up[k + 3]}},
                                down = {{t->kv.down[k], t->kv.down[k + 1], t->kv.down[k + 2],
                                         t->kv.down[k + 3]}};
        pithi_put_quad(to + k, up);
        pithi_put_quad(to + PITHI_ROW + k, down);
    }
}

#endif
