/* trellis_tmpl.h - trellis-coded groups, written once over vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has the lanes and defines, beside them:
 *   wide                    a vector of 16 lanes of 16 bits
 *   w_set, w_load, w_store  one number in all lanes; 16 numbers from and to memory
 *   w_and, w_xor, w_add, w_sub, w_mul, w_min, w_equal
 *                           of lanes; numbers are unsigned; equal ones give all ones
 *   w_adds                  a sum, 65535 where it is more
 *   w_choose(m, a, b)       a where the mask m has all ones, b where it has none
 *   w_shr, w_shl            shifts by a constant
 *   w_abs, w_sign           of signed numbers: magnitudes; all ones where negative
 *   w_table, w_index, w_look
 *                           16 bytes as a table; indices 0 to 15 made ready for it; the bytes there
 *   eight, e_low, e_high    for trellis_job_tmpl.h: a vector of eight of these lanes
 *   e_load, e_store         eight numbers from and to memory
 *   put_codes(to, row, flip, bits)
 *                           the low four bits of 16 numbers, with `flip` inverted, as codes
 *
 * and for decoding, either
 *   v_down(x, n)            lanes of 32 bits, shifted to the right
 *   struct window, window_of(place, shift), window_take(w, from)
 *                           of 16 codes: each lane of 32 bits gets a code and the three before it,
 *                           the last of these lowest; `from` is two bytes before the first code's
 *                           and 16 may be read. Of these bytes a lane gets four `place`s, 0 where
 *                           the highest bit is 1, shifted down by its `shift`
 * or, with OWN_LEVELS,
 *   struct decoder, decoder_make
 *                           for trellis_job_tmpl.h
 *   unit_levels(levels, d, codes, k, sequence, bits)
 *                           the levels of UNIT codes, the first of which is number k of sequences
 *                           of so many; called for one unit after the other, beginning with k = 0
 *
 * Encoding takes 16 sequences at a time, one to a lane, which are those of as many groups or of
 * one. */
#include "common/lanes_tmpl.h"
#include "group/trellis_value.h"

enum { WIDE = 16, SEQUENCE = PITHI_TRELLIS_SEQUENCE, STATES = PITHI_TRELLIS_STATES };
enum { BIAS = 32 }; /* no level that a value which is not negative is compared with is below -32 */

struct tables {
    struct pithi_trellis plain;
    bool level[16 * PITHI_TRELLIS_CELLS]; /* whether a magnitude is a level */
    wide near[4];                         /* by cell: the level of each subset, plus BIAS */
    wide first;                           /* by cell: the number of the first of these levels */
    wide magnitude;                       /* of the upper half of the levels */
    wide bit;                             /* by state: its bit */
};

/* 16 sequences, and what is made of them in place: values, then words that have a level in their
 * upper 12 bits and its code in the lower ones. `state` is where a path begins. */
struct paths {
    _Alignas(64) uint16_t step[SEQUENCE * WIDE]; /* by step, then by lane */
    uint16_t row[WIDE * SEQUENCE];               /* by lane, then by step */
    /* The bits of the states that keep the upper way, and above them the number of the first
     * level. */
    uint16_t upper[SEQUENCE * WIDE];
    uint16_t state[WIDE];
};

#ifndef OWN_LEVELS
struct decoder {
    struct window window;
    v16 level, begin; /* levels, or the upper half of them; what of a window is in a sequence that
                       * begins with it */
};
#endif

#include "group/trellis_job_tmpl.h"

/* ---- Encode: tables ---------------------------------------------------------------------------*/

static void tables_make(struct tables *t, uint32_t bits) {
    uint8_t near[4][16], magnitude[16], bit[16];
    pithi_trellis_init(&t->plain, bits);
    memset(t->level, 0, sizeof t->level);
    for (int cell = 0; cell < PITHI_TRELLIS_CELLS; cell++)
        for (int k = 0; k < 4; k++) {
            const int number = pithi_trellis_of_subset(t->plain.first[cell], k);
            near[k][cell] = (uint8_t)(t->plain.level[number] + BIAS);
        }
    const int half = t->plain.levels / 2;
    for (int i = 0; i < 16; i++) {
        const int level = t->plain.level[half + i % half];
        magnitude[i] = (uint8_t)level;
        t->level[level] = true;
        bit[i] = (uint8_t)(1u << i % STATES);
    }
    for (int k = 0; k < 4; k++) t->near[k] = w_table(near[k]);
    t->first = w_table(t->plain.first);
    t->magnitude = w_table(magnitude);
    t->bit = w_table(bit);
}

/* ---- Encode: paths ----------------------------------------------------------------------------*/

ALWAYS void transpose8(const uint16_t *from, size_t from_step, uint16_t *to, size_t to_step) {
    eight x[8], y[8];
    PITHI_UNROLL for (size_t i = 0; i < 8; i++) x[i] = e_load(from + i * from_step);
    transpose_rows(x, y);
    PITHI_UNROLL for (size_t i = 0; i < 8; i++) e_store(to + i * to_step, y[i]);
}

static __attribute__((noinline)) void transpose(const uint16_t *from, size_t rows, size_t columns,
                                                size_t from_step, uint16_t *to, size_t to_step) {
    for (size_t i = 0; i < rows; i += 8)
        for (size_t j = 0; j < columns; j += 8)
            transpose8(from + i * from_step + j, from_step, to + j * to_step + i, to_step);
}

/* Steps are taken in blocks: the distances of all of a block come before its metrics, which then
 * stay in registers. */
enum { BLOCK = 16 };

ALWAYS void measure_step(const struct tables *t, wide outermost, const uint16_t *values,
                         wide distance[4], uint16_t *upper) {
    const wide y = w_load(values), sign = w_sign(y), size = w_abs(y);
    const wide cell = w_index(w_shr(size, 4)), x = w_add(size, w_set(BIAS));
    const wide e0 = w_sub(x, w_look(t->near[0], cell)), e1 = w_sub(x, w_look(t->near[1], cell));
    const wide e2 = w_sub(x, w_look(t->near[2], cell)), e3 = w_sub(x, w_look(t->near[3], cell));
    const wide f0 = w_choose(sign, e3, e0), f1 = w_choose(sign, e2, e1);
    const wide f2 = w_choose(sign, e1, e2), f3 = w_choose(sign, e0, e3);
    const wide first = w_look(t->first, cell);
    const wide last = w_sub(outermost, first);
    distance[0] = w_mul(f0, f0);
    distance[1] = w_mul(f1, f1);
    distance[2] = w_mul(f2, f2);
    distance[3] = w_mul(f3, f3);
    w_store(upper, w_add(w_shl(w_choose(sign, last, first), 8), w_set(0xFF)));
}

/* Makes the metrics of two states from those of the two before both, and takes the bits of those
 * that keep the lower way. */
#define STEP(low, high, s, straight, crossed)                                            \
    do {                                                                                 \
        const wide a0 = w_adds(low, straight), b0 = w_adds(high, crossed);               \
        const wide a1 = w_adds(low, crossed), b1 = w_adds(high, straight);               \
        to[s] = w_min(a0, b0);                                                           \
        to[s + 1] = w_min(a1, b1);                                                       \
        kept = w_sub(kept, w_and(w_equal(to[s], a0), w_set((uint16_t)(1u << (s)))));     \
        kept = w_sub(kept, w_and(w_equal(to[s + 1], a1), w_set((uint16_t)(2u << (s))))); \
    } while (0)

ALWAYS void forward_step(wide m[STATES], const wide d[4], uint16_t *upper) {
    wide to[STATES], kept = w_load(upper);
    STEP(m[0], m[4], 0, d[0], d[2]);
    STEP(m[1], m[5], 2, d[2], d[0]);
    STEP(m[2], m[6], 4, d[1], d[3]);
    STEP(m[3], m[7], 6, d[3], d[1]);
    PITHI_UNROLL for (int s = 0; s < STATES; s++) m[s] = to[s];
    w_store(upper, kept);
}
#undef STEP

ALWAYS void lower(wide m[STATES]) {
    const wide a = w_min(w_min(m[0], m[1]), w_min(m[2], m[3]));
    const wide b = w_min(w_min(m[4], m[5]), w_min(m[6], m[7]));
    const wide least = w_min(a, b);
    PITHI_UNROLL for (int s = 0; s < STATES; s++) m[s] = w_sub(m[s], least);
}

/* Returns the states of the least metrics, the lowest ones of equals. */
ALWAYS wide best_states(const wide m[STATES]) {
    wide best = m[0], state = w_set(0);
    PITHI_UNROLL for (int s = 1; s < STATES; s++) {
        const wide least = w_min(best, m[s]);
        state = w_choose(w_equal(least, best), state, w_set((uint16_t)s));
        best = least;
    }
    return state;
}

/* Goes back one step: values become words. */
ALWAYS wide backward_step(const struct tables *t, wide half, wide state, uint16_t *words,
                          const uint16_t *upper) {
    const wide one = w_set(1), up = w_load(upper), first = w_shr(up, 8);
    const wide bit = w_and(up, w_look(t->bit, w_index(state)));
    const wide oldest = w_add(w_equal(bit, w_set(0)), one); /* 1 where the upper way was kept */
    const wide next = w_shr(state, 1), parity = w_and(w_xor(w_xor(state, next), oldest), one);
    const wide subset = w_add(w_add(parity, parity), w_shr(state, 2));
    const wide number = w_add(first, w_and(w_sub(subset, first), w_set(3)));
    const wide code = w_add(w_shl(w_shr(number, 2), 1), w_and(state, one));
    const wide below = w_equal(w_and(number, half), w_set(0));
    const wide place = w_and(w_xor(number, below), w_sub(half, one));
    const wide size = w_look(t->magnitude, w_index(place));
    const wide level = w_sub(w_xor(size, below), below);
    w_store(words, w_add(w_shl(level, 4), code));
    return w_add(next, w_shl(oldest, 2));
}

/* Finds the best paths of values in p->step. */
static __attribute__((noinline)) void find_paths(const struct tables *t, struct paths *p,
                                                 size_t steps, bool mirrored) {
    const wide outermost = w_set((uint16_t)(t->plain.levels - 4));
    wide m[STATES];
    PITHI_UNROLL for (int s = 1; s < STATES; s++) m[s] = w_set(PITHI_TRELLIS_WORST);
    m[0] = w_set(0);
    if (mirrored) m[STATES - 1] = w_set(0);
    for (size_t i = 0; i < steps; i += BLOCK) {
        wide distance[BLOCK][4];
        for (size_t k = 0; k < BLOCK; k++)
            measure_step(t, outermost, p->step + (i + k) * WIDE, distance[k],
                         p->upper + (i + k) * WIDE);
        for (size_t k = 0; k < BLOCK; k += PITHI_TRELLIS_UNSURE) {
            PITHI_UNROLL for (size_t j = k; j < k + PITHI_TRELLIS_UNSURE; j++)
                forward_step(m, distance[j], p->upper + (i + j) * WIDE);
            lower(m);
        }
    }
    const wide half = w_set((uint16_t)(t->plain.levels / 2));
    wide state = best_states(m);
    for (size_t i = steps; i-- > 0;)
        state = backward_step(t, half, state, p->step + i * WIDE, p->upper + i * WIDE);
    w_store(p->state, state);
}

/* ---- Encode: values ---------------------------------------------------------------------------*/

static bool decoded_before(const struct tables *t, const struct values *x, float unit) {
    for (size_t i = 0; i < PITHI_TRELLIS_LOOK; i++) {
        const float v = pithi_float(pithi_load(x->at, x->dtype, i));
        const int y = pithi_trellis_rounded(&t->plain, v * unit);
        if (!t->level[y < 0 ? -y : y]) return false;
    }
    return true;
}

/* Rounds values to integers of 16 bits. */
ALWAYS void round_row(const struct tables *t, const struct values *x, float unit, size_t n,
                      uint16_t *row) {
    const float limit = (float)t->plain.most;
    const v16 by = v_spread(&unit), most = v_spread(&limit);
    for (size_t k = 0; k < n; k += 16) {
        const v16 v = f_limit(f_mul(values_at(x, k), by), most);
        v_store16((uint8_t *)(row + k), v_and(f_round_to_i(v), v_set(0xFFFF)));
    }
}

/* Sums a row of words, and writes its codes. */
ALWAYS void close_row(struct coded *g, const struct values *x, const uint16_t *row, size_t n,
                      unsigned bits, bool mirrored, uint8_t *to) {
    static const float sixteenth = 0.0625f;
    const v16 by = v_spread(&g->unit), part = v_spread(&sixteenth), high = v_set(0xFFFFFFF0u);
    const uint16_t flip = mirrored ? (uint16_t)((1u << bits) - 1) : 0;
    v16 with_value = v_load(g->with_value), with_itself = v_load(g->with_itself);
    for (size_t k = 0; k < n; k += 16, to += 2 * bits) {
        const v16 word = v_sar16(v_load_high((const uint8_t *)(row + k)));
        const v16 l = f_mul(f_from_i(v_and(word, high)), part);
        const v16 v = f_mul(values_at(x, k), by);
        with_value = f_add(with_value, f_mul(v, l));
        with_itself = f_add(with_itself, f_mul(l, l));
        put_codes(to, row + k, flip, bits);
    }
    v_store(g->with_value, with_value);
    v_store(g->with_itself, with_itself);
}

static void close_row_any(struct coded *g, const struct values *x, const uint16_t *row, size_t n,
                          unsigned bits, bool mirrored, uint8_t *to) {
    if (bits == 2)
        close_row(g, x, row, n, 2, mirrored, to);
    else if (bits == 3)
        close_row(g, x, row, n, 3, mirrored, to);
    else
        close_row(g, x, row, n, 4, mirrored, to);
}

/* Codes up to 16 sequences of n values from i on, one behind the other. */
static void encode_sequences(struct pithi_group_job *job, const struct tables *t, struct batch *b,
                             size_t i, size_t n, size_t count) {
    const unsigned bits = job->set.bits;
    const bool single = job->set.group <= SEQUENCE;
    struct paths *const p = &b->paths;
    for (size_t k = 0; k < WIDE; k++) {
        struct coded *const g = &b->group[k * n / job->set.group % WIDE];
        if (k >= count || g->blank) {
            memset(p->row + k * SEQUENCE, 0, n * sizeof *p->row);
            continue;
        }
        const struct values x = stage(job, i + k * n, n, b->differences);
        round_row(t, &x, g->unit, n, p->row + k * SEQUENCE);
    }
    transpose(p->row, WIDE, n, SEQUENCE, p->step, WIDE);
    find_paths(t, p, n, single);
    transpose(p->step, n, WIDE, WIDE, p->row, SEQUENCE);
    for (size_t k = 0; k < count; k++) {
        struct coded *const g = &b->group[k * n / job->set.group];
        uint8_t *const to = job->codes + (i + k * n) * bits / 8;
        if (g->blank) {
            memset(to, 0, n * bits / 8);
            continue;
        }
        g->mirrored = p->state[k] != 0;
        const struct values x = stage(job, i + k * n, n, b->differences);
        close_row_any(g, &x, p->row + k * SEQUENCE, n, bits, g->mirrored, to);
    }
}

/* ---- Decode -----------------------------------------------------------------------------------*/

#ifndef OWN_LEVELS
static void decoder_make(struct decoder *d, uint32_t bits) {
    struct pithi_trellis t;
    _Alignas(64) float level[16];
    _Alignas(64) uint32_t begin[16], shift[16];
    _Alignas(64) uint8_t place[64];
    pithi_trellis_init(&t, bits);
    for (int i = 0; i < 16; i++)
        level[i] = (float)t.level[bits == 4 ? 16 + i : i % t.levels] / PITHI_TRELLIS_UNIT;
    for (unsigned i = 0; i < 16; i++) begin[i] = i < 3 ? ~0u << (3 - i) * bits : ~0u;
    d->level = v_load((const uint8_t *)level);
    d->begin = v_load((const uint8_t *)begin);
    /* The window of a code: the byte in which the third code before it begins, and two more. */
    for (unsigned i = 0; i < 16; i++) {
        const unsigned bit = 16 + i * bits - 3 * bits;
        for (unsigned k = 0; k < 4; k++) place[4 * i + k] = (uint8_t)(k < 3 ? bit / 8 + k : 0x80);
        shift[i] = bit % 8;
    }
    d->window = window_of(place, shift);
}

/* Returns the levels of 16 codes, which lie behind those before them. */
ALWAYS v16 levels_of(const struct decoder *d, const uint8_t *codes, bool begin, unsigned bits) {
    v16 window = window_take(&d->window, codes - 2);
    if (begin) window = v_and(window, d->begin);
    const v16 one = v_set(1), odd = v_xor(window, v_down(window, 2 * bits));
    const v16 parity = v_and(v_xor(odd, v_down(window, 3 * bits)), one);
    const v16 high = v_and(v_down(window, 3 * bits - 1), v_set(((1u << (bits - 1)) - 1) << 2));
    const v16 low = v_add(v_add(parity, parity), v_and(v_down(window, bits), one));
    const v16 number = v_add(high, low);
    if (bits == 2) return look8(d->level, number);
    if (bits == 3) return look16(d->level, number);
    const v16 below = v_greater(v_set(16), number);
    return v_xor(look16(d->level, v_xor(number, below)), v_and(below, v_set(0x80000000u)));
}

ALWAYS void unit_levels(v16 levels[4], struct decoder *d, const uint8_t *codes, size_t k,
                        size_t sequence, unsigned bits) {
    PITHI_UNROLL for (size_t j = 0; j < 4; j++) levels[j] =
        levels_of(d, codes + 2 * bits * j, ((k + 16 * j) & (sequence - 1)) == 0, bits);
}
#endif

static size_t decode_first(struct pithi_group_job *job) {
    (void)job;
    return 0;
}

/* Decodes n values from i on, whose scales fit. */
ALWAYS void decode_part(const struct decoder *d, struct pithi_group_job *job, size_t i, size_t n,
                        const float *scale, unsigned bits, uint32_t bt, uint32_t ot,
                        struct streamer *stream) {
    struct decoder copy = *d; /* a copy that no store can alias */
    const size_t group = job->set.group, shift = (size_t)__builtin_ctz(job->set.group);
    const size_t bytes = (n * bits + 7) / 8, at = i * bits / 8;
    const size_t sequence = group < SEQUENCE ? group : SEQUENCE;
    uint8_t codes[BEFORE + PART / 2 + READABLE];
    memcpy(codes + BEFORE, job->codes + at, bytes);
    memset(codes + BEFORE + bytes, 0, READABLE);
    codes[BEFORE - 2] = codes[BEFORE - 1] = 0; /* parts begin with a sequence */
    const uint8_t *from = codes + BEFORE;
    for (size_t k = 0; k < n; k += UNIT, from += UNIT * bits / 8) {
        v16 x[4];
        unit_levels(x, &copy, from, k, sequence, bits);
        PITHI_UNROLL for (size_t j = 0; j < 4; j++) { /* the sum is never -0 */
            const v16 own = v_spread(&scale[(k + 16 * j) >> shift]);
            x[j] = f_add(f_mul(x[j], own), v_set(0));
        }
        if (n - k >= UNIT) {
            put_unit(job, i + k, x, bt, ot, stream);
        } else {
            if (stream) v_stream_end(stream, (uint8_t *)job->out + (i + k) * width(ot));
            put_end(job, i + k, n - k, x);
        }
    }
}
