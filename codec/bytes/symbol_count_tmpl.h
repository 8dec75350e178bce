/* symbol_count_tmpl.h - count symbols of which most lie in a window of few kinds, in vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer defines:
 *   BYTES     the bytes of a vector
 *   WINDOWS   the most windows of 16 kinds, side by side, that are worth the time
 * and, of vectors `vec` that the instruction set has:
 *   vec load(const uint8_t *), void store(uint64_t *, vec), vec all8(uint8_t)
 *   vec v_and(vec, vec), add8(vec, vec), sub8(vec, vec), add64(vec, vec)
 *   vec add_most(vec, vec): of unsigned bytes, 255 at most
 *   vec look_up_16(const uint8_t table[16], vec at): 0 where bit 7 of `at` is set, else the byte at
 *                 its low four bits
 *   vec odd(vec a, vec b, vec c): bits that are in one or three of them
 *   vec majority(vec a, vec b, vec c): bits that are in two or three of them
 *   vec min8(vec, vec): of unsigned bytes
 *   vec sum(vec): of the bytes of each 64-bit lane
 *   uint8_t *put_where(uint8_t *to, const uint8_t *from, vec at): the bytes of a vector where bit 7
 *                 of `at` is set, and perhaps others up to a vector; returns what follows them
 *
 * Each symbol becomes a byte with one bit of eight, its kind's. Such bytes are added up bit by bit:
 * a bit of `plane[p]` counts 2^p of its kind, and of three bits of a plane one may stay while the
 * other two go on to the next as one. Other symbols go to a buffer, and are counted one by one. */

/* What is added up in the planes before the last are 16 vectors, a group; and as many groups as a
 * byte can count are a run. */
enum { KINDS = 16, HALVES = 2, PLANES = 5, GROUP = 16, RUN = 15, SAMPLE = 512, COUNT_LEAST = 4096 };

/* Returns where the `width` neighbours with most symbols of a sample begin; -1 when more than one
 * in 8 lies outside. */
static int window_of(const uint32_t count[256], int width) {
    uint32_t inside = 0, most = 0;
    int first = 0;
    for (int s = 0; s < 256; s++) {
        inside += count[s] - (s < width ? 0 : count[s - width]);
        if (inside <= most) continue;
        most = inside;
        first = s < width ? 0 : s - width + 1;
    }
    return most < SAMPLE - SAMPLE / 8 ? -1 : first;
}

/* Counts are kept in registers, for which the number of halves has to be a constant. */
#define ALWAYS static inline __attribute__((always_inline))

/* Vectors of 8 kinds each. */
struct bits {
    vec of[HALVES * WINDOWS];
};

struct counting {
    const uint8_t *src;
    uint8_t *others; /* what follows those in the buffer */
    int first, halves;
    struct bits plane[PLANES - 1]; /* of a run */
    vec groups[HALVES * WINDOWS][KINDS / HALVES];
    vec kind[HALVES * WINDOWS][KINDS / HALVES]; /* of all runs, in 64-bit lanes */
};

ALWAYS struct bits take_vector(struct counting *c) {
    static const uint8_t table[HALVES][16] = {
        {1, 2, 4, 8, 16, 32, 64, 128}, {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128}};
    const vec x = sub8(load(c->src), all8((uint8_t)c->first));
    vec outside = all8(0xFF);
    struct bits b;
    for (int h = 0; h < c->halves; h += HALVES) {
        const vec at = add_most(sub8(x, all8((uint8_t)(h * KINDS / HALVES))), all8(0x70));
        outside = v_and(outside, at);
        for (int k = 0; k < HALVES; k++) b.of[h + k] = look_up_16(table[k], at);
    }
    c->others = put_where(c->others, c->src, outside);
    c->src += BYTES;
    return b;
}

/* Adds two vectors of bits to a plane; returns what goes on to the next. */
ALWAYS struct bits add_bits(struct counting *c, int p, struct bits a, struct bits b) {
    struct bits carry;
    for (int h = 0; h < c->halves; h++) {
        vec *const to = &c->plane[p].of[h];
        carry.of[h] = majority(*to, a.of[h], b.of[h]);
        *to = odd(*to, a.of[h], b.of[h]);
    }
    return carry;
}

ALWAYS struct bits take_2(struct counting *c) {
    const struct bits a = take_vector(c);
    return add_bits(c, 0, a, take_vector(c));
}

ALWAYS struct bits take_4(struct counting *c) {
    const struct bits a = take_2(c);
    return add_bits(c, 1, a, take_2(c));
}

ALWAYS struct bits take_8(struct counting *c) {
    const struct bits a = take_4(c);
    return add_bits(c, 2, a, take_4(c));
}

/* Returns bit k of each byte as a number. */
static inline vec bit(vec x, int k) { return min8(v_and(x, all8((uint8_t)(1 << k))), all8(1)); }

ALWAYS void count_group(struct counting *c) {
    const struct bits a = take_8(c), carry = add_bits(c, 3, a, take_8(c));
    for (int h = 0; h < c->halves; h++)
        for (int k = 0; k < KINDS / HALVES; k++)
            c->groups[h][k] = add8(c->groups[h][k], bit(carry.of[h], k));
}

ALWAYS void begin_run(struct counting *c) {
    for (int h = 0; h < c->halves; h++) {
        for (int p = 0; p < PLANES - 1; p++) c->plane[p].of[h] = all8(0);
        for (int k = 0; k < KINDS / HALVES; k++) c->groups[h][k] = all8(0);
    }
}

ALWAYS void end_run(struct counting *c) {
    for (int h = 0; h < c->halves; h++)
        for (int k = 0; k < KINDS / HALVES; k++) {
            vec count = c->groups[h][k];
            for (int p = PLANES - 1; p--;)
                count = add8(add8(count, count), bit(c->plane[p].of[h], k));
            c->kind[h][k] = add64(c->kind[h][k], sum(count));
        }
}

static void count_others(uint32_t table[PITHI_RANS_TABLES][256], const uint8_t *src, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) table[k][src[i + (size_t)k]]++;
    for (; i < n; i++) table[0][src[i]]++;
}

ALWAYS void count_windows(uint32_t table[PITHI_RANS_TABLES][256], const uint8_t *src, size_t n,
                          int first, int windows) {
    enum { STEP = GROUP * BYTES, BUFFER = 4 * STEP };
    uint8_t buffer[BUFFER + BYTES];
    struct counting c = {.src = src, .others = buffer, .first = first, .halves = HALVES * windows};
    for (int h = 0; h < c.halves; h++)
        for (int k = 0; k < KINDS / HALVES; k++) c.kind[h][k] = all8(0);
    memset(table, 0, 4 * sizeof table[0]);
    while (n >= STEP) {
        const size_t groups = n / STEP < RUN ? n / STEP : RUN;
        begin_run(&c);
        for (size_t g = 0; g < groups; g++) {
            if (c.others - buffer > BUFFER - STEP) {
                count_others(table, buffer, (size_t)(c.others - buffer));
                c.others = buffer;
            }
            count_group(&c);
        }
        end_run(&c);
        n -= groups * STEP;
    }
    count_others(table, buffer, (size_t)(c.others - buffer));
    count_others(table, c.src, n);
    for (int s = 0; s < 256; s++) table[0][s] += table[1][s] + table[2][s] + table[3][s];
    for (int k = 0; k < windows * KINDS && first + k < 256; k++) {
        uint64_t lanes[BYTES / 8];
        store(lanes, c.kind[k / (KINDS / HALVES)][k % (KINDS / HALVES)]);
        for (int i = 0; i < BYTES / 8; i++) table[0][first + k] += (uint32_t)lanes[i];
    }
}

static void count_symbols(uint32_t table[PITHI_RANS_TABLES][256], const uint8_t *src, size_t n) {
    if (n >= COUNT_LEAST) {
        memset(table[0], 0, sizeof table[0]);
        for (size_t i = 0; i < SAMPLE; i++) table[0][src[n / SAMPLE * i]]++;
        int first = window_of(table[0], KINDS);
        if (first >= 0) {
            count_windows(table, src, n, first, 1);
            return;
        }
        first = WINDOWS > 1 ? window_of(table[0], WINDOWS * KINDS) : -1;
        if (first >= 0) {
            count_windows(table, src, n, first, WINDOWS);
            return;
        }
    }
    pithi_symbol_count_c(table, src, n);
}
