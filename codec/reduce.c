/* reduce.c - sums of decoded frames: frame 0 first, then 1, 2, ... in f32, rounded once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "reduce.h"

#include <string.h>

#include "block_io.h"
#include "common/convert.h"
#include "common/minmax.h"
#include "error.h"
#include "items.h"
#include "parallel.h"
#include "spec.h"
#include "stream.h"

/* ---- One block -------------------------------------------------------------------------------*/

/* Decodes a block to f32 in `to`; lossless codecs decode to their own dtype first. */
static pith_status decode_floats(const struct pithi_coding *c, uint64_t block, float *to,
                                 size_t count, struct pithi_worker *w) {
    const struct pithi_params *q = &c->frame.params;
    const bool direct = !(q->codec->traits & PITH_TRAIT_LOSSLESS) || q->dtype == PITH_F32;
    if (direct) return pithi_decode_one(c, block, to, PITH_F32, NULL, w);
    PITHI_TRY(pithi_decode_one(c, block, w->values, q->dtype, NULL, w));
    pithi_convert(to, PITH_F32, w->values, q->dtype, count);
    return PITH_OK;
}

static size_t elements(const struct pithi_coding *c, uint64_t block) {
    return (size_t)pithi_block_count(&c->frame, block);
}

static void add(float *sum, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

/* ---- Decode-add without a base ---------------------------------------------------------------*/

struct addition {
    struct pithi_coding *coding;
    const struct pithi_span *view;
};

static pith_status add_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct addition *a = arg;
    const struct pithi_frame *f = &a->coding->frame;
    const size_t n = elements(a->coding, block);
    float *sum = (float *)(void *)w->floats;
    if (a->coding->add) {
        uint8_t *const place = pithi_block_load(f, block, a->view, w->values);
        PITHI_TRY(pithi_decode_one(a->coding, block, place, a->view->dtype, NULL, w));
        if (place == w->values) pithi_block_store(f, block, 0, f->count, a->view, place, NULL);
        return PITH_OK;
    }
    PITHI_TRY(decode_floats(a->coding, block, sum, n, w));
    uint8_t *place = pithi_block_load(f, block, a->view, w->values);
    a->coding->plan->kernels.add(place, a->view->dtype, sum, n);
    if (place == w->values) pithi_block_store(f, block, 0, f->count, a->view, place, NULL);
    return PITH_OK;
}

pith_status pithi_add_values(struct pithi_coding *c, const struct pithi_span *view) {
    if (!pithi_is_float16_32(c->frame.params.dtype) || !pithi_is_float16_32(view->dtype))
        return pithi_fail(&c->work->error, PITH_ERR_DTYPE, "only f32, bf16 and f16 add");
    struct addition a = {c, view};
    PITHI_TRY(pithi_admit(c));
    c->add = c->frame.params.codec->decode_add && !pithi_has_coefficients(&c->frame.params);
    pithi_parallel_begin(c->work);
    return pithi_parallel_blocks(c, 0, c->frame.payload.blocks, add_job, &a);
}

/* ---- Reduce ----------------------------------------------------------------------------------*/

/* A sum of frames. They are of one plan. Where the rate is fixed their blocks have the same places,
 * but for the lengths of headers and for checksum tables, which each frame may have or not. */
struct reduction {
    const struct pithi_reduction *r;
    struct pithi_coding coding; /* the last frame opened */
    /* Variable rate: a table with an entry for each block of a frame, which all frames share. Each
     * has `offsets` of them, of one block in `stride`; of more frames than blocks none has any. */
    uint64_t *block_offset, offsets, stride;
    struct pithi_payload payload[2]; /* layout of frames [0] without checksums, [1] with them */
    const struct pithi_span *view;
    struct pithi_coding *out; /* reduce-encode: the encoding of the sum */
    uint64_t unit;            /* elements per job */
    bool coefficients;        /* sums of coefficients are wanted as they are */
    bool nontemporal;
};

/* Shares the table of the frames' plan, which is that of the first worker, or of the second plan's
 * where their sum is encoded. */
static void share_table(struct reduction *d) {
    const struct pithi_reduction *r = d->r;
    if (!r->stream->plan->scratch.offsets) return; /* a fixed rate needs none */
    pithi_plan_frame(r->stream->plan, r->slot, false, &d->coding.frame);
    const uint64_t blocks = d->coding.frame.payload.blocks;
    d->block_offset = (d->out ? r->work->second : r->work->worker)->block_offset;
    d->offsets = r->count ? blocks / r->count : 0;
    d->stride = d->offsets ? (blocks + d->offsets - 1) / d->offsets : 1;
}

/* Lets c use the part of the table that is frame i's. */
static void select_offsets(const struct reduction *d, struct pithi_coding *c, size_t i) {
    c->stride = d->stride;
    c->block_offset = d->offsets ? d->block_offset + i * d->offsets : NULL;
}

/* Checks every frame, headers and checksums, before anything is written. */
static pith_status open_all(struct reduction *d) {
    const struct pithi_reduction *r = d->r;
    struct pithi_coding *c = &d->coding;
    share_table(d);
    c->slot_words = pithi_stream_slot_words(r->stream, r->slot);
    const struct pithi_frame_hooks *const hooks = r->stream->plan->params.codec->frame_hooks;
    if (hooks && hooks->begin_decode) hooks->begin_decode(&r->stream->slot[r->slot], c);
    for (size_t i = 0; i < r->count; i++) {
        select_offsets(d, c, i);
        PITHI_TRY(
            pithi_decode_slot(c, r->work, r->stream->plan, r->slot, r->frames[i], r->lengths[i]));
        PITHI_TRY(pithi_admit(c));
    }
    for (int with = 0; with < 2; with++) {
        c->frame.checksums = with;
        pithi_payload_of(&c->frame, &d->payload[with]);
    }
    return pithi_check_limit(&r->work->env, &c->frame, &r->work->error);
}

/* Returns where the payload of frame i begins, and how it is laid out. */
static const uint8_t *payload_of(const struct reduction *d, size_t i,
                                 const struct pithi_payload **layout) {
    const uint8_t *frame = d->r->frames[i];
    *layout = &d->payload[pithi_frame_has_checksums(frame)];
    return frame + pithi_frame_header_bytes(frame);
}

/* Gives params the revision of a frame that was checked, and those keys on which decoding does not
 * depend, but the revision may: all else is alike in frames of a plan. */
static void take_revision(struct pithi_params *params, const uint8_t *frame) {
    struct pithi_params own;
    if (frame[PITHI_AT_REVISION] == pithi_frame_revision(params)) return;
    pithi_params_unpack(params->codec, frame + PITHI_AT_PARAMS, frame[PITHI_AT_BLOCK], &own);
    memcpy(params->value, own.value, sizeof own.value);
    pithi_params_set_revision(params, frame[PITHI_AT_REVISION]);
}

/* Lets c read the blocks of frame i. */
static void select_frame(const struct reduction *d, struct pithi_coding *c, size_t i) {
    const struct pithi_payload *layout;
    take_revision(&c->frame.params, d->r->frames[i]);
    c->bytes = (uint8_t *)(uintptr_t)payload_of(d, i, &layout);
    c->frame.payload = *layout;
    select_offsets(d, c, i);
    const struct pithi_frame_hooks *const hooks = c->frame.params.codec->frame_hooks;
    if (hooks) hooks->read_section(pithi_frame_section(d->r->frames[i], hooks->section), &c->frame);
}

/* Sums one block, frame 0 + frame 1 + ..., by decoding, to values or to coefficients: for codecs
 * that do not sum in their domain. */
static pith_status sum_decoded(const struct reduction *d, uint64_t block, float *sum,
                               struct pithi_worker *w) {
    struct pithi_coding c = d->coding;
    const size_t n = elements(&c, block);
    float *next = (float *)(void *)w->floats;
    c.coefficients = pithi_has_coefficients(&c.frame.params);
    for (size_t i = 0; i < d->r->count; i++) {
        select_frame(d, &c, i);
        c.add = i && c.frame.params.codec->decode_add;
        PITHI_TRY(decode_floats(&c, block, i && !c.add ? next : sum, n, w));
        if (i && !c.add) add(sum, next, n);
    }
    return PITH_OK;
}

/* Sums a chunk of one block in the codec's domain: elements [at, at + count) of it. */
static void sum_chunk(const struct reduction *d, struct pithi_block *b, uint64_t block, size_t at,
                      size_t count, float *x) {
    enum { AT_ONCE = 32 };
    const uint8_t *frames[AT_ONCE];
    const struct pithi_payload *layout;
    for (size_t first = 0; first < d->r->count; first += AT_ONCE) {
        const size_t left = d->r->count - first, n = left < AT_ONCE ? left : AT_ONCE;
        for (size_t i = 0; i < n; i++) {
            const uint8_t *const payload = payload_of(d, first + i, &layout);
            frames[i] = payload + layout->data + block * layout->block_bytes;
        }
        b->params->codec->domain->sum(b, at, count, frames, n, first > 0, x);
    }
}

/* Writes scale * the sum of the exempt values among n elements to `to`. `sums` is scratch memory
 * for n floats. */
static void sum_exempt(const struct reduction *d, uint64_t first, size_t n, float *sums, void *to,
                       uint32_t dtype) {
    struct pithi_exempt_values a = d->coding.exempt_values;
    const struct pithi_payload *layout;
    if (!a.map) return;
    for (size_t i = 0; i < d->r->count; i++) {
        const uint8_t *const payload = payload_of(d, i, &layout);
        a.bytes = (uint8_t *)(uintptr_t)payload + layout->exempt_values;
        pithi_exempt_values_add(&a, first, n, i > 0, sums);
    }
    pithi_exempt_values_finish(&a, first, n, sums, d->r->scale, to, dtype);
}

static size_t chunk_at(const struct pithi_block *b, size_t at) {
    return b->count - at < PITHI_CHUNK ? b->count - at : PITHI_CHUNK;
}

static void leave_block(const struct pithi_block *b, float *x, void *to, uint32_t dtype,
                        float scale) {
    const size_t width = pithi_dtype_bytes(dtype);
    for (size_t at = 0; at < b->count; at += PITHI_CHUNK)
        b->params->codec->domain->leave(b, at, chunk_at(b, at), x + at, (uint8_t *)to + at * width,
                                        dtype, scale);
}

/* Writes scale * the sum of one block of the input plan, rounded to dtype. */
static pith_status sum_block(const struct reduction *d, uint64_t block, void *to, uint32_t dtype,
                             struct pithi_worker *w) {
    const struct pithi_domain *domain = d->coding.frame.params.codec->domain;
    struct pithi_block b;
    pithi_block_open(&d->coding, block, NULL, w, &b);
    float *sum = (float *)(void *)w->sums;
    if (!domain || !domain->sum) {
        /* Codecs that add store their sums, with NaNs canonical; other sums are stored here. */
        const bool adds = d->coding.frame.params.codec->decode_add;
        const bool direct = adds && dtype == PITH_F32 && (uintptr_t)to % sizeof *sum == 0;
        if (direct) sum = to;
        PITHI_TRY(sum_decoded(d, block, sum, w));
        if (pithi_has_coefficients(b.params) && !d->coefficients) {
            leave_block(&b, sum, to, dtype, d->r->scale);
            return PITH_OK;
        }
        for (size_t i = 0; i < b.count && (!direct || d->r->scale != 1.0f); i++) {
            const float x = d->r->scale == 1.0f ? sum[i] : sum[i] * d->r->scale;
            pithi_store(to, dtype, i, pithi_bits(x));
        }
        return PITH_OK;
    }
    b.nontemporal = d->nontemporal;
    for (size_t at = 0; at < b.count; at += PITHI_CHUNK) {
        uint8_t *const place = (uint8_t *)to + at * pithi_dtype_bytes(dtype);
        sum_chunk(d, &b, block, at, chunk_at(&b, at), sum);
        domain->leave(&b, at, chunk_at(&b, at), sum, place, dtype, d->r->scale);
    }
    sum_exempt(d, b.first, b.count, (float *)(void *)w->floats, to, dtype);
    pithi_collect(w, &b);
    return PITH_OK;
}

static pith_status view_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct reduction *d = arg;
    const uint64_t first = pithi_block_first(&d->coding.frame, block);
    uint8_t *to = d->view->dense ? pithi_span_at(d->view, first) : w->values;
    PITHI_TRY(sum_block(d, block, to, d->view->dtype, w));
    if (!d->view->dense) pithi_span_write(d->view, first, elements(&d->coding, block), to);
    return PITH_OK;
}

static void count_frames(const struct pithi_reduction *r, const struct pithi_worker *worker) {
    struct pithi_slot_state *const slot = &r->stream->slot[r->slot];
    uint64_t hash, saturated, poisoned;
    pithi_parallel_results(r->work, worker, &hash, &saturated, &poisoned);
    slot->frames += r->count;
    slot->saturated += saturated;
    slot->poisoned += poisoned;
}

pith_status pithi_reduce_view(const struct pithi_reduction *r, const struct pithi_span *view) {
    struct reduction d = {.r = r, .view = view};
    PITHI_TRY(open_all(&d));
    d.nontemporal = view->dense && d.coding.frame.count * view->element >= PITHI_LARGE_OUTPUT;
    pithi_parallel_begin(r->work);
    PITHI_TRY(pithi_parallel_for(r->work, 0, d.coding.frame.payload.blocks, view_job, &d));
    count_frames(r, r->work->worker);
    return PITH_OK;
}

/* ---- Reduce-encode ---------------------------------------------------------------------------*/

static bool alike(const struct reduction *d) {
    const struct pithi_params *in = &d->coding.frame.params, *out = &d->out->frame.params;
    const struct pithi_domain *domain = in->codec->domain;
    return domain && domain == out->codec->domain && domain->alike(in, out);
}

/* Sums one block in f32 for a worker that encodes the sum, which learns what is wrong with a
 * frame. */
static pith_status sum_for(const struct reduction *d, uint64_t block, float *sum,
                           struct pithi_worker *in, struct pithi_worker *out) {
    const pith_status status = sum_block(d, block, sum, PITH_F32, in);
    if (status != PITH_OK) out->detail = in->detail;
    return status;
}

/* Recodes a unit through values: one block of the plan with larger blocks, several of the other. */
static pith_status recode_values(const struct reduction *d, uint64_t first, uint64_t end,
                                 struct pithi_worker *in_worker, struct pithi_worker *out_worker) {
    const uint64_t in = d->coding.frame.params.block, out = d->out->frame.params.block;
    float *values = (float *)(void *)(in > out ? in_worker->values : out_worker->values);
    for (uint64_t at = first; at < end; at += in)
        PITHI_TRY(sum_for(d, at / in, values + (at - first), in_worker, out_worker));
    for (uint64_t at = first; at < end; at += out)
        PITHI_TRY(pithi_encode_one(d->out, at / out, values + (at - first), NULL, out_worker));
    return PITH_OK;
}

/* Sums elements [first, end) of the slot, which lie in one block of the input. */
static void sum_span(const struct reduction *d, uint64_t first, uint64_t end, float *x,
                     struct pithi_worker *w) {
    const uint64_t block = d->coding.frame.params.block;
    struct pithi_block b;
    pithi_block_open(&d->coding, first / block, NULL, w, &b);
    const size_t n = (size_t)(end - first);
    sum_chunk(d, &b, first / block, (size_t)(first % block), n, x);
    for (size_t i = 0; d->r->scale != 1.0f && i < n; i++) x[i] *= d->r->scale;
    pithi_collect(w, &b);
}

static void put_span(const struct reduction *d, uint64_t first, uint64_t end, float *x,
                     struct pithi_worker *w) {
    const uint64_t block = d->out->frame.params.block, number = first / block;
    const struct pithi_payload *p = &d->out->frame.payload;
    struct pithi_block b;
    pithi_block_open(d->out, number, NULL, w, &b);
    b.bytes = d->out->bytes + p->data + number * p->block_bytes;
    b.params->codec->domain->put(&b, (size_t)(first % block), (size_t)(end - first), x);
    if (end == b.first + b.count) pithi_encode_check(d->out, number, b.bytes, b.length);
    pithi_collect(w, &b);
}

/* Recodes elements in the domain that both plans share, a chunk of the larger block at a time. */
static void recode_alike(const struct reduction *d, uint64_t first, uint64_t end,
                         struct pithi_worker *in_worker, struct pithi_worker *out_worker) {
    const uint64_t in = pithi_min(d->coding.frame.params.block, PITHI_CHUNK);
    const uint64_t out = pithi_min(d->out->frame.params.block, PITHI_CHUNK);
    const uint64_t span = in > out ? in : out;
    float *x = (float *)(void *)(in > out ? in_worker->sums : out_worker->sums);
    for (; first < end; first += span) {
        const uint64_t stop = pithi_min(end, first + span);
        for (uint64_t at = first; at < stop; at += in)
            sum_span(d, at, pithi_min(stop, at + in), x + (at - first), in_worker);
        for (uint64_t at = first; at < stop; at += out)
            put_span(d, at, pithi_min(stop, at + out), x + (at - first), out_worker);
    }
}

static void recode_exempt(const struct reduction *d, uint64_t first, uint64_t end,
                          struct pithi_worker *w) {
    if (!d->out->exempt_values.map) return;
    float *sums = (float *)(void *)w->floats;
    const size_t n = (size_t)(end - first);
    sum_exempt(d, first, n, sums, sums, PITH_F32);
    pithi_exempt_values_take(&d->out->exempt_values, first, n, sums, PITH_F32);
}

/* Sums elements [first, first + count) for the encoding of a codec that looks at all values before
 * it codes a block (pithi_source_fn). */
static pith_status read_sum(void *from, uint64_t first, uint64_t count, struct pithi_worker *w,
                            const void **values) {
    const struct reduction *const d = from;
    struct pithi_worker *const in = &d->r->work->second[w - d->r->work->worker];
    const uint64_t unit = d->coding.frame.params.block;
    float *const sums = (float *)(void *)w->values, *const one = (float *)(void *)in->values;
    *values = sums;
    for (uint64_t at = first; at < first + count;) {
        const uint64_t block = at / unit, begin = block * unit;
        const uint64_t end = begin + elements(&d->coding, block);
        const uint64_t until = pithi_min(end, first + count);
        const bool all = at == begin && until == end;
        const uint64_t saturated = in->saturated, poisoned = in->poisoned;
        PITHI_TRY(sum_for(d, block, all ? sums + (at - first) : one, in, w));
        if (at != begin) { /* it was counted where its beginning was read */
            in->saturated = saturated;
            in->poisoned = poisoned;
        }
        if (!all)
            memcpy(sums + (at - first), one + (at - begin), (size_t)(until - at) * sizeof *sums);
        at = until;
    }
    return PITH_OK;
}

/* Encodes the sum by a codec of variable rate. */
static pith_status encode_sum(struct reduction *d, struct pithi_coding *out, uint8_t *dst,
                              size_t cap, size_t *written) {
    out->source = read_sum;
    out->source_from = d;
    out->coefficients = d->coefficients = alike(d);
    PITHI_TRY(pithi_encode_frame(out, dst, cap, false, written));
    count_frames(d->r, d->r->work->second);
    return PITH_OK;
}

/* Recodes one unit: the blocks of either plan that make up the larger block. */
static pith_status frame_job(void *arg, uint64_t unit, struct pithi_worker *out_worker) {
    const struct reduction *d = arg;
    struct pithi_worker *in_worker = &d->r->work->second[out_worker - d->r->work->worker];
    const uint64_t first = unit * d->unit, end = pithi_min(first + d->unit, d->coding.frame.count);
    if (!alike(d)) return recode_values(d, first, end, in_worker, out_worker);
    recode_alike(d, first, end, in_worker, out_worker);
    const bool in = d->coding.frame.params.block > d->out->frame.params.block;
    recode_exempt(d, first, end, in ? in_worker : out_worker);
    return PITH_OK;
}

pith_status pithi_reduce_frame(const struct pithi_reduction *r, struct pithi_coding *out,
                               uint8_t *dst, size_t cap, size_t *written) {
    struct reduction d = {.r = r, .out = out};
    const uint64_t total = pithi_frame_total(&out->frame);
    if (!out->frame.payload.fixed) {
        PITHI_TRY(open_all(&d));
        return encode_sum(&d, out, dst, cap, written);
    }
    if (cap < total)
        return pithi_fail_with(&r->work->error, PITH_ERR_SPACE, total,
                               "the frame needs # bytes, the capacity is #",
                               &(struct pithi_words){.number = {total, cap}});
    PITHI_TRY(open_all(&d));
    pithi_encode_open(out, dst);
    out->nontemporal = !out->frame.checksums && total >= PITHI_LARGE_OUTPUT;
    const uint64_t in = d.coding.frame.params.block, own = out->frame.params.block;
    d.unit = in > own ? in : own;
    const uint64_t units = d.coding.frame.count / d.unit + (d.coding.frame.count % d.unit != 0);
    pithi_parallel_begin(r->work);
    out->began = true;
    PITHI_TRY(pithi_parallel_for(r->work, 0, units, frame_job, &d));
    pithi_parallel_results(r->work, r->work->worker, &out->hash, &out->saturated, &out->poisoned);
    count_frames(r, r->work->second);
    pithi_encode_close(out, dst, pithi_payload_most(&out->frame.payload));
    *written = (size_t)total;
    return PITH_OK;
}
