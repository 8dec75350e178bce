/* frame.c - writes frame headers and is the only parser of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/checked.h"
#include "common/endian.h"
#include "common/pad.h"
#include "error.h"
#include "spec.h"

static const uint8_t magic[4] = {0xF1, 'P', 'T', 'H'};

/* Section types; from SECTION_OPTIONAL on, unknown ones are skipped. */
enum {
    SECTION_STREAM = 1,
    SECTION_EXEMPT = 3,
    SECTION_MOST = 64, /* bytes of a codec's own section, of the types in between */
    STREAM_BASE_HASH = 1,
    EXEMPT_BYTES = 16, /* an entry */
    EXEMPT_HOW = 60    /* bit of an entry's second word where `how` begins */
};
#define SECTION_OPTIONAL 0x80000000u
#define SECTION_SOURCE 0x80000001u

/* ---- Payload layout --------------------------------------------------------------------------*/

/* Counts the blocks of a codec in pages: every run of pages ends with one that may be short. */
static bool count_pages(const struct pithi_frame *f, struct pithi_payload *p) {
    const struct pithi_params *q = &f->params;
    const struct pithi_tiling *const t = &f->tiling;
    p->blocks = t->tiles;
    p->run_blocks = 1;
    p->data_bytes = 0;
    if (!t->tiles) return true;
    const uint64_t pages = t->grid[2];
    const uint64_t page = (uint64_t)t->extent[2] * t->shape[3];
    const uint64_t last = t->shape[2] * t->shape[3] - (pages - 1) * page;
    p->run_blocks = pages;
    p->block_bytes = q->codec->block_bytes(q, page);
    if (!pithi_checked_multiply(pages - 1, p->block_bytes, &p->run_bytes)) return false;
    p->run_bytes += q->codec->block_bytes(q, last);
    return p->run_bytes < INT64_MAX / 2 &&
           pithi_checked_multiply(t->tiles / pages, p->run_bytes, &p->data_bytes);
}

/* Counts the blocks, and the most bytes that they can have together. */
static bool count_blocks(const struct pithi_frame *f, struct pithi_payload *p) {
    const struct pithi_params *q = &f->params;
    const uint64_t block = q->block, full = f->count / block, rest = f->count % block;
    if (f->tiling.runs) return count_pages(f, p);
    p->blocks = p->run_blocks = full + (rest != 0);
    if (!p->run_blocks) p->run_blocks = 1;
    p->run_bytes = 0;
    p->block_bytes = q->codec->block_bytes(q, block);
    if (pithi_is_tiled(f)) {
        p->blocks = f->tiling.tiles;
        p->data_bytes = q->codec->block_bytes(q, f->count);
        return true; /* plans, and read_shape, have limited the counts */
    }
    if (!pithi_checked_multiply(full, p->block_bytes, &p->data_bytes)) return false;
    p->data_bytes += rest ? q->codec->block_bytes(q, rest) : 0;
    return true;
}

bool pithi_payload_of(const struct pithi_frame *f, struct pithi_payload *p) {
    p->fixed = f->params.codec->fixed(&f->params);
    if (!count_blocks(f, p)) return false;
    p->checks = p->fixed ? 0 : pithi_pad16(4 * p->blocks);
    p->check_count = f->checksums ? p->blocks + (f->exempt_bytes != 0) : 0;
    p->data = p->checks + pithi_pad16(8 * p->check_count);
    p->exempt_values = p->data + p->data_bytes;
    p->data_bytes += pithi_pad16(f->exempt_bytes);
    return p->data_bytes < (uint64_t)INT64_MAX / 2;
}

/* ---- Header ----------------------------------------------------------------------------------*/

static bool is_wide(const struct pithi_frame *f) {
    bool wide = f->ndim > 4;
    for (uint32_t d = 0; d < f->ndim; d++) wide = wide || f->shape[d] > UINT32_MAX;
    return wide;
}

static uint64_t fixed_bytes(bool wide) {
    return wide ? PITHI_WIDE_HEADER_BYTES : PITHI_HEADER_BYTES;
}

uint64_t pithi_frame_fixed_bytes(const struct pithi_frame *f) { return fixed_bytes(is_wide(f)); }

uint64_t pithi_sections_bytes(bool has_stream, const struct pithi_frame_hooks *hooks,
                              size_t exempt_ranges, size_t source_bytes) {
    uint64_t bytes = 0;
    if (has_stream) bytes += pithi_pad16(PITHI_SECTION_HEAD + PITHI_STREAM_BYTES);
    if (hooks) bytes += pithi_pad16(PITHI_SECTION_HEAD + hooks->section_bytes);
    if (exempt_ranges) bytes += pithi_pad16(PITHI_SECTION_HEAD + EXEMPT_BYTES * exempt_ranges);
    if (source_bytes) bytes += pithi_pad16(PITHI_SECTION_HEAD + source_bytes);
    return bytes;
}

void pithi_frame_size(struct pithi_frame *f) {
    f->header_bytes =
        fixed_bytes(is_wide(f)) + pithi_sections_bytes(f->has_stream, f->params.codec->frame_hooks,
                                                       f->exempt_ranges, f->source_bytes);
    pithi_payload_of(f, &f->payload);
    /* What is read may have any size that its blocks can have: only encoders know their limit. */
    if (f->params.codec->data_bytes)
        f->payload.data_bytes = f->params.codec->data_bytes(f, f->payload.data_bytes);
}

/* ---- Exempt elements -------------------------------------------------------------------------*/

void pithi_frame_set_exempt(struct pithi_frame *f, const struct pithi_exempt_map *map,
                            uint64_t origin) {
    struct pithi_exempt_run run;
    f->exempt = map;
    f->exempt_origin = origin;
    for (uint64_t at = origin; pithi_exempt_next(map, &at, origin + f->count, &run);) {
        f->exempt_ranges++;
        f->exempt_count += run.count;
    }
    f->exempt_bytes = pithi_exempt_at(map, origin + f->count) - pithi_exempt_at(map, origin);
}

static pith_exempt exempt_entry(const void *entries, size_t i) {
    const uint8_t *entry = (const uint8_t *)entries + EXEMPT_BYTES * i;
    const uint64_t word = pithi_get64(entry + 8);
    return (pith_exempt){.first = pithi_get64(entry),
                         .count = word & ((UINT64_C(1) << EXEMPT_HOW) - 1),
                         .how = word >> EXEMPT_HOW};
}

struct pithi_exempt_source pithi_frame_exempt(const struct pithi_frame *f) {
    return (struct pithi_exempt_source){f->exempt_entries, f->exempt_ranges, exempt_entry};
}

bool pithi_frame_same_exempt(const struct pithi_frame *read, const struct pithi_frame *made) {
    struct pithi_exempt_run run;
    size_t i = 0;
    if (read->exempt_ranges != made->exempt_ranges) return false;
    for (uint64_t at = made->exempt_origin; i < made->exempt_ranges; i++) {
        const pith_exempt e = exempt_entry(read->exempt_entries, i);
        if (!pithi_exempt_next(made->exempt, &at, made->exempt_origin + made->count, &run) ||
            e.first != run.first - made->exempt_origin || e.count != run.count || e.how != run.how)
            return false;
    }
    return true;
}

bool pithi_frame_same_tiles(const struct pithi_frame *a, const struct pithi_frame *b) {
    return memcmp(a->tiling.shape, b->tiling.shape, sizeof a->tiling.shape) == 0 &&
           memcmp(&a->params.own, &b->params.own, sizeof a->params.own) == 0;
}

bool pithi_frame_like_exempt(const struct pithi_frame *a, const struct pithi_frame *b) {
    struct pithi_exempt_run x, y;
    if (a->exempt_ranges != b->exempt_ranges) return false;
    uint64_t i = a->exempt_origin, k = b->exempt_origin;
    for (size_t r = 0; r < a->exempt_ranges; r++) {
        pithi_exempt_next(a->exempt, &i, a->exempt_origin + a->count, &x);
        pithi_exempt_next(b->exempt, &k, b->exempt_origin + b->count, &y);
        if (x.first - a->exempt_origin != y.first - b->exempt_origin || x.count != y.count)
            return false;
    }
    return true;
}

static void put_exempt(const struct pithi_frame *f, uint8_t *at) {
    struct pithi_exempt_run run;
    pithi_put32(at, SECTION_EXEMPT);
    pithi_put32(at + 4, (uint32_t)(EXEMPT_BYTES * f->exempt_ranges));
    at += PITHI_SECTION_HEAD;
    for (uint64_t e = f->exempt_origin;
         pithi_exempt_next(f->exempt, &e, f->exempt_origin + f->count, &run); at += EXEMPT_BYTES) {
        pithi_put64(at, run.first - f->exempt_origin);
        pithi_put64(at + 8, run.count | (uint64_t)run.how << EXEMPT_HOW);
    }
}

/* ---- Writing ---------------------------------------------------------------------------------*/

/* Returns the hash of the fixed header before its checksum. */
static uint64_t fixed_hash(const uint8_t *header, size_t fixed) {
    return XXH64(header, fixed - 8, 0);
}

/* Returns the checksum: the hash of the sections, seeded with the fixed header's. */
static uint64_t header_hash(const uint8_t *header, size_t fixed, size_t sections, uint64_t seed) {
    return XXH64(header + fixed, sections, seed);
}

static uint8_t *put_section(uint8_t *at, uint32_t type, const void *bytes, size_t length) {
    pithi_put32(at, type);
    pithi_put32(at + 4, (uint32_t)length);
    memcpy(at + PITHI_SECTION_HEAD, bytes, length);
    return at + pithi_pad16(PITHI_SECTION_HEAD + length);
}

/* Writes the sections that differ from one step to the next, which come first. */
static uint8_t *put_step_sections(const struct pithi_frame *f, uint8_t *at) {
    if (f->has_stream) {
        uint8_t body[PITHI_STREAM_BYTES];
        pithi_put64(body + PITHI_STREAM_STEP, f->step);
        pithi_put64(body + PITHI_STREAM_BASE, f->has_base_hash ? f->base_hash : 0);
        pithi_put32(body + PITHI_STREAM_ID, f->rng_stream);
        pithi_put32(body + PITHI_STREAM_FLAGS, f->has_base_hash ? STREAM_BASE_HASH : 0);
        at = put_section(at, SECTION_STREAM, body, sizeof body);
    }
    const struct pithi_frame_hooks *const hooks = f->params.codec->frame_hooks;
    if (hooks) {
        uint8_t body[SECTION_MOST] = {0};
        hooks->write_section(f, body);
        at = put_section(at, hooks->section, body, hooks->section_bytes);
    }
    return at;
}

static void put_other_sections(const struct pithi_frame *f, uint8_t *at) {
    if (f->exempt_ranges) {
        put_exempt(f, at);
        at += pithi_pad16(PITHI_SECTION_HEAD + EXEMPT_BYTES * f->exempt_ranges);
    }
    if (f->source_bytes) put_section(at, SECTION_SOURCE, f->source, f->source_bytes);
}

static void put_fixed_header(const struct pithi_frame *f, bool wide, size_t sections,
                             uint8_t *dst) {
    const struct pithi_codec *codec = f->params.codec;
    memset(dst, 0, (size_t)f->header_bytes);
    memcpy(dst, magic, sizeof magic);
    dst[PITHI_AT_VERSION] = PITHI_FORMAT_VERSION;
    dst[PITHI_AT_CODEC] = codec->id;
    dst[PITHI_AT_REVISION] = pithi_frame_revision(&f->params);
    dst[PITHI_AT_DTYPE] = (uint8_t)f->params.dtype;
    dst[PITHI_AT_BASE_DTYPE] = (uint8_t)f->params.base_dtype;
    dst[PITHI_AT_NDIM] = (uint8_t)f->ndim;
    dst[PITHI_AT_FLAGS] =
        (uint8_t)((wide ? PITHI_FLAG_WIDE : 0) | (f->params.key_frame ? PITHI_FLAG_KEY : 0) |
                  (f->checksums ? PITHI_FLAG_CHECKSUMS : 0));
    pithi_put32(dst + PITHI_AT_SECTIONS, (uint32_t)sections);
    pithi_params_pack(&f->params, dst + PITHI_AT_PARAMS, dst + PITHI_AT_BLOCK);
    for (uint32_t d = 0; d < f->ndim; d++) {
        if (wide)
            pithi_put64(dst + PITHI_AT_DIMS + 8 * d, f->shape[d]);
        else
            pithi_put32(dst + PITHI_AT_DIMS + 4 * d, (uint32_t)f->shape[d]);
    }
}

void pithi_frame_write(const struct pithi_frame *f, uint8_t *dst) {
    if (f->written && f->constant) {
        memcpy(dst, f->written, (size_t)f->header_bytes);
        return;
    }
    const bool wide = is_wide(f);
    const size_t fixed = (size_t)fixed_bytes(wide), sections = (size_t)f->header_bytes - fixed;
    if (f->written)
        memcpy(dst, f->written, (size_t)f->header_bytes);
    else
        put_fixed_header(f, wide, sections, dst);
    pithi_put64(dst + PITHI_AT_PAYLOAD, f->payload_bytes);
    uint8_t *const rest = put_step_sections(f, dst + fixed);
    if (!f->written) put_other_sections(f, rest);
    const bool known = f->written && f->payload.fixed; /* as payload_bytes is */
    const uint64_t seed = known ? f->written_hash : fixed_hash(dst, fixed);
    pithi_put64(dst + fixed - 8, header_hash(dst, fixed, sections, seed));
}

void pithi_frame_keep(struct pithi_frame *f, uint8_t *header) {
    f->payload_bytes = pithi_payload_most(&f->payload); /* exact when fixed */
    pithi_frame_write(f, header);
    f->written = header;
    f->written_hash = fixed_hash(header, (size_t)fixed_bytes(is_wide(f)));
    f->constant = f->payload.fixed && !f->has_stream && !f->params.codec->frame_hooks;
}

/* ---- Reading ---------------------------------------------------------------------------------*/

static pith_status read_shape(const uint8_t *b, bool wide, struct pithi_frame *f,
                              pith_error *error) {
    f->ndim = b[PITHI_AT_NDIM];
    if (f->ndim > (wide ? PITH_MAX_NDIM : 4))
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "too many dimensions", PITHI_AT_NDIM);
    f->count = 1;
    for (uint32_t d = 0; d < (wide ? PITH_MAX_NDIM : 4u); d++) {
        const uint32_t at = PITHI_AT_DIMS + (wide ? 8 : 4) * d;
        const uint64_t extent = wide ? pithi_get64(b + at) : pithi_get32(b + at);
        if (d >= f->ndim && extent)
            return pithi_fail_at(error, PITH_ERR_CORRUPT, "an unused dimension is not 0", at);
        if (d >= f->ndim) continue;
        f->shape[d] = extent;
        if (!pithi_checked_multiply(f->count, extent, &f->count) ||
            f->count > (uint64_t)INT64_MAX / 8)
            return pithi_fail_at(error, PITH_ERR_CORRUPT, "the shape is too large", at);
    }
    if (is_wide(f) != wide)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "WIDE does not fit the shape",
                             PITHI_AT_FLAGS);
    return PITH_OK;
}

static pith_status read_stream(const uint8_t *body, size_t length, uint64_t at,
                               struct pithi_frame *f, pith_error *error) {
    const uint32_t flags =
        length == PITHI_STREAM_BYTES ? pithi_get32(body + PITHI_STREAM_FLAGS) : UINT32_MAX;
    if (flags & ~(uint32_t)STREAM_BASE_HASH)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "bad stream section", at);
    f->has_stream = true;
    f->has_base_hash = flags & STREAM_BASE_HASH;
    f->step = pithi_get64(body + PITHI_STREAM_STEP);
    f->base_hash = pithi_get64(body + PITHI_STREAM_BASE);
    f->rng_stream = pithi_get32(body + PITHI_STREAM_ID);
    if (!f->has_base_hash && f->base_hash)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "a base hash that is not declared", at);
    return PITH_OK;
}

static pith_status read_own_section(const uint8_t *body, size_t length, uint64_t at,
                                    struct pithi_frame *f, pith_error *error) {
    const struct pithi_frame_hooks *const hooks = f->params.codec->frame_hooks;
    if (length != hooks->section_bytes)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "a section of the codec has a bad length",
                             at);
    const char *const fault = hooks->read_section(body, f);
    f->has_own = true;
    return fault ? pithi_fail_at(error, PITH_ERR_CORRUPT, fault, at) : PITH_OK;
}

/* Reads the exempt section: ascending ranges apart from each other, inside the tensor, of a codec
 * that takes them. */
static pith_status read_exempt(const uint8_t *body, size_t length, uint64_t at,
                               struct pithi_frame *f, pith_error *error) {
    const bool takes = f->params.codec->traits & PITH_TRAIT_EXEMPT;
    f->exempt_entries = body;
    f->exempt_ranges = length / EXEMPT_BYTES;
    if (!takes || !length || length % EXEMPT_BYTES || f->exempt_ranges > PITH_EXEMPT_MAX)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "bad exempt section", at);
    const struct pithi_exempt_source source = pithi_frame_exempt(f);
    if (pithi_exempt_build(NULL, &source, f->params.dtype, f->count, &f->exempt_bytes) <
        source.count)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "bad exempt range", at);
    for (size_t i = 0; i < source.count; i++) f->exempt_count += source.at(source.from, i).count;
    return PITH_OK;
}

static bool all_zero(const uint8_t *p, size_t n) {
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++) any |= p[i];
    return any == 0;
}

/* Fails with a text in which '#' stands for the number of what this library does not know. */
static pith_status fail_unknown(pith_error *error, const char *text, uint64_t number, uint64_t at) {
    const struct pithi_words words = {.number = {number}};
    return pithi_fail_with(error, PITH_ERR_NEWER, at, text, &words);
}

static pith_status read_section(const uint8_t *s, uint32_t type, size_t length, uint64_t at,
                                struct pithi_frame *f, pith_error *error) {
    if (type == SECTION_STREAM) return read_stream(s, length, at, f, error);
    if (f->params.codec->frame_hooks && type == f->params.codec->frame_hooks->section)
        return read_own_section(s, length, at, f, error);
    if (type == SECTION_EXEMPT) return read_exempt(s, length, at, f, error);
    if (type == SECTION_SOURCE) {
        if (length == 0 || length > PITH_SOURCE_MAX)
            return pithi_fail_at(error, PITH_ERR_CORRUPT, "bad source section", at);
        f->source = s;
        f->source_bytes = length;
        return PITH_OK;
    }
    if (type >= SECTION_OPTIONAL) return PITH_OK;
    return fail_unknown(error, "section #, which this pith does not know: update pith", type, at);
}

static pith_status read_sections(const uint8_t *b, size_t from, struct pithi_frame *f,
                                 pith_error *error) {
    uint32_t before = 0;
    for (size_t at = from; at < f->header_bytes;) {
        const uint32_t type = pithi_get32(b + at);
        const size_t length = pithi_get32(b + at + 4), capacity = (size_t)f->header_bytes - at;
        if (type <= before)
            return pithi_fail_at(error, PITH_ERR_CORRUPT, "sections out of order", at);
        if (length > capacity - PITHI_SECTION_HEAD)
            return pithi_fail_at(error, PITH_ERR_CORRUPT, "a section is too long", at);
        const size_t padded = (size_t)pithi_pad16(PITHI_SECTION_HEAD + length);
        if (!all_zero(b + at + PITHI_SECTION_HEAD + length, padded - PITHI_SECTION_HEAD - length))
            return pithi_fail_at(error, PITH_ERR_CORRUPT, "padding is not 0", at);
        PITHI_TRY(read_section(b + at + PITHI_SECTION_HEAD, type, length, at, f, error));
        before = type;
        at += padded;
    }
    return PITH_OK;
}

static pith_status read_codec(const uint8_t *b, struct pithi_frame *f, pith_error *error) {
    const struct pithi_codec *codec = pithi_codec_by_id(b[PITHI_AT_CODEC]);
    if (!codec)
        return fail_unknown(error, "codec #, which this pith does not know: update pith",
                            b[PITHI_AT_CODEC], PITHI_AT_CODEC);
    if (b[PITHI_AT_REVISION] > codec->revision)
        return pithi_fail_with(
            error, PITH_ERR_NEWER, PITHI_AT_REVISION,
            "revision # of codec $, and this pith reads up to #: update pith",
            &(struct pithi_words){.number = {b[PITHI_AT_REVISION], codec->revision},
                                  .name = {codec->name}});
    if (b[PITHI_AT_REVISION] == 0)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "no such revision", PITHI_AT_REVISION);
    if (!pithi_params_unpack(codec, b + PITHI_AT_PARAMS, b[PITHI_AT_BLOCK], &f->params))
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "a parameter is out of range",
                             PITHI_AT_PARAMS);
    if (!pithi_params_set_revision(&f->params, b[PITHI_AT_REVISION]))
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "the revision is not that of the parameters",
                             PITHI_AT_REVISION);
    f->params.dtype = b[PITHI_AT_DTYPE];
    f->params.base_dtype = b[PITHI_AT_BASE_DTYPE];
    f->params.key_frame = b[PITHI_AT_FLAGS] & PITHI_FLAG_KEY;
    f->checksums = b[PITHI_AT_FLAGS] & PITHI_FLAG_CHECKSUMS;
    if (f->params.dtype > 31 || !(codec->dtypes >> f->params.dtype & 1))
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "the codec has no such dtype",
                             PITHI_AT_DTYPE);
    if (f->params.base_dtype != PITH_NONE && !(codec->traits & PITH_TRAIT_BASE))
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "the codec takes no base",
                             PITHI_AT_BASE_DTYPE);
    if (f->params.base_dtype == PITH_NONE && f->params.key_frame)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "a key frame without a base", PITHI_AT_FLAGS);
    const char *detail = "";
    if (pithi_params_check(&f->params, &detail) != PITH_OK)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, detail, PITHI_AT_PARAMS);
    return PITH_OK;
}

static pith_status read_tiles(struct pithi_frame *f, pith_error *error) {
    const struct pithi_codec *const codec = f->params.codec;
    const uint32_t block = f->params.block;
    if (!pithi_is_tiled(f)) return PITH_OK;
    const char *const refused = codec->cut(&f->params, f->ndim, f->shape, &f->tiling);
    if (f->params.block != block)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "the block is not what the shape implies",
                             PITHI_AT_BLOCK);
    if (!refused) return PITH_OK;
    return pithi_fail_at(error, PITH_ERR_CORRUPT, "a shape the codec does not take", PITHI_AT_DIMS);
}

/* Checks that the declared payload is what the header implies. */
static pith_status check_payload(struct pithi_frame *f, pith_error *error) {
    const bool fits = pithi_payload_of(f, &f->payload);
    const struct pithi_payload *const p = &f->payload;
    const uint64_t n = f->payload_bytes, most = pithi_payload_most(p);
    if (!fits || n > most || n < p->data || (p->fixed && n != most))
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "the payload size is impossible",
                             PITHI_AT_PAYLOAD);
    const bool needs_stream = f->params.base_dtype != PITH_NONE;
    const bool needs_base_hash = needs_stream && f->params.stream.base_hash;
    if (f->has_stream != needs_stream || f->has_base_hash != needs_base_hash)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "base and stream section disagree",
                             PITHI_AT_BASE_DTYPE);
    const struct pithi_frame_hooks *const hooks = f->params.codec->frame_hooks;
    if (hooks && !f->has_own)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "the codec's section is missing",
                             PITHI_AT_SECTIONS);
    return PITH_OK;
}

/* Whether a header is the one that was kept but for step, base hash and rng_stream, which it then
 * gives the frame. They begin the stream section, the first one. */
static bool recognize_step(struct pithi_frame *f, const uint8_t *b) {
    const size_t fixed = (size_t)pithi_frame_fixed_bytes(f), all = (size_t)f->header_bytes;
    const size_t body = fixed + PITHI_SECTION_HEAD, same = body + PITHI_STREAM_FLAGS;
    return memcmp(b, f->written, fixed - 8) == 0 &&
           memcmp(b + fixed, f->written + fixed, PITHI_SECTION_HEAD) == 0 &&
           memcmp(b + same, f->written + same, all - same) == 0 &&
           pithi_get64(b + fixed - 8) == header_hash(b, fixed, all - fixed, f->written_hash) &&
           read_stream(b + body, PITHI_STREAM_BYTES, body, f, NULL) == PITH_OK;
}

bool pithi_frame_recognize(struct pithi_frame *f, const uint8_t *b, size_t length) {
    if (!f->written || !f->payload.fixed || f->params.codec->frame_hooks ||
        length < f->header_bytes)
        return false;
    if (f->constant ? memcmp(b, f->written, (size_t)f->header_bytes) != 0 : !recognize_step(f, b))
        return false;
    f->payload_bytes = pithi_payload_most(&f->payload);
    return true;
}

uint64_t pithi_frame_header_bytes(const uint8_t *b) {
    return fixed_bytes(b[PITHI_AT_FLAGS] & PITHI_FLAG_WIDE) + pithi_get32(b + PITHI_AT_SECTIONS);
}

bool pithi_frame_has_checksums(const uint8_t *b) {
    return b[PITHI_AT_FLAGS] & PITHI_FLAG_CHECKSUMS;
}

const uint8_t *pithi_frame_section(const uint8_t *b, uint32_t type) {
    const uint8_t *at = b + fixed_bytes(b[PITHI_AT_FLAGS] & PITHI_FLAG_WIDE);
    while (pithi_get32(at) != type) at += pithi_pad16(PITHI_SECTION_HEAD + pithi_get32(at + 4));
    return at + PITHI_SECTION_HEAD;
}

static pith_status check_start(const uint8_t *b, size_t length, struct pithi_frame *f,
                               pith_error *error) {
    f->header_bytes = PITHI_HEADER_BYTES;
    const size_t seen = length < sizeof magic ? length : sizeof magic;
    if (seen && memcmp(b, magic, seen) != 0)
        return pithi_fail(error, PITH_ERR_MAGIC, "not a pith frame");
    if (length > PITHI_AT_VERSION && b[PITHI_AT_VERSION] > PITHI_FORMAT_VERSION)
        return pithi_fail_with(
            error, PITH_ERR_NEWER, PITHI_AT_VERSION,
            "format version #, and this pith reads up to #: update pith",
            &(struct pithi_words){.number = {b[PITHI_AT_VERSION], PITHI_FORMAT_VERSION}});
    if (length > PITHI_AT_VERSION && b[PITHI_AT_VERSION] == 0)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "no such format version", PITHI_AT_VERSION);
    if (length < PITHI_HEADER_BYTES)
        return pithi_fail_at(error, PITH_ERR_TRUNCATED, "the header is cut", length);
    const uint32_t sections = pithi_get32(b + PITHI_AT_SECTIONS);
    if (sections % 16 || sections > PITHI_SECTIONS_MAX)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "bad size of sections", PITHI_AT_SECTIONS);
    f->header_bytes = pithi_frame_header_bytes(b);
    if (length < f->header_bytes)
        return pithi_fail_at(error, PITH_ERR_TRUNCATED, "the header is cut", length);
    return PITH_OK;
}

pith_status pithi_frame_read(const uint8_t *b, size_t length, struct pithi_frame *f,
                             pith_error *error) {
    *f = (struct pithi_frame){0};
    PITHI_TRY(check_start(b, length, f, error));
    const bool wide = b[PITHI_AT_FLAGS] & PITHI_FLAG_WIDE;
    const size_t fixed = (size_t)fixed_bytes(wide);
    if (pithi_get64(b + fixed - 8) !=
        header_hash(b, fixed, (size_t)f->header_bytes - fixed, fixed_hash(b, fixed)))
        return pithi_fail_at(error, PITH_ERR_CHECKSUM, "the header checksum differs", fixed - 8);
    if (b[PITHI_AT_FLAGS] & ~(PITHI_FLAG_WIDE | PITHI_FLAG_KEY | PITHI_FLAG_CHECKSUMS))
        return fail_unknown(error, "flags #, some of which this pith does not know: update pith",
                            b[PITHI_AT_FLAGS], PITHI_AT_FLAGS);
    PITHI_TRY(read_codec(b, f, error));
    PITHI_TRY(read_shape(b, wide, f, error));
    PITHI_TRY(read_tiles(f, error));
    PITHI_TRY(read_sections(b, fixed, f, error));
    f->payload_bytes = pithi_get64(b + PITHI_AT_PAYLOAD);
    return check_payload(f, error);
}
