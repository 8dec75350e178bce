/* move_avx2.c - copies past the cache for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "codec.h"

static inline void stream_line(uint8_t *to, const uint8_t *from) {
    const __m256i a = _mm256_loadu_si256((const __m256i *)from);
    const __m256i b = _mm256_loadu_si256((const __m256i *)(from + 32));
    _mm256_stream_si256((__m256i *)to, a);
    _mm256_stream_si256((__m256i *)(to + 32), b);
}

#include "kernel/move_tmpl.h"

void pithi_move_bind_avx2(struct pithi_kernels *k);
void pithi_move_bind_avx2(struct pithi_kernels *k) { k->move_stream = move_stream; }
