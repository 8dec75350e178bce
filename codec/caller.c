/* caller.c - structs of the caller's, which may be another version's, and memory from its
 * allocator; libpith_cuda compiles it too.
 * SPDX-License-Identifier: Apache-2.0 */
#include "caller.h"

#include <stdlib.h>
#include <string.h>

#include "codec.h"
#include "common/pad.h"
#include "error.h"

pith_status pithi_take(void *dst, size_t size, const void *src, const char *name,
                       pith_error *error) {
    const struct pithi_words words = {.name = {name}};
    memset(dst, 0, size);
    if (!src) return PITH_OK;
    size_t given;
    memcpy(&given, src, sizeof given);
    if (given < sizeof given || given > 4096)
        return pithi_fail_with(error, PITH_ERR_ARG, 0, "the size of $ is not set", &words);
    for (size_t i = size; i < given; i++)
        if (((const uint8_t *)src)[i])
            return pithi_fail_with(error, PITH_ERR_UNSUPPORTED, i,
                                   "a field of $ is one of a newer pith: update this one", &words);
    memcpy(dst, src, given < size ? given : size);
    return PITH_OK;
}

pith_status pithi_give(void *dst, const void *src, size_t size) {
    size_t given;
    if (!dst) return PITH_ERR_ARG;
    memcpy(&given, dst, sizeof given);
    if (given < sizeof given || given > 4096) return PITH_ERR_ARG;
    memcpy((uint8_t *)dst + sizeof given, (const uint8_t *)src + sizeof given,
           (given < size ? given : size) - sizeof given);
    if (given > size) memset((uint8_t *)dst + size, 0, given - size);
    return PITH_OK;
}

pith_status pithi_options_take(pith_stream_options *dst, const pith_stream_options *src,
                               pith_error *error) {
    PITHI_TRY(pithi_take(dst, sizeof *dst, src, "the options", error));
    if (!dst->ranks) dst->ranks = 1;
    if (dst->rank < dst->ranks && dst->ranks <= 65536) return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_ARG, 0, "rank # of #, of at most 65536 ranks",
                           &(struct pithi_words){.number = {dst->rank, dst->ranks}});
}

uint16_t pithi_options_shift(const pith_stream_options *o) {
    return (uint16_t)((uint64_t)o->rank * 65536 / o->ranks);
}

void *pithi_env_alloc(const pith_env *env, size_t bytes) {
    if (env->alloc) return env->alloc(env->alloc_user, bytes, 64);
    return aligned_alloc(64, (size_t)pithi_pad64(bytes));
}

void pithi_env_release(const pith_env *env, void *memory, size_t bytes) {
    if (env->alloc)
        env->release(env->alloc_user, memory, bytes);
    else
        free(memory);
}

pith_status pithi_env_take(pith_env *dst, const pith_env *src, pith_error *error) {
    PITHI_TRY(pithi_take(dst, sizeof *dst, src, "the environment", error));
    if (!dst->alloc == !dst->release) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG, "alloc and release come together");
}
