/* message.c - buffers of messages, and the calls of MPI that move them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "channel.h"

static bool is_own(const pith_mpi_channel *ch, const struct pithi_mpi_message *m) {
    return m->rank == ch->place.rank;
}

uint64_t pithi_mpi_pad(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

uint64_t pithi_mpi_frame_capacity(const pith_plan *plan, uint64_t slot) {
    uint64_t first, count = 0;
    if (pith_plan_slot(plan, slot, &first, &count) || !count) return 0;
    pith_sizes sizes = {.size = sizeof sizes};
    if (pith_plan_sizes(plan, &sizes)) return 0;
    const uint64_t plain = pith_plan_frame_bytes(plan, slot, 0);
    const uint64_t key = sizes.key_bytes ? pith_plan_frame_bytes(plan, slot, 1) : 0;
    return pithi_mpi_pad(plain > key ? plain : key);
}

/* ---- Buffers ---------------------------------------------------------------------------------*/

static bool make_buffer(pith_mpi_channel *ch, struct pithi_mpi_message *m) {
    m->request = MPI_REQUEST_NULL;
    if (!m->cap || m->bytes) return true;
    return m->cap <= INT_MAX && (m->bytes = pithi_mpi_take(ch, 1, m->cap)) != NULL;
}

static bool make_out(pith_mpi_channel *ch, struct pithi_mpi_hop *h, uint64_t slice) {
    struct pithi_mpi_message *out = h->out + slice * h->targets;
    for (uint32_t t = 0; t < h->targets; t++) {
        if (h->shared && t) out[t].bytes = out[0].bytes;
        if (!make_buffer(ch, &out[t])) return false;
    }
    return true;
}

static bool make_in(pith_mpi_channel *ch, struct pithi_mpi_hop *h, uint64_t slice) {
    struct pithi_mpi_message *in = h->in + slice * h->sources;
    for (uint32_t s = 0; s < h->sources; s++) {
        for (uint32_t t = 0; is_own(ch, &in[s]) && t < h->targets; t++)
            if (h->target[t] == ch->place.rank) in[s].bytes = h->out[slice * h->targets + t].bytes;
        if (!make_buffer(ch, &in[s])) return false;
    }
    return true;
}

static void measure(const pith_mpi_channel *ch, const pith_plan *plan,
                    const struct pithi_mpi_groups *g, uint32_t index, uint64_t slice,
                    struct pithi_mpi_message *m) {
    for (uint32_t k = g->first[index]; k < g->first[index + 1]; k++) {
        const uint64_t slot = g->list[k] * ch->slices + slice;
        uint64_t first, count = 0;
        if (pith_plan_slot(plan, slot, &first, &count) || !count) continue;
        m->frames++;
        m->values += count;
        m->cap += pithi_mpi_frame_capacity(plan, slot);
    }
    if (m->cap) m->cap += PITHI_MPI_HEADER;
}

static void measure_slice(pith_mpi_channel *ch, struct pithi_mpi_hop *h, uint64_t i) {
    for (uint32_t t = 0; t < h->targets; t++) {
        struct pithi_mpi_message *m = &h->out[i * h->targets + t];
        m->rank = h->target[t];
        measure(ch, h->encoder, &h->put, t, i, m);
    }
    for (uint32_t s = 0; s < h->sources; s++) {
        struct pithi_mpi_message *m = &h->in[i * h->sources + s];
        m->rank = h->source[s];
        measure(ch, h->decoder, &h->get, s, i, m);
    }
}

pith_status pithi_mpi_make_messages(pith_mpi_channel *ch, struct pithi_mpi_hop *h) {
    h->out = pithi_mpi_take(ch, ch->slices * h->targets, sizeof *h->out);
    h->in = pithi_mpi_take(ch, ch->slices * h->sources, sizeof *h->in);
    h->frames = pithi_mpi_take(ch, (uint64_t)h->sources * h->get.first[1], sizeof *h->frames);
    h->lengths = pithi_mpi_take(ch, (uint64_t)h->sources * h->get.first[1], sizeof *h->lengths);
    if (!h->out || !h->in || !h->frames || !h->lengths) return PITH_ERR_MEMORY;
    for (uint64_t i = 0; i < ch->slices; i++) {
        measure_slice(ch, h, i);
        if (!make_out(ch, h, i) || !make_in(ch, h, i)) return PITH_ERR_MEMORY;
    }
    return PITH_OK;
}

/* ---- Receiving -------------------------------------------------------------------------------*/

static bool post_hop(pith_mpi_channel *ch, uint32_t hop) {
    struct pithi_mpi_hop *h = &ch->hop[hop];
    for (uint64_t i = 0; i < ch->slices * h->sources; i++) {
        struct pithi_mpi_message *m = &h->in[i];
        m->payload = 0;
        if (!m->cap || is_own(ch, m)) continue;
        if (MPI_Irecv(m->bytes, (int)m->cap, MPI_BYTE, (int)m->rank, (int)hop, ch->comm,
                      &m->request))
            return false;
        m->open = true;
    }
    return true;
}

bool pithi_mpi_post(pith_mpi_channel *ch) {
    for (uint32_t k = 0; k < ch->hops; k++)
        if (!post_hop(ch, k)) return false;
    return true;
}

static bool complete(pith_mpi_channel *ch, uint32_t hop, uint64_t slice,
                     struct pithi_mpi_message *m) {
    MPI_Status status;
    int flag = 0, bytes = 0;
    if (MPI_Test(&m->request, &flag, &status)) return false;
    if (!flag) return true;
    m->open = false;
    if (MPI_Get_count(&status, MPI_BYTE, &bytes) || bytes < 0) return false;
    pithi_mpi_open(ch, hop, slice, m, (uint64_t)bytes);
    return true;
}

bool pithi_mpi_arrived(pith_mpi_channel *ch, uint32_t hop, uint64_t slice, bool *all) {
    struct pithi_mpi_hop *h = &ch->hop[hop];
    *all = true;
    for (uint32_t s = 0; s < h->sources; s++) {
        struct pithi_mpi_message *m = &h->in[slice * h->sources + s];
        if (m->open && !complete(ch, hop, slice, m)) return false;
        *all = *all && !m->open;
    }
    return true;
}

/* ---- Sending ---------------------------------------------------------------------------------*/

/* Once the call has failed only headers travel: receivers wait for messages, not for frames. */
bool pithi_mpi_send(pith_mpi_channel *ch, uint32_t hop, uint64_t slice) {
    struct pithi_mpi_hop *h = &ch->hop[hop];
    bool sealed = false; /* a shared buffer is in MPI's hands after the first send */
    for (uint32_t t = 0; t < h->targets; t++) {
        struct pithi_mpi_message *m = &h->out[slice * h->targets + t];
        if (!m->cap || is_own(ch, m)) continue;
        if (ch->call.status) m->payload = 0;
        if (!sealed) pithi_mpi_seal(ch, hop, slice, m);
        sealed = h->shared;
        const uint64_t bytes = PITHI_MPI_HEADER + m->payload;
        if (MPI_Isend(m->bytes, (int)bytes, MPI_BYTE, (int)m->rank, (int)hop, ch->comm,
                      &m->request))
            return false;
        m->open = true;
        const int level = ch->node_of[m->rank] != ch->place.node;
        ch->report.sent_messages[level]++;
        ch->report.sent_bytes[level] += bytes;
        ch->report.sent_values[level] += m->payload ? m->values : 0;
    }
    return true;
}

static bool hop_sent(pith_mpi_channel *ch, struct pithi_mpi_hop *h, bool *all) {
    for (uint64_t i = 0; i < ch->slices * h->targets; i++) {
        struct pithi_mpi_message *m = &h->out[i];
        int flag = 1;
        if (m->open && MPI_Test(&m->request, &flag, MPI_STATUS_IGNORE)) return false;
        if (flag) m->open = false;
        *all = *all && flag;
    }
    return true;
}

bool pithi_mpi_sent(pith_mpi_channel *ch, bool *all) {
    *all = true;
    for (uint32_t k = 0; k < ch->hops; k++)
        if (!hop_sent(ch, &ch->hop[k], all)) return false;
    return true;
}

/* ---- Giving up -------------------------------------------------------------------------------*/

static bool drop(struct pithi_mpi_message *m, uint64_t count, bool cancel) {
    bool gone = true;
    for (uint64_t i = 0; m && i < count; i++) {
        int flag = 1;
        if (!m[i].open) continue;
        if (cancel) MPI_Cancel(&m[i].request);
        if (MPI_Test(&m[i].request, &flag, MPI_STATUS_IGNORE)) flag = 0;
        m[i].open = !flag;
        gone = gone && flag;
    }
    return gone;
}

/* Receives can be taken back; sends and the agreement end, or they do not. */
bool pithi_mpi_abandon(pith_mpi_channel *ch) {
    bool gone = true;
    int flag = 1;
    for (uint32_t k = 0; k < ch->hops; k++) {
        struct pithi_mpi_hop *h = &ch->hop[k];
        gone = drop(h->in, ch->slices * h->sources, true) && gone;
        gone = drop(h->out, ch->slices * h->targets, false) && gone;
    }
    if (ch->agreement != MPI_REQUEST_NULL && MPI_Test(&ch->agreement, &flag, MPI_STATUS_IGNORE))
        flag = 0;
    return gone && flag;
}
