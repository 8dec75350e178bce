/* api.c - the calls that take a plan: check arguments, look up, call.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/convert.h"
#include "cpu.h"
#include "error.h"
#include "frame_codec.h"
#include "oneshot.h"
#include "spec.h"
#include "state.h"

/* ---- Codecs and specs ------------------------------------------------------------------------*/

pith_status pith_codec_at(uint32_t index, pith_codec_info *out) {
    const struct pithi_codec *c = pithi_codec_by_index(index);
    if (!c || !out) return PITH_ERR_ARG;
    *out = (pith_codec_info){c->id, c->revision, c->traits, c->dtypes, c->name, c->summary};
    return PITH_OK;
}

pith_status pith_codec_key_at(uint32_t index, uint32_t key, pith_key_info *out) {
    const struct pithi_codec *c = pithi_codec_by_index(index);
    if (!c || !out || key >= c->key_count) return PITH_ERR_ARG;
    const struct pithi_key *k = &c->keys[key];
    *out = (pith_key_info){.name = k->name, .values = k->words, .summary = k->summary};
    if (c->stream_keys >> key & 1) out->traits = PITH_KEY_STREAM;
    pithi_key_text(k, k->initial, out->initial, sizeof out->initial);
    return PITH_OK;
}

pith_status pith_spec_check(const char *spec, char *text, size_t cap, pith_error *error) {
    struct pithi_params params;
    pithi_fail(error, PITH_OK, "");
    if (text && cap) *text = 0;
    PITHI_TRY(pithi_spec_parse(spec, &params, error));
    char canonical[PITH_SPEC_MAX];
    pithi_spec_print(&params, canonical, sizeof canonical);
    if (text && strlen(canonical) >= cap)
        return pithi_fail(error, PITH_ERR_SPACE, "the canonical spec does not fit");
    if (text) memcpy(text, canonical, strlen(canonical) + 1);
    return PITH_OK;
}

/* ---- Views of a slot -------------------------------------------------------------------------*/

/* A view of the slot or of the whole tensor; the span begins at the slot's first element. */
static pith_status slot_span(pith_plan *p, uint64_t slot, const pith_view *view, bool output,
                             struct pithi_span *span) {
    if (slot >= p->slots) return pithi_fail(&p->error, PITH_ERR_ARG, "no such slot");
    PITHI_TRY(pithi_span_init(span, view, output, &p->error));
    if (span->count == pithi_slot_count(p, slot)) return PITH_OK;
    if (span->count != p->count)
        return pithi_fail(&p->error, PITH_ERR_SHAPE, "the view is neither slot nor tensor");
    span->first = pithi_slot_first(p, slot);
    return PITH_OK;
}

pith_status pithi_output_dtype(const struct pithi_params *q, uint32_t dtype, pith_error *error) {
    if (dtype == q->dtype) return PITH_OK;
    if (!(q->codec->traits & PITH_TRAIT_LOSSLESS) && pithi_is_float16_32(q->dtype) &&
        pithi_is_float16_32(dtype))
        return PITH_OK;
    return pithi_fail(error, PITH_ERR_DTYPE, "the codec does not decode to the view's dtype");
}

static struct pithi_span base_span(const pith_plan *p, const pith_state *s, uint64_t slot) {
    return (struct pithi_span){.data = s->base,
                               .first = pithi_slot_first(p, slot),
                               .count = p->count,
                               .dtype = p->params.base_dtype,
                               .dense = true,
                               .element = pith_dtype_bytes(p->params.base_dtype)};
}

/* ---- Encode ----------------------------------------------------------------------------------*/

static void advance(const pith_plan *p, pith_state *s, uint64_t slot,
                    const struct pithi_coding *c) {
    s->slot[slot].step = c->frame.step + 1;
    s->slot[slot].invalid = 0;
    if (c->frame.has_base_hash)
        s->slot[slot].base_hash = pithi_base_hash(p, c->hash, c->frame.count);
    pithi_state_count(s, c->frame.params.key_frame, c->saturated, c->poisoned);
}

static pith_status take_residual(struct pithi_coding *c, const pith_state *s, uint64_t slot) {
    pith_plan *p = c->plan;
    if (!pithi_has_residual(p)) return PITH_OK;
    if (!s) return pithi_fail(&p->error, PITH_ERR_STATE, "error feedback needs a state");
    c->residual = pithi_state_residual(p, s, slot, 0);
    c->residual_next = pithi_state_residual(p, s, slot, 1);
    return PITH_OK;
}

static void keep_residual(const struct pithi_coding *c, pith_state *s, uint64_t slot,
                          pith_status status) {
    if (!s) return;
    if (status == PITH_OK) {
        pithi_state_residual_swap(s, slot, c->random.step);
        pithi_state_count(s, false, c->saturated, c->poisoned);
    } else if (status <= PITH_ERR_MEMORY) {
        s->slot[slot].undone = 1; /* blocks may have written over the older copy */
    }
}

static pith_status encode_slot(pith_plan *p, pith_state *s, const struct pithi_span *view,
                               uint64_t slot, bool key, void *dst, size_t cap, size_t *written) {
    struct pithi_coding c = {.plan = p, .view = view, .random = p->random};
    struct pithi_span base;
    pithi_plan_frame(p, slot, key, &c.frame);
    PITHI_TRY(take_residual(&c, s, slot));
    if (pithi_has_base(p)) {
        base = base_span(p, s, slot);
        c.base = &base;
        c.update = true;
        c.sums = pithi_state_sums(p, s, slot);
        c.whole = pithi_state_whole_sums(p);
        c.compare = c.sums && !key;
        c.frame.step = s->slot[slot].step;
        c.frame.base_hash = s->slot[slot].base_hash;
        c.frame.stream = s->stream;
        c.random = (struct pithi_random){s->seed, c.frame.step, s->stream, 0};
    }
    /* A key frame carries the hash of the base it brings. */
    c.request.step = p->random.step;
    if (s && p->params.codec->bound_setting) pithi_state_request(s, slot, &c.request);
    const pith_status status = pithi_encode_frame(&c, dst, cap, key, written);
    if (p->params.codec->bound_setting) {
        if (s && status == PITH_OK) pithi_state_encoded(s, slot, c.exact, c.nonzero, c.frame.count);
        return status;
    }
    if (!pithi_has_base(p)) {
        keep_residual(&c, s, slot, status);
        return status;
    }
    /* Too little space is found before the first block, and so may a changed base be. */
    if (status == PITH_OK)
        advance(p, s, slot, &c);
    else if (status != PITH_ERR_SPACE && (status != PITH_ERR_BASE || pithi_parallel_advanced(p)))
        s->slot[slot].invalid = 1;
    return status;
}

static pith_status encode(pith_plan *p, pith_state *s, const pith_view *view, uint64_t slot,
                          bool key, void *dst, size_t cap, size_t *written) {
    struct pithi_span span;
    if (!p || !written) return PITH_ERR_ARG;
    *written = 0;
    if (!dst) return pithi_fail(&p->error, PITH_ERR_ARG, "dst is NULL");
    PITHI_TRY(pithi_state_check(p, s, &p->error));
    PITHI_TRY(slot_span(p, slot, view, false, &span));
    if (span.dtype != p->params.dtype)
        return pithi_fail(&p->error, PITH_ERR_DTYPE, "the view's dtype is not the layout's");
    if (key && !pithi_has_base(p))
        return pithi_fail(&p->error, PITH_ERR_UNSUPPORTED, "key frames need a base");
    key = key || (pithi_has_base(p) && pith_plan_is_key(p, s->slot[slot].step));
    if (!key) PITHI_TRY(pithi_state_whole(s, slot, &p->error));
    const uint64_t before = pithi_fp_enter();
    const pith_status status = encode_slot(p, s, &span, slot, key, dst, cap, written);
    pithi_fp_leave(before);
    return status;
}

pith_status pith_encode(pith_plan *plan, pith_state *state, const pith_view *view, uint64_t slot,
                        void *dst, size_t cap, size_t *written) {
    return encode(plan, state, view, slot, false, dst, cap, written);
}

pith_status pith_encode_key(pith_plan *plan, pith_state *state, const pith_view *view,
                            uint64_t slot, void *dst, size_t cap, size_t *written) {
    return encode(plan, state, view, slot, true, dst, cap, written);
}

pith_status pith_encode_slots(pith_plan *p, pith_state *s, const pith_view *view,
                              const uint64_t *slots, uint64_t count, void *dst, size_t cap,
                              size_t *lengths) {
    pith_sizes sizes;
    if (!p || !lengths) return PITH_ERR_ARG;
    if (!dst || !view) return pithi_fail(&p->error, PITH_ERR_ARG, "an argument is NULL");
    pith_plan_sizes(p, &sizes);
    if (count && cap / count < sizes.slot_bytes)
        return pithi_fail(&p->error, PITH_ERR_SPACE, "the frames of all slots do not fit");
    if (pith_view_count(view) != p->count)
        return pithi_fail(&p->error, PITH_ERR_SHAPE, "the view is not the whole tensor");
    for (uint64_t k = 0; k < count; k++) {
        const uint64_t slot = slots ? slots[k] : k;
        uint8_t *const to = (uint8_t *)dst + k * sizes.slot_bytes;
        PITHI_TRY(encode(p, s, view, slot, false, to, (size_t)sizes.slot_bytes, &lengths[k]));
    }
    return PITH_OK;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

pith_status pithi_check_limit(const pith_env *env, const struct pithi_frame *frame,
                              pith_error *error) {
    const uint64_t bytes = frame->count * pith_dtype_bytes(frame->params.dtype);
    if (!env->max_output_bytes || bytes <= env->max_output_bytes) return PITH_OK;
    return pithi_fail(error, PITH_ERR_LIMIT, "the tensor is larger than max_output_bytes");
}

static pith_status check_stream(pith_plan *p, const struct pithi_frame *f,
                                const struct pithi_slot_state *slot) {
    if (f->params.key_frame) return PITH_OK;
    if (slot->invalid)
        return pithi_fail(&p->error, PITH_ERR_STATE, "the base was left half written");
    if (f->step != slot->step)
        return pithi_fail(&p->error, PITH_ERR_STEP, "the frame is of another step");
    if (f->has_base_hash && f->base_hash != slot->base_hash)
        return pithi_fail(&p->error, PITH_ERR_BASE, "the base is not the encoder's");
    return PITH_OK;
}

static pith_status decode_slot(pith_plan *p, pith_state *s, uint64_t slot, const void *frame,
                               size_t bytes, const struct pithi_span *view) {
    struct pithi_coding c = {.view = view};
    struct pithi_span base;
    PITHI_TRY(pithi_decode_slot(&c, p, slot, frame, bytes));
    PITHI_TRY(pithi_check_limit(&p->env, &c.frame, &p->error));
    if (pithi_has_base(p)) {
        PITHI_TRY(check_stream(p, &c.frame, &s->slot[slot]));
        base = base_span(p, s, slot);
        c.base = &base;
        c.update = true;
        c.sums = pithi_state_sums(p, s, slot);
        c.whole = pithi_state_whole_sums(p);
    }
    if (!pithi_has_base(p)) {
        PITHI_TRY(pithi_decode_blocks(&c));
        if (s) pithi_state_count(s, false, c.saturated, c.poisoned);
        return PITH_OK;
    }
    s->slot[slot].invalid = 1;
    PITHI_TRY(pithi_decode_blocks(&c));
    PITHI_TRY(pithi_check_key(&c));
    advance(p, s, slot, &c);
    return PITH_OK;
}

pith_status pith_decode(pith_plan *p, pith_state *s, uint64_t slot, const void *frame, size_t bytes,
                        const pith_view *view) {
    struct pithi_span span;
    if (!p) return PITH_ERR_ARG;
    if (!frame) return pithi_fail(&p->error, PITH_ERR_ARG, "frame is NULL");
    PITHI_TRY(pithi_state_check(p, s, &p->error));
    if (slot >= p->slots) return pithi_fail(&p->error, PITH_ERR_ARG, "no such slot");
    if (view || !pithi_has_base(p)) {
        PITHI_TRY(slot_span(p, slot, view, true, &span));
        PITHI_TRY(pithi_output_dtype(&p->params, span.dtype, &p->error));
    }
    const uint64_t before = pithi_fp_enter();
    const pith_status status = decode_slot(p, s, slot, frame, bytes, view ? &span : NULL);
    pithi_fp_leave(before);
    return status;
}

/* ---- Decode-add ------------------------------------------------------------------------------*/

static pith_status add_difference(struct pithi_coding *c, const struct pithi_span *view) {
    pith_plan *p = c->plan;
    if (view->dtype != p->params.base_dtype)
        return pithi_fail(&p->error, PITH_ERR_DTYPE, "the view's dtype is not the base's");
    c->base = view;
    if (!c->frame.params.key_frame) PITHI_TRY(pithi_check_base_hash(c));
    c->update = true;
    PITHI_TRY(pithi_decode_blocks(c));
    return pithi_check_key(c);
}

pith_status pith_decode_add(pith_plan *p, uint64_t slot, const void *frame, size_t bytes,
                            const pith_view *view) {
    struct pithi_coding c = {0};
    struct pithi_span span;
    if (!p) return PITH_ERR_ARG;
    if (!frame) return pithi_fail(&p->error, PITH_ERR_ARG, "frame is NULL");
    PITHI_TRY(slot_span(p, slot, view, true, &span));
    const uint64_t before = pithi_fp_enter();
    pith_status status = pithi_decode_slot(&c, p, slot, frame, bytes);
    if (status == PITH_OK) status = pithi_check_limit(&p->env, &c.frame, &p->error);
    if (status == PITH_OK)
        status = pithi_has_base(p) ? add_difference(&c, &span) : pithi_add_values(&c, &span);
    pithi_fp_leave(before);
    return status;
}

/* ---- Reduce ----------------------------------------------------------------------------------*/

static pith_status check_frames(pith_plan *p, const void *const *frames, const size_t *lengths,
                                size_t count) {
    if (!count || !frames || !lengths)
        return pithi_fail(&p->error, PITH_ERR_ARG, "no frames to reduce");
    if (pithi_has_base(p) || !p->params.codec->fixed(&p->params) ||
        !pithi_is_float16_32(p->params.dtype))
        return pithi_fail(&p->error, PITH_ERR_UNSUPPORTED,
                          "reduce takes fixed-rate float frames without a base");
    for (size_t i = 0; i < count; i++)
        if (!frames[i]) return pithi_fail_at(&p->error, PITH_ERR_ARG, "a frame is NULL", i);
    return PITH_OK;
}

pith_status pith_reduce(pith_plan *p, pith_state *s, uint64_t slot, const void *const *frames,
                        const size_t *lengths, size_t count, float scale, const pith_view *view) {
    struct pithi_span span;
    if (!p) return PITH_ERR_ARG;
    PITHI_TRY(check_frames(p, frames, lengths, count));
    PITHI_TRY(pithi_state_check(p, s, &p->error));
    PITHI_TRY(slot_span(p, slot, view, true, &span));
    if (!pithi_is_float16_32(span.dtype))
        return pithi_fail(&p->error, PITH_ERR_DTYPE, "reduce writes f32, bf16 or f16");
    const uint64_t before = pithi_fp_enter();
    const struct pithi_reduction r = {p, s, slot, frames, lengths, count, scale};
    const pith_status status = pithi_reduce_view(&r, &span);
    pithi_fp_leave(before);
    return status;
}

/* Whether the sum of a slot of p can be encoded as one of out; then *to is its frame. */
static pith_status check_output(pith_plan *p, uint64_t slot, const pith_plan *out,
                                uint64_t out_slot, struct pithi_frame *to) {
    if (slot >= p->slots || out_slot >= out->slots)
        return pithi_fail(&p->error, PITH_ERR_ARG, "no such slot");
    if (pithi_has_base(out) || out->params.dtype != PITH_F32 ||
        !out->params.codec->fixed(&out->params))
        return pithi_fail(&p->error, PITH_ERR_UNSUPPORTED,
                          "the sum is encoded by a fixed-rate plan of dtype f32 without a base");
    if (p->params.codec->pages || out->params.codec->pages)
        return pithi_fail(&p->error, PITH_ERR_UNSUPPORTED, "pages are not summed into a frame");
    if (pithi_slot_count(p, slot) != pithi_slot_count(out, out_slot))
        return pithi_fail(&p->error, PITH_ERR_ARG, "the slots differ in count");
    struct pithi_frame from;
    pithi_plan_frame(p, slot, false, &from);
    pithi_plan_frame(out, out_slot, false, to);
    if (!pithi_frame_like_exempt(&from, to))
        return pithi_fail(&p->error, PITH_ERR_ARG, "the slots differ in exempt elements");
    return PITH_OK;
}

/* Frames are read piece by piece while the output is written. */
static bool overlaps(const void *dst, size_t cap, const void *const *frames, const size_t *lengths,
                     size_t count) {
    const uintptr_t to = (uintptr_t)dst;
    for (size_t i = 0; i < count; i++) {
        const uintptr_t from = (uintptr_t)frames[i];
        if (from < to ? to - from < lengths[i] : from - to < cap) return true;
    }
    return false;
}

pith_status pith_reduce_encode(pith_plan *p, pith_state *s, uint64_t slot,
                               const void *const *frames, const size_t *lengths, size_t count,
                               float scale, pith_plan *out, pith_state *out_state,
                               uint64_t out_slot, void *dst, size_t cap, size_t *written) {
    if (written) *written = 0;
    if (!p) return PITH_ERR_ARG;
    if (!out || !dst || !written || p == out)
        return pithi_fail(&p->error, PITH_ERR_ARG, "an argument is NULL, or the plans are one");
    PITHI_TRY(check_frames(p, frames, lengths, count));
    struct pithi_coding c = {.plan = out, .random = out->random};
    PITHI_TRY(check_output(p, slot, out, out_slot, &c.frame));
    const uint64_t total = pithi_frame_total(&c.frame);
    if (overlaps(dst, cap < total ? cap : (size_t)total, frames, lengths, count))
        return pithi_fail(&p->error, PITH_ERR_ARG, "dst overlaps a frame");
    PITHI_TRY(pithi_state_check(p, s, &p->error));
    PITHI_TRY(pithi_state_check(out, out_state, &p->error));
    const struct pithi_reduction r = {p, s, slot, frames, lengths, count, scale};
    const pith_status taken = take_residual(&c, out_state, out_slot);
    if (taken != PITH_OK) return pithi_fail(&p->error, taken, out->error.text);
    const uint64_t before = pithi_fp_enter();
    const pith_status status = pithi_reduce_frame(&r, &c, dst, cap, written);
    keep_residual(&c, out_state, out_slot, status);
    pithi_fp_leave(before);
    return status;
}
