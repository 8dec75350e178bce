/* planning.c - which rank chooses from which elements, and how many.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/SPARSE.md, Planning, has the rules and their sources. */
#include "codec.h"
#include "common/minmax.h"
#include "common/pad.h"
#include "cpu.h"
#include "error.h"
#include "frame_header.h"
#include "sparse/numbers.h"
#include "sparse/select.h"
#include "sparse/sparse_frame.h"
#include "view.h"

/* Calls compute(job) with rounding to nearest. The call is through a pointer, so that no operation
 * leaves the place between the other two. */
static void with_rounding(void (*compute)(void *job), void *job) {
    void (*volatile const call)(void *) = compute;
    const uint64_t before = pithi_fp_enter();
    call(job);
    pithi_fp_restore(before);
}

static pith_status is_null(pith_error *error) {
    return pithi_fail(error, PITH_ERR_ARG, "an argument is NULL");
}

/* ---- Partitions ------------------------------------------------------------------------------*/

uint32_t pith_sparse_part(uint32_t ranks, uint32_t rank, uint64_t step) {
    return ranks > 0 ? (uint32_t)((step % ranks + rank) % ranks) : 0;
}

static pith_status check_rank(uint32_t ranks, uint32_t rank, pith_error *error) {
    if (rank < ranks) return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_ARG, 0, "a group of # ranks has no rank #",
                           &(struct pithi_words){.number = {ranks, rank}});
}

/* Elements [first, first + count). */
struct range {
    uint64_t first, count;
};

static struct range even_part(uint64_t n, uint32_t ranks, uint32_t part) {
    const uint64_t size = n / ranks, longer = n % ranks;
    return (struct range){part * size + (part < longer ? part : longer), size + (part < longer)};
}

pith_status pith_sparse_partition(uint64_t n, uint32_t ranks, uint32_t rank, uint64_t step,
                                  uint64_t *first, uint64_t *count, pith_error *error) {
    pithi_clear(error);
    if (!first || !count) return is_null(error);
    PITHI_TRY(check_rank(ranks, rank, error));
    const struct range range = even_part(n, ranks, pith_sparse_part(ranks, rank, step));
    *first = range.first;
    *count = range.count;
    return PITH_OK;
}

struct imbalance {
    uint64_t most;
    uint64_t sum, carries; /* the sum is carries * 2^64 + sum */
    uint32_t ranks;
    double result;
};

static void compute_imbalance(void *job) {
    struct imbalance *const j = job;
    const double sum = (double)j->carries * 0x1p64 + (double)j->sum;
    j->result = (double)j->most * j->ranks / sum - 1;
}

double pith_sparse_imbalance(const uint64_t *counts, uint32_t ranks) {
    struct imbalance j = {.ranks = ranks};
    for (uint32_t r = 0; r < ranks; r++) {
        j.sum += counts[r];
        j.carries += j.sum < counts[r];
        if (counts[r] > j.most) j.most = counts[r];
    }
    if (j.most > 0) with_rounding(compute_imbalance, &j);
    return j.result;
}

/* ---- ExDyna ----------------------------------------------------------------------------------*/

/* Elements of a block are a multiple of this. */
enum { BLOCK_STEP = 32 };

static uint32_t exdyna_block(uint64_t n) {
    const uint64_t block = n / PITH_EXDYNA_BLOCKS / BLOCK_STEP * BLOCK_STEP;
    return block < UINT32_MAX ? (uint32_t)block : UINT32_MAX / BLOCK_STEP * BLOCK_STEP;
}

pith_status pith_exdyna_init(pith_exdyna *plan, uint64_t n, uint32_t ranks, pith_error *error) {
    pithi_clear(error);
    if (!plan) return is_null(error);
    if (ranks == 0 || ranks > PITH_EXDYNA_RANKS_MAX)
        return pithi_fail_numbers(error, PITH_ERR_ARG, "ranks are 1 to #, not #",
                                  PITH_EXDYNA_RANKS_MAX, ranks);
    if (plan->size != sizeof *plan)
        return pithi_fail_numbers(error, PITH_ERR_ARG, "the plan has size #, expected #",
                                  plan->size, sizeof *plan);
    *plan = (pith_exdyna){.size = sizeof *plan, .n = n, .ranks = ranks, .block = exdyna_block(n)};
    for (uint32_t i = 0; i < ranks; i++)
        plan->blocks[i] = (uint32_t)even_part(PITH_EXDYNA_BLOCKS, ranks, i).count;
    return PITH_OK;
}

static pith_status check_exdyna(const pith_exdyna *plan, pith_error *error) {
    uint64_t blocks = 0;
    bool legal = plan->size == sizeof *plan && plan->ranks > 0 &&
                 plan->ranks <= PITH_EXDYNA_RANKS_MAX && plan->block == exdyna_block(plan->n);
    for (uint32_t i = 0; legal && i < plan->ranks; i++) blocks += plan->blocks[i];
    if (legal && blocks == PITH_EXDYNA_BLOCKS) return PITH_OK;
    return pithi_fail(error, PITH_ERR_STATE, "the struct holds no plan of ExDyna");
}

struct exdyna {
    uint32_t *blocks;
    uint32_t ranks, block;
    uint64_t n, sum;
    int64_t counts[PITH_EXDYNA_RANKS_MAX]; /* of each partition */
};

/* Whether a partition can give a block away: a quarter of the even number stays. */
static bool can_give(const struct exdyna *x, uint32_t part) {
    const uint64_t times = 4 * (uint64_t)x->ranks;
    return x->blocks[part] * times >= PITH_EXDYNA_BLOCKS + times;
}

static void move_block(struct exdyna *x, uint32_t from, uint32_t to, int64_t moved) {
    x->blocks[from]--;
    x->blocks[to]++;
    x->counts[from] -= moved;
    x->counts[to] += moved;
}

static void move_blocks(void *job) {
    struct exdyna *const x = job;
    const double mean = (double)(x->sum / x->ranks);
    const double density = (double)x->sum / (double)x->n;
    const int64_t moved = (int64_t)(x->block * density);
    for (uint32_t i = 0; i + 1 < x->ranks; i++) {
        const double here = (double)x->counts[i] / mean, next = (double)x->counts[i + 1] / mean;
        if (here > 1.05 && next < 0.95238 && can_give(x, i)) move_block(x, i, i + 1, moved);
        if (here < 0.95238 && next > 1.05 && can_give(x, i + 1)) move_block(x, i + 1, i, moved);
    }
}

pith_status pith_exdyna_update(pith_exdyna *plan, const uint64_t *counts, pith_error *error) {
    pithi_clear(error);
    if (!plan || !counts) return is_null(error);
    PITHI_TRY(check_exdyna(plan, error));
    struct exdyna x = {plan->blocks, plan->ranks, plan->block, plan->n, 0, {0}};
    for (uint32_t r = 0; r < plan->ranks; r++) {
        if (counts[r] > plan->n - x.sum)
            return pithi_fail(error, PITH_ERR_ARG, "more elements were chosen than there are");
        x.sum += counts[r];
        x.counts[pith_sparse_part(plan->ranks, r, plan->step)] = (int64_t)counts[r];
    }
    /* With less than an element for each rank the ratios of counts say nothing. */
    if (plan->block > 0 && x.sum >= plan->ranks) with_rounding(move_blocks, &x);
    plan->step++;
    return PITH_OK;
}

static struct range exdyna_range(const pith_exdyna *plan, uint32_t part) {
    if (plan->block == 0) return even_part(plan->n, plan->ranks, part);
    struct range range = {0, (uint64_t)plan->blocks[part] * plan->block};
    for (uint32_t i = 0; i < part; i++) range.first += (uint64_t)plan->blocks[i] * plan->block;
    if (part == plan->ranks - 1) range.count = plan->n - range.first;
    return range;
}

pith_status pith_exdyna_range(const pith_exdyna *plan, uint32_t rank, uint64_t *first,
                              uint64_t *count, pith_error *error) {
    pithi_clear(error);
    if (!plan || !first || !count) return is_null(error);
    PITHI_TRY(check_exdyna(plan, error));
    PITHI_TRY(check_rank(plan->ranks, rank, error));
    const struct range range = exdyna_range(plan, pith_sparse_part(plan->ranks, rank, plan->step));
    *first = range.first;
    *count = range.count;
    return PITH_OK;
}

/* ---- DEFT ------------------------------------------------------------------------------------*/

uint64_t pith_deft_pieces(const uint64_t *sizes, uint64_t tensors, uint32_t ranks, uint64_t *pieces,
                          uint64_t capacity) {
    uint64_t n = 0, count = 0;
    if (ranks == 0) return 0;
    for (uint64_t i = 0; i < tensors; i++) {
        if (sizes[i] > UINT64_MAX - n) return 0;
        n += sizes[i];
    }
    for (uint64_t i = 0; i < tensors; i++) {
        const uint32_t parts = sizes[i] > n / ranks ? ranks : 1;
        for (uint32_t part = 0; part < parts; part++) {
            const uint64_t elements = even_part(sizes[i], parts, part).count;
            if (elements == 0) break;
            if (count < capacity) pieces[count] = elements;
            count++;
        }
    }
    return count;
}

struct norm {
    const struct pithi_span *span;
    double result;
};

static void compute_norm(void *job) {
    struct norm *const j = job;
    struct pithi_moments sum = {0}, m;
    struct pithi_kernels kernels;
    float buffer[PITHI_MOMENTS_CHUNK];
    pithi_kernels_bind(&kernels, pithi_cpu_select(0));
    for (uint64_t at = 0; at < j->span->count; at += PITHI_MOMENTS_CHUNK) {
        const uint64_t left = j->span->count - at;
        const size_t count = left < PITHI_MOMENTS_CHUNK ? (size_t)left : PITHI_MOMENTS_CHUNK;
        const struct pithi_select_values v = {.value = pithi_span_read(j->span, at, count, buffer),
                                              .dtype = j->span->dtype,
                                              .count = count};
        kernels.moments(&v, &m);
        pithi_moments_add(&sum, &m);
    }
    j->result = pithi_root(sum.squares);
}

pith_status pith_sparse_norm(const pith_view *view, double *norm, pith_error *error) {
    struct pithi_span span;
    pithi_clear(error);
    if (!view || !norm) return is_null(error);
    PITHI_TRY(pithi_span_init(&span, view, false, error));
    if (span.dtype != PITH_F32 && span.dtype != PITH_BF16 && span.dtype != PITH_F16)
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "norms are of f32, bf16 and f16, not $",
                               &(struct pithi_words){.name = {pith_dtype_name(span.dtype)}});
    struct norm j = {&span, 0};
    with_rounding(compute_norm, &j);
    *norm = j.result;
    return PITH_OK;
}

/* A heap whose top is the element with the largest key, of equal ones the first. */
struct heap {
    uint32_t *element;
    const double *key;
    uint32_t count;
};

static bool is_before(const struct heap *h, uint32_t a, uint32_t b) {
    const double x = h->key[h->element[a]], y = h->key[h->element[b]];
    return x > y || (x == y && h->element[a] < h->element[b]);
}

static void sift(struct heap *h, uint32_t at) {
    for (;;) {
        uint32_t top = at;
        for (uint64_t child = 2 * (uint64_t)at + 1; child < 2 * (uint64_t)at + 3; child++)
            if (child < h->count && is_before(h, (uint32_t)child, top)) top = (uint32_t)child;
        if (top == at) return;
        const uint32_t element = h->element[at];
        h->element[at] = h->element[top];
        h->element[top] = element;
        at = top;
    }
}

static struct heap heap_of(uint32_t *element, const double *key, uint32_t count) {
    struct heap h = {element, key, count};
    for (uint32_t i = 0; i < count; i++) element[i] = i;
    for (uint32_t i = count / 2; i-- > 0;) sift(&h, i);
    return h;
}

static uint32_t pop(struct heap *h) {
    const uint32_t top = h->element[0];
    h->element[0] = h->element[--h->count];
    sift(h, 0);
    return top;
}

/* Both calls of DEFT: what they read, their memory, and what they write. */
struct deft {
    const uint64_t *pieces;
    uint32_t count, ranks;
    const double *norms;
    uint64_t k;
    uint64_t *ks;
    uint32_t *bins;
    double *cost, *load; /* of pieces; of bins, negative */
    uint32_t *piece_heap, *bin_heap;
};

uint64_t pith_deft_bytes(uint32_t pieces, uint32_t ranks) {
    return 8 + (sizeof(double) + sizeof(uint32_t)) * ((uint64_t)pieces + ranks);
}

static pith_status open_deft(struct deft *d, void *memory, size_t bytes, pith_error *error) {
    const uint64_t needed = pith_deft_bytes(d->count, d->ranks);
    if (!memory || (d->count > 0 && !d->pieces)) return is_null(error);
    if (bytes < needed)
        return pithi_fail_numbers(error, PITH_ERR_SPACE, "memory of DEFT: # bytes needed, # given",
                                  needed, bytes);
    for (uint32_t i = 0; i < d->count; i++)
        if (d->pieces[i] == 0)
            return pithi_fail_with(error, PITH_ERR_ARG, 0, "piece # has no elements",
                                   &(struct pithi_words){.number = {i}});
    uint8_t *const at = (uint8_t *)memory + (8 - (uintptr_t)memory % 8) % 8;
    d->cost = (double *)(void *)at;
    d->load = d->cost + d->count;
    d->piece_heap = (uint32_t *)(void *)(d->load + d->ranks);
    d->bin_heap = d->piece_heap + d->count;
    return PITH_OK;
}

static void share_k(void *job) {
    struct deft *const d = job;
    struct heap heap = heap_of(d->piece_heap, d->norms, d->count);
    double norm_left = 0, k_left = (double)d->k;
    /* Sums of at most 2^32 norms, and a norm times k, do not overflow where all norms are below
     * 2^900. Else all are scaled; what becomes subnormal has no share beside the largest. */
    const double scale = d->count > 0 && d->norms[heap.element[0]] >= 0x1p900 ? 0x1p-128 : 1;
    for (uint32_t i = 0; i < d->count; i++) norm_left += d->norms[i] * scale;
    while (heap.count > 0) {
        const uint32_t i = pop(&heap);
        const uint64_t size = d->pieces[i];
        const double norm = d->norms[i] * scale;
        const double share = norm_left > 0 ? k_left * norm / norm_left : 0;
        /* A size that rounds to 2^64 is not below such a share, which no uint64_t holds. */
        const bool all = (double)size < share || share >= 0x1p64;
        d->ks[i] = all ? size : share >= 1 ? (uint64_t)share : 1;
        if (d->ks[i] > size) d->ks[i] = size; /* past 2^53 the comparison rounds */
        k_left -= (double)d->ks[i];
        norm_left -= norm;
    }
}

pith_status pith_deft_counts(const uint64_t *pieces, const double *norms, uint32_t count,
                             uint64_t k, void *memory, size_t bytes, uint64_t *ks,
                             pith_error *error) {
    struct deft d = {.pieces = pieces, .count = count, .norms = norms, .k = k, .ks = ks};
    pithi_clear(error);
    if (count > 0 && (!norms || !ks)) return is_null(error);
    PITHI_TRY(open_deft(&d, memory, bytes, error));
    for (uint32_t i = 0; i < count; i++)
        if (pithi_bits64(norms[i]) >= 0x7FF0000000000000u && pithi_bits64(norms[i]) << 1 != 0)
            return pithi_fail_with(error, PITH_ERR_ARG, 0, "norm # is negative or not finite",
                                   &(struct pithi_words){.number = {i}});
    with_rounding(share_k, &d);
    return PITH_OK;
}

static void pack(void *job) {
    struct deft *const d = job;
    for (uint32_t i = 0; i < d->count; i++) {
        const double size = (double)d->pieces[i];
        d->cost[i] = d->ks[i] > 1 ? size * pithi_log2((double)d->ks[i]) : size;
        if (d->ks[i] == d->pieces[i]) d->cost[i] = 0;
    }
    for (uint32_t r = 0; r < d->ranks; r++) d->load[r] = 0;
    struct heap pieces = heap_of(d->piece_heap, d->cost, d->count);
    struct heap bins = heap_of(d->bin_heap, d->load, d->ranks);
    while (pieces.count > 0) {
        const uint32_t i = pop(&pieces), bin = bins.element[0];
        const bool common = d->ks[i] == d->pieces[i];
        d->bins[i] = common ? PITH_DEFT_COMMON : bin;
        if (common) continue;
        d->load[bin] -= d->cost[i];
        sift(&bins, 0);
    }
}

pith_status pith_deft_pack(const uint64_t *pieces, const uint64_t *ks, uint32_t count,
                           uint32_t ranks, void *memory, size_t bytes, uint32_t *bins,
                           pith_error *error) {
    struct deft d = {.pieces = pieces, .count = count, .ranks = ranks, .bins = bins};
    pithi_clear(error);
    if (count > 0 && (!ks || !bins)) return is_null(error);
    if (ranks == 0) return pithi_fail(error, PITH_ERR_ARG, "there are no ranks");
    d.ks = (uint64_t *)(uintptr_t)ks; /* pack reads them */
    PITHI_TRY(open_deft(&d, memory, bytes, error));
    for (uint32_t i = 0; i < count; i++)
        if (ks[i] == 0 || ks[i] > pieces[i])
            return pithi_fail_with(error, PITH_ERR_ARG, 0, "k of piece # is not 1 to #, but #",
                                   &(struct pithi_words){.number = {i, pieces[i], ks[i]}});
    with_rounding(pack, &d);
    return PITH_OK;
}

/* ---- Bytes of frames -------------------------------------------------------------------------*/

enum {
    FRAME_HEAD = PITHI_HEADER_BYTES + PITHI_SECTION_HEAD + PITHI_CHOSEN_BYTES,
    BLOCK_HEAD = 4, /* form, low bits and the count of elements */
    GROUP = 128,    /* values in 8 bits that share a scale of 4 bytes */
    SMALLEST_BLOCK = 64,
    DEFAULT_BLOCK = 4096, /* the smallest of those that follow from a density */
    LOG2_N_MAX = 56
};

struct frame_size {
    uint64_t n, block, blocks;
    uint32_t value_bits, index;
};

/* Returns the block that codec topk takes for a density: about 2048 of its elements are sent. */
static uint64_t default_block(uint64_t n, uint64_t k) {
    const uint64_t apart = k > 0 ? n / k + (n % k != 0) : n;
    uint64_t block = DEFAULT_BLOCK;
    while (block < 1u << PITHI_BLOCK_LOG2_MAX && block / 2048 < apart) block *= 2;
    return block;
}

/* Returns false for arguments that no frame has. */
static bool open_size(struct frame_size *f, uint64_t n, uint64_t k, uint32_t value_bits,
                      uint32_t index, uint64_t block) {
    if (block == 0) block = default_block(n, k);
    *f = (struct frame_size){n, block, n / block + (n % block != 0), value_bits, index};
    return n <= UINT64_C(1) << LOG2_N_MAX && k <= n && index <= PITH_SPARSE_FAST &&
           block >= SMALLEST_BLOCK && block <= 1u << PITHI_BLOCK_LOG2_MAX &&
           (block & (block - 1)) == 0 &&
           (value_bits == 32 || value_bits == 16 || value_bits == 8 || value_bits == 0);
}

static uint64_t value_bytes(uint32_t value_bits, uint64_t count) {
    const uint64_t scales = value_bits == 8 ? (count + GROUP - 1) / GROUP * 4 : 0;
    return count * (value_bits / 8) + scales;
}

static uint64_t head_bytes(const struct frame_size *f) {
    return FRAME_HEAD + pithi_pad16(4 * f->blocks) + BLOCK_HEAD * f->blocks;
}

/* Returns the most bytes of a block of so many elements without its head: with a map, or, where
 * that takes less, with all values. */
static uint64_t block_bytes(const struct frame_size *f, uint64_t count) {
    if (count == 0) return 0;
    const uint64_t map = (count + 7) / 8;
    const uint64_t all = value_bytes(f->value_bits, count) + (f->value_bits == 0 ? map : 0);
    const uint64_t most = map + value_bytes(f->value_bits, count - 1);
    return all > most ? all : most;
}

uint64_t pith_sparse_largest_bytes(uint64_t n, uint64_t k, uint32_t value_bits, uint64_t block) {
    struct frame_size f;
    if (!open_size(&f, n, k, value_bits, 0, block)) return 0;
    /* Indices of a block take no more than its map, nor than 4 bytes each and 8 more. In each
     * block the last group of values may be short. */
    const uint64_t index = pithi_min((n + 7) / 8 + f.blocks, 4 * k + 8 * f.blocks);
    const uint64_t scales = value_bits == 8 ? 4 * pithi_min(k, f.blocks) : 0;
    const uint64_t sum = n / f.block * block_bytes(&f, f.block) + block_bytes(&f, n % f.block);
    return head_bytes(&f) + pithi_min(sum, index + value_bytes(value_bits, k) + scales);
}

/* Returns the bytes of indices of k elements at random places, at most a bit for each of n. */
static double index_bytes(const struct frame_size *f, double k) {
    const double n = (double)f->n, map = n / 8;
    if (k == 0) return 0;
    if (2 * k >= n) return map;
    const double overhead = f->index == PITH_SPARSE_FAST ? 0.97 : 0.55;
    const double entropy = k * pithi_log2(n / k) + (n - k) * pithi_log2(n / (n - k));
    const double bytes = (entropy + overhead * k) / 8;
    return bytes < map ? bytes : map;
}

static double expected_bytes(const struct frame_size *f, uint64_t k) {
    const double values =
        (double)value_bytes(f->value_bits, k) + (f->value_bits == 8 ? 2 * (double)f->blocks : 0);
    const double sparse = index_bytes(f, (double)k) + values;
    const double dense = (double)value_bytes(f->value_bits, f->n);
    return (double)head_bytes(f) + (f->value_bits > 0 && dense < sparse ? dense : sparse);
}

struct expectation {
    struct frame_size size;
    uint64_t k;
    double bytes;
};

static void compute_expectation(void *job) {
    struct expectation *const e = job;
    e->bytes = expected_bytes(&e->size, e->k);
}

uint64_t pith_sparse_expected_bytes(uint64_t n, uint64_t k, uint32_t value_bits, uint32_t index,
                                    uint64_t block) {
    struct expectation e = {.k = k};
    if (!open_size(&e.size, n, k, value_bits, index, block)) return 0;
    with_rounding(compute_expectation, &e);
    const uint64_t most = pith_sparse_largest_bytes(n, k, value_bits, block);
    return e.bytes < (double)most ? (uint64_t)e.bytes : most;
}

/* ---- AdaTopK ---------------------------------------------------------------------------------*/

struct links {
    const pith_sparse_link *links;
    uint32_t count, value_bits, index;
    double ratio, seconds;
    uint64_t *ks;
};

static bool is_positive(double x) { return pithi_bits64(x) - 1 < 0x7FF0000000000000u - 1; }

/* Returns how long k elements of a link's n take. */
static double seconds_of(const struct links *l, const pith_sparse_link *link, uint64_t k) {
    struct frame_size f;
    open_size(&f, link->n, k, l->value_bits, l->index, 0);
    return expected_bytes(&f, k) / link->bytes_per_second;
}

static void slowest(void *job) {
    struct links *const l = job;
    for (uint32_t i = 0; i < l->count; i++) {
        const double seconds = seconds_of(l, &l->links[i], l->links[i].n) / l->ratio;
        if (seconds > l->seconds) l->seconds = seconds;
    }
}

static pith_status check_links(const struct links *l, double x, pith_error *error) {
    struct frame_size f;
    if (l->count > 0 && !l->links) return is_null(error);
    for (uint32_t i = 0; i < l->count; i++)
        if (!open_size(&f, l->links[i].n, 0, l->value_bits, l->index, 0) ||
            !is_positive(l->links[i].bytes_per_second))
            return pithi_fail_with(error, PITH_ERR_ARG, 0, "link # has no such speed or frames",
                                   &(struct pithi_words){.number = {i}});
    if (is_positive(x)) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG, "seconds and ratio are finite and above 0");
}

double pith_sparse_link_seconds(const pith_sparse_link *links, uint32_t count, uint32_t value_bits,
                                double ratio) {
    struct links l = {.links = links, .count = count, .value_bits = value_bits, .ratio = ratio};
    if (check_links(&l, ratio, NULL) != PITH_OK) return (double)pithi_float(PITHI_F32_NAN);
    with_rounding(slowest, &l);
    return l.seconds;
}

static void share_time(void *job) {
    struct links *const l = job;
    for (uint32_t i = 0; i < l->count; i++) {
        const pith_sparse_link *const link = &l->links[i];
        uint64_t low = 1, high = link->n;
        /* low is the answer or below it; high + 1 takes too long, or is past n. */
        while (low < high) {
            const uint64_t middle = high - (high - low) / 2;
            if (seconds_of(l, link, middle) <= l->seconds)
                low = middle;
            else
                high = middle - 1;
        }
        l->ks[i] = pithi_min(low, link->n);
    }
}

pith_status pith_sparse_link_counts(const pith_sparse_link *links, uint32_t count,
                                    uint32_t value_bits, uint32_t index, double seconds,
                                    uint64_t *ks, pith_error *error) {
    struct links l = {.links = links,
                      .count = count,
                      .value_bits = value_bits,
                      .index = index,
                      .seconds = seconds,
                      .ks = ks};
    pithi_clear(error);
    if (count > 0 && !ks) return is_null(error);
    PITHI_TRY(check_links(&l, seconds, error));
    with_rounding(share_time, &l);
    return PITH_OK;
}
