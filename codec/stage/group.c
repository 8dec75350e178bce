/* group.c - the group quantizer in scalar C: the specification of its kernels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "stage/group.h"

#define TINY 0x04800000u /* bits of 2^-118: smaller groups are all zero */

static uint32_t magnitude(uint32_t u) { return u & 0x7FFFFFFFu; }

/* ---- Scale of a group ------------------------------------------------------------------------*/

/* The smallest power of two not below s; NaN from above 2^127 on. */
static float power_above(float s) {
    const uint32_t up = (pithi_bits(s) + 0x007FFFFFu) & 0xFF800000u;
    return pithi_float(up < PITHI_F32_INF ? up : PITHI_F32_NAN);
}

/* In the scale dtype: nearest even, finite values staying finite; e8m0: up, or NaN. */
static float round_scale(uint32_t dtype, float s) {
    if (dtype == PITH_F32) return s;
    if (dtype == PITHI_E8M0) return power_above(s);
    uint16_t h = pithi_to_bf16(pithi_bits(s));
    if (magnitude(pithi_from_bf16(h)) == PITHI_F32_INF)
        h = (uint16_t)((h & 0x8000u) | PITHI_BF16_MAX);
    return pithi_float(pithi_from_bf16(h));
}

/* Up, so that no value of an asymmetric group lies beyond the last code. */
static float ceil_scale(uint32_t dtype, float s) {
    if (dtype == PITH_F32) return s;
    const uint32_t up = (pithi_bits(s) + 0xFFFFu) & 0xFFFF0000u, most = pithi_largest(PITH_BF16);
    return pithi_float(up < most ? up : most);
}

/* The largest value of the dtype that is not above z. */
static float floor_zero(uint32_t dtype, float z) {
    if (dtype == PITH_F32) return z;
    const uint32_t u = pithi_bits(z);
    return pithi_float((u >> 31 ? u + 0xFFFFu : u) & 0xFFFF0000u);
}

bool pithi_group_scale(const struct pithi_group_setting *s, uint32_t m, float *scale,
                       float *reciprocal) {
    *reciprocal = 0;
    *scale = m >= PITHI_F32_INF ? pithi_float(PITHI_F32_NAN) : 0;
    if (m >= PITHI_F32_INF || m < TINY) return false;
    const float levels = (float)((1 << (s->bits - 1)) - 1);
    *scale = round_scale(s->scale_dtype, pithi_float(m) / levels);
    *reciprocal = 1.0f / *scale;
    return !pithi_nonfinite(pithi_bits(*scale));
}

bool pithi_group_range(const struct pithi_group_setting *s, float lo, float hi, float *scale,
                       float *zero, float *reciprocal) {
    *reciprocal = 0;
    *zero = floor_zero(s->scale_dtype, lo);
    const float range = hi - *zero;
    const float levels = (float)((1 << s->bits) - 1);
    *scale = pithi_bits(range) < TINY ? 0 : ceil_scale(s->scale_dtype, range / levels);
    /* Also when the last code would overflow before the zero point is added. */
    if (pithi_nonfinite(pithi_bits(range)) || pithi_nonfinite(pithi_bits(levels * *scale))) {
        *scale = *zero = pithi_float(PITHI_F32_NAN);
        return false;
    }
    if (*scale == 0) return false;
    *reciprocal = 1.0f / *scale;
    return true;
}

static void put_scale(const struct pithi_group_setting *s, uint8_t *scales, size_t index, float v) {
    pithi_scale_store(scales, s->scale_dtype, index, pithi_bits(v));
}

/* ---- One value -------------------------------------------------------------------------------*/

static uint32_t base_at(const struct pithi_group_job *job, size_t i) {
    const uint32_t b = pithi_load(job->base, job->base_dtype, i);
    return pithi_nonfinite(b) ? 0 : b;
}

static float difference(const struct pithi_group_job *job, size_t i) {
    const float v = pithi_float(pithi_load(job->value, job->value_dtype, i));
    return job->base_dtype == PITH_NONE ? v : v - pithi_float(base_at(job, i));
}

/* |v| < 2^22: adding and subtracting 1.5 * 2^23 rounds to nearest even. */
static int round_even(float v) { return (int)((v + 0x1.8p23f) - 0x1.8p23f); }

/* floor(v), plus one when the 16 random bits are below the fraction: v with 16 bits after the
 * point, rounded down, and a carry out of them. |v| < 2^9. */
static int round_stochastic(float v, uint32_t random16) {
    const float scaled = v * 65536.0f;
    int t = (int)scaled;
    t -= (float)t > scaled;
    return ((t + (1 << 25) + 65535 - (int)random16) >> 16) - (1 << 9);
}

static int clamp(int q, int lo, int hi) { return q < lo ? lo : q > hi ? hi : q; }

/* x' of one code; scale and zero are finite. Overflow gives the largest finite value. */
static uint32_t decoded(int q, float scale, float zero, bool asymmetric, uint64_t *saturated) {
    float x = (float)q * scale;
    if (asymmetric) x = x + zero;
    const uint32_t u = pithi_bits(x);
    if (magnitude(u) != PITHI_F32_INF) return u;
    ++*saturated;
    return (u & 0x80000000u) | PITHI_F32_MAX;
}

uint32_t pithi_group_update(uint32_t base, uint32_t x, uint32_t base_dtype, uint64_t *saturated) {
    if (pithi_nonfinite(base)) base = 0;
    const uint32_t sum = pithi_bits(pithi_float(base) + pithi_float(x));
    if (magnitude(x) > PITHI_F32_INF) return PITHI_F32_NAN;
    uint32_t rounded = sum;
    if (base_dtype == PITH_BF16) rounded = pithi_from_bf16(pithi_to_bf16(sum));
    if (base_dtype == PITH_F16) rounded = pithi_from_f16(pithi_to_f16(sum));
    if (magnitude(rounded) != PITHI_F32_INF) return rounded;
    ++*saturated;
    return (rounded & 0x80000000u) | pithi_largest(base_dtype);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

struct group {
    size_t first, count; /* elements of the job */
    float scale, zero, reciprocal;
    bool coded; /* false: all codes are 0 */
};

/* Float bits to integers in the order of the values; -0 is below +0. */
static int32_t ordered(uint32_t u) { return (int32_t)(u >> 31 ? u ^ 0x7FFFFFFFu : u); }
static float from_ordered(int32_t o) {
    return pithi_float(o < 0 ? (uint32_t)o ^ 0x7FFFFFFFu : (uint32_t)o);
}

static void find_scale(const struct pithi_group_job *job, struct group *g) {
    uint32_t m = 0;
    for (size_t i = 0; i < g->count; i++) {
        const uint32_t a = magnitude(pithi_bits(difference(job, g->first + i)));
        if (a > m) m = a;
    }
    g->zero = 0;
    g->coded = pithi_group_scale(&job->set, m, &g->scale, &g->reciprocal);
}

static void find_range(const struct pithi_group_job *job, struct group *g) {
    int32_t lo = INT32_MAX, hi = INT32_MIN;
    for (size_t i = 0; i < g->count; i++) {
        const int32_t o = ordered(pithi_bits(difference(job, g->first + i)));
        if (o < lo) lo = o;
        if (o > hi) hi = o;
    }
    float low = from_ordered(lo);
    const float high = from_ordered(hi);
    if (pithi_nonfinite(pithi_bits(low))) low = pithi_float(PITHI_F32_NAN);
    g->coded = pithi_group_range(&job->set, low, high, &g->scale, &g->zero, &g->reciprocal);
}

/* ---- Search for a scale ----------------------------------------------------------------------*/

/* The group in units of `unit`, turned so that its largest value is negative, where the codes reach
 * one further; candidates are factors on it. The first reaches the largest value with the codes of
 * the short side, the others with those of the long one, or fall short of it by up to 13/16. */
void pithi_search_begin(struct pithi_search *s) {
    const int reach = 1 << (s->set->bits - 1);
    const bool power = s->set->scale_dtype == PITHI_E8M0;
    s->unit = power ? s->scale : pithi_float(s->largest) / (float)reach;
    s->reciprocal = 1.0f / s->unit;
    s->turn = !power && s->above ? 0x80000000u : 0;
    s->least = -reach;
    s->most = reach - 1;
    s->candidates = power ? 2 : PITHI_SEARCH_MOST;
    for (int k = 0; k < PITHI_SEARCH_ROOM; k++)
        s->factor[k] = power ? (float)(k + 1) : 1.0f + (float)(k - 1) * 0.0625f;
    if (!power) s->factor[0] = ((float)reach - 1) / (float)reach;
}

/* The scale of each candidate is that of least squares for its codes; the best explains most. */
static float search_free(const struct pithi_search *s) {
    float best = 0, scale = s->unit;
    for (int k = 0; k < s->candidates; k++) {
        const float explained = s->vq[k] * s->vq[k] / s->qq[k];
        if (!(explained > best)) continue; /* also when all codes are 0 */
        best = explained;
        const float t = s->vq[k] / s->qq[k];
        scale = s->unit * (t < 0.5f ? 1.0f / s->factor[k] : t);
    }
    const uint32_t u = pithi_bits(scale);
    return pithi_float((u < PITHI_F32_INF ? u : PITHI_F32_MAX) ^ s->turn);
}

/* Powers of two: the one that reaches the largest value, or its half. */
static float search_power(const struct pithi_search *s) {
    const float whole = 2 * s->vq[0] - s->qq[0], half = s->vq[1] - s->qq[1] * 0.25f;
    return half > whole ? s->unit * 0.5f : s->unit;
}

float pithi_search_end(const struct pithi_search *s) {
    const uint32_t dtype = s->set->scale_dtype;
    return round_scale(dtype, dtype == PITHI_E8M0 ? search_power(s) : search_free(s));
}

enum { LANES = 16 };

/* Sums run over 16 lanes (element i in lane i % 16, in order), then over halves of the lanes, so
 * that vectors can form them. */
static void correlate(const struct pithi_group_job *job, const struct group *g,
                      struct pithi_search *s, int k) {
    float lane[LANES] = {0};
    int32_t squares = 0;
    for (size_t i = 0; i < g->count; i++) {
        const float d = difference(job, g->first + i);
        const float v = pithi_float(pithi_bits(d) ^ s->turn) * s->reciprocal;
        const int q = clamp(round_even(v * s->factor[k]), s->least, s->most);
        lane[i % LANES] += v * (float)q;
        squares += q * q;
    }
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++) lane[i] += lane[i + half];
    s->vq[k] = lane[0];
    s->qq[k] = (float)squares;
}

static void search_scale(const struct pithi_group_job *job, struct group *g) {
    struct pithi_search s = {.set = &job->set, .scale = g->scale};
    uint32_t positive = 0;
    for (size_t i = 0; i < g->count; i++) {
        const uint32_t u = pithi_bits(difference(job, g->first + i));
        if (magnitude(u) > s.largest) s.largest = magnitude(u);
        if (u < 0x80000000u && u > positive) positive = u;
    }
    s.above = positive == s.largest;
    pithi_search_begin(&s);
    for (int k = 0; k < s.candidates; k++) correlate(job, g, &s, k);
    g->scale = pithi_search_end(&s);
    g->reciprocal = 1.0f / g->scale;
}

/* ---- Codes -----------------------------------------------------------------------------------*/

static int quantize(const struct pithi_group_job *job, const struct group *g, size_t i,
                    uint32_t random16) {
    const bool asymmetric = job->set.asymmetric;
    float d = difference(job, i);
    if (asymmetric) d = d - g->zero;
    const float v = d * g->reciprocal;
    const int q = job->set.stochastic ? round_stochastic(v, random16) : round_even(v);
    const int levels = (1 << (asymmetric ? job->set.bits : job->set.bits - 1)) - 1;
    return clamp(q, asymmetric ? 0 : job->set.search ? -levels - 1 : -levels, levels);
}

static void update_base(struct pithi_group_job *job, const struct group *g, size_t i, int q) {
    const bool poisoned = pithi_nonfinite(pithi_bits(g->scale));
    uint64_t ignored = 0; /* what counts is whether the base overflows */
    const uint32_t x =
        poisoned ? PITHI_F32_NAN : decoded(q, g->scale, g->zero, job->set.asymmetric, &ignored);
    const uint32_t b = pithi_load(job->base, job->base_dtype, i);
    const uint32_t next = pithi_group_update(b, x, job->base_dtype, &job->saturated);
    pithi_store(job->base, job->base_dtype, i, next);
}

static uint32_t random_at(const struct pithi_group_job *job, const uint32_t random[4], uint64_t e) {
    return ((random[e % 8 / 2] >> (e % 2 * 16)) + job->random.shift) & 0xFFFFu;
}

/* Groups begin at whole bytes: 16 codes of any width are whole bytes. */
static void encode_codes(struct pithi_group_job *job, const struct group *g) {
    const uint32_t bits = job->set.bits, mask = (1u << bits) - 1;
    uint8_t *out = job->codes + g->first * bits / 8;
    uint32_t pending = 0, filled = 0, random[4];
    for (size_t i = g->first; i < g->first + g->count; i++) {
        const uint64_t e = job->first + i;
        if (job->set.stochastic && (e % 8 == 0 || i == g->first))
            pithi_philox(&job->random, e / 8, random);
        const uint32_t u16 = job->set.stochastic ? random_at(job, random, e) : 0;
        const int q = g->coded ? quantize(job, g, i, u16) : 0;
        if (job->update) update_base(job, g, i, q);
        pending |= ((uint32_t)q & mask) << filled;
        for (filled += bits; filled >= 8; filled -= 8, pending >>= 8) *out++ = (uint8_t)pending;
    }
    if (filled) *out = (uint8_t)pending;
}

void pithi_group_encode_c(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    struct group g = {0};
    for (size_t index = 0; g.first < job->count; index++, g.first += s->group) {
        g.count = job->count - g.first < s->group ? job->count - g.first : s->group;
        if (s->asymmetric) {
            find_range(job, &g);
            put_scale(s, job->scales, 2 * index, g.scale);
            put_scale(s, job->scales, 2 * index + 1, g.zero);
        } else {
            find_scale(job, &g);
            if (s->search && g.coded) search_scale(job, &g);
            put_scale(s, job->scales, index, g.scale);
        }
        job->poisoned += pithi_nonfinite(pithi_bits(g.scale));
        encode_codes(job, &g);
    }
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

static int code_at(const struct pithi_group_setting *s, const uint8_t *codes, size_t count,
                   size_t i) {
    const uint32_t bits = s->bits, mask = (1u << bits) - 1;
    const size_t bit = i * bits, last = pithi_group_code_bytes(s, count) - 1;
    uint32_t word = codes[bit / 8];
    if (bit / 8 < last) word |= (uint32_t)codes[bit / 8 + 1] << 8;
    const uint32_t code = word >> bit % 8 & mask;
    if (s->asymmetric) return (int)code;
    return (int)(code ^ (mask + 1) / 2) - (int)((mask + 1) / 2);
}

void pithi_group_decode_c(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    const size_t step = s->asymmetric ? 2 : 1;
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
        const int q = code_at(s, job->codes, job->count, i);
        decode_value(job, i,
                     poisoned ? PITHI_F32_NAN : decoded(q, scale, zero, s->asymmetric, saturated));
    }
}

/* ---- Sum -------------------------------------------------------------------------------------*/

/* Largest finite instead of infinity, counted: the only overflow there is without a base. */
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
        const int q = code_at(s, frame + job->codes_at, job->count, i);
        uint32_t x = poisoned ? PITHI_F32_NAN : decoded(q, scale, 0, false, &job->saturated);
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
    /* e8m0 has no 0: what its least scale means is a group that is all zero. */
    if (a == (s->scale_dtype == PITHI_E8M0 ? 0x1p-127 : 0)) return 0x1p-118;
    const double levels = (double)((1 << s->bits) - 1);
    const double step = s->stochastic ? a : a / 2;
    /* A searched scale is at least half of what would reach the largest value with 2^(bits-1). */
    if (s->search) return ((1 << (s->bits - 1)) + 1) * a * (1 + 0x1p-6);
    if (!s->asymmetric) return step * (1 + 0x1p-14);
    return step * (1 + 0x1p-12) + 0x1p-23 * (z + levels * a);
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
