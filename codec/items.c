/* items.c - the calls that take lists: check all arguments, then work on every item.
 * SPDX-License-Identifier: Apache-2.0 */
#include "items.h"

#include <string.h>

#include "common/convert.h"
#include "cpu.h"
#include "error.h"
#include "frame_codec.h"
#include "oneshot.h"
#include "overlap.h"
#include "reduce.h"
#include "slots.h"
#include "stream.h"

/* ---- Lists -----------------------------------------------------------------------------------*/

struct list;

/* What a kind of call, such as encode, does with item i of a list. */
struct operation {
    /* Checks the arguments of the item, marks the slots that it will change, and marks its streams
     * as used by this work. Nothing else changes. */
    pith_status (*check)(pith_work *w, struct list *l, size_t i);
    /* Does the work, after check has passed for every item. */
    pith_status (*run)(pith_work *w, struct list *l, size_t i);
    void (*set_status)(struct list *l, size_t i, pith_status status);
    /* Undo what check has marked, also where it failed: first unmark for the slots of all items,
     * which needs the streams to be marked still, then leave for their streams. */
    void (*unmark)(pith_work *w, struct list *l, size_t i);
    void (*leave)(pith_work *w, struct list *l, size_t i);
    /* Returns how many elements the item goes through: items are spread over threads by it. */
    uint64_t (*elements)(struct list *l, size_t i);
    /* Returns where the item's input begins, to be prefetched; NULL: not worth it. */
    const void *(*source)(struct list *l, size_t i);
    uint32_t flags;   /* flags that the call takes */
    bool items, sums; /* which structs the caller gives lists of: reduce-encode takes both */
};

struct list {
    const struct operation *operation;
    size_t count;
    uint32_t flags;
    /* The structs of a list all have one size, which is the bytes from one to the next. */
    pith_item *items;
    pith_sum *sums;
    size_t item_bytes, sum_bytes;
    pith_work *work;        /* the work of the call, while threads take items each */
    const pith_plan *plan;  /* what the work is attached to, alone; NULL: anything */
    struct pithi_span span; /* view of the item checked last: a call of one item opens it once */
    /* How the item before was encoded, of which the next one keeps what depends on the plan alone;
     * its plan is NULL before the first item. */
    _Alignas(64) struct pithi_coding coding;
};

/* Items of this many elements and more get all threads, one item after the other; smaller ones are
 * spread over the threads. */
enum { LARGE_ITEM = 1 << 20 };

static pith_item *item_at(struct list *l, size_t i) {
    return (pith_item *)(void *)((uint8_t *)l->items + i * l->item_bytes);
}

static pith_sum *sum_at(struct list *l, size_t i) {
    return (pith_sum *)(void *)((uint8_t *)l->sums + i * l->sum_bytes);
}

/* Checks that the structs of a list have one size, which this library knows or whose rest is 0. */
static pith_status take_sizes(const void *first, size_t count, size_t known, size_t *bytes,
                              pith_error *error) {
    if (!first) return pithi_fail(error, PITH_ERR_ARG, "the list is NULL");
    memcpy(bytes, first, sizeof *bytes);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *const at = (const uint8_t *)first + i * *bytes;
        size_t size;
        memcpy(&size, at, sizeof size);
        pith_status status = PITH_OK;
        if (size != *bytes || size < known || size > 4096 || size % _Alignof(pith_item))
            status = pithi_fail_numbers(error, PITH_ERR_ARG,
                                        "item # of a list has size #: not set, or not that of the "
                                        "first",
                                        i, size);
        for (size_t k = known; status == PITH_OK && k < size; k++)
            if (at[k])
                status = pithi_fail_numbers(error, PITH_ERR_UNSUPPORTED,
                                            "item # of a list has size #, and a field of a newer "
                                            "pith: update this one",
                                            i, size);
        if (status != PITH_OK) {
            error->item = i;
            return status;
        }
    }
    return PITH_OK;
}

/* The failure of the lowest item that failed, which the call returns. */
struct failure {
    size_t item; /* SIZE_MAX: none failed */
    pith_status status;
    pith_error error;
};

static void keep_lowest(struct failure *f, size_t i, pith_status status, const pith_error *error) {
    if (i >= f->item) return;
    f->item = i;
    f->status = status;
    f->error = *error;
    f->error.item = i;
}

/* ---- What comes next, fetched while an item is worked on --------------------------------------*/

enum { LINE = 64, CHECKED_AHEAD = 4 };

static void prefetch_lines(uintptr_t from, size_t bytes) {
    for (size_t k = 0; k < bytes; k += LINE) __builtin_prefetch((const void *)(from + k));
}

/* Fetches a stream and the state of a slot, which may both be wrong: nothing is read. */
static void prefetch_slot(const pith_stream *s, uint64_t slot) {
    const uintptr_t at = (uintptr_t)s;
    prefetch_lines(at, sizeof *s);
    prefetch_lines(at + sizeof *s + slot * sizeof *s->slot, sizeof *s->slot + LINE);
}

static void prefetch_handles(struct list *l, size_t i) {
    if (i >= l->count) return;
    if (l->items) prefetch_slot(item_at(l, i)->stream, item_at(l, i)->slot);
    if (l->sums) prefetch_slot(sum_at(l, i)->stream, sum_at(l, i)->slot);
}

/* Fetches the next item, and the beginning of what it reads: loops over blocks fetch no further
 * than to the end of this one. */
static void prefetch(struct list *l, size_t i) {
    enum { BYTES = 2048, AT_ONCE = 512 };
    prefetch_handles(l, i);
    const bool read = l->operation->source && i < l->count;
    const uintptr_t from = read ? (uintptr_t)l->operation->source(l, i) : 0;
    for (size_t k = 0; from && k < BYTES; k += AT_ONCE) prefetch_lines(from + k, AT_ONCE);
}

static pith_status run_one(pith_work *w, struct list *l, size_t i) {
    prefetch(l, i + 1);
    const pith_status status = l->operation->run(w, l, i);
    l->operation->set_status(l, i, status);
    return status;
}

/* Finds items [*first, *end), the share of worker `part` of `parts`: shares lie one behind the
 * other, and have about as many elements each. */
static void share_of(struct list *l, uint64_t part, uint32_t parts, size_t *first, size_t *end) {
    uint64_t all = 0, before = 0;
    for (size_t i = 0; i < l->count; i++) all += l->operation->elements(l, i) + 1;
    const uint64_t from = all / parts * part, until = all / parts * (part + 1);
    *first = *end = l->count;
    for (size_t i = 0; i < l->count; i++) {
        if (*first == l->count && before >= from) *first = i;
        if (part + 1 < parts && before >= until) {
            *end = i;
            break;
        }
        before += l->operation->elements(l, i) + 1;
    }
    if (*end < *first) *end = *first;
}

static bool is_large(struct list *l, size_t i) {
    return l->operation->elements(l, i) >= LARGE_ITEM;
}

/* Makes *l a list of which nothing was worked on yet, like another one. */
static void open_like(struct list *l, const struct list *like) {
    *l = (struct list){.operation = like->operation,
                       .count = like->count,
                       .flags = like->flags,
                       .items = like->items,
                       .sums = like->sums,
                       .item_bytes = like->item_bytes,
                       .sum_bytes = like->sum_bytes,
                       .work = like->work};
}

/* Does a worker's share, as a work with one thread. */
static pith_status share_job(void *arg, uint64_t part, struct pithi_worker *worker) {
    struct list own, *const l = &own;
    open_like(l, arg);
    pith_work alone = {
        .error = {.size = sizeof alone.error},
        .env = {.size = sizeof alone.env, .max_output_bytes = l->work->env.max_output_bytes},
        .workers = 1,
        .worker = worker,
        .second = &l->work->second[worker - l->work->worker],
        .lane_bytes = l->work->lane_bytes};
    size_t i, end;
    worker->failed_item = SIZE_MAX;
    share_of(l, part, l->work->workers, &i, &end);
    for (; i < end; i++) {
        if (is_large(l, i) || run_one(&alone, l, i) == PITH_OK) continue;
        if (worker->failed_item != SIZE_MAX) continue;
        worker->failed_item = i;
        worker->failure = alone.error;
    }
    return PITH_OK;
}

static pith_status status_of(struct list *l, size_t i) {
    return l->items ? item_at(l, i)->status : sum_at(l, i)->status;
}

/* Spreads the small items over the threads, each on one of them. */
static pith_status spread(pith_work *w, struct list *l, struct failure *f) {
    l->work = w;
    for (size_t i = 0; i < l->count; i++) l->operation->set_status(l, i, PITH_ERR_RUNNER);
    for (uint32_t i = 0; i < w->workers; i++) w->worker[i].failed_item = SIZE_MAX;
    PITHI_TRY(pithi_parallel_for(w, 0, w->workers, share_job, l));
    l->plan = NULL; /* workers were attached to plans of their own items */
    for (uint32_t i = 0; i < w->workers; i++) {
        const struct pithi_worker *const worker = &w->worker[i];
        if (worker->failed_item != SIZE_MAX)
            keep_lowest(f, worker->failed_item, status_of(l, worker->failed_item),
                        &worker->failure);
    }
    return PITH_OK;
}

static pith_status run_all(pith_work *w, struct list *l) {
    const bool shared = w->workers > 1 && l->count > 1;
    struct failure f;
    f.item = SIZE_MAX;
    if (shared) PITHI_TRY(spread(w, l, &f));
    for (size_t i = 0; i < l->count; i++) {
        if (shared && !is_large(l, i)) continue;
        const pith_status status = run_one(w, l, i);
        if (status != PITH_OK) keep_lowest(&f, i, status, &w->error);
    }
    if (f.item == SIZE_MAX) return PITH_OK;
    w->error = f.error;
    return f.status;
}

/* Fails a call of which item i is wrong: no item was worked on. */
static pith_status refuse(pith_work *w, struct list *l, size_t i, pith_status status) {
    w->error.item = i;
    for (size_t k = 0; k < l->count; k++) l->operation->set_status(l, k, status);
    return status;
}

/* Whether the call marks streams: one that adds what it decodes changes none. */
static bool marks_streams(const struct list *l) { return !(l->flags & PITH_ADD); }

/* Returns the first item with a stream that is marked with the work before the call has marked any,
 * l->count when none is or the call marks none. Fetches the streams on its way. */
static size_t first_marked(const pith_work *w, struct list *l) {
    const bool marks = marks_streams(l);
    size_t i = 0;
    for (; i < l->count; i++) {
        prefetch_handles(l, i + CHECKED_AHEAD);
        const pith_stream *const one = l->items ? item_at(l, i)->stream : NULL;
        const pith_stream *const sum = l->sums ? sum_at(l, i)->stream : NULL;
        if (marks && one && pithi_stream_is_marked(one, w)) break;
        if (marks && sum && pithi_stream_is_marked(sum, w)) break;
    }
    return i;
}

static pith_status run_list(pith_work *w, struct list *l) {
    const uint64_t before = pithi_fp_enter();
    size_t failed = first_marked(w, l), checked = 0;
    pith_status status = failed < l->count ? pithi_stream_busy(&w->error) : PITH_OK;
    for (; checked < l->count && status == PITH_OK; checked++) {
        failed = checked;
        status = l->operation->check(w, l, checked);
    }
    status = status == PITH_OK ? run_all(w, l) : refuse(w, l, failed, status);
    const size_t marked = marks_streams(l) ? checked : 0;
    for (size_t i = 0; i < marked; i++) {
        prefetch_handles(l, i + CHECKED_AHEAD); /* a long list has left the caches meanwhile */
        l->operation->unmark(w, l, i);
    }
    for (size_t i = 0; i < marked; i++) l->operation->leave(w, l, i);
    pithi_fp_leave(before);
    return status;
}

/* Runs a call on a list: checks its own arguments, then its items. */
static pith_status call(pith_work *w, const struct operation *operation, pith_item *items,
                        pith_sum *sums, size_t count, uint32_t flags) {
    struct list l; /* not cleared: the span and the coding are large */
    PITHI_TRY(pithi_work_enter(w));
    l.operation = operation;
    l.count = count;
    l.flags = flags;
    l.items = items;
    l.sums = sums;
    l.plan = l.coding.plan = NULL;
    pith_status status = PITH_OK;
    if (flags & ~operation->flags)
        status = pithi_fail_with(&w->error, PITH_ERR_UNSUPPORTED, 0, "unknown flags of a call: #",
                                 &(struct pithi_words){.number = {flags & ~operation->flags}});
    if (status == PITH_OK && count && operation->items)
        status = take_sizes(items, count, sizeof *items, &l.item_bytes, &w->error);
    if (status == PITH_OK && count && operation->sums)
        status = take_sizes(sums, count, sizeof *sums, &l.sum_bytes, &w->error);
    if (status == PITH_OK) status = run_list(w, &l);
    pithi_work_leave(w);
    return status;
}

/* ---- Slots and views -------------------------------------------------------------------------*/

static pith_status check_slot(pith_work *w, const pith_stream *s, uint64_t slot) {
    if (!s) return pithi_fail(&w->error, PITH_ERR_ARG, "the stream is NULL");
    return pithi_stream_check_slot(s, slot, &w->error);
}

/* Marks the slot as one that the call changes, until unmark_slot. */
static pith_status mark_slot(pith_work *w, pith_stream *s, uint64_t slot) {
    PITHI_TRY(check_slot(w, s, slot));
    PITHI_TRY(pithi_stream_enter(s, w));
    if (s->slot[slot].taken)
        return pithi_fail_with(&w->error, PITH_ERR_ARG, 0, "slot # of a stream comes twice",
                               &(struct pithi_words){.number = {slot}});
    s->slot[slot].taken = true;
    return PITH_OK;
}

static void unmark_slot(const pith_work *w, pith_stream *s, uint64_t slot) {
    if (s && pithi_stream_is_marked(s, w) && slot < s->plan->slots) s->slot[slot].taken = false;
}

/* Opens a view of the slot or of the whole tensor, from the slot's first element on. */
static pith_status open_view(const pith_plan *p, uint64_t slot, const pith_view *view, bool output,
                             struct pithi_span *span, pith_error *error) {
    PITHI_TRY(pithi_span_init(span, view, output, error));
    return pithi_slot_span(p, slot, span, error);
}

pith_status pithi_output_dtype(const struct pithi_params *q, uint32_t dtype, pith_error *error) {
    if (dtype == q->dtype) return PITH_OK;
    if (!(q->codec->traits & PITH_TRAIT_LOSSLESS) && pithi_is_float16_32(q->dtype) &&
        pithi_is_float16_32(dtype))
        return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "$ does not decode from $ to $",
                           &(struct pithi_words){.name = {q->codec->name, pith_dtype_name(q->dtype),
                                                          pith_dtype_name(dtype)}});
}

/* Makes a span of the base of a slot. Fields are set one by one, as pithi_span_again does, since a
 * walk of dense elements reads no others. */
static void span_base(const pith_stream *s, uint64_t slot, struct pithi_span *span) {
    const pith_plan *const p = s->plan;
    span->data = s->base;
    span->first = pithi_slot_first(p, slot);
    span->count = p->count;
    span->element = pithi_dtype_bytes(p->params.base_dtype);
    span->dtype = p->params.base_dtype;
    span->dense = true;
}

/* Attaches the work of a list, in which no call has two plans. */
static pith_status attach(pith_work *w, struct list *l, const pith_plan *p) {
    if (l->plan == p) return PITH_OK;
    l->plan = NULL;
    PITHI_TRY(pithi_work_attach(w, p, NULL));
    l->plan = p;
    return PITH_OK;
}

/* Attaches the work to the item's plan again and opens its view (NULL: it has none) in l->span. The
 * checks did so, but each item's check replaced what the one before had left; a call of one item
 * has it still. */
static pith_status reopen(pith_work *w, struct list *l, const pith_stream *s, uint64_t slot,
                          const pith_view *view, bool output) {
    if (l->count == 1) return PITH_OK;
    PITHI_TRY(attach(w, l, s->plan));
    if (!view) return PITH_OK;
    PITHI_TRY(pithi_span_again(&l->span, view, output, &w->error));
    return pithi_slot_span(s->plan, slot, &l->span, &w->error);
}

/* Finds memory that the item's call would write before it has read it: its frame, of so many bytes,
 * its view (NULL: none), and, where the call works on it, the stream's base. */
static pith_status check_apart(const pith_item *item, uint64_t frame_bytes,
                               const struct pithi_span *view, bool with_base, pith_error *error) {
    const pith_plan *const p = item->stream->plan;
    const uint64_t count = pithi_slot_count(p, item->slot);
    if (view && pithi_span_overlaps(view, count, item->frame, frame_bytes))
        return pithi_fail(error, PITH_ERR_ARG, "the view overlaps the frame");
    if (!with_base || !pithi_has_base(p)) return PITH_OK;
    struct pithi_span base;
    span_base(item->stream, item->slot, &base);
    if (view && pithi_span_overlaps_base(view, count, &base, 0))
        return pithi_fail(error, PITH_ERR_ARG, "the view overlaps the base, not in its place");
    if (pithi_overlap(item->frame, frame_bytes, base.data, base.count * base.element))
        return pithi_fail(error, PITH_ERR_ARG, "the frame overlaps the base");
    return PITH_OK;
}

/* The members of struct operation for calls on lists of pith_item. */
static void set_item_status(struct list *l, size_t i, pith_status status) {
    item_at(l, i)->status = status;
}

static void set_encoded_status(struct list *l, size_t i, pith_status status) {
    pith_item *const item = item_at(l, i);
    item->status = status;
    if (status != PITH_OK) item->length = 0;
}

static void unmark_item(pith_work *w, struct list *l, size_t i) {
    unmark_slot(w, item_at(l, i)->stream, item_at(l, i)->slot);
}

static void leave_item(pith_work *w, struct list *l, size_t i) {
    pithi_stream_leave(item_at(l, i)->stream, w);
}

static uint64_t item_elements(struct list *l, size_t i) {
    const pith_item *const item = item_at(l, i);
    return pithi_slot_count(item->stream->plan, item->slot);
}

static const void *item_frame(struct list *l, size_t i) { return item_at(l, i)->frame; }

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Whether the call's flags or the step ask for a key frame. */
static bool is_key(const pith_item *item, struct list *l) {
    const pith_stream *const s = item->stream;
    return l->flags & PITH_KEY_FRAME || pith_plan_is_key(s->plan, s->slot[item->slot].step);
}

/* Finds too small a buffer before anything is written, where the length of a frame is known. */
static pith_status check_capacity(const pith_item *item, bool key, pith_error *error) {
    const pith_plan *const p = item->stream->plan;
    if (!p->sizes.fixed && !pithi_has_base(p)) return PITH_OK;
    if (item->capacity >= (key ? p->sizes.key_bytes : p->sizes.frame_bytes)) return PITH_OK;
    const uint64_t bytes = pith_plan_frame_bytes(p, item->slot, key);
    if (item->capacity >= bytes) return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_SPACE, bytes,
                           "the frame needs # bytes, the capacity is #",
                           &(struct pithi_words){.number = {bytes, item->capacity}});
}

static pith_status check_encode(pith_work *w, struct list *l, size_t i) {
    const pith_item *const item = item_at(l, i);
    pith_error *const error = &w->error;
    struct pithi_span *const span = &l->span;
    PITHI_TRY(mark_slot(w, item->stream, item->slot));
    const pith_plan *const p = item->stream->plan;
    if (!item->frame) return pithi_fail(error, PITH_ERR_ARG, "frame is NULL");
    PITHI_TRY(open_view(p, item->slot, &item->view, false, span, error));
    if (span->dtype != p->params.dtype)
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "the view has dtype $, the layout $",
                               &(struct pithi_words){.name = {pith_dtype_name(span->dtype),
                                                              pith_dtype_name(p->params.dtype)}});
    if (l->flags & PITH_KEY_FRAME && !pithi_has_base(p))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "key frames need a base");
    const uint32_t own = l->flags & ~(uint32_t)PITH_KEY_FRAME;
    if (own) {
        const struct pithi_frame_hooks *const hooks = p->params.codec->frame_hooks;
        if (!hooks || !hooks->allow)
            return pithi_fail_with(
                error, PITH_ERR_UNSUPPORTED, 0, "$ does not take flags # of an encode",
                &(struct pithi_words){.name = {p->params.codec->name}, .number = {own}});
        PITHI_TRY(hooks->allow(item->stream, item->slot, own, error));
    }
    PITHI_TRY(pithi_stream_check_base(item->stream, error));
    const bool key = is_key(item, l);
    if (!key) PITHI_TRY(pithi_stream_check_slot_base(item->stream, item->slot, error));
    PITHI_TRY(check_capacity(item, key, error));
    const uint64_t most = key ? p->sizes.key_bytes : p->sizes.frame_bytes;
    PITHI_TRY(check_apart(item, item->capacity < most ? item->capacity : most, span, true, error));
    return attach(w, l, p);
}

/* Updates a slot without a base after an encode. */
static void keep_encoded(const struct pithi_coding *c, struct pithi_slot_state *slot,
                         pith_status status) {
    const struct pithi_frame_hooks *const hooks = c->plan->params.codec->frame_hooks;
    if (status != PITH_OK) {
        if (!c->began) return;
        if (hooks && hooks->fail) hooks->fail(c, slot);
        /* the older copy of the residual may have been written over */
        if (c->residual) slot->undone = true;
        return;
    }
    slot->step++;
    slot->side ^= c->residual != NULL;
    slot->undone = false;
    slot->frames++;
    slot->saturated += c->saturated;
    slot->poisoned += c->poisoned;
    if (hooks) hooks->end(c, slot);
}

/* Updates a slot after a frame against its base was coded, which left the base of the next step. */
static void advance(const struct pithi_coding *c, struct pithi_slot_state *slot) {
    slot->step = c->frame.step + 1;
    slot->invalid = false;
    if (c->frame.has_base_hash) slot->base_hash = pithi_base_hash(c->plan, c->hash, c->frame.count);
    slot->frames++;
    slot->key_frames += c->frame.params.key_frame;
    slot->saturated += c->saturated;
    slot->poisoned += c->poisoned;
}

static void take_residual(struct pithi_coding *c, const pith_stream *s, uint64_t slot) {
    if (!pithi_has_residual(s->plan)) return;
    c->residual = pithi_stream_residual(s, slot, 0);
    c->residual_next = pithi_stream_residual(s, slot, 1);
    c->momentum = pithi_stream_momentum(s, slot, 0);
    c->momentum_next = pithi_stream_momentum(s, slot, 1);
}

static struct pithi_random random_of(const pith_stream *s, uint64_t slot) {
    struct pithi_random random = s->random;
    random.step = s->slot[slot].step;
    if (pithi_has_base(s->plan)) random.shift = 0;
    return random;
}

/* Encodes against the slot's base, which c->base is. */
static pith_status encode_against_base(pith_item *item, struct pithi_coding *c, bool key) {
    pith_stream *const s = item->stream;
    struct pithi_slot_state *const slot = &s->slot[item->slot];
    c->update = true;
    c->block_hashes = pithi_stream_block_hashes(s, item->slot);
    c->hash_all = pithi_stream_hashes_all(s->plan);
    c->compare = c->block_hashes && !key;
    c->frame.step = slot->step;
    c->frame.base_hash = slot->base_hash;
    c->frame.rng_stream = s->random.rng_stream;
    /* A key frame carries the hash of the base that it brings. */
    const pith_status status =
        pithi_encode_frame(c, item->frame, item->capacity, key, &item->length);
    /* Too small a buffer is found before the first block, and so is a changed base, unless a block
     * before it was coded. */
    if (status == PITH_OK)
        advance(c, slot);
    else if (status != PITH_ERR_SPACE &&
             (status != PITH_ERR_BASE || pithi_parallel_advanced(c->work)))
        slot->invalid = true;
    return status;
}

/* Says where the next item lies, which is checked as all are. Slots of one view come one behind the
 * other. */
static void find_next(struct list *l, size_t i, struct pithi_coding *c) {
    c->next_value = c->next_base = NULL;
    if (i + 1 >= l->count) return;
    const pith_item *const next = item_at(l, i + 1);
    const pith_stream *const s = next->stream;
    if (next->view.data != item_at(l, i)->view.data) c->next_value = next->view.data;
    if (pithi_has_base(s->plan) && s->base)
        c->next_base = s->base + pithi_slot_first(s->plan, next->slot) *
                                     pithi_dtype_bytes(s->plan->params.base_dtype);
}

static pith_status run_encode(pith_work *w, struct list *l, size_t i) {
    pith_item *const item = item_at(l, i);
    pith_stream *const s = item->stream;
    const pith_plan *const p = s->plan;
    struct pithi_slot_state *const slot = &s->slot[item->slot];
    struct pithi_coding *const c = &l->coding;
    item->length = 0;
    PITHI_TRY(reopen(w, l, s, item->slot, &item->view, false));
    const bool key = is_key(item, l);
    if (!pithi_coding_again(c, p, pithi_slot_count(p, item->slot), key)) {
        pithi_coding_open(c, p, w, &l->span);
        pithi_plan_frame(p, item->slot, key, &c->frame);
    }
    find_next(l, i, c);
    c->random = random_of(s, item->slot);
    struct pithi_span base; /* lives as long as the call of what reads it */
    if (pithi_has_base(p)) {
        span_base(s, item->slot, &base);
        c->base = &base;
        return encode_against_base(item, c, key);
    }
    take_residual(c, s, item->slot);
    c->slot_words = pithi_stream_slot_words(s, item->slot);
    c->flags = l->flags;
    if (p->params.codec->frame_hooks) p->params.codec->frame_hooks->begin(slot, c);
    const pith_status status =
        pithi_encode_frame(c, item->frame, item->capacity, false, &item->length);
    keep_encoded(c, slot, status);
    return status;
}

static const struct operation encode_operation = {
    .check = check_encode,
    .run = run_encode,
    .set_status = set_encoded_status,
    .unmark = unmark_item,
    .leave = leave_item,
    .elements = item_elements,
    .flags = PITH_KEY_FRAME | PITH_SAME_SET | PITH_HELD_SET | PITH_SAME_BLOCKS,
    .items = true};

pith_status pith_encode(pith_work *w, pith_item *items, size_t count, uint32_t flags) {
    return call(w, &encode_operation, items, NULL, count, flags);
}

/* ---- Decode ----------------------------------------------------------------------------------*/

pith_status pithi_check_limit(const pith_env *env, const struct pithi_frame *frame,
                              pith_error *error) {
    const uint64_t bytes = frame->count * pithi_dtype_bytes(frame->params.dtype);
    if (!env->max_output_bytes || bytes <= env->max_output_bytes) return PITH_OK;
    return pithi_fail_numbers(error, PITH_ERR_LIMIT,
                              "max_output_bytes is #, the tensor has # bytes",
                              env->max_output_bytes, bytes);
}

/* Whether the item has a view: without a dtype only the base is wanted. */
static bool has_view(const pith_item *item) { return item->view.dtype != PITH_NONE; }

static pith_status check_decode(pith_work *w, struct list *l, size_t i) {
    const pith_item *const item = item_at(l, i);
    pith_error *const error = &w->error;
    struct pithi_span *const span = &l->span;
    const bool add = l->flags & PITH_ADD;
    PITHI_TRY(add ? check_slot(w, item->stream, item->slot)
                  : mark_slot(w, item->stream, item->slot));
    const pith_plan *const p = item->stream->plan;
    if (!item->frame) return pithi_fail(error, PITH_ERR_ARG, "frame is NULL");
    const bool view = has_view(item) || add || !pithi_has_base(p);
    if (view) {
        PITHI_TRY(open_view(p, item->slot, &item->view, true, span, error));
        if (!add) PITHI_TRY(pithi_output_dtype(&p->params, span->dtype, error));
    }
    if (add && !pithi_has_base(p) && !pithi_is_float16_32(span->dtype))
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "only f32, bf16 and f16 add, not $",
                               &(struct pithi_words){.name = {pith_dtype_name(span->dtype)}});
    if (add && pithi_has_base(p) && span->dtype != p->params.base_dtype)
        return pithi_fail_with(
            error, PITH_ERR_DTYPE, 0, "the view has dtype $, the base $",
            &(struct pithi_words){
                .name = {pith_dtype_name(span->dtype), pith_dtype_name(p->params.base_dtype)}});
    if (!add) PITHI_TRY(pithi_stream_check_base(item->stream, error));
    PITHI_TRY(check_apart(item, item->length, view ? span : NULL, !add, error));
    return attach(w, l, p);
}

/* Checks that a frame which is no key frame is the next one of its slot. */
static pith_status is_next(const struct pithi_coding *c, const struct pithi_slot_state *slot) {
    const struct pithi_frame *const f = &c->frame;
    pith_error *const error = &c->work->error;
    if (f->params.key_frame) return PITH_OK;
    if (slot->invalid)
        return pithi_fail(error, PITH_ERR_STATE, "the base was left half written by a failed call");
    if (f->step != slot->step)
        return pithi_fail_numbers(error, PITH_ERR_STEP,
                                  "the stream's next step is #, the frame's step #", slot->step,
                                  f->step);
    if (f->has_base_hash && f->base_hash != slot->base_hash)
        return pithi_fail_numbers(error, PITH_ERR_BASE,
                                  "the base is not the encoder's: hash #, the frame's #",
                                  slot->base_hash, f->base_hash);
    return PITH_OK;
}

/* Decodes against the slot's base, which c->base is. */
static pith_status decode_against_base(const pith_item *item, struct pithi_coding *c) {
    pith_stream *const s = item->stream;
    struct pithi_slot_state *const slot = &s->slot[item->slot];
    PITHI_TRY(is_next(c, slot));
    c->update = true;
    c->block_hashes = pithi_stream_block_hashes(s, item->slot);
    c->hash_all = pithi_stream_hashes_all(s->plan);
    slot->invalid = true;
    PITHI_TRY(pithi_decode_blocks(c));
    PITHI_TRY(pithi_check_key(c));
    advance(c, slot);
    return PITH_OK;
}

/* Decodes to a view that is the base. */
static pith_status add_difference(struct pithi_coding *c, const struct pithi_span *view) {
    c->base = view;
    if (!c->frame.params.key_frame) PITHI_TRY(pithi_check_base_hash(c));
    c->update = true;
    PITHI_TRY(pithi_decode_blocks(c));
    return pithi_check_key(c);
}

static pith_status run_decode(pith_work *w, struct list *l, size_t i) {
    const pith_item *const item = item_at(l, i);
    pith_stream *const s = item->stream;
    const pith_plan *const p = s->plan;
    struct pithi_coding c;
    pithi_coding_open(&c, p, w, NULL);
    PITHI_TRY(reopen(w, l, s, item->slot, has_view(item) ? &item->view : NULL, true));
    PITHI_TRY(pithi_decode_slot(&c, w, p, item->slot, item->frame, item->length));
    PITHI_TRY(pithi_check_limit(&w->env, &c.frame, &w->error));
    struct pithi_slot_state *const slot = &s->slot[item->slot];
    const struct pithi_frame_hooks *const hooks = p->params.codec->frame_hooks;
    c.slot_words = pithi_stream_slot_words(s, item->slot);
    if (hooks && hooks->begin_decode) hooks->begin_decode(slot, &c);
    c.busy = l->flags & PITH_ADD && !pithi_stream_is_free(s);
    if (l->flags & PITH_ADD)
        return pithi_has_base(p) ? add_difference(&c, &l->span) : pithi_add_values(&c, &l->span);
    c.view = has_view(item) ? &l->span : NULL;
    struct pithi_span base; /* lives as long as c */
    if (pithi_has_base(p)) {
        span_base(s, item->slot, &base);
        c.base = &base;
        return decode_against_base(item, &c);
    }
    if (hooks && hooks->follow) hooks->follow(slot, &c);
    PITHI_TRY(pithi_decode_blocks(&c));
    if (hooks && hooks->end_decode) hooks->end_decode(&c, slot);
    slot->frames++;
    slot->saturated += c.saturated;
    slot->poisoned += c.poisoned;
    return PITH_OK;
}

static const struct operation decode_operation = {.check = check_decode,
                                                  .run = run_decode,
                                                  .set_status = set_item_status,
                                                  .unmark = unmark_item,
                                                  .leave = leave_item,
                                                  .elements = item_elements,
                                                  .source = item_frame,
                                                  .flags = PITH_ADD,
                                                  .items = true};

pith_status pith_decode(pith_work *w, pith_item *items, size_t count, uint32_t flags) {
    return call(w, &decode_operation, items, NULL, count, flags);
}

/* ---- Reduce ----------------------------------------------------------------------------------*/

static pith_status check_frames(const pith_sum *sum, pith_error *error) {
    const pith_plan *const p = sum->stream->plan;
    if (!sum->count || !sum->frames || !sum->lengths)
        return pithi_fail(error, PITH_ERR_ARG, "no frames to reduce");
    if (!pithi_codec_sums(&p->params))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "reduce takes float frames without a base, of fixed rate or sparse");
    for (size_t i = 0; i < sum->count; i++)
        if (!sum->frames[i])
            return pithi_fail_with(error, PITH_ERR_ARG, i, "frame # of a sum is NULL",
                                   &(struct pithi_words){.number = {i}});
    return PITH_OK;
}

static struct pithi_reduction reduction_of(pith_work *w, const pith_sum *sum) {
    return (struct pithi_reduction){.work = w,
                                    .stream = sum->stream,
                                    .slot = sum->slot,
                                    .frames = sum->frames,
                                    .lengths = sum->lengths,
                                    .count = sum->count,
                                    .scale = sum->scale == 0.0f ? 1.0f : sum->scale};
}

static const void *sum_frame(struct list *l, size_t i) { return sum_at(l, i)->frames[0]; }

static void set_sum_status(struct list *l, size_t i, pith_status status) {
    sum_at(l, i)->status = status;
}

static void unmark_sum(pith_work *w, struct list *l, size_t i) {
    unmark_slot(w, sum_at(l, i)->stream, sum_at(l, i)->slot);
}

static void leave_sum(pith_work *w, struct list *l, size_t i) {
    pithi_stream_leave(sum_at(l, i)->stream, w);
}

/* Returns the elements of all frames together, which take the time. */
static uint64_t sum_elements(struct list *l, size_t i) {
    const pith_sum *const sum = sum_at(l, i);
    return pithi_slot_count(sum->stream->plan, sum->slot) * sum->count;
}

static pith_status check_reduce(pith_work *w, struct list *l, size_t i) {
    const pith_sum *const sum = sum_at(l, i);
    struct pithi_span *const span = &l->span;
    PITHI_TRY(mark_slot(w, sum->stream, sum->slot));
    PITHI_TRY(check_frames(sum, &w->error));
    PITHI_TRY(open_view(sum->stream->plan, sum->slot, &sum->view, true, span, &w->error));
    if (!pithi_is_float16_32(span->dtype))
        return pithi_fail(&w->error, PITH_ERR_DTYPE, "reduce writes f32, bf16 or f16");
    const uint64_t count = pithi_slot_count(sum->stream->plan, sum->slot);
    for (size_t k = 0; k < sum->count; k++)
        if (pithi_span_overlaps(span, count, sum->frames[k], sum->lengths[k]))
            return pithi_fail(&w->error, PITH_ERR_ARG, "the view overlaps a frame of its sum");
    return attach(w, l, sum->stream->plan);
}

static pith_status run_reduce(pith_work *w, struct list *l, size_t i) {
    const pith_sum *const sum = sum_at(l, i);
    const struct pithi_reduction r = reduction_of(w, sum);
    PITHI_TRY(reopen(w, l, sum->stream, sum->slot, &sum->view, true));
    return pithi_reduce_view(&r, &l->span);
}

static const struct operation reduce_operation = {.check = check_reduce,
                                                  .run = run_reduce,
                                                  .set_status = set_sum_status,
                                                  .unmark = unmark_sum,
                                                  .leave = leave_sum,
                                                  .elements = sum_elements,
                                                  .source = sum_frame,
                                                  .sums = true};

pith_status pith_reduce(pith_work *w, pith_sum *sums, size_t count) {
    return call(w, &reduce_operation, NULL, sums, count, 0);
}

/* ---- Reduce-encode ---------------------------------------------------------------------------*/

/* Checks that the sum of a slot of p can be encoded as one of out, and sets *to to its frame. */
static pith_status check_output(const pith_plan *p, uint64_t slot, const pith_plan *out,
                                uint64_t out_slot, struct pithi_frame *to, pith_error *error) {
    if (!pithi_codec_sums(&out->params) || out->params.dtype != PITH_F32)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "the sum is encoded by a plan of dtype f32 without a base, of fixed rate "
                          "or sparse");
    if (p->params.codec->cut || out->params.codec->cut)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "frames of pages or tiles are not summed into a frame");
    if (pithi_slot_count(p, slot) != pithi_slot_count(out, out_slot))
        return pithi_fail_numbers(error, PITH_ERR_ARG,
                                  "the slots differ: # elements to sum, # to encode",
                                  pithi_slot_count(p, slot), pithi_slot_count(out, out_slot));
    struct pithi_frame from;
    pithi_plan_frame(p, slot, false, &from);
    pithi_plan_frame(out, out_slot, false, to);
    if (!pithi_frame_like_exempt(&from, to))
        return pithi_fail(error, PITH_ERR_ARG, "the slots differ in exempt elements");
    return PITH_OK;
}

static pith_status check_reduce_encode(pith_work *w, struct list *l, size_t i) {
    const pith_sum *const sum = sum_at(l, i);
    const pith_item *const item = item_at(l, i);
    pith_error *const error = &w->error;
    struct pithi_frame frame;
    PITHI_TRY(mark_slot(w, sum->stream, sum->slot));
    if (!item->frame) return pithi_fail(error, PITH_ERR_ARG, "frame is NULL");
    if (item->stream == sum->stream)
        return pithi_fail(error, PITH_ERR_ARG,
                          "the stream that is encoded is the one that is summed");
    PITHI_TRY(mark_slot(w, item->stream, item->slot));
    PITHI_TRY(check_frames(sum, error));
    const pith_plan *const p = sum->stream->plan, *const out = item->stream->plan;
    PITHI_TRY(check_output(p, sum->slot, out, item->slot, &frame, error));
    const uint64_t total = pithi_frame_total(&frame);
    const uint64_t bytes = item->capacity < total ? item->capacity : total;
    for (size_t k = 0; k < sum->count; k++)
        if (pithi_overlap(item->frame, bytes, sum->frames[k], sum->lengths[k]))
            return pithi_fail(error, PITH_ERR_ARG,
                              "the frame that is written overlaps one that is read");
    PITHI_TRY(check_capacity(item, false, error));
    return pithi_work_attach(w, out, p);
}

static pith_status run_reduce_encode(pith_work *w, struct list *l, size_t i) {
    const pith_sum *const sum = sum_at(l, i);
    pith_item *const item = item_at(l, i);
    pith_stream *const s = item->stream;
    const struct pithi_reduction r = reduction_of(w, sum);
    struct pithi_coding c = {.plan = s->plan, .work = w, .random = random_of(s, item->slot)};
    item->length = 0;
    PITHI_TRY(pithi_work_attach(w, s->plan, sum->stream->plan));
    pithi_plan_frame(s->plan, item->slot, false, &c.frame);
    take_residual(&c, s, item->slot);
    c.slot_words = pithi_stream_slot_words(s, item->slot);
    if (s->plan->params.codec->frame_hooks)
        s->plan->params.codec->frame_hooks->begin(&s->slot[item->slot], &c);
    const pith_status status =
        pithi_reduce_frame(&r, &c, item->frame, item->capacity, &item->length);
    keep_encoded(&c, &s->slot[item->slot], status);
    return status;
}

static void unmark_pair(pith_work *w, struct list *l, size_t i) {
    unmark_sum(w, l, i);
    unmark_item(w, l, i);
}

static void leave_pair(pith_work *w, struct list *l, size_t i) {
    leave_sum(w, l, i);
    leave_item(w, l, i);
}

static const struct operation reduce_encode_operation = {.check = check_reduce_encode,
                                                         .run = run_reduce_encode,
                                                         .set_status = set_encoded_status,
                                                         .unmark = unmark_pair,
                                                         .leave = leave_pair,
                                                         .elements = sum_elements,
                                                         .source = sum_frame,
                                                         .items = true,
                                                         .sums = true};

pith_status pith_reduce_encode(pith_work *w, const pith_sum *sums, pith_item *items, size_t count) {
    pith_sum *const read = (pith_sum *)(uintptr_t)sums; /* nothing writes to them */
    return call(w, &reduce_encode_operation, items, read, count, 0);
}
