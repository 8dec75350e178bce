/* refdec_topk.c - codec 9: sets of elements, and their values.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "refdec.h"

enum { EMPTY, ALL, BITMAP, ELIAS_FANO, PACKED, RUNS, HELD, PATCHED };
enum { VALUES_F32, VALUES_F16, VALUES_BF16, VALUES_INT8, VALUES_NONE };
enum { GROUP = 128 }; /* of differences, and of int8 values */
enum { TRANSFORM = 13, DCT = 1, HADAMARD };

static uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* ---- Sets of n elements: a byte for each, 1 for those that belong to it ----------------------*/

/* Bits of a string from `from` on. */
static bool zero_bits(const uint8_t *string, uint64_t from, uint64_t bytes) {
    for (uint64_t i = from; i < 8 * bytes; i++)
        if (ref_bit(string, i)) return false;
    return true;
}

static uint32_t number_at(const uint8_t *string, uint64_t at, unsigned width) {
    uint32_t number = 0;
    for (unsigned t = 0; t < width; t++) number |= (uint32_t)ref_bit(string, at + t) << t;
    return number;
}

static bool read_bitmap(struct ref_reader *r, uint64_t n, uint64_t m, uint8_t *set) {
    const uint8_t *bits;
    uint64_t ones = 0;
    if (!ref_take(r, ceil_div(n, 8), &bits) || !zero_bits(bits, n, ceil_div(n, 8))) return false;
    for (uint64_t i = 0; i < n; i++) ones += set[i] = ref_bit(bits, i);
    return ones == m;
}

static bool read_elias_fano(struct ref_reader *r, unsigned l, uint64_t n, uint64_t m,
                            uint8_t *set) {
    const uint64_t low_bytes = ceil_div(m * l, 8), bits = m + ((n - 1) >> l);
    const uint8_t *low, *high;
    uint64_t found = 0, next = 0;
    if (l > 23 || m > n / 4 + 1) return false;
    if (!ref_take(r, low_bytes, &low) || !ref_take(r, ceil_div(bits, 8), &high)) return false;
    if (!zero_bits(low, m * l, low_bytes) || !zero_bits(high, bits, ceil_div(bits, 8)))
        return false;
    for (uint64_t at = 0; at < bits; at++) {
        if (!ref_bit(high, at)) continue;
        if (found == m) return false;
        const uint64_t index = (at - found) << l | number_at(low, found * l, l);
        if (index < next || index >= n) return false;
        set[index] = 1;
        next = index + 1;
        found++;
    }
    return found == m;
}

/* Difference j of a group of 128: four lanes of 32-bit words, w of each. */
static uint32_t lane_number(const uint8_t *group, unsigned j, unsigned w) {
    uint32_t number = 0;
    for (unsigned t = 0; t < w; t++) {
        const unsigned bit = j / 4 * w + t, word = bit / 32 * 4 + j % 4;
        number |= (uint32_t)ref_bit(group, 32 * word + bit % 32) << t;
    }
    return number;
}

/* What the exceptions of a group have above its low bits, 0 where a difference is none. */
static bool read_exceptions(struct ref_reader *r, unsigned e, uint64_t high[GROUP]) {
    const uint8_t *exception;
    int before = -1;
    memset(high, 0, GROUP * sizeof *high);
    for (unsigned i = 0; i < e; i++) {
        if (!ref_take(r, 2, &exception)) return false;
        if (exception[0] >= GROUP || exception[0] <= before || exception[1] == 0) return false;
        high[exception[0]] = exception[1];
        before = exception[0];
    }
    return true;
}

static bool read_packed(struct ref_reader *r, bool patched, uint64_t n, uint64_t m, uint8_t *set) {
    const uint8_t *heads, *group;
    uint64_t next = 0, high[GROUP];
    if (m > n / 4 + 1 || !ref_take(r, ceil_div(m, GROUP), &heads)) return false;
    for (uint64_t first = 0; first < m; first += GROUP) {
        const unsigned w = heads[first / GROUP] % 32, e = heads[first / GROUP] / 32;
        const uint64_t count = m - first < GROUP ? m - first : GROUP,
                       bytes = ceil_div(count * w, 8);
        if (e && (!patched || w > 16 || count < GROUP)) return false;
        if (w > 24 || !ref_take(r, bytes, &group)) return false;
        if (!zero_bits(group, count * w, bytes) || !read_exceptions(r, e, high)) return false;
        for (unsigned j = 0; j < count; j++) {
            next += count == GROUP ? lane_number(group, j, w) : number_at(group, j * w, w);
            next += high[j] << w;
            if (next >= n) return false;
            set[next++] = 1;
        }
    }
    return true;
}

/* Seven bits a byte, at most four bytes, and the last is not 0 behind others. */
static bool read_leb128(struct ref_reader *r, uint64_t *number) {
    const uint8_t *byte;
    unsigned i = 0;
    *number = 0;
    do {
        if (i == 4 || !ref_take(r, 1, &byte) || (i && *byte == 0)) return false;
        *number |= (uint64_t)(*byte & 127) << 7 * i++;
    } while (*byte >= 128);
    return true;
}

static bool read_runs(struct ref_reader *r, uint64_t n, uint64_t m, uint8_t *set) {
    uint64_t next = 0, found = 0, gap, more;
    while (found < m) {
        if (!read_leb128(r, &gap) || !read_leb128(r, &more)) return false;
        if (found) gap++;
        if (gap + more >= n - next || more >= m - found) return false;
        memset(set + next + gap, 1, more + 1);
        next += gap + more + 1;
        found += more + 1;
    }
    return true;
}

/* What the receiver holds of the block's elements. */
static uint64_t load_held(const struct ref_block *b, uint8_t *set) {
    uint64_t m = 0;
    for (uint64_t i = 0; i < b->count; i++) m += set[i] = ref_bit(b->held, b->first + i);
    return m;
}

static bool read_set(struct ref_reader *r, const struct ref_block *b, uint8_t *set, uint64_t *m) {
    const bool held = b->frame->chosen.held, may = held || b->frame->chosen.same_blocks;
    const uint8_t *head, *more;
    if (!ref_take(r, 1, &head)) return false;
    const unsigned form = *head & 7, l = *head >> 3;
    const uint64_t n = b->count;
    *m = 0;
    REF_CASE("topk form", REF_UP_TO(RUNS) | REF_BIT(PATCHED), form == HELD ? RUNS : form);
    if (l && form != ELIAS_FANO) return false;
    if (form != EMPTY && !ref_take(r, 3, &more)) return false;
    if (form != EMPTY) *m = ref_le(more, 3) + 1;
    if (*m > n || (held && form != HELD && form != EMPTY)) return false;
    if (form == HELD && !may) return false;
    if ((held || form == HELD) && *m != load_held(b, set)) return false;
    if (form == ALL) memset(set, 1, n);
    if (form == ALL && *m != n) return false;
    if (form == BITMAP) return read_bitmap(r, n, *m, set);
    if (form == ELIAS_FANO) return read_elias_fano(r, l, n, *m, set);
    if (form == PATCHED && (b->frame->revision < 2 || !b->frame->parameter[2])) return false;
    if (form == PACKED || form == PATCHED) return read_packed(r, form == PATCHED, n, *m, set);
    if (form == RUNS && !read_runs(r, n, *m, set)) return false;
    return true;
}

/* ---- Values ----------------------------------------------------------------------------------*/

static uint64_t value_bytes(const struct ref_frame *f, uint64_t m) {
    switch (f->parameter[0]) {
    case VALUES_F32: return 4 * m;
    case VALUES_INT8: return 4 * ceil_div(m, GROUP) + m;
    case VALUES_NONE: return 0;
    default: return 2 * m;
    }
}

/* Value k of m, as bits of f32. */
static uint32_t value_at(const struct ref_frame *f, const uint8_t *bytes, uint64_t m, uint64_t k) {
    switch (f->parameter[0]) {
    case VALUES_F32: return ref_load(bytes, k, F32);
    case VALUES_F16: return ref_load(bytes, k, F16);
    case VALUES_BF16: return ref_load(bytes, k, BF16);
    case VALUES_INT8: {
        const int code = ref_sign_extended(bytes[4 * ceil_div(m, GROUP) + k], 8);
        return ref_decoded(code, ref_load(bytes, k / GROUP, F32));
    }
    default: return ref_as_bits(1);
    }
}

/* ---- Coefficients ----------------------------------------------------------------------------*/

/* c(m) of the cosine transform for m below 64. */
static const uint32_t cosines[64] = {
    0x3e3504f3, 0x3e34f6fe, 0x3e34cd21, 0x3e348763, 0x3e3425ce, 0x3e33a872, 0x3e330f61, 0x3e325ab4,
    0x3e318a86, 0x3e309ef7, 0x3e2f982b, 0x3e2e764c, 0x3e2d3986, 0x3e2be20a, 0x3e2a700c, 0x3e28e3c6,
    0x3e273d75, 0x3e257d59, 0x3e23a3b9, 0x3e21b0dd, 0x3e1fa512, 0x3e1d80a8, 0x3e1b43f5, 0x3e18ef51,
    0x3e168317, 0x3e13ffa8, 0x3e116566, 0x3e0eb4b9, 0x3e0bee0a, 0x3e0911c7, 0x3e062061, 0x3e031a4c,
    0x3e000000, 0x3df9a3ee, 0x3df3215c, 0x3dec794d, 0x3de5acc6, 0x3ddebcd5, 0x3dd7aa8b, 0x3dd076ff,
    0x3dc9234e, 0x3dc1b099, 0x3dba2005, 0x3db272be, 0x3daaa9f2, 0x3da2c6d5, 0x3d9aca9e, 0x3d92b689,
    0x3d8a8bd4, 0x3d824bc1, 0x3d73ef2f, 0x3d63213d, 0x3d523045, 0x3d411ee4, 0x3d2fefbb, 0x3d1ea570,
    0x3d0d42af, 0x3cf7944a, 0x3cd47d09, 0x3cb14504, 0x3c8df1a9, 0x3c5510d4, 0x3c0e1d7b, 0x3b8e2871,
};

static float cosine(unsigned m) {
    if (m > 128) return cosine(256 - m);
    return m > 64 ? -ref_as_float(cosines[128 - m]) : ref_as_float(cosines[m]);
}

static void dct_back(float *x, unsigned order) {
    const float root = order == 64 ? 8 : order == 16 ? 4 : 2;
    float y[64];
    memcpy(y, x, order * sizeof *x);
    for (unsigned i = 0; i < order; i++) {
        x[i] = 0;
        for (unsigned k = 0; k < order; k++) {
            const float c = k ? 8 / root * cosine((2 * i + 1) * k * (64 / order) % 256) : 1 / root;
            const float product = y[k] * c;
            x[i] += product;
        }
    }
}

static void transform_back(unsigned how, float *x, size_t count) {
    static const unsigned dct_orders[] = {64, 16, 4}, orders[] = {32, 16, 8, 4, 2, 1};
    REF_CASE("topk transform", REF_UP_TO(HADAMARD), how);
    for (unsigned i = 0; how == DCT && i < 3; i++)
        for (; count >= dct_orders[i]; x += dct_orders[i], count -= dct_orders[i])
            dct_back(x, dct_orders[i]);
    for (unsigned i = 0; how == HADAMARD && i < 6; i++)
        for (; count >= orders[i]; x += orders[i], count -= orders[i])
            ref_transform_back(x, orders[i]);
}

static enum ref_status decode(const struct ref_block *b) {
    struct ref_reader r = {b->bytes, b->length, REF_ZSTD};
    const uint8_t *values;
    uint64_t m, k = 0;
    uint8_t *const set = calloc(b->count, 1);
    float *const x = malloc(b->count * sizeof *x);
    const bool allocated = set && x;
    const bool good = allocated && !b->plain && read_set(&r, b, set, &m) &&
                      r.left == value_bytes(b->frame, m) && ref_take(&r, r.left, &values);
    for (uint64_t i = 0; good && i < b->count; i++) {
        x[i] = ref_as_float(set[i] ? value_at(b->frame, values, m, k) : 0);
        k += set[i];
    }
    if (good) transform_back(b->frame->parameter[TRANSFORM], x, b->count);
    for (uint64_t i = 0; good && i < b->count; i++)
        ref_store(b->out, i, b->frame->dtype, ref_as_bits(x[i]));
    if (good) *b->values += m;
    free(set);
    free(x);
    return good ? REF_OK : allocated ? REF_CORRUPT : REF_MEMORY;
}

/* ---- The codec -------------------------------------------------------------------------------*/

enum { CHOSEN = 4 };

static enum ref_status read_chosen(const uint8_t *body, uint64_t length, struct ref_frame *f) {
    REJECT_IF(length != 24);
    const uint64_t flags = ref_le(body + 20, 4), threshold = ref_le(body + 16, 4);
    f->chosen.values = ref_le(body, 8);
    f->chosen.hash = ref_le(body + 8, 8);
    f->chosen.held = flags & 1;
    f->chosen.same_blocks = flags & 4;
    REJECT_IF(flags > 7 || f->chosen.values > f->n);
    REJECT_IF((f->revision == 3) != f->chosen.same_blocks);
    if (f->chosen.held) REJECT_IF(threshold || flags & 6);
    if (!(flags & 5)) REJECT_IF(f->chosen.hash);
    return REF_OK;
}

static enum ref_status check(const struct ref_frame *f) {
    const uint8_t *p = f->parameter;
    const uint64_t share = ref_le(p + 4, 4), number = ref_le(p + 8, 4);
    REJECT_IF(f->block < 64 || p[0] > 4 || p[1] > 10 || p[2] > 1 || p[3] > 1);
    if (p[3]) {
        TRY(ref_check_requested(0, share));
        if (share != (1 << 10 | 512)) TRY(ref_check_requested(3, share)); /* 1, or below it */
    } else {
        REJECT_IF(share);
    }
    REJECT_IF((p[3] != 0) == (number != 0));
    REJECT_IF(p[12] == 0 || p[TRANSFORM] > HADAMARD || !ref_zeros(p, 14, 16));
    return REF_OK;
}

static enum ref_status check_held(const struct ref_frame *f, const uint8_t *map, uint64_t bytes) {
    if (!f->chosen.held && !f->chosen.same_blocks) return REF_OK;
    if (!map) return REF_STATE;
    if (bytes != ceil_div(f->n, 8) || ref_xxh64(map, bytes, 0) != f->chosen.hash) return REF_BASE;
    return REF_OK;
}

static enum ref_status check_values(const struct ref_frame *f, uint64_t values) {
    return values == f->chosen.values ? REF_OK : REF_CORRUPT;
}

static uint64_t block_bytes(const struct ref_frame *f, uint64_t c) {
    const uint64_t bitmap = ceil_div(c, 8);
    const uint64_t all = value_bytes(f, c) + (f->parameter[0] == VALUES_NONE ? bitmap : 0);
    const uint64_t most = bitmap + value_bytes(f, c - 1);
    return 4 + (all > most ? all : most);
}

static void note(const struct ref_frame *f) {
    REF_CASE("topk values", REF_UP_TO(VALUES_NONE), f->parameter[0]);
}

static unsigned only_revision(const struct ref_frame *f) {
    return f->parameter[2] || f->revision == 3 ? 0 : 1; /* small has no sets in form PATCHED */
}

const struct ref_codec ref_codec_topk = {
    .name = "topk",
    .revision = 3,
    .only_revision = only_revision,
    .dtypes = 0xE,
    .bases = 1,
    .section = CHOSEN,
    .read_section = read_chosen,
    .check = check,
    .block_bytes = block_bytes,
    .check_held = check_held,
    .decode = decode,
    .check_values = check_values,
    .note = note,
};
