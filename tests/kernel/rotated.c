/* rotated.c - groups encoded in the rotated domain against both scalar references.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"

enum { MOST = 9000, CAPACITY = MOST * 4 + 4096 };

struct shape {
    struct pithi_group_setting set;
    struct pithi_rotation r;
    uint32_t dtype;
    size_t count;
    uint64_t first;
    enum fill fill;
    bool nontemporal, taken; /* taken: a job that every kernel has a loop for */
    size_t place[3];
};

static struct guarded area[3]; /* values, codes, scales */
static uint8_t *data, *codes, *scales;
static float *rotated;

static void begin(const struct level *level, const struct shape *s) {
    check_begin(
        "rotated %s: order %u, signs %u, dtype %u, %zu elements from %llu, group %u, %u bits, "
        "scale %u, stochastic %d, search %d, values %s, nontemporal %d, places %zu %zu %zu",
        level->isa, s->r.order, s->r.signs, s->dtype, s->count, (unsigned long long)s->first,
        s->set.group, s->set.bits, s->set.scale_dtype, s->set.stochastic, s->set.search,
        fill_names[s->fill], s->nontemporal, s->place[0], s->place[1], s->place[2]);
}

static struct pithi_group_job job_of(const struct shape *s, size_t count) {
    struct pithi_group_job job = {.set = s->set, .count = count, .first = s->first};
    job.nontemporal = s->nontemporal;
    job.random = (struct pithi_random){s->first * 77, 3, 9, (uint16_t)s->count};
    job.poisoned = 7; /* results are added to */
    return job;
}

/* Encodes the first `count` elements in scalar C; returns how many groups are poisoned, and 7. */
static uint64_t encode_scalar(const struct shape *s, size_t count) {
    struct pithi_group_job job = job_of(s, count);
    pithi_rotate_c(&s->r, rotated, data, s->dtype, count, s->first);
    job.value = rotated;
    job.value_dtype = PITH_F32;
    job.codes = codes;
    job.scales = scales;
    pithi_group_encode_c(&job);
    return job.poisoned;
}

static void check_one(const struct level *level, const struct shape *s) {
    struct pithi_group_job job = job_of(s, s->count);
    const size_t bytes = s->count * width(s->dtype);
    begin(level, s);
    fill_values(data, s->dtype, s->count, s->fill, 7);
    job.value = guarded_place(&area[0], s->place[0], data, bytes);
    job.value_dtype = s->dtype;
    job.codes =
        guarded_place(&area[1], s->place[1], codes, pithi_group_code_bytes(&s->set, s->count));
    job.scales =
        guarded_place(&area[2], s->place[2], scales, pithi_group_scale_bytes(&s->set, s->count));
    const uint64_t host = pithi_fp_enter();
    const size_t done = level->kernels.rotate_encode(&s->r, &job);
    check_that(done <= s->count && done % s->set.group == 0, "not whole groups");
    check_that(!s->taken || done == s->count - s->count % s->set.group, "groups were left");
    const uint64_t poisoned = done <= s->count ? encode_scalar(s, done) : 0;
    pithi_fp_leave(host);
    check_that(job.poisoned == poisoned, "the poisoned count differs");
    check_that(same(job.scales, scales, pithi_group_scale_bytes(&s->set, done)), "scales differ");
    check_that(same(job.codes, codes, pithi_group_code_bytes(&s->set, done)), "codes differ");
    check_that(same(area[0].p, data, bytes), "the values were written");
    for (int k = 0; k < 3; k++) check_that(guarded_intact(&area[k]), "a byte outside changed");
    check_end();
}

static struct shape random_shape(void) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    static const uint8_t scale_dtypes[3] = {PITH_F32, PITH_BF16, PITHI_E8M0};
    struct shape s = {.set = {.group = 128}, .r = {.order = 32}};
    s.set.bits = (uint8_t)(2 + check_below(7));
    if (check_below(2)) s.set.bits = check_below(2) ? 4 : 8;
    s.set.scale_dtype = scale_dtypes[check_below(2) ? 0 : check_below(3)];
    s.dtype = dtypes[check_below(3)];
    s.set.stochastic = check_below(3) == 0;
    s.taken = !s.set.stochastic ||
              (s.set.bits == 4 && s.set.scale_dtype == PITH_F32 && s.dtype != PITH_F16);
    s.fill = check_below(2) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    s.first = check_below(1000) * 256;
    s.nontemporal = check_below(2);
    for (int k = 0; k < 3; k++) s.place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
    return s;
}

/* Jobs that a kernel may leave to others, wholly. */
static struct shape other_shape(void) {
    struct shape s = random_shape();
    s.taken = false;
    s.set.group = 32u << check_below(4);
    s.r.order = 32u << check_below(4);
    if (s.r.order > s.set.group) s.r.order = s.set.group;
    s.r.signs = (uint32_t)check_below(3);
    s.set.search = !s.set.stochastic && check_below(4) == 0;
    return s;
}

void check_rotated(const struct level *level) {
    data = malloc(CAPACITY);
    codes = calloc(1, CAPACITY);
    scales = calloc(1, CAPACITY);
    rotated = malloc(CAPACITY);
    check_begin("rotated %s: memory", level->isa);
    check_that(data && codes && scales && rotated, "malloc failed");
    check_end();
    for (int k = 0; k < 3; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    for (size_t c = 0; data && codes && scales && rotated && c < 6000; c++) {
        struct shape s = c % 4 ? random_shape() : other_shape();
        s.count = c < 800 ? c : check_below(c % 50 ? 1500 : MOST);
        check_one(level, &s);
    }
    free(data);
    free(codes);
    free(scales);
    free(rotated);
}
