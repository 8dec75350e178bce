/* test_alloc.c - who allocates and when; what happens when memory runs out; sizes of structs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"
#include "cases.h"
#include "golden.h"

static const char *dir;

/* ---- Every allocation of the process, zstd's included ----------------------------------------*/

static size_t allocations;

#if defined(__SANITIZE_ADDRESS__)
#define PITH_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PITH_TEST_ASAN 1
#endif
#endif

#ifdef PITH_TEST_ASAN
/* The runtimes of gcc and clang have it; not every gcc installs the header that declares it. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
static void count_one(const volatile void *p, size_t n) {
    (void)p;
    (void)n;
    allocations++;
}
static void forget_one(const volatile void *p) { (void)p; }
static void count_allocations(void) {
    __sanitizer_install_malloc_and_free_hooks(count_one, forget_one);
}
#elif defined(__GLIBC__)
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes) {
    allocations++;
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    allocations++;
    return __libc_calloc(count, bytes);
}
void *realloc(void *memory, size_t bytes) {
    allocations++;
    return __libc_realloc(memory, bytes);
}
void *aligned_alloc(size_t align, size_t bytes) {
    allocations++;
    return __libc_memalign(align, bytes);
}
static void count_allocations(void) {}
#else
#error "no way to count allocations with this C library"
#endif

static void check_no_allocation(const struct test_case *c, size_t count,
                                int (*run)(void *, void (*)(void *, size_t), void *, size_t)) {
    struct stream s, r;
    const size_t bytes = count * pith_dtype_bytes(c->dtype);
    const pith_layout layout = flat_layout(c->dtype, c->base_dtype, count);
    pith_env env = test_env();
    env.run = run;
    env.threads = run ? 3 : 0;
    stream_open(&s, c->spec, &layout, &env);
    stream_open(&r, c->spec, &layout, &env);
    void *value = allocate(bytes), *out = allocate(bytes);
    gen_fill(GEN_NOISE, 1, c->dtype, value, count);
    const pith_view v = pith_view_flat(value, c->dtype, count);
    const pith_view o = pith_view_flat(out, c->dtype, count);
    const size_t cap = (size_t)s.sizes.slot_bytes + (size_t)s.sizes.key_bytes;
    uint8_t *frame = allocate(cap);
    size_t length;
    const size_t before = allocations;
    CHECK_OK(pith_work_init(s.work_memory, (size_t)pith_work_bytes(&s.plan, 1, env.threads), &env,
                            &s.work, NULL));
    CHECK_OK(
        pith_stream_init(s.plan, s.memory, (size_t)s.sizes.stream_bytes, NULL, &s.stream, NULL));
    for (int step = 0; step < 3; step++) {
        if (step == 1 && s.sizes.key_bytes)
            CHECK_OK(encode_one(s.work, s.stream, &v, 0, PITH_KEY_FRAME, frame, cap, &length));
        else
            CHECK_OK(encode_one(s.work, s.stream, &v, 0, 0, frame, cap, &length));
        CHECK_OK(decode_one(r.work, r.stream, 0, frame, length, &o, 0));
    }
    CHECK(allocations == before);
    free(value);
    free(out);
    free(frame);
    stream_close(&s);
    stream_close(&r);
}

static void test_no_allocation(void **state) {
    (void)state;
    const struct test_case *c;
    const size_t before = allocations;
    free(allocate(1));
    context("the counter counts");
    CHECK(allocations == before + 1);
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        const size_t count = c->block > 1024 ? 5000 : 3 * c->block + 1;
        context("allocations, %s %s/%s", c->spec, pith_dtype_name(c->dtype),
                pith_dtype_name(c->base_dtype));
        check_no_allocation(c, count, NULL);
        check_no_allocation(c, count, run_backwards);
    }
}

/* ---- The caller's allocator ------------------------------------------------------------------*/

struct allocator {
    size_t calls, fail_at; /* fail_at 0: never */
    size_t live, peak;
};

static void *take(void *user, size_t bytes, size_t align) {
    struct allocator *a = user;
    if (++a->calls == a->fail_at) return NULL;
    CHECK(align && (align & (align - 1)) == 0 && align <= 64);
    a->live += bytes;
    if (a->live > a->peak) a->peak = a->live;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void give(void *user, void *memory, size_t bytes) {
    struct allocator *a = user;
    CHECK(memory != NULL && a->live >= bytes);
    a->live -= bytes;
    free(memory);
}

static pith_env env_with(struct allocator *a) {
    pith_env env = test_env();
    env.alloc = take;
    env.release = give;
    env.alloc_user = a;
    return env;
}

/* Every call that may allocate, once; the first status that is not OK. */
static pith_status all_calls(const char *spec, const pith_env *env, bool with_base) {
    enum { N = 700 };
    float value[N], base[N] = {0}, out[N];
    uint8_t bytes[8192];
    size_t length = 0;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N), o = pith_view_flat(out, PITH_F32, N);
    const pith_view b = pith_view_flat(base, PITH_F32, N), *given = with_base ? &b : NULL;
    const pith_view part = pith_view_flat(out, PITH_F32, 10);
    const pith_plan *plan;
    const pith_layout layout = flat_layout(PITH_F32, with_base ? PITH_F32 : PITH_NONE, N);
    pith_status status = pith_plan_create(&plan, spec, &layout, env, NULL);
    CHECK((status == PITH_OK) == (plan != NULL));
    pith_plan_destroy(plan);
    if (status == PITH_OK)
        status = pith_compress(spec, &v, given, NULL, env, bytes, sizeof bytes, &length, NULL);
    CHECK(status == PITH_OK || length == 0);
    if (status == PITH_OK) status = pith_decompress(bytes, length, given, env, &o, NULL);
    if (status == PITH_OK) status = pith_decode_range(bytes, length, given, 5, env, &part, NULL);
    if (status == PITH_OK) status = pith_verify(bytes, length, env, NULL);
    return status;
}

static void test_failing_allocator(void **state) {
    (void)state;
    static const char *const specs[] = {"raw", "lossless", "wdiff", "wdiff:entropy=zstd"};
    for (size_t k = 0; k < 8; k++) {
        const bool with_base = k % 2 && k / 2;
        struct allocator good = {0};
        pith_env env = env_with(&good);
        context("%s, allocator", specs[k / 2]);
        CHECK_OK(all_calls(specs[k / 2], &env, with_base));
        CHECK(good.live == 0 && good.calls >= 5);
        for (size_t n = 1; n <= good.calls; n++) {
            struct allocator bad = {.fail_at = n};
            env = env_with(&bad);
            context("%s, allocation %zu fails", specs[k / 2], n);
            CHECK_STATUS(PITH_ERR_MEMORY, all_calls(specs[k / 2], &env, with_base));
            CHECK(bad.live == 0 && bad.calls == n);
        }
    }
}

/* A plan is one allocation of a few kilobytes, whatever the tensor. Works and streams lie in
 * memory of the caller's, however many threads they have. */
static void test_a_plan_is_one_allocation(void **state) {
    (void)state;
    static const uint64_t counts[] = {1, 100000, UINT64_C(1) << 40};
    for (size_t i = 0; i < 3; i++)
        for (uint32_t threads = 0; threads < 9; threads += 4) {
            struct allocator a = {0};
            pith_env env = env_with(&a);
            env.threads = threads;
            env.run = run_backwards;
            const pith_layout layout = flat_layout(PITH_F32, PITH_BF16, counts[i]);
            const pith_plan *plan;
            pith_work *work;
            void *memory;
            context("%llu elements, %u threads", (unsigned long long)counts[i], threads);
            CHECK_OK(pith_plan_create(&plan, "wdiff", &layout, &env, NULL));
            CHECK(a.calls == 1 && a.live < 4096);
            work = work_for(&plan, 1, &env, &memory);
            CHECK(work && a.calls == 1);
            free(memory);
            pith_plan_destroy(plan);
            CHECK(a.live == 0);
        }
    pith_plan_destroy(NULL);
}

/* Memory of any alignment; one byte less is refused, by the init or by the first call. */
static void test_memory_that_suffices(void **state) {
    (void)state;
    enum { N = 5000 };
    static const char *const specs[] = {"raw", "lossless", "wdiff", "grad:ef=full",
                                        "eb:mode=ratio"};
    float value[N];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (size_t offset = 0; offset < 64; offset += 7) {
            const pith_plan *plan;
            pith_sizes sizes = {.size = sizeof sizes};
            pith_error error = {.size = sizeof error};
            context("%s, memory %zu bytes from its alignment", specs[i], offset);
            CHECK_OK(pith_plan_create(&plan, specs[i], &layout, NULL, NULL));
            CHECK_OK(pith_plan_sizes(plan, &sizes));
            const size_t bytes = (size_t)pith_work_bytes(&plan, 1, 0),
                         stream_bytes = (size_t)sizes.stream_bytes;
            uint8_t *const work_memory = allocate(bytes + offset),
                           *const memory = allocate(stream_bytes + offset),
                           *const frame = allocate((size_t)sizes.slot_bytes);
            pith_work *work;
            pith_stream *stream;
            size_t length;
            CHECK(stream_bytes > 0);
            CHECK_STATUS(PITH_ERR_SPACE, pith_stream_init(plan, memory + offset, stream_bytes - 1,
                                                          NULL, &stream, &error));
            CHECK(error.text[0]);
            CHECK_OK(pith_stream_init(plan, memory + offset, stream_bytes, NULL, &stream, &error));
            CHECK(error.text[0] == 0 && pith_stream_plan(stream) == plan);
            CHECK_STATUS(PITH_ERR_SPACE,
                         pith_work_init(work_memory + offset, 1, NULL, &work, &error));
            CHECK(error.text[0]);
            CHECK_OK(pith_work_init(work_memory + offset, bytes / 2, NULL, &work, NULL));
            CHECK_STATUS(PITH_ERR_SPACE, encode_one(work, stream, &v, 0, 0, frame,
                                                    (size_t)sizes.slot_bytes, &length));
            CHECK(pith_work_error(work)->text[0] && pith_stream_step(stream, 0) == 0);
            CHECK_OK(pith_work_init(work_memory + offset, bytes, NULL, &work, NULL));
            CHECK_OK(encode_one(work, stream, &v, 0, 0, frame, (size_t)sizes.slot_bytes, &length));
            free(work_memory);
            free(memory);
            free(frame);
            pith_plan_destroy(plan);
        }
}

/* A few bytes that declare a large tensor are refused before memory is requested. */
static void test_limit_before_memory(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    float *zeros = allocate(N * sizeof *zeros);
    memset(zeros, 0, N * sizeof *zeros);
    const pith_view v = pith_view_flat(zeros, PITH_F32, N);
    struct frame f = compress("lossless", &v, NULL, 0);
    struct allocator a = {0};
    pith_env env = env_with(&a);
    context("output limit");
    CHECK(f.length < 1000);
    env.max_output_bytes = N * 4 - 1;
    CHECK_STATUS(PITH_ERR_LIMIT, pith_decompress(f.bytes, f.length, NULL, &env, &v, NULL));
    CHECK_STATUS(PITH_ERR_LIMIT, pith_decode_range(f.bytes, f.length, NULL, 0, &env, &v, NULL));
    CHECK_STATUS(PITH_ERR_LIMIT, pith_verify(f.bytes, f.length, &env, NULL));
    CHECK(a.calls == 0);
    env.max_output_bytes = N * 4;
    CHECK_OK(pith_verify(f.bytes, f.length, &env, NULL));
    free(f.bytes);
    free(zeros);
}

/* Every thread has scratch memory of many times a block: few bytes that declare many blocks made
 * that of all threads, whatever the output limit. */
static void test_limit_of_threads(void **state) {
    (void)state;
    enum { N = 1 << 20, BLOCKS = 16 };
    float *zeros = allocate(N * sizeof *zeros);
    memset(zeros, 0, N * sizeof *zeros);
    const pith_view v = pith_view_flat(zeros, PITH_F32, N);
    struct frame f = compress("topk:density=0.01,block=65536", &v, NULL, 0);
    size_t peak[3]; /* of one thread; of as many as there are blocks; of these with a limit */
    context("threads within the output limit");
    for (size_t k = 0; k < 3; k++) {
        struct allocator a = {0};
        pith_env env = env_with(&a);
        env.threads = k ? BLOCKS : 1;
        env.max_output_bytes = k == 2 ? N * 4 : 0;
        CHECK_OK(pith_verify(f.bytes, f.length, &env, NULL));
        peak[k] = a.peak;
        CHECK(a.live == 0);
    }
    CHECK(peak[1] > peak[0] + N * 4);
    CHECK(peak[2] < peak[0] + N * 4);
    free(f.bytes);
    free(zeros);
}

/* What a frame says of its encoder (block size, level) costs its decoder nothing: an 88-byte frame
 * with the largest block and level once made half a gigabyte of workspace. */
static void test_small_frames_take_little(void **state) {
    (void)state;
    struct golden_file f;
    for (size_t i = 0; golden_open(dir, i, &f); i++) {
        struct bad largest = {.name = "largest block", .patch = {{10, 1, 24}}};
        if (f.info.codec == 2 && f.frame.bytes[16] != 19)
            largest.patch[1] = (struct patch){16, 1, 19};
        struct frame g = bad_make(&largest, &f.frame);
        struct allocator a = {0};
        const pith_env env = env_with(&a);
        context("golden frame %s with the largest block", f.name);
        const pith_status status = pith_verify(g.bytes, g.length, &env, NULL);
        const bool kv = f.info.codec == 8, coded = f.frame.bytes[26];
        /* Whole pages fill a block by more than half. */
        const uint64_t block = UINT64_C(1) << (f.info.block_log2 - kv);
        if (kv && !coded) /* the block follows from the shape */
            CHECK_STATUS(PITH_ERR_CORRUPT, status);
        else if (f.info.count > block)
            CHECK(status == PITH_OK || status == PITH_ERR_CORRUPT);
        else
            CHECK_OK(status);
        CHECK(a.peak <= 200000 + 24 * f.raw_bytes);
        free(g.bytes);
        golden_close(&f);
    }
}

/* One block of a whole tensor, by any call that reads it: into the view, or by way of memory of the
 * library's, which is at most 2.5 times the values, of `counted` bytes each. All of them have the
 * same values. */
static void check_memory_of_block(const struct frame *f, uint32_t dtype, size_t count,
                                  size_t counted) {
    const size_t width = pith_dtype_bytes(dtype);
    uint8_t *const dense = allocate(count * width), *const wide = allocate(2 * count * width);
    const pith_view to = pith_view_flat(dense, dtype, count);
    pith_view apart = pith_view_flat(wide, dtype, count);
    for (int call = 0; call < 4; call++) {
        struct allocator a = {0};
        const pith_env env = env_with(&a);
        uint8_t last[8];
        const pith_view one = pith_view_flat(last, dtype, 1);
        apart.stride[0] = 2;
        switch (call) {
        case 0: CHECK_OK(pith_decompress(f->bytes, f->length, NULL, &env, &to, NULL)); break;
        case 1: CHECK_OK(pith_decompress(f->bytes, f->length, NULL, &env, &apart, NULL)); break;
        case 2:
            CHECK_OK(pith_decode_range(f->bytes, f->length, NULL, count - 1, &env, &one, NULL));
            CHECK(memcmp(last, dense + (count - 1) * width, width) == 0);
            break;
        default: CHECK_OK(pith_verify(f->bytes, f->length, &env, NULL));
        }
        CHECK(2 * a.peak <= 5 * count * counted && a.live == 0);
    }
    for (size_t i = 0; i < count; i++)
        CHECK(memcmp(wide + 2 * i * width, dense + i * width, width) == 0);
    free(dense);
    free(wide);
}

/* 122 bytes that declared 64 MiB as one block took seven times as much. Now at most 2.5 times. Of
 * long rows, as the last two shapes have, values of 16 bits count as f32: they are predicted so. */
static void test_memory_of_one_block(void **state) {
    (void)state;
    enum { ROWS = 1024, ROW = 601, COUNT = ROWS * ROW };
    static const char *const specs[] = {"eb:block=whole,abs=0.01", "eb:block=whole,pwrel=0.01",
                                        "eb:block=whole,abs=0.01,mode=ratio",
                                        "eb:block=whole,abs=1e-4,mode=ratio"};
    static const uint32_t dtypes[] = {PITH_F32, PITH_F64, PITH_BF16, PITH_F16};
    for (size_t k = 0; k < 4 * 4 * 8; k++) {
        if (!is_sampled(k, 4)) continue;
        const uint32_t dtype = dtypes[k / 4 % 4];
        const uint64_t shapes[8][4] = {{COUNT, 1, 1, 1}, {ROWS, ROW, 1, 1},    {2, COUNT / 2, 1, 1},
                                       {16, 64, ROW, 1}, {2, 2, 2, COUNT / 8}, {8, 16, 8, ROW},
                                       {1, 1, 1, COUNT}, {1, 1, ROWS, ROW}};
        const size_t width = pith_dtype_bytes(dtype), counted = k / 16 < 6 || width > 4 ? width : 4;
        uint8_t *const values = allocate(COUNT * width);
        for (size_t i = 0; i < COUNT; i++) { /* smooth, or with noise, or one number */
            const float wave = (float)(i % ROW) * (float)(i / ROW) * 1e-4f;
            const float x = k / 16 == 0 ? 1 : wave + (float)(k % 2 * (i * 7919 % 13));
            const double wide = (double)x;
            if (dtype == PITH_F64)
                memcpy(values + 8 * i, &wide, 8);
            else
                store_float(values, dtype, i, bits_of(x));
        }
        const pith_view v = pith_view_dense(values, dtype, 4, shapes[k / 16]);
        struct frame f = compress(specs[k % 4], &v, NULL, 0);
        context("%s, %s, shape %zu, %zu bytes", specs[k % 4], pith_dtype_name(dtype), k / 16,
                f.length);
        check_memory_of_block(&f, dtype, COUNT, counted);
        free(f.bytes);
        free(values);
    }
}

/* A work has so many bytes for each of a block's values, in f32, and a plan has none. Those of raw,
 * wdiff and grad are twice what a call with one plan needs: a sum of frames of one plan is encoded
 * by another. */
static void test_work_of_a_block(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        size_t most;
    } cases[] = {{"raw", 32},
                 {"lossless", 48},
                 {"wdiff", 8},
                 {"grad", 8},
                 {"eb:block=65536", 64},
                 {"eb:block=65536,mode=ratio", 64},
                 {"act:block=65536", 56},
                 {"embed:block=65536", 56}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum { COUNT = 1 << 16 };
        struct allocator a = {0};
        const pith_env env = env_with(&a);
        pith_layout layout = {.size = sizeof layout, .dtype = PITH_F32, .ndim = 2};
        layout.shape[0] = 256, layout.shape[1] = 256;
        const pith_plan *plan;
        context("%s", cases[i].spec);
        CHECK_OK(pith_plan_create(&plan, cases[i].spec, &layout, &env, NULL));
        CHECK(a.peak <= 4096);
        CHECK(pith_work_bytes(&plan, 1, 1) <= 8192 + cases[i].most * COUNT);
        pith_plan_destroy(plan);
    }
}

/* ---- Structs of other sizes ------------------------------------------------------------------*/

static pith_status create(const pith_layout *layout, const pith_env *env) {
    const pith_plan *plan;
    pith_error error = {.size = sizeof error};
    const pith_status status = pith_plan_create(&plan, "raw", layout, env, &error);
    CHECK((status == PITH_OK) == (plan != NULL));
    CHECK((error.text[0] == 0) == (status == PITH_OK));
    pith_plan_destroy(plan);
    return status;
}

static void test_allocator_pairs(void **state) {
    (void)state;
    struct allocator a = {0};
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 3);
    context("alloc and release come together");
    pith_env env = env_with(&a);
    env.alloc = NULL;
    CHECK_STATUS(PITH_ERR_ARG, create(&layout, &env));
    env = env_with(&a);
    env.release = NULL;
    CHECK_STATUS(PITH_ERR_ARG, create(&layout, &env));
    CHECK(a.calls == 0);
}

/* A struct of a newer program, with space for fields this library does not know. */
union newer_layout {
    pith_layout layout;
    uint8_t bytes[sizeof(pith_layout) + 32];
};
union newer_env {
    pith_env env;
    uint8_t bytes[sizeof(pith_env) + 32];
};

static void test_struct_sizes(void **state) {
    (void)state;
    union newer_layout l = {.bytes = {0}};
    union newer_env e = {.bytes = {0}};
    context("struct sizes");
    l.layout = flat_layout(PITH_F32, PITH_NONE, 3);
    e.env.size = sizeof e;
    l.layout.size = sizeof l;
    CHECK_OK(create(&l.layout, &e.env));
    for (size_t i = 0; i < 32; i++) {
        l.bytes[sizeof(pith_layout) + i] = 1;
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, create(&l.layout, &e.env));
        l.bytes[sizeof(pith_layout) + i] = 0;
        e.bytes[sizeof(pith_env) + i] = 0x80;
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, create(&l.layout, &e.env));
        e.bytes[sizeof(pith_env) + i] = 0;
    }
    l.layout.size = e.env.size = 0;
    CHECK_STATUS(PITH_ERR_ARG, create(&l.layout, NULL));
    l.layout.size = sizeof(pith_layout);
    CHECK_STATUS(PITH_ERR_ARG, create(&l.layout, &e.env));
    CHECK_STATUS(PITH_ERR_ARG, create(NULL, NULL));
    /* Older programs: fields behind their size are defaults, whatever lies there. */
    e.env.size = offsetof(pith_env, threads);
    e.env.threads = 5000;
    CHECK_OK(create(&l.layout, &e.env));
    l.layout.size = offsetof(pith_layout, slots);
    l.layout.slots = 7;
    l.layout.slot_count = 1;
    CHECK_OK(create(&l.layout, NULL));
}

static void test_options_of_other_sizes(void **state) {
    (void)state;
    struct {
        pith_stream_options options;
        uint8_t rest[32];
    } newer = {.options = {.size = sizeof newer, .step = 9}};
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 3);
    struct stream s, older;
    context("stream options of other sizes");
    stream_open_with(&s, "raw", &layout, NULL, &newer.options);
    CHECK(pith_stream_step(s.stream, 0) == 9);
    newer.rest[31] = 1;
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_stream_set_random(s.work, s.stream, &newer.options));
    newer.options.size = 0;
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_random(s.work, s.stream, &newer.options));
    newer.options.size = offsetof(pith_stream_options, step);
    stream_open_end(&older, &s, &newer.options);
    CHECK(pith_stream_step(older.stream, 0) == 0);
    stream_close(&older);
    stream_close(&s);
}

/* Lists of a newer program's items and sums stand further apart. */
static void test_lists_of_newer_structs(void **state) {
    (void)state;
    struct newer_item {
        pith_item item;
        uint8_t rest[32];
    } items[3];
    struct newer_sum {
        pith_sum sum;
        uint8_t rest[32];
    } sums[3];
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 30);
    float value[30], out[3][30];
    uint8_t bytes[3][512];
    const void *frames[3] = {bytes[0], bytes[1], bytes[2]};
    struct stream s[3];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, 30);
    memset(items, 0, sizeof items);
    memset(sums, 0, sizeof sums);
    context("lists of newer structs");
    for (size_t i = 0; i < 3; i++) {
        if (i == 0)
            stream_open(&s[i], "raw", &layout, NULL);
        else
            stream_open_end(&s[i], &s[0], NULL);
        items[i].item = (pith_item){.size = sizeof items[0],
                                    .stream = s[i].stream,
                                    .view = pith_view_flat(value, PITH_F32, 30),
                                    .frame = bytes[i],
                                    .capacity = sizeof bytes[i]};
    }
    items[2].rest[0] = 1;
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_encode(s[0].work, &items[0].item, 3, 0));
    CHECK(pith_stream_step(s[0].stream, 0) == 0 && pith_work_error(s[0].work)->item == 2);
    items[2].rest[0] = 0;
    items[1].item.size = 0;
    CHECK_STATUS(PITH_ERR_ARG, pith_encode(s[0].work, &items[0].item, 3, 0));
    CHECK(pith_work_error(s[0].work)->item == 1);
    items[1].item.size = sizeof items[1];
    CHECK_OK(pith_encode(s[0].work, &items[0].item, 3, 0));
    for (size_t i = 0; i < 3; i++) {
        CHECK(items[i].item.status == PITH_OK && items[i].item.length > 120);
        CHECK(memcmp(bytes[i], bytes[0], items[i].item.length) == 0);
        sums[i].sum = (pith_sum){.size = sizeof sums[0],
                                 .stream = s[i].stream,
                                 .frames = &frames[i],
                                 .lengths = &items[i].item.length,
                                 .count = 1,
                                 .view = pith_view_flat(out[i], PITH_F32, 30)};
    }
    sums[1].rest[31] = 1;
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_reduce(s[0].work, &sums[0].sum, 3));
    sums[1].rest[31] = 0;
    CHECK_OK(pith_reduce(s[0].work, &sums[0].sum, 3));
    for (size_t i = 0; i < 3; i++) CHECK(memcmp(out[i], value, sizeof value) == 0);
    for (size_t i = 3; i-- > 0;) stream_close(&s[i]);
}

static void test_layout_flags(void **state) {
    (void)state;
    pith_layout l = flat_layout(PITH_F32, PITH_NONE, 3);
    context("layout fields");
    for (int bit = 2; bit < 32; bit++) {
        l.flags = 1u << bit;
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, create(&l, NULL));
    }
    l.flags = 0;
    l.source_bytes = 1;
    CHECK_STATUS(PITH_ERR_ARG, create(&l, NULL));
    l.source = &l;
    l.source_bytes = PITH_SOURCE_MAX + 1;
    CHECK_STATUS(PITH_ERR_ARG, create(&l, NULL));
    l.source_bytes = 0;
    l.ndim = 9;
    CHECK_STATUS(PITH_ERR_SHAPE, create(&l, NULL));
    l.ndim = 1;
    l.dtype = PITH_NONE;
    CHECK_STATUS(PITH_ERR_DTYPE, create(&l, NULL));
    l.dtype = 99;
    CHECK_STATUS(PITH_ERR_DTYPE, create(&l, NULL));
    l.dtype = PITH_F32;
    l.base_dtype = PITH_F32;
    CHECK_STATUS(PITH_ERR_DTYPE, create(&l, NULL));
    l.base_dtype = 77;
    CHECK_STATUS(PITH_ERR_DTYPE, create(&l, NULL));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_failing_allocator),
        cmocka_unit_test(test_a_plan_is_one_allocation),
        cmocka_unit_test(test_memory_that_suffices),
        cmocka_unit_test(test_limit_before_memory),
        cmocka_unit_test(test_limit_of_threads),
        cmocka_unit_test(test_small_frames_take_little),
        cmocka_unit_test(test_memory_of_one_block),
        cmocka_unit_test(test_work_of_a_block),
        cmocka_unit_test(test_allocator_pairs),
        cmocka_unit_test(test_struct_sizes),
        cmocka_unit_test(test_options_of_other_sizes),
        cmocka_unit_test(test_lists_of_newer_structs),
        cmocka_unit_test(test_layout_flags),
    };
    if (argc < 2) return 2;
    dir = argv[1];
    count_allocations();
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
