/* top_symbols_tmpl.h - cut and join words in vectors; included once per word type.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer defines, and this file undefines:
 *   WORD      the word type: uint16_t, uint32_t or uint64_t
 *   NAME(x)   x with a suffix of the word type
 *   WHOLE     the most whole bytes below a top; since a top has 16 bits at most, the fewest are
 *             one less
 * and, of vectors `vec` that the instruction set has, for these words:
 *   vec NAME(load)(const void *), void NAME(store)(void *, vec), at any address
 *   vec NAME(all)(WORD)
 *   vec NAME(add)(vec, vec), NAME(sub)(vec, vec)
 *   vec NAME(down)(vec, unsigned), NAME(up)(vec, unsigned): shifts
 *   vec NAME(symbol)(vec s, vec top): s where it is 1 to 254, else PITHI_TOP_ESCAPE; 0 where
 *                 the top is 0; in the low byte of each lane
 *   vec NAME(zero_of)(vec s, vec x): x, 0 where s is 0
 *   void NAME(narrow)(uint8_t *, vec): stores the low byte of each lane
 *   vec NAME(widen)(const uint8_t *): loads a byte for each lane
 * for all words: vec v_and(vec, vec), v_or(vec, vec); uint64_t escapes_of(const uint8_t *), a bit
 * for each of 64 symbols ESCAPE; unpack, which does what pithi_top_unpack does; and CHUNK, how many
 * words are joined together, a multiple of 128, so that their bits stay in the first-level cache.
 *
 * The last vector ends with the last word, and may write again what the one before wrote. */

#define LANES (sizeof(vec) / sizeof(WORD))

static inline size_t NAME(next)(size_t i, size_t count) {
    return count - i >= 2 * LANES ? i + LANES : i + LANES == count ? count : count - LANES;
}

static inline void NAME(cut)(const struct pithi_top *top, unsigned whole, const WORD *words,
                             size_t count, uint8_t *symbols, uint8_t *planes, uint8_t *bits) {
    const unsigned low = top->low, rest = low % 8;
    const vec base = NAME(all)((WORD)top->base), mask = NAME(all)((WORD)((1u << rest) - 1));
    for (size_t i = 0; i < count; i = NAME(next)(i, count)) {
        const vec x = NAME(load)(words + i), t = NAME(down)(x, low);
        NAME(narrow)(symbols + i, NAME(symbol)(NAME(sub)(t, base), t));
        for (unsigned k = 0; k < whole; k++)
            NAME(narrow)(planes + k * count + i, k ? NAME(down)(x, 8 * k) : x);
        if (rest) NAME(narrow)(bits + i, v_and(whole ? NAME(down)(x, 8 * whole) : x, mask));
    }
}

static size_t NAME(cut_all)(const struct pithi_top *top, const WORD *words, size_t count,
                            uint8_t *symbols, uint8_t *planes, uint8_t *bits, uint16_t *escapes) {
    if (top->low / 8 == WHOLE)
        NAME(cut)(top, WHOLE, words, count, symbols, planes, bits);
    else
        NAME(cut)(top, WHOLE - 1, words, count, symbols, planes, bits);
    memset(bits + count, 0, (8 - count % 8) % 8);
    size_t used = 0, i = 0;
    for (; i + 64 <= count; i += 64)
        for (uint64_t found = escapes_of(symbols + i); found; found &= found - 1)
            escapes[used++] = (uint16_t)(words[i + (size_t)__builtin_ctzll(found)] >> top->low);
    for (; i < count; i++)
        if (symbols[i] == PITHI_TOP_ESCAPE) escapes[used++] = (uint16_t)(words[i] >> top->low);
    return used;
}

static inline vec NAME(value_of)(vec word) {
    return v_or(NAME(down)(word, 1), NAME(up)(word, 8 * sizeof(WORD) - 1));
}

static inline void NAME(join)(const struct pithi_top *top, unsigned whole, WORD *values,
                              size_t count, const uint8_t *symbols, const uint8_t *const *planes,
                              size_t at, const uint8_t *bits) {
    const unsigned low = top->low, rest = low % 8;
    const vec base = NAME(all)((WORD)top->base);
    for (size_t i = 0; i < count; i = NAME(next)(i, count)) {
        const vec s = NAME(widen)(symbols + i);
        vec x = NAME(up)(NAME(zero_of)(s, NAME(add)(s, base)), low);
        for (unsigned k = 0; k < whole; k++) {
            const vec plane = NAME(widen)(planes[k] + at + i);
            x = v_or(x, k ? NAME(up)(plane, 8 * k) : plane);
        }
        if (rest) {
            const vec lower = NAME(widen)(bits + i);
            x = v_or(x, whole ? NAME(up)(lower, 8 * whole) : lower);
        }
        NAME(store)(values + i, NAME(value_of)(x));
    }
}

/* Puts a top in its value, which lies at any address. */
static inline void NAME(mend)(const struct pithi_top *top, void *value, uint32_t t) {
    const WORD lower = (WORD)(((WORD)1 << top->low) - 1);
    WORD word;
    memcpy(&word, value, sizeof word);
    word = (WORD)((WORD)(word << 1) | (WORD)(word >> (8 * sizeof(WORD) - 1)));
    word = (WORD)((word & lower) | (WORD)((WORD)t << top->low));
    word = (WORD)((WORD)(word >> 1) | (WORD)(word << (8 * sizeof(WORD) - 1)));
    memcpy(value, &word, sizeof word);
}

static void NAME(join_all)(const struct pithi_top *top, WORD *values, size_t count,
                           const uint8_t *symbols, const uint8_t *const *planes,
                           const uint8_t *string, const uint8_t *escapes) {
    const unsigned rest = top->low % 8;
    uint8_t bits[CHUNK];
    for (size_t at = 0, n; at < count; at += n) {
        /* No chunk is shorter than a vector. */
        n = count - at < CHUNK + LANES ? count - at : CHUNK;
        if (n > CHUNK) n = CHUNK / 2;
        if (rest) unpack(bits, string + at / 8 * rest, rest, n);
        if (top->low / 8 == WHOLE)
            NAME(join)(top, WHOLE, values + at, n, symbols + at, planes, at, bits);
        else
            NAME(join)(top, WHOLE - 1, values + at, n, symbols + at, planes, at, bits);
        size_t i = at;
        for (; i + 64 <= at + n; i += 64)
            for (uint64_t found = escapes_of(symbols + i); found; found &= found - 1, escapes += 2)
                NAME(mend)(top, values + i + (size_t)__builtin_ctzll(found), pithi_get16(escapes));
        for (; i < at + n; i++) {
            if (symbols[i] != PITHI_TOP_ESCAPE) continue;
            NAME(mend)(top, values + i, pithi_get16(escapes));
            escapes += 2;
        }
    }
}

#undef WORD
#undef NAME
#undef LANES
#undef WHOLE
