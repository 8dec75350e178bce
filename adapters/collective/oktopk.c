/* oktopk.c - sparse all-reduce by regions: chosen elements are summed by the owners of regions, who
 * choose again (Ok-Topk).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stages: choose, and send each owner the frame of its region; sum, choose from the sums and send
 * that to all; add up what came, and put it in place. Frames are of the whole tensor, where the
 * blocks outside their region are empty, so that one plan serves regions that move. */
#include <float.h>
#include <string.h>

#include "channel.h"

/* What is remembered from call to call, in words: calls so far, bits of the global threshold, and
 * where the regions of ranks 1, 2, ... begin. */
enum { CALLS, THRESHOLD, BEGIN };

enum { SPLIT, OWNER, ALL, PLANS };
struct pithi_collective_oktopk {
    /* The plans of frames of regions, sent twice, and of the one that all make of what came. */
    const pith_plan *region, *all;
    pith_stream *stream[PLANS];
    uint64_t k, most;      /* elements that are to be chosen, and the limit of a frame */
    uint8_t *chosen, *sum; /* the frame that this rank chose, and that of the sums */
    size_t sum_capacity, sum_length;
    uint64_t *cut; /* where this rank would have regions begin: ranks - 1 */
};

static bool refreshes(const pith_collective_channel *ch) {
    const uint64_t every = ch->o.refresh ? ch->o.refresh : 32;
    return ch->sparse->words[CALLS] % every == 0;
}

/* Returns the elements of a rank's region. */
static uint64_t region_of(const pith_collective_channel *ch, uint64_t r, uint64_t *first) {
    const uint64_t n = ch->o.count, *const begin = ch->sparse->words + BEGIN;
    *first = r ? begin[r - 1] : 0;
    return (r + 1 < ch->place.ranks ? begin[r] : n) - *first;
}

static uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* Returns the bits of |x|, by which elements are chosen. */
static uint32_t magnitude_of(float x) { return bits_of(x) & 0x7FFFFFFFu; }

static float float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Asks a stream for elements of the region of rank r. */
static bool ask(pith_collective_channel *ch, int stream, uint64_t r, uint64_t k, float threshold) {
    pith_sparse_request request = {.size = sizeof request, .k = k, .threshold = threshold};
    request.count = region_of(ch, r, &request.first);
    if (!request.count) request.first = ch->o.count; /* no elements */
    return pithi_collective_good(
        ch, pith_sparse_set_request(ch->work, ch->sparse->oktopk->stream[stream], 0, &request));
}

static uint64_t sent_by(const pith_stream *stream) {
    pith_sparse_state state = {.size = sizeof state};
    return pith_sparse_get_state(stream, 0, &state) == PITH_OK ? state.sent : 0;
}

/* ---- Choose and split ------------------------------------------------------------------------*/

/* Cuts the tensor where this rank's chosen elements fall into equal parts. */
static void find_cuts(pith_collective_channel *ch, const float *acc, uint32_t threshold) {
    struct pithi_collective_oktopk *const k = ch->sparse->oktopk;
    const uint64_t n = ch->o.count, ranks = ch->place.ranks;
    uint64_t all = 0, seen = 0, next = 1;
    for (uint64_t i = 0; i < n; i++) all += magnitude_of(acc[i]) >= threshold;
    for (uint64_t r = 1; r < ranks; r++) k->cut[r - 1] = n / ranks * r;
    for (uint64_t i = 0; all && i < n; i++) {
        if (magnitude_of(acc[i]) < threshold) continue;
        for (; next < ranks && seen >= all * next / ranks; next++) k->cut[next - 1] = i;
        seen++;
    }
    for (; all && next < ranks; next++) k->cut[next - 1] = n;
}

static bool send_region(pith_collective_channel *ch, uint32_t owner, float threshold) {
    struct pithi_collective_oktopk *const k = ch->sparse->oktopk;
    uint8_t *const body = pithi_collective_body(&ch->hop[0].out[owner]);
    pith_item item = {.size = sizeof item,
                      .stream = k->stream[SPLIT],
                      .view = pith_view_flat(ch->scratch, PITH_F32, ch->o.count),
                      .frame = body + sizeof(struct pithi_collective_entry),
                      .capacity = (size_t)pith_plan_frame_bytes(k->region, 0, 0)};
    if (!ask(ch, SPLIT, owner, 0, threshold) ||
        !pithi_collective_good(ch, pith_encode(ch->work, &item, 1, 0)))
        return false;
    const struct pithi_collective_entry entry = {item.length, sent_by(item.stream)};
    memcpy(body, &entry, sizeof entry);
    pithi_collective_close_body(
        ch, 0, owner,
        &(struct pithi_collective_body_info){.number = entry.chosen,
                                             .bytes = sizeof entry + item.length,
                                             .checked = sizeof entry,
                                             .values = entry.chosen});
    return true;
}

/* The residual is the accumulator once elements were chosen. */
static void choose_and_split(pith_collective_channel *ch) {
    struct pithi_collective_oktopk *const k = ch->sparse->oktopk;
    const pith_view acc = pith_view_flat(ch->scratch, PITH_F32, ch->o.count);
    pith_sparse_state state = {.size = sizeof state};
    if (!pithi_collective_choose(ch, k->chosen) ||
        !pithi_collective_good(ch, pith_sparse_get_state(ch->hop[0].encoding, 0, &state)) ||
        !pithi_collective_good(ch,
                               pith_stream_get_residual(ch->work, ch->hop[0].encoding, 0, &acc)))
        return;
    const float t = state.threshold <= FLT_MAX ? state.threshold : FLT_MAX;
    if (refreshes(ch)) find_cuts(ch, ch->scratch, bits_of(t));
    for (uint32_t r = 0; r < ch->place.ranks; r++)
        if (!send_region(ch, r, t)) return;
}

/* ---- Sum and choose again --------------------------------------------------------------------*/

/* Finds the frame that rank r sent in a hop, behind its entry and `more` bytes. */
static bool find_frame(pith_collective_channel *ch, uint32_t hop, uint32_t r, uint64_t more,
                       struct pithi_collective_entry *entry) {
    struct pithi_collective_sparse *const s = ch->sparse;
    const uint8_t *const body = pithi_collective_body(&ch->hop[hop].in[r]);
    const uint64_t at = sizeof *entry + more;
    uint64_t bytes;
    if (!pithi_collective_open_body(ch, hop, r, at, &s->chosen[r], &bytes)) return false;
    memcpy(entry, body, sizeof *entry);
    if (entry->length != bytes - at) {
        pithi_collective_fail_text(ch, PITH_ERR_CORRUPT, "a message ends in a frame");
        return false;
    }
    s->frames[r] = body + at;
    s->lengths[r] = (size_t)entry->length;
    return true;
}

/* Adds up the frames of all ranks and encodes the sum. */
static bool recode(pith_collective_channel *ch, int from, int to, uint8_t *frame, size_t capacity,
                   size_t *length) {
    const struct pithi_collective_sparse *const s = ch->sparse;
    const pith_sum sum = {.size = sizeof sum,
                          .stream = s->oktopk->stream[from],
                          .frames = s->frames,
                          .lengths = s->lengths,
                          .count = ch->place.ranks,
                          .scale = 1};
    pith_item item = {
        .size = sizeof item, .stream = s->oktopk->stream[to], .frame = frame, .capacity = capacity};
    const pith_status status = pith_reduce_encode(ch->work, &sum, &item, 1);
    *length = item.length;
    return pithi_collective_good(ch, status);
}

static uint64_t cut_bytes(const pith_collective_channel *ch) {
    return pithi_collective_pad((ch->place.ranks - 1) * sizeof(uint64_t));
}

static void sum_region(pith_collective_channel *ch) {
    struct pithi_collective_oktopk *const k = ch->sparse->oktopk;
    uint8_t *const body = pithi_collective_body(&ch->hop[1].out[0]);
    const uint64_t at = sizeof(struct pithi_collective_entry) + cut_bytes(ch);
    const bool refresh = refreshes(ch);
    struct pithi_collective_entry entry;
    for (uint32_t r = 0; r < ch->place.ranks; r++)
        if (!find_frame(ch, 0, r, 0, &entry)) return;
    if (!ask(ch, OWNER, ch->place.rank, refresh ? k->k : 0,
             refresh ? 0 : float_of((uint32_t)ch->sparse->words[THRESHOLD])) ||
        !recode(ch, SPLIT, OWNER, body + at, (size_t)pith_plan_frame_bytes(k->region, 0, 0),
                &entry.length))
        return;
    entry.chosen = sent_by(k->stream[OWNER]);
    memcpy(body, &entry, sizeof entry);
    memcpy(body + sizeof entry, k->cut, (ch->place.ranks - 1) * sizeof *k->cut);
    pithi_collective_close_body(
        ch, 1, 0,
        &(struct pithi_collective_body_info){.number = sent_by(ch->hop[0].encoding),
                                             .bytes = at + entry.length,
                                             .checked = at,
                                             .values = entry.chosen});
}

/* ---- Add up and clear ------------------------------------------------------------------------*/

/* Finds what rank r chose, and adds where it would have regions begin. */
static bool take_region(pith_collective_channel *ch, uint32_t r, uint64_t *begin) {
    const uint8_t *const body = pithi_collective_body(&ch->hop[1].in[r]);
    struct pithi_collective_entry entry;
    uint64_t before = 0;
    if (!find_frame(ch, 1, r, cut_bytes(ch), &entry)) return false;
    ch->report.chosen += ch->sparse->chosen[r];
    for (uint32_t i = 0; i + 1 < ch->place.ranks; i++) {
        uint64_t cut;
        memcpy(&cut, body + sizeof entry + i * sizeof cut, sizeof cut);
        if (cut < before || cut > ch->o.count) { /* the next call could not use such regions */
            pithi_collective_fail_text(ch, PITH_ERR_CORRUPT, "regions do not ascend");
            return false;
        }
        begin[i] += before = cut;
    }
    return true;
}

/* Corrects the global threshold by how many elements came back. */
static uint32_t corrected(uint32_t threshold, uint64_t found, uint64_t k) {
    double t = (double)float_of(threshold);
    if ((double)found < 2.0 / 3 * (double)k) t /= 1.012;
    if ((double)found > 5.0 / 4 * (double)k) t *= 1.012;
    if (!(t < FLT_MAX)) t = FLT_MAX;
    const uint32_t next = bits_of((float)t);
    return next ? next : 1;
}

/* Sets what the next call begins with, if this one ends well. */
static bool remember(pith_collective_channel *ch, bool refresh) {
    struct pithi_collective_sparse *const s = ch->sparse;
    struct pithi_collective_oktopk *const k = s->oktopk;
    pith_sparse_state state = {.size = sizeof state};
    if (!pithi_collective_good(ch, pith_sparse_get_state(k->stream[ALL], 0, &state))) return false;
    uint32_t t = refresh ? bits_of(state.threshold <= FLT_MAX ? state.threshold : FLT_MAX)
                         : (uint32_t)s->words[THRESHOLD];
    s->next[CALLS] = s->words[CALLS] + 1;
    s->next[THRESHOLD] = corrected(t, state.sent, k->k);
    for (uint32_t i = 0; i + 1 < ch->place.ranks; i++)
        s->next[BEGIN + i] = refresh ? s->next[BEGIN + i] / ch->place.ranks : s->words[BEGIN + i];
    ch->report.summed = state.sent;
    return true;
}

/* Clears what this rank sent of each region, as far as it came back. */
static bool clear_common(pith_collective_channel *ch) {
    const struct pithi_collective_oktopk *const k = ch->sparse->oktopk;
    pith_stream *const stream = ch->hop[0].encoding;
    for (uint32_t r = 0; r < ch->place.ranks; r++) {
        const uint8_t *const body = pithi_collective_body(&ch->hop[0].out[r]);
        struct pithi_collective_entry entry;
        memcpy(&entry, body, sizeof entry);
        if (!entry.chosen) continue;
        const void *const frames[] = {body + sizeof entry, k->sum};
        const size_t lengths[] = {(size_t)entry.length, k->sum_length};
        if (!pithi_collective_good(ch, pith_sparse_hold(ch->work, stream, 0, frames, lengths, 2,
                                                        PITH_SET_INTERSECTION)) ||
            !pithi_collective_good(ch, pith_sparse_clear(ch->work, stream, 0)))
            return false;
    }
    return true;
}

static void add_up(pith_collective_channel *ch) {
    struct pithi_collective_sparse *const s = ch->sparse;
    struct pithi_collective_oktopk *const k = s->oktopk;
    const bool refresh = refreshes(ch);
    pith_sparse_request request = {.size = sizeof request};
    if (refresh)
        request.k = k->k;
    else
        request.threshold = float_of(1); /* all that is not 0 */
    memset(s->next + BEGIN, 0, (ch->place.ranks - 1) * sizeof *s->next);
    for (uint32_t r = 0; r < ch->place.ranks; r++)
        if (!take_region(ch, r, s->next + BEGIN)) return;
    if (!pithi_collective_good(ch,
                               pith_sparse_set_request(ch->work, k->stream[ALL], 0, &request)) ||
        !recode(ch, OWNER, ALL, k->sum, k->sum_capacity, &k->sum_length))
        return;
    const void *const frame = k->sum;
    if (pithi_collective_sum_frames(ch, k->stream[ALL], 0, (const void **)&frame, &k->sum_length,
                                    1) &&
        clear_common(ch))
        remember(ch, refresh);
}

void pithi_collective_oktopk_stage(pith_collective_channel *ch, uint32_t stage) {
    static void (*const stages[])(pith_collective_channel *) = {choose_and_split, sum_region,
                                                                add_up};
    stages[stage](ch);
}

/* ---- Words -----------------------------------------------------------------------------------*/

static uint64_t word_bytes(const struct pithi_collective_sparse *s) {
    return s->word_count * sizeof *s->words;
}

void pithi_collective_reset_words(pith_collective_channel *ch) {
    struct pithi_collective_sparse *const s = ch->sparse;
    if (!s || !s->word_count) return;
    memset(s->words, 0, word_bytes(s));
    for (uint32_t r = 1; r < ch->place.ranks; r++)
        s->words[BEGIN + r - 1] = ch->o.count / ch->place.ranks * r;
    s->taken_back = true;
}

void pithi_collective_keep_words(pith_collective_channel *ch) {
    struct pithi_collective_sparse *const s = ch->sparse;
    if (!s || !s->word_count || !ch->o.count) return;
    memcpy(s->before, s->words, word_bytes(s));
    memcpy(s->words, s->next, word_bytes(s));
    s->word_step = ch->call.step;
    s->taken_back = false;
}

void pithi_collective_take_back_words(pith_collective_channel *ch, uint64_t step) {
    struct pithi_collective_sparse *const s = ch->sparse;
    if (!s || !s->word_count || s->taken_back || s->word_step != step) return;
    memcpy(s->words, s->before, word_bytes(s));
    s->taken_back = true;
}

bool pithi_collective_take_words(pith_collective_channel *ch, const uint64_t *words) {
    struct pithi_collective_sparse *const s = ch->sparse;
    uint64_t begin = 0;
    if (words[THRESHOLD] > bits_of(FLT_MAX) || (!words[THRESHOLD] && words[CALLS])) return false;
    for (uint32_t r = 1; r < ch->place.ranks; begin = words[BEGIN + r++ - 1])
        if (words[BEGIN + r - 1] < begin || words[BEGIN + r - 1] > ch->o.count) return false;
    memcpy(s->words, words, word_bytes(s));
    s->taken_back = true;
    return true;
}

/* ---- Create ----------------------------------------------------------------------------------*/

/* Makes the spec of frames of at most `most` values, in the blocks of the spec that chooses. */
static pith_status make_plan(pith_collective_channel *ch, uint64_t most, const pith_plan **plan,
                             pith_error *error) {
    const struct pithi_collective_run run = {0, ch->o.count};
    char spec[PITH_SPEC_MAX], block[PITH_SPEC_MAX], index[PITH_SPEC_MAX];
    pith_error made;
    PITHI_COLLECTIVE_TRY(pith_plan_spec(ch->hop[0].encoder, spec, sizeof spec));
    pithi_collective_spec_value(spec, "block", block);
    pithi_collective_spec_value(spec, "index", index);
    pithi_collective_say(&made, "topk:k=%llu,cap=1,control=exact,block=%.16s,index=%.16s",
                         (unsigned long long)(most ? most : 1), block[0] ? block : "262144",
                         index[0] ? index : "small");
    return pithi_collective_make_plan(ch, made.text, PITH_F32, &run, 1, plan, error);
}

static pith_status make_stream(pith_collective_channel *ch, int which, const pith_plan *plan,
                               pith_error *error) {
    pith_sizes sizes = {.size = sizeof sizes};
    PITHI_COLLECTIVE_TRY(pith_plan_sizes(plan, &sizes));
    void *const memory = pithi_collective_take(ch, 1, sizes.stream_bytes);
    if (!memory) return PITH_ERR_MEMORY;
    return pith_stream_init(plan, memory, (size_t)sizes.stream_bytes, NULL,
                            &ch->sparse->oktopk->stream[which], error);
}

/* Makes frames that stay here, the cuts and the words. */
static pith_status make_memory(pith_collective_channel *ch) {
    struct pithi_collective_sparse *const s = ch->sparse;
    struct pithi_collective_oktopk *const k = s->oktopk;
    k->sum_capacity = (size_t)pith_plan_frame_bytes(k->all, 0, 0);
    k->chosen = pithi_collective_take(ch, 1, pith_plan_frame_bytes(ch->hop[0].encoder, 0, 0));
    k->sum = pithi_collective_take(ch, 1, k->sum_capacity);
    k->cut = pithi_collective_take(ch, ch->place.ranks, sizeof *k->cut);
    s->words = pithi_collective_take(ch, BEGIN + ch->place.ranks, sizeof *s->words);
    s->next = pithi_collective_take(ch, BEGIN + ch->place.ranks, sizeof *s->next);
    s->before = pithi_collective_take(ch, BEGIN + ch->place.ranks, sizeof *s->before);
    if (!k->chosen || !k->sum || !k->cut || !s->words || !s->next || !s->before)
        return PITH_ERR_MEMORY;
    s->word_count = BEGIN + ch->place.ranks - 1;
    pithi_collective_reset_words(ch);
    return PITH_OK;
}

pith_status pithi_collective_make_oktopk(pith_collective_channel *ch, pith_error *error) {
    struct pithi_collective_sparse *const s = ch->sparse;
    struct pithi_collective_oktopk *const k = pithi_collective_take(ch, 1, sizeof *k);
    const uint64_t ranks = ch->place.ranks, n = ch->o.count;
    pith_sparse_state state = {.size = sizeof state};
    if (!k) return PITH_ERR_MEMORY;
    s->oktopk = k;
    if (ch->o.pieces) {
        pithi_collective_say(error, "Ok-Topk cuts the tensor itself: no pieces");
        return PITH_ERR_ARG;
    }
    PITHI_COLLECTIVE_TRY(pith_sparse_get_state(ch->hop[0].encoding, 0, &state));
    k->k = state.k;
    PITHI_COLLECTIVE_TRY(make_plan(ch, s->most, &k->region, error));
    PITHI_COLLECTIVE_TRY(make_plan(ch, s->most > n / ranks ? n : s->most * ranks, &k->all, error));
    PITHI_COLLECTIVE_TRY(make_stream(ch, SPLIT, k->region, error));
    PITHI_COLLECTIVE_TRY(make_stream(ch, OWNER, k->region, error));
    PITHI_COLLECTIVE_TRY(make_stream(ch, ALL, k->all, error));
    PITHI_COLLECTIVE_TRY(make_memory(ch));
    const uint64_t frame =
        sizeof(struct pithi_collective_entry) + pith_plan_frame_bytes(k->region, 0, 0);
    ch->hops = 2;
    PITHI_COLLECTIVE_TRY(pithi_collective_make_sparse_hop(ch, 0, false, frame, error));
    PITHI_COLLECTIVE_TRY(
        pithi_collective_make_sparse_hop(ch, 1, true, frame + cut_bytes(ch), error));
    const pith_plan *const plans[] = {ch->hop[0].encoder, k->region, k->all};
    return pithi_collective_make_work(ch, plans, 3, error);
}

void pithi_collective_destroy_oktopk(pith_collective_channel *ch) {
    pith_plan_destroy(ch->sparse->oktopk->region);
    pith_plan_destroy(ch->sparse->oktopk->all);
}
