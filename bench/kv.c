/* kv.c - prints tables of doc/RESULTS.md on codec kv: kv codec|append|read.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/roofline.h"
#include "end.h"
#include "runs.h"

enum { HEADS = 8, DIM = 128, ROW = HEADS * DIM };
/* A tensor has 2^24 elements. Copies are taken in turn, so that no cache holds what comes next. */
enum { TOKENS = 1 << 14, COUNT = TOKENS * ROW, RUNS = 15, FEW = 3 };
#define SLOW 0.5 /* seconds; FEW runs then */

/* ---- Help ------------------------------------------------------------------------------------*/

static void fail(const char *what, const char *text) {
    fprintf(stderr, "kv: %s: %s\n", what, text);
    exit(1);
}

static void must(const struct end *e, pith_status status) {
    if (end_said(e, status) != PITH_OK) exit(1);
}

static void open_tokens(struct end *e, const char *spec, uint32_t dtype, uint64_t tokens) {
    const pith_layout layout = {
        .size = sizeof layout, .dtype = dtype, .ndim = 3, .shape = {tokens, HEADS, DIM}};
    if (end_open(e, spec, &layout, NULL, NULL)) exit(1);
}

static pith_view view_of(const void *data, uint32_t dtype, uint64_t tokens) {
    const uint64_t shape[] = {tokens, HEADS, DIM};
    return pith_view_dense(data, dtype, 3, shape);
}

static uint32_t next(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

/* ---- Values: k / 512, near normal, of 11 bits, which f16 holds as f32 does --------------------*/

static int draw(uint32_t *seed) {
    int k = -2046;
    for (int i = 0; i < 4; i++) k += (int)(next(seed) >> 22);
    return k;
}

static uint16_t to_f16(int k) {
    const unsigned u = (unsigned)abs(k), sign = k < 0 ? 0x8000u : 0;
    unsigned e = 10;
    if (!u) return 0;
    while (u >> e == 0) e--;
    return (uint16_t)(sign | (e + 6) << 10 | (u << (10 - e) & 0x3FF));
}

static uint16_t to_bf16(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static void fill(void *to, uint32_t dtype, size_t count) {
    uint32_t seed = 1;
    for (size_t i = 0; i < count; i++) {
        const int k = draw(&seed);
        if (dtype == PITH_F32)
            ((float *)to)[i] = (float)k / 512;
        else
            ((uint16_t *)to)[i] = dtype == PITH_F16 ? to_f16(k) : to_bf16((float)k / 512);
    }
}

/* ---- Whole tensors ---------------------------------------------------------------------------*/

/* Goals: shares of a read-only sum and of the best fill; of 16-bit values, shares of a copy
 * baseline of the same bytes. 0: none. */
struct row {
    const char *spec;
    uint32_t dtype;
    double encode, decode;
};

static const struct row rows[] = {
    {"kv:bits=4", PITH_F32, 0.8, 0.85},
    {"kv:bits=2", PITH_F32, 0.8, 0},
    {"kv:bits=4", PITH_BF16, 0.7, 0.7},
    {"kv:bits=4", PITH_F16, 0.7, 0.7},
    {"kv:bits=4,axis=channel", PITH_F32, 0.6, 0},
    {"kv:bits=4,rotate_heads=on,codebook=lloyd", PITH_F32, 0.3, 0},
    {"kv:preset=q8", PITH_F32, 0, 0},
    {"kv:preset=xquant3", PITH_F16, 0, 0},
    {"kv:preset=kivi2", PITH_F16, 0, 0},
    {"kv:preset=quarot4", PITH_F16, 0, 0},
    {"kv:preset=kvquant-lite", PITH_F16, 0, 0},
    {"kv:preset=trellis2", PITH_F16, 0, 0},
    {"kv:preset=quarot4", PITH_BF16, 0, 0},
    {"kv:preset=kvquant-lite", PITH_BF16, 0, 0},
    {"kv:bits=2,codebook=trellis", PITH_F32, 0, 0.8},
    {"kv:bits=3,codebook=trellis", PITH_F32, 0, 0.8},
    {"kv:bits=4,codebook=trellis", PITH_F32, 0, 0.8},
    {"kv:bits=2,search=mse", PITH_F32, 0, 0},
    {"kv:preset=q4", PITH_F32, 0, 0},
};

struct tensor {
    uint32_t dtype;
    size_t bytes;
    int copies;
    void *in[RUNS_COPIES], *out[RUNS_COPIES];
};

static void open_tensor(struct tensor *t, uint32_t dtype) {
    t->dtype = dtype;
    t->bytes = COUNT * pith_dtype_bytes(dtype);
    t->copies = runs_copies(t->bytes);
    for (int i = 0; i < t->copies; i++) {
        t->in[i] = runs_allocate(t->bytes);
        t->out[i] = runs_allocate(t->bytes);
        if (i == 0)
            fill(t->in[i], dtype, COUNT);
        else
            memcpy(t->in[i], t->in[0], t->bytes);
    }
}

static void close_tensor(struct tensor *t) {
    for (int i = 0; i < t->copies; i++) {
        free(t->in[i]);
        free(t->out[i]);
    }
}

struct times {
    size_t runs;
    double encode[RUNS], decode[RUNS], read[RUNS], fill[2][RUNS];
    double in[BASELINE_VARIANTS][RUNS], out[BASELINE_VARIANTS][RUNS];
};

static double move(const void *from, size_t read, void *to, size_t written, int variant) {
    const struct roofline_baseline m = {
        .read = {from}, .read_bytes = {read}, .write = {to}, .write_bytes = {written}};
    return roofline_move(&m, variant);
}

static void time_roofline(const struct tensor *t, uint8_t *frame, size_t cap, int run,
                          struct times *s) {
    const int at = 3 * run + 1;
    s->read[run] = roofline_read(t->in[at % t->copies], t->bytes);
    for (int k = 0; k < 2; k++)
        s->fill[k][run] = roofline_fill(t->out[(at + k) % t->copies], t->bytes, k == 1);
    for (int k = 0; t->dtype != PITH_F32 && k < BASELINE_VARIANTS; k++) {
        s->in[k][run] = move(t->in[(at + k) % t->copies], t->bytes, frame, cap, k);
        s->out[k][run] = move(frame, cap, t->out[(at + k) % t->copies], t->bytes, k);
    }
}

/* A frame for every copy: the copy baseline writes over them. */
static void time_run(struct end *e, const struct tensor *t, uint8_t *const *frames, size_t cap,
                     int run, struct times *s) {
    const int copy = 3 * run % t->copies;
    const pith_view in = view_of(t->in[copy], t->dtype, TOKENS);
    const pith_view out = view_of(t->out[copy], t->dtype, TOKENS);
    size_t n;
    time_roofline(t, frames[(copy + 1) % t->copies], cap, run, s);
    const double from = roofline_clock();
    if (end_encode(e, &in, frames[copy], cap, &n)) exit(1);
    const double between = roofline_clock();
    if (end_decode(e, frames[copy], n, &out)) exit(1);
    s->encode[run] = between - from;
    s->decode[run] = roofline_clock() - between;
}

static double value_at(const void *data, uint32_t dtype, size_t i) {
    uint16_t h;
    uint32_t u;
    float x;
    if (dtype == PITH_F32) {
        memcpy(&x, (const uint8_t *)data + 4 * i, sizeof x);
        return (double)x;
    }
    memcpy(&h, (const uint8_t *)data + 2 * i, sizeof h);
    if (dtype == PITH_F16)
        return (h >> 15 ? -1 : 1) * ldexp((h & 0x3FF) + (h >> 10 & 31 ? 1024 : 0),
                                          (h >> 10 & 31 ? h >> 10 & 31 : 1) - 25);
    u = (uint32_t)h << 16;
    memcpy(&x, &u, sizeof x);
    return (double)x;
}

/* Signal over noise in decibels. Every run must have given what this one did. */
static double quality(const struct tensor *t, const void *in, const void *out) {
    double signal = 0, noise = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const double x = value_at(in, t->dtype, i), e = value_at(out, t->dtype, i) - x;
        signal += x * x;
        noise += e * e;
    }
    return 10 * log10(signal / noise);
}

static double least(double (*s)[RUNS], int count, size_t runs) {
    double best = runs_median(s[0], runs);
    for (int k = 1; k < count; k++) best = fmin(best, runs_median(s[k], runs));
    return best;
}

static void cell(double gb, double own, double roofline, double goal) {
    printf(" %.2f | %.2f | %.2f |", gb / own, gb / roofline, roofline / own);
    if (goal > 0)
        printf(" %.2f |", goal);
    else
        printf(" |");
}

static void print_row(const struct row *row, const struct tensor *t, size_t frame, double snr,
                      struct times *s) {
    const double gb = 1e-9 * (double)t->bytes;
    const bool wide = t->dtype == PITH_F32;
    printf("| `%s` | %s | %.2f | %.1f |", row->spec, pith_dtype_name(t->dtype),
           8.0 * (double)frame / COUNT, snr);
    cell(gb, runs_median(s->encode, s->runs),
         wide ? runs_median(s->read, s->runs) : least(s->in, BASELINE_VARIANTS, s->runs),
         row->encode);
    cell(gb, runs_median(s->decode, s->runs),
         wide ? least(s->fill, 2, s->runs) : least(s->out, BASELINE_VARIANTS, s->runs),
         row->decode);
    puts("");
    fflush(stdout);
}

static void codec_row(const struct row *row, const struct tensor *t) {
    static struct times s;
    struct end e;
    open_tokens(&e, row->spec, t->dtype, TOKENS);
    const size_t cap = (size_t)pith_plan_frame_bytes(e.plan, 0, 0);
    uint8_t *frames[RUNS_COPIES];
    void *const first = runs_allocate(t->bytes);
    for (int i = 0; i < t->copies; i++) frames[i] = runs_allocate(cap);
    s.runs = RUNS;
    for (int run = 0; run < (int)s.runs; run++) {
        time_run(&e, t, frames, cap, run, &s);
        if (s.encode[run] > SLOW) s.runs = FEW;
        const void *const out = t->out[3 * run % t->copies];
        if (run == 0) memcpy(first, out, t->bytes);
        if (memcmp(first, out, t->bytes) != 0) fail(row->spec, "two runs differ");
    }
    print_row(row, t, cap, quality(t, t->in[0], first), &s);
    for (int i = 0; i < t->copies; i++) free(frames[i]);
    free(first);
    end_close(&e);
}

static void codec_table(void) {
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16};
    puts(
        "| setting | dtype | bits per value | SNR, dB | encode, GB/s | roofline | share | goal | "
        "decode, GB/s | roofline | share | goal "
        "|\n|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        struct tensor t;
        open_tensor(&t, dtypes[d]);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            if (rows[i].dtype == t.dtype) codec_row(&rows[i], &t);
        close_tensor(&t);
    }
}

/* ---- Appending -------------------------------------------------------------------------------*/

enum { LAYERS = 32, STEPS = 256, ROUNDS = 101 };
#define ENOUGH 3.0 /* seconds of rounds */

struct layers {
    struct end end;
    uint32_t dtype;
    size_t bytes, frame_bytes;
    void *memory[LAYERS], *frame[LAYERS];
    pith_kv *cache[LAYERS];
};

static void open_layers(struct layers *l, const char *spec, uint32_t dtype) {
    *l = (struct layers){.dtype = dtype};
    open_tokens(&l->end, spec, dtype, STEPS);
    l->bytes = (size_t)pith_kv_bytes(l->end.plan, STEPS);
    l->frame_bytes = (size_t)pith_plan_frame_bytes(l->end.plan, 0, 0);
    for (int i = 0; i < LAYERS; i++) {
        l->memory[i] = runs_allocate(l->bytes);
        l->frame[i] = runs_allocate(l->frame_bytes);
    }
}

static void close_layers(struct layers *l) {
    for (int i = 0; i < LAYERS; i++) {
        free(l->memory[i]);
        free(l->frame[i]);
    }
    end_close(&l->end);
}

static void empty_caches(struct layers *l) {
    for (int i = 0; i < LAYERS; i++)
        if (pith_kv_init(l->end.plan, l->memory[i], l->bytes, &l->cache[i], NULL) != PITH_OK)
            fail(l->end.spec, "no caches");
}

/* Seconds to give every layer STEPS tokens, so many a call. The values lie in the order in which
 * they are appended. */
static double append(struct layers *l, const uint8_t *values, uint64_t at_once) {
    const size_t step = (size_t)at_once * ROW * pith_dtype_bytes(l->dtype);
    empty_caches(l);
    const double from = roofline_clock();
    for (uint64_t t = 0; t < STEPS; t += at_once)
        for (int i = 0; i < LAYERS; i++, values += step) {
            const pith_view view = view_of(values, l->dtype, at_once);
            must(&l->end, pith_kv_append(l->end.work, &l->cache[i], &view, 1));
        }
    return roofline_clock() - from;
}

/* Seconds to give every layer STEPS tokens, one token of every layer a call. */
static double append_together(struct layers *l, const uint8_t *values) {
    const size_t step = ROW * pith_dtype_bytes(l->dtype);
    const pith_view like = view_of(NULL, l->dtype, 1);
    pith_kv_tokens to[LAYERS];
    empty_caches(l);
    const double from = roofline_clock();
    for (uint64_t t = 0; t < STEPS; t++) {
        for (int i = 0; i < LAYERS; i++, values += step)
            to[i] = (pith_kv_tokens){l->cache[i], values};
        must(&l->end, pith_kv_append_batch(l->end.work, &like, to, LAYERS));
    }
    return roofline_clock() - from;
}

/* Seconds to encode STEPS tokens of every layer, a frame each. */
static double encode_layers(struct layers *l, const uint8_t *values) {
    const size_t step = (size_t)STEPS * ROW * pith_dtype_bytes(l->dtype);
    size_t n;
    const double from = roofline_clock();
    for (int i = 0; i < LAYERS; i++, values += step) {
        const pith_view view = view_of(values, l->dtype, STEPS);
        if (end_encode(&l->end, &view, l->frame[i], l->frame_bytes, &n)) exit(1);
    }
    return roofline_clock() - from;
}

/* [layer][token] to [token][layer]. */
static void interleave(uint8_t *to, const uint8_t *from, size_t row) {
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t t = 0; t < STEPS; t++)
            memcpy(to + (t * LAYERS + l) * row, from + (l * STEPS + t) * row, row);
}

static void same(struct layers *a, struct layers *b) {
    const size_t bytes = (size_t)pith_kv_save_bytes(a->cache[0]);
    uint8_t *const one = runs_allocate(bytes), *const two = runs_allocate(bytes);
    size_t n, m;
    for (int i = 0; i < LAYERS; i++) {
        must(&a->end, pith_kv_save(a->end.work, a->cache[i], one, bytes, &n));
        must(&b->end, pith_kv_save(b->end.work, b->cache[i], two, bytes, &m));
        if (n != m || memcmp(one, two, n) != 0) fail(a->end.spec, "one by one is not as in bulk");
    }
    free(one);
    free(two);
}

/* Seconds of the four operations in every round. */
struct appends {
    double encoded[ROUNDS], bulk[ROUNDS], single[ROUNDS], together[ROUNDS];
    size_t rounds;
};

static void time_appends(struct layers *a, struct layers *b, const uint8_t *by_layer,
                         const uint8_t *by_token, struct appends *s) {
    s->rounds = 0;
    for (double spent = 0; s->rounds < ROUNDS && spent < ENOUGH; s->rounds++) {
        const size_t i = s->rounds;
        s->encoded[i] = encode_layers(a, by_layer);
        s->bulk[i] = append(a, by_layer, STEPS);
        s->single[i] = append(b, by_token, 1);
        same(a, b);
        s->together[i] = append_together(b, by_token);
        same(a, b);
        spent += s->encoded[i] + s->bulk[i] + s->single[i] + s->together[i];
    }
}

static void print_appends(const char *spec, uint32_t dtype, struct appends *s) {
    const double unit = 1e9 / ((double)LAYERS * STEPS * ROW);
    const double frames = unit * runs_median(s->encoded, s->rounds);
    const double bulk = unit * runs_median(s->bulk, s->rounds);
    const double single = unit * runs_median(s->single, s->rounds);
    const double together = unit * runs_median(s->together, s->rounds);
    printf("| `%s` | %s | %.3f | %.3f | %.3f | %.2f | %.3f | %.2f | 1.50 |\n", spec,
           pith_dtype_name(dtype), frames, bulk, single, single / frames, together,
           together / frames);
    fflush(stdout);
}

static void append_row(const char *spec, uint32_t dtype) {
    static struct appends s;
    struct layers a, b;
    const size_t row = ROW * pith_dtype_bytes(dtype), values = (size_t)LAYERS * STEPS * ROW;
    uint8_t *const by_layer = runs_allocate(values / ROW * row), *const by_token = runs_allocate(
                                                                     values / ROW * row);
    fill(by_layer, dtype, values);
    interleave(by_token, by_layer, row);
    open_layers(&a, spec, dtype);
    open_layers(&b, spec, dtype);
    time_appends(&a, &b, by_layer, by_token, &s);
    print_appends(spec, dtype, &s);
    close_layers(&a);
    close_layers(&b);
    free(by_layer);
    free(by_token);
}

static void append_table(void) {
    puts(
        "| setting | dtype | encoding 256 tokens, ns per value | appending 256 | one token, a call "
        "for each layer | of encoding | one token, one call for all layers | of encoding | at most "
        "|\n|---|---|---|---|---|---|---|---|---|");
    append_row("kv:bits=4", PITH_F32);
    append_row("kv:bits=4", PITH_F16);
    append_row("kv:bits=2", PITH_F16);
    append_row("kv:bits=4,rotate_heads=on,codebook=lloyd", PITH_F16);
    append_row("kv:preset=trellis2", PITH_F16);
    append_row("kv:preset=kivi4,axis=token", PITH_F16);
    append_row("kv:preset=kivi4", PITH_F16);
}

/* ---- Reading ---------------------------------------------------------------------------------*/

enum { LONGEST = 1 << 17, READ = 16, READS = 2001 };

struct reader {
    struct end end;
    pith_kv *cache;
    uint64_t tokens;
    float *to;
};

/* Microseconds of reading READ tokens somewhere, so many heads: median. */
static double scattered(const struct reader *r, uint32_t heads, uint32_t *seed) {
    static double s[READS];
    const uint64_t shape[] = {READ, heads, DIM};
    const pith_view view = pith_view_dense(r->to, PITH_F32, 3, shape);
    for (int i = 0; i < READS; i++) {
        const uint64_t first = (next(seed) >> 8) % (r->tokens - READ);
        const uint32_t head = heads == HEADS ? 0 : next(seed) >> 16 & (HEADS - 1);
        const double from = roofline_clock();
        must(&r->end, pith_kv_read(r->end.work,
                                   &(pith_kv_range){r->cache, first, READ, head, heads, view}, 1));
        s[i] = roofline_clock() - from;
    }
    return 1e6 * runs_median(s, READS);
}

static double whole(const struct reader *r) {
    double s[3];
    const pith_view view = view_of(r->to, PITH_F32, r->tokens);
    for (int i = 0; i < 3; i++) {
        const double from = roofline_clock();
        must(&r->end, pith_kv_read(r->end.work,
                                   &(pith_kv_range){r->cache, 0, r->tokens, 0, HEADS, view}, 1));
        s[i] = roofline_clock() - from;
    }
    return 1e6 * runs_median(s, 3);
}

static void read_table(const char *spec) {
    struct reader r = {.cache = NULL};
    open_tokens(&r.end, spec, PITH_F32, LONGEST);
    const size_t bytes = (size_t)pith_kv_bytes(r.end.plan, LONGEST);
    void *const memory = runs_allocate(bytes);
    r.to = runs_allocate((size_t)LONGEST * ROW * sizeof *r.to);
    fill(r.to, PITH_F32, (size_t)1024 * ROW);
    float *const values = runs_allocate((size_t)1024 * ROW * sizeof *values);
    memcpy(values, r.to, (size_t)1024 * ROW * sizeof *values);
    const pith_view view = view_of(values, PITH_F32, 1024);
    uint32_t seed = 1;
    printf(
        "| `%s`: tokens held | 16 tokens, us | of one head, us | all tokens, us |\n"
        "|---|---|---|---|\n",
        spec);
    if (pith_kv_init(r.end.plan, memory, bytes, &r.cache, NULL) != PITH_OK) fail(spec, "no cache");
    while (r.tokens < LONGEST) {
        must(&r.end, pith_kv_append(r.end.work, &r.cache, &view, 1));
        r.tokens += 1024;
        if (r.tokens & (r.tokens - 1)) continue;
        const double all = scattered(&r, HEADS, &seed), one = scattered(&r, 1, &seed);
        printf("| %llu | %.2f | %.2f | %.0f |\n", (unsigned long long)r.tokens, all, one,
               whole(&r));
        fflush(stdout);
    }
    free(values);
    free(r.to);
    free(memory);
    end_close(&r.end);
    puts("");
}

int main(int argc, char **argv) {
    const char *const which = argc == 2 ? argv[1] : "";
    if (strcmp(which, "codec") == 0)
        codec_table();
    else if (strcmp(which, "append") == 0)
        append_table();
    else if (strcmp(which, "read") == 0) {
        read_table("kv:bits=4");
        read_table("kv:bits=4,axis=channel");
        read_table("kv:preset=kvquant-lite");
    } else
        fail("usage", "kv codec|append|read");
    return 0;
}
