/* test_regressions_kv.c - bugs that were found in caches and pages of codec kv, one test each.
 * SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <fenv.h>
#include <math.h>
#include <signal.h>
#include <sys/mman.h>

#include "gen.h"
#include "util.h"

enum { HEADS = 2, DIM = 16, ROW = HEADS * DIM, PAGE = 16 };

static pith_layout layout_of(uint64_t tokens) {
    return (pith_layout){
        .size = sizeof(pith_layout), .dtype = PITH_F32, .ndim = 3, .shape = {tokens, HEADS, DIM}};
}

static const pith_plan *plan_of(const char *spec, uint64_t tokens) {
    const pith_plan *plan;
    const pith_layout layout = layout_of(tokens);
    CHECK_OK(pith_plan_create(&plan, spec, &layout, NULL, NULL));
    return plan;
}

/* A work for one or two plans. */
static pith_work *work_of(const pith_plan *a, const pith_plan *b, void **memory) {
    return work_for((const pith_plan *const[]){a, b ? b : a}, 2, NULL, memory);
}

static pith_view view_of(const float *values, uint64_t tokens) {
    const uint64_t shape[3] = {tokens, HEADS, DIM};
    return pith_view_dense(values, PITH_F32, 3, shape);
}

static float *tokens_of(uint64_t tokens, uint64_t seed) {
    float *values = allocate(tokens * ROW * sizeof *values);
    gen_fill(GEN_NOISE, seed, PITH_F32, values, tokens * ROW);
    return values;
}

/* A value beyond f16 made its group NaN, and the calls for pages said nothing. */
static void test_silent_nan(void **state) {
    (void)state;
    static const char *const specs[] = {"kv:page=16,group=16", "kv:page=16,group=16,axis=channel",
                                        "kv:page=16,group=16,symmetric=on,scale_dtype=bf16"};
    enum { TOKENS = 7 };
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        const pith_plan *plan = plan_of(specs[k], PAGE);
        float *const tokens = tokens_of(PAGE, k), *const out = tokens_of(PAGE, k);
        void *page = allocate((size_t)pith_kv_page_bytes(plan, PAGE)), *memory;
        pith_work *const work = work_of(plan, NULL, &memory);
        const pith_view like = view_of(NULL, PAGE);
        const pith_kv_pair in = {tokens, page, TOKENS}, back = {out, page, TOKENS};
        context("%s", specs[k]);
        CHECK_OK(pith_kv_encode_pages(work, plan, &like, &in, 1));
        CHECK_OK(pith_kv_decode_pages(work, plan, &like, &back, 1));
        const double bound = pith_kv_page_bound(plan, page, TOKENS);
        CHECK(bound > 0 && isfinite(bound));
        for (size_t i = 0; i < TOKENS * ROW; i++)
            CHECK(fabs((double)out[i] - (double)tokens[i]) <= bound);
        tokens[3] = -70000;
        CHECK_OK(pith_kv_encode_pages(work, plan, &like, &in, 1));
        CHECK(isnan(pith_kv_page_bound(plan, page, TOKENS)) != (k == 2));
        CHECK(pith_kv_page_bound(plan, NULL, 7) == -1 && pith_kv_page_bound(NULL, page, 7) == -1);
        CHECK(pith_kv_page_bound(plan, page, 0) == -1 && pith_kv_page_bound(plan, page, 17) == -1);
        pith_plan_destroy(plan);
        free(tokens);
        free(out);
        free(page);
        free(memory);
    }
}

static int count_jobs(void *user, void (*job)(void *, size_t), void *arg, size_t jobs) {
    *(size_t *)user = jobs;
    return run_backwards(NULL, job, arg, jobs);
}

/* A plan of one page took a batch of pages through one thread of eight. */
static void test_serial_batch(void **state) {
    (void)state;
    enum { PAGES = 20 };
    size_t jobs = 0;
    const pith_env env = {.size = sizeof env, .threads = 8, .run = count_jobs, .run_user = &jobs};
    const pith_plan *const plan = plan_of("kv:page=16,group=16", PAGE);
    void *memory;
    pith_work *const work = work_for(&plan, 1, &env, &memory);
    const size_t bytes = (size_t)pith_kv_page_bytes(plan, PAGE);
    float *const tokens = tokens_of((uint64_t)PAGES * PAGE, 1);
    uint8_t *const pages = allocate(PAGES * bytes);
    pith_kv_pair pairs[PAGES];
    for (size_t i = 0; i < PAGES; i++)
        pairs[i] = (pith_kv_pair){tokens + i * PAGE * ROW, pages + i * bytes, 0};
    const pith_view like = view_of(NULL, PAGE);
    CHECK_OK(pith_kv_encode_pages(work, plan, &like, pairs, PAGES));
    CHECK(jobs == 8);
    pith_plan_destroy(plan);
    free(tokens);
    free(pages);
    free(memory);
}

/* Frames of so many tokens each, and no exact tokens. */
static struct frame frames_of(const char *spec, const uint64_t *tokens, size_t count) {
    struct frame all = {allocate(1 << 16), 0};
    for (size_t i = 0; i <= count; i++) {
        const uint64_t n = i < count ? tokens[i] : 0;
        float *values = tokens_of(n, i);
        const pith_view v = view_of(values, n);
        struct frame f = compress(i < count ? spec : "raw", &v, NULL, 0);
        memcpy(all.bytes + all.length, f.bytes, f.length);
        all.length += f.length;
        free(f.bytes);
        free(values);
    }
    return all;
}

static void check_saved_again(pith_work *work, const pith_kv *cache, struct frame saved) {
    const size_t bytes = (size_t)pith_kv_save_bytes(cache);
    uint8_t *again = allocate(bytes);
    size_t length;
    CHECK(bytes == saved.length);
    CHECK_OK(pith_kv_save(work, cache, again, bytes, &length));
    CHECK(memcmp(again, saved.bytes, bytes) == 0);
    free(again);
}

/* Orders of frames that no cache saves were loaded. */
static void test_order_of_frames(void **state) {
    (void)state;
    static const char token[] = "kv:page=16,group=16",
                      channel[] = "kv:page=16,group=16,axis=channel";
    static const struct {
        const char *spec;
        uint64_t tokens[3];
        size_t count;
        pith_status status;
    } rows[] = {
        {token, {37}, 1, PITH_OK},
        {token, {0}, 1, PITH_ERR_MISMATCH},
        {token, {5, 16}, 2, PITH_ERR_MISMATCH},
        {channel, {5, 16}, 2, PITH_OK},
        {channel, {21, 5, 32}, 3, PITH_OK},
        {channel, {16, 16}, 2, PITH_ERR_MISMATCH},
        {channel, {5, 0}, 2, PITH_ERR_MISMATCH},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        const pith_plan *plan = plan_of(rows[k].spec, 100);
        const size_t bytes = (size_t)pith_kv_bytes(plan, 0) + 4096;
        void *memory = allocate(bytes), *work_memory;
        pith_work *const work = work_of(plan, NULL, &work_memory);
        pith_kv *cache;
        CHECK_OK(pith_kv_init(plan, memory, bytes, &cache, NULL));
        struct frame saved = frames_of(rows[k].spec, rows[k].tokens, rows[k].count);
        context("order %zu", k);
        CHECK_STATUS(rows[k].status, pith_kv_load(work, cache, saved.bytes, saved.length));
        if (rows[k].status == PITH_OK) check_saved_again(work, cache, saved);
        free(saved.bytes);
        free(memory);
        free(work_memory);
        pith_plan_destroy(plan);
    }
}

/* A delta with zstd that was damaged inside was added up to there. */
static void test_half_an_accumulation(void **state) {
    (void)state;
    enum { TOKENS = 45 };
    static const char spec[] = "kv:page=16,group=16,entropy=zstd,block=64";
    const pith_plan *plan = plan_of("kv:page=16", TOKENS), *other = plan_of(spec, TOKENS);
    float *tokens = tokens_of(TOKENS, 5);
    void *memory;
    pith_work *const work = work_of(plan, other, &memory);
    const pith_view v = view_of(tokens, TOKENS);
    struct frame acc = compress("kv:page=16", &v, NULL, 0), delta = compress(spec, &v, NULL, 0);
    uint8_t *before = copy_of(acc.bytes, acc.length);
    size_t refused = 0;
    for (size_t bit = 0; bit < 8 * delta.length; bit += 3) {
        context("bit %zu of a delta flipped", bit);
        delta.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        const pith_status status = pith_kv_accumulate(work, plan, acc.bytes, acc.length, other,
                                                      delta.bytes, delta.length, NULL);
        delta.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (status == PITH_OK) memcpy(acc.bytes, before, acc.length);
        CHECK(memcmp(before, acc.bytes, acc.length) == 0);
        refused += status != PITH_OK;
    }
    CHECK(refused > 100 && refused < 8 * delta.length / 3);
    free(before);
    free(memory);
    free(acc.bytes);
    free(delta.bytes);
    free(tokens);
    pith_plan_destroy(plan);
    pith_plan_destroy(other);
}

/* The stride of a dimension of one place was multiplied, and overflowed. */
static void test_wild_stride(void **state) {
    (void)state;
    const pith_plan *plan = plan_of("kv:page=16,group=16", PAGE);
    const size_t bytes = (size_t)pith_kv_bytes(plan, 0);
    void *memory = allocate(bytes), *work_memory;
    pith_work *const work = work_of(plan, NULL, &work_memory);
    float *tokens = tokens_of(3, 1), dense[ROW], wild[ROW];
    pith_kv *cache;
    CHECK_OK(pith_kv_init(plan, memory, bytes, &cache, NULL));
    const pith_view v = view_of(tokens, 3);
    CHECK_OK(pith_kv_append(work, &cache, &v, 1));
    for (uint32_t heads = 1; heads <= HEADS; heads++) {
        pith_view a = {dense, PITH_F32, 3, {1, heads, DIM}, {ROW, DIM, 1}}, b = a;
        b.data = wild;
        b.stride[0] = INT64_MAX;
        if (heads == 1) b.stride[1] = INT64_MIN;
        CHECK_OK(pith_kv_read(work, &(pith_kv_range){cache, 1, 1, 0, heads, a}, 1));
        CHECK_OK(pith_kv_read(work, &(pith_kv_range){cache, 1, 1, 0, heads, b}, 1));
        CHECK(memcmp(dense, wild, heads * DIM * sizeof *wild) == 0);
    }
    free(memory);
    free(work_memory);
    free(tokens);
    pith_plan_destroy(plan);
}

/* A plan of one head took the cache of a plan of two, and gathered rows into too little memory. The
 * plan is in the cache now: a work of the smaller plan alone says so, or has enough. */
static void test_fewer_heads(void **state) {
    (void)state;
    static const char spec[] = "kv:page=16,group=16";
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 2, .shape = {PAGE, DIM}};
    const pith_plan *plan = plan_of(spec, PAGE), *flat;
    CHECK_OK(pith_plan_create(&flat, spec, &layout, NULL, NULL));
    const size_t bytes = (size_t)pith_kv_bytes(plan, 0);
    void *memory = allocate(bytes), *small_memory, *work_memory;
    pith_work *const small = work_of(flat, NULL, &small_memory);
    pith_work *const work = work_of(plan, NULL, &work_memory);
    float *tokens = tokens_of(2 * PAGE, 1);
    pith_kv *cache;
    CHECK_OK(pith_kv_init(plan, memory, bytes, &cache, NULL));
    pith_view v = view_of(tokens, PAGE);
    v.stride[0] = 2 * ROW;
    const uint64_t shape[2] = {PAGE, DIM};
    const pith_view one = pith_view_dense(tokens, PITH_F32, 2, shape);
    const pith_status status = pith_kv_append(small, &cache, &v, 1);
    CHECK(status == PITH_OK || status == PITH_ERR_SPACE);
    CHECK(pith_kv_count(cache) == (status == PITH_OK ? PAGE : 0));
    CHECK_OK(pith_kv_truncate(work, cache, 0));
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_append(work, &cache, &one, 1));
    pith_plan_destroy(plan);
    pith_plan_destroy(flat);
    free(memory);
    free(small_memory);
    free(work_memory);
    free(tokens);
}

/* The number of outliers followed the caller's rounding mode: a plan made while rounding downward
 * told of too small frames. And 0.05 * 30 came out below 1.5. */
static void test_share_of_outliers(void **state) {
    (void)state;
    static const char *const specs[] = {"kv:page=16,outliers=0.05", "kv:page=16,outliers=0.06",
                                        "kv:page=16,outliers=0.01"};
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD};
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 2, .shape = {PAGE, 30}};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        uint64_t bytes[3];
        for (size_t k = 0; k < 3; k++) {
            const pith_plan *plan;
            fesetround(modes[m]);
            const pith_status status = pith_plan_create(&plan, specs[k], &layout, NULL, NULL);
            bytes[k] = status == PITH_OK ? pith_kv_page_bytes(plan, PAGE) : 0;
            fesetround(FE_TONEAREST);
            CHECK_OK(status);
            pith_plan_destroy(plan);
        }
        context("rounding mode %zu", m);
        CHECK(bytes[0] == bytes[1] && bytes[0] > bytes[2]);
    }
}

/* Looking at the plan of a batch raised exceptions before the control word was set. */
static void test_exceptions_of_a_batch(void **state) {
    (void)state;
    const pith_plan *plan = plan_of("kv:page=16,group=16,outliers=0.1", PAGE);
    const size_t bytes = (size_t)pith_kv_bytes(plan, 0);
    void *memory = allocate(bytes), *work_memory;
    pith_work *const work = work_of(plan, NULL, &work_memory);
    float *tokens = tokens_of(1, 1);
    const pith_view like = view_of(NULL, 1);
    pith_kv_tokens to = {.values = tokens};
    feclearexcept(FE_ALL_EXCEPT);
    CHECK_OK(pith_kv_init(plan, memory, bytes, &to.cache, NULL));
    CHECK_OK(pith_kv_append_batch(work, &like, &to, 1));
    CHECK(fetestexcept(FE_ALL_EXCEPT) == 0);
    free(memory);
    free(work_memory);
    free(tokens);
    pith_plan_destroy(plan);
}

static void check_bound(const struct frame *f, pith_status wanted) {
    double bound;
    CHECK_STATUS(wanted, pith_verify(f->bytes, f->length, NULL, NULL));
    CHECK_STATUS(wanted, pith_error_bound(f->bytes, f->length, &bound, NULL));
}

/* pith_verify passed coded blocks whose stated bound pith_error_bound called damaged; the latter
 * passed blocks whose length and flag contradict each other, and those behind one without bound. */
static void test_bounds_that_blocks_state(void **state) {
    (void)state;
    enum { INDEX = 64, BLOCKS = 2, TOKENS = BLOCKS * PAGE, FIRST = INDEX + 16 };
    static const struct {
        uint64_t bits;
        pith_status wanted;
    } stated[] = {
        {UINT64_C(0xBFF0000000000000), PITH_ERR_CORRUPT}, /* -1 */
        {UINT64_C(0x8000000000000001), PITH_ERR_CORRUPT}, /* the least of the subnormals */
        {UINT64_C(0xFFF0000000000000), PITH_ERR_CORRUPT}, /* -infinity */
        {UINT64_C(0x8000000000000000), PITH_OK},          /* -0 is not below 0 */
        {UINT64_C(0xFFF8000000000000), PITH_OK},          /* NaN of any sign: no bound */
        {UINT64_C(0x7FF8000000000000), PITH_OK},
    };
    float *const tokens = tokens_of(TOKENS, 1);
    for (size_t i = 0; i < TOKENS * ROW; i++) tokens[i] = (float)(i % 3); /* so that coding pays */
    const pith_view v = view_of(tokens, TOKENS);
    struct frame f = compress("kv:entropy=zstd,group=16,page=16,block=512", &v, NULL, 0);
    for (size_t block = 0; block < BLOCKS; block++)
        for (size_t k = 0; k < sizeof stated / sizeof stated[0]; k++) {
            uint32_t first;
            memcpy(&first, f.bytes + INDEX, 4);
            CHECK(!(first >> 31));
            uint8_t *const at = f.bytes + FIRST + (block ? first : 0);
            const uint64_t none = UINT64_C(0x7FF8000000000000);
            uint8_t before[8], *const head = f.bytes + FIRST;
            context("block %zu, bound %zu", block, k);
            if (block) memcpy(head, &none, 8); /* the others are still looked at */
            memcpy(before, at, 8);
            memcpy(at, &stated[k].bits, 8);
            check_bound(&f, stated[k].wanted);
            memcpy(at, before, 8);
        }
    f.bytes[INDEX + 3] ^= 0x80; /* PLAIN, but shorter than that */
    check_bound(&f, PITH_ERR_CORRUPT);
    f.bytes[INDEX + 3] ^= 0x80;
    check_bound(&f, PITH_OK);
    free(f.bytes);
    free(tokens);
}

/* Returns the sum of squared errors of tokens through a setting. */
static double squares(const char *spec, const float *tokens, uint64_t count) {
    float *const out = allocate((size_t)count * ROW * sizeof *out);
    const pith_view from = view_of(tokens, count), to = view_of(out, count);
    struct frame f = compress(spec, &from, NULL, 0);
    double sum = 0;
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &to, NULL));
    for (size_t i = 0; i < count * ROW; i++)
        sum += ((double)out[i] - (double)tokens[i]) * ((double)out[i] - (double)tokens[i]);
    free(f.bytes);
    free(out);
    return sum;
}

/* search=mse took a part of the range where coarse zero points made that lose more than all of
 * it. */
static void test_search_far_from_zero(void **state) {
    (void)state;
    enum { TOKENS = 256 };
    static const char *const bits[] = {"2", "3", "4", "6"};
    for (size_t k = 0; k < 4 * 2 * 11; k++) {
        char plain[64], searched[100];
        float *const tokens = tokens_of(TOKENS, 1);
        double mean = 0, spread = 0;
        for (size_t i = 0; i < TOKENS * ROW; i++) mean += (double)tokens[i] / (TOKENS * ROW);
        for (size_t i = 0; i < TOKENS * ROW; i++)
            spread += fabs((double)tokens[i] - mean) / (TOKENS * ROW);
        const double up = ldexp(1.37 * spread, (int)(k / 8));
        for (size_t i = 0; i < TOKENS * ROW; i++) tokens[i] = (float)((double)tokens[i] + up);
        snprintf(plain, sizeof plain, "kv:page=16,group=16,bits=%s,scale_dtype=%s", bits[k % 4],
                 k / 4 % 2 ? "bf16" : "f16");
        snprintf(searched, sizeof searched, "%s,search=mse", plain);
        context("%s, %g", searched, up);
        CHECK(squares(searched, tokens, TOKENS) <= 1.005 * squares(plain, tokens, TOKENS));
        free(tokens);
    }
}

static sigjmp_buf outside;

static void jump_out(int number) {
    (void)number;
    siglongjmp(outside, 1);
}

/* Appends tokens that nobody may read: true when the call never returned. */
static bool append_lost(pith_work *work, pith_kv *cache, const pith_view *tokens) {
    if (sigsetjmp(outside, 1)) return true;
    CHECK_OK(pith_kv_append(work, &cache, tokens, 1));
    return false;
}

static void *saved_of(pith_work *work, const pith_kv *cache, size_t *bytes) {
    void *const saved = allocate((size_t)pith_kv_save_bytes(cache));
    CHECK_OK(pith_kv_save(work, cache, saved, (size_t)pith_kv_save_bytes(cache), bytes));
    return saved;
}

/* A page that a lost call had begun stayed, without a token, in the cache that was unlocked: what
 * was saved of it could not be loaded. */
static void test_unlock_of_a_begun_page(void **state) {
    (void)state;
    static const char *const specs[] = {"kv:page=16,group=16", "kv:page=16,group=16,axis=channel",
                                        "kv:page=16,group=16,bits=3,outliers=0.1"};
    struct sigaction jump = {.sa_handler = jump_out}, segv, bus;
    CHECK(sigaction(SIGSEGV, &jump, &segv) == 0 && sigaction(SIGBUS, &jump, &bus) == 0);
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        const pith_plan *plan = plan_of(specs[k], 4 * PAGE);
        const size_t bytes = (size_t)pith_kv_bytes(plan, 0);
        float *const tokens = tokens_of(2 * PAGE, k);
        void *memory[3], *work_memory, *lost_memory;
        pith_kv *cache[3]; /* the one that a call is lost in, its twin, and what is loaded */
        pith_work *const work = work_of(plan, NULL, &work_memory);
        pith_work *const lost = work_of(plan, NULL, &lost_memory);
        void *const unreadable =
            mmap(NULL, PAGE * ROW * sizeof *tokens, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        context("%s", specs[k]);
        CHECK(unreadable != MAP_FAILED);
        const pith_view view = view_of(tokens, PAGE), none = view_of(unreadable, PAGE),
                        next = view_of(tokens + PAGE * ROW, PAGE);
        for (int i = 0; i < 3; i++) {
            memory[i] = allocate(bytes);
            CHECK_OK(pith_kv_init(plan, memory[i], bytes, &cache[i], NULL));
            if (i < 2) CHECK_OK(pith_kv_append(work, &cache[i], &view, 1));
        }
        CHECK(append_lost(lost, cache[0], &none));
        pith_kv_unlock(cache[0]);
        CHECK(pith_kv_count(cache[0]) == PAGE);
        for (int more = 0; more < 2; more++) {
            size_t length[2];
            void *const saved[2] = {saved_of(work, cache[0], &length[0]),
                                    saved_of(work, cache[1], &length[1])};
            CHECK(length[0] == length[1] && memcmp(saved[0], saved[1], length[0]) == 0);
            CHECK_OK(pith_kv_load(work, cache[2], saved[0], length[0]));
            CHECK(pith_kv_remaining(cache[0]) == pith_kv_remaining(cache[1]));
            for (int i = 0; i < 2; i++) {
                free(saved[i]);
                CHECK_OK(pith_kv_append(work, &cache[i], &next, 1));
            }
        }
        for (int i = 0; i < 3; i++) free(memory[i]);
        CHECK(munmap(unreadable, PAGE * ROW * sizeof *tokens) == 0);
        free(work_memory);
        free(lost_memory);
        free(tokens);
        pith_plan_destroy(plan);
    }
    CHECK(sigaction(SIGSEGV, &segv, NULL) == 0 && sigaction(SIGBUS, &bus, NULL) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_nan),
        cmocka_unit_test(test_serial_batch),
        cmocka_unit_test(test_order_of_frames),
        cmocka_unit_test(test_half_an_accumulation),
        cmocka_unit_test(test_wild_stride),
        cmocka_unit_test(test_fewer_heads),
        cmocka_unit_test(test_share_of_outliers),
        cmocka_unit_test(test_exceptions_of_a_batch),
        cmocka_unit_test(test_bounds_that_blocks_state),
        cmocka_unit_test(test_search_far_from_zero),
        cmocka_unit_test(test_unlock_of_a_begun_page),
    };
    return cmocka_run_group_tests_name("regressions_kv", tests, NULL, NULL);
}
