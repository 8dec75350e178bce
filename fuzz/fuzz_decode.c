/* fuzz_decode.c - any bytes to every call that takes frames; all calls that decode must agree.
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

/* Whether the frame is of a codec that sends some elements. */
static bool is_sparse(const struct subject *x) {
    pith_codec_info codec = {.size = sizeof codec};
    for (uint32_t i = 0; pith_codec_at(i, &codec) == PITH_OK; i++)
        if (strcmp(codec.name, x->info.codec_name) == 0) return codec.traits & PITH_TRAIT_SPARSE;
    return false;
}

static void check_verdict(struct subject *x) {
    pith_error error = {.size = sizeof error};
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
    /* A frame is sound without the base that decoding takes, a sparse one without the held set. */
    const bool needs_set = x->status == PITH_ERR_STATE && is_sparse(x);
    if (verified == PITH_OK)
        FUZZ_CHECK(x->status == PITH_OK || x->status == PITH_ERR_BASE || needs_set);
    if (x->status == PITH_OK) FUZZ_CHECK(verified == PITH_OK);
}

static const pith_view *base_of(const struct subject *x) {
    return x->base.view.dtype ? &x->base.view : NULL;
}

/* The right view, or with `wrong` something else. */
static void decompress(struct subject *x, struct fuzz_source *s, bool wrong) {
    struct fuzz_tensor t;
    pith_error error = {.size = sizeof error};
    const uint64_t count = wrong ? fuzz_below(s, 50) : x->count;
    const uint32_t dtype = wrong ? fuzz_below(s, 17) : x->dtype;
    fuzz_tensor_new(&t, s, false, dtype, 1, &count);
    const pith_view *base = wrong && fuzz_u8(s) & 1 ? NULL : base_of(x);
    const pith_status status =
        pith_decompress(x->frame, x->length, base, &x->env.env, &t.view, &error);
    FUZZ_CHECK(fuzz_is_status(status) && fuzz_error_fits(&error, status));
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
    pith_error error = {.size = sizeof error};
    const uint64_t first = fuzz_below(s, (uint32_t)x->count + 2);
    const uint64_t count = fuzz_below(s, (uint32_t)x->count + 2);
    fuzz_tensor_new(&t, s, false, x->dtype, 1, &count);
    const pith_status status =
        pith_decode_range(x->frame, x->length, base_of(x), first, &x->env.env, &t.view, &error);
    FUZZ_CHECK(fuzz_is_status(status) && fuzz_error_fits(&error, status));
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

/* As the stream's next frame: the same result as without a stream. */
static void decode_with_stream(struct subject *x, const pith_plan *plan, uint64_t slot,
                               struct fuzz_source *s) {
    struct fuzz_tensor t;
    struct fuzz_end end;
    fuzz_end_new(&end, plan, &x->env.env, NULL);
    if (x->info.base_dtype)
        FUZZ_CHECK(pith_stream_set_base(end.work, end.stream, &x->base.view, x->info.step) ==
                   PITH_OK);
    fuzz_tensor_new(&t, s, false, x->dtype, 1, &x->count);
    const pith_status status =
        fuzz_decode(end.work, end.stream, slot, x->frame, x->length, &t.view, 0);
    FUZZ_CHECK(status == x->status || (status == PITH_ERR_DTYPE && x->status < 0));
    if (status == PITH_OK) {
        FUZZ_CHECK(fuzz_same(&t, &x->whole));
        FUZZ_CHECK(fuzz_stream_holds(end.work, end.stream));
    } else if (status == PITH_ERR_BASE) {
        FUZZ_CHECK(pith_stream_step(end.stream, 0) == x->info.step);
    }
    fuzz_tensor_free(&t);
    fuzz_end_free(&end);
}

/* The stream says what is expected; its own base is another, and stays. */
static void decode_in_place(struct subject *x, const pith_plan *plan, uint64_t slot,
                            struct fuzz_source *s) {
    struct fuzz_tensor t;
    struct fuzz_end end;
    fuzz_end_new(&end, plan, &x->env.env, NULL);
    const uint32_t dtype = x->info.base_dtype ? x->info.base_dtype : x->dtype;
    fuzz_tensor_new(&t, s, false, dtype, 1, &x->count);
    for (uint64_t i = 0; i < x->count; i++) {
        if (x->info.base_dtype)
            memcpy(fuzz_at(&t, i), fuzz_at(&x->base, i), pith_dtype_bytes(dtype));
        else
            memset(fuzz_at(&t, i), 0, pith_dtype_bytes(dtype));
    }
    const pith_status status =
        fuzz_decode(end.work, end.stream, slot, x->frame, x->length, &t.view, PITH_ADD);
    if (x->info.base_dtype) FUZZ_CHECK(status == x->status || status == PITH_ERR_UNSUPPORTED);
    if (status == PITH_OK && dtype == x->dtype && x->info.base_dtype)
        FUZZ_CHECK(fuzz_same(&t, &x->whole));
    FUZZ_CHECK(pith_stream_step(end.stream, slot) == 0);
    FUZZ_CHECK(fuzz_stream_holds(end.work, end.stream));
    fuzz_tensor_free(&t);
    fuzz_end_free(&end);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

static void check_raw_sum(const struct subject *x, const uint8_t *frame, size_t length,
                          const struct fuzz_tensor *sum) {
    struct fuzz_source none = {NULL, 0};
    struct fuzz_tensor t;
    fuzz_tensor_new(&t, &none, true, PITH_F32, 1, &x->count);
    FUZZ_CHECK(pith_decompress(frame, length, NULL, NULL, &t.view, NULL) == PITH_OK);
    FUZZ_CHECK(fuzz_same(&t, sum));
    fuzz_tensor_free(&t);
}

/* Out of the saved stream, which has one for all elements: FORMAT.md, Saved streams. */
static void check_residual(const struct fuzz_end *end, uint64_t count) {
    size_t written;
    pith_sizes sizes = {.size = sizeof sizes};
    FUZZ_CHECK(pith_plan_sizes(pith_stream_plan(end->stream), &sizes) == PITH_OK);
    const size_t bytes = (size_t)sizes.save_bytes;
    uint8_t *saved = guard_new(bytes), *at = saved + 72 + 16 * sizes.slots;
    FUZZ_CHECK(pith_stream_save(end->work, end->stream, saved, bytes, &written) == PITH_OK);
    FUZZ_CHECK(bytes >= 80 + 16 * sizes.slots + 4 * count);
    for (; at < saved + bytes - 8; at += 4) {
        float lost;
        memcpy(&lost, at, 4);
        FUZZ_CHECK(isfinite(lost));
    }
    guard_free(saved, bytes);
}

struct summed {
    const void *frame[3];
    size_t length[3];
    pith_sum sum;
    const struct fuzz_tensor *values; /* of the sum in f32; NULL where it is refused */
};

/* Encoded again: refused where the sum is, and of pages; the residual stays finite. */
static void reduce_again(struct subject *x, struct fuzz_end *end, const pith_layout *layout,
                         const char *spec, const struct summed *m) {
    struct fuzz_env env;
    struct fuzz_end out;
    const pith_plan *plan;
    pith_layout own = *layout;
    pith_error error = {.size = sizeof error};
    own.dtype = PITH_F32;
    own.base_dtype = PITH_NONE;
    fuzz_env_init(&env);
    if (pith_plan_create(&plan, spec, &own, &env.env, &error) != PITH_OK) return;
    fuzz_end_new(&out, plan, &env.env, NULL);
    const size_t cap = (size_t)pith_plan_frame_bytes(plan, m->sum.slot, 0);
    const pith_plan *const plans[2] = {pith_stream_plan(end->stream), plan};
    const size_t work_bytes = (size_t)pith_work_bytes(plans, 2, x->env.env.threads);
    uint8_t *frame = guard_new(cap), *memory = guard_new(work_bytes);
    pith_work *work;
    FUZZ_CHECK(pith_work_init(memory, work_bytes, &x->env.env, &work, &error) == PITH_OK);
    pith_item item = {.size = sizeof item,
                      .stream = out.stream,
                      .slot = m->sum.slot,
                      .frame = frame,
                      .capacity = cap};
    const pith_status status = pith_reduce_encode(work, &m->sum, &item, 1);
    const bool paged = strcmp(x->info.codec_name, "kv") == 0;
    FUZZ_CHECK((status == PITH_OK) == (m->values && !paged) && status == item.status);
    (void)fuzz_list_done(work, &item, 1, status);
    if (status == PITH_OK) {
        pith_sizes sizes = {.size = sizeof sizes};
        FUZZ_CHECK(pith_plan_sizes(plan, &sizes) == PITH_OK);
        FUZZ_CHECK(sizes.fixed ? item.length == cap : item.length <= cap);
        FUZZ_CHECK(pith_verify(frame, item.length, NULL, NULL) == PITH_OK);
        FUZZ_CHECK(pith_stream_step(out.stream, m->sum.slot) == 1);
        if (strcmp(spec, "raw") == 0) check_raw_sum(x, frame, cap, m->values);
        if (strstr(spec, "ef=")) check_residual(&out, x->count);
    }
    fuzz_end_free(&out);
    pith_plan_destroy(plan);
    guard_free(frame, cap);
    guard_free(memory, work_bytes);
    fuzz_env_done(&env);
}

static void reduce(struct subject *x, const pith_plan *plan, const pith_layout *layout,
                   uint64_t slot, struct fuzz_source *s) {
    static const char *const specs[] = {"raw", "grad:preset=intra",
                                        "grad:group=32,rotate=0,block=32",
                                        "grad:ef=full,group=256,rotate=256,sign_seed=3,block=256",
                                        "grad:ef=ema:0.9,search=mse,bits=2"};
    struct fuzz_tensor t, sum;
    struct fuzz_source none = {NULL, 0};
    struct fuzz_end end;
    pith_stats stats = {.size = sizeof stats};
    fuzz_end_new(&end, plan, &x->env.env, NULL);
    struct summed m = {.sum = {.size = sizeof m.sum,
                               .stream = end.stream,
                               .slot = slot,
                               .frames = m.frame,
                               .lengths = m.length,
                               .count = 1u + fuzz_below(s, 3),
                               .status = PITH_ERR_INTERNAL}};
    const uint8_t how = fuzz_u8(s);
    for (int i = 0; i < 3; i++) {
        m.frame[i] = x->frame;
        m.length[i] = x->length;
    }
    m.sum.scale = how & 0x80 ? (float)(how >> 6 & 1) : 0.5f; /* 0 stands for 1 */
    fuzz_tensor_new(&t, s, false, 1u + fuzz_below(s, 3), 1, &x->count);
    fuzz_tensor_new(&sum, &none, true, PITH_F32, 1, &x->count);
    m.sum.view = t.view;
    const pith_status status = pith_reduce(end.work, &m.sum, 1);
    FUZZ_CHECK(fuzz_is_status(status) && m.sum.status == status);
    FUZZ_CHECK(fuzz_error_fits(pith_work_error(end.work), status));
    if (status == PITH_OK) FUZZ_CHECK(x->status == PITH_OK);
    m.sum.view = sum.view;
    FUZZ_CHECK(pith_reduce(end.work, &m.sum, 1) == status);
    FUZZ_CHECK(pith_stream_stats(end.stream, &stats) == PITH_OK);
    FUZZ_CHECK(stats.frames == (status == PITH_OK ? 2 * m.sum.count : 0));
    FUZZ_CHECK(pith_stream_step(end.stream, slot) == 0);
    m.values = status == PITH_OK ? &sum : NULL;
    const uint32_t kind = how % 6;
    reduce_again(x, &end, layout, kind < 5 ? specs[kind] : x->info.spec, &m);
    fuzz_tensor_free(&sum);
    fuzz_tensor_free(&t);
    fuzz_end_free(&end);
}

/* ---- Plans -----------------------------------------------------------------------------------*/

static uint64_t word(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | at[bytes];
    return value;
}

/* The ranges of the section EXEMPT of a frame whose header is good, moved by `shift`. */
static pith_exempt *ranges_of(const struct subject *x, uint64_t shift, size_t *count) {
    const uint8_t *at = x->frame + x->info.header_bytes - word(x->frame + 12, 4);
    *count = 0;
    while (at < x->frame + x->info.header_bytes && word(at, 4) != 3)
        at += (8 + word(at + 4, 4) + 15) / 16 * 16;
    if (!x->info.exempt) return NULL;
    *count = (size_t)word(at + 4, 4) / 16;
    pith_exempt *out = guard_new(*count * sizeof *out);
    for (size_t i = 0; i < *count; i++) {
        const uint64_t second = word(at + 16 + 16 * i, 8);
        out[i] = (pith_exempt){.first = word(at + 8 + 16 * i, 8) + shift,
                               .count = second & ((UINT64_C(1) << 60) - 1),
                               .how = second >> 60};
    }
    return out;
}

/* Whether blocks are tiles or rows of the shape, which is lost in a slot. */
static bool by_shape(const pith_info *info) {
    pith_codec_info codec = {.size = sizeof codec};
    for (uint32_t i = 0; pith_codec_at(i, &codec) == PITH_OK; i++)
        if (codec.id == info->codec)
            return info->ndim != 1 &&
                   (codec.traits & PITH_TRAIT_BOUND || strcmp(codec.name, "kv") == 0);
    return false;
}

/* As one of two slots of different size: one-dimensional, and the same to every call. */
static uint64_t into_slots(const struct subject *x, pith_layout *layout, uint64_t counts[2],
                           struct fuzz_source *s) {
    const uint64_t other = fuzz_below(s, 300), slot = fuzz_u8(s) & 1;
    if (other == 0 || x->info.base_dtype || by_shape(&x->info)) return 0;
    counts[slot] = x->count;
    counts[!slot] = other;
    layout->ndim = 1;
    memset(layout->shape, 0, sizeof layout->shape);
    layout->shape[0] = x->count + other;
    layout->slots = 2;
    layout->slot_counts = counts;
    return slot;
}

static void with_plan(struct subject *x, struct fuzz_source *s) {
    const pith_plan *plan;
    pith_error error = {.size = sizeof error};
    uint64_t counts[2];
    pith_layout layout = {.size = sizeof layout,
                          .dtype = x->info.dtype,
                          .base_dtype = x->info.base_dtype,
                          .ndim = x->info.ndim,
                          .flags = x->info.has_checksums ? PITH_LAYOUT_CHECKSUMS : 0};
    memcpy(layout.shape, x->info.shape, sizeof layout.shape);
    const uint64_t slot = into_slots(x, &layout, counts, s);
    pith_exempt *ranges = ranges_of(x, slot ? counts[0] : 0, &layout.exempt_count);
    const size_t bytes = layout.exempt_count * sizeof *ranges;
    layout.exempt = ranges;
    const pith_status status = pith_plan_create(&plan, x->info.spec, &layout, &x->env.env, &error);
    FUZZ_CHECK(status == PITH_OK || status == PITH_ERR_MEMORY);
    if (plan) {
        const uint32_t made = x->env.allocations;
        decode_with_stream(x, plan, slot, s);
        decode_in_place(x, plan, slot, s);
        reduce(x, plan, &layout, slot, s);
        FUZZ_CHECK(x->env.allocations == made);
    }
    pith_plan_destroy(plan);
    if (ranges) guard_free(ranges, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source input = {data, size}, s = fuzz_split(&input, PARAMETER_BYTES);
    struct subject x = {.length = input.length, .info = {.size = sizeof x.info}};
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
