/* outliers.h - the values of a group of codec kv that lie farthest out, kept beside its codes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The 16 threads of a group (search.h) look for the words of group/outliers_value.h that come
 * first, one after the other: each for the least of its elements that is not behind the last one,
 * then all for the least of these. Then each takes some of them out. */
#ifndef PITHI_GPU_DEVICE_KV_OUTLIERS_H
#define PITHI_GPU_DEVICE_KV_OUTLIERS_H

#include "device/kv/search.h"

/* How many of the thread's group are taken; and the words that come first of it. */
PITHI_DEVICE uint32_t pithi_outliers_taken(const struct pithi_gpu_shared *s,
                                           const struct pithi_gpu_thread *t) {
    const uint32_t most = s->paged.page.outliers;
    return most < t->kv.sought.count ? most : t->kv.sought.count;
}
PITHI_DEVICE const uint64_t *pithi_outliers_first(const struct pithi_gpu_shared *s,
                                                  const struct pithi_gpu_thread *t,
                                                  uint32_t above) {
    return s->paged.first[t->tid / PITHI_LANES][above];
}

/* ---- The words that come first ---------------------------------------------------------------*/

PITHI_LOCAL(pithi_outliers_open, uint32_t from) {
    (void)a, (void)s, (void)from;
    t->kv.floor[0] = t->kv.floor[1] = 0;
}

PITHI_DEVICE uint64_t pithi_least(uint64_t x, uint64_t y) { return x < y ? x : y; }

PITHI_LOCAL(pithi_outliers_seek, uint32_t number) {
    const bool range = a->to.plan.device.groups.set.asymmetric;
    (void)number;
    t->kv.word[0] = t->kv.word[1] = UINT64_MAX;
    for (uint32_t i = t->tid % PITHI_LANES; i < t->kv.sought.count; i += PITHI_LANES) {
        const uint32_t u = pithi_bits(s->paged.values[t->kv.sought.at + i]);
        const uint64_t up = range ? pithi_outlier_word(u, i) : pithi_outlier_size_word(u, i);
        if (up >= t->kv.floor[0]) t->kv.word[0] = pithi_least(t->kv.word[0], up);
        if (~up >= t->kv.floor[1]) t->kv.word[1] = pithi_least(t->kv.word[1], ~up);
    }
}

PITHI_LOCAL(pithi_outliers_halve, uint32_t lanes) {
    (void)a, (void)s, (void)lanes;
    t->kv.word[0] = pithi_least(t->kv.word[0], t->kv.word_other[0]);
    t->kv.word[1] = pithi_least(t->kv.word[1], t->kv.word_other[1]);
}

/* Part of a body: t->kv.word := the least of the group's. */
#define PITHI_OUTLIERS_LEAST()                                         \
    do {                                                               \
        for (uint32_t lanes_ = PITHI_LANES / 2; lanes_; lanes_ /= 2) { \
            PITHI_WARP_SWAP(kv.word, kv.word_other, 2, lanes_);        \
            PITHI_STEP(pithi_outliers_halve, lanes_);                  \
        }                                                              \
    } while (0)

/* Word number `number` of both orders. */
PITHI_PHASE(pithi_outliers_note, uint32_t number) {
    const uint32_t group = t->tid / PITHI_LANES;
    (void)a;
    t->kv.floor[0] = t->kv.word[0] + 1;
    t->kv.floor[1] = t->kv.word[1] + 1;
    if (t->tid % PITHI_LANES) return;
    s->paged.first[group][0][number] = t->kv.word[0];
    s->paged.first[group][1][number] = t->kv.word[1];
}

/* ---- What is taken ---------------------------------------------------------------------------*/

/* Returns the place of outlier number k, where n are taken, `high` of them from above. */
PITHI_DEVICE uint32_t pithi_outliers_place(const struct pithi_gpu_shared *s,
                                           const struct pithi_gpu_thread *t, uint32_t n,
                                           uint32_t high, uint32_t k) {
    const bool below = k < n - high;
    const uint64_t word =
        below ? pithi_outliers_first(s, t, 0)[k] : ~pithi_outliers_first(s, t, 1)[k - (n - high)];
    return pithi_outlier_place(word);
}

/* Number of the thread's group in the page, and its element `place`, counted from the page's first
 * in the tensor. */
PITHI_DEVICE uint32_t pithi_sought_number(const struct pithi_device_plan *p,
                                          const struct pithi_gpu_page *g, uint32_t tile,
                                          uint32_t i) {
    if (!p->device.pages.channel) return tile * PITHI_UNITS * g->rows + i;
    const struct pithi_gpu_column c = pithi_channel_of(p, g, i / PITHI_UNIT, tile);
    return tile / g->chunks * g->heads * g->dim + c.head * g->dim + c.in_head + i % PITHI_UNIT;
}
PITHI_DEVICE int64_t pithi_sought_at(const struct pithi_device_plan *p,
                                     const struct pithi_gpu_page *g, uint32_t tile, uint32_t i,
                                     uint32_t place) {
    uint32_t head, in_head, token;
    if (p->device.pages.channel) {
        const struct pithi_gpu_column c = pithi_channel_of(p, g, i / PITHI_UNIT, tile);
        head = c.head;
        in_head = c.in_head + i % PITHI_UNIT;
        token = pithi_tile_token(p, g, tile) + place;
    } else {
        const uint32_t number = tile * PITHI_UNITS * g->rows + i, before = number / g->along;
        token = before / g->heads;
        head = before - token * g->heads;
        in_head = (number - before * g->along) * p->device.groups.set.group + place;
    }
    return (int64_t)token * g->token_stride + (int64_t)head * g->head_stride + in_head;
}

/* The element `place` of the thread's group as outlier number `number` of the page, a NaN with the
 * tensor's bits. */
PITHI_DEVICE void pithi_outlier_put(const struct pithi_gpu_call *a,
                                    const struct pithi_gpu_shared *s,
                                    const struct pithi_gpu_thread *t, uint32_t tile,
                                    uint32_t number, uint32_t place) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t width = pithi_dtype_bytes(p->dtype);
    const uint8_t *const from =
        g->values + (g->at + pithi_sought_at(p, g, tile, t->kv.sought.index, place)) * width;
    const uint32_t u = pithi_bits(s->paged.values[t->kv.sought.at + place]);
    uint8_t *const to = g->exact + (uint64_t)number * width;
    uint32_t own = p->dtype == PITH_F32 ? u : p->dtype == PITH_BF16 ? u >> 16 : pithi_to_f16(u);
    if (pithi_magnitude(u) > PITHI_F32_INF)
        own = width == 4 ? pithi_get32(from) : pithi_get16(from);
    g->places[number] = (uint8_t)place;
    for (uint32_t k = 0; k < width; k++) to[k] = (uint8_t)(own >> 8 * k);
}

/* Each thread takes some. Places ascend; a group of few elements repeats the last. */
PITHI_PHASE(pithi_outliers_take, uint32_t tile) {
    const uint32_t n = pithi_outliers_taken(s, t), most = s->paged.page.outliers;
    const bool choice = a->to.plan.device.groups.set.asymmetric && n < t->kv.sought.count;
    const uint64_t *const below = pithi_outliers_first(s, t, 0);
    if (!t->kv.sought.count) return;
    const uint32_t high =
        choice ? (uint32_t)pithi_outliers_above(below, pithi_outliers_first(s, t, 1), n) : 0;
    const float instead = choice ? pithi_outlier_value(below[n - high]) : 0;
    const uint32_t first =
        pithi_sought_number(&a->to.plan, &s->paged.page, tile, t->kv.sought.index) * most;
    for (uint32_t k = t->tid % PITHI_LANES; k < n; k += PITHI_LANES) {
        const uint32_t place = pithi_outliers_place(s, t, n, high, k);
        uint32_t before = 0;
        for (uint32_t i = 0; i < n; i++) before += pithi_outliers_place(s, t, n, high, i) < place;
        const uint32_t end = before + 1 == n ? most : before + 1;
        for (uint32_t i = before; i < end; i++) pithi_outlier_put(a, s, t, tile, first + i, place);
        s->paged.values[t->kv.sought.at + place] = instead;
    }
}

/* ---- Groups that encode to themselves --------------------------------------------------------*/

/* t->kv.word := the complement of the largest magnitude of the others, and the least magnitude that
 * was taken. */
PITHI_LOCAL(pithi_outliers_measure, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t first =
        t->kv.sought.count
            ? pithi_sought_number(&a->to.plan, g, tile, t->kv.sought.index) * g->outliers
            : 0;
    t->kv.word[0] = t->kv.word[1] = UINT64_MAX;
    for (uint32_t i = t->tid % PITHI_LANES; i < t->kv.sought.count; i += PITHI_LANES)
        t->kv.word[0] = pithi_least(
            t->kv.word[0],
            ~(uint64_t)pithi_magnitude(pithi_bits(s->paged.values[t->kv.sought.at + i])));
    if (!t->kv.sought.count) return;
    for (uint32_t k = t->tid % PITHI_LANES; k < g->outliers; k += PITHI_LANES) {
        const uint32_t u = pithi_load(g->exact, a->to.plan.dtype, first + k);
        t->kv.word[1] = pithi_least(t->kv.word[1], pithi_magnitude(u));
    }
}

PITHI_PHASE(pithi_outliers_clamp_others, uint32_t tile) {
    const uint32_t largest = (uint32_t)~t->kv.word[0], least = (uint32_t)t->kv.word[1];
    (void)tile;
    if (s->paged.page.outliers >= t->kv.sought.count) return;
    const float limit =
        pithi_outliers_limit(&a->to.plan.device.groups.set, a->to.plan.dtype, largest, least);
    if (pithi_bits(limit) == largest) return;
    for (uint32_t i = t->tid % PITHI_LANES; i < t->kv.sought.count; i += PITHI_LANES) {
        float *const x = &s->paged.values[t->kv.sought.at + i];
        *x = pithi_outliers_clamp(*x, limit);
    }
}

/* Part of a body: the outliers of a tile that the team's memory holds; in their stead there is what
 * is coded. */
PITHI_DEVICE void pithi_page_outliers(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team,
                                      uint32_t tile) {
    const uint32_t end = pithi_sought_groups(&a->to.plan, &s->paged.page);
    const bool limited = pithi_outliers_limited(&a->to.plan.device.groups.set);
    for (uint32_t from = 0; from < end; from += PITHI_TEAM / PITHI_LANES) {
        PITHI_STEP(pithi_sought_open, tile, 0, from);
        PITHI_STEP(pithi_outliers_open, from);
        for (uint32_t number = 0; number <= s->paged.page.outliers; number++) {
            PITHI_STEP(pithi_outliers_seek, number);
            PITHI_OUTLIERS_LEAST();
            PITHI_RUN(pithi_outliers_note, number);
        }
        PITHI_RUN(pithi_outliers_take, tile);
        if (!limited) continue;
        PITHI_STEP(pithi_outliers_measure, tile);
        PITHI_OUTLIERS_LEAST();
        PITHI_RUN(pithi_outliers_clamp_others, tile);
    }
}

#endif
