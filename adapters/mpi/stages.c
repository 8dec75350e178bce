/* stages.c - what is computed between the hops: encode, sums of frames to frames, decode.
 * SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

/* The status of a call of pith as this rank's. */
static bool good(pith_mpi_channel *ch, pith_status status) {
    if (status == PITH_OK) return true;
    pithi_mpi_fail(ch, status, (int)ch->place.rank, pith_work_error(ch->work));
    return false;
}

static uint64_t slot_count(const pith_plan *plan, uint64_t slot) {
    uint64_t first, count = 0;
    return pith_plan_slot(plan, slot, &first, &count) == PITH_OK ? count : 0;
}

/* The same of encoding the first n items: where one of them has a frame, its slot has moved on. */
static bool encoded(pith_mpi_channel *ch, struct pithi_mpi_hop *h, size_t n, pith_status status) {
    for (size_t i = 0; i < n; i++) h->encoded = h->encoded || ch->items[i].length;
    return good(ch, status);
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

/* From one frame of a message to the next. Where there are several they are of fixed rate, so that
 * their places follow from the plan. */
static uint64_t frame_stride(const pith_plan *plan, uint64_t slot) {
    return slot_count(plan, slot) ? pithi_mpi_pad(pith_plan_frame_bytes(plan, slot, 0)) : 0;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* The view to encode a slot from: the whole input, or, where the input is this rank's shard only,
 * one slice of it. */
static pith_view input_of(pith_mpi_channel *ch, uint64_t slice, uint64_t count) {
    const pith_view *in = &ch->call.in;
    const uint64_t first = slice * ch->slice;
    pith_view piece;
    if (ch->o.kind != PITH_MPI_ALLGATHER || pith_view_count(in) != ch->in_count) return *in;
    if (pithi_mpi_cut(in, first, count, &piece)) return piece;
    pithi_mpi_pack(in, first, count, ch->scratch);
    return pith_view_flat(ch->scratch, in->dtype, count);
}

/* Lists the frames of message t of the slice in items. */
static void list_message(pith_mpi_channel *ch, uint64_t slice, uint32_t t, pith_item *items) {
    const struct pithi_mpi_hop *h = &ch->hop[0];
    const struct pithi_mpi_message *m = &h->out[slice * h->targets + t];
    uint64_t at = PITHI_MPI_HEADER;
    for (uint32_t g = h->put.first[t]; g < h->put.first[t + 1]; g++) {
        const uint64_t slot = h->put.list[g] * ch->slices + slice;
        const uint64_t count = slot_count(h->encoder, slot);
        if (!count) continue;
        *items++ = (pith_item){.size = sizeof *items,
                               .stream = h->encoding,
                               .slot = slot,
                               .view = input_of(ch, slice, count),
                               .frame = m->bytes + at,
                               .capacity = (size_t)(m->cap - at)};
        at += frame_stride(h->encoder, slot);
    }
}

/* All frames of all messages of the slice in one call. */
static void encode(pith_mpi_channel *ch, uint64_t slice) {
    struct pithi_mpi_hop *h = &ch->hop[0];
    const uint32_t messages = h->shared ? 1 : h->targets;
    const struct pithi_mpi_message *const out = &h->out[slice * h->targets];
    size_t n = 0;
    for (uint32_t t = 0; t < messages; n += out[t++].frames)
        list_message(ch, slice, t, ch->items + n);
    const uint32_t flags = ch->call.key_frame ? PITH_KEY_FRAME : 0;
    if (!n || !encoded(ch, h, n, pith_encode(ch->work, ch->items, n, flags))) return;
    const pith_item *item = ch->items;
    for (uint32_t t = 0; t < messages; item += out[t++].frames) {
        if (!out[t].frames) continue;
        const pith_item *const last = &item[out[t].frames - 1];
        const uint8_t *const begin = out[t].bytes + PITHI_MPI_HEADER;
        const uint64_t before = (uint64_t)((const uint8_t *)last->frame - begin);
        hand_over(ch, h, slice, t, before + pithi_mpi_pad(last->length));
    }
}

/* ---- Sums of frames to frames ----------------------------------------------------------------*/

/* Lists the sum of one slot, whose frames stand at `at` behind the header in the messages of all
 * sources; false when a message is too short. */
static bool list_sum(pith_mpi_channel *ch, const struct pithi_mpi_hop *h, uint64_t slice,
                     uint64_t slot, uint64_t at, size_t number) {
    const void **const frames = h->frames + number * h->sources;
    size_t *const lengths = h->lengths + number * h->sources;
    const uint64_t bytes = pith_plan_frame_bytes(h->decoder, slot, 0);
    for (uint32_t s = 0; s < h->sources; s++) {
        const struct pithi_mpi_message *m = &h->in[slice * h->sources + s];
        if (m->payload < at + bytes) {
            pithi_mpi_fail_text(ch, PITH_ERR_TRUNCATED, "a message is shorter than its frames");
            return false;
        }
        frames[s] = m->bytes + PITHI_MPI_HEADER + at;
        lengths[s] = (size_t)bytes;
    }
    ch->sums[number] = (pith_sum){.size = sizeof *ch->sums,
                                  .stream = h->decoding,
                                  .slot = slot,
                                  .frames = frames,
                                  .lengths = lengths,
                                  .count = h->sources};
    return true;
}

/* Sum k of what the hop before brought is the frame of message k; where all targets share it there
 * is one. */
static bool list_recode(pith_mpi_channel *ch, uint32_t hop, uint64_t slice, uint32_t k, uint64_t at,
                        size_t number) {
    const struct pithi_mpi_hop *from = &ch->hop[hop - 1], *to = &ch->hop[hop];
    const struct pithi_mpi_message *m = &to->out[slice * to->targets + k];
    if (!list_sum(ch, from, slice, from->get.list[k] * ch->slices + slice, at, number))
        return false;
    ch->sums[number].scale = to->shared ? ch->call.scale : 1.0f;
    ch->items[number] = (pith_item){.size = sizeof *ch->items,
                                    .stream = to->encoding,
                                    .slot = to->put.list[k] * ch->slices + slice,
                                    .frame = m->bytes + PITHI_MPI_HEADER,
                                    .capacity = (size_t)(m->cap - PITHI_MPI_HEADER)};
    return true;
}

static void recode(pith_mpi_channel *ch, uint32_t hop, uint64_t slice) {
    struct pithi_mpi_hop *from = &ch->hop[hop - 1], *to = &ch->hop[hop];
    const struct pithi_mpi_message *const out = &to->out[slice * to->targets];
    uint64_t at = 0;
    size_t n = 0;
    for (uint32_t k = 0; k < from->get.first[1]; k++) {
        if (!out[k].frames) continue;
        if (!list_recode(ch, hop, slice, k, at, n++)) return;
        at += frame_stride(from->decoder, from->get.list[k] * ch->slices + slice);
    }
    if (!n || !encoded(ch, to, n, pith_reduce_encode(ch->work, ch->sums, ch->items, n))) return;
    const pith_item *item = ch->items;
    for (uint32_t k = 0; k < from->get.first[1]; k++)
        if (out[k].frames) hand_over(ch, to, slice, k, pithi_mpi_pad(item++->length));
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static void decode_sum(pith_mpi_channel *ch, uint64_t slice) {
    const struct pithi_mpi_hop *h = &ch->hop[ch->hops - 1];
    if (!slot_count(h->decoder, slice) || !list_sum(ch, h, slice, slice, 0, 0)) return;
    ch->sums->scale = ch->call.scale;
    ch->sums->view = ch->call.out;
    good(ch, pith_reduce(ch->work, ch->sums, 1));
}

/* The owner of a base holds the new one since it encoded. */
static pith_status own_base(pith_mpi_channel *ch, const struct pithi_mpi_hop *h, uint64_t slot) {
    uint64_t first = 0, count = 0;
    pith_view piece;
    if (!ch->call.has_out) return PITH_OK;
    PITHI_MPI_TRY(pith_plan_slot(h->decoder, slot, &first, &count));
    if (pithi_mpi_cut(&ch->call.out, first, count, &piece))
        return pith_stream_get_base(ch->work, h->decoding, slot, &piece);
    ch->call.copy_all = true;
    return PITH_OK;
}

/* One frame of every source: all-reduce takes any float view, which decoding may not, and so its
 * frames are sums of one. */
static pith_status decode_list(pith_mpi_channel *ch, const struct pithi_mpi_hop *h, size_t n) {
    if (!n) return PITH_OK;
    if (ch->o.kind != PITH_MPI_ALLREDUCE) return pith_decode(ch->work, ch->items, n, 0);
    for (size_t i = 0; i < n; i++) {
        const pith_item *const item = &ch->items[i];
        h->frames[i] = item->frame;
        h->lengths[i] = item->length;
        ch->sums[i] = (pith_sum){.size = sizeof *ch->sums,
                                 .stream = item->stream,
                                 .slot = item->slot,
                                 .frames = &h->frames[i],
                                 .lengths = &h->lengths[i],
                                 .count = 1,
                                 .scale = 1.0f,
                                 .view = item->view};
    }
    return pith_reduce(ch->work, ch->sums, n);
}

static void decode_each(pith_mpi_channel *ch, uint64_t slice) {
    const struct pithi_mpi_hop *h = &ch->hop[ch->hops - 1];
    size_t n = 0;
    for (uint32_t s = 0; s < h->sources; s++) {
        const struct pithi_mpi_message *m = &h->in[slice * h->sources + s];
        const uint64_t slot = h->get.list[s] * ch->slices + slice;
        if (!m->frames) continue;
        if (ch->with_base && m->rank == ch->place.rank) {
            if (!good(ch, own_base(ch, h, slot))) return;
            continue;
        }
        pith_item *const item = &ch->items[n++];
        *item = (pith_item){.size = sizeof *item,
                            .stream = h->decoding,
                            .slot = slot,
                            .frame = m->bytes + PITHI_MPI_HEADER,
                            .length = (size_t)m->payload};
        if (ch->call.has_out) item->view = ch->call.out;
    }
    good(ch, decode_list(ch, h, n));
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
