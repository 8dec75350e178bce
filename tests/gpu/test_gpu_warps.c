/* test_gpu_warps.c - warps of a team that run at once: all of them come to the same barriers, and
 * what they do is the CPU's. Built with ThreadSanitizer it also sees memory that one warp writes
 * while another looks at it, which no order of threads shows; and a second run, threads of a warp
 * and teams of a launch that do so.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"
#include "gen.h"
#include "runner.h"
#include "trip.h"

/* Frames of values without a base: there and back, part of them, added, and summed. */
static void check_trip(const char *spec, const pith_layout *layout, uint64_t number) {
    struct trip t;
    trip_open(&t, spec, layout, 0);
    gen_fill(number % 3 ? GEN_NOISE : GEN_SPARSE, number, layout->dtype, t.value, t.r.count);
    trip_encode(&t);
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_check_range(&t, t.r.count / 3, t.r.count / 4 + 1);
    /* Every codec adds to another dtype; what is exact decodes to none. */
    const bool exact = strncmp(spec, "raw", 3) == 0 || strncmp(spec, "lossless", 8) == 0;
    if (layout->dtype <= PITH_F16)
        trip_check_other(&t, trip_reals[number % 3], exact || number % 2);
    trip_close(&t);
}

/* The same with a base: every frame is the CPU's and moves the base on. */
static void check_updates(const char *spec, const pith_layout *layout, uint64_t number) {
    struct rig r;
    struct job j;
    CHECK(rig_open(&r, spec, layout));
    const size_t bytes = r.count * pith_dtype_bytes(layout->dtype);
    uint8_t *const base = allocate(r.count * pith_dtype_bytes(layout->base_dtype));
    gen_fill(GEN_NOISE, number, layout->base_dtype, base, r.count);
    for (uint32_t key = 0; key < 2; key++) {
        rig_set_base(&r, base, layout->base_dtype, 3);
        job_open(&j, &r, 1, 1, layout->dtype, 0);
        gen_near(number + key, 1e-3, layout->dtype, j.tensor.host, layout->base_dtype, base,
                 r.count);
        const pith_view value = pith_view_flat(j.tensor.host, layout->dtype, r.count);
        struct frame frame = stream_encode(&r.cpu, &value, 0, key);
        JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, key ? PITH_KEY_FRAME : 0,
                                     device_stream(), NULL));
        CHECK_OK(job_status(&j, 0));
        CHECK(*job_length(&j, 0) == frame.length);
        CHECK(memcmp(job_frame(&j, 0), frame.bytes, frame.length) == 0);
        rig_check_stream(&r);
        rig_set_base(&r, base, layout->base_dtype, 3);
        memset(j.tensor.host, UNTOUCHED, bytes);
        const pith_view out = pith_view_flat(j.tensor.host, layout->dtype, r.count);
        JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        CHECK_OK(job_status(&j, 0));
        CHECK_OK(decode_one(r.cpu.work, r.cpu.stream, 0, frame.bytes, frame.length, &out, 0));
        rig_check_stream(&r);
        free(frame.bytes);
        job_close(&j);
    }
    free(base);
    rig_close(&r);
}

/* Whether devices code the case. */
static bool is_coded(const char *spec, const pith_layout *layout) {
    struct rig r;
    const bool coded = rig_open(&r, spec, layout);
    if (coded) rig_close(&r);
    return coded;
}

static void check_any(const char *spec, const pith_layout *layout, uint64_t number) {
    context("%s of %s, number %llu", spec, pith_dtype_name(layout->dtype),
            (unsigned long long)number);
    if (layout->base_dtype == PITH_NONE)
        check_trip(spec, layout, number);
    else
        check_updates(spec, layout, number);
}

/* ---- The table -------------------------------------------------------------------------------*/

/* Of the dtypes of a row one without a base and one with. */
static void test_cases(void **state) {
    static const size_t counts[] = {2500, 300, 4200, 9};
    const struct test_case *c;
    const char *before[2] = {"", ""};
    uint64_t rows = 0;
    (void)state;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        const bool based = c->base_dtype != PITH_NONE;
        pith_layout layout =
            flat_layout(c->dtype, c->base_dtype, counts[rows % (sizeof counts / sizeof *counts)]);
        layout.flags = rows % 2 ? PITH_LAYOUT_CHECKSUMS : 0;
        if (strcmp(before[based], c->spec) == 0 || c->dtype > PITH_F16) continue;
        if (!is_coded(c->spec, &layout)) continue;
        before[based] = c->spec;
        if (is_sampled(rows, 3)) check_any(c->spec, &layout, rows);
        rows++;
    }
    CHECK(rows > 60);
}

/* Settings whose launches the table does not have. */
static void test_settings(void **state) {
    static const struct {
        const char *spec;
        uint64_t shape[5];
    } rows[] = {
        {"topk:k=5,scope=row", {2, 40, 70}},
        {"topk:density=0.1,control=nonzero,unit=4,ef=full", {1, 2500}},
        {"topk:density=0.05,ef=full,momentum=0.9", {1, 2500}},
        {"topk:density=0.08,transform=dct,control=dgc,ef=full,block=256", {1, 2500}},
        {"topk:density=0.1,transform=hadamard,control=redsync,block=64", {1, 2500}},
        {"lossless:entropy=rans,block=4096", {2, 70, 60}},
        {"eb:mode=ratio,pwrel=0.01,entropy=rans,block=1024", {3, 9, 17, 20}},
        {"eb:abs=0.01", {3, 20, 40, 50}},
        {"embed:mode=fast,rel=0.01,dim=16", {2, 200, 16}},
        {"embed:entropy=rans,rel=0.01,dim=8", {2, 300, 8}},
        {"act:mode=ratio,entropy=rans,abs=0.05,block=2048", {3, 6, 20, 30}},
        {"kv:entropy=rans,group=16", {3, 70, 2, 32}},
        {"kv:preset=kvquant-lite", {3, 70, 2, 32}},
    };
    (void)state;
    for (uint64_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const pith_layout layout =
            shape_layout(rows[i].shape, trip_reals[i % 3], i % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
        CHECK(is_coded(rows[i].spec, &layout));
        check_any(rows[i].spec, &layout, i);
    }
}

/* Smooth values, whose blocks are interpolated. Tiles of one row or of few dimensions have classes
 * without elements, between which there is no barrier. */
static void test_interpolated(void **state) {
    static const uint64_t shapes[][5] = {{1, 17000}, {2, 130, 140}, {3, 16, 17, 80}};
    (void)state;
    for (uint64_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const pith_layout layout = shape_layout(shapes[i], PITH_F32, 0);
        const uint64_t row = shapes[i][shapes[i][0]];
        struct trip t;
        context("interpolated values in rows of %llu", (unsigned long long)row);
        trip_open(&t, "eb:mode=ratio,abs=0.001,entropy=rans,block=32768", &layout, 0);
        for (uint64_t k = 0; k < t.r.count; k++) {
            const float x = (float)(k % row % 64) / 64, y = (float)(k / row % 32) / 32;
            ((float *)(void *)t.value)[k] = x * (1 - x) * (1 + y * (1 - y));
        }
        trip_encode(&t);
        trip_check_encode(&t);
        trip_check_decode(&t);
        trip_close(&t);
    }
}

/* Empty slots have no block, so that phases follow each other that otherwise have barriers between
 * them; and frames do not fit. */
static void test_empty(void **state) {
    static const char *const specs[] = {"lossless:entropy=rans",
                                        "eb:abs=0.01",
                                        "topk",
                                        "embed:mode=fast,abs=0.1,dim=4",
                                        "act:mode=ratio,entropy=rans,abs=0.1",
                                        "raw",
                                        "grad"};
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 0);
        struct trip t;
        context("%s of nothing", specs[i]);
        trip_open(&t, specs[i], &layout, 0);
        trip_encode(&t);
        trip_check_encode(&t);
        trip_check_space(&t);
        trip_close(&t);
    }
}

/* Sums of frames, to values and to a frame. */
static void check_sum(const char *spec, uint64_t number) {
    enum { FRAMES = 3 };
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 2500);
    struct rig r, out;
    struct job j, made;
    context("sums of %s", spec);
    CHECK(rig_open(&r, spec, &layout) && rig_open(&out, spec, &layout));
    job_open(&j, &r, 1, FRAMES, PITH_F32, 0);
    device_free(j.work);
    j.items.workspace_bytes = FRAMES * r.sizes.workspace_bytes + r.sizes.sum_bytes;
    j.items.workspace = j.work = device_alloc((size_t)j.items.workspace_bytes);
    float *const sum = allocate(r.count * sizeof *sum);
    const void *frames[FRAMES];
    size_t lengths[FRAMES];
    for (size_t i = 0; i < FRAMES; i++) {
        gen_fill(GEN_NOISE, number + i, PITH_F32, j.tensor.host, r.count);
        const pith_view value = pith_view_flat(j.tensor.host, PITH_F32, r.count);
        struct frame frame = stream_encode(&r.cpu, &value, 0, false);
        memcpy(job_frame(&j, i), frame.bytes, frame.length);
        frames[i] = job_frame(&j, i);
        lengths[i] = *job_length(&j, i) = frame.length;
        free(frame.bytes);
    }
    const pith_view view = pith_view_flat(sum, PITH_F32, r.count);
    CHECK_OK(reduce_one(r.cpu.work, r.cpu.stream, 0, frames, lengths, FRAMES, 0.5f, &view));
    JOB_RUN(&j, pith_cuda_reduce(r.plan, r.stream, &j.items, FRAMES, 0.5f, device_stream(), NULL));
    CHECK(memcmp(j.tensor.host, sum, j.tensor.bytes) == 0);
    job_open(&made, &out, 1, 1, PITH_F32, 0);
    job_push(&made);
    JOB_RUN(&j, pith_cuda_reduce_encode(r.plan, r.stream, &j.items, FRAMES, 0.5f, out.plan,
                                        out.stream, &made.items, device_stream(), NULL));
    job_pull(&made);
    CHECK_OK(job_status(&made, 0));
    job_close(&made);
    job_close(&j);
    free(sum);
    rig_close(&out);
    rig_close(&r);
}

static void test_sums(void **state) {
    static const char *const specs[] = {"grad", "grad:preset=inter", "wdiff:codebook=trellis",
                                        "topk:density=0.1",
                                        "topk:density=0.1,values=int8,block=512"};
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) check_sum(specs[i], i);
}

static int at_once(void **state) {
    (void)state;
    pithi_runner_order(PITHI_ORDER_AT_ONCE, 0x5EED);
    return 0;
}
static int by_turns(void **state) {
    (void)state;
    pithi_runner_order(PITHI_ORDER_SHUFFLED, 0x5EED);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings), cmocka_unit_test(test_interpolated),
        cmocka_unit_test(test_empty),    cmocka_unit_test(test_sums),
        cmocka_unit_test(test_cases),
    };
    const int failed = cmocka_run_group_tests_name("gpu_warps", tests, at_once, NULL);
    if (failed || !pithi_runner_watches()) return failed;
    return cmocka_run_group_tests_name("gpu_threads", tests, by_turns, NULL);
}
