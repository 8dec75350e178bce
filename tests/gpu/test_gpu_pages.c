/* test_gpu_pages.c - pages of codec kv without frames on the device: bytes and values are those of
 * the CPU, wherever tokens, heads and pages lie.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "trip.h"

/* ---- Pages -----------------------------------------------------------------------------------*/

enum { PAGES = 5 };

/* Tokens and heads that lie apart, and pages of it that lie in any order and are not all whole. */
struct pool {
    struct rig r;
    struct mirror values, pages, pairs, status;
    pith_view like;
    uint32_t tokens; /* of a page */
    size_t page_bytes, value_bytes;
};

static const uint32_t page_tokens[PAGES] = {0, 3, 1, 0, 15};

static void point(struct pool *p, pith_kv_pair pairs[PAGES], uint8_t *values, uint8_t *pages) {
    for (size_t i = 0; i < PAGES; i++) {
        const size_t place = (i * 2 + 1) % PAGES;
        pairs[i] = (pith_kv_pair){values + i * p->value_bytes, pages + place * p->page_bytes,
                                  i == 3 ? p->tokens : page_tokens[i]};
    }
}

/* gap: elements between heads. */
static void pool_open(struct pool *p, const char *spec, uint64_t heads_count, uint64_t dim,
                      uint32_t dtype, size_t offset, uint64_t gap) {
    const uint64_t shape[5] = {3, 136, heads_count, dim};
    const pith_layout layout = shape_layout(shape, dtype, 0);
    CHECK(rig_open(&p->r, spec, &layout));
    p->tokens = (uint32_t)pith_kv_page_tokens(p->r.cpu.plan);
    const uint64_t page[3] = {p->tokens, heads_count, dim};
    p->like = pith_view_dense(NULL, dtype, 3, page);
    p->like.stride[1] += (int64_t)gap;
    p->like.stride[0] = p->like.stride[1] * (int64_t)heads_count + (int64_t)gap;
    p->page_bytes = (size_t)pith_kv_page_bytes(p->r.cpu.plan, p->tokens);
    p->value_bytes = (size_t)p->like.stride[0] * p->tokens * pith_dtype_bytes(dtype);
    mirror_open(&p->values, PAGES * p->value_bytes, offset);
    mirror_open(&p->pages, PAGES * p->page_bytes, offset);
    mirror_open(&p->pairs, PAGES * sizeof(pith_kv_pair), 0);
    mirror_open(&p->status, PAGES * sizeof(int32_t), 0);
    gen_fill(GEN_HOLES, 9 + dim, dtype, p->values.host, p->values.bytes / pith_dtype_bytes(dtype));
    point(p, (pith_kv_pair *)(void *)p->pairs.host, p->values.device, p->pages.device);
    mirror_push(&p->values);
    mirror_push(&p->pairs);
}

static void pool_close(struct pool *p) {
    mirror_close(&p->values);
    mirror_close(&p->pages);
    mirror_close(&p->pairs);
    mirror_close(&p->status);
    rig_close(&p->r);
}

static void pool_answers(struct pool *p) {
    mirror_pull(&p->status);
    CHECK(all_bytes(p->status.host, p->status.bytes, 0));
    memset(p->status.host, UNTOUCHED, p->status.bytes);
    mirror_push(&p->status);
}

static pith_kv_pair *device_pairs(struct pool *p) {
    return (pith_kv_pair *)(void *)p->pairs.device;
}
static int32_t *device_status(struct pool *p) { return (int32_t *)(void *)p->status.device; }

/* Decodes pages on both sides, to the same values; bytes between rows stay what they are. */
static void pool_decode(struct pool *p, const uint8_t *pages, uint32_t dtype) {
    const size_t bytes = (size_t)p->like.stride[0] * p->tokens * PAGES * pith_dtype_bytes(dtype);
    uint8_t *const wanted = allocate(bytes);
    pith_kv_pair pairs[PAGES];
    pith_view like = p->like;
    mirror_close(&p->values);
    mirror_open(&p->values, bytes, 0);
    memset(wanted, UNTOUCHED, bytes);
    like.dtype = dtype;
    p->value_bytes = bytes / PAGES;
    point(p, pairs, wanted, (uint8_t *)(uintptr_t)pages);
    CHECK_OK(pith_kv_decode_pages(p->r.cpu.work, p->r.cpu.plan, &like, pairs, PAGES));
    point(p, (pith_kv_pair *)(void *)p->pairs.host, p->values.device, p->pages.device);
    mirror_push(&p->pairs);
    CHECK_OK(pith_cuda_kv_decode_pages(p->r.plan, &like, device_pairs(p), PAGES, device_status(p),
                                       device_stream(), NULL));
    pool_answers(p);
    mirror_pull(&p->values);
    CHECK(memcmp(p->values.host, wanted, bytes) == 0);
    free(wanted);
}

/* Encodes what is in the pool, and decodes that and pages of any bits. */
static void pool_check(struct pool *p, uint32_t dtype, uint64_t number) {
    pith_kv_pair pairs[PAGES];
    uint8_t *const wanted = allocate(p->pages.bytes);
    memset(wanted, UNTOUCHED, p->pages.bytes);
    point(p, pairs, p->values.host, wanted);
    CHECK_OK(pith_kv_encode_pages(p->r.cpu.work, p->r.cpu.plan, &p->like, pairs, PAGES));
    CHECK_OK(pith_cuda_kv_encode_pages(p->r.plan, &p->like, device_pairs(p), PAGES,
                                       device_status(p), device_stream(), NULL));
    pool_answers(p);
    mirror_pull(&p->pages);
    CHECK(memcmp(p->pages.host, wanted, p->pages.bytes) == 0);
    pool_decode(p, wanted, trip_reals[number / 3 % 3]);
    gen_fill(GEN_BITS, number, PITH_F32, p->pages.host, p->pages.bytes / 4);
    mirror_push(&p->pages);
    pool_decode(p, p->pages.host, dtype);
    free(wanted);
}

static void one_pool(const char *spec, uint64_t heads_count, uint64_t dim, uint64_t number) {
    struct pool p;
    const uint32_t dtype = trip_reals[number % 3];
    const size_t offset = (size_t)(number * 7 % 16);
    context("pages of %s, %llu heads of %llu", spec, (unsigned long long)heads_count,
            (unsigned long long)dim);
    device_order((int)(number % (uint64_t)device_orders()));
    pool_open(&p, spec, heads_count, dim, dtype, offset, offset % 3);
    pool_check(&p, dtype, number);
    pool_close(&p);
}

static void test_pages(void **state) {
    (void)state;
    static const uint64_t dims[] = {5, 32, 80, 96, 128};
    uint64_t number = 0;
    for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
        for (uint64_t h = 1; h < 4; h++, number += 7) {
            one_pool("kv:page=32", h, dims[d], number);
            one_pool("kv:page=32,bits=3,group=32,symmetric=on,scale_dtype=bf16", h, dims[d],
                     number + 1);
            one_pool("kv:page=32,axis=channel,group=16,bits=2", h, dims[d], number + 2);
            one_pool("kv:page=32,preset=kivi4", h, dims[d], number + 3);
            one_pool("kv:page=32,axis=channel,group=16,codebook=lloyd,bits=3", h, dims[d],
                     number + 3);
            one_pool("kv:page=32,search=mse,group=64,bits=2", h, dims[d], number + 4);
            one_pool("kv:page=32,outliers=0.1,group=32", h, dims[d], number + 6);
            one_pool("kv:page=32,codebook=trellis,bits=2,group=32", h, dims[d], number + 7);
            one_pool("kv:page=32,axis=channel,group=16,codebook=trellis", h, dims[d], number + 8);
            if (dims[d] & (dims[d] - 1)) continue;
            one_pool("kv:page=32,rotate_heads=on", h, dims[d], number + 5);
        }
}

/* ---- Full tiles ------------------------------------------------------------------------------*/

/* A value of a group of this kind: of some the first and the last code mean other numbers than the
 * least and the largest, or rounding takes values beyond the codes, or there is no scale. */
static float group_value(uint64_t kind, uint64_t *seed) {
    const float x = (float)gen_normal(seed);
    const bool rare = gen_next(seed) % 50 == 0;
    switch (kind) {
    case 0: return 1.5f;
    case 1: return x < 0 ? -0.0f : 0.0f;
    case 2: return 1000 + x;
    case 3: return x * 1e-7f;
    case 4: return x * 1e6f;
    case 5: return x * 3e37f;
    case 6: return rare ? float_of(0xFFC12345u) : x;
    case 7: return rare ? float_of(0x7F800000u) : x;
    case 8: return x < 0 ? 0 : x;
    case 9: return x < 0 ? x : -0.0f;
    default: return (float)(1 + kind % 3) * x;
    }
}

/* The first page has groups that are like most, the others of all kinds. channel: a column each,
 * else as many neighbours as groups have. */
static void fill_groups(struct pool *p, uint32_t dtype, bool channel) {
    const size_t page = p->value_bytes / pith_dtype_bytes(dtype);
    const uint64_t row = (uint64_t)p->like.stride[0];
    uint64_t seed = 11 + row;
    for (size_t i = 0; i < PAGES * page; i++) {
        const uint64_t group = channel ? i % row : i / 128, mixed = group * 0x9E3779B9u >> 7;
        const float x = group_value(i < page ? 12 + group % 3 : mixed % 16, &seed);
        store_float(p->values.host, dtype, i, bits_of(x));
    }
    mirror_push(&p->values);
}

static void one_full(const char *spec, bool channel, uint64_t heads_count, uint64_t dim,
                     uint64_t gap) {
    static uint64_t number;
    for (size_t k = 0; k < 6; k++, number++) {
        struct pool p;
        const uint32_t dtype = trip_reals[1 + k % 2];
        context("full tiles of %s, %llu heads of %llu, gap %llu, %s", spec,
                (unsigned long long)heads_count, (unsigned long long)dim, (unsigned long long)gap,
                pith_dtype_name(dtype));
        device_order((int)(number % (uint64_t)device_orders()));
        pool_open(&p, spec, heads_count, dim, dtype, 0, gap);
        fill_groups(&p, dtype, channel);
        pool_check(&p, dtype, 3 * k);
        pool_close(&p);
    }
}

static void test_full(void **state) {
    (void)state;
    static const uint64_t shapes[][2] = {{2, 128}, {8, 32}, {4, 64}, {1, 256}, {3, 256}, {5, 128}};
    static const struct {
        const char *spec;
        bool keys;
        uint32_t apart;
    } settings[] = {
        {"kv:page=32", false, 0},
        {"kv:page=32,group=64", false, 0},
        {"kv:page=32,preset=quarot4", false, 0},
        {"kv:page=32,preset=kivi4", true, 0},
        {"kv:page=32,preset=kivi4", true, 16},
        {"kv:page=32,codebook=trellis,bits=2", false, 0},
    };
    enum { SETTINGS = sizeof settings / sizeof settings[0] };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (size_t k = 0; k < SETTINGS; k++)
            if (is_sampled(i * SETTINGS + k, 3))
                one_full(settings[k].spec, settings[k].keys, shapes[i][0], shapes[i][1],
                         settings[k].apart);
        if (i % 2) continue;
        one_full("kv:preset=kvquant-lite", true, shapes[i][0], shapes[i][1], i ? 16 : 0);
    }
}

/* ---- What is refused -------------------------------------------------------------------------*/

/* A pair that cannot be is answered for, and the others are coded. */
static void test_bad_pairs(void **state) {
    (void)state;
    struct pool p;
    int32_t status[PAGES];
    context("pairs that cannot be");
    pool_open(&p, "kv:page=32", 2, 32, PITH_F32, 0, 0);
    pith_kv_pair *const pairs = (pith_kv_pair *)(void *)p.pairs.host;
    pairs[0].values = NULL;
    pairs[2].page = NULL;
    pairs[3].tokens = p.tokens + 1;
    mirror_push(&p.pairs);
    CHECK_OK(pith_cuda_kv_encode_pages(p.r.plan, &p.like, device_pairs(&p), PAGES,
                                       device_status(&p), device_stream(), NULL));
    mirror_pull(&p.status);
    memcpy(status, p.status.host, sizeof status);
    for (size_t i = 0; i < PAGES; i++) {
        const size_t place = (i * 2 + 1) % PAGES;
        mirror_pull(&p.pages);
        CHECK(status[i] == (i == 1 || i == 4 ? PITH_OK : PITH_ERR_ARG));
        CHECK(all_bytes(p.pages.host + place * p.page_bytes, p.page_bytes, UNTOUCHED) ==
              (status[i] != PITH_OK));
    }
    pool_close(&p);
}

static void view_refused(struct pool *p, const pith_view *like, pith_status wanted) {
    CHECK_STATUS(wanted, pith_cuda_kv_decode_pages(p->r.plan, like, device_pairs(p), PAGES,
                                                   device_status(p), device_stream(), NULL));
}

static void test_bad_views(void **state) {
    (void)state;
    struct pool p;
    context("views that cannot be");
    pool_open(&p, "kv:page=32", 2, 32, PITH_F32, 0, 0);
    pith_view like = p.like;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_kv_encode_pages(p.r.plan, &like, device_pairs(&p), PAGES,
                                                         NULL, device_stream(), NULL));
    like.stride[0] = 0;
    view_refused(&p, &like, PITH_ERR_SHAPE);
    like = p.like;
    like.stride[2] = 2;
    view_refused(&p, &like, PITH_ERR_UNSUPPORTED);
    like = p.like;
    like.shape[0] = 15;
    view_refused(&p, &like, PITH_ERR_SHAPE);
    like = p.like;
    like.shape[1] = 1;
    view_refused(&p, &like, PITH_ERR_SHAPE);
    like = p.like;
    like.dtype = PITH_F64;
    view_refused(&p, &like, PITH_ERR_DTYPE);
    like.dtype = PITH_BF16;
    CHECK_STATUS(PITH_ERR_DTYPE,
                 pith_cuda_kv_encode_pages(p.r.plan, &like, device_pairs(&p), PAGES,
                                           device_status(&p), device_stream(), NULL));
    pool_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_bad_pairs),
        cmocka_unit_test(test_bad_views),
    };
    return cmocka_run_group_tests_name("gpu_pages", tests, NULL, NULL);
}
