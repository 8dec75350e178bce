/* exact_values.c - values that a codec with a bound stores as they are, beside its codes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/exact_values.h"

#include <string.h>

#include "common/endian.h"
#include "common/popcount.h"
#include "pith/pith.h"

enum { POSITION_BYTES = 4 };

static size_t bitmap_bytes(size_t count) { return (count + 7) / 8; }

static bool as_bitmap(size_t misses, size_t count) {
    return misses > bitmap_bytes(count) / POSITION_BYTES;
}

static bool missed(const uint8_t *bits, size_t i) { return bits[i / 8] >> (i % 8) & 1; }

/* Returns the first set bit from i on; count when there is none before. */
static size_t next_miss(const uint8_t *bits, size_t i, size_t count) {
    while (i < count && i / 8 + 8 <= bitmap_bytes(count)) {
        const uint64_t word = pithi_get64(bits + i / 8) >> i % 8;
        if (!word) {
            i += 64 - i % 8;
            continue;
        }
        i += (size_t)__builtin_ctzll(word);
        return i < count ? i : count;
    }
    while (i < count && !missed(bits, i)) i++;
    return i < count ? i : count;
}

static bool put_positions(struct pithi_pen *pen, const uint8_t *miss, size_t count) {
    uint8_t word[POSITION_BYTES];
    for (size_t i = next_miss(miss, 0, count); i < count; i = next_miss(miss, i + 1, count)) {
        pithi_put32(word, (uint32_t)i);
        if (!pithi_pen_put(pen, word, sizeof word)) return false;
    }
    return true;
}

/* Writes the missed values, of a constant size, run by run. */
static inline bool put_values(struct pithi_pen *pen, const uint8_t *miss,
                              const struct pithi_tile_layout *values, size_t element,
                              size_t count) {
    struct pithi_tile_layout_walk walk;
    uint8_t *to = pen->at, *const end = to + pen->capacity;
    pithi_tile_layout_begin(&walk, values);
    for (size_t at = 0, n; at < count; at += n) {
        const uint8_t *const run = pithi_tile_layout_next(&walk, count - at, &n);
        if (!n) break;
        for (size_t i = next_miss(miss, at, at + n); i < at + n;
             i = next_miss(miss, i + 1, at + n)) {
            if ((size_t)(end - to) < element) return false;
            memcpy(to, run + (i - at) * element, element);
            to += element;
        }
    }
    pen->at = to;
    pen->capacity = (size_t)(end - to);
    return true;
}

bool pithi_exact_put(struct pithi_pen *pen, const uint8_t *miss, size_t misses,
                     const struct pithi_tile_layout *values, size_t count) {
    uint8_t head[POSITION_BYTES];
    pithi_put32(head, (uint32_t)misses);
    if (!pithi_pen_put(pen, head, sizeof head)) return false;
    if (!misses) return true;
    const bool bitmap = as_bitmap(misses, count);
    if (bitmap ? !pithi_pen_put(pen, miss, bitmap_bytes(count)) : !put_positions(pen, miss, count))
        return false;
    if (values->tiling && !bitmap) { /* fewer than runs, mostly */
        for (size_t i = next_miss(miss, 0, count); i < count; i = next_miss(miss, i + 1, count))
            if (!pithi_pen_put(pen, pithi_tile_layout_at(values, i), values->element)) return false;
        return true;
    }
    switch (values->element) {
    case 2: return put_values(pen, miss, values, 2, count);
    case 4: return put_values(pen, miss, values, 4, count);
    default: return put_values(pen, miss, values, 8, count);
    }
}

/* ---- Reading ---------------------------------------------------------------------------------*/

static const char *check_positions(const struct pithi_exact *e) {
    uint64_t next = 0;
    for (size_t i = 0; i < e->misses; i++) {
        const uint32_t at = pithi_get32(e->which + POSITION_BYTES * i);
        if (at < next || at >= e->count) return "positions of exact values out of order";
        next = (uint64_t)at + 1;
    }
    return NULL;
}

static const char *check_bitmap(const struct pithi_exact *e) {
    const size_t ones = pithi_ones(e->which, bitmap_bytes(e->count));
    const unsigned used = e->count % 8;
    if (used && e->which[e->count / 8] >> used) return "bits after the last of a bitmap are not 0";
    return ones == e->misses ? NULL : "a bitmap of exact values has another count";
}

const char *pithi_exact_take(struct pithi_reader *r, struct pithi_exact *e, size_t element,
                             size_t count) {
    const uint8_t *const head = pithi_reader_take(r, POSITION_BYTES);
    if (!head) return "the exact values are cut";
    *e = (struct pithi_exact){.misses = pithi_get32(head), .count = count, .element = element};
    if (!e->misses) return NULL;
    if (e->misses > count) return "more exact values than elements";
    e->bitmap = as_bitmap(e->misses, count);
    e->which = pithi_reader_take(r, e->bitmap ? bitmap_bytes(count) : POSITION_BYTES * e->misses);
    if (!e->which) return "the exact values are cut";
    e->values = pithi_reader_take(r, e->misses * element);
    if (!e->values) return "the exact values are cut";
    return e->bitmap ? check_bitmap(e) : check_positions(e);
}

void pithi_exact_merge(struct pithi_exact *e, size_t at, size_t count, void *values) {
    for (; e->number < e->misses; e->number++, e->next++) {
        e->next = e->bitmap ? next_miss(e->which, e->next, e->count)
                            : pithi_get32(e->which + POSITION_BYTES * e->number);
        if (e->next - at >= count) return;
        memcpy((uint8_t *)values + (e->next - at) * e->element, e->values + e->number * e->element,
               e->element);
    }
}

void pithi_exact_patch(const struct pithi_exact *e, const struct pithi_sink *to) {
    size_t at = 0;
    for (size_t k = 0; k < e->misses; k++, at++) {
        at = e->bitmap ? next_miss(e->which, at, e->count)
                       : pithi_get32(e->which + POSITION_BYTES * k);
        to->put(to->arg, at, 1, e->values + k * e->element);
    }
}
