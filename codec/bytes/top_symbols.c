/* top_symbols.c - which bits of floats are symbols, and loops over them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/top_symbols.h"

#include <string.h>

#include "bytes/top_choice.h"
#include "common/endian.h"

/* How many words are cut and joined together, so that they stay in the first-level cache. */
enum { CHUNK = 1024 };

/* What is counted of a sample: its tops of `bits` bits, of which the first and the last that occur
 * are known, and the second byte of words; and logarithms that were asked for, 0 those that were
 * not. */
enum { LOGS = 128 };
struct sample {
    unsigned bits, first, last;
    struct pithi_top_costs costs;
    uint32_t top[1 << PITHI_TOPS_LOG2], second[256];
    uint16_t log[LOGS];
};

#define WORD uint16_t
#define NAME(name) name##16
#include "bytes/top_word.h"
#define WORD uint32_t
#define NAME(name) name##32
#include "bytes/top_word.h"
#define WORD uint64_t
#define NAME(name) name##64
#include "bytes/top_word.h"

/* ---- Choice ----------------------------------------------------------------------------------*/

static void take_sample(struct sample *s, const void *words, unsigned width, size_t count) {
    const size_t step = (size_t)pithi_top_step(count);
    uint32_t total;
    memset(s->top, 0, sizeof *s->top << s->bits);
    memset(s->second, 0, sizeof s->second);
    memset(s->log, 0, sizeof s->log);
    switch (width) {
    case 2: total = count_tops16(s, words, count, step); break;
    case 4: total = count_tops32(s, words, count, step); break;
    default: total = count_tops64(s, words, count, step);
    }
    s->costs = pithi_top_costs_of(total, count);
    for (s->first = 0; !s->top[s->first];) s->first++;
    for (s->last = (1u << s->bits) - 1; !s->top[s->last];) s->last--;
}

/* Returns the cost of n symbols of one kind as pithi_top_cost_of does. Small numbers come again and
 * again, and a logarithm takes a while. */
static uint64_t cost_of(struct sample *s, uint32_t n) {
    if (!n || n >= LOGS) return pithi_top_cost_of(n, &s->costs);
    if (!s->log[n]) s->log[n] = (uint16_t)pithi_log2_256(n);
    return (uint64_t)n * (s->costs.log - s->log[n]) + s->costs.kind;
}

/* Returns the cost of the sample as bytes. */
static uint64_t bytes_cost(struct sample *s) {
    uint64_t cost = 0, second = 0;
    const unsigned group = 1u << (s->bits - 8);
    for (unsigned t = s->first / group * group; t <= s->last; t += group) {
        uint32_t n = 0;
        for (unsigned k = 0; k < group; k++) n += s->top[t + k];
        cost += cost_of(s, n);
    }
    for (unsigned b = 0; b < 256; b++) second += cost_of(s, s->second[b]);
    return pithi_top_bytes_cost(cost, second, &s->costs);
}

/* Returns the cost of the sample with tops of `bits` bits, and the base. */
static uint64_t top_cost(struct sample *s, unsigned bits, uint32_t *base) {
    const unsigned group = 1u << (s->bits - bits), end = s->last / group + 1;
    uint32_t above = 0, escapes = s->costs.total;
    unsigned last = end;
    while (last-- > 1) {
        for (unsigned k = 0; k < group; k++) above += s->top[last * group + k];
        if (above > s->costs.total / 256) break;
    }
    *base = pithi_top_base(last);
    uint64_t cost = 0;
    for (unsigned t = s->first / group; t < end; t++) {
        if (!pithi_top_has_symbol(t, *base)) continue;
        uint32_t n = 0;
        for (unsigned k = 0; k < group; k++) n += s->top[t * group + k];
        cost += cost_of(s, n);
        escapes -= n;
    }
    return pithi_top_cut_cost(cost, escapes, bits, &s->costs);
}

bool pithi_top_choose(struct pithi_top_choice *choice, const void *words, uint32_t dtype,
                      size_t count) {
    const unsigned exponent = pithi_top_exponent_bits(dtype);
    const unsigned width = (unsigned)pith_dtype_bytes(dtype);
    if (!exponent || count < PITHI_TOP_COUNT_LEAST) return false;
    struct sample s = {.bits = pithi_top_most_bits(exponent)};
    take_sample(&s, words, width, count);
    uint64_t cost[PITHI_TOPS_LOG2 + 1] = {0};
    uint32_t base[PITHI_TOPS_LOG2 + 1] = {0};
    for (unsigned bits = exponent; bits <= s.bits; bits++)
        cost[bits - exponent] = top_cost(&s, bits, &base[bits - exponent]);
    const uint64_t bytes = bytes_cost(&s);
    const unsigned chosen = pithi_top_bits(cost, bytes, exponent, s.bits, width, &s.costs);
    choice->pays = chosen;
    choice->top = (struct pithi_top){width, 8 * width - (chosen ? chosen : exponent),
                                     base[chosen ? chosen - exponent : 0]};
    const unsigned finer = pithi_top_finer(cost, bytes, exponent, s.bits, width, &s.costs);
    choice->finer = (struct pithi_top){width, 8 * width - finer, base[finer - exponent]};
    choice->finer_loss = pithi_top_loss(cost, bytes, exponent, s.bits, finer, count, &s.costs);
    return true;
}

/* ---- Cut and join ----------------------------------------------------------------------------*/

size_t pithi_top_cut_c(const struct pithi_top *top, const void *words, size_t count,
                       uint8_t *symbols, uint8_t *planes, uint8_t *bits, uint16_t *escapes) {
    size_t used = 0;
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < CHUNK ? count - at : CHUNK;
        switch (top->width) {
        case 2:
            cut16(top, (const uint16_t *)words + at, n, symbols + at, planes + at, count,
                  bits + at);
            used += escapes16(top, (const uint16_t *)words + at, n, symbols + at, escapes + used);
            break;
        case 4:
            cut32(top, (const uint32_t *)words + at, n, symbols + at, planes + at, count,
                  bits + at);
            used += escapes32(top, (const uint32_t *)words + at, n, symbols + at, escapes + used);
            break;
        default:
            cut64(top, (const uint64_t *)words + at, n, symbols + at, planes + at, count,
                  bits + at);
            used += escapes64(top, (const uint64_t *)words + at, n, symbols + at, escapes + used);
        }
    }
    memset(bits + count, 0, (8 - count % 8) % 8);
    return used;
}

size_t pithi_top_escapes(const uint8_t *symbols, size_t count) {
    enum { PART = 128 }; /* its count is a byte, so that vectors count many at once */
    size_t escapes = 0;
    for (; count >= PART; symbols += PART, count -= PART) {
        uint8_t part = 0;
        for (size_t i = 0; i < PART; i++) part = (uint8_t)(part + (symbols[i] == PITHI_TOP_ESCAPE));
        escapes += part;
    }
    for (size_t i = 0; i < count; i++) escapes += symbols[i] == PITHI_TOP_ESCAPE;
    return escapes;
}

bool pithi_top_fit(const struct pithi_top *top, const uint8_t *tops, size_t count) {
    unsigned all = 0;
    for (size_t i = 0; i < count; i++) all |= pithi_get16(tops + 2 * i);
    return all >> (8 * top->width - top->low) == 0;
}

void pithi_top_join_c(const struct pithi_top *top, void *values, size_t count,
                      const uint8_t *symbols, const uint8_t *const *planes, const uint8_t *string,
                      const uint8_t *escapes) {
    const unsigned rest = top->low % 8;
    uint8_t bits[CHUNK];
    for (size_t at = 0, n; at < count; at += n) {
        const uint8_t *const s = symbols + at;
        n = count - at < CHUNK ? count - at : CHUNK;
        if (rest) pithi_top_unpack(bits, string + at / 8 * rest, rest, n);
        switch (top->width) {
        case 2:
            escapes = join16(top, (uint8_t *)values + 2 * at, n, s, planes, at, bits, escapes);
            break;
        case 4:
            escapes = join32(top, (uint8_t *)values + 4 * at, n, s, planes, at, bits, escapes);
            break;
        default: escapes = join64(top, (uint8_t *)values + 8 * at, n, s, planes, at, bits, escapes);
        }
    }
}

/* ---- Bits --------------------------------------------------------------------------------------
 * Eight numbers of a width below 8, one to a byte, move together in three steps: pairs, pairs of
 * pairs, then the halves. */

struct steps {
    unsigned gap;
    uint64_t low[3], high[3]; /* the bits of the lower and, together, the higher of two */
};

static uint64_t repeated(unsigned bits, unsigned every) {
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (unsigned at = every; at < 64; at *= 2) mask |= mask << at;
    return mask;
}

static struct steps steps_of(unsigned width) {
    struct steps t = {.gap = 8 - width};
    for (unsigned k = 0; k < 3; k++) {
        t.low[k] = repeated(width << k, 16u << k);
        t.high[k] = t.low[k] << (width << k);
    }
    return t;
}

void pithi_top_pack(uint8_t *string, const uint8_t *bits, unsigned width, size_t count) {
    const struct steps t = steps_of(width);
    for (size_t i = 0; i < count; i += 8, string += width) {
        uint64_t x = pithi_get64(bits + i);
        x = (x & t.low[0]) | (x >> t.gap & t.high[0]);
        x = (x & t.low[1]) | (x >> 2 * t.gap & t.high[1]);
        pithi_put64(string, (x & t.low[2]) | (x >> 4 * t.gap & t.high[2]));
    }
}

static uint64_t apart(uint64_t x, const struct steps *t) {
    x = (x & t->low[2]) | (x & t->high[2]) << 4 * t->gap;
    x = (x & t->low[1]) | (x & t->high[1]) << 2 * t->gap;
    return (x & t->low[0]) | (x & t->high[0]) << t->gap;
}

void pithi_top_unpack(uint8_t *bits, const uint8_t *string, unsigned width, size_t count) {
    const struct steps t = steps_of(width);
    size_t i = 0;
    for (; i + 64 < count; i += 8, string += width) /* eight bytes are there to be read */
        pithi_put64(bits + i, apart(pithi_get64(string), &t));
    for (; i < count; i += 8, string += width) {
        uint64_t x = 0;
        memcpy(&x, string, width);
        pithi_put64(bits + i, apart(x, &t));
    }
}
