/* fuzz_decode.c - any bytes to every call that takes frames; all ways to decode must agree.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "fuzz.h"

/* Behind the frame. */
enum { PARAMETER_BYTES = 24 };

struct subject {
    const uint8_t *frame;
    size_t length;
    pith_info info;
    bool readable; /* pith_inspect accepted the header */
    uint64_t count;
    uint32_t dtype;
    struct fuzz_env env;
    struct fuzz_tensor base, whole;
    pith_status status; /* of pith_decompress with everything right */
};

static uint64_t flat_count(const struct subject *x, struct fuzz_source *s) {
    const bool small = x->readable && x->info.raw_bytes <= FUZZ_OUTPUT_LIMIT;
    return small ? x->info.count : fuzz_below(s, 100);
}

static void check_verdict(struct subject *x) {
    pith_error error;
    double bound = -1;
    const pith_status bounded = pith_error_bound(x->frame, x->length, &bound, &error);
    FUZZ_CHECK(fuzz_is_status(bounded));
    if (bounded == PITH_OK) FUZZ_CHECK(isnan(bound) || bound >= 0);
    const pith_status verified = pith_verify(x->frame, x->length, &x->env.env, &error);
    FUZZ_CHECK(fuzz_is_status(verified));
    fuzz_env_done(&x->env);
    if (!x->readable) FUZZ_CHECK(verified != PITH_OK && bounded != PITH_OK);
    if (verified == PITH_OK) FUZZ_CHECK(x->length >= x->info.frame_bytes);
    if (x->env.fail_at || !x->readable || x->info.raw_bytes > FUZZ_OUTPUT_LIMIT) return;
    if (verified == PITH_OK) FUZZ_CHECK(x->status == PITH_OK || x->status == PITH_ERR_BASE);
    if (x->status == PITH_OK) FUZZ_CHECK(verified == PITH_OK);
}

static const pith_view *base_of(const struct subject *x) {
    return x->base.view.dtype ? &x->base.view : NULL;
}

/* The right view, or with `wrong` something else. */
static void decompress(struct subject *x, struct fuzz_source *s, bool wrong) {
    struct fuzz_tensor t;
    pith_error error;
    const uint64_t count = wrong ? fuzz_below(s, 50) : x->count;
    const uint32_t dtype = wrong ? fuzz_below(s, 17) : x->dtype;
    fuzz_tensor_new(&t, s, false, dtype, 1, &count);
    const pith_view *base = wrong && fuzz_u8(s) & 1 ? NULL : base_of(x);
    const pith_status status =
        pith_decompress(x->frame, x->length, base, &x->env.env, &t.view, &error);
    FUZZ_CHECK(fuzz_is_status(status) && error.text);
    fuzz_env_done(&x->env);
    x->env.allocations = 0;
    if (wrong) {
        fuzz_tensor_free(&t);
        return;
    }
    x->status = status;
    x->whole = t;
}

static void decode_range(struct subject *x, struct fuzz_source *s) {
    struct fuzz_tensor t;
    pith_error error;
    const uint64_t first = fuzz_below(s, (uint32_t)x->count + 2);
    const uint64_t count = fuzz_below(s, (uint32_t)x->count + 2);
    fuzz_tensor_new(&t, s, false, x->dtype, 1, &count);
    const pith_status status =
        pith_decode_range(x->frame, x->length, base_of(x), first, &x->env.env, &t.view, &error);
    FUZZ_CHECK(fuzz_is_status(status) && error.text);
    fuzz_env_done(&x->env);
    x->env.allocations = 0;
    const bool inside = first <= x->count && count <= x->count - first;
    if (x->status == PITH_OK && inside && !x->env.fail_at) {
        FUZZ_CHECK(status == PITH_OK);
        for (uint64_t i = 0; i < count; i++)
            FUZZ_CHECK(memcmp(fuzz_at(&t, i), fuzz_at(&x->whole, first + i),
                              pith_dtype_bytes(x->dtype)) == 0);
    }
    if (!inside) FUZZ_CHECK(status != PITH_OK);
    fuzz_tensor_free(&t);
}

/* ---- With a plan made from what the header says ----------------------------------------------*/

/* As the state's next frame: the same result as without a state. */
static void decode_with_state(struct subject *x, pith_plan *plan, struct fuzz_source *s) {
    struct fuzz_tensor t;
    pith_sizes sizes;
    pith_state *state = NULL;
    pith_plan_sizes(plan, &sizes);
    void *memory = guard_new((size_t)sizes.state_bytes);
    if (sizes.state_bytes) {
        FUZZ_CHECK(pith_state_init(plan, memory, (size_t)sizes.state_bytes, &state) == PITH_OK);
        FUZZ_CHECK(pith_state_set_base(plan, state, &x->base.view, x->info.step) == PITH_OK);
    }
    fuzz_tensor_new(&t, s, false, x->dtype, 1, &x->count);
    const pith_status status = pith_decode(plan, state, 0, x->frame, x->length, &t.view);
    FUZZ_CHECK(status == x->status || (status == PITH_ERR_DTYPE && x->status < 0));
    if (status == PITH_OK) {
        FUZZ_CHECK(fuzz_same(&t, &x->whole));
        if (state) FUZZ_CHECK(fuzz_state_holds(plan, state));
    } else if (state && status == PITH_ERR_BASE) {
        FUZZ_CHECK(pith_state_step(state, 0) == x->info.step);
    }
    fuzz_tensor_free(&t);
    guard_free(memory, (size_t)sizes.state_bytes);
}

static void decode_in_place(struct subject *x, pith_plan *plan, struct fuzz_source *s) {
    struct fuzz_tensor t;
    const uint32_t dtype = x->info.base_dtype ? x->info.base_dtype : x->dtype;
    fuzz_tensor_new(&t, s, false, dtype, 1, &x->count);
    for (uint64_t i = 0; i < x->count; i++) {
        if (x->info.base_dtype)
            memcpy(fuzz_at(&t, i), fuzz_at(&x->base, i), pith_dtype_bytes(dtype));
        else
            memset(fuzz_at(&t, i), 0, pith_dtype_bytes(dtype));
    }
    const pith_status status = pith_decode_add(plan, 0, x->frame, x->length, &t.view);
    FUZZ_CHECK(fuzz_is_status(status));
    if (x->info.base_dtype) FUZZ_CHECK(status == x->status || status == PITH_ERR_UNSUPPORTED);
    if (status == PITH_OK && dtype == x->dtype && x->info.base_dtype)
        FUZZ_CHECK(fuzz_same(&t, &x->whole));
    fuzz_tensor_free(&t);
}

static void reduce(struct subject *x, pith_plan *plan, struct fuzz_source *s) {
    struct fuzz_tensor t;
    const void *frames[3] = {x->frame, x->frame, x->frame};
    const size_t lengths[3] = {x->length, x->length, x->length};
    fuzz_tensor_new(&t, s, false, 1u + fuzz_below(s, 3), 1, &x->count);
    const pith_status status =
        pith_reduce(plan, NULL, 0, frames, lengths, 1u + fuzz_below(s, 3), 0.5f, &t.view);
    FUZZ_CHECK(fuzz_is_status(status));
    if (status == PITH_OK) FUZZ_CHECK(x->status == PITH_OK);
    fuzz_tensor_free(&t);
}

static void with_plan(struct subject *x, struct fuzz_source *s) {
    pith_plan *plan;
    pith_error error;
    pith_layout layout = {.size = sizeof layout,
                          .dtype = x->info.dtype,
                          .base_dtype = x->info.base_dtype,
                          .ndim = x->info.ndim,
                          .flags = x->info.has_checksums ? PITH_LAYOUT_CHECKSUMS : 0};
    memcpy(layout.shape, x->info.shape, sizeof layout.shape);
    const pith_status status = pith_plan_create(&plan, x->info.spec, &layout, &x->env.env, &error);
    FUZZ_CHECK(status == PITH_OK || status == PITH_ERR_MEMORY);
    if (!plan) return;
    const uint32_t made = x->env.allocations;
    decode_with_state(x, plan, s);
    decode_in_place(x, plan, s);
    reduce(x, plan, s);
    FUZZ_CHECK(x->env.allocations == made);
    pith_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source input = {data, size}, s = fuzz_split(&input, PARAMETER_BYTES);
    struct subject x = {.length = input.length};
    fuzz_env_draw(&x.env, &s);
    const uint8_t how = fuzz_u8(&s);
    uint8_t *frame = guard_copy(input.bytes, input.length);
    x.frame = frame;
    x.readable = pith_inspect(frame, x.length, &x.info, NULL) == PITH_OK;
    x.count = flat_count(&x, &s);
    x.dtype = x.readable ? x.info.dtype : PITH_F32;
    fuzz_tensor_new(&x.base, &s, how & 1, x.readable ? x.info.base_dtype : PITH_NONE, 1, &x.count);
    if (x.base.bytes) memset(x.base.memory, 0, x.base.bytes);
    if (how & 2 && x.base.bytes <= 65536) fuzz_fill(&x.base, &s);
    decompress(&x, &s, false);
    check_verdict(&x);
    decompress(&x, &s, true);
    decode_range(&x, &s);
    const bool small = x.readable && x.info.raw_bytes <= FUZZ_OUTPUT_LIMIT;
    if (small && !x.env.fail_at) with_plan(&x, &s);
    fuzz_env_done(&x.env);
    fuzz_tensor_free(&x.whole);
    fuzz_tensor_free(&x.base);
    guard_free(frame, x.length);
    return 0;
}
