/* caller.h - structs of the caller's, which may be another version's, and memory from its
 * allocator. SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_CALLER_H
#define PITHI_CALLER_H

#include "pith/pith.h"

/* Copies a caller's sized struct, whatever its age, into one of the library's size; NULL: all zero.
 * See Structs in pith.h. name: for the error, "the layout". */
pith_status pithi_take(void *dst, size_t size, const void *src, const char *name,
                       pith_error *error);
/* Copies a result into a caller's sized struct. Bytes of a larger struct than the library's become
 * 0. */
pith_status pithi_give(void *dst, const void *src, size_t size);
/* Takes the options of a stream, with at least one rank. */
pith_status pithi_options_take(pith_stream_options *dst, const pith_stream_options *src,
                               pith_error *error);
/* Returns how far the random bits of a rank are shifted, of options that were taken. */
uint16_t pithi_options_shift(const pith_stream_options *options);
/* Copies a caller's environment, and refuses one with only one of alloc and release. */
pith_status pithi_env_take(pith_env *dst, const pith_env *src, pith_error *error);
/* Allocates memory for a plan or a call, 64-byte aligned; NULL when there is none. */
void *pithi_env_alloc(const pith_env *env, size_t bytes);
void pithi_env_release(const pith_env *env, void *memory, size_t bytes);

#endif
