/* group_value.h - the group quantizer's arithmetic on one value and on one scale.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every backend shares: the scalar loops of group.c, the rare paths of the CPU
 * kernels, and the CUDA kernels. */
#ifndef PITHI_GROUP_GROUP_VALUE_H
#define PITHI_GROUP_GROUP_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/numeric.h"
#include "common/pad.h"

/* A scale of 8 bits: 2^(byte - 127); 255 is NaN. */
#define PITHI_E8M0 32

/* The bits of 2^119: no code times a scale below it overflows. */
#define PITHI_SCALE_LIMIT 0x7B000000u

struct pithi_group_setting {
    uint32_t group; /* elements, a power of two in 16..16384; the last group may be short */
    uint8_t bits;   /* 1..8; symmetric: 2..8 */
    /* PITH_F32, PITH_BF16 or, symmetric without a base, PITHI_E8M0; asymmetric or idempotent
     * also PITH_F16. */
    uint8_t scale_dtype;
    bool asymmetric; /* a group has a scale and a zero point; always idempotent */
    bool stochastic; /* not idempotent */
    bool search;     /* encode, symmetric, nearest, no base: any scale, that of least error */
    bool idempotent; /* symmetric: what a group decodes to has the group's own scale */
    /* encode, idempotent, no base, groups of at most 256: choose the part of the range that loses
     * least */
    bool shrink;
    bool short_zero; /* encode, asymmetric: zero points of 6 significant bits */
    /* 0: codes are steps of the scale; else see group/codebook_value.h. No base, but for trellis */
    uint8_t codebook;
};

PITHI_INLINE size_t pithi_scale_width(uint32_t scale_dtype) {
    return scale_dtype == PITHI_E8M0 ? 1 : scale_dtype == PITH_F32 ? 4 : 2;
}
/* Load the f32 bits of a stored scale, and store them (a value of the scale dtype, or NaN). */
PITHI_INLINE uint32_t pithi_scale_load(const void *p, uint32_t dtype, size_t i) {
    if (dtype != PITHI_E8M0) return pithi_load(p, dtype, i);
    const uint32_t e = ((const uint8_t *)p)[i];
    return e == 255 ? PITHI_F32_NAN : e ? e << 23 : 0x00400000u; /* 2^-127 is subnormal */
}
PITHI_INLINE void pithi_scale_store(void *p, uint32_t dtype, size_t i, uint32_t u) {
    if (dtype == PITHI_E8M0)
        ((uint8_t *)p)[i] = (uint8_t)(u >> 23); /* +0 becomes 2^-127 */
    else
        pithi_store(p, dtype, i, u);
}

PITHI_INLINE size_t pithi_group_code_bytes(const struct pithi_group_setting *s, uint64_t count) {
    return (size_t)((count * s->bits + 7) / 8);
}
PITHI_INLINE size_t pithi_group_scale_bytes(const struct pithi_group_setting *s, uint64_t count) {
    const uint64_t groups = (count + s->group - 1) / s->group;
    return (size_t)groups * pithi_scale_width(s->scale_dtype) * (s->asymmetric ? 2u : 1u);
}
/* A block of groups has scales, then codes, each padded. These return where its codes begin, and
 * its bytes. */
PITHI_INLINE size_t pithi_group_codes_at(const struct pithi_group_setting *s, uint64_t count) {
    return (size_t)pithi_pad16(pithi_group_scale_bytes(s, count));
}
PITHI_INLINE size_t pithi_group_block_bytes(const struct pithi_group_setting *s, uint64_t count) {
    return pithi_group_codes_at(s, count) + (size_t)pithi_pad16(pithi_group_code_bytes(s, count));
}

/* ---- Rounding --------------------------------------------------------------------------------*/

/* Turn float bits into integers in the order of the values, and back; -0 is below +0. */
PITHI_INLINE int32_t pithi_ordered(uint32_t u) { return (int32_t)(u >> 31 ? u ^ 0x7FFFFFFFu : u); }
PITHI_INLINE float pithi_from_ordered(int32_t o) {
    return pithi_float(o < 0 ? (uint32_t)o ^ 0x7FFFFFFFu : (uint32_t)o);
}

/* For |v| < 2^22, adding and subtracting 1.5 * 2^23 rounds to nearest even. In between, lifted, the
 * low bits are those of the integer. */
#define PITHI_LIFT 0x1.8p23f
PITHI_INLINE float pithi_lift(float v) { return v + PITHI_LIFT; }
PITHI_INLINE float pithi_lower(float lifted) { return lifted - PITHI_LIFT; }
PITHI_INLINE int pithi_round_even(float v) { return (int)pithi_lower(pithi_lift(v)); }

/* Returns floor(v), plus one when the 16 random bits are below the fraction: v with 16 bits after
 * the point, rounded down, and a carry out of them. |v| < 2^9. */
PITHI_INLINE int pithi_round_stochastic(float v, uint32_t random16) {
    const float scaled = v * 65536.0f;
    int t = (int)scaled;
    t -= (float)t > scaled;
    return ((t + (1 << 25) + 65535 - (int)random16) >> 16) - (1 << 9);
}

PITHI_INLINE int pithi_clamp(int q, int lo, int hi) { return q < lo ? lo : q > hi ? hi : q; }
/* Clamps numbers, none of which is NaN. The sign of a 0 may be any. */
PITHI_INLINE float pithi_within(float v, float lo, float hi) {
#ifdef __CUDA_ARCH__
    return fminf(fmaxf(v, lo), hi);
#else
    return v < lo ? lo : v > hi ? hi : v;
#endif
}

/* ---- Scale of a group ------------------------------------------------------------------------*/

#define PITHI_GROUP_TINY 0x04800000u /* bits of 2^-118: smaller groups are all zero */

PITHI_INLINE uint32_t pithi_magnitude(uint32_t u) { return u & 0x7FFFFFFFu; }

/* Returns the smallest power of two not below s; NaN from above 2^127 on. */
PITHI_INLINE float pithi_power_above(float s) {
    const uint32_t up = (pithi_bits(s) + 0x007FFFFFu) & 0xFF800000u;
    return pithi_float(up < PITHI_F32_INF ? up : PITHI_F32_NAN);
}

/* Rounds to the scale dtype: to nearest even, with finite values staying finite; e8m0: up, or
 * NaN. */
PITHI_INLINE float pithi_round_scale(uint32_t dtype, float s) {
    if (dtype == PITH_F32) return s;
    if (dtype == PITHI_E8M0) return pithi_power_above(s);
    uint16_t h = pithi_to_bf16(pithi_bits(s));
    if (pithi_magnitude(pithi_from_bf16(h)) == PITHI_F32_INF)
        h = (uint16_t)((h & 0x8000u) | PITHI_BF16_MAX);
    return pithi_float(pithi_from_bf16(h));
}

PITHI_INLINE bool pithi_group_scale(const struct pithi_group_setting *s, uint32_t m, float *scale,
                                    float *reciprocal) {
    *reciprocal = 0;
    *scale = m >= PITHI_F32_INF ? pithi_float(PITHI_F32_NAN) : 0;
    if (m >= PITHI_F32_INF || m < PITHI_GROUP_TINY) return false;
    const float levels = (float)((1 << (s->bits - 1)) - 1);
    *scale = pithi_round_scale(s->scale_dtype, pithi_float(m) / levels);
    *reciprocal = 1.0f / *scale;
    return !pithi_nonfinite(pithi_bits(*scale));
}

/* ---- Idempotent groups -----------------------------------------------------------------------
 * Scale and zero point of an idempotent group are those of the values it decodes to, so that coding
 * these again changes nothing. A scale has at most 16 significant bits: the least and the largest
 * decoded value determine it although both are rounded. */

struct pithi_grid {
    float scale, zero, reciprocal; /* reciprocal 0: all codes are 0 */
    float most;                    /* the largest code, 0 when not known yet */
};

/* Rounds to nearest even, infinities included. */
PITHI_INLINE float pithi_round_to(uint32_t dtype, float x) {
    const uint32_t u = pithi_bits(x);
    if (dtype == PITH_F16) return pithi_float(pithi_from_f16(pithi_to_f16(u)));
    if (dtype == PITH_BF16) return pithi_float(pithi_from_bf16(pithi_to_bf16(u)));
    return x;
}
PITHI_INLINE float pithi_round_step(uint32_t dtype, float s) {
    const uint32_t u = pithi_bits(s);
    if (dtype != PITH_F32) return pithi_round_to(dtype, s);
    return pithi_float((u + 0x7Fu + (u >> 8 & 1u)) & 0xFFFFFF00u);
}
/* Whether zero points are short: those of transformed values, which come back changed by what
 * rounding took from decoded ones. */
PITHI_INLINE bool pithi_short_zeros(const struct pithi_group_setting *s, bool rotated) {
    return rotated && s->asymmetric && s->scale_dtype == PITH_BF16;
}
/* Rounds a zero point, which is never -0. A short one stays when the least value is not quite what
 * it was. */
PITHI_INLINE float pithi_round_zero(const struct pithi_group_setting *s, float lo) {
    const float zero = pithi_round_to(s->scale_dtype, lo) + 0.0f;
    const uint32_t u = pithi_bits(zero);
    return s->short_zero ? pithi_float((u + 0x1FFFFu + (u >> 18 & 1u)) & 0xFFFC0000u) : zero;
}
/* Returns the number of a scale dtype next to x towards 0; x is not 0 and, in f32 or bf16,
 * normal. */
PITHI_INLINE float pithi_inward(uint32_t dtype, float x) {
    const uint32_t u = pithi_bits(x);
    if (dtype == PITH_F16) return pithi_float(pithi_from_f16((uint16_t)(pithi_to_f16(u) - 1)));
    return pithi_float(u - (dtype == PITH_F32 ? 0x100u : 0x10000u)); /* an f32 scale has 16 bits */
}

PITHI_INLINE int pithi_group_levels(const struct pithi_group_setting *s) {
    return (1 << (s->asymmetric ? s->bits : s->bits - 1)) - 1;
}

/* Returns what the last code decodes to, in the dtype of the values. */
PITHI_INLINE float pithi_grid_top(const struct pithi_group_setting *s, uint32_t dtype,
                                  const struct pithi_grid *r) {
    return pithi_round_to(dtype, (float)pithi_group_levels(s) * r->scale + r->zero);
}

/* Returns scale and zero point for values from lo to hi; symmetric: lo is 0. Both are NaN when one
 * of them, or what the last code means before the zero point is added, is not finite in its dtype.
 * No decoded value is infinite in the dtype of the values. */
PITHI_INLINE struct pithi_grid pithi_grid_of(const struct pithi_group_setting *s, uint32_t dtype,
                                             float lo, float hi) {
    const uint32_t to = s->scale_dtype;
    const float levels = (float)pithi_group_levels(s);
    struct pithi_grid r = {.zero = pithi_round_zero(s, lo)};
    bool lost = pithi_nonfinite(pithi_bits(r.zero));
    if (pithi_nonfinite(pithi_bits(pithi_round_to(dtype, r.zero))))
        r.zero = pithi_inward(to, r.zero);
    const float range = hi - r.zero;
    if (range >= pithi_float(PITHI_GROUP_TINY)) r.scale = pithi_round_step(to, range / levels);
    lost = lost || pithi_nonfinite(pithi_bits(range)) || pithi_nonfinite(pithi_bits(r.scale));
    if (pithi_nonfinite(pithi_bits(pithi_grid_top(s, dtype, &r))))
        r.scale = pithi_inward(to, r.scale);
    if (lost || pithi_nonfinite(pithi_bits(levels * r.scale)))
        r.scale = r.zero = pithi_float(PITHI_F32_NAN);
    else if (r.scale != 0)
        r.reciprocal = 1.0f / r.scale;
    return r;
}

/* Return the code of x, with no code beyond most, and what a code decodes to; the range is
 * finite. */
PITHI_INLINE float pithi_grid_lifted(const struct pithi_group_setting *s,
                                     const struct pithi_grid *r, float most, float x) {
    const float least = s->asymmetric ? 0 : -most, v = (x - r->zero) * r->reciprocal;
    return pithi_lift(pithi_within(v, least, most));
}
PITHI_INLINE float pithi_grid_code(const struct pithi_group_setting *s, const struct pithi_grid *r,
                                   float most, float x) {
    return pithi_lower(pithi_grid_lifted(s, r, most, x));
}
PITHI_INLINE float pithi_grid_value(uint32_t dtype, const struct pithi_grid *r, float q) {
    return pithi_round_to(dtype, q * r->scale + r->zero);
}

/* Whether coding x changes nothing. */
PITHI_INLINE bool pithi_grid_keeps(const struct pithi_group_setting *s, uint32_t dtype,
                                   const struct pithi_grid *r, float x) {
    return pithi_grid_value(dtype, r, pithi_grid_code(s, r, r->most, x)) == x;
}

/* Makes r idempotent for a group with the least and largest values lo and hi (symmetric: 0 and the
 * largest magnitude) of this dtype. Where the dtype is coarser than the codes, and the last code
 * lies below hi, the last ones all decode to one value: the code of that value is the largest. */
PITHI_INLINE void pithi_idempotent_scale(const struct pithi_group_setting *s, uint32_t dtype,
                                         float lo, float hi, struct pithi_grid *r) {
    enum { ITERATIONS = 4 };
    const float levels = (float)pithi_group_levels(s);
    for (int iteration = 0; iteration < ITERATIONS && !pithi_nonfinite(pithi_bits(r->scale));
         iteration++) {
        const float low = pithi_grid_value(dtype, r, pithi_grid_code(s, r, levels, lo));
        const float high = pithi_grid_value(dtype, r, pithi_grid_code(s, r, levels, hi));
        const struct pithi_grid next = pithi_grid_of(s, dtype, s->asymmetric ? low : 0, high);
        const bool same = pithi_bits(next.scale) == pithi_bits(r->scale) &&
                          pithi_bits(next.zero) == pithi_bits(r->zero);
        *r = next;
        if (same) break;
    }
    if (r->reciprocal != 0) r->most = pithi_grid_code(s, r, levels, pithi_grid_top(s, dtype, r));
}

/* ---- Shrinking a range -----------------------------------------------------------------------*/

/* The search for the part of an idempotent group's range that loses least when what lies beyond is
 * clamped. Values become integers t from 0 to `top` once, where they lie in the range, so that
 * every sum is exact in any order. A part of the range, from `low` to `high` of these, gives codes.
 * The line that fits best what these stand for explains u u / v of the group: parts compare by
 * that.
 * Round 0 tries the same cuts on both sides; the others move the ends of the best line so far, and
 * the last one tries just these. Of at most 256 elements, 32 bits hold all numbers. */
enum {
    PITHI_SHRINK_CUTS = 6,
    PITHI_SHRINK_CUT = 16,
    PITHI_SHRINK_LEAST = 32, /* the shortest part: the range is an eighth of the whole or more */
    PITHI_SHRINK_BITS = 6,   /* wider codes see no less than t does */
    PITHI_SHRINK_GROUP = 256,
    PITHI_SHRINK_LOSS = 2047,
    PITHI_SHRINK_COARSE = 8,
};
struct pithi_shrink {
    bool asymmetric;
    int levels, shift, top; /* codes have `shift` bits below the point */
    float lo, range, factor;
    int count, sum;  /* of elements and of t */
    float u, v;      /* of the best part so far */
    int codes;       /* the sum of its codes */
    float low, high; /* of its line, once the round is over */
};
struct pithi_part {
    int low, high, reciprocal; /* none when the reciprocal is 0 */
};
/* Sums over a group: of its codes, of their squares, and of codes times t. */
struct pithi_shrink_sums {
    int codes, squares, products;
};

PITHI_INLINE int pithi_shrink_top(int levels) { return 255 / levels * levels; }
PITHI_INLINE int pithi_shrink_shift(const struct pithi_group_setting *s) {
    return 16 - (s->asymmetric ? s->bits : s->bits - 1);
}

/* Whether a group with these extremes is searched. */
PITHI_INLINE bool pithi_shrink_fits(const struct pithi_group_setting *s, float lo, float hi) {
    const float range = hi - lo;
    return s->bits <= PITHI_SHRINK_BITS && range >= pithi_float(PITHI_GROUP_TINY) &&
           range <= pithi_float(PITHI_F32_MAX);
}
PITHI_INLINE struct pithi_shrink pithi_shrink_begin(const struct pithi_group_setting *s, float lo,
                                                    float hi, int count) {
    const int levels = pithi_group_levels(s), top = pithi_shrink_top(levels);
    const struct pithi_shrink r = {.asymmetric = s->asymmetric,
                                   .levels = levels,
                                   .shift = pithi_shrink_shift(s),
                                   .top = top,
                                   .lo = lo,
                                   .range = hi - lo,
                                   .factor = (float)top / (hi - lo),
                                   .count = count,
                                   .v = 1,
                                   .high = (float)top};
    return r;
}
PITHI_INLINE float pithi_shrink_lifted(const struct pithi_shrink *s, float x) {
    const float from_low = s->asymmetric ? x - s->lo : pithi_float(pithi_magnitude(pithi_bits(x)));
    return pithi_lift(from_low * s->factor);
}
PITHI_INLINE int pithi_shrink_place(const struct pithi_shrink *s, float x) {
    return (int)pithi_lower(pithi_shrink_lifted(s, x));
}

/* By how much a round after the first moves the ends, up and down; 0: it is the last. */
PITHI_INLINE int pithi_shrink_move(bool asymmetric, int round) {
    return asymmetric ? round == 1 ? 16 : round == 2 ? 4 : 0 : round == 1 ? 8 : 0;
}
PITHI_INLINE struct pithi_part pithi_shrink_part(const struct pithi_shrink *s, int low, int high) {
    struct pithi_part p = {s->asymmetric && low > 0 ? low : 0, high < s->top ? high : s->top, 0};
    const int length = p.high - p.low;
    if (length >= PITHI_SHRINK_LEAST) p.reciprocal = (s->levels << s->shift) / length;
    return p;
}
PITHI_INLINE struct pithi_part pithi_shrink_cut(const struct pithi_shrink *s, int k) {
    return pithi_shrink_part(s, k * PITHI_SHRINK_CUT, s->top - k * PITHI_SHRINK_CUT);
}
PITHI_INLINE struct pithi_part pithi_shrink_moved(const struct pithi_shrink *s, int by) {
    return pithi_shrink_part(s, pithi_round_even(s->low) + by, pithi_round_even(s->high) + by);
}

PITHI_INLINE int pithi_shrink_code(const struct pithi_shrink *s, const struct pithi_part *p,
                                   int t) {
    const int x = pithi_clamp(t, p->low, p->high) - p->low;
    return (x * p->reciprocal + (1 << (s->shift - 1))) >> s->shift;
}

PITHI_INLINE void pithi_shrink_judge(struct pithi_shrink *s, const struct pithi_shrink_sums *m) {
    const bool both = s->asymmetric;
    const float u = (float)(both ? s->count * m->products - m->codes * s->sum : m->products);
    const float v = (float)(both ? s->count * m->squares - m->codes * m->codes : m->squares);
    const float square = u * u, best = s->u * s->u;
    if (!(square * s->v > best * v)) return;
    s->u = u;
    s->v = v;
    s->codes = m->codes;
}

/* Ends a round. */
PITHI_INLINE void pithi_shrink_line(struct pithi_shrink *s) {
    const float step = s->u / s->v, codes = step * (float)s->codes;
    const float low = s->asymmetric ? ((float)s->sum - codes) / (float)s->count : 0;
    const float reach = step * (float)s->levels, high = low + reach;
    s->low = low > 0 ? low : 0;
    s->high = high < (float)s->top ? high : (float)s->top;
}

/* Whether the line found is a part of the range, and its ends as values of the dtype, whose grid is
 * idempotent sooner. */
PITHI_INLINE bool pithi_shrink_ends(const struct pithi_shrink *s, uint32_t dtype, float hi,
                                    float *low, float *high) {
    const float unit = s->range / (float)s->top;
    *low = pithi_round_to(dtype, s->lo + s->low * unit);
    *high = pithi_round_to(dtype, hi - ((float)s->top - s->high) * unit);
    return s->high - s->low >= PITHI_SHRINK_LEAST;
}

/* Where zero points are so coarse that this one is not near the part's end, what the part loses is
 * not what the search saw. */
PITHI_INLINE bool pithi_shrink_is_coarse(const struct pithi_grid *part, float low) {
    const float off = part->zero - low;
    return pithi_float(pithi_magnitude(pithi_bits(off))) * PITHI_SHRINK_COARSE > part->scale;
}
/* Returns what coding x with a grid of the group's loses, in 8ths of a unit of t: then squares of a
 * group are numbers of 31 bits. */
PITHI_INLINE int pithi_shrink_loss(const struct pithi_group_setting *set,
                                   const struct pithi_shrink *s, uint32_t dtype,
                                   const struct pithi_grid *r, float x) {
    const float most = PITHI_SHRINK_LOSS;
    const float loss = pithi_grid_value(dtype, r, pithi_grid_code(set, r, r->most, x)) - x;
    return pithi_round_even(pithi_within(loss * s->factor * 8, -most, most));
}

/* ---- Search for a scale ----------------------------------------------------------------------*/

/* A search takes the values of a group as integers of at most `most`, so that sums of any order are
 * the same, and turned so that the largest is negative, where codes reach one further. A candidate
 * is a factor on these; a negative one turns them back. Powers of two have candidates of their own,
 * which reach the largest value, and half of it. */
enum { PITHI_SEARCH_CANDIDATES = 12, PITHI_SEARCH_POWERS = 2, PITHI_SEARCH_SHIFT = 15 };

/* Returns the factors of candidates, in 2^-PITHI_SEARCH_SHIFT; there are PITHI_SEARCH_CANDIDATES
 * (powers of two: PITHI_SEARCH_POWERS, and zeros). */
const int16_t *pithi_search_factors(const struct pithi_group_setting *s);

PITHI_INLINE bool pithi_search_is_power(const struct pithi_group_setting *s) {
    return s->scale_dtype == PITHI_E8M0;
}
/* Codes of up to 5 bits need no finer integers; half as many bits again keep the others from being
 * seen coarser than they are coded. The sums of 16384 products fit 31 bits. */
PITHI_INLINE int pithi_search_most(const struct pithi_group_setting *s) {
    return s->bits <= 5 ? 127 : 1023;
}
/* How many of the integers are a unit of the scale that reaches the largest value with the code
 * -2^(bits-1). */
PITHI_INLINE float pithi_search_step(const struct pithi_group_setting *s) {
    const int units = pithi_search_most(s) + pithi_search_is_power(s);
    return (float)units / (float)(1 << (s->bits - 1));
}
/* Returns what values are multiplied by to become integers: of a group whose largest magnitude has
 * the bits `largest` and, where `above`, is that of a positive value; `scale` is that of case 3. */
PITHI_INLINE float pithi_search_reciprocal(const struct pithi_group_setting *s, float scale,
                                           uint32_t largest, bool above) {
    if (pithi_search_is_power(s)) return pithi_search_step(s) / scale;
    const float r = (float)pithi_search_most(s) / pithi_float(largest);
    return above ? -r : r;
}

/* Returns the code of an integer: the nearest to the product. No product lies between two codes:
 * factors have fewer factors of two than that would take. */
PITHI_INLINE int pithi_search_code(const struct pithi_group_setting *s, int y, int factor) {
    const int half = 1 << (PITHI_SEARCH_SHIFT - 1), positive = 1 << (PITHI_SEARCH_SHIFT + 9);
    const int q = ((y * factor + half + positive) >> PITHI_SEARCH_SHIFT) - (1 << 9);
    const int reach = 1 << (s->bits - 1);
    return pithi_clamp(q, -reach, reach - 1);
}

/* Sums over a group, for a candidate: of integers times codes, and of codes squared. */
struct pithi_search_sums {
    float yq, qq;
};
/* Whether b explains more than a when scales are those of least squares. */
PITHI_INLINE bool pithi_search_better(struct pithi_search_sums a, struct pithi_search_sums b) {
    return b.yq * b.yq * a.qq > a.yq * a.yq * b.qq;
}

/* Returns the scale of the best candidate's sums. It is at least half of the scale that would reach
 * the largest value. */
PITHI_INLINE float pithi_search_scale(const struct pithi_group_setting *s, uint32_t largest,
                                      bool above, struct pithi_search_sums best) {
    const float least = 0.5f * pithi_search_step(s), a = best.yq / best.qq;
    const float kept = a < least && a > -least ? (a < 0 ? -least : least) : a;
    const float scale = kept * (pithi_float(largest) / (float)pithi_search_most(s));
    const uint32_t u = pithi_bits(above ? -scale : scale);
    const bool infinite = pithi_magnitude(u) == PITHI_F32_INF;
    return pithi_round_scale(
        s->scale_dtype, infinite ? pithi_float((u & 0x80000000u) | PITHI_F32_MAX) : pithi_float(u));
}

/* Chooses between powers of two: the one that reaches the largest value, or its half. */
PITHI_INLINE float pithi_search_power(const struct pithi_group_setting *s, float scale,
                                      struct pithi_search_sums whole,
                                      struct pithi_search_sums half) {
    const float step = pithi_search_step(s);
    const float gain = 2 * whole.yq - step * whole.qq;
    return half.yq - step * 0.25f * half.qq > gain ? scale * 0.5f : scale;
}

/* ---- One value -------------------------------------------------------------------------------*/

/* Returns the code of d, a value or value - base, lifted, for groups that are not idempotent. */
PITHI_INLINE float pithi_group_lifted(const struct pithi_group_setting *s, float d,
                                      float reciprocal) {
    const float most = (float)pithi_group_levels(s);
    return pithi_lift(pithi_within(d * reciprocal, s->search ? -most - 1 : -most, most));
}
PITHI_INLINE int pithi_group_quantize(const struct pithi_group_setting *s, float d,
                                      float reciprocal, uint32_t random16) {
    const int levels = pithi_group_levels(s);
    if (!s->stochastic) return (int)pithi_lower(pithi_group_lifted(s, d, reciprocal));
    return pithi_clamp(pithi_round_stochastic(d * reciprocal, random16), -levels, levels);
}

/* Returns x' of one code; scale and zero are finite. Overflow gives the largest finite value. */
PITHI_INLINE uint32_t pithi_group_decoded(int q, float scale, float zero, bool asymmetric,
                                          uint64_t *saturated) {
    float x = (float)q * scale;
    if (asymmetric) x = x + zero;
    const uint32_t u = pithi_bits(x);
    if (pithi_magnitude(u) != PITHI_F32_INF) return u;
    ++*saturated;
    return (u & 0x80000000u) | PITHI_F32_MAX;
}

PITHI_INLINE uint32_t pithi_group_update(uint32_t base, uint32_t x, uint32_t base_dtype,
                                         uint64_t *saturated) {
    if (pithi_nonfinite(base)) base = 0;
    const uint32_t sum = pithi_bits(pithi_float(base) + pithi_float(x));
    if (pithi_magnitude(x) > PITHI_F32_INF) return PITHI_F32_NAN;
    uint32_t rounded = sum;
    if (base_dtype == PITH_BF16) rounded = pithi_from_bf16(pithi_to_bf16(sum));
    if (base_dtype == PITH_F16) rounded = pithi_from_f16(pithi_to_f16(sum));
    if (pithi_magnitude(rounded) != PITHI_F32_INF) return rounded;
    ++*saturated;
    return (rounded & 0x80000000u) | pithi_largest(base_dtype);
}

#endif
