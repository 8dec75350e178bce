/* bad.h - frames that break one rule each, as changes to golden frames.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_TESTS_BAD_H
#define PITH_TESTS_BAD_H

#include "util.h"

struct patch {
    size_t at;
    int width; /* bytes of value, little-endian; 0: no patch */
    uint64_t value;
};

struct bad {
    const char *name, *from; /* a golden frame */
    pith_status wanted;      /* of pith_decompress with the golden frame's base */
    struct patch patch[4];
    long length;   /* 0: as it is; negative: so much shorter; positive: exactly */
    bool unsealed; /* leave the header checksum as it was */
};

/* Number index, or NULL past the last. */
const struct bad *bad_at(size_t index);
/* Make the header checksum right, if the header is there. */
void bad_seal(struct frame *f);
/* Apply the changes and make the header checksum right again. */
struct frame bad_make(const struct bad *b, const struct frame *from);

#endif
