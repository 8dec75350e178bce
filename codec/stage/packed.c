/* packed.c - strips of a tile through prediction, packing and quantization.
 * SPDX-License-Identifier: Apache-2.0 */
#include "packed.h"

#include <string.h>

#include "codec.h"
#include "stage/pad.h"

enum {
    GROUP = PITHI_PACK_GROUP,
    TABLE = PITHI_PACK_WIDTHS,
    STRIP_GROUPS = 64, /* a multiple of 4, so that strips begin with a byte of the widths */
    STRIP = GROUP * STRIP_GROUPS
};

static size_t count_of(const struct pithi_packed *p) {
    return (size_t)p->extent[0] * p->extent[1] * p->extent[2] * p->extent[3];
}
static size_t groups_of(size_t count) { return (count + GROUP - 1) / GROUP; }
static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* ---- Memory: a strip of words, one of codes, then widths (write) or sums (read) ---------------*/

size_t pithi_packed_scratch(size_t count) {
    return 2 * STRIP * sizeof(uint32_t) + (size_t)pithi_pad64(4 * (uint64_t)count);
}
static uint32_t *strip_words(void *scratch) { return scratch; }
static int32_t *strip_codes(void *scratch) { return (int32_t *)scratch + STRIP; }
static void *rest_of(void *scratch) { return (int32_t *)scratch + 2 * STRIP; }

/* ---- Choice of the order ---------------------------------------------------------------------*/

enum { CHUNK = 64, CHUNKS = 64 }; /* elements of a sample, samples of a tile at least */

/* Bits of some of the words. An odd number of chunks from one sample to the next leaves out no row
 * or column of a tile of powers of two. */
static uint64_t sample(const struct pithi_packed *p, const int32_t *codes, unsigned order) {
    uint32_t words[CHUNK];
    uint8_t widths[CHUNK / GROUP];
    const size_t count = count_of(p), step = CHUNK * (count / (CHUNK * CHUNKS) | 1);
    uint64_t bits = 0;
    for (size_t at = 0; at < count; at += step) {
        const size_t n = least(CHUNK, count - at);
        p->kernels->predict(codes, p->extent, order, at, n, words);
        p->kernels->widths(words, n, widths);
        for (size_t g = 0; g < groups_of(n); g++) bits += widths[g];
    }
    return bits;
}

unsigned pithi_packed_choose(const struct pithi_packed *p, const int32_t *codes, unsigned most) {
    unsigned best = 0;
    uint64_t bits = sample(p, codes, 0);
    for (unsigned order = 1; order <= most && order <= PITHI_TILE_NDIM; order++) {
        if (p->extent[PITHI_TILE_NDIM - order] == 1) continue;
        const uint64_t other = sample(p, codes, order);
        if (other >= bits) continue;
        bits = other;
        best = order;
    }
    return best;
}

/* ---- Write -----------------------------------------------------------------------------------*/

static void find_widths(const struct pithi_packed *p, const int32_t *codes, uint32_t *words,
                        uint8_t *widths) {
    const size_t count = count_of(p);
    for (size_t at = 0; at < count; at += STRIP) {
        const size_t n = least(STRIP, count - at);
        p->kernels->predict(codes, p->extent, p->order, at, n, words);
        p->kernels->widths(words, n, widths + at / GROUP);
    }
}

/* Side by side: neighbours are often alike, and a counter must not wait for itself. */
static void count_widths(const uint8_t *widths, size_t groups,
                         uint32_t counts[PITHI_PACK_WIDEST + 1]) {
    uint32_t part[4][PITHI_PACK_WIDEST + 1] = {{0}};
    for (size_t g = 0; g < groups; g++) part[g % 4][widths[g]]++;
    for (unsigned w = 0; w <= PITHI_PACK_WIDEST; w++)
        counts[w] = part[0][w] + part[1][w] + part[2][w] + part[3][w];
}

/* Widths become those of the table, their places in it bits of the codes. */
static void name_widths(uint8_t *widths, size_t groups, const uint8_t table[TABLE],
                        uint8_t *codes) {
    uint8_t place[PITHI_PACK_WIDEST + 1];
    for (unsigned w = 0, k = 0; w <= table[TABLE - 1]; w++) {
        while (table[k] < w) k++;
        place[w] = (uint8_t)k;
    }
    memset(codes, 0, (groups + 3) / 4);
    for (size_t g = 0; g < groups; g++) {
        const unsigned k = place[widths[g]];
        codes[g / 4] = (uint8_t)(codes[g / 4] | k << g % 4 * 2);
        widths[g] = table[k];
    }
}

static void put_planes(const struct pithi_packed *p, const int32_t *codes, const uint8_t *widths,
                       uint32_t *words, struct pithi_pen *pen) {
    const size_t count = count_of(p);
    for (size_t at = 0; at < count; at += STRIP) {
        const size_t n = least(STRIP, count - at), groups = groups_of(n);
        p->kernels->predict(codes, p->extent, p->order, at, n, words);
        memset(words + n, 0, (groups * GROUP - n) * sizeof *words);
        const uint8_t *const end =
            p->kernels->pack(words, groups, widths + at / GROUP, pen->at, pen->room);
        pen->room -= (size_t)(end - pen->at);
        pen->at += end - pen->at;
    }
}

bool pithi_packed_put(const struct pithi_packed *p, const int32_t *codes, struct pithi_pen *pen) {
    const size_t groups = groups_of(count_of(p)), names = (groups + 3) / 4;
    uint32_t *const words = strip_words(pen->scratch);
    uint8_t *const widths = rest_of(pen->scratch);
    uint32_t counts[PITHI_PACK_WIDEST + 1];
    uint8_t table[TABLE];
    find_widths(p, codes, words, widths);
    count_widths(widths, groups, counts);
    const uint64_t planes = pithi_pack_choose(counts, table);
    if (TABLE + names + planes > pen->room) return false;
    memcpy(pen->at, table, TABLE);
    name_widths(widths, groups, table, pen->at + TABLE);
    pen->at += TABLE + names;
    pen->room -= TABLE + names;
    put_planes(p, codes, widths, words, pen);
    return true;
}

/* ---- Read ------------------------------------------------------------------------------------*/

static const uint8_t *take_table(struct pithi_reader *r) {
    const uint8_t *const table = pithi_reader_take(r, TABLE);
    if (!table || table[TABLE - 1] > PITHI_PACK_WIDEST) return NULL;
    for (unsigned k = 1; k < TABLE; k++)
        if (table[k] < table[k - 1]) return NULL;
    return table;
}

/* Widths of a strip's groups; returns the bytes of its planes. */
static size_t widths_of(const uint8_t *names, size_t groups, const uint8_t table[TABLE],
                        uint8_t *widths) {
    size_t bits = 0;
    for (size_t g = 0; g < groups; g++) {
        widths[g] = table[names[g / 4] >> g % 4 * 2 & 3];
        bits += widths[g];
    }
    return 2 * bits;
}

/* The codes of the strip's words, as codes or as values. */
static void put_values(const struct pithi_packed *p, struct pithi_unpredict *u, void *scratch,
                       const struct pithi_quant *quant, size_t n, void *values, bool stream) {
    int32_t *const codes = quant ? strip_codes(scratch) : values;
    p->kernels->unpredict(u, strip_words(scratch), n, codes);
    if (quant) p->kernels->dequantize(quant, codes, n, values, stream);
}

const char *pithi_packed_take(const struct pithi_packed *p, struct pithi_reader *r,
                              const struct pithi_quant *quant, void *values, bool stream) {
    const size_t count = count_of(p), groups = groups_of(count), names = (groups + 3) / 4;
    const size_t element = !quant                     ? 4
                           : quant->dtype == PITH_F64 ? 8
                           : quant->dtype == PITH_F32 ? 4
                                                      : 2;
    uint8_t widths[STRIP_GROUPS], *to = values;
    struct pithi_unpredict u;
    const uint8_t *const table = take_table(r);
    if (!table) return "the widths of packed words are damaged";
    const uint8_t *const name = pithi_reader_take(r, names);
    if (!name) return "packed words end early";
    if (groups % 4 && name[names - 1] >> groups % 4 * 2) return "packed words have stray bits";
    pithi_unpredict_init(&u, p->extent, p->order, rest_of(r->scratch));
    for (size_t at = 0; at < count; at += STRIP) {
        const size_t n = least(STRIP, count - at), left = r->left;
        const size_t bytes = widths_of(name + at / GROUP / 4, groups_of(n), table, widths);
        const uint8_t *const planes = pithi_reader_take(r, bytes);
        if (!planes) return "packed words end early";
        p->kernels->unpack(planes, left, groups_of(n), widths, strip_words(r->scratch));
        put_values(p, &u, r->scratch, quant, n, to + at * element, stream);
    }
    return NULL;
}
