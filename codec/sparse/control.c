/* control.c - controllers on the host: looks at all values whatever their rule asks for, at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "sparse/control_step.h"

/* Finds the mean of a sample's magnitudes for SAGE. */
static pith_status look_for_mean(const struct pithi_control_view *view,
                                 struct pithi_control_step *s) {
    const uint32_t size = pithi_mean_count(s);
    uint64_t places[PITHI_MEAN_MOST];
    uint32_t magnitudes[PITHI_MEAN_MOST];
    for (uint32_t i = 0; i < size; i++) places[i] = pithi_mean_place(s, i);
    const struct pithi_places at = {.listed = places, .count = size};
    const pith_status status = view->sample(view->from, &at, view->scratch);
    if (status != PITH_OK) return status;
    for (uint32_t i = 0; i < size; i++) magnitudes[i] = pithi_bits(view->scratch[i]);
    pithi_control_mean(s, pithi_mean_of(magnitudes, size));
    return PITH_OK;
}

static pith_status look_at_sample(const struct pithi_control_view *view,
                                  struct pithi_control_step *s) {
    const struct pithi_dgc d = pithi_dgc_of(s);
    const struct pithi_places at = {
        .first = pithi_dgc_first(s, &d), .stride = d.stride, .count = (size_t)d.count};
    struct pithi_kth found;
    const pith_status status = view->sample(view->from, &at, view->scratch);
    if (status != PITH_OK) return status;
    pithi_kth_of(view->scratch, (size_t)d.count, (size_t)d.rank, &found);
    pithi_control_sampled(s, found.t);
    return PITH_OK;
}

/* Looks at what the rule asks for, and tells it. */
static pith_status look(const struct pithi_control_view *view, struct pithi_control_step *s) {
    pith_status status;
    uint64_t elements = 0;
    struct pithi_moments moments;
    uint32_t t = 0;
    switch (s->ask) {
    case PITHI_ASK_KTH:
        status = view->kth(view->from, s->k, &t);
        if (status == PITH_OK) pithi_control_kth(s, t);
        return status;
    case PITHI_ASK_COUNT:
        status = view->count(view->from, s->t, &elements);
        if (status == PITH_OK) pithi_control_counted(s, elements);
        return status;
    case PITHI_ASK_MOMENTS:
        status = view->moments(view->from, &moments);
        if (status == PITH_OK) pithi_control_moments(s, &moments);
        return status;
    case PITHI_ASK_MEAN: return look_for_mean(view, s);
    default: return look_at_sample(view, s);
    }
}

pith_status pithi_control_choose(const struct pithi_control_setting *setting,
                                 const struct pithi_control_view *view,
                                 struct pithi_control_state *state, uint32_t *threshold) {
    const uint64_t k = setting->k > 0 ? setting->k : 1;
    const uint64_t wanted = setting->all > 0 ? setting->all : k;
    struct pithi_control_step s = {.before = *state,
                                   .k = k,
                                   .n = setting->n,
                                   .wanted = (double)wanted,
                                   .whole = (double)(setting->whole > 0 ? setting->whole : wanted),
                                   .number = view->step,
                                   .kind = setting->kind,
                                   .every = setting->every};
    pithi_control_begin(&s);
    while (s.ask != PITHI_ASK_NOTHING) {
        const pith_status status = look(view, &s);
        if (status != PITH_OK) return status;
    }
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
