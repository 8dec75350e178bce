/* test_grad_sum.c - codec grad against its model: frames, sums, sums that are encoded again.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "grad_model.h"
#include "util.h"

enum { FRAMES = 40 };

struct setting {
    const char *spec;
    struct model model;
};
static const struct setting settings[] = {
    {"grad", {4, 128, 32, 0, MODEL_NEAREST, 16384, PITH_F32, 0, 0, 0, 0, 1, 0}},
    {"grad:preset=intra,block=128",
     {8, 128, 32, 0, MODEL_NEAREST, 128, PITH_F32, 0, 0, 0, 0, 1, 0}},
    {"grad:bits=2,group=32,block=32",
     {2, 32, 32, 0, MODEL_NEAREST, 32, PITH_F32, 0, 0, 0, 0, 1, 1}},
    {"grad:bits=6,scale_dtype=bf16,block=32768",
     {6, 128, 32, 0, MODEL_NEAREST, 32768, PITH_BF16, 0, 0, 0, 0, 1, 0}},
    {"grad:round=stochastic,block=256",
     {4, 128, 32, 0, MODEL_STOCHASTIC, 256, PITH_F32, 99, 5, 3, 0, 1, 0}},
    {"grad:bits=3,round=antithetic,block=1024",
     {3, 128, 32, 0, MODEL_ANTITHETIC, 1024, PITH_F32, 1ull << 40, 6, 2, 1, 2, 0}},
    {"grad:bits=5,rotate=0,block=512",
     {5, 128, 0, 0, MODEL_NEAREST, 512, PITH_F32, 0, 0, 0, 0, 1, 0}},
    {"grad:bits=8,group=4096,rotate=256,sign_seed=9",
     {8, 4096, 256, 9, MODEL_NEAREST, 16384, PITH_F32, 0, 0, 0, 0, 1, 0}},
    {"grad:group=256,rotate=256,sign_seed=9,block=2048",
     {4, 256, 256, 9, MODEL_NEAREST, 2048, PITH_F32, 0, 0, 0, 0, 1, 0}},
    {"grad:group=256,rotate=128,sign_seed=4294967295,block=65536",
     {4, 256, 128, 0xFFFFFFFF, MODEL_NEAREST, 65536, PITH_F32, 0, 0, 0, 0, 1, 0}},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* ---- Frames of a plan and of its model --------------------------------------------------------*/

struct bundle {
    const struct setting *t;
    struct stream s;
    size_t count, frames;
    struct frame frame[FRAMES];
    const void *bytes[FRAMES];
    size_t lengths[FRAMES];
};

/* The next frame is made with the model's random bits. */
static void prepare(struct stream *s, const struct model *m) {
    const pith_stream_options options = {.size = sizeof options,
                                         .seed = m->seed,
                                         .rng_stream = m->stream,
                                         .rank = m->rank,
                                         .ranks = m->ranks};
    CHECK_OK(pith_stream_set_random(s->work, s->stream, &options));
    CHECK_OK(pith_stream_set_step(s->work, s->stream, 0, m->step));
}

/* A work for sums of frames of one stream that are encoded by another. */
static pith_work *work_of_two(const struct stream *in, const struct stream *out,
                              const pith_env *env, void **memory) {
    const pith_plan *const plans[2] = {in->plan, out->plan};
    return work_for(plans, 2, env, memory);
}

static void bundle_open(struct bundle *b, const struct setting *t, size_t count, size_t frames,
                        enum gen kind, const pith_env *env) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, count);
    float *x = allocate(count * sizeof *x);
    const pith_view v = pith_view_flat(x, PITH_F32, count);
    *b = (struct bundle){.t = t, .count = count, .frames = frames};
    stream_open(&b->s, t->spec, &layout, env);
    for (size_t i = 0; i < frames; i++) {
        prepare(&b->s, &t->model);
        gen_fill(kind, i + 1, PITH_F32, x, count);
        b->frame[i] = stream_encode(&b->s, &v, 0, false);
        b->bytes[i] = b->frame[i].bytes;
        b->lengths[i] = b->frame[i].length;
    }
    free(x);
}

static void bundle_close(struct bundle *b) {
    for (size_t i = 0; i < b->frames; i++) free(b->frame[i].bytes);
    stream_close(&b->s);
}

/* The frame's header, then exactly these blocks. */
static void check_blocks(const uint8_t *bytes, size_t length, const struct model *m, const float *x,
                         size_t count) {
    const struct frame f = {(uint8_t *)(uintptr_t)bytes, length};
    const size_t size = model_bytes(m, count);
    uint8_t *blocks = allocate(size);
    model_code(m, x, count, blocks);
    CHECK(length == header_of(&f) + size);
    CHECK(memcmp(bytes + header_of(&f), blocks, size) == 0);
    free(blocks);
}

static void check_values(const float *got, const float *wanted, size_t count) {
    float w;
    for (size_t i = 0; i < count; i++) {
        store_float(&w, PITH_F32, 0, bits_of(wanted[i]));
        CHECK(bits_of(got[i]) == bits_of(w));
    }
}

static const size_t counts[] = {0, 1, 31, 33, 127, 128, 1000, 4096, 9999, 40000};
enum { COUNTS = sizeof counts / sizeof counts[0] };
static const enum gen kinds[] = {GEN_NOISE, GEN_HOLES, GEN_LARGE, GEN_TINY, GEN_BITS, GEN_TIES};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void test_frames(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++)
        for (size_t n = 0; n < COUNTS; n++)
            for (size_t k = 0; k < KINDS; k++) {
                const struct model *m = &settings[i].model;
                const size_t count = counts[n];
                struct bundle b;
                context("%s count %zu %s", settings[i].spec, count, gen_name(kinds[k]));
                bundle_open(&b, &settings[i], count, 1, kinds[k], NULL);
                float *x = allocate(count * 4), *got = allocate(count * 4);
                gen_fill(kinds[k], 1, PITH_F32, x, count);
                model_rotate(m, x, count);
                check_blocks(b.frame[0].bytes, b.frame[0].length, m, x, count);
                model_decode(m, b.frame[0].bytes + header_of(&b.frame[0]), count, x);
                model_unrotate(m, x, count);
                const pith_view v = pith_view_flat(got, PITH_F32, count);
                CHECK_OK(decode_one(b.s.work, b.s.stream, 0, b.bytes[0], b.lengths[0], &v, 0));
                check_values(got, x, count);
                free(x);
                free(got);
                bundle_close(&b);
            }
}

/* ---- Sums -------------------------------------------------------------------------------------*/

/* Sums the frames as they are coded, without rotating back. */
static float *coded_sum(const struct bundle *b) {
    float *sum = allocate(b->count * 4), *x = allocate(b->count * 4);
    for (size_t i = 0; i < b->frames; i++) {
        model_decode(&b->t->model, b->frame[i].bytes + header_of(&b->frame[i]), b->count, x);
        for (size_t k = 0; k < b->count; k++) sum[k] = i ? sum[k] + x[k] : x[k];
    }
    free(x);
    return sum;
}

static void times(float *x, size_t count, float scale) {
    for (size_t k = 0; scale != 1 && k < count; k++) x[k] = x[k] * scale;
}

static void check_reduce(const struct bundle *b, float scale) {
    static const uint32_t reals[3] = {PITH_F32, PITH_BF16, PITH_F16};
    float *sum = coded_sum(b);
    model_unrotate(&b->t->model, sum, b->count);
    times(sum, b->count, scale);
    for (int64_t k = 0; k < 6; k++) { /* dense, then every second element */
        const uint32_t dtype = reals[k % 3];
        const size_t step = 1 + (size_t)k / 3, bytes = step * b->count * pith_dtype_bytes(dtype);
        uint8_t *got = allocate(bytes), *wanted = allocate(bytes);
        const pith_view v = {got, dtype, 1, {b->count}, {(int64_t)step}};
        memset(got, 0x5A, bytes);
        memset(wanted, 0x5A, bytes);
        for (size_t i = 0; i < b->count; i++) store_float(wanted, dtype, step * i, bits_of(sum[i]));
        CHECK_OK(reduce_one(b->s.work, b->s.stream, 0, b->bytes, b->lengths, b->frames, scale, &v));
        CHECK(memcmp(got, wanted, bytes) == 0);
        free(got);
        free(wanted);
    }
    free(sum);
}

/* The sum in the domain of the second plan, times scale. */
static float *recoded_sum(const struct bundle *b, const struct model *to, float scale) {
    const struct model *from = &b->t->model;
    float *sum = coded_sum(b);
    if (from->rotate == to->rotate && from->signs == to->signs) {
        times(sum, b->count, scale);
        return sum;
    }
    model_unrotate(from, sum, b->count);
    times(sum, b->count, scale);
    model_rotate(to, sum, b->count);
    return sum;
}

static void check_reduce_encode(const struct bundle *b, const struct setting *to, float scale,
                                const pith_env *env) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, b->count);
    struct stream out;
    size_t length;
    void *memory;
    stream_open(&out, to->spec, &layout, env);
    prepare(&out, &to->model);
    pith_work *const work = work_of_two(&b->s, &out, env, &memory);
    const size_t cap = (size_t)out.sizes.slot_bytes;
    uint8_t *got = allocate(cap);
    CHECK_OK(reduce_encode_one(work, b->s.stream, 0, b->bytes, b->lengths, b->frames, scale,
                               out.stream, 0, got, cap, &length));
    float *sum = recoded_sum(b, &to->model, scale);
    check_blocks(got, length, &to->model, sum, b->count);
    free(sum);
    free(got);
    free(memory);
    stream_close(&out);
}

static void test_sums(void **state) {
    (void)state;
    static const float scales[] = {1, 0.25f, 1.0f / 3};
    for (size_t i = 0; i < SETTINGS; i++)
        for (size_t n = 0; n < COUNTS; n++)
            for (size_t k = 0; k < 3; k++) {
                struct bundle b;
                const size_t frames = 1 + (i + n + k) % 5;
                context("%zu frames of %s count %zu %s", frames, settings[i].spec, counts[n],
                        gen_name(kinds[k]));
                pith_env env = test_env();
                env.threads = 1 + (uint32_t)(n % 3);
                env.run = run_backwards;
                bundle_open(&b, &settings[i], counts[n], frames, kinds[k], &env);
                check_reduce(&b, scales[(n + k) % 3]);
                bundle_close(&b);
            }
}

/* Every pair of settings: equal and other rotations, blocks smaller, equal and larger. */
static void test_second_hop(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 33, 1000, 9999, 40000};
    for (size_t i = 0; i < SETTINGS; i++)
        for (size_t o = 0; o < SETTINGS; o++) {
            struct bundle b;
            const size_t count = lengths[(i + o) % 5], frames = 1 + (i + 3 * o) % 4;
            const enum gen kind = kinds[(i + o) % 3];
            pith_env env = test_env();
            env.threads = 1 + (uint32_t)(o % 3);
            env.run = run_backwards;
            context("%zu frames of %s to %s count %zu %s", frames, settings[i].spec,
                    settings[o].spec, count, gen_name(kind));
            bundle_open(&b, &settings[i], count, frames, kind, &env);
            check_reduce_encode(&b, &settings[o], 1, &env);
            env.threads = 1 + (uint32_t)(i % 2);
            check_reduce_encode(&b, &settings[o], 0.3f, &env);
            bundle_close(&b);
        }
}

/* Sums take their frames 32 at a time. */
static void test_many_frames(void **state) {
    (void)state;
    for (size_t frames = 31; frames <= FRAMES; frames += 3) {
        struct bundle b;
        context("%zu frames", frames);
        bundle_open(&b, &settings[1], 1000, frames, GEN_NOISE, NULL);
        check_reduce(&b, 1.0f / (float)frames);
        check_reduce_encode(&b, &settings[0], 1, NULL);
        bundle_close(&b);
    }
}

/* ---- Other codecs on either side --------------------------------------------------------------*/

static void test_to_raw(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 9999);
    for (size_t i = 0; i < SETTINGS; i++) {
        struct bundle b;
        struct stream raw;
        size_t length;
        context("%s to raw", settings[i].spec);
        bundle_open(&b, &settings[i], 9999, 3, GEN_NOISE, NULL);
        stream_open(&raw, "raw:block=64", &layout, NULL);
        void *memory;
        pith_work *const work = work_of_two(&b.s, &raw, NULL, &memory);
        uint8_t *got = allocate((size_t)raw.sizes.slot_bytes);
        CHECK_OK(reduce_encode_one(work, b.s.stream, 0, b.bytes, b.lengths, 3, 0.5f, raw.stream, 0,
                                   got, (size_t)raw.sizes.slot_bytes, &length));
        float *sum = coded_sum(&b), *values = allocate(9999 * 4);
        model_unrotate(&settings[i].model, sum, 9999);
        times(sum, 9999, 0.5f);
        const pith_view v = pith_view_flat(values, PITH_F32, 9999);
        CHECK_OK(decode_one(raw.work, raw.stream, 0, got, length, &v, 0));
        check_values(values, sum, 9999);
        free(sum);
        free(values);
        free(got);
        free(memory);
        stream_close(&raw);
        bundle_close(&b);
    }
}

static void test_from_raw(void **state) {
    (void)state;
    enum { COUNT = 9999 };
    static const struct setting raw = {"raw:block=128", {.ranks = 1}};
    float *sum = allocate(COUNT * 4), *x = allocate(COUNT * 4);
    for (size_t o = 0; o < SETTINGS; o++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
        const struct model *m = &settings[o].model;
        struct bundle b;
        struct stream out;
        size_t length;
        context("raw to %s", settings[o].spec);
        bundle_open(&b, &raw, COUNT, 2, GEN_NOISE, NULL);
        stream_open(&out, settings[o].spec, &layout, NULL);
        prepare(&out, m);
        void *memory;
        pith_work *const work = work_of_two(&b.s, &out, NULL, &memory);
        gen_fill(GEN_NOISE, 1, PITH_F32, sum, COUNT);
        gen_fill(GEN_NOISE, 2, PITH_F32, x, COUNT);
        for (size_t i = 0; i < COUNT; i++) sum[i] = (sum[i] + x[i]) * 3;
        model_rotate(m, sum, COUNT);
        uint8_t *got = allocate((size_t)out.sizes.slot_bytes);
        CHECK_OK(reduce_encode_one(work, b.s.stream, 0, b.bytes, b.lengths, 2, 3, out.stream, 0,
                                   got, (size_t)out.sizes.slot_bytes, &length));
        check_blocks(got, length, m, sum, COUNT);
        free(got);
        free(memory);
        stream_close(&out);
        bundle_close(&b);
    }
    free(sum);
    free(x);
}

/* ---- What goes wrong with values --------------------------------------------------------------*/

static pith_stats stats_of(const struct stream *s) {
    pith_stats stats = {.size = sizeof stats};
    CHECK_OK(pith_stream_stats(s->stream, &stats));
    return stats;
}

/* Seen after one hop, two hops and at the end in exactly its group, and counted at each. */
static void test_poison_survives_two_hops(void **state) {
    (void)state;
    enum { COUNT = 1000, BAD = 300, GROUP = 128 };
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct stream in, out;
    float x[COUNT];
    size_t length;
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    stream_open(&in, "grad:preset=intra,block=256", &layout, NULL);
    stream_open(&out, "grad", &layout, NULL);
    void *memory;
    pith_work *const work = work_of_two(&in, &out, NULL, &memory);
    struct frame f[2];
    const void *bytes[2];
    size_t lengths[2];
    for (size_t i = 0; i < 2; i++) {
        gen_fill(GEN_NOISE, i, PITH_F32, x, COUNT);
        if (i) x[BAD] = -INFINITY;
        f[i] = stream_encode(&in, &v, 0, false);
        bytes[i] = f[i].bytes;
        lengths[i] = f[i].length;
        CHECK(stats_of(&in).poisoned == i && stats_of(&in).frames == i + 1);
    }
    uint8_t *second = allocate((size_t)out.sizes.slot_bytes);
    CHECK_OK(reduce_encode_one(work, in.stream, 0, bytes, lengths, 2, 1, out.stream, 0, second,
                               (size_t)out.sizes.slot_bytes, &length));
    CHECK(stats_of(&in).poisoned == 2 && stats_of(&in).frames == 4);
    CHECK(stats_of(&out).poisoned == 1 && stats_of(&out).frames == 1);
    double bound;
    CHECK_OK(pith_error_bound(second, length, &bound, NULL));
    CHECK(isnan(bound));
    const void *again[2] = {second, second};
    const size_t again_lengths[2] = {length, length};
    CHECK_OK(reduce_one(out.work, out.stream, 0, again, again_lengths, 2, 0.5f, &v));
    CHECK(stats_of(&out).poisoned == 3 && stats_of(&out).frames == 3);
    for (size_t i = 0; i < COUNT; i++) {
        context("element %zu: %g", i, (double)x[i]);
        if (i / GROUP == BAD / GROUP)
            CHECK(bits_of(x[i]) == 0x7FC00000u);
        else
            CHECK(fabsf(x[i]) < 1);
    }
    for (size_t i = 0; i < 2; i++) free(f[i].bytes);
    free(second);
    free(memory);
    stream_close(&in);
    stream_close(&out);
}

/* bf16 scales round up: the largest code times the scale can be beyond f32. */
static void test_saturated_is_counted(void **state) {
    (void)state;
    enum { COUNT = 256 };
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    const float most = float_of(0x7F7FFFFFu);
    float x[COUNT];
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    struct stream s;
    unsigned over = 0;
    for (unsigned bits = 2; bits <= 8; bits += bits == 6 ? 2 : 1) {
        char spec[64];
        snprintf(spec, sizeof spec, "grad:bits=%u,rotate=0,search=none,scale_dtype=bf16", bits);
        const struct model m = {bits, 128, 0, 0, MODEL_NEAREST, 16384, PITH_BF16, 0, 0, 0, 0, 1, 0};
        uint8_t scale[2];
        context("%s", spec);
        stream_open(&s, spec, &layout, NULL);
        for (size_t i = 0; i < COUNT; i++) x[i] = i % 2 ? most : -most;
        store_float(scale, PITH_BF16, 0, bits_of(most / (float)((1 << (m.bits - 1)) - 1)));
        const float rounded = float_of(load_float(scale, PITH_BF16, 0));
        const bool overflows = isinf(rounded * (float)((1 << (m.bits - 1)) - 1));
        struct frame f = stream_encode(&s, &v, 0, false);
        CHECK_OK(decode_one(s.work, s.stream, 0, f.bytes, f.length, &v, 0));
        CHECK(stats_of(&s).saturated == (overflows && !isinf(rounded) ? COUNT : 0));
        for (size_t i = 0; i < COUNT; i++) CHECK(isfinite(x[i]));
        CHECK(stats_of(&s).poisoned == 0);
        const void *bytes[2] = {f.bytes, f.bytes};
        const size_t lengths[2] = {f.length, f.length};
        CHECK_OK(reduce_one(s.work, s.stream, 0, bytes, lengths, 2, 1, &v));
        CHECK(stats_of(&s).saturated == (overflows && !isinf(rounded) ? 3 * COUNT : 0));
        over += overflows && !isinf(rounded);
        free(f.bytes);
        stream_close(&s);
    }
    CHECK(over > 0);
}

/* ---- Threads ---------------------------------------------------------------------------------*/

enum { LARGE = 100000, ROUNDS = 3 };

/* All bytes that a chain with error feedback and exempt elements makes. */
static struct frame chain(const char *in_spec, const char *out_spec, const pith_env *env,
                          pith_stats stats[2]) {
    static const pith_exempt map[] = {
        {100, 50, PITH_EXEMPT_16}, {16380, 10, PITH_EXEMPT_EXACT}, {50000, 20000, PITH_EXEMPT_16}};
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, LARGE);
    layout.exempt = map;
    layout.exempt_count = 3;
    layout.flags = PITH_LAYOUT_CHECKSUMS;
    struct stream in, out;
    float *x = allocate(LARGE * 4);
    const pith_view v = pith_view_flat(x, PITH_F32, LARGE);
    stream_open(&in, in_spec, &layout, env);
    stream_open(&out, out_spec, &layout, env);
    void *memory;
    pith_work *const work = work_of_two(&in, &out, env, &memory);
    const size_t each = (size_t)(in.sizes.slot_bytes + out.sizes.slot_bytes + LARGE * 4);
    struct frame all = {allocate(ROUNDS * each), 0};
    for (uint64_t step = 0; step < ROUNDS; step++) {
        uint8_t *const first = all.bytes + all.length;
        const void *const bytes[2] = {first, first};
        size_t lengths[2], length;
        gen_fill(step == 1 ? GEN_HOLES : GEN_NOISE, step, PITH_F32, x, LARGE);
        CHECK_OK(
            encode_one(work, in.stream, &v, 0, 0, first, (size_t)in.sizes.slot_bytes, &lengths[0]));
        lengths[1] = lengths[0];
        CHECK_OK(reduce_one(work, in.stream, 0, bytes, lengths, 2, 0.5f, &v));
        CHECK_OK(reduce_encode_one(work, in.stream, 0, bytes, lengths, 2, 1, out.stream, 0,
                                   first + lengths[0], (size_t)out.sizes.slot_bytes, &length));
        memcpy(first + lengths[0] + length, x, LARGE * 4);
        all.length += lengths[0] + length + LARGE * 4;
    }
    stats[0] = stats_of(&in);
    stats[1] = stats_of(&out);
    free(memory);
    free(x);
    stream_close(&in);
    stream_close(&out);
    return all;
}

static bool can_run(const pith_env *env) {
    pith_work *work;
    const size_t bytes = (size_t)pith_work_bytes(NULL, 0, env->threads);
    void *const memory = allocate(bytes);
    const pith_status status = pith_work_init(memory, bytes, env, &work, NULL);
    CHECK(status == PITH_OK || (status == PITH_ERR_UNSUPPORTED && !env->run));
    free(memory);
    return status == PITH_OK;
}

static void test_threads(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"grad:preset=intra,ef=full", "grad:bits=3,ef=ema:0.5,block=1024"},
        {"grad:block=256,ef=ema:0.9", "grad:rotate=0,ef=full,block=65536"},
        {"grad:block=32768,sign_seed=2", "grad:group=32,sign_seed=2,block=64,ef=full"}};
    for (size_t i = 0; i < 3; i++) {
        pith_stats wanted_stats[2], stats[2];
        const pith_env alone = test_env();
        struct frame wanted = chain(pairs[i][0], pairs[i][1], &alone, wanted_stats);
        for (uint32_t threads = 2; threads <= 8; threads += 3)
            for (int own = 0; own < 2; own++) {
                pith_env env = test_env();
                env.threads = threads;
                env.run = own ? run_backwards : NULL;
                context("%s to %s, %u threads, runner %d", pairs[i][0], pairs[i][1], threads, own);
                if (!can_run(&env)) continue; /* no OpenMP */
                struct frame got = chain(pairs[i][0], pairs[i][1], &env, stats);
                CHECK(got.length == wanted.length);
                CHECK(memcmp(got.bytes, wanted.bytes, got.length) == 0);
                CHECK(memcmp(stats, wanted_stats, sizeof stats) == 0 && stats[0].poisoned > 0);
                free(got.bytes);
            }
        free(wanted.bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_second_hop),
        cmocka_unit_test(test_many_frames),
        cmocka_unit_test(test_to_raw),
        cmocka_unit_test(test_from_raw),
        cmocka_unit_test(test_poison_survives_two_hops),
        cmocka_unit_test(test_saturated_is_counted),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("grad_sum", tests, NULL, NULL);
}
