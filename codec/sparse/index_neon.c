/* index_neon.c - sets of elements as Elias-Fano and as packed differences, for NEON.
 * SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>

#include "kernels.h"

typedef uint32x4_t v4;

static inline v4 v4_load(const uint32_t *p) {
    return vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)p));
}
static inline void v4_store(uint32_t *p, v4 x) { vst1q_u8((uint8_t *)p, vreinterpretq_u8_u32(x)); }
static inline v4 v4_set(uint32_t x) { return vdupq_n_u32(x); }
static inline v4 v4_add(v4 x, v4 y) { return vaddq_u32(x, y); }
static inline v4 v4_sub(v4 x, v4 y) { return vsubq_u32(x, y); }
static inline v4 v4_or(v4 x, v4 y) { return vorrq_u32(x, y); }
static inline v4 v4_and(v4 x, v4 y) { return vandq_u32(x, y); }
static inline v4 v4_ramp(uint32_t first) {
    static const uint32_t lanes[4] = {0, 1, 2, 3};
    return vaddq_u32(vdupq_n_u32(first), vld1q_u32(lanes));
}
static inline v4 v4_shl(v4 x, unsigned n) { return vshlq_u32(x, vdupq_n_s32((int32_t)n)); }
static inline v4 v4_shr(v4 x, unsigned n) { return vshlq_u32(x, vdupq_n_s32(-(int32_t)n)); }
static inline v4 v4_shr_each(v4 x, v4 n) {
    return vshlq_u32(x, vnegq_s32(vreinterpretq_s32_u32(n)));
}
static inline v4 v4_after(v4 last, v4 x) { return vextq_u32(last, x, 3); }
static inline v4 v4_last(v4 x) { return vdupq_laneq_u32(x, 3); }
static inline v4 v4_sums(v4 x) {
    const v4 none = vdupq_n_u32(0);
    x = vaddq_u32(x, vextq_u32(none, x, 3));
    return vaddq_u32(x, vextq_u32(none, x, 2));
}
static inline v4 v4_pick(const uint8_t *bytes, v4 pick) {
    return vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(bytes), vreinterpretq_u8_u32(pick)));
}
static inline v4 v4_above(v4 x, v4 y) {
    return vcgtq_s32(vreinterpretq_s32_u32(x), vreinterpretq_s32_u32(y));
}
static inline bool v4_ascends(v4 x, v4 y) { return vminvq_u32(v4_above(y, x)) != 0; }

#include "sparse/index_tmpl.h"

void pithi_index_bind_neon(struct pithi_kernels *k);
void pithi_index_bind_neon(struct pithi_kernels *k) {
    BIND(k);
    k->packed_take = packed_take;
}
