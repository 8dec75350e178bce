/* test_constants.c - rel where all finite values are one number: every one of them comes back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * test_constants DIRECTORY [CONSTANTS]: so many numbers of each dtype, 300 unless told (fewer where
 * PITH_TEST_STEP is set), through all modes and blocks, alone and among others that are not finite.
 */
#include <math.h>

#include "gen.h"
#include "util.h"

enum { ROWS = 10, ROW = 40, COUNT = ROWS * ROW, EDGES = 12, MORE = 276 };
static size_t constants;

/* The size of a block: less than a row, less than the tensor, all of it. */
static const char *const blocks[] = {"block=16", "block=64", "block=whole"};
static const char *const specs[] = {
    "eb:rel=0.01,mode=fast",
    "eb:rel=0.01,mode=ratio",
    "eb:rel=0.01,mode=auto",
    "eb:rel=0.01,mode=auto,zeros=signed",
    "embed:rel=0.01,mode=fast",
    "embed:rel=0.01,mode=auto",
    "embed:rel=0.01,mode=auto,dim=7,zeros=signed",
    "act:rel=0.01,mode=fast",
    "act:rel=0.01,mode=ratio",
    "act:rel=0.01,mode=ratio,zeros=signed",
};
enum {
    BLOCKS = sizeof blocks / sizeof blocks[0],
    SPECS = sizeof specs / sizeof specs[0],
    ALL = BLOCKS * SPECS
};

/* ---- Numbers ---------------------------------------------------------------------------------*/

static const struct format {
    uint32_t dtype;
    unsigned bytes, mantissa;
} formats[] = {{PITH_F32, 4, 23}, {PITH_BF16, 2, 7}, {PITH_F16, 2, 10}, {PITH_F64, 8, 52}};

static uint64_t sign_of(const struct format *f) { return UINT64_C(1) << (8 * f->bytes - 1); }
static uint64_t infinity_of(const struct format *f) {
    return sign_of(f) - (UINT64_C(1) << f->mantissa);
}
static bool is_finite(const struct format *f, uint64_t u) {
    return (u & infinity_of(f)) != infinity_of(f);
}

/* Number i of the constants: the ends of the format, then any, one in two of them with an exponent
 * near the least, where products with powers of two are rounded. */
static uint64_t constant_of(const struct format *f, size_t i, uint64_t *seed) {
    const uint64_t least = UINT64_C(1) << f->mantissa, most = infinity_of(f) - 1;
    const uint64_t edges[EDGES] = {0,         1,        2,         3,
                                   least - 1, least,    least + 1, 22 * least,
                                   most,      most - 1, most / 2,  25 * least + 12345 % least};
    if (i < 2 * EDGES) return edges[i / 2] | (i % 2 ? sign_of(f) : 0);
    for (;;) {
        uint64_t u = gen_next(seed) & (2 * sign_of(f) - 1);
        if (i % 2) u = (u & (sign_of(f) | (least - 1))) | least * (gen_next(seed) % 30);
        if (is_finite(f, u)) return u;
    }
}

/* ---- Tensors ---------------------------------------------------------------------------------*/

enum fill { PLAIN, HOLES, INFINITE, HALF, FILLS };

/* Whether element i is not finite. */
static bool is_hole(enum fill fill, size_t i, uint64_t random) {
    switch (fill) {
    case HOLES: return i * 7919 % COUNT % 5 == 1;
    case INFINITE: return i != COUNT / 2;
    case HALF: return random & 1;
    default: return false;
    }
}

static void fill_tensor(const struct format *f, enum fill fill, uint64_t constant, uint64_t *seed,
                        uint8_t *values) {
    const uint64_t infinity = infinity_of(f);
    for (size_t i = 0; i < COUNT; i++) {
        const uint64_t random = gen_next(seed);
        uint64_t u = constant;
        if (fill == HALF && !(u & ~sign_of(f))) u ^= random & sign_of(f); /* +0 and -0 */
        if (is_hole(fill, i, random))
            u = random & 2 ? infinity | (random & sign_of(f)) : infinity | (random >> 8 & 1) | 2;
        memcpy(values + i * f->bytes, &u, f->bytes);
    }
}

static void check_same(const struct format *f, const uint8_t *values, const uint8_t *back) {
    if (memcmp(values, back, (size_t)COUNT * f->bytes) == 0) return;
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t u = 0, v = 0;
        memcpy(&u, values + i * f->bytes, f->bytes);
        memcpy(&v, back + i * f->bytes, f->bytes);
        CHECK(u == v || !((u | v) & ~sign_of(f))); /* -0 may become +0 */
    }
}

/* ---- All settings ----------------------------------------------------------------------------*/

struct setting {
    char spec[80];
    struct stream stream;
};

static void open_all(struct setting s[ALL], const struct format *f) {
    const pith_layout layout = {
        .size = sizeof layout, .dtype = f->dtype, .ndim = 2, .shape = {ROWS, ROW}};
    const pith_env env = test_env();
    for (size_t i = 0; i < ALL; i++) {
        snprintf(s[i].spec, sizeof s[i].spec, "%s,%s", specs[i / BLOCKS], blocks[i % BLOCKS]);
        context("%s", s[i].spec);
        stream_open(&s[i].stream, s[i].spec, &layout, &env);
    }
}

static void check_trip(struct setting *s, const struct format *f, const uint8_t *values) {
    enum { CAP = 16384 };
    static uint8_t frame[CAP], back[COUNT * 8];
    const uint64_t shape[2] = {ROWS, ROW};
    const pith_view v = pith_view_dense(values, f->dtype, 2, shape),
                    to = pith_view_dense(back, f->dtype, 2, shape);
    size_t length;
    memset(back, 0x5A, sizeof back);
    CHECK_OK(encode_one(s->stream.work, s->stream.stream, &v, 0, 0, frame, CAP, &length));
    CHECK_OK(decode_one(s->stream.work, s->stream.stream, 0, frame, length, &to, 0));
    check_same(f, values, back);
}

/* Interpolation under a bound that is not 0 changed constants among values that are not finite, and
 * so did the bound of constants near the least normal number, which had been rounded. */
static void test_constants(void **state) {
    (void)state;
    static uint8_t values[COUNT * 8];
    static struct setting settings[ALL];
    for (size_t d = 0; d < sizeof formats / sizeof formats[0]; d++) {
        const struct format *const f = &formats[d];
        uint64_t seed = d;
        open_all(settings, f);
        for (size_t i = 0; i < constants; i++) {
            const uint64_t constant = constant_of(f, i, &seed);
            for (int fill = 0; fill < FILLS; fill++) {
                fill_tensor(f, (enum fill)fill, constant, &seed, values);
                for (size_t k = 0; k < ALL; k++) {
                    context("%s, dtype %u, bits %llx, fill %d", settings[k].spec, f->dtype,
                            (unsigned long long)constant, fill);
                    check_trip(&settings[k], f, values);
                }
            }
        }
        for (size_t k = 0; k < ALL; k++) stream_close(&settings[k].stream);
    }
}

static size_t length_of(const char *spec, float constant, bool holes) {
    float values[COUNT] = {0};
    const uint64_t shape[2] = {ROWS, ROW};
    const pith_view v = pith_view_dense(values, PITH_F32, 2, shape);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = holes && is_hole(HOLES, i, 0) ? float_of(0x7FC00000u) : constant;
    struct frame f = compress(spec, &v, NULL, 0);
    free(f.bytes);
    return f.length;
}

/* Codec eb codes them as one number, the least that a block can be: header, bound, index, head of
 * the block, no exact values, the code. What is not finite costs its bit and its bytes. */
static void test_lengths(void **state) {
    (void)state;
    enum { LEAST = 64 + 32 + 16 + 2 + 4 + 4, HOLES_BYTES = COUNT / 8 + COUNT / 5 * 4 };
    for (size_t k = 0; strncmp(specs[k], "eb", 2) == 0; k++) {
        context("%s", specs[k]);
        CHECK(length_of(specs[k], 0x1.1c0ebep+0f, false) == LEAST);
        CHECK(length_of(specs[k], -0x1.8p-100f, false) == LEAST);
        const bool fast = strstr(specs[k], "fast") != NULL; /* packs codes as they are made */
        CHECK(fast || length_of(specs[k], 0x1.1c0ebep+0f, true) == LEAST + HOLES_BYTES);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constants),
                                       cmocka_unit_test(test_lengths)};
    constants = argc > 2 ? strtoul(argv[2], NULL, 10) : 2 * EDGES + sample_of(MORE);
    return cmocka_run_group_tests_name("constants", tests, NULL, NULL);
}
