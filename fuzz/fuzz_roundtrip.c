/* fuzz_roundtrip.c - any settings, layout and values: what is decoded is what was promised.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "fuzz_numbers.h"

enum { PARAMETER_BYTES = 96, STEPS_MAX = 3 };

struct trip {
    struct fuzz_layout layout;
    struct fuzz_env env;
    const pith_plan *plan;
    pith_sizes sizes;
    struct fuzz_end sender, receiver;
    struct fuzz_tensor value;
    uint8_t *frame; /* that is looked at */
    bool based;
    bool together;      /* all slots of a step in one call */
    float *residual[2]; /* of all slots, before and after an encode; NULL without error feedback */
    bool huge;          /* values of any step were so large that sums of them overflow */
};

static bool has_feedback(const struct trip *t) {
    return strstr(t->layout.spec, "ef=full") || strstr(t->layout.spec, "ef=ema");
}

static bool is_sparse(const struct trip *t) { return t->layout.traits & PITH_TRAIT_SPARSE; }

/* Out of the saved stream: FORMAT.md, Saved streams; where it is not rotated, by the call. */
static void get_residual(struct trip *t, int which) {
    size_t written;
    const size_t bytes = (size_t)t->sizes.save_bytes;
    if (!t->residual[0]) return;
    if (is_sparse(t)) {
        const pith_view all = pith_view_flat(t->residual[which], PITH_F32, t->layout.count);
        FUZZ_CHECK(pith_stream_get_residual(t->sender.work, t->sender.stream, 0, &all) == PITH_OK);
        return;
    }
    uint8_t *saved = guard_new(bytes);
    FUZZ_CHECK(pith_stream_save(t->sender.work, t->sender.stream, saved, bytes, &written) ==
               PITH_OK);
    memcpy(t->residual[which], saved + 72 + 16 * t->sizes.slots, (size_t)t->layout.count * 4);
    guard_free(saved, bytes);
}

static void get_base(struct trip *t, uint64_t slot, uint64_t count, struct fuzz_tensor *out) {
    struct fuzz_source none = {NULL, 0};
    fuzz_tensor_new(out, &none, true, t->layout.layout.base_dtype, 1, &count);
    FUZZ_CHECK(pith_stream_get_base(t->sender.work, t->sender.stream, slot, &out->view) == PITH_OK);
}

/* ---- What was promised -----------------------------------------------------------------------*/

static void check_exact(const struct trip *t, const struct fuzz_tensor *out, uint64_t first) {
    const size_t element = pith_dtype_bytes(t->layout.layout.dtype);
    for (uint64_t i = 0; i < out->count; i++)
        FUZZ_CHECK(memcmp(fuzz_at(out, i), fuzz_at(&t->value, first + i), element) == 0);
}

static double real(const uint8_t *at, uint32_t dtype) {
    double value;
    if (dtype != PITH_F64) return (double)fuzz_number(at, dtype);
    memcpy(&value, at, sizeof value);
    return value;
}

/* One frame with a bound: every finite value keeps it, others and, where the spec says so, zeros
 * are what they were. Rounding a difference never takes it across a bound. */
static void check_bounded(const struct trip *t, const struct fuzz_tensor *out, uint64_t first,
                          const pith_info *info) {
    const uint32_t dtype = t->layout.layout.dtype;
    const bool is_signed = strstr(t->layout.spec, "zeros=signed") != NULL;
    const bool relative = info->relative_bound > 0, act = strncmp(t->layout.spec, "act", 3) == 0;
    for (uint64_t i = 0; i < out->count; i++) {
        const uint8_t *const was = fuzz_at(&t->value, first + i), *const is = fuzz_at(out, i);
        const double x = real(was, dtype), y = real(is, dtype);
        const bool same = memcmp(was, is, pith_dtype_bytes(dtype)) == 0;
        FUZZ_CHECK(isfinite(x) ? !!isfinite(y) : same);
        if (!isfinite(x)) continue;
        FUZZ_CHECK(!(fabs(x - y) > info->bound));
        FUZZ_CHECK(!relative || !(fabs(x - y) > info->relative_bound * fabs(x)));
        if (x == 0 && (act || relative)) FUZZ_CHECK(y == 0);
        if (x == 0 && signbit(x) && is_signed) FUZZ_CHECK(same);
    }
}

/* One frame of wdiff, or of a codec without groups: each value is one. old: base before; out: f32,
 * what the receiver got. */
static void check_groups(const struct trip *t, const struct fuzz_tensor *old,
                         const struct fuzz_tensor *out, uint64_t first, double bound) {
    const struct fuzz_layout *l = &t->layout;
    const uint32_t base_dtype = old ? old->view.dtype : PITH_NONE;
    const uint64_t group = fuzz_spec_has(l->spec, "group") ? fuzz_spec_number(l->spec, "group") : 1;
    bool poisoned = false;
    for (uint64_t at = 0; at < out->count; at += group) {
        const uint64_t end = at + group < out->count ? at + group : out->count;
        bool poison = false;
        for (uint64_t i = at; i < end; i++) {
            const float b = old ? fuzz_base_number(fuzz_at(old, i), base_dtype) : 0;
            poison |= !isfinite(fuzz_number(fuzz_at(&t->value, first + i), l->layout.dtype) - b);
        }
        poisoned |= poison;
        for (uint64_t i = at; i < end; i++) {
            const float b = old ? fuzz_base_number(fuzz_at(old, i), base_dtype) : 0;
            const float w = fuzz_number(fuzz_at(&t->value, first + i), l->layout.dtype);
            const float got = fuzz_number(fuzz_at(out, i), PITH_F32);
            FUZZ_CHECK(poison == !!isnan(got));
            if (poison || isnan(bound)) continue;
            FUZZ_CHECK(fuzz_within(w - b, b, got, base_dtype, bound));
        }
    }
    FUZZ_CHECK(poisoned == !!isnan(bound));
}

/* ---- kv: groups of many shapes ---------------------------------------------------------------*/

/* A frame of kv: rows of heads * dim elements, and what of them decodes by itself, a unit: a group,
 * or with a rotation the groups of a head. */
enum { UNITS = 100 };
struct pages {
    const struct trip *t;
    const struct fuzz_tensor *old, *out;
    uint64_t first; /* the frame's, of the tensor's elements */
    uint64_t sequences, tokens, heads, dim;
    uint64_t group;
    uint64_t units, every; /* units met, of which one in so many is coded alone */
    bool channel, rotated, outliers;
    double bound; /* the largest of the units'; NaN when one has none */
};

/* Elements [column, column + columns) of `rows` tokens. */
struct unit {
    uint64_t at, rows, columns; /* at: its first element in the frame */
};

static void pages_open(struct pages *p, size_t length) {
    pith_info info = {.size = sizeof info};
    char canon[PITH_SPEC_MAX];
    FUZZ_CHECK(pith_inspect(p->t->frame, length, &info, NULL) == PITH_OK);
    FUZZ_CHECK(pith_spec_check(p->t->layout.spec, canon, sizeof canon, NULL) == PITH_OK);
    uint32_t d = info.ndim;
    p->sequences = p->tokens = p->heads = p->dim = 1;
    if (d) p->dim = info.shape[--d];
    if (d > 1 && !strstr(canon, "order=heads")) p->heads = info.shape[--d];
    if (d) p->tokens = info.shape[--d];
    while (d) p->sequences *= info.shape[--d];
    p->group = fuzz_spec_number(canon, "group");
    p->channel = strstr(canon, "axis=channel") != NULL;
    p->rotated = strstr(canon, "rotate_heads=on") != NULL;
    p->outliers = strstr(canon, "outliers=") != NULL;
    const uint64_t along = p->channel && p->tokens < p->group ? p->tokens : p->group;
    const uint64_t across = p->dim < p->group ? p->dim : p->group;
    p->every = 1 + p->out->count / (p->channel ? along : across) / UNITS;
}

/* What is coded: values, or in f32 what they differ by from a base. */
static uint32_t coded_dtype(const struct pages *p) {
    return p->old ? (uint32_t)PITH_F32 : p->t->layout.layout.dtype;
}

static uint64_t element_of(const struct pages *p, const struct unit *u, uint64_t i) {
    return u->at + i / u->columns * p->heads * p->dim + i % u->columns;
}

static float base_of(const struct pages *p, uint64_t element) {
    return p->old ? fuzz_base_number(fuzz_at(p->old, element), p->old->view.dtype) : 0;
}

static float value_of(const struct pages *p, uint64_t element) {
    return fuzz_number(fuzz_at(&p->t->value, p->first + element), p->t->layout.layout.dtype);
}

/* The unit in memory of its own; returns the sum of magnitudes. */
static double take_unit(const struct pages *p, const struct unit *u, uint8_t *to) {
    const size_t width = pith_dtype_bytes(coded_dtype(p));
    double sum = 0;
    for (uint64_t i = 0; i < u->rows * u->columns; i++) {
        const uint64_t e = element_of(p, u, i);
        const float difference = value_of(p, e) - base_of(p, e);
        sum += fabs((double)difference);
        if (p->old)
            memcpy(to + i * width, &difference, width);
        else
            memcpy(to + i * width, fuzz_at(&p->t->value, p->first + e), width);
    }
    return sum;
}

/* Coded alone it decodes to `back`, f32, and has its own bound. */
static double code_alone(const struct pages *p, const struct unit *u, const void *values,
                         float *back) {
    const uint64_t shape[2] = {u->rows, u->columns};
    const pith_view in = pith_view_dense(values, coded_dtype(p), 2, shape);
    const pith_view out = pith_view_dense(back, PITH_F32, 2, shape);
    const size_t cap = (size_t)(u->rows * u->columns) * 16 + 4096;
    uint8_t *frame = guard_new(cap);
    size_t length;
    double bound;
    FUZZ_CHECK(pith_compress(p->t->layout.spec, &in, NULL, NULL, NULL, frame, cap, &length, NULL) ==
               PITH_OK);
    FUZZ_CHECK(pith_error_bound(frame, length, &bound, NULL) == PITH_OK);
    FUZZ_CHECK(pith_decompress(frame, length, NULL, NULL, &out, NULL) == PITH_OK);
    guard_free(frame, cap);
    return bound;
}

/* A unit is poisoned as a whole, but for outliers, by a value that is not finite or by sums that
 * are beyond what a scale of f16 holds. */
static void check_unit(struct pages *p, const struct unit *u) {
    const uint64_t count = u->rows * u->columns;
    const size_t bytes = (size_t)count * pith_dtype_bytes(coded_dtype(p));
    uint8_t *values = guard_new(bytes);
    float *back = guard_new((size_t)count * sizeof *back);
    const double sum = take_unit(p, u, values), bound = code_alone(p, u, values, back);
    FUZZ_CHECK(p->outliers || isfinite(sum) || isnan(bound));
    FUZZ_CHECK(!isnan(bound) || !(sum < 60000));
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t e = element_of(p, u, i);
        const float b = base_of(p, e), difference = value_of(p, e) - b;
        const float got = fuzz_number(fuzz_at(p->out, e), PITH_F32);
        if (!p->old) FUZZ_CHECK(memcmp(&got, &back[i], sizeof got) == 0);
        if (isnan(bound))
            FUZZ_CHECK(p->outliers || isnan(got));
        else if (isfinite(difference))
            FUZZ_CHECK(
                fuzz_within(difference, b, got, p->old ? p->old->view.dtype : PITH_NONE, bound));
    }
    if (isnan(bound) || bound > p->bound) p->bound = bound;
    guard_free(values, bytes);
    guard_free(back, (size_t)count * sizeof *back);
}

/* The tokens of one head that have groups in common. */
static void check_head(struct pages *p, uint64_t token, uint64_t rows, uint64_t head) {
    const uint64_t step = p->rotated ? p->dim : p->channel ? 1 : p->group;
    for (uint64_t d = 0; d < p->dim; d += step) {
        struct unit u = {(token * p->heads + head) * p->dim + d, rows, step};
        if (u.columns > p->dim - d) u.columns = p->dim - d;
        /* A group cut short has as many outliers as a whole one, and alone fewer. */
        const bool whole = u.columns == step || u.columns == p->dim;
        if (p->units++ % p->every == 0 && (whole || p->channel || !p->outliers)) check_unit(p, &u);
    }
}

/* One frame of kv, group by group. */
static void check_pages(const struct trip *t, const struct fuzz_tensor *old,
                        const struct fuzz_tensor *out, uint64_t first, size_t length,
                        double bound) {
    struct pages p = {.t = t, .old = old, .out = out, .first = first};
    if (out->count == 0) return;
    pages_open(&p, length);
    for (uint64_t s = 0; s < p.sequences; s++)
        for (uint64_t at = 0, n; at < p.tokens; at += n) {
            n = p.channel ? p.group : 1;
            if (n > p.tokens - at) n = p.tokens - at;
            for (uint64_t h = 0; h < p.heads; h++) check_head(&p, s * p.tokens + at, n, h);
        }
    const bool all = p.every == 1 && !p.outliers;
    if (isnan(bound) || isnan(p.bound))
        FUZZ_CHECK(isnan(bound) && (isnan(p.bound) || !all));
    else
        FUZZ_CHECK(all ? p.bound == bound : p.bound <= bound);
}

/* ---- grad: rotated, with elements that go around, and with error feedback --------------------*/

static uint64_t how_exempt(const struct trip *t, uint64_t element) {
    const pith_layout *l = &t->layout.layout;
    for (size_t i = 0; i < l->exempt_count; i++) {
        const pith_exempt *e = &l->exempt[i];
        if (element >= e->first && element - e->first < e->count) return e->how;
    }
    return 0;
}

/* Round to nearest even at 16 bits, as f32. */
static float as_bf16(float value) {
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    if (!isnan(value)) u = (u + 0x7FFF + (u >> 16 & 1)) & 0xFFFF0000u;
    memcpy(&value, &u, sizeof value);
    return value;
}

/* Whether an infinite exempt value takes the bound away. */
static bool check_exempt(const struct trip *t, float value, float got, uint64_t how) {
    const bool narrow = how == PITH_EXEMPT_16 && t->layout.layout.dtype == PITH_F32;
    const float want = narrow ? as_bf16(value) : value;
    FUZZ_CHECK(isnan(want) ? !!isnan(got) : memcmp(&want, &got, sizeof got) == 0);
    return narrow && isinf(want);
}

static float largest_residual(const struct trip *t, uint64_t first, uint64_t count, int which) {
    float most = 0;
    for (uint64_t i = 0; t->residual[0] && i < count; i++)
        most = fmaxf(most, fabsf(t->residual[which][first + i]));
    return most;
}

/* What was lost is within the bound, faded into what was lost before. */
static void check_residual(const struct trip *t, uint64_t first, uint64_t count, double bound) {
    const char *ema = strstr(t->layout.spec, "ef=ema:0.");
    const double decay = ema ? (double)strtoul(ema + 9, NULL, 10) / 1000 : 0;
    for (uint64_t i = 0; t->residual[0] && i < count; i++) {
        const double before = fabs((double)t->residual[0][first + i]),
                     after = fabs((double)t->residual[1][first + i]);
        FUZZ_CHECK(isfinite(after));
        if (isnan(bound)) continue;
        FUZZ_CHECK(after <= (decay * before + (1 - decay) * bound) * (1 + 0x1p-20) + 0x1p-140 ||
                   after == before);
    }
}

/* One frame; a group is poisoned by its values, or by sums of huge ones. */
static void check_rotated(struct trip *t, const struct fuzz_tensor *out, uint64_t first,
                          double bound) {
    const struct fuzz_layout *l = &t->layout;
    const uint64_t group = fuzz_spec_number(l->spec, "group");
    const double lost = (double)largest_residual(t, first, out->count, 0);
    const double most = lost > 0 ? (bound + lost) * (1 + 0x1p-8) : bound;
    bool poisoned = false, boundless = false;
    for (uint64_t i = 0; i < out->count; i++) {
        const float w = fuzz_number(fuzz_at(&t->value, first + i), l->layout.dtype);
        if (isfinite(w) && !how_exempt(t, first + i)) t->huge |= fabsf(w) >= 0x1p110f;
    }
    for (uint64_t at = 0; at < out->count; at += group) {
        const uint64_t end = at + group < out->count ? at + group : out->count;
        bool bad = false, nan = false;
        for (uint64_t i = at; i < end; i++) {
            const uint64_t how = how_exempt(t, first + i);
            const float w = fuzz_number(fuzz_at(&t->value, first + i), l->layout.dtype);
            const float got = fuzz_number(fuzz_at(out, i), PITH_F32);
            if (how) {
                boundless |= check_exempt(t, w, got, how);
                continue;
            }
            bad |= !isfinite(w);
            nan |= isnan(got);
            FUZZ_CHECK(!isinf(got));
            if (isnan(bound) || isnan(got)) continue;
            FUZZ_CHECK(fabs((double)got - (double)w) <= most);
        }
        for (uint64_t i = at; i < end; i++)
            if (!how_exempt(t, first + i))
                FUZZ_CHECK(nan == !!isnan(fuzz_number(fuzz_at(out, i), PITH_F32)));
        FUZZ_CHECK(nan == bad || (nan && t->huge));
        poisoned |= nan;
    }
    FUZZ_CHECK((poisoned || boundless) == !!isnan(bound) || (isnan(bound) && t->huge));
    check_residual(t, first, out->count, bound);
}

/* ---- topk: elements that are sent, and error feedback ----------------------------------------*/

static bool same_float(float a, float b) { return a == b || (isnan(a) && isnan(b)); }

/* One frame: an element decodes to 0 or to what is sent of it, within the bound; the residual keeps
 * what that lost. */
static void check_sparse(const struct trip *t, const struct fuzz_tensor *out, uint64_t first,
                         double bound) {
    const char *const spec = t->layout.spec, *const ema = strstr(spec, "ef=ema:0.");
    const float kept = ema ? (float)strtoul(ema + 9, NULL, 10) : 0;
    const bool whole = !strstr(spec, "values=") || strstr(spec, "values=f32");
    const bool call = strstr(spec, "clear=call") != NULL;
    const bool transform = strstr(spec, "transform=dct") || strstr(spec, "transform=hadamard");
    if (strstr(spec, "momentum=")) return;   /* what is sent is not of this step alone */
    if (transform && t->residual[0]) return; /* the bound is of coefficients with the residual's */
    for (uint64_t i = 0; i < out->count; i++) {
        const float w = fuzz_number(fuzz_at(&t->value, first + i), t->layout.layout.dtype);
        const float before = t->residual[0] ? t->residual[0][first + i] : 0;
        const float x = t->residual[0] ? before + w : w;
        const float got = fuzz_number(fuzz_at(out, i), PITH_F32);
        if (whole && !transform) FUZZ_CHECK(got == 0 || same_float(got, x));
        if (strstr(spec, "values=none") && !transform) FUZZ_CHECK(got == 0 || got == 1);
        if (isfinite(x) && !isnan(bound)) FUZZ_CHECK(fabs((double)x - (double)got) <= bound);
        if (!t->residual[0]) continue;
        const float lost = call ? x : x - got;
        const float next = ema ? kept / 1000.0f * before + (1000 - kept) / 1000.0f * lost : lost;
        FUZZ_CHECK(t->residual[1][first + i] == (isfinite(next) ? next : before));
    }
}

static void check_frame(struct trip *t, uint64_t slot, size_t length, bool key) {
    pith_info info = {.size = sizeof info};
    const struct fuzz_layout *l = &t->layout;
    FUZZ_CHECK(pith_inspect(t->frame, length, &info, NULL) == PITH_OK);
    FUZZ_CHECK(info.frame_bytes == length && info.dtype == l->layout.dtype);
    FUZZ_CHECK(info.is_key == key && info.source_bytes == l->layout.source_bytes);
    uint64_t first, count, exempt = 0;
    FUZZ_CHECK(pith_plan_slot(t->plan, slot, &first, &count) == PITH_OK);
    for (uint64_t i = 0; i < count; i++) exempt += how_exempt(t, first + i) != 0;
    FUZZ_CHECK(info.exempt == exempt);
    if (info.source_bytes)
        FUZZ_CHECK(memcmp(info.source, l->layout.source, info.source_bytes) == 0);
    FUZZ_CHECK(length <= pith_plan_frame_bytes(t->plan, slot, key));
    FUZZ_CHECK(length <= (key ? t->sizes.key_bytes : t->sizes.frame_bytes) || !length);
    if (t->sizes.fixed) FUZZ_CHECK(length == pith_plan_frame_bytes(t->plan, slot, key));
    const pith_status verified = pith_verify(t->frame, length, &t->env.env, NULL);
    FUZZ_CHECK(verified == PITH_OK || (verified == PITH_ERR_MEMORY && t->env.fail_at));
}

/* ---- Slots of one step -----------------------------------------------------------------------*/

static void check_replicas(struct trip *t, uint64_t slot) {
    const pith_stream *const a = t->sender.stream, *const b = t->receiver.stream;
    FUZZ_CHECK(pith_stream_base_hash(a, slot) == pith_stream_base_hash(b, slot));
    FUZZ_CHECK(pith_stream_step(a, slot) == pith_stream_step(b, slot));
}

static void check_result(struct trip *t, const struct fuzz_tensor *old,
                         const struct fuzz_tensor *out, uint64_t slot, size_t length) {
    double bound;
    uint64_t first, count;
    FUZZ_CHECK(pith_plan_slot(t->plan, slot, &first, &count) == PITH_OK);
    FUZZ_CHECK(pith_error_bound(t->frame, length, &bound, NULL) == PITH_OK);
    if (t->layout.traits & PITH_TRAIT_LOSSLESS) {
        FUZZ_CHECK(bound == 0);
        check_exact(t, out, first);
    } else if (t->layout.traits & PITH_TRAIT_BOUND) {
        pith_info info = {.size = sizeof info};
        FUZZ_CHECK(pith_inspect(t->frame, length, &info, NULL) == PITH_OK && bound == info.bound);
        check_bounded(t, out, first, &info);
    } else if (t->layout.traits & PITH_TRAIT_EXEMPT) {
        check_rotated(t, out, first, bound);
    } else if (is_sparse(t)) {
        check_sparse(t, out, first, bound);
    } else if (strncmp(t->layout.spec, "kv", 2) == 0) {
        check_pages(t, old, out, first, length, bound);
    } else {
        check_groups(t, old, out, first, bound);
    }
}

/* A key frame makes the receiver's base the value, rounded once. */
static void check_key(const struct trip *t, const struct fuzz_tensor *out, uint64_t first) {
    const pith_layout *l = &t->layout.layout;
    if (l->base_dtype == l->dtype && out->view.dtype == l->dtype) check_exact(t, out, first);
    if (t->layout.traits & PITH_TRAIT_LOSSLESS) return;
    for (uint64_t i = 0; i < out->count; i++) {
        const float w = fuzz_number(fuzz_at(&t->value, first + i), l->dtype);
        const float got = fuzz_number(fuzz_at(out, i), PITH_F32);
        FUZZ_CHECK(!!isnan(w) == !!isnan(got));
        if (isfinite(w)) FUZZ_CHECK(fuzz_within(w, 0, got, l->base_dtype, 0));
    }
}

/* A slot of a step, from before its values are encoded until they were decoded. */
struct piece {
    uint64_t slot, first;
    bool requested, key; /* a key frame: by the caller's flag; by that or the spec's own rule */
    struct fuzz_tensor old, out;
    uint8_t *frame;
    size_t cap, length;
};

static void piece_open(struct trip *t, struct piece *p, uint64_t slot, struct fuzz_source *s) {
    uint64_t count;
    const bool own = t->layout.traits & (PITH_TRAIT_LOSSLESS | PITH_TRAIT_BOUND);
    const uint32_t dtype = own ? t->layout.layout.dtype : (uint32_t)PITH_F32;
    *p = (struct piece){.slot = slot, .requested = t->based && fuzz_u8(s) % 8 == 7};
    p->key = p->requested;
    FUZZ_CHECK(pith_plan_slot(t->plan, slot, &p->first, &count) == PITH_OK);
    if (t->based) {
        p->key |= pith_plan_is_key(t->plan, pith_stream_step(t->sender.stream, slot));
        get_base(t, slot, count, &p->old);
    }
    fuzz_tensor_new(&p->out, s, false, dtype, 1, &count);
    p->cap = (size_t)pith_plan_frame_bytes(t->plan, slot, p->key);
    p->frame = guard_new(p->cap);
}

static void piece_check(struct trip *t, const struct piece *p) {
    t->frame = p->frame;
    check_frame(t, p->slot, p->length, p->key);
    if (t->based) check_replicas(t, p->slot);
    if (p->key)
        check_key(t, &p->out, p->first);
    else
        check_result(t, t->based ? &p->old : NULL, &p->out, p->slot, p->length);
}

static void piece_close(struct trip *t, struct piece *p) {
    guard_free(p->frame, p->cap);
    fuzz_tensor_free(&p->out);
    if (t->based) fuzz_tensor_free(&p->old);
}

/* Those of the pieces that are requested to be key frames, or the others. */
static void encode_pieces(struct trip *t, struct piece *pieces, size_t count, bool requested) {
    pith_item item[FUZZ_SLOTS_MAX];
    struct piece *of[FUZZ_SLOTS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].requested != requested) continue;
        of[n] = &pieces[i];
        item[n++] = (pith_item){.size = sizeof *item,
                                .stream = t->sender.stream,
                                .slot = pieces[i].slot,
                                .view = t->value.view,
                                .frame = pieces[i].frame,
                                .capacity = pieces[i].cap};
    }
    FUZZ_CHECK(pith_encode(t->sender.work, item, n, requested ? PITH_KEY_FRAME : 0) == PITH_OK);
    FUZZ_CHECK(fuzz_list_done(t->sender.work, item, n, PITH_OK));
    for (size_t i = 0; i < n; i++) of[i]->length = item[i].length;
}

static void decode_pieces(struct trip *t, const struct piece *pieces, size_t count) {
    pith_item item[FUZZ_SLOTS_MAX];
    for (size_t i = 0; i < count; i++)
        item[i] = (pith_item){.size = sizeof *item,
                              .stream = t->receiver.stream,
                              .slot = pieces[i].slot,
                              .view = pieces[i].out.view,
                              .frame = pieces[i].frame,
                              .length = pieces[i].length};
    FUZZ_CHECK(pith_decode(t->receiver.work, item, count, 0) == PITH_OK);
    FUZZ_CHECK(fuzz_list_done(t->receiver.work, item, count, PITH_OK));
}

/* Slots [first, first + count) in one call. */
static void some_slots(struct trip *t, uint64_t first, size_t count, struct fuzz_source *s) {
    struct piece pieces[FUZZ_SLOTS_MAX];
    for (size_t i = 0; i < count; i++) piece_open(t, &pieces[i], first + i, s);
    get_residual(t, 0);
    encode_pieces(t, pieces, count, false);
    encode_pieces(t, pieces, count, true);
    decode_pieces(t, pieces, count);
    get_residual(t, 1);
    for (size_t i = 0; i < count; i++) piece_check(t, &pieces[i]);
    for (size_t i = 0; i < count; i++) piece_close(t, &pieces[i]);
}

/* Without a base the step of a frame is the caller's to choose. */
static void choose_step(struct trip *t, uint64_t step, pith_stream_options options,
                        struct fuzz_source *s) {
    const struct fuzz_end *e = &t->sender;
    options.seed = fuzz_u8(s);
    options.rng_stream = fuzz_u8(s);
    FUZZ_CHECK(pith_stream_set_random(e->work, e->stream, &options) == PITH_OK);
    for (uint64_t slot = 0; slot < t->sizes.slots; slot++)
        FUZZ_CHECK(pith_stream_set_step(e->work, e->stream, slot, step) == PITH_OK);
}

static void steps(struct trip *t, struct fuzz_source *values, struct fuzz_source *s) {
    const pith_layout *l = &t->layout.layout;
    pith_stream_options options = {.size = sizeof options};
    fuzz_tensor_new(&t->value, s, false, l->dtype, l->ndim, l->shape);
    if (t->based) {
        options.seed = fuzz_u8(s);
        options.rng_stream = fuzz_u8(s);
    }
    const bool feedback = has_feedback(t);
    for (int i = 0; i < 2 && feedback; i++)
        t->residual[i] = guard_new((size_t)t->layout.count * sizeof(float));
    if (!t->based) {
        options.rank = fuzz_u8(s);
        options.ranks = 256;
    }
    fuzz_end_new(&t->sender, t->plan, &t->env.env, &options);
    fuzz_end_new(&t->receiver, t->plan, &t->env.env, NULL);
    for (uint64_t n = 1 + fuzz_below(s, STEPS_MAX); n--;) {
        if (!t->based) choose_step(t, n, options, s);
        struct fuzz_source fill = {values->bytes, values->length};
        fuzz_fill(&t->value, &fill);
        if (values->length) values->length--;
        if (t->together)
            some_slots(t, 0, (size_t)t->sizes.slots, s);
        else
            for (uint64_t slot = 0; slot < t->sizes.slots; slot++) some_slots(t, slot, 1, s);
        FUZZ_CHECK(fuzz_stream_holds(t->receiver.work, t->receiver.stream));
        FUZZ_CHECK(t->based || pith_stream_step(t->sender.stream, 0) == n + 1);
    }
    for (int i = 0; i < 2 && feedback; i++)
        guard_free(t->residual[i], (size_t)t->layout.count * sizeof(float));
    fuzz_end_free(&t->sender);
    fuzz_end_free(&t->receiver);
    fuzz_tensor_free(&t->value);
}

/* ---- Without a plan --------------------------------------------------------------------------*/

static void one_shot(struct trip *t, struct fuzz_source *values, struct fuzz_source *s) {
    const pith_layout *l = &t->layout.layout;
    struct fuzz_tensor out;
    uint64_t cap;
    size_t length;
    pith_layout extra = {.size = sizeof extra,
                         .flags = l->flags,
                         .source = l->source,
                         .source_bytes = l->source_bytes,
                         .exempt = l->exempt,
                         .exempt_count = l->exempt_count};
    const pith_view like = pith_view_dense(NULL, l->dtype, l->ndim, l->shape);
    if (pith_compress_bound(t->layout.spec, &like, NULL, &extra, &cap, NULL) != PITH_OK) return;
    fuzz_tensor_new(&t->value, s, false, l->dtype, l->ndim, l->shape);
    fuzz_fill(&t->value, values);
    t->frame = guard_new((size_t)cap);
    pith_status status = pith_compress(t->layout.spec, &t->value.view, NULL, &extra, &t->env.env,
                                       t->frame, (size_t)cap, &length, NULL);
    fuzz_env_done(&t->env);
    FUZZ_CHECK(status == PITH_OK || (status == PITH_ERR_MEMORY && length == 0) ||
               (status == PITH_ERR_STATE && has_feedback(t) && length == 0));
    fuzz_tensor_new(&out, s, false, l->dtype, l->ndim, l->shape);
    if (status == PITH_OK) {
        status = pith_decompress(t->frame, length, NULL, &t->env.env, &out.view, NULL);
        FUZZ_CHECK(status == PITH_OK || status == PITH_ERR_MEMORY);
    }
    if (status == PITH_OK && t->layout.traits & PITH_TRAIT_LOSSLESS) check_exact(t, &out, 0);
    if (status == PITH_OK && t->layout.traits & PITH_TRAIT_BOUND) {
        pith_info info = {.size = sizeof info};
        FUZZ_CHECK(pith_inspect(t->frame, length, &info, NULL) == PITH_OK);
        check_bounded(t, &out, 0, &info);
    }
    guard_free(t->frame, (size_t)cap);
    fuzz_tensor_free(&out);
    fuzz_tensor_free(&t->value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source values = {data, size}, s = fuzz_split(&values, PARAMETER_BYTES);
    struct trip t = {.sizes = {.size = sizeof t.sizes}, .together = size % 4 == 3};
    pith_error error = {.size = sizeof error};
    fuzz_env_draw(&t.env, &s);
    fuzz_draw_layout(&t.layout, &s);
    const pith_status status =
        pith_plan_create(&t.plan, t.layout.spec, &t.layout.layout, &t.env.env, &error);
    FUZZ_CHECK((status == PITH_OK) == (t.plan != NULL) && fuzz_is_status(status));
    if (t.plan) {
        FUZZ_CHECK(pith_plan_sizes(t.plan, &t.sizes) == PITH_OK);
        t.based = t.layout.layout.base_dtype != PITH_NONE;
        steps(&t, &values, &s);
    }
    pith_plan_destroy(t.plan);
    fuzz_env_done(&t.env);
    t.env.allocations = 0;
    one_shot(&t, &values, &s);
    return 0;
}
