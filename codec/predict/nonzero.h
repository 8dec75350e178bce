/* nonzero.h - the codes of a tile that are not 0, one after the other, as numbers to be coded.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which they are stands in a zero map (predict/zero_map.h). Arithmetic is mod 2^32. doc/FORMAT.md,
 * codec act, is normative. */
#ifndef PITHI_PREDICT_NONZERO_H
#define PITHI_PREDICT_NONZERO_H

#include <stddef.h>
#include <stdint.h>

#include "tile.h"

enum pithi_nonzero_form {
    PITHI_NONZERO_SIGNED = 0,   /* a code as it is, but one above 0 less 1 */
    PITHI_NONZERO_POSITIVE = 1, /* codes 1, 2, 3, 4 ... are 0, -1, 1, -2 ...; none is below 0 */
    PITHI_NONZERO_MEDIAN = 2    /* a code less what its neighbours to the left and above say */
};
enum { PITHI_NONZERO_FORMS = 3 };

/* Makes the map of codes, and the codes that are not 0; returns how many they are. nonzero has a
 * capacity of PITHI_NONZERO_MORE more than there are codes. Kernels do the same. */
enum { PITHI_NONZERO_MORE = 16 };
typedef size_t pithi_split_fn(const int32_t *codes, size_t count, uint8_t *map, int32_t *nonzero);
/* Makes all codes again. PITHI_NONZERO_MORE more than the map has ones can be read. */
typedef void pithi_spread_fn(const int32_t *nonzero, const uint8_t *map, size_t count,
                             int32_t *codes);
pithi_split_fn pithi_split_c;
pithi_spread_fn pithi_spread_c;

/* Returns SIGNED, or POSITIVE where the codes allow it. */
enum pithi_nonzero_form pithi_nonzero_plain(const int32_t *nonzero, size_t count);
/* Turn nonzero codes into numbers in the form that is not MEDIAN, and any numbers back into
 * codes. */
void pithi_nonzero_numbers(enum pithi_nonzero_form form, int32_t *nonzero, size_t count);
void pithi_nonzero_codes(enum pithi_nonzero_form form, int32_t *numbers, size_t count);
/* Makes codes of numbers in the form that is not MEDIAN, which are words: zigzag of the numbers. */
void pithi_nonzero_from_words(enum pithi_nonzero_form form, const uint32_t *restrict words,
                              size_t count, int32_t *restrict nonzero);
/* Makes words, zigzag of the numbers in this form, of elements all over a tile; returns how many,
 * PITHI_NONZERO_SAMPLE at most. */
enum { PITHI_NONZERO_SAMPLE = 2048 };
size_t pithi_nonzero_sample(enum pithi_nonzero_form form, const int32_t *codes, const uint8_t *map,
                            const uint32_t extent[PITHI_TILE_NDIM], uint32_t *words);
/* Makes numbers of form MEDIAN of the codes of a tile and its map, with a capacity of
 * PITHI_NONZERO_MORE more than there are. Kernels do the same. */
typedef void pithi_median_fn(const int32_t *codes, const uint8_t *map,
                             const uint32_t extent[PITHI_TILE_NDIM], int32_t *numbers);
pithi_median_fn pithi_nonzero_median;
/* Makes all codes again, of any numbers. */
void pithi_nonzero_from_median(const int32_t *numbers, const uint8_t *map,
                               const uint32_t extent[PITHI_TILE_NDIM], int32_t *codes);

#endif
