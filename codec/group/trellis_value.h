/* trellis_value.h - trellis-coded groups: levels, the trellis, and a group's scale.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Trellis-coded quantization (Marcellin and Fischer, IEEE Trans. Commun. 1990) with the 8-state
 * code of Ungerboeck (IEEE Trans. Inf. Theory 1982) in feed-forward form. A code of b bits chooses
 * among 2^(b+1) levels: which of them it can mean follows from its lowest bit and from those of the
 * three codes before it, so that a decoder looks at a window of four codes and an encoder at paths
 * through 8 states. All that paths are compared by are integers: every backend takes the same
 * path. */
#ifndef PITHI_GROUP_TRELLIS_VALUE_H
#define PITHI_GROUP_TRELLIS_VALUE_H

#include "group/codebook_value.h"

/* Levels are integers, in units of a 64th of the scale. A group is one sequence after another of
 * SEQUENCE values; the last may be shorter. Magnitudes of values, which are below 256, are in CELLS
 * cells. STEPS values are looked at to find that a group was decoded before. */
enum {
    PITHI_TRELLIS_STATES = 8,
    PITHI_TRELLIS_LEVELS = 32,
    PITHI_TRELLIS_SEQUENCE = 256,
    PITHI_TRELLIS_CELLS = 16,
    PITHI_TRELLIS_LOOK = 16,
    PITHI_TRELLIS_WORST = 65535, /* a metric from which none grows */
    PITHI_TRELLIS_UNSURE = 4     /* after so many steps the least metric becomes 0 */
};
#define PITHI_TRELLIS_UNIT 64.0f

/* What belongs to a number of bits. */
struct pithi_trellis {
    int16_t level[PITHI_TRELLIS_LEVELS]; /* in ascending order */
    /* The number of the first of the four neighbouring levels that a value of a cell, which is not
     * negative, is compared with: one of each subset. */
    uint8_t first[PITHI_TRELLIS_CELLS];
    int levels; /* 2^(bits+1) */
    int top;    /* the last level */
    int most;   /* values are clamped to it; none is then 148 or more from its four levels */
};

/* Levels are the centroids of a normal distribution's parts, found by iteration and rounded. */
PITHI_INLINE void pithi_trellis_init(struct pithi_trellis *t, uint32_t bits) {
    static const uint8_t level2[] = {8, 24, 43, 75};
    static const uint8_t level3[] = {6, 18, 31, 45, 61, 80, 106, 148};
    static const uint8_t level4[] = {4,  11, 19, 26,  35,  42,  51,  60,
                                     70, 80, 92, 106, 123, 144, 171, 213};
    static const uint8_t first2[] = {2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
    static const uint8_t first3[] = {7, 8, 9, 10, 11, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12};
    static const uint8_t first4[] = {15, 17, 19, 21, 23, 24, 25, 26,
                                     27, 28, 28, 28, 28, 28, 28, 28};
    const uint8_t *const from = bits == 2 ? level2 : bits == 3 ? level3 : level4;
    const uint8_t *const first = bits == 2 ? first2 : bits == 3 ? first3 : first4;
    const int half = 1 << bits;
    t->levels = 2 * half;
    for (int k = 0; k < half; k++) {
        t->level[half + k] = (int16_t)from[k];
        t->level[half - 1 - k] = (int16_t)-from[k];
    }
    t->top = from[half - 1];
    t->most = bits == 2 ? 155 : bits == 3 ? 208 : 255;
    for (int cell = 0; cell < PITHI_TRELLIS_CELLS; cell++) t->first[cell] = first[cell];
}

/* ---- From codes to values --------------------------------------------------------------------*/

/* `history` has the lowest bits of the codes before, that of the last one in bit 0; it is 0 where a
 * sequence begins. This is what it becomes. */
PITHI_INLINE unsigned pithi_trellis_next(unsigned history, unsigned code) {
    return (history << 1 | (code & 1)) & (PITHI_TRELLIS_STATES - 1);
}
/* Returns the number of the level that a code means. */
PITHI_INLINE unsigned pithi_trellis_number(unsigned history, unsigned code) {
    return 4 * (code >> 1) + 2 * ((code ^ history ^ history >> 2) & 1) + (history >> 1 & 1);
}
/* Returns what a level stands for, before it is rounded to a dtype. Never -0. */
PITHI_INLINE float pithi_trellis_value(int level, float scale) {
    return (float)level / PITHI_TRELLIS_UNIT * scale + 0.0f;
}
/* Returns the same as bits, with the largest finite value where it overflows. */
PITHI_INLINE uint32_t pithi_trellis_decoded(int level, float scale, uint64_t *saturated) {
    const uint32_t u = pithi_bits(pithi_trellis_value(level, scale));
    if (pithi_magnitude(u) != PITHI_F32_INF) return u;
    ++*saturated;
    return (u & 0x80000000u) | PITHI_F32_MAX;
}

/* ---- From values to codes --------------------------------------------------------------------*/

/* Returns what the largest magnitude of a group of `count` values becomes: a normal distribution's
 * share of the levels, for which the error is about least. */
PITHI_INLINE int pithi_trellis_reach(uint32_t bits, size_t count) {
    int log = 4;
    while (log < 14 && count >> (log + 1)) log++;
    if (bits == 2) return 112 + 8 * (log - 7);
    if (bits == 3) return 168 + (log > 7 ? 12 : 6) * (log - 7);
    return 217 + (log > 8 ? 14 * (log - 8) : 0);
}

/* Returns a value in units of levels; v is the value times reach / the largest magnitude. */
PITHI_INLINE int pithi_trellis_rounded(const struct pithi_trellis *t, float v) {
    return (int)pithi_lower(pithi_lift(pithi_within(v, -(float)t->most, (float)t->most)));
}

/* Whether a level, or its negative, is this value. */
PITHI_INLINE bool pithi_trellis_is_level(const struct pithi_trellis *t, int y) {
    for (int k = 0; k < t->levels; k++)
        if (t->level[k] == y) return true;
    return false;
}

/* Returns the number of the first of the four neighbouring levels that a value is compared with. */
PITHI_INLINE int pithi_trellis_first(const struct pithi_trellis *t, int y) {
    const int first = t->first[(y < 0 ? -y : y) / PITHI_TRELLIS_CELLS];
    return y < 0 ? t->levels - 4 - first : first;
}
/* Returns the number of the one among them that belongs to a subset. */
PITHI_INLINE int pithi_trellis_of_subset(int first, int subset) {
    return first + ((subset - first) & 3);
}

/* A state is a history. Into state s lead two, (s >> 1) and that with bit 2 set, by levels of these
 * subsets. */
PITHI_INLINE int pithi_trellis_subset(int state, int oldest) {
    return 2 * ((state ^ state >> 1 ^ oldest) & 1) + (state >> 2);
}

/* ---- Scale of a group ------------------------------------------------------------------------*/

/* Returns the dtype in which what a group decodes to must be finite: in settings whose groups come
 * back the same, that of the values. */
PITHI_INLINE uint32_t pithi_trellis_dtype(const struct pithi_group_setting *s, uint32_t dtype) {
    return s->idempotent ? dtype : (uint32_t)PITH_F32;
}

/* Returns the scale of a group: that of least squares, v l / l l times what a value of 1 stands
 * for, which is `largest` / reach. v l and l l are sums over the group. A quotient that is far from
 * 1 would make the bound wide. `utmost` is the scale with which the last level reaches the largest
 * magnitude: the one that is taken where the scale or what the last level decodes to is no finite
 * number, or it is 0. */
PITHI_INLINE float pithi_trellis_least(const struct pithi_group_setting *s) {
    return s->group <= PITHI_TRELLIS_SEQUENCE ? 0.25f : 0.015625f;
}
PITHI_INLINE float pithi_trellis_scale(const struct pithi_group_setting *s,
                                       const struct pithi_trellis *t, uint32_t dtype, int reach,
                                       float largest, float utmost, float vl, float ll) {
    const float most = (float)reach / PITHI_TRELLIS_UNIT, ratio = vl / ll,
                least = pithi_trellis_least(s);
    const float a = ratio > least ? (ratio < most ? ratio : most) : least;
    const float unit = largest / (float)reach * PITHI_TRELLIS_UNIT;
    const float scale = pithi_round_step(s->scale_dtype, a * unit);
    const float top = pithi_round_to(dtype, (float)t->top / PITHI_TRELLIS_UNIT * scale);
    const bool good =
        scale != 0 && !pithi_nonfinite(pithi_bits(scale)) && !pithi_nonfinite(pithi_bits(top));
    return good ? scale : utmost;
}

#endif
