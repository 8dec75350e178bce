/* fuzz_cache.c - any order of calls on caches of tokens, against a plain model; any bytes to load.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../tests/kv_model.h"
#include "fuzz.h"

enum { CACHES = 3, PARAMETER_BYTES = 200, CALLS_MAX = 24, NONE = CACHES };

struct cache {
    pith_kv *kv; /* NULL: none */
    void *memory;
    size_t bytes;
    struct kv_model model;
    uint32_t parent; /* whose pages it reads below `shared`, or NONE */
    uint64_t shared;
};

struct scene {
    struct kv_setting set;
    char spec[PITH_SPEC_MAX];
    struct fuzz_env env;
    const pith_plan *plan;
    pith_work *work;
    void *work_memory;
    size_t work_bytes;
    uint64_t capacity, rows_shape[3];
    struct cache cache[CACHES];
    struct fuzz_source bytes;
};

/* ---- Settings --------------------------------------------------------------------------------*/

/* Codebooks take up to 4 bits, the last two a head that can be rotated. */
static const char *const variants[] = {
    "",
    ",symmetric=on",
    ",search=mse",
    ",symmetric=on,search=mse",
    ",outliers=0.06",
    ",symmetric=on,search=mse,outliers=0.125",
    ",codebook=nf",
    ",codebook=lloyd,outliers=0.06",
    ",codebook=trellis",
    ",rotate_heads=on",
    ",rotate_heads=on,codebook=lloyd",
};
enum { VARIANTS = sizeof variants / sizeof variants[0], CODEBOOKS = 6, ROTATED = 9 };

static void draw_setting(struct scene *x, struct fuzz_source *s) {
    static const uint32_t bits[] = {2, 3, 4, 5, 6, 8}, dims[] = {1, 5, 16, 24, 32, 64};
    static const char *const scales[] = {"f16", "bf16", "f32"};
    struct kv_setting *k = &x->set;
    const uint8_t how = fuzz_u8(s);
    k->spec = x->spec;
    k->channel = how & 1;
    k->page = how & 2 ? 16 : 32;
    k->window = how & 4 ? fuzz_below(s, 50) : 0;
    k->dtype = 1 + fuzz_below(s, 3);
    k->heads = 1 + fuzz_below(s, 3);
    k->dim = dims[fuzz_below(s, 6)];
    const uint32_t variant = fuzz_below(s, k->dim >= 32 ? VARIANTS : ROTATED);
    snprintf(x->spec, sizeof x->spec,
             "kv:axis=%s,page=%u,window=%u,group=%u,bits=%u,scale_dtype=%s%s",
             k->channel ? "channel" : "token", k->page, k->window,
             k->channel || how & 8 ? 16u : 32u, bits[fuzz_below(s, variant < CODEBOOKS ? 6 : 3)],
             scales[fuzz_below(s, 3)], variants[variant]);
    x->capacity = k->page + fuzz_below(s, 100);
    if (!(how & 16)) return;
    x->env.env.run = fuzz_run_backwards;
    x->env.env.threads = 3;
}

static pith_status make_plan(struct scene *x, struct fuzz_source *s) {
    const struct kv_setting *k = &x->set;
    pith_layout layout = {.size = sizeof layout, .dtype = k->dtype, .ndim = 3};
    layout.flags = fuzz_u8(s) & 1 ? PITH_LAYOUT_CHECKSUMS : 0;
    layout.shape[0] = x->capacity;
    layout.shape[1] = x->rows_shape[1] = k->heads;
    layout.shape[2] = x->rows_shape[2] = k->dim;
    return pith_plan_create(&x->plan, k->spec, &layout, &x->env.env, NULL);
}

static void make_work(struct scene *x) {
    x->work_bytes = (size_t)pith_work_bytes(&x->plan, 1, x->env.env.threads);
    x->work_memory = guard_new(x->work_bytes);
    memset(x->work_memory, 0xA5, x->work_bytes);
    FUZZ_CHECK(pith_work_init(x->work_memory, x->work_bytes, &x->env.env, &x->work, NULL) ==
               PITH_OK);
}

/* ---- Life ------------------------------------------------------------------------------------*/

static void drop(struct scene *x, uint32_t i) {
    struct cache *c = &x->cache[i];
    if (!c->kv) return;
    guard_free(c->memory, c->bytes);
    kv_model_close(&c->model);
    c->kv = NULL;
    for (uint32_t k = 0; k < CACHES; k++)
        if (x->cache[k].kv && x->cache[k].parent == i) drop(x, k);
}

/* Those that read pages of cache i which are about to change, too. */
static void drop_readers(struct scene *x, uint32_t i, uint64_t tokens) {
    for (uint32_t k = 0; k < CACHES; k++)
        if (x->cache[k].kv && x->cache[k].parent == i && x->cache[k].shared > tokens) drop(x, k);
}

static void *place(struct scene *x, uint32_t i, struct fuzz_source *s) {
    struct cache *c = &x->cache[i];
    drop(x, i);
    c->parent = NONE;
    const uint64_t cut = fuzz_below(s, 64), tokens = x->capacity + cut;
    c->bytes = (size_t)pith_kv_bytes(x->plan, cut % 4 ? tokens : 1 + cut);
    c->memory = guard_new(c->bytes);
    memset(c->memory, 0xA5, c->bytes);
    return c->memory;
}

static void make(struct scene *x, uint32_t i, struct fuzz_source *s) {
    struct cache *c = &x->cache[i];
    void *memory = place(x, i, s);
    FUZZ_CHECK(pith_kv_init(x->plan, memory, c->bytes, &c->kv, NULL) == PITH_OK);
    kv_model_open(&c->model, &x->set, x->capacity);
}

/* ---- Checks ----------------------------------------------------------------------------------*/

static uint8_t *save(struct scene *x, uint32_t i, size_t *length) {
    const size_t bytes = (size_t)pith_kv_save_bytes(x->cache[i].kv);
    uint8_t *to = guard_new(bytes);
    FUZZ_CHECK(pith_kv_save(x->work, x->cache[i].kv, to, bytes, length) == PITH_OK);
    FUZZ_CHECK(*length == bytes);
    return to;
}

static void read_some(struct scene *x, uint32_t i, struct fuzz_source *s) {
    const struct cache *c = &x->cache[i];
    const struct kv_model *m = &c->model;
    const uint32_t dtype = 1 + fuzz_below(s, 3), n = (uint32_t)m->tokens;
    const uint64_t first = fuzz_below(s, n + 1);
    const uint64_t count = fuzz_below(s, n - (uint32_t)first + 1);
    const uint32_t head = fuzz_below(s, x->set.heads);
    const uint32_t heads = 1 + fuzz_below(s, x->set.heads - head);
    const uint64_t shape[3] = {count, heads, x->set.dim};
    struct fuzz_tensor t;
    fuzz_tensor_new(&t, s, false, dtype, 3, shape);
    FUZZ_CHECK(pith_kv_read(x->work, &(pith_kv_range){c->kv, first, count, head, heads, t.view},
                            1) == PITH_OK);
    for (uint64_t e = 0; e < t.count; e++) {
        const uint64_t row = (uint64_t)heads * x->set.dim;
        uint8_t wanted[4];
        kv_model_get(m, first + e / row, head + (uint32_t)(e % row / x->set.dim),
                     (uint32_t)(e % x->set.dim), dtype, wanted);
        FUZZ_CHECK(memcmp(fuzz_at(&t, e), wanted, pith_dtype_bytes(dtype)) == 0);
    }
    fuzz_tensor_free(&t);
}

/* One byte decides what is looked at, so that the others go into calls. */
static void check(struct scene *x, uint32_t i, uint8_t seed) {
    const struct cache *c = &x->cache[i];
    uint8_t noise[64];
    struct fuzz_source s = {noise, sizeof noise};
    uint32_t state = seed * CACHES + i;
    for (size_t k = 0; k < sizeof noise; k++) {
        state = state * 1664525u + 1013904223u;
        noise[k] = (uint8_t)(state >> 24);
    }
    FUZZ_CHECK(pith_kv_count(c->kv) == c->model.tokens);
    FUZZ_CHECK(pith_kv_finished(c->kv) == c->model.finished);
    FUZZ_CHECK(pith_kv_remaining(c->kv) <= x->capacity - c->model.tokens);
    read_some(x, i, &s);
}

/* ---- Calls -----------------------------------------------------------------------------------*/

/* What does not fit changes nothing. */
static void append(struct scene *x, uint32_t i, struct fuzz_source *s) {
    struct cache *c = &x->cache[i];
    const uint64_t capacity = pith_kv_remaining(c->kv), count = fuzz_below(s, 60);
    struct fuzz_tensor t;
    x->rows_shape[0] = count;
    fuzz_tensor_new(&t, s, fuzz_u8(s) & 1, x->set.dtype, 3, x->rows_shape);
    struct fuzz_source content = x->bytes;
    content.length -= content.length ? fuzz_u8(s) % content.length : 0;
    const uint8_t how[1] = {fuzz_u8(s)};
    struct fuzz_source kind = content.length ? content : (struct fuzz_source){how, 1};
    fuzz_fill(&t, &kind);
    const pith_status status = pith_kv_append(x->work, &c->kv, &t.view, 1);
    FUZZ_CHECK(status == (count <= capacity ? PITH_OK : PITH_ERR_SPACE));
    if (status == PITH_OK) {
        const size_t element = pith_dtype_bytes(x->set.dtype);
        uint8_t *rows = guard_new((size_t)t.count * element);
        for (uint64_t e = 0; e < t.count; e++) memcpy(rows + e * element, fuzz_at(&t, e), element);
        FUZZ_CHECK(kv_model_append(&c->model, rows, count));
        guard_free(rows, (size_t)t.count * element);
    }
    fuzz_tensor_free(&t);
}

/* The same tokens for all that there are, if they fit into each; else the error names the first
 * that they do not fit into. */
static void append_all(struct scene *x, struct fuzz_source *s) {
    const uint64_t count = fuzz_below(s, 40);
    pith_kv_tokens to[CACHES];
    pith_kv *caches[CACHES];
    pith_view views[CACHES];
    size_t n = 0, fit = 0;
    struct fuzz_tensor t;
    x->rows_shape[0] = count;
    fuzz_tensor_new(&t, s, fuzz_u8(s) & 1, x->set.dtype, 3, x->rows_shape);
    fuzz_fill(&t, s);
    for (uint32_t i = 0; i < CACHES; i++) {
        if (!x->cache[i].kv) continue;
        if (fit == n && count <= pith_kv_remaining(x->cache[i].kv)) fit++;
        caches[n] = x->cache[i].kv;
        views[n] = t.view;
        to[n++] = (pith_kv_tokens){x->cache[i].kv, t.view.data};
    }
    const bool fits = fit == n;
    const pith_status status = count & 1 ? pith_kv_append(x->work, caches, views, n)
                                         : pith_kv_append_batch(x->work, &t.view, to, n);
    FUZZ_CHECK(status == (fits ? PITH_OK : PITH_ERR_SPACE));
    FUZZ_CHECK(fuzz_error_fits(pith_work_error(x->work), status));
    FUZZ_CHECK(pith_work_error(x->work)->item == (fits ? 0 : fit));
    const size_t element = pith_dtype_bytes(x->set.dtype), bytes = (size_t)t.count * element;
    uint8_t *rows = guard_new(bytes);
    for (uint64_t e = 0; e < t.count; e++) memcpy(rows + e * element, fuzz_at(&t, e), element);
    for (uint32_t i = 0; i < CACHES && fits; i++)
        if (x->cache[i].kv) FUZZ_CHECK(kv_model_append(&x->cache[i].model, rows, count));
    guard_free(rows, bytes);
    fuzz_tensor_free(&t);
}

static void truncate_tokens(struct scene *x, uint32_t i, struct fuzz_source *s) {
    struct cache *c = &x->cache[i];
    const uint64_t back = fuzz_below(s, 40), n = c->model.tokens;
    const uint64_t keep = fuzz_u8(s) % 8 ? (back < n ? n - back : 0) : back;
    drop_readers(x, i, keep);
    const pith_status status = pith_kv_truncate(x->work, c->kv, keep);
    if (keep > n) {
        FUZZ_CHECK(status == PITH_ERR_ARG);
        return;
    }
    FUZZ_CHECK(status == PITH_OK || (status == PITH_ERR_SPACE && c->parent != NONE));
    if (status == PITH_OK) kv_model_truncate(&c->model, keep);
}

static void fork_cache(struct scene *x, uint32_t from, struct fuzz_source *s) {
    const uint32_t to = (from + 1 + fuzz_below(s, CACHES - 1)) % CACHES;
    const uint32_t flags = fuzz_u8(s) & 1 ? PITH_KV_COPY : 0;
    struct cache *c = &x->cache[to];
    void *memory = place(x, to, s);
    struct cache *parent = &x->cache[from];
    if (!parent->kv) { /* it read pages of the cache whose place this is */
        guard_free(memory, c->bytes);
        return;
    }
    const uint64_t n = parent->model.tokens, back = fuzz_below(s, 60),
                   keep = n > back ? n - back : n;
    const pith_status status =
        pith_kv_fork(x->work, parent->kv, keep, flags, memory, c->bytes, &c->kv);
    FUZZ_CHECK(status == PITH_OK || status == PITH_ERR_SPACE);
    FUZZ_CHECK((status == PITH_OK) == (c->kv != NULL));
    if (status != PITH_OK) {
        guard_free(memory, c->bytes);
        return;
    }
    kv_model_copy(&c->model, &parent->model);
    kv_model_truncate(&c->model, keep);
    if (!flags) {
        c->parent = from;
        c->shared = keep;
    }
}

/* What one cache saves, another becomes. */
static void move_saved(struct scene *x, uint32_t from, struct fuzz_source *s) {
    const uint32_t to = (from + fuzz_below(s, CACHES)) % CACHES;
    size_t n, m;
    uint8_t *saved = save(x, from, &n);
    struct kv_model model;
    kv_model_copy(&model, &x->cache[from].model);
    if (x->cache[to].kv)
        drop_readers(x, to, 0);
    else
        make(x, to, s);
    struct cache *c = &x->cache[to];
    const pith_status status = pith_kv_load(x->work, c->kv, saved, n);
    FUZZ_CHECK(status == PITH_OK || status == PITH_ERR_SPACE);
    if (status == PITH_OK) {
        uint8_t *again = save(x, to, &m);
        FUZZ_CHECK(m == n && memcmp(saved, again, n) == 0);
        guard_free(again, m);
        kv_model_close(&c->model);
        c->model = model;
        c->parent = NONE;
    } else {
        kv_model_close(&model);
    }
    guard_free(saved, n);
}

/* Bytes that no cache may have saved: an error and no change, or a cache that can be read, and
 * whose own save is read as the same. */
static void load_any(struct scene *x, uint32_t i, uint8_t *bytes, size_t length) {
    struct cache *c = &x->cache[i];
    size_t n, m;
    uint8_t *before = save(x, i, &n);
    const pith_status status = pith_kv_load(x->work, c->kv, bytes, length);
    FUZZ_CHECK(fuzz_is_status(status));
    uint8_t *after = save(x, i, &m);
    if (status != PITH_OK) {
        FUZZ_CHECK(m == n && memcmp(before, after, n) == 0);
    } else {
        x->rows_shape[0] = pith_kv_count(c->kv);
        struct fuzz_source none = {NULL, 0};
        struct fuzz_tensor t;
        fuzz_tensor_new(&t, &none, true, PITH_F32, 3, x->rows_shape);
        FUZZ_CHECK(
            pith_kv_read(x->work,
                         &(pith_kv_range){c->kv, 0, x->rows_shape[0], 0, x->set.heads, t.view},
                         1) == PITH_OK);
        FUZZ_CHECK(pith_kv_load(x->work, c->kv, after, m) == PITH_OK);
        fuzz_tensor_free(&t);
        drop(x, i);
    }
    guard_free(before, n);
    guard_free(after, m);
}

static void load_patched(struct scene *x, uint32_t i, struct fuzz_source *s) {
    size_t n;
    uint8_t *saved = save(x, i, &n);
    pith_info info = {.size = sizeof info};
    const size_t length = fuzz_u8(s) % 8 ? n : fuzz_u32(s) % (n + 1);
    uint8_t *bytes = guard_copy(saved, length);
    fuzz_patch(bytes, length, s);
    /* Sizes of the frames as they were: where the headers are. */
    for (size_t at = 0; at < length; at += (size_t)info.frame_bytes) {
        FUZZ_CHECK(pith_inspect(saved + at, n - at, &info, NULL) == PITH_OK);
        fuzz_fix_frame(bytes + at, length - at);
    }
    drop_readers(x, i, 0);
    load_any(x, i, bytes, length);
    guard_free(bytes, length);
    guard_free(saved, n);
}

static void one_call(struct scene *x, struct fuzz_source *s) {
    const uint8_t how = fuzz_u8(s);
    const uint32_t i = (how >> 4) % CACHES;
    if (!x->cache[i].kv) make(x, i, s);
    switch (how & 15) {
    case 0: make(x, i, s); break;
    case 1:
    case 2: truncate_tokens(x, i, s); break;
    case 3:
    case 4: fork_cache(x, i, s); break;
    case 5: move_saved(x, i, s); break;
    case 6: load_patched(x, i, s); break;
    case 7:
    case 8: break; /* only look */
    case 9:
    case 10: append_all(x, s); break;
    default: append(x, i, s); break;
    }
    const uint8_t seed = fuzz_u8(s);
    for (uint32_t k = 0; k < CACHES; k++)
        if (x->cache[k].kv) check(x, k, seed);
}

static void play(struct scene *x, struct fuzz_source *s) {
    make(x, 0, s);
    uint8_t *bytes = guard_copy(x->bytes.bytes, x->bytes.length);
    load_any(x, 0, bytes, x->bytes.length);
    guard_free(bytes, x->bytes.length);
    for (int n = 0; n < CALLS_MAX && s->length; n++) one_call(x, s);
    for (uint32_t i = 0; i < CACHES; i++) drop(x, i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct scene x = {.bytes = {data, size}};
    struct fuzz_source s = fuzz_split(&x.bytes, PARAMETER_BYTES);
    fuzz_env_init(&x.env);
    draw_setting(&x, &s);
    const pith_status status = make_plan(&x, &s);
    FUZZ_CHECK(status == PITH_OK);
    make_work(&x);
    play(&x, &s);
    guard_free(x.work_memory, x.work_bytes);
    pith_plan_destroy(x.plan);
    fuzz_env_done(&x.env);
    return 0;
}
