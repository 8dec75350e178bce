/* sparse.c - tables of doc/RESULTS.md, Sparse frames: choosing, coding and adding chosen values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Gradients are normal deviates, another tensor every step, so that nothing is warm. Every row is
 * beside the baseline of the same bytes in the same round; the ratio is the median of those. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/roofline.h"
#include "end.h"
#include "runs.h"

/* Every step's gradient begins elsewhere in a tensor that is longer by SHIFTS values. */
enum { SHIFTS = 1 << 20, ROUNDS = 15, WARM = 16, FRAMES = 8 };

static size_t count;
static float *tensor, *other, *scratch;

static uint64_t next_random(uint64_t *s) {
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

/* Normal deviates by sums of twelve: enough of a tail for a threshold at one in a thousand. */
static void fill(float *x, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        int32_t sum = 0;
        for (int k = 0; k < 3; k++) {
            const uint64_t r = next_random(&seed);
            sum += (int32_t)(r & 0xFFFF) + (int32_t)(r >> 16 & 0xFFFF) +
                   (int32_t)(r >> 32 & 0xFFFF) + (int32_t)(r >> 48);
        }
        x[i] = (float)(sum - 6 * 65536) * (1.0f / 65536);
    }
}

static double best_move(const struct roofline_baseline *b) {
    double best = 1e30;
    for (int v = 0; v < BASELINE_VARIANTS; v++) {
        const double s = roofline_move(b, v);
        if (s < best) best = s;
    }
    return best;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* A row of encoding: beside a copy that reads values and residual and writes the residual, or, with
 * none, beside a sum that only reads. goal: of the ratio; most: bits that are allowed, a text. */
static void encode_row(const char *spec, int feedback, double goal, const char *most) {
    struct end e;
    double ratio[ROUNDS], ns[ROUNDS];
    size_t length = 0;
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 1, .shape = {count}};
    if (end_open(&e, spec, &layout, NULL, NULL)) exit(1);
    void *const frame = runs_allocate((size_t)e.sizes.slot_bytes);
    for (int i = -WARM; i < ROUNDS; i++) {
        const float *const x = tensor + (size_t)(i + WARM) * 32003 % SHIFTS;
        const pith_view view = pith_view_flat(x, PITH_F32, count);
        const double from = roofline_clock();
        if (end_encode(&e, &view, frame, (size_t)e.sizes.slot_bytes, &length)) exit(1);
        const double seconds = roofline_clock() - from;
        const size_t bytes = count * sizeof *x;
        const struct roofline_baseline baseline = {.read = {x, other},
                                                   .read_bytes = {bytes, bytes},
                                                   .write = {scratch},
                                                   .write_bytes = {bytes}};
        const double best = feedback ? best_move(&baseline) : roofline_read(x, bytes);
        if (i < 0) continue;
        ratio[i] = best / seconds;
        ns[i] = seconds / (double)count * 1e9;
    }
    pith_sparse_state state = {.size = sizeof state};
    if (pith_sparse_get_state(e.stream, 0, &state)) exit(1);
    printf("| `%s` | %s | %.3f | %.2f | %.1f | %.2f | %s |\n", spec,
           feedback ? "copy 8 + 4" : "sum", runs_median(ns, ROUNDS), runs_median(ratio, ROUNDS),
           goal, 8.0 * (double)length / (double)state.sent, most);
    fflush(stdout);
    free(frame);
    end_close(&e);
}

/* ---- Adding ----------------------------------------------------------------------------------*/

struct sparse {
    uint32_t *index;
    float *value;
    size_t count;
};

/* Eight frames added to a tensor, beside a loop that adds the same values at indices that it has
 * as they are. */
static void add_row(const char *spec) {
    struct end e;
    double ratio[ROUNDS], ns[ROUNDS];
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 1, .shape = {count}};
    void *frame[FRAMES];
    size_t length[FRAMES], all = 0;
    struct sparse plain[FRAMES];
    if (end_open(&e, spec, &layout, NULL, NULL)) exit(1);
    for (int f = 0; f < FRAMES; f++) {
        fill(scratch, count, (uint64_t)f * 77 + 5);
        const pith_view view = pith_view_flat(scratch, PITH_F32, count);
        frame[f] = runs_allocate((size_t)e.sizes.slot_bytes);
        if (end_encode(&e, &view, frame[f], (size_t)e.sizes.slot_bytes, &length[f])) exit(1);
        if (end_decode(&e, frame[f], length[f], &view)) exit(1);
        struct sparse *const p = &plain[f];
        *p = (struct sparse){.count = 0};
        for (size_t i = 0; i < count; i++) p->count += scratch[i] != 0;
        p->index = runs_allocate(p->count * sizeof *p->index);
        p->value = runs_allocate(p->count * sizeof *p->value);
        size_t at = 0;
        for (size_t i = 0; i < count; i++)
            if (scratch[i] != 0) p->index[at] = (uint32_t)i, p->value[at++] = scratch[i];
        all += p->count;
    }
    memset(scratch, 0, count * sizeof *scratch);
    float *const own = other;
    memset(own, 0, count * sizeof *own);
    for (int i = -2; i < ROUNDS; i++) {
        pith_item item = {.size = sizeof item,
                          .stream = e.stream,
                          .view = pith_view_flat(scratch, PITH_F32, count)};
        double from = roofline_clock();
        for (int f = 0; f < FRAMES; f++) {
            item.frame = frame[f], item.length = length[f];
            if (end_said(&e, pith_decode(e.work, &item, 1, PITH_ADD))) exit(1);
        }
        const double seconds = roofline_clock() - from;
        from = roofline_clock();
        for (int f = 0; f < FRAMES; f++)
            for (size_t k = 0; k < plain[f].count; k++) own[plain[f].index[k]] += plain[f].value[k];
        const double best = roofline_clock() - from;
        if (i < 0) continue;
        ratio[i] = best / seconds;
        ns[i] = seconds / (double)all * 1e9;
    }
    if (memcmp(own, scratch, count * sizeof *own) != 0) {
        fprintf(stderr, "sparse: sums differ\n");
        exit(1);
    }
    printf("| `%s`, decode-add of %d | scatter | %.2f a value | %.2f | 0.7 | | |\n", spec, FRAMES,
           runs_median(ns, ROUNDS), runs_median(ratio, ROUNDS));
    fflush(stdout);
    for (int f = 0; f < FRAMES; f++) free(frame[f]), free(plain[f].index), free(plain[f].value);
    end_close(&e);
}

/* ---- Indices ---------------------------------------------------------------------------------*/

/* Bits of an index as Roaring's format of files has a set, its runs optimised: 8 bytes, and for
 * each 65536 numbers 8 of its head and the shortest of an array, a map and runs. */
static double roaring_bits(const float *x) {
    enum { CONTAINER = 65536, HEAD = 8, MAP = CONTAINER / 8 };
    size_t bytes = HEAD, all = 0;
    for (size_t from = 0; from < count; from += CONTAINER) {
        const size_t end = count - from < CONTAINER ? count : from + CONTAINER;
        size_t members = 0, runs = 0;
        for (size_t i = from; i < end; i++) {
            members += x[i] != 0;
            runs += x[i] != 0 && (i == from || x[i - 1] == 0);
        }
        if (!members) continue;
        size_t best = 2 * members < MAP ? 2 * members : MAP;
        if (2 + 4 * runs < best) best = 2 + 4 * runs;
        bytes += HEAD + best;
        all += members;
    }
    return 8.0 * (double)bytes / (double)all;
}

/* Returns the bits an index takes in whole frames that have nothing else, and leaves the set in
 * `scratch`. */
static double index_bits(double density, const char *index) {
    char spec[64];
    size_t length, kept = 0;
    struct end e;
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 1, .shape = {count}};
    snprintf(spec, sizeof spec, "topk:density=%g,values=none,index=%s", density, index);
    if (end_open(&e, spec, &layout, NULL, NULL)) exit(1);
    void *const frame = runs_allocate((size_t)e.sizes.slot_bytes);
    const pith_view from = pith_view_flat(tensor, PITH_F32, count),
                    to = pith_view_flat(scratch, PITH_F32, count);
    if (end_encode(&e, &from, frame, (size_t)e.sizes.slot_bytes, &length) ||
        end_decode(&e, frame, length, &to))
        exit(1);
    for (size_t i = 0; i < count; i++) kept += scratch[i] != 0;
    free(frame);
    end_close(&e);
    return 8.0 * (double)length / (double)kept;
}

static void index_row(double density) {
    const double entropy = (-density * log2(density) - (1 - density) * log2(1 - density)) / density;
    const double fast = index_bits(density, "fast"), small = index_bits(density, "small");
    printf("| %g | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | 32 |\n", density, entropy, small,
           entropy + (density < 2e-4 ? 1.0 : 0.6), fast, entropy + 1.6, roaring_bits(scratch));
    fflush(stdout);
}

int main(void) {
    count = roofline_bytes(8) / sizeof *tensor;
    tensor = runs_allocate((count + SHIFTS) * sizeof *tensor);
    other = runs_allocate(count * sizeof *other);
    scratch = runs_allocate(count * sizeof *scratch);
    fill(tensor, count + SHIFTS, 1);
    memset(other, 0, count * sizeof *other);
    memset(scratch, 0, count * sizeof *scratch);
    printf("%zu values; speed relative to the baseline; frames in bits a kept value\n\n", count);
    printf(
        "| setting | baseline | ns a value | ratio | goal | bits | at most |\n"
        "|---|---|---|---|---|---|---|\n");
    encode_row("topk:density=0.001,ef=full", 1, 0.9, "44.5");
    encode_row("topk:density=0.01,ef=full", 1, 0.9, "");
    encode_row("topk:density=0.001,values=none", 0, 0.9, "");
    encode_row("topk:density=0.001", 0, 0.9, "44.5");
    encode_row("topk:density=0.001,index=fast", 0, 0.9, "44.5");
    encode_row("topk:density=0.001,control=exact", 0, 0.2, "44.5");
    encode_row("topk:density=0.001,values=f16", 0, 0.9, "28.5");
    encode_row("topk:density=0.001,values=int8", 0, 0.9, "21");
    add_row("topk:density=0.001");
    add_row("topk:density=0.01");
    printf(
        "\n| share of the values | entropy | `index=small` | at most | `fast` | at most | Roaring |"
        " raw |\n"
        "|---|---|---|---|---|---|---|---|\n");
    for (double density = 1e-4; density < 0.2; density *= 10) index_row(density);
    free(tensor), free(other), free(scratch);
    return 0;
}
