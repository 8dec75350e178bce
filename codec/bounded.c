/* bounded.c - the bound of a frame: from what was asked for and from the values.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bounded.h"

#include <float.h>

#include "error.h"
#include "gather.h"
#include "stage/decimal.h"
#include "stage/schedule.h"
#include "stage/series.h"

/* ---- What is asked for -----------------------------------------------------------------------*/

enum target { ABS, REL, PWREL, PSNR, NMSE, TARGETS };
static const char *const target_keys[TARGETS] = {"abs", "rel", "pwrel", "psnr", "nmse"};

/* Which target the parameters name; TARGETS when none or several. */
static enum target target_of(const struct pithi_params *p) {
    enum target found = TARGETS;
    for (int t = 0; t < TARGETS; t++) {
        if (!pithi_param(p, target_keys[t])) continue;
        if (found != TARGETS) return TARGETS;
        found = (enum target)t;
    }
    return found;
}

double pithi_bounded_asked(const struct pithi_params *p) {
    const enum target t = target_of(p);
    return t == TARGETS ? 0 : pithi_decimal_floor(pithi_param(p, target_keys[t]));
}

pith_status pithi_bounded_check(const struct pithi_params *p, const char **detail) {
    const enum target t = target_of(p);
    *detail = "abs, rel, pwrel, psnr and nmse exclude each other";
    if (t == TARGETS) return PITH_ERR_SPEC;
    *detail = "pwrel is below 1";
    if (t == PWREL && !(pithi_bounded_asked(p) < 1)) return PITH_ERR_SPEC;
    *detail = "range goes with rel or psnr";
    if (pithi_param(p, "range") && t != REL && t != PSNR) return PITH_ERR_SPEC;
    return PITH_OK;
}

/* ---- A look at all values --------------------------------------------------------------------*/

struct look {
    const struct pithi_coding *c;
    uint64_t unit; /* elements per job; 0: a block, of which the error is measured */
    bool squares;
};

static pith_status survey_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct look *l = arg;
    const uint64_t first = block * l->unit, left = l->c->frame.count - first;
    const uint64_t n = left < l->unit ? left : l->unit;
    w->survey =
        pithi_survey_of(pithi_span_read(l->c->view, first, n, w->values), l->c->frame.params.dtype,
                        (size_t)n, l->squares, l->c->plan->kernels.extremes);
    return PITH_OK;
}

static pith_status error_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *c = ((const struct look *)arg)->c;
    const uint32_t dtype = c->frame.params.dtype;
    const void *values = pithi_gather(&c->frame, block, c->view, w->values);
    const uint64_t exact = w->exact, active = w->active;
    PITHI_TRY(pithi_decode_one(c, block, w->floats, dtype, NULL, w));
    w->exact = exact, w->active = active; /* encoding has counted them */
    w->survey = (struct pithi_survey){
        .squares = pithi_survey_error(values, w->floats, dtype,
                                      (size_t)pithi_block_count(&c->frame, block))};
    return PITH_OK;
}

/* As many jobs as workers at a time, so that sums are formed in one order. */
static pith_status look(const struct look *l, uint64_t jobs, pithi_block_fn *job,
                        struct pithi_survey *total) {
    pith_plan *p = l->c->plan;
    *total = pithi_survey_none();
    for (uint64_t at = 0; at < jobs;) {
        const uint64_t left = jobs - at, wave = left < p->workers ? left : p->workers;
        PITHI_TRY(pithi_run(p, at, wave, job, (void *)(uintptr_t)l));
        for (uint64_t i = 0; i < wave; i++) pithi_survey_add(total, &p->worker[i].survey);
        at += wave;
    }
    return PITH_OK;
}

static pith_status survey(const struct pithi_coding *c, bool squares, struct pithi_survey *s) {
    const struct look l = {c, c->plan->params.most, squares};
    *s = pithi_survey_none();
    if (!l.unit) return PITH_OK; /* a slot without elements */
    return look(&l, c->frame.count / l.unit + (c->frame.count % l.unit != 0), survey_job, s);
}

/* ---- Bounds ----------------------------------------------------------------------------------*/

/* A product of positive numbers that is surely not above the exact one; 0 for that of 0 and
 * infinity. The second term is for subnormal ones. */
static double below(double x) {
    const double y = x * (1 - 0x1p-50) - 0x1p-1074;
    return y > 0 ? y : 0;
}

static struct pithi_bound absolute(uint32_t dtype, double wish) {
    const double bound = pithi_quant_floor(dtype, wish);
    return (struct pithi_bound){PITHI_BOUND_ABSOLUTE, bound, bound};
}

/* A share of 0, which no frame may state, stands for one that is too small. */
static struct pithi_bound relative(double share, const struct pithi_survey *s) {
    if (!(share > 0)) share = 0x1p-1074;
    const double largest = share * pithi_survey_largest(s) * (1 + 0x1p-50);
    return (struct pithi_bound){PITHI_BOUND_RELATIVE, share,
                                largest <= DBL_MAX ? largest : DBL_MAX};
}

static double range_of(const struct pithi_params *p, const struct pithi_survey *s) {
    const uint32_t given = pithi_param(p, "range");
    return given ? pithi_decimal_floor(given) : pithi_survey_range(s);
}

/* The sum of squared errors that psnr or nmse allow. */
static double allowed(const struct pithi_coding *c, enum target t, double wish,
                      const struct pithi_survey *s) {
    if (t == NMSE) return below(wish * (s->squares < DBL_MAX ? s->squares : DBL_MAX));
    const double range = range_of(&c->frame.params, s);
    return below(range * pithi_exp10(-wish / 10) * (1 - 1e-12) * range) * (double)s->finite;
}

/* An error spread evenly over [-E, E] has a mean square of E^2 / 3; it is never above E^2. */
static pith_status encode_for_mean(struct pithi_coding *c, double sum, uint64_t finite,
                                   uint64_t room, uint64_t *used) {
    const double most = DBL_MAX / 4; /* squares of doubles may have overflowed */
    sum = sum >= most ? most : sum > 0 ? sum : 0;
    const double mean = sum / (double)(finite ? finite : 1);
    const double least = pithi_root(mean) * (1 - 1e-12);
    double wish = pithi_root(3 * mean);
    const struct look l = {.c = c};
    for (;;) {
        struct pithi_survey error;
        c->frame.bound = absolute(c->frame.params.dtype, wish);
        PITHI_TRY(pithi_encode_waves(c, room, used));
        c->frame.payload_bytes = *used;
        PITHI_TRY(pithi_find_blocks(c));
        PITHI_TRY(look(&l, c->payload.blocks, error_job, &error));
        if (wish <= least || error.squares * (1 + 1e-9) <= sum) return PITH_OK;
        const double share = pithi_root(sum / error.squares) * 0.98;
        wish *= share < 0.95 ? share : 0.95;
        if (wish < least) wish = least;
    }
}

/* What the bound asked for is multiplied by. */
static double factor_of(const struct pithi_coding *c) {
    const struct pithi_params *p = &c->frame.params;
    const double own = c->wish.factor > 0 ? c->wish.factor : 1;
    return own * pithi_schedule_factor((enum pithi_decay)pithi_param(p, "decay"),
                                       pithi_decimal_floor(pithi_param(p, "start")),
                                       pithi_param(p, "steps"), c->wish.step);
}

pith_status pithi_encode_bounded(struct pithi_coding *c, uint64_t room, uint64_t *used) {
    const struct pithi_params *q = &c->frame.params;
    const bool own = c->wish.bound > 0;
    const enum target t = own ? ABS : target_of(q);
    const double number = own ? c->wish.bound : pithi_bounded_asked(q), factor = factor_of(c);
    const double wish = factor == 1 ? number : below(number * factor);
    struct pithi_survey s = pithi_survey_none();
    const bool mean = t == PSNR || t == NMSE;
    if (mean || t == PWREL || (t == REL && !pithi_param(q, "range")))
        PITHI_TRY(survey(c, mean, &s));
    if (mean)
        return encode_for_mean(c, allowed(c, t, number, &s) * factor * factor, s.finite, room,
                               used);
    if (t == PWREL)
        c->frame.bound = relative(wish < 1 ? wish : 1 - 0x1p-53, &s);
    else
        c->frame.bound = absolute(q->dtype, t == ABS ? wish : below(wish * range_of(q, &s)));
    return pithi_encode_waves(c, room, used);
}
