/* index_tmpl.h - sets of elements as Elias-Fano and as packed differences, written once for each
 * ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has defined v4, four lanes of 32 bits, and
 *
 *   v4_load, v4_store, v4_add, v4_or, v4_and, v4_set (all lanes alike), v4_ramp(first): in lane i,
 *                 first + i;
 *   v4_shl(x, n), v4_shr(x, n)  all lanes by one number below 32;
 *   v4_sums(x), v4_last(x)      in each lane the sum of the lanes up to it; the last lane in all.
 *
 * What works on several vectors at once, below under Units, is either here, for which are defined
 *
 *   wide                        a vector of 4 or 8 numbers, with w_load, w_store, w_set, w_sub,
 *                               w_and, w_shr as v4 has them;
 *   w_after(last, x)            `last`, then all lanes of x but the last;
 *   w_length(x)                 LENGTH_0 and the bits of each number below 2^24; of 0 perhaps less;
 *   w_narrow(x)                 the numbers of x[0..3] below 256 as bytes;
 *   b_add, b_sub, b_max, b_set  of a wide vector's bytes; b_least(x, y) and b_equal(x, y): ~0 where
 *                               x >= y and where x == y, else 0;
 *   b_look(table, x)            bytes of table[16] by x - LOOK_0, 0 where that is 16 to 24;
 *   b_sum(x), b_largest(x)      of all bytes;
 *   b_sums(x, y)                the sums of the low and of the high halves of x's bytes in bytes 0
 *                               and 1, of y's in bytes 2 and 3; all are below 256;
 *   b_bits(x)                   a bit for each byte: its highest;
 *   b_same(bytes, x)            a bit for each of 16 bytes: whether it is x;
 *
 * and either, with OWN_ELIAS_FANO, what the first part of them does for that form, or
 *
 *   v4_sub, v4_after(last, x)   the last lane of `last`, then the first three of x;
 *   v4_pick(bytes, pick)        16 bytes in another order: byte i is bytes[byte i of pick];
 *   v4_shr_each(x, n)           each lane by its own number below 32;
 *   v4_ascends(x, y)            whether x < y in all lanes, as signed numbers;
 *
 * or, with OWN_UNITS, the including file has all of it too. Then there is no packed_take: vectors
 * of more lanes take packed differences no faster. */
#ifndef PITHI_SPARSE_INDEX_TMPL_H
#define PITHI_SPARSE_INDEX_TMPL_H

#include "common/endian.h"
#include "common/log2.h"
#include "common/minmax.h"

enum { GROUP = PITHI_PACKED_GROUP, LANES = 4, REACH = 64, NUMBERS = 16 };

static inline size_t in_units(size_t count) { return (count + NUMBERS - 1) / NUMBERS * NUMBERS; }

/* Row r of a group is differences 4r to 4r + 3: their bits are r * width and above in the lanes. */
#define ROWS(of)                                                                                  \
    of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7), of(8), of(9), of(10), of(11), of(12), \
        of(13), of(14), of(15), of(16), of(17), of(18), of(19), of(20), of(21), of(22), of(23),   \
        of(24), of(25), of(26), of(27), of(28), of(29), of(30), of(31)
#define WIDTHS(of)                                                                           \
    of(1) of(2) of(3) of(4) of(5) of(6) of(7) of(8) of(9) of(10) of(11) of(12) of(13) of(14) \
        of(15) of(16) of(17) of(18) of(19) of(20) of(21) of(22) of(23) of(24)

/* ---- Units -----------------------------------------------------------------------------------*/

#ifndef OWN_UNITS
#ifndef OWN_ELIAS_FANO
/* Writes the low `bits` bits, 1..16, of whole units of numbers, one behind the other, and up to
 * REACH bytes behind the last one. */
static inline void put_units(const uint32_t *numbers, size_t count, unsigned bits, uint8_t *to) {
    const uint32_t mask = (UINT32_C(1) << bits) - 1;
    for (size_t i = 0; i < count; i += 8, numbers += 8, to += bits) {
        uint64_t four[2];
        for (int k = 0; k < 2; k++) {
            const uint32_t *const x = numbers + 4 * k;
            const uint64_t low = (x[0] & mask) | (uint64_t)(x[1] & mask) << bits;
            const uint64_t high = (x[2] & mask) | (uint64_t)(x[3] & mask) << bits;
            four[k] = low | high << bits << bits;
        }
        pithi_put64(to, four[0] | four[1] << 2 * bits << 2 * bits);
        pithi_put64(to + 8, four[1] >> (32 - 2 * bits) >> (32 - 2 * bits));
    }
}

/* Returns a bit for each of eight numbers: for number i bit (list[i] >> low_bits) + i, counted from
 * that of number 0. All of them are below 57. */
static inline uint64_t ones_of_8(const uint32_t *list, unsigned low_bits) {
    const uint32_t first = list[0] >> low_bits;
    uint64_t ones = 1;
    for (unsigned i = 1; i < 8; i++) ones |= UINT64_C(1) << ((list[i] >> low_bits) - first + i);
    return ones;
}

/* Reads whole units of numbers of 0..24 bits, and up to REACH bytes behind the last one. */
static inline void take_units(const uint8_t *bytes, size_t count, unsigned bits, uint32_t *to) {
    uint32_t pick[8], shift[8]; /* of eight numbers: where they lie in the 16 bytes of each four */
    for (unsigned i = 0; i < 8; i++) {
        const unsigned bit = i % 4 * bits + (i / 4 * 4 * bits) % 8;
        pick[i] = bit / 8 * 0x01010101u + 0x03020100u;
        shift[i] = bit % 8;
    }
    const v4 pick0 = v4_load(pick), shift0 = v4_load(shift);
    const v4 pick1 = v4_load(pick + 4), shift1 = v4_load(shift + 4);
    const v4 mask = v4_set((UINT32_C(1) << bits) - 1);
    for (size_t i = 0; i < count; i += 8, bytes += bits) {
        const v4 x = v4_shr_each(v4_pick(bytes, pick0), shift0);
        const v4 y = v4_shr_each(v4_pick(bytes + bits / 2, pick1), shift1);
        v4_store(to + i, v4_and(x, mask));
        v4_store(to + i + 4, v4_and(y, mask));
    }
}

/* Writes base + i for each bit i of a word, and up to NUMBERS numbers behind them. */
static inline void list_ones(uint64_t word, uint32_t base, uint32_t *to) {
    const uint64_t top = UINT64_C(1) << 63; /* a word of 0 has no lowest bit */
    for (; word; to += 4)
        for (int i = 0; i < 4; i++, word &= word - 1)
            to[i] = base + (uint32_t)__builtin_ctzll(word | top);
}

/* Makes numbers of the places of their ones and of their low bits; returns whether each exceeds
 * the one before it, which is `last` at first. Writes as many as whole units have. */
static inline bool merge(const uint32_t *low, uint32_t *list, size_t count, uint32_t first,
                         unsigned low_bits, uint32_t last) {
    const size_t whole = count / LANES * LANES;
    v4 before = v4_set(last);
    bool good = true;
    for (size_t i = 0; i < count; i += LANES) {
        const v4 high = v4_sub(v4_load(list + i), v4_ramp(first + (uint32_t)i));
        const v4 x = v4_or(v4_shl(high, low_bits), v4_load(low + i));
        v4_store(list + i, x);
        if (i < whole) good &= v4_ascends(v4_after(before, x), x);
        before = x;
    }
    for (size_t i = whole; i < count; i++)
        good &= (int32_t)(i ? list[i - 1] : last) < (int32_t)list[i];
    return good;
}
#endif

enum { WIDE = sizeof(wide) / sizeof(uint32_t), FOUR = 4 * WIDE };

/* The differences of numbers [i, i + FOUR) of a group; the first of all follows `last`. */
ALWAYS void differ_four(const uint32_t *list, size_t i, uint32_t last, wide d[4]) {
    for (size_t k = 0; k < 4; k++, i += WIDE) {
        const wide x = w_load(list + i), before = i ? w_load(list + i - 1) : w_after(last, x);
        d[k] = w_sub(w_sub(x, before), w_set(1));
    }
}

/* ~0 in the bytes of places i and above, of a group, that are `skip` or more. */
static inline wide b_from(size_t i, size_t skip) {
#define SAME(place) place
    static const uint8_t places[32] = {ROWS(SAME)};
#undef SAME
    const wide first = w_load((const uint32_t *)(const void *)places);
    return b_least(b_add(first, b_set((unsigned)i)), b_set((unsigned)skip));
}
#endif

/* ---- Code strings of at most a group ---------------------------------------------------------*/

/* A memcpy whose length is known to be small becomes a loop over single bytes. */
static inline void copy_bytes(void *to, const void *from, size_t count) {
    uint8_t *const t = to;
    const uint8_t *const f = from;
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        v4_store((uint32_t *)(void *)(t + i), v4_load((const uint32_t *)(const void *)(f + i)));
    for (; i < count; i++) t[i] = f[i];
}

/* Does what put_units does, for 17 bits and more: eight numbers by twos. They fill whole bytes. */
static inline void put_pairs(const uint32_t *numbers, size_t count, unsigned bits, uint8_t *to) {
    const uint32_t mask = (UINT32_C(1) << bits) - 1;
    for (size_t i = 0; i < count; i += 8, to += bits) {
        uint64_t held = 0;
        for (unsigned k = 0; k < 4; k++) {
            const uint32_t *const x = numbers + i + 2 * k;
            const unsigned bit = 2 * bits * k, next = 2 * bits * (k + 1);
            held |= ((x[0] & mask) | (uint64_t)(x[1] & mask) << bits) << bit % 8;
            pithi_put64(to + bit / 8, held);
            held >>= 8 * (next / 8 - bit / 8);
        }
    }
}

static inline void put_any(const uint32_t *numbers, size_t count, unsigned bits, uint8_t *to) {
    if (bits > 16)
        put_pairs(numbers, count, bits, to);
    else if (bits)
        put_units(numbers, count, bits, to);
}

/* Numbers 0 follow up to a whole unit. `capacity` bytes may be written. */
static inline void put_string(const uint32_t *numbers, size_t count, unsigned bits, uint8_t *to,
                              size_t capacity) {
    uint8_t own[GROUP * PITHI_INDEX_BITS_MAX / 8 + REACH];
    const size_t bytes = (count * bits + 7) / 8;
    if (in_units(count) * bits / 8 + REACH <= capacity) {
        put_any(numbers, in_units(count), bits, to);
    } else {
        put_any(numbers, in_units(count), bits, own);
        copy_bytes(to, own, bytes);
    }
}

/* Writes as many numbers as whole units have. `length` bytes can be read. Returns whether all bits
 * behind the last number are 0. */
static inline bool take_string(const uint8_t *bytes, size_t length, size_t count, unsigned bits,
                               uint32_t *numbers) {
    const size_t own = (count * bits + 7) / 8;
    if (in_units(count) * bits / 8 + REACH <= length) {
        take_units(bytes, in_units(count), bits, numbers);
    } else {
        uint8_t copy[GROUP * PITHI_INDEX_BITS_MAX / 8 + 2 * REACH];
        copy_bytes(copy, bytes, own);
        memset(copy + own, 0, 2 * REACH); /* more than the rest of a unit and what is read behind */
        take_units(copy, in_units(count), bits, numbers);
    }
    return count * bits % 8 == 0 || !(bytes[own - 1] >> count * bits % 8);
}

/* ---- ELIAS_FANO ------------------------------------------------------------------------------*/

static inline size_t high_bit(const uint32_t *list, size_t i, unsigned low_bits) {
    return (list[i] >> low_bits) + i;
}

/* Ones come in ascending order: what has been written from byte `at` on is `held`, and behind the
 * last one there are only zeros. */
struct high_bits {
    uint8_t *to;
    size_t at;
    uint64_t held;
};

/* Adds ones, of which bit 0 is the first and belongs at `bit`; none is beyond bit 56. Writes 8
 * bytes: those of the ones, and of those before them that lie in the same byte. */
ALWAYS void put_ones(struct high_bits *h, uint64_t ones, size_t bit) {
    const size_t at = bit / 8, on = at - h->at;
    h->held = (on < 8 ? h->held >> 8 * on : 0) | ones << bit % 8;
    h->at = at;
    pithi_put64(h->to + at, h->held);
}

static void put_high(const uint32_t *list, size_t count, unsigned low_bits, uint8_t *to,
                     size_t bytes) {
    struct high_bits h = {to, 0, 0};
    size_t i = 0;
    memset(to, 0, bytes);
    while (i < count) {
        const size_t first = high_bit(list, i, low_bits);
        if (first / 8 + 8 > bytes) break;
        if (i + 8 <= count && high_bit(list, i + 7, low_bits) - first <= 56) {
            put_ones(&h, ones_of_8(list + i, low_bits), first);
            i += 8;
        } else {
            put_ones(&h, 1, first);
            i++;
        }
    }
    for (; i < count; i++) {
        const size_t bit = high_bit(list, i, low_bits);
        to[bit / 8] = (uint8_t)(to[bit / 8] | 1u << bit % 8);
    }
}

static void elias_fano_put(const uint32_t *list, size_t count, size_t n, unsigned low_bits,
                           uint8_t *to) {
    const size_t low = pithi_elias_fano_low_bytes(count, low_bits);
    const size_t bytes = pithi_elias_fano_bytes(n, count, low_bits);
    for (size_t first = 0; first < count; first += GROUP) {
        const size_t c = pithi_min(count - first, GROUP), at = first / 8 * low_bits;
        uint32_t own[GROUP];
        const uint32_t *numbers = list + first;
        if (c % NUMBERS) {
            for (size_t i = c / LANES * LANES; i < in_units(c); i += LANES)
                v4_store(own + i, v4_set(0));
            copy_bytes(own, numbers, c * sizeof *own);
            numbers = own;
        }
        put_string(numbers, c, low_bits, to + at, bytes - at);
    }
    put_high(list, count, low_bits, to + low, bytes - low);
}

/* Lists the places of `count` ones; false where there are more or fewer, or one behind `bits`. */
static bool take_high(const uint8_t *bytes, size_t bits, size_t count, uint32_t *list) {
    const size_t length = (bits + 7) / 8;
    size_t found = 0;
    for (size_t at = 0; at < length; at += 8) {
        uint64_t word = 0;
        if (at + 8 <= length)
            word = pithi_get64(bytes + at);
        else
            memcpy(&word, bytes + at, length - at);
        if (!word) continue;
        const size_t ones = (size_t)__builtin_popcountll(word);
        if (ones > count - found) return false;
        list_ones(word, (uint32_t)(8 * at), list + found);
        found += ones;
    }
    return found == count && list[count - 1] < bits;
}

static bool elias_fano_take(const uint8_t *bytes, size_t count, size_t n, unsigned low_bits,
                            uint32_t *list) {
    const size_t low = pithi_elias_fano_low_bytes(count, low_bits);
    const size_t length = pithi_elias_fano_bytes(n, count, low_bits);
    bool good = take_high(bytes + low, pithi_elias_fano_high_bits(n, count, low_bits), count, list);
    for (size_t first = 0; first < count && good; first += GROUP) {
        const size_t c = pithi_min(count - first, GROUP), at = first / 8 * low_bits;
        uint32_t numbers[GROUP];
        good = take_string(bytes + at, length - at, c, low_bits, numbers) &&
               merge(numbers, list + first, c, (uint32_t)first, low_bits,
                     first ? list[first - 1] : UINT32_MAX);
    }
    return good && list[count - 1] < n;
}

/* ---- PACKED and PATCHED ----------------------------------------------------------------------*/

ALWAYS void put_row(v4 *held, const uint32_t *difference, unsigned width, unsigned row,
                    uint8_t *to) {
    const unsigned bit = row * width % 32;
    const v4 x = v4_load(difference + LANES * row);
    *held = bit ? v4_or(*held, v4_shl(x, bit)) : x;
    if (bit + width < 32) return;
    v4_store((uint32_t *)(void *)(to + row * width / 32 * 16), *held);
    *held = v4_shr(x, 32 - bit);
}

ALWAYS void put_rows(const uint32_t *difference, unsigned width, uint8_t *to) {
    v4 held = v4_set(0);
#define PUT(row) put_row(&held, difference, width, row, to)
    ROWS(PUT);
#undef PUT
}

/* Groups of a list on their way to bytes, each of which follows the one before. */
struct groups {
    const uint32_t *list;
    const uint32_t *part; /* GROUP numbers, of which the last `left` follow whole groups; or NULL */
    size_t whole, left;
    uint32_t last;        /* the number before the list */
    const uint8_t *limit; /* bytes may be written up to there */
};

/* Makes a list of fewer numbers than a group has the last of one: each follows the one before. */
static inline void copy_last(const uint32_t *list, size_t count, uint32_t own[GROUP]) {
    for (size_t i = 0; i < GROUP; i += LANES) v4_store(own + i, v4_set(UINT32_MAX));
    copy_bytes(own + GROUP - count, list, count * sizeof *own);
}

#ifdef OWN_UNITS
enum { BATCH = 64 };
struct batch {
    uint8_t byte[BATCH];
};

static inline uint32_t number_before(const struct groups *of, size_t g) {
    return g ? of->list[GROUP * g - 1] : of->last;
}

/* Finds the bytes of groups; adds up their runs and their far differences. */
ALWAYS void measure_batch(struct batch *b, const struct groups *of, bool patched,
                          struct pithi_list_measure *m) {
    size_t g = 0;
    for (; g < of->whole; g++)
        b->byte[g] = (uint8_t)measure(of->list + GROUP * g, number_before(of, g), 0, patched, m);
    if (of->part) b->byte[g] = (uint8_t)measure(of->part, 0, GROUP - of->left, false, m);
}

static void put_group(const uint32_t *difference, unsigned width, uint8_t *to) {
    switch (width) {
#define PUT(w) \
    case w: put_rows(difference, w, to); return;
        WIDTHS(PUT)
#undef PUT
    default: return; /* 0: no bytes */
    }
}

static uint8_t *put_whole(struct batch *b, const struct groups *of, uint8_t *to) {
    uint32_t difference[GROUP];
    for (size_t g = 0; g < of->whole; g++) {
        const unsigned byte = b->byte[g];
        differ(of->list + GROUP * g, number_before(of, g), byte, difference,
               to + pithi_packed_string(GROUP, byte));
        put_group(difference, pithi_packed_width(byte), to);
        to += pithi_packed_bytes(GROUP, byte);
    }
    return to;
}

static void put_part(struct batch *b, const struct groups *of, uint8_t *to) {
    uint32_t difference[GROUP + NUMBERS];
    const unsigned byte = b->byte[of->whole];
    differ(of->part, 0, byte, difference, NULL);
    for (size_t i = GROUP; i < GROUP + NUMBERS; i += LANES) v4_store(difference + i, v4_set(0));
    put_string(difference + GROUP - of->left, of->left, byte, to, (size_t)(of->limit - to));
}
#else
/* What is found of one group at a time waits for itself: it is found of many. */
enum { BATCH = 16, PAGE = 4096 / sizeof(uint32_t) };
struct batch {
    uint32_t *difference; /* of group g from GROUP * g on */
    _Alignas(wide) uint32_t room[BATCH * GROUP + NUMBERS + PAGE];
    uint8_t byte[BATCH];
    uint64_t wider[BATCH][2]; /* of groups with exceptions, a bit for each difference: which are */
};

/* Loads wait for stores a short while before that lie as they do within a page: here differences
 * are stored where, for the page, numbers were loaded a quarter of it before. */
static inline uint32_t *away_from(const uint32_t *list, uint32_t *room) {
    const size_t at = ((uintptr_t)list - (uintptr_t)room) / sizeof *room % PAGE;
    return room + (at + PAGE / 4 * 3) % PAGE / WIDE * WIDE;
}

/* Writes the differences of a group of numbers, the first of which follows `last`, and a byte for
 * each, LENGTH_0 and its bits; those of the first `skip` count as 0. Returns LENGTH_0 and the bits
 * of the largest, and adds to each byte of *zeros and *far how many of its GROUP / FOUR are 0, and
 * are 256 or more. */
ALWAYS unsigned measure_lengths(const uint32_t *list, uint32_t last, size_t skip,
                                uint32_t *difference, uint8_t *length, wide *zeros, wide *far) {
    wide longest = b_set(LENGTH_0);
    for (size_t i = 0; i < GROUP; i += FOUR) {
        wide d[4];
        differ_four(list, i, last, d);
        for (size_t k = 0; k < 4; k++) w_store(difference + i + WIDE * k, d[k]);
        for (size_t k = 0; k < 4; k++) d[k] = w_length(d[k]);
        wide x = w_narrow(d);
        if (skip) x = w_and(x, b_from(i, skip));
        x = b_max(x, b_set(LENGTH_0));
        w_store((uint32_t *)(void *)(length + i), x);
        longest = b_max(longest, x);
        *zeros = b_sub(*zeros, b_equal(x, b_set(LENGTH_0)));
        *far = b_sub(*far, b_least(x, b_set(LENGTH_0 + 9)));
    }
    return b_largest(longest);
}

/* Returns the byte of a group of such lengths, of which the largest is *most - LOOK_0: in memory,
 * where one load makes it all bytes of a vector. */
ALWAYS unsigned patched_byte(const uint8_t *length, const uint8_t *most) {
    /* By how many bits a number is shorter: in each half of a byte a count of up to 8 of those that
     * are not shorter than by 0 and 1, and by 2 and 3. */
    static const uint8_t near_of[16] = {0x11, 0x10}, far_of[16] = {0x11, 0x11, 0x11, 0x10};
    wide near = b_set(0), far = b_set(0);
    for (size_t i = 0; i < GROUP; i += FOUR) {
        const wide x = w_load((const uint32_t *)(const void *)(length + i));
        const wide shorter = b_sub(b_set(*most), x);
        near = b_add(near, b_look(near_of, shorter));
        far = b_add(far, b_look(far_of, shorter));
    }
    return pithi_patched_byte((uint8_t)(*most - LENGTH_0 - LOOK_0), b_sums(near, far));
}

/* Returns a bit for each of 64 such lengths: whether it is that of more than so many bits. */
ALWAYS uint64_t longer_than(const uint8_t *length, unsigned bits) {
    const wide least = b_set(bits + LENGTH_0 + 1);
    uint64_t longer = 0;
    for (size_t i = 0; i < GROUP / 2; i += FOUR) {
        const wide x = w_load((const uint32_t *)(const void *)(length + i));
        longer |= (uint64_t)b_bits(b_least(x, least)) << i;
    }
    return longer;
}

/* Finds the differences and the bytes of groups; adds up their runs and their far differences. */
ALWAYS void measure_batch(struct batch *b, const struct groups *of, bool patched,
                          struct pithi_list_measure *m) {
    uint8_t length[BATCH][GROUP], most[BATCH];
    const size_t whole = of->whole;
    const uint32_t *list = of->list;
    uint32_t *difference = b->difference = away_from(list, b->room);
    uint32_t last = of->last;
    wide zeros = b_set(0), far = b_set(0);
    for (size_t g = 0; g < whole; g++, list += GROUP, difference += GROUP) {
        const unsigned longest =
            measure_lengths(list, last, 0, difference, length[g], &zeros, &far);
        if (patched)
            most[g] = (uint8_t)(longest + LOOK_0);
        else
            b->byte[g] = (uint8_t)(longest - LENGTH_0);
        last = list[GROUP - 1];
    }
    if (of->part)
        b->byte[whole] = (uint8_t)(measure_lengths(of->part, 0, GROUP - of->left, difference,
                                                   length[whole], &zeros, &far) -
                                   LENGTH_0);
    m->runs += GROUP * (whole + (of->part != NULL)) - b_sum(zeros);
    m->far += b_sum(far);
    if (!patched) return;
    for (size_t g = 0; g < whole; g++) b->byte[g] = (uint8_t)patched_byte(length[g], most + g);
    for (size_t g = 0; g < whole; g++) {
        if (!pithi_packed_exceptions(b->byte[g])) continue;
        for (size_t half = 0; half < 2; half++)
            b->wider[g][half] =
                longer_than(length[g] + GROUP / 2 * half, pithi_packed_width(b->byte[g]));
    }
}

/* Writes the exceptions of a group, and takes what they have above its width from the differences.
 * With `pairs` two at a time, so that fewer ends of the loop are guessed wrong: the last may be one
 * of 127 that is none, whose bytes are those of what follows. */
ALWAYS void put_exceptions(uint32_t *difference, const uint64_t wider[2], unsigned byte, bool pairs,
                           uint8_t *to) {
    const unsigned width = pithi_packed_width(byte), count = pithi_packed_exceptions(byte);
    uint64_t low = wider[0], high = wider[1];
    for (unsigned k = 0; k < count; k += pairs ? 2 : 1)
        for (unsigned one = 0; one < (pairs ? 2 : 1); one++, to += 2) {
            const uint64_t word = low ? low : high | UINT64_C(1) << 63;
            const unsigned i = (low ? 0 : 64) + (unsigned)__builtin_ctzll(word);
            const uint32_t x = difference[i];
            high = low ? high : high & (high - 1);
            low &= low - 1;
            difference[i] = x & ((UINT32_C(1) << width) - 1);
            pithi_put16(to, (uint16_t)(i | x >> width << 8));
        }
}

/* Packs the groups of this width that `which` has a bit for, each to its place. */
static void put_groups(const struct batch *b, unsigned width, unsigned which, uint8_t *const *to) {
    switch (width) {
#define PUT(w)                                                 \
    case w:                                                    \
        for (; which; which &= which - 1) {                    \
            const unsigned g = (unsigned)__builtin_ctz(which); \
            put_rows(b->difference + GROUP * g, w, to[g]);     \
        }                                                      \
        return;
        WIDTHS(PUT)
#undef PUT
    default: return; /* 0: no bytes */
    }
}

/* Groups of one width go together: where widths come in any order, jumps to their code are guessed
 * wrong. Before them go exceptions, in the order of groups, as they may be written over. Not in
 * line, nor is put_part: measuring before it needs all vector registers. */
static __attribute__((noinline)) uint8_t *put_whole(struct batch *b, const struct groups *of,
                                                    uint8_t *to) {
    const size_t groups = of->whole;
    uint8_t *place[BATCH], width[BATCH] = {0};
    for (size_t g = 0; g < groups; g++) {
        const unsigned byte = b->byte[g];
        uint32_t *const difference = b->difference + GROUP * g;
        uint8_t *const at = to + pithi_packed_string(GROUP, byte);
        if (of->limit - at >= 2 * (PITHI_PATCHED_MOST + 1))
            put_exceptions(difference, b->wider[g], byte, true, at);
        else
            put_exceptions(difference, b->wider[g], byte, false, at);
        place[g] = to;
        width[g] = (uint8_t)pithi_packed_width(byte);
        to += pithi_packed_bytes(GROUP, byte);
    }
    for (unsigned left = (1u << groups) - 1, same; left; left &= ~same) {
        const unsigned w = width[__builtin_ctz(left)];
        same = b_same(width, w) & left;
        put_groups(b, w, same, place);
    }
    return to;
}

static __attribute__((noinline)) void put_part(struct batch *b, const struct groups *of,
                                               uint8_t *to) {
    uint32_t *const end = b->difference + GROUP * (of->whole + 1);
    for (size_t i = 0; i < NUMBERS; i += LANES) v4_store(end + i, v4_set(0));
    put_string(end - of->left, of->left, b->byte[of->whole], to, (size_t)(of->limit - to));
}
#endif

/* Adds what whole groups and a part take, eight groups at a time: with no exceptions a part takes
 * what it has of a whole group's. */
ALWAYS void add_groups(struct pithi_list_measure *m, const struct batch *b,
                       const struct groups *of) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const size_t groups = of->whole + (of->part != NULL);
    size_t widths = 0, exceptions = 0;
    for (size_t g = 0; g < groups; g += 8) {
        const uint64_t bytes = pithi_get64(b->byte + g);
        widths += (size_t)((bytes & 0x1F * ones) * ones >> 56);
        exceptions += (size_t)((bytes >> PITHI_PATCHED_SHIFT & 7 * ones) * ones >> 56);
    }
    m->packed += pithi_packed_string(GROUP, 1) * widths + 2 * exceptions;
    m->exceptions += exceptions;
    if (!of->part) return;
    const unsigned byte = b->byte[of->whole];
    m->packed -= pithi_packed_string(GROUP, byte) - pithi_packed_string(of->left, byte);
}

ALWAYS struct pithi_list_measure pack_list(const uint32_t *list, size_t count, bool patched,
                                           uint8_t *to, size_t capacity) {
    struct pithi_list_measure m = {.packed = pithi_packed_groups(count), .runs = !list[0]};
    uint32_t own[GROUP];
    struct groups of = {.last = UINT32_MAX, .limit = to + capacity};
    struct batch b;
    if (count < GROUP) copy_last(list, count, own);
    for (size_t first = 0; first < count; first += BATCH * GROUP) {
        const size_t here = pithi_min(count - first, BATCH * GROUP), at = m.packed;
        of.list = list + first;
        of.whole = here / GROUP;
        of.left = here % GROUP;
        of.part = !of.left ? NULL : count < GROUP ? own : list + count - GROUP;
        memset(b.byte, 0, sizeof b.byte);
        measure_batch(&b, &of, patched, &m);
        add_groups(&m, &b, &of);
        if (m.packed <= capacity) {
            memcpy(to + first / GROUP, b.byte, pithi_packed_groups(here));
            uint8_t *const end = put_whole(&b, &of, to + at);
            if (of.part) put_part(&b, &of, end);
        }
        of.last = of.list[here - 1];
    }
    return m;
}

static struct pithi_list_measure packed_put(const uint32_t *list, size_t count, bool patched,
                                            uint8_t *to, size_t capacity) {
    return patched ? pack_list(list, count, true, to, capacity)
                   : pack_list(list, count, false, to, capacity);
}

#ifndef OWN_UNITS
/* `last` is the number before the row, in all lanes; `more` what is to be added to differences,
 * which is at least 1, since the next number is larger. */
ALWAYS void take_row(const uint8_t *bytes, unsigned width, unsigned row, const uint32_t *more,
                     v4 *last, uint32_t *to) {
    const unsigned bit = row * width % 32;
    const uint32_t *const word = (const uint32_t *)(const void *)(bytes + row * width / 32 * 16);
    v4 x = v4_shr(v4_load(word), bit);
    if (bit + width > 32) x = v4_or(x, v4_shl(v4_load(word + LANES), 32 - bit));
    if (bit + width != 32) x = v4_and(x, v4_set((UINT32_C(1) << width) - 1));
    x = v4_add(*last, v4_sums(v4_add(x, v4_load(more + LANES * row))));
    v4_store(to + LANES * row, x);
    *last = v4_last(x);
}

ALWAYS v4 take_rows(const uint8_t *bytes, unsigned width, const uint32_t *more, v4 last,
                    uint32_t *to) {
#define TAKE(row) take_row(bytes, width, row, more, &last, to)
    ROWS(TAKE);
#undef TAKE
    return last;
}

static v4 take_group(const uint8_t *bytes, unsigned width, const uint32_t *more, v4 last,
                     uint32_t *to) {
    switch (width) {
#define TAKE(w) \
    case w: return take_rows(bytes, w, more, last, to);
        WIDTHS(TAKE)
#undef TAKE
    default: /* 0: no bytes */
        for (unsigned i = 0; i < GROUP; i += LANES) {
            const v4 x = v4_add(last, v4_sums(v4_load(more + i)));
            v4_store(to + i, x);
            last = v4_last(x);
        }
        return last;
    }
}

/* Adds what a group's exceptions have above its width to `more`; returns false where they are none
 * or do not ascend. */
ALWAYS bool add_exceptions(const uint8_t *bytes, unsigned byte, uint32_t *more) {
    unsigned least = 0;
    bool good = true;
    for (unsigned n = pithi_packed_exceptions(byte); n; n--, bytes += 2) {
        const unsigned place = bytes[0], high = bytes[1];
        good &= place >= least && place < GROUP && high;
        more[place % GROUP] = 1 + (high << pithi_packed_width(byte));
        least = place + 1;
    }
    return good;
}
ALWAYS void forget_exceptions(const uint8_t *bytes, unsigned byte, uint32_t *more) {
    for (unsigned n = pithi_packed_exceptions(byte); n; n--, bytes += 2) more[*bytes] = 1;
}

/* Exceptions are looked at a group ahead: a load of vectors of what smaller stores just wrote would
 * wait for these. */
static bool packed_take(const uint8_t *bytes, size_t length, size_t count, size_t n,
                        uint32_t *list) {
    const uint8_t *const end = bytes + length;
    const uint8_t *widths = bytes, *exceptions = bytes;
    uint32_t more[2 * GROUP], *here = more, *ahead = more + GROUP;
    v4 last = v4_set(UINT32_MAX);
    for (unsigned i = 0; i < 2 * GROUP; i += WIDE) w_store(more + i, w_set(1));
    bytes += pithi_packed_groups(count);
    if (count >= GROUP) {
        exceptions = bytes + pithi_packed_string(GROUP, *widths);
        if (!add_exceptions(exceptions, *widths, here)) return false;
    }
    for (; count >= GROUP; list += GROUP, count -= GROUP) {
        const unsigned byte = *widths++;
        const uint8_t *const own = exceptions, *const next =
                                                   bytes + pithi_packed_bytes(GROUP, byte);
        if (count >= 2 * GROUP) {
            exceptions = next + pithi_packed_string(GROUP, *widths);
            if (!add_exceptions(exceptions, *widths, ahead)) return false;
        }
        last = take_group(bytes, pithi_packed_width(byte), here, last, list);
        if (list[GROUP - 1] >= n) return false;
        forget_exceptions(own, byte, here);
        uint32_t *const other = here;
        here = ahead;
        ahead = other;
        bytes = next;
    }
    if (!count) return true;
    uint32_t numbers[GROUP];
    if (!take_string(bytes, (size_t)(end - bytes), count, *widths, numbers)) return false;
    for (size_t i = 0; i < count; i += LANES) { /* up to three numbers more than the list has */
        const v4 x = v4_add(last, v4_add(v4_sums(v4_load(numbers + i)), v4_ramp(1)));
        v4_store(list + i, x);
        last = v4_last(x);
    }
    return list[count - 1] < n;
}
#endif

#define BIND(k)                                 \
    do {                                        \
        (k)->elias_fano_put = elias_fano_put;   \
        (k)->elias_fano_take = elias_fano_take; \
        (k)->packed_put = packed_put;           \
    } while (0)

#endif
