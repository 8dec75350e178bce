/* test_corrupt.c - golden frames cut and flipped everywhere: a defined status, the same everywhere.
 * SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

static const char *dir;

/* ---- One damaged frame under every variant ---------------------------------------------------*/

static const struct {
    uint32_t mask, threads;
} variants[] = {{PITH_CPU_SCALAR, 0}, {PITH_CPU_AVX2, 3}, {0, 0}, {PITH_CPU_SCALAR, 3}, {0, 3}};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

struct outcome {
    pith_status decompress, verify, inspect, bound;
    uint64_t offset;
    double bound_value;
};

static pith_env env_of(size_t variant) {
    return (pith_env){.size = sizeof(pith_env),
                      .cpu_mask = variants[variant].mask,
                      .threads = variants[variant].threads,
                      .run = variants[variant].threads ? run_backwards : NULL,
                      .max_output_bytes = 1 << 20};
}

/* Every refusal says what is wrong. */
static pith_status explained(pith_status status, const pith_error *error) {
    CHECK((error->text[0] == 0) == (status == PITH_OK));
    return status;
}

static struct outcome try_variant(const struct golden_file *f, const uint8_t *bytes, size_t length,
                                  size_t variant, uint8_t *out) {
    struct outcome o = {.offset = 0};
    pith_view base;
    pith_info info = {.size = sizeof info};
    pith_error error = {.size = sizeof error};
    const pith_env env = env_of(variant);
    o.inspect = explained(pith_inspect(bytes, length, &info, &error), &error);
    /* The view fits what the frame says now, so that as much as possible is decoded. */
    const bool usable = o.inspect == PITH_OK && info.raw_bytes <= f->raw_bytes + 64;
    const pith_view view = pith_view_flat(out, usable ? info.dtype : f->info.dtype,
                                          usable ? info.count : f->info.count);
    o.decompress = explained(
        pith_decompress(bytes, length, golden_base(f, &base), &env, &view, &error), &error);
    o.offset = error.offset;
    o.verify = explained(pith_verify(bytes, length, &env, &error), &error);
    o.bound = explained(pith_error_bound(bytes, length, &o.bound_value, &error), &error);
    return o;
}

static bool defined(pith_status s) {
    return strcmp(pith_status_name(s), "PITH_ERR_UNKNOWN") != 0 && s != PITH_ERR_INTERNAL &&
           s != PITH_ERR_RUNNER && s != PITH_ERR_MEMORY;
}

/* Returns whether anything noticed. bytes is exact-size memory. */
static bool damage(const struct golden_file *f, const uint8_t *bytes, size_t length) {
    const size_t out_bytes = f->raw_bytes + 64;
    uint8_t *first = allocate(out_bytes), *out = allocate(out_bytes);
    struct outcome one = {.offset = 0};
    for (size_t w = 0; w < VARIANTS; w++) {
        memset(w ? out : first, 0x5A, out_bytes);
        const struct outcome o = try_variant(f, bytes, length, w, w ? out : first);
        if (w == 0) one = o;
        CHECK(defined(o.decompress) && defined(o.verify) && defined(o.inspect) && defined(o.bound));
        CHECK(o.decompress == one.decompress && o.offset == one.offset);
        CHECK(o.verify == one.verify && o.inspect == one.inspect && o.bound == one.bound);
        CHECK(memcmp(&o.bound_value, &one.bound_value, sizeof o.bound_value) == 0);
        if (w && o.decompress == PITH_OK) CHECK(memcmp(first, out, out_bytes) == 0);
    }
    free(first);
    free(out);
    return one.verify != PITH_OK || one.decompress != PITH_OK;
}

/* ---- Every golden frame ----------------------------------------------------------------------*/

/* Far inside of frames one bit in so many is flipped; ./dev exhaustive flips each. */
static size_t step_of_bits(void) { return test_step(11); }
/* Of what takes long to decode fewer are, unless each is. */
static size_t step_within(const struct golden_file *f) {
    const size_t step = step_of_bits();
    return step == 1 ? 1 : step * (1 + f->raw_bytes / 4096);
}

/* Near the beginning each is, and where steps are longer than that, each in some frame. */
static size_t step_of_near_bits(void) { return step_of_bits() / 12 + 1; }

static void test_cut(void **state) {
    (void)state;
    struct golden_file f;
    const size_t near_step = step_of_near_bits();
    for (size_t i = 0; golden_open(dir, i, &f); i++) {
        const size_t step = step_within(&f) / 4 + 1, near = (size_t)f.info.header_bytes + 32;
        for (size_t n = i % near_step; n < f.frame.length; n += near < n ? step : near_step) {
            uint8_t *exact = copy_of(f.frame.bytes, n);
            pith_info info = {.size = sizeof info};
            context("golden frame %s cut to %zu bytes", f.name, n);
            const bool whole_header = n >= f.info.header_bytes;
            CHECK_STATUS(whole_header ? PITH_OK : PITH_ERR_TRUNCATED,
                         pith_inspect(exact, n, &info, NULL));
            CHECK(whole_header ||
                  (info.header_bytes > n && info.header_bytes <= f.info.header_bytes));
            CHECK(damage(&f, exact, n));
            CHECK_STATUS(PITH_ERR_TRUNCATED, pith_verify(exact, n, NULL, NULL));
            free(exact);
        }
        golden_close(&f);
    }
}

/* Every bit of small frames; of larger ones the header, and then some. */
static void test_flips(void **state) {
    (void)state;
    struct golden_file f;
    size_t required = 0;
    const size_t near_step = step_of_near_bits();
    for (size_t i = 0; golden_open(dir, i, &f); i++) {
        const size_t step = step_within(&f);
        uint8_t *exact = copy_of(f.frame.bytes, f.frame.length);
        const size_t head = (size_t)f.info.header_bytes * 8;
        for (size_t bit = i % near_step; bit < f.frame.length * 8;
             bit += 160 < f.frame.length && head < bit ? step : near_step) {
            context("golden frame %s, bit %zu flipped", f.name, bit);
            exact[bit / 8] ^= (uint8_t)(1 << bit % 8);
            const bool seen = damage(&f, exact, f.frame.length);
            exact[bit / 8] ^= (uint8_t)(1 << bit % 8);
            const bool must_be = bit < head || f.info.has_checksums;
            CHECK(seen || !must_be);
            required += must_be;
        }
        free(exact);
        golden_close(&f);
    }
    CHECK(required > 20000 / near_step);
}

/* A stream's decoder leaves view and stream as they were when it refuses before decoding. */
static void test_flips_in_a_stream(void **state) {
    (void)state;
    enum { N = 150 };
    float value[N], out[N];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N), o = pith_view_flat(out, PITH_F32, N);
    pith_layout layout = flat_layout(PITH_F32, PITH_BF16, N);
    layout.flags = PITH_LAYOUT_CHECKSUMS;
    for (int key = 0; key < 2; key++) {
        struct stream a, b;
        stream_open(&a, "wdiff:group=16,block=64", &layout, NULL);
        stream_open(&b, "wdiff:group=16,block=64", &layout, NULL);
        void *before = copy_of(b.memory, (size_t)b.sizes.stream_bytes);
        struct frame f = stream_encode(&a, &v, 0, key != 0);
        memset(out, 0x5A, sizeof out);
        for (size_t bit = 0; bit < 8 * f.length; bit++) {
            context("bit %zu of a frame of a stream flipped", bit);
            f.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            CHECK(decode_one(b.work, b.stream, 0, f.bytes, f.length, &o, 0) != PITH_OK);
            CHECK(memcmp(before, b.memory, (size_t)b.sizes.stream_bytes) == 0);
            CHECK(all_bytes(out, sizeof out, 0x5A));
            f.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        CHECK_OK(decode_one(b.work, b.stream, 0, f.bytes, f.length, &o, 0));
        free(before);
        free(f.bytes);
        stream_close(&a);
        stream_close(&b);
    }
}

/* ---- Noise -----------------------------------------------------------------------------------*/

/* Damage behind a correct header, so that block decoders see it: bursts of random bytes. */
static void test_noise_in_payloads(void **state) {
    (void)state;
    struct golden_file f;
    const size_t bursts = 200 / step_of_near_bits();
    uint64_t seed = 99;
    for (size_t i = 0; golden_open(dir, i, &f); i++) {
        uint8_t *exact = copy_of(f.frame.bytes, f.frame.length);
        const size_t head = (size_t)f.info.header_bytes, payload = f.frame.length - head;
        for (size_t k = 0; k < bursts && payload; k++) {
            context("golden frame %s, burst %zu", f.name, k);
            const size_t at = gen_next(&seed) % payload,
                         most = payload - at < 12 ? payload - at : 12;
            gen_fill(GEN_BITS, gen_next(&seed), PITH_U8, exact + head + at,
                     1 + gen_next(&seed) % most);
            damage(&f, exact, f.frame.length);
            memcpy(exact + head, f.frame.bytes + head, payload);
        }
        free(exact);
        golden_close(&f);
    }
}

static void test_any_bytes(void **state) {
    (void)state;
    struct golden_file f;
    uint64_t seed = 5;
    CHECK(golden_open(dir, 0, &f));
    for (size_t n = 0; n < 300; n++) {
        uint8_t *bytes = allocate(n);
        gen_fill(GEN_BITS, gen_next(&seed), PITH_U8, bytes, n);
        context("%zu random bytes", n);
        CHECK(damage(&f, bytes, n));
        if (n > 4) memcpy(bytes, f.frame.bytes, 5);
        CHECK(damage(&f, bytes, n));
        free(bytes);
    }
    golden_close(&f);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_flips),
        cmocka_unit_test(test_flips_in_a_stream),
        cmocka_unit_test(test_noise_in_payloads),
        cmocka_unit_test(test_any_bytes),
    };
    if (argc < 2) return 2;
    dir = argv[1];
    return cmocka_run_group_tests_name("corrupt", tests, NULL, NULL);
}
