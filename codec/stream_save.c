/* stream_save.c - what a stream remembers, saved and loaded.
 * SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "error.h"
#include "slots.h"
#include "stream.h"
#include "stream_format.h"
#include "work.h"

/* Returns what is saved of each slot behind all slots, in bytes. */
static uint64_t saved_bytes(const pith_plan *p) {
    const struct pithi_frame_hooks *const hooks = pithi_frame_hooks_of(p);
    return hooks ? hooks->saved_bytes : 0;
}

uint64_t pithi_stream_save_bytes(const pith_plan *p) {
    const uint64_t slot = PITHI_STREAM_FORMAT_SLOT + saved_bytes(p);
    return PITHI_STREAM_FORMAT_HEAD + p->slots * slot + pithi_stream_remembered_bytes(p) +
           PITHI_STREAM_FORMAT_TAIL;
}

/* ---- Save ------------------------------------------------------------------------------------*/

static void save_floats(const float *from, uint64_t count, uint8_t **to) {
    for (uint64_t k = 0; k < count; k++, *to += sizeof(float))
        pithi_put32(*to, pithi_bits(from[k]));
}

static void save_residual(const pith_stream *s, uint8_t *to) {
    const pith_plan *const p = s->plan;
    for (uint64_t i = 0; i < p->slots; i++)
        save_floats(pithi_stream_residual(s, i, 0), pithi_slot_count(p, i), &to);
    for (uint64_t i = 0; i < p->slots && p->params.stream.momentum; i++)
        save_floats(pithi_stream_momentum(s, i, 0), pithi_slot_count(p, i), &to);
}

/* The momentum lies behind the residual, here as there. */
static void load_residual(pith_stream *s, const uint8_t *from) {
    for (uint64_t k = 0; k < pithi_stream_remembered_bytes(s->plan) / sizeof(float); k++)
        s->residual[0][k] = pithi_float(pithi_get32(from + k * sizeof(float)));
}

static void save_head(const pith_stream *s, uint8_t *at) {
    pith_stats stats = {.size = sizeof stats};
    pith_stream_stats(s, &stats);
    const struct pithi_stream_head head = {.fingerprint = s->plan->stream_fingerprint,
                                           .slots = s->plan->slots,
                                           .seed = s->random.seed,
                                           .rng_stream = s->random.rng_stream,
                                           .shift = s->random.shift,
                                           .frames = stats.frames,
                                           .key_frames = stats.key_frames,
                                           .saturated = stats.saturated,
                                           .poisoned = stats.poisoned};
    pithi_stream_head_put(at, &head);
}

static pith_status save(const pith_stream *s, uint8_t *dst, size_t cap, size_t *written,
                        pith_error *error) {
    const pith_plan *const p = s->plan;
    PITHI_TRY(pithi_stream_check_base(s, error));
    PITHI_TRY(pithi_stream_check_slot_bases(s, error));
    const uint64_t total = pithi_stream_save_bytes(p);
    if (cap < total)
        return pithi_fail_numbers(error, PITH_ERR_SPACE, "a saved stream has # bytes, not #", total,
                                  cap);
    uint8_t *at = dst;
    save_head(s, at);
    at += PITHI_STREAM_FORMAT_HEAD;
    const struct pithi_frame_hooks *const hooks = pithi_frame_hooks_of(p);
    uint8_t *more = at + p->slots * PITHI_STREAM_FORMAT_SLOT;
    for (uint64_t i = 0; i < p->slots; i++, at += PITHI_STREAM_FORMAT_SLOT) {
        pithi_put64(at, s->slot[i].step);
        pithi_put64(at + PITHI_STREAM_FORMAT_WORD,
                    hooks ? hooks->save(&s->slot[i], more) : s->slot[i].base_hash);
        more += saved_bytes(p);
    }
    at = more;
    if (pithi_has_base(p) && p->count)
        memcpy(at, s->base, (size_t)pithi_stream_remembered_bytes(p));
    if (pithi_has_residual(p)) save_residual(s, at);
    pithi_put64(dst + total - PITHI_STREAM_FORMAT_TAIL,
                XXH64(dst, (size_t)(total - PITHI_STREAM_FORMAT_TAIL), 0));
    *written = (size_t)total;
    return PITH_OK;
}

pith_status pith_stream_save(pith_work *w, const pith_stream *s, void *dst, size_t cap,
                             size_t *written) {
    if (written) *written = 0;
    PITHI_TRY(pithi_stream_enter_reading(w, s));
    if (!dst || !written)
        return pithi_stream_leave_reading(
            w, pithi_fail(&w->error, PITH_ERR_ARG, "an argument is NULL"));
    return pithi_stream_leave_reading(w, save(s, dst, cap, written, &w->error));
}

/* ---- Load ------------------------------------------------------------------------------------*/

/* Whether the slots are such as a codec with frame hooks saves. */
static bool legal_slots(const pith_plan *p, const uint8_t *slot) {
    const struct pithi_frame_hooks *const hooks = pithi_frame_hooks_of(p);
    const uint8_t *more = slot + p->slots * PITHI_STREAM_FORMAT_SLOT;
    for (uint64_t i = 0; i < p->slots; i++, slot += PITHI_STREAM_FORMAT_SLOT) {
        if (!hooks->legal(pithi_get64(slot + PITHI_STREAM_FORMAT_WORD), more)) return false;
        more += hooks->saved_bytes;
    }
    return true;
}

/* Whether all are finite. A residual that is not would poison its group for ever, since encoding
 * keeps it. */
static bool all_finite(const uint8_t *floats, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (pithi_nonfinite(pithi_get32(floats + i * sizeof(float)))) return false;
    return true;
}

static pith_status check_saved(const pith_plan *p, const uint8_t *src, size_t bytes,
                               pith_error *error) {
    const uint64_t total = pithi_stream_save_bytes(p);
    const struct pithi_frame_hooks *const hooks = pithi_frame_hooks_of(p);
    if (bytes < sizeof pithi_stream_magic ||
        memcmp(src, pithi_stream_magic, sizeof pithi_stream_magic) != 0)
        return pithi_fail(error, PITH_ERR_MAGIC, "not a saved stream");
    if (bytes >= PITHI_STREAM_FORMAT_HEAD &&
        pithi_get64(src + PITHI_STREAM_FORMAT_FINGERPRINT) != p->stream_fingerprint)
        return pithi_fail_at(error, PITH_ERR_MISMATCH, "saved by another plan",
                             PITHI_STREAM_FORMAT_FINGERPRINT);
    if (bytes < total)
        return pithi_fail_at(error, PITH_ERR_TRUNCATED, "the saved stream is cut", bytes);
    if (bytes > total) return pithi_fail_at(error, PITH_ERR_CORRUPT, "bytes after the end", total);
    if (pithi_get64(src + total - PITHI_STREAM_FORMAT_TAIL) !=
        XXH64(src, (size_t)(total - PITHI_STREAM_FORMAT_TAIL), 0))
        return pithi_fail(error, PITH_ERR_CHECKSUM, "the saved stream's checksum differs");
    if (pithi_get64(src + PITHI_STREAM_FORMAT_SLOTS) != p->slots ||
        pithi_get32(src + PITHI_STREAM_FORMAT_SHIFT) > UINT16_MAX)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "slots or rank cannot be",
                             PITHI_STREAM_FORMAT_SLOTS);
    const uint8_t *slot = src + PITHI_STREAM_FORMAT_HEAD;
    for (uint64_t i = 0; i < p->slots; i++, slot += PITHI_STREAM_FORMAT_SLOT)
        if (!hooks && pithi_slot_base_hash(
                          p, src + PITHI_STREAM_FORMAT_HEAD + p->slots * PITHI_STREAM_FORMAT_SLOT,
                          i) != pithi_get64(slot + PITHI_STREAM_FORMAT_WORD))
            return pithi_fail(error, PITH_ERR_CHECKSUM, "a base is not what its hash says");
    if (hooks && !legal_slots(p, src + PITHI_STREAM_FORMAT_HEAD))
        return pithi_fail(error, PITH_ERR_CORRUPT, "what no slot can have remembered");
    const uint8_t *const residual = slot + p->slots * saved_bytes(p);
    if (pithi_has_residual(p) &&
        !all_finite(residual, pithi_stream_remembered_bytes(p) / sizeof(float)))
        return pithi_fail(error, PITH_ERR_CORRUPT, "a residual or momentum is not finite");
    return PITH_OK;
}

static void load_slots(pith_stream *s, const uint8_t *at) {
    const struct pithi_frame_hooks *const hooks = pithi_frame_hooks_of(s->plan);
    const uint8_t *more = at + s->plan->slots * PITHI_STREAM_FORMAT_SLOT;
    for (uint64_t i = 0; i < s->plan->slots; i++, at += PITHI_STREAM_FORMAT_SLOT) {
        struct pithi_slot_state *const slot = &s->slot[i];
        const uint64_t word = pithi_get64(at + PITHI_STREAM_FORMAT_WORD);
        *slot = (struct pithi_slot_state){.step = pithi_get64(at), .undone = true};
        if (!hooks) {
            slot->base_hash = word;
            continue;
        }
        hooks->load(slot, word, more);
        more += hooks->saved_bytes;
    }
}

static pith_status load(pith_stream *s, const uint8_t *src, size_t bytes, pith_error *error) {
    const pith_plan *const p = s->plan;
    PITHI_TRY(pithi_stream_check_base(s, error));
    PITHI_TRY(check_saved(p, src, bytes, error));
    const struct pithi_stream_head head = pithi_stream_head_get(src);
    const uint8_t *const slots = src + PITHI_STREAM_FORMAT_HEAD;
    const uint8_t *at = slots + p->slots * PITHI_STREAM_FORMAT_SLOT;
    at += p->slots * saved_bytes(p);
    s->random = (struct pithi_random){
        .seed = head.seed, .rng_stream = head.rng_stream, .shift = (uint16_t)head.shift};
    if (pithi_has_base(p)) pithi_stream_invalidate(s);
    if (pithi_has_base(p) && p->count)
        memcpy(s->base, at, (size_t)pithi_stream_remembered_bytes(p));
    if (pithi_has_base(p)) pithi_stream_hash_blocks(s);
    if (pithi_has_residual(p)) load_residual(s, at);
    load_slots(s, slots); /* from here on their base is valid */
    s->slot[0].frames = head.frames;
    s->slot[0].key_frames = head.key_frames;
    s->slot[0].saturated = head.saturated;
    s->slot[0].poisoned = head.poisoned;
    return PITH_OK;
}

pith_status pith_stream_load(pith_work *w, pith_stream *s, const void *src, size_t bytes) {
    PITHI_TRY(pithi_stream_begin(w, s));
    if (!src) return pithi_stream_end(w, s, pithi_fail(&w->error, PITH_ERR_ARG, "nothing to load"));
    return pithi_stream_end(w, s, load(s, src, bytes, &w->error));
}
