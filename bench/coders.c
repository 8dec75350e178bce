/* coders.c - coders of bytes beside each other: rANS as frames have it, htscodecs' and zstd's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * bench/coders FILE: the bytes of a file are symbols, in strings of 128 KiB as blocks of
 * codec lossless have them, each with what its decoder needs. Coders take turns on one thread, and
 * every string comes back. Prints a line for each: name, what is left in percent, GB of symbols a
 * second in and out, separated by tabs; the entropy of each string's counts takes no time. */
#include <htscodecs/rANS_static4x16.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "../cli/roofline.h"
#include "bytes/rans.h"
#include "cpu.h"
#include "kernels.h"
#include "runs.h"

enum { STRING = 131072, SPACE = 2 * STRING, ROUNDS = 21 };

/* ---- Coders ----------------------------------------------------------------------------------*/

/* `put` returns the length, 0 where it failed; `take` whether it got n symbols. */
struct coder {
    const char *name;
    size_t (*put)(uint8_t *symbols, size_t n, uint8_t *to);
    bool (*take)(uint8_t *from, size_t length, uint8_t *symbols, size_t n);
};

static struct pithi_kernels kernels;
static struct pithi_rans memory;

static size_t rans_put(uint8_t *symbols, size_t n, uint8_t *to) {
    pithi_rans_plan(&memory, kernels.symbol_count, false, symbols, n);
    return pithi_rans_pack(&memory, kernels.rans_encode, symbols, n, to, SPACE);
}
static bool rans_take(uint8_t *from, size_t length, uint8_t *symbols, size_t n) {
    return pithi_rans_unpack(&memory, kernels.rans_decode, from, length, symbols, n);
}

static size_t hts_put(uint8_t *symbols, size_t n, uint8_t *to, int order) {
    unsigned length = SPACE;
    return rans_compress_to_4x16(symbols, (unsigned)n, to, &length, order) ? length : 0;
}
static size_t hts32_put(uint8_t *symbols, size_t n, uint8_t *to) {
    return hts_put(symbols, n, to, RANS_ORDER_X32);
}
static size_t hts4_put(uint8_t *symbols, size_t n, uint8_t *to) {
    return hts_put(symbols, n, to, 0);
}
static bool hts_take(uint8_t *from, size_t length, uint8_t *symbols, size_t n) {
    unsigned count = (unsigned)n;
    return rans_uncompress_to_4x16(from, (unsigned)length, symbols, &count) && count == n;
}

static ZSTD_CCtx *zstd_in;
static ZSTD_DCtx *zstd_out;

static size_t zstd_put(uint8_t *symbols, size_t n, uint8_t *to) {
    const size_t length = ZSTD_compressCCtx(zstd_in, to, SPACE, symbols, n, 1);
    return ZSTD_isError(length) ? 0 : length;
}
static bool zstd_take(uint8_t *from, size_t length, uint8_t *symbols, size_t n) {
    return ZSTD_decompressDCtx(zstd_out, symbols, n, from, length) == n;
}

static const struct coder coders[] = {
    {"pith, rANS", rans_put, rans_take},
    {"htscodecs, rANS of 32 states", hts32_put, hts_take},
    {"htscodecs, rANS of 4 states", hts4_put, hts_take},
    {"zstd -1", zstd_put, zstd_take},
};
enum { CODERS = sizeof coders / sizeof *coders };

/* ---- Strings ---------------------------------------------------------------------------------*/

static double entropy_bytes(const uint8_t *symbols, size_t n) {
    size_t count[256] = {0};
    double bits = 0;
    for (size_t i = 0; i < n; i++) count[symbols[i]]++;
    for (int s = 0; s < 256; s++)
        if (count[s]) bits -= (double)count[s] * log2((double)count[s] / (double)n);
    return bits / 8;
}

struct strings {
    uint8_t *symbols, *packed, *back;
    size_t n, count, *length;
};

static size_t length_of(const struct strings *s, size_t k) {
    return s->n - k * STRING < STRING ? s->n - k * STRING : STRING;
}

static struct strings read_strings(const char *name) {
    FILE *const file = fopen(name, "rb");
    struct strings s = {0};
    if (!file || fseek(file, 0, SEEK_END)) {
        perror(name);
        exit(1);
    }
    s.n = (size_t)ftell(file);
    s.count = (s.n + STRING - 1) / STRING;
    rewind(file);
    s.symbols = runs_allocate(s.n);
    s.back = runs_allocate(s.n);
    s.packed = runs_allocate(s.count * SPACE);
    s.length = runs_allocate(s.count * sizeof *s.length);
    if (!s.n || fread(s.symbols, 1, s.n, file) != s.n) {
        fprintf(stderr, "%s: nothing to read\n", name);
        exit(1);
    }
    fclose(file);
    return s;
}

static void must(const struct coder *c, bool good) {
    if (good) return;
    fprintf(stderr, "%s failed\n", c->name);
    exit(1);
}

/* Returns the bytes that a coder leaves of all strings; adds what it took to its seconds. */
static size_t one_round(const struct coder *c, struct strings *s, double *in, double *out) {
    size_t bytes = 0;
    const double from = roofline_clock();
    for (size_t k = 0; k < s->count; k++) {
        s->length[k] = c->put(s->symbols + k * STRING, length_of(s, k), s->packed + k * SPACE);
        bytes += s->length[k];
        must(c, s->length[k] != 0);
    }
    const double middle = roofline_clock();
    for (size_t k = 0; k < s->count; k++)
        must(c,
             c->take(s->packed + k * SPACE, s->length[k], s->back + k * STRING, length_of(s, k)));
    *out = roofline_clock() - middle;
    *in = middle - from;
    must(c, !memcmp(s->symbols, s->back, s->n));
    memset(s->back, 0, s->n);
    return bytes;
}

int main(int argc, char **argv) {
    static double in[CODERS][ROUNDS], out[CODERS][ROUNDS];
    size_t bytes[CODERS];
    double least = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: coders FILE\n");
        return 2;
    }
    struct strings s = read_strings(argv[1]);
    pithi_kernels_bind(&kernels, pithi_cpu_select(0));
    zstd_in = ZSTD_createCCtx();
    zstd_out = ZSTD_createDCtx();
    for (int round = 0; round < ROUNDS; round++)
        for (size_t c = 0; c < CODERS; c++)
            bytes[c] = one_round(&coders[c], &s, &in[c][round], &out[c][round]);
    for (size_t k = 0; k < s.count; k++)
        least += entropy_bytes(s.symbols + k * STRING, length_of(&s, k));
    const double n = (double)s.n;
    printf("entropy\t%.2f\n", 100 * least / n);
    for (size_t c = 0; c < CODERS; c++)
        printf("%s\t%.2f\t%.2f\t%.2f\n", coders[c].name, 100 * (double)bytes[c] / n,
               n / runs_median(in[c], ROUNDS) * 1e-9, n / runs_median(out[c], ROUNDS) * 1e-9);
    ZSTD_freeCCtx(zstd_in);
    ZSTD_freeDCtx(zstd_out);
    free(s.symbols);
    free(s.back);
    free(s.packed);
    free(s.length);
    return 0;
}
