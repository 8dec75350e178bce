/* fuzz_state.c - any bytes to pith_state_load, and any order of calls on two states.
 * SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "fuzz.h"

enum { PARAMETER_BYTES = 128, FRAMES = 4, CALLS_MAX = 24 };

struct scene {
    struct fuzz_layout layout;
    struct fuzz_env env;
    pith_plan *plan;
    pith_sizes sizes;
    void *memory[2];
    pith_state *state[2];
    uint8_t *external[2];
    uint64_t external_bytes;
    uint8_t *frame[FRAMES]; /* the last ones made */
    size_t length[FRAMES], cap, made;
    uint8_t *saved, *again;
    struct fuzz_tensor value, out;
    bool based;
};

static void save(struct scene *x, int i, uint8_t *dst) {
    size_t written = 0;
    const size_t cap = (size_t)x->sizes.save_bytes;
    FUZZ_CHECK(pith_state_save(x->plan, x->state[i], dst, cap, &written) == PITH_OK);
    FUZZ_CHECK(written == cap);
}

/* A state that accepts bytes is what they say; one that refuses them is what it was. */
static void load(struct scene *x, int i, const uint8_t *bytes, size_t length) {
    const size_t whole = (size_t)x->sizes.save_bytes;
    uint8_t *copy = guard_copy(bytes, length);
    uint8_t *before = guard_new(whole);
    save(x, i, before);
    const pith_status status = pith_state_load(x->plan, x->state[i], copy, length);
    FUZZ_CHECK(fuzz_is_status(status));
    save(x, i, x->again);
    if (status == PITH_OK) {
        FUZZ_CHECK(length >= whole && memcmp(x->again, copy, whole) == 0);
        FUZZ_CHECK(fuzz_state_holds(x->plan, x->state[i]));
    } else {
        FUZZ_CHECK(memcmp(x->again, before, whole) == 0);
    }
    guard_free(before, whole);
    guard_free(copy, length);
}

/* Saved by the other state, damaged, its checksum right or not. */
static void load_patched(struct scene *x, int i, struct fuzz_source *s) {
    const size_t whole = (size_t)x->sizes.save_bytes;
    const uint8_t how = fuzz_u8(s);
    save(x, !i, x->saved);
    if (how & 3) fuzz_patch(x->saved, whole, s);
    if (how & 4) {
        uint64_t hash = XXH64(x->saved, whole - 8, 0);
        for (size_t k = 0; k < 8; k++, hash >>= 8) x->saved[whole - 8 + k] = (uint8_t)hash;
    }
    load(x, i, x->saved, how & 8 ? fuzz_u32(s) % (whole + 1) : whole);
}

static void encode(struct scene *x, int i, uint64_t slot, bool key) {
    const size_t at = x->made % FRAMES;
    const pith_status status = key ? pith_encode_key(x->plan, x->state[i], &x->value.view, slot,
                                                     x->frame[at], x->cap, &x->length[at])
                                   : pith_encode(x->plan, x->state[i], &x->value.view, slot,
                                                 x->frame[at], x->cap, &x->length[at]);
    FUZZ_CHECK(status == PITH_OK);
    x->made++;
}

/* Encoding changes one slot's residual; taking it back restores it, once. */
static void encode_and_skip(struct scene *x, int i, uint64_t slot, uint64_t step) {
    const size_t residual = 72 + 16 * (size_t)x->sizes.slots;
    const size_t bytes = (size_t)x->sizes.save_bytes - residual - 8;
    if (x->based) {
        FUZZ_CHECK(pith_state_rollback(x->plan, x->state[i], step) == PITH_ERR_STATE);
        return;
    }
    if (x->layout.traits & PITH_TRAIT_BOUND) return; /* what encodes leave in it is not lost */
    /* Other slots whose last encode was of this step would go back too. */
    for (uint64_t k = 0; k < x->sizes.slots; k++)
        if (pith_state_step(x->state[i], k) == step + 1) return;
    pith_plan_set_random(x->plan, 1, 2, step);
    save(x, i, x->saved);
    encode(x, i, slot, false);
    for (int n = 0; n < 2; n++) {
        FUZZ_CHECK(pith_state_rollback(x->plan, x->state[i], step) == PITH_OK);
        save(x, i, x->again);
        FUZZ_CHECK(memcmp(x->saved + residual, x->again + residual, bytes) == 0);
    }
}

/* What a data error before the first write leaves behind is the same state. */
static void decode(struct scene *x, int i, uint64_t slot, struct fuzz_source *s) {
    const uint8_t how = fuzz_u8(s);
    const size_t at = how % FRAMES, length = x->length[at];
    uint8_t *frame = guard_copy(x->frame[at], length);
    if (how & 0x80) {
        fuzz_patch(frame, length, s);
        fuzz_fix_frame(frame, length);
    }
    save(x, i, x->saved);
    const pith_view *view = x->based ? NULL : &x->out.view;
    const pith_status status = pith_decode(x->plan, x->state[i], slot, frame, length, view);
    FUZZ_CHECK(fuzz_is_status(status));
    if (status == PITH_ERR_BASE || status == PITH_ERR_STEP || status == PITH_ERR_MISMATCH) {
        save(x, i, x->again);
        FUZZ_CHECK(memcmp(x->saved, x->again, (size_t)x->sizes.save_bytes) == 0);
    }
    if (status == PITH_OK) FUZZ_CHECK(fuzz_state_holds(x->plan, x->state[i]));
    if (status != PITH_OK && status > PITH_ERR_BASE)
        FUZZ_CHECK(pith_state_reset(x->plan, x->state[i]) == PITH_OK);
    guard_free(frame, length);
}

/* Bounds of a slot, of which some are none. */
static void adapt(struct scene *x, int i, uint64_t slot, struct fuzz_source *s) {
    double bound = 0, set;
    uint64_t bits = (uint64_t)fuzz_u32(s) << 32 | fuzz_u32(s);
    memcpy(&set, &bits, sizeof set);
    const bool takes = x->layout.traits & PITH_TRAIT_BOUND, number = set >= 0 && set < INFINITY;
    const pith_status want = !takes ? PITH_ERR_UNSUPPORTED : number ? PITH_OK : PITH_ERR_ARG;
    const pith_budget budget = {.size = sizeof budget,
                                .momentum = set,
                                .gradient = (double)fuzz_u8(s),
                                .samples = (double)fuzz_u8(s),
                                .positions = (double)fuzz_u8(s),
                                .largest = (double)fuzz_u8(s)};
    FUZZ_CHECK(pith_state_set_bound(x->plan, x->state[i], slot, set) == want);
    if (want == PITH_OK) FUZZ_CHECK(pith_state_bound(x->state[i], slot) == set);
    FUZZ_CHECK(pith_state_adapt(x->plan, x->state[i], slot, &budget, &bound) == want);
    FUZZ_CHECK(want != PITH_OK || (bound >= 0 && bound < INFINITY));
}

static void one_call(struct scene *x, struct fuzz_source *s) {
    const uint8_t how = fuzz_u8(s);
    const int i = how >> 7;
    const uint64_t slot = (how >> 4 & 7) % x->sizes.slots;
    switch (how & 15) {
    case 0: FUZZ_CHECK(pith_state_reset(x->plan, x->state[i]) == PITH_OK); break;
    case 1:
        FUZZ_CHECK(pith_state_set_base(x->plan, x->state[i], &x->value.view, fuzz_u32(s)) ==
                   (x->based ? PITH_OK : PITH_ERR_STATE));
        break;
    case 2: pith_state_set_random(x->state[i], fuzz_u32(s), fuzz_u32(s)); break;
    case 3:
    case 4: load_patched(x, i, s); break;
    case 5:
    case 6:
    case 7: encode(x, i, slot, (how & 15) == 5 && x->sizes.key_bytes); break;
    case 8: fuzz_fill(&x->value, s); break;
    case 9: encode_and_skip(x, i, slot, fuzz_u8(s)); break;
    case 10:
        FUZZ_CHECK(pith_state_rollback(x->plan, x->state[i], fuzz_u8(s)) ==
                   (x->based ? PITH_ERR_STATE : PITH_OK));
        break;
    case 11: pith_plan_set_random(x->plan, fuzz_u8(s), fuzz_u8(s), fuzz_u8(s) & 7); break;
    case 12: adapt(x, i, slot, s); break;
    default: decode(x, i, slot, s); break;
    }
}

static void state_begin(struct scene *x, int i) {
    const size_t bytes = (size_t)x->sizes.state_bytes;
    x->memory[i] = guard_new(bytes);
    x->external[i] = guard_new((size_t)x->external_bytes);
    FUZZ_CHECK(pith_state_init(x->plan, x->memory[i], bytes, &x->state[i]) == PITH_OK);
    if (!(x->layout.layout.flags & PITH_LAYOUT_EXTERNAL_BASE)) return;
    if (x->external_bytes) memset(x->external[i], 0, (size_t)x->external_bytes);
    FUZZ_CHECK(pith_state_bind_base(x->plan, x->state[i], x->external[i], 0) == PITH_OK);
}

static void play(struct scene *x, struct fuzz_source *bytes, struct fuzz_source *s) {
    const pith_layout *l = &x->layout.layout;
    fuzz_tensor_new(&x->value, s, false, l->dtype, l->ndim, l->shape);
    fuzz_fill(&x->value, s);
    x->based = l->base_dtype != PITH_NONE;
    fuzz_tensor_new(&x->out, s, true, l->dtype, 1, &x->layout.count);
    x->external_bytes = x->layout.count * pith_dtype_bytes(l->base_dtype);
    x->saved = guard_new((size_t)x->sizes.save_bytes);
    x->again = guard_new((size_t)x->sizes.save_bytes);
    x->cap = (size_t)(x->sizes.slot_bytes > x->sizes.key_bytes ? x->sizes.slot_bytes
                                                               : x->sizes.key_bytes);
    for (size_t i = 0; i < FRAMES; i++) x->frame[i] = guard_new(x->cap);
    for (int i = 0; i < 2; i++) state_begin(x, i);
    load(x, 0, bytes->bytes, bytes->length);
    for (int n = 0; n < CALLS_MAX && s->length; n++) one_call(x, s);
    for (int i = 0; i < 2; i++) {
        guard_free(x->memory[i], (size_t)x->sizes.state_bytes);
        guard_free(x->external[i], (size_t)x->external_bytes);
    }
    for (size_t i = 0; i < FRAMES; i++) guard_free(x->frame[i], x->cap);
    guard_free(x->saved, (size_t)x->sizes.save_bytes);
    guard_free(x->again, (size_t)x->sizes.save_bytes);
    fuzz_tensor_free(&x->value);
    fuzz_tensor_free(&x->out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source bytes = {data, size}, s = fuzz_split(&bytes, PARAMETER_BYTES);
    struct scene x = {.made = 0};
    fuzz_env_init(&x.env);
    fuzz_draw_layout(&x.layout, &s);
    if (x.layout.layout.base_dtype && fuzz_u8(&s) & 1)
        x.layout.layout.flags |= PITH_LAYOUT_EXTERNAL_BASE;
    const pith_status status =
        pith_plan_create(&x.plan, x.layout.spec, &x.layout.layout, &x.env.env, NULL);
    FUZZ_CHECK((status == PITH_OK) == (x.plan != NULL));
    if (x.plan) {
        pith_plan_sizes(x.plan, &x.sizes);
        if (x.sizes.state_bytes) play(&x, &bytes, &s);
    }
    pith_plan_destroy(x.plan);
    fuzz_env_done(&x.env);
    return 0;
}
