/* channel.c - idempotent groups along rows against their scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "cpu.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { CAPACITY = COLUMNS_CAPACITY, CODES = CAPACITY / 4, SCALES = 1 << 15 };

struct shape {
    struct pithi_group_setting set;
    uint32_t dtype, out;
    struct columns size;
    enum fill fill;
    bool nontemporal, hostile, prefetch;
    size_t place[5];
};

enum { VALUE, CODE, SCALE, ZERO, OUT, AREAS };
static struct guarded area[AREAS];
static uint8_t *data, *codes, *scales, *zeros, *out;

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin(
        "columns %s %s: %zu x %zu, stride %zu, codes %zu apart, dtype %u to %u, %u bits %s, "
        "scale %u, values %s, nontemporal %d, places %zu %zu %zu %zu %zu",
        level->isa, what, s->size.rows, s->size.columns, s->size.stride, s->size.code_stride,
        s->dtype, s->out, s->set.bits, s->set.asymmetric ? "asymmetric" : "symmetric",
        s->set.scale_dtype, fill_names[s->fill], s->nontemporal, s->place[0], s->place[1],
        s->place[2], s->place[3], s->place[4]);
}

static size_t code_bytes(const struct shape *s) {
    return columns_span(s->size.rows, s->size.code_stride,
                        pithi_group_code_bytes(&s->set, s->size.columns));
}
static size_t scale_bytes(const struct shape *s) {
    return s->size.columns * pithi_scale_width(s->set.scale_dtype);
}

static struct pithi_channel_job job_of(const struct shape *s) {
    return columns_job(&s->size, &s->set, s->nontemporal);
}

static void check_encode(const struct level *level, const struct shape *s) {
    struct pithi_channel_job reference = job_of(s), job = reference;
    begin(level, "encode", s);
    memset(codes, 0x5A, code_bytes(s)); /* between rows of codes nothing is written */
    reference.dtype = job.dtype = s->dtype;
    reference.value = data, reference.codes = codes, reference.scales = scales,
    reference.zeros = zeros;
    job.value =
        guarded_place(&area[VALUE], s->place[VALUE], data, columns_value_bytes(&s->size, s->dtype));
    job.codes = guarded_place(&area[CODE], s->place[CODE], codes, code_bytes(s));
    job.scales = guarded_place(&area[SCALE], s->place[SCALE], data, scale_bytes(s));
    job.zeros = guarded_place(&area[ZERO], s->place[ZERO], data, scale_bytes(s));
    if (s->prefetch) job.prefetch = data; /* of what comes next nothing depends on the values */
    memcpy(zeros, data, scale_bytes(s));
    pithi_channel_encode_c(&reference);
    level->kernels.channel_encode(&job);
    check_that(s->size.rows == 0 || same(job.scales, scales, scale_bytes(s)), "scales differ");
    check_that(same(job.zeros, zeros, scale_bytes(s)), "zero points differ");
    check_that(same(job.codes, codes, code_bytes(s)), "codes differ");
    columns_expect(&job, &reference, area, AREAS);
    check_end();
}

static void hostile_scales(const struct shape *s) {
    const enum fill fill = (enum fill)check_below(FILL_COUNT);
    for (size_t i = 0; i < code_bytes(s); i++) codes[i] = (uint8_t)check_random();
    fill_values(scales, s->set.scale_dtype, s->size.columns, fill, 7);
    fill_values(zeros, s->set.scale_dtype, s->size.columns, fill, 7);
}

static void check_decode(const struct level *level, const struct shape *s) {
    struct pithi_channel_job reference = job_of(s), job = reference;
    begin(level, "decode", s);
    if (s->hostile) hostile_scales(s);
    memset(out, 0x5A, columns_value_bytes(&s->size, s->out));
    reference.dtype = job.dtype = s->out;
    reference.out = out, reference.codes = codes, reference.scales = scales,
    reference.zeros = zeros;
    job.out = guarded_place(&area[OUT], s->place[OUT], out, columns_value_bytes(&s->size, s->out));
    job.codes = guarded_place(&area[CODE], s->place[CODE], codes, code_bytes(s));
    job.scales = guarded_place(&area[SCALE], s->place[SCALE], scales, scale_bytes(s));
    job.zeros = guarded_place(&area[ZERO], s->place[ZERO], zeros, scale_bytes(s));
    pithi_channel_decode_c(&reference);
    level->kernels.channel_decode(&job);
    check_that(same(job.out, out, columns_value_bytes(&s->size, s->out)), "outputs differ");
    check_that(same(job.codes, codes, code_bytes(s)), "codes were written");
    check_that(same(job.scales, scales, scale_bytes(s)), "scales were written");
    columns_expect(&job, &reference, area, AREAS);
    check_end();
}

static void random_format(struct shape *s) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    s->set.asymmetric = check_below(3) != 0;
    s->set.idempotent = true;
    s->set.bits = (uint8_t)(s->set.asymmetric ? 1 + check_below(8) : 2 + check_below(7));
    s->set.scale_dtype = (uint8_t)dtypes[check_below(3)];
    s->set.group = 16u << check_below(5);
    s->dtype = dtypes[check_below(3)];
    s->out = dtypes[check_below(3)];
    s->fill = check_below(3) == 0 ? FILL_GAUSS
              : check_below(2)    ? FILL_OFFSET
                                  : (enum fill)check_below(FILL_COUNT);
    s->nontemporal = check_below(2);
    s->hostile = check_below(3) == 0;
    s->prefetch = check_below(2);
    for (int k = 0; k < AREAS; k++)
        s->place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
}

void check_channels(const struct level *level) {
    data = malloc(CAPACITY), codes = malloc(CODES), scales = malloc(SCALES);
    zeros = malloc(SCALES), out = malloc(CAPACITY);
    check_begin("columns %s: memory", level->isa);
    check_that(data && codes && scales && zeros && out, "malloc failed");
    check_end();
    for (int k = 0; k < AREAS; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY + 8192);
    for (size_t c = 0; data && codes && scales && zeros && out && c < 1500; c++) {
        struct shape s = {.nontemporal = false};
        random_format(&s);
        s.size = columns_random(&s.set, c % 16 == 0);
        const int levels = (1 << (s.set.asymmetric ? s.set.bits : s.set.bits - 1)) - 1;
        fill_values(data, s.dtype, columns_value_bytes(&s.size, s.dtype) / width(s.dtype), s.fill,
                    levels);
        check_encode(level, &s);
        check_decode(level, &s);
    }
    free(data), free(codes), free(scales), free(zeros), free(out);
}

/* ---- Speed -----------------------------------------------------------------------------------*/

enum { ROW = 1024, TOKENS = 1 << 15, GROUP = 128, RUNS = 11 };

static double run(const struct pithi_kernels *k, uint32_t dtype, bool decode, size_t tokens) {
    struct pithi_channel_job job = {
        .set = {.bits = 4, .group = GROUP, .asymmetric = true, .scale_dtype = PITH_F16},
        .rows = GROUP,
        .columns = ROW,
        .stride = ROW,
        .dtype = dtype,
        .code_stride = ROW / 2,
        .scales = scales,
        .zeros = zeros,
        .nontemporal = true};
    const double start = roofline_clock();
    for (size_t t = 0; t < tokens; t += GROUP) {
        job.value = data + t * ROW * width(dtype);
        job.prefetch = t + GROUP < tokens ? data + (t + GROUP) * ROW * width(dtype) : NULL;
        job.out = data + t * ROW * width(dtype);
        job.codes = codes + t * ROW / 2;
        (decode ? k->channel_decode : k->channel_encode)(&job);
    }
    return (roofline_clock() - start) / (double)tokens;
}

static void bench_one(const struct level *level, const char *name, uint32_t dtype, bool decode) {
    const size_t bytes = ROW * width(dtype);
    struct pithi_kernels scalar;
    double kernel[RUNS], roofline[RUNS];
    pithi_kernels_bind(&scalar, 0);
    for (size_t at = 0; at < TOKENS; at += 256)
        fill_values(data + at * bytes, dtype, at ? 0 : 256 * ROW, FILL_GAUSS, 7);
    for (size_t at = 256; at < TOKENS; at += 256) memcpy(data + at * bytes, data, 256 * bytes);
    run(&level->kernels, dtype, false, TOKENS);
    for (int i = 0; i < RUNS; i++) {
        roofline[i] = (decode ? roofline_fill(data, TOKENS * bytes, true)
                              : roofline_read(data, TOKENS * bytes)) /
                      TOKENS;
        kernel[i] = run(&level->kernels, dtype, decode, TOKENS);
    }
    const double gb = (double)bytes * 1e-9, reference = run(&scalar, dtype, decode, 2 * GROUP);
    print_speed(level, name, GROUP, gb, reference, median(kernel, RUNS), median(roofline, RUNS));
}

void bench_channels(const struct level *level) {
    static const struct {
        const char *name;
        uint32_t dtype;
        bool decode;
    } rows[] = {{"kv channel encode f32 4 bits", PITH_F32, false},
                {"kv channel encode bf16 4 bits", PITH_BF16, false},
                {"kv channel decode f32 4 bits", PITH_F32, true},
                {"kv channel decode bf16 4 bits", PITH_BF16, true}};
    data = malloc((size_t)TOKENS * ROW * 4), codes = malloc((size_t)TOKENS * ROW / 2);
    scales = malloc(SCALES), zeros = malloc(SCALES);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (data && codes && scales && zeros && strstr(rows[i].name, bench_only))
            bench_one(level, rows[i].name, rows[i].dtype, rows[i].decode);
    free(data), free(codes), free(scales), free(zeros);
}
