/* codes.c - groups coded by codebooks and along trellises: kernels against the scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "group/group_coder.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 40000, CAPACITY = MOST * 4 + 4096, AREAS = 4 };

/* Values as they are, decoded from codes, most of them 0, with some far out, or of one magnitude a
 * group, which is for codebooks. */
enum kind { PLAIN, DECODED, SPARSE, OUTLYING, ALIKE, KINDS };
static const char *const kind_names[KINDS] = {"plain", "decoded", "sparse", "outlying", "alike"};

static const char *const codebook_names[] = {"uniform", "nf", "lloyd", "trellis"};

struct shape {
    struct pithi_group_setting set;
    uint32_t dtype, base, out; /* out: or NONE, with a base */
    size_t count;
    enum fill fill;
    enum kind kind;
    bool update, sums, nontemporal, hostile;
    size_t place[AREAS];
};

struct result {
    uint8_t codes[MOST], scales[MOST], out[MOST * 4], base[MOST * 4];
    uint64_t saturated, poisoned;
};

static struct guarded area[AREAS]; /* values or out, codes, scales, base */
static struct result *expected;
static uint8_t *value, *base; /* base: as it is before a call */
static struct pithi_kernels scalar;

bool bound_codebook(const struct level *level) {
    return level->kernels.codebook_encode != pithi_codebook_encode_c &&
           level->kernels.codebook_decode != pithi_codebook_decode_c;
}

bool bound_trellis(const struct level *level) {
    return level->kernels.trellis_encode != pithi_trellis_encode_c &&
           level->kernels.trellis_decode != pithi_trellis_decode_c;
}

static size_t code_bytes(const struct shape *s) {
    return pithi_group_code_bytes(&s->set, s->count);
}
static size_t scale_bytes(const struct shape *s) {
    return pithi_group_scale_bytes(&s->set, s->count);
}

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin(
        "%s %s %s: dtype %u, base %u -> %u, %zu elements, group %u, %u bits, scale %u, values "
        "%s %s, update %d, sums %d, idempotent %d, nontemporal %d, hostile %d, places %zu %zu %zu "
        "%zu",
        codebook_names[s->set.codebook], level->isa, what, s->dtype, s->base, s->out, s->count,
        s->set.group, s->set.bits, s->set.scale_dtype, kind_names[s->kind], fill_names[s->fill],
        s->update, s->sums, s->set.idempotent, s->nontemporal, s->hostile, s->place[0], s->place[1],
        s->place[2], s->place[3]);
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

static void call(pithi_group_fn *fn, struct pithi_group_job *job) {
    const struct host_fp host = host_fp_enter();
    fn(job);
    host_fp_leave(host);
}

static void expect(const struct pithi_group_job *job) {
    check_that(job->saturated == expected->saturated, "the saturated count differs");
    check_that(job->poisoned == expected->poisoned, "the poisoned count differs");
    for (int k = 0; k < AREAS; k++) check_that(guarded_intact(&area[k]), "a byte outside changed");
}

/* ---- Values ----------------------------------------------------------------------------------*/

static void decode_expected(struct pithi_group_job *job, void *out) {
    job->out = out;
    job->codes = expected->codes;
    job->scales = expected->scales;
    call(pithi_group_decoder(&scalar, &job->set), job);
}

/* What random codes stand for: all of them, or a level and its negative. */
static void fill_decoded(const struct shape *s) {
    struct pithi_group_job job = job_of(s);
    const uint32_t codes = (uint32_t)check_random();
    fill_values(expected->scales, s->set.scale_dtype, scale_bytes(s) / width(s->set.scale_dtype),
                s->fill == FILL_GAUSS ? FILL_SCALES : s->fill, 7);
    for (size_t i = 0; i < code_bytes(s); i++)
        expected->codes[i] = (uint8_t)(s->kind == DECODED ? check_random()
                                       : s->set.bits == 3 ? (codes & 1 ? 0 : 0xFF)
                                       : s->set.bits == 2 ? (codes & 1 ? 0x69 : 0xC3)
                                                          : (codes & 7 ? 0x3C : 0x78));
    job.base_dtype = PITH_NONE;
    job.update = false;
    job.out_dtype = s->dtype;
    decode_expected(&job, value);
}

static void make_values(const struct shape *s) {
    fill_values(base, s->base, s->base ? s->count : 0, check_below(8) ? FILL_GAUSS : s->fill, 7);
    if (s->kind == DECODED || s->kind == ALIKE) {
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

/* Which of two NaNs a sum of both is, nobody promises. */
static void make_nans_alike(uint8_t *x, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (pithi_magnitude(pithi_load(x, PITH_F32, i)) > PITHI_F32_INF)
            pithi_store(x, PITH_F32, i, PITHI_F32_NAN);
}

static void expect_base(const struct shape *s) {
    const size_t bytes = s->count * width(s->base);
    if (s->sums) {
        make_nans_alike(area[3].p, s->count);
        make_nans_alike(expected->base, s->count);
    }
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
    call(pithi_group_encoder(&scalar, &s->set), &job);
    expected->saturated = job.saturated;
    expected->poisoned = job.poisoned;
    job = job_of(s);
    memset(expected->out, 0x5A, code_bytes(s) + scale_bytes(s));
    job.value = guarded_place(&area[0], s->place[0], value, bytes);
    job.codes = guarded_place(&area[1], s->place[1], expected->out, code_bytes(s));
    job.scales = guarded_place(&area[2], s->place[2], expected->out, scale_bytes(s));
    give_base(&job, s, true);
    call(pithi_group_encoder(&level->kernels, &s->set), &job);
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
    job.sums = s->sums;
    give_base(&job, s, false);
    decode_expected(&job, s->out ? expected->out : NULL);
    expected->saturated = job.saturated;
    expected->poisoned = job.poisoned;
    job = job_of(s);
    job.sums = s->sums;
    job.out = s->out ? guarded_place(&area[0], s->place[0], value, bytes) : NULL;
    job.codes = guarded_place(&area[1], s->place[1], expected->codes, code_bytes(s));
    job.scales = guarded_place(&area[2], s->place[2], expected->scales, scale_bytes(s));
    give_base(&job, s, true);
    call(pithi_group_decoder(&level->kernels, &s->set), &job);
    if (s->out) check_that(same(area[0].p, expected->out, bytes), "outputs differ");
    check_that(same(job.scales, expected->scales, scale_bytes(s)), "the scales were written");
    check_that(same(job.codes, expected->codes, code_bytes(s)), "the codes were written");
    if (s->base) expect_base(s);
    expect(&job);
    check_end();
}

/* ---- Which cases -----------------------------------------------------------------------------*/

static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};

static struct shape random_shape(unsigned codebook, size_t bits, uint32_t dtype) {
    struct shape s = {.dtype = dtype, .out = dtypes[check_below(3)]};
    const bool trellis = codebook == PITHI_CODEBOOK_TRELLIS;
    s.set.codebook = (uint8_t)codebook;
    s.set.bits = (uint8_t)bits;
    s.set.scale_dtype = (uint8_t)dtypes[check_below(3)];
    s.set.group = 16u << check_below(check_below(trellis ? 8 : 20) ? 6 : 11);
    s.set.idempotent = trellis && check_below(2);
    if (trellis && check_below(3) == 0) {
        s.base = dtypes[check_below(3)];
        s.update = check_below(2);
        if (check_below(2)) s.out = PITH_NONE;
    }
    s.fill = check_below(3) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    s.kind = check_below(2) ? PLAIN : (enum kind)check_below(trellis ? ALIKE : KINDS);
    s.nontemporal = check_below(2);
    s.hostile = check_below(3) == 0;
    for (int k = 0; k < AREAS; k++)
        s.place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
    return s;
}

static void check_both(const struct level *level, const struct shape *s) {
    check_encode(level, s);
    check_decode(level, s);
}

/* All lengths up to 300 of each number of bits and dtype, then random ones. */
static void check_cases(const struct level *level, unsigned codebook) {
    enum { FORMATS = 9, LENGTHS = 300 * FORMATS, CASES = 4200 };
    for (size_t c = 0; c < CASES; c += check_step()) {
        struct shape s = random_shape(codebook, 2 + c % 3, dtypes[c / 3 % 3]);
        s.count = c < LENGTHS ? c / FORMATS : check_below(c % 40 ? 5000 : MOST);
        if (c % 3 == 0) s.count -= s.count % 16;
        check_both(level, &s);
    }
}

/* Decoding that streams the halves of a job side by side, where lines begin with it. */
static void check_halves(const struct level *level) {
    enum { LEAST = 8000 };
    for (size_t c = 0; c < 90; c++) {
        struct shape s = random_shape(PITHI_CODEBOOK_TRELLIS, 2 + c % 3, dtypes[c / 3 % 3]);
        s.base = PITH_NONE;
        s.out = dtypes[1 + c / 3 % 2];
        s.nontemporal = true;
        s.set.group = 64u << check_below(7);
        s.count = LEAST + check_below(MOST - LEAST);
        if (c % 4) s.place[0] = 0;
        check_both(level, &s);
    }
}

/* Values added to sums, which may be infinite or NaN. */
static void check_sums(const struct level *level) {
    for (size_t c = 0; c < 600; c += check_step()) {
        struct shape s = random_shape(PITHI_CODEBOOK_TRELLIS, 2 + c % 3, PITH_F32);
        s.base = PITH_F32;
        s.out = PITH_NONE;
        s.update = s.sums = true;
        s.count = check_below(c % 40 ? 5000 : MOST);
        check_both(level, &s);
    }
}

static bool memory_new(const struct level *level, const char *name) {
    expected = calloc(1, sizeof *expected);
    value = calloc(1, CAPACITY);
    base = calloc(1, CAPACITY);
    pithi_kernels_bind(&scalar, 0);
    check_begin("%s %s: memory", name, level->isa);
    check_that(expected && value && base, "malloc failed");
    check_end();
    for (int k = 0; k < AREAS; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    return expected && value && base;
}

static void memory_free(void) {
    free(expected);
    free(value);
    free(base);
}

void check_codebook(const struct level *level) {
    if (memory_new(level, "codebook")) {
        check_cases(level, PITHI_CODEBOOK_NF);
        check_cases(level, PITHI_CODEBOOK_LLOYD);
    }
    memory_free();
}

void check_trellis(const struct level *level) {
    if (memory_new(level, "trellis")) {
        check_cases(level, PITHI_CODEBOOK_TRELLIS);
        check_halves(level);
        check_sums(level);
    }
    memory_free();
}

/* ---- Bench -----------------------------------------------------------------------------------*/

/* Elements of a tensor, and of a piece of it, which is rotated into the cache before. */
enum { LARGE = 1 << 24, PIECE = 4096, RUNS = 7 };

struct buffers {
    uint8_t *value, *codes, *scales;
    float *floats;
};

static void encode_piece(const struct pithi_kernels *k, struct pithi_group_job *job, bool rotated,
                         float *floats) {
    const struct pithi_rotation r = {.order = 128};
    if (rotated) {
        k->rotate(&r, floats, job->value, job->value_dtype, job->count, 0);
        job->value = floats;
        job->value_dtype = PITH_F32;
    }
    pithi_group_encoder(k, &job->set)(job);
}

static void decode_piece(const struct pithi_kernels *k, struct pithi_group_job *job, bool rotated,
                         float *floats) {
    const struct pithi_rotation r = {.order = 128};
    void *const out = job->out;
    if (rotated) {
        job->out = floats;
        job->nontemporal = false;
    }
    pithi_group_decoder(k, &job->set)(job);
    if (rotated) k->unrotate_nontemporal(&r, out, PITH_F32, floats, job->count, 0, 1.0f);
}

static double run(const struct pithi_kernels *k, const struct shape *s, const struct buffers *b,
                  bool rotated, bool decode) {
    const uint64_t host = pithi_fp_enter();
    const double start = roofline_clock();
    for (size_t i = 0; i < s->count; i += PIECE) {
        struct pithi_group_job job = job_of(s);
        job.count = PIECE;
        job.value = b->value + i * 4;
        job.out = b->value + i * 4;
        job.codes = b->codes + i * s->set.bits / 8;
        job.scales = b->scales + pithi_group_scale_bytes(&s->set, i);
        (decode ? decode_piece : encode_piece)(k, &job, rotated, b->floats);
    }
    const double seconds = roofline_clock() - start;
    pithi_fp_leave(host);
    return seconds;
}

static void bench_one(const struct level *level, struct shape s, const struct buffers *b,
                      bool rotated, bool decode) {
    double kernel[RUNS], roofline[RUNS];
    const double gb = LARGE * 4e-9;
    char name[64];
    snprintf(name, sizeof name, "%s %s %u bits%s", decode ? "decode" : "encode",
             codebook_names[s.set.codebook], s.set.bits, rotated ? ", rotated" : "");
    if (!strstr(name, bench_only)) return;
    pithi_kernels_bind(&scalar, 0);
    s.count = LARGE / 64;
    const double slow = 64 * run(&scalar, &s, b, rotated, decode);
    s.count = LARGE;
    for (int i = 0; i < RUNS; i++) {
        roofline[i] = decode ? roofline_fill(b->value, LARGE * 4ul, true)
                             : roofline_read(b->value, LARGE * 4ul);
        kernel[i] = run(&level->kernels, &s, b, rotated, decode);
    }
    print_speed(level, name, s.set.group, gb, slow, median(kernel, RUNS), median(roofline, RUNS));
}

static void bench_all(const struct level *level, const struct buffers *b, unsigned codebook) {
    for (unsigned c = 0; c < 12; c++) {
        struct shape s = {.set = {.group = 128, .scale_dtype = PITH_F16}};
        s.dtype = s.out = PITH_F32;
        s.nontemporal = true;
        s.set.codebook = (uint8_t)codebook;
        s.set.bits = (uint8_t)(4 - c / 2 % 3);
        fill_values(b->value, PITH_F32, LARGE / 16, FILL_GAUSS, 7);
        for (size_t i = 1; i < 16; i++) memcpy(b->value + i * (LARGE / 4), b->value, LARGE / 4);
        bench_one(level, s, b, c % 2, c / 6);
    }
}

static void bench_codes(const struct level *level, unsigned codebook) {
    struct buffers b = {malloc(LARGE * 4ul), malloc(LARGE), malloc(LARGE), malloc(PIECE * 4)};
    if (b.value && b.codes && b.scales && b.floats) {
        memset(b.codes, 0x5B, LARGE);
        memset(b.scales, 0x3C, LARGE);
        bench_all(level, &b, codebook);
    }
    free(b.value);
    free(b.codes);
    free(b.scales);
    free(b.floats);
}

void bench_codebook(const struct level *level) {
    bench_codes(level, PITHI_CODEBOOK_NF);
    bench_codes(level, PITHI_CODEBOOK_LLOYD);
}

void bench_trellis(const struct level *level) { bench_codes(level, PITHI_CODEBOOK_TRELLIS); }
