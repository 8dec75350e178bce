/* dtype.h - what a dtype is and takes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_DTYPE_H
#define PITHI_COMMON_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/inline.h"
#include "pith/pith.h"

/* Is pith_dtype_bytes, inline, for hosts and devices: every call looks an element's size up several
 * times. A digit for each dtype, that of PITH_NONE the lowest: devices have no table to load. */
PITHI_INLINE uint32_t pithi_dtype_bytes(uint32_t dtype) {
    return dtype < 16 ? (uint32_t)(UINT64_C(0x1118844221182240) >> 4 * dtype) & 15 : 0;
}
/* Whether the dtype is f32, bf16 or f16. */
PITHI_INLINE bool pithi_is_float16_32(uint32_t dtype) {
    return dtype == PITH_F32 || dtype == PITH_BF16 || dtype == PITH_F16;
}

#endif
