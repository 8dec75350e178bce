/* pad.h - sizes rounded up: to 16 in frames, to 64 in scratch memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_PAD_H
#define PITHI_COMMON_PAD_H

#include <stdint.h>

#include "common/inline.h"

PITHI_INLINE uint64_t pithi_pad16(uint64_t bytes) { return (bytes + 15) & ~UINT64_C(15); }
PITHI_INLINE uint64_t pithi_pad64(uint64_t bytes) { return (bytes + 63) & ~UINT64_C(63); }

#endif
