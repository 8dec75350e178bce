/* state.c - what a stream remembers: base, identity and step of every slot.
 * SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

#include <float.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/convert.h"
#include "common/pad.h"
#include "cpu.h"
#include "error.h"
#include "state_format.h"

static const uint8_t magic[8] = PITHI_STATE_FORMAT_MAGIC;

/* Of what a stream remembers element by element: the base, or one copy of the residual. */
static uint64_t memory_bytes(const pith_plan *p) {
    if (pithi_has_residual(p)) return p->count * sizeof(float);
    return p->count * pith_dtype_bytes(p->params.base_dtype);
}

static bool is_bounded(const pith_plan *p) { return p->params.codec->bound_setting; }

static bool takes_state(const pith_plan *p) {
    return pithi_has_base(p) || p->params.memory.counters || is_bounded(p);
}

static bool external(const pith_plan *p) {
    return pithi_has_base(p) && p->flags & PITH_LAYOUT_EXTERNAL_BASE;
}

static bool has_base_hash(const pith_plan *p) {
    return pithi_has_base(p) && p->params.memory.base_hash;
}

/* Whether encode looks if the base is what the last call left. */
static bool compares_base(const pith_plan *p) {
    if (!has_base_hash(p)) return false;
    return external(p) ? !(p->flags & PITH_LAYOUT_TRUST_BASE) : p->flags & PITH_LAYOUT_CHECK_BASE;
}

bool pithi_state_whole_sums(const pith_plan *p) { return p->flags & PITH_LAYOUT_CHECK_BASE; }

/* Elements of a block of a base; only a slot's last block has less. */
static uint64_t unit_of(const pith_plan *p) { return p->params.most ? p->params.most : 1; }

/* What two plans must share for the sums of a state to mean the same to both. Fingerprints, which
 * saved states have too, say nothing of it: the shape decides how large a page of kv is. */
static uint64_t sums_kind(const pith_plan *p) {
    return compares_base(p) ? unit_of(p) << 1 | pithi_state_whole_sums(p) : 0;
}

static bool is_of(const pith_state *s, const pith_plan *p) {
    return s->fingerprint == p->fingerprint && s->sums_kind == sums_kind(p);
}

/* Where the sums of a slot begin, and, past the last slot, how many there are: a slot has at most
 * one block more than its whole units, and floor(a) + floor(b) <= floor(a + b). */
static uint64_t sums_before(const pith_plan *p, uint64_t slot) {
    return (slot < p->slots ? pithi_slot_first(p, slot) : p->count) / unit_of(p) + slot;
}

static uint64_t sum_bytes(const pith_plan *p) {
    return compares_base(p) ? pithi_pad64(sums_before(p, p->slots) * sizeof(uint64_t)) : 0;
}

uint64_t *pithi_state_sums(const pith_plan *p, const pith_state *s, uint64_t slot) {
    return s->sums ? s->sums + sums_before(p, slot) : NULL;
}

static uint64_t head_bytes(const pith_plan *p) {
    return pithi_pad64(sizeof(pith_state) + p->slots * sizeof(struct pithi_slot_state));
}

uint64_t pithi_state_bytes(const pith_plan *p) {
    if (!takes_state(p)) return 0;
    const uint64_t copies = external(p) ? 0 : pithi_has_residual(p) ? 2 : 1;
    return 64 + head_bytes(p) + sum_bytes(p) + copies * memory_bytes(p);
}

uint64_t pithi_state_save_bytes(const pith_plan *p) {
    if (!takes_state(p)) return 0;
    const uint64_t slot =
        PITHI_STATE_FORMAT_SLOT + (is_bounded(p) ? PITHI_STATE_FORMAT_BOUNDED : 0);
    return PITHI_STATE_FORMAT_HEAD + p->slots * slot + memory_bytes(p) + PITHI_STATE_FORMAT_TAIL;
}

pith_status pithi_state_check(const pith_plan *p, const pith_state *s, pith_error *error) {
    if (s && !takes_state(p))
        return pithi_fail(error, PITH_ERR_STATE, "a plan without a base takes no state");
    if (!s && pithi_has_base(p))
        return pithi_fail(error, PITH_ERR_STATE, "a plan with a base needs a state");
    if (!s) return PITH_OK;
    if (!is_of(s, p)) return pithi_fail(error, PITH_ERR_STATE, "the state is another plan's");
    if (pithi_has_base(p) && !s->base && p->count)
        return pithi_fail(error, PITH_ERR_STATE, "no base is bound");
    return PITH_OK;
}

/* The same for calls about the state itself. */
static pith_status require(pith_plan *p, const pith_state *s) {
    if (!p) return PITH_ERR_ARG;
    if (!s) return pithi_fail(&p->error, PITH_ERR_STATE, "the state is NULL");
    return pithi_state_check(p, s, &p->error);
}

static pith_status require_base(pith_plan *p, const pith_state *s) {
    PITHI_TRY(require(p, s));
    return pithi_has_base(p) ? PITH_OK
                             : pithi_fail(&p->error, PITH_ERR_STATE, "the plan has no base");
}

pith_status pithi_state_whole(const pith_state *s, uint64_t slot, pith_error *error) {
    if (!s || !s->slot[slot].invalid) return PITH_OK;
    return pithi_fail(error, PITH_ERR_STATE, "the base was left half written by a failed call");
}

static pith_status all_whole(pith_plan *p, const pith_state *s) {
    for (uint64_t i = 0; i < p->slots; i++) PITHI_TRY(pithi_state_whole(s, i, &p->error));
    return PITH_OK;
}

/* ---- Base hash -------------------------------------------------------------------------------*/

uint64_t pithi_base_hash(const pith_plan *p, uint64_t sum, uint64_t count) {
    const uint32_t dtype = p->params.base_dtype;
    return pithi_nh_finish(sum, count * pith_dtype_bytes(dtype), dtype);
}

static uint64_t slot_base_hash(const pith_plan *p, const uint8_t *base, uint64_t slot) {
    if (!has_base_hash(p)) return 0;
    const size_t element = pith_dtype_bytes(p->params.base_dtype);
    const uint64_t count = pithi_slot_count(p, slot);
    const uint64_t at = pithi_slot_first(p, slot) * element;
    return pithi_base_hash(p, count ? p->kernels.nh(base + at, count * element, 0) : 0, count);
}

/* The hashes of the blocks of all slots. */
static void sum_blocks(const pith_plan *p, const pith_state *s) {
    const size_t element = pith_dtype_bytes(p->params.base_dtype);
    const uint64_t unit = unit_of(p);
    pithi_nh_fn *const nh = pithi_state_whole_sums(p) ? p->kernels.nh : pithi_nh_sample;
    for (uint64_t i = 0; s->sums && i < p->slots; i++) {
        uint64_t *const sums = pithi_state_sums(p, s, i);
        const uint64_t count = pithi_slot_count(p, i), first = pithi_slot_first(p, i);
        for (uint64_t at = 0; at < count; at += unit) {
            const uint64_t n = count - at < unit ? count - at : unit;
            sums[at / unit] =
                nh(s->base + (first + at) * element, (size_t)n * element, at * element / 8);
        }
    }
}

static void identify(const pith_plan *p, pith_state *s, uint64_t step) {
    for (uint64_t i = 0; i < p->slots; i++)
        s->slot[i] =
            (struct pithi_slot_state){.step = step, .base_hash = slot_base_hash(p, s->base, i)};
    sum_blocks(p, s);
}

/* ---- Life ------------------------------------------------------------------------------------*/

static void clear(const pith_plan *p, pith_state *s) {
    s->seed = s->stream = 0;
    s->stats = (pith_stats){0};
    if (s->base) memset(s->base, 0, (size_t)memory_bytes(p));
    for (int i = 0; i < 2 && s->residual[i]; i++)
        memset(s->residual[i], 0, (size_t)memory_bytes(p));
    if (s->base || !pithi_has_base(p) || !p->count) identify(p, s, 0);
    for (uint64_t i = 0; i < p->slots; i++) s->slot[i].undone = 1;
}

pith_status pith_state_init(pith_plan *p, void *memory, size_t bytes, pith_state **state) {
    if (!p || !state) return PITH_ERR_ARG;
    *state = NULL;
    const uint64_t needed = pithi_state_bytes(p);
    if (!needed) return pithi_fail(&p->error, PITH_ERR_UNSUPPORTED, "this plan keeps no state");
    if (!memory) return pithi_fail(&p->error, PITH_ERR_ARG, "memory is NULL");
    if (bytes < needed)
        return pithi_fail_at(&p->error, PITH_ERR_SPACE, "too little memory for the state", needed);
    uint8_t *at = memory;
    at += (64 - (uintptr_t)at % 64) % 64;
    pith_state *s = (pith_state *)(void *)at;
    *s = (pith_state){.fingerprint = p->fingerprint, .sums_kind = sums_kind(p), .slots = p->slots};
    s->slot = (struct pithi_slot_state *)(void *)(at + sizeof *s);
    memset(s->slot, 0, (size_t)p->slots * sizeof *s->slot);
    uint8_t *const sums_at = at + head_bytes(p), *const memory_at = sums_at + sum_bytes(p);
    if (compares_base(p)) s->sums = (uint64_t *)(void *)sums_at;
    if (pithi_has_base(p) && !external(p)) s->base = memory_at;
    for (int i = 0; i < 2 && pithi_has_residual(p); i++)
        s->residual[i] = (float *)(void *)memory_at + (uint64_t)i * p->count;
    clear(p, s);
    *state = s;
    return PITH_OK;
}

pith_status pith_state_reset(pith_plan *p, pith_state *s) {
    PITHI_TRY(require(p, s));
    clear(p, s);
    return PITH_OK;
}

pith_status pith_state_bind_base(pith_plan *p, pith_state *s, void *base, uint64_t step) {
    if (!p) return PITH_ERR_ARG;
    if (!external(p) || !s || !is_of(s, p))
        return pithi_fail(&p->error, PITH_ERR_STATE, "not a state with an external base");
    if (!base && p->count) return pithi_fail(&p->error, PITH_ERR_ARG, "base is NULL");
    s->base = base;
    identify(p, s, step);
    return PITH_OK;
}

/* ---- Residual --------------------------------------------------------------------------------*/

float *pithi_state_residual(const pith_plan *p, const pith_state *s, uint64_t slot, int next) {
    return s->residual[s->slot[slot].side ^ next] + pithi_slot_first(p, slot);
}

void pithi_state_residual_swap(pith_state *s, uint64_t slot, uint64_t step) {
    s->slot[slot].step = step + 1;
    s->slot[slot].side ^= 1;
    s->slot[slot].undone = 0;
}

pith_status pith_state_rollback(pith_plan *p, pith_state *s, uint64_t step) {
    PITHI_TRY(require(p, s));
    if (pithi_has_base(p))
        return pithi_fail(&p->error, PITH_ERR_STATE, "a base cannot take a step back");
    for (uint64_t i = 0; i < s->slots && s->residual[0]; i++) {
        struct pithi_slot_state *slot = &s->slot[i];
        if (slot->undone || slot->step != step + 1) continue;
        slot->side ^= 1;
        slot->undone = 1;
    }
    return PITH_OK;
}

/* ---- Base in and out -------------------------------------------------------------------------*/

enum { PIECE = 1024 };

/* Convert between a view and dense base memory, a piece at a time. */
static void transfer(const pith_plan *p, const struct pithi_span *view, uint8_t *base,
                     uint64_t count, bool in) {
    const uint32_t dtype = p->params.base_dtype;
    const size_t element = pith_dtype_bytes(dtype);
    uint64_t buffer[PIECE];
    for (uint64_t at = 0; at < count; at += PIECE) {
        const size_t n = count - at < PIECE ? (size_t)(count - at) : PIECE;
        if (in) {
            pithi_convert(base + at * element, dtype, pithi_span_read(view, at, n, buffer),
                          view->dtype, n);
        } else {
            pithi_convert(buffer, view->dtype, base + at * element, dtype, n);
            pithi_span_write(view, at, n, buffer);
        }
    }
}

static pith_status check_dtype(const pith_plan *p, const struct pithi_span *view,
                               pith_error *error) {
    if (view->dtype == p->params.base_dtype) return PITH_OK;
    if (pithi_is_float16_32(view->dtype) && pithi_is_float16_32(p->params.base_dtype))
        return PITH_OK;
    return pithi_fail(error, PITH_ERR_DTYPE, "the view's dtype does not convert to the base's");
}

pith_status pith_state_set_base(pith_plan *p, pith_state *s, const pith_view *view, uint64_t step) {
    struct pithi_span span;
    PITHI_TRY(require_base(p, s));
    PITHI_TRY(pithi_span_init(&span, view, false, &p->error));
    PITHI_TRY(check_dtype(p, &span, &p->error));
    if (span.count != p->count)
        return pithi_fail(&p->error, PITH_ERR_SHAPE, "the view is not the whole tensor");
    const uint64_t before = pithi_fp_enter();
    transfer(p, &span, s->base, p->count, true);
    pithi_fp_leave(before);
    identify(p, s, step);
    return PITH_OK;
}

pith_status pith_state_get_base(pith_plan *p, const pith_state *s, uint64_t slot,
                                const pith_view *view) {
    struct pithi_span span;
    PITHI_TRY(require_base(p, s));
    if (slot >= p->slots) return pithi_fail(&p->error, PITH_ERR_ARG, "no such slot");
    PITHI_TRY(pithi_span_init(&span, view, true, &p->error));
    PITHI_TRY(check_dtype(p, &span, &p->error));
    const bool whole = span.count == p->count;
    PITHI_TRY(whole ? all_whole(p, s) : pithi_state_whole(s, slot, &p->error));
    if (!whole && span.count != pithi_slot_count(p, slot))
        return pithi_fail(&p->error, PITH_ERR_SHAPE, "the view is neither slot nor tensor");
    const uint64_t first = whole ? 0 : pithi_slot_first(p, slot);
    if (!span.count) return PITH_OK;
    const uint64_t before = pithi_fp_enter();
    transfer(p, &span, s->base + first * pith_dtype_bytes(p->params.base_dtype), span.count, false);
    pithi_fp_leave(before);
    return PITH_OK;
}

/* ---- Small questions -------------------------------------------------------------------------*/

uint64_t pith_state_identity(const pith_state *s, uint64_t slot) {
    return slot < s->slots ? s->slot[slot].base_hash : 0;
}

uint64_t pith_state_step(const pith_state *s, uint64_t slot) {
    return slot < s->slots ? s->slot[slot].step : 0;
}

void pith_state_set_random(pith_state *s, uint64_t seed, uint32_t stream) {
    s->seed = seed;
    s->stream = stream;
}

void pithi_state_count(pith_state *s, bool key, uint64_t saturated, uint64_t poisoned) {
    s->stats.frames++;
    s->stats.key_frames += key;
    s->stats.saturated += saturated;
    s->stats.poisoned += poisoned;
}

void pith_state_stats(const pith_state *s, pith_stats *out) { *out = s->stats; }

pith_status pith_state_verify(pith_plan *p, const pith_state *s) {
    PITHI_TRY(require_base(p, s));
    if (!has_base_hash(p))
        return pithi_fail(&p->error, PITH_ERR_UNSUPPORTED, "base_hash=off keeps no identity");
    PITHI_TRY(all_whole(p, s));
    for (uint64_t i = 0; i < p->slots; i++)
        if (slot_base_hash(p, s->base, i) != s->slot[i].base_hash)
            return pithi_fail_at(&p->error, PITH_ERR_BASE, "the base in memory has changed", i);
    return PITH_OK;
}

/* ---- Save and load ---------------------------------------------------------------------------*/

static void save_residual(const pith_plan *p, const pith_state *s, uint8_t *to) {
    for (uint64_t i = 0; i < p->slots; i++) {
        const float *from = pithi_state_residual(p, s, i, 0);
        for (uint64_t k = 0; k < pithi_slot_count(p, i); k++, to += sizeof(float))
            pithi_put32(to, pithi_bits(from[k]));
    }
}

static void load_residual(const pith_plan *p, pith_state *s, const uint8_t *from) {
    for (uint64_t i = 0; i < p->slots; i++) s->slot[i].undone = 1;
    for (uint64_t k = 0; k < p->count; k++)
        s->residual[0][k] = pithi_float(pithi_get32(from + k * sizeof(float)));
}

pith_status pith_state_save(pith_plan *p, const pith_state *s, void *dst, size_t cap,
                            size_t *written) {
    if (!p || !dst || !written) return PITH_ERR_ARG;
    *written = 0;
    PITHI_TRY(require(p, s));
    PITHI_TRY(all_whole(p, s));
    const uint64_t total = pithi_state_save_bytes(p);
    if (cap < total) return pithi_fail_at(&p->error, PITH_ERR_SPACE, "save does not fit", total);
    uint8_t *at = dst;
    memset(at, 0, PITHI_STATE_FORMAT_HEAD);
    memcpy(at, magic, sizeof magic);
    pithi_put64(at + PITHI_STATE_FORMAT_FINGERPRINT, s->fingerprint);
    pithi_put64(at + PITHI_STATE_FORMAT_SLOTS, s->slots);
    pithi_put64(at + PITHI_STATE_FORMAT_SEED, s->seed);
    pithi_put64(at + PITHI_STATE_FORMAT_STREAM, s->stream);
    memcpy(at + PITHI_STATE_FORMAT_STATS, &s->stats, PITHI_STATE_FORMAT_STATS_BYTES);
    at += PITHI_STATE_FORMAT_HEAD;
    for (uint64_t i = 0; i < s->slots; i++, at += PITHI_STATE_FORMAT_SLOT) {
        pithi_put64(at, s->slot[i].step);
        pithi_put64(at + 8, is_bounded(p) ? pithi_bits64(s->slot[i].bound) : s->slot[i].base_hash);
    }
    for (uint64_t i = 0; is_bounded(p) && i < s->slots; i++, at += PITHI_STATE_FORMAT_BOUNDED) {
        pithi_put64(at, s->slot[i].nonzero);
        pithi_put64(at + 8, s->slot[i].counted);
    }
    if (pithi_has_base(p) && p->count) memcpy(at, s->base, (size_t)memory_bytes(p));
    if (pithi_has_residual(p)) save_residual(p, s, at);
    pithi_put64((uint8_t *)dst + total - PITHI_STATE_FORMAT_TAIL,
                XXH64(dst, (size_t)(total - PITHI_STATE_FORMAT_TAIL), 0));
    *written = (size_t)total;
    return PITH_OK;
}

/* A bound or a factor is finite, and a part is not above the whole. */
static bool legal_bounds(const uint8_t *slot, uint64_t slots) {
    const uint8_t *counts = slot + slots * PITHI_STATE_FORMAT_SLOT;
    for (uint64_t i = 0; i < slots;
         i++, slot += PITHI_STATE_FORMAT_SLOT, counts += PITHI_STATE_FORMAT_BOUNDED) {
        const double bound = pithi_double(pithi_get64(slot + 8));
        if (!(bound >= -DBL_MAX && bound <= DBL_MAX)) return false;
        if (pithi_get64(counts) > pithi_get64(counts + 8)) return false;
    }
    return true;
}

/* A residual that is not finite would poison its group for ever: encoding keeps it. */
static bool all_finite(const uint8_t *floats, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (pithi_nonfinite(pithi_get32(floats + i * sizeof(float)))) return false;
    return true;
}

static pith_status check_saved(const pith_plan *p, const uint8_t *src, size_t bytes,
                               pith_error *error) {
    const uint64_t total = pithi_state_save_bytes(p);
    if (bytes < sizeof magic || memcmp(src, magic, sizeof magic) != 0)
        return pithi_fail(error, PITH_ERR_MAGIC, "not a saved state");
    if (bytes >= PITHI_STATE_FORMAT_HEAD &&
        pithi_get64(src + PITHI_STATE_FORMAT_FINGERPRINT) != p->fingerprint)
        return pithi_fail_at(error, PITH_ERR_MISMATCH, "saved by another plan",
                             PITHI_STATE_FORMAT_FINGERPRINT);
    if (bytes < total) return pithi_fail_at(error, PITH_ERR_TRUNCATED, "the state is cut", bytes);
    if (bytes > total) return pithi_fail_at(error, PITH_ERR_CORRUPT, "bytes after the end", total);
    if (pithi_get64(src + total - PITHI_STATE_FORMAT_TAIL) !=
        XXH64(src, (size_t)(total - PITHI_STATE_FORMAT_TAIL), 0))
        return pithi_fail(error, PITH_ERR_CHECKSUM, "the state's checksum differs");
    if (pithi_get64(src + PITHI_STATE_FORMAT_SLOTS) != p->slots ||
        pithi_get64(src + PITHI_STATE_FORMAT_STREAM) > UINT32_MAX)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "slots or stream id cannot be",
                             PITHI_STATE_FORMAT_SLOTS);
    const uint8_t *slot = src + PITHI_STATE_FORMAT_HEAD;
    for (uint64_t i = 0; i < p->slots; i++, slot += PITHI_STATE_FORMAT_SLOT)
        if (!is_bounded(p) &&
            slot_base_hash(p, src + PITHI_STATE_FORMAT_HEAD + p->slots * PITHI_STATE_FORMAT_SLOT,
                           i) != pithi_get64(slot + 8))
            return pithi_fail(error, PITH_ERR_CHECKSUM, "a base is not what its identity says");
    if (is_bounded(p) && !legal_bounds(src + PITHI_STATE_FORMAT_HEAD, p->slots))
        return pithi_fail(error, PITH_ERR_CORRUPT, "a bound that no slot can have");
    if (pithi_has_residual(p) && !all_finite(slot, p->count))
        return pithi_fail(error, PITH_ERR_CORRUPT, "a residual is not finite");
    return PITH_OK;
}

pith_status pith_state_load(pith_plan *p, pith_state *s, const void *src, size_t bytes) {
    PITHI_TRY(require(p, s));
    if (!src) return pithi_fail(&p->error, PITH_ERR_ARG, "nothing to load");
    PITHI_TRY(check_saved(p, src, bytes, &p->error));
    const uint8_t *at = src;
    s->seed = pithi_get64(at + PITHI_STATE_FORMAT_SEED);
    s->stream = (uint32_t)pithi_get64(at + PITHI_STATE_FORMAT_STREAM);
    s->stats = (pith_stats){0};
    memcpy(&s->stats, at + PITHI_STATE_FORMAT_STATS, PITHI_STATE_FORMAT_STATS_BYTES);
    at += PITHI_STATE_FORMAT_HEAD;
    for (uint64_t i = 0; i < s->slots; i++, at += PITHI_STATE_FORMAT_SLOT)
        s->slot[i] =
            (struct pithi_slot_state){.step = pithi_get64(at), .base_hash = pithi_get64(at + 8)};
    for (uint64_t i = 0; is_bounded(p) && i < s->slots; i++, at += PITHI_STATE_FORMAT_BOUNDED) {
        s->slot[i].bound = pithi_double(s->slot[i].base_hash);
        s->slot[i].base_hash = 0;
        s->slot[i].nonzero = pithi_get64(at);
        s->slot[i].counted = pithi_get64(at + 8);
    }
    if (pithi_has_base(p) && p->count) memcpy(s->base, at, (size_t)memory_bytes(p));
    sum_blocks(p, s);
    if (pithi_has_residual(p)) load_residual(p, s, at);
    return PITH_OK;
}
