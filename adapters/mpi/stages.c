/* stages.c - what is computed between the hops: encode, sums of frames to frames, decode.
 * SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

/* The status of a call of pith as this rank's. */
static bool good(pith_mpi_channel *ch, const pith_plan *plan, pith_status status) {
    if (status == PITH_OK) return true;
    pithi_mpi_fail(ch, status, (int)ch->place.rank, pith_plan_error(plan));
    return false;
}

static uint64_t slot_count(const pith_plan *plan, uint64_t slot) {
    uint64_t first, count = 0;
    return pith_plan_slot(plan, slot, &first, &count) == PITH_OK ? count : 0;
}

/* A frame's bytes go to every target when they share them, and to this rank without travelling. */
static void hand_over(pith_mpi_channel *ch, struct pithi_mpi_hop *h, uint64_t slice, uint32_t from,
                      uint64_t payload) {
    struct pithi_mpi_message *out = h->out + slice * h->targets;
    struct pithi_mpi_message *in = h->in + slice * h->sources;
    for (uint32_t t = from; t < (h->shared ? h->targets : from + 1); t++) {
        out[t].payload = payload;
        if (out[t].rank != ch->place.rank) continue;
        for (uint32_t s = 0; s < h->sources; s++)
            if (in[s].rank == ch->place.rank) in[s].payload = payload;
    }
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* The view to encode a slot from: the whole input, or, where the input is this rank's shard only,
 * one slice of it. */
static const pith_view *input_of(pith_mpi_channel *ch, uint64_t slice, uint64_t count,
                                 pith_view *piece) {
    const pith_view *in = &ch->call.in;
    const uint64_t first = slice * ch->slice;
    if (ch->o.kind != PITH_MPI_ALLGATHER || pith_view_count(in) != ch->in_count) return in;
    if (pithi_mpi_cut(in, first, count, piece)) return piece;
    pithi_mpi_pack(in, first, count, ch->scratch);
    *piece = pith_view_flat(ch->scratch, in->dtype, count);
    return piece;
}

static bool encode_slot(pith_mpi_channel *ch, uint64_t slot, uint64_t slice,
                        struct pithi_mpi_message *m, uint64_t *at) {
    struct pithi_mpi_hop *h = &ch->hop[0];
    pith_view piece;
    size_t written = 0;
    const uint64_t count = slot_count(h->encoder, slot);
    if (!count) return true;
    const pith_view *view = input_of(ch, slice, count, &piece);
    h->encoded = true;
    const pith_status status =
        ch->call.key
            ? pith_encode_key(h->encoder, h->state, view, slot, m->bytes + *at, m->cap - *at,
                              &written)
            : pith_encode(h->encoder, h->state, view, slot, m->bytes + *at, m->cap - *at, &written);
    *at += pithi_mpi_pad(written);
    return good(ch, h->encoder, status);
}

static void encode(pith_mpi_channel *ch, uint64_t slice) {
    struct pithi_mpi_hop *h = &ch->hop[0];
    for (uint32_t t = 0; t < (h->shared ? 1 : h->targets); t++) {
        struct pithi_mpi_message *m = &h->out[slice * h->targets + t];
        uint64_t at = PITHI_MPI_HEADER;
        for (uint32_t g = h->put.first[t]; g < h->put.first[t + 1]; g++)
            if (!encode_slot(ch, h->put.list[g] * ch->slices + slice, slice, m, &at)) return;
        hand_over(ch, h, slice, t, at - PITHI_MPI_HEADER);
    }
}

/* ---- Frames that arrived ---------------------------------------------------------------------*/

/* Frame number `index` of every message of the slice. Frames of fixed rate: their places follow
 * from the plan. */
static bool find_frames(pith_mpi_channel *ch, struct pithi_mpi_hop *h, uint64_t slice,
                        uint32_t index) {
    uint64_t at = 0, bytes = 0;
    for (uint32_t k = 0; k <= index; k++) {
        const uint64_t slot = h->get.list[k] * ch->slices + slice;
        at += bytes;
        bytes = slot_count(h->decoder, slot) ? pith_plan_frame_bytes(h->decoder, slot, 0) : 0;
        if (k < index) bytes = pithi_mpi_pad(bytes);
    }
    for (uint32_t s = 0; s < h->sources; s++) {
        const struct pithi_mpi_message *m = &h->in[slice * h->sources + s];
        if (m->payload < at + bytes) {
            pithi_mpi_fail_text(ch, PITH_ERR_TRUNCATED, "a message is shorter than its frames");
            return false;
        }
        h->frames[s] = m->bytes + PITHI_MPI_HEADER + at;
        h->lengths[s] = (size_t)bytes;
    }
    return true;
}

/* ---- Sums of frames to frames ----------------------------------------------------------------*/

static bool recode_one(pith_mpi_channel *ch, uint32_t hop, uint64_t slice, uint32_t index) {
    struct pithi_mpi_hop *from = &ch->hop[hop - 1], *to = &ch->hop[hop];
    struct pithi_mpi_message *m = &to->out[slice * to->targets + index];
    const uint64_t slot = from->get.list[index] * ch->slices + slice;
    const uint64_t out_slot = to->put.list[index] * ch->slices + slice;
    size_t written = 0;
    if (!slot_count(from->decoder, slot)) return true;
    if (!find_frames(ch, from, slice, index)) return false;
    to->encoded = true;
    const pith_status status =
        pith_reduce_encode(from->decoder, NULL, slot, from->frames, from->lengths, from->sources,
                           to->shared ? ch->call.scale : 1.0f, to->encoder, to->state, out_slot,
                           m->bytes + PITHI_MPI_HEADER, m->cap - PITHI_MPI_HEADER, &written);
    hand_over(ch, to, slice, index, pithi_mpi_pad(written));
    return good(ch, from->decoder, status);
}

static void recode(pith_mpi_channel *ch, uint32_t hop, uint64_t slice) {
    const uint32_t count = ch->hop[hop - 1].get.first[1];
    for (uint32_t k = 0; k < count; k++)
        if (!recode_one(ch, hop, slice, k)) return;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static void decode_sum(pith_mpi_channel *ch, uint64_t slice) {
    struct pithi_mpi_hop *h = &ch->hop[ch->hops - 1];
    if (!slot_count(h->decoder, slice) || !find_frames(ch, h, slice, 0)) return;
    good(ch, h->decoder,
         pith_reduce(h->decoder, NULL, slice, h->frames, h->lengths, h->sources, ch->call.scale,
                     &ch->call.out));
}

/* The owner of a base holds the new one since it encoded. */
static pith_status own_base(pith_mpi_channel *ch, struct pithi_mpi_hop *h, uint64_t slot) {
    uint64_t first = 0, count = 0;
    pith_view piece;
    if (!ch->call.has_out) return PITH_OK;
    PITHI_MPI_TRY(pith_plan_slot(h->decoder, slot, &first, &count));
    if (pithi_mpi_cut(&ch->call.out, first, count, &piece))
        return pith_state_get_base(h->decoder, h->state, slot, &piece);
    ch->call.copy_all = true;
    return PITH_OK;
}

static pith_status decode_one(pith_mpi_channel *ch, struct pithi_mpi_hop *h, uint32_t source,
                              uint64_t slice) {
    const struct pithi_mpi_message *m = &h->in[slice * h->sources + source];
    const uint64_t slot = h->get.list[source] * ch->slices + slice;
    const void *frame = m->bytes + PITHI_MPI_HEADER;
    const size_t bytes = (size_t)m->payload;
    const pith_view *out = ch->call.has_out ? &ch->call.out : NULL;
    if (ch->o.kind == PITH_MPI_ALLREDUCE) /* takes any float view, which decoding may not */
        return pith_reduce(h->decoder, NULL, slot, &frame, &bytes, 1, 1.0f, out);
    if (ch->with_base && m->rank == ch->place.rank) return own_base(ch, h, slot);
    return pith_decode(h->decoder, h->decoder == h->encoder ? h->state : NULL, slot, frame, bytes,
                       out);
}

static void decode_each(pith_mpi_channel *ch, uint64_t slice) {
    struct pithi_mpi_hop *h = &ch->hop[ch->hops - 1];
    for (uint32_t s = 0; s < h->sources; s++) {
        if (!h->in[slice * h->sources + s].cap) continue;
        if (!good(ch, h->decoder, decode_one(ch, h, s, slice))) return;
    }
}

/* ---- All -------------------------------------------------------------------------------------*/

void pithi_mpi_stage(pith_mpi_channel *ch, uint32_t stage, uint64_t slice) {
    const double begin = pithi_mpi_now();
    double *time = &ch->report.encode_seconds;
    if (stage == 0) {
        encode(ch, slice);
    } else if (stage < ch->hops) {
        time = &ch->report.recode_seconds;
        recode(ch, stage, slice);
    } else {
        time = &ch->report.decode_seconds;
        if (ch->o.kind == PITH_MPI_REDUCE_SCATTER)
            decode_sum(ch, slice);
        else
            decode_each(ch, slice);
    }
    *time += pithi_mpi_now() - begin;
}
