/* draw.c - turns the end of an input into specs, layouts, views and values.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

uint8_t fuzz_u8(struct fuzz_source *s) { return s->length ? s->bytes[--s->length] : 0; }

uint32_t fuzz_u32(struct fuzz_source *s) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) value = value << 8 | fuzz_u8(s);
    return value;
}

struct fuzz_source fuzz_split(struct fuzz_source *s, size_t length) {
    if (length > s->length) length = s->length;
    s->length -= length;
    return (struct fuzz_source){length ? s->bytes + s->length : NULL, length};
}

uint32_t fuzz_below(struct fuzz_source *s, uint32_t n) {
    const uint32_t value = n <= 256 ? fuzz_u8(s) : fuzz_u32(s);
    return n ? value % n : 0;
}

/* ---- Specs: the keys' texts say which values they take ---------------------------------------*/

static void nth_of(const char *list, char separator, uint32_t n, char *out, size_t cap) {
    for (; n; n--) list = strchr(list, separator) + 1;
    const char *end = strchr(list, separator);
    const int length = end ? (int)(end - list) : (int)strlen(list);
    snprintf(out, cap, "%.*s", length, list);
}

/* What follows a blank is a condition, not a value. */
static uint32_t pieces(const char *list, char separator) {
    uint32_t n = 1;
    while ((list = strchr(list, separator)) && list[1] != ' ') n++, list++;
    return n;
}

/* A name that stands for digits. */
static void draw_digits(struct fuzz_source *s, char *out, size_t cap) {
    char *const beta = strstr(out, "BETA");
    if (beta) snprintf(beta, cap - (size_t)(beta - out), "%03u", fuzz_below(s, 1000));
}

/* Of a key that takes any number: small and large bounds, decibels, factors. */
static bool draw_real(const pith_key_info *key, struct fuzz_source *s, char *out, size_t cap) {
    const bool decibels = strstr(key->values, "decibels") != NULL;
    if (!decibels && !strstr(key->values, "a number")) return false;
    const uint32_t m = 1 + fuzz_below(s, 250);
    const int e = decibels ? 0 : (int)fuzz_below(s, 12) - (fuzz_u8(s) % 8 ? 8 : 50);
    snprintf(out, cap, "%ue%d", m, e);
    return true;
}

/* Large ranges are drawn near their lower end: workspace grows with the block. */
static void draw_value(const pith_key_info *key, struct fuzz_source *s, char *out, size_t cap) {
    const char *range = strstr(key->values, "..");
    if (strchr(key->values, '|')) {
        nth_of(key->values, '|', fuzz_below(s, pieces(key->values, '|')), out, cap);
        draw_digits(s, out, cap);
    } else if (range) {
        const uint64_t low = strtoull(key->values, NULL, 10), high = strtoull(range + 2, NULL, 10);
        const bool power = strstr(key->values, "power of two") != NULL;
        uint64_t value = power ? low << fuzz_below(s, 11) : low + fuzz_below(s, 7);
        if (value == 6 && high == UINT32_MAX) value = high;
        if (value > high) value = high;
        snprintf(out, cap, "%" PRIu64, value);
    } else {
        nth_of(key->values, ',', fuzz_below(s, pieces(key->values, ',')), out, cap);
    }
}

static void draw_spec(struct fuzz_layout *l, struct fuzz_source *s) {
    pith_codec_info codec = {.size = sizeof codec};
    pith_key_info key = {.size = sizeof key};
    uint32_t codecs = 0;
    while (pith_codec_at(codecs, &codec) == PITH_OK) codecs++;
    const uint32_t c = fuzz_below(s, codecs);
    FUZZ_CHECK(pith_codec_at(c, &codec) == PITH_OK);
    l->traits = codec.traits;
    size_t at = (size_t)snprintf(l->spec, sizeof l->spec, "%s", codec.name);
    char separator = ':';
    for (uint32_t k = 0; pith_codec_key_at(c, k, &key) == PITH_OK; k++) {
        char value[32];
        if (fuzz_u8(s) & 1) continue;
        /* Most of these exclude each other. */
        const bool real = draw_real(&key, s, value, sizeof value);
        if (real && fuzz_u8(s) % 4) continue;
        if (!real) draw_value(&key, s, value, sizeof value);
        at += (size_t)snprintf(l->spec + at, sizeof l->spec - at, "%c%s=%s", separator, key.name,
                               value);
        separator = ',';
    }
    FUZZ_CHECK(at < sizeof l->spec);
}

/* ---- Layouts ---------------------------------------------------------------------------------*/

static uint32_t draw_float(struct fuzz_source *s) { return 1u + fuzz_below(s, 3); }

static void draw_shape(struct fuzz_layout *l, struct fuzz_source *s) {
    const uint8_t how = fuzz_u8(s);
    uint64_t remaining = how & 0x80 ? FUZZ_COUNT_MAX : 300;
    l->layout.ndim = (how & 7) > 5 ? (how >> 3) & 7 : (how & 7) % 3;
    l->count = 1;
    for (uint32_t d = 0; d < l->layout.ndim; d++) {
        const uint64_t extent = fuzz_below(s, (uint32_t)remaining + 1);
        l->layout.shape[d] = extent;
        l->count *= extent;
        if (extent) remaining = remaining / extent ? remaining / extent : 1;
    }
}

static void draw_slots(struct fuzz_layout *l, struct fuzz_source *s) {
    const uint8_t how = fuzz_u8(s);
    if (how & 1) return;
    l->layout.slots = 1u + (how >> 4) % FUZZ_SLOTS_MAX;
    if ((how & 6) == 2) {
        l->layout.slot_count =
            (l->count + l->layout.slots - 1) / l->layout.slots + fuzz_below(s, 20);
    } else if ((how & 6) == 4) {
        uint64_t left = l->count;
        for (uint64_t i = 0; i < l->layout.slots; i++) {
            const bool last = i + 1 == l->layout.slots;
            l->slot_counts[i] = last ? left : fuzz_below(s, (uint32_t)left + 1);
            left -= l->slot_counts[i];
        }
        l->layout.slot_counts = l->slot_counts;
    }
}

/* One in sixteen is not where or what it may be. */
static void draw_exempt(struct fuzz_layout *l, struct fuzz_source *s) {
    uint64_t at = 0;
    l->layout.exempt = l->exempt;
    for (uint32_t n = 1 + fuzz_below(s, FUZZ_EXEMPT_MAX); n && at < l->count; n--) {
        const uint8_t how = fuzz_u8(s);
        pith_exempt *e = &l->exempt[l->layout.exempt_count++];
        e->first = how & 1 ? at + fuzz_below(s, (uint32_t)(l->count - at)) : at;
        const uint64_t left = l->count - e->first;
        e->count = 1 + fuzz_below(s, how & 2 || left < 8 ? (uint32_t)left : 8);
        e->how = how & 4 ? PITH_EXEMPT_16 : PITH_EXEMPT_EXACT;
        at = e->first + e->count;
        if (how >> 4) continue;
        if (how & 8)
            e->how = fuzz_u8(s);
        else
            e->first = fuzz_u8(s) % 2 ? fuzz_u8(s) : UINT64_MAX - fuzz_u8(s);
    }
}

void fuzz_draw_layout(struct fuzz_layout *l, struct fuzz_source *s) {
    memset(l, 0, sizeof *l);
    l->layout.size = sizeof l->layout;
    draw_spec(l, s);
    const uint8_t how = fuzz_u8(s);
    l->layout.dtype = how & 1 ? 1u + fuzz_below(s, 15) : draw_float(s);
    if ((l->traits & PITH_TRAIT_BASE) && !(how & 2))
        l->layout.base_dtype = l->traits & PITH_TRAIT_LOSSLESS ? l->layout.dtype : draw_float(s);
    if (how & 4) l->layout.flags |= PITH_LAYOUT_CHECKSUMS;
    draw_shape(l, s);
    draw_slots(l, s);
    if ((how & 24) == 24) {
        l->layout.source = l->source;
        l->layout.source_bytes = fuzz_below(s, FUZZ_SOURCE_MAX + 1);
    }
    if ((l->traits & PITH_TRAIT_EXEMPT) && how & 32) draw_exempt(l, s);
}

/* ---- Views -----------------------------------------------------------------------------------*/

void fuzz_tensor_new(struct fuzz_tensor *t, struct fuzz_source *s, bool dense, uint32_t dtype,
                     uint32_t ndim, const uint64_t *shape) {
    const uint8_t how = dense ? 0 : fuzz_u8(s);
    const size_t element = pith_dtype_bytes(dtype);
    uint64_t extent = 1, first = 0;
    t->view = pith_view_dense(NULL, dtype, ndim, shape);
    t->count = pith_view_count(&t->view);
    for (uint32_t d = ndim; d--;) {
        const int64_t step = (int64_t)extent * (how >> (d % 4 * 2) & 1 ? 2 : 1);
        const bool negative = how >> (d % 4 * 2) & 2;
        t->view.stride[d] = negative ? -step : step;
        if (t->count == 0) continue;
        if (negative) first += (shape[d] - 1) * (uint64_t)step;
        extent = (shape[d] - 1) * (uint64_t)step + extent;
    }
    t->bytes = t->count ? (size_t)extent * element : 0;
    t->memory = guard_new(t->bytes);
    if (t->bytes) memset(t->memory, 0xA5, t->bytes);
    t->view.data = t->memory + (t->count ? first * element : 0);
}

void fuzz_tensor_free(struct fuzz_tensor *t) { guard_free(t->memory, t->bytes); }

uint8_t *fuzz_at(const struct fuzz_tensor *t, uint64_t i) {
    int64_t at = 0;
    for (uint32_t d = t->view.ndim; d--;) {
        at += (int64_t)(i % t->view.shape[d]) * t->view.stride[d];
        i /= t->view.shape[d];
    }
    return (uint8_t *)t->view.data + at * (int64_t)pith_dtype_bytes(t->view.dtype);
}

bool fuzz_same(const struct fuzz_tensor *a, const struct fuzz_tensor *b) {
    const size_t element = pith_dtype_bytes(a->view.dtype);
    if (a->view.dtype != b->view.dtype || a->count != b->count) return false;
    for (uint64_t i = 0; i < a->count; i++)
        if (memcmp(fuzz_at(a, i), fuzz_at(b, i), element) != 0) return false;
    return true;
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* Bits of a float of the dtype's size whose exponent is near that of 1, so that differences and
 * scales stay finite; what is left of the bits is the input's. */
static void moderate(uint8_t *at, uint32_t dtype) {
    uint32_t u32;
    uint16_t u16;
    if (dtype == PITH_F32) {
        memcpy(&u32, at, 4);
        u32 = (u32 & 0x83FFFFFFu) | 0x3C000000u;
        memcpy(at, &u32, 4);
    } else if (dtype == PITH_BF16 || dtype == PITH_F16) {
        memcpy(&u16, at, 2);
        u16 = (uint16_t)(dtype == PITH_F16 ? (u16 & 0x8FFFu) | 0x3000u : (u16 & 0x83FFu) | 0x3C00u);
        memcpy(at, &u16, 2);
    }
}

void fuzz_fill(struct fuzz_tensor *t, struct fuzz_source *s) {
    const uint8_t how = fuzz_u8(s);
    const size_t element = pith_dtype_bytes(t->view.dtype);
    uint32_t state = how;
    for (uint64_t i = 0; i < t->count; i++) {
        uint8_t *at = fuzz_at(t, i);
        for (size_t k = 0; k < element; k++) {
            const uint8_t byte = s->length ? s->bytes[(i * element + k) % s->length] : 0;
            state = state * 1664525u + 1013904223u;
            at[k] = how & 1 ? (uint8_t)(byte ^ state >> 24) : byte;
        }
        const bool wild = (how & 6) == 6 || ((how & 6) == 4 && i == (uint64_t)(how >> 3) * 8);
        if (!wild) moderate(at, t->view.dtype);
    }
}
