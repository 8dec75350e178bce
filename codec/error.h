/* error.h - how a failure is told: status, sentence, place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_ERROR_H
#define PITHI_ERROR_H

#include "pith/pith.h"

/* All return `status`. Nothing is written where error is NULL, or its size ends before its text. */
pith_status pithi_fail_at(pith_error *error, pith_status status, const char *text, uint64_t offset);
pith_status pithi_fail(pith_error *error, pith_status status, const char *text);
/* The same with up to three numbers or names, which take the place of each '#' and each '$' of
 * `text` in their order. */
struct pithi_words {
    uint64_t number[3];  /* for '#' */
    const char *name[3]; /* for '$' */
};
pith_status pithi_fail_with(pith_error *error, pith_status status, uint64_t offset,
                            const char *text, const struct pithi_words *words);
/* Expected and found: two numbers for two '#'. */
pith_status pithi_fail_numbers(pith_error *error, pith_status status, const char *text,
                               uint64_t expected, uint64_t found);
/* "" and 0: a call begins. */
void pithi_clear(pith_error *error);
/* to := from, as far as its owner's struct goes. */
void pithi_error_copy(pith_error *to, const pith_error *from);

#endif
