/* sparse.c - sparse all-reduce: by frames of all ranks, or by the values of their sets' union.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The body of a message is a head, what only this file reads (lengths of frames, values), and then
 * frames, which have checksums of their own. Stages of SPARSE_GATHER: choose; sum. Of SPARSE_UNION:
 * choose; hold the union, and send its values to those who sum them; sum; put the sums in place. */
#include <string.h>

#include "hops.h"

struct head {
    uint64_t check;  /* of the number and of what of the body is no frame */
    uint64_t number; /* below NONFINITE, which is added where a rank heard of had such an input */
};
#define NONFINITE (UINT64_C(1) << 63)

bool pithi_collective_is_sparse(uint32_t kind) {
    return kind >= PITH_COLLECTIVE_SPARSE_GATHER && kind <= PITH_COLLECTIVE_SPARSE_OKTOPK;
}

static bool corrupt(pith_collective_channel *ch, const char *text) {
    pithi_collective_fail_text(ch, PITH_ERR_CORRUPT, text);
    return false;
}

/* ---- Bodies ----------------------------------------------------------------------------------*/

/* Returns a hash in which every change of one word of 64 bits is seen: each step of it can be
 * undone. */
static uint64_t hash_of(uint64_t x, const void *data, uint64_t bytes) {
    const uint8_t *const from = data;
    for (uint64_t at = 0, word; at < bytes; at += sizeof word) {
        word = 0;
        memcpy(&word, from + at, bytes - at < sizeof word ? bytes - at : sizeof word);
        x = (x ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        x ^= x >> 32;
    }
    return x;
}

uint8_t *pithi_collective_body(const struct pithi_collective_message *m) {
    return m->bytes + PITHI_COLLECTIVE_HEADER + sizeof(struct head);
}

void pithi_collective_close_body(pith_collective_channel *ch, uint32_t hop, uint32_t t,
                                 const struct pithi_collective_body_info *body) {
    struct pithi_collective_hop *const h = &ch->hop[hop];
    struct pithi_collective_message *const out = &h->out[t];
    const uint64_t number = body->number | (ch->sparse->nonfinite ? NONFINITE : 0);
    const struct head head = {hash_of(number, pithi_collective_body(out), body->checked), number};
    memcpy(out->bytes + PITHI_COLLECTIVE_HEADER, &head, sizeof head);
    for (uint32_t i = t; i < (h->shared ? h->targets : t + 1); i++) {
        h->out[i].payload = sizeof head + body->bytes;
        h->out[i].values = body->values;
    }
    if (h->shared || t == ch->place.rank) h->in[ch->place.rank].payload = sizeof head + body->bytes;
}

bool pithi_collective_open_body(pith_collective_channel *ch, uint32_t hop, uint32_t r,
                                uint64_t checked, uint64_t *number, uint64_t *bytes) {
    const struct pithi_collective_message *const m = &ch->hop[hop].in[r];
    struct head head;
    if (m->payload < sizeof head || checked > m->payload - sizeof head) {
        pithi_collective_fail_text(ch, PITH_ERR_TRUNCATED, "a message is shorter than its body");
        return false;
    }
    memcpy(&head, m->bytes + PITHI_COLLECTIVE_HEADER, sizeof head);
    *number = head.number & ~NONFINITE;
    *bytes = m->payload - sizeof head;
    if (head.check != hash_of(head.number, pithi_collective_body(m), checked))
        return corrupt(ch, "the body of a message is damaged");
    if (head.number & NONFINITE) ch->sparse->nonfinite = true;
    return true;
}

/* ---- Choose ----------------------------------------------------------------------------------*/

const pith_sparse_request *pithi_collective_request_of(const struct pithi_collective_call *call,
                                                       uint64_t piece) {
    if (!call->requests) return NULL;
    return (const void *)((const char *)call->requests + piece * call->requests->size);
}

static uint64_t piece_count(const pith_collective_channel *ch, uint64_t piece, uint64_t *first) {
    uint64_t count = 0;
    *first = 0;
    return pith_plan_slot(ch->hop[0].encoder, piece, first, &count) == PITH_OK ? count : 0;
}

static bool encode(pith_collective_channel *ch, pith_item *items, size_t n) {
    const pith_status status = n ? pith_encode(ch->work, items, n, 0) : PITH_OK;
    for (size_t i = 0; i < n; i++) {
        ch->hop[0].encoded = ch->hop[0].encoded || items[i].length;
        ch->sparse->length[items[i].slot] = items[i].length;
    }
    return pithi_collective_good(ch, status);
}

bool pithi_collective_choose(pith_collective_channel *ch, uint8_t *to) {
    const struct pithi_collective_hop *const h = &ch->hop[0];
    size_t waiting = 0;
    ch->sparse->nonfinite = !pithi_collective_is_finite(&ch->call.in);
    for (uint64_t p = 0; p < ch->sparse->pieces; p++) {
        uint64_t first, count = piece_count(ch, p, &first);
        pith_item *const item = &ch->items[waiting];
        const pith_sparse_request *const request = pithi_collective_request_of(&ch->call, p);
        if (!pithi_collective_good(ch, pith_sparse_set_request(ch->work, h->encoding, p, request)))
            return false;
        ch->sparse->length[p] = 0;
        if (!count) continue;
        *item = (pith_item){.size = sizeof *item, .stream = h->encoding, .slot = p, .frame = to};
        item->capacity = (size_t)pith_plan_frame_bytes(h->encoder, p, 0);
        to += pithi_collective_pad(item->capacity);
        if (pithi_collective_input_of(ch, p, 0, &first, &count, &item->view)) {
            waiting++;
            continue;
        }
        pithi_collective_pack(&ch->call.in, first, count, ch->scratch);
        if (!encode(ch, item, 1)) return false;
    }
    return encode(ch, ch->items, waiting);
}

/* Returns how many elements this rank chose from a piece in this call. */
static uint64_t chosen_of(const pith_collective_channel *ch, uint64_t piece) {
    pith_sparse_state state = {.size = sizeof state};
    if (!ch->sparse->length[piece] ||
        pith_sparse_get_state(ch->hop[0].encoding, piece, &state) != PITH_OK)
        return 0;
    return state.sent;
}

/* Chooses, and moves the frames together: their lengths are known only now. */
static void send_chosen(pith_collective_channel *ch) {
    const struct pithi_collective_sparse *const s = ch->sparse;
    uint8_t *const body = pithi_collective_body(&ch->hop[0].out[0]);
    const uint64_t table = s->pieces * sizeof(struct pithi_collective_entry);
    uint64_t from = table, to = table, end = table, all = 0;
    if (!pithi_collective_choose(ch, body + table)) return;
    for (uint64_t p = 0; p < s->pieces; p++) {
        uint64_t first;
        const struct pithi_collective_entry entry = {s->length[p], chosen_of(ch, p)};
        memcpy(body + p * sizeof entry, &entry, sizeof entry);
        all += entry.chosen;
        if (!piece_count(ch, p, &first)) continue;
        memmove(body + to, body + from, s->length[p]);
        end = to + s->length[p];
        to = pithi_collective_pad(end);
        from += pithi_collective_pad(pith_plan_frame_bytes(ch->hop[0].encoder, p, 0));
    }
    pithi_collective_close_body(ch, 0, 0,
                                &(struct pithi_collective_body_info){
                                    .number = all, .bytes = end, .checked = table, .values = all});
}

/* Finds the frames that rank r sent. */
static bool find_frames(pith_collective_channel *ch, uint32_t r, uint64_t *chosen) {
    struct pithi_collective_sparse *const s = ch->sparse;
    const uint8_t *const body = pithi_collective_body(&ch->hop[0].in[r]);
    uint64_t at = s->pieces * sizeof(struct pithi_collective_entry), bytes;
    if (!pithi_collective_open_body(ch, 0, r, at, &s->chosen[r], &bytes)) return false;
    for (uint64_t p = 0; p < s->pieces; p++) {
        struct pithi_collective_entry entry;
        memcpy(&entry, body + p * sizeof entry, sizeof entry);
        if (entry.length > bytes - at) return corrupt(ch, "a message ends in a frame");
        s->frames[p * ch->place.ranks + r] = body + at;
        s->lengths[p * ch->place.ranks + r] = (size_t)entry.length;
        at = pithi_collective_pad(at + entry.length);
        if (at > bytes) at = bytes; /* the last frame is not padded */
        chosen[p] += entry.chosen;
    }
    ch->report.chosen += s->chosen[r];
    return true;
}

/* Finds the frames of all ranks; chosen[p] becomes how many elements of a piece they chose. */
static bool find_all(pith_collective_channel *ch, uint64_t *chosen) {
    memset(chosen, 0, ch->sparse->pieces * sizeof *chosen);
    for (uint32_t r = 0; r < ch->place.ranks; r++)
        if (!find_frames(ch, r, chosen)) return false;
    return true;
}

/* ---- Output ----------------------------------------------------------------------------------*/

bool pithi_collective_sum_frames(pith_collective_channel *ch, pith_stream *stream, uint64_t piece,
                                 const void **frames, const size_t *lengths, size_t count) {
    pith_sum sum = {.size = sizeof sum,
                    .stream = stream,
                    .slot = piece,
                    .frames = frames,
                    .lengths = lengths,
                    .count = count,
                    .scale = ch->call.scale};
    const bool in_place = pithi_collective_output_of(ch, &ch->hop[0], piece, &sum.view);
    if (!pithi_collective_good(ch, pith_reduce(ch->work, &sum, 1))) return false;
    if (!in_place) pithi_collective_copy_out(ch, &ch->hop[0], piece);
    return true;
}

/* Tells the controller of a piece how many elements all chose, where they chose together. */
static bool report(pith_collective_channel *ch, uint64_t piece, uint64_t chosen) {
    return !ch->call.requests ||
           pithi_collective_good(ch,
                                 pith_sparse_report(ch->work, ch->hop[0].encoding, piece, chosen));
}

static void sum_chosen(pith_collective_channel *ch) {
    const struct pithi_collective_sparse *const s = ch->sparse;
    uint64_t *const chosen = s->of_piece, first;
    if (!find_all(ch, chosen)) return;
    for (uint64_t p = 0; p < s->pieces; p++) {
        const size_t at = p * ch->place.ranks;
        if (!piece_count(ch, p, &first)) continue;
        if (!pithi_collective_sum_frames(ch, ch->hop[0].decoding, p, s->frames + at,
                                         s->lengths + at, ch->place.ranks) ||
            !report(ch, p, chosen[p]))
            return;
    }
}

/* ---- Union -----------------------------------------------------------------------------------*/

/* Returns the part of the union that rank r sums. */
static uint64_t part_of(const pith_collective_channel *ch, uint64_t r, uint64_t *first) {
    const uint64_t n = ch->sparse->united, ranks = ch->place.ranks, even = (n + ranks - 1) / ranks;
    *first = r * even < n ? r * even : n;
    return n - *first < even ? n - *first : even;
}

/* Holds the union of all sets, and copies this rank's accumulator there to the values. */
static bool gather_union(pith_collective_channel *ch) {
    struct pithi_collective_sparse *const s = ch->sparse;
    pith_stream *const stream = ch->hop[0].encoding;
    uint64_t first;
    s->united = 0;
    if (!find_all(ch, s->of_piece)) return false;
    for (uint64_t p = 0; p < s->pieces; p++) {
        const size_t at = p * ch->place.ranks;
        pith_sparse_state state = {.size = sizeof state};
        if (!piece_count(ch, p, &first)) continue;
        if (!pithi_collective_good(
                ch, pith_sparse_hold(ch->work, stream, p, s->frames + at, s->lengths + at,
                                     ch->place.ranks, PITH_SET_UNION)) ||
            !pithi_collective_good(ch, pith_sparse_get_state(stream, p, &state)))
            return false;
        if (state.held > s->most - s->united)
            return corrupt(ch, "ranks chose more elements than their limit");
        const pith_view values = pith_view_flat(s->values + s->united, PITH_F32, state.held);
        if (!pithi_collective_good(ch, pith_sparse_gather(ch->work, stream, p, NULL, &values)))
            return false;
        s->united += state.held;
    }
    return true;
}

/* Sends every rank the values of the part that it sums. */
static void send_values(pith_collective_channel *ch) {
    struct pithi_collective_sparse *const s = ch->sparse;
    if (!gather_union(ch)) return;
    for (uint32_t t = 0; t < ch->place.ranks; t++) {
        uint64_t first;
        const uint64_t count = part_of(ch, t, &first), bytes = count * sizeof(float);
        memcpy(pithi_collective_body(&ch->hop[1].out[t]), s->values + first, bytes);
        pithi_collective_close_body(
            ch, 1, t,
            &(struct pithi_collective_body_info){
                .number = s->united, .bytes = bytes, .checked = bytes, .values = count});
    }
}

/* Opens the values that rank r sent, which are as many as this rank expects. */
static const float *open_values(pith_collective_channel *ch, uint32_t hop, uint32_t r,
                                uint64_t count) {
    uint64_t united, bytes;
    if (!pithi_collective_open_body(ch, hop, r, count * sizeof(float), &united, &bytes))
        return NULL;
    if (united != ch->sparse->united || bytes != count * sizeof(float)) {
        corrupt(ch, "ranks have different unions");
        return NULL;
    }
    return (const float *)(const void *)pithi_collective_body(&ch->hop[hop].in[r]);
}

/* Sums the part of the union that is this rank's, in rank order. */
static void sum_values(pith_collective_channel *ch) {
    float *const sum = (float *)(void *)pithi_collective_body(&ch->hop[2].out[0]);
    uint64_t first;
    const uint64_t count = part_of(ch, ch->place.rank, &first), bytes = count * sizeof(float);
    for (uint32_t r = 0; r < ch->place.ranks; r++) {
        const float *const values = open_values(ch, 1, r, count);
        if (!values) return;
        if (!r) memcpy(sum, values, bytes);
        for (uint64_t i = 0; r && i < count; i++) sum[i] += values[i];
    }
    pithi_collective_close_body(
        ch, 2, 0,
        &(struct pithi_collective_body_info){
            .number = ch->sparse->united, .bytes = bytes, .checked = bytes, .values = count});
}

/* Puts sums of a piece's held elements where they belong, +0 everywhere else. */
static bool scatter(pith_collective_channel *ch, uint64_t piece, float *values, uint64_t held) {
    uint64_t first;
    const uint64_t count = piece_count(ch, piece, &first);
    const pith_view from = pith_view_flat(values, PITH_F32, held);
    const struct pithi_collective_list *const out = &ch->call.out;
    pith_view to;
    const bool in_place = pithi_collective_cut(out, first, count, &to) && to.stride[0] == 1;
    if (!in_place) to = pith_view_flat(ch->scratch, out->views[0].dtype, count);
    memset(to.data, 0, count * pith_dtype_bytes(to.dtype));
    const float scale = ch->call.scale == 0.0f ? 1.0f : ch->call.scale;
    if (!pithi_collective_good(
            ch, pith_sparse_scatter(ch->work, ch->hop[0].encoding, piece, &from, scale, &to)))
        return false;
    if (!in_place) pithi_collective_unpack(out, first, count, ch->scratch);
    return true;
}

static void scatter_union(pith_collective_channel *ch) {
    const struct pithi_collective_sparse *const s = ch->sparse;
    pith_stream *const stream = ch->hop[0].encoding;
    float *at = s->values;
    uint64_t first;
    for (uint32_t r = 0; r < ch->place.ranks; r++) {
        const uint64_t count = part_of(ch, r, &first);
        const float *const values = open_values(ch, 2, r, count);
        if (!values) return;
        memcpy(s->values + first, values, count * sizeof *values);
    }
    for (uint64_t p = 0; p < s->pieces; p++) {
        pith_sparse_state state = {.size = sizeof state};
        if (!piece_count(ch, p, &first)) continue;
        if (!pithi_collective_good(ch, pith_sparse_get_state(stream, p, &state)) ||
            !scatter(ch, p, at, state.held) ||
            !pithi_collective_good(ch, pith_sparse_clear(ch->work, stream, p)) ||
            !report(ch, p, s->of_piece[p]))
            return;
        at += state.held;
    }
    ch->report.summed = s->united;
}

/* Stages, of which the last puts the sums in place. Where a rank had an input that is not finite
 * every rank knows by then. Residuals hold numbers only, so that sums of what they held say nothing
 * of it, and nobody may have chosen the element. */
void pithi_collective_sparse_stage(pith_collective_channel *ch, uint32_t stage) {
    static void (*const of_gather[])(pith_collective_channel *) = {send_chosen, sum_chosen};
    static void (*const of_union[])(pith_collective_channel *) = {send_chosen, send_values,
                                                                  sum_values, scatter_union};
    if (!ch->o.count) return;
    switch (ch->o.kind) {
    case PITH_COLLECTIVE_SPARSE_GATHER: of_gather[stage](ch); break;
    case PITH_COLLECTIVE_SPARSE_UNION: of_union[stage](ch); break;
    default: pithi_collective_oktopk_stage(ch, stage);
    }
    if (stage == ch->hops && ch->sparse->nonfinite && ch->call.status == PITH_OK)
        pithi_collective_make_nan(&ch->call.out);
}

/* ---- Create ----------------------------------------------------------------------------------*/

void pithi_collective_spec_value(const char *spec, const char *key, char value[PITH_SPEC_MAX]) {
    const size_t length = strlen(key);
    *value = 0;
    for (const char *at = strchr(spec, ':'); at; at = strchr(at + 1, ',')) {
        if (strncmp(at + 1, key, length) || at[1 + length] != '=') continue;
        const size_t n = strcspn(at + 2 + length, ",");
        memcpy(value, at + 2 + length, n);
        value[n] = 0;
    }
}

static bool is_value(const char *spec, const char *key, const char *expected) {
    char value[PITH_SPEC_MAX];
    pithi_collective_spec_value(spec, key, value);
    return !strcmp(value, expected);
}

/* Checks a spec, and makes the one by which elements are chosen of it. */
static pith_status chooser(const pith_collective_channel *ch, char text[PITH_SPEC_MAX],
                           pith_error *error) {
    static const char own[] = ",values=none,clear=call";
    PITHI_COLLECTIVE_TRY(pith_spec_check(ch->o.spec, text, PITH_SPEC_MAX, error));
    const bool gather = ch->o.kind == PITH_COLLECTIVE_SPARSE_GATHER;
    if (strncmp(text, "topk", 4) || !strchr(":", text[4])) {
        pithi_collective_say(error, "sparse sums take specs of codec topk, not %s", text);
        return PITH_ERR_UNSUPPORTED;
    }
    if (is_value(text, "clear", "call") || is_value(text, "values", "none") ||
        (!gather && !is_value(text, "values", ""))) {
        pithi_collective_say(error, "%s",
                             gather ? "this sum sends values of what it clears from residuals"
                                    : "this sum sends values in f32, and clears residuals itself");
        return PITH_ERR_UNSUPPORTED;
    }
    if (gather) return PITH_OK;
    if (!is_value(text, "ef", "full")) {
        pithi_collective_say(error, "this sum takes its values from the residual: ef=full");
        return PITH_ERR_UNSUPPORTED;
    }
    if (!is_value(text, "transform", "")) {
        pithi_collective_say(error, "this sum is of values, not of coefficients: no transform");
        return PITH_ERR_UNSUPPORTED;
    }
    if (strlen(text) + sizeof own > PITH_SPEC_MAX) return PITH_ERR_SPEC;
    strcat(text, own);
    return PITH_OK;
}

static pith_status make_plan(pith_collective_channel *ch, const char *spec, pith_error *error) {
    const uint64_t pieces = ch->o.pieces ? ch->o.piece_count : 1;
    struct pithi_collective_run *const runs = pithi_collective_take(ch, pieces, sizeof *runs);
    uint64_t at = 0;
    if (!runs) return PITH_ERR_MEMORY;
    for (uint64_t p = 0; p < pieces; p++) {
        const uint64_t count = ch->o.pieces ? ch->o.pieces[p] : ch->o.count;
        if (count > ch->o.count - at || (p + 1 == pieces && count != ch->o.count - at)) {
            pithi_collective_say(error, "the sum of pieces is not count");
            return PITH_ERR_ARG;
        }
        runs[p] = (struct pithi_collective_run){at, count};
        at += count;
    }
    ch->sparse->pieces = pieces;
    return pithi_collective_make_plan(ch, spec, ch->o.dtype, runs, pieces, &ch->hop[0].encoder,
                                      error);
}

static struct pithi_collective_message *make_messages(pith_collective_channel *ch, bool shared,
                                                      uint64_t cap) {
    const uint32_t ranks = ch->place.ranks;
    struct pithi_collective_message *const all = pithi_collective_take(ch, ranks, sizeof *all);
    for (uint32_t r = 0; all && r < ranks; r++) {
        all[r] = (struct pithi_collective_message){
            .rank = r, .origin = r, .cap = cap, .plain_cap = cap, .frames = 1};
        if (!cap) continue;
        all[r].bytes = shared && r ? all[0].bytes : pithi_collective_take(ch, 1, cap);
        if (!all[r].bytes) return NULL;
    }
    return all;
}

pith_status pithi_collective_make_sparse_hop(pith_collective_channel *ch, uint32_t k, bool shared,
                                             uint64_t bytes, pith_error *error) {
    struct pithi_collective_hop *const h = &ch->hop[k];
    const uint32_t own = ch->place.rank;
    const uint64_t cap =
        ch->o.count ? PITHI_COLLECTIVE_HEADER + sizeof(struct head) + pithi_collective_pad(bytes)
                    : 0;
    if (ch->t.largest && cap > ch->t.largest) {
        pithi_collective_say(error,
                             "a message of %llu bytes is longer than the transport's largest, %llu",
                             (unsigned long long)cap, (unsigned long long)ch->t.largest);
        return PITH_ERR_ARG;
    }
    h->shared = shared;
    h->targets = h->sources = ch->place.ranks;
    h->target = h->source = pithi_collective_all_ranks(ch);
    h->out = make_messages(ch, shared, cap);
    h->in = make_messages(ch, false, cap);
    if (!h->target || !h->out || !h->in) return PITH_ERR_MEMORY;
    for (uint32_t t = 0; t < h->targets; t++) h->out[t].origin = own;
    h->in[own].bytes = h->out[own].bytes;
    return PITH_OK;
}

/* Makes the stream of the first hop; returns in *most how many elements it sends at most. */
static pith_status make_stream(pith_collective_channel *ch, pith_error *error) {
    struct pithi_collective_hop *const h = &ch->hop[0];
    struct pithi_collective_sparse *const s = ch->sparse;
    h->decoder = h->encoder;
    h->encoded_of = pithi_collective_all_ranks(ch);
    h->encoded_count = ch->place.ranks;
    if (!h->encoded_of) return PITH_ERR_MEMORY;
    h->random = (pith_stream_options){.size = sizeof h->random,
                                      .seed = ch->o.seed,
                                      .rng_stream = ch->o.rng_stream + ch->place.rank};
    PITHI_COLLECTIVE_TRY(pithi_collective_make_streams(ch, h, error));
    for (uint64_t p = 0; p < s->pieces; p++) {
        pith_sparse_state state = {.size = sizeof state};
        PITHI_COLLECTIVE_TRY(pith_sparse_get_state(h->encoding, p, &state));
        s->most += state.most;
    }
    return PITH_OK;
}

static pith_status make_lists(pith_collective_channel *ch) {
    struct pithi_collective_sparse *const s = ch->sparse;
    const uint64_t ranks = ch->place.ranks;
    uint64_t longest = ch->longest, first; /* of a shard, and of a piece */
    for (uint64_t p = 0; p < s->pieces; p++)
        if (piece_count(ch, p, &first) > longest) longest = piece_count(ch, p, &first);
    ch->scratch = pithi_collective_take(ch, longest, sizeof(float));
    ch->items = pithi_collective_take(ch, s->pieces, sizeof *ch->items);
    s->chosen = pithi_collective_take(ch, ranks, sizeof *s->chosen);
    s->of_piece = pithi_collective_take(ch, s->pieces, sizeof *s->of_piece);
    s->length = pithi_collective_take(ch, s->pieces, sizeof *s->length);
    s->frames = pithi_collective_take(ch, s->pieces * ranks, sizeof *s->frames);
    s->lengths = pithi_collective_take(ch, s->pieces * ranks, sizeof *s->lengths);
    const bool all = ch->scratch && ch->items && s->chosen && s->of_piece && s->length &&
                     s->frames && s->lengths;
    return all ? PITH_OK : PITH_ERR_MEMORY;
}

static pith_status make_union(pith_collective_channel *ch, pith_error *error) {
    struct pithi_collective_sparse *const s = ch->sparse;
    const uint64_t ranks = ch->place.ranks, n = ch->o.count;
    s->most = s->most > n / ranks ? n : s->most * ranks; /* of the union */
    s->values = pithi_collective_take(ch, s->most, sizeof *s->values);
    if (!s->values) return PITH_ERR_MEMORY;
    const uint64_t part = (s->most + ranks - 1) / ranks * sizeof *s->values;
    ch->hops = 3;
    PITHI_COLLECTIVE_TRY(pithi_collective_make_sparse_hop(ch, 1, false, part, error));
    return pithi_collective_make_sparse_hop(ch, 2, true, part, error);
}

pith_status pithi_collective_make_sparse(pith_collective_channel *ch, pith_error *error) {
    struct pithi_collective_sparse *const s = pithi_collective_take(ch, 1, sizeof *s);
    char spec[PITH_SPEC_MAX];
    uint64_t bytes = 0;
    if (!s) return PITH_ERR_MEMORY;
    ch->sparse = s;
    ch->hops = ch->encoded_hops = 1;
    ch->slices = 1;
    ch->slice = ch->in_count = ch->out_count = ch->o.count;
    PITHI_COLLECTIVE_TRY(chooser(ch, spec, error));
    PITHI_COLLECTIVE_TRY(make_plan(ch, spec, error));
    PITHI_COLLECTIVE_TRY(make_stream(ch, error));
    PITHI_COLLECTIVE_TRY(make_lists(ch));
    if (ch->o.kind == PITH_COLLECTIVE_SPARSE_OKTOPK) return pithi_collective_make_oktopk(ch, error);
    for (uint64_t p = 0; p < s->pieces; p++)
        bytes += sizeof(struct pithi_collective_entry) +
                 pithi_collective_pad(pith_plan_frame_bytes(ch->hop[0].encoder, p, 0));
    PITHI_COLLECTIVE_TRY(pithi_collective_make_sparse_hop(ch, 0, true, bytes, error));
    if (ch->o.kind == PITH_COLLECTIVE_SPARSE_UNION) PITHI_COLLECTIVE_TRY(make_union(ch, error));
    return pithi_collective_make_work(ch, &ch->hop[0].encoder, 1, error);
}

void pithi_collective_destroy_sparse(pith_collective_channel *ch) {
    if (ch->sparse && ch->sparse->oktopk) pithi_collective_destroy_oktopk(ch);
}

/* ---- Local calls -----------------------------------------------------------------------------*/

pith_status pith_collective_chosen(pith_collective_channel *ch, uint64_t *counts) {
    if (!ch || !ch->sparse || !counts) return PITH_ERR_ARG;
    if (ch->busy) return PITH_ERR_BUSY;
    memcpy(counts, ch->sparse->chosen, ch->place.ranks * sizeof *counts);
    return PITH_OK;
}

pith_status pith_collective_sparse_state(pith_collective_channel *ch, uint64_t piece,
                                         pith_sparse_state *out) {
    if (!ch || !ch->sparse || piece >= ch->sparse->pieces) return PITH_ERR_ARG;
    if (ch->busy) return PITH_ERR_BUSY;
    return pith_sparse_get_state(ch->hop[0].encoding, piece, out);
}
