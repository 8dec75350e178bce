/* test_gpu_large.c - one tensor of more than 2^31 elements and 2^32 bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * test_gpu_large [ELEMENTS]. The values repeat after a prime number of elements, so that work at a
 * place that is wrong by a power of two finds other values. */
#include "cuda_only.h"

enum { PERIOD = 16777213, PIECE = 1 << 26, RANGE = 100000 };

static uint64_t the_count = (UINT64_C(1) << 31) + 12305;

static uint64_t host_free(void) {
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (file) fclose(file);
    return kib << 10;
}

/* Ends the test as skipped where memory is short. Both sides hold values, decoded values, base and
 * frames, the host some of them twice. */
static void need_memory(void) {
    const uint64_t bytes = the_count * 2;
    size_t here = 0, all;
    CUDA_OK(cudaMemGetInfo(&here, &all));
    if (here >= 5 * bytes && host_free() >= 9 * bytes) return;
    print_message(
        "SKIPPED: %.1f GB on the device and %.1f GB on the host are free, of %.1f and "
        "%.1f needed\n",
        (double)here * 1e-9, (double)host_free() * 1e-9, 5e-9 * (double)bytes,
        9e-9 * (double)bytes);
    skip();
}

static void fill(uint8_t *to, uint64_t seed) {
    uint8_t *const some = allocate((size_t)PERIOD * 2);
    gen_fill(GEN_NOISE, seed, PITH_BF16, some, PERIOD);
    for (uint64_t at = 0; at < the_count; at += PERIOD) {
        const uint64_t left = the_count - at;
        memcpy(to + at * 2, some, (size_t)(left < PERIOD ? left : PERIOD) * 2);
    }
    free(some);
}

/* Piece by piece: whole copies of what is on the device would not fit everywhere. */
static void check_same(const void *device, const uint8_t *host, uint64_t bytes) {
    uint8_t *const got = allocate(PIECE);
    for (uint64_t at = 0; at < bytes; at += PIECE) {
        const size_t n = (size_t)(bytes - at < PIECE ? bytes - at : PIECE);
        device_get(got, (const uint8_t *)device + at, n);
        CHECK(memcmp(got, host + at, n) == 0);
    }
    free(got);
}

static void push(void *device, const uint8_t *host, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += PIECE)
        device_put((uint8_t *)device + at, host + at,
                   (size_t)(bytes - at < PIECE ? bytes - at : PIECE));
}

struct large {
    struct rig r;
    uint8_t *value; /* then the decoded ones, on both sides */
    uint8_t *value_there, *frame_there;
    int32_t *status;
    void *work;
    struct frame frame;
    pith_cuda_items items;
};

static void large_open(struct large *l, const char *spec, uint32_t base) {
    const pith_layout layout = flat_layout(PITH_BF16, base, the_count);
    *l = (struct large){.value = allocate((size_t)the_count * 2)};
    CHECK(rig_open(&l->r, spec, &layout));
    l->value_there = device_alloc((size_t)the_count * 2);
    l->frame_there = device_alloc((size_t)l->r.cpu.sizes.slot_bytes);
    l->status = device_alloc(sizeof *l->status);
    l->work = l->r.sizes.workspace_bytes ? device_alloc((size_t)l->r.sizes.workspace_bytes) : NULL;
    l->items = (pith_cuda_items){.size = sizeof l->items,
                                 .count = 1,
                                 .dtype = PITH_BF16,
                                 .tensor = l->value_there,
                                 .frame = l->frame_there,
                                 .capacity = l->r.cpu.sizes.slot_bytes,
                                 .status = l->status,
                                 .workspace = l->work,
                                 .workspace_bytes = l->r.sizes.workspace_bytes};
    device_fill(l->status, 1, sizeof *l->status);
}

static void large_close(struct large *l) {
    device_free(l->value_there);
    device_free(l->frame_there);
    device_free(l->status);
    device_free(l->work);
    free(l->frame.bytes);
    free(l->value);
    rig_close(&l->r);
}

static void check_status_there(struct large *l) {
    int32_t status;
    device_get(&status, l->status, sizeof status);
    CHECK_OK((pith_status)status);
    device_fill(l->status, 1, sizeof *l->status);
}

static void set_base(struct large *l) {
    const pith_view view = pith_view_flat(l->value, PITH_BF16, the_count);
    fill(l->value, 1);
    push(l->value_there, l->value, the_count * 2);
    CHECK_OK(pith_stream_set_base(l->r.cpu.work, l->r.cpu.stream, &view, 3));
    CHECK_OK(pith_cuda_stream_set_base(l->r.plan, l->r.stream, l->value_there, PITH_BF16, 3,
                                       device_stream(), NULL));
    device_wait();
}

static void check_encode(struct large *l, bool base) {
    const pith_view view = pith_view_flat(l->value, PITH_BF16, the_count);
    if (base) set_base(l);
    fill(l->value, 2);
    push(l->value_there, l->value, the_count * 2);
    CHECK_OK(pith_cuda_encode(l->r.plan, l->r.stream, &l->items, 0, device_stream(), NULL));
    l->frame = stream_encode(&l->r.cpu, &view, 0, false);
    check_status_there(l);
    check_same(l->frame_there, l->frame.bytes, l->frame.length);
}

/* The last elements alone, then all. */
static void check_decode(struct large *l) {
    const pith_view view = pith_view_flat(l->value, PITH_BF16, the_count);
    const uint64_t first = the_count > RANGE ? the_count - RANGE : 0,
                   rest = (the_count - first) * 2;
    CHECK_OK(
        decode_one(l->r.cpu.work, l->r.cpu.stream, 0, l->frame.bytes, l->frame.length, &view, 0));
    device_fill(l->value_there, 0, (size_t)the_count * 2);
    CHECK_OK(pith_cuda_decode_range(l->r.plan, l->r.stream, &l->items, first, RANGE,
                                    device_stream(), NULL));
    check_status_there(l);
    check_same(l->value_there + first * 2, l->value + first * 2, rest);
    device_fill(l->value_there, 0, (size_t)the_count * 2);
    CHECK_OK(pith_cuda_decode(l->r.plan, l->r.stream, &l->items, 0, device_stream(), NULL));
    check_status_there(l);
    check_same(l->value_there, l->value, the_count * 2);
}

/* The base that encoding has left: the values that a receiver would have. */
static void check_base(struct large *l) {
    const pith_view view = pith_view_flat(l->value, PITH_BF16, the_count);
    CHECK_OK(pith_stream_get_base(l->r.cpu.work, l->r.cpu.stream, 0, &view));
    check_same(pith_cuda_stream_base(l->r.plan, l->r.stream), l->value, the_count * 2);
    int32_t *const status = l->status;
    CHECK_OK(pith_cuda_stream_verify(l->r.plan, l->r.stream, status, device_stream(), NULL));
    check_status_there(l);
}

static void test_raw(void **state) {
    (void)state;
    struct large l;
    need_memory();
    large_open(&l, "raw", PITH_NONE);
    check_encode(&l, false);
    check_decode(&l);
    large_close(&l);
}

static void test_grad(void **state) {
    (void)state;
    struct large l;
    need_memory();
    large_open(&l, "grad:preset=intra", PITH_NONE);
    check_encode(&l, false);
    check_decode(&l);
    large_close(&l);
}

static void test_wdiff(void **state) {
    (void)state;
    struct large l;
    need_memory();
    large_open(&l, "wdiff:group=16384,round=stochastic", PITH_BF16);
    check_encode(&l, true);
    check_base(&l);
    large_close(&l);
}

int main(int argc, char **argv) {
    if (argc > 1) the_count = strtoull(argv[1], NULL, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_grad),
        cmocka_unit_test(test_wdiff),
    };
    return cmocka_run_group_tests_name("gpu_large", tests, NULL, NULL);
}
