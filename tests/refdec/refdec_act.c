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

static bool bit_by_bit(struct ref_reader *r, const struct ref_tile *t, uint8_t *map) {
    const uint8_t *u24, *bytes;
    struct bits x;
    if (!ref_take(r, 3, &u24) || !ref_take(r, ref_le(u24, 3), &bytes)) return false;
    begin(&x, bytes, ref_le(u24, 3));
    for (uint64_t i = 0; i < t->count; i++) {
        unsigned c = near(t, map, i, -1, 0) | near(t, map, i, 0, 1) << 1;
        c |= near(t, map, i, 1, 1) << 2 | near(t, map, i, -1, 1) << 3;
        c |= near(t, map, i, -2, 0) << 4 | near(t, map, i, 0, 2) << 5;
        c |= (unsigned)(i % t->extent[3] % 2) << 6;
        c |= (unsigned)(i / t->extent[3] % t->extent[2] % 2) << 7;
        map[i] = read_bit(&x, c);
    }
    if (x.ran > x.length || x.length > x.ran + 4) return false;
    return true;
}

static bool as_piece(struct ref_reader *r, uint64_t c, uint8_t *map) {
    uint8_t *const bytes = malloc((c + 7) / 8);
    bool good = bytes && ref_piece(r, (c + 7) / 8, bytes);
    for (uint64_t i = 0; good && i < c; i++) map[i] = ref_bit(bytes, i);
    for (uint64_t i = c; good && i % 8; i++) good = !ref_bit(bytes, i);
    free(bytes);
    return good;
}

static bool read_map(struct ref_reader *r, const struct ref_tile *t, uint8_t *map) {
    const uint8_t *form;
    if (!ref_take(r, 1, &form) || *form > 2) return false;
    if (*form == 1) memset(map, 1, t->count);
    if (*form == 1) return true;
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
    if (!ref_take_exact(&r, b, &exact) || !read_map(&r, b->tile, map)) return false;
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
    .revision = 2,
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
