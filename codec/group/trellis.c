/* trellis.c - trellis-coded groups in scalar C: the specification of the kernels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "group/trellis.h"

#include <string.h>

#include "group/packing.h"
#include "group/trellis_value.h"

enum { LANES = 16, SEQUENCE = PITHI_TRELLIS_SEQUENCE, STATES = PITHI_TRELLIS_STATES };

/* One group of a job. Its sums run over 16 lanes (element i in lane i % 16, in order), then over
 * halves of the lanes, so that vectors can form them. */
struct group {
    const struct pithi_group_job *job;
    const struct pithi_trellis *trellis;
    size_t first, count;
    float unit; /* what values are multiplied by */
    float with_value[LANES], with_itself[LANES];
};

/* ---- Values ----------------------------------------------------------------------------------*/

static float difference(const struct group *g, size_t i) {
    const struct pithi_group_job *job = g->job;
    const float v = pithi_float(pithi_load(job->value, job->value_dtype, g->first + i));
    if (job->base_dtype == PITH_NONE) return v;
    const uint32_t b = pithi_load(job->base, job->base_dtype, g->first + i);
    return v - pithi_float(pithi_nonfinite(b) ? 0 : b);
}

static uint32_t largest(const struct group *g) {
    uint32_t m = 0;
    for (size_t i = 0; i < g->count; i++) {
        const uint32_t a = pithi_magnitude(pithi_bits(difference(g, i)));
        m = a > m ? a : m;
    }
    return m;
}

static int rounded(const struct group *g, size_t i) {
    return pithi_trellis_rounded(g->trellis, difference(g, i) * g->unit);
}

/* Whether the first values are levels, as those of a decoded group are when its largest value is
 * the last level. */
static bool decoded_before(struct group *g, float m) {
    g->unit = (float)g->trellis->top / m;
    for (size_t i = 0; i < g->count && i < PITHI_TRELLIS_LOOK; i++)
        if (!pithi_trellis_is_level(g->trellis, rounded(g, i))) return false;
    return true;
}

/* ---- The best path of a sequence -------------------------------------------------------------*/

/* Metrics of the states, the least ones after the steps so far. */
struct metrics {
    uint32_t m[STATES];
};

/* Does one step: each state keeps the better of two ways into it, that of the lower state where
 * they are equal. Returns a bit for each state that came from the upper one. */
static unsigned step(struct metrics *from, const uint32_t distance[4]) {
    struct metrics to;
    unsigned upper = 0;
    for (int s = 0; s < STATES; s++) {
        uint32_t a = from->m[s >> 1] + distance[pithi_trellis_subset(s, 0)];
        uint32_t b = from->m[s >> 1 | STATES / 2] + distance[pithi_trellis_subset(s, 1)];
        if (a > PITHI_TRELLIS_WORST) a = PITHI_TRELLIS_WORST;
        if (b > PITHI_TRELLIS_WORST) b = PITHI_TRELLIS_WORST;
        to.m[s] = b < a ? b : a;
        upper |= (unsigned)(b < a) << s;
    }
    *from = to;
    return upper;
}

static int best_state(const struct metrics *metrics) {
    int best = 0;
    for (int s = 1; s < STATES; s++)
        if (metrics->m[s] < metrics->m[best]) best = s;
    return best;
}

static void lower(struct metrics *metrics) {
    const uint32_t least = metrics->m[best_state(metrics)];
    for (int s = 0; s < STATES; s++) metrics->m[s] -= least;
}

/* Finds codes for values [at, at + count) of a group; sums what their levels are. A path may begin
 * in state 0 and, with `mirrored`, in the last one: such a path is that of the negated values from
 * state 0, and codes are those of the values all the same. Returns whether it begins there. */
static bool find_path(struct group *g, size_t at, size_t count, bool mirrored,
                      uint8_t code[SEQUENCE]) {
    const struct pithi_trellis *const t = g->trellis;
    struct metrics metrics;
    uint8_t upper[SEQUENCE] = {0};
    for (int s = 0; s < STATES; s++)
        metrics.m[s] = s == 0 || (mirrored && s == STATES - 1) ? 0 : PITHI_TRELLIS_WORST;
    for (size_t i = 0; i < count; i++) {
        const int y = rounded(g, at + i), first = pithi_trellis_first(t, y);
        uint32_t distance[4];
        for (int k = 0; k < 4; k++) {
            const int d = y - t->level[pithi_trellis_of_subset(first, k)];
            distance[k] = (uint32_t)(d * d);
        }
        upper[i] = (uint8_t)step(&metrics, distance);
        if (i % PITHI_TRELLIS_UNSURE == PITHI_TRELLIS_UNSURE - 1) lower(&metrics);
    }
    int state = best_state(&metrics);
    for (size_t i = count; i-- > 0;) {
        const int oldest = upper[i] >> state & 1, y = rounded(g, at + i);
        const int number =
            pithi_trellis_of_subset(pithi_trellis_first(t, y), pithi_trellis_subset(state, oldest));
        code[i] = (uint8_t)(number >> 2 << 1 | (state & 1));
        state = state >> 1 | oldest << 2;
    }
    unsigned history = (unsigned)state;
    for (size_t i = 0; i < count; i++) {
        const float l = (float)t->level[pithi_trellis_number(history, code[i])];
        history = pithi_trellis_next(history, code[i]);
        g->with_value[i % LANES] += difference(g, at + i) * g->unit * l;
        g->with_itself[i % LANES] += l * l;
    }
    return state != 0;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

static float sum_lanes(float lane[LANES]) {
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}

static void pack(uint8_t *to, const uint8_t *code, size_t count, unsigned bits, unsigned flip) {
    struct pithi_packer packer = {.to = to};
    for (size_t i = 0; i < count; i++) pithi_pack_code(&packer, code[i] ^ flip, bits);
    pithi_pack_end(&packer);
}

/* Codes a group whose largest magnitude m is not tiny; returns its scale. */
static float code_group(struct group *g, float m, float utmost) {
    const struct pithi_group_setting *const s = &g->job->set;
    const bool before = decoded_before(g, m);
    const int reach = before ? g->trellis->top : pithi_trellis_reach(s->bits, g->count);
    const uint32_t dtype = pithi_trellis_dtype(s, g->job->value_dtype);
    const bool single = g->count <= SEQUENCE;
    bool mirrored = false;
    g->unit = (float)reach / m;
    memset(g->with_value, 0, sizeof g->with_value);
    memset(g->with_itself, 0, sizeof g->with_itself);
    for (size_t at = 0, n; at < g->count; at += n) {
        uint8_t code[SEQUENCE];
        n = g->count - at < SEQUENCE ? g->count - at : SEQUENCE;
        mirrored = find_path(g, at, n, single, code);
        pack(g->job->codes + (g->first + at) * s->bits / 8, code, n, s->bits,
             mirrored ? (1u << s->bits) - 1 : 0);
    }
    const float scale = pithi_trellis_scale(s, g->trellis, dtype, reach, m, utmost,
                                            sum_lanes(g->with_value), sum_lanes(g->with_itself));
    return mirrored ? -scale : scale;
}

/* Adds what a group decodes to to its base. */
static void update(struct pithi_group_job *job, const struct group *g, size_t index) {
    struct pithi_group_job part = *job;
    part.count = g->count;
    part.out = NULL;
    part.codes += g->first * job->set.bits / 8;
    part.scales += index * pithi_scale_width(job->set.scale_dtype);
    part.base = (uint8_t *)job->base + g->first * pith_dtype_bytes(job->base_dtype);
    pithi_trellis_decode_c(&part);
    job->saturated = part.saturated;
}

void pithi_trellis_encode_c(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    const uint32_t dtype = pithi_trellis_dtype(s, job->value_dtype);
    struct pithi_trellis trellis;
    pithi_trellis_init(&trellis, s->bits);
    struct group g = {.job = job, .trellis = &trellis};
    const float top = (float)trellis.top / PITHI_TRELLIS_UNIT;
    for (size_t index = 0; g.first < job->count; index++, g.first += s->group) {
        g.count = job->count - g.first < s->group ? job->count - g.first : s->group;
        const uint32_t m = largest(&g);
        float scale = pithi_codebook_reach(top, s, dtype, m);
        const bool lost = pithi_nonfinite(pithi_bits(scale));
        if (!lost && scale != 0)
            scale = code_group(&g, pithi_float(m), scale);
        else
            memset(job->codes + g.first * s->bits / 8, 0, pithi_group_code_bytes(s, g.count));
        job->poisoned += lost;
        pithi_scale_store(job->scales, s->scale_dtype, index, pithi_bits(scale));
        if (job->update && job->base) update(job, &g, index);
    }
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static void add_value(struct pithi_group_job *job, size_t i, uint32_t x) {
    const float sum = pithi_float(pithi_load(job->base, PITH_F32, i)) + pithi_float(x);
    pithi_store(job->base, PITH_F32, i, pithi_bits(sum));
}

static void put_value(struct pithi_group_job *job, size_t i, uint32_t x) {
    if (job->base_dtype != PITH_NONE) {
        if (job->sums) {
            add_value(job, i, x);
            return;
        }
        const uint32_t b = pithi_load(job->base, job->base_dtype, i);
        x = pithi_group_update(b, x, job->base_dtype, &job->saturated);
        if (job->update) pithi_store(job->base, job->base_dtype, i, x);
    }
    if (job->out) pithi_store(job->out, job->out_dtype, i, x);
}

void pithi_trellis_decode_c(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    struct pithi_trellis trellis;
    pithi_trellis_init(&trellis, s->bits);
    uint64_t ignored = 0, *const saturated = job->base_dtype == PITH_NONE || job->sums
                                                 ? &job->saturated
                                                 : &ignored;
    float scale = 0;
    bool lost = false;
    unsigned history = 0;
    for (size_t i = 0; i < job->count; i++) {
        if (i % s->group == 0) {
            scale = pithi_float(pithi_scale_load(job->scales, s->scale_dtype, i / s->group));
            lost = pithi_nonfinite(pithi_bits(scale));
            job->poisoned += lost;
        }
        if (i % s->group % SEQUENCE == 0) history = 0;
        const unsigned code = (unsigned)pithi_unpack_at(s, job->codes, job->count, i);
        const int level = trellis.level[pithi_trellis_number(history, code)];
        history = pithi_trellis_next(history, code);
        put_value(job, i, lost ? PITHI_F32_NAN : pithi_trellis_decoded(level, scale, saturated));
    }
}

/* ---- Sum -------------------------------------------------------------------------------------*/

void pithi_trellis_sum(struct pithi_sum_job *job, pithi_group_fn *decode) {
    const size_t group = job->set.group;
    const size_t most = group > PITHI_TRELLIS_SUMMED ? group : PITHI_TRELLIS_SUMMED;
    for (size_t at = 0; at < job->count; at += most) {
        float *const sum = job->sum + at;
        struct pithi_group_job part = {.set = job->set};
        part.count = job->count - at < most ? job->count - at : most;
        for (size_t k = 0; k < job->frame_count; k++) {
            part.sums = job->more || k > 0;
            part.out = part.sums ? NULL : sum;
            part.out_dtype = part.sums ? PITH_NONE : PITH_F32;
            part.base = part.sums ? sum : NULL;
            part.base_dtype = part.sums ? PITH_F32 : PITH_NONE;
            part.update = part.sums;
            part.scales = (uint8_t *)(uintptr_t)job->frames[k] + job->scales_at +
                          pithi_group_scale_bytes(&job->set, at);
            part.codes = (uint8_t *)(uintptr_t)job->frames[k] + job->codes_at +
                         pithi_group_code_bytes(&job->set, at);
            decode(&part);
        }
        job->poisoned += part.poisoned;
        job->saturated += part.saturated;
    }
}

/* ---- Bound -----------------------------------------------------------------------------------*/

/* The largest value is reach / 64 scales of a quotient of 1, and the scale is that of a quotient
 * which is not below the least. f16 scales lose half a last place below their normal numbers. */
double pithi_trellis_bound(const struct pithi_group_setting *s, double scale) {
    struct pithi_trellis t;
    pithi_trellis_init(&t, s->bits);
    const double a = scale < 0 ? -scale : scale;
    const double least = s->scale_dtype == PITH_F16 ? 0x1p-25 : 0x1p-100;
    const double reach = pithi_trellis_reach(s->bits, s->group);
    const double widest = reach / (double)pithi_trellis_least(s) + t.top;
    return widest / (double)PITHI_TRELLIS_UNIT * (a + least) * (1 + 0x1p-7);
}
