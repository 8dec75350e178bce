/* topk.c - codec topk: the largest values of a tensor, and where they are.
 * SPDX-License-Identifier: Apache-2.0
 *
 * sparse/sparse_frame.c finds the threshold of a frame. Here a block chooses its elements by it
 * (sparse/select.h), codes which they are (sparse/index.h) and their values, and takes what it sent
 * out of the residual. */
#include <string.h>

#include "common/convert.h"
#include "common/decimal.h"
#include "common/minmax.h"
#include "common/pad.h"
#include "common/popcount.h"
#include "device_plan.h"
#include "sparse/dct.h"
#include "sparse/index.h"
#include "sparse/sparse_frame.h"

enum {
    DENSITY,
    K,
    CAP,
    VALUES,
    CONTROL,
    EVERY,
    INDEX,
    EF,
    CLEAR,
    MOMENTUM,
    BLOCK,
    SCOPE,
    UNIT,
    TRANSFORM,
    REVISION
};
enum { F32, F16, BF16, INT8, NONE };
enum { SMALL, FAST };
enum { DCT = 1, HADAMARD };
enum {
    AT_VALUES = 0,
    AT_CONTROL = 1,
    AT_INDEX = 2,
    AT_DENSITY = 4,
    AT_K = 8,
    AT_CAP = 12,
    AT_TRANSFORM = 13
};

static const struct pithi_key keys[] = {
    [DENSITY] = {"density", PITHI_KEY_REAL, 0, 1, 0, 0, AT_DENSITY, "a number above 0, up to 1",
                 "share of the elements that are sent; 0.01 unless k is given", true},
    [K] = {"k", PITHI_KEY_NUMBER, 0, 0, UINT32_MAX, 0, AT_K, "0..4294967295",
           "how many elements are sent, in place of a share", true},
    [CAP] = {"cap", PITHI_KEY_NUMBER, 2, 1, 255, 0, AT_CAP, "1..255",
             "hard limit: no more than cap times as many are chosen", true},
    [VALUES] = {"values", PITHI_KEY_WORD, F32, 0, NONE, 0, AT_VALUES, "f32|f16|bf16|int8|none",
                "how values are sent; none: the set alone, whose elements decode to 1", false},
    [CONTROL] = {"control", PITHI_KEY_WORD, 0, 0, PITHI_CONTROL_KINDS - 1, 0, AT_CONTROL,
                 "prop|exact|every|oktopk|micro|micro-symmetric|sage|dgc|gauss|redsync|nonzero",
                 "how the threshold of a step is found", true},
    [EVERY] = {"every", PITHI_KEY_NUMBER, 1000, 1, 16777216, 0, PITHI_WIRE_NONE, "1..16777216",
               "control=every and oktopk: steps from one exact threshold to the next", false},
    [INDEX] = {"index", PITHI_KEY_WORD, SMALL, 0, FAST, 0, AT_INDEX, "small|fast",
               "coding of indices", true},
    [EF] = {"ef", PITHI_KEY_FEEDBACK, 0, 0, 1000, 0, PITHI_WIRE_NONE, "none|full|ema:0.W",
            "error feedback: what is not sent is added to the next step", false},
    [CLEAR] = {"clear", PITHI_KEY_WORD, 0, 0, 1, 0, PITHI_WIRE_NONE, "sent|call",
               "what leaves the residual: what is sent, or what pith_sparse_clear takes", false},
    [MOMENTUM] = {"momentum", PITHI_KEY_REAL, 0, 0, 0, 0, PITHI_WIRE_NONE,
                  "a number above 0, below 1",
                  "with ef: gradients add to a momentum, which the residual collects (DGC)", false},
    [BLOCK] = {"block", PITHI_KEY_POW2, 262144, 64, 1u << PITHI_BLOCK_LOG2_MAX, 0, PITHI_WIRE_BLOCK,
               "64..16777216, a power of two",
               "elements per block; by default 2048 or more of them are sent; 1048576 with k",
               false},
    [SCOPE] = {"scope", PITHI_KEY_WORD, 0, 0, 1, 0, PITHI_WIRE_NONE, "tensor|row",
               "what density or k is of: the tensor, or every row (last dimension) by itself",
               false},
    [UNIT] = {"unit", PITHI_KEY_POW2, 0, 0, 4096, 0x1FFF, PITHI_WIRE_NONE,
              "0, 2, 4..4096, a power of two",
              "control=nonzero: sent together are all elements of a unit that has one to send",
              false},
    [TRANSFORM] = {"transform", PITHI_KEY_WORD, 0, 0, HADAMARD, 0, AT_TRANSFORM,
                   "none|dct|hadamard",
                   "the largest coefficients of short runs are sent in place of values", false},
    [REVISION] = {"revision", PITHI_KEY_NUMBER, 2, 1, 2, 0, PITHI_WIRE_REVISION, "1,2",
                  "index=fast: newest revision of frames to make, 1 for older readers", true},
};

static const struct pithi_need needs[] = {
    {EVERY, CONTROL, 0, "goes with control=every or oktopk"},
    {CLEAR, EF, 0, "goes with ef"},
    {MOMENTUM, EF, 0, "goes with ef"},
};

/* ---- Settings --------------------------------------------------------------------------------*/

/* Blocks are so large that their head costs little beside 2048 indices. */
static uint32_t block_of(uint32_t density) {
    uint32_t block = 4096;
    while (block < 1u << PITHI_BLOCK_LOG2_MAX && pithi_decimal_part(density, block) < 2048)
        block *= 2;
    return block;
}

static void preset(uint32_t value[PITHI_KEYS_MAX], uint32_t seen) {
    if (!value[DENSITY] && !value[K]) value[DENSITY] = PITHI_DECIMAL(1, -2);
    if (value[SCOPE] && !(seen >> CONTROL & 1)) value[CONTROL] = PITHI_CONTROL_EXACT;
    if (!(seen >> BLOCK & 1)) value[BLOCK] = value[DENSITY] ? block_of(value[DENSITY]) : 1u << 20;
}

static pith_status check(const struct pithi_params *p, const char **detail) {
    *detail = "density and k exclude each other";
    if (p->value[DENSITY] && p->value[K]) return PITH_ERR_SPEC;
    *detail = "neither density nor k is given";
    if (!p->value[DENSITY] && !p->value[K]) return PITH_ERR_SPEC;
    *detail = "density is at most 1";
    if (pithi_decimal_floor(p->value[DENSITY]) > 1) return PITH_ERR_SPEC;
    *detail = "scope=row goes with control=exact";
    if (p->value[SCOPE] && p->value[CONTROL] != PITHI_CONTROL_EXACT) return PITH_ERR_SPEC;
    *detail = "scope=row has no momentum";
    if (p->value[SCOPE] && p->value[MOMENTUM]) return PITH_ERR_SPEC;
    *detail = "scope=row has no transform";
    if (p->value[SCOPE] && p->value[TRANSFORM]) return PITH_ERR_SPEC;
    /* Of a moving mean of what was not sent, no accumulator is left to gather from. */
    *detail = "clear=call goes with ef=full";
    if (p->value[CLEAR] && p->value[EF] > 1) return PITH_ERR_SPEC;
    *detail = "unit goes with control=nonzero";
    if (p->value[UNIT] && p->value[CONTROL] != PITHI_CONTROL_NONZERO) return PITH_ERR_SPEC;
    *detail = "block is smaller than unit";
    if (p->block < p->value[UNIT]) return PITH_ERR_SPEC;
    *detail = "momentum is below 1";
    return pithi_decimal_floor(p->value[MOMENTUM]) < 1 ? PITH_OK : PITH_ERR_SPEC;
}

/* Revision 2 is for sets in form PATCHED, which index=small does not take. Frames without indices
 * of some blocks are of revision 3, whatever the setting. */
static uint8_t frame_revision(const struct pithi_params *p) {
    if (p->value[REVISION] == PITHI_CHOSEN_REVISION) return PITHI_CHOSEN_REVISION;
    return p->value[INDEX] == FAST ? (uint8_t)p->value[REVISION] : 1;
}

static struct pithi_index_setting index_setting(const struct pithi_params *p) {
    return (struct pithi_index_setting){
        .elias_fano = p->value[INDEX] == SMALL,
        .patched = p->value[INDEX] == FAST && p->value[REVISION] >= 2};
}

/* Returns how many elements of n are sent. */
static uint64_t k_of(const struct pithi_params *p, uint64_t n) {
    const uint64_t k = p->value[DENSITY] ? pithi_decimal_part(p->value[DENSITY], n) : p->value[K];
    return pithi_min(k ? k : 1, n);
}

/* Returns how many elements may be sent of n of which k are wanted. */
static uint64_t most_of(const struct pithi_params *p, uint64_t k, uint64_t n) {
    return k > n / p->value[CAP] ? n : k * p->value[CAP];
}

static struct pithi_sparse_setting sparse_setting(const struct pithi_frame *f) {
    const struct pithi_params *const p = &f->params;
    const uint64_t n = f->count, row = f->ndim ? f->shape[f->ndim - 1] : 1;
    static const uint32_t value_bits[] = {
        [F32] = 32, [F16] = 16, [BF16] = 16, [INT8] = 8, [NONE] = 0};
    struct pithi_sparse_setting s = {
        .control = {.kind = (enum pithi_control_kind)p->value[CONTROL],
                    .k = k_of(p, n),
                    .n = n,
                    .every = p->value[EVERY]},
        .clears = p->value[CLEAR] == 0,
        .momentum = (float)pithi_decimal_floor(p->value[MOMENTUM]),
        .value_bits = value_bits[p->value[VALUES]],
    };
    s.most = s.control.kind == PITHI_CONTROL_NONZERO ? n : most_of(p, s.control.k, n);
    if (!p->value[SCOPE] || !n) return s;
    s.row = row;
    s.row_k = k_of(p, row);
    s.row_most = most_of(p, s.row_k, row);
    s.control.k = n / row * s.row_k;
    s.most = n / row * s.row_most;
    return s;
}

static bool fixed(const struct pithi_params *p) {
    (void)p;
    return false;
}

/* ---- Sizes -----------------------------------------------------------------------------------*/

/* Values in 8 bits are groups of 128 with a scale in f32. */
static const struct pithi_group_setting int8 = {.group = 128, .bits = 8, .scale_dtype = PITH_F32};

static uint64_t value_bytes(const struct pithi_params *p, uint64_t count) {
    switch (p->value[VALUES]) {
    case F32: return 4 * count;
    case INT8: return pithi_group_scale_bytes(&int8, count) + pithi_group_code_bytes(&int8, count);
    case NONE: return 0;
    default: return 2 * count;
    }
}

/* The head of a block: how the set is coded, the low bits of ELIAS_FANO, and, unless the set is
 * empty, its elements - 1. */
enum { HEAD_FORM = 0x07, HEAD_LOW_BITS = 3, HEAD_EMPTY = 1, HEAD_BYTES = 4 };

static uint64_t block_bytes(const struct pithi_params *p, uint64_t count) {
    if (!count) return 0;
    /* A block that sends every element has no indices; without values it has a map. */
    const uint64_t index = p->value[VALUES] == NONE ? pithi_index_most(count) : 0;
    /* Any set is no longer than one of all but one element with a map. */
    const uint64_t map = pithi_index_most(count) + value_bytes(p, count - 1);
    const uint64_t all = index + value_bytes(p, count);
    return HEAD_BYTES + (all > map ? all : map);
}

/* Returns the most bytes of all blocks of a frame with as many values as may be sent. */
static uint64_t data_bytes(const struct pithi_frame *f, uint64_t sum) {
    const struct pithi_params *const p = &f->params;
    const uint64_t blocks = f->count / p->block + (f->count % p->block != 0);
    const uint64_t most = sparse_setting(f).most;
    /* Indices of a block take no more than its map, nor than 4 bytes each and 8 more. */
    const uint64_t index = pithi_min(pithi_index_most(f->count) + blocks, 4 * most + 8 * blocks);
    const uint64_t scales = p->value[VALUES] == INT8 ? 4 * pithi_min(most, blocks) : 0;
    const uint64_t bytes = HEAD_BYTES * blocks + index + value_bytes(p, most) + scales;
    return pithi_min(sum, bytes);
}

/* ---- Memory ----------------------------------------------------------------------------------*/

enum { PIECE = 16384 }; /* elements that are chosen before they are listed */

struct work {
    uint64_t *map;
    uint32_t *list;
    float *values, *sent; /* a chunk each */
    float *row;           /* scope=row: the longest row that there may be */
};

/* Lays the parts of scratch memory one behind the other; with scratch NULL only counts their
 * bytes. */
static struct work layout(const struct pithi_params *p, uint8_t *scratch, size_t *bytes) {
    struct work w = {NULL, NULL, NULL, NULL, NULL};
    const size_t map = (size_t)pithi_pad64(p->most / 8 + 8);
    const size_t listed = pithi_index_list_most(p->most);
    /* A list that is as long as it may be is added to by a piece, before it is given up. */
    const size_t longest = listed + (size_t)pithi_min(p->most, PIECE);
    const size_t entries =
        (longest < 2 * PITHI_CHUNK ? 2 * PITHI_CHUNK : longest) + PITHI_INDEX_SLACK;
    const size_t list = (size_t)pithi_pad64(entries * sizeof(uint32_t));
    const size_t chunk = PITHI_CHUNK * sizeof(float);
    const size_t row = p->value[SCOPE] ? PITHI_SPARSE_ROW * sizeof(float) : 0;
    *bytes = map + list + 2 * chunk + row;
    if (!scratch) return w;
    w.map = (uint64_t *)(void *)scratch;
    w.list = (uint32_t *)(void *)(scratch + map);
    w.values = (float *)(void *)(scratch + map + list);
    w.sent = w.values + PITHI_CHUNK;
    w.row = w.sent + PITHI_CHUNK;
    return w;
}

static size_t scratch_bytes(const struct pithi_params *p) {
    size_t bytes;
    layout(p, NULL, &bytes);
    if (p->decode_only) return bytes;
    const size_t selection = pithi_sparse_scratch_bytes();
    return bytes > selection ? bytes : selection;
}

static struct work work_of(const struct pithi_block *b) {
    size_t bytes;
    return layout(b->params, b->scratch, &bytes);
}

static size_t words_of(size_t count) { return (count + 63) / 64; }

/* ---- Coefficients ----------------------------------------------------------------------------*/

static uint32_t transform_length(const struct pithi_params *p) {
    static const uint32_t length[] = {1, PITHI_DCT_ORDER, 32};
    return length[p->value[TRANSFORM]];
}

/* Returns the setting's rotation: of order 0, which changes nothing, for other transforms. */
static struct pithi_rotation rotation(const struct pithi_params *p) {
    return (struct pithi_rotation){.order =
                                       p->value[TRANSFORM] == HADAMARD ? transform_length(p) : 0};
}

static void enter(const struct pithi_block *b, size_t at, size_t count, float *x) {
    const struct pithi_rotation r = rotation(b->params);
    if (b->params->value[TRANSFORM] == DCT)
        pithi_dct(x, count);
    else
        b->kernels->rotate(&r, x, x, PITH_F32, count, b->first + at);
}

static void leave(const struct pithi_block *b, size_t at, size_t count, float *x, void *to,
                  uint32_t dtype, float scale) {
    const struct pithi_rotation r = rotation(b->params);
    if (b->params->value[TRANSFORM] == DCT) pithi_dct_inverse(x, count);
    b->kernels->unrotate(&r, to, dtype, x, count, b->first + at, scale);
}

static bool alike(const struct pithi_params *a, const struct pithi_params *b) {
    return a->value[TRANSFORM] == b->value[TRANSFORM];
}

static const struct pithi_domain domain = {
    .alike = alike, .leave = leave, .enter = enter, .length = transform_length};

/* ---- Sets ------------------------------------------------------------------------------------*/

/* Takes elements [from, until) of the block out of a map. */
static void take_out(uint64_t *map, size_t from, size_t until) {
    for (; from < until && from % 64; from++) map[from / 64] &= ~(UINT64_C(1) << from % 64);
    for (; from + 64 <= until; from += 64) map[from / 64] = 0;
    for (; from < until; from++) map[from / 64] &= ~(UINT64_C(1) << from % 64);
}

/* Returns the place in the block of an element of the slot, or the nearer end. */
static size_t place_of(const struct pithi_block *b, uint64_t element) {
    if (element <= b->first) return 0;
    return (size_t)pithi_min(element - b->first, b->count);
}

static uint32_t x_at(const struct pithi_block *b, size_t i) {
    const uint32_t u = pithi_load(b->value, b->own->sparse.dtype, i);
    return b->feedback.before ? pithi_bits(b->feedback.before[i] + pithi_float(u)) : u;
}

/* Reads x of listed elements. */
static void read_listed(const struct pithi_block *b, const uint32_t *list, size_t count, float *x) {
    const void *const value = b->value;
    const float *const before = b->feedback.before;
    const uint32_t dtype = b->own->sparse.dtype;
    for (size_t i = 0; i < count; i++) x[i] = pithi_float(pithi_load(value, dtype, list[i]));
    for (size_t i = 0; before && i < count; i++) x[i] = before[list[i]] + x[i];
}

/* Adds element i to a map. */
static void put_in(uint64_t *map, size_t i) { map[i / 64] |= UINT64_C(1) << i % 64; }

/* Reads x of a row, of which the block may have a part only. */
static void read_row(const struct pithi_block *b, uint64_t first, size_t count, float *x) {
    const size_t width = pith_dtype_bytes(b->own->sparse.dtype);
    const bool inside = first >= b->first && first + count <= b->first + b->count;
    const void *const values = inside
                                   ? (const uint8_t *)b->value + (size_t)(first - b->first) * width
                                   : b->own->sparse.read(b->own->sparse.read_from, first, count,
                                                         b->own->sparse.read_buffer);
    const float *const before = b->feedback.before; /* of the block's first element */
    for (size_t i = 0; i < count; i++) {
        const float value = pithi_float(pithi_load(values, b->own->sparse.dtype, i));
        x[i] = before ? before[(ptrdiff_t)(first - b->first) + (ptrdiff_t)i] + value : value;
    }
}

/* Chooses the largest elements of every row; the map holds none yet. */
static void choose_rows(const struct pithi_block *b, const struct work *w, uint64_t *map) {
    const struct pithi_selection *const s = b->own->sparse.selection;
    const uint64_t end = b->first + b->count;
    for (uint64_t row = b->first / s->row * s->row; row < end; row += s->row) {
        struct pithi_kth found;
        read_row(b, row, (size_t)s->row, w->row);
        pithi_kth_of(w->row, (size_t)s->row, (size_t)s->row_k, &found);
        size_t ties = (size_t)(s->row_k - found.larger);
        for (size_t i = 0; i < s->row; i++) {
            const uint32_t x = pithi_select_magnitude(pithi_bits(w->row[i]));
            const bool tie = x == found.t && x && ties;
            ties -= tie;
            if ((x > found.t || tie) && row + i >= b->first && row + i < end)
                put_in(map, (size_t)(row + i - b->first));
        }
    }
}

/* Chooses all elements of a unit of which one is chosen, among [from, until) of the block. */
static void choose_units(const struct pithi_block *b, uint64_t *map, size_t from, size_t until) {
    const size_t unit = b->params->value[UNIT];
    for (size_t at = from; at < until; at += unit) {
        const size_t end = (size_t)pithi_min(at + unit, until);
        bool any = false;
        for (size_t i = at; i < end && !any; i++) any = map[i / 64] >> i % 64 & 1;
        for (size_t i = at; i < end && any; i++) put_in(map, i);
    }
}

static size_t within(size_t place, size_t from, size_t until) {
    return place < from ? from : place < until ? place : until;
}

/* Takes out of a map what is outside the range that may be chosen from. */
static void keep_range(const struct pithi_block *b, uint64_t *map, size_t from, size_t until) {
    const struct pithi_selection *const s = b->own->sparse.selection;
    take_out(map, from, within(place_of(b, s->first), from, until));
    take_out(map, within(place_of(b, s->end), from, until), until);
}

/* Whether what a threshold chooses among elements [from, until) is chosen in the end, and leaves
 * nothing behind: then selection can leave 0 in the residual, which is in the cache there. */
static bool sends_all(const struct pithi_block *b, size_t from, size_t until) {
    const struct pithi_params *const p = b->params;
    const struct pithi_selection *const s = b->own->sparse.selection;
    const size_t tie = place_of(b, s->tie_end);
    return p->value[EF] == 1 && p->value[VALUES] == F32 && !p->value[UNIT] &&
           !b->own->sparse.caller_clears && !b->own->sparse.same_set && !b->own->sparse.held_set &&
           !s->row && place_of(b, s->first) <= from && place_of(b, s->end) >= until &&
           (tie <= from || tie >= until);
}

/* Chooses among elements [from, until) of a block: writes their map, and with feedback x to the new
 * residual, or 0 where x is sent. `from` is a multiple of 64 and of units; rows are chosen in a
 * whole block. */
static void choose_among(const struct pithi_block *b, const struct work *w, uint64_t *map,
                         size_t from, size_t until) {
    const struct pithi_selection *const s = b->own->sparse.selection;
    /* Where nothing may be chosen only the residual needs the values. */
    if (!b->feedback.before && (place_of(b, s->first) >= until || place_of(b, s->end) <= from)) {
        memset(map + from / 64, 0, words_of(until - from) * sizeof *map);
        return;
    }
    /* Before tie_end values that equal the threshold are chosen, from there on they are not. */
    const bool ties = b->first + from < s->tie_end;
    const size_t width = pith_dtype_bytes(b->own->sparse.dtype);
    const float *const before = b->feedback.before;
    const struct pithi_select_job job = {
        .from = {(const uint8_t *)b->value + from * width, b->own->sparse.dtype, until - from,
                 before ? before + from : NULL},
        .threshold = ties ? s->threshold : s->threshold + 1,
        .set = map + from / 64,
        .after = before ? b->feedback.after + from : NULL,
        .nontemporal = b->nontemporal,
        .sent = sends_all(b, from, until)};
    b->kernels->select(&job);
    if (s->row) choose_rows(b, w, map);
    keep_range(b, map, from, until);
    if (b->params->value[UNIT]) {
        choose_units(b, map, from, until);
        keep_range(b, map, from, until);
    }
    if (s->row || !ties) return;
    for (size_t i = within(place_of(b, s->tie_end), from, until); i < until; i++)
        if (map[i / 64] >> i % 64 & 1 && pithi_select_magnitude(x_at(b, i)) == s->threshold)
            take_out(map, i, i + 1);
}

/* Chooses the elements of a block, a piece at a time, which is listed and read while it is in the
 * cache: the first PITHI_CHUNK elements' values are left in w->values. Returns whether the list,
 * which may be NULL, has all elements: as long as they are no more than forms with lists hold. */
static bool choose(const struct pithi_block *b, const struct work *w, struct pithi_index_set *set) {
    const size_t most = pithi_index_list_most(b->count);
    const size_t piece = b->own->sparse.selection->row ? b->count : PIECE;
    bool few = set->list && piece == PIECE;
    for (size_t at = 0; at < b->count; at += piece) {
        const size_t until = (size_t)pithi_min(at + piece, b->count), words = words_of(until - at);
        const uint64_t *const map = set->map + at / 64;
        choose_among(b, w, set->map, at, until);
        if (!few) {
            set->count += pithi_ones((const uint8_t *)map, words * sizeof *map);
            continue;
        }
        const size_t have = set->count, more = b->kernels->set_list(map, words, set->list + have);
        uint32_t *const list = set->list + have;
        for (size_t i = 0; i < more; i++) list[i] += (uint32_t)at;
        if (have < PITHI_CHUNK)
            read_listed(b, list, (size_t)pithi_min(more, PITHI_CHUNK - have), w->values + have);
        set->count += more;
        few = set->count <= most;
    }
    return few;
}

/* Calls visit for the elements of a set in ascending order, PITHI_CHUNK at a time and then the
 * rest; `at` is how many were before. */
typedef void visit_fn(struct pithi_block *b, const struct work *w, const uint32_t *list,
                      size_t count, size_t at, void *arg);
static void for_set(struct pithi_block *b, const struct work *w, const struct pithi_index_set *set,
                    bool listed, visit_fn *visit, void *arg) {
    enum { WORDS = PITHI_CHUNK / 64 };
    size_t at = 0, have = 0;
    if (listed) {
        for (; at < set->count; at += PITHI_CHUNK)
            visit(b, w, set->list + at, (size_t)pithi_min(set->count - at, PITHI_CHUNK), at, arg);
        return;
    }
    const size_t words = words_of(set->n);
    for (size_t word = 0; word < words; word += WORDS) {
        const size_t n = (size_t)pithi_min(words - word, WORDS);
        const size_t more = b->kernels->set_list(set->map + word, n, w->list + have);
        for (size_t i = 0; i < more; i++) w->list[have + i] += (uint32_t)(word * 64);
        have += more;
        if (have < PITHI_CHUNK) continue;
        visit(b, w, w->list, PITHI_CHUNK, at, arg);
        at += PITHI_CHUNK;
        have -= PITHI_CHUNK;
        memmove(w->list, w->list + PITHI_CHUNK, have * sizeof *w->list);
    }
    if (have) visit(b, w, w->list, have, at, arg);
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* The values of a block's set: where their bytes begin, how many there are, whether those of the
 * first chunk have been read, and whether the residual has none of them already. */
struct values {
    uint8_t *bytes;
    size_t count;
    bool read, left;
};

static struct pithi_group_job group_job(const struct pithi_block *b, const struct values *v,
                                        size_t at, size_t count) {
    struct pithi_group_job job;
    pithi_group_job_open(&job, b->random);
    job.set = int8;
    job.count = count;
    job.scales = v->bytes + pithi_group_scale_bytes(&int8, at);
    job.codes = v->bytes + pithi_group_scale_bytes(&int8, v->count) + at;
    return job;
}

static uint32_t value_dtype(const struct pithi_params *p) {
    return p->value[VALUES] == BF16 ? PITH_BF16 : p->value[VALUES] == F16 ? PITH_F16 : PITH_F32;
}

/* Decodes values [at, at + count) of the block's set to x. */
static void decode_values(struct pithi_block *b, const struct values *v, size_t at, size_t count,
                          float *x) {
    const uint32_t dtype = value_dtype(b->params);
    const uint8_t *const from = v->bytes + at * pith_dtype_bytes(dtype);
    if (b->params->value[VALUES] == NONE) {
        for (size_t i = 0; i < count; i++) x[i] = 1.0f;
    } else if (b->params->value[VALUES] == INT8) {
        struct pithi_group_job job = group_job(b, v, at, count);
        job.out = x;
        job.out_dtype = PITH_F32;
        b->kernels->group_decode(&job);
        b->poisoned += job.poisoned;
        b->saturated += job.saturated;
    } else {
        for (size_t i = 0; i < count; i++) x[i] = pithi_float(pithi_load(from, dtype, i));
    }
}

static void encode_values(struct pithi_block *b, const struct values *v, size_t at, size_t count,
                          const float *x) {
    const uint32_t dtype = value_dtype(b->params);
    uint8_t *const to = v->bytes + at * pith_dtype_bytes(dtype);
    if (b->params->value[VALUES] == INT8) {
        struct pithi_group_job job = group_job(b, v, at, count);
        job.value = x;
        job.value_dtype = PITH_F32;
        b->kernels->group_encode(&job);
        b->poisoned += job.poisoned;
    } else if (b->params->value[VALUES] != NONE) {
        for (size_t i = 0; i < count; i++) pithi_store(to, dtype, i, pithi_bits(x[i]));
    }
}

/* ---- Error feedback --------------------------------------------------------------------------*/

/* Returns what the residual becomes where `lost` was not sent. */
static float residual_after(const struct pithi_block *b, size_t i, float lost) {
    const uint32_t ef = b->params->value[EF];
    const float before = b->feedback.before[i];
    const float decay = (float)(ef - 1) / 1000.0f, gain = (float)(1001 - ef) / 1000.0f;
    const float next = ef == 1 ? lost : decay * before + gain * lost;
    return pithi_nonfinite(pithi_bits(next)) ? before : next;
}

/* Keeps the momentum, which the values are. Where it is not finite it stays as it was. */
static void keep_momentum(const struct pithi_block *b) {
    for (size_t i = 0; b->own->sparse.momentum && i < b->count; i++) {
        const uint32_t next = pithi_load(b->value, PITH_F32, i);
        b->own->sparse.momentum_next[i] =
            pithi_nonfinite(next) ? b->own->sparse.momentum[i] : pithi_float(next);
    }
}

/* Where the residual is a moving mean, takes it of what choose left: x itself. */
static void decay_residual(struct pithi_block *b) {
    if (!b->feedback.before || b->params->value[EF] == 1) return;
    for (size_t i = 0; i < b->count; i++)
        b->feedback.after[i] = residual_after(b, i, pithi_float(x_at(b, i)));
}

/* Whether selection left 0 for all that is sent, in each piece of the block. */
static bool leaves_none(const struct pithi_block *b) {
    for (size_t at = 0; at < b->count; at += PIECE)
        if (!sends_all(b, at, (size_t)pithi_min(at + PIECE, b->count))) return false;
    return true;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Codes the values of a chunk of the set and takes them out of the residual. */
static void send_chunk(struct pithi_block *b, const struct work *w, const uint32_t *list,
                       size_t count, size_t at, void *arg) {
    const struct values *const v = arg;
    if (at || !v->read) read_listed(b, list, count, w->values);
    encode_values(b, v, at, count, w->values);
    if (!b->feedback.before || b->own->sparse.caller_clears) return;
    for (size_t i = 0; b->own->sparse.momentum && i < count; i++)
        b->own->sparse.momentum_next[list[i]] = 0;
    if (v->left) return;
    /* What is decoded here was counted when it was encoded. */
    const uint64_t poisoned = b->poisoned, saturated = b->saturated;
    decode_values(b, v, at, count, w->sent);
    b->poisoned = poisoned;
    b->saturated = saturated;
    for (size_t i = 0; i < count; i++)
        b->feedback.after[list[i]] = residual_after(b, list[i], w->values[i] - w->sent[i]);
}

/* Whether sending every element of the block takes less than sending the set, and all may be
 * chosen. */
static bool is_dense(const struct pithi_block *b, const struct pithi_index_choice *choice,
                     size_t count) {
    const struct pithi_params *const p = b->params;
    const struct pithi_selection *const s = b->own->sparse.selection;
    if (b->first < s->first || b->first + b->count > s->end) return false;
    return p->value[VALUES] != NONE && choice->form != PITHI_INDEX_EMPTY &&
           value_bytes(p, b->count) < choice->bytes + value_bytes(p, count);
}

static void fill(uint64_t *map, size_t count) {
    memset(map, 0xFF, words_of(count) * sizeof *map);
    if (count % 64) map[count / 64] = (UINT64_C(1) << count % 64) - 1;
}

/* Whether a set is what the stream holds of the block; one of no or of all elements takes no
 * indices either way. */
static bool is_held(const struct pithi_block *b, const struct pithi_index_set *set) {
    return set->count && set->count < b->count &&
           memcmp(set->map, b->own->sparse.held_map, words_of(b->count) * sizeof *set->map) == 0;
}

static void put_head(struct pithi_block *b, const struct pithi_index_choice *choice, size_t count) {
    const uint32_t form = (uint32_t)choice->form | choice->low_bits << HEAD_LOW_BITS;
    if (choice->form == PITHI_INDEX_EMPTY)
        b->bytes[0] = 0;
    else
        pithi_put32(b->bytes, form | (uint32_t)(count - 1) << 8);
}

/* Finds the set that a block sends: in set->map, and, where *listed becomes true, in w->list as
 * well. A set that the slot holds is in the map already; then elements are chosen only for what
 * choosing leaves in the residual. Returns whether choosing has left the values of the set's first
 * PITHI_CHUNK elements in w->values. */
static bool find_set(struct pithi_block *b, const struct work *w, struct pithi_index_set *set,
                     bool *listed) {
    const bool held = b->own->sparse.same_set || b->own->sparse.held_set;
    struct pithi_index_set chosen = {
        .map = held ? w->map : set->map, .list = held ? NULL : w->list, .n = b->count};
    const bool read = *listed = choose(b, w, &chosen);
    set->count = held ? pithi_ones((const uint8_t *)set->map, words_of(b->count) * sizeof *set->map)
                      : chosen.count;
    if (!*listed && set->count <= pithi_index_list_most(b->count)) {
        b->kernels->set_list(set->map, words_of(b->count), w->list);
        *listed = true;
    }
    return read;
}

static pith_status encode(struct pithi_block *b) {
    const struct work w = work_of(b);
    const bool same_set = b->own->sparse.same_set, same_blocks = b->own->sparse.same_blocks;
    uint64_t *const held_map = b->own->sparse.held_map;
    /* With same_blocks the held map is compared with the new one before it becomes that. */
    uint64_t *const map = held_map && !same_blocks ? held_map : w.map;
    struct pithi_index_set set = {map, w.list, b->count, 0};
    bool listed;
    const bool read = find_set(b, &w, &set, &listed);
    decay_residual(b);
    keep_momentum(b);
    b->exact = set.count;
    struct pithi_index_choice choice = {.form = PITHI_INDEX_HELD};
    if (!same_set && !(same_blocks && is_held(b, &set)))
        choice =
            pithi_index_choose(b->kernels, &set, index_setting(b->params), b->bytes + HEAD_BYTES);
    if (same_set && !set.count) choice.form = PITHI_INDEX_EMPTY;
    if (!same_set && !b->own->sparse.held_set && is_dense(b, &choice, set.count)) {
        fill(map, b->count);
        set.count = b->count;
        choice = (struct pithi_index_choice){.form = PITHI_INDEX_ALL};
    }
    put_head(b, &choice, set.count);
    uint8_t *const at = b->bytes + (choice.form == PITHI_INDEX_EMPTY ? HEAD_EMPTY : HEAD_BYTES);
    pithi_index_put(b->kernels, &choice, &set, at);
    const bool all = set.count == b->count;
    struct values values = {at + choice.bytes, set.count, read && !all, !all && leaves_none(b)};
    for_set(b, &w, &set, listed && !all, send_chunk, &values);
    b->length = (size_t)(values.bytes - b->bytes) + (size_t)value_bytes(b->params, set.count);
    b->nonzero = set.count;
    if (same_blocks) memcpy(held_map, map, words_of(b->count) * sizeof *map);
    return PITH_OK;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* Elements are far from each other: with few instructions for each the loads of many are under way
 * at once. */
static void add_floats(void *out, const uint32_t *list, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint8_t *const to = (uint8_t *)out + (size_t)list[i] * sizeof(float);
        float sum;
        memcpy(&sum, to, sizeof sum);
        sum += values[i];
        if (__builtin_expect(sum != sum, 0)) sum = pithi_float(PITHI_F32_NAN);
        memcpy(to, &sum, sizeof sum);
    }
}

static void take_chunk(struct pithi_block *b, const struct work *w, const uint32_t *list,
                       size_t count, size_t at, void *arg) {
    decode_values(b, arg, at, count, w->values);
    for (size_t i = 0; i < count; i++)
        pithi_store(b->out, b->out_dtype, list[i], pithi_bits(w->values[i]));
}

static void add_chunk(struct pithi_block *b, const struct work *w, const uint32_t *list,
                      size_t count, size_t at, void *arg) {
    const uint32_t dtype = b->out_dtype;
    decode_values(b, arg, at, count, w->values);
    if (dtype == PITH_F32) {
        add_floats(b->out, list, w->values, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const float sum = pithi_float(pithi_load(b->out, dtype, list[i])) + w->values[i];
        pithi_store(b->out, dtype, list[i], pithi_bits(sum));
    }
}

/* The coefficients of a chunk of a block, which lie in the memory of values that were sent. */
struct coefficients {
    struct values values;
    size_t chunk; /* its first element */
};

/* Decodes the chunk and begins another one. */
static void leave_chunk(const struct pithi_block *b, const struct work *w, struct coefficients *c,
                        size_t next) {
    const size_t count = (size_t)pithi_min(b->count - c->chunk, PITHI_CHUNK);
    uint8_t *const to = (uint8_t *)b->out + c->chunk * pith_dtype_bytes(b->out_dtype);
    leave(b, c->chunk, count, w->sent, to, b->out_dtype, 1.0f);
    memset(w->sent, 0, PITHI_CHUNK * sizeof *w->sent);
    c->chunk = next;
}

static void take_coefficients(struct pithi_block *b, const struct work *w, const uint32_t *list,
                              size_t count, size_t at, void *arg) {
    struct coefficients *const c = arg;
    decode_values(b, &c->values, at, count, w->values);
    for (size_t i = 0; i < count; i++) {
        const size_t place = list[i] % PITHI_CHUNK, chunk = list[i] - place;
        if (chunk != c->chunk) leave_chunk(b, w, c, chunk);
        w->sent[place] = w->values[i];
    }
}

/* Keeps the set of a block that was decoded as the one that the stream holds. */
static void hold(const struct pithi_block *b, const struct pithi_index_set *set, bool listed) {
    const size_t bytes = words_of(b->count) * sizeof(uint64_t);
    if (!b->own->sparse.keep_set) return;
    if (!listed) {
        memcpy(b->own->sparse.held_map, set->map, bytes);
        return;
    }
    memset(b->own->sparse.held_map, 0, bytes);
    for (size_t i = 0; i < set->count; i++) put_in(b->own->sparse.held_map, set->list[i]);
}

/* Returns how many elements of the block the held set has; 0 where none is held. */
static size_t held_of(const struct pithi_block *b) {
    if (!b->own->sparse.held_map) return 0;
    return pithi_ones((const uint8_t *)b->own->sparse.held_map,
                      words_of(b->count) * sizeof(uint64_t));
}

static bool set_is_held(const uint8_t *bytes, size_t length) {
    return length >= HEAD_BYTES && (bytes[0] & HEAD_FORM) == PITHI_INDEX_HELD;
}

static uint64_t set_elements(const uint8_t *bytes, size_t length) {
    if (length < HEAD_BYTES || (bytes[0] & HEAD_FORM) == PITHI_INDEX_EMPTY) return 0;
    return (uint64_t)(pithi_get32(bytes) >> 8) + 1;
}

/* Reads the head and the set of a block: *listed says where it is. Returns where the values begin
 * in *at, and NULL or what is wrong. */
static const char *take_set(const struct pithi_block *b, struct pithi_index_set *set, bool *listed,
                            size_t *at) {
    if (b->plain) return "topk has no plain blocks";
    if (b->length < HEAD_EMPTY) return "the block is empty";
    const enum pithi_index_form form = (enum pithi_index_form)(b->bytes[0] & HEAD_FORM);
    const uint32_t low_bits = b->bytes[0] >> HEAD_LOW_BITS;
    *listed = pithi_index_is_listed(form);
    set->n = b->count;
    set->count = 0;
    *at = HEAD_EMPTY;
    if (form == PITHI_INDEX_EMPTY) {
        memset(set->map, 0, words_of(b->count) * sizeof *set->map);
        if (b->own->sparse.same_set && held_of(b))
            return "a block without values of the set that is held";
        return b->bytes[0] ? "unknown coding of a set" : NULL;
    }
    *at = HEAD_BYTES;
    if (b->length < HEAD_BYTES) return "the head of a block is cut";
    set->count = (size_t)set_elements(b->bytes, b->length);
    if (set->count > b->count) return "a set has more elements than its block";
    const bool held = form == PITHI_INDEX_HELD;
    if ((b->own->sparse.same_set != held && !b->own->sparse.same_blocks) || (held && low_bits))
        return "unknown coding of a set";
    if (form == PITHI_INDEX_PATCHED && !index_setting(b->params).patched)
        return "a set has an unknown form";
    if (held && b->own->sparse.held_map) {
        memcpy(set->map, b->own->sparse.held_map, words_of(b->count) * sizeof *set->map);
        return set->count == held_of(b) ? NULL
                                        : "a block has other values than the set that is held";
    }
    if (held) return NULL;
    size_t used = 0;
    const char *const fault = pithi_index_take(b->kernels, form, low_bits, b->bytes + HEAD_BYTES,
                                               b->length - HEAD_BYTES, set, &used);
    *at += used;
    return fault;
}

/* Decodes a block to `out`, or adds it to what is there. */
static const char *take_block(struct pithi_block *b, bool add) {
    const struct work w = work_of(b);
    struct pithi_index_set set = {w.map, w.list, b->count, 0};
    bool listed;
    size_t at;
    const char *const fault = take_set(b, &set, &listed, &at);
    if (fault) return fault;
    if (b->length - at != value_bytes(b->params, set.count))
        return "a block's values are not as many as its set";
    hold(b, &set, listed);
    /* Without the set only lengths can be checked, which pith_verify does. */
    if (!b->out || (set_is_held(b->bytes, b->length) && !b->own->sparse.held_map)) return NULL;
    if (!add) memset(b->out, 0, b->count * pith_dtype_bytes(b->out_dtype));
    struct coefficients c = {{b->bytes + at, set.count, false, false}, 0};
    if (transform_length(b->params) == 1 || b->coefficients) {
        for_set(b, &w, &set, listed, add ? add_chunk : take_chunk, &c.values);
        return NULL;
    }
    memset(w.sent, 0, PITHI_CHUNK * sizeof *w.sent);
    for_set(b, &w, &set, listed, take_coefficients, &c);
    leave_chunk(b, &w, &c, 0);
    return NULL;
}

static pith_status decode(struct pithi_block *b) {
    b->detail = take_block(b, false);
    return b->detail ? PITH_ERR_CORRUPT : PITH_OK;
}

static pith_status decode_add(struct pithi_block *b) {
    b->detail = take_block(b, true);
    return b->detail ? PITH_ERR_CORRUPT : PITH_OK;
}

/* ---- Bound -----------------------------------------------------------------------------------*/

/* Returns the largest error of values whose coefficients have errors of at most e, and those that
 * are sent magnitudes of at most y. */
static double after_transform(const struct pithi_params *p, double e, double y) {
    if (p->value[TRANSFORM] == 0 || e > (double)pithi_float(PITHI_F32_MAX)) return e;
    y += e;
    if (!(y < 0x1p120)) return (double)pithi_float(PITHI_F32_NAN);
    return p->value[TRANSFORM] == DCT ? 8 * e + y * 0x1p-11 + 0x1p-120 : e + y * 0x1p-18 + 0x1p-120;
}

/* Returns the largest error of a block's values or coefficients that are sent, NaN when one is not
 * finite, and their largest magnitude. */
static double bound_of_sent(const struct pithi_block *b, double *most) {
    const struct pithi_params *const p = b->params;
    *most = 0;
    if (b->length < HEAD_BYTES) return 0;
    const size_t count = (size_t)(pithi_get32(b->bytes) >> 8) + 1;
    const uint64_t bytes = value_bytes(p, count);
    if (count > b->count || bytes > b->length - HEAD_BYTES) return -1;
    const uint8_t *const values = b->bytes + b->length - bytes;
    if (p->value[VALUES] == NONE) return (double)pithi_float(PITHI_F32_INF);
    if (p->value[VALUES] == INT8) {
        const double group = pithi_group_bound(&int8, values, count);
        *most = 254 * group;
        return group;
    }
    if (p->value[VALUES] == F32 && p->value[TRANSFORM] == 0) return 0;
    const uint32_t dtype = value_dtype(p);
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t u = pithi_load(values, dtype, i) & 0x7FFFFFFFu;
        largest = u > largest ? u : largest;
    }
    if (pithi_nonfinite(largest)) return (double)pithi_float(PITHI_F32_NAN);
    /* Half a unit of the last place, 11 bits in f16 and 8 in bf16; subnormals are multiples of
     * 2^-24 and of 2^-133. */
    const double x = *most = (double)pithi_float(largest);
    if (dtype == PITH_F32) return 0;
    return dtype == PITH_BF16 ? x * 0x1p-8 + 0x1p-134 : x * 0x1p-11 + 0x1p-25;
}

static double bound(const struct pithi_block *b) {
    double most;
    const double sent = bound_of_sent(b, &most), left_out = b->left_out;
    if (!(sent >= 0)) return sent;
    return after_transform(b->params, sent > left_out ? sent : left_out, most);
}

static struct pithi_stream_setting stream_setting(const struct pithi_params *p) {
    return (struct pithi_stream_setting){.feedback = p->value[EF],
                                         .momentum = p->value[MOMENTUM] != 0};
}

/* ---- Devices ---------------------------------------------------------------------------------*/

static bool describe(const struct pithi_params *p, struct pithi_device *d) {
    static const uint32_t dtype[] = {[F32] = PITH_F32,
                                     [F16] = PITH_F16,
                                     [BF16] = PITH_BF16,
                                     [INT8] = PITH_I8,
                                     [NONE] = PITH_NONE};
    d->kind = PITHI_KIND_SETS;
    d->groups.set = int8;
    d->sets = (struct pithi_sets){.values = dtype[p->value[VALUES]],
                                  .control = p->value[CONTROL],
                                  .every = p->value[EVERY],
                                  .elias_fano = index_setting(p).elias_fano,
                                  .patched = index_setting(p).patched,
                                  .clears = p->value[CLEAR] == 0,
                                  .rows = p->value[SCOPE] != 0,
                                  .unit = p->value[UNIT],
                                  .run = transform_length(p),
                                  .momentum = (float)pithi_decimal_floor(p->value[MOMENTUM])};
    return true;
}

static const struct pithi_sparse_codec sparse = {sparse_setting, set_elements, set_is_held};

const struct pithi_codec pithi_codec_topk = {
    .id = 9,
    .revision = PITHI_CHOSEN_REVISION,
    .frame_revision = frame_revision,
    .name = "topk",
    .summary = "the largest values of a tensor and where they are: sparsified gradients",
    .traits = PITH_TRAIT_SPARSE,
    .dtypes = 1u << PITH_F32 | 1u << PITH_BF16 | 1u << PITH_F16,
    .keys = keys,
    .key_count = sizeof keys / sizeof *keys,
    .needs = needs,
    .need_count = sizeof needs / sizeof *needs,
    .stream_keys = 1u << EVERY | 1u << EF | 1u << CLEAR | 1u << MOMENTUM,
    .preset = preset,
    .check = check,
    .fixed = fixed,
    .block_bytes = block_bytes,
    .data_bytes = data_bytes,
    .scratch_bytes = scratch_bytes,
    .encode = encode,
    .decode = decode,
    .decode_add = decode_add,
    .bound = bound,
    .stream_setting = stream_setting,
    .domain = &domain,
    .frame_hooks = &pithi_sparse_frame_hooks,
    .own.sparse = &sparse,
    .describe = describe,
    .describe_slot = pithi_sets_describe,
    .refuse_device = pithi_sets_refuse,
    .described_rules = true,
    .described_keys =
        1u << DENSITY | 1u << K | 1u << CAP | 1u << CONTROL | 1u << INDEX | 1u << REVISION,
};
