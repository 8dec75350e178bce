/* message.c - buffers of messages, and how they go through the transport.
 * SPDX-License-Identifier: Apache-2.0 */
#include "hops.h"

static bool is_own(const pith_collective_channel *ch, const struct pithi_collective_message *m) {
    return m->rank == ch->place.rank;
}

uint64_t pithi_collective_pad(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

/* Returns the bytes of a key frame; 0 where the plan has none. */
static uint64_t key_bytes(const pith_plan *plan, uint64_t slot) {
    pith_sizes sizes = {.size = sizeof sizes};
    if (pith_plan_sizes(plan, &sizes) || !sizes.key_bytes) return 0;
    return pith_plan_frame_bytes(plan, slot, 1);
}

/* ---- Buffers ---------------------------------------------------------------------------------*/

static bool make_buffer(pith_collective_channel *ch, struct pithi_collective_message *m) {
    return !m->cap || m->bytes || (m->bytes = pithi_collective_take(ch, 1, m->cap));
}

static bool make_out(pith_collective_channel *ch, struct pithi_collective_hop *h, uint64_t slice) {
    struct pithi_collective_message *out = h->out + slice * h->targets;
    for (uint32_t t = 0; t < h->targets; t++) {
        if (h->forwarded)
            out[t].bytes = pithi_collective_forwarded(ch, slice, t)->bytes;
        else if (h->shared && t)
            out[t].bytes = out[0].bytes;
        if (!make_buffer(ch, &out[t])) return false;
    }
    return true;
}

static bool make_in(pith_collective_channel *ch, struct pithi_collective_hop *h, uint64_t slice) {
    struct pithi_collective_message *in = h->in + slice * h->sources;
    for (uint32_t s = 0; s < h->sources; s++) {
        for (uint32_t t = 0; is_own(ch, &in[s]) && t < h->targets; t++)
            if (h->target[t] == ch->place.rank) in[s].bytes = h->out[slice * h->targets + t].bytes;
        if (!make_buffer(ch, &in[s])) return false;
    }
    return true;
}

static void measure(const pith_collective_channel *ch, const pith_plan *plan,
                    const struct pithi_collective_parts *p, uint32_t index, uint64_t slice,
                    struct pithi_collective_message *m) {
    for (uint32_t k = p->first[index]; k < p->first[index + 1]; k++) {
        const uint64_t slot = p->list[k] * ch->slices + slice;
        uint64_t first, count = 0;
        if (pith_plan_slot(plan, slot, &first, &count) || !count) continue;
        m->frames++;
        m->values += count;
        const uint64_t plain = pith_plan_frame_bytes(plan, slot, 0), key = key_bytes(plan, slot);
        m->plain_cap += pithi_collective_pad(plain);
        m->cap += pithi_collective_pad(plain > key ? plain : key);
    }
    if (!m->cap) return;
    m->plain_cap += PITHI_COLLECTIVE_HEADER;
    m->cap += PITHI_COLLECTIVE_HEADER;
}

/* Returns the capacity of the longest message that this rank sends. */
static uint64_t measure_slice(pith_collective_channel *ch, struct pithi_collective_hop *h,
                              uint64_t i) {
    uint64_t longest = 0;
    for (uint32_t t = 0; t < h->targets; t++) {
        struct pithi_collective_message *m = &h->out[i * h->targets + t];
        m->rank = h->target[t];
        m->origin = h->forwarded ? h->put.list[t] : ch->place.rank;
        measure(ch, h->encoder, &h->put, t, i, m);
        if (!is_own(ch, m) && m->cap > longest) longest = m->cap;
    }
    for (uint32_t s = 0; s < h->sources; s++) {
        struct pithi_collective_message *m = &h->in[i * h->sources + s];
        m->rank = h->source[s];
        m->origin = h->forwarded ? h->get.list[s] : m->rank;
        measure(ch, h->decoder, &h->get, s, i, m);
    }
    return longest;
}

pith_status pithi_collective_make_messages(pith_collective_channel *ch,
                                           struct pithi_collective_hop *h, pith_error *error) {
    h->out = pithi_collective_take(ch, ch->slices * h->targets, sizeof *h->out);
    h->in = pithi_collective_take(ch, ch->slices * h->sources, sizeof *h->in);
    h->frames =
        pithi_collective_take(ch, (uint64_t)h->sources * h->get.first[1], sizeof *h->frames);
    h->lengths =
        pithi_collective_take(ch, (uint64_t)h->sources * h->get.first[1], sizeof *h->lengths);
    if (!h->out || !h->in || !h->frames || !h->lengths) return PITH_ERR_MEMORY;
    for (uint64_t i = 0; i < ch->slices; i++) {
        const uint64_t longest = measure_slice(ch, h, i);
        if (ch->t.largest && longest > ch->t.largest) {
            pithi_collective_say(error,
                                 "a message of %llu bytes is longer than the transport's largest, "
                                 "%llu: take smaller slices",
                                 (unsigned long long)longest, (unsigned long long)ch->t.largest);
            return PITH_ERR_ARG;
        }
        if (!make_out(ch, h, i) || !make_in(ch, h, i)) return PITH_ERR_MEMORY;
    }
    return PITH_OK;
}

/* ---- Receiving -------------------------------------------------------------------------------*/

/* Returns the bytes of a message for a transport that wants to know them before there is one. */
static uint64_t exact_bytes(const pith_collective_channel *ch,
                            const struct pithi_collective_message *m) {
    return ch->call.key_frame ? m->cap : m->plain_cap;
}

static uint64_t receive_bytes(const pith_collective_channel *ch,
                              const struct pithi_collective_message *m) {
    return ch->t.flags & PITH_TRANSPORT_EXACT ? exact_bytes(ch, m) : m->cap;
}

static bool post_hop(pith_collective_channel *ch, uint32_t hop) {
    struct pithi_collective_hop *h = &ch->hop[hop];
    for (uint64_t i = 0; i < ch->slices * h->sources; i++) {
        struct pithi_collective_message *m = &h->in[i];
        m->payload = 0;
        if (!m->cap || is_own(ch, m)) continue;
        m->posted = receive_bytes(ch, m);
        if (ch->t.irecv(ch->t.user, m->rank, hop, m->bytes, m->posted, &m->request)) return false;
        m->open = true;
    }
    return true;
}

bool pithi_collective_post(pith_collective_channel *ch) {
    for (uint32_t k = 0; k < ch->hops; k++)
        if (!post_hop(ch, k)) return false;
    return true;
}

bool pithi_collective_arrived(pith_collective_channel *ch, uint32_t hop, uint64_t slice,
                              bool *all) {
    struct pithi_collective_hop *h = &ch->hop[hop];
    *all = true;
    for (uint32_t s = 0; s < h->sources; s++) {
        struct pithi_collective_message *m = &h->in[slice * h->sources + s];
        uint64_t bytes = m->posted;
        int done = 0;
        if (!m->open) continue;
        if (ch->t.test(ch->t.user, m->request, &done, &bytes)) return false;
        m->open = !done;
        if (done) pithi_collective_open(ch, hop, slice, m, bytes);
        *all = *all && done;
    }
    return true;
}

/* ---- Sending ---------------------------------------------------------------------------------*/

/* Sends the messages of a slice. Once the call has failed only headers travel: receivers wait for
 * messages, not for frames. */
bool pithi_collective_send(pith_collective_channel *ch, uint32_t hop, uint64_t slice) {
    struct pithi_collective_hop *h = &ch->hop[hop];
    const uint8_t *sealed = NULL; /* a shared buffer, which the transport holds after one send */
    for (uint32_t t = 0; t < h->targets; t++) {
        struct pithi_collective_message *m = &h->out[slice * h->targets + t];
        if (!m->cap || is_own(ch, m)) continue;
        if (ch->call.status) m->payload = 0;
        if (m->bytes != sealed) pithi_collective_seal(ch, hop, slice, m);
        sealed = m->bytes;
        const bool exact = ch->t.flags & PITH_TRANSPORT_EXACT;
        m->posted = exact ? exact_bytes(ch, m) : PITHI_COLLECTIVE_HEADER + m->payload;
        if (ch->t.isend(ch->t.user, m->rank, hop, m->bytes, m->posted, &m->request)) return false;
        m->open = true;
        const int across = ch->node_of[m->rank] != ch->place.node;
        ch->report.sent_messages[across]++;
        ch->report.sent_bytes[across] += m->posted;
        ch->report.sent_values[across] += m->payload ? m->values : 0;
    }
    return true;
}

static bool hop_sent(pith_collective_channel *ch, struct pithi_collective_hop *h, bool *all) {
    for (uint64_t i = 0; i < ch->slices * h->targets; i++) {
        struct pithi_collective_message *m = &h->out[i];
        uint64_t bytes = m->posted;
        int done = 0;
        if (!m->open) continue;
        if (ch->t.test(ch->t.user, m->request, &done, &bytes)) return false;
        m->open = !done;
        *all = *all && done;
    }
    return true;
}

bool pithi_collective_sent(pith_collective_channel *ch, bool *all) {
    *all = true;
    for (uint32_t k = 0; k < ch->hops; k++)
        if (!hop_sent(ch, &ch->hop[k], all)) return false;
    return true;
}

/* ---- Giving up -------------------------------------------------------------------------------*/

static bool drop(const pith_transport *t, struct pithi_collective_message *m, uint64_t count) {
    bool gone = true;
    for (uint64_t i = 0; m && i < count; i++) {
        if (m[i].open && t->cancel && !t->cancel(t->user, m[i].request)) m[i].open = false;
        gone = gone && !m[i].open;
    }
    return gone;
}

bool pithi_collective_abandon(pith_collective_channel *ch) {
    bool gone = true;
    for (uint32_t k = 0; k < ch->hops; k++) {
        struct pithi_collective_hop *h = &ch->hop[k];
        gone = drop(&ch->t, h->in, ch->slices * h->sources) && gone;
        gone = drop(&ch->t, h->out, ch->slices * h->targets) && gone;
    }
    return pithi_collective_abandon_votes(ch) && gone;
}
