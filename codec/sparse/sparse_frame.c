/* sparse_frame.c - the threshold of a frame of chosen elements, and what its header says of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A controller (control.h) asks for counts, for the k-th largest magnitude or for moments; passes
 * over all values with all threads answer. Then one pass encodes the blocks. Where it finds more
 * than the hard limit, the exact threshold of the limit is found, and the blocks are encoded again:
 * the residual that they read is still there.
 *
 * Of a frame that is read, the section of its header is checked here, the head of a block in
 * codecs/topk.c, its set in index.c. */
#include "sparse/sparse_frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "block_io.h"
#include "common/convert.h"
#include "common/endian.h"
#include "common/minmax.h"
#include "device_plan.h"
#include "error.h"
#include "parallel.h"
#include "sparse/control_value.h"
#include "spec.h"
#include "stream.h"

/* |x| of a NaN is at most this. */
#define MAGNITUDE_MAX 0x7FFFFFFFu

/* ---- Passes over the values ------------------------------------------------------------------*/

/* What a pass does with the values of every block; its results are those of the workers. */
struct pass {
    const struct pithi_coding *c;
    struct pithi_histogram_job histogram; /* low, high and shift; the rest is each block's */
    uint64_t skip; /* samples: of so many elements the first RUN are looked at; 0: all */
};

enum { RUN = 64, BINS = 1 << 16 };

/* The scratch memory of a worker during a pass: its bins. */
size_t pithi_sparse_scratch_bytes(void) { return BINS * sizeof(uint32_t); }

static uint32_t *bins_of(const struct pithi_worker *w) { return (uint32_t *)(void *)w->scratch; }

/* Returns the part of a block that may be chosen, as elements [*from, *until) of the slot. */
static void range_of(const struct pithi_coding *c, uint64_t block, uint64_t *from,
                     uint64_t *until) {
    const struct pithi_sparse_coding *const s = &c->own.sparse;
    const uint64_t first = pithi_block_first(&c->frame, block),
                   end = first + pithi_block_count(&c->frame, block);
    *from = s->selection.first > first ? s->selection.first : first;
    *until = s->selection.end < end ? s->selection.end : end;
    if (*until < *from) *until = *from;
}

/* Reads elements [from, until) of the slot, of one block. */
static pith_status read_values(const struct pithi_coding *c, uint64_t from, uint64_t until,
                               struct pithi_worker *w, struct pithi_select_values *v) {
    *v = (struct pithi_select_values){.dtype = c->source ? PITH_F32 : c->frame.params.dtype,
                                      .count = (size_t)(until - from),
                                      .residual = c->residual ? c->residual + from : NULL};
    return pithi_read_values(c, from, until - from, w, &v->value);
}

static pith_status histogram_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pass *const p = arg;
    struct pithi_histogram_job job = p->histogram;
    uint64_t from, until;
    job.bins = bins_of(w);
    range_of(p->c, block, &from, &until);
    while (from < until) {
        const uint64_t end = p->skip && until - from > RUN ? from + RUN : until;
        PITHI_TRY(read_values(p->c, from, end, w, &job.from));
        w->nonzero += p->c->plan->kernels.histogram(&job);
        from = p->skip && until - from > p->skip ? from + p->skip : until;
    }
    return PITH_OK;
}

/* Counts |x| in [low, high) in bins of 2^shift magnitudes, which are left in the first worker's
 * scratch memory; *above becomes how many |x| are `high` or more. skip: 0, or of how many elements
 * only the first RUN are looked at. With high = low there are no bins. */
static pith_status histogram(const struct pithi_coding *c, uint32_t low, uint32_t high,
                             uint32_t shift, uint64_t skip, uint64_t *above) {
    pith_work *const work = c->work;
    const size_t bins = (high - low) >> shift;
    struct pass p = {c, {.low = low, .high = high, .shift = shift}, skip};
    uint32_t *const sum = bins_of(&work->worker[0]);
    uint64_t exact;
    pithi_parallel_begin(work);
    for (uint32_t i = 0; i < work->workers; i++)
        memset(bins_of(&work->worker[i]), 0, bins * sizeof *sum);
    PITHI_TRY(pithi_parallel_for(work, 0, c->frame.payload.blocks, histogram_job, &p));
    for (uint32_t k = 1; k < work->workers; k++)
        for (size_t i = 0; i < bins; i++) sum[i] += bins_of(&work->worker[k])[i];
    pithi_parallel_counts(work, &exact, above);
    pithi_parallel_begin(work);
    return PITH_OK;
}

/* Finds the bin with the k-th largest magnitude; *before is how many are above all bins, and
 * becomes how many are above that one. Returns BINS where all bins together do not reach k. */
static size_t bin_of(const pith_work *work, size_t bins, uint64_t k, uint64_t *before) {
    const uint32_t *const n = bins_of(&work->worker[0]);
    for (size_t i = bins; i-- > 0; *before += n[i])
        if (*before + n[i] >= k) return i;
    return BINS;
}

/* ---- The k-th largest magnitude --------------------------------------------------------------*/

/* The k-th largest is searched for with a pass for the upper bits of magnitudes, then one for the
 * bits below, within the bin where the k-th is. Two passes of HALF bits are the fewest. For no more
 * than FEW elements clearing and adding up 2^HALF bins would take longer than a pass, so that there
 * are three of 11, 10 and 10 bits (PART). */
enum { HALF = 16, PART = 10, FEW = 1 << 17, SAMPLED = 4096 };

static size_t bins_from(uint32_t low, uint32_t shift) {
    return (MAGNITUDE_MAX + 1u - low) >> shift;
}

/* Guesses from a sample a magnitude *low that the k-th largest is hardly below, so that most
 * elements need not be counted in bins, which takes longer than to read them. 0: no guess. */
static pith_status guess_low(const struct pithi_coding *c, uint64_t k, uint32_t shift,
                             uint32_t *low) {
    const struct pithi_selection *const s = &c->own.sparse.selection;
    uint64_t above, before = 0;
    *low = 0;
    /* Values that are sums are computed by the block: a sample of them costs as much as all. */
    if (!c->view || s->end - s->first < 16 * SAMPLED) return PITH_OK;
    PITHI_TRY(histogram(c, 0, MAGNITUDE_MAX + 1u, shift, SAMPLED, &above));
    const uint64_t sampled = k / (SAMPLED / RUN), wanted = sampled + sampled / 2 + 32;
    const size_t i = bin_of(c->work, bins_from(0, shift), wanted, &before);
    if (i < BINS) *low = (uint32_t)i << shift;
    return PITH_OK;
}

/* Finds the k-th largest |x| for k of 1 up to the elements that may be chosen. */
static pith_status find_kth(const struct pithi_coding *c, uint64_t k, struct pithi_kth *found) {
    const uint64_t n = c->own.sparse.selection.end - c->own.sparse.selection.first;
    const uint32_t part = n <= FEW ? PART : HALF;
    uint32_t low, shift = n <= FEW ? 2 * PART : HALF;
    uint64_t above, before;
    size_t i;
    if (n > UINT32_MAX)
        return pithi_fail(&c->work->error, PITH_ERR_UNSUPPORTED,
                          "an exact threshold is of at most 4294967295 elements");
    PITHI_TRY(guess_low(c, k, shift, &low));
    for (;; low = 0) {
        PITHI_TRY(histogram(c, low, MAGNITUDE_MAX + 1u, shift, 0, &above));
        before = 0;
        i = bin_of(c->work, bins_from(low, shift), k, &before);
        if (i < BINS || !low) break;
    }
    low += (uint32_t)i << shift;
    while (shift) {
        const uint32_t high = low + (1u << shift);
        shift -= part;
        PITHI_TRY(histogram(c, low, high, shift, 0, &above));
        before = above;
        i = bin_of(c->work, (high - low) >> shift, k, &before);
        low += (uint32_t)i << shift;
    }
    *found = (struct pithi_kth){k, before, bins_of(&c->work->worker[0])[i], low};
    return PITH_OK;
}

/* Counts the elements of a block that equal the threshold, as the worker's `nonzero`. */
static pith_status ties_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *const c = arg;
    const uint32_t t = c->own.sparse.selection.threshold;
    uint64_t from, until;
    range_of(c, block, &from, &until);
    struct pithi_histogram_job job = {.low = t, .high = t + 1, .bins = bins_of(w)};
    PITHI_TRY(read_values(c, from, until, w, &job.from));
    job.bins[0] = 0;
    c->plan->kernels.histogram(&job);
    w->nonzero = job.bins[0];
    return PITH_OK;
}

/* Finds the place behind the n-th element that equals the threshold, which is in this block. */
static pith_status tie_in(struct pithi_coding *c, uint64_t block, uint64_t n) {
    uint64_t from, until;
    struct pithi_select_values v;
    range_of(c, block, &from, &until);
    PITHI_TRY(read_values(c, from, until, &c->work->worker[0], &v));
    for (size_t i = 0; i < v.count; i++) {
        const uint32_t u = pithi_load(v.value, v.dtype, i);
        const uint32_t x = v.residual ? pithi_bits(v.residual[i] + pithi_float(u)) : u;
        if (pithi_select_magnitude(x) != c->own.sparse.selection.threshold || --n) continue;
        c->own.sparse.selection.tie_end = from + i + 1;
        break;
    }
    return PITH_OK;
}

/* Finds the element behind the n-th that equals the threshold. */
static pith_status find_tie(struct pithi_coding *c, uint64_t n) {
    pith_work *const work = c->work;
    for (uint64_t block = 0; block < c->frame.payload.blocks;) {
        const uint64_t left = c->frame.payload.blocks - block;
        const uint64_t wave = left < work->workers ? left : work->workers;
        PITHI_TRY(pithi_parallel_for(work, block, wave, ties_job, c));
        for (uint64_t i = 0; i < wave; i++, block++) {
            const uint64_t here = work->worker[i].nonzero;
            if (here < n) {
                n -= here;
                continue;
            }
            return tie_in(c, block, n);
        }
    }
    return PITH_OK;
}

/* ---- What controllers ask for ----------------------------------------------------------------*/

/* What a controller looks at, and the exact threshold that it asked for last. */
struct look {
    struct pithi_coding *c;
    struct pithi_kth found; /* k is 0: it did not ask for one */
};

static pith_status kth(void *from, uint64_t k, uint32_t *t) {
    struct look *const l = from;
    const uint64_t n = l->c->own.sparse.selection.end - l->c->own.sparse.selection.first;
    *t = 0;
    if (n) PITHI_TRY(find_kth(l->c, k < n ? k : n, &l->found));
    if (n) *t = l->found.t;
    return PITH_OK;
}

static pith_status count_from(void *from, uint32_t t, uint64_t *elements) {
    return histogram(((struct look *)from)->c, t, t, 0, 0, elements);
}

static pith_status moments_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *const c = arg;
    struct pithi_moments sum = {0}, m;
    struct pithi_select_values v;
    uint64_t from, until;
    range_of(c, block, &from, &until);
    PITHI_TRY(read_values(c, from, until, w, &v));
    const size_t width = pith_dtype_bytes(v.dtype);
    for (size_t left = v.count; left;) {
        v.count = left < PITHI_MOMENTS_CHUNK ? left : PITHI_MOMENTS_CHUNK;
        c->plan->kernels.moments(&v, &m);
        pithi_moments_add(&sum, &m);
        left -= v.count;
        v.value = (const uint8_t *)v.value + v.count * width;
        if (v.residual) v.residual += v.count;
    }
    memcpy(w->scratch, &sum, sizeof sum);
    return PITH_OK;
}

static pith_status moments(void *from, struct pithi_moments *m) {
    struct pithi_coding *const c = ((struct look *)from)->c;
    pith_work *const work = c->work;
    *m = (struct pithi_moments){0};
    for (uint64_t block = 0; block < c->frame.payload.blocks;) {
        const uint64_t left = c->frame.payload.blocks - block;
        const uint64_t wave = left < work->workers ? left : work->workers;
        PITHI_TRY(pithi_parallel_for(work, block, wave, moments_job, c));
        for (uint64_t i = 0; i < wave; i++) {
            struct pithi_moments one;
            memcpy(&one, work->worker[i].scratch, sizeof one);
            pithi_moments_add(m, &one);
        }
        block += wave;
    }
    return PITH_OK;
}

/* A sample whose values are asked for. */
struct samples {
    const struct pithi_coding *c;
    const struct pithi_places *at;
    float *x;
};

/* Returns what element i of those that were read is chosen by. */
static float value_of(const struct pithi_select_values *v, size_t i) {
    const float value = pithi_float(pithi_load(v->value, v->dtype, i));
    return v->residual ? v->residual[i] + value : value;
}

/* Takes those elements of a sample that are of one block of a sum, which is read once. */
static pith_status sample_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct samples *const s = arg;
    const uint64_t first = s->c->own.sparse.selection.first;
    struct pithi_select_values v = {.count = 0};
    uint64_t from, until;
    range_of(s->c, block, &from, &until);
    for (size_t i = pithi_places_from(s->at, from - first); i < s->at->count; i++) {
        const uint64_t at = first + pithi_places_at(s->at, i);
        if (at >= until && !s->at->listed) break;
        if (at < from || at >= until) continue;
        if (!v.count) PITHI_TRY(read_values(s->c, from, until, w, &v));
        s->x[i] = value_of(&v, (size_t)(at - from));
    }
    return PITH_OK;
}

/* Places count from the first element that may be chosen. */
static pith_status sample(void *from, const struct pithi_places *at, float *x) {
    const struct pithi_coding *const c = ((struct look *)from)->c;
    struct samples s = {c, at, x};
    if (!c->view) return pithi_parallel_for(c->work, 0, c->frame.payload.blocks, sample_job, &s);
    for (size_t i = 0; i < at->count; i++) {
        const uint64_t e = c->own.sparse.selection.first + pithi_places_at(at, i);
        struct pithi_select_values v;
        PITHI_TRY(read_values(c, e, e + 1, &c->work->worker[0], &v));
        x[i] = value_of(&v, 0);
    }
    return PITH_OK;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Returns the hash of a set's map of n elements (FORMAT.md, section CHOSEN). */
static uint64_t hash_set(const uint64_t *map, uint64_t n) {
    return XXH64(map, (size_t)((n + 7) / 8), 0);
}

/* Begins with every element that the caller lets be chosen. */
static void open_selection(struct pithi_coding *c) {
    const struct pithi_sparse_request *const r = &c->own.sparse.request;
    const uint64_t n = c->frame.count, end = r->end && r->end < n ? r->end : n;
    c->own.sparse.selection =
        (struct pithi_selection){.first = r->first < end ? r->first : end, .end = end};
    c->own.sparse.selection.tie_end = end;
}

/* Limits a setting to the elements that may be chosen: of a range a rank chooses its share of k,
 * unless the caller says how many. */
static void set_range(const struct pithi_coding *c, struct pithi_sparse_setting *setting) {
    struct pithi_control_setting *const control = &setting->control;
    const struct pithi_sparse_coding *const s = &c->own.sparse;
    const uint64_t n = s->selection.end - s->selection.first;
    if (s->reported) control->all = control->k;
    if (n < control->n) {
        control->whole = control->k;
        control->k = pithi_control_share(control->k, n, control->n);
        control->n = n;
    }
    if (s->request.k) control->k = s->request.k < setting->most ? s->request.k : setting->most;
}

/* Takes an exact threshold: of the elements that equal it, the first are chosen. */
static pith_status take_kth(struct pithi_coding *c, const struct pithi_kth *found) {
    struct pithi_selection *const s = &c->own.sparse.selection;
    s->threshold = found->t;
    s->tie_end = s->end;
    return found->larger + found->equal > found->k ? find_tie(c, found->k - found->larger)
                                                   : PITH_OK;
}

/* Chooses the threshold of the step. */
static pith_status choose(struct pithi_coding *c, const struct pithi_sparse_setting *setting) {
    struct pithi_sparse_coding *const s = &c->own.sparse;
    struct look look = {.c = c};
    if (s->request.threshold) {
        s->selection.threshold = s->request.threshold;
        s->control.threshold = pithi_control_kept(s->request.threshold);
        s->control.steps++;
        return PITH_OK;
    }
    const struct pithi_control_view view = {.from = &look,
                                            .kth = kth,
                                            .count = count_from,
                                            .moments = moments,
                                            .sample = sample,
                                            .scratch = (float *)(void *)c->work->worker[0].floats,
                                            .step = s->step};
    PITHI_TRY(pithi_control_choose(&setting->control, &view, &s->control, &s->selection.threshold));
    if (look.found.k && look.found.t == s->selection.threshold) return take_kth(c, &look.found);
    return PITH_OK;
}

static pith_status encode_blocks(struct pithi_coding *c, uint64_t capacity, uint64_t *used) {
    PITHI_TRY(pithi_encode_waves(c, capacity, used));
    pithi_parallel_counts(c->work, &c->own.sparse.found, &c->frame.own.chosen.count);
    return PITH_OK;
}

/* Encodes all elements that reach the threshold, and counts them. Where there is no space for them,
 * though there is for `most`, they are only counted. */
static pith_status encode_found(struct pithi_coding *c, uint64_t most, uint64_t capacity,
                                uint64_t *used) {
    struct look look = {.c = c};
    const pith_error none = c->work->error;
    const pith_status status = encode_blocks(c, capacity, used);
    /* Of ties that were cut off no more are chosen than k. */
    const bool cut = c->own.sparse.selection.tie_end < c->own.sparse.selection.end;
    if (status != PITH_ERR_SPACE || cut) return status;
    const pith_error error = c->work->error;
    c->work->error = none;
    PITHI_TRY(count_from(&look, c->own.sparse.selection.threshold, &c->own.sparse.found));
    if (c->own.sparse.found > most) return PITH_OK;
    c->work->error = error;
    return status;
}

/* Encodes the values of the set that the stream holds, with or without its indices. */
static pith_status encode_held(struct pithi_coding *c, uint64_t capacity, uint64_t *used) {
    c->own.sparse.selection.threshold = UINT32_MAX - 1; /* more than the bits of every magnitude */
    c->frame.own.chosen = (struct pithi_chosen){.held = c->own.sparse.same_set};
    if (c->own.sparse.same_set)
        c->frame.own.chosen.set_hash = hash_set(c->own.sparse.held_map, c->frame.count);
    return encode_blocks(c, capacity, used);
}

/* Where the hard limit is passed, encodes the elements of largest magnitude: as many as the limit
 * allows, or, with the rule prop, the k that it then begins anew with. */
static pith_status encode_largest(struct pithi_coding *c,
                                  const struct pithi_sparse_setting *setting, uint64_t capacity,
                                  uint64_t *used) {
    struct pithi_sparse_coding *const s = &c->own.sparse;
    const bool anew = setting->control.kind == PITHI_CONTROL_PROP && !s->request.threshold;
    struct pithi_kth found;
    s->overflowed = s->found;
    s->same_blocks = false; /* the blocks have overwritten the set that was held */
    PITHI_TRY(find_kth(c, anew ? setting->control.k : setting->most, &found));
    PITHI_TRY(take_kth(c, &found));
    PITHI_TRY(encode_blocks(c, capacity, used));
    s->overflowed -= s->found;
    if (!anew) return PITH_OK;
    s->control.threshold = pithi_control_kept(found.t);
    s->control.selected = s->found;
    return PITH_OK;
}

/* Writes elements of the view or of a sum to the worker's values, in f32. */
static pith_status read_floats(const struct pithi_coding *c, uint64_t first, uint64_t count,
                               struct pithi_worker *w) {
    const uint32_t dtype = c->frame.params.dtype;
    float *const x = (float *)(void *)w->values;
    uint64_t buffer[RUN];
    if (c->own.sparse.sum) {
        const void *sum;
        PITHI_TRY(c->own.sparse.sum(c->own.sparse.sum_from, first, count, w, &sum));
        memmove(x, sum, (size_t)count * sizeof *x);
        return PITH_OK;
    }
    for (uint64_t at = 0; at < count; at += RUN) {
        const uint64_t n = count - at < RUN ? count - at : RUN;
        const void *const from = pithi_span_read(c->view, first + at, n, buffer);
        pithi_convert(x + at, PITH_F32, from, dtype, (size_t)n);
    }
    return PITH_OK;
}

/* Reads what is encoded in place of the values: their coefficients, and of these, with momentum,
 * RN(RN(mu * m) + g), where m is what it was (pithi_source_fn). */
static pith_status read_changed(void *from, uint64_t first, uint64_t count, struct pithi_worker *w,
                                const void **values) {
    const struct pithi_coding *const c = from;
    const struct pithi_params *const p = &c->frame.params;
    const struct pithi_domain *const domain = p->codec->domain;
    /* All elements that are transformed together with these, which are of the same block. */
    const uint64_t length = c->coefficients ? 1 : pithi_transform_length(p);
    const uint64_t begin = first / length * length;
    const uint64_t stop = (first + count + length - 1) / length * length;
    const uint64_t end = stop < c->frame.count ? stop : c->frame.count;
    const struct pithi_block b = {
        .params = p, .kernels = &c->plan->kernels, .first = begin, .count = (size_t)(end - begin)};
    float *const x = (float *)(void *)w->values, *const wanted = x + (first - begin);
    PITHI_TRY(read_floats(c, begin, end - begin, w));
    if (length > 1) domain->enter(&b, 0, b.count, x);
    for (uint64_t i = 0; c->momentum && i < count; i++) {
        const float kept = c->own.sparse.factor * c->momentum[first + i];
        wanted[i] = kept + wanted[i];
    }
    *values = wanted;
    return PITH_OK;
}

static const void *read_elements(const void *coding, uint64_t first, uint64_t count, void *buffer) {
    return pithi_span_read(((const struct pithi_coding *)coding)->view, first, count, buffer);
}

/* Encodes the largest elements of every row. */
static pith_status encode_rows(struct pithi_coding *c, const struct pithi_sparse_setting *setting,
                               uint64_t capacity, uint64_t *used) {
    struct pithi_sparse_coding *const s = &c->own.sparse;
    if (c->source)
        return pithi_fail(&c->work->error, PITH_ERR_UNSUPPORTED, "a sum is not chosen by row");
    if (setting->row > PITHI_SPARSE_ROW)
        return pithi_fail_numbers(&c->work->error, PITH_ERR_UNSUPPORTED,
                                  "scope=row takes rows of at most # elements, not #",
                                  PITHI_SPARSE_ROW, setting->row);
    s->selection.threshold = UINT32_MAX - 1;
    s->selection.row = setting->row;
    s->selection.row_k = setting->row_k;
    if (s->request.k) s->selection.row_k = pithi_min(s->request.k, setting->row_most);
    s->read = read_elements;
    c->frame.own.chosen = (struct pithi_chosen){0};
    PITHI_TRY(encode_blocks(c, capacity, used));
    s->control.selected = s->found;
    s->control.steps++;
    return PITH_OK;
}

/* Encodes the set that is chosen, or the one that is given. */
static pith_status encode_set(struct pithi_coding *c, uint64_t capacity, uint64_t *used) {
    struct pithi_sparse_coding *const s = &c->own.sparse;
    struct pithi_sparse_setting setting = pithi_sparse_setting_of(&c->frame);
    s->caller_clears = !setting.clears;
    c->nontemporal = c->residual && c->frame.count * sizeof(float) >= PITHI_LARGE_OUTPUT;
    s->factor = setting.momentum;
    if (c->momentum && c->source)
        return pithi_fail(&c->work->error, PITH_ERR_UNSUPPORTED, "a sum has no momentum");
    if (c->momentum || (pithi_transform_length(&c->frame.params) > 1 && !c->coefficients)) {
        s->sum = c->source;
        s->sum_from = c->source_from;
        c->source = read_changed;
        c->source_from = c;
    }
    open_selection(c);
    if (s->same_set || s->held_set) return encode_held(c, capacity, used);
    if (setting.row) return encode_rows(c, &setting, capacity, used);
    set_range(c, &setting);
    PITHI_TRY(choose(c, &setting));
    c->frame.own.chosen = (struct pithi_chosen){0};
    PITHI_TRY(encode_found(c, setting.most, capacity, used));
    s->overflowed = 0;
    s->control.selected = s->found;
    if (s->found > setting.most) PITHI_TRY(encode_largest(c, &setting, capacity, used));
    c->frame.own.chosen.threshold = s->selection.threshold;
    c->frame.own.chosen.bounded = s->selection.first == 0 && s->selection.end == c->frame.count;
    return PITH_OK;
}

/* Whether a block of a payload that is whole has the set that the receiver holds of it. */
static bool has_held_block(const struct pithi_coding *c) {
    const struct pithi_payload *const p = &c->frame.payload;
    const uint8_t *at = c->bytes + p->data;
    for (uint64_t i = 0; i < p->blocks; i++) {
        const size_t length = pithi_get32(c->bytes + 4 * i) & ~PITHI_PLAIN;
        if (c->frame.params.codec->own.sparse->set_is_held(at, length)) return true;
        at += length;
    }
    return false;
}

static pith_status encode(struct pithi_coding *c, uint64_t capacity, uint64_t *used) {
    const bool same_blocks = c->own.sparse.same_blocks;
    const uint64_t before = same_blocks ? hash_set(c->own.sparse.held_map, c->frame.count) : 0;
    PITHI_TRY(encode_set(c, capacity, used));
    if (!same_blocks || !has_held_block(c)) return PITH_OK;
    c->frame.own.chosen.same_blocks = true;
    c->frame.own.chosen.set_hash = before;
    pithi_params_set_revision(&c->frame.params, PITHI_CHOSEN_REVISION);
    c->frame.written = NULL; /* the plan's header has another revision */
    return PITH_OK;
}

static uint64_t scratch_bytes(const struct pithi_params *p, uint64_t count) {
    (void)p;
    (void)count;
    return PITHI_CONTROL_SAMPLE * sizeof(float);
}

static void keep(const struct pithi_params *p, double kept[PITHI_KEPT]) {
    (void)p;
    (void)kept;
}

/* ---- Section CHOSEN --------------------------------------------------------------------------*/

enum { AT_COUNT = 0, AT_HASH = 8, AT_THRESHOLD = 16, AT_FLAGS = 20 };
enum { HELD = 1, BOUNDED = 2, SAME_BLOCKS = 4 };

static void write_section(const struct pithi_frame *f, uint8_t *body) {
    const struct pithi_chosen *const s = &f->own.chosen;
    pithi_put64(body + AT_COUNT, s->count);
    pithi_put64(body + AT_HASH, s->set_hash);
    pithi_put32(body + AT_THRESHOLD, s->threshold);
    pithi_put32(body + AT_FLAGS, (s->held ? HELD : 0u) | (s->bounded ? BOUNDED : 0u) |
                                     (s->same_blocks ? SAME_BLOCKS : 0u));
}

static const char *read_section(const uint8_t *body, struct pithi_frame *f) {
    const uint32_t flags = pithi_get32(body + AT_FLAGS);
    f->own.chosen = (struct pithi_chosen){.count = pithi_get64(body + AT_COUNT),
                                          .set_hash = pithi_get64(body + AT_HASH),
                                          .threshold = pithi_get32(body + AT_THRESHOLD),
                                          .held = flags & HELD,
                                          .same_blocks = flags & SAME_BLOCKS,
                                          .bounded = flags & BOUNDED};
    const bool newer = pithi_frame_revision(&f->params) == PITHI_CHOSEN_REVISION;
    if (flags & ~(uint32_t)(HELD | BOUNDED | SAME_BLOCKS) || newer != f->own.chosen.same_blocks)
        return "unknown flags of a set";
    if ((flags & HELD) && (flags & SAME_BLOCKS)) return "a set is held as a whole and by blocks";
    if (f->own.chosen.count > f->count) return "more elements are chosen than there are";
    if (!(flags & (HELD | SAME_BLOCKS)) && f->own.chosen.set_hash)
        return "a hash of a set that is not held";
    if (f->own.chosen.held && (f->own.chosen.threshold || f->own.chosen.bounded))
        return "a threshold of a set that is held";
    return NULL;
}

static void inspect(const struct pithi_frame *f, pith_info *info) {
    const struct pithi_chosen *const s = &f->own.chosen;
    info->sent = s->count;
    info->threshold = pithi_float(s->threshold);
    info->value_bits = pithi_sparse_setting_of(f).value_bits;
    info->same_set = s->held ? 1 : s->same_blocks ? 2 : 0;
}

static double left_out(const struct pithi_frame *f) {
    const uint32_t t = f->own.chosen.threshold;
    return (double)pithi_float(f->own.chosen.bounded && t < PITHI_F32_INF ? t : PITHI_F32_INF);
}

static void open_block(const struct pithi_coding *c, struct pithi_worker *w,
                       struct pithi_block *b) {
    const struct pithi_sparse_coding *const s = &c->own.sparse;
    b->own = &w->own;
    b->own->sparse = (struct pithi_block_sparse){
        .selection = &s->selection,
        .held_map = s->held_map ? s->held_map + b->first / 64 : NULL,
        .keep_set = s->keep_set,
        .same_set = c->frame.own.chosen.held,
        .same_blocks = s->same_blocks || c->frame.own.chosen.same_blocks,
        .held_set = s->held_set,
        .caller_clears = s->caller_clears,
        .dtype = c->source ? PITH_F32 : c->frame.params.dtype,
        .momentum = c->momentum ? c->momentum + b->first : NULL,
        .momentum_next = c->momentum ? c->momentum_next + b->first : NULL,
        .read = s->read,
        .read_from = c,
        .read_buffer = w->floats,
    };
}

static pith_status admit(struct pithi_coding *c) {
    if (!c->frame.own.chosen.held && !c->frame.own.chosen.same_blocks) return PITH_OK;
    if (c->own.sparse.admitted) return PITH_OK;
    if (c->busy) return pithi_stream_busy(&c->work->error);
    if (!c->own.sparse.held_map)
        return pithi_fail(&c->work->error, PITH_ERR_STATE,
                          "the frame has the values of a set that no stream here holds");
    const uint64_t hash = hash_set(c->own.sparse.held_map, c->frame.count);
    if (hash == c->frame.own.chosen.set_hash) return PITH_OK;
    return pithi_fail_numbers(&c->work->error, PITH_ERR_BASE,
                              "the set that is held is not the encoder's: hash #, the frame's #",
                              hash, c->frame.own.chosen.set_hash);
}

static const char *check_heads(const struct pithi_coding *c) {
    const struct pithi_payload *const p = &c->frame.payload;
    const uint8_t *at = c->bytes + p->data;
    uint64_t count = 0;
    for (uint64_t i = 0; i < p->blocks; i++) {
        const size_t length = pithi_get32(c->bytes + 4 * i) & ~PITHI_PLAIN;
        count += c->frame.params.codec->own.sparse->set_elements(at, length);
        at += length;
    }
    return count == c->frame.own.chosen.count ? NULL : "the header counts other elements";
}

/* ---- Slots of streams ------------------------------------------------------------------------*/

/* The words of a slot are the map of a set, of which at most one is not full. */
static uint64_t slot_words(uint64_t elements, uint64_t slots) { return elements / 64 + slots; }

pith_status pithi_sparse_check_set(const pith_stream *s, uint64_t slot, pith_error *error) {
    if (!s->slot_words) return pithi_fail(error, PITH_ERR_UNSUPPORTED, "the codec sends no sets");
    if (s->slot[slot].own.sparse.holds) return PITH_OK;
    return pithi_fail(error, PITH_ERR_STATE,
                      "the slot holds no set: none was encoded, decoded or given yet");
}

static pith_status allow(const pith_stream *s, uint64_t slot, uint32_t flags, pith_error *error) {
    if (flags & (flags - 1))
        return pithi_fail(error, PITH_ERR_ARG,
                          "a set goes with its indices, without, or with those of some blocks");
    if (flags == PITH_SAME_BLOCKS && s->slot_words) return PITH_OK;
    return pithi_sparse_check_set(s, slot, error);
}

static void begin(const struct pithi_slot_state *slot, struct pithi_coding *c) {
    c->own.sparse.control = slot->own.sparse.control;
    c->own.sparse.request = slot->own.sparse.request;
    c->own.sparse.held_map = c->slot_words;
    c->own.sparse.same_set = c->flags & PITH_SAME_SET;
    c->own.sparse.held_set = c->flags & PITH_HELD_SET;
    c->own.sparse.same_blocks = c->flags & PITH_SAME_BLOCKS && slot->own.sparse.holds;
    c->own.sparse.step = slot->step;
    c->own.sparse.reported = slot->own.sparse.reported;
}

static void end(const struct pithi_coding *c, struct pithi_slot_state *slot) {
    struct pithi_slot_sparse *const s = &slot->own.sparse;
    s->holds = c->own.sparse.held_map != NULL;
    s->sent = c->frame.own.chosen.count;
    s->overflowed = c->own.sparse.overflowed;
    s->threshold = c->frame.own.chosen.threshold;
    slot->nonzero += c->nonzero;
    s->before = s->control;
    s->reported_before = s->reported;
    if (c->own.sparse.same_set || c->own.sparse.held_set) return;
    s->control = c->own.sparse.control;
    s->reported = false;
}

static void fail(const struct pithi_coding *c, struct pithi_slot_state *slot) {
    const bool read =
        c->own.sparse.same_set || c->own.sparse.held_set; /* the map was not written */
    slot->own.sparse.holds = slot->own.sparse.holds && read;
}

static void begin_decode(const struct pithi_slot_state *slot, struct pithi_coding *c) {
    if (slot->own.sparse.holds) c->own.sparse.held_map = c->slot_words;
}

static void follow(struct pithi_slot_state *slot, struct pithi_coding *c) {
    const struct pithi_chosen *const s = &c->frame.own.chosen;
    if (s->held) return;
    if (s->same_blocks) {
        c->own.sparse.admitted =
            slot->own.sparse.holds && hash_set(c->slot_words, c->frame.count) == s->set_hash;
        /* A frame that will not be admitted changes nothing. */
        if (!c->own.sparse.admitted) return;
    }
    c->own.sparse.held_map = c->slot_words;
    c->own.sparse.keep_set = true;
    slot->own.sparse.holds = false; /* until all of the map is written */
}

static void end_decode(const struct pithi_coding *c, struct pithi_slot_state *slot) {
    slot->own.sparse.holds = true;
    slot->own.sparse.sent = c->frame.own.chosen.count;
}

/* The map may be half written. */
static void abandon(struct pithi_slot_state *slot) { slot->own.sparse.holds = false; }

static void rollback(struct pithi_slot_state *slot) {
    slot->own.sparse.control = slot->own.sparse.before;
    slot->own.sparse.reported = slot->own.sparse.reported_before;
    slot->own.sparse.holds = false;
}

static uint64_t save(const struct pithi_slot_state *slot, uint8_t *bytes) {
    const uint64_t reported = slot->own.sparse.reported ? PITHI_CONTROL_REPORTED : 0;
    return pithi_control_save(&slot->own.sparse.control, bytes) | reported;
}

static void load(struct pithi_slot_state *slot, uint64_t word, const uint8_t *bytes) {
    slot->own.sparse.control = slot->own.sparse.before = pithi_control_load(word, bytes);
    slot->own.sparse.reported = word & PITHI_CONTROL_REPORTED;
}

static bool legal(uint64_t word, const uint8_t *bytes) {
    const struct pithi_control_state s = pithi_control_load(word, bytes);
    return pithi_control_legal(&s);
}

/* ---- Devices ---------------------------------------------------------------------------------*/

void pithi_sets_describe(const struct pithi_frame *f, struct pithi_device_plan_slot *slot,
                         struct pithi_device *device) {
    const struct pithi_codec *const codec = f->params.codec;
    const uint64_t blocks = slot->blocks, last = blocks ? pithi_block_count(f, blocks - 1) : 0;
    const struct pithi_sparse_setting setting = pithi_sparse_setting_of(f);
    struct pithi_sets_slot *const to = &slot->sets;
    to->chosen = setting.control.k;
    to->chosen_most = setting.most;
    to->row = setting.row;
    to->row_chosen = setting.row <= PITHI_SPARSE_ROW ? setting.row_k : 0;
    to->row_most = setting.row_most;
    to->block_most = codec->block_bytes(&f->params, f->params.block);
    to->last_most = codec->block_bytes(&f->params, last);
    to->read_most = f->payload.data + to->last_most;
    if (blocks) to->read_most += (blocks - 1) * to->block_most;
    if (to->chosen_most > device->sets.most_chosen) device->sets.most_chosen = to->chosen_most;
}

const char *pithi_sets_refuse(const struct pithi_device_plan *plan) {
    if (!plan->ranges && plan->most <= UINT32_MAX) return NULL;
    return "device kernels choose from slots of less than 2^32 elements, none of them exempt";
}

const struct pithi_frame_hooks pithi_sparse_frame_hooks = {
    .keep = keep,
    .scratch_bytes = scratch_bytes,
    .encode = encode,
    .section = PITHI_CHOSEN_SECTION,
    .section_bytes = PITHI_CHOSEN_BYTES,
    .write_section = write_section,
    .read_section = read_section,
    .inspect = inspect,
    .left_out = left_out,
    .open_block = open_block,
    .admit = admit,
    .check_heads = check_heads,
    .slot_words = slot_words,
    .allow = allow,
    .begin = begin,
    .end = end,
    .fail = fail,
    .begin_decode = begin_decode,
    .follow = follow,
    .end_decode = end_decode,
    .rollback = rollback,
    .abandon = abandon,
    .saved_bytes = PITHI_CONTROL_BYTES,
    .save = save,
    .load = load,
    .legal = legal,
};
