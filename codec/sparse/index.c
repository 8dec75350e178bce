/* index.c - a set of elements of a block as bytes: which form is shortest, and each form.
 * SPDX-License-Identifier: Apache-2.0 */
#include "sparse/index.h"

#include <string.h>

#include "codec.h"
#include "common/endian.h"
#include "common/log2.h"
#include "common/popcount.h"

enum { GROUP = PITHI_PACKED_GROUP, LANES = 4, ROWS = GROUP / LANES };

/* ---- Code strings ----------------------------------------------------------------------------*/

static uint32_t low_mask(unsigned bits) { return (UINT32_C(1) << bits) - 1; }

uint8_t *pithi_code_string_put_c(const uint32_t *numbers, size_t count, unsigned bits,
                                 uint8_t *to) {
    uint64_t held = 0;
    unsigned fill = 0;
    for (size_t i = 0; i < count; i++) {
        held |= (uint64_t)(numbers[i] & low_mask(bits)) << fill;
        for (fill += bits; fill >= 8; fill -= 8, held >>= 8) *to++ = (uint8_t)held;
    }
    if (fill) *to++ = (uint8_t)held;
    return to;
}

/* Reads what pithi_code_string_put_c wrote; false where a bit behind the last number is set. */
static bool take_string(const uint8_t *bytes, size_t count, unsigned bits, uint32_t *numbers) {
    uint64_t held = 0;
    unsigned fill = 0;
    for (size_t i = 0; i < count; i++) {
        for (; fill < bits; fill += 8) held |= (uint64_t)*bytes++ << fill;
        numbers[i] = (uint32_t)held & low_mask(bits);
        held >>= bits;
        fill -= bits;
    }
    return !held;
}

/* ---- ELIAS_FANO ------------------------------------------------------------------------------*/

void pithi_elias_fano_put_c(const uint32_t *list, size_t count, size_t n, unsigned low_bits,
                            uint8_t *to) {
    uint8_t *const high = pithi_code_string_put_c(list, count, low_bits, to);
    memset(high, 0, (pithi_elias_fano_high_bits(n, count, low_bits) + 7) / 8);
    for (size_t i = 0; i < count; i++) {
        const size_t bit = (list[i] >> low_bits) + i;
        high[bit / 8] = (uint8_t)(high[bit / 8] | 1u << bit % 8);
    }
}

/* When as many bits are ones as there are numbers, and none of those behind the last bit, then
 * what number i takes from its bit, bit - i, is (n - 1) >> low_bits at most: it does not overflow.
 */
bool pithi_elias_fano_take_c(const uint8_t *bytes, size_t count, size_t n, unsigned low_bits,
                             uint32_t *list) {
    const uint8_t *const high = bytes + pithi_elias_fano_low_bytes(count, low_bits);
    const size_t bits = pithi_elias_fano_high_bits(n, count, low_bits);
    size_t i = 0;
    if (!take_string(bytes, count, low_bits, list)) return false;
    for (size_t at = 0; at < bits; at += 8)
        for (unsigned byte = high[at / 8]; byte; byte &= byte - 1, i++) {
            const size_t bit = at + (size_t)__builtin_ctz(byte);
            if (i == count || bit >= bits) return false;
            list[i] |= (uint32_t)(bit - i) << low_bits;
            if (i && list[i - 1] >= list[i]) return false;
        }
    return i == count && list[count - 1] < n;
}

/* ---- PACKED and PATCHED ----------------------------------------------------------------------*/

static size_t group_count(size_t count, size_t first) {
    return count - first < GROUP ? count - first : GROUP;
}

/* The differences of numbers [first, first + count), each to the one before it; returns the bits of
 * the largest. */
static unsigned differ(const uint32_t *list, size_t first, size_t count, uint32_t *difference) {
    uint32_t all = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t k = first + i;
        difference[i] = k ? list[k] - list[k - 1] - 1 : list[0];
        all |= difference[i];
    }
    return pithi_bit_length(all);
}

/* Returns the byte of a group of so many differences, of which the largest has `bits` bits. */
static unsigned byte_of(const uint32_t *difference, size_t count, unsigned bits, bool patched) {
    uint32_t wider = 0;
    if (!patched || count < GROUP) return bits;
    for (size_t i = 0; i < count; i++) {
        const unsigned less = bits - pithi_bit_length(difference[i]);
        if (less < PITHI_PATCHED_LESS) wider += UINT32_C(0x01010101) << 8 * less;
    }
    return pithi_patched_byte(bits, wider);
}

/* Bit `at` of a lane's string is in its word at / 32; word i of the lanes stand side by side. */
static void put_lanes(const uint32_t *difference, unsigned width, uint8_t *to) {
    for (unsigned lane = 0; lane < LANES; lane++) {
        uint64_t held = 0;
        unsigned fill = 0;
        uint8_t *word = to + 4 * lane;
        for (size_t row = 0; row < ROWS; row++) {
            held |= (uint64_t)(difference[LANES * row + lane] & low_mask(width)) << fill;
            fill += width;
            if (fill >= 32) {
                pithi_put32(word, (uint32_t)held);
                held >>= 32, fill -= 32, word += 4 * LANES;
            }
        }
    }
}

static void take_lanes(const uint8_t *bytes, unsigned width, uint32_t *difference) {
    for (unsigned lane = 0; lane < LANES; lane++) {
        uint64_t held = 0;
        unsigned fill = 0;
        const uint8_t *word = bytes + 4 * lane;
        for (size_t row = 0; row < ROWS; row++) {
            if (fill < width) {
                held |= (uint64_t)pithi_get32(word) << fill;
                fill += 32, word += 4 * LANES;
            }
            difference[LANES * row + lane] = (uint32_t)held & low_mask(width);
            held >>= width, fill -= width;
        }
    }
}

/* An exception: its place in the group, and what it has above the group's width. */
static void put_exceptions(const uint32_t *difference, unsigned width, uint8_t *to) {
    for (unsigned i = 0; i < GROUP; i++)
        if (difference[i] >> width) {
            *to++ = (uint8_t)i;
            *to++ = (uint8_t)(difference[i] >> width);
        }
}

/* Returns false where places do not ascend within the group, or an exception is none. */
static bool take_exceptions(const uint8_t *bytes, unsigned byte, uint32_t *difference) {
    unsigned least = 0;
    for (unsigned i = 0; i < pithi_packed_exceptions(byte); i++) {
        const unsigned place = *bytes++, high = *bytes++;
        if (place < least || place >= GROUP || !high) return false;
        difference[place] |= high << pithi_packed_width(byte);
        least = place + 1;
    }
    return true;
}

static void put_packed_group(const uint32_t *difference, size_t count, unsigned byte, uint8_t *to) {
    const unsigned width = pithi_packed_width(byte);
    if (count < GROUP) {
        pithi_code_string_put_c(difference, count, width, to);
        return;
    }
    put_lanes(difference, width, to);
    put_exceptions(difference, width, to + pithi_packed_string(GROUP, byte));
}

struct pithi_list_measure pithi_packed_put_c(const uint32_t *list, size_t count, bool patched,
                                             uint8_t *to, size_t capacity) {
    struct pithi_list_measure m = {.packed = pithi_packed_groups(count)};
    uint32_t difference[GROUP];
    for (size_t first = 0, at; first < count; first += GROUP) {
        const size_t c = group_count(count, first);
        const unsigned bits = differ(list, first, c, difference);
        const unsigned byte = byte_of(difference, c, bits, patched);
        at = m.packed;
        m.packed += pithi_packed_bytes(c, byte);
        m.exceptions += pithi_packed_exceptions(byte);
        for (size_t i = 0; i < c; i++) {
            m.runs += difference[i] != 0;
            m.far += difference[i] > 255;
        }
        if (m.packed > capacity) continue;
        to[first / GROUP] = (uint8_t)byte;
        put_packed_group(difference, c, byte, to + at);
    }
    m.runs += list[0] == 0; /* one that no difference begins */
    return m;
}

/* A group begins below n, which is at most 2^24, and adds at most 2^31, since differences have at
 * most 24 bits: sums do not overflow, so that all of its numbers are below n when the last is. */
bool pithi_packed_take_c(const uint8_t *bytes, size_t length, size_t count, size_t n,
                         uint32_t *list) {
    const uint8_t *widths = bytes;
    uint32_t next = 0;
    (void)length;
    bytes += pithi_packed_groups(count);
    for (size_t first = 0; first < count; first += GROUP, widths++) {
        const size_t c = group_count(count, first);
        const unsigned width = pithi_packed_width(*widths);
        uint32_t *const to = list + first;
        if (c == GROUP)
            take_lanes(bytes, width, to);
        else if (!take_string(bytes, c, width, to))
            return false;
        if (!take_exceptions(bytes + pithi_packed_string(c, width), *widths, to)) return false;
        bytes += pithi_packed_bytes(c, *widths);
        for (size_t i = 0; i < c; i++) {
            to[i] += next;
            next = to[i] + 1;
        }
        if (next > n) return false;
    }
    return true;
}

/* ---- RUNS ------------------------------------------------------------------------------------*/

/* A walk over the runs of a set: of its list where it has one, else of its map. */
struct walk {
    const struct pithi_index_set *set;
    size_t at;            /* the next entry of the list, or element of the map */
    size_t first, length; /* the run */
};

/* Returns the first element from `at` on that is in the set (in == true) or is not, or n. */
static size_t find_in_map(const struct pithi_index_set *set, size_t at, bool in) {
    const uint64_t flip = in ? 0 : ~UINT64_C(0);
    while (at < set->n) {
        const uint64_t word = (set->map[at / 64] ^ flip) >> at % 64;
        if (word) {
            at += (size_t)__builtin_ctzll(word);
            return at < set->n ? at : set->n;
        }
        at = at / 64 * 64 + 64;
    }
    return set->n;
}

static bool has_list(const struct pithi_index_set *set) {
    return set->count <= pithi_index_list_most(set->n);
}

static bool next_run(struct walk *w) {
    const struct pithi_index_set *const set = w->set;
    if (!has_list(set)) {
        w->first = find_in_map(set, w->at, true);
        w->at = find_in_map(set, w->first, false);
        w->length = w->at - w->first;
        return w->length > 0;
    }
    const size_t from = w->at;
    if (from == set->count) return false;
    do w->at++;
    while (w->at < set->count && set->list[w->at] == set->list[w->at - 1] + 1);
    w->first = set->list[from];
    w->length = w->at - from;
    return true;
}

static size_t leb_bytes(size_t x) {
    return x < 1u << 7 ? 1 : x < 1u << 14 ? 2 : x < 1u << 21 ? 3 : 4;
}

/* Returns the bytes of the form, or any number that is not below `most` where they are not. */
static size_t runs_bytes(const struct pithi_index_set *set, size_t most) {
    struct walk w = {.set = set};
    size_t bytes = 0, end = 0;
    while (bytes < most && next_run(&w)) {
        bytes += leb_bytes(w.first - end) + leb_bytes(w.length - 1);
        end = w.first + w.length + 1;
    }
    return bytes;
}

static uint8_t *put_leb(uint8_t *to, size_t x) {
    for (; x >= 0x80; x >>= 7) *to++ = (uint8_t)(x | 0x80);
    *to++ = (uint8_t)x;
    return to;
}

static void put_runs(const struct pithi_index_set *set, uint8_t *to) {
    struct walk w = {.set = set};
    size_t end = 0; /* the least element at which the next run may begin */
    while (next_run(&w)) {
        to = put_leb(put_leb(to, w.first - end), w.length - 1);
        end = w.first + w.length + 1;
    }
}

/* Returns the bytes of the number at the beginning of `bytes`; 0: there is none. */
static size_t take_leb(const uint8_t *bytes, size_t length, size_t *x) {
    *x = 0;
    for (size_t i = 0; i < 4 && i < length; i++) {
        *x |= (size_t)(bytes[i] & 0x7F) << 7 * i;
        if (bytes[i] < 0x80) return i && !bytes[i] ? 0 : i + 1;
    }
    return 0;
}

/* Sets elements [first, end) of a map, first < end. */
static void fill_map(uint64_t *map, size_t first, size_t end) {
    const uint64_t from = ~UINT64_C(0) << first % 64, until = ~UINT64_C(0) >> (63 - (end - 1) % 64);
    const size_t a = first / 64, b = (end - 1) / 64;
    if (a == b) {
        map[a] |= from & until;
        return;
    }
    map[a] |= from;
    memset(map + a + 1, 0xFF, (b - a - 1) * sizeof *map);
    map[b] |= until;
}

static const char *take_runs(const uint8_t *bytes, size_t length, struct pithi_index_set *set,
                             size_t *used) {
    size_t at = 0, end = 0, left = set->count;
    while (left) {
        size_t gap, more;
        const size_t a = take_leb(bytes + at, length - at, &gap);
        const size_t b = a ? take_leb(bytes + at + a, length - at - a, &more) : 0;
        if (!b) return "a number of a set of runs is cut, too long or padded";
        at += a + b;
        const size_t first = end + gap;
        if (more >= left) return "a set of runs has too many elements";
        if (first + more >= set->n) return "a set of runs leaves its block";
        fill_map(set->map, first, first + more + 1);
        left -= more + 1;
        end = first + more + 2;
    }
    *used = at;
    return NULL;
}

/* ---- Every form ------------------------------------------------------------------------------*/

static struct pithi_index_choice of(enum pithi_index_form form, uint32_t low_bits, size_t bytes) {
    return (struct pithi_index_choice){form, low_bits, bytes, false};
}

static struct pithi_index_choice shorter(struct pithi_index_choice best,
                                         struct pithi_index_choice other) {
    return other.bytes < best.bytes ? other : best;
}

/* Returns the number of runs in a map whose bits behind the last element are 0. */
static size_t runs_of_map(const struct pithi_index_set *set) {
    uint64_t before = 0;
    size_t runs = 0;
    for (size_t i = 0; i < (set->n + 63) / 64; i++) {
        const uint64_t word = set->map[i];
        runs += pithi_ones_of(word & ~(word << 1 | before));
        before = word >> 63;
    }
    return runs;
}

struct pithi_index_choice pithi_index_choose(const struct pithi_kernels *kernels,
                                             const struct pithi_index_set *set,
                                             struct pithi_index_setting setting, uint8_t *to) {
    const size_t n = set->n, count = set->count;
    if (!count) return of(PITHI_INDEX_EMPTY, 0, 0);
    if (count == n) return of(PITHI_INDEX_ALL, 0, 0);
    struct pithi_index_choice best = of(PITHI_INDEX_BITMAP, 0, (n + 7) / 8);
    size_t least; /* bytes of RUNS: two or more for each */
    if (has_list(set)) {
        /* Where lists are not Elias-Fano, they are nearly always what is written here. */
        const struct pithi_list_measure m = kernels->packed_put(
            set->list, count, setting.patched, to, setting.elias_fano ? 0 : best.bytes);
        least = 2 * m.runs + m.far;
        for (unsigned low = 0; setting.elias_fano && low < PITHI_INDEX_BITS_MAX; low++)
            best = shorter(best,
                           of(PITHI_INDEX_ELIAS_FANO, low, pithi_elias_fano_bytes(n, count, low)));
        struct pithi_index_choice packed =
            of(m.exceptions ? PITHI_INDEX_PATCHED : PITHI_INDEX_PACKED, 0, m.packed);
        packed.written = !setting.elias_fano;
        best = shorter(best, packed);
    } else {
        least = 2 * runs_of_map(set);
    }
    if (least < best.bytes)
        best = shorter(best, of(PITHI_INDEX_RUNS, 0, runs_bytes(set, best.bytes)));
    return best;
}

void pithi_index_put(const struct pithi_kernels *kernels, const struct pithi_index_choice *choice,
                     const struct pithi_index_set *set, uint8_t *to) {
    if (choice->written) return;
    switch (choice->form) {
    case PITHI_INDEX_BITMAP: memcpy(to, set->map, choice->bytes); break;
    case PITHI_INDEX_ELIAS_FANO:
        kernels->elias_fano_put(set->list, set->count, set->n, choice->low_bits, to);
        break;
    case PITHI_INDEX_PACKED:
    case PITHI_INDEX_PATCHED:
        kernels->packed_put(set->list, set->count, choice->form == PITHI_INDEX_PATCHED, to,
                            choice->bytes);
        break;
    case PITHI_INDEX_RUNS: put_runs(set, to); break;
    default: break;
    }
}

static const char *take_bitmap(const uint8_t *bytes, struct pithi_index_set *set) {
    const size_t length = (set->n + 7) / 8;
    if (set->n % 8 && bytes[length - 1] >> set->n % 8)
        return "a map of a set has a bit behind its elements";
    if (pithi_ones(bytes, length) != set->count) return "a map of a set has another count";
    memcpy(set->map, bytes, length);
    return NULL;
}

/* Returns the bytes that widths and groups take together, SIZE_MAX where a width is too large, a
 * group has exceptions that may have none, or a part is cut. */
static size_t packed_length(const uint8_t *bytes, size_t length, size_t count, bool patched) {
    size_t total = pithi_packed_groups(count);
    if (total > length) return SIZE_MAX;
    for (size_t first = 0; first < count; first += GROUP) {
        const unsigned byte = bytes[first / GROUP];
        const size_t c = group_count(count, first);
        const bool exceptions = byte >= 1u << PITHI_PATCHED_SHIFT;
        if (exceptions && (!patched || c < GROUP)) return SIZE_MAX;
        if (pithi_packed_width(byte) >
            (unsigned)(exceptions ? PITHI_PATCHED_BITS_MAX : PITHI_INDEX_BITS_MAX))
            return SIZE_MAX;
        total += pithi_packed_bytes(c, byte);
    }
    return total > length ? SIZE_MAX : total;
}

static const char *take_list(const struct pithi_kernels *kernels, enum pithi_index_form form,
                             uint32_t low_bits, const uint8_t *bytes, size_t length,
                             struct pithi_index_set *set, size_t *used) {
    const size_t n = set->n, count = set->count;
    if (!has_list(set)) return "a set has more elements than its form may list";
    if (form != PITHI_INDEX_ELIAS_FANO) {
        *used = packed_length(bytes, length, count, form == PITHI_INDEX_PATCHED);
        if (*used == SIZE_MAX) return "a packed set is cut, or has a width that it may not have";
        return kernels->packed_take(bytes, length, count, n, set->list)
                   ? NULL
                   : "a packed set leaves its block, has bits behind its last number, or "
                     "exceptions that are none";
    }
    if (low_bits >= PITHI_INDEX_BITS_MAX) return "an Elias-Fano set with more than 23 low bits";
    *used = pithi_elias_fano_bytes(n, count, low_bits);
    if (*used > length) return "an Elias-Fano set is cut";
    return kernels->elias_fano_take(bytes, count, n, low_bits, set->list)
               ? NULL
               : "an Elias-Fano set does not ascend below its end, or has other than its bits";
}

const char *pithi_index_take(const struct pithi_kernels *kernels, enum pithi_index_form form,
                             uint32_t low_bits, const uint8_t *bytes, size_t length,
                             struct pithi_index_set *set, size_t *used) {
    const size_t n = set->n;
    *used = 0;
    if (form != PITHI_INDEX_ELIAS_FANO && low_bits) return "a set has low bits without a use";
    if ((form == PITHI_INDEX_EMPTY) != (set->count == 0)) return "a set has another count";
    if (pithi_index_is_listed(form))
        return take_list(kernels, form, low_bits, bytes, length, set, used);
    memset(set->map, 0, (n + 63) / 64 * sizeof *set->map);
    switch (form) {
    case PITHI_INDEX_EMPTY: return NULL;
    case PITHI_INDEX_ALL:
        if (set->count != n) return "a set of all elements has another count";
        fill_map(set->map, 0, n);
        return NULL;
    case PITHI_INDEX_BITMAP:
        *used = (n + 7) / 8;
        return *used > length ? "a map of a set is cut" : take_bitmap(bytes, set);
    case PITHI_INDEX_RUNS: return take_runs(bytes, length, set, used);
    default: return "a set has an unknown form";
    }
}
