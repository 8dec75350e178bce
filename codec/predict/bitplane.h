/* bitplane.h - words of 32 bits in groups of 16, as many bits each as the group's largest needs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A string of words has a table of four widths, ascending; each group names one of them in 2 bits;
 * a group of width w is w bit planes of 16 bits. doc/FORMAT.md, Packed words. */
#ifndef PITHI_PREDICT_BITPLANE_H
#define PITHI_PREDICT_BITPLANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PITHI_BITPLANE_GROUP = 16, PITHI_PACK_WIDTHS = 4, PITHI_PACK_WIDEST = 32 };

/* Finds the bits that the largest word of every group of 16 needs; the last group may be short. */
typedef void pithi_widths_fn(const uint32_t *words, size_t count, uint8_t *widths);
/* Packs groups of 16 whole words each, which fit in their widths, into bit planes; returns the end
 * of the bytes. What lies between it and to + capacity may be written too. */
typedef uint8_t *pithi_bitplane_pack_fn(const uint32_t *words, size_t groups, const uint8_t *widths,
                                        uint8_t *to, size_t capacity);
/* Unpacks bit planes. `left` bytes may be read, among them the planes. */
typedef const uint8_t *pithi_bitplane_unpack_fn(const uint8_t *from, size_t left, size_t groups,
                                                const uint8_t *widths, uint32_t *words);
pithi_widths_fn pithi_widths_c;
pithi_bitplane_pack_fn pithi_bitplane_pack_c;
pithi_bitplane_unpack_fn pithi_bitplane_unpack_c;

/* Finds the table of widths that takes the fewest bits for so many groups of each width; of several
 * it is the one with the largest widths. Widths that are not needed repeat the last. Returns the
 * bytes of all planes. */
uint64_t pithi_bitplane_choose(const uint32_t counts[PITHI_PACK_WIDEST + 1],
                               uint8_t table[PITHI_PACK_WIDTHS]);

#endif
