/* test_bound.c - sizes that are known before the data: exact where fixed, never exceeded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"
#include "gen.h"
#include "util.h"

/* Encode into memory of cap bytes; guard bytes show what is written beyond. */
static pith_status encode_into(struct stream *s, const pith_view *v, size_t cap, size_t *written) {
    uint8_t *place = allocate(cap + 32);
    memset(place, 0x5A, cap + 32);
    const pith_status status = encode_one(s->work, s->stream, v, 0, 0, place, cap, written);
    CHECK(all_bytes(place + cap, 32, 0x5A));
    CHECK(status == PITH_OK || *written == 0);
    free(place);
    return status;
}

static void check_caps(const struct test_case *c, enum gen kind, size_t count) {
    struct stream s;
    size_t written = 0, again = 0;
    const pith_layout layout = flat_layout(c->dtype, c->base_dtype, count);
    void *value = allocate(count * pith_dtype_bytes(c->dtype));
    gen_fill(kind, 3, c->dtype, value, count);
    const pith_view v = pith_view_flat(value, c->dtype, count);
    stream_open(&s, c->spec, &layout, NULL);
    const size_t bound = (size_t)s.sizes.slot_bytes;
    CHECK(bound == pith_plan_frame_bytes(s.plan, 0, 0) && bound == s.sizes.frame_bytes);
    CHECK(s.sizes.fixed == c->fixed);
    CHECK_STATUS(PITH_ERR_SPACE, encode_into(&s, &v, 0, &again));
    CHECK_STATUS(PITH_ERR_SPACE, encode_into(&s, &v, 63, &again));
    const bool based = c->base_dtype != PITH_NONE;
    const bool tries = strstr(c->spec, "psnr") || strstr(c->spec, "nmse"); /* several bounds */
    if (s.sizes.fixed || based)
        CHECK_STATUS(PITH_ERR_SPACE, encode_into(&s, &v, bound - 1, &again));
    CHECK(pith_stream_step(s.stream, 0) == 0);
    CHECK_OK(encode_into(&s, &v, bound, &written));
    CHECK(pith_stream_step(s.stream, 0) == 1);
    CHECK(c->fixed ? written == bound : written <= bound);
    if (!based && !tries) {
        CHECK_OK(pith_stream_reset(s.work, s.stream));
        CHECK_OK(encode_into(&s, &v, written, &again));
        CHECK(again == written);
        CHECK_OK(pith_stream_reset(s.work, s.stream));
        CHECK_STATUS(PITH_ERR_SPACE, encode_into(&s, &v, written - 1, &again));
    }
    free(value);
    stream_close(&s);
}

static void test_caps(void **state) {
    (void)state;
    static const enum gen kinds[] = {GEN_BITS, GEN_NOISE, GEN_ZEROS};
    const struct test_case *c;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        const size_t counts[] = {0, 1, 16, c->group + 1, 2 * c->block + 1};
        for (size_t k = 0; k < 15; k++) {
            if (counts[k / 3] > 9000) continue;
            context("%s %s/%s, %s x %zu", c->spec, pith_dtype_name(c->dtype),
                    pith_dtype_name(c->base_dtype), gen_name(kinds[k % 3]), counts[k / 3]);
            check_caps(c, kinds[k % 3], counts[k / 3]);
        }
    }
}

/* The formula of FORMAT.md, written again. */
static uint64_t padded(uint64_t n) { return (n + 15) / 16 * 16; }

static void test_formula(void **state) {
    (void)state;
    const struct {
        const char *spec;
        uint64_t group, block, bits, scale;
    } rows[] = {{"wdiff", 2048, 16384, 4, 4},
                {"wdiff:bits=3,group=16,block=64,scale_dtype=bf16", 16, 64, 3, 2},
                {"wdiff:bits=6,group=128", 128, 16384, 6, 4},
                {"wdiff:bits=8,group=16384,block=1048576", 16384, 1048576, 8, 4}};
    for (size_t i = 0; i < 4; i++)
        for (uint64_t n = 0; n < 3000000; n = n * 3 + 1) {
            uint64_t wanted = 64, got;
            context("%s x %llu", rows[i].spec, (unsigned long long)n);
            for (uint64_t at = 0; at < n; at += rows[i].block) {
                const uint64_t c = n - at < rows[i].block ? n - at : rows[i].block;
                wanted += padded((c + rows[i].group - 1) / rows[i].group * rows[i].scale);
                wanted += padded((c * rows[i].bits + 7) / 8);
            }
            const pith_view v = pith_view_flat(NULL, PITH_F32, n);
            CHECK_OK(pith_compress_bound(rows[i].spec, &v, NULL, NULL, &got, NULL));
            CHECK(got == wanted);
        }
}

/* At most 64 bytes of header up to four dimensions, sections in multiples of 16. */
static void test_headers(void **state) {
    (void)state;
    uint8_t source[40];
    memset(source, 7, sizeof source);
    const uint64_t shape[8] = {1, 2, 1, 3, 1, 1, 1, 1};
    const float value[6] = {1, 2, 3, 4, 5, 6};
    for (uint32_t ndim = 0; ndim <= 8; ndim++)
        for (size_t length = 0; length <= sizeof source; length++) {
            pith_info info = {.size = sizeof info};
            uint8_t buffer[512];
            uint64_t bound;
            size_t written;
            const pith_view v = pith_view_dense(value, PITH_F32, ndim, shape);
            const pith_layout layout = {
                .size = sizeof layout, .source = source, .source_bytes = length};
            context("%u dimensions, %zu bytes of source", ndim, length);
            CHECK_OK(pith_compress("raw", &v, NULL, &layout, NULL, buffer, sizeof buffer, &written,
                                   NULL));
            CHECK_OK(pith_inspect(buffer, written, &info, NULL));
            const uint64_t section = length ? padded(8 + length) : 0;
            CHECK(info.header_bytes == (ndim > 4 ? 112 : 64) + section);
            CHECK(written == info.header_bytes + info.raw_bytes);
            CHECK_OK(pith_compress_bound("raw", &v, NULL, &layout, &bound, NULL));
            CHECK(bound == written);
            CHECK(info.source_bytes == length && (length == 0) == (info.source == NULL));
            CHECK(length == 0 || memcmp(info.source, source, length) == 0);
            CHECK(info.ndim == ndim && memcmp(info.shape, shape, ndim * 8) == 0);
        }
}

/* 2^32 elements in one dimension need the wide header; nothing is allocated to say so. */
static void test_wide(void **state) {
    (void)state;
    uint64_t narrow, wide;
    context("wide header");
    const pith_view most = pith_view_flat(NULL, PITH_U8, UINT32_MAX);
    const pith_view more = pith_view_flat(NULL, PITH_U8, UINT64_C(1) << 32);
    CHECK_OK(pith_compress_bound("raw", &most, NULL, NULL, &narrow, NULL));
    CHECK_OK(pith_compress_bound("raw", &more, NULL, NULL, &wide, NULL));
    CHECK(narrow == 64 + (UINT64_C(1) << 32) - 1 && wide == 112 + (UINT64_C(1) << 32));
}

static void test_too_large(void **state) {
    (void)state;
    static const char *const specs[] = {"raw", "lossless", "wdiff", "wdiff:entropy=zstd"};
    for (size_t k = 0; k < 4; k++)
        for (int shift = 59; shift < 64; shift++) {
            uint64_t bytes = 1;
            context("%s, 2^%d elements", specs[k], shift);
            const pith_view v = pith_view_flat(NULL, PITH_F32, UINT64_C(1) << shift);
            const pith_status status = pith_compress_bound(specs[k], &v, NULL, NULL, &bytes, NULL);
            CHECK(status == PITH_ERR_SHAPE || status == PITH_ERR_MEMORY ||
                  (status == PITH_OK && shift < 60 && bytes > v.shape[0] / 8));
            CHECK(status == PITH_OK || bytes == 0);
        }
}

/* One element of every dtype by every codec that takes it. */
static void test_one_element(void **state) {
    (void)state;
    const struct test_case *c;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        if (c->base_dtype != PITH_NONE) continue;
        uint64_t one = 0x3F80, back = UINT64_MAX;
        const pith_view v = pith_view_dense(&one, c->dtype, 0, NULL);
        const pith_view to = pith_view_dense(&back, c->dtype, 0, NULL);
        context("one element, %s %s", c->spec, pith_dtype_name(c->dtype));
        struct frame f = compress(c->spec, &v, NULL, 0);
        CHECK(f.length <= header_of(&f) + 48);
        CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &to, NULL));
        CHECK(!c->exact || memcmp(&one, &back, pith_dtype_bytes(c->dtype)) == 0);
        free(f.bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_caps),      cmocka_unit_test(test_formula),
        cmocka_unit_test(test_headers),   cmocka_unit_test(test_wide),
        cmocka_unit_test(test_too_large), cmocka_unit_test(test_one_element),
    };
    return cmocka_run_group_tests_name("bound", tests, NULL, NULL);
}
