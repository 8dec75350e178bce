/* group.h - the group quantizer: what wdiff and grad use now, KV caches later.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, section Group quantizer, states the arithmetic and proves its bounds; group.c is
 * the same text in C; the kernels reproduce it byte for byte. */
#ifndef PITHI_GROUP_H
#define PITHI_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/numeric.h"
#include "stage/pad.h"

/* A scale of 8 bits: 2^(byte - 127); 255 is NaN. */
#define PITHI_E8M0 32

struct pithi_group_setting {
    uint32_t group;      /* elements, a power of two 16..16384; the last group may be short */
    uint8_t bits;        /* 1..8; symmetric: 2..8 */
    uint8_t scale_dtype; /* PITH_F32, PITH_BF16 or, symmetric without a base, PITHI_E8M0 */
    bool asymmetric;     /* scale and zero point per group instead of a scale */
    bool stochastic;
    bool search; /* encode, symmetric, nearest, no base: the scale of least error, any sign */
};

/* One call: `count` consecutive elements beginning at a group boundary.
 *
 * Encode. d = value - base (base NONE: d = value); codes and scales are written; with `update` the
 * base becomes round(base + decoded d).
 * Decode. x' from codes and scales. Without base: out = x'. With base: b' = round(base + x') to the
 * base dtype; out = b' (if out is not NULL), base = b' (if update).
 * A non-finite base element reads as +0. out and base may be the same memory only when out is NULL.
 *
 * codes: element i at bits [i*bits, (i+1)*bits) of a little-endian bit string (LSB first). The last
 * byte's unused bits are written 0 and ignored by decode.
 * scales: one per group; asymmetric: scale then zero point, interleaved. */
struct pithi_group_job {
    struct pithi_group_setting set;
    size_t count;
    const void *value; /* encode */
    const void *ahead; /* encode: what the caller reads next, when value is in the cache; or NULL */
    void *out;         /* decode */
    void *base;
    uint8_t *codes, *scales;                     /* decode only reads them */
    uint32_t value_dtype, out_dtype, base_dtype; /* PITH_F32, PITH_BF16, PITH_F16; base: or NONE */
    bool update;
    /* What is made (out; codes and scales) is large and will not be read soon: non-temporal
     * stores pay. */
    bool stream;
    struct pithi_random random; /* encode, stochastic */
    uint64_t first;             /* number of the first element, for random bits */
    /* Results, added to. */
    uint64_t saturated, poisoned;
};

typedef void pithi_group_fn(struct pithi_group_job *job);
pithi_group_fn pithi_group_encode_c, pithi_group_decode_c;

/* sum := x' of frame 0 (more: sum + it), + x' of frame 1, ..., each sum one f32 rounding. Frame k's
 * scales and codes lie at frames[k] + scales_at and frames[k] + codes_at. Symmetric settings. */
struct pithi_sum_job {
    struct pithi_group_setting set;
    size_t count;
    const uint8_t *const *frames;
    size_t frame_count, scales_at, codes_at;
    bool more;
    float *sum;
    uint64_t saturated, poisoned; /* added to */
};
typedef void pithi_sum_fn(struct pithi_sum_job *job);
pithi_sum_fn pithi_group_sum_c;

static inline size_t pithi_scale_width(uint32_t scale_dtype) {
    return scale_dtype == PITHI_E8M0 ? 1 : scale_dtype == PITH_F32 ? 4 : 2;
}
/* f32 bits of a stored scale, and back (a value of the scale dtype, or NaN). */
static inline uint32_t pithi_scale_load(const void *p, uint32_t dtype, size_t i) {
    if (dtype != PITHI_E8M0) return pithi_load(p, dtype, i);
    const uint32_t e = ((const uint8_t *)p)[i];
    return e == 255 ? PITHI_F32_NAN : e ? e << 23 : 0x00400000u; /* 2^-127 is subnormal */
}
static inline void pithi_scale_store(void *p, uint32_t dtype, size_t i, uint32_t u) {
    if (dtype == PITHI_E8M0)
        ((uint8_t *)p)[i] = (uint8_t)(u >> 23); /* +0 becomes 2^-127 */
    else
        pithi_store(p, dtype, i, u);
}

static inline size_t pithi_group_code_bytes(const struct pithi_group_setting *s, uint64_t count) {
    return (size_t)((count * s->bits + 7) / 8);
}
static inline size_t pithi_group_scale_bytes(const struct pithi_group_setting *s, uint64_t count) {
    const uint64_t groups = (count + s->group - 1) / s->group;
    return (size_t)groups * pithi_scale_width(s->scale_dtype) * (s->asymmetric ? 2u : 1u);
}
/* A block of groups: scales, codes, each padded. Where its codes begin, and its bytes. */
static inline size_t pithi_group_codes_at(const struct pithi_group_setting *s, uint64_t count) {
    return (size_t)pithi_pad16(pithi_group_scale_bytes(s, count));
}
static inline size_t pithi_group_block_bytes(const struct pithi_group_setting *s, uint64_t count) {
    return pithi_group_codes_at(s, count) + (size_t)pithi_pad16(pithi_group_code_bytes(s, count));
}
/* Largest |d - x'| over the groups of encoded scales; NaN when one is poisoned. */
double pithi_group_bound(const struct pithi_group_setting *s, const uint8_t *scales,
                         uint64_t count);

/* Parts of the arithmetic that kernels share with the scalar text, per group or per rare value. */

/* The search for a scale. Set: what the scale of the largest value is, that value's magnitude bits
 * and whether one is positive. _begin sets the other parts: values v are (turned, when turn is the
 * sign bit) d * reciprocal; a candidate's codes q are v * factor rounded to nearest and clamped to
 * [least, most]; vq and qq are to be the sums of v q and q q. _end chooses. The arrays have room
 * for steps of 3 and of 4. */
enum { PITHI_SEARCH_MOST = 15, PITHI_SEARCH_ROOM = 16 };
struct pithi_search {
    const struct pithi_group_setting *set;
    float scale;
    uint32_t largest;
    bool above;
    uint32_t turn;
    float unit, reciprocal;
    int least, most, candidates;
    float factor[PITHI_SEARCH_ROOM], vq[PITHI_SEARCH_ROOM], qq[PITHI_SEARCH_ROOM];
};
void pithi_search_begin(struct pithi_search *s);
/* The scale, rounded to the scale dtype. */
float pithi_search_end(const struct pithi_search *s);

/* Scale and its reciprocal of a symmetric group with maximum magnitude bits m. Returns false for
 * groups without codes (poisoned: scale NaN; tiny: scale +0); *scale is what will be stored,
 * already rounded to the scale dtype. */
bool pithi_group_scale(const struct pithi_group_setting *s, uint32_t m, float *scale,
                       float *reciprocal);
/* The same for an asymmetric group whose smallest and largest values are lo and hi (finite). */
bool pithi_group_range(const struct pithi_group_setting *s, float lo, float hi, float *scale,
                       float *zero, float *reciprocal);
/* One update: base and the result are bits of base_dtype widened to f32. *saturated is added to. */
uint32_t pithi_group_update(uint32_t base, uint32_t x, uint32_t base_dtype, uint64_t *saturated);

#endif
