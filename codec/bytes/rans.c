/* rans.c - frequencies, tables and the reference loops of rANS strings.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/rans.h"

#include <string.h>

#include "common/endian.h"
#include "common/log2.h"

enum { SLOTS = PITHI_RANS_SLOTS, LOG2_SLOTS = PITHI_RANS_LOG2_SLOTS, SYMBOLS = 256 };
enum { LOG2_BUCKETS_LEAST = 5 };
/* Bytes before the table of frequencies: the number of states and the precision, the first symbol,
 * the last. */
enum { HEAD = 3 };

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

/* Both loops renormalise without a branch, which nobody could predict: a word is stored, or read,
 * whether or not it counts, in parts for which there is space, or words, in any case. */

static uint32_t encode_one(const struct pithi_rans_encoder *t, unsigned s, uint32_t x,
                           uint8_t **end) {
    const uint32_t f = t->frequency[s];
    const uint32_t high = (x >> (32 - LOG2_SLOTS)) >= f;
    pithi_put16(*end - 2, (uint16_t)x);
    *end -= 2 * high;
    x >>= 16 * high;
    return x / f << LOG2_SLOTS | t->slot[t->start[s] + x % f];
}

uint8_t *pithi_rans_encode_c(const struct pithi_rans_encoder *t, const uint8_t *src, size_t n,
                             unsigned log2_states, uint32_t *state, uint8_t *begin, uint8_t *end) {
    const size_t mask = ((size_t)1 << log2_states) - 1;
    while (n) {
        size_t part = (size_t)(end - begin) / 2;
        if (part == 0) {
            /* No word more: the rest fits only if every state takes its symbols as it is. */
            const uint32_t x = state[--n & mask], f = t->frequency[src[n]];
            if ((x >> (32 - LOG2_SLOTS)) >= f) return NULL;
            state[n & mask] = x / f << LOG2_SLOTS | t->slot[t->start[src[n]] + x % f];
        }
        for (part = part < n ? part : n; part; part--) {
            n--;
            state[n & mask] = encode_one(t, src[n], state[n & mask], &end);
        }
    }
    return end;
}

/* What a state becomes by its next symbol, which is stored; it may have to be renormalised. */
static inline uint32_t step(const struct pithi_rans_decoder *t, uint32_t x, uint8_t *symbol) {
    const unsigned slot = x & (SLOTS - 1);
    const struct pithi_rans_bucket *const b = &t->bucket[slot >> t->log2_width];
    const unsigned k = (slot & ((1u << t->log2_width) - 1)) >= b->split;
    *symbol = b->symbol[k];
    return b->frequency[k] * (x >> LOG2_SLOTS) + (uint16_t)(slot + b->bias[k]);
}

const uint8_t *pithi_rans_decode_c(const struct pithi_rans_decoder *t, uint32_t *state,
                                   unsigned log2_states, const uint8_t *words, const uint8_t *end,
                                   uint8_t *dst, size_t n) {
    const size_t mask = ((size_t)1 << log2_states) - 1;
    size_t i = 0;
    while (i < n) {
        size_t part = (size_t)(end - words) / 2;
        if (part == 0) {
            const uint32_t x = step(t, state[i & mask], dst + i);
            if (x < PITHI_RANS_LOW) return NULL;
            state[i++ & mask] = x;
        }
        for (part = part < n - i ? part : n - i; part; part--, i++) {
            const uint32_t x = step(t, state[i & mask], dst + i);
            const uint32_t low = x < PITHI_RANS_LOW;
            state[i & mask] = x << 16 * low | (pithi_get16(words) & (0u - low));
            words += 2 * low;
        }
    }
    return words;
}

/* ---- Frequencies -----------------------------------------------------------------------------*/

/* Counts symbols in several tables: neighbours are often alike, and a counter waits for itself.
 * The first one gets the sums. */
static void count(uint32_t table[PITHI_RANS_TABLES][SYMBOLS], const uint8_t *src, size_t n) {
    enum { TABLES = PITHI_RANS_TABLES };
    memset(table, 0, TABLES * sizeof table[0]);
    size_t i = 0;
    for (; i + TABLES <= n; i += TABLES)
        for (unsigned k = 0; k < TABLES; k++) table[k][src[i + k]]++;
    for (; i < n; i++) table[0][src[i]]++;
    for (unsigned k = 1; k < TABLES; k++)
        for (unsigned s = 0; s < SYMBOLS; s++) table[0][s] += table[k][s];
}

/* ---- Table of frequencies --------------------------------------------------------------------
 * A bit string, least significant bit first: for each symbol from the first to the last the bit
 * length of its frequency, told from the one before, and as many bits below its highest as the
 * precision says. Bits of a frequency below these are 0, but for one symbol that has what is left
 * of the slots: `rest`. */

enum { LENGTH_BEFORE = 0, LENGTH_REST = 15, PRECISION_ALL = 11 };

static unsigned kept_bits(unsigned length, unsigned precision) {
    return length > precision + 1 ? precision : length ? length - 1 : 0;
}

/* Returns the number of slots of a symbol: rounded, of at most 1 + precision significant bits, and
 * at least 1 of what occurs. */
static unsigned rounded(uint64_t counted, size_t n, unsigned precision) {
    const uint32_t exact = (uint32_t)((counted * SLOTS + n / 2) / n);
    const unsigned length = pithi_bit_length(exact);
    if (length <= precision + 1) return exact + (exact == 0 && counted);
    const unsigned dropped = length - 1 - precision;
    return (exact + (1u << (dropped - 1))) >> dropped << dropped;
}

/* What of a frequency table follows from the counts; the most frequent symbol gets the rest. */
struct rounding {
    unsigned kinds, rest, precision;
};

/* Rounds all counts with this precision. False where what the most frequent symbol gets differs
 * from its share by more than 1/16 of that. */
static bool round_counts(struct rounding *r, const uint32_t counts[SYMBOLS], size_t n,
                         uint16_t frequency[SYMBOLS]) {
    int left = SLOTS;
    for (unsigned s = 0; s < SYMBOLS; s++) {
        frequency[s] = counts[s] ? (uint16_t)rounded(counts[s], n, r->precision) : 0;
        if (s != r->rest) left -= frequency[s];
    }
    const int share = (int)((uint64_t)counts[r->rest] * SLOTS / n);
    frequency[r->rest] = (uint16_t)(left > 0 ? left : 1);
    return left > 0 && left <= share + share / 16 + 1 && left >= share - share / 16 - 1;
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

/* Chooses frequencies for counts of n symbols. Few symbols do not pay for a fine table. */
static struct rounding frequencies_of(const uint32_t counts[SYMBOLS], size_t n,
                                      uint16_t frequency[SYMBOLS]) {
    struct rounding r = {.precision = n < 1 << 12 ? 1 : n < 1 << 15 ? 2 : 3};
    for (unsigned s = 0; s < SYMBOLS; s++) {
        r.kinds += counts[s] > 0;
        if (counts[s] > counts[r.rest]) r.rest = s;
    }
    if (r.kinds < 2) return r;
    for (const unsigned end = r.precision + 3; r.precision < end; r.precision++)
        if (round_counts(&r, counts, n, frequency)) return r;
    r.precision = PRECISION_ALL;
    if (!round_counts(&r, counts, n, frequency)) take_back(frequency);
    return r;
}

struct bits {
    uint8_t *at;
    uint32_t held;
    unsigned count;
};

static void put_bits(struct bits *b, uint32_t value, unsigned count) {
    b->held |= value << b->count;
    for (b->count += count; b->count >= 8; b->count -= 8, b->held >>= 8)
        *b->at++ = (uint8_t)b->held;
}

static unsigned first_of(const uint16_t *frequency) {
    unsigned s = 0;
    while (!frequency[s]) s++;
    return s;
}

static unsigned last_of(const uint16_t *frequency) {
    unsigned s = SYMBOLS - 1;
    while (!frequency[s]) s--;
    return s;
}

/* Writes the table; returns what follows it. */
static uint8_t *put_table(uint8_t *at, const struct rounding *r, const uint16_t *frequency) {
    struct bits b = {.at = at};
    unsigned before = LENGTH_BEFORE;
    for (unsigned s = first_of(frequency), last = last_of(frequency); s <= last; s++) {
        if (s == r->rest) {
            put_bits(&b, 3 | LENGTH_REST << 2, 6);
            continue;
        }
        const unsigned f = frequency[s], length = pithi_bit_length(f);
        if (length == before)
            put_bits(&b, 0, 1);
        else if (length + 1 == before || length == before + 1)
            put_bits(&b, 1 | (length > before ? 4u : 0u), 3);
        else
            put_bits(&b, 3 | length << 2, 6);
        before = length;
        const unsigned kept = kept_bits(length, r->precision);
        if (kept) put_bits(&b, f >> (length - 1 - kept) & ((1u << kept) - 1), kept);
    }
    if (b.count) *b.at++ = (uint8_t)b.held;
    return b.at;
}

struct bit_reader {
    const uint8_t *at, *end;
    uint32_t held;
    unsigned count;
    bool short_of;
};

static uint32_t take_bits(struct bit_reader *b, unsigned count) {
    for (; b->count < count; b->count += 8) {
        if (b->at == b->end)
            b->short_of = true;
        else
            b->held |= (uint32_t)*b->at++ << b->count;
    }
    const uint32_t value = b->held & ((1u << count) - 1);
    b->held >>= count;
    b->count -= count;
    return value;
}

static unsigned take_length(struct bit_reader *b, unsigned before) {
    if (!take_bits(b, 1)) return before;
    if (take_bits(b, 1)) return take_bits(b, 4);
    return take_bits(b, 1) ? before + 1 : before - 1;
}

/* Reads a table and returns what follows it; NULL when it is damaged. */
static const uint8_t *take_table(const uint8_t *at, const uint8_t *end, unsigned precision,
                                 unsigned first, unsigned last, uint16_t frequency[SYMBOLS]) {
    struct bit_reader b = {.at = at, .end = end};
    unsigned before = LENGTH_BEFORE, sum = 0, rest = SYMBOLS;
    if (first >= last || precision > PRECISION_ALL) return NULL;
    memset(frequency, 0, SYMBOLS * sizeof *frequency);
    for (unsigned s = first; s <= last; s++) {
        const unsigned length = take_length(&b, before);
        if (length == LENGTH_REST) {
            if (rest < SYMBOLS) return NULL;
            rest = s;
            continue;
        }
        if (length > LOG2_SLOTS) return NULL;
        before = length;
        if (!length) continue;
        const unsigned kept = kept_bits(length, precision);
        frequency[s] = (uint16_t)((1u << kept | take_bits(&b, kept)) << (length - 1 - kept));
        sum += frequency[s];
    }
    if (b.short_of || b.held || rest == SYMBOLS || sum >= SLOTS || !sum) return NULL;
    frequency[rest] = (uint16_t)(SLOTS - sum);
    return frequency[first] && frequency[last] ? b.at : NULL;
}

/* ---- Strings ---------------------------------------------------------------------------------*/

/* More states are faster, and each takes three bytes more than what it carries: at most one in a
 * hundred of a string. Vectors are for 8 and more. */
static unsigned log2_states(size_t n) {
    return n >= 1 << 16 ? 6 : n >= 1 << 14 ? 5 : n >= 1 << 13 ? 3 : 1;
}

size_t pithi_rans_plan(struct pithi_rans *m, const uint8_t *src, size_t n) {
    count(m->count, src, n);
    const struct rounding r = frequencies_of(m->count[0], n, m->frequency);
    if (r.kinds < 2) return SIZE_MAX;
    uint64_t bits = 0; /* in 1/256 */
    for (unsigned s = 0; s < SYMBOLS; s++)
        if (m->frequency[s])
            bits += m->count[0][s] * (uint64_t)(256 * LOG2_SLOTS - pithi_log2_256(m->frequency[s]));
    m->log2_states = log2_states(n);
    m->table[0] = (uint8_t)(m->log2_states | r.precision << 4);
    m->table[1] = (uint8_t)first_of(m->frequency);
    m->table[2] = (uint8_t)last_of(m->frequency);
    m->table_bytes = (size_t)(put_table(m->table + HEAD, &r, m->frequency) - m->table);
    return m->table_bytes + ((size_t)4 << m->log2_states) + (size_t)(bits >> 11);
}

size_t pithi_rans_pack(struct pithi_rans *m, pithi_rans_encode_fn *encode, const uint8_t *src,
                       size_t n, uint8_t *dst, size_t cap) {
    const size_t states = (size_t)1 << m->log2_states, head = m->table_bytes + 4 * states;
    if (cap < head) return 0;
    pithi_rans_encoder_of(&m->tables.encoder, m->frequency);
    for (size_t j = 0; j < states; j++) m->state[j] = PITHI_RANS_LOW;
    uint8_t *const end = dst + cap;
    const uint8_t *const words =
        encode(&m->tables.encoder, src, n, m->log2_states, m->state, dst + head, end);
    if (!words) return 0;
    memcpy(dst, m->table, m->table_bytes);
    for (size_t j = 0; j < states; j++) pithi_put32(dst + m->table_bytes + 4 * j, m->state[j]);
    memmove(dst + head, words, (size_t)(end - words));
    return head + (size_t)(end - words);
}

bool pithi_rans_unpack(struct pithi_rans *m, pithi_rans_decode_fn *decode, const uint8_t *src,
                       size_t length, uint8_t *dst, size_t n) {
    const uint8_t *const end = src + length;
    if (length < HEAD) return false;
    const unsigned k = src[0] & 15;
    const size_t states = (size_t)1 << k;
    if (k > PITHI_RANS_LOG2_STATES_MOST) return false;
    const uint8_t *at = take_table(src + HEAD, end, src[0] >> 4, src[1], src[2], m->frequency);
    if (!at || (size_t)(end - at) < 4 * states) return false;
    for (size_t j = 0; j < states; j++, at += 4) {
        m->state[j] = pithi_get32(at);
        if (m->state[j] < PITHI_RANS_LOW) return false;
    }
    pithi_rans_decoder_of(&m->tables.decoder, m->frequency);
    if (decode(&m->tables.decoder, m->state, k, at, end, dst, n) != end) return false;
    for (size_t j = 0; j < states; j++)
        if (m->state[j] != PITHI_RANS_LOW) return false;
    return true;
}
