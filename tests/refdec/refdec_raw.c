/* refdec_raw.c - codec 1: the values as they are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "refdec.h"

static enum ref_status check(const struct ref_frame *f) {
    REJECT_IF(!ref_zeros(f->parameter, 0, 16));
    return REF_OK;
}

static bool fixed(const struct ref_frame *f) {
    (void)f;
    return true;
}

const struct ref_codec ref_codec_raw = {
    .name = "raw",
    .revision = 1,
    .dtypes = 0xFFFE,
    .bases = 1,
    .check = check,
    .fixed = fixed,
    .block_bytes = ref_plain_bytes,
    .decode = ref_plain,
};
