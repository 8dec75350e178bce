/* code_symbols.c - packed codes to one in a byte, for entropy coding, and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "group/group.h"

void pithi_codes_to_symbols(unsigned bits, const uint8_t *codes, size_t count, uint8_t *symbols) {
    uint32_t pending = 0, filled = 0;
    for (size_t i = 0; i < count; i++, filled -= bits, pending >>= bits) {
        if (filled < bits) pending |= (uint32_t)*codes++ << filled, filled += 8;
        symbols[i] = (uint8_t)(pending & ((1u << bits) - 1));
    }
}

uint32_t pithi_symbols_to_codes(unsigned bits, const uint8_t *symbols, size_t count,
                                uint8_t *codes) {
    uint32_t pending = 0, filled = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        all |= symbols[i];
        pending |= (uint32_t)symbols[i] << filled;
        for (filled += bits; filled >= 8; filled -= 8, pending >>= 8) *codes++ = (uint8_t)pending;
    }
    if (filled) *codes = (uint8_t)pending;
    return all;
}
