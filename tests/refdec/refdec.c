/* refdec.c - payloads, bases and the order in which a frame is judged.
 * SPDX-License-Identifier: Apache-2.0 */
#include "refdec.h"

#include <stdlib.h>
#include <string.h>

const char *ref_status_name(enum ref_status status) {
    static const char *const names[] = {"ok",       "truncated", "magic",   "newer", "corrupt",
                                        "checksum", "base",      "no base", "limit", "memory"};
    return names[status];
}

struct job {
    struct ref_frame frame;
    const uint8_t *payload, *base;
    uint64_t index, checks, data, exempt, blocks; /* index etc.: offsets */
    uint8_t *out, *new_base;
};

uint64_t ref_block_count(const struct ref_frame *f, uint64_t b) {
    if (ref_is_tiled(f)) return ref_tile(f, b).count;
    const uint64_t left = f->n - b * f->block;
    return left < f->block ? left : f->block;
}

/* The number of a block's first element; codecs 5 to 7 have no use for it. */
static uint64_t block_first(const struct ref_frame *f, uint64_t b) {
    if (f->codec != KV) return b * f->block;
    const struct ref_tile t = ref_tile(f, b);
    return (t.origin[1] * f->shape[2] + t.origin[2]) * f->shape[3];
}

static uint64_t block_length(const struct job *j, uint64_t b) {
    if (ref_is_fixed(&j->frame)) return ref_block_bytes(&j->frame, ref_block_count(&j->frame, b));
    return ref_le(j->payload + j->index + 4 * b, 4) & 0x7FFFFFFFu;
}

static bool all_zero(const uint8_t *bytes, uint64_t from, uint64_t to) {
    while (from < to)
        if (bytes[from++]) return false;
    return true;
}

/* Offsets of the parts; padding; that the blocks fill the payload. */
static enum ref_status lay_out(struct job *j) {
    const struct ref_frame *f = &j->frame;
    const bool fixed = ref_is_fixed(f);
    j->blocks = ref_blocks(f);
    j->checks = fixed ? 0 : ref_pad16(4 * j->blocks);
    j->data = j->checks + ref_pad16(8 * ref_checks(f));
    if (!fixed && !all_zero(j->payload, 4 * j->blocks, j->checks)) return REF_CORRUPT;
    if (!all_zero(j->payload, j->checks + 8 * ref_checks(f), j->data)) return REF_CORRUPT;
    uint64_t end = j->data;
    for (uint64_t b = 0; b < j->blocks; b++) {
        if (block_length(j, b) > ref_block_bytes(f, ref_block_count(f, b))) return REF_CORRUPT;
        end += block_length(j, b);
    }
    j->exempt = end;
    end += ref_pad16(f->exempt_bytes);
    if (end != f->payload_bytes) return REF_CORRUPT;
    return all_zero(j->payload, j->exempt + f->exempt_bytes, end) ? REF_OK : REF_CORRUPT;
}

static enum ref_status decode_tile(const struct job *j, uint64_t b, uint64_t at) {
    const struct ref_frame *f = &j->frame;
    const struct ref_tile tile = ref_tile(f, b);
    const uint64_t bytes = tile.count * ref_dtype_bytes(f->dtype);
    const bool plain = j->payload[j->index + 4 * b + 3] & 0x80;
    uint8_t *const values = malloc(bytes);
    const struct ref_block block = {.frame = f,
                                    .bytes = j->payload + at,
                                    .length = block_length(j, b),
                                    .count = tile.count,
                                    .out = values,
                                    .tile = &tile};
    enum ref_status status = values ? REF_OK : REF_MEMORY;
    if (values && plain && block.length != bytes) status = REF_CORRUPT;
    if (status == REF_OK && plain) memcpy(values, block.bytes, bytes);
    if (status == REF_OK && !plain)
        status = f->codec == EB    ? ref_eb(&block)
                 : f->codec == ACT ? ref_act(&block)
                                   : ref_embed(&block);
    if (status == REF_OK) ref_place_tile(f, &tile, values, j->out);
    free(values);
    return status;
}

static enum ref_status decode_block(const struct job *j, uint64_t b, uint64_t at) {
    const struct ref_frame *f = &j->frame;
    if (ref_is_bounded(f)) return decode_tile(j, b, at);
    const uint64_t first = block_first(f, b), base_bytes = ref_dtype_bytes(f->base_dtype);
    const struct ref_block block = {
        .frame = f,
        .bytes = j->payload + at,
        .length = block_length(j, b),
        .count = ref_block_count(&j->frame, b),
        .first = first,
        .plain = !ref_is_fixed(f) && j->payload[j->index + 4 * b + 3] & 0x80,
        .base = j->base ? j->base + first * base_bytes : NULL,
        .out = j->out + first * ref_dtype_bytes(f->dtype),
        .new_base = j->new_base + first * base_bytes,
    };
    if (f->codec == KV) return ref_kv(&block);
    if (f->codec == GRAD) return ref_grad(&block);
    if (f->codec == WDIFF) return ref_wdiff(&block);
    if (f->codec == LOSSLESS) return ref_lossless(&block);
    memcpy(block.out, block.bytes, block.length);
    return REF_OK;
}

static enum ref_status decode_blocks(const struct job *j) {
    uint64_t at = j->data;
    for (uint64_t b = 0; b < j->blocks; b++) {
        const enum ref_status status = decode_block(j, b, at);
        if (status != REF_OK) return status;
        at += block_length(j, b);
    }
    ref_put_exempt(&j->frame, j->payload + j->exempt, j->out);
    return REF_OK;
}

/* The exempt values are hashed as if they were one more block. */
static enum ref_status check_blocks(const struct job *j) {
    uint64_t at = j->data;
    for (uint64_t b = 0; b < ref_checks(&j->frame); b++) {
        const uint64_t want = ref_le(j->payload + j->checks + 8 * b, 8);
        const size_t length = b < j->blocks ? block_length(j, b) : ref_pad16(j->frame.exempt_bytes);
        if (ref_nh(j->payload + at, length, (UINT64_C(1) << 32) + b) != want) return REF_CHECKSUM;
        at += length;
    }
    return REF_OK;
}

static enum ref_status check_base(const struct job *j, uint64_t base_bytes) {
    const struct ref_frame *f = &j->frame;
    if (!f->base_dtype || f->key) return REF_OK;
    if (!j->base || base_bytes != f->n * ref_dtype_bytes(f->base_dtype)) return REF_NO_BASE;
    if (!f->declares_base_hash) return REF_OK;
    return ref_nh(j->base, base_bytes, f->base_dtype) == f->base_hash ? REF_OK : REF_BASE;
}

/* A key frame declares the identity of what it brings. */
static enum ref_status check_new_base(const struct job *j) {
    const struct ref_frame *f = &j->frame;
    if (!f->key || !f->declares_base_hash) return REF_OK;
    const uint8_t *brought = f->codec == LOSSLESS ? j->out : j->new_base;
    const uint64_t bytes = f->n * ref_dtype_bytes(f->base_dtype);
    return ref_nh(brought, bytes, f->base_dtype) == f->base_hash ? REF_OK : REF_CHECKSUM;
}

static enum ref_status run(struct job *j, uint64_t base_bytes) {
    enum ref_status status = lay_out(j);
    if (status == REF_OK) status = check_blocks(j);
    if (status == REF_OK) status = check_base(j, base_bytes);
    if (status == REF_OK) status = decode_blocks(j);
    return status == REF_OK ? check_new_base(j) : status;
}

enum ref_status refdec(const uint8_t *bytes, size_t length, const uint8_t *base, size_t base_bytes,
                       uint64_t limit, uint8_t **out, size_t *out_bytes) {
    struct job j = {.base = base};
    *out = NULL;
    *out_bytes = 0;
    enum ref_status status = ref_header(bytes, length, &j.frame);
    if (status != REF_OK) return status;
    const uint64_t need = j.frame.n * ref_dtype_bytes(j.frame.dtype);
    if (need > limit) return REF_LIMIT;
    if (length - j.frame.header_bytes < j.frame.payload_bytes) return REF_TRUNCATED;
    j.payload = bytes + j.frame.header_bytes;
    j.out = malloc(need + 1);
    j.new_base = malloc(j.frame.n * 8 + 1);
    status = j.out && j.new_base ? run(&j, base_bytes) : REF_MEMORY;
    free(j.new_base);
    if (status == REF_OK) {
        *out = j.out;
        *out_bytes = need;
    } else {
        free(j.out);
    }
    return status;
}
