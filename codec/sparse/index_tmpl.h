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
 *   w_above(x, y)               a bit for each number of x[0..3] that exceeds y's;
 *   w_narrow(x)                 the numbers of x[0..3] as bytes, 255 for larger ones, in any order;
 *   b_add, b_sub, b_max, b_set  of a wide vector's bytes; b_least(x, y): ~0 where x >= y, else 0;
 *   b_look(table, x)            bytes of table[16] by x - LOOK_0, 0 where that is 16 to 24;
 *   b_sum(x), b_largest(x)      of all bytes;
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

/* Returns the byte of a group of numbers, the first of which follows `last`, and adds to *runs two
 * for each difference that is not 0, and one for each above 128. */
ALWAYS unsigned measure(const uint32_t *list, uint32_t last, bool patched, size_t *runs) {
    wide less = b_set(0), longest = b_set(0), length[GROUP / FOUR];
    for (size_t i = 0; i < GROUP / FOUR; i++) {
        wide d[4];
        differ_four(list, FOUR * i, last, d);
        const wide low = w_narrow(d), other = b_least(low, b_set(1));
        less = b_add(b_add(less, b_least(low, b_set(129))), b_add(other, other));
        for (size_t k = 0; k < 4; k++) d[k] = w_length(d[k]);
        length[i] = b_max(w_narrow(d), b_set(LENGTH_0));
        longest = b_max(longest, length[i]);
    }
    const unsigned most = b_largest(longest), bits = most - LENGTH_0;
    *runs += b_sum(b_sub(b_set(0), less)); /* 24 at most in a byte */
    if (!patched) return bits;
    /* By how many bits a number is shorter: in each half of a byte a count of up to 8 of those that
     * are not shorter than by 0 and 1, and by 2 and 3. */
    static const uint8_t near_of[16] = {0x11, 0x10}, far_of[16] = {0x11, 0x11, 0x11, 0x10};
    const wide half = b_set(15);
    wide near = b_set(0), far = b_set(0);
    for (size_t i = 0; i < GROUP / FOUR; i++) {
        const wide shorter = b_sub(b_set(most + LOOK_0), length[i]);
        near = b_add(near, b_look(near_of, shorter));
        far = b_add(far, b_look(far_of, shorter));
    }
    return pithi_patched_byte(
        bits, b_sum(w_and(near, half)) | b_sum(w_and(w_shr(near, 4), half)) << 8 |
                  b_sum(w_and(far, half)) << 16 | b_sum(w_and(w_shr(far, 4), half)) << 24);
}

/* Copies fewer numbers than a group has, and makes them a group by differences of 0. */
static inline void copy_last(const uint32_t *list, size_t count, uint32_t own[GROUP]) {
    const uint32_t first = list[count - 1] - (uint32_t)(count - 1);
    for (unsigned i = 0; i < GROUP; i += LANES) v4_store(own + i, v4_ramp(first + i));
    memcpy(own, list, count * sizeof *own);
}

/* Writes the differences of a group of numbers, the first of which follows `last`: the low bits
 * that the group of this byte has of them, and the exceptions. */
ALWAYS void differ(const uint32_t *list, uint32_t last, unsigned byte, uint32_t *difference,
                   uint8_t *to) {
    const unsigned width = pithi_packed_width(byte);
    const wide mask = w_set((UINT32_C(1) << width) - 1);
    uint64_t wider[2] = {0, 0};
    for (size_t i = 0; i < GROUP; i += FOUR) {
        wide d[4];
        differ_four(list, i, last, d);
        for (size_t k = 0; k < 4; k++) w_store(difference + i + WIDE * k, w_and(d[k], mask));
        wider[i / 64] |= (uint64_t)w_above(d, mask) << i % 64;
    }
    for (unsigned half = 0; half < 2; half++)
        for (uint64_t left = wider[half]; left; left &= left - 1, to += 2) {
            const unsigned i = 64 * half + (unsigned)__builtin_ctzll(left);
            to[0] = (uint8_t)i;
            to[1] = (uint8_t)((list[i] - (i ? list[i - 1] : last) - 1) >> width);
        }
}
#endif

/* ---- Code strings of at most a group ---------------------------------------------------------*/

/* Numbers 0 follow up to a whole unit. `capacity` bytes may be written. */
static inline void put_string(const uint32_t *numbers, size_t count, unsigned bits, uint8_t *to,
                              size_t capacity) {
    uint8_t own[GROUP * PITHI_INDEX_BITS_MAX / 8 + REACH];
    const size_t bytes = (count * bits + 7) / 8;
    if (bits > 16) { /* few numbers: they are 512 at most in a block of 2^24 elements */
        pithi_code_string_put_c(numbers, count, bits, to);
    } else if (bits && count % NUMBERS == 0 && bytes + REACH <= capacity) {
        put_units(numbers, count, bits, to);
    } else if (bits) {
        put_units(numbers, in_units(count), bits, own);
        memcpy(to, own, bytes);
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
        uint8_t copy[GROUP * PITHI_INDEX_BITS_MAX / 8 + REACH];
        memcpy(copy, bytes, own);
        memset(copy + own, 0, sizeof copy - own);
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
            memcpy(own, numbers, c * sizeof *own);
            memset(own + c, 0, (in_units(c) - c) * sizeof *own);
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

static void put_group(const uint32_t *difference, unsigned width, uint8_t *to) {
    switch (width) {
#define PUT(w) \
    case w: put_rows(difference, w, to); return;
        WIDTHS(PUT)
#undef PUT
    default: return; /* 0: no bytes */
    }
}

static void packed_put(const uint32_t *list, size_t count, const uint8_t *widths, uint8_t *to) {
    uint32_t difference[GROUP], last = UINT32_MAX;
    memcpy(to, widths, pithi_packed_groups(count));
    to += pithi_packed_groups(count);
    for (; count >= GROUP; list += GROUP, count -= GROUP) {
        const unsigned byte = *widths++;
        differ(list, last, byte, difference, to + pithi_packed_string(GROUP, byte));
        put_group(difference, pithi_packed_width(byte), to);
        to += pithi_packed_bytes(GROUP, byte);
        last = list[GROUP - 1];
    }
    if (!count) return;
    uint32_t own[GROUP];
    copy_last(list, count, own);
    differ(own, last, *widths, difference, NULL); /* no exceptions */
    put_string(difference, count, *widths, to, pithi_packed_bytes(count, *widths));
}

ALWAYS struct pithi_list_measure measure_list(const uint32_t *list, size_t count, bool patched,
                                              uint8_t *widths) {
    struct pithi_list_measure m = {0, list[0] ? 0 : 2, 0};
    uint32_t last = UINT32_MAX;
    for (; count >= GROUP; list += GROUP, count -= GROUP) {
        const unsigned byte = measure(list, last, patched, &m.runs);
        *widths++ = (uint8_t)byte;
        m.packed += 1 + pithi_packed_bytes(GROUP, byte);
        m.exceptions += pithi_packed_exceptions(byte);
        last = list[GROUP - 1];
    }
    if (!count) return m;
    uint32_t own[GROUP];
    copy_last(list, count, own);
    *widths = (uint8_t)measure(own, last, false, &m.runs);
    m.packed += 1 + pithi_packed_bytes(count, *widths);
    return m;
}

static struct pithi_list_measure list_measure(const uint32_t *list, size_t count, bool patched,
                                              uint8_t *widths) {
    return patched ? measure_list(list, count, true, widths)
                   : measure_list(list, count, false, widths);
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
static bool packed_take(const uint8_t *bytes, size_t count, size_t n, uint32_t *list) {
    const uint8_t *widths = bytes, *exceptions = bytes;
    uint32_t more[2 * GROUP], *here = more, *ahead = more + GROUP;
    v4 last = v4_set(UINT32_MAX);
    for (unsigned i = 0; i < 2 * GROUP; i += LANES) v4_store(more + i, v4_set(1));
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
    if (!take_string(bytes, pithi_packed_bytes(count, *widths), count, *widths, numbers))
        return false;
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
        (k)->list_measure = list_measure;       \
    } while (0)

#endif
