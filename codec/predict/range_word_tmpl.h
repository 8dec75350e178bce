/* range_word_tmpl.h - the smallest and largest finite values of one width, in a form that compilers
 * make vectors of.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer defines EXTREMES, a name, and WORD, the signed integer of as many bits as a value;
 * both end with this file. */
static void EXTREMES(const void *values, size_t count, WORD infinity, struct pithi_extremes *e) {
    const uint8_t *const from = values;
    const WORD most = (WORD)((UINT64_C(1) << (8 * sizeof(WORD) - 1)) - 1);
    const WORD least = (WORD)(-most - 1);
    WORD low = most, high = least;
    for (size_t i = 0; i < count; i++) {
        WORD u;
        memcpy(&u, from + sizeof u * i, sizeof u);
        const WORD negative = (WORD)(0 - (u < 0)); /* all ones or none, as the next */
        const WORD finite = (WORD)(0 - ((WORD)(u & infinity) != infinity));
        const WORD order = (WORD)(u ^ (negative & most));
        const WORD a = (WORD)((order & finite) | (most & ~finite));
        const WORD b = (WORD)((order & finite) | (least & ~finite));
        low = a < low ? a : low;
        high = b > high ? b : high;
    }
    if (low > high) return;
    if (low < e->low) e->low = low;
    if (high > e->high) e->high = high;
}
#undef EXTREMES
#undef WORD
