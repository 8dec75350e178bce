/* test_tiles.c - codecs with neighbours in several dimensions: odd shapes, parts, strides, slots.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "util.h"

static const char *const specs[] = {
    "eb:abs=0.01,block=64",     "eb:mode=ratio,abs=0.01,block=512",
    "eb:mode=ratio,abs=0.001",  "eb:mode=auto,abs=0.01,block=4096",
    "eb:pwrel=0.01,block=1024", "eb:mode=ratio,rel=0.001,block=whole",
    "embed:abs=0.01,block=256", "embed:abs=0.01,dim=7,block=64",
    "act:abs=0.01,block=512",   "act:mode=ratio,abs=0.01,block=4096",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

struct shape {
    uint32_t ndim;
    uint64_t n[6];
};
static const struct shape shapes[] = {
    {0, {0}},           {1, {1}},           {1, {4099}},          {2, {1, 7}},
    {2, {7, 1}},        {2, {65, 33}},      {2, {3, 1000}},       {2, {1000, 3}},
    {3, {65, 33, 17}},  {3, {1, 1, 7}},     {3, {3, 0, 7}},       {3, {16, 16, 16}},
    {4, {3, 5, 9, 17}}, {4, {1, 9, 1, 40}}, {5, {2, 3, 4, 5, 6}}, {6, {1, 2, 1, 9, 8, 7}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* A tensor and what a spec makes of it. */
struct tensor {
    const char *spec;
    size_t count;
    float *value, *out;
    pith_view view;
    struct frame frame;
    pith_info info;
};

/* Smooth in every dimension, so that neighbours matter, with a little noise. */
static void fill(float *value, const struct shape *s, size_t count) {
    uint64_t seed = count;
    for (size_t i = 0; i < count; i++) {
        double x = 0;
        size_t rest = i;
        for (uint32_t d = s->ndim; d-- > 0;) {
            x += sin(0.1 * (d + 1) * (double)(rest % s->n[d]));
            rest /= s->n[d];
        }
        value[i] = x > 0.5 ? (float)(x + 0.003 * gen_normal(&seed)) : 0;
    }
}

static void tensor_open(struct tensor *t, const char *spec, const struct shape *s) {
    *t = (struct tensor){.spec = spec, .view = pith_view_dense(NULL, PITH_F32, s->ndim, s->n)};
    t->count = (size_t)pith_view_count(&t->view);
    t->view.data = t->value = allocate(t->count * 4);
    fill(t->value, s, t->count);
    if (t->count > 5) t->value[t->count / 2] = NAN;
    t->frame = compress(spec, &t->view, NULL, t->count % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    t->info.size = sizeof t->info;
    CHECK_OK(pith_inspect(t->frame.bytes, t->frame.length, &t->info, NULL));
    t->out = allocate(t->count * 4);
    const pith_view o = pith_view_flat(t->out, PITH_F32, t->count);
    CHECK_OK(pith_decompress(t->frame.bytes, t->frame.length, NULL, NULL, &o, NULL));
}

static void tensor_close(struct tensor *t) {
    free(t->value);
    free(t->out);
    free(t->frame.bytes);
}

static void check_values(const struct tensor *t) {
    for (size_t i = 0; i < t->count; i++) {
        const double x = (double)t->value[i], y = (double)t->out[i];
        if (isfinite(x))
            CHECK(within_bound(x, y, t->info.bound));
        else
            CHECK(bits_of(t->value[i]) == bits_of(t->out[i]));
    }
}

static void check_range(const struct tensor *t, uint64_t first, uint64_t count) {
    float *part = allocate(count * 4);
    const pith_view v = pith_view_flat(part, PITH_F32, count);
    CHECK_OK(pith_decode_range(t->frame.bytes, t->frame.length, NULL, first, NULL, &v, NULL));
    CHECK(memcmp(part, t->out + first, count * 4) == 0);
    free(part);
}

/* Parts that begin and end inside of tiles, whole rows, single elements, nothing. */
static void test_shapes(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (size_t k = 0; k < SPECS * SHAPES; k++) {
        struct tensor t;
        const struct shape *const s = &shapes[k % SHAPES];
        context("%s, shape %zu", specs[k / SHAPES], k % SHAPES);
        tensor_open(&t, specs[k / SHAPES], s);
        CHECK(t.info.ndim == s->ndim && memcmp(t.info.shape, s->n, s->ndim * 8) == 0);
        CHECK_OK(pith_verify(t.frame.bytes, t.frame.length, NULL, NULL));
        check_values(&t);
        for (int i = 0; i < 12; i++) {
            const uint64_t first = t.count ? gen_next(&seed) % t.count : 0;
            const uint64_t most = t.count - first, n = most ? gen_next(&seed) % (most + 1) : 0;
            check_range(&t, first, i % 3 ? n : n % 20);
        }
        tensor_close(&t);
    }
}

/* Fewer bytes for a smooth tensor with its shape than without: neighbours are found. */
static void test_neighbours(void **state) {
    (void)state;
    static const char *const used[2] = {"eb:abs=0.005", "eb:mode=ratio,abs=0.005"};
    for (size_t k = 0; k < 2; k++) {
        struct tensor a, b;
        const struct shape cube = {3, {40, 40, 40}}, line = {1, {64000}};
        context("neighbours, %s", used[k]);
        tensor_open(&a, used[k], &cube);
        const pith_view flat = pith_view_flat(a.value, PITH_F32, a.count);
        struct frame f = compress(used[k], &flat, NULL, 0);
        CHECK(a.frame.length < f.length);
        tensor_open(&b, used[k], &line);
        check_values(&b);
        tensor_close(&a);
        tensor_close(&b);
        free(f.bytes);
    }
}

/* Every dimension backwards or with gaps, read and written: the bytes are those of dense values. */
static void test_strides(void **state) {
    (void)state;
    enum { A = 9, B = 21, C = 18, GAP = 3 };
    const struct shape s = {3, {A, B, C}};
    float *const wide = allocate(A * B * C * GAP * 4), *const back = allocate(A * B * C * GAP * 4);
    const int64_t stride[3] = {GAP, -(int64_t)A * C * GAP, (int64_t)A * GAP};
    for (size_t k = 0; k < SPECS; k++) {
        struct tensor t;
        context("strides, %s", specs[k]);
        tensor_open(&t, specs[k], &s);
        pith_view v = t.view, o = t.view;
        memcpy(v.stride, stride, sizeof stride);
        memcpy(o.stride, stride, sizeof stride);
        v.data = wide + (B - 1) * A * C * GAP;
        o.data = back + (B - 1) * A * C * GAP;
        memset(wide, 0x5A, A * B * C * GAP * 4);
        memset(back, 0x5A, A * B * C * GAP * 4);
        for (int64_t i = 0; i < A * B * C; i++)
            ((float *)v.data)[i / (B * C) * stride[0] + i / C % B * stride[1] + i % C * stride[2]] =
                t.value[i];
        struct frame f = compress(specs[k], &v, NULL, t.count % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
        CHECK(f.length == t.frame.length && memcmp(f.bytes, t.frame.bytes, f.length) == 0);
        CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &o, NULL));
        for (int64_t i = 0; i < A * B * C; i++) {
            const int64_t at = i / (B * C) * stride[0] + i / C % B * stride[1] + i % C * stride[2];
            CHECK(bits_of(((float *)o.data)[at]) == bits_of(t.out[i]));
            ((uint32_t *)o.data)[at] = 0x5A5A5A5Au;
        }
        CHECK(all_bytes(back, A * B * C * GAP * 4, 0x5A));
        free(f.bytes);
        tensor_close(&t);
    }
    free(wide);
    free(back);
}

/* What a view of another dtype should hold: the dense values, rounded once more. */
static void convert_to(void *to, uint32_t to_dtype, const void *from, uint32_t dtype,
                       size_t count) {
    for (size_t i = 0; i < count; i++)
        if (to_dtype == dtype)
            memcpy((uint8_t *)to + i * pith_dtype_bytes(dtype),
                   (const uint8_t *)from + i * pith_dtype_bytes(dtype), pith_dtype_bytes(dtype));
        else
            store_float(to, to_dtype, i, load_float(from, dtype, i));
}

/* Whole and in part, dense and with gaps, in this dtype. */
static void check_dtype(const struct frame *f, const struct shape *s, const void *dense,
                        uint32_t dtype, uint32_t to_dtype) {
    const pith_view shape = pith_view_dense(NULL, to_dtype, s->ndim, s->n);
    const size_t count = (size_t)pith_view_count(&shape), width = pith_dtype_bytes(to_dtype);
    uint8_t *const wanted = allocate(count * width), *const out = allocate(3 * count * width);
    convert_to(wanted, to_dtype, dense, dtype, count);
    const uint64_t first[] = {0, 0, 1, count / 3, count - 1};
    const uint64_t counts[] = {count, count, count - 1, count / 2, 1};
    for (size_t k = 0; k < 5; k++) {
        const size_t gap = k ? 3 : 1;
        pith_view v = pith_view_flat(out, to_dtype, counts[k]);
        v.stride[0] = (int64_t)gap;
        memset(out, 0x5A, 3 * count * width);
        CHECK_OK(k < 2 ? pith_decompress(f->bytes, f->length, NULL, NULL, &v, NULL)
                       : pith_decode_range(f->bytes, f->length, NULL, first[k], NULL, &v, NULL));
        for (size_t i = 0; i < 3 * count; i++) {
            const bool inside = i % gap == 0 && i / gap < counts[k];
            const uint8_t *const value = wanted + (first[k] + i / gap) * width;
            if (inside)
                CHECK(memcmp(out + i * width, value, width) == 0);
            else
                CHECK(all_bytes(out + i * width, width, 0x5A));
        }
    }
    free(wanted);
    free(out);
}

static void test_dtypes(void **state) {
    (void)state;
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16, PITH_F64};
    const struct shape s = {3, {17, 33, 10}};
    enum { COUNT = 17 * 33 * 10 };
    static float value[COUNT];
    static uint8_t given[COUNT * 8], dense[COUNT * 8];
    fill(value, &s, COUNT);
    value[1000] = NAN;
    for (size_t k = 0; k < SPECS * 4; k++) {
        const uint32_t dtype = dtypes[k % 4];
        for (size_t i = 0; i < COUNT; i++) {
            const double wide = (double)value[i];
            if (dtype == PITH_F64)
                memcpy(given + 8 * i, &wide, 8);
            else
                store_float(given, dtype, i, bits_of(value[i]));
        }
        const pith_view v = pith_view_dense(given, dtype, s.ndim, s.n);
        const pith_view d = pith_view_flat(dense, dtype, COUNT);
        struct frame f = compress(specs[k / 4], &v, NULL, 0);
        context("%s of %s", specs[k / 4], pith_dtype_name(dtype));
        CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &d, NULL));
        for (size_t to = 0; to < 4; to++) {
            if (dtypes[to] != dtype && (dtypes[to] == PITH_F64 || dtype == PITH_F64)) continue;
            context("%s of %s as %s", specs[k / 4], pith_dtype_name(dtype),
                    pith_dtype_name(dtypes[to]));
            check_dtype(&f, &s, dense, dtype, dtypes[to]);
        }
        free(f.bytes);
    }
}

/* From 8 MiB on values are stored by non-temporal stores. */
static void test_large_outputs(void **state) {
    (void)state;
    enum { SIDE = 1500, COUNT = SIDE * SIDE, PART = 100003 };
    static const char *const large[] = {"eb:abs=0.01", "eb:mode=ratio,abs=0.01",
                                        "eb:mode=ratio,pwrel=0.01",
                                        "eb:mode=ratio,abs=0.01,block=whole"};
    const uint64_t shape[2] = {SIDE, SIDE};
    float *const value = allocate(COUNT * 4), *const out = allocate(COUNT * 4),
                 *const part = allocate(PART * 4);
    for (size_t i = 0; i < COUNT; i++)
        value[i] = sinf((float)(i % SIDE) / 50) + (float)(i * 7919 % 13) / 100;
    value[COUNT / 2] = NAN;
    const pith_view v = pith_view_dense(value, PITH_F32, 2, shape);
    for (size_t k = 0; k < 4; k++) {
        const pith_view o = pith_view_flat(out, PITH_F32, COUNT);
        struct frame f = compress(large[k], &v, NULL, 0);
        context("%s", large[k]);
        CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &o, NULL));
        for (uint64_t at = 0; at < COUNT; at += 7 * PART) {
            const pith_view p =
                pith_view_flat(part, PITH_F32, COUNT - at < PART ? COUNT - at : PART);
            CHECK_OK(pith_decode_range(f.bytes, f.length, NULL, at, NULL, &p, NULL));
            CHECK(memcmp(part, out + at, (size_t)p.shape[0] * 4) == 0);
        }
        free(f.bytes);
    }
    free(value);
    free(out);
    free(part);
}

/* A plan knows its shape: a frame of as many elements in another one is not its own. */
static void test_other_shape(void **state) {
    (void)state;
    const uint64_t shape[2] = {30, 40}, other[2] = {40, 30};
    float value[1200], out[1200];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, 1200);
    memset(out, 0x5A, sizeof out);
    for (size_t k = 0; k < SPECS; k++) {
        struct stream s;
        if (strstr(specs[k], "dim=")) continue;
        pith_layout l = {.size = sizeof l, .dtype = PITH_F32, .ndim = 2, .shape = {30, 40}};
        const pith_view v = pith_view_dense(value, PITH_F32, 2, other);
        const pith_view o = pith_view_dense(out, PITH_F32, 2, shape);
        context("another shape, %s", specs[k]);
        stream_open(&s, specs[k], &l, NULL);
        struct frame f = compress(specs[k], &v, NULL, 0);
        CHECK_STATUS(PITH_ERR_MISMATCH, decode_one(s.work, s.stream, 0, f.bytes, f.length, &o, 0));
        CHECK(all_bytes(out, sizeof out, 0x5A));
        free(f.bytes);
        stream_close(&s);
    }
}

/* Slots are one-dimensional pieces with bounds of their own. */
static void test_slots(void **state) {
    (void)state;
    enum { N = 5000, SLOTS = 4 };
    float value[N], out[N];
    gen_fill(GEN_HOLES, 1, PITH_F32, value, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N), o = pith_view_flat(out, PITH_F32, N);
    const uint64_t counts[SLOTS] = {0, 4000, 1, 999};
    for (size_t k = 0; k < 2 * SPECS; k++) {
        struct stream s;
        pith_layout l = flat_layout(PITH_F32, PITH_NONE, N);
        l.slots = SLOTS;
        l.slot_counts = k % 2 ? counts : NULL;
        context("slots, %s", specs[k / 2]);
        stream_open(&s, specs[k / 2], &l, NULL);
        for (uint64_t slot = SLOTS; slot-- > 0;) {
            uint64_t first, count;
            pith_info info = {.size = sizeof info};
            CHECK_OK(pith_plan_slot(s.plan, slot, &first, &count));
            struct frame f = stream_encode(&s, &v, slot, false);
            CHECK_OK(decode_one(s.work, s.stream, slot, f.bytes, f.length, &o, 0));
            CHECK_OK(pith_inspect(f.bytes, f.length, &info, NULL));
            CHECK(info.count == count && info.ndim == 1);
            for (uint64_t i = first; i < first + count; i++)
                CHECK(isfinite(value[i])
                          ? within_bound((double)value[i], (double)out[i], info.bound)
                          : bits_of(value[i]) == bits_of(out[i]));
            free(f.bytes);
        }
        stream_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),  cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_strides), cmocka_unit_test(test_other_shape),
        cmocka_unit_test(test_dtypes),  cmocka_unit_test(test_large_outputs),
        cmocka_unit_test(test_slots),
    };
    return cmocka_run_group_tests_name("tiles", tests, NULL, NULL);
}
