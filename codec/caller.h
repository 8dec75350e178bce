/* caller.h - structs of the caller's, which may be another version's, and memory from its
 * allocator. SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_CALLER_H
#define PITHI_CALLER_H

#include "pith/pith.h"

/* Grow or cut a sized struct of the caller to the library's; see Structs in pith.h. */
pith_status pithi_take(void *dst, size_t size, const void *src, pith_error *error);
/* The inverse, for structs that calls fill in: what the caller's size goes beyond is 0. */
pith_status pithi_give(void *dst, const void *src, size_t size);
/* Of memory as well: alloc and release come together. */
pith_status pithi_env_take(pith_env *dst, const pith_env *src, pith_error *error);
/* Memory of a plan or call, 64-byte aligned; NULL when there is none. */
void *pithi_env_alloc(const pith_env *env, size_t bytes);
void pithi_env_release(const pith_env *env, void *memory, size_t bytes);

#endif
