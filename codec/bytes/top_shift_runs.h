/* top_shift_runs.h - runs of symbols of a row shifted, in vectors of 32, 16 and 8.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer defines:
 *   offsets             the offset of a row, as its vectors take it
 *   offsets offsets_of(unsigned row)
 *   void shift_32(uint8_t *to, const uint8_t *symbols, offsets row, const uint8_t *columns),
 *        shift_16, shift_8: so many symbols at any address, each with the offset of its column */

/* Shifts n > 0 neighbours of a row. Where there are enough, the last vector ends with them, and may
 * write again what the one before wrote. */
static inline void shift_run(uint8_t *to, const uint8_t *symbols, size_t n, unsigned row,
                             const uint8_t *columns) {
    const offsets of_row = offsets_of(row);
    if (n >= 32) {
        for (size_t i = 0; i < n; i = n - i >= 64 ? i + 32 : i + 32 == n ? n : n - 32)
            shift_32(to + i, symbols + i, of_row, columns + i);
    } else if (n >= 16) {
        shift_16(to, symbols, of_row, columns);
        if (n > 16) shift_16(to + n - 16, symbols + n - 16, of_row, columns + n - 16);
    } else if (n >= 8) {
        shift_8(to, symbols, of_row, columns);
        if (n > 8) shift_8(to + n - 8, symbols + n - 8, of_row, columns + n - 8);
    } else {
        for (size_t i = 0; i < n; i++) {
            const unsigned s = symbols[i], x = 1 + (s - 1 + row + columns[i]) % PITHI_TOP_SHIFTS;
            to[i] = (uint8_t)(s - 1 < PITHI_TOP_SHIFTS ? x : s);
        }
    }
}
