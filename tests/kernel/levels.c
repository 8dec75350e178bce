/* levels.c - codes of levels along rows against their scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "cpu.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { CAPACITY = COLUMNS_CAPACITY, CODES = CAPACITY / 4, SCALES = 1 << 14, BEFORE = 4 };

struct shape {
    struct pithi_group_setting set;
    uint32_t dtype, out;
    struct columns size;
    size_t before;
    enum fill fill;
    bool nontemporal, hostile, outlying;
    size_t place[4];
};

enum { VALUE, CODE, SCALE, OUT, AREAS };
static struct guarded area[AREAS];
static uint8_t *data, *codes, *scales, *out;

bool bound_levels(const struct level *level) {
    return level->kernels.levels_encode != pithi_channel_encode_c &&
           level->kernels.levels_decode != pithi_levels_decode_c;
}

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin(
        "levels %s %s: %zu + %zu x %zu, stride %zu, codes %zu apart, codebook %u, dtype %u "
        "to %u, %u bits, scale %u, values %s, outlying %d, hostile %d, nontemporal %d, "
        "places %zu %zu %zu %zu",
        level->isa, what, s->before, s->size.rows, s->size.columns, s->size.stride,
        s->size.code_stride, s->set.codebook, s->dtype, s->out, s->set.bits, s->set.scale_dtype,
        fill_names[s->fill], s->outlying, s->hostile, s->nontemporal, s->place[0], s->place[1],
        s->place[2], s->place[3]);
}

static size_t code_bytes(const struct shape *s, size_t rows) {
    return columns_span(rows, s->size.code_stride,
                        pithi_group_code_bytes(&s->set, s->size.columns));
}
static size_t scale_bytes(const struct shape *s) {
    return s->size.columns * width(s->set.scale_dtype);
}

static struct pithi_channel_job job_of(const struct shape *s) {
    return columns_job(&s->size, &s->set, s->nontemporal);
}

static void call(pithi_channel_fn *fn, struct pithi_channel_job *job) {
    const struct host_fp host = host_fp_enter();
    fn(job);
    host_fp_leave(host);
}

static void make_values(const struct shape *s) {
    const size_t count = columns_value_bytes(&s->size, s->dtype) / width(s->dtype);
    fill_values(data, s->dtype, count, s->fill, 7);
    for (size_t n = s->outlying ? count / 100 : 0; n; n--)
        fill_values(data + check_below(count) * width(s->dtype), s->dtype, 1,
                    (enum fill)check_below(FILL_COUNT), 7);
}

static void check_encode(const struct level *level, const struct shape *s) {
    struct pithi_channel_job reference = job_of(s), job = reference;
    begin(level, "encode", s);
    make_values(s);
    memset(codes, 0x5A, code_bytes(s, s->size.rows)); /* between rows of codes nothing is written */
    reference.dtype = job.dtype = s->dtype;
    reference.value = data, reference.codes = codes, reference.scales = scales;
    job.value =
        guarded_place(&area[VALUE], s->place[VALUE], data, columns_value_bytes(&s->size, s->dtype));
    job.codes = guarded_place(&area[CODE], s->place[CODE], codes, code_bytes(s, s->size.rows));
    job.scales = guarded_place(&area[SCALE], s->place[SCALE], data, scale_bytes(s));
    call(pithi_channel_encode_c, &reference);
    call(level->kernels.levels_encode, &job);
    check_that(s->size.rows == 0 || same(job.scales, scales, scale_bytes(s)), "scales differ");
    check_that(same(job.codes, codes, code_bytes(s, s->size.rows)), "codes differ");
    columns_expect(&job, &reference, area, AREAS);
    check_end();
}

static void check_decode(const struct level *level, const struct shape *s) {
    struct pithi_channel_job reference = job_of(s), job = reference;
    const size_t all = code_bytes(s, s->before + s->size.rows),
                 from = s->before * s->size.code_stride;
    begin(level, "decode", s);
    for (size_t i = 0; i < all; i++) codes[i] = (uint8_t)check_random();
    fill_values(scales, s->set.scale_dtype, s->size.columns,
                s->hostile ? (enum fill)check_below(FILL_COUNT) : FILL_GAUSS, 7);
    memset(out, 0x5A, columns_value_bytes(&s->size, s->out));
    reference.dtype = job.dtype = s->out;
    reference.before = job.before = s->before;
    reference.out = out, reference.codes = codes + from, reference.scales = scales;
    job.out = guarded_place(&area[OUT], s->place[OUT], out, columns_value_bytes(&s->size, s->out));
    job.codes = guarded_place(&area[CODE], s->place[CODE], codes, all) + from;
    job.scales = guarded_place(&area[SCALE], s->place[SCALE], scales, scale_bytes(s));
    call(pithi_levels_decode_c, &reference);
    call(level->kernels.levels_decode, &job);
    check_that(same(job.out, out, columns_value_bytes(&s->size, s->out)), "outputs differ");
    check_that(same(job.codes - from, codes, all), "codes were written");
    check_that(same(job.scales, scales, scale_bytes(s)), "scales were written");
    columns_expect(&job, &reference, area, AREAS);
    check_end();
}

static void random_format(struct shape *s) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    s->set.idempotent = true;
    s->set.bits = (uint8_t)(2 + check_below(3));
    s->set.scale_dtype = (uint8_t)dtypes[check_below(3)];
    s->set.group = 16u << check_below(5);
    s->dtype = dtypes[check_below(3)];
    s->out = dtypes[check_below(3)];
    s->fill = check_below(2) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    s->outlying = check_below(4) == 0;
    s->nontemporal = check_below(2);
    s->hostile = check_below(3) == 0;
    for (int k = 0; k < AREAS; k++)
        s->place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
}

void check_levels(const struct level *level) {
    data = malloc(CAPACITY), codes = malloc(CODES), scales = malloc(SCALES), out = malloc(CAPACITY);
    check_begin("levels %s: memory", level->isa);
    check_that(data && codes && scales && out, "malloc failed");
    check_end();
    for (int k = 0; k < AREAS; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY + 8192);
    for (size_t c = 0; data && codes && scales && out && c < 1500; c += check_step()) {
        struct shape s = {.nontemporal = false};
        random_format(&s);
        s.size = columns_random(&s.set, c % 16 == 0);
        s.set.codebook = PITHI_CODEBOOK_NF;
        check_encode(level, &s);
        s.set.codebook = (uint8_t)(PITHI_CODEBOOK_NF + c % 3);
        s.before = check_below(BEFORE + 1);
        check_decode(level, &s);
    }
    free(data), free(codes), free(scales), free(out);
}

/* ---- Speed -----------------------------------------------------------------------------------*/

enum { ROW = 1024, TOKENS = 1 << 15, GROUP = 128, RUNS = 11 };

struct row {
    const char *name;
    uint32_t dtype;
    uint8_t codebook;
    bool decode;
};

static double run(const struct pithi_kernels *k, const struct row *r, size_t tokens) {
    struct pithi_channel_job job = {
        .set = {.bits = 4, .group = GROUP, .scale_dtype = PITH_F16, .codebook = r->codebook},
        .rows = GROUP,
        .columns = ROW,
        .stride = ROW,
        .dtype = r->dtype,
        .code_stride = ROW / 2,
        .scales = scales,
        .nontemporal = true};
    const double start = roofline_clock();
    for (size_t t = 0; t < tokens; t += GROUP) {
        job.value = data + t * ROW * width(r->dtype);
        job.out = data + t * ROW * width(r->dtype);
        job.codes = codes + t * ROW / 2;
        (r->decode ? k->levels_decode : k->levels_encode)(&job);
    }
    return (roofline_clock() - start) / (double)tokens;
}

static void bench_one(const struct level *level, const struct row *r) {
    const size_t bytes = ROW * width(r->dtype);
    struct pithi_kernels scalar;
    double kernel[RUNS], roofline[RUNS];
    pithi_kernels_bind(&scalar, 0);
    fill_values(data, r->dtype, 256 * ROW, FILL_GAUSS, 7);
    for (size_t at = 256; at < TOKENS; at += 256) memcpy(data + at * bytes, data, 256 * bytes);
    fill_values(scales, PITH_F16, ROW, FILL_GAUSS, 7);
    for (size_t i = 0; i < (size_t)TOKENS * ROW / 2; i++) codes[i] = (uint8_t)check_random();
    for (int i = 0; i < RUNS; i++) {
        roofline[i] = (r->decode ? roofline_fill(data, TOKENS * bytes, true)
                                 : roofline_read(data, TOKENS * bytes)) /
                      TOKENS;
        kernel[i] = run(&level->kernels, r, TOKENS);
    }
    const double gb = (double)bytes * 1e-9, reference = run(&scalar, r, 2 * GROUP);
    print_speed(level, r->name, GROUP, gb, reference, median(kernel, RUNS), median(roofline, RUNS));
}

void bench_levels(const struct level *level) {
    static const struct row rows[] = {
        {"kv channel encode nf f16 4 bits", PITH_F16, PITHI_CODEBOOK_NF, false},
        {"kv channel decode nf f16 4 bits", PITH_F16, PITHI_CODEBOOK_NF, true},
        {"kv channel decode nf f32 4 bits", PITH_F32, PITHI_CODEBOOK_NF, true},
        {"kv channel decode trellis f16", PITH_F16, PITHI_CODEBOOK_TRELLIS, true},
        {"kv channel decode trellis f32", PITH_F32, PITHI_CODEBOOK_TRELLIS, true}};
    data = malloc((size_t)TOKENS * ROW * 4), codes = malloc((size_t)TOKENS * ROW / 2);
    scales = malloc(SCALES);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (data && codes && scales && strstr(rows[i].name, bench_only)) bench_one(level, &rows[i]);
    free(data), free(codes), free(scales);
}
