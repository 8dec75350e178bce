/* group_search_tmpl.h - a part of group_tmpl.h: the search for the scale of least error.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The text sums over 16 lanes, so that a vector's lanes are the text's. */

/* Candidates that share a pass over the group: their sums fit into 16 registers of 8 lanes. */
enum { TOGETHER = 3 };

/* One group, whole vectors. */
struct search {
    const struct batch *batch;
    uint32_t dtype;
    size_t first, end;
    v16 turn, reciprocal, least, most;
};

struct correlation {
    v16 vq, qq;
};

ALWAYS void correlate_16(const struct search *s, v16 v, v16 factor, struct correlation *c) {
    const v16 magic = v_set(0x4B400000u); /* 1.5 * 2^23 */
    v16 q = f_sub(f_add(f_mul(v, factor), magic), magic);
    q = f_max(f_min(q, s->most), s->least);
    c->vq = f_add(c->vq, f_mul(v, q));
    c->qq = f_add(c->qq, f_mul(q, q)); /* at most 2^24 a lane: exact */
}

static float sum_integers(v16 x) {
    int32_t lane[16], sum = 0;
    v_store((uint8_t *)lane, f_floor_to_i(x));
    for (size_t i = 0; i < 16; i++) sum += lane[i];
    return (float)sum;
}

ALWAYS void correlate_as(uint32_t dtype, const struct search *s, const float *factor, float *vq,
                         float *qq) {
    const v16 zero = v_set(0);
    const v16 f0 = v_spread(factor), f1 = v_spread(factor + 1), f2 = v_spread(factor + 2);
    struct correlation c0 = {zero, zero}, c1 = c0, c2 = c0;
    for (size_t i = s->first; i < s->end; i += 16) {
        const v16 v = f_mul(v_xor(load(dtype, s->batch->value, i), s->turn), s->reciprocal);
        correlate_16(s, v, f0, &c0);
        correlate_16(s, v, f1, &c1);
        correlate_16(s, v, f2, &c2);
    }
    vq[0] = f_sum(c0.vq), qq[0] = sum_integers(c0.qq);
    vq[1] = f_sum(c1.vq), qq[1] = sum_integers(c1.qq);
    vq[2] = f_sum(c2.vq), qq[2] = sum_integers(c2.qq);
}
static __attribute__((noinline)) void correlate(const struct search *s, const float *factor,
                                                float *vq, float *qq) {
    const struct search copy = *s; /* that no store can alias */
    if (s->dtype == PITH_F32)
        correlate_as(PITH_F32, &copy, factor, vq, qq);
    else
        correlate_as(s->dtype, &copy, factor, vq, qq);
}

/* The largest value that is not negative has the bits m. */
static bool reached_above(const struct batch *b, uint32_t dtype, size_t i, size_t end, uint32_t m) {
    v16 most = v_set(0);
    for (; i < end; i += 16) most = v_maxi(most, load(dtype, b->value, i));
    return (uint32_t)v_reduce_maxi(most) == m;
}

/* b->scale[g] holds the scale of the largest value; groups are whole vectors. */
static void search_group(const struct pithi_group_setting *set, struct batch *b, uint32_t dtype,
                         size_t g) {
    struct pithi_search found = {.set = set, .scale = b->scale[g], .largest = b->largest[g]};
    const size_t first = g << b->shift, group = (size_t)1 << b->shift;
    const size_t end = first + group < b->count ? first + group : b->count;
    found.above = reached_above(b, dtype, first, end, found.largest);
    pithi_search_begin(&found);
    const struct search s = {.batch = b,
                             .dtype = dtype,
                             .first = first,
                             .end = end,
                             .turn = v_set(found.turn),
                             .reciprocal = v_set(pithi_bits(found.reciprocal)),
                             .least = v_set(pithi_bits((float)found.least)),
                             .most = v_set(pithi_bits((float)found.most))};
    for (int k = 0; k < found.candidates; k += TOGETHER)
        correlate(&s, found.factor + k, found.vq + k, found.qq + k);
    b->scale[g] = pithi_search_end(&found);
    b->reciprocal[g] = 1.0f / b->scale[g];
}

static void search_scales(const struct pithi_group_setting *s, struct batch *b, uint32_t dtype) {
    for (size_t g = 0; g << b->shift < b->count; g++)
        if (b->largest[g] >= TINY) search_group(s, b, dtype, g);
}
