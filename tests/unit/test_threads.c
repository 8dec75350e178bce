/* test_threads.c - the same bytes and the same status on every CPU level and number of threads.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "cases.h"
#include "gen.h"
#include "util.h"

/* ---- Runners ---------------------------------------------------------------------------------*/

struct thread_job {
    void (*job)(void *arg, size_t index);
    void *arg;
    size_t index;
};

static void *thread_main(void *arg) {
    const struct thread_job *j = arg;
    j->job(j->arg, j->index);
    return NULL;
}

/* A thread per job. */
static int run_threads(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    pthread_t thread[8];
    struct thread_job jobs[8];
    (void)user;
    if (count > 8) return 1;
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct thread_job){job, arg, i};
        if (pthread_create(&thread[i], NULL, thread_main, &jobs[i])) abort();
    }
    for (size_t i = 0; i < count; i++) pthread_join(thread[i], NULL);
    return 0;
}

static int run_and_fail(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    (void)user;
    for (size_t i = 0; i < count; i++) job(arg, i);
    return -7;
}

/* Forgets the job whose number is in *user. */
static int run_most(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (i != *(const size_t *)user) job(arg, i);
    return 0;
}

/* ---- The ways to run -------------------------------------------------------------------------*/

struct variant {
    const char *name;
    uint32_t threads, cpu_mask;
    int (*run)(void *, void (*)(void *, size_t), void *, size_t);
};

static const struct variant ways[] = {
    {"scalar", 0, PITH_CPU_SCALAR, NULL},
    {"one thread", 1, 0, NULL},
    {"avx2", 1, PITH_CPU_AVX2, NULL},
    {"all", 0, 0, NULL},
    {"neon", 1, PITH_CPU_NEON, NULL},
    {"three jobs", 3, 0, run_backwards},
    {"seven scalar", 7, PITH_CPU_SCALAR, run_backwards},
    {"three threads", 3, 0, run_threads},
#ifdef _OPENMP
    {"two openmp", 2, 0, NULL},
    {"three openmp", 3, PITH_CPU_AVX2, NULL},
#endif
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static pith_env env_of(const struct variant *w) {
    return (pith_env){
        .size = sizeof(pith_env), .threads = w->threads, .cpu_mask = w->cpu_mask, .run = w->run};
}

/* What a chain of three steps leaves: frames and values, all in one string. */
struct trace {
    uint8_t *bytes;
    size_t length;
};

static void append(struct trace *t, const void *bytes, size_t length) {
    t->bytes = realloc(t->bytes, t->length + length + 1);
    if (!t->bytes) abort();
    if (length) memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
}

static struct trace run_chain(const struct test_case *c, const struct variant *w, size_t count) {
    struct stream a, b;
    struct trace t = {NULL, 0};
    const size_t bytes = count * pith_dtype_bytes(c->dtype);
    pith_layout layout = flat_layout(c->dtype, c->base_dtype, count);
    layout.slots = 2;
    layout.flags = PITH_LAYOUT_CHECKSUMS;
    const pith_env env = env_of(w);
    stream_open(&a, c->spec, &layout, &env);
    stream_open(&b, c->spec, &layout, &env);
    void *value = room(bytes), *out = room(bytes);
    const pith_view v = pith_view_flat(value, c->dtype, count);
    const pith_view o = pith_view_flat(out, c->dtype, count);
    for (int step = 0; step < 3; step++) {
        gen_fill(step == 1 ? GEN_HOLES : GEN_NOISE, (uint64_t)step, c->dtype, value, count);
        for (uint64_t slot = 0; slot < 2; slot++) {
            struct frame f = stream_encode(&a, &v, slot, step == 2 && a.sizes.key_bytes);
            CHECK_OK(pith_decode(b.plan, b.state, slot, f.bytes, f.length, &o));
            append(&t, f.bytes, f.length);
            free(f.bytes);
        }
        append(&t, out, bytes);
    }
    if (a.state) {
        pith_stats stats[2];
        pith_state_stats(a.state, &stats[0]);
        pith_state_stats(b.state, &stats[1]);
        append(&t, stats, sizeof stats);
    }
    free(value);
    free(out);
    stream_close(&a);
    stream_close(&b);
    return t;
}

static void test_same_bytes(void **state) {
    (void)state;
    const struct test_case *c;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        const size_t most = c->bounded ? 3000 : 50000;
        size_t count = 9 * c->block + 5;
        if (count > most) count = most;
        struct trace first = {NULL, 0};
        for (size_t w = 0; w < WAYS; w++) {
            context("%s %s/%s, %s", c->spec, pith_dtype_name(c->dtype),
                    pith_dtype_name(c->base_dtype), ways[w].name);
            struct trace t = run_chain(c, &ways[w], count);
            if (w == 0) first = t;
            CHECK(t.length == first.length && memcmp(t.bytes, first.bytes, t.length) == 0);
            if (w) free(t.bytes);
        }
        free(first.bytes);
    }
}

/* ---- The same status -------------------------------------------------------------------------*/

/* Of several bad blocks the lowest counts, with its place. */
static void test_lowest_block(void **state) {
    (void)state;
    enum { N = 1000 };
    float value[N], out[N];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N), o = pith_view_flat(out, PITH_F32, N);
    for (size_t bad = 0; bad < 15; bad++)
        for (size_t w = 0; w < WAYS; w++) {
            struct frame f = compress("wdiff:group=16,block=64", &v, NULL, PITH_LAYOUT_CHECKSUMS);
            const size_t data = 64 + 16 * 8, block = 16 + 32;
            f.bytes[data + bad * block] ^= 1;
            f.bytes[data + 15 * block] ^= 1;
            f.bytes[data + (bad + 15) / 2 * block + 3] ^= 1;
            const pith_env env = env_of(&ways[w]);
            pith_error error;
            context("lowest block %zu, %s", bad, ways[w].name);
            CHECK_STATUS(PITH_ERR_CHECKSUM,
                         pith_decompress(f.bytes, f.length, NULL, &env, &o, &error));
            CHECK(error.offset == data + bad * block);
            CHECK_STATUS(PITH_ERR_CHECKSUM, pith_verify(f.bytes, f.length, &env, &error));
            CHECK(error.offset == data + bad * block);
            free(f.bytes);
        }
}

/* ---- Runners that fail -----------------------------------------------------------------------*/

static void check_runner(const char *spec,
                         int (*run)(void *, void (*)(void *, size_t), void *, size_t), void *user) {
    enum { N = 1000 };
    float value[N], out[N];
    struct stream good, bad;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N), o = pith_view_flat(out, PITH_F32, N);
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, N);
    pith_env env = {.size = sizeof env, .threads = 3, .run = run, .run_user = user};
    stream_open(&good, spec, &layout, NULL);
    struct frame f = stream_encode(&good, &v, 0, false);
    stream_open(&bad, spec, &layout, &env);
    uint8_t buffer[8192];
    size_t written = 1;
    context("%s, runner that fails", spec);
    CHECK_STATUS(PITH_ERR_RUNNER, pith_decode(bad.plan, bad.state, 0, f.bytes, f.length, &o));
    CHECK_OK(pith_state_reset(bad.plan, bad.state));
    CHECK_STATUS(PITH_ERR_RUNNER,
                 pith_encode(bad.plan, bad.state, &v, 0, buffer, sizeof buffer, &written));
    CHECK(written == 0 && pith_plan_error(bad.plan).text[0]);
    CHECK_STATUS(PITH_ERR_RUNNER, pith_verify(f.bytes, f.length, &env, NULL));
    free(f.bytes);
    stream_close(&good);
    stream_close(&bad);
}

static void test_runners_that_fail(void **state) {
    (void)state;
    static const char *const specs[] = {"wdiff:group=16,block=64", "lossless:block=64"};
    for (size_t i = 0; i < 2; i++) {
        check_runner(specs[i], run_and_fail, NULL);
        for (size_t skipped = 0; skipped < 3; skipped++) check_runner(specs[i], run_most, &skipped);
    }
}

/* ---- Threads of the caller -------------------------------------------------------------------*/

#ifdef _OPENMP
/* In a parallel region every thread has its own plan; nothing nests, the bytes are the same. */
static void test_inside_a_region(void **state) {
    (void)state;
    enum { N = 5000, TEAM = 4 };
    float value[N];
    uint8_t frames[TEAM][8192];
    size_t lengths[TEAM] = {0};
    pith_status status[TEAM];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N);
    context("inside a parallel region");
    struct frame wanted = compress("wdiff:group=64,block=256", &v, NULL, 0);
#pragma omp parallel for num_threads(TEAM)
    for (int i = 0; i < TEAM; i++) {
        const pith_env env = {.size = sizeof env, .threads = 3};
        status[i] = pith_compress("wdiff:group=64,block=256", &v, NULL, NULL, &env, frames[i],
                                  sizeof frames[i], &lengths[i], NULL);
    }
    for (int i = 0; i < TEAM; i++) {
        CHECK_OK(status[i]);
        CHECK(lengths[i] == wanted.length && memcmp(frames[i], wanted.bytes, lengths[i]) == 0);
    }
    free(wanted.bytes);
}
#else
static void test_without_openmp(void **state) {
    (void)state;
    const pith_env env = {.size = sizeof env, .threads = 2};
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 10);
    pith_plan *plan;
    context("without OpenMP");
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_plan_create(&plan, "raw", &layout, &env, NULL));
}
#endif

static void test_thread_limits(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 10);
    pith_plan *plan;
    context("thread limits");
    pith_env env = {.size = sizeof env, .threads = 1025, .run = run_backwards};
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_create(&plan, "raw", &layout, &env, NULL));
    env.threads = 1024;
    CHECK_OK(pith_plan_create(&plan, "raw", &layout, &env, NULL));
    pith_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes),        cmocka_unit_test(test_lowest_block),
        cmocka_unit_test(test_runners_that_fail),
#ifdef _OPENMP
        cmocka_unit_test(test_inside_a_region),
#else
        cmocka_unit_test(test_without_openmp),
#endif
        cmocka_unit_test(test_thread_limits),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
