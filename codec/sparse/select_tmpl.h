/* select_tmpl.h - selection, histograms and moments in 16 lanes, written once for each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h and defined:
 *   reached16    a bit for each lane of its first argument that is at least that of the second;
 *                lanes are at most 2^31
 *   finite_pick  lanes of its second argument or, where those of the first are not finite, of the
 *                third
 *   below16      lanes of its first argument where those of the second are below the third's, which
 *                are at most 2^31, and 0 elsewhere
 *   d_sum        the sum of all lanes of f64: halves are added, down to one, as in the scalar
 *                reference
 * Selection and histograms look at whole words of a set; the elements behind them go to the scalar
 * reference. */
#ifndef PITHI_SPARSE_SELECT_TMPL_H
#define PITHI_SPARSE_SELECT_TMPL_H

#include "common/lanes_tmpl.h"
#include "sparse/select.h"

enum { UNIT = 16, WORD = 64 };

/* The prefetch distance in bytes, to the second-level cache: prefetchers in hardware end with a
 * page. */
enum { PREFETCH = 8192 };

/* Calls a function that is always inlined with constants for the dtype and for whether there is a
 * residual. */
#define BY_DTYPE(function, job, from)                                           \
    ((from)->dtype == PITH_F32    ? BY_RESIDUAL(function, job, from, PITH_F32)  \
     : (from)->dtype == PITH_BF16 ? BY_RESIDUAL(function, job, from, PITH_BF16) \
                                  : BY_RESIDUAL(function, job, from, PITH_F16))
#define BY_RESIDUAL(function, job, from, dtype) \
    ((from)->residual ? function(job, dtype, true) : function(job, dtype, false))

ALWAYS v16 residual_of(const struct pithi_select_values *from, size_t i) {
    return load(PITH_F32, (const uint8_t *)from->residual, i);
}

/* Returns x of the elements from i on. */
ALWAYS v16 x_of(const struct pithi_select_values *from, uint32_t dtype, bool feedback, size_t i) {
    const v16 value = load(dtype, from->value, i);
    return feedback ? f_add(residual_of(from, i), value) : value;
}

ALWAYS void prefetch(const uint8_t *p, size_t bytes) {
    for (size_t k = 0; k < bytes; k += 64) __builtin_prefetch(p + PREFETCH + k, 0, 2);
}

/* Prefetches far behind the word of elements from i on. */
ALWAYS void prefetch_word(const struct pithi_select_values *from, uint32_t dtype, bool feedback,
                          size_t i) {
    prefetch((const uint8_t *)from->value + i * width(dtype), WORD * width(dtype));
    if (feedback) prefetch((const uint8_t *)(from->residual + i), WORD * sizeof(float));
}

/* Prefetches far behind the unit of elements from i on: between what is done with lines, one at a
 * time is followed better than those of a word at once. */
ALWAYS void prefetch_unit(const struct pithi_select_values *from, uint32_t dtype, bool feedback,
                          size_t i) {
    if (i * width(dtype) % 64 == 0) prefetch((const uint8_t *)from->value + i * width(dtype), 64);
    if (feedback) prefetch((const uint8_t *)(from->residual + i), UNIT * sizeof(float));
}

static struct pithi_select_values rest_of(const struct pithi_select_values *from, size_t at) {
    struct pithi_select_values rest = *from;
    rest.value = (const uint8_t *)from->value + at * width(from->dtype);
    if (rest.residual) rest.residual += at;
    rest.count -= at;
    return rest;
}

ALWAYS v16 finite_or(v16 x, v16 other) { return finite_pick(x, x, other); }

/* Lanes of a threshold: every magnitude is below 2^31. */
ALWAYS v16 lanes_of_threshold(uint32_t threshold) {
    return v_set(threshold > PITHI_SELECT_NAN ? UINT32_C(1) << 31 : threshold);
}

/* ---- Selection --------------------------------------------------------------------------------*/

/* Chooses in what the vectors left over; returns `chosen` and how many more are chosen. */
static size_t select_rest(const struct pithi_select_job *job, size_t at, size_t chosen) {
    struct pithi_select_job rest = *job;
    rest.from = rest_of(&job->from, at);
    rest.set += at / WORD;
    if (rest.after) rest.after += at;
    return chosen + pithi_select_c(&rest);
}

/* Reads only. Unit by unit: in a loop of words compilers put the four prefetches together, which
 * memory follows less well. */
ALWAYS size_t select_values(const struct pithi_select_job *job, uint32_t dtype) {
    const struct pithi_select_values *const from = &job->from;
    const v16 least = lanes_of_threshold(job->threshold), magnitude = v_set(0x7FFFFFFFu);
    const size_t whole = from->count / WORD * WORD;
    uint64_t word = 0;
    size_t chosen = 0;
    for (size_t i = 0; i < whole; i += UNIT) {
        prefetch_unit(from, dtype, false, i);
        const v16 x = load(dtype, from->value, i);
        word |= (uint64_t)reached16(v_and(x, magnitude), least) << i % WORD;
        if (i % WORD < WORD - UNIT) continue;
        job->set[i / WORD] = word;
        chosen += (size_t)__builtin_popcountll(word);
        word = 0;
    }
    return select_rest(job, whole, chosen);
}

ALWAYS size_t select_sums(const struct pithi_select_job *job, uint32_t dtype) {
    const struct pithi_select_values *const from = &job->from;
    const v16 least = lanes_of_threshold(job->threshold), magnitude = v_set(0x7FFFFFFFu);
    const v16 left = job->sent ? least : v_set(UINT32_C(1) << 31);
    const size_t whole = from->count / WORD * WORD;
    uint8_t *const after = (uint8_t *)job->after;
    const bool streamed = after && job->nontemporal && v_stream_fits(after);
    struct streamer stream;
    size_t chosen = 0;
    v_stream_begin(&stream, after);
    for (size_t i = 0; i < whole; i += WORD) {
        uint64_t word = 0;
        for (size_t k = i; k < i + WORD; k += UNIT) {
            prefetch_unit(from, dtype, true, k);
            const v16 before = residual_of(from, k), x = f_add(before, load(dtype, from->value, k));
            const v16 m = v_and(x, magnitude);
            word |= (uint64_t)reached16(m, least) << (k - i);
            if (!after) continue;
            const v16 next = finite_pick(x, below16(x, m, left), before);
            if (streamed)
                v_stream(&stream, after + 4 * k, next);
            else
                v_store(after + 4 * k, next);
        }
        job->set[i / WORD] = word;
        chosen += (size_t)__builtin_popcountll(word);
    }
    if (streamed) v_stream_end(&stream, after + 4 * whole);
    return select_rest(job, whole, chosen);
}

ALWAYS size_t select_as(const struct pithi_select_job *job, uint32_t dtype, bool feedback) {
    return feedback ? select_sums(job, dtype) : select_values(job, dtype);
}

static size_t select_set(const struct pithi_select_job *job) {
    return BY_DTYPE(select_as, job, &job->from);
}

/* ---- Histograms -------------------------------------------------------------------------------*/

ALWAYS uint64_t histogram_as(const struct pithi_histogram_job *job, uint32_t dtype, bool feedback) {
    const struct pithi_select_values *const from = &job->from;
    const v16 low = lanes_of_threshold(job->low), high = lanes_of_threshold(job->high);
    const v16 magnitude = v_set(0x7FFFFFFFu), nan = v_set(PITHI_SELECT_NAN);
    const v16 minus_low = v_set(0 - job->low);
    const uint8_t shift = (uint8_t)job->shift; /* below 32 */
    const size_t whole = from->count / WORD * WORD;
    uint64_t above = 0;
    for (size_t i = 0; i < whole; i += WORD) {
        uint32_t bin[WORD];
        uint64_t inside = 0, over = 0;
        prefetch_word(from, dtype, feedback, i);
        for (size_t k = 0; k < WORD; k += UNIT) {
            const v16 x = x_of(from, dtype, feedback, i + k);
            const v16 m = v_minu(v_and(x, magnitude), nan);
            v_store((uint8_t *)(bin + k), v_shr(v_add(m, minus_low), shift));
            inside |= (uint64_t)reached16(m, low) << k;
            over |= (uint64_t)reached16(m, high) << k;
        }
        above += (uint64_t)__builtin_popcountll(over);
        inside &= ~over;
        if (inside == UINT64_MAX)
            for (size_t k = 0; k < WORD; k++) job->bins[bin[k]]++;
        else
            for (; inside; inside &= inside - 1) job->bins[bin[__builtin_ctzll(inside)]]++;
    }
    struct pithi_histogram_job rest = *job;
    rest.from = rest_of(from, whole);
    return above + pithi_histogram_c(&rest);
}

static uint64_t histogram(const struct pithi_histogram_job *job) {
    return BY_DTYPE(histogram_as, job, &job->from);
}

/* ---- Moments ----------------------------------------------------------------------------------*/

struct moment_lanes {
    d16 sum, squares, magnitudes;
    v16 largest;
    uint64_t nonfinite;
};

/* A value that is not finite counts as +0, which changes no sum that begins with +0. */
ALWAYS void add_moments(struct moment_lanes *m, v16 x) {
    const v16 finite = finite_or(x, v_set(0)), magnitude = v_and(finite, v_set(0x7FFFFFFFu));
    const d16 wide = d_widen(finite);
    m->sum = d_add(m->sum, wide);
    m->squares = d_add(m->squares, d_mul(wide, wide));
    m->magnitudes = d_add(m->magnitudes, d_magnitude(wide));
    m->largest = v_maxu(m->largest, magnitude);
    m->nonfinite += (uint64_t)__builtin_popcount(v_nonfinite(x));
}

ALWAYS struct pithi_moments moments_as(const struct pithi_select_values *from, uint32_t dtype,
                                       bool feedback) {
    const size_t whole = from->count / UNIT * UNIT, left = from->count - whole;
    struct moment_lanes m = {d_zero(), d_zero(), d_zero(), v_set(0), 0};
    for (size_t i = 0; i < whole; i += UNIT) {
        if (i % WORD == 0) prefetch_word(from, dtype, feedback, i);
        add_moments(&m, x_of(from, dtype, feedback, i));
    }
    if (left) {
        const struct pithi_select_values rest = rest_of(from, whole);
        uint8_t value[4 * UNIT] = {0};
        float residual[UNIT] = {0};
        memcpy(value, rest.value, left * width(dtype));
        if (feedback) memcpy(residual, rest.residual, left * sizeof *residual);
        const struct pithi_select_values padded = {value, dtype, UNIT, residual};
        add_moments(&m, x_of(&padded, dtype, feedback, 0));
    }
    return (struct pithi_moments){d_sum(m.sum), d_sum(m.squares), d_sum(m.magnitudes),
                                  from->count - m.nonfinite, v_reduce_maxu(m.largest)};
}

static void moments(const struct pithi_select_values *from, struct pithi_moments *m) {
    *m = BY_DTYPE(moments_as, from, from);
}

#endif
