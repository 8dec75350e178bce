/* agree.c - one status for all ranks, and numbers that they compare.
 * SPDX-License-Identifier: Apache-2.0
 *
 * In round k of an election a rank tells what it has heard to the rank 2^k after it, and hears from
 * the rank 2^k before it: after all rounds with 2^k < ranks it has heard of everyone. */
#include <limits.h>

#include "channel.h"

#define MAGIC 0x50565435u

_Static_assert(sizeof(struct pithi_collective_vote) == 64, "the vote has holes");

/* ---- Votes -----------------------------------------------------------------------------------*/

static uint64_t check_of(const struct pithi_collective_vote *v) {
    return pithi_collective_hash(v, offsetof(struct pithi_collective_vote, check), 0);
}

/* Starts to tell rank `to` what is merged so far, and to hear from rank `from`. */
static bool start_swap(pith_collective_channel *ch, struct pithi_collective_swap *s, uint32_t to,
                       uint32_t from) {
    const pith_transport *t = &ch->t;
    s->sent = ch->election.merged;
    s->sent.from = ch->place.rank;
    s->sent.to = to;
    s->sent.check = check_of(&s->sent);
    if (t->irecv(t->user, from, PITHI_COLLECTIVE_VOTE_TAG, &s->got, sizeof s->got, &s->recv))
        return false;
    s->receiving = true;
    if (t->isend(t->user, to, PITHI_COLLECTIVE_VOTE_TAG, &s->sent, sizeof s->sent, &s->send))
        return false;
    s->sending = true;
    return true;
}

/* Tests a request that may be open. */
static bool test_open(pith_collective_channel *ch, uint64_t request, bool *open, uint64_t *bytes) {
    int done = 0;
    if (*open && ch->t.test(ch->t.user, request, &done, bytes)) return false;
    if (done) *open = false;
    return true;
}

/* Takes in what came from rank `from`. A vote that was damaged says nothing, so that ranks would
 * end with different statuses: no channel goes on after it. */
static void merge(pith_collective_channel *ch, const struct pithi_collective_vote *got,
                  uint64_t bytes, uint32_t from) {
    struct pithi_collective_vote *m = &ch->election.merged;
    const bool good =
        bytes == sizeof *got && got->magic == MAGIC && got->check == check_of(got) &&
        got->from == from && got->to == ch->place.rank && got->election == ch->election.number &&
        (!got->status || pithi_collective_is_told(got->status) ||
         got->status == (int)PITH_ERR_TRANSPORT) &&
        (got->status ? (uint32_t)got->culprit < ch->place.ranks : got->culprit == INT_MAX);
    const int status = good ? got->status : (int)PITH_ERR_TRANSPORT;
    const int culprit = good ? got->culprit : (int)ch->place.rank;
    if (status < m->status || (status == m->status && culprit < m->culprit)) {
        m->status = status;
        m->culprit = culprit;
    }
    if (!good) return;
    if (got->most > m->most) m->most = got->most;
    if (got->lowest < m->lowest) {
        m->lowest = got->lowest;
        m->number = got->number;
    }
}

void pithi_collective_begin_vote(pith_collective_channel *ch, uint64_t number, uint64_t most) {
    struct pithi_collective_election *x = &ch->election;
    const bool failed = ch->call.status != PITH_OK;
    x->number++;
    x->round = x->rounds = 0;
    while ((UINT64_C(1) << x->rounds) < ch->place.ranks) x->rounds++;
    x->merged = (struct pithi_collective_vote){.magic = MAGIC,
                                               .lowest = ch->place.rank,
                                               .number = number,
                                               .most = most,
                                               .status = (int32_t)ch->call.status,
                                               .culprit = failed ? ch->call.culprit : INT_MAX,
                                               .election = x->number};
}

bool pithi_collective_voted(pith_collective_channel *ch, bool *done) {
    struct pithi_collective_election *x = &ch->election;
    const uint64_t ranks = ch->place.ranks, own = ch->place.rank;
    *done = false;
    for (; x->round < x->rounds; x->round++) {
        struct pithi_collective_swap *s = &x->swap[x->round];
        const uint64_t distance = UINT64_C(1) << x->round;
        const uint32_t from = (uint32_t)((own + ranks - distance) % ranks);
        uint64_t bytes = sizeof s->got;
        const bool started = s->receiving || s->sending;
        if (!started && !start_swap(ch, s, (uint32_t)((own + distance) % ranks), from))
            return false;
        if (!test_open(ch, s->recv, &s->receiving, &bytes)) return false;
        if (s->receiving) return true;
        merge(ch, &s->got, bytes, from);
    }
    for (uint32_t k = 0; k < x->rounds; k++) {
        uint64_t bytes = sizeof x->swap[k].sent;
        if (!test_open(ch, x->swap[k].send, &x->swap[k].sending, &bytes)) return false;
        if (x->swap[k].sending) return true;
    }
    *done = true;
    return true;
}

bool pithi_collective_abandon_votes(pith_collective_channel *ch) {
    const pith_transport *t = &ch->t;
    bool gone = true;
    for (uint32_t k = 0; k < PITHI_COLLECTIVE_ROUNDS; k++) {
        struct pithi_collective_swap *s = &ch->election.swap[k];
        if (s->sending && t->cancel && !t->cancel(t->user, s->send)) s->sending = false;
        if (s->receiving && t->cancel && !t->cancel(t->user, s->recv)) s->receiving = false;
        gone = gone && !s->sending && !s->receiving;
    }
    return gone;
}

/* ---- Agreement outside of calls --------------------------------------------------------------*/

/* Calls `progress` until it is done, the transport fails, or time is up; in the last two cases the
 * channel is broken. */
static pith_status finish(pith_collective_channel *ch,
                          bool (*progress)(pith_collective_channel *ch, bool *done)) {
    const double end = pithi_collective_now() + ch->o.timeout;
    uint32_t idle_rounds = 0;
    pith_status status = PITH_OK;
    for (bool done = false; !done && !status;) {
        if (!progress(ch, &done))
            status = PITH_ERR_TRANSPORT;
        else if (!done && pithi_collective_now() > end)
            status = PITH_ERR_TIMEOUT;
        else if (!done && !pithi_collective_idle(ch, &idle_rounds, end))
            status = PITH_ERR_TRANSPORT;
    }
    if (status) pithi_collective_break(ch, status);
    return status;
}

/* Runs one election, in which a damaged vote ends as a failure of the transport on whoever hears of
 * it. A channel that is broken says no more: its own failure is the answer. */
static pith_status vote(pith_collective_channel *ch, pith_status status, uint64_t number,
                        uint64_t most) {
    if (ch->broken) return ch->call.status;
    ch->call.status = status;
    ch->call.culprit = (int)ch->place.rank;
    pithi_collective_begin_vote(ch, number, most);
    const pith_status own = finish(ch, pithi_collective_voted);
    if (own) return own;
    if (ch->election.merged.status == (int)PITH_ERR_TRANSPORT)
        pithi_collective_break(ch, PITH_ERR_TRANSPORT);
    return (pith_status)ch->election.merged.status;
}

pith_status pithi_collective_agree(pith_collective_channel *ch, pith_status status, int *culprit) {
    const pith_status all = vote(ch, status, 0, 0);
    *culprit = all && !ch->broken ? ch->election.merged.culprit : -1;
    return all;
}

pith_status pithi_collective_agree_text(pith_collective_channel *ch, pith_status own,
                                        pith_error *error) {
    int culprit;
    const pith_status all = pithi_collective_agree(ch, own, &culprit);
    if (all && !own && culprit >= 0)
        pithi_collective_say(error, "rank %d failed: %s", culprit, pith_status_text(all));
    return all;
}

pith_status pithi_collective_same(pith_collective_channel *ch, uint64_t number, uint32_t *differs) {
    int culprit;
    PITHI_COLLECTIVE_TRY(vote(ch, PITH_OK, number, 0));
    const bool same = ch->election.merged.number == number; /* rank 0's number */
    const pith_status status =
        pithi_collective_agree(ch, same ? PITH_OK : PITH_ERR_MISMATCH, &culprit);
    if (status == PITH_ERR_MISMATCH) *differs = (uint32_t)culprit;
    return status;
}

pith_status pithi_collective_largest(pith_collective_channel *ch, uint64_t *number) {
    PITHI_COLLECTIVE_TRY(vote(ch, PITH_OK, 0, *number));
    *number = ch->election.merged.most;
    return PITH_OK;
}

static bool swapped(pith_collective_channel *ch, bool *done) {
    struct pithi_collective_swap *s = &ch->election.swap[0];
    uint64_t sent = sizeof s->sent, got = sizeof s->got;
    if (!test_open(ch, s->send, &s->sending, &sent) || !test_open(ch, s->recv, &s->receiving, &got))
        return false;
    *done = !s->sending && !s->receiving;
    return got == sizeof s->got;
}

pith_status pithi_collective_transpose(pith_collective_channel *ch, const uint64_t *numbers,
                                       uint64_t *heard) {
    const uint64_t ranks = ch->place.ranks, own = ch->place.rank;
    pith_status status = PITH_OK;
    int culprit;
    heard[own] = numbers[own];
    ch->call.status = PITH_OK;
    for (uint64_t k = 1; k < ranks; k++) {
        const uint32_t to = (uint32_t)((own + k) % ranks);
        const uint32_t from = (uint32_t)((own + ranks - k) % ranks);
        struct pithi_collective_swap *s = &ch->election.swap[0];
        pithi_collective_begin_vote(ch, numbers[to], 0);
        if (!start_swap(ch, s, to, from)) {
            pithi_collective_break(ch, PITH_ERR_TRANSPORT);
            return PITH_ERR_TRANSPORT;
        }
        PITHI_COLLECTIVE_TRY(finish(ch, swapped));
        if (s->got.check != check_of(&s->got) || s->got.from != from || s->got.to != own ||
            s->got.election != ch->election.number)
            status = PITH_ERR_CORRUPT;
        heard[from] = s->got.number;
    }
    return pithi_collective_agree(ch, status, &culprit);
}
