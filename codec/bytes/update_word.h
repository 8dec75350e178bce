/* update_word.h - loops of update.c for one word type; included once per WORD, BITS and NAME.
 * SPDX-License-Identifier: Apache-2.0 */

#define TOP ((WORD)((WORD)1 << (BITS - 1)))

/* These take any address, aligned or not. */
static inline WORD NAME(load)(const uint8_t *p, size_t i) {
    WORD word;
    memcpy(&word, p + i * sizeof word, sizeof word);
    return word;
}

static inline void NAME(store)(uint8_t *p, size_t i, WORD word) {
    memcpy(p + i * sizeof word, &word, sizeof word);
}

static inline WORD NAME(zigzag)(WORD d) {
    return (WORD)((WORD)(d << 1) ^ (WORD)((WORD)0 - (WORD)(d >> (BITS - 1))));
}

static inline WORD NAME(unzigzag)(WORD z) {
    return (WORD)((WORD)(z >> 1) ^ (WORD)((WORD)0 - (WORD)(z & 1)));
}

/* Turns sign and magnitude into an unsigned integer that grows with the number. */
static inline WORD NAME(order)(WORD u) {
    return (WORD)(u ^ ((WORD)((WORD)0 - (WORD)(u >> (BITS - 1))) | TOP));
}

static inline WORD NAME(unorder)(WORD o) {
    return (WORD)(o ^ ((WORD)((WORD)(o >> (BITS - 1)) - (WORD)1) | TOP));
}

static void NAME(from_value)(WORD *words, const uint8_t *v, enum pithi_word_kind kind,
                             size_t count) {
    if (kind == PITHI_WORD_FLOATS)
        for (size_t i = 0; i < count; i++) {
            const WORD u = NAME(load)(v, i);
            words[i] = (WORD)((WORD)(u << 1) | (WORD)(u >> (BITS - 1)));
        }
    else if (kind == PITHI_WORD_SIGNED)
        for (size_t i = 0; i < count; i++) words[i] = NAME(zigzag)(NAME(load)(v, i));
    else
        memcpy(words, v, count * sizeof *words);
}

static void NAME(to_value)(uint8_t *v, const WORD *words, enum pithi_word_kind kind, size_t count) {
    if (kind == PITHI_WORD_FLOATS)
        for (size_t i = 0; i < count; i++) {
            const WORD z = words[i];
            NAME(store)(v, i, (WORD)((WORD)(z >> 1) | (WORD)(z << (BITS - 1))));
        }
    else if (kind == PITHI_WORD_SIGNED)
        for (size_t i = 0; i < count; i++) NAME(store)(v, i, NAME(unzigzag)(words[i]));
    else
        memcpy(v, words, count * sizeof *words);
}

static void NAME(from_update)(WORD *words, const uint8_t *v, const uint8_t *b,
                              enum pithi_word_kind kind, size_t count) {
    if (kind == PITHI_WORD_FLOATS)
        for (size_t i = 0; i < count; i++) {
            const WORD x = NAME(order)(NAME(load)(v, i)), y = NAME(order)(NAME(load)(b, i));
            words[i] = NAME(zigzag)((WORD)(x - y));
        }
    else
        for (size_t i = 0; i < count; i++)
            words[i] = NAME(zigzag)((WORD)(NAME(load)(v, i) - NAME(load)(b, i)));
}

static void NAME(to_update)(uint8_t *v, const WORD *words, const uint8_t *b,
                            enum pithi_word_kind kind, size_t count) {
    if (kind == PITHI_WORD_FLOATS)
        for (size_t i = 0; i < count; i++) {
            const WORD y = NAME(order)(NAME(load)(b, i));
            NAME(store)(v, i, NAME(unorder)((WORD)(y + NAME(unzigzag)(words[i]))));
        }
    else
        for (size_t i = 0; i < count; i++)
            NAME(store)(v, i, (WORD)(NAME(load)(b, i) + NAME(unzigzag)(words[i])));
}

static void NAME(from)(void *words, const void *values, const void *base, enum pithi_word_kind kind,
                       size_t count) {
    if (base)
        NAME(from_update)(words, values, base, kind, count);
    else
        NAME(from_value)(words, values, kind, count);
}

static void NAME(to)(void *values, const void *words, const void *base, enum pithi_word_kind kind,
                     size_t count) {
    if (base)
        NAME(to_update)(values, words, base, kind, count);
    else
        NAME(to_value)(values, words, kind, count);
}

/* Counts the words that are escapes with symbols of 1, 2, 4 and 8 bits. */
static void NAME(tally)(uint64_t escapes[4], const void *words, size_t count) {
    const WORD *w = words;
    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t end = count - at < CHUNK ? count : at + CHUNK;
        uint16_t n[4] = {0};
        for (size_t i = at; i < end; i++) {
            n[0] = (uint16_t)(n[0] + (w[i] >= 1));
            n[1] = (uint16_t)(n[1] + (w[i] >= 3));
            n[2] = (uint16_t)(n[2] + (w[i] >= 15));
            n[3] = (uint16_t)(n[3] + (w[i] >= 255));
        }
        for (size_t k = 0; k < 4; k++) escapes[k] += n[k];
    }
}

static size_t NAME(split)(uint8_t *work, void *escapes, const void *words, WORD escape,
                          size_t count) {
    const WORD *w = words;
    WORD *e = escapes;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) work[i] = (uint8_t)(w[i] < escape ? w[i] : escape);
    if (escape == FEW) {
        const uint8_t *const end = work + count;
        for (const uint8_t *at = work; (at = memchr(at, FEW, (size_t)(end - at)));)
            e[used++] = (WORD)(w[at++ - work] - escape);
        return used;
    }
    for (size_t i = 0; i < count; i++) {
        const WORD word = w[i];
        e[used] = (WORD)(word - escape);
        used += word >= escape;
    }
    return used;
}

/* Returns what follows the escapes that it took. */
static const WORD *NAME(join)(void *words, const uint8_t *work, const void *escapes, WORD escape,
                              size_t count) {
    WORD *w = words;
    const WORD *e = escapes;
    if (escape == FEW) {
        const uint8_t *const end = work + count;
        for (size_t i = 0; i < count; i++) w[i] = work[i];
        for (const uint8_t *at = work; (at = memchr(at, FEW, (size_t)(end - at)));) {
            WORD *const word = &w[at++ - work];
            *word = (WORD)(*word + *e++);
        }
        return e;
    }
    for (size_t i = 0; i < count; i++) {
        const WORD chosen = (WORD)((WORD)0 - (WORD)(work[i] == escape));
        w[i] = (WORD)(work[i] + (e[0] & chosen));
        e += work[i] == escape;
    }
    return e;
}

/* ---- Updates, in chunks that stay in the first-level cache -----------------------------------*/

/* Makes words of the chunk of values from number `at` on. */
static void NAME(take_values)(const struct pithi_update *u, WORD *words, const uint8_t *v,
                              size_t at, size_t n) {
    const uint8_t *const b = (const uint8_t *)u->base + at * sizeof(WORD);
    v += at * sizeof(WORD);
    NAME(from_update)(words, v, b, u->ordered ? PITHI_WORD_FLOATS : PITHI_WORD_UNSIGNED, n);
}

/* The inverse. */
static void NAME(put_values)(const struct pithi_update *u, const WORD *words, uint8_t *v, size_t at,
                             size_t n) {
    const uint8_t *const b = (const uint8_t *)u->base + at * sizeof(WORD);
    v += at * sizeof(WORD);
    NAME(to_update)(v, words, b, u->ordered ? PITHI_WORD_FLOATS : PITHI_WORD_UNSIGNED, n);
}

static size_t NAME(cut)(const struct pithi_update *u, const uint8_t *v, size_t most,
                        uint8_t *symbols, WORD *escapes) {
    WORD words[CHUNK];
    size_t used = 0;
    for (size_t at = 0, n; at < u->count && used <= most; at += n) {
        n = u->count - at < CHUNK ? u->count - at : CHUNK;
        NAME(take_values)(u, words, v, at, n);
        used += NAME(split)(symbols + at, escapes + used, words, FEW, n);
    }
    return used;
}

static void NAME(join_update)(const struct pithi_update *u, uint8_t *v, const uint8_t *symbols,
                              const WORD *escapes) {
    WORD words[CHUNK];
    for (size_t at = 0, n; at < u->count; at += n) {
        n = u->count - at < CHUNK ? u->count - at : CHUNK;
        escapes = NAME(join)(words, symbols + at, escapes, FEW, n);
        NAME(put_values)(u, words, v, at, n);
    }
}

static void NAME(split_update)(const struct pithi_update *u, const uint8_t *v,
                               uint8_t *const *planes) {
    WORD words[CHUNK];
    for (size_t at = 0, n; at < u->count; at += n) {
        n = u->count - at < CHUNK ? u->count - at : CHUNK;
        NAME(take_values)(u, words, v, at, n);
        for (size_t k = 0; k < sizeof(WORD); k++)
            pithi_plane_take(planes[k] + at, words, sizeof(WORD), k, n);
    }
}

static void NAME(merge_update)(const struct pithi_update *u, uint8_t *v,
                               const uint8_t *const *planes) {
    const uint8_t *from[sizeof(WORD)];
    WORD words[CHUNK];
    for (size_t at = 0, n; at < u->count; at += n) {
        n = u->count - at < CHUNK ? u->count - at : CHUNK;
        for (size_t k = 0; k < sizeof(WORD); k++) from[k] = planes[k] + at;
        pithi_planes_merge(words, from, sizeof(WORD), n);
        NAME(put_values)(u, words, v, at, n);
    }
}

#undef TOP
#undef WORD
#undef BITS
#undef NAME
