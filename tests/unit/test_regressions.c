/* test_regressions.c - one small test for each bug that a review or an attack has found.
 * SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#define XXH_INLINE_ALL
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "gen.h"
#include "util.h"

/* Reduce used the payload layout of the last frame for all of them, so a checksum table in one
 * frame made it read another past its end, or add the table to the sum. */
static void test_reduce_frames_with_and_without_checksums(void **unused) {
    (void)unused;
    float value[64], sum[64];
    for (int i = 0; i < 64; i++) value[i] = (float)i;
    const pith_view v = pith_view_flat(value, PITH_F32, 64),
                    out = pith_view_flat(sum, PITH_F32, 64);
    struct frame frames[2] = {compress("raw:block=16", &v, NULL, 0),
                              compress("raw:block=16", &v, NULL, PITH_LAYOUT_CHECKSUMS)};
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 64);
    const pith_env env = test_env();
    struct stream s;
    stream_open(&s, "raw:block=16", &layout, &env);
    for (int first = 0; first < 2; first++) {
        const void *bytes[2] = {frames[first].bytes, frames[!first].bytes};
        const size_t lengths[2] = {frames[first].length, frames[!first].length};
        CHECK_OK(reduce_one(s.work, s.stream, 0, bytes, lengths, 2, 1.0f, &out));
        for (int i = 0; i < 64; i++) CHECK(sum[i] == 2 * value[i]);
    }
    stream_close(&s);
    free(frames[0].bytes);
    free(frames[1].bytes);
}

struct pair {
    struct stream sender, receiver;
    float *value;
    pith_view view;
};

static void pair_open(struct pair *p, const char *spec, uint64_t count) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, count);
    const pith_env env = test_env();
    p->value = allocate(count * sizeof *p->value);
    for (uint64_t i = 0; i < count; i++) p->value[i] = (float)(i % 97) * 0.125f;
    p->view = pith_view_flat(p->value, PITH_F32, count);
    stream_open(&p->sender, spec, &layout, &env);
    stream_open(&p->receiver, spec, &layout, &env);
}

static void pair_close(struct pair *p) {
    stream_close(&p->sender);
    stream_close(&p->receiver);
    free(p->value);
}

/* A decode that failed in its last block had already changed the base; the good frame, sent again,
 * was then applied on top of it and accepted. `byte` of a block cannot be FF: its head, or the
 * start of its coded string. */
static void invalid_base(const char *spec, size_t blocks, size_t byte) {
    enum { COUNT = 4096 };
    struct pair p;
    context("%s", spec);
    pair_open(&p, spec, COUNT);
    struct frame good = stream_encode(&p.sender, &p.view, 0, false);
    struct frame bad = {copy_of(good.bytes, good.length), good.length};
    uint32_t last;
    memcpy(&last, bad.bytes + header_of(&bad) + 4 * (blocks - 1), sizeof last);
    CHECK(last >> 31 == 0);
    bad.bytes[bad.length - last + byte] = 0xFF;
    CHECK_STATUS(PITH_ERR_CORRUPT,
                 decode_one(p.receiver.work, p.receiver.stream, 0, bad.bytes, bad.length, NULL, 0));
    CHECK_STATUS(PITH_ERR_STATE, decode_one(p.receiver.work, p.receiver.stream, 0, good.bytes,
                                            good.length, NULL, 0));
    size_t n;
    void *saved = allocate(p.receiver.sizes.save_bytes);
    CHECK_STATUS(PITH_ERR_STATE, pith_stream_save(p.receiver.work, p.receiver.stream, saved,
                                                  p.receiver.sizes.save_bytes, &n));
    struct frame key = stream_encode(&p.sender, &p.view, 0, true);
    CHECK_OK(decode_one(p.receiver.work, p.receiver.stream, 0, key.bytes, key.length, NULL, 0));
    CHECK(pith_stream_base_hash(p.sender.stream, 0) == pith_stream_base_hash(p.receiver.stream, 0));
    CHECK_OK(pith_stream_verify(p.receiver.work, p.receiver.stream));
    free(saved);
    free(good.bytes);
    free(bad.bytes);
    free(key.bytes);
    pair_close(&p);
}

static void test_failed_decode_leaves_the_base_invalid(void **unused) {
    (void)unused;
    invalid_base("lossless:block=64", 64, 0);
    invalid_base("wdiff:entropy=zstd,block=1024,group=64", 4, 64);
}

/* A key frame whose content is not what it declares moved the step on. */
static void test_key_frame_of_a_false_hash(void **unused) {
    (void)unused;
    struct pair p;
    pair_open(&p, "wdiff", 100);
    struct frame key = stream_encode(&p.sender, &p.view, 0, true);
    key.bytes[key.length - 1] ^= 1;
    CHECK_STATUS(PITH_ERR_CHECKSUM,
                 decode_one(p.receiver.work, p.receiver.stream, 0, key.bytes, key.length, NULL, 0));
    CHECK(pith_stream_step(p.receiver.stream, 0) == 0);
    pith_stats stats = {.size = sizeof stats};
    CHECK_OK(pith_stream_stats(p.receiver.stream, &stats));
    CHECK(stats.frames == 0);
    key.bytes[key.length - 1] ^= 1;
    CHECK_OK(decode_one(p.receiver.work, p.receiver.stream, 0, key.bytes, key.length, NULL, 0));
    free(key.bytes);
    pair_close(&p);
}

/* Plans without a base took any saved stream for theirs, and wrote with their own slot count. */
static void test_foreign_stream_with_a_plan_without_base(void **unused) {
    (void)unused;
    struct pair p;
    pair_open(&p, "wdiff", 10);
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 10);
    layout.slots = 100;
    const pith_env env = test_env();
    struct stream raw;
    stream_open(&raw, "raw", &layout, &env);
    uint8_t eight[8], *const saved = allocate((size_t)p.sender.sizes.save_bytes);
    size_t n;
    CHECK_STATUS(PITH_ERR_SPACE, pith_stream_save(raw.work, p.sender.stream, eight, 8, &n));
    CHECK_OK(
        pith_stream_save(raw.work, p.sender.stream, saved, (size_t)p.sender.sizes.save_bytes, &n));
    CHECK(n == p.sender.sizes.save_bytes);
    CHECK_STATUS(PITH_ERR_MISMATCH, pith_stream_load(raw.work, raw.stream, saved, n));
    CHECK_STATUS(PITH_ERR_STATE, pith_stream_verify(raw.work, raw.stream));
    CHECK_OK(pith_stream_verify(p.sender.work, p.sender.stream));
    CHECK_OK(pith_stream_reset(raw.work, raw.stream));
    free(saved);
    stream_close(&raw);
    pair_close(&p);
}

/* Settings that only the encoder needs (level, rounding, key frames) parted receivers from
 * senders, and saved streams from the plans of late joiners. */
static void test_encoder_settings_do_not_part_plans(void **unused) {
    (void)unused;
    struct pair p;
    pair_open(&p, "wdiff:round=stochastic,key_every=10", 100);
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, 100);
    const pith_env env = test_env();
    struct stream plain;
    stream_open(&plain, "wdiff", &layout, &env);
    size_t n;
    void *saved = allocate(p.sender.sizes.save_bytes);
    CHECK_OK(
        pith_stream_save(p.sender.work, p.sender.stream, saved, p.sender.sizes.save_bytes, &n));
    CHECK_OK(pith_stream_load(plain.work, plain.stream, saved, n));
    struct frame first = stream_encode(&p.sender, &p.view, 0, false);
    CHECK_OK(decode_one(plain.work, plain.stream, 0, first.bytes, first.length, NULL, 0));
    struct frame second = stream_encode(&p.sender, &p.view, 0, false);
    CHECK_OK(decode_one(plain.work, plain.stream, 0, second.bytes, second.length, NULL, 0));
    free(saved);
    free(first.bytes);
    free(second.bytes);
    stream_close(&plain);
    pair_close(&p);
}

/* A range was refused for damage in blocks it does not touch, and cost as much as the whole. */
static void test_range_checks_its_own_blocks(void **unused) {
    (void)unused;
    float value[256] = {1}, part[16];
    const pith_view v = pith_view_flat(value, PITH_F32, 256),
                    out = pith_view_flat(part, PITH_F32, 16);
    struct frame f = compress("raw:block=64", &v, NULL, PITH_LAYOUT_CHECKSUMS);
    f.bytes[f.length - 1] ^= 1;
    const pith_env env = test_env();
    CHECK_OK(pith_decode_range(f.bytes, f.length, NULL, 0, &env, &out, NULL));
    CHECK(part[0] == 1);
    CHECK_STATUS(PITH_ERR_CHECKSUM,
                 pith_decode_range(f.bytes, f.length, NULL, 250 - 16, &env, &out, NULL));
    free(f.bytes);
}

/* pith_verify told the number of the bad block where it promises its byte. */
static void test_verify_tells_the_byte(void **unused) {
    (void)unused;
    float value[256];
    for (int i = 0; i < 256; i++) value[i] = (float)(i % 7);
    const pith_view v = pith_view_flat(value, PITH_F32, 256);
    struct frame f = compress("lossless:block=64", &v, NULL, 0);
    f.bytes[f.length - 1] ^= 0x55;
    memset(f.bytes + f.length - 4, 0xFF, 4);
    const pith_env env = test_env();
    pith_error error = {.size = sizeof error};
    CHECK_STATUS(PITH_ERR_CORRUPT, pith_verify(f.bytes, f.length, &env, &error));
    CHECK(error.offset > header_of(&f) && error.offset < f.length);
    free(f.bytes);
}

/* The bound of a one-shot call followed the layout's slots, which the call itself ignored. Both are
 * of the view, and refuse a layout that says otherwise. */
static void test_bound_of_a_layout_with_slots(void **unused) {
    (void)unused;
    float value[100] = {0};
    const pith_view v = pith_view_flat(value, PITH_F32, 100);
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    uint64_t one, four;
    uint8_t frame[1024];
    size_t n;
    CHECK_OK(pith_compress_bound("raw", &v, NULL, &layout, &one, NULL));
    CHECK(one == 64 + 400);
    CHECK_OK(pith_compress_bound("raw", &v, NULL, NULL, &one, NULL));
    CHECK(one == 64 + 400);
    layout.slots = 4;
    CHECK_STATUS(PITH_ERR_ARG, pith_compress_bound("raw", &v, NULL, &layout, &four, NULL));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_compress("raw", &v, NULL, &layout, NULL, frame, sizeof frame, &n, NULL));
    layout.slots = 1;
    CHECK_OK(pith_compress("raw", &v, NULL, &layout, NULL, frame, sizeof frame, &n, NULL));
    CHECK(n == one);
}

/* ---- Codec grad -----------------------------------------------------------------------------*/

/* ema:0.999 took 1 - RN(0.999) where doc/FORMAT.md has RN(1 - 0.999), so that other encoders kept
 * another residual. The second value is lost whole. */
static void test_fading_takes_the_rounded_rest(void **unused) {
    (void)unused;
    float value[32] = {4, 1};
    const pith_view v = pith_view_flat(value, PITH_F32, 32);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 32);
    const pith_env env = test_env();
    struct stream s;
    stream_open(&s, "grad:bits=2,group=32,rotate=0,search=none,ef=ema:0.999", &layout, &env);
    struct frame f = stream_encode(&s, &v, 0, false);
    uint8_t *saved = allocate((size_t)s.sizes.save_bytes);
    size_t length;
    CHECK_OK(pith_stream_save(s.work, s.stream, saved, (size_t)s.sizes.save_bytes, &length));
    const float kept = float_of(load_float(saved + length - 8 - sizeof value, PITH_F32, 1));
    CHECK(kept == (float)0.001);
    free(saved);
    free(f.bytes);
    stream_close(&s);
}

struct failing {
    size_t runs_left;
};

static int run_and_fail(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    struct failing *f = user;
    for (size_t i = 0; i < count; i++) job(arg, i);
    return f->runs_left-- == 0;
}

/* An encode that failed had overwritten the older residual, which pith_stream_rollback of the step
 * before then took for good. */
static void rollback_after_failure(bool second_hop) {
    float value[64] = {0};
    const pith_view v = pith_view_flat(value, PITH_F32, 64);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 64);
    struct failing failing = {SIZE_MAX};
    pith_env env = test_env();
    env.run = run_and_fail;
    env.run_user = &failing;
    struct stream in, s;
    context(second_hop ? "second hop" : "first hop");
    for (int i = 0; i < 64; i++) value[i] = (float)(i * i % 23) * 0.1f;
    stream_open(&in, "raw", &layout, NULL);
    stream_open(&s, "grad:group=32,ef=full", &layout, &env);
    struct frame f[3];
    void *memory;
    pith_work *const work = work_for((const pith_plan *const[]){in.plan, s.plan}, 2, &env, &memory);
    for (uint64_t step = 0; step < 3; step++) {
        if (step == 2) CHECK_OK(pith_stream_rollback(work, s.stream, 0)); /* finds nothing */
        CHECK(pith_stream_step(s.stream, 0) == (step ? 1 : 0));           /* a failure is no step */
        CHECK_OK(pith_stream_set_step(work, s.stream, 0, step));
        f[step] = (struct frame){allocate((size_t)s.sizes.slot_bytes), 0};
        struct frame raw = stream_encode(&in, &v, 0, false);
        const void *const bytes = raw.bytes;
        failing.runs_left = step == 1 ? 0 : SIZE_MAX;
        const pith_status status =
            second_hop
                ? reduce_encode_one(work, in.stream, 0, &bytes, &raw.length, 1, 1, s.stream, 0,
                                    f[step].bytes, (size_t)s.sizes.slot_bytes, &f[step].length)
                : encode_one(work, s.stream, &v, 0, 0, f[step].bytes, (size_t)s.sizes.slot_bytes,
                             &f[step].length);
        CHECK_STATUS(step == 1 ? PITH_ERR_RUNNER : PITH_OK, status);
        free(raw.bytes);
    }
    struct stream other;
    stream_open(&other, "grad:group=32,ef=full", &layout, NULL);
    struct frame first = stream_encode(&other, &v, 0, false);
    struct frame second = stream_encode(&other, &v, 0, false);
    CHECK(memcmp(f[0].bytes, first.bytes, first.length) == 0);
    CHECK(memcmp(f[2].bytes, second.bytes, second.length) == 0);
    for (int i = 0; i < 3; i++) free(f[i].bytes);
    free(memory);
    free(first.bytes);
    free(second.bytes);
    stream_close(&in);
    stream_close(&s);
    stream_close(&other);
}

static void test_rollback_after_a_failed_encode(void **unused) {
    (void)unused;
    rollback_after_failure(false);
    rollback_after_failure(true);
}

/* A plan without a base that said it had an external one got a stream without memory for its
 * residual. */
static void test_external_base_of_no_base(void **unused) {
    (void)unused;
    float value[64] = {1, 2, 3};
    const pith_view v = pith_view_flat(value, PITH_F32, 64);
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 64);
    const pith_env env = test_env();
    struct stream plain, external;
    stream_open(&plain, "grad:ef=full", &layout, &env);
    layout.flags = PITH_LAYOUT_EXTERNAL_BASE;
    stream_open(&external, "grad:ef=full", &layout, &env);
    CHECK(external.sizes.stream_bytes == plain.sizes.stream_bytes);
    CHECK_STATUS(PITH_ERR_STATE, pith_stream_bind_base(external.work, external.stream, value, 0));
    for (int i = 0; i < 3; i++) {
        struct frame a = stream_encode(&plain, &v, 0, false);
        struct frame b = stream_encode(&external, &v, 0, false);
        CHECK(a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0);
        free(a.bytes);
        free(b.bytes);
    }
    stream_close(&plain);
    stream_close(&external);
}

/* Without error feedback the stream forgot the step of the last frame. */
static void test_step_without_feedback(void **unused) {
    (void)unused;
    float value[64] = {1, 2, 3};
    const pith_view v = pith_view_flat(value, PITH_F32, 64);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 64);
    const pith_env env = test_env();
    struct stream s;
    const pith_stream_options options = {.size = sizeof options, .step = 41};
    stream_open_with(&s, "grad", &layout, &env, &options);
    struct frame f = stream_encode(&s, &v, 0, false);
    CHECK(pith_stream_step(s.stream, 0) == 42);
    free(f.bytes);
    stream_close(&s);
}

/* The largest key frame was sought among slots with the largest other frame, whose padding hides
 * that one of them has more elements. */
static void test_largest_key_frame_of_slots_alike(void **unused) {
    (void)unused;
    static const uint64_t counts[2] = {18, 37};
    pith_layout layout = flat_layout(PITH_F32, PITH_F32, 55);
    layout.slots = 2;
    layout.slot_counts = counts;
    const pith_env env = test_env();
    struct stream s;
    stream_open(&s, "wdiff:bits=2", &layout, &env);
    CHECK(pith_plan_frame_bytes(s.plan, 0, 0) == pith_plan_frame_bytes(s.plan, 1, 0));
    CHECK(s.sizes.key_bytes == pith_plan_frame_bytes(s.plan, 1, 1));
    stream_close(&s);
}

/* A call that returns a status did not check its arguments. */
static void test_plan_questions_without_a_plan(void **unused) {
    (void)unused;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 64);
    const pith_env env = test_env();
    struct stream s;
    uint64_t first, count;
    stream_open(&s, "grad", &layout, &env);
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_slot(NULL, 0, &first, &count));
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_slot(s.plan, 0, NULL, &count));
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_slot(s.plan, 0, &first, NULL));
    stream_close(&s);
}

/* The longest map and the longest source together made frames that no reader takes. */
static void test_longest_map_and_source(void **unused) {
    (void)unused;
    enum { RANGES = PITH_EXEMPT_MAX, COUNT = 2 * RANGES };
    pith_exempt *ranges = allocate(RANGES * sizeof *ranges);
    float *value = allocate(COUNT * sizeof *value), *back = allocate(COUNT * sizeof *back);
    void *source = allocate(PITH_SOURCE_MAX);
    for (size_t i = 0; i < RANGES; i++) ranges[i] = (pith_exempt){2 * i + 1, 1, PITH_EXEMPT_EXACT};
    for (size_t i = 0; i < COUNT; i++) value[i] = (float)(i % 1001) * 0.125f;
    memset(source, 7, PITH_SOURCE_MAX);
    const pith_view v = pith_view_flat(value, PITH_F32, COUNT),
                    out = pith_view_flat(back, PITH_F32, COUNT);
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    layout.exempt = ranges;
    const pith_env env = test_env();
    for (size_t less = 0; less <= 2; less++)
        for (int with = 0; with < 2; with++) {
            struct stream s;
            uint64_t bytes;
            layout.exempt_count = RANGES - less;
            layout.source = with ? source : NULL;
            layout.source_bytes = with ? PITH_SOURCE_MAX : 0;
            context("%zu ranges, source %d", RANGES - less, with);
            if (with && less < 2) {
                CHECK_STATUS(PITH_ERR_ARG, pith_plan_create(&s.plan, "grad", &layout, &env, NULL));
                CHECK_STATUS(PITH_ERR_ARG,
                             pith_compress_bound("grad", &v, NULL, &layout, &bytes, NULL));
                continue;
            }
            stream_open(&s, "grad", &layout, &env);
            struct frame f = stream_encode(&s, &v, 0, false);
            CHECK_OK(decode_one(s.work, s.stream, 0, f.bytes, f.length, &out, 0));
            for (size_t i = 0; i < RANGES - less; i++) CHECK(back[2 * i + 1] == value[2 * i + 1]);
            free(f.bytes);
            stream_close(&s);
        }
    free(ranges);
    free(value);
    free(back);
    free(source);
}

/* A saved residual with a NaN and the right checksum was loaded; since a residual that would not be
 * finite stays as it is, the group was lost for every later step. Of topk, whose controllers are
 * saved before, the last values were not looked at. */
static void test_load_of_a_residual_with_a_hole(void **unused) {
    (void)unused;
    enum { N = 40 };
    static const struct {
        const char *spec;
        size_t values;
    } cases[] = {
        {"grad:ef=full", N}, {"topk:k=4,ef=full", N}, {"topk:k=4,ef=full,momentum=0.5", 2 * N}};
    const uint32_t hole = 0x7FC00000u;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (size_t last = 0; last < 2; last++) {
            struct stream s;
            uint8_t saved[1024];
            size_t length;
            pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
            layout.slots = 2;
            context("%s, value %s", cases[k].spec, last ? "last" : "first");
            stream_open(&s, cases[k].spec, &layout, NULL);
            CHECK(s.sizes.save_bytes <= sizeof saved);
            CHECK_OK(pith_stream_save(s.work, s.stream, saved, sizeof saved, &length));
            CHECK_OK(pith_stream_load(s.work, s.stream, saved, length));
            uint8_t *const end = saved + length - 8;
            memcpy(end - sizeof hole * (last ? 1 : cases[k].values), &hole, sizeof hole);
            const uint64_t hash = XXH64(saved, length - 8, 0);
            memcpy(end, &hash, sizeof hash);
            CHECK_STATUS(PITH_ERR_CORRUPT, pith_stream_load(s.work, s.stream, saved, length));
            CHECK(strstr(pith_work_error(s.work)->text, "not finite") != NULL);
            stream_close(&s);
        }
}

/* What a controller remembers was looked at as if it were the residual behind it: a stream to which
 * a count with the bits of an infinity had been reported was saved, and not loaded. */
static void test_load_of_a_report(void **unused) {
    (void)unused;
    enum { N = 40 };
    static const uint64_t counts[] = {0x7F800000, UINT64_C(0x7FC00000) << 32, UINT64_MAX};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        struct stream s;
        uint8_t saved[1024];
        size_t length;
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
        float value[N];
        gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
        const pith_view v = pith_view_flat(value, PITH_F32, N);
        context("count %zu", k);
        stream_open(&s, "topk:k=4,ef=full", &layout, NULL);
        struct frame f = stream_encode(&s, &v, 0, false);
        CHECK_OK(pith_sparse_report(s.work, s.stream, 0, counts[k]));
        CHECK_OK(pith_stream_save(s.work, s.stream, saved, sizeof saved, &length));
        CHECK_OK(pith_stream_load(s.work, s.stream, saved, length));
        free(f.bytes);
        stream_close(&s);
    }
}

/* e8m0 has no scale 0, so a frame of nothing but tiny values took the bound of its least scale for
 * its own: 2^-128 where the values, which decode to 0, may be near 2^-118. */
static void test_bound_of_tiny_values_with_e8m0(void **unused) {
    (void)unused;
    static const char *const specs[2] = {"grad:rotate=0,scale_dtype=e8m0",
                                         "grad:scale_dtype=e8m0,search=mse"};
    float value[3] = {0x1p-120f, -0x1.8p-121f, 0x1p-130f}, back[3];
    const pith_view v = pith_view_flat(value, PITH_F32, 3), out = pith_view_flat(back, PITH_F32, 3);
    for (int k = 0; k < 2; k++) {
        double bound = 0;
        context("%s", specs[k]);
        struct frame f = compress(specs[k], &v, NULL, 0);
        CHECK_OK(pith_error_bound(f.bytes, f.length, &bound, NULL));
        CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &out, NULL));
        for (int i = 0; i < 3; i++)
            CHECK((double)value[i] - (double)back[i] <= bound &&
                  (double)back[i] - (double)value[i] <= bound);
        CHECK(bound < 0x1p-117);
        free(f.bytes);
    }
}

/* A stream did not know its plan's exempt ranges, so that of a plan with others was taken. */
static void test_stream_of_other_exempt_ranges(void **unused) {
    (void)unused;
    static const pith_exempt maps[3] = {{0, 8, PITH_EXEMPT_16}, {0, 9, PITH_EXEMPT_16}, {0, 0, 0}};
    float value[64] = {1};
    const pith_view v = pith_view_flat(value, PITH_F32, 64);
    const pith_env env = test_env();
    struct stream s[3];
    uint8_t buffer[1024];
    size_t written;
    for (int k = 0; k < 3; k++) {
        pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 64);
        layout.exempt = &maps[k];
        layout.exempt_count = maps[k].count != 0;
        stream_open(&s[k], "grad:ef=full", &layout, &env);
    }
    for (int k = 0; k < 9; k++) {
        struct stream *const from = &s[k / 3], *const to = &s[k % 3];
        const pith_status wanted = k / 3 == k % 3 ? PITH_OK : PITH_ERR_MISMATCH;
        context("stream of map %d, plan of map %d", k / 3, k % 3);
        CHECK_OK(encode_one(from->work, from->stream, &v, 0, 0, buffer, sizeof buffer, &written));
        CHECK_OK(pith_stream_save(from->work, from->stream, buffer, sizeof buffer, &written));
        CHECK_STATUS(wanted, pith_stream_load(to->work, to->stream, buffer, written));
    }
    for (int k = 0; k < 3; k++) stream_close(&s[k]);
}

/* Only pith_decode looked at max_output_bytes. */
static void test_limit_of_sums(void **unused) {
    (void)unused;
    float value[64] = {1}, sum[64] = {0};
    const pith_view v = pith_view_flat(value, PITH_F32, 64), to = pith_view_flat(sum, PITH_F32, 64);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 64);
    for (int k = 0; k < 2; k++) {
        pith_env env = test_env();
        struct stream s;
        env.max_output_bytes = k ? sizeof value : sizeof value - 1;
        const pith_status wanted = k ? PITH_OK : PITH_ERR_LIMIT;
        stream_open(&s, "grad", &layout, &env);
        struct frame f = stream_encode(&s, &v, 0, false);
        const void *const frames[1] = {f.bytes};
        CHECK_STATUS(wanted, reduce_one(s.work, s.stream, 0, frames, &f.length, 1, 1.0f, &to));
        CHECK_STATUS(wanted, decode_one(s.work, s.stream, 0, f.bytes, f.length, &to, PITH_ADD));
        CHECK(k || sum[0] == 0);
        free(f.bytes);
        stream_close(&s);
    }
}

/* A second hop written over its first frame: frames are read while the output is written, so where
 * the output runs ahead of them the sum was of half new bytes, and the status PITH_OK. */
static void test_sum_over_its_own_frame(void **unused) {
    (void)unused;
    enum { COUNT = 20000 };
    struct stream in, out;
    static float value[COUNT];
    const pith_view v = pith_view_flat(value, PITH_F32, COUNT);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    stream_open(&in, "grad:bits=2", &layout, NULL);
    stream_open(&out, "grad:bits=8", &layout, NULL);
    struct frame f = stream_encode(&in, &v, 0, false);
    const size_t cap = (size_t)out.sizes.slot_bytes;
    uint8_t *place = allocate(cap + f.length + cap);
    void *memory;
    pith_work *const work =
        work_for((const pith_plan *const[]){in.plan, out.plan}, 2, NULL, &memory);
    const void *frames[] = {memcpy(place + cap, f.bytes, f.length)};
    size_t n;
    for (size_t at = 0; at <= cap + f.length; at += 1) {
        const bool apart = at == 0 || at == cap + f.length;
        if (!apart && at != 1 && at != cap && at + 1 != cap + f.length) continue;
        context("dst at %zu, frame of %zu at %zu", at, f.length, cap);
        CHECK_STATUS(apart ? PITH_OK : PITH_ERR_ARG,
                     reduce_encode_one(work, in.stream, 0, frames, &f.length, 1, 1, out.stream, 0,
                                       place + at, cap, &n));
    }
    free(place);
    free(memory);
    free(f.bytes);
    stream_close(&in);
    stream_close(&out);
}

static void seal(uint8_t *frame, uint64_t sections) {
    const uint64_t hash = XXH64(frame + 64, sections, XXH64(frame, 56, 0));
    memcpy(frame + 56, &hash, sizeof hash);
}

/* Windows of zstd frames had no limit, so that it was a matter of zstd's version and build which
 * frames decode. This is a block of 300 bytes, all of them 7, with a window of its own. */
static void test_windows_of_zstd(void **unused) {
    (void)unused;
    static const uint8_t block[13] = {0, 2, 8, 0, 0, 0x40, 0, 300 - 256, 0, 0x63, 9, 0, 7};
    static const struct {
        uint8_t window; /* 2^10 and more: five bits of exponent, three of eighths */
        pith_status wanted;
    } cases[] = {{0x00, PITH_OK},          {0x70, PITH_OK},          {0x71, PITH_ERR_CORRUPT},
                 {0x88, PITH_ERR_CORRUPT}, {0xA8, PITH_ERR_CORRUPT}, {0xFF, PITH_ERR_CORRUPT}};
    uint8_t value[300], out[300], frame[64 + 16 + sizeof block];
    memset(value, 7, sizeof value);
    const pith_view v = pith_view_flat(value, PITH_U8, 300), to = pith_view_flat(out, PITH_U8, 300);
    struct frame made = compress("lossless", &v, NULL, 0);
    memset(frame, 0, sizeof frame);
    memcpy(frame, made.bytes, 64);
    frame[32] = 16 + sizeof block;
    frame[64] = sizeof block;
    memcpy(frame + 80, block, sizeof block);
    seal(frame, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        context("window %02x", cases[i].window);
        frame[80 + 6] = cases[i].window;
        CHECK_STATUS(cases[i].wanted, pith_decompress(frame, sizeof frame, NULL, NULL, &to, NULL));
        CHECK(cases[i].wanted != PITH_OK || memcmp(out, value, sizeof value) == 0);
    }
    free(made.bytes);
}

/* A damaged zstd string may decode to other bytes with other versions of zstd, unless the frame has
 * block checksums: byte 0xC7 of lossless-base-f16 is one such place. No change of a byte of a block
 * goes unnoticed there, whatever zstd makes of it. */
static void test_malformed_zstd_under_checksums(void **unused) {
    (void)unused;
    uint16_t base[300], value[300], out[300];
    gen_fill(GEN_NOISE, 21, PITH_F16, base, 300);
    gen_near(22, 1e-4, PITH_F16, value, PITH_F16, base, 300);
    const pith_view v = pith_view_flat(value, PITH_F16, 300),
                    b = pith_view_flat(base, PITH_F16, 300),
                    to = pith_view_flat(out, PITH_F16, 300);
    struct frame f = compress("lossless", &v, &b, PITH_LAYOUT_CHECKSUMS);
    const size_t first = 64 + 32 + 16 + 16;
    for (size_t at = first; at < f.length; at++) {
        const uint8_t kept = f.bytes[at];
        context("byte %zu", at);
        for (int k = 0; k < 9; k++) {
            const uint8_t changed = k == 8 ? 1 : (uint8_t)(kept ^ 1u << k);
            if (changed == kept) continue;
            f.bytes[at] = changed;
            CHECK_STATUS(PITH_ERR_CHECKSUM, pith_verify(f.bytes, f.length, NULL, NULL));
            memset(out, 0x5A, sizeof out);
            CHECK_STATUS(PITH_ERR_CHECKSUM,
                         pith_decompress(f.bytes, f.length, &b, NULL, &to, NULL));
            CHECK(all_bytes((const uint8_t *)out, sizeof out, 0x5A));
        }
        f.bytes[at] = kept;
    }
    CHECK_OK(pith_decompress(f.bytes, f.length, &b, NULL, &to, NULL));
    CHECK(f.length > 0xC7 + 16 && memcmp(out, value, sizeof value) == 0);
    free(f.bytes);
}

static sigjmp_buf outside;

static void jump_out(int number) {
    (void)number;
    siglongjmp(outside, 1);
}

/* Gives a stream a base whose second half nobody may read: true when the call never returned. */
static bool is_lost(pith_work *work, pith_stream *stream, const pith_view *base, bool bind) {
    if (sigsetjmp(outside, 1)) return true;
    if (bind)
        CHECK_OK(pith_stream_bind_base(work, stream, base->data, 3));
    else
        CHECK_OK(pith_stream_set_base(work, stream, base, 3));
    return false;
}

/* A call that was lost while it set a base left it half written with the hash of the one before, so
 * that after pith_stream_unlock frames were encoded that receivers took and decoded to other
 * values. */
static void test_unlock_of_a_base_half_set(void **unused) {
    (void)unused;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 2 * page / sizeof(float);
    struct sigaction jump = {.sa_handler = jump_out}, segv, bus;
    CHECK(sigaction(SIGSEGV, &jump, &segv) == 0 && sigaction(SIGBUS, &jump, &bus) == 0);
    for (int bind = 0; bind < 2; bind++) {
        pith_layout layout = flat_layout(PITH_F32, PITH_F32, count);
        layout.slots = 2;
        layout.flags = bind ? PITH_LAYOUT_EXTERNAL_BASE | PITH_LAYOUT_TRUST_BASE : 0;
        float *const value = allocate(count * sizeof *value), *const held = allocate(2 * page);
        void *const half =
            mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const pith_view v = pith_view_flat(value, PITH_F32, count),
                        cut = pith_view_flat(half, PITH_F32, count),
                        out = pith_view_flat(held, PITH_F32, count);
        pith_work *work;
        void *memory;
        struct stream s;
        size_t n;
        context(bind ? "bind" : "set");
        CHECK(half != MAP_FAILED);
        gen_fill(GEN_NOISE, 1, PITH_F32, value, count);
        memcpy(half, value, 2 * page);
        memset(held, 0, 2 * page);
        CHECK(mprotect((uint8_t *)half + page, page, PROT_NONE) == 0);
        stream_open(&s, "wdiff:group=64,block=512", &layout, NULL);
        if (bind) CHECK_OK(pith_stream_bind_base(s.work, s.stream, held, 1));
        const size_t cap = (size_t)s.sizes.slot_bytes;
        uint8_t *const frame = allocate(cap);
        CHECK(is_lost(s.work, s.stream, &cut, bind));
        pith_stream_unlock(s.stream);
        work = work_for(&s.plan, 1, NULL, &memory); /* that of the lost call is busy for ever */
        CHECK_STATUS(PITH_ERR_STATE, encode_one(work, s.stream, &v, 1, 0, frame, cap, &n));
        if (!bind) {
            CHECK_STATUS(PITH_ERR_STATE, encode_one(work, s.stream, &v, 0, 0, frame, cap, &n));
            CHECK_STATUS(PITH_ERR_STATE, pith_stream_get_base(work, s.stream, 0, &out));
            CHECK_OK(pith_stream_set_base(work, s.stream, &v, 3));
        } else {
            CHECK_OK(pith_stream_bind_base(work, s.stream, held, 3));
        }
        for (uint64_t slot = 0; slot < 2; slot++)
            CHECK_OK(encode_one(work, s.stream, &v, slot, 0, frame, cap, &n));
        stream_close(&s);
        CHECK(munmap(half, 2 * page) == 0);
        free(memory);
        free(frame);
        free(value);
        free(held);
    }
    CHECK(sigaction(SIGSEGV, &segv, NULL) == 0 && sigaction(SIGBUS, &bus, NULL) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce_frames_with_and_without_checksums),
        cmocka_unit_test(test_failed_decode_leaves_the_base_invalid),
        cmocka_unit_test(test_key_frame_of_a_false_hash),
        cmocka_unit_test(test_foreign_stream_with_a_plan_without_base),
        cmocka_unit_test(test_encoder_settings_do_not_part_plans),
        cmocka_unit_test(test_range_checks_its_own_blocks),
        cmocka_unit_test(test_verify_tells_the_byte),
        cmocka_unit_test(test_bound_of_a_layout_with_slots),
        cmocka_unit_test(test_largest_key_frame_of_slots_alike),
        cmocka_unit_test(test_fading_takes_the_rounded_rest),
        cmocka_unit_test(test_rollback_after_a_failed_encode),
        cmocka_unit_test(test_external_base_of_no_base),
        cmocka_unit_test(test_step_without_feedback),
        cmocka_unit_test(test_plan_questions_without_a_plan),
        cmocka_unit_test(test_longest_map_and_source),
        cmocka_unit_test(test_load_of_a_residual_with_a_hole),
        cmocka_unit_test(test_load_of_a_report),
        cmocka_unit_test(test_sum_over_its_own_frame),
        cmocka_unit_test(test_bound_of_tiny_values_with_e8m0),
        cmocka_unit_test(test_stream_of_other_exempt_ranges),
        cmocka_unit_test(test_limit_of_sums),
        cmocka_unit_test(test_windows_of_zstd),
        cmocka_unit_test(test_malformed_zstd_under_checksums),
        cmocka_unit_test(test_unlock_of_a_base_half_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
