/* test_kv.c - pages of tokens: sizes, idempotent codes, parts, strides, refusals, a base, presets.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "util.h"

struct shape {
    uint32_t ndim;
    uint64_t n[5];
};

/* What a spec says, as the sizes need it. */
struct setting {
    const char *spec;
    unsigned axis, bits, group, page, scales; /* scales: bytes per group; axis 1: channel */
    bool rotated;                             /* only heads of 32..256, a power of two */
    unsigned outliers;                        /* thousandths of a group */
};
static const struct setting settings[] = {
    {"kv", 0, 4, 128, 128, 4, false, 0},
    {"kv:bits=2,group=16,page=16", 0, 2, 16, 16, 4, false, 0},
    {"kv:bits=3,group=32,page=16,scale_dtype=bf16", 0, 3, 32, 16, 4, false, 0},
    {"kv:bits=5,group=64,page=32,scale_dtype=f32", 0, 5, 64, 32, 8, false, 0},
    {"kv:bits=6,group=16,page=64,symmetric=on", 0, 6, 16, 64, 2, false, 0},
    {"kv:bits=8,group=256,page=128,symmetric=on,scale_dtype=bf16", 0, 8, 256, 128, 2, false, 0},
    {"kv:bits=4,group=32,page=16,symmetric=on,scale_dtype=f32", 0, 4, 32, 16, 4, false, 0},
    {"kv:bits=2,group=64,page=16,search=mse", 0, 2, 64, 16, 4, false, 0},
    {"kv:preset=q4,page=16", 0, 4, 32, 16, 2, false, 0},
    {"kv:axis=channel,bits=2,group=32,page=64", 1, 2, 32, 64, 4, false, 0},
    {"kv:axis=channel,bits=3,group=16,page=16,scale_dtype=bf16", 1, 3, 16, 16, 4, false, 0},
    {"kv:axis=channel,bits=4", 1, 4, 128, 128, 4, false, 0},
    {"kv:axis=channel,bits=5,group=16,page=32,scale_dtype=f32", 1, 5, 16, 32, 8, false, 0},
    {"kv:axis=channel,bits=6,group=64,page=64,symmetric=on", 1, 6, 64, 64, 2, false, 0},
    {"kv:axis=channel,bits=8,group=16,page=128,symmetric=on", 1, 8, 16, 128, 2, false, 0},
    {"kv:axis=channel,bits=2,group=16,page=16,search=mse", 1, 2, 16, 16, 4, false, 0},
    {"kv:preset=quarot4", 0, 4, 128, 128, 4, true, 0},
    {"kv:rotate_heads=on", 0, 4, 128, 128, 4, true, 0},
    {"kv:rotate_heads=on,axis=channel,bits=4,group=32,page=32", 1, 4, 32, 32, 4, true, 0},
    {"kv:order=heads,bits=4,group=32,page=32", 0, 4, 32, 32, 4, false, 0},
    {"kv:order=heads,axis=channel,bits=3,group=16,page=16", 1, 3, 16, 16, 4, false, 0},
    {"kv:codebook=nf,bits=4,group=32", 0, 4, 32, 128, 2, false, 0},
    {"kv:codebook=nf,bits=2,group=16,page=16,scale_dtype=bf16", 0, 2, 16, 16, 2, false, 0},
    {"kv:codebook=lloyd,bits=3,group=64,page=32", 0, 3, 64, 32, 2, false, 0},
    {"kv:codebook=lloyd,bits=4,rotate_heads=on", 0, 4, 128, 128, 2, true, 0},
    {"kv:codebook=lloyd,bits=2,axis=channel,group=16,page=16", 1, 2, 16, 16, 2, false, 0},
    {"kv:codebook=trellis,bits=2,group=32,page=16,scale_dtype=f32", 0, 2, 32, 16, 4, false, 0},
    {"kv:codebook=trellis,rotate_heads=on", 0, 4, 128, 128, 2, true, 0},
    {"kv:codebook=trellis,bits=3,axis=channel,group=32,page=64", 1, 3, 32, 64, 2, false, 0},
    {"kv:codebook=trellis,axis=channel,group=16,page=32,order=heads", 1, 4, 16, 32, 2, false, 0},
    {"kv:codebook=trellis,outliers=0.05,group=64,page=16", 0, 4, 64, 16, 2, false, 50},
    {"kv:codebook=trellis,bits=3,axis=channel,group=32,page=64,outliers=0.1", 1, 3, 32, 64, 2,
     false, 100},
    {"kv:codebook=trellis,bits=2,axis=channel,group=64,page=64,rotate_heads=on", 1, 2, 64, 64, 2,
     true, 0},
    {"kv:preset=kvquant-lite,group=64,page=64", 1, 4, 64, 64, 2, false, 10},
    {"kv:outliers=0.05,group=64,bits=2,page=16", 0, 2, 64, 16, 4, false, 50},
    {"kv:outliers=0.125,group=16,bits=3,symmetric=on,axis=channel", 1, 3, 16, 128, 2, false, 125},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

static const struct shape shapes[] = {
    {0, {0}},          {1, {1}},           {1, {100}},           {2, {0, 64}},
    {2, {7, 0}},       {2, {1, 128}},      {2, {127, 5}},        {2, {129, 80}},
    {3, {40, 2, 96}},  {3, {33, 3, 5}},    {3, {130, 2, 64}},    {3, {17, 1, 256}},
    {3, {20, 2, 160}}, {4, {2, 35, 3, 7}}, {4, {3, 129, 2, 32}}, {5, {2, 2, 18, 2, 10}},
    {2, {33, 1100}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};

/* ---- Sizes, from FORMAT.md -------------------------------------------------------------------*/

struct rows {
    uint64_t sequences, tokens, heads, dim;
};

static struct rows rows_of(const struct setting *s, const struct shape *h) {
    struct rows r = {1, 1, 1, 1};
    uint32_t d = h->ndim;
    if (d) r.dim = h->n[--d];
    if (d > 1 && !strstr(s->spec, "order=heads")) r.heads = h->n[--d];
    if (d) r.tokens = h->n[--d];
    while (d) r.sequences *= h->n[--d];
    return r;
}

static uint64_t up(uint64_t n, uint64_t part) { return (n + part - 1) / part; }

/* Short heads have short groups, and fewer outliers. */
static uint64_t outliers_of(const struct setting *s, const struct rows *r) {
    const uint64_t n = s->axis || s->group < r->dim ? s->group : r->dim;
    const uint64_t wanted = (s->outliers * n + 500) / 1000, most = n / 8 ? n / 8 : 1;
    return !s->outliers ? 0 : !wanted ? 1 : wanted < most ? wanted : most;
}

static uint64_t page_bytes(const struct setting *s, const struct rows *r, uint64_t tokens,
                           size_t element) {
    const uint64_t heads = tokens * r->heads, n = outliers_of(s, r);
    const uint64_t groups =
        s->axis ? up(tokens, s->group) * r->heads * r->dim : heads * up(r->dim, s->group);
    return 16 * (up(groups * s->scales, 16) + up(heads * up(r->dim * s->bits, 8), 16) +
                 up(groups * n, 16) + up(groups * n * element, 16));
}

static uint64_t frame_bytes(const struct setting *s, const struct shape *h, uint32_t dtype) {
    const struct rows r = rows_of(s, h);
    const uint64_t header = h->ndim > 4 ? 112 : 64;
    uint64_t bytes = 0;
    if (r.sequences * r.tokens * r.heads * r.dim == 0) return header;
    for (uint64_t at = 0; at < r.tokens; at += s->page)
        bytes += page_bytes(s, &r, r.tokens - at < s->page ? r.tokens - at : s->page,
                            pith_dtype_bytes(dtype));
    return header + r.sequences * bytes;
}

/* ---- One tensor ------------------------------------------------------------------------------*/

struct tensor {
    const struct setting *s;
    size_t count;
    uint32_t dtype;
    void *value, *out;
    float *exact; /* decoded to f32 */
    pith_view view;
    struct frame frame;
};

/* Channels of different sizes, some far from 0. */
static void fill(void *value, uint32_t dtype, const struct shape *h, size_t count) {
    const uint64_t dim = h->ndim ? h->n[h->ndim - 1] : 1;
    uint64_t seed = count + dtype;
    for (size_t i = 0; i < count; i++) {
        const uint64_t c = i % dim;
        const double x = (double)(1 + c % 5) * gen_normal(&seed) + (c % 7 == 3 ? 40 : 0);
        store_float(value, dtype, i, bits_of((float)x));
    }
}

static void *decoded(const struct frame *f, uint32_t dtype, size_t count) {
    void *out = allocate(count * pith_dtype_bytes(dtype));
    const pith_view v = pith_view_flat(out, dtype, count);
    const pith_env env = test_env();
    CHECK_OK(pith_decompress(f->bytes, f->length, NULL, &env, &v, NULL));
    return out;
}

static void tensor_open(struct tensor *t, const struct setting *s, const struct shape *h,
                        uint32_t dtype) {
    *t = (struct tensor){.s = s, .dtype = dtype};
    t->view = pith_view_dense(NULL, dtype, h->ndim, h->n);
    t->count = (size_t)pith_view_count(&t->view);
    t->view.data = t->value = allocate(t->count * pith_dtype_bytes(dtype));
    fill(t->value, dtype, h, t->count);
    t->frame = compress(s->spec, &t->view, NULL, 0);
    CHECK(t->frame.length == frame_bytes(s, h, dtype));
    t->out = decoded(&t->frame, dtype, t->count);
    t->exact = decoded(&t->frame, PITH_F32, t->count);
}

static void tensor_close(struct tensor *t) {
    free(t->value);
    free(t->out);
    free(t->exact);
    free(t->frame.bytes);
}

static bool same_frames(const struct frame *a, const struct frame *b) {
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

static void check_values(const struct tensor *t) {
    double bound = -1;
    CHECK_OK(pith_error_bound(t->frame.bytes, t->frame.length, &bound, NULL));
    for (size_t i = 0; i < t->count; i++) {
        const double x = (double)float_of(load_float(t->value, t->dtype, i));
        CHECK(fabs(x - (double)t->exact[i]) <= bound);
    }
}

/* Decoded values coded again give the same bytes; but a rotation rounds, other values may lie
 * farthest out, and steps of 16-bit values are coarse beside the levels of lloyd; of trellis most
 * groups come back, but not all (test_trellis.c). */
static void check_idempotent(const struct tensor *t) {
    pith_view v = t->view;
    v.data = t->out;
    if (t->s->rotated || t->s->outliers) return;
    if (t->dtype != PITH_F32 && strstr(t->s->spec, "lloyd")) return;
    if (strstr(t->s->spec, "trellis")) return;
    struct frame again = compress(t->s->spec, &v, NULL, 0);
    CHECK(same_frames(&t->frame, &again));
    free(again.bytes);
}

static void check_scalar(const struct tensor *t) {
    const pith_env env = {.size = sizeof env, .cpu_mask = PITH_CPU_SCALAR};
    struct frame f = {allocate(t->frame.length), 0};
    CHECK_OK(pith_compress(t->s->spec, &t->view, NULL, NULL, &env, f.bytes, t->frame.length,
                           &f.length, NULL));
    CHECK(same_frames(&t->frame, &f));
    free(f.bytes);
}

static void check_parts(const struct tensor *t) {
    const size_t width = pith_dtype_bytes(t->dtype);
    uint64_t seed = t->count;
    for (int k = 0; k < 6; k++) {
        const size_t a = (size_t)(gen_next(&seed) % (t->count + 1));
        const size_t n = (size_t)(gen_next(&seed) % (t->count - a + 1));
        uint8_t *part = allocate(n * width);
        const pith_view v = pith_view_flat(part, t->dtype, n);
        CHECK_OK(pith_decode_range(t->frame.bytes, t->frame.length, NULL, a, NULL, &v, NULL));
        CHECK(memcmp(part, (const uint8_t *)t->out + a * width, n * width) == 0);
        free(part);
    }
}

/* Every dimension three elements apart of its like. */
static void check_strides(const struct tensor *t) {
    const size_t width = pith_dtype_bytes(t->dtype);
    uint8_t *const wide = allocate(3 * t->count * width);
    pith_view v = t->view;
    v.data = wide;
    for (uint32_t d = 0; d < v.ndim; d++) v.stride[d] *= 3;
    for (size_t i = 0; i < t->count; i++)
        memcpy(wide + 3 * i * width, (const uint8_t *)t->value + i * width, width);
    struct frame f = compress(t->s->spec, &v, NULL, 0);
    CHECK(same_frames(&t->frame, &f));
    memset(wide, 0x5A, 3 * t->count * width);
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &v, NULL));
    for (size_t i = 0; i < t->count; i++) {
        CHECK(memcmp(wide + 3 * i * width, (const uint8_t *)t->out + i * width, width) == 0);
        CHECK(all_bytes(wide + (3 * i + 1) * width, 2 * width, 0x5A));
    }
    free(wide);
    free(f.bytes);
}

static bool fits(const struct setting *s, const struct shape *h) {
    const uint64_t dim = h->ndim ? h->n[h->ndim - 1] : 1;
    return !s->rotated || dim == 32 || dim == 64 || dim == 128 || dim == 256;
}

static void test_pages(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS * SHAPES * 3; i++) {
        const struct setting *s = &settings[i % SETTINGS];
        const struct shape *h = &shapes[i / SETTINGS % SHAPES];
        struct tensor t;
        context("%s, shape %zu, %s", s->spec, i / SETTINGS % SHAPES,
                pith_dtype_name(dtypes[i / SETTINGS / SHAPES]));
        if (!fits(s, h) || !is_sampled(i, 1)) continue;
        tensor_open(&t, s, h, dtypes[i / SETTINGS / SHAPES]);
        check_values(&t);
        check_idempotent(&t);
        check_scalar(&t);
        check_parts(&t);
        check_strides(&t);
        tensor_close(&t);
    }
}

/* ---- Groups that are special -----------------------------------------------------------------*/

enum { DIM = 64, TOKENS = 64, N = DIM * TOKENS };
static const uint64_t square[2] = {TOKENS, DIM};

/* 64 x 64 values under a spec with groups of 16. */
static void through(const char *spec, uint32_t dtype, const float *value, float *out) {
    uint8_t in[N * 4];
    for (size_t i = 0; i < N; i++) store_float(in, dtype, i, bits_of(value[i]));
    const pith_view v = pith_view_dense(in, dtype, 2, square), o = pith_view_flat(out, PITH_F32, N);
    struct frame f = compress(spec, &v, NULL, 0);
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &o, NULL));
    free(f.bytes);
}

/* A value that is not finite takes its group with it and no other. */
static void test_poisoned_groups(void **state) {
    (void)state;
    static const float bad[3] = {NAN, INFINITY, -INFINITY};
    static const char *const codes[] = {
        "symmetric=off",           "symmetric=on",           "codebook=nf", "codebook=lloyd",
        "codebook=trellis,bits=2", "codebook=trellis,bits=3"};
    float value[N], out[N];
    for (size_t k = 0; k < 6 * sizeof codes / sizeof *codes; k++) {
        const bool channel = k & 1;
        char spec[80];
        snprintf(spec, sizeof spec, "kv:group=16,page=32,axis=%s,%s", channel ? "channel" : "token",
                 codes[k / 6]);
        context("%s, %zu", spec, k);
        for (size_t i = 0; i < N; i++) value[i] = (float)(i % 7);
        value[20 * DIM + 37] = bad[k / 2 % 3];
        through(spec, dtypes[k % 3], value, out);
        for (size_t i = 0; i < N; i++) {
            const bool hit =
                channel ? i % DIM == 37 && i / DIM / 16 == 1 : i / DIM == 20 && i % DIM / 16 == 2;
            CHECK(hit == (out[i] != out[i]));
            if (hit) CHECK(bits_of(out[i]) == 0x7FC00000u);
        }
    }
}

/* What lies farthest out comes back bit for bit, and what is left is coded as if it had not been
 * there. */
static void test_outliers(void **state) {
    (void)state;
    static const float far[4] = {1e30f, -700, INFINITY, NAN};
    float value[N], out[N];
    for (int k = 0; k < 16; k++) {
        const bool channel = k & 1, symmetric = k & 2;
        char spec[96];
        snprintf(spec, sizeof spec,
                 "kv:group=16,page=16,outliers=0.125,bits=%d,axis=%s,symmetric=%s",
                 symmetric ? 5 : 4, channel ? "channel" : "token", symmetric ? "on" : "off");
        context("%s, %d", spec, k);
        for (size_t i = 0; i < N; i++) value[i] = (float)((channel ? i / DIM : i) % 16);
        const size_t a = 20 * DIM + 37, b = channel ? 22 * DIM + 37 : 20 * DIM + 39;
        value[a] = far[k / 4];
        value[b] = k / 4 < 3 ? -far[k / 4] : NAN;
        through(spec, PITH_F32, value, out);
        for (size_t i = 0; i < N; i++)
            if (i == a || i == b)
                CHECK(bits_of(value[i]) == bits_of(out[i]));
            else
                CHECK(fabsf(value[i] - out[i]) <= 0.5f);
    }
}

/* Groups of one value, and values that 4 bits hold, come back as they are. */
static void test_constant_groups(void **state) {
    (void)state;
    static const char *const specs[] = {"kv:group=16,page=16", "kv:group=16,page=16,axis=channel",
                                        "kv:group=16,page=16,search=mse,bits=2"};
    static const float constants[] = {0, 1, -3, 0x1p-20f, 65504, -40.5f};
    float value[N], out[N];
    for (size_t k = 0; k < 18; k++) {
        context("%s, constant %zu", specs[k % 3], k / 3);
        for (size_t i = 0; i < N; i++) value[i] = constants[k / 3];
        through(specs[k % 3], PITH_F32, value, out);
        for (size_t i = 0; i < N; i++) CHECK(out[i] == value[i]);
    }
    for (size_t i = 0; i < N; i++) value[i] = (float)(i % 16) - 5;
    through(specs[0], PITH_F32, value, out);
    CHECK(memcmp(value, out, sizeof out) == 0);
}

/* Values that are all alike lie on one level along a trellis: what they lose is what the scale of
 * their group is rounded by. Zeros stay. */
static void test_constant_trellises(void **state) {
    (void)state;
    static const float constants[] = {0, 1, -3, 0x1p-10f, 65504, -40.5f};
    float value[N], out[N];
    for (int k = 0; k < 6 * 6; k++) {
        char spec[96];
        snprintf(spec, sizeof spec, "kv:codebook=trellis,page=64,bits=%d,group=%d,axis=%s",
                 2 + k / 6 % 3, k % 4 < 2 ? 16 : 64, k / 18 ? "channel" : "token");
        context("%s, constant %d", spec, k % 6);
        for (size_t i = 0; i < N; i++) value[i] = constants[k % 6];
        through(spec, PITH_F32, value, out);
        for (size_t i = 0; i < N; i++)
            CHECK(fabsf(out[i] - value[i]) <= 0x1p-10f * fabsf(value[i]));
    }
}

/* An offset far above what varies does not cost more than its own rounding. */
static void test_offsets(void **state) {
    (void)state;
    float value[N], out[N];
    uint64_t seed = 5;
    for (size_t i = 0; i < N; i++) value[i] = 300.0f + 0.5f * (float)gen_normal(&seed);
    through("kv:bits=8,group=16,page=16,axis=channel", PITH_F32, value, out);
    for (size_t i = 0; i < N; i++) CHECK(fabsf(value[i] - out[i]) <= 0.26f);
    through("kv:bits=8,group=16,page=16,axis=channel,scale_dtype=f32", PITH_F32, value, out);
    for (size_t i = 0; i < N; i++) CHECK(fabsf(value[i] - out[i]) <= 0.01f);
}

/* Worked by hand from FORMAT.md: least -1, largest 14: zero point -1, scale 1. */
static void test_by_hand(void **state) {
    (void)state;
    context("by hand");
    static const float value[8] = {-1, 14, 2, 2.5f, 3.5f, 0, -0.0f, 13};
    static const float wanted[8] = {-1, 14, 2, 3, 3, 0, 0, 13};
    static const uint8_t scales[4] = {0x00, 0x3C, 0x00, 0xBC}, codes[4] = {0xF0, 0x43, 0x14, 0xE1};
    float out[8];
    const pith_view v = pith_view_flat(value, PITH_F32, 8), o = pith_view_flat(out, PITH_F32, 8);
    struct frame f = compress("kv", &v, NULL, 0);
    CHECK(f.length == 64 + 16 + 16);
    CHECK(memcmp(f.bytes + 64, scales, 4) == 0 && all_bytes(f.bytes + 68, 12, 0));
    CHECK(memcmp(f.bytes + 80, codes, 4) == 0 && all_bytes(f.bytes + 84, 12, 0));
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &o, NULL));
    CHECK(memcmp(out, wanted, sizeof out) == 0);
    free(f.bytes);
}

/* ---- Specs and shapes ------------------------------------------------------------------------*/

static void test_presets(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"kv:preset=none", "kv"},
        {"kv:preset=kivi2", "kv:axis=channel,bits=2,group=32,window=128"},
        {"kv:preset=kivi4,axis=token", "kv:group=32,window=128"},
        {"kv:preset=quarot4", "kv:scale_dtype=bf16,rotate_heads=on"},
        {"kv:preset=trellis2", "kv:bits=2,symmetric=on,rotate_heads=on,codebook=trellis"},
        {"kv:preset=trellis4,rotate_heads=off", "kv:symmetric=on,codebook=trellis"},
        {"kv:preset=xquant2", "kv:bits=2"},
        {"kv:preset=kvquant-lite", "kv:axis=channel,symmetric=on,codebook=nf,outliers=0.01"},
        {"kv:codebook=lloyd", "kv:symmetric=on,codebook=lloyd"},
        {"kv:bits=5,preset=xquant3", "kv:bits=5"},
        {"kv:preset=xquant4", "kv"},
        {"kv:preset=q8", "kv:bits=8,group=32,symmetric=on"},
        {"kv:preset=q4,scale_dtype=bf16", "kv:group=32,symmetric=on,scale_dtype=bf16,search=mse"},
    };
    char text[PITH_SPEC_MAX];
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        context("%s", pairs[i][0]);
        CHECK_OK(pith_spec_check(pairs[i][0], text, sizeof text, NULL));
        CHECK(strcmp(text, pairs[i][1]) == 0);
    }
}

/* Coded blocks of many pages decode to what pages do, whole and in parts, and are shorter. */
static void test_entropy(void **state) {
    (void)state;
    static const char *const coders[7] = {"zstd,block=16", "zstd,block=1024", "zstd",
                                          "zstd,effort=5", "rans,block=16",   "rans,block=1024",
                                          "rans"};
    for (size_t i = 0; i < SETTINGS * SHAPES; i++) {
        const struct setting *s = &settings[i % SETTINGS];
        struct setting coded = *s;
        struct tensor t;
        char spec[128];
        if (!fits(s, &shapes[i / SETTINGS])) continue;
        snprintf(spec, sizeof spec, "%s%sentropy=%s", s->spec, strchr(s->spec, ':') ? "," : ":",
                 coders[i % 7]);
        context("%s, shape %zu", spec, i / SETTINGS);
        tensor_open(&t, s, &shapes[i / SETTINGS], dtypes[i % 3]);
        coded.spec = spec;
        t.s = &coded;
        const size_t fixed = t.frame.length;
        free(t.frame.bytes);
        t.frame = compress(spec, &t.view, NULL, i % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
        void *out = decoded(&t.frame, t.dtype, t.count);
        CHECK(memcmp(out, t.out, t.count * pith_dtype_bytes(t.dtype)) == 0);
        if ((i % 7 == 2 || i % 7 == 6) && t.count > 8000 && !strstr(spec, "heads"))
            CHECK(t.frame.length < fixed);
        free(out);
        check_values(&t);
        check_parts(&t);
        tensor_close(&t);
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        struct shape shape;
        uint32_t base_dtype;
        pith_status wanted;
        const char *word; /* of the text, or NULL */
    } cases[] = {
        {"kv:bits=7", {2, {4, 64}}, PITH_NONE, PITH_ERR_SPEC, NULL},
        {"kv:axis=channel,group=64,page=32", {2, {4, 64}}, PITH_NONE, PITH_ERR_SPEC, NULL},
        {"kv:rotate_heads=on", {2, {4, 80}}, PITH_NONE, PITH_ERR_SHAPE, "heads"},
        {"kv:rotate_heads=on", {2, {4, 512}}, PITH_NONE, PITH_ERR_SHAPE, "heads"},
        {"kv", {1, {(1 << 20) + 1}}, PITH_NONE, PITH_ERR_SHAPE, "one dimension"},
        {"kv", {3, {1, 1 << 11, 1 << 10}}, PITH_NONE, PITH_ERR_SHAPE, "token"},
        {"kv:page=4096", {2, {4096, 8192}}, PITH_NONE, PITH_ERR_SHAPE, "page"},
        {"kv:axis=channel", {2, {4, 64}}, PITH_F32, PITH_ERR_UNSUPPORTED, NULL},
        {"kv:rotate_heads=on", {2, {4, 64}}, PITH_F32, PITH_ERR_UNSUPPORTED, NULL},
        {"kv", {2, {4, 64}}, PITH_I8, PITH_ERR_DTYPE, NULL},
        {"kv:codebook=nf,bits=5", {2, {4, 64}}, PITH_NONE, PITH_ERR_SPEC, NULL},
        {"kv:codebook=nf,symmetric=off", {2, {4, 64}}, PITH_NONE, PITH_ERR_SPEC, NULL},
        {"kv:codebook=lloyd,search=mse", {2, {4, 64}}, PITH_NONE, PITH_ERR_SPEC, NULL},
        {"kv:codebook=nf", {2, {4, 64}}, PITH_F32, PITH_ERR_UNSUPPORTED, NULL},
        {"kv:codebook=trellis", {2, {4, 64}}, PITH_F32, PITH_ERR_UNSUPPORTED, NULL},
        {"kv:codebook=trellis,bits=5", {2, {4, 64}}, PITH_NONE, PITH_ERR_SPEC, NULL},
        {"kv:outliers=0.126", {2, {4, 64}}, PITH_NONE, PITH_ERR_SPEC, NULL},
        {"kv:outliers=0.1,rotate_heads=on", {2, {4, 64}}, PITH_NONE, PITH_ERR_SPEC, NULL},
        {"kv:outliers=0.1", {2, {4, 64}}, PITH_F32, PITH_ERR_UNSUPPORTED, NULL},
        {"kv:entropy=zstd", {2, {4, 64}}, PITH_F32, PITH_ERR_UNSUPPORTED, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pith_layout l = {.size = sizeof l,
                         .dtype = PITH_F32,
                         .base_dtype = cases[i].base_dtype,
                         .ndim = cases[i].shape.ndim};
        memcpy(l.shape, cases[i].shape.n, sizeof cases[i].shape.n);
        const pith_plan *plan;
        context("%s, case %zu", cases[i].spec, i);
        pith_error error = {.size = sizeof error};
        CHECK_STATUS(cases[i].wanted, pith_plan_create(&plan, cases[i].spec, &l, NULL, &error));
        CHECK(plan == NULL && (!cases[i].word || strstr(error.text, cases[i].word)));
    }
}

/* Two shapes with rows of one length are not one layout. */
static void test_other_heads(void **state) {
    (void)state;
    float value[N], out[N];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    const uint64_t three[3] = {TOKENS, 4, DIM / 4};
    const pith_view v = pith_view_dense(value, PITH_F32, 3, three);
    const pith_view o = pith_view_dense(out, PITH_F32, 2, square);
    struct frame f = compress("kv:group=16", &v, NULL, 0);
    pith_layout l = {.size = sizeof l, .dtype = PITH_F32, .ndim = 2, .shape = {TOKENS, DIM}};
    struct stream s;
    stream_open(&s, "kv:group=16", &l, NULL);
    CHECK_STATUS(PITH_ERR_MISMATCH, decode_one(s.work, s.stream, 0, f.bytes, f.length, &o, 0));
    stream_close(&s);
    free(f.bytes);
}

/* ---- Sums, and a base ------------------------------------------------------------------------*/

static void test_reduce(void **state) {
    (void)state;
    enum { ROWS = 100, ROW = 24, COUNT = ROWS * ROW };
    float value[COUNT], one[COUNT], sum[COUNT];
    gen_fill(GEN_NOISE, 9, PITH_F32, value, COUNT);
    pith_layout l = {.size = sizeof l, .dtype = PITH_F32, .ndim = 2, .shape = {ROWS, ROW}};
    const pith_view v = pith_view_flat(value, PITH_F32, COUNT);
    const pith_view o = pith_view_flat(one, PITH_F32, COUNT);
    const pith_view to = pith_view_flat(sum, PITH_F32, COUNT);
    struct stream s, raw;
    stream_open(&s, "kv:page=16,group=16", &l, NULL);
    stream_open(&raw, "raw", &l, NULL);
    struct frame f = stream_encode(&s, &v, 0, false);
    const void *frames[2] = {f.bytes, f.bytes};
    const size_t lengths[2] = {f.length, f.length};
    CHECK_OK(decode_one(s.work, s.stream, 0, f.bytes, f.length, &o, 0));
    CHECK_OK(reduce_one(s.work, s.stream, 0, frames, lengths, 2, 0.5f, &to));
    CHECK(memcmp(one, sum, sizeof sum) == 0);
    uint8_t raw_bytes[COUNT * 4 + 256];
    size_t written;
    void *memory;
    const pith_plan *const plans[2] = {s.plan, raw.plan};
    pith_work *const work = work_for(plans, 2, NULL, &memory);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 reduce_encode_one(work, s.stream, 0, frames, lengths, 2, 1, raw.stream, 0,
                                   raw_bytes, sizeof raw_bytes, &written));
    free(memory);
    free(f.bytes);
    stream_close(&s);
    stream_close(&raw);
}

/* Layers through one accumulator: both ends hold the same, and what is lost stays what one step
 * loses; leading dimensions whose tokens begin anywhere are no matter. */
static void test_closed_loop(void **state) {
    (void)state;
    enum { LAYERS = 6, COUNT = 3 * 37 * 2 * 5 };
    static const char *const specs[2] = {"kv:bits=4,group=16,page=16", "kv:bits=8,page=32"};
    pith_layout l = {.size = sizeof l, .ndim = 4, .shape = {3, 37, 2, 5}};
    for (int k = 0; k < 6; k++) {
        l.dtype = dtypes[k % 3];
        l.base_dtype = dtypes[(k + k / 3) % 3];
        context("%s %d", specs[k % 2], k);
        struct stream from, to;
        stream_open(&from, specs[k % 2], &l, NULL);
        stream_open(&to, specs[k % 2], &l, NULL);
        float layer[COUNT], got[COUNT];
        uint8_t value[COUNT * 4];
        gen_fill(GEN_NOISE, (uint64_t)k, PITH_F32, layer, COUNT);
        for (int step = 0; step < LAYERS; step++) {
            uint64_t seed = (uint64_t)(100 * k + step);
            for (size_t i = 0; i < COUNT; i++) {
                layer[i] += 0.01f * (float)gen_normal(&seed);
                store_float(value, l.dtype, i, bits_of(layer[i]));
            }
            const pith_view v = pith_view_dense(value, l.dtype, 4, l.shape);
            const pith_view o = pith_view_flat(got, PITH_F32, COUNT);
            struct frame f = stream_encode(&from, &v, 0, step == 4);
            CHECK_OK(decode_one(to.work, to.stream, 0, f.bytes, f.length, &o, 0));
            CHECK(pith_stream_base_hash(from.stream, 0) == pith_stream_base_hash(to.stream, 0));
            CHECK_OK(pith_stream_verify(to.work, to.stream));
            for (size_t i = 0; step && i < COUNT; i++) CHECK(fabsf(layer[i] - got[i]) < 0.008f);
            free(f.bytes);
        }
        stream_close(&from);
        stream_close(&to);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_poisoned_groups),
        cmocka_unit_test(test_constant_groups),
        cmocka_unit_test(test_outliers),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_constant_trellises),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_other_heads),
        cmocka_unit_test(test_entropy),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_closed_loop),
    };
    return cmocka_run_group_tests_name("kv", tests, NULL, NULL);
}
