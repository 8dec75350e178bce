/* frame_bound.c - the bound of a frame: from what was asked for and from the values.
 * SPDX-License-Identifier: Apache-2.0 */
#include "frame_bound.h"

#include <float.h>

#include "block_io.h"
#include "common/convert.h"
#include "common/decimal.h"
#include "common/roots.h"
#include "error.h"
#include "predict/bound_value.h"
#include "predict/schedule.h"

/* ---- What is asked for -----------------------------------------------------------------------*/

static const char *const target_keys[PITHI_TARGETS] = {"abs", "rel", "pwrel", "psnr", "nmse"};

enum pithi_target pithi_bounded_target(const struct pithi_params *p) {
    enum pithi_target found = PITHI_TARGETS;
    for (int t = 0; t < PITHI_TARGETS; t++) {
        if (!pithi_param(p, target_keys[t])) continue;
        if (found != PITHI_TARGETS) return PITHI_TARGETS;
        found = (enum pithi_target)t;
    }
    return found;
}

double pithi_bounded_requested(const struct pithi_params *p) {
    const enum pithi_target t = pithi_bounded_target(p);
    return t == PITHI_TARGETS ? 0 : pithi_decimal_floor(pithi_param(p, target_keys[t]));
}

pith_status pithi_bounded_check(const struct pithi_params *p, const char **detail) {
    const enum pithi_target t = pithi_bounded_target(p);
    *detail = "abs, rel, pwrel, psnr and nmse exclude each other";
    if (t == PITHI_TARGETS) return PITH_ERR_SPEC;
    *detail = "pwrel is below 1";
    if (t == PITHI_TARGET_PWREL && !(pithi_bounded_requested(p) < 1)) return PITH_ERR_SPEC;
    *detail = "range goes with rel or psnr";
    if (pithi_param(p, "range") && t != PITHI_TARGET_REL && t != PITHI_TARGET_PSNR)
        return PITH_ERR_SPEC;
    return PITH_OK;
}

/* ---- A look at all values --------------------------------------------------------------------*/

struct look {
    const struct pithi_coding *c;
    uint64_t unit, jobs; /* elements per job; 0: a block, of which the error is measured */
    bool squares;
};

static pith_status survey_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct look *l = arg;
    /* From the end, so that what encoding begins with is still in caches; sums have an order. */
    const uint64_t first = (l->squares ? block : l->jobs - 1 - block) * l->unit,
                   left = l->c->frame.count - first;
    const uint64_t n = left < l->unit ? left : l->unit;
    w->range = pithi_range_measure(pithi_span_read(l->c->view, first, n, w->values),
                                   l->c->frame.params.dtype, (size_t)n, l->squares,
                                   l->c->plan->kernels.extremes);
    return PITH_OK;
}

static pith_status error_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *c = ((const struct look *)arg)->c;
    const uint32_t dtype = c->frame.params.dtype;
    const uint64_t exact = w->exact, nonzero = w->nonzero;
    PITHI_TRY(pithi_decode_one(c, block, w->floats, dtype, NULL, w)); /* may use w->values */
    const void *values = pithi_block_load(&c->frame, block, c->view, w->values);
    w->exact = exact, w->nonzero = nonzero; /* encoding has counted them */
    w->range = (struct pithi_range){
        .squares = pithi_range_error(values, w->floats, dtype,
                                     (size_t)pithi_block_count(&c->frame, block))};
    return PITH_OK;
}

/* As many jobs as workers at a time, so that sums are formed in one order. */
static pith_status look(const struct look *l, uint64_t jobs, pithi_block_fn *job,
                        struct pithi_range *total) {
    pith_plan *p = l->c->plan;
    *total = pithi_range_none();
    for (uint64_t at = 0; at < jobs;) {
        const uint64_t left = jobs - at, wave = left < p->workers ? left : p->workers;
        PITHI_TRY(pithi_parallel_for(p, at, wave, job, (void *)(uintptr_t)l));
        for (uint64_t i = 0; i < wave; i++) pithi_range_add(total, &p->worker[i].range);
        at += wave;
    }
    return PITH_OK;
}

static pith_status range(const struct pithi_coding *c, bool squares, struct pithi_range *s) {
    const uint64_t unit = c->plan->params.most, count = c->frame.count;
    *s = pithi_range_none();
    if (!unit) return PITH_OK; /* a slot without elements */
    const struct look l = {c, unit, count / unit + (count % unit != 0), squares};
    return look(&l, l.jobs, survey_job, s);
}

/* ---- Bounds ----------------------------------------------------------------------------------*/

static double range_of(const struct pithi_params *p, const struct pithi_range *s) {
    const uint32_t given = pithi_param(p, "range");
    return given ? pithi_decimal_floor(given) : pithi_range_of(s->low, s->high);
}

/* The sum of squared errors that psnr or nmse allow. */
static double allowed(const struct pithi_coding *c, enum pithi_target t, double request,
                      const struct pithi_range *s) {
    if (t == PITHI_TARGET_NMSE)
        return pithi_below(request * (s->squares < DBL_MAX ? s->squares : DBL_MAX));
    const double range = range_of(&c->frame.params, s);
    return pithi_below(range * pithi_exp10(-request / 10) * (1 - 1e-12) * range) *
           (double)s->finite;
}

/* An error spread evenly over [-E, E] has a mean square of E^2 / 3; it is never above E^2. */
static pith_status encode_for_mean(struct pithi_coding *c, double sum, uint64_t finite,
                                   uint64_t room, uint64_t *used) {
    const double most = DBL_MAX / 4; /* squares of doubles may have overflowed */
    sum = sum >= most ? most : sum > 0 ? sum : 0;
    const double mean = sum / (double)(finite ? finite : 1);
    const double least = pithi_root(mean) * (1 - 1e-12);
    double request = pithi_root(3 * mean);
    const struct look l = {.c = c};
    for (;;) {
        struct pithi_range error;
        c->frame.bound = pithi_bound_absolute(c->frame.params.dtype, request);
        PITHI_TRY(pithi_encode_waves(c, room, used));
        c->frame.payload_bytes = *used;
        PITHI_TRY(pithi_find_blocks(c));
        PITHI_TRY(look(&l, c->payload.blocks, error_job, &error));
        if (request <= least || error.squares * (1 + 1e-6) <= sum) return PITH_OK;
        const double share = pithi_root(sum / error.squares) * 0.98;
        request *= share < 0.95 ? share : 0.95;
        if (request < least) request = least;
    }
}

/* What the bound asked for is multiplied by. */
static double factor_of(const struct pithi_coding *c) {
    const struct pithi_params *p = &c->frame.params;
    const double own = c->request.factor > 0 ? c->request.factor : 1;
    return own * pithi_schedule_factor((enum pithi_decay)pithi_param(p, "decay"),
                                       pithi_decimal_floor(pithi_param(p, "start")),
                                       pithi_param(p, "steps"), c->request.step);
}

pith_status pithi_encode_bounded(struct pithi_coding *c, uint64_t room, uint64_t *used) {
    const struct pithi_params *q = &c->frame.params;
    const bool own = c->request.bound > 0;
    const enum pithi_target t = own ? PITHI_TARGET_ABS : pithi_bounded_target(q);
    const double number = own ? c->request.bound : pithi_bounded_requested(q),
                 factor = factor_of(c);
    const double request = factor == 1 ? number : pithi_below(number * factor);
    struct pithi_range s = pithi_range_none();
    const bool mean = t == PITHI_TARGET_PSNR || t == PITHI_TARGET_NMSE;
    if (mean || t == PITHI_TARGET_PWREL || (t == PITHI_TARGET_REL && !pithi_param(q, "range")))
        PITHI_TRY(range(c, mean, &s));
    if (mean)
        return encode_for_mean(c, allowed(c, t, number, &s) * factor * factor, s.finite, room,
                               used);
    if (t == PITHI_TARGET_PWREL)
        c->frame.bound = pithi_bound_relative(request < 1 ? request : 1 - 0x1p-53,
                                              pithi_largest_of(s.low, s.high));
    else if (t == PITHI_TARGET_ABS)
        c->frame.bound = pithi_bound_absolute(q->dtype, request);
    else
        c->frame.bound = pithi_bound_share(
            q->dtype, request, pithi_decimal_floor(pithi_param(q, "range")), s.low, s.high);
    return pithi_encode_waves(c, room, used);
}

/* ---- Blocks that coding does not shorten -----------------------------------------------------*/

static size_t plain_bytes(const struct pithi_block *b) {
    return b->count * pith_dtype_bytes(b->params->dtype);
}

void pithi_plain_put(struct pithi_block *b) {
    b->plain = true;
    b->length = plain_bytes(b);
    b->exact = b->count;
    memcpy(b->bytes, pithi_block_values(b), b->length);
}

const char *pithi_plain_take(struct pithi_block *b) {
    b->exact = b->count;
    if (b->length != plain_bytes(b)) return "a plain block of a wrong length";
    pithi_block_put(b, 0, b->count, b->bytes);
    return NULL;
}
