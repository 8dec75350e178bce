/* packed.c - strips of a tile through quantization, prediction and packing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "packed.h"

#include <string.h>

#include "codec.h"
#include "stage/pack_choice.h"
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

/* ---- Memory ----------------------------------------------------------------------------------*/

/* A strip of words and one of codes; to write: codes that words are differences from, widths,
 * groups; to read: sums. */

/* Codes are kept only as long as others are differences from them. */
enum { WINDOW = 2 * STRIP, HALF = 32, SLACK = 128 };

static size_t window_bytes(size_t count) {
    return (size_t)pithi_pad64(GROUP * groups_of(count) * sizeof(int32_t));
}
static size_t widths_bytes(size_t count) { return (size_t)pithi_pad64(groups_of(count)); }

size_t pithi_packed_scratch(size_t count) {
    return 2 * STRIP * sizeof(uint32_t) + 2 * window_bytes(count) + widths_bytes(count) + SLACK;
}
static uint32_t *strip_words(void *scratch) { return scratch; }
static int32_t *strip_codes(void *scratch) { return (int32_t *)scratch + STRIP; }
static void *rest_of(void *scratch) { return (int32_t *)scratch + 2 * STRIP; }
static uint8_t *widths_in(void *scratch, size_t count) {
    return (uint8_t *)rest_of(scratch) + window_bytes(count);
}
static uint8_t *groups_in(void *scratch, size_t count) {
    return widths_in(scratch, count) + widths_bytes(count);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

static size_t element_of(const struct pithi_quant *q) {
    return !q ? sizeof(int32_t) : q->dtype == PITH_F64 ? 8 : q->dtype == PITH_F32 ? 4 : 2;
}

/* Codes of elements [at, at + n); returns how many are missed. */
static size_t make_codes(const struct pithi_packed *p, const struct pithi_source *s, size_t at,
                         size_t n, int32_t *codes, uint8_t *miss) {
    const uint8_t *const from = (const uint8_t *)s->values + at * element_of(s->quant);
    if (s->quant) return p->kernels->quantize(s->quant, from, n, codes, miss);
    memcpy(codes, from, n * sizeof *codes);
    return 0;
}

/* How far back words look. */
static size_t reach_of(const struct pithi_packed *p) {
    size_t reach = 0, stride = 1;
    for (unsigned d = PITHI_TILE_NDIM; d-- && d + p->order >= PITHI_TILE_NDIM;) {
        reach += stride;
        stride *= p->extent[d];
    }
    return (reach + GROUP - 1) / GROUP * GROUP;
}

/* The last codes before those that are made. */
struct window {
    int32_t *codes;
    size_t at, size, reach;
};

static struct window window_of(const struct pithi_packed *p, void *scratch) {
    struct window w = {.codes = rest_of(scratch), .reach = reach_of(p)};
    const size_t wanted = WINDOW + 8 * w.reach, all = groups_of(count_of(p)) * GROUP;
    w.size = least(wanted, all);
    return w;
}

/* Room for n more codes, behind those that they may be differences from. */
static int32_t *window_room(struct window *w, size_t n) {
    if (w->at + n > w->size) {
        memmove(w->codes, w->codes + w->at - w->reach, w->reach * sizeof *w->codes);
        w->at = w->reach;
    }
    w->at += n;
    return w->codes + w->at - n;
}

/* ---- Choice of the order ---------------------------------------------------------------------*/

enum { CHUNK = PITHI_PACK_SAMPLE, CHUNKS = PITHI_PACK_SAMPLES };
enum { LINES = 8, LINE = CHUNK + GROUP };

/* A sample: the last of 2 x 2 x 2 lines, the others being its neighbours, or 0 outside the tile. It
 * begins with its row, or with a group whose words do not count. */
struct sample {
    int32_t codes[LINES * LINE];
    uint32_t extent[PITHI_TILE_NDIM];
    size_t at, count; /* of the words that count */
};

static void take_sample(const struct pithi_packed *p, const struct pithi_source *s, size_t at,
                        unsigned most, struct sample *to) {
    struct pithi_lines lines;
    uint8_t miss[LINE / 8 + 1];
    pithi_lines_begin(&lines, p->extent, most, at);
    const size_t lead = least(GROUP, lines.place[3]);
    to->count = least(CHUNK, pithi_lines_left(&lines));
    const size_t n = lead + to->count;
    to->at = (LINES - 1) * n + lead;
    memcpy(to->extent, (uint32_t[]){2, 2, 2, (uint32_t)n}, sizeof to->extent);
    memset(to->codes, 0, LINES * n * sizeof *to->codes);
    for (unsigned k = 0; k < lines.count; k++)
        make_codes(p, s, at - lead - lines.back[k], n, to->codes + lines.line[k] * n, miss);
}

static uint64_t sample_bits(const struct pithi_packed *p, const struct sample *s, unsigned order) {
    uint32_t words[CHUNK];
    uint8_t widths[CHUNK / GROUP];
    uint64_t bits = 0;
    p->kernels->predict(s->codes + s->at, s->extent, order, s->at, s->count, words);
    p->kernels->widths(words, s->count, widths);
    for (size_t g = 0; g < groups_of(s->count); g++) bits += widths[g];
    return bits;
}

unsigned pithi_packed_choose(const struct pithi_packed *p, const struct pithi_source *source,
                             unsigned most) {
    struct sample s;
    uint64_t bits[PITHI_TILE_NDIM + 1] = {0};
    /* An odd number of chunks from one sample to the next leaves out no row or column of a tile of
     * powers of two. */
    const size_t count = count_of(p), row = least(CHUNK, p->extent[PITHI_TILE_NDIM - 1]);
    const size_t step = row * (count / (CHUNK * CHUNKS) | 1);
    unsigned best = 0;
    for (size_t at = 0; most && at < count; at += step) {
        take_sample(p, source, at, most, &s);
        for (unsigned order = 0; order <= most; order++) bits[order] += sample_bits(p, &s, order);
    }
    for (unsigned order = 1; order <= most; order++)
        if (bits[order] < bits[best]) best = order;
    return best;
}

/* ---- Write -----------------------------------------------------------------------------------*/

static bool all_are(int32_t code, const int32_t *codes, size_t n) {
    return codes[0] == code && memcmp(codes, codes + 1, (n - 1) * sizeof *codes) == 0;
}

/* Side by side: neighbours are often alike, and a counter must not wait for itself. */
enum { COUNTERS = 4 };
struct counters {
    uint32_t count[COUNTERS][PITHI_PACK_WIDEST + 1];
};

static void count_widths(struct counters *c, const uint8_t *widths, size_t groups) {
    for (size_t g = 0; g < groups; g++) c->count[g % COUNTERS][widths[g]]++;
}

static void add_counters(const struct counters *c, uint32_t counts[PITHI_PACK_WIDEST + 1]) {
    for (unsigned w = 0; w <= PITHI_PACK_WIDEST; w++)
        counts[w] = c->count[0][w] + c->count[1][w] + c->count[2][w] + c->count[3][w];
}

void pithi_packed_begin(const struct pithi_packed *p, const struct pithi_source *source,
                        void *scratch, struct pithi_packing *packing) {
    const size_t count = count_of(p);
    uint32_t *const words = strip_words(scratch);
    uint8_t *widths = widths_in(scratch, count), *to = groups_in(scratch, count);
    uint8_t *const end = (uint8_t *)scratch + pithi_packed_scratch(count);
    struct window window = window_of(p, scratch);
    struct counters counters = {{{0}}};
    *packing = (struct pithi_packing){.constant = true, .scratch = scratch};
    for (size_t at = 0; at < count; at += STRIP) {
        const size_t n = least(STRIP, count - at), groups = groups_of(n);
        int32_t *const codes = window_room(&window, n);
        uint8_t *const miss = source->quant ? source->miss + at / 8 : NULL;
        packing->misses += make_codes(p, source, at, n, codes, miss);
        if (at == 0) packing->first = codes[0];
        packing->constant = packing->constant && all_are(packing->first, codes, n);
        p->kernels->predict(codes, p->extent, p->order, at, n, words);
        memset(words + n, 0, (groups * GROUP - n) * sizeof *words);
        p->kernels->widths(words, n, widths);
        to = p->kernels->pack(words, groups, widths, to, (size_t)(end - to));
        count_widths(&counters, widths, groups);
        widths += groups;
    }
    add_counters(&counters, packing->counts);
}

/* For every width the table's: its place there and its bytes in a group. */
struct plan {
    uint8_t place[PITHI_PACK_WIDEST + 1], wide[PITHI_PACK_WIDEST + 1];
};

static struct plan plan_of(const uint8_t table[TABLE]) {
    struct plan plan;
    for (unsigned w = 0, k = 0; w <= table[TABLE - 1]; w++) {
        while (table[k] < w) k++;
        plan.place[w] = (uint8_t)k;
        plan.wide[w] = (uint8_t)(2 * table[k]);
    }
    return plan;
}

/* Four groups with their names, of which all may write up to 64 bytes more. */
static uint8_t *widen_four(const struct plan *plan, const uint8_t *widths, const uint8_t **from,
                           uint8_t *to, uint8_t *name) {
    static const uint8_t zeros[HALF];
    unsigned names = 0;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned width = widths[i], bytes = 2 * width, wide = plan->wide[width];
        memcpy(to, *from, HALF);
        if (bytes > HALF) memcpy(to + HALF, *from + HALF, HALF);
        memcpy(to + bytes, zeros, HALF);
        if (wide > bytes + HALF) memcpy(to + bytes + HALF, zeros, HALF);
        names |= (unsigned)plan->place[width] << 2 * i;
        *from += bytes;
        to += wide;
    }
    *name = (uint8_t)names;
    return to;
}

/* Without a byte more. */
static uint8_t *widen(const struct plan *plan, unsigned width, const uint8_t **from, uint8_t *to) {
    memcpy(to, *from, 2 * width);
    memset(to + 2 * width, 0, plan->wide[width] - 2 * width);
    *from += 2 * width;
    return to + plan->wide[width];
}

static void put_groups(const struct pithi_packing *packing, size_t count,
                       const uint8_t table[TABLE], struct pithi_pen *pen) {
    const size_t groups = groups_of(count), names = (groups + 3) / 4;
    const struct plan plan = plan_of(table);
    const uint8_t *const widths = widths_in(packing->scratch, count);
    const uint8_t *from = groups_in(packing->scratch, count);
    uint8_t *const name = pen->at, *const end = name + pen->room, *to = name + names;
    size_t g = 0;
    for (; g + 4 <= groups && end - to >= 6 * 2 * HALF; g += 4)
        to = widen_four(&plan, widths + g, &from, to, name + g / 4);
    memset(name + g / 4, 0, names - g / 4);
    for (; g < groups; g++) {
        name[g / 4] = (uint8_t)(name[g / 4] | plan.place[widths[g]] << g % 4 * 2);
        to = widen(&plan, widths[g], &from, to);
    }
    pen->room = (size_t)(end - to);
    pen->at = to;
}

bool pithi_packed_finish(const struct pithi_packed *p, const struct pithi_packing *packing,
                         struct pithi_pen *pen) {
    const size_t count = count_of(p), names = (groups_of(count) + 3) / 4;
    uint8_t table[TABLE];
    const uint64_t planes = pithi_pack_choose(packing->counts, table);
    if (TABLE + names + planes > pen->room) return false;
    pithi_pen_put(pen, table, TABLE);
    put_groups(packing, count, table, pen);
    return true;
}

bool pithi_packed_put(const struct pithi_packed *p, const int32_t *codes, struct pithi_pen *pen) {
    const struct pithi_source source = {.values = codes};
    struct pithi_packing packing;
    pithi_packed_begin(p, &source, pen->scratch, &packing);
    return pithi_packed_finish(p, &packing, pen);
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
    const size_t element = element_of(quant);
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
