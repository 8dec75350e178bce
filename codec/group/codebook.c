/* codebook.c - groups coded as numbers of levels, in scalar C: the specification of the kernels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "group/codebook.h"

#include "group/codebook_value.h"
#include "group/packing.h"

enum { LANES = 16 };

/* One group. Its sums run over 16 lanes (element i in lane i % 16, in order), then over halves of
 * the lanes, so that vectors can form them. */
struct group {
    const struct pithi_group_job *job;
    const struct pithi_codebook *book;
    size_t first, count;
    float scale;
    float cells; /* what a unit of the values is for codes; lloyd: 0 makes codes by the scale */
};

static float value(const struct group *g, size_t i) {
    return pithi_float(pithi_load(g->job->value, g->job->value_dtype, g->first + i));
}

static float sum_lanes(float lane[LANES]) {
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}

static uint32_t largest(const struct group *g) {
    uint32_t m = 0;
    for (size_t i = 0; i < g->count; i++) {
        const uint32_t a = pithi_magnitude(pithi_bits(value(g, i)));
        m = a > m ? a : m;
    }
    return m;
}

static int code(const struct group *g, size_t i) {
    return pithi_codebook_code(g->book, &g->job->set, value(g, i) * g->cells);
}

/* ---- Scales of Lloyd-Max codes ---------------------------------------------------------------*/

static float mean_guess(const struct group *g) {
    float lane[LANES] = {0};
    for (size_t i = 0; i < g->count; i++)
        lane[i % LANES] += pithi_float(pithi_magnitude(pithi_bits(value(g, i))));
    return pithi_codebook_guess(sum_lanes(lane), g->count);
}

/* Returns the sum of magnitudes of the levels that the codes stand for. */
static float level_sum(const struct group *g) {
    float lane[LANES] = {0};
    for (size_t i = 0; i < g->count; i++)
        lane[i % LANES] += pithi_float(pithi_magnitude(pithi_bits(g->book->level[code(g, i)])));
    return sum_lanes(lane);
}

/* Returns the scale of least squares for the codes. */
static float least_squares(const struct group *g) {
    float with_value[LANES] = {0}, with_itself[LANES] = {0};
    for (size_t i = 0; i < g->count; i++) {
        const float c = g->book->level[code(g, i)];
        with_value[i % LANES] += value(g, i) * c;
        with_itself[i % LANES] += c * c;
    }
    return pithi_codebook_fit(&g->job->set, sum_lanes(with_value), sum_lanes(with_itself));
}

/* Whether the codes reproduce every value. */
static bool exact(const struct group *g) {
    for (size_t i = 0; i < g->count; i++) {
        const float x = pithi_codebook_value(g->book, code(g, i), g->scale);
        if (pithi_round_to(g->job->value_dtype, x) != value(g, i)) return false;
    }
    return true;
}

static bool one_magnitude(const struct group *g) {
    const int first = code(g, 0), other = g->book->levels - 1 - first;
    for (size_t i = 1; i < g->count; i++)
        if (code(g, i) != first && code(g, i) != other) return false;
    return true;
}

/* Whether decoded values get again the codes that the guess has given. */
static bool is_idempotent(const struct group *g, float m, float scale) {
    return pithi_codebook_is_idempotent(g->book, g->job->value_dtype, m, g->cells, scale,
                                        level_sum(g), g->count) &&
           !one_magnitude(g);
}

/* Chooses the scale. g->scale comes as the one that reaches the largest value; an idempotent scale
 * by a guess is preferred, but for values that the former scale coded before. */
static void choose_lloyd(struct group *g, float m) {
    const float by_scale = pithi_codebook_cells(&g->job->set, g->scale);
    g->cells = by_scale;
    if (exact(g) && !pithi_codebook_steady(g->book, level_sum(g), g->count)) return;
    g->cells = mean_guess(g);
    const float scale = least_squares(g);
    if (is_idempotent(g, m, scale))
        g->scale = scale;
    else
        g->cells = by_scale;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

static void encode_group(struct pithi_group_job *job, struct group *g, size_t index) {
    const struct pithi_group_setting *s = &job->set;
    const uint32_t m = largest(g);
    g->scale = pithi_codebook_reach(g->book->level[g->book->levels - 1], s, job->value_dtype, m);
    const bool lost = pithi_nonfinite(pithi_bits(g->scale)), coded = !lost && g->scale != 0;
    job->poisoned += lost;
    if (coded && s->codebook == PITHI_CODEBOOK_LLOYD) choose_lloyd(g, pithi_float(m));
    if (coded && s->codebook == PITHI_CODEBOOK_NF) g->cells = pithi_codebook_cells(s, g->scale);
    pithi_scale_store(job->scales, s->scale_dtype, index, pithi_bits(g->scale));
    struct pithi_packer packer = {.to = job->codes + g->first * s->bits / 8};
    for (size_t i = 0; i < g->count; i++)
        pithi_pack_code(&packer, coded ? (uint32_t)code(g, i) : 0, s->bits);
    pithi_pack_end(&packer);
}

void pithi_codebook_encode_c(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    struct pithi_codebook book;
    pithi_codebook_init(&book, s);
    struct group g = {.job = job, .book = &book};
    for (size_t index = 0; g.first < job->count; index++, g.first += s->group) {
        g.count = job->count - g.first < s->group ? job->count - g.first : s->group;
        encode_group(job, &g, index);
    }
}

/* ---- Decode ----------------------------------------------------------------------------------*/

void pithi_codebook_decode_c(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    struct pithi_codebook book;
    pithi_codebook_init(&book, s);
    float scale = 0;
    for (size_t i = 0; i < job->count; i++) {
        if (i % s->group == 0) {
            scale = pithi_float(pithi_scale_load(job->scales, s->scale_dtype, i / s->group));
            job->poisoned += pithi_nonfinite(pithi_bits(scale));
        }
        uint32_t x = PITHI_F32_NAN;
        if (!pithi_nonfinite(pithi_bits(scale))) {
            const int c = (int)pithi_unpack_at(s, job->codes, job->count, i);
            x = pithi_codebook_decoded(&book, c, scale, &job->saturated);
        }
        if (job->out) pithi_store(job->out, job->out_dtype, i, x);
    }
}

/* ---- Bound -----------------------------------------------------------------------------------*/

/* With normal floats the error is half the widest gap between levels. A steady Lloyd-Max scale is
 * above a quarter of the mean magnitude, and no value is above the sum of all. */
double pithi_codebook_bound(const struct pithi_group_setting *s, double scale) {
    static const double gap[] = {0.5, 0.2325, 0.152};
    const double a = scale < 0 ? -scale : scale;
    const double least = s->scale_dtype == PITH_F16 ? 0x1p-22 : 0x1p-99;
    if (s->codebook == PITHI_CODEBOOK_LLOYD) return 4.0 * s->group * (a + least);
    return a * (gap[s->bits - 2] + 0x1p-7) + least;
}
