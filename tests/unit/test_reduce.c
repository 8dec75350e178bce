/* test_reduce.c - sums of frames against a plain loop in frame order; decode-add; refusals.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "util.h"

enum { FRAMES = 5 };
static const uint32_t reals[3] = {PITH_F32, PITH_BF16, PITH_F16};

struct setting {
    const char *spec;
    uint32_t dtype;
    size_t count;
};
static const struct setting settings[] = {
    {"raw", PITH_F32, 1},
    {"raw:block=64", PITH_F32, 1000},
    {"raw:block=64", PITH_BF16, 1000},
    {"raw", PITH_F16, 333},
    {"wdiff", PITH_F32, 5000},
    {"wdiff:bits=8,group=16,block=64", PITH_F32, 1001},
    {"wdiff:bits=3,group=32,block=128,scale_dtype=bf16", PITH_BF16, 1001},
    {"wdiff:bits=6,group=64", PITH_F16, 100},
    {"grad:rotate=0,bits=8", PITH_F32, 1001},
    {"grad:rotate=0,group=32,block=64,scale_dtype=e8m0", PITH_BF16, 1001},
    {"raw", PITH_F32, 0},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* Frames of one plan and what each decodes to, in f32. */
struct bundle {
    struct stream s;
    size_t count, frames;
    struct frame frame[FRAMES];
    float *decoded[FRAMES];
    const void *bytes[FRAMES];
    size_t lengths[FRAMES];
};

static void decode_floats(const struct bundle *b, const struct setting *t, size_t i) {
    const bool lossless = strncmp(t->spec, "raw", 3) == 0;
    const uint32_t dtype = lossless ? t->dtype : (uint32_t)PITH_F32;
    void *own = allocate(b->count * pith_dtype_bytes(dtype));
    const pith_view v = pith_view_flat(own, dtype, b->count);
    CHECK_OK(decode_one(b->s.work, b->s.stream, 0, b->bytes[i], b->lengths[i], &v, 0));
    for (size_t k = 0; k < b->count; k++) b->decoded[i][k] = float_of(load_float(own, dtype, k));
    free(own);
}

static void bundle_open(struct bundle *b, const struct setting *t, size_t frames, enum gen kind,
                        const pith_env *env) {
    const pith_layout layout = flat_layout(t->dtype, PITH_NONE, t->count);
    *b = (struct bundle){.count = t->count, .frames = frames};
    stream_open(&b->s, t->spec, &layout, env);
    uint8_t *value = allocate(t->count * 4);
    const pith_view v = pith_view_flat(value, t->dtype, t->count);
    for (size_t i = 0; i < frames; i++) {
        gen_fill(kind, i + 1, t->dtype, value, t->count);
        b->frame[i] = stream_encode(&b->s, &v, 0, false);
        b->bytes[i] = b->frame[i].bytes;
        b->lengths[i] = b->frame[i].length;
        b->decoded[i] = allocate(t->count * 4);
        decode_floats(b, t, i);
    }
    free(value);
}

static void bundle_close(struct bundle *b) {
    for (size_t i = 0; i < b->frames; i++) {
        free(b->frame[i].bytes);
        free(b->decoded[i]);
    }
    stream_close(&b->s);
}

static float *plain_sum(const struct bundle *b, float scale) {
    float *sum = allocate(b->count * 4);
    for (size_t k = 0; k < b->count; k++) {
        sum[k] = b->decoded[0][k];
        for (size_t i = 1; i < b->frames; i++) sum[k] = sum[k] + b->decoded[i][k];
        if (scale != 1.0f) sum[k] = sum[k] * scale;
    }
    return sum;
}

static void check_reduce(const struct bundle *b, float scale) {
    float *sum = plain_sum(b, scale);
    for (int d = 0; d < 3; d++) {
        const size_t bytes = b->count * pith_dtype_bytes(reals[d]);
        uint8_t *wanted = allocate(bytes), *got = allocate(bytes);
        for (size_t k = 0; k < b->count; k++) store_float(wanted, reals[d], k, bits_of(sum[k]));
        const pith_view v = pith_view_flat(got, reals[d], b->count);
        CHECK_OK(reduce_one(b->s.work, b->s.stream, 0, b->bytes, b->lengths, b->frames, scale, &v));
        CHECK(memcmp(wanted, got, bytes) == 0);
        free(wanted);
        free(got);
    }
    free(sum);
}

/* The fused call makes the frame that encoding the sum makes. */
static void check_reduce_encode(const struct bundle *b, float scale, const char *spec,
                                const pith_env *env) {
    struct stream out;
    float *sum = plain_sum(b, scale);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, b->count);
    for (size_t k = 0; k < b->count; k++) store_float(sum, PITH_F32, k, bits_of(sum[k]));
    stream_open(&out, spec, &layout, NULL);
    const pith_plan *const plans[2] = {b->s.plan, out.plan};
    void *memory;
    pith_work *const work = work_for(plans, 2, env, &memory);
    const pith_view v = pith_view_flat(sum, PITH_F32, b->count);
    struct frame wanted = stream_encode(&out, &v, 0, false);
    uint8_t *got = allocate(wanted.length);
    size_t length = 1;
    CHECK_STATUS(PITH_ERR_SPACE,
                 reduce_encode_one(work, b->s.stream, 0, b->bytes, b->lengths, b->frames, scale,
                                   out.stream, 0, got, wanted.length - 1, &length));
    CHECK(length == 0);
    CHECK_OK(reduce_encode_one(work, b->s.stream, 0, b->bytes, b->lengths, b->frames, scale,
                               out.stream, 0, got, wanted.length, &length));
    CHECK(length == wanted.length && memcmp(got, wanted.bytes, length) == 0);
    free(got);
    free(sum);
    free(wanted.bytes);
    free(memory);
    stream_close(&out);
}

static void test_sums(void **state) {
    (void)state;
    static const float scales[3] = {1, 0.25f, 1.0f / 3};
    static const enum gen kinds[4] = {GEN_NOISE, GEN_HOLES, GEN_LARGE, GEN_SIGNED};
    static const char *const outs[3] = {"wdiff:group=128", "wdiff:bits=8,group=16,block=16",
                                        "raw:block=256"};
    for (size_t i = 0; i < SETTINGS; i++)
        for (size_t frames = 1; frames <= FRAMES; frames++)
            for (size_t k = 0; k < 12; k++) {
                struct bundle b;
                context("%zu frames of %s %s, %s", frames, settings[i].spec,
                        pith_dtype_name(settings[i].dtype), gen_name(kinds[k / 3]));
                pith_env env = test_env();
                env.threads = k % 2 ? 3 : 0;
                env.run = k % 2 ? run_backwards : NULL;
                bundle_open(&b, &settings[i], frames, kinds[k / 3], &env);
                check_reduce(&b, scales[k % 3]);
                check_reduce_encode(&b, scales[k % 3], outs[(i + k) % 3], &env);
                bundle_close(&b);
            }
}

static void test_strided_sum(void **state) {
    (void)state;
    struct bundle b;
    context("strided sum");
    bundle_open(&b, &settings[1], 3, GEN_NOISE, NULL);
    float *sum = plain_sum(&b, 1), spread[2000];
    memset(spread, 0x77, sizeof spread);
    const pith_view v = {spread + 1999, PITH_F32, 1, {1000}, {-2}};
    CHECK_OK(reduce_one(b.s.work, b.s.stream, 0, b.bytes, b.lengths, 3, 1, &v));
    for (size_t i = 0; i < 1000; i++) {
        CHECK(spread[1999 - 2 * i] == sum[i]);
        CHECK(all_bytes(&spread[1998 - 2 * i], 4, 0x77));
    }
    free(sum);
    bundle_close(&b);
}

/* A scale of 0 stands for 1. */
static void test_scale_of_zero(void **state) {
    (void)state;
    struct bundle b;
    float out[1000];
    context("scale 0");
    bundle_open(&b, &settings[1], 3, GEN_NOISE, NULL);
    float *sum = plain_sum(&b, 1);
    const pith_view v = pith_view_flat(out, PITH_F32, 1000);
    CHECK_OK(reduce_one(b.s.work, b.s.stream, 0, b.bytes, b.lengths, 3, 0, &v));
    CHECK(memcmp(sum, out, sizeof out) == 0);
    free(sum);
    bundle_close(&b);
}

/* ---- Lists -----------------------------------------------------------------------------------*/

/* Sums of several streams in one call. One whose frames are damaged keeps none of the others. */
static void test_list_of_sums(void **state) {
    (void)state;
    struct bundle b[SETTINGS];
    pith_sum sums[SETTINGS];
    const pith_plan *plans[SETTINGS];
    float *out[SETTINGS];
    void *memory;
    for (size_t i = 0; i < SETTINGS; i++) {
        bundle_open(&b[i], &settings[i], 2, GEN_NOISE, NULL);
        plans[i] = b[i].s.plan;
        out[i] = allocate(b[i].count * sizeof **out);
    }
    pith_env env = test_env();
    env.threads = 3;
    env.run = run_backwards;
    pith_work *const work = work_for(plans, SETTINGS, &env, &memory);
    for (size_t bad = 0; bad <= SETTINGS; bad++) { /* the last time, none */
        for (size_t i = 0; i < SETTINGS; i++) {
            memset(out[i], 0x5A, b[i].count * sizeof **out);
            sums[i] = (pith_sum){.size = sizeof(pith_sum),
                                 .stream = b[i].s.stream,
                                 .frames = b[i].bytes,
                                 .lengths = b[i].lengths,
                                 .count = 2,
                                 .scale = 0.5f,
                                 .view = pith_view_flat(out[i], PITH_F32, b[i].count),
                                 .status = PITH_ERR_INTERNAL};
        }
        context("sum %zu of a list is damaged", bad);
        if (bad < SETTINGS) b[bad].frame[1].bytes[20] ^= 1;
        CHECK_STATUS(bad < SETTINGS ? PITH_ERR_CHECKSUM : PITH_OK,
                     pith_reduce(work, sums, SETTINGS));
        CHECK(bad == SETTINGS || pith_work_error(work)->item == bad);
        CHECK((pith_work_error(work)->text[0] != 0) == (bad < SETTINGS));
        for (size_t i = 0; i < SETTINGS; i++) {
            const size_t bytes = b[i].count * sizeof **out;
            float *const wanted = plain_sum(&b[i], 0.5f);
            CHECK_STATUS(i == bad ? PITH_ERR_CHECKSUM : PITH_OK, sums[i].status);
            CHECK(i == bad ? all_bytes(out[i], bytes, 0x5A) : memcmp(out[i], wanted, bytes) == 0);
            free(wanted);
        }
        if (bad < SETTINGS) b[bad].frame[1].bytes[20] ^= 1;
    }
    for (size_t i = 0; i < SETTINGS; i++) {
        free(out[i]);
        bundle_close(&b[i]);
    }
    free(memory);
}

/* ---- Decode-add without a base ---------------------------------------------------------------*/

static void test_decode_add(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++)
        for (int d = 0; d < 3; d++) {
            struct bundle b;
            const size_t bytes = settings[i].count * pith_dtype_bytes(reals[d]);
            context("%s added to %s", settings[i].spec, pith_dtype_name(reals[d]));
            bundle_open(&b, &settings[i], 1, GEN_HOLES, NULL);
            uint8_t *place = allocate(bytes), *wanted = allocate(bytes);
            gen_fill(GEN_NOISE, 9, reals[d], place, b.count);
            for (size_t k = 0; k < b.count; k++) {
                const float x = float_of(load_float(place, reals[d], k)) + b.decoded[0][k];
                store_float(wanted, reals[d], k, bits_of(x));
            }
            const pith_view v = pith_view_flat(place, reals[d], b.count);
            CHECK_OK(decode_one(b.s.work, b.s.stream, 0, b.bytes[0], b.lengths[0], &v, PITH_ADD));
            CHECK(memcmp(place, wanted, bytes) == 0);
            free(place);
            free(wanted);
            bundle_close(&b);
        }
}

/* ---- Refusals --------------------------------------------------------------------------------*/

static void test_frames_checked_first(void **state) {
    (void)state;
    struct bundle b;
    float out[1000];
    memset(out, 0x5A, sizeof out);
    const pith_view v = pith_view_flat(out, PITH_F32, 1000);
    bundle_open(&b, &settings[1], 3, GEN_NOISE, NULL);
    context("a bad frame among good ones");
    b.lengths[2]--;
    CHECK_STATUS(PITH_ERR_TRUNCATED,
                 reduce_one(b.s.work, b.s.stream, 0, b.bytes, b.lengths, 3, 1, &v));
    b.lengths[2]++;
    b.frame[1].bytes[20] ^= 1;
    CHECK_STATUS(PITH_ERR_CHECKSUM,
                 reduce_one(b.s.work, b.s.stream, 0, b.bytes, b.lengths, 3, 1, &v));
    b.frame[1].bytes[20] ^= 1;
    struct bundle other;
    bundle_open(&other, &settings[0], 1, GEN_NOISE, NULL);
    b.bytes[2] = other.bytes[0];
    CHECK_STATUS(PITH_ERR_MISMATCH,
                 reduce_one(b.s.work, b.s.stream, 0, b.bytes, b.lengths, 3, 1, &v));
    b.bytes[2] = NULL;
    CHECK_STATUS(PITH_ERR_ARG, reduce_one(b.s.work, b.s.stream, 0, b.bytes, b.lengths, 3, 1, &v));
    CHECK_STATUS(PITH_ERR_ARG, reduce_one(b.s.work, b.s.stream, 0, b.bytes, b.lengths, 0, 1, &v));
    CHECK_STATUS(PITH_ERR_ARG, reduce_one(b.s.work, b.s.stream, 1, b.bytes, b.lengths, 1, 1, &v));
    CHECK(all_bytes(out, sizeof out, 0x5A));
    bundle_close(&other);
    bundle_close(&b);
}

static void cannot(const char *spec, uint32_t dtype, uint32_t base_dtype) {
    struct stream s;
    float out[10] = {0};
    const pith_layout layout = flat_layout(dtype, base_dtype, 10);
    const pith_view v = pith_view_flat(out, PITH_F32, 10);
    context("reduce %s %s", spec, pith_dtype_name(dtype));
    stream_open(&s, spec, &layout, NULL);
    const void *const frames[1] = {out};
    const size_t lengths[1] = {sizeof out};
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, reduce_one(s.work, s.stream, 0, frames, lengths, 1, 1, &v));
    stream_close(&s);
}

static void test_unsupported(void **state) {
    (void)state;
    cannot("wdiff", PITH_F32, PITH_F32);
    cannot("wdiff:entropy=zstd", PITH_F32, PITH_NONE);
    cannot("lossless", PITH_F32, PITH_NONE);
    cannot("raw", PITH_I32, PITH_NONE);
    cannot("raw", PITH_F64, PITH_NONE);
}

static void test_reduce_encode_plans(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t dtype, base_dtype;
        size_t count;
        pith_status wanted;
    } outs[] = {{"wdiff", PITH_F32, PITH_F32, 1000, PITH_ERR_UNSUPPORTED},
                {"wdiff", PITH_BF16, PITH_NONE, 1000, PITH_ERR_UNSUPPORTED},
                {"lossless", PITH_F32, PITH_NONE, 1000, PITH_ERR_UNSUPPORTED},
                {"kv", PITH_F32, PITH_NONE, 1000, PITH_ERR_UNSUPPORTED},
                {"wdiff", PITH_F32, PITH_NONE, 999, PITH_ERR_ARG},
                {"wdiff", PITH_F32, PITH_NONE, 1000, PITH_OK}};
    struct bundle b;
    context("reduce-encode into the stream of the sum, and of another one of its plan");
    bundle_open(&b, &settings[1], 2, GEN_NOISE, NULL);
    struct stream end;
    uint8_t own[8192];
    size_t own_length = 3;
    stream_open_end(&end, &b.s, NULL);
    memset(own, 0x5A, sizeof own);
    CHECK_STATUS(PITH_ERR_ARG, reduce_encode_one(b.s.work, b.s.stream, 0, b.bytes, b.lengths, 2, 1,
                                                 b.s.stream, 0, own, sizeof own, &own_length));
    CHECK(own_length == 0 && all_bytes(own, sizeof own, 0x5A));
    CHECK_OK(reduce_encode_one(b.s.work, b.s.stream, 0, b.bytes, b.lengths, 2, 1, end.stream, 0,
                               own, sizeof own, &own_length));
    CHECK(own_length == b.lengths[0]);
    stream_close(&end);
    for (size_t i = 0; i < sizeof outs / sizeof outs[0]; i++) {
        struct stream s;
        uint8_t bytes[8192];
        size_t length = 3;
        const pith_layout layout = flat_layout(outs[i].dtype, outs[i].base_dtype, outs[i].count);
        context("reduce-encode plan %zu", i);
        stream_open(&s, outs[i].spec, &layout, NULL);
        const pith_plan *const plans[2] = {b.s.plan, s.plan};
        void *memory;
        pith_work *const work = work_for(plans, 2, NULL, &memory);
        CHECK_STATUS(outs[i].wanted,
                     reduce_encode_one(work, b.s.stream, 0, b.bytes, b.lengths, 2, 1, s.stream, 0,
                                       bytes, sizeof bytes, &length));
        CHECK((length != 0) == (outs[i].wanted == PITH_OK));
        free(memory);
        stream_close(&s);
    }
    bundle_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),         cmocka_unit_test(test_scale_of_zero),
        cmocka_unit_test(test_list_of_sums), cmocka_unit_test(test_strided_sum),
        cmocka_unit_test(test_decode_add),   cmocka_unit_test(test_frames_checked_first),
        cmocka_unit_test(test_unsupported),  cmocka_unit_test(test_reduce_encode_plans),
    };
    return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
