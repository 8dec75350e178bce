/* test_views.c - shapes, strides and alignments of input and output; sizes at their limits.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "util.h"

enum { ELEMENTS = 3 * 5 * 7 * 4 };

/* A view of ELEMENTS elements somewhere in a larger buffer. */
struct shape {
    const char *name;
    uint32_t ndim;
    uint64_t shape[8];
    int64_t stride[8];
    int64_t start; /* element of the buffer where index 0 lies */
};

static const struct shape shapes[] = {
    {"dense", 1, {420}, {1}, 0},
    {"backwards", 1, {420}, {-1}, 419},
    {"every third", 1, {420}, {3}, 1},
    {"backwards by five", 1, {420}, {-5}, 2099},
    {"matrix", 2, {21, 20}, {20, 1}, 0},
    {"transposed", 2, {21, 20}, {1, 21}, 0},
    {"padded rows", 2, {21, 20}, {32, 1}, 5},
    {"mirrored", 2, {21, 20}, {-20, -1}, 419},
    {"permuted", 4, {5, 3, 4, 7}, {1, 5, 105, 15}, 0},
    {"eight", 8, {3, 1, 5, 1, 7, 2, 2, 1}, {140, 9, 28, -3, 4, 2, 1, 77}, 0},
    {"eight strided", 8, {3, 5, 7, 1, 2, 1, 2, 1}, {700, 140, -20, 0, 10, 0, 3, 0}, 200},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0], BUFFER = 4096 };

static pith_view view_of(const struct shape *s, void *buffer, uint32_t dtype) {
    pith_view v = {.dtype = dtype, .ndim = s->ndim};
    v.data = (uint8_t *)buffer + s->start * (int64_t)pith_dtype_bytes(dtype);
    memcpy(v.shape, s->shape, sizeof v.shape);
    memcpy(v.stride, s->stride, sizeof v.stride);
    return v;
}

/* Byte address of logical element i. */
static uint8_t *place(const pith_view *v, uint64_t i) {
    int64_t at = 0;
    for (uint32_t d = v->ndim; d-- > 0;) {
        at += (int64_t)(i % v->shape[d]) * v->stride[d];
        i /= v->shape[d];
    }
    return (uint8_t *)v->data + at * (int64_t)pith_dtype_bytes(v->dtype);
}

static void scatter(const pith_view *v, const uint8_t *dense) {
    const size_t w = pith_dtype_bytes(v->dtype);
    for (uint64_t i = 0; i < ELEMENTS; i++) memcpy(place(v, i), dense + i * w, w);
}

/* A buffer of sixes whose view holds the values, `offset` bytes from malloc's alignment. */
static uint8_t *buffer_with(const struct shape *s, uint32_t dtype, const uint8_t *dense,
                            size_t offset, uint8_t **memory) {
    const size_t bytes = BUFFER * pith_dtype_bytes(dtype);
    *memory = allocate(bytes + 64);
    memset(*memory, 6, bytes + 64);
    const pith_view v = view_of(s, *memory + offset, dtype);
    if (dense) scatter(&v, dense);
    return *memory + offset;
}

static void check_shape(const char *spec, const struct shape *in, const struct shape *out,
                        uint32_t dtype, size_t offset) {
    const size_t bytes = ELEMENTS * pith_dtype_bytes(dtype);
    uint8_t *dense = allocate(bytes), *memory, *to_memory, *wanted_memory;
    gen_fill(GEN_NOISE, 5, dtype, dense, ELEMENTS);
    const uint64_t flat = ELEMENTS;
    const pith_view plain = pith_view_dense(dense, dtype, 1, &flat);
    const pith_view view = view_of(in, buffer_with(in, dtype, dense, offset, &memory), dtype);
    struct frame a = compress(spec, &plain, NULL, 0), b = compress(spec, &view, NULL, 0);
    const size_t ha = header_of(&a), hb = header_of(&b);
    CHECK(a.length - ha == b.length - hb);
    CHECK(memcmp(a.bytes + ha, b.bytes + hb, a.length - ha) == 0);
    uint8_t *exact = allocate(bytes);
    const pith_view exact_view = pith_view_dense(exact, dtype, 1, &flat);
    CHECK_OK(pith_decompress(a.bytes, a.length, NULL, NULL, &exact_view, NULL));
    const pith_view to = view_of(out, buffer_with(out, dtype, NULL, offset, &to_memory), dtype);
    CHECK_OK(pith_decompress(b.bytes, b.length, NULL, NULL, &to, NULL));
    buffer_with(out, dtype, exact, offset, &wanted_memory);
    CHECK(memcmp(to_memory, wanted_memory, BUFFER * pith_dtype_bytes(dtype) + 64) == 0);
    void *const all[] = {dense, memory, to_memory, wanted_memory, a.bytes, b.bytes, exact};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

static void test_shapes(void **state) {
    (void)state;
    static const char *const specs[] = {"raw:block=64", "lossless:block=64",
                                        "wdiff:group=16,block=32"};
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F64, PITH_U8};
    for (size_t s = 0; s < 3; s++)
        for (size_t d = 0; d < (s == 2 ? 2 : 4); d++)
            for (size_t i = 0; i < SHAPES; i++) {
                context("%s %s from %s", specs[s], pith_dtype_name(dtypes[d]), shapes[i].name);
                check_shape(specs[s], &shapes[i], &shapes[(i * 5 + 3) % SHAPES], dtypes[d],
                            i % 3 ? i : 0);
            }
}

/* Encoder, decoder and both bases with strides and odd addresses, against the dense ones. */
static void test_strided_base(void **state) {
    (void)state;
    static const char *const specs[] = {"lossless:block=64", "wdiff:group=16,block=32"};
    float value[ELEMENTS], base[ELEMENTS], wanted[ELEMENTS];
    gen_fill(GEN_NOISE, 5, PITH_F32, value, ELEMENTS);
    gen_fill(GEN_NOISE, 6, PITH_F32, base, ELEMENTS);
    const pith_view v = pith_view_flat(value, PITH_F32, ELEMENTS);
    const pith_view b = pith_view_flat(base, PITH_F32, ELEMENTS);
    const pith_view w = pith_view_flat(wanted, PITH_F32, ELEMENTS);
    for (size_t k = 0; k < 2 * SHAPES; k++) {
        const struct shape *s = &shapes[k / 2];
        uint8_t *memory;
        context("%s, base %s", specs[k % 2], s->name);
        const pith_view strided =
            view_of(s, buffer_with(s, PITH_F32, (uint8_t *)base, k % 5, &memory), PITH_F32);
        struct frame f = compress(specs[k % 2], &v, &b, 0);
        struct frame g = compress(specs[k % 2], &v, &strided, 0);
        CHECK(f.length == g.length && memcmp(f.bytes, g.bytes, f.length) == 0);
        CHECK_OK(pith_decompress(f.bytes, f.length, &b, NULL, &w, NULL));
        struct stream plan;
        const pith_layout layout = flat_layout(PITH_F32, PITH_F32, ELEMENTS);
        stream_open(&plan, specs[k % 2], &layout, NULL);
        CHECK_OK(decode_one(plan.work, plan.stream, 0, f.bytes, f.length, &strided, PITH_ADD));
        for (uint64_t i = 0; i < ELEMENTS; i++)
            CHECK(memcmp(place(&strided, i), wanted + i, 4) == 0);
        stream_close(&plan);
        free(f.bytes);
        free(g.bytes);
        free(memory);
    }
}

/* Without a base: what the view holds plus what the frame does. */
static void test_strided_addition(void **state) {
    (void)state;
    static const char *const specs[] = {"raw:block=64", "lossless:block=64",
                                        "grad:group=32,block=64", "eb:abs=0.01,block=64",
                                        "kv:group=16,page=16"};
    float value[ELEMENTS], before[ELEMENTS], sum[ELEMENTS];
    gen_fill(GEN_NOISE, 5, PITH_F32, value, ELEMENTS);
    gen_fill(GEN_NOISE, 6, PITH_F32, before, ELEMENTS);
    const pith_view to = pith_view_flat(sum, PITH_F32, ELEMENTS);
    for (size_t k = 0; k < 5 * SHAPES; k++) {
        const struct shape *const s = &shapes[k % SHAPES];
        pith_layout layout = flat_layout(PITH_F32, PITH_NONE, ELEMENTS);
        struct stream plan;
        uint8_t *memory;
        context("%s, added to %s", specs[k / SHAPES], s->name);
        if (k / SHAPES == 4) {
            layout.ndim = 2;
            layout.shape[0] = ELEMENTS / 20;
            layout.shape[1] = 20;
        }
        stream_open(&plan, specs[k / SHAPES], &layout, NULL);
        const pith_view v = pith_view_dense(value, PITH_F32, layout.ndim, layout.shape);
        struct frame f = stream_encode(&plan, &v, 0, false);
        memcpy(sum, before, sizeof sum);
        CHECK_OK(decode_one(plan.work, plan.stream, 0, f.bytes, f.length, &to, PITH_ADD));
        const pith_view strided =
            view_of(s, buffer_with(s, PITH_F32, (uint8_t *)before, k % 5, &memory), PITH_F32);
        CHECK_OK(decode_one(plan.work, plan.stream, 0, f.bytes, f.length, &strided, PITH_ADD));
        for (uint64_t i = 0; i < ELEMENTS; i++) CHECK(memcmp(place(&strided, i), sum + i, 4) == 0);
        stream_close(&plan);
        free(f.bytes);
        free(memory);
    }
}

/* Broadcast input is legal; overlapping output is not. */
static void test_zero_stride(void **state) {
    (void)state;
    context("zero stride");
    const float row[4] = {1, 2, 3, 4};
    float dense[12], out[12];
    for (int i = 0; i < 12; i++) dense[i] = row[i % 4];
    const pith_view all = {(void *)(uintptr_t)row, PITH_F32, 2, {3, 4}, {0, 1}};
    const uint64_t shape[2] = {3, 4};
    const pith_view plain = pith_view_dense(dense, PITH_F32, 2, shape);
    pith_view to = pith_view_dense(out, PITH_F32, 2, shape);
    struct frame a = compress("raw", &all, NULL, 0), b = compress("raw", &plain, NULL, 0);
    CHECK(a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0);
    to.stride[0] = 0;
    CHECK_STATUS(PITH_ERR_SHAPE, pith_decompress(a.bytes, a.length, NULL, NULL, &to, NULL));
    to.shape[0] = 1;
    CHECK_STATUS(PITH_ERR_SHAPE, pith_decompress(a.bytes, a.length, NULL, NULL, &to, NULL));
    const pith_view one = {out, PITH_F32, 2, {1, 12}, {0, 1}};
    CHECK_OK(pith_decompress(a.bytes, a.length, NULL, NULL, &one, NULL));
    CHECK(memcmp(out, dense, sizeof out) == 0);
    free(a.bytes);
    free(b.bytes);
}

static void test_alignments(void **state) {
    (void)state;
    enum { N = 333 };
    float value[N], wanted[N];
    uint8_t *in = allocate(N * 4 + 64), *out = allocate(N * 4 + 64), *bytes = allocate(8192);
    gen_fill(GEN_NOISE, 5, PITH_F32, value, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N), w = pith_view_flat(wanted, PITH_F32, N);
    struct frame f = compress("wdiff:group=32", &v, NULL, PITH_LAYOUT_CHECKSUMS);
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &w, NULL));
    for (size_t k = 0; k < 64; k++) {
        const pith_view from = pith_view_flat(memcpy(in + k, value, N * 4), PITH_F32, N);
        const pith_view to = pith_view_flat(out + (k * 7) % 64, PITH_F32, N);
        const pith_layout layout = {.size = sizeof layout, .flags = PITH_LAYOUT_CHECKSUMS};
        size_t written;
        context("alignment %zu", k);
        CHECK_OK(pith_compress("wdiff:group=32", &from, NULL, &layout, NULL, bytes + k, 4096,
                               &written, NULL));
        CHECK(written == f.length && memcmp(bytes + k, f.bytes, written) == 0);
        CHECK_OK(pith_decompress(bytes + k, written, NULL, NULL, &to, NULL));
        CHECK(memcmp(to.data, wanted, sizeof wanted) == 0);
    }
    free(in);
    free(out);
    free(bytes);
    free(f.bytes);
}

/* ---- Limits ----------------------------------------------------------------------------------*/

static void test_counts(void **state) {
    (void)state;
    context("counts");
    pith_view v = {.dtype = PITH_F32, .ndim = 0};
    CHECK(pith_view_count(&v) == 1);
    v = (pith_view){.dtype = PITH_F32, .ndim = 3, .shape = {1u << 31, 1u << 31, 4}};
    CHECK(pith_view_count(&v) == UINT64_MAX);
    v.shape[2] = 0;
    CHECK(pith_view_count(&v) == 0);
    v.shape[2] = 3;
    CHECK(pith_view_count(&v) == UINT64_C(3) << 62);
    const uint64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    v = pith_view_dense(nine, PITH_U64, 9, nine);
    CHECK(v.dtype == PITH_NONE);
    v = pith_view_dense(nine, PITH_U64, 8, nine);
    CHECK(v.dtype == PITH_U64 && v.stride[0] == 1 && pith_view_count(&v) == 1);
}

static void refused(pith_status wanted, const pith_view *v) {
    uint8_t buffer[256];
    size_t written = 7;
    pith_error error = {.size = sizeof error};
    CHECK_STATUS(
        wanted, pith_compress("raw", v, NULL, NULL, NULL, buffer, sizeof buffer, &written, &error));
    CHECK(written == 0 && error.text[0]);
}

static void test_refused_views(void **state) {
    (void)state;
    float value[4] = {0};
    context("refused views");
    pith_view v = pith_view_flat(value, PITH_F32, 4);
    v.dtype = PITH_NONE;
    refused(PITH_ERR_DTYPE, &v);
    v.dtype = 16;
    refused(PITH_ERR_DTYPE, &v);
    v.dtype = UINT32_MAX;
    refused(PITH_ERR_DTYPE, &v);
    v = pith_view_flat(NULL, PITH_F32, 4);
    refused(PITH_ERR_ARG, &v);
    v = pith_view_flat(value, PITH_F32, 4);
    v.ndim = 9;
    refused(PITH_ERR_SHAPE, &v);
    v = pith_view_flat(value, PITH_F32, UINT64_MAX);
    refused(PITH_ERR_SHAPE, &v);
    v = (pith_view){value, PITH_F32, 3, {1u << 31, 1u << 31, 4}, {0}};
    refused(PITH_ERR_SHAPE, &v);
    refused(PITH_ERR_ARG, NULL);
}

/* Nothing at the address is touched when a view has no elements. */
static void test_empty(void **state) {
    (void)state;
    static const char *const specs[] = {"raw", "lossless", "wdiff"};
    const uint64_t shape[3] = {3, 0, UINT64_C(1) << 40};
    for (int k = 0; k < 6; k++) {
        const pith_view v = pith_view_dense(NULL, PITH_F32, k % 2 ? 3 : 2, shape);
        context("empty %s", specs[k / 2]);
        struct frame f = compress(specs[k / 2], &v, NULL, PITH_LAYOUT_CHECKSUMS);
        CHECK(f.length == (k % 2 ? 112 : 64));
        CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &v, NULL));
        CHECK_OK(pith_verify(f.bytes, f.length, NULL, NULL));
        free(f.bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),        cmocka_unit_test(test_strided_addition),
        cmocka_unit_test(test_strided_base),  cmocka_unit_test(test_zero_stride),
        cmocka_unit_test(test_alignments),    cmocka_unit_test(test_counts),
        cmocka_unit_test(test_refused_views), cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests_name("views", tests, NULL, NULL);
}
