/* device_plan.c - writes a plan as plain memory, from which device backends work.
 * SPDX-License-Identifier: Apache-2.0 */
#include "device_plan.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/pad.h"
#include "error.h"
#include "plan.h"
#include "slots.h"
#include "spec.h"

/* ---- Headers ---------------------------------------------------------------------------------*/

/* Writes headers and masks when `at` is not NULL, and counts their bytes always. */
struct writer {
    uint8_t *at;
    uint64_t used;
};

/* Whether a header may have any legal value of the key: decoding does not depend on it, and kernels
 * know which values are legal. */
static bool is_free(const struct pithi_codec *codec, uint32_t key) {
    const int wire = codec->keys[key].wire;
    return (wire >= 0 || wire == PITHI_WIRE_REVISION) && codec->described_keys >> key & 1;
}

/* Returns where a header has a key that is_free says. */
static uint32_t key_at(const struct pithi_key *key) {
    return key->wire == PITHI_WIRE_REVISION ? PITHI_AT_REVISION
                                            : PITHI_AT_PARAMS + (uint32_t)key->wire;
}

static void mask_params(const struct pithi_codec *codec, uint8_t *mask) {
    for (uint32_t i = 0; i < codec->key_count; i++) {
        const struct pithi_key *key = &codec->keys[i];
        if (!is_free(codec, i)) continue;
        const bool real = key->kind == PITHI_KEY_REAL; /* the byte before says which it is */
        const bool wide = real || (key->kind == PITHI_KEY_NUMBER && key->max > 255);
        memset(mask + key_at(key) - real, 0, wide ? 4u + real : 1u);
    }
}

/* Writes a mask that is 0 at the bytes in which frames of the slot differ: the checksum, keys that
 * is_free says, step, base hash and rng_stream, the bound and the length of the payload, and the
 * bytes of a source. */
static void write_mask(const struct pithi_frame *f, uint64_t fixed, uint8_t *mask) {
    memset(mask, 0xFF, (size_t)f->header_bytes);
    mask_params(f->params.codec, mask);
    memset(mask + fixed - 8, 0, 8);
    uint8_t *const stream = mask + fixed + PITHI_SECTION_HEAD;
    if (f->has_stream) memset(stream, 0, PITHI_STREAM_FLAGS);
    if (f->has_stream && !f->has_base_hash) memset(stream + PITHI_STREAM_BASE, 0xFF, 8);
    if (!f->payload.fixed) memset(mask + PITHI_AT_PAYLOAD, 0, sizeof f->payload_bytes);
    const struct pithi_frame_hooks *const hooks = f->params.codec->frame_hooks;
    if (hooks) {
        memset(mask + PITHI_AT_PAYLOAD, 0, sizeof f->payload_bytes);
        memset(mask + fixed + PITHI_SECTION_HEAD, 0, hooks->section_bytes);
    }
    if (f->source_bytes) {
        const uint64_t source = pithi_pad16(PITHI_SECTION_HEAD + f->source_bytes);
        memset(mask + f->header_bytes - source + PITHI_SECTION_HEAD, 0, f->source_bytes);
    }
}

static void write_form(const pith_plan *p, uint64_t slot, bool key, struct writer *w,
                       struct pithi_device_plan_slot *to, struct pithi_device *device) {
    struct pithi_frame f;
    pithi_plan_frame(p, slot, key, &f);
    const struct pithi_payload *const payload = &f.payload;
    f.payload_bytes = pithi_payload_most(payload);
    to->count = f.count;
    to->blocks = payload->blocks;
    to->fixed_bytes = pithi_frame_fixed_bytes(&f);
    to->checks = payload->blocks + (f.exempt_bytes != 0);
    to->exempt_values = payload->exempt_values;
    to->exempt_bytes = f.exempt_bytes;
    to->tiling = f.tiling;
    to->form[key] = (struct pithi_device_plan_form){.header = w->used,
                                                    .header_bytes = f.header_bytes,
                                                    .checks = payload->checks,
                                                    .data = payload->data,
                                                    .block_bytes = payload->block_bytes,
                                                    .run_bytes = payload->run_bytes,
                                                    .payload_bytes = f.payload_bytes};
    const struct pithi_codec *const codec = f.params.codec;
    if (codec->describe_slot) codec->describe_slot(&f, to, device);
    if (w->at) {
        pithi_frame_write(&f, w->at + w->used);
        write_mask(&f, to->fixed_bytes, w->at + w->used + f.header_bytes);
    }
    w->used += pithi_pad16(2 * f.header_bytes);
}

/* Whether the slot has the headers of the one before it, as slots of equal length have. */
static bool same_headers(const pith_plan *p, uint64_t slot) {
    return slot && !p->exempt.count && pithi_slot_count(p, slot) == pithi_slot_count(p, slot - 1);
}

/* Returns a hash of the exempt runs in elements [first, first + count): XXH64 over the first
 * element, counted from `first`, and the count of each. */
static uint64_t digest(const pith_plan *p, uint64_t first, uint64_t count) {
    struct pithi_exempt_run run;
    uint64_t hash = 0;
    for (uint64_t at = first; pithi_exempt_next(&p->exempt, &at, first + count, &run);) {
        const uint64_t words[2] = {run.first - first, run.count};
        hash = XXH64(words, sizeof words, hash);
    }
    return hash;
}

static void write_ranges(const pith_plan *p, uint8_t *to) {
    for (size_t i = 0; i < p->exempt.count; i++) {
        const struct pithi_exempt_range *r = &p->exempt.range[i];
        const struct pithi_device_plan_range range = {r->first, r->count, r->at, r->dtype, 0};
        memcpy(to + i * sizeof range, &range, sizeof range);
    }
}

static void write_slots(const pith_plan *p, struct writer *w, struct pithi_device_plan *head) {
    struct pithi_device_plan_slot last = {0};
    for (uint64_t i = 0; i < p->slots; i++) {
        if (!same_headers(p, i))
            for (int key = 0; key <= (pithi_has_base(p) ? 1 : 0); key++)
                write_form(p, i, key, w, &last, &head->device);
        last.first = pithi_slot_first(p, i);
        last.exempt_from = pithi_exempt_at(&p->exempt, last.first);
        last.exempt_digest = digest(p, last.first, last.count);
        if (last.count > head->most) head->most = last.count;
        if (last.blocks > head->most_blocks) head->most_blocks = last.blocks;
        for (int key = 0; key < 2; key++)
            if (last.form[key].header_bytes > head->longest_header)
                head->longest_header = last.form[key].header_bytes;
        if (w->at) memcpy(w->at + head->slots_at + i * sizeof last, &last, sizeof last);
    }
}

/* ---- The codec's setting ---------------------------------------------------------------------*/

/* Whether frames of the setting may have value[k] for key keys[k]. */
static bool go_together(struct pithi_params q, const uint32_t keys[2], uint32_t count,
                        const uint32_t value[2]) {
    const char *ignored;
    uint32_t revision = pithi_frame_revision(&q);
    for (uint32_t k = 0; k < count; k++) {
        const struct pithi_key *const key = &q.codec->keys[keys[k]];
        if (value[k] < key->min || value[k] > key->max) return false;
        if (key->wire == PITHI_WIRE_REVISION)
            revision = value[k];
        else
            q.value[keys[k]] = value[k];
    }
    return pithi_params_set_revision(&q, (uint8_t)revision) &&
           pithi_params_check(&q, &ignored) == PITH_OK;
}

/* Lists the keys that may have any legal value; false when there are more of them, or more values
 * of one, than kernels look up. */
static bool list_free_keys(const struct pithi_params *q, struct pithi_free_keys *f) {
    uint32_t keys[2] = {0, 0};
    for (uint32_t i = 0; i < q->codec->key_count; i++) {
        const struct pithi_key *const key = &q->codec->keys[i];
        if (!is_free(q->codec, i)) continue;
        if (key->kind == PITHI_KEY_NUMBER && key->wire >= 0 && key->max <= 255 && !f->number) {
            f->number = key_at(key);
            f->least = key->min;
            f->most = key->max;
            continue;
        }
        const bool small = key->kind == PITHI_KEY_WORD || key->wire == PITHI_WIRE_REVISION;
        if (f->count == 2 || !small || key->max > 3) return false;
        keys[f->count] = i;
        f->at[f->count++] = key_at(key);
    }
    for (uint32_t v = 0; v < 16; v++) {
        const uint32_t value[2] = {v & 3, v >> 2};
        if (go_together(*q, keys, f->count, value)) f->legal |= 1u << v;
    }
    return true;
}

/* Fills in what the codec says of itself; false when kernels cannot code with the setting. */
static bool describe(const struct pithi_params *q, struct pithi_device *d) {
    *d = (struct pithi_device){.base_hash = q->base_dtype && q->stream.base_hash,
                               .feedback = q->stream.feedback};
    if (!q->codec->describe || !q->codec->describe(q, d)) return false;
    d->free_keys.legal = 1;
    d->free_keys.revision = q->codec->revision;
    return q->codec->described_rules || list_free_keys(q, &d->free_keys);
}

/* ---- The device plan -------------------------------------------------------------------------*/

static uint32_t log2_of(uint32_t x) {
    uint32_t n = 0;
    while (x >>= 1) n++;
    return n;
}

static struct pithi_device_plan head_of(const pith_plan *p) {
    const struct pithi_frame_hooks *const hooks = p->params.codec->frame_hooks;
    struct pithi_device_plan t = {
        .version = PITHI_DEVICE_PLAN_VERSION,
        .dtype = p->params.dtype,
        .base_dtype = p->params.base_dtype,
        .block_log2 = log2_of(p->params.block),
        .slots_at = pithi_pad64(sizeof(struct pithi_device_plan)),
        .slots = p->slots,
        .count = p->count,
        .stream_fingerprint = p->stream_fingerprint,
        .ranges = p->exempt.count,
        .saved_bytes = hooks ? hooks->saved_bytes : 0,
        .checksums = p->flags & PITH_LAYOUT_CHECKSUMS,
        .external = p->flags & PITH_LAYOUT_EXTERNAL_BASE,
    };
    t.ranges_at = pithi_pad64(t.slots_at + t.slots * sizeof(struct pithi_device_plan_slot));
    return t;
}

pith_status pithi_device_plan_write(const pith_plan *p, void *dst, size_t cap, size_t *bytes,
                                    pith_error *error) {
    if (!p || !bytes || !dst) return PITH_ERR_ARG;
    struct pithi_device_plan t = head_of(p);
    if (!describe(&p->params, &t.device))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          p->params.codec->described ? p->params.codec->described
                                                     : "this setting has no device kernels");
    const uint64_t headers =
        pithi_pad64(t.ranges_at + t.ranges * sizeof(struct pithi_device_plan_range));
    struct writer w = {NULL, headers};
    write_slots(p, &w, &t);
    *bytes = (size_t)(t.bytes = w.used);
    const struct pithi_codec *const codec = p->params.codec;
    const char *const refused = codec->refuse_device ? codec->refuse_device(&t) : NULL;
    if (refused) return pithi_fail(error, PITH_ERR_UNSUPPORTED, refused);
    if (cap >= w.used) {
        memset(dst, 0, (size_t)w.used);
        w = (struct writer){dst, headers};
        write_slots(p, &w, &t);
        write_ranges(p, (uint8_t *)dst + t.ranges_at);
    }
    memcpy(dst, &t, cap < sizeof t ? cap : sizeof t);
    return PITH_OK;
}
