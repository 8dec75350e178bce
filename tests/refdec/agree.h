/* agree.h - asks libpith and the second decoder about one frame.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef REFDEC_AGREE_H
#define REFDEC_AGREE_H

#include "refdec.h"

enum { AGREE_LIMIT = 1 << 20 };

struct ref_verdict {
    enum ref_status ours;   /* the second decoder's */
    enum ref_status theirs; /* libpith's, in the same words */
    bool same;              /* of one mind, and with the same values */
};
/* base: bytes that are repeated to the length that the frame asks for; none: zeros. */
struct ref_verdict ref_agree(const uint8_t *frame, size_t length, const uint8_t *base,
                             size_t base_bytes);

#endif
