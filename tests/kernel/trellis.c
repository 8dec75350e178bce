/* trellis.c - trellis-coded groups: kernels against the scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"

enum { MOST = 40000, CAPACITY = MOST * 4 + 4096, AREAS = 4 };

/* Values as they are, decoded from codes, most of them 0, or with some far out. */
enum kind { PLAIN, DECODED, SPARSE, OUTLYING, KINDS };
static const char *const kind_names[KINDS] = {"plain", "decoded", "sparse", "outlying"};

struct shape {
    struct pithi_group_setting set;
    uint32_t dtype, base, out; /* out: or NONE, with a base */
    size_t count;
    enum fill fill;
    enum kind kind;
    bool update, nontemporal, hostile;
    size_t place[AREAS];
};

struct result {
    uint8_t codes[MOST], scales[MOST], out[MOST * 4], base[MOST * 4];
    uint64_t saturated, poisoned;
};

static struct guarded area[AREAS]; /* values or out, codes, scales, base */
static struct result *expected;
static uint8_t *value, *base; /* base: as it is before a call */

bool bound_trellis(const struct level *level) {
    return level->kernels.trellis_encode != pithi_trellis_encode_c &&
           level->kernels.trellis_decode != pithi_trellis_decode_c;
}

static size_t width(uint32_t dtype) { return dtype == PITH_NONE ? 0 : dtype == PITH_F32 ? 4 : 2; }
static size_t code_bytes(const struct shape *s) {
    return pithi_group_code_bytes(&s->set, s->count);
}
static size_t scale_bytes(const struct shape *s) {
    return pithi_group_scale_bytes(&s->set, s->count);
}

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin(
        "trellis %s %s: dtype %u, base %u -> %u, %zu elements, group %u, %u bits, scale %u, values "
        "%s %s, update %d, idempotent %d, nontemporal %d, hostile %d, places %zu %zu %zu %zu",
        level->isa, what, s->dtype, s->base, s->out, s->count, s->set.group, s->set.bits,
        s->set.scale_dtype, kind_names[s->kind], fill_names[s->fill], s->update, s->set.idempotent,
        s->nontemporal, s->hostile, s->place[0], s->place[1], s->place[2], s->place[3]);
}

static struct pithi_group_job job_of(const struct shape *s) {
    return (struct pithi_group_job){.set = s->set,
                                    .count = s->count,
                                    .value_dtype = s->dtype,
                                    .base_dtype = s->base,
                                    .out_dtype = s->out,
                                    .update = s->update,
                                    .nontemporal = s->nontemporal,
                                    .saturated = 5, /* results are added to */
                                    .poisoned = 7};
}

/* The host's control word is saved for the call, as an entry point of the library does. */
static void call(pithi_group_fn *fn, struct pithi_group_job *job) {
    const uint64_t host = host_fp_set((unsigned)check_below(4));
    const uint64_t entered = pithi_fp_enter();
    fn(job);
    pithi_fp_leave(entered);
    host_fp_restore(host);
}

static bool same(const void *a, const void *b, size_t n) { return n == 0 || memcmp(a, b, n) == 0; }

static void expect(const struct pithi_group_job *job) {
    check_that(job->saturated == expected->saturated, "the saturated count differs");
    check_that(job->poisoned == expected->poisoned, "the poisoned count differs");
    for (int k = 0; k < AREAS; k++) check_that(guarded_intact(&area[k]), "a byte outside changed");
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* What random codes stand for. */
static void fill_decoded(const struct shape *s) {
    struct pithi_group_job job = job_of(s);
    fill_values(expected->scales, s->set.scale_dtype, scale_bytes(s) / width(s->set.scale_dtype),
                s->fill == FILL_GAUSS ? FILL_SCALES : s->fill, 7);
    for (size_t i = 0; i < code_bytes(s); i++) expected->codes[i] = (uint8_t)check_random();
    job.base_dtype = PITH_NONE;
    job.update = false;
    job.out_dtype = s->dtype;
    job.out = value;
    job.codes = expected->codes;
    job.scales = expected->scales;
    call(pithi_trellis_decode_c, &job);
}

static void make_values(const struct shape *s) {
    fill_values(base, s->base, s->base ? s->count : 0, check_below(8) ? FILL_GAUSS : s->fill, 7);
    if (s->kind == DECODED) {
        fill_decoded(s);
        return;
    }
    fill_values(value, s->dtype, s->count, s->fill, 7);
    for (size_t i = 0; s->kind == SPARSE && i < s->count; i++)
        if (check_below(60)) pithi_store(value, s->dtype, i, 0);
    for (size_t n = s->kind == OUTLYING ? s->count / 50 : 0; n; n--) {
        const size_t i = check_below(s->count);
        const float x = pithi_float(pithi_load(value, s->dtype, i)) * (float)(2 + check_below(30));
        pithi_store(value, s->dtype, i, pithi_bits(x));
    }
}

/* ---- One case --------------------------------------------------------------------------------*/

/* Gives a job a base of its own: the expected one, or that of the guarded area. */
static void give_base(struct pithi_group_job *job, const struct shape *s, bool guarded) {
    const size_t bytes = s->count * width(s->base);
    void *const own = guarded ? guarded_place(&area[3], s->place[3], base, bytes) : expected->base;
    if (!guarded) memcpy(expected->base, base, bytes);
    job->base = s->base ? own : NULL;
}

static void expect_base(const struct shape *s) {
    const size_t bytes = s->count * width(s->base);
    check_that(same(area[3].p, expected->base, bytes), "bases differ");
}

static void check_encode(const struct level *level, const struct shape *s) {
    struct pithi_group_job job = job_of(s);
    const size_t bytes = s->count * width(s->dtype);
    begin(level, "encode", s);
    make_values(s);
    job.value = value;
    job.codes = expected->codes;
    job.scales = expected->scales;
    give_base(&job, s, false);
    call(pithi_trellis_encode_c, &job);
    expected->saturated = job.saturated;
    expected->poisoned = job.poisoned;
    job = job_of(s);
    memset(expected->out, 0x5A, code_bytes(s) + scale_bytes(s));
    job.value = guarded_place(&area[0], s->place[0], value, bytes);
    job.codes = guarded_place(&area[1], s->place[1], expected->out, code_bytes(s));
    job.scales = guarded_place(&area[2], s->place[2], expected->out, scale_bytes(s));
    give_base(&job, s, true);
    call(level->kernels.trellis_encode, &job);
    check_that(same(job.scales, expected->scales, scale_bytes(s)), "scales differ");
    check_that(same(job.codes, expected->codes, code_bytes(s)), "codes differ");
    check_that(same(area[0].p, value, bytes), "the values were written");
    if (s->base) expect_base(s);
    expect(&job);
    check_end();
}

static void make_hostile(const struct shape *s) {
    static const enum fill fills[] = {FILL_NAN,  FILL_INFINITY, FILL_SUBNORMAL, FILL_MAX,
                                      FILL_BITS, FILL_HUGE,     FILL_TINY,      FILL_MINUS_ZERO};
    for (size_t i = 0; i < code_bytes(s); i++) expected->codes[i] = (uint8_t)check_random();
    fill_values(expected->scales, s->set.scale_dtype, scale_bytes(s) / width(s->set.scale_dtype),
                fills[check_below(sizeof fills / sizeof *fills)], 7);
}

static void check_decode(const struct level *level, const struct shape *s) {
    struct pithi_group_job job = job_of(s);
    const size_t bytes = s->count * width(s->out);
    begin(level, "decode", s);
    if (s->hostile) make_hostile(s);
    job.out = s->out ? expected->out : NULL;
    job.codes = expected->codes;
    job.scales = expected->scales;
    give_base(&job, s, false);
    call(pithi_trellis_decode_c, &job);
    expected->saturated = job.saturated;
    expected->poisoned = job.poisoned;
    job = job_of(s);
    job.out = s->out ? guarded_place(&area[0], s->place[0], value, bytes) : NULL;
    job.codes = guarded_place(&area[1], s->place[1], expected->codes, code_bytes(s));
    job.scales = guarded_place(&area[2], s->place[2], expected->scales, scale_bytes(s));
    give_base(&job, s, true);
    call(level->kernels.trellis_decode, &job);
    if (s->out) check_that(same(area[0].p, expected->out, bytes), "outputs differ");
    check_that(same(job.scales, expected->scales, scale_bytes(s)), "the scales were written");
    check_that(same(job.codes, expected->codes, code_bytes(s)), "the codes were written");
    if (s->base) expect_base(s);
    expect(&job);
    check_end();
}

/* ---- Which cases -----------------------------------------------------------------------------*/

static struct shape random_shape(size_t format) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    struct shape s = {.count = 0};
    s.set.codebook = PITHI_CODEBOOK_TRELLIS;
    s.set.bits = (uint8_t)(2 + format % 3);
    s.dtype = dtypes[format / 3 % 3];
    s.out = dtypes[check_below(3)];
    s.set.scale_dtype = (uint8_t)dtypes[check_below(3)];
    s.set.group = 16u << check_below(check_below(8) ? 6 : 11);
    s.set.idempotent = check_below(2);
    if (check_below(3) == 0) {
        s.base = dtypes[check_below(3)];
        s.update = check_below(2);
        if (check_below(2)) s.out = PITH_NONE;
    }
    s.fill = check_below(3) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    s.kind = check_below(2) ? PLAIN : (enum kind)check_below(KINDS);
    s.nontemporal = check_below(2);
    s.hostile = check_below(3) == 0;
    for (int k = 0; k < AREAS; k++)
        s.place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
    return s;
}

static void check_cases(const struct level *level) {
    enum { FORMATS = 9, LENGTHS = 300 * FORMATS, CASES = 6000 };
    for (size_t c = 0; c < CASES; c++) {
        struct shape s = random_shape(c);
        s.count = c < LENGTHS ? c / FORMATS : check_below(c % 40 ? 5000 : MOST);
        if (c % 3 == 0) s.count -= s.count % 16;
        check_encode(level, &s);
        check_decode(level, &s);
    }
}

/* Decoding that streams the halves of a job side by side, where lines begin with it. */
static void check_halves(const struct level *level) {
    enum { LEAST = 8000 };
    static const uint32_t dtypes[2] = {PITH_BF16, PITH_F16};
    for (size_t c = 0; c < 90; c++) {
        struct shape s = random_shape(c);
        s.base = PITH_NONE;
        s.out = dtypes[c / 3 % 2];
        s.nontemporal = true;
        s.set.group = 64u << check_below(7);
        s.count = LEAST + check_below(MOST - LEAST);
        if (c % 4) s.place[0] = 0;
        check_encode(level, &s);
        check_decode(level, &s);
    }
}

void check_trellis(const struct level *level) {
    expected = calloc(1, sizeof *expected);
    value = calloc(1, CAPACITY);
    base = calloc(1, CAPACITY);
    check_begin("trellis %s: memory", level->isa);
    check_that(expected && value && base, "malloc failed");
    check_end();
    for (int k = 0; k < AREAS; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    if (expected && value && base) {
        check_cases(level);
        check_halves(level);
    }
    free(expected);
    free(value);
    free(base);
}

void bench_trellis(const struct level *level) { bench_codes(level, PITHI_CODEBOOK_TRELLIS); }
