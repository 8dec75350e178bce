/* test_rows.c - the row dictionary, row maps and schedules of codec embed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/entropy.h"
#include "cpu.h"
#include "gen.h"
#include "kernels.h"
#include "predict/row_map.h"
#include "predict/rows.h"
#include "predict/schedule.h"
#include "util.h"

enum { ROWS = 600, LEVEL = 3 };
static const size_t dims[] = {1, 2, 3, 16, 17, 64};
enum { DIMS = sizeof dims / sizeof dims[0] };

/* ---- Dictionary ------------------------------------------------------------------------------*/

struct dictionary {
    struct pithi_rows rows;
    uint32_t *which;
};

/* Numbers rows that come in two calls. */
static struct dictionary number_rows(const int32_t *codes, size_t rows, size_t dim) {
    struct dictionary d = {.which = allocate(rows * sizeof *d.which)};
    pithi_rows_begin(&d.rows, dim, rows, allocate(rows * dim * sizeof *codes),
                     allocate(pithi_rows_table_bytes(rows)));
    pithi_rows_number_c(&d.rows, codes, rows / 3, d.which);
    pithi_rows_number_c(&d.rows, codes + rows / 3 * dim, rows - rows / 3, d.which + rows / 3);
    return d;
}

static void drop(struct dictionary *d) {
    free(d->rows.codes);
    free(d->rows.table);
    free(d->which);
}

static void check_numbers(const int32_t *codes, size_t rows, size_t dim) {
    struct dictionary d = number_rows(codes, rows, dim);
    size_t distinct = 0;
    for (size_t i = 0; i < rows; i++) {
        size_t earlier = 0;
        while (memcmp(codes + earlier * dim, codes + i * dim, dim * sizeof *codes)) earlier++;
        const size_t wanted = earlier < i ? d.which[earlier] : distinct++;
        context("dim %zu row %zu: number %u instead of %zu", dim, i, d.which[i], wanted);
        CHECK(d.which[i] == wanted);
        CHECK(memcmp(d.rows.codes + wanted * dim, codes + i * dim, dim * sizeof *codes) == 0);
    }
    CHECK(d.rows.distinct == distinct);
    drop(&d);
}

/* Rows that lie right behind the distinct ones get the same numbers and leave the same codes. */
static void check_in_place(const int32_t *codes, size_t rows, size_t dim) {
    const size_t bytes = rows * dim * sizeof *codes, first = rows / 3;
    struct dictionary d = number_rows(codes, rows, dim);
    struct dictionary in = {.which = allocate(rows * sizeof *in.which)};
    int32_t *const own = copy_of(codes, bytes);
    pithi_rows_begin(&in.rows, dim, rows, own, allocate(pithi_rows_table_bytes(rows)));
    pithi_rows_number_c(&in.rows, own, first, in.which);
    int32_t *const behind = own + in.rows.distinct * dim;
    memcpy(behind, codes + first * dim, (rows - first) * dim * sizeof *codes);
    pithi_rows_number_c(&in.rows, behind, rows - first, in.which + first);
    context("dim %zu: %zu rows in place, %zu elsewhere", dim, in.rows.distinct, d.rows.distinct);
    CHECK(in.rows.distinct == d.rows.distinct);
    CHECK(memcmp(in.which, d.which, rows * sizeof *d.which) == 0);
    CHECK(memcmp(own, d.rows.codes, d.rows.distinct * dim * sizeof *own) == 0);
    drop(&in);
    drop(&d);
}

/* Sums of these two rows are the same as those of zeros under the products that rows_tmpl.h adds
 * up: found by search. Searches among rows that all have one hash would pass half of them each. */
static void rows_of_one_hash_are_numbered_in_time(void **state) {
    (void)state;
    enum { EACH = 128, COUNT = EACH * EACH, DIM = 16 };
    static const int32_t none[2][DIM] = {{89, -1003, 424}, {0, 0, 0, -560, 439, 831}};
    int32_t *const codes = allocate(2ul * COUNT * DIM * sizeof *codes);
    for (int i = 0; i < 2 * COUNT; i++)
        for (int j = 0; j < DIM; j++)
            codes[i * DIM + j] = i % EACH * none[0][j] + i / EACH % EACH * none[1][j];
    struct pithi_kernels kernels;
    pithi_kernels_bind(&kernels, pithi_cpu_select(~0u));
    struct dictionary d = {.which = allocate(2ul * COUNT * sizeof *d.which)};
    pithi_rows_begin(&d.rows, DIM, 2 * COUNT, allocate(2ul * COUNT * DIM * sizeof *codes),
                     allocate(pithi_rows_table_bytes(2 * COUNT)));
    for (size_t i = 0; i < 2 * COUNT; i += COUNT / 2)
        kernels.rows_number(&d.rows, codes + i * DIM, COUNT / 2, d.which + i);
    context("%zu rows, %llu others passed", d.rows.distinct, (unsigned long long)d.rows.passed);
    CHECK(d.rows.distinct == COUNT && d.rows.passed < 16 * COUNT);
    for (uint32_t i = 0; i < 2 * COUNT; i++) CHECK(d.which[i] == i % COUNT);
    CHECK(memcmp(d.rows.codes, codes, (size_t)COUNT * DIM * sizeof *codes) == 0);
    free(codes);
    drop(&d);
}

static void rows_are_numbered_by_first_use(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (size_t k = 0; k < DIMS; k++)
        for (unsigned kinds = 1; kinds <= 4096; kinds *= 8) {
            const size_t dim = dims[k];
            int32_t *const codes = allocate(ROWS * dim * sizeof *codes);
            for (size_t i = 0; i < ROWS; i++) {
                uint64_t row = 1 + gen_next(&seed) % kinds;
                for (size_t j = 0; j < dim; j++) codes[i * dim + j] = (int32_t)gen_next(&row);
            }
            check_numbers(codes, ROWS, dim);
            check_in_place(codes, ROWS, dim);
            free(codes);
        }
}

/* The hash sums pairs of codes, each times a key; lanes 1 and y, and any multiple of both, give the
 * sum 0 when y is minus the first key over the second. */
static void rows_of_one_hash_are_told_apart(void **state) {
    (void)state;
    enum { COUNT = 50, DIM = 4 };
    uint64_t lanes[COUNT][DIM / 2];
    int32_t codes[COUNT * DIM];
    for (uint64_t i = 0; i < COUNT; i++) {
        lanes[i][0] = i % 40;
        lanes[i][1] = i % 40 * UINT64_C(0x3FBBFD3E35A4056D);
    }
    memcpy(codes, lanes, sizeof codes);
    check_numbers(codes, COUNT, DIM);
}

/* ---- Centres ---------------------------------------------------------------------------------*/

/* Codes around 100 * column, or 0. */
static void fill_columns(int32_t *codes, size_t rows, size_t dim, int32_t slope, uint64_t seed) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < dim; j++)
            codes[i * dim + j] = (int32_t)j * slope + (int32_t)(gen_next(&seed) % 9) - 4;
}

static void centres_pay_where_columns_differ(void **state) {
    (void)state;
    enum { DIM = 16 };
    int32_t codes[ROWS * DIM], centre[DIM];
    unsigned bytes = 0;
    fill_columns(codes, ROWS, DIM, 0, 7);
    CHECK(!pithi_rows_centre(codes, ROWS, DIM, centre, &bytes));
    const struct {
        int32_t slope;
        unsigned bytes;
    } cases[] = {{8, 1}, {-8, 1}, {9, 2}, {-2000, 2}, {200000, 4}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        context("slope %d", cases[k].slope);
        fill_columns(codes, ROWS, DIM, cases[k].slope, 7);
        CHECK(pithi_rows_centre(codes, ROWS, DIM, centre, &bytes) && bytes == cases[k].bytes);
        for (int32_t j = 0; j < DIM; j++) CHECK(abs(centre[j] - j * cases[k].slope) <= 1);
    }
    CHECK(!pithi_rows_centre(codes, 1, DIM, centre, &bytes)); /* one row is its own centre */
}

static void sunk_codes_rise_again(void **state) {
    (void)state;
    enum { COUNT = 64 };
    static const int32_t edge[] = {0, -1, 1, INT32_MAX, INT32_MIN, 1 << 22};
    int32_t codes[COUNT], sunk[COUNT], centre[COUNT];
    for (size_t i = 0; i < COUNT; i++) codes[i] = edge[i % 6], centre[i] = edge[i / 6 % 6];
    for (size_t dim = 1; dim <= COUNT; dim *= 2) {
        memcpy(sunk, codes, sizeof codes);
        pithi_rows_sink(sunk, COUNT / dim, dim, centre);
        for (size_t i = 0; i < COUNT; i++)
            CHECK((uint32_t)sunk[i] == (uint32_t)codes[i] - (uint32_t)centre[i % dim]);
        pithi_rows_lift(sunk, COUNT / dim, dim, centre);
        CHECK(memcmp(codes, sunk, sizeof codes) == 0);
    }
}

/* ---- Row maps --------------------------------------------------------------------------------*/

struct map {
    uint32_t which[ROWS];
    size_t rows, distinct;
};

/* New rows with a chance of 1 / every; others prefer low numbers when skewed. */
static struct map draw_map(size_t rows, unsigned every, bool skewed, uint64_t seed) {
    struct map m = {.rows = rows};
    for (size_t i = 0; i < rows; i++) {
        const bool is_new = i == 0 || gen_next(&seed) % every == 0;
        uint32_t number = is_new ? 0 : (uint32_t)(gen_next(&seed) % m.distinct);
        if (skewed && !is_new) number = (uint32_t)(gen_next(&seed) % (number + 1));
        m.which[i] = is_new ? (uint32_t)m.distinct++ : number;
    }
    return m;
}

struct coded {
    uint8_t bytes[8 * ROWS];
    size_t length;
    unsigned kind;
};

static struct pithi_entropy *coder_of(void) {
    const size_t bytes = pithi_entropy_bytes(ROWS, LEVEL);
    void *const memory = aligned_alloc(64, bytes);
    CHECK(memory);
    return pithi_entropy_open(memset(memory, 0xA5, bytes), bytes);
}

static bool put_map(const struct map *m, bool coded, size_t cap, struct coded *c) {
    void *const scratch = aligned_alloc(64, pithi_piece_scratch(ROWS));
    uint8_t *const space = allocate(pithi_rowmap_scratch(m->rows));
    struct pithi_pen pen = {c->bytes, cap,  LEVEL, scratch, coder_of(), pithi_rans_encode_c,
                            NULL,     false};
    uint32_t which[ROWS];
    memcpy(which, m->which, m->rows * sizeof *which);
    const struct pithi_rowmap map = {which, m->rows, m->distinct, space};
    const bool fits = pithi_rowmap_put(&pen, &map, ROWS, coded, &c->kind);
    c->length = (size_t)(pen.at - c->bytes);
    CHECK(pen.capacity == cap - c->length);
    free(pen.coder);
    free(space);
    free(scratch);
    return fits;
}

/* Reads a copy of exactly length bytes: how many are left, or -1 when they are no map. */
static int take_map(const uint8_t *bytes, size_t length, unsigned kind, const struct map *m,
                    uint32_t *which) {
    void *const scratch = aligned_alloc(64, pithi_piece_scratch(ROWS));
    uint8_t *const space = allocate(pithi_rowmap_scratch(m->rows)), *const copy =
                                                                        copy_of(bytes, length);
    struct pithi_reader r = {copy, length, scratch, coder_of(), pithi_rans_decode_c};
    const struct pithi_rowmap map = {which, m->rows, m->distinct, space};
    const char *const fault = pithi_rowmap_take(&r, &map, kind);
    free(r.coder);
    free(space);
    free(copy);
    free(scratch);
    return fault ? -1 : (int)r.left;
}

/* First uses ascend, and all numbers occur. */
static bool legal_numbers(const uint32_t *which, const struct map *m) {
    uint32_t known = 0;
    for (size_t i = 0; i < m->rows; i++) {
        if (which[i] > known) return false;
        known += which[i] == known;
    }
    return known == m->distinct;
}

static void check_map(const struct map *m, bool coded) {
    struct coded c;
    uint32_t which[ROWS];
    CHECK(put_map(m, coded, sizeof c.bytes, &c));
    const bool none = m->distinct == 1 || m->distinct == m->rows;
    CHECK(none ? c.kind == PITHI_ROWMAP_NONE && c.length == 0 : c.kind != PITHI_ROWMAP_NONE);
    CHECK(coded || c.kind != PITHI_ROWMAP_CODED);
    CHECK(take_map(c.bytes, c.length, c.kind, m, which) == 0);
    CHECK(memcmp(which, m->which, m->rows * sizeof *which) == 0);
    if (none) {
        CHECK(take_map(c.bytes, 0, PITHI_ROWMAP_PLAIN, m, which) < 0);
        return;
    }
    struct coded again;
    for (size_t cap = 0; cap < c.length; cap++) CHECK(!put_map(m, coded, cap, &again));
    if (!coded) CHECK(put_map(m, false, c.length, &again)); /* zstd may ask for more space */
    for (size_t length = 0; length < c.length; length++)
        CHECK(take_map(c.bytes, length, c.kind, m, which) < 0);
    CHECK(take_map(c.bytes, c.length, PITHI_ROWMAP_NONE, m, which) < 0);
    CHECK(take_map(c.bytes, c.length, PITHI_ROWMAP_CODED + 1, m, which) < 0);
    for (size_t bit = 0; bit < 8 * c.length; bit++) {
        c.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (take_map(c.bytes, c.length, c.kind, m, which) >= 0) CHECK(legal_numbers(which, m));
        c.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void maps_come_back(void **state) {
    (void)state;
    static const size_t rows[] = {1, 2, 7, 8, 9, 64, 65, 200};
    static const unsigned every[] = {1, 2, 5, 50, 1000};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (size_t e = 0; e < sizeof every / sizeof every[0]; e++)
            for (int how = 0; how < 4; how++) {
                const struct map m = draw_map(rows[r], every[e], how & 1, 11 * r + e);
                context("rows %zu distinct %zu coded %d", m.rows, m.distinct, how >> 1);
                check_map(&m, how >> 1);
            }
}

static void skewed_maps_are_coded(void **state) {
    (void)state;
    const struct map skewed = draw_map(ROWS, 3, true, 3), flat = draw_map(12, 2, false, 3);
    struct coded c, plain;
    CHECK(put_map(&skewed, true, sizeof c.bytes, &c) && c.kind == PITHI_ROWMAP_CODED);
    CHECK(put_map(&skewed, false, sizeof plain.bytes, &plain) && c.length < plain.length);
    CHECK(put_map(&flat, true, sizeof c.bytes, &c) && c.kind == PITHI_ROWMAP_PLAIN);
}

/* A symbol of no class is refused before numbers are shifted by it. */
static void symbols_of_no_class_are_refused(void **state) {
    enum { LARGEST = 88 };
    (void)state;
    const struct map m = {.rows = 3, .distinct = 2};
    uint32_t which[ROWS];
    for (unsigned symbol = LARGEST + 1; symbol < 256; symbol++) {
        void *const scratch = aligned_alloc(64, pithi_piece_scratch(ROWS));
        uint8_t bytes[256] = {0};
        const uint8_t symbols[] = {0, 0, (uint8_t)symbol};
        struct pithi_pen pen = {bytes,      sizeof bytes,        LEVEL, scratch,
                                coder_of(), pithi_rans_encode_c, NULL,  false};
        CHECK(pithi_piece_put(&pen, ROWS, symbols, sizeof symbols));
        context("symbol %u", symbol);
        CHECK(take_map(bytes, sizeof bytes, PITHI_ROWMAP_CODED, &m, which) < 0);
        free(pen.coder);
        free(scratch);
    }
}

/* ---- Rows to their places --------------------------------------------------------------------*/

static void rows_go_to_their_places(void **state) {
    static const size_t lengths[] = {1, 2, 24, 63, 64, 65, 128, 200, 8191, 8192, 8193, 20000};
    enum { FROM = 9, TO = 150 };
    (void)state;
    for (size_t k = 0; k < 2 * sizeof lengths / sizeof *lengths; k++) {
        const size_t bytes = lengths[k / 2];
        uint32_t which[TO];
        uint8_t *const from = allocate(FROM * bytes), *const to = allocate(TO * bytes);
        for (size_t i = 0; i < FROM * bytes; i++) from[i] = (uint8_t)gen_next(&(uint64_t){i});
        for (size_t i = 0; i < TO; i++) which[i] = (uint32_t)(i * i % FROM);
        pithi_rows_place(to, from, which, TO, bytes, k % 2 ? pithi_move_c : NULL);
        context("rows of %zu bytes", bytes);
        for (size_t i = 0; i < TO; i++)
            CHECK(memcmp(to + i * bytes, from + which[i] * bytes, bytes) == 0);
        free(from);
        free(to);
    }
}

/* ---- Schedules -------------------------------------------------------------------------------*/

static void schedules_fall_from_start_to_one(void **state) {
    (void)state;
    enum { STEPS = 1000 };
    for (enum pithi_decay d = PITHI_DECAY_STEP; d <= PITHI_DECAY_LOG; d++) {
        double last = 3;
        CHECK(pithi_schedule_factor(d, 3, STEPS, 0) == 3);
        for (uint64_t i = 0; i <= STEPS + 1; i++) {
            const double factor = pithi_schedule_factor(d, 3, STEPS, i);
            context("decay %d step %d: %.17g", (int)d, (int)i, factor);
            CHECK(factor <= last && factor >= 1 && (i < STEPS || factor == 1));
            last = factor;
        }
    }
    CHECK(pithi_schedule_factor(PITHI_DECAY_STEP, 3, STEPS, STEPS - 1) == 3);
    CHECK(pithi_schedule_factor(PITHI_DECAY_NONE, 3, STEPS, 0) == 1);
    CHECK(pithi_schedule_factor(PITHI_DECAY_LOG, 3, 0, 0) == 1);
}

static void schedules_have_stated_values(void **state) {
    (void)state;
    CHECK(pithi_schedule_factor(PITHI_DECAY_LINEAR, 2, 8, 2) == 1.75);
    CHECK(pithi_schedule_factor(PITHI_DECAY_STAIRS, 9, 80, 9) == 9);
    CHECK(pithi_schedule_factor(PITHI_DECAY_STAIRS, 9, 80, 10) == 8);
    CHECK(pithi_schedule_factor(PITHI_DECAY_STAIRS, 9, 80, 79) == 2);
    CHECK(pithi_schedule_factor(PITHI_DECAY_LOG, 3, 15, 3) == 2); /* log2 4 / log2 16 */
    CHECK(pithi_schedule_factor(PITHI_DECAY_LOG, 33, UINT32_MAX, 1) == 32);
    const double third = pithi_schedule_factor(PITHI_DECAY_LOG, 2, 7, 1); /* 1 - 1 / 3 */
    CHECK(third > 1.666666 && third < 1.666667);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_numbered_by_first_use),
        cmocka_unit_test(rows_of_one_hash_are_numbered_in_time),
        cmocka_unit_test(rows_of_one_hash_are_told_apart),
        cmocka_unit_test(centres_pay_where_columns_differ),
        cmocka_unit_test(sunk_codes_rise_again),
        cmocka_unit_test(maps_come_back),
        cmocka_unit_test(skewed_maps_are_coded),
        cmocka_unit_test(symbols_of_no_class_are_refused),
        cmocka_unit_test(rows_go_to_their_places),
        cmocka_unit_test(schedules_fall_from_start_to_one),
        cmocka_unit_test(schedules_have_stated_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
