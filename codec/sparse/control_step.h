/* control_step.h - the rules of controllers, each as steps between one look at the values and the
 * next: the host's and a device's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A rule says what it has to know (`ask`); whoever has the values looks, and tells it. On the host
 * that is a pass over them at once, on a device a launch. doc/SPARSE.md, Controllers, has each rule
 * with its source. */
#ifndef PITHI_SPARSE_CONTROL_STEP_H
#define PITHI_SPARSE_CONTROL_STEP_H

#include "sparse/control.h"
#include "sparse/control_value.h"

enum pithi_control_ask {
    PITHI_ASK_NOTHING, /* the threshold is chosen */
    PITHI_ASK_KTH,     /* the k-th largest magnitude: it is the threshold */
    PITHI_ASK_COUNT,   /* how many elements reach t */
    PITHI_ASK_MOMENTS,
    PITHI_ASK_MEAN,  /* of the magnitudes of a sample (pithi_mean_) */
    PITHI_ASK_SAMPLE /* a magnitude of a sample (pithi_dgc_of) */
};

/* A step of one slot. */
struct pithi_control_step {
    struct pithi_control_state before; /* its threshold is 0 where a rule begins */
    uint64_t k, n;                     /* 1 <= k < n, or the rule is not asked */
    double wanted;                     /* how many elements `selected` counts of those wanted */
    double whole;                      /* how many are wanted of what the first guess is for */
    double mean, largest, low, high;   /* REDSYNC: of magnitudes; what is known of its share */
    uint64_t number;                   /* of the stream's step: it says what samples are drawn */
    uint32_t kind, every;              /* as of the setting */
    uint32_t ask, counts;              /* enum pithi_control_ask; counts that were asked for */
    uint32_t t;                        /* the threshold of this step */
    uint32_t next, extra;              /* what the state remembers */
};

PITHI_INLINE double pithi_step_value(uint32_t t) { return (double)pithi_float(t); }
PITHI_INLINE double pithi_step_ratio(const struct pithi_control_step *s) {
    return (double)s->before.selected / s->wanted;
}

/* The most counts that a rule asks for. */
PITHI_INLINE uint32_t pithi_control_counts(uint32_t kind) {
    switch (kind) {
    case PITHI_CONTROL_OKTOPK: return 5;
    case PITHI_CONTROL_SAGE: return 1;
    case PITHI_CONTROL_DGC: return 10;
    case PITHI_CONTROL_GAUSS:
    case PITHI_CONTROL_REDSYNC: return 3;
    default: return 0;
    }
}

/* Whether a rule draws samples. */
PITHI_INLINE bool pithi_control_samples(uint32_t kind) {
    return kind == PITHI_CONTROL_SAGE || kind == PITHI_CONTROL_DGC;
}

/* Chooses t for this step, from which the next one goes on. */
PITHI_INLINE void pithi_step_use(struct pithi_control_step *s, double t) {
    s->t = s->next = pithi_control_nearest(t);
    s->ask = PITHI_ASK_NOTHING;
}

/* The same, but first the rule asks how many elements reach it, while it may ask. */
PITHI_INLINE void pithi_step_try(struct pithi_control_step *s, double t) {
    pithi_step_use(s, t);
    if (s->counts >= pithi_control_counts(s->kind)) return;
    s->counts++;
    s->ask = PITHI_ASK_COUNT;
}

PITHI_INLINE bool pithi_step_refreshes(const struct pithi_control_step *s) {
    return s->before.threshold == 0 || s->before.steps % (s->every > 0 ? s->every : 1) == 0;
}

/* The rules whose threshold comes from the one before. */
PITHI_INLINE void pithi_step_go_on(struct pithi_control_step *s) {
    const double last = pithi_step_value(s->before.threshold), ratio = pithi_step_ratio(s);
    const bool symmetric = s->kind == PITHI_CONTROL_MICRO_SYMMETRIC;
    if (s->kind == PITHI_CONTROL_PROP) {
        s->extra = s->before.extra;
        pithi_step_use(s, last * pithi_control_prop(ratio, &s->extra));
    } else if (s->kind == PITHI_CONTROL_EVERY) {
        pithi_step_use(s, last);
    } else if (s->kind == PITHI_CONTROL_OKTOPK) {
        pithi_step_try(s, ratio < 2.0 / 3 ? last / 1.012 : ratio > 5.0 / 4 ? last * 1.012 : last);
    } else {
        pithi_step_use(s, s->before.threshold == 0 ? pithi_control_guess(s->whole)
                                                   : last * pithi_control_micro(symmetric, ratio));
    }
}

/* ---- Samples ---------------------------------------------------------------------------------*/

/* Draws 128 bits of the step, the same on every rank. */
PITHI_INLINE void pithi_step_draw(const struct pithi_control_step *s, uint64_t counter,
                                  uint64_t out[2]) {
    struct pithi_random random;
    uint32_t words[4];
    random.seed = 0x7370617273652121u;
    random.step = s->number;
    random.rng_stream = 0;
    random.shift = 0;
    pithi_philox(&random, counter, words);
    out[0] = words[0] | (uint64_t)words[1] << 32;
    out[1] = words[2] | (uint64_t)words[3] << 32;
}

/* SAGE looks at some 400 elements at random places: how many, and where number i is. */
enum { PITHI_MEAN_MOST = 400 };
PITHI_INLINE uint32_t pithi_mean_count(const struct pithi_control_step *s) {
    return (uint32_t)((double)s->n / (1 + (double)s->n * 0.0025));
}
PITHI_INLINE uint64_t pithi_mean_place(const struct pithi_control_step *s, uint32_t i) {
    uint64_t random[2];
    pithi_step_draw(s, i / 2, random);
    return (i % 2 ? random[1] : random[0]) % s->n;
}

/* Returns the mean of |x| over the finite ones of `count` values, as f32; 0 where none is. */
PITHI_INLINE float pithi_mean_of(const uint32_t *x, uint32_t count) {
    double sum = 0;
    uint32_t finite = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t magnitude = x[i] & 0x7FFFFFFFu;
        if (pithi_nonfinite(magnitude)) continue;
        sum += pithi_step_value(magnitude);
        finite++;
    }
    return finite > 0 ? (float)(sum / (double)finite) : 0;
}

PITHI_INLINE uint64_t pithi_step_ceiling(double x) {
    const uint64_t whole = (uint64_t)x;
    return whole + ((double)whole < x);
}

/* DGC's sample: `count` elements, `stride` apart, of which the rank-th largest is its threshold.
 * With a stride of 1 it looks at all of them, for the k-th. */
struct pithi_dgc {
    uint64_t stride, count, rank;
};
PITHI_INLINE struct pithi_dgc pithi_dgc_of(const struct pithi_control_step *s) {
    const double k = (double)s->k, n = (double)s->n;
    struct pithi_dgc d;
    /* Half of the capacity: the last stride, of at least 9, is shorter by 8 than one that gives
     * fewer samples than are wanted, so that it gives less than twice as many. */
    uint64_t size = pithi_step_ceiling(0.01 * n);
    if (size < pithi_step_ceiling(2 * n / k)) size = pithi_step_ceiling(2 * n / k);
    if (size > PITHI_CONTROL_SAMPLE / 2) size = PITHI_CONTROL_SAMPLE / 2;
    d.stride = pithi_step_ceiling(n / (32 * (double)size)) * 32 + 1;
    while (d.stride > 1 && s->n / d.stride < size) d.stride -= 8;
    d.count = s->n / d.stride;
    d.rank = pithi_step_ceiling((double)d.count * (k / n));
    return d;
}
PITHI_INLINE uint64_t pithi_dgc_first(const struct pithi_control_step *s,
                                      const struct pithi_dgc *d) {
    uint64_t random[2];
    pithi_step_draw(s, 0, random);
    return random[0] % d->stride;
}

/* ---- Answers ---------------------------------------------------------------------------------*/

PITHI_INLINE void pithi_control_begin(struct pithi_control_step *s) {
    s->t = 1;
    s->next = s->extra = s->counts = 0;
    s->ask = PITHI_ASK_NOTHING;
    if (s->k >= s->n || s->kind == PITHI_CONTROL_NONZERO) return;
    switch (s->kind) {
    case PITHI_CONTROL_EXACT: s->ask = PITHI_ASK_KTH; return;
    case PITHI_CONTROL_SAGE: s->ask = PITHI_ASK_MEAN; return;
    case PITHI_CONTROL_GAUSS:
    case PITHI_CONTROL_REDSYNC: s->ask = PITHI_ASK_MOMENTS; return;
    case PITHI_CONTROL_DGC:
        s->ask = pithi_dgc_of(s).stride == 1 ? PITHI_ASK_KTH : PITHI_ASK_SAMPLE;
        return;
    case PITHI_CONTROL_PROP:
        if (s->before.threshold == 0) s->ask = PITHI_ASK_KTH;
        break;
    case PITHI_CONTROL_EVERY:
    case PITHI_CONTROL_OKTOPK:
        if (pithi_step_refreshes(s)) s->ask = PITHI_ASK_KTH;
        break;
    default: break;
    }
    if (s->ask == PITHI_ASK_NOTHING) pithi_step_go_on(s);
}

/* The k-th largest magnitude is t: all that is not 0 is chosen where fewer elements are not. */
PITHI_INLINE void pithi_control_kth(struct pithi_control_step *s, uint32_t t) {
    s->t = s->next = t ? t : 1;
    s->ask = PITHI_ASK_NOTHING;
}

PITHI_INLINE double pithi_sage_change(const struct pithi_control_step *s) {
    const double last = pithi_step_value(s->before.extra);
    return last > 0 ? pithi_step_value(s->extra) / last : 1;
}
PITHI_INLINE void pithi_control_mean(struct pithi_control_step *s, float mean) {
    const double last = pithi_step_value(s->before.threshold);
    s->extra = mean > 0 ? pithi_bits(mean) : s->before.extra;
    if (s->before.threshold == 0)
        pithi_step_use(s, pithi_control_guess(s->whole));
    else if (!(mean > 0))
        pithi_step_use(s, last);
    else
        pithi_step_try(s, last * pithi_sage_change(s));
}

/* The magnitude of the sample's rank. */
PITHI_INLINE void pithi_control_sampled(struct pithi_control_step *s, uint32_t t) {
    pithi_step_try(s, pithi_step_value(t));
}

/* REDSYNC tries the middle of what is known of its share. */
PITHI_INLINE double pithi_redsync_middle(const struct pithi_control_step *s) {
    return s->low + (s->high - s->low) / 2;
}
PITHI_INLINE void pithi_redsync_try(struct pithi_control_step *s) {
    pithi_step_try(s, s->mean + pithi_redsync_middle(s) * (s->largest - s->mean));
}

PITHI_INLINE void pithi_control_moments(struct pithi_control_step *s,
                                        const struct pithi_moments *m) {
    const double finite = (double)m->finite;
    if (m->finite == 0) {
        pithi_step_use(s, 0x1p128);
    } else if (s->kind == PITHI_CONTROL_REDSYNC) {
        s->mean = m->magnitudes / finite;
        s->largest = pithi_step_value(m->largest);
        s->low = 0;
        s->high = 1;
        pithi_redsync_try(s);
    } else {
        const double mean = m->sum / finite, variance = m->squares / finite - mean * mean;
        const double share = (double)s->k / (double)s->n / 2;
        pithi_step_try(s, mean + pithi_root(variance) * pithi_normal_exceeded(share));
    }
}

/* Corrections of OKTOPK are this step's alone. */
PITHI_INLINE void pithi_oktopk_counted(struct pithi_control_step *s, double elements) {
    const uint32_t next = s->next;
    if (elements <= 4 * (double)s->k / 3) return;
    pithi_step_try(s, pithi_step_value(s->t) * 1.03);
    s->next = next;
}
PITHI_INLINE void pithi_sage_counted(struct pithi_control_step *s, double elements) {
    const double n = (double)s->n, density = (double)s->k / n, found = elements / n;
    const double beta = 2 / (1 + pithi_exp_small(density - found));
    const double gamma = found / density < 0.1 ? 0.95 : found / density > 10 ? 1.05 : 1;
    const double last = pithi_step_value(s->before.threshold);
    pithi_step_use(s, last * pithi_sage_change(s) * beta * gamma);
}
PITHI_INLINE void pithi_dgc_counted(struct pithi_control_step *s, double elements) {
    const double k = (double)s->k;
    if (elements > 1.3 * k)
        s->ask = PITHI_ASK_KTH;
    else if (!(elements >= 0.8 * k))
        pithi_step_try(s, pithi_step_value(s->t) * 0.8);
}
PITHI_INLINE void pithi_gauss_counted(struct pithi_control_step *s, double elements) {
    const double k = (double)s->k;
    if (elements >= 2 * k / 3 && elements <= 4 * k / 3) return;
    pithi_step_try(s, pithi_step_value(s->t) * (elements > k ? 1.5 : 0.5));
}
PITHI_INLINE void pithi_redsync_counted(struct pithi_control_step *s, double elements) {
    const double k = (double)s->k, middle = pithi_redsync_middle(s);
    if (elements > k && elements < 2 * k) return;
    if (elements > k)
        s->low = middle;
    else
        s->high = middle;
    if (s->high - s->low > 0.2) pithi_redsync_try(s);
}

/* So many elements reach t. */
PITHI_INLINE void pithi_control_counted(struct pithi_control_step *s, uint64_t elements) {
    s->ask = PITHI_ASK_NOTHING;
    switch (s->kind) {
    case PITHI_CONTROL_OKTOPK: pithi_oktopk_counted(s, (double)elements); return;
    case PITHI_CONTROL_SAGE: pithi_sage_counted(s, (double)elements); return;
    case PITHI_CONTROL_DGC: pithi_dgc_counted(s, (double)elements); return;
    case PITHI_CONTROL_GAUSS: pithi_gauss_counted(s, (double)elements); return;
    default: pithi_redsync_counted(s, (double)elements); return;
    }
}

#endif
