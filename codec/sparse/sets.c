/* sets.c - calls on the sets that streams hold: union, gather, scatter, clear.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "caller.h"
#include "common/convert.h"
#include "common/numeric.h"
#include "common/popcount.h"
#include "cpu.h"
#include "error.h"
#include "slots.h"
#include "sparse/sparse_frame.h"
#include "stream.h"

static pith_status check_slot(const pith_stream *s, uint64_t slot, pith_error *error) {
    if (!s->slot_words) return pithi_fail(error, PITH_ERR_UNSUPPORTED, "the codec sends no sets");
    return pithi_stream_check_slot(s, slot, error);
}

/* Begins a call that changes the slot. */
static pith_status begin(pith_work *w, pith_stream *s, uint64_t slot) {
    PITHI_TRY(pithi_stream_begin(w, s));
    const pith_status status = check_slot(s, slot, &w->error);
    return status == PITH_OK ? status : pithi_stream_end(w, s, status);
}

/* ---- Requests and reports --------------------------------------------------------------------*/

static pith_status take_request(const pith_stream *s, uint64_t slot, const pith_sparse_request *r,
                                struct pithi_sparse_request *to, pith_error *error) {
    pith_sparse_request own;
    PITHI_TRY(pithi_take(&own, sizeof own, r, "the request", error));
    const uint64_t n = pithi_slot_count(s->plan, slot);
    const uint32_t threshold = pithi_bits(own.threshold);
    if (own.first > n || own.count > n - own.first)
        return pithi_fail_with(error, PITH_ERR_ARG, 0,
                               "a range of # elements from # on is not inside the slot of #",
                               &(struct pithi_words){.number = {own.count, own.first, n}});
    if (threshold >= PITHI_F32_INF && threshold != 0x80000000u)
        return pithi_fail(error, PITH_ERR_ARG, "the threshold is negative or not finite");
    *to = (struct pithi_sparse_request){.first = own.first,
                                        .end = own.count ? own.first + own.count : n,
                                        .k = own.k,
                                        .threshold = threshold & 0x7FFFFFFFu};
    return PITH_OK;
}

pith_status pith_sparse_set_request(pith_work *w, pith_stream *s, uint64_t slot,
                                    const pith_sparse_request *request) {
    struct pithi_sparse_request own = {0};
    PITHI_TRY(begin(w, s, slot));
    if (request) {
        const pith_status status = take_request(s, slot, request, &own, &w->error);
        if (status != PITH_OK) return pithi_stream_end(w, s, status);
    }
    s->slot[slot].own.sparse.request = own;
    return pithi_stream_end(w, s, PITH_OK);
}

pith_status pith_sparse_report(pith_work *w, pith_stream *s, uint64_t slot, uint64_t chosen) {
    PITHI_TRY(begin(w, s, slot));
    struct pithi_control_state *const c = &s->slot[slot].own.sparse.control;
    if (!c->steps)
        return pithi_stream_end(
            w, s, pithi_fail(&w->error, PITH_ERR_STATE, "the slot has chosen nothing yet"));
    c->selected = chosen;
    s->slot[slot].own.sparse.reported = true;
    return pithi_stream_end(w, s, PITH_OK);
}

static uint64_t held_of(const pith_stream *s, uint64_t slot) {
    const size_t words = (size_t)((pithi_slot_count(s->plan, slot) + 63) / 64);
    if (!s->slot[slot].own.sparse.holds) return 0;
    return pithi_ones((const uint8_t *)pithi_stream_slot_words(s, slot), words * sizeof(uint64_t));
}

pith_status pith_sparse_get_state(const pith_stream *s, uint64_t slot, pith_sparse_state *out) {
    if (!s || !out) return PITH_ERR_ARG;
    PITHI_TRY(check_slot(s, slot, NULL));
    struct pithi_frame frame;
    pithi_plan_frame(s->plan, slot, false, &frame);
    const struct pithi_sparse_setting setting = pithi_sparse_setting_of(&frame);
    const struct pithi_slot_sparse *const from = &s->slot[slot].own.sparse;
    const pith_sparse_state state = {.k = setting.control.k,
                                     .most = setting.most,
                                     .sent = from->sent,
                                     .overflowed = from->overflowed,
                                     .held = held_of(s, slot),
                                     .threshold = pithi_float(from->threshold),
                                     .holds = from->holds};
    return pithi_give(out, &state, sizeof state);
}

/* ---- Hold ------------------------------------------------------------------------------------*/

/* What a pass over the blocks of one frame makes of the map that the slot has so far. */
struct merge {
    struct pithi_coding *c;
    uint64_t *map;
    bool first, intersection;
};

static pith_status merge_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct merge *const m = arg;
    const uint64_t at = pithi_block_first(&m->c->frame, block) / 64;
    const size_t words = (size_t)(pithi_block_count(&m->c->frame, block) + 63) / 64;
    /* The block's set goes to memory that decoding does not use, since no values are decoded. */
    uint64_t *const set = (uint64_t *)(void *)w->values;
    struct pithi_block b;
    pithi_block_open(m->c, block, NULL, w, &b);
    b.bytes = (uint8_t *)(uintptr_t)pithi_block_at(m->c, block, &b.length, &b.plain);
    b.own->sparse.held_map = set;
    b.own->sparse.keep_set = true;
    const pith_status status = m->c->frame.params.codec->decode(&b);
    pithi_collect(w, &b);
    if (status != PITH_OK) return status;
    for (size_t i = 0; i < words; i++) {
        uint64_t *const to = m->map + at + i;
        *to = m->first ? set[i] : m->intersection ? *to & set[i] : *to | set[i];
    }
    return PITH_OK;
}

/* Opens a frame of whichever setting that has the slot's elements and blocks. */
static pith_status open_set(struct pithi_coding *c, pith_work *w, const pith_plan *p, uint64_t slot,
                            const void *frame, size_t length) {
    PITHI_TRY(pithi_decode_open(c, w, p, frame, length));
    const struct pithi_frame *const f = &c->frame;
    if (f->params.codec != p->params.codec || f->params.block != p->params.block ||
        f->count != pithi_slot_count(p, slot) ||
        !p->params.codec->domain->alike(&f->params, &p->params))
        return pithi_fail_numbers(&w->error, PITH_ERR_MISMATCH,
                                  "a frame of another codec, count, block size or transform: # "
                                  "elements, the slot has #",
                                  f->count, pithi_slot_count(p, slot));
    if (f->own.chosen.held || f->own.chosen.same_blocks)
        return pithi_fail(&w->error, PITH_ERR_UNSUPPORTED,
                          "a frame without indices of a set that is held names no set");
    PITHI_TRY(pithi_check_blocks(c));
    return pithi_check_heads(c);
}

static pith_status hold(pith_work *w, pith_stream *s, uint64_t slot, const void *const *frames,
                        const size_t *lengths, size_t count, bool intersection) {
    const pith_plan *const p = s->plan;
    struct pithi_coding c;
    PITHI_TRY(pithi_work_attach(w, p, NULL));
    for (size_t i = 0; i < count; i++) {
        if (!frames[i]) return pithi_fail(&w->error, PITH_ERR_ARG, "a frame is NULL");
        pithi_coding_open(&c, p, w, NULL);
        PITHI_TRY(open_set(&c, w, p, slot, frames[i], lengths[i]));
    }
    for (size_t i = 0; i < count; i++) {
        pithi_coding_open(&c, p, w, NULL);
        PITHI_TRY(open_set(&c, w, p, slot, frames[i], lengths[i]));
        struct merge m = {&c, pithi_stream_slot_words(s, slot), i == 0, intersection};
        s->slot[slot].own.sparse.holds = false; /* until the map is that of all frames */
        pithi_parallel_begin(w);
        PITHI_TRY(pithi_parallel_blocks(&c, 0, c.frame.payload.blocks, merge_job, &m));
    }
    s->slot[slot].own.sparse.holds = true;
    return PITH_OK;
}

pith_status pith_sparse_hold(pith_work *w, pith_stream *s, uint64_t slot, const void *const *frames,
                             const size_t *lengths, size_t count, int how) {
    PITHI_TRY(begin(w, s, slot));
    if (!count || !frames || !lengths)
        return pithi_stream_end(
            w, s, pithi_fail(&w->error, PITH_ERR_ARG, "no frames whose sets are held"));
    if (how != PITH_SET_UNION && how != PITH_SET_INTERSECTION)
        return pithi_stream_end(
            w, s, pithi_fail(&w->error, PITH_ERR_ARG, "neither union nor intersection"));
    const uint64_t before = pithi_fp_enter();
    const pith_status status =
        hold(w, s, slot, frames, lengths, count, how == PITH_SET_INTERSECTION);
    pithi_fp_leave(before);
    return pithi_stream_end(w, s, status);
}

static pith_status hold_elements(pith_stream *s, uint64_t slot, const uint64_t *elements,
                                 size_t count, uint64_t run, pith_error *error) {
    const uint64_t n = pithi_slot_count(s->plan, slot);
    uint64_t *const map = pithi_stream_slot_words(s, slot);
    if (!run) return pithi_fail(error, PITH_ERR_ARG, "a run has 0 elements, expected 1 or more");
    if (count && !elements) return pithi_fail(error, PITH_ERR_ARG, "elements is NULL");
    for (size_t i = 0; i < count; i++)
        if (!n || elements[i] > (n - 1) / run)
            return pithi_fail_with(error, PITH_ERR_ARG, i,
                                   "run # of # elements begins outside the slot of #",
                                   &(struct pithi_words){.number = {elements[i], run, n}});
    s->slot[slot].own.sparse.holds = false; /* until the map is that of all elements */
    memset(map, 0, (size_t)((n + 63) / 64) * sizeof *map);
    for (size_t i = 0; i < count; i++) {
        const uint64_t first = elements[i] * run, left = n - first;
        for (uint64_t k = first; k < first + (run < left ? run : left); k++)
            map[k / 64] |= UINT64_C(1) << k % 64;
    }
    s->slot[slot].own.sparse.holds = true;
    return PITH_OK;
}

pith_status pith_sparse_hold_elements(pith_work *w, pith_stream *s, uint64_t slot,
                                      const uint64_t *elements, size_t count, uint64_t run) {
    PITHI_TRY(begin(w, s, slot));
    return pithi_stream_end(w, s, hold_elements(s, slot, elements, count, run, &w->error));
}

/* ---- Gather, scatter, clear ------------------------------------------------------------------*/

/* A walk through the elements of the set that a slot holds. */
struct walk {
    const pith_stream *stream;
    uint64_t slot, count;
    const uint64_t *map;
    const struct pithi_span *dense, *values;
    float *residual; /* in place of dense */
    float *momentum; /* beside it; or NULL */
    float scale;
};

/* Does something with elements of the set, in ascending order; `at` is how many were before. */
typedef void visit_fn(const struct walk *k, const uint64_t *element, size_t count, uint64_t at);

static uint32_t read_at(const struct pithi_span *span, uint64_t at) {
    uint64_t buffer;
    return pithi_load(pithi_span_read(span, at, 1, &buffer), span->dtype, 0);
}

static void write_at(const struct pithi_span *span, uint64_t at, uint32_t u) {
    uint8_t value[4];
    pithi_store(value, span->dtype, 0, u);
    if (span->dense)
        memcpy(pithi_span_at(span, at), value, span->element);
    else
        pithi_span_write(span, at, 1, value);
}

static void gather_some(const struct walk *k, const uint64_t *element, size_t count, uint64_t at) {
    for (size_t i = 0; i < count; i++)
        write_at(k->values, at + i,
                 k->dense ? read_at(k->dense, element[i]) : pithi_bits(k->residual[element[i]]));
}

static void scatter_some(const struct walk *k, const uint64_t *element, size_t count, uint64_t at) {
    for (size_t i = 0; i < count; i++) {
        const float product = pithi_float(read_at(k->values, at + i)) * k->scale;
        write_at(k->dense, element[i],
                 pithi_bits(pithi_float(read_at(k->dense, element[i])) + product));
    }
}

static void clear_some(const struct walk *k, const uint64_t *element, size_t count, uint64_t at) {
    (void)at;
    for (size_t i = 0; i < count; i++) k->residual[element[i]] = 0;
    for (size_t i = 0; k->momentum && i < count; i++) k->momentum[element[i]] = 0;
}

/* Visits all elements, some at a time. The calling thread does it alone: misses of the cache take
 * the time. */
static void walk_all(const struct walk *k, visit_fn *visit) {
    enum { LIST = 4096 };
    uint64_t element[LIST], at = 0;
    size_t have = 0;
    const uint64_t before = pithi_fp_enter(), words = (k->count + 63) / 64;
    for (uint64_t word = 0; word < words; word++) {
        for (uint64_t bits = k->map[word]; bits; bits &= bits - 1)
            element[have++] = word * 64 + (uint64_t)__builtin_ctzll(bits);
        if (have <= LIST - 64) continue;
        visit(k, element, have, at);
        at += have;
        have = 0;
    }
    visit(k, element, have, at);
    pithi_fp_leave(before);
}

static pith_status open_walk(struct walk *k, const pith_stream *s, uint64_t slot,
                             pith_error *error) {
    PITHI_TRY(check_slot(s, slot, error));
    PITHI_TRY(pithi_sparse_check_set(s, slot, error));
    *k = (struct walk){.stream = s,
                       .slot = slot,
                       .count = pithi_slot_count(s->plan, slot),
                       .map = pithi_stream_slot_words(s, slot)};
    return PITH_OK;
}

/* Opens the view of the slot or of the whole tensor. */
static pith_status take_dense(const struct walk *k, const pith_view *view, bool output,
                              struct pithi_span *span, pith_error *error) {
    const pith_plan *const p = k->stream->plan;
    if (pithi_transform_length(&p->params) > 1)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "the set is one of coefficients of a view");
    PITHI_TRY(pithi_span_init(span, view, output, error));
    if (!pithi_is_float16_32(span->dtype))
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "values are f32, bf16 or f16, not $",
                               &(struct pithi_words){.name = {pith_dtype_name(span->dtype)}});
    return pithi_slot_span(p, k->slot, span, error);
}

static pith_status take_values(const struct walk *k, const pith_view *view, bool output,
                               struct pithi_span *span, pith_error *error) {
    const uint64_t held = held_of(k->stream, k->slot);
    PITHI_TRY(pithi_span_init(span, view, output, error));
    if (!pithi_is_float16_32(span->dtype))
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "values are f32, bf16 or f16, not $",
                               &(struct pithi_words){.name = {pith_dtype_name(span->dtype)}});
    if (span->count == held) return PITH_OK;
    return pithi_fail_numbers(error, PITH_ERR_SHAPE, "the set has # elements, the values #", held,
                              span->count);
}

static pith_status take_residual(struct walk *k, pith_error *error) {
    if (!pithi_has_residual(k->stream->plan))
        return pithi_fail(error, PITH_ERR_STATE, "the stream has no error feedback");
    k->residual = pithi_stream_residual(k->stream, k->slot, 0);
    k->momentum = pithi_stream_momentum(k->stream, k->slot, 0);
    return PITH_OK;
}

static pith_status gather(const pith_stream *s, uint64_t slot, const pith_view *from,
                          const pith_view *values, pith_error *error) {
    struct walk k;
    struct pithi_span dense, sparse;
    PITHI_TRY(open_walk(&k, s, slot, error));
    PITHI_TRY(take_values(&k, values, true, &sparse, error));
    k.values = &sparse;
    if (from) {
        PITHI_TRY(take_dense(&k, from, false, &dense, error));
        k.dense = &dense;
    } else {
        PITHI_TRY(take_residual(&k, error));
    }
    walk_all(&k, gather_some);
    return PITH_OK;
}

static pith_status scatter(const pith_stream *s, uint64_t slot, const pith_view *values,
                           float scale, const pith_view *to, pith_error *error) {
    struct walk k;
    struct pithi_span dense, sparse;
    PITHI_TRY(open_walk(&k, s, slot, error));
    PITHI_TRY(take_values(&k, values, false, &sparse, error));
    PITHI_TRY(take_dense(&k, to, true, &dense, error));
    k.values = &sparse;
    k.dense = &dense;
    k.scale = scale;
    walk_all(&k, scatter_some);
    return PITH_OK;
}

static pith_status clear(pith_stream *s, uint64_t slot, pith_error *error) {
    struct walk k;
    PITHI_TRY(open_walk(&k, s, slot, error));
    PITHI_TRY(take_residual(&k, error));
    walk_all(&k, clear_some);
    return PITH_OK;
}

pith_status pith_sparse_gather(pith_work *w, const pith_stream *s, uint64_t slot,
                               const pith_view *from, const pith_view *values) {
    PITHI_TRY(pithi_stream_enter_reading(w, s));
    return pithi_stream_leave_reading(w, gather(s, slot, from, values, &w->error));
}

pith_status pith_sparse_scatter(pith_work *w, const pith_stream *s, uint64_t slot,
                                const pith_view *values, float scale, const pith_view *to) {
    PITHI_TRY(pithi_stream_enter_reading(w, s));
    return pithi_stream_leave_reading(w, scatter(s, slot, values, scale, to, &w->error));
}

pith_status pith_sparse_clear(pith_work *w, pith_stream *s, uint64_t slot) {
    PITHI_TRY(begin(w, s, slot));
    const pith_status status = clear(s, slot, &w->error);
    return pithi_stream_end(w, s, status);
}
