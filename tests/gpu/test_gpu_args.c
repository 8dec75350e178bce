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
        {"wdiff:entropy=zstd", PITH_F32, PITH_NONE},
        {"wdiff:key_every=5", PITH_F32, PITH_BF16},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const pith_layout layout = flat_layout(settings[i].dtype, settings[i].base_dtype, N);
        struct stream s;
        pith_cuda_sizes sizes;
        pith_error error = {NULL, 0};
        pith_cuda_plan *plan = (pith_cuda_plan *)&sizes;
        context("%s", settings[i].spec);
        stream_open(&s, settings[i].spec, &layout, NULL);
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_cuda_plan_sizes(s.plan, &sizes, &error));
        CHECK(error.text && error.text[0]);
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_cuda_plan_sizes(s.plan, &sizes, NULL));
        void *const table = device_alloc(4096);
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_cuda_plan_create(&plan, s.plan, NULL, DEVICE, table,
                                                                 4096, device_stream(), &error));
        CHECK(plan == NULL);
        device_free(table);
        stream_close(&s);
    }
}

static void test_plan_arguments(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    struct stream s;
    pith_cuda_sizes sizes;
    pith_cuda_plan *plan;
    pith_error error = {NULL, 0};
    context("arguments of plans");
    stream_open(&s, "grad", &layout, NULL);
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_plan_sizes(NULL, &sizes, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_plan_sizes(s.plan, NULL, &error));
    CHECK_OK(pith_cuda_plan_sizes(s.plan, &sizes, NULL));
    CHECK(sizes.alignment == 256 && sizes.table_bytes && sizes.state_bytes);
    const size_t bytes = (size_t)sizes.table_bytes;
    uint8_t *const table = device_alloc(bytes + 256);
#define CREATE(out, from, device, at, size) \
    pith_cuda_plan_create((out), (from), NULL, (device), (at), (size), device_stream(), &error)
    CHECK_STATUS(PITH_ERR_ARG, CREATE(NULL, s.plan, DEVICE, table, bytes));
    CHECK_STATUS(PITH_ERR_ARG, CREATE(&plan, NULL, DEVICE, table, bytes));
    CHECK_STATUS(PITH_ERR_ARG, CREATE(&plan, s.plan, DEVICE, NULL, bytes));
    CHECK_STATUS(PITH_ERR_ARG, CREATE(&plan, s.plan, DEVICE, table + 8, bytes));
    CHECK_STATUS(PITH_ERR_SPACE, CREATE(&plan, s.plan, DEVICE, table, bytes - 1));
    CHECK(plan == NULL && error.offset == bytes);
    CHECK_STATUS(PITH_ERR_DEVICE, CREATE(&plan, s.plan, 1000, table, bytes));
    CHECK(plan == NULL && error.text[0] && error.offset);
    CHECK_STATUS(PITH_ERR_DEVICE, pith_cuda_available(-1, &error));
    CHECK_STATUS(PITH_ERR_DEVICE, pith_cuda_available(1000, NULL));
    CHECK_OK(pith_cuda_available(DEVICE, &error));
    pith_cuda_plan_destroy(NULL);
    device_free(table);
    stream_close(&s);
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

/* What a plan allocates, it gives back; and the host's plan may go first. */
static void test_environment(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    struct counts counts = {0, 0};
    pith_env env = {.size = sizeof env, .alloc = take, .release = give, .alloc_user = &counts};
    struct stream s;
    pith_cuda_sizes sizes;
    pith_cuda_plan *plan;
    context("environment");
    stream_open(&s, "grad", &layout, NULL);
    CHECK_OK(pith_cuda_plan_sizes(s.plan, &sizes, NULL));
    void *const table = device_alloc((size_t)sizes.table_bytes);
    CHECK_OK(pith_cuda_plan_create(&plan, s.plan, &env, DEVICE, table, (size_t)sizes.table_bytes,
                                   device_stream(), NULL));
    stream_close(&s);
    CHECK(counts.taken && counts.given < counts.taken);
    device_wait();
    pith_cuda_plan_destroy(plan);
    CHECK(counts.given == counts.taken);
    env.alloc = refuse;
    stream_open(&s, "grad", &layout, NULL);
    CHECK_STATUS(PITH_ERR_MEMORY,
                 pith_cuda_plan_create(&plan, s.plan, &env, DEVICE, table,
                                       (size_t)sizes.table_bytes, device_stream(), NULL));
    CHECK(plan == NULL);
    stream_close(&s);
    device_free(table);
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

static pith_status call(struct bench *b, enum call which, pith_cuda_state *state,
                        const pith_cuda_items *items) {
    pith_cuda_plan *const p = b->r.plan;
    void *const stream = device_stream();
    switch (which) {
    case ENCODE: return pith_cuda_encode(p, state, items, stream);
    case KEY: return pith_cuda_encode_key(p, state, items, stream);
    case DECODE: return pith_cuda_decode(p, state, items, stream);
    case ADD: return pith_cuda_decode_add(p, items, stream);
    case RANGE: return pith_cuda_decode_range(p, state, items, 0, 1, stream);
    case REDUCE: return pith_cuda_reduce(p, state, items, 1, 1, stream);
    default: return pith_cuda_verify(p, state, items, stream);
    }
}

static void refused(struct bench *b, enum call which, pith_cuda_state *state,
                    const pith_cuda_items *items, pith_status wanted) {
    CHECK_STATUS(wanted, call(b, which, state, items));
    CHECK(pith_cuda_plan_error(b->r.plan).text[0] != 0);
}

static void test_items(void **state) {
    (void)state;
    struct bench b;
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    for (enum call c = 0; c < CALLS; c++) {
        pith_cuda_items items = b.j.items;
        context("items of call %d", (int)c);
        refused(&b, c, NULL, NULL, PITH_ERR_ARG);
        items.size = 0;
        refused(&b, c, NULL, &items, PITH_ERR_ARG);
        items.size = 4097;
        refused(&b, c, NULL, &items, PITH_ERR_ARG);
        items = b.j.items;
        items.count = 0;
        refused(&b, c, NULL, &items, PITH_ERR_ARG);
        items.count = UINT64_MAX;
        if (c != KEY) refused(&b, c, NULL, &items, PITH_ERR_ARG);
        items = b.j.items;
        items.status = NULL;
        refused(&b, c, NULL, &items, PITH_ERR_ARG);
        items = b.j.items;
        items.frame = NULL;
        refused(&b, c, NULL, &items, PITH_ERR_ARG);
        items = b.j.items;
        items.tensor = NULL;
        if (c != VERIFY) refused(&b, c, NULL, &items, PITH_ERR_ARG);
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
    for (enum call c = 0; c < CALLS; c++) refused(&b, c, NULL, &newer.items, PITH_ERR_UNSUPPORTED);
    bench_close(&b);
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    newer.items = b.j.items;
    newer.items.size = sizeof newer;
    newer.more[1] = 0;
    CHECK_OK(call(&b, ENCODE, NULL, &newer.items));
    job_pull(&b.j);
    CHECK_OK(job_status(&b.j, 0));
    job_close(&b.j);
    rig_close(&b.r);
}

static void test_states(void **state) {
    (void)state;
    struct bench b;
    int32_t word;
    bench_open(&b, "wdiff", PITH_F32, PITH_BF16, 0);
    for (enum call c = 0; c < CALLS; c++)
        if (c == ENCODE || c == KEY || c == DECODE || c == RANGE)
            refused(&b, c, NULL, &b.j.items, PITH_ERR_STATE);
    refused(&b, REDUCE, NULL, &b.j.items, PITH_ERR_UNSUPPORTED);
    bench_close(&b);
    bench_open(&b, "raw", PITH_F32, PITH_NONE, 0);
    for (enum call c = 0; c < CALLS; c++)
        if (c != ADD && c != KEY)
            refused(&b, c, (pith_cuda_state *)&word, &b.j.items, PITH_ERR_STATE);
    bench_close(&b);
    static const char *const needy[] = {"grad:ef=full", "grad:round=stochastic",
                                        "wdiff:round=stochastic"};
    for (int i = 0; i < 3; i++) {
        bench_open(&b, needy[i], PITH_F32, PITH_NONE, 0);
        refused(&b, ENCODE, NULL, &b.j.items, PITH_ERR_STATE);
        bench_close(&b);
    }
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    refused(&b, KEY, b.r.state, &b.j.items, PITH_ERR_UNSUPPORTED);
    pith_cuda_state *const askew = (pith_cuda_state *)(void *)((uint8_t *)b.r.state + 4);
    pith_cuda_items pages = b.j.items;
    pages.count = 2;
    pages.same_slot = 1;
    for (enum call c = 0; c < CALLS; c++) {
        if (c == ADD || c == KEY) continue;
        refused(&b, c, askew, &b.j.items, PITH_ERR_ARG);
        if (c == ENCODE || c == DECODE || c == REDUCE)
            refused(&b, c, b.r.state, &pages, PITH_ERR_ARG);
    }
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_state_next_step(b.r.plan, askew, device_stream()));
    bench_close(&b);
}

static void test_dtypes(void **state) {
    (void)state;
    static const uint32_t others[] = {PITH_NONE, PITH_F64, PITH_U8, PITH_I16, 200};
    struct bench b;
    pith_cuda_items items;
    bench_open(&b, "grad", PITH_BF16, PITH_NONE, 0);
    items = b.j.items;
    items.dtype = PITH_F32;
    refused(&b, ENCODE, NULL, &items, PITH_ERR_DTYPE);
    for (int i = 0; i < 5; i++) {
        items.dtype = others[i];
        for (enum call c = 0; c < CALLS; c++)
            if (c != KEY && c != VERIFY) refused(&b, c, NULL, &items, PITH_ERR_DTYPE);
    }
    bench_close(&b);
    bench_open(&b, "raw", PITH_F64, PITH_NONE, 0);
    items = b.j.items;
    refused(&b, ADD, NULL, &items, PITH_ERR_DTYPE);
    refused(&b, REDUCE, NULL, &items, PITH_ERR_UNSUPPORTED);
    items.dtype = PITH_F32;
    refused(&b, DECODE, NULL, &items, PITH_ERR_DTYPE);
    bench_close(&b);
    bench_open(&b, "wdiff", PITH_F32, PITH_BF16, 0);
    refused(&b, ADD, NULL, &b.j.items, PITH_ERR_DTYPE);
    bench_close(&b);
}

/* Where frames are looked at as a whole first, that needs room. */
static void test_workspace(void **state) {
    (void)state;
    struct bench b;
    bench_open(&b, "grad", PITH_F32, PITH_NONE, PITH_LAYOUT_CHECKSUMS);
    CHECK(b.r.sizes.workspace_bytes && b.j.items.workspace);
    for (enum call c = 0; c < CALLS; c++) {
        pith_cuda_items items = b.j.items;
        if (c == ENCODE || c == KEY) continue;
        items.workspace = NULL;
        refused(&b, c, NULL, &items, PITH_ERR_SPACE);
        items = b.j.items;
        items.workspace_bytes--;
        refused(&b, c, NULL, &items, PITH_ERR_SPACE);
        items = b.j.items;
        items.workspace = (uint8_t *)items.workspace + 1;
        refused(&b, c, NULL, &items, PITH_ERR_SPACE);
    }
    bench_close(&b);
}

static void test_sums(void **state) {
    (void)state;
    struct bench a, b;
    pith_cuda_items items;
    void *const stream = device_stream();
    bench_open(&a, "grad", PITH_F32, PITH_NONE, 0);
    bench_open(&b, "grad", PITH_BF16, PITH_NONE, 0);
    pith_cuda_plan *const p = a.r.plan, *const q = b.r.plan;
    const pith_cuda_items *const x = &a.j.items, *const y = &b.j.items;
    context("arguments of sums");
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_reduce(p, NULL, x, 0, 1, stream));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_reduce_encode(p, NULL, x, 0, 1, q, NULL, y, stream));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_reduce_encode(p, NULL, x, 1, 1, p, NULL, x, stream));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_reduce_encode(NULL, NULL, x, 1, 1, q, NULL, y, stream));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_reduce_encode(p, NULL, x, 1, 1, NULL, NULL, y, stream));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce_encode(p, NULL, x, 1, 1, q, NULL, y, stream));
    items = *x;
    items.count = 2;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_reduce_encode(q, NULL, y, 1, 1, p, NULL, &items, stream));
    items = *x;
    items.status = NULL;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_reduce_encode(q, NULL, y, 1, 1, p, NULL, &items, stream));
    CHECK(pith_cuda_plan_error(q).text[0]);
    bench_close(&b);
    bench_open(&b, "grad:ef=full", PITH_F32, PITH_NONE, 0);
    CHECK_STATUS(PITH_ERR_STATE,
                 pith_cuda_reduce_encode(p, NULL, x, 1, 1, b.r.plan, NULL, &b.j.items, stream));
    bench_close(&b);
    bench_close(&a);
}

static void test_null_plans(void **state) {
    (void)state;
    struct bench b;
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    struct bench none = b;
    none.r.plan = NULL;
    for (enum call c = 0; c < CALLS; c++)
        CHECK_STATUS(PITH_ERR_ARG, call(&none, c, NULL, &b.j.items));
    bench_close(&b);
}

/* ---- States ----------------------------------------------------------------------------------*/

static void test_state_arguments(void **state) {
    (void)state;
    struct bench b;
    void *const stream = device_stream();
    bench_open(&b, "wdiff", PITH_F32, PITH_BF16, 0);
    pith_cuda_plan *const p = b.r.plan;
    pith_cuda_state *const s = b.r.state;
    const size_t bytes = (size_t)b.r.sizes.state_bytes;
    uint8_t *const at = (uint8_t *)s;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_state_init(NULL, at, bytes, stream));
    CHECK_STATUS(PITH_ERR_SPACE, pith_cuda_state_init(p, at, bytes - 1, stream));
    CHECK_STATUS(PITH_ERR_SPACE, pith_cuda_state_init(p, NULL, bytes, stream));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_state_init(p, at + 8, bytes, stream));
    CHECK_STATUS(PITH_ERR_DTYPE,
                 pith_cuda_state_set_base(p, s, b.j.tensor.device, PITH_F64, 0, stream));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_state_set_base(p, s, NULL, PITH_F32, 0, stream));
    CHECK_STATUS(PITH_ERR_STATE,
                 pith_cuda_state_set_base(p, NULL, b.j.tensor.device, PITH_F32, 0, stream));
    CHECK_STATUS(PITH_ERR_STATE, pith_cuda_state_bind_base(p, s, b.j.tensor.device, 0, stream));
    CHECK_STATUS(PITH_ERR_STATE, pith_cuda_state_rollback(p, s, 0, stream));
    CHECK_STATUS(PITH_ERR_STATE, pith_cuda_state_next_step(p, s, stream));
    CHECK_STATUS(PITH_ERR_STATE, pith_cuda_state_set_random(p, NULL, 0, 0, 0, stream));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_state_verify(p, s, NULL, stream));
    bench_close(&b);
    bench_open(&b, "grad", PITH_F32, PITH_NONE, 0);
    CHECK(pith_cuda_state_base(b.r.plan, b.r.state) == NULL);
    CHECK_STATUS(PITH_ERR_STATE, pith_cuda_state_set_base(b.r.plan, b.r.state, b.j.tensor.device,
                                                          PITH_F32, 0, stream));
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_plan_arguments),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_newer_items),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_null_plans),
        cmocka_unit_test(test_state_arguments),
    };
    return cmocka_run_group_tests_name("gpu_args", tests, NULL, NULL);
}
