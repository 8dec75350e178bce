/* trellis_avx512.c - trellis-coded groups for AVX-512: paths in vectors of 256 bits.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "common/lanes_avx512.h"
#include "group/look_avx512.h"
#include "group/trellis_x86.h"

static inline v16 v_down(v16 x, unsigned n) { return v_shr(x, n); }

struct window {
    v16 spread, shift;
};
static inline void window_make(struct window *w, unsigned bits) {
    uint8_t place[64];
    uint32_t shift[16];
    window_places(bits, place, shift);
    w->spread = v_load(place);
    w->shift = v_load((const uint8_t *)shift);
}
static inline v16 window_take(const struct window *w, const uint8_t *from) {
    const v16 x = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)from));
    return _mm512_srlv_epi32(_mm512_shuffle_epi8(x, w->spread), w->shift);
}

#include "group/trellis_tmpl.h"

void pithi_trellis_bind_avx512(struct pithi_kernels *k);
void pithi_trellis_bind_avx512(struct pithi_kernels *k) {
    k->trellis_encode = trellis_encode;
    k->trellis_decode = trellis_decode;
}
