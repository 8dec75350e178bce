/* transpose_tmpl.h - columns of values put together, and the codes made of them put into rows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included group_channel_tmpl.h, and defines nothing more. What is no whole
 * tile of 16 rows and columns of values goes to scalar C; codes of fewer than 64 rows or columns go
 * through copies. */

/* ---- Values ----------------------------------------------------------------------------------*/

ALWAYS void transpose_tile(const uint8_t *from, int64_t row, uint8_t *to, size_t column,
                           size_t size) {
    v16 x[16];
    PITHI_UNROLL for (int k = 0; k < 16; k++) {
        const uint8_t *const p = from + k * row;
        x[k] = size == 4 ? v_load(p) : v_load16(p);
    }
    v_transpose(x);
    PITHI_UNROLL for (size_t k = 0; k < 16; k++) {
        if (size == 4)
            v_store(to + k * column, x[k]);
        else
            v_store16(to + k * column, x[k]);
    }
}

/* Transposes whole tiles. Beside them the columns that follow in memory are fetched, which are
 * mostly the next that are asked for: rows lie too far apart for hardware to follow them. */
ALWAYS void transpose_tiles(const uint8_t *from, int64_t row, size_t rows, size_t columns,
                            uint8_t *to, size_t column, size_t size) {
    for (size_t i = 0; i < rows; i += 16) {
        const uint8_t *const p = from + (int64_t)i * row;
        fetch_rows(p + columns * size, row, 16, columns, size == 4 ? PITH_F32 : PITH_BF16);
        for (size_t j = 0; j < columns; j += 16)
            transpose_tile(p + j * size, row, to + j * column + i * size, column, size);
    }
}

static void transpose_value_columns(const void *from, int64_t stride, size_t rows, size_t columns,
                                    void *to, size_t to_stride, size_t size) {
    const size_t whole_rows = rows - rows % 16, whole = columns - columns % 16;
    const int64_t row = stride * (int64_t)size;
    const uint8_t *const f = from;
    uint8_t *const t = to;
    if (size == 4)
        transpose_tiles(f, row, whole_rows, whole, t, to_stride * 4, 4);
    else
        transpose_tiles(f, row, whole_rows, whole, t, to_stride * 2, 2);
    if (whole < columns)
        pithi_transpose_values_c(f + whole * size, stride, whole_rows, columns - whole,
                                 t + whole * to_stride * size, to_stride, size);
    if (whole_rows < rows)
        pithi_transpose_values_c(f + (int64_t)whole_rows * row, stride, rows - whole_rows, columns,
                                 t + whole_rows * size, to_stride, size);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* Up to 64 columns of up to 64 rows of codes. */
struct code_tile {
    v16 code[UNIT / 16][UNIT]; /* of 16 rows each: columns, then rows of 16 columns */
    size_t rows, columns;
};

/* Unpacks a column. `from` has `readable` bytes. */
ALWAYS void take_column(struct code_tile *t, const struct packing *p, size_t column,
                        const uint8_t *from, size_t readable) {
    uint8_t copy[UNIT];
    v16 q[4];
    if (readable < 8 * (size_t)p->bits) {
        memset(copy, 0, sizeof copy);
        from = memcpy(copy, from, readable);
        readable = sizeof copy;
    }
    unpack64(q, from, readable, p);
    for (size_t k = 0; k < UNIT / 16; k++) t->code[k][column] = q[k];
}

/* Packs row i of 16. */
ALWAYS void put_row(const struct code_tile *t, const struct packing *p, size_t k, size_t i,
                    uint8_t *to) {
    const v16 q[4] = {t->code[k][i], t->code[k][16 + i], t->code[k][32 + i], t->code[k][48 + i]};
    uint8_t copy[UNIT];
    if (t->columns == UNIT) {
        pack64_whole(to, 8 * (size_t)p->bits, p, q, false);
        return;
    }
    pack64_whole(copy, sizeof copy, p, q, false);
    memcpy(to, copy, (t->columns * p->bits + 7) / 8);
}

static __attribute__((noinline)) void transpose_code_tile(struct code_tile *t,
                                                          const struct packing *shared,
                                                          const uint8_t *from, size_t string,
                                                          size_t readable, uint8_t *to,
                                                          size_t to_stride) {
    const struct packing p = *shared; /* a copy that no store can alias */
    const v16 none[4] = {v_set(0), v_set(0), v_set(0), v_set(0)};
    for (size_t j = 0; j < t->columns; j++)
        take_column(t, &p, j, from + j * string, readable - j * string);
    for (size_t j = t->columns; j < UNIT; j++)
        for (size_t k = 0; k < UNIT / 16; k++) t->code[k][j] = none[k];
    for (size_t k = 0; 16 * k < t->rows; k++) {
        for (size_t j = 0; j < UNIT; j += 16) v_transpose(&t->code[k][j]);
        for (size_t i = 0; i < 16 && 16 * k + i < t->rows; i++)
            put_row(t, &p, k, i, to + (16 * k + i) * to_stride);
    }
}

static void transpose_code_columns(const struct pithi_group_setting *s, const uint8_t *from,
                                   size_t rows, size_t columns, uint8_t *to, size_t to_stride) {
    const size_t string = pithi_group_code_bytes(s, rows);
    struct packing p;
    struct code_tile t;
    packing_init(&p, s->bits, false);
    for (size_t j = 0; j < columns; j += UNIT)
        for (size_t i = 0; i < rows; i += UNIT) {
            const size_t at = j * string + i * s->bits / 8;
            t.rows = least(UNIT, rows - i);
            t.columns = least(UNIT, columns - j);
            transpose_code_tile(&t, &p, from + at, string, columns * string - at,
                                to + i * to_stride + j * s->bits / 8, to_stride);
        }
}
