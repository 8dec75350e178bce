/* runs.c - the group quantizer's kernels over runs that lie apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "kernelcheck.h"

enum { RUNS = 40, MOST = 16000, CAPACITY = MOST * 4 + RUNS * 64 + 4096 };

/* One case: runs of which number i lies in slot (i * step + shift) % count, a gap behind each. */
struct runs {
    struct pithi_group_job like;
    size_t count, step, shift, gap;
    enum fill fill;
    struct pithi_group_run run[RUNS];
};

/* What one call left behind, gaps as well. */
struct made {
    uint8_t codes[CAPACITY], scales[CAPACITY];
    uint64_t poisoned[RUNS];
};

static struct guarded area[3]; /* values, codes, scales */

static size_t code_bytes(const struct runs *r) {
    return pithi_group_code_bytes(&r->like.set, r->like.count);
}
static size_t scale_bytes(const struct runs *r) {
    return pithi_group_scale_bytes(&r->like.set, r->like.count);
}
static size_t value_bytes(const struct runs *r) {
    return r->like.count * width(r->like.value_dtype);
}
static size_t all(const struct runs *r, size_t bytes) { return r->count * (bytes + r->gap); }

static void begin(const struct level *level, const struct runs *r) {
    const struct pithi_group_setting *s = &r->like.set;
    check_begin(
        "group %s runs: %zu of %zu elements, group %u, %u bits %s%s%s, dtype %u, scale %u, "
        "values %s, step %zu, shift %zu, gap %zu",
        level->isa, r->count, r->like.count, s->group, s->bits,
        s->asymmetric ? "asymmetric" : "symmetric", s->shrink ? " shrunk" : "",
        s->codebook ? " codebook" : "", r->like.value_dtype, s->scale_dtype, fill_names[r->fill],
        r->step, r->shift, r->gap);
}

static void place_runs(struct runs *r, const uint8_t *values, uint8_t *codes, uint8_t *scales) {
    for (size_t i = 0; i < r->count; i++) {
        const size_t slot = (i * r->step + r->shift) % r->count;
        r->run[i].value = values + slot * value_bytes(r);
        r->run[i].codes = codes + slot * (code_bytes(r) + r->gap);
        r->run[i].scales = scales + slot * (scale_bytes(r) + r->gap);
        r->run[i].poisoned = i; /* added to */
    }
}

static void check_one(const struct level *level, struct runs *r, const uint8_t *values,
                      struct made *made) {
    begin(level, r);
    memset(made->codes, 0xA5, all(r, code_bytes(r)));
    memset(made->scales, 0xA5, all(r, scale_bytes(r)));
    uint8_t *const codes =
        guarded_place(&area[1], check_below(PLACE_COUNT), made->codes, all(r, code_bytes(r)));
    uint8_t *const scales =
        guarded_place(&area[2], check_below(PLACE_COUNT), made->scales, all(r, scale_bytes(r)));
    const size_t bytes = r->count * value_bytes(r);
    const size_t place = check_below(2) ? PLACE_END : check_below(PLACE_COUNT);
    const uint8_t *const here = guarded_place(&area[0], place, values, bytes);
    place_runs(r, values, made->codes, made->scales);
    pithi_group_encode_runs_c(&r->like, r->run, r->count);
    for (size_t i = 0; i < r->count; i++) made->poisoned[i] = r->run[i].poisoned;
    place_runs(r, here, codes, scales);
    level->kernels.group_encode_runs(&r->like, r->run, r->count);
    check_that(memcmp(codes, made->codes, all(r, code_bytes(r))) == 0, "codes differ");
    check_that(memcmp(scales, made->scales, all(r, scale_bytes(r))) == 0, "scales differ");
    check_that(memcmp(here, values, bytes) == 0, "values were written");
    for (size_t i = 0; i < r->count; i++)
        check_that(r->run[i].poisoned == made->poisoned[i], "a poisoned count differs");
    for (int k = 0; k < 3; k++) check_that(guarded_intact(&area[k]), "written beyond an area");
    check_end();
}

static void make_setting(struct pithi_group_setting *s) {
    static const uint8_t scales[3] = {PITH_F32, PITH_BF16, PITH_F16};
    const uint64_t r = check_random();
    *s = (struct pithi_group_setting){.asymmetric = (r & 3) != 0, .idempotent = true};
    s->bits = (uint8_t)(2 + check_below(7));
    if (r >> 2 & 1) s->bits = r >> 3 & 1 ? 2 : 4;
    s->group = 16u << check_below(6);
    s->scale_dtype = scales[check_below(3)];
    s->shrink = (r >> 4 & 15) == 0 && s->group <= PITHI_SHRINK_GROUP;
    s->short_zero = s->asymmetric && s->scale_dtype == PITH_BF16 && (r >> 8 & 1);
    if ((r >> 10 & 15) == 0 && s->bits <= 4) {
        s->codebook = (uint8_t)(1 + (r >> 14 & 1));
        s->asymmetric = s->shrink = s->short_zero = false;
    }
}

static void make_case(struct runs *r) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    memset(r, 0, sizeof *r);
    make_setting(&r->like.set);
    r->like.value_dtype = dtypes[check_below(3)];
    r->count = check_below(RUNS + 1);
    r->step = check_below(2) ? 1 : 7;
    if (r->count % 7 == 0) r->step = 1;                /* or slots would be taken twice */
    r->shift = check_below(3) ? 0 : check_below(RUNS); /* 0, step 1: the last lies last */
    r->gap = check_below(2) ? 0 : check_below(40);
    r->fill = check_below(3) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    const size_t group = r->like.set.group, most = MOST / (r->count ? r->count : 1);
    const size_t groups = 1 + check_below(check_below(4) ? 9 : 40);
    r->like.count = groups * group < most ? groups * group : most / group * group;
    if (check_below(4) == 0) r->like.count += check_below(group);
    if (r->like.count > most) r->like.count = most;
}

void check_runs(const struct level *level) {
    struct made *const made = malloc(sizeof *made);
    uint8_t *const values = malloc(MOST * 4);
    for (int k = 0; k < 3; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    check_begin("group %s: memory for runs", level->isa);
    check_that(made && values, "malloc failed");
    check_end();
    for (size_t c = 0; made && values && c < 2000; c++) {
        static struct runs r;
        make_case(&r);
        fill_values(values, r.like.value_dtype, r.count * r.like.count, r.fill,
                    (1 << r.like.set.bits) - 1);
        check_one(level, &r, values, made);
    }
    free(made);
    free(values);
}
