/* interp_weighted.h - the two finest levels of a tile, predicted by neighbours in all directions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Included by interp.c behind the walk in f32, which codes the coarser levels. A level's grid is
 * kept as rows, each cut into its even and its odd elements: so neighbours of a class, whose
 * elements are two apart, stand side by side. doc/FORMAT.md, Weighted interpolation and appendix
 * A.7, is normative. */

/* Elements of a half row that lie outside the grid, before its first and behind its last one. */
enum { BEFORE = 1, BEHIND = 2, MARGIN = BEFORE + BEHIND };
enum { TERMS = PITHI_WEIGHTED_TERMS, CLASSES = PITHI_WEIGHTED_CLASSES, SIDES = 3 };
/* Elements that are predicted at once, and rows that are made of others for them: 54 at most, since
 * of 21 pairs of places along dimensions 1 and 2, in both parities along 3, a corner has 9 outside
 * along each and 3 outside along both, which take 3 each. */
enum { PART = 256, SPARES = 54, SPARE = PART + MARGIN };
enum { REACH = 3, AROUND = 2 * REACH + 1 };

/* Where the neighbours of a term are: at plus and minus so many places along dimensions 1 to 3. */
static const uint8_t offsets[TERMS][SIDES] = {
    {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 0}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}, {3, 0, 0},
    {0, 3, 0}, {0, 0, 3}, {1, 2, 0}, {1, 0, 2}, {2, 1, 0}, {0, 1, 2}, {2, 0, 1}, {0, 2, 1},
};

struct grid {
    size_t side[SIDES];
    size_t half;  /* floats from a half row to the next */
    float *first; /* the half rows, even ones first */
    float *spare; /* SPARES rows outside the grid, then a prediction */
};

/* Elements with these parities along dimensions 1 to 3, the highest bit first, and what predicts
 * them. */
struct class {
    unsigned parities, count;
    uint8_t term[TERMS]; /* which terms, `count` of them */
    float weight[TERMS];
};

static unsigned parity_of(unsigned parities, size_t side) {
    return parities >> (SIDES - 1 - side) & 1;
}

static bool has_class(const size_t side[SIDES], unsigned parities) {
    for (size_t d = 0; d < SIDES; d++)
        if (parity_of(parities, d) && side[d] == 1) return false;
    return true;
}

/* Whether elements of the class have a term: its neighbours exist, and are of a class that comes
 * before. */
static bool has_term(const size_t side[SIDES], unsigned parities, const uint8_t offset[SIDES]) {
    unsigned other = parities;
    for (size_t d = 0; d < SIDES; d++) {
        if (offset[d] && side[d] == 1) return false;
        other ^= (unsigned)(offset[d] & 1) << (SIDES - 1 - d);
    }
    return other < parities;
}

/* Makes the terms of a class with the weights for data of which nothing is known: cubic
 * interpolation along each dimension in which the element is odd, and the mean of these. */
static struct class class_of(const size_t side[SIDES], unsigned parities) {
    static const float near[SIDES] = {0.5625f, 0.28125f, 0.1875f};
    static const float far[SIDES] = {-0.0625f, -0.03125f, -0x1.555556p-6f};
    struct class c = {.parities = parities};
    const int odd = (int)pithi_ones_of(parities) - 1;
    for (size_t k = 0; k < TERMS; k++) {
        const uint8_t *const o = offsets[k];
        if (!has_term(side, parities, o)) continue;
        const bool along = (o[0] > 0) + (o[1] > 0) + (o[2] > 0) == 1;
        c.term[c.count] = (uint8_t)k;
        c.weight[c.count++] = !along ? 0 : o[0] + o[1] + o[2] == 1 ? near[odd] : far[odd];
    }
    return c;
}

static size_t evens_of(size_t n) { return n - n / 2; }

/* Returns the number of elements of the class in a row along dimension d. */
static size_t places_of(const size_t side[SIDES], unsigned parities, size_t d) {
    return parity_of(parities, d) ? side[d] / 2 : evens_of(side[d]);
}

static float *half_row(const struct grid *g, size_t j1, size_t j2, unsigned parity) {
    return g->first + ((j1 * g->side[1] + j2) * 2 + parity) * g->half + BEFORE;
}

/* Sets what lies outside a half row that is whole: mirrored at the first or at the last even
 * element, and on its other side. Odd elements come behind even ones. */
static void extend(const struct grid *g, size_t j1, size_t j2, unsigned parity) {
    float *const even = half_row(g, j1, j2, 0), *const odd = half_row(g, j1, j2, 1);
    const size_t n = g->side[2], odds = n / 2, last = evens_of(n) - 1;
    if (parity) {
        odd[-1] = 2 * even[0] - odd[0];
        odd[odds] = 2 * even[last] - odd[odds - (n % 2 ? 1 : 3)];
    } else {
        even[-1] = 2 * even[0] - even[1];
        even[last + 1] = 2 * even[last] - even[last - 1];
        even[last + 2] = 2 * even[last] - even[last - 2];
    }
}

/* ---- Prediction ------------------------------------------------------------------------------*/

/* Returns n elements from `at` on, and the margins before and behind them, of a half row that may
 * be outside along dimensions 1 and 2. Takes spare rows from *spare on. */
static const float *row_part(const struct grid *g, ptrdiff_t j1, ptrdiff_t j2, unsigned parity,
                             size_t at, size_t n, float **spare) {
    const ptrdiff_t n1 = (ptrdiff_t)g->side[0], n2 = (ptrdiff_t)g->side[1];
    const bool out1 = j1 < 0 || j1 >= n1, out2 = j2 < 0 || j2 >= n2;
    if (!out1 && !out2) return half_row(g, (size_t)j1, (size_t)j2, parity) + at;
    const ptrdiff_t j = out1 ? j1 : j2, edge = j < 0 ? 0 : ((out1 ? n1 : n2) - 1) / 2 * 2;
    const ptrdiff_t other = 2 * edge - j;
    const float *const a = row_part(g, out1 ? edge : j1, out1 ? j2 : edge, parity, at, n, spare);
    const float *const b = row_part(g, out1 ? other : j1, out1 ? j2 : other, parity, at, n, spare);
    float *const to = *spare + BEFORE;
    *spare += SPARE;
    const ptrdiff_t end = (ptrdiff_t)n + (parity ? 1 : BEHIND);
    for (ptrdiff_t i = -BEFORE; i < end; i++) to[i] = 2 * a[i] - b[i];
    return to;
}

/* The neighbours of a class's elements, as far as their terms have a weight. */
struct reach {
    struct pithi_interp_terms terms;
    size_t points;
    /* Of a neighbour: how far its row is along dimensions 1 and 2, its parity along 3, and its
     * distance there in the half row; all of that in memory, where the row is not outside. */
    int8_t place[PITHI_WEIGHTED_POINTS][2], parity[PITHI_WEIGHTED_POINTS];
    int8_t shift[PITHI_WEIGHTED_POINTS];
    ptrdiff_t distance[PITHI_WEIGHTED_POINTS];
};

static void add_points(const struct grid *g, unsigned parities, const uint8_t offset[SIDES],
                       struct reach *r) {
    const int o1 = offset[0], o2 = offset[1], o3 = offset[2];
    const int p3 = (int)(parities & 1), q = (p3 + o3) & 1;
    for (int s1 = -o1; s1 <= o1; s1 += o1 ? 2 * o1 : 1)
        for (int s2 = -o2; s2 <= o2; s2 += o2 ? 2 * o2 : 1)
            for (int s3 = -o3; s3 <= o3; s3 += o3 ? 2 * o3 : 1) {
                const int shift = (p3 + s3 - q) / 2;
                const ptrdiff_t rows = 2 * (s1 * (ptrdiff_t)g->side[1] + s2) + q;
                r->place[r->points][0] = (int8_t)s1;
                r->place[r->points][1] = (int8_t)s2;
                r->parity[r->points] = (int8_t)q;
                r->shift[r->points] = (int8_t)shift;
                r->distance[r->points++] = rows * (ptrdiff_t)g->half + shift;
            }
}

static void reach_of(const struct grid *g, const struct class *c, struct reach *r) {
    r->points = r->terms.terms = 0;
    for (unsigned k = 0; k < c->count; k++) {
        const size_t before = r->points;
        if (c->weight[k] == 0) continue;
        add_points(g, c->parities, offsets[c->term[k]], r);
        r->terms.points[r->terms.terms] = (uint8_t)(r->points - before);
        r->terms.weight[r->terms.terms++] = c->weight[k];
    }
}

static bool is_inside(size_t place, size_t side) {
    return side == 1 || (place >= REACH && place + REACH < side);
}

/* Sets the neighbours of n elements from number `at` of the row at those places on. */
static void aim_at(const struct grid *g, const size_t place[2], size_t at, size_t n,
                   struct reach *r) {
    const float *const row = half_row(g, place[0], place[1], 0) + at;
    if (is_inside(place[0], g->side[0]) && is_inside(place[1], g->side[1])) {
        for (size_t i = 0; i < r->points; i++) r->terms.point[i] = row + r->distance[i];
        return;
    }
    const float *made[AROUND][AROUND][2] = {{{NULL}}};
    float *spare = g->spare;
    for (size_t i = 0; i < r->points; i++) {
        const int s1 = r->place[i][0], s2 = r->place[i][1];
        const float **const of = &made[s1 + REACH][s2 + REACH][r->parity[i]];
        if (!*of)
            *of = row_part(g, (ptrdiff_t)place[0] + s1, (ptrdiff_t)place[1] + s2,
                           (unsigned)r->parity[i], at, n, &spare);
        r->terms.point[i] = *of + r->shift[i];
    }
}

/* ---- Weights ---------------------------------------------------------------------------------*/

/* Returns element i of a class of the level's values in a row at those places. */
static float value_at(const struct f32_walk *w, const struct grid *g, unsigned parities,
                      const size_t place[2], size_t i) {
    const size_t at = (place[0] * g->side[1] + place[1]) * g->side[2] + 2 * i + (parities & 1);
    float x;
    memcpy(&x, w->x + at * sizeof x, sizeof x);
    return x;
}

/* Parts of rows all over a class, of which every other one says which weights are best, and the
 * rest whether they are. */
enum { SAMPLE = 32, SAMPLES_MIN = 64, SAMPLES_MAX = 256, SAMPLED = 512 };
struct sample {
    size_t place[2], at, n;
};

static size_t samples_of(const struct grid *g, unsigned parities) {
    size_t count = 1;
    for (size_t d = 0; d < SIDES; d++) count *= places_of(g->side, parities, d);
    const size_t samples = count / SAMPLED;
    return samples < SAMPLES_MIN ? SAMPLES_MIN : samples > SAMPLES_MAX ? SAMPLES_MAX : samples;
}

static struct sample sample_of(const struct grid *g, unsigned parities, size_t i) {
    const size_t n2 = places_of(g->side, parities, 1), n3 = places_of(g->side, parities, 2);
    const size_t rows = places_of(g->side, parities, 0) * n2;
    /* Steps by the golden section spread evenly, along both dimensions. */
    const size_t row = i * (rows * 40503 >> 16 | 1) % rows;
    struct sample s = {.n = n3 < SAMPLE ? n3 : SAMPLE};
    s.place[0] = row / n2 * 2 + parity_of(parities, 0);
    s.place[1] = row % n2 * 2 + parity_of(parities, 1);
    s.at = i * 40503 % (n3 - s.n + 1);
    return s;
}

struct equations {
    double matrix[TERMS][TERMS], vector[TERMS];
};

/* Adds what the values of a sample say of the weights, as differences to those of the class. `all`
 * has all terms. */
static void add_sample(const struct f32_walk *w, const struct grid *g, const struct class *c,
                       const struct sample *s, struct reach *all, struct equations *e) {
    float terms[TERMS][SAMPLE];
    const float *const *point = all->terms.point;
    aim_at(g, s->place, s->at, s->n, all);
    for (unsigned k = 0; k < c->count; point += all->terms.points[k++]) {
        struct pithi_interp_terms one;
        one.terms = 1;
        one.weight[0] = 1;
        one.points[0] = all->terms.points[k];
        memcpy(one.point, point, one.points[0] * sizeof *point);
        w->t->weigh(&one, s->n, terms[k]);
    }
    for (size_t i = 0; i < s->n; i++) {
        double t[TERMS], left = value_at(w, g, c->parities, s->place, s->at + i);
        for (unsigned k = 0; k < c->count; k++) {
            t[k] = terms[k][i];
            left -= t[k] * c->weight[k];
        }
        if (!(left < 1e30 && left > -1e30)) continue;
        /* Large differences count linearly, since so about grows what their words take. */
        const double share = 1 / ((left < 0 ? -left : left) + w->run.step);
        for (unsigned k = 0; k < c->count; k++) {
            const double shared = t[k] * share;
            for (unsigned m = 0; m <= k; m++) e->matrix[k][m] += shared * t[m];
            e->vector[k] += shared * left;
        }
    }
}

/* Solves equations of a symmetric matrix, of which the lower half is given, in e->vector. False
 * where there is no solution. */
static bool solve(struct equations *e, unsigned n) {
    double trace = 0;
    for (unsigned k = 0; k < n; k++) trace += e->matrix[k][k];
    for (unsigned k = 0; k < n; k++) e->matrix[k][k] += trace * 1e-9;
    for (unsigned k = 0; k < n; k++) {
        if (!(e->matrix[k][k] > 0)) return false;
        for (unsigned i = k + 1; i < n; i++) {
            const double factor = e->matrix[i][k] / e->matrix[k][k];
            for (unsigned j = k + 1; j <= i; j++) e->matrix[i][j] -= factor * e->matrix[j][k];
            e->vector[i] -= factor * e->vector[k];
        }
    }
    for (unsigned k = n; k--;) {
        e->vector[k] /= e->matrix[k][k];
        for (unsigned i = 0; i < k; i++) e->vector[i] -= e->matrix[k][i] * e->vector[k];
    }
    return true;
}

/* Returns about what the words of a sample take, in 1/256 bit. */
static uint64_t sample_cost(const struct f32_walk *w, const struct grid *g, unsigned parities,
                            const struct sample *s, struct reach *r) {
    float predicted[SAMPLE];
    uint64_t sum = 0;
    aim_at(g, s->place, s->at, s->n, r);
    w->t->weigh(&r->terms, s->n, predicted);
    for (size_t i = 0; i < s->n; i++) {
        const float x = value_at(w, g, parities, s->place, s->at + i);
        const float t = (x - predicted[i]) * w->run.inverse;
        const bool within = t < PITHI_QUANT_LIMIT && t > -PITHI_QUANT_LIMIT;
        const int32_t fine = within ? (int32_t)(t * 16) : 1 << 26;
        sum += pithi_log2_256(8 + (uint32_t)(fine < 0 ? -fine : fine));
    }
    return sum;
}

/* Chooses the weights of a class whose neighbours are known: those that fit a sample best, if they
 * fit another sample so much better that they pay. True if they are to be stored, in `stored`. */
static bool choose_weights(const struct f32_walk *w, const struct grid *g, struct class *c,
                           int32_t stored[TERMS]) {
    const size_t samples = samples_of(g, c->parities);
    struct equations e = {0};
    struct class fitted = *c;
    struct reach reach, other;
    for (unsigned k = 0; k < c->count; k++) fitted.weight[k] = 1;
    reach_of(g, &fitted, &reach);
    for (size_t i = 0; i < samples; i += 2) {
        const struct sample s = sample_of(g, c->parities, i);
        add_sample(w, g, c, &s, &reach, &e);
    }
    if (!solve(&e, c->count)) return false;
    for (unsigned k = 0; k < c->count; k++) {
        const double weight = (e.vector[k] + (double)c->weight[k]) * PITHI_WEIGHT_ONE;
        if (!(weight < 0x7FFFFF && weight > -0x7FFFFF)) return false;
        stored[k] = (int32_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
        fitted.weight[k] = (float)stored[k] * (1.0f / PITHI_WEIGHT_ONE);
    }
    uint64_t before = 0, after = 0, count = 0, all = 1;
    reach_of(g, c, &reach);
    reach_of(g, &fitted, &other);
    for (size_t i = 1; i < samples; i += 2) {
        const struct sample s = sample_of(g, c->parities, i);
        before += sample_cost(w, g, c->parities, &s, &reach);
        after += sample_cost(w, g, c->parities, &s, &other);
        count += s.n;
    }
    for (size_t d = 0; d < SIDES; d++) all *= places_of(g->side, c->parities, d);
    if (before <= after ||
        (before - after) / count * all < (uint64_t)c->count * PITHI_WEIGHT_BYTES * 8 * 256)
        return false;
    *c = fitted;
    return true;
}

/* ---- Levels ----------------------------------------------------------------------------------*/

/* Codes the elements of a class, whose weights are known. */
static void code_class(struct f32_walk *w, const struct grid *g, const struct class *c) {
    const size_t n = places_of(g->side, c->parities, 2);
    const unsigned p1 = parity_of(c->parities, 0), p2 = parity_of(c->parities, 1);
    const unsigned p3 = c->parities & 1;
    float *const predicted = g->spare + SPARES * SPARE;
    struct reach reach;
    reach_of(g, c, &reach);
    for (size_t j1 = p1; j1 < g->side[0]; j1 += 2)
        for (size_t j2 = p2; j2 < g->side[1]; j2 += 2) {
            const size_t place[2] = {j1, j2}, row = (j1 * g->side[1] + j2) * g->side[2] + p3;
            float *const to = half_row(g, j1, j2, p3);
            for (size_t at = 0, m; at < n; at += m) {
                m = n - at < PART ? n - at : PART;
                aim_at(g, place, at, m, &reach);
                w->t->weigh(&reach.terms, m, predicted);
                f32_aim(w, PITHI_INTERP_COPY, predicted, 1);
                if (w->miss) {
                    const uint8_t *const x = w->x + (row + 2 * at) * sizeof(float);
                    for (size_t i = 0; i < m; i++)
                        memcpy(&w->line_x[i], x + 2 * i * sizeof(float), sizeof(float));
                }
                f32_code(w, w->line_x, m, to + at, row + 2 * at, 2);
            }
            extend(g, j1, j2, p3);
        }
}

/* Uses stored weights. */
static void set_weights(struct class *c, const int32_t stored[TERMS]) {
    for (unsigned k = 0; k < c->count; k++)
        c->weight[k] = (float)stored[k] * (1.0f / PITHI_WEIGHT_ONE);
}

/* Begins a grid with what the grid before has, whose elements are dense. */
static void begin_of_dense(const struct grid *g, const float *from) {
    const size_t n = evens_of(g->side[2]);
    for (size_t j1 = 0; j1 < g->side[0]; j1 += 2)
        for (size_t j2 = 0; j2 < g->side[1]; j2 += 2, from += n) {
            memcpy(half_row(g, j1, j2, 0), from, n * sizeof *from);
            extend(g, j1, j2, 0);
        }
}

/* Joins count elements from an even one on of a row. */
static void join(const struct grid *g, size_t j1, size_t j2, size_t at, size_t count, float *to) {
    const float *const even = half_row(g, j1, j2, 0) + at / 2, *const odd =
                                                                   half_row(g, j1, j2, 1) + at / 2;
    f32_interleave(to, even, odd, count / 2);
    if (count % 2) to[count - 1] = even[count / 2];
}

/* Begins a grid with what the grid before has. */
static void begin_of(const struct grid *g, const struct grid *before) {
    for (size_t j1 = 0; j1 < before->side[0]; j1++)
        for (size_t j2 = 0; j2 < before->side[1]; j2++) {
            join(before, j1, j2, 0, before->side[2], half_row(g, 2 * j1, 2 * j2, 0));
            extend(g, 2 * j1, 2 * j2, 0);
        }
}

static void sides_of(const uint32_t extent[PITHI_TILE_NDIM], unsigned level, size_t side[SIDES]) {
    for (size_t d = 0; d < SIDES; d++) side[d] = ((extent[d + 1] - 1) >> level) + 1;
}

/* Returns the elements of a level's grid. */
static size_t dense_floats(const uint32_t extent[PITHI_TILE_NDIM], unsigned level) {
    size_t side[SIDES];
    sides_of(extent, level, side);
    return side[0] * side[1] * side[2];
}

static size_t half_of_side(size_t side) { return evens_of(side) + MARGIN; }

/* Returns the floats of a level's grid in half rows. */
static size_t grid_floats(const uint32_t extent[PITHI_TILE_NDIM], unsigned level) {
    size_t side[SIDES];
    sides_of(extent, level, side);
    return side[0] * side[1] * 2 * half_of_side(side[2]);
}

static size_t padded(size_t floats) { return pithi_pad64(floats * sizeof(float)) / sizeof(float); }

/* Lays out memory: lines, spare rows, dense grids of levels from 2 on in two buffers, grids of
 * levels 1 and 0 and, for encoding, gathered values. Returns its floats. */
static size_t place_weighted(struct f32_walk *w, const uint32_t extent[PITHI_TILE_NDIM],
                             float *scratch, struct grid grid[PITHI_WEIGHTED_LEVELS]) {
    size_t at = 2 * LINE;
    w->line_x = scratch;
    w->line_y = scratch ? scratch + LINE : NULL;
    float *const spare = scratch ? scratch + at : NULL;
    at += padded(SPARES * SPARE + PART);
    for (unsigned k = 0; k < 2; k++) {
        w->buffer[k] = scratch ? scratch + at : NULL;
        at += padded(dense_floats(extent, PITHI_WEIGHTED_LEVELS + k));
    }
    for (unsigned level = PITHI_WEIGHTED_LEVELS; level--;) {
        struct grid *const g = &grid[level];
        sides_of(extent, level, g->side);
        g->half = half_of_side(g->side[2]);
        g->first = scratch ? scratch + at : NULL;
        g->spare = spare;
        at += padded(grid_floats(extent, level));
    }
    w->gathered = scratch ? scratch + at : NULL;
    return at;
}
