/* damage.c - damages frames and puts their header checksum right again.
 * SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "fuzz.h"

/* doc/FORMAT.md, Header. */
enum { AT_FLAGS = 11, AT_SECTIONS = 12, FLAG_WIDE = 1, HEADER = 64, WIDE_HEADER = 112 };

void fuzz_fix_frame(uint8_t *frame, size_t length) {
    if (length < HEADER) return;
    const size_t fixed = frame[AT_FLAGS] & FLAG_WIDE ? WIDE_HEADER : HEADER;
    size_t sections = 0;
    for (int i = 3; i >= 0; i--) sections = sections << 8 | frame[AT_SECTIONS + i];
    if (length < fixed || length - fixed < sections) return;
    uint64_t hash = XXH64(frame + fixed, sections, XXH64(frame, fixed - 8, 0));
    for (size_t i = 0; i < 8; i++, hash >>= 8) frame[fixed - 8 + i] = (uint8_t)hash;
}

void fuzz_patch(uint8_t *bytes, size_t length, struct fuzz_source *s) {
    for (uint32_t n = fuzz_below(s, 9); n && length; n--) {
        const uint8_t how = fuzz_u8(s);
        const uint32_t at = how & 0x40 ? fuzz_u32(s) : fuzz_u8(s);
        if (how & 0x80)
            bytes[at % length] = fuzz_u8(s);
        else
            bytes[at % length] ^= (uint8_t)(1u << (how & 7));
    }
}
