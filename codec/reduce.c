/* reduce.c - sums of decoded frames: frame 0 first, then 1, 2, ... in f32, rounded once.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "error.h"
#include "oneshot.h"
#include "run.h"
#include "stage/convert.h"

/* ---- One block -------------------------------------------------------------------------------*/

/* Decode to f32 in `to`; lossless codecs decode to their own dtype first. */
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
    const uint64_t first = block * a->coding->frame.params.block;
    const size_t n = elements(a->coding, block);
    float *sum = (float *)(void *)w->floats;
    PITHI_TRY(decode_floats(a->coding, block, sum, n, w));
    uint8_t *place = pithi_span_read(a->view, first, n, w->values);
    for (size_t i = 0; i < n; i++) {
        const float x = pithi_float(pithi_load(place, a->view->dtype, i)) + sum[i];
        pithi_store(place, a->view->dtype, i, pithi_bits(x));
    }
    if (!a->view->dense) pithi_span_write(a->view, first, n, w->values);
    return PITH_OK;
}

pith_status pithi_add_values(struct pithi_coding *c, const struct pithi_span *view) {
    if (!pithi_is_float16_32(c->frame.params.dtype) || !pithi_is_float16_32(view->dtype))
        return pithi_fail(&c->plan->error, PITH_ERR_DTYPE, "only f32, bf16 and f16 add");
    struct addition a = {c, view};
    pithi_run_begin(c->plan);
    return pithi_run_blocks(c, 0, c->payload.blocks, add_job, &a);
}

/* ---- Reduce ----------------------------------------------------------------------------------*/

/* All frames are of one plan and of fixed rate, so their blocks have the same places, but for the
 * lengths of the headers and for checksum tables, which each frame may have or not. */
struct reduction {
    const struct pithi_reduction *r;
    struct pithi_coding coding; /* of the last frame opened */
    const struct pithi_span *view;
    struct pithi_coding out; /* reduce-encode */
    uint64_t unit;           /* elements per job */
};

/* Checks every frame, headers and checksums, before anything is written. */
static pith_status open_all(const struct pithi_reduction *r, struct pithi_coding *c) {
    for (size_t i = 0; i < r->count; i++)
        PITHI_TRY(pithi_decode_slot(c, r->plan, r->slot, r->frames[i], r->lengths[i]));
    return PITH_OK;
}

/* Lets c read the blocks of another of the frames, which has been opened before. */
static void turn_to(struct pithi_coding *c, const uint8_t *frame) {
    c->bytes = (uint8_t *)(uintptr_t)frame + pithi_frame_header_bytes(frame);
    c->frame.checksums = pithi_frame_has_checksums(frame);
    pithi_payload_of(&c->frame, &c->payload);
}

/* scale * (frame 0 + frame 1 + ...) of one block of the input plan. */
static pith_status sum_block(const struct reduction *d, uint64_t block, float *sum,
                             struct pithi_worker *w) {
    struct pithi_coding c = d->coding;
    const size_t n = elements(&c, block);
    float *next = (float *)(void *)w->floats;
    for (size_t i = 0; i < d->r->count; i++) {
        turn_to(&c, d->r->frames[i]);
        PITHI_TRY(decode_floats(&c, block, i ? next : sum, n, w));
        if (i) add(sum, next, n);
    }
    if (d->r->scale != 1.0f)
        for (size_t i = 0; i < n; i++) sum[i] *= d->r->scale;
    return PITH_OK;
}

static pith_status view_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct reduction *d = arg;
    const uint64_t first = block * d->coding.frame.params.block;
    const size_t n = elements(&d->coding, block);
    float *sum = (float *)(void *)w->sums;
    PITHI_TRY(sum_block(d, block, sum, w));
    uint8_t *to = d->view->dense ? pithi_span_at(d->view, first) : w->values;
    for (size_t i = 0; i < n; i++) pithi_store(to, d->view->dtype, i, pithi_bits(sum[i]));
    if (!d->view->dense) pithi_span_write(d->view, first, n, to);
    return PITH_OK;
}

pith_status pithi_reduce_view(const struct pithi_reduction *r, const struct pithi_span *view) {
    struct reduction d = {.r = r, .view = view};
    PITHI_TRY(open_all(r, &d.coding));
    pithi_run_begin(r->plan);
    return pithi_run(r->plan, 0, d.coding.payload.blocks, view_job, &d);
}

/* ---- Reduce-encode ---------------------------------------------------------------------------*/

static void canonical(float *x, size_t count) {
    for (size_t i = 0; i < count; i++) pithi_store(x, PITH_F32, i, pithi_bits(x[i]));
}

/* One unit: as many blocks of either plan as make up the larger block. */
static pith_status frame_job(void *arg, uint64_t unit, struct pithi_worker *out_worker) {
    const struct reduction *d = arg;
    struct pithi_worker *in_worker = &d->r->plan->worker[out_worker - d->out.plan->worker];
    const uint64_t in = d->coding.frame.params.block, out = d->out.frame.params.block;
    const uint64_t first = unit * d->unit;
    const uint64_t end =
        first + d->unit < d->coding.frame.count ? first + d->unit : d->coding.frame.count;
    float *sum = (float *)(void *)(in > out ? in_worker->sums : out_worker->sums);
    for (uint64_t at = first; at < end; at += in)
        PITHI_TRY(sum_block(d, at / in, sum + (at - first), in_worker));
    canonical(sum, (size_t)(end - first));
    for (uint64_t at = first; at < end; at += out)
        PITHI_TRY(pithi_encode_one(&d->out, at / out, sum + (at - first), NULL, out_worker));
    return PITH_OK;
}

pith_status pithi_reduce_frame(const struct pithi_reduction *r, pith_plan *out, uint8_t *dst,
                               size_t cap, size_t *written) {
    struct reduction d = {.r = r, .out = {.plan = out, .random = out->random}};
    d.out.frame = pithi_plan_frame(out, r->slot, false);
    pithi_payload_of(&d.out.frame, &d.out.payload);
    const uint64_t total = pithi_frame_total(&d.out.frame);
    if (cap < total)
        return pithi_fail_at(&r->plan->error, PITH_ERR_SPACE, "the frame does not fit", total);
    PITHI_TRY(open_all(r, &d.coding));
    const uint64_t in = d.coding.frame.params.block, own = d.out.frame.params.block;
    d.unit = in > own ? in : own;
    d.out.bytes = dst + d.out.frame.header_bytes;
    pithi_run_begin(r->plan);
    pithi_run_begin(out);
    const uint64_t units = d.coding.frame.count / d.unit + (d.coding.frame.count % d.unit != 0);
    /* Worker i of one plan works with worker i of the other. */
    const uint32_t workers = out->workers;
    if (out->workers > r->plan->workers) out->workers = r->plan->workers;
    const pith_status status = pithi_run(out, 0, units, frame_job, &d);
    out->workers = workers;
    if (status != PITH_OK)
        return pithi_fail_at(&r->plan->error, status, out->error.text, out->error.offset);
    pithi_encode_close(&d.out, dst, d.out.payload.data + d.out.payload.data_bytes);
    *written = (size_t)total;
    return PITH_OK;
}
