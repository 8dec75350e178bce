/* test_gpu_args.c - what is returned: wrong arguments, newer structs, settings that devices do not
 * code. Nothing is launched then, nothing written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "rig.h"

enum { N = 200 };

/* ---- Plans -----------------------------------------------------------------------------------*/

static void test_unsupported(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t dtype, base_dtype;
    } settings[] = {
        {"lossless", PITH_F32, PITH_NONE},
        {"lossless", PITH_BF16, PITH_BF16},
        {"lossless:entropy=rans,key_every=5", PITH_BF16, PITH_BF16},
        {"lossless:revision=1", PITH_F32, PITH_NONE},
        {"wdiff:entropy=zstd", PITH_F32, PITH_NONE},
        {"wdiff:key_every=5", PITH_F32, PITH_BF16},
        {"wdiff:codebook=trellis,entropy=zstd", PITH_F32, PITH_BF16},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const pith_layout layout = flat_layout(settings[i].dtype, settings[i].base_dtype, N);
        struct stream s;
        pith_cuda_sizes sizes = {.size = sizeof sizes};
        pith_error error = {.size = sizeof error};
        const pith_cuda_plan *plan = (const pith_cuda_plan *)&sizes;
        context("%s", settings[i].spec);
        stream_open(&s, settings[i].spec, &layout, NULL);
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_cuda_plan_sizes(s.plan, &sizes, &error));
        CHECK(error.text[0]);
        CHECK(settings[i].spec[0] != 'l' || strstr(error.text, "entropy=rans"));
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_cuda_plan_sizes(s.plan, &sizes, NULL));
        void *const table = device_alloc(4096);
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_cuda_plan_create(&plan, s.plan, NULL, DEVICE, table,
                                                                 4096, device_stream(), &error));
        CHECK(plan == NULL);
        device_free(table);
        stream_close(&s);
    }
}

struct counts {
    size_t taken, given;
};

static void *take(void *user, size_t bytes, size_t align) {
    CHECK(align <= 64);
    ((struct counts *)user)->taken += bytes;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}
static void *refuse(void *user, size_t bytes, size_t align) {
    (void)user, (void)bytes, (void)align;
    return NULL;
}
static void give(void *user, void *memory, size_t bytes) {
    ((struct counts *)user)->given += bytes;
    free(memory);
}

static void test_plan_arguments(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    struct stream s;
    pith_cuda_sizes sizes = {.size = sizeof sizes};
    const pith_cuda_plan *plan;
    pith_error error = {.size = sizeof error};
    pith_env env = {.size = sizeof env, .alloc = NULL};
    context("arguments of plans");
    stream_open(&s, "grad", &layout, NULL);
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_plan_sizes(NULL, &sizes, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_plan_sizes(s.plan, NULL, &error));
    CHECK_OK(pith_cuda_plan_sizes(s.plan, &sizes, NULL));
    CHECK(sizes.alignment == 256 && sizes.plan_bytes && sizes.stream_bytes);
    const size_t bytes = (size_t)sizes.plan_bytes;
    uint8_t *const memory = device_alloc(bytes + 256);
#define CREATE(out, from, device, at, size) \
    pith_cuda_plan_create((out), (from), &env, (device), (at), (size), device_stream(), &error)
    CHECK_STATUS(PITH_ERR_ARG, CREATE(NULL, s.plan, DEVICE, memory, bytes));
    CHECK_STATUS(PITH_ERR_ARG, CREATE(&plan, NULL, DEVICE, memory, bytes));
    CHECK_STATUS(PITH_ERR_ARG, CREATE(&plan, s.plan, DEVICE, NULL, bytes));
    CHECK_STATUS(PITH_ERR_ARG, CREATE(&plan, s.plan, DEVICE, memory + 8, bytes));
    CHECK_STATUS(PITH_ERR_SPACE, CREATE(&plan, s.plan, DEVICE, memory, bytes - 1));
    CHECK(plan == NULL && error.offset == bytes);
    CHECK_STATUS(PITH_ERR_DEVICE, CREATE(&plan, s.plan, 1000, memory, bytes));
    CHECK(plan == NULL && error.text[0] && error.offset);
    env.release = give;
    CHECK_STATUS(PITH_ERR_ARG, CREATE(&plan, s.plan, DEVICE, memory, bytes));
    env.size = 0;
    CHECK_STATUS(PITH_ERR_ARG, CREATE(&plan, s.plan, DEVICE, memory, bytes));
    CHECK_STATUS(PITH_ERR_DEVICE, pith_cuda_available(-1, &error));
    CHECK_STATUS(PITH_ERR_DEVICE, pith_cuda_available(1000, NULL));
    CHECK(error.text[0] && error.offset);
    CHECK_OK(pith_cuda_available(DEVICE, &error));
    CHECK(!error.text[0] && !error.offset);
    pith_cuda_plan_destroy(NULL);
    device_free(memory);
    stream_close(&s);
}

/* Sizes of an older and of a newer caller; one that did not say which it is. */
static void test_sizes(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    struct stream s;
    pith_cuda_sizes all = {.size = sizeof all}, older;
    struct {
        pith_cuda_sizes sizes;
        uint64_t more[2];
    } newer;
    context("sizes of another age");
    stream_open(&s, "grad", &layout, NULL);
    CHECK_OK(pith_cuda_plan_sizes(s.plan, &all, NULL));
    CHECK(all.size == sizeof all);
    memset(&older, UNTOUCHED, sizeof older);
    older.size = offsetof(pith_cuda_sizes, stream_bytes);
    CHECK_OK(pith_cuda_plan_sizes(s.plan, &older, NULL));
    CHECK(older.plan_bytes == all.plan_bytes);
    CHECK(all_bytes(&older.stream_bytes, sizeof older - older.size, UNTOUCHED));
    memset(&newer, UNTOUCHED, sizeof newer);
    newer.sizes.size = sizeof newer;
    CHECK_OK(pith_cuda_plan_sizes(s.plan, &newer.sizes, NULL));
    CHECK(newer.sizes.size == sizeof newer && newer.sizes.stream_bytes == all.stream_bytes);
    CHECK(all_bytes(newer.more, sizeof newer.more, 0));
    newer.sizes.size = 4097;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_plan_sizes(s.plan, &newer.sizes, NULL));
    newer.sizes.size = 0;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_plan_sizes(s.plan, &newer.sizes, NULL));
    stream_close(&s);
}

/* What a plan allocates, it gives back; and the host's plan may go first. */
static void test_environment(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    struct counts counts = {0, 0};
    pith_env env = {.size = sizeof env, .alloc = take, .release = give, .alloc_user = &counts};
    struct stream s;
    pith_cuda_sizes sizes = {.size = sizeof sizes};
    const pith_cuda_plan *plan;
    context("environment");
    stream_open(&s, "grad", &layout, NULL);
    CHECK_OK(pith_cuda_plan_sizes(s.plan, &sizes, NULL));
    const size_t bytes = (size_t)sizes.plan_bytes;
    void *const memory = device_alloc(bytes);
    CHECK_OK(
        pith_cuda_plan_create(&plan, s.plan, &env, DEVICE, memory, bytes, device_stream(), NULL));
    stream_close(&s);
    CHECK(counts.taken && counts.given < counts.taken);
    device_wait();
    pith_cuda_plan_destroy(plan);
    CHECK(counts.given == counts.taken);
    env.alloc = refuse;
    stream_open(&s, "grad", &layout, NULL);
    CHECK_STATUS(PITH_ERR_MEMORY, pith_cuda_plan_create(&plan, s.plan, &env, DEVICE, memory, bytes,
                                                        device_stream(), NULL));
    CHECK(plan == NULL);
    stream_close(&s);
    device_free(memory);
}

/* ---- Items -----------------------------------------------------------------------------------*/

struct bench {
    struct rig r;
    struct job j;
};

static void bench_open(struct bench *b, const char *spec, uint32_t dtype, uint32_t base_dtype,
                       uint32_t flags) {
    pith_layout layout = flat_layout(dtype, base_dtype, N);
    layout.flags = flags;
    context("arguments of %s", spec);
    CHECK(rig_open(&b->r, spec, &layout));
    job_open(&b->j, &b->r, 1, 1, dtype, 0);
    job_push(&b->j);
}

/* Nothing was touched, not even a status word. */
static void bench_close(struct bench *b) {
    struct mirror *const m[4] = {&b->j.tensor, &b->j.frame, &b->j.status, &b->j.lengths};
    for (int i = 0; i < 4; i++) {
        uint8_t *const before = copy_of(m[i]->host, m[i]->bytes);
        mirror_pull(m[i]);
        CHECK(memcmp(before, m[i]->host, m[i]->bytes) == 0);
        free(before);
    }
    job_close(&b->j);
    rig_close(&b->r);
}

enum call { ENCODE, KEY, DECODE, ADD, RANGE, REDUCE, VERIFY, CALLS };
static pith_error the_error = {.size = sizeof the_error};

static pith_status call(struct bench *b, enum call which, pith_cuda_stream *stream,
                        const pith_cuda_items *items) {
    const pith_cuda_plan *const p = b->r.plan;
    void *const on = device_stream();
    switch (which) {
    case ENCODE: return pith_cuda_encode(p, stream, items, 0, on, &the_error);
    case KEY: return pith_cuda_encode(p, stream, items, PITH_KEY_FRAME, on, &the_error);
    case DECODE: return pith_cuda_decode(p, stream, items, 0, on, &the_error);
    case ADD: return pith_cuda_decode(p, stream, items, PITH_ADD, on, &the_error);
    case RANGE: return pith_cuda_decode_range(p, stream, items, 0, 1, on, &the_error);
    case REDUCE: return pith_cuda_reduce(p, stream, items, 1, 1, on, &the_error);
    default: return pith_cuda_verify(p, stream, items, on, &the_error);
    }
}

static void refused_with(struct bench *b, enum call which, pith_cuda_stream *stream,
                         const pith_cuda_items *items, pith_status wanted) {
    the_error.text[0] = 0;
    CHECK_STATUS(wanted, call(b, which, stream, items));
    CHECK(the_error.text[0] != 0);
}

static void refused(struct bench *b, enum call which, const pith_cuda_items *items,
                    pith_status wanted) {
    refused_with(b, which, b->r.stream, items, wanted);
}

static void test_items(void **state) {
    (void)state;
    struct bench b;
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    for (enum call c = 0; c < CALLS; c++) {
        pith_cuda_items items = b.j.items;
        context("items of call %d", (int)c);
        refused(&b, c, NULL, PITH_ERR_ARG);
        items.size = 0;
        refused(&b, c, &items, PITH_ERR_ARG);
        items.size = 4097;
        refused(&b, c, &items, PITH_ERR_ARG);
        items = b.j.items;
        items.count = 0;
        refused(&b, c, &items, PITH_ERR_ARG);
        items.count = UINT64_MAX;
        if (c != KEY) refused(&b, c, &items, PITH_ERR_ARG);
        items = b.j.items;
        items.status = NULL;
        refused(&b, c, &items, PITH_ERR_ARG);
        items = b.j.items;
        void *const askew = (uint8_t *)items.status + 1;
        items.status = askew;
        refused(&b, c, &items, PITH_ERR_ARG);
        items = b.j.items;
        items.lengths = askew;
        refused(&b, c, &items, PITH_ERR_ARG);
        items = b.j.items;
        items.frame = NULL;
        refused(&b, c, &items, PITH_ERR_ARG);
        items = b.j.items;
        items.tensor = NULL;
        if (c != VERIFY) refused(&b, c, &items, PITH_ERR_ARG);
    }
    bench_close(&b);
}

/* A struct of a newer library: its rest must be zero. */
static void test_newer_items(void **state) {
    (void)state;
    struct bench b;
    struct {
        pith_cuda_items items;
        uint64_t more[2];
    } newer;
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    memset(&newer, 0, sizeof newer);
    newer.items = b.j.items;
    newer.items.size = sizeof newer;
    newer.more[1] = 1;
    for (enum call c = 0; c < CALLS; c++) refused(&b, c, &newer.items, PITH_ERR_UNSUPPORTED);
    bench_close(&b);
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    newer.items = b.j.items;
    newer.items.size = sizeof newer;
    newer.more[1] = 0;
    CHECK_OK(call(&b, ENCODE, b.r.stream, &newer.items));
    job_pull(&b.j);
    CHECK_OK(job_status(&b.j, 0));
    job_close(&b.j);
    rig_close(&b.r);
}

/* Every call takes a stream, whatever the codec, in memory that is aligned. */
static void test_streams(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t base_dtype;
    } codecs[] = {{"raw", PITH_NONE},
                  {"grad", PITH_NONE},
                  {"wdiff", PITH_BF16},
                  {"wdiff", PITH_NONE},
                  {"kv", PITH_NONE},
                  {"eb", PITH_NONE},
                  {"embed:mode=fast", PITH_NONE},
                  {"act", PITH_NONE},
                  {"grad:ef=full", PITH_NONE}};
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        struct bench b;
        bench_open(&b, codecs[i].spec, PITH_F32, codecs[i].base_dtype, 0);
        pith_cuda_stream *const askew = (pith_cuda_stream *)(void *)((uint8_t *)b.r.stream + 4);
        for (enum call c = 0; c < CALLS; c++) {
            refused_with(&b, c, NULL, &b.j.items, PITH_ERR_ARG);
            refused_with(&b, c, askew, &b.j.items, PITH_ERR_ARG);
        }
        bench_close(&b);
    }
}

static void test_flags(void **state) {
    (void)state;
    struct bench b;
    void *const on = device_stream();
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    const pith_cuda_items *const items = &b.j.items;
    refused(&b, KEY, items, PITH_ERR_UNSUPPORTED);
    for (uint32_t bit = 0; bit < 32; bit++) {
        const uint32_t flags = UINT32_C(1) << bit;
        /* The codec sends no sets. */
        const bool sets = flags & (PITH_SAME_SET | PITH_HELD_SET | PITH_SAME_BLOCKS);
        context("flag %u", flags);
        if (flags != PITH_KEY_FRAME)
            CHECK_STATUS(sets ? PITH_ERR_UNSUPPORTED : PITH_ERR_ARG,
                         pith_cuda_encode(b.r.plan, b.r.stream, items, flags, on, NULL));
        if (flags != PITH_ADD)
            CHECK_STATUS(PITH_ERR_ARG,
                         pith_cuda_decode(b.r.plan, b.r.stream, items, flags, on, NULL));
    }
    bench_close(&b);
}

/* Where results depend on the stream, a slot comes once. */
static void test_same_slot(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t base_dtype;
        bool encodes, decodes; /* whether they depend */
    } codecs[] = {{"wdiff", PITH_BF16, true, true},
                  {"kv", PITH_BF16, true, true},
                  {"grad:ef=full", PITH_NONE, true, false},
                  {"grad:round=stochastic", PITH_NONE, true, false},
                  {"grad:round=antithetic", PITH_NONE, true, false},
                  {"wdiff:round=stochastic", PITH_NONE, true, false}};
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        struct bench b;
        bench_open(&b, codecs[i].spec, PITH_F32, codecs[i].base_dtype, 0);
        pith_cuda_items pages = b.j.items;
        pages.count = 2;
        pages.same_slot = 1;
        refused(&b, ENCODE, &pages, PITH_ERR_ARG);
        if (codecs[i].base_dtype) refused(&b, KEY, &pages, PITH_ERR_ARG);
        if (codecs[i].decodes) refused(&b, DECODE, &pages, PITH_ERR_ARG);
        bench_close(&b);
    }
    struct bench a, b;
    bench_open(&a, "grad", PITH_F32, PITH_NONE, 0);
    bench_open(&b, "grad:ef=full", PITH_F32, PITH_NONE, 0);
    pith_cuda_items x = a.j.items, y = b.j.items;
    x.count = y.count = 2;
    x.same_slot = y.same_slot = 1;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_reduce_encode(a.r.plan, a.r.stream, &x, 1, 1, b.r.plan,
                                                       b.r.stream, &y, device_stream(), NULL));
    bench_close(&b);
    bench_close(&a);
}

static void test_dtypes(void **state) {
    (void)state;
    static const uint32_t others[] = {PITH_NONE, PITH_F64, PITH_U8, PITH_I16, 200};
    struct bench b;
    pith_cuda_items items;
    bench_open(&b, "grad", PITH_BF16, PITH_NONE, 0);
    items = b.j.items;
    items.dtype = PITH_F32;
    refused(&b, ENCODE, &items, PITH_ERR_DTYPE);
    for (int i = 0; i < 5; i++) {
        items.dtype = others[i];
        for (enum call c = 0; c < CALLS; c++)
            if (c != KEY && c != VERIFY) refused(&b, c, &items, PITH_ERR_DTYPE);
    }
    bench_close(&b);
    bench_open(&b, "raw", PITH_F64, PITH_NONE, 0);
    items = b.j.items;
    refused(&b, ADD, &items, PITH_ERR_DTYPE);
    refused(&b, REDUCE, &items, PITH_ERR_UNSUPPORTED);
    items.dtype = PITH_F32;
    refused(&b, DECODE, &items, PITH_ERR_DTYPE);
    bench_close(&b);
    bench_open(&b, "wdiff", PITH_F32, PITH_BF16, 0);
    refused(&b, ADD, &b.j.items, PITH_ERR_DTYPE);
    bench_close(&b);
}

/* Where frames are looked at as a whole first, that needs memory. */
static void test_workspace(void **state) {
    (void)state;
    struct bench b;
    bench_open(&b, "grad", PITH_F32, PITH_NONE, PITH_LAYOUT_CHECKSUMS);
    CHECK(b.r.sizes.workspace_bytes && b.j.items.workspace);
    for (enum call c = 0; c < CALLS; c++) {
        pith_cuda_items items = b.j.items;
        if (c == ENCODE || c == KEY) continue;
        items.workspace = NULL;
        refused(&b, c, &items, PITH_ERR_SPACE);
        items = b.j.items;
        items.workspace_bytes--;
        refused(&b, c, &items, PITH_ERR_SPACE);
        items = b.j.items;
        items.workspace = (uint8_t *)items.workspace + 1;
        refused(&b, c, &items, PITH_ERR_SPACE);
    }
    bench_close(&b);
}

static pith_status sum(const struct bench *a, const pith_cuda_items *x, uint32_t per_item,
                       const struct bench *b, const pith_cuda_items *y) {
    the_error.text[0] = 0;
    return pith_cuda_reduce_encode(a->r.plan, a->r.stream, x, per_item, 1, b->r.plan, b->r.stream,
                                   y, device_stream(), &the_error);
}

static void test_sums(void **state) {
    (void)state;
    struct bench a, b;
    pith_cuda_items items;
    void *const on = device_stream();
    bench_open(&a, "grad", PITH_F32, PITH_NONE, 0);
    bench_open(&b, "grad", PITH_BF16, PITH_NONE, 0);
    const pith_cuda_items *const x = &a.j.items, *const y = &b.j.items;
    const struct bench none = {.r = {.stream = b.r.stream}};
    context("arguments of sums");
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_reduce(a.r.plan, a.r.stream, x, 0, 1, on, NULL));
    CHECK_STATUS(PITH_ERR_ARG, sum(&a, x, 0, &b, y));
    CHECK_STATUS(PITH_ERR_ARG, sum(&a, x, 1, &a, x)); /* one stream */
    CHECK_STATUS(PITH_ERR_ARG, sum(&none, x, 1, &b, y));
    CHECK_STATUS(PITH_ERR_ARG, sum(&a, x, 1, &none, y));
    CHECK_STATUS(PITH_ERR_ARG, sum(&a, NULL, 1, &b, y));
    CHECK_STATUS(PITH_ERR_ARG, sum(&b, y, 1, &a, NULL));
    CHECK(the_error.text[0]);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, sum(&a, x, 1, &b, y));
    CHECK(the_error.text[0]);
    items = *x;
    items.count = 2;
    CHECK_STATUS(PITH_ERR_ARG, sum(&b, y, 1, &a, &items));
    items = *x;
    items.status = NULL;
    CHECK_STATUS(PITH_ERR_ARG, sum(&b, y, 1, &a, &items));
    CHECK(the_error.text[0]);
    const struct bench streamless = {.r = {.plan = a.r.plan}};
    CHECK_STATUS(PITH_ERR_ARG, sum(&b, y, 1, &streamless, x));
    CHECK_STATUS(PITH_ERR_ARG, sum(&streamless, x, 1, &b, y));
    bench_close(&b);
    bench_close(&a);
}

static void test_null_plans(void **state) {
    (void)state;
    struct bench b;
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    struct bench none = b;
    none.r.plan = NULL;
    for (enum call c = 0; c < CALLS; c++) refused(&none, c, &b.j.items, PITH_ERR_ARG);
    bench_close(&b);
}

/* ---- Calls about streams ---------------------------------------------------------------------*/

static void test_stream_arguments(void **state) {
    (void)state;
    struct bench b;
    pith_stream_options options = {.size = sizeof options};
    struct {
        pith_stream_options options;
        uint64_t more;
    } newer = {.options = {.size = sizeof newer}, .more = 1};
    pith_error error = {.size = sizeof error};
    void *const on = device_stream();
    bench_open(&b, "wdiff", PITH_F32, PITH_BF16, 0);
    const pith_cuda_plan *const p = b.r.plan;
    pith_cuda_stream *const s = b.r.stream;
    void *const base = b.j.tensor.device;
    const size_t bytes = (size_t)b.r.sizes.stream_bytes;
    uint8_t *const at = (uint8_t *)s;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_init(NULL, at, bytes, NULL, on, &error));
    CHECK_STATUS(PITH_ERR_SPACE, pith_cuda_stream_init(p, at, bytes - 1, NULL, on, &error));
    CHECK(error.text[0] && error.offset == bytes);
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_init(p, NULL, bytes, NULL, on, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_init(p, at + 8, bytes, NULL, on, NULL));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_stream_init(p, at, bytes, &newer.options, on, &error));
    options.rank = 1;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_init(p, at, bytes, &options, on, &error));
    options.size = 0;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_init(p, at, bytes, &options, on, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_random(p, s, &options, on, &error));
    options = (pith_stream_options){.size = sizeof options};
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_random(p, s, NULL, on, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_random(p, NULL, &options, on, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_random(NULL, s, &options, on, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_step(p, NULL, 0, 0, on, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_step(NULL, s, 0, 0, on, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_step(p, s, 1, 0, on, &error));
    CHECK_STATUS(PITH_ERR_DTYPE, pith_cuda_stream_set_base(p, s, base, PITH_F64, 0, on, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_base(p, s, NULL, PITH_F32, 0, on, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_base(p, NULL, base, PITH_F32, 0, on, &error));
    CHECK_STATUS(PITH_ERR_STATE, pith_cuda_stream_bind_base(p, s, base, 0, on, &error));
    CHECK_STATUS(PITH_ERR_STATE, pith_cuda_stream_rollback(p, s, 0, on, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_rollback(p, NULL, 0, on, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_verify(p, s, NULL, on, &error));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_cuda_stream_verify(p, (const pith_cuda_stream *)(void *)(at + 4),
                                         (int32_t *)(void *)b.j.status.device, on, &error));
    CHECK(error.text[0]);
    bench_close(&b);
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    CHECK(pith_cuda_stream_base(b.r.plan, b.r.stream) == NULL);
    CHECK_STATUS(PITH_ERR_STATE, pith_cuda_stream_set_base(b.r.plan, b.r.stream, b.j.tensor.device,
                                                           PITH_F32, 0, on, &error));
    bench_close(&b);
}

/* An error that its owner did not size is not written to, and a short one not beyond its size. */
static void test_errors(void **state) {
    (void)state;
    struct bench b;
    pith_error error, before;
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    memset(&error, UNTOUCHED, sizeof error);
    error.size = 0;
    before = error;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_encode(b.r.plan, NULL, &b.j.items, 0, NULL, &error));
    CHECK(memcmp(&error, &before, sizeof error) == 0);
    error.size = offsetof(pith_error, text) + 8;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_encode(b.r.plan, NULL, &b.j.items, 0, NULL, &error));
    CHECK(strlen(error.text) == 7);
    CHECK(all_bytes(error.text + 8, sizeof error.text - 8, UNTOUCHED));
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unsupported), cmocka_unit_test(test_plan_arguments),
        cmocka_unit_test(test_sizes),       cmocka_unit_test(test_environment),
        cmocka_unit_test(test_items),       cmocka_unit_test(test_newer_items),
        cmocka_unit_test(test_streams),     cmocka_unit_test(test_flags),
        cmocka_unit_test(test_same_slot),   cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_workspace),   cmocka_unit_test(test_sums),
        cmocka_unit_test(test_null_plans),  cmocka_unit_test(test_stream_arguments),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests_name("gpu_args", tests, NULL, NULL);
}
