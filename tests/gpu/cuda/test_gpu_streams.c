/* test_gpu_streams.c - work on several CUDA streams at once, and on CUDA's own stream handles.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_only.h"

enum { LANES = 4, ROUNDS = 8 };

/* A CUDA stream with a plan, a stream of frames and ROUNDS of these. */
struct lane {
    cudaStream_t on;
    struct rig r;
    struct job j;
    struct frame wanted[ROUNDS];
    uint64_t count;
};

static void lane_expect(struct lane *l) {
    const pith_view value = pith_view_flat(l->j.tensor.host, PITH_F32, l->count);
    for (int i = 0; i < ROUNDS; i++) l->wanted[i] = stream_encode(&l->r.cpu, &value, 0, false);
}

static void lane_open(struct lane *l, const char *spec, uint32_t number) {
    const bool base = spec[0] == 'w';
    l->count = 300007 + 4096 * number;
    const pith_layout layout = flat_layout(PITH_F32, base ? PITH_F32 : PITH_NONE, l->count);
    float *const values = allocate(l->count * sizeof *values);
    CUDA_OK(cudaStreamCreateWithFlags(&l->on, cudaStreamNonBlocking));
    CHECK(rig_open(&l->r, spec, &layout));
    gen_fill(GEN_NOISE, number, PITH_F32, values, l->count);
    if (base) rig_set_base(&l->r, values, PITH_F32, 0);
    rig_set_random(&l->r, 7, number, 2);
    job_open(&l->j, &l->r, 1, ROUNDS, PITH_F32, 0);
    gen_near(number, 1e-2, PITH_F32, l->j.tensor.host, PITH_F32, values, l->count);
    free(values);
    lane_expect(l);
    job_push(&l->j);
    device_wait();
}

static void lane_close(struct lane *l) {
    for (int i = 0; i < ROUNDS; i++) free(l->wanted[i].bytes);
    CUDA_OK(cudaStreamDestroy(l->on));
    job_close(&l->j);
    rig_close(&l->r);
}

/* The frame of one round, of this stream, on that CUDA stream. */
static void lane_round(struct lane *l, pith_cuda_stream *stream, int round, void *on) {
    pith_cuda_items items = l->j.items;
    items.frame = l->j.frame.device + (size_t)round * l->j.stride;
    items.lengths += round;
    items.status += round;
    CHECK_OK(pith_cuda_encode(l->r.plan, stream, &items, 0, on, NULL));
}

static void lane_check(struct lane *l) {
    job_pull(&l->j);
    for (int i = 0; i < ROUNDS; i++) {
        context("lane of %llu, round %d", (unsigned long long)l->count, i);
        CHECK_OK(job_status(&l->j, (uint64_t)i));
        CHECK(*job_length(&l->j, (uint64_t)i) == l->wanted[i].length);
        CHECK(memcmp(job_frame(&l->j, (uint64_t)i), l->wanted[i].bytes, l->wanted[i].length) == 0);
    }
    rig_check_stream(&l->r);
}

/* CUDA streams that wait for nothing but themselves, their calls put on them alternately. */
static void together(const char *spec) {
    struct lane lanes[LANES];
    for (uint32_t k = 0; k < LANES; k++) lane_open(&lanes[k], spec, k);
    for (int i = 0; i < ROUNDS; i++)
        for (uint32_t k = 0; k < LANES; k++)
            lane_round(&lanes[k], lanes[k].r.stream, i, lanes[k].on);
    for (uint32_t k = 0; k < LANES; k++) CUDA_OK(cudaStreamSynchronize(lanes[k].on));
    for (uint32_t k = 0; k < LANES; k++) {
        lane_check(&lanes[k]);
        lane_close(&lanes[k]);
    }
}

static void test_together(void **state) {
    (void)state;
    together("wdiff");
    together("grad:round=stochastic");
    together("grad:ef=full");
}

/* One plan on several CUDA streams, each with a stream of frames of its own: they share nothing but
 * the plan. */
static void test_one_plan(void **state) {
    (void)state;
    cudaStream_t on[LANES];
    pith_cuda_stream *ends[LANES];
    struct lane l;
    lane_open(&l, "grad", 0);
    const size_t bytes = (size_t)l.r.sizes.stream_bytes;
    for (int k = 0; k < LANES; k++) {
        CUDA_OK(cudaStreamCreateWithFlags(&on[k], cudaStreamNonBlocking));
        ends[k] = device_alloc(bytes);
        CHECK_OK(pith_cuda_stream_init(l.r.plan, ends[k], bytes, NULL, on[k], NULL));
    }
    for (int i = 0; i < ROUNDS; i++) lane_round(&l, ends[i % LANES], i, on[i % LANES]);
    for (int k = 0; k < LANES; k++) {
        CUDA_OK(cudaStreamSynchronize(on[k]));
        CUDA_OK(cudaStreamDestroy(on[k]));
        device_free(ends[k]);
    }
    job_pull(&l.j);
    for (int i = 0; i < ROUNDS; i++)
        CHECK(memcmp(job_frame(&l.j, (uint64_t)i), l.wanted[0].bytes, l.wanted[0].length) == 0);
    lane_close(&l);
}

/* NULL, 1 and 2 mean what they mean to CUDA. */
static void test_handles(void **state) {
    (void)state;
    void *const handles[] = {NULL, (void *)cudaStreamLegacy, (void *)cudaStreamPerThread};
    struct lane l;
    lane_open(&l, "wdiff:round=stochastic", 1);
    for (int i = 0; i < ROUNDS; i++) {
        lane_round(&l, l.r.stream, i, handles[i % 3]);
        CUDA_OK(cudaStreamSynchronize((cudaStream_t)handles[i % 3]));
    }
    lane_check(&l);
    lane_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_one_plan),
        cmocka_unit_test(test_handles),
    };
    return cmocka_run_group_tests_name("gpu_streams", tests, NULL, NULL);
}
