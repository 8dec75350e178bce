/* decimal.c - settings that are decimal numbers, such as an error bound, without rounding them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/decimal.h"

#include <string.h>

#include "common/numeric.h"

enum {
    EXPONENT_BITS = 10,
    EXPONENT_BIAS = 512,
    EXPONENT_MAX = 300,
    DIGITS = 6,
    MANTISSA_END = 1000000
};

static uint32_t mantissa_of(uint32_t word) { return word >> EXPONENT_BITS; }
static int exponent_of(uint32_t word) {
    return (int)(word & ((1u << EXPONENT_BITS) - 1)) - EXPONENT_BIAS;
}

/* ---- Text ------------------------------------------------------------------------------------*/

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Parses the end of a number, such as "e-12", and adds it to *exponent. */
static bool parse_exponent(const char *text, size_t length, int *exponent) {
    int value = 0;
    if (length == 0) return true;
    const bool sign = length > 1 && (text[1] == '-' || text[1] == '+');
    size_t i = sign ? 2 : 1;
    if ((text[0] != 'e' && text[0] != 'E') || i == length || length - i > 4) return false;
    for (; i < length; i++) {
        if (!is_digit(text[i])) return false;
        value = value * 10 + (text[i] - '0');
    }
    *exponent += sign && text[1] == '-' ? -value : value;
    return true;
}

/* Parses digits around at most one point. `zeros` counts those at the end so far, which count only
 * when another digit follows. */
static bool parse_digits(const char *text, size_t length, size_t *used, uint32_t *mantissa,
                         int *exponent) {
    uint64_t m = 0;
    int zeros = 0, after = 0;
    bool point = false, any = false;
    size_t i = 0;
    for (; i < length && (is_digit(text[i]) || text[i] == '.'); i++) {
        if (text[i] == '.') {
            if (point) return false;
            point = true;
            continue;
        }
        any = true;
        after += point;
        if (text[i] == '0') {
            zeros += m != 0;
            continue;
        }
        for (; zeros >= 0 && m < MANTISSA_END; zeros--) m *= 10;
        if (m >= MANTISSA_END) return false;
        zeros = 0;
        m += (uint64_t)(text[i] - '0');
    }
    *used = i;
    *mantissa = (uint32_t)m;
    *exponent = zeros - after;
    return any && m < MANTISSA_END;
}

bool pithi_decimal_parse(const char *text, size_t length, uint32_t *word) {
    uint32_t mantissa = 0;
    int exponent = 0;
    size_t used = 0;
    if (length > 400 || !parse_digits(text, length, &used, &mantissa, &exponent)) return false;
    if (!parse_exponent(text + used, length - used, &exponent)) return false;
    *word = 0;
    if (!mantissa) return true;
    if (exponent < -EXPONENT_MAX || exponent > EXPONENT_MAX) return false;
    *word = mantissa << EXPONENT_BITS | (uint32_t)(exponent + EXPONENT_BIAS);
    return true;
}

bool pithi_decimal_legal(uint32_t word) {
    const uint32_t m = mantissa_of(word);
    const int e = exponent_of(word);
    if (!word) return true;
    return m && m < MANTISSA_END && m % 10 && e >= -EXPONENT_MAX && e <= EXPONENT_MAX;
}

static size_t digits_of(uint32_t v, char out[DIGITS]) {
    size_t n = 0;
    for (uint32_t scale = MANTISSA_END / 10; scale; scale /= 10)
        if (n || v / scale) out[n++] = (char)('0' + v / scale % 10);
    return n;
}

/* Prints d[.ddd]e[-]x. */
static size_t print_scientific(const char *digits, size_t n, int exponent, char *text) {
    size_t at = 0;
    text[at++] = digits[0];
    if (n > 1) {
        text[at++] = '.';
        memcpy(text + at, digits + 1, n - 1);
        at += n - 1;
    }
    text[at++] = 'e';
    if (exponent < 0) text[at++] = '-';
    char power[DIGITS];
    const size_t m = digits_of((uint32_t)(exponent < 0 ? -exponent : exponent), power);
    memcpy(text + at, power, m);
    return at + m;
}

size_t pithi_decimal_print(uint32_t word, char text[PITHI_DECIMAL_TEXT]) {
    char digits[DIGITS];
    const size_t n = digits_of(mantissa_of(word), digits);
    const int e = exponent_of(word), top = e + (int)n - 1; /* top: power of the first digit */
    size_t at = 0;
    if (!word) {
        text[at++] = '0';
    } else if (e >= 0 && top < DIGITS) {
        memcpy(text, digits, n);
        memset(text + n, '0', (size_t)e);
        at = n + (size_t)e;
    } else if (e < 0 && top >= 0) {
        memcpy(text, digits, (size_t)top + 1);
        text[top + 1] = '.';
        memcpy(text + top + 2, digits + top + 1, n - (size_t)top - 1);
        at = n + 1;
    } else if (top == -1 || top == -2) {
        memcpy(text, "0.0", 3);
        at = top == -1 ? 2 : 3;
        memcpy(text + at, digits, n);
        at += n;
    } else {
        at = print_scientific(digits, n, top, text);
    }
    text[at] = 0;
    return at;
}

/* ---- Value -----------------------------------------------------------------------------------*/

/* An integer of LIMBS words of 32 bits, least significant first, times 2^-POINT: wide enough for
 * 10^306 above the point and for 53 bits of 10^-300 below it. */
enum { LIMBS = 72, POINT = 1184 };

static void multiply(uint32_t limb[LIMBS], uint32_t by) {
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint64_t)limb[i] * by;
        limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* Divides and rounds down; rounding each of several quotients down gives the same as rounding
 * once. */
static void divide(uint32_t limb[LIMBS], uint32_t by) {
    uint64_t rest = 0;
    for (int i = LIMBS; i-- > 0;) {
        rest = rest << 32 | limb[i];
        limb[i] = (uint32_t)(rest / by);
        rest %= by;
    }
}

/* Returns the 53 bits from the highest one on, as a normal double. */
static double top_bits(const uint32_t limb[LIMBS]) {
    int high = LIMBS * 32 - 1;
    while (!(limb[high / 32] >> (high % 32) & 1)) high--;
    uint64_t fraction = 0;
    for (int i = 1; i <= 52; i++) {
        const int bit = high - i;
        fraction = fraction << 1 | (bit >= 0 ? limb[bit / 32] >> (bit % 32) & 1 : 0);
    }
    return pithi_double((uint64_t)(high - POINT + 1023) << 52 | fraction);
}

double pithi_decimal_floor(uint32_t word) {
    uint32_t limb[LIMBS] = {0};
    int e = exponent_of(word);
    if (!word) return 0;
    limb[POINT / 32] = mantissa_of(word);
    for (; e > 0; e--) multiply(limb, 10);
    for (; e < 0; e++) divide(limb, 10);
    return top_bits(limb);
}

uint32_t pithi_decimal_share(uint32_t word, uint32_t n) {
    const uint64_t most = 100000000000000000; /* less than 1 / most leaves nothing of any n */
    const uint64_t parts = (uint64_t)mantissa_of(word) * n;
    uint64_t unit = 1;
    for (int e = exponent_of(word); e < 0 && unit < most; e++) unit *= 10;
    return (uint32_t)((2 * parts + unit) / (2 * unit));
}

uint64_t pithi_decimal_part(uint32_t word, uint64_t n) {
    int e = exponent_of(word);
    if (e >= 0) return word ? n : 0; /* 1 */
    /* The product in two halves; floor of a quotient by 10, e times, is that by 10^e. */
    uint64_t low = (n & UINT32_MAX) * mantissa_of(word);
    uint64_t high = (n >> 32) * mantissa_of(word) + (low >> 32);
    for (low &= UINT32_MAX; e < 0 && (high | low); e++) {
        low |= high % 10 << 32;
        high /= 10;
        low /= 10;
    }
    return high << 32 | low;
}
