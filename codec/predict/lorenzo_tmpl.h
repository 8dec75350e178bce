/* lorenzo_tmpl.h - differences in a tile in 16 lanes, written once for each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h and defined sums(x): of all lanes up to each.
 * Rows' ends go to the scalar reference. */
#ifndef PITHI_PREDICT_LORENZO_TMPL_H
#define PITHI_PREDICT_LORENZO_TMPL_H

#include "common/lanes_tmpl.h"
#include "common/minmax.h"
#include "predict/lorenzo.h"

/* ---- Forward ---------------------------------------------------------------------------------*/

ALWAYS v16 zigzag(v16 d) { return v_xor(v_add(d, d), v_sar31(d)); }

ALWAYS v16 at(const int32_t *codes, const struct pithi_lines *l, unsigned k) {
    return v_load((const uint8_t *)(codes - l->back[k]));
}

/* Returns the alternating sum of 1, 2, 4 or 8 rows. */
ALWAYS v16 line_sum(const int32_t *codes, const struct pithi_lines *l, unsigned lines) {
    v16 sum = v_load((const uint8_t *)codes);
    if (lines > 1) sum = v_sub(sum, at(codes, l, 1));
    if (lines > 2) sum = v_add(v_sub(sum, at(codes, l, 2)), at(codes, l, 3));
    if (lines > 4) {
        sum = v_add(v_sub(sum, at(codes, l, 4)), at(codes, l, 5));
        sum = v_sub(v_add(sum, at(codes, l, 6)), at(codes, l, 7));
    }
    return sum;
}

/* Makes words of whole groups of a row. */
ALWAYS void predict_groups(const struct pithi_lines *l, unsigned lines, const int32_t *codes,
                           size_t count, uint32_t *words) {
    v16 last = v_set(l->place[3] ? pithi_lines_sum(l, codes - 1) : 0);
    for (size_t i = 0; i < count; i += 16) {
        const v16 sum = line_sum(codes + i, l, lines);
        v_store((uint8_t *)(words + i), zigzag(v_sub(sum, v_before(sum, last))));
        last = sum;
    }
}

static void predict_line(const struct pithi_lines *l, const int32_t *codes, size_t count,
                         uint32_t *words) {
    switch (l->count) {
    case 1: predict_groups(l, 1, codes, count, words); break;
    case 2: predict_groups(l, 2, codes, count, words); break;
    case 4: predict_groups(l, 4, codes, count, words); break;
    default: predict_groups(l, 8, codes, count, words);
    }
}

/* Makes words of order 0, which is no difference, so that rows do not matter. */
static void predict_none(const int32_t *codes, size_t count, uint32_t *words) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        v_store((uint8_t *)(words + i), zigzag(v_load((const uint8_t *)(codes + i))));
    for (; i < count; i++) words[i] = pithi_zigzag((uint32_t)codes[i]);
}

static void predict(const int32_t *codes, const uint32_t extent[PITHI_TILE_NDIM], unsigned order,
                    size_t from, size_t count, uint32_t *words) {
    struct pithi_lines l;
    if (!order) {
        predict_none(codes, count, words);
        return;
    }
    pithi_lines_begin(&l, extent, order, from);
    while (count) {
        const size_t n = pithi_min(count, pithi_lines_left(&l)), whole = n / 16 * 16;
        if (whole) predict_line(&l, codes, whole, words);
        if (whole) pithi_lines_advance(&l, whole);
        if (n > whole) pithi_predict_row(&l, codes + whole, n - whole, words + whole);
        if (n > whole) pithi_lines_advance(&l, n - whole);
        codes += n, words += n, count -= n;
    }
}

/* ---- A whole tile: write ---------------------------------------------------------------------*/

/* Makes words of whole groups of a row, from which so many sums are subtracted. */
ALWAYS void differ_groups(struct pithi_unpredict *u, unsigned dims, uint32_t *sum[3],
                          const bool starts[3], const int32_t *codes, size_t count,
                          uint32_t *words) {
    v16 last = v_set(u->before);
    for (size_t i = 0; i < count; i += 16) {
        const v16 code = v_load((const uint8_t *)(codes + i));
        v16 x = v_sub(code, v_before(code, last));
        last = code;
        for (unsigned k = 0; k < dims; k++) {
            uint8_t *const p = (uint8_t *)(sum[k] + i);
            const v16 all = x;
            if (!starts[k]) x = v_sub(x, v_load(p));
            v_store(p, all);
        }
        v_store((uint8_t *)(words + i), zigzag(x));
    }
    u->before = (uint32_t)codes[count - 1];
}

static void differ_line(struct pithi_unpredict *u, const int32_t *codes, size_t count,
                        uint32_t *words) {
    uint32_t *sum[3];
    bool starts[3];
    switch (pithi_unpredict_sums(u, sum, starts)) {
    case 0: differ_groups(u, 0, sum, starts, codes, count, words); break;
    case 1: differ_groups(u, 1, sum, starts, codes, count, words); break;
    case 2: differ_groups(u, 2, sum, starts, codes, count, words); break;
    default: differ_groups(u, 3, sum, starts, codes, count, words);
    }
    pithi_unpredict_advance(u, count);
}

static void differ(struct pithi_unpredict *u, const int32_t *codes, size_t count, uint32_t *words) {
    if (!u->order) {
        predict_none(codes, count, words);
        return;
    }
    while (count) {
        const size_t n = pithi_min(count, u->extent[3] - u->place[3]), whole = n / 16 * 16;
        if (whole) differ_line(u, codes, whole, words);
        if (n > whole) pithi_differ_c(u, codes + whole, n - whole, words + whole);
        words += n, codes += n, count -= n;
    }
}

/* ---- A whole tile: read ----------------------------------------------------------------------*/

ALWAYS v16 unzigzag(v16 w) { return v_xor(v_shr(w, 1), v_sub(v_set(0), v_and(w, v_set(1)))); }

/* Makes codes of whole groups of a row, to which so many sums are added. */
ALWAYS void unpredict_groups(struct pithi_unpredict *u, unsigned dims, uint32_t *sum[3],
                             const bool starts[3], const uint32_t *words, size_t count,
                             int32_t *codes) {
    v16 last = v_set(u->before);
    for (size_t i = 0; i < count; i += 16) {
        v16 x = v_add(sums(unzigzag(v_load((const uint8_t *)(words + i)))), last);
        last = v_last(x);
        for (unsigned k = 0; k < dims; k++) {
            uint8_t *const p = (uint8_t *)(sum[k] + i);
            if (!starts[k]) x = v_add(x, v_load(p));
            v_store(p, x);
        }
        v_store((uint8_t *)(codes + i), x);
    }
    u->before = v_first(last);
}

static void unpredict_none(const uint32_t *words, size_t count, int32_t *codes) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        v_store((uint8_t *)(codes + i), unzigzag(v_load((const uint8_t *)(words + i))));
    for (; i < count; i++) codes[i] = (int32_t)pithi_unzigzag(words[i]);
}

static void unpredict_line(struct pithi_unpredict *u, const uint32_t *words, size_t count,
                           int32_t *codes) {
    uint32_t *sum[3];
    bool starts[3];
    switch (pithi_unpredict_sums(u, sum, starts)) {
    case 0: unpredict_groups(u, 0, sum, starts, words, count, codes); break;
    case 1: unpredict_groups(u, 1, sum, starts, words, count, codes); break;
    case 2: unpredict_groups(u, 2, sum, starts, words, count, codes); break;
    default: unpredict_groups(u, 3, sum, starts, words, count, codes);
    }
    pithi_unpredict_advance(u, count);
}

static void unpredict(struct pithi_unpredict *u, const uint32_t *words, size_t count,
                      int32_t *codes) {
    if (!u->order) {
        unpredict_none(words, count, codes);
        return;
    }
    while (count) {
        const size_t n = pithi_min(count, u->extent[3] - u->place[3]), whole = n / 16 * 16;
        if (whole) unpredict_line(u, words, whole, codes);
        if (n > whole) pithi_unpredict_c(u, words + whole, n - whole, codes + whole);
        words += n, codes += n, count -= n;
    }
}

#endif
