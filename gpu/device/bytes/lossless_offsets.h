/* lossless_offsets.h - offsets of rows and columns: whether a block of tops has them, and which.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team decides as the CPU does, bytes/top_offset.h: by a sample of the words, then by what their
 * symbols come to. Symbols are those of the finer cut. */
#ifndef PITHI_GPU_DEVICE_BYTES_LOSSLESS_OFFSETS_H
#define PITHI_GPU_DEVICE_BYTES_LOSSLESS_OFFSETS_H

#include "device/bytes/lossless_tops.h"

/* ---- Estimate --------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_offsets_open, uint64_t form) {
    const struct pithi_top_sums none = {0, 0};
    struct pithi_lossless_shared *const w = &s->rans.words;
    struct pithi_lossless_offsets *const o = &s->rans.offsets;
    (void)a, (void)form;
    if (t->tid) return;
    w->coarse = w->block;
    w->block.bits = PITHI_LOSSLESS_TOPS;
    w->block.low = 8 * w->width - w->finer;
    w->block.base = pithi_top_base(w->last >> (w->most - w->finer));
    w->block.parts = 1 + w->block.low / 8;
    o->sample = pithi_top_shift_sampled(w->count, w->row, w->column);
    o->variance.rows = o->variance.columns = 0;
    o->variance.row_sums = o->variance.column_sums = 0;
    o->all = none;
    o->square = 0;
}

PITHI_PHASE(pithi_offsets_sample, uint64_t form) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    struct pithi_lossless_offsets *const o = &s->rans.offsets;
    const uint32_t columns = (uint32_t)o->sample.columns, group = (uint32_t)o->sample.group;
    (void)a, (void)form;
    for (uint32_t i = t->tid; i < o->sample.taken * columns; i += PITHI_TEAM) {
        const uint32_t k = i % columns;
        const uint64_t at = pithi_top_shift_row(&o->sample, i / columns, w->row) +
                            k / group * o->sample.gap + k % group;
        o->symbol[i] = (uint8_t)pithi_lossless_tops_symbol(&w->block, pithi_lossless_word(w, at));
    }
}

PITHI_DEVICE void pithi_offsets_add(struct pithi_top_sums *sums, uint32_t symbol) {
    if (symbol - 1 >= PITHI_TOP_SHIFTS) return;
    sums->n++;
    sums->sum += symbol;
}

/* A thread a row, of which there are no more, and a column. */
PITHI_PHASE(pithi_offsets_spread, uint64_t form) {
    struct pithi_lossless_offsets *const o = &s->rans.offsets;
    const uint32_t rows = (uint32_t)o->sample.taken, columns = (uint32_t)o->sample.columns;
    struct pithi_top_sums row = {0, 0}, column = {0, 0};
    uint32_t square = 0;
    (void)a, (void)form;
    for (uint32_t k = 0; t->tid < rows && k < columns; k++) {
        const uint32_t symbol = o->symbol[t->tid * columns + k];
        pithi_offsets_add(&row, symbol);
        if (symbol - 1 < PITHI_TOP_SHIFTS) square += symbol * symbol;
    }
    for (uint32_t r = 0; t->tid < columns && r < rows; r++)
        pithi_offsets_add(&column, o->symbol[r * columns + t->tid]);
    if (row.n) {
        pithi_atomic_add32(&o->all.n, row.n);
        pithi_atomic_add32(&o->all.sum, row.sum);
        pithi_atomic_add32(&o->square, square);
        pithi_atomic_add32(&o->variance.rows, pithi_top_square(row));
        pithi_atomic_add32(&o->variance.row_sums, 1);
    }
    if (!column.n) return;
    pithi_atomic_add32(&o->variance.columns, pithi_top_square(column));
    pithi_atomic_add32(&o->variance.column_sums, 1);
}

PITHI_PHASE(pithi_offsets_worth, uint64_t form) {
    const struct pithi_top_sums none = {0, 0};
    const struct pithi_lossless_shared *const w = &s->rans.words;
    struct pithi_lossless_offsets *const o = &s->rans.offsets;
    (void)a, (void)form;
    if (t->tid) return;
    o->least = pithi_top_shift_least(w->width);
    pithi_top_center(&o->variance, o->all, o->square);
    o->worth =
        pithi_top_shift_worth(o->variance, &o->sample, w->row, o->least + w->finer_loss / w->count);
    o->all = none;
}

/* ---- Offsets ---------------------------------------------------------------------------------*/

/* The symbols whose mean all offsets are about; and nothing is counted yet. */
PITHI_PHASE(pithi_offsets_mean, uint64_t form) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    struct pithi_lossless_offsets *const o = &s->rans.offsets;
    const uint8_t *const symbols = pithi_lossless_part(s, 0) + o->sample.begin;
    const uint32_t whole = (uint32_t)o->sample.rows, step = whole / PITHI_TOP_MEAN_ROWS + 1;
    const uint32_t run = w->row < PITHI_TOP_MEAN_COLUMNS ? w->row : PITHI_TOP_MEAN_COLUMNS;
    struct pithi_top_sums sums = {0, 0};
    (void)a, (void)form;
    for (uint32_t i = t->tid; i < (whole + step - 1) / step * run; i += PITHI_TEAM)
        pithi_offsets_add(&sums, symbols[(uint64_t)(i / run * step) * w->row + i % run]);
    pithi_atomic_add32(&o->all.n, sums.n);
    pithi_atomic_add32(&o->all.sum, sums.sum);
    for (uint32_t k = 0; k < 4; k++) o->count[k][t->tid] = 0;
    if (t->tid >= 4) return;
    o->cost[t->tid] = 0;
    o->kinds[t->tid] = 0;
}
PITHI_DEVICE int32_t pithi_offsets_mean_of(const struct pithi_lossless_offsets *o) {
    return pithi_top_rounded((int32_t)o->all.sum, (int32_t)o->all.n);
}

PITHI_PHASE(pithi_offsets_rows, uint64_t form) {
    enum { RUN = PITHI_TOP_MEAN_RUN, RUNS = PITHI_TOP_MEAN_RUNS };
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const struct pithi_lossless_offsets *const o = &s->rans.offsets;
    const uint8_t *const symbols = pithi_lossless_part(s, 0);
    uint8_t *const to = pithi_lossless_part(s, pithi_lossless_rows_part(w));
    (void)a, (void)form;
    for (uint32_t r = t->tid; r < pithi_offsets_rows_count(w); r += PITHI_TEAM) {
        const uint64_t at = r ? (uint64_t)r * w->row - w->column : 0;
        const uint64_t left = w->row - (r ? 0 : w->column);
        const uint32_t n = (uint32_t)(left < w->count - at ? left : w->count - at);
        struct pithi_top_sums sums = {0, 0};
        if (n <= PITHI_TOP_MEAN_COLUMNS)
            for (uint32_t k = 0; k < n; k++) pithi_offsets_add(&sums, symbols[at + k]);
        else
            for (uint32_t k = 0; k < RUNS * RUN; k++)
                pithi_offsets_add(&sums,
                                  symbols[at + (n - RUN) / (RUNS - 1) * (k / RUN) + k % RUN]);
        to[r] = o->worth.rows ? pithi_top_row_offset(sums, pithi_offsets_mean_of(o)) : 0;
    }
}

PITHI_PHASE(pithi_offsets_columns, uint64_t form) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const struct pithi_lossless_offsets *const o = &s->rans.offsets;
    const uint8_t *const symbols = pithi_lossless_part(s, 0) + o->sample.begin;
    const uint8_t *const rows =
        pithi_lossless_part(s, pithi_lossless_rows_part(w)) + (w->column > 0);
    uint8_t *const to = pithi_lossless_part(s, pithi_lossless_rows_part(w) + 1);
    const uint64_t whole = o->sample.rows;
    const uint32_t taken = whole < PITHI_TOP_MEAN_ROWS ? (uint32_t)whole : PITHI_TOP_MEAN_ROWS;
    const int32_t mean = pithi_offsets_mean_of(o);
    (void)a, (void)form;
    for (uint32_t c = t->tid; c < w->row; c += PITHI_TEAM) {
        int32_t sum = 0, n = 0;
        for (uint32_t r = 0; o->worth.columns && r < taken; r++) {
            const uint64_t row = r * whole / taken;
            const uint32_t symbol = symbols[row * w->row + c];
            if (symbol - 1 >= PITHI_TOP_SHIFTS) continue;
            sum += (int32_t)symbol + pithi_top_number_of(rows[row]) - mean;
            n++;
        }
        to[c] = pithi_top_offset_of(-pithi_top_rounded(sum, n));
    }
}

/* ---- Proof -----------------------------------------------------------------------------------*/

/* What is counted: symbols as they are, and shifted; offsets of rows, and of columns. */
enum { PITHI_OFFSETS_PLAIN, PITHI_OFFSETS_SHIFTED, PITHI_OFFSETS_ROWS, PITHI_OFFSETS_COLUMNS };
PITHI_DEVICE uint32_t pithi_offsets_length(const struct pithi_lossless_shared *w, uint32_t what) {
    if (what == PITHI_OFFSETS_ROWS) return pithi_offsets_rows_count(w);
    return what == PITHI_OFFSETS_COLUMNS ? w->row : w->count;
}
/* Byte `at` of it. */
PITHI_DEVICE uint32_t pithi_offsets_byte(const struct pithi_gpu_shared *s, uint32_t what,
                                         uint64_t at) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t rows = pithi_lossless_rows_part(w);
    if (what == PITHI_OFFSETS_ROWS) return pithi_lossless_part(s, rows)[at];
    if (what == PITHI_OFFSETS_COLUMNS) return pithi_lossless_part(s, rows + 1)[at];
    const uint8_t symbol = pithi_lossless_part(s, 0)[at];
    return what == PITHI_OFFSETS_PLAIN ? symbol : pithi_lossless_shifted(s, at, symbol);
}
/* Bytes of the sample of n of them. */
PITHI_DEVICE uint32_t pithi_offsets_total(uint32_t n) {
    const uint32_t step = (uint32_t)pithi_top_proof_step(n), runs = (n + step - 1) / step;
    const uint32_t last = n - (runs - 1) * step;
    return (runs - 1) * PITHI_TOP_PROOF_RUN +
           (last < PITHI_TOP_PROOF_RUN ? last : (uint32_t)PITHI_TOP_PROOF_RUN);
}

PITHI_PHASE(pithi_offsets_count, uint32_t what) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t n = pithi_offsets_length(w, what), step = (uint32_t)pithi_top_proof_step(n);
    (void)a;
    for (uint32_t i = t->tid; i < (n + step - 1) / step * PITHI_TOP_PROOF_RUN; i += PITHI_TEAM) {
        const uint32_t at = i / PITHI_TOP_PROOF_RUN * step + i % PITHI_TOP_PROOF_RUN;
        if (at < n)
            pithi_atomic_add32(&s->rans.offsets.count[what][pithi_offsets_byte(s, what, at)], 1);
    }
}
/* A thread a byte. */
PITHI_PHASE(pithi_offsets_cost, uint32_t what) {
    struct pithi_lossless_offsets *const o = &s->rans.offsets;
    const uint32_t n = o->count[what][t->tid];
    const uint32_t total = pithi_offsets_total(pithi_offsets_length(&s->rans.words, what));
    (void)a;
    if (!n) return;
    pithi_atomic_add64(&o->cost[what], pithi_top_proof_cost(n, pithi_log2_256(total)));
    pithi_atomic_add32(&o->kinds[what], 1);
}
PITHI_PHASE(pithi_offsets_judge, uint64_t form) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    struct pithi_lossless_offsets *const o = &s->rans.offsets;
    (void)a, (void)form;
    if (t->tid) return;
    for (uint32_t what = 0; what < 4; what++) {
        const uint32_t n = pithi_offsets_length(w, what);
        o->cost[what] =
            pithi_top_proof_all(o->cost[what], pithi_offsets_total(n), o->kinds[what], n);
    }
    w->block.shifted =
        pithi_top_shift_saves(o->cost[PITHI_OFFSETS_PLAIN], o->cost[PITHI_OFFSETS_SHIFTED],
                              o->cost[PITHI_OFFSETS_ROWS] + o->cost[PITHI_OFFSETS_COLUMNS],
                              o->least * w->count + w->finer_loss);
}

PITHI_PHASE(pithi_offsets_shift, uint64_t form) {
    uint8_t *const symbols = pithi_lossless_part(s, 0);
    (void)a, (void)form;
    for (uint32_t i = t->tid; i < s->rans.words.count; i += PITHI_TEAM)
        symbols[i] = pithi_lossless_shifted(s, i, symbols[i]);
}
/* A frame has the offsets that shift back. */
PITHI_PHASE(pithi_offsets_invert, uint64_t form) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    uint8_t *const rows = pithi_lossless_part(s, pithi_lossless_rows_part(w));
    uint8_t *const columns = pithi_lossless_part(s, pithi_lossless_rows_part(w) + 1);
    (void)a, (void)form;
    for (uint32_t i = t->tid; i < pithi_offsets_rows_count(w); i += PITHI_TEAM)
        rows[i] = pithi_top_shift_inverse(rows[i]);
    for (uint32_t i = t->tid; i < w->row; i += PITHI_TEAM)
        columns[i] = pithi_top_shift_inverse(columns[i]);
}

/* The block is as it was. */
PITHI_PHASE(pithi_offsets_close, uint64_t form) {
    (void)a, (void)form;
    if (t->tid) return;
    s->rans.words.block = s->rans.words.coarse;
    s->rans.carry[0] = 0;
}

/* Part of a body: symbols of words that are cut, when offsets pay. */
PITHI_DEVICE void pithi_lossless_try_offsets(const struct pithi_gpu_call *a,
                                             struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                             struct pithi_team *team, uint64_t form) {
    PITHI_RUN(pithi_offsets_mean, form);
    PITHI_RUN(pithi_offsets_rows, form);
    PITHI_RUN(pithi_offsets_columns, form);
    for (uint32_t what = 0; what < 4; what++) PITHI_RUN(pithi_offsets_count, what);
    for (uint32_t what = 0; what < 4; what++) PITHI_RUN(pithi_offsets_cost, what);
    PITHI_RUN(pithi_offsets_judge, form);
    if (!s->rans.words.block.shifted) return;
    PITHI_RUN(pithi_offsets_shift, form);
    PITHI_RUN(pithi_offsets_invert, form);
}

/* Part of a body, behind the choice of a cut: whether symbols are shifted is in the block. */
PITHI_DEVICE void pithi_lossless_offsets(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                         struct pithi_gpu_thread *t, struct pithi_team *team,
                                         uint64_t form) {
    PITHI_RUN(pithi_offsets_open, form);
    if (s->rans.offsets.sample.taken) {
        PITHI_RUN(pithi_offsets_sample, form);
        PITHI_RUN(pithi_offsets_spread, form);
    }
    PITHI_RUN(pithi_offsets_worth, form);
    if (s->rans.offsets.worth.rows || s->rans.offsets.worth.columns) {
        pithi_lossless_tops_all(a, s, t, team);
        if (s->rans.words.block.bits) pithi_lossless_try_offsets(a, s, t, team, form);
    }
    if (s->rans.words.block.shifted) return;
    PITHI_MEET(); /* all have looked at the block */
    PITHI_RUN(pithi_offsets_close, form);
}

#endif
