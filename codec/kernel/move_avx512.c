/* move_avx512.c - copies past the cache for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "codec.h"

static inline void stream_line(uint8_t *to, const uint8_t *from) {
    _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
}

#include "kernel/move_tmpl.h"

void pithi_move_bind_avx512(struct pithi_kernels *k);
void pithi_move_bind_avx512(struct pithi_kernels *k) { k->move_stream = move_stream; }
