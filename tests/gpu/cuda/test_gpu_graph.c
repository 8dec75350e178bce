/* test_gpu_graph.c - calls captured into a graph: what differs from replay to replay, values,
 * steps, bases, residuals and random bits, comes from device memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_only.h"

enum { COUNT = 100003, STEPS = 6, SEED = 21 };

/* ---- A stream of weights ---------------------------------------------------------------------*/

struct pair {
    struct rig sender, receiver;
    struct job sent, got;
};

static void pair_open(struct pair *p, const char *spec) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_BF16, COUNT);
    float *const base = allocate(COUNT * sizeof *base);
    gen_fill(GEN_NOISE, 1, PITH_F32, base, COUNT);
    CHECK(rig_open(&p->sender, spec, &layout) && rig_open(&p->receiver, spec, &layout));
    rig_set_base(&p->sender, base, PITH_F32, 40);
    rig_set_base(&p->receiver, base, PITH_F32, 40);
    rig_set_random(&p->sender, SEED, 3, 0);
    job_open(&p->sent, &p->sender, 1, 1, PITH_F32, 0);
    job_open(&p->got, &p->receiver, 1, 1, PITH_F32, 0);
    memcpy(p->sent.tensor.host, base, COUNT * sizeof *base);
    free(base);
}

static void pair_close(struct pair *p) {
    job_close(&p->sent);
    job_close(&p->got);
    rig_close(&p->sender);
    rig_close(&p->receiver);
}

static cudaGraphExec_t pair_capture(struct pair *p) {
    pith_cuda_items received = p->got.items;
    received.frame = p->sent.items.frame;
    received.lengths = p->sent.items.lengths;
    capture_begin(device_stream());
    CHECK_OK(pith_cuda_encode(p->sender.plan, p->sender.stream, &p->sent.items, 0, device_stream(),
                              NULL));
    CHECK_OK(pith_cuda_decode(p->receiver.plan, p->receiver.stream, &received, 0, device_stream(),
                              NULL));
    return capture_end(device_stream());
}

static void pair_step(struct pair *p, cudaGraphExec_t exec, uint64_t step) {
    const pith_view value = pith_view_flat(p->sent.tensor.host, PITH_F32, COUNT);
    float *const out = allocate(COUNT * sizeof *out);
    const pith_view decoded = pith_view_flat(out, PITH_F32, COUNT);
    context("step %llu", (unsigned long long)step);
    gen_near(step, 1e-3, PITH_F32, p->sent.tensor.host, PITH_F32, p->sent.tensor.host, COUNT);
    struct frame frame = stream_encode(&p->sender.cpu, &value, 0, false);
    CHECK_OK(decode_one(p->receiver.cpu.work, p->receiver.cpu.stream, 0, frame.bytes, frame.length,
                        &decoded, 0));
    job_push(&p->sent);
    job_push(&p->got);
    replay(exec, device_stream());
    job_pull(&p->sent);
    job_pull(&p->got);
    CHECK_OK(job_status(&p->sent, 0));
    CHECK_OK(job_status(&p->got, 0));
    CHECK(*job_length(&p->sent, 0) == frame.length);
    CHECK(memcmp(job_frame(&p->sent, 0), frame.bytes, frame.length) == 0);
    CHECK(memcmp(p->got.tensor.host, out, COUNT * sizeof *out) == 0);
    rig_check_stream(&p->sender);
    rig_check_stream(&p->receiver);
    free(frame.bytes);
    free(out);
}

static void stream_of(const char *spec) {
    struct pair p;
    pair_open(&p, spec);
    const cudaGraphExec_t exec = pair_capture(&p);
    for (uint64_t step = 0; step < STEPS; step++) pair_step(&p, exec, step);
    CUDA_OK(cudaGraphExecDestroy(exec));
    pair_close(&p);
}

static void test_weights(void **state) {
    (void)state;
    stream_of("wdiff");
    stream_of("wdiff:bits=3,group=64,round=stochastic,block=4096");
}

/* ---- A sum of gradients ----------------------------------------------------------------------*/

enum { RANKS = 3 };

struct sum {
    struct rig rank[RANKS], into;
    struct job value[RANKS], sum, made;
};

static void sum_open(struct sum *s, const char *spec, const char *into) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    for (uint32_t k = 0; k < RANKS; k++) {
        CHECK(rig_open(&s->rank[k], spec, &layout));
        rig_set_random(&s->rank[k], SEED, k, 0);
        job_open(&s->value[k], &s->rank[k], 1, 1, PITH_F32, 0);
    }
    CHECK(rig_open(&s->into, into, &layout));
    rig_set_random(&s->into, SEED, RANKS, 0);
    job_open(&s->sum, &s->rank[0], 1, RANKS, PITH_F32, 0);
    job_open(&s->made, &s->into, 1, 1, PITH_F32, 0);
}

static void sum_close(struct sum *s) {
    for (uint32_t k = 0; k < RANKS; k++) {
        job_close(&s->value[k]);
        rig_close(&s->rank[k]);
    }
    job_close(&s->sum);
    job_close(&s->made);
    rig_close(&s->into);
}

/* Every rank encodes into its place of one buffer; the sum is taken out, and encoded again. */
static cudaGraphExec_t sum_capture(struct sum *s) {
    void *const stream = device_stream();
    capture_begin(stream);
    for (uint32_t k = 0; k < RANKS; k++) {
        pith_cuda_items items = s->value[k].items;
        items.frame = s->sum.frame.device + k * s->sum.stride;
        items.lengths = s->sum.items.lengths + k;
        CHECK_OK(pith_cuda_encode(s->rank[k].plan, s->rank[k].stream, &items, 0, stream, NULL));
    }
    CHECK_OK(pith_cuda_reduce(s->rank[0].plan, s->rank[0].stream, &s->sum.items, RANKS, 0.25f,
                              stream, NULL));
    CHECK_OK(pith_cuda_reduce_encode(s->rank[0].plan, s->rank[0].stream, &s->sum.items, RANKS,
                                     0.25f, s->into.plan, s->into.stream, &s->made.items, stream,
                                     NULL));
    return capture_end(stream);
}

/* Makes on the CPU what the graph makes: frames in s->sum's memory there, the sum in out. */
static void sum_expect(struct sum *s, struct frame frames[RANKS], float *out, struct frame *made) {
    const pith_plan *const plans[2] = {s->rank[0].cpu.plan, s->into.cpu.plan};
    void *memory;
    pith_work *const work = work_for(plans, 2, NULL, &memory);
    const pith_view sum = pith_view_flat(out, PITH_F32, COUNT);
    const void *places[RANKS];
    size_t lengths[RANKS];
    for (uint32_t k = 0; k < RANKS; k++) {
        const pith_view value = pith_view_flat(s->value[k].tensor.host, PITH_F32, COUNT);
        frames[k] = stream_encode(&s->rank[k].cpu, &value, 0, false);
        places[k] = frames[k].bytes;
        lengths[k] = frames[k].length;
    }
    CHECK_OK(reduce_one(work, s->rank[0].cpu.stream, 0, places, lengths, RANKS, 0.25f, &sum));
    made->bytes = allocate(s->made.stride);
    CHECK_OK(reduce_encode_one(work, s->rank[0].cpu.stream, 0, places, lengths, RANKS, 0.25f,
                               s->into.cpu.stream, 0, made->bytes, s->made.stride, &made->length));
    free(memory);
}

static void sum_run(struct sum *s, cudaGraphExec_t exec) {
    for (uint32_t k = 0; k < RANKS; k++) job_push(&s->value[k]);
    job_push(&s->sum);
    job_push(&s->made);
    replay(exec, device_stream());
    for (uint32_t k = 0; k < RANKS; k++) job_pull(&s->value[k]);
    job_pull(&s->sum);
    job_pull(&s->made);
}

static void sum_step(struct sum *s, cudaGraphExec_t exec, uint64_t step) {
    struct frame frames[RANKS], made;
    float *const out = allocate(COUNT * sizeof *out);
    context("step %llu", (unsigned long long)step);
    for (uint32_t k = 0; k < RANKS; k++)
        gen_fill(GEN_NOISE, 10 * step + k, PITH_F32, s->value[k].tensor.host, COUNT);
    sum_expect(s, frames, out, &made);
    sum_run(s, exec);
    for (uint32_t k = 0; k < RANKS; k++) {
        CHECK_OK(job_status(&s->value[k], 0));
        CHECK_OK(job_status(&s->sum, k));
        CHECK(memcmp(job_frame(&s->sum, k), frames[k].bytes, frames[k].length) == 0);
        rig_check_stream(&s->rank[k]);
        free(frames[k].bytes);
    }
    CHECK_OK(job_status(&s->made, 0));
    CHECK(memcmp(s->sum.tensor.host, out, COUNT * sizeof *out) == 0);
    CHECK(memcmp(job_frame(&s->made, 0), made.bytes, made.length) == 0);
    rig_check_stream(&s->into);
    free(made.bytes);
    free(out);
}

static void sum_of(const char *spec, const char *into) {
    struct sum s;
    sum_open(&s, spec, into);
    const cudaGraphExec_t exec = sum_capture(&s);
    for (uint64_t step = 0; step < STEPS; step++) sum_step(&s, exec, step);
    CUDA_OK(cudaGraphExecDestroy(exec));
    sum_close(&s);
}

static void test_gradients(void **state) {
    (void)state;
    sum_of("grad:preset=intra,round=stochastic", "grad:round=stochastic,ef=full");
    sum_of("grad:preset=intra,ef=ema:0.5", "grad:rotate=64,sign_seed=5,round=antithetic");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_gradients),
    };
    return cmocka_run_group_tests_name("gpu_graph", tests, NULL, NULL);
}
