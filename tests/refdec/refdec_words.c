/* refdec_words.c - what blocks of codecs 5 to 7 are made of: exact values, words, what codes mean.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "refdec.h"

bool ref_bit(const uint8_t *bytes, uint64_t i) { return bytes[i / 8] >> (i % 8) & 1; }

/* ---- Exact values ----------------------------------------------------------------------------*/

bool ref_take_exact(struct ref_reader *r, const struct ref_block *b, struct ref_exact *e) {
    const uint8_t *head;
    const uint64_t c = b->count, bitmap = (c + 7) / 8;
    if (!ref_take(r, 4, &head)) return false;
    e->number = ref_le(head, 4);
    if (e->number > c) return false;
    if (e->number == 0) return true;
    e->listed = e->number <= bitmap / 4;
    if (!ref_take(r, e->listed ? 4 * e->number : bitmap, &e->which)) return false;
    if (!ref_take(r, e->number * ref_dtype_bytes(b->frame->dtype), &e->values)) return false;
    uint64_t ones = 0;
    for (uint64_t i = 0; e->listed && i < e->number; i++) {
        const uint64_t at = ref_le(e->which + 4 * i, 4);
        if (at >= c || (i && at <= ref_le(e->which + 4 * i - 4, 4))) return false;
    }
    for (uint64_t i = 0; !e->listed && i < 8 * bitmap; i++) {
        if (ref_bit(e->which, i) && i >= c) return false;
        ones += ref_bit(e->which, i);
    }
    if (!e->listed && ones != e->number) return false;
    return true;
}

void ref_put_exact(const struct ref_block *b, const struct ref_exact *e) {
    const unsigned bytes = ref_dtype_bytes(b->frame->dtype);
    uint64_t next = 0;
    for (uint64_t i = 0; i < b->count && next < e->number; i++) {
        const bool here = e->listed ? ref_le(e->which + 4 * next, 4) == i : ref_bit(e->which, i);
        if (here) memcpy(b->out + i * bytes, e->values + next++ * bytes, bytes);
    }
}

/* ---- Words -----------------------------------------------------------------------------------*/

int32_t ref_number(uint32_t word) {
    const uint32_t u = word & 1 ? ~(word >> 1) : word >> 1;
    return (int32_t)u;
}

/* Sixteen words of w planes; words past n are ignored. */
static bool planes(struct ref_reader *r, unsigned w, uint64_t first, uint64_t n, uint32_t *words) {
    const uint8_t *bytes;
    if (!ref_take(r, 2 * w, &bytes)) return false;
    for (uint64_t i = 0; i < 16 && first + i < n; i++) {
        words[first + i] = 0;
        for (unsigned k = 0; k < w; k++)
            words[first + i] |= (uint32_t)ref_bit(bytes + 2 * k, i) << k;
    }
    return true;
}

bool ref_packed(struct ref_reader *r, uint64_t n, uint32_t *words) {
    const uint64_t groups = (n + 15) / 16;
    const uint8_t *table, *which;
    if (!ref_take(r, 4, &table) || !ref_take(r, (groups + 3) / 4, &which)) return false;
    for (int i = 0; i < 4; i++)
        if (table[i] > 32 || (i && table[i] < table[i - 1])) return false;
    for (uint64_t i = 2 * groups; i % 8; i++)
        if (ref_bit(which, i)) return false;
    for (uint64_t g = 0; g < groups; g++)
        if (!planes(r, table[which[g / 4] >> (2 * (g % 4)) & 3], 16 * g, n, words)) return false;
    return true;
}

/* The symbols of a sparse string, from gaps and others. */
static bool join(const uint8_t *gaps, uint64_t g, const uint8_t *others, uint64_t m, uint64_t n,
                 uint8_t *symbols) {
    uint64_t at = 0, next = 0, zeros = 0;
    memset(symbols, 0, n);
    for (uint64_t i = 0; i < g; i++) {
        zeros += gaps[i];
        if (gaps[i] == 255) {
            if (i + 1 == g) return false;
            continue;
        }
        if (next == m || zeros > n || at + zeros >= n) return false;
        at += zeros;
        symbols[at++] = others[next++];
        zeros = 0;
    }
    return next == m;
}

static bool sparse(struct ref_reader *r, uint64_t n, uint8_t *symbols) {
    const uint8_t *head;
    if (!ref_take(r, 8, &head)) return false;
    const uint64_t g = ref_le(head, 4), m = ref_le(head + 4, 4);
    if (g > n || m > n) return false;
    uint8_t *const gaps = malloc(g + 1), *const others = malloc(m + 1);
    const bool good = gaps && others && (!g || ref_piece(r, g, gaps)) &&
                      (!m || ref_piece(r, m, others)) && join(gaps, g, others, m, n, symbols);
    free(gaps);
    free(others);
    return good;
}

static bool escapes(struct ref_reader *r, unsigned k, uint64_t e, uint64_t n,
                    const uint8_t *symbols, uint32_t *words) {
    const uint8_t *bytes;
    uint64_t next = 0;
    for (uint64_t i = 0; i < n; i++) next += symbols[i] == 255;
    if (next != e || !ref_take(r, 4 * e, &bytes)) return false;
    next = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t z = symbols[i];
        if (z == 255) z += (uint32_t)ref_le(bytes + 4 * next++, 4);
        words[i] += z << k;
    }
    return true;
}

bool ref_coded(struct ref_reader *r, uint64_t n, uint32_t *words) {
    const uint8_t *head;
    if (!ref_take(r, 8, &head)) return false;
    const unsigned k = head[0], form = head[1];
    if (k > 24 || form > 1 || head[2] || head[3]) return false;
    for (uint64_t i = 0; i < n; i += 16)
        if (!planes(r, k, i, n, words)) return false;
    uint8_t *const symbols = malloc(n);
    const bool good = symbols && (form ? sparse(r, n, symbols) : ref_piece(r, n, symbols)) &&
                      escapes(r, k, ref_le(head + 4, 4), n, symbols, words);
    free(symbols);
    return good;
}

/* ---- What codes mean -------------------------------------------------------------------------*/

static unsigned mantissa_of(unsigned dtype) {
    static const unsigned bits[5] = {0, 23, 7, 10, 52};
    return bits[dtype];
}

static void put(uint8_t *out, uint64_t value, unsigned bytes) {
    for (unsigned t = 0; t < bytes; t++, value >>= 8) out[t] = (uint8_t)value;
}

static uint64_t relative(const struct ref_frame *f, int32_t code) {
    const unsigned bits = 8 * ref_dtype_bytes(f->dtype), mantissa = mantissa_of(f->dtype);
    const uint64_t sign = UINT64_C(1) << (bits - 1);
    const uint64_t infinity = (sign - 1) >> mantissa << mantissa;
    const uint64_t half = (uint64_t)floor(ldexp(f->bound, (int)mantissa)), width = 2 * half + 1;
    const uint64_t q = code < 0 ? (uint64_t) - (int64_t)code : (uint64_t)code;
    const uint64_t u = q && width > (infinity - 1) / q ? infinity - 1 : q * width;
    return code < 0 ? u | sign : u;
}

void ref_put_value(const struct ref_frame *f, int32_t code, uint8_t *out, uint64_t i) {
    const unsigned bytes = ref_dtype_bytes(f->dtype);
    if (f->bound_kind == 2) {
        put(out + i * bytes, relative(f, code), bytes);
    } else if (f->dtype == F64) {
        double x = (double)code * (2 * f->bound);
        uint64_t u;
        if (!isfinite(x)) x = code < 0 ? -DBL_MAX : DBL_MAX;
        memcpy(&u, &x, 8);
        put(out + 8 * i, u, 8);
    } else {
        const float step = 2 * (float)f->bound, x = (float)code * step;
        static const uint32_t most[4] = {0, 0x7F7FFFFFu, 0x7F7F0000u, 0x477FE000u};
        uint32_t u = ref_as_bits(x);
        if ((u & 0x7FFFFFFFu) > most[f->dtype]) u = (u & 0x80000000u) | most[f->dtype];
        ref_store(out, i, f->dtype, u);
    }
}

/* ---- rANS strings ----------------------------------------------------------------------------*/

/* A bit string, least significant bit first, with as many zeros as wanted behind it. */
struct bit_string {
    const uint8_t *bytes;
    size_t bits, at;
};

static unsigned take_number(struct bit_string *s, unsigned count) {
    unsigned number = 0;
    for (unsigned k = 0; k < count; k++, s->at++) {
        const bool good = s->at < s->bits;
        if (good) number |= (unsigned)ref_bit(s->bytes, s->at) << k;
    }
    return number;
}

static unsigned take_length(struct bit_string *s, unsigned before) {
    if (take_number(s, 1) == 0) return before;
    if (take_number(s, 1) == 1) return take_number(s, 4);
    return take_number(s, 1) ? before + 1 : before - 1;
}

/* The frequencies of symbols a to z, and how many bytes their table has. */
static bool read_frequencies(const uint8_t *bytes, size_t length, unsigned p, unsigned a,
                             unsigned z, unsigned *f, size_t *table) {
    struct bit_string s = {bytes, 8 * length, 0};
    unsigned before = 0, sum = 0, rests = 0, rest = 0;
    for (unsigned symbol = a; symbol <= z; symbol++) {
        const unsigned l = take_length(&s, before);
        if (l == 15) {
            rests++;
            rest = symbol;
            continue;
        }
        if (l > 12) return false;
        before = l;
        if (l == 0) continue;
        const unsigned kept = l - 1 < p ? l - 1 : p;
        f[symbol] = (1u << kept) + take_number(&s, kept);
        f[symbol] <<= l - 1 - kept;
        sum += f[symbol];
    }
    *table = (s.at + 7) / 8;
    if (s.at > s.bits || rests != 1 || sum == 0 || sum > 4095) return false;
    f[rest] = 4096 - sum;
    bool good = f[a] && f[z];
    for (size_t i = s.at; i % 8; i++) good = good && !ref_bit(bytes, i);
    return good;
}

/* The first symbol from s on that has slots, and a bucket of w slots or more, or fewer; 256: none.
 * */
static unsigned find_symbol(const unsigned *f, unsigned s, unsigned w, bool main) {
    while (s < 256 && (f[s] == 0 || (f[s] >= w) != main)) s++;
    return s;
}

/* To which symbol each slot belongs. */
static void fill_slots(const unsigned *f, uint8_t *symbol) {
    unsigned kinds = 0, buckets = 32;
    for (unsigned s = 0; s < 256; s++) kinds += f[s] > 0;
    while (buckets < kinds) buckets *= 2;
    const unsigned w = 4096 / buckets;
    unsigned main = find_symbol(f, 0, w, true), rare = find_symbol(f, 0, w, false);
    unsigned left = f[main];
    for (unsigned t = 0; t < 4096; t += w) {
        const unsigned others = left >= w && rare < 256 ? f[rare] : 0;
        for (unsigned i = 0; i < w - others; i++) {
            symbol[t + i] = (uint8_t)main;
            if (--left) continue;
            main = find_symbol(f, main + 1, w, true);
            left = main < 256 ? f[main] : 0;
        }
        for (unsigned i = w - others; i < w; i++) symbol[t + i] = (uint8_t)rare;
        if (others) rare = find_symbol(f, rare + 1, w, false);
    }
}

bool ref_rans(const uint8_t *bytes, size_t length, uint8_t *out, size_t n) {
    unsigned f[256] = {0}, k[4096], seen[256] = {0};
    uint8_t symbol[4096];
    uint32_t x[128];
    if (length < 3) return false;
    const unsigned log2 = bytes[0] & 15, p = bytes[0] >> 4;
    if (log2 > 7 || p > 11 || bytes[1] >= bytes[2]) return false;
    const size_t states = (size_t)1 << log2;
    size_t table;
    if (!read_frequencies(bytes + 3, length - 3, p, bytes[1], bytes[2], f, &table)) return false;
    if (length - 3 - table < 4 * states) return false;
    fill_slots(f, symbol);
    for (unsigned t = 0; t < 4096; t++) k[t] = seen[symbol[t]]++;
    const uint8_t *at = bytes + 3 + table, *const end = bytes + length;
    for (size_t j = 0; j < states; j++, at += 4) {
        x[j] = (uint32_t)ref_le(at, 4);
        if (x[j] < 65536) return false;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t *const state = &x[i % states];
        const unsigned t = *state % 4096;
        out[i] = symbol[t];
        *state = f[out[i]] * (*state / 4096) + k[t];
        if (*state >= 65536) continue;
        if (end - at < 2) return false;
        *state = *state * 65536 + (uint32_t)ref_le(at, 2);
        at += 2;
    }
    for (size_t j = 0; j < states; j++)
        if (x[j] != 65536) return false;
    REF_CASE("states of rANS strings", 0xA, log2);
    return at == end;
}

bool ref_coded_codes(struct ref_reader *r, uint64_t n, uint64_t m, unsigned w, uint8_t *codes) {
    const uint64_t each = n / m, string = (each * w + 7) / 8;
    const uint8_t *kind, *bytes, *u24;
    if (!ref_take(r, 1, &kind)) return false;
    if (*kind != 0 && *kind != 1 && *kind != 4) return false;
    REF_CASE("kinds of entropy-coded codes", 0x13, *kind);
    if (*kind == 0) {
        if (!ref_take(r, m * string, &bytes)) return false;
        for (uint64_t i = 0; i < n; i++)
            codes[i] = (uint8_t)ref_code_at(bytes + i / each * string, i % each, w);
    } else if (*kind == 1) {
        if (!ref_take(r, 1, &bytes)) return false;
        memset(codes, *bytes, n);
    } else {
        if (!ref_take(r, 3, &u24) || !ref_take(r, ref_le(u24, 3), &bytes)) return false;
        if (!ref_rans(bytes, ref_le(u24, 3), codes, n)) return false;
    }
    for (uint64_t i = 0; i < n; i++)
        if (codes[i] >> w) return false;
    return true;
}
