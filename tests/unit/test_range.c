/* test_range.c - decoding a part gives that part of the whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"
#include "gen.h"
#include "util.h"

struct whole {
    struct frame frame;
    size_t count, element;
    uint32_t dtype;
    void *value, *base, *decoded;
    pith_view base_view;
    const pith_view *base_given;
};

static void whole_open(struct whole *w, const struct test_case *c, size_t count) {
    *w = (struct whole){.count = count, .dtype = c->dtype, .element = pith_dtype_bytes(c->dtype)};
    w->value = allocate(count * w->element);
    gen_fill(GEN_HOLES, 1, c->dtype, w->value, count);
    if (c->base_dtype != PITH_NONE) {
        w->base = allocate(count * pith_dtype_bytes(c->base_dtype));
        gen_fill(GEN_NOISE, 2, c->base_dtype, w->base, count);
        w->base_view = pith_view_flat(w->base, c->base_dtype, count);
        w->base_given = &w->base_view;
    }
    const pith_view v = pith_view_flat(w->value, c->dtype, count);
    w->frame = compress(c->spec, &v, w->base_given, count % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    w->decoded = allocate(count * w->element);
    const pith_view o = pith_view_flat(w->decoded, c->dtype, count);
    CHECK_OK(pith_decompress(w->frame.bytes, w->frame.length, w->base_given, NULL, &o, NULL));
}

static void whole_close(struct whole *w) {
    free(w->value);
    free(w->base);
    free(w->decoded);
    free(w->frame.bytes);
}

static void check_range(const struct whole *w, size_t first, size_t count, const pith_env *env) {
    uint8_t *out = allocate(count * w->element);
    const pith_view o = pith_view_flat(out, w->dtype, count);
    CHECK_OK(
        pith_decode_range(w->frame.bytes, w->frame.length, w->base_given, first, env, &o, NULL));
    CHECK(memcmp(out, (const uint8_t *)w->decoded + first * w->element, count * w->element) == 0);
    free(out);
}

static void test_every_range(void **state) {
    (void)state;
    const struct test_case *c;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        if (c->block > 64) continue;
        struct whole w;
        const pith_env env = test_env();
        const size_t count = c->block + 19;
        whole_open(&w, c, count);
        for (size_t first = 0; first <= count; first += 1 + (i % 3))
            for (size_t n = 0; first + n <= count; n += 1 + (i % 2)) {
                context("%s %s/%s, %zu from %zu of %zu", c->spec, pith_dtype_name(c->dtype),
                        pith_dtype_name(c->base_dtype), n, first, count);
                check_range(&w, first, n, &env);
            }
        whole_close(&w);
    }
}

static void test_random_ranges(void **state) {
    (void)state;
    const struct test_case *c;
    uint64_t seed = 4;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        struct whole w;
        pith_env env = test_env();
        const size_t count = 30000 + i;
        whole_open(&w, c, count);
        for (int k = 0; k < 6; k++) {
            const size_t first = gen_next(&seed) % count, n = gen_next(&seed) % (count - first);
            env.threads = k % 2 ? 3 : 0;
            env.run = k % 2 ? run_backwards : NULL;
            context("%s %s/%s, %zu from %zu of %zu", c->spec, pith_dtype_name(c->dtype),
                    pith_dtype_name(c->base_dtype), n, first, count);
            check_range(&w, first, n, &env);
        }
        whole_close(&w);
    }
}

static void test_outside(void **state) {
    (void)state;
    struct whole w;
    const struct test_case c = {
        .spec = "wdiff:group=16,block=64", .dtype = PITH_F32, .base_dtype = PITH_BF16};
    float out[200] = {0};
    whole_open(&w, &c, 100);
    const uint64_t outside[][2] = {{0, 101}, {101, 0},        {100, 1},
                                   {50, 51}, {UINT64_MAX, 2}, {UINT64_MAX, 0}};
    for (size_t i = 0; i < 6; i++) {
        context("range %zu outside", i);
        const pith_view o = pith_view_flat(out, PITH_F32, outside[i][1]);
        CHECK_STATUS(PITH_ERR_SHAPE, pith_decode_range(w.frame.bytes, w.frame.length, w.base_given,
                                                       outside[i][0], NULL, &o, NULL));
    }
    context("range against another base");
    const pith_view o = pith_view_flat(out, PITH_F32, 3);
    ((uint8_t *)w.base)[199] ^= 1;
    CHECK_STATUS(PITH_ERR_BASE,
                 pith_decode_range(w.frame.bytes, w.frame.length, w.base_given, 0, NULL, &o, NULL));
    CHECK(all_bytes(out, sizeof out, 0));
    CHECK_STATUS(PITH_ERR_BASE,
                 pith_decode_range(w.frame.bytes, w.frame.length, NULL, 0, NULL, &o, NULL));
    whole_close(&w);
}

/* The limit is on the frame's tensor, for a range too. */
static void test_limit(void **state) {
    (void)state;
    struct whole w;
    float out[200];
    const struct test_case c = {.spec = "raw:block=64", .dtype = PITH_F32};
    whole_open(&w, &c, 200);
    pith_env env = test_env();
    env.max_output_bytes = 799;
    const pith_view all = pith_view_flat(out, PITH_F32, 200),
                    most = pith_view_flat(out, PITH_F32, 199);
    context("output limit");
    CHECK_STATUS(PITH_ERR_LIMIT,
                 pith_decompress(w.frame.bytes, w.frame.length, NULL, &env, &all, NULL));
    CHECK_STATUS(PITH_ERR_LIMIT, pith_verify(w.frame.bytes, w.frame.length, &env, NULL));
    CHECK_STATUS(PITH_ERR_LIMIT,
                 pith_decode_range(w.frame.bytes, w.frame.length, NULL, 1, &env, &most, NULL));
    env.max_output_bytes = 800;
    CHECK_OK(pith_decode_range(w.frame.bytes, w.frame.length, NULL, 1, &env, &most, NULL));
    CHECK_OK(pith_decompress(w.frame.bytes, w.frame.length, NULL, &env, &all, NULL));
    whole_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_range),
        cmocka_unit_test(test_random_ranges),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests_name("range", tests, NULL, NULL);
}
