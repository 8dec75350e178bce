/* zero_map.c - zero maps, whole or bit by bit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/zero_map.h"

#include <string.h>

#include "bytes/entropy.h"
#include "bytes/rans.h"
#include "common/endian.h"
#include "common/log2.h"
#include "common/minmax.h"
#include "common/pad.h"
#include "common/popcount.h"
#include "predict/zero_lanes.h"

enum { FORM_PIECE = 0, FORM_ONES = 1, FORM_MODELLED = 2, FORM_LANES = 3 };
enum { LENGTH_BYTES = 3, CONTEXTS = 256, RATE_MAX = 6 };
/* Contexts look at two columns before a row and at one behind it. */
enum { BEFORE = 2, BORDER = 3 };

static size_t map_bytes(size_t count) { return (count + 7) / 8; }

static size_t elements(const uint32_t extent[PITHI_TILE_NDIM]) {
    size_t n = 1;
    for (unsigned d = 0; d < PITHI_TILE_NDIM; d++) n *= extent[d];
    return n;
}

/* ---- Memory: four rows of a byte per element and a coded map, or lanes; what pieces need ------*/

static size_t row_bytes(size_t max_count) { return pithi_pad64(max_count + BORDER); }

static size_t pieces_at(size_t max_count) {
    return pithi_max(4 * row_bytes(max_count) + pithi_pad64(map_bytes(max_count)),
                     pithi_zero_lanes_scratch(max_count));
}

size_t pithi_zeros_scratch(size_t max_count) {
    return pieces_at(max_count) + pithi_piece_scratch(map_bytes(max_count));
}

struct memory {
    uint8_t *rows[4], *bits;
    void *pieces;
};

static struct memory memory_of(void *scratch, size_t max_count) {
    const size_t row = row_bytes(max_count);
    uint8_t *const first = scratch;
    return (struct memory){{first, first + row, first + 2 * row, first + 3 * row},
                           first + 4 * row,
                           first + pieces_at(max_count)};
}

/* ---- The model: the probability of a one, in 65536ths, for every context ----------------------
 * The first bits of a context move it by halves, later ones by 64ths. It stays within 1..65535,
 * as it goes at most half of the way to either end. */
struct chance {
    uint16_t one;
    uint8_t rate, left; /* rate: the shift, left: how many more bits it is for */
};
struct model {
    struct chance of[CONTEXTS];
};

static void model_init(struct model *m) {
    for (size_t c = 0; c < CONTEXTS; c++) m->of[c] = (struct chance){1u << 15, 1, 1};
}

static inline void learn(struct chance *c, bool bit) {
    const uint32_t p = c->one, rate = c->rate;
    c->one = (uint16_t)(bit ? p + ((65536u - p) >> rate) : p - (p >> rate));
    if (rate < RATE_MAX && --c->left == 0) {
        c->rate = (uint8_t)(rate + 1);
        c->left = (uint8_t)(1u << rate);
    }
}

/* Rows of a plane, with their borders: the current one, the one above it, the one above that; and
 * what those above say of each element's context. */
struct rows {
    uint8_t *at, *up, *above, *hints;
    size_t width;
};

static struct rows rows_of(const struct memory *m, const uint32_t extent[PITHI_TILE_NDIM]) {
    return (struct rows){m->rows[0], m->rows[1], m->rows[2], m->rows[3],
                         extent[PITHI_TILE_NDIM - 1]};
}

static void rows_clear(struct rows *r) {
    memset(r->at, 0, r->width + BORDER);
    memset(r->up, 0, r->width + BORDER);
    memset(r->above, 0, r->width + BORDER);
}

static void rows_next(struct rows *r) {
    uint8_t *const oldest = r->above;
    r->above = r->up;
    r->up = r->at;
    r->at = oldest;
}

/* Finds all of each context but the two bits to the left. */
static void rows_hint(const struct rows *r, size_t y) {
    const uint8_t *const up = r->up + BEFORE, *const above = r->above + BEFORE;
    uint8_t *const hints = r->hints;
    const unsigned odd_row = (unsigned)(y & 1) << 7;
    for (size_t x = 0; x < r->width; x++) {
        const unsigned around = up[x] | up[x + 1] * 2u | up[(ptrdiff_t)x - 1] * 4u | above[x] * 16u;
        hints[x] = (uint8_t)(around << 1 | (unsigned)(x & 1) << 6 | odd_row);
    }
}

/* Returns what a context has of its row: the bits one and two to the left. */
static inline unsigned left_of(unsigned left, bool bit) { return (left & 1) << 4 | bit; }

/* ---- The coder: an interval of 32 bits, cut in proportion, whose leading bytes go out ---------*/

struct coder {
    uint32_t low, high; /* the interval, both ends included */
    uint32_t value;     /* reading: the place in it that the bytes name */
    uint8_t *to;        /* writing: goes up to `end` */
    const uint8_t *from, *end;
    size_t shifts; /* reading: bytes that went out */
    bool full;     /* writing: a byte did not fit */
};

static inline uint32_t cut(const struct coder *k, uint32_t one) {
    return k->low + (uint32_t)((uint64_t)(k->high - k->low) * one >> 16);
}

static inline void narrow(struct coder *k, uint32_t middle, bool bit) {
    if (bit)
        k->high = middle;
    else
        k->low = middle + 1;
}

static void put_byte(struct coder *k, uint8_t byte) {
    if (k->to == k->end)
        k->full = true;
    else
        *k->to++ = byte;
}

static inline void put_bit(struct coder *k, struct chance *c, bool bit) {
    narrow(k, cut(k, c->one), bit);
    learn(c, bit);
    for (; (k->low ^ k->high) >> 24 == 0; k->low <<= 8, k->high = k->high << 8 | 0xFFu)
        put_byte(k, (uint8_t)(k->high >> 24));
}

/* Writes the fewest bytes that name a place in the interval when zeros follow. */
static void put_end(struct coder *k) {
    for (unsigned bytes = 0; bytes <= 4; bytes++) {
        const uint32_t place = (uint32_t)(k->high & ~(UINT64_C(0xFFFFFFFF) >> 8 * bytes));
        if (place < k->low) continue;
        for (unsigned i = 0; i < bytes; i++) put_byte(k, (uint8_t)(place >> (24 - 8 * i)));
        return;
    }
}

static inline uint32_t next_byte(struct coder *k) { return k->from < k->end ? *k->from++ : 0; }

static inline bool take_bit(struct coder *k, struct chance *c) {
    const uint32_t middle = cut(k, c->one);
    const bool bit = k->value <= middle;
    narrow(k, middle, bit);
    learn(c, bit);
    for (; (k->low ^ k->high) >> 24 == 0; k->low <<= 8, k->high = k->high << 8 | 0xFFu) {
        k->value = k->value << 8 | next_byte(k);
        k->shifts++;
    }
    return bit;
}

/* ---- Maps bit by bit -------------------------------------------------------------------------*/

static void put_row(struct coder *k, struct model *m, const struct rows *r, size_t y,
                    const uint8_t *map, size_t first) {
    uint8_t *const at = r->at + BEFORE;
    unsigned left = 0;
    rows_hint(r, y);
    for (size_t x = 0; x < r->width; x++) {
        const size_t i = first + x;
        const bool bit = map[i / 8] >> i % 8 & 1;
        put_bit(k, &m->of[r->hints[x] | left], bit);
        left = left_of(left, bit);
        at[x] = bit;
    }
}

static void take_row(struct coder *k, struct model *m, const struct rows *r, size_t y, uint8_t *map,
                     size_t first) {
    uint8_t *const at = r->at + BEFORE;
    unsigned left = 0;
    rows_hint(r, y);
    for (size_t x = 0; x < r->width; x++) {
        const size_t i = first + x;
        const bool bit = take_bit(k, &m->of[r->hints[x] | left]);
        left = left_of(left, bit);
        at[x] = bit;
        map[i / 8] = (uint8_t)(map[i / 8] | bit << i % 8);
    }
}

/* Returns the bytes written; 0 when they would be more than capacity. */
static size_t put_modelled(struct rows r, const uint8_t *map,
                           const uint32_t extent[PITHI_TILE_NDIM], uint8_t *to, size_t capacity) {
    struct coder k = {.high = UINT32_MAX, .to = to, .end = to + capacity};
    struct model m;
    model_init(&m);
    const size_t rows = elements(extent) / r.width, height = extent[PITHI_TILE_NDIM - 2];
    for (size_t y = 0; y < rows && !k.full; y++, rows_next(&r)) {
        if (y % height == 0) rows_clear(&r);
        put_row(&k, &m, &r, y % height, map, y * r.width);
    }
    put_end(&k);
    return k.full ? 0 : (size_t)(k.to - to);
}

/* Reads a map; false unless the bytes end where the last bit's do. */
static bool take_modelled(struct rows r, uint8_t *map, const uint32_t extent[PITHI_TILE_NDIM],
                          const uint8_t *from, size_t length) {
    struct coder k = {.high = UINT32_MAX, .from = from, .end = from + length};
    struct model m;
    model_init(&m);
    for (unsigned i = 0; i < 4; i++) k.value = k.value << 8 | next_byte(&k);
    const size_t count = elements(extent), height = extent[PITHI_TILE_NDIM - 2];
    memset(map, 0, map_bytes(count));
    for (size_t y = 0; y < count / r.width; y++, rows_next(&r)) {
        if (y % height == 0) rows_clear(&r);
        take_row(&k, &m, &r, y % height, map, y * r.width);
    }
    return k.shifts <= length && length <= k.shifts + 4;
}

/* ---- What bit by bit would take --------------------------------------------------------------*/

/* Returns bits [first, first + 64) of the map; those outside of it are 0. */
static uint64_t bits_from(const uint8_t *map, size_t bytes, ptrdiff_t first) {
    if (first < 0) return first <= -64 ? 0 : bits_from(map, bytes, 0) << -first;
    const size_t at = (size_t)first / 8;
    const unsigned shift = (unsigned)first % 8;
    uint8_t part[9] = {0};
    if (at + sizeof part <= bytes)
        return pithi_get64(map + at) >> shift | (uint64_t)map[at + 8] << 1 << (63 - shift);
    if (at < bytes) memcpy(part, map + at, bytes - at);
    return pithi_get64(part) >> shift | (uint64_t)part[8] << 1 << (63 - shift);
}

/* How often each context had a 0 and a 1. */
struct tally {
    uint32_t of[CONTEXTS][2];
};

/* Makes of eight bytes those of which byte i has bit i of each, that of byte j as its bit j. */
static uint64_t transposed(uint64_t x) {
    uint64_t t = (x ^ x >> 7) & UINT64_C(0x00AA00AA00AA00AA);
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & UINT64_C(0x0000CCCC0000CCCC);
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & UINT64_C(0x00000000F0F0F0F0);
    return x ^ t ^ t << 28;
}

/* Counts at most 64 bits of a row, from place x of it on. */
static void count_bits(struct tally *t, const uint8_t *map, size_t bytes, size_t row, size_t y,
                       size_t width, size_t x) {
    const ptrdiff_t i = (ptrdiff_t)(row * width + x), up = i - (ptrdiff_t)width;
    const size_t n = pithi_min(width - x, 64);
    const uint64_t begin = x ? 0 : 1, last = x + n == width ? UINT64_C(1) << (n - 1) : 0;
    const uint64_t bits = bits_from(map, bytes, i);
    const uint64_t sides[6] = {
        bits_from(map, bytes, i - 1) & ~begin,
        y ? bits_from(map, bytes, up) : 0,
        y ? bits_from(map, bytes, up + 1) & ~last : 0,
        y ? bits_from(map, bytes, up - 1) & ~begin : 0,
        bits_from(map, bytes, i - 2) & ~(begin | begin << 1),
        y > 1 ? bits_from(map, bytes, up - (ptrdiff_t)width) : 0,
    };
    const uint64_t place = (y & 1 ? UINT64_C(0xFF) << 56 : 0) | UINT64_C(0xAA) << 48;
    for (size_t at = 0; at < n; at += 8) {
        uint64_t eight = place;
        for (unsigned j = 0; j < 6; j++) eight |= (sides[j] >> at & 0xFF) << 8 * j;
        eight = transposed(eight);
        for (size_t k = at; k < n && k < at + 8; k++, eight >>= 8)
            t->of[eight & 0xFF][bits >> k & 1]++;
    }
}

/* Returns the cost of so many zeros and ones among each other, in 1/256 bit. */
static uint64_t cost_of(uint64_t zeros, uint64_t ones) {
    if (!zeros || !ones) return 0;
    return (zeros + ones) * pithi_log2_256((uint32_t)(zeros + ones)) -
           zeros * pithi_log2_256((uint32_t)zeros) - ones * pithi_log2_256((uint32_t)ones);
}

/* Counts bits of rows all over the map. */
static void take_sample(struct tally *t, const uint8_t *map,
                        const uint32_t extent[PITHI_TILE_NDIM]) {
    enum { PART = 64, SAMPLE = 8192 };
    const size_t count = elements(extent), width = extent[PITHI_TILE_NDIM - 1];
    const size_t height = extent[PITHI_TILE_NDIM - 2], in_row = (width + PART - 1) / PART;
    const size_t parts = count / width * in_row;
    const size_t step = pithi_max(parts * pithi_min(width, PART) / SAMPLE, 1);
    uint32_t jump = 0; /* so that the sample keeps no step with planes */
    for (size_t at = 0; at < parts; at += step, jump += 0x9E3779B9u) {
        const size_t p = pithi_min(at + (size_t)((uint64_t)jump * step >> 32), parts - 1);
        count_bits(t, map, map_bytes(count), p / in_row, p / in_row % height, width,
                   p % in_row * PART);
    }
}

/* Returns about how many bytes put_modelled takes for a map with so many ones: what they would cost
 * without contexts, times the share of it that contexts leave of a sample. */
static size_t estimate(const uint8_t *map, const uint32_t extent[PITHI_TILE_NDIM], size_t ones) {
    /* In 1/256 bit: what a sample hides of each context's cost, being short; and twice what a bit
     * costs more since its chance follows 64 bits only, 1 / (4 * 64 ln 2) bit. */
    enum { SHORT = 256, FORGET_2 = 3 };
    const size_t count = elements(extent);
    struct tally t = {0};
    uint64_t all[2] = {0}, cost = 0;
    take_sample(&t, map, extent);
    for (size_t c = 0; c < CONTEXTS; c++) {
        const uint32_t *const n = t.of[c];
        all[0] += n[0], all[1] += n[1];
        if (n[0] && n[1]) cost += cost_of(n[0], n[1]) + SHORT + (n[0] + n[1]) * FORGET_2 / 2;
    }
    const uint64_t without = cost_of(all[0], all[1]);
    return without ? (size_t)((cost_of(count - ones, ones) >> 11) * cost / without) : 0;
}

/* ---- Write -----------------------------------------------------------------------------------*/

size_t pithi_zeros_count(const uint8_t *map, size_t count) {
    return pithi_ones(map, map_bytes(count));
}

/* Writes the map as a piece; returns its bytes, 0 when they do not fit. */
static size_t put_piece(const struct pithi_pen *pen, size_t max_count, const uint8_t *map,
                        size_t count) {
    struct pithi_pen inner = *pen;
    inner.scratch = memory_of(pen->scratch, max_count).pieces;
    return pithi_pen_put(&inner, (const uint8_t[]){FORM_PIECE}, 1) &&
                   pithi_piece_put(&inner, map_bytes(max_count), map, map_bytes(count))
               ? (size_t)(inner.at - pen->at)
               : 0;
}

static void put_head(uint8_t *to, unsigned form, size_t length) {
    to[0] = (uint8_t)form;
    for (size_t i = 0; i < LENGTH_BYTES; i++) to[1 + i] = (uint8_t)(length >> 8 * i);
}

/* Writes the map bit by bit and returns its bytes, if they are fewer than `limit`; else writes
 * nothing and returns 0. */
static size_t put_bits(const struct pithi_pen *pen, size_t max_count, const uint8_t *map,
                       const uint32_t extent[PITHI_TILE_NDIM], size_t limit) {
    enum { HEAD = 1 + LENGTH_BYTES };
    if (limit <= HEAD + 1) return 0;
    const size_t capacity = pithi_min(limit - 1 - HEAD, map_bytes(elements(extent)));
    const struct memory m = memory_of(pen->scratch, max_count);
    const size_t length = put_modelled(rows_of(&m, extent), map, extent, m.bits, capacity);
    if (!length) return 0;
    put_head(pen->at, FORM_MODELLED, length);
    memcpy(pen->at + HEAD, m.bits, length);
    return HEAD + length;
}

/* Writes the map bit by bit if that takes less than what was written, `length` bytes or, 0,
 * nothing; returns what it takes then. */
static size_t put_shorter_bits(const struct pithi_pen *pen, size_t max_count, const uint8_t *map,
                               const uint32_t extent[PITHI_TILE_NDIM], size_t length) {
    const size_t limit = length ? length : pen->capacity + 1;
    const size_t bits = put_bits(pen, max_count, map, extent, limit);
    return bits ? bits : length;
}

/* Whether all forms are tried, being soon tried, or as the effort demands. */
static bool small(const struct pithi_pen *pen, size_t count) {
    enum { SMALL = 4096 };
    return count <= SMALL || pen->effort >= PITHI_EFFORT_SEARCH;
}

/* Whether an eighth of the words of a map that are neither all 0 nor all 1 are those of the plane
 * or of the box before, which zstd finds and contexts do not. */
static bool repeats(const uint8_t *map, const uint32_t extent[PITHI_TILE_NDIM]) {
    const size_t count = elements(extent), bytes = map_bytes(count);
    const size_t plane = (size_t)extent[2] * extent[3], box = extent[1] * plane;
    size_t words = 0, same = 0;
    for (size_t i = plane; i + 64 <= count; i += 64) {
        const uint64_t word = bits_from(map, bytes, (ptrdiff_t)i);
        if (word + 1 <= 1) continue;
        words++;
        same += word == bits_from(map, bytes, (ptrdiff_t)(i - plane)) ||
                (i >= box && word == bits_from(map, bytes, (ptrdiff_t)(i - box)));
    }
    return same > words / 8;
}

/* Whether three in four bytes are all zeros or all ones: such a map is soon a piece, and a short
 * one. */
static bool uniform(const uint8_t *map, size_t bytes) {
    enum { PART = 128 }; /* its count is a byte, so that vectors count many at once */
    size_t mixed = 0;
    for (size_t at = 0; at < bytes; at += PART) {
        const size_t n = pithi_min(bytes - at, PART);
        uint8_t part = 0;
        for (size_t i = 0; i < n; i++) part = (uint8_t)(part + ((uint8_t)(map[at + i] + 1) > 1));
        mixed += part;
    }
    return mixed < bytes / 4;
}

/* Whether a map that takes about so many bytes bit by bit or in lanes takes more as a piece: a
 * fifth more if bytes are independent of each other, which they are but for repeats. */
static bool beats_piece(const struct pithi_pen *pen, const uint8_t *map,
                        const uint32_t extent[PITHI_TILE_NDIM], size_t about) {
    const size_t bytes = map_bytes(elements(extent));
    if (about >= bytes || uniform(map, bytes)) return false;
    const size_t independent =
        pithi_rans_plan(pithi_entropy_rans(pen->coder), pen->count, pen->quick, map, bytes);
    return independent != SIZE_MAX && about + about / 5 < independent && !repeats(map, extent);
}

/* Whether a sample says what a map takes; small ones are planned, and tried bit by bit. */
static bool sampled(const struct pithi_pen *pen, size_t count) {
    enum { SMALL = 2048 };
    return map_bytes(count) > SMALL && pen->effort < PITHI_EFFORT_SEARCH;
}

/* Writes the map in lanes, if it takes fewer than `limit` bytes, and returns them; else returns 0,
 * and fewer than `limit` bytes were written. */
static size_t put_lanes(const struct pithi_pen *pen, const struct pithi_kernels *kernels,
                        const struct pithi_zero_plan *plan, size_t max_count,
                        const uint32_t extent[PITHI_TILE_NDIM], size_t limit) {
    enum { HEAD = PITHI_ZERO_FORM };
    if (limit <= HEAD) return 0;
    const size_t length = pithi_zero_lanes_put(plan, kernels, pen->scratch, max_count, extent,
                                               pen->at + HEAD, limit - 1 - HEAD);
    if (!length) return 0;
    put_head(pen->at, FORM_LANES, length);
    return HEAD + length;
}

/* Writes the map in lanes if they are planned to take less than what was written, `length` bytes of
 * a piece or, 0, nothing, and do; returns what it takes then. */
static size_t put_shorter_lanes(const struct pithi_pen *pen, const struct pithi_kernels *lanes,
                                const struct pithi_zero_plan *plan, size_t max_count,
                                const uint8_t *map, const uint32_t extent[PITHI_TILE_NDIM],
                                size_t length) {
    const size_t limit = length ? length : pen->capacity + 1;
    if (plan->bytes >= limit) return length;
    const size_t shorter = put_lanes(pen, lanes, plan, max_count, extent, limit);
    return shorter ? shorter : put_piece(pen, max_count, map, elements(extent));
}

/* Writes the map in lanes, or bit by bit where places say much or all is tried; returns its bytes,
 * 0 when they do not fit. `length` is what the piece takes that was written, 0 where none was. */
static size_t put_planned(const struct pithi_pen *pen, const struct pithi_kernels *lanes,
                          const struct pithi_zero_plan *plan, size_t max_count, const uint8_t *map,
                          const uint32_t extent[PITHI_TILE_NDIM], size_t length) {
    if (!plan->places) length = put_shorter_lanes(pen, lanes, plan, max_count, map, extent, length);
    if (!plan->places && !small(pen, elements(extent))) return length;
    return put_shorter_bits(pen, max_count, map, extent, length);
}

/* Writes the map as a piece or in lanes, whichever is shorter, not bit by bit: a block's bits would
 * wait for each other, and devices have nothing else to do meanwhile. */
static size_t put_without_zstd(const struct pithi_pen *pen, const struct pithi_kernels *lanes,
                               size_t max_count, const uint8_t *map,
                               const uint32_t extent[PITHI_TILE_NDIM]) {
    const size_t count = elements(extent), length = put_piece(pen, max_count, map, count);
    if (!lanes) return length;
    struct pithi_zero_plan plan = {.log2_lanes = pithi_zero_log2_lanes(count)};
    pithi_zero_lanes_plan(&plan, pen->scratch, max_count, map, extent);
    return put_shorter_lanes(pen, lanes, &plan, max_count, map, extent, length);
}

/* Writes the map with whatever is likely to be shortest; returns its bytes, 0 when they do not fit.
 * A piece is not tried where it is sure to take more. What takes less by no more than a 16th of a
 * piece is not worth the time, but in small maps. */
static size_t put_coded(const struct pithi_pen *pen, const struct pithi_kernels *lanes,
                        size_t max_count, const uint8_t *map,
                        const uint32_t extent[PITHI_TILE_NDIM], size_t ones) {
    const size_t count = elements(extent);
    const bool sample = sampled(pen, count);
    struct pithi_zero_plan plan = {.log2_lanes = pithi_zero_log2_lanes(count)};
    if (lanes && !sample) pithi_zero_lanes_plan(&plan, pen->scratch, max_count, map, extent);
    const size_t about = sample ? estimate(map, extent, ones) : plan.bytes;
    const bool sure = lanes && !small(pen, count) && beats_piece(pen, map, extent, about);
    size_t length = sure ? 0 : put_piece(pen, max_count, map, count);
    if (!sure && sample && length && about >= length - length / 16) return length;
    if (!lanes) return put_shorter_bits(pen, max_count, map, extent, length);
    if (sample) pithi_zero_lanes_plan(&plan, pen->scratch, max_count, map, extent);
    if (sure && plan.bytes > about + about / 8) length = put_piece(pen, max_count, map, count);
    length = put_planned(pen, lanes, &plan, max_count, map, extent, length);
    return length ? length : put_piece(pen, max_count, map, count);
}

bool pithi_zeros_put(struct pithi_pen *pen, const struct pithi_kernels *lanes, size_t max_count,
                     const uint8_t *map, const uint32_t extent[PITHI_TILE_NDIM]) {
    const size_t count = elements(extent), ones = pithi_zeros_count(map, count);
    if (ones == count) return pithi_pen_put(pen, (const uint8_t[]){FORM_ONES}, 1);
    const size_t length = pen->effort == PITHI_EFFORT_NONE ? put_piece(pen, max_count, map, count)
                          : pen->effort == PITHI_EFFORT_RANS
                              ? put_without_zstd(pen, lanes, max_count, map, extent)
                              : put_coded(pen, lanes, max_count, map, extent, ones);
    pen->at += length;
    pen->capacity -= length;
    return length > 0;
}

/* ---- Read ------------------------------------------------------------------------------------*/

static bool tail_is_zero(const uint8_t *map, size_t count) {
    return count % 8 == 0 || map[count / 8] >> count % 8 == 0;
}

static const uint8_t *take_piece(struct pithi_reader *r, size_t max_count, uint8_t *buffer,
                                 size_t count) {
    struct pithi_reader inner = *r;
    inner.scratch = memory_of(r->scratch, max_count).pieces;
    const uint8_t *const map = pithi_piece_take(&inner, map_bytes(count), buffer);
    r->at = inner.at;
    r->left = inner.left;
    return map && tail_is_zero(map, count) ? map : NULL;
}

/* Reads what was coded bit by bit, or in lanes. */
static const uint8_t *take_bits(struct pithi_reader *r, const struct pithi_kernels *lanes,
                                size_t max_count, uint8_t *buffer,
                                const uint32_t extent[PITHI_TILE_NDIM]) {
    const uint8_t *const head = pithi_reader_take(r, LENGTH_BYTES);
    if (!head) return NULL;
    const size_t length = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16;
    const uint8_t *const from = pithi_reader_take(r, length);
    const struct memory m = memory_of(r->scratch, max_count);
    if (!from) return NULL;
    const bool good =
        lanes ? pithi_zero_lanes_take(lanes, r->scratch, max_count, extent, from, length, buffer)
              : take_modelled(rows_of(&m, extent), buffer, extent, from, length);
    return good ? buffer : NULL;
}

static const uint8_t *all_ones(uint8_t *buffer, size_t count) {
    memset(buffer, 0xFF, map_bytes(count));
    if (count % 8) buffer[count / 8] = (uint8_t)((1u << count % 8) - 1);
    return buffer;
}

const uint8_t *pithi_zeros_take(struct pithi_reader *r, const struct pithi_kernels *lanes,
                                size_t max_count, uint8_t *buffer,
                                const uint32_t extent[PITHI_TILE_NDIM]) {
    const uint8_t *const form = pithi_reader_take(r, 1);
    const size_t count = elements(extent);
    if (!form || *form > (lanes ? FORM_LANES : FORM_MODELLED)) return NULL;
    if (*form == FORM_ONES) return all_ones(buffer, count);
    if (*form == FORM_PIECE) return take_piece(r, max_count, buffer, count);
    return take_bits(r, *form == FORM_LANES ? lanes : NULL, max_count, buffer, extent);
}
