/* test_pages.c - pages of codec kv: saved caches, pages alone, accumulators, differences.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "kv_model.h"
#include "util.h"

static const struct kv_setting settings[] = {
    {"kv:page=16,group=32,window=9", PITH_F32, 2, 64, 16, 9, false},
    {"kv:page=32,bits=3,group=16,scale_dtype=bf16", PITH_BF16, 3, 21, 32, 0, false},
    {"kv:axis=channel,page=32,group=16,window=6", PITH_F16, 2, 20, 32, 6, true},
    {"kv:axis=channel,page=16,group=16,bits=2,search=mse,symmetric=on", PITH_F32, 2, 9, 16, 0,
     true},
    {"kv:page=16,rotate_heads=on,bits=5,symmetric=on,scale_dtype=f32", PITH_F32, 1, 32, 16, 0,
     false},
    {"kv:page=16,group=16,codebook=nf,outliers=0.05", PITH_BF16, 3, 33, 16, 0, false},
    {"kv:axis=channel,page=32,group=16,outliers=0.1,bits=3", PITH_F32, 1, 11, 32, 0, true},
};
enum { SETTINGS = sizeof settings / sizeof settings[0], PAGES = 5 };

static size_t row_of(const struct kv_setting *s) { return (size_t)s->heads * s->dim; }

static pith_layout layout_of(const struct kv_setting *s, uint64_t tokens, uint32_t flags) {
    return (pith_layout){.size = sizeof(pith_layout),
                         .dtype = s->dtype,
                         .flags = flags,
                         .ndim = 3,
                         .shape = {tokens, s->heads, s->dim}};
}

/* A plan, and a work for it. */
struct setup {
    const pith_plan *plan;
    pith_work *work;
    void *memory;
};

static struct setup setup_of(const char *spec, const pith_layout *layout, uint32_t threads) {
    struct setup c;
    pith_env env = test_env();
    env.threads = threads;
    env.run = threads ? run_backwards : NULL;
    context("%s", spec);
    CHECK_OK(pith_plan_create(&c.plan, spec, layout, &env, NULL));
    c.work = work_for(&c.plan, 1, &env, &c.memory);
    return c;
}

static struct setup setup_open(const struct kv_setting *s, uint64_t tokens, uint32_t flags) {
    const pith_layout layout = layout_of(s, tokens, flags);
    return setup_of(s->spec, &layout, 0);
}

static void setup_close(struct setup *c) {
    pith_plan_destroy(c->plan);
    free(c->memory);
}

static pith_view view_of(const struct kv_setting *s, const void *rows, uint32_t dtype,
                         uint64_t tokens) {
    const uint64_t shape[3] = {tokens, s->heads, s->dim};
    return pith_view_dense(rows, dtype, 3, shape);
}

static void *tokens_of(const struct kv_setting *s, uint64_t count, uint64_t seed) {
    const size_t n = (size_t)count * row_of(s);
    void *rows = allocate(n * pith_dtype_bytes(s->dtype));
    gen_fill(GEN_NOISE, seed, s->dtype, rows, n);
    return rows;
}

/* ---- Saved caches ----------------------------------------------------------------------------*/

struct cache {
    struct setup setup;
    pith_kv *kv;
    void *memory;
};

static void cache_open(struct cache *c, const struct kv_setting *s, uint64_t tokens,
                       uint32_t flags) {
    c->setup = setup_open(s, tokens, flags);
    const size_t bytes = (size_t)pith_kv_bytes(c->setup.plan, tokens + 2 * s->page);
    c->memory = allocate(bytes);
    CHECK_OK(pith_kv_init(c->setup.plan, c->memory, bytes, &c->kv, NULL));
}

static void cache_close(struct cache *c) {
    setup_close(&c->setup);
    free(c->memory);
}

static void append(struct cache *c, const struct kv_setting *s, const void *rows, uint64_t n) {
    const pith_view v = view_of(s, rows, s->dtype, n);
    CHECK_OK(pith_kv_append(c->setup.work, &c->kv, &v, 1));
}

static struct frame save(const struct cache *c) {
    struct frame f;
    const size_t bytes = (size_t)pith_kv_save_bytes(c->kv);
    f.bytes = allocate(bytes);
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_save(c->setup.work, c->kv, f.bytes, bytes - 1, &f.length));
    CHECK(f.length == 0);
    CHECK_OK(pith_kv_save(c->setup.work, c->kv, f.bytes, bytes, &f.length));
    CHECK(f.length == bytes);
    return f;
}

/* A cache whose second page was cut: frames of whole pages, of the cut one, of those behind it. */
static uint64_t fill_cut(struct cache *c, const struct kv_setting *s, const void *rows) {
    append(c, s, rows, 3 * s->page + s->window);
    CHECK_OK(pith_kv_truncate(c->setup.work, c->kv, s->page + 3));
    append(c, s, rows, 2 * s->page + s->window + 1);
    return pith_kv_count(c->kv);
}

/* Every frame stands alone and holds what reading the cache gives. */
static void check_frames(const struct cache *c, const struct kv_setting *s, struct frame saved,
                         uint32_t flags) {
    size_t at = 0;
    uint64_t tokens = 0;
    unsigned frames = 0;
    pith_info info = {.size = sizeof info};
    for (; at < saved.length; at += (size_t)info.frame_bytes, frames++) {
        CHECK_OK(pith_inspect(saved.bytes + at, saved.length - at, &info, NULL));
        CHECK_OK(pith_verify(saved.bytes + at, saved.length - at, NULL, NULL));
        CHECK(info.has_checksums == (flags != 0));
        CHECK(info.ndim == 3 && info.shape[1] == s->heads && info.shape[2] == s->dim);
        const size_t n = (size_t)info.count, bytes = n * pith_dtype_bytes(s->dtype);
        uint8_t *one = allocate(bytes), *other = allocate(bytes);
        const pith_view a = view_of(s, one, s->dtype, info.shape[0]);
        const pith_view b = view_of(s, other, s->dtype, info.shape[0]);
        CHECK_OK(pith_decompress(saved.bytes + at, saved.length - at, NULL, NULL, &a, NULL));
        CHECK_OK(pith_kv_read(c->setup.work,
                              &(pith_kv_range){c->kv, tokens, info.shape[0], 0, s->heads, b}, 1));
        CHECK(memcmp(one, other, bytes) == 0);
        tokens += info.shape[0];
        CHECK((strcmp(info.codec_name, "raw") == 0) ==
              (tokens == pith_kv_count(c->kv) && at + info.frame_bytes == saved.length));
        free(one);
        free(other);
    }
    CHECK(tokens == pith_kv_count(c->kv) && frames == (s->channel ? 3 : 2));
}

static void test_save(void **state) {
    (void)state;
    for (size_t k = 0; k < 2 * SETTINGS; k++) {
        const struct kv_setting *s = &settings[k / 2];
        const uint32_t flags = k % 2 ? PITH_LAYOUT_CHECKSUMS : 0;
        struct cache a, b;
        void *rows = tokens_of(s, 200, k);
        cache_open(&a, s, 200, flags);
        cache_open(&b, s, 200, flags);
        struct frame empty = save(&a);
        fill_cut(&a, s, rows);
        struct frame saved = save(&a);
        check_frames(&a, s, saved, flags);
        append(&b, s, rows, 50);
        CHECK_OK(pith_kv_load(b.setup.work, b.kv, saved.bytes, saved.length));
        for (int i = 0; i < 2; i++) {
            struct frame again = save(&b);
            CHECK(again.length == saved.length);
            CHECK(memcmp(again.bytes, saved.bytes, saved.length) == 0);
            free(again.bytes);
            free(saved.bytes);
            append(&a, s, rows, s->page + 5); /* both go on alike */
            append(&b, s, rows, s->page + 5);
            saved = save(&a);
        }
        CHECK_OK(pith_kv_load(b.setup.work, b.kv, empty.bytes, empty.length));
        CHECK(pith_kv_count(b.kv) == 0);
        free(saved.bytes);
        free(empty.bytes);
        free(rows);
        cache_close(&a);
        cache_close(&b);
    }
}

/* ---- Damaged saves ---------------------------------------------------------------------------*/

static void refuse(struct cache *c, struct frame before, const uint8_t *bytes, size_t length,
                   pith_status wanted) {
    uint8_t *copy = copy_of(bytes, length);
    const pith_status status = pith_kv_load(c->setup.work, c->kv, copy, length);
    CHECK(status != PITH_OK && (wanted == PITH_OK || status == wanted));
    struct frame after = save(c);
    CHECK(after.length == before.length && !memcmp(after.bytes, before.bytes, after.length));
    free(after.bytes);
    free(copy);
}

/* Every length, every byte: with checksums nothing passes, and a refusal changes nothing. */
static void test_damage(void **state) {
    (void)state;
    const struct kv_setting *s = &settings[2];
    struct cache a, b;
    void *rows = tokens_of(s, 200, 5);
    cache_open(&a, s, 200, PITH_LAYOUT_CHECKSUMS);
    cache_open(&b, s, 200, PITH_LAYOUT_CHECKSUMS);
    fill_cut(&a, s, rows);
    append(&b, s, rows, 70);
    struct frame saved = save(&a), before = save(&b);
    for (size_t n = 0; n < saved.length; n += 1 + n % 7)
        refuse(&b, before, saved.bytes, n, PITH_ERR_TRUNCATED);
    for (size_t i = 0; i < saved.length; i += 1 + i % 3) {
        context("byte %zu of %zu", i, saved.length);
        saved.bytes[i] ^= (uint8_t)(1 << i % 8);
        refuse(&b, before, saved.bytes, saved.length, PITH_OK);
        saved.bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    uint8_t *longer = allocate(saved.length + 1);
    memcpy(longer, saved.bytes, saved.length);
    longer[saved.length] = 0;
    refuse(&b, before, longer, saved.length + 1, PITH_ERR_CORRUPT);
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_load(b.setup.work, b.kv, NULL, 0));
    free(longer);
    free(saved.bytes);
    free(before.bytes);
    free(rows);
    cache_close(&a);
    cache_close(&b);
}

/* Frames of other rows, settings and sizes. */
static void test_mismatch(void **state) {
    (void)state;
    static const struct kv_setting own = {
        "kv:page=16,group=16,window=4", PITH_F32, 2, 16, 16, 4, false};
    static const struct {
        struct kv_setting set;
        uint64_t tokens;
        pith_status status;
    } others[] = {
        {{"kv:page=16,group=16,window=4", PITH_F16, 2, 16, 16, 4, false}, 40, PITH_ERR_MISMATCH},
        {{"kv:page=16,group=16,window=4", PITH_F32, 4, 8, 16, 4, false}, 40, PITH_ERR_MISMATCH},
        {{"kv:page=16,group=16,bits=3", PITH_F32, 2, 16, 16, 0, false}, 40, PITH_ERR_MISMATCH},
        {{"kv:page=32,group=16", PITH_F32, 2, 16, 32, 0, false}, 40, PITH_ERR_MISMATCH},
        {{"kv:page=16,group=16,axis=channel", PITH_F32, 2, 16, 16, 0, true}, 40, PITH_ERR_MISMATCH},
        {{"kv:page=16,group=16,window=5", PITH_F32, 2, 16, 16, 5, false}, 40, PITH_ERR_MISMATCH},
        {{"kv:page=16,group=16,window=3", PITH_F32, 2, 16, 16, 3, false}, 40, PITH_OK},
        {{"kv:page=16,group=16", PITH_F32, 2, 16, 16, 0, false}, 61, PITH_ERR_SPACE},
        {{"kv:page=16,group=16", PITH_F32, 2, 16, 16, 0, false}, 60, PITH_OK},
    };
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        const struct kv_setting *s = &others[k].set;
        struct cache a, b;
        void *rows = tokens_of(s, others[k].tokens, k);
        cache_open(&a, s, 100, 0);
        cache_open(&b, &own, 60, 0);
        append(&a, s, rows, others[k].tokens);
        append(&b, &own, rows, 20);
        struct frame saved = save(&a), before = save(&b);
        context("%s into %s", s->spec, own.spec);
        if (others[k].status != PITH_OK)
            refuse(&b, before, saved.bytes, saved.length, others[k].status);
        else
            CHECK_OK(pith_kv_load(b.setup.work, b.kv, saved.bytes, saved.length));
        free(saved.bytes);
        free(before.bytes);
        free(rows);
        cache_close(&a);
        cache_close(&b);
    }
}

/* Texts have both numbers: what was appended or saved, and what the cache has memory for. */
static void test_space_is_told(void **state) {
    (void)state;
    static const struct kv_setting s = {"kv:page=16,group=16", PITH_F32, 2, 16, 16, 0, false};
    struct cache large, shorter;
    pith_kv *small;
    void *rows = tokens_of(&s, 61, 1);
    cache_open(&large, &s, 100, 0);
    cache_open(&shorter, &s, 60, 0);
    append(&large, &s, rows, 61);
    struct frame saved = save(&large);
    const size_t bytes = (size_t)pith_kv_bytes(large.setup.plan, 33);
    void *memory = allocate(bytes);
    pith_work *const work = large.setup.work;
    CHECK_OK(pith_kv_init(large.setup.plan, memory, bytes, &small, NULL));
    const pith_view many = view_of(&s, rows, PITH_F32, 61);
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_append(work, &small, &many, 1));
    CHECK(strcmp(pith_work_error(work)->text,
                 "61 tokens to append, the cache has memory for 48 more") == 0);
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_load(work, small, saved.bytes, saved.length));
    CHECK(strcmp(pith_work_error(work)->text,
                 "the cache has memory for 3 pages, 4 or more were saved") == 0);
    struct setup *const other = &shorter.setup;
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_load(other->work, shorter.kv, saved.bytes, saved.length));
    CHECK(strcmp(pith_work_error(other->work)->text,
                 "the cache holds at most 60 tokens, 61 or more were saved") == 0);
    free(saved.bytes);
    free(rows);
    free(memory);
    cache_close(&large);
    cache_close(&shorter);
}

/* ---- Pages alone -----------------------------------------------------------------------------*/

/* The block of a frame without checksums. */
static struct frame page_of(const struct kv_setting *s, const pith_view *tokens) {
    struct frame f = compress(s->spec, tokens, NULL, 0);
    const size_t header = header_of(&f);
    f.length -= header;
    memmove(f.bytes, f.bytes + header, f.length);
    return f;
}

/* Sources with heads outermost and gaps; the last page is short; three threads. */
static void test_pages(void **state) {
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const struct kv_setting *s = &settings[k];
        const uint32_t page = s->page, tail = page - 5;
        const size_t row = row_of(s), element = pith_dtype_bytes(s->dtype);
        const pith_layout layout = layout_of(s, page, 0);
        struct setup c = setup_of(s->spec, &layout, 3);
        const size_t bytes = (size_t)pith_kv_page_bytes(c.plan, page), gap = 7;
        CHECK(pith_kv_page_tokens(c.plan) == page);
        CHECK(pith_kv_page_bytes(c.plan, tail) <= bytes && !pith_kv_page_bytes(c.plan, page + 1));
        uint8_t *tokens = tokens_of(s, PAGES * page, k),
                *wide = allocate(PAGES * page * row * element * 3);
        uint8_t *pool = allocate(PAGES * (bytes + gap)), *back = allocate(PAGES * page * row * 4);
        memset(pool, 0xA5, PAGES * (bytes + gap));
        memset(back, 0xA5, PAGES * page * row * 4);
        pith_view like = view_of(s, NULL, s->dtype, page);
        like.stride[0] = (int64_t)s->dim * 3;
        like.stride[1] = (int64_t)s->dim * page * 3;
        like.stride[2] = 3;
        pith_kv_pair in[PAGES], out[PAGES];
        for (size_t i = 0; i < PAGES; i++) {
            uint8_t *from = tokens + i * page * row * element,
                    *to = wide + i * page * row * element * 3;
            for (size_t e = 0; e < page * row; e++) {
                const size_t t = e / row, h = e % row / s->dim, d = e % s->dim;
                memcpy(to + ((t + h * page) * s->dim + d) * 3 * element, from + e * element,
                       element);
            }
            const uint32_t n = i + 1 == PAGES ? tail : 0;
            in[i] = (pith_kv_pair){to, pool + (PAGES - 1 - i) * (bytes + gap), n};
            out[i] = (pith_kv_pair){back + i * page * row * 4, in[i].page, n};
        }
        CHECK_OK(pith_kv_encode_pages(c.work, c.plan, &like, in, PAGES));
        const pith_view dense = view_of(s, NULL, PITH_F32, page);
        CHECK_OK(pith_kv_decode_pages(c.work, c.plan, &dense, out, PAGES));
        for (size_t i = 0; i < PAGES; i++) {
            const uint64_t n = i + 1 == PAGES ? tail : page;
            const pith_view v = view_of(s, tokens + i * page * row * element, s->dtype, n);
            struct frame wanted = page_of(s, &v);
            const uint8_t *got = in[i].page;
            context("%s, page %zu", s->spec, i);
            CHECK(wanted.length == pith_kv_page_bytes(c.plan, (uint32_t)n));
            CHECK(memcmp(got, wanted.bytes, wanted.length) == 0);
            CHECK(all_bytes(got + wanted.length, bytes - wanted.length, 0));
            CHECK(all_bytes(got + bytes, gap, 0xA5));
            struct frame f = compress(s->spec, &v, NULL, 0);
            float *values = allocate(n * row * 4);
            const pith_view o = view_of(s, values, PITH_F32, n);
            CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &o, NULL));
            CHECK(memcmp(values, out[i].values, n * row * 4) == 0);
            CHECK(all_bytes((uint8_t *)out[i].values + n * row * 4, (page - n) * row * 4, 0xA5));
            free(values);
            free(f.bytes);
            free(wanted.bytes);
        }
        setup_close(&c);
        free(tokens);
        free(wide);
        free(pool);
        free(back);
    }
}

/* A row of tokens so wide that a strided view is written a few tokens at a time. */
static void test_wide_rows(void **state) {
    (void)state;
    static const struct kv_setting s = {"kv:page=16,group=64", PITH_F32, 17, 128, 16, 0, false};
    const size_t n = s.page * row_of(&s), gap = 3;
    struct setup c = setup_open(&s, s.page, 0);
    uint8_t *tokens = tokens_of(&s, s.page, 1);
    uint8_t *page = allocate((size_t)pith_kv_page_bytes(c.plan, s.page));
    float *dense = allocate(n * sizeof *dense), *strided = allocate(n * gap * sizeof *strided);
    const pith_view in = view_of(&s, NULL, PITH_F32, s.page);
    pith_view out = in;
    for (int d = 0; d < 3; d++) out.stride[d] *= (int64_t)gap;
    const pith_kv_pair from = {tokens, page, 0}, to = {dense, page, 0},
                       to_gaps = {strided, page, 0};
    CHECK_OK(pith_kv_encode_pages(c.work, c.plan, &in, &from, 1));
    CHECK_OK(pith_kv_decode_pages(c.work, c.plan, &in, &to, 1));
    memset(strided, 0xA5, n * gap * sizeof *strided);
    CHECK_OK(pith_kv_decode_pages(c.work, c.plan, &out, &to_gaps, 1));
    for (size_t i = 0; i < n; i++) {
        CHECK(strided[i * gap] == dense[i]);
        CHECK(all_bytes((uint8_t *)&strided[i * gap + 1], (gap - 1) * sizeof *strided, 0xA5));
    }
    setup_close(&c);
    free(tokens);
    free(page);
    free(dense);
    free(strided);
}

/* Any bytes decode, into a strided view too. */
static void test_any_page(void **state) {
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const struct kv_setting *s = &settings[k];
        struct setup c = setup_open(s, s->page, 0);
        const size_t bytes = (size_t)pith_kv_page_bytes(c.plan, s->page), n = s->page * row_of(s);
        uint8_t *page = allocate(bytes), *wide = allocate(n * 8), *dense = allocate(n * 4);
        gen_fill(GEN_BITS, k, PITH_U8, page, bytes);
        memset(wide, 0x77, n * 8);
        pith_view like = view_of(s, NULL, PITH_F32, s->page);
        const pith_kv_pair plain = {dense, page, 0}, strided = {wide, page, 0};
        CHECK_OK(pith_kv_decode_pages(c.work, c.plan, &like, &plain, 1));
        for (uint32_t d = 0; d < 3; d++) like.stride[d] *= 2;
        CHECK_OK(pith_kv_decode_pages(c.work, c.plan, &like, &strided, 1));
        for (size_t i = 0; i < n; i++) {
            CHECK(memcmp(wide + i * 8, dense + i * 4, 4) == 0);
            CHECK(all_bytes(wide + i * 8 + 4, 4, 0x77));
        }
        setup_close(&c);
        free(page);
        free(wide);
        free(dense);
    }
}

/* ---- Offloads --------------------------------------------------------------------------------*/

/* A page that is decoded and encoded a hundred times is what it was after the first. */
static void offload(const struct kv_setting *s, const void *tokens) {
    struct setup c = setup_open(s, s->page, 0);
    const size_t bytes = (size_t)pith_kv_page_bytes(c.plan, s->page);
    void *first = allocate(bytes), *page = allocate(bytes);
    void *values = copy_of(tokens, s->page * row_of(s) * pith_dtype_bytes(s->dtype));
    const pith_view like = view_of(s, NULL, s->dtype, s->page);
    const pith_kv_pair origin = {values, first, 0}, again = {values, page, 0};
    CHECK_OK(pith_kv_encode_pages(c.work, c.plan, &like, &origin, 1));
    memcpy(page, first, bytes);
    for (int i = 0; i < 100; i++) {
        context("%s in %s, offload %d", s->spec, pith_dtype_name(s->dtype), i);
        CHECK_OK(pith_kv_decode_pages(c.work, c.plan, &like, &again, 1));
        CHECK_OK(pith_kv_encode_pages(c.work, c.plan, &like, &again, 1));
        CHECK(memcmp(page, first, bytes) == 0);
    }
    setup_close(&c);
    free(values);
    free(first);
    free(page);
}

static void test_offloads(void **state) {
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const struct kv_setting *s = &settings[k];
        if (strstr(s->spec, "outliers") && !strstr(s->spec, "codebook=nf"))
            continue; /* asymmetric */
        void *tokens = tokens_of(s, s->page, k);
        offload(s, tokens);
        free(tokens);
    }
}

/* Keys: channels with a mean of their own, a few of them large. */
static void *keys_of(const struct kv_setting *s, uint64_t seed) {
    const size_t row = row_of(s), n = s->page * row;
    float *mean = allocate(row * sizeof *mean);
    void *rows = allocate(n * pith_dtype_bytes(s->dtype));
    for (size_t c = 0; c < row; c++)
        mean[c] = (float)gen_normal(&seed) * (gen_next(&seed) % 16 ? 0.3f : 6.0f);
    for (size_t i = 0; i < n; i++)
        store_float(rows, s->dtype, i, bits_of(mean[i % row] + (float)gen_normal(&seed)));
    free(mean);
    return rows;
}

/* Every preset, in every dtype. Of these values rounding to 16 bits leaves rotated steps their
 * codes, scales and zero points, and rotated paths through a trellis rounding to 24; without a
 * rotation that is promised. */
static void test_presets(void **state) {
    (void)state;
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16};
    static const char *const presets[] = {"kivi2",
                                          "kivi4",
                                          "kivi2,axis=token",
                                          "kivi4,axis=token",
                                          "kvquant-lite",
                                          "kvquant-lite,axis=token",
                                          "quarot4",
                                          "trellis2",
                                          "trellis3",
                                          "trellis4",
                                          "xquant2",
                                          "xquant3",
                                          "xquant4",
                                          "q8",
                                          "q4"};
    for (size_t k = 0; k < 2 * 3 * sizeof presets / sizeof presets[0]; k++) {
        if (test_step(1) > 1 && k % 3 != k / 6 % 3) continue; /* a dtype of each */
        char spec[64];
        snprintf(spec, sizeof spec, "kv:preset=%s", presets[k / 6]);
        const struct kv_setting s = {spec, dtypes[k % 3], 2, k / 3 % 2 ? 128 : 64, 128, 0, false};
        const bool trellis = strstr(spec, "trellis");
        void *tokens = keys_of(&s, k);
        if (!trellis || s.dtype == PITH_F32) offload(&s, tokens);
        free(tokens);
        struct setup c = setup_open(&s, 128, 0);
        const double from = pith_kv_idempotent_from(c.plan);
        const bool symmetric = presets[k / 6][0] == 'q', codebook = strstr(spec, "kvquant");
        if (trellis || strstr(spec, "quarot"))
            CHECK(isinf(from));
        else
            CHECK(from == (codebook ? 0x1p-14 : symmetric ? 0 : 0x1p-20));
        setup_close(&c);
    }
}

/* ---- Pages that encode to themselves ---------------------------------------------------------*/

/* Values of a size of 2^least, or up to 2^11 times that: noise, magnitudes that nearly are one,
 * noise beside a mean, small noise, all alike. */
static void fill_page(const struct kv_setting *s, void *tokens, int least, uint64_t seed) {
    const size_t n = s->page * row_of(s);
    const int exponent = (int)(gen_next(&seed) % 12) + least, kind = (int)(gen_next(&seed) % 5);
    for (size_t i = 0; i < n; i++) {
        const double noise = gen_normal(&seed), sign = gen_next(&seed) % 2 ? 1 : -1;
        const double close = sign * (1 + (double)(gen_next(&seed) % 64) * 0x1p-9);
        const double values[] = {noise, close, 9 + noise, noise * 0x1p-8, 1};
        store_float(tokens, s->dtype, i, bits_of((float)ldexp(values[kind], exponent)));
    }
}

/* The setting's answer, and whether pages in its reach stay for three trips. */
static void check_idempotent(const struct kv_setting *s, bool promised, uint64_t seed) {
    struct setup c = setup_open(s, s->page, 0);
    const size_t bytes = (size_t)pith_kv_page_bytes(c.plan, s->page), n = s->page * row_of(s);
    const double from = pith_kv_idempotent_from(c.plan);
    context("%s in %s", s->spec, pith_dtype_name(s->dtype));
    CHECK(isinf(from) == !promised);
    void *first = allocate(bytes), *page = allocate(bytes);
    void *tokens = allocate(n * pith_dtype_bytes(s->dtype));
    const pith_view like = view_of(s, NULL, s->dtype, s->page);
    const pith_kv_pair origin = {tokens, first, 0}, again = {tokens, page, 0};
    for (int k = 0; promised && k < 3; k++) {
        fill_page(s, tokens, from > 0 ? -2 : -16, seed + (uint64_t)k);
        CHECK_OK(pith_kv_encode_pages(c.work, c.plan, &like, &origin, 1));
        memcpy(page, first, bytes);
        for (int trip = 0; trip < 3; trip++) {
            CHECK_OK(pith_kv_decode_pages(c.work, c.plan, &like, &again, 1));
            CHECK_OK(pith_kv_encode_pages(c.work, c.plan, &like, &again, 1));
            CHECK(memcmp(page, first, bytes) == 0);
        }
    }
    setup_close(&c);
    free(first);
    free(page);
    free(tokens);
}

static void test_idempotent(void **state) {
    (void)state;
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16};
    static const char *const scales[] = {"f32", "bf16", "f16"};
    static const char *const codes[] = {"symmetric=off", "symmetric=on", "codebook=nf",
                                        "codebook=lloyd"};
    static const char *const more[] = {"search=none", "search=mse", "outliers=0.05",
                                       "rotate_heads=on", "search=mse,outliers=0.1"};
    static const unsigned widths[] = {2, 3, 4, 5, 6, 8};
    for (size_t k = 0; k < 3 * 3 * 4 * 5 * 6 * 2; k++) {
        if (!is_sampled(k, 4)) continue;
        char spec[160];
        const size_t d = k % 3, kind = k / 9 % 4, m = k / 36 % 5;
        const unsigned bits = widths[k / 180 % 6];
        if (kind > 1 && (bits > 4 || m == 1 || m == 4)) continue;
        snprintf(spec, sizeof spec, "kv:page=16,group=16,axis=%s,bits=%u,scale_dtype=%s,%s,%s",
                 k / 1080 ? "channel" : "token", bits, scales[k / 3 % 3], codes[kind], more[m]);
        const struct kv_setting s = {spec, dtypes[d], 2, 32, 16, 0, k / 1080 != 0};
        const bool outliers = m == 2 || m == 4;
        const bool promised = m != 3 && !(outliers && kind == 0) &&
                              !(kind == 3 && (outliers || dtypes[d] != PITH_F32));
        check_idempotent(&s, promised, k * 3);
    }
}

/* The others of a group decoded to more than what was taken, which the next trip then took instead:
 * the search for what stays gave up after four rounds. */
static void test_outliers_of_a_ramp(void **state) {
    (void)state;
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16};
    for (size_t k = 0; k < 3 * 400; k++) {
        if (!is_sampled(k, 8)) continue;
        const struct kv_setting s = {
            "kv:symmetric=on,outliers=0.05,scale_dtype=bf16,bits=4,page=16",
            dtypes[k % 3],
            1,
            128,
            16,
            0,
            false};
        const float top = 1.0f + (float)k * 0.00247f;
        void *tokens = allocate(16 * 128 * pith_dtype_bytes(s.dtype));
        for (size_t i = 0; i < 16 * 128; i++) {
            const size_t at = i % 128;
            store_float(tokens, s.dtype, i, bits_of(at < 7 ? top : 0.001f * top * (float)(at - 7)));
        }
        struct setup c = setup_open(&s, s.page, 0);
        const size_t bytes = (size_t)pith_kv_page_bytes(c.plan, s.page);
        void *first = allocate(bytes), *second = allocate(bytes);
        const pith_view like = view_of(&s, NULL, s.dtype, s.page);
        const pith_kv_pair one = {tokens, first, 0}, two = {tokens, second, 0};
        context("%s, top = %a", pith_dtype_name(s.dtype), (double)top);
        CHECK_OK(pith_kv_encode_pages(c.work, c.plan, &like, &one, 1));
        CHECK_OK(pith_kv_decode_pages(c.work, c.plan, &like, &one, 1));
        CHECK_OK(pith_kv_encode_pages(c.work, c.plan, &like, &two, 1));
        CHECK(memcmp(first, second, bytes) == 0);
        setup_close(&c);
        free(first);
        free(second);
        free(tokens);
    }
}

/* The scale of Lloyd-Max codes comes from sums over a group, which overflowed in one trip and not
 * in the next: the second kind of group, of 2^126, is not idempotent. Pages whose scales are below
 * 2^117 are, whatever the group. */
static void test_large_lloyd(void **state) {
    (void)state;
    enum { DIM = 256, TOKENS = 16, OCTAVES = 19 };
    static const float few[] = {1, 0, -1, 1, 1};
    uint64_t seed = 5;
    size_t compared = 0;
    for (size_t k = 0; k < 12 * OCTAVES; k++) {
        char spec[80];
        const bool wide = k / 3 % 2, full = k / 6 % 2;
        snprintf(spec, sizeof spec, "kv:codebook=lloyd,bits=%d,group=256,page=16,scale_dtype=%s",
                 (int)(2 + k % 3), wide ? "f32" : "bf16");
        const struct kv_setting s = {spec, PITH_F32, 1, full ? DIM : 5, TOKENS, 0, false};
        const size_t count = TOKENS * s.dim;
        float *const values = allocate(count * sizeof(float));
        for (size_t i = 0; i < count; i++) {
            const double unit = ldexp(1.0 + (double)(i / s.dim) / 16, 108 + (int)(k / 12));
            const double x = full ? gen_normal(&seed) / 8 : (double)few[i % 5];
            values[i] = (float)(x * unit);
        }
        struct setup c = setup_open(&s, s.page, 0);
        const size_t bytes = (size_t)pith_kv_page_bytes(c.plan, s.page);
        uint8_t *const first = allocate(bytes), *const second = allocate(bytes);
        const pith_view like = view_of(&s, NULL, PITH_F32, s.page);
        const pith_kv_pair one = {values, first, 0}, two = {values, second, 0};
        context("%s, row %zu", spec, k);
        CHECK_OK(pith_kv_encode_pages(c.work, c.plan, &like, &one, 1));
        float largest = 0;
        for (size_t i = 0; i < TOKENS; i++) {
            const float scale = float_of(load_float(first, wide ? PITH_F32 : PITH_BF16, i));
            largest = scale > largest ? scale : largest;
        }
        CHECK_OK(pith_kv_decode_pages(c.work, c.plan, &like, &one, 1));
        CHECK_OK(pith_kv_encode_pages(c.work, c.plan, &like, &two, 1));
        if (largest < 0x1p117f) CHECK(memcmp(first, second, bytes) == 0);
        compared += largest < 0x1p117f;
        setup_close(&c);
        free(values);
        free(first);
        free(second);
    }
    CHECK(compared > 60);
}

/* ---- Refusals --------------------------------------------------------------------------------*/

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        pith_layout layout;
    } plans[] = {
        {"grad", {.dtype = PITH_F32, .ndim = 3, .shape = {64, 2, 8}}},
        {"kv:page=16,entropy=rans", {.dtype = PITH_F32, .ndim = 3, .shape = {64, 2, 8}}},
        {"kv:page=16,entropy=zstd", {.dtype = PITH_F32, .ndim = 3, .shape = {64, 2, 8}}},
        {"kv:page=16", {.dtype = PITH_F32, .ndim = 1, .shape = {64}}},
        {"kv:page=16", {.dtype = PITH_F32, .ndim = 4, .shape = {2, 64, 2, 8}}},
        {"kv:page=16", {.dtype = PITH_F32, .ndim = 3, .shape = {15, 2, 8}}},
        {"kv:page=16", {.dtype = PITH_F32, .ndim = 3, .shape = {64, 0, 8}}},
        {"kv:page=16,order=heads", {.dtype = PITH_F32, .ndim = 3, .shape = {2, 64, 8}}},
        {"kv:page=16", {.dtype = PITH_F32, .ndim = 3, .shape = {64, 2, 8}, .slots = 2}},
        {"kv:page=16", {.dtype = PITH_F32, .base_dtype = PITH_F32, .ndim = 3, .shape = {64, 2, 8}}},
    };
    uint64_t memory[64];
    pith_kv *kv;
    for (size_t k = 0; k < sizeof plans / sizeof plans[0]; k++) {
        pith_layout layout = plans[k].layout;
        layout.size = sizeof layout;
        struct setup c = setup_of(plans[k].spec, &layout, 0);
        pith_error error = {.size = sizeof error}, why = {.size = sizeof why};
        CHECK(pith_kv_bytes(c.plan, 0) == 0 && pith_kv_page_tokens(c.plan) == 0);
        CHECK(pith_kv_page_bytes(c.plan, 16) == 0 && isinf(pith_kv_idempotent_from(c.plan)));
        CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                     pith_kv_init(c.plan, memory, sizeof memory, &kv, &error));
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_kv_check(c.plan, &why));
        CHECK(kv == NULL && why.text[0] && strcmp(error.text, why.text) == 0);
        const pith_view like = pith_view_dense(NULL, PITH_F32, 3, (uint64_t[]){16, 2, 8});
        const pith_kv_pair pair = {memory, memory, 0};
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_kv_encode_pages(c.work, c.plan, &like, &pair, 1));
        CHECK(strcmp(pith_work_error(c.work)->text, why.text) == 0);
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_kv_decode_pages(c.work, c.plan, &like, &pair, 1));
        CHECK(strcmp(pith_work_error(c.work)->text, why.text) == 0);
        setup_close(&c);
    }
}

static void test_arguments(void **state) {
    (void)state;
    const struct kv_setting *s = &settings[0];
    static const struct kv_setting tiny = {"kv:page=16,group=16", PITH_F32, 1, 1, 16, 0, false};
    struct cache c;
    cache_open(&c, s, 40, 0);
    struct setup small = setup_open(&tiny, 16, 0);
    context("arguments");
    pith_work *const work = c.setup.work;
    float rows[41 * 128] = {0};
    const pith_view good = view_of(s, rows, PITH_F32, 2), wrong = view_of(s, rows, PITH_BF16, 2);
    const pith_view flat = pith_view_flat(rows, PITH_F32, 256),
                    many = view_of(s, rows, PITH_F32, 41);
    pith_view zero = good;
    pith_kv *const no_cache = NULL;
    zero.stride[0] = 0;
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append(NULL, &c.kv, &good, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append(work, &no_cache, &good, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append(work, NULL, &good, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append(work, &c.kv, NULL, 1));
    CHECK_STATUS(PITH_ERR_DTYPE, pith_kv_append(work, &c.kv, &wrong, 1));
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_append(work, &c.kv, &flat, 1));
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_append(work, &c.kv, &many, 1));
    CHECK(pith_work_bytes(&small.plan, 1, 0) < pith_work_bytes(&c.setup.plan, 1, 0));
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_append(small.work, &c.kv, &good, 1));
    CHECK(pith_work_error(small.work)->text[0] != 0);
    CHECK(pith_kv_count(c.kv) == 0 && pith_kv_remaining(c.kv) == 40);
    CHECK_OK(pith_kv_append(work, NULL, NULL, 0));
    CHECK_OK(pith_kv_append(work, &c.kv, &zero, 1)); /* one token twice */
    CHECK(pith_kv_count(c.kv) == 2 && pith_work_error(work)->text[0] == 0);
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_read(work, &(pith_kv_range){c.kv, 0, 2, 0, 2, zero}, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_read(work, &(pith_kv_range){c.kv, 1, 2, 0, 2, good}, 1));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_kv_read(work, &(pith_kv_range){c.kv, UINT64_MAX, 2, 0, 2, good}, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_read(work, &(pith_kv_range){c.kv, 0, 2, 1, 2, good}, 1));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_kv_read(work, &(pith_kv_range){c.kv, 0, 2, UINT32_MAX, 2, good}, 1));
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_read(work, &(pith_kv_range){c.kv, 0, 1, 0, 2, good}, 1));
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_read(work, &(pith_kv_range){c.kv, 0, 2, 0, 1, good}, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_read(work, NULL, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_read(work, &(pith_kv_range){NULL, 0, 2, 0, 2, good}, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_read(NULL, &(pith_kv_range){c.kv, 0, 2, 0, 2, good}, 1));
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_kv_read(small.work, &(pith_kv_range){c.kv, 0, 2, 0, 2, good}, 1));
    const pith_view whole = view_of(s, rows, PITH_I32, 2);
    CHECK_STATUS(PITH_ERR_DTYPE, pith_kv_read(work, &(pith_kv_range){c.kv, 0, 2, 0, 2, whole}, 1));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_kv_append_delta(work, c.kv, &good, &good));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_kv_read_add(work, c.kv, 0, 2, &good));
    pith_kv *child;
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_kv_fork(work, c.kv, 2, 2, rows, sizeof rows, &child));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_fork(work, c.kv, 3, 0, rows, sizeof rows, &child));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_fork(work, c.kv, 2, 0, NULL, sizeof rows, &child));
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_fork(work, c.kv, 2, 0, rows, 100, &child));
    CHECK(child == NULL);
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_fork(work, c.kv, 2, 0, rows, sizeof rows, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_fork(work, NULL, 2, 0, rows, sizeof rows, &child));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_truncate(work, NULL, 0));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_truncate(NULL, c.kv, 0));
    size_t written;
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_save(work, NULL, rows, sizeof rows, &written));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_save(work, c.kv, NULL, sizeof rows, &written));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_save(work, c.kv, rows, sizeof rows, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_load(NULL, c.kv, rows, sizeof rows));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_load(work, NULL, rows, sizeof rows));
    CHECK(pith_kv_count(c.kv) == 2);
    const pith_plan *const plan = c.setup.plan;
    const pith_kv_pair nothing = {NULL, rows, 0}, long_page = {rows, rows, 17};
    const pith_view like = view_of(s, NULL, PITH_F32, 16);
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_encode_pages(NULL, plan, &like, NULL, 0));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_encode_pages(work, NULL, &like, NULL, 0));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_encode_pages(work, plan, &like, &nothing, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_encode_pages(work, plan, &like, &long_page, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_encode_pages(work, plan, &like, NULL, 1));
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_encode_pages(work, plan, &good, &nothing, 1));
    CHECK_OK(pith_kv_encode_pages(work, plan, &like, NULL, 0));
    const pith_kv_pair page = {rows, rows + 2048, 0};
    CHECK_STATUS(PITH_ERR_SPACE, pith_kv_encode_pages(small.work, plan, &like, &page, 1));
    setup_close(&small);
    cache_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_space_is_told),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_any_page),
        cmocka_unit_test(test_offloads),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_idempotent),
        cmocka_unit_test(test_large_lloyd),
        cmocka_unit_test(test_outliers_of_a_ramp),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_wide_rows),
    };
    return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
