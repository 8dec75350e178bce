/* test_gather.c - all-gather with and without a base, and all-to-all.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "sim.h"

static bool same_on_all(const void *data, uint64_t bytes) {
    char *other = sim_take(bytes);
    memcpy(other, data, bytes);
    world_spread(other, bytes);
    const bool same = memcmp(other, data, bytes) == 0;
    free(other);
    return same;
}

static bool same_number(uint64_t x) { return same_on_all(&x, sizeof x); }

/* ---- Weights that move a little every step ---------------------------------------------------*/

static pith_collective_options weights(uint64_t count, uint32_t base_dtype) {
    return (pith_collective_options){.size = sizeof(pith_collective_options),
                                     .kind = PITH_COLLECTIVE_ALLGATHER,
                                     .dtype = PITH_F32,
                                     .base_dtype = base_dtype,
                                     .count = count,
                                     .spec = "wdiff:bits=4,group=64,block=128",
                                     .ranks_per_node = 2,
                                     .slice = 300,
                                     .timeout = 60};
}

static float weight(uint64_t i, uint64_t step) {
    return sim_value(0, i, 0, false) + 0.001f * (float)step * sim_value(1, i, step, false);
}

static void set_weights(float *x, uint64_t first, uint64_t count, uint64_t step) {
    for (uint64_t i = 0; i < count; i++) x[i] = weight(first + i, step);
}

struct replica {
    pith_collective_channel *ch;
    uint64_t first, count, total;
    float *shard, *whole, *base;
    pith_view in, out;
};

static void make(struct replica *r, const pith_collective_options *o) {
    *r = (struct replica){.total = o->count};
    CHECK_STATUS(sim_create(&r->ch, o, NULL), PITH_OK);
    CHECK_STATUS(pith_collective_shard(r->ch, (uint32_t)world_rank, &r->first, &r->count), PITH_OK);
    r->shard = sim_take(r->count * 4);
    r->whole = sim_take(o->count * 4);
    r->base = sim_take(o->count * 4);
    r->in = pith_view_flat(r->shard, PITH_F32, r->count);
    r->out = pith_view_flat(r->whole, PITH_F32, o->count);
}

static void unmake(struct replica *r) {
    pith_collective_destroy(r->ch);
    free(r->shard);
    free(r->whole);
    free(r->base);
}

static pith_status gather(struct replica *r, uint32_t flags, uint64_t step,
                          pith_collective_report *report) {
    set_weights(r->shard, r->first, r->count, step);
    return sim_gather(r->ch, &r->in, &r->out, flags, step, report);
}

/* Checks one rank's shard against its twin: encoder and decoder of one slot per slice, one after
 * the other. */
static void check_shard(struct replica *r, const pith_collective_options *o, uint64_t steps) {
    for (uint64_t at = 0; at < r->count; at += o->slice) {
        const uint64_t n = r->count - at < o->slice ? r->count - at : o->slice;
        const pith_layout layout = {.size = sizeof layout,
                                    .dtype = PITH_F32,
                                    .base_dtype = o->base_dtype,
                                    .ndim = 1,
                                    .flags = PITH_LAYOUT_CHECKSUMS,
                                    .shape = {n}};
        const pith_plan *plan;
        pith_stream *stream;
        pith_sizes sizes = {.size = sizeof sizes};
        size_t written;
        CHECK_STATUS(pith_plan_create(&plan, o->spec, &layout, NULL, NULL), PITH_OK);
        CHECK_STATUS(pith_plan_sizes(plan, &sizes), PITH_OK);
        void *memory = sim_take(sizes.stream_bytes);
        unsigned char *frame = sim_take(sizes.slot_bytes);
        float *x = sim_take(n * 4);
        CHECK_STATUS(pith_stream_init(plan, memory, sizes.stream_bytes, NULL, &stream, NULL),
                     PITH_OK);
        const pith_view view = pith_view_flat(x, PITH_F32, n);
        for (uint64_t step = 0; step < steps; step++) {
            set_weights(x, r->first + at, n, step);
            CHECK_STATUS(sim_encode(stream, &view, frame, sizes.slot_bytes, &written), PITH_OK);
        }
        CHECK_STATUS(pith_stream_get_base(sim_work(plan, NULL), stream, 0, &view), PITH_OK);
        CHECK(memcmp(x, r->whole + r->first + at, n * 4) == 0);
        pith_plan_destroy(plan);
        free(memory);
        free(frame);
        free(x);
    }
}

static void follow(uint64_t count, uint32_t base_dtype) {
    pith_collective_options o = weights(count, base_dtype);
    struct replica r;
    pith_collective_report report = {.size = sizeof report};
    if (count > 50000) { /* large slices and groups, as in earnest */
        o.spec = "wdiff";
        o.slice = 1 << 17;
    }
    make(&r, &o);
    for (uint64_t step = 0; step < 5; step++) {
        CHECK_STATUS(gather(&r, 0, step, &report), PITH_OK);
        CHECK(same_on_all(r.whole, count * 4));
        CHECK(same_number(pith_collective_base_hash(r.ch)));
        if (count > 50000 && world_ranks > 1) {
            const double bytes = (double)(report.sent_bytes[0] + report.sent_bytes[1]);
            const double values = (double)(report.sent_values[0] + report.sent_values[1]);
            CHECK(8 * bytes / values < 4.3);
        }
    }
    const pith_view base = pith_view_flat(r.base, PITH_F32, count);
    CHECK_STATUS(pith_collective_get_base(r.ch, &base), PITH_OK);
    CHECK(memcmp(r.base, r.whole, count * 4) == 0);
    CHECK_STATUS(pith_collective_verify_base(r.ch), PITH_OK);
    check_shard(&r, &o, 5);
    unmake(&r);
}

/* ---- A rank that comes late, and one that lost its base --------------------------------------*/

static void late(void) {
    const pith_collective_options o = weights(2600, PITH_BF16);
    struct replica r;
    make(&r, &o);
    for (uint64_t step = 0; step < 3; step++) CHECK_STATUS(gather(&r, 0, step, NULL), PITH_OK);
    if (world_rank == world_ranks - 1)
        CHECK_STATUS(pith_collective_reset(r.ch), PITH_OK); /* it starts anew */
    CHECK_STATUS(gather(&r, 0, 3, NULL), PITH_ERR_STEP);
    CHECK_STATUS(gather(&r, 0, 3, NULL), PITH_ERR_STATE);
    CHECK_STATUS(gather(&r, PITH_KEY_FRAME, 3, NULL), PITH_OK);
    CHECK(same_number(pith_collective_base_hash(r.ch)));
    for (uint64_t step = 4; step < 7; step++) {
        CHECK_STATUS(gather(&r, 0, step, NULL), PITH_OK);
        CHECK(same_on_all(r.whole, o.count * 4));
    }
    CHECK_STATUS(gather(&r, 0, 6, NULL), PITH_ERR_STEP);
    CHECK_STATUS(gather(&r, PITH_KEY_FRAME, 100, NULL), PITH_OK); /* key frames may go anywhere */
    CHECK_STATUS(gather(&r, 0, 101, NULL), PITH_OK);
    CHECK(same_number(pith_collective_base_hash(r.ch)));
    /* A checkpoint goes on like the original. */
    const uint64_t capacity = pith_collective_save_bytes(r.ch);
    size_t bytes = 0;
    unsigned char *saved = sim_take(capacity + 1);
    struct replica other;
    make(&other, &o);
    CHECK_STATUS(pith_collective_save(r.ch, saved, capacity, &bytes), PITH_OK);
    CHECK(bytes == capacity);
    CHECK_STATUS(pith_collective_load(other.ch, saved, bytes), PITH_OK);
    CHECK(pith_collective_base_hash(other.ch) == pith_collective_base_hash(r.ch));
    CHECK_STATUS(gather(&r, 0, 102, NULL), PITH_OK);
    CHECK_STATUS(gather(&other, 0, 102, NULL), PITH_OK);
    CHECK(memcmp(r.whole, other.whole, o.count * 4) == 0);
    /* What is refused changes nothing. */
    const uint64_t hash = pith_collective_base_hash(other.ch);
    for (size_t cut = 0; cut < bytes; cut += 1 + bytes / 7) {
        CHECK(pith_collective_load(other.ch, saved, cut) != PITH_OK);
        CHECK(pith_collective_last_error(other.ch)->text[0]);
    }
    saved[bytes] = 0;
    CHECK_STATUS(pith_collective_load(other.ch, saved, bytes + 1), PITH_ERR_CORRUPT);
    saved[0] ^= 1;
    CHECK_STATUS(pith_collective_load(other.ch, saved, bytes), PITH_ERR_MAGIC);
    CHECK(pith_collective_base_hash(other.ch) == hash);
    /* So is the state of rank 0 by others, whose shards have as many elements. */
    saved[0] ^= 1;
    unsigned char *of_first = sim_take(capacity);
    memcpy(of_first, saved, bytes);
    world_spread(of_first, bytes);
    CHECK_STATUS(pith_collective_load(other.ch, of_first, bytes),
                 world_rank ? PITH_ERR_MISMATCH : PITH_OK);
    CHECK(!world_rank || strstr(pith_collective_last_error(other.ch)->text, "saved 0"));
    free(of_first);
    free(saved);
    unmake(&other);
    unmake(&r);
}

/* ---- Live parameters as the base -------------------------------------------------------------*/

/* Every local call that fails says why, and not what an earlier one did. */
static void texts(void) {
    const pith_collective_options o = weights(26, PITH_F32);
    struct replica r;
    unsigned char small[8];
    size_t written;
    make(&r, &o);
    const pith_view wrong = pith_view_flat(r.base, PITH_F32, 25);
    const pith_view base = pith_view_flat(r.base, PITH_F32, 26);
    CHECK_STATUS(pith_collective_get_base(r.ch, &wrong), PITH_ERR_SHAPE);
    CHECK(strstr(pith_collective_last_error(r.ch)->text, "26"));
    CHECK_STATUS(pith_collective_rollback(r.ch, 0), PITH_ERR_STATE);
    CHECK(strstr(pith_collective_last_error(r.ch)->text, "taken back"));
    CHECK_STATUS(pith_collective_save(r.ch, small, sizeof small, &written), PITH_ERR_SPACE);
    CHECK(strstr(pith_collective_last_error(r.ch)->text, "8 given"));
    CHECK_STATUS(pith_collective_get_residual(r.ch, 0, 26, 1, r.whole), PITH_ERR_STATE);
    CHECK(strstr(pith_collective_last_error(r.ch)->text, "error feedback"));
    CHECK_STATUS(pith_collective_get_residual(r.ch, 20, 7, 1, r.whole), PITH_ERR_ARG);
    CHECK(strstr(pith_collective_last_error(r.ch)->text, "7 elements from 20"));
    CHECK_STATUS(pith_collective_get_base(r.ch, &base), PITH_OK);
    CHECK(!pith_collective_last_error(r.ch)->text[0]);
    unmake(&r);
}

static void external(void) {
    pith_collective_options o = weights(1700, PITH_BF16);
    uint16_t live[1700] = {0};
    struct replica r;
    o.flags = PITH_COLLECTIVE_EXTERNAL_BASE;
    make(&r, &o);
    CHECK_STATUS(gather(&r, 0, 0, NULL), PITH_ERR_STATE);
    CHECK_STATUS(pith_collective_bind_base(r.ch, live, 0), PITH_OK);
    for (uint64_t step = 0; step < 3; step++) {
        set_weights(r.shard, r.first, r.count, step);
        CHECK_STATUS(sim_gather(r.ch, &r.in, NULL, 0, step, NULL), PITH_OK);
        CHECK(same_on_all(live, sizeof live));
    }
    CHECK(live[1] != 0);
    CHECK_STATUS(pith_collective_load(r.ch, "no state of a channel, but more than its head", 45),
                 PITH_ERR_TRUNCATED);
    CHECK(live[1] != 0 && same_on_all(live, sizeof live));
    live[5] ^= 1;
    CHECK_STATUS(pith_collective_verify_base(r.ch), PITH_ERR_BASE);
    /* The rank that encodes these parameters finds it before it sends them, and all hear of it. */
    CHECK_STATUS(sim_gather(r.ch, &r.in, NULL, 0, 3, NULL), PITH_ERR_BASE);
    unmake(&r);
}

/* ---- Views, codecs of variable size ----------------------------------------------------------*/

/* A shard in two dimensions with gaps, given alone and within the whole tensor. */
static void shapes(void) {
    const uint64_t ranks = (uint64_t)world_ranks, total = ranks * 24 * 20;
    pith_collective_options o = weights(total, PITH_NONE);
    pith_collective_channel *ch;
    o.spec = "lossless";
    o.slice = 100;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    float *shard = sim_take(24 * 64 * 4), *whole = sim_take(total * 4), *back = sim_take(total * 8);
    for (uint64_t i = 0; i < total; i++) whole[i] = weight(i, 1);
    for (uint64_t i = 0; i < 24; i++)
        for (uint64_t j = 0; j < 20; j++)
            shard[i * 64 + 3 * j] = whole[(uint64_t)world_rank * 480 + i * 20 + j];
    const pith_view part = {
        .data = shard, .dtype = PITH_F32, .ndim = 2, .shape = {24, 20}, .stride = {64, 3}};
    pith_view out = pith_view_flat(back, PITH_F32, total);
    out.stride[0] = 2;
    CHECK_STATUS(sim_gather(ch, &part, &out, 0, 1, NULL), PITH_OK);
    for (uint64_t i = 0; i < total; i++)
        if (!CHECK(back[2 * i] == whole[i])) break;
    memset(back, 0, total * 8);
    const pith_view all = pith_view_flat(whole, PITH_F32, total);
    CHECK_STATUS(sim_gather(ch, &all, &out, 0, 1, NULL), PITH_OK);
    for (uint64_t i = 0; i < total; i++)
        if (!CHECK(back[2 * i] == whole[i])) break;
    pith_collective_destroy(ch);
    free(shard);
    free(whole);
    free(back);
}

/* ---- Lists of tensors ------------------------------------------------------------------------*/

enum { PIECES = 4 };

/* A dense tensor as a list: one is empty, one of a single element, and the last is in two
 * dimensions where its count is even. */
static void cut_up(float *x, uint64_t count, pith_view views[PIECES]) {
    const uint64_t first = count / 3, rest = count - first - (count > first);
    views[0] = pith_view_flat(x, PITH_F32, first);
    views[1] = pith_view_flat(x, PITH_F32, 0);
    views[2] = pith_view_flat(x + first, PITH_F32, count > first);
    views[3] = pith_view_dense(x + count - rest, PITH_F32, 2,
                               (uint64_t[]){rest % 2 ? 1 : 2, rest % 2 ? rest : rest / 2});
}

/* A bucket of weights gives what one tensor of its elements does: given as this rank's shard or
 * whole, with a base and without. */
static void lists(const char *spec, uint32_t base_dtype) {
    pith_collective_options o = weights(3001, base_dtype);
    struct replica one, bucket;
    pith_view in[PIECES], out[PIECES];
    o.spec = spec;
    make(&one, &o);
    make(&bucket, &o);
    float *whole = sim_take(o.count * 4);
    for (uint64_t step = 0; step < 4; step++) {
        CHECK_STATUS(gather(&one, 0, step, NULL), PITH_OK);
        set_weights(whole, 0, o.count, step);
        const bool all = step % 2;
        cut_up(all ? whole : whole + bucket.first, all ? o.count : bucket.count, in);
        cut_up(bucket.whole, o.count, out);
        const pith_collective_call call = {.size = sizeof call,
                                           .inputs = in,
                                           .outputs = out,
                                           .input_count = PIECES,
                                           .output_count = PIECES,
                                           .step = step};
        CHECK_STATUS(pith_collective_run(bucket.ch, &call, NULL), PITH_OK);
        CHECK(memcmp(one.whole, bucket.whole, o.count * 4) == 0);
    }
    CHECK(pith_collective_base_hash(one.ch) == pith_collective_base_hash(bucket.ch));
    free(whole);
    unmake(&one);
    unmake(&bucket);
}

/* ---- The way of frames -----------------------------------------------------------------------*/

static uint32_t node_of[64];
static void (*other_change)(pith_transport *transport);
static int (*inner_isend)(void *user, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                          uint64_t *request);
static uint64_t messages[2], bytes_sent[2]; /* inside the node, and across */

static int count_isend(void *user, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                       uint64_t *request) {
    const int across = node_of[peer] != node_of[world_rank];
    messages[across] += tag != FAULT_VOTES;
    bytes_sent[across] += tag != FAULT_VOTES ? bytes : 0;
    return inner_isend(user, peer, tag, data, bytes, request);
}

/* Gives a transport nodes, and counts what it is given to send. */
static void count_sends(pith_transport *t) {
    if (other_change) other_change(t);
    inner_isend = t->isend;
    t->isend = count_isend;
    t->node_of = node_of;
}

static uint32_t local_of(int rank) {
    uint32_t local = 0;
    for (int r = 0; r < rank; r++) local += node_of[r] == node_of[rank];
    return local;
}

/* Makes a channel on these nodes for shards of which one is empty. */
static void make_on_nodes(struct replica *r, pith_collective_options *o, uint64_t counts[64]) {
    o->count = 0;
    for (int k = 0; k < world_ranks; k++)
        o->count += counts[k] = k % 4 == 2 ? 0 : 500 + 10 * (uint64_t)k;
    o->counts = counts;
    o->ranks_per_node = 0;
    other_change = sim_change;
    sim_change = count_sends;
    make(r, o);
    sim_change = other_change;
    if (o->kind != PITH_COLLECTIVE_ALLREDUCE) return;
    free(r->shard);
    r->first = 0;
    r->count = o->count;
    r->shard = sim_take(o->count * 4);
    r->in = pith_view_flat(r->shard, PITH_F32, o->count);
}

/* A frame crosses to each other node once. Beside it a rank sends it to the others of its node, and
 * so it does with those from other nodes whose counterpart it is. The report has it all. */
static void crosses_once(pith_collective_options o) {
    pith_collective_report report = {.size = sizeof report};
    pith_collective_place place = {.size = sizeof place};
    uint64_t counts[64], values[2] = {0, 0};
    struct replica r;
    make_on_nodes(&r, &o, counts);
    CHECK_STATUS(pith_collective_get_place(r.ch, &place), PITH_OK);
    const uint64_t others = place.locals - 1;
    values[1] = counts[world_rank] * (place.nodes - 1);
    for (int k = 0; k < world_ranks; k++) {
        const bool here = node_of[k] == node_of[world_rank];
        if (k == world_rank || (!here && local_of(k) % place.locals == place.local))
            values[0] += counts[k] * others;
        if (o.kind == PITH_COLLECTIVE_ALLREDUCE && k != world_rank) values[!here] += counts[k];
    }
    for (uint64_t step = 0; step < 2; step++) {
        memset(messages, 0, sizeof messages);
        memset(bytes_sent, 0, sizeof bytes_sent);
        CHECK_STATUS(gather(&r, 0, step, &report), PITH_OK);
        CHECK(memcmp(report.sent_values, values, sizeof values) == 0);
        CHECK(memcmp(report.sent_messages, messages, sizeof messages) == 0);
        CHECK(memcmp(report.sent_bytes, bytes_sent, sizeof bytes_sent) == 0);
        CHECK(same_on_all(r.whole, o.count * 4));
    }
    unmake(&r);
}

/* What is forwarded gives the values, counters and states of frames that are not. */
static void as_if_direct(pith_collective_options o) {
    struct replica direct, forwarded;
    uint64_t counts[64];
    uint32_t nodes[64];
    memcpy(nodes, node_of, sizeof nodes);
    make_on_nodes(&forwarded, &o, counts);
    memset(node_of, 0, sizeof node_of);
    make_on_nodes(&direct, &o, counts);
    memcpy(node_of, nodes, sizeof nodes);
    for (uint64_t step = 0; step < 3; step++) {
        CHECK_STATUS(gather(&direct, 0, step, NULL), PITH_OK);
        CHECK_STATUS(gather(&forwarded, 0, step, NULL), PITH_OK);
        CHECK(memcmp(direct.whole, forwarded.whole, o.count * 4) == 0);
    }
    for (uint32_t hop = 0; hop < 3; hop++) {
        pith_stats a = {.size = sizeof a}, b = {.size = sizeof b};
        CHECK_STATUS(pith_collective_stats(direct.ch, hop, &a), PITH_OK);
        CHECK_STATUS(pith_collective_stats(forwarded.ch, hop, &b), PITH_OK);
        CHECK(memcmp(&a, &b, sizeof a) == 0);
    }
    const uint64_t capacity = pith_collective_save_bytes(direct.ch);
    unsigned char *a = sim_take(capacity), *b = sim_take(capacity);
    size_t saved[2] = {0, 0};
    CHECK(pith_collective_save_bytes(forwarded.ch) == capacity);
    CHECK_STATUS(pith_collective_save(direct.ch, a, capacity, &saved[0]), PITH_OK);
    CHECK_STATUS(pith_collective_save(forwarded.ch, b, capacity, &saved[1]), PITH_OK);
    CHECK(saved[0] == saved[1] && memcmp(a, b, saved[0]) == 0);
    CHECK_STATUS(pith_collective_load(forwarded.ch, a, saved[0]), PITH_OK);
    CHECK_STATUS(gather(&direct, 0, 3, NULL), PITH_OK);
    CHECK_STATUS(gather(&forwarded, 0, 3, NULL), PITH_OK);
    CHECK(memcmp(direct.whole, forwarded.whole, o.count * 4) == 0);
    free(a);
    free(b);
    unmake(&direct);
    unmake(&forwarded);
}

/* Nodes of two and of three ranks, of one each, and of different sizes between each other; weights
 * and what a sum gives. */
static void ways(void) {
    for (uint32_t k = 0; k < 5; k++)
        for (int kind = 0; kind < 3; kind++) {
            pith_collective_options o = weights(0, kind ? PITH_NONE : PITH_BF16);
            if (kind == 1) o.spec = "lossless";
            if (kind == 2) {
                o.kind = PITH_COLLECTIVE_ALLREDUCE;
                o.spec = "grad:bits=8,group=32,round=stochastic,ef=full";
            }
            for (uint32_t r = 0; r < 64; r++)
                node_of[r] = k < 3 ? r / (k + 1) : k == 3 ? r * r % 3 : 7 - (r > 0);
            crosses_once(o);
            as_if_direct(o);
        }
}

/* ---- All-to-all ------------------------------------------------------------------------------*/

static uint64_t between(int from, int to) {
    return (from + to) % 3 == 0 ? 0 : (uint64_t)(100 * from + 7 * to + 1);
}

static float part_value(int from, int to, uint64_t i) {
    return sim_value((uint32_t)(from * 64 + to), i / 5, 3, false);
}

static void exchange(const char *spec, bool exact) {
    uint64_t send[64], recv[64], sent = 0, got = 0;
    for (int r = 0; r < world_ranks; r++) {
        sent += send[r] = between(world_rank, r);
        got += recv[r] = between(r, world_rank);
    }
    const pith_collective_options o = {.size = sizeof o,
                                       .kind = PITH_COLLECTIVE_ALLTOALLV,
                                       .dtype = PITH_F32,
                                       .send_counts = send,
                                       .recv_counts = recv,
                                       .spec = spec,
                                       .slice = 128,
                                       .timeout = 60};
    pith_collective_channel *ch;
    if (!CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK)) return;
    float *in = sim_take(sent * 4), *out = sim_take(got * 4);
    uint64_t at = 0;
    for (int r = 0; r < world_ranks; r++)
        for (uint64_t i = 0; i < send[r]; i++) in[at++] = part_value(world_rank, r, i);
    const pith_view from = pith_view_flat(in, PITH_F32, sent),
                    to = pith_view_flat(out, PITH_F32, got);
    for (uint64_t step = 0; step < 2; step++)
        CHECK_STATUS(sim_exchange(ch, &from, &to, step, NULL), PITH_OK);
    pith_view ins[PIECES], outs[PIECES];
    float *again = sim_take(got * 4);
    cut_up(in, sent, ins);
    cut_up(again, got, outs);
    const pith_collective_call call = {.size = sizeof call,
                                       .inputs = ins,
                                       .outputs = outs,
                                       .input_count = PIECES,
                                       .output_count = PIECES,
                                       .step = 1};
    CHECK_STATUS(pith_collective_run(ch, &call, NULL), PITH_OK);
    CHECK(memcmp(out, again, got * 4) == 0);
    free(again);
    at = 0;
    for (int r = 0; r < world_ranks; r++)
        for (uint64_t i = 0; i < recv[r]; i++, at++) {
            const float wanted = part_value(r, world_rank, i), off = out[at] - wanted;
            if (!CHECK(exact ? off == 0 : off < 0.1f && off > -0.1f)) return;
        }
    pith_collective_destroy(ch);
    free(in);
    free(out);
}

/* A rank has the slices of its own parts: it once made tables for those of the longest of any rank,
 * and any rank may say how long that is. */
static void own_slices(bool lie) {
    enum { LONG = 3000, MOST = 20 }; /* MOST: where a vote has the upper half of the longest */
    uint64_t send[64], recv[64], got = 0, sent = 0;
    for (int r = 0; r < world_ranks; r++) {
        sent += send[r] = world_rank == 0 && r == 0 ? LONG : 1;
        got += recv[r] = world_rank == 0 && r == 0 ? LONG : 1;
    }
    const pith_collective_options o = {.size = sizeof o,
                                       .kind = PITH_COLLECTIVE_ALLTOALLV,
                                       .dtype = PITH_F32,
                                       .send_counts = send,
                                       .recv_counts = recv,
                                       .spec = "raw",
                                       .slice = 1,
                                       .timeout = 60};
    void (*const usual)(pith_transport *) = sim_change;
    pith_collective_report report = {.size = sizeof report};
    pith_collective_channel *ch;
    int rounds = 0;
    while (1 << rounds < world_ranks) rounds++;
    if (lie) sim_change = fault_wrap;
    fault_damage = (struct fault_damage){.on = lie && world_rank == world_ranks - 1,
                                         .tag = FAULT_VOTES,
                                         .byte = MOST,
                                         .count = 5 * rounds + world_ranks - 1,
                                         .status = INT32_MAX};
    const pith_status status = sim_create(&ch, &o, NULL);
    sim_change = usual;
    CHECK(!fault_damage.on || fault_damage.count == -1);
    fault_damage.on = false;
    if (!CHECK_STATUS(status, PITH_OK)) return;
    float *const in = sim_take(sent * 4), *const out = sim_take(got * 4);
    for (uint64_t i = 0; i < sent; i++) in[i] = part_value(world_rank, 0, i);
    const pith_view from = pith_view_flat(in, PITH_F32, sent),
                    to = pith_view_flat(out, PITH_F32, got);
    CHECK_STATUS(sim_exchange(ch, &from, &to, 0, &report), PITH_OK);
    CHECK(report.slices == (world_rank ? 1 : LONG));
    for (int r = 0; r < world_ranks && !world_rank; r++)
        CHECK(out[r ? LONG + r - 1 : 0] == part_value(r, 0, 0));
    pith_collective_destroy(ch);
    free(in);
    free(out);
}

/* Encodes by itself what one rank sends another, with the random bits that the header promises, and
 * decodes it. */
static void alone(const char *spec, uint32_t rng_stream, uint64_t step, const float *in, float *out,
                  uint64_t count) {
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 1, .shape = {count}};
    const pith_stream_options random = {.size = sizeof random, .seed = 9, .rng_stream = rng_stream};
    pith_sizes sizes = {.size = sizeof sizes};
    const pith_plan *plan;
    pith_stream *stream;
    CHECK_STATUS(pith_plan_create(&plan, spec, &layout, NULL, NULL), PITH_OK);
    CHECK_STATUS(pith_plan_sizes(plan, &sizes), PITH_OK);
    void *const memory = sim_take(sizes.stream_bytes), *const frame = sim_take(sizes.slot_bytes);
    CHECK_STATUS(pith_stream_init(plan, memory, (size_t)sizes.stream_bytes, &random, &stream, NULL),
                 PITH_OK);
    CHECK_STATUS(pith_stream_set_step(sim_work(plan, NULL), stream, 0, step), PITH_OK);
    const pith_view from = pith_view_flat(in, PITH_F32, count),
                    to = pith_view_flat(out, PITH_F32, count);
    size_t length;
    CHECK_STATUS(sim_encode(stream, &from, frame, (size_t)sizes.slot_bytes, &length), PITH_OK);
    CHECK_STATUS(pith_decompress(frame, length, NULL, NULL, &to, NULL), PITH_OK);
    pith_plan_destroy(plan);
    free(memory);
    free(frame);
}

static void drawn(void) {
    enum { COUNT = 100, STREAM = 5, STEP = 3 };
    const char *const spec = "wdiff:bits=2,group=32,block=64,round=stochastic";
    uint64_t counts[64];
    for (int r = 0; r < world_ranks; r++) counts[r] = COUNT;
    const pith_collective_options o = {.size = sizeof o,
                                       .kind = PITH_COLLECTIVE_ALLTOALLV,
                                       .dtype = PITH_F32,
                                       .send_counts = counts,
                                       .recv_counts = counts,
                                       .spec = spec,
                                       .rng_stream = STREAM,
                                       .seed = 9,
                                       .slice = 128,
                                       .timeout = 60};
    pith_collective_channel *ch;
    if (!CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK)) return;
    const uint64_t all = (uint64_t)world_ranks * COUNT;
    float *in = sim_take(all * 4), *out = sim_take(all * 4), wanted[COUNT], part[COUNT];
    for (int r = 0; r < world_ranks; r++)
        for (uint64_t i = 0; i < COUNT; i++)
            in[(uint64_t)r * COUNT + i] = part_value(world_rank, r, i);
    const pith_view from = pith_view_flat(in, PITH_F32, all),
                    to = pith_view_flat(out, PITH_F32, all);
    CHECK_STATUS(sim_exchange(ch, &from, &to, STEP, NULL), PITH_OK);
    for (int r = 0; r < world_ranks; r++) {
        for (uint64_t i = 0; i < COUNT; i++) part[i] = part_value(r, world_rank, i);
        alone(spec, STREAM + (uint32_t)r, STEP, part, wanted, COUNT);
        CHECK(memcmp(out + (uint64_t)r * COUNT, wanted, sizeof wanted) == 0);
    }
    pith_collective_destroy(ch);
    free(in);
    free(out);
}

static void mismatched_counts(void) {
    uint64_t send[64] = {0}, recv[64] = {0};
    for (int r = 0; r < world_ranks; r++) send[r] = recv[r] = 9;
    if (world_rank == 0) recv[0] = 10;
    const pith_collective_options o = {.size = sizeof o,
                                       .kind = PITH_COLLECTIVE_ALLTOALLV,
                                       .dtype = PITH_F32,
                                       .send_counts = send,
                                       .recv_counts = recv,
                                       .spec = "raw",
                                       .timeout = 60};
    pith_collective_channel *ch;
    pith_error error = {.size = sizeof error};
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_SHAPE);
    CHECK(ch == NULL && (world_rank > 0 || error.text[0] != 0));
}

int main(int argc, char **argv) {
    world_begin(&argc, &argv);
    if (argc > 1) sim_change = strcmp(argv[1], "exact") ? fault_silent : fault_exact;
    follow(0, PITH_F32);
    follow(1, PITH_F32);
    follow((uint64_t)world_ranks + 1, PITH_BF16);
    follow(5000, PITH_F32);
    follow(5001, PITH_BF16);
    follow(100000, PITH_BF16);
    follow(997, PITH_F16);
    late();
    external();
    texts();
    shapes();
    lists("wdiff:bits=4,group=64,block=128", PITH_F32);
    lists("wdiff:bits=4,group=64,block=128", PITH_BF16);
    lists("wdiff:bits=8,group=32,block=64,round=stochastic", PITH_NONE);
    lists("lossless", PITH_NONE);
    ways();
    exchange("raw", true);
    exchange("lossless:effort=1", true);
    exchange("wdiff:bits=8,group=32,block=64", false);
    exchange("wdiff:bits=8,group=32,block=64,entropy=zstd", false);
    drawn();
    own_slices(false);
    if (argc < 2 && world_ranks > 1) own_slices(true);
    mismatched_counts();
    return world_end("gathers", sim_failures());
}
