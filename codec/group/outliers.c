/* outliers.c - the values of a group that lie farthest out, kept as they are beside its codes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "group/outliers.h"

#include <string.h>

#include "common/convert.h"
#include "group/outliers_value.h"

enum { GROUP_MOST = 256 };

/* The values of a group that come first in some order: at most one more than are taken. */
struct first {
    uint64_t word[PITHI_OUTLIERS_MOST + 1];
    size_t count;
};

static void enter(struct first *f, size_t capacity, uint64_t word) {
    size_t i = f->count < capacity ? f->count++ : capacity;
    if (i == capacity && (!capacity || word > f->word[--i])) return;
    for (; i > 0 && f->word[i - 1] > word; i--) f->word[i] = f->word[i - 1];
    f->word[i] = word;
}

/* Marks what to take at both ends; returns the bits of what is coded instead. */
static uint32_t by_range(const void *values, uint32_t dtype, size_t count, size_t n, bool *out) {
    struct first below = {.count = 0}, above = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = pithi_outlier_word(pithi_load(values, dtype, i), (uint32_t)i);
        enter(&below, n + 1, word);
        enter(&above, n + 1, ~word);
    }
    const size_t high = n < count ? pithi_outliers_above(below.word, above.word, n) : 0;
    for (size_t k = 0; k < n - high; k++) out[pithi_outlier_place(below.word[k])] = true;
    for (size_t k = 0; k < high; k++) out[pithi_outlier_place(~above.word[k])] = true;
    return n < count ? pithi_bits(pithi_outlier_value(below.word[n - high])) : 0;
}

static uint32_t by_magnitude(const void *values, uint32_t dtype, size_t count, size_t n,
                             bool *out) {
    struct first largest = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        const uint32_t u = pithi_load(values, dtype, i);
        enter(&largest, n, pithi_outlier_size_word(u, (uint32_t)i));
    }
    for (size_t k = 0; k < n; k++) out[pithi_outlier_place(largest.word[k])] = true;
    return 0;
}

static void take(const struct pithi_group_setting *set, void *values, uint32_t dtype, size_t count,
                 size_t most, uint8_t *places, void *exact) {
    const size_t n = most < count ? most : count;
    const size_t width = pith_dtype_bytes(dtype);
    bool out[GROUP_MOST] = {false};
    size_t taken = 0; /* at least 1 in the end: count is not 0, and so is not what is taken */
    const uint32_t instead =
        (set->asymmetric ? by_range : by_magnitude)(values, dtype, count, n, out);
    for (size_t i = 0; i < count; i++) {
        if (!out[i]) continue;
        memcpy((uint8_t *)exact + taken * width, (uint8_t *)values + i * width, width);
        pithi_store(values, dtype, i, instead);
        places[taken++] = (uint8_t)i;
    }
    for (; taken < most; taken++) {
        memcpy((uint8_t *)exact + taken * width, (uint8_t *)exact + (taken - 1) * width, width);
        places[taken] = places[taken - 1];
    }
}

/* ---- Groups that encode to themselves --------------------------------------------------------*/

/* Clamps the other values of a group, of which there are some, to below the least that was
 * taken. */
static void clamp_others(const struct pithi_group_setting *set, void *values, uint32_t dtype,
                         size_t count, size_t most, const void *exact) {
    uint32_t largest = 0, least = PITHI_F32_NAN;
    for (size_t i = 0; i < count; i++) {
        const uint32_t m = pithi_magnitude(pithi_load(values, dtype, i));
        largest = m > largest ? m : largest;
    }
    for (size_t k = 0; k < most; k++) {
        const uint32_t m = pithi_magnitude(pithi_load(exact, dtype, k));
        least = m < least ? m : least;
    }
    const float to = pithi_outliers_limit(set, dtype, largest, least);
    if (pithi_bits(to) == largest) return;
    for (size_t i = 0; i < count; i++) {
        const float x = pithi_float(pithi_load(values, dtype, i));
        pithi_store(values, dtype, i, pithi_bits(pithi_outliers_clamp(x, to)));
    }
}

void pithi_outliers_take(const struct pithi_group_setting *set, void *values, uint32_t dtype,
                         size_t count, size_t most, uint8_t *places, void *exact) {
    take(set, values, dtype, count, most, places, exact);
    if (pithi_outliers_limited(set) && most < count)
        clamp_others(set, values, dtype, count, most, exact);
}

static void take_column(const struct pithi_outliers_job *job, size_t column) {
    const size_t width = pith_dtype_bytes(job->dtype), exact = job->most * width;
    uint8_t values[GROUP_MOST * sizeof(float)];
    for (size_t i = 0; i < job->rows; i++) {
        const int64_t at = (int64_t)i * job->stride + (int64_t)(column * job->apart);
        memcpy(values + i * width, (const uint8_t *)job->value + at * (int64_t)width, width);
    }
    pithi_outliers_take(job->set, values, job->dtype, job->rows, job->most,
                        job->places + column * job->most, (uint8_t *)job->exact + column * exact);
    for (size_t i = 0; i < job->rows; i++)
        memcpy(
            (uint8_t *)job->others + (i * job->others_stride + column * job->others_apart) * width,
            values + i * width, width);
}

void pithi_outliers_columns_c(const struct pithi_outliers_job *job) {
    for (size_t c = 0; c < job->columns; c++) take_column(job, c);
}

/* Returns what clamping adds to the bound. The last code may lie further inward by one number of
 * the tensor's dtype and one of the scale's. Levels of normal floats lie so far apart that their
 * bound holds as it is, but for values below the normal numbers of f16. */
double pithi_outliers_bound(const struct pithi_group_setting *set, uint32_t dtype, double scale) {
    const double levels = pithi_group_levels(set), reach = levels * scale;
    const bool half = set->scale_dtype == PITH_F16;
    const double least = dtype == PITH_F16 && !half ? 0x1p-24 : 0;
    const double coarse = dtype == PITH_BF16 && half ? reach * 0x1p-7 : 0;
    if (!pithi_outliers_limited(set)) return 0;
    if (set->codebook) return least;
    return reach * (half ? 0x1p-10 : 0x1p-7) + (levels + 1) * (half ? 0x1p-25 : 0) + coarse + least;
}

void pithi_outliers_put(const struct pithi_outliers *taken, size_t first, size_t count, void *out,
                        uint32_t out_dtype, int64_t stride) {
    const size_t width = pithi_dtype_bytes(taken->dtype);
    const int64_t apart = stride * (int64_t)pithi_dtype_bytes(out_dtype);
    for (size_t k = 0; k < taken->most; k++) {
        const size_t place = taken->places[k] - first;
        if (place >= count) continue; /* smaller ones than `first` have become the largest */
        void *const to = (uint8_t *)out + (int64_t)place * apart;
        pithi_convert(to, out_dtype, (const uint8_t *)taken->exact + k * width, taken->dtype, 1);
    }
}
