/* roofline.h - how fast one thread of this machine can only read, only fill and only move.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a codec is measured against. Every function makes one pass and returns its seconds; the
 * caller repeats, takes the median, and takes the better of ordinary and non-temporal stores. */
#ifndef ROOFLINE_H
#define ROOFLINE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns seconds of the monotonic clock. */
double roofline_clock(void);

/* Returns the bytes of a tensor that no cache holds: twice the last level, at least 256 MiB and at
 * most 1 GiB, but so few that as many such tensors as `arrays` take half of the memory. A multiple
 * of 4096. */
size_t roofline_bytes(size_t arrays);

/* Reads all bytes, adding their words. */
double roofline_read(const void *p, size_t bytes);
/* Makes every 32-bit word 0x3C003C00: a small number in f32, bf16 and f16. */
double roofline_fill(void *p, size_t bytes, bool nontemporal);
/* Copies with the C library's memcpy, for information. */
double roofline_memcpy(void *to, const void *from, size_t bytes);

/* A baseline reads and writes these byte ranges side by side, each at its own pace, so that all end
 * together. A range that is both read and written (in place) stands in both lists; NULL: unused. */
enum { ROOFLINE_READS = 8 };
struct roofline_baseline {
    const void *read[ROOFLINE_READS];
    size_t read_bytes[ROOFLINE_READS];
    void *write[2];
    size_t write_bytes[2];
};
/* The fastest of the variants is the roofline. A variant alternates between the ranges in short
 * batches or in long ones, and writes with ordinary or with non-temporal stores. */
enum { BASELINE_VARIANTS = 4 };
double roofline_move(const struct roofline_baseline *baseline, int variant);

#endif
