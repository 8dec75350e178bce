/* channel.c - idempotent groups along rows, in scalar C: the specification of their kernels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "group/channel.h"

#include "group/group.h"
#include "group/packing.h"
#include "group/trellis_value.h"

static size_t width(uint32_t dtype) { return dtype == PITH_F32 ? 4 : 2; }

/* ---- Encode ----------------------------------------------------------------------------------*/

static void encode_column(struct pithi_channel_job *job, size_t column) {
    uint8_t value[PITHI_COLUMN_ROWS * 4], codes[PITHI_COLUMN_ROWS], scales[8];
    const size_t size = width(job->dtype), scale = pithi_scale_width(job->set.scale_dtype);
    struct pithi_group_job group = {.set = job->set,
                                    .count = job->rows,
                                    .value = value,
                                    .value_dtype = job->dtype,
                                    .base_dtype = PITH_NONE,
                                    .codes = codes,
                                    .scales = scales};
    for (size_t i = 0; i < job->rows; i++) {
        const int64_t at = (int64_t)i * job->stride + (int64_t)column;
        memcpy(value + i * size, (const uint8_t *)job->value + at * (int64_t)size, size);
    }
    pithi_group_encode_c(&group);
    job->poisoned += group.poisoned;
    memcpy(job->scales + column * scale, scales, scale);
    if (job->set.asymmetric) memcpy(job->zeros + column * scale, scales + scale, scale);
    for (size_t i = 0; i < job->rows; i++)
        pithi_pack_at(job->codes + i * job->code_stride, column,
                      pithi_unpack_at(&job->set, codes, job->rows, i), job->set.bits);
}

void pithi_channel_encode_c(struct pithi_channel_job *job) {
    const size_t bytes = pithi_group_code_bytes(&job->set, job->columns);
    if (job->rows == 0) return;
    for (size_t i = 0; i < job->rows; i++) memset(job->codes + i * job->code_stride, 0, bytes);
    for (size_t c = 0; c < job->columns; c++) encode_column(job, c);
}

/* ---- Columns as groups that lie together -----------------------------------------------------*/

void pithi_transpose_values_c(const void *from, int64_t stride, size_t rows, size_t columns,
                              void *to, size_t to_stride, size_t size) {
    const uint8_t *const f = from;
    uint8_t *const t = to;
    for (size_t i = 0; i < rows; i++) {
        const uint8_t *const row = f + (int64_t)i * stride * (int64_t)size;
        for (size_t j = 0; j < columns; j++)
            memcpy(t + (j * to_stride + i) * size, row + j * size, size == 4 ? 4 : 2);
    }
}

void pithi_transpose_codes_c(const struct pithi_group_setting *s, const uint8_t *from, size_t rows,
                             size_t columns, uint8_t *to, size_t to_stride) {
    const size_t string = pithi_group_code_bytes(s, rows);
    for (size_t i = 0; i < rows; i++, to += to_stride) {
        memset(to, 0, pithi_group_code_bytes(s, columns));
        for (size_t j = 0; j < columns; j++)
            pithi_pack_at(to, j, pithi_unpack_at(s, from + j * string, rows, i), s->bits);
    }
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static void decode_column(struct pithi_channel_job *job, size_t column) {
    /* Copies, which no store of a value can change. */
    const struct pithi_group_setting s = job->set;
    const uint32_t scale = pithi_scale_load(job->scales, s.scale_dtype, column);
    const uint32_t zero = s.asymmetric ? pithi_scale_load(job->zeros, s.scale_dtype, column) : 0;
    const bool poisoned = pithi_nonfinite(scale) || pithi_nonfinite(zero);
    const size_t rows = job->rows, columns = job->columns, code_stride = job->code_stride;
    const int64_t row_bytes = job->stride * (int64_t)width(job->dtype);
    const uint32_t dtype = job->dtype;
    uint8_t *const out = job->out;
    const uint8_t *const codes = job->codes;
    uint64_t saturated = 0;
    for (size_t i = 0; i < rows; i++) {
        const int q = pithi_unpack_integer(&s, codes + i * code_stride, columns, column);
        const uint32_t x = poisoned ? PITHI_F32_NAN
                                    : pithi_group_decoded(q, pithi_float(scale), pithi_float(zero),
                                                          s.asymmetric, &saturated);
        pithi_store(out + (int64_t)i * row_bytes, dtype, column, x);
    }
    job->poisoned += poisoned;
    job->saturated += saturated;
}

void pithi_channel_decode_c(struct pithi_channel_job *job) {
    if (job->rows == 0) return;
    for (size_t c = 0; c < job->columns; c++) decode_column(job, c);
}

/* ---- Decode: codebooks -----------------------------------------------------------------------*/

/* What codes mean: levels, or those of a trellis, whose columns are sequences. */
struct levels {
    struct pithi_codebook book;
    struct pithi_trellis trellis;
    bool path;
};

static unsigned next_code(const struct pithi_channel_job *job, size_t column, size_t row,
                          size_t before) {
    const uint8_t *const codes = job->codes + row * job->code_stride - before * job->code_stride;
    return (unsigned)pithi_unpack_at(&job->set, codes, job->columns, column);
}

static void decode_levels(struct pithi_channel_job *job, const struct levels *l, size_t column) {
    enum { WINDOW = 3 }; /* rows before it that a code of a trellis depends on */
    const uint32_t u = pithi_scale_load(job->scales, job->set.scale_dtype, column);
    const int64_t size = (int64_t)width(job->dtype);
    unsigned history = 0;
    job->poisoned += pithi_nonfinite(u);
    for (size_t k = job->before < WINDOW ? job->before : WINDOW; l->path && k > 0; k--)
        history = pithi_trellis_next(history, next_code(job, column, 0, k));
    for (size_t i = 0; i < job->rows; i++) {
        const unsigned code = next_code(job, column, i, 0);
        const int level = l->path ? l->trellis.level[pithi_trellis_number(history, code)] : 0;
        uint32_t x = PITHI_F32_NAN;
        history = pithi_trellis_next(history, code);
        if (!pithi_nonfinite(u) && l->path)
            x = pithi_trellis_decoded(level, pithi_float(u), &job->saturated);
        else if (!pithi_nonfinite(u))
            x = pithi_codebook_decoded(&l->book, (int)code, pithi_float(u), &job->saturated);
        pithi_store((uint8_t *)job->out + (int64_t)i * job->stride * size, job->dtype, column, x);
    }
}

void pithi_levels_decode_c(struct pithi_channel_job *job) {
    struct levels l;
    l.path = job->set.codebook == PITHI_CODEBOOK_TRELLIS;
    if (l.path)
        pithi_trellis_init(&l.trellis, job->set.bits);
    else
        pithi_codebook_init(&l.book, &job->set);
    for (size_t c = 0; job->rows && c < job->columns; c++) decode_levels(job, &l, c);
}
