/* plans.c - plans over runs of the tensor, with the exempt ranges moved along.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

/* Lists the exempt ranges as they lie in the runs, laid end to end: at most one for each range and
 * one for each run, since both lists ascend. Returns how many there are. */
static size_t move_exempt(const pith_collective_channel *ch,
                          const struct pithi_collective_run *runs, uint64_t count,
                          pith_exempt *to) {
    const pith_exempt *e = ch->o.exempt, *const last = e + ch->o.exempt_count;
    size_t made = 0;
    uint64_t at = 0;
    for (uint64_t i = 0; i < count; at += runs[i++].count) {
        const uint64_t from = runs[i].first, end = from + runs[i].count;
        while (e < last && e->first + e->count <= from) e++;
        for (const pith_exempt *k = e; k < last && k->first < end; k++) {
            const uint64_t low = k->first > from ? k->first : from;
            const uint64_t high = k->first + k->count < end ? k->first + k->count : end;
            if (low < high) to[made++] = (pith_exempt){at + low - from, high - low, k->how};
        }
    }
    return made;
}

static pith_status create(pith_collective_channel *ch, const char *spec, pith_layout *layout,
                          const struct pithi_collective_run *runs, uint64_t count, uint64_t *counts,
                          const pith_plan **plan, pith_error *error) {
    for (uint64_t i = 0; i < count; i++) layout->shape[0] += counts[i] = runs[i].count;
    layout->slots = count;
    layout->slot_counts = counts;
    return pith_plan_create(plan, spec, layout, &ch->env, error);
}

/* Makes a plan over runs. Memory that only creation needs stays with the channel: it is small, and
 * there is one way to free memory. */
pith_status pithi_collective_make_plan(pith_collective_channel *ch, const char *spec,
                                       uint32_t dtype, const struct pithi_collective_run *runs,
                                       uint64_t count, const pith_plan **plan, pith_error *error) {
    pith_layout layout = {.size = sizeof layout,
                          .dtype = dtype,
                          .base_dtype = ch->o.base_dtype,
                          .ndim = 1,
                          .flags = PITH_LAYOUT_CHECKSUMS};
    if (ch->o.flags & PITH_COLLECTIVE_EXTERNAL_BASE) layout.flags |= PITH_LAYOUT_EXTERNAL_BASE;
    uint64_t *counts = pithi_collective_take(ch, count, sizeof *counts);
    if (!counts) return PITH_ERR_MEMORY;
    if (ch->o.exempt_count && ch->packed) {
        pith_exempt *moved = pithi_collective_take(ch, count + ch->o.exempt_count, sizeof *moved);
        if (!moved) return PITH_ERR_MEMORY;
        layout.exempt_count = move_exempt(ch, runs, count, moved);
        layout.exempt = layout.exempt_count ? moved : NULL;
    }
    return create(ch, spec, &layout, runs, count, counts, plan, error);
}

/* ---- Specs of decoders -----------------------------------------------------------------------*/

static bool is_stream_key(const char *codec, size_t codec_length, const char *key,
                          size_t key_length) {
    pith_codec_info c = {.size = sizeof c};
    pith_key_info k = {.size = sizeof k};
    uint32_t i = 0;
    while (!pith_codec_at(i, &c) &&
           (strlen(c.name) != codec_length || memcmp(c.name, codec, codec_length)))
        i++;
    for (uint32_t j = 0; !pith_codec_key_at(i, j, &k); j++)
        if (strlen(k.name) == key_length && !memcmp(k.name, key, key_length))
            return k.traits & PITH_KEY_STREAM;
    return false;
}

/* Removes keys that have an effect on streams alone: they make an encoder's stream large, as error
 * feedback does with its residual, and say nothing of frames. */
pith_status pithi_collective_decoder_spec(const char *spec, char text[PITH_SPEC_MAX],
                                          pith_error *error) {
    char whole[PITH_SPEC_MAX];
    PITHI_COLLECTIVE_TRY(pith_spec_check(spec, whole, sizeof whole, error));
    const size_t name = strcspn(whole, ":");
    size_t length = name;
    memcpy(text, whole, name);
    for (const char *from = whole + name; *from;) {
        const size_t own = 1 + strcspn(from + 1, ","); /* with the colon or comma before it */
        if (!is_stream_key(whole, name, from + 1, strcspn(from + 1, "="))) {
            memcpy(text + length, from, own);
            text[length] = length == name ? ':' : ',';
            length += own;
        }
        from += own;
    }
    text[length] = 0;
    return PITH_OK;
}

/* ---- Streams and work ------------------------------------------------------------------------*/

static pith_status make_stream(pith_collective_channel *ch, const pith_plan *plan,
                               const pith_stream_options *options, pith_stream **stream,
                               pith_sizes *sizes, pith_error *error) {
    PITHI_COLLECTIVE_TRY(pith_plan_sizes(plan, sizes));
    void *memory = pithi_collective_take(ch, 1, sizes->stream_bytes);
    if (!memory) return PITH_ERR_MEMORY;
    return pith_stream_init(plan, memory, (size_t)sizes->stream_bytes, options, stream, error);
}

pith_status pithi_collective_make_streams(pith_collective_channel *ch,
                                          struct pithi_collective_hop *h, pith_error *error) {
    pith_sizes sizes = {.size = sizeof sizes};
    PITHI_COLLECTIVE_TRY(make_stream(ch, h->encoder, &h->random, &h->encoding, &sizes, error));
    h->slots = sizes.slots;
    h->save_bytes = sizes.save_bytes;
    h->decoding = h->encoding;
    if (h->decoder == h->encoder) return PITH_OK;
    return make_stream(ch, h->decoder, NULL, &h->decoding, &sizes, error);
}

pith_status pithi_collective_make_work(pith_collective_channel *ch, const pith_plan *const *plans,
                                       size_t count, pith_error *error) {
    const uint64_t bytes = pith_work_bytes(plans, count, ch->env.threads);
    void *memory = pithi_collective_take(ch, 1, bytes);
    if (!memory) return PITH_ERR_MEMORY;
    return pith_work_init(memory, (size_t)bytes, &ch->env, &ch->work, error);
}

/* ---- What ranks compare ----------------------------------------------------------------------*/

/* Plans of hops have the slots that a rank sends or gets, which differ; for each hop this takes a
 * plan of one slot, the longest that any rank has. Its fingerprint says what frames mean; its spec
 * says what streams do besides. */
pith_status pithi_collective_fingerprints(pith_collective_channel *ch,
                                          uint64_t to[PITHI_COLLECTIVE_ENCODED],
                                          pith_error *error) {
    const struct pithi_collective_run run = {
        0, pithi_collective_slice_count(ch, ch->longest_of_all, 0)};
    memset(to, 0, PITHI_COLLECTIVE_ENCODED * sizeof *to);
    for (uint32_t k = 0; k < ch->encoded_hops; k++) {
        const pith_plan *const encoder = ch->hop[k].encoder, *plan;
        pith_layout layout = {.size = sizeof layout};
        char spec[PITH_SPEC_MAX];
        PITHI_COLLECTIVE_TRY(pith_plan_layout(encoder, &layout));
        PITHI_COLLECTIVE_TRY(pith_plan_spec(encoder, spec, sizeof spec));
        PITHI_COLLECTIVE_TRY(
            pithi_collective_make_plan(ch, spec, layout.dtype, &run, 1, &plan, error));
        to[k] = pithi_collective_hash(spec, strlen(spec), pith_plan_fingerprint(plan));
        pith_plan_destroy(plan);
    }
    return PITH_OK;
}
