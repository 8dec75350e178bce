/* test_index.c - sets of elements: every form there and back, the shortest of them, damaged bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "codec.h"
#include "cpu.h"
#include "util.h"

static struct pithi_kernels kernels;
static uint64_t seed = UINT64_C(88172645463325252);
static uint64_t draw(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

/* ---- Sets ------------------------------------------------------------------------------------*/

enum { SET_UNIFORM, SET_CLUSTERED, SET_FIRST, SET_LAST, SET_EVEN, SET_KINDS };

static size_t words_of(size_t n) { return (n + 63) / 64; }
static bool has(const uint64_t *map, size_t i) { return map[i / 64] >> i % 64 & 1; }
static void add(uint64_t *map, size_t i) { map[i / 64] |= UINT64_C(1) << i % 64; }

/* A set with nothing in its map or list. Buffers have no byte more than the contract says. */
static struct pithi_index_set empty_set(size_t n, size_t count) {
    const struct pithi_index_set s = {
        .map = allocate(words_of(n) * sizeof *s.map),
        .list = allocate((pithi_index_list_most(n) + PITHI_INDEX_SLACK) * sizeof *s.list),
        .n = n,
        .count = count};
    memset(s.map, 0, words_of(n) * sizeof *s.map);
    return s;
}

static void release(struct pithi_index_set *s) {
    free(s->map);
    free(s->list);
}

/* Element k of what a set of this kind takes until it has enough. */
static size_t candidate(int kind, size_t n, size_t count, size_t k, size_t *cluster) {
    switch (kind) {
    case SET_FIRST: return k % n;
    case SET_LAST: return (n - 1) - k % n;
    case SET_EVEN: return (k < n / count * count ? k * (n / count) : draw()) % n;
    case SET_CLUSTERED:
        if (draw() % 8 == 0) *cluster = draw() % n;
        *cluster = (*cluster + 1 + (draw() % 4 == 0)) % n;
        return *cluster;
    default: return draw() % n;
    }
}

/* Lists the elements of the map, where sets that large have a list. */
static void make_list(struct pithi_index_set *s) {
    if (s->count > pithi_index_list_most(s->n)) return;
    for (size_t w = 0, k = 0; w < words_of(s->n); w++)
        for (size_t i = 64 * w; i < 64 * w + 64 && s->map[w]; i++)
            if (has(s->map, i)) s->list[k++] = (uint32_t)i;
}

static struct pithi_index_set make_set(int kind, size_t n, size_t count) {
    struct pithi_index_set s = empty_set(n, count);
    const bool inverse = count > n / 2; /* takes out what is not in the set */
    size_t cluster = draw() % n, left = inverse ? n - count : count;
    for (size_t k = 0; left; k++) {
        const size_t i = candidate(kind, n, left, k, &cluster);
        if (has(s.map, i)) continue;
        add(s.map, i);
        left--;
    }
    for (size_t w = 0; inverse && w < words_of(n); w++) s.map[w] = ~s.map[w];
    if (inverse && n % 64) s.map[n / 64] &= (UINT64_C(1) << n % 64) - 1;
    make_list(&s);
    return s;
}

/* Sizes and counts around the edges of words, groups and forms. */
static const size_t sizes[] = {1, 2, 3, 4, 5, 8, 63, 64, 65, 127, 128, 129, 512, 1000, 4101, 66000};
enum { SIZES = sizeof sizes / sizeof *sizes, COUNTS = 20 };

static size_t some_count(size_t n, size_t k) {
    const size_t counts[COUNTS] = {1,
                                   2,
                                   3,
                                   15,
                                   16,
                                   17,
                                   127,
                                   128,
                                   129,
                                   256,
                                   300,
                                   n / 16,
                                   n / 4,
                                   n / 4 + 1,
                                   n / 4 + 2,
                                   n / 2,
                                   n - 1,
                                   n,
                                   1 + draw() % n,
                                   1 + draw() % (n / 4 + 1)};
    return counts[k] < 1 ? 1 : counts[k] > n ? n : counts[k];
}

/* ---- Sizes of all forms, counted element by element ------------------------------------------*/

static size_t bits_of_number(size_t x) {
    size_t bits = 0;
    for (; x; x >>= 1) bits++;
    return bits;
}
static size_t leb(size_t x) { return x ? (bits_of_number(x) + 6) / 7 : 1; }

/* Returns the fewest bytes of a whole group: with 2 bytes for each number that is too wide, which
 * are 7 at most, and no width above 16 with them; at most 4 bits less than the largest has. Where
 * that has 16 bits or more it is not narrowed for less than 12 bytes. */
static size_t patched_group(const size_t *d, size_t bits) {
    const size_t saves = bits < 16 ? 1 : 12;
    size_t least = 16 * bits;
    for (size_t width = bits < 4 ? 0 : bits - 4; width < bits && width <= 16; width++) {
        size_t exceptions = 0;
        for (size_t i = 0; i < 128; i++) exceptions += d[i] >= (size_t)1 << width;
        if (exceptions <= 7 && 16 * width + 2 * exceptions < least &&
            16 * width + 2 * exceptions + saves <= 16 * bits)
            least = 16 * width + 2 * exceptions;
    }
    return least;
}

static size_t packed_bytes(const struct pithi_index_set *s, bool patched) {
    size_t bytes = 0, largest = 0, in_group = 0, next = 0, d[128];
    for (size_t i = 0; i < s->count; i++) {
        d[in_group] = s->list[i] - next;
        next = (size_t)s->list[i] + 1;
        largest = d[in_group] > largest ? d[in_group] : largest;
        if (++in_group < 128 && i + 1 < s->count) continue;
        const size_t bits = bits_of_number(largest);
        bytes +=
            1 + (patched && in_group == 128 ? patched_group(d, bits) : (in_group * bits + 7) / 8);
        largest = in_group = 0;
    }
    return bytes;
}

static size_t runs_bytes(const struct pithi_index_set *s) {
    size_t bytes = 0;
    for (size_t i = 0, least = 0; i < s->n; i++) {
        if (!has(s->map, i)) continue;
        size_t end = i;
        while (end < s->n && has(s->map, end)) end++;
        bytes += leb(i - least) + leb(end - i - 1);
        least = end + 1;
        i = end;
    }
    return bytes;
}

static size_t elias_fano_bytes(const struct pithi_index_set *s, size_t low) {
    return (s->count * low + 7) / 8 + (s->count + ((s->n - 1) >> low) + 7) / 8;
}

/* The settings of the codec: small, fast in frames of revision 1, fast. */
static const struct pithi_index_setting settings[] = {
    {.elias_fano = true}, {.elias_fano = false}, {.patched = true}};
enum { SMALL, FORMER, FAST, SETTINGS };

static struct pithi_index_choice of(enum pithi_index_form form, uint32_t low_bits, size_t bytes) {
    return (struct pithi_index_choice){form, low_bits, bytes, false};
}

/* Returns the shortest form but HELD that may hold the set, of several the first. */
static struct pithi_index_choice shortest(const struct pithi_index_set *s, int setting) {
    struct pithi_index_choice best = of(PITHI_INDEX_BITMAP, 0, (s->n + 7) / 8);
    if (s->count == 0) return of(PITHI_INDEX_EMPTY, 0, 0);
    if (s->count == s->n) return of(PITHI_INDEX_ALL, 0, 0);
    if (s->count <= s->n / 4 + 1) {
        for (unsigned low = 0; low < 24 && setting == SMALL; low++)
            if (elias_fano_bytes(s, low) < best.bytes)
                best = of(PITHI_INDEX_ELIAS_FANO, low, elias_fano_bytes(s, low));
        if (packed_bytes(s, false) < best.bytes)
            best = of(PITHI_INDEX_PACKED, 0, packed_bytes(s, false));
        if (setting == FAST && packed_bytes(s, true) < best.bytes)
            best = of(PITHI_INDEX_PATCHED, 0, packed_bytes(s, true));
    }
    if (runs_bytes(s) < best.bytes) best = of(PITHI_INDEX_RUNS, 0, runs_bytes(s));
    return best;
}

/* ---- There and back --------------------------------------------------------------------------*/

/* Puts the form to a buffer of exactly its bytes. */
static uint8_t *put(const struct pithi_index_set *s, const struct pithi_index_choice *choice) {
    uint8_t *const bytes = allocate(choice->bytes);
    pithi_index_put(&kernels, choice, s, bytes);
    return bytes;
}

static void check_trip(const struct pithi_index_set *s, const struct pithi_index_choice *choice) {
    uint8_t *const bytes = put(s, choice), *const more = allocate(choice->bytes + 100);
    struct pithi_index_set back = empty_set(s->n, s->count);
    size_t used = 1;
    context("form %d of %zu low bits, %zu of %zu elements, %zu bytes", (int)choice->form,
            (size_t)choice->low_bits, s->count, s->n, choice->bytes);
    CHECK(!pithi_index_take(&kernels, choice->form, choice->low_bits, bytes, choice->bytes, &back,
                            &used));
    CHECK(used == choice->bytes);
    if (pithi_index_is_listed(choice->form))
        CHECK(!memcmp(back.list, s->list, s->count * sizeof *s->list));
    else
        CHECK(!memcmp(back.map, s->map, words_of(s->n) * sizeof *s->map));
    memset(more, 0xFF, choice->bytes + 100); /* bytes that follow belong to another */
    memcpy(more, bytes, choice->bytes);
    CHECK(!pithi_index_take(&kernels, choice->form, choice->low_bits, more, choice->bytes + 100,
                            &back, &used));
    CHECK(used == choice->bytes);
    free(bytes);
    free(more);
    release(&back);
}

static void check_every_form(const struct pithi_index_set *s) {
    struct pithi_index_choice c = of(PITHI_INDEX_BITMAP, 0, (s->n + 7) / 8);
    check_trip(s, &c);
    c = of(PITHI_INDEX_RUNS, 0, runs_bytes(s));
    check_trip(s, &c);
    if (s->count == s->n) {
        c = of(PITHI_INDEX_ALL, 0, 0);
        check_trip(s, &c);
    }
    if (s->count > s->n / 4 + 1) return;
    c = of(PITHI_INDEX_PACKED, 0, packed_bytes(s, false));
    check_trip(s, &c);
    c = of(PITHI_INDEX_PATCHED, 0, packed_bytes(s, true));
    check_trip(s, &c);
    for (unsigned low = 0; low < 24; low++) {
        c = of(PITHI_INDEX_ELIAS_FANO, low, elias_fano_bytes(s, low));
        check_trip(s, &c);
    }
}

static void every_form_comes_back(void **unused) {
    (void)unused;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t k = 0; k < COUNTS; k++)
            for (int kind = 0; kind < SET_KINDS; kind++) {
                struct pithi_index_set s = make_set(kind, sizes[i], some_count(sizes[i], k));
                check_every_form(&s);
                release(&s);
            }
}

static void large_blocks_come_back(void **unused) {
    static const size_t large[][2] = {
        {(size_t)1 << 20, 1},    {(size_t)1 << 20, 2048}, {(size_t)1 << 20, (1 << 18) + 1},
        {(size_t)1 << 24, 1},    {(size_t)1 << 24, 2},    {(size_t)1 << 24, 1678},
        {(size_t)1 << 24, 90000}};
    (void)unused;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        for (int kind = 0; kind < SET_KINDS; kind++) {
            if (!is_sampled(i * SET_KINDS + (size_t)kind, 4)) continue;
            struct pithi_index_set s = make_set(kind, large[i][0], large[i][1]);
            check_every_form(&s);
            release(&s);
        }
}

static void the_shortest_form_is_chosen(void **unused) {
    (void)unused;
    unsigned long chosen[PITHI_INDEX_FORMS] = {0};
    for (size_t i = 0; i < 2 * SIZES; i++)
        for (size_t k = 0; k <= COUNTS; k++)
            for (int kind = 0; kind < SET_KINDS; kind++) {
                const size_t n = i < SIZES ? sizes[i] : 1 + draw() % 5000;
                struct pithi_index_set s = make_set(kind, n, k < COUNTS ? some_count(n, k) : 0);
                for (int setting = 0; setting < SETTINGS; setting++) {
                    const struct pithi_index_choice wanted = shortest(&s, setting);
                    uint8_t *const bytes = allocate(pithi_index_most(n));
                    struct pithi_index_choice got =
                        pithi_index_choose(&kernels, &s, settings[setting], bytes);
                    context("%zu of %zu elements, kind %d, setting %d: form %d instead of %d",
                            s.count, s.n, kind, setting, (int)got.form, (int)wanted.form);
                    CHECK(got.form == wanted.form && got.low_bits == wanted.low_bits);
                    CHECK(got.bytes == wanted.bytes && got.bytes <= pithi_index_most(n));
                    chosen[got.form]++;
                    pithi_index_put(&kernels, &got, &s, bytes);
                    got.written = false;
                    uint8_t *const twin = put(&s, &got);
                    CHECK(!memcmp(bytes, twin, got.bytes));
                    free(twin);
                    free(bytes);
                    check_trip(&s, &got);
                }
                release(&s);
            }
    for (int form = 0; form < PITHI_INDEX_FORMS; form++)
        CHECK(form == PITHI_INDEX_HELD ? !chosen[form] : chosen[form] >= 20);
}

/* The examples of doc/FORMAT.md, section 5.9. */
static void examples_have_these_bytes(void **unused) {
    static const uint32_t elements[] = {3, 4, 7, 13, 14, 15, 21, 43};
    static const struct {
        struct pithi_index_choice choice;
        uint8_t bytes[10];
    } examples[] = {{{PITHI_INDEX_BITMAP, 0, 8, false}, {0x98, 0xE0, 0x20, 0, 0, 0x08, 0, 0}},
                    {{PITHI_INDEX_ELIAS_FANO, 2, 5, false}, {0x73, 0xDE, 0xCD, 0x09, 0x02}},
                    {{PITHI_INDEX_PACKED, 0, 6, false}, {0x05, 0x03, 0x88, 0x02, 0x40, 0xA9}},
                    {{PITHI_INDEX_PATCHED, 0, 6, false}, {0x05, 0x03, 0x88, 0x02, 0x40, 0xA9}},
                    {{PITHI_INDEX_RUNS, 0, 10, false}, {3, 1, 1, 0, 4, 2, 4, 0, 0x14, 0}}};
    struct pithi_index_set s = empty_set(64, 8);
    (void)unused;
    for (size_t i = 0; i < 8; i++) add(s.map, s.list[i] = elements[i]);
    uint8_t any[64];
    CHECK(pithi_index_choose(&kernels, &s, settings[SMALL], any).low_bits == 2);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        uint8_t *const bytes = put(&s, &examples[i].choice);
        context("form %d", (int)examples[i].choice.form);
        CHECK(!memcmp(bytes, examples[i].bytes, examples[i].choice.bytes));
        free(bytes);
    }
    release(&s);
    s = empty_set(512, 128); /* differences j mod 4: a whole group, in four lanes */
    for (uint32_t j = 0, next = 0; j < 128; j++) {
        add(s.map, s.list[j] = next + j % 4);
        next = s.list[j] + 1;
    }
    const struct pithi_index_choice packed = of(PITHI_INDEX_PACKED, 0, 33);
    uint8_t *const bytes = put(&s, &packed);
    for (size_t i = 0; i < 33; i++) CHECK(bytes[i] == (i ? (i - 1) / 4 % 4 * 0x55 : 2));
    free(bytes);
    release(&s);
    s = empty_set(512, 128); /* of the same but that two of them are 9 and 14 */
    for (uint32_t j = 0, next = 0; j < 128; j++) {
        add(s.map, s.list[j] = next + (j == 5 ? 9 : j == 126 ? 14 : j % 4));
        next = s.list[j] + 1;
    }
    const struct pithi_index_choice patched = of(PITHI_INDEX_PATCHED, 0, 37);
    uint8_t *const exceptional = put(&s, &patched);
    CHECK(pithi_index_choose(&kernels, &s, settings[FAST], any).form == PITHI_INDEX_PATCHED);
    CHECK(exceptional[0] == (2 | 2 << 5));
    for (size_t i = 1; i < 33; i++) CHECK(exceptional[i] == (i - 1) / 4 % 4 * 0x55);
    CHECK(exceptional[33] == 5 && exceptional[34] == 2);
    CHECK(exceptional[35] == 126 && exceptional[36] == 3);
    free(exceptional);
    release(&s);
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

/* Takes a copy without a byte more; says whether it is a set, and checks that it is one then. */
static bool take_any(enum pithi_index_form form, uint32_t low_bits, const uint8_t *bytes,
                     size_t length, size_t n, size_t count) {
    uint8_t *const exact = copy_of(bytes, length);
    struct pithi_index_set s = empty_set(n, count);
    size_t used = 0;
    const char *const fault = pithi_index_take(&kernels, form, low_bits, exact, length, &s, &used);
    if (!fault) {
        size_t elements = 0;
        CHECK(used <= length);
        for (size_t i = 0; i < n && !pithi_index_is_listed(form); i++) elements += has(s.map, i);
        if (n % 64 && !pithi_index_is_listed(form)) CHECK(!(s.map[n / 64] >> n % 64));
        for (; pithi_index_is_listed(form) && elements < count; elements++) {
            if (elements) CHECK(s.list[elements - 1] < s.list[elements]);
            CHECK(s.list[elements] < n);
        }
        CHECK(elements == count);
        /* A set has one string of bytes in each form; in PACKED and PATCHED, widths are free. */
        if (form != PITHI_INDEX_PACKED && form != PITHI_INDEX_PATCHED) {
            const struct pithi_index_choice again = of(form, low_bits, used);
            if (!pithi_index_is_listed(form)) make_list(&s);
            uint8_t *const twin = put(&s, &again);
            CHECK(!memcmp(twin, exact, used));
            free(twin);
        }
    }
    free(exact);
    release(&s);
    return !fault;
}

static void damage(const struct pithi_index_set *s, const struct pithi_index_choice *c) {
    uint8_t *const bytes = put(s, c);
    const size_t step = test_step(1) == 1 ? 1 : 8;
    for (size_t cut = c->bytes % step; cut < c->bytes; cut += step) {
        context("form %d, %zu of %zu, cut to %zu of %zu", (int)c->form, s->count, s->n, cut,
                c->bytes);
        CHECK(!take_any(c->form, c->low_bits, bytes, cut, s->n, s->count));
    }
    for (size_t bit = c->bytes % step; bit < 8 * c->bytes; bit += step) {
        context("form %d low %u, %zu of %zu, bit %zu of %zu", (int)c->form, c->low_bits, s->count,
                s->n, bit, 8 * c->bytes);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        take_any(c->form, c->low_bits, bytes, c->bytes, s->n, s->count);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t i = 0; i < sample_of(200); i++) { /* a few bytes at once */
        uint8_t *const copy = copy_of(bytes, c->bytes);
        for (size_t k = 1 + draw() % 4; k && c->bytes; k--)
            copy[draw() % c->bytes] = draw() % 3 ? (uint8_t)draw() : 0xFF;
        take_any(c->form, c->low_bits, copy, c->bytes, s->n, s->count);
        free(copy);
    }
    for (size_t i = 0; i < sample_of(50); i++) { /* of another block, or read as another form */
        const size_t n = 1 + draw() % (2 * s->n), count = draw() % (n + 1);
        const enum pithi_index_form form =
            (enum pithi_index_form)(draw() % (PITHI_INDEX_FORMS + 1));
        take_any(form, form == PITHI_INDEX_ELIAS_FANO ? (uint32_t)(draw() % 26) : 0, bytes,
                 c->bytes, n, count);
    }
    free(bytes);
}

static void any_bytes_are_a_set_or_not(void **unused) {
    static const size_t small[][2] = {{1, 1},     {2, 1},     {9, 2},      {64, 17},    {65, 3},
                                      {100, 20},  {300, 76},  {600, 130},  {1100, 260}, {3000, 128},
                                      {5000, 40}, {70000, 9}, {70000, 300}};
    (void)unused;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        for (int kind = 0; kind < 2; kind++) {
            struct pithi_index_set s = make_set(kind, small[i][0], small[i][1]);
            if (s.n < 6000) {
                const struct pithi_index_choice map = of(PITHI_INDEX_BITMAP, 0, (s.n + 7) / 8);
                damage(&s, &map);
            }
            const struct pithi_index_choice runs = of(PITHI_INDEX_RUNS, 0, runs_bytes(&s));
            const struct pithi_index_choice packed =
                of(PITHI_INDEX_PACKED, 0, packed_bytes(&s, false));
            const struct pithi_index_choice patched =
                of(PITHI_INDEX_PATCHED, 0, packed_bytes(&s, true));
            damage(&s, &runs);
            damage(&s, &packed);
            damage(&s, &patched);
            for (unsigned low = 0; low < 24; low += 1 + (unsigned)(draw() % 4)) {
                const struct pithi_index_choice ef =
                    of(PITHI_INDEX_ELIAS_FANO, low, elias_fano_bytes(&s, low));
                damage(&s, &ef);
            }
            release(&s);
        }
}

/* Bytes that break one rule each, and beside them what is just within it. */
static void rules_are_checked_one_by_one(void **unused) {
    static const struct {
        enum pithi_index_form form;
        uint32_t low_bits;
        size_t n, count, length;
        uint8_t bytes[12];
        bool valid;
    } cases[] = {
        {PITHI_INDEX_EMPTY, 0, 9, 0, 0, {0}, true},
        {PITHI_INDEX_EMPTY, 0, 9, 1, 0, {0}, false},
        {PITHI_INDEX_EMPTY, 1, 9, 0, 0, {0}, false}, /* low bits of another form */
        {PITHI_INDEX_ALL, 0, 9, 9, 0, {0}, true},
        {PITHI_INDEX_ALL, 0, 9, 8, 0, {0}, false},
        {PITHI_INDEX_ALL, 3, 9, 9, 0, {0}, false},
        {PITHI_INDEX_HELD, 0, 9, 2, 0, {0}, false}, /* the caller's */
        {PITHI_INDEX_FORMS, 0, 9, 2, 0, {0}, false},
        {PITHI_INDEX_BITMAP, 0, 9, 2, 2, {0x01, 0x01}, true},
        {PITHI_INDEX_BITMAP, 1, 9, 2, 2, {0x01, 0x01}, false},
        {PITHI_INDEX_BITMAP, 0, 9, 2, 2, {0x01, 0x02}, false}, /* a bit behind */
        {PITHI_INDEX_BITMAP, 0, 9, 1, 2, {0x01, 0x01}, false},
        {PITHI_INDEX_BITMAP, 0, 9, 0, 2, {0x00, 0x00}, false},     /* not EMPTY */
        {PITHI_INDEX_ELIAS_FANO, 0, 8, 3, 2, {0x05, 0x02}, true},  /* 0, 1 and 7 */
        {PITHI_INDEX_ELIAS_FANO, 0, 8, 4, 2, {0x45, 0x02}, false}, /* more than n / 4 + 1 */
        {PITHI_INDEX_ELIAS_FANO, 24, 8, 1, 4, {0, 0, 0, 1}, false},
        {PITHI_INDEX_ELIAS_FANO, 23, 8, 1, 4, {7, 0, 0, 1}, true},
        {PITHI_INDEX_ELIAS_FANO, 23, 8, 1, 4, {8, 0, 0, 1}, false},    /* is n */
        {PITHI_INDEX_ELIAS_FANO, 23, 8, 1, 4, {7, 0, 0x80, 1}, false}, /* unused low bit */
        {PITHI_INDEX_ELIAS_FANO, 23, 8, 1, 4, {7, 0, 0, 2}, false},    /* behind the high bits */
        {PITHI_INDEX_ELIAS_FANO, 23, 8, 1, 4, {7, 0, 0, 0}, false},
        {PITHI_INDEX_ELIAS_FANO, 2, 8, 2, 2, {0x06, 0x03}, false}, /* 2, then 1 */
        {PITHI_INDEX_ELIAS_FANO, 2, 8, 2, 2, {0x09, 0x03}, true},  /* 1, then 2 */
        {PITHI_INDEX_ELIAS_FANO, 2, 8, 2, 2, {0x0A, 0x03}, false}, /* 2 twice */
        {PITHI_INDEX_PACKED, 0, 8, 1, 2, {3, 7}, true},
        {PITHI_INDEX_PACKED, 0, 7, 1, 2, {3, 7}, false},
        {PITHI_INDEX_PACKED, 0, 8, 1, 2, {3, 0x0F}, false}, /* unused bit */
        {PITHI_INDEX_PACKED, 0, 8, 1, 4, {24, 7, 0, 0}, true},
        {PITHI_INDEX_PACKED, 0, 8, 1, 5, {25, 7, 0, 0, 0}, false},
        {PITHI_INDEX_PACKED, 0, 8, 3, 4, {5, 0x03, 0x08, 0}, true}, /* 3, 4, 7 */
        {PITHI_INDEX_PACKED, 0, 8, 4, 4, {0, 0, 0, 0}, false},      /* more than n / 4 + 1 */
        {PITHI_INDEX_PACKED, 0, 8, 3, 1, {0}, true},
        {PITHI_INDEX_RUNS, 0, 8, 3, 2, {5, 2}, true},
        {PITHI_INDEX_RUNS, 0, 8, 3, 2, {6, 2}, false}, /* leaves the block */
        {PITHI_INDEX_RUNS, 0, 8, 3, 2, {4, 3}, false}, /* too many */
        {PITHI_INDEX_RUNS, 0, 8, 3, 4, {0, 0, 5, 1}, false},
        {PITHI_INDEX_RUNS, 0, 8, 3, 4, {0, 0, 4, 1}, true},
        {PITHI_INDEX_RUNS, 0, 8, 3, 3, {0x85, 0x00, 2}, false}, /* padded */
        {PITHI_INDEX_RUNS, 0, 300, 1, 3, {0xAB, 0x02, 0}, true},
        {PITHI_INDEX_RUNS, 0, 300, 1, 3, {0xAC, 0x02, 0}, false},
        {PITHI_INDEX_RUNS, 0, 8, 1, 6, {0x80, 0x80, 0x80, 0x80, 1, 0}, false}, /* five bytes */
        {PITHI_INDEX_RUNS, 0, 8, 1, 5, {0xFF, 0xFF, 0xFF, 0x7F, 0}, false},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        context("case %zu", i);
        CHECK(take_any(cases[i].form, cases[i].low_bits, cases[i].bytes, cases[i].length,
                       cases[i].n, cases[i].count) == cases[i].valid);
    }
}

/* A group of 128 numbers of `width` bits, 0 each, in a block of n elements, with two exceptions. */
static void exceptions_are_checked_one_by_one(void **unused) {
    static const struct {
        enum pithi_index_form form;
        unsigned width, exceptions;
        uint8_t exception[4];
        bool valid;
    } cases[] = {
        {PITHI_INDEX_PATCHED, 2, 2, {5, 2, 126, 3}, true},
        {PITHI_INDEX_PACKED, 2, 2, {5, 2, 126, 3}, false},
        {PITHI_INDEX_PATCHED, 2, 1, {5, 2}, true},
        {PITHI_INDEX_PATCHED, 2, 2, {0, 1, 127, 255}, true},
        {PITHI_INDEX_PATCHED, 2, 2, {0, 1, 128, 1}, false}, /* behind the group */
        {PITHI_INDEX_PATCHED, 2, 2, {126, 1, 5, 1}, false}, /* do not ascend */
        {PITHI_INDEX_PATCHED, 2, 2, {5, 1, 5, 1}, false},   /* one place twice */
        {PITHI_INDEX_PATCHED, 2, 2, {5, 0, 126, 3}, false}, /* no exception */
        {PITHI_INDEX_PATCHED, 2, 2, {5, 2, 126, 0}, false}, /* the same */
        {PITHI_INDEX_PATCHED, 0, 2, {5, 255, 126, 255}, true},
        {PITHI_INDEX_PATCHED, 16, 2, {5, 2, 126, 3}, true},
        {PITHI_INDEX_PATCHED, 16, 2, {5, 100, 126, 200}, false}, /* not below n */
        {PITHI_INDEX_PATCHED, 17, 2, {5, 2, 126, 3}, false},     /* too wide */
        {PITHI_INDEX_PATCHED, 24, 0, {0}, true},
        {PITHI_INDEX_PATCHED, 25, 0, {0}, false},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[2 + 16 * 25 + 4] = {0};
        const size_t at = 1 + 16 * cases[i].width, tail = 2 * (size_t)cases[i].exceptions;
        bytes[0] = (uint8_t)(cases[i].width | cases[i].exceptions << PITHI_PATCHED_SHIFT);
        memcpy(bytes + at, cases[i].exception, tail);
        context("case %zu", i);
        CHECK(take_any(cases[i].form, 0, bytes, at + tail, (size_t)1 << 24, 128) == cases[i].valid);
        CHECK(!take_any(cases[i].form, 0, bytes, at + tail - 1, (size_t)1 << 24, 128));
    }
    const uint8_t narrow[] = {1 << PITHI_PATCHED_SHIFT, 5, 1};
    context("a short group");
    CHECK(take_any(PITHI_INDEX_PATCHED, 0, narrow, sizeof narrow, 512, 128));
    CHECK(!take_any(PITHI_INDEX_PATCHED, 0, narrow, sizeof narrow, 512, 127));
}

/* ---- Bits per element ------------------------------------------------------------------------*/

static double entropy(double n, double count) {
    return (lgamma(n + 1) - lgamma(count + 1) - lgamma(n - count + 1)) / log(2) / count;
}

/* Uniform sets in blocks of 2^24 elements or fewer, 2,048 of which are in the set, and of more:
 * means over several sets. */
static void bits_are_near_the_entropy(void **unused) {
    static const struct {
        double density;
        size_t count, sets;
    } rows[] = {{1e-4, 1678, 8},  {1e-3, 2048, 32}, {1e-3, 16777, 2},
                {1e-2, 2048, 32}, {1e-2, 65536, 2}, {5e-2, 2048, 32},
                {5e-2, 65536, 2}, {1e-1, 2048, 32}, {1e-1, 65536, 2}};
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double count = (double)rows[i].count, n = floor(count / rows[i].density);
        const double least = entropy(n, count), all = count * (double)rows[i].sets;
        double small = 0, fast = 0;
        uint8_t *const bytes = allocate(pithi_index_most((size_t)1 << 24));
        for (size_t k = 0; k < rows[i].sets; k++) {
            struct pithi_index_set s =
                make_set(SET_UNIFORM, n < 0x1p24 ? (size_t)n : (size_t)1 << 24, rows[i].count);
            small +=
                8.0 * (double)pithi_index_choose(&kernels, &s, settings[SMALL], bytes).bytes / all;
            fast +=
                8.0 * (double)pithi_index_choose(&kernels, &s, settings[FAST], bytes).bytes / all;
            release(&s);
        }
        free(bytes);
        print_message(
            "%5.0f elements, density %6g: entropy %5.2f bits, small %5.2f (+%.2f), fast "
            "%5.2f (+%.2f)\n",
            count, rows[i].density, least, small, small - least, fast, fast - least);
        CHECK(small >= least && small <= least + 0.6);
        CHECK(fast >= least && fast <= least + (rows[i].density < 1e-3 ? 1.25 : 1.1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_comes_back),
        cmocka_unit_test(large_blocks_come_back),
        cmocka_unit_test(the_shortest_form_is_chosen),
        cmocka_unit_test(examples_have_these_bytes),
        cmocka_unit_test(any_bytes_are_a_set_or_not),
        cmocka_unit_test(rules_are_checked_one_by_one),
        cmocka_unit_test(exceptions_are_checked_one_by_one),
        cmocka_unit_test(bits_are_near_the_entropy),
    };
    pithi_kernels_bind(&kernels, pithi_cpu_select(test_env().cpu_mask));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
