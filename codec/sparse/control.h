/* control.h - controllers: which threshold a step selects with.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every controller is deterministic: no libm, sums in a fixed order, so that ranks and machines
 * that see the same values choose the same threshold. doc/SPARSE.md has each rule with its
 * source.
 *
 * A threshold is never 0, so that elements that are 0 are not selected. It is past the largest
 * finite number only where it is an exact k-th and k elements are not finite. With k >= n the
 * threshold is 1, of every kind: all elements that are not 0. */
#ifndef PITHI_SPARSE_CONTROL_H
#define PITHI_SPARSE_CONTROL_H

#include "pith/pith.h"
#include "sparse/select.h"

enum pithi_control_kind {
    PITHI_CONTROL_PROP,            /* in proportion to k' / k, from the exact k-th on */
    PITHI_CONTROL_EXACT,           /* the k-th largest magnitude, every step */
    PITHI_CONTROL_EVERY,           /* the same every so many steps, kept in between (DCT) */
    PITHI_CONTROL_OKTOPK,          /* the same, with corrections in between (Ok-Topk) */
    PITHI_CONTROL_MICRO,           /* MiCRO and ExDyna as their code has it */
    PITHI_CONTROL_MICRO_SYMMETRIC, /* as they evidently mean it */
    PITHI_CONTROL_SAGE,
    PITHI_CONTROL_DGC,     /* from a sample, then corrected by counting */
    PITHI_CONTROL_GAUSS,   /* from mean and deviation */
    PITHI_CONTROL_REDSYNC, /* from mean and maximum */
    PITHI_CONTROL_NONZERO, /* every element that is not 0 */
    PITHI_CONTROL_KINDS
};

struct pithi_control_setting {
    enum pithi_control_kind kind;
    uint64_t k;   /* elements to select; 0 is taken for 1 */
    uint64_t n;   /* elements that the view has */
    uint64_t all; /* elements that all ranks are to select where `selected` is theirs; 0: k */
    /* MICRO, SAGE: elements that the first guess is for, those of the whole slot where the view is
     * a part of it; 0: as many as `selected` is compared with */
    uint64_t whole;
    uint32_t every; /* EVERY, OKTOPK: steps between exact thresholds; 0 is taken for 1 */
};

/* What a controller remembers from step to step, for each slot. All 0: nothing yet. Rules that go
 * on from the last threshold begin anew where that has left the normal f32 numbers, and so never
 * stay at 0 or at infinity. */
struct pithi_control_state {
    uint64_t steps;     /* that were selected with it */
    uint64_t selected;  /* in the last step: by all ranks, where the caller said so */
    uint32_t threshold; /* bits of the last one to go on from; 0: the rule begins */
    /* SAGE: bits of the f32 mean of the last sample. PROP: its trend and marks (control_value.h) */
    uint32_t extra;
};

/* Places that a controller samples, below n: listed in any order, or every stride-th from `first`
 * on. */
struct pithi_places {
    const uint64_t *listed; /* NULL: every stride-th */
    uint64_t first, stride;
    size_t count;
};
static inline uint64_t pithi_places_at(const struct pithi_places *s, size_t i) {
    return s->listed ? s->listed[i] : s->first + i * s->stride;
}
/* Returns the number of a place, or `count`, before which none is `from` or behind it. */
static inline size_t pithi_places_from(const struct pithi_places *s, uint64_t from) {
    if (s->listed || from <= s->first) return 0;
    const uint64_t skipped = (from - s->first + s->stride - 1) / s->stride;
    return skipped < s->count ? (size_t)skipped : s->count;
}

/* How a controller looks at the accumulators of this step. Each returns a status other than PITH_OK
 * where the caller's runner failed. */
struct pithi_control_view {
    void *from;
    /* The largest t so that at least k elements have |x| >= t; 1 <= k < n. */
    pith_status (*kth)(void *from, uint64_t k, uint32_t *t);
    /* How many elements have |x| >= t. */
    pith_status (*count)(void *from, uint32_t t, uint64_t *elements);
    pith_status (*moments)(void *from, struct pithi_moments *m);
    /* Copies x of the elements at these places, in their order. */
    pith_status (*sample)(void *from, const struct pithi_places *at, float *x);
    float *scratch; /* PITHI_CONTROL_SAMPLE floats */
    uint64_t step;  /* of the stream: where a rule draws random positions */
};
enum { PITHI_CONTROL_SAMPLE = 65536 };

/* Chooses the threshold of a step; *state, which must be legal, becomes what the next step begins
 * with, but for `selected`, which the caller sets when the elements are counted. On failure nothing
 * changes. Rounding is to nearest (pithi_fp_enter). */
pith_status pithi_control_choose(const struct pithi_control_setting *setting,
                                 const struct pithi_control_view *view,
                                 struct pithi_control_state *state, uint32_t *threshold);
/* A state that is saved is a word and PITHI_CONTROL_BYTES more. The word is its steps and a bit:
 * what was selected is what all ranks did. */
enum { PITHI_CONTROL_BYTES = 16 };
#define PITHI_CONTROL_REPORTED (UINT64_C(1) << 63)
static inline uint64_t pithi_control_save(const struct pithi_control_state *state, uint8_t *bytes) {
    pithi_put64(bytes, state->selected);
    pithi_put32(bytes + 8, state->threshold);
    pithi_put32(bytes + 12, state->extra);
    /* Steps of a stream that hostile bytes began go no further than the bits that they have. */
    const uint64_t most = PITHI_CONTROL_REPORTED - 1;
    return state->steps < most ? state->steps : most;
}
static inline struct pithi_control_state pithi_control_load(uint64_t word, const uint8_t *bytes) {
    const struct pithi_control_state state = {word & ~PITHI_CONTROL_REPORTED, pithi_get64(bytes),
                                              pithi_get32(bytes + 8), pithi_get32(bytes + 12)};
    return state;
}
/* Whether a state can have been saved by a controller. */
bool pithi_control_legal(const struct pithi_control_state *state);

#endif
