/* fuzz_backends.c - every CPU mask, thread count, runner and rounding mode: one result.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { PARAMETER_BYTES = 112, WAYS = 6 };

static const struct variant {
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

static void side_plan(struct side *x, const struct variant *variant) {
    fuzz_env_init(&x->env);
    x->env.env.cpu_mask = variant->mask;
    x->env.env.threads = variant->threads;
    if (variant->runner) x->env.env.run = fuzz_run_backwards;
    pith_error error;
    x->status = pith_plan_create(&x->plan, layout.spec, &layout.layout, &x->env.env, &error);
    if (x->status == PITH_ERR_UNSUPPORTED && variant->threads > 1 && !variant->runner) {
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
    }
    if (layout.layout.base_dtype) {
        FUZZ_CHECK(pith_state_set_base(x->plan, x->state, &base.view, 7) == PITH_OK);
    } else {
        pith_plan_set_random(x->plan, 1, 2, 7);
        FUZZ_CHECK(pith_plan_set_ranks(x->plan, 1, 3) == PITH_OK);
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
    if (layout.layout.base_dtype)
        FUZZ_CHECK(pith_state_set_base(x->plan, x->state, &base.view, 7) == PITH_OK);
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
static void foreign(const struct variant *variant) {
    if (variant->upward) FUZZ_CHECK(fesetround(FE_UPWARD) == 0);
}

static void native(const struct variant *variant) {
    if (variant->upward) FUZZ_CHECK(fegetround() == FE_UPWARD);
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

/* ---- Sums ------------------------------------------------------------------------------------*/

/* Where a sum goes: a plan of the same layout, in f32, at both of whose ends a state may be. */
struct hop {
    struct side side;
    pith_status status;
    uint8_t *frame;
    size_t cap, length;
};

static void hop_begin(struct hop *h, const struct variant *variant, const char *spec,
                      uint64_t slot) {
    memset(h, 0, sizeof *h);
    struct fuzz_layout own = layout;
    snprintf(layout.spec, sizeof layout.spec, "%s", spec);
    layout.layout.dtype = PITH_F32;
    side_plan(&h->side, variant);
    layout = own;
    if (!h->side.plan) return;
    pith_plan_set_random(h->side.plan, 3, 4, 5);
    pith_plan_sizes(h->side.plan, &h->side.sizes);
    const size_t bytes = (size_t)h->side.sizes.state_bytes;
    h->side.memory = guard_new(bytes);
    if (bytes)
        FUZZ_CHECK(pith_state_init(h->side.plan, h->side.memory, bytes, &h->side.state) == PITH_OK);
    h->side.saved = guard_new((size_t)h->side.sizes.save_bytes);
    h->cap = (size_t)pith_plan_frame_bytes(h->side.plan, slot, 0);
    h->frame = guard_new(h->cap);
}

static void hop_end(struct hop *h) {
    if (h->side.plan) {
        guard_free(h->frame, h->cap);
        guard_free(h->side.saved, (size_t)h->side.sizes.save_bytes);
        guard_free(h->side.memory, (size_t)h->side.sizes.state_bytes);
    }
    pith_plan_destroy(h->side.plan);
    fuzz_env_done(&h->side.env);
}

enum { SUMMED_MAX = 40 };
struct summed {
    const void *frame[SUMMED_MAX];
    size_t length[SUMMED_MAX];
    size_t count;
    float scale;
    uint64_t slot;
};

static void compare_sums(struct side *side, const struct summed *m) {
    for (int i = 0; i < WAYS; i++) {
        struct side *x = &side[i];
        foreign(&ways[i]);
        x->status = pith_reduce(x->plan, x->state, m->slot, m->frame, m->length, m->count, m->scale,
                                &x->out.view);
        native(&ways[i]);
        FUZZ_CHECK(fuzz_is_status(x->status) && x->status == side[0].status);
        if (x->status != PITH_OK) continue;
        FUZZ_CHECK(fuzz_same(&x->out, &side[0].out));
        same_state(&side[0], x);
    }
}

static void compare_hops(struct side *side, const char *spec, const struct summed *m) {
    struct hop hop[WAYS];
    for (int i = 0; i < WAYS; i++) {
        struct hop *h = &hop[i];
        hop_begin(h, &ways[i], spec, m->slot);
        FUZZ_CHECK(h->side.status == hop[0].side.status);
        if (!h->side.plan) continue;
        foreign(&ways[i]);
        h->status = pith_reduce_encode(side[i].plan, side[i].state, m->slot, m->frame, m->length,
                                       m->count, m->scale, h->side.plan, h->side.state, m->slot,
                                       h->frame, h->cap, &h->length);
        native(&ways[i]);
        FUZZ_CHECK(fuzz_is_status(h->status) && h->status == hop[0].status);
        FUZZ_CHECK(h->length == hop[0].length);
        if (h->length) FUZZ_CHECK(memcmp(h->frame, hop[0].frame, h->length) == 0);
        same_state(&side[0], &side[i]);
        same_state(&hop[0].side, &h->side);
    }
    for (int i = 0; i < WAYS; i++) hop_end(&hop[i]);
}

/* frames: one that is whole and one that may be damaged, some times each. */
static void compare_reductions(struct side *side, uint64_t slot, const uint8_t *const frames[2],
                               size_t length, struct fuzz_source *s) {
    static const char *const specs[] = {
        "raw", "grad:preset=intra,block=64,group=32", "grad:rotate=0,ef=full,bits=3,block=256",
        "grad:ef=ema:0.75,round=antithetic,sign_seed=6,scale_dtype=e8m0,block=512,group=512"};
    struct summed m = {.count = 1u + fuzz_below(s, SUMMED_MAX), .slot = slot};
    const uint8_t how = fuzz_u8(s);
    if (how & 0xC0) m.count = 1 + m.count % 4;
    m.scale = how & 1 ? 1.0f : 1.0f / (float)m.count;
    for (size_t i = 0; i < m.count; i++) {
        m.frame[i] = frames[how & 2 ? i % 2 : 0];
        m.length[i] = length;
    }
    compare_sums(side, &m);
    const uint32_t kind = (how >> 2) % 5;
    compare_hops(side, kind < 4 ? specs[kind] : layout.spec, &m);
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
    uint8_t *whole = guard_copy(side[0].frame, length);
    compare_reductions(side, slot, (const uint8_t *const[2]){whole, frame}, length, s);
    guard_free(whole, length);
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
