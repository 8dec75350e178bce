/* coded.h - words of 32 bits, most of them small, as byte strings that are coded.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Low bits that are noise stay bits; the rest of every word is a byte symbol, large ones going to
 * a list; symbols that are mostly 0 are coded as gaps between others (doc/FORMAT.md, Coded
 * words). */
#ifndef PITHI_CODED_H
#define PITHI_CODED_H

#include "stage/pack.h"
#include "stage/piece.h"

/* Bytes of scratch, 64-byte aligned, for at most max_count words. */
size_t pithi_coded_scratch(size_t max_count);
/* Appends count words, 0 < count <= 2^24. False when the pen has no room. */
bool pithi_coded_put(struct pithi_pen *pen, size_t max_count, pithi_pack_fn *pack,
                     const uint32_t *words, size_t count);
/* The same for reading; less. */
size_t pithi_coded_take_scratch(size_t max_count);
/* The words again, with room for whole groups of PITHI_PACK_GROUP; NULL, or what is wrong. Any
 * bytes are safe. */
const char *pithi_coded_take(struct pithi_reader *r, size_t max_count, pithi_unpack_fn *unpack,
                             uint32_t *words, size_t count);

#endif
