/* endian.h - unaligned little-endian loads and stores of frame fields.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_ENDIAN_H
#define PITHI_COMMON_ENDIAN_H

#include <stdint.h>
#include <string.h>

#include "common/inline.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "pith keeps tensors in memory order and supports little-endian machines only"
#endif

PITHI_INLINE uint16_t pithi_get16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
PITHI_INLINE uint32_t pithi_get32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
PITHI_INLINE uint64_t pithi_get64(const void *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
PITHI_INLINE void pithi_put16(void *p, uint16_t v) { memcpy(p, &v, sizeof v); }
PITHI_INLINE void pithi_put32(void *p, uint32_t v) { memcpy(p, &v, sizeof v); }
PITHI_INLINE void pithi_put64(void *p, uint64_t v) { memcpy(p, &v, sizeof v); }

#endif
