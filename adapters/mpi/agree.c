/* agree.c - one status for all ranks, and the clock that bounds the wait for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <sched.h>
#include <time.h>

#include "channel.h"

double pithi_mpi_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Yielding first keeps latency low; sleeping later leaves the core to a rank that computes. */
void pithi_mpi_idle(uint32_t *turns) {
    const struct timespec nap = {0, 20000};
    if (++*turns < 500)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

/* ---- Statuses of a call ----------------------------------------------------------------------*/

void pithi_mpi_fail(pith_mpi_channel *ch, pith_status status, int culprit, pith_error why) {
    struct pithi_mpi_call *call = &ch->call;
    const int new = (int)status, old = (int)call->status;
    if (new > old || (new == old &&culprit >= call->culprit)) return;
    call->status = status;
    call->culprit = culprit;
    ch->error = why;
}

void pithi_mpi_fail_text(pith_mpi_channel *ch, pith_status status, const char *text) {
    pithi_mpi_fail(ch, status, (int)ch->place.rank, (pith_error){text, 0});
}

void pithi_mpi_break(pith_mpi_channel *ch, pith_status status) {
    ch->broken = true;
    ch->call.status = status;
    ch->call.culprit = -1;
    ch->error =
        (pith_error){status == PITH_ERR_TIMEOUT ? "not all ranks took part before the timeout"
                                                : "an MPI call failed",
                     0};
}

/* ---- Agreement -------------------------------------------------------------------------------*/

bool pithi_mpi_vote(pith_mpi_channel *ch) {
    ch->vote[0] = (int)ch->call.status;
    ch->vote[1] = ch->call.status == PITH_OK ? INT_MAX : ch->call.culprit;
    return MPI_Iallreduce(ch->vote, ch->verdict, 1, MPI_2INT, MPI_MINLOC, ch->comm,
                          &ch->agreement) == MPI_SUCCESS;
}

bool pithi_mpi_verdict(pith_mpi_channel *ch, bool *done) {
    int flag = 0;
    if (MPI_Test(&ch->agreement, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    *done = flag != 0;
    return true;
}

/* Both use the members of the channel for what MPI may still write after a timeout. */
static pith_status finish_vote(pith_mpi_channel *ch) {
    const double end = pithi_mpi_now() + ch->o.timeout;
    uint32_t turns = 0;
    for (bool done = false; !done;) {
        if (!pithi_mpi_verdict(ch, &done)) return PITH_ERR_MPI;
        if (done) break;
        if (pithi_mpi_now() > end) return PITH_ERR_TIMEOUT;
        pithi_mpi_idle(&turns);
    }
    return PITH_OK;
}

pith_status pithi_mpi_agree(pith_mpi_channel *ch, pith_status status, int *culprit) {
    ch->call.status = status;
    ch->call.culprit = (int)ch->place.rank;
    pith_status own = pithi_mpi_vote(ch) ? finish_vote(ch) : PITH_ERR_MPI;
    if (own != PITH_OK) {
        pithi_mpi_break(ch, own);
        return own;
    }
    *culprit = ch->verdict[0] ? ch->verdict[1] : -1;
    return (pith_status)ch->verdict[0];
}

/* Equal to every other's exactly when no rank has a smaller half, upper or lower. */
pith_status pithi_mpi_same(pith_mpi_channel *ch, uint64_t number) {
    const uint32_t folded = (uint32_t)(number ^ (number >> 32)) & INT_MAX;
    int culprit, smallest = 0;
    for (int turn = 0; turn < 2; turn++) {
        ch->vote[0] = turn ? -(int)folded : (int)folded;
        ch->vote[1] = 0;
        if (MPI_Iallreduce(ch->vote, ch->verdict, 1, MPI_2INT, MPI_MINLOC, ch->comm,
                           &ch->agreement) != MPI_SUCCESS)
            return PITH_ERR_MPI;
        PITHI_MPI_TRY(finish_vote(ch));
        if (turn == 0) smallest = ch->verdict[0];
    }
    const bool same = smallest == -ch->verdict[0];
    return pithi_mpi_agree(ch, same ? PITH_OK : PITH_ERR_ARG, &culprit);
}
