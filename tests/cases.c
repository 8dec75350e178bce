/* cases.c - codecs.def as a table: one case per row, dtype and base dtype.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

#include "util.h"

#define NONE 0u
#define SAME 1u
#define REALS (1u << PITH_F32 | 1u << PITH_BF16 | 1u << PITH_F16)
#define FLOATS (REALS | 1u << PITH_F64)
#define ALL 0xFFFEu
enum { EXACT, DIFFERENCE, BOUND, SPARSE, VARIABLE = 4, OVERFLOWS = 8, ZEROS = 16, PAGES = 32 };
static int kind_of(int flags) { return flags & 3; }

struct row {
    const char *codec, *spec;
    uint32_t dtypes, bases;
    int kind;
};
static const struct row rows[] = {
#define PITH_TEST(codec, spec, dtypes, bases, kind) {#codec, spec, dtypes, bases, kind},
#define PITH_KEY(name, kind, words)
#define PITH_STREAM_KEY(codec, key)
#include "codecs.def"
};

enum { ROWS = sizeof rows / sizeof rows[0], CASES_MAX = ROWS * 64 };
static struct test_case table[CASES_MAX];
static size_t table_size;

static size_t number_after(const char *spec, const char *key, size_t otherwise) {
    const char *at = strstr(spec, key);
    return at && !strstr(spec, "=whole") ? strtoul(at + strlen(key), NULL, 10) : otherwise;
}

/* The default of a key, from the codec's own table. */
static size_t default_of(const char *codec, const char *key, size_t otherwise) {
    pith_codec_info info = {.size = sizeof info};
    pith_key_info k = {.size = sizeof k};
    for (uint32_t c = 0; pith_codec_at(c, &info) == PITH_OK; c++)
        for (uint32_t i = 0; pith_codec_key_at(c, i, &k) == PITH_OK; i++)
            if (strcmp(info.name, codec) == 0 && strcmp(k.name, key) == 0)
                return strtoul(k.initial, NULL, 10);
    return otherwise;
}

static void add_case(const struct row *r, uint32_t dtype, uint32_t base_dtype) {
    if (table_size == CASES_MAX) abort();
    const size_t group = number_after(r->spec, "group=", default_of(r->codec, "group", 1));
    table[table_size++] = (struct test_case){
        .codec = r->codec,
        .spec = r->spec,
        .dtype = dtype,
        .base_dtype = base_dtype,
        .exact = kind_of(r->kind) == EXACT,
        .stochastic = strstr(r->spec, "stochastic") != NULL,
        .fixed = kind_of(r->kind) < BOUND && !(r->kind & VARIABLE),
        .bounded = kind_of(r->kind) == BOUND,
        .sparse = kind_of(r->kind) == SPARSE,
        .overflows = r->kind & (OVERFLOWS | PAGES),
        .signed_zeros = strstr(r->spec, "zeros=signed") != NULL,
        .keeps_zeros = r->kind & ZEROS,
        .base_hash = !strstr(r->spec, "base_hash=off"),
        .idempotent = r->kind & PAGES,
        .group = group,
        /* A tensor of one dimension is a page of one token. */
        .block = r->kind & PAGES
                     ? 2 * group
                     : number_after(r->spec, "block=", default_of(r->codec, "block", 1)),
    };
}

size_t case_step(void) { return test_step(1) == 1 ? 1 : 3; }

static void add_row(const struct row *r) {
    const size_t first = table_size;
    for (uint32_t dtype = 1; dtype < 16; dtype++) {
        if (!(r->dtypes >> dtype & 1)) continue;
        add_case(r, dtype, PITH_NONE);
        if (r->bases == SAME) add_case(r, dtype, dtype);
        for (uint32_t base = 1; base < 16 && r->bases != SAME; base++)
            if (r->bases >> base & 1) add_case(r, dtype, base);
    }
    const size_t all = table_size - first, step = all < case_step() ? all : case_step();
    table_size = first;
    for (size_t i = (size_t)(r - rows) % step; i < all; i += step)
        table[table_size++] = table[first + i];
}

const struct test_case *case_at(size_t index) {
    if (!table_size)
        for (size_t i = 0; i < ROWS; i++) add_row(&rows[i]);
    return index < table_size ? &table[index] : NULL;
}

void case_counts(const struct test_case *c, size_t counts[CASE_COUNTS]) {
    const size_t g = c->group, b = c->block;
    const size_t all[] = {0,     1, 2,     7,         15,    16, 17,    33,
                          g - 1, g, g + 1, 2 * g + 5, b - 1, b,  b + 1, 2 * b + 3};
    size_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bool seen = false;
        for (size_t k = 0; k < n; k++) seen = seen || counts[k] == all[i];
        if (!seen) counts[n++] = all[i];
    }
    counts[n] = SIZE_MAX;
}
