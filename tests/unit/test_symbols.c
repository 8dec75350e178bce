/* test_symbols.c - coded words: by hand, there and back, damaged; and estimates of their size.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "bytes/entropy.h"
#include "bytes/symbols.h"
#include "codec.h"
#include "predict/estimate.h"
#include "predict/strip.h"
#include "util.h"

static uint64_t seed = 1;
static uint32_t random_word(void) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 32);
}

static struct pithi_kernels scalar;

static void *scratch_of(size_t count) {
    const size_t bytes = (pithi_symbols_scratch(count) + 63) / 64 * 64;
    void *scratch = aligned_alloc(64, bytes);
    CHECK(scratch);
    return memset(scratch, 0xA5, bytes);
}

/* No byte more than to read takes. */
static void *take_scratch_of(size_t count) {
    const size_t bytes = pithi_symbols_take_scratch(count);
    return memset(allocate(bytes), 0xA5, bytes);
}

static struct pithi_entropy *coder_of(size_t most, int level) {
    const size_t bytes = pithi_entropy_bytes(most, level);
    void *const memory = aligned_alloc(64, bytes);
    CHECK(memory);
    return pithi_entropy_open(memset(memory, 0xA5, bytes), bytes);
}

/* ---- By hand ---------------------------------------------------------------------------------*/

enum { LONGEST = 48, WORDS_MOST = 20 };

struct by_hand {
    const char *what; /* "bad: ..." is refused */
    size_t count, length;
    uint8_t bytes[LONGEST];
    uint32_t words[WORDS_MOST];
};

static const struct by_hand cases[] = {
    {"dense, a plain piece", 3, 12, {0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9}, {7, 8, 9}},
    {"dense, one byte", 3, 10, {0, 0, 0, 0, 0, 0, 0, 0, 1, 7}, {7, 7, 7}},
    {"an escape", 3, 16, {0, 0, 0, 0, 1, 0, 0, 0, 0, 7, 255, 9, 2, 1, 0, 0}, {7, 513, 9}},
    {"an escape that wraps", 1, 14, {0, 0, 0, 0, 1, 0, 0, 0, 1, 255, 2, 255, 255, 255}, {1}},
    {"a low bit", 2, 12, {1, 0, 0, 0, 0, 0, 0, 0, 0xFE, 0xFF, 1, 3}, {6, 7}},
    {"two low bits and an escape",
     2,
     19,
     {2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 2, 0, 0, 255, 1, 1, 0, 0, 0},
     {1025, 6}},
    {"sparse",
     18,
     22,
     {0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 3, 12, 0, 5, 6},
     {[3] = 5, [16] = 6}},
    {"sparse, all 0", 4, 16, {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0}},
    {"sparse, a 0 of its own",
     2,
     20,
     {0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0},
     {0}},
    {"bad: no head", 3, 7, {0}, {0}},
    {"bad: 25 low bits", 1, 60 - 12, {25}, {0}},
    {"bad: form 2", 3, 10, {0, 2, 0, 0, 0, 0, 0, 0, 1, 7}, {0}},
    {"bad: byte 2", 3, 10, {0, 0, 1, 0, 0, 0, 0, 0, 1, 7}, {0}},
    {"bad: byte 3", 3, 10, {0, 0, 0, 1, 0, 0, 0, 0, 1, 7}, {0}},
    {"bad: low bits cut", 2, 9, {1, 0, 0, 0, 0, 0, 0, 0, 0xFE}, {0}},
    {"bad: piece cut", 3, 11, {0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 8}, {0}},
    {"bad: kind of piece", 3, 12, {0, 0, 0, 0, 0, 0, 0, 0, 4, 7, 8, 9}, {0}},
    {"bad: an escape too many", 1, 14, {0, 0, 0, 0, 1, 0, 0, 0, 1, 7, 0, 0, 0, 0}, {0}},
    {"bad: an escape too few", 1, 10, {0, 0, 0, 0, 0, 0, 0, 0, 1, 255}, {0}},
    {"bad: escapes cut", 1, 13, {0, 0, 0, 0, 1, 0, 0, 0, 1, 255, 0, 0, 0}, {0}},
    {"bad: sparse head cut", 4, 15, {0, 1}, {0}},
    {"bad: gaps beyond the words",
     2,
     20,
     {0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 1, 5},
     {0}},
    {"bad: zeros beyond the words",
     2,
     18,
     {0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 255},
     {0}},
    {"bad: a gap that does not end",
     300,
     18,
     {0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 255},
     {0}},
    {"bad: more gaps than words",
     1,
     18,
     {0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 255},
     {0}},
    {"bad: fewer symbols than gaps",
     4,
     20,
     {0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 5},
     {0}},
    {"bad: more symbols than gaps",
     4,
     20,
     {0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 5},
     {0}},
};

static void bytes_by_hand(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct by_hand *const c = &cases[k];
        void *const scratch = take_scratch_of(c->count);
        struct pithi_entropy *const coder = coder_of(c->count, PITHI_EFFORT_NONE);
        uint8_t *const bytes = copy_of(c->bytes, c->length);
        uint32_t *const words = allocate(32 * sizeof *words);
        struct pithi_reader r = {bytes, c->length, scratch, coder, pithi_rans_decode_c};
        const char *const fault = pithi_symbols_take(&r, &scalar, words, c->count);
        context("%s", c->what);
        CHECK((fault != NULL) == (strncmp(c->what, "bad", 3) == 0));
        if (!fault) CHECK(r.left == 0 && memcmp(words, c->words, c->count * sizeof *words) == 0);
        free(scratch);
        free(coder);
        free(bytes);
        free(words);
    }
}

/* ---- There and back --------------------------------------------------------------------------*/

/* Words below 2^bits, all but one in `rare` of them 0, and a huge one in `wild`. */
struct mixture {
    unsigned bits;
    uint32_t rare, wild;
};

static void fill(uint32_t *words, size_t count, const struct mixture *m) {
    for (size_t i = 0; i < count; i++) {
        words[i] = random_word() % m->rare ? 0 : random_word() & (uint32_t)((1ull << m->bits) - 1);
        if (m->wild && random_word() % m->wild == 0) words[i] = random_word();
    }
}

/* Words that are read in parts of ever more groups are the same. */
static void check_parts(const uint32_t *words, size_t count, const uint8_t *bytes, size_t length,
                        void *scratch, struct pithi_entropy *coder) {
    struct pithi_reader r = {bytes, length, scratch, coder, pithi_rans_decode_c};
    struct pithi_symbols coded;
    CHECK(!pithi_symbols_open(&coded, &r, &scalar, count));
    for (size_t at = 0, n = 0; at < count; at += n) {
        n = n + 48 < count - at ? n + 48 : count - at;
        uint32_t *const part = allocate((n + 15) / 16 * 16 * sizeof *part);
        pithi_symbols_next(&coded, n, part);
        context("words %zu to %zu of %zu", at, at + n, count);
        CHECK(memcmp(part, words + at, n * sizeof *part) == 0);
        free(part);
    }
}

/* Writes the words and reads them again. A smaller capacity and a shorter string are refused
 * without a fault. */
static size_t there_and_back(const uint32_t *words, size_t count, int level, bool cuts) {
    void *const scratch = scratch_of(count);
    void *const read = take_scratch_of(count);
    struct pithi_entropy *const coder = coder_of(count, level & 31);
    const size_t most = 5 * count + 1000, groups = (count + 15) / 16;
    uint8_t *const bytes = allocate(most);
    uint32_t *const back = allocate(groups * 16 * sizeof *back);
    pithi_rans_encode_fn *const rans = count % 2 ? pithi_rans_encode_c : NULL;
    struct pithi_pen pen = {bytes, most, level, scratch, coder, rans, NULL, false};
    CHECK(pithi_symbols_put(&pen, count, &scalar, words, count));
    const size_t length = (size_t)(pen.at - bytes);
    CHECK(pen.capacity == most - length);
    for (size_t cut = 0; cut <= length; cut += cuts && cut < length ? 1 : length - cut + 1) {
        uint8_t *const copy = copy_of(bytes, cut);
        struct pithi_reader r = {copy, cut, read, coder, pithi_rans_decode_c};
        context("%zu of %zu bytes", cut, length);
        const char *const fault = pithi_symbols_take(&r, &scalar, back, count);
        CHECK((cut < length) == (fault != NULL));
        if (cut == length) CHECK(r.left == 0);
        struct pithi_pen small = {copy, cut, level, scratch, coder, rans, NULL, false};
        if (cuts) CHECK(cut >= length || !pithi_symbols_put(&small, count, &scalar, words, count));
        free(copy);
    }
    struct pithi_reader r = {bytes, length, read, coder, pithi_rans_decode_c};
    CHECK(!pithi_symbols_take(&r, &scalar, back, count));
    CHECK(memcmp(back, words, count * sizeof *back) == 0);
    check_parts(words, count, bytes, length, read, coder);
    free(scratch);
    free(read);
    free(coder);
    free(bytes);
    free(back);
    return length;
}

static void words_come_back(void **state) {
    static const struct mixture mixtures[] = {{0, 1, 0},  {3, 1, 0},   {8, 1, 0},    {9, 1, 0},
                                              {20, 1, 0}, {32, 1, 0},  {6, 300, 0},  {6, 3, 500},
                                              {2, 9, 40}, {31, 20, 0}, {4, 1, 10000}};
    static const size_t counts[] = {1, 2, 15, 16, 17, 255, 257, 1000, 70001};
    (void)state;
    for (size_t k = 0; k < sizeof mixtures / sizeof *mixtures; k++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            uint32_t *const words = allocate(counts[i] * sizeof *words);
            fill(words, counts[i], &mixtures[k]);
            context("mixture %zu, %zu words", k, counts[i]);
            there_and_back(words, counts[i], PITHI_EFFORT_MIN, counts[i] < 300);
            there_and_back(words, counts[i], PITHI_EFFORT_MIN | PITHI_ENTROPY_BARE, false);
            if (counts[i] < 2000) there_and_back(words, counts[i], 6, false);
            free(words);
        }
}

/* A sum of uniform numbers, as normal as it takes. */
static double normal(void) {
    double sum = -6;
    for (int k = 0; k < 12; k++) sum += random_word() * 0x1p-32;
    return sum;
}

static uint32_t normal_word(double deviation) {
    const long q = lrint(normal() * deviation);
    return (uint32_t)(q < 0 ? -2 * q - 1 : 2 * q);
}

/* The entropy of normal numbers in steps is log2(deviation * sqrt(2 pi e)). */
static void noise_takes_its_entropy(void **state) {
    static const double deviations[] = {2, 5, 45, 450, 4.5e5};
    enum { COUNT = 100000 };
    static uint32_t words[COUNT];
    (void)state;
    for (size_t k = 0; k < sizeof deviations / sizeof *deviations; k++) {
        for (size_t i = 0; i < COUNT; i++) words[i] = normal_word(deviations[k]);
        const double entropy = log2(deviations[k]) + 2.047;
        const double bits =
            8.0 * (double)there_and_back(words, COUNT, 1 | PITHI_ENTROPY_BARE, false) / COUNT;
        context("deviation %g: %.3f bits, entropy %.3f", deviations[k], bits, entropy);
        CHECK(bits < entropy * 1.03);
    }
}

static void rare_words_take_little(void **state) {
    enum { COUNT = 1 << 18 };
    static uint32_t words[COUNT];
    (void)state;
    for (size_t i = 0; i < COUNT; i++) words[i] = random_word() % 1000 ? 0 : 1 + random_word() % 2;
    const size_t length = there_and_back(words, COUNT, 1, false);
    context("%zu bytes", length);
    CHECK(length < 800); /* entropy: 406 bytes */
}

/* Of 14 words more than 6 have to be 0: the share is taken of fives of words. */
static void more_than_three_in_five_are_sparse(void **state) {
    enum { COUNT = 14 };
    (void)state;
    void *const scratch = scratch_of(COUNT);
    struct pithi_entropy *const coder = coder_of(COUNT, PITHI_EFFORT_NONE);
    for (size_t zeros = 0; zeros <= COUNT; zeros++) {
        uint32_t words[COUNT] = {0};
        uint8_t bytes[100] = {0};
        struct pithi_pen pen = {bytes,   sizeof bytes, PITHI_EFFORT_NONE,
                                scratch, coder,        pithi_rans_encode_c,
                                NULL,    false};
        for (size_t i = zeros; i < COUNT; i++) words[i] = 1;
        CHECK(pithi_symbols_put(&pen, COUNT, &scalar, words, COUNT));
        context("%zu zeros, %u low bits, form %u", zeros, bytes[0], bytes[1]);
        CHECK(bytes[0] == 0 && bytes[1] == (zeros > 6));
    }
    free(scratch);
    free(coder);
}

/* Words of 20 bits, every eighth or more of them, and of fewer; every value equally likely. */
struct two_kinds {
    unsigned eighths, narrow;
};

/* Bits of a word with `low` of them apart. */
static double bits_with(const struct two_kinds *w, unsigned low) {
    double sum = low, zeros = 0, escapes = 0;
    for (unsigned b = 0; b <= 20; b++) {
        const double wide = ldexp(1, b ? (int)b - 21 : -20);
        const double narrow = b > w->narrow ? 0 : ldexp(b ? 0.5 : 1, (int)b - (int)w->narrow);
        const double p = (w->eighths * wide + (8 - w->eighths) * narrow) / 8;
        if (b <= low)
            zeros += p;
        else if (b > low + 8)
            escapes += p;
        else if (p > 0)
            sum += p * (b - low - 1 - log2(p));
    }
    if (zeros > 0) sum -= zeros * log2(zeros);
    if (escapes > 0) sum += escapes * (32 - log2(escapes));
    return sum;
}

static unsigned fewest_low_bits(const struct two_kinds *w) {
    double least = INFINITY;
    for (unsigned low = 0; low <= 24; low++) least = fmin(least, bits_with(w, low));
    unsigned low = 0;
    while (bits_with(w, low) > least * 65 / 64) low++;
    return low;
}

static void low_bits_are_the_fewest_that_cost_least(void **state) {
    enum { COUNT = 16000 };
    static uint32_t words[COUNT];
    static uint8_t bytes[5 * COUNT];
    (void)state;
    void *const scratch = scratch_of(COUNT);
    struct pithi_entropy *const coder = coder_of(COUNT, PITHI_EFFORT_NONE);
    for (unsigned narrow = 1; narrow < 16; narrow++)
        for (unsigned eighths = 1; eighths < 8; eighths++) {
            const struct two_kinds w = {eighths, narrow};
            for (size_t i = 0; i < COUNT; i++)
                words[i] = random_word() >> (i % 8 < eighths ? 12 : 32 - narrow);
            struct pithi_pen pen = {bytes,   sizeof bytes, PITHI_EFFORT_NONE,
                                    scratch, coder,        pithi_rans_encode_c,
                                    NULL,    false};
            CHECK(pithi_symbols_put(&pen, COUNT, &scalar, words, COUNT));
            context("%u in 8 are wide, others %u bits: %u low bits, expected %u", eighths, narrow,
                    bytes[0], fewest_low_bits(&w));
            CHECK(bytes[0] == fewest_low_bits(&w));
        }
    free(scratch);
    free(coder);
}

/* ---- Coders ----------------------------------------------------------------------------------*/

/* A string with matches near and far, so that tables matter. */
static void fill_string(uint8_t *string, size_t n) {
    for (size_t i = 0, copied = 0; i < n; i++) {
        if (!copied && i > 64 && random_word() % 200 == 0) copied = random_word() % 100;
        const size_t back = 1 + random_word() % 64;
        string[i] = copied ? string[i - 64] : (uint8_t)(random_word() % 8 * back % 11);
        copied -= copied > 0;
    }
}

/* Bytes do not tell what else a coder was used for, failures, readings and other levels included.
 * Strings lie where others have been. */
static void coders_forget(void **state) {
    enum { MOST = 300000, RUNS = 300, TOP = 6 };
    static uint8_t strings[MOST], bytes[MOST], same[MOST], back[MOST];
    struct pithi_entropy *const used = coder_of(MOST, TOP);
    (void)state;
    for (int k = 0; k < RUNS; k++) {
        const size_t n = 1 + random_word() % (k % 8 ? 20000 : MOST),
                     at = random_word() % (MOST - n);
        const int level = k % 3 ? 1 : 1 + (int)(random_word() % TOP);
        const int all = level | (random_word() % 2 ? PITHI_ENTROPY_BARE : 0);
        struct pithi_entropy *const fresh = coder_of(n, level);
        fill_string(strings + at, n);
        const size_t length = pithi_entropy_pack(fresh, all, strings + at, n, bytes, n);
        context("%zu bytes at level %d, coded to %zu", n, all, length);
        if (random_word() % 4 == 0)
            CHECK(!pithi_entropy_pack(used, all, strings + at, n, same, length / 2));
        CHECK(pithi_entropy_pack(used, all, strings + at, n, same, n) == length);
        CHECK(memcmp(same, bytes, length) == 0);
        if (length && k % 5 == 0) {
            same[random_word() % length] ^= 8;
            (void)pithi_entropy_unpack(used, same, length, back, n);
            CHECK(pithi_entropy_unpack(used, bytes, length, back, n));
            CHECK(memcmp(back, strings + at, n) == 0);
        }
        free(fresh);
    }
    free(used);
}

/* ---- What a sample of a long string does not say ----------------------------------------------*/

/* Returns the bytes of a piece, 0 when it does not fit. */
static size_t piece_of(const uint8_t *src, size_t n, size_t cap) {
    void *const scratch = scratch_of(n);
    struct pithi_entropy *const coder = coder_of(n, 1);
    uint8_t *const bytes = allocate(cap);
    struct pithi_pen pen = {bytes, cap, 1, scratch, coder, pithi_rans_encode_c, NULL, false};
    const bool fits = pithi_piece_put(&pen, n, src, n);
    const size_t length = fits ? (size_t)(pen.at - bytes) : 0;
    free(scratch), free(coder), free(bytes);
    return length;
}

/* Noise that comes again after more bytes than a sample has. */
static void far_repeats_are_found(void **state) {
    enum { N = 131072 };
    static uint8_t src[N];
    (void)state;
    for (size_t period = 8192; period <= 65536; period *= 2) {
        for (size_t i = 0; i < N; i++)
            src[i] = i < period ? (uint8_t)(random_word() >> 3) : src[i - period];
        const size_t bytes = piece_of(src, N, 2 * N);
        context("period %zu: %zu bytes", period, bytes);
        CHECK(bytes && bytes < period + period / 16 + 2000);
    }
}

/* What repeats nearby in less than sixteen bytes, or is a long run of one, saves more than a 64th
 * of what symbols take one by one. */
static void near_repeats_are_found(void **state) {
    enum { N = 131072, WORD = 12, WORDS = 300, ROW = 1024 };
    static uint8_t src[N], words[WORDS][WORD];
    static struct pithi_rans memory;
    (void)state;
    for (size_t i = 0; i < sizeof words; i++) words[i / WORD][i % WORD] = (uint8_t)random_word();
    for (int rows = 0; rows < 2; rows++) {
        for (size_t i = 0, at = 0, zeros = 0; i < N; i++) {
            if (i % WORD == 0) at = random_word() % WORDS;
            if (i % ROW == 0) zeros = random_word() % 2;
            src[i] = rows ? (uint8_t)(zeros ? 0 : random_word() % 32) : words[at][i % WORD];
        }
        const size_t planned = pithi_rans_plan(&memory, NULL, false, src, N);
        const size_t bytes = piece_of(src, N, 2 * N);
        context("%s: %zu bytes, %zu are planned", rows ? "rows" : "words", bytes, planned);
        CHECK(bytes && bytes < planned - planned / 64 + 8);
    }
}

/* In short strings: what repeats, and few symbols, of which zstd's tables are smaller. */
static void short_strings_take_the_least(void **state) {
    enum { MOST = 8192, PERIOD = 40, LEVEL = 1 };
    static uint8_t src[MOST], bytes[MOST];
    static struct pithi_rans memory;
    (void)state;
    for (size_t n = 128; n <= MOST; n = n * 5 / 4)
        for (unsigned kinds = 2; kinds <= 256; kinds *= 2)
            for (size_t repeats = 0; repeats < 2; repeats++) {
                for (size_t i = 0; i < n; i++) {
                    const uint32_t x = random_word() >> 3;
                    src[i] = repeats && i >= PERIOD && i % 256 > 16
                                 ? src[i - PERIOD]
                                 : (uint8_t)((x & x >> 8) % kinds);
                }
                src[0] = 1, src[1] = 0;
                struct pithi_entropy *const coder = coder_of(n, LEVEL);
                const size_t coded = pithi_entropy_pack(coder, LEVEL, src, n, bytes, n);
                const size_t planned = pithi_rans_plan(&memory, NULL, false, src, n);
                const size_t wanted = coded && coded < planned ? coded : planned;
                const size_t least = wanted < n ? wanted : n, length = piece_of(src, n, 2 * n);
                context("%zu bytes of %u kinds: %zu, of %zu coded and %zu planned", n, kinds,
                        length, coded, planned);
                CHECK(length <= least + least / 32 + 16);
                free(coder);
            }
}

/* Noise in the middle only, and only in the middle none, into as little as it takes. */
static void the_middle_is_not_all(void **state) {
    enum { N = 40000, MIDDLE = 10000 };
    static uint8_t src[N];
    (void)state;
    for (int noise_inside = 0; noise_inside < 2; noise_inside++) {
        for (size_t i = 0; i < N; i++) {
            const bool inside = i >= (N - MIDDLE) / 2 && i < (N + MIDDLE) / 2;
            src[i] = inside == noise_inside ? (uint8_t)(random_word() >> 3) : 7;
        }
        const size_t noise = noise_inside ? MIDDLE : N - MIDDLE;
        const size_t bytes = piece_of(src, N, 2 * N);
        context("noise %s the middle: %zu bytes", noise_inside ? "in" : "around", bytes);
        CHECK(bytes && bytes < noise + noise / 16 + 2000);
        CHECK(piece_of(src, N, bytes + 64) == bytes); /* zstd wants some space to end */
    }
    memset(src, 7, sizeof src);
    for (size_t i = 0; i < 50; i++) src[i] = (uint8_t)(random_word() >> 3);
    CHECK(piece_of(src, N, 400) > 0);
}

/* ---- Estimates -------------------------------------------------------------------------------*/

static struct pithi_estimate estimate_of(const float *values, const uint32_t extent[4],
                                         double bound) {
    const size_t count = (size_t)extent[0] * extent[1] * extent[2] * extent[3];
    const struct pithi_bound b = {PITHI_BOUND_ABSOLUTE, bound, 0};
    struct pithi_quant q;
    int32_t *const codes = allocate(count * sizeof *codes);
    uint8_t *const miss = allocate(count / 8 + 1);
    CHECK(pithi_quant_init(&q, PITH_F32, &b, false));
    pithi_quantize_c(&q, values, count, codes, miss);
    const struct pithi_estimate e = pithi_estimate_tile(&q, pithi_predict_c, values, codes, extent);
    free(codes);
    free(miss);
    return e;
}

/* Each kind of values has the predictor that suits it, by what is known of their entropy. */
static void estimates_find_the_predictor(void **state) {
    static const uint32_t extent[4] = {1, 32, 32, 32};
    static float values[32768];
    (void)state;
    for (size_t i = 0; i < 32768; i++) values[i] = (float)normal();
    const struct pithi_estimate noise = estimate_of(values, extent, 0x1p-10);
    for (int k = 1; k <= 4; k++) CHECK(noise.lorenzo[0] < noise.lorenzo[k]);
    CHECK(noise.lorenzo[0] < noise.interp);
    CHECK(noise.interp_row == 0);
    for (size_t i = 0; i < 32768; i++)
        values[i] = (float)(sin((double)(i / 1024) * 0.2) * cos((double)(i / 32 % 32) * 0.15) +
                            sin((double)(i % 32) * 0.1));
    const struct pithi_estimate smooth = estimate_of(values, extent, 0x1p-10);
    for (int k = 0; k <= 4; k++) CHECK(smooth.interp < smooth.lorenzo[k]);
    context("smooth: %u interpolated, row %u", smooth.interp, smooth.interp_row);
    CHECK(smooth.interp < 256 && smooth.interp_row == 1);
    for (size_t i = 1; i < 32768; i++)
        values[i] = values[i - 1] + (float)(int)(random_word() % 9) - 4;
    const struct pithi_estimate walk = estimate_of(values, (const uint32_t[]){1, 1, 1, 32768}, 0.5);
    context("walk: %u none, %u first order, %u interpolated", walk.lorenzo[0], walk.lorenzo[1],
            walk.interp);
    CHECK(walk.lorenzo[1] < walk.lorenzo[0] && walk.lorenzo[1] < walk.interp);
    CHECK(fabs(walk.lorenzo[1] / 256.0 - 3.17) < 0.1); /* log2 9 */
}

/* What a few words are said to take is about what they take. */
static void estimates_are_near_the_bytes(void **state) {
    enum { N = 2048 };
    static const struct mixture mixtures[] = {{3, 1, 0}, {11, 1, 0}, {6, 2, 300}, {20, 1, 50}};
    (void)state;
    for (size_t k = 0; k < sizeof mixtures / sizeof mixtures[0]; k++) {
        uint32_t words[N];
        fill(words, N, &mixtures[k]);
        const double bytes = (double)there_and_back(words, N, 1, false);
        const double said = (double)pithi_symbols_estimate(&scalar, words, N, N);
        context("mixture %zu: %g bytes, said to be %g", k, bytes, said);
        CHECK(fabs(said - bytes) < bytes / 8);
    }
}

/* So is what packed codes are said to take, exactly where all of them are looked at. */
static void estimates_of_packing_are_near(void **state) {
    enum { FEW = 2000, MOST = 20000 };
    int32_t *const codes = allocate(MOST * sizeof *codes);
    uint8_t *const bytes = allocate(5 * MOST);
    void *const scratch = allocate(pithi_strip_scratch(MOST));
    (void)state;
    for (uint32_t n = FEW; n <= MOST; n *= 10) {
        for (size_t i = 0; i < n; i++) codes[i] = (int32_t)(random_word() >> (20 + i / 9 % 9)) - 99;
        const struct pithi_strip row = {&scalar, {1, 1, 1, n}, 0};
        struct pithi_pen pen = {.at = bytes, .capacity = 5 * MOST, .scratch = scratch};
        CHECK(pithi_strip_put(&row, codes, &pen));
        const size_t length = (size_t)(pen.at - bytes), said = pithi_strip_estimate(&row, codes);
        context("%u codes: %zu bytes, said to be %zu", n, length, said);
        CHECK(n == FEW ? said == length
                       : said > length - length / 32 && said < length + length / 32);
    }
    free(codes);
    free(bytes);
    free(scratch);
}

/* Gaps that lead far behind the words: refused, and nothing is written behind the scratch. */
static void gaps_end_with_the_words(void **state) {
    enum { COUNT = 4096, BEYOND = COUNT * 255 / 8 };
    static const uint8_t bytes[] = {0, 1,   0, 0, 0, 0,  0, 0, /* sparse, no escapes */
                                    0, 16,  0, 0, 0, 16, 0, 0, /* gaps, others */
                                    1, 254, 1, 5};             /* all of them alike */
    (void)state;
    const size_t size = pithi_symbols_take_scratch(COUNT);
    uint8_t *const scratch = memset(allocate(size + BEYOND), 0xA5, size + BEYOND);
    uint32_t *const words = allocate(COUNT * sizeof *words);
    struct pithi_reader r = {bytes, sizeof bytes, scratch, NULL, NULL};
    CHECK(pithi_symbols_take(&r, &scalar, words, COUNT));
    for (size_t i = size; i < size + BEYOND; i++) CHECK(scratch[i] == 0xA5);
    free(scratch);
    free(words);
}

int main(void) {
    pithi_kernels_bind(&scalar, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_end_with_the_words),
        cmocka_unit_test(bytes_by_hand),
        cmocka_unit_test(words_come_back),
        cmocka_unit_test(noise_takes_its_entropy),
        cmocka_unit_test(rare_words_take_little),
        cmocka_unit_test(more_than_three_in_five_are_sparse),
        cmocka_unit_test(low_bits_are_the_fewest_that_cost_least),
        cmocka_unit_test(coders_forget),
        cmocka_unit_test(far_repeats_are_found),
        cmocka_unit_test(near_repeats_are_found),
        cmocka_unit_test(short_strings_take_the_least),
        cmocka_unit_test(the_middle_is_not_all),
        cmocka_unit_test(estimates_find_the_predictor),
        cmocka_unit_test(estimates_are_near_the_bytes),
        cmocka_unit_test(estimates_of_packing_are_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
