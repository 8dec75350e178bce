/* row_statistics.c - how many rows of embedding tables a bound makes equal, and the
 * class that follows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "caller.h"
#include "common/decimal.h"
#include "common/endian.h"
#include "common/pad.h"
#include "cpu.h"
#include "error.h"
#include "predict/bounded.h"
#include "predict/rows.h"
#include "spec.h"

enum { MOST = 1 << PITHI_BLOCK_LOG2_MAX };

/* A batch of rows, dense, and memory to count them in. */
struct batch {
    const void *values;
    uint32_t dtype;
    size_t count, rows, row;
    struct pithi_range range;
    struct pithi_kernels kernels;
    int32_t *codes, *distinct;
    uint32_t *which;
    uint32_t *table;
    uint8_t *miss;
};

/* ---- One spec --------------------------------------------------------------------------------*/

static pith_status take_spec(const char *spec, const pith_view *view, struct pithi_params *p,
                             pith_error *error) {
    PITHI_TRY(pithi_spec_parse(spec, p, error));
    if (!pithi_is_bounded(p->codec) || !pithi_bound_setting_of(p).rows)
        return pithi_fail_with(error, PITH_ERR_ARG, 0, "$ has no rows that are coded once",
                               &(struct pithi_words){.name = {p->codec->name}});
    if (!(p->codec->dtypes >> view->dtype & 1))
        return pithi_fail_with(
            error, PITH_ERR_DTYPE, 0, "$ does not take dtype $",
            &(struct pithi_words){.name = {p->codec->name, pith_dtype_name(view->dtype)}});
    p->dtype = view->dtype;
    p->block = MOST;
    p->codec->resolve(p, view->ndim, view->shape);
    return PITH_OK;
}

static struct pithi_bound bound_of(const struct pithi_params *p, const struct pithi_range *s) {
    const struct pithi_bound_setting b = pithi_bound_setting_of(p);
    const double range = b.range ? pithi_decimal_floor(b.range) : pithi_range_of(s->low, s->high);
    const double request =
        pithi_bound_setting_value(&b) * (b.target == PITHI_TARGET_REL ? range : 1);
    const double bound = pithi_quant_floor(p->dtype, request);
    return (struct pithi_bound){PITHI_BOUND_ABSOLUTE, bound, bound};
}

/* ---- Counts ----------------------------------------------------------------------------------*/

/* Counts distinct rows of codes, `words` to an element; a last short row ends with 0. */
static uint64_t distinct_rows(struct batch *b, size_t words) {
    struct pithi_rows rows;
    const size_t row = b->row * words, used = b->count * words;
    memset(b->codes + used, 0, (b->rows * row - used) * sizeof *b->codes);
    pithi_rows_begin(&rows, row, b->rows, b->distinct, b->table);
    pithi_rows_number_c(&rows, b->codes, b->rows, b->which);
    return rows.distinct;
}

static uint64_t distinct_values(struct batch *b) {
    const size_t element = pith_dtype_bytes(b->dtype), words = element == 8 ? 2 : 1;
    if (element == 2)
        for (size_t i = 0; i < b->count; i++)
            b->codes[i] = pithi_get16((const uint8_t *)b->values + 2 * i);
    else
        memcpy(b->codes, b->values, b->count * element);
    return distinct_rows(b, words);
}

static uint64_t distinct_codes(struct batch *b, const struct pithi_params *p) {
    const struct pithi_bound bound = bound_of(p, &b->range);
    struct pithi_quant quant;
    pithi_quant_init(&quant, b->dtype, &bound, pithi_bound_setting_of(p).signed_zeros);
    b->kernels.quantize(&quant, b->values, b->count, b->codes, b->miss);
    return distinct_rows(b, 1);
}

/* ---- Memory ----------------------------------------------------------------------------------*/

/* Lays out parts at `memory`; returns the bytes of all. */
static size_t place_parts(struct batch *b, uint8_t *memory) {
    const size_t words = pith_dtype_bytes(b->dtype) == 8 ? 2 : 1;
    const size_t codes = pithi_pad64(b->rows * b->row * words * sizeof *b->codes);
    const size_t values = pithi_pad64(b->count * pith_dtype_bytes(b->dtype));
    const size_t parts[] = {values,
                            codes,
                            codes,
                            pithi_rows_table_bytes(b->rows),
                            pithi_pad64(b->rows * sizeof *b->which),
                            pithi_pad64(b->count / 8 + 1)};
    uint8_t *at[6];
    size_t bytes = 0;
    for (size_t i = 0; i < 6; i++) {
        at[i] = memory ? memory + bytes : NULL;
        bytes += parts[i];
    }
    b->values = at[0];
    b->codes = (int32_t *)(void *)at[1];
    b->distinct = (int32_t *)(void *)at[2];
    b->table = (uint32_t *)(void *)at[3];
    b->which = (uint32_t *)(void *)at[4];
    b->miss = at[5];
    return bytes;
}

/* ---- API -------------------------------------------------------------------------------------*/

static void sample(pith_row_statistics *next, struct batch *b, const struct pithi_span *span,
                   const struct pithi_params *params, uint32_t count) {
    b->values = pithi_span_read(span, 0, span->count, (void *)(uintptr_t)b->values);
    pithi_range_measure(&b->range, b->values, b->dtype, b->count, false, b->kernels.extremes);
    next->batches++;
    next->rows += b->rows;
    next->distinct += distinct_values(b);
    for (uint32_t k = 0; k < count; k++) next->coded[k] += distinct_codes(b, &params[k]);
}

static pith_status take_batch(struct batch *b, struct pithi_params *params,
                              const char *const *specs, uint32_t count, const pith_view *view,
                              struct pithi_span *span, pith_error *error) {
    PITHI_TRY(pithi_span_init(span, view, false, error));
    if (span->count > MOST)
        return pithi_fail_numbers(error, PITH_ERR_SHAPE, "a batch has at most # elements, not #",
                                  MOST, span->count);
    *b = (struct batch){.dtype = span->dtype, .count = (size_t)span->count};
    for (uint32_t k = 0; k < count; k++) {
        PITHI_TRY(take_spec(specs[k], view, &params[k], error));
        const uint32_t row = pithi_bound_setting_of(&params[k]).row;
        if (k && row != b->row)
            return pithi_fail_numbers(error, PITH_ERR_ARG, "the specs differ in dim: #, then #",
                                      b->row, row);
        b->row = row;
    }
    b->rows = (b->count + b->row - 1) / b->row;
    return PITH_OK;
}

pith_status pith_row_statistics_sample(pith_row_statistics *statistics, const char *const *specs,
                                       uint32_t count, const pith_view *batch, const pith_env *env,
                                       pith_error *error) {
    struct pithi_params params[PITH_ROW_STATISTICS_MAX];
    pith_row_statistics known;
    struct pithi_span span;
    struct batch b;
    pith_env e;
    pithi_fail(error, PITH_OK, "");
    if (!statistics || !specs || !batch)
        return pithi_fail(error, PITH_ERR_ARG, "an argument is NULL");
    if (count == 0 || count > PITH_ROW_STATISTICS_MAX)
        return pithi_fail_numbers(error, PITH_ERR_ARG, "1 to # specs, not #",
                                  PITH_ROW_STATISTICS_MAX, count);
    PITHI_TRY(pithi_take(&known, sizeof known, statistics, "the statistics", error));
    PITHI_TRY(pithi_env_take(&e, env, error));
    PITHI_TRY(take_batch(&b, params, specs, count, batch, &span, error));
    if (!b.count) return PITH_OK;
    const size_t bytes = place_parts(&b, NULL);
    void *const memory = pithi_env_alloc(&e, bytes);
    if (!memory) return pithi_fail(error, PITH_ERR_MEMORY, "no memory for the batch");
    place_parts(&b, memory);
    pithi_kernels_bind(&b.kernels, pithi_cpu_select(e.cpu_mask));
    const uint64_t before = pithi_fp_enter();
    sample(&known, &b, &span, params, count);
    pithi_fp_leave(before);
    pithi_env_release(&e, memory, bytes);
    return pithi_give(statistics, &known, sizeof known);
}

static double index_of(uint64_t coded, uint64_t distinct) {
    return 1 - (double)coded / (double)distinct;
}

double pith_row_statistics_index(const pith_row_statistics *statistics, uint32_t k) {
    /* The call is through a pointer, so that no operation leaves the place between the other
     * two. */
    double (*volatile const compute)(uint64_t, uint64_t) = index_of;
    pith_row_statistics known;
    if (k >= PITH_ROW_STATISTICS_MAX ||
        pithi_take(&known, sizeof known, statistics, "the statistics", NULL) != PITH_OK)
        return (double)pithi_float(PITHI_F32_NAN);
    if (!known.distinct) return 0;
    const uint64_t before = pithi_fp_enter();
    const double index = compute(known.coded[k], known.distinct);
    pithi_fp_leave(before);
    return index;
}

uint32_t pith_row_statistics_class(const pith_row_statistics *statistics, uint32_t count,
                                   double limit) {
    for (uint32_t k = count < PITH_ROW_STATISTICS_MAX ? count : PITH_ROW_STATISTICS_MAX; k-- > 1;)
        if (pith_row_statistics_index(statistics, k) <= limit) return k;
    return 0;
}
