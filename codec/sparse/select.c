/* select.c - which elements reach a threshold, how many reach which, and lists of sets.
 * SPDX-License-Identifier: Apache-2.0 */
#include "sparse/select.h"

/* The f32 bits of x of element i. */
static inline uint32_t bits_of(const struct pithi_select_values *v, size_t i) {
    const uint32_t u = pithi_load(v->value, v->dtype, i);
    return v->residual ? pithi_bits(v->residual[i] + pithi_float(u)) : u;
}

size_t pithi_select_c(const struct pithi_select_job *job) {
    const struct pithi_select_values *const v = &job->from;
    size_t chosen = 0;
    uint64_t word = 0;
    for (size_t i = 0; i < v->count; i++) {
        const uint32_t x = bits_of(v, i);
        const bool reached = pithi_select_magnitude(x) >= job->threshold;
        word |= (uint64_t)reached << i % 64;
        chosen += reached;
        if (job->after)
            pithi_put32(job->after + i, pithi_nonfinite(x)     ? pithi_get32(v->residual + i)
                                        : job->sent && reached ? 0
                                                               : x);
        if (i % 64 < 63 && i + 1 < v->count) continue;
        job->set[i / 64] = word;
        word = 0;
    }
    return chosen;
}

uint64_t pithi_histogram_c(const struct pithi_histogram_job *job) {
    uint64_t above = 0;
    for (size_t i = 0; i < job->from.count; i++) {
        const uint32_t magnitude = pithi_select_magnitude(bits_of(&job->from, i));
        if (magnitude >= job->high)
            above++;
        else if (magnitude >= job->low)
            job->bins[(magnitude - job->low) >> job->shift]++;
    }
    return above;
}

enum { MOMENT_LANES = 16 };

/* Halves of the lanes are added, down to one. */
static double sum_of(double lane[MOMENT_LANES]) {
    for (int half = MOMENT_LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++) lane[k] += lane[k + half];
    return lane[0];
}

void pithi_moments_c(const struct pithi_select_values *from, struct pithi_moments *m) {
    double sum[MOMENT_LANES] = {0}, squares[MOMENT_LANES] = {0}, magnitudes[MOMENT_LANES] = {0};
    uint64_t finite = 0;
    uint32_t largest = 0;
    for (size_t i = 0; i < from->count; i++) {
        const uint32_t u = bits_of(from, i), magnitude = pithi_select_magnitude(u);
        const double x = (double)pithi_float(u);
        if (magnitude >= PITHI_F32_INF) continue;
        sum[i % MOMENT_LANES] += x;
        squares[i % MOMENT_LANES] += x * x;
        magnitudes[i % MOMENT_LANES] += (double)pithi_float(magnitude);
        finite++;
        if (magnitude > largest) largest = magnitude;
    }
    *m = (struct pithi_moments){sum_of(sum), sum_of(squares), sum_of(magnitudes), finite, largest};
}

size_t pithi_set_list_c(const uint64_t *set, size_t words, uint32_t *index) {
    size_t n = 0;
    for (size_t w = 0; w < words; w++)
        for (uint64_t bits = set[w]; bits; bits &= bits - 1)
            index[n++] = (uint32_t)(64 * w + (size_t)__builtin_ctzll(bits));
    return n;
}

void pithi_kth_of(const float *x, size_t n, size_t k, struct pithi_kth *found) {
    uint32_t prefix = 0; /* the bits of the result from `shift + 8` on */
    *found = (struct pithi_kth){.k = k};
    for (int shift = 24; shift >= 0; shift -= 8) {
        size_t bins[256] = {0}, bin = 255;
        for (size_t i = 0; i < n; i++) {
            const uint32_t magnitude = pithi_select_magnitude(pithi_bits(x[i]));
            if ((uint64_t)magnitude >> (shift + 8) == prefix) bins[magnitude >> shift & 255]++;
        }
        for (; k > bins[bin]; bin--) k -= bins[bin], found->larger += bins[bin];
        prefix = prefix << 8 | (uint32_t)bin;
        found->equal = bins[bin];
    }
    found->t = prefix;
}
