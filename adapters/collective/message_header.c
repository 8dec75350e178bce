/* message_header.c - the header before the frames of a message: whose they are, if they are good.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It travels between ranks of one call only, so it is in the machine's own byte order; ranks of
 * another order see a wrong magic. */
#include <string.h>

#include "channel.h"

struct header {
    uint32_t magic;
    uint8_t kind, hop, key, zero;
    uint64_t sequence; /* calls of this channel so far */
    uint64_t step;
    uint32_t slice, scale;
    int32_t status, culprit;
    uint64_t payload;
    uint32_t origin, to; /* who encoded it, and for whom: EVERYONE, or a rank */
    uint64_t check;      /* check of the bytes before it */
};
_Static_assert(sizeof(struct header) == PITHI_COLLECTIVE_HEADER, "the header has holes");

#define MAGIC 0x504D4933u
#define EVERYONE UINT32_MAX

static uint64_t check_of(const struct header *h) {
    return pithi_collective_hash(h, offsetof(struct header, check), 0);
}

static struct header expected(const pith_collective_channel *ch, uint32_t hop, uint64_t slice) {
    struct header h = {.magic = MAGIC,
                       .kind = (uint8_t)ch->o.kind,
                       .hop = (uint8_t)hop,
                       .key = ch->call.key_frame,
                       .sequence = ch->sequence,
                       .step = ch->call.step,
                       .slice = (uint32_t)slice};
    memcpy(&h.scale, &ch->call.scale, sizeof h.scale);
    return h;
}

/* Returns whom a message is for. Frames do not say which slot they are of. What a message to
 * everyone holds follows from who encoded it; what any other holds, from who gets it: the shards
 * that this rank owns or collects, or, in an all-to-all, what one rank sends to one. */
static uint32_t addressee(const pith_collective_channel *ch, uint32_t hop, uint32_t rank) {
    return ch->hop[hop].shared ? EVERYONE : rank;
}

void pithi_collective_seal(const pith_collective_channel *ch, uint32_t hop, uint64_t slice,
                           const struct pithi_collective_message *m) {
    struct header h = expected(ch, hop, slice);
    h.status = (int32_t)ch->call.status;
    h.culprit = ch->call.culprit;
    h.payload = m->payload;
    h.origin = m->origin;
    h.to = addressee(ch, hop, m->rank);
    h.check = check_of(&h);
    memcpy(m->bytes, &h, sizeof h);
}

/* Compares what the sender and this rank should agree on. */
static void compare(pith_collective_channel *ch, const struct header *h, const struct header *own) {
    if (h->kind != own->kind || h->hop != own->hop || h->slice != own->slice ||
        h->sequence != own->sequence)
        pithi_collective_fail_text(ch, PITH_ERR_CORRUPT, "a message of another call arrived");
    else if (h->to != addressee(ch, own->hop, ch->place.rank))
        pithi_collective_fail_text(ch, PITH_ERR_CORRUPT, "a message to another rank arrived");
    else if (h->step != own->step)
        pithi_collective_fail_text(ch, PITH_ERR_STEP, "ranks call with different steps");
    else if (h->scale != own->scale || h->key != own->key)
        pithi_collective_fail_text(ch, PITH_ERR_ARG, "ranks call with different scales or flags");
}

void pithi_collective_open(pith_collective_channel *ch, uint32_t hop, uint64_t slice,
                           struct pithi_collective_message *m, uint64_t bytes) {
    const struct header own = expected(ch, hop, slice);
    struct header h;
    m->payload = 0;
    if (bytes < sizeof h) {
        pithi_collective_fail_text(ch, PITH_ERR_TRUNCATED, "a message is shorter than its header");
        return;
    }
    memcpy(&h, m->bytes, sizeof h);
    if (h.magic != MAGIC || h.check != check_of(&h) || h.origin != m->origin ||
        h.payload > bytes - sizeof h ||
        (h.status ? !pithi_collective_is_told(h.status) || (uint32_t)h.culprit >= ch->place.ranks
                  : h.payload == 0))
        pithi_collective_fail_text(ch, PITH_ERR_CORRUPT, "the header of a message is damaged");
    else if (h.status)
        pithi_collective_fail(ch, (pith_status)h.status, h.culprit, NULL);
    else
        m->payload = h.payload;
    if (m->payload) compare(ch, &h, &own);
}
