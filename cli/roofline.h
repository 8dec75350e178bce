/* roofline.h - how fast this machine can only read, only fill and only move, one thread.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a codec is measured against. Every function makes one pass and returns its seconds; the
 * caller repeats, takes the median, and takes the better of ordinary and non-temporal stores. */
#ifndef BENCH_CEILINGS_H
#define BENCH_CEILINGS_H

#include <stdbool.h>
#include <stddef.h>

/* Seconds of the monotonic clock. */
double roofline_clock(void);

/* Bytes of a tensor that no cache holds: twice the last level, at least 256 MiB and at most 1 GiB,
 * but so few that as many of them as `arrays` take half of the memory. A multiple of 4096. */
size_t roofline_bytes(size_t arrays);

/* Sum of all bytes' words. */
double roofline_read(const void *p, size_t bytes);
/* Every 32-bit word becomes 0x3C003C00: a small number in f32, bf16 and f16. */
double roofline_fill(void *p, size_t bytes, bool stream);
double roofline_copy(void *to, const void *from, size_t bytes, bool stream);
/* The C library's, for information. */
double roofline_memcpy(void *to, const void *from, size_t bytes);

/* Reads and writes these byte ranges side by side, each at its own pace, so that all end together.
 * A range that is both read and written (in place) stands in both lists; NULL: unused. */
enum { CEILING_READS = 8 };
struct roofline_mover {
    const void *read[CEILING_READS];
    size_t read_bytes[CEILING_READS];
    void *write[2];
    size_t write_bytes[2];
};
/* In one of several ways, of which the fastest is the ceiling: in short turns or long ones between
 * the ranges, with ordinary or non-temporal stores. */
enum { CEILING_MOVERS = 4 };
double roofline_move(const struct roofline_mover *mover, int variant);

#endif
