/* bench.c - the group quantizer's kernels against scalar and against copy baselines.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel run stands beside a run of its roofline over the same buffers; medians are
 * compared. The difference rows include the hash of the new base, in pieces, as wdiff does it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"
#include "roofline.h"

/* A GiB of f32: twice the last level of caches, or more than most have. */
enum { COUNT = 1 << 28, RUNS = 5, SMALL = 4096, TOKEN = 1024, TOKENS = 256 * TOKEN };

struct buffers {
    uint8_t *value, *base, *codes, *scales;
};

struct subject {
    const char *name;
    struct pithi_group_setting set;
    uint32_t value, base; /* dtypes */
    bool decode, nontemporal;
    size_t count;
};

enum { GROUPS = 3 };
static const uint32_t groups[GROUPS] = {16, 128, 2048};

struct timings {
    double kernel[GROUPS], roofline;
};

static volatile uint64_t witness;

static struct pithi_group_job job_of(const struct subject *s, const struct buffers *b, size_t i,
                                     size_t count) {
    struct pithi_group_job job = {.set = s->set, .count = count, .first = i};
    job.value_dtype = s->value;
    job.out_dtype = s->value;
    job.base_dtype = s->base;
    if (!s->decode) job.value = b->value + i * width(s->value);
    if (s->decode && !s->base) job.out = b->value + i * width(s->value);
    if (s->base) job.base = b->base + i * width(s->base);
    job.update = s->base != PITH_NONE;
    job.nontemporal = s->nontemporal;
    job.codes = b->codes + i * s->set.bits / 8;
    job.scales = b->scales + pithi_group_scale_bytes(&s->set, i);
    return job;
}

/* In blocks, as wdiff does it. With a base, what is not encoded together with the hash of the new
 * one goes in pieces of 16 KiB of f32, or groups: the hash finds that in the cache. */
static double run_kernel(const struct pithi_kernels *k, const struct subject *s,
                         const struct buffers *b) {
    const size_t group = s->set.group, most = s->count == SMALL ? SMALL : 16384;
    const size_t block = group > most ? group : most;
    const size_t piece = s->base ? (group > SMALL ? group : SMALL) : block;
    const uint64_t host = pithi_fp_enter();
    const double start = roofline_clock();
    for (size_t i = 0, n; i < s->count; i += n) {
        n = s->count - i < block ? s->count - i : block;
        struct pithi_group_job job = job_of(s, b, i, n);
        uint64_t hash = 0;
        const size_t hashed = s->base && !s->decode ? k->encode_hashed(&job, &hash) : 0;
        witness += hash;
        for (size_t at = hashed, m; at < n; at += m) {
            m = n - at < piece ? n - at : piece;
            job = job_of(s, b, i + at, m);
            (s->decode ? k->group_decode : k->group_encode)(&job);
            if (s->base)
                witness += k->nh(job.base, m * width(s->base), (i + at) * width(s->base) / 8);
        }
    }
    const double seconds = roofline_clock() - start;
    pithi_fp_leave(host);
    return seconds;
}

/* Ordinary stores and non-temporal ones, but the latter not for what is in the cache. */
static int baseline_variants(const struct subject *s) {
    if (s->base) return BASELINE_VARIANTS;
    return s->decode && s->count == COUNT ? 2 : 1;
}

static double run_roofline(const struct subject *s, const struct buffers *b, int variant) {
    const size_t bytes = s->count * width(s->value), codes = s->count * s->set.bits / 8;
    if (!s->base && !s->decode) return roofline_read(b->value, bytes);
    if (!s->base) return roofline_fill(b->value, bytes, variant == 1);
    const size_t base = s->count * width(s->base);
    struct roofline_baseline m = {.read = {b->base, s->decode ? b->codes : b->value},
                                  .read_bytes = {base, s->decode ? codes : bytes},
                                  .write = {b->base, s->decode ? NULL : b->codes},
                                  .write_bytes = {base, codes}};
    return roofline_move(&m, variant);
}

static struct subject of_group(const struct subject *s, int g) {
    struct subject grouped = *s;
    grouped.set.group = groups[g];
    return grouped;
}

/* Every round measures all sizes of groups, beside one measurement of the rooflines. */
static struct timings measure(const struct pithi_kernels *k, const struct subject *s,
                              const struct buffers *b) {
    double kernel[GROUPS][RUNS] = {{0}}, roofline[BASELINE_VARIANTS][RUNS] = {{0}};
    const int variants = baseline_variants(s);
    const int repeats = s->count == COUNT ? 1 : COUNT / 16 / (int)s->count;
    for (int run = 0; run < RUNS; run++) {
        for (int variant = 0; variant < variants; variant++)
            for (int r = 0; r < repeats; r++) roofline[variant][run] += run_roofline(s, b, variant);
        for (int g = 0; g < GROUPS; g++) {
            const struct subject grouped = of_group(s, g);
            if (run == 0) run_kernel(k, &grouped, b);
            for (int r = 0; r < repeats; r++) kernel[g][run] += run_kernel(k, &grouped, b);
        }
    }
    struct timings t = {.roofline = median(roofline[0], RUNS) / repeats};
    for (int variant = 1; variant < variants; variant++)
        t.roofline = fmin(t.roofline, median(roofline[variant], RUNS) / repeats);
    for (int g = 0; g < GROUPS; g++) t.kernel[g] = median(kernel[g], RUNS) / repeats;
    return t;
}

/* Seconds of the scalar reference, extrapolated from a small part of a large tensor. */
static double measure_scalar(const struct subject *s, const struct buffers *b) {
    struct pithi_kernels scalar;
    struct subject part = *s;
    pithi_kernels_bind(&scalar, 0);
    if (s->count == COUNT) part.count /= 128;
    return run_kernel(&scalar, &part, b) / (double)part.count * (double)s->count;
}

/* No zeros: some machines write those faster. A sixteenth is drawn, the rest repeats it. */
static void fill_data(const struct subject *s, const struct buffers *b) {
    const size_t part = (s->count < 65536 ? s->count : s->count / 16) * width(s->value);
    roofline_fill(b->base, COUNT * 4ul, false);
    roofline_fill(b->scales, COUNT, false);
    memset(b->codes, 0x5B, COUNT);
    fill_values(b->value, s->value, part / width(s->value), FILL_GAUSS, 7);
    for (size_t at = part; at < s->count * width(s->value); at += part)
        memcpy(b->value + at, b->value, part);
}

static void bench_one(const struct level *level, const struct subject *s, const struct buffers *b) {
    fill_data(s, b);
    const double gb = (double)(s->count * width(s->value)) * 1e-9;
    const struct timings t = measure(&level->kernels, s, b);
    for (int g = 0; g < GROUPS; g++) {
        const struct subject grouped = of_group(s, g);
        const double scalar = measure_scalar(&grouped, b);
        print_speed(level, s->name, groups[g], gb, scalar, t.kernel[g], t.roofline);
    }
}

#define RANGES(b) .bits = (b), .asymmetric = true, .scale_dtype = PITH_F16
static const struct subject subjects[] = {
    {"encode f32 4 bits", {.bits = 4}, PITH_F32, PITH_NONE, false, true, COUNT},
    {"encode f32 4 bits stochastic",
     {.bits = 4, .stochastic = true},
     PITH_F32,
     PITH_NONE,
     false,
     true,
     COUNT},
    {"encode bf16 4 bits", {.bits = 4}, PITH_BF16, PITH_NONE, false, true, COUNT},
    {"encode f32 3 bits", {.bits = 3}, PITH_F32, PITH_NONE, false, true, COUNT},
    {"encode f32 8 bits", {.bits = 8}, PITH_F32, PITH_NONE, false, true, COUNT},
    {"kv encode f32 4 bits", {RANGES(4)}, PITH_F32, PITH_NONE, false, true, COUNT},
    {"kv encode f32 2 bits", {RANGES(2)}, PITH_F32, PITH_NONE, false, true, COUNT},
    {"kv encode bf16 4 bits", {RANGES(4)}, PITH_BF16, PITH_NONE, false, true, COUNT},
    {"kv encode f16 4 bits", {RANGES(4)}, PITH_F16, PITH_NONE, false, true, COUNT},
    {"kv encode f32 4 bits of one token", {RANGES(4)}, PITH_F32, PITH_NONE, false, false, TOKEN},
    {"kv encode f32 4 bits of 256 tokens", {RANGES(4)}, PITH_F32, PITH_NONE, false, false, TOKENS},
    {"kv decode f32 4 bits", {RANGES(4)}, PITH_F32, PITH_NONE, true, true, COUNT},
    {"kv decode f32 2 bits", {RANGES(2)}, PITH_F32, PITH_NONE, true, true, COUNT},
    {"kv decode bf16 4 bits", {RANGES(4)}, PITH_BF16, PITH_NONE, true, true, COUNT},
    {"kv decode f16 4 bits", {RANGES(4)}, PITH_F16, PITH_NONE, true, true, COUNT},
    {"decode f32 4 bits", {.bits = 4}, PITH_F32, PITH_NONE, true, true, COUNT},
    {"decode f32 4 bits in cache", {.bits = 4}, PITH_F32, PITH_NONE, true, false, SMALL},
    {"decode bf16 4 bits", {.bits = 4}, PITH_BF16, PITH_NONE, true, true, COUNT},
    {"decode f32 3 bits", {.bits = 3}, PITH_F32, PITH_NONE, true, true, COUNT},
    {"wdiff encode f32, base f32", {.bits = 4}, PITH_F32, PITH_F32, false, false, COUNT},
    {"wdiff encode f32, base bf16", {.bits = 4}, PITH_F32, PITH_BF16, false, false, COUNT},
    {"wdiff encode bf16, base bf16", {.bits = 4}, PITH_BF16, PITH_BF16, false, false, COUNT},
    {"wdiff decode-add base f32", {.bits = 4}, PITH_F32, PITH_F32, true, false, COUNT},
    {"wdiff decode-add base bf16", {.bits = 4}, PITH_F32, PITH_BF16, true, false, COUNT},
};

static void bench_memcpy(const struct buffers *b) {
    double t[RUNS];
    for (int run = 0; run < RUNS; run++) t[run] = roofline_memcpy(b->base, b->value, COUNT * 4ul);
    printf("memcpy %.2f GB/s (of bytes copied)\n", COUNT * 4e-9 / median(t, RUNS));
}

void bench_group(const struct level *level) {
    bench_sum(level);
    bench_channels(level);
    struct buffers b = {malloc(COUNT * 4ul), malloc(COUNT * 4ul), malloc(COUNT), malloc(COUNT)};
    if (b.value && b.base && b.codes && b.scales) {
        roofline_fill(b.base, COUNT * 4ul, false);
        roofline_fill(b.value, COUNT * 4ul, false);
        bench_memcpy(&b);
        for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
            struct subject s = subjects[i];
            if (!strstr(s.name, bench_only)) continue;
            if (!s.set.scale_dtype) s.set.scale_dtype = PITH_F32;
            bench_one(level, &s, &b);
        }
    }
    free(b.value);
    free(b.base);
    free(b.codes);
    free(b.scales);
}
