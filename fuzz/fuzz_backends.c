/* fuzz_backends.c - every CPU mask, thread count, runner and rounding mode: one result.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { PARAMETER_BYTES = 112, WAYS = 6 };

static const struct way {
    uint32_t mask, threads;
    bool runner, upward;
} ways[WAYS] = {
    {PITH_CPU_SCALAR, 1, false, false}, {0, 1, false, true},  {PITH_CPU_AVX2, 3, true, false},
    {PITH_CPU_AVX512, 1, false, false}, {0, 3, false, false}, {PITH_CPU_SCALAR, 3, true, false},
};

struct side {
    struct fuzz_env env;
    pith_plan *plan;
    pith_sizes sizes;
    void *memory;
    pith_state *state;
    uint8_t *frame;
    size_t cap, length;
    struct fuzz_tensor out;
    uint8_t *saved;
    pith_status status;
};

static struct fuzz_layout layout;
static struct fuzz_tensor value, base;

static void side_plan(struct side *x, const struct way *way) {
    fuzz_env_init(&x->env);
    x->env.env.cpu_mask = way->mask;
    x->env.env.threads = way->threads;
    if (way->runner) x->env.env.run = fuzz_run_backwards;
    pith_error error;
    x->status = pith_plan_create(&x->plan, layout.spec, &layout.layout, &x->env.env, &error);
    if (x->status == PITH_ERR_UNSUPPORTED && way->threads > 1 && !way->runner) {
        x->env.env.run = fuzz_run_backwards; /* a build without OpenMP */
        x->status = pith_plan_create(&x->plan, layout.spec, &layout.layout, &x->env.env, &error);
    }
}

static void side_begin(struct side *x, uint64_t slot, uint64_t count, struct fuzz_source *s) {
    const bool exact = layout.traits & PITH_TRAIT_LOSSLESS;
    pith_plan_sizes(x->plan, &x->sizes);
    x->memory = guard_new((size_t)x->sizes.state_bytes);
    x->saved = guard_new((size_t)x->sizes.save_bytes);
    if (x->sizes.state_bytes) {
        FUZZ_CHECK(pith_state_init(x->plan, x->memory, (size_t)x->sizes.state_bytes, &x->state) ==
                   PITH_OK);
        FUZZ_CHECK(pith_state_set_base(x->plan, x->state, &base.view, 7) == PITH_OK);
    } else {
        pith_plan_set_random(x->plan, 1, 2, 7);
    }
    x->cap = (size_t)(x->sizes.slot_bytes > x->sizes.key_bytes ? x->sizes.slot_bytes
                                                               : x->sizes.key_bytes);
    x->frame = guard_new(x->cap);
    fuzz_tensor_new(&x->out, s, false, exact ? layout.layout.dtype : 1u + (uint32_t)slot % 3, 1,
                    &count);
}

static void side_end(struct side *x) {
    if (x->plan) {
        guard_free(x->frame, x->cap);
        guard_free(x->saved, (size_t)x->sizes.save_bytes);
        guard_free(x->memory, (size_t)x->sizes.state_bytes);
        fuzz_tensor_free(&x->out);
    }
    pith_plan_destroy(x->plan);
    fuzz_env_done(&x->env);
}

static void side_encode(struct side *x, uint64_t slot, bool key) {
    x->status =
        key ? pith_encode_key(x->plan, x->state, &value.view, slot, x->frame, x->cap, &x->length)
            : pith_encode(x->plan, x->state, &value.view, slot, x->frame, x->cap, &x->length);
}

/* Decode somebody's frame as the next step of a base that is set anew. */
static void side_decode(struct side *x, uint64_t slot, const uint8_t *frame, size_t length) {
    if (x->state) FUZZ_CHECK(pith_state_set_base(x->plan, x->state, &base.view, 7) == PITH_OK);
    x->status = pith_decode(x->plan, x->state, slot, frame, length, &x->out.view);
}

static void same_state(struct side *a, struct side *b) {
    size_t length;
    if (!a->state) return;
    FUZZ_CHECK(pith_state_save(a->plan, a->state, a->saved, (size_t)a->sizes.save_bytes, &length) ==
               PITH_OK);
    FUZZ_CHECK(length == a->sizes.save_bytes && length == b->sizes.save_bytes);
    FUZZ_CHECK(pith_state_save(b->plan, b->state, b->saved, length, &length) == PITH_OK);
    FUZZ_CHECK(memcmp(a->saved, b->saved, length) == 0);
}

/* The rounding mode is the caller's and stays so. */
static void foreign(const struct way *way) {
    if (way->upward) FUZZ_CHECK(fesetround(FE_UPWARD) == 0);
}

static void native(const struct way *way) {
    if (way->upward) FUZZ_CHECK(fegetround() == FE_UPWARD);
    FUZZ_CHECK(fesetround(FE_TONEAREST) == 0);
}

static void compare_encoders(struct side *side, uint64_t slot, bool key) {
    for (int i = 0; i < WAYS; i++) {
        foreign(&ways[i]);
        side_encode(&side[i], slot, key);
        native(&ways[i]);
        FUZZ_CHECK(side[i].status == side[0].status && side[i].length == side[0].length);
        FUZZ_CHECK(memcmp(side[i].frame, side[0].frame, side[0].length) == 0);
        same_state(&side[0], &side[i]);
    }
}

static void compare_one_shot(struct side *x, const uint8_t *frame, size_t length) {
    pith_error error;
    double bound;
    pith_status verified, bounded, first_verified = PITH_OK, first_bounded = PITH_OK;
    for (int i = 0; i < WAYS; i++) {
        foreign(&ways[i]);
        verified = pith_verify(frame, length, &x[i].env.env, &error);
        bounded = pith_error_bound(frame, length, &bound, &error);
        native(&ways[i]);
        if (i == 0) first_verified = verified, first_bounded = bounded;
        FUZZ_CHECK(verified == first_verified && bounded == first_bounded);
    }
}

static void compare_decoders(struct side *side, uint64_t slot, const uint8_t *frame,
                             size_t length) {
    for (int i = 0; i < WAYS; i++) {
        foreign(&ways[i]);
        side_decode(&side[i], slot, frame, length);
        native(&ways[i]);
        FUZZ_CHECK(fuzz_is_status(side[i].status) && side[i].status == side[0].status);
        if (side[0].status != PITH_OK) continue;
        FUZZ_CHECK(fuzz_same(&side[i].out, &side[0].out));
        same_state(&side[0], &side[i]);
    }
    compare_one_shot(side, frame, length);
}

static void compare(struct side *side, struct fuzz_source *payload, struct fuzz_source *s) {
    const uint64_t slot = fuzz_below(s, (uint32_t)side[0].sizes.slots);
    const uint8_t how = fuzz_u8(s);
    const bool key = side[0].sizes.key_bytes && (how & 7) == 7;
    compare_encoders(side, slot, key);
    if (side[0].status != PITH_OK) return;
    const size_t length = side[0].length;
    uint8_t *frame = guard_copy(side[0].frame, length);
    pith_info info;
    FUZZ_CHECK(pith_inspect(frame, length, &info, NULL) == PITH_OK);
    if (how & 8) { /* the input as the payload */
        const size_t room = length - (size_t)info.header_bytes;
        const size_t n = payload->length < room ? payload->length : room;
        if (n) memcpy(frame + info.header_bytes, payload->bytes, n);
    }
    if (how & 16) fuzz_patch(frame, length, s);
    if (how & 32) fuzz_patch(frame + info.header_bytes, length - (size_t)info.header_bytes, s);
    if (how & 64) fuzz_fix_frame(frame, length);
    compare_decoders(side, slot, frame, length);
    guard_free(frame, length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source payload = {data, size}, s = fuzz_split(&payload, PARAMETER_BYTES);
    struct fuzz_source none = {NULL, 0};
    struct side side[WAYS];
    memset(side, 0, sizeof side);
    setenv("OMP_WAIT_POLICY", "passive", 0); /* or idle threads would take the cores */
    fuzz_draw_layout(&layout, &s);
    const pith_layout *l = &layout.layout;
    for (int i = 0; i < WAYS; i++) {
        side_plan(&side[i], &ways[i]);
        FUZZ_CHECK(side[i].status == side[0].status);
    }
    if (side[0].plan) {
        struct fuzz_source fill = {payload.bytes, payload.length}, old = fill;
        if (old.length) old.length /= 2;
        fuzz_tensor_new(&value, &s, false, l->dtype, l->ndim, l->shape);
        fuzz_tensor_new(&base, &none, true, l->base_dtype ? l->base_dtype : 1, l->ndim, l->shape);
        fuzz_fill(&value, &fill);
        fuzz_fill(&base, &old);
        const struct fuzz_source same = s;
        for (int i = 0; i < WAYS; i++) {
            struct fuzz_source again = same;
            side_begin(&side[i], size % 3, value.count, &again);
        }
        compare(side, &payload, &s);
        fuzz_tensor_free(&value);
        fuzz_tensor_free(&base);
    }
    for (int i = 0; i < WAYS; i++) side_end(&side[i]);
    return 0;
}
