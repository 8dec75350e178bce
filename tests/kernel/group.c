/* group.c - the group quantizer's kernels against its scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"

enum { MOST = 40000, CAPACITY = MOST * 4 + 4096 };

/* One case: everything but the data. Places: one per buffer. */
struct shape {
    struct pithi_group_setting set;
    uint32_t value, base, out; /* dtypes; out PITH_NONE: no output */
    size_t count;
    enum fill value_fill, base_fill;
    bool update, nontemporal, hostile_frame;
    uint64_t first;
    size_t place[5];
};

/* What one run left behind. */
struct result {
    uint8_t codes[MOST + 64], scales[MOST + 64], base[MOST * 4], out[MOST * 4];
    uint64_t saturated, poisoned;
};

static struct guarded area[5]; /* value, base, codes, scales, out */
static struct result *expected;
static uint8_t *value, *base;

bool bound_group(const struct level *level) {
    return level->kernels.group_encode != pithi_group_encode_c &&
           level->kernels.group_decode != pithi_group_decode_c &&
           level->kernels.group_sum != pithi_group_sum_c &&
           level->kernels.rotate_encode != pithi_rotate_encode_c &&
           level->kernels.group_encode_runs != pithi_group_encode_runs_c &&
           level->kernels.channel_encode != pithi_channel_encode_c &&
           level->kernels.channel_decode != pithi_channel_decode_c;
}

static const char *name(uint32_t dtype) {
    if (dtype == PITHI_E8M0) return "e8m0";
    return dtype == PITH_F32 ? "f32" : dtype == PITH_BF16 ? "bf16" : dtype ? "f16" : "none";
}
static size_t code_bytes(const struct shape *s) {
    return pithi_group_code_bytes(&s->set, s->count);
}
static size_t scale_bytes(const struct shape *s) {
    return pithi_group_scale_bytes(&s->set, s->count);
}

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin(
        "group %s %s: %s -> %s, base %s, %zu elements, group %u, %u bits %s %s%s, scale %s, "
        "values %s, base %s, update %d, nontemporal %d, first %llu, places %zu %zu %zu %zu %zu",
        level->isa, what, name(s->value), name(s->out), name(s->base), s->count, s->set.group,
        s->set.bits, s->set.asymmetric ? "asymmetric" : "symmetric",
        s->set.stochastic ? "stochastic" : "nearest",
        s->set.search       ? " searched"
        : s->set.idempotent ? " idempotent"
                            : "",
        name(s->set.scale_dtype), fill_names[s->value_fill], fill_names[s->base_fill], s->update,
        s->nontemporal, (unsigned long long)s->first, s->place[0], s->place[1], s->place[2],
        s->place[3], s->place[4]);
}

static struct pithi_group_job job_of(const struct shape *s) {
    struct pithi_group_job job = {.set = s->set, .count = s->count, .update = s->update};
    job.value_dtype = s->value;
    job.base_dtype = s->base;
    job.out_dtype = s->out;
    job.nontemporal = s->nontemporal;
    job.random = (struct pithi_random){.seed = UINT64_C(0x1234567890ABCDEF) + s->first,
                                       .step = UINT64_C(0x100000007),
                                       .rng_stream = 0xDEADBEEFu,
                                       .shift = (uint16_t)(s->first / 16 * 40503u)};
    job.first = s->first;
    job.saturated = 5; /* results are added to */
    job.poisoned = 7;
    return job;
}

static void call(pithi_group_fn *fn, struct pithi_group_job *job) {
    const struct host_fp host = host_fp_enter();
    fn(job);
    host_fp_leave(host);
}

static void make_data(const struct shape *s) {
    const int levels = (1 << (s->set.asymmetric ? s->set.bits : s->set.bits - 1)) - 1;
    fill_values(value, s->value, s->count, s->value_fill, levels);
    if (s->base) fill_values(base, s->base, s->count, s->base_fill, levels);
}

static void expect_counts(const struct pithi_group_job *job) {
    check_that(job->saturated == expected->saturated, "the saturated count differs");
    check_that(job->poisoned == expected->poisoned, "the poisoned count differs");
}

static void expect_intact(void) {
    static const char *const names[5] = {"value", "base", "codes", "scales", "out"};
    for (int k = 0; k < 5; k++)
        if (area[k].p && !guarded_intact(&area[k])) check_that(false, names[k]);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

static void encode_scalar(const struct shape *s) {
    struct pithi_group_job job = job_of(s);
    if (s->base) memcpy(expected->base, base, s->count * width(s->base));
    job.value = value;
    job.base = s->base ? expected->base : NULL;
    job.codes = expected->codes;
    job.scales = expected->scales;
    call(pithi_group_encode_c, &job);
    expected->saturated = job.saturated;
    expected->poisoned = job.poisoned;
}

static size_t hashed_elements; /* elements that were encoded with their hash */

/* Encodes a part of a job with its hash, and the rest without. */
static void encode_with_hash(const struct level *level, const struct shape *s,
                             struct pithi_group_job *job) {
    const size_t size = width(s->base), lane = (size_t)s->first * size / 8;
    uint64_t hash = 3;
    const uint64_t entered = pithi_fp_enter();
    const size_t done = level->kernels.encode_hashed(job, &hash);
    pithi_fp_leave(entered);
    check_that(done <= s->count && done % s->set.group == 0, "not whole groups were encoded");
    check_that(hash == 3 + pithi_nh_c(job->base, done * size, lane), "the hash differs");
    hashed_elements += done;
    struct pithi_group_job rest = *job;
    rest.count -= done;
    rest.value = (const uint8_t *)job->value + done * width(s->value);
    rest.base = (uint8_t *)job->base + done * size;
    rest.codes += done * s->set.bits / 8;
    rest.scales += pithi_group_scale_bytes(&s->set, done);
    rest.first += done;
    if (rest.count) call(level->kernels.group_encode, &rest);
    job->saturated = rest.saturated;
    job->poisoned = rest.poisoned;
}

static void encode_kernel(const struct level *level, const struct shape *s, bool hashed) {
    struct pithi_group_job job = job_of(s);
    begin(level, hashed ? "encode with its hash" : "encode", s);
    memset(expected->out, 0x5A, code_bytes(s) + scale_bytes(s));
    job.value = guarded_place(&area[0], s->place[0], value, s->count * width(s->value));
    job.base = guarded_place(&area[1], s->place[1], base, s->count * width(s->base));
    if (!s->base) job.base = NULL;
    job.codes = guarded_place(&area[2], s->place[2], expected->out, code_bytes(s));
    job.scales = guarded_place(&area[3], s->place[3], expected->out, scale_bytes(s));
    guarded_place(&area[4], 0, NULL, 0);
    if (hashed)
        encode_with_hash(level, s, &job);
    else
        call(level->kernels.group_encode, &job);
    check_that(same(job.scales, expected->scales, scale_bytes(s)), "scales differ");
    check_that(same(job.codes, expected->codes, code_bytes(s)), "codes differ");
    check_that(same(area[0].p, value, s->count * width(s->value)), "the value was written");
    check_that(same(area[1].p, expected->base, s->count * width(s->base)), "bases differ");
    expect_counts(&job);
    expect_intact();
    check_end();
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static void hostile_frame(const struct shape *s) {
    static const enum fill fills[] = {FILL_NAN,  FILL_INFINITY,  FILL_SUBNORMAL, FILL_MAX,
                                      FILL_BITS, FILL_GAUSS,     FILL_SCALES,    FILL_HUGE,
                                      FILL_TINY, FILL_MINUS_ZERO};
    for (size_t i = 0; i < code_bytes(s); i++) expected->codes[i] = (uint8_t)check_random();
    const enum fill fill = fills[check_below(sizeof fills / sizeof *fills)];
    if (s->set.scale_dtype == PITHI_E8M0)
        for (size_t i = 0; i < scale_bytes(s); i++)
            expected->scales[i] = (uint8_t)(check_random() >> (fill == FILL_GAUSS));
    else
        fill_values(expected->scales, s->set.scale_dtype,
                    scale_bytes(s) / width(s->set.scale_dtype), fill, 7);
}

static void decode_scalar(const struct shape *s) {
    struct pithi_group_job job = job_of(s);
    if (s->base) memcpy(expected->base, base, s->count * width(s->base));
    job.base = s->base ? expected->base : NULL;
    job.out = s->out ? expected->out : NULL;
    job.codes = expected->codes;
    job.scales = expected->scales;
    call(pithi_group_decode_c, &job);
    expected->saturated = job.saturated;
    expected->poisoned = job.poisoned;
}

static void decode_kernel(const struct level *level, const struct shape *s) {
    struct pithi_group_job job = job_of(s);
    begin(level, s->hostile_frame ? "decode of a hostile frame" : "decode", s);
    guarded_place(&area[0], 0, NULL, 0);
    job.base = guarded_place(&area[1], s->place[1], base, s->count * width(s->base));
    if (!s->base) job.base = NULL;
    job.codes = guarded_place(&area[2], s->place[2], expected->codes, code_bytes(s));
    job.scales = guarded_place(&area[3], s->place[3], expected->scales, scale_bytes(s));
    job.out = guarded_place(&area[4], s->place[4], value, s->count * width(s->out));
    if (!s->out) job.out = NULL;
    call(level->kernels.group_decode, &job);
    check_that(same(job.scales, expected->scales, scale_bytes(s)), "the scales were written");
    check_that(same(job.codes, expected->codes, code_bytes(s)), "the codes were written");
    check_that(same(area[1].p, expected->base, s->count * width(s->base)), "bases differ");
    check_that(same(area[4].p, expected->out, s->count * width(s->out)), "outputs differ");
    expect_counts(&job);
    expect_intact();
    check_end();
}

/* What the group quantizer promises only without a base, and only for symmetric codes. */
static void idempotent(struct shape *s) {
    if (s->set.bits < 2 || s->set.bits > 4 || s->base) s->set.codebook = 0;
    if (s->set.codebook) s->set.asymmetric = s->set.shrink = s->set.stochastic = false;
    const bool idempotent = s->set.asymmetric || s->set.idempotent || s->set.codebook;
    const bool alone = s->base == PITH_NONE && !idempotent;
    if (s->base == PITH_NONE) s->update = false;
    if (idempotent) s->set.stochastic = false;
    if (idempotent && check_below(2)) s->set.scale_dtype = PITH_F16;
    if (!idempotent || s->base || s->set.codebook || s->set.group > PITHI_SHRINK_GROUP)
        s->set.shrink = false;
    if (!alone && s->set.scale_dtype == PITHI_E8M0) s->set.scale_dtype = PITH_BF16;
    if (!s->set.asymmetric || s->set.scale_dtype != PITH_BF16) s->set.short_zero = false;
    if (!alone || s->set.stochastic) s->set.search = false;
}

static void check_both(const struct level *level, struct shape *s) {
    idempotent(s);
    make_data(s);
    begin(level, "scalar", s);
    encode_scalar(s);
    encode_kernel(level, s, false);
    if (s->update && s->first % 16 == 0) encode_kernel(level, s, true);
    if (s->hostile_frame) hostile_frame(s);
    decode_scalar(s);
    decode_kernel(level, s);
}

/* ---- Which cases -----------------------------------------------------------------------------*/

/* Formats 0..14: symmetric 2..8 bits, asymmetric 1..8 bits. */
enum { FORMATS = 15 };
static void set_format(struct pithi_group_setting *set, size_t f) {
    set->asymmetric = f >= 7;
    set->bits = (uint8_t)(f < 7 ? f + 2 : f - 6);
}

static struct shape random_shape(size_t format) {
    static const uint32_t dtypes[4] = {PITH_F32, PITH_BF16, PITH_F16, PITH_NONE};
    struct shape s = {.count = 0};
    const uint64_t r = check_random();
    set_format(&s.set, format);
    s.set.group = 16u << check_below(8);
    s.set.scale_dtype = r & 1 ? PITH_F32 : r & 64 ? PITHI_E8M0 : PITH_BF16;
    s.set.search = (r >> 7 & 3) == 0;
    s.set.idempotent = !s.set.asymmetric && (r >> 9 & 3) == 0;
    s.set.shrink = (r >> 11 & 7) == 0;
    s.set.codebook = (uint8_t)((r >> 15 & 7) < 2 ? 1 + (r >> 18 & 1) : 0);
    s.set.short_zero = (r >> 19 & 3) == 0;
    s.set.stochastic = r >> 1 & 1;
    s.update = r >> 2 & 1;
    s.nontemporal = r >> 3 & 1;
    s.hostile_frame = r >> 4 & 1;
    s.value = dtypes[check_below(3)];
    s.base = dtypes[check_below(4)];
    s.out = dtypes[check_below(4)];
    s.value_fill = check_below(3) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    s.base_fill = check_below(3) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    s.first = (check_random() >> (20 + check_below(44))) * (r >> 5 & 15 ? 16 : 1);
    if (check_below(16) == 0) /* the counter's high word changes on the way */
        s.first = (UINT64_C(1) << 35) - 16 * check_below(MOST / 16);
    for (int k = 0; k < 5; k++) s.place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
    return s;
}

/* Searches of all widths, in bytes and in words, over lanes of parts of groups and of whole ones,
 * and over short ends. */
static void check_searched(const struct level *level) {
    static const uint8_t scales[3] = {PITH_F32, PITH_BF16, PITHI_E8M0};
    for (size_t c = 0; c < 7 * 3 * FILL_COUNT * 6; c++) {
        struct shape s = random_shape(c % 7);
        s.set.scale_dtype = scales[c / 7 % 3];
        s.value_fill = (enum fill)(c / 21 % FILL_COUNT);
        s.set.search = true;
        s.set.idempotent = s.set.stochastic = false;
        s.set.codebook = 0;
        s.base = PITH_NONE;
        s.set.group = 16u << check_below(c % 11 ? 6 : 11);
        s.count =
            16 * (1 + check_below(s.set.group > 2048 ? 300 : 60)) + (c % 5 ? 0 : check_below(16));
        check_both(level, &s);
    }
}

/* Idempotent scales and zero points, found in one pass or in several: in several for values of 16
 * bits whose last place is coarse beside the codes. */
static void check_idempotent(const struct level *level) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    for (size_t c = 0; c < FORMATS * 3 * 3 * 2 * 12; c++) {
        struct shape s = random_shape(c % FORMATS);
        s.value = dtypes[c / FORMATS % 3];
        s.set.scale_dtype = (uint8_t)dtypes[c / FORMATS / 3 % 3];
        s.value_fill = c / FORMATS / 9 % 2 ? FILL_OFFSET : (enum fill)check_below(FILL_COUNT);
        s.set.idempotent = !s.set.asymmetric;
        s.set.stochastic = s.set.search = s.set.shrink = false;
        if (check_below(4)) s.base = PITH_NONE;
        s.set.group = 16u << check_below(6);
        s.count = s.set.group * (1 + check_below(40)) + (c % 3 ? 0 : check_below(s.set.group));
        check_both(level, &s);
    }
}

/* Least values below 0 of which a short zero point makes -0, which decodes to +0: the reference
 * takes another pass, and kernels once did not. */
static void check_short_zeros(const struct level *level) {
    for (size_t c = 0; c < 8 * 250; c++) {
        struct shape s = random_shape(7 + c % 8);
        s.value = PITH_F32;
        s.value_fill = FILL_SUBNORMAL;
        s.set.scale_dtype = PITH_BF16;
        s.set.short_zero = true;
        s.set.stochastic = s.set.search = s.set.shrink = false;
        s.base = PITH_NONE;
        s.set.group = 16;
        s.count = 16 * check_below(3) + 1; /* of one value, near 0 often enough */
        check_both(level, &s);
    }
}

/* Parts of ranges with zero points so coarse that the whole range may be better. */
static void check_coarse_zeros(const struct level *level) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    for (size_t c = 0; c < 8 * 3 * 3 * 8; c++) {
        struct shape s = random_shape(7 + c % 8);
        s.value = dtypes[c / 8 % 3];
        s.set.scale_dtype = (uint8_t)dtypes[c / 24 % 3];
        s.value_fill = FILL_OFFSET;
        s.set.shrink = true;
        s.set.stochastic = s.set.search = s.set.short_zero = false;
        s.base = PITH_NONE;
        s.set.group = 16u << check_below(5);
        s.count = s.set.group * (1 + check_below(40)) + (c % 3 ? 0 : check_below(s.set.group));
        check_both(level, &s);
    }
}

static void check_lengths(const struct level *level) {
    for (size_t n = 0; n <= 210; n++) {
        for (size_t f = 0; f < FORMATS; f++) {
            struct shape s = random_shape(f);
            s.count = n;
            for (int k = 0; k < 5; k++) s.place[k] = n % 2 ? PLACE_END : s.place[k];
            check_both(level, &s);
            s.count = n;
            s.set.group = 16u << check_below(3);
            for (int k = 0; k < 5; k++) s.place[k] = PLACE_END;
            check_both(level, &s);
        }
    }
}

static void check_around_groups(const struct level *level) {
    for (uint32_t group = 16; group <= 16384; group *= 2) {
        for (size_t f = 0; f < FORMATS; f++) {
            struct shape s = random_shape(f);
            s.set.group = group;
            const size_t near = group * (1 + check_below(2));
            s.count = near - 1 + check_below(3);
            check_both(level, &s);
            s.count = near + check_below(group < 2048 ? 3000 : 200);
            check_both(level, &s);
        }
    }
    for (size_t n = 2040; n <= 2056; n++) {
        struct shape s = random_shape(check_below(FORMATS));
        s.count = 2 * n;
        check_both(level, &s);
        s.count = n;
        check_both(level, &s);
    }
}

/* Every combination of format, rounding, scale, dtypes and update, and every fill. */
static void check_product(const struct level *level) {
    static const uint32_t dtypes[4] = {PITH_F32, PITH_BF16, PITH_F16, PITH_NONE};
    for (size_t c = 0; c < FORMATS * 2 * 2 * 3 * 4 * 4 * 2; c++) {
        struct shape s = random_shape(c % FORMATS);
        size_t k = c / FORMATS;
        s.set.stochastic = k % 2, k /= 2;
        s.set.scale_dtype = k % 2 ? PITH_F32 : PITH_BF16, k /= 2;
        s.value = dtypes[k % 3], k /= 3;
        s.base = dtypes[k % 4], k /= 4;
        s.out = dtypes[k % 4], k /= 4;
        s.update = k != 0;
        s.value_fill = (enum fill)(c % FILL_COUNT);
        s.base_fill = check_below(2) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
        s.set.group = 16u << check_below(4);
        s.count = 1 + check_below(330);
        check_both(level, &s);
    }
    for (size_t f = 0; f < FORMATS; f++) {
        for (int a = 0; a < FILL_COUNT; a++) {
            for (int b = 0; b < FILL_COUNT; b++) {
                struct shape s = random_shape(f);
                s.value_fill = (enum fill)a;
                s.base_fill = (enum fill)b;
                s.count = 100 + check_below(300);
                check_both(level, &s);
            }
        }
    }
}

static void check_places(const struct level *level) {
    for (size_t f = 0; f < FORMATS; f++) {
        for (size_t place = 0; place < PLACE_COUNT; place++) {
            struct shape s = random_shape(f);
            s.count = 128 + check_below(256);
            for (int k = 0; k < 5; k++) s.place[k] = place;
            check_both(level, &s);
            for (int k = 0; k < 5; k++)
                s.place[k] = (place * (size_t)(2 * k + 1) + 3) % PLACE_COUNT;
            check_both(level, &s);
        }
    }
}

/* Many batches over a base, of which one at times cannot be encoded in the pass that hashes. */
static void check_batches(const struct level *level) {
    hashed_elements = 0;
    for (size_t c = 0; c < 240; c++) {
        struct shape s = random_shape(c % 7);
        s.value = c % 16 ? PITH_F32 : PITH_BF16;
        s.base = c % 3 ? PITH_F32 : PITH_BF16;
        s.update = true;
        s.set.search = s.set.idempotent = false;
        s.set.codebook = 0;
        s.set.group = 16u << c / 7 % 11;
        s.value_fill = s.base_fill = FILL_GAUSS;
        s.first = 64 * check_below(1000);
        s.count = 1 + check_below(MOST);
        idempotent(&s);
        make_data(&s);
        if (c % 2) { /* infinite in either dtype */
            const uint8_t infinite[4] = {0, 0, 0x80, 0x7F};
            const size_t size = width(s.value);
            memcpy(value + check_below(s.count) * size, infinite + 4 - size, size);
        }
        begin(level, "scalar", &s);
        encode_scalar(&s);
        encode_kernel(level, &s, true);
    }
    check_that(hashed_elements > 0 || level->kernels.encode_hashed == pithi_encode_hashed_c,
               "nothing was encoded with its hash");
}

/* Decoding that streams the halves of a job side by side, where lines begin with it. */
static void check_halves(const struct level *level) {
    enum { LEAST = 8000, VARIED = 8000 };
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    static const size_t formats[6] = {0, 1, 2, 8, 9, 10}; /* of 2, 3 and 4 bits */
    for (size_t c = 0; c < 540; c++) {
        struct shape s = random_shape(formats[c % 6]);
        s.base = PITH_NONE;
        s.out = dtypes[c / 6 % 3];
        s.nontemporal = true;
        s.set.codebook = 0;
        s.set.group = 64u << check_below(8);
        s.count = LEAST + check_below(c % 9 ? VARIED : MOST - LEAST);
        if (c % 4) s.place[4] = 0;
        check_both(level, &s);
    }
}

void check_group(const struct level *level) {
    check_sum(level);
    check_rotated(level);
    check_channels(level);
    check_runs(level);
    expected = malloc(sizeof *expected);
    value = malloc(CAPACITY);
    base = malloc(CAPACITY);
    check_begin("group %s: memory", level->isa);
    check_that(expected && value && base, "malloc failed");
    check_end();
    if (!expected || !value || !base) return;
    for (int k = 0; k < 5; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    check_lengths(level);
    check_product(level);
    check_places(level);
    check_batches(level);
    check_halves(level);
    check_around_groups(level);
    check_searched(level);
    check_idempotent(level);
    check_short_zeros(level);
    check_coarse_zeros(level);
    free(expected);
    free(value);
    free(base);
}
