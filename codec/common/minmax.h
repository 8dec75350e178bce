/* minmax.h - the smaller and the larger of two sizes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_MINMAX_H
#define PITHI_COMMON_MINMAX_H

#include <stdint.h>

#include "common/inline.h"

PITHI_INLINE uint64_t pithi_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
PITHI_INLINE uint64_t pithi_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
