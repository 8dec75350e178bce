/* test_sum.c - reduce-scatter and all-reduce give, bit for bit, what the serial twin gives.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "sim.h"

#define A "wdiff:bits=8,group=32,block=64"
#define B "wdiff:bits=4,group=16,block=32,round=stochastic"

struct bucket {
    void **input; /* inputs of every rank */
    void *out, *wanted;
    uint64_t first, count; /* elements of the tensor that out has */
};

static void fill(struct bucket *b, const pith_collective_options *o, uint64_t step) {
    for (int r = 0; r < world_ranks; r++)
        sim_fill(b->input[r], o->dtype, o->count, (uint32_t)r, step);
}

static void simulate(struct sim *s, struct bucket *b, const pith_collective_options *o, float scale,
                     uint64_t step, uint32_t out_dtype) {
    const void *const *inputs = (const void *const *)b->input;
    const bool all = o->kind == PITH_COLLECTIVE_ALLREDUCE;
    for (int r = 0; r < world_ranks; r++) {
        uint64_t first;
        sim_shard(s, (uint32_t)r, &first);
        char *to = (char *)b->wanted + (all ? first * pith_dtype_bytes(out_dtype) : 0);
        if (all || r == world_rank) sim_sum(s, inputs, (uint32_t)r, scale, step, out_dtype, to);
    }
}

static void check_report(const pith_collective_report *r, const pith_collective_options *o,
                         const pith_collective_place *p) {
    const bool packed = o->count >= o->threshold;
    CHECK(r->status == PITH_OK && r->failed_rank == -1);
    CHECK(r->compressed == packed);
    CHECK(r->levels == (packed && o->inter && p->nodes > 1 && p->nodes < p->ranks ? 2 : 1));
    CHECK(p->nodes > 1 || (r->sent_messages[1] == 0 && r->sent_bytes[1] == 0));
    CHECK(r->total_seconds > 0 && r->wait_seconds >= 0 && r->cpu_seconds > 0);
    if (o->count >= 8 * p->ranks && p->ranks > 1 && !o->counts)
        CHECK(r->sent_bytes[0] + r->sent_bytes[1] > 64);
}

static void run(const pith_collective_options *o, uint32_t out_dtype, uint64_t steps) {
    pith_collective_channel *ch;
    pith_collective_report report = {.size = sizeof report};
    pith_collective_place place = {.size = sizeof place};
    struct bucket b = {.input = sim_take((uint64_t)world_ranks * sizeof(void *))};
    const size_t bytes = pith_dtype_bytes(out_dtype);
    if (!CHECK_STATUS(sim_create(&ch, o, NULL), PITH_OK)) return;
    struct sim *s = sim_new(o, (uint32_t)world_ranks);
    CHECK_STATUS(pith_collective_get_place(ch, &place), PITH_OK);
    b.count = o->count;
    if (o->kind == PITH_COLLECTIVE_REDUCE_SCATTER)
        b.count = sim_shard(s, (uint32_t)world_rank, &b.first);
    for (int r = 0; r < world_ranks; r++) b.input[r] = sim_take(o->count * 4);
    b.out = sim_take(b.count * bytes);
    b.wanted = sim_take(b.count * bytes);
    const pith_view in = pith_view_flat(b.input[world_rank], o->dtype, o->count);
    const pith_view out = pith_view_flat(b.out, out_dtype, b.count);
    for (uint64_t step = 3; step < 3 + steps; step++) {
        const float scale = step % 2 ? 1.0f : 1.0f / (float)world_ranks;
        fill(&b, o, step);
        simulate(s, &b, o, scale, step, out_dtype);
        CHECK_STATUS(sim_reduce(ch, &in, &out, scale, step, &report), PITH_OK);
        CHECK(memcmp(b.out, b.wanted, b.count * bytes) == 0);
        check_report(&report, o, &place);
    }
    pith_collective_destroy(ch);
    sim_free(s);
    for (int r = 0; r < world_ranks; r++) free(b.input[r]);
    free(b.input);
    free(b.out);
    free(b.wanted);
}

/* ---- Every combination -----------------------------------------------------------------------*/

static pith_collective_options options(uint32_t kind, uint64_t count) {
    return (pith_collective_options){.size = sizeof(pith_collective_options),
                                     .kind = kind,
                                     .dtype = PITH_F32,
                                     .count = count,
                                     .spec = A,
                                     .inter = B,
                                     .ranks_per_node = 2,
                                     .rng_stream = 7,
                                     .seed = 99,
                                     .slice = 96,
                                     .timeout = 60};
}

static void sizes_and_nodes(uint32_t kind) {
    const uint64_t counts[] = {0, 1, (uint64_t)world_ranks - 1, 17, 1000, 1003};
    const uint32_t nodes[] = {0, 1, 2, 3, 64};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t k = 0; k < sizeof nodes / sizeof *nodes; k++) {
            pith_collective_options o = options(kind, counts[c]);
            o.ranks_per_node = nodes[k];
            run(&o, PITH_F32, 1);
        }
}

static void dtypes_and_specs(uint32_t kind) {
    const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16};
    for (int k = 0; k < 9; k++) {
        pith_collective_options o = options(kind, 1500);
        o.dtype = dtypes[k % 3];
        run(&o, dtypes[k / 3], 1);
        o.inter = NULL;
        run(&o, dtypes[k / 3], 1);
        o.threshold = 1501; /* uncompressed */
        run(&o, dtypes[k / 3], 1);
    }
    pith_collective_options o = options(kind, 1500);
    o.slice = 1 << 20;
    o.gather = kind == PITH_COLLECTIVE_ALLREDUCE ? "wdiff:bits=6,group=32" : NULL;
    run(&o, PITH_F32, 3);
}

static void own_counts(uint32_t kind) {
    uint64_t counts[64] = {0}, sum = 0;
    for (int r = 0; r < world_ranks; r++)
        sum += counts[r] = r % 3 == 1 ? 0 : 100 + 37 * (uint64_t)r;
    pith_collective_options o = options(kind, sum);
    o.counts = counts;
    o.ranks_per_node = 3;
    run(&o, PITH_F32, 2);
}

/* ---- Codec grad ------------------------------------------------------------------------------*/

static void gradients(uint32_t kind) {
    static const char *const pairs[][2] = {
        {"grad:preset=intra,group=64", "grad:preset=inter,group=64"},
        {"grad:preset=intra,ef=full", "grad:preset=inter,ef=full"},
        {"grad:preset=intra,round=stochastic,ef=ema:0.5", "grad:preset=inter,round=stochastic"},
        {"grad:preset=intra,round=antithetic", "grad:preset=inter,round=antithetic"},
        {"grad:bits=4,round=antithetic,ef=full", NULL},
        {"grad:bits=8,rotate=0", "grad:bits=4,search=mse,sign_seed=5"}};
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        pith_collective_options o = options(kind, 3000);
        o.spec = pairs[k][0];
        o.inter = pairs[k][1];
        o.slice = 300;
        o.dtype = k % 2 ? PITH_BF16 : PITH_F32;
        run(&o, PITH_F32, 3);
        o.ranks_per_node = 3;
        run(&o, PITH_BF16, 2);
    }
}

/* ---- Exempt ranges ---------------------------------------------------------------------------*/

/* Computes the sum in the order that the header states. */
static float plain_sum(uint64_t i, uint32_t per_node, float scale) {
    float sum = 0, node = 0;
    for (int r = 0; r < world_ranks; r++) {
        const float x = sim_value((uint32_t)r, i, 1, false);
        const bool first = (uint32_t)r % per_node == 0;
        node = first ? x : node + x;
        if (r + 1 < world_ranks && ((uint32_t)r + 1) % per_node) continue;
        sum = (uint32_t)r < per_node ? node : sum + node;
    }
    return sum * scale;
}

/* Exempt ranges cross shards and slices: exact values go around the codec in every hop. */
static void exempt(uint32_t kind, uint32_t per_node) {
    const pith_exempt ranges[] = {{0, 5, PITH_EXEMPT_EXACT},
                                  {90, 300, PITH_EXEMPT_EXACT},
                                  {1000, 1, PITH_EXEMPT_16},
                                  {1400, 199, PITH_EXEMPT_EXACT}};
    pith_collective_options o = options(kind, 1599);
    pith_collective_channel *ch;
    float x[1599], y[1599];
    o.spec = "grad:preset=intra,group=32";
    o.inter = per_node == 1 ? NULL : "grad:preset=inter,group=32";
    o.ranks_per_node = per_node;
    o.exempt = ranges;
    o.exempt_count = sizeof ranges / sizeof *ranges;
    if (!CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK)) return;
    uint64_t first = 0, count = o.count;
    if (kind == PITH_COLLECTIVE_REDUCE_SCATTER)
        CHECK_STATUS(pith_collective_shard(ch, (uint32_t)world_rank, &first, &count), PITH_OK);
    sim_fill(x, PITH_F32, o.count, (uint32_t)world_rank, 1);
    const pith_view in = pith_view_flat(x, PITH_F32, o.count);
    const pith_view out = pith_view_flat(y, PITH_F32, count);
    CHECK_STATUS(sim_reduce(ch, &in, &out, 0.25f, 1, NULL), PITH_OK);
    uint64_t off = 0;
    for (uint64_t i = first; i < first + count; i++) {
        const bool exact = i < 5 || (i >= 90 && i < 390) || i >= 1400;
        const bool same = y[i - first] == plain_sum(i, per_node, 0.25f);
        if (exact && !CHECK(same)) break;
        off += !same;
    }
    CHECK(count < 500 || off > 100); /* the other elements are coded */
    pith_collective_destroy(ch);
}

/* ---- Views -----------------------------------------------------------------------------------*/

/* Checks that a transposed input with gaps and a backwards output give the same numbers. */
static void strided(uint32_t kind) {
    const pith_collective_options o = options(kind, 30 * 40);
    pith_collective_channel *ch;
    uint64_t first = 0, count = o.count;
    if (!CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK)) return;
    if (kind == PITH_COLLECTIVE_REDUCE_SCATTER)
        CHECK_STATUS(pith_collective_shard(ch, (uint32_t)world_rank, &first, &count), PITH_OK);
    float *dense = sim_take(o.count * 4), *far = sim_take(o.count * 8);
    float *out = sim_take(count * 4), *back = sim_take(count * 8);
    sim_fill(dense, PITH_F32, o.count, (uint32_t)world_rank, 0);
    for (uint64_t i = 0; i < 30; i++)
        for (uint64_t j = 0; j < 40; j++) far[2 * (j * 30 + i)] = dense[i * 40 + j];
    const pith_view in = pith_view_flat(dense, PITH_F32, o.count);
    const pith_view to = pith_view_flat(out, PITH_F32, count);
    const pith_view scattered = {
        .data = far, .dtype = PITH_F32, .ndim = 2, .shape = {30, 40}, .stride = {2, 60}};
    pith_view backwards = pith_view_flat(back + (count ? 2 * (count - 1) : 0), PITH_F32, count);
    backwards.stride[0] = -2;
    CHECK_STATUS(sim_reduce(ch, &in, &to, 1.0f, 5, NULL), PITH_OK);
    CHECK_STATUS(sim_reduce(ch, &scattered, &backwards, 1.0f, 5, NULL), PITH_OK);
    for (uint64_t i = 0; i < count; i++)
        if (!CHECK(memcmp(&out[i], &back[2 * (count - 1 - i)], 4) == 0)) break;
    /* The call works in place: on the whole tensor, or on this rank's shard of it. */
    const pith_view place = pith_view_flat(dense + first, PITH_F32, count);
    CHECK_STATUS(sim_reduce(ch, &in, &place, 1.0f, 5, NULL), PITH_OK);
    CHECK(memcmp(out, dense + first, count * 4) == 0);
    pith_collective_destroy(ch);
    free(dense);
    free(far);
    free(out);
    free(back);
}

/* ---- Lists of tensors ------------------------------------------------------------------------*/

enum { TENSORS = 7 };

/* Cuts the same numbers into tensors that are empty, of one element, with gaps, in two dimensions
 * or backwards. Returns how many there are. */
static size_t cut_up(float *far, const float *dense, uint64_t count, pith_view views[TENSORS]) {
    const uint64_t counts[TENSORS] = {count / 5, 0, count > 0, count / 3, 2 * (count / 12), 0, 0};
    uint64_t at = 0;
    for (size_t k = 0; k < TENSORS; k++) {
        const uint64_t n = k + 1 < TENSORS ? counts[k] : count - at;
        float *const to = far + 3 * at;
        views[k] = pith_view_flat(to, PITH_F32, n);
        if (k == 3) views[k].stride[0] = 3;
        if (k == 4)
            views[k] = (pith_view){.data = to,
                                   .dtype = PITH_F32,
                                   .ndim = 2,
                                   .shape = {n / 2, 2},
                                   .stride = {1, (int64_t)n}};
        if (k == 6 && n) {
            views[k].data = to + 2 * (n - 1);
            views[k].stride[0] = -2;
        }
        for (uint64_t i = 0; i < n; i++) {
            const int64_t place =
                k == 4 ? (int64_t)(i / 2 + i % 2 * n) : (int64_t)i * views[k].stride[0];
            float *const x = (float *)views[k].data + place;
            if (dense)
                *x = dense[at + i];
            else
                *x = NAN;
        }
        at += n;
    }
    return TENSORS;
}

static bool equal_lists(const float *dense, const pith_view *views, size_t count) {
    for (size_t k = 0; k < count; k++) {
        const pith_view *v = &views[k];
        const uint64_t n = pith_view_count(v);
        for (uint64_t i = 0; i < n; i++) {
            const int64_t place =
                v->ndim == 2 ? (int64_t)(i / 2) * v->stride[0] + (int64_t)(i % 2) * v->stride[1]
                             : (int64_t)i * v->stride[0];
            if (memcmp((float *)v->data + place, dense++, 4) != 0) return false;
        }
    }
    return true;
}

/* A bucket gives, bit for bit, what one tensor of its elements does. */
static void lists(uint32_t kind, uint64_t total) {
    pith_collective_options o = options(kind, total);
    pith_collective_channel *ch;
    uint64_t first = 0, count = total;
    o.spec = "grad:preset=intra,group=32,round=stochastic,ef=full";
    if (!CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK)) return;
    if (kind == PITH_COLLECTIVE_REDUCE_SCATTER)
        CHECK_STATUS(pith_collective_shard(ch, (uint32_t)world_rank, &first, &count), PITH_OK);
    float *dense = sim_take(total * 4), *far = sim_take(total * 12);
    float *out = sim_take(count * 4), *back = sim_take(count * 12);
    const pith_view in = pith_view_flat(dense, PITH_F32, total);
    const pith_view to = pith_view_flat(out, PITH_F32, count);
    pith_view ins[TENSORS], outs[TENSORS];
    for (uint64_t step = 1; step < 4; step++) {
        sim_fill(dense, PITH_F32, total, (uint32_t)world_rank, step);
        CHECK_STATUS(sim_reduce(ch, &in, &to, 0.5f, step, NULL), PITH_OK);
        CHECK_STATUS(pith_collective_rollback(ch, step), PITH_OK);
        const pith_collective_call call = {.size = sizeof call,
                                           .input_count = cut_up(far, dense, total, ins),
                                           .output_count = cut_up(back, NULL, count, outs),
                                           .inputs = ins,
                                           .outputs = outs,
                                           .scale = 0.5f,
                                           .step = step};
        CHECK_STATUS(pith_collective_run(ch, &call, NULL), PITH_OK);
        CHECK(equal_lists(out, outs, TENSORS));
        if (kind != PITH_COLLECTIVE_ALLREDUCE) continue;
        CHECK_STATUS(pith_collective_rollback(ch, step), PITH_OK);
        pith_collective_call in_place = call;
        in_place.outputs = ins;
        CHECK_STATUS(pith_collective_run(ch, &in_place, NULL), PITH_OK);
        CHECK(equal_lists(out, ins, TENSORS));
    }
    /* What is wrong with one tensor of a list is this rank's error, and every rank's status. */
    const bool failing = world_rank == world_ranks - 1;
    pith_collective_call call = {.size = sizeof call,
                                 .inputs = ins,
                                 .outputs = outs,
                                 .input_count = TENSORS,
                                 .output_count = TENSORS};
    if (failing) ins[TENSORS - 1].dtype = PITH_F16;
    CHECK_STATUS(pith_collective_run(ch, &call, NULL), PITH_ERR_DTYPE);
    CHECK(failing == (strstr(pith_collective_last_error(ch)->text, "tensor 6") != NULL));
    ins[TENSORS - 1].dtype = PITH_F32;
    if (failing) call.input_count--;
    const bool shorter = pith_view_count(&ins[TENSORS - 1]) > 0;
    CHECK_STATUS(pith_collective_run(ch, &call, NULL), shorter ? PITH_ERR_SHAPE : PITH_OK);
    call.input_count = TENSORS;
    if (failing) ins[1].ndim = PITH_MAX_NDIM + 1;
    CHECK_STATUS(pith_collective_run(ch, &call, NULL), PITH_ERR_ARG);
    ins[1].ndim = 1;
    void *const data = ins[0].data;
    if (failing) ins[0].data = NULL;
    CHECK_STATUS(pith_collective_run(ch, &call, NULL), PITH_ERR_ARG);
    ins[0].data = data;
    /* An element may be read again and again by a stride of 0, but not written so. */
    if (failing) ins[0].stride[0] = 0;
    CHECK_STATUS(pith_collective_run(ch, &call, NULL), PITH_OK);
    ins[0].stride[0] = 1;
    const bool several = failing && count > 200;
    const int64_t stride = outs[4].stride[1];
    if (several) outs[4].stride[1] = 0;
    CHECK_STATUS(pith_collective_run(ch, &call, NULL),
                 world_lowest(several ? 0 : 1) ? PITH_OK : PITH_ERR_ARG);
    outs[4].stride[1] = stride;
    CHECK_STATUS(pith_collective_run(ch, &call, NULL), PITH_OK);
    pith_collective_destroy(ch);
    free(dense);
    free(far);
    free(out);
    free(back);
}

/* ---- Nodes of the transport ------------------------------------------------------------------*/

/* Names the nodes by any numbers, which need not be next to each other. */
static void name_nodes(pith_transport *t) {
    static uint32_t node_of[64];
    for (uint32_t r = 0; r < t->ranks; r++) node_of[r] = 1000 - r / 2;
    t->node_of = node_of;
}

static void nodes(uint32_t kind) {
    pith_collective_options o = options(kind, 1003);
    pith_collective_place place = {.size = sizeof place}, wanted = {.size = sizeof wanted};
    pith_collective_channel *numbered, *named;
    if (sim_change) return; /* sim_change sets another transport */
    CHECK_STATUS(sim_create(&numbered, &o, NULL), PITH_OK);
    o.ranks_per_node = 0;
    sim_change = name_nodes;
    CHECK_STATUS(sim_create(&named, &o, NULL), PITH_OK);
    sim_change = NULL;
    CHECK_STATUS(pith_collective_get_place(numbered, &wanted), PITH_OK);
    CHECK_STATUS(pith_collective_get_place(named, &place), PITH_OK);
    CHECK(memcmp(&place, &wanted, sizeof place) == 0);
    float x[1003], y[1003] = {0}, z[1003] = {0};
    uint64_t first, count = 1003;
    if (kind == PITH_COLLECTIVE_REDUCE_SCATTER)
        CHECK_STATUS(pith_collective_shard(named, (uint32_t)world_rank, &first, &count), PITH_OK);
    sim_fill(x, PITH_F32, 1003, (uint32_t)world_rank, 1);
    const pith_view in = pith_view_flat(x, PITH_F32, 1003);
    const pith_view a = pith_view_flat(y, PITH_F32, count), b = pith_view_flat(z, PITH_F32, count);
    CHECK_STATUS(sim_reduce(numbered, &in, &a, 1, 1, NULL), PITH_OK);
    CHECK_STATUS(sim_reduce(named, &in, &b, 1, 1, NULL), PITH_OK);
    CHECK(memcmp(y, z, sizeof y) == 0);
    pith_collective_destroy(numbered);
    pith_collective_destroy(named);
}

/* ---- Several calls at once -------------------------------------------------------------------*/

enum { MANY = 4 };

/* Ranks test and work in different orders. */
static void in_flight(void) {
    pith_collective_channel *ch[MANY];
    pith_collective_request *request[MANY], *second;
    struct {
        pith_collective_report report;
        uint64_t more; /* a field that a newer caller has */
    } reports[MANY];
    pith_view in[MANY], out[MANY];
    const uint64_t n = 5000;
    float *memory = sim_take(MANY * n * 8), *first = sim_take(n * 4);
    for (int k = 0; k < MANY; k++) {
        const pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE, n);
        CHECK_STATUS(sim_create(&ch[k], &o, NULL), PITH_OK);
        sim_fill(memory + (uint64_t)k * n, PITH_F32, n, (uint32_t)world_rank, 1);
        in[k] = pith_view_flat(memory + (uint64_t)k * n, PITH_F32, n);
        out[k] = pith_view_flat(memory + (uint64_t)(MANY + k) * n, PITH_F32, n);
    }
    for (int k = 0; k < MANY; k++)
        CHECK_STATUS(sim_start(ch[k], &in[k], &out[k], 1.0f, 9, &request[k]), PITH_OK);
    CHECK_STATUS(sim_start(ch[0], &in[0], &out[0], 1.0f, 9, &second), PITH_ERR_BUSY);
    CHECK(second == NULL);
    int done[MANY] = {0};
    for (int round = 0; round < 3 * (world_rank + 1); round++) {
        const int k = (round + world_rank) % MANY;
        if (!done[k]) CHECK_STATUS(pith_collective_test(request[k], &done[k], NULL), PITH_OK);
        if (done[k]) request[k] = NULL;
    }
    second = request[0];
    request[0] = request[world_rank % MANY];
    if (world_rank % MANY) request[world_rank % MANY] = second;
    bool waited[MANY];
    for (int k = 0; k < MANY; k++) {
        waited[k] = request[k] != NULL;
        memset(&reports[k], 0x55, sizeof reports[k]);
        reports[k].report.size = sizeof reports[k];
    }
    CHECK_STATUS(pith_collective_wait_all(MANY, request, &reports[0].report), PITH_OK);
    for (int k = 0; k < MANY; k++) {
        CHECK(request[k] == NULL);
        CHECK(reports[k].report.size == sizeof reports[k]);
        CHECK(reports[k].more == (waited[k] ? 0 : UINT64_C(0x5555555555555555)));
        CHECK(!waited[k] || reports[k].report.failed_rank == -1);
        CHECK(!waited[k] || reports[k].report.total_seconds > 0);
    }
    memcpy(first, out[0].data, n * 4);
    for (int k = 0; k < MANY; k++) {
        CHECK(memcmp(first, out[k].data, n * 4) == 0);
        pith_collective_destroy(ch[k]);
    }
    free(memory);
    free(first);
}

/* ---- The same bits everywhere ----------------------------------------------------------------*/

static void same_on_all(void) {
    const pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE, 2222);
    pith_collective_channel *ch;
    float x[2222], y[2222], z[2222];
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    sim_fill(x, PITH_F32, o.count, (uint32_t)world_rank, 1);
    const pith_view in = pith_view_flat(x, PITH_F32, o.count);
    const pith_view out = pith_view_flat(y, PITH_F32, o.count);
    CHECK_STATUS(sim_reduce(ch, &in, &out, 0.5f, 1, NULL), PITH_OK);
    memcpy(z, y, sizeof z);
    world_spread(z, sizeof z);
    CHECK(memcmp(y, z, sizeof y) == 0);
    pith_collective_destroy(ch);
}

/* Checks what an older caller, or one that forgot the size, gets of a struct. */
static void structs(void) {
    const pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE, 100);
    pith_collective_channel *ch;
    float x[100] = {1}, y[100];
    const pith_view in = pith_view_flat(x, PITH_F32, 100), out = pith_view_flat(y, PITH_F32, 100);
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    pith_collective_report report = {.size = offsetof(pith_collective_report, levels),
                                     .levels = 77};
    CHECK_STATUS(sim_reduce(ch, &in, &out, 1.0f, 1, &report), PITH_OK);
    CHECK(report.failed_rank == -1 && report.compressed == 1 && report.levels == 77);
    report.size = 0;
    report.compressed = 55;
    CHECK_STATUS(sim_reduce(ch, &in, &out, 1.0f, 2, &report), PITH_OK);
    CHECK(report.compressed == 55);
    pith_collective_place place = {.size = offsetof(pith_collective_place, node), .node = 99};
    CHECK_STATUS(pith_collective_get_place(ch, &place), PITH_OK);
    CHECK(place.rank == (uint32_t)world_rank && place.ranks == (uint32_t)world_ranks);
    CHECK(place.node == 99);
    place.size = 0;
    CHECK_STATUS(pith_collective_get_place(ch, &place), PITH_ERR_ARG);
    CHECK_STATUS(pith_collective_get_place(ch, NULL), PITH_ERR_ARG);
    pith_collective_destroy(ch);
}

/* Checks that a scale of 0 stands for 1. */
static void no_scale(uint32_t kind) {
    const pith_collective_options o = options(kind, 700);
    pith_collective_channel *ch;
    float x[700], y[700], z[700];
    uint64_t first, count = 700;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    if (kind == PITH_COLLECTIVE_REDUCE_SCATTER)
        CHECK_STATUS(pith_collective_shard(ch, (uint32_t)world_rank, &first, &count), PITH_OK);
    sim_fill(x, PITH_F32, 700, (uint32_t)world_rank, 1);
    const pith_view in = pith_view_flat(x, PITH_F32, 700);
    const pith_view one = pith_view_flat(y, PITH_F32, count);
    const pith_view none = pith_view_flat(z, PITH_F32, count);
    CHECK_STATUS(sim_reduce(ch, &in, &one, 1.0f, 4, NULL), PITH_OK);
    CHECK_STATUS(sim_reduce(ch, &in, &none, 0.0f, 4, NULL), PITH_OK);
    CHECK(memcmp(y, z, count * sizeof *y) == 0);
    pith_collective_destroy(ch);
}

enum { LOST = 1300, LOST_STEPS = 3 };

static pith_collective_channel *with_feedback(uint32_t per_node, uint64_t slice) {
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE, LOST);
    pith_collective_channel *ch;
    o.spec = "grad:bits=4,ef=full";
    o.inter = "grad:bits=3,ef=full";
    o.gather = "grad:bits=4,ef=full";
    o.ranks_per_node = per_node;
    o.slice = slice;
    return CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK) ? ch : NULL;
}

/* Residuals of all hops and ranks, added up, are what the sums lack, and a channel of another cut
 * takes them up. */
static void residuals(void) {
    static float x[LOST], y[LOST], lacking[LOST], mine[LOST], again[LOST], all[LOST];
    const float scale = 1.0f / (float)world_ranks;
    pith_collective_channel *from = with_feedback(2, 200), *to = with_feedback(3, 90), *sum;
    pith_collective_options raw = options(PITH_COLLECTIVE_ALLREDUCE, LOST);
    raw.spec = "raw";
    raw.inter = NULL;
    if (!from || !to || !CHECK_STATUS(sim_create(&sum, &raw, NULL), PITH_OK)) return;
    const pith_view in = pith_view_flat(x, PITH_F32, LOST), out = pith_view_flat(y, PITH_F32, LOST);
    memset(lacking, 0, sizeof lacking);
    for (uint64_t step = 0; step < LOST_STEPS; step++) {
        sim_fill(x, PITH_F32, LOST, (uint32_t)world_rank, step);
        CHECK_STATUS(sim_reduce(from, &in, &out, scale, step, NULL), PITH_OK);
        for (int i = 0; i < LOST; i++) lacking[i] -= y[i] / scale;
        CHECK_STATUS(sim_reduce(sum, &in, &out, 1.0f, step, NULL), PITH_OK);
        for (int i = 0; i < LOST; i++) lacking[i] += y[i];
    }
    CHECK_STATUS(pith_collective_get_residual(from, 0, LOST, scale, mine), PITH_OK);
    const pith_view own = pith_view_flat(mine, PITH_F32, LOST),
                    total = pith_view_flat(all, PITH_F32, LOST);
    CHECK_STATUS(sim_reduce(sum, &own, &total, 1.0f, LOST_STEPS, NULL), PITH_OK);
    float largest = 0;
    for (int i = 0; i < LOST; i++) {
        CHECK(fabsf(all[i] - lacking[i]) <= 1e-3f * (float)world_ranks);
        if (fabsf(all[i]) > largest) largest = fabsf(all[i]);
    }
    CHECK(largest > 0.01f);
    /* Residuals are set in parts that cut shards; the rotation of the first hop is not that of the
     * others. */
    CHECK_STATUS(pith_collective_set_residual(to, 0, 701, mine), PITH_OK);
    CHECK_STATUS(pith_collective_set_residual(to, 701, LOST - 701, mine + 701), PITH_OK);
    CHECK_STATUS(pith_collective_get_residual(to, 1, LOST - 1, 1.0f, again + 1), PITH_OK);
    for (int i = 1; i < LOST; i++) CHECK(fabsf(again[i] - mine[i]) <= 1e-5f);
    /* A residual that is set replaces the residual of every hop. */
    memset(mine, 0, sizeof mine);
    CHECK_STATUS(pith_collective_set_residual(from, 0, LOST, mine), PITH_OK);
    CHECK_STATUS(pith_collective_get_residual(from, 0, LOST, scale, again), PITH_OK);
    CHECK(memcmp(mine, again, sizeof mine) == 0);
    CHECK_STATUS(pith_collective_get_residual(from, 0, LOST + 1, scale, mine), PITH_ERR_ARG);
    CHECK_STATUS(pith_collective_get_residual(from, 5, 1, NAN, mine), PITH_ERR_ARG);
    CHECK_STATUS(pith_collective_get_residual(from, 5, 1, 1.0f, NULL), PITH_ERR_ARG);
    CHECK_STATUS(pith_collective_get_residual(from, LOST, 0, 1.0f, NULL), PITH_OK);
    CHECK_STATUS(pith_collective_get_residual(sum, 0, LOST, 1.0f, mine), PITH_ERR_STATE);
    CHECK_STATUS(pith_collective_set_residual(sum, 0, LOST, mine), PITH_ERR_STATE);
    mine[7] = NAN;
    CHECK_STATUS(pith_collective_set_residual(from, 0, LOST, mine), PITH_ERR_ARG);
    pith_collective_destroy(from);
    pith_collective_destroy(to);
    pith_collective_destroy(sum);
}

static void break_even(void) {
    pith_collective_options o = options(PITH_COLLECTIVE_REDUCE_SCATTER, 2000);
    pith_collective_measure m = {.size = sizeof m};
    pith_collective_channel *ch;
    pith_collective_report report = {.size = sizeof report};
    pith_transport transport;
    const uint64_t counts[64] = {7}; /* ignored: no tensor that is tried has so many */
    o.slice = 0;
    o.counts = counts;
    CHECK_STATUS(world_transport(&transport), PITH_OK);
    CHECK_STATUS(pith_collective_break_even(&transport, &o, &m, NULL), PITH_OK);
    transport.release(transport.user, 0);
    o.counts = NULL;
    CHECK(m.elements == world_lowest(m.elements));
    CHECK(m.elements >= 1024 && m.plain_ns > 0 && m.packed_ns > 0 && m.codec_ns > 0);
    CHECK(world_ranks == 1 || m.link_bytes_per_s > 0);
    /* Structs of a newer caller have more fields, and those of an older one fewer. */
    struct {
        pith_collective_options options;
        uint64_t more;
    } wide = {{.size = sizeof wide,
               .kind = PITH_COLLECTIVE_ALLGATHER,
               .dtype = PITH_F64,
               .spec = "lossless:effort=1",
               .timeout = 60},
              0};
    CHECK_STATUS(world_transport(&transport), PITH_OK);
    CHECK_STATUS(pith_collective_break_even(&transport, &wide.options, &m, NULL), PITH_OK);
    CHECK(m.plain_ns > 0 && m.packed_ns > 0);
    wide.more = 1;
    CHECK_STATUS(pith_collective_break_even(&transport, &wide.options, &m, NULL),
                 PITH_ERR_UNSUPPORTED);
    wide.options.size = offsetof(pith_collective_options, pieces);
    wide.options.dtype = PITH_BF16; /* less to send and code */
    CHECK_STATUS(pith_collective_break_even(&transport, &wide.options, &m, NULL), PITH_OK);
    wide.options.size = 0;
    CHECK_STATUS(pith_collective_break_even(&transport, &wide.options, &m, NULL), PITH_ERR_ARG);
    transport.release(transport.user, 0);
    o.flags = PITH_COLLECTIVE_MEASURE_THRESHOLD;
    o.count = 64; /* below all that is tried */
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    float x[64] = {1}, y[64];
    const pith_view in = pith_view_flat(x, PITH_F32, 64);
    uint64_t first, count = 0;
    CHECK_STATUS(pith_collective_shard(ch, (uint32_t)world_rank, &first, &count), PITH_OK);
    const pith_view out = pith_view_flat(y, PITH_F32, count);
    CHECK_STATUS(sim_reduce(ch, &in, &out, 1.0f, 0, &report), PITH_OK);
    CHECK(!report.compressed && report.levels == 1);
    CHECK(world_rank || y[0] == (float)world_ranks);
    pith_collective_destroy(ch);
}

int main(int argc, char **argv) {
    world_begin(&argc, &argv);
    const uint32_t kinds[] = {PITH_COLLECTIVE_REDUCE_SCATTER, PITH_COLLECTIVE_ALLREDUCE};
    const char *const mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "exact")) sim_change = fault_exact;
    if (!strcmp(mode, "silent")) sim_change = fault_silent;
    if (!strcmp(mode, "break-even")) {
        break_even();
        return world_end("break-even", sim_failures());
    }
    for (int k = 0; k < 2; k++) {
        sizes_and_nodes(kinds[k]);
        dtypes_and_specs(kinds[k]);
        own_counts(kinds[k]);
        gradients(kinds[k]);
        exempt(kinds[k], 1);
        exempt(kinds[k], 2);
        exempt(kinds[k], 3);
        strided(kinds[k]);
        no_scale(kinds[k]);
        nodes(kinds[k]);
        lists(kinds[k], 2600);
        lists(kinds[k], 1001);
        lists(kinds[k], 30);
    }
    in_flight();
    same_on_all();
    structs();
    residuals();
    return world_end("sums", sim_failures());
}
