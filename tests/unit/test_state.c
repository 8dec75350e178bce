/* test_state.c - life of a stream: memory, bases in and out, save and load, memory that changes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"
#include "gen.h"
#include "util.h"

static const uint32_t reals[3] = {PITH_F32, PITH_BF16, PITH_F16};

/* A stream with some past. */
static void open_used(struct stream *s, uint32_t base_dtype, uint64_t count, uint64_t slots) {
    pith_layout layout = flat_layout(PITH_F32, base_dtype, count);
    layout.slots = slots;
    const pith_stream_options options = {.size = sizeof options, .seed = 77, .rng_stream = 5};
    stream_open_with(s, "wdiff:group=16,block=64", &layout, NULL, &options);
    float *value = allocate(count * 4);
    const pith_view v = pith_view_flat(value, PITH_F32, count);
    gen_fill(GEN_NOISE, count, PITH_F32, value, count);
    for (int step = 0; step < 2; step++)
        for (uint64_t i = 0; i < slots; i++) {
            struct frame f = stream_encode(s, &v, i, false);
            free(f.bytes);
        }
    free(value);
}

static struct frame save(struct stream *s) {
    struct frame f = {allocate((size_t)s->sizes.save_bytes), 0};
    CHECK_OK(pith_stream_save(s->work, s->stream, f.bytes, (size_t)s->sizes.save_bytes, &f.length));
    CHECK(f.length == s->sizes.save_bytes);
    return f;
}

/* ---- Save and load ---------------------------------------------------------------------------*/

static void test_save_and_load(void **state) {
    (void)state;
    for (int k = 0; k < 12; k++) {
        const uint64_t count = k / 3 == 0 ? 0 : (uint64_t)k * 37, slots = 1 + (uint64_t)k / 3;
        struct stream a, b;
        context("save and load, base %s x %u in %u slots", pith_dtype_name(reals[k % 3]),
                (unsigned)count, (unsigned)slots);
        open_used(&a, reals[k % 3], count, slots);
        pith_layout layout = flat_layout(PITH_F32, reals[k % 3], count);
        layout.slots = slots;
        stream_open(&b, "wdiff:group=16,block=64", &layout, NULL);
        struct frame saved = save(&a);
        CHECK_OK(pith_stream_load(b.work, b.stream, saved.bytes, saved.length));
        struct frame again = save(&b);
        CHECK(memcmp(saved.bytes, again.bytes, saved.length) == 0);
        for (uint64_t i = 0; i < slots; i++) {
            CHECK(pith_stream_step(b.stream, i) == 2);
            CHECK(pith_stream_base_hash(b.stream, i) == pith_stream_base_hash(a.stream, i));
        }
        pith_stats stats = {.size = sizeof stats};
        CHECK_OK(pith_stream_stats(b.stream, &stats));
        CHECK(stats.frames == 2 * slots);
        CHECK_OK(pith_stream_verify(b.work, b.stream));
        free(saved.bytes);
        free(again.bytes);
        stream_close(&a);
        stream_close(&b);
    }
}

/* What was saved goes on as its stream does, whatever the codec: the same frame is next. */
static void test_save_of_every_codec(void **state) {
    (void)state;
    enum { N = 300 };
    const struct test_case *c;
    size_t cases = 0;
    for (; (c = case_at(cases)) != NULL; cases++) {
        uint8_t value[8 * N];
        const pith_layout layout = flat_layout(c->dtype, c->base_dtype, N);
        const pith_view v = pith_view_flat(value, c->dtype, N);
        const pith_stream_options options = {
            .size = sizeof options, .seed = 3, .rng_stream = 4, .step = 11};
        struct stream s, other;
        context("save %s dtype %s base %s", c->spec, pith_dtype_name(c->dtype),
                pith_dtype_name(c->base_dtype));
        stream_open_with(&s, c->spec, &layout, NULL, &options);
        stream_open_end(&other, &s, NULL);
        gen_fill(GEN_NOISE, 1, c->dtype, value, N);
        struct frame first = stream_encode(&s, &v, 0, false), saved = save(&s);
        CHECK_OK(pith_stream_load(other.work, other.stream, saved.bytes, saved.length));
        CHECK(pith_stream_step(other.stream, 0) == 12);
        struct frame again = save(&other);
        CHECK(again.length == saved.length && memcmp(again.bytes, saved.bytes, again.length) == 0);
        gen_fill(GEN_NOISE, 2, c->dtype, value, N);
        struct frame a = stream_encode(&s, &v, 0, false), b = stream_encode(&other, &v, 0, false);
        CHECK(a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0);
        free(first.bytes);
        free(saved.bytes);
        free(again.bytes);
        free(a.bytes);
        free(b.bytes);
        stream_close(&other);
        stream_close(&s);
    }
    CHECK(cases > 200 / case_step());
}

/* A load that fails leaves the stream as it was, to the byte. */
static void load_fails(struct stream *s, const void *witness, const uint8_t *bytes, size_t length) {
    uint8_t *exact = copy_of(bytes, length);
    const pith_status status = pith_stream_load(s->work, s->stream, exact, length);
    CHECK(status != PITH_OK);
    CHECK(memcmp(witness, s->memory, (size_t)s->sizes.stream_bytes) == 0);
    free(exact);
}

static void test_damaged_save(void **state) {
    (void)state;
    struct stream s;
    open_used(&s, PITH_BF16, 40, 2);
    struct frame saved = save(&s);
    void *witness = copy_of(s.memory, (size_t)s.sizes.stream_bytes);
    for (size_t n = 0; n < saved.length; n++) {
        context("save cut to %zu bytes", n);
        load_fails(&s, witness, saved.bytes, n);
    }
    for (size_t bit = 0; bit < 8 * saved.length; bit++) {
        context("save with bit %zu flipped", bit);
        saved.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        load_fails(&s, witness, saved.bytes, saved.length);
        saved.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    uint8_t *longer = allocate(saved.length + 1);
    memcpy(longer, saved.bytes, saved.length);
    longer[saved.length] = 0;
    context("save with a byte more");
    load_fails(&s, witness, longer, saved.length + 1);
    CHECK_OK(pith_stream_load(s.work, s.stream, saved.bytes, saved.length));
    free(longer);
    free(witness);
    free(saved.bytes);
    stream_close(&s);
}

static void test_statuses_of_load(void **state) {
    (void)state;
    struct stream s, other;
    size_t written = 5;
    context("statuses of load");
    open_used(&s, PITH_F32, 40, 1);
    open_used(&other, PITH_F32, 41, 1);
    struct frame saved = save(&s), foreign = save(&other);
    CHECK_STATUS(PITH_ERR_MISMATCH,
                 pith_stream_load(s.work, s.stream, foreign.bytes, foreign.length));
    CHECK_STATUS(PITH_ERR_MISMATCH,
                 pith_stream_load(other.work, other.stream, saved.bytes, saved.length));
    CHECK_STATUS(PITH_ERR_TRUNCATED,
                 pith_stream_load(s.work, s.stream, saved.bytes, saved.length - 1));
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_stream_save(s.work, s.stream, saved.bytes, saved.length - 1, &written));
    CHECK(written == 0);
    saved.bytes[saved.length - 12] ^= 1;
    CHECK_STATUS(PITH_ERR_CHECKSUM, pith_stream_load(s.work, s.stream, saved.bytes, saved.length));
    saved.bytes[0] ^= 1;
    CHECK_STATUS(PITH_ERR_MAGIC, pith_stream_load(s.work, s.stream, saved.bytes, saved.length));
    free(saved.bytes);
    free(foreign.bytes);
    stream_close(&s);
    stream_close(&other);
}

/* ---- Memory of the caller --------------------------------------------------------------------*/

static void test_any_alignment(void **state) {
    (void)state;
    struct stream s;
    const pith_layout layout = flat_layout(PITH_F32, PITH_BF16, 100);
    stream_open(&s, "wdiff", &layout, NULL);
    const size_t bytes = (size_t)s.sizes.stream_bytes;
    uint8_t *memory = allocate(bytes + 64), frame[512];
    float value[100];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, 100);
    const pith_view v = pith_view_flat(value, PITH_F32, 100);
    for (size_t k = 0; k < 64; k++) {
        pith_stream *other;
        size_t length;
        context("stream at alignment %zu", k);
        memset(memory, 0x5A, bytes + 64);
        CHECK_OK(pith_stream_init(s.plan, memory + k, bytes, NULL, &other, NULL));
        CHECK_OK(encode_one(s.work, other, &v, 0, 0, frame, sizeof frame, &length));
        CHECK_OK(pith_stream_verify(s.work, other));
        CHECK(all_bytes(memory, k, 0x5A) && all_bytes(memory + k + bytes, 64 - k, 0x5A));
    }
    pith_stream *none = s.stream;
    pith_error error = {.size = sizeof error};
    char wanted[32];
    context("too little memory");
    CHECK_STATUS(PITH_ERR_SPACE, pith_stream_init(s.plan, memory, bytes - 1, NULL, &none, &error));
    CHECK(none == NULL);
    snprintf(wanted, sizeof wanted, "%zu", bytes - 1);
    CHECK(strstr(error.text, wanted));
    snprintf(wanted, sizeof wanted, "%zu", bytes);
    CHECK(strstr(error.text, wanted));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_init(s.plan, NULL, bytes, NULL, &none, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_init(NULL, memory, bytes, NULL, &none, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_init(s.plan, memory, bytes, NULL, NULL, NULL));
    free(memory);
    stream_close(&s);
}

static void test_external_base(void **state) {
    (void)state;
    enum { N = 130 };
    float value[N], out[N];
    uint16_t live[N], zeros[N] = {0};
    struct stream own, external;
    context("external base");
    gen_fill(GEN_NOISE, 3, PITH_F32, value, N);
    gen_fill(GEN_NOISE, 4, PITH_BF16, live, N);
    pith_layout layout = flat_layout(PITH_F32, PITH_BF16, N);
    layout.slots = 3;
    stream_open(&own, "wdiff:group=16", &layout, NULL);
    layout.flags = PITH_LAYOUT_EXTERNAL_BASE;
    stream_open(&external, "wdiff:group=16", &layout, NULL);
    CHECK(external.sizes.stream_bytes < own.sizes.stream_bytes);
    const pith_view v = pith_view_flat(value, PITH_F32, N), o = pith_view_flat(out, PITH_F32, N);
    const pith_view b = pith_view_flat(live, PITH_BF16, N);
    uint8_t buffer[512];
    size_t written;
    CHECK_STATUS(PITH_ERR_STATE, encode_one(external.work, external.stream, &v, 0, 0, buffer,
                                            sizeof buffer, &written));
    CHECK_STATUS(PITH_ERR_STATE, pith_stream_bind_base(own.work, own.stream, live, 0));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_bind_base(external.work, external.stream, NULL, 0));
    CHECK_OK(pith_stream_set_base(own.work, own.stream, &b, 9));
    CHECK_OK(pith_stream_bind_base(external.work, external.stream, live, 9));
    for (uint64_t i = 0; i < 3; i++) {
        struct frame f = stream_encode(&own, &v, i, false);
        CHECK_OK(decode_one(external.work, external.stream, i, f.bytes, f.length, NULL, 0));
        CHECK(pith_stream_base_hash(own.stream, i) == pith_stream_base_hash(external.stream, i));
        CHECK(pith_stream_step(external.stream, i) == 10);
        free(f.bytes);
    }
    CHECK_OK(pith_stream_get_base(own.work, own.stream, 0, &o));
    for (size_t i = 0; i < N; i++) CHECK(load_float(live, PITH_BF16, i) == bits_of(out[i]));
    CHECK_OK(pith_stream_reset(external.work, external.stream));
    CHECK(memcmp(live, zeros, sizeof live) == 0 && pith_stream_step(external.stream, 2) == 0);
    stream_close(&own);
    stream_close(&external);
}

static void test_verify(void **state) {
    (void)state;
    enum { N = 65 };
    uint8_t live[N * 4];
    struct stream s;
    gen_fill(GEN_NOISE, 4, PITH_F32, live, N);
    pith_layout layout = flat_layout(PITH_F32, PITH_F32, N);
    layout.flags = PITH_LAYOUT_EXTERNAL_BASE;
    stream_open(&s, "wdiff", &layout, NULL);
    CHECK_OK(pith_stream_bind_base(s.work, s.stream, live, 0));
    for (size_t bit = 0; bit < sizeof live * 8; bit++) {
        context("bit %zu of the base changes", bit);
        live[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK_STATUS(PITH_ERR_BASE, pith_stream_verify(s.work, s.stream));
        live[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    CHECK_OK(pith_stream_verify(s.work, s.stream));
    stream_close(&s);
}

/* ---- Base in and out -------------------------------------------------------------------------*/

/* Equal dtypes are copied, NaN payloads included; others are rounded to nearest even. */
static void convert(void *to, uint32_t to_dtype, const void *from, uint32_t from_dtype, size_t n) {
    if (to_dtype == from_dtype) {
        memcpy(to, from, n * pith_dtype_bytes(to_dtype));
        return;
    }
    for (size_t i = 0; i < n; i++) store_float(to, to_dtype, i, load_float(from, from_dtype, i));
}

static void test_base_conversions(void **state) {
    (void)state;
    enum { N = 3000 };
    for (int k = 0; k < 27; k++) {
        const uint32_t in = reals[k / 9], kept = reals[k / 3 % 3], out = reals[k % 3];
        uint8_t from[4 * N], middle[4 * N], wanted[4 * N], got[4 * N];
        struct stream s;
        context("base %s to %s to %s", pith_dtype_name(in), pith_dtype_name(kept),
                pith_dtype_name(out));
        gen_fill(GEN_NOISE, 1, in, from, N);
        gen_fill(GEN_BITS, 2, in, from, N / 2);
        convert(middle, kept, from, in, N);
        convert(wanted, out, middle, kept, N);
        const pith_layout layout = flat_layout(PITH_F32, kept, N);
        const pith_view f = pith_view_flat(from, in, N), g = pith_view_flat(got, out, N);
        stream_open(&s, "wdiff", &layout, NULL);
        CHECK_OK(pith_stream_set_base(s.work, s.stream, &f, 3));
        CHECK_OK(pith_stream_get_base(s.work, s.stream, 0, &g));
        CHECK(memcmp(got, wanted, N * pith_dtype_bytes(out)) == 0);
        stream_close(&s);
    }
}

static void test_reset(void **state) {
    (void)state;
    struct stream s;
    float out[40] = {0}, zeros[40] = {0};
    pith_stats stats = {.size = sizeof stats};
    const pith_view o = pith_view_flat(out, PITH_F32, 40);
    context("reset");
    open_used(&s, PITH_F32, 40, 2);
    CHECK_OK(pith_stream_reset(s.work, s.stream));
    CHECK_OK(pith_stream_get_base(s.work, s.stream, 1, &o));
    CHECK(memcmp(out, zeros, sizeof out) == 0);
    CHECK(pith_stream_step(s.stream, 0) == 0 && pith_stream_step(s.stream, 1) == 0);
    CHECK_OK(pith_stream_stats(s.stream, &stats));
    CHECK(stats.frames == 0 && stats.key_frames == 0);
    CHECK_OK(pith_stream_verify(s.work, s.stream));
    CHECK(pith_stream_step(s.stream, 2) == 0 && pith_stream_base_hash(s.stream, 99) == 0);
    stream_close(&s);
}

/* Keys are in the dtype of the base. */
static void test_saturated_of_keys(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    static const char *const specs[] = {"wdiff", "kv"};
    const pith_layout layout = flat_layout(PITH_F32, PITH_F16, COUNT);
    float x[COUNT];
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    for (size_t k = 0; k < 2; k++) {
        struct stream s;
        context("%s", specs[k]);
        pith_stats stats = {.size = sizeof stats};
        for (size_t i = 0; i < COUNT; i++) x[i] = i % 100 ? (float)i : 1e5f;
        stream_open(&s, specs[k], &layout, NULL);
        for (uint64_t calls = 1; calls <= 2; calls++) {
            struct frame f = stream_encode(&s, &v, 0, true);
            CHECK_OK(pith_stream_stats(s.stream, &stats));
            CHECK(stats.key_frames == calls && stats.saturated == calls * (COUNT / 100));
            free(f.bytes);
        }
        stream_close(&s);
    }
}

static void test_refusals(void **state) {
    (void)state;
    float value[40] = {0};
    uint8_t memory[1024];
    struct stream plain, s;
    context("refusals");
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 40);
    stream_open(&plain, "wdiff", &layout, NULL);
    CHECK(plain.sizes.stream_bytes > 0 && pith_stream_plan(plain.stream) == plain.plan);
    open_used(&s, PITH_F32, 40, 2);
    const pith_view short_view = pith_view_flat(value, PITH_F32, 39);
    const pith_view half = pith_view_flat(value, PITH_F32, 20),
                    v = pith_view_flat(value, PITH_F32, 40);
    const pith_view wrong = pith_view_flat(value, PITH_I32, 40);
    CHECK_STATUS(PITH_ERR_SHAPE, pith_stream_set_base(s.work, s.stream, &short_view, 0));
    CHECK_STATUS(PITH_ERR_SHAPE, pith_stream_set_base(s.work, s.stream, &half, 0));
    CHECK_STATUS(PITH_ERR_DTYPE, pith_stream_set_base(s.work, s.stream, &wrong, 0));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_base(s.work, NULL, &v, 0));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_base(NULL, s.stream, &v, 0));
    CHECK_STATUS(PITH_ERR_STATE, pith_stream_set_base(plain.work, plain.stream, &v, 0));
    CHECK_STATUS(PITH_ERR_STATE, pith_stream_get_base(plain.work, plain.stream, 0, &v));
    CHECK_STATUS(PITH_ERR_STATE, pith_stream_bind_base(plain.work, plain.stream, value, 0));
    CHECK_STATUS(PITH_ERR_STATE, pith_stream_verify(plain.work, plain.stream));
    CHECK(pith_stream_base_hash(plain.stream, 0) == 0);
    CHECK_STATUS(PITH_ERR_SHAPE, pith_stream_get_base(s.work, s.stream, 0, &short_view));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_get_base(s.work, s.stream, 2, &v));
    CHECK_OK(pith_stream_get_base(s.work, s.stream, 1, &half));
    CHECK(pith_stream_step(s.stream, 0) == 2);
    size_t written;
    CHECK_STATUS(PITH_ERR_ARG, encode_one(s.work, NULL, &v, 0, 0, memory, sizeof memory, &written));
    CHECK_STATUS(PITH_ERR_ARG,
                 encode_one(NULL, s.stream, &v, 0, 0, memory, sizeof memory, &written));
    pith_item item = {.size = sizeof item,
                      .stream = s.stream,
                      .view = v,
                      .frame = memory,
                      .capacity = sizeof memory,
                      .length = sizeof memory};
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_encode(s.work, &item, 1, PITH_ADD));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_encode(s.work, &item, 1, 0x80));
    CHECK(strcmp(pith_work_error(s.work)->text, "unknown flags of a call: 128") == 0);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_decode(s.work, &item, 1, PITH_KEY_FRAME));
    CHECK(pith_stream_step(s.stream, 0) == 2);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, encode_one(plain.work, plain.stream, &v, 0, PITH_KEY_FRAME,
                                                  memory, sizeof memory, &written));
    stream_close(&plain);
    stream_close(&s);
}

/* ---- A base that others change ---------------------------------------------------------------*/

enum { OWNED = 40000, SPECS = 4 };
static const struct {
    const char *spec;
    size_t block; /* bytes of the base */
} changed[SPECS] = {{"wdiff:group=64,block=4096", 16384},
                    {"wdiff:entropy=zstd,bits=3,group=64,block=4096", 16384},
                    {"lossless:block=4096", 16384},
                    {"kv:page=64", 64 * 100 * 4}};

/* A sender with an external base, and a twin of which nobody changes the base. */
struct owned {
    struct stream s, twin;
    float value[OWNED], base[OWNED], own[OWNED];
    uint8_t frame[300000], wanted[300000];
    size_t length, wanted_length;
    pith_view view;
};

static void owned_open(struct owned *o, const char *spec, uint32_t flags, uint32_t threads) {
    const uint64_t shape[] = {OWNED / 100, 1, 100};
    const pith_env env = {.size = sizeof env, .threads = threads, .run = run_backwards};
    pith_layout layout = {.size = sizeof layout, .dtype = PITH_F32, .base_dtype = PITH_F32};
    layout.ndim = 3;
    memcpy(layout.shape, shape, sizeof shape);
    layout.flags = PITH_LAYOUT_EXTERNAL_BASE | flags;
    stream_open(&o->s, spec, &layout, &env);
    stream_open(&o->twin, spec, &layout, NULL);
    gen_fill(GEN_NOISE, 1, PITH_F32, o->base, OWNED);
    memcpy(o->own, o->base, sizeof o->own);
    gen_fill(GEN_NOISE, 2, PITH_F32, o->value, OWNED);
    o->view = pith_view_dense(o->value, PITH_F32, 3, shape);
    CHECK_OK(pith_stream_bind_base(o->s.work, o->s.stream, o->base, 5));
    CHECK_OK(pith_stream_bind_base(o->twin.work, o->twin.stream, o->own, 5));
}

static void owned_close(struct owned *o) {
    stream_close(&o->s);
    stream_close(&o->twin);
    free(o);
}

static pith_status owned_encode(struct owned *o) {
    return encode_one(o->s.work, o->s.stream, &o->view, 0, 0, o->frame, sizeof o->frame,
                      &o->length);
}

/* The next frames of both are the same. */
static void owned_agree(struct owned *o) {
    CHECK_OK(owned_encode(o));
    CHECK_OK(encode_one(o->twin.work, o->twin.stream, &o->view, 0, 0, o->wanted, sizeof o->wanted,
                        &o->wanted_length));
    CHECK(o->length == o->wanted_length && memcmp(o->frame, o->wanted, o->length) == 0);
    CHECK(memcmp(o->base, o->own, sizeof o->base) == 0);
}

/* A base that was loaded anew: nothing is written, and putting it back is enough. */
static void test_base_replaced(void **state) {
    (void)state;
    for (size_t i = 0; i < SPECS * 3; i++) {
        struct owned *const o = allocate(sizeof *o);
        const uint32_t flags[] = {0, PITH_LAYOUT_CHECK_BASE, 0};
        float *const kept = allocate(sizeof o->base);
        context("%s, base replaced, variant %zu", changed[i / 3].spec, i % 3);
        owned_open(o, changed[i / 3].spec, flags[i % 3], i % 3 == 2 ? 3 : 1);
        owned_agree(o);
        memcpy(kept, o->base, sizeof o->base);
        gen_fill(GEN_NOISE, 9, PITH_F32, o->base, OWNED);
        float *const other = copy_of(o->base, sizeof o->base);
        CHECK_STATUS(PITH_ERR_BASE, owned_encode(o));
        CHECK(o->length == 0 && pith_work_error(o->s.work)->offset == 0);
        CHECK(memcmp(o->base, other, sizeof o->base) == 0);
        CHECK_STATUS(PITH_ERR_BASE, pith_stream_verify(o->s.work, o->s.stream));
        memcpy(o->base, kept, sizeof o->base);
        owned_agree(o);
        free(kept);
        free(other);
        owned_close(o);
    }
}

/* One block: those before it are written, it and those behind it are not; a key frame heals. */
static void test_block_changed(void **state) {
    (void)state;
    for (size_t i = 0; i < SPECS; i++) {
        struct owned *const o = allocate(sizeof *o);
        const size_t at = 2 * changed[i].block;
        context("%s, a block changed", changed[i].spec);
        owned_open(o, changed[i].spec, 0, 1);
        owned_agree(o);
        ((uint8_t *)o->base)[at] ^= 1;
        float *const found = copy_of(o->base, sizeof o->base);
        gen_fill(GEN_NOISE, 3, PITH_F32, o->value, OWNED);
        CHECK_STATUS(PITH_ERR_BASE, owned_encode(o));
        CHECK(o->length == 0 && pith_work_error(o->s.work)->offset == 2);
        CHECK(memcmp((uint8_t *)o->base + at, (uint8_t *)found + at, sizeof o->base - at) == 0);
        CHECK_OK(encode_one(o->twin.work, o->twin.stream, &o->view, 0, 0, o->wanted,
                            sizeof o->wanted, &o->wanted_length));
        CHECK(memcmp(o->base, o->own, at) == 0);
        CHECK_STATUS(PITH_ERR_STATE, owned_encode(o));
        CHECK_STATUS(PITH_ERR_STATE, pith_stream_verify(o->s.work, o->s.stream));
        CHECK_OK(encode_one(o->s.work, o->s.stream, &o->view, 0, PITH_KEY_FRAME, o->frame,
                            sizeof o->frame, &o->length));
        CHECK_OK(decode_one(o->twin.work, o->twin.stream, 0, o->frame, o->length, NULL, 0));
        gen_fill(GEN_NOISE, 4, PITH_F32, o->value, OWNED);
        CHECK(pith_stream_base_hash(o->s.stream, 0) == pith_stream_base_hash(o->twin.stream, 0));
        CHECK_OK(owned_encode(o));
        free(found);
        owned_close(o);
    }
}

/* The first of several blocks counts, whoever finds it. */
static void test_first_changed_block(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads < 6; threads++) {
        struct owned *const o = allocate(sizeof *o);
        context("changed blocks, %u jobs", threads);
        owned_open(o, changed[0].spec, 0, threads);
        o->base[3 * 4096] += 1;
        o->base[7 * 4096] += 1;
        CHECK_STATUS(PITH_ERR_BASE, owned_encode(o));
        CHECK(pith_work_error(o->s.work)->offset == 3);
        CHECK_STATUS(PITH_ERR_STATE, owned_encode(o));
        owned_close(o);
    }
}

/* CHECK sees every bit; a sample that and what lies in it; TRUST nothing. */
static void test_what_is_seen(void **state) {
    (void)state;
    enum { SAMPLE = 12352 };
    static const uint32_t flags[] = {0, PITH_LAYOUT_CHECK_BASE, PITH_LAYOUT_TRUST_BASE};
    for (size_t variant = 0; variant < 3; variant++) {
        struct owned *const o = allocate(sizeof *o);
        uint8_t *const bytes = (uint8_t *)o->base;
        owned_open(o, changed[0].spec, flags[variant], 1);
        for (size_t bit = 0; bit < 16384 * 8 && variant < 2; bit += bit % 8 ? 1 : 105) {
            const bool seen = variant == 1 || bit / 8 % SAMPLE < 64;
            if (!seen) continue; /* else the base moves on */
            context("flags %zu, bit %zu", variant, bit);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            CHECK_STATUS(PITH_ERR_BASE, owned_encode(o));
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        context("flags %zu, between the samples", variant);
        bytes[64] ^= 1;
        CHECK_STATUS(variant == 1 ? PITH_ERR_BASE : PITH_OK, owned_encode(o));
        bytes[0] ^= 1;
        CHECK_STATUS(variant == 2 ? PITH_OK : PITH_ERR_BASE, owned_encode(o));
        owned_close(o);
    }
}

/* What is kept follows the base through decoding, saving, loading and setting, slot by slot. */
static void test_sums_follow(void **state) {
    (void)state;
    enum { N = 5000 };
    const uint64_t counts[] = {700, 0, 4290, 10};
    const uint32_t flags[] = {PITH_LAYOUT_EXTERNAL_BASE, PITH_LAYOUT_CHECK_BASE};
    for (size_t variant = 0; variant < 4; variant++) {
        float value[N], live[2][N] = {{0}};
        struct stream s[2];
        pith_layout layout = flat_layout(PITH_F32, PITH_F32, N);
        layout.slots = 4;
        if (variant < 2) layout.slot_counts = counts;
        layout.flags = flags[variant % 2];
        context("sums follow, variant %zu", variant);
        for (int k = 0; k < 2; k++) {
            stream_open(&s[k], "wdiff:group=16,block=64", &layout, NULL);
            if (variant % 2 == 0)
                CHECK_OK(pith_stream_bind_base(s[k].work, s[k].stream, live[k], 0));
        }
        const pith_view v = pith_view_flat(value, PITH_F32, N);
        for (int step = 0; step < 8; step++) {
            struct stream *const from = &s[step % 2], *const to = &s[1 - step % 2];
            gen_fill(GEN_NOISE, (uint64_t)step, PITH_F32, value, N);
            for (uint64_t slot = 0; slot < 4; slot++) {
                struct frame f = stream_encode(from, &v, slot, step == 3);
                CHECK_OK(decode_one(to->work, to->stream, slot, f.bytes, f.length, NULL, 0));
                free(f.bytes);
            }
            size_t written;
            uint8_t *const saved = allocate((size_t)from->sizes.save_bytes);
            CHECK_OK(pith_stream_save(from->work, from->stream, saved,
                                      (size_t)from->sizes.save_bytes, &written));
            if (step % 3 == 1) CHECK_OK(pith_stream_load(to->work, to->stream, saved, written));
            for (int k = 0; k < 2 && step == 5; k++)
                CHECK_OK(pith_stream_set_base(s[k].work, s[k].stream, &v, 6));
            free(saved);
        }
        stream_close(&s[0]);
        stream_close(&s[1]);
    }
}

/* Saved streams go from plan to plan where layout and keys agree. The hashes in memory also depend
 * on the flags and on how large a page is, which the shape decides. */
static void test_stream_of_other_sums(void **state) {
    (void)state;
    enum { ROWS = 512, DIM = 16, N = ROWS * DIM };
    static const struct {
        uint64_t shape[3];
        uint32_t flags;
    } other[] = {{{ROWS, 1, DIM}, PITH_LAYOUT_EXTERNAL_BASE},
                 {{ROWS / 8, 8, DIM}, PITH_LAYOUT_EXTERNAL_BASE | PITH_LAYOUT_CHECK_BASE},
                 {{ROWS / 8, 8, DIM}, PITH_LAYOUT_EXTERNAL_BASE | PITH_LAYOUT_TRUST_BASE}};
    float live[N], value[N] = {0};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        struct stream s, t;
        pith_layout layout = {.size = sizeof layout, .dtype = PITH_F32, .base_dtype = PITH_F32};
        layout.ndim = 3;
        memcpy(layout.shape, (uint64_t[]){ROWS / 8, 8, DIM}, 3 * sizeof(uint64_t));
        layout.flags = PITH_LAYOUT_EXTERNAL_BASE;
        context("stream of other sums, row %zu", i);
        gen_fill(GEN_NOISE, 1, PITH_F32, live, N);
        stream_open(&s, "kv:page=64", &layout, NULL);
        memcpy(layout.shape, other[i].shape, sizeof other[i].shape);
        layout.flags = other[i].flags;
        stream_open(&t, "kv:page=64", &layout, NULL);
        const pith_view v = pith_view_dense(value, PITH_F32, 3, layout.shape);
        const size_t cap = (size_t)t.sizes.slot_bytes;
        uint8_t *const frame = allocate(cap), *const saved = allocate((size_t)s.sizes.save_bytes);
        size_t n;
        CHECK_OK(pith_stream_bind_base(s.work, s.stream, live, 0));
        CHECK(pith_stream_plan(s.stream) == s.plan && pith_stream_plan(t.stream) == t.plan);
        CHECK_OK(pith_stream_save(s.work, s.stream, saved, (size_t)s.sizes.save_bytes, &n));
        CHECK_OK(pith_stream_bind_base(t.work, t.stream, live, 0));
        CHECK_OK(pith_stream_load(t.work, t.stream, saved, n));
        CHECK_OK(encode_one(t.work, t.stream, &v, 0, 0, frame, cap, &n));
        free(frame);
        free(saved);
        stream_close(&t);
        stream_close(&s);
    }
}

enum { BLOCKS = 1000 };

static uint64_t stream_bytes(uint32_t flags) {
    pith_layout layout = flat_layout(PITH_F32, PITH_F32, 64 * BLOCKS);
    pith_sizes sizes = {.size = sizeof sizes};
    const pith_plan *plan;
    layout.flags = flags;
    CHECK_OK(pith_plan_create(&plan, "wdiff:group=16,block=64", &layout, NULL, NULL));
    CHECK_OK(pith_plan_sizes(plan, &sizes));
    pith_plan_destroy(plan);
    return sizes.stream_bytes;
}

/* 8 bytes for each block that encode compares: of an external base unless it is trusted, of one
 * inside of the stream where it is to be checked. */
static void test_memory_of_a_check(void **state) {
    (void)state;
    context("memory of a check");
    const uint64_t own = stream_bytes(0), checked = stream_bytes(PITH_LAYOUT_CHECK_BASE);
    const uint64_t outside = stream_bytes(PITH_LAYOUT_EXTERNAL_BASE);
    const uint64_t trusted = stream_bytes(PITH_LAYOUT_EXTERNAL_BASE | PITH_LAYOUT_TRUST_BASE);
    CHECK(checked >= own + 8 * BLOCKS && checked < own + 8 * BLOCKS + 128);
    CHECK(outside >= trusted + 8 * BLOCKS && outside < trusted + 8 * BLOCKS + 128);
    CHECK(stream_bytes(PITH_LAYOUT_EXTERNAL_BASE | PITH_LAYOUT_CHECK_BASE) == outside);
}

static void test_flags_of_a_check(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t base, flags;
        pith_status status;
    } tried[] = {
        {"wdiff", PITH_F32, PITH_LAYOUT_CHECK_BASE | PITH_LAYOUT_TRUST_BASE, PITH_ERR_ARG},
        {"wdiff", PITH_F32, PITH_LAYOUT_TRUST_BASE, PITH_ERR_UNSUPPORTED},
        {"wdiff", PITH_NONE, PITH_LAYOUT_CHECK_BASE, PITH_ERR_UNSUPPORTED},
        {"wdiff:base_hash=off", PITH_F32, PITH_LAYOUT_CHECK_BASE, PITH_ERR_UNSUPPORTED},
        {"wdiff:base_hash=off", PITH_F32, PITH_LAYOUT_EXTERNAL_BASE, PITH_OK},
        {"wdiff", PITH_F32, PITH_LAYOUT_CHECK_BASE, PITH_OK},
    };
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        pith_layout layout = flat_layout(PITH_F32, tried[i].base, 100);
        const pith_plan *plan;
        layout.flags = tried[i].flags;
        context("flags of a check, row %zu", i);
        CHECK_STATUS(tried[i].status, pith_plan_create(&plan, tried[i].spec, &layout, NULL, NULL));
        pith_plan_destroy(plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_save_of_every_codec),
        cmocka_unit_test(test_damaged_save),
        cmocka_unit_test(test_statuses_of_load),
        cmocka_unit_test(test_any_alignment),
        cmocka_unit_test(test_external_base),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_base_conversions),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_base_replaced),
        cmocka_unit_test(test_saturated_of_keys),
        cmocka_unit_test(test_block_changed),
        cmocka_unit_test(test_first_changed_block),
        cmocka_unit_test(test_what_is_seen),
        cmocka_unit_test(test_sums_follow),
        cmocka_unit_test(test_memory_of_a_check),
        cmocka_unit_test(test_flags_of_a_check),
        cmocka_unit_test(test_stream_of_other_sums),
    };
    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
