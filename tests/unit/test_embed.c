/* test_embed.c - codec embed: tables of rows that repeat, their blocks, slots and classes of
 * bounds.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "util.h"

enum { TABLES = 5, ROWS = 300, DIM = 16, COUNT = TABLES * ROWS * DIM };
static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16, PITH_F64};

static double get(const void *p, uint32_t dtype, size_t i) {
    double x;
    if (dtype != PITH_F64) return (double)float_of(load_float(p, dtype, i));
    memcpy(&x, (const uint8_t *)p + 8 * i, sizeof x);
    return x;
}

static void set(void *p, uint32_t dtype, size_t i, double x) {
    if (dtype == PITH_F64)
        memcpy((uint8_t *)p + 8 * i, &x, sizeof x);
    else
        store_float(p, dtype, i, bits_of((float)x));
}

/* Rows that are few among many: row number r of a table is drawn again and again, small r most. */
static void *lookups(uint32_t dtype, size_t tables, size_t rows, size_t dim, uint64_t seed) {
    void *const values = allocate(tables * rows * dim * pith_dtype_bytes(dtype));
    for (size_t i = 0; i < tables * rows; i++) {
        const uint64_t u = gen_next(&seed) % 1000;
        uint64_t row = 1 + i / rows * 1000 + u * u / 1000 * u / 1000;
        for (size_t j = 0; j < dim; j++)
            set(values, dtype, i * dim + j, gen_normal(&row) * 0.1 + 0.05 * (double)j);
    }
    return values;
}

/* Every finite value within the bound, every other bit for bit. */
static void check_bound(const void *a, const void *b, uint32_t dtype, size_t count, double bound) {
    const size_t element = pith_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        const double x = get(a, dtype, i), y = get(b, dtype, i);
        context("dtype %u element %zu of %zu: %g became %g", dtype, i, count, x, y);
        if (isfinite(x))
            CHECK(fabs(x - y) <= bound);
        else
            CHECK(memcmp((const uint8_t *)a + i * element, (const uint8_t *)b + i * element,
                         element) == 0);
    }
}

static double bound_of(const struct frame *f) {
    pith_info info = {.size = sizeof info};
    CHECK_OK(pith_inspect(f->bytes, f->length, &info, NULL));
    return info.bound;
}

/* Compress, decompress, compare. Returns the bytes of the frame. */
static size_t round_trip(const char *spec, const pith_view *view) {
    struct frame f = compress(spec, view, NULL, PITH_LAYOUT_CHECKSUMS);
    const size_t count = (size_t)pith_view_count(view), length = f.length;
    void *const out = allocate(count * pith_dtype_bytes(view->dtype));
    const pith_view flat = pith_view_flat(out, view->dtype, count);
    const pith_env env = test_env();
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, &env, &flat, NULL));
    check_bound(view->data, out, view->dtype, count, bound_of(&f));
    free(out);
    free(f.bytes);
    return length;
}

/* ---- Values ----------------------------------------------------------------------------------*/

static void the_bound_holds_for_every_value(void **state) {
    (void)state;
    static const char *const specs[] = {
        "embed",
        "embed:rel=0.1,mode=fast",
        "embed:abs=0.001,block=64",
        "embed:abs=0.001,entropy=rans",
        "embed:rel=1e-6,dim=7,block=256",
        "embed:abs=1e-30,dim=1",
        "embed:rel=0.05,range=3,zeros=signed,block=whole",
        "embed:rel=0.01,dim=100000,block=1024",
    };
    for (size_t d = 0; d < 4; d++)
        for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
            void *const values = lookups(dtypes[d], TABLES, ROWS, DIM, s);
            for (size_t i = 17; i < COUNT; i += 1009)
                set(values, dtypes[d], i, i % 2 ? (double)INFINITY : (double)NAN);
            const pith_view shaped =
                pith_view_dense(values, dtypes[d], 3, (uint64_t[]){TABLES, ROWS, DIM});
            const pith_view partial = pith_view_flat(values, dtypes[d], COUNT - 5);
            round_trip(specs[s], &shaped);
            round_trip(specs[s], &partial);
            free(values);
        }
}

/* What is decoded by non-temporal stores, to an odd place, is what is decoded otherwise. */
static void large_batches_are_as_small_ones(void **state) {
    enum { MANY = 45000, LENGTH = 47, STRIDE = 64 };
    const uint64_t shape[] = {MANY, LENGTH};
    (void)state;
    void *const values = lookups(PITH_F32, 1, MANY, LENGTH, 1);
    const pith_view view = pith_view_dense(values, PITH_F32, 2, shape);
    struct frame f = compress("embed:rel=0.01", &view, NULL, 0);
    float *const out = allocate((MANY * LENGTH + 1) * sizeof *out);
    float *const apart = allocate(MANY * STRIDE * sizeof *apart);
    const pith_view dense = pith_view_dense(out + 1, PITH_F32, 2, shape);
    pith_view strided = pith_view_dense(apart, PITH_F32, 2, shape);
    strided.stride[0] = STRIDE;
    const pith_env env = test_env();
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, &env, &dense, NULL));
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, &env, &strided, NULL));
    for (size_t i = 0; i < MANY; i++)
        CHECK(memcmp(out + 1 + i * LENGTH, apart + i * STRIDE, LENGTH * sizeof *out) == 0);
    free(values), free(out), free(apart), free(f.bytes);
}

static void hard_values_come_back(void **state) {
    (void)state;
    for (enum gen kind = 0; kind < GEN_COUNT; kind++)
        for (size_t d = 0; d < 4; d++)
            for (size_t count = 0; count < 100; count += 33) {
                void *const values = allocate(count * pith_dtype_bytes(dtypes[d]));
                gen_fill(kind, 3, dtypes[d], values, count);
                const pith_view view = pith_view_flat(values, dtypes[d], count);
                round_trip("embed:rel=0.01,dim=3", &view);
                round_trip("embed:abs=1e-4,dim=16,block=16,mode=fast", &view);
                free(values);
            }
}

/* ---- Rows ------------------------------------------------------------------------------------*/

static void repeated_rows_cost_little(void **state) {
    (void)state;
    float *const values = lookups(PITH_F32, 1, 4 * ROWS, DIM, 1);
    const pith_view view = pith_view_dense(values, PITH_F32, 2, (uint64_t[]){4 * ROWS, DIM});
    for (size_t i = ROWS; i < 4 * ROWS; i++)
        memcpy(values + i * DIM, values + i % ROWS * DIM, DIM * sizeof *values);
    const pith_view once = pith_view_dense(values, PITH_F32, 2, (uint64_t[]){ROWS, DIM});
    for (int fast = 0; fast < 2; fast++) {
        const char *const spec = fast ? "embed:mode=fast" : "embed";
        const size_t index = 3 * ROWS * 2; /* at most 16 bits for each of the others */
        CHECK(round_trip(spec, &view) < round_trip(spec, &once) + index);
    }
    free(values);
}

static void a_block_holds_rows_of_one_table(void **state) {
    (void)state;
    enum { LONG = 1100 }; /* rows that are not a small block */
    float *const values = lookups(PITH_F32, 3, LONG, DIM, 2);
    const pith_view all = pith_view_dense(values, PITH_F32, 3, (uint64_t[]){3, LONG, DIM});
    const char *const spec = "embed:abs=0.01";
    struct frame f = compress(spec, &all, NULL, 0);
    size_t sum = header_of(&f) + 16; /* the index */
    for (size_t t = 0; t < 3; t++) {
        const pith_view one =
            pith_view_dense(values + t * LONG * DIM, PITH_F32, 2, (uint64_t[]){LONG, DIM});
        struct frame g = compress(spec, &one, NULL, 0);
        sum += g.length - header_of(&g) - 16;
        free(g.bytes);
    }
    CHECK(f.length == sum);
    free(f.bytes);
    free(values);
}

static void dim_follows_from_the_layout(void **state) {
    (void)state;
    const struct {
        const char *spec;
        uint32_t ndim;
        uint64_t shape[3];
        const char *wanted;
    } cases[] = {
        {"embed", 3, {2, 30, 8}, "embed:rel=0.01,dim=8"},
        {"embed", 1, {480}, "embed:rel=0.01,dim=16"},
        {"embed:dim=5", 3, {2, 30, 8}, "embed:rel=0.01,dim=5"},
        {"embed:block=64", 2, {2, 240}, "embed:rel=0.01,dim=64,block=64"},
    };
    float *const values = lookups(PITH_F32, 1, 30, DIM, 3);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const pith_view view = pith_view_dense(values, PITH_F32, cases[k].ndim, cases[k].shape);
        struct frame f = compress(cases[k].spec, &view, NULL, 0);
        pith_info info = {.size = sizeof info};
        CHECK_OK(pith_inspect(f.bytes, f.length, &info, NULL));
        context("%s became %s", cases[k].spec, info.spec);
        CHECK(strcmp(info.spec, cases[k].wanted) == 0);
        free(f.bytes);
    }
    free(values);
}

/* ---- Slots, threads, instruction sets --------------------------------------------------------*/

static void slots_have_the_rows_of_the_layout(void **state) {
    (void)state;
    enum { SLOTS = 4 };
    pith_layout layout = {.size = sizeof layout,
                          .dtype = PITH_F32,
                          .ndim = 3,
                          .shape = {TABLES, ROWS, DIM},
                          .slots = SLOTS};
    float *const values = lookups(PITH_F32, TABLES, ROWS, DIM, 4), *const out = allocate(COUNT * 4);
    const pith_view view = pith_view_dense(values, PITH_F32, 3, layout.shape);
    const pith_view whole = pith_view_dense(out, PITH_F32, 3, layout.shape);
    const pith_env env = test_env();
    struct stream s;
    stream_open(&s, "embed:abs=0.01", &layout, &env);
    CHECK(!s.sizes.fixed);
    for (uint64_t i = 0; i < SLOTS; i++) {
        struct frame f = stream_encode(&s, &view, i, false);
        pith_info info = {.size = sizeof info};
        CHECK_OK(pith_inspect(f.bytes, f.length, &info, NULL));
        CHECK(strstr(info.spec, "dim=16") != NULL && f.length <= s.sizes.slot_bytes);
        CHECK_OK(decode_one(s.work, s.stream, i, f.bytes, f.length, &whole, 0));
        free(f.bytes);
    }
    check_bound(values, out, PITH_F32, COUNT, 0.01);
    stream_close(&s);
    free(values);
    free(out);
}

static void bytes_depend_on_nothing_but_the_values(void **state) {
    (void)state;
    static const char *const specs[] = {"embed:block=1024", "embed:mode=fast,block=4096",
                                        "embed:abs=0.03,dim=33,block=2048"};
    for (size_t d = 0; d < 4; d++)
        for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
            void *const values = lookups(dtypes[d], TABLES, ROWS, DIM, 5);
            const pith_view view =
                pith_view_dense(values, dtypes[d], 3, (uint64_t[]){TABLES, ROWS, DIM});
            struct frame f = compress(specs[s], &view, NULL, 0);
            pith_env env = test_env();
            env.run = run_backwards;
            env.threads = 3;
            env.cpu_mask = PITH_CPU_SCALAR;
            uint8_t *const again = allocate(f.length + 100000);
            size_t length = 0;
            CHECK_OK(pith_compress(specs[s], &view, NULL, NULL, &env, again, f.length + 100000,
                                   &length, NULL));
            context("%s dtype %u", specs[s], dtypes[d]);
            CHECK(length == f.length && memcmp(again, f.bytes, length) == 0);
            free(again);
            free(f.bytes);
            free(values);
        }
}

static void bad_specs_name_their_fault(void **state) {
    (void)state;
    char text[PITH_SPEC_MAX];
    CHECK_OK(pith_spec_check("embed:start=3,decay=log,steps=4096", text, sizeof text, NULL));
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("embed:start=0.5", text, sizeof text, NULL));
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("embed:abs=1,rel=1", text, sizeof text, NULL));
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("embed:mode=ratio", text, sizeof text, NULL));
}

/* ---- Classes of bounds -----------------------------------------------------------------------*/

static const char *const classes[] = {"embed:rel=0.001", "embed:rel=0.03", "embed:rel=0.2"};
enum { CLASSES = 3 };

/* Batches of a table whose rows lie around five points. */
static pith_row_statistics measured(uint32_t dtype, double spread) {
    pith_row_statistics t = {.size = sizeof t};
    const pith_env env = test_env();
    void *const values = lookups(dtype, 1, ROWS, DIM, 6);
    for (size_t i = 0; i < ROWS * DIM; i++) {
        const double noise = get(values, dtype, i) - 0.05 * (double)(i % DIM);
        set(values, dtype, i, (double)(i / DIM % 5) - 2 + spread * noise);
    }
    const pith_view view = pith_view_dense(values, dtype, 2, (uint64_t[]){ROWS, DIM});
    for (int k = 0; k < 2; k++)
        CHECK_OK(pith_row_statistics_sample(&t, classes, CLASSES, &view, &env, NULL));
    free(values);
    return t;
}

static void classes_follow_how_many_rows_become_equal(void **state) {
    (void)state;
    for (size_t d = 0; d < 4; d++) {
        const pith_row_statistics rough = measured(dtypes[d], 30), fine = measured(dtypes[d], 0.05);
        context("dtype %u", dtypes[d]);
        CHECK(rough.batches == 2 && rough.rows == 2 * ROWS && rough.distinct > 100);
        for (uint32_t k = 1; k < CLASSES; k++)
            CHECK(fine.coded[k] <= fine.coded[k - 1] && fine.coded[k] <= fine.distinct);
        CHECK(pith_row_statistics_index(&fine, 2) > 0.9 &&
              pith_row_statistics_index(&rough, 2) < 0.25);
        CHECK(pith_row_statistics_class(&rough, CLASSES, 0.25) == 2);
        CHECK(pith_row_statistics_class(&fine, CLASSES, 0.25) < 2);
        CHECK(pith_row_statistics_class(&fine, CLASSES, 1) == 2 &&
              pith_row_statistics_class(&fine, 1, 1) == 0);
    }
}

static void bad_samples_change_nothing(void **state) {
    (void)state;
    const float values[DIM] = {1};
    const pith_view view = pith_view_flat(values, PITH_F32, DIM);
    const pith_view bytes = pith_view_flat(values, PITH_U8, DIM);
    const char *const other[] = {"embed", "eb"}, *const lengths[] = {"embed:dim=4", "embed:dim=8"};
    pith_row_statistics t = {.size = sizeof t}, before = t;
    CHECK(isnan(pith_row_statistics_index(&t, PITH_ROW_STATISTICS_MAX)) &&
          pith_row_statistics_index(&t, 0) == 0);
    CHECK_STATUS(PITH_ERR_ARG, pith_row_statistics_sample(&t, classes, 0, &view, NULL, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_row_statistics_sample(&t, classes, 9, &view, NULL, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_row_statistics_sample(&t, NULL, 1, &view, NULL, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_row_statistics_sample(&t, other, 2, &view, NULL, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_row_statistics_sample(&t, lengths, 2, &view, NULL, NULL));
    CHECK_STATUS(PITH_ERR_DTYPE, pith_row_statistics_sample(&t, classes, 1, &bytes, NULL, NULL));
    CHECK(memcmp(&t, &before, sizeof t) == 0);
    CHECK_OK(pith_row_statistics_sample(&t, classes, CLASSES, &view, NULL, NULL));
    CHECK(t.batches == 1 && t.rows == 1 && t.distinct == 1 && t.coded[2] == 1);
}

/* A caller's struct may be shorter, or longer and 0 there, and nothing behind it is written. */
static void statistics_of_other_versions(void **state) {
    (void)state;
    const float values[DIM] = {1};
    const pith_view view = pith_view_flat(values, PITH_F32, DIM);
    struct {
        pith_row_statistics known;
        uint64_t newer;
    } t = {{0}, 0};
    CHECK_STATUS(PITH_ERR_ARG, pith_row_statistics_sample(&t.known, classes, 1, &view, NULL, NULL));
    CHECK(isnan(pith_row_statistics_index(&t.known, 0)));
    CHECK(pith_row_statistics_class(&t.known, 1, 1) == 0 && t.known.batches == 0);
    t.known.size = sizeof t;
    CHECK_OK(pith_row_statistics_sample(&t.known, classes, 1, &view, NULL, NULL));
    CHECK(t.known.size == sizeof t && t.known.rows == 1 && t.newer == 0);
    t.newer = 1;
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_row_statistics_sample(&t.known, classes, 1, &view, NULL, NULL));
    CHECK(isnan(pith_row_statistics_index(&t.known, 0)) && t.known.rows == 1);
    t.known.size = offsetof(pith_row_statistics, coded) + sizeof t.known.coded[0];
    t.known.coded[1] = 7;
    CHECK_OK(pith_row_statistics_sample(&t.known, classes, 2, &view, NULL, NULL));
    CHECK(t.known.rows == 2 && t.known.coded[0] == 2 && t.known.coded[1] == 7);
    CHECK(pith_row_statistics_index(&t.known, 0) == 0);
}

/* What is missing of the last row counts as 0, so that it may be equal to another. */
static void short_rows_end_with_zeros(void **state) {
    (void)state;
    const char *const spec[] = {"embed:rel=0.001,dim=4"};
    const float values[] = {1, 2, 0, 0, 5, 6, 7, 8, 1, 2};
    const pith_view view = pith_view_flat(values, PITH_F32, 10);
    pith_row_statistics t = {.size = sizeof t};
    CHECK_OK(pith_row_statistics_sample(&t, spec, 1, &view, NULL, NULL));
    CHECK(t.rows == 3 && t.distinct == 2 && t.coded[0] == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bound_holds_for_every_value),
        cmocka_unit_test(large_batches_are_as_small_ones),
        cmocka_unit_test(hard_values_come_back),
        cmocka_unit_test(repeated_rows_cost_little),
        cmocka_unit_test(a_block_holds_rows_of_one_table),
        cmocka_unit_test(dim_follows_from_the_layout),
        cmocka_unit_test(slots_have_the_rows_of_the_layout),
        cmocka_unit_test(bytes_depend_on_nothing_but_the_values),
        cmocka_unit_test(bad_specs_name_their_fault),
        cmocka_unit_test(classes_follow_how_many_rows_become_equal),
        cmocka_unit_test(bad_samples_change_nothing),
        cmocka_unit_test(statistics_of_other_versions),
        cmocka_unit_test(short_rows_end_with_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
