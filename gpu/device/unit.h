/* unit.h - eight neighbouring elements: loads, stores, packed codes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Fast where 16 bytes are aligned and all eight exist, right everywhere. */
#ifndef PITHI_GPU_DEVICE_UNIT_H
#define PITHI_GPU_DEVICE_UNIT_H

#include "common/nh.h"
#include "device/call.h"
#include "device/phase.h"

PITHI_DEVICE float pithi_size(float x) {
#ifdef __CUDACC__
    return fabsf(x);
#else
    return pithi_float(pithi_magnitude(pithi_bits(x)));
#endif
}

/* raw := the n elements of `width` bytes, 2 or 4, at p, side by side as they lie there; then zeros.
 * Nothing looks at what is on its way, so that more can be under way at once. */
PITHI_DEVICE void pithi_unit_fetch(const uint8_t *p, uint32_t width, uint32_t n, uint32_t raw[8]) {
    if (n == PITHI_UNIT && pithi_is_aligned(p, 16)) {
        const struct pithi_quad a = pithi_get_quad(p), none = {{0, 0, 0, 0}};
        const struct pithi_quad b = width == 4 ? pithi_get_quad(p + 16) : none;
        PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
            raw[k] = a.word[k];
            raw[k + 4] = b.word[k];
        }
        return;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) raw[k] = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (k >= n) continue;
        if (width == 4)
            raw[k] = pithi_get32(p + 4 * k);
        else
            raw[k / 2] |= (uint32_t)pithi_get16(p + 2 * k) << k % 2 * 16;
    }
}

/* bits := the elements of raw. */
PITHI_DEVICE void pithi_unit_spread(uint32_t width, const uint32_t raw[8], uint32_t bits[8]) {
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) bits[k] =
        width == 4 ? raw[k] : raw[k / 2] >> k % 2 * 16 & 0xFFFFu;
}

/* bits := those of the n elements of `width` bytes at p; then zeros. */
PITHI_DEVICE void pithi_unit_get(const uint8_t *p, uint32_t width, uint32_t n, uint32_t bits[8]) {
    uint32_t raw[PITHI_UNIT];
    pithi_unit_fetch(p, width, n, raw);
    pithi_unit_spread(width, raw, bits);
}

/* The other way: raw := bits side by side; then zeros. */
PITHI_DEVICE void pithi_unit_join(uint32_t width, const uint32_t bits[8], uint32_t raw[8]) {
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t i = 2 * k % PITHI_UNIT;
        raw[k] = width == 4 ? bits[k] : k < PITHI_UNIT / 2 ? bits[i] | bits[i + 1] << 16 : 0;
    }
}

/* The first n elements of raw, of `width` bytes, to p. */
PITHI_DEVICE void pithi_unit_put_raw(uint8_t *p, uint32_t width, uint32_t n,
                                     const uint32_t raw[8]) {
    if (n < PITHI_UNIT || !pithi_is_aligned(p, 16)) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            if (k >= n) continue;
            if (width == 4)
                pithi_put32(p + 4 * k, raw[k]);
            else
                pithi_put16(p + 2 * k, (uint16_t)(raw[k / 2] >> k % 2 * 16));
        }
        return;
    }
    const struct pithi_quad a = {{raw[0], raw[1], raw[2], raw[3]}},
                            b = {{raw[4], raw[5], raw[6], raw[7]}};
    pithi_put_quad(p, a);
    if (width == 4) pithi_put_quad(p + 16, b);
}

PITHI_DEVICE void pithi_unit_put(uint8_t *p, uint32_t width, uint32_t n, const uint32_t bits[8]) {
    uint32_t raw[PITHI_UNIT];
    pithi_unit_join(width, bits, raw);
    pithi_unit_put_raw(p, width, n, raw);
}

/* f32 bits from those of a dtype, exactly. */
PITHI_DEVICE uint32_t pithi_unit_widen(uint32_t dtype, uint32_t bits) {
    if (dtype == PITH_F32) return bits;
    return dtype == PITH_BF16 ? bits << 16 : pithi_from_f16((uint16_t)bits);
}

/* f32 bits rounded as pithi_store rounds them. */
PITHI_DEVICE uint32_t pithi_unit_round(uint32_t dtype, uint32_t u) {
    const float x = pithi_float(u);
    if (dtype == PITH_F32) return x != x ? PITHI_F32_NAN : u;
    return dtype == PITH_BF16 ? pithi_to_bf16(u) : pithi_to_f16(u);
}

/* Rounds as pithi_unit_round, but only what is finite and stays so. */
PITHI_DEVICE uint32_t pithi_unit_narrow(uint32_t dtype, uint32_t u) {
    if (dtype == PITH_BF16) return (u + 0x7FFFu + (u >> 16 & 1u)) >> 16;
    return dtype == PITH_F32 ? u : pithi_to_f16(u);
}

/* Nearly all units are calm: nothing in them is infinite or NaN, or becomes that. One sum tells: it
 * is not less than any magnitude, as a sum that rounds to nearest is not below its parts. */
PITHI_DEVICE float pithi_unit_size(const float x[8]) {
    float sum[2] = {pithi_size(x[0]), pithi_size(x[1])};
    PITHI_UNROLL for (uint32_t k = 2; k < PITHI_UNIT; k++) sum[k % 2] += pithi_size(x[k]);
    return sum[0] + sum[1];
}
/* Below it nothing is infinite, whatever the dtype's rounding. */
PITHI_DEVICE float pithi_calm(uint32_t dtype) { return dtype == PITH_F16 ? 0x1p15f : 0x1p127f; }

/* raw := side by side, the elements of a calm unit, rounded. */
PITHI_DEVICE void pithi_unit_narrow_all(uint32_t dtype, const float x[8], uint32_t raw[8]) {
    uint32_t bits[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) bits[k] =
        dtype == PITH_F16 ? pithi_to_f16(pithi_bits(x[k])) : pithi_bits(x[k]);
    pithi_unit_join(dtype == PITH_F32 ? 4 : 2, bits, raw);
    if (dtype != PITH_BF16) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k += 2) raw[k / 2] =
        pithi_bf16_pair(x[k], x[k + 1]);
}

/* bits := those of another dtype. */
PITHI_DEVICE void pithi_unit_recast(uint32_t from, uint32_t to, uint32_t bits[8]) {
    if (from == to) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) bits[k] =
        pithi_unit_round(to, pithi_unit_widen(from, bits[k]));
}

/* x := f32 bits of fetched elements. */
PITHI_DEVICE void pithi_unit_read(uint32_t dtype, const uint32_t raw[8], uint32_t x[8]) {
    if (dtype == PITH_BF16) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] =
            k % 2 ? raw[k / 2] & 0xFFFF0000u : raw[k / 2] << 16;
        return;
    }
    pithi_unit_spread(dtype == PITH_F32 ? 4 : 2, raw, x);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] = pithi_unit_widen(dtype, x[k]);
}
/* x := f32 bits of the n elements at p, then zeros. */
PITHI_DEVICE void pithi_unit_load(const uint8_t *p, uint32_t dtype, uint32_t n, uint32_t x[8]) {
    uint32_t raw[PITHI_UNIT];
    pithi_unit_fetch(p, dtype == PITH_F32 ? 4 : 2, n, raw);
    pithi_unit_read(dtype, raw, x);
}

/* raw := side by side, x rounded as pithi_store rounds. */
PITHI_DEVICE void pithi_unit_stored(uint32_t dtype, const uint32_t x[8], uint32_t raw[8]) {
    float v[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] = pithi_float(x[k]);
    if (pithi_unit_size(v) < pithi_calm(dtype)) {
        pithi_unit_narrow_all(dtype, v, raw);
        return;
    }
    uint32_t bits[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) bits[k] = pithi_unit_round(dtype, x[k]);
    pithi_unit_join(dtype == PITH_F32 ? 4 : 2, bits, raw);
}
PITHI_DEVICE void pithi_unit_store(uint8_t *p, uint32_t dtype, uint32_t n, const uint32_t x[8]) {
    uint32_t raw[PITHI_UNIT];
    pithi_unit_stored(dtype, x, raw);
    pithi_unit_put_raw(p, dtype == PITH_F32 ? 4 : 2, n, raw);
}

/* Partial hash of n elements of `width` bytes, side by side in raw, then zeros; e: number of the
 * first in its slot, a multiple of 8. */
PITHI_DEVICE uint64_t pithi_unit_hash(uint32_t width, uint64_t e, uint32_t n,
                                      const uint32_t raw[8]) {
    /* A lane is 8 bytes: as many of them as an element has. */
    uint64_t sum = 0, key = pithi_nh_key(e / PITHI_UNIT * width);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT / 2; k++) {
        if (8 * k >= n * width) continue;
        sum += pithi_nh_halves(raw[2 * k] ^ (uint32_t)key, raw[2 * k + 1] ^ (uint32_t)(key >> 32));
        key += PITHI_NH_WEYL;
    }
    return sum;
}
/* Returns the hash that pithi_unit_hash makes, of values whose bits have a word each. */
PITHI_DEVICE uint64_t pithi_unit_hash_bits(uint32_t dtype, uint64_t e, uint32_t n,
                                           const uint32_t bits[8]) {
    const uint32_t width = pithi_dtype_bytes(dtype);
    uint32_t raw[PITHI_UNIT];
    pithi_unit_join(width, bits, raw);
    return pithi_unit_hash(width, e, n, raw);
}

/* The codes of n elements, code k at bits [k * bits, (k + 1) * bits) of word; p has space for what
 * they need and no more. */
PITHI_DEVICE void pithi_unit_put_codes(uint8_t *p, uint32_t bits, uint32_t n, uint64_t word) {
    const uint32_t bytes = (n * bits + 7) / 8;
    if (n == PITHI_UNIT && bits == 4 && pithi_is_aligned(p, 4)) {
        pithi_put_aligned32(p, (uint32_t)word);
    } else if (n == PITHI_UNIT && bits == 8 && pithi_is_aligned(p, 8)) {
        pithi_put_aligned64(p, word);
    } else {
        for (uint32_t k = 0; k < bytes; k++) p[k] = (uint8_t)(word >> 8 * k);
    }
}

PITHI_DEVICE uint64_t pithi_unit_get_codes(const uint8_t *p, uint32_t bits, uint32_t n) {
    const uint32_t bytes = (n * bits + 7) / 8;
    if (n == PITHI_UNIT && bits == 4 && pithi_is_aligned(p, 4)) return pithi_get_aligned32(p);
    if (n == PITHI_UNIT && bits == 8 && pithi_is_aligned(p, 8)) return pithi_get_aligned64(p);
    uint64_t word = 0;
    for (uint32_t k = 0; k < bytes; k++) word |= (uint64_t)p[k] << 8 * k;
    return word;
}

/* How far the codes of a setting reach below 0. */
PITHI_DEVICE uint32_t pithi_unit_half(const struct pithi_group_setting *set) {
    return set->asymmetric ? 0 : 1u << (set->bits - 1);
}

/* Code k of a word, on top of 2^23, where its bits are the lowest. */
PITHI_DEVICE uint32_t pithi_unit_lifted(uint64_t word, uint32_t bits, uint32_t half, uint32_t k) {
    const uint32_t lift = pithi_bits(0x1p23f), mask = (1u << bits) - 1;
    const uint32_t four = (uint32_t)(word >> k / 4 * 4 * bits);              /* of them it is one */
    const uint32_t two = ((uint32_t)word ^ 0x11111111u * half) >> k % 2 * 4; /* a byte for it */
    if (bits == 8) return pithi_byte_on(four ^ 0x01010101u * half, k % 4, lift);
    if (bits == 4) return pithi_byte_on(two & 0x0F0F0F0Fu, k / 2, lift);
    return (four >> k % 4 * bits & mask) ^ (lift | half);
}

/* Returns code k of a word as a number: 2^23 is subtracted again, since a conversion of integers
 * takes longer than a sum. */
PITHI_DEVICE float pithi_unit_code(uint64_t word, uint32_t bits, uint32_t half, uint32_t k) {
    return pithi_float(pithi_unit_lifted(word, bits, half, k)) - (0x1p23f + (float)half);
}

/* A unit's codes side by side; t: each of them lifted, see group/group_value.h. */
PITHI_DEVICE uint64_t pithi_unit_pack(const float t[8], uint32_t bits, uint32_t half) {
    const uint32_t ones = 1u | 1u << bits | 1u << 2 * bits | 1u << 3 * bits;
    const uint32_t lift = ones * (pithi_bits(PITHI_LIFT) - half);
    uint32_t word[2] = {0, 0};
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) word[k / 4] += pithi_bits(t[k])
                                                                          << k % 4 * bits;
    PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) word[i] = (word[i] - lift) ^ ones * half;
    return word[0] | (uint64_t)word[1] << 4 * bits;
}

/* What is behind the n elements of a unit is 0: its codes are 0, and no group has a larger one. */
PITHI_DEVICE void pithi_unit_end(uint32_t n, float x[8]) {
    if (n == PITHI_UNIT) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (k >= n) x[k] = 0;
}

/* ---- Bases -----------------------------------------------------------------------------------*/

/* x := x - base, bits of f32, of which those that are not finite count as 0. */
PITHI_DEVICE void pithi_unit_less(const uint32_t base[8], float x[8]) {
    float b[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) b[k] = pithi_float(base[k]);
    if (!(pithi_unit_size(b) < pithi_calm(PITH_F32))) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (pithi_nonfinite(base[k])) b[k] =
            0;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] = x[k] - b[k];
}

/* raw := side by side, of the base's dtype, what pithi_group_update makes of it, then zeros; of n
 * elements those that saturate are counted. */
PITHI_DEVICE void pithi_unit_update(uint32_t dtype, const uint32_t base[8], const float x[8],
                                    uint32_t n, uint64_t *saturated, uint32_t raw[8]) {
    float sum[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) sum[k] = pithi_float(base[k]) + x[k];
    pithi_unit_end(n, sum);
    if (pithi_unit_size(sum) < pithi_calm(dtype)) {
        pithi_unit_narrow_all(dtype, sum, raw);
        return;
    }
    uint32_t bits[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        uint64_t over = 0;
        const uint32_t next = pithi_group_update(base[k], pithi_bits(x[k]), dtype, &over);
        bits[k] = k < n ? pithi_unit_round(dtype, next) : 0;
        if (k < n) *saturated += over;
    }
    pithi_unit_join(dtype == PITH_F32 ? 4 : 2, bits, raw);
}

/* Where element e of a slot lies: its block's place in the payload, and its number in it. */
struct pithi_gpu_spot {
    uint64_t block, at;
    uint32_t inside, count; /* count: elements of the block */
};
PITHI_DEVICE struct pithi_gpu_spot pithi_spot(const struct pithi_device_plan *p,
                                              const struct pithi_device_plan_form *form,
                                              uint64_t count, uint64_t e) {
    struct pithi_gpu_spot s;
    const uint64_t size = (uint64_t)1 << p->block_log2;
    s.block = e >> p->block_log2;
    s.at = form->data + s.block * form->block_bytes;
    s.inside = (uint32_t)(e & (size - 1));
    const uint64_t left = count - (s.block << p->block_log2);
    s.count = (uint32_t)(left < size ? left : size);
    return s;
}
/* Offsets in the payload of the scale of the spot's group, and of its codes. */
PITHI_DEVICE uint64_t pithi_spot_scale(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_spot *s) {
    return s->at + (uint64_t)(s->inside / p->device.groups.set.group) *
                       pithi_scale_width(p->device.groups.set.scale_dtype);
}
PITHI_DEVICE uint64_t pithi_spot_codes(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_spot *s) {
    return s->at + pithi_group_codes_at(&p->device.groups.set, s->count) +
           (uint64_t)s->inside * p->device.groups.set.bits / 8;
}

/* How many of the eight elements from e on are before end. */
PITHI_DEVICE uint32_t pithi_unit_left(uint64_t e, uint64_t end) {
    return e >= end ? 0 : end - e < PITHI_UNIT ? (uint32_t)(end - e) : PITHI_UNIT;
}

#endif
