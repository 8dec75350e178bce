/* test_cache.c - caches of tokens against a plain model: append, read, truncate, fork, save.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "gen.h"
#include "kv_model.h"
#include "util.h"

static const struct kv_setting settings[] = {
    {"kv:page=16,group=32", PITH_F32, 2, 64, 16, 0, false},
    {"kv:page=16,group=16,bits=3,window=5", PITH_F32, 3, 5, 16, 5, false},
    {"kv:page=32,bits=2,group=64,symmetric=on,window=40", PITH_BF16, 1, 96, 32, 40, false},
    {"kv:page=16,bits=5,search=mse,scale_dtype=f32,window=1", PITH_F16, 2, 24, 16, 1, false},
    {"kv:page=16,rotate_heads=on,bits=8,scale_dtype=bf16,window=16", PITH_F32, 2, 32, 16, 16,
     false},
    {"kv:preset=q4,page=16", PITH_F32, 2, 40, 16, 0, false},
    {"kv:axis=channel,page=16,group=16", PITH_F16, 2, 20, 16, 0, true},
    {"kv:axis=channel,page=64,group=32,bits=2,window=7", PITH_F32, 1, 33, 64, 7, true},
    {"kv:axis=channel,page=32,group=32,bits=6,scale_dtype=f32,window=64", PITH_BF16, 4, 16, 32, 64,
     true},
    {"kv:axis=channel,page=16,group=16,bits=3,symmetric=on,window=20", PITH_F32, 2, 7, 16, 20,
     true},
    {"kv:preset=kivi2,page=32", PITH_F32, 2, 32, 32, 128, true},
    {"kv:preset=kvquant-lite,page=128", PITH_F32, 1, 6, 128, 0, true},
    {"kv:page=16,group=16,outliers=0.1,window=3", PITH_BF16, 2, 40, 16, 3, false},
    {"kv:page=16,codebook=lloyd,rotate_heads=on", PITH_F32, 1, 64, 16, 0, false},
    {"kv:axis=channel,page=32,group=16,outliers=0.1,window=9", PITH_F16, 2, 9, 32, 9, true},
    {"kv:axis=channel,page=16,group=16,rotate_heads=on,bits=3", PITH_F16, 3, 32, 16, 0, true},
    {"kv:axis=channel,page=16,group=16,rotate_heads=on,codebook=lloyd", PITH_BF16, 2, 64, 16, 0,
     true},
    {"kv:axis=channel,page=16,group=16,codebook=lloyd,bits=3,scale_dtype=f32", PITH_F32, 3, 90, 16,
     0, true},
    {"kv:page=16,group=32,codebook=trellis", PITH_F32, 2, 80, 16, 0, false},
    {"kv:axis=channel,page=32,group=32,codebook=trellis,bits=3", PITH_F16, 2, 40, 32, 0, true},
    {"kv:preset=trellis2,page=16", PITH_F16, 2, 64, 16, 0, false},
    {"kv:page=32,group=16,codebook=trellis,bits=3,scale_dtype=f32", PITH_BF16, 3, 48, 32, 0, false},
    {"kv:axis=channel,page=32,group=32,search=mse,bits=2", PITH_F32, 2, 40, 32, 0, true},
};
/* CUTS: times that a cache has memory for the truncation of what is finished. */
enum { SETTINGS = sizeof settings / sizeof settings[0], MARGIN = 64, CUTS = 4 };

static uint64_t capacity_of(const struct kv_setting *s) { return 5 * s->page + s->window + 13; }

struct cache {
    struct kv_setting set;
    const pith_plan *plan;
    pith_work *work;
    pith_kv *kv;
    void *work_memory;
    uint8_t *memory;
    uint64_t capacity;
};

static void open_plan(const pith_plan **plan, const struct kv_setting *s, uint64_t tokens,
                      uint32_t flags) {
    const pith_env env = test_env();
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = s->dtype,
                                .flags = flags,
                                .ndim = s->heads > 1 ? 3 : 2,
                                .shape = {tokens, s->heads > 1 ? s->heads : s->dim, s->dim}};
    context("%s", s->spec);
    CHECK_OK(pith_plan_create(plan, s->spec, &layout, &env, NULL));
}

/* Exactly the memory requested, at an odd address, full of what is not 0. */
static void cache_open(struct cache *c, const struct kv_setting *s, uint32_t flags) {
    *c = (struct cache){.set = *s, .capacity = capacity_of(s)};
    open_plan(&c->plan, s, c->capacity, flags);
    const uint64_t cuts = s->channel ? CUTS * s->page : 0;
    const size_t bytes = (size_t)pith_kv_bytes(c->plan, c->capacity + cuts);
    CHECK(bytes >= pith_kv_bytes(c->plan, 0));
    c->memory = allocate(bytes + 1);
    memset(c->memory, 0xA5, bytes + 1);
    CHECK_OK(pith_kv_init(c->plan, c->memory + 1, bytes, &c->kv, NULL));
    c->work = work_for(&c->plan, 1, NULL, &c->work_memory);
}

static void cache_close(struct cache *c) {
    pith_plan_destroy(c->plan);
    free(c->memory);
    free(c->work_memory);
}

static pith_view rows_view(const struct kv_setting *s, const void *rows, uint64_t count) {
    const uint64_t shape[3] = {count, s->heads > 1 ? s->heads : s->dim, s->dim};
    return pith_view_dense(rows, s->dtype, s->heads > 1 ? 3 : 2, shape);
}

static void append(struct cache *c, const void *rows, uint64_t count) {
    const pith_view v = rows_view(&c->set, rows, count);
    CHECK_OK(pith_kv_append(c->work, &c->kv, &v, 1));
}

/* Appends the tokens from a view with gaps whose tokens run backwards. */
static void append_strided(struct cache *c, const uint8_t *rows, uint64_t count) {
    const struct kv_setting *s = &c->set;
    const size_t element = pith_dtype_bytes(s->dtype), row = (size_t)s->heads * s->dim;
    uint8_t *wide = allocate((size_t)count * row * 2 * element + 1);
    pith_view v = rows_view(s, wide, count);
    for (uint64_t i = 0; i < count * row; i++) {
        const uint64_t t = count - 1 - i / row;
        memcpy(wide + 1 + (t * row + i % row) * 2 * element, rows + i * element, element);
    }
    for (uint32_t d = 0; d < v.ndim; d++) v.stride[d] *= 2;
    v.stride[0] = -v.stride[0];
    v.data = wide + 1 + (count ? (count - 1) * row * 2 * element : 0);
    CHECK_OK(pith_kv_append(c->work, &c->kv, &v, 1));
    free(wide);
}

static void *tokens_of(const struct kv_setting *s, uint64_t count, uint64_t seed) {
    const size_t n = (size_t)(count * s->heads * s->dim);
    void *rows = allocate(n * pith_dtype_bytes(s->dtype));
    gen_fill(GEN_NOISE, seed, s->dtype, rows, n);
    return rows;
}

/* ---- Comparing -------------------------------------------------------------------------------*/

/* Heads [head, head + heads) of some tokens, into a view whose heads or tokens are outermost and
 * whose elements may lie apart: the view is what the model says, the rest untouched. */
static void check_read(const struct cache *c, const struct kv_model *m, uint64_t first,
                       uint64_t count, uint32_t head, uint32_t heads, unsigned how) {
    const uint32_t dtype = 1 + how % 3, dim = c->set.dim;
    const size_t element = pith_dtype_bytes(dtype);
    const int64_t step = how & 8 ? 2 : 1, pad = how & 16 ? 3 : 0;
    const bool turned = how & 32;
    const int64_t inner = dim * step + pad;
    const int64_t token = turned ? inner : inner * heads + pad;
    const int64_t along = turned ? inner * (int64_t)count : inner;
    const size_t bytes = (size_t)(inner * heads + pad) * (size_t)count * element + MARGIN;
    uint8_t *got = allocate(bytes), *wanted = allocate(bytes);
    memset(got, 0x5A, bytes);
    memset(wanted, 0x5A, bytes);
    pith_view v = {got, dtype, 3, {count, heads, dim}, {token, along, step}};
    if (heads == 1 && how & 64) v = (pith_view){got, dtype, 2, {count, dim}, {token, step}};
    CHECK_OK(pith_kv_read(c->work, &(pith_kv_range){c->kv, first, count, head, heads, v}, 1));
    for (uint64_t t = 0; t < count; t++)
        for (uint32_t h = 0; h < heads; h++)
            for (uint32_t d = 0; d < dim; d++)
                kv_model_get(
                    m, first + t, head + h, d, dtype,
                    wanted + ((int64_t)t * token + h * along + d * step) * (int64_t)element);
    CHECK(memcmp(got, wanted, bytes) == 0);
    free(got);
    free(wanted);
}

static void check_cache(const struct cache *c, const struct kv_model *m, uint64_t *seed) {
    const uint64_t n = m->tokens;
    CHECK(pith_kv_count(c->kv) == n && pith_kv_finished(c->kv) == m->finished);
    CHECK(pith_kv_remaining(c->kv) <= c->capacity - n);
    for (unsigned how = 0; how < 3; how++) check_read(c, m, 0, n, 0, c->set.heads, how);
    for (int i = 0; i < 8; i++) {
        const uint64_t first = gen_next(seed) % (n + 1), count = gen_next(seed) % (n - first + 1);
        const uint32_t head = (uint32_t)(gen_next(seed) % c->set.heads);
        const uint32_t heads = (uint32_t)(gen_next(seed) % (c->set.heads - head + 1));
        check_read(c, m, first, i % 2 ? count : count % 3, head, heads, (unsigned)gen_next(seed));
    }
}

static struct frame save(const struct cache *c) {
    struct frame f;
    const size_t bytes = (size_t)pith_kv_save_bytes(c->kv);
    f.bytes = allocate(bytes);
    CHECK_OK(pith_kv_save(c->work, c->kv, f.bytes, bytes, &f.length));
    CHECK(f.length == bytes);
    return f;
}

static void check_same(const struct cache *a, const struct cache *b) {
    struct frame x = save(a), y = save(b);
    CHECK(x.length == y.length && memcmp(x.bytes, y.bytes, x.length) == 0);
    free(x.bytes);
    free(y.bytes);
}

/* ---- Append ----------------------------------------------------------------------------------*/

/* One at a time, all at once, in pieces from strided views: one content, one set of bytes. */
static void test_append(void **state) {
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const struct kv_setting *s = &settings[k];
        struct cache one, all, some;
        struct kv_model m;
        uint64_t seed = k;
        cache_open(&one, s, 0);
        cache_open(&all, s, 0);
        cache_open(&some, s, 0);
        const uint64_t n = one.capacity;
        uint8_t *rows = tokens_of(s, n, k);
        kv_model_open(&m, s, n);
        const size_t row = kv_model_row(&m);
        for (uint64_t t = 0; t < n; t++) {
            append(&one, rows + t * row, 1);
            CHECK(kv_model_append(&m, rows + t * row, 1));
            if (t % 23 == 0) check_cache(&one, &m, &seed);
        }
        append(&all, rows, n);
        for (uint64_t t = 0, c; t < n; t += c) {
            c = 1 + gen_next(&seed) % 50;
            if (c > n - t) c = n - t;
            append_strided(&some, rows + t * row, c);
        }
        const uint64_t old = n - s->window;
        CHECK(pith_kv_finished(all.kv) == (s->channel ? old / s->page * s->page : old));
        check_cache(&one, &m, &seed);
        check_cache(&all, &m, &seed);
        check_same(&one, &all);
        check_same(&one, &some);
        CHECK(pith_kv_remaining(one.kv) == 0);
        kv_model_close(&m);
        free(rows);
        cache_close(&one);
        cache_close(&all);
        cache_close(&some);
    }
}

enum { BATCH = 40, THREADS = 3 };

struct batch {
    size_t runs; /* of several jobs */
    const pith_plan *plan;
    pith_work *work;
    void *work_memory;
    pith_kv *kv[2][BATCH]; /* given their tokens together, and one by one */
    uint8_t *memory[2][BATCH];
};

static int count_runs(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    *(size_t *)user += count == THREADS;
    return run_backwards(NULL, job, arg, count);
}

static void batch_open(struct batch *b, const struct kv_setting *s) {
    const uint64_t tokens = 60 + s->window + s->page;
    pith_env env = test_env();
    env.threads = THREADS;
    env.run = count_runs;
    env.run_user = &b->runs;
    b->runs = 0;
    open_plan(&b->plan, s, tokens, 0);
    b->work = work_for(&b->plan, 1, &env, &b->work_memory);
    const size_t bytes = (size_t)pith_kv_bytes(b->plan, tokens);
    for (size_t i = 0; i < 2 * BATCH; i++) {
        b->memory[i / BATCH][i % BATCH] = allocate(bytes);
        CHECK_OK(pith_kv_init(b->plan, b->memory[i / BATCH][i % BATCH], bytes,
                              &b->kv[i / BATCH][i % BATCH], NULL));
    }
}

static void batch_close(struct batch *b) {
    for (size_t i = 0; i < 2 * BATCH; i++) free(b->memory[i / BATCH][i % BATCH]);
    free(b->work_memory);
    pith_plan_destroy(b->plan);
}

static void check_batch(const struct batch *b) {
    for (size_t i = 0; i < BATCH; i++) {
        const struct cache one = {.work = b->work, .kv = b->kv[0][i]};
        const struct cache other = {.work = b->work, .kv = b->kv[1][i]};
        check_same(&one, &other);
    }
}

/* The last caches first, so that tokens do not lie in the order in which they are taken. */
static void append_batch(struct batch *b, const struct kv_setting *s, const uint8_t *rows,
                         uint64_t tokens, size_t count) {
    const size_t bytes = (size_t)tokens * s->heads * s->dim * pith_dtype_bytes(s->dtype);
    const pith_view like = rows_view(s, NULL, tokens);
    pith_kv_tokens to[BATCH];
    for (size_t i = 0; i < count; i++) {
        const pith_view v = rows_view(s, rows + i * bytes, tokens);
        CHECK_OK(pith_kv_append(b->work, &b->kv[1][i], &v, 1));
        to[count - 1 - i] = (pith_kv_tokens){b->kv[0][i], rows + i * bytes};
    }
    CHECK_OK(pith_kv_append_batch(b->work, &like, to, count));
}

/* Batches of few values are coded by the caller, the others by its threads. */
static void test_batch(void **state) {
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const struct kv_setting *s = &settings[k];
        struct batch b;
        uint64_t seed = 300 + k, left = 30 + s->window;
        batch_open(&b, s);
        uint8_t *rows = tokens_of(s, (s->window + 30) * BATCH, k);
        append_batch(&b, s, rows, 30, BATCH);
        CHECK(b.runs == ((size_t)30 * BATCH * s->heads * s->dim > 1 << 16));
        for (uint64_t n; left; left -= n) {
            n = 1 + gen_next(&seed) % (left % 3 == 1 ? 1 : left);
            append_batch(&b, s, rows, n, left % 5 ? 3 : BATCH);
        }
        append_batch(&b, s, rows, 0, BATCH);
        check_batch(&b);
        batch_close(&b);
        free(rows);
    }
}

/* What a batch has wrong is found before any cache is changed. */
static void test_refused_batch(void **state) {
    (void)state;
    const struct kv_setting *const s = &settings[0],
                                   other = {"kv:page=16,group=16", PITH_F32, 2, 64, 16, 0, false};
    struct batch b, wrong;
    batch_open(&b, s);
    batch_open(&wrong, &other);
    uint8_t *rows = tokens_of(s, 76, 1);
    append_batch(&b, s, rows, 70, 1); /* of 76 */
    const pith_view one = rows_view(s, NULL, 1), like = rows_view(s, NULL, 7);
    const struct {
        pith_kv *cache;
        const void *values;
        pith_status status;
    } bad[] = {
        {NULL, rows, PITH_ERR_ARG},           {b.kv[0][1], NULL, PITH_ERR_ARG},
        {b.kv[0][3], rows, PITH_ERR_ARG},     {b.kv[0][0], rows, PITH_ERR_SPACE},
        {wrong.kv[0][0], rows, PITH_ERR_ARG},
    };
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        const pith_kv_tokens to[] = {
            {b.kv[0][3], rows}, {b.kv[0][4], rows}, {bad[k].cache, bad[k].values}};
        context("batch %zu", k);
        CHECK_STATUS(bad[k].status, pith_kv_append_batch(b.work, &like, to, 3));
        CHECK(pith_work_error(b.work)->item == 2 && pith_work_error(b.work)->text[0] != 0);
        check_batch(&b);
    }
    const pith_kv_tokens to[] = {{b.kv[0][0], rows}, {b.kv[0][4], rows}};
    pith_view irregular = one;
    irregular.shape[1] = 3;
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_append_batch(b.work, &irregular, to, 2));
    irregular = one;
    irregular.dtype = PITH_BF16;
    CHECK_STATUS(PITH_ERR_DTYPE, pith_kv_append_batch(b.work, &irregular, to, 2));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append_batch(NULL, &one, to, 2));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append_batch(b.work, NULL, to, 2));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append_batch(b.work, &one, NULL, 2));
    check_batch(&b);
    CHECK_OK(pith_kv_append_batch(b.work, &one, NULL, 0));
    CHECK_OK(pith_kv_append_batch(b.work, &one, to, 2));
    CHECK(pith_kv_count(b.kv[0][0]) == 71 && pith_kv_count(b.kv[0][4]) == 1);
    free(rows);
    batch_close(&b);
    batch_close(&wrong);
}

/* The second time that a cache comes is the item that is wrong, wherever it comes. */
static void test_twice(void **state) {
    (void)state;
    const struct kv_setting *const s = &settings[0];
    static const size_t pairs[][2] = {{0, 1}, {0, BATCH - 1}, {17, 18}, {3, 31}, {38, 39}};
    struct batch b;
    batch_open(&b, s);
    uint8_t *rows = tokens_of(s, BATCH, 2);
    const size_t bytes = (size_t)s->heads * s->dim * pith_dtype_bytes(s->dtype);
    const pith_view like = rows_view(s, NULL, 1);
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        const size_t first = pairs[k][0], second = pairs[k][1];
        pith_kv_tokens to[BATCH];
        pith_kv *caches[BATCH];
        pith_view views[BATCH];
        for (size_t i = 0; i < BATCH; i++) {
            const size_t from = i == second ? first : i;
            to[i] = (pith_kv_tokens){b.kv[0][from], rows + i * bytes};
            caches[i] = b.kv[0][from];
            views[i] = rows_view(s, rows + i * bytes, 1);
        }
        context("cache %zu again as %zu", first, second);
        CHECK_STATUS(PITH_ERR_ARG, pith_kv_append_batch(b.work, &like, to, BATCH));
        CHECK(pith_work_error(b.work)->item == second);
        CHECK(strstr(pith_work_error(b.work)->text, "twice") != NULL);
        CHECK_STATUS(PITH_ERR_ARG, pith_kv_append(b.work, caches, views, BATCH));
        CHECK(pith_work_error(b.work)->item == second);
        CHECK(strstr(pith_work_error(b.work)->text, "twice") != NULL);
        check_batch(&b);
        append_batch(&b, s, rows, 1, BATCH); /* they are not taken for used */
        check_batch(&b);
        CHECK(pith_work_error(b.work)->text[0] == 0 && pith_work_error(b.work)->item == 0);
    }
    free(rows);
    batch_close(&b);
}

/* ---- Lists of caches -------------------------------------------------------------------------*/

enum { LIST = 7 };

/* Caches of two plans, alternating, twice: given their tokens in one call, and one by one. */
struct list {
    struct cache plan[2]; /* with a cache that is not used */
    struct cache together[LIST], alone[LIST];
    pith_work *work; /* for both plans, with threads */
    void *work_memory;
};

/* Another cache of the plan. */
static void cache_beside(struct cache *c, const struct cache *of) {
    *c = *of;
    const size_t bytes = (size_t)pith_kv_bytes(of->plan, of->capacity);
    c->memory = allocate(bytes);
    CHECK_OK(pith_kv_init(of->plan, c->memory, bytes, &c->kv, NULL));
}

static void list_open(struct list *l, const struct kv_setting *a, const struct kv_setting *b) {
    pith_env env = test_env();
    env.threads = THREADS;
    env.run = run_backwards;
    cache_open(&l->plan[0], a, 0);
    cache_open(&l->plan[1], b, 0);
    const pith_plan *const plans[2] = {l->plan[0].plan, l->plan[1].plan};
    l->work = work_for(plans, 2, &env, &l->work_memory);
    for (size_t i = 0; i < LIST; i++) {
        cache_beside(&l->together[i], &l->plan[i % 2]);
        cache_beside(&l->alone[i], &l->plan[i % 2]);
    }
}

static void list_close(struct list *l) {
    for (size_t i = 0; i < LIST; i++) {
        free(l->together[i].memory);
        free(l->alone[i].memory);
    }
    cache_close(&l->plan[0]);
    cache_close(&l->plan[1]);
    free(l->work_memory);
}

static void check_list(const struct list *l) {
    for (size_t i = 0; i < LIST; i++) {
        CHECK(pith_kv_count(l->together[i].kv) == pith_kv_count(l->alone[i].kv));
        check_same(&l->together[i], &l->alone[i]);
    }
}

/* Views of n[i] tokens each from the rows of both plans; every third one has its tokens backwards
 * and with gaps. To be freed: memory[i]. */
static void list_views(const struct list *l, const uint64_t *n, uint8_t *const *rows,
                       pith_view *views, uint8_t **memory) {
    for (size_t i = 0; i < LIST; i++) {
        const struct kv_setting *s = &l->plan[i % 2].set;
        const size_t element = pith_dtype_bytes(s->dtype), row = (size_t)s->heads * s->dim;
        const uint8_t *const from = rows[i % 2] + i * row * element;
        const size_t count = (size_t)n[i] * row;
        views[i] = rows_view(s, memory[i] = copy_of(from, count * element), n[i]);
        if (i % 3 != 1 || !count) continue;
        free(memory[i]);
        memory[i] = allocate(2 * count * element);
        for (size_t k = 0; k < count; k++)
            memcpy(memory[i] + ((n[i] - 1 - k / row) * row + k % row) * 2 * element,
                   from + k * element, element);
        for (uint32_t d = 0; d < views[i].ndim; d++) views[i].stride[d] *= 2;
        views[i].stride[0] = -views[i].stride[0];
        views[i].data = memory[i] + (n[i] - 1) * row * 2 * element;
    }
}

/* One list of caches with numbers of tokens of their own, none among them, and of two plans. */
static void test_list(void **state) {
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const struct kv_setting *const a = &settings[k], *const b = &settings[(k + 5) % SETTINGS];
        struct list l;
        uint64_t seed = 400 + k;
        list_open(&l, a, b);
        uint8_t *rows[2] = {tokens_of(a, capacity_of(a) + LIST, k),
                            tokens_of(b, capacity_of(b) + LIST, k + 1)};
        for (int round = 0; round < 6; round++) {
            pith_kv *caches[LIST];
            pith_view views[LIST];
            uint8_t *memory[LIST];
            uint64_t n[LIST];
            for (size_t i = 0; i < LIST; i++) {
                const uint64_t left = pith_kv_remaining(l.together[i].kv);
                caches[i] = l.together[i].kv;
                n[i] = round == 5 ? left : gen_next(&seed) % (round % 2 ? 3 : left / 2 + 1);
                if (i == (size_t)round) n[i] = 0;
            }
            list_views(&l, n, rows, views, memory);
            context("%s and %s, round %d", a->spec, b->spec, round);
            CHECK_OK(pith_kv_append(l.work, caches, views, LIST));
            for (size_t i = 0; i < LIST; i++) {
                CHECK_OK(pith_kv_append(l.alone[i].work, &l.alone[i].kv, &views[i], 1));
                free(memory[i]);
            }
            check_list(&l);
        }
        free(rows[0]);
        free(rows[1]);
        list_close(&l);
    }
}

/* ---- Lists of ranges -------------------------------------------------------------------------*/

enum { RANGES = 9, RANGE_HEADS = 4, RANGE_DIM = 64, RANGE_TOKENS = 400 };

/* Caches of two plans, and ranges of them, which have places of their own in `out`. */
struct ranges {
    const pith_plan *plan[2];
    void *memory[LIST], *scratch;
    pith_kv *cache[LIST];
    pith_work *work; /* of one thread */
    pith_kv_range range[RANGES];
    uint8_t *out;
    size_t bytes;
};

/* Fills the caches, which hold different numbers of tokens, and one of them none. */
static void ranges_open(struct ranges *r) {
    static const char *const specs[2] = {"kv:preset=kivi4", "kv:page=16,window=5"};
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = PITH_F32,
                                .ndim = 3,
                                .shape = {RANGE_TOKENS, RANGE_HEADS, RANGE_DIM}};
    const struct kv_setting s = {.dtype = PITH_F32, .heads = RANGE_HEADS, .dim = RANGE_DIM};
    void *const rows = tokens_of(&s, RANGE_TOKENS, 3);
    for (size_t k = 0; k < 2; k++)
        CHECK_OK(pith_plan_create(&r->plan[k], specs[k], &layout, NULL, NULL));
    r->work = work_for(r->plan, 2, NULL, &r->scratch);
    for (size_t i = 0; i < LIST; i++) {
        const pith_plan *const plan = r->plan[i % 2];
        const size_t bytes = (size_t)pith_kv_bytes(plan, 0);
        const pith_view v = rows_view(&s, rows, RANGE_TOKENS / (i + 1) * (i != 4));
        r->memory[i] = allocate(bytes);
        CHECK_OK(pith_kv_init(plan, r->memory[i], bytes, &r->cache[i], NULL));
        CHECK_OK(pith_kv_append(r->work, &r->cache[i], &v, 1));
    }
    free(rows);
}

/* Ranges of all caches and, once more, of the first two, with an odd number of bytes before each.
 * Every third view has its heads outermost. Returns how many values they have. */
static uint64_t ranges_set(struct ranges *r, uint64_t most, uint64_t seed) {
    uint64_t values = 0;
    r->bytes = 0;
    for (size_t i = 0; i < RANGES; i++) {
        const pith_kv *const c = r->cache[i % LIST];
        const uint64_t held = pith_kv_count(c), n = held < most ? held : most;
        const uint32_t dtype = 1 + (uint32_t)i % 3, head = dtype == 3,
                       heads = RANGE_HEADS - head - (uint32_t)i % 2;
        pith_kv_range *const to = &r->range[i];
        *to = (pith_kv_range){c, held > n ? gen_next(&seed) % (held - n) : 0, n, head, heads, {0}};
        to->view =
            (pith_view){NULL, dtype, 3, {n, heads, RANGE_DIM}, {heads * RANGE_DIM, RANGE_DIM, 1}};
        if (i % 3 == 1) {
            to->view.stride[0] = RANGE_DIM;
            to->view.stride[1] = (int64_t)n * RANGE_DIM;
        }
        values += n * heads * RANGE_DIM;
        r->bytes += 1 + (size_t)(n * heads * RANGE_DIM) * pith_dtype_bytes(to->view.dtype);
    }
    free(r->out);
    r->out = allocate(r->bytes);
    return values;
}

/* Gives the views their places in a memory, which is filled with what no call wrote. */
static void ranges_place(struct ranges *r, uint8_t *memory) {
    memset(memory, 0x5A, r->bytes);
    for (size_t i = 0; i < RANGES; i++) {
        pith_view *const v = &r->range[i].view;
        v->data = ++memory;
        memory += (size_t)pith_view_count(v) * pith_dtype_bytes(v->dtype);
    }
}

static void ranges_close(struct ranges *r) {
    for (size_t i = 0; i < LIST; i++) free(r->memory[i]);
    for (size_t k = 0; k < 2; k++) pith_plan_destroy(r->plan[k]);
    free(r->scratch);
    free(r->out);
}

/* A list reads what calls with one range do, with any number of threads, whose parts begin and end
 * inside of ranges. */
static void test_read_list(void **state) {
    (void)state;
    struct ranges r = {0};
    ranges_open(&r);
    for (uint64_t most = 0; most <= RANGE_TOKENS; most = most ? 3 * most : 1) {
        const uint64_t values = ranges_set(&r, most, most);
        CHECK(most < 200 || values > 1 << 16); /* else one thread does it alone */
        uint8_t *const wanted = allocate(r.bytes);
        ranges_place(&r, wanted);
        for (size_t i = 0; i < RANGES; i++) CHECK_OK(pith_kv_read(r.work, &r.range[i], 1));
        for (uint32_t threads = 1; threads <= 7; threads += 2) {
            pith_env env = test_env();
            void *memory;
            env.threads = threads;
            env.run = run_backwards;
            pith_work *const work = work_for(r.plan, 2, &env, &memory);
            context("%u tokens, %u threads", (unsigned)most, (unsigned)threads);
            ranges_place(&r, r.out);
            CHECK_OK(pith_kv_read(work, r.range, RANGES));
            CHECK(memcmp(r.out, wanted, r.bytes) == 0);
            free(memory);
        }
        free(wanted);
    }
    CHECK_OK(pith_kv_read(r.work, NULL, 0));
    ranges_close(&r);
}

/* Nothing is read when one of the ranges cannot be, and the item is named. */
static void test_refused_read_list(void **state) {
    (void)state;
    struct ranges r = {0};
    ranges_open(&r);
    ranges_set(&r, 8, 1);
    uint8_t *const untouched = allocate(r.bytes);
    ranges_place(&r, untouched);
    for (size_t k = 0; k < 4 * RANGES; k++) {
        const size_t bad = k / 4;
        pith_kv_range wrong[RANGES];
        pith_status expected = PITH_ERR_ARG;
        ranges_place(&r, r.out);
        memcpy(wrong, r.range, sizeof wrong);
        switch (k % 4) {
        case 0: wrong[bad].cache = NULL; break;
        case 1: wrong[bad].first = pith_kv_count(wrong[bad].cache) + 1; break;
        case 2: wrong[bad].head = RANGE_HEADS; break;
        default: wrong[bad].view.dtype = PITH_F64; expected = PITH_ERR_DTYPE;
        }
        context("range %zu, wrong %zu", bad, k % 4);
        CHECK_STATUS(expected, pith_kv_read(r.work, wrong, RANGES));
        CHECK(pith_work_error(r.work)->item == bad);
        CHECK(memcmp(r.out, untouched, r.bytes) == 0);
    }
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_read(r.work, NULL, 1));
    free(untouched);
    ranges_close(&r);
}

/* What a list has wrong is found before any cache is changed, and the item is named. */
static void test_refused_list(void **state) {
    (void)state;
    const struct kv_setting *const a = &settings[1], *const b = &settings[6];
    struct list l;
    list_open(&l, a, b);
    uint8_t *rows[2] = {tokens_of(a, capacity_of(a) + 1 + LIST, 1),
                        tokens_of(b, capacity_of(b) + 1 + LIST, 2)};
    pith_kv *caches[LIST];
    pith_view views[LIST], wrong[LIST];
    uint8_t *memory[LIST];
    const uint64_t n[LIST] = {9, 40, 0, 1, 21, 7, 2};
    for (size_t i = 0; i < LIST; i++) caches[i] = l.together[i].kv;
    list_views(&l, n, rows, views, memory);
    for (int round = 0; round < 2; round++) { /* empty caches, then others */
        for (size_t k = 0; k < 6 * LIST; k++) {
            const size_t bad = k / 6, other = bad + 2 < LIST ? bad + 2 : bad - 2; /* of its plan */
            pith_kv *const kept = caches[bad];
            pith_status status = PITH_ERR_ARG;
            memcpy(wrong, views, sizeof wrong);
            switch (k % 6) {
            case 0: caches[bad] = NULL; break;
            case 1: caches[bad] = caches[other]; break; /* twice */
            case 2:
                wrong[bad] =
                    rows_view(&l.plan[bad % 2].set, rows[bad % 2], l.plan[bad % 2].capacity + 1);
                status = PITH_ERR_SPACE;
                break;
            case 3:
                wrong[bad].dtype = PITH_I8;
                status = PITH_ERR_DTYPE;
                break;
            case 4:
                wrong[bad].shape[wrong[bad].ndim - 1]++;
                status = PITH_ERR_SHAPE;
                break;
            default: wrong[bad] = rows_view(&l.plan[bad % 2].set, NULL, 1); break;
            }
            const uint64_t item = k % 6 == 1 && other > bad ? other : bad;
            context("round %d, item %zu, fault %zu", round, bad, k % 6);
            CHECK_STATUS(status, pith_kv_append(l.work, caches, wrong, LIST));
            CHECK(pith_work_error(l.work)->item == item && pith_work_error(l.work)->text[0] != 0);
            check_list(&l);
            caches[bad] = kept;
        }
        CHECK_OK(pith_kv_append(l.work, caches, views, LIST));
        for (size_t i = 0; i < LIST; i++)
            CHECK_OK(pith_kv_append(l.work, &l.alone[i].kv, &views[i], 1));
        check_list(&l);
    }
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append(l.work, NULL, views, LIST));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append(l.work, caches, NULL, LIST));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append(NULL, caches, views, LIST));
    CHECK_OK(pith_kv_append(l.work, NULL, NULL, 0));
    check_list(&l);
    for (size_t i = 0; i < LIST; i++) free(memory[i]);
    free(rows[0]);
    free(rows[1]);
    list_close(&l);
}

/* ---- One call at a time ----------------------------------------------------------------------*/

/* Tokens for each cache of a batch, so many that its work calls the runner. */
enum { MANY = 30 };

/* What a runner has while a call waits for it. */
struct intruder {
    pith_work *own, *other; /* the call's, and one of its own */
    pith_kv *taken[2];      /* caches of the call */
    pith_kv *spare;         /* another of their plan */
    const struct kv_setting *set;
    const uint8_t *rows;
    size_t calls, jobs; /* jobs: to be run before the call is left for ever; SIZE_MAX: all */
};

static jmp_buf outside;

/* All calls on a cache of the call under way are refused, one after the other. */
static void check_taken(const struct intruder *in, pith_kv *cache, uint64_t tokens) {
    const pith_view one = rows_view(in->set, in->rows, 1), like = rows_view(in->set, NULL, 1);
    const size_t row = (size_t)in->set->heads * in->set->dim * pith_dtype_bytes(in->set->dtype);
    uint8_t *const to = allocate(row), *const memory = allocate(1 << 16);
    const pith_view out = rows_view(in->set, to, 1);
    const pith_kv_tokens batch[2] = {{in->spare, in->rows}, {cache, in->rows}};
    pith_kv *const list[2] = {in->spare, cache};
    const pith_view views[2] = {one, one};
    pith_kv *child;
    size_t written;
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_append(in->other, &cache, &one, 1));
    CHECK(pith_work_error(in->other)->text[0] != 0);
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_append(in->other, list, views, 2));
    CHECK(pith_work_error(in->other)->item == 1);
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_append_batch(in->other, &like, batch, 2));
    CHECK(pith_work_error(in->other)->item == 1);
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_append_delta(in->other, cache, &one, &out));
    CHECK_STATUS(PITH_ERR_BUSY,
                 pith_kv_read(in->other, &(pith_kv_range){cache, 0, 1, 0, in->set->heads, out}, 1));
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_read_add(in->other, cache, 0, 1, &out));
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_truncate(in->other, cache, 0));
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_save(in->other, cache, memory, 1 << 16, &written));
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_load(in->other, cache, memory, 1 << 16));
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_fork(in->other, cache, 0, 0, memory, 1 << 16, &child));
    CHECK(pith_kv_count(in->spare) == tokens);
    free(to);
    free(memory);
}

/* A runner that calls for the cache before any job, and after all of them. */
static int intrude(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    struct intruder *const in = user;
    const pith_view one = rows_view(in->set, in->rows, 1);
    in->calls++;
    for (size_t i = 0; i < count && in->jobs == SIZE_MAX; i++) {
        const uint64_t tokens = pith_kv_count(in->spare);
        check_taken(in, in->taken[0], tokens);
        check_taken(in, in->taken[1], tokens);
        CHECK_STATUS(PITH_ERR_BUSY, pith_kv_append(in->own, &in->spare, &one, 1));
        CHECK_OK(pith_kv_append(in->other, &in->spare, &one, 1));
        CHECK(pith_kv_count(in->spare) == tokens + 1);
        job(arg, i);
    }
    if (in->jobs == SIZE_MAX) return 0;
    for (size_t i = 0; i < count && i < in->jobs; i++) job(arg, i);
    longjmp(outside, 1);
}

/* A batch whose work calls `intrude`. */
struct intruded {
    struct batch b;
    struct intruder in;
    void *own_memory, *other_memory, *spare_memory;
    uint8_t *rows;
};

static void intruded_open(struct intruded *t, const struct kv_setting *s, size_t jobs) {
    pith_env env = test_env();
    env.threads = THREADS;
    env.run = intrude;
    env.run_user = &t->in;
    batch_open(&t->b, s);
    t->rows = tokens_of(s, MANY * BATCH, 7);
    t->in = (struct intruder){
        .taken = {t->b.kv[0][0], t->b.kv[0][BATCH - 1]}, .set = s, .rows = t->rows, .jobs = jobs};
    t->in.own = work_for(&t->b.plan, 1, &env, &t->own_memory);
    t->in.other = work_for(&t->b.plan, 1, NULL, &t->other_memory);
    const size_t bytes = (size_t)pith_kv_bytes(t->b.plan, 0);
    t->spare_memory = allocate(bytes);
    CHECK_OK(pith_kv_init(t->b.plan, t->spare_memory, bytes, &t->in.spare, NULL));
}

static void intruded_close(struct intruded *t) {
    batch_close(&t->b);
    free(t->own_memory);
    free(t->other_memory);
    free(t->spare_memory);
    free(t->rows);
}

/* The tokens of cache i. */
static const uint8_t *rows_for(const struct intruded *t, size_t i) {
    const struct kv_setting *s = t->in.set;
    return t->rows + i * MANY * s->heads * s->dim * pith_dtype_bytes(s->dtype);
}

/* A cache that a call has is not entered again, nor is the work; other caches of the plan are free
 * for other works meanwhile. */
static void test_busy(void **state) {
    (void)state;
    const struct kv_setting *const s = &settings[0];
    struct intruded t;
    pith_kv_tokens to[BATCH];
    context("a cache of a call");
    intruded_open(&t, s, SIZE_MAX);
    for (size_t i = 0; i < BATCH; i++) {
        const pith_view many = rows_view(s, rows_for(&t, i), MANY);
        to[i] = (pith_kv_tokens){t.b.kv[0][i], rows_for(&t, i)};
        CHECK_OK(pith_kv_append(t.in.other, &t.b.kv[1][i], &many, 1));
    }
    const pith_view like = rows_view(s, NULL, MANY);
    CHECK_OK(pith_kv_append_batch(t.in.own, &like, to, BATCH));
    CHECK(t.in.calls == 1 && pith_work_error(t.in.own)->text[0] == 0);
    CHECK(pith_kv_count(t.in.spare) == THREADS);
    check_batch(&t.b);
    CHECK_OK(pith_kv_truncate(t.in.other, t.in.taken[0], 3));
    CHECK(pith_kv_count(t.in.taken[0]) == 3);
    intruded_close(&t);
}

/* True when the call never returned. */
static bool is_left(const struct intruded *t, const pith_kv_tokens *to, pith_status *status) {
    const pith_view like = rows_view(t->in.set, NULL, MANY);
    if (setjmp(outside)) return true;
    *status = pith_kv_append_batch(t->in.own, &like, to, BATCH);
    return false;
}

/* The work of a call that was left is made anew in its memory: the marks of its caches name it, and
 * are not taken for those of a call that finds them. */
static void check_lost_work(struct intruded *t, const pith_kv_tokens *to, uint8_t *rows) {
    const struct kv_setting *const s = t->in.set;
    const pith_view like = rows_view(s, NULL, 1),
                    two[2] = {rows_view(s, rows, 1), rows_view(s, rows, 1)};
    pith_kv *const lists[2][2] = {{t->in.spare, to[0].cache}, {to[0].cache, to[1].cache}};
    const size_t bytes = (size_t)pith_work_bytes(&t->b.plan, 1, 1);
    CHECK_OK(pith_work_init(t->own_memory, bytes, NULL, &t->in.own, NULL));
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_append(t->in.own, &to[0].cache, two, 1));
    for (size_t i = 0; i < 2; i++) {
        const pith_kv_tokens batch[2] = {{lists[i][0], rows}, {lists[i][1], rows}};
        CHECK_STATUS(PITH_ERR_BUSY, pith_kv_append(t->in.own, lists[i], two, 2));
        CHECK_STATUS(PITH_ERR_BUSY, pith_kv_append_batch(t->in.own, &like, batch, 2));
        CHECK(pith_work_error(t->in.own)->item == 1 - i);
    }
    CHECK_STATUS(PITH_ERR_BUSY, pith_kv_truncate(t->in.own, to[0].cache, 0));
}

/* Caches of a call that was left for ever stay marked until that is taken away. They have their
 * tokens or not; both go on from there. */
static void test_unlock(void **state) {
    (void)state;
    const struct kv_setting *const s = &settings[0];
    for (size_t jobs = 0; jobs <= THREADS; jobs++) {
        struct intruded t;
        pith_kv_tokens to[BATCH];
        pith_status status = PITH_OK;
        size_t filled = 0;
        context("left after %zu jobs", jobs);
        intruded_open(&t, s, jobs);
        for (size_t i = 0; i < BATCH; i++) to[i] = (pith_kv_tokens){t.b.kv[0][i], rows_for(&t, i)};
        CHECK(is_left(&t, to, &status));
        CHECK(t.in.calls == 1);
        const pith_view one = rows_view(s, t.rows, 1);
        CHECK_STATUS(PITH_ERR_BUSY, pith_kv_append(t.in.own, &t.in.spare, &one, 1));
        check_lost_work(&t, to, t.rows);
        for (size_t i = 0; i < BATCH; i++) {
            pith_kv **const cache = &t.b.kv[0][i], **const twin = &t.b.kv[1][i];
            check_taken(&t.in, *cache, 0);
            pith_kv_unlock(*cache);
            if (pith_kv_count(*cache)) {
                const pith_view many = rows_view(s, rows_for(&t, i), MANY);
                CHECK_OK(pith_kv_append(t.in.other, twin, &many, 1));
                filled++;
            }
            CHECK_OK(pith_kv_append(t.in.other, cache, &one, 1));
            CHECK_OK(pith_kv_append(t.in.other, twin, &one, 1));
        }
        check_batch(&t.b);
        CHECK(jobs == 0 ? filled == 0 : jobs == THREADS ? filled == BATCH : filled > 0);
        pith_kv_unlock(t.in.spare); /* nothing is to be done */
        CHECK_OK(pith_kv_append(t.in.other, &t.in.spare, &one, 1));
        intruded_close(&t);
    }
}

/* What a thread does with caches of its own: its plan is that of others. */
struct side {
    const struct kv_setting *set;
    pith_work *work;
    pith_kv *cache[3];
    const uint8_t *rows; /* `count` tokens */
    uint64_t count;
    pith_status status; /* the first that was not PITH_OK */
};

static void note(struct side *side, pith_status status) {
    if (side->status == PITH_OK) side->status = status;
}

static void *grow(void *arg) {
    struct side *const side = arg;
    const struct kv_setting *s = side->set;
    const size_t row = (size_t)s->heads * s->dim * pith_dtype_bytes(s->dtype);
    uint8_t *const out = allocate((size_t)s->heads * s->dim * 4 * 8);
    for (uint64_t t = 0; t + 3 <= side->count; t++) {
        pith_view views[3];
        for (size_t i = 0; i < 3; i++)
            views[i] = rows_view(s, side->rows + (t + i) * row, 1 + i % 2);
        note(side, pith_kv_append(side->work, side->cache, views, 3));
        for (size_t i = 0; i < 3; i++) {
            const uint64_t held = pith_kv_count(side->cache[i]), n = held < 8 ? held : 8;
            const uint64_t shape[3] = {n, s->heads, s->dim};
            const pith_view v = pith_view_dense(out, PITH_F32, 3, shape);
            note(side,
                 pith_kv_read(side->work,
                              &(pith_kv_range){side->cache[i], held - n, n, 0, s->heads, v}, 1));
        }
        if (pith_kv_remaining(side->cache[1]) < 2)
            for (size_t i = 0; i < 3; i++)
                note(side, pith_kv_truncate(side->work, side->cache[i], 0));
    }
    free(out);
    return NULL;
}

/* Caches of one plan on two threads, each with a work of its own, and the same alone. */
static void test_threads(void **state) {
    (void)state;
    enum { SIDES = 3, TOKENS = 200 }; /* the last two do the same; one of them alone */
    for (size_t k = 0; k < SETTINGS; k++) {
        const struct kv_setting *const s = &settings[k];
        const uint64_t capacity = capacity_of(s);
        const pith_plan *plan;
        struct side side[SIDES];
        void *scratch[SIDES], *memory[SIDES][3];
        pthread_t thread[2];
        open_plan(&plan, s, capacity, 0);
        uint8_t *rows = tokens_of(s, TOKENS, k), *others = tokens_of(s, TOKENS, k + 1);
        const size_t bytes = (size_t)pith_kv_bytes(plan, 0);
        for (size_t i = 0; i < SIDES; i++) {
            side[i] = (struct side){.set = s, .rows = i ? rows : others, .count = TOKENS};
            side[i].work = work_for(&plan, 1, NULL, &scratch[i]);
            for (size_t j = 0; j < 3; j++) {
                memory[i][j] = allocate(bytes);
                CHECK_OK(pith_kv_init(plan, memory[i][j], bytes, &side[i].cache[j], NULL));
            }
        }
        for (size_t i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, grow, &side[i]) == 0);
        for (size_t i = 0; i < 2; i++) CHECK(pthread_join(thread[i], NULL) == 0);
        grow(&side[2]);
        for (size_t i = 0; i < SIDES; i++) CHECK_OK(side[i].status);
        for (size_t j = 0; j < 3; j++) {
            const struct cache one = {.work = side[1].work, .kv = side[1].cache[j]};
            const struct cache other = {.work = side[2].work, .kv = side[2].cache[j]};
            CHECK(pith_kv_count(one.kv) > 0);
            check_same(&one, &other);
        }
        for (size_t i = 0; i < SIDES; i++) {
            for (size_t j = 0; j < 3; j++) free(memory[i][j]);
            free(scratch[i]);
        }
        pith_plan_destroy(plan);
        free(rows);
        free(others);
    }
}

/* ---- What appending meets --------------------------------------------------------------------*/

/* Non-finite values poison groups and are counted; exact tokens keep them. */
static void test_poison(void **state) {
    (void)state;
    const struct kv_setting *s = &settings[1];
    struct cache c;
    struct kv_model m;
    pith_stats stats = {.size = sizeof stats};
    uint64_t seed = 9;
    cache_open(&c, s, 0);
    uint32_t *rows = tokens_of(s, 20, 1);
    rows[0] = 0x7FC12345u;
    rows[19 * 15] = 0xFF800000u;
    kv_model_open(&m, s, c.capacity);
    append(&c, rows, 20);
    CHECK(kv_model_append(&m, rows, 20));
    CHECK_OK(pith_kv_stats(c.kv, &stats));
    CHECK(stats.poisoned == 1 && stats.saturated == 0 && stats.frames == 0);
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_stats(NULL, &stats));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_stats(c.kv, NULL));
    stats = (pith_stats){.frames = 3};
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_stats(c.kv, &stats));
    CHECK(stats.frames == 3 && stats.poisoned == 0); /* the size was not set */
    check_cache(&c, &m, &seed);
    kv_model_close(&m);
    free(rows);
    cache_close(&c);
}

/* In a batch, every cache counts its own. */
static void test_poison_batch(void **state) {
    (void)state;
    static const struct kv_setting poisoned[] = {
        {"kv:page=16,group=32", PITH_F32, 2, 64, 16, 0, false},
        {"kv:page=16,group=32,codebook=trellis", PITH_F32, 2, 64, 16, 0, false},
        {"kv:preset=trellis3,page=16", PITH_F32, 2, 64, 16, 0, false}};
    for (size_t k = 0; k < sizeof poisoned / sizeof *poisoned; k++) {
        const struct kv_setting *const s = &poisoned[k];
        struct batch b;
        pith_stats stats = {.size = sizeof stats};
        batch_open(&b, s);
        const size_t row = (size_t)s->heads * s->dim;
        uint32_t *rows = tokens_of(s, BATCH, 1);
        for (size_t i = 0; i < BATCH; i += 3) rows[i * row + i] = 0x7FC12345u;
        append_batch(&b, s, (const uint8_t *)rows, 1, BATCH);
        for (size_t i = 0; i < BATCH; i++) {
            CHECK_OK(pith_kv_stats(b.kv[0][BATCH - 1 - i], &stats));
            CHECK(stats.poisoned == (i % 3 == 0) && stats.saturated == 0);
        }
        check_batch(&b);
        batch_close(&b);
        free(rows);
    }
}

/* Exact tokens alone, from every head on, into every kind of view. */
static void test_exact_views(void **state) {
    (void)state;
    const struct kv_setting *s = &settings[1]; /* three heads, five tokens are exact */
    struct cache c;
    struct kv_model m;
    cache_open(&c, s, 0);
    kv_model_open(&m, s, c.capacity);
    uint8_t *rows = tokens_of(s, s->window, 2);
    append(&c, rows, s->window);
    CHECK(kv_model_append(&m, rows, s->window) && pith_kv_finished(c.kv) == 0);
    for (unsigned how = 0; how < 128; how++)
        for (uint32_t head = 0; head < s->heads; head++)
            for (uint32_t heads = 1; heads <= s->heads - head; heads++) {
                context("view %u of heads %u to %u", how, head, head + heads);
                check_read(&c, &m, 1, s->window - 1, head, heads, how);
            }
    kv_model_close(&m);
    free(rows);
    cache_close(&c);
}

/* ---- Truncate --------------------------------------------------------------------------------*/

static void test_truncate(void **state) {
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const struct kv_setting *s = &settings[k];
        struct cache c;
        struct kv_model m;
        uint64_t seed = 100 + k, cuts = 0;
        cache_open(&c, s, PITH_LAYOUT_CHECKSUMS);
        kv_model_open(&m, s, c.capacity);
        uint8_t *rows = tokens_of(s, c.capacity, k);
        for (int i = 0; i < 60; i++) {
            const uint64_t keep = gen_next(&seed) % (m.tokens + 1);
            const bool cut = keep < m.finished;
            context("%s: %llu of %llu", s->spec, (unsigned long long)keep,
                    (unsigned long long)m.tokens);
            if (!(cut && cuts == CUTS) && i % 3) {
                CHECK_OK(pith_kv_truncate(c.work, c.kv, keep));
                kv_model_truncate(&m, keep);
                cuts = keep ? cuts + cut : 0;
            }
            const uint64_t n = gen_next(&seed) % (pith_kv_remaining(c.kv) + 1);
            append(&c, rows + gen_next(&seed) % (c.capacity - n + 1) * kv_model_row(&m), 0);
            append(&c, rows, n);
            CHECK(kv_model_append(&m, rows, n));
            check_cache(&c, &m, &seed);
        }
        CHECK_STATUS(PITH_ERR_ARG, pith_kv_truncate(c.work, c.kv, m.tokens + 1));
        kv_model_close(&m);
        free(rows);
        cache_close(&c);
    }
}

/* The promise on memory: `page` more tokens for each time that finished tokens are dropped. */
static void test_capacity_for_cuts(void **state) {
    (void)state;
    const struct kv_setting s = {
        "kv:axis=channel,page=16,group=16,window=4", PITH_F32, 1, 8, 16, 4, true};
    const pith_plan *plan;
    pith_kv *kv;
    void *scratch;
    open_plan(&plan, &s, 100, 0);
    pith_work *const work = work_for(&plan, 1, NULL, &scratch);
    for (uint64_t cuts = 0; cuts <= CUTS; cuts++) {
        const size_t bytes = (size_t)pith_kv_bytes(plan, 100 + cuts * 16);
        void *memory = allocate(bytes), *rows = tokens_of(&s, 100, 3);
        CHECK_OK(pith_kv_init(plan, memory, bytes, &kv, NULL));
        const pith_view all = rows_view(&s, rows, 100);
        CHECK_OK(pith_kv_append(work, &kv, &all, 1));
        for (uint64_t i = 1; i <= cuts; i++) {
            CHECK_OK(pith_kv_truncate(work, kv, 90 - 17 * i));
            CHECK(pith_kv_remaining(kv) == 10 + 17 * i);
            const pith_view more = rows_view(&s, rows, 10 + 17 * i);
            CHECK_OK(pith_kv_append(work, &kv, &more, 1));
        }
        CHECK(pith_kv_count(kv) == 100 && pith_kv_remaining(kv) == 0);
        free(memory);
        free(rows);
    }
    free(scratch);
    pith_plan_destroy(plan);
}

/* Memory of so many pages holds what fills them and what is not due, and no token more. */
static void test_full(void **state) {
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const struct kv_setting *s = &settings[k];
        const pith_plan *plan;
        pith_kv *kv;
        void *scratch;
        open_plan(&plan, s, 10 * s->page + s->window, 0);
        const size_t bytes = (size_t)pith_kv_bytes(plan, s->window + 2 * s->page);
        const uint64_t most = s->window + 2 * s->page + (s->channel ? s->page - 1 : 0);
        void *memory = allocate(bytes), *rows = tokens_of(s, most + 1, k);
        const pith_view all = rows_view(s, rows, most + 1), one = rows_view(s, rows, 1);
        const pith_view fits = rows_view(s, rows, most);
        pith_work *const work = work_for(&plan, 1, NULL, &scratch);
        CHECK_OK(pith_kv_init(plan, memory, bytes, &kv, NULL));
        CHECK(pith_kv_remaining(kv) == most);
        CHECK_STATUS(PITH_ERR_SPACE, pith_kv_append(work, &kv, &all, 1));
        CHECK(pith_kv_count(kv) == 0 && pith_kv_remaining(kv) == most);
        CHECK_OK(pith_kv_append(work, &kv, &fits, 1));
        CHECK(pith_kv_finished(kv) == 2 * s->page && pith_kv_remaining(kv) == 0);
        CHECK_STATUS(PITH_ERR_SPACE, pith_kv_append(work, &kv, &one, 1));
        pith_plan_destroy(plan);
        free(memory);
        free(scratch);
        free(rows);
    }
}

/* ---- Fork ------------------------------------------------------------------------------------*/

/* Children share, or copy, and then go ways of their own; so does the parent above what is
 * shared. */
static void test_fork(void **state) {
    (void)state;
    for (size_t k = 0; k < 2 * SETTINGS; k++) {
        const struct kv_setting *s = &settings[k / 2];
        const uint32_t flags = k % 2 ? PITH_KV_COPY : 0;
        struct cache parent, child[3];
        struct kv_model m, copy[3];
        uint64_t seed = 200 + k;
        cache_open(&parent, s, 0);
        kv_model_open(&m, s, parent.capacity);
        uint8_t *rows = tokens_of(s, parent.capacity, k);
        const uint64_t n = parent.capacity - 20;
        append(&parent, rows, n);
        CHECK(kv_model_append(&m, rows, n));
        for (int i = 0; i < 3; i++) {
            const struct cache *from = i == 2 ? &child[1] : &parent;
            const uint64_t keep = pith_kv_count(from->kv) - (i ? gen_next(&seed) % 40 : 0);
            context("%s: child %d of %llu", s->spec, i, (unsigned long long)keep);
            cache_open(&child[i], s, 0);
            free(child[i].memory);
            const size_t bytes = (size_t)pith_kv_bytes(parent.plan, parent.capacity);
            child[i].memory = allocate(bytes);
            CHECK_OK(pith_kv_fork(child[i].work, from->kv, keep, flags, child[i].memory, bytes,
                                  &child[i].kv));
            kv_model_copy(&copy[i], i == 2 ? &copy[1] : &m);
            kv_model_truncate(&copy[i], keep);
            check_cache(&child[i], &copy[i], &seed);
            const uint64_t more = pith_kv_remaining(child[i].kv) / 2;
            append(&child[i], rows, more);
            CHECK(kv_model_append(&copy[i], rows, more));
        }
        append(&parent, rows + 7 * kv_model_row(&m), 20);
        CHECK(kv_model_append(&m, rows + 7 * kv_model_row(&m), 20));
        check_cache(&parent, &m, &seed);
        for (int i = 0; i < 3; i++) check_cache(&child[i], &copy[i], &seed);
        const uint64_t keep = s->page + 3; /* inside of a page that is shared */
        CHECK_OK(pith_kv_truncate(child[2].work, child[2].kv, keep));
        kv_model_truncate(&copy[2], keep);
        append(&child[2], rows, s->page);
        CHECK(kv_model_append(&copy[2], rows, s->page));
        for (int i = 0; i < 3; i++) check_cache(&child[i], &copy[i], &seed);
        check_cache(&parent, &m, &seed);
        for (int i = 0; i < 3; i++) {
            kv_model_close(&copy[i]);
            cache_close(&child[i]);
        }
        kv_model_close(&m);
        free(rows);
        cache_close(&parent);
    }
}

/* Memory for what is not shared is enough. */
static void test_small_child(void **state) {
    (void)state;
    const struct kv_setting *s = &settings[0];
    struct cache parent;
    pith_kv *child;
    cache_open(&parent, s, 0);
    void *rows = tokens_of(s, parent.capacity, 1);
    append(&parent, rows, 40);
    const size_t bytes = (size_t)pith_kv_bytes(parent.plan, 16), less = bytes - 1;
    void *memory = allocate(bytes);
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_kv_fork(parent.work, parent.kv, 40, PITH_KV_COPY, memory, bytes, &child));
    CHECK(child == NULL);
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_fork(parent.work, parent.kv, 40, 0, memory, less, &child));
    CHECK_OK(pith_kv_fork(parent.work, parent.kv, 32, 0, memory, less, &child));
    CHECK(pith_kv_remaining(child) == 0);
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_truncate(parent.work, child, 5));
    CHECK(pith_kv_count(child) == 32);
    CHECK_OK(pith_kv_truncate(parent.work, child, 16));
    CHECK_OK(pith_kv_fork(parent.work, parent.kv, 40, 0, memory, bytes, &child));
    CHECK(pith_kv_remaining(child) == 8);
    free(memory);
    free(rows);
    cache_close(&parent);
}

/* The memory that kv.h names for a child: space for n tokens wherever a parent is cut. */
static void test_memory_of_children(void **state) {
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const struct kv_setting *s = &settings[k];
        struct cache parent;
        pith_kv *child;
        cache_open(&parent, s, 0);
        void *rows = tokens_of(s, parent.capacity, 1);
        const uint64_t length = s->window + 2 * s->page + 5;
        append(&parent, rows, length);
        for (uint64_t n = 0; n <= 2 * s->page; n += s->page / 2 - 1) {
            const uint64_t apart = s->window + n + s->page;
            void *memory = allocate((size_t)pith_kv_bytes(parent.plan, apart + length));
            for (uint64_t keep = 0; keep <= length; keep++) {
                const uint64_t left = parent.capacity - keep, most = n < left ? n : left;
                for (uint32_t copy = 0; copy < 2; copy++) {
                    const uint64_t bytes = pith_kv_bytes(parent.plan, apart + copy * keep);
                    CHECK_OK(pith_kv_fork(parent.work, parent.kv, keep, copy ? PITH_KV_COPY : 0,
                                          memory, (size_t)bytes, &child));
                    CHECK(pith_kv_remaining(child) >= most);
                }
            }
            free(memory);
        }
        free(rows);
        cache_close(&parent);
    }
}

/* Each cause of a refusal has a text of its own, which the calls on caches give as well. */
static void test_why_not(void **state) {
    (void)state;
    static const struct {
        const char *spec, *text;
        uint32_t ndim;
        uint64_t shape[3], slots;
        uint32_t base_dtype;
    } rows[] = {{"kv:page=16", "", 3, {32, 2, 64}, 1, PITH_NONE},
                {"kv:page=16", "", 2, {32, 64}, 0, PITH_NONE},
                {"grad", "codec kv", 2, {32, 64}, 1, PITH_NONE},
                {"kv:page=16,entropy=zstd", "entropy=none", 2, {32, 64}, 1, PITH_NONE},
                {"kv:page=16,entropy=rans", "entropy=none", 2, {32, 64}, 1, PITH_NONE},
                {"kv:page=16,order=heads", "order=tokens", 3, {2, 32, 64}, 1, PITH_NONE},
                {"kv:page=16", "no base", 2, {32, 64}, 1, PITH_F32},
                {"kv:page=16", "one slot", 2, {32, 64}, 2, PITH_NONE},
                {"kv:page=16", "[tokens, heads, dim]", 1, {32}, 1, PITH_NONE},
                {"kv:page=16", "one page of tokens (key page)", 2, {15, 64}, 1, PITH_NONE},
                {"kv:page=16", "have elements", 3, {32, 0, 64}, 1, PITH_NONE},
                {"kv:page=16", "have elements", 2, {32, 0}, 1, PITH_NONE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pith_layout layout = {.size = sizeof layout,
                              .dtype = PITH_F32,
                              .base_dtype = rows[i].base_dtype,
                              .ndim = rows[i].ndim,
                              .slots = rows[i].slots};
        memcpy(layout.shape, rows[i].shape, sizeof rows[i].shape);
        const pith_plan *plan;
        pith_kv *cache;
        pith_error error = {.size = sizeof error}, again = {.size = sizeof again};
        uint8_t memory[64];
        context("row %zu: %s", i, rows[i].spec);
        CHECK_OK(pith_plan_create(&plan, rows[i].spec, &layout, NULL, NULL));
        const bool good = !rows[i].text[0];
        CHECK_STATUS(good ? PITH_OK : PITH_ERR_UNSUPPORTED, pith_kv_check(plan, &error));
        CHECK(good ? error.text[0] == 0 : strstr(error.text, rows[i].text) != NULL);
        CHECK((pith_kv_bytes(plan, 0) != 0) == good);
        if (!good) {
            CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                         pith_kv_init(plan, memory, sizeof memory, &cache, &again));
            CHECK(cache == NULL && strcmp(again.text, error.text) == 0);
            CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                         pith_kv_init(plan, memory, sizeof memory, &cache, NULL));
        }
        pith_plan_destroy(plan);
    }
    pith_error error = {.size = sizeof error};
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_check(NULL, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_check(NULL, &error));
    CHECK(error.text[0] != 0);
}

/* What else a cache cannot be built of, each with a text: no plan, no memory, no place for the
 * pointer, too little memory. */
static void test_refused_init(void **state) {
    (void)state;
    const struct kv_setting *s = &settings[0];
    const pith_plan *plan;
    open_plan(&plan, s, 100, 0);
    const size_t bytes = (size_t)pith_kv_bytes(plan, 0);
    uint8_t *const memory = allocate(bytes);
    memset(memory, 0xA5, bytes);
    pith_kv *const before = (pith_kv *)(void *)memory, *cache = before;
    pith_error error = {.size = sizeof error};
    const struct {
        const pith_plan *plan;
        void *memory;
        size_t bytes;
        pith_kv **cache;
        pith_status status;
        const char *word;
    } rows[] = {{NULL, memory, bytes, &cache, PITH_ERR_ARG, "plan"},
                {plan, NULL, bytes, &cache, PITH_ERR_ARG, "memory"},
                {plan, memory, bytes, NULL, PITH_ERR_ARG, "cache"},
                {plan, memory, 0, &cache, PITH_ERR_SPACE, "memory"},
                {plan, memory, 100, &cache, PITH_ERR_SPACE, "memory"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        context("row %zu", i);
        cache = before;
        error.text[0] = 0;
        CHECK_STATUS(rows[i].status, pith_kv_init(rows[i].plan, rows[i].memory, rows[i].bytes,
                                                  rows[i].cache, &error));
        CHECK(strstr(error.text, rows[i].word) != NULL);
        CHECK_STATUS(rows[i].status, pith_kv_init(rows[i].plan, rows[i].memory, rows[i].bytes,
                                                  rows[i].cache, NULL));
        if (rows[i].plan && rows[i].cache) CHECK(cache == NULL);
        CHECK(all_bytes(memory, bytes, 0xA5));
    }
    size_t low = 100, high = bytes; /* high suffices, low does not */
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (pith_kv_init(plan, memory, middle, &cache, &error) == PITH_OK)
            high = middle;
        else
            low = middle;
    }
    CHECK_OK(pith_kv_init(plan, memory, high, &cache, &error));
    CHECK(cache != NULL && error.text[0] == 0 && pith_kv_remaining(cache) == 0);
    char wanted[2][32];
    snprintf(wanted[0], sizeof wanted[0], "%zu bytes needed", high);
    snprintf(wanted[1], sizeof wanted[1], "%zu given", low);
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_init(plan, memory, low, &cache, &error));
    CHECK(cache == NULL && strstr(error.text, wanted[0]) && strstr(error.text, wanted[1]));
    free(memory);
    pith_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_why_not),
        cmocka_unit_test(test_refused_init),
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_refused_batch),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_read_list),
        cmocka_unit_test(test_refused_read_list),
        cmocka_unit_test(test_refused_list),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_unlock),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_poison),
        cmocka_unit_test(test_poison_batch),
        cmocka_unit_test(test_truncate),
        cmocka_unit_test(test_capacity_for_cuts),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_small_child),
        cmocka_unit_test(test_exact_views),
        cmocka_unit_test(test_memory_of_children),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
