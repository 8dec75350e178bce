/* test_gpu_special.c - settings that have kernels of their own (gpu/device/special.def), with
 * blocks and groups as these have them: frames, residuals, bases, values and sums are the CPU's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "trip.h"

/* Whole tiles and an end; and whole tiles only. */
static const uint64_t counts[] = {40011, 20480};
static const enum gen kinds[] = {GEN_NOISE, GEN_BITS, GEN_HOLES};
enum { COUNTS = 2, KINDS = 3, STEPS = 2, RANKS = 3, BASE_STEP = 3 };

static void check_encode(struct rig *r, struct job *j, struct frame *f) {
    const pith_view view = pith_view_flat(j->tensor.host, j->items.dtype, r->count);
    *f = stream_encode(&r->cpu, &view, 0, false);
    JOB_RUN(j, pith_cuda_encode(r->plan, r->stream, &j->items, 0, device_stream(), NULL));
    CHECK_OK(job_status(j, 0));
    CHECK(*job_length(j, 0) == f->length);
    CHECK(memcmp(job_frame(j, 0), f->bytes, f->length) == 0);
    rig_check_stream(r);
}

static void check_add(struct rig *r, const struct frame *f, uint32_t dtype) {
    struct job j;
    job_open(&j, r, 1, 1, dtype, 0);
    job_set_frame(&j, f->bytes, f->length);
    gen_fill(GEN_NOISE, 99, dtype, j.tensor.host, r->count);
    uint8_t *const wanted = copy_of(j.tensor.host, j.tensor.bytes);
    const pith_view view = pith_view_flat(wanted, dtype, r->count);
    CHECK_OK(decode_one(r->cpu.work, r->cpu.stream, 0, f->bytes, f->length, &view, PITH_ADD));
    JOB_RUN(&j, pith_cuda_decode(r->plan, r->stream, &j.items, PITH_ADD, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(memcmp(j.tensor.host, wanted, j.tensor.bytes) == 0);
    free(wanted);
    job_close(&j);
}

/* Frames without a base, there and back and added. */
static void check_gradients(const char *spec, uint32_t dtype, uint64_t count, enum gen kind,
                            uint64_t number) {
    const pith_layout layout = flat_layout(dtype, PITH_NONE, count);
    struct rig r;
    struct job j;
    context("%s %s, %llu elements, values %d", spec, pith_dtype_name(dtype),
            (unsigned long long)count, kind);
    device_order((int)(number % (uint64_t)device_orders()));
    CHECK(rig_open(&r, spec, &layout));
    rig_set_random(&r, 9, 4, 7);
    job_open(&j, &r, 1, 1, dtype, 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        struct frame f;
        gen_fill(step ? GEN_NOISE : kind, number * STEPS + step, dtype, j.tensor.host, count);
        check_encode(&r, &j, &f);
        CHECK_OK(rig_try(&r, f.bytes, f.length, 0));
        check_add(&r, &f, dtype);
        free(f.bytes);
    }
    job_close(&j);
    rig_close(&r);
}

/* Differences from a base, which moves on both ends. */
static void check_weights(const char *spec, uint32_t dtype, uint32_t base_dtype, uint64_t count,
                          enum gen kind, uint64_t number) {
    const pith_layout layout = flat_layout(dtype, base_dtype, count);
    struct rig r;
    struct job j;
    struct frame f;
    struct stream sender;
    context("%s %s from %s, %llu elements, values %d", spec, pith_dtype_name(dtype),
            pith_dtype_name(base_dtype), (unsigned long long)count, kind);
    device_order((int)(number % (uint64_t)device_orders()));
    CHECK(rig_open(&r, spec, &layout));
    uint8_t *const base = allocate((size_t)count * pith_dtype_bytes(base_dtype));
    gen_fill(GEN_NOISE, 77 + number, base_dtype, base, count);
    rig_set_base(&r, base, base_dtype, BASE_STEP);
    job_open(&j, &r, 1, 1, dtype, 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        gen_fill(step ? GEN_NOISE : kind, number * STEPS + step, dtype, j.tensor.host, count);
        check_encode(&r, &j, &f);
        free(f.bytes);
    }
    rig_close(&r);
    CHECK(rig_open(&r, spec, &layout));
    rig_set_base(&r, base, base_dtype, BASE_STEP);
    stream_open_end(&sender, &r.cpu, NULL);
    const pith_view from = pith_view_flat(base, base_dtype, count);
    CHECK_OK(pith_stream_set_base(sender.work, sender.stream, &from, BASE_STEP));
    const pith_view view = pith_view_flat(j.tensor.host, dtype, count);
    f = stream_encode(&sender, &view, 0, false);
    CHECK_OK(rig_try(&r, f.bytes, f.length, 0));
    free(f.bytes);
    free(base);
    stream_close(&sender);
    job_close(&j);
    rig_close(&r);
}

static void test_frames(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t dtype;
    } rows[] = {
        {"grad", PITH_F32},
        {"grad:round=stochastic", PITH_F32},
        {"grad:round=stochastic", PITH_BF16},
        {"grad:preset=intra", PITH_F32},
        {"grad:preset=intra,rotate=0", PITH_F32},
        {"grad:codebook=trellis", PITH_F32},
        {"grad:codebook=trellis,bits=2", PITH_F32},
    };
    static const char random[] = "wdiff:round=stochastic", paths[] = "wdiff:codebook=trellis";
    uint64_t number = 0;
    for (size_t c = 0; c < COUNTS; c++)
        for (size_t k = 0; k < KINDS; k++, number++) {
            check_weights(random, PITH_F32, PITH_F32, counts[c], kinds[k], number);
            check_weights(random, PITH_F32, PITH_BF16, counts[c], kinds[k], number);
            check_weights(random, PITH_BF16, PITH_BF16, counts[c], kinds[k], number);
            check_weights(paths, PITH_F32, PITH_F32, counts[c], kinds[k], number);
            for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
                check_gradients(rows[i].spec, rows[i].dtype, counts[c], kinds[k], number);
        }
}

/* Frames of 8 bits are summed, to values and to frames of 4 bits. */
static void check_sums(uint64_t count, uint64_t number) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, count);
    struct rig r, to;
    struct job j, made;
    struct frame f[RANKS];
    const void *frames[RANKS];
    size_t lengths[RANKS];
    context("sums of %llu elements", (unsigned long long)count);
    device_order((int)(number % (uint64_t)device_orders()));
    CHECK(rig_open(&r, "grad:preset=intra", &layout));
    CHECK(rig_open(&to, "grad", &layout));
    job_open(&j, &r, 1, RANKS, PITH_F32, 0);
    job_open(&made, &to, 1, 1, PITH_F32, 0);
    float *const value = allocate((size_t)count * sizeof *value);
    const pith_view view = pith_view_flat(value, PITH_F32, count);
    for (uint64_t i = 0; i < RANKS; i++) {
        gen_fill(GEN_NOISE, i + number * RANKS, PITH_F32, value, count);
        f[i] = stream_encode(&r.cpu, &view, 0, false);
        frames[i] = f[i].bytes;
        lengths[i] = f[i].length;
        memcpy(job_frame(&j, i), f[i].bytes, f[i].length);
        *job_length(&j, i) = f[i].length;
    }
    CHECK_OK(reduce_one(r.cpu.work, r.cpu.stream, 0, frames, lengths, RANKS, 0.5f, &view));
    JOB_RUN(&j, pith_cuda_reduce(r.plan, r.stream, &j.items, RANKS, 0.5f, device_stream(), NULL));
    for (uint64_t i = 0; i < RANKS; i++) CHECK_OK(job_status(&j, i));
    CHECK(memcmp(value, j.tensor.host, j.tensor.bytes) == 0);
    job_push(&j);
    JOB_RUN(&made, pith_cuda_reduce_encode(r.plan, r.stream, &j.items, RANKS, 0.5f, to.plan,
                                           to.stream, &made.items, device_stream(), NULL));
    CHECK_OK(job_status(&made, 0));
    const size_t cap = (size_t)pith_plan_frame_bytes(to.cpu.plan, 0, 0);
    struct frame wanted = {allocate(cap), 0};
    const pith_plan *const plans[2] = {r.cpu.plan, to.cpu.plan};
    void *memory;
    pith_work *const work = work_for(plans, 2, NULL, &memory);
    CHECK_OK(reduce_encode_one(work, r.cpu.stream, 0, frames, lengths, RANKS, 0.5f, to.cpu.stream,
                               0, wanted.bytes, cap, &wanted.length));
    free(memory);
    CHECK(*job_length(&made, 0) == wanted.length);
    CHECK(memcmp(job_frame(&made, 0), wanted.bytes, wanted.length) == 0);
    free(wanted.bytes);
    for (uint64_t i = 0; i < RANKS; i++) free(f[i].bytes);
    free(value);
    job_close(&made);
    job_close(&j);
    rig_close(&to);
    rig_close(&r);
}

static void test_sums(void **state) {
    (void)state;
    for (uint64_t c = 0; c < COUNTS; c++) check_sums(counts[c], c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests_name("gpu_special", tests, NULL, NULL);
}
