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

#ifdef __CUDACC__
/* Byte by byte, which is how a device accesses what is not aligned. Of a memcpy in one branch of a
 * test for alignment, and an aligned load in the other, nvcc 13.0 makes one load without the test.
 */
PITHI_INLINE uint64_t pithi_get_bytes(const void *p, uint32_t bytes) {
    uint64_t v = 0;
    for (uint32_t i = 0; i < bytes; i++) v |= (uint64_t)((const uint8_t *)p)[i] << 8 * i;
    return v;
}
PITHI_INLINE void pithi_put_bytes(void *p, uint64_t v, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++) ((uint8_t *)p)[i] = (uint8_t)(v >> 8 * i);
}
PITHI_INLINE uint16_t pithi_get16(const void *p) { return (uint16_t)pithi_get_bytes(p, 2); }
PITHI_INLINE uint32_t pithi_get32(const void *p) { return (uint32_t)pithi_get_bytes(p, 4); }
PITHI_INLINE uint64_t pithi_get64(const void *p) { return pithi_get_bytes(p, 8); }
PITHI_INLINE void pithi_put16(void *p, uint16_t v) { pithi_put_bytes(p, v, 2); }
PITHI_INLINE void pithi_put32(void *p, uint32_t v) { pithi_put_bytes(p, v, 4); }
PITHI_INLINE void pithi_put64(void *p, uint64_t v) { pithi_put_bytes(p, v, 8); }
#else
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

#endif
