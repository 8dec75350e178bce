/* golden.c - the tables of golden frames and saved streams, how they were made, and the committed
 * files.
 * SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include <math.h>

/* ---- The table -------------------------------------------------------------------------------*/

static const struct golden table[] = {
#include "golden.def"
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

/* Multiplies f32 by a power of two for each row and each column of the last dimension. Some are 0,
 * and few infinite. */
static void scale_matrix(const struct golden *g, float *x, size_t count) {
    const size_t width = (size_t)g->shape[g->ndim - 1];
    for (size_t i = 0; i < count; i++) {
        x[i] *= (float)(1u << i / width * 5 % 7) * (float)(1u << i % width * 3 % 11);
        if (i % 61 == 0) x[i] = 0;
        if (i % 997 == 500) x[i] = INFINITY;
    }
}

static void scale_planes(const struct golden *g, float *x, size_t count) {
    const size_t plane = (size_t)(g->shape[g->ndim - 1] * g->shape[g->ndim - 2]);
    for (size_t i = 0; i < count; i++) x[i] *= (float)(i / plane % 4);
}

/* Two waves that go across all dimensions, too short for cubic interpolation, made of parabolas. */
static void add_waves(float *x, size_t count) {
    static const double cycles[2] = {7.15 / 64, 5.22 / 64};
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 2; k++) {
            const double turns = (double)i * cycles[k], t = 2 * (turns - (double)(size_t)turns);
            x[i] += (float)(8 * (t < 1 ? t * (1 - t) : (1 - t) * (2 - t)));
        }
}

static void fill(const struct golden *g, struct golden_made *m, pith_view *view) {
    const size_t element = pith_dtype_bytes(g->dtype);
    *view = pith_view_dense(m->value, g->dtype, g->ndim, g->shape);
    m->base_bytes = m->count * pith_dtype_bytes(g->base_dtype);
    if (g->base_dtype != PITH_NONE) {
        m->base = allocate(m->base_bytes);
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
    if (g->scaled) scale_matrix(g, m->value, m->count);
    if (g->planes) scale_planes(g, m->value, m->count);
    if (g->waves) add_waves(m->value, m->count);
}

/* The frame that follows the first with the same set: of values 1, 2, 3 ... */
static void make_held(struct stream *s, struct golden_made *m) {
    float *const x = allocate(m->count * sizeof *x);
    struct frame f = {allocate((size_t)s->sizes.slot_bytes), 0};
    m->map = allocate((m->count + 7) / 8);
    memset(m->map, 0, (m->count + 7) / 8);
    pith_view to = pith_view_flat(x, PITH_F32, m->count);
    CHECK_OK(pith_decompress(m->frame.bytes, m->frame.length, NULL, NULL, &to, NULL));
    for (size_t i = 0; i < m->count; i++) {
        if (x[i] != 0) m->map[i / 8] |= (uint8_t)(1u << i % 8);
        x[i] = (float)(i + 1);
    }
    CHECK_OK(encode_one(s->work, s->stream, &to, 0, PITH_SAME_SET, f.bytes,
                        (size_t)s->sizes.slot_bytes, &f.length));
    m->held = f;
    free(x);
}

/* The frame whose last two elements stand at other places. */
static void make_blocks(const struct golden *g, struct stream *s, struct golden_made *m) {
    float *const x = copy_of(m->value, m->count * sizeof *x);
    const float last[2] = {x[m->count - 2], x[m->count - 1]};
    pith_view view = pith_view_flat(x, g->dtype, m->count);
    m->blocks.bytes = allocate((size_t)s->sizes.slot_bytes);
    m->after = allocate(m->count * sizeof *m->after);
    x[m->count - 2] = x[m->count - 1] = 0;
    memcpy(&x[m->count - 6], last, sizeof last);
    CHECK_OK(encode_one(s->work, s->stream, &view, 0, PITH_SAME_BLOCKS, m->blocks.bytes,
                        (size_t)s->sizes.slot_bytes, &m->blocks.length));
    struct stream plain;
    const pith_layout layout = flat_layout(g->dtype, PITH_NONE, m->count);
    stream_open(&plain, g->spec, &layout, NULL);
    const struct frame f = stream_encode(&plain, &view, 0, false);
    view = pith_view_flat(m->after, PITH_F32, m->count);
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &view, NULL));
    free(f.bytes);
    free(x);
    stream_close(&plain);
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
    m->value = allocate(m->count * pith_dtype_bytes(g->dtype));
    fill(g, m, &view);
    const pith_stream_options options = {.size = sizeof options,
                                         .seed = 0x123456789ABCDEF,
                                         .rng_stream = 77,
                                         .rank = g->rank,
                                         .ranks = g->ranks,
                                         .step = g->step};
    stream_open_with(&s, g->spec, &layout, NULL, &options);
    if (g->base_dtype != PITH_NONE) {
        const pith_view base = pith_view_flat(m->base, g->base_dtype, m->count);
        CHECK_OK(pith_stream_set_base(s.work, s.stream, &base, g->step));
    }
    for (int i = 0; i < g->before; i++) {
        struct frame unused = stream_encode(&s, &view, 0, false);
        free(unused.bytes);
        /* All of them were made with the random bits of one step. */
        CHECK_OK(pith_stream_set_step(s.work, s.stream, 0, g->step));
    }
    struct frame f = stream_encode(&s, &view, 0, g->key);
    const struct bad changes = {
        .patch = {g->patch[0], g->patch[1], g->patch[2], g->patch[3]},
    };
    m->frame = bad_make(&changes, &f);
    free(f.bytes);
    if (g->same_set) {
        make_held(&s, m);
        make_blocks(g, &s, m);
    }
    stream_close(&s);
}

void golden_free(struct golden_made *m) {
    free(m->held.bytes);
    free(m->blocks.bytes);
    free(m->after);
    free(m->map);
    free(m->frame.bytes);
    free(m->base);
    free(m->value);
}

/* ---- Saved streams ---------------------------------------------------------------------------*/

enum { STREAM_COUNT = 75 };
static const uint64_t ragged[3] = {40, 0, 35};

/* Append only. */
static const struct golden_stream streams[] = {
    {"stream-wdiff", "wdiff:group=16,block=32", PITH_F32, PITH_BF16, 3, NULL, {0}},
    {"stream-ragged", "wdiff:bits=8,group=32", PITH_F32, PITH_F32, 3, ragged, {0}},
    {"stream-grad", "grad:ef=full,group=32,block=64", PITH_F32, PITH_NONE, 2, NULL, {0}},
    {"stream-exempt",
     "grad:ef=ema:0.5,round=antithetic",
     PITH_F32,
     PITH_NONE,
     1,
     NULL,
     {3, 5, PITH_EXEMPT_EXACT}},
    {"stream-lossless", "lossless:block=32", PITH_BF16, PITH_BF16, 2, NULL, {0}},
    {"stream-eb", "eb:abs=0.01", PITH_F32, PITH_NONE, 2, NULL, {0}},
    {"stream-embed", "embed:abs=0.01,dim=5", PITH_F32, PITH_NONE, 1, NULL, {0}},
    {"stream-act", "act:abs=0.01", PITH_F32, PITH_NONE, 1, NULL, {0}},
    {"stream-kv", "kv:group=16,page=16", PITH_F32, PITH_F16, 1, NULL, {0}},
    {"stream-topk",
     "topk:density=0.1,control=oktopk,every=2,ef=full,block=64",
     PITH_F32,
     PITH_NONE,
     2,
     NULL,
     {0}},
    {"stream-topk-ragged",
     "topk:k=5,values=int8,control=micro,ef=ema:0.5",
     PITH_BF16,
     PITH_NONE,
     3,
     ragged,
     {0}},
};

const struct golden_stream *golden_stream_at(size_t index) {
    return index < sizeof streams / sizeof streams[0] ? &streams[index] : NULL;
}

void golden_stream_open(const struct golden_stream *g, struct stream *s) {
    pith_layout layout = flat_layout(g->dtype, g->base_dtype, STREAM_COUNT);
    const pith_stream_options options = {
        .size = sizeof options, .seed = 0x123456789ABCDEF, .rng_stream = 77, .rank = 1, .ranks = 3};
    layout.slots = g->slots;
    layout.slot_counts = g->slot_counts;
    layout.exempt = &g->exempt;
    layout.exempt_count = g->exempt.count ? 1 : 0;
    stream_open_with(s, g->spec, &layout, NULL, &options);
}

struct frame golden_stream_step(const struct golden_stream *g, struct stream *s, uint64_t step) {
    uint8_t value[STREAM_COUNT * sizeof(float)];
    struct frame all = {allocate((size_t)(g->slots * s->sizes.slot_bytes)), 0};
    const pith_view view = pith_view_flat(value, g->dtype, STREAM_COUNT);
    gen_fill(GEN_NOISE, 31 + step, g->dtype, value, STREAM_COUNT);
    for (uint64_t i = 0; i < g->slots; i++) {
        const struct frame f = stream_encode(s, &view, i, false);
        memcpy(all.bytes + all.length, f.bytes, f.length);
        all.length += f.length;
        free(f.bytes);
    }
    return all;
}

struct frame golden_stream_save(struct stream *s) {
    struct frame f = {allocate((size_t)s->sizes.save_bytes), 0};
    CHECK_OK(pith_stream_save(s->work, s->stream, f.bytes, (size_t)s->sizes.save_bytes, &f.length));
    return f;
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
    *f = (struct golden_file){.info = {.size = sizeof f->info}};
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
