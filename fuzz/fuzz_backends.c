/* fuzz_backends.c - every CPU mask, thread count, runner and rounding mode: one result.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { PARAMETER_BYTES = 112, VARIANTS = 6 };

static const struct variant {
    uint32_t mask, threads;
    bool runner, upward;
} variants[VARIANTS] = {
    {PITH_CPU_SCALAR, 1, false, false}, {0, 1, false, true},  {PITH_CPU_AVX2, 3, true, false},
    {PITH_CPU_AVX512, 1, false, false}, {0, 3, false, false}, {PITH_CPU_SCALAR, 3, true, false},
};

struct side {
    struct fuzz_env env;
    const pith_plan *plan;
    pith_sizes sizes;
    struct fuzz_end end;
    uint8_t *frame[FUZZ_SLOTS_MAX]; /* the first also where a call has one frame */
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
    pith_error error = {.size = sizeof error};
    x->status = pith_plan_create(&x->plan, layout.spec, &layout.layout, &x->env.env, &error);
    FUZZ_CHECK(fuzz_error_fits(&error, x->status));
    x->sizes.size = sizeof x->sizes;
    if (x->plan) FUZZ_CHECK(pith_plan_sizes(x->plan, &x->sizes) == PITH_OK);
}

/* The base anew, or the step, so that all slots are where they began; residuals stay. */
static void side_rewind(struct side *x) {
    const struct fuzz_end *e = &x->end;
    if (layout.layout.base_dtype) {
        FUZZ_CHECK(pith_stream_set_base(e->work, e->stream, &base.view, 7) == PITH_OK);
        return;
    }
    for (uint64_t slot = 0; slot < x->sizes.slots; slot++)
        FUZZ_CHECK(pith_stream_set_step(e->work, e->stream, slot, 7) == PITH_OK);
}

static void side_begin(struct side *x, uint64_t slot, uint64_t count, struct fuzz_source *s) {
    const bool exact = layout.traits & PITH_TRAIT_LOSSLESS, based = layout.layout.base_dtype;
    const pith_stream_options options = {.size = sizeof options,
                                         .seed = based ? 0 : 1,
                                         .rng_stream = based ? 0 : 2,
                                         .rank = based ? 0 : 1,
                                         .ranks = based ? 0 : 3,
                                         .step = 7};
    x->saved = guard_new((size_t)x->sizes.save_bytes);
    fuzz_end_new(&x->end, x->plan, &x->env.env, &options);
    FUZZ_CHECK(pith_stream_step(x->end.stream, 0) == 7);
    side_rewind(x);
    x->cap = (size_t)(x->sizes.slot_bytes > x->sizes.key_bytes ? x->sizes.slot_bytes
                                                               : x->sizes.key_bytes);
    for (uint64_t i = 0; i < FUZZ_SLOTS_MAX; i++) x->frame[i] = guard_new(x->cap);
    fuzz_tensor_new(&x->out, s, false, exact ? layout.layout.dtype : 1u + (uint32_t)slot % 3, 1,
                    &count);
}

static void side_end(struct side *x) {
    if (x->plan) {
        for (uint64_t i = 0; i < FUZZ_SLOTS_MAX; i++) guard_free(x->frame[i], x->cap);
        guard_free(x->saved, (size_t)x->sizes.save_bytes);
        fuzz_end_free(&x->end);
        fuzz_tensor_free(&x->out);
    }
    pith_plan_destroy(x->plan);
    fuzz_env_done(&x->env);
}

static void side_encode(struct side *x, uint64_t slot, bool key) {
    x->status = fuzz_encode(x->end.work, x->end.stream, slot, &value.view, key ? PITH_KEY_FRAME : 0,
                            x->frame[0], x->cap, &x->length);
}

/* Decode somebody's frame as the next step of a base that is set anew. */
static void side_decode(struct side *x, uint64_t slot, const uint8_t *frame, size_t length) {
    if (layout.layout.base_dtype) side_rewind(x);
    x->status = fuzz_decode(x->end.work, x->end.stream, slot, frame, length, &x->out.view, 0);
}

static void save_end(const struct fuzz_end *e, uint8_t *to, uint64_t bytes) {
    size_t length;
    FUZZ_CHECK(pith_stream_save(e->work, e->stream, to, (size_t)bytes, &length) == PITH_OK);
    FUZZ_CHECK(length == bytes);
}

static void same_stream(struct side *a, struct side *b) {
    FUZZ_CHECK(a->sizes.save_bytes == b->sizes.save_bytes);
    save_end(&a->end, a->saved, a->sizes.save_bytes);
    save_end(&b->end, b->saved, b->sizes.save_bytes);
    FUZZ_CHECK(memcmp(a->saved, b->saved, (size_t)a->sizes.save_bytes) == 0);
}

/* Frames that are damaged inside may leave streams that cannot be saved. */
static void rewind_bases(struct side *side) {
    for (int i = 0; i < VARIANTS && layout.layout.base_dtype; i++) side_rewind(&side[i]);
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
    for (int i = 0; i < VARIANTS; i++) {
        foreign(&variants[i]);
        side_encode(&side[i], slot, key);
        native(&variants[i]);
        FUZZ_CHECK(side[i].status == side[0].status && side[i].length == side[0].length);
        FUZZ_CHECK(memcmp(side[i].frame[0], side[0].frame[0], side[0].length) == 0);
        same_stream(&side[0], &side[i]);
    }
}

static void compare_one_shot(struct side *x, const uint8_t *frame, size_t length) {
    pith_error error = {.size = sizeof error};
    double bound;
    pith_status verified, bounded, first_verified = PITH_OK, first_bounded = PITH_OK;
    for (int i = 0; i < VARIANTS; i++) {
        foreign(&variants[i]);
        verified = pith_verify(frame, length, &x[i].env.env, &error);
        bounded = pith_error_bound(frame, length, &bound, &error);
        native(&variants[i]);
        if (i == 0) first_verified = verified, first_bounded = bounded;
        FUZZ_CHECK(verified == first_verified && bounded == first_bounded);
    }
}

static void compare_decoders(struct side *side, uint64_t slot, const uint8_t *frame,
                             size_t length) {
    for (int i = 0; i < VARIANTS; i++) {
        foreign(&variants[i]);
        side_decode(&side[i], slot, frame, length);
        native(&variants[i]);
        FUZZ_CHECK(fuzz_is_status(side[i].status) && side[i].status == side[0].status);
        if (side[0].status != PITH_OK) continue;
        FUZZ_CHECK(fuzz_same(&side[i].out, &side[0].out));
        same_stream(&side[0], &side[i]);
    }
    compare_one_shot(side, frame, length);
}

/* ---- Sums ------------------------------------------------------------------------------------
 * Of lists the first variant makes single calls, and the others make one call. */

/* Checks that single calls and a list say the same. False after an argument that keeps a list from
 * being worked on: single calls before it may have changed what they were given. */
static bool same_verdicts(const pith_status *single, const pith_status *listed, size_t count,
                          pith_status status) {
    size_t first = 0;
    FUZZ_CHECK(fuzz_is_status(status));
    if (fuzz_is_argument(status)) {
        bool met = false;
        for (size_t i = 0; i < count; i++) met = met || single[i] == status;
        FUZZ_CHECK(met);
        return false;
    }
    while (first < count && listed[first] == PITH_OK) first++;
    FUZZ_CHECK(status == (first < count ? listed[first] : PITH_OK));
    for (size_t i = 0; i < count; i++) FUZZ_CHECK(single[i] == listed[i]);
    return true;
}

/* The error of a list speaks of the lowest item that failed. */
static void check_error(const pith_work *work, pith_status status, const pith_status *listed) {
    const pith_error *e = pith_work_error(work);
    FUZZ_CHECK(fuzz_error_fits(e, status));
    if (status == PITH_OK || fuzz_is_argument(status)) return;
    FUZZ_CHECK(listed[e->item] == status);
    for (size_t i = 0; i < e->item; i++) FUZZ_CHECK(listed[i] == PITH_OK);
}

static void same_piece(const struct side *a, const struct side *b, uint64_t slot) {
    uint64_t first, count;
    FUZZ_CHECK(pith_plan_slot(a->plan, slot, &first, &count) == PITH_OK);
    for (uint64_t i = first; i < first + count; i++)
        FUZZ_CHECK(memcmp(fuzz_at(&a->out, i), fuzz_at(&b->out, i),
                          pith_dtype_bytes(a->out.view.dtype)) == 0);
}

enum { SUMMED_MAX = 40 };
struct summed {
    const void *frame[SUMMED_MAX];
    size_t length[SUMMED_MAX];
    size_t count;
    float scale;
    uint64_t slot;
};

static void side_sums(struct side *x, const struct summed *m, size_t count, pith_sum *sums) {
    for (size_t k = 0; k < count; k++)
        sums[k] = (pith_sum){.size = sizeof *sums,
                             .stream = x->end.stream,
                             .slot = m[k].slot,
                             .frames = m[k].frame,
                             .lengths = m[k].length,
                             .count = m[k].count,
                             .scale = m[k].scale,
                             .view = x->out.view,
                             .status = PITH_ERR_INTERNAL};
}

static void compare_sums(struct side *side, const struct summed *m, size_t count) {
    pith_status single[FUZZ_SLOTS_MAX], listed[FUZZ_SLOTS_MAX];
    bool done = true;
    for (int i = 0; i < VARIANTS && done; i++) {
        struct side *x = &side[i];
        pith_sum sums[FUZZ_SLOTS_MAX];
        side_sums(x, m, count, sums);
        foreign(&variants[i]);
        if (i == 0)
            for (size_t k = 0; k < count; k++) single[k] = pith_reduce(x->end.work, &sums[k], 1);
        else
            x->status = pith_reduce(x->end.work, sums, count);
        native(&variants[i]);
        for (size_t k = 0; k < count; k++) listed[k] = sums[k].status;
        if (i == 0) {
            for (size_t k = 0; k < count; k++) FUZZ_CHECK(single[k] == listed[k]);
            continue;
        }
        done = same_verdicts(single, listed, count, x->status);
        check_error(x->end.work, x->status, listed);
        for (size_t k = 0; k < count && done; k++)
            if (listed[k] == PITH_OK) same_piece(&side[0], x, m[k].slot);
        if (done) same_stream(&side[0], x);
    }
}

/* Where a sum goes: a plan of the same layout, in f32. */
struct hop {
    struct side side;
    pith_work *work; /* of both plans */
    void *memory;
    size_t work_bytes;
    pith_item item[FUZZ_SLOTS_MAX];
};

static void hop_begin(struct hop *h, const struct side *from, const struct variant *variant,
                      const char *spec) {
    const pith_stream_options options = {
        .size = sizeof options, .seed = 3, .rng_stream = 4, .step = 5};
    memset(h, 0, sizeof *h);
    struct fuzz_layout own = layout;
    snprintf(layout.spec, sizeof layout.spec, "%s", spec);
    layout.layout.dtype = PITH_F32;
    side_plan(&h->side, variant);
    layout = own;
    if (!h->side.plan) return;
    struct side *const x = &h->side;
    const pith_plan *const plans[2] = {from->plan, x->plan};
    fuzz_end_new(&x->end, x->plan, &x->env.env, &options);
    x->saved = guard_new((size_t)x->sizes.save_bytes);
    x->cap = (size_t)x->sizes.frame_bytes;
    for (int k = 0; k < FUZZ_SLOTS_MAX; k++) x->frame[k] = guard_new(x->cap);
    pith_env env = x->env.env;
    h->work_bytes = (size_t)pith_work_bytes(plans, 2, env.threads);
    h->memory = guard_new(h->work_bytes);
    pith_status status = pith_work_init(h->memory, h->work_bytes, &env, &h->work, NULL);
    if (status == PITH_ERR_UNSUPPORTED) { /* a build without OpenMP */
        env.run = fuzz_run_backwards;
        status = pith_work_init(h->memory, h->work_bytes, &env, &h->work, NULL);
    }
    FUZZ_CHECK(status == PITH_OK);
}

static void hop_end(struct hop *h) {
    struct side *const x = &h->side;
    if (x->plan) {
        for (int k = 0; k < FUZZ_SLOTS_MAX; k++) guard_free(x->frame[k], x->cap);
        guard_free(x->saved, (size_t)x->sizes.save_bytes);
        guard_free(h->memory, h->work_bytes);
        fuzz_end_free(&x->end);
    }
    pith_plan_destroy(x->plan);
    fuzz_env_done(&x->env);
}

static void hop_items(struct hop *h, const struct summed *m, size_t count) {
    for (size_t k = 0; k < count; k++)
        h->item[k] =
            (pith_item){.size = sizeof *h->item,
                        .stream = h->side.end.stream,
                        .slot = m[k].slot,
                        .frame = h->side.frame[k],
                        .capacity = (size_t)pith_plan_frame_bytes(h->side.plan, m[k].slot, 0),
                        .length = SIZE_MAX,
                        .status = PITH_ERR_INTERNAL};
}

static void compare_hops(struct side *side, const char *spec, const struct summed *m,
                         size_t count) {
    struct hop hop[VARIANTS];
    pith_status single[FUZZ_SLOTS_MAX], listed[FUZZ_SLOTS_MAX];
    bool done = true;
    for (int i = 0; i < VARIANTS; i++) {
        struct hop *h = &hop[i];
        pith_sum sums[FUZZ_SLOTS_MAX];
        hop_begin(h, &side[i], &variants[i], spec);
        FUZZ_CHECK(h->side.status == hop[0].side.status);
        if (!h->side.plan || !done) continue;
        side_sums(&side[i], m, count, sums);
        hop_items(h, m, count);
        foreign(&variants[i]);
        if (i == 0)
            for (size_t k = 0; k < count; k++)
                single[k] = pith_reduce_encode(h->work, &sums[k], &h->item[k], 1);
        else
            h->side.status = pith_reduce_encode(h->work, sums, h->item, count);
        native(&variants[i]);
        for (size_t k = 0; k < count; k++) {
            listed[k] = h->item[k].status;
            if (i == 0) FUZZ_CHECK(single[k] == listed[k]);
        }
        if (i == 0) continue;
        done = same_verdicts(single, listed, count, h->side.status);
        check_error(h->work, h->side.status, listed);
        h->side.status = hop[0].side.status;
        if (!done) continue;
        for (size_t k = 0; k < count; k++) {
            const pith_item *const a = &hop[0].item[k], *const b = &h->item[k];
            FUZZ_CHECK(a->length == b->length && (b->length == 0) == (b->status != PITH_OK));
            FUZZ_CHECK(memcmp(a->frame, b->frame, b->length) == 0);
        }
        same_stream(&side[0], &side[i]);
        same_stream(&hop[0].side, &h->side);
    }
    for (int i = 0; i < VARIANTS; i++) hop_end(&hop[i]);
}

static const char *const hops[] = {
    "raw", "grad:preset=intra,block=64,group=32", "grad:rotate=0,ef=full,bits=3,block=256",
    "grad:ef=ema:0.75,round=antithetic,sign_seed=6,scale_dtype=e8m0,block=512,group=512"};

/* frames: one that is whole and one that may be damaged, some times each. */
static void compare_reductions(struct side *side, uint64_t slot, const uint8_t *const frames[2],
                               size_t length, struct fuzz_source *s) {
    struct summed m = {.count = 1u + fuzz_below(s, SUMMED_MAX), .slot = slot};
    const uint8_t how = fuzz_u8(s);
    if (how & 0xC0) m.count = 1 + m.count % 4;
    m.scale = how & 1 ? 1.0f : 1.0f / (float)m.count;
    for (size_t i = 0; i < m.count; i++) {
        m.frame[i] = frames[how & 2 ? i % 2 : 0];
        m.length[i] = length;
    }
    compare_sums(side, &m, 1);
    const uint32_t kind = (how >> 2) % 5;
    compare_hops(side, kind < 4 ? hops[kind] : layout.spec, &m, 1);
}

/* ---- Lists -----------------------------------------------------------------------------------*/

struct list {
    uint64_t slot[FUZZ_SLOTS_MAX];
    size_t count;
    uint8_t *frame[FUZZ_SLOTS_MAX]; /* to be decoded: of the first variant, some of them damaged */
    size_t length[FUZZ_SLOTS_MAX];
};

static void side_items(struct side *x, const struct list *l, bool decode, pith_item *items) {
    for (size_t k = 0; k < l->count; k++)
        items[k] = (pith_item){.size = sizeof *items,
                               .stream = x->end.stream,
                               .slot = l->slot[k],
                               .view = decode ? x->out.view : value.view,
                               .frame = decode ? l->frame[k] : x->frame[k],
                               .capacity = decode ? 0 : x->cap,
                               .length = decode ? l->length[k] : 0,
                               .status = PITH_ERR_INTERNAL};
}

/* False where a list was not worked on. */
static bool compare_encoded(struct side *side, struct list *l, uint32_t flags) {
    pith_item first[FUZZ_SLOTS_MAX], items[FUZZ_SLOTS_MAX];
    pith_status single[FUZZ_SLOTS_MAX], listed[FUZZ_SLOTS_MAX];
    for (int i = 0; i < VARIANTS; i++) {
        struct side *x = &side[i];
        side_rewind(x);
        side_items(x, l, false, i ? items : first);
        if (i == 0) {
            for (size_t k = 0; k < l->count; k++) {
                single[k] = fuzz_encode(x->end.work, x->end.stream, l->slot[k], &value.view, flags,
                                        first[k].frame, x->cap, &first[k].length);
                l->length[k] = first[k].length;
            }
            continue;
        }
        foreign(&variants[i]);
        x->status = pith_encode(x->end.work, items, l->count, flags);
        native(&variants[i]);
        for (size_t k = 0; k < l->count; k++) listed[k] = items[k].status;
        if (!same_verdicts(single, listed, l->count, x->status)) return false;
        check_error(x->end.work, x->status, listed);
        for (size_t k = 0; k < l->count; k++) {
            FUZZ_CHECK(first[k].length == items[k].length);
            FUZZ_CHECK(memcmp(first[k].frame, items[k].frame, items[k].length) == 0);
        }
        if (x->status == PITH_OK) same_stream(&side[0], x);
    }
    return side[1].status == PITH_OK;
}

/* What is refused before anything is written leaves a stream that can be compared. */
static bool is_whole(pith_status status) {
    return status == PITH_OK || status == PITH_ERR_BASE || status == PITH_ERR_STEP ||
           status == PITH_ERR_MISMATCH;
}

static void compare_decoded(struct side *side, const struct list *l) {
    pith_item items[FUZZ_SLOTS_MAX];
    pith_status single[FUZZ_SLOTS_MAX], listed[FUZZ_SLOTS_MAX];
    bool whole = true;
    for (int i = 0; i < VARIANTS; i++) {
        struct side *x = &side[i];
        side_rewind(x);
        side_items(x, l, true, items);
        if (i == 0) {
            for (size_t k = 0; k < l->count; k++) {
                single[k] = fuzz_decode(x->end.work, x->end.stream, l->slot[k], l->frame[k],
                                        l->length[k], &x->out.view, 0);
                whole = whole && is_whole(single[k]);
            }
            continue;
        }
        foreign(&variants[i]);
        x->status = pith_decode(x->end.work, items, l->count, 0);
        native(&variants[i]);
        for (size_t k = 0; k < l->count; k++) listed[k] = items[k].status;
        if (!same_verdicts(single, listed, l->count, x->status)) return;
        check_error(x->end.work, x->status, listed);
        for (size_t k = 0; k < l->count; k++)
            if (listed[k] == PITH_OK) same_piece(&side[0], x, l->slot[k]);
        if (whole) same_stream(&side[0], x);
    }
}

/* Some slots in one call; frames that are refused keep no other from being decoded or summed. */
static void compare_lists(struct side *side, struct fuzz_source *s) {
    struct list l = {.count = 0};
    struct summed m[FUZZ_SLOTS_MAX];
    const uint8_t mask = fuzz_u8(s), how = fuzz_u8(s);
    for (uint64_t k = 0; k < side[0].sizes.slots; k++) {
        const uint64_t slot = how & 0x80 ? side[0].sizes.slots - 1 - k : k;
        if (mask >> slot & 1) l.slot[l.count++] = slot;
    }
    const bool key = side[0].sizes.key_bytes && (how & 7) == 7;
    if (!compare_encoded(side, &l, key ? PITH_KEY_FRAME : 0)) return;
    for (size_t k = 0; k < l.count; k++) {
        l.frame[k] = guard_copy(side[0].frame[k], l.length[k]);
        const uint8_t damage = fuzz_u8(s);
        if (damage & 3) continue;
        fuzz_patch(l.frame[k], l.length[k], s);
        if (damage & 4) fuzz_fix_frame(l.frame[k], l.length[k]);
    }
    compare_decoded(side, &l);
    rewind_bases(side);
    for (size_t k = 0; k < l.count; k++) {
        m[k] = (struct summed){.count = 2, .scale = (float)(how >> 6 & 1), .slot = l.slot[k]};
        for (size_t i = 0; i < 2; i++) {
            m[k].frame[i] = l.frame[k];
            m[k].length[i] = l.length[k];
        }
    }
    compare_sums(side, m, l.count);
    compare_hops(side, how >> 3 & 4 ? layout.spec : hops[how >> 3 & 3], m, l.count);
    for (size_t k = 0; k < l.count; k++) guard_free(l.frame[k], l.length[k]);
}

static void compare(struct side *side, struct fuzz_source *payload, struct fuzz_source *s) {
    const uint64_t slot = fuzz_below(s, (uint32_t)side[0].sizes.slots);
    const uint8_t how = fuzz_u8(s);
    const bool key = side[0].sizes.key_bytes && (how & 7) == 7;
    compare_encoders(side, slot, key);
    if (side[0].status != PITH_OK) return;
    const size_t length = side[0].length;
    uint8_t *frame = guard_copy(side[0].frame[0], length);
    pith_info info = {.size = sizeof info};
    FUZZ_CHECK(pith_inspect(frame, length, &info, NULL) == PITH_OK);
    if (how & 8) { /* the input as the payload */
        const size_t capacity = length - (size_t)info.header_bytes;
        const size_t n = payload->length < capacity ? payload->length : capacity;
        if (n) memcpy(frame + info.header_bytes, payload->bytes, n);
    }
    if (how & 16) fuzz_patch(frame, length, s);
    if (how & 32) fuzz_patch(frame + info.header_bytes, length - (size_t)info.header_bytes, s);
    if (how & 64) fuzz_fix_frame(frame, length);
    compare_decoders(side, slot, frame, length);
    rewind_bases(side);
    uint8_t *whole = guard_copy(side[0].frame[0], length);
    compare_reductions(side, slot, (const uint8_t *const[2]){whole, frame}, length, s);
    compare_lists(side, s);
    guard_free(whole, length);
    guard_free(frame, length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source payload = {data, size}, s = fuzz_split(&payload, PARAMETER_BYTES);
    struct fuzz_source none = {NULL, 0};
    struct side side[VARIANTS];
    memset(side, 0, sizeof side);
    setenv("OMP_WAIT_POLICY", "passive", 0); /* or idle threads would take the cores */
    fuzz_draw_layout(&layout, &s);
    const pith_layout *l = &layout.layout;
    for (int i = 0; i < VARIANTS; i++) {
        side_plan(&side[i], &variants[i]);
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
        for (int i = 0; i < VARIANTS; i++) {
            struct fuzz_source again = same;
            side_begin(&side[i], size % 3, value.count, &again);
        }
        compare(side, &payload, &s);
        fuzz_tensor_free(&value);
        fuzz_tensor_free(&base);
    }
    for (int i = 0; i < VARIANTS; i++) side_end(&side[i]);
    return 0;
}
