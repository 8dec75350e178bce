/* zero_lanes.h - zero maps in lanes: bits with chances that the map begins with, by rANS.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A map is cut into as many parts as there are lanes, each of whole planes where there are enough
 * of them, so that all lanes are at the same place of a plane at the same time. A bit's context is
 * what the bits around it are, its place mod 2 and the class of its plane; every context has a
 * level, which stands for the chance of a one. doc/FORMAT.md, Zero maps, is normative. */
#ifndef PITHI_PREDICT_ZERO_LANES_H
#define PITHI_PREDICT_ZERO_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/inline.h"
#include "predict/zero_choice.h"

struct pithi_kernels;

enum {
    PITHI_ZERO_LANES_MOST = 1 << PITHI_ZERO_LOG2_LANES_MOST,
    PITHI_ZERO_AROUND = 256 /* contexts without the place: six bits around, bit 0 left; the class */
};
/* The chances of a one in 4096ths, 1 .. 4095, by x mod 2 and the context without the bit to the
 * left, which is bit 0: in the low half that where it is 0, in the high half that where it is 1. */
typedef uint32_t pithi_zero_chances[2][PITHI_ZERO_AROUND / 2];

/* Some steps of all lanes, from place x of a row on: byte `lanes` i + j is that of lane j at step
 * i. */
struct pithi_zero_run {
    const pithi_zero_chances *chances;
    const uint8_t *around; /* decode: contexts without the bits of the row; encode: contexts */
    uint8_t *bits;         /* before the first are those of the row that come before it */
    size_t steps, x;
    unsigned lanes, active; /* only the first `active` lanes have bits here, the others 0 */
};
/* Returns what is left of a run after so many steps. */
PITHI_INLINE struct pithi_zero_run pithi_zero_rest(const struct pithi_zero_run *r, size_t step) {
    struct pithi_zero_run rest = *r;
    rest.around += step * r->lanes;
    rest.bits += step * r->lanes;
    rest.steps -= step;
    rest.x += step;
    return rest;
}
/* Encodes a run, last bit first; words end at `end` and begin at the address that is returned,
 * NULL when that would be below `begin`. */
typedef uint8_t *pithi_zero_encode_fn(const struct pithi_zero_run *r, uint32_t *state,
                                      uint8_t *begin, uint8_t *end);
/* Decodes a run from words in [words, end); returns where the next word is, NULL when they are too
 * few. */
typedef const uint8_t *pithi_zero_decode_fn(const struct pithi_zero_run *r, uint32_t *state,
                                            const uint8_t *words, const uint8_t *end);
pithi_zero_encode_fn pithi_zero_encode_c;
pithi_zero_decode_fn pithi_zero_decode_c;

/* Returns the bytes of scratch memory, 64-byte aligned, for maps of at most max_count bits. */
size_t pithi_zero_lanes_scratch(size_t max_count);

/* What is chosen for a map before it is written. */
struct pithi_zero_plan {
    unsigned log2_lanes, mask;
    size_t bytes; /* about how many it takes */
    bool places;  /* the places of bits say much: ones are far apart, and where varies */
    uint32_t count[PITHI_ZERO_CONTEXTS][2]; /* of zeros and ones, by the bits of the mask */
};
/* plan->log2_lanes is set before. scratch then holds what pithi_zero_lanes_put goes on with. */
void pithi_zero_lanes_plan(struct pithi_zero_plan *plan, void *scratch, size_t max_count,
                           const uint8_t *map, const uint32_t extent[PITHI_TILE_NDIM]);
/* Writes the map at `to`, if it takes at most cap bytes, and returns how many; else 0. */
size_t pithi_zero_lanes_put(const struct pithi_zero_plan *plan, const struct pithi_kernels *kernels,
                            void *scratch, size_t max_count, const uint32_t extent[PITHI_TILE_NDIM],
                            uint8_t *to, size_t cap);
/* Reads a map of exactly so many bytes; false when it is damaged. */
bool pithi_zero_lanes_take(const struct pithi_kernels *kernels, void *scratch, size_t max_count,
                           const uint32_t extent[PITHI_TILE_NDIM], const uint8_t *from,
                           size_t length, uint8_t *map);

#endif
