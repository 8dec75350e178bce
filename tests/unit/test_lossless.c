/* test_lossless.c - blocks of the lossless codec: by hand, by every pattern, and their size.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "bytes/entropy.h"
#include "bytes/update.h"
#include "codec.h"
#include "gen.h"
#include "spec.h"
#include "util.h"

static const char *test_directory;

static struct pithi_params params_of(uint32_t dtype, bool base, uint32_t block) {
    const struct pithi_codec *codec = pithi_codec_by_id(2);
    struct pithi_params p = {.codec = codec, .dtype = dtype, .block = block, .most = block};
    p.base_dtype = base ? dtype : PITH_NONE;
    for (uint32_t i = 0; i < codec->key_count; i++) p.value[i] = codec->keys[i].initial;
    return p;
}

static void *scratch_of(const struct pithi_params *p) {
    const size_t bytes = (p->codec->scratch_bytes(p) + 63) & ~(size_t)63;
    void *scratch = aligned_alloc(64, bytes);
    CHECK(scratch);
    return memset(scratch, 0xA5, bytes);
}

static struct pithi_entropy *coder_of(const struct pithi_params *p) {
    const size_t bytes = p->codec->coder_bytes(p);
    void *const memory = aligned_alloc(64, bytes);
    CHECK(memory);
    return pithi_entropy_open(memset(memory, 0xA5, bytes), bytes);
}

/* ---- Blocks by hand --------------------------------------------------------------------------*/

enum { BASE = 1, KEY = 2, PLAIN = 4, LENGTH_MAX = 40 };

struct block_case {
    const char *what;
    uint32_t dtype, flags;
    size_t count, length;
    uint8_t bytes[LENGTH_MAX];
    uint8_t expect[64]; /* values; all 0 and 1 where the name begins with "bad" */
};

/* Bases are all zero bytes. A frame of zstd: descriptor, content size, blocks. */
static const struct block_case block_cases[] = {
    {"plain block", PITH_U8, PLAIN, 3, 3, {7, 8, 9}, {7, 8, 9}},
    {"plain piece", PITH_U8, 0, 3, 5, {0x00, 0x00, 7, 8, 9}, {7, 8, 9}},
    {"constant piece", PITH_U8, 0, 3, 3, {0x00, 0x01, 7}, {7, 7, 7}},
    {"rotated float", PITH_BF16, 0, 1, 5, {0x00, 0x00, 0x05, 0x00, 0x7F}, {0x82, 0xBF}},
    {"zigzag integer", PITH_I16, 0, 2, 6, {0x00, 0x00, 3, 4, 0x01, 0x00}, {0xFE, 0xFF, 2, 0}},
    {"planes of two bytes", PITH_U16, 0, 2, 7, {0, 0, 1, 2, 0, 3, 4}, {1, 3, 2, 4}},
    {"update", PITH_BF16, BASE, 2, 3, {0x12, 0x00, 0x09}, {0x00, 0x80, 0x01, 0x00}},
    {"integer update", PITH_U8, BASE, 4, 3, {0x14, 0x01, 0x21}, {0xFF, 1, 0xFF, 1}},
    {"escape", PITH_U8, 0, 3, 5, {0x02, 0x00, 0x0D, 0x00, 0x05}, {1, 8, 0}},
    {"escape that wraps", PITH_U8, 0, 1, 5, {0x08, 0x01, 0xFF, 0x01, 0x01}, {0}},
    {"one-bit symbols", PITH_U8, 0, 9, 8, {0x01, 0, 0x81, 1, 0, 4, 5, 6}, {5, [7] = 6, 7}},
    {"sparse piece",
     PITH_U8,
     0,
     64,
     14,
     {0, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0x80, 0, 5, 6},
     {5, [63] = 6}},
    {"stored frame", PITH_U8, 0, 3, 13, {0, 2, 8, 0, 0, 0x20, 3, 0x19, 0, 0, 7, 8, 9}, {7, 8, 9}},
    {"frame of runs", PITH_U8, 0, 3, 11, {0, 2, 6, 0, 0, 0x20, 3, 0x1B, 0, 0, 7}, {7, 7, 7}},
    {"bad: no head", PITH_U8, 0, 3, 0, {0}, {0}},
    {"bad: symbol width 3", PITH_U8, 0, 3, 3, {0x03, 0x01, 0}, {0}},
    {"bad: symbol width 9", PITH_U8, 0, 3, 3, {0x09, 0x01, 0}, {0}},
    {"bad: head bit 5", PITH_U8, 0, 3, 3, {0x20, 0x01, 7}, {0}},
    {"bad: head bit 7", PITH_U8, 0, 3, 3, {0x80, 0x01, 7}, {0}},
    {"bad: update without base", PITH_U8, 0, 3, 3, {0x10, 0x01, 7}, {0}},
    {"bad: update in a key frame", PITH_U8, BASE | KEY, 3, 3, {0x10, 0x01, 7}, {0}},
    {"bad: no piece", PITH_U8, 0, 3, 1, {0x00}, {0}},
    {"bad: plain piece cut", PITH_U8, 0, 3, 4, {0x00, 0x00, 7, 8}, {0}},
    {"bad: constant piece cut", PITH_U8, 0, 3, 2, {0x00, 0x01}, {0}},
    {"bad: piece of kind 4", PITH_U8, 0, 3, 5, {0x00, 0x04, 7, 8, 9}, {0}},
    {"bad: second plane missing", PITH_U16, 0, 2, 4, {0, 0, 1, 2}, {0}},
    {"bad: bytes after the block", PITH_U8, 0, 3, 4, {0x00, 0x01, 7, 0}, {0}},
    {"bad: plain block too short", PITH_U8, PLAIN, 3, 2, {7, 8}, {0}},
    {"bad: unused symbol bits", PITH_U8, 0, 3, 3, {0x02, 0x00, 0x40}, {0}},
    {"bad: escapes missing", PITH_U8, 0, 3, 3, {0x02, 0x00, 0x0D}, {0}},
    {"bad: short sparse piece", PITH_U8, 0, 9, 9, {0, 3, 0, 1, 1, 0, 5, 6, 7}, {0}},
    {"bad: empty sparse piece", PITH_U8, 0, 64, 6, {0, 3, 1, 0, 1, 5}, {0}},
    {"bad: sparse bytes sparse", PITH_U8, 0, 64, 9, {0, 3, 1, 0xFF, 3, 1, 0xFF, 1, 5}, {0}},
    {"bad: unused bitmap bits", PITH_U8, 0, 65, 6, {0, 3, 1, 0xFF, 1, 5}, {0}},
    {"bad: coded length cut", PITH_U8, 0, 3, 3, {0, 2, 6}, {0}},
    {"bad: coded string cut", PITH_U8, 0, 3, 10, {0, 2, 6, 0, 0, 0x20, 3, 0x1B, 0, 0}, {0}},
    {"bad: coded string empty", PITH_U8, 0, 3, 5, {0, 2, 0, 0, 0}, {0}},
    {"bad: content size", PITH_U8, 0, 3, 11, {0, 2, 6, 0, 0, 0x20, 4, 0x1B, 0, 0, 7}, {0}},
    {"bad: content", PITH_U8, 0, 3, 11, {0, 2, 6, 0, 0, 0x20, 3, 0x23, 0, 0, 7}, {0}},
    {"bad: no content size", PITH_U8, 0, 3, 11, {0, 2, 6, 0, 0, 0, 0, 0x1B, 0, 0, 7}, {0}},
    {"bad: checksum",
     PITH_U8,
     0,
     3,
     15,
     {0, 2, 10, 0, 0, 0x24, 3, 0x1B, 0, 0, 7, 0x3F, 0x9C, 0x15, 0x0B},
     {0}},
    {"bad: dictionary", PITH_U8, 0, 3, 12, {0, 2, 7, 0, 0, 0x21, 9, 3, 0x1B, 0, 0, 7}, {0}},
    {"bad: magic",
     PITH_U8,
     0,
     3,
     15,
     {0, 2, 10, 0, 0, 0x28, 0xB5, 0x2F, 0xFD, 0x20, 3, 0x1B, 0, 0, 7},
     {0}},
    {"bad: no last block", PITH_U8, 0, 3, 11, {0, 2, 6, 0, 0, 0x20, 3, 0x1A, 0, 0, 7}, {0}},
    {"bad: reserved block", PITH_U8, 0, 3, 11, {0, 2, 6, 0, 0, 0x20, 3, 0x0F, 0, 0, 7}, {0}},
    {"bad: byte after the frame",
     PITH_U8,
     0,
     3,
     12,
     {0, 2, 7, 0, 0, 0x20, 3, 0x1B, 0, 0, 7, 0},
     {0}},
    {"bad: second frame",
     PITH_U8,
     0,
     3,
     16,
     {0, 2, 11, 0, 0, 0x20, 3, 0x1B, 0, 0, 7, 0x20, 0, 0x01, 0, 0},
     {0}},
};

static void run_case(const struct block_case *c) {
    struct pithi_params p = params_of(c->dtype, c->flags & BASE, 128);
    p.key_frame = c->flags & KEY;
    const size_t raw = c->count * pith_dtype_bytes(c->dtype);
    uint8_t *bytes = copy_of(c->bytes, c->length), *out = allocate(raw), *base = allocate(raw);
    struct pithi_kernels kernels;
    pithi_kernels_bind(&kernels, 0);
    void *scratch = scratch_of(&p);
    struct pithi_entropy *const coder = coder_of(&p);
    memset(base, 0, raw);
    struct pithi_block b = {.params = &p,
                            .kernels = &kernels,
                            .count = c->count,
                            .out = out,
                            .out_dtype = c->dtype,
                            .base = c->flags & BASE ? base : NULL,
                            .plain = c->flags & PLAIN,
                            .bytes = bytes,
                            .length = c->length,
                            .scratch = scratch,
                            .coder = coder};
    const bool bad = strncmp(c->what, "bad", 3) == 0;
    context("%s", c->what);
    CHECK_STATUS(bad ? PITH_ERR_CORRUPT : PITH_OK, p.codec->decode(&b));
    CHECK(bad == (b.detail != NULL));
    if (!bad) CHECK(memcmp(out, c->expect, raw) == 0);
    free(bytes);
    free(out);
    free(base);
    free(scratch);
    free(coder);
}

static void test_blocks(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof block_cases / sizeof block_cases[0]; i++)
        run_case(&block_cases[i]);
}

/* The example of FORMAT.md. */
static void test_example(void **state) {
    (void)state;
    uint16_t base[] = {0x3F80, 0x3F80, 0xBF80, 0x0000, 0x8000, 0x4000,
                       0x3E00, 0xBE00, 0x3F00, 0x3F00, 0x3F00, 0x7FC0};
    const uint16_t value[] = {0x3F80, 0x3F81, 0xBF80, 0x8000, 0x8000, 0x3FFF,
                              0x3E00, 0xBE01, 0x3F04, 0x3F00, 0x3F00, 0x7FC1};
    const uint8_t expect[] = {0x12, 0x00, 0x48, 0x44, 0x83, 0x01, 0x05, 0x01, 0x00};
    uint8_t bytes[sizeof value];
    struct pithi_params p = params_of(PITH_BF16, true, 16);
    CHECK(pithi_params_set_revision(&p, 1));
    struct pithi_kernels kernels;
    pithi_kernels_bind(&kernels, 0);
    void *scratch = scratch_of(&p);
    struct pithi_entropy *const coder = coder_of(&p);
    struct pithi_block b = {.params = &p,
                            .kernels = &kernels,
                            .count = 12,
                            .value = value,
                            .base = base,
                            .update = true,
                            .bytes = bytes,
                            .scratch = scratch,
                            .coder = coder};
    context("example");
    CHECK_OK(p.codec->encode(&b));
    CHECK(b.length == sizeof expect && !b.plain && memcmp(bytes, expect, sizeof expect) == 0);
    CHECK(memcmp(base, value, sizeof value) == 0);
    CHECK(b.hash == pithi_nh_c(value, sizeof value, 0));
    free(scratch);
    free(coder);
}

/* ---- Every pattern of 16 bits ----------------------------------------------------------------*/

/* Values are all patterns, bases all patterns times an odd number plus a shift: distances of every
 * size across signs, NaN payloads, infinities and both zeros. */
static void run_patterns(uint32_t dtype, uint16_t factor, uint16_t shift) {
    enum { COUNT = 65536 };
    uint16_t *value = allocate(COUNT * 2), *base = allocate(COUNT * 2), *out = allocate(COUNT * 2);
    for (uint32_t i = 0; i < COUNT; i++) {
        value[i] = (uint16_t)i;
        base[i] = (uint16_t)(i * factor + shift);
    }
    const pith_view value_view = pith_view_flat(value, dtype, COUNT);
    const pith_view base_view = pith_view_flat(base, dtype, COUNT);
    const pith_view out_view = pith_view_flat(out, dtype, COUNT);
    context("dtype %u factor %u shift %u", dtype, factor, shift);
    struct frame f = compress("lossless", &value_view, &base_view, 0);
    CHECK_OK(pith_decompress(f.bytes, f.length, &base_view, NULL, &out_view, NULL));
    CHECK(memcmp(out, value, COUNT * 2) == 0);
    free(f.bytes);
    free(value);
    free(base);
    free(out);
}

static void test_patterns(void **state) {
    (void)state;
    static const uint32_t dtypes[] = {PITH_BF16, PITH_F16, PITH_I16, PITH_U16};
    static const uint16_t maps[][2] = {{1, 0}, {1, 1},      {1, 0xFFFF},
                                       {1, 7}, {1, 0x8000}, {40503, 9}};
    for (size_t d = 0; d < 4; d++)
        for (size_t m = 0; m < sizeof maps / sizeof maps[0]; m++)
            run_patterns(dtypes[d], maps[m][0], maps[m][1]);
}

/* ---- Size against the zero-order entropy -----------------------------------------------------*/

static uint16_t ordered(uint16_t u) { return (uint16_t)(u & 0x8000u ? ~(unsigned)u : u | 0x8000u); }

static double entropy_bits(const uint16_t *value, const uint16_t *base, size_t count) {
    uint32_t *seen = allocate(65536 * sizeof *seen);
    memset(seen, 0, 65536 * sizeof *seen);
    for (size_t i = 0; i < count; i++) seen[(uint16_t)(ordered(value[i]) - ordered(base[i]))]++;
    double bits = 0;
    for (size_t i = 0; i < 65536; i++)
        if (seen[i]) bits -= seen[i] * log2((double)seen[i] / (double)count);
    free(seen);
    return bits;
}

static void check_size(const uint16_t *value, const uint16_t *base, size_t count, double most) {
    const pith_view value_view = pith_view_flat((void *)(uintptr_t)value, PITH_BF16, count);
    const pith_view base_view = pith_view_flat((void *)(uintptr_t)base, PITH_BF16, count);
    struct frame f = compress("lossless", &value_view, &base_view, 0);
    const double entropy = entropy_bits(value, base, count);
    context("%zu bytes for %.0f bits of entropy", f.length, entropy);
    CHECK(8 * (double)f.length <= most * entropy);
    free(f.bytes);
}

static uint8_t *read_tensors(const char *name, size_t *bytes) {
    char path[4096];
    size_t length = 0;
    snprintf(path, sizeof path, "%s/data/%s", test_directory, name);
    uint8_t *file = read_file(path, &length);
    context("%s", path);
    CHECK(file && length > 8);
    const size_t header = 8 + (size_t)pithi_get64(file);
    *bytes = length - header;
    memmove(file, file + header, *bytes);
    return file;
}

/* All tensors of two successive checkpoints, as one. */
static void test_checkpoints(void **state) {
    (void)state;
    size_t bytes, base_bytes;
    uint8_t *value = read_tensors("ckpt_next_bf16.safetensors", &bytes);
    uint8_t *base = read_tensors("ckpt_prev_bf16.safetensors", &base_bytes);
    CHECK(bytes == base_bytes);
    check_size((const uint16_t *)(void *)value, (const uint16_t *)(void *)base, bytes / 2, 1.10);
    free(value);
    free(base);
}

/* Steps of other sizes: 1.2 to 8 bits of entropy. */
static void test_steps(void **state) {
    (void)state;
    size_t bytes, next_bytes;
    uint8_t *prev = read_tensors("wo_t0.safetensors", &bytes);
    uint8_t *next = read_tensors("wo_t1.safetensors", &next_bytes);
    CHECK(bytes == next_bytes);
    const size_t count = bytes / 4;
    uint16_t *value = allocate(count * 2), *base = allocate(count * 2);
    for (float times = 0.5f; times < 100.0f; times *= 2.0f) {
        for (size_t i = 0; i < count; i++) {
            const float a = float_of(load_float(prev, PITH_F32, i));
            const float b = float_of(load_float(next, PITH_F32, i));
            store_float(base, PITH_BF16, i, bits_of(a));
            store_float(value, PITH_BF16, i, bits_of(a + times * (b - a)));
        }
        check_size(value, base, count, 1.20);
    }
    free(prev);
    free(next);
    free(value);
    free(base);
}

/* `large` words of the value, then up to `more` of the smaller one, the rest 0. */
static unsigned choice(size_t width, uint64_t value, size_t large, uint64_t smaller, size_t more) {
    enum { COUNT = 800 };
    uint8_t words[COUNT * 8] = {0};
    for (size_t i = 0; i < large + more; i++) {
        const uint64_t word = i < large ? value : smaller;
        memcpy(words + i * width, &word, width); /* little-endian */
    }
    return pithi_symbol_choose(words, width, COUNT);
}

/* Which symbols are chosen is part of the bytes: where the share of escapes meets its limit. */
static void test_symbol_limits(void **state) {
    (void)state;
    for (size_t width = 1; width <= 8; width *= 2) {
        context("words of %zu bytes", width);
        CHECK(choice(width, 1, 0, 0, 0) == 1);
        CHECK(choice(width, 1, 100, 0, 0) == 1);
        CHECK(choice(width, 1, 101, 0, 0) == 2);
        CHECK(choice(width, 2, 800, 0, 0) == 2);
        CHECK(choice(width, 3, 200, 0, 0) == 2);
        CHECK(choice(width, 3, 201, 0, 0) == 4);
        CHECK(choice(width, 14, 800, 0, 0) == 4);
        CHECK(choice(width, 15, 100, 3, 101) == 4);
        CHECK(choice(width, 15, 101, 3, 101) == (width > 1 ? 8 : 0));
        CHECK(choice(width, 254, 800, 0, 0) == (width > 1 ? 8 : 0));
        CHECK(choice(width, 255, 200, 15, 600) == (width > 1 ? 8 : 0));
        CHECK(choice(width, 255, 201, 15, 599) == 0);
    }
}

/* Returns the head of the block of an update of zeros, `large` of whose words are 256. */
static uint8_t update_head(size_t large) {
    enum { COUNT = 800 };
    uint16_t value[COUNT] = {0}, base[COUNT] = {0};
    uint8_t bytes[sizeof value];
    for (size_t i = 0; i < large; i++) value[i] = 128;
    struct pithi_params p = params_of(PITH_U16, true, 1024);
    struct pithi_kernels kernels;
    pithi_kernels_bind(&kernels, 0);
    void *scratch = scratch_of(&p);
    struct pithi_entropy *const coder = coder_of(&p);
    struct pithi_block b = {.params = &p,
                            .kernels = &kernels,
                            .count = COUNT,
                            .value = value,
                            .base = base,
                            .bytes = bytes,
                            .scratch = scratch,
                            .coder = coder};
    CHECK_OK(p.codec->encode(&b));
    CHECK(!b.plain);
    free(scratch);
    free(coder);
    return bytes[0];
}

static void test_update_limit(void **state) {
    (void)state;
    context("escapes of an update");
    CHECK(update_head(0) == 0x18);
    CHECK(update_head(200) == 0x18);
    CHECK(update_head(201) == 0x10);
}

static size_t coded_bytes(const float *value, const float *base, size_t count) {
    const pith_view value_view = pith_view_flat((void *)(uintptr_t)value, PITH_F32, count);
    const pith_view base_view = pith_view_flat((void *)(uintptr_t)base, PITH_F32, count);
    struct frame f = compress("lossless", &value_view, base ? &base_view : NULL, 0);
    free(f.bytes);
    return f.length;
}

/* A base that says nothing costs nothing; near it an update is shorter, though by less than half.
 */
static void test_updates_or_values(void **state) {
    (void)state;
    enum { COUNT = 131072 };
    float *value = allocate(COUNT * sizeof *value), *base = allocate(COUNT * sizeof *base);
    uint32_t x = 1;
    for (size_t i = 0; i < COUNT; i++) {
        float sum[2] = {0};
        for (int k = 0; k < 8; k++) {
            x = x * 1664525u + 1013904223u;
            sum[k / 4] += (float)(x >> 8) * 0x1p-24f - 0.5f;
        }
        value[i] = sum[0];
        base[i] = sum[1];
    }
    const size_t alone = coded_bytes(value, NULL, COUNT);
    context("another tensor as base");
    CHECK(coded_bytes(value, base, COUNT) <= alone + 64);
    for (size_t i = 0; i < COUNT; i++) base[i] = value[i] + base[i] * 0x1p-10f;
    context("a base that is near");
    const size_t near = coded_bytes(value, base, COUNT);
    CHECK(near > COUNT * sizeof *value / 2 && near < alone - alone / 8);
    free(value);
    free(base);
}

/* Floats behind the exponent are joined where the caller wants them, at an odd address too. */
static void test_odd_addresses(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    static const uint32_t dtypes[] = {PITH_BF16, PITH_F16, PITH_F32, PITH_F64};
    uint64_t seed = 1;
    for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++) {
        const size_t bytes = COUNT * pith_dtype_bytes(dtypes[k]);
        uint8_t *const value = allocate(bytes), *const out = allocate(bytes + 8);
        for (size_t i = 0; i < COUNT; i++) {
            const double x = i % 500 ? gen_normal(&seed) : 0x1p-14 * gen_normal(&seed);
            if (dtypes[k] == PITH_F64)
                memcpy(value + i * sizeof x, &x, sizeof x);
            else
                store_float(value, dtypes[k], i, bits_of((float)x));
        }
        const pith_view from = pith_view_flat(value, dtypes[k], COUNT);
        struct frame f = compress("lossless", &from, NULL, 0);
        context("%s, %zu bytes", pith_dtype_name(dtypes[k]), f.length);
        CHECK(f.length < bytes - bytes / 32);
        for (size_t odd = 0; odd < 8; odd++) {
            const pith_view to = pith_view_flat(out + odd, dtypes[k], COUNT);
            memset(out, 0, bytes + 8);
            CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &to, NULL));
            CHECK(memcmp(out + odd, value, bytes) == 0);
        }
        free(f.bytes);
        free(value);
        free(out);
    }
}

/* entropy=rans keeps zstd out of frames that are made, not of frames that are read. */
static void test_only_rans(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static const char *const specs[] = {"lossless", "lossless:entropy=rans"};
    const pith_layout layout = flat_layout(PITH_U8, PITH_NONE, COUNT);
    uint8_t value[COUNT], out[COUNT];
    const pith_view from = pith_view_flat(value, PITH_U8, COUNT);
    const pith_view to = pith_view_flat(out, PITH_U8, COUNT);
    struct stream s[2];
    struct frame f[2];
    gen_fill(GEN_TEXT, 1, PITH_U8, value, COUNT);
    for (int i = 0; i < 2; i++) {
        stream_open(&s[i], specs[i], &layout, NULL);
        f[i] = stream_encode(&s[i], &from, 0, false);
    }
    CHECK(f[0].length < f[1].length && f[1].length < COUNT * 3 / 4);
    for (int i = 0; i < 4; i++) {
        struct stream *const reader = &s[i % 2];
        const struct frame *const frame = &f[i / 2];
        memset(out, 0, COUNT);
        CHECK_OK(decode_one(reader->work, reader->stream, 0, frame->bytes, frame->length, &to, 0));
        CHECK(memcmp(out, value, COUNT) == 0);
    }
    for (int i = 0; i < 2; i++) {
        free(f[i].bytes);
        stream_close(&s[i]);
    }
}

/* ---- Rows and columns ------------------------------------------------------------------------*/

static uint32_t key_of(const struct pithi_params *p, const char *name) {
    uint32_t k = 0;
    while (strcmp(p->codec->keys[k].name, name) != 0) k++;
    return k;
}

/* Eight elements from column 1 on of rows of three, with offsets of every kind. */
enum { OFFSETS_COUNT = 8 };
static const uint8_t offsets_block[] = {
    10,   8,    0x40, 0,        /* 8 lower bits, the base is 0x40 */
    0,    253,  254,  255,      /* offsets of rows */
    0,    0,    1,    255,      /* of columns */
    0,    0,    1,    254, 255, /* symbols */
    2,    3,    100,  200,      /* of the last four elements */
    0,    1,    2,    3,   4,   /* lower bits */
    5,    6,    7,    8,        /* of the last four elements */
    0xC7, 0x00,                 /* the top of symbol 255 */
};

static pith_status decode_offsets(const uint8_t *block, size_t length, uint32_t revision,
                                  uint32_t dim, size_t count, uint16_t *out) {
    struct pithi_params p = params_of(PITH_BF16, false, 128);
    p.value[key_of(&p, "dim")] = dim;
    p.value[key_of(&p, "revision")] = revision;
    uint8_t *const bytes = copy_of(block, length);
    struct pithi_kernels kernels;
    pithi_kernels_bind(&kernels, 0);
    void *const scratch = scratch_of(&p);
    struct pithi_entropy *const coder = coder_of(&p);
    struct pithi_block b = {.params = &p,
                            .kernels = &kernels,
                            .first = 4,
                            .count = count,
                            .out = out,
                            .out_dtype = PITH_BF16,
                            .bytes = bytes,
                            .length = length,
                            .scratch = scratch,
                            .coder = coder};
    const pith_status status = p.codec->decode(&b);
    free(bytes);
    free(scratch);
    free(coder);
    return status;
}

static void test_offsets(void **state) {
    (void)state;
    /* Symbols 0, 1, 254, 255, 3, 4, 102 and 202, by hand. */
    static const uint8_t tops[OFFSETS_COUNT] = {0, 0x41, 0x3E, 0xC7, 0x43, 0x44, 0xA6, 0x0A};
    uint16_t out[OFFSETS_COUNT];
    const size_t length = sizeof offsets_block;
    context("offsets by hand");
    CHECK_OK(decode_offsets(offsets_block, length, 3, 3, OFFSETS_COUNT, out));
    for (unsigned i = 0; i < OFFSETS_COUNT; i++) {
        const unsigned word = (unsigned)tops[i] << 8 | (i + 1);
        CHECK(out[i] == (uint16_t)(word >> 1 | word << 15));
    }
    CHECK_STATUS(PITH_ERR_CORRUPT, decode_offsets(offsets_block, length, 2, 0, OFFSETS_COUNT, out));
    CHECK_STATUS(PITH_ERR_CORRUPT, decode_offsets(offsets_block, length, 3, 9, OFFSETS_COUNT, out));
    CHECK_STATUS(PITH_ERR_CORRUPT,
                 decode_offsets(offsets_block, length, 3, 1u << 24, OFFSETS_COUNT, out));
    for (size_t cut = 0; cut < length; cut++)
        CHECK_STATUS(PITH_ERR_CORRUPT,
                     decode_offsets(offsets_block, cut, 3, 3, OFFSETS_COUNT, out));
    uint8_t update[sizeof offsets_block];
    memcpy(update, offsets_block, sizeof update);
    update[0] = 0x1A;
    CHECK_STATUS(PITH_ERR_CORRUPT, decode_offsets(update, length, 3, 3, OFFSETS_COUNT, out));
}

enum matrix { SCALED, ALIKE, CONSTANT, ZEROS, MISSING, NOTHING_FINITE, MATRICES };
static const char *const matrix_names[MATRICES] = {"scaled", "alike",        "constant",
                                                   "zeros",  "missing rows", "not finite"};

/* Values of rows and columns that differ by many octaves, of one scale, all the same, all 0, some
 * rows 0 and some values not finite, or none finite. */
static void fill_matrix(enum matrix kind, uint32_t dtype, void *to, size_t rows, size_t width) {
    uint64_t seed = 5;
    for (size_t r = 0; r < rows; r++) {
        const double scale = ldexp(1, (int)(r * 7 % 11) - 5);
        for (size_t c = 0; c < width; c++) {
            const size_t i = r * width + c;
            double x = 0.01 * gen_normal(&seed);
            if (kind == SCALED || kind == MISSING) x *= scale * ldexp(1, (int)(c * 5 % 9) - 4);
            if (kind == CONSTANT) x = 1.5;
            if (kind == ZEROS || (kind == MISSING && r % 3 == 0)) x = 0;
            if (kind == NOTHING_FINITE || (kind == MISSING && i % 97 == 0))
                x = i % 2 ? NAN : -INFINITY;
            if (dtype == PITH_F64)
                memcpy((uint8_t *)to + i * sizeof x, &x, sizeof x);
            else
                store_float(to, dtype, i, bits_of((float)x));
        }
    }
}

/* Encodes and decodes; returns the bytes of the frame, whose revision is checked. */
static size_t round_trip(const char *spec, const pith_view *view, uint32_t revision) {
    const size_t bytes = (size_t)pith_view_count(view) * pith_dtype_bytes(view->dtype);
    uint8_t *const back = allocate(bytes);
    struct frame f = compress(spec, view, NULL, 0);
    pith_info info = {.size = sizeof info};
    const pith_view to = pith_view_flat(back, view->dtype, pith_view_count(view));
    CHECK_OK(pith_inspect(f.bytes, f.length, &info, NULL));
    CHECK(info.revision == revision);
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &to, NULL));
    CHECK(memcmp(back, view->data, bytes) == 0);
    const size_t length = f.length;
    free(back);
    free(f.bytes);
    return length;
}

static void one_matrix(enum matrix kind, uint32_t dtype, uint64_t rows, uint64_t width) {
    const size_t count = (size_t)(rows * width);
    void *const values = allocate(count * pith_dtype_bytes(dtype));
    const uint64_t shape[2] = {rows, width};
    const pith_view view = pith_view_dense(values, dtype, 2, shape);
    const bool has_rows = rows >= 4 && width >= 8 && count >= 1024 && width <= 131072 / 4;
    fill_matrix(kind, dtype, values, (size_t)rows, (size_t)width);
    context("%s %s, %u x %u", matrix_names[kind], pith_dtype_name(dtype), (unsigned)rows,
            (unsigned)width);
    const size_t former = round_trip("lossless:revision=2", &view, 2);
    const size_t now = round_trip("lossless", &view, has_rows ? 3 : 2);
    /* What does not pay takes no byte. */
    CHECK(now <= former + former / 256);
    if (kind == SCALED && count >= 100000) CHECK(now < former - former / 64);
    free(values);
}

static void test_matrices(void **state) {
    (void)state;
    static const uint32_t dtypes[] = {PITH_BF16, PITH_F16, PITH_F32, PITH_F64};
    static const uint64_t shapes[][2] = {{0, 64},   {1, 5000},  {5000, 1},  {4, 256}, {129, 8},
                                         {300, 17}, {683, 192}, {90, 4000}, {64, 64}, {3, 2000}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++)
            for (int kind = 0; kind < MATRICES; kind++)
                if (shapes[s][0] * shapes[s][1] < 100000 || (dtypes[t] < PITH_F16 && kind < 2))
                    one_matrix((enum matrix)kind, dtypes[t], shapes[s][0], shapes[s][1]);
}

/* Rows of a block are more than 16 bits count, and blocks begin in the middle of a row. */
static void test_many_rows(void **state) {
    (void)state;
    enum { ROWS = 70000, WIDTH = 9 };
    uint16_t *const values = allocate(2 * ROWS * WIDTH);
    const uint64_t shape[2] = {ROWS, WIDTH};
    const pith_view view = pith_view_dense(values, PITH_BF16, 2, shape),
                    flat = pith_view_flat(values, PITH_BF16, (uint64_t)ROWS * WIDTH);
    fill_matrix(SCALED, PITH_BF16, values, ROWS, WIDTH);
    context("many rows");
    const size_t former = round_trip("lossless:revision=2", &view, 2);
    CHECK(round_trip("lossless:block=1048576", &view, 3) < former - former / 64);
    CHECK(round_trip("lossless:block=4096", &view, 3) < former - former / 64);
    /* One that was flattened has rows where the spec says so. */
    CHECK(round_trip("lossless", &flat, 2) == former);
    CHECK(round_trip("lossless:dim=9", &flat, 3) < former - former / 64);
    CHECK(round_trip("lossless:dim=1", &flat, 3) == former);
    CHECK(round_trip("lossless:dim=16777216", &flat, 3) == former);
    struct frame f = compress("lossless:block=4096", &view, NULL, 0);
    uint16_t *const part = allocate(2 * 10000);
    const pith_view to = pith_view_flat(part, PITH_BF16, 10000);
    CHECK_OK(pith_decode_range(f.bytes, f.length, NULL, 4001, NULL, &to, NULL));
    CHECK(memcmp(part, values + 4001, 2 * 10000) == 0);
    free(f.bytes);
    free(part);
    free(values);
}

/* Rows that the spec asks for, and frames cannot have. */
static void test_no_rows(void **state) {
    (void)state;
    pith_layout layout = {.size = sizeof layout,
                          .dtype = PITH_F32,
                          .base_dtype = PITH_F32,
                          .ndim = 2,
                          .shape = {64, 64}};
    const pith_plan *plan;
    char spec[PITH_SPEC_MAX];
    context("no rows");
    CHECK_STATUS(PITH_ERR_DTYPE, pith_plan_create(&plan, "lossless:dim=64", &layout, NULL, NULL));
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("lossless:dim=64,revision=2", NULL, 0, NULL));
    CHECK_OK(pith_plan_create(&plan, "lossless", &layout, NULL, NULL));
    CHECK_OK(pith_plan_spec(plan, spec, sizeof spec));
    CHECK(strcmp(spec, "lossless") == 0);
    pith_plan_destroy(plan);
    layout.base_dtype = PITH_NONE;
    CHECK_OK(pith_plan_create(&plan, "lossless", &layout, NULL, NULL));
    CHECK_OK(pith_plan_spec(plan, spec, sizeof spec));
    CHECK(strcmp(spec, "lossless:dim=64") == 0);
    pith_plan_destroy(plan);
}

/* Rows that are alike, numbers in order, rows of one value each, and looked up in a small table:
 * zstd finds these in bytes, whatever cuts and offsets look like. */
enum repeats { SAME_ROWS, RISING, FLAT_ROWS, LOOKED_UP, REPEATS };

static void fill_repeats(enum repeats kind, uint32_t dtype, void *to, size_t rows, size_t width) {
    enum { TABLE = 20 };
    float *const table = allocate(TABLE * width * sizeof *table);
    uint64_t seed = 6;
    for (size_t i = 0; i < TABLE * width; i++)
        table[i] = (float)ldexp(gen_normal(&seed), (int)(gen_next(&seed) >> 60) - 8);
    for (size_t r = 0; r < rows; r++) {
        const size_t at = (size_t)(gen_next(&seed) >> 32) % TABLE * width;
        const float one = (float)gen_normal(&seed);
        for (size_t c = 0; c < width; c++) {
            const size_t i = r * width + c;
            const float x = kind == SAME_ROWS   ? table[c]
                            : kind == RISING    ? (float)i
                            : kind == FLAT_ROWS ? one
                                                : table[at + c];
            store_float(to, dtype, i, bits_of(x));
        }
    }
    free(table);
}

static void test_repeats(void **state) {
    (void)state;
    enum { ROWS = 512, WIDTH = 128 };
    static const uint32_t dtypes[] = {PITH_BF16, PITH_F32};
    const uint64_t shape[2] = {ROWS, WIDTH};
    for (int kind = 0; kind < REPEATS; kind++)
        for (size_t t = 0; t < 2; t++) {
            void *const values = allocate((size_t)ROWS * WIDTH * pith_dtype_bytes(dtypes[t]));
            const pith_view view = pith_view_dense(values, dtypes[t], 2, shape);
            fill_repeats((enum repeats)kind, dtypes[t], values, ROWS, WIDTH);
            context("repeats %d, %s", kind, pith_dtype_name(dtypes[t]));
            const size_t former = round_trip("lossless:revision=1", &view, 1);
            CHECK(round_trip("lossless:revision=2", &view, 2) <= former + former / 64);
            CHECK(round_trip("lossless", &view, 3) <= former + former / 64);
            free(values);
        }
}

/* A frame decodes in a plan of another shape, and rows of slots begin with the slot. */
static void test_slots_of_rows(void **state) {
    (void)state;
    enum { ROWS = 200, WIDTH = 64, COUNT = ROWS * WIDTH, SLOTS = 3 };
    uint32_t *const values = allocate(4 * COUNT), *const back = allocate(4 * COUNT);
    pith_layout layout = {.size = sizeof layout,
                          .dtype = PITH_F32,
                          .ndim = 2,
                          .shape = {ROWS, WIDTH},
                          .slots = SLOTS};
    struct stream s, other;
    context("rows in slots");
    fill_matrix(SCALED, PITH_F32, values, ROWS, WIDTH);
    stream_open(&s, "lossless", &layout, NULL);
    layout.ndim = 1;
    layout.shape[0] = COUNT;
    layout.shape[1] = 0;
    stream_open(&other, "lossless", &layout, NULL);
    for (uint64_t slot = 0; slot < SLOTS; slot++) {
        uint64_t first, count;
        CHECK_OK(pith_plan_slot(s.plan, slot, &first, &count));
        const pith_view from = pith_view_flat(values + first, PITH_F32, count),
                        to = pith_view_flat(back + first, PITH_F32, count);
        struct frame f = stream_encode(&s, &from, slot, false), g;
        pith_info info = {.size = sizeof info};
        CHECK_OK(pith_inspect(f.bytes, f.length, &info, NULL));
        CHECK(info.revision == 3);
        g = stream_encode(&other, &from, slot, false);
        CHECK(f.length < g.length);
        CHECK_OK(decode_one(other.work, other.stream, slot, f.bytes, f.length, &to, 0));
        free(f.bytes);
        free(g.bytes);
    }
    CHECK(memcmp(values, back, 4 * COUNT) == 0);
    stream_close(&s);
    stream_close(&other);
    free(values);
    free(back);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    test_directory = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),        cmocka_unit_test(test_example),
        cmocka_unit_test(test_patterns),      cmocka_unit_test(test_steps),
        cmocka_unit_test(test_checkpoints),   cmocka_unit_test(test_symbol_limits),
        cmocka_unit_test(test_update_limit),  cmocka_unit_test(test_updates_or_values),
        cmocka_unit_test(test_odd_addresses), cmocka_unit_test(test_only_rans),
        cmocka_unit_test(test_offsets),       cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_many_rows),     cmocka_unit_test(test_slots_of_rows),
        cmocka_unit_test(test_no_rows),       cmocka_unit_test(test_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
