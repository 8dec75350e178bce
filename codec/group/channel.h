/* channel.h - idempotent groups that run along rows: one column of a few rows is a group.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic is that of idempotent groups (group.h); the codes of a row lie together. channel.c
 * is the scalar reference that the kernels reproduce. */
#ifndef PITHI_GROUP_CHANNEL_H
#define PITHI_GROUP_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "group/group_value.h"

enum { PITHI_COLUMN_ROWS = 256 };

/* The values of one job. Its setting is idempotent and not shrunk, and has a codebook only where
 * that is said; a group has all the rows that are encoded, at most PITHI_COLUMN_ROWS. A row's
 * values lie one after another, and rows `stride` elements apart. The code of column c of a row
 * lies at bits [c * bits, ...) of its bytes, LSB first; rows of codes lie code_stride bytes apart.
 * Unused bits of a row's last byte are written 0 and ignored. Column c has scale c, and zero point
 * c when the setting is asymmetric. */
struct pithi_channel_job {
    struct pithi_group_setting set;
    size_t rows, columns;
    size_t before;        /* decode, trellis: rows of codes of the same groups before the job's */
    const void *value;    /* encode: values */
    const void *prefetch; /* encode: values of these columns in the next rows, as many; or NULL */
    void *out;            /* decode: values */
    int64_t stride;
    uint32_t dtype; /* dtype of value or out */
    uint8_t *codes;
    size_t code_stride;
    uint8_t *scales, *zeros;
    bool nontemporal; /* decode: out is large and will not be read soon */
    /* Results, which are added to; `poisoned` counts columns. */
    uint64_t saturated, poisoned;
};

typedef void pithi_channel_fn(struct pithi_channel_job *job);
pithi_channel_fn pithi_channel_encode_c, pithi_channel_decode_c;
/* Decodes jobs with a codebook. Those of normal floats are encoded by pithi_channel_encode_c. */
pithi_channel_fn pithi_levels_decode_c;

/* Some columns of a few rows, put together so that encoders of groups take them, and codes put
 * back. Element i of column j, from[i * stride + j], goes to to[j * to_stride + i]; elements have 2
 * or 4 bytes. */
typedef void pithi_transpose_values_fn(const void *from, int64_t stride, size_t rows,
                                       size_t columns, void *to, size_t to_stride, size_t width);
/* The codes of each column, of all rows, are whole bytes, one column's behind the other's. Those of
 * row i go to to + i * to_stride, packed likewise. */
typedef void pithi_transpose_codes_fn(const struct pithi_group_setting *s, const uint8_t *from,
                                      size_t rows, size_t columns, uint8_t *to, size_t to_stride);
pithi_transpose_values_fn pithi_transpose_values_c;
pithi_transpose_codes_fn pithi_transpose_codes_c;

#endif
