/* test_threads.c - the same bytes and the same status on every CPU level and number of threads, and
 * plans that many threads use at once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * form/check_tsan.sh runs this program under ThreadSanitizer. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <pthread.h>
#include <sched.h>
#ifdef _OPENMP
#include <omp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

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

/* ---- Variants --------------------------------------------------------------------------------*/

struct variant {
    const char *name;
    uint32_t threads, cpu_mask;
    int (*run)(void *, void (*)(void *, size_t), void *, size_t);
};

static const struct variant variants[] = {
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
enum { VARIANTS = sizeof variants / sizeof variants[0] };

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
    void *value = allocate(bytes), *out = allocate(bytes);
    const pith_view v = pith_view_flat(value, c->dtype, count);
    const pith_view o = pith_view_flat(out, c->dtype, count);
    for (int step = 0; step < 3; step++) {
        gen_fill(step == 1 ? GEN_HOLES : GEN_NOISE, (uint64_t)step, c->dtype, value, count);
        for (uint64_t slot = 0; slot < 2; slot++) {
            struct frame f = stream_encode(&a, &v, slot, step == 2 && a.sizes.key_bytes);
            CHECK_OK(decode_one(b.work, b.stream, slot, f.bytes, f.length, &o, 0));
            append(&t, f.bytes, f.length);
            free(f.bytes);
        }
        append(&t, out, bytes);
    }
    pith_stats stats[2] = {{.size = sizeof stats[0]}, {.size = sizeof stats[1]}};
    CHECK_OK(pith_stream_stats(a.stream, &stats[0]));
    CHECK_OK(pith_stream_stats(b.stream, &stats[1]));
    append(&t, stats, sizeof stats);
    free(value);
    free(out);
    stream_close(&a);
    stream_close(&b);
    return t;
}

/* ThreadSanitizer has nothing to see where one thread does all: one such variant is compared with
 * those of several. */
static bool is_wanted(const struct variant *w) {
#ifdef __SANITIZE_THREAD__
    return w->run == run_threads || strcmp(w->name, "one thread") == 0;
#else
    (void)w;
    return true;
#endif
}

static void test_same_bytes(void **state) {
    (void)state;
    const struct test_case *c;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        const size_t most = c->bounded ? 3000 : 50000;
        size_t count = 9 * c->block + 5;
        if (count > most) count = most;
        struct trace first = {NULL, 0};
        for (size_t w = 0; w < VARIANTS; w++) {
            if (!is_wanted(&variants[w])) continue;
            context("%s %s/%s, %s", c->spec, pith_dtype_name(c->dtype),
                    pith_dtype_name(c->base_dtype), variants[w].name);
            struct trace t = run_chain(c, &variants[w], count);
            const bool is_first = !first.bytes;
            if (is_first) first = t;
            CHECK(t.length == first.length && memcmp(t.bytes, first.bytes, t.length) == 0);
            if (!is_first) free(t.bytes);
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
        for (size_t w = 0; w < VARIANTS; w++) {
            struct frame f = compress("wdiff:group=16,block=64", &v, NULL, PITH_LAYOUT_CHECKSUMS);
            const size_t data = 64 + 16 * 8, block = 16 + 32;
            f.bytes[data + bad * block] ^= 1;
            f.bytes[data + 15 * block] ^= 1;
            f.bytes[data + (bad + 15) / 2 * block + 3] ^= 1;
            const pith_env env = env_of(&variants[w]);
            pith_error error = {.size = sizeof error};
            context("lowest block %zu, %s", bad, variants[w].name);
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
    CHECK_STATUS(PITH_ERR_RUNNER, decode_one(bad.work, bad.stream, 0, f.bytes, f.length, &o, 0));
    CHECK_OK(pith_stream_reset(bad.work, bad.stream));
    CHECK_STATUS(PITH_ERR_RUNNER,
                 encode_one(bad.work, bad.stream, &v, 0, 0, buffer, sizeof buffer, &written));
    CHECK(written == 0 && pith_work_error(bad.work)->text[0]);
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

/* One-shot calls look at the caller's number of threads before they cut it to the blocks. */
static void check_one_shot(const pith_env *env, pith_status wanted) {
    static const float x[16];
    const pith_view view = pith_view_flat(x, PITH_F32, 16);
    uint8_t frame[256];
    size_t bytes;
    CHECK_STATUS(wanted,
                 pith_compress("raw", &view, NULL, NULL, env, frame, sizeof frame, &bytes, NULL));
    CHECK_OK(pith_compress("raw", &view, NULL, NULL, NULL, frame, sizeof frame, &bytes, NULL));
    CHECK_STATUS(wanted, pith_verify(frame, bytes, env, NULL));
}

static void check_work(const pith_env *env, pith_status wanted) {
    pith_work *work;
    pith_error error = {.size = sizeof error};
    const uint64_t bytes = pith_work_bytes(NULL, 0, env->threads);
    const size_t given = bytes < 1 << 24 ? (size_t)bytes : 1 << 24;
    void *const memory = allocate(given);
    CHECK_STATUS(wanted, pith_work_init(memory, given, env, &work, &error));
    CHECK((work != NULL) == (wanted == PITH_OK));
    CHECK((error.text[0] == 0) == (wanted == PITH_OK));
    free(memory);
}

#ifdef _OPENMP
/* In a parallel region every thread has its own plan and work; nothing nests, the bytes are the
 * same. */
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

/* Values on pages that cannot be read until a thread has tried to: `first` has that thread. The
 * handler of the fault opens the page. */
enum { PAGES = 64 };
static struct untouched {
    uint8_t *bytes;
    size_t page;
    pthread_t first[PAGES];
} untouched[2];

static void on_fault(int number, siginfo_t *info, void *ignored) {
    const uint8_t *const at = info->si_addr;
    (void)number;
    (void)ignored;
    for (size_t i = 0; i < 2; i++) {
        struct untouched *const u = &untouched[i];
        if (at < u->bytes || at >= u->bytes + PAGES * u->page) continue;
        const size_t page = (size_t)(at - u->bytes) / u->page;
        u->first[page] = pthread_self();
        if (mprotect(u->bytes + page * u->page, u->page, PROT_READ) == 0) return;
    }
    abort();
}

static void untouched_open(struct untouched *u) {
    u->page = (size_t)sysconf(_SC_PAGESIZE);
    void *const p = mmap(NULL, PAGES * u->page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    u->bytes = p;
}

/* Whether one thread alone, the one that calls, was the first on every page. */
static bool untouched_encode(struct untouched *u, pith_status *status, void *frame, size_t cap) {
    const pith_env env = {.size = sizeof env, .threads = 2};
    const pith_view v = pith_view_flat(u->bytes, PITH_F32, PAGES * u->page / sizeof(float));
    size_t length;
    *status =
        pith_compress("wdiff:group=64,block=256", &v, NULL, NULL, &env, frame, cap, &length, NULL);
    bool alone = true;
    for (size_t i = 0; i < PAGES; i++) alone &= pthread_equal(u->first[i], pthread_self()) != 0;
    return alone;
}

/* Two threads read what is encoded; inside a parallel region only the one that calls does, even
 * where OpenMP would nest. */
static void test_nothing_nests(void **state) {
    (void)state;
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, segv, bus;
    const size_t cap = PAGES * (size_t)sysconf(_SC_PAGESIZE);
    const int levels = omp_get_max_active_levels();
    uint8_t *const frames[2] = {allocate(cap), allocate(cap)};
    pith_status status[2] = {PITH_ERR_RUNNER, PITH_ERR_RUNNER};
    bool alone[2] = {false, false};
    context("nothing nests");
    CHECK(sigaction(SIGSEGV, &fault, &segv) == 0 && sigaction(SIGBUS, &fault, &bus) == 0);
    untouched_open(&untouched[0]);
    CHECK(!untouched_encode(&untouched[0], &status[0], frames[0], cap));
    CHECK_OK(status[0]);
    CHECK(munmap(untouched[0].bytes, PAGES * untouched[0].page) == 0);
    untouched_open(&untouched[0]);
    untouched_open(&untouched[1]);
    omp_set_max_active_levels(2);
#pragma omp parallel for num_threads(2) schedule(static, 1)
    for (int i = 0; i < 2; i++)
        alone[i] = untouched_encode(&untouched[i], &status[i], frames[i], cap);
    omp_set_max_active_levels(levels);
    CHECK(sigaction(SIGSEGV, &segv, NULL) == 0 && sigaction(SIGBUS, &bus, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(status[i]);
        CHECK(alone[i]);
        CHECK(munmap(untouched[i].bytes, PAGES * untouched[i].page) == 0);
        free(frames[i]);
    }
}
#else
static void test_without_openmp(void **state) {
    (void)state;
    pith_env env = {.size = sizeof env, .threads = 2};
    context("without OpenMP");
    check_work(&env, PITH_ERR_UNSUPPORTED);
    check_one_shot(&env, PITH_ERR_UNSUPPORTED);
    env.run = run_backwards;
    check_work(&env, PITH_OK);
}
#endif

static void test_thread_limits(void **state) {
    (void)state;
    pith_env env = {.size = sizeof env, .threads = 1025, .run = run_backwards};
    context("thread limits");
    check_work(&env, PITH_ERR_ARG);
    check_one_shot(&env, PITH_ERR_ARG);
    env.threads = UINT32_MAX;
    check_work(&env, PITH_ERR_ARG);
    check_one_shot(&env, PITH_ERR_ARG);
    env.threads = 1024;
    check_work(&env, PITH_OK);
    check_one_shot(&env, PITH_OK);
}

/* ---- One plan, many threads ------------------------------------------------------------------*/

/* ELEMENTS: of a tensor. TOKENS, HEADS, DIM: of a cache. Threads do not check anything, since a
 * failed check leaves its test by a jump: they note what went wrong first. */
enum {
    SHARERS = 8,
    ELEMENTS = 600,
    STEPS = 3,
    TOKENS = 150,
    HEADS = 2,
    DIM = 32,
    ROW = HEADS * DIM,
    SHARED_MAX = 2048
};

struct shared {
    const char *spec;
    uint32_t dtype, base_dtype;
    bool cache; /* a plan of caches, with a shape of its own */
};
/* Settings that the table of cases does not have: residuals, key frames by the spec's own rule,
 * windows of exact tokens, groups along channels. */
static const struct shared more[] = {
    {"grad:ef=full,group=32,block=64", PITH_F32, PITH_NONE, false},
    {"grad:ef=ema:0.5,round=antithetic", PITH_BF16, PITH_NONE, false},
    {"wdiff:key_every=2,group=16,block=64", PITH_F32, PITH_BF16, false},
    {"embed:dim=8,decay=linear,steps=5", PITH_F32, PITH_NONE, false},
    {"kv:window=20,page=16,group=16", PITH_BF16, PITH_NONE, true},
    {"kv:axis=channel,page=32,group=16,window=9", PITH_F16, PITH_NONE, true},
};

/* All plans that the threads share, made and destroyed by the test. */
static struct shared shared[SHARED_MAX];
static const pith_plan *shared_plans[SHARED_MAX];
static size_t shared_count;

static void share(const struct shared *s) {
    const pith_env env = test_env();
    const pith_plan *plan;
    pith_layout layout = flat_layout(s->dtype, s->base_dtype, ELEMENTS);
    layout.slots = 2;
    layout.flags = shared_count % 2 ? PITH_LAYOUT_CHECKSUMS : 0;
    if (s->cache)
        layout = (pith_layout){
            .size = sizeof layout, .dtype = s->dtype, .ndim = 3, .shape = {TOKENS, HEADS, DIM}};
    context("plan of %s %s/%s", s->spec, pith_dtype_name(s->dtype), pith_dtype_name(s->base_dtype));
    CHECK_OK(pith_plan_create(&plan, s->spec, &layout, &env, NULL));
    CHECK(shared_count < SHARED_MAX);
    shared[shared_count] = *s;
    shared_plans[shared_count++] = plan;
}

/* Whether a setting has caches, whose plans take tokens of several heads. */
static bool has_caches(const struct test_case *c) {
    const uint64_t shape[3] = {TOKENS, HEADS, DIM};
    const pith_plan *plan;
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = c->dtype,
                                .base_dtype = c->base_dtype,
                                .ndim = 3,
                                .shape = {shape[0], shape[1], shape[2]}};
    if (pith_plan_create(&plan, c->spec, &layout, NULL, NULL) != PITH_OK) return false;
    const bool has = pith_kv_check(plan, NULL) == PITH_OK;
    pith_plan_destroy(plan);
    return has;
}

/* A thread with a work of its own, and what it made of every plan. */
struct sharer {
    uint64_t number; /* of its values: threads encode different ones */
    pith_work *work;
    uint64_t digest[SHARED_MAX];
    size_t now; /* the plan in use */
    struct {
        pith_status status;
        size_t plan;
        const char *call;
    } failure;                    /* the first call that had to succeed and did not */
    size_t additions, sums, hops; /* that a plan took */
};

static void note(struct sharer *t, const void *bytes, size_t count) {
    t->digest[t->now] = XXH64(bytes, count, t->digest[t->now]);
}

/* A status that is a result as any other. */
static bool taken(struct sharer *t, pith_status status) {
    const int32_t number = (int32_t)status;
    note(t, &number, sizeof number);
    return status == PITH_OK;
}

static bool good(struct sharer *t, pith_status status, const char *call) {
    if (status != PITH_OK && t->failure.status == PITH_OK) {
        t->failure.status = status;
        t->failure.plan = t->now;
        t->failure.call = call;
    }
    return taken(t, status);
}
#define GOOD(call) good(t, (call), #call)

/* ---- Tensors ---------------------------------------------------------------------------------*/

/* Two ends of a sequence of frames of the plan in use, and memory for two frames and values. */
struct ends {
    pith_stream *from, *to;
    pith_sizes sizes;
    size_t cap, lengths[2];
    uint8_t *memory[2], *frames, *value, *out, *place;
    pith_view view, out_view;
};

static bool ends_open(struct sharer *t, struct ends *e) {
    const struct shared *const p = &shared[t->now];
    const pith_plan *const plan = shared_plans[t->now];
    const pith_stream_options options = {.size = sizeof options,
                                         .seed = 1,
                                         .rng_stream = (uint32_t)t->number,
                                         .rank = (uint32_t)t->number,
                                         .ranks = SHARERS};
    *e = (struct ends){.sizes = {.size = sizeof e->sizes}};
    if (!GOOD(pith_plan_sizes(plan, &e->sizes))) return false;
    const size_t bytes = (size_t)e->sizes.stream_bytes;
    const uint64_t longest =
        e->sizes.key_bytes > e->sizes.slot_bytes ? e->sizes.key_bytes : e->sizes.slot_bytes;
    e->cap = (size_t)longest;
    e->memory[0] = allocate(bytes);
    e->memory[1] = allocate(bytes);
    e->frames = allocate(2 * e->cap);
    e->value = allocate(ELEMENTS * 8);
    e->out = allocate(ELEMENTS * 8);
    e->place = allocate(ELEMENTS * 8);
    memset(e->out, 0, ELEMENTS * 8);
    e->view = pith_view_flat(e->value, p->dtype, ELEMENTS);
    e->out_view = pith_view_flat(e->out, p->dtype, ELEMENTS);
    return GOOD(pith_stream_init(plan, e->memory[0], bytes, &options, &e->from, NULL)) &&
           GOOD(pith_stream_init(plan, e->memory[1], bytes, &options, &e->to, NULL));
}

static void ends_close(struct ends *e) {
    void *const all[] = {e->memory[0], e->memory[1], e->frames, e->value, e->out, e->place};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void items_of(const struct ends *e, pith_stream *stream, const pith_view *view,
                     pith_item items[2]) {
    for (uint64_t slot = 0; slot < 2; slot++)
        items[slot] = (pith_item){.size = sizeof(pith_item),
                                  .stream = stream,
                                  .slot = slot,
                                  .view = *view,
                                  .frame = e->frames + slot * e->cap,
                                  .capacity = e->cap,
                                  .length = e->lengths[slot]};
}

static void share_encode(struct sharer *t, struct ends *e, int step) {
    pith_item items[2];
    const bool key = step == 2 && e->sizes.key_bytes;
    gen_fill(step == 1 ? GEN_HOLES : GEN_NOISE, 10 * t->number + (uint64_t)step,
             shared[t->now].dtype, e->value, ELEMENTS);
    items_of(e, e->from, &e->view, items);
    GOOD(pith_encode(t->work, items, 2, key ? PITH_KEY_FRAME : 0));
    for (uint64_t slot = 0; slot < 2; slot++) {
        e->lengths[slot] = items[slot].length;
        note(t, items[slot].frame, items[slot].length);
    }
}

/* What the frame of slot 0 adds to a view: the receiver's base, or noise. */
static void share_addition(struct sharer *t, struct ends *e) {
    const struct shared *const p = &shared[t->now];
    const uint32_t dtype = p->base_dtype != PITH_NONE ? p->base_dtype : p->dtype;
    const uint64_t count = ELEMENTS / 2;
    pith_item items[2];
    gen_fill(GEN_NOISE, t->number, dtype, e->place, count);
    const pith_view view = pith_view_flat(e->place, dtype, count);
    if (p->base_dtype != PITH_NONE && !taken(t, pith_stream_get_base(t->work, e->to, 0, &view)))
        return;
    items_of(e, e->to, &view, items);
    if (!taken(t, pith_decode(t->work, items, 1, PITH_ADD))) return;
    note(t, e->place, count * pith_dtype_bytes(dtype));
    t->additions++;
}

static void share_decode(struct sharer *t, struct ends *e) {
    pith_item items[2];
    items_of(e, e->to, &e->out_view, items);
    GOOD(pith_decode(t->work, items, 2, 0));
    note(t, e->out, ELEMENTS * pith_dtype_bytes(shared[t->now].dtype));
}

/* Twice the frame of slot 0, as values and as a frame of the next hop. */
static void share_sum(struct sharer *t, struct ends *e) {
    const void *const frames[2] = {e->frames, e->frames};
    const size_t lengths[2] = {e->lengths[0], e->lengths[0]};
    pith_item items[2];
    pith_sum sum = {.size = sizeof sum,
                    .stream = e->to,
                    .frames = frames,
                    .lengths = lengths,
                    .count = 2,
                    .scale = 0.5f,
                    .view = pith_view_flat(e->place, PITH_F32, ELEMENTS / 2)};
    if (!taken(t, pith_reduce(t->work, &sum, 1))) return;
    note(t, e->place, ELEMENTS / 2 * 4);
    t->sums++;
    items_of(e, e->from, &e->view, items);
    items[0].frame = e->place;
    items[0].capacity = ELEMENTS * 8;
    if (!taken(t, pith_reduce_encode(t->work, &sum, items, 1))) return;
    note(t, e->place, items[0].length);
    t->hops++;
}

static void share_tensors(struct sharer *t) {
    struct ends e;
    pith_stats stats[2] = {{.size = sizeof stats[0]}, {.size = sizeof stats[1]}};
    size_t length = 0;
    if (ends_open(t, &e)) {
        for (int step = 0; step < STEPS; step++) {
            share_encode(t, &e, step);
            share_addition(t, &e);
            share_decode(t, &e);
            share_sum(t, &e);
        }
        GOOD(pith_stream_stats(e.from, &stats[0]));
        GOOD(pith_stream_stats(e.to, &stats[1]));
        note(t, stats, sizeof stats);
        uint8_t *const saved = allocate((size_t)e.sizes.save_bytes);
        GOOD(pith_stream_save(t->work, e.to, saved, (size_t)e.sizes.save_bytes, &length));
        note(t, saved, length);
        GOOD(pith_stream_load(t->work, e.from, saved, length));
        free(saved);
    }
    ends_close(&e);
}

/* ---- Caches ----------------------------------------------------------------------------------*/

static pith_view tokens_at(const uint8_t *values, uint32_t dtype, size_t first, size_t count) {
    const uint64_t shape[3] = {count, HEADS, DIM};
    return pith_view_dense(values + first * ROW * pith_dtype_bytes(dtype), dtype, 3, shape);
}

static void share_read(struct sharer *t, const pith_kv *cache) {
    static const uint32_t dtypes[2] = {PITH_F32, PITH_BF16};
    const size_t count = (size_t)pith_kv_count(cache);
    uint8_t *const out = allocate(count * ROW * 4);
    for (int k = 0; k < 2; k++) {
        const pith_view view = tokens_at(out, dtypes[k], 0, count);
        GOOD(pith_kv_read(t->work, &(pith_kv_range){cache, 0, count, 0, HEADS, view}, 1));
        note(t, out, count * ROW * pith_dtype_bytes(dtypes[k]));
    }
    free(out);
}

/* Two caches of one plan, children of the first, which go their own way, and what was saved of
 * one. */
static void share_caches(struct sharer *t) {
    const struct shared *const p = &shared[t->now];
    const pith_plan *const plan = shared_plans[t->now];
    const size_t bytes = (size_t)pith_kv_bytes(plan, 3 * TOKENS);
    uint8_t *const values = allocate(TOKENS * ROW * 4);
    void *const memory[4] = {allocate(bytes), allocate(bytes), allocate(bytes), allocate(bytes)};
    pith_kv *cache[4] = {NULL, NULL, NULL, NULL};
    size_t length = 0;
    gen_fill(GEN_NOISE, t->number, p->dtype, values, TOKENS * ROW);
    const pith_view begin[2] = {tokens_at(values, p->dtype, 0, 90),
                                tokens_at(values, p->dtype, 30, 100)};
    const pith_view one = tokens_at(values, p->dtype, 0, 1);
    if (!GOOD(pith_kv_init(plan, memory[0], bytes, &cache[0], NULL)) ||
        !GOOD(pith_kv_init(plan, memory[1], bytes, &cache[1], NULL)) ||
        !GOOD(pith_kv_append(t->work, cache, begin, 2)))
        goto end;
    for (size_t k = 90; k < 120; k++) {
        const pith_kv_tokens to[2] = {{cache[0], tokens_at(values, p->dtype, k, 1).data},
                                      {cache[1], tokens_at(values, p->dtype, k + 20, 1).data}};
        GOOD(pith_kv_append_batch(t->work, &one, to, 2));
    }
    if (!GOOD(pith_kv_fork(t->work, cache[0], 110, 0, memory[2], bytes, &cache[2])) ||
        !GOOD(pith_kv_fork(t->work, cache[0], 115, PITH_KV_COPY, memory[3], bytes, &cache[3])))
        goto end;
    const pith_view rest[4] = {
        tokens_at(values, p->dtype, 120, 10), tokens_at(values, p->dtype, 0, 3),
        tokens_at(values, p->dtype, 100, 30), tokens_at(values, p->dtype, 130, 7)};
    GOOD(pith_kv_append(t->work, cache, rest, 4));
    GOOD(pith_kv_truncate(t->work, cache[1], 60));
    for (size_t k = 0; k < 4; k++) {
        pith_stats stats = {.size = sizeof stats};
        GOOD(pith_kv_stats(cache[k], &stats));
        note(t, &stats, sizeof stats);
        share_read(t, cache[k]);
    }
    const size_t needed = (size_t)pith_kv_save_bytes(cache[2]);
    uint8_t *const saved = allocate(needed);
    GOOD(pith_kv_save(t->work, cache[2], saved, needed, &length));
    note(t, saved, length);
    GOOD(pith_kv_load(t->work, cache[1], saved, length));
    share_read(t, cache[1]);
    free(saved);
end:
    for (size_t k = 0; k < 4; k++) free(memory[k]);
    free(values);
}

/* A page encoded and decoded apart from any cache. */
static void share_pages(struct sharer *t) {
    const struct shared *const p = &shared[t->now];
    const pith_plan *const plan = shared_plans[t->now];
    const uint32_t tokens = pith_kv_page_tokens(plan);
    const size_t bytes = (size_t)pith_kv_page_bytes(plan, tokens);
    uint8_t *const values = allocate(tokens * ROW * 4), *const page = allocate(bytes);
    const pith_view like = tokens_at(values, p->dtype, 0, tokens);
    const pith_kv_pair pair = {values, page, tokens};
    gen_fill(GEN_NOISE, t->number, p->dtype, values, tokens * ROW);
    GOOD(pith_kv_encode_pages(t->work, plan, &like, &pair, 1));
    note(t, page, bytes);
    GOOD(pith_kv_decode_pages(t->work, plan, &like, &pair, 1));
    note(t, values, tokens * ROW * pith_dtype_bytes(p->dtype));
    free(page);
    free(values);
}

/* ---- The threads -----------------------------------------------------------------------------*/

static void *sharer_main(void *arg) {
    struct sharer *const t = arg;
    for (t->now = 0; t->now < shared_count; t->now++) {
        if (!shared[t->now].cache) {
            share_tensors(t);
            continue;
        }
        share_caches(t);
        share_pages(t);
    }
    return NULL;
}

static struct sharer *sharers_open(void **memory) {
    struct sharer *const all = allocate(SHARERS * sizeof *all);
    memset(all, 0, SHARERS * sizeof *all);
    for (uint64_t i = 0; i < SHARERS; i++) {
        all[i].number = i;
        all[i].work = work_for(shared_plans, shared_count, NULL, &memory[i]);
    }
    return all;
}

static void check_sharer(const struct sharer *t) {
    const size_t at = t->failure.plan;
    context("thread %u, %s: %s", (unsigned)t->number, shared[at].spec,
            t->failure.call ? t->failure.call : "");
    CHECK_OK(t->failure.status);
}

/* Every codec there is was shared. */
static void check_all_shared(void) {
    pith_codec_info info = {.size = sizeof info};
    for (uint32_t c = 0; pith_codec_at(c, &info) == PITH_OK; c++) {
        const size_t length = strlen(info.name);
        bool seen = false;
        for (size_t i = 0; i < shared_count; i++)
            seen = seen || (strncmp(shared[i].spec, info.name, length) == 0 &&
                            (shared[i].spec[length] == ':' || !shared[i].spec[length]));
        context("codec %s is shared", info.name);
        CHECK(seen);
    }
}

/* Eight threads with all plans at once make what each makes alone. */
static void test_shared_plans(void **state) {
    (void)state;
    const struct test_case *c;
    void *memory[2][SHARERS];
    pthread_t thread[SHARERS];
    size_t caches = 0;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        const struct shared s = {c->spec, c->dtype, c->base_dtype, false};
        struct shared cache = s;
        share(&s);
        cache.cache = has_caches(c);
        if (cache.cache) share(&cache);
        caches += cache.cache;
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) share(&more[i]);
    check_all_shared();
    struct sharer *const alone = sharers_open(memory[0]), *const together = sharers_open(memory[1]);
    for (size_t i = 0; i < SHARERS; i++) sharer_main(&alone[i]);
    for (size_t i = 0; i < SHARERS; i++)
        if (pthread_create(&thread[i], NULL, sharer_main, &together[i])) abort();
    for (size_t i = 0; i < SHARERS; i++) pthread_join(thread[i], NULL);
    for (size_t i = 0; i < SHARERS; i++) {
        check_sharer(&alone[i]);
        check_sharer(&together[i]);
        for (size_t k = 0; k < shared_count; k++) {
            context("thread %zu of many, %s %s/%s", i, shared[k].spec,
                    pith_dtype_name(shared[k].dtype), pith_dtype_name(shared[k].base_dtype));
            CHECK(alone[i].digest[k] == together[i].digest[k]);
            CHECK(i == 0 || alone[i].digest[k] != alone[0].digest[k]);
        }
        CHECK(alone[i].additions > 0 && alone[i].sums > 0 && alone[i].hops > 0 && caches > 0);
        free(memory[0][i]);
        free(memory[1][i]);
    }
    free(alone);
    free(together);
    while (shared_count > 0) pith_plan_destroy(shared_plans[--shared_count]);
}

/* ---- One stream, many threads ----------------------------------------------------------------*/

enum { FEW = 200, FRAMES = 20, TRIES = 20000 };

/* A thread that encodes with a stream which others use as well. */
struct contender {
    pith_work *work;
    pith_stream *stream;
    float value[FEW];
    uint8_t bytes[FRAMES][2048];
    size_t lengths[FRAMES], made;
    pith_status other; /* any but PITH_OK and PITH_ERR_BUSY */
};

static void *contend(void *arg) {
    struct contender *const t = arg;
    for (size_t k = 0; k < TRIES && t->made < FRAMES && t->other == PITH_OK; k++) {
        pith_item item = {.size = sizeof item,
                          .stream = t->stream,
                          .view = pith_view_flat(t->value, PITH_F32, FEW),
                          .frame = t->bytes[t->made],
                          .capacity = sizeof t->bytes[0]};
        const pith_status status = pith_encode(t->work, &item, 1, 0);
        if (status == PITH_OK)
            t->lengths[t->made++] = item.length;
        else if (status != PITH_ERR_BUSY)
            t->other = status;
        else
            sched_yield();
    }
    return NULL;
}

/* A frame is made or refused: in the order of their steps those that were made are a sequence. */
static void test_one_stream_of_many_threads(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, FEW);
    struct stream s, receiver;
    struct contender *const all = allocate(SHARERS * sizeof *all);
    pthread_t thread[SHARERS];
    void *memory[SHARERS];
    size_t made = 0;
    memset(all, 0, SHARERS * sizeof *all);
    context("a stream of many threads");
    stream_open(&s, "wdiff:group=16,block=64", &layout, NULL);
    stream_open_end(&receiver, &s, NULL);
    for (size_t i = 0; i < SHARERS; i++) {
        all[i].work = work_for(&s.plan, 1, NULL, &memory[i]);
        all[i].stream = s.stream;
        gen_fill(GEN_NOISE, i, PITH_F32, all[i].value, FEW);
    }
    for (size_t i = 0; i < SHARERS; i++)
        if (pthread_create(&thread[i], NULL, contend, &all[i])) abort();
    for (size_t i = 0; i < SHARERS; i++) pthread_join(thread[i], NULL);
    for (size_t i = 0; i < SHARERS; i++) {
        CHECK_OK(all[i].other);
        made += all[i].made;
    }
    pith_stats stats = {.size = sizeof stats};
    CHECK_OK(pith_stream_stats(s.stream, &stats));
    CHECK(made > 0 && stats.frames == made && pith_stream_step(s.stream, 0) == made);
    for (uint64_t step = 0; step < made; step++) {
        size_t taken_here = 0;
        for (size_t i = 0; i < SHARERS; i++)
            for (size_t k = 0; k < all[i].made; k++) {
                pith_info info = {.size = sizeof info};
                CHECK_OK(pith_inspect(all[i].bytes[k], all[i].lengths[k], &info, NULL));
                if (info.step != step) continue;
                taken_here++;
                CHECK_OK(decode_one(receiver.work, receiver.stream, 0, all[i].bytes[k],
                                    all[i].lengths[k], NULL, 0));
            }
        CHECK(taken_here == 1);
    }
    CHECK(pith_stream_base_hash(receiver.stream, 0) == pith_stream_base_hash(s.stream, 0));
    for (size_t i = 0; i < SHARERS; i++) free(memory[i]);
    free(all);
    stream_close(&receiver);
    stream_close(&s);
}

/* What a job of a call's own runner is answered when it uses what the call has. */
struct intruder {
    pith_work *work, *other; /* the call's, and another */
    pith_item mine, theirs;  /* of a stream of its own, and of the call's */
    pith_status of_work, of_stream, of_verify;
    size_t runs;
};

static int run_and_intrude(void *user, void (*job)(void *arg, size_t index), void *arg,
                           size_t count) {
    struct intruder *const n = user;
    n->runs++;
    n->of_work = pith_encode(n->work, &n->mine, 1, 0);
    n->of_stream = pith_encode(n->other, &n->theirs, 1, 0);
    n->of_verify = pith_stream_verify(n->other, n->theirs.stream);
    return run_backwards(NULL, job, arg, count);
}

static void test_calls_inside_of_calls(void **state) {
    (void)state;
    enum { N = 1000 };
    static const char spec[] = "wdiff:group=16,block=64";
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, N);
    struct intruder n = {.runs = 0};
    pith_env env = {.size = sizeof env, .threads = 3, .run = run_and_intrude, .run_user = &n};
    float value[N];
    uint8_t bytes[8192];
    struct stream plain, busy, own;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N);
    stream_open(&plain, spec, &layout, NULL);
    stream_open(&busy, spec, &layout, &env);
    stream_open(&own, spec, &layout, NULL);
    n.work = busy.work;
    n.other = own.work;
    n.mine = (pith_item){.size = sizeof n.mine,
                         .stream = own.stream,
                         .view = v,
                         .frame = bytes,
                         .capacity = sizeof bytes};
    n.theirs = n.mine;
    n.theirs.stream = busy.stream;
    memset(bytes, 0x5A, sizeof bytes);
    for (int step = 0; step < 2; step++) {
        context("a call inside of a call, step %d", step);
        struct frame wanted = stream_encode(&plain, &v, 0, false);
        struct frame f = stream_encode(&busy, &v, 0, false);
        CHECK(f.length == wanted.length && memcmp(f.bytes, wanted.bytes, f.length) == 0);
        CHECK(pith_work_error(busy.work)->text[0] == 0 && n.runs > 0);
        CHECK_STATUS(PITH_ERR_BUSY, n.of_work);
        CHECK_STATUS(PITH_ERR_BUSY, n.of_stream);
        CHECK_STATUS(PITH_ERR_BUSY, n.of_verify);
        CHECK(all_bytes(bytes, sizeof bytes, 0x5A) && pith_stream_step(own.stream, 0) == 0);
        free(wanted.bytes);
        free(f.bytes);
    }
    CHECK_OK(pith_encode(own.work, &n.mine, 1, 0));
    CHECK_OK(pith_encode(own.work, &n.theirs, 1, 0));
    stream_close(&plain);
    stream_close(&busy);
    stream_close(&own);
}

/* ---- One work, many threads ------------------------------------------------------------------*/

/* A thread that encodes its stream with a work which others use as well. */
struct work_sharer {
    struct stream s;
    pith_work *work;
    float value[FEW];
    uint8_t alone[2048], bytes[2048];
    size_t length, made, wrong;
};

static void *share_work(void *arg) {
    struct work_sharer *const t = arg;
    for (size_t k = 0; k < 2 * TRIES || !t->made; k++) {
        pith_item item = {.size = sizeof item,
                          .stream = t->s.stream,
                          .view = pith_view_flat(t->value, PITH_F32, FEW),
                          .frame = t->bytes,
                          .capacity = sizeof t->bytes};
        const pith_status status = pith_encode(t->work, &item, 1, 0);
        if (status == PITH_ERR_BUSY) continue;
        t->made++;
        t->wrong += status != PITH_OK || item.length != t->length ||
                    memcmp(t->bytes, t->alone, t->length) != 0;
    }
    return NULL;
}

/* Each call has the work to itself or is refused, so that frames are those made alone, though the
 * plans cut the work's memory differently. */
static void test_one_work_of_many_threads(void **state) {
    (void)state;
    static const char *const specs[] = {"eb:abs=1e-3,block=64", "eb:abs=1e-2,block=128", "lossless",
                                        "eb:mode=ratio,psnr=60"};
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, FEW);
    struct work_sharer *const all = allocate(SHARERS * sizeof *all);
    const pith_plan *plans[SHARERS];
    pthread_t thread[SHARERS];
    void *memory;
    memset(all, 0, SHARERS * sizeof *all);
    context("a work of many threads");
    for (size_t i = 0; i < SHARERS; i++) {
        stream_open(&all[i].s, specs[i % 4], &layout, NULL);
        plans[i] = all[i].s.plan;
        gen_fill(GEN_NOISE, i, PITH_F32, all[i].value, FEW);
        const pith_view view = pith_view_flat(all[i].value, PITH_F32, FEW);
        CHECK_OK(encode_one(all[i].s.work, all[i].s.stream, &view, 0, 0, all[i].alone,
                            sizeof all[i].alone, &all[i].length));
    }
    pith_work *const work = work_for(plans, SHARERS, NULL, &memory);
    for (size_t i = 0; i < SHARERS; i++) {
        all[i].work = work;
        if (pthread_create(&thread[i], NULL, share_work, &all[i])) abort();
    }
    for (size_t i = 0; i < SHARERS; i++) pthread_join(thread[i], NULL);
    for (size_t i = 0; i < SHARERS; i++) {
        CHECK(all[i].made > 0 && all[i].wrong == 0);
        stream_close(&all[i].s);
    }
    free(memory);
    free(all);
}

/* ---- A cache and its child -------------------------------------------------------------------*/

/* A cache that its thread appends to and reads. */
struct grower {
    struct sharer t;
    pith_kv *cache;
    const uint8_t *values;
};

static void *grow(void *arg) {
    struct grower *const g = arg;
    struct sharer *const t = &g->t;
    for (size_t k = 60; k < 120; k++) {
        const pith_view one = tokens_at(g->values, shared[0].dtype, k, 1);
        GOOD(pith_kv_append(t->work, &g->cache, &one, 1));
        if (k % 20 == 19) share_read(t, g->cache);
    }
    return NULL;
}

/* A parent goes on appending on a thread while children, which read pages of its memory, are used
 * on others. */
static void test_parent_and_children(void **state) {
    (void)state;
    enum { CHILDREN = 3, ALL = CHILDREN + 1 };
    const struct shared s = {"kv:page=16,group=16,window=5", PITH_F32, PITH_NONE, true};
    struct grower *const g = allocate(ALL * sizeof *g);
    void *memory[ALL], *work_memory[ALL];
    pthread_t thread[ALL];
    uint64_t alone[ALL] = {0};
    uint8_t *const values = allocate(TOKENS * ROW * 4);
    shared_count = 0;
    share(&s);
    const pith_plan *const plan = shared_plans[0];
    const size_t bytes = (size_t)pith_kv_bytes(plan, TOKENS);
    const pith_view begin = tokens_at(values, s.dtype, 0, 60);
    gen_fill(GEN_NOISE, 1, s.dtype, values, TOKENS * ROW);
    for (int round = 0; round < 2; round++) { /* one after the other, then at once */
        memset(g, 0, ALL * sizeof *g);
        context("a parent and its children, round %d", round);
        for (size_t i = 0; i < ALL; i++) {
            g[i].values = values;
            g[i].t.work = work_for(&plan, 1, NULL, &work_memory[i]);
            memory[i] = allocate(bytes);
            if (i == 0) {
                CHECK_OK(pith_kv_init(plan, memory[i], bytes, &g[i].cache, NULL));
                CHECK_OK(pith_kv_append(g[i].t.work, &g[i].cache, &begin, 1));
            } else {
                CHECK_OK(pith_kv_fork(g[i].t.work, g[0].cache, 60 - i, 0, memory[i], bytes,
                                      &g[i].cache));
            }
        }
        for (size_t i = 0; i < ALL; i++) {
            if (round == 0) grow(&g[i]);
            if (round == 1 && pthread_create(&thread[i], NULL, grow, &g[i])) abort();
        }
        for (size_t i = 0; i < ALL; i++) {
            if (round == 1) pthread_join(thread[i], NULL);
            if (round == 0) alone[i] = g[i].t.digest[0];
        }
        for (size_t i = 0; i < ALL; i++) {
            check_sharer(&g[i].t);
            CHECK(g[i].t.digest[0] == alone[i]);
            free(memory[i]);
            free(work_memory[i]);
        }
    }
    free(g);
    free(values);
    pith_plan_destroy(shared_plans[--shared_count]);
}

/* ---- Readers ---------------------------------------------------------------------------------*/

/* A thread that reads a stream and a cache as others do, and forks from the cache. */
struct reader {
    struct sharer t;
    const pith_stream *stream;
    const pith_kv *cache;
};

static void *read_all(void *arg) {
    struct reader *const r = arg;
    struct sharer *const t = &r->t;
    pith_sizes sizes = {.size = sizeof sizes};
    float base[ELEMENTS] = {0};
    const pith_view view = pith_view_flat(base, PITH_F32, ELEMENTS);
    size_t length = 0;
    GOOD(pith_plan_sizes(pith_stream_plan(r->stream), &sizes));
    const size_t needed = (size_t)pith_kv_save_bytes(r->cache),
                 forked = (size_t)pith_kv_bytes(shared_plans[0], TOKENS);
    uint8_t *const saved = allocate((size_t)sizes.save_bytes), *const tokens = allocate(needed),
                   *const memory = allocate(forked);
    for (int round = 0; round < 20; round++) {
        pith_kv *child = NULL;
        pith_stats stats = {.size = sizeof stats};
        GOOD(pith_stream_verify(t->work, r->stream));
        GOOD(pith_stream_stats(r->stream, &stats));
        note(t, &stats, sizeof stats);
        GOOD(pith_stream_get_base(t->work, r->stream, 0, &view));
        note(t, base, sizeof base);
        GOOD(pith_stream_save(t->work, r->stream, saved, (size_t)sizes.save_bytes, &length));
        note(t, saved, length);
        share_read(t, r->cache);
        GOOD(pith_kv_save(t->work, r->cache, tokens, needed, &length));
        note(t, tokens, length);
        if (GOOD(pith_kv_fork(t->work, r->cache, 50, 0, memory, forked, &child)))
            share_read(t, child);
    }
    free(saved);
    free(tokens);
    free(memory);
    return NULL;
}

/* Calls that change neither a stream nor a cache run side by side, and find the same. */
static void test_readers(void **state) {
    (void)state;
    const struct shared rows[2] = {
        {"kv:axis=channel,page=16,group=16,window=5", PITH_F32, PITH_NONE, true},
        {"wdiff:group=16,block=64", PITH_F32, PITH_F32, false}};
    struct reader *const r = allocate(SHARERS * sizeof *r);
    uint8_t *const values = allocate(TOKENS * ROW * 4);
    void *work_memory[SHARERS], *own_memory;
    pthread_t thread[SHARERS];
    pith_sizes sizes = {.size = sizeof sizes};
    pith_stream *stream;
    pith_kv *cache;
    memset(r, 0, SHARERS * sizeof *r);
    shared_count = 0;
    for (size_t i = 0; i < 2; i++) share(&rows[i]);
    context("readers");
    CHECK_OK(pith_plan_sizes(shared_plans[1], &sizes));
    const size_t bytes = (size_t)pith_kv_bytes(shared_plans[0], TOKENS),
                 cap = (size_t)sizes.slot_bytes;
    void *const cache_memory = allocate(bytes),
                *const memory = allocate((size_t)sizes.stream_bytes), *const frame = allocate(cap);
    pith_work *const work = work_for(shared_plans, 2, NULL, &own_memory);
    gen_fill(GEN_NOISE, 1, PITH_F32, values, TOKENS * ROW);
    const pith_view tokens = tokens_at(values, PITH_F32, 0, 80),
                    view = pith_view_flat(values, PITH_F32, ELEMENTS);
    size_t length;
    CHECK_OK(pith_kv_init(shared_plans[0], cache_memory, bytes, &cache, NULL));
    CHECK_OK(pith_kv_append(work, &cache, &tokens, 1));
    CHECK_OK(
        pith_stream_init(shared_plans[1], memory, (size_t)sizes.stream_bytes, NULL, &stream, NULL));
    for (uint64_t slot = 0; slot < 2; slot++)
        CHECK_OK(encode_one(work, stream, &view, slot, 0, frame, cap, &length));
    for (size_t i = 0; i < SHARERS; i++) {
        r[i].t.work = work_for(shared_plans, 2, NULL, &work_memory[i]);
        r[i].stream = stream;
        r[i].cache = cache;
    }
    for (size_t i = 0; i < SHARERS; i++)
        if (pthread_create(&thread[i], NULL, read_all, &r[i])) abort();
    for (size_t i = 0; i < SHARERS; i++) pthread_join(thread[i], NULL);
    for (size_t i = 0; i < SHARERS; i++) {
        check_sharer(&r[i].t);
        CHECK(r[i].t.digest[0] == r[0].t.digest[0]);
        free(work_memory[i]);
    }
    free(r);
    free(values);
    free(cache_memory);
    free(memory);
    free(frame);
    free(own_memory);
    while (shared_count > 0) pith_plan_destroy(shared_plans[--shared_count]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_lowest_block),
        cmocka_unit_test(test_runners_that_fail),
#ifdef _OPENMP
        cmocka_unit_test(test_inside_a_region),
        cmocka_unit_test(test_nothing_nests),
#else
        cmocka_unit_test(test_without_openmp),
#endif
        cmocka_unit_test(test_thread_limits),
        cmocka_unit_test(test_shared_plans),
        cmocka_unit_test(test_one_stream_of_many_threads),
        cmocka_unit_test(test_one_work_of_many_threads),
        cmocka_unit_test(test_calls_inside_of_calls),
        cmocka_unit_test(test_parent_and_children),
        cmocka_unit_test(test_readers),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
