/* update_tmpl.h - updates cut, split and made values again in vectors; included once per word type.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer defines, and this file undefines:
 *   WORD      the word type: uint16_t or uint32_t
 *   NAME(x)   x with a suffix of the word type
 * and, of vectors `vec` that the instruction set has, for these words:
 *   vec NAME(load)(const void *), void NAME(store)(void *, vec), at any address
 *   vec NAME(all)(WORD)
 *   vec NAME(add)(vec, vec), NAME(sub)(vec, vec)
 *   vec NAME(sign)(vec): all ones where the top bit is 1, else 0
 *   vec NAME(down)(vec, unsigned), NAME(up)(vec, unsigned): shifts
 *   void NAME(narrow)(uint8_t *, vec): stores the low byte of each lane
 *   vec NAME(widen)(const uint8_t *): loads a byte for each lane
 *   void NAME(put_symbols)(uint8_t *, vec): stores a byte for each lane, 255 for larger words
 *   size_t NAME(put_escapes)(uint8_t *, vec words): stores those of 255 and more, less 255, and
 *                 perhaps other bytes up to the end of a vector; returns how many they are
 *   vec NAME(add_escapes)(vec symbols, const uint8_t **): adds the next words to the symbols 255,
 *                 of which it may read a vector
 * and, if INTERLEAVES is defined, instead of what this file makes of narrow and widen:
 *   void NAME(put_planes)(uint8_t *const *, size_t i, vec): stores the bytes of each lane, from
 *                 number i on, in planes
 *   vec NAME(take_planes)(const uint8_t *const *, size_t i): the inverse
 * for all words: vec v_or(vec, vec), v_xor(vec, vec), v_and(vec, vec).
 *
 * Words behind the last whole vector are left to scalar C: base and values may be the same memory,
 * so that no vector may overlap the one before. */

#define BITS (8 * sizeof(WORD))
#define LANES (sizeof(vec) / sizeof(WORD))
#define TOP ((WORD)((WORD)1 << (BITS - 1)))

static inline vec NAME(order)(vec x) { return v_xor(x, v_or(NAME(sign)(x), NAME(all)(TOP))); }

static inline vec NAME(unorder)(vec x) {
    return v_xor(x, v_or(v_xor(NAME(sign)(x), NAME(all)((WORD)-1)), NAME(all)(TOP)));
}

static inline vec NAME(word_of)(bool ordered, const uint8_t *v, const uint8_t *b) {
    const vec x = NAME(load)(v), y = NAME(load)(b);
    const vec d = ordered ? NAME(sub)(NAME(order)(x), NAME(order)(y)) : NAME(sub)(x, y);
    return v_xor(NAME(add)(d, d), NAME(sign)(d));
}

static inline void NAME(put_value)(bool ordered, uint8_t *v, const uint8_t *b, vec word) {
    const vec odd = NAME(sub)(NAME(all)(0), v_and(word, NAME(all)(1)));
    const vec d = v_xor(NAME(down)(word, 1), odd), y = NAME(load)(b);
    NAME(store)(v, ordered ? NAME(unorder)(NAME(add)(NAME(order)(y), d)) : NAME(add)(y, d));
}

#ifndef INTERLEAVES
static inline void NAME(put_planes)(uint8_t *const *planes, size_t i, vec word) {
    NAME(narrow)(planes[0] + i, word);
    for (unsigned k = 1; k < sizeof(WORD); k++)
        NAME(narrow)(planes[k] + i, NAME(down)(word, 8 * k));
}

static inline vec NAME(take_planes)(const uint8_t *const *planes, size_t i) {
    vec word = NAME(widen)(planes[0] + i);
    for (unsigned k = 1; k < sizeof(WORD); k++)
        word = v_or(word, NAME(up)(NAME(widen)(planes[k] + i), 8 * k));
    return word;
}
#endif

/* What is left of an update from value i on. */
static inline struct pithi_update NAME(rest)(const struct pithi_update *u, size_t i) {
    struct pithi_update rest = *u;
    rest.base = (const uint8_t *)u->base + i * sizeof(WORD);
    rest.count -= i;
    return rest;
}

static inline size_t NAME(cut)(const struct pithi_update *u, bool ordered, const uint8_t *v,
                               size_t most, uint8_t *symbols, uint8_t *escapes) {
    const uint8_t *const b = u->base;
    size_t used = 0, i = 0;
    for (; i + LANES <= u->count && used <= most; i += LANES) {
        const vec word = NAME(word_of)(ordered, v + i * sizeof(WORD), b + i * sizeof(WORD));
        NAME(put_symbols)(symbols + i, word);
        used += NAME(put_escapes)(escapes + used * sizeof(WORD), word);
    }
    if (used > most) return used;
    const struct pithi_update rest = NAME(rest)(u, i);
    return used + pithi_update_cut_c(&rest, v + i * sizeof(WORD), most - used, symbols + i,
                                     escapes + used * sizeof(WORD));
}

static inline void NAME(join)(const struct pithi_update *u, bool ordered, uint8_t *v,
                              const uint8_t *symbols, const uint8_t *escapes) {
    const uint8_t *const b = u->base;
    size_t i = 0;
    for (; i + LANES <= u->count; i += LANES) {
        const vec word = NAME(add_escapes)(NAME(widen)(symbols + i), &escapes);
        NAME(put_value)(ordered, v + i * sizeof(WORD), b + i * sizeof(WORD), word);
    }
    const struct pithi_update rest = NAME(rest)(u, i);
    pithi_update_join_c(&rest, v + i * sizeof(WORD), symbols + i, escapes);
}

static inline void NAME(split)(const struct pithi_update *u, bool ordered, const uint8_t *v,
                               uint8_t *const *planes) {
    const uint8_t *const b = u->base;
    uint8_t *behind[sizeof(WORD)];
    size_t i = 0;
    for (; i + LANES <= u->count; i += LANES) {
        const vec word = NAME(word_of)(ordered, v + i * sizeof(WORD), b + i * sizeof(WORD));
        NAME(put_planes)(planes, i, word);
    }
    for (unsigned k = 0; k < sizeof(WORD); k++) behind[k] = planes[k] + i;
    const struct pithi_update rest = NAME(rest)(u, i);
    pithi_update_split_c(&rest, v + i * sizeof(WORD), behind);
}

static inline void NAME(merge)(const struct pithi_update *u, bool ordered, uint8_t *v,
                               const uint8_t *const *planes) {
    const uint8_t *const b = u->base;
    const uint8_t *behind[sizeof(WORD)];
    size_t i = 0;
    for (; i + LANES <= u->count; i += LANES) {
        const vec word = NAME(take_planes)(planes, i);
        NAME(put_value)(ordered, v + i * sizeof(WORD), b + i * sizeof(WORD), word);
    }
    for (unsigned k = 0; k < sizeof(WORD); k++) behind[k] = planes[k] + i;
    const struct pithi_update rest = NAME(rest)(u, i);
    pithi_update_merge_c(&rest, v + i * sizeof(WORD), behind);
}

#undef BITS
#undef TOP
#undef WORD
#undef NAME
#undef LANES
