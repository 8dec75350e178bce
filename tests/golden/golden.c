/* golden.c - the table of golden frames, how they were made, and the committed files.
 * SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

/* ---- Examples of FORMAT.md -------------------------------------------------------------------*/

static const uint32_t raw_value[4] = {0x3F800000, 0xC0200000, 0x80000000, 0x7FC00001};
static const uint16_t lossless_base[12] = {0x3F80, 0x3F80, 0xBF80, 0x0000, 0x8000, 0x4000,
                                           0x3E00, 0xBE00, 0x3F00, 0x3F00, 0x3F00, 0x7FC0};
static const uint16_t lossless_value[12] = {0x3F80, 0x3F81, 0xBF80, 0x8000, 0x8000, 0x3FFF,
                                            0x3E00, 0xBE01, 0x3F04, 0x3F00, 0x3F00, 0x7FC1};
static const uint16_t wdiff_base[8] = {0x3F80, 0xBF80, 0x3F00, 0x3E80,
                                       0x4000, 0xBF00, 0x0000, 0x3E00};
#define STEP 0x1p-10f
static const float wdiff_value[8] = {1 + 7 * STEP,        -1 - 3 * STEP,       0.5f + 0.5f * STEP,
                                     0.25f + 1.5f * STEP, 2 + 2 * STEP,        -0.5f - 7 * STEP,
                                     -0.5f * STEP,        0.125f + 2.5f * STEP};

/* Eight elements of the run of 32 and two of the run of 8; the others are exempt or 0. */
static const float grad_value[40] = {
    [0] = 1.25f,  [1] = 0.1f,   [2] = 1e-20f, [3] = -3.3f,     [4] = -0.25f,
    [8] = 3.25f,  [12] = 4.75f, [16] = 3.25f, [20] = 2.75f,    [24] = -1.75f,
    [28] = 0.75f, [32] = 3.5f,  [36] = 3.5f,  [38] = 1.0f / 3, [39] = 65504};

/* A plane, rounded up a little, with one value that is far from it. */
static const float eb_value[16] = {0, 1.25f,  2,      3.25f, 2, 3, 4.375f, 5,
                                   4, 5.125f, -1e20f, 7,     6, 7, 8,      9.25f};
/* After ReLU. */
static const float act_value[32] = {0,     0, 3, 0, 0, 1.25f, 0, 0, 0, 0,      2,
                                    4.25f, 0, 0, 0, 0, 0,     0, 0, 5, 6.125f, 0,
                                    0,     0, 0, 0, 0, 0,     7, 0, 0, 0.25f};
/* Rows of two kinds; one value cannot have a code, so it takes that of the value before it. */
static const float embed_value[24] = {1, 2, -3, 4, 1.25f, 2.375f, -3.25f, 3.75f, 0, -1, 2,  1e30f,
                                      1, 2, -3, 4, 0.25f, -1,     2,      2,     1, 2,  -3, 4};

/* Two tokens of two heads; the last head's range is one number. */
static const float kv_value[16] = {-1, 14,   2,  2.5f,  0,  -7.5f, 3.75f, -3,
                                   5,  4.5f, 12, 7.25f, -2, -2,    -2,    -2};

/* ---- The table -------------------------------------------------------------------------------*/

#define ONE(n) .ndim = 1, .shape = {n}
#define TABLES(t, r, d) .ndim = 3, .shape = {t, r, d}
#define BITS(b)                                                                                    \
    {                                                                                              \
        .name = "wdiff-bits" #b, .spec = "wdiff:bits=" #b ",group=32", .dtype = PITH_F32, ONE(75), \
        .kind = GEN_NOISE                                                                          \
    }
#define BASE(t, T)                                                                        \
    {.name = "wdiff-base-" t,                                                             \
     .spec = "wdiff:group=16,block=32",                                                   \
     .dtype = PITH_F32,                                                                   \
     .base_dtype = T,                                                                     \
     ONE(75),                                                                             \
     .kind = GEN_NOISE,                                                                   \
     .near = 1e-3,                                                                        \
     .step = 3},                                                                          \
    {                                                                                     \
        .name = "wdiff-key-" t, .spec = "wdiff:group=16,block=32", .dtype = PITH_F32,     \
        .base_dtype = T, ONE(37), .kind = GEN_NOISE, .near = 1e-3, .step = 8, .key = true \
    }

#define GRAD(n, s, e, k) \
    { .name = "grad-" n, .spec = "grad:" s, .dtype = PITH_F32, ONE(e), .kind = k }
#define GRAD_BITS(b) GRAD("bits" #b, "bits=" #b ",group=32,block=64,search=none", 75, GEN_NOISE)

static const struct golden table[] = {
    {.name = "example-raw",
     .spec = "raw",
     .dtype = PITH_F32,
     .ndim = 2,
     .shape = {2, 2},
     .value = raw_value},
    {.name = "example-lossless",
     .spec = "lossless",
     .dtype = PITH_BF16,
     .base_dtype = PITH_BF16,
     ONE(12),
     .value = lossless_value,
     .base = lossless_base,
     .stable = true},
    {.name = "example-wdiff",
     .spec = "wdiff:group=16,block=16",
     .dtype = PITH_F32,
     .base_dtype = PITH_BF16,
     ONE(8),
     .value = wdiff_value,
     .base = wdiff_base,
     .step = 1},

    {.name = "example-grad",
     .spec = "grad:group=32,block=32",
     .dtype = PITH_F32,
     ONE(40),
     .value = grad_value,
     .exempt = {{1, 3, PITH_EXEMPT_EXACT}, {38, 2, PITH_EXEMPT_16}}},

#include "golden_exact.def"

    BITS(2),
    BITS(3),
    BITS(4),
    BITS(6),
    BITS(8),
    BASE("f32", PITH_F32),
    BASE("bf16", PITH_BF16),
    BASE("f16", PITH_F16),
    {.name = "wdiff-default", .spec = "wdiff", .dtype = PITH_F32, ONE(2053), .kind = GEN_NOISE},
    {.name = "wdiff-bf16",
     .spec = "wdiff:group=64",
     .dtype = PITH_BF16,
     .base_dtype = PITH_BF16,
     .ndim = 2,
     .shape = {10, 13},
     .kind = GEN_NOISE,
     .near = 1e-3},
    {.name = "wdiff-f16",
     .spec = "wdiff:group=64,bits=6",
     .dtype = PITH_F16,
     .base_dtype = PITH_F32,
     .ndim = 3,
     .shape = {2, 5, 7},
     .kind = GEN_NOISE,
     .near = 1e-2},
    {.name = "wdiff-scale-bf16",
     .spec = "wdiff:group=16,scale_dtype=bf16",
     .dtype = PITH_F32,
     ONE(100),
     .kind = GEN_NOISE},
    {.name = "wdiff-stochastic",
     .spec = "wdiff:group=32,block=32,round=stochastic",
     .dtype = PITH_F32,
     ONE(100),
     .kind = GEN_NOISE},
    {.name = "wdiff-stochastic-base",
     .spec = "wdiff:bits=3,group=32,round=stochastic",
     .dtype = PITH_F32,
     .base_dtype = PITH_BF16,
     ONE(70),
     .kind = GEN_NOISE,
     .near = 1e-3,
     .step = 12345},
    {.name = "wdiff-entropy",
     .spec = "wdiff:group=32,block=256,entropy=zstd",
     .dtype = PITH_F32,
     ONE(600),
     .kind = GEN_SPARSE,
     .flags = PITH_LAYOUT_CHECKSUMS},
    {.name = "wdiff-entropy-3",
     .spec = "wdiff:bits=3,group=64,block=128,entropy=zstd",
     .dtype = PITH_F32,
     .base_dtype = PITH_F32,
     ONE(300),
     .kind = GEN_SPARSE,
     .near = 1e-30},
    {.name = "wdiff-entropy-6",
     .spec = "wdiff:bits=6,group=256,entropy=zstd",
     .dtype = PITH_F32,
     ONE(260),
     .kind = GEN_SPARSE},
    {.name = "wdiff-entropy-2",
     .spec = "wdiff:bits=2,group=256,entropy=zstd",
     .dtype = PITH_F32,
     ONE(260),
     .kind = GEN_SPARSE},
    {.name = "wdiff-entropy-8",
     .spec = "wdiff:bits=8,group=256,entropy=zstd",
     .dtype = PITH_F32,
     ONE(260),
     .kind = GEN_SPARSE},
    {.name = "wdiff-key-identity-off",
     .spec = "wdiff:group=16,base_hash=off",
     .dtype = PITH_F32,
     .base_dtype = PITH_BF16,
     ONE(20),
     .kind = GEN_NOISE,
     .near = 1e-3,
     .step = 2,
     .key = true},
    {.name = "wdiff-key-holes",
     .spec = "wdiff:group=16",
     .dtype = PITH_BF16,
     .base_dtype = PITH_F32,
     ONE(300),
     .kind = GEN_HOLES,
     .key = true},
    {.name = "wdiff-base-holes",
     .spec = "wdiff:group=16",
     .dtype = PITH_F32,
     .base_dtype = PITH_BF16,
     ONE(300),
     .kind = GEN_HOLES},
/* Large scales and codes of 7 take bases over the end. */
#define SATURATED(t, T)                                                            \
    {                                                                              \
        .name = "wdiff-saturated-" t, .spec = "wdiff:group=16", .dtype = PITH_F32, \
        .base_dtype = T, ONE(32), .kind = GEN_LARGE, .patch = {                    \
            {96, 4, 0x7F000000},                                                   \
            {112, 8, 0x7777777777777777}                                           \
        }                                                                          \
    }
    SATURATED("f32", PITH_F32),
    SATURATED("bf16", PITH_BF16),
    {.name = "wdiff-blocks",
     .spec = "wdiff:group=16,block=64",
     .dtype = PITH_F32,
     ONE(203),
     .kind = GEN_NOISE,
     .flags = PITH_LAYOUT_CHECKSUMS},
    {.name = "wdiff-base-blocks",
     .spec = "wdiff:group=16,block=16",
     .dtype = PITH_F32,
     .base_dtype = PITH_BF16,
     ONE(50),
     .kind = GEN_NOISE,
     .near = 1e-3,
     .step = 7,
     .flags = PITH_LAYOUT_CHECKSUMS,
     .source = true},
    {.name = "wdiff-identity-off",
     .spec = "wdiff:group=16,base_hash=off",
     .dtype = PITH_F32,
     .base_dtype = PITH_BF16,
     ONE(20),
     .kind = GEN_NOISE,
     .near = 1e-3,
     .step = 2},
    {.name = "wdiff-poisoned",
     .spec = "wdiff:group=16",
     .dtype = PITH_F32,
     ONE(300),
     .kind = GEN_HOLES},
    {.name = "wdiff-poisoned-base",
     .spec = "wdiff:group=16",
     .dtype = PITH_F32,
     .base_dtype = PITH_F16,
     ONE(50),
     .kind = GEN_BITS},
    {.name = "wdiff-tiny", .spec = "wdiff:group=16", .dtype = PITH_F32, ONE(100), .kind = GEN_TINY},
    {.name = "wdiff-ties", .spec = "wdiff:group=16", .dtype = PITH_F32, ONE(64), .kind = GEN_TIES},
    {.name = "wdiff-large",
     .spec = "wdiff:bits=8,group=16",
     .dtype = PITH_F32,
     .base_dtype = PITH_F16,
     ONE(40),
     .kind = GEN_LARGE},
    {.name = "wdiff-wide",
     .spec = "wdiff:group=16",
     .dtype = PITH_F32,
     .ndim = 5,
     .shape = {1, 2, 1, 3, 4},
     .kind = GEN_NOISE},
    {.name = "wdiff-scalar",
     .spec = "wdiff",
     .dtype = PITH_F32,
     .base_dtype = PITH_F32,
     .kind = GEN_NOISE,
     .near = 1e-3},
    {.name = "wdiff-empty", .spec = "wdiff", .dtype = PITH_F32, .base_dtype = PITH_BF16, ONE(0)},

    GRAD_BITS(2),
    GRAD_BITS(3),
    GRAD_BITS(4),
    GRAD_BITS(5),
    GRAD_BITS(6),
    GRAD_BITS(8),
    {.name = "grad-default", .spec = "grad", .dtype = PITH_F32, ONE(2053), .kind = GEN_NOISE},
    GRAD("intra", "preset=intra", 300, GEN_NOISE),
    GRAD("rotate0", "rotate=0,group=64", 100, GEN_NOISE),
    GRAD("rotate64", "rotate=64,group=64,block=64", 255, GEN_NOISE),
    GRAD("rotate128", "rotate=128,block=256", 500, GEN_NOISE),
    GRAD("rotate256", "rotate=256,group=4096", 511, GEN_NOISE),
    GRAD("signs", "sign_seed=7,rotate=64,block=128", 400, GEN_NOISE),
    GRAD("signs-last", "sign_seed=4294967295,rotate=256,group=256,block=256", 300, GEN_NOISE),
    GRAD("scale-bf16", "bits=3,scale_dtype=bf16,group=32,search=none", 100, GEN_NOISE),
    GRAD("scale-e8m0", "bits=5,scale_dtype=e8m0,group=32", 100, GEN_NOISE),
    /* A scale of byte 0 is 2^-127, also for codes that are not 0. */
    {.name = "grad-scale-e8m0-0",
     .spec = "grad:bits=5,scale_dtype=e8m0,group=32,rotate=0",
     .dtype = PITH_F32,
     ONE(40),
     .kind = GEN_NOISE,
     .patch = {{64, 1, 0}}},
    GRAD("mse", "search=mse,group=64", 200, GEN_NOISE),
    GRAD("mse-2", "search=mse,bits=2,group=32,scale_dtype=bf16,block=32", 150, GEN_NOISE),
    GRAD("mse-e8m0", "search=mse,bits=8,group=32,scale_dtype=e8m0", 100, GEN_NOISE),
    GRAD("stochastic", "round=stochastic,group=32,block=64", 150, GEN_NOISE),
    {.name = "grad-antithetic",
     .spec = "grad:round=antithetic,group=32,block=64,bits=3",
     .dtype = PITH_F32,
     ONE(150),
     .kind = GEN_NOISE,
     .step = UINT64_C(1) << 31,
     .rank = 2,
     .ranks = 3},
    {.name = "grad-ef-full",
     .spec = "grad:ef=full,bits=2,group=32,sign_seed=1,search=none",
     .dtype = PITH_F32,
     ONE(120),
     .kind = GEN_NOISE,
     .before = 2},
    {.name = "grad-ef-ema",
     .spec = "grad:ef=ema:0.9,bits=3,group=64,rotate=64,round=stochastic",
     .dtype = PITH_BF16,
     ONE(120),
     .kind = GEN_NOISE,
     .before = 3},
    {.name = "grad-bf16",
     .spec = "grad:group=64",
     .dtype = PITH_BF16,
     .ndim = 2,
     .shape = {10, 13},
     .kind = GEN_NOISE},
    {.name = "grad-f16",
     .spec = "grad:group=64,bits=6",
     .dtype = PITH_F16,
     .ndim = 3,
     .shape = {2, 5, 7},
     .kind = GEN_LARGE},
    {.name = "grad-blocks",
     .spec = "grad:group=32,block=32",
     .dtype = PITH_F32,
     ONE(75),
     .kind = GEN_NOISE,
     .flags = PITH_LAYOUT_CHECKSUMS},
    {.name = "grad-exempt",
     .spec = "grad:group=32,block=64,sign_seed=3",
     .dtype = PITH_F32,
     ONE(150),
     .kind = GEN_NOISE,
     .flags = PITH_LAYOUT_CHECKSUMS,
     .source = true,
     .exempt = {{0, 5, PITH_EXEMPT_EXACT}, {60, 9, PITH_EXEMPT_16}, {149, 1, PITH_EXEMPT_EXACT}}},
    {.name = "grad-exempt-bf16",
     .spec = "grad:group=32",
     .dtype = PITH_BF16,
     ONE(90),
     .kind = GEN_BITS,
     .exempt = {{10, 30, PITH_EXEMPT_EXACT}, {40, 3, PITH_EXEMPT_16}}},
    {.name = "grad-exempt-f16",
     .spec = "grad:group=32,rotate=0",
     .dtype = PITH_F16,
     .ndim = 2,
     .shape = {7, 11},
     .kind = GEN_HOLES,
     .exempt = {{11, 11, PITH_EXEMPT_16}, {33, 1, PITH_EXEMPT_EXACT}}},
    {.name = "grad-exempt-nan",
     .spec = "grad:group=32,block=32",
     .dtype = PITH_F32,
     ONE(64),
     .kind = GEN_BITS,
     .flags = PITH_LAYOUT_CHECKSUMS,
     .exempt = {{0, 40, PITH_EXEMPT_16}, {40, 24, PITH_EXEMPT_EXACT}}},
    GRAD("poisoned", "group=32,rotate=0,block=32", 300, GEN_HOLES),
    GRAD("poisoned-runs", "group=64,block=64,sign_seed=9", 300, GEN_HOLES),
    GRAD("poisoned-e8m0", "group=32,scale_dtype=e8m0,rotate=0,bits=8", 200, GEN_BITS),
    GRAD("tiny", "group=32", 100, GEN_TINY),
    GRAD("tiny-e8m0", "group=32,scale_dtype=e8m0,rotate=0,search=mse", 100, GEN_TINY),
    GRAD("ties", "group=32,rotate=0", 64, GEN_TIES),
    GRAD("large", "bits=8,group=32,rotate=0,scale_dtype=bf16", 40, GEN_LARGE),
    {.name = "grad-wide",
     .spec = "grad:group=32",
     .dtype = PITH_F32,
     .ndim = 5,
     .shape = {1, 2, 1, 3, 7},
     .kind = GEN_NOISE,
     .exempt = {{4, 2, PITH_EXEMPT_16}}},
    {.name = "grad-scalar", .spec = "grad:sign_seed=5", .dtype = PITH_F32, .kind = GEN_NOISE},
    {.name = "grad-empty",
     .spec = "grad",
     .dtype = PITH_BF16,
     ONE(0),
     .flags = PITH_LAYOUT_CHECKSUMS},
#include "golden_bounded.def"
#include "golden_kv.def"
};

const struct golden *golden_at(size_t index) {
    return index < sizeof table / sizeof table[0] ? &table[index] : NULL;
}

/* ---- Making ----------------------------------------------------------------------------------*/

static const char source[] = "a header to restore";

/* From each f32 on its sum with those before it, along each of the last dimensions. */
static void sum_up(const struct golden *g, float *x, size_t count) {
    size_t stride = 1;
    for (int k = 0; k < g->walk; k++) {
        const size_t extent = (size_t)g->shape[g->ndim - 1 - (uint32_t)k];
        for (size_t i = 0; i < count; i++)
            if (i / stride % extent) x[i] += x[i - stride];
        stride *= extent;
    }
    for (size_t i = 0; i < count; i++) x[i] += g->offset;
}

static void fill(const struct golden *g, struct golden_made *m, pith_view *view) {
    const size_t element = pith_dtype_bytes(g->dtype);
    *view = pith_view_dense(m->value, g->dtype, g->ndim, g->shape);
    m->base_bytes = m->count * pith_dtype_bytes(g->base_dtype);
    if (g->base_dtype != PITH_NONE) {
        m->base = room(m->base_bytes);
        if (g->base)
            memcpy(m->base, g->base, m->base_bytes);
        else
            gen_fill(g->near > 0 ? GEN_NOISE : g->kind, 21, g->base_dtype, m->base, m->count);
    }
    if (g->value)
        memcpy(m->value, g->value, m->count * element);
    else if (g->near > 0)
        gen_near(22, g->near, g->dtype, m->value, g->base_dtype, m->base, m->count);
    else
        gen_fill(g->kind, 23, g->dtype, m->value, m->count);
    if (g->walk > 0 || g->offset != 0) sum_up(g, m->value, m->count);
}

void golden_make(const struct golden *g, struct golden_made *m) {
    pith_layout layout = {.size = sizeof layout,
                          .dtype = g->dtype,
                          .base_dtype = g->base_dtype,
                          .ndim = g->ndim,
                          .flags = g->flags};
    struct stream s;
    memcpy(layout.shape, g->shape, sizeof layout.shape);
    layout.exempt = g->exempt;
    while (layout.exempt_count < 3 && g->exempt[layout.exempt_count].count) layout.exempt_count++;
    layout.source = g->source ? source : NULL;
    layout.source_bytes = g->source ? sizeof source - 1 : 0;
    pith_view view = pith_view_dense(NULL, g->dtype, g->ndim, g->shape);
    *m = (struct golden_made){.count = (size_t)pith_view_count(&view)};
    m->value = room(m->count * pith_dtype_bytes(g->dtype));
    fill(g, m, &view);
    stream_open(&s, g->spec, &layout, NULL);
    if (g->base_dtype != PITH_NONE) {
        const pith_view base = pith_view_flat(m->base, g->base_dtype, m->count);
        CHECK_OK(pith_state_set_base(s.plan, s.state, &base, g->step));
        pith_state_set_random(s.state, 0x123456789ABCDEF, 77);
    } else {
        pith_plan_set_random(s.plan, 0x123456789ABCDEF, 77, g->step);
        if (g->ranks) CHECK_OK(pith_plan_set_ranks(s.plan, g->rank, g->ranks));
    }
    for (int i = 0; i < g->before; i++) {
        struct frame unused = stream_encode(&s, &view, 0, false);
        free(unused.bytes);
    }
    struct frame f = stream_encode(&s, &view, 0, g->key);
    const struct bad changes = {
        .patch = {g->patch[0], g->patch[1], g->patch[2], g->patch[3]},
    };
    m->frame = bad_make(&changes, &f);
    free(f.bytes);
    stream_close(&s);
}

void golden_free(struct golden_made *m) {
    free(m->frame.bytes);
    free(m->base);
    free(m->value);
}

/* ---- Committed files -------------------------------------------------------------------------*/

bool hashes_line(const char *path, size_t index, uint64_t *hash, char name[128]) {
    FILE *file = fopen(path, "r");
    unsigned long long value;
    bool found = false;
    if (!file) return false;
    while (!found && fscanf(file, "%16llx %127s", &value, name) == 2) found = index-- == 0;
    fclose(file);
    *hash = value;
    return found;
}

static void *read_part(const char *dir, const char *name, const char *suffix, size_t *length) {
    char path[512];
    snprintf(path, sizeof path, "%s/golden/v1/%s.%s", dir, name, suffix);
    return read_file(path, length);
}

void golden_load(const char *dir, const char *name, struct golden_file *f) {
    *f = (struct golden_file){0};
    snprintf(f->name, sizeof f->name, "%.63s", name);
    f->frame.bytes = read_part(dir, f->name, "pith", &f->frame.length);
    f->raw = read_part(dir, f->name, "raw", &f->raw_bytes);
    f->base = read_part(dir, f->name, "base", &f->base_bytes);
    context("golden frame %s", f->name);
    CHECK(f->frame.bytes != NULL && f->raw != NULL);
    CHECK_OK(pith_inspect(f->frame.bytes, f->frame.length, &f->info, NULL));
}

bool golden_open(const char *dir, size_t index, struct golden_file *f) {
    char path[512], name[128];
    bool found = false;
    snprintf(path, sizeof path, "%s/golden/HASHES", dir);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (!found && fscanf(file, "%*s %127s", name) == 1) {
        char *const suffix = strstr(name, ".pith");
        found = strncmp(name, "v1/", 3) == 0 && suffix && index-- == 0;
        if (found) *suffix = 0;
    }
    fclose(file);
    if (found) golden_load(dir, name + 3, f);
    return found;
}

void golden_close(struct golden_file *f) {
    free(f->frame.bytes);
    free(f->base);
    free(f->raw);
}

const pith_view *golden_base(const struct golden_file *f, pith_view *view) {
    if (f->info.base_dtype == PITH_NONE || f->info.is_key) return NULL;
    *view = pith_view_flat(f->base, f->info.base_dtype,
                           f->base_bytes / pith_dtype_bytes(f->info.base_dtype));
    return view;
}
