/* cases.h - codecs.def as a table: one case per row, dtype and base dtype.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_TESTS_CASES_H
#define PITH_TESTS_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test_case {
    const char *codec, *spec;
    uint32_t dtype, base_dtype; /* base_dtype PITH_NONE: without a base */
    bool exact, stochastic, fixed, base_hash;
    bool bounded, signed_zeros, keeps_zeros; /* bounded: every value is under the frame's bound */
    bool sparse;                             /* all but the largest values decode to 0 */
    bool idempotent;                         /* scales depend on the dtype of the values */
    bool overflows;                          /* a group of large values may decode to NaN */
    size_t group, block;                     /* elements; group 1 where a codec has none */
};

/* Where PITH_TEST_STEP is set, each row has only one in so many of its dtypes and base dtypes,
 * other rows others; else 1. */
size_t case_step(void);
/* Case number index, or NULL past the last. */
const struct test_case *case_at(size_t index);

/* Counts around every boundary of the case; ends with SIZE_MAX. */
enum { CASE_COUNTS = 24 };
void case_counts(const struct test_case *c, size_t counts[CASE_COUNTS]);

#endif
