/* active.h - the codes of a tile that are not 0, one after the other, as words.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which they are stands in a zero map (stage/zeros.h). doc/FORMAT.md, codec act, is normative. */
#ifndef PITHI_ACTIVE_H
#define PITHI_ACTIVE_H

#include <stddef.h>
#include <stdint.h>

#include "stage/tile.h"

enum pithi_active_form {
    PITHI_ACTIVE_SIGNED = 0,   /* zigzag(code) - 1 */
    PITHI_ACTIVE_POSITIVE = 1, /* code - 1: no code is below 0 */
    PITHI_ACTIVE_MEDIAN = 2    /* zigzag(code - what its neighbours to the left and above say) */
};
enum { PITHI_ACTIVE_FORMS = 3 };

/* The map of codes, and the codes themselves without the zeros; returns how many they are. active
 * has room for one more than there are codes. */
size_t pithi_active_split(const int32_t *codes, size_t count, uint8_t *map, int32_t *active);
/* SIGNED, or POSITIVE where the codes allow it. */
enum pithi_active_form pithi_active_plain_form(const int32_t *active, size_t count);
/* Words of them. SIGNED and POSITIVE: words may be the codes' own memory. */
void pithi_active_words(enum pithi_active_form form, const int32_t *active, size_t count,
                        uint32_t *words);
/* The same of form MEDIAN, from all codes of the tile. */
void pithi_active_median(const int32_t *codes, const uint32_t extent[PITHI_TILE_NDIM],
                         uint32_t *words);
/* All codes of a tile again: any words, of any of the forms. One word more than the map has ones
 * can be read. */
void pithi_active_merge(enum pithi_active_form form, const uint32_t *words, const uint8_t *map,
                        const uint32_t extent[PITHI_TILE_NDIM], int32_t *codes);

#endif
