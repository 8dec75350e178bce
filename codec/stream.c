/* stream.c - what one end of a sequence of frames remembers: base or residual, step of every slot.
 * SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include "common/checked.h"
#include "common/convert.h"
#include "common/pad.h"
#include "cpu.h"
#include "error.h"
#include "overlap.h"
#include "slots.h"
#include "work.h"

uint64_t pithi_stream_remembered_bytes(const pith_plan *p) {
    if (pithi_has_residual(p))
        return p->count * sizeof(float) * (p->params.stream.momentum ? 2u : 1u);
    return p->count * pithi_dtype_bytes(p->params.base_dtype);
}

static bool external(const pith_plan *p) {
    return pithi_has_base(p) && p->flags & PITH_LAYOUT_EXTERNAL_BASE;
}

static bool has_base_hash(const pith_plan *p) {
    return pithi_has_base(p) && p->params.stream.base_hash;
}

/* Whether encode checks that the base is what the last call left. */
static bool compares_base(const pith_plan *p) {
    if (!has_base_hash(p)) return false;
    return external(p) ? !(p->flags & PITH_LAYOUT_TRUST_BASE) : p->flags & PITH_LAYOUT_CHECK_BASE;
}

bool pithi_stream_hashes_all(const pith_plan *p) { return p->flags & PITH_LAYOUT_CHECK_BASE; }

/* Returns the elements of a block of a base; only a slot's last block has less. */
static uint64_t unit_of(const pith_plan *p) { return p->params.most ? p->params.most : 1; }

/* Returns where the hashes of a slot's blocks begin and, past the last slot, how many there are. A
 * slot has at most one block more than its whole units, and floor(a) + floor(b) <= floor(a + b). */
static uint64_t hashes_before(const pith_plan *p, uint64_t slot) {
    return (slot < p->slots ? pithi_slot_first(p, slot) : p->count) / unit_of(p) + slot;
}

static uint64_t sum_bytes(const pith_plan *p) {
    return compares_base(p) ? pithi_pad64(hashes_before(p, p->slots) * sizeof(uint64_t)) : 0;
}

uint64_t *pithi_stream_block_hashes(const pith_stream *s, uint64_t slot) {
    return s->block_hashes ? s->block_hashes + hashes_before(s->plan, slot) : NULL;
}

static uint64_t head_bytes(const pith_plan *p) {
    return pithi_pad64(sizeof(pith_stream) + p->slots * sizeof(struct pithi_slot_state));
}

/* Returns where the words of a slot for its codec begin, and past the last slot how many there
 * are. */
static uint64_t words_before(const pith_plan *p, uint64_t slot) {
    return pithi_frame_hooks_of(p)->slot_words(
        slot < p->slots ? pithi_slot_first(p, slot) : p->count, slot);
}

static bool has_slot_words(const pith_plan *p) {
    const struct pithi_frame_hooks *const hooks = pithi_frame_hooks_of(p);
    return hooks && hooks->slot_words;
}

static uint64_t words_bytes(const pith_plan *p) {
    return has_slot_words(p) ? pithi_pad64(words_before(p, p->slots) * sizeof(uint64_t)) : 0;
}

uint64_t *pithi_stream_slot_words(const pith_stream *s, uint64_t slot) {
    return s->slot_words ? s->slot_words + words_before(s->plan, slot) : NULL;
}

uint64_t pithi_stream_bytes(const pith_plan *p) {
    const uint64_t copies = external(p) ? 0 : pithi_has_residual(p) ? 2 : 1;
    const uint64_t rest = 64 + head_bytes(p) + sum_bytes(p) + words_bytes(p);
    uint64_t bytes;
    const bool fits = pithi_checked_multiply(pithi_stream_remembered_bytes(p), copies, &bytes);
    return fits && bytes <= UINT64_MAX - rest ? rest + bytes : 0;
}

/* ---- Calls -----------------------------------------------------------------------------------*/

pith_status pithi_stream_busy(pith_error *error) {
    return pithi_fail(error, PITH_ERR_BUSY, "another call is using the stream");
}

bool pithi_stream_is_free(const pith_stream *s) {
    return !__atomic_load_n(&s->busy, __ATOMIC_RELAXED);
}

bool pithi_stream_is_marked(const pith_stream *s, const pith_work *w) {
    return __atomic_load_n(&s->busy, __ATOMIC_RELAXED) == w;
}

pith_status pithi_stream_enter(pith_stream *s, pith_work *w) {
    const void *none = NULL;
    if (!s) return pithi_fail(&w->error, PITH_ERR_ARG, "the stream is NULL");
    if (__atomic_compare_exchange_n(&s->busy, &none, w, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED) ||
        none == w)
        return PITH_OK;
    return pithi_stream_busy(&w->error);
}

void pithi_stream_leave(pith_stream *s, pith_work *w) {
    if (s && pithi_stream_is_marked(s, w)) __atomic_store_n(&s->busy, NULL, __ATOMIC_RELEASE);
}

pith_status pithi_stream_begin(pith_work *w, pith_stream *s) {
    PITHI_TRY(pithi_work_enter(w));
    const bool lost = s && pithi_stream_is_marked(s, w);
    const pith_status status = lost ? pithi_stream_busy(&w->error) : pithi_stream_enter(s, w);
    if (status != PITH_OK) pithi_work_leave(w);
    return status;
}

pith_status pithi_stream_end(pith_work *w, pith_stream *s, pith_status status) {
    pithi_stream_leave(s, w);
    pithi_work_leave(w);
    return status;
}

pith_status pithi_stream_enter_reading(pith_work *w, const pith_stream *s) {
    PITHI_TRY(pithi_work_enter(w));
    pith_status status = PITH_OK;
    if (!s)
        status = pithi_fail(&w->error, PITH_ERR_ARG, "the stream is NULL");
    else if (!pithi_stream_is_free(s))
        status = pithi_stream_busy(&w->error);
    if (status != PITH_OK) pithi_work_leave(w);
    return status;
}

pith_status pithi_stream_leave_reading(pith_work *w, pith_status status) {
    pithi_work_leave(w);
    return status;
}

void pith_stream_unlock(pith_stream *s) {
    const struct pithi_frame_hooks *const hooks = pithi_frame_hooks_of(s->plan);
    for (uint64_t i = 0; i < s->plan->slots; i++) {
        struct pithi_slot_state *const slot = &s->slot[i];
        if (!slot->taken) continue;
        if (pithi_has_base(s->plan)) slot->invalid = true;
        if (hooks && hooks->abandon) hooks->abandon(slot);
        slot->undone = true;
        slot->taken = false;
    }
    __atomic_store_n(&s->busy, NULL, __ATOMIC_RELEASE);
}

pith_status pithi_stream_check_base(const pith_stream *s, pith_error *error) {
    if (!pithi_has_base(s->plan) || s->base || !s->plan->count) return PITH_OK;
    return pithi_fail(error, PITH_ERR_STATE, "no base is bound");
}

static pith_status require_base(const pith_stream *s, pith_error *error) {
    if (!pithi_has_base(s->plan))
        return pithi_fail(error, PITH_ERR_STATE, "the stream has no base");
    return pithi_stream_check_base(s, error);
}

pith_status pithi_stream_check_slot_base(const pith_stream *s, uint64_t slot, pith_error *error) {
    if (!s->slot[slot].invalid) return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_STATE, 0,
                           "the base of slot # was left half written by a failed call",
                           &(struct pithi_words){.number = {slot}});
}

pith_status pithi_stream_check_slot_bases(const pith_stream *s, pith_error *error) {
    for (uint64_t i = 0; i < s->plan->slots; i++)
        PITHI_TRY(pithi_stream_check_slot_base(s, i, error));
    return PITH_OK;
}

pith_status pithi_stream_check_slot(const pith_stream *s, uint64_t slot, pith_error *error) {
    if (slot < s->plan->slots) return PITH_OK;
    return pithi_fail_numbers(error, PITH_ERR_ARG,
                              "the stream has # slots, there is none with number #", s->plan->slots,
                              slot);
}

/* ---- Base hash -------------------------------------------------------------------------------*/

uint64_t pithi_base_hash(const pith_plan *p, uint64_t sum, uint64_t count) {
    const uint32_t dtype = p->params.base_dtype;
    return pithi_nh_finish(sum, count * pithi_dtype_bytes(dtype), dtype);
}

uint64_t pithi_slot_base_hash(const pith_plan *p, const uint8_t *base, uint64_t slot) {
    if (!has_base_hash(p)) return 0;
    const size_t element = pithi_dtype_bytes(p->params.base_dtype);
    const uint64_t count = pithi_slot_count(p, slot);
    const uint64_t at = pithi_slot_first(p, slot) * element;
    return pithi_base_hash(p, count ? p->kernels.nh(base + at, count * element, 0) : 0, count);
}

void pithi_stream_hash_blocks(pith_stream *s) {
    const pith_plan *const p = s->plan;
    const size_t element = pithi_dtype_bytes(p->params.base_dtype);
    const uint64_t unit = unit_of(p);
    pithi_nh_fn *const nh = pithi_stream_hashes_all(p) ? p->kernels.nh : pithi_nh_sample;
    for (uint64_t i = 0; s->block_hashes && i < p->slots; i++) {
        uint64_t *const hashes = pithi_stream_block_hashes(s, i);
        const uint64_t count = pithi_slot_count(p, i), first = pithi_slot_first(p, i);
        for (uint64_t at = 0; at < count; at += unit) {
            const uint64_t n = count - at < unit ? count - at : unit;
            hashes[at / unit] =
                nh(s->base + (first + at) * element, (size_t)n * element, at * element / 8);
        }
    }
}

void pithi_stream_invalidate(pith_stream *s) {
    for (uint64_t i = 0; i < s->plan->slots; i++) s->slot[i].invalid = true;
}

/* Computes all hashes of a base that is new in every slot, which then has this step. */
static void update_base_hash(pith_stream *s, uint64_t step) {
    for (uint64_t i = 0; i < s->plan->slots; i++) {
        s->slot[i].step = step;
        s->slot[i].base_hash = pithi_slot_base_hash(s->plan, s->base, i);
        s->slot[i].invalid = false;
    }
    pithi_stream_hash_blocks(s);
}

/* ---- Life ------------------------------------------------------------------------------------*/

static void clear(pith_stream *s) {
    const pith_plan *const p = s->plan;
    const pith_stream_options *const o = &s->options;
    s->random = (struct pithi_random){
        .seed = o->seed, .rng_stream = o->rng_stream, .shift = pithi_options_shift(o)};
    for (uint64_t i = 0; i < p->slots; i++)
        s->slot[i] =
            (struct pithi_slot_state){.step = o->step, .undone = true, .invalid = s->base != NULL};
    if (s->base) memset(s->base, 0, (size_t)pithi_stream_remembered_bytes(p));
    /* The momentum lies behind its residual. */
    for (int i = 0; i < 2 && s->residual[i]; i++)
        memset(s->residual[i], 0, (size_t)pithi_stream_remembered_bytes(p));
    if (pithi_has_base(p) && (s->base || !p->count)) update_base_hash(s, o->step);
}

pith_status pith_stream_init(const pith_plan *p, void *memory, size_t bytes,
                             const pith_stream_options *options, pith_stream **stream,
                             pith_error *error) {
    pith_stream_options o;
    pithi_clear(error);
    if (!p || !stream) return pithi_fail(error, PITH_ERR_ARG, "an argument is NULL");
    *stream = NULL;
    PITHI_TRY(pithi_options_take(&o, options, error));
    const uint64_t needed = pithi_stream_bytes(p);
    if (!memory) return pithi_fail(error, PITH_ERR_ARG, "memory is NULL");
    if (bytes < needed)
        return pithi_fail_numbers(error, PITH_ERR_SPACE,
                                  "memory of the stream: # bytes needed, # given", needed, bytes);
    uint8_t *at = memory;
    at += (64 - (uintptr_t)at % 64) % 64;
    pith_stream *const s = (pith_stream *)(void *)at;
    *s = (pith_stream){.plan = p, .options = o};
    s->slot = (struct pithi_slot_state *)(void *)(at + sizeof *s);
    uint8_t *const hashes_at = at + head_bytes(p), *const words_at = hashes_at + sum_bytes(p),
                   *const remembered_at = words_at + words_bytes(p);
    if (has_slot_words(p)) s->slot_words = (uint64_t *)(void *)words_at;
    if (compares_base(p)) s->block_hashes = (uint64_t *)(void *)hashes_at;
    if (pithi_has_base(p) && !external(p)) s->base = remembered_at;
    for (int i = 0; i < 2 && pithi_has_residual(p); i++) {
        s->residual[i] =
            (float *)(void *)(remembered_at + (uint64_t)i * pithi_stream_remembered_bytes(p));
        if (p->params.stream.momentum) s->momentum[i] = s->residual[i] + p->count;
    }
    clear(s);
    *stream = s;
    return PITH_OK;
}

const pith_plan *pith_stream_plan(const pith_stream *s) { return s->plan; }

pith_status pith_stream_reset(pith_work *w, pith_stream *s) {
    PITHI_TRY(pithi_stream_begin(w, s));
    clear(s);
    return pithi_stream_end(w, s, PITH_OK);
}

static pith_status bind_base(pith_stream *s, void *base, uint64_t step, pith_error *error) {
    if (!external(s->plan))
        return pithi_fail(error, PITH_ERR_STATE, "the stream has no external base");
    if (!base && s->plan->count) return pithi_fail(error, PITH_ERR_ARG, "base is NULL");
    pithi_stream_invalidate(s);
    s->base = base;
    update_base_hash(s, step);
    return PITH_OK;
}

pith_status pith_stream_bind_base(pith_work *w, pith_stream *s, void *base, uint64_t step) {
    PITHI_TRY(pithi_stream_begin(w, s));
    return pithi_stream_end(w, s, bind_base(s, base, step, &w->error));
}

/* ---- Steps and random bits -------------------------------------------------------------------*/

pith_status pith_stream_set_step(pith_work *w, pith_stream *s, uint64_t slot, uint64_t step) {
    PITHI_TRY(pithi_stream_begin(w, s));
    const pith_status status = pithi_stream_check_slot(s, slot, &w->error);
    if (status != PITH_OK) return pithi_stream_end(w, s, status);
    s->slot[slot].step = step;
    s->slot[slot].undone = true;
    return pithi_stream_end(w, s, PITH_OK);
}

uint64_t pith_stream_step(const pith_stream *s, uint64_t slot) {
    return slot < s->plan->slots ? s->slot[slot].step : 0;
}

pith_status pith_stream_set_random(pith_work *w, pith_stream *s,
                                   const pith_stream_options *options) {
    pith_stream_options o;
    PITHI_TRY(pithi_stream_begin(w, s));
    if (!options)
        return pithi_stream_end(w, s, pithi_fail(&w->error, PITH_ERR_ARG, "options is NULL"));
    const pith_status status = pithi_options_take(&o, options, &w->error);
    if (status != PITH_OK) return pithi_stream_end(w, s, status);
    s->random.seed = o.seed;
    s->random.rng_stream = o.rng_stream;
    s->random.shift = pithi_options_shift(&o);
    return pithi_stream_end(w, s, PITH_OK);
}

/* ---- Residual --------------------------------------------------------------------------------*/

float *pithi_stream_residual(const pith_stream *s, uint64_t slot, int next) {
    return s->residual[s->slot[slot].side ^ next] + pithi_slot_first(s->plan, slot);
}

float *pithi_stream_momentum(const pith_stream *s, uint64_t slot, int next) {
    float *const all = s->momentum[s->slot[slot].side ^ next];
    return all ? all + pithi_slot_first(s->plan, slot) : NULL;
}

pith_status pith_stream_rollback(pith_work *w, pith_stream *s, uint64_t step) {
    PITHI_TRY(pithi_stream_begin(w, s));
    if (pithi_has_base(s->plan))
        return pithi_stream_end(
            w, s, pithi_fail(&w->error, PITH_ERR_STATE, "a base cannot take a step back"));
    const struct pithi_frame_hooks *const hooks = pithi_frame_hooks_of(s->plan);
    for (uint64_t i = 0; i < s->plan->slots; i++) {
        struct pithi_slot_state *const slot = &s->slot[i];
        if (slot->undone || slot->step != step + 1) continue;
        slot->step = step;
        slot->side ^= pithi_has_residual(s->plan);
        if (hooks && hooks->rollback) hooks->rollback(slot);
        slot->undone = true;
    }
    return pithi_stream_end(w, s, PITH_OK);
}

/* ---- Base in and out -------------------------------------------------------------------------*/

enum { CHUNK = 1024 };

/* Converts between a view and dense memory of a base, a chunk at a time. */
static void transfer(const pith_plan *p, const struct pithi_span *view, uint8_t *base,
                     uint64_t count, bool in) {
    const uint32_t dtype = p->params.base_dtype;
    const size_t element = pithi_dtype_bytes(dtype);
    uint64_t buffer[CHUNK];
    for (uint64_t at = 0; at < count; at += CHUNK) {
        const size_t n = count - at < CHUNK ? (size_t)(count - at) : CHUNK;
        if (in) {
            pithi_convert(base + at * element, dtype, pithi_span_read(view, at, n, buffer),
                          view->dtype, n);
        } else {
            pithi_convert(buffer, view->dtype, base + at * element, dtype, n);
            pithi_span_write(view, at, n, buffer);
        }
    }
}

static pith_status take_view(const pith_stream *s, const pith_view *view, bool output,
                             struct pithi_span *span, pith_error *error) {
    const uint32_t dtype = s->plan->params.base_dtype;
    PITHI_TRY(require_base(s, error));
    PITHI_TRY(pithi_span_init(span, view, output, error));
    if (span->dtype == dtype || (pithi_is_float16_32(span->dtype) && pithi_is_float16_32(dtype)))
        return PITH_OK;
    return pithi_fail_with(
        error, PITH_ERR_DTYPE, 0, "a view of $ does not convert to a base of $",
        &(struct pithi_words){.name = {pith_dtype_name(span->dtype), pith_dtype_name(dtype)}});
}

/* Checks that no view of the base from element `first` on lies in it but in its own place. */
static pith_status check_apart(const pith_stream *s, const struct pithi_span *view, uint64_t first,
                               pith_error *error) {
    const uint32_t dtype = s->plan->params.base_dtype;
    const struct pithi_span base = {.data = s->base,
                                    .count = s->plan->count,
                                    .element = pithi_dtype_bytes(dtype),
                                    .dtype = dtype,
                                    .dense = true};
    if (!pithi_span_overlaps_base(view, view->count, &base, first)) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG, "the view overlaps the base, not in its place");
}

static pith_status set_base(pith_stream *s, const pith_view *view, uint64_t step,
                            pith_error *error) {
    struct pithi_span span;
    PITHI_TRY(take_view(s, view, false, &span, error));
    if (span.count != s->plan->count)
        return pithi_fail_numbers(error, PITH_ERR_SHAPE, "the tensor has # elements, the view #",
                                  s->plan->count, span.count);
    PITHI_TRY(check_apart(s, &span, 0, error));
    pithi_stream_invalidate(s);
    const uint64_t before = pithi_fp_enter();
    transfer(s->plan, &span, s->base, s->plan->count, true);
    pithi_fp_leave(before);
    update_base_hash(s, step);
    return PITH_OK;
}

pith_status pith_stream_set_base(pith_work *w, pith_stream *s, const pith_view *view,
                                 uint64_t step) {
    PITHI_TRY(pithi_stream_begin(w, s));
    return pithi_stream_end(w, s, set_base(s, view, step, &w->error));
}

static pith_status get_base(const pith_stream *s, uint64_t slot, const pith_view *view,
                            pith_error *error) {
    const pith_plan *const p = s->plan;
    struct pithi_span span;
    PITHI_TRY(pithi_stream_check_slot(s, slot, error));
    PITHI_TRY(take_view(s, view, true, &span, error));
    const bool all = span.count == p->count;
    PITHI_TRY(all ? pithi_stream_check_slot_bases(s, error)
                  : pithi_stream_check_slot_base(s, slot, error));
    if (!all && span.count != pithi_slot_count(p, slot))
        return pithi_slot_refuse_view(p, slot, span.count, error);
    const uint64_t first = all ? 0 : pithi_slot_first(p, slot);
    if (!span.count) return PITH_OK;
    PITHI_TRY(check_apart(s, &span, first, error));
    const uint64_t before = pithi_fp_enter();
    transfer(p, &span, s->base + first * pithi_dtype_bytes(p->params.base_dtype), span.count,
             false);
    pithi_fp_leave(before);
    return PITH_OK;
}

pith_status pith_stream_get_base(pith_work *w, const pith_stream *s, uint64_t slot,
                                 const pith_view *view) {
    PITHI_TRY(pithi_stream_enter_reading(w, s));
    return pithi_stream_leave_reading(w, get_base(s, slot, view, &w->error));
}

uint64_t pith_stream_base_hash(const pith_stream *s, uint64_t slot) {
    return slot < s->plan->slots ? s->slot[slot].base_hash : 0;
}

static pith_status verify(const pith_stream *s, pith_error *error) {
    PITHI_TRY(require_base(s, error));
    if (!has_base_hash(s->plan))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "base_hash=off keeps no hash of the base");
    PITHI_TRY(pithi_stream_check_slot_bases(s, error));
    for (uint64_t i = 0; i < s->plan->slots; i++)
        if (pithi_slot_base_hash(s->plan, s->base, i) != s->slot[i].base_hash)
            return pithi_fail_with(error, PITH_ERR_BASE, i,
                                   "the base of slot # has changed in memory",
                                   &(struct pithi_words){.number = {i}});
    return PITH_OK;
}

pith_status pith_stream_verify(pith_work *w, const pith_stream *s) {
    PITHI_TRY(pithi_stream_enter_reading(w, s));
    return pithi_stream_leave_reading(w, verify(s, &w->error));
}

/* ---- Statistics ------------------------------------------------------------------------------*/

pith_status pith_stream_stats(const pith_stream *s, pith_stats *out) {
    pith_stats all = {0};
    if (!s) return PITH_ERR_ARG;
    for (uint64_t i = 0; i < s->plan->slots; i++) {
        const struct pithi_slot_state *const slot = &s->slot[i];
        all.frames += slot->frames;
        all.key_frames += slot->key_frames;
        all.saturated += slot->saturated;
        all.poisoned += slot->poisoned;
        all.exact += slot->exact;
        all.nonzero += slot->nonzero;
    }
    return pithi_give(out, &all, sizeof all);
}
