/* group.c - the group quantizer in scalar C: the specification of its kernels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "group/group.h"

#include "group/bound_value.h"
#include "group/codebook.h"
#include "group/codebook_value.h"
#include "group/packing.h"
#include "group/trellis.h"

static void put_scale(const struct pithi_group_setting *s, uint8_t *scales, size_t index, float v) {
    pithi_scale_store(scales, s->scale_dtype, index, pithi_bits(v));
}

/* ---- One value -------------------------------------------------------------------------------*/

static uint32_t base_at(const struct pithi_group_job *job, size_t i) {
    const uint32_t b = pithi_load(job->base, job->base_dtype, i);
    return pithi_nonfinite(b) ? 0 : b;
}

PITHI_INLINE float difference(const struct pithi_group_job *job, size_t i) {
    const float v = pithi_float(pithi_load(job->value, job->value_dtype, i));
    return job->base_dtype == PITH_NONE ? v : v - pithi_float(base_at(job, i));
}

/* ---- Encode ----------------------------------------------------------------------------------*/

struct group {
    size_t first, count; /* elements of the job that the group has */
    struct pithi_grid grid;
    bool coded; /* false: all codes are 0 */
};

/* Returns the bits of the largest magnitude. */
static uint32_t largest(const struct pithi_group_job *job, const struct group *g) {
    uint32_t m = 0;
    for (size_t i = 0; i < g->count; i++) {
        const uint32_t a = pithi_magnitude(pithi_bits(difference(job, g->first + i)));
        if (a > m) m = a;
    }
    return m;
}

/* Returns the least and the largest value; NaN when one of the group is not finite. */
static void extremes(const struct pithi_group_job *job, const struct group *g, float *low,
                     float *high) {
    int32_t lo = INT32_MAX, hi = INT32_MIN;
    for (size_t i = 0; i < g->count; i++) {
        const int32_t o = pithi_ordered(pithi_bits(difference(job, g->first + i)));
        if (o < lo) lo = o;
        if (o > hi) hi = o;
    }
    *low = pithi_from_ordered(lo);
    *high = pithi_from_ordered(hi);
    if (pithi_nonfinite(pithi_bits(*low)) || pithi_nonfinite(pithi_bits(*high)))
        *low = *high = pithi_float(PITHI_F32_NAN);
}

static void find_scale(const struct pithi_group_job *job, struct group *g) {
    g->grid.zero = 0;
    g->coded = pithi_group_scale(&job->set, largest(job, g), &g->grid.scale, &g->grid.reciprocal);
}

/* ---- Search for a scale ----------------------------------------------------------------------*/

/* Factors in 256ths of what takes integers to codes; a shift makes them PITHI_SEARCH_SHIFT bits.
 * They were chosen one by one, each as what lowers the error most of normal values, of Student's t
 * with 3 degrees of freedom and of rotated gradients, in groups of 32 to 2048; the last ones of 4
 * bits and more are for values far from the others in large groups. All are odd, see
 * pithi_search_code. */
#define W2(x) ((x)*2)
#define W3(x) ((x)*4)
#define W4(x) ((x)*8)
#define W5(x) ((x)*16)
#define W6(x) ((x)*4)
#define W7(x) ((x)*8)
#define W8(x) ((x)*16)
#define FACTORS(w, a, b, c, d, e, f, g, h, i, j, k, l) \
    { w(a), w(b), w(c), w(d), w(e), w(f), w(g), w(h), w(i), w(j), w(k), w(l) }
#define POWERS(w) \
    { w(257), w(513) }

const int16_t *pithi_search_factors(const struct pithi_group_setting *s) {
    static const int16_t factors[][PITHI_SEARCH_CANDIDATES] = {
        FACTORS(W2, 363, -395, 275, 459, -323, -475, 323, 219, 411, -267, 507, -507),
        FACTORS(W3, 323, 267, 411, -347, 219, 355, 291, 475, -299, 243, -387, 307),
        FACTORS(W4, 283, 347, 259, 307, 475, 235, 275, -315, 371, 323, 291, 417),
        FACTORS(W5, 267, 291, 259, 243, 343, 279, 311, 227, 255, 399, 271, 475),
        FACTORS(W6, 259, 249, 275, 255, 265, 241, 289, 233, 261, 269, 247, 331),
        FACTORS(W7, 257, 253, 261, 249, 245, 265, 259, 241, 255, 237, 251, 299),
        FACTORS(W8, 257, 255, 253, 251, 249, 247, 245, 259, 241, 243, 239, 275)};
    static const int16_t powers[][PITHI_SEARCH_CANDIDATES] = {
        POWERS(W2), POWERS(W3), POWERS(W4), POWERS(W5), POWERS(W6), POWERS(W7), POWERS(W8)};
    return pithi_search_is_power(s) ? powers[s->bits - 2] : factors[s->bits - 2];
}

struct search {
    uint32_t largest;
    bool above; /* the largest magnitude is also that of a positive value */
    int32_t yq[PITHI_SEARCH_CANDIDATES], qq[PITHI_SEARCH_CANDIDATES];
};

static void find_largest(const struct pithi_group_job *job, const struct group *g,
                         struct search *s) {
    uint32_t positive = 0;
    for (size_t i = 0; i < g->count; i++) {
        const uint32_t u = pithi_bits(difference(job, g->first + i));
        if (pithi_magnitude(u) > s->largest) s->largest = pithi_magnitude(u);
        if (u < 0x80000000u && u > positive) positive = u;
    }
    s->above = positive == s->largest;
}

/* Adds n values, as integers, to the sums of all candidates. */
static void add_sums(const struct pithi_group_setting *set, const int *y, size_t n,
                     struct search *s) {
    const int16_t *const factor = pithi_search_factors(set);
    for (int k = 0; k < PITHI_SEARCH_CANDIDATES && factor[k]; k++)
        for (size_t i = 0; i < n; i++) {
            const int q = pithi_search_code(set, y[i], factor[k]);
            s->yq[k] += y[i] * q;
            s->qq[k] += q * q;
        }
}

static struct pithi_search_sums sums_of(const struct search *s, int k) {
    return (struct pithi_search_sums){(float)s->yq[k], (float)s->qq[k]};
}

static void search_scale(const struct pithi_group_job *job, struct group *g) {
    const struct pithi_group_setting *const set = &job->set;
    struct search s = {0};
    int y[256];
    find_largest(job, g, &s);
    const float r = pithi_search_reciprocal(set, g->grid.scale, s.largest, s.above);
    for (size_t i = 0, n; i < g->count; i += n) {
        n = g->count - i < 256 ? g->count - i : 256;
        for (size_t j = 0; j < n; j++)
            y[j] = pithi_round_even(difference(job, g->first + i + j) * r);
        add_sums(set, y, n, &s);
    }
    struct pithi_search_sums best = sums_of(&s, 0);
    for (int k = 1; k < PITHI_SEARCH_CANDIDATES; k++)
        if (pithi_search_better(best, sums_of(&s, k))) best = sums_of(&s, k);
    g->grid.scale = pithi_search_is_power(set)
                        ? pithi_search_power(set, g->grid.scale, sums_of(&s, 0), sums_of(&s, 1))
                        : pithi_search_scale(set, s.largest, s.above, best);
    g->grid.reciprocal = 1.0f / g->grid.scale;
}

/* ---- Idempotent groups -----------------------------------------------------------------------*/

static bool keeps_all(const struct pithi_group_job *job, const struct group *g, uint32_t dtype,
                      const struct pithi_grid *r) {
    for (size_t i = 0; i < g->count; i++)
        if (!pithi_grid_keeps(&job->set, dtype, r, difference(job, g->first + i))) return false;
    return true;
}

static void try_part(struct pithi_shrink *s, const uint8_t *t, struct pithi_part p) {
    struct pithi_shrink_sums m = {0, 0, 0};
    if (p.reciprocal == 0) return;
    for (int i = 0; i < s->count; i++) {
        const int q = pithi_shrink_code(s, &p, t[i]);
        m.codes += q;
        m.squares += q * q;
        m.products += q * t[i];
    }
    pithi_shrink_judge(s, &m);
}

static int32_t losses(const struct pithi_group_job *job, const struct group *g, uint32_t dtype,
                      const struct pithi_shrink *s, const struct pithi_grid *r) {
    int32_t sum = 0;
    for (size_t i = 0; i < g->count; i++) {
        const float x = difference(job, g->first + i);
        const int loss = pithi_shrink_loss(&job->set, s, dtype, r, x);
        sum += loss * loss;
    }
    return sum;
}

/* Finds the part of the range that loses least; the whole one stays where it loses nothing, as of
 * values that such a group decoded to, or less where zero points are coarse. */
static void shrink(const struct pithi_group_job *job, const struct group *g, uint32_t dtype,
                   float lo, float hi, struct pithi_grid *best) {
    uint8_t t[PITHI_SHRINK_GROUP];
    if (!pithi_shrink_fits(&job->set, lo, hi) || keeps_all(job, g, dtype, best)) return;
    struct pithi_shrink s = pithi_shrink_begin(&job->set, lo, hi, (int)g->count);
    for (size_t i = 0; i < g->count; i++) {
        t[i] = (uint8_t)pithi_shrink_place(&s, difference(job, g->first + i));
        s.sum += t[i];
    }
    for (int k = 0; k < PITHI_SHRINK_CUTS; k++) try_part(&s, t, pithi_shrink_cut(&s, k));
    pithi_shrink_line(&s);
    for (int round = 1, by = 1; by; round++) {
        by = pithi_shrink_move(s.asymmetric, round);
        try_part(&s, t, pithi_shrink_moved(&s, -by));
        if (by) try_part(&s, t, pithi_shrink_moved(&s, by));
        pithi_shrink_line(&s);
    }
    float low, high;
    if (!pithi_shrink_ends(&s, dtype, hi, &low, &high)) return;
    struct pithi_grid r = pithi_grid_of(&job->set, dtype, low, high);
    pithi_idempotent_scale(&job->set, dtype, lo, hi, &r);
    if (r.reciprocal == 0) return;
    if (job->set.asymmetric && pithi_shrink_is_coarse(&r, low) &&
        losses(job, g, dtype, &s, &r) >= losses(job, g, dtype, &s, best))
        return;
    *best = r;
}

static void find_idempotent(const struct pithi_group_job *job, struct group *g) {
    const struct pithi_group_setting *s = &job->set;
    const uint32_t dtype = job->base_dtype == PITH_NONE ? job->value_dtype : PITH_F32;
    float lo = 0, hi;
    if (s->asymmetric)
        extremes(job, g, &lo, &hi);
    else
        hi = pithi_float(largest(job, g));
    struct pithi_grid r = pithi_grid_of(s, dtype, lo, hi);
    pithi_idempotent_scale(s, dtype, lo, hi, &r);
    if (s->shrink && r.reciprocal != 0) shrink(job, g, dtype, lo, hi, &r);
    g->grid = r;
    g->coded = r.reciprocal != 0;
}

/* ---- Codes -----------------------------------------------------------------------------------*/

static void update_base(struct pithi_group_job *job, const struct group *g, size_t i, int q) {
    const bool poisoned = pithi_nonfinite(pithi_bits(g->grid.scale));
    uint64_t ignored = 0; /* only whether the base overflows is counted */
    const uint32_t x = poisoned ? PITHI_F32_NAN
                                : pithi_group_decoded(q, g->grid.scale, g->grid.zero,
                                                      job->set.asymmetric, &ignored);
    const uint32_t b = pithi_load(job->base, job->base_dtype, i);
    const uint32_t next = pithi_group_update(b, x, job->base_dtype, &job->saturated);
    pithi_store(job->base, job->base_dtype, i, next);
}

static int code(const struct pithi_group_job *job, const struct group *g, size_t i, uint32_t u16) {
    const struct pithi_group_setting *s = &job->set;
    const float d = difference(job, i);
    if (s->asymmetric || s->idempotent) return (int)pithi_grid_code(s, &g->grid, g->grid.most, d);
    return pithi_group_quantize(s, d, g->grid.reciprocal, u16);
}

static void encode_codes(struct pithi_group_job *job, const struct group *g) {
    const uint32_t bits = job->set.bits, mask = (1u << bits) - 1;
    struct pithi_packer packer = {.to = job->codes + g->first * bits / 8};
    uint32_t random[4];
    for (size_t i = g->first; i < g->first + g->count; i++) {
        const uint64_t e = job->first + i;
        if (job->set.stochastic && (e % 8 == 0 || i == g->first))
            pithi_philox(&job->random, e / 8, random);
        const uint32_t u16 = job->set.stochastic ? pithi_random_pick(&job->random, random, e) : 0;
        int q = 0;
        if (g->coded) q = code(job, g, i, u16);
        if (job->update) update_base(job, g, i, q);
        pithi_pack_code(&packer, (uint32_t)q & mask, bits);
    }
    pithi_pack_end(&packer);
}

void pithi_group_encode_c(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    struct group g = {0};
    if (s->codebook) {
        (s->codebook == PITHI_CODEBOOK_TRELLIS ? pithi_trellis_encode_c
                                               : pithi_codebook_encode_c)(job);
        return;
    }
    for (size_t index = 0; g.first < job->count; index++, g.first += s->group) {
        g.count = job->count - g.first < s->group ? job->count - g.first : s->group;
        if (s->asymmetric || s->idempotent)
            find_idempotent(job, &g);
        else
            find_scale(job, &g);
        if (s->search && g.coded) search_scale(job, &g);
        put_scale(s, job->scales, s->asymmetric ? 2 * index : index, g.grid.scale);
        if (s->asymmetric) put_scale(s, job->scales, 2 * index + 1, g.grid.zero);
        job->poisoned += pithi_nonfinite(pithi_bits(g.grid.scale));
        encode_codes(job, &g);
    }
}

void pithi_group_each_run(const struct pithi_group_job *like, struct pithi_group_run *run,
                          size_t runs, pithi_group_fn *encode) {
    for (size_t i = 0; i < runs; i++) {
        struct pithi_group_job job = *like;
        job.value = run[i].value;
        job.codes = run[i].codes;
        job.scales = run[i].scales;
        job.prefetch = i + 2 < runs ? run[i + 2].value : NULL;
        job.poisoned = run[i].poisoned;
        encode(&job);
        run[i].poisoned = job.poisoned;
    }
}

void pithi_group_encode_runs_c(const struct pithi_group_job *like, struct pithi_group_run *run,
                               size_t runs) {
    pithi_group_each_run(like, run, runs, pithi_group_encode_c);
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static void decode_value(struct pithi_group_job *job, size_t i, uint32_t x) {
    if (job->base_dtype != PITH_NONE) {
        const uint32_t b = pithi_load(job->base, job->base_dtype, i);
        x = pithi_group_update(b, x, job->base_dtype, &job->saturated);
        if (job->update) pithi_store(job->base, job->base_dtype, i, x);
    }
    if (job->out) pithi_store(job->out, job->out_dtype, i, x);
}

void pithi_group_decode_c(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    const size_t step = s->asymmetric ? 2 : 1;
    if (s->codebook) {
        (s->codebook == PITHI_CODEBOOK_TRELLIS ? pithi_trellis_decode_c
                                               : pithi_codebook_decode_c)(job);
        return;
    }
    float scale = 0, zero = 0;
    bool poisoned = false;
    uint64_t ignored = 0, *saturated = job->base_dtype == PITH_NONE ? &job->saturated : &ignored;
    for (size_t i = 0; i < job->count; i++) {
        if (i % s->group == 0) {
            const size_t index = i / s->group * step;
            scale = pithi_float(pithi_scale_load(job->scales, s->scale_dtype, index));
            if (s->asymmetric)
                zero = pithi_float(pithi_load(job->scales, s->scale_dtype, index + 1));
            poisoned = pithi_nonfinite(pithi_bits(scale)) || pithi_nonfinite(pithi_bits(zero));
            job->poisoned += poisoned;
        }
        const int q = pithi_unpack_integer(s, job->codes, job->count, i);
        decode_value(job, i,
                     poisoned ? PITHI_F32_NAN
                              : pithi_group_decoded(q, scale, zero, s->asymmetric, saturated));
    }
}

/* ---- Sum -------------------------------------------------------------------------------------*/

/* Overflow gives the largest finite value and is counted: without a base there is no other
 * overflow. */
static void sum_frame(struct pithi_sum_job *job, const uint8_t *frame, bool more) {
    const struct pithi_group_setting *s = &job->set;
    float scale = 0;
    bool poisoned = false;
    for (size_t i = 0; i < job->count; i++) {
        if (i % s->group == 0) {
            const uint8_t *scales = frame + job->scales_at;
            scale = pithi_float(pithi_scale_load(scales, s->scale_dtype, i / s->group));
            poisoned = pithi_nonfinite(pithi_bits(scale));
            job->poisoned += poisoned;
        }
        const int q = pithi_unpack_integer(s, frame + job->codes_at, job->count, i);
        uint32_t x =
            poisoned ? PITHI_F32_NAN : pithi_group_decoded(q, scale, 0, false, &job->saturated);
        job->sum[i] = more ? job->sum[i] + pithi_float(x) : pithi_float(x);
    }
}

void pithi_group_sum_c(struct pithi_sum_job *job) {
    for (size_t k = 0; k < job->frame_count; k++)
        sum_frame(job, job->frames[k], job->more || k > 0);
}

/* ---- Bound -----------------------------------------------------------------------------------*/

static double one_bound(const struct pithi_group_setting *s, double scale, double zero) {
    const double a = scale < 0 ? -scale : scale, z = zero < 0 ? -zero : zero;
    if (s->codebook == PITHI_CODEBOOK_TRELLIS) return pithi_trellis_bound(s, scale);
    if (s->codebook) return pithi_codebook_bound(s, scale);
    if (s->asymmetric || s->idempotent) return pithi_idempotent_bound(s, a, z);
    /* e8m0 has no 0: its least scale means a group that is all zero. */
    if (a == (s->scale_dtype == PITHI_E8M0 ? 0x1p-127 : 0)) return 0x1p-118;
    const double step = s->stochastic ? a : a / 2;
    /* A searched scale is at least half of the one that would reach the largest value with
     * 2^(bits-1). */
    if (s->search) return ((1 << (s->bits - 1)) + 1) * a * (1 + 0x1p-6);
    return step * (1 + 0x1p-14);
}

double pithi_group_bound(const struct pithi_group_setting *s, const uint8_t *scales,
                         uint64_t count) {
    const size_t step = s->asymmetric ? 2 : 1;
    double largest = 0;
    for (uint64_t g = 0; g * s->group < count; g++) {
        const uint32_t scale = pithi_scale_load(scales, s->scale_dtype, (size_t)g * step);
        const uint32_t zero =
            s->asymmetric ? pithi_load(scales, s->scale_dtype, (size_t)g * step + 1) : 0;
        if (pithi_nonfinite(scale) || pithi_nonfinite(zero))
            return (double)pithi_float(PITHI_F32_NAN);
        const double b = one_bound(s, (double)pithi_float(scale), (double)pithi_float(zero));
        if (b > largest) largest = b;
    }
    return largest;
}

/* ---- What scalar C has no loop for -------------------------------------------------------------
 * Callers then do the steps one after the other. */

size_t pithi_encode_hashed_c(struct pithi_group_job *job, uint64_t *hash) {
    (void)job;
    (void)hash;
    return 0;
}

size_t pithi_rotate_encode_c(const struct pithi_rotation *r, struct pithi_group_job *job) {
    (void)r;
    (void)job;
    return 0;
}
