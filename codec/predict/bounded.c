/* bounded.c - the bound of a frame: from what was requested and from the values.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/bounded.h"

#include <float.h>

#include "block_io.h"
#include "common/convert.h"
#include "common/decimal.h"
#include "common/endian.h"
#include "common/roots.h"
#include "cpu.h"
#include "error.h"
#include "predict/bound_value.h"
#include "predict/schedule.h"
#include "stream.h"

/* ---- What is requested ------------------------------------------------------------------------*/

struct pithi_bound_setting pithi_bound_setting_of(const struct pithi_params *p) {
    struct pithi_bound_setting s = p->codec->own.bounded->setting(p);
    s.target = PITHI_TARGETS;
    for (uint32_t i = 0; i < p->codec->key_count; i++) {
        const struct pithi_key *const key = &p->codec->keys[i];
        if (key->kind != PITHI_KEY_REAL || key->wire < 0 || !p->value[i]) continue;
        s.target = s.target == PITHI_TARGETS ? key->min - 1 : PITHI_TARGETS;
        s.value = p->value[i];
        if (s.target == PITHI_TARGETS) break;
    }
    return s;
}

double pithi_bound_setting_value(const struct pithi_bound_setting *s) {
    return s->target == PITHI_TARGETS ? 0 : pithi_decimal_floor(s->value);
}

bool pithi_bound_describe(const struct pithi_params *p, struct pithi_device *d) {
    const struct pithi_bound_setting s = pithi_bound_setting_of(p);
    d->requested = (struct pithi_requested){.target = s.target,
                                            .signed_zeros = s.signed_zeros,
                                            .request = pithi_bound_setting_value(&s),
                                            .range = s.range ? pithi_decimal_floor(s.range) : 0};
    return s.target <= PITHI_TARGET_PWREL;
}

bool pithi_bounded_fixed(const struct pithi_params *p) {
    (void)p;
    return false;
}

uint64_t pithi_bounded_block_bytes(const struct pithi_params *p, uint64_t count) {
    return count * pithi_dtype_bytes(p->dtype);
}

pith_status pithi_bounded_check(const struct pithi_params *p, const char **detail) {
    const struct pithi_bound_setting s = pithi_bound_setting_of(p);
    *detail = "abs, rel, pwrel, psnr and nmse exclude each other";
    if (s.target == PITHI_TARGETS) return PITH_ERR_SPEC;
    *detail = "pwrel is below 1";
    if (s.target == PITHI_TARGET_PWREL && !(pithi_bound_setting_value(&s) < 1))
        return PITH_ERR_SPEC;
    *detail = "range goes with rel or psnr";
    if (s.range && s.target != PITHI_TARGET_REL && s.target != PITHI_TARGET_PSNR)
        return PITH_ERR_SPEC;
    return PITH_OK;
}

/* A plan keeps what is requested as doubles: the exact conversion of decimals takes a while. */
enum { KEPT_TARGET, KEPT_VALUE, KEPT_RANGE, KEPT_DECAY, KEPT_START, KEPT_STEPS };

static void keep(const struct pithi_params *p, double kept[PITHI_KEPT]) {
    const struct pithi_bound_setting s = pithi_bound_setting_of(p);
    kept[KEPT_TARGET] = s.target;
    kept[KEPT_VALUE] = pithi_bound_setting_value(&s);
    kept[KEPT_RANGE] = s.range ? pithi_decimal_floor(s.range) : 0;
    kept[KEPT_DECAY] = s.decay;
    kept[KEPT_START] = s.decay ? pithi_decimal_floor(s.start) : 1;
    kept[KEPT_STEPS] = s.steps;
}

/* ---- A look at all values --------------------------------------------------------------------*/

struct look {
    const struct pithi_coding *c;
    uint64_t unit, jobs; /* elements per job; 0: jobs are blocks, whose error is measured */
    bool squares;
};

static pith_status range_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct look *l = arg;
    /* Jobs go from the end, so that what encoding begins with is still in caches; but sums have an
     * order. */
    const uint64_t first = (l->squares ? block : l->jobs - 1 - block) * l->unit,
                   left = l->c->frame.count - first;
    const uint64_t n = left < l->unit ? left : l->unit;
    pithi_range_measure(&w->own.range, pithi_span_read(l->c->view, first, n, w->values),
                        l->c->frame.params.dtype, (size_t)n, l->squares,
                        l->c->plan->kernels.extremes);
    return PITH_OK;
}

static pith_status error_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *c = ((const struct look *)arg)->c;
    const uint32_t dtype = c->frame.params.dtype;
    const uint64_t exact = w->exact, nonzero = w->nonzero;
    PITHI_TRY(pithi_decode_one(c, block, w->floats, dtype, NULL, w)); /* this may use w->values */
    const void *values = pithi_block_load(&c->frame, block, c->view, w->values);
    w->exact = exact, w->nonzero = nonzero; /* encoding has counted them already */
    w->own.range = (struct pithi_range){
        .squares = pithi_range_error(values, w->floats, dtype,
                                     (size_t)pithi_block_count(&c->frame, block))};
    return PITH_OK;
}

/* Runs as many jobs as workers at a time, so that sums are formed in one order. */
static pith_status look(const struct look *l, uint64_t jobs, pithi_block_fn *job,
                        struct pithi_range *total) {
    pith_work *const work = l->c->work;
    *total = pithi_range_none();
    for (uint64_t at = 0; at < jobs;) {
        const uint64_t left = jobs - at, wave = left < work->workers ? left : work->workers;
        PITHI_TRY(pithi_parallel_for(work, at, wave, job, (void *)(uintptr_t)l));
        for (uint64_t i = 0; i < wave; i++) pithi_range_add(total, &work->worker[i].own.range);
        at += wave;
    }
    return PITH_OK;
}

static pith_status range(const struct pithi_coding *c, bool squares, struct pithi_range *s) {
    const uint64_t unit = c->plan->params.most, count = c->frame.count;
    *s = pithi_range_none();
    if (!unit) return PITH_OK; /* the slot has no elements */
    const struct look l = {c, unit, count / unit + (count % unit != 0), squares};
    return look(&l, l.jobs, range_job, s);
}

/* ---- Bounds ----------------------------------------------------------------------------------*/

static double range_of(const pith_plan *p, const struct pithi_range *s) {
    return p->kept[KEPT_RANGE] > 0 ? p->kept[KEPT_RANGE] : pithi_range_of(s->low, s->high);
}

/* Returns the sum of squared errors that psnr or nmse allow. */
static double allowed(const pith_plan *p, uint32_t target, double request,
                      const struct pithi_range *s) {
    if (target == PITHI_TARGET_NMSE)
        return pithi_below(request * (s->squares < DBL_MAX ? s->squares : DBL_MAX));
    const double range = range_of(p, s);
    return pithi_below(range * pithi_exp10(-request / 10) * (1 - 1e-12) * range) *
           (double)s->finite;
}

/* Encodes for a mean error. An error spread evenly over [-E, E] has a mean square of E^2 / 3; it is
 * never above E^2. */
static pith_status encode_for_mean(struct pithi_coding *c, double sum, uint64_t finite,
                                   uint64_t capacity, uint64_t *used) {
    const double most = DBL_MAX / 4; /* squares of doubles may have overflowed */
    sum = sum >= most ? most : sum > 0 ? sum : 0;
    const double mean = sum / (double)(finite ? finite : 1);
    const double least = pithi_root(mean) * (1 - 1e-12);
    double request = pithi_root(3 * mean);
    const struct look l = {.c = c};
    for (;;) {
        struct pithi_range error;
        c->frame.own.bound = pithi_bound_absolute(c->frame.params.dtype, request);
        PITHI_TRY(pithi_encode_waves(c, capacity, used));
        c->frame.payload_bytes = *used;
        PITHI_TRY(pithi_find_blocks(c));
        PITHI_TRY(look(&l, c->frame.payload.blocks, error_job, &error));
        if (request <= least || error.squares * (1 + 1e-6) <= sum) return PITH_OK;
        const double share = pithi_root(sum / error.squares) * 0.98;
        request *= share < 0.95 ? share : 0.95;
        if (request < least) request = least;
    }
}

/* Returns what the requested bound is multiplied by. */
static double factor_of(const struct pithi_coding *c) {
    const double own = c->own.request.factor > 0 ? c->own.request.factor : 1;
    const double *const kept = c->plan->kept;
    return own * pithi_schedule_factor((enum pithi_decay)kept[KEPT_DECAY], kept[KEPT_START],
                                       (uint32_t)kept[KEPT_STEPS], c->own.request.step);
}

static pith_status encode_bounded(struct pithi_coding *c, uint64_t capacity, uint64_t *used) {
    const struct pithi_params *q = &c->frame.params;
    const bool own = c->own.request.bound > 0;
    const uint32_t t = own ? PITHI_TARGET_ABS : (uint32_t)c->plan->kept[KEPT_TARGET];
    const double number = own ? c->own.request.bound : c->plan->kept[KEPT_VALUE],
                 factor = factor_of(c);
    const double request = factor == 1 ? number : pithi_below(number * factor);
    struct pithi_range s = pithi_range_none();
    const bool mean = t == PITHI_TARGET_PSNR || t == PITHI_TARGET_NMSE;
    if (mean || t == PITHI_TARGET_PWREL ||
        (t == PITHI_TARGET_REL && c->plan->kept[KEPT_RANGE] == 0))
        PITHI_TRY(range(c, mean, &s));
    if (mean)
        return encode_for_mean(c, allowed(c->plan, t, number, &s) * factor * factor, s.finite,
                               capacity, used);
    if (t == PITHI_TARGET_PWREL)
        c->frame.own.bound = pithi_bound_relative(request < 1 ? request : 1 - 0x1p-53,
                                                  pithi_largest_of(s.low, s.high));
    else if (t == PITHI_TARGET_ABS)
        c->frame.own.bound = pithi_bound_absolute(q->dtype, request);
    else
        c->frame.own.bound =
            pithi_bound_share(q->dtype, request, c->plan->kept[KEPT_RANGE], s.low, s.high);
    return pithi_encode_waves(c, capacity, used);
}

/* Memory for a block that is decoded again, in the values' own dtype. */
static uint64_t scratch_bytes(const struct pithi_params *p, uint64_t count) {
    return count * pith_dtype_bytes(p->dtype);
}

/* ---- The section of frames -------------------------------------------------------------------*/

static void write_section(const struct pithi_frame *f, uint8_t *body) {
    pithi_put32(body + PITHI_BOUND_KIND, f->own.bound.kind);
    pithi_put64(body + PITHI_BOUND_VALUE, pithi_bits64(f->own.bound.value));
    pithi_put64(body + PITHI_BOUND_LARGEST, pithi_bits64(f->own.bound.largest));
}

/* Calls pithi_bound_legal on a host that may flush subnormals. The call is through a pointer, so
 * that no operation leaves the place between the other two. */
static bool possible(uint32_t dtype, const struct pithi_bound *bound) {
    bool (*volatile const legal)(uint32_t, const struct pithi_bound *) = pithi_bound_legal;
    const uint64_t before = pithi_fp_enter();
    const bool yes = legal(dtype, bound);
    pithi_fp_leave(before);
    return yes;
}

/* Reads a bound that a frame of this dtype may have. */
static const char *read_section(const uint8_t *body, struct pithi_frame *f) {
    if (pithi_get32(body + PITHI_BOUND_KIND + 4)) return "bad bound section";
    f->own.bound = (struct pithi_bound){pithi_get32(body + PITHI_BOUND_KIND),
                                        pithi_double(pithi_get64(body + PITHI_BOUND_VALUE)),
                                        pithi_double(pithi_get64(body + PITHI_BOUND_LARGEST))};
    return possible(f->params.dtype, &f->own.bound) ? NULL : "an impossible bound";
}

static void inspect(const struct pithi_frame *f, pith_info *info) {
    const struct pithi_bound *const bound = &f->own.bound;
    info->bound = bound->largest;
    info->relative_bound = bound->kind == PITHI_BOUND_RELATIVE ? bound->value : 0;
}

static double largest_bound(const struct pithi_frame *f) { return f->own.bound.largest; }

/* ---- Slots of streams ------------------------------------------------------------------------*/

static void begin(const struct pithi_slot_state *slot, struct pithi_coding *c) {
    c->own.request =
        (struct pithi_request){.bound = slot->own.bounded.bound > 0 ? slot->own.bounded.bound : 0,
                               .factor = slot->own.bounded.bound < 0 ? -slot->own.bounded.bound : 1,
                               .step = slot->step};
}

static void end(const struct pithi_coding *c, struct pithi_slot_state *slot) {
    slot->exact += c->exact;
    slot->nonzero += c->nonzero;
    slot->own.bounded.last_nonzero = c->nonzero;
    slot->own.bounded.counted = c->frame.count;
}

enum { SAVED_NONZERO = 0, SAVED_COUNTED = 8, SAVED_BYTES = 16 };

static uint64_t save(const struct pithi_slot_state *slot, uint8_t *bytes) {
    pithi_put64(bytes + SAVED_NONZERO, slot->own.bounded.last_nonzero);
    pithi_put64(bytes + SAVED_COUNTED, slot->own.bounded.counted);
    return pithi_bits64(slot->own.bounded.bound);
}

static void load(struct pithi_slot_state *slot, uint64_t word, const uint8_t *bytes) {
    slot->own.bounded.bound = pithi_double(word);
    slot->own.bounded.last_nonzero = pithi_get64(bytes + SAVED_NONZERO);
    slot->own.bounded.counted = pithi_get64(bytes + SAVED_COUNTED);
}

/* Whether a bound or a factor is finite, and what was found nonzero is not more than was
 * counted. */
static bool legal(uint64_t word, const uint8_t *bytes) {
    return (word & PITHI_F64_INF) != PITHI_F64_INF &&
           pithi_get64(bytes + SAVED_NONZERO) <= pithi_get64(bytes + SAVED_COUNTED);
}

const struct pithi_frame_hooks pithi_bounded_frame_hooks = {
    .keep = keep,
    .scratch_bytes = scratch_bytes,
    .encode = encode_bounded,
    .section = PITHI_BOUND_SECTION,
    .section_bytes = PITHI_BOUND_BYTES,
    .write_section = write_section,
    .read_section = read_section,
    .inspect = inspect,
    .bound = largest_bound,
    .begin = begin,
    .end = end,
    .saved_bytes = SAVED_BYTES,
    .save = save,
    .load = load,
    .legal = legal,
};

/* ---- Blocks that coding does not shorten -----------------------------------------------------*/

static size_t plain_bytes(const struct pithi_block *b) {
    return b->count * pith_dtype_bytes(b->params->dtype);
}

void pithi_plain_put(struct pithi_block *b) {
    b->plain = true;
    b->length = plain_bytes(b);
    b->exact = b->count;
    memcpy(b->bytes, pithi_block_values(b), b->length);
}

const char *pithi_plain_take(struct pithi_block *b) {
    b->exact = b->count;
    if (b->length != plain_bytes(b)) return "a plain block of a wrong length";
    pithi_block_put(b, 0, b->count, b->bytes);
    return NULL;
}
