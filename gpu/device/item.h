/* item.h - one item of a call: where its parts lie, and whether its frame may be read.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_ITEM_H
#define PITHI_GPU_DEVICE_ITEM_H

#include "common/nh.h"
#include "device/call.h"
#include "device/phase.h"
#include "frame_header.h"

/* What a team knows of its item; in the team's memory, set by its first thread. */
struct pithi_gpu_item {
    const uint8_t *plan_memory;
    const struct pithi_device_plan_slot *slot;
    const struct pithi_device_plan_form *form;
    struct pithi_gpu_slot_state *slot_state; /* NULL: the call adds to a tensor */
    uint8_t *frame, *payload;
    uint8_t *tensor; /* the slot's first element; or NULL */
    uint8_t *base;
    uint64_t index;      /* of the item */
    uint64_t begin, end; /* the team's elements of the slot */
    bool first;          /* the item's first team: it writes what there is one of */
    uint32_t kind;       /* of form */
    int32_t status;
};

/* ---- Stream ----------------------------------------------------------------------------------*/

PITHI_DEVICE struct pithi_gpu_slot_state *pithi_stream_slots(struct pithi_gpu_stream *s) {
    return (struct pithi_gpu_slot_state *)(void *)((uint8_t *)s + s->slots);
}
PITHI_DEVICE uint8_t *pithi_stream_memory(struct pithi_gpu_stream *s) {
    return s->external ? (uint8_t *)s->external : (uint8_t *)s + s->memory;
}
/* Whether the stream is this plan's and has its base, which calls that add do without. */
PITHI_DEVICE int32_t pithi_stream_check(const struct pithi_device_plan *p,
                                        const struct pithi_gpu_stream *s, bool add) {
    const bool has_base = add || !p->external || s->external || !p->count;
    return has_base && s->stream_fingerprint == p->stream_fingerprint ? PITH_OK : PITH_ERR_STATE;
}

/* ---- Place -----------------------------------------------------------------------------------*/

PITHI_DEVICE uint64_t pithi_item_slot(const struct pithi_gpu_items *items, uint64_t i) {
    if (items->slots) return items->slots[i];
    return items->same_slot ? items->first_slot : items->first_slot + i;
}

PITHI_DEVICE uint8_t *pithi_item_frame(const struct pithi_gpu_items *items, uint64_t i) {
    return items->frames ? items->frames[i] : items->frame + i * items->frame_stride;
}

PITHI_DEVICE uint8_t *pithi_item_tensor(const struct pithi_gpu_items *items, uint64_t i,
                                        uint64_t first, uint64_t element) {
    if (items->tensors) return items->tensors[i];
    if (items->tensor_stride) return items->tensor + i * items->tensor_stride;
    return items->tensor ? items->tensor + first * element : NULL;
}

/* Elements of the slot that this team works on. */
PITHI_DEVICE void pithi_item_span(const struct pithi_gpu_call *a, uint64_t chunk,
                                  struct pithi_gpu_item *it) {
    const uint64_t count = it->slot->count;
    uint64_t end =
        a->count < count - (a->first < count ? a->first : count) ? a->first + a->count : count;
    it->begin = a->first / a->span * a->span + chunk * a->span;
    if (it->begin > end) it->begin = end;
    it->end = end - it->begin < a->span ? end : it->begin + a->span;
}

PITHI_DEVICE void pithi_item_locate(const struct pithi_gpu_call *a,
                                    const struct pithi_gpu_side *side, uint64_t team,
                                    struct pithi_gpu_item *it) {
    const struct pithi_device_plan *const p = &side->plan;
    const struct pithi_gpu_items *const items = &side->items;
    struct pithi_gpu_stream *const stream = side->stream;
    /* There are fewer teams than 2^31, see pithi_cuda_launch. */
    const uint32_t chunk = (uint32_t)team % (uint32_t)a->chunks;
    it->index = (uint32_t)team / (uint32_t)a->chunks;
    it->first = chunk == 0;
    const uint64_t number = pithi_item_slot(items, it->index);
    const bool known = number < p->slots;
    it->status = known ? pithi_stream_check(p, stream, a->add) : PITH_ERR_ARG;
    it->plan_memory = side->plan_memory;
    it->slot =
        (const struct pithi_device_plan_slot *)(const void *)(side->plan_memory + p->slots_at) +
        (known ? number : 0);
    it->kind = a->key;
    it->form = &it->slot->form[it->kind];
    it->frame = items->frame || items->frames ? pithi_item_frame(items, it->index) : NULL;
    it->payload = it->frame ? it->frame + it->form->header_bytes : NULL;
    it->tensor =
        pithi_item_tensor(items, it->index, it->slot->first, pithi_dtype_bytes(items->dtype));
    it->slot_state = known && !a->add ? pithi_stream_slots(stream) + number : NULL;
    it->base = NULL;
    if (p->base_dtype != PITH_NONE && !a->add)
        it->base = pithi_stream_memory(stream) + it->slot->first * pithi_dtype_bytes(p->base_dtype);
    if (items->tensors && !it->tensor && it->slot->count && (!it->base || side == &a->to))
        it->status = PITH_ERR_ARG;
    pithi_item_span(a, chunk, it);
}

/* ---- Header hash -----------------------------------------------------------------------------*/

#define PITHI_XXH_1 UINT64_C(0x9E3779B185EBCA87)
#define PITHI_XXH_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PITHI_XXH_3 UINT64_C(0x165667B19E3779F9)
#define PITHI_XXH_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PITHI_XXH_5 UINT64_C(0x27D4EB2F165667C5)

PITHI_DEVICE uint64_t pithi_rotl(uint64_t x, int by) { return x << by | x >> (64 - by); }
PITHI_DEVICE uint64_t pithi_xxh_round(uint64_t sum, uint64_t lane) {
    return pithi_rotl(sum + lane * PITHI_XXH_2, 31) * PITHI_XXH_1;
}
PITHI_DEVICE uint64_t pithi_xxh_merge(uint64_t h, uint64_t sum) {
    return (h ^ pithi_xxh_round(0, sum)) * PITHI_XXH_1 + PITHI_XXH_4;
}

PITHI_DEVICE uint64_t pithi_header_word(const uint8_t *p) {
    return pithi_is_aligned(p, 8) ? pithi_get_aligned64(p) : pithi_get64(p);
}

/* Four lanes joined, a word behind them, and the end. */
PITHI_DEVICE uint64_t pithi_xxh_join(const uint64_t v[4]) {
    uint64_t h =
        pithi_rotl(v[0], 1) + pithi_rotl(v[1], 7) + pithi_rotl(v[2], 12) + pithi_rotl(v[3], 18);
    PITHI_UNROLL for (int k = 0; k < 4; k++) h = pithi_xxh_merge(h, v[k]);
    return h;
}
PITHI_DEVICE uint64_t pithi_xxh_word(uint64_t h, uint64_t word) {
    return pithi_rotl(h ^ pithi_xxh_round(0, word), 27) * PITHI_XXH_1 + PITHI_XXH_4;
}
PITHI_DEVICE uint64_t pithi_xxh_end(uint64_t h) {
    h = (h ^ h >> 33) * PITHI_XXH_2;
    h = (h ^ h >> 29) * PITHI_XXH_3;
    return h ^ h >> 32;
}

/* XXH64 of n bytes, n a multiple of 8: headers are. libxxhash does not compile for devices. */
PITHI_DEVICE uint64_t pithi_xxh64(const uint8_t *p, uint64_t n, uint64_t seed) {
    const uint8_t *const end = p + n;
    uint64_t h = seed + PITHI_XXH_5;
    if (n >= 32) {
        uint64_t v[4] = {seed + PITHI_XXH_1 + PITHI_XXH_2, seed + PITHI_XXH_2, seed,
                         seed - PITHI_XXH_1};
        for (; end - p >= 32; p += 32)
            PITHI_UNROLL for (int k = 0; k < 4; k++) v[k] =
                pithi_xxh_round(v[k], pithi_header_word(p + 8 * k));
        h = pithi_xxh_join(v);
    }
    h += n;
    for (; p < end; p += 8) h = pithi_xxh_word(h, pithi_header_word(p));
    return pithi_xxh_end(h);
}

PITHI_DEVICE uint64_t pithi_header_hash(const uint8_t *header, uint64_t fixed, uint64_t bytes) {
    return pithi_xxh64(header + fixed, bytes - fixed, pithi_xxh64(header, fixed - 8, 0));
}

/* ---- Reading a header ------------------------------------------------------------------------*/

/* Whether it begins as a frame that can be read. */
PITHI_DEVICE int32_t pithi_header_start(const uint8_t *frame, const uint8_t *mine,
                                        uint64_t length) {
    for (uint32_t i = 0; i < PITHI_MAGIC_BYTES && i < length; i++)
        if (frame[i] != mine[i]) return PITH_ERR_MAGIC;
    if (length > PITHI_AT_VERSION && frame[PITHI_AT_VERSION] > mine[PITHI_AT_VERSION])
        return PITH_ERR_NEWER;
    if (length > PITHI_AT_VERSION && frame[PITHI_AT_VERSION] == 0) return PITH_ERR_CORRUPT;
    return length < PITHI_HEADER_BYTES ? PITH_ERR_TRUNCATED : PITH_OK;
}

PITHI_DEVICE bool pithi_header_mine(const uint8_t *frame, const uint8_t *mine, uint64_t bytes) {
    uint32_t differ = 0;
    for (uint64_t i = 0; i < bytes; i++) differ |= (frame[i] ^ mine[i]) & mine[bytes + i];
    return differ == 0;
}

/* Whether the keys that pithi_header_mine passes over have values that go together. */
PITHI_DEVICE bool pithi_keys_legal(const struct pithi_free_keys *keys, const uint8_t *frame) {
    uint32_t values = 0;
    if (keys->number && (frame[keys->number] < keys->least || frame[keys->number] > keys->most))
        return false;
    PITHI_UNROLL for (uint32_t k = 0; k < 2; k++) {
        if (k >= keys->count) continue;
        if (frame[keys->at[k]] > 3) return false;
        values |= (uint32_t)frame[keys->at[k]] << 2 * k;
    }
    return keys->legal >> values & 1;
}

PITHI_DEVICE bool pithi_zeros(const uint8_t *p, uint64_t from, uint64_t to) {
    uint32_t any = 0;
    for (; from < to; from++) any |= p[from];
    return any == 0;
}

/* What kind of frame it says it is. */
PITHI_DEVICE void pithi_item_kind(const struct pithi_device_plan *p, struct pithi_gpu_item *it,
                                  const uint8_t *head) {
    it->kind = p->base_dtype != PITH_NONE && (head[PITHI_AT_FLAGS] & PITHI_FLAG_KEY);
    it->form = &it->slot->form[it->kind];
    it->payload = it->frame + it->form->header_bytes;
}

/* Body of the stream section. */
PITHI_DEVICE uint8_t *pithi_item_stream(const struct pithi_gpu_item *it) {
    return it->frame + it->slot->fixed_bytes + PITHI_SECTION_HEAD;
}

/* How the bytes of a header differ from the plan's. */
enum { PITHI_HEADER_SAME, PITHI_HEADER_FREE, PITHI_HEADER_OTHER }; /* FREE: where frames may */

/* Says whether a header, all of which is there, has flags that are known and, if the frame is of
 * the plan's codec, a revision that is. */
PITHI_DEVICE int32_t pithi_header_revision(const struct pithi_device_plan *p, const uint8_t *head,
                                           const uint8_t *mine) {
    const uint32_t known = PITHI_FLAG_WIDE | PITHI_FLAG_KEY | PITHI_FLAG_CHECKSUMS;
    if (head[PITHI_AT_FLAGS] & ~known) return PITH_ERR_NEWER;
    if (head[PITHI_AT_CODEC] != mine[PITHI_AT_CODEC]) return PITH_OK;
    if (head[PITHI_AT_REVISION] > p->device.free_keys.revision) return PITH_ERR_NEWER;
    return head[PITHI_AT_REVISION] == 0 ? PITH_ERR_CORRUPT : PITH_OK;
}

/* The check of the header of a located item's frame, but for its stream; sets kind, form and
 * payload. head: the frame's first bytes, wherever they are. differs: how they differ from those of
 * both forms, 0 behind the frame's end; NULL: not known yet. The plan's own headers are right. */
PITHI_DEVICE int32_t pithi_header_judge(const struct pithi_device_plan *p, uint64_t length,
                                        struct pithi_gpu_item *it, const uint8_t *head,
                                        const uint32_t differs[2]) {
    if (differs) {
        pithi_item_kind(p, it, head);
        if (differs[it->kind] == PITHI_HEADER_SAME && length >= it->form->header_bytes)
            return PITH_OK;
    }
    const uint8_t *const mine = it->plan_memory + it->slot->form[0].header;
    const int32_t start = pithi_header_start(head, mine, length);
    if (start != PITH_OK) return start;
    pithi_item_kind(p, it, head);
    const bool wide = head[PITHI_AT_FLAGS] & PITHI_FLAG_WIDE;
    const uint64_t fixed = wide ? PITHI_WIDE_HEADER_BYTES : PITHI_HEADER_BYTES;
    const uint64_t bytes = it->form->header_bytes, sections = bytes - it->slot->fixed_bytes;
    if (pithi_get32(head + PITHI_AT_SECTIONS) != sections) return PITH_ERR_MISMATCH;
    if (length < fixed + sections) return PITH_ERR_TRUNCATED;
    if (pithi_header_hash(head, fixed, fixed + sections) != pithi_get64(head + fixed - 8))
        return PITH_ERR_CHECKSUM;
    const int32_t revision = pithi_header_revision(p, head, mine);
    if (revision != PITH_OK) return revision;
    if (fixed != it->slot->fixed_bytes) return PITH_ERR_MISMATCH;
    if (differs ? differs[it->kind] == PITHI_HEADER_OTHER
                : !pithi_header_mine(head, it->plan_memory + it->form->header, bytes))
        return PITH_ERR_MISMATCH;
    return pithi_keys_legal(&p->device.free_keys, head) ? PITH_OK : PITH_ERR_CORRUPT;
}

/* Whether blocks have lengths of their own, in an index: exact values have in key frames, too. */
PITHI_DEVICE bool pithi_item_coded(const struct pithi_device_plan *p,
                                   const struct pithi_gpu_item *it) {
    return p->device.coded && (!it->kind || p->device.kind == PITHI_KIND_RAW);
}

/* Checks what a frame whose blocks have lengths of their own has besides its index, its blocks and
 * their checksums; its payload has at most so many bytes. */
PITHI_DEVICE int32_t pithi_payload_check(const struct pithi_device_plan *p, uint64_t length,
                                         const struct pithi_gpu_item *it, uint64_t most) {
    const struct pithi_device_plan_form *const form = it->form;
    const uint64_t payload = pithi_get64(it->frame + PITHI_AT_PAYLOAD);
    const uint64_t table = p->checksums ? 8 * it->slot->checks : 0;
    if (payload < form->data || payload > most) return PITH_ERR_CORRUPT;
    if (payload > length - form->header_bytes) return PITH_ERR_TRUNCATED;
    return pithi_zeros(it->payload, 4 * it->slot->blocks, form->checks) &&
                   pithi_zeros(it->payload, form->checks + table, form->data)
               ? PITH_OK
               : PITH_ERR_CORRUPT;
}

/* Checks the header as pithi_header_judge does, and all bytes of the frame that are not of blocks
 * or their checksums. */
PITHI_DEVICE int32_t pithi_header_check(const struct pithi_device_plan *p, uint64_t length,
                                        struct pithi_gpu_item *it, const uint8_t *head,
                                        const uint32_t differs[2]) {
    const int32_t judged = pithi_header_judge(p, length, it, head, differs);
    if (judged != PITH_OK) return judged;
    const uint64_t bytes = it->form->header_bytes;
    if (pithi_item_coded(p, it)) return pithi_payload_check(p, length, it, it->form->payload_bytes);
    if (length - bytes < it->form->payload_bytes) return PITH_ERR_TRUNCATED;
    const uint64_t table = p->checksums ? 8 * it->slot->checks : 0;
    const uint64_t exempt_end = it->slot->exempt_values + it->slot->exempt_bytes;
    if (!pithi_zeros(it->payload, it->form->checks + table, it->form->data) ||
        (it->slot->exempt_bytes && !pithi_zeros(it->payload, exempt_end, pithi_pad16(exempt_end))))
        return PITH_ERR_CORRUPT;
    return PITH_OK;
}

/* Whether the frame is the slot's next. */
PITHI_DEVICE int32_t pithi_next_check(const struct pithi_device_plan *p,
                                      const struct pithi_gpu_item *it, const uint8_t *head) {
    const struct pithi_gpu_slot_state *const s = it->slot_state;
    if (p->base_dtype == PITH_NONE || !s || it->kind) return PITH_OK;
    const uint8_t *const stream = head + it->slot->fixed_bytes + PITHI_SECTION_HEAD;
    if (s->invalid) return PITH_ERR_STATE;
    if (pithi_get64(stream + PITHI_STREAM_STEP) != s->step) return PITH_ERR_STEP;
    if (p->device.base_hash && pithi_get64(stream + PITHI_STREAM_BASE) != s->base_hash)
        return PITH_ERR_BASE;
    return PITH_OK;
}

PITHI_DEVICE uint64_t pithi_item_length(const struct pithi_gpu_items *items, uint64_t frame) {
    const uint64_t given = items->lengths ? items->lengths[frame] : items->capacity;
    return given < items->capacity ? given : items->capacity;
}

/* The base hash of the slot from a whole sum. */
PITHI_DEVICE uint64_t pithi_item_base_hash(const struct pithi_device_plan *p,
                                           const struct pithi_gpu_item *it, uint64_t hash) {
    if (!p->device.base_hash) return 0;
    return pithi_nh_finish(hash, it->slot->count * pithi_dtype_bytes(p->base_dtype), p->base_dtype);
}

/* Whether the hash is the one that the frame has of its base. */
PITHI_DEVICE bool pithi_item_base_matches(const struct pithi_device_plan *p,
                                          const struct pithi_gpu_item *it, uint64_t hash) {
    if (!p->device.base_hash) return true;
    return pithi_item_base_hash(p, it, hash) ==
           pithi_get64(pithi_item_stream(it) + PITHI_STREAM_BASE);
}

/* What an earlier launch found. */
PITHI_DEVICE int32_t pithi_checked_status(const struct pithi_gpu_call *a,
                                          const struct pithi_gpu_checked *checked,
                                          struct pithi_gpu_item *it) {
    const struct pithi_device_plan *const p = &a->from.plan;
    if (checked->status != PITH_OK) return checked->status;
    if (checked->failed == PITHI_FAILED_CHECKSUM) return PITH_ERR_CHECKSUM;
    pithi_item_kind(p, it, it->frame);
    /* What a damaged key frame brings has no hash. */
    if (!a->hash_base || (it->kind ? checked->failed != 0 : !a->add) ||
        pithi_item_base_matches(p, it, checked->hash))
        return PITH_OK;
    return it->kind ? PITH_ERR_CHECKSUM : PITH_ERR_BASE;
}

/* All checks of an item that is to be decoded, unless an earlier launch made them. head and
 * differs: as for pithi_header_check, or both NULL. */
PITHI_DEVICE int32_t pithi_item_check(const struct pithi_gpu_call *a, struct pithi_gpu_item *it,
                                      const uint8_t *head, const uint32_t differs[2]) {
    const struct pithi_device_plan *const p = &a->from.plan;
    if (it->status != PITH_OK) return it->status;
    if (!it->frame) return PITH_ERR_ARG;
    if (!head || a->checked) head = it->frame;
    const uint64_t length = pithi_item_length(&a->from.items, it->index);
    const int32_t status = a->checked ? pithi_checked_status(a, &a->checked[it->index], it)
                                      : pithi_header_check(p, length, it, head, differs);
    if (status != PITH_OK) return status;
    const int32_t next = pithi_next_check(p, it, head);
    if (next != PITH_OK || !a->checked) return next;
    if (a->checked[it->index].failed == PITHI_FAILED_UNSUPPORTED) return PITH_ERR_UNSUPPORTED;
    return a->checked[it->index].failed ? PITH_ERR_CORRUPT : PITH_OK;
}

#endif
