/* look.h - what the rule of topk's threshold asks for besides the k-th largest magnitude: samples,
 * moments, counts.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_SPARSE_LOOK_H
#define PITHI_GPU_DEVICE_SPARSE_LOOK_H

#include "device/sparse/choose.h"

/* The rule of a frame asks for it: s->strip.touched. */
PITHI_DEVICE void pithi_ask_open(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                 uint64_t number) {
    pithi_item_locate(a, &a->to, number, &s->to);
    const struct pithi_gpu_search *const f = pithi_search_of(a, s->to.index);
    s->strip.touched = pithi_mark(a, s->to.index)->status == PITH_OK &&
                       f->step.ask != PITHI_ASK_NOTHING && f->step.ask != PITHI_ASK_KTH;
    s->strip.low = f->step.ask;
    pithi_choose_bounds(f, s);
}

/* ---- Moments ---------------------------------------------------------------------------------*/

PITHI_DEVICE struct pithi_moments *pithi_chunk_moments(const struct pithi_gpu_call *a,
                                                       uint64_t frame) {
    uint8_t *const part = pithi_frame_workspace(a, &a->to, frame);
    return (struct pithi_moments *)(void *)(part + pithi_workspace_moments(&a->to.plan));
}
/* Elements of chunk `chunk` of a block: those that may be chosen begin with a new chunk. */
PITHI_DEVICE void pithi_chunk_range(const struct pithi_gpu_call *a,
                                    const struct pithi_gpu_shared *s, uint64_t block,
                                    uint64_t chunk, uint64_t *from, uint64_t *until) {
    const uint64_t lo = s->strip.block.lo, hi = s->strip.block.hi;
    const uint64_t begin = block << a->to.plan.block_log2;
    const uint64_t next = begin + ((uint64_t)1 << a->to.plan.block_log2);
    *from = (begin > lo ? begin : lo) + chunk * PITHI_MOMENTS_CHUNK;
    *until = next < hi ? next : hi;
    if (*until > *from + PITHI_MOMENTS_CHUNK) *until = *from + PITHI_MOMENTS_CHUNK;
}

PITHI_PHASE(pithi_moments_open, uint64_t number) {
    if (t->tid == 0) pithi_ask_open(a, s, number);
}
PITHI_PHASE(pithi_moments_lane, uint64_t first) {
    const uint64_t chunks = pithi_workspace_chunks(&a->to.plan);
    const uint64_t c = first + t->tid / PITHI_MOMENT_LANES;
    struct pithi_gpu_moments *const m = &s->strip.moments;
    double sum = 0, squares = 0, magnitudes = 0;
    uint32_t finite = 0, largest = 0;
    uint64_t from, until;
    pithi_chunk_range(a, s, c / chunks, c % chunks, &from, &until);
    for (uint64_t e = from + t->tid % PITHI_MOMENT_LANES; e < until; e += PITHI_MOMENT_LANES) {
        const uint32_t u = pithi_choose_value(a, &s->to, e);
        const uint32_t magnitude = pithi_select_magnitude(u);
        const double x = (double)pithi_float(u);
        if (magnitude >= PITHI_F32_INF) continue;
        sum += x;
        squares += x * x;
        magnitudes += (double)pithi_float(magnitude);
        finite++;
        if (magnitude > largest) largest = magnitude;
    }
    m->sum[0][t->tid] = sum;
    m->sum[1][t->tid] = squares;
    m->sum[2][t->tid] = magnitudes;
    m->finite[t->tid] = finite;
    m->largest[t->tid] = largest;
}
PITHI_PHASE(pithi_moments_halve, uint32_t half) {
    struct pithi_gpu_moments *const m = &s->strip.moments;
    (void)a;
    if (t->tid % PITHI_MOMENT_LANES >= half) return;
    PITHI_UNROLL for (uint32_t k = 0; k < 3; k++) m->sum[k][t->tid] += m->sum[k][t->tid + half];
    m->finite[t->tid] += m->finite[t->tid + half];
    if (m->largest[t->tid + half] > m->largest[t->tid])
        m->largest[t->tid] = m->largest[t->tid + half];
}
PITHI_DEVICE struct pithi_moments pithi_moments_of(const struct pithi_gpu_moments *m,
                                                   uint32_t tid) {
    struct pithi_moments one;
    one.sum = m->sum[0][tid];
    one.squares = m->sum[1][tid];
    one.magnitudes = m->sum[2][tid];
    one.finite = m->finite[tid];
    one.largest = m->largest[tid];
    return one;
}
PITHI_PHASE(pithi_moments_put, uint64_t first) {
    const uint64_t chunks = pithi_workspace_chunks(&a->to.plan);
    const uint64_t c = first + t->tid / PITHI_MOMENT_LANES;
    if (t->tid % PITHI_MOMENT_LANES || c >= s->to.slot->blocks * chunks) return;
    pithi_chunk_moments(a, s->to.index)[c] = pithi_moments_of(&s->strip.moments, t->tid);
}

/* A team PITHI_MOMENT_CHUNKS chunks. */
PITHI_BODY(pithi_sparse_moments) {
    const uint64_t first = number % a->chunks * PITHI_MOMENT_CHUNKS;
    PITHI_RUN(pithi_moments_open, number);
    if (!s->strip.touched) return;
    PITHI_RUN(pithi_moments_lane, first);
    for (uint32_t half = PITHI_MOMENT_LANES / 2; half; half /= 2)
        PITHI_RUN(pithi_moments_halve, half);
    PITHI_RUN(pithi_moments_put, first);
}

/* A thread has a block, whose chunks it adds up in order. */
PITHI_PHASE(pithi_moments_block, uint64_t first) {
    const uint64_t chunks = pithi_workspace_chunks(&a->to.plan), block = first + t->tid;
    struct pithi_gpu_moments *const m = &s->strip.moments;
    struct pithi_moments sum;
    sum.sum = sum.squares = sum.magnitudes = 0;
    sum.finite = 0;
    sum.largest = 0;
    if (block == 0) m->all = sum;
    for (uint64_t c = 0; block < s->to.slot->blocks && c < chunks; c++)
        pithi_moments_add(&sum, &pithi_chunk_moments(a, s->to.index)[block * chunks + c]);
    m->sum[0][t->tid] = sum.sum;
    m->sum[1][t->tid] = sum.squares;
    m->sum[2][t->tid] = sum.magnitudes;
    m->finite[t->tid] = (uint32_t)sum.finite;
    m->largest[t->tid] = sum.largest;
}
/* One thread adds up the blocks, in order. */
PITHI_PHASE(pithi_moments_all, uint64_t first) {
    const uint64_t left = s->to.slot->blocks - first;
    struct pithi_gpu_moments *const m = &s->strip.moments;
    (void)a;
    if (t->tid) return;
    for (uint32_t i = 0; i < PITHI_TEAM && i < left; i++) {
        const struct pithi_moments one = pithi_moments_of(m, i);
        pithi_moments_add(&m->all, &one);
    }
}
PITHI_PHASE(pithi_moments_tell, uint64_t frame) {
    struct pithi_gpu_search *const f = pithi_search_of(a, frame);
    if (t->tid) return;
    pithi_control_moments(&f->step, &s->strip.moments.all);
    pithi_choose_took(f);
}

/* ---- Samples ---------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_mean_read, uint64_t frame) {
    const struct pithi_control_step *const step = &pithi_search_of(a, frame)->step;
    for (uint32_t i = t->tid; i < pithi_mean_count(step); i += PITHI_TEAM)
        s->strip.bins[i] =
            pithi_choose_value(a, &s->to, s->strip.block.lo + pithi_mean_place(step, i));
}
PITHI_PHASE(pithi_mean_tell, uint64_t frame) {
    struct pithi_gpu_search *const f = pithi_search_of(a, frame);
    if (t->tid) return;
    pithi_control_mean(&f->step, pithi_mean_of(s->strip.bins, pithi_mean_count(&f->step)));
    pithi_choose_took(f);
}

PITHI_PHASE(pithi_sample_open, uint64_t frame) {
    if (t->tid) return;
    s->strip.set.total = pithi_dgc_of(&pithi_search_of(a, frame)->step).rank;
}
PITHI_PHASE(pithi_sample_tell, uint64_t frame) {
    struct pithi_gpu_search *const f = pithi_search_of(a, frame);
    if (t->tid) return;
    pithi_control_sampled(&f->step, (uint32_t)s->strip.run[0]);
    pithi_choose_took(f);
}

/* Samples, and the sum of all moments: a team a frame. */
PITHI_BODY(pithi_sparse_estimate) {
    PITHI_RUN(pithi_moments_open, number);
    if (!s->strip.touched) return;
    const uint32_t ask = s->strip.low;
    const uint64_t frame = s->to.index;
    if (ask == PITHI_ASK_MOMENTS) {
        for (uint64_t first = 0; first < s->to.slot->blocks; first += PITHI_TEAM) {
            PITHI_RUN(pithi_moments_block, first);
            PITHI_RUN(pithi_moments_all, first);
        }
        PITHI_RUN(pithi_moments_tell, frame);
    } else if (ask == PITHI_ASK_MEAN) {
        PITHI_RUN(pithi_mean_read, frame);
        PITHI_RUN(pithi_mean_tell, frame);
    } else if (ask == PITHI_ASK_SAMPLE) {
        const struct pithi_control_step *const step = &pithi_search_of(a, frame)->step;
        const struct pithi_dgc d = pithi_dgc_of(step);
        struct pithi_gpu_few few;
        few.first = s->strip.block.lo + pithi_dgc_first(step, &d);
        few.stride = d.stride;
        few.count = d.count;
        PITHI_RUN(pithi_sample_open, frame);
        pithi_few_kth(a, s, t, team, few);
        PITHI_RUN(pithi_sample_tell, frame);
    }
}

/* ---- Counts ----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_look_open, uint64_t number) {
    t->predict.total = 0;
    if (t->tid) return;
    pithi_ask_open(a, s, number);
    s->strip.touched = s->strip.touched && s->strip.low == PITHI_ASK_COUNT;
    s->strip.low = pithi_search_of(a, s->to.index)->step.t;
    s->strip.set.total = 0;
}
PITHI_LOCAL(pithi_look_take, uint64_t tile) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, s->to.end), within = pithi_choose_within(s, e, n);
        uint32_t x[PITHI_UNIT], before[PITHI_UNIT];
        if (!within) continue;
        pithi_choose_load(a, &s->to, e, n, x, before);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->predict.total +=
            (within >> k & 1) && pithi_select_magnitude(x[k]) >= s->strip.low;
    }
}
PITHI_PHASE(pithi_look_join, uint64_t number) {
    (void)a, (void)number;
    if (t->tid % PITHI_WARP == 0) pithi_atomic_add64(&s->strip.set.total, t->predict.total);
}
/* The last team to arrive tells the rule, which may ask for another count: the next launch's. */
PITHI_PHASE(pithi_look_tell, uint64_t frame) {
    struct pithi_gpu_search *const f = pithi_search_of(a, frame);
    if (t->tid) return;
    if (s->strip.set.total) pithi_atomic_add64(&f->reached, s->strip.set.total);
    pithi_fence();
    const bool last = pithi_atomic_add32(&f->arrived, 1) + 1 == a->chunks;
    pithi_fence();
    if (!last) return;
    const uint64_t reached = pithi_fresh64(&f->reached);
    f->reached = 0;
    f->arrived = 0;
    pithi_control_counted(&f->step, reached);
    pithi_choose_took(f);
}

/* A team a run of tiles. */
PITHI_BODY(pithi_sparse_look) {
    PITHI_RUN(pithi_look_open, number);
    if (!s->strip.touched) return;
    for (uint64_t tile = s->to.begin; tile < s->to.end; tile += PITHI_TILE)
        PITHI_STEP(pithi_look_take, tile);
    PITHI_WARP_ADD(predict.total);
    PITHI_RUN(pithi_look_join, number);
    PITHI_RUN(pithi_look_tell, s->to.index);
}

#endif
