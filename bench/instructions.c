/* instructions.c - makes the calls that tools/instructions.py counts the instructions of.
 * SPDX-License-Identifier: Apache-2.0
 *
 * instructions [CPU_MASK]: a line for each call on stdout, with tabs between what is called, the
 * setting, dtypes of values and base, how many values a call takes, and a hash of what it wrote
 * (and of the frame it read).
 * Every call is made once before, so that code, tables and pages are there. The counters see where
 * one begins and ends by the function `counted`, which also yields, once on either side: emulators
 * see calls of the system more easily than functions. */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "end.h"
#include "pith/kv.h"

/* Settings that take thousands of instructions for a value get few. */
enum { COUNT = 1 << 18, FEW = 1 << 15 };
enum { HEADS = 8, DIM = 128, ROW = HEADS * DIM };
enum { CALLS = 2, FRAMES = 8 };

struct setting {
    const char *spec;
    uint32_t dtype, base;
    uint64_t count;
    bool adds; /* decoding by adding is counted too */
};

static const struct setting settings[] = {
    {"raw", PITH_F32, PITH_NONE, COUNT, false},
    {"lossless", PITH_F32, PITH_NONE, COUNT, false},
    {"lossless", PITH_F32, PITH_F32, COUNT, false},
    {"lossless", PITH_BF16, PITH_NONE, COUNT, false},
    {"lossless", PITH_BF16, PITH_BF16, COUNT, false},
    {"lossless:entropy=rans", PITH_F32, PITH_F32, COUNT, false},
    {"lossless:entropy=rans", PITH_BF16, PITH_BF16, COUNT, false},
    {"wdiff", PITH_F32, PITH_NONE, COUNT, true},
    {"wdiff", PITH_F32, PITH_F32, COUNT, true},
    {"wdiff", PITH_F32, PITH_BF16, COUNT, true},
    {"wdiff:group=128", PITH_F32, PITH_NONE, COUNT, false},
    {"wdiff:group=128", PITH_F32, PITH_F32, COUNT, false},
    {"wdiff:group=128", PITH_F32, PITH_BF16, COUNT, false},
    {"wdiff:round=stochastic", PITH_F32, PITH_F32, COUNT, false},
    {"wdiff:entropy=rans", PITH_F32, PITH_F32, COUNT, false},
    {"wdiff:codebook=trellis", PITH_F32, PITH_F32, FEW, false},
    {"grad", PITH_F32, PITH_NONE, COUNT, true},
    {"grad:bits=8", PITH_F32, PITH_NONE, COUNT, false},
    {"grad:round=stochastic", PITH_F32, PITH_NONE, COUNT, false},
    {"grad:search=mse", PITH_F32, PITH_NONE, FEW, false},
    {"grad:codebook=trellis", PITH_F32, PITH_NONE, FEW, false},
    {"eb:rel=1e-3", PITH_F32, PITH_NONE, COUNT, true},
    {"eb:mode=ratio,rel=1e-3", PITH_F32, PITH_NONE, COUNT, false},
    {"embed:rel=0.01", PITH_F32, PITH_NONE, COUNT, false},
    {"act:rel=1e-3", PITH_F32, PITH_NONE, COUNT, false},
    {"act:mode=ratio,rel=1e-3", PITH_F32, PITH_NONE, COUNT, false},
    {"kv", PITH_F32, PITH_NONE, COUNT, true},
    {"kv", PITH_F32, PITH_F32, COUNT, true},
    {"kv", PITH_F32, PITH_BF16, COUNT, false},
    {"kv:preset=q8", PITH_F32, PITH_NONE, COUNT, false},
    {"kv:preset=q4", PITH_F32, PITH_NONE, FEW, false},
    {"kv:preset=kivi2", PITH_F16, PITH_NONE, COUNT, false},
    {"kv:preset=xquant3", PITH_F16, PITH_NONE, COUNT, true},
    {"kv:preset=quarot4", PITH_F16, PITH_NONE, COUNT, false},
    {"kv:preset=kvquant-lite", PITH_F16, PITH_NONE, FEW, false},
    {"kv:codebook=trellis", PITH_F16, PITH_NONE, FEW, false},
    {"kv:entropy=rans", PITH_F32, PITH_NONE, COUNT, false},
    {"topk:density=0.01", PITH_F32, PITH_NONE, COUNT, true},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static const struct setting paged[] = {
    {"kv:page=16", PITH_F16, PITH_NONE, COUNT, false},
    {"kv:page=16,preset=q8", PITH_F16, PITH_NONE, COUNT, false},
};
enum { PAGED = sizeof paged / sizeof *paged };

static pith_env env = {.size = sizeof env};

/* Why is on stderr. */
static void must(int failed) {
    if (failed) exit(1);
}

static void *memory_of(uint64_t bytes) {
    void *const p = calloc(1, (size_t)bytes + 64);
    if (!p) fprintf(stderr, "no memory\n");
    must(!p);
    return p;
}

/* ---- Values: near normal weights, and what these were a step before ---------------------------*/

static uint32_t next(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

static float noise(uint32_t *seed) {
    int sum = 0;
    for (int i = 0; i < 4; i++) sum += (int)(next(seed) >> 16);
    return (float)(sum - 131070) * 0x1p-15f;
}

/* What a tensor was, and is in each call: every one makes a step of a thousandth. */
static float *steps[1 + CALLS];

static void make_steps(void) {
    uint32_t seed = 1;
    for (int k = 0; k <= CALLS; k++) {
        steps[k] = memory_of(COUNT * sizeof *steps[k]);
        for (size_t i = 0; i < COUNT; i++)
            steps[k][i] = k ? steps[k - 1][i] + 2e-5f * noise(&seed) : 0.02f * noise(&seed);
    }
}

/* In 16 bits, near enough; f16 has 0 where the value is below its normal ones. */
static uint16_t narrow(float value, uint32_t dtype) {
    enum { SHIFT = 13, LEAST = 113 << 23, BIAS = 112 << 23 };
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    if (dtype == PITH_BF16) return (uint16_t)(u >> 16);
    const uint32_t size = u & INT32_MAX, sign = u >> 31 << 15;
    return (uint16_t)(sign | (size < LEAST ? 0 : (size - BIAS) >> SHIFT));
}

/* The first of the values of a call. */
static void *values_of(uint32_t dtype, uint64_t count, int call) {
    float *const v = memory_of(count * sizeof *v);
    memcpy(v, steps[call], (size_t)count * sizeof *v);
    if (dtype == PITH_F32) return v;
    uint16_t *const to = memory_of(count * sizeof *to);
    for (uint64_t i = 0; i < count; i++) to[i] = narrow(v[i], dtype);
    free(v);
    return to;
}

/* ---- One call --------------------------------------------------------------------------------*/

enum what { ENCODE, DECODE, DECODE_ADD, REDUCE, REDUCE_ENCODE, PAGES_ENCODE, PAGES_DECODE };
static const char *const names[] = {"encode",        "decode",       "decode_add",  "reduce",
                                    "reduce_encode", "encode_pages", "decode_pages"};

/* What calls need; members that a call does not use are 0. */
struct call {
    enum what what;
    struct end *end, *out;
    pith_view view;
    void *frame; /* or pages */
    size_t capacity, length;
    const void *const *frames;
    const size_t *lengths;
    const pith_kv_pair *pairs;
    size_t pages;
};

static pith_status make(struct call *c) {
    pith_item item = {.size = sizeof item,
                      .stream = c->end->stream,
                      .view = c->view,
                      .frame = c->frame,
                      .length = c->length};
    switch (c->what) {
    case ENCODE: return end_encode(c->end, &c->view, c->frame, c->capacity, &c->length);
    case DECODE: return end_decode(c->end, c->frame, c->length, &c->view);
    case DECODE_ADD: return end_said(c->end, pith_decode(c->end->work, &item, 1, PITH_ADD));
    case REDUCE: return end_reduce(c->end, c->frames, c->lengths, FRAMES, &c->view);
    case REDUCE_ENCODE:
        return end_reduce_encode(c->end, c->frames, c->lengths, FRAMES, c->out, c->frame,
                                 c->capacity, &c->length);
    case PAGES_ENCODE:
        return end_said(
            c->end, pith_kv_encode_pages(c->end->work, c->end->plan, &c->view, c->pairs, c->pages));
    default:
        return end_said(
            c->end, pith_kv_decode_pages(c->end->work, c->end->plan, &c->view, c->pairs, c->pages));
    }
}

/* A name that counters find. */
pith_status counted(struct call *c);
__attribute__((noinline)) pith_status counted(struct call *c) {
    sched_yield();
    const pith_status status = make(c);
    sched_yield();
    return status;
}

static uint64_t hash_of(const uint8_t *bytes, size_t n) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static void say(const struct setting *s, enum what what, uint64_t hash) {
    printf("%s\t%s\t%s\t%s\t%llu\t%016llx\n", names[what], s->spec, pith_dtype_name(s->dtype),
           s->base == PITH_NONE ? "-" : pith_dtype_name(s->base), (unsigned long long)s->count,
           (unsigned long long)hash);
    fflush(stdout);
}

/* ---- Streams of frames -----------------------------------------------------------------------*/

static pith_layout layout_of(const struct setting *s) {
    pith_layout layout = {.size = sizeof layout,
                          .dtype = s->dtype,
                          .base_dtype = s->base,
                          .ndim = 1,
                          .flags = s->base != PITH_NONE ? PITH_LAYOUT_EXTERNAL_BASE : 0,
                          .shape = {s->count}};
    if (strncmp(s->spec, "kv", 2) != 0) return layout;
    layout.ndim = 3;
    layout.shape[0] = s->count / ROW;
    layout.shape[1] = HEADS;
    layout.shape[2] = DIM;
    return layout;
}

static void bind(const struct setting *s, struct end *e, void *base) {
    if (s->base != PITH_NONE) must(end_said(e, pith_stream_bind_base(e->work, e->stream, base, 0)));
}

static void count_setting(const struct setting *s) {
    const pith_layout layout = layout_of(s);
    const uint32_t base_dtype = s->base != PITH_NONE ? s->base : s->dtype;
    struct end sender, receiver;
    void *values[CALLS], *frames[CALLS], *base[2];
    size_t lengths[CALLS];
    must(end_open(&sender, s->spec, &layout, &env, NULL));
    must(end_open(&receiver, s->spec, &layout, &env, NULL));
    for (int i = 0; i < 2; i++) base[i] = values_of(base_dtype, s->count, 0);
    bind(s, &sender, base[0]);
    bind(s, &receiver, base[1]);
    for (int i = 0; i < CALLS; i++) {
        frames[i] = memory_of(sender.sizes.slot_bytes);
        values[i] = values_of(s->dtype, s->count, i + 1);
        struct call c = {.what = ENCODE,
                         .end = &sender,
                         .view = pith_view_dense(values[i], s->dtype, layout.ndim, layout.shape),
                         .frame = frames[i],
                         .capacity = (size_t)sender.sizes.slot_bytes};
        must(i + 1 < CALLS ? make(&c) : counted(&c));
        lengths[i] = c.length;
    }
    const uint64_t frame_hash = hash_of(frames[CALLS - 1], lengths[CALLS - 1]);
    say(s, ENCODE, frame_hash);
    /* Adding to the base of a receiver, or, where there is none, to any values. */
    void *const sum = values_of(base_dtype, s->count, 0);
    void *const out = memory_of(s->count * pith_dtype_bytes(s->dtype));
    const uint32_t added = s->base != PITH_NONE ? s->base : s->dtype;
    for (enum what what = DECODE; what <= (s->adds ? DECODE_ADD : DECODE); what++) {
        void *const to = what == DECODE ? out : sum;
        const uint32_t dtype = what == DECODE ? s->dtype : added;
        for (int i = 0; i < CALLS; i++) {
            struct call c = {.what = what,
                             .end = &receiver,
                             .view = pith_view_dense(to, dtype, layout.ndim, layout.shape),
                             .frame = frames[i],
                             .length = lengths[i]};
            must(i + 1 < CALLS ? make(&c) : counted(&c));
        }
        say(s, what, frame_hash ^ hash_of(to, (size_t)s->count * pith_dtype_bytes(dtype)));
    }
    for (int i = 0; i < CALLS; i++) free(frames[i]), free(values[i]), free(base[i]);
    free(sum);
    free(out);
    end_close(&sender);
    end_close(&receiver);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

static void count_sums(const char *in_spec, const char *out_spec) {
    const struct setting in = {in_spec, PITH_F32, PITH_NONE, COUNT / FRAMES, false};
    struct setting said = in;
    const pith_layout layout = layout_of(&in);
    const uint64_t bytes = in.count * sizeof(float);
    void *frames[FRAMES];
    size_t lengths[FRAMES];
    struct end from, to;
    char spec[2 * PITH_SPEC_MAX];
    must(end_open(&from, in_spec, &layout, &env, NULL));
    must(end_open(&to, out_spec, &layout, &env, NULL));
    for (int i = 0; i < FRAMES; i++) {
        const pith_view view =
            pith_view_flat(steps[0] + in.count * (uint64_t)i, PITH_F32, in.count);
        frames[i] = memory_of(from.sizes.slot_bytes);
        must(end_encode(&from, &view, frames[i], (size_t)from.sizes.slot_bytes, &lengths[i]));
    }
    snprintf(spec, sizeof spec, "%d x %s", FRAMES, in_spec);
    said.spec = spec;
    void *const out = memory_of(bytes > to.sizes.slot_bytes ? bytes : to.sizes.slot_bytes);
    struct call c = {.what = REDUCE,
                     .end = &from,
                     .out = &to,
                     .view = pith_view_flat(out, PITH_F32, in.count),
                     .frame = out,
                     .capacity = (size_t)to.sizes.slot_bytes,
                     .frames = (const void *const *)frames,
                     .lengths = lengths};
    must(make(&c) || counted(&c));
    say(&said, REDUCE, hash_of(out, (size_t)bytes));
    must(end_widen(&from, &to));
    c.what = REDUCE_ENCODE;
    must(make(&c) || counted(&c));
    snprintf(spec, sizeof spec, "%d x %s to %s", FRAMES, in_spec, out_spec);
    say(&said, REDUCE_ENCODE, hash_of(out, c.length));
    for (int i = 0; i < FRAMES; i++) free(frames[i]);
    free(out);
    end_close(&from);
    end_close(&to);
}

/* ---- Pages of a pool -------------------------------------------------------------------------*/

static void count_pages(const struct setting *s) {
    const pith_layout layout = layout_of(s);
    struct end e;
    must(end_open(&e, s->spec, &layout, &env, NULL));
    const uint32_t tokens = pith_kv_page_tokens(e.plan);
    const size_t pages = (size_t)(layout.shape[0] / tokens),
                 bytes = (size_t)pith_kv_page_bytes(e.plan, tokens),
                 value_bytes = (size_t)tokens * ROW * pith_dtype_bytes(s->dtype);
    const uint64_t shape[] = {tokens, HEADS, DIM};
    uint8_t *const values = values_of(s->dtype, s->count, 0), *const pool =
                                                                  memory_of(pages * bytes);
    pith_kv_pair *const pairs = memory_of(pages * sizeof *pairs);
    for (size_t i = 0; i < pages; i++)
        pairs[i] = (pith_kv_pair){.values = values + i * value_bytes, .page = pool + i * bytes};
    struct call c = {.what = PAGES_ENCODE,
                     .end = &e,
                     .view = pith_view_dense(NULL, s->dtype, 3, shape),
                     .pairs = pairs,
                     .pages = pages};
    must(make(&c) || counted(&c));
    say(s, PAGES_ENCODE, hash_of(pool, pages * bytes));
    c.what = PAGES_DECODE;
    must(make(&c) || counted(&c));
    say(s, PAGES_DECODE, hash_of(values, pages * value_bytes));
    free(pairs);
    free(pool);
    free(values);
    end_close(&e);
}

int main(int argc, char **argv) {
    if (argc > 1) env.cpu_mask = (uint32_t)strtoul(argv[1], NULL, 0);
    make_steps();
    for (int i = 0; i < SETTINGS; i++) count_setting(&settings[i]);
    count_sums("grad:bits=8", "grad:bits=4");
    count_sums("grad:bits=4", "grad:bits=4");
    count_sums("grad:codebook=trellis", "grad:codebook=trellis");
    for (int i = 0; i < PAGED; i++) count_pages(&paged[i]);
    for (int k = 0; k <= CALLS; k++) free(steps[k]);
    return 0;
}
