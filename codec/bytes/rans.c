/* rans.c - frequencies, tables and the reference loops of rANS strings.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/rans.h"

#include <string.h>

#include "bytes/rans_table.h"
#include "common/endian.h"

enum { SLOTS = PITHI_RANS_SLOTS, LOG2_SLOTS = PITHI_RANS_LOG2_SLOTS, SYMBOLS = PITHI_RANS_SYMBOLS };
enum { LOG2_BUCKETS_LEAST = 5 };

/* ---- Slots -----------------------------------------------------------------------------------*/

static unsigned log2_width(const uint16_t frequency[SYMBOLS]) {
    unsigned kinds = 0, log2_buckets = LOG2_BUCKETS_LEAST;
    for (unsigned s = 0; s < SYMBOLS; s++) kinds += frequency[s] > 0;
    while (kinds > 1u << log2_buckets) log2_buckets++;
    return LOG2_SLOTS - log2_buckets;
}

/* Symbols in ascending order: those that fill a bucket, and the rare ones. */
struct symbols {
    const uint16_t *frequency;
    unsigned width;
    unsigned main, rare; /* the next of each; SYMBOLS: none is left */
};

static unsigned next_main(const struct symbols *k, unsigned s) {
    while (s < SYMBOLS && k->frequency[s] < k->width) s++;
    return s;
}

static unsigned next_rare(const struct symbols *k, unsigned s) {
    while (s < SYMBOLS && (k->frequency[s] == 0 || k->frequency[s] >= k->width)) s++;
    return s;
}

static struct symbols symbols_of(const uint16_t *frequency, unsigned log2) {
    struct symbols k = {.frequency = frequency, .width = 1u << log2};
    k.main = next_main(&k, 0);
    k.rare = next_rare(&k, 0);
    return k;
}

/* Fills bucket after bucket: one that the main symbol could fill alone gets a rare symbol at its
 * end while there are any; where a main symbol ends inside a bucket the next one goes on. Every
 * bucket then has two symbols at most, and all rare ones find a place: of B buckets at most M - 1
 * have the end of a main symbol, M being their number, and there are at most B - M rare ones. */
void pithi_rans_decoder_of(struct pithi_rans_decoder *t, const uint16_t frequency[SYMBOLS]) {
    t->log2_width = log2_width(frequency);
    struct symbols k = symbols_of(frequency, t->log2_width);
    unsigned used = 0; /* slots of the main symbol so far */
    for (unsigned at = 0; at < SLOTS; at += k.width) {
        struct pithi_rans_bucket *const b = &t->bucket[at >> t->log2_width];
        const unsigned left = frequency[k.main] - used;
        b->symbol[0] = b->symbol[1] = (uint8_t)k.main;
        b->frequency[0] = b->frequency[1] = frequency[k.main];
        b->bias[0] = b->bias[1] = (uint16_t)(used - at);
        if (left >= k.width && k.rare < SYMBOLS) {
            b->split = (uint16_t)(k.width - frequency[k.rare]);
            b->symbol[1] = (uint8_t)k.rare;
            b->frequency[1] = frequency[k.rare];
            b->bias[1] = (uint16_t)(0u - (at + b->split));
            k.rare = next_rare(&k, k.rare + 1);
            used += b->split;
        } else if (left > k.width) {
            b->split = (uint16_t)k.width;
            used += k.width;
        } else {
            b->split = (uint16_t)left;
            k.main = next_main(&k, k.main + 1);
            used = k.width - left;
            if (!used) continue;
            b->symbol[1] = (uint8_t)k.main;
            b->frequency[1] = frequency[k.main];
            b->bias[1] = (uint16_t)(0u - (at + left));
        }
    }
}

void pithi_rans_encoder_of(struct pithi_rans_encoder *t, const uint16_t frequency[SYMBOLS]) {
    struct pithi_rans_decoder buckets;
    pithi_rans_decoder_of(&buckets, frequency);
    unsigned start = 0;
    for (unsigned s = 0; s < SYMBOLS; s++) {
        t->frequency[s] = frequency[s];
        t->start[s] = (uint16_t)start;
        start += frequency[s];
        if (frequency[s])
            t->inverse[s] =
                ((UINT64_C(1) << PITHI_RANS_INVERSE_SHIFT) + frequency[s] - 1) / frequency[s];
    }
    const unsigned width = 1u << buckets.log2_width;
    for (unsigned at = 0; at < SLOTS; at += width) {
        const struct pithi_rans_bucket *const b = &buckets.bucket[at >> buckets.log2_width];
        uint16_t *to = t->slot + t->start[b->symbol[0]] + (uint16_t)(at + b->bias[0]);
        for (unsigned i = 0; i < b->split; i++) to[i] = (uint16_t)(at + i);
        if (b->split == width) continue;
        to = t->slot + t->start[b->symbol[1]];
        for (unsigned i = b->split; i < width; i++) *to++ = (uint16_t)(at + i);
    }
}

/* ---- Symbols ---------------------------------------------------------------------------------*/

/* All loops renormalise without a branch, which nobody could predict: a word is stored, or read,
 * whether or not it counts, in parts for which there is space, or words, in any case. Where states
 * are few they stay in registers, for rows of symbols, one of each state. */

/* Returns x / f, of which the encoder has the inverse, for x < 2^20 f: the product is less than
 * 2^64, and beyond 2^44 x / f by less than 2^44 / f. */
static inline uint32_t quotient(uint32_t x, uint64_t inverse) {
    return (uint32_t)(x * inverse >> PITHI_RANS_INVERSE_SHIFT);
}

static inline uint32_t encode_one(const struct pithi_rans_encoder *t, unsigned s, uint32_t x,
                                  uint8_t **end) {
    const uint32_t f = t->frequency[s], high = x >= f << (32 - LOG2_SLOTS);
    pithi_put16(*end - 2, (uint16_t)x);
    *end -= 2 * high;
    x = high ? x >> 16 : x;
    const uint32_t q = quotient(x, t->inverse[s]);
    return q << LOG2_SLOTS | t->slot[t->start[s] + x - q * f];
}

enum { FEW_STATES = 8 };

/* Encodes rows, the last first. Returns where their words begin. */
static inline uint8_t *encode_rows(const struct pithi_rans_encoder *t, size_t row, uint32_t *state,
                                   const uint8_t *src, size_t rows, uint8_t *end) {
    uint32_t x[FEW_STATES];
    memcpy(x, state, row * sizeof *x);
    for (src += row * rows; rows; rows--) {
        src -= row;
        for (size_t j = row; j--;) x[j] = encode_one(t, src[j], x[j], &end);
    }
    memcpy(state, x, row * sizeof *x);
    return end;
}

bool pithi_rans_encode_c(const struct pithi_rans_encoder *t, const uint8_t *src, size_t n,
                         struct pithi_rans_states *states, struct pithi_rans_space *to) {
    const unsigned log2 = states->log2;
    const size_t mask = ((size_t)1 << log2) - 1;
    uint32_t *const state = states->x;
    uint8_t *end = to->end;
    while (n) {
        size_t part = (size_t)(end - to->begin) / 2;
        if (part == 0) {
            /* No word more: the rest fits only if every state takes its symbols as it is. */
            const uint32_t x = state[--n & mask], f = t->frequency[src[n]];
            if ((x >> (32 - LOG2_SLOTS)) >= f) return false;
            state[n & mask] = x / f << LOG2_SLOTS | t->slot[t->start[src[n]] + x % f];
        }
        part = part < n ? part : n;
        if (log2 == 1 || log2 == 3) {
            const size_t over = n & mask, rows = part >> log2;
            if (!over && rows) {
                n -= rows << log2;
                end = log2 == 1 ? encode_rows(t, 2, state, src + n, rows, end)
                                : encode_rows(t, 8, state, src + n, rows, end);
                continue;
            }
            if (over && over < part) part = over;
        }
        for (; part; part--) {
            n--;
            state[n & mask] = encode_one(t, src[n], state[n & mask], &end);
        }
    }
    to->end = end;
    return true;
}

/* What a state becomes by its next symbol, which is stored; it may have to be renormalised. */
static inline uint32_t step(const struct pithi_rans_decoder *t, uint32_t x, uint8_t *symbol) {
    const unsigned slot = x & (SLOTS - 1);
    const struct pithi_rans_bucket *const b = &t->bucket[slot >> t->log2_width];
    const unsigned k = (slot & ((1u << t->log2_width) - 1)) >= b->split;
    *symbol = b->symbol[k];
    return b->frequency[k] * (x >> LOG2_SLOTS) + (uint16_t)(slot + b->bias[k]);
}

static inline uint32_t renormalise(uint32_t x, const uint8_t **words) {
    const uint32_t low = x < PITHI_RANS_LOW, word = pithi_get16(*words);
    *words += 2 * low;
    return x << 16 * low | (word & (0u - low));
}

/* Of each slot its symbol, and that symbol's frequency and the slot's number among its slots. */
struct slots {
    struct slot {
        uint16_t frequency, number;
    } of[SLOTS];
    uint8_t symbol[SLOTS];
};

static void slots_of(struct slots *to, const struct pithi_rans_decoder *t) {
    const unsigned width = 1u << t->log2_width;
    for (unsigned at = 0; at < SLOTS; at += width) {
        const struct pithi_rans_bucket *const b = &t->bucket[at >> t->log2_width];
        for (unsigned k = 0, i = at; k < 2; k++) {
            const unsigned end = at + (k ? width : b->split);
            memset(to->symbol + i, b->symbol[k], end - i);
            for (; i < end; i++)
                to->of[i] = (struct slot){b->frequency[k], (uint16_t)(i + b->bias[k])};
        }
    }
}

/* Decodes rows, for which there are words in any case. Returns where those begin that are left. */
static inline const uint8_t *decode_rows(const struct slots *t, size_t row,
                                         uint32_t *restrict state, const uint8_t *words,
                                         uint8_t *restrict dst, size_t rows) {
    for (; rows; rows--, dst += row)
        for (size_t j = 0; j < row; j++) {
            const uint32_t x = state[j], slot = x & (SLOTS - 1);
            dst[j] = t->symbol[slot];
            state[j] =
                renormalise(t->of[slot].frequency * (x >> LOG2_SLOTS) + t->of[slot].number, &words);
        }
    return words;
}

static inline const uint8_t *decode_few(const struct slots *t, size_t row, uint32_t *state,
                                        const uint8_t *words, uint8_t *dst, size_t rows) {
    uint32_t x[FEW_STATES];
    memcpy(x, state, row * sizeof *x);
    words = decode_rows(t, row, x, words, dst, rows);
    memcpy(state, x, row * sizeof *x);
    return words;
}

bool pithi_rans_decode_c(const struct pithi_rans_decoder *t, struct pithi_rans_states *states,
                         struct pithi_rans_words *from, uint8_t *dst, size_t n) {
    enum { LEAST = 512 }; /* below it, making the table takes longer */
    const unsigned log2 = states->log2;
    const size_t mask = ((size_t)1 << log2) - 1;
    const bool by_rows = n >= LEAST;
    uint32_t *const state = states->x;
    const uint8_t *words = from->at;
    struct slots slots;
    size_t i = 0;
    if (by_rows) slots_of(&slots, t);
    while (i < n) {
        size_t part = (size_t)(from->end - words) / 2;
        if (part == 0) {
            const uint32_t x = step(t, state[i & mask], dst + i);
            if (x < PITHI_RANS_LOW) return false;
            state[i++ & mask] = x;
        }
        part = part < n - i ? part : n - i;
        const size_t rows = by_rows && (i & mask) == 0 ? part >> log2 : 0;
        if (rows) {
            words = log2 == 1   ? decode_few(&slots, 2, state, words, dst + i, rows)
                    : log2 == 3 ? decode_few(&slots, 8, state, words, dst + i, rows)
                                : decode_rows(&slots, mask + 1, state, words, dst + i, rows);
            i += rows << log2;
            continue;
        }
        for (; part; part--, i++)
            state[i & mask] = renormalise(step(t, state[i & mask], dst + i), &words);
    }
    from->at = words;
    return true;
}

/* ---- Frequencies -----------------------------------------------------------------------------*/

/* Counts symbols in several tables: neighbours are often alike, and a counter waits for itself.
 * The first one gets the sums. */
void pithi_symbol_count_c(uint32_t table[PITHI_RANS_TABLES][SYMBOLS], const uint8_t *src,
                          size_t n) {
    enum { TABLES = PITHI_RANS_TABLES, SHORT = 512 }; /* in less than that tables do not pay */
    size_t i = 0;
    if (n < SHORT) {
        memset(table[0], 0, sizeof table[0]);
        for (; i < n; i++) table[0][src[i]]++;
        return;
    }
    memset(table, 0, TABLES * sizeof table[0]);
    for (; i + TABLES <= n; i += TABLES)
        for (unsigned k = 0; k < TABLES; k++) table[k][src[i + k]]++;
    for (; i < n; i++) table[0][src[i]]++;
    for (unsigned k = 1; k < TABLES; k++)
        for (unsigned s = 0; s < SYMBOLS; s++) table[0][s] += table[k][s];
}

/* The symbols that occur, and what they have of the slots before and after rounding. */
struct shares {
    unsigned kinds;
    uint8_t symbol[SYMBOLS];
    uint16_t exact[SYMBOLS], rounded[SYMBOLS];
};

/* Rounds all shares with this precision. False where the most frequent symbol, whose share is
 * `share`, gets too much or too little. */
static bool round_shares(struct shares *t, const struct pithi_rans_rounding *r, int share,
                         uint16_t frequency[SYMBOLS]) {
    int left = SLOTS;
    for (unsigned k = 0; k < t->kinds; k++) {
        t->rounded[k] = (uint16_t)pithi_rans_rounded(t->exact[k], r->precision);
        left -= t->rounded[k];
    }
    for (unsigned k = 0; k < t->kinds; k++) frequency[t->symbol[k]] = t->rounded[k];
    left += frequency[r->rest];
    frequency[r->rest] = (uint16_t)(left > 0 ? left : 1);
    return pithi_rans_fair(left, share);
}

/* Takes what is too much from the most frequent symbols, when rare ones have got more than their
 * shares. */
static void take_back(uint16_t frequency[SYMBOLS]) {
    int sum = 0;
    for (unsigned s = 0; s < SYMBOLS; s++) sum += frequency[s];
    while (sum != SLOTS) {
        unsigned most = 0;
        for (unsigned s = 0; s < SYMBOLS; s++)
            if (frequency[s] > frequency[most]) most = s;
        const int over = sum - SLOTS, step = frequency[most] / 8 + 1;
        const int taken = over < step ? over : step;
        frequency[most] = (uint16_t)(frequency[most] - taken);
        sum -= taken;
    }
}

/* Whether any of a part of all symbols occurs: of short strings few do. */
enum { PART = 8 };
static bool occur(const uint32_t counts[PART]) {
    uint32_t any = 0;
    for (unsigned k = 0; k < PART; k++) any |= counts[k];
    return any;
}

/* Chooses frequencies for counts of n symbols, and says which occur. */
static struct pithi_rans_rounding frequencies_of(struct shares *t, const uint32_t counts[SYMBOLS],
                                                 size_t n, uint16_t frequency[SYMBOLS]) {
    struct pithi_rans_rounding r = {.precision = pithi_rans_precision(n)};
    t->kinds = 0;
    /* Of powers of two, as strings of whole blocks are, a shift divides in much less time. */
    const unsigned log2_n = n & (n - 1) || n > UINT32_MAX ? 0 : pithi_bit_length((uint32_t)n) - 1;
    memset(frequency, 0, SYMBOLS * sizeof *frequency);
    for (unsigned part = 0; part < SYMBOLS; part += PART) {
        if (!occur(counts + part)) continue;
        for (unsigned s = part; s < part + PART; s++) {
            if (!counts[s]) continue;
            t->exact[t->kinds] = (uint16_t)(log2_n ? ((uint64_t)counts[s] * SLOTS + n / 2) >> log2_n
                                                   : pithi_rans_exact(counts[s], n));
            t->symbol[t->kinds++] = (uint8_t)s;
            if (counts[s] > counts[r.rest]) r.rest = s;
        }
    }
    r.kinds = t->kinds;
    if (r.kinds < 2) return r;
    const int share = (int)((uint64_t)counts[r.rest] * SLOTS / n);
    for (const unsigned end = r.precision + PITHI_RANS_PRECISIONS; r.precision < end; r.precision++)
        if (round_shares(t, &r, share, frequency)) return r;
    r.precision = PITHI_RANS_PRECISION_ALL;
    if (!round_shares(t, &r, share, frequency)) take_back(frequency);
    return r;
}

/* Finds what the symbols that occur cost. A logarithm takes a while, but of frequencies of up to
 * five significant bits, which most are, it is known. */
static void costs_of(const struct shares *t, const uint16_t frequency[SYMBOLS],
                     uint16_t cost[SYMBOLS]) {
    enum { SMALL_BITS = 5 };
    static const uint16_t log[1 << SMALL_BITS] = {0,    0,    256,  405,  512,  594,  661,  718,
                                                  768,  811,  850,  885,  917,  947,  974,  1000,
                                                  1024, 1046, 1067, 1087, 1106, 1124, 1141, 1158,
                                                  1173, 1188, 1203, 1217, 1230, 1243, 1256, 1268};
    for (unsigned k = 0; k < t->kinds; k++) {
        const unsigned s = t->symbol[k], f = frequency[s], length = pithi_bit_length(f);
        const unsigned dropped = length > SMALL_BITS ? length - SMALL_BITS : 0;
        const bool known = f >> dropped << dropped == f;
        const uint32_t log_f = known ? log[f >> dropped] + 256 * dropped : pithi_log2_256(f);
        cost[s] = (uint16_t)(256 * LOG2_SLOTS - log_f);
    }
}

/* Returns the bits that pithi_rans_put_table takes for the length of a frequency. */
static unsigned length_bits(unsigned length, unsigned before) {
    const unsigned apart = length - before + 1; /* 0, 1, 2: by one at most */
    return apart > 2 ? 6 : apart == 1 ? 1 : 3;
}

/* Returns the bytes of the head and the table that pithi_rans_put_table writes. Between two symbols
 * that occur the first length 0 is told from the one before, and takes a bit after that. */
static size_t table_bytes(const struct shares *t, const struct pithi_rans_rounding *r,
                          const uint16_t frequency[SYMBOLS]) {
    unsigned before = PITHI_RANS_LENGTH_BEFORE, bits = 0;
    for (unsigned k = 0; k < t->kinds; k++) {
        const unsigned s = t->symbol[k], zeros = k ? s - t->symbol[k - 1] - 1 : 0;
        if (zeros) {
            bits += length_bits(0, before) + zeros - 1;
            before = 0;
        }
        if (s == r->rest) {
            bits += 6;
            continue;
        }
        const unsigned length = pithi_bit_length(frequency[s]);
        bits += length_bits(length, before) + pithi_rans_kept_bits(length, r->precision);
        before = length;
    }
    return PITHI_RANS_HEAD + (bits + 7) / 8;
}

/* ---- Strings ---------------------------------------------------------------------------------*/

size_t pithi_rans_plan(struct pithi_rans *m, pithi_symbol_count_fn *count, bool quick,
                       const uint8_t *src, size_t n) {
    (count ? count : pithi_symbol_count_c)(m->count, src, n);
    struct shares t;
    const struct pithi_rans_rounding r = frequencies_of(&t, m->count[0], n, m->frequency);
    if (r.kinds < 2) return SIZE_MAX;
    costs_of(&t, m->frequency, m->cost);
    uint64_t bits = 0; /* in 1/256 */
    for (unsigned k = 0; k < t.kinds; k++)
        bits += (uint64_t)m->count[0][t.symbol[k]] * m->cost[t.symbol[k]];
    m->rest = r.rest;
    m->precision = r.precision;
    m->states.log2 = pithi_rans_log2_states(n, bits >> 11, quick);
    m->table_bytes = table_bytes(&t, &r, m->frequency);
    return m->table_bytes + ((size_t)4 << m->states.log2) + (size_t)(bits >> 11);
}

size_t pithi_rans_pack(struct pithi_rans *m, pithi_rans_encode_fn *encode, const uint8_t *src,
                       size_t n, uint8_t *dst, size_t cap) {
    const size_t states = (size_t)1 << m->states.log2, head = m->table_bytes + 4 * states;
    const struct pithi_rans_rounding r = {.rest = m->rest, .precision = m->precision};
    if (cap < head) return 0;
    struct pithi_rans_space space = {dst + head, dst + cap};
    pithi_rans_encoder_of(&m->tables.encoder, m->frequency);
    for (size_t j = 0; j < states; j++) m->states.x[j] = PITHI_RANS_LOW;
    if (!encode(&m->tables.encoder, src, n, &m->states, &space)) return 0;
    pithi_rans_put_table(dst, &r, m->states.log2, m->frequency, SYMBOLS);
    for (size_t j = 0; j < states; j++) pithi_put32(dst + m->table_bytes + 4 * j, m->states.x[j]);
    const size_t words = (size_t)(dst + cap - space.end);
    memmove(dst + head, space.end, words);
    return head + words;
}

bool pithi_rans_unpack(struct pithi_rans *m, pithi_rans_decode_fn *decode, const uint8_t *src,
                       size_t length, uint8_t *dst, size_t n) {
    const uint8_t *const end = src + length;
    if (length < PITHI_RANS_HEAD) return false;
    m->states.log2 = src[0] & 15;
    if (m->states.log2 > PITHI_RANS_LOG2_STATES_MOST) return false;
    const size_t states = (size_t)1 << m->states.log2;
    memset(m->frequency, 0, sizeof m->frequency);
    const uint8_t *at = pithi_rans_take_table(src, end, m->frequency);
    if (!at || (size_t)(end - at) < 4 * states) return false;
    for (size_t j = 0; j < states; j++, at += 4) {
        m->states.x[j] = pithi_get32(at);
        if (m->states.x[j] < PITHI_RANS_LOW) return false;
    }
    struct pithi_rans_words words = {at, end};
    pithi_rans_decoder_of(&m->tables.decoder, m->frequency);
    if (!decode(&m->tables.decoder, &m->states, &words, dst, n) || words.at != end) return false;
    for (size_t j = 0; j < states; j++)
        if (m->states.x[j] != PITHI_RANS_LOW) return false;
    return true;
}
