/* codebook_value.h - groups coded as numbers of levels: normal float and Lloyd-Max.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A code c stands for level[c] * scale. Sources: NormalFloat is QLoRA's (NeurIPS 2023), its scale
 * the largest magnitude; Lloyd-Max levels are those of the normal distribution, with the scale of
 * least squares for the codes, as EDEN and TurboQuant use them after a rotation. Thresholds of
 * Lloyd-Max codes are whole cells of 1/52: a table of 128 bytes finds a code. */
#ifndef PITHI_GROUP_CODEBOOK_VALUE_H
#define PITHI_GROUP_CODEBOOK_VALUE_H

#include "group/group_value.h"

enum {
    PITHI_CODEBOOK_NONE,
    PITHI_CODEBOOK_NF,
    PITHI_CODEBOOK_LLOYD,
    PITHI_CODEBOOK_TRELLIS /* group/trellis_value.h; the only one that may have a base */
};
enum { PITHI_CODEBOOK_MOST = 16, PITHI_CELLS = 128, PITHI_CELLS_A_UNIT = 52 };
/* The bits of 2^-100: groups below are all zero, so that cells a unit are finite. */
#define PITHI_CODEBOOK_TINY 0x0D800000u

/* The levels of one setting. */
struct pithi_codebook {
    float level[PITHI_CODEBOOK_MOST];   /* in ascending order */
    float middle[PITHI_CODEBOOK_MOST];  /* nf: the middle between a level and the next */
    uint8_t first[PITHI_CODEBOOK_MOST]; /* lloyd: the first cell of each positive level */
    int levels;                         /* 2^bits */
    float steady_from, steady_to;       /* lloyd: see pithi_codebook_steady */
    float widest; /* lloyd: a largest magnitude of more cells than this is clamped, not reached */
};

PITHI_INLINE void pithi_codebook_nf(struct pithi_codebook *b, uint32_t bits) {
    static const float nf2[] = {-1, 0, 0.435818166f, 1};
    static const float nf3[] = {-1,          -0.535022736f, -0.246931434f, 0,
                                0.18333748f, 0.381993949f,  0.622985721f,  1};
    static const float nf4[] = {-1,
                                -0.696192801f,
                                -0.525072932f,
                                -0.394917428f,
                                -0.284441322f,
                                -0.1847734f,
                                -0.091049977f,
                                0,
                                0.079580314f,
                                0.160930142f,
                                0.246112257f,
                                0.337915123f,
                                0.44070974f,
                                0.562616885f,
                                0.722956657f,
                                1};
    const float *const from = bits == 2 ? nf2 : bits == 3 ? nf3 : nf4;
    for (int k = 0; k < b->levels; k++) b->level[k] = from[k];
    for (int k = 0; k + 1 < b->levels; k++) b->middle[k] = (from[k] + from[k + 1]) * 0.5f;
}

PITHI_INLINE void pithi_codebook_lloyd(struct pithi_codebook *b, uint32_t bits) {
    static const float level2[] = {0.45278f, 1.5104176f};
    static const float level3[] = {0.2450942f, 0.7560053f, 1.3439093f, 2.1519457f};
    static const float level4[] = {0.128395f,  0.3880483f, 0.6567591f, 0.9423405f,
                                   1.2562312f, 1.6180464f, 2.0690172f, 2.7325896f};
    static const uint8_t first2[] = {0, 51}, first3[] = {0, 26, 55, 91};
    static const uint8_t first4[] = {0, 13, 27, 42, 57, 75, 96, 125};
    const float *const from = bits == 2 ? level2 : bits == 3 ? level3 : level4;
    const uint8_t *const first = bits == 2 ? first2 : bits == 3 ? first3 : first4;
    const int half = b->levels / 2;
    for (int k = 0; k < half; k++) {
        b->level[half + k] = from[k];
        b->level[half - 1 - k] = -from[k];
        b->first[k] = first[k];
    }
    b->steady_from = bits == 2 ? 0.4622f : bits == 3 ? 0.7688f : 0.8774f;
    b->steady_to = bits == 2 ? 1.5384f : bits == 3 ? 1.2284f : 1.1195f;
    b->widest = bits == 2 ? 65536.0f : bits == 3 ? 1248.0f : 208.0f;
}

PITHI_INLINE void pithi_codebook_init(struct pithi_codebook *b,
                                      const struct pithi_group_setting *s) {
    b->levels = 1 << s->bits;
    b->steady_from = b->steady_to = b->widest = 0;
    if (s->codebook == PITHI_CODEBOOK_NF)
        pithi_codebook_nf(b, s->bits);
    else
        pithi_codebook_lloyd(b, s->bits);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* Returns the code of a value v in units of the scale. */
PITHI_INLINE int pithi_codebook_nearest(const struct pithi_codebook *b, float v) {
    int code = 0;
    for (int k = 0; k + 1 < b->levels; k++) code += v >= b->middle[k];
    return code;
}
/* Returns the code of a value in cells. */
PITHI_INLINE int pithi_codebook_cell(const struct pithi_codebook *b, float cells) {
    const int half = b->levels / 2;
    const float size = pithi_float(pithi_magnitude(pithi_bits(cells)));
    const int cell = size < (float)(PITHI_CELLS - 1) ? (int)size : PITHI_CELLS - 1;
    int code = 0;
    for (int k = 1; k < half; k++) code += cell >= b->first[k];
    return pithi_bits(cells) >> 31 ? half - 1 - code : half + code;
}

/* Returns the code of a value in units of pithi_codebook_cells. */
PITHI_INLINE int pithi_codebook_code(const struct pithi_codebook *b,
                                     const struct pithi_group_setting *s, float cells) {
    return s->codebook == PITHI_CODEBOOK_NF ? pithi_codebook_nearest(b, cells)
                                            : pithi_codebook_cell(b, cells);
}

/* Returns what a code decodes to, before it is rounded to a dtype. Never -0. */
PITHI_INLINE float pithi_codebook_value(const struct pithi_codebook *b, int code, float scale) {
    return b->level[code] * scale + 0.0f;
}
/* Returns what a code decodes to, as bits, with the largest finite value where it overflows. */
PITHI_INLINE uint32_t pithi_codebook_decoded(const struct pithi_codebook *b, int code, float scale,
                                             uint64_t *saturated) {
    const uint32_t u = pithi_bits(pithi_codebook_value(b, code, scale));
    if (pithi_magnitude(u) != PITHI_F32_INF) return u;
    ++*saturated;
    return (u & 0x80000000u) | PITHI_F32_MAX;
}

/* ---- Scales ----------------------------------------------------------------------------------*/

/* Returns the scale with which the last level, top, reaches m, the group's largest magnitude, and
 * is finite in the dtype of the values; +0 when all codes are to be 0, NaN when the group is
 * poisoned. */
PITHI_INLINE float pithi_codebook_reach(float top, const struct pithi_group_setting *s,
                                        uint32_t dtype, uint32_t m) {
    if (m >= PITHI_F32_INF) return pithi_float(PITHI_F32_NAN);
    if (m < PITHI_CODEBOOK_TINY) return 0;
    float scale = pithi_round_step(s->scale_dtype, pithi_float(m) / top);
    if (pithi_nonfinite(pithi_bits(scale))) return pithi_float(PITHI_F32_NAN);
    if (pithi_nonfinite(pithi_bits(pithi_round_to(dtype, top * scale))))
        scale = pithi_inward(s->scale_dtype, scale);
    return scale;
}

/* Returns what codes take a unit of the values for: so many scales (nf), or cells of a scale. */
PITHI_INLINE float pithi_codebook_cells(const struct pithi_group_setting *s, float scale) {
    return (float)(s->codebook == PITHI_CODEBOOK_NF ? 1 : PITHI_CELLS_A_UNIT) / scale;
}

/* Returns the cells a unit of the values for a first guess of a Lloyd-Max scale, which is that of a
 * normal distribution with the group's mean magnitude, sum / count. */
PITHI_INLINE float pithi_codebook_guess(float sum, size_t count) {
    const float deviation = sum / (float)count * 1.2533141f; /* sqrt(pi / 2) */
    return (float)PITHI_CELLS_A_UNIT / deviation;
}

/* Whether values at the levels that codes of this mean magnitude stand for get the same codes. */
PITHI_INLINE bool pithi_codebook_steady(const struct pithi_codebook *b, float sum, size_t count) {
    const float t = sum / (float)count * 1.2533141f;
    return t > b->steady_from && t < b->steady_to;
}

/* Returns the scale of least squares, from the sums of value * level and of level * level. */
PITHI_INLINE float pithi_codebook_fit(const struct pithi_group_setting *s, float with_value,
                                      float with_itself) {
    return pithi_round_step(s->scale_dtype, with_value / with_itself);
}

/* Whether decoded values can get again the codes of a guess of so many cells a unit. m is the
 * largest magnitude, and sum that of the magnitudes of the codes' levels. */
PITHI_INLINE bool pithi_codebook_is_idempotent(const struct pithi_codebook *b, uint32_t dtype,
                                               float m, float cells, float scale, float sum,
                                               size_t count) {
    const float top = b->level[b->levels - 1] * scale;
    return m * cells < b->widest && scale != 0 &&
           !pithi_nonfinite(pithi_bits(pithi_round_to(dtype, top))) &&
           pithi_codebook_steady(b, sum, count);
}

#endif
