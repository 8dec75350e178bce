/* test_nonzero.c - zero maps and the codes beside them: round trips, sizes, and damaged bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "bytes/entropy.h"
#include "codec.h"
#include "common/pad.h"
#include "cpu.h"
#include "predict/budget.h"
#include "predict/lorenzo.h"
#include "predict/nonzero.h"
#include "predict/zero_map.h"
#include "util.h"

static uint64_t seed = UINT64_C(88172645463325252);
static uint64_t draw(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static const uint32_t extents[][PITHI_TILE_NDIM] = {
    {1, 1, 1, 1}, {1, 1, 1, 7},   {1, 1, 1, 8},   {1, 1, 9, 7},    {2, 3, 5, 1},
    {1, 4, 7, 7}, {2, 2, 14, 13}, {1, 1, 64, 64}, {1, 1, 1, 5001}, {1, 1, 777, 1},
};
enum { EXTENTS = sizeof extents / sizeof extents[0], MOST = 5001 };

static size_t elements(const uint32_t *extent) {
    return (size_t)extent[0] * extent[1] * extent[2] * extent[3];
}

/* ---- Maps ------------------------------------------------------------------------------------*/

enum { MAP_NONE, MAP_ALL, MAP_HALF, MAP_FEW, MAP_BLOBS, MAP_POOLED, MAP_KINDS };

static bool in_map(int kind, const uint32_t *extent, size_t i, uint32_t noise) {
    const size_t x = i % extent[3], y = i / extent[3] % extent[2];
    switch (kind) {
    case MAP_NONE: return false;
    case MAP_ALL: return true;
    case MAP_HALF: return noise & 1;
    case MAP_FEW: return noise % 200 == 0;
    case MAP_BLOBS: return (x / 5 + y / 5) % 2 == 0 || noise % 16 == 0;
    default: return x % 2 == 1 && y % 2 == 1 && noise % 4;
    }
}

static void make_map(int kind, const uint32_t *extent, uint8_t *map) {
    memset(map, 0, (elements(extent) + 7) / 8);
    for (size_t i = 0; i < elements(extent); i++)
        if (in_map(kind, extent, i, (uint32_t)draw())) map[i / 8] |= (uint8_t)(1u << i % 8);
}

struct memory {
    void *scratch;
    struct pithi_entropy *coder;
    const struct pithi_kernels *lanes; /* NULL: no maps in lanes */
};

static struct pithi_kernels kernels;

static struct memory memory_for(int level, bool lanes) {
    const size_t coder = pithi_entropy_bytes(MOST, level);
    const struct memory m = {aligned_alloc(64, pithi_pad64(pithi_zeros_scratch(MOST))),
                             aligned_alloc(64, coder), lanes ? &kernels : NULL};
    assert_true(m.scratch && m.coder);
    pithi_entropy_open(m.coder, coder);
    return m;
}

static struct memory memory_of(bool lanes) { return memory_for(PITHI_EFFORT_SEARCH, lanes); }

static void release(const struct memory *m) {
    free(m->scratch);
    free(m->coder);
}

/* Bytes written to `to`, 0 when the capacity is too small. */
static size_t put(const uint8_t *map, const uint32_t *extent, int level, const struct memory *m,
                  uint8_t *to, size_t cap) {
    struct pithi_pen pen = {to, cap, level, m->scratch, m->coder, pithi_rans_encode_c, NULL, false};
    return pithi_zeros_put(&pen, m->lanes, MOST, map, extent) ? (size_t)(pen.at - to) : 0;
}

static bool take(const uint8_t *bytes, size_t length, const uint32_t *extent,
                 const struct memory *m, const uint8_t *wanted) {
    const size_t whole = (elements(extent) + 7) / 8;
    uint8_t *const exact = copy_of(bytes, length), *const map_memory = allocate(whole);
    struct pithi_reader r = {exact, length, m->scratch, m->coder, pithi_rans_decode_c};
    const uint8_t *const map = pithi_zeros_take(&r, m->lanes, MOST, map_memory, extent);
    const bool good = map && r.left == 0 && (!wanted || memcmp(map, wanted, whole) == 0);
    CHECK(!map || elements(extent) % 8 == 0 || map[whole - 1] >> elements(extent) % 8 == 0);
    free(exact);
    free(map_memory);
    return good;
}

static void map_round_trip(int kind, const uint32_t *extent, int level, const struct memory *m) {
    const size_t whole = (elements(extent) + 7) / 8;
    uint8_t *const map = allocate(whole), *const bytes = allocate(2 * whole + 64);
    make_map(kind, extent, map);
    const size_t length = put(map, extent, level, m, bytes, 2 * whole + 64);
    context("map %d of %zu elements at level %d: %zu bytes", kind, elements(extent), level, length);
    CHECK(length > 0 && length <= whole + 2);
    CHECK(take(bytes, length, extent, m, map));
    for (size_t cap = 0; cap < length; cap += 1 + cap / 8) {
        uint8_t *const small = allocate(cap);
        CHECK(!put(map, extent, level, m, small, cap));
        CHECK(!take(bytes, cap, extent, m, NULL));
        free(small);
    }
    for (int i = 0; i < 20; i++) {
        bytes[draw() % length] ^= (uint8_t)(1u << draw() % 8);
        (void)take(bytes, length, extent, m, NULL);
    }
    free(map);
    free(bytes);
}

static void maps_come_back(void **unused) {
    (void)unused;
    for (int lanes = 0; lanes < 2; lanes++) {
        const struct memory m = memory_of(lanes);
        for (size_t e = 0; e < EXTENTS; e++)
            for (int kind = 0; kind < MAP_KINDS; kind++)
                for (int level = 0; level <= PITHI_EFFORT_SEARCH; level += 4 - 3 * (level == 0))
                    map_round_trip(kind, extents[e], level, &m);
        release(&m);
    }
}

/* Such a context reads no strings of zstd. */
static void maps_come_back_without_zstd(void **unused) {
    (void)unused;
    for (int lanes = 0; lanes < 2; lanes++) {
        const struct memory m = memory_for(PITHI_EFFORT_RANS, lanes);
        for (size_t e = 0; e < EXTENTS; e++)
            for (int kind = 0; kind < MAP_KINDS; kind++)
                map_round_trip(kind, extents[e], PITHI_EFFORT_RANS, &m);
        release(&m);
    }
}

/* Whatever the bytes: an answer, no fault, and tails of 0. */
static void any_bytes_are_a_map_or_not(void **unused) {
    (void)unused;
    const struct memory m = memory_of(true);
    uint8_t bytes[64];
    size_t good = 0;
    for (int i = 0; i < 20000; i++) {
        const size_t length = 1 + draw() % sizeof bytes;
        for (size_t k = 0; k < length; k++) bytes[k] = (uint8_t)draw();
        bytes[0] &= 3;
        if (length > 4 && bytes[0] >= 2) bytes[1] = (uint8_t)(length - 4), bytes[2] = bytes[3] = 0;
        if (length > 7 && bytes[0] == 3) bytes[4] %= 6, bytes[6] &= 3;
        good += take(bytes, length, extents[draw() % EXTENTS], &m, NULL);
    }
    CHECK(good > 0 && good < 10000);
    release(&m);
}

static double share_of(int kind, const uint32_t *extent) {
    const struct memory m = memory_of(false);
    uint8_t map[MOST / 8 + 1], bytes[MOST];
    make_map(kind, extent, map);
    const size_t length = put(map, extent, PITHI_EFFORT_MIN, &m, bytes, sizeof bytes);
    release(&m);
    return (double)length / ((double)elements(extent) / 8);
}

/* Few ones, patches, and what pooling leaves: all far below a bit per element. */
static void maps_with_a_pattern_are_short(void **unused) {
    (void)unused;
    static const uint32_t plane[PITHI_TILE_NDIM] = {1, 1, 64, 64};
    CHECK(share_of(MAP_FEW, plane) < 0.10);
    CHECK(share_of(MAP_BLOBS, plane) < 0.65);
    CHECK(share_of(MAP_POOLED, plane) < 0.30); /* a quarter of the places at 0.81 bits */
    CHECK(share_of(MAP_HALF, plane) < 1.01);
}

static void maps_of_one_value_are_a_few_bytes(void **unused) {
    (void)unused;
    static const uint32_t irregular[PITHI_TILE_NDIM] = {1, 1, 1, 4999};
    CHECK(share_of(MAP_NONE, irregular) * 4999 / 8 <= 3);
    CHECK(share_of(MAP_ALL, irregular) * 4999 / 8 <= 1);
}

/* Bit by bit only where that is shorter, if by one byte, of maps so small that the two forms often
 * are equal and that nothing is left for bits beside a map's head. */
static void a_piece_wins_a_tie(void **unused) {
    (void)unused;
    const struct memory m = memory_of(false);
    size_t by_one = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        const uint32_t extent[PITHI_TILE_NDIM] = {1, 1, 1, 1 + i % 160};
        const size_t whole = (extent[3] + 7) / 8;
        uint8_t map[20], bytes[64], piece[64];
        make_map(i % 5 ? MAP_FEW : MAP_BLOBS, extent, map);
        struct pithi_pen pen = {piece,   sizeof piece,        1,    m.scratch,
                                m.coder, pithi_rans_encode_c, NULL, false};
        CHECK(pithi_piece_put(&pen, MOST, map, whole));
        const size_t length = put(map, extent, 1, &m, bytes, sizeof bytes);
        const size_t other = 1 + (size_t)(pen.at - piece);
        context("%u elements: %zu bytes in form %u, %zu as a piece", extent[3], length, bytes[0],
                other);
        CHECK(bytes[0] == 1 || (bytes[0] == 0 ? length == other : length < other));
        by_one += bytes[0] == 2 && length + 1 == other;
    }
    CHECK(by_one > 0);
    release(&m);
}

/* A large map goes bit by bit where the bits around a bit say something of it, and not where they
 * would only follow the noise; rows may be shorter or longer than a word. */
static void noise_stays_a_piece(void **unused) {
    (void)unused;
    static const uint32_t large[][PITHI_TILE_NDIM] = {
        {1, 40, 28, 28}, {1, 1, 200, 170}, {4, 4, 45, 64}, {1, 1, 4001, 9}, {1, 1, 20, 2000}};
    enum { LARGE = 46080 };
    const struct memory m = {aligned_alloc(64, pithi_pad64(pithi_zeros_scratch(LARGE))),
                             allocate(pithi_entropy_bytes(LARGE, 1)), NULL};
    pithi_entropy_open(m.coder, pithi_entropy_bytes(LARGE, 1));
    for (size_t e = 0; e < sizeof large / sizeof large[0]; e++)
        for (int kind = MAP_HALF; kind < MAP_KINDS; kind++) {
            uint8_t map[LARGE / 8], bytes[LARGE];
            if (kind == MAP_FEW) continue; /* either form is short */
            make_map(kind, large[e], map);
            struct pithi_pen pen = {bytes,   sizeof bytes,        1,    m.scratch,
                                    m.coder, pithi_rans_encode_c, NULL, false};
            context("map %d of extent %zu", kind, e);
            CHECK(pithi_zeros_put(&pen, NULL, LARGE, map, large[e]));
            CHECK(bytes[0] == (kind == MAP_BLOBS || kind == MAP_POOLED ? 2 : 0));
        }
    release(&m);
}

/* ---- Maps in lanes ---------------------------------------------------------------------------*/

/* Extents for which lanes have whole planes, the last lane fewer, some none; rows of planes of
 * their own; parts of rows; and one bit. */
static const uint32_t lane_extents[][PITHI_TILE_NDIM] = {
    {4, 16, 28, 28}, {1, 17, 7, 7},   {2, 50, 3, 5},  {1, 3, 65, 40},   {1, 1, 300, 31},
    {1, 1, 3, 4001}, {1, 1, 1, 9001}, {1, 1, 1, 1},   {1, 1, 9001, 1},  {90, 100, 1, 1},
    {1, 1, 31, 300}, {1, 1, 33, 300}, {1, 64, 16, 8}, {1, 1, 1, 16385}, {3, 1, 1, 5},
};
enum { LANE_EXTENTS = sizeof lane_extents / sizeof lane_extents[0], LANE_MOST = 50176 };

struct lane_memory {
    void *scratch;
    uint8_t *map, *back, *bytes;
    size_t capacity;
};

static struct lane_memory lane_memory_of(size_t count) {
    const size_t whole = (count + 7) / 8, capacity = 2 * whole + 4096;
    return (struct lane_memory){aligned_alloc(64, pithi_zero_lanes_scratch(count)), allocate(whole),
                                allocate(whole), allocate(capacity), capacity};
}

static void free_lane_memory(struct lane_memory *m) {
    free(m->scratch);
    free(m->map);
    free(m->back);
    free(m->bytes);
}

static bool take_lanes(const struct lane_memory *m, const uint32_t *extent, size_t length) {
    uint8_t *const exact = copy_of(m->bytes, length);
    const bool good = pithi_zero_lanes_take(&kernels, m->scratch, elements(extent), extent, exact,
                                            length, m->back);
    free(exact);
    return good;
}

static void lanes_round_trip(int kind, const uint32_t *extent, unsigned log2_lanes) {
    const size_t count = elements(extent), whole = (count + 7) / 8;
    struct lane_memory m = lane_memory_of(count);
    struct pithi_zero_plan plan = {.log2_lanes = log2_lanes};
    make_map(kind, extent, m.map);
    pithi_zero_lanes_plan(&plan, m.scratch, count, m.map, extent);
    const size_t length =
        pithi_zero_lanes_put(&plan, &kernels, m.scratch, count, extent, m.bytes, m.capacity);
    context("map %d of %u x %u x %u x %u, 2^%u lanes: %zu bytes, %zu planned", kind, extent[0],
            extent[1], extent[2], extent[3], plan.log2_lanes, length, plan.bytes);
    CHECK(length > 0);
    CHECK(length < plan.bytes + plan.bytes / 16 + 140);
    CHECK(take_lanes(&m, extent, length) && !memcmp(m.map, m.back, whole));
    CHECK(!take_lanes(&m, extent, length - 1));
    for (size_t cap = 0; cap < length; cap += 1 + cap / 2)
        CHECK(!pithi_zero_lanes_put(&plan, &kernels, m.scratch, count, extent, m.bytes, cap));
    free_lane_memory(&m);
}

static void maps_in_lanes_come_back(void **unused) {
    (void)unused;
    for (size_t e = 0; e < LANE_EXTENTS; e++)
        for (int kind = 0; kind < MAP_KINDS; kind++)
            for (unsigned lanes = 0; lanes <= PITHI_ZERO_LOG2_LANES_MOST; lanes++)
                lanes_round_trip(kind, lane_extents[e], lanes);
}

/* Damage anywhere is an answer and no fault. */
static void damaged_lanes_are_safe(void **unused) {
    (void)unused;
    size_t good = 0, tried = 0;
    for (size_t e = 0; e < LANE_EXTENTS; e++) {
        const uint32_t *const extent = lane_extents[e];
        const size_t count = elements(extent);
        struct lane_memory m = lane_memory_of(count);
        struct pithi_zero_plan plan = {.log2_lanes = 4};
        make_map(MAP_BLOBS, extent, m.map);
        pithi_zero_lanes_plan(&plan, m.scratch, count, m.map, extent);
        const size_t length =
            pithi_zero_lanes_put(&plan, &kernels, m.scratch, count, extent, m.bytes, m.capacity);
        for (int i = 0; i < 60; i++, tried++) {
            const size_t at = draw() % (i % 2 ? length : 1 + length / 8);
            const uint8_t was = m.bytes[at];
            m.bytes[at] ^= (uint8_t)(1u << draw() % 8);
            good += take_lanes(&m, extent, length);
            m.bytes[at] = was;
        }
        free_lane_memory(&m);
    }
    CHECK(good < tried / 10);
}

/* Patches and what pooling leaves take no more than a bit's share of ones around says. */
static void lanes_follow_a_pattern(void **unused) {
    (void)unused;
    static const uint32_t extent[PITHI_TILE_NDIM] = {4, 16, 28, 28};
    struct lane_memory m = lane_memory_of(LANE_MOST);
    struct pithi_zero_plan plan = {.log2_lanes = 4};
    for (int kind = MAP_HALF; kind < MAP_KINDS; kind++) {
        static const double most[MAP_KINDS] = {0, 0, 1.03, 0.06, 0.6, 0.24};
        make_map(kind, extent, m.map);
        pithi_zero_lanes_plan(&plan, m.scratch, LANE_MOST, m.map, extent);
        const size_t length = pithi_zero_lanes_put(&plan, &kernels, m.scratch, LANE_MOST, extent,
                                                   m.bytes, m.capacity);
        context("map %d: %zu bytes, contexts of %x", kind, length, plan.mask);
        CHECK(length > 0 && (double)length < most[kind] * LANE_MOST / 8);
        CHECK(kind == MAP_BLOBS || plan.places == (kind == MAP_POOLED));
    }
    free_lane_memory(&m);
}

/* Planes that are all the same are for zstd, however well contexts do in each. */
static void planes_that_repeat_are_a_piece(void **unused) {
    (void)unused;
    static const uint32_t extent[PITHI_TILE_NDIM] = {4, 16, 28, 28};
    enum { PLANE = 28 * 28 / 8 };
    const struct memory m = {aligned_alloc(64, pithi_pad64(pithi_zeros_scratch(LANE_MOST))),
                             allocate(pithi_entropy_bytes(LANE_MOST, 1)), &kernels};
    uint8_t map[LANE_MOST / 8], bytes[LANE_MOST];
    pithi_entropy_open(m.coder, pithi_entropy_bytes(LANE_MOST, 1));
    for (int repeated = 0; repeated < 2; repeated++) {
        make_map(MAP_BLOBS, extent, map);
        for (size_t i = PLANE; repeated && i < sizeof map; i++) map[i] = map[i - PLANE];
        struct pithi_pen pen = {bytes,   sizeof bytes,        1,    m.scratch,
                                m.coder, pithi_rans_encode_c, NULL, false};
        CHECK(pithi_zeros_put(&pen, m.lanes, LANE_MOST, map, extent));
        context("%td bytes in form %u", pen.at - bytes, bytes[0]);
        CHECK((bytes[0] == 0) == repeated);
        CHECK(!repeated || pen.at - bytes < 2 * PLANE);
        struct pithi_reader r = {bytes, (size_t)(pen.at - bytes), m.scratch, m.coder,
                                 pithi_rans_decode_c};
        uint8_t back[LANE_MOST / 8];
        const uint8_t *const got = pithi_zeros_take(&r, m.lanes, LANE_MOST, back, extent);
        CHECK(got && r.left == 0 && memcmp(got, map, sizeof map) == 0);
    }
    release(&m);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

static int32_t draw_code(int kind) {
    const uint32_t u = (uint32_t)draw();
    if (u % 3 == 0) return 0;
    if (kind == 0) return (int32_t)(draw() % 1000);
    if (kind == 1) return (int32_t)(draw() % 1000) - 500;
    return (int32_t)(uint32_t)draw();
}

struct coded {
    int32_t *codes, *nonzero;
    uint8_t *map;
    size_t count, used;
};

static struct coded draw_codes(int kind, const uint32_t *extent) {
    struct coded c = {.count = elements(extent)};
    c.codes = allocate(4 * c.count);
    c.nonzero = allocate(4 * (c.count + PITHI_NONZERO_MORE));
    c.map = allocate((c.count + 7) / 8);
    for (size_t i = 0; i < c.count; i++) c.codes[i] = draw_code(kind);
    c.used = pithi_split_c(c.codes, c.count, c.map, c.nonzero);
    return c;
}

static void free_codes(struct coded *c) {
    free(c->codes);
    free(c->nonzero);
    free(c->map);
}

static void check_split(const struct coded *c) {
    size_t k = 0;
    for (size_t i = 0; i < c->count; i++) {
        CHECK((c->map[i / 8] >> i % 8 & 1) == (c->codes[i] != 0));
        if (c->codes[i]) CHECK(c->nonzero[k++] == c->codes[i]);
    }
    CHECK(k == c->used && pithi_zeros_count(c->map, c->count) == k);
}

static void check_merge(const struct coded *c, enum pithi_nonzero_form form,
                        const uint32_t *extent) {
    int32_t *const back = allocate(4 * c->count);
    int32_t *const numbers = copy_of(c->nonzero, 4 * (c->used + PITHI_NONZERO_MORE));
    if (form == PITHI_NONZERO_MEDIAN) {
        pithi_nonzero_median(c->codes, c->map, extent, numbers);
        pithi_nonzero_from_median(numbers, c->map, extent, back);
    } else {
        uint32_t *const words = allocate(4 * c->used);
        int32_t *const codes = allocate(4 * c->used);
        pithi_nonzero_numbers(form, numbers, c->used);
        for (size_t i = 0; i < c->used; i++) words[i] = pithi_zigzag((uint32_t)numbers[i]);
        pithi_nonzero_codes(form, numbers, c->used);
        pithi_nonzero_from_words(form, words, c->used, codes);
        CHECK(memcmp(codes, numbers, 4 * c->used) == 0);
        free(words);
        free(codes);
        pithi_spread_c(numbers, c->map, c->count, back);
    }
    CHECK(memcmp(back, c->codes, 4 * c->count) == 0);
    free(numbers);
    free(back);
}

static void codes_come_back(void **unused) {
    (void)unused;
    for (size_t e = 0; e < EXTENTS; e++)
        for (int kind = 0; kind < 3; kind++) {
            struct coded c = draw_codes(kind, extents[e]);
            context("codes of kind %d, %zu elements", kind, c.count);
            const enum pithi_nonzero_form form = pithi_nonzero_plain(c.nonzero, c.used);
            CHECK(kind != 0 || form == PITHI_NONZERO_POSITIVE);
            CHECK(kind == 0 || c.count < 100 || form == PITHI_NONZERO_SIGNED);
            check_split(&c);
            check_merge(&c, form, extents[e]);
            check_merge(&c, PITHI_NONZERO_SIGNED, extents[e]);
            check_merge(&c, PITHI_NONZERO_MEDIAN, extents[e]);
            free_codes(&c);
        }
}

/* Of a tile that is not larger than a sample, all words; of a larger one those of some runs. */
static void a_sample_has_the_words_of_its_form(void **unused) {
    (void)unused;
    for (size_t e = 0; e < EXTENTS; e++)
        for (int form = 0; form < PITHI_NONZERO_FORMS; form++) {
            struct coded c = draw_codes(form == PITHI_NONZERO_POSITIVE ? 0 : 1, extents[e]);
            uint32_t words[PITHI_NONZERO_SAMPLE];
            const size_t n = pithi_nonzero_sample((enum pithi_nonzero_form)form, c.codes, c.map,
                                                  extents[e], words);
            if (form == PITHI_NONZERO_MEDIAN)
                pithi_nonzero_median(c.codes, c.map, extents[e], c.nonzero);
            else
                pithi_nonzero_numbers((enum pithi_nonzero_form)form, c.nonzero, c.used);
            context("form %d of %zu elements", form, c.count);
            CHECK(c.count > PITHI_NONZERO_SAMPLE ? n > 1000 && n < c.used : n == c.used);
            for (size_t i = 0, k = 0; i < n; i++, k++) {
                if (c.count > PITHI_NONZERO_SAMPLE)
                    while (k < c.used && pithi_zigzag((uint32_t)c.nonzero[k]) != words[i]) k++;
                CHECK(k < c.used && pithi_zigzag((uint32_t)c.nonzero[k]) == words[i]);
            }
            free_codes(&c);
        }
}

static void small_codes_are_small_numbers(void **unused) {
    (void)unused;
    int32_t positive[] = {1, 2, 3, 4, INT32_MAX}, both[] = {1, -1, 2, -2, INT32_MAX, INT32_MIN};
    static const int32_t wanted[] = {0, -1, 1, -2, 0x3FFFFFFF};
    static const int32_t wanted_both[] = {0, -1, 1, -2, INT32_MAX - 1, INT32_MIN};
    pithi_nonzero_numbers(PITHI_NONZERO_POSITIVE, positive, 5);
    pithi_nonzero_numbers(PITHI_NONZERO_SIGNED, both, 6);
    CHECK(memcmp(positive, wanted, sizeof wanted) == 0);
    CHECK(memcmp(both, wanted_both, sizeof wanted_both) == 0);
}

/* A ramp is its own prediction but for its steps; a neighbour that is 0 says nothing. */
static void a_ramp_has_small_numbers(void **unused) {
    (void)unused;
    static const uint32_t extent[PITHI_TILE_NDIM] = {1, 1, 30, 40};
    int32_t codes[1200], numbers[1200 + PITHI_NONZERO_MORE];
    uint8_t map[150];
    for (int32_t i = 0; i < 1200; i++) codes[i] = 1000 + 3 * (i % 40) + 5 * (i / 40);
    CHECK(pithi_split_c(codes, 1200, map, numbers) == 1200);
    pithi_nonzero_median(codes, map, extent, numbers);
    CHECK(numbers[0] == 1000);
    for (size_t i = 1; i < 1200; i++) CHECK(numbers[i] == (i % 40 ? 3 : 5));
    codes[100] = 0;
    CHECK(pithi_split_c(codes, 1200, map, numbers) == 1199);
    pithi_nonzero_median(codes, map, extent, numbers);
    CHECK(numbers[100] == 5 && numbers[139] == 3);
}

/* ---- Budgets ---------------------------------------------------------------------------------*/

static void a_budget_is_the_formula_turned_round(void **unused) {
    (void)unused;
    for (int i = 0; i < 1000; i++) {
        const double sigma = (double)(1 + draw() % 1000) * 1e-7, gradient = sigma * 3.5;
        const double terms = (double)(1 + draw() % 100000), positions = (double)(1 + draw() % 784);
        const double e = pithi_budget_bound(sigma, 0, positions, gradient, terms);
        const double back = sqrt(positions / 3) * gradient * sqrt(terms) * e;
        CHECK(fabs(back - sigma) <= 1e-14 * sigma);
        const double published = pithi_budget_bound(sigma, 0.32, positions, gradient, terms);
        CHECK(fabs(0.32 * gradient * sqrt(terms) * published - sigma) <= 1e-14 * sigma);
    }
    CHECK(pithi_budget_bound(1, 0, 1, 0, 10) == DBL_MAX);
    CHECK(pithi_budget_bound(1e300, 0, 1, 1e-300, 1) == DBL_MAX);
    CHECK(pithi_budget_bound(0, 0, 1, 1, 1) == 0);
}

int main(void) {
    pithi_kernels_bind(&kernels, pithi_cpu_select(test_env().cpu_mask));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_come_back),
        cmocka_unit_test(maps_come_back_without_zstd),
        cmocka_unit_test(any_bytes_are_a_map_or_not),
        cmocka_unit_test(maps_with_a_pattern_are_short),
        cmocka_unit_test(maps_of_one_value_are_a_few_bytes),
        cmocka_unit_test(a_piece_wins_a_tie),
        cmocka_unit_test(noise_stays_a_piece),
        cmocka_unit_test(maps_in_lanes_come_back),
        cmocka_unit_test(damaged_lanes_are_safe),
        cmocka_unit_test(lanes_follow_a_pattern),
        cmocka_unit_test(planes_that_repeat_are_a_piece),
        cmocka_unit_test(codes_come_back),
        cmocka_unit_test(a_sample_has_the_words_of_its_form),
        cmocka_unit_test(small_codes_are_small_numbers),
        cmocka_unit_test(a_ramp_has_small_numbers),
        cmocka_unit_test(a_budget_is_the_formula_turned_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
