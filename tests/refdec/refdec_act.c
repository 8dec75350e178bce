/* refdec_act.c - codec 7: zero maps, and codes beside them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "refdec.h"

/* ---- Zero maps: a byte per element -----------------------------------------------------------*/

struct bits {
    const uint8_t *bytes;
    uint64_t length, next, ran;
    uint32_t low, high, v;
    uint32_t p[256], s[256], u[256];
};

static uint8_t next_byte(struct bits *x) {
    const uint8_t byte = x->next < x->length ? x->bytes[x->next] : 0;
    x->next++;
    return byte;
}

static void begin(struct bits *x, const uint8_t *bytes, uint64_t length) {
    *x = (struct bits){.bytes = bytes, .length = length, .high = 0xFFFFFFFFu};
    for (int c = 0; c < 256; c++) x->p[c] = 32768, x->s[c] = x->u[c] = 1;
    for (int i = 0; i < 4; i++) x->v = x->v << 8 | next_byte(x);
}

static uint8_t read_bit(struct bits *x, unsigned c) {
    const uint32_t p = x->p[c], s = x->s[c];
    const uint32_t m = x->low + (uint32_t)((uint64_t)(x->high - x->low) * p / 65536);
    const bool one = x->v <= m;
    if (one)
        x->high = m, x->p[c] = p + ((65536 - p) >> s);
    else
        x->low = m + 1, x->p[c] = p - (p >> s);
    if (s < 6 && x->u[c] == 1)
        x->u[c] = 1u << s, x->s[c] = s + 1;
    else if (s < 6)
        x->u[c]--;
    for (; x->low >> 24 == x->high >> 24; x->ran++) {
        x->low <<= 8;
        x->high = x->high << 8 | 255;
        x->v = x->v << 8 | next_byte(x);
    }
    return one;
}

/* The map at (x + right, y - above) of the plane of element i, which comes before it. */
static unsigned near(const struct ref_tile *t, const uint8_t *map, uint64_t i, int right,
                     uint64_t above) {
    const uint64_t w = t->extent[3], x = i % w, y = i / w % t->extent[2];
    if (above > y || (right < 0 && x < (uint64_t)-right) || (right > 0 && x + 1 >= w)) return 0;
    return map[i - above * w + (uint64_t)(int64_t)right];
}

static unsigned around(const struct ref_tile *t, const uint8_t *map, uint64_t i) {
    unsigned c = near(t, map, i, -1, 0) | near(t, map, i, 0, 1) << 1;
    c |= near(t, map, i, 1, 1) << 2 | near(t, map, i, -1, 1) << 3;
    c |= near(t, map, i, -2, 0) << 4 | near(t, map, i, 0, 2) << 5;
    c |= (unsigned)(i % t->extent[3] % 2) << 6;
    return c | (unsigned)(i / t->extent[3] % t->extent[2] % 2) << 7;
}

static bool bit_by_bit(struct ref_reader *r, const struct ref_tile *t, uint8_t *map) {
    const uint8_t *u24, *bytes;
    struct bits x;
    if (!ref_take(r, 3, &u24) || !ref_take(r, ref_le(u24, 3), &bytes)) return false;
    begin(&x, bytes, ref_le(u24, 3));
    for (uint64_t i = 0; i < t->count; i++) {
        map[i] = read_bit(&x, around(t, map, i));
    }
    if (x.ran > x.length || x.length > x.ran + 4) return false;
    return true;
}

/* ---- Zero maps in lanes ----------------------------------------------------------------------*/

struct bit_string {
    const uint8_t *bytes;
    uint64_t bits, next;
};

static bool string_bit(struct bit_string *s, unsigned *bit) {
    if (s->next == s->bits) return false;
    *bit = ref_bit(s->bytes, s->next++);
    return true;
}

/* As many ones as bits come after the 0: those of the number below its highest. It is one more than
 * the difference. */
static bool difference(struct bit_string *s, int *level) {
    unsigned length = 0, bit = 1, low = 0;
    for (;;) {
        if (!string_bit(s, &bit)) return false;
        if (!bit) break;
        if (++length > 5) return false;
    }
    for (unsigned i = 0; i < length; i++) {
        if (!string_bit(s, &bit)) return false;
        low |= bit << i;
    }
    const int d = (int)((1u << length) + low - 1);
    *level += d % 2 ? -(d + 1) / 2 : d / 2;
    if (*level < 0 || *level > 31) return false;
    return true;
}

static bool read_levels(struct bit_string *s, unsigned mask, unsigned *chance) {
    static const unsigned below[16] = {2,   5,   12,  24,  45,   78,   127,  197,
                                       293, 419, 580, 778, 1013, 1281, 1576, 1889};
    int level[1024];
    for (unsigned c = 0; c < 1024; c++) {
        unsigned top = 512;
        while (top > 1 && !(c & top)) top /= 2;
        level[c] = c ? level[c & ~top] : 16;
        if (!(c & ~mask) && !difference(s, &level[c])) return false;
        chance[c] = level[c] < 16 ? below[level[c]] : level[c] == 16 ? 2207 : 0;
        if (level[c] > 16) chance[c] = 4096 - below[31 - level[c]];
    }
    return true;
}

/* What stands for the planes of the tile, and how many of them a lane has. */
static struct ref_tile planes_of(const struct ref_tile *t, uint64_t lanes, uint64_t *share) {
    struct ref_tile p = *t;
    const uint64_t planes = t->extent[0] * t->extent[1], rows = planes * t->extent[2];
    if (planes < lanes && rows >= 2 * lanes) {
        p.extent[2] = 2 * ((rows + 2 * lanes - 1) / (2 * lanes));
    } else if (planes < lanes) {
        p.extent[3] = 2 * ((t->count + 2 * lanes - 1) / (2 * lanes));
        p.extent[2] = 1;
    }
    const uint64_t area = p.extent[2] * p.extent[3];
    *share = ((t->count + area - 1) / area + lanes - 1) / lanes;
    return p;
}

static bool lane_bits(const struct ref_tile *p, uint64_t share, uint64_t lanes, unsigned mask,
                      const uint8_t *class, const unsigned *chance, const uint8_t *at,
                      const uint8_t *end, uint8_t *map) {
    const uint64_t area = p->extent[2] * p->extent[3], steps = share * area;
    uint32_t x[32];
    if ((uint64_t)(end - at) < 4 * lanes) return false;
    for (uint64_t j = 0; j < lanes; j++, at += 4) {
        x[j] = (uint32_t)ref_le(at, 4);
        if (x[j] < 65536) return false;
    }
    for (uint64_t step = 0; step < steps; step++)
        for (uint64_t j = 0; j < lanes && j * steps + step < p->count; j++) {
            const uint64_t i = j * steps + step;
            const unsigned c = around(p, map, i) | (unsigned)class[i / area] << 8;
            const unsigned one = chance[c & mask], slot = x[j] % 4096;
            map[i] = slot < one;
            x[j] = map[i] ? one * (x[j] / 4096) + slot : (4096 - one) * (x[j] / 4096) + slot - one;
            if (x[j] >= 65536) continue;
            if (end - at < 2) return false;
            x[j] = x[j] * 65536 + (uint32_t)ref_le(at, 2);
            at += 2;
        }
    for (uint64_t j = 0; j < lanes; j++)
        if (x[j] != 65536) return false;
    return at == end;
}

static bool lanes_in(const uint8_t *bytes, uint64_t length, const struct ref_tile *t,
                     uint8_t *class, uint8_t *map) {
    unsigned chance[1024];
    uint64_t share;
    if (length < 3 || bytes[0] > 5) return false;
    const uint64_t lanes = UINT64_C(1) << bytes[0];
    const unsigned mask = (unsigned)ref_le(bytes + 1, 2);
    const struct ref_tile p = planes_of(t, lanes, &share);
    const uint64_t area = p.extent[2] * p.extent[3];
    struct bit_string s = {bytes, 8 * length, 24};
    if (mask > 1023) return false;
    for (uint64_t k = 0; k * area < t->count; k++) {
        class[k] = 0;
        for (unsigned i = 0; i < 2; i++) {
            if (!(mask >> (8 + i) & 1)) continue;
            unsigned bit;
            if (!string_bit(&s, &bit)) return false;
            class[k] = (uint8_t)(class[k] | bit << i);
        }
    }
    if (!read_levels(&s, mask, chance)) return false;
    for (; s.next % 8; s.next++)
        if (ref_bit(bytes, s.next)) return false;
    if (!lane_bits(&p, share, lanes, mask, class, chance, bytes + s.next / 8, bytes + length, map))
        return false;
    REF_CASE("lanes of zero maps", 0x15, bytes[0]);
    return true;
}

static bool in_lanes(struct ref_reader *r, const struct ref_tile *t, uint8_t *map) {
    const uint8_t *u24, *bytes;
    if (!ref_take(r, 3, &u24) || !ref_take(r, ref_le(u24, 3), &bytes)) return false;
    uint8_t *const class = malloc(t->count);
    const bool good = class && lanes_in(bytes, ref_le(u24, 3), t, class, map);
    free(class);
    return good;
}

static bool as_piece(struct ref_reader *r, uint64_t c, uint8_t *map) {
    uint8_t *const bytes = malloc((c + 7) / 8);
    bool good = bytes && ref_piece(r, (c + 7) / 8, bytes);
    for (uint64_t i = 0; good && i < c; i++) map[i] = ref_bit(bytes, i);
    for (uint64_t i = c; good && i % 8; i++) good = !ref_bit(bytes, i);
    free(bytes);
    return good;
}

static bool read_map(struct ref_reader *r, const struct ref_tile *t, unsigned revision,
                     uint8_t *map) {
    const uint8_t *form;
    if (!ref_take(r, 1, &form) || *form > (revision < 3 ? 2 : 3)) return false;
    if (*form == 1) memset(map, 1, t->count);
    if (*form == 1) return true;
    if (*form == 3) return in_lanes(r, t, map);
    return *form ? bit_by_bit(r, t, map) : as_piece(r, t->count, map);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

static int64_t expected(const struct ref_tile *t, const int32_t *codes, uint64_t i) {
    const uint64_t w = t->extent[3], x = i % w, y = i / w % t->extent[2];
    const int64_t a = x ? codes[i - 1] : 0, b = y ? codes[i - w] : 0;
    const int64_t d = x && y ? codes[i - w - 1] : 0, plane = a + b - d;
    const int64_t low = a < b ? a : b, high = a < b ? b : a;
    if (a == 0 || b == 0) return a + b;
    return plane < low ? low : plane > high ? high : plane;
}

static void read_codes(const struct ref_tile *t, unsigned form, const uint8_t *map,
                       const uint32_t *words, int32_t *codes) {
    REF_CASE("act form", REF_UP_TO(2), form);
    for (uint64_t i = 0; i < t->count; i++) {
        codes[i] = 0;
        if (!map[i]) continue;
        const uint32_t w = *words++;
        const int32_t n = ref_number(w);
        if (form == 0) codes[i] = n >= 0 ? (int32_t)((uint32_t)n + 1) : n;
        if (form == 1) codes[i] = (int32_t)(w + 1);
        if (form == 2) codes[i] = (int32_t)((uint32_t)n + (uint32_t)expected(t, codes, i));
    }
}

static bool read_block(const struct ref_block *b, uint8_t *map, uint32_t *words, int32_t *codes) {
    struct ref_reader r = {b->bytes, b->length,
                           b->frame->revision >= 2 ? REF_ZSTD_AND_RANS : REF_ZSTD};
    struct ref_exact exact;
    const uint8_t *head;
    uint64_t m = 0;
    if (!ref_take(&r, 1, &head) || *head > 7 || (*head & 3) == 3) return false;
    if (!ref_take_exact(&r, b, &exact) || !read_map(&r, b->tile, b->frame->revision, map))
        return false;
    for (uint64_t i = 0; i < b->count; i++) m += map[i];
    if (m && !(*head & 4 ? ref_coded(&r, m, words) : ref_packed(&r, m, words))) return false;
    if (r.left) return false;
    read_codes(b->tile, *head & 3, map, words, codes);
    for (uint64_t i = 0; i < b->count; i++) ref_put_value(b->frame, codes[i], b->out, i);
    ref_put_exact(b, &exact);
    return true;
}

static enum ref_status decode(const struct ref_block *b) {
    if (b->plain) return ref_plain(b);
    uint8_t *const map = malloc(b->count);
    uint32_t *const words = malloc(4 * b->count);
    int32_t *const codes = malloc(4 * b->count);
    const bool allocated = map && words && codes,
               good = allocated && read_block(b, map, words, codes);
    free(map);
    free(words);
    free(codes);
    return good ? REF_OK : allocated ? REF_CORRUPT : REF_MEMORY;
}

/* ---- The codec -------------------------------------------------------------------------------*/

static uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

static void runs(struct ref_frame *f) {
    uint64_t m = f->block;
    for (int d = 3; d >= 0; d--) {
        const uint64_t k = ceil_div(f->shape[d], m);
        f->extent[d] = ceil_div(f->shape[d], k);
        m /= f->extent[d];
        if (k > 1) return;
    }
}

static bool cut(struct ref_frame *f) { return ref_cut_tiles(f, runs); }

static enum ref_status check(const struct ref_frame *f) { return ref_check_bounded(f, 2, 3, 8); }

static unsigned only_revision(const struct ref_frame *f) {
    return f->parameter[1] == 0 ? 1 : 0; /* mode fast codes no strings */
}

const struct ref_codec ref_codec_act = {
    .name = "act",
    .revision = 3,
    .dtypes = 0x1E,
    .bases = 1,
    .section = BOUND,
    .read_section = ref_read_bound,
    .check = check,
    .only_revision = only_revision,
    .cut = cut,
    .block_bytes = ref_plain_bytes,
    .decode = decode,
};
