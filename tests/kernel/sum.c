/* sum.c - the group quantizer's sum of frames against its scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 6000, CAPACITY = MOST * 5 + 4096, FRAMES = 19 };

/* One case: everything but the data. A frame: `scales_at` bytes, scales, a gap, codes. */
struct shape {
    struct pithi_group_setting set;
    size_t count, frames, scales_at, codes_at;
    bool more;
    enum fill fill; /* of the scales */
    size_t hostile; /* the frame whose scales are of that kind; the others are harmless */
    size_t place[FRAMES], sum_place;
};

static struct guarded area[FRAMES], sum_area;
static uint8_t *frames[FRAMES], *start, *expected;

static size_t frame_bytes(const struct shape *s) {
    return s->codes_at + pithi_group_code_bytes(&s->set, s->count);
}

static void begin(const struct level *level, const struct shape *s) {
    check_begin(
        "sum %s: %zu frames of %zu elements, group %u, %u bits, scale dtype %u, more %d, "
        "scales at %zu %s in frame %zu, codes at %zu, places %zu %zu %zu",
        level->isa, s->frames, s->count, s->set.group, s->set.bits, s->set.scale_dtype, s->more,
        s->scales_at, fill_names[s->fill], s->hostile, s->codes_at, s->place[0], s->place[1],
        s->sum_place);
}

static void fill_scales(const struct shape *s, uint8_t *scales, bool hostile) {
    const size_t groups = (s->count + s->set.group - 1) / s->set.group;
    if (s->set.scale_dtype == PITHI_E8M0)
        for (size_t g = 0; g < groups; g++)
            scales[g] = (uint8_t)(hostile ? 256 - check_below(20) : 100 + check_below(40));
    else
        fill_values(scales, s->set.scale_dtype, groups, hostile ? s->fill : FILL_GAUSS, 7);
}

static void make_frames(const struct shape *s) {
    for (size_t k = 0; k < s->frames; k++) {
        for (size_t i = 0; i < frame_bytes(s); i++) frames[k][i] = (uint8_t)check_random();
        fill_scales(s, frames[k] + s->scales_at, k == s->hostile);
    }
    fill_values(start, PITH_F32, s->count, check_below(4) ? FILL_GAUSS : s->fill, 7);
}

/* Equal bits, or NaN and NaN: which NaN a sum of two gives depends on the machine. */
static bool same_sums(const uint8_t *a, const uint8_t *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t x = pithi_load(a, PITH_F32, i), y = pithi_load(b, PITH_F32, i);
        const bool numbers =
            (x & 0x7FFFFFFFu) <= PITHI_F32_INF || (y & 0x7FFFFFFFu) <= PITHI_F32_INF;
        if (x != y && numbers) return false;
    }
    return true;
}

static struct pithi_sum_job job_of(const struct shape *s, const uint8_t *const *from, void *sum) {
    return (struct pithi_sum_job){.set = s->set,
                                  .count = s->count,
                                  .frames = from,
                                  .frame_count = s->frames,
                                  .scales_at = s->scales_at,
                                  .codes_at = s->codes_at,
                                  .more = s->more,
                                  .sum = sum,
                                  .saturated = 5, /* results are added to */
                                  .poisoned = 7};
}

static void check_one(const struct level *level, const struct shape *s) {
    const uint8_t *from[FRAMES];
    make_frames(s);
    begin(level, s);
    memcpy(expected, start, s->count * 4);
    for (size_t k = 0; k < s->frames; k++) {
        guarded_place(&area[k], s->place[k], frames[k], frame_bytes(s));
        from[k] = area[k].p;
    }
    uint8_t *sum = guarded_place(&sum_area, s->sum_place, start, s->count * 4);
    struct pithi_sum_job reference = job_of(s, from, expected), kernel = job_of(s, from, sum);
    const uint64_t host = pithi_fp_enter();
    pithi_group_sum_c(&reference);
    level->kernels.group_sum(&kernel);
    pithi_fp_leave(host);
    check_that(same_sums(sum, expected, s->count), "sums differ");
    check_that(kernel.saturated == reference.saturated, "the saturated count differs");
    check_that(kernel.poisoned == reference.poisoned, "the poisoned count differs");
    for (size_t k = 0; k < s->frames; k++)
        check_that(guarded_intact(&area[k]) && !memcmp(from[k], frames[k], frame_bytes(s)),
                   "a frame was written");
    check_that(guarded_intact(&sum_area), "a byte around the sum changed");
    check_end();
}

static struct shape random_shape(size_t count) {
    static const uint8_t scales[3] = {PITH_F32, PITH_BF16, PITHI_E8M0};
    struct shape s = {.count = count};
    const uint64_t r = check_random();
    s.set.bits = (uint8_t)(2 + check_below(7));
    s.set.group = 16u << check_below(9);
    s.set.scale_dtype = scales[check_below(3)];
    s.frames = r & 1 ? 1 + check_below(9) : check_below(FRAMES + 1);
    s.more = r >> 1 & 1;
    s.fill = (enum fill)check_below(FILL_COUNT);
    s.hostile = r >> 2 & 1 ? check_below(FRAMES) : FRAMES;
    s.scales_at = check_below(40);
    s.codes_at = s.scales_at + pithi_group_scale_bytes(&s.set, count) + check_below(20);
    for (size_t k = 0; k < s.frames; k++)
        s.place[k] = check_below(2) ? check_below(PLACE_COUNT) : PLACE_END;
    s.sum_place = check_below(2) ? 4 * check_below(16) : PLACE_END;
    return s;
}

void check_sum(const struct level *level) {
    bool memory = true;
    for (size_t k = 0; k < FRAMES; k++) memory = (frames[k] = malloc(CAPACITY)) && memory;
    start = malloc(CAPACITY);
    expected = malloc(CAPACITY);
    check_begin("sum %s: memory", level->isa);
    check_that(memory && start && expected, "malloc failed");
    check_end();
    if (!memory || !start || !expected) return;
    for (size_t k = 0; k < FRAMES && !sum_area.pages; k++) area[k] = guarded_new(CAPACITY);
    if (!sum_area.pages) sum_area = guarded_new(CAPACITY);
    for (size_t n = 0; n <= 520; n++) {
        for (int k = 0; k < 6; k++) {
            const struct shape s = random_shape(n);
            check_one(level, &s);
        }
    }
    for (int k = 0; k < 500; k++) {
        const struct shape s = random_shape(k % 2 ? 2040 + check_below(70) : check_below(MOST));
        check_one(level, &s);
    }
    for (size_t k = 0; k < FRAMES; k++) free(frames[k]);
    free(start);
    free(expected);
}

/* ---- Speed: eight frames into a piece that stays in the cache ---------------------------------*/

enum { SPEED_COUNT = 1 << 23, SPEED_FRAMES = 8, PIECE = 4096, RUNS = 9 };

static double run_sum(const struct pithi_kernels *k, uint8_t bits, const uint8_t *const *from,
                      float *sum) {
    struct pithi_sum_job job = {.set = {.group = 128, .bits = bits, .scale_dtype = PITH_F32},
                                .count = PIECE,
                                .frames = from,
                                .frame_count = SPEED_FRAMES,
                                .sum = sum};
    const double begun = roofline_clock();
    for (size_t i = 0; i < SPEED_COUNT; i += PIECE) {
        job.scales_at = pithi_group_scale_bytes(&job.set, i);
        job.codes_at = pithi_group_scale_bytes(&job.set, SPEED_COUNT) + i * bits / 8;
        k->group_sum(&job);
    }
    return roofline_clock() - begun;
}

static double run_reads(size_t bytes, const uint8_t *const *from) {
    double seconds = 0;
    for (size_t k = 0; k < SPEED_FRAMES; k++) seconds += roofline_read(from[k], bytes);
    return seconds;
}

void bench_sum(const struct level *level) {
    static float sum[PIECE];
    static const uint8_t widths[] = {8, 4, 3};
    uint8_t *from[SPEED_FRAMES];
    const size_t scales = SPEED_COUNT / 128 * 4, most = scales + SPEED_COUNT;
    struct pithi_kernels scalar;
    pithi_kernels_bind(&scalar, 0);
    bool memory = strstr("sum", bench_only) != NULL;
    for (size_t k = 0; k < SPEED_FRAMES; k++) memory = (from[k] = malloc(most)) && memory;
    for (size_t k = 0; k < SPEED_FRAMES && memory; k++) roofline_fill(from[k], most, false);
    for (size_t w = 0; w < sizeof widths && memory; w++) {
        const size_t bytes = scales + (size_t)SPEED_COUNT * widths[w] / 8;
        double kernel[RUNS], read[RUNS];
        for (int run = 0; run < RUNS; run++) {
            read[run] = run_reads(bytes, (const uint8_t *const *)from);
            kernel[run] = run_sum(&level->kernels, widths[w], (const uint8_t *const *)from, sum);
        }
        const double kernel_median = median(kernel, RUNS);
        const double read_median = median(read, RUNS);
        const double gb = (double)(SPEED_FRAMES * bytes) * 1e-9;
        const double reference = run_sum(&scalar, widths[w], (const uint8_t *const *)from, sum);
        printf(
            "%-7s sum of 8 frames, %u bits               group   128  scalar %5.2f  kernel "
            "%6.2f  x%5.1f  roofline %6.2f GB/s of frames  %.2f\n",
            level->isa, widths[w], gb / reference, gb / kernel_median, reference / kernel_median,
            gb / read_median, read_median / kernel_median);
        fflush(stdout);
    }
    for (size_t k = 0; k < SPEED_FRAMES; k++) free(from[k]);
}
