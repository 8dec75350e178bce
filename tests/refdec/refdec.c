/* refdec.c - payloads, bases and the order in which a frame is judged.
 * SPDX-License-Identifier: Apache-2.0 */
#include "refdec.h"

#include <stdlib.h>
#include <string.h>

const char *ref_status_name(enum ref_status status) {
    static const char *const names[] = {"ok",      "truncated", "magic", "newer",
                                        "corrupt", "checksum",  "base",  "no base",
                                        "state",   "limit",     "memory"};
    return names[status];
}

struct job {
    struct ref_frame frame;
    const uint8_t *payload, *base;                /* base: or the held set */
    uint64_t index, checks, data, exempt, blocks; /* index etc.: offsets */
    uint8_t *out, *new_base;
    uint64_t values;
};

uint64_t ref_block_count(const struct ref_frame *f, uint64_t b) {
    if (f->codec->cut) return ref_tile(f, b).count;
    const uint64_t left = f->n - b * f->block;
    return left < f->block ? left : f->block;
}

static uint64_t block_length(const struct job *j, uint64_t b) {
    if (ref_is_fixed(&j->frame)) return ref_block_bytes(&j->frame, ref_block_count(&j->frame, b));
    return ref_le(j->payload + j->index + 4 * b, 4) & 0x7FFFFFFFu;
}

bool ref_zeros(const uint8_t *bytes, uint64_t from, uint64_t to) {
    while (from < to)
        if (bytes[from++]) return false;
    return true;
}

uint64_t ref_plain_bytes(const struct ref_frame *f, uint64_t count) {
    return count * ref_dtype_bytes(f->dtype);
}

enum ref_status ref_plain(const struct ref_block *b) {
    if (b->length != ref_plain_bytes(b->frame, b->count)) return REF_CORRUPT;
    memcpy(b->out, b->bytes, b->length);
    return REF_OK;
}

/* Offsets of the parts; padding; that the blocks fill the payload. */
static enum ref_status find_parts(struct job *j) {
    const struct ref_frame *f = &j->frame;
    const bool fixed = ref_is_fixed(f);
    j->blocks = ref_blocks(f);
    j->checks = fixed ? 0 : ref_pad16(4 * j->blocks);
    j->data = j->checks + ref_pad16(8 * ref_checks(f));
    if (!fixed && !ref_zeros(j->payload, 4 * j->blocks, j->checks)) return REF_CORRUPT;
    if (!ref_zeros(j->payload, j->checks + 8 * ref_checks(f), j->data)) return REF_CORRUPT;
    uint64_t end = j->data;
    for (uint64_t b = 0; b < j->blocks; b++) {
        if (block_length(j, b) > ref_block_bytes(f, ref_block_count(f, b))) return REF_CORRUPT;
        end += block_length(j, b);
    }
    j->exempt = end;
    end += ref_pad16(f->exempt_bytes);
    if (end != f->payload_bytes) return REF_CORRUPT;
    return ref_zeros(j->payload, j->exempt + f->exempt_bytes, end) ? REF_OK : REF_CORRUPT;
}

/* The values of a tile are made dense and then placed; a run, and a page, lies as it is. */
static enum ref_status decode_block(struct job *j, uint64_t b, uint64_t at) {
    const struct ref_frame *f = &j->frame;
    const uint64_t base_bytes = ref_dtype_bytes(f->base_dtype);
    const struct ref_tile tile = f->codec->cut ? ref_tile(f, b) : (struct ref_tile){.count = 0};
    const uint64_t first = f->codec->cut ? ref_tile_first(f, &tile) : b * f->block;
    uint8_t *const values = malloc(ref_plain_bytes(f, ref_block_count(f, b)));
    const struct ref_block block = {
        .frame = f,
        .bytes = j->payload + at,
        .length = block_length(j, b),
        .count = ref_block_count(f, b),
        .first = first,
        .plain = !ref_is_fixed(f) && j->payload[j->index + 4 * b + 3] & 0x80,
        .base = j->base ? j->base + first * base_bytes : NULL,
        .out = values,
        .new_base = j->new_base + first * base_bytes,
        .tile = &tile,
        .held = j->base,
        .values = &j->values,
    };
    const enum ref_status status = values ? f->codec->decode(&block) : REF_MEMORY;
    if (status == REF_OK && f->codec->cut) ref_place_tile(f, &tile, values, j->out);
    if (status == REF_OK && !f->codec->cut)
        memcpy(j->out + ref_plain_bytes(f, first), values, ref_plain_bytes(f, block.count));
    free(values);
    return status;
}

static enum ref_status decode_blocks(struct job *j) {
    uint64_t at = j->data;
    for (uint64_t b = 0; b < j->blocks; b++) {
        const enum ref_status status = decode_block(j, b, at);
        if (status != REF_OK) return status;
        at += block_length(j, b);
    }
    ref_put_exempt(&j->frame, j->payload + j->exempt, j->out);
    if (j->frame.codec->check_values) TRY(j->frame.codec->check_values(&j->frame, j->values));
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
    if (f->codec->check_held) TRY(f->codec->check_held(f, j->base, base_bytes));
    if (!f->base_dtype || f->key) return REF_OK;
    if (!j->base || base_bytes != f->n * ref_dtype_bytes(f->base_dtype)) return REF_NO_BASE;
    if (!f->declares_base_hash) return REF_OK;
    return ref_nh(j->base, base_bytes, f->base_dtype) == f->base_hash ? REF_OK : REF_BASE;
}

/* A key frame declares the hash of what it brings. */
static enum ref_status check_new_base(const struct job *j) {
    const struct ref_frame *f = &j->frame;
    if (!f->key || !f->declares_base_hash) return REF_OK;
    const uint64_t bytes = f->n * ref_dtype_bytes(f->base_dtype);
    return ref_nh(j->new_base, bytes, f->base_dtype) == f->base_hash ? REF_OK : REF_CHECKSUM;
}

static enum ref_status run(struct job *j, uint64_t base_bytes) {
    enum ref_status status = find_parts(j);
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
