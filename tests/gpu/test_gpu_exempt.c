/* test_gpu_exempt.c - elements that go around the codec, in every call, are the CPU's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "rig.h"

static const uint32_t reals[3] = {PITH_F32, PITH_BF16, PITH_F16};
static const char source[100] = "a source beside the ranges";

/* Ranges at both ends, over slots' borders, inside a unit, over whole tiles, and one of all. */
static const struct {
    uint64_t count, slots;
    size_t ranges;
    pith_exempt range[5];
} maps[] = {
    {40, 1, 2, {{1, 3, PITH_EXEMPT_EXACT}, {38, 2, PITH_EXEMPT_16}}},
    {1000, 3, 3, {{0, 1, PITH_EXEMPT_16}, {300, 100, PITH_EXEMPT_EXACT}, {999, 1, 1}}},
    {20000, 2, 4, {{5, 9000, 1}, {9900, 200, 2}, {10100, 7, 1}, {12345, 4096, 2}}},
    {700, 7, 2, {{0, 200, PITH_EXEMPT_EXACT}, {350, 350, PITH_EXEMPT_16}}},
    {33, 1, 1, {{0, 33, PITH_EXEMPT_16}}},
    {5000, 1, 5, {{7, 1, 1}, {9, 1, 2}, {15, 2, 1}, {31, 33, 2}, {4095, 2, 1}}},
};
enum { MAPS = sizeof maps / sizeof maps[0] };

static const char *const specs[] = {
    "grad:group=32,block=64,sign_seed=3",  "grad:rotate=0,group=64,bits=8",
    "grad:group=256,rotate=256,block=512", "grad:ef=full,bits=3",
    "grad:search=mse,bits=3,group=64",     "grad:round=stochastic",
    "grad:codebook=trellis,ef=full",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

static void open_map(struct rig *r, struct job *j, const char *spec, size_t map, uint32_t dtype,
                     uint64_t number) {
    pith_layout layout = flat_layout(dtype, PITH_NONE, maps[map].count);
    layout.slots = maps[map].slots;
    layout.exempt = maps[map].range;
    layout.exempt_count = maps[map].ranges;
    layout.flags = number % 2 ? PITH_LAYOUT_CHECKSUMS : 0;
    layout.source = number % 3 ? NULL : source;
    layout.source_bytes = number % 3 ? 0 : sizeof source;
    CHECK(rig_open(r, spec, &layout));
    rig_set_random(r, 3, 4, 5);
    job_open(j, r, r->slots, r->slots, dtype, number % 4 ? 0 : (size_t)number % 16);
}

static void check_encode(struct rig *r, struct job *j) {
    const pith_view view = pith_view_flat(j->tensor.host, r->layout.dtype, r->count);
    JOB_RUN(j, pith_cuda_encode(r->plan, r->stream, &j->items, 0, device_stream(), NULL));
    for (uint64_t s = 0; s < r->slots; s++) {
        struct frame f = stream_encode(&r->cpu, &view, s, false);
        CHECK_OK(job_status(j, s));
        CHECK(*job_length(j, s) == f.length);
        CHECK(memcmp(job_frame(j, s), f.bytes, f.length) == 0);
        free(f.bytes);
    }
    rig_check_stream(r);
}

typedef pith_status cpu_call(struct rig *r, uint64_t slot, const uint8_t *frame, size_t length,
                             const pith_view *view);

static pith_status cpu_decode(struct rig *r, uint64_t slot, const uint8_t *frame, size_t length,
                              const pith_view *view) {
    return decode_one(r->cpu.work, r->cpu.stream, slot, frame, length, view, 0);
}
static pith_status cpu_add(struct rig *r, uint64_t slot, const uint8_t *frame, size_t length,
                           const pith_view *view) {
    return decode_one(r->cpu.work, r->cpu.stream, slot, frame, length, view, PITH_ADD);
}
static pith_status cpu_reduce(struct rig *r, uint64_t slot, const uint8_t *frame, size_t length,
                              const pith_view *view) {
    const void *const frames[1] = {frame};
    return reduce_one(r->cpu.work, r->cpu.stream, slot, frames, &length, 1, 0.5f, view);
}

/* The frames of `sent` as the CPU decodes them, and as the device did into j. */
static void check_values(struct rig *r, const struct job *j, cpu_call *call, uint8_t *wanted) {
    const pith_view view = pith_view_flat(wanted, j->items.dtype, r->count);
    for (uint64_t s = 0; s < r->slots; s++) {
        CHECK_OK(call(r, s, job_frame(j, s), (size_t)*job_length(j, s), &view));
        CHECK_OK(job_status(j, s));
    }
    CHECK(memcmp(wanted, j->tensor.host, j->tensor.bytes) == 0);
    rig_check_stream(r);
}

static void check_decodes(struct rig *r, const struct job *sent, uint32_t dtype) {
    struct job j;
    job_open(&j, r, r->slots, r->slots, dtype, 0);
    uint8_t *const wanted = allocate(j.tensor.bytes);
    memcpy(j.frame.host, sent->frame.host, j.frame.bytes);
    memcpy(j.lengths.host, sent->lengths.host, j.lengths.bytes);
    JOB_RUN(&j, pith_cuda_decode(r->plan, r->stream, &j.items, 0, device_stream(), NULL));
    check_values(r, &j, cpu_decode, wanted);
    uint8_t *const whole = copy_of(wanted, j.tensor.bytes);
    gen_fill(GEN_HOLES, 5, dtype, j.tensor.host, r->count);
    memcpy(wanted, j.tensor.host, j.tensor.bytes);
    JOB_RUN(&j, pith_cuda_decode(r->plan, r->stream, &j.items, PITH_ADD, device_stream(), NULL));
    check_values(r, &j, cpu_add, wanted);
    JOB_RUN(&j, pith_cuda_reduce(r->plan, r->stream, &j.items, 1, 0.5f, device_stream(), NULL));
    check_values(r, &j, cpu_reduce, wanted);
    memcpy(j.tensor.host, whole, j.tensor.bytes);
    JOB_RUN(&j, pith_cuda_decode_range(r->plan, r->stream, &j.items, 3, r->count / 3,
                                       device_stream(), NULL));
    CHECK(memcmp(whole, j.tensor.host, j.tensor.bytes) == 0);
    free(whole);
    free(wanted);
    job_close(&j);
}

static void test_calls(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < SPECS; i++)
        for (size_t m = 0; m < MAPS; m++)
            for (int d = 0; d < 3; d++, number++) {
                struct rig r;
                struct job j;
                context("%s, map %zu, %s", specs[i], m, pith_dtype_name(reals[d]));
                device_order((int)(number % (uint64_t)device_orders()));
                open_map(&r, &j, specs[i], m, reals[d], number);
                gen_fill(number % 5 ? GEN_HOLES : GEN_BITS, number, reals[d], j.tensor.host,
                         r.count);
                check_encode(&r, &j);
                for (int k = 0; k < 3; k++) check_decodes(&r, &j, reals[k]);
                job_close(&j);
                rig_close(&r);
            }
}

/* Sums of two frames a slot, encoded again by a plan of the same ranges. */
static void check_recode(const char *spec, size_t m, uint64_t number) {
    struct rig r, out;
    struct job j, made, twice;
    void *memory;
    open_map(&r, &j, "grad:sign_seed=3", m, PITH_F32, number);
    open_map(&out, &made, spec, m, PITH_F32, number + 1);
    gen_fill(GEN_NOISE, number, PITH_F32, j.tensor.host, r.count);
    check_encode(&r, &j);
    job_open(&twice, &r, r.slots, 2 * r.slots, PITH_F32, 0);
    for (uint64_t i = 0; i < twice.frames; i++) {
        memcpy(job_frame(&twice, i), job_frame(&j, i / 2), j.stride);
        *job_length(&twice, i) = *job_length(&j, i / 2);
    }
    job_push(&made);
    JOB_RUN(&twice, pith_cuda_reduce_encode(r.plan, r.stream, &twice.items, 2, 0.5f, out.plan,
                                            out.stream, &made.items, device_stream(), NULL));
    job_pull(&made);
    const pith_plan *const plans[2] = {r.cpu.plan, out.cpu.plan};
    pith_work *const work = work_for(plans, 2, NULL, &memory);
    for (uint64_t s = 0; s < r.slots; s++) {
        const void *const frames[2] = {job_frame(&j, s), job_frame(&j, s)};
        const size_t lengths[2] = {(size_t)*job_length(&j, s), (size_t)*job_length(&j, s)};
        uint8_t *const wanted = allocate(made.stride);
        size_t length;
        CHECK_OK(reduce_encode_one(work, r.cpu.stream, s, frames, lengths, 2, 0.5f, out.cpu.stream,
                                   s, wanted, made.stride, &length));
        CHECK_OK(job_status(&made, s));
        CHECK(*job_length(&made, s) == length);
        CHECK(memcmp(job_frame(&made, s), wanted, length) == 0);
        free(wanted);
    }
    free(memory);
    rig_check_stream(&r);
    rig_check_stream(&out);
    job_close(&twice);
    job_close(&made);
    job_close(&j);
    rig_close(&out);
    rig_close(&r);
}

static void test_recode(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < SPECS; i++)
        for (size_t m = 0; m < MAPS; m++, number++) {
            context("sums to %s, map %zu", specs[i], m);
            device_order((int)(number % (uint64_t)device_orders()));
            check_recode(specs[i], m, number);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_recode),
    };
    return cmocka_run_group_tests_name("gpu_exempt", tests, NULL, NULL);
}
