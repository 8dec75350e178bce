/* test_gpu_feedback.c - streams without a base: residuals, steps, ranks and counters over many
 * steps, steps that are set, and steps that are taken back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "rig.h"

enum { N = 6001, STEPS = 4 };
static const uint64_t seed = 0xFEEDBACC, first_step = 0xFFFFFFFE;

static const struct {
    const char *spec;
    uint32_t dtype;
    uint64_t slots;
    uint32_t flags;
} settings[] = {
    {"grad:ef=full,bits=2", PITH_F32, 1, 0},
    {"grad:ef=full,bits=3,group=256,rotate=256,sign_seed=5", PITH_BF16, 3, PITH_LAYOUT_CHECKSUMS},
    {"grad:ef=ema:0.9,bits=3,group=64,rotate=64,round=stochastic", PITH_F16, 2, 0},
    {"grad:ef=ema:0.5,rotate=0,group=4096", PITH_F32, 4, 0},
    {"grad:ef=full,search=mse,block=1024", PITH_F32, 2, 0},
    {"grad:round=antithetic,bits=3", PITH_F32, 3, 0},
    {"grad:preset=intra", PITH_BF16, 2, 0},
    {"grad:ef=full,codebook=trellis,bits=2", PITH_F32, 2, 0},
    {"grad:ef=ema:0.9,codebook=trellis,bits=3,group=4096,rotate=0", PITH_BF16, 1,
     PITH_LAYOUT_CHECKSUMS},
    {"raw", PITH_F32, 3, 0},
    {"wdiff:round=stochastic", PITH_F16, 2, 0},
    {"kv", PITH_F32, 2, 0},
    {"eb:abs=0.01", PITH_F32, 2, 0},
    {"embed:mode=fast,abs=0.01,dim=16", PITH_BF16, 2, 0},
    {"topk:density=0.01,ef=full", PITH_F32, 3, 0},
    {"topk:density=0.05,ef=full,values=f16,control=exact,block=512", PITH_BF16, 2,
     PITH_LAYOUT_CHECKSUMS},
    {"topk:density=0.1,ef=ema:0.9,values=int8,index=fast,block=1024,control=every,every=2",
     PITH_F16, 2, 0},
    {"topk:k=20,ef=full,clear=call,values=none,control=micro", PITH_F32, 2, 0},
    {"topk:density=0.02,ef=full,values=int8,control=micro-symmetric,cap=1", PITH_F32, 1, 0},
    {"topk:k=30,values=bf16", PITH_F32, 2, 0},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

static void open_setting(struct rig *r, struct job *j, size_t i) {
    pith_layout layout = flat_layout(settings[i].dtype, PITH_NONE, N);
    layout.slots = settings[i].slots;
    layout.flags = settings[i].flags;
    CHECK(rig_open(r, settings[i].spec, &layout));
    job_open(j, r, r->slots, r->slots, settings[i].dtype, 0);
    rig_set_random(r, seed, 3, first_step);
}

static void close_setting(struct rig *r, struct job *j) {
    job_close(j);
    rig_close(r);
}

static void encode_step(struct rig *r, struct job *j, uint64_t step) {
    const pith_view view = pith_view_flat(j->tensor.host, r->layout.dtype, N);
    gen_fill(step % 3 == 1 ? GEN_HOLES : GEN_NOISE, step + 1, r->layout.dtype, j->tensor.host, N);
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

static void test_steps(void **state) {
    (void)state;
    for (int k = 0; k < device_orders(); k++)
        for (size_t i = 0; i < SETTINGS; i++) {
            struct rig r;
            struct job j;
            device_order(k);
            open_setting(&r, &j, i);
            for (uint64_t step = 0; step < STEPS; step++) {
                context("%s, step %llu", settings[i].spec, (unsigned long long)step);
                encode_step(&r, &j, step);
                CHECK(pith_stream_step(r.cpu.stream, 0) == first_step + step + 1);
            }
            close_setting(&r, &j);
        }
}

static void take_back(struct rig *r, uint64_t step) {
    CHECK_OK(pith_stream_rollback(r->cpu.work, r->cpu.stream, step));
    CHECK_OK(pith_cuda_stream_rollback(r->plan, r->stream, step, device_stream(), NULL));
    rig_check_stream(r);
}

/* A step that was taken back is encoded as if it had not been; once, and no other step. */
static void test_rollback(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct rig r;
        struct job j;
        open_setting(&r, &j, i);
        context("%s, a step taken back", settings[i].spec);
        encode_step(&r, &j, 0);
        encode_step(&r, &j, 1);
        take_back(&r, first_step);
        take_back(&r, first_step + 1);
        take_back(&r, first_step + 1);
        encode_step(&r, &j, 1);
        close_setting(&r, &j);
    }
}

/* Only the slots that the step encoded. */
static void test_rollback_of_some_slots(void **state) {
    (void)state;
    struct rig r;
    struct job j;
    open_setting(&r, &j, 3);
    context("one of several slots taken back");
    encode_step(&r, &j, 0);
    const pith_view view = pith_view_flat(j.tensor.host, PITH_F32, N);
    free(stream_encode(&r.cpu, &view, 2, false).bytes);
    j.items.first_slot = 2;
    j.items.count = 1;
    JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    rig_check_stream(&r);
    take_back(&r, first_step + 1);
    close_setting(&r, &j);
}

static pith_stream_options ranked(uint32_t rank, uint32_t ranks) {
    return (pith_stream_options){.size = sizeof(pith_stream_options),
                                 .seed = seed,
                                 .rng_stream = 3,
                                 .rank = rank,
                                 .ranks = ranks,
                                 .step = first_step};
}

static void test_ranks(void **state) {
    (void)state;
    struct rig r;
    struct job j;
    open_setting(&r, &j, 5);
    for (uint32_t rank = 0; rank < 3; rank++) {
        context("rank %u of 3", rank);
        const pith_stream_options options = ranked(rank, 3);
        rig_set_options(&r, &options);
        encode_step(&r, &j, 0);
    }
    static const uint32_t wrong[][2] = {{3, 3}, {0, 65537}, {1, 0}, {1, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const pith_stream_options options = ranked(wrong[i][0], wrong[i][1]);
        context("rank %u of %u", options.rank, options.ranks);
        CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_random(r.cpu.work, r.cpu.stream, &options));
        CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_random(r.plan, r.stream, &options,
                                                               device_stream(), NULL));
    }
    rig_check_stream(&r);
    close_setting(&r, &j);
}

/* Slots are each at a step of their own; what came before that cannot be taken back any more. */
static void test_set_step(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct rig r;
        struct job j;
        open_setting(&r, &j, i);
        context("%s, steps set", settings[i].spec);
        encode_step(&r, &j, 0);
        rig_set_step(&r, 0, first_step + 1);
        rig_set_step(&r, r.slots - 1, UINT64_MAX);
        rig_check_stream(&r);
        take_back(&r, first_step);
        encode_step(&r, &j, 1);
        CHECK(pith_stream_step(r.cpu.stream, r.slots - 1) == 0);
        CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_set_step(r.plan, r.stream, r.slots, 0,
                                                             device_stream(), NULL));
        close_setting(&r, &j);
    }
}

/* All options of a stream that is begun with them. */
static void test_options(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct rig r;
        struct job j;
        const pith_stream_options options = ranked(2, 5);
        open_setting(&r, &j, i);
        context("%s begun with options", settings[i].spec);
        CHECK_OK(pith_stream_init(r.cpu.plan, r.cpu.memory, (size_t)r.cpu.sizes.stream_bytes,
                                  &options, &r.cpu.stream, NULL));
        CHECK_OK(pith_cuda_stream_init(r.plan, r.stream, (size_t)r.sizes.stream_bytes, &options,
                                       device_stream(), NULL));
        rig_check_stream(&r);
        encode_step(&r, &j, 0);
        close_setting(&r, &j);
    }
}

/* A stream that went through the host goes on where it was, in all that it draws from. */
static void test_pack(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct rig r;
        struct job j;
        open_setting(&r, &j, i);
        const pith_stream_options options = ranked(1, 3);
        context("%s packed", settings[i].spec);
        rig_set_options(&r, &options);
        encode_step(&r, &j, 0);
        const size_t bytes = (size_t)r.sizes.stream_bytes;
        uint8_t *const image = allocate(bytes);
        CHECK_OK(pith_cuda_stream_pack(r.plan, r.cpu.work, r.cpu.stream, image, bytes, NULL));
        CHECK_OK(pith_cuda_stream_init(r.plan, r.stream, bytes, NULL, device_stream(), NULL));
        device_put(r.stream, image, bytes);
        rig_check_stream(&r);
        encode_step(&r, &j, 1);
        free(image);
        close_setting(&r, &j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_rollback_of_some_slots),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_set_step),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_pack),
    };
    return cmocka_run_group_tests_name("gpu_feedback", tests, NULL, NULL);
}
