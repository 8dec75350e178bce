/* strip.c - strips of a tile through quantization, prediction and packing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/strip.h"

#include <string.h>

#include "codec.h"
#include "common/minmax.h"
#include "common/pad.h"
#include "predict/bitplane_choice.h"

enum {
    GROUP = PITHI_BITPLANE_GROUP,
    TABLE = PITHI_PACK_WIDTHS,
    STRIP_GROUPS = 64, /* a multiple of 4, so that strips begin with a byte of the widths */
    STRIP = GROUP * STRIP_GROUPS
};

static size_t count_of(const struct pithi_strip *p) {
    return (size_t)p->extent[0] * p->extent[1] * p->extent[2] * p->extent[3];
}
static size_t groups_of(size_t count) { return (count + GROUP - 1) / GROUP; }

/* ---- Memory ----------------------------------------------------------------------------------*/

/* Scratch memory: a strip of words, one of codes and one of values; sums; to write also widths and
 * groups. */

enum { HALF = 32, SLACK = 128, STRIP_BYTES = STRIP * sizeof(uint32_t), VALUE_BYTES = 8 };

static size_t sums_bytes(size_t count) {
    return (size_t)pithi_pad64(GROUP * groups_of(count) * sizeof(uint32_t));
}
static size_t widths_bytes(size_t count) { return (size_t)pithi_pad64(groups_of(count)); }

enum { STRIPS_BYTES = 2 * STRIP_BYTES + STRIP * VALUE_BYTES };
size_t pithi_strip_take_scratch(const uint32_t extent[PITHI_TILE_NDIM]) {
    return STRIPS_BYTES + (size_t)pithi_pad64(pithi_unpredict_bytes(extent));
}
size_t pithi_strip_scratch(size_t count) {
    return STRIPS_BYTES + 2 * sums_bytes(count) + widths_bytes(count) + SLACK;
}
static uint32_t *strip_words(void *scratch) { return scratch; }
static int32_t *strip_codes(void *scratch) { return (int32_t *)scratch + STRIP; }
static void *strip_values(void *scratch) { return (int32_t *)scratch + 2 * STRIP; }
static void *rest_of(void *scratch) { return (uint8_t *)scratch + STRIPS_BYTES; }
static uint8_t *widths_in(void *scratch, size_t count) {
    return (uint8_t *)rest_of(scratch) + sums_bytes(count);
}
static uint8_t *groups_in(void *scratch, size_t count) {
    return widths_in(scratch, count) + widths_bytes(count);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* Makes codes of n dense values; returns how many are missed. */
static size_t make_codes(const struct pithi_strip *p, const struct pithi_quant *quant,
                         const void *values, size_t n, int32_t *codes, uint8_t *miss) {
    if (quant) return p->kernels->quantize(quant, values, n, codes, miss);
    memcpy(codes, values, n * sizeof *codes);
    return 0;
}

/* ---- Choice of the order ---------------------------------------------------------------------*/

enum { CHUNK = PITHI_PACK_SAMPLE };
enum { LINES = PITHI_SAMPLE_LINES, LINE = CHUNK + GROUP };

/* Fills in the sample in its final place: a copy would wait for what was just stored. */
static void take_sample(const struct pithi_strip *p, const struct pithi_source *source, size_t at,
                        unsigned most, struct pithi_sample *s) {
    static const uint8_t outside[LINE * VALUE_BYTES];
    struct pithi_lines lines;
    pithi_lines_begin(&lines, p->extent, most, at);
    s->quant = source->quant;
    s->lead = pithi_min(GROUP, lines.place[3]);
    s->count = pithi_min(CHUNK, pithi_lines_left(&lines));
    for (unsigned k = 0; k < LINES; k++) s->line[k] = outside;
    for (unsigned k = 0; k < lines.count; k++)
        s->line[LINES - 1 - lines.line[k]] =
            pithi_tile_layout_at(&source->values, at - s->lead - lines.back[k]);
}

/* Adds the widths of a sample, one operation after the other: its lines are a tile of 2 x 2 x 2, of
 * which they are the last. */
static void add_widths(const struct pithi_strip *p, const struct pithi_sample *s, unsigned most,
                       pithi_sample_widths sums) {
    int32_t codes[LINES * LINE];
    uint32_t words[CHUNK];
    uint8_t miss[LINE / 8 + 1], widths[PITHI_SAMPLE_GROUPS];
    const size_t n = s->lead + s->count, at = (LINES - 1) * n + s->lead;
    const uint32_t extent[PITHI_TILE_NDIM] = {2, 2, 2, (uint32_t)n};
    for (size_t k = 0; k < (size_t)1 << (most - 1); k++) /* no order reads the others */
        make_codes(p, s->quant, s->line[k], n, codes + (LINES - 1 - k) * n, miss);
    for (unsigned order = 0; order <= most; order++) {
        p->kernels->predict(codes + at, extent, order, at, s->count, words);
        p->kernels->widths(words, s->count, widths);
        for (size_t g = 0; g < groups_of(s->count); g++) sums[order][g] += widths[g];
    }
}

/* Finds the order with samples that `sample` takes, where it can. */
static unsigned choose(const struct pithi_strip *p, const struct pithi_source *source,
                       unsigned most, pithi_sample_fn *sample) {
    pithi_sample_widths sums = {{0}};
    const size_t count = count_of(p), row = pithi_min(CHUNK, p->extent[PITHI_TILE_NDIM - 1]);
    const size_t step = row * pithi_pack_sample_step(count);
    for (size_t at = 0; most && at < count; at += step) {
        struct pithi_sample s;
        take_sample(p, source, at, most, &s);
        if (!sample(&s, most, sums)) add_widths(p, &s, most, sums);
    }
    uint32_t fewest = UINT32_MAX;
    unsigned best = 0;
    for (unsigned order = 0; order <= most; order++) {
        uint32_t bits = 0;
        for (unsigned g = 0; g < PITHI_SAMPLE_GROUPS; g++) bits += sums[order][g];
        if (bits >= fewest) continue;
        fewest = bits;
        best = order;
    }
    return best;
}

unsigned pithi_strip_choose(const struct pithi_strip *p, const struct pithi_source *source,
                            unsigned most) {
    return choose(p, source, most, pithi_sample_c);
}

unsigned pithi_strip_guess(const struct pithi_strip *p, const struct pithi_source *source,
                           unsigned most) {
    return choose(p, source, most, p->kernels->sample);
}

/* ---- Write -----------------------------------------------------------------------------------*/

static bool all_are(int32_t code, const int32_t *codes, size_t n) {
    return codes[0] == code && memcmp(codes, codes + 1, (n - 1) * sizeof *codes) == 0;
}

/* Counters stand side by side: neighbours are often alike, and a counter must not wait for
 * itself. */
enum { COUNTERS = 4 };
struct counters {
    uint32_t count[COUNTERS][PITHI_PACK_WIDEST + 1];
};

static void count_widths(struct counters *c, const uint8_t *widths, size_t groups) {
    for (size_t g = 0; g < groups; g++) c->count[g % COUNTERS][widths[g]]++;
}

static uint32_t counted(const struct counters *c, unsigned w) {
    return c->count[0][w] + c->count[1][w] + c->count[2][w] + c->count[3][w];
}

/* All widths but the widest are added by vectors. */
static void add_counters(const struct counters *restrict c, uint32_t *restrict counts) {
    for (unsigned w = 0; w < PITHI_PACK_WIDEST; w++) counts[w] = counted(c, w);
    counts[PITHI_PACK_WIDEST] = counted(c, PITHI_PACK_WIDEST);
}

/* A tile that is being written. */
struct writing {
    const struct pithi_strip *strip;
    const struct pithi_source *source;
    struct pithi_packing *packing;
    struct pithi_unpredict sums;
    struct pithi_tile_layout_walk walk, further; /* `further` is a strip ahead */
    uint8_t *widths, *to, *end;
};

/* Fills in the struct in its final place: a copy would wait for what was just stored. */
static void open_writing(struct writing *g, const struct pithi_strip *p,
                         const struct pithi_source *source, struct pithi_packing *packing) {
    const size_t count = count_of(p);
    g->strip = p;
    g->source = source;
    g->packing = packing;
    g->widths = widths_in(packing->scratch, count);
    g->to = groups_in(packing->scratch, count);
    g->end = (uint8_t *)packing->scratch + pithi_strip_scratch(count);
    pithi_unpredict_init(&g->sums, p->extent, p->order, rest_of(packing->scratch));
    pithi_tile_layout_begin(&g->walk, &source->values);
    pithi_tile_layout_begin(&g->further, &source->values);
    pithi_tile_layout_prefetch(&g->further, STRIP);
}

/* Returns the next n values: where they lie, or in `strip` when they do not lie together. */
static const void *next_values(struct writing *g, size_t n, void *strip) {
    size_t run;
    if (!g->walk.layout->tiling) return pithi_tile_layout_next(&g->walk, n, &run);
    pithi_tile_layout_prefetch(&g->further, n);
    pithi_tile_layout_read(&g->walk, n, strip);
    return strip;
}

/* Writes elements [at, at + n), one operation after the other. */
static void write_strip(struct writing *g, size_t at, size_t n) {
    const struct pithi_kernels *const k = g->strip->kernels;
    const size_t groups = groups_of(n);
    uint32_t *const words = strip_words(g->packing->scratch);
    int32_t *const codes = strip_codes(g->packing->scratch);
    const void *const from = next_values(g, n, strip_values(g->packing->scratch));
    uint8_t *const miss = g->source->quant ? g->source->miss + at / 8 : NULL;
    g->packing->misses += make_codes(g->strip, g->source->quant, from, n, codes, miss);
    if (at == 0) g->packing->first = codes[0];
    g->packing->constant = g->packing->constant && all_are(g->packing->first, codes, n);
    k->differ(&g->sums, codes, n, words);
    memset(words + n, 0, (groups * GROUP - n) * sizeof *words);
    k->widths(words, n, g->widths);
    g->to = k->pack(words, groups, g->widths, g->to, (size_t)(g->end - g->to));
    g->widths += groups;
}

/* Writes elements in one pass over the values, as many as the kernel has a loop for; returns how
 * many. As long as all codes may be equal, which write_strip finds, there are none. */
static size_t fused_encode(struct writing *g, size_t at, size_t n) {
    struct pithi_fused_encode c = {.quant = g->source->quant, .sums = &g->sums, .end = g->end};
    const size_t row = g->strip->extent[PITHI_TILE_NDIM - 1];
    size_t all = 0;
    for (size_t done = 1; done && all < n && c.quant && !g->packing->constant; all += done) {
        size_t count, pitch;
        c.from = pithi_tile_layout_rows(&g->walk, row, n - all, &c.count, &c.pitch);
        c.at = (size_t)g->walk.used;
        c.prefetch = c.from + 4 * STRIP;
        if (g->walk.layout->tiling)
            c.prefetch = pithi_tile_layout_rows(&g->further, row, n, &count, &pitch);
        c.widths = g->widths;
        c.to = g->to;
        done = g->strip->kernels->fused_encode(&c);
        pithi_tile_layout_skip(&g->walk, done);
        if (g->walk.layout->tiling) pithi_tile_layout_skip(&g->further, done);
        memset(g->source->miss + (at + all) / 8, 0, done / 8);
        g->widths = c.widths;
        g->to = c.to;
    }
    return all;
}

/* Whether the first few values have codes that differ, as those of most tiles do. */
static bool first_differ(const struct pithi_strip *p, const struct pithi_source *source) {
    const struct pithi_quant *const q = source->quant;
    const size_t n = pithi_min(GROUP, p->extent[PITHI_TILE_NDIM - 1]);
    int32_t first, code;
    if (!q || q->relative || q->dtype == PITH_F64) return false;
    const uint8_t *const value = pithi_tile_layout_at(&source->values, 0);
    if (!pithi_quant_code(q, pithi_load(value, q->dtype, 0), &first)) return false;
    for (size_t i = 1; i < n; i++) {
        if (!pithi_quant_code(q, pithi_load(value, q->dtype, i), &code)) return false;
        if (code != first) return true;
    }
    return false;
}

void pithi_strip_begin(const struct pithi_strip *p, const struct pithi_source *source,
                       void *scratch, struct pithi_packing *packing) {
    const size_t count = count_of(p);
    struct counters counters = {{{0}}};
    *packing = (struct pithi_packing){.constant = !first_differ(p, source), .scratch = scratch};
    struct writing g;
    open_writing(&g, p, source, packing);
    for (size_t at = 0; at < count; at += STRIP) {
        const size_t n = pithi_min(STRIP, count - at), done = fused_encode(&g, at, n);
        const uint8_t *const widths = g.widths - done / GROUP;
        if (done < n) write_strip(&g, at + done, n - done);
        count_widths(&counters, widths, groups_of(n));
    }
    add_counters(&counters, packing->counts);
}

/* Says for every width which one of the table holds it: its place there, and its bytes in a
 * group. */
struct wider {
    uint8_t place[PITHI_PACK_WIDEST + 1], wide[PITHI_PACK_WIDEST + 1];
};

static struct wider wider_of(const uint8_t table[TABLE]) {
    struct wider wider;
    for (unsigned w = 0, k = 0; w <= table[TABLE - 1]; w++) {
        while (table[k] < w) k++;
        wider.place[w] = (uint8_t)k;
        wider.wide[w] = (uint8_t)(2 * table[k]);
    }
    return wider;
}

/* Widens four groups to widths of the table, and writes their names. Each may write up to 64 bytes
 * more. */
static uint8_t *widen_four(const struct wider *wider, const uint8_t *widths, const uint8_t **from,
                           uint8_t *to, uint8_t *name) {
    static const uint8_t zeros[HALF];
    unsigned names = 0;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned width = widths[i], bytes = 2 * width, wide = wider->wide[width];
        memcpy(to, *from, HALF);
        if (bytes > HALF) memcpy(to + HALF, *from + HALF, HALF);
        memcpy(to + bytes, zeros, HALF);
        if (wide > bytes + HALF) memcpy(to + bytes + HALF, zeros, HALF);
        names |= (unsigned)wider->place[width] << 2 * i;
        *from += bytes;
        to += wide;
    }
    *name = (uint8_t)names;
    return to;
}

/* Widens one group, and writes no byte more. */
static uint8_t *widen(const struct wider *wider, unsigned width, const uint8_t **from,
                      uint8_t *to) {
    memcpy(to, *from, 2 * width);
    memset(to + 2 * width, 0, wider->wide[width] - 2 * width);
    *from += 2 * width;
    return to + wider->wide[width];
}

/* Returns whether so few groups become wider that the others are copied in long runs. */
static bool few_wider(const struct wider *wider, const uint32_t counts[PITHI_PACK_WIDEST + 1],
                      unsigned widest, size_t groups) {
    size_t more = 0;
    for (unsigned w = 0; w <= widest; w++) more += wider->wide[w] == 2 * w ? 0 : counts[w];
    return more * 16 <= groups;
}

/* Writes all groups and their names; the bytes between groups that become wider are copied at
 * once. */
static uint8_t *put_runs(const struct wider *wider, const uint8_t *widths, size_t groups,
                         const uint8_t *from, uint8_t *to, uint8_t *name) {
    size_t run = 0; /* bytes at `from` that are not copied yet */
    for (size_t g = 0; g < groups; g += 4) {
        const size_t n = pithi_min(4, groups - g);
        unsigned names = 0, bytes = 0, wide = 0;
        for (size_t i = 0; i < n; i++) {
            names |= (unsigned)wider->place[widths[g + i]] << 2 * i;
            bytes += 2u * widths[g + i];
            wide += wider->wide[widths[g + i]];
        }
        name[g / 4] = (uint8_t)names;
        run += bytes;
        if (bytes == wide) continue;
        memcpy(to, from, run - bytes);
        to += run - bytes, from += run - bytes, run = 0;
        for (size_t i = 0; i < n; i++) to = widen(wider, widths[g + i], &from, to);
    }
    memcpy(to, from, run);
    return to + run;
}

static void put_groups(const struct pithi_packing *packing, size_t count,
                       const uint8_t table[TABLE], struct pithi_pen *pen) {
    const size_t groups = groups_of(count), names = (groups + 3) / 4;
    const struct wider wider = wider_of(table);
    const uint8_t *const widths = widths_in(packing->scratch, count);
    const uint8_t *from = groups_in(packing->scratch, count);
    uint8_t *const name = pen->at, *const end = name + pen->capacity, *to = name + names;
    size_t g = 0;
    if (few_wider(&wider, packing->counts, table[TABLE - 1], groups)) {
        to = put_runs(&wider, widths, groups, from, to, name);
        pen->capacity = (size_t)(end - to);
        pen->at = to;
        return;
    }
    for (; g + 4 <= groups && end - to >= 6 * 2 * HALF; g += 4)
        to = widen_four(&wider, widths + g, &from, to, name + g / 4);
    memset(name + g / 4, 0, names - g / 4);
    for (; g < groups; g++) {
        name[g / 4] = (uint8_t)(name[g / 4] | wider.place[widths[g]] << g % 4 * 2);
        to = widen(&wider, widths[g], &from, to);
    }
    pen->capacity = (size_t)(end - to);
    pen->at = to;
}

bool pithi_strip_finish(const struct pithi_strip *p, const struct pithi_packing *packing,
                        struct pithi_pen *pen) {
    const size_t count = count_of(p), names = (groups_of(count) + 3) / 4;
    uint8_t table[TABLE];
    const uint64_t planes = pithi_bitplane_choose(packing->counts, table);
    if (TABLE + names + planes > pen->capacity) return false;
    pithi_pen_put(pen, table, TABLE);
    put_groups(packing, count, table, pen);
    return true;
}

bool pithi_strip_put(const struct pithi_strip *p, const int32_t *codes, struct pithi_pen *pen) {
    const struct pithi_source source = {.values = pithi_tile_layout_dense(codes, sizeof *codes)};
    struct pithi_packing packing;
    pithi_strip_begin(p, &source, pen->scratch, &packing);
    return pithi_strip_finish(p, &packing, pen);
}

size_t pithi_strip_estimate(const struct pithi_strip *p, const int32_t *codes) {
    enum { PARTS = 32 };
    uint32_t words[CHUNK], counts[PITHI_PACK_WIDEST + 1] = {0};
    uint8_t widths[PITHI_SAMPLE_GROUPS], table[TABLE];
    const size_t count = count_of(p), step = CHUNK * (count / (CHUNK * PARTS) | 1);
    size_t sampled = 0, at = 0;
    do { /* there is an element */
        const size_t n = pithi_min(CHUNK, count - at);
        p->kernels->predict(codes + at, p->extent, p->order, at, n, words);
        p->kernels->widths(words, n, widths);
        for (size_t g = 0; g < groups_of(n); g++) counts[widths[g]]++;
        sampled += groups_of(n);
        at += step;
    } while (at < count);
    const uint64_t planes = pithi_bitplane_choose(counts, table) * groups_of(count) / sampled;
    return TABLE + (groups_of(count) + 3) / 4 + (size_t)planes;
}

/* ---- Read ------------------------------------------------------------------------------------*/

static const uint8_t *take_table(struct pithi_reader *r) {
    const uint8_t *const table = pithi_reader_take(r, TABLE);
    if (!table || table[TABLE - 1] > PITHI_PACK_WIDEST) return NULL;
    for (unsigned k = 1; k < TABLE; k++)
        if (table[k] < table[k - 1]) return NULL;
    return table;
}

/* The widths that the names of two groups, half a byte, stand for, as pithi_put16 stores them. */
struct pairs {
    uint16_t widths[16];
};

static void pairs_init(struct pairs *p, const uint8_t table[TABLE]) {
    for (unsigned k = 0; k < 16; k++) p->widths[k] = (uint16_t)(table[k & 3] | table[k >> 2] << 8);
}

/* Finds the widths of a strip's groups, and of as many as the last byte of names has space for;
 * returns the bytes of the planes of the strip's. */
static size_t widths_of(const uint8_t *names, size_t groups, const struct pairs *pairs,
                        uint8_t widths[STRIP_GROUPS]) {
    size_t bits = 0;
    for (size_t g = 0; g < groups; g += 4) {
        const uint32_t four =
            pairs->widths[names[g / 4] & 15] | (uint32_t)pairs->widths[names[g / 4] >> 4] << 16;
        pithi_put32(widths + g, four);
        bits += four * 0x01010101u >> 24; /* widths are 32 at most */
    }
    for (size_t g = groups; g % 4; g++) bits -= widths[g];
    return 2 * bits;
}

/* A tile that is being read. */
struct reading {
    const struct pithi_strip *strip;
    const struct pithi_quant *quant;
    const struct pithi_sink *sink; /* NULL: values go to `walk` */
    struct pithi_unpredict sums;
    struct pithi_tile_layout_walk walk;
    void *scratch;
    size_t at; /* number of the next element */
    bool nontemporal;
};

/* Puts n elements of these planes: codes, or the values that they mean. */
static void put_words(struct reading *g, const uint8_t *planes, size_t left, const uint8_t *widths,
                      size_t n) {
    const struct pithi_kernels *const k = g->strip->kernels;
    uint32_t *const words = strip_words(g->scratch);
    int32_t *codes = strip_codes(g->scratch);
    size_t run;
    k->unpack(planes, left, groups_of(n), widths, words);
    if (!g->quant) codes = (int32_t *)(void *)pithi_tile_layout_next(&g->walk, n, &run);
    k->unpredict(&g->sums, words, n, codes);
    if (g->sink) {
        k->dequantize(g->quant, codes, n, strip_values(g->scratch), false);
        g->sink->put(g->sink->arg, g->at, n, strip_values(g->scratch));
        return;
    }
    for (; g->quant && n; codes += run, n -= run) {
        void *const to = pithi_tile_layout_next(&g->walk, n, &run);
        k->dequantize(g->quant, codes, run, to, g->nontemporal);
    }
}

/* Puts n elements of these planes, as many as the kernel can in one pass. */
static void put_strip(struct reading *g, const uint8_t *planes, size_t left, const uint8_t *widths,
                      size_t n) {
    struct pithi_fused_decode r = {.quant = g->quant,
                                   .sums = &g->sums,
                                   .planes = planes,
                                   .left = left,
                                   .widths = widths,
                                   .nontemporal = g->nontemporal};
    for (size_t done = g->quant && !g->sink ? 1 : 0; done && n; n -= done) {
        r.to = pithi_tile_layout_rows(&g->walk, g->strip->extent[PITHI_TILE_NDIM - 1], n, &r.count,
                                      &r.pitch);
        r.at = (size_t)g->walk.used;
        done = g->strip->kernels->fused_decode(&r);
        pithi_tile_layout_skip(&g->walk, done);
    }
    if (n) put_words(g, r.planes, r.left, r.widths, n);
}

static const char *take(struct reading *g, struct pithi_reader *r) {
    const struct pithi_strip *const p = g->strip;
    const size_t count = count_of(p), groups = groups_of(count), names = (groups + 3) / 4;
    uint8_t widths[STRIP_GROUPS];
    struct pairs pairs;
    const uint8_t *const table = take_table(r);
    if (!table) return "the widths of packed words are damaged";
    const uint8_t *const name = pithi_reader_take(r, names);
    if (!name) return "packed words end early";
    if (groups % 4 && name[names - 1] >> groups % 4 * 2) return "packed words have stray bits";
    g->scratch = r->scratch;
    pithi_unpredict_init(&g->sums, p->extent, p->order, rest_of(r->scratch));
    pairs_init(&pairs, table);
    for (; g->at < count; g->at += STRIP) {
        const size_t n = pithi_min(STRIP, count - g->at), left = r->left;
        const size_t bytes = widths_of(name + g->at / GROUP / 4, groups_of(n), &pairs, widths);
        const uint8_t *const planes = pithi_reader_take(r, bytes);
        if (!planes) return "packed words end early";
        put_strip(g, planes, left, widths, n);
    }
    return NULL;
}

const char *pithi_strip_take_to(const struct pithi_strip *p, struct pithi_reader *r,
                                const struct pithi_quant *quant,
                                const struct pithi_tile_layout *values, bool nontemporal) {
    struct reading g = {.strip = p, .quant = quant, .nontemporal = nontemporal};
    pithi_tile_layout_begin(&g.walk, values);
    return take(&g, r);
}

const char *pithi_strip_take_parts(const struct pithi_strip *p, struct pithi_reader *r,
                                   const struct pithi_quant *quant, const struct pithi_sink *to) {
    struct reading g = {.strip = p, .quant = quant, .sink = to};
    return take(&g, r);
}

const char *pithi_strip_take(const struct pithi_strip *p, struct pithi_reader *r,
                             const struct pithi_quant *quant, void *values, bool nontemporal) {
    const size_t element = quant ? pith_dtype_bytes(quant->dtype) : sizeof(int32_t);
    const struct pithi_tile_layout dense = pithi_tile_layout_dense(values, element);
    return pithi_strip_take_to(p, r, quant, &dense, nontemporal);
}

/* ---- What scalar C has no loop for -------------------------------------------------------------
 * This file then does the steps one after the other. */

size_t pithi_fused_encode_c(struct pithi_fused_encode *c) {
    (void)c;
    return 0;
}

size_t pithi_fused_decode_c(struct pithi_fused_decode *r) {
    (void)r;
    return 0;
}

bool pithi_sample_c(const struct pithi_sample *s, unsigned most, pithi_sample_widths sums) {
    (void)s;
    (void)most;
    (void)sums;
    return false;
}
