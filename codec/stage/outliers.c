/* outliers.c - the values of a group that lie farthest out, kept as they are beside its codes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "stage/outliers.h"

#include <string.h>

#include "stage/codebook_value.h"
#include "stage/convert.h"
#include "stage/group.h"
#include "stage/outliers_value.h"

enum { GROUP_MOST = 256 };

/* The values that come first of a group in some order, at most one more than are taken. */
struct first {
    uint64_t word[PITHI_OUTLIERS_MOST + 1];
    size_t count;
};

static void enter(struct first *f, size_t room, uint64_t word) {
    size_t i = f->count < room ? f->count++ : room;
    if (i == room && (!room || word > f->word[--i])) return;
    for (; i > 0 && f->word[i - 1] > word; i--) f->word[i] = f->word[i - 1];
    f->word[i] = word;
}

/* Marks what to take; returns the bits of what is coded instead. */
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
    size_t taken = 0;
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

static float largest(const void *values, uint32_t dtype, size_t count) {
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t m = pithi_magnitude(pithi_load(values, dtype, i));
        most = m > most ? m : most;
    }
    return pithi_float(most);
}

static float least(const void *values, uint32_t dtype, size_t count) {
    uint32_t lowest = PITHI_F32_NAN;
    for (size_t i = 0; i < count; i++) {
        const uint32_t m = pithi_magnitude(pithi_load(values, dtype, i));
        lowest = m < lowest ? m : lowest;
    }
    return pithi_float(lowest);
}

/* Whether what is left may decode to the magnitude of one that was taken. */
static bool near(const struct pithi_group_setting *set, const void *values, uint32_t dtype,
                 size_t count, size_t most, const void *exact) {
    if (set->asymmetric || set->codebook == PITHI_CODEBOOK_LLOYD || most >= count) return false;
    return pithi_outliers_near(largest(values, dtype, count), least(exact, dtype, most));
}

/* Encode and decode what is left, into back, with what was taken; false when that is less. */
static bool trip(const struct pithi_group_setting *set, const void *values, uint32_t dtype,
                 size_t count, size_t most, const uint8_t *places, const void *exact, void *back) {
    uint8_t codes[GROUP_MOST], scales[2 * sizeof(float)];
    struct pithi_group_job job = {.set = *set,
                                  .count = count,
                                  .value = values,
                                  .value_dtype = dtype,
                                  .out = back,
                                  .out_dtype = dtype,
                                  .codes = codes,
                                  .scales = scales};
    pithi_group_encode_c(&job);
    if (job.poisoned) return false;
    pithi_group_decode_c(&job);
    const bool reaches = largest(back, dtype, count) >= least(exact, dtype, most);
    pithi_outliers_put(places, exact, dtype, most, 0, count, back, dtype, 1);
    return reaches;
}

/* A value that was left and then decodes to more than one that was taken would be taken next time:
 * values that were decoded go in the stead of such a group's. */
void pithi_outliers_take(const struct pithi_group_setting *set, void *values, uint32_t dtype,
                         size_t count, size_t most, uint8_t *places, void *exact) {
    uint8_t back[GROUP_MOST * sizeof(float)];
    take(set, values, dtype, count, most, places, exact);
    for (int turn = 0; turn < PITHI_OUTLIERS_TURNS; turn++) {
        if (!near(set, values, dtype, count, most, exact)) return;
        if (!trip(set, values, dtype, count, most, places, exact, back)) return;
        pithi_outliers_put(places, exact, dtype, most, 0, count, values, dtype, 1);
        const bool same = memcmp(back, values, count * pith_dtype_bytes(dtype)) == 0;
        memcpy(values, back, count * pith_dtype_bytes(dtype));
        take(set, values, dtype, count, most, places, exact);
        if (same) return;
    }
}

void pithi_outliers_put(const uint8_t *places, const void *exact, uint32_t dtype, size_t most,
                        size_t first, size_t count, void *out, uint32_t out_dtype, int64_t stride) {
    for (size_t k = 0; k < most; k++) {
        if (places[k] < first || places[k] - first >= count) continue;
        const int64_t at = (int64_t)(places[k] - first) * stride;
        void *const to = (uint8_t *)out + at * (int64_t)pith_dtype_bytes(out_dtype);
        pithi_convert(to, out_dtype, (const uint8_t *)exact + k * pith_dtype_bytes(dtype), dtype,
                      1);
    }
}
