/* top_symbols_loops.h - the hooks of top symbols over the vectors of top_symbols_tmpl.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer has included top_symbols_tmpl.h for words of 16, 32 and 64 bits, with these numbers
 * as suffixes, and defines LANES_16, the words of 16 bits in a vector: fewer words are left to
 * scalar C. */

static size_t cut(const struct pithi_top *top, const void *words, size_t count, uint8_t *symbols,
                  uint8_t *planes, uint8_t *bits, uint16_t *escapes) {
    if (count < LANES_16) return pithi_top_cut_c(top, words, count, symbols, planes, bits, escapes);
    switch (top->width) {
    case 2: return cut_all16(top, words, count, symbols, planes, bits, escapes);
    case 4: return cut_all32(top, words, count, symbols, planes, bits, escapes);
    default: return cut_all64(top, words, count, symbols, planes, bits, escapes);
    }
}

static void join(const struct pithi_top *top, void *values, size_t count, const uint8_t *symbols,
                 const uint8_t *const *planes, const uint8_t *string, const uint8_t *escapes) {
    if (count < LANES_16) {
        pithi_top_join_c(top, values, count, symbols, planes, string, escapes);
        return;
    }
    switch (top->width) {
    case 2: join_all16(top, values, count, symbols, planes, string, escapes); break;
    case 4: join_all32(top, values, count, symbols, planes, string, escapes); break;
    default: join_all64(top, values, count, symbols, planes, string, escapes); break;
    }
}
