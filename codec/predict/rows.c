/* rows.c - find rows of codes that occurred before, and centre columns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/rows.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/endian.h"
#include "common/nh.h"
#include "predict/rows_value.h"

/* ---- Dictionary ------------------------------------------------------------------------------*/

/* Returns the places of a table: at most a quarter of them are taken, so that the first one is
 * mostly free for a new row, which branches foresee. */
static size_t places(size_t rows) {
    size_t n = 16;
    while (n < 4 * rows) n *= 2;
    return n;
}

size_t pithi_rows_table_bytes(size_t rows) { return places(rows) * sizeof(uint32_t); }

void pithi_rows_begin(struct pithi_rows *r, size_t dim, size_t most, int32_t *codes,
                      uint32_t *table) {
    *r = (struct pithi_rows){.dim = dim, .codes = codes, .table = table};
    r->mask = places(most) - 1;
    memset(table, 0, pithi_rows_table_bytes(most));
}

enum { LANES = 8 };

/* Keys without any relation to each other, for codes are small numbers: from splitmix64, made
 * odd. */
static const uint64_t keys[LANES] = {UINT64_C(0xE220A8397B1DCDAF), UINT64_C(0x6E789E6AA1B965F5),
                                     UINT64_C(0x06C45D188009454F), UINT64_C(0xF88BB8A8724C81ED),
                                     UINT64_C(0x1B39896A51A8749B), UINT64_C(0x53CB9F0C747EA2EB),
                                     UINT64_C(0x2C829ABE1F4532E1), UINT64_C(0xC584133AC916AB3D)};

static uint64_t mixed(uint64_t sum) { return (sum ^ sum >> 32) * PITHI_NH_WEYL; }

static uint64_t hash_row(const struct pithi_rows *r, const int32_t *row) {
    size_t dim = r->dim;
    uint64_t sum = 0;
    if (r->seed) return XXH64(row, dim * sizeof *row, r->seed);
    for (; dim >= 2 * LANES; row += 2 * LANES, dim -= 2 * LANES) {
        sum = mixed(sum);
        for (size_t k = 0; k < LANES; k++) sum += pithi_get64(row + 2 * k) * keys[k];
    }
    sum = mixed(sum);
    for (size_t k = 0; k < dim / 2; k++) sum += pithi_get64(row + 2 * k) * keys[k];
    if (dim % 2) sum += (uint32_t)row[dim - 1] * keys[dim / 2];
    return mixed(sum);
}

/* Compares rows. A call of memcmp would take longer than a short row. */
static bool same_rows(const int32_t *a, const int32_t *b, size_t dim) {
    uint64_t differ = 0;
    for (; dim >= 2 * LANES; a += 2 * LANES, b += 2 * LANES, dim -= 2 * LANES) {
        for (size_t k = 0; k < LANES; k++)
            differ |= pithi_get64(a + 2 * k) ^ pithi_get64(b + 2 * k);
        if (differ) return false;
    }
    for (size_t j = 0; j < dim; j++) differ |= (uint32_t)(a[j] ^ b[j]);
    return differ == 0;
}

/* Copies a row. A call of memcpy would take longer than a short row. */
static void copy_codes(int32_t *to, const int32_t *row, size_t dim) {
    for (; dim >= LANES; to += LANES, row += LANES, dim -= LANES)
        memcpy(to, row, LANES * sizeof *row);
    for (size_t j = 0; j < dim; j++) to[j] = row[j];
}

enum { NUMBER_BITS = PITHI_ROWS_NUMBER_BITS };

/* Places are found by the upper bits of the hash, which depend on all of the sum. */
uint32_t pithi_rows_find(struct pithi_rows *r, const int32_t *row, uint64_t hash) {
    const uint32_t tag = pithi_rows_tag(hash);
    for (size_t at = (size_t)(hash >> 32);; at++, r->passed++) {
        uint32_t *const place = &r->table[at & r->mask];
        if (*place == 0) {
            *place = tag | (uint32_t)(r->distinct + 1);
            int32_t *const to = r->codes + r->distinct * r->dim;
            if (to != row) copy_codes(to, row, r->dim);
            return (uint32_t)r->distinct++;
        }
        const uint32_t number = (*place & ((1u << NUMBER_BITS) - 1)) - 1;
        if ((*place ^ tag) >> NUMBER_BITS == 0 &&
            same_rows(r->codes + number * r->dim, row, r->dim))
            return number;
    }
}

void pithi_rows_seed(struct pithi_rows *r) {
    const size_t rows = r->distinct;
    memset(r->table, 0, (r->mask + 1) * sizeof *r->table);
    /* Where memory lies differs from process to process. No number depends on it. */
    r->seed = ((uintptr_t)r ^ (uintptr_t)r->table) | 1;
    r->distinct = 0;
    while (r->distinct < rows) { /* each is where it was, and new */
        const int32_t *const row = r->codes + r->distinct * r->dim;
        pithi_rows_find(r, row, hash_row(r, row));
    }
}

void pithi_rows_number_c(struct pithi_rows *r, const int32_t *codes, size_t count,
                         uint32_t *which) {
    enum { MOST = 32 };
    uint64_t hash[MOST]; /* hashes are computed before branches that nobody can foresee */
    for (size_t n; count; codes += n * r->dim, which += n, count -= n) {
        n = count < MOST ? count : MOST;
        if (pithi_rows_crowded(r)) pithi_rows_seed(r);
        r->numbered += n;
        for (size_t i = 0; i < n; i++) {
            hash[i] = hash_row(r, codes + i * r->dim);
            __builtin_prefetch(&r->table[(size_t)(hash[i] >> 32) & r->mask], 1);
        }
        for (size_t i = 0; i < n; i++) which[i] = pithi_rows_find(r, codes + i * r->dim, hash[i]);
    }
}

/* ---- Centres ---------------------------------------------------------------------------------*/

/* Computes the mean of columns. Sums of codes within a quantizer's limit do not overflow; others
 * make a poor centre. */
static void mean(const int32_t *codes, size_t samples, size_t stride, size_t dim, int32_t *centre) {
    memset(centre, 0, dim * sizeof *centre);
    for (size_t i = 0; i < samples; i++)
        for (size_t j = 0; j < dim; j++)
            centre[j] = (int32_t)((uint32_t)centre[j] + (uint32_t)codes[i * stride + j]);
    for (size_t j = 0; j < dim; j++) centre[j] = pithi_rows_mean((uint32_t)centre[j], samples);
}

static unsigned bytes_for(const int32_t *centre, size_t dim) {
    uint32_t all = 0;
    for (size_t j = 0; j < dim; j++) all |= pithi_zigzag((uint32_t)centre[j]);
    return pithi_rows_centre_width(all);
}

bool pithi_rows_centre(const int32_t *codes, size_t rows, size_t dim, int32_t *centre,
                       unsigned *bytes) {
    const struct pithi_rows_sample s = pithi_rows_sample_of(rows);
    const size_t stride = s.every * dim;
    mean(codes, s.count, stride, dim, centre);
    *bytes = bytes_for(centre, dim);
    codes += s.other * dim;
    uint64_t without = 0, with = 0;
    for (size_t i = 0; i < s.count; i++)
        for (size_t j = 0; j < dim; j++) {
            const uint32_t code = (uint32_t)codes[i * stride + j];
            without += pithi_rows_cost(code);
            with += pithi_rows_cost(code - (uint32_t)centre[j]);
        }
    return pithi_rows_pays(without, with, s.every, *bytes, dim);
}

/* The centres are nobody's codes: without the word each row would be compared with their place. */
void pithi_rows_sink(int32_t *restrict codes, size_t rows, size_t dim,
                     const int32_t *restrict centre) {
    for (size_t i = 0; i < rows; i++, codes += dim)
        for (size_t j = 0; j < dim; j++)
            codes[j] = (int32_t)((uint32_t)codes[j] - (uint32_t)centre[j]);
}

void pithi_rows_lift(int32_t *restrict codes, size_t rows, size_t dim,
                     const int32_t *restrict centre) {
    for (size_t i = 0; i < rows; i++, codes += dim)
        for (size_t j = 0; j < dim; j++)
            codes[j] = (int32_t)((uint32_t)codes[j] + (uint32_t)centre[j]);
}

/* ---- Rows to their places --------------------------------------------------------------------*/

/* Copies a row. Stores wait for their lines, one after the other, so lines are prefetched from
 * further away. */
static void copy_row(uint8_t *to, const uint8_t *row, size_t bytes) {
    enum { LINE = 64, PREFETCH = 2048 };
    size_t at = 0;
    for (; at + LINE <= bytes; at += LINE) {
        __builtin_prefetch(to + at + PREFETCH, 1);
        memcpy(to + at, row + at, LINE);
    }
    __builtin_prefetch(to + at + PREFETCH, 1);
    if (at < bytes) memcpy(to + at, row + at, bytes - at);
}

static void place(uint8_t *to, const uint8_t *from, const uint32_t *which, size_t rows,
                  size_t bytes) {
    for (size_t i = 0; i < rows; i++, to += bytes) copy_row(to, from + which[i] * bytes, bytes);
}

void pithi_rows_place(uint8_t *to, const uint8_t *from, const uint32_t *which, size_t rows,
                      size_t bytes, pithi_move_fn *move) {
    enum { STRIP = 8192 };
    uint8_t strip[STRIP]; /* rows that end within a line do not cut it here */
    if (!move || bytes > STRIP) {
        place(to, from, which, rows, bytes);
        return;
    }
    for (size_t n; rows; to += n * bytes, which += n, rows -= n) {
        n = rows < STRIP / bytes ? rows : STRIP / bytes;
        place(strip, from, which, n, bytes);
        move(to, strip, n * bytes);
    }
}
