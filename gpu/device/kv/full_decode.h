/* full_decode.h - full tiles of pages to values.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_KV_FULL_DECODE_H
#define PITHI_GPU_DEVICE_KV_FULL_DECODE_H

#include "device/kv/full.h"

/* ---- Decode ----------------------------------------------------------------------------------*/

/* scale, zero := of one group, stored one behind the other in the high halves of two words; the
 * scales each for the codes that stand so many codes up in a word. */
PITHI_DEVICE void pithi_full_meaning(uint32_t scale_high, uint32_t zero_high, uint32_t k,
                                     float *scale, float *zero) {
    const float down = k == 0 ? 0x1p112f : k == 1 ? 0x1p108f : k == 2 ? 0x1p104f : 0x1p100f;
    *scale = pithi_half_spread(scale_high) * down;
    *zero = pithi_half_value(zero_high);
}

/* The values of a unit, in the dtype. Products are exact: a scale of f16 has 11 bits. */
PITHI_DEVICE struct pithi_quad pithi_full_decoded(uint32_t dtype, uint32_t word,
                                                  const float scale[8], const float zero[8]) {
    const uint32_t half[2] = {word, word >> 16};
    uint32_t u[PITHI_UNIT];
    struct pithi_quad out;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t code = half[k / 4] & 15u << k % 4 * 4;
        const float v = (pithi_float(code | pithi_bits(0x1p23f)) - 0x1p23f) * scale[k];
        u[k] = pithi_bits(v + zero[k]);
        u[k] = dtype == PITH_BF16 ? u[k] + 0x7FFFu + (u[k] >> 16 & 1u)
                                  : (uint32_t)pithi_to_f16(u[k]) << 16;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) out.word[k] =
        pithi_high_halves(u[2 * k], u[2 * k + 1]);
    return out;
}

/* Makes the values of a unit as pithi_full_decoded, of f16 scales and zero points that need not be
 * finite. */
PITHI_DEVICE struct pithi_quad pithi_full_any(const struct pithi_gpu_call *a,
                                              const struct pithi_gpu_paged *g, uint32_t word,
                                              const uint32_t scale[8], const uint32_t zero[8]) {
    const uint32_t dtype = a->from.items.dtype;
    uint32_t bits[PITHI_UNIT];
    uint64_t none = 0; /* overflows: f16 times a code is far from that */
    struct pithi_quad out;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const float x = pithi_page_value(g, &a->from.plan.device.groups.set, word, k,
                                         pithi_float(pithi_from_f16((uint16_t)scale[k])),
                                         pithi_float(pithi_from_f16((uint16_t)zero[k])), &none);
        bits[k] = pithi_unit_round(dtype, pithi_bits(x));
    }
    PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) out.word[k] = bits[2 * k] | bits[2 * k + 1] << 16;
    return out;
}

/* Codes, scale and zero point of the thread's units. */
PITHI_LOCAL(pithi_full_heads_fetch, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t each = PITHI_UNITS * g->rows;
    (void)a;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t group = tile * each + ((u * PITHI_TEAM + t->tid) >> g->log2);
        t->kv.raw[u].word[0] = pithi_get_aligned32(pithi_full_codes(g, t, tile, u));
        t->kv.raw[u].word[1] = pithi_get_aligned32(g->bytes + 4 * group);
    }
}

PITHI_DEVICE void pithi_full_head_put(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                      uint32_t word, uint32_t both, uint8_t *to) {
    if (pithi_halves_lost(both)) {
        uint32_t scales[PITHI_UNIT], zeros[PITHI_UNIT];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            scales[k] = both & 0xFFFFu;
            zeros[k] = both >> 16;
        }
        t->read.poisoned += !(t->tid & (s->paged.page.lanes - 1));
        pithi_put_quad(to, pithi_full_any(a, &s->paged, word, scales, zeros));
        return;
    }
    float scale[PITHI_UNIT], zero[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++)
        pithi_full_meaning(both << 16, both, k % 4, &scale[k], &zero[k]);
    pithi_put_quad(to, pithi_full_decoded(a->from.items.dtype, word, scale, zero));
}

/* What was fetched becomes values; what comes next is under way meanwhile. */
PITHI_LOCAL(pithi_full_heads_put, uint32_t tile, uint32_t next) {
    uint32_t word[PITHI_UNITS], both[PITHI_UNITS];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        word[u] = t->kv.raw[u].word[0];
        both[u] = t->kv.raw[u].word[1];
    }
    if (next < s->paged.page.fulls) pithi_full_heads_fetch(a, s, t, next);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) pithi_full_head_put(
        a, s, t, word[u], both[u], pithi_full_values(&s->paged.page, t, tile, u));
}

/* 16 threads that share a group each say what one code means, instead of what their own do. */
PITHI_LOCAL(pithi_full_heads_mean, uint32_t next) {
    const uint32_t dtype = a->from.items.dtype, code = t->tid % PITHI_LANES;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t both = t->kv.raw[u].word[1];
        const float scale = pithi_half_value(both << 16), zero = pithi_half_value(both);
        uint32_t meant = pithi_unit_narrow(dtype, pithi_bits((float)code * scale + zero));
        if (pithi_halves_lost(both)) {
            meant = pithi_unit_round(dtype, PITHI_F32_NAN);
            t->read.poisoned += !(t->tid & (s->paged.page.lanes - 1));
        }
        t->kv.meant[u] = meant << 16;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->kv.codes[u][k] =
            t->kv.raw[u].word[0] >> 4 * k;
    }
    if (next < s->paged.page.fulls) pithi_full_heads_fetch(a, s, t, next);
}
PITHI_LOCAL(pithi_full_heads_give, uint32_t tile) {
    (void)a;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        struct pithi_quad out;
        PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) out.word[k] =
            pithi_high_halves(t->kv.means[u][2 * k], t->kv.means[u][2 * k + 1]);
        pithi_put_quad(pithi_full_values(&s->paged.page, t, tile, u), out);
    }
}

PITHI_DEVICE uint32_t pithi_full_heads_decode(const struct pithi_gpu_call *a,
                                              struct pithi_gpu_shared *s,
                                              struct pithi_gpu_thread *t, struct pithi_team *team,
                                              uint32_t tile) {
    PITHI_STEP(pithi_full_heads_fetch, tile);
    for (; tile < s->paged.page.fulls; tile += a->kv.parts) {
        if (s->paged.page.lanes < PITHI_LANES) {
            PITHI_STEP(pithi_full_heads_put, tile, tile + a->kv.parts);
            continue;
        }
        PITHI_STEP(pithi_full_heads_mean, tile + a->kv.parts);
        PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
            PITHI_WARP_PICK(kv.meant[u], kv.means[u], kv.codes[u], PITHI_UNIT, PITHI_LANES);
        PITHI_STEP(pithi_full_heads_give, tile);
    }
    return tile;
}

PITHI_LOCAL(pithi_full_columns_fetch, uint32_t band, uint32_t chunk) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t row = g->heads * g->dim, step = g->heads * g->string * g->rows;
    const uint8_t *const codes = pithi_full_string(&a->from.plan, g, t, band, chunk);
    const uint8_t *const at = g->bytes + 4 * (band * row) + pithi_full_unit(t, chunk) * 16;
    t->kv.grids[0] = pithi_get_quad(at);
    t->kv.grids[1] = pithi_get_quad(at + 2 * row);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_DEEP; u++) t->kv.raw[u].word[0] =
        pithi_get_aligned32(codes + u * step);
}

PITHI_DEVICE void pithi_full_column_any(const struct pithi_gpu_call *a,
                                        const struct pithi_gpu_shared *s,
                                        const struct pithi_quad grids[2],
                                        const uint32_t word[PITHI_DEEP], uint8_t *to,
                                        int64_t step) {
    uint32_t scale[PITHI_UNIT], zero[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        scale[k] = grids[0].word[k / 2] >> k % 2 * 16 & 0xFFFFu;
        zero[k] = grids[1].word[k / 2] >> k % 2 * 16 & 0xFFFFu;
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_DEEP; u++)
        pithi_put_quad(to + u * step, pithi_full_any(a, &s->paged, word[u], scale, zero));
}

PITHI_LOCAL(pithi_full_columns_put, uint32_t band, uint32_t chunk, uint32_t next_band,
            uint32_t next_chunk, bool more) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_quad grids[2] = {t->kv.grids[0], t->kv.grids[1]};
    const int64_t step = 2 * (g->token_stride * g->rows);
    uint8_t *const to = pithi_full_place(&a->from.plan, g, t, band, chunk);
    uint32_t word[PITHI_DEEP], lost = 0;
    float scale[PITHI_UNIT], zero[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_DEEP; u++) word[u] = t->kv.raw[u].word[0];
    if (more) pithi_full_columns_fetch(a, s, t, next_band, next_chunk);
    PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) lost |=
        pithi_halves_lost(grids[0].word[k]) | pithi_halves_lost(grids[1].word[k]);
    if (lost) {
        /* The threads of the tile's first row count. */
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT && t->tid < PITHI_WARP; k++) {
            const uint32_t half = 0xFFFFu << k % 2 * 16;
            t->read.poisoned += pithi_halves_lost(grids[0].word[k / 2] & half) ||
                                pithi_halves_lost(grids[1].word[k / 2] & half);
        }
        pithi_full_column_any(a, s, grids, word, to, step);
        return;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t up = k % 2 ? 0 : 16;
        pithi_full_meaning(grids[0].word[k / 2] << up, grids[1].word[k / 2] << up, k % 4, &scale[k],
                           &zero[k]);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_DEEP; u++) pithi_put_quad(
        to + u * step, pithi_full_decoded(a->from.items.dtype, word[u], scale, zero));
}

PITHI_DEVICE uint32_t pithi_full_columns_decode(const struct pithi_gpu_call *a,
                                                struct pithi_gpu_shared *s,
                                                struct pithi_gpu_thread *t, struct pithi_team *team,
                                                uint32_t tile) {
    const uint32_t end = s->paged.page.fulls, chunks = s->paged.page.chunks;
    uint32_t band = tile / chunks, chunk = tile % chunks;
    PITHI_STEP(pithi_full_columns_fetch, band, chunk);
    while (tile < end) {
        const uint32_t next = tile + a->kv.parts, next_band = next / chunks,
                       next_chunk = next - next_band * chunks;
        PITHI_STEP(pithi_full_columns_put, band, chunk, next_band, next_chunk, next < end);
        tile = next;
        band = next_band;
        chunk = next_chunk;
    }
    return tile;
}

#endif
