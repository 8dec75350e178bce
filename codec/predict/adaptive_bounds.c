/* adaptive_bounds.c - bounds that adapt: what a state says of the bounds of its slots.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

#include "cpu.h"
#include "error.h"
#include "predict/budget.h"
#include "predict/quant_value.h"
#include "state.h"

/* ---- Numbers on any host ---------------------------------------------------------------------
 * A host may read subnormal numbers as 0 and round elsewhere; bounds of f64 values may be
 * subnormal. So numbers of the caller's, and those of slots, are looked at by their bits, and what
 * computes works between pithi_fp_enter and _leave: called through a pointer, so that no operation
 * leaves that place. */

static bool is_zero(double x) { return pithi_bits64(x) << 1 == 0; }

/* And finite. */
static bool is_above_zero(double x) { return pithi_bits64(x) - 1 < PITHI_F64_INF - 1; }

static bool is_number(double x) { return is_zero(x) || is_above_zero(x); }

/* A state of the plan, of a codec with a bound, and a slot of it. */
static pith_status require(pith_plan *p, const pith_state *s, uint64_t slot) {
    if (!p) return PITH_ERR_ARG;
    if (!p->params.codec->bound_setting)
        return pithi_fail(&p->error, PITH_ERR_UNSUPPORTED, "the codec has no bound to adapt");
    if (!s) return pithi_fail(&p->error, PITH_ERR_STATE, "the state is NULL");
    PITHI_TRY(pithi_state_check(p, s, &p->error));
    if (slot < p->slots) return PITH_OK;
    return pithi_fail(&p->error, PITH_ERR_ARG, "no such slot");
}

pith_status pith_state_set_bound(pith_plan *p, pith_state *s, uint64_t slot, double bound) {
    PITHI_TRY(require(p, s, slot));
    if (!is_number(bound)) return pithi_fail(&p->error, PITH_ERR_ARG, "not a bound");
    s->slot[slot].bound = bound;
    return PITH_OK;
}

pith_status pith_state_scale_bound(pith_plan *p, pith_state *s, uint64_t slot, double factor) {
    PITHI_TRY(require(p, s, slot));
    if (!is_number(factor) || is_zero(factor))
        return pithi_fail(&p->error, PITH_ERR_ARG, "a factor is finite and above 0");
    s->slot[slot].bound = -factor;
    return PITH_OK;
}

double pith_state_bound(const pith_state *s, uint64_t slot) {
    return slot < s->slots && is_above_zero(s->slot[slot].bound) ? s->slot[slot].bound : 0;
}

pith_status pith_state_set_step(pith_plan *p, pith_state *s, uint64_t slot, uint64_t step) {
    PITHI_TRY(require(p, s, slot));
    s->slot[slot].step = step;
    return PITH_OK;
}

static double share_of(uint64_t part, uint64_t whole) { return (double)part / (double)whole; }

double pith_state_nonzero(const pith_state *s, uint64_t slot) {
    double (*volatile const divide)(uint64_t, uint64_t) = share_of;
    if (slot >= s->slots || !s->slot[slot].counted) return 1;
    const uint64_t before = pithi_fp_enter();
    const double share = divide(s->slot[slot].nonzero, s->slot[slot].counted);
    pithi_fp_leave(before);
    return share;
}

void pithi_state_request(const pith_state *s, uint64_t slot, struct pithi_request *request) {
    const double bound = s->slot[slot].bound;
    *request = (struct pithi_request){.bound = bound > 0 ? bound : 0,
                                      .factor = bound < 0 ? -bound : 1,
                                      .step = s->slot[slot].step};
}

void pithi_state_encoded(pith_state *s, uint64_t slot, uint64_t exact, uint64_t nonzero,
                         uint64_t count) {
    s->slot[slot].step++;
    s->slot[slot].nonzero = nonzero;
    s->slot[slot].counted = count;
    pithi_state_count(s, false, 0, 0);
    s->stats.exact += exact;
    s->stats.nonzero += nonzero;
}

/* ---- A budget for activations ----------------------------------------------------------------*/

static bool legal(const pith_budget *b) {
    return is_number(b->momentum) && is_number(b->share) && is_number(b->gradient) &&
           is_number(b->samples) && is_number(b->positions) && is_number(b->factor) &&
           is_number(b->nonzero) && b->nonzero <= 1 && is_number(b->largest);
}

/* 0: the budget says nothing. nonzero: what counts where the budget does not say it. */
static double bound_of(const pith_budget *b, double counted) {
    const double nonzero = b->nonzero > 0 ? b->nonzero : counted;
    const double sigma = (b->share > 0 ? b->share : 0.01) * b->momentum;
    const double bound = pithi_budget_bound(sigma, b->factor, b->positions > 0 ? b->positions : 1,
                                            b->gradient, b->samples * nonzero);
    if (b->momentum == 0) return 0;
    if (b->largest > 0 && bound > b->largest) return b->largest;
    return bound < DBL_MAX ? bound : 0;
}

pith_status pith_state_adapt(pith_plan *p, pith_state *s, uint64_t slot, const pith_budget *budget,
                             double *bound) {
    pith_budget b;
    PITHI_TRY(require(p, s, slot));
    if (!budget) return pithi_fail(&p->error, PITH_ERR_ARG, "budget is NULL");
    PITHI_TRY(pithi_take(&b, sizeof b, budget, &p->error));
    if (!legal(&b)) return pithi_fail(&p->error, PITH_ERR_ARG, "a field of the budget");
    double (*volatile const idempotent)(const pith_budget *, double) = bound_of;
    const double counted = pith_state_nonzero(s, slot);
    const uint64_t before = pithi_fp_enter();
    const double found = idempotent(&b, counted);
    pithi_fp_leave(before);
    if (is_above_zero(found)) s->slot[slot].bound = found;
    if (bound) *bound = pith_state_bound(s, slot);
    return PITH_OK;
}

double pith_bound_factor(uint32_t bound_class) {
    static const double factors[] = {1.0 / 3, 1, 5.0 / 3};
    if (bound_class > PITH_BOUND_LARGE) return (double)pithi_float(PITHI_F32_NAN);
    return factors[bound_class];
}
