/* hadamard_tmpl.h - the rotation's loops, written once over 16-lane vectors of each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h and defines:
 *   transform16(x)         the transform of the 16 lanes of x
 *   OWN_TRANSFORM32        a macro, where 32 values have a way of their own; then f_transform32 and
 *                          f_transform32x4 instead
 *   f_flip(x, signs)       the signs of lanes, by bits
 *   f_narrow_two(...)      32 values, rounded loosely, to 16 bits each
 * group/hadamard.c says what must come out. */
#include "common/lanes_tmpl.h"
#include "group/hadamard.h"

#ifndef OWN_TRANSFORM32
static inline __attribute__((always_inline)) void f_transform32(v16 v[2]) {
    const v16 a = transform16(v[0]), b = transform16(v[1]);
    v[0] = f_add(a, b);
    v[1] = f_sub(a, b);
}
static inline __attribute__((always_inline)) void f_transform32x4(v16 v[8]) {
    f_transform32(v);
    f_transform32(v + 2);
    f_transform32(v + 4);
    f_transform32(v + 6);
}
#endif

/* SIGNED elements have their signs drawn together; PREFETCH_READ is the prefetch distance of reads,
 * in bytes. */
enum { SIGNED = 4096, PREFETCH_READ = 4096 };

struct task {
    const uint8_t *from;
    uint8_t *to;
    uint32_t from_dtype;  /* inverse: f32 */
    const uint32_t *keep; /* one word for 32 elements, bit set: the sign stays; NULL: all stay */
    v16 factor, scale;    /* what the inverse multiplies by before and after */
    struct streamer stream;
    bool streamed;
};

ALWAYS void butterfly(v16 *a, v16 *b) {
    const v16 x = *a, y = *b;
    *a = f_add(x, y);
    *b = f_sub(x, y);
}

ALWAYS void flip32(const struct task *t, v16 v[2], size_t i) {
    const uint32_t word = ~t->keep[i / 32];
    v[0] = f_flip(v[0], word & 0xFFFF);
    v[1] = f_flip(v[1], word >> 16);
}

ALWAYS void prefetch(const struct task *t, size_t i) {
    const size_t size = width(t->from_dtype);
    __builtin_prefetch(t->from + i * size + PREFETCH_READ);
    if (size == 4) __builtin_prefetch(t->from + i * size + PREFETCH_READ + 64);
}

/* Loads 32 values other than f32. It is a function of its own, which keeps the loops small. */
static __attribute__((noinline)) void load_other(uint32_t dtype, const uint8_t *p, size_t i,
                                                 v16 v[2]) {
    v[0] = load(dtype, p, i);
    v[1] = load(dtype, p, i + 16);
}
ALWAYS void load32(uint32_t dtype, const uint8_t *p, size_t i, v16 v[2]) {
    v16 x[2]; /* an address of v would put it into memory */
    if (dtype == PITH_F32) {
        v[0] = v_load(p + 4 * i);
        v[1] = v_load(p + 4 * i + 64);
    } else {
        load_other(dtype, p, i, x);
        v[0] = x[0];
        v[1] = x[1];
    }
}

ALWAYS void take32(const struct task *t, bool inverse, v16 *v, size_t i) {
    load32(inverse ? PITH_F32 : t->from_dtype, t->from, i, v);
    if (inverse) {
        v[0] = f_mul(v[0], t->factor);
        v[1] = f_mul(v[1], t->factor);
    } else {
        prefetch(t, i);
        if (t->keep) flip32(t, v, i);
    }
    f_transform32(v);
}
ALWAYS void take64(const struct task *t, bool inverse, v16 *v, size_t i) {
    take32(t, inverse, v, i);
    take32(t, inverse, v + 2, i + 32);
    butterfly(v, v + 2);
    butterfly(v + 1, v + 3);
}
ALWAYS void take128(const struct task *t, bool inverse, v16 *v, size_t i) {
    take64(t, inverse, v, i);
    take64(t, inverse, v + 4, i + 64);
    butterfly(v, v + 4);
    butterfly(v + 1, v + 5);
    butterfly(v + 2, v + 6);
    butterfly(v + 3, v + 7);
}
ALWAYS void take256(const struct task *t, bool inverse, v16 *v, size_t i) {
    take128(t, inverse, v, i);
    take128(t, inverse, v + 8, i + 128);
    butterfly(v, v + 8);
    butterfly(v + 1, v + 9);
    butterfly(v + 2, v + 10);
    butterfly(v + 3, v + 11);
    butterfly(v + 4, v + 12);
    butterfly(v + 5, v + 13);
    butterfly(v + 6, v + 14);
    butterfly(v + 7, v + 15);
}

ALWAYS void put32(const struct task *t, bool inverse, struct streamer *stream, v16 *v, size_t i) {
    v16 x[2] = {v[0], v[1]};
    uint8_t *const to = t->to + 4 * i;
    if (inverse) {
        if (t->keep) flip32(t, x, i);
        x[0] = f_canonical(f_mul(x[0], t->scale));
        x[1] = f_canonical(f_mul(x[1], t->scale));
    }
    if (inverse && stream) {
        v_stream(stream, to, x[0]);
        v_stream(stream, to + 64, x[1]);
    } else {
        v_store(to, x[0]);
        v_store(to + 64, x[1]);
    }
}
ALWAYS void put64(const struct task *t, bool inverse, struct streamer *stream, v16 *v, size_t i) {
    put32(t, inverse, stream, v, i);
    put32(t, inverse, stream, v + 2, i + 32);
}
ALWAYS void put128(const struct task *t, bool inverse, struct streamer *stream, v16 *v, size_t i) {
    put64(t, inverse, stream, v, i);
    put64(t, inverse, stream, v + 4, i + 64);
}

/* Transforms one run of the order; with no order it moves 32 values. */
ALWAYS void transform_one(const struct task *t, bool inverse, uint32_t order, struct streamer *s,
                          size_t i) {
    v16 v[16];
    if (order == 0) {
        load32(inverse ? PITH_F32 : t->from_dtype, t->from, i, v);
        put32(t, inverse, s, v, i);
    } else if (order == 32) {
        take32(t, inverse, v, i);
        put32(t, inverse, s, v, i);
    } else if (order == 64) {
        take64(t, inverse, v, i);
        put64(t, inverse, s, v, i);
    } else if (order == 128) {
        take128(t, inverse, v, i);
        put128(t, inverse, s, v, i);
    } else {
        take256(t, inverse, v, i);
        put128(t, inverse, s, v, i);
        put128(t, inverse, s, v + 8, i + 128);
    }
}

ALWAYS void transform(struct task *t, bool inverse, uint32_t order, size_t count) {
    const struct task copy = *t; /* a copy that no store can alias */
    const size_t step = order ? order : 32;
    struct streamer stream = t->stream;
    if (inverse && t->streamed)
        for (size_t i = 0; i < count; i += step) transform_one(&copy, inverse, order, &stream, i);
    else
        for (size_t i = 0; i < count; i += step) transform_one(&copy, inverse, order, NULL, i);
    t->stream = stream;
}

ALWAYS void transform_any(struct task *t, bool inverse, uint32_t order, size_t count) {
    switch (order) {
    case 0: transform(t, inverse, 0, count); break;
    case 32: transform(t, inverse, 32, count); break;
    case 64: transform(t, inverse, 64, count); break;
    case 128: transform(t, inverse, 128, count); break;
    default: transform(t, inverse, 256, count);
    }
}
static __attribute__((noinline)) void transform_forward(struct task *t, uint32_t order,
                                                        size_t count) {
    transform_any(t, false, order, count);
}
static __attribute__((noinline)) void transform_inverse(struct task *t, uint32_t order,
                                                        size_t count) {
    transform_any(t, true, order, count);
}

/* ---- Signs -----------------------------------------------------------------------------------*/

/* Draws the signs of the elements from `first`, a multiple of 128, on. Words are inverted, as
 * random256 hands them out. */
static void draw_signs(uint32_t keep[SIGNED / 32], uint32_t key, uint64_t first) {
    const struct pithi_random random = pithi_sign_random(key);
    const uint64_t counter = first / 128, last = counter + SIGNED / 128;
    struct philox philox;
    if (counter >> 32 == last >> 32) {
        uint16_t drawn[SIGNED / 16];
        philox_init(&philox, &random, counter);
        random256(&philox, counter, drawn);
        memcpy(keep, drawn, sizeof drawn);
        return;
    }
    for (uint64_t i = 0; i < SIGNED / 32; i++) keep[i] = ~pithi_sign_word(key, first / 32 + i);
}

typedef void transform_fn(struct task *t, uint32_t order, size_t count);

/* Transforms whole runs of the order, up to SIGNED elements at a time when there are signs. */
static void transform_whole(struct task *t, transform_fn *fn, const struct pithi_rotation *r,
                            size_t count, uint64_t first) {
    uint32_t keep[SIGNED / 32];
    const size_t from = width(t->from_dtype), to = sizeof(float);
    while (count) {
        const bool drawn = r->signs && r->order;
        const size_t skip = drawn ? (size_t)(first % SIGNED) : 0, left = SIGNED - skip;
        const size_t n = drawn && left < count ? left : count;
        if (drawn) draw_signs(keep, r->signs, first - skip);
        t->keep = drawn ? keep + skip / 32 : NULL;
        fn(t, r->order, n);
        t->from += n * from;
        t->to += n * to;
        count -= n;
        first += n;
    }
}

/* ---- Entry -----------------------------------------------------------------------------------*/

static size_t whole_runs(const struct pithi_rotation *r, size_t count) {
    return count - count % (r->order ? r->order : 32);
}

static void rotate(const struct pithi_rotation *r, float *to, const void *from, uint32_t dtype,
                   size_t count, uint64_t first) {
    const size_t whole = whole_runs(r, count);
    const uint8_t *const rest = (const uint8_t *)from + whole * width(dtype);
    struct task t = {.from = from, .to = (uint8_t *)to, .from_dtype = dtype};
    transform_whole(&t, transform_forward, r, whole, first);
    if (whole < count) pithi_rotate_c(r, to + whole, rest, dtype, count - whole, first + whole);
}

/* Transforms whole runs back to f32. */
static void unrotate_whole(const struct pithi_rotation *r, void *to, float *x, size_t count,
                           uint64_t first, float scale, bool nontemporal) {
    struct task t = {.from = (const uint8_t *)x, .to = to, .from_dtype = PITH_F32};
    t.factor = v_set(pithi_bits(1.0f / (float)(r->order ? r->order : 1)));
    t.scale = v_set(pithi_bits(scale));
    t.streamed = nontemporal && v_stream_fits(to);
    v_stream_begin(&t.stream, to);
    transform_whole(&t, transform_inverse, r, count, first);
    if (t.streamed) v_stream_end(&t.stream, (uint8_t *)to + 4 * count);
}

/* Rounds to 16 bits, by ordinary stores or through *stream when that is not NULL. */
ALWAYS void narrow(uint32_t dtype, uint8_t *to, const float *x, size_t count,
                   struct streamer *stream) {
    for (size_t i = 0; i < count; i += 32) {
        const v16 a = load(PITH_F32, (const uint8_t *)x, i);
        const v16 b = load(PITH_F32, (const uint8_t *)x, i + 16);
        const v16 both = f_narrow_two(dtype, round_loosely(dtype, a), round_loosely(dtype, b));
        if (stream)
            v_stream(stream, to + 2 * i, both);
        else
            v_store(to + 2 * i, both);
    }
}

/* Transforms back in place while the cache has the values, then rounds to 16 bits. */
static void unrotate_narrow(const struct pithi_rotation *r, uint8_t *to, uint32_t dtype, float *x,
                            size_t count, uint64_t first, float scale, bool streamed) {
    struct streamer stream;
    v_stream_begin(&stream, to);
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < SIGNED ? count - i : SIGNED;
        unrotate_whole(r, x + i, x + i, n, first + i, scale, false);
        if (dtype == PITH_F16 && streamed)
            narrow(PITH_F16, to + 2 * i, x + i, n, &stream);
        else if (dtype == PITH_F16)
            narrow(PITH_F16, to + 2 * i, x + i, n, NULL);
        else
            narrow(PITH_BF16, to + 2 * i, x + i, n, streamed ? &stream : NULL);
    }
    if (streamed) v_stream_end(&stream, to + 2 * count);
}

static void unrotate_to(const struct pithi_rotation *r, void *to, uint32_t dtype, float *x,
                        size_t count, uint64_t first, float scale, bool nontemporal) {
    const size_t whole = whole_runs(r, count);
    uint8_t *const rest = (uint8_t *)to + whole * width(dtype);
    if (dtype == PITH_F32)
        unrotate_whole(r, to, x, whole, first, scale, nontemporal);
    else
        unrotate_narrow(r, to, dtype, x, whole, first, scale, nontemporal && v_stream_fits(to));
    if (whole < count)
        pithi_unrotate_c(r, rest, dtype, x + whole, count - whole, first + whole, scale);
}

static void unrotate(const struct pithi_rotation *r, void *to, uint32_t dtype, float *x,
                     size_t count, uint64_t first, float scale) {
    unrotate_to(r, to, dtype, x, count, first, scale, false);
}

static void unrotate_nontemporal(const struct pithi_rotation *r, void *to, uint32_t dtype, float *x,
                                 size_t count, uint64_t first, float scale) {
    unrotate_to(r, to, dtype, x, count, first, scale, true);
}
