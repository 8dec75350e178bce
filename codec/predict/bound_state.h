/* bound_state.h - what codecs with a bound add to the framework's structs (families.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_BOUND_STATE_H
#define PITHI_PREDICT_BOUND_STATE_H

#include "predict/quant.h"
#include "predict/range.h"

/* What is requested of a bound besides the spec. */
struct pithi_request {
    double bound;  /* an absolute bound in place of the spec's; 0: none */
    double factor; /* what the bound is multiplied by; 0: 1 */
    uint64_t step; /* the step in the spec's schedule */
};

/* What a slot remembers: `bound` above 0 is the bound, below 0 minus the factor of the spec's
 * bound, and 0 is neither. The last encode found last_nonzero of `counted` values nonzero. */
struct pithi_slot_bounded {
    double bound;
    uint64_t last_nonzero, counted;
};

#endif
