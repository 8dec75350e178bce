/* test_layers.c - differences along layers: caches against a base, accumulators kept coded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "util.h"

enum { TOKENS = 45, HEADS = 2, DIM = 24, ROW = HEADS * DIM, COUNT = TOKENS * ROW, LAYERS = 4 };

static const uint64_t shape[3] = {TOKENS, HEADS, DIM};

static pith_layout layout_of(uint32_t dtype, uint32_t base_dtype, uint32_t flags) {
    return (pith_layout){.size = sizeof(pith_layout),
                         .dtype = dtype,
                         .base_dtype = base_dtype,
                         .flags = flags,
                         .ndim = 3,
                         .shape = {TOKENS, HEADS, DIM}};
}

static const pith_plan *plan_of(const char *spec, const pith_layout *layout) {
    const pith_plan *plan;
    const pith_env env = test_env();
    CHECK_OK(pith_plan_create(&plan, spec, layout, &env, NULL));
    return plan;
}

/* ---- Caches against a base -------------------------------------------------------------------*/

static pith_view part(void *rows, uint32_t dtype, uint64_t first, uint64_t count) {
    const uint64_t s[3] = {count, HEADS, DIM};
    return pith_view_dense((uint8_t *)rows + first * ROW * pith_dtype_bytes(dtype), dtype, 3, s);
}

/* What a frame against the base makes of it. */
static void reference(const char *spec, const void *value, uint32_t dtype, void *base,
                      uint32_t base_dtype) {
    const pith_view v = pith_view_dense(value, dtype, 3, shape);
    uint8_t next[COUNT * 4];
    const pith_view b = pith_view_dense(base, base_dtype, 3, shape);
    const pith_view n = pith_view_dense(next, base_dtype, 3, shape);
    struct frame f = compress(spec, &v, &b, 0);
    CHECK_OK(pith_decompress(f.bytes, f.length, &b, NULL, &n, NULL));
    memcpy(base, next, COUNT * pith_dtype_bytes(base_dtype));
    free(f.bytes);
}

static void same_save(pith_work *work, const pith_kv *a, const pith_kv *b) {
    const size_t bytes = (size_t)pith_kv_save_bytes(a);
    size_t n;
    uint8_t *one = allocate(bytes), *other = allocate(bytes);
    CHECK(pith_kv_save_bytes(b) == bytes);
    CHECK_OK(pith_kv_save(work, a, one, bytes, &n));
    CHECK_OK(pith_kv_save(work, b, other, bytes, &n));
    CHECK(memcmp(one, other, bytes) == 0);
    free(one);
    free(other);
}

/* Layer by layer, in bulk and token by token: the writer's accumulator is the reader's, and that
 * of frames. */
static void test_delta(void **state) {
    (void)state;
    static const char *const specs[] = {"kv:page=16,group=16,bits=2",
                                        "kv:page=16,bits=3,scale_dtype=f32",
                                        "kv:page=32,group=32,symmetric=on,bits=8"};
    for (uint32_t k = 0; k < 27; k++) {
        const uint32_t dtype = 1 + k % 3, base_dtype = 1 + k / 3 % 3;
        const char *spec = specs[k / 9];
        const pith_layout layout = layout_of(dtype, PITH_NONE, 0);
        const pith_plan *const plan = plan_of(spec, &layout);
        const size_t bytes = (size_t)pith_kv_bytes(plan, 0);
        void *memory = allocate(bytes), *more = allocate(bytes), *scratch;
        pith_work *const work = work_for(&plan, 1, NULL, &scratch);
        uint8_t bulk[COUNT * 4] = {0}, single[COUNT * 4] = {0}, reader[COUNT * 4] = {0};
        uint8_t wanted[COUNT * 4] = {0}, value[COUNT * 4];
        context("%s, %s against %s", spec, pith_dtype_name(dtype), pith_dtype_name(base_dtype));
        for (uint64_t layer = 0; layer < LAYERS; layer++) {
            pith_kv *a, *b;
            gen_fill(GEN_NOISE, layer * 7 + k, dtype, value, COUNT);
            CHECK_OK(pith_kv_init(plan, memory, bytes, &a, NULL));
            CHECK_OK(pith_kv_init(plan, more, bytes, &b, NULL));
            const pith_view v = part(value, dtype, 0, TOKENS);
            const pith_view base = part(bulk, base_dtype, 0, TOKENS);
            CHECK_OK(pith_kv_append_delta(work, a, &v, &base));
            for (uint64_t t = 0; t < TOKENS; t++) {
                const pith_view one = part(value, dtype, t, 1),
                                its = part(single, base_dtype, t, 1);
                CHECK_OK(pith_kv_append_delta(work, b, &one, &its));
            }
            same_save(work, a, b);
            reference(spec, value, dtype, wanted, base_dtype);
            const pith_view left = part(reader, base_dtype, 0, 5);
            const pith_view right = part(reader, base_dtype, 5, TOKENS - 5);
            CHECK_OK(pith_kv_read_add(work, a, 5, TOKENS - 5, &right));
            CHECK_OK(pith_kv_read_add(work, a, 0, 5, &left));
            const size_t size = COUNT * pith_dtype_bytes(base_dtype);
            CHECK(memcmp(bulk, wanted, size) == 0 && memcmp(single, wanted, size) == 0);
            CHECK(memcmp(reader, wanted, size) == 0);
        }
        pith_plan_destroy(plan);
        free(memory);
        free(more);
        free(scratch);
    }
}

static void test_delta_refusals(void **state) {
    (void)state;
    float value[COUNT] = {0}, base[2 * COUNT] = {0};
    const pith_layout layout = layout_of(PITH_F32, PITH_NONE, 0);
    const pith_plan *plan = plan_of("kv:page=16", &layout);
    const size_t bytes = (size_t)pith_kv_bytes(plan, 0);
    void *memory = allocate(bytes), *scratch;
    pith_work *work = work_for(&plan, 1, NULL, &scratch);
    pith_kv *kv;
    context("refusals of differences");
    CHECK_OK(pith_kv_init(plan, memory, bytes, &kv, NULL));
    const pith_view v = part(value, PITH_F32, 0, 4), wrong = part(base, PITH_F32, 0, 5);
    const pith_view integers = part(base, PITH_I32, 0, 4);
    pith_view wide = part(base, PITH_F32, 0, 4);
    wide.stride[0] *= 2;
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_append_delta(work, kv, &v, &wrong));
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_append_delta(work, kv, &v, &wide));
    CHECK_STATUS(PITH_ERR_DTYPE, pith_kv_append_delta(work, kv, &v, &integers));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append_delta(work, kv, &v, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_read_add(work, kv, 0, 4, &v));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append_delta(NULL, kv, &v, &v));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append_delta(work, NULL, &v, &v));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_read_add(work, NULL, 0, 0, &v));
    CHECK(pith_kv_count(kv) == 0);
    free(memory);
    free(scratch);
    pith_plan_destroy(plan);
    static const char *const none[] = {"kv:page=16,window=1", "kv:page=16,axis=channel,group=16",
                                       "kv:page=16,outliers=0.1", "kv:page=16,codebook=nf"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        context("a base and %s", none[i]);
        plan = plan_of(none[i], &layout);
        memory = allocate((size_t)pith_kv_bytes(plan, 0));
        work = work_for(&plan, 1, NULL, &scratch);
        CHECK_OK(pith_kv_init(plan, memory, (size_t)pith_kv_bytes(plan, 0), &kv, NULL));
        const pith_view b = part(base, PITH_F32, 0, 4);
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_kv_append_delta(work, kv, &v, &b));
        CHECK(strstr(pith_work_error(work)->text, "need axis=token, window=0") != NULL);
        CHECK(pith_kv_count(kv) == 0);
        free(memory);
        free(scratch);
        pith_plan_destroy(plan);
    }
}

/* ---- Accumulators ----------------------------------------------------------------------------*/

struct accumulation {
    const char *spec, *delta;
    uint32_t dtype, base_dtype, flags;
};

static struct frame encode(const pith_plan *plan, const char *spec, const void *values,
                           const struct accumulation *c) {
    const pith_view v = pith_view_dense(values, c->dtype, 3, shape);
    const struct stream of_plan = {.plan = plan};
    struct stream s;
    context("%s + %s", spec, c->delta);
    stream_open_end(&s, &of_plan, NULL);
    const struct frame f = stream_encode(&s, &v, 0, false);
    stream_close(&s);
    return f;
}

/* sum + delta in f32, rounded to the dtype. */
static void add(void *sum, const struct frame *delta, uint32_t dtype) {
    float x[COUNT];
    const pith_view v = pith_view_dense(x, PITH_F32, 3, shape);
    CHECK_OK(pith_decompress(delta->bytes, delta->length, NULL, NULL, &v, NULL));
    for (size_t i = 0; i < COUNT; i++)
        store_float(sum, dtype, i, bits_of(float_of(load_float(sum, dtype, i)) + x[i]));
}

/* A layer: the delta against what the accumulator decodes to, accumulated; the sum that comes out
 * and the frame that stays are those of separate calls. */
static void check_layer(const struct accumulation *c, pith_work *work, const pith_plan *plan,
                        const pith_plan *other, struct frame *acc, const void *value) {
    uint8_t sum[COUNT * 4], got[COUNT * 4];
    const pith_view v = pith_view_dense(value, c->dtype, 3, shape);
    const pith_view s = pith_view_dense(sum, c->dtype, 3, shape);
    const pith_view g = pith_view_dense(got, c->dtype, 3, shape);
    CHECK_OK(pith_decompress(acc->bytes, acc->length, NULL, NULL, &s, NULL));
    struct frame delta = compress(c->delta, &v, c->base_dtype ? &s : NULL, c->flags);
    if (c->base_dtype) {
        CHECK_OK(pith_decompress(delta.bytes, delta.length, &s, NULL, &g, NULL));
        memcpy(sum, got, sizeof sum);
    } else {
        add(sum, &delta, c->dtype);
    }
    struct frame wanted = encode(plan, c->spec, sum, c);
    float floats[COUNT];
    const bool wide = acc->length % 3 == 0;
    const pith_view f = pith_view_dense(floats, PITH_F32, 3, shape);
    CHECK_OK(pith_kv_accumulate(work, plan, acc->bytes, acc->length, other, delta.bytes,
                                delta.length, wide ? &f : &g));
    CHECK(acc->length == wanted.length && memcmp(acc->bytes, wanted.bytes, acc->length) == 0);
    for (size_t i = 0; i < COUNT; i++)
        CHECK((wide ? bits_of(floats[i]) : load_float(got, c->dtype, i)) ==
              load_float(sum, c->dtype, i));
    free(delta.bytes);
    free(wanted.bytes);
}

static const struct accumulation accumulations[] = {
    {"kv:page=16,group=16", "kv:page=16,group=16,bits=2", PITH_F32, PITH_NONE, 0},
    {"kv:page=16,group=16", "kv:page=16,group=32,bits=3", PITH_BF16, PITH_NONE,
     PITH_LAYOUT_CHECKSUMS},
    {"kv:page=16,axis=channel,group=16", "kv:page=16,bits=2", PITH_F16, PITH_NONE, 0},
    {"kv:page=32,search=mse", "kv:page=32,bits=2", PITH_F32, PITH_F32, PITH_LAYOUT_CHECKSUMS},
    {"kv:page=16,bits=8", "kv:page=16,bits=3", PITH_BF16, PITH_BF16, 0},
    {"kv:page=16,bits=6", "kv:page=16", PITH_F32, PITH_F32, 0},
    {"kv:page=16,bits=5", "kv:page=16,bits=5", PITH_BF16, PITH_NONE, PITH_LAYOUT_CHECKSUMS},
};
enum { ACCUMULATIONS = sizeof accumulations / sizeof accumulations[0] };

/* Where both settings are the same, one plan is both. */
static void test_accumulate(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 2 * ACCUMULATIONS; k++) {
        const struct accumulation *c = &accumulations[k / 2];
        const pith_layout layout = layout_of(c->dtype, PITH_NONE, c->flags);
        const pith_layout against = layout_of(c->dtype, c->base_dtype, c->flags);
        const bool same = strcmp(c->spec, c->delta) == 0 && !c->base_dtype;
        const pith_plan *const plan = plan_of(c->spec, &layout);
        const pith_plan *const other = same ? plan : plan_of(c->delta, &against);
        const pith_plan *const plans[2] = {plan, other};
        void *scratch;
        pith_env env = test_env();
        env.threads = k % 2 ? 3 : 0;
        env.run = k % 2 ? run_backwards : NULL;
        pith_work *const work = work_for(plans, 2, &env, &scratch);
        uint8_t value[COUNT * 4];
        gen_fill(GEN_NOISE, k, c->dtype, value, COUNT);
        struct frame acc = encode(plan, c->spec, value, c);
        for (uint64_t layer = 1; layer < LAYERS; layer++) {
            gen_fill(GEN_NOISE, k + layer, c->dtype, value, COUNT);
            check_layer(c, work, plan, other, &acc, value);
        }
        free(acc.bytes);
        free(scratch);
        pith_plan_destroy(plan);
        if (!same) pith_plan_destroy(other);
    }
}

static void refuse(pith_work *work, const pith_plan *plan, const pith_plan *other, struct frame acc,
                   struct frame delta, pith_status wanted) {
    uint8_t *before = copy_of(acc.bytes, acc.length);
    CHECK_STATUS(wanted, pith_kv_accumulate(work, plan, acc.bytes, acc.length, other, delta.bytes,
                                            delta.length, NULL));
    CHECK(memcmp(before, acc.bytes, acc.length) == 0);
    free(before);
}

static void test_accumulate_refusals(void **state) {
    (void)state;
    const struct accumulation *c = &accumulations[3];
    float value[COUNT];
    gen_fill(GEN_NOISE, 3, PITH_F32, value, COUNT);
    const pith_layout layout = layout_of(PITH_F32, PITH_NONE, PITH_LAYOUT_CHECKSUMS);
    const pith_layout against = layout_of(PITH_F32, PITH_F32, PITH_LAYOUT_CHECKSUMS);
    const pith_layout other_base = layout_of(PITH_F32, PITH_BF16, PITH_LAYOUT_CHECKSUMS);
    pith_layout slots = layout;
    slots.slots = 2;
    const pith_plan *const plan = plan_of(c->spec, &layout);
    const pith_plan *const other = plan_of(c->delta, &against);
    const pith_plan *const page = plan_of("kv:page=16", &layout);
    const pith_plan *const bf16 = plan_of(c->delta, &other_base);
    const pith_plan *const grad = plan_of("grad", &layout);
    const pith_plan *const several = plan_of("grad", &slots);
    const pith_plan *const plans[] = {plan, other, page, bf16, grad, several};
    void *scratch;
    pith_work *const work = work_for(plans, 6, NULL, &scratch);
    const pith_view v = pith_view_dense(value, PITH_F32, 3, shape);
    uint16_t half[COUNT];
    gen_fill(GEN_NOISE, 4, PITH_BF16, half, COUNT);
    const pith_view h = pith_view_dense(half, PITH_BF16, 3, shape);
    struct frame acc = encode(plan, c->spec, value, c);
    struct frame wrong = compress(c->delta, &v, &v, PITH_LAYOUT_CHECKSUMS);
    struct frame small = encode(page, "kv:page=16", value, c);
    struct frame rounded = compress(c->delta, &v, &h, PITH_LAYOUT_CHECKSUMS);
    struct frame sums = encode(grad, "grad", value, c);
    context("refusals of accumulating");
    refuse(work, plan, other, acc, wrong, PITH_ERR_BASE);
    refuse(work, plan, other, acc, small, PITH_ERR_MISMATCH);
    refuse(work, plan, page, acc, small, PITH_ERR_MISMATCH);
    refuse(work, plan, bf16, acc, rounded, PITH_ERR_MISMATCH);
    refuse(work, plan, grad, acc, sums, PITH_ERR_UNSUPPORTED);
    refuse(work, plan, plan, acc, wrong, PITH_ERR_MISMATCH);
    refuse(work, several, other, acc, wrong, PITH_ERR_UNSUPPORTED);
    refuse(work, plan, several, acc, wrong, PITH_ERR_UNSUPPORTED);
    wrong.bytes[wrong.length - 1] ^= 1;
    refuse(work, plan, other, acc, wrong, PITH_ERR_CHECKSUM);
    wrong.length--;
    refuse(work, plan, other, acc, wrong, PITH_ERR_TRUNCATED);
    refuse(work, plan, page, (struct frame){acc.bytes, acc.length - 1}, small, PITH_ERR_TRUNCATED);
    refuse(NULL, plan, other, acc, wrong, PITH_ERR_ARG);
    refuse(work, NULL, other, acc, wrong, PITH_ERR_ARG);
    refuse(work, plan, NULL, acc, wrong, PITH_ERR_ARG);
    refuse(work, plan, other, acc, (struct frame){NULL, 0}, PITH_ERR_ARG);
    free(acc.bytes);
    free(wrong.bytes);
    free(small.bytes);
    free(rounded.bytes);
    free(sums.bytes);
    free(scratch);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) pith_plan_destroy(plans[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delta),
        cmocka_unit_test(test_delta_refusals),
        cmocka_unit_test(test_accumulate),
        cmocka_unit_test(test_accumulate_refusals),
    };
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
