/* columns.h - sizes of groups along rows, what a job of them is, and what is expected of it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_COLUMNS_H
#define TESTS_COLUMNS_H

#include "kernelcheck.h"

enum { COLUMNS_CAPACITY = 1 << 20 }; /* bytes of values */

/* Strides: in values and in bytes of codes. */
struct columns {
    size_t rows, columns, stride, code_stride;
};

/* wide: more columns than are coded together. */
static inline struct columns columns_random(const struct pithi_group_setting *set, bool wide) {
    struct columns c;
    c.rows = check_below(4) ? check_below(set->group + 1) : set->group;
    c.columns = wide ? 1000 + check_below(300) : check_below(check_below(2) ? 20 : 300);
    if (check_below(2)) c.columns -= c.columns % 64;
    if (wide && c.rows > 128) c.rows = 128;
    const size_t most = COLUMNS_CAPACITY / 4 / (c.rows + 1) - 200;
    c.stride = c.columns + (check_below(2) ? 0 : check_below(200));
    if (c.stride > most) c.stride = c.columns;
    c.code_stride = pithi_group_code_bytes(set, c.columns) + check_below(2) * check_below(70);
    return c;
}

/* Elements from the beginning of the first row to the end of the last. */
static inline size_t columns_span(size_t rows, size_t stride, size_t row) {
    return rows ? (rows - 1) * stride + row : 0;
}
static inline size_t columns_value_bytes(const struct columns *c, uint32_t dtype) {
    return columns_span(c->rows, c->stride, c->columns) * width(dtype);
}

static inline struct pithi_channel_job columns_job(const struct columns *c,
                                                   const struct pithi_group_setting *set,
                                                   bool nontemporal) {
    return (struct pithi_channel_job){.set = *set,
                                      .rows = c->rows,
                                      .columns = c->columns,
                                      .stride = (int64_t)c->stride,
                                      .code_stride = c->code_stride,
                                      .nontemporal = nontemporal,
                                      .saturated = 5, /* results are added to */
                                      .poisoned = 7};
}

static inline void columns_expect(const struct pithi_channel_job *job,
                                  const struct pithi_channel_job *reference,
                                  const struct guarded *area, size_t areas) {
    check_that(job->saturated == reference->saturated, "the saturated count differs");
    check_that(job->poisoned == reference->poisoned, "the poisoned count differs");
    for (size_t k = 0; k < areas; k++)
        check_that(!area[k].p || guarded_intact(&area[k]), "something beside a buffer was written");
}

#endif
