/* top_word.h - loops of top_symbols.c for one word type; included once per WORD and NAME.
 * SPDX-License-Identifier: Apache-2.0 */

/* Counts runs of words that begin every `step` words; returns how many words they have. */
static uint32_t NAME(count_tops)(struct sample *s, const WORD *words, size_t count, size_t step) {
    enum { BITS = 8 * sizeof(WORD) };
    const unsigned low = BITS - s->bits;
    uint32_t total = 0;
    for (size_t at = 0, n; at < count; at += step, total += (uint32_t)n) {
        n = count - at < PITHI_TOP_RUN ? count - at : PITHI_TOP_RUN;
        for (size_t i = at; i < at + n; i++) {
            s->top[words[i] >> low]++;
            s->second[words[i] >> (BITS - 16) & 0xFF]++;
        }
    }
    return total;
}

static void NAME(cut)(const struct pithi_top *top, const WORD *words, size_t count,
                      uint8_t *symbols, uint8_t *planes, size_t stride, uint8_t *bits) {
    const unsigned low = top->low, whole = low / 8, rest = low % 8;
    const WORD base = (WORD)top->base;
    for (size_t i = 0; i < count; i++) {
        const WORD t = (WORD)(words[i] >> low), s = (WORD)(t - base);
        const uint8_t symbol = (uint8_t)((WORD)(s - 1) < 254 ? s : PITHI_TOP_ESCAPE);
        symbols[i] = (uint8_t)(t ? symbol : 0);
    }
    for (unsigned k = 0; k < whole; k++)
        for (size_t i = 0; i < count; i++) planes[k * stride + i] = (uint8_t)(words[i] >> 8 * k);
    if (rest)
        for (size_t i = 0; i < count; i++)
            bits[i] = (uint8_t)(words[i] >> 8 * whole & ((1u << rest) - 1));
}

static size_t NAME(escapes)(const struct pithi_top *top, const WORD *words, size_t count,
                            const uint8_t *symbols, uint16_t *escapes) {
    size_t used = 0;
    for (const uint8_t *at = symbols, *const end = symbols + count;
         (at = memchr(at, PITHI_TOP_ESCAPE, (size_t)(end - at)));)
        escapes[used++] = (uint16_t)(words[at++ - symbols] >> top->low);
    return used;
}

/* Joins a chunk of values at any address; returns what follows the escapes that it took. */
static const uint8_t *NAME(join)(const struct pithi_top *top, uint8_t *values, size_t count,
                                 const uint8_t *symbols, const uint8_t *const *planes, size_t at,
                                 const uint8_t *bits, const uint8_t *escapes) {
    const unsigned low = top->low, whole = low / 8;
    const WORD base = (WORD)top->base, lower = (WORD)(((WORD)1 << low) - 1);
    WORD words[CHUNK];
    for (size_t i = 0; i < count; i++) {
        const WORD s = symbols[i];
        words[i] = (WORD)((WORD)(s ? s + base : 0) << low);
    }
    if (low % 8)
        for (size_t i = 0; i < count; i++) words[i] |= (WORD)((WORD)bits[i] << 8 * whole);
    for (unsigned k = 0; k < whole; k++) {
        const uint8_t *const plane = planes[k] + at;
        for (size_t i = 0; i < count; i++) words[i] |= (WORD)((WORD)plane[i] << 8 * k);
    }
    for (const uint8_t *found = symbols, *const end = symbols + count;
         (found = memchr(found, PITHI_TOP_ESCAPE, (size_t)(end - found))); escapes += 2) {
        WORD *const word = &words[found++ - symbols];
        *word = (WORD)((*word & lower) | (WORD)((WORD)pithi_get16(escapes) << low));
    }
    for (size_t i = 0; i < count; i++)
        words[i] = (WORD)((WORD)(words[i] >> 1) | (WORD)(words[i] << (8 * sizeof(WORD) - 1)));
    memcpy(values, words, count * sizeof *words);
    return escapes;
}

#undef WORD
#undef NAME
