/* channel_codebook.c - rows of a page whose groups run along tokens and have a codebook.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Kernels for codebooks take groups whose codes lie together; here a row of codes has a group in
 * each column. */
#include "kv/channel_codebook.h"

#include <string.h>

#include "group/trellis_value.h"

/* STRIP columns have their levels found together; LEVELS are those of as many rows as fit. */
enum { STRIP = 1024, LEVELS = 4096, GROUP = 256 };

#define LIMIT 0x7B000000u /* the bits of 2^119: below, no level of a scale overflows */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Columns [first, first + count) of a job with a codebook. */
struct strip {
    size_t first, count;
    float scale[STRIP];
    bool fits; /* all scales are finite and below LIMIT */
};

static void take_scales(struct strip *s, struct pithi_channel_job *job) {
    s->fits = true;
    for (size_t c = 0; c < s->count; c++) {
        const uint32_t u = pithi_scale_load(job->scales, job->set.scale_dtype, s->first + c);
        s->scale[c] = pithi_float(u);
        job->poisoned += pithi_nonfinite(u);
        s->fits = s->fits && pithi_magnitude(u) < LIMIT;
    }
}

/* Multiplies one row of levels by its scales, as pithi_codebook_decode_c does. */
static void scale_irregular(const struct strip *s, float *level, uint64_t *saturated) {
    for (size_t c = 0; c < s->count; c++) {
        uint32_t u = pithi_bits(level[c] * s->scale[c] + 0.0f);
        if (pithi_nonfinite(pithi_bits(s->scale[c]))) {
            u = PITHI_F32_NAN;
        } else if (pithi_nonfinite(u)) {
            u = (u & 0x80000000u) | PITHI_F32_MAX;
            ++*saturated;
        }
        level[c] = pithi_float(u);
    }
}

/* Multiplies one row of levels by scales that fit, to f32 at any address; `to` may be level. */
static void scale_row(const struct strip *s, const float *level, uint8_t *to) {
    enum { PART = 16 };
    size_t c = 0;
    for (float part[PART]; c + PART <= s->count; c += PART) {
        for (size_t k = 0; k < PART; k++) part[k] = level[c + k] * s->scale[c + k] + 0.0f;
        memcpy(to + c * sizeof *part, part, sizeof part);
    }
    for (; c < s->count; c++) {
        const float x = level[c] * s->scale[c] + 0.0f;
        memcpy(to + c * sizeof x, &x, sizeof x);
    }
}

static void put_row(const struct pithi_kv *k, struct pithi_channel_job *job, size_t row,
                    const struct strip *s, float *level) {
    static const struct pithi_rotation none = {.order = 0};
    const int64_t at = (int64_t)row * job->stride + (int64_t)s->first;
    uint8_t *const to = (uint8_t *)job->out + at * (int64_t)pith_dtype_bytes(job->dtype);
    const bool direct = s->fits && job->dtype == PITH_F32;
    if (s->fits)
        scale_row(s, level, direct ? to : (uint8_t *)level);
    else
        scale_irregular(s, level, &job->saturated);
    if (!direct) k->kernels->unrotate(&none, to, job->dtype, level, s->count, 0, 1.0f);
}

/* Decodes levels as those of groups with the scale 1; rows without a gap are decoded together. */
static void decode_strip(const struct pithi_kv *k, struct pithi_channel_job *job, struct strip *s) {
    static const float ones[LEVELS / GROUP] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    float level[LEVELS];
    const bool joined = s->count == job->columns && s->count % 8 == 0 &&
                        job->code_stride == s->count * k->set.bits / 8;
    struct pithi_group_job part = {.set = k->set, .out = level, .out_dtype = PITH_F32};
    part.set.group = GROUP;
    part.set.scale_dtype = PITH_F32;
    part.scales = (uint8_t *)(uintptr_t)ones;
    for (size_t i = 0, n; i < job->rows; i += n) {
        n = joined ? least(job->rows - i, LEVELS / s->count) : 1;
        part.codes = job->codes + i * job->code_stride + s->first * k->set.bits / 8;
        part.count = n * s->count;
        k->kernels->codebook_decode(&part);
        for (size_t r = 0; r < n; r++) put_row(k, job, i + r, s, level + r * s->count);
    }
}

/* ---- Trellises -------------------------------------------------------------------------------*/

static void take_codes(const struct pithi_kv *k, const struct strip *s, const uint8_t *row,
                       uint8_t *code) {
    const unsigned bits = k->set.bits;
    const uint8_t *from = row + s->first * bits / 8;
    uint32_t pending = 0, filled = 0;
    for (size_t c = 0; c < s->count; c++, filled -= bits, pending >>= bits) {
        if (filled < bits) pending |= (uint32_t)*from++ << filled, filled += 8;
        code[c] = (uint8_t)(pending & ((1u << bits) - 1));
    }
}

/* Decodes rows whose columns are sequences: what a code means depends on the rows before it. */
static void decode_paths(const struct pithi_kv *k, struct pithi_channel_job *job, struct strip *s,
                         size_t before) {
    enum { WINDOW = 3 };
    struct pithi_trellis trellis;
    uint8_t code[STRIP], history[STRIP] = {0};
    float level[STRIP];
    pithi_trellis_init(&trellis, k->set.bits);
    for (size_t i = least(before, WINDOW); i > 0; i--) {
        take_codes(k, s, job->codes - i * job->code_stride, code);
        for (size_t c = 0; c < s->count; c++)
            history[c] = (uint8_t)pithi_trellis_next(history[c], code[c]);
    }
    for (size_t i = 0; i < job->rows; i++) {
        take_codes(k, s, job->codes + i * job->code_stride, code);
        for (size_t c = 0; c < s->count; c++) {
            const int l = trellis.level[pithi_trellis_number(history[c], code[c])];
            level[c] = (float)l / PITHI_TRELLIS_UNIT;
            history[c] = (uint8_t)pithi_trellis_next(history[c], code[c]);
        }
        put_row(k, job, i, s, level);
    }
}

void pithi_kv_levels(const struct pithi_kv *k, struct pithi_channel_job *job, size_t before) {
    struct strip s;
    for (s.first = 0; s.first < job->columns; s.first += STRIP) {
        s.count = least(STRIP, job->columns - s.first);
        take_scales(&s, job);
        if (k->set.codebook == PITHI_CODEBOOK_TRELLIS)
            decode_paths(k, job, &s, before);
        else
            decode_strip(k, job, &s);
    }
}
