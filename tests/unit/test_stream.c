/* test_stream.c - chains of frames: replicas, base hashes, steps, key frames, poison and healing.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cases.h"
#include "gen.h"
#include "util.h"

/* A sender and a receiver of one layout, with the values of the moment. */
struct pair {
    struct stream sender, receiver;
    uint32_t dtype, base_dtype;
    size_t count;
    void *value;
    pith_view view;
};

static void pair_open(struct pair *p, const char *spec, uint32_t dtype, uint32_t base_dtype,
                      size_t count) {
    const pith_layout layout = flat_layout(dtype, base_dtype, count);
    stream_open(&p->sender, spec, &layout, NULL);
    stream_open(&p->receiver, spec, &layout, NULL);
    p->dtype = dtype;
    p->base_dtype = base_dtype;
    p->count = count;
    p->value = allocate(count * pith_dtype_bytes(dtype));
    p->view = pith_view_flat(p->value, dtype, count);
    gen_fill(GEN_NOISE, count + dtype, dtype, p->value, count);
    CHECK_OK(pith_stream_set_base(p->sender.work, p->sender.stream, &p->view, 0));
    CHECK_OK(pith_stream_set_base(p->receiver.work, p->receiver.stream, &p->view, 0));
}

static void pair_close(struct pair *p) {
    stream_close(&p->sender);
    stream_close(&p->receiver);
    free(p->value);
}

/* The base in its own dtype. */
static void *base_of(const struct pair *p, struct stream *s) {
    void *out = allocate(p->count * pith_dtype_bytes(p->base_dtype));
    const pith_view view = pith_view_flat(out, p->base_dtype, p->count);
    CHECK_OK(pith_stream_get_base(s->work, s->stream, 0, &view));
    return out;
}

/* With base_hash=off there is nothing to compare. */
static void check_memory(struct stream *s) {
    const bool compared = pith_stream_base_hash(s->stream, 0) != 0;
    CHECK(pith_stream_verify(s->work, s->stream) == (compared ? PITH_OK : PITH_ERR_UNSUPPORTED));
}

static void check_replicas(const struct pair *p, struct stream *a, struct stream *b) {
    void *x = base_of(p, a), *y = base_of(p, b);
    CHECK(memcmp(x, y, p->count * pith_dtype_bytes(p->base_dtype)) == 0);
    CHECK(pith_stream_base_hash(a->stream, 0) == pith_stream_base_hash(b->stream, 0));
    CHECK(pith_stream_step(a->stream, 0) == pith_stream_step(b->stream, 0));
    check_memory(a);
    check_memory(b);
    free(x);
    free(y);
}

static void drift(struct pair *p, uint64_t seed, double by) {
    void *before = copy_of(p->value, p->count * pith_dtype_bytes(p->dtype));
    gen_near(seed, by, p->dtype, p->value, p->dtype, before, p->count);
    free(before);
}

static void receive(const struct pair *p, struct stream *s, const struct frame *f) {
    void *out = allocate(p->count * pith_dtype_bytes(p->base_dtype));
    const pith_view view = pith_view_flat(out, p->base_dtype, p->count);
    CHECK_OK(decode_one(s->work, s->stream, 0, f->bytes, f->length, &view, 0));
    void *base = base_of(p, s);
    CHECK(memcmp(out, base, p->count * pith_dtype_bytes(p->base_dtype)) == 0);
    free(base);
    free(out);
}

/* ---- Chains ----------------------------------------------------------------------------------*/

/* Applying the frame to a plain array gives what the receiver holds. */
static void check_decode_add(const struct pair *p, struct stream *plain, const void *before,
                             const struct frame *f) {
    void *array = copy_of(before, p->count * pith_dtype_bytes(p->base_dtype));
    const pith_view view = pith_view_flat(array, p->base_dtype, p->count);
    CHECK_OK(decode_one(plain->work, plain->stream, 0, f->bytes, f->length, &view, PITH_ADD));
    void *wanted = base_of(p, plain);
    CHECK(memcmp(array, wanted, p->count * pith_dtype_bytes(p->base_dtype)) == 0);
    free(wanted);
    free(array);
}

/* Poisoned before the chain ends, so that healing is part of it. */
static void spoil(struct pair *p, int step) {
    static const uint32_t bad[3] = {0x7F800000u, 0x7FC00000u, 0xFF800000u};
    if (step != 2 || !p->count) return;
    store_float(p->value, p->dtype, p->count / 2, bad[p->count % 3]);
}

static void check_value(const struct pair *p, const struct test_case *c, const struct frame *f) {
    double bound;
    CHECK_OK(pith_error_bound(f->bytes, f->length, &bound, NULL));
    if (c->exact || bound != bound || p->base_dtype != PITH_F32) return;
    const float *base = base_of(p, (struct stream *)(uintptr_t)&p->receiver);
    for (size_t i = 0; i < p->count; i++) {
        const double v = (double)float_of(load_float(p->value, p->dtype, i));
        CHECK(fabs((double)base[i] - v) <= bound + fabs(v) * 0x1p-22 + 0x1p-126);
    }
    free((void *)(uintptr_t)base);
}

static void one_chain(const struct test_case *c, size_t count) {
    struct pair p;
    const bool real = c->dtype == PITH_F32 || c->dtype == PITH_BF16 || c->dtype == PITH_F16;
    pair_open(&p, c->spec, c->dtype, c->base_dtype, count);
    for (int step = 0; step < 5; step++) {
        context("%s dtype %s base %s x %zu, step %d", c->spec, pith_dtype_name(c->dtype),
                pith_dtype_name(c->base_dtype), count, step);
        if (real)
            drift(&p, (uint64_t)step, 1e-3);
        else
            gen_fill(step % 2 ? GEN_NOISE : GEN_BITS, (uint64_t)step, c->dtype, p.value, count);
        void *clean = copy_of(p.value, count * pith_dtype_bytes(c->dtype));
        if (real && c->base_dtype != PITH_NONE) spoil(&p, step);
        void *before = base_of(&p, &p.receiver);
        struct frame f = stream_encode(&p.sender, &p.view, 0, false);
        CHECK(!c->fixed || f.length == pith_plan_frame_bytes(p.sender.plan, 0, 0));
        receive(&p, &p.receiver, &f);
        check_replicas(&p, &p.sender, &p.receiver);
        check_decode_add(&p, &p.receiver, before, &f);
        check_value(&p, c, &f);
        memcpy(p.value, clean, count * pith_dtype_bytes(c->dtype));
        free(clean);
        free(before);
        free(f.bytes);
    }
    void *last = base_of(&p, &p.receiver);
    for (size_t i = 0; real && !c->exact && i < count; i++)
        CHECK(!nonfinite(load_float(last, c->base_dtype, i)));
    CHECK(!c->exact || memcmp(last, p.value, count * pith_dtype_bytes(c->dtype)) == 0);
    free(last);
    pair_close(&p);
}

static void test_chains(void **state) {
    (void)state;
    const struct test_case *c;
    size_t chains = 0;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        if (c->base_dtype == PITH_NONE) continue;
        const size_t counts[] = {0, 1, 17, c->group + 1, 2 * c->block + 3};
        for (int k = 0; k < 5; k++, chains++) one_chain(c, counts[k] < 40000 ? counts[k] : 40000);
    }
    CHECK(chains > 400 / case_step());
}

/* ---- Poison, healing, saturation -------------------------------------------------------------*/

static void test_poison_is_one_group(void **state) {
    (void)state;
    struct pair p;
    context("poison");
    pair_open(&p, "wdiff:group=16,block=64", PITH_F32, PITH_F32, 50);
    float *v = p.value;
    v[20] = INFINITY;
    struct frame f = stream_encode(&p.sender, &p.view, 0, false);
    receive(&p, &p.receiver, &f);
    float *base = base_of(&p, &p.receiver);
    for (size_t i = 0; i < 50; i++) CHECK((bits_of(base[i]) == 0x7FC00000u) == (i >= 16 && i < 32));
    free(base);
    double bound;
    CHECK_OK(pith_error_bound(f.bytes, f.length, &bound, NULL));
    CHECK(bound != bound);
    free(f.bytes);
    pith_stats sent = {.size = sizeof sent}, got = {.size = sizeof got};
    CHECK_OK(pith_stream_stats(p.sender.stream, &sent));
    CHECK_OK(pith_stream_stats(p.receiver.stream, &got));
    CHECK(sent.poisoned == 1 && got.poisoned == 1 && sent.frames == 1 && got.frames == 1);
    v[20] = 0.5f;
    f = stream_encode(&p.sender, &p.view, 0, false);
    receive(&p, &p.receiver, &f);
    check_replicas(&p, &p.sender, &p.receiver);
    base = base_of(&p, &p.receiver);
    CHECK(fabsf(base[20] - 0.5f) < 0.1f);
    for (size_t i = 0; i < 50; i++) CHECK(!nonfinite(bits_of(base[i])));
    free(base);
    free(f.bytes);
    pair_close(&p);
}

static void test_saturation(void **state) {
    (void)state;
    struct pair p;
    context("saturation");
    pair_open(&p, "wdiff:bits=8,group=16", PITH_F32, PITH_F16, 33);
    float *v = p.value;
    v[3] = 1e6f;
    v[32] = -1e6f;
    struct frame f = stream_encode(&p.sender, &p.view, 0, false);
    receive(&p, &p.receiver, &f);
    check_replicas(&p, &p.sender, &p.receiver);
    uint16_t *base = base_of(&p, &p.receiver);
    CHECK(base[3] == 0x7BFF && base[32] == 0xFBFF);
    pith_stats sent = {.size = sizeof sent}, got = {.size = sizeof got};
    CHECK_OK(pith_stream_stats(p.sender.stream, &sent));
    CHECK_OK(pith_stream_stats(p.receiver.stream, &got));
    CHECK(sent.saturated == 2 && got.saturated == 2 && sent.poisoned == 0);
    free(base);
    free(f.bytes);
    f = stream_encode(&p.sender, &p.view, 0, true);
    receive(&p, &p.receiver, &f);
    check_replicas(&p, &p.sender, &p.receiver);
    base = base_of(&p, &p.receiver);
    CHECK(base[3] == 0x7BFF && base[32] == 0xFBFF);
    free(base);
    free(f.bytes);
    pair_close(&p);
}

/* ---- Key frames ------------------------------------------------------------------------------*/

static void test_late_joiner(void **state) {
    (void)state;
    const uint32_t reals[3] = {PITH_F32, PITH_BF16, PITH_F16};
    for (int k = 0; k < 9; k++) {
        struct pair p;
        struct stream late;
        context("late joiner, dtype %s base %s", pith_dtype_name(reals[k / 3]),
                pith_dtype_name(reals[k % 3]));
        pair_open(&p, "wdiff:group=64,key_every=3", reals[k / 3], reals[k % 3], 1000);
        const pith_layout layout = flat_layout(p.dtype, p.base_dtype, p.count);
        stream_open(&late, "wdiff:group=64,key_every=3", &layout, NULL);
        CHECK(p.sender.sizes.key_bytes == 96 + 1000 * pith_dtype_bytes(p.base_dtype));
        CHECK(p.sender.sizes.slot_bytes == p.sender.sizes.key_bytes);
        CHECK(p.sender.sizes.frame_bytes == pith_plan_frame_bytes(p.sender.plan, 0, 0));
        CHECK(p.sender.sizes.frame_bytes < p.sender.sizes.slot_bytes);
        for (uint64_t step = 0; step < 6; step++) {
            drift(&p, step, 1e-3);
            CHECK(pith_plan_is_key(p.sender.plan, step) == (step % 3 == 0));
            struct frame f = stream_encode(&p.sender, &p.view, 0, false);
            CHECK(f.length == pith_plan_frame_bytes(p.sender.plan, 0, step % 3 == 0));
            receive(&p, &p.receiver, &f);
            if (step >= 3) receive(&p, &late, &f);
            free(f.bytes);
            check_replicas(&p, &p.sender, &p.receiver);
            if (step >= 3) check_replicas(&p, &p.sender, &late);
        }
        stream_close(&late);
        pair_close(&p);
    }
}

static void test_key_by_call(void **state) {
    (void)state;
    const char *specs[3] = {"wdiff:base_hash=off", "wdiff:entropy=zstd", "lossless"};
    for (int k = 0; k < 3; k++) {
        struct pair p;
        struct stream late;
        pith_info info = {.size = sizeof info};
        context("key by call, %s", specs[k]);
        pair_open(&p, specs[k], PITH_BF16, PITH_BF16, 777);
        const pith_layout layout = flat_layout(PITH_BF16, PITH_BF16, 777);
        stream_open(&late, specs[k], &layout, NULL);
        for (uint64_t step = 0; step < 3; step++) {
            drift(&p, step, 1e-3);
            struct frame f = stream_encode(&p.sender, &p.view, 0, step == 1);
            CHECK_OK(pith_inspect(f.bytes, f.length, &info, NULL));
            CHECK(info.is_key == (step == 1) && info.step == step);
            receive(&p, &p.receiver, &f);
            if (step >= 1) receive(&p, &late, &f);
            if (step == 1) {
                void *exact = base_of(&p, &late);
                CHECK(memcmp(exact, p.value, 777 * 2) == 0);
                free(exact);
            }
            free(f.bytes);
        }
        check_replicas(&p, &p.sender, &late);
        pith_stats stats = {.size = sizeof stats};
        CHECK_OK(pith_stream_stats(late.stream, &stats));
        CHECK(stats.frames == 2 && stats.key_frames == 1);
        stream_close(&late);
        pair_close(&p);
    }
}

/* A key frame that a state cannot trust must not pass silently. */
static void test_damaged_key(void **state) {
    (void)state;
    struct pair p;
    context("damaged key frame");
    pair_open(&p, "wdiff", PITH_F32, PITH_BF16, 100);
    struct frame f = stream_encode(&p.sender, &p.view, 0, true);
    f.bytes[f.length - 1] ^= 4;
    CHECK_STATUS(PITH_ERR_CHECKSUM,
                 decode_one(p.receiver.work, p.receiver.stream, 0, f.bytes, f.length, NULL, 0));
    free(f.bytes);
    pair_close(&p);
}

/* ---- Refusals: nothing is written ------------------------------------------------------------*/

struct witness {
    void *memory, *out;
    size_t out_bytes;
    pith_view view;
};

static struct witness witness_of(const struct pair *p) {
    struct witness w = {.out_bytes = p->count * pith_dtype_bytes(p->dtype)};
    w.memory = copy_of(p->receiver.memory, (size_t)p->receiver.sizes.stream_bytes);
    w.out = allocate(w.out_bytes);
    memset(w.out, 0xA5, w.out_bytes);
    w.view = pith_view_flat(w.out, p->dtype, p->count);
    return w;
}

static void refuses(struct pair *p, pith_status wanted, const struct frame *f) {
    struct witness w = witness_of(p);
    CHECK_STATUS(wanted, decode_one(p->receiver.work, p->receiver.stream, 0, f->bytes, f->length,
                                    &w.view, 0));
    CHECK(memcmp(w.memory, p->receiver.memory, (size_t)p->receiver.sizes.stream_bytes) == 0);
    CHECK(all_bytes(w.out, w.out_bytes, 0xA5));
    CHECK(pith_work_error(p->receiver.work)->text[0] != 0);
    free(w.memory);
    free(w.out);
}

static void test_wrong_step_and_base(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p, "wdiff:group=32", PITH_F32, PITH_BF16, 300);
    context("skipped frame");
    struct frame first = stream_encode(&p.sender, &p.view, 0, false);
    drift(&p, 1, 1e-3);
    struct frame second = stream_encode(&p.sender, &p.view, 0, false);
    refuses(&p, PITH_ERR_STEP, &second);
    receive(&p, &p.receiver, &first);
    context("replayed frame");
    refuses(&p, PITH_ERR_STEP, &first);
    context("other base, same step");
    drift(&p, 9, 1e-2);
    CHECK_OK(pith_stream_set_base(p.receiver.work, p.receiver.stream, &p.view, 1));
    refuses(&p, PITH_ERR_BASE, &second);
    void *other = base_of(&p, &p.receiver);
    const pith_view view = pith_view_flat(other, PITH_BF16, 300);
    void *before = copy_of(other, 600);
    CHECK_STATUS(PITH_ERR_BASE, decode_one(p.receiver.work, p.receiver.stream, 0, second.bytes,
                                           second.length, &view, PITH_ADD));
    CHECK_STATUS(PITH_ERR_BASE,
                 pith_decompress(second.bytes, second.length, &view, NULL, &p.view, NULL));
    CHECK(memcmp(before, other, 600) == 0);
    free(before);
    free(other);
    free(first.bytes);
    free(second.bytes);
    pair_close(&p);
}

static void test_other_plans_frames(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t dtype, base_dtype;
        size_t count;
    } others[] = {
        {"wdiff:group=64", PITH_F32, PITH_BF16, 300},
        {"wdiff:group=32,bits=8", PITH_F32, PITH_BF16, 300},
        {"wdiff:group=32", PITH_F32, PITH_F32, 300},
        {"wdiff:group=32", PITH_BF16, PITH_BF16, 300},
        {"wdiff:group=32", PITH_F32, PITH_BF16, 299},
        {"wdiff:group=32,block=64", PITH_F32, PITH_BF16, 300},
        {"lossless", PITH_BF16, PITH_BF16, 300},
        {"wdiff:group=32,base_hash=off", PITH_F32, PITH_BF16, 300},
    };
    struct pair p;
    pair_open(&p, "wdiff:group=32", PITH_F32, PITH_BF16, 300);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct pair q;
        context("frame of %s", others[i].spec);
        pair_open(&q, others[i].spec, others[i].dtype, others[i].base_dtype, others[i].count);
        struct frame f = stream_encode(&q.sender, &q.view, 0, false);
        refuses(&p, PITH_ERR_MISMATCH, &f);
        free(f.bytes);
        pair_close(&q);
    }
    struct frame plain = compress("raw", &p.view, NULL, 0);
    refuses(&p, PITH_ERR_MISMATCH, &plain);
    free(plain.bytes);
    pair_close(&p);
}

/* With base_hash=off only the step is compared: chosen, and said by the frame. */
static void test_base_hash_off(void **state) {
    (void)state;
    struct pair p;
    pith_info info = {.size = sizeof info};
    context("base_hash off");
    pair_open(&p, "wdiff:base_hash=off", PITH_F32, PITH_F32, 64);
    struct frame f = stream_encode(&p.sender, &p.view, 0, false);
    CHECK_OK(pith_inspect(f.bytes, f.length, &info, NULL));
    CHECK(!info.has_base_hash && info.has_step && info.base_hash == 0);
    CHECK(pith_stream_base_hash(p.sender.stream, 0) == 0);
    drift(&p, 4, 1);
    CHECK_OK(pith_stream_set_base(p.receiver.work, p.receiver.stream, &p.view, 0));
    receive(&p, &p.receiver, &f);
    free(f.bytes);
    pair_close(&p);
}

/* The same seed, stream and step give the same bytes; another of any gives others. */
static void test_random_bits(void **state) {
    (void)state;
    const struct {
        uint64_t seed;
        uint32_t stream;
        uint64_t step;
        bool same;
    } tries[] = {{7, 1, 3, true},
                 {8, 1, 3, false},
                 {7, 2, 3, false},
                 {7, 1, 4, false},
                 {7 + (UINT64_C(1) << 32), 1, 3, false}};
    float value[500];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, 500);
    const pith_view view = pith_view_flat(value, PITH_F32, 500);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 500);
    uint8_t first[1024];
    for (size_t i = 0; i < 5; i++) {
        struct stream s;
        context("random bits, try %zu", i);
        const pith_stream_options options = {.size = sizeof options,
                                             .seed = tries[i].seed,
                                             .rng_stream = tries[i].stream,
                                             .step = tries[i].step};
        stream_open_with(&s, "wdiff:round=stochastic", &layout, NULL, &options);
        struct frame f = stream_encode(&s, &view, 0, false);
        if (i == 0) memcpy(first, f.bytes, f.length);
        CHECK((memcmp(first, f.bytes, f.length) == 0) == tries[i].same || i == 0);
        free(f.bytes);
        /* The same by the calls that change a stream which has a past. */
        const pith_stream_options random = {.size = sizeof random, .seed = 7, .rng_stream = 1};
        CHECK_OK(pith_stream_set_random(s.work, s.stream, &random));
        CHECK(pith_stream_step(s.stream, 0) == tries[i].step + 1);
        CHECK_OK(pith_stream_set_step(s.work, s.stream, 0, 3));
        f = stream_encode(&s, &view, 0, false);
        CHECK(memcmp(first, f.bytes, f.length) == 0);
        free(f.bytes);
        stream_close(&s);
    }
}

/* ---- Steps -----------------------------------------------------------------------------------*/

/* By one with every encode that succeeds, and with a base with every decode; by no other call. */
static void steps_of(const struct test_case *c) {
    enum { N = 300 };
    uint8_t value[8 * N], out[8 * N], *frame;
    const pith_layout layout = flat_layout(c->dtype, c->base_dtype, N);
    const bool base = c->base_dtype != PITH_NONE;
    const pith_stream_options options = {.size = sizeof options, .step = 30};
    const pith_view v = pith_view_flat(value, c->dtype, N), o = pith_view_flat(out, c->dtype, N),
                    shorter = pith_view_flat(value, c->dtype, N - 1);
    const uint32_t sum_dtype = base ? c->base_dtype : c->dtype;
    const pith_view sum = pith_view_flat(out, sum_dtype, N);
    const bool adds = base || (c->dtype >= PITH_F32 && c->dtype <= PITH_F16);
    struct stream s, end;
    size_t n;
    stream_open_with(&s, c->spec, &layout, NULL, &options);
    stream_open_end(&end, &s, &options);
    const size_t cap = (size_t)s.sizes.slot_bytes;
    frame = allocate(cap);
    for (uint64_t step = 30; step < 33; step++) {
        gen_fill(GEN_NOISE, step, c->dtype, value, N);
        CHECK(pith_stream_step(s.stream, 0) == step);
        CHECK(encode_one(s.work, s.stream, &shorter, 0, 0, frame, cap, &n) == PITH_ERR_SHAPE);
        CHECK(encode_one(s.work, s.stream, &v, 0, 0, frame, 70, &n) == PITH_ERR_SPACE);
        CHECK(pith_stream_step(s.stream, 0) == step);
        CHECK_OK(encode_one(s.work, s.stream, &v, 0, 0, frame, cap, &n));
        CHECK(pith_stream_step(s.stream, 0) == step + 1);
        memset(out, 0, sizeof out);
        if (adds && step == 30)
            CHECK_OK(decode_one(end.work, end.stream, 0, frame, n, &sum, PITH_ADD));
        CHECK(decode_one(end.work, end.stream, 0, frame, n - 1, &o, 0) == PITH_ERR_TRUNCATED);
        CHECK(pith_stream_step(end.stream, 0) == (base ? step : 30));
        CHECK_OK(decode_one(end.work, end.stream, 0, frame, n, &o, 0));
        CHECK(pith_stream_step(end.stream, 0) == (base ? step + 1 : 30));
    }
    CHECK(pith_stream_step(s.stream, 1) == 0);
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_step(s.work, s.stream, 1, 5));
    CHECK_OK(pith_stream_set_step(s.work, s.stream, 0, UINT32_MAX));
    CHECK(pith_stream_step(s.stream, 0) == UINT32_MAX);
    CHECK_OK(pith_stream_reset(s.work, s.stream));
    CHECK(pith_stream_step(s.stream, 0) == 30);
    free(frame);
    stream_close(&end);
    stream_close(&s);
}

static void test_steps_of_every_codec(void **state) {
    (void)state;
    const struct test_case *c;
    size_t cases = 0;
    for (; (c = case_at(cases)) != NULL; cases++) {
        context("steps of %s dtype %s base %s", c->spec, pith_dtype_name(c->dtype),
                pith_dtype_name(c->base_dtype));
        steps_of(c);
    }
    CHECK(cases > 200 / case_step());
}

/* Of several slots each has its own; what a reset gives back is what the stream began with. */
static void test_options_of_a_stream(void **state) {
    (void)state;
    enum { N = 600, SLOTS = 3 };
    static float value[N];
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N);
    const pith_stream_options options = {
        .size = sizeof options, .seed = 5, .rng_stream = 6, .rank = 1, .ranks = 3, .step = 7};
    struct stream s;
    context("options");
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    layout.slots = SLOTS;
    stream_open_with(&s, "grad:round=antithetic", &layout, NULL, &options);
    for (uint64_t slot = 0; slot < SLOTS; slot++)
        for (uint64_t k = 0; k < slot; k++) {
            struct frame f = stream_encode(&s, &v, slot, false);
            free(f.bytes);
        }
    for (uint64_t slot = 0; slot < SLOTS; slot++)
        CHECK(pith_stream_step(s.stream, slot) == 7 + slot);
    CHECK_OK(pith_stream_reset(s.work, s.stream));
    struct frame first = stream_encode(&s, &v, 1, false);
    for (int k = 0; k < 5; k++) { /* each of the five matters */
        pith_stream_options other = options;
        struct stream t;
        if (k == 0) other.seed++;
        if (k == 1) other.rng_stream++;
        if (k == 2) other.rank++;
        if (k == 3) other.step++;
        stream_open_end(&t, &s, &other);
        struct frame f = stream_encode(&t, &v, 1, false);
        CHECK((memcmp(first.bytes, f.bytes, f.length) == 0) == (k == 4));
        free(f.bytes);
        stream_close(&t);
    }
    free(first.bytes);
    stream_close(&s);
}

static void test_options_refused(void **state) {
    (void)state;
    struct {
        pith_stream_options options;
        uint64_t more;
    } newer = {{.size = sizeof newer, .step = 3}, 0};
    const struct {
        uint32_t rank, ranks;
        pith_status wanted;
    } ranks[] = {{0, 0, PITH_OK},          {0, 1, PITH_OK},
                 {65535, 65536, PITH_OK},  {1, 0, PITH_ERR_ARG},
                 {1, 1, PITH_ERR_ARG},     {7, 7, PITH_ERR_ARG},
                 {0, 65537, PITH_ERR_ARG}, {UINT32_MAX, UINT32_MAX, PITH_ERR_ARG}};
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    struct stream s;
    stream_open(&s, "grad", &layout, NULL);
    const size_t bytes = (size_t)s.sizes.stream_bytes;
    void *memory = allocate(bytes);
    pith_stream *stream;
    pith_error error = {.size = sizeof error};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        const pith_stream_options options = {
            .size = sizeof options, .rank = ranks[i].rank, .ranks = ranks[i].ranks};
        context("rank %u of %u", ranks[i].rank, ranks[i].ranks);
        CHECK_STATUS(ranks[i].wanted,
                     pith_stream_init(s.plan, memory, bytes, &options, &stream, &error));
        CHECK((stream == NULL) == (ranks[i].wanted != PITH_OK));
        CHECK((error.text[0] == 0) == (ranks[i].wanted == PITH_OK));
        CHECK_STATUS(ranks[i].wanted, pith_stream_set_random(s.work, s.stream, &options));
    }
    context("options of other sizes");
    CHECK_OK(pith_stream_init(s.plan, memory, bytes, &newer.options, &stream, &error));
    CHECK(pith_stream_step(stream, 0) == 3);
    newer.more = 1;
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_stream_init(s.plan, memory, bytes, &newer.options, &stream, &error));
    newer.options.size = offsetof(pith_stream_options, step);
    CHECK_OK(pith_stream_init(s.plan, memory, bytes, &newer.options, &stream, &error));
    CHECK(pith_stream_step(stream, 0) == 0);
    newer.options.size = 0;
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_stream_init(s.plan, memory, bytes, &newer.options, &stream, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_random(s.work, s.stream, NULL));
    free(memory);
    stream_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_poison_is_one_group),
        cmocka_unit_test(test_saturation),
        cmocka_unit_test(test_late_joiner),
        cmocka_unit_test(test_key_by_call),
        cmocka_unit_test(test_damaged_key),
        cmocka_unit_test(test_wrong_step_and_base),
        cmocka_unit_test(test_other_plans_frames),
        cmocka_unit_test(test_base_hash_off),
        cmocka_unit_test(test_random_bits),
        cmocka_unit_test(test_steps_of_every_codec),
        cmocka_unit_test(test_options_of_a_stream),
        cmocka_unit_test(test_options_refused),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
