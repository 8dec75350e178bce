/* top_shift.h - symbols of tops as a matrix whose rows and columns differ in scale.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where the values of a row are all twice as large as those of another one, its tops are larger by
 * one number. Less that number for every row and every column, symbols are nearer to each other,
 * and one table codes them in fewer bits. */
#ifndef PITHI_BYTES_TOP_SHIFT_H
#define PITHI_BYTES_TOP_SHIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytes/top_offset.h"

/* A matrix in rows of `width` elements; the first symbol has column `first`, and rows[0] is the
 * offset of its row. A symbol from 1 to 254 is shifted by the offset of its row and that of its
 * column, mod 254; 0 and PITHI_TOP_ESCAPE stay. Every byte is an offset. */
struct pithi_top_shift {
    const uint8_t *rows, *columns;
    size_t width, first;
};
/* Shifts symbols, to other memory. */
typedef void pithi_top_shift_fn(const struct pithi_top_shift *shift, uint8_t *to,
                                const uint8_t *symbols, size_t count);
pithi_top_shift_fn pithi_top_shift_c;

/* Copies a sample of `count` words of `bytes` bytes in rows of `width` from column `first`: at most
 * PITHI_TOP_SHIFT_SAMPLE of them, and count. None are taken where offsets never pay. */
struct pithi_top_shift_sample pithi_top_shift_sample(void *to, const void *words, size_t bytes,
                                                     size_t count, size_t width, size_t first);
/* Which offsets the symbols of a sample say are worth it: that they save more than they take, and
 * together more than `least`, in 1/256 bit a symbol. */
struct pithi_top_shift_verdict pithi_top_shift_estimate(const struct pithi_top_shift_sample *sample,
                                                        const uint8_t *symbols, size_t width,
                                                        uint64_t least);
/* Finds offsets to encode with, those that are not worth it being 0. After an estimate that has
 * any, all are no more than count bytes together. */
void pithi_top_shift_find(const uint8_t *symbols, size_t count, size_t width, size_t first,
                          struct pithi_top_shift_verdict worth, uint8_t *rows, uint8_t *columns);
/* Whether samples of shifted symbols, `to`, and of the offsets say that they take less than
 * `symbols` by more than `least`, in 1/256 bit. */
bool pithi_top_shift_pays(const struct pithi_top_shift *shift, const uint8_t *symbols,
                          const uint8_t *to, size_t count, uint64_t least);
/* Replaces offsets by those that shift back. */
void pithi_top_shift_invert(uint8_t *offsets, size_t count);

#endif
