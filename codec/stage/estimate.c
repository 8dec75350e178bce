/* estimate.c - the entropy of bit lengths in short runs all over a tile.
 * SPDX-License-Identifier: Apache-2.0 */
#include "stage/estimate.h"

#include "stage/log2.h"

enum { RUN = 64, RUNS = 128, SHARE = 16 };

/* Words by their bit length. */
struct lengths {
    uint32_t total, of[33];
};

static void add(struct lengths *s, uint32_t word) {
    s->of[pithi_bit_length(word)]++;
    s->total++;
}

/* Per word, in 1/256 bit: what its length says, and the bits below its highest. */
static uint32_t entropy(const struct lengths *s) {
    const uint32_t whole = pithi_log2_256(s->total);
    uint64_t sum = 0;
    for (uint32_t b = 0; b < 33; b++)
        if (s->of[b])
            sum += (uint64_t)s->of[b] * (whole - pithi_log2_256(s->of[b]) + (b ? b - 1 : 0) * 256);
    return (uint32_t)(sum / s->total);
}

/* ---- Interpolation of codes, in place of the values ------------------------------------------*/

/* 16 times what the neighbours along one dimension predict: `place` of `places`, `way` elements
 * between neighbours. */
static int64_t predict(const int32_t *code, size_t place, size_t places, size_t h, size_t way) {
    const int64_t a = code[-(ptrdiff_t)way];
    if (place + h >= places)
        return place >= 3 * h ? 24 * a - 8 * (int64_t)code[-3 * (ptrdiff_t)way] : 16 * a;
    const int64_t b = code[way];
    const bool c = place >= 3 * h, e = place + 3 * h < places;
    if (c && e) return 9 * (a + b) - code[-3 * (ptrdiff_t)way] - code[3 * way];
    if (c) return 12 * a + 6 * b - 2 * (int64_t)code[-3 * (ptrdiff_t)way];
    if (e) return 6 * a + 12 * b - 2 * (int64_t)code[3 * way];
    return 8 * (a + b);
}

/* The word of element `at`, on the level and along the dimension where it is coded. */
static uint32_t interp_word(const int32_t *codes, const uint32_t extent[PITHI_TILE_NDIM],
                            size_t at) {
    size_t place[PITHI_TILE_NDIM], rest = at, all = 0, way = 1;
    for (size_t d = PITHI_TILE_NDIM; d--; rest /= extent[d]) all |= place[d] = rest % extent[d];
    if (!all) return 0;
    const size_t h = all & (0 - all);
    size_t d = 0;
    while (!(place[d] & h)) d++;
    for (size_t k = d + 1; k < PITHI_TILE_NDIM; k++) way *= extent[k];
    const int64_t p = predict(codes + at, place[d], extent[d], h, h * way);
    const int64_t error = (16 * (int64_t)codes[at] - p + 8) >> 4;
    return (uint32_t)(error < 0 ? -2 * error - 1 : 2 * error);
}

struct pithi_estimate pithi_estimate_tile(const int32_t *codes,
                                          const uint32_t extent[PITHI_TILE_NDIM]) {
    const size_t count = (size_t)extent[0] * extent[1] * extent[2] * extent[3];
    const size_t runs = count < (size_t)RUN * RUNS * SHARE ? count / (RUN * SHARE) + 1 : RUNS;
    /* An odd step meets even and odd places along every dimension. */
    const size_t step = count / runs | 1;
    struct lengths lorenzo[PITHI_TILE_NDIM + 1] = {{0}}, interp = {0};
    for (size_t at = 0; at < count; at += step) {
        const size_t n = count - at < RUN ? count - at : RUN;
        uint32_t words[RUN];
        for (unsigned order = 0; order <= PITHI_TILE_NDIM; order++) {
            pithi_predict_c(codes, extent, order, at, n, words);
            for (size_t i = 0; i < n; i++) add(&lorenzo[order], words[i]);
        }
        for (size_t i = 0; i < n; i++) add(&interp, interp_word(codes, extent, at + i));
    }
    struct pithi_estimate result = {.interp = entropy(&interp)};
    for (unsigned order = 0; order <= PITHI_TILE_NDIM; order++)
        result.lorenzo[order] = entropy(&lorenzo[order]);
    return result;
}
