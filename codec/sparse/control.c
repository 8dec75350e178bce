/* control.c - controllers: which threshold a step selects with.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/SPARSE.md, Controllers, has each rule with its source. */
#include "sparse/control.h"

#include "sparse/control_value.h"

/* A step of one slot. */
struct step {
    const struct pithi_control_setting *setting;
    const struct pithi_control_view *view;
    const struct pithi_control_state *before; /* the threshold is 0 where a rule begins */
    uint64_t k, n;                            /* 1 <= k < n */
    uint32_t t;                               /* the threshold of this step */
    uint32_t next;                            /* what the state remembers of it */
    uint32_t extra;
};

static double value(uint32_t t) { return pithi_float(t); }

/* Returns how many elements `selected` counts of those that were wanted. */
static double wanted(const struct step *s) {
    return (double)(s->setting->all > 0 ? s->setting->all : s->k);
}
static double ratio(const struct step *s) { return (double)s->before->selected / wanted(s); }

/* Chooses t for this step, from which the next one goes on. */
static pith_status use(struct step *s, double t) {
    s->t = s->next = pithi_control_nearest(t);
    return PITH_OK;
}

/* Chooses the k-th largest magnitude, or all that is not 0 where fewer elements are not. */
static pith_status exact(struct step *s) {
    const pith_status status = s->view->kth(s->view->from, s->k, &s->t);
    if (s->t == 0) s->t = 1;
    s->next = s->t;
    return status;
}

static pith_status count(const struct step *s, double *elements) {
    uint64_t reached = 0;
    const pith_status status = s->view->count(s->view->from, s->t, &reached);
    *elements = (double)reached;
    return status;
}

static pith_status prop(struct step *s) {
    if (s->before->threshold == 0) return exact(s);
    s->extra = s->before->extra;
    return use(s, value(s->before->threshold) * pithi_control_prop(ratio(s), &s->extra));
}

static bool refreshes(const struct step *s) {
    const uint32_t every = s->setting->every > 0 ? s->setting->every : 1;
    return s->before->threshold == 0 || s->before->steps % every == 0;
}

static pith_status exact_every(struct step *s) {
    return refreshes(s) ? exact(s) : use(s, value(s->before->threshold));
}

static pith_status oktopk(struct step *s) {
    if (refreshes(s)) return exact(s);
    const double k = (double)s->k;
    double t = value(s->before->threshold), elements;
    if (ratio(s) < 2.0 / 3) t /= 1.012;
    if (ratio(s) > 5.0 / 4) t *= 1.012;
    use(s, t);
    const uint32_t next = s->t;
    for (int i = 0; i < 5; i++) {
        const pith_status status = count(s, &elements);
        if (status != PITH_OK) return status;
        if (elements <= 4 * k / 3) break;
        use(s, value(s->t) * 1.03);
    }
    s->next = next; /* the factors of 1.03 are this step's alone */
    return PITH_OK;
}

static pith_status micro(struct step *s) {
    const bool symmetric = s->setting->kind == PITHI_CONTROL_MICRO_SYMMETRIC;
    if (s->before->threshold == 0) return use(s, pithi_control_guess(wanted(s)));
    return use(s, value(s->before->threshold) * pithi_control_micro(symmetric, ratio(s)));
}

/* Draws 128 bits of the step, the same on every rank. */
static void draw(const struct step *s, uint64_t counter, uint64_t out[2]) {
    const struct pithi_random random = {.seed = 0x7370617273652121u, .step = s->view->step};
    uint32_t words[4];
    pithi_philox(&random, counter, words);
    out[0] = words[0] | (uint64_t)words[1] << 32;
    out[1] = words[2] | (uint64_t)words[3] << 32;
}

/* Finds the mean of |x| over the finite ones among some 400 elements at random positions, as f32;
 * 0 where none is finite. */
static pith_status sampled_mean(const struct step *s, float *mean) {
    const uint64_t size = (uint64_t)((double)s->n / (1 + (double)s->n * 0.0025));
    double sum = 0;
    uint64_t finite = 0;
    for (uint64_t i = 0; i < size; i++) {
        uint64_t random[2];
        float x;
        draw(s, i / 2, random);
        const pith_status status = s->view->sample(s->view->from, random[i % 2] % s->n, 1, 1, &x);
        if (status != PITH_OK) return status;
        const uint32_t magnitude = pithi_bits(x) & 0x7FFFFFFFu;
        if (pithi_nonfinite(magnitude)) continue;
        sum += value(magnitude);
        finite++;
    }
    *mean = finite > 0 ? (float)(sum / (double)finite) : 0;
    return PITH_OK;
}

static pith_status sage(struct step *s) {
    float mean;
    double elements;
    const pith_status status = sampled_mean(s, &mean);
    if (status != PITH_OK) return status;
    const double last = value(s->before->extra);
    s->extra = mean > 0 ? pithi_bits(mean) : s->before->extra;
    if (s->before->threshold == 0) return use(s, pithi_control_guess(wanted(s)));
    if (!(mean > 0)) return use(s, value(s->before->threshold));
    const double alpha = last > 0 ? mean / last : 1;
    use(s, value(s->before->threshold) * alpha);
    const pith_status counted = count(s, &elements);
    if (counted != PITH_OK) return counted;
    const double density = (double)s->k / (double)s->n, found = elements / (double)s->n;
    const double beta = 2 / (1 + pithi_exp_small(density - found));
    const double gamma = found / density < 0.1 ? 0.95 : found / density > 10 ? 1.05 : 1;
    return use(s, value(s->before->threshold) * alpha * beta * gamma);
}

static uint64_t ceiling(double x) {
    const uint64_t whole = (uint64_t)x;
    return whole + ((double)whole < x);
}

static pith_status dgc(struct step *s) {
    const double k = (double)s->k, n = (double)s->n;
    /* Half of the capacity: the last stride, of at least 9, is shorter by 8 than one that gives
     * fewer samples than are wanted, so that it gives less than twice as many. */
    uint64_t size = ceiling(0.01 * n), stride, random[2];
    if (size < ceiling(2 * n / k)) size = ceiling(2 * n / k);
    if (size > PITHI_CONTROL_SAMPLE / 2) size = PITHI_CONTROL_SAMPLE / 2;
    stride = ceiling(n / (32 * (double)size)) * 32 + 1;
    while (stride > 1 && s->n / stride < size) stride -= 8;
    if (stride == 1) return exact(s);

    const size_t samples = (size_t)(s->n / stride);
    draw(s, 0, random);
    const pith_status sampled =
        s->view->sample(s->view->from, random[0] % stride, stride, samples, s->view->scratch);
    if (sampled != PITH_OK) return sampled;
    const size_t most = (size_t)ceiling((double)samples * (k / n));
    struct pithi_kth found;
    pithi_kth_of(s->view->scratch, samples, most, &found);
    use(s, value(found.t));
    for (int i = 0; i < 10; i++) {
        double elements;
        const pith_status status = count(s, &elements);
        if (status != PITH_OK) return status;
        if (elements > 1.3 * k) return exact(s);
        if (elements >= 0.8 * k) break;
        use(s, value(s->t) * 0.8);
    }
    return PITH_OK;
}

static pith_status gauss(struct step *s) {
    struct pithi_moments m;
    const pith_status status = s->view->moments(s->view->from, &m);
    if (status != PITH_OK) return status;
    if (m.finite == 0) return use(s, 0x1p128);
    const double k = (double)s->k, finite = (double)m.finite;
    const double mean = m.sum / finite, variance = m.squares / finite - mean * mean;
    use(s, mean + pithi_root(variance) * pithi_normal_exceeded(k / (double)s->n / 2));
    for (int i = 0; i < 3; i++) {
        double elements;
        const pith_status counted = count(s, &elements);
        if (counted != PITH_OK) return counted;
        if (elements >= 2 * k / 3 && elements <= 4 * k / 3) break;
        use(s, value(s->t) * (elements > k ? 1.5 : 0.5));
    }
    return PITH_OK;
}

static pith_status redsync(struct step *s) {
    struct pithi_moments m;
    const pith_status status = s->view->moments(s->view->from, &m);
    if (status != PITH_OK) return status;
    if (m.finite == 0) return use(s, 0x1p128);
    const double k = (double)s->k, mean = m.magnitudes / (double)m.finite;
    double low = 0, high = 1;
    while (high - low > 0.2) {
        const double middle = low + (high - low) / 2;
        double elements;
        use(s, mean + middle * (value(m.largest) - mean));
        const pith_status counted = count(s, &elements);
        if (counted != PITH_OK) return counted;
        if (elements > k && elements < 2 * k) break;
        if (elements > k)
            low = middle;
        else
            high = middle;
    }
    return PITH_OK;
}

static pith_status nonzero(struct step *s) {
    s->t = 1;
    return PITH_OK;
}

pith_status pithi_control_choose(const struct pithi_control_setting *setting,
                                 const struct pithi_control_view *view,
                                 struct pithi_control_state *state, uint32_t *threshold) {
    static pith_status (*const rules[PITHI_CONTROL_KINDS])(struct step *) = {
        [PITHI_CONTROL_PROP] = prop,         [PITHI_CONTROL_EXACT] = exact,
        [PITHI_CONTROL_EVERY] = exact_every, [PITHI_CONTROL_OKTOPK] = oktopk,
        [PITHI_CONTROL_MICRO] = micro,       [PITHI_CONTROL_MICRO_SYMMETRIC] = micro,
        [PITHI_CONTROL_SAGE] = sage,         [PITHI_CONTROL_DGC] = dgc,
        [PITHI_CONTROL_GAUSS] = gauss,       [PITHI_CONTROL_REDSYNC] = redsync,
        [PITHI_CONTROL_NONZERO] = nonzero,
    };
    struct step s = {.setting = setting, .view = view, .before = state, .n = setting->n};
    s.k = setting->k > 0 ? setting->k : 1;
    const pith_status status = s.k < s.n ? rules[setting->kind](&s) : nonzero(&s);
    if (status != PITH_OK) return status;
    *threshold = s.t;
    state->steps++;
    state->threshold = pithi_control_kept(s.next);
    state->extra = s.extra;
    return PITH_OK;
}

bool pithi_control_legal(const struct pithi_control_state *state) {
    const bool begun = state->steps > 0;
    return (state->threshold == 0 || (begun && pithi_control_kept(state->threshold))) &&
           (begun || state->selected == 0) &&
           (begun ? state->extra <= PITHI_F32_MAX : state->extra == 0);
}
