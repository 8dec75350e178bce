/* grad_model.c - codec grad once more, from doc/FORMAT.md, in straight lines and for tests only.
 * SPDX-License-Identifier: Apache-2.0 */
#include "grad_model.h"

#include <math.h>

#include "util.h"

/* ---- Random bits ------------------------------------------------------------------------------*/

static void philox(uint32_t k0, uint32_t k1, uint32_t c[4]) {
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
        memcpy(c, next, sizeof next);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* 16 random bits of an element. */
static uint32_t model_random(const struct model *m, uint64_t element) {
    uint32_t c[4] = {(uint32_t)(element / 8), (uint32_t)(element / 8 >> 32), (uint32_t)m->step,
                     m->stream};
    philox((uint32_t)m->seed, (uint32_t)(m->seed >> 32), c);
    const uint32_t word = c[element % 8 / 2], half = element % 2 ? word >> 16 : word & 0xFFFFu;
    if (m->round != MODEL_ANTITHETIC) return half;
    return (half + (uint32_t)(65536ull * m->rank / m->ranks)) & 0xFFFFu;
}

static int is_minus(uint32_t key, uint64_t element) {
    uint32_t c[4] = {(uint32_t)(element / 128), (uint32_t)(element / 128 >> 32), 0, 0};
    philox(key, 0x5349474Eu, c);
    return (int)(c[element / 32 % 4] >> element % 32 & 1);
}

/* ---- Rotation ---------------------------------------------------------------------------------*/

/* Order of the run that element i of `count` is in, and where the run begins. */
static size_t run_at(size_t rotate, size_t count, size_t i, size_t *first) {
    size_t order = rotate, end = count / rotate * rotate;
    *first = i / rotate * rotate;
    if (i < end) return order;
    for (*first = end; order /= 2, 1;) {
        if (count - *first < order) continue;
        if (i < *first + order) return order;
        *first += order;
    }
}

static void transform(float *x, size_t order) {
    float y[256];
    for (size_t h = 1; h < order; h *= 2) {
        for (size_t j = 0; j < order; j++) y[j] = j & h ? x[j ^ h] - x[j] : x[j] + x[j ^ h];
        memcpy(x, y, order * sizeof *x);
    }
}

static void flip(const struct model *m, float *x, size_t count) {
    for (size_t i = 0; m->signs && i < count; i++)
        if (is_minus(m->signs, i)) x[i] = float_of(bits_of(x[i]) ^ 0x80000000u);
}

void model_rotate(const struct model *m, float *x, size_t count) {
    size_t first, order;
    flip(m, x, count);
    for (size_t i = 0; m->rotate && i < count; i = first + order) {
        order = run_at(m->rotate, count, i, &first);
        transform(x + first, order);
    }
}

void model_unrotate(const struct model *m, float *x, size_t count) {
    size_t first, order;
    for (size_t i = 0; m->rotate && i < count; i = first + order) {
        order = run_at(m->rotate, count, i, &first);
        for (size_t k = 0; k < order; k++) x[first + k] = x[first + k] * (1.0f / (float)order);
        transform(x + first, order);
    }
    flip(m, x, count);
}

void model_residual(const struct model *m, const float *kept, size_t count, double *x,
                    double *error) {
    size_t first, order;
    for (size_t i = 0; i < count; i++) x[i] = (double)kept[i], error[i] = 0;
    for (size_t i = 0; m->rotate && i < count; i = first + order) {
        double square = 0, levels = 0;
        order = run_at(m->rotate, count, i, &first);
        for (size_t h = 1; h < order; h *= 2, levels++)
            for (size_t k = first; k < first + order; k++) {
                if ((k - first) & h) continue;
                const double a = x[k], b = x[k + h];
                x[k] = a + b;
                x[k + h] = a - b;
            }
        for (size_t k = first; k < first + order; k++) {
            x[k] /= (double)order;
            square += x[k] * x[k];
        }
        for (size_t k = first; k < first + order; k++) error[k] = levels * 0x1p-24 * sqrt(square);
    }
    for (size_t i = 0; m->signs && i < count; i++)
        if (is_minus(m->signs, i)) x[i] = -x[i];
}

/* ---- Groups -----------------------------------------------------------------------------------*/

static size_t pad16(size_t n) { return (n + 15) / 16 * 16; }
static size_t scale_bytes(const struct model *m, size_t count) {
    const size_t width = m->scale == MODEL_E8M0 ? 1 : pith_dtype_bytes(m->scale);
    return (count + m->group - 1) / m->group * width;
}

static void put_scale(const struct model *m, uint8_t *to, size_t i, float scale) {
    if (m->scale != MODEL_E8M0)
        store_float(to, m->scale, i, bits_of(scale));
    else
        to[i] = isnan(scale) ? 255 : scale == 0 ? 0 : (uint8_t)(ilogbf(scale) + 127);
}

static float get_scale(const struct model *m, const uint8_t *from, size_t i) {
    if (m->scale != MODEL_E8M0) return float_of(load_float(from, m->scale, i));
    return from[i] == 255 ? float_of(0x7FC00000u) : ldexpf(1, from[i] - 127);
}
static size_t block_bytes(const struct model *m, size_t count) {
    return pad16(scale_bytes(m, count)) + pad16((count * m->bits + 7) / 8);
}

size_t model_bytes(const struct model *m, size_t count) {
    const size_t tail = count % m->block;
    return count / m->block * block_bytes(m, m->block) + (tail ? block_bytes(m, tail) : 0);
}

static void put_code(uint8_t *codes, unsigned bits, size_t i, int q) {
    for (unsigned b = 0; b < bits; b++)
        if ((unsigned)q >> b & 1) codes[(i * bits + b) / 8] |= (uint8_t)(1u << (i * bits + b) % 8);
}

static int get_code(const uint8_t *codes, unsigned bits, size_t i) {
    int q = 0;
    for (unsigned b = 0; b < bits; b++)
        q |= (codes[(i * bits + b) / 8] >> (i * bits + b) % 8 & 1) << b;
    return q >> (bits - 1) ? q - (1 << bits) : q;
}

/* A scale in the scale's dtype; finite stays finite, but for powers of two. */
static float stored_scale(const struct model *m, float scale) {
    uint8_t stored[4];
    if (m->scale == MODEL_E8M0) {
        const int e = ilogbf(scale), up = ldexpf(1, e) < scale ? e + 1 : e;
        return up > 127 ? float_of(0x7FC00000u) : ldexpf(1, up);
    }
    store_float(stored, m->scale, 0, bits_of(scale));
    const uint32_t u = load_float(stored, m->scale, 0);
    return float_of(nonfinite(u) ? (u & 0x80000000u) | largest_of(m->scale) : u);
}

/* The values of a group as integers of at most `most`. */
struct integers {
    int most, y[4096];
    size_t count;
};

static void make_integers(struct integers *v, const float *x, size_t count, float r) {
    v->count = count;
    for (size_t i = 0; i < count; i++) v->y[i] = (int)nearbyintf(x[i] * r);
}

/* A and B of one candidate. */
static void gain(const struct model *m, const struct integers *v, int c, float *a, float *b) {
    const int reach = 1 << (m->bits - 1), unit = 256 * (v->most + 1) / reach;
    int products = 0, squares = 0;
    for (size_t i = 0; i < v->count; i++) {
        const int p = v->y[i] * c;
        assert_int_not_equal(abs(p) % unit, unit / 2);
        int q = (int)lround((double)p / unit);
        q = q < -reach ? -reach : q > reach - 1 ? reach - 1 : q;
        products += v->y[i] * q;
        squares += q * q;
    }
    *a = (float)products;
    *b = (float)squares;
}

static float searched_power(const struct model *m, const float *x, size_t count, float u) {
    struct integers v = {.most = m->bits <= 5 ? 127 : 1023};
    const float d = (float)(v.most + 1) / (float)(1 << (m->bits - 1));
    float a1, b1, a2, b2;
    make_integers(&v, x, count, d / u);
    gain(m, &v, 257, &a1, &b1);
    gain(m, &v, 513, &a2, &b2);
    const float whole = d * b1, half = d * b2 / 4;
    return a2 - half > 2 * a1 - whole ? u / 2 : u;
}

static float searched_scale(const struct model *m, const float *x, size_t count, float largest) {
    static const int candidates[7][12] = {
        {363, -395, 275, 459, -323, -475, 323, 219, 411, -267, 507, -507},
        {323, 267, 411, -347, 219, 355, 291, 475, -299, 243, -387, 307},
        {283, 347, 259, 307, 475, 235, 275, -315, 371, 323, 291, 417},
        {267, 291, 259, 243, 343, 279, 311, 227, 255, 399, 271, 475},
        {259, 249, 275, 255, 265, 241, 289, 233, 261, 269, 247, 331},
        {257, 253, 261, 249, 245, 265, 259, 241, 255, 237, 251, 299},
        {257, 255, 253, 251, 249, 247, 245, 259, 241, 243, 239, 275}};
    struct integers v = {.most = m->bits <= 5 ? 127 : 1023};
    const float least = (float)v.most / (float)(1 << m->bits);
    float best_a = 0, best_b = 1, sign = 1;
    for (size_t i = 0; i < count; i++)
        if (x[i] == largest) sign = -1;
    make_integers(&v, x, count, sign * ((float)v.most / largest));
    for (int k = 0; k < 12; k++) {
        float a, b;
        gain(m, &v, candidates[m->bits - 2][k], &a, &b);
        const float square = a * a, best = best_a * best_a;
        const float explained = square * best_b, before = best * b;
        if (k && !(explained > before)) continue;
        best_a = a;
        best_b = b;
    }
    float a = best_a / best_b;
    if (fabsf(a) < least) a = copysignf(least, a);
    const float unit = largest / (float)v.most, s = sign * (a * unit);
    return stored_scale(m, isinf(s) ? copysignf(float_of(0x7F7FFFFFu), s) : s);
}

static float group_scale(const struct model *m, const float *x, size_t count) {
    const float most = (float)((1 << (m->bits - 1)) - 1);
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        if (nonfinite(bits_of(x[i]))) return float_of(0x7FC00000u);
        if (fabsf(x[i]) > largest) largest = fabsf(x[i]);
    }
    if (largest < 0x1p-118f) return 0;
    const float scale = stored_scale(m, largest / most);
    if (!m->search || isnan(scale)) return scale;
    if (m->scale == MODEL_E8M0) return searched_power(m, x, count, scale);
    return searched_scale(m, x, count, largest);
}

static int code_of(const struct model *m, float x, float scale, uint64_t element) {
    const int most = (1 << (m->bits - 1)) - 1;
    if (nonfinite(bits_of(scale)) || scale == 0) return 0;
    const float v = x * (1.0f / scale), below = floorf(v);
    int q = (int)below;
    if (m->round == MODEL_NEAREST)
        q = (int)nearbyintf(v);
    else if (model_random(m, element) < (uint32_t)((v - below) * 65536.0f))
        q++;
    const int least = -most - m->search;
    return q > most ? most : q < least ? least : q;
}

static void code_block(const struct model *m, const float *x, size_t first, size_t count,
                       uint8_t *to) {
    uint8_t *const codes = to + pad16(scale_bytes(m, count));
    memset(to, 0, block_bytes(m, count));
    for (size_t begin = 0; begin < count; begin += m->group) {
        const size_t left = count - begin < m->group ? count - begin : m->group;
        const float scale = group_scale(m, x + begin, left);
        put_scale(m, to, begin / m->group, scale);
        for (size_t i = begin; i < begin + left; i++)
            put_code(codes, m->bits, i, code_of(m, x[i], scale, first + i));
    }
}

void model_code(const struct model *m, const float *x, size_t count, uint8_t *blocks) {
    for (size_t at = 0; at < count; at += m->block) {
        const size_t n = count - at < m->block ? count - at : m->block;
        code_block(m, x + at, at, n, blocks);
        blocks += block_bytes(m, n);
    }
}

void model_decode(const struct model *m, const uint8_t *blocks, size_t count, float *x) {
    for (size_t i = 0; i < count; i++) {
        const size_t at = i / m->block * m->block, k = i - at;
        const size_t n = count - at < m->block ? count - at : m->block;
        const uint8_t *block = blocks + i / m->block * block_bytes(m, m->block);
        const float scale = get_scale(m, block, k / m->group);
        const float v = (float)get_code(block + pad16(scale_bytes(m, n)), m->bits, k) * scale;
        x[i] = v;
        if (isinf(v)) x[i] = float_of((bits_of(v) & 0x80000000u) | 0x7F7FFFFFu);
        if (nonfinite(bits_of(scale))) x[i] = float_of(0x7FC00000u);
    }
}
