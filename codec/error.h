/* error.h - how a failure is told: status, sentence, place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_ERROR_H
#define PITHI_ERROR_H

#include "pith/pith.h"

/* All of these return `status`. They write nothing where error is NULL, or its size ends before its
 * text. */
pith_status pithi_fail_at(pith_error *error, pith_status status, const char *text, uint64_t offset);
pith_status pithi_fail(pith_error *error, pith_status status, const char *text);
/* What pithi_fail_with puts into a text: up to three numbers or names, which take the place of each
 * '#' and each '$' in their order. After a number 1 the plural of a word becomes its singular. */
struct pithi_words {
    uint64_t number[3];  /* for '#' */
    const char *name[3]; /* for '$' */
};
pith_status pithi_fail_with(pith_error *error, pith_status status, uint64_t offset,
                            const char *text, const struct pithi_words *words);
/* Fails with a text in which two '#' stand for what was expected and what was found. */
pith_status pithi_fail_numbers(pith_error *error, pith_status status, const char *text,
                               uint64_t expected, uint64_t found);
/* Empties an error, as every call does when it begins. */
void pithi_clear(pith_error *error);
/* Copies an error, as far as the size of `to` allows. */
void pithi_error_copy(pith_error *to, const pith_error *from);

#endif
