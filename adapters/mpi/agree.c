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
void pithi_mpi_idle(uint32_t *idle_rounds) {
    const struct timespec nap = {0, 20000};
    if (++*idle_rounds < 500)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

/* ---- Statuses of a call ----------------------------------------------------------------------*/

void pithi_mpi_fail(pith_mpi_channel *ch, pith_status status, int culprit, const pith_error *why) {
    struct pithi_mpi_call *call = &ch->call;
    const int new = (int)status, old = (int)call->status;
    if (new > old || (new == old &&culprit >= call->culprit)) return;
    call->status = status;
    call->culprit = culprit;
    if (why)
        ch->error = *why;
    else
        pithi_mpi_say(&ch->error, "%s", "");
}

void pithi_mpi_fail_text(pith_mpi_channel *ch, pith_status status, const char *text) {
    pith_error why;
    pithi_mpi_say(&why, "%s", text);
    pithi_mpi_fail(ch, status, (int)ch->place.rank, &why);
}

void pithi_mpi_break(pith_mpi_channel *ch, pith_status status) {
    ch->broken = true;
    ch->call.status = status;
    ch->call.culprit = -1;
    pithi_mpi_say(&ch->error, "%s",
                  status == PITH_ERR_TIMEOUT ? "not all ranks took part before the timeout"
                                             : "an MPI call failed");
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

/* What MPI may still write after a timeout lies in the channel, which outlives it. */
static pith_status finish_vote(pith_mpi_channel *ch) {
    const double end = pithi_mpi_now() + ch->o.timeout;
    uint32_t idle_rounds = 0;
    for (bool done = false; !done;) {
        if (!pithi_mpi_verdict(ch, &done)) return PITH_ERR_MPI;
        if (done) break;
        if (pithi_mpi_now() > end) return PITH_ERR_TIMEOUT;
        pithi_mpi_idle(&idle_rounds);
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

/* All ranks look at the same table, so they need not agree on what they find in it. */
pith_status pithi_mpi_same(pith_mpi_channel *ch, uint64_t number, uint32_t *differs) {
    ch->number = number;
    if (MPI_Iallgather(&ch->number, 1, MPI_UINT64_T, ch->numbers, 1, MPI_UINT64_T, ch->comm,
                       &ch->agreement) != MPI_SUCCESS)
        return PITH_ERR_MPI;
    PITHI_MPI_TRY(finish_vote(ch));
    for (uint32_t r = 1; r < ch->place.ranks; r++) {
        *differs = r;
        if (ch->numbers[r] != ch->numbers[0]) return PITH_ERR_MISMATCH;
    }
    return PITH_OK;
}
