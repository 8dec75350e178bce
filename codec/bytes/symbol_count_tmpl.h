/* symbol_count_tmpl.h - count symbols of which most lie in a window of few kinds, in vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer defines:
 *   BYTES     the bytes of a vector
 *   WINDOWS   the most windows of 16 kinds, side by side, that are worth the time
 * and, of vectors `vec` that the instruction set has:
 *   vec load(const uint8_t *), void store(uint64_t *, vec), vec all(uint8_t)
 *   vec v_and(vec, vec), add8(vec, vec), sub8(vec, vec), add64(vec, vec)
 *   vec add_most(vec, vec): of unsigned bytes, 255 at most
 *   vec look_up(const uint8_t table[16], vec at): 0 where bit 7 of `at` is set, else the byte at
 *                 its low four bits
 *   vec high_half(vec): each byte / 16
 *   vec sum(vec): of the bytes of each 64-bit lane
 *   uint8_t *put_where(uint8_t *to, const uint8_t *from, vec at): the bytes of a vector where bit 7
 *                 of `at` is set, and perhaps others up to a vector; returns what follows them
 *
 * A byte of a counter has two kinds, of four bits each; a group is as many vectors as these can
 * count. Other symbols go to a buffer, and are counted one by one. */

enum { KINDS = 16, GROUP = 15, SAMPLE = 512, COUNT_LEAST = 4096 };

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

struct counters {
    vec kind[WINDOWS][KINDS];
};

/* Counts a group of vectors; returns what follows the others in the buffer. */
static inline uint8_t *count_group(struct counters *c, const uint8_t *src, int first, int windows,
                                   uint8_t *others) {
    static const uint8_t pair[KINDS / 2][16] = {{1, 16},
                                                {0, 0, 1, 16},
                                                {0, 0, 0, 0, 1, 16},
                                                {0, 0, 0, 0, 0, 0, 1, 16},
                                                {0, 0, 0, 0, 0, 0, 0, 0, 1, 16},
                                                {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 16},
                                                {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 16},
                                                {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 16}};
    vec sums[WINDOWS][KINDS / 2];
    for (int w = 0; w < windows; w++)
        for (int k = 0; k < KINDS / 2; k++) sums[w][k] = all(0);
    for (int v = 0; v < GROUP; v++, src += BYTES) {
        const vec x = sub8(load(src), all((uint8_t)first));
        vec outside = all(0xFF);
        for (int w = 0; w < windows; w++) {
            const vec at = add_most(sub8(x, all((uint8_t)(w * KINDS))), all(0x70));
            outside = v_and(outside, at);
            for (int k = 0; k < KINDS / 2; k++) sums[w][k] = add8(sums[w][k], look_up(pair[k], at));
        }
        others = put_where(others, src, outside);
    }
    for (int w = 0; w < windows; w++)
        for (int k = 0; k < KINDS / 2; k++) {
            vec *const to = &c->kind[w][2 * k];
            to[0] = add64(to[0], sum(v_and(sums[w][k], all(15))));
            to[1] = add64(to[1], sum(high_half(sums[w][k])));
        }
    return others;
}

static void count_others(uint32_t table[PITHI_RANS_TABLES][256], const uint8_t *src, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) table[k][src[i + (size_t)k]]++;
    for (; i < n; i++) table[0][src[i]]++;
}

static inline void count_windows(uint32_t table[PITHI_RANS_TABLES][256], const uint8_t *src,
                                 size_t n, int first, int windows) {
    enum { STEP = GROUP * BYTES, BUFFER = 4 * STEP };
    uint8_t buffer[BUFFER + BYTES];
    struct counters c;
    for (int w = 0; w < windows; w++)
        for (int k = 0; k < KINDS; k++) c.kind[w][k] = all(0);
    memset(table, 0, 4 * sizeof table[0]);
    uint8_t *others = buffer;
    for (; n >= STEP; src += STEP, n -= STEP) {
        if (others - buffer > BUFFER - STEP) {
            count_others(table, buffer, (size_t)(others - buffer));
            others = buffer;
        }
        others = count_group(&c, src, first, windows, others);
    }
    count_others(table, buffer, (size_t)(others - buffer));
    count_others(table, src, n);
    for (int s = 0; s < 256; s++) table[0][s] += table[1][s] + table[2][s] + table[3][s];
    for (int k = 0; k < windows * KINDS && first + k < 256; k++) {
        uint64_t lanes[BYTES / 8];
        store(lanes, c.kind[k / KINDS][k % KINDS]);
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
