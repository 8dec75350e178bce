/* test_fpenv.c - a host that flushes subnormals and rounds elsewhere changes nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>

#include "gen.h"
#include "util.h"

/* ---- The control word ------------------------------------------------------------------------*/

#if defined(__x86_64__)
#include <immintrin.h>
static unsigned control(void) { return _mm_getcsr(); }
static void set_control(unsigned word) { _mm_setcsr(word); }
/* Flush to zero, denormals are zero, with every rounding mode. */
static const unsigned words[] = {0x1F80 | 0x8040, 0x1F80 | 0x2000, 0x1F80 | 0xC040 | 0x6000,
                                 0x1F80 | 0x6000};
#else
static unsigned control(void) { return (unsigned)fegetround(); }
static void set_control(unsigned word) { fesetround((int)word); }
static const unsigned words[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
#endif
enum { WORDS = sizeof words / sizeof words[0] };

/* ---- Everything that computes, once ----------------------------------------------------------*/

enum { N = 3000, TRACE = 1 << 21 };

struct trace {
    uint8_t bytes[TRACE];
    size_t length;
    unsigned word; /* that every call must leave as it was */
    bool kept;
};

static void add(struct trace *t, const void *bytes, size_t length) {
    t->kept = t->kept && control() == t->word;
    if (length > TRACE - t->length) abort();
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
}

struct data {
    float value[N], base[N];
    double wide[N];
};

static struct data *make_data(void) {
    struct data *d = allocate(sizeof *d);
    gen_fill(GEN_NOISE, 1, PITH_F32, d->value, N);
    gen_fill(GEN_NOISE, 2, PITH_F32, d->base, N);
    gen_fill(GEN_TINY, 3, PITH_F32, d->value + 1000, 700);
    gen_fill(GEN_TINY, 4, PITH_F32, d->base + 900, 700);
    gen_fill(GEN_LARGE, 5, PITH_F32, d->value + 2000, 300);
    gen_fill(GEN_TIES, 6, PITH_F32, d->value + 2300, 200);
    gen_fill(GEN_NOISE, 7, PITH_F64, d->wide, N);
    gen_fill(GEN_TINY, 8, PITH_F64, d->wide + 1000, 700);
    gen_fill(GEN_TIES, 9, PITH_F64, d->wide + 2300, 200);
    return d;
}

static void run_stream(struct trace *t, const struct data *d, const char *spec, uint32_t base_dtype,
                       uint32_t threads) {
    const pith_layout layout = flat_layout(PITH_F32, base_dtype, N);
    pith_env env = test_env();
    env.threads = threads;
    struct stream a, b;
    float out[N];
    uint8_t frame[4 * N + 4096];
    size_t length;
    const pith_view v = pith_view_flat(d->value, PITH_F32, N);
    const pith_view base = pith_view_flat(d->base, PITH_F32, N),
                    o = pith_view_flat(out, PITH_F32, N);
    stream_open(&a, spec, &layout, &env);
    stream_open(&b, spec, &layout, &env);
    CHECK_OK(pith_stream_set_base(a.work, a.stream, &base, 0));
    CHECK_OK(pith_stream_set_base(b.work, b.stream, &base, 0));
    for (int step = 0; step < 3; step++) {
        if (step == 1)
            CHECK_OK(
                encode_one(a.work, a.stream, &v, 0, PITH_KEY_FRAME, frame, sizeof frame, &length));
        else
            CHECK_OK(encode_one(a.work, a.stream, &v, 0, 0, frame, sizeof frame, &length));
        add(t, frame, length);
        CHECK_OK(decode_one(b.work, b.stream, 0, frame, length, &o, 0));
        add(t, out, sizeof out);
        CHECK_OK(pith_stream_get_base(b.work, b.stream, 0, &o));
        add(t, out, sizeof out);
    }
    stream_close(&a);
    stream_close(&b);
}

static void run_oneshot(struct trace *t, const struct data *d) {
    const pith_env env = test_env();
    uint8_t bytes[4 * N + 4096];
    float out[N];
    size_t length;
    double bound;
    const pith_view v = pith_view_flat(d->value, PITH_F32, N), o = pith_view_flat(out, PITH_F32, N);
    const pith_view part = pith_view_flat(out, PITH_F32, 777);
    CHECK_OK(pith_compress("wdiff:bits=3,group=64", &v, NULL, NULL, &env, bytes, sizeof bytes,
                           &length, NULL));
    add(t, bytes, length);
    CHECK_OK(pith_decompress(bytes, length, NULL, &env, &o, NULL));
    add(t, out, sizeof out);
    CHECK_OK(pith_decode_range(bytes, length, NULL, 1111, &env, &part, NULL));
    add(t, out, 777 * 4);
    CHECK_OK(pith_verify(bytes, length, &env, NULL));
    add(t, out, 0);
    CHECK_OK(pith_error_bound(bytes, length, &bound, NULL));
    add(t, &bound, sizeof bound);
    /* A scale that no encoder writes: a host that reads subnormals as zero sees the same bound. */
    for (size_t i = 0; i < 4 * ((N + 63) / 64); i += 4) memcpy(bytes + 64 + i, &(uint32_t){5}, 4);
    CHECK_OK(pith_error_bound(bytes, length, &bound, NULL));
    add(t, &bound, sizeof bound);
}

/* The residual out, rotated back, and in again, in part. */
static void run_residual(struct trace *t, const struct stream *s, const struct data *d) {
    float out[N];
    const pith_view o = pith_view_flat(out, PITH_F32, N);
    const pith_view part = pith_view_flat(d->value + 1000, PITH_F32, 777);
    if (pith_stream_get_residual(s->work, s->stream, 0, &o) != PITH_OK) return;
    add(t, out, sizeof out);
    CHECK_OK(pith_stream_set_residual(s->work, s->stream, 1111, &part));
    CHECK_OK(pith_stream_get_residual(s->work, s->stream, 0, &o));
    add(t, out, sizeof out);
}

static void run_reduce(struct trace *t, const struct data *d, const char *in, const char *to) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    struct stream a, b;
    float out[N];
    uint8_t x[4 * N], y[4 * N], z[4 * N];
    size_t nx, ny, nz;
    const pith_view v = pith_view_flat(d->value, PITH_F32, N), o = pith_view_flat(out, PITH_F32, N);
    const pith_view w = pith_view_flat(d->base, PITH_F32, N);
    stream_open(&a, in, &layout, NULL);
    stream_open(&b, to, &layout, NULL);
    void *memory;
    pith_work *const work = work_for((const pith_plan *const[]){a.plan, b.plan}, 2, NULL, &memory);
    CHECK_OK(encode_one(a.work, a.stream, &v, 0, 0, x, sizeof x, &nx));
    CHECK_OK(encode_one(a.work, a.stream, &w, 0, 0, y, sizeof y, &ny));
    add(t, y, ny);
    const void *const frames[2] = {x, y};
    const size_t lengths[2] = {nx, ny};
    CHECK_OK(reduce_one(a.work, a.stream, 0, frames, lengths, 2, 1.0f / 3, &o));
    add(t, out, sizeof out);
    for (int step = 0; step < 2; step++) {
        CHECK_OK(reduce_encode_one(work, a.stream, 0, frames, lengths, 2, 1.0f / 3, b.stream, 0, z,
                                   sizeof z, &nz));
        add(t, z, nz);
    }
    CHECK_OK(decode_one(a.work, a.stream, 0, x, nx, &o, PITH_ADD));
    add(t, out, sizeof out);
    run_residual(t, &b, d);
    free(memory);
    stream_close(&a);
    stream_close(&b);
}

/* Bounds, what follows from all values, and values of both formats near their smallest. */
static void run_bounded(struct trace *t, const struct data *d, const char *spec) {
    const pith_env env = test_env();
    uint8_t bytes[8 * N + 4096];
    double out[N], bound;
    size_t length;
    for (int k = 0; k < 2; k++) {
        const uint32_t dtype = k ? PITH_F64 : PITH_F32;
        const pith_view v =
            pith_view_flat(k ? (const void *)d->wide : (const void *)d->value, dtype, N);
        const pith_view o = pith_view_flat(out, dtype, N);
        const pith_view part = pith_view_flat(out, dtype, 777);
        CHECK_OK(pith_compress(spec, &v, NULL, NULL, &env, bytes, sizeof bytes, &length, NULL));
        add(t, bytes, length);
        CHECK_OK(pith_decompress(bytes, length, NULL, &env, &o, NULL));
        add(t, out, N * pith_dtype_bytes(dtype));
        CHECK_OK(pith_decode_range(bytes, length, NULL, 1111, &env, &part, NULL));
        add(t, out, 777 * pith_dtype_bytes(dtype));
        CHECK_OK(pith_verify(bytes, length, &env, NULL));
        CHECK_OK(pith_error_bound(bytes, length, &bound, NULL));
        add(t, &bound, sizeof bound);
    }
}

static const char *const bounded[] = {"eb:abs=1e-39",
                                      "eb:abs=0.01,block=256",
                                      "eb:mode=ratio,abs=0.5,block=1024",
                                      "eb:mode=auto,rel=1e-3,range=0.3",
                                      "eb:pwrel=0.01,zeros=signed",
                                      "eb:psnr=300",
                                      "eb:mode=ratio,nmse=1e-4",
                                      "embed:abs=0.02,dim=10",
                                      "embed:rel=1e-30,dim=3,block=64",
                                      "act:abs=0.01",
                                      "act:mode=ratio,pwrel=0.1,block=512"};

/* What adapts bounds, in f64, where they may be subnormal. */
static void run_adaptive(struct trace *t, const struct data *d) {
    static const double given[] = {1e-310, -1e-310, 0.01}, momentum[] = {1e-3, 7e-4, 1e-310};
    static const char *const specs[] = {"embed:rel=0.01,dim=3", "embed:rel=0.1,dim=3"};
    const pith_layout layout = flat_layout(PITH_F64, PITH_NONE, N);
    const pith_view v = pith_view_flat(d->wide, PITH_F64, N);
    pith_budget budget = {.size = sizeof budget, .gradient = 1e-4, .samples = 7};
    pith_row_statistics statistics = {.size = sizeof statistics};
    uint8_t frame[8 * N + 4096];
    size_t length;
    double bound;
    struct stream s;
    stream_open(&s, "act:rel=1e-3", &layout, NULL);
    for (size_t i = 0; i < 2 * sizeof given / sizeof given[0]; i++) {
        const double x = given[i / 2];
        const pith_status status = i % 2 ? pith_stream_set_bound(s.work, s.stream, 0, x)
                                         : pith_stream_scale_bound(s.work, s.stream, 0, x);
        add(t, &status, sizeof status);
        CHECK_OK(encode_one(s.work, s.stream, &v, 0, 0, frame, sizeof frame, &length));
        add(t, frame, length);
        bound = pith_stream_bound(s.stream, 0);
        add(t, &bound, sizeof bound);
        bound = pith_stream_nonzero(s.stream, 0);
        add(t, &bound, sizeof bound);
        budget.momentum = momentum[i / 2];
        CHECK_OK(pith_stream_adapt(s.work, s.stream, 0, &budget, &bound));
        add(t, &bound, sizeof bound);
    }
    stream_close(&s);
    CHECK_OK(pith_row_statistics_sample(&statistics, specs, 2, &v, NULL, NULL));
    statistics.distinct = 3, statistics.coded[1] = 1;
    for (uint32_t k = 0; k < 2; k++) {
        const double index = pith_row_statistics_index(&statistics, k);
        add(t, &index, sizeof index);
    }
}

/* Pages by themselves, and a cache that gets tokens in each of the three ways. */
static void run_pages(struct trace *t, const struct data *d, const char *spec, uint32_t threads) {
    enum { DIM = 25, TOKENS = N / DIM, PAGE = 16, ROOM = 2 * N * sizeof(float) + 4096 };
    static uint8_t memory[ROOM], page[ROOM];
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 2, .shape = {TOKENS, DIM}};
    pith_env env = test_env();
    const pith_plan *plan;
    pith_kv *cache;
    void *work_memory;
    float out[N];
    env.threads = threads;
    CHECK_OK(pith_plan_create(&plan, spec, &layout, &env, NULL));
    pith_work *const work = work_for(&plan, 1, &env, &work_memory);
    pith_view like = pith_view_dense(NULL, PITH_F32, 2, (const uint64_t[]){PAGE, DIM});
    for (size_t i = 0; i + PAGE <= TOKENS; i += PAGE) {
        const pith_kv_pair in = {.values = (void *)(uintptr_t)(d->value + i * DIM), .page = page};
        const pith_kv_pair back = {.values = out, .page = page};
        memset(page, 0, sizeof page);
        CHECK_OK(pith_kv_encode_pages(work, plan, &like, &in, 1));
        add(t, page, (size_t)pith_kv_page_bytes(plan, PAGE));
        CHECK_OK(pith_kv_decode_pages(work, plan, &like, &back, 1));
        add(t, out, PAGE * DIM * sizeof *out);
        const double bound = pith_kv_page_bound(plan, page, PAGE);
        add(t, &bound, sizeof bound);
    }
    CHECK_OK(pith_kv_init(plan, memory, sizeof memory, &cache, NULL));
    pith_view some = pith_view_dense(d->value, PITH_F32, 2, (const uint64_t[]){TOKENS - 2, DIM});
    CHECK_OK(pith_kv_append(work, &cache, &some, 1));
    like.shape[0] = 1;
    const pith_kv_tokens one = {.cache = cache, .values = d->value + (TOKENS - 2) * DIM};
    CHECK_OK(pith_kv_append_batch(work, &like, &one, 1));
    const pith_view whole = pith_view_dense(out, PITH_F32, 2, (const uint64_t[]){TOKENS - 1, DIM});
    CHECK_OK(pith_kv_read(work, &(pith_kv_range){cache, 0, TOKENS - 1, 0, 1, whole}, 1));
    add(t, out, (TOKENS - 1) * DIM * sizeof *out);
    pith_plan_destroy(plan);
    free(work_memory);
}

static void run_all(struct trace *t, const struct data *d, unsigned word) {
    const unsigned before = control();
    t->length = 0;
    t->word = word;
    t->kept = true;
    set_control(word);
    run_stream(t, d, "wdiff:group=128", PITH_F32, 1);
    run_stream(t, d, "wdiff:group=64,round=stochastic,scale_dtype=bf16,block=256", PITH_F16, 1);
    run_oneshot(t, d);
    run_reduce(t, d, "wdiff:bits=8", "wdiff:bits=4,group=128");
    run_reduce(t, d, "grad:preset=intra,round=stochastic,block=1024", "grad:ef=ema:0.3,bits=3");
    run_reduce(t, d, "grad:rotate=0,search=mse,ef=full", "grad:sign_seed=3,ef=full");
    for (size_t i = 0; i < sizeof bounded / sizeof bounded[0]; i++) run_bounded(t, d, bounded[i]);
    run_adaptive(t, d);
    run_pages(t, d, "kv:page=16,group=32", 1);
    run_pages(t, d, "kv:page=16,axis=channel,group=16,bits=2,search=mse", 1);
#ifdef _OPENMP
    run_stream(t, d, "wdiff:bits=6,group=64,block=64", PITH_BF16, 2);
    run_pages(t, d, "kv:page=16,group=32", 2);
#endif
    set_control(before);
}

static void test_foreign_control_words(void **state) {
    (void)state;
    struct data *d = make_data();
    struct trace *plain = allocate(sizeof *plain), *foreign = allocate(sizeof *foreign);
    context("plain control word");
    run_all(plain, d, control());
    CHECK(plain->length > 10000);
    for (size_t i = 0; i < WORDS; i++) {
        context("control word %04x", words[i]);
        run_all(foreign, d, words[i]);
        CHECK(foreign->length == plain->length);
        CHECK(memcmp(foreign->bytes, plain->bytes, plain->length) == 0);
        CHECK(foreign->kept);
    }
    free(plain);
    free(foreign);
    free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_foreign_control_words)};
    return cmocka_run_group_tests_name("fpenv", tests, NULL, NULL);
}
