/* kv_model.c - what a cache of tokens holds, by one-shot calls alone.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kv_model.h"

#include <stdlib.h>
#include <string.h>

#include "pith/pith.h"

static void *memory(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    if (!p) abort();
    return p;
}

static size_t elements(const struct kv_model *m) { return (size_t)m->set.heads * m->set.dim; }

size_t kv_model_row(const struct kv_model *m) {
    return elements(m) * pith_dtype_bytes(m->set.dtype);
}

/* Dense rows from a token on, in the layout's dtype. */
static const void *kv_model_rows(const struct kv_model *m, uint64_t first) {
    return m->exact + first * kv_model_row(m);
}

void kv_model_open(struct kv_model *m, const struct kv_setting *set, uint64_t capacity) {
    *m = (struct kv_model){.set = *set, .capacity = capacity};
    m->exact = memory((size_t)capacity * kv_model_row(m));
    for (uint32_t i = 0; i < 3; i++)
        m->decoded[i] = memory((size_t)capacity * elements(m) * pith_dtype_bytes(1 + i));
}

void kv_model_close(struct kv_model *m) {
    free(m->exact);
    for (uint32_t i = 0; i < 3; i++) free(m->decoded[i]);
}

void kv_model_copy(struct kv_model *to, const struct kv_model *from) {
    kv_model_open(to, &from->set, from->capacity);
    to->tokens = from->tokens;
    to->finished = from->finished;
    memcpy(to->exact, from->exact, (size_t)from->tokens * kv_model_row(from));
    for (uint32_t i = 0; i < 3; i++)
        memcpy(to->decoded[i], from->decoded[i],
               (size_t)from->finished * elements(from) * pith_dtype_bytes(1 + i));
}

/* ---- Tokens ----------------------------------------------------------------------------------*/

/* Code and decode what is finished together. */
static bool finish(struct kv_model *m, uint64_t count) {
    const uint64_t shape[3] = {count, m->set.heads, m->set.dim};
    const pith_view in = pith_view_dense(kv_model_rows(m, m->finished), m->set.dtype, 3, shape);
    uint64_t bytes;
    size_t n;
    if (pith_compress_bound(m->set.spec, &in, NULL, NULL, &bytes, NULL)) return false;
    void *frame = memory((size_t)bytes);
    bool good = !pith_compress(m->set.spec, &in, NULL, NULL, NULL, frame, (size_t)bytes, &n, NULL);
    for (uint32_t i = 0; good && i < 3; i++) {
        uint8_t *to = m->decoded[i] + m->finished * elements(m) * pith_dtype_bytes(1 + i);
        const pith_view out = pith_view_dense(to, 1 + i, 3, shape);
        good = !pith_decompress(frame, n, NULL, NULL, &out, NULL);
    }
    free(frame);
    m->finished += count;
    return good;
}

bool kv_model_append(struct kv_model *m, const void *rows, uint64_t count) {
    const uint64_t window = m->set.window, page = m->set.page;
    memcpy(m->exact + m->tokens * kv_model_row(m), rows, (size_t)count * kv_model_row(m));
    m->tokens += count;
    while (m->tokens - m->finished > window) {
        const uint64_t old = m->tokens - m->finished - window;
        if (m->set.channel && old < page) break;
        if (!finish(m, m->set.channel ? page : old)) return false;
    }
    return true;
}

void kv_model_truncate(struct kv_model *m, uint64_t tokens) {
    m->tokens = tokens;
    if (m->finished > tokens) m->finished = tokens;
}

/* ---- Reading ---------------------------------------------------------------------------------*/

/* Bits of f32 rounded to a float of 16 bits with so many of mantissa: nearest even. */
static uint16_t narrow(uint32_t u, int mantissa) {
    const int low = mantissa == 7 ? 1 : 113; /* f32 exponent of the smallest normal number */
    const uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
    const uint16_t infinity = (uint16_t)(mantissa == 7 ? 0x7F80u : 0x7C00u);
    const int exponent = (int)(u >> 23 & 255);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(infinity | infinity >> 1);
    uint64_t m = u & 0x7FFFFFu;
    if (exponent) m |= 0x800000u;
    int drop = 23 - mantissa;
    const int e = exponent ? exponent : 1;
    if (e < low) drop += low - e;
    if (drop > 30) return sign;
    uint64_t q = m >> drop;
    const uint64_t rest = m & ((UINT64_C(1) << drop) - 1), half = UINT64_C(1) << (drop - 1);
    q += rest > half || (rest == half && (q & 1));
    if (e > low) q += (uint64_t)(e - low) << mantissa;
    return (uint16_t)(sign | (q < infinity ? q : infinity));
}

static uint32_t widen(const uint8_t *at, uint32_t dtype) {
    uint32_t u = 0;
    memcpy(&u, at, pith_dtype_bytes(dtype));
    if (dtype == PITH_F32) return u;
    if (dtype == PITH_BF16) return u << 16;
    const uint32_t sign = (u & 0x8000u) << 16, e = u >> 10 & 31, m = u & 1023;
    if (e == 31) return sign | 0x7F800000u | m << 13;
    float x = (float)(e ? m | 1024 : m);
    for (uint32_t k = e ? e : 1; k < 25; k++) x *= 0.5f;
    for (uint32_t k = 25; k < e; k++) x *= 2;
    memcpy(&u, &x, sizeof u);
    return sign | u;
}

static void get_exact(const uint8_t *at, uint32_t from, uint32_t dtype, void *to) {
    if (from == dtype) {
        memcpy(to, at, pith_dtype_bytes(dtype));
        return;
    }
    uint32_t u = widen(at, from);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) u = 0x7FC00000u;
    const uint16_t h = dtype == PITH_F32 ? 0 : narrow(u, dtype == PITH_BF16 ? 7 : 10);
    if (dtype == PITH_F32)
        memcpy(to, &u, sizeof u);
    else
        memcpy(to, &h, sizeof h);
}

void kv_model_get(const struct kv_model *m, uint64_t token, uint32_t head, uint32_t d,
                  uint32_t dtype, void *to) {
    const size_t at = (size_t)token * elements(m) + (size_t)head * m->set.dim + d;
    const size_t element = pith_dtype_bytes(dtype);
    if (token < m->finished)
        memcpy(to, m->decoded[dtype - 1] + at * element, element);
    else
        get_exact(m->exact + at * pith_dtype_bytes(m->set.dtype), m->set.dtype, dtype, to);
}
