/* test_timeout.c - a rank that does not come, freezes, dies or loses its transport does not hang
 * the others: not in a call, nor while the channel is made.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: test_timeout late|freeze|pending|fails|votes|strangers|stray|absent|measuring|die
 *                     [forwarding]
 * forwarding: what befalls the last rank when it sends does so when it forwards. die: the survivors
 * print one line each and leave at once, since MPI_Finalize would wait. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"
#include "sim.h"

enum { N = 6000 };
static const double limit = 1.0;
static float in_data[N], out_data[N];

/* Blocks of the channel's memory, and their bytes. */
static void *blocks[1000];
static size_t live;

static void *take(void *user, size_t bytes, size_t align) {
    size_t i = 0;
    (void)user;
    while (i < 1000 && blocks[i]) i++;
    if (i == 1000) return NULL;
    live += bytes;
    return blocks[i] = aligned_alloc(align, (bytes + align - 1) / align * align);
}
static void give(void *user, void *memory, size_t bytes) {
    (void)user;
    live -= bytes;
    for (size_t i = 0; i < 1000; i++)
        if (blocks[i] == memory) blocks[i] = NULL;
    free(memory);
}
static void give_all(void) {
    for (size_t i = 0; i < 1000; i++) free(blocks[i]);
}

static const pith_env env = {.size = sizeof env, .alloc = take, .release = give};

static pith_collective_options options(void) {
    return (pith_collective_options){.size = sizeof(pith_collective_options),
                                     .env = &env,
                                     .kind = PITH_COLLECTIVE_ALLREDUCE,
                                     .dtype = PITH_F32,
                                     .count = N,
                                     .spec = "grad:preset=intra",
                                     .inter = "grad:preset=inter",
                                     .ranks_per_node = 2,
                                     .slice = 256,
                                     .timeout = limit};
}

static bool is_last(void) { return world_rank == world_ranks - 1; }

static void pause_for(double seconds) {
    const double end = sim_now() + seconds;
    const struct timespec nap = {0, 10000000};
    while (sim_now() < end) nanosleep(&nap, NULL);
}

static pith_status sum(pith_collective_channel *ch, uint64_t step, pith_collective_report *report) {
    const pith_view in = pith_view_flat(in_data, PITH_F32, N);
    const pith_view out = pith_view_flat(out_data, PITH_F32, N);
    return sim_reduce(ch, &in, &out, 1.0f, step, report);
}

static void expect_broken(pith_collective_channel *ch) {
    const double begin = sim_now();
    CHECK_STATUS(sum(ch, 9, NULL), PITH_ERR_BROKEN);
    CHECK(sim_now() - begin < 0.9 * limit);
}

/* Expects that the call ends with a timeout, in time, and the next one at once. */
static void expect_timeout(pith_collective_channel *ch) {
    pith_collective_report report = {.size = sizeof report};
    const double begin = sim_now();
    CHECK_STATUS(sum(ch, 2, &report), PITH_ERR_TIMEOUT);
    const double took = sim_now() - begin;
    CHECK(took > 0.9 * limit && took < limit + 3.0);
    CHECK(report.failed_rank == -1 && report.status == PITH_ERR_TIMEOUT);
    CHECK(pith_collective_last_error(ch)->text[0]);
    CHECK(report.wait_seconds > 0.3 * limit && report.wait_seconds < took);
    expect_broken(ch);
}

/* Expects that a transport which sees a rank go fails sooner than the timeout. */
static void expect_gone(pith_collective_channel *ch) {
    const double begin = sim_now();
    const pith_status status = sum(ch, 2, NULL);
    CHECK(status == PITH_ERR_TIMEOUT || status == PITH_ERR_TRANSPORT);
    CHECK(sim_now() - begin < limit + 3.0);
    CHECK(pith_collective_last_error(ch)->text[0]);
    expect_broken(ch);
}

static void late(pith_collective_channel *ch) {
    if (is_last()) {
        pause_for(limit + 1.0);
        CHECK_STATUS(sum(ch, 2, NULL), PITH_ERR_TIMEOUT);
    } else {
        expect_timeout(ch);
    }
}

static void stop(void) { raise(SIGSTOP); }

/* Stops a rank in the middle of a call, and wakes it when the others have given up. */
static void freeze(pith_collective_channel *ch) {
    const pid_t pid = (pid_t)world_lowest(is_last() ? (uint64_t)getpid() : UINT64_MAX);
    if (is_last()) {
        fault_at_send = stop;
        fault_sends_left = 2;
        CHECK_STATUS(sum(ch, 2, NULL), PITH_ERR_TIMEOUT);
        return;
    }
    expect_timeout(ch);
    if (world_rank == 0) {
        pause_for(0.5);
        kill(pid, SIGCONT);
    }
}

/* Checks that what the transport still sends stays where it is when the channel goes. */
static void leave_pending(pith_collective_channel *ch) {
    const size_t before = live;
    fault_pending = true;
    expect_timeout(ch);
    CHECK(fault_pending_sends > 0);
    world_barrier();
    pith_collective_destroy(ch);
    CHECK(live > 0 && live < before); /* the plans are gone */
    fault_pending = false;
}

/* Lets one rank's transport fail: that rank hears of it at once, the others in time. */
static void fails(pith_collective_channel *ch) {
    if (!is_last()) {
        expect_gone(ch);
        return;
    }
    fault_tests_left = 3;
    CHECK_STATUS(sum(ch, 2, NULL), PITH_ERR_TRANSPORT);
    fault_tests_left = -1;
    expect_broken(ch);
}

/* Damages the messages that agree on the status: a rank that got a damaged one is broken, and the
 * others are in this call or the next. No wrong value is called right. */
static void damage_votes(pith_collective_channel *ch, struct fault_damage damage) {
    fault_damage = damage;
    const double begin = sim_now();
    const pith_status first = sum(ch, 2, NULL), second = sum(ch, 3, NULL);
    CHECK(first == PITH_OK || first == PITH_ERR_TRANSPORT);
    CHECK(world_lowest(first ? 0 : 1) == 0);
    CHECK(first ? second == PITH_ERR_BROKEN
                : second == PITH_ERR_TIMEOUT || second == PITH_ERR_TRANSPORT);
    CHECK(sim_now() - begin < limit + 3.0);
    fault_damage.on = false;
}

static void votes(pith_collective_channel *ch) {
    damage_votes(ch, (struct fault_damage){world_rank == 0, FAULT_VOTES, 20, 0, 0, 0});
}

/* Lets votes that are whole name a rank that there is not as the one that failed. */
static void strangers(pith_collective_channel *ch) {
    damage_votes(ch, (struct fault_damage){world_rank == 0, FAULT_VOTES, 28, 0, 0, 1 << 20});
}

/* Lets votes go to each other's rank: the channel is broken there, as by damage. */
static void stray(pith_collective_channel *ch) {
    fault_astray = (struct fault_astray){world_rank == 0, FAULT_VOTES, {1, 2}, 0};
    const pith_status first = sum(ch, 2, NULL);
    CHECK(first == PITH_OK || first == PITH_ERR_TRANSPORT || first == PITH_ERR_TIMEOUT);
    CHECK(first || (world_rank != 1 && world_rank != 2));
    fault_astray.on = false;
}

/* One rank makes its channel when the others have given up. */
static void absent(void) {
    const pith_collective_options o = options();
    pith_collective_channel *ch;
    pith_transport transport;
    CHECK_STATUS(world_transport(&transport), PITH_OK);
    if (is_last()) pause_for(limit + 1.0);
    const double begin = sim_now();
    pith_error error = {.size = sizeof error};
    const pith_status status = pith_collective_create(&ch, &transport, &o, &error);
    CHECK(error.text[0]);
    CHECK(status == PITH_ERR_TIMEOUT || status == PITH_ERR_TRANSPORT);
    CHECK(ch == NULL && live == 0);
    CHECK(sim_now() - begin < limit + 3.0);
}

/* A transport that failed while the channel was made is not asked for messages any more. */
static int (*inner_isend)(void *user, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                          uint64_t *request);
static int late_sends;
static int count_isend(void *user, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                       uint64_t *request) {
    late_sends += fault_tests_left < 0;
    return inner_isend(user, peer, tag, data, bytes, request);
}

static void failed_exchange(void) {
    const uint64_t counts[64] = {0};
    const pith_collective_options o = {.size = sizeof o,
                                       .kind = PITH_COLLECTIVE_ALLTOALLV,
                                       .dtype = PITH_F32,
                                       .send_counts = counts,
                                       .recv_counts = counts,
                                       .spec = "raw",
                                       .timeout = limit};
    for (int tests = 1; tests < 60; tests++) {
        pith_collective_channel *ch;
        pith_transport transport;
        CHECK_STATUS(world_transport(&transport), PITH_OK);
        fault_wrap(&transport);
        inner_isend = transport.isend;
        transport.isend = count_isend;
        fault_tests_left = tests;
        const pith_status status = pith_collective_create(&ch, &transport, &o, NULL);
        if (!status) pith_collective_destroy(ch);
        fault_tests_left = -1;
    }
    CHECK(late_sends == 0);
}

static void leave(void) { _exit(0); }

/* One rank dies while the others measure the threshold, on a channel within the one that is made:
 * what they say to the transport at the end is that they broke. */
static void (*inner_release)(void *user, int broken);
static int releases, broken_releases;
static void count_release(void *user, int broken) {
    releases++;
    broken_releases += broken;
    inner_release(user, broken);
}

static void measuring(void) {
    pith_collective_options o = options();
    pith_collective_channel *ch;
    pith_transport transport;
    o.flags = PITH_COLLECTIVE_MEASURE_THRESHOLD;
    CHECK_STATUS(world_transport(&transport), PITH_OK);
    fault_wrap(&transport);
    inner_release = transport.release;
    transport.release = count_release;
    if (is_last()) {
        fault_at_send = leave;
        fault_sends_left = 100;
    }
    const pith_status status = pith_collective_create(&ch, &transport, &o, NULL);
    CHECK(status == PITH_ERR_TIMEOUT || status == PITH_ERR_TRANSPORT);
    CHECK(ch == NULL && live == 0 && releases == 1 && broken_releases == 1);
    pause_for(1.0); /* mpirun ends the job with the first that leaves */
    _exit(sim_failures() != 0);
}

static void die(pith_collective_channel *ch) {
    if (is_last()) {
        fault_at_send = leave;
        fault_sends_left = 2;
        CHECK_STATUS(sum(ch, 2, NULL), PITH_OK);
        _exit(1); /* it should have died in the call */
    }
    expect_gone(ch);
    pith_collective_destroy(ch);
    if (!sim_failures()) printf("survivor %d of %d\n", world_rank, world_ranks);
    fflush(stdout);
    pause_for(1.0); /* mpirun ends the job with the first that leaves */
    _exit(sim_failures() != 0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(pith_collective_channel *ch);
    } modes[] = {{"late", late},   {"freeze", freeze}, {"pending", leave_pending},
                 {"fails", fails}, {"votes", votes},   {"strangers", strangers},
                 {"stray", stray}, {"die", die}};
    world_begin(&argc, &argv);
    sim_change = fault_wrap;
    const char *const mode = argc > 1 ? argv[1] : "";
    if (argc > 2 && !strcmp(argv[2], "forwarding")) fault_send_tag = FAULT_FORWARDED;
    if (!strcmp(mode, "absent")) {
        absent();
        world_barrier();
        failed_exchange();
        world_barrier();
        return world_end("timeouts", sim_failures());
    }
    if (!strcmp(mode, "measuring")) measuring();
    const pith_collective_options o = options();
    pith_collective_channel *ch;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    size_t k = 0;
    while (k < sizeof modes / sizeof *modes && strcmp(mode, modes[k].name) != 0) k++;
    if (k < sizeof modes / sizeof *modes)
        modes[k].run(ch);
    else
        CHECK_STATUS(PITH_ERR_ARG, PITH_OK); /* no such mode */
    world_barrier();                         /* the world is as it was */
    if (strcmp(mode, "pending") != 0) pith_collective_destroy(ch);
    fault_end();
    give_all();
    return world_end("timeouts", sim_failures());
}
