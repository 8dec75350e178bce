/* adaptive_bounds.c - bounds that adapt: what a stream says of the bounds of its slots.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

#include "cpu.h"
#include "error.h"
#include "predict/bounded.h"
#include "predict/budget.h"
#include "predict/quant_value.h"
#include "stream.h"
#include "work.h"

/* ---- Numbers on any host ---------------------------------------------------------------------
 * A host may read subnormal numbers as 0 and round elsewhere; bounds of f64 values may be
 * subnormal. So numbers of the caller's, and those of slots, are looked at by their bits, and what
 * computes works between pithi_fp_enter and _leave: called through a pointer, so that no operation
 * leaves that place. */

static bool is_zero(double x) { return pithi_bits64(x) << 1 == 0; }

/* Whether x is finite and above 0. */
static bool is_above_zero(double x) { return pithi_bits64(x) - 1 < PITHI_F64_INF - 1; }

static bool is_number(double x) { return is_zero(x) || is_above_zero(x); }

/* Begins a call about a slot of a stream whose codec has a bound. */
static pith_status begin(pith_work *w, pith_stream *s, uint64_t slot) {
    PITHI_TRY(pithi_stream_begin(w, s));
    const pith_status status =
        pithi_is_bounded(s->plan->params.codec)
            ? pithi_stream_check_slot(s, slot, &w->error)
            : pithi_fail(&w->error, PITH_ERR_UNSUPPORTED, "the codec has no bound to adapt");
    return status == PITH_OK ? status : pithi_stream_end(w, s, status);
}

pith_status pith_stream_set_bound(pith_work *w, pith_stream *s, uint64_t slot, double bound) {
    PITHI_TRY(begin(w, s, slot));
    if (!is_number(bound))
        return pithi_stream_end(
            w, s, pithi_fail(&w->error, PITH_ERR_ARG, "a bound is finite and at least 0"));
    s->slot[slot].own.bounded.bound = bound;
    return pithi_stream_end(w, s, PITH_OK);
}

pith_status pith_stream_scale_bound(pith_work *w, pith_stream *s, uint64_t slot, double factor) {
    PITHI_TRY(begin(w, s, slot));
    if (!is_number(factor) || is_zero(factor))
        return pithi_stream_end(
            w, s, pithi_fail(&w->error, PITH_ERR_ARG, "a factor is finite and above 0"));
    s->slot[slot].own.bounded.bound = -factor;
    return pithi_stream_end(w, s, PITH_OK);
}

/* Returns what a slot remembers of its bound; NULL: there is no such slot, or no bound. */
static const struct pithi_slot_bounded *slot_of(const pith_stream *s, uint64_t slot) {
    const bool bounded = pithi_is_bounded(s->plan->params.codec) && slot < s->plan->slots;
    return bounded ? &s->slot[slot].own.bounded : NULL;
}

double pith_stream_bound(const pith_stream *s, uint64_t slot) {
    const struct pithi_slot_bounded *const own = slot_of(s, slot);
    return own && is_above_zero(own->bound) ? own->bound : 0;
}

static double share_of(uint64_t part, uint64_t whole) { return (double)part / (double)whole; }

double pith_stream_nonzero(const pith_stream *s, uint64_t slot) {
    double (*volatile const divide)(uint64_t, uint64_t) = share_of;
    const struct pithi_slot_bounded *const own = slot_of(s, slot);
    if (!own || !own->counted) return 1;
    const uint64_t before = pithi_fp_enter();
    const double share = divide(own->last_nonzero, own->counted);
    pithi_fp_leave(before);
    return share;
}

/* ---- A budget for activations ----------------------------------------------------------------*/

static bool legal(const pith_budget *b) {
    return is_number(b->momentum) && is_number(b->share) && is_number(b->gradient) &&
           is_number(b->samples) && is_number(b->positions) && is_number(b->factor) &&
           is_number(b->nonzero) && b->nonzero <= 1 && is_number(b->largest);
}

/* Returns the bound that a budget leaves; 0 when it says nothing, or allows any error. `counted` is
 * the share of values that are not 0, for budgets that do not say it. */
static double bound_of(const pith_budget *b, double counted) {
    const double last = counted > 0 ? counted : 1; /* a bound that leaves 0 alone must not stay */
    const double nonzero = b->nonzero > 0 ? b->nonzero : last;
    const double sigma = (b->share > 0 ? b->share : 0.01) * b->momentum;
    const double bound = pithi_budget_bound(sigma, b->factor, b->positions > 0 ? b->positions : 1,
                                            b->gradient, b->samples * nonzero);
    if (b->momentum == 0) return 0;
    if (b->largest > 0 && bound > b->largest) return b->largest;
    return bound < DBL_MAX ? bound : 0;
}

static pith_status adapt(pith_stream *s, uint64_t slot, const pith_budget *budget,
                         pith_error *error) {
    pith_budget b;
    if (!budget) return pithi_fail(error, PITH_ERR_ARG, "budget is NULL");
    PITHI_TRY(pithi_take(&b, sizeof b, budget, "the budget", error));
    if (!legal(&b))
        return pithi_fail(error, PITH_ERR_ARG,
                          "a field of the budget is negative or not finite, or nonzero is above 1");
    double (*volatile const choose)(const pith_budget *, double) = bound_of;
    const double counted = pith_stream_nonzero(s, slot);
    const uint64_t before = pithi_fp_enter();
    const double bound = choose(&b, counted);
    pithi_fp_leave(before);
    if (is_above_zero(bound)) s->slot[slot].own.bounded.bound = bound;
    return PITH_OK;
}

pith_status pith_stream_adapt(pith_work *w, pith_stream *s, uint64_t slot,
                              const pith_budget *budget, double *bound) {
    PITHI_TRY(begin(w, s, slot));
    const pith_status status = adapt(s, slot, budget, &w->error);
    if (status == PITH_OK && bound) *bound = pith_stream_bound(s, slot);
    return pithi_stream_end(w, s, status);
}

double pith_bound_factor(uint32_t bound_class) {
    static const double factors[] = {1.0 / 3, 1, 5.0 / 3};
    if (bound_class > PITH_BOUND_LARGE) return (double)pithi_float(PITHI_F32_NAN);
    return factors[bound_class];
}
