/* piece.c - choose, write and read the five kinds of pieces.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/piece.h"

#include <stdlib.h>
#include <string.h>

#include "bytes/entropy.h"
#include "common/endian.h"
#include "common/log2.h"

enum { PLAIN = 0, CONSTANT = 1, CODED = 2, SPARSE = 3, RANS = 4 };
/* A sparse piece has SPARSE_MIN bytes at least, so that bitmaps of bitmaps end: 2^24 / 8^7 < 64. No
 * string of two kinds of bytes is coded in less than CODED_LEAST: one of zstd has the heads of a
 * frame and of a block, 5 bytes, two literals with their head, 3, and a sequence with its head, 5;
 * one of rANS its head, 3, a table of 9 bits and two states, 8. */
enum { CODED_HEAD = 4, CODED_LEAST = 13, SPARSE_MIN = 64 };

/* ---- Memory: the bytes of one sparse piece, its bitmaps one inside the other -----------------*/

static size_t padded(size_t bytes) { return (bytes + 63) & ~(size_t)63; }
static size_t bitmap_bytes(size_t n) { return (n + 7) / 8; }

/* Returns the bytes of a bitmap of b = ceil(n / 8) bytes and of all bitmaps inside it: b + (b/8 +
 * 1) + ... <= n/7 + 8. */
static size_t bitmaps_bytes(size_t n) { return padded(n / 7 + 16); }

size_t pithi_piece_scratch(size_t max_bytes) {
    return padded(max_bytes + 8) + bitmaps_bytes(max_bytes);
}

size_t pithi_piece_take_scratch(size_t max_bytes) { return bitmaps_bytes(max_bytes); }

struct parts {
    uint8_t *bytes, *bitmap;
};

static struct parts parts_of(void *scratch, size_t max_bytes) {
    struct parts p = {.bytes = scratch};
    p.bitmap = p.bytes + padded(max_bytes + 8);
    return p;
}

/* ---- Write -----------------------------------------------------------------------------------*/

bool pithi_pen_put(struct pithi_pen *pen, const uint8_t *src, size_t bytes) {
    if (bytes > pen->capacity) return false;
    memcpy(pen->at, src, bytes);
    pen->at += bytes;
    pen->capacity -= bytes;
    return true;
}

/* Counts the bytes that are not 0, or stops and returns some number above `most`. */
static size_t nonzero(const uint8_t *src, size_t n, size_t most) {
    enum { PART = 128 }; /* its count is a byte, so that vectors count many at once */
    size_t count = 0;
    for (; n >= PART && count <= most; src += PART, n -= PART) {
        uint8_t part = 0;
        for (size_t i = 0; i < PART; i++) part = (uint8_t)(part + (src[i] != 0));
        count += part;
    }
    for (size_t i = 0; i < n && count <= most; i++) count += src[i] != 0;
    return count;
}

/* Returns a bit for each byte of x that is not 0. */
static unsigned nonzero_bits(uint64_t x) {
    const uint64_t low = UINT64_C(0x7F7F7F7F7F7F7F7F);
    const uint64_t ones = ((((x & low) + low) | x) & ~low) >> 7;
    /* The product adds no two ones up: that of byte k arrives in bit 56 + k. */
    return (unsigned)(ones * UINT64_C(0x0102040810204080) >> 56);
}

static void map_bytes(uint8_t *bitmap, const uint8_t *src, size_t n) {
    const size_t whole = n / 8;
    for (size_t i = 0; i < whole; i++) bitmap[i] = (uint8_t)nonzero_bits(pithi_get64(src + 8 * i));
    if (n % 8) bitmap[whole] = 0;
    for (size_t i = 8 * whole; i < n; i++)
        bitmap[whole] = (uint8_t)(bitmap[whole] | (src[i] != 0) << i % 8);
}

/* Copies the bytes where the bitmap has a one. */
static void gather(uint8_t *to, const uint8_t *src, const uint8_t *bitmap, size_t n) {
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (uint64_t m = pithi_get64(bitmap + i / 8); m; m &= m - 1)
            *to++ = src[i + (size_t)__builtin_ctzll(m)];
    for (; i < n; i++)
        if (bitmap[i / 8] >> i % 8 & 1) *to++ = src[i];
}

/* What saves less than one byte in 64 is not worth the time of rANS, nor in long strings bytes that
 * depend on the version of zstd. */
static size_t worthwhile(size_t bytes) { return bytes - bytes / 64; }

enum { SAMPLE = PITHI_RANS_SAMPLE };
enum verdict { NOISE, FREQUENCIES, REPEATS };

/* Returns the symbol that occurs in about one of 256 places or, in long strings, in about PLACES in
 * all, or somewhat more often; -1 where none does. `count` has those of a sample. */
static int anchor_of(const uint32_t count[256], size_t n) {
    enum { PLACES = 192, LEAST = 6, MOST = SAMPLE / 24, WANTED = SAMPLE / 256 };
    const size_t share = (size_t)PLACES * SAMPLE / n;
    const int wanted = share < LEAST ? LEAST : share < WANTED ? (int)share : WANTED;
    int anchor = -1;
    for (int s = 0; s < 256; s++) {
        if ((int)count[s] < wanted / 2 || count[s] > MOST) continue;
        if (anchor < 0 || abs((int)count[s] - wanted) < abs((int)count[anchor] - wanted))
            anchor = s;
    }
    return anchor;
}

/* Whether of the places of one symbol an eighth is followed by the same bytes as an earlier one,
 * however far before. */
static bool repeats_far(struct pithi_rans *m, const uint8_t *src, size_t n) {
    enum { LOG2_PLACES = 11, SAME = 16 };
    uint32_t *const last = m->tables.places; /* by a hash of the bytes: the place after it */
    const int anchor = anchor_of(m->count[0], n);
    size_t places = 0, same = 0;
    if (anchor < 0) return false;
    memset(last, 0, sizeof *last << LOG2_PLACES);
    const uint8_t *const end = src + n - SAME;
    for (const uint8_t *at = src; at < end && (at = memchr(at, anchor, (size_t)(end - at)));) {
        const uint64_t bytes = pithi_get64(at);
        const size_t hash = (size_t)(bytes * UINT64_C(0x9E3779B97F4A7C15) >> (64 - LOG2_PLACES));
        same += last[hash] && memcmp(src + last[hash] - 1, at, SAME) == 0;
        places++;
        last[hash] = (uint32_t)(at++ - src) + 1;
    }
    return same > places / 8;
}

/* Copies runs from all over a string, of which every fourth one comes first. */
static void take_sample(uint8_t *to, const uint8_t *src, size_t n) {
    enum { RUN = 256, RUNS = SAMPLE / RUN };
    for (size_t k = 0; k < RUNS; k++)
        memcpy(to + RUN * k, src + (n - RUN) / RUNS * (4 * k % RUNS + 4 * k / RUNS), RUN);
}

/* Returns, in 1/256 bit, what matches of zstd may save in the first n bytes of the sample, which
 * was planned last, against the costs of these one by one: matches that it finds, of seven bytes
 * and more or of four as far back as the one before, less what telling them takes. */
static uint64_t saved_by_matches(struct pithi_rans *m, size_t n) {
    enum { LOG2_PLACES = 11, LEAST = 7, TOLD = 6 * 256, AGAIN = 6 * 256 };
    uint16_t *const last = m->counted.places; /* by a hash of the bytes; 0: nowhere yet */
    const uint8_t *const src = m->tables.sample;
    uint64_t saved = 0;
    size_t distance = 1, begun = 0; /* where the last match ended */
    memset(last, 0, sizeof *last << LOG2_PLACES);
    for (size_t i = 1; i + 8 <= n;) {
        const uint64_t bytes = pithi_get64(src + i) << 8;
        const size_t hash = (size_t)(bytes * UINT64_C(0x9E3779B97F4A7C15) >> (64 - LOG2_PLACES));
        const size_t place = last[hash];
        const bool again = pithi_get32(src + i) == pithi_get32(src + i - distance);
        /* Without a branch, which nobody could predict, on whether there is a place. */
        const bool before = (pithi_get64(src + place) << 8 == bytes) & (place > 0);
        size_t length = 4;
        uint32_t told = AGAIN, cost = 0;
        last[hash] = (uint16_t)i;
        if (!(again | before)) {
            i += 1 + (i - begun) / 512; /* the longer there is no match the less it is looked for */
            continue;
        }
        if (!again) {
            length = LEAST;
            distance = i - place;
            told = TOLD + 256 * pithi_bit_length((uint32_t)distance);
        }
        while (i + length < n && src[i + length] == src[i + length - distance]) length++;
        for (begun = i + length; i < begun; i++) cost += m->cost[src[i]];
        saved += cost > told ? cost - told : 0;
    }
    return saved;
}

/* Whether zstd may code a string, which was planned last at so many bytes, in a 64th less than
 * that: whether matches may save half of it. The first n bytes of the sample are one of so many
 * parts of the string. */
static bool matches_may_pay(struct pithi_rans *m, size_t n, size_t parts, size_t planned) {
    enum { UNITS = 256 * 8 }; /* of a byte */
    return saved_by_matches(m, n) * parts >= (uint64_t)planned * UNITS / 128;
}

/* Whether rANS is in vain for a string of n bytes: one that is as a sample, which was planned last
 * at so many bytes, but has one table and takes one set of states. */
static bool in_vain(const struct pithi_rans *m, size_t planned, size_t n) {
    const size_t head = m->table_bytes + ((size_t)4 << m->states.log2);
    return head + (uint64_t)(planned - head) * n / SAMPLE > worthwhile(n);
}

/* Returns about what zstd takes without matches for n bytes that were planned last: no less than a
 * bit for each, half a byte for each kind, and heads. Fewer than 64 it leaves as they are. */
static size_t without_matches(const struct pithi_rans *m, size_t n) {
    enum { HEADS = 20, LEAST = 64, BIT = 256 };
    uint64_t bits = 0; /* in 1/256 */
    size_t kinds = 0;
    if (n < LEAST) return HEADS + n;
    for (unsigned s = 0; s < 256; s++) {
        if (!m->frequency[s]) continue;
        bits += (uint64_t)m->count[0][s] * (m->cost[s] > BIT ? m->cost[s] : BIT);
        kinds++;
    }
    return HEADS + kinds / 2 + (size_t)(bits >> 11);
}

/* Says what is to be found in a string that is no longer than a sample and was planned last at so
 * many bytes. There zstd's own tables, which are smaller, may pay. */
static enum verdict verdict_of_short(struct pithi_rans *m, const uint8_t *src, size_t n,
                                     size_t planned) {
    if (planned == SIZE_MAX) return REPEATS;
    if (without_matches(m, n) < (planned <= worthwhile(n) ? worthwhile(planned) : n))
        return REPEATS;
    memcpy(m->tables.sample, src, n);
    return matches_may_pay(m, n, 1, planned) ? REPEATS : FREQUENCIES;
}

/* Says what is to be found in bytes: repeats, for zstd, as a part from the middle says, and places
 * far apart. zstd is tried on the part where a sample does not say that it would be in vain. */
static enum verdict verdict_of(struct pithi_pen *pen, const uint8_t *src, size_t n, uint8_t *to,
                               size_t cap) {
    struct pithi_rans *const m = pithi_entropy_rans(pen->coder);
    const uint8_t *const middle = src + (n - SAMPLE) / 2;
    const size_t part = pithi_rans_plan(m, pen->count, pen->quick, middle, SAMPLE);
    if (part == SIZE_MAX) return REPEATS;
    const bool vain = in_vain(m, part, n);
    take_sample(m->tables.sample, src, n);
    const size_t spread = pithi_rans_plan(m, pen->count, pen->quick, m->tables.sample, SAMPLE);
    if (spread == SIZE_MAX) return REPEATS;
    const size_t wanted = worthwhile(part < SAMPLE ? part : SAMPLE);
    /* Symbols that say little have many matches, and a part of the sample is enough. */
    const size_t parts = spread < SAMPLE / 4 ? 4 : spread < SAMPLE / 2 ? 2 : 1;
    const bool vain_spread = in_vain(m, spread, n);
    if (matches_may_pay(m, SAMPLE / parts, parts, spread) &&
        pithi_entropy_pack(pen->coder, pen->effort, middle, SAMPLE, to,
                           wanted < cap ? wanted : cap))
        return REPEATS;
    if (repeats_far(m, src, n)) return REPEATS;
    if (vain != vain_spread) return REPEATS; /* no part stands for the others */
    return vain ? NOISE : FREQUENCIES;
}

/* Writes a coded or a rANS string; returns its length, 0 when it would be more than cap. */
static size_t code(struct pithi_pen *pen, const uint8_t *src, size_t n, uint8_t *to, size_t cap,
                   unsigned *kind) {
    *kind = CODED;
    if (!pen->rans || pen->effort == PITHI_EFFORT_NONE)
        return pithi_entropy_pack(pen->coder, pen->effort, src, n, to, cap);
    const bool only_rans = pen->effort == PITHI_EFFORT_RANS;
    const bool search = (pen->effort & ~PITHI_ENTROPY_BARE) >= PITHI_EFFORT_SEARCH;
    enum verdict verdict = only_rans ? FREQUENCIES : REPEATS;
    if (!only_rans && !search && n > SAMPLE) verdict = verdict_of(pen, src, n, to, cap);
    if (verdict == NOISE) return 0;
    struct pithi_rans *const rans = pithi_entropy_rans(pen->coder);
    size_t planned = pithi_rans_plan(rans, pen->count, pen->quick, src, n);
    if (!only_rans && !search && n <= SAMPLE) verdict = verdict_of_short(rans, src, n, planned);
    if (planned > worthwhile(n) || planned > cap) planned = 0;
    if (verdict == REPEATS) {
        const size_t coded = pithi_entropy_pack(pen->coder, pen->effort, src, n, to,
                                                planned ? worthwhile(planned) : cap);
        if (coded || !planned) return coded;
    }
    const size_t length = planned ? pithi_rans_pack(rans, pen->rans, src, n, to, cap) : 0;
    if (length) *kind = RANS;
    return length;
}

/* Writes a piece that is not sparse: of the kinds that `code` tries the shortest. */
static bool put_simple(struct pithi_pen *pen, const uint8_t *src, size_t n) {
    if (memcmp(src, src + 1, n - 1) == 0)
        return pithi_pen_put(pen, (const uint8_t[]){CONSTANT, src[0]}, 2);
    unsigned kind = PLAIN;
    size_t length = 0;
    if (n >= CODED_HEAD + CODED_LEAST && pen->capacity >= CODED_HEAD + CODED_LEAST) {
        const size_t gain = n - CODED_HEAD, capacity = pen->capacity - CODED_HEAD;
        length = code(pen, src, n, pen->at + CODED_HEAD, gain < capacity ? gain : capacity, &kind);
    }
    if (!length)
        return pithi_pen_put(pen, (const uint8_t[]){PLAIN}, 1) && pithi_pen_put(pen, src, n);
    pen->at[0] = (uint8_t)kind;
    for (size_t i = 0; i < 3; i++) pen->at[1 + i] = (uint8_t)(length >> 8 * i);
    pen->at += CODED_HEAD + length;
    pen->capacity -= CODED_HEAD + length;
    return true;
}

bool pithi_piece_put(struct pithi_pen *pen, size_t max_bytes, const uint8_t *src, size_t n) {
    const struct parts p = parts_of(pen->scratch, max_bytes);
    struct {
        const uint8_t *from, *bitmap;
        size_t bytes, used;
    } sparse[8];
    uint8_t *bitmap = p.bitmap;
    size_t depth = 0;
    while (n >= SPARSE_MIN) {
        const size_t used = nonzero(src, n, n / 8);
        if (used == 0 || used > n / 8) break;
        if (!pithi_pen_put(pen, (const uint8_t[]){SPARSE}, 1)) return false;
        map_bytes(bitmap, src, n);
        sparse[depth].from = src;
        sparse[depth].bitmap = bitmap;
        sparse[depth].bytes = n;
        sparse[depth++].used = used;
        src = bitmap;
        n = bitmap_bytes(n);
        bitmap += n;
    }
    if (!put_simple(pen, src, n)) return false;
    while (depth--) {
        gather(p.bytes, sparse[depth].from, sparse[depth].bitmap, sparse[depth].bytes);
        if (!put_simple(pen, p.bytes, sparse[depth].used)) return false;
    }
    return true;
}

bool pithi_piece_repeats(const uint8_t *piece) { return *piece == CODED; }

/* ---- Read ------------------------------------------------------------------------------------*/

const uint8_t *pithi_reader_take(struct pithi_reader *r, size_t bytes) {
    const uint8_t *const at = r->at;
    if (bytes > r->left) return NULL;
    r->at += bytes;
    r->left -= bytes;
    return at;
}

static const uint8_t *take_coded(struct pithi_reader *r, unsigned kind, size_t n, uint8_t *buffer) {
    const uint8_t *const size = pithi_reader_take(r, 3);
    if (!size) return NULL;
    const size_t length = size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16;
    const uint8_t *const coded = pithi_reader_take(r, length);
    if (!coded) return NULL;
    const bool good = kind == CODED ? pithi_entropy_unpack(r->coder, coded, length, buffer, n)
                                    : pithi_rans_unpack(pithi_entropy_rans(r->coder), r->rans,
                                                        coded, length, buffer, n);
    return good ? buffer : NULL;
}

/* Reads what follows the kind of a piece that is not sparse. */
static const uint8_t *take_simple(struct pithi_reader *r, unsigned kind, size_t n,
                                  uint8_t *buffer) {
    if (kind == PLAIN) return pithi_reader_take(r, n);
    if (kind == CODED || (kind == RANS && r->rans)) return take_coded(r, kind, n, buffer);
    const uint8_t *const byte = kind == CONSTANT ? pithi_reader_take(r, 1) : NULL;
    return byte ? memset(buffer, *byte, n) : NULL;
}

/* Counts the ones in a bitmap of n bits; more than n when bits behind them are not 0. */
static size_t ones(const uint8_t *bitmap, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < bitmap_bytes(n); i++) {
        unsigned x = bitmap[i];
        x -= x >> 1 & 0x55u;
        x = (x & 0x33u) + (x >> 2 & 0x33u);
        count += (x + (x >> 4)) & 0x0Fu;
    }
    return n % 8 && bitmap[n / 8] >> n % 8 ? n + 1 : count;
}

/* No byte is written over before it is read: ahead of every place that is written stand at least
 * as many bytes as places are left. */
void pithi_piece_scatter(uint8_t *to, const uint8_t *bitmap, size_t n, const uint8_t *bytes) {
    const size_t whole = n / 8;
    size_t i = 0;
    for (; i < whole && (uintptr_t)bytes - (uintptr_t)to >= 8 * (i + 1); i++) {
        memset(to + 8 * i, 0, 8);
        for (unsigned x = bitmap[i]; x; x &= x - 1) to[8 * i + (size_t)__builtin_ctz(x)] = *bytes++;
    }
    for (i *= 8; i < n; i++) to[i] = bitmap[i / 8] >> i % 8 & 1 ? *bytes++ : 0;
}

/* Reads a sparse piece whose bitmap is known. Its bytes are at first at the end of the buffer. */
static const uint8_t *take_sparse(struct pithi_reader *r, const uint8_t *bitmap, size_t n,
                                  uint8_t *buffer) {
    const size_t count = ones(bitmap, n);
    const uint8_t *const kind = pithi_reader_take(r, 1);
    if (!kind || count == 0 || count > n) return NULL;
    const uint8_t *const bytes = take_simple(r, *kind, count, buffer + (n - count));
    if (!bytes) return NULL;
    pithi_piece_scatter(buffer, bitmap, n, bytes);
    return buffer;
}

const uint8_t *pithi_piece_take(struct pithi_reader *r, size_t n, uint8_t *buffer) {
    uint8_t *buffers[8] = {buffer};
    size_t bytes[8] = {n}, depth = 0;
    const uint8_t *kind = pithi_reader_take(r, 1);
    for (uint8_t *bitmap = r->scratch; kind && *kind == SPARSE; kind = pithi_reader_take(r, 1)) {
        if (bytes[depth] < SPARSE_MIN) return NULL;
        buffers[depth + 1] = bitmap;
        bytes[depth + 1] = bitmap_bytes(bytes[depth]);
        bitmap += bytes[++depth];
    }
    if (!kind) return NULL;
    const uint8_t *piece = take_simple(r, *kind, bytes[depth], buffers[depth]);
    for (; piece && depth; depth--)
        piece = take_sparse(r, piece, bytes[depth - 1], buffers[depth - 1]);
    return piece;
}
