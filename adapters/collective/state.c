/* state.c - what a channel remembers between calls: bases, residuals, and checkpoints of both.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

/* ---- Inside calls ----------------------------------------------------------------------------*/

static const struct pithi_collective_hop *base_hop(const pith_collective_channel *ch) {
    return &ch->hop[0];
}

static bool is_empty(const pith_collective_channel *ch, uint64_t slot) {
    uint64_t first, count = 0;
    return pith_plan_slot(base_hop(ch)->encoder, slot, &first, &count) || !count;
}

static uint64_t slots(const pith_collective_channel *ch) { return ch->slices * ch->place.ranks; }

/* Whether all slots have one next step, and which. Empty slots never move. */
static bool next_step(const pith_collective_channel *ch, uint64_t *step) {
    bool found = false;
    for (uint64_t i = 0; i < slots(ch); i++) {
        if (is_empty(ch, i)) continue;
        const uint64_t at = pith_stream_step(base_hop(ch)->encoding, i);
        if (found && at != *step) return false;
        *step = at;
        found = true;
    }
    return true;
}

/* Prepares the base for a call with key frames, which replace it as a whole: only its step must be
 * the others'. */
static void restart_base(pith_collective_channel *ch) {
    static const float zero = 0;
    pith_view view = pith_view_flat(&zero, PITH_F32, ch->o.count);
    view.stride[0] = 0;
    pithi_collective_good(
        ch, pith_stream_set_base(ch->work, base_hop(ch)->encoding, &view, ch->call.step));
}

static void begin_base(pith_collective_channel *ch) {
    uint64_t step = ch->call.step;
    const bool whole = next_step(ch, &step) && !ch->base_invalid;
    if ((ch->o.flags & PITH_COLLECTIVE_EXTERNAL_BASE) && !ch->base_bound)
        pithi_collective_fail_text(ch, PITH_ERR_STATE, "no base is bound");
    else if (ch->call.key_frame && (!whole || step != ch->call.step))
        restart_base(ch);
    else if (!whole)
        pithi_collective_fail_text(ch, PITH_ERR_STATE,
                                   "a failed call left the base invalid: key frames needed");
    else if (step != ch->call.step)
        pithi_collective_fail_text(ch, PITH_ERR_STEP, "the base has another next step");
}

/* Sets the step of a hop's streams. Steps grow by themselves, but where a call failed on some ranks
 * before it encoded; and a caller may go on from any step. */
static void begin_hop(pith_collective_channel *ch, struct pithi_collective_hop *h) {
    h->encoded = false;
    for (uint64_t i = 0; i < h->slots && !ch->with_base; i++) {
        if (pith_stream_step(h->encoding, i) == ch->call.step) continue;
        pithi_collective_good(ch, pith_stream_set_step(ch->work, h->encoding, i, ch->call.step));
    }
}

void pithi_collective_begin_streams(pith_collective_channel *ch) {
    for (uint32_t k = 0; k < ch->encoded_hops; k++) begin_hop(ch, &ch->hop[k]);
    if (ch->with_base && !ch->call.status) begin_base(ch);
}

void pithi_collective_end_streams(pith_collective_channel *ch, bool good) {
    if (good) pithi_collective_keep_words(ch);
    if (ch->with_base) { /* other ranks may have encoded where this one did not */
        ch->base_invalid = !good;
        return;
    }
    for (uint32_t k = 0; k < ch->encoded_hops && !good; k++) {
        if (!ch->hop[k].encoded) continue;
        const pith_status status =
            pith_stream_rollback(ch->work, ch->hop[k].encoding, ch->call.step);
        if (status && !ch->error.text[0]) ch->error = *pith_work_error(ch->work);
    }
}

/* ---- Bases -----------------------------------------------------------------------------------*/

/* The end of a local call that is not allowed, with the text that says why. */
static pith_status refused(pith_collective_channel *ch, pith_status status, const char *text) {
    pithi_collective_say(&ch->error, "%s", text);
    return status;
}

/* Begin of every local call: forgets the text of an earlier one. That of a call in flight stays. */
static pith_status begin_local(pith_collective_channel *ch, bool base) {
    if (!ch) return PITH_ERR_ARG;
    if (ch->busy) return PITH_ERR_BUSY;
    if (base && !ch->with_base) return refused(ch, PITH_ERR_STATE, "the channel has no base");
    pithi_collective_say(&ch->error, "%s", "");
    return PITH_OK;
}

/* Keeps the error of a local call where pith_collective_last_error finds it. */
static pith_status keep_error(pith_collective_channel *ch, pith_status status) {
    ch->error = *pith_work_error(ch->work);
    return status;
}

pith_status pith_collective_set_base(pith_collective_channel *ch, const pith_view *view,
                                     uint64_t step) {
    PITHI_COLLECTIVE_TRY(begin_local(ch, true));
    PITHI_COLLECTIVE_TRY(
        keep_error(ch, pith_stream_set_base(ch->work, base_hop(ch)->encoding, view, step)));
    ch->base_invalid = false;
    return PITH_OK;
}

pith_status pith_collective_bind_base(pith_collective_channel *ch, void *base, uint64_t step) {
    PITHI_COLLECTIVE_TRY(begin_local(ch, true));
    PITHI_COLLECTIVE_TRY(
        keep_error(ch, pith_stream_bind_base(ch->work, base_hop(ch)->encoding, base, step)));
    ch->base_invalid = false;
    ch->base_bound = true;
    return PITH_OK;
}

pith_status pith_collective_get_base(pith_collective_channel *ch, const pith_view *view) {
    PITHI_COLLECTIVE_TRY(begin_local(ch, true));
    if (!view) return refused(ch, PITH_ERR_ARG, "the view is NULL");
    if (view->ndim > PITH_MAX_NDIM || pith_view_count(view) != ch->o.count) {
        pithi_collective_say(&ch->error, "the view wants %llu elements, the base's",
                             (unsigned long long)ch->o.count);
        return PITH_ERR_SHAPE;
    }
    return keep_error(ch, pith_stream_get_base(ch->work, base_hop(ch)->encoding, 0, view));
}

uint64_t pith_collective_base_hash(const pith_collective_channel *ch) {
    uint64_t x = 0;
    if (!ch || !ch->with_base) return 0;
    for (uint64_t i = 0; i < slots(ch); i++) {
        if (is_empty(ch, i)) continue;
        const uint64_t of_slot[] = {pith_stream_base_hash(base_hop(ch)->encoding, i),
                                    pith_stream_step(base_hop(ch)->encoding, i)};
        x = pithi_collective_hash(of_slot, sizeof of_slot, x);
    }
    return x;
}

pith_status pith_collective_verify_base(pith_collective_channel *ch) {
    PITHI_COLLECTIVE_TRY(begin_local(ch, true));
    return keep_error(ch, pith_stream_verify(ch->work, base_hop(ch)->encoding));
}

/* ---- All hops --------------------------------------------------------------------------------*/

pith_status pith_collective_rollback(pith_collective_channel *ch, uint64_t step) {
    PITHI_COLLECTIVE_TRY(begin_local(ch, false));
    if (ch->with_base)
        return refused(ch, PITH_ERR_STATE, "steps of a channel with a base are not taken back");
    for (uint32_t k = 0; k < ch->encoded_hops; k++)
        PITHI_COLLECTIVE_TRY(
            keep_error(ch, pith_stream_rollback(ch->work, ch->hop[k].encoding, step)));
    pithi_collective_take_back_words(ch, step);
    return PITH_OK;
}

pith_status pith_collective_reset(pith_collective_channel *ch) {
    PITHI_COLLECTIVE_TRY(begin_local(ch, false));
    for (uint32_t k = 0; k < ch->encoded_hops; k++)
        PITHI_COLLECTIVE_TRY(keep_error(ch, pith_stream_reset(ch->work, ch->hop[k].encoding)));
    pithi_collective_reset_words(ch);
    ch->base_invalid = false;
    return PITH_OK;
}

pith_status pith_collective_stats(const pith_collective_channel *ch, uint32_t hop,
                                  pith_stats *out) {
    const pith_stats none = {.size = sizeof none};
    if (!ch || hop >= PITHI_COLLECTIVE_ENCODED) return PITH_ERR_ARG;
    for (uint32_t k = 0; k < ch->encoded_hops; k++)
        if (ch->hop[k].role == hop) return pith_stream_stats(ch->hop[k].encoding, out);
    return pithi_collective_give(out, &none, sizeof none);
}

/* ---- Residuals -------------------------------------------------------------------------------*/

/* A run of elements that one hop encodes: where it begins in the tensor, and in the tensor of the
 * encoder. */
struct run {
    uint64_t first, at, count;
};

/* Returns the part of [first, first + count) that lies in the shard of the k-th rank whose shards
 * the hop encodes; its count may be 0. *begin is where that shard begins in the encoder's tensor,
 * and moves to the next one. */
static struct run next_run(const pith_collective_channel *ch, const struct pithi_collective_hop *h,
                           uint32_t k, uint64_t first, uint64_t count, uint64_t *begin) {
    const uint64_t from = ch->first[h->encoded_of[k]], to = ch->first[h->encoded_of[k] + 1];
    const uint64_t low = first > from ? first : from;
    const uint64_t high = first + count < to ? first + count : to;
    const struct run run = {low, *begin + (low - from), high > low ? high - low : 0};
    *begin += to - from;
    return run;
}

static pith_status check_residual(pith_collective_channel *ch, uint64_t first, uint64_t count,
                                  const float *values) {
    PITHI_COLLECTIVE_TRY(begin_local(ch, false));
    if (count && !values) return refused(ch, PITH_ERR_ARG, "the values are NULL");
    if (first > ch->o.count || count > ch->o.count - first) {
        pithi_collective_say(&ch->error, "%llu elements from %llu on, of a tensor of %llu",
                             (unsigned long long)count, (unsigned long long)first,
                             (unsigned long long)ch->o.count);
        return PITH_ERR_ARG;
    }
    if (!ch->hop[0].encoded_of)
        return refused(ch, PITH_ERR_STATE, "error feedback is for reduce-scatter and all-reduce");
    return PITH_OK;
}

static bool has_residual(pith_collective_channel *ch, const struct pithi_collective_hop *h) {
    float none;
    const pith_view view = pith_view_flat(&none, PITH_F32, 0);
    return pith_stream_get_residual(ch->work, h->encoding, 0, &view) == PITH_OK;
}

/* Adds the residual of a run, some elements at a time, to out, which begins with its first
 * element. */
static pith_status add_run(pith_collective_channel *ch, const struct pithi_collective_hop *h,
                           struct run run, float factor, float *out) {
    float *const residual = ch->scratch;
    const uint64_t most = pithi_collective_slice_count(ch, ch->longest, 0);
    while (run.count) {
        const uint64_t n = run.count < most ? run.count : most;
        const pith_view view = pith_view_flat(residual, PITH_F32, n);
        PITHI_COLLECTIVE_TRY(
            keep_error(ch, pith_stream_get_residual(ch->work, h->encoding, run.at, &view)));
        for (uint64_t i = 0; i < n; i++) out[i] += factor * residual[i];
        run = (struct run){run.first + n, run.at + n, run.count - n};
        out += n;
    }
    return PITH_OK;
}

pith_status pith_collective_get_residual(pith_collective_channel *ch, uint64_t first,
                                         uint64_t count, float scale, float *out) {
    bool any = false;
    PITHI_COLLECTIVE_TRY(check_residual(ch, first, count, out));
    if (scale == 0) scale = 1;
    if (!(scale - scale == 0)) return refused(ch, PITH_ERR_ARG, "scale is not finite");
    for (uint64_t i = 0; i < count; i++) out[i] = 0;
    for (uint32_t k = 0; k < ch->encoded_hops; k++) {
        const struct pithi_collective_hop *const h = &ch->hop[k];
        uint64_t begin = 0;
        if (!has_residual(ch, h)) continue;
        any = true;
        for (uint32_t i = 0; i < h->encoded_count; i++) {
            const struct run run = next_run(ch, h, i, first, count, &begin);
            if (run.count)
                PITHI_COLLECTIVE_TRY(
                    add_run(ch, h, run, h->role == 2 ? 1 / scale : 1, out + (run.first - first)));
        }
    }
    return any ? PITH_OK : refused(ch, PITH_ERR_STATE, "no hop has error feedback");
}

pith_status pith_collective_set_residual(pith_collective_channel *ch, uint64_t first,
                                         uint64_t count, const float *values) {
    static const float zero = 0;
    PITHI_COLLECTIVE_TRY(check_residual(ch, first, count, values));
    const pith_view all = pith_view_flat(values, PITH_F32, count);
    PITHI_COLLECTIVE_TRY(
        keep_error(ch, pith_stream_set_residual(ch->work, ch->hop[0].encoding, first, &all)));
    for (uint32_t k = 1; k < ch->encoded_hops; k++) {
        const struct pithi_collective_hop *const h = &ch->hop[k];
        uint64_t begin = 0;
        if (!has_residual(ch, h)) continue;
        for (uint32_t i = 0; i < h->encoded_count; i++) {
            const struct run run = next_run(ch, h, i, first, count, &begin);
            pith_view none = pith_view_flat(&zero, PITH_F32, run.count);
            none.stride[0] = 0;
            if (run.count)
                PITHI_COLLECTIVE_TRY(
                    keep_error(ch, pith_stream_set_residual(ch->work, h->encoding, run.at, &none)));
        }
    }
    return PITH_OK;
}

/* ---- Checkpoints: magic, place, bytes of each hop's encoding stream, words, streams -----------*/

#define SAVE_MAGIC UINT64_C(0x5054485350434F32)

/* Whose state it is: numbers that the loading channel has, too. */
enum { RANK, RANKS, FIRST, COUNT, HOPS, PLACE };
static const char *const place_names[PLACE] = {"rank", "ranks", "first element of the shard",
                                               "elements of the shard", "hops"};

static void place_of(const pith_collective_channel *ch, uint64_t place[PLACE]) {
    place[RANK] = ch->place.rank;
    place[RANKS] = ch->place.ranks;
    place[FIRST] = ch->first[ch->place.rank];
    place[COUNT] = ch->first[ch->place.rank + 1] - place[FIRST];
    place[HOPS] = ch->encoded_hops;
}

static uint64_t words(const pith_collective_channel *ch) {
    return ch->sparse ? ch->sparse->word_count : 0;
}

/* Returns where the words begin. */
static uint64_t save_words(const pith_collective_channel *ch) {
    return 8 * (1 + PLACE + (uint64_t)ch->encoded_hops);
}

static uint64_t save_head(const pith_collective_channel *ch) {
    return save_words(ch) + 8 * words(ch);
}

static void put64(uint8_t *to, uint64_t x) {
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(x >> (8 * i));
}

static uint64_t get64(const uint8_t *from) {
    uint64_t x = 0;
    for (int i = 8; i-- > 0;) x = x << 8 | from[i];
    return x;
}

uint64_t pith_collective_save_bytes(const pith_collective_channel *ch) {
    if (!ch) return 0;
    uint64_t bytes = save_head(ch);
    for (uint32_t k = 0; k < ch->encoded_hops; k++) bytes += ch->hop[k].save_bytes;
    return bytes;
}

pith_status pith_collective_save(pith_collective_channel *ch, void *dst, size_t cap,
                                 size_t *written) {
    if (written) *written = 0;
    PITHI_COLLECTIVE_TRY(begin_local(ch, false));
    if (!dst || !written) return refused(ch, PITH_ERR_ARG, "dst or written is NULL");
    if (ch->base_invalid)
        return refused(ch, PITH_ERR_STATE, "a failed call left the base invalid: nothing to save");
    if (cap < pith_collective_save_bytes(ch)) {
        pithi_collective_say(&ch->error, "%llu bytes needed, %llu given",
                             (unsigned long long)pith_collective_save_bytes(ch),
                             (unsigned long long)cap);
        return PITH_ERR_SPACE;
    }
    uint8_t *head = dst;
    uint64_t at = save_head(ch), place[PLACE];
    place_of(ch, place);
    put64(head, SAVE_MAGIC);
    for (int i = 0; i < PLACE; i++) put64(head + 8 + 8 * i, place[i]);
    for (uint64_t i = 0; i < words(ch); i++)
        put64(head + save_words(ch) + 8 * i, ch->sparse->words[i]);
    for (uint32_t k = 0; k < ch->encoded_hops; k++) {
        size_t bytes = 0;
        PITHI_COLLECTIVE_TRY(keep_error(
            ch, pith_stream_save(ch->work, ch->hop[k].encoding, head + at, cap - at, &bytes)));
        put64(head + 8 * (1 + PLACE + k), bytes);
        at += bytes;
    }
    *written = (size_t)at;
    return PITH_OK;
}

/* Checks that streams of so many bytes as the head says end where the bytes do. */
static pith_status check_saved(pith_collective_channel *ch, const uint8_t *head, size_t bytes) {
    uint64_t left = bytes - save_head(ch);
    for (uint32_t k = 0; k < ch->encoded_hops; k++) {
        const uint64_t own = get64(head + 8 * (1 + PLACE + k));
        if (own > left) return refused(ch, PITH_ERR_TRUNCATED, "the saved state ends in a stream");
        left -= own;
    }
    return left ? refused(ch, PITH_ERR_CORRUPT, "bytes follow the saved state") : PITH_OK;
}

static pith_status load_streams(pith_collective_channel *ch, const uint8_t *head, size_t bytes) {
    uint64_t at = save_head(ch), place[PLACE];
    if (bytes < at) return refused(ch, PITH_ERR_TRUNCATED, "the saved state ends in its head");
    if (get64(head) != SAVE_MAGIC)
        return refused(ch, PITH_ERR_MAGIC, "not the state of a channel, or of another version");
    place_of(ch, place);
    for (int i = 0; i < PLACE; i++) {
        const uint64_t found = get64(head + 8 + 8 * i);
        if (found == place[i]) continue;
        pithi_collective_say(&ch->error, "%s: saved %llu, this channel's %llu", place_names[i],
                             (unsigned long long)found, (unsigned long long)place[i]);
        return PITH_ERR_MISMATCH;
    }
    PITHI_COLLECTIVE_TRY(check_saved(ch, head, bytes));
    for (uint32_t k = 0; k < ch->encoded_hops; k++) {
        const struct pithi_collective_hop *h = &ch->hop[k];
        const uint64_t own = get64(head + 8 * (1 + PLACE + k));
        PITHI_COLLECTIVE_TRY(
            keep_error(ch, pith_stream_load(ch->work, h->encoding, head + at, (size_t)own)));
        PITHI_COLLECTIVE_TRY(
            keep_error(ch, pith_stream_set_random(ch->work, h->encoding, &h->random)));
        at += own;
    }
    for (uint64_t i = 0; i < words(ch); i++)
        ch->sparse->next[i] = get64(head + save_words(ch) + 8 * i);
    if (words(ch) && !pithi_collective_take_words(ch, ch->sparse->next))
        return refused(ch, PITH_ERR_CORRUPT, "regions or a threshold that no channel has");
    return PITH_OK;
}

pith_status pith_collective_load(pith_collective_channel *ch, const void *src, size_t bytes) {
    PITHI_COLLECTIVE_TRY(begin_local(ch, false));
    if (!src) return refused(ch, PITH_ERR_ARG, "src is NULL");
    const pith_status status = load_streams(ch, src, bytes);
    if (!status) ch->base_invalid = false;
    /* Bases have one hop, whose stream has refused the bytes and is as it was. */
    if (!status || ch->with_base) return status;
    const pith_error why = ch->error;
    PITHI_COLLECTIVE_TRY(pith_collective_reset(ch));
    ch->error = why;
    return status;
}
