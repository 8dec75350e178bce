/* test_interp.c - interpolation against a slow reference of its own, element by element.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "codec.h"
#include "common/convert.h"
#include "predict/interp.h"
#include "util.h"

/* ---- Reference -------------------------------------------------------------------------------*/
/* Interpolation as doc/FORMAT.md describes it: places instead of grids. Every operation is done in
 * double and then rounded, which is exact for f32. */

enum { MOST = 6000 };

struct reference {
    uint32_t dtype;
    bool signed_zeros;
    unsigned row;
    size_t extent[4];
    double bound;
    double x[MOST], y[MOST]; /* values, and their reconstructions */
    uint32_t words[MOST];
    bool miss[MOST];
    size_t coded;
};

static double rounded(const struct reference *t, double x) {
    return t->dtype == PITH_F64 ? x : (double)(float)x;
}
#define R(x) rounded(t, (x))

static double to_dtype(const struct reference *t, double y) {
    uint8_t bytes[8];
    if (t->dtype == PITH_F64) return y;
    store_float(bytes, t->dtype, 0, bits_of((float)y));
    return (double)float_of(load_float(bytes, t->dtype, 0));
}

static double factor(unsigned row, unsigned level) {
    static const double ratio[4] = {1, 0.8, 1 / 1.5, 1 / 1.75}, least[4] = {1, 0.5, 1 / 3.0, 0.25};
    const double f = pow(ratio[row], level);
    return (double)(float)(f > least[row] ? f : least[row]);
}

static double finite_or_zero(double y, const struct reference *t) {
    return isfinite(t->dtype == PITH_F64 ? y : (double)(float)y) ? y : 0;
}

static uint32_t word_of(long q) { return (uint32_t)(q < 0 ? -2 * q - 1 : 2 * q); }
static double code_of(uint32_t w) { return w & 1 ? -(double)(w >> 1) - 1 : (double)(w >> 1); }

/* Element i, predicted to be p. encode: its word is made, else it is given. */
static void reference_code(struct reference *t, bool encode, size_t i, double p, unsigned level) {
    const double step = R(2 * R(t->bound * factor(t->row, level)));
    if (!encode) {
        t->y[i] = finite_or_zero(R(p + R(R(code_of(t->words[t->coded++])) * step)), t);
        return;
    }
    const double r = t->dtype == PITH_F64 ? pithi_quant_inverse64(step)
                                          : (double)pithi_quant_inverse((float)step);
    const double scaled = R(R(t->x[i] - p) * r);
    double y = 0;
    bool kept = fabs(scaled) < 4194304;
    const long q = kept ? lrint(scaled) : 0;
    if (kept) {
        y = finite_or_zero(R(p + R((double)q * step)), t);
        kept = fabs(R(t->x[i] - to_dtype(t, y))) < t->bound;
    }
    if (t->signed_zeros && t->x[i] == 0 && signbit(t->x[i])) kept = false;
    t->words[t->coded++] = kept ? word_of(q) : 0;
    t->miss[i] = !kept;
    t->y[i] = kept ? y : finite_or_zero(R(p + 0.0), t);
}

static double reference_predict(const struct reference *t, size_t i, size_t place, size_t places,
                                size_t h, size_t variant) {
    const bool b = place + h < places, c = place >= 3 * h, e = place + 3 * h < places;
    const double *y = t->y + i;
    const double ya = y[-(ptrdiff_t)variant], yb = b ? y[variant] : 0;
    const double yc = c ? y[-3 * (ptrdiff_t)variant] : 0, ye = e ? y[3 * variant] : 0;
    if (b && c && e) return R(R(0.5625 * R(ya + yb)) - R(0.0625 * R(yc + ye)));
    if (b && c) return R(R(R(0.75 * ya) + R(0.375 * yb)) - R(0.125 * yc));
    if (b && e) return R(R(R(0.375 * ya) + R(0.75 * yb)) - R(0.125 * ye));
    if (b) return R(0.5 * R(ya + yb));
    return c ? R(R(1.5 * ya) - R(0.5 * yc)) : ya;
}

/* Whether pass d of the level codes an element: odd along d, even before it, any after it. */
static bool in_pass(const size_t place[4], unsigned d, size_t h) {
    for (unsigned k = 0; k < 4; k++) {
        if (place[k] % h) return false;
        if (k < d && place[k] / h % 2) return false;
    }
    return place[d] / h % 2 == 1;
}

static void reference_run(struct reference *t, bool encode) {
    const size_t *const n = t->extent, count = n[0] * n[1] * n[2] * n[3];
    unsigned levels = 0;
    for (unsigned d = 0; d < 4; d++)
        while ((n[d] - 1) >> levels) levels++;
    t->coded = 0;
    reference_code(t, encode, 0, 0, levels ? levels - 1 : 0);
    for (unsigned level = levels; level--;)
        for (unsigned d = 4; d--;)
            for (size_t i = 0; i < count; i++) {
                const size_t place[4] = {i / (n[1] * n[2] * n[3]), i / (n[2] * n[3]) % n[1],
                                         i / n[3] % n[2], i % n[3]};
                const size_t h = (size_t)1 << level;
                size_t variant = h;
                if (!in_pass(place, d, h)) continue;
                for (unsigned k = d + 1; k < 4; k++) variant *= n[k];
                reference_code(t, encode, i, reference_predict(t, i, place[d], n[d], h, variant),
                               level);
            }
    CHECK(t->coded == count);
}

/* ---- Tiles -----------------------------------------------------------------------------------*/

static uint64_t seed;
static uint64_t random_bits(void) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return seed >> 33 ^ seed << 31;
}

enum content { SMOOTH, NOISE, BITS, LARGE, ZEROS, CONTENTS };

static double value_of(enum content content, size_t i) {
    const uint64_t r = random_bits();
    switch (content) {
    case SMOOTH: return r % 97 == 0 ? (double)INFINITY : sin((double)i * 0.07) * 3 + 1;
    case NOISE: return (double)(r % 20001) * 1e-4 - 1;
    case BITS: return (double)float_of((uint32_t)r);
    case LARGE: return (r & 1 ? 1.0 : -1.0) * (r & 2 ? 3.4e38 : 6.5e4);
    default: return r & 4 ? -0.0 : 0.0;
    }
}

static size_t width_of(uint32_t dtype) { return pith_dtype_bytes(dtype); }

/* Values of the dtype at any address, and the same in the reference. */
static void fill(struct reference *t, uint8_t *values, size_t count, enum content content) {
    for (size_t i = 0; i < count; i++) {
        const double x = value_of(content, i);
        if (t->dtype == PITH_F64) {
            t->x[i] = content == BITS ? x * 1e200 : x;
            memcpy(values + 8 * i, &t->x[i], 8);
            continue;
        }
        store_float(values, t->dtype, i, bits_of((float)x));
        t->x[i] = (double)float_of(load_float(values, t->dtype, i));
    }
}

static double loaded(const struct reference *t, const uint8_t *values, size_t i) {
    double x;
    if (t->dtype != PITH_F64) return (double)float_of(load_float(values, t->dtype, i));
    memcpy(&x, values + 8 * i, 8);
    return x;
}

static void compare_values(const struct reference *t, const uint8_t *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double got = loaded(t, out, i), wanted = to_dtype(t, t->y[i]);
        context("element %zu: %a, the reference has %a", i, got, wanted);
        CHECK(memcmp(&got, &wanted, sizeof got) == 0);
    }
}

struct tile {
    struct reference *reference;
    struct pithi_quant quant;
    struct pithi_interp interp;
    size_t count;
    uint8_t *values, *out; /* not aligned */
    uint32_t *words;
    uint8_t *miss;
    void *scratch;
};

static void check_encoder(struct tile *k) {
    struct reference *const t = k->reference;
    reference_run(t, true);
    const size_t misses = pithi_interp_encode(&k->interp, k->values, k->words, k->miss);
    size_t expected = 0;
    for (size_t i = 0; i < k->count; i++) {
        context("element %zu", i);
        CHECK((k->miss[i / 8] >> i % 8 & 1) == t->miss[i]);
        expected += t->miss[i];
        context("word %zu", i);
        CHECK(k->words[i] == t->words[i]);
    }
    CHECK(misses == expected);
    if (k->count % 8) CHECK(k->miss[k->count / 8] >> k->count % 8 == 0);
}

/* Words in parts of 1, 2, 3 ... */
struct feed {
    const uint32_t *words;
    size_t left, part;
};

static size_t next_words(void *arg, const uint32_t **words) {
    struct feed *const f = arg;
    const size_t n = ++f->part < f->left ? f->part : f->left;
    CHECK(n > 0);
    *words = f->words;
    f->words += n;
    f->left -= n;
    return n;
}

/* Values in their order, without a gap. */
struct catch {
    struct tile *tile;
    size_t next;
};

static void catch_values(void *arg, size_t at, size_t count, const void *values) {
    struct catch *const c = arg;
    const uint32_t dtype = c->tile->reference->dtype;
    CHECK(at == c->next && count > 0);
    c->next += count;
    CHECK(c->next <= c->tile->count);
    pithi_convert(c->tile->out + at * width_of(dtype), dtype, values,
                  dtype == PITH_F64 ? PITH_F64 : PITH_F32, count);
}

static void check_decoder(struct tile *k) {
    const size_t bytes = pithi_interp_decode_scratch(k->interp.extent, k->reference->dtype);
    struct feed feed = {k->reference->words, pithi_interp_coarse(k->interp.extent), 0};
    struct catch caught = {k, 0};
    struct pithi_interp t = k->interp;
    reference_run(k->reference, false);
    t.scratch = memset(allocate(bytes), 0xA5, bytes);
    t.next = next_words;
    t.next_arg = &feed;
    pithi_interp_decode_coarse(&t);
    CHECK(feed.left == 0);
    feed.left = k->count - pithi_interp_coarse(t.extent);
    pithi_interp_decode_finest(&t, &(struct pithi_sink){catch_values, &caught});
    CHECK(feed.left == 0 && caught.next == k->count);
    free(t.scratch);
    compare_values(k->reference, k->out, k->count);
}

static void check_bound(const struct tile *k) {
    for (size_t i = 0; i < k->count; i++) {
        context("element %zu", i);
        CHECK(k->reference->miss[i] ||
              fabs(k->reference->x[i] - loaded(k->reference, k->out, i)) <= k->reference->bound);
    }
}

static void run_tile(struct tile *k, const uint32_t extent[4], uint32_t cpu) {
    struct pithi_kernels kernels;
    pithi_kernels_bind(&kernels, cpu);
    const struct reference *const t = k->reference;
    const size_t bytes = k->count * width_of(t->dtype);
    const size_t scratch = pithi_interp_scratch(k->count, t->dtype);
    k->values = (uint8_t *)allocate(bytes + 1) + 1;
    k->out = (uint8_t *)allocate(bytes + 1) + 1;
    k->words = allocate(k->count * sizeof *k->words);
    k->miss = allocate((k->count + 7) / 8);
    k->scratch = aligned_alloc(64, (scratch + 63) / 64 * 64);
    CHECK(k->scratch);
    k->interp = (struct pithi_interp){.quant = &k->quant, .row = t->row, .scratch = k->scratch};
    k->interp.encode = kernels.interp_encode;
    k->interp.decode = kernels.interp_decode;
    memcpy(k->interp.extent, extent, sizeof k->interp.extent);
    for (int content = 0; content < CONTENTS; content++) {
        fill(k->reference, k->values, k->count, (enum content)content);
        check_encoder(k);
        check_decoder(k);
        check_bound(k);
    }
    for (size_t i = 0; i < k->count; i++) k->reference->words[i] = (uint32_t)random_bits();
    check_decoder(k);
    free(k->values - 1);
    free(k->out - 1);
    free(k->words);
    free(k->miss);
    free(k->scratch);
}

static void tiles_follow_the_text(void **state) {
    static const uint32_t extents[][4] = {
        {1, 1, 1, 1}, {1, 1, 1, 2},  {1, 1, 1, 3},  {1, 1, 1, 100}, {1, 1, 2, 1},
        {1, 1, 5, 7}, {1, 1, 9, 64}, {1, 3, 4, 33}, {1, 12, 11, 1}, {4, 1, 16, 1},
        {2, 3, 5, 6}, {3, 1, 1, 5},  {7, 4, 3, 2},  {1, 9, 17, 18}, {1, 1, 1, 5003}};
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16, PITH_F64};
    static struct reference reference;
    (void)state;
    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
        for (unsigned k = 0; k < 16; k++) {
            const uint32_t *const n = extents[e];
            struct tile tile = {.reference = &reference,
                                .count = (size_t)n[0] * n[1] * n[2] * n[3]};
            const struct pithi_bound bound = {PITHI_BOUND_ABSOLUTE, k % 3 ? 0x1.8p-9 : 0x1.1p-2, 0};
            reference.dtype = dtypes[k % 4];
            reference.row = k / 4;
            reference.signed_zeros = (k + e) % 2;
            reference.bound = bound.value;
            for (size_t d = 0; d < 4; d++) reference.extent[d] = n[d];
            CHECK(pithi_quant_init(&tile.quant, reference.dtype, &bound, reference.signed_zeros));
            run_tile(&tile, n, k % 2 ? pith_cpu_features() : 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_follow_the_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
