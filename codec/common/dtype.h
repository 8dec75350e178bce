/* dtype.h - what a dtype takes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_DTYPE_H
#define PITHI_COMMON_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* Is pith_dtype_bytes, inline: every call looks an element's size up several times. */
static inline size_t pithi_dtype_bytes(uint32_t dtype) {
    static const uint8_t bytes[] = {0, 4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1, 1};
    return dtype < sizeof bytes ? bytes[dtype] : 0;
}

#endif
