/* raw.c - codec raw: the values as they are.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "codec.h"
#include "device_plan.h"

static const struct pithi_key keys[] = {
    {"block", PITHI_KEY_POW2, 65536, 16, 1u << PITHI_BLOCK_LOG2_MAX, 0, PITHI_WIRE_BLOCK,
     "16..16777216, a power of two", "elements per block", false},
};

static bool fixed(const struct pithi_params *params) {
    (void)params;
    return true;
}

static uint64_t block_bytes(const struct pithi_params *params, uint64_t count) {
    return count * pithi_dtype_bytes(params->dtype);
}

static size_t scratch_bytes(const struct pithi_params *params) {
    (void)params;
    return 0;
}

static pith_status encode(struct pithi_block *block) {
    block->length = block->count * pithi_dtype_bytes(block->params->dtype);
    memcpy(block->bytes, block->value, block->length);
    return PITH_OK;
}

static pith_status decode(struct pithi_block *block) {
    if (block->out) memcpy(block->out, block->bytes, block->length);
    return PITH_OK;
}

static bool describe(const struct pithi_params *p, struct pithi_device *d) {
    (void)p;
    d->kind = PITHI_KIND_RAW;
    return true;
}

const struct pithi_codec pithi_codec_raw = {
    .id = 1,
    .revision = 1,
    .name = "raw",
    .summary = "the values as they are",
    .traits = PITH_TRAIT_LOSSLESS | PITH_TRAIT_FIXED_RATE,
    .dtypes = 0xFFFEu,
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .fixed = fixed,
    .block_bytes = block_bytes,
    .scratch_bytes = scratch_bytes,
    .encode = encode,
    .decode = decode,
    .describe = describe,
};
