/* test_mpi_timeout.c - a rank that does not come, freezes or dies does not hang the others.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: test_mpi_timeout late|freeze|die|pending
 * die: the survivors print one line each and leave without MPI_Finalize, which would wait. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

enum { N = 6000 };
static const double limit = 1.0;
static float in_data[N], out_data[N];
static int sends_left = -1; /* of this rank, before it stops */
static int last_signal;

/* From here on no send ends. */
static bool pending;
static MPI_Request sent[1000];
static int sends;

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    if (sends_left >= 0 && sends_left-- == 0) {
        if (last_signal == SIGKILL) _exit(0);
        raise(last_signal);
    }
    const int code = PMPI_Isend(data, count, type, to, tag, comm, request);
    if (pending && sends < (int)(sizeof sent / sizeof *sent)) sent[sends++] = *request;
    return code;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    for (int i = 0; pending && i < sends; i++)
        if (sent[i] == *request) {
            *flag = 0;
            return MPI_SUCCESS;
        }
    return PMPI_Test(request, flag, status);
}

static size_t live; /* bytes of the channel's */

static void *take(void *user, size_t bytes, size_t align) {
    (void)user;
    live += bytes;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}
static void give(void *user, void *memory, size_t bytes) {
    (void)user;
    live -= bytes;
    free(memory);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_for(double seconds) {
    const double end = now() + seconds;
    const struct timespec nap = {0, 10000000};
    while (now() < end) nanosleep(&nap, NULL);
}

static pith_status sum(pith_mpi_channel *ch, uint64_t step, pith_mpi_report *report) {
    const pith_view in = pith_view_flat(in_data, PITH_F32, N);
    const pith_view out = pith_view_flat(out_data, PITH_F32, N);
    return pith_mpi_allreduce(ch, &in, &out, 1.0f, step, report);
}

/* The call ends with a timeout, in time; the next one at once. */
static void expect_timeout(pith_mpi_channel *ch, uint64_t step) {
    pith_mpi_report report = {.size = sizeof report};
    double begin = now();
    CHECK_STATUS(sum(ch, step, &report), PITH_ERR_TIMEOUT);
    const double took = now() - begin;
    CHECK(took > 0.9 * limit && took < limit + 3.0);
    CHECK(report.failed_rank == -1 && report.status == PITH_ERR_TIMEOUT);
    CHECK(pith_mpi_last_error(ch)->text[0]);
    CHECK(report.wait_seconds > 0.3 * limit && report.wait_seconds < took);
    begin = now();
    CHECK_STATUS(sum(ch, step + 1, NULL), PITH_ERR_BROKEN);
    CHECK(now() - begin < 0.9 * limit);
}

static void late(pith_mpi_channel *ch) {
    if (sim_rank == sim_ranks - 1) {
        pause_for(limit + 1.0);
        CHECK_STATUS(sum(ch, 2, NULL), PITH_ERR_TIMEOUT);
    } else {
        expect_timeout(ch, 2);
    }
}

/* Stopped in the middle of a call, and woken when the others have given up. */
static void freeze(pith_mpi_channel *ch) {
    int pid = (int)getpid();
    MPI_Bcast(&pid, 1, MPI_INT, sim_ranks - 1, MPI_COMM_WORLD);
    if (sim_rank == sim_ranks - 1) {
        last_signal = SIGSTOP;
        sends_left = 2;
        CHECK_STATUS(sum(ch, 2, NULL), PITH_ERR_TIMEOUT);
        sends_left = -1;
        return;
    }
    expect_timeout(ch, 2);
    if (sim_rank == 0) {
        pause_for(0.5);
        kill((pid_t)pid, SIGCONT);
    }
}

/* What MPI still sends stays where it is when the channel goes. */
static void leave_pending(pith_mpi_channel *ch) {
    const size_t before = live;
    pending = true;
    expect_timeout(ch, 2);
    CHECK(sends > 0);
    MPI_Barrier(MPI_COMM_WORLD);
    pith_mpi_destroy(ch);
    CHECK(live > 0 && live < before); /* plans are gone */
    pending = false;
}

static void die(pith_mpi_channel *ch) {
    if (sim_rank == sim_ranks - 1) {
        last_signal = SIGKILL;
        sends_left = 2;
        CHECK_STATUS(sum(ch, 2, NULL), PITH_OK);
        _exit(1); /* it should have died in the call */
    }
    expect_timeout(ch, 2);
    pith_mpi_destroy(ch);
    if (!sim_failed()) printf("survivor %d of %d\n", sim_rank, sim_ranks);
    fflush(stdout);
    pause_for(1.0); /* mpirun ends the job with the first that leaves */
    _exit(0);
}

int main(int argc, char **argv) {
    sim_begin(&argc, &argv);
    const pith_env env = {.size = sizeof env, .alloc = take, .release = give};
    const pith_mpi_options o = {.size = sizeof o,
                                .env = &env,
                                .kind = PITH_MPI_ALLREDUCE,
                                .dtype = PITH_F32,
                                .count = N,
                                .spec = "grad:preset=intra",
                                .inter = "grad:preset=inter",
                                .ranks_per_node = 2,
                                .slice = 256,
                                .timeout = limit};
    pith_mpi_channel *ch;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    if (argc > 1 && !strcmp(argv[1], "late"))
        late(ch);
    else if (argc > 1 && !strcmp(argv[1], "freeze"))
        freeze(ch);
    else if (argc > 1 && !strcmp(argv[1], "die"))
        die(ch);
    else if (argc > 1 && !strcmp(argv[1], "pending"))
        leave_pending(ch);
    else
        CHECK_STATUS(PITH_ERR_ARG, PITH_OK); /* no such mode */
    MPI_Barrier(MPI_COMM_WORLD);             /* the caller's communicator is as it was */
    if (argc > 1 && strcmp(argv[1], "pending") != 0) pith_mpi_destroy(ch);
    return sim_end("timeouts");
}
