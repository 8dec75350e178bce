/* page.c - a page of codec kv: where its parts lie, rows into it and out of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Along a head's elements the groups of rows are what group kernels take, in runs as long as they
 * lie dense. Along tokens a rectangle of columns is turned into rows and back.
 *
 * A page has no header: its frame has (frame.c), or who keeps it knows the plan. */
#include "kv/page.h"

#include <string.h>

#include "common/decimal.h"
#include "common/minmax.h"
#include "common/pad.h"
#include "group/group_coder.h"
#include "group/outliers.h"

/* The most columns of a rectangle: any column that is a multiple of COLUMNS begins at a whole byte
 * of codes. */
enum { COLUMNS = 64, LONGEST = 256 };

static size_t parts(size_t n, size_t part) { return n / part + (n % part != 0); }

/* ---- Sizes -----------------------------------------------------------------------------------*/

static size_t row_of(const struct pithi_kv *k) { return (size_t)k->heads * k->dim; }

/* These return the bytes of a scale, and of all that stands for a group beside its codes. */
static size_t width_of(const struct pithi_kv *k) { return pithi_scale_width(k->set.scale_dtype); }
static size_t entry_of(const struct pithi_kv *k) {
    return width_of(k) * (k->set.asymmetric ? 2u : 1u);
}

/* Returns how many of n elements are outliers: the share that is requested, rounded, at least 1 and
 * at most an eighth. */
static uint32_t outliers_of(uint32_t share, uint32_t n) {
    if (!share) return 0;
    const uint32_t wanted = pithi_decimal_share(share, n);
    const uint32_t most = n / 8 ? n / 8 : 1;
    return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

void pithi_kv_init(struct pithi_kv *k, const struct pithi_params *p,
                   const struct pithi_kernels *kernels, uint32_t heads, uint32_t dim) {
    static const uint8_t scales[] = {PITH_F16, PITH_BF16, PITH_F32};
    const uint32_t group = p->value[PITHI_KV_GROUP];
    *k = (struct pithi_kv){.kernels = kernels,
                           .dtype = p->dtype,
                           .base_dtype = p->base_dtype,
                           .heads = heads,
                           .dim = dim,
                           .rotation = p->value[PITHI_KV_ROTATE_HEADS] ? dim : 0,
                           .channel = p->value[PITHI_KV_AXIS],
                           .rans = p->value[PITHI_KV_ENTROPY] == PITHI_KV_RANS};
    k->set = (struct pithi_group_setting){.group = group,
                                          .bits = (uint8_t)p->value[PITHI_KV_BITS],
                                          .scale_dtype = scales[p->value[PITHI_KV_SCALE_DTYPE]],
                                          .asymmetric = !p->value[PITHI_KV_SYMMETRIC],
                                          .idempotent = true,
                                          .shrink = p->value[PITHI_KV_SEARCH],
                                          .codebook = (uint8_t)p->value[PITHI_KV_CODEBOOK]};
    k->set.short_zero = pithi_short_zeros(&k->set, k->rotation != 0);
    k->outliers = outliers_of(p->value[PITHI_KV_OUTLIERS], k->channel || group < dim ? group : dim);
    /* A group that is a whole short head is a group of its own size, where kernels have that. */
    if (!k->channel && dim >= 16 && dim < group && (dim & (dim - 1)) == 0) k->set.group = dim;
    k->element = pith_dtype_bytes(p->dtype);
    k->head_codes = pithi_group_code_bytes(&k->set, dim);
    k->head_groups = parts(dim, k->set.group);
    k->flat = !k->channel && k->head_groups * k->set.group == dim;
    k->head_scales = k->head_groups * entry_of(k);
}

size_t pithi_kv_groups(const struct pithi_kv *k, uint32_t tokens) {
    if (k->channel) return parts(tokens, k->set.group) * row_of(k);
    return (size_t)tokens * k->heads * k->head_groups;
}

static size_t codes_at(const struct pithi_kv *k, uint32_t tokens) {
    return (size_t)pithi_pad16(pithi_kv_groups(k, tokens) * entry_of(k));
}

struct pithi_kv_areas pithi_kv_areas(const struct pithi_kv *k, uint32_t tokens) {
    const size_t groups = pithi_kv_groups(k, tokens);
    const size_t codes = (size_t)tokens * k->heads * k->head_codes;
    struct pithi_kv_areas at = {0};
    at.codes = codes_at(k, tokens);
    at.places = at.codes + (size_t)pithi_pad16(codes);
    at.exact = at.places + (size_t)pithi_pad16(groups * k->outliers);
    at.bytes = at.exact + (size_t)pithi_pad16(groups * k->outliers * k->element);
    return at;
}

/* Clears what a part may be padded with. */
static void clear_end(uint8_t *page, size_t end) { memset(page + end - 16, 0, 16); }

void pithi_kv_clear(const struct pithi_kv *k, uint8_t *page, uint32_t tokens) {
    const struct pithi_kv_areas at = pithi_kv_areas(k, tokens);
    if (!tokens) return;
    clear_end(page, at.codes);
    clear_end(page, at.places);
    clear_end(page, at.exact);
    clear_end(page, at.bytes);
}

/* Whether groups are paths through a trellis, of which vectors find 16 or 32 at a time: a token has
 * fewer, so that those of several pages are gathered. */
static bool gathers(const struct pithi_kv *k) {
    return k->flat && !k->outliers && k->set.codebook == PITHI_CODEBOOK_TRELLIS &&
           k->base_dtype == PITH_NONE;
}

/* ---- Scratch ---------------------------------------------------------------------------------*/

struct work {
    float *floats;  /* values changed before coding: rows, or a group of tokens of a head */
    void *others;   /* values of a rectangle without its outliers */
    void *columns;  /* values of a rectangle, column by column */
    uint8_t *codes; /* codes of these columns */
    uint8_t *scales;
};

struct arena {
    uint8_t *at;
    size_t bytes;
};
static void *take(struct arena *r, size_t bytes) {
    uint8_t *const part = r->at ? r->at + r->bytes : NULL;
    r->bytes += (size_t)pithi_pad64(bytes);
    return part;
}

static struct work work_of(const struct pithi_kv *k, void *scratch, size_t *bytes) {
    const size_t floats = k->channel ? LONGEST * LONGEST : PITHI_CHUNK;
    const bool changed = k->rotation || (k->outliers && !k->channel) || gathers(k);
    const size_t rect = k->channel ? COLUMNS * LONGEST : 0;
    struct arena r = {scratch, 0};
    struct work w;
    w.floats = take(&r, changed ? floats * sizeof(float) : 0);
    w.others = take(&r, k->outliers ? rect * sizeof(float) : 0);
    w.columns = take(&r, rect * sizeof(float));
    w.codes = take(&r, rect);
    w.scales = take(&r, k->channel ? COLUMNS * entry_of(k) : 0);
    *bytes = r.bytes;
    return w;
}

size_t pithi_kv_scratch(const struct pithi_kv *k) {
    size_t bytes;
    work_of(k, NULL, &bytes);
    return bytes;
}

static struct work open_work(const struct pithi_kv *k, void *scratch) {
    size_t ignored;
    return work_of(k, scratch, &ignored);
}

static void encode(const struct pithi_kv *k, struct pithi_group_job *job) {
    pithi_group_encoder(k->kernels, &k->set)(job);
}
static void decode(const struct pithi_kv *k, struct pithi_group_job *job) {
    pithi_group_decoder(k->kernels, &k->set)(job);
}

static struct pithi_rotation rotation(const struct pithi_kv *k) {
    return (struct pithi_rotation){.order = k->rotation};
}

static void *at_element(const void *p, uint32_t dtype, size_t i) {
    return p ? (uint8_t *)(uintptr_t)p + i * pith_dtype_bytes(dtype) : NULL;
}

/* ---- Groups along heads ----------------------------------------------------------------------*/

/* Makes a job of `heads` heads. Heads are counted from the page's beginning, token by token. */
static void heads_job(struct pithi_group_job *job, const struct pithi_kv *k, const uint8_t *page,
                      uint32_t tokens, size_t head, size_t heads) {
    uint8_t *const to = (uint8_t *)(uintptr_t)page;
    pithi_group_job_open(job, (struct pithi_random){0});
    job->set = k->set;
    job->count = heads * k->dim;
    job->scales = to + head * k->head_scales;
    job->codes = to + codes_at(k, tokens) + head * k->head_codes;
}

/* ---- Outliers --------------------------------------------------------------------------------*/

/* These return where a group's outliers lie: their places and their values, group after group. */
static uint8_t *places_of(const struct pithi_kv *k, const uint8_t *page, uint32_t tokens,
                          size_t group) {
    return (uint8_t *)(uintptr_t)page + pithi_kv_areas(k, tokens).places + group * k->outliers;
}
static uint8_t *exact_of(const struct pithi_kv *k, const uint8_t *page, uint32_t tokens,
                         size_t group) {
    return (uint8_t *)(uintptr_t)page + pithi_kv_areas(k, tokens).exact +
           group * k->outliers * k->element;
}

/* Takes the outliers of `count` values, whose groups begin with this one of the page. */
static void take_outliers(const struct pithi_kv *k, uint8_t *page, uint32_t tokens, size_t group,
                          void *values, size_t count) {
    struct pithi_outliers_job job = {.set = &k->set,
                                     .dtype = k->dtype,
                                     .stride = 1,
                                     .apart = k->set.group,
                                     .most = k->outliers,
                                     .others_stride = 1,
                                     .others_apart = k->set.group};
    for (size_t at = 0; at < count; at += job.rows * job.columns, group += job.columns) {
        const size_t whole = (count - at) / k->set.group;
        job.rows = whole ? k->set.group : count - at;
        job.columns = whole ? whole : 1;
        job.value = job.others = at_element(values, k->dtype, at);
        job.places = places_of(k, page, tokens, group);
        job.exact = exact_of(k, page, tokens, group);
        k->kernels->outliers_take(&job);
    }
}

/* Puts outliers over a run of heads that lie dense at out. */
static void put_outliers(const struct pithi_kv *k, const uint8_t *page, uint32_t tokens,
                         size_t head, size_t heads, void *out, uint32_t out_dtype) {
    const size_t groups = k->head_groups;
    for (size_t g = 0; k->outliers && g < heads * groups; g++) {
        const size_t at = g % groups * k->set.group;
        const size_t number = head * groups + g;
        const struct pithi_outliers taken = {places_of(k, page, tokens, number),
                                             exact_of(k, page, tokens, number), k->dtype,
                                             k->outliers};
        pithi_outliers_put(&taken, 0, pithi_min(k->set.group, k->dim - at),
                           at_element(out, out_dtype, g / groups * k->dim + at), out_dtype, 1);
    }
}

/* ---- Values that are changed before they are coded -------------------------------------------*/

/* Returns how many elements of a run of heads scratch memory holds: whole groups, and with a
 * rotation whole heads. */
static size_t chunk_of(const struct pithi_kv *k) {
    return k->rotation ? PITHI_CHUNK / k->dim * k->dim : PITHI_CHUNK;
}

/* Changes elements from `at` on of a run of heads, as many as `chunk` has, before they are
 * coded. */
static void change(const struct pithi_kv *k, uint8_t *page, uint32_t tokens, size_t head,
                   const struct pithi_group_job *all, size_t at, struct pithi_group_job *chunk,
                   float *floats) {
    const struct pithi_rotation r = rotation(k);
    const void *const from = at_element(all->value, k->dtype, at);
    chunk->value = floats;
    chunk->prefetch = at_element(all->value, k->dtype, at + chunk->count);
    if (k->rotation) {
        chunk->value_dtype = PITH_F32;
        k->kernels->rotate(&r, floats, from, k->dtype, chunk->count, 0);
        return;
    }
    const size_t group = head * k->head_groups + at / k->set.group;
    memcpy(floats, from, chunk->count * k->element);
    take_outliers(k, page, tokens, group, floats, chunk->count);
}

static void put_changed(const struct pithi_kv *k, uint8_t *page, const struct pithi_kv_rows *rows,
                        size_t head, struct pithi_group_job *all) {
    const struct pithi_rotation r = rotation(k);
    float *const floats = open_work(k, rows->scratch).floats;
    size_t at = k->rotation ? k->kernels->rotate_encode(&r, all) : 0;
    for (size_t n; at < all->count; at += n) {
        struct pithi_group_job job = *all;
        job.count = n = pithi_min(chunk_of(k), all->count - at);
        change(k, page, rows->tokens, head, all, at, &job, floats);
        job.scales += at / k->set.group * entry_of(k);
        job.codes += pithi_group_code_bytes(&k->set, at);
        job.poisoned = 0;
        encode(k, &job);
        all->poisoned += job.poisoned;
    }
}

static void put_heads(const struct pithi_kv *k, uint8_t *page, struct pithi_kv_rows *rows) {
    const size_t first = (size_t)rows->first * k->heads, all = (size_t)rows->count * k->heads;
    const size_t step = k->flat ? all : 1;
    for (size_t head = 0; head < all; head += step) {
        struct pithi_group_job job;
        heads_job(&job, k, page, rows->tokens, first + head, step);
        job.value = (const uint8_t *)rows->value + head * k->dim * k->element;
        job.value_dtype = k->dtype;
        job.prefetch = at_element(rows->prefetch, k->dtype, head * k->dim);
        job.base = at_element(rows->base, k->base_dtype, head * k->dim);
        job.base_dtype = k->base_dtype;
        job.update = rows->update;
        job.nontemporal = rows->nontemporal;
        if (k->rotation || k->outliers)
            put_changed(k, page, rows, first + head, &job);
        else
            encode(k, &job);
        if (job.saturated) rows->saturated += job.saturated;
        if (job.poisoned) rows->poisoned += job.poisoned;
    }
}

/* Whether groups of rows are coded as they lie, so that those of a page are one run. */
static bool lies_flat(const struct pithi_kv *k) {
    return k->flat && !k->rotation && !k->outliers && !k->set.codebook &&
           k->base_dtype == PITH_NONE;
}

bool pithi_kv_takes_runs(const struct pithi_kv *k, size_t count) {
    return lies_flat(k) || (gathers(k) && count <= PITHI_CHUNK / 2);
}

struct pithi_group_run pithi_kv_run(const struct pithi_kv *k, uint8_t *page, uint32_t tokens,
                                    uint32_t first, const void *value) {
    const size_t head = (size_t)first * k->heads;
    return (struct pithi_group_run){
        .value = value,
        .codes = page + codes_at(k, tokens) + head * k->head_codes,
        .scales = page + head * k->head_scales,
    };
}

/* Moves the scales and codes of a run of so many elements to its page. */
static void scatter(const struct pithi_kv *k, size_t count, struct pithi_group_run *run,
                    const uint8_t *scales, const uint8_t *codes, bool poisoned) {
    const size_t groups = count / k->set.group;
    memcpy(run->scales, scales, groups * width_of(k));
    memcpy(run->codes, codes, pithi_group_code_bytes(&k->set, count));
    for (size_t g = 0; poisoned && g < groups; g++)
        run->poisoned += pithi_nonfinite(pithi_scale_load(scales, k->set.scale_dtype, g));
}

/* Codes runs of so many elements as one job, from a copy to a copy. */
static void put_gathered(const struct pithi_kv *k, size_t count, struct pithi_group_run *run,
                         size_t runs, float *floats) {
    enum { CODES = PITHI_CHUNK / 2, SCALES = PITHI_CHUNK / 16 * sizeof(float) };
    uint8_t codes[CODES], scales[SCALES];
    const struct pithi_rotation r = rotation(k);
    const size_t most = PITHI_CHUNK / count, run_codes = pithi_group_code_bytes(&k->set, count);
    for (size_t n; runs; run += n, runs -= n) {
        struct pithi_group_job job;
        n = pithi_min(most, runs);
        pithi_group_job_open(&job, (struct pithi_random){0});
        job.set = k->set;
        job.count = n * count;
        job.value = floats;
        job.value_dtype = k->rotation ? (uint32_t)PITH_F32 : k->dtype;
        job.codes = codes;
        job.scales = scales;
        for (size_t i = 0; i < n; i++)
            if (k->rotation)
                k->kernels->rotate(&r, floats + i * count, run[i].value, k->dtype, count, 0);
            else
                memcpy(at_element(floats, k->dtype, i * count), run[i].value, count * k->element);
        encode(k, &job);
        for (size_t i = 0; i < n; i++)
            scatter(k, count, &run[i], scales + i * (count / k->set.group) * width_of(k),
                    codes + i * run_codes, job.poisoned > 0);
    }
}

void pithi_kv_put_runs(const struct pithi_kv *k, uint32_t tokens, struct pithi_group_run *run,
                       size_t runs, void *scratch) {
    const size_t count = (size_t)tokens * row_of(k);
    if (gathers(k)) {
        put_gathered(k, count, run, runs, open_work(k, scratch).floats);
        return;
    }
    struct pithi_group_job like;
    pithi_group_job_open(&like, (struct pithi_random){0});
    like.set = k->set;
    like.count = count;
    like.value_dtype = k->dtype;
    k->kernels->group_encode_runs(&like, run, runs);
}

/* ---- Rows out --------------------------------------------------------------------------------*/

static void get_rotated(const struct pithi_kv *k, struct pithi_group_job *all, float *floats) {
    const struct pithi_rotation r = rotation(k);
    const size_t chunk = chunk_of(k);
    pithi_unrotate_fn *const leave =
        all->nontemporal ? k->kernels->unrotate_nontemporal : k->kernels->unrotate;
    for (size_t at = 0; at < all->count; at += chunk) {
        struct pithi_group_job job = *all;
        job.count = pithi_min(chunk, all->count - at);
        job.out = floats;
        job.out_dtype = PITH_F32;
        job.nontemporal = false; /* it is read again at once */
        job.scales += at / k->set.group * entry_of(k);
        job.codes += pithi_group_code_bytes(&k->set, at);
        job.poisoned = job.saturated = 0;
        decode(k, &job);
        leave(&r, at_element(all->out, all->out_dtype, at), all->out_dtype, floats, job.count, 0,
              1.0f);
        all->poisoned += job.poisoned;
        all->saturated += job.saturated;
    }
}

/* Decodes heads that lie in a run, from this head of this token of the part on. */
static void get_run(const struct pithi_kv *k, const uint8_t *page, struct pithi_kv_part *part,
                    size_t token, size_t head, size_t heads) {
    const size_t first = (part->first + token) * k->heads + part->head + head;
    struct pithi_group_job job;
    heads_job(&job, k, page, part->tokens, first, heads);
    const int64_t at = (int64_t)token * part->token_stride + (int64_t)(head * k->dim);
    if (part->out) job.out = (uint8_t *)part->out + at * (int64_t)pith_dtype_bytes(part->out_dtype);
    job.out_dtype = part->out_dtype;
    job.base = at_element(part->base, k->base_dtype, (token * k->heads + head) * k->dim);
    job.base_dtype = k->base_dtype;
    job.update = part->update;
    job.nontemporal = part->nontemporal;
    if (k->rotation)
        get_rotated(k, &job, open_work(k, part->scratch).floats);
    else
        decode(k, &job);
    put_outliers(k, page, part->tokens, first, heads, job.out, job.out_dtype);
    part->saturated += job.saturated;
    part->poisoned += job.poisoned;
}

static void get_heads(const struct pithi_kv *k, const uint8_t *page, struct pithi_kv_part *part) {
    const bool dense =
        part->heads == k->heads && (!part->out || part->token_stride == (int64_t)row_of(k));
    if (k->flat && dense) {
        get_run(k, page, part, 0, 0, (size_t)part->count * k->heads);
        return;
    }
    const size_t step = k->flat ? part->heads : 1;
    for (size_t token = 0; token < part->count; token++)
        for (size_t head = 0; head < part->heads; head += step)
            get_run(k, page, part, token, head, step);
}

/* ---- Groups along tokens ---------------------------------------------------------------------*/

/* A rectangle: columns [column, column + columns) of a head, tokens [token, token + count) of one
 * group. */
struct rect {
    size_t token, count, head, column, columns;
};

/* The values of a rectangle: those of a token lie dense, `stride` elements behind those of the
 * token before. */
struct rect_values {
    const void *at;
    uint32_t dtype;
    size_t stride;
};

/* These return the number of a rectangle's first group, where its scales begin, and where its codes
 * do. */
static size_t rect_group(const struct pithi_kv *k, const struct rect *rect) {
    return rect->token / k->set.group * row_of(k) + rect->head * k->dim + rect->column;
}
static uint8_t *rect_scales(const struct pithi_kv *k, const uint8_t *page,
                            const struct rect *rect) {
    const size_t group = rect->token / k->set.group;
    return (uint8_t *)(uintptr_t)page + group * row_of(k) * entry_of(k) +
           (rect->head * k->dim + rect->column) * width_of(k);
}
static uint8_t *rect_codes(const struct pithi_kv *k, const uint8_t *page, uint32_t tokens,
                           const struct rect *rect) {
    return (uint8_t *)(uintptr_t)page + codes_at(k, tokens) +
           (rect->token * k->heads + rect->head) * k->head_codes +
           pithi_group_code_bytes(&k->set, rect->column);
}

/* Moves scale and zero point of each column, which are interleaved, to a row of either. */
static void move_scales(const struct pithi_kv *k, uint8_t *rows, const uint8_t *pairs,
                        size_t columns) {
    const size_t width = width_of(k), step = entry_of(k), row = row_of(k) * width;
    for (size_t j = 0; j < columns; j++)
        for (size_t z = 0; z * width < step; z++)
            memcpy(rows + z * row + j * width, pairs + j * step + z * width, width);
}

/* Whether kernels for channels encode the setting, and with what they make no copy before. */
static bool by_columns(const struct pithi_kv *k) {
    return !k->set.shrink && k->set.codebook <= PITHI_CODEBOOK_NF;
}
static bool plain(const struct pithi_kv *k) {
    return by_columns(k) && !k->rotation && !k->outliers;
}

/* Makes a job of so many heads from the rectangle's on. */
static struct pithi_channel_job columns_job(const struct pithi_kv *k, const uint8_t *page,
                                            uint32_t tokens, const struct rect *rect,
                                            size_t heads) {
    uint8_t *const scales = rect_scales(k, page, rect);
    return (struct pithi_channel_job){.set = k->set,
                                      .rows = rect->count,
                                      .columns = heads * k->dim,
                                      .codes = rect_codes(k, page, tokens, rect),
                                      .code_stride = k->heads * k->head_codes,
                                      .scales = scales,
                                      .zeros = scales + row_of(k) * width_of(k)};
}

static void encode_columns(const struct pithi_kv *k, struct pithi_channel_job *job) {
    (k->set.codebook ? k->kernels->levels_encode : k->kernels->channel_encode)(job);
}

/* Takes the outliers of a rectangle's columns; what is coded of them goes to `others`. */
static void take_rect(const struct pithi_kv *k, uint8_t *page, uint32_t tokens,
                      const struct rect *rect, const struct rect_values *values, void *others) {
    const size_t group = rect_group(k, rect);
    const struct pithi_outliers_job job = {.set = &k->set,
                                           .value = values->at,
                                           .dtype = values->dtype,
                                           .stride = (int64_t)values->stride,
                                           .apart = 1,
                                           .rows = rect->count,
                                           .columns = rect->columns,
                                           .most = k->outliers,
                                           .others = others,
                                           .others_stride = rect->columns,
                                           .others_apart = 1,
                                           .places = places_of(k, page, tokens, group),
                                           .exact = exact_of(k, page, tokens, group)};
    k->kernels->outliers_take(&job);
}

/* Codes a rectangle column by column, turned. */
static void put_turned(const struct pithi_kv *k, uint8_t *page, struct pithi_kv_rows *rows,
                       const struct rect *rect, const struct rect_values *values) {
    const struct work w = open_work(k, rows->scratch);
    const size_t string = pithi_group_code_bytes(&k->set, rect->count);
    /* Whole groups are one job; a short group is a job of its own. */
    const size_t step = rect->count == k->set.group ? rect->columns : 1;
    struct pithi_group_job job = {
        .set = k->set, .value_dtype = values->dtype, .count = step * rect->count};
    k->kernels->transpose_values(values->at, (int64_t)values->stride, rect->count, rect->columns,
                                 w.columns, rect->count, pith_dtype_bytes(values->dtype));
    for (size_t j = 0; j < rect->columns; j += step) {
        job.value = at_element(w.columns, values->dtype, j * rect->count);
        job.scales = w.scales + j * entry_of(k);
        job.codes = w.codes + j * string;
        encode(k, &job);
    }
    rows->poisoned += job.poisoned;
    move_scales(k, rect_scales(k, page, rect), w.scales, rect->columns);
    k->kernels->transpose_codes(&k->set, w.codes, rect->count, rect->columns,
                                rect_codes(k, page, rows->tokens, rect), k->heads * k->head_codes);
}

static void put_rect(const struct pithi_kv *k, uint8_t *page, struct pithi_kv_rows *rows,
                     const struct rect *rect, struct rect_values values) {
    if (k->outliers) {
        void *const others = open_work(k, rows->scratch).others;
        take_rect(k, page, rows->tokens, rect, &values, others);
        values.at = others;
        values.stride = rect->columns;
    }
    if (by_columns(k)) {
        struct pithi_channel_job job = columns_job(k, page, rows->tokens, rect, 1);
        job.columns = rect->columns;
        job.value = values.at;
        job.stride = (int64_t)values.stride;
        job.dtype = values.dtype;
        encode_columns(k, &job);
        rows->poisoned += job.poisoned;
    } else {
        put_turned(k, page, rows, rect, &values);
    }
}

/* Codes one head of one group of tokens. */
static void put_group(const struct pithi_kv *k, uint8_t *page, struct pithi_kv_rows *rows,
                      struct rect rect) {
    const size_t first = (rect.token - rows->first) * row_of(k) + rect.head * k->dim;
    struct rect_values values = {at_element(rows->value, k->dtype, first), k->dtype, row_of(k)};
    if (k->rotation) {
        const struct pithi_rotation r = rotation(k);
        float *const floats = open_work(k, rows->scratch).floats;
        for (size_t i = 0; i < rect.count; i++)
            k->kernels->rotate(&r, floats + i * k->dim,
                               at_element(values.at, values.dtype, i * values.stride), values.dtype,
                               k->dim, 0);
        values = (struct rect_values){floats, PITH_F32, k->dim};
    }
    for (rect.column = 0; rect.column < k->dim; rect.column += COLUMNS) {
        rect.columns = pithi_min(COLUMNS, k->dim - rect.column);
        put_rect(k, page, rows, &rect,
                 (struct rect_values){at_element(values.at, values.dtype, rect.column),
                                      values.dtype, values.stride});
    }
}

/* Whether codes of heads lie without a gap. */
static bool joined(const struct pithi_kv *k) { return (size_t)k->dim * k->set.bits % 8 == 0; }

static void put_plain(const struct pithi_kv *k, uint8_t *page, struct pithi_kv_rows *rows,
                      const struct rect *rect, size_t heads) {
    struct pithi_channel_job job = columns_job(k, page, rows->tokens, rect, heads);
    job.value = at_element(rows->value, k->dtype,
                           (rect->token - rows->first) * row_of(k) + rect->head * k->dim);
    job.stride = (int64_t)row_of(k);
    job.dtype = k->dtype;
    if (rows->more || rect->token + rect->count < (size_t)rows->first + rows->count)
        job.prefetch = at_element(job.value, k->dtype, rect->count * row_of(k));
    encode_columns(k, &job);
    rows->poisoned += job.poisoned;
}

static void put_columns(const struct pithi_kv *k, uint8_t *page, struct pithi_kv_rows *rows) {
    const size_t step = plain(k) && joined(k) ? k->heads : 1;
    const size_t end = (size_t)rows->first + rows->count;
    struct rect rect = {.token = rows->first};
    for (; rect.token < end; rect.token += k->set.group) {
        rect.count = pithi_min(k->set.group, end - rect.token);
        for (rect.head = 0; rect.head < k->heads; rect.head += step)
            if (plain(k))
                put_plain(k, page, rows, &rect, step);
            else
                put_group(k, page, rows, rect);
    }
}

/* Puts outliers over the columns of so many heads. */
static void put_column_outliers(const struct pithi_kv *k, const uint8_t *page, uint32_t tokens,
                                const struct rect *rect, size_t heads,
                                const struct pithi_channel_job *job) {
    const size_t most = k->outliers, size = pith_dtype_bytes(job->dtype);
    const size_t first = rect_group(k, rect), bytes = most * k->element;
    const uint8_t *const places = places_of(k, page, tokens, first);
    const uint8_t *const exact = exact_of(k, page, tokens, first);
    for (size_t c = 0; most && c < heads * k->dim; c++) {
        const struct pithi_outliers taken = {places + c * most, exact + c * bytes, k->dtype, most};
        pithi_outliers_put(&taken, rect->token % k->set.group, rect->count,
                           (uint8_t *)job->out + c * size, job->dtype, job->stride);
    }
}

/* Decodes a rectangle's tokens of so many heads; with a rotation it is one head. */
static void get_rect(const struct pithi_kv *k, const uint8_t *page, struct pithi_kv_part *part,
                     const struct rect *rect, size_t heads) {
    const int64_t width = (int64_t)pith_dtype_bytes(part->out_dtype);
    const int64_t first = ((int64_t)rect->token - part->first) * part->token_stride +
                          ((int64_t)rect->head - part->head) * k->dim;
    uint8_t *const out = (uint8_t *)part->out + first * width;
    float *const floats = open_work(k, part->scratch).floats;
    const struct pithi_rotation r = rotation(k);
    struct pithi_channel_job job = columns_job(k, page, part->tokens, rect, heads);
    job.out = k->rotation ? (void *)floats : out;
    job.stride = k->rotation ? k->dim : part->token_stride;
    job.dtype = k->rotation ? (uint32_t)PITH_F32 : part->out_dtype;
    job.nontemporal = part->nontemporal && !k->rotation && !k->outliers;
    job.before = rect->token % k->set.group;
    (k->set.codebook ? k->kernels->levels_decode : k->kernels->channel_decode)(&job);
    put_column_outliers(k, page, part->tokens, rect, heads, &job);
    part->poisoned += job.poisoned;
    part->saturated += job.saturated;
    for (size_t i = 0; k->rotation && i < rect->count; i++)
        k->kernels->unrotate(&r, out + (int64_t)i * part->token_stride * width, part->out_dtype,
                             floats + i * k->dim, k->dim, 0, 1.0f);
}

static void get_columns(const struct pithi_kv *k, const uint8_t *page, struct pithi_kv_part *part) {
    const size_t end = (size_t)part->first + part->count, group = k->set.group;
    const size_t step = !k->rotation && joined(k) ? part->heads : 1;
    struct rect rect = {.token = part->first};
    for (; rect.token < end; rect.token += rect.count) {
        rect.count = pithi_min(group - rect.token % group, end - rect.token);
        for (rect.head = part->head; rect.head < (size_t)part->head + part->heads;
             rect.head += step)
            get_rect(k, page, part, &rect, step);
    }
}

/* ---- Rows ------------------------------------------------------------------------------------*/

void pithi_kv_put(const struct pithi_kv *k, uint8_t *page, struct pithi_kv_rows *rows) {
    if (k->channel)
        put_columns(k, page, rows);
    else
        put_heads(k, page, rows);
}

void pithi_kv_get(const struct pithi_kv *k, const uint8_t *page, struct pithi_kv_part *part) {
    if (k->channel)
        get_columns(k, page, part);
    else
        get_heads(k, page, part);
}
