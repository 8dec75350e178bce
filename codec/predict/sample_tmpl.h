/* sample_tmpl.h - how wide the words of a sample are, by the order of differences, written once for
 * each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Four whole groups of f32 under an absolute bound, behind one or at the beginning of a row.
 *
 * The including file has included lanes_<isa>.h and bitplane_tmpl.h, and defines behind this file
 * add(widths, a, b, c, d), which adds to four numbers how many bits the largest word of each group
 * needs. */
#ifndef PITHI_PREDICT_SAMPLE_TMPL_H
#define PITHI_PREDICT_SAMPLE_TMPL_H

#include "common/lanes_tmpl.h"
#include "predict/sample.h"

enum { GROUPS = PITHI_SAMPLE_GROUPS };

static inline void add(uint32_t widths[GROUPS], v16 a, v16 b, v16 c, v16 d);

ALWAYS v16 zigzag(v16 x) { return v_xor(v_add(x, x), v_sar31(x)); }

/* The alternating sums of the codes of lines. */
struct sums {
    v16 lead, a, b, c, d;
};

ALWAYS v16 code_of(v16 inverse, const uint8_t *value) {
    return f_round_to_i(f_mul(v_load(value), inverse));
}

ALWAYS struct sums codes_of(v16 inverse, const struct pithi_sample *s, unsigned k) {
    static const uint8_t none[4 * GROUP];
    const uint8_t *const lead = s->line[k], *const line = lead + 4 * s->lead;
    return (struct sums){code_of(inverse, s->lead ? lead : none), code_of(inverse, line),
                         code_of(inverse, line + 64), code_of(inverse, line + 128),
                         code_of(inverse, line + 192)};
}

ALWAYS struct sums minus(struct sums x, struct sums y) {
    return (struct sums){v_sub(x.lead, y.lead), v_sub(x.a, y.a), v_sub(x.b, y.b), v_sub(x.c, y.c),
                         v_sub(x.d, y.d)};
}

ALWAYS v16 difference(v16 x, v16 before) { return zigzag(v_sub(x, v_before(x, before))); }

ALWAYS void add_differences(uint32_t widths[GROUPS], struct sums s) {
    add(widths, difference(s.a, s.lead), difference(s.b, s.a), difference(s.c, s.b),
        difference(s.d, s.c));
}

/* Lines are subtracted from the line behind them, pairs of lines from the pair behind them, and so
 * on. */
ALWAYS struct sums pair_of(v16 inverse, const struct pithi_sample *s, unsigned k) {
    return minus(codes_of(inverse, s, k), codes_of(inverse, s, k + 1));
}

ALWAYS void add_widths(const struct pithi_sample *s, unsigned most, pithi_sample_widths widths) {
    const v16 inverse = v_spread(&s->quant->inverse);
    struct sums sums = codes_of(inverse, s, 0);
    add(widths[0], zigzag(sums.a), zigzag(sums.b), zigzag(sums.c), zigzag(sums.d));
    add_differences(widths[1], sums);
    if (most < 2) return;
    sums = minus(sums, codes_of(inverse, s, 1));
    add_differences(widths[2], sums);
    if (most < 3) return;
    sums = minus(sums, pair_of(inverse, s, 2));
    add_differences(widths[3], sums);
    if (most < 4) return;
    sums = minus(sums, minus(pair_of(inverse, s, 4), pair_of(inverse, s, 6)));
    add_differences(widths[4], sums);
}

static bool sample(const struct pithi_sample *s, unsigned most, pithi_sample_widths widths) {
    const struct pithi_quant *const q = s->quant;
    if (!q || q->relative || q->dtype != PITH_F32) return false;
    if (s->count != PITHI_PACK_SAMPLE || s->lead % GROUP) return false;
    switch (most) {
    case 1: add_widths(s, 1, widths); break;
    case 2: add_widths(s, 2, widths); break;
    case 3: add_widths(s, 3, widths); break;
    default: add_widths(s, 4, widths);
    }
    return true;
}

#endif
