/* fuzz_spec.c - any string as a spec; canonical text means the same and is its own canon.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"

static void check_plan(const char *spec, const char *canon, struct fuzz_source *s) {
    struct fuzz_layout l;
    struct fuzz_env e;
    const pith_plan *plan;
    pith_error error = {.size = sizeof error};
    pith_sizes sizes[2];
    pith_status status[2];
    const char *specs[2] = {spec, canon};
    fuzz_draw_layout(&l, s);
    for (int i = 0; i < 2; i++) {
        fuzz_env_init(&e);
        memset(&sizes[i], 0, sizeof sizes[i]);
        sizes[i].size = sizeof sizes[i];
        status[i] = pith_plan_create(&plan, specs[i], &l.layout, &e.env, &error);
        FUZZ_CHECK((status[i] == PITH_OK) == (plan != NULL));
        FUZZ_CHECK(fuzz_is_status(status[i]) && fuzz_error_fits(&error, status[i]));
        if (plan) FUZZ_CHECK(pith_plan_sizes(plan, &sizes[i]) == PITH_OK);
        pith_plan_destroy(plan);
        fuzz_env_done(&e);
    }
    FUZZ_CHECK(status[0] == status[1]);
    FUZZ_CHECK(memcmp(&sizes[0], &sizes[1], sizeof sizes[0]) == 0);
}

/* Text that does not fit is refused. */
static void check_short_text(const char *spec, const char *canon, size_t cap) {
    char *text = guard_new(cap);
    const bool fits = strlen(canon) < cap;
    FUZZ_CHECK(pith_spec_check(spec, text, cap, NULL) == (fits ? PITH_OK : PITH_ERR_SPACE));
    if (cap) FUZZ_CHECK(strcmp(text, fits ? canon : "") == 0);
    guard_free(text, cap);
}

/* A bound is always said, and so is the share of topk; real numbers may have a longer text than
 * they were given; some words of kv set other keys, and so do two and three bits of grad and the
 * share and number of topk. */
static bool may_grow(const struct fuzz_layout *l) {
    return l->traits & PITH_TRAIT_BOUND || strncmp(l->spec, "topk", 4) == 0 ||
           strstr(l->spec, "preset=") || strstr(l->spec, "codebook=") ||
           strstr(l->spec, "outliers=") ||
           (strncmp(l->spec, "grad", 4) == 0 &&
            (strstr(l->spec, "bits=2") || strstr(l->spec, "bits=3")));
}

/* Lengths are known beforehand where the codec says so, but for entropy coding. */
static void check_rate(const pith_plan *plan, const char *canon, const struct fuzz_layout *l) {
    pith_sizes sizes = {.size = sizeof sizes};
    FUZZ_CHECK(pith_plan_sizes(plan, &sizes) == PITH_OK);
    const bool fixed = l->traits & PITH_TRAIT_FIXED_RATE && !strstr(canon, "entropy=");
    FUZZ_CHECK((sizes.fixed != 0) == fixed);
    for (uint64_t slot = 0; slot < sizes.slots; slot++)
        FUZZ_CHECK(pith_plan_frame_bytes(plan, slot, 0) <= sizes.frame_bytes);
    FUZZ_CHECK(sizes.frame_bytes <= sizes.slot_bytes && sizes.stream_bytes > 0);
}

/* Specs of every kind of key: a spec that is taken is never what a plan is refused for. */
static void check_drawn(const uint8_t *data, size_t size) {
    struct fuzz_source s = {data, size};
    struct fuzz_layout l;
    char canon[PITH_SPEC_MAX], again[PITH_SPEC_MAX];
    const pith_plan *plan;
    pith_error error = {.size = sizeof error};
    fuzz_draw_layout(&l, &s);
    const pith_status status = pith_spec_check(l.spec, canon, sizeof canon, &error);
    FUZZ_CHECK(status == PITH_OK || status == PITH_ERR_SPEC);
    const pith_status made = pith_plan_create(&plan, l.spec, &l.layout, NULL, &error);
    FUZZ_CHECK((status == PITH_ERR_SPEC) == (made == PITH_ERR_SPEC));
    if (plan) check_rate(plan, canon, &l);
    pith_plan_destroy(plan);
    if (status != PITH_OK) return;
    FUZZ_CHECK(pith_spec_check(canon, again, sizeof again, &error) == PITH_OK);
    FUZZ_CHECK(strcmp(canon, again) == 0);
    FUZZ_CHECK(may_grow(&l) || strlen(canon) <= strlen(l.spec));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source s = {data, size};
    char canon[PITH_SPEC_MAX], again[PITH_SPEC_MAX];
    pith_error error = {.size = sizeof error};
    check_drawn(data, size);
    const char *end = size ? memchr(data, 0, size) : NULL;
    const size_t length = end ? (size_t)(end - (const char *)data) : size;
    char *spec = guard_new(length + 1);
    if (length) memcpy(spec, data, length);
    spec[length] = 0;
    const pith_status status = pith_spec_check(spec, canon, sizeof canon, &error);
    FUZZ_CHECK(fuzz_is_status(status) && fuzz_error_fits(&error, status) && error.offset <= length);
    if (status == PITH_OK) {
        FUZZ_CHECK(pith_spec_check(canon, again, sizeof again, &error) == PITH_OK);
        FUZZ_CHECK(strcmp(canon, again) == 0);
        for (size_t cap = 0; cap < strlen(canon) + 2; cap++) check_short_text(spec, canon, cap);
        FUZZ_CHECK(pith_spec_check(spec, NULL, 0, NULL) == PITH_OK);
        check_plan(spec, canon, &s);
    }
    guard_free(spec, length + 1);
    return 0;
}
