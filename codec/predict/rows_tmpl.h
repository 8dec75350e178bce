/* rows_tmpl.h - number rows of whole vectors of codes in 16 lanes, written once for each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h. Rows of other lengths go to the scalar
 * reference. */
#ifndef PITHI_PREDICT_ROWS_TMPL_H
#define PITHI_PREDICT_ROWS_TMPL_H

#include "common/lanes_tmpl.h"
#include "common/nh.h"
#include "predict/rows.h"

enum { ROW_LANES = 16, ROWS_AT_ONCE = 16 };

/* Multiplies the codes of a row by odd numbers, and adds the products up in 16 lanes. The numbers
 * of a vector are those of the one before, each and an even number more. */
ALWAYS v16 products_of_row(const int32_t *row, size_t vectors, v16 factors) {
    v16 sums = v_mul(v_load((const uint8_t *)row), factors);
    for (size_t k = 1; k < vectors; k++) {
        factors = v_add(factors, v_set(0x3504F334u));
        sums = v_add(sums, v_mul(v_load((const uint8_t *)(row + ROW_LANES * k)), factors));
    }
    return sums;
}

/* Writes the sum of the products of each of n rows, 1 <= n <= 16. */
ALWAYS void sums_of_rows(const int32_t *rows, size_t n, size_t vectors,
                         uint32_t sums[ROWS_AT_ONCE]) {
    /* Numbers without any relation to each other: from splitmix64, made odd. */
    static const uint32_t factors[ROW_LANES] = {0xE220A839, 0x6E789E6B, 0x06C45D19, 0xF88BB8A9,
                                                0x1B39896B, 0x53CB9F0D, 0x2C829ABF, 0xC5841333,
                                                0x7B1DCDAF, 0xA1B965F5, 0x8009454F, 0x724C81ED,
                                                0x51A8749B, 0x747EA2EB, 0x1F4532E1, 0x3AC916AB};
    const v16 by = v_load((const uint8_t *)factors);
    vquad four[4];
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
        v16 row[4];
        PITHI_UNROLL for (size_t j = 0; j < 4; j++) {
            const size_t i = 4 * k + j < n ? 4 * k + j : n - 1;
            row[j] = products_of_row(rows + i * vectors * ROW_LANES, vectors, by);
        }
        four[k] = v_total_four(row);
    }
    v_store((uint8_t *)sums, v_total_all(four));
}

ALWAYS void copy_row(int32_t *to, const int32_t *row, size_t vectors) {
    for (size_t k = 0; k < vectors * ROW_LANES; k += ROW_LANES)
        v_store((uint8_t *)(to + k), v_load((const uint8_t *)(row + k)));
}

ALWAYS bool rows_differ(const int32_t *a, const int32_t *b, size_t vectors) {
    for (size_t k = 0; k < vectors * ROW_LANES; k += ROW_LANES)
        if (v_any(v_xor(v_load((const uint8_t *)(a + k)), v_load((const uint8_t *)(b + k)))))
            return true;
    return false;
}

/* Whether a row is new, which nobody can foresee, is no branch: it is copied behind the distinct
 * rows in any case, and compared with the row that its first place in the table has, or else with
 * itself. */
ALWAYS void number_rows(struct pithi_rows *r, const int32_t *codes, size_t count, size_t vectors,
                        uint32_t *which) {
    const size_t dim = vectors * ROW_LANES, mask = r->mask;
    const uint32_t numbers = (1u << PITHI_ROWS_NUMBER_BITS) - 1;
    int32_t *const distinct = r->codes;
    uint32_t *const table = r->table;
    uint32_t sums[ROWS_AT_ONCE], behind = (uint32_t)r->distinct;
    for (size_t n; count; which += n, count -= n) {
        n = count < ROWS_AT_ONCE ? count : ROWS_AT_ONCE;
        if (pithi_rows_crowded(r)) break;
        r->numbered += n;
        sums_of_rows(codes, n, vectors, sums);
        for (size_t i = 0; i < n; i++, codes += dim) {
            const uint64_t hash = sums[i] * PITHI_NH_WEYL;
            const uint32_t tag = pithi_rows_tag(hash);
            uint32_t *const place = &table[(size_t)(hash >> 32) & mask];
            const uint32_t is_new = *place == 0, all = 0u - is_new;
            const uint32_t entry = *place | ((tag | (behind + 1)) & all);
            const uint32_t number = (entry & numbers) - 1;
            copy_row(distinct + (size_t)behind * dim, codes, vectors);
            if (__builtin_expect((entry ^ tag) > numbers ||
                                     rows_differ(distinct + (size_t)number * dim, codes, vectors),
                                 0)) {
                r->distinct = behind;
                which[i] = pithi_rows_find(r, codes, hash);
                behind = (uint32_t)r->distinct;
                continue;
            }
            *place = entry;
            which[i] = number;
            behind += is_new;
        }
    }
    r->distinct = behind;
    if (!count) return;
    pithi_rows_seed(r);
    pithi_rows_number_c(r, codes, count, which);
}

static void rows_number(struct pithi_rows *r, const int32_t *codes, size_t count, uint32_t *which) {
    if (r->seed || r->dim % ROW_LANES)
        pithi_rows_number_c(r, codes, count, which);
    else if (r->dim == ROW_LANES)
        number_rows(r, codes, count, 1, which);
    else
        number_rows(r, codes, count, r->dim / ROW_LANES, which);
}

#endif
