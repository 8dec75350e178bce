/* interp_weighted.h - the two finest levels of a tile, predicted by neighbours in all directions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Included by interp.c behind the walk in f32, which codes the coarser levels. A level's grid is
 * kept as rows, each cut into its even and its odd elements: so neighbours of a class, whose
 * elements are two apart, stand side by side. doc/FORMAT.md, Weighted interpolation and appendix
 * A.7, is normative. */

/* Elements of a half row that lie outside the grid, before its first and behind its last one. Half
 * rows begin at multiples of LINE_FLOATS, so that most vectors of them lie in one line of the
 * cache. */
enum { BEFORE = 1, BEHIND = 2, MARGIN = BEFORE + BEHIND, LINE_FLOATS = 16 };
enum { TERMS = PITHI_WEIGHTED_TERMS, CLASSES = PITHI_WEIGHTED_CLASSES, SIDES = 3 };
/* Elements that are predicted at once; how far neighbours are along a dimension, and, along
 * dimension 2, elements for which memory is fetched. */
enum { PART = 256, REACH = 3, AHEAD = 4 };

/* Planes that are kept at least, where a grid is read: the class that waits longest, 7, is at most
 * 9 planes behind the grid's first values and needs 3 before its own, and planes behind the grid
 * are made up to 4 behind the last one of a class, which makes 9 + 3 + 1 + 4. Of small planes as
 * many as KEPT_FLOATS hold: a grid that stays in a cache is read class by class, and nothing is
 * fetched ahead of its elements. */
enum { KEPT = 17, KEPT_FLOATS = 1 << 19 };

/* Rows that lie outside along dimensions 1 and 2 are there, too, REACH on each side of those that
 * have more than one place: so the neighbours of all elements of a class in a plane, the rows of a
 * place along dimension 1, are equally far. */
struct grid {
    size_t side[SIDES];
    size_t margin[SIDES - 1]; /* rows before the first one, along dimensions 1 and 2 */
    size_t planes;            /* how many are kept; the others take their places in turn */
    size_t half;              /* floats from a half row to the next */
    float *first;             /* the half rows, even ones first, behind LINE_FLOATS */
    float *predicted;         /* PART floats */
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
static bool has_term(const size_t side[SIDES], unsigned parities, unsigned term) {
    unsigned other = parities;
    for (unsigned d = 0; d < SIDES; d++) {
        const unsigned offset = pithi_weighted_offset(term, d);
        if (offset && side[d] == 1) return false;
        other ^= (offset & 1) << (SIDES - 1 - d);
    }
    return other < parities;
}

/* Makes the terms of a class with the weights for data of which nothing is known: cubic
 * interpolation along each dimension in which the element is odd, and the mean of these. */
static struct class class_of(const size_t side[SIDES], unsigned parities) {
    struct class c = {.parities = parities};
    const unsigned odd = (unsigned)pithi_ones_of(parities);
    for (unsigned k = 0; k < TERMS; k++) {
        if (!has_term(side, parities, k)) continue;
        c.term[c.count] = (uint8_t)k;
        c.weight[c.count++] = pithi_weighted_usual(k, odd);
    }
    return c;
}

static size_t evens_of(size_t n) { return n - n / 2; }

/* Returns the number of elements of the class in a row along dimension d. */
static size_t places_of(const size_t side[SIDES], unsigned parities, size_t d) {
    return parity_of(parities, d) ? side[d] / 2 : evens_of(side[d]);
}

/* Returns the rows of the grid along a dimension, with those outside. */
static size_t all_rows(const struct grid *g, size_t d) { return g->side[d] + 2 * g->margin[d]; }

/* Returns where a plane is kept. */
static size_t kept_at(const struct grid *g, ptrdiff_t j1) {
    const size_t plane = (size_t)(j1 + (ptrdiff_t)g->margin[0]);
    return plane < g->planes ? plane : plane % g->planes;
}

/* Returns a half row, which may be outside along dimensions 1 and 2. */
static float *half_row(const struct grid *g, ptrdiff_t j1, ptrdiff_t j2, unsigned parity) {
    const size_t row = kept_at(g, j1) * all_rows(g, 1) + (size_t)(j2 + (ptrdiff_t)g->margin[1]);
    return g->first + (2 * row + parity) * g->half + LINE_FLOATS;
}

/* Sets what lies outside a half row that is whole: mirrored at the first or at the last even
 * element, and on its other side. Odd elements come behind even ones. */
static void extend(const struct grid *g, ptrdiff_t j1, ptrdiff_t j2, unsigned parity) {
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

/* Makes a half row outside of two others, with its margins. */
static void reflect(const float *a, const float *b, size_t half, float *restrict to) {
    for (size_t i = 0; i < half; i++) to[i] = 2 * a[i] - b[i];
}

/* Makes half row `parity` of row j, outside along dimension d, of which the other place is k. */
static void make_outside(const struct grid *g, size_t d, ptrdiff_t j, ptrdiff_t k,
                         unsigned parity) {
    const ptrdiff_t edge = j < 0 ? 0 : (ptrdiff_t)((g->side[d] - 1) / 2 * 2), other = 2 * edge - j;
    const float *const a = d ? half_row(g, k, edge, parity) : half_row(g, edge, k, parity);
    const float *const b = d ? half_row(g, k, other, parity) : half_row(g, other, k, parity);
    float *const to = d ? half_row(g, k, j, parity) : half_row(g, j, k, parity);
    reflect(a - BEFORE, b - BEFORE, evens_of(g->side[2]) + MARGIN, to - BEFORE);
}

/* Makes the half rows outside plane j1 of a class that is coded there. */
static void close_sides(const struct grid *g, unsigned parities, ptrdiff_t j1) {
    const ptrdiff_t n = (ptrdiff_t)g->side[1], far = (ptrdiff_t)g->margin[1];
    const ptrdiff_t p2 = (ptrdiff_t)parity_of(parities, 1);
    for (ptrdiff_t i = 0; i < 2 * far; i++) {
        const ptrdiff_t j2 = i < far ? i - far : n + i - far;
        if ((j2 & 1) == p2) make_outside(g, 1, j2, j1, parities & 1);
    }
}

/* Makes a plane outside of a class, with its half rows outside. */
static void make_plane(const struct grid *g, unsigned parities, ptrdiff_t j1) {
    const ptrdiff_t wide = (ptrdiff_t)g->margin[1], n = (ptrdiff_t)g->side[1];
    for (ptrdiff_t j2 = -wide; j2 < n + wide; j2++)
        if ((j2 & 1) == (ptrdiff_t)parity_of(parities, 1)) make_outside(g, 0, j1, j2, parities & 1);
}

/* Ends plane j1 of a class, which is coded as those before it are, and makes what lies outside and
 * follows of it: where it is the class's last one, planes behind the grid, which mirror earlier
 * ones, and of the first ones those before it. */
static void close_plane(const struct grid *g, unsigned parities, size_t j1) {
    const ptrdiff_t n = (ptrdiff_t)g->side[0], j = (ptrdiff_t)j1;
    close_sides(g, parities, j);
    if (!g->margin[0]) return;
    if (j && j <= REACH) make_plane(g, parities, -j);
    for (ptrdiff_t k = j + 2; j + 2 >= n && k < n + REACH; k += 2) make_plane(g, parities, k);
}

/* ---- Prediction ------------------------------------------------------------------------------*/

/* Adds the neighbours of a term of elements in plane j1, as distances from the even half row at the
 * element's place. */
static void add_points(const struct grid *g, unsigned parities, unsigned term, size_t j1,
                       ptrdiff_t *to) {
    const ptrdiff_t here = (ptrdiff_t)kept_at(g, (ptrdiff_t)j1);
    const int o1 = (int)pithi_weighted_offset(term, 0), o2 = (int)pithi_weighted_offset(term, 1);
    const int o3 = (int)pithi_weighted_offset(term, 2);
    const int p3 = (int)(parities & 1), q = (p3 + o3) & 1;
    for (int s1 = -o1; s1 <= o1; s1 += o1 ? 2 * o1 : 1) {
        const ptrdiff_t planes = (ptrdiff_t)kept_at(g, (ptrdiff_t)j1 + s1) - here;
        for (int s2 = -o2; s2 <= o2; s2 += o2 ? 2 * o2 : 1)
            for (int s3 = -o3; s3 <= o3; s3 += o3 ? 2 * o3 : 1) {
                const ptrdiff_t rows = 2 * (planes * (ptrdiff_t)all_rows(g, 1) + s2) + q;
                *to++ = rows * (ptrdiff_t)g->half + (p3 + s3 - q) / 2;
            }
    }
}

/* Finds the neighbours of a class's elements in plane j1, as far as their terms have a weight. */
static struct pithi_interp_terms terms_of(const struct grid *g, const struct class *c, size_t j1) {
    struct pithi_interp_terms t;
    size_t points = 0;
    t.terms = 0;
    t.from = NULL;
    for (unsigned k = 0; k < c->count; k++) {
        unsigned along = 0;
        if (c->weight[k] == 0) continue;
        add_points(g, c->parities, c->term[k], j1, t.distance + points);
        for (unsigned d = 0; d < SIDES; d++) along += pithi_weighted_offset(c->term[k], d) > 0;
        t.points[t.terms] = (uint8_t)(1u << along);
        points += t.points[t.terms];
        t.weight[t.terms++] = c->weight[k];
    }
    return t;
}

/* The last of an element's neighbours in each class: half rows of the others were those of the last
 * ones of elements before it. Distances are those of pithi_interp_terms. */
struct lasts {
    size_t count;
    ptrdiff_t distance[CLASSES];
};

static struct lasts lasts_of(const struct grid *g, const struct class *c, size_t j1) {
    struct lasts last = {0};
    bool has[CLASSES] = {false};
    ptrdiff_t of[CLASSES];
    for (unsigned k = 0; k < c->count; k++) {
        ptrdiff_t points[8];
        unsigned other = c->parities, count = 1;
        if (c->weight[k] == 0) continue;
        for (unsigned d = 0; d < SIDES; d++) {
            const unsigned offset = pithi_weighted_offset(c->term[k], d);
            other ^= (offset & 1) << (SIDES - 1 - d);
            count <<= offset > 0;
        }
        add_points(g, c->parities, c->term[k], j1, points);
        if (!has[other] || of[other] < points[count - 1]) of[other] = points[count - 1];
        has[other] = true;
    }
    for (unsigned k = 0; k < CLASSES; k++)
        if (has[k]) last.distance[last.count++] = of[k];
    return last;
}

/* Points at element number `at` of the half row at those places. */
static void aim_at(const struct grid *g, const size_t place[2], size_t at,
                   struct pithi_interp_terms *t) {
    t->from = half_row(g, (ptrdiff_t)place[0], (ptrdiff_t)place[1], 0) + at;
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

enum { SAMPLE = PITHI_WEIGHTED_SAMPLE };
struct sample {
    size_t place[2], at, n;
};

static size_t samples_of(const struct grid *g, unsigned parities) {
    size_t count = 1;
    for (size_t d = 0; d < SIDES; d++) count *= places_of(g->side, parities, d);
    const size_t samples = count / PITHI_WEIGHTED_SAMPLED;
    if (samples < PITHI_WEIGHTED_SAMPLES_MIN) return PITHI_WEIGHTED_SAMPLES_MIN;
    return samples < PITHI_WEIGHTED_SAMPLES_MAX ? samples : (size_t)PITHI_WEIGHTED_SAMPLES_MAX;
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

/* Looks at a sample; `all` has all terms. */
static void look_at(const struct f32_walk *w, const struct grid *g, const struct class *c,
                    const struct sample *s, struct pithi_interp_terms *all,
                    struct pithi_interp_sample *seen) {
    const ptrdiff_t *distance = all->distance;
    struct pithi_interp_terms one;
    aim_at(g, s->place, s->at, all);
    one.from = all->from;
    one.terms = 1;
    one.weight[0] = 1;
    for (unsigned k = 0; k < c->count; distance += all->points[k++]) {
        one.points[0] = all->points[k];
        memcpy(one.distance, distance, one.points[0] * sizeof *distance);
        w->t->weigh(&one, s->n, seen->term[k]);
    }
    for (size_t i = 0; i < s->n; i++)
        seen->value[i] = value_at(w, g, c->parities, s->place, s->at + i);
    seen->count = s->n;
}

/* Returns about what the words of a sample take, in 1/256 bit. */
static uint64_t sample_cost(const struct f32_walk *w, const struct grid *g, unsigned parities,
                            const struct sample *s, struct pithi_interp_terms *t) {
    float predicted[SAMPLE];
    struct pithi_word_cost cost = pithi_word_cost_none();
    aim_at(g, s->place, s->at, t);
    w->t->weigh(t, s->n, predicted);
    for (size_t i = 0; i < s->n; i++) {
        const float x = value_at(w, g, parities, s->place, s->at + i);
        pithi_word_cost_add(&cost, (x - predicted[i]) * w->run.inverse);
    }
    return pithi_word_cost_sum(&cost);
}

/* Chooses the weights of a class whose neighbours are known, of a grid that keeps all planes: those
 * that fit a sample best, if they fit another sample so much better that they pay. True if they are
 * to be stored, in `stored`. */
static bool choose_weights(const struct f32_walk *w, const struct grid *g, struct class *c,
                           int32_t stored[TERMS]) {
    const size_t samples = samples_of(g, c->parities);
    struct pithi_equations e = {0};
    struct class fitted = *c;
    struct pithi_interp_sample seen = {.terms = c->count, .step = w->run.step};
    memcpy(seen.weight, c->weight, sizeof seen.weight);
    for (unsigned k = 0; k < c->count; k++) fitted.weight[k] = 1;
    const size_t p1 = parity_of(c->parities, 0);
    struct pithi_interp_terms all = terms_of(g, &fitted, p1);
    for (size_t i = 0; i < samples; i += 2) {
        const struct sample s = sample_of(g, c->parities, i);
        look_at(w, g, c, &s, &all, &seen);
        w->t->fit(&seen, &e);
    }
    if (!pithi_equations_solve(&e, c->count)) return false;
    for (unsigned k = 0; k < c->count; k++) {
        if (!pithi_weight_of(e.vector[k] + (double)c->weight[k], &stored[k])) return false;
        fitted.weight[k] = pithi_weight_value(stored[k]);
    }
    uint64_t before = 0, after = 0, count = 0, elements = 1;
    struct pithi_interp_terms usual = terms_of(g, c, p1), own = terms_of(g, &fitted, p1);
    for (size_t i = 1; i < samples; i += 2) {
        const struct sample s = sample_of(g, c->parities, i);
        before += sample_cost(w, g, c->parities, &s, &usual);
        after += sample_cost(w, g, c->parities, &s, &own);
        count += s.n;
    }
    for (size_t d = 0; d < SIDES; d++) elements *= places_of(g->side, c->parities, d);
    if (before <= after ||
        (before - after) / count * elements < (uint64_t)c->count * PITHI_WEIGHT_BYTES * 8 * 256)
        return false;
    *c = fitted;
    return true;
}

/* ---- Levels ----------------------------------------------------------------------------------*/

static void fetch(const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const uint8_t *)from + i);
}

/* Fetches what the elements AHEAD of these n, from `at` on in a row, need first: rows are too short
 * for a processor to see where they go on. */
static void fetch_ahead(const struct f32_walk *w, const struct grid *g, const struct class *c,
                        const struct lasts *last, const size_t place[2], size_t at, size_t n) {
    const size_t j1 = place[0], j2 = place[1] + AHEAD, p3 = c->parities & 1;
    const float *const here = half_row(g, (ptrdiff_t)j1, (ptrdiff_t)j2, 0) + at;
    for (size_t k = 0; k < last->count; k++) fetch(here + last->distance[k], n * sizeof *here);
    fetch(here + p3 * g->half, n * sizeof *here);
    fetch(w->x + ((j1 * g->side[1] + j2) * g->side[2] + 2 * at) * sizeof *here,
          2 * n * sizeof *here);
}

/* Codes the elements of a class, whose weights are known, in a plane; `terms` are those there.
 * Fetches ahead unless `last` is NULL. */
static void code_plane(struct f32_walk *w, const struct grid *g, const struct class *c,
                       struct pithi_interp_terms *terms, const struct lasts *last, size_t j1) {
    const size_t n = places_of(g->side, c->parities, 2), p3 = c->parities & 1;
    for (size_t j2 = parity_of(c->parities, 1); j2 < g->side[1]; j2 += 2) {
        const size_t place[2] = {j1, j2}, row = (j1 * g->side[1] + j2) * g->side[2] + p3;
        float *const to = half_row(g, (ptrdiff_t)j1, (ptrdiff_t)j2, (unsigned)p3);
        for (size_t at = 0, m; at < n; at += m) {
            m = n - at < PART ? n - at : PART;
            if (last) fetch_ahead(w, g, c, last, place, at, m);
            aim_at(g, place, at, terms);
            w->t->weigh(terms, m, g->predicted);
            f32_aim(w, PITHI_INTERP_COPY, g->predicted, 1);
            f32_code(w, m, to + at, row + 2 * at, 2);
        }
        extend(g, (ptrdiff_t)j1, (ptrdiff_t)j2, (unsigned)p3);
    }
    close_plane(g, c->parities, j1);
}

/* Codes a class of a grid that keeps all planes, where terms are everywhere the same. */
static void code_class(struct f32_walk *w, const struct grid *g, const struct class *c) {
    const size_t first = parity_of(c->parities, 0);
    const bool far = w->miss && g->planes * all_rows(g, 1) * 2 * g->half > KEPT_FLOATS;
    const struct lasts last = lasts_of(g, c, first);
    struct pithi_interp_terms terms = terms_of(g, c, first);
    for (size_t j1 = first; j1 < g->side[0]; j1 += 2)
        code_plane(w, g, c, &terms, far ? &last : NULL, j1);
}

/* Uses stored weights. */
static void set_weights(struct class *c, const int32_t stored[TERMS]) {
    for (unsigned k = 0; k < c->count; k++)
        c->weight[k] = (float)stored[k] * (1.0f / PITHI_WEIGHT_ONE);
}

/* Begins a grid with what the grid before has, whose elements are dense. */
static void begin_of_dense(const struct grid *g, const float *from) {
    const size_t n = evens_of(g->side[2]);
    for (size_t j1 = 0; j1 < g->side[0]; j1 += 2) {
        for (size_t j2 = 0; j2 < g->side[1]; j2 += 2, from += n) {
            memcpy(half_row(g, (ptrdiff_t)j1, (ptrdiff_t)j2, 0), from, n * sizeof *from);
            extend(g, (ptrdiff_t)j1, (ptrdiff_t)j2, 0);
        }
        close_plane(g, 0, j1);
    }
}

/* Joins count elements from an even one on of a row. */
static void join(const struct grid *g, size_t j1, size_t j2, size_t at, size_t count, float *to) {
    const float *const even = half_row(g, (ptrdiff_t)j1, (ptrdiff_t)j2, 0) + at / 2;
    const float *const odd = half_row(g, (ptrdiff_t)j1, (ptrdiff_t)j2, 1) + at / 2;
    f32_interleave(to, even, odd, count / 2);
    if (count % 2) to[count - 1] = even[count / 2];
}

/* Begins an even plane of a grid with what the grid before has. */
static void begin_plane(const struct grid *g, const struct grid *before, size_t j1) {
    for (size_t j2 = 0; j2 < before->side[1]; j2++) {
        const ptrdiff_t k1 = (ptrdiff_t)j1, k2 = 2 * (ptrdiff_t)j2;
        join(before, j1 / 2, j2, 0, before->side[2], half_row(g, k1, k2, 0));
        extend(g, k1, k2, 0);
    }
    close_plane(g, 0, j1);
}

/* Begins a grid with what the grid before has. */
static void begin_of(const struct grid *g, const struct grid *before) {
    for (size_t j1 = 0; j1 < g->side[0]; j1 += 2) begin_plane(g, before, j1);
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

static size_t half_of_side(size_t side) {
    return (evens_of(side) + MARGIN + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

static struct grid grid_of(const uint32_t extent[PITHI_TILE_NDIM], unsigned level) {
    struct grid g = {.first = NULL};
    sides_of(extent, level, g.side);
    for (size_t d = 0; d < SIDES - 1; d++) g.margin[d] = g.side[d] > 1 ? REACH : 0;
    g.half = half_of_side(g.side[2]);
    g.planes = all_rows(&g, 0);
    return g;
}

static size_t padded(size_t floats) { return pithi_pad64(floats * sizeof(float)) / sizeof(float); }

/* Has a grid keep fewer planes. Returns the floats for that, no less than for smaller tiles. */
static size_t keep_few(struct grid *g) {
    const size_t plane = all_rows(g, 1) * 2 * g->half, whole = g->planes * plane;
    const size_t planes = KEPT_FLOATS / plane > KEPT ? KEPT_FLOATS / plane : KEPT;
    const size_t few = KEPT * plane > KEPT_FLOATS ? KEPT * plane : KEPT_FLOATS;
    if (g->planes > planes) g->planes = planes;
    return few < whole ? few : whole;
}

/* Lays out memory: lines, a prediction, dense grids of levels from 2 on in two buffers, grids of
 * levels 1 and 0, of whose planes reading keeps few, and, for encoding, gathered values. Returns
 * its floats. */
static size_t place_weighted(struct f32_walk *w, const uint32_t extent[PITHI_TILE_NDIM], bool reads,
                             float *scratch, struct grid grid[PITHI_WEIGHTED_LEVELS]) {
    size_t at = 2 * LINE + PART;
    w->line_x = scratch;
    w->line_y = scratch ? scratch + LINE : NULL;
    for (unsigned k = 0; k < 2; k++) {
        w->buffer[k] = scratch ? scratch + at : NULL;
        at += padded(dense_floats(extent, PITHI_WEIGHTED_LEVELS + k));
    }
    for (unsigned level = PITHI_WEIGHTED_LEVELS; level--;) {
        struct grid *const g = &grid[level];
        *g = grid_of(extent, level);
        g->first = scratch ? scratch + at : NULL;
        g->predicted = scratch ? scratch + 2 * LINE : NULL;
        const bool few = reads && level == 0;
        at += padded(LINE_FLOATS + (few ? keep_few(g) : g->planes * all_rows(g, 1) * 2 * g->half));
    }
    w->gathered = scratch ? scratch + at : NULL;
    return at;
}

/* ---- The finest level, read ------------------------------------------------------------------
 * Where few planes are kept, those of all classes are decoded in turn, each as soon as those that
 * it needs are there. */

/* Classes, of which class 0 is what the level begins with, and how far they are; and the output,
 * which takes its planes as another class would. */
enum { PUT = CLASSES + 1 };
struct progress {
    const struct grid *grid;
    size_t done[PUT + 1];       /* planes that are done */
    int8_t needs[PUT + 1][PUT]; /* how many planes ahead of its own one a class must be, or -1 */
};

/* Returns the number of planes of a class, and which place number i has. */
static size_t planes_of(const struct grid *g, unsigned k) {
    if (k == PUT) return g->side[0];
    return has_class(g->side, k) ? places_of(g->side, k, 0) : 0;
}
static size_t plane_at(unsigned k, size_t i) { return k == PUT ? i : 2 * i + parity_of(k, 0); }

static void begin_progress(const struct grid *g, struct progress *p) {
    *p = (struct progress){.grid = g};
    memset(p->needs, -1, sizeof p->needs);
    for (unsigned k = 0; k < PUT; k++) {
        p->needs[PUT][k] = 0;
        if (!k || !has_class(g->side, k)) continue;
        const struct class c = class_of(g->side, k);
        for (unsigned i = 0; i < c.count; i++) {
            unsigned other = k;
            for (unsigned d = 0; d < SIDES; d++)
                other ^= (pithi_weighted_offset(c.term[i], d) & 1) << (SIDES - 1 - d);
            const int8_t ahead = (int8_t)pithi_weighted_offset(c.term[i], 0);
            if (p->needs[k][other] < ahead) p->needs[k][other] = ahead;
        }
    }
}

/* Whether the next plane of a class can be made. */
static bool can_go(const struct progress *p, unsigned k) {
    const size_t planes = planes_of(p->grid, k), at = plane_at(k, p->done[k]);
    if (p->done[k] == planes) return false;
    for (unsigned other = 0; other < PUT && other < k; other++) {
        if (p->needs[k][other] < 0 || p->done[other] == planes_of(p->grid, other)) continue;
        if (plane_at(other, p->done[other]) <= at + (size_t)p->needs[k][other]) return false;
    }
    return true;
}

/* Gives a plane to a sink. */
static void put_plane(const struct f32_walk *w, const struct grid *g, size_t j1,
                      const struct pithi_sink *to) {
    size_t at = j1 * g->side[1] * g->side[2];
    for (size_t j2 = 0; j2 < g->side[1]; j2++)
        for (size_t j3 = 0, n; j3 < g->side[2]; j3 += n, at += n) {
            n = g->side[2] - j3 < LINE ? g->side[2] - j3 : LINE;
            join(g, j1, j2, j3, n, w->line_x);
            to->put(to->arg, at, n, w->line_x);
        }
}
