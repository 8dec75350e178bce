/* entropy.h - one byte string in and out of a zstd frame, in memory that the caller gives.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A coded string is one zstd frame without its magic number, with its content size and without a
 * checksum or dictionary (doc/FORMAT.md, Coded string). Its bytes depend on the input, the effort
 * and the version of zstd only. */
#ifndef PITHI_BYTES_ENTROPY_H
#define PITHI_BYTES_ENTROPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Efforts. RANS takes memory for rANS strings only: such a context makes no coded string, and
 * refuses all. NONE takes memory for decoding only, and makes nothing shorter. Below SEARCH there
 * is Huffman coding with a quick look for long matches, right for noise; from SEARCH on zstd's own
 * settings of that effort are tried as well. */
enum {
    PITHI_EFFORT_RANS = -1,
    PITHI_EFFORT_NONE = 0,
    PITHI_EFFORT_MIN = 1,
    PITHI_EFFORT_SEARCH = 4,
    PITHI_EFFORT_MAX = 22
};
/* A flag that is added to an effort: the quick look then finds little but long runs, right where
 * neighbours say nothing. */
enum { PITHI_ENTROPY_BARE = 256 };

/* A worker's context of zstd, which stays from one string to the next: zstd makes one by asking the
 * processor what it can do, and in a virtual machine that takes longer than a short string. */
struct pithi_entropy;
struct pithi_rans;

/* Returns the bytes, 64-byte aligned, that suffice for every string of at most max_bytes at this
 * effort. */
size_t pithi_entropy_bytes(size_t max_bytes, int effort);
/* Makes a context in memory of so many bytes, which belongs to it from now on. */
struct pithi_entropy *pithi_entropy_open(void *memory, size_t bytes);
/* Returns the memory of a worker for rANS strings, which lies beside the context. */
struct pithi_rans *pithi_entropy_rans(struct pithi_entropy *e);
/* Writes a coded string to dst and returns its length; 0 when it would not be shorter than n or not
 * fit cap (then dst is unspecified). */
size_t pithi_entropy_pack(struct pithi_entropy *e, int effort, const uint8_t *src, size_t n,
                          uint8_t *dst, size_t cap);
/* Decodes src[0..len) to dst; true when it is exactly one coded string of exactly n bytes, n > 0.
 * Never writes past dst + n; any bytes are safe. The memory may be for any effort. */
bool pithi_entropy_unpack(struct pithi_entropy *e, const uint8_t *src, size_t len, uint8_t *dst,
                          size_t n);

#endif
