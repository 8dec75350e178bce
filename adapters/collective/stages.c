/* stages.c - what is computed between hops: encode and decode; sums are in reduce_scatter.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "hops.h"

uint64_t pithi_collective_slot_count(const pith_plan *plan, uint64_t slot) {
    uint64_t first, count = 0;
    return pith_plan_slot(plan, slot, &first, &count) == PITH_OK ? count : 0;
}

bool pithi_collective_note_encoded(pith_collective_channel *ch, struct pithi_collective_hop *h,
                                   const pith_item *items, size_t n, pith_status status) {
    for (size_t i = 0; i < n; i++) h->encoded = h->encoded || items[i].length;
    return pithi_collective_good(ch, status);
}

void pithi_collective_hand_over(pith_collective_channel *ch, struct pithi_collective_hop *h,
                                uint64_t slice, uint32_t number, uint64_t payload) {
    struct pithi_collective_message *out = h->out + slice * h->targets;
    struct pithi_collective_message *in = h->in + slice * h->sources;
    for (uint32_t t = number; t < (h->shared ? h->targets : number + 1); t++) {
        out[t].payload = payload;
        if (out[t].rank != ch->place.rank) continue;
        for (uint32_t s = 0; s < h->sources; s++)
            if (in[s].rank == ch->place.rank) in[s].payload = payload;
    }
}

uint64_t pithi_collective_frame_stride(const pith_plan *plan, uint64_t slot) {
    return pithi_collective_slot_count(plan, slot)
               ? pithi_collective_pad(pith_plan_frame_bytes(plan, slot, 0))
               : 0;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

bool pithi_collective_input_of(const pith_collective_channel *ch, uint64_t slot, uint64_t slice,
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
    return !n || pithi_collective_note_encoded(ch, b->hop, items, n,
                                               pith_encode(ch->work, items, n, flags));
}

/* Lists the frames of message t of the slice. */
static bool list_message(pith_collective_channel *ch, uint64_t slice, uint32_t t, struct batch *b) {
    const struct pithi_collective_hop *h = b->hop;
    const struct pithi_collective_message *m = &h->out[slice * h->targets + t];
    uint64_t at = PITHI_COLLECTIVE_HEADER, first = 0, count = 0;
    for (uint32_t g = h->put.first[t]; g < h->put.first[t + 1]; g++) {
        const uint64_t slot = h->put.list[g] * ch->slices + slice;
        if (!pithi_collective_slot_count(h->encoder, slot)) continue;
        pith_item *const item = &ch->items[b->listed];
        *item = (pith_item){.size = sizeof *item,
                            .stream = h->encoding,
                            .slot = slot,
                            .frame = m->bytes + at,
                            .capacity = (size_t)(m->cap - at)};
        at += pithi_collective_frame_stride(h->encoder, slot);
        b->listed++;
        if (pithi_collective_input_of(ch, slot, slice, &first, &count, &item->view)) continue;
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
        pithi_collective_hand_over(ch, h, slice, t, before + pithi_collective_pad(last->length));
    }
}

/* ---- Decode ----------------------------------------------------------------------------------*/

bool pithi_collective_output_of(const pith_collective_channel *ch,
                                const struct pithi_collective_hop *h, uint64_t slot,
                                pith_view *view) {
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

void pithi_collective_copy_out(const pith_collective_channel *ch,
                               const struct pithi_collective_hop *h, uint64_t slot) {
    uint64_t first = 0, count = 0;
    pith_plan_slot(h->decoder, slot, &first, &count);
    pithi_collective_unpack(&ch->call.out, first, count, ch->scratch);
}

/* Whether the base of each item's slot is that after this call: a key frame brings any step. */
static bool follow(pith_collective_channel *ch, const pith_item *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (pith_stream_step(items[i].stream, items[i].slot) == ch->call.step + 1) continue;
        pithi_collective_fail_text(ch, PITH_ERR_STEP, "a key frame of another step arrived");
        return false;
    }
    return true;
}

/* Decodes n frames, each of another source. */
static bool decode_list(pith_collective_channel *ch, const struct pithi_collective_hop *h,
                        pith_item *items, size_t n) {
    if (!n) return true;
    if (ch->o.kind == PITH_COLLECTIVE_ALLREDUCE)
        return pithi_collective_decode_finished(ch, h, items, n);
    return pithi_collective_good(ch, pith_decode(ch->work, items, n, 0)) &&
           (!ch->with_base || follow(ch, items, n));
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
            if (!pithi_collective_own_base(ch, h, slot)) return;
            continue;
        }
        pith_item *const item = &ch->items[n];
        *item = (pith_item){.size = sizeof *item,
                            .stream = h->decoding,
                            .slot = slot,
                            .frame = m->bytes + PITHI_COLLECTIVE_HEADER,
                            .length = (size_t)m->payload};
        if (ch->call.has_out && !pithi_collective_output_of(ch, h, slot, &item->view)) {
            if (!decode_list(ch, h, item, 1)) return;
            pithi_collective_copy_out(ch, h, slot);
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
            pithi_collective_forward(ch, &ch->hop[stage], slice);
        else
            pithi_collective_recode(ch, stage, slice);
    } else {
        time = &ch->report.decode_seconds;
        if (ch->o.kind == PITH_COLLECTIVE_REDUCE_SCATTER)
            pithi_collective_decode_sum(ch, slice);
        else
            for (uint32_t k = ch->encoded_hops - 1; k < ch->hops && !ch->call.status; k++)
                decode_each(ch, &ch->hop[k], slice);
    }
    *time += pithi_collective_now() - begin;
    ch->report.cpu_seconds += pithi_collective_cpu() - begin_cpu;
}
