/* agree.c - one frame, two decoders.
 * SPDX-License-Identifier: Apache-2.0 */
#include "agree.h"

#include <stdlib.h>
#include <string.h>

#include "pith/pith.h"

static enum ref_status translated(pith_status status) {
    switch (status) {
    case PITH_OK: return REF_OK;
    case PITH_ERR_TRUNCATED: return REF_TRUNCATED;
    case PITH_ERR_MAGIC: return REF_MAGIC;
    case PITH_ERR_NEWER: return REF_NEWER;
    case PITH_ERR_CORRUPT: return REF_CORRUPT;
    case PITH_ERR_CHECKSUM: return REF_CHECKSUM;
    case PITH_ERR_BASE: return REF_BASE;
    case PITH_ERR_STATE: return REF_STATE;
    case PITH_ERR_LIMIT: return REF_LIMIT;
    default: return REF_MEMORY; /* none that bytes can cause: never the second decoder's answer */
    }
}

static uint8_t *repeated(const uint8_t *bytes, size_t length, size_t wanted) {
    uint8_t *out = calloc(wanted + 1, 1);
    for (size_t i = 0; out && length && i < wanted; i++) out[i] = bytes[i % length];
    return out;
}

struct ref_verdict ref_agree(const uint8_t *frame, size_t length, const uint8_t *base,
                             size_t base_bytes) {
    struct ref_verdict v = {REF_MEMORY, REF_MEMORY, false};
    const pith_env env = {.size = sizeof env, .max_output_bytes = AGREE_LIMIT};
    pith_info info = {.size = sizeof info};
    uint8_t *ours = NULL;
    size_t our_bytes = 0;
    const bool readable = pith_inspect(frame, length, &info, NULL) == PITH_OK;
    const bool small = readable && info.raw_bytes <= AGREE_LIMIT;
    const uint64_t count = small ? info.count : 0, raw = small ? info.raw_bytes : 0;
    const size_t need = count * pith_dtype_bytes(readable ? info.base_dtype : PITH_NONE);
    uint8_t *out = malloc(raw + 1), *full = repeated(base, base_bytes, need);
    const pith_view view = pith_view_flat(out, readable ? info.dtype : PITH_F32, count);
    const pith_view old = pith_view_flat(full, readable ? info.base_dtype : PITH_F32, count);
    const bool based = readable && info.base_dtype;
    if (out && full) {
        v.theirs =
            translated(pith_decompress(frame, length, based ? &old : NULL, &env, &view, NULL));
        v.ours = refdec(frame, length, based ? full : NULL, need, AGREE_LIMIT, &ours, &our_bytes);
        v.same = v.theirs == v.ours;
        if (v.same && v.ours == REF_OK)
            v.same = our_bytes == raw && memcmp(out, ours, our_bytes) == 0;
    }
    free(ours);
    free(full);
    free(out);
    return v;
}
