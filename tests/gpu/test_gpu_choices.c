/* test_gpu_choices.c - what is asked of the choices of topk on the device and told of them:
 * requests, reports and states are the CPU's, and so are frames that are chosen from sums of
 * frames.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "trip.h"

/* ---- Requests, reports, states ---------------------------------------------------------------*/

/* Calls on all slots of a stream. */
struct asks {
    pith_cuda_items items;
    struct mirror request, chosen, state, status;
};

static void asks_open(struct asks *q, const struct rig *r) {
    const size_t slots = (size_t)r->slots;
    *q = (struct asks){0};
    mirror_open(&q->request, slots * sizeof(pith_sparse_request), 0);
    mirror_open(&q->chosen, slots * sizeof(uint64_t), 0);
    mirror_open(&q->state, slots * sizeof(pith_sparse_state), 0);
    mirror_open(&q->status, slots * sizeof(int32_t), 0);
    q->items = (pith_cuda_items){
        .size = sizeof q->items, .count = slots, .status = (int32_t *)(void *)q->status.device};
}

static void asks_close(struct asks *q) {
    mirror_close(&q->request);
    mirror_close(&q->chosen);
    mirror_close(&q->state);
    mirror_close(&q->status);
}

static pith_sparse_request *asks_request(const struct asks *q, uint64_t slot) {
    return (pith_sparse_request *)(void *)q->request.host + slot;
}
static pith_status asks_status(const struct asks *q, uint64_t slot) {
    int32_t status;
    memcpy(&status, q->status.host + 4 * slot, 4);
    return (pith_status)status;
}

/* Asks both sides for what stands in q->request; with `none` for nothing. */
static void request_both(struct rig *r, struct asks *q, bool none) {
    mirror_push(&q->request);
    CHECK_OK(pith_cuda_sparse_set_request(
        r->plan, r->stream, &q->items,
        none ? NULL : (const pith_sparse_request *)(const void *)q->request.device, device_stream(),
        NULL));
    mirror_pull(&q->status);
    for (uint64_t s = 0; s < r->slots; s++)
        CHECK_STATUS(pith_sparse_set_request(r->cpu.work, r->cpu.stream, s,
                                             none ? NULL : asks_request(q, s)),
                     asks_status(q, s));
}

/* All ranks chose `chosen` elements of each slot, and one more of the next. */
static void report_both(struct rig *r, struct asks *q, uint64_t chosen) {
    for (uint64_t s = 0; s < r->slots; s++) ((uint64_t *)(void *)q->chosen.host)[s] = chosen + s;
    mirror_push(&q->chosen);
    CHECK_OK(pith_cuda_sparse_report(r->plan, r->stream, &q->items,
                                     (const uint64_t *)(const void *)q->chosen.device,
                                     device_stream(), NULL));
    mirror_pull(&q->status);
    for (uint64_t s = 0; s < r->slots; s++)
        CHECK_STATUS(pith_sparse_report(r->cpu.work, r->cpu.stream, s, chosen + s),
                     asks_status(q, s));
    rig_check_stream(r);
}

static void check_states(struct rig *r, struct asks *q) {
    memset(q->state.host, UNTOUCHED, q->state.bytes);
    mirror_push(&q->state);
    CHECK_OK(pith_cuda_sparse_get_state(r->plan, r->stream, &q->items,
                                        (pith_sparse_state *)(void *)q->state.device,
                                        device_stream(), NULL));
    mirror_pull(&q->state);
    mirror_pull(&q->status);
    for (uint64_t s = 0; s < r->slots; s++) {
        const pith_sparse_state *const got = (pith_sparse_state *)(void *)q->state.host + s;
        pith_sparse_state wanted = {.size = sizeof wanted};
        CHECK_OK(pith_sparse_get_state(r->cpu.stream, s, &wanted));
        CHECK_OK(asks_status(q, s));
        CHECK(got->size == sizeof wanted && got->k == wanted.k && got->most == wanted.most);
        CHECK(got->sent == wanted.sent && got->overflowed == wanted.overflowed);
        CHECK(got->held == wanted.held && got->holds == wanted.holds);
        CHECK(bits_of(got->threshold) == bits_of(wanted.threshold));
    }
}

/* A request of every kind, in turn. */
static pith_sparse_request some_request(uint64_t n, uint64_t number, uint64_t *seed) {
    pith_sparse_request r = {.size = sizeof r};
    const uint64_t part = number % 11;
    if (part % 2) {
        r.first = gen_next(seed) % (n + 1);
        r.count = gen_next(seed) % (n - r.first + 1);
    }
    if (part == 4) r.first = n; /* nothing may be chosen */
    if (part >= 5 && part % 3 == 2) r.k = 1 + gen_next(seed) % (n + 9);
    if (part >= 6 && part % 3 == 1) r.threshold = 0.01f * (float)(1 + gen_next(seed) % 9);
    if (part == 10) r.threshold = -0.0f;
    return r;
}

static void request_some(struct rig *r, struct asks *q, uint64_t number, uint64_t *seed) {
    for (uint64_t s = 0; s < r->slots; s++) {
        uint64_t first, n;
        CHECK_OK(pith_plan_slot(r->cpu.plan, s, &first, &n));
        *asks_request(q, s) = some_request(n, number + 3 * s, seed);
    }
    request_both(r, q, number % 7 == 6);
    for (uint64_t s = 0; s < r->slots; s++) CHECK_OK(asks_status(q, s));
}

static const char *const specs[] = {
    "topk:k=40,ef=full",
    "topk:density=0.05,cap=1,ef=full,values=f16",
    "topk:density=0.05,control=exact,ef=full,values=int8,block=256",
    "topk:density=0.1,control=exact,cap=1,block=64",
    "topk:density=0.02,control=every,every=3,ef=ema:0.9",
    "topk:density=0.1,control=micro,cap=1,values=none,ef=full,clear=call",
    "topk:density=0.1,control=micro-symmetric,index=fast,block=512,ef=full",
    "topk:density=0.3,control=nonzero,values=bf16",
    "topk:density=0.99,block=128",
    "topk:density=1,ef=full",
    "topk:density=0.05,ef=full,momentum=0.9",
    "topk:density=0.1,control=exact,ef=ema:0.5,momentum=0.5,values=int8,block=256",
    "topk:density=0.1,control=micro,values=none,ef=full,clear=call,momentum=0.9",
    "topk:density=0.1,control=nonzero,unit=4,ef=full",
    "topk:density=0.1,control=nonzero,unit=256,values=f16",
    "topk:k=5,scope=row,ef=full",
    "topk:density=0.2,scope=row,values=int8,index=fast,block=64",
    "topk:density=0.05,control=oktopk,every=4,ef=full",
    "topk:density=0.05,control=sage,ef=full,block=512",
    "topk:density=0.05,control=sage,ef=full,momentum=0.9,values=bf16",
    "topk:density=0.08,control=dgc,ef=full",
    "topk:k=70,control=dgc,ef=full,momentum=0.9",
    "topk:density=0.1,control=gauss,ef=full,block=64",
    "topk:density=0.1,control=gauss,ef=ema:0.5,momentum=0.5,block=8192,cap=1",
    "topk:density=0.05,control=redsync,ef=full,block=256",
    "topk:density=0.1,control=redsync,values=none,ef=full,clear=call",
    "topk:density=0.05,transform=dct,ef=full",
    "topk:density=0.08,transform=dct,control=dgc,ef=full,momentum=0.9,block=256",
    "topk:density=0.05,transform=hadamard,control=sage,ef=ema:0.5,values=f16",
    "topk:density=0.1,transform=hadamard,control=redsync,ef=full,momentum=0.5,block=64",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

static void one_training(const char *spec, uint64_t n, uint64_t slots, uint64_t number) {
    static const int kinds[] = {GEN_NOISE, GEN_NOISE, GEN_EQUAL, GEN_HOLES, GEN_SPARSE};
    pith_layout layout = flat_layout(trip_reals[number % 3], PITH_NONE, n);
    struct rig r;
    struct asks q;
    uint64_t seed = number + 1;
    context("%s of %llu elements in %llu slots, number %llu", spec, (unsigned long long)n,
            (unsigned long long)slots, (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    layout.slots = slots;
    CHECK(rig_open(&r, spec, &layout));
    asks_open(&q, &r);
    check_states(&r, &q);
    report_both(&r, &q, 7);
    CHECK_STATUS(PITH_ERR_STATE, asks_status(&q, 0));
    for (uint64_t step = 0; step < 8; step++) {
        request_some(&r, &q, number + step, &seed);
        encode_both(&r, kinds[(number + step / 2) % 5], seed);
        check_states(&r, &q);
        if (step % 3 == 1) report_both(&r, &q, gen_next(&seed) % (n / 4 + 1));
    }
    /* A step is taken back, and with it that what it went on from was a report. */
    report_both(&r, &q, n / 9);
    const uint64_t last = pith_stream_step(r.cpu.stream, 0);
    encode_both(&r, GEN_NOISE, 1);
    CHECK_OK(pith_stream_rollback(r.cpu.work, r.cpu.stream, last));
    CHECK_OK(pith_cuda_stream_rollback(r.plan, r.stream, last, device_stream(), NULL));
    rig_check_stream(&r);
    check_states(&r, &q);
    encode_both(&r, GEN_NOISE, 2);
    asks_close(&q);
    rig_close(&r);
}

static void test_training(void **state) {
    (void)state;
    static const uint64_t counts[] = {0, 1, 65, 1000, 5003, 40000};
    uint64_t number = 0;
    for (size_t k = 0; k < SPECS; k++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++, number++)
            if ((counts[i] < 40000 || k % 3 == 0) && is_sampled(number, 3))
                one_training(specs[k], counts[i], counts[i] >= 1000 ? 1 + number % 3 : 1, number);
}

/* Rows of any length, chosen from each by itself; of such as are too long the CPU's status. */
static void test_rows(void **state) {
    (void)state;
    static const uint64_t shapes[][5] = {{2, 40, 70},   {2, 3, 5000}, {4, 3, 5, 7, 129},
                                         {2, 300, 1},   {1, 2000},    {2, 2, 65536},
                                         {2, 1, 65537}, {2, 0, 9},    {2, 9, 0}};
    static const char *const rows[] = {"topk:k=5,scope=row", "topk:density=0.1,scope=row,ef=full",
                                       "topk:density=0.4,scope=row,values=f16,ef=ema:0.9,block=64",
                                       "topk:k=90,scope=row,values=none"};
    static const int kinds[] = {GEN_NOISE, GEN_EQUAL, GEN_BITS, GEN_SPARSE, GEN_TIES};
    uint64_t number = 0, seed = 1;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++, number++) {
            pith_layout layout = shape_layout(shapes[i], trip_reals[number % 3], 0);
            struct rig r;
            struct asks q;
            struct job j;
            if ((shapes[i][2] > 60000 && k > 1) || !is_sampled(number, 3)) continue;
            context("%s, shape %d", rows[k], (int)i);
            device_order((int)(number % (uint64_t)device_orders()));
            if (shapes[i][1] >= 3) layout.slots = 1 + number % 3;
            CHECK(rig_open(&r, rows[k], &layout));
            asks_open(&q, &r);
            open_sender(&j, &r);
            for (uint64_t step = 0; step < 5; step++) {
                if (step == 2) request_some(&r, &q, 5, &seed);
                if (step == 3) request_some(&r, &q, 1, &seed);
                send_both(&r, &j, kinds[(number + step) % 5], seed + step, 0);
                check_states(&r, &q);
            }
            job_close(&j);
            asks_close(&q);
            rig_close(&r);
        }
}

/* Bytes of a stream that goes on from a report go on from it on the device. */
static void test_reports_are_packed(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 3000);
    struct rig r;
    struct asks q;
    context("a report that is packed");
    CHECK(rig_open(&r, "topk:k=30,ef=full", &layout));
    asks_open(&q, &r);
    encode_both(&r, GEN_NOISE, 1);
    CHECK_OK(pith_sparse_report(r.cpu.work, r.cpu.stream, 0, 90));
    const size_t bytes = (size_t)r.sizes.stream_bytes;
    uint8_t *const image = allocate(bytes);
    CHECK_OK(pith_cuda_stream_pack(r.plan, r.cpu.work, r.cpu.stream, image, bytes, NULL));
    device_put(r.stream, image, bytes);
    free(image);
    rig_check_stream(&r);
    encode_both(&r, GEN_NOISE, 2);
    asks_close(&q);
    rig_close(&r);
}

/* What cannot be asked changes nothing. */
static void test_refused_requests(void **state) {
    (void)state;
    static const pith_sparse_request bad[] = {
        {.size = sizeof bad[0], .first = 101},
        {.size = sizeof bad[0], .first = 50, .count = 51},
        {.size = sizeof bad[0], .first = 50, .count = UINT64_MAX},
        {.size = sizeof bad[0], .threshold = -1},
        {.size = sizeof bad[0], .threshold = INFINITY},
        {.size = sizeof bad[0], .threshold = NAN},
    };
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    struct rig r;
    struct asks q;
    context("requests that are refused");
    CHECK(rig_open(&r, "topk:k=9,ef=full", &layout));
    asks_open(&q, &r);
    *asks_request(&q, 0) = (pith_sparse_request){.size = sizeof bad[0], .first = 10, .count = 20};
    request_both(&r, &q, false);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        *asks_request(&q, 0) = bad[i];
        request_both(&r, &q, false);
        CHECK_STATUS(PITH_ERR_ARG, asks_status(&q, 0));
    }
    encode_both(&r, GEN_NOISE, 1);
    for (size_t size = 0; size <= sizeof bad[0] + 8; size += sizeof bad[0] + 8) {
        *asks_request(&q, 0) = (pith_sparse_request){.size = size};
        mirror_push(&q.request);
        CHECK_OK(pith_cuda_sparse_set_request(
            r.plan, r.stream, &q.items, (const pith_sparse_request *)(const void *)q.request.device,
            device_stream(), NULL));
        mirror_pull(&q.status);
        CHECK_STATUS(PITH_ERR_ARG, asks_status(&q, 0));
    }
    encode_both(&r, GEN_NOISE, 2);
    asks_close(&q);
    rig_close(&r);
}

static void test_arguments(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    struct rig r, raw;
    struct asks q;
    pith_error error = {.size = sizeof error};
    context("arguments");
    CHECK(rig_open(&r, "topk:k=9", &layout) && rig_open(&raw, "raw", &layout));
    asks_open(&q, &r);
    void *const stream = device_stream();
    const pith_sparse_request *const request = (const void *)q.request.device;
    const uint64_t *const chosen = (const void *)q.chosen.device;
    pith_sparse_state *const states = (void *)q.state.device;
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_cuda_sparse_report(r.plan, r.stream, &q.items, NULL, stream, &error));
    CHECK(error.text[0]);
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_cuda_sparse_get_state(r.plan, r.stream, &q.items, NULL, stream, NULL));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_cuda_sparse_report(r.plan, r.stream, NULL, chosen, stream, NULL));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_cuda_sparse_set_request(NULL, r.stream, &q.items, request, stream, NULL));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_cuda_sparse_get_state(r.plan, NULL, &q.items, states, stream, NULL));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_cuda_sparse_set_request(
                     r.plan, r.stream, &q.items,
                     (const void *)((const uint8_t *)(const void *)request + 4), stream, NULL));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_cuda_sparse_set_request(raw.plan, raw.stream, &q.items,
                                                                    request, stream, NULL));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_sparse_report(raw.plan, raw.stream, &q.items, chosen, stream, NULL));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_sparse_get_state(raw.plan, raw.stream, &q.items, states, stream, NULL));
    q.items.first_slot = 1;
    CHECK_OK(pith_cuda_sparse_get_state(r.plan, r.stream, &q.items, states, stream, NULL));
    mirror_pull(&q.status);
    CHECK_STATUS(PITH_ERR_ARG, asks_status(&q, 0));
    asks_close(&q);
    rig_close(&raw);
    rig_close(&r);
}

/* ---- Sums that are chosen from again ---------------------------------------------------------*/

/* Frames of two plans of f32: those that are summed, and what is made of the sums. */
struct again {
    struct rig in, out;
    struct job read, made;
    pith_work *work; /* for both */
    void *memory;
    uint64_t each;
};

static void again_open(struct again *g, const char *in, const char *out, uint64_t n, uint64_t slots,
                       uint64_t each) {
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, n);
    layout.slots = slots;
    g->each = each;
    CHECK(rig_open(&g->in, in, &layout) && rig_open(&g->out, out, &layout));
    const uint64_t frames = g->in.slots * each;
    job_open(&g->read, &g->in, g->in.slots, frames, PITH_F32, 0);
    device_free(g->read.work);
    g->read.items.workspace_bytes =
        frames * g->in.sizes.workspace_bytes + g->in.slots * g->in.sizes.sum_bytes;
    g->read.items.workspace = g->read.work = device_alloc((size_t)g->read.items.workspace_bytes);
    g->read.items.tensor = NULL;
    g->work =
        work_for((const pith_plan *const[]){g->in.cpu.plan, g->out.cpu.plan}, 2, NULL, &g->memory);
    job_open(&g->made, &g->out, g->out.slots, g->out.slots, PITH_F32, 0);
    g->made.items.tensor = NULL;
}

static void again_close(struct again *g) {
    job_close(&g->made);
    job_close(&g->read);
    free(g->memory);
    rig_close(&g->out);
    rig_close(&g->in);
}

/* Frames of every slot, of a stream that then begins anew. */
static void again_frames(struct again *g, int kind, uint64_t seed) {
    struct stream rank;
    float *const value = allocate((size_t)g->in.count * sizeof *value);
    const pith_view view = pith_view_flat(value, PITH_F32, g->in.count);
    stream_open_end(&rank, &g->in.cpu, NULL);
    for (uint64_t i = 0; i < g->read.frames; i++) {
        gen_fill((enum gen)kind, seed + i, PITH_F32, value, (size_t)g->in.count);
        const struct frame f = stream_encode(&rank, &view, i / g->each, false);
        memcpy(job_frame(&g->read, i), f.bytes, f.length);
        *job_length(&g->read, i) = f.length;
        free(f.bytes);
    }
    stream_close(&rank);
    free(value);
}

static pith_status again_call(struct again *g, float scale) {
    return pith_cuda_reduce_encode(g->in.plan, g->in.stream, &g->read.items, (uint32_t)g->each,
                                   scale, g->out.plan, g->out.stream, &g->made.items,
                                   device_stream(), NULL);
}

/* Makes frames of the sums on both sides: statuses, frames and both streams are the same. Returns
 * how many were made. */
static uint64_t again_both(struct again *g, float scale) {
    const size_t capacity = (size_t)g->made.items.capacity;
    const void **const frames = allocate((size_t)g->each * sizeof *frames);
    size_t *const lengths = allocate((size_t)g->each * sizeof *lengths);
    uint8_t *const wanted = allocate(capacity);
    uint64_t made = 0;
    memset(g->made.frame.host, UNTOUCHED, g->made.frame.bytes);
    job_push(&g->read);
    JOB_RUN(&g->made, again_call(g, scale));
    for (uint64_t s = 0; s < g->in.slots; s++) {
        size_t length;
        for (uint64_t i = 0; i < g->each; i++) {
            frames[i] = job_frame(&g->read, s * g->each + i);
            lengths[i] = (size_t)*job_length(&g->read, s * g->each + i);
        }
        const pith_status status =
            reduce_encode_one(g->work, g->in.cpu.stream, s, frames, lengths, (size_t)g->each, scale,
                              g->out.cpu.stream, s, wanted, capacity, &length);
        CHECK_STATUS(status, job_status(&g->made, s));
        CHECK(*job_length(&g->made, s) == length);
        CHECK(memcmp(job_frame(&g->made, s), wanted, length) == 0);
        CHECK(all_bytes(job_frame(&g->made, s) + length, g->made.stride - length, UNTOUCHED));
        made += status == PITH_OK;
    }
    rig_check_stream(&g->in);
    rig_check_stream(&g->out);
    free(wanted);
    free(lengths);
    free((void *)frames);
    return made;
}

static const char *const sources[] = {
    "topk:density=0.05,control=exact",
    "topk:density=0.02,values=int8,block=1024",
    "topk:density=0.1,values=none,index=fast",
    "topk:density=0.3,control=nonzero,values=bf16",
    "topk:density=0.2,control=micro,values=f16,ef=full",
    "topk:density=0.1,transform=dct,block=256",
    "topk:density=0.1,transform=hadamard,values=int8",
};
static const char *const results[] = {
    "topk:density=0.02,ef=full",
    "topk:density=0.05,control=exact,values=int8,block=512",
    "topk:k=9,control=micro,cap=1,ef=ema:0.5",
    "topk:density=0.5,control=nonzero,index=fast,block=64",
    "topk:density=0.05,control=gauss,ef=full,block=128",
    "topk:density=0.05,control=redsync,block=8192",
    "topk:density=0.02,control=oktopk,every=2",
    "topk:density=0.05,transform=dct,ef=full,block=1024",
    "topk:density=0.1,transform=hadamard,control=gauss",
    "topk:density=0.02,control=dgc,ef=full,block=256",
    "topk:density=0.05,control=dgc,values=f16,block=4096",
    "topk:k=40,control=dgc,cap=1,transform=dct,ef=ema:0.5",
    "topk:density=0.03,control=sage,ef=full,block=64",
    "topk:density=0.1,control=sage,values=int8,transform=hadamard",
    "topk:density=0.04,control=every,every=2,ef=full",
    "topk:density=0.06,control=micro-symmetric,values=bf16,block=2048",
};
enum { SOURCES = sizeof sources / sizeof sources[0], RESULTS = sizeof results / sizeof results[0] };

static void test_again(void **state) {
    (void)state;
    static const uint64_t counts[] = {0, 1, 200, 6000, 40007};
    static const int kinds[] = {GEN_NOISE, GEN_BITS, GEN_EQUAL, GEN_LARGE};
    uint64_t number = 0;
    for (size_t i = 0; i < SOURCES; i++)
        for (size_t o = 0; o < RESULTS; o++)
            for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++, number++) {
                uint64_t seed = number;
                struct again g;
                struct asks q;
                if ((counts[k] > 10000 && (i + o) % 3) || !is_sampled(number, 4)) continue;
                context("%s to %s, %llu elements", sources[i], results[o],
                        (unsigned long long)counts[k]);
                device_order((int)(number % (uint64_t)device_orders()));
                again_open(&g, sources[i], results[o], counts[k],
                           counts[k] > 200 ? 1 + number % 3 : 1, 1 + number % 4);
                asks_open(&q, &g.out);
                for (uint64_t step = 0; step < 3; step++) {
                    if (step == 2) request_some(&g.out, &q, number, &seed);
                    again_frames(&g, kinds[(number + step) % 4], number + 100 * step);
                    CHECK(again_both(&g, step == 1 ? 0.25f : 1) == g.in.slots);
                }
                asks_close(&q);
                again_close(&g);
            }
}

/* Of an item with a damaged frame, or without space, neither stream moves on. */
static void test_again_refused(void **state) {
    (void)state;
    struct again g, other;
    context("sums that are not encoded");
    again_open(&g, "topk:k=50,block=256", "topk:k=20,ef=full,values=f16", 3000, 2, 3);
    again_frames(&g, GEN_NOISE, 1);
    CHECK(again_both(&g, 1) == 2);
    job_frame(&g.read, 1)[64] ^= 1;
    job_frame(&g.read, 2)[0] ^= 1;
    CHECK(again_both(&g, 1) == 1);
    CHECK_STATUS(PITH_ERR_CHECKSUM, job_status(&g.made, 0));
    again_frames(&g, GEN_NOISE, 9);
    CHECK(again_both(&g, 1) == 2);
    const uint64_t capacity = g.made.items.capacity;
    g.made.items.capacity = *job_length(&g.made, 0) / 2;
    CHECK(again_both(&g, 1) == 0);
    CHECK_STATUS(PITH_ERR_SPACE, job_status(&g.made, 0));
    g.made.items.capacity = capacity;
    CHECK(again_both(&g, 1) == 2);

    /* Slots that are not alike, and workspace that is missing. */
    again_open(&other, "topk:k=5", "topk:k=5", 3001, 2, 3);
    other.made.items.lengths = NULL;
    job_push(&g.read);
    JOB_RUN(&other.made,
            pith_cuda_reduce_encode(g.in.plan, g.in.stream, &g.read.items, 3, 1, other.out.plan,
                                    other.out.stream, &other.made.items, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_ARG, job_status(&other.made, 0));
    again_close(&other);
    again_open(&other, "topk:k=5", "topk:k=5,ef=full,momentum=0.9", 100, 1, 1);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, again_call(&other, 1));
    again_close(&other);
    again_open(&other, "topk:k=5", "topk:k=5,scope=row", 100, 1, 1);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, again_call(&other, 1));
    again_close(&other);
    g.read.items.workspace_bytes--;
    CHECK_STATUS(PITH_ERR_SPACE, again_call(&g, 1));
    g.read.items.workspace_bytes++;
    g.made.items.workspace_bytes--;
    CHECK_STATUS(PITH_ERR_SPACE, again_call(&g, 1));
    again_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_reports_are_packed),
        cmocka_unit_test(test_refused_requests),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_again_refused),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests_name("gpu_choices", tests, NULL, NULL);
}
