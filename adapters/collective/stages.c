/* stages.c - what is computed between the hops: encode, sums of frames to frames, decode.
 * SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

static uint64_t slot_count(const pith_plan *plan, uint64_t slot) {
    uint64_t first, count = 0;
    return pith_plan_slot(plan, slot, &first, &count) == PITH_OK ? count : 0;
}

/* Notes that n items were encoded, with this status: the slot of every item that has a frame has
 * moved on, also where the call failed. */
static bool encoded(pith_collective_channel *ch, struct pithi_collective_hop *h,
                    const pith_item *items, size_t n, pith_status status) {
    for (size_t i = 0; i < n; i++) h->encoded = h->encoded || items[i].length;
    return pithi_collective_good(ch, status);
}

/* Hands over the bytes of a message: to every target when they share them, and to this rank without
 * travelling. */
static void hand_over(pith_collective_channel *ch, struct pithi_collective_hop *h, uint64_t slice,
                      uint32_t from, uint64_t payload) {
    struct pithi_collective_message *out = h->out + slice * h->targets;
    struct pithi_collective_message *in = h->in + slice * h->sources;
    for (uint32_t t = from; t < (h->shared ? h->targets : from + 1); t++) {
        out[t].payload = payload;
        if (out[t].rank != ch->place.rank) continue;
        for (uint32_t s = 0; s < h->sources; s++)
            if (in[s].rank == ch->place.rank) in[s].payload = payload;
    }
}

/* Returns the bytes from one frame of a message to the next. Where a message has several they are
 * of fixed rate, so that their places follow from the plan. */
static uint64_t frame_stride(const pith_plan *plan, uint64_t slot) {
    return slot_count(plan, slot) ? pithi_collective_pad(pith_plan_frame_bytes(plan, slot, 0)) : 0;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Finds the view from which a slot is encoded. True where it lies as it is: in a tensor of which
 * pith takes the slot, or in a part of one. Otherwise `view` is the scratch memory, which has yet
 * to be filled. */
static bool input_of(const pith_collective_channel *ch, uint64_t slot, uint64_t slice,
                     uint64_t *first, uint64_t *count, pith_view *view) {
    const struct pithi_collective_list *in = &ch->call.in;
    const bool shard = ch->o.kind == PITH_COLLECTIVE_ALLGATHER && !ch->call.whole_in;
    pith_plan_slot(ch->hop[0].encoder, slot, first, count);
    if (shard) *first = slice * ch->slice;
    if (in->count == 1 && !shard) {
        *view = in->views[0];
        return true;
    }
    if (pithi_collective_cut(in, *first, *count, view)) return true;
    *view = pith_view_flat(ch->scratch, in->views[0].dtype, *count);
    return false;
}

/* The slots of a slice. They are encoded in one call, but for those that have to be copied first:
 * there is memory for one of them at a time, so that nothing may wait behind one. */
struct batch {
    struct pithi_collective_hop *hop;
    size_t waiting, listed; /* items [waiting, listed) are not encoded yet */
};

static bool flush(pith_collective_channel *ch, struct batch *b) {
    pith_item *const items = ch->items + b->waiting;
    const size_t n = b->listed - b->waiting;
    const uint32_t flags = ch->call.key_frame ? PITH_KEY_FRAME : 0;
    b->waiting = b->listed;
    return !n || encoded(ch, b->hop, items, n, pith_encode(ch->work, items, n, flags));
}

/* Lists the frames of message t of the slice. */
static bool list_message(pith_collective_channel *ch, uint64_t slice, uint32_t t, struct batch *b) {
    const struct pithi_collective_hop *h = b->hop;
    const struct pithi_collective_message *m = &h->out[slice * h->targets + t];
    uint64_t at = PITHI_COLLECTIVE_HEADER, first = 0, count = 0;
    for (uint32_t g = h->put.first[t]; g < h->put.first[t + 1]; g++) {
        const uint64_t slot = h->put.list[g] * ch->slices + slice;
        if (!slot_count(h->encoder, slot)) continue;
        pith_item *const item = &ch->items[b->listed];
        *item = (pith_item){.size = sizeof *item,
                            .stream = h->encoding,
                            .slot = slot,
                            .frame = m->bytes + at,
                            .capacity = (size_t)(m->cap - at)};
        at += frame_stride(h->encoder, slot);
        b->listed++;
        if (input_of(ch, slot, slice, &first, &count, &item->view)) continue;
        pithi_collective_pack(&ch->call.in, first, count, ch->scratch);
        if (!flush(ch, b)) return false;
    }
    return true;
}

static void encode(pith_collective_channel *ch, uint64_t slice) {
    struct pithi_collective_hop *h = &ch->hop[0];
    const uint32_t messages = h->shared ? 1 : h->targets;
    const struct pithi_collective_message *const out = &h->out[slice * h->targets];
    struct batch batch = {.hop = h};
    for (uint32_t t = 0; t < messages; t++)
        if (!list_message(ch, slice, t, &batch)) return;
    if (!flush(ch, &batch)) return;
    const pith_item *item = ch->items;
    for (uint32_t t = 0; t < messages; item += out[t++].frames) {
        if (!out[t].frames) continue;
        const pith_item *const last = &item[out[t].frames - 1];
        const uint8_t *const begin = out[t].bytes + PITHI_COLLECTIVE_HEADER;
        const uint64_t before = (uint64_t)((const uint8_t *)last->frame - begin);
        hand_over(ch, h, slice, t, before + pithi_collective_pad(last->length));
    }
}

/* ---- Sums of frames to frames ----------------------------------------------------------------*/

/* Lists the sum of one slot, whose frames stand at `at` behind the header in the messages of all
 * sources; false when a message is too short. */
static bool list_sum(pith_collective_channel *ch, const struct pithi_collective_hop *h,
                     uint64_t slice, uint64_t slot, uint64_t at, size_t number) {
    const void **const frames = h->frames + number * h->sources;
    size_t *const lengths = h->lengths + number * h->sources;
    const uint64_t bytes = pith_plan_frame_bytes(h->decoder, slot, 0);
    for (uint32_t s = 0; s < h->sources; s++) {
        const struct pithi_collective_message *m = &h->in[slice * h->sources + s];
        if (m->payload < at + bytes) {
            pithi_collective_fail_text(ch, PITH_ERR_TRUNCATED,
                                       "a message is shorter than its frames");
            return false;
        }
        frames[s] = m->bytes + PITHI_COLLECTIVE_HEADER + at;
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

/* Lists a sum and what it is encoded to: sum k of what the hop before brought is the frame of
 * message k. Where all targets share it there is one. */
static bool list_recode(pith_collective_channel *ch, uint32_t hop, uint64_t slice, uint32_t k,
                        uint64_t at, size_t number) {
    const struct pithi_collective_hop *from = &ch->hop[hop - 1], *to = &ch->hop[hop];
    const struct pithi_collective_message *m = &to->out[slice * to->targets + k];
    if (!list_sum(ch, from, slice, from->get.list[k] * ch->slices + slice, at, number))
        return false;
    ch->sums[number].scale = to->shared ? ch->call.scale : 1.0f;
    ch->items[number] = (pith_item){.size = sizeof *ch->items,
                                    .stream = to->encoding,
                                    .slot = to->put.list[k] * ch->slices + slice,
                                    .frame = m->bytes + PITHI_COLLECTIVE_HEADER,
                                    .capacity = (size_t)(m->cap - PITHI_COLLECTIVE_HEADER)};
    return true;
}

static void recode(pith_collective_channel *ch, uint32_t hop, uint64_t slice) {
    struct pithi_collective_hop *from = &ch->hop[hop - 1], *to = &ch->hop[hop];
    const struct pithi_collective_message *const out = &to->out[slice * to->targets];
    uint64_t at = 0;
    size_t n = 0;
    for (uint32_t k = 0; k < from->get.first[1]; k++) {
        if (!out[k].frames) continue;
        if (!list_recode(ch, hop, slice, k, at, n++)) return;
        at += frame_stride(from->decoder, from->get.list[k] * ch->slices + slice);
    }
    if (!n) return;
    const pith_status status = pith_reduce_encode(ch->work, ch->sums, ch->items, n);
    if (!encoded(ch, to, ch->items, n, status)) return;
    const pith_item *item = ch->items;
    for (uint32_t k = 0; k < from->get.first[1]; k++)
        if (out[k].frames) hand_over(ch, to, slice, k, pithi_collective_pad(item++->length));
}

/* Takes what the hop before has brought from other nodes as it is: the buffers are the same. */
static void forward(pith_collective_channel *ch, struct pithi_collective_hop *h, uint64_t slice) {
    struct pithi_collective_message *const out = &h->out[slice * h->targets];
    for (uint32_t t = 0; t < h->targets; t++)
        out[t].payload = pithi_collective_forwarded(ch, slice, t)->payload;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* Finds the view to which a slot is decoded. True where that is its final place; otherwise `view`
 * is the scratch memory, from which it is copied afterwards. */
static bool output_of(const pith_collective_channel *ch, const struct pithi_collective_hop *h,
                      uint64_t slot, pith_view *view) {
    const struct pithi_collective_list *out = &ch->call.out;
    uint64_t first = 0, count = 0;
    if (out->count == 1) {
        *view = out->views[0];
        return true;
    }
    pith_plan_slot(h->decoder, slot, &first, &count);
    if (pithi_collective_cut(out, first, count, view)) return true;
    *view = pith_view_flat(ch->scratch, out->views[0].dtype, count);
    return false;
}

static void copy_out(const pith_collective_channel *ch, const struct pithi_collective_hop *h,
                     uint64_t slot) {
    uint64_t first = 0, count = 0;
    pith_plan_slot(h->decoder, slot, &first, &count);
    pithi_collective_unpack(&ch->call.out, first, count, ch->scratch);
}

static void decode_sum(pith_collective_channel *ch, uint64_t slice) {
    const struct pithi_collective_hop *h = &ch->hop[ch->hops - 1];
    if (!slot_count(h->decoder, slice) || !list_sum(ch, h, slice, slice, 0, 0)) return;
    ch->sums->scale = ch->call.scale;
    const bool in_place = output_of(ch, h, slice, &ch->sums->view);
    if (pithi_collective_good(ch, pith_reduce(ch->work, ch->sums, 1)) && !in_place)
        copy_out(ch, h, slice);
}

/* Puts this rank's own shard into the output. The owner of a base holds the new one since it
 * encoded. */
static bool own_base(pith_collective_channel *ch, const struct pithi_collective_hop *h,
                     uint64_t slot) {
    const struct pithi_collective_list *out = &ch->call.out;
    uint64_t first = 0, count = 0;
    pith_view run;
    if (!ch->call.has_out) return true;
    pith_plan_slot(h->decoder, slot, &first, &count);
    const bool in_place = pithi_collective_cut(out, first, count, &run);
    if (!in_place) run = pith_view_flat(ch->scratch, out->views[0].dtype, count);
    if (!pithi_collective_good(ch, pith_stream_get_base(ch->work, h->decoding, slot, &run)))
        return false;
    if (!in_place) copy_out(ch, h, slot);
    return true;
}

/* Decodes n frames, each of another source. All-reduce takes any float view, which decoding may
 * not, so its frames are decoded as sums of one frame. */
static bool decode_list(pith_collective_channel *ch, const struct pithi_collective_hop *h,
                        pith_item *items, size_t n) {
    if (!n) return true;
    if (ch->o.kind != PITH_COLLECTIVE_ALLREDUCE)
        return pithi_collective_good(ch, pith_decode(ch->work, items, n, 0));
    for (size_t i = 0; i < n; i++) {
        h->frames[i] = items[i].frame;
        h->lengths[i] = items[i].length;
        ch->sums[i] = (pith_sum){.size = sizeof *ch->sums,
                                 .stream = items[i].stream,
                                 .slot = items[i].slot,
                                 .frames = &h->frames[i],
                                 .lengths = &h->lengths[i],
                                 .count = 1,
                                 .scale = 1.0f,
                                 .view = items[i].view};
    }
    return pithi_collective_good(ch, pith_reduce(ch->work, ch->sums, n));
}

/* Decodes the frames that a hop brought in one call, but for those that go through the scratch
 * memory. */
static void decode_each(pith_collective_channel *ch, const struct pithi_collective_hop *h,
                        uint64_t slice) {
    size_t n = 0;
    for (uint32_t s = 0; s < h->sources; s++) {
        const struct pithi_collective_message *m = &h->in[slice * h->sources + s];
        const uint64_t slot = h->get.list[s] * ch->slices + slice;
        if (!m->frames) continue;
        if (ch->with_base && m->rank == ch->place.rank) {
            if (!own_base(ch, h, slot)) return;
            continue;
        }
        pith_item *const item = &ch->items[n];
        *item = (pith_item){.size = sizeof *item,
                            .stream = h->decoding,
                            .slot = slot,
                            .frame = m->bytes + PITHI_COLLECTIVE_HEADER,
                            .length = (size_t)m->payload};
        if (ch->call.has_out && !output_of(ch, h, slot, &item->view)) {
            if (!decode_list(ch, h, item, 1)) return;
            copy_out(ch, h, slot);
        } else {
            n++;
        }
    }
    decode_list(ch, h, ch->items, n);
}

/* ---- All -------------------------------------------------------------------------------------*/

void pithi_collective_stage(pith_collective_channel *ch, uint32_t stage, uint64_t slice) {
    const double begin = pithi_collective_now(), begin_cpu = pithi_collective_cpu();
    double *time = &ch->report.encode_seconds;
    if (ch->sparse) {
        if (stage)
            time = stage < ch->hops ? &ch->report.recode_seconds : &ch->report.decode_seconds;
        pithi_collective_sparse_stage(ch, stage);
    } else if (stage == 0) {
        encode(ch, slice);
    } else if (stage < ch->hops) {
        time = &ch->report.recode_seconds;
        if (ch->hop[stage].forwarded)
            forward(ch, &ch->hop[stage], slice);
        else
            recode(ch, stage, slice);
    } else {
        time = &ch->report.decode_seconds;
        if (ch->o.kind == PITH_COLLECTIVE_REDUCE_SCATTER)
            decode_sum(ch, slice);
        else
            for (uint32_t k = ch->encoded_hops - 1; k < ch->hops && !ch->call.status; k++)
                decode_each(ch, &ch->hop[k], slice);
    }
    *time += pithi_collective_now() - begin;
    ch->report.cpu_seconds += pithi_collective_cpu() - begin_cpu;
}
