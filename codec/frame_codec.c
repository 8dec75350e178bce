/* frame_codec.c - one slot to one frame and back, block by block.
 * SPDX-License-Identifier: Apache-2.0 */
#include "frame_codec.h"

#include "block_io.h"
#include "common/pad.h"
#include "error.h"
#include "spec.h"

static uint64_t elements_of(const struct pithi_coding *c, uint64_t block) {
    return pithi_block_count(&c->frame, block);
}

static uint64_t checksum(const struct pithi_coding *c, const uint8_t *bytes, size_t length,
                         uint64_t block) {
    return pithi_nh_finish(c->plan->kernels.nh(bytes, length, 0), length, PITHI_CHECK_TAG + block);
}

/* Adds to a count; mostly there is nothing to add. Counts are loaded one by one: a load of two,
 * which were stored apart, would wait until all values of the block are on their way to memory. */
static void count_more(uint64_t *to, uint64_t more) {
    if (more) *to += more;
}

void pithi_collect(struct pithi_worker *w, const struct pithi_block *b) {
    w->hash += b->hash;
    count_more(&w->saturated, b->saturated);
    count_more(&w->poisoned, b->poisoned);
    count_more(&w->exact, b->exact);
    count_more(&w->nonzero, b->nonzero);
    if (b->detail) w->detail = b->detail;
}

void pithi_block_open(const struct pithi_coding *c, uint64_t block, void *base,
                      struct pithi_worker *w, struct pithi_block *b) {
    const uint64_t first = pithi_block_first(&c->frame, block);
    const size_t count = (size_t)elements_of(c, block);
    *b = (struct pithi_block){
        .params = &c->frame.params,
        .kernels = &c->plan->kernels,
        .first = first,
        .count = count,
        .paged.until = count,
        .base = base,
        .update = c->update,
        .coefficients = c->coefficients,
        .nontemporal = c->nontemporal,
        .scratch = w->scratch,
        .coder = w->coder,
        .exempt_values = c->exempt_values.map ? &c->exempt_values : NULL,
        .feedback = {c->residual ? c->residual + first : NULL,
                     c->residual ? c->residual_next + first : NULL},
    };
    /* Field by field: a copy of the struct would load at once what callers stored in pieces. */
    b->random.seed = c->random.seed;
    b->random.step = c->random.step;
    b->random.rng_stream = c->random.rng_stream;
    b->random.shift = c->random.shift;
    const struct pithi_frame_hooks *const hooks = c->frame.params.codec->frame_hooks;
    if (hooks && hooks->open_block) hooks->open_block(c, w, b);
}

static void *read_base(const struct pithi_coding *c, uint64_t block, struct pithi_worker *w) {
    if (!c->base) return c->update ? w->base : NULL;
    return pithi_block_load(&c->frame, block, c->base, w->base);
}

static void write_base(const struct pithi_coding *c, uint64_t block, struct pithi_worker *w) {
    if (c->base && c->update && !c->base->dense)
        pithi_span_write(c->base, pithi_block_first(&c->frame, block), elements_of(c, block),
                         w->base);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

void pithi_encode_open(struct pithi_coding *c, uint8_t *dst) {
    c->bytes = dst + c->frame.header_bytes;
    if (c->frame.exempt_bytes)
        c->exempt_values = (struct pithi_exempt_values){c->frame.exempt, c->frame.exempt_origin,
                                                        c->bytes + c->frame.payload.exempt_values};
}

void pithi_encode_check(const struct pithi_coding *c, uint64_t block, const uint8_t *bytes,
                        size_t length) {
    if (c->frame.checksums)
        pithi_put64(c->bytes + c->frame.payload.checks + 8 * block,
                    checksum(c, bytes, length, block));
}

/* Gives a block its tile, which must outlive it, and what the frame's section says. */
static void set_tile_and_section(const struct pithi_coding *c, uint64_t block,
                                 struct pithi_tile *tile, struct pithi_block *b) {
    b->said = &c->frame.own;
    if (!pithi_is_tiled(&c->frame)) return;
    *tile = pithi_tile_at(&c->frame.tiling, block);
    b->tiled.tile = tile;
}

static uint64_t sum_of(const struct pithi_coding *c, const struct pithi_block *b, pithi_nh_fn *nh) {
    const size_t element = pithi_dtype_bytes(c->frame.params.base_dtype);
    return nh(b->base, b->count * element, b->first * element / 8);
}

/* Whether the block of the base is what the last call left there. */
static bool is_kept(const struct pithi_coding *c, uint64_t block, const struct pithi_block *b) {
    const size_t bytes = b->count * pithi_dtype_bytes(c->frame.params.base_dtype);
    if (c->hash_all) return sum_of(c, b, b->kernels->nh) == c->block_hashes[block];
    if (block + 1 < c->frame.payload.blocks) /* a sample would wait at every line */
        pithi_nh_sample_prefetch((const uint8_t *)b->base + bytes,
                                 (size_t)elements_of(c, block + 1) * (bytes / b->count));
    return sum_of(c, b, pithi_nh_sample) == c->block_hashes[block];
}

/* Keeps a hash of the new block of the base for the next call to compare. */
static void keep_sum(const struct pithi_coding *c, uint64_t block, const struct pithi_block *b,
                     struct pithi_worker *w) {
    if (!c->block_hashes) return;
    c->block_hashes[block] = c->hash_all ? b->hash : sum_of(c, b, pithi_nh_sample);
    w->advanced = true;
}

/* Lets the last block of a frame fetch what the next item of a list begins with. Of a large block
 * that would come long before it is wanted. */
static void set_next(const struct pithi_coding *c, struct pithi_block *b) {
    enum { SMALL = 16384 };
    const size_t value = b->count * pithi_dtype_bytes(c->frame.params.dtype),
                 base = b->count * pithi_dtype_bytes(c->frame.params.base_dtype);
    if (!b->value || value > SMALL || base > SMALL) return;
    if (c->next_value != (const uint8_t *)b->value + value) b->next_value = c->next_value;
    if (b->base && c->next_base != (uint8_t *)b->base + base) b->next_base = c->next_base;
}

static pith_status encode_block(const struct pithi_coding *c, uint64_t block, const void *values,
                                void *base, uint8_t *bytes, struct pithi_worker *w) {
    struct pithi_block b;
    pithi_block_open(c, block, base, w, &b);
    struct pithi_tile tile;
    set_tile_and_section(c, block, &tile, &b);
    b.value = values;
    b.tiled.buffer = w->values;
    if (!values && !pithi_find_tile_layout(&c->frame, &tile, c->view, &b.tiled.layout))
        b.value = pithi_block_load(&c->frame, block, c->view, w->values);
    b.paged.more = c->frame.tiling.runs && c->view && c->view->dense && b.value != w->values &&
                   block + 1 < c->frame.payload.blocks;
    b.bytes = bytes;
    if (block + 1 == c->frame.payload.blocks) set_next(c, &b);
    if (c->compare && !is_kept(c, block, &b)) {
        w->detail = "the base was changed by others since the last call";
        return PITH_ERR_BASE;
    }
    const struct pithi_codec *const codec = c->frame.params.codec;
    const pith_status status = codec->encode_placed ? codec->encode_placed(&b) : codec->encode(&b);
    pithi_collect(w, &b);
    w->length = b.length;
    w->plain = b.plain;
    if (status != PITH_OK) return status;
    keep_sum(c, block, &b, w);
    pithi_encode_check(c, block, bytes, b.length);
    return PITH_OK;
}

pith_status pithi_encode_one(const struct pithi_coding *c, uint64_t block, const void *values,
                             void *base, struct pithi_worker *w) {
    uint8_t *place =
        c->frame.payload.fixed ? c->bytes + pithi_block_offset(&c->frame.payload, block) : w->coded;
    return encode_block(c, block, values, base, place, w);
}

pith_status pithi_read_values(const struct pithi_coding *c, uint64_t first, uint64_t count,
                              struct pithi_worker *w, const void **values) {
    if (c->source) return c->source(c->source_from, first, count, w, values);
    *values = pithi_span_read(c->view, first, count, w->values);
    return PITH_OK;
}

static pith_status encode_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *c = arg;
    const void *values = NULL;
    if (c->source)
        PITHI_TRY(pithi_read_values(c, pithi_block_first(&c->frame, block), elements_of(c, block),
                                    w, &values));
    else if (!c->frame.params.codec->encode_placed)
        values = pithi_block_load(&c->frame, block, c->view, w->values);
    PITHI_TRY(pithi_encode_one(c, block, values, read_base(c, block, w), w));
    write_base(c, block, w);
    return PITH_OK;
}

/* Encodes a wave of blocks, one for each worker, into the workers' buffers, then copies them to
 * their places in order, so that the bytes do not depend on the number of workers. */
pith_status pithi_encode_waves(struct pithi_coding *c, uint64_t capacity, uint64_t *used) {
    pith_work *const work = c->work;
    c->began = true;
    pithi_parallel_begin(work);
    *used = c->frame.payload.data;
    for (uint64_t block = 0; block < c->frame.payload.blocks;) {
        const uint64_t left = c->frame.payload.blocks - block;
        const uint64_t wave = left < work->workers ? left : work->workers;
        PITHI_TRY(pithi_parallel_for(work, block, wave, encode_job, c));
        for (uint64_t i = 0; i < wave; i++, block++) {
            const struct pithi_worker *w = &work->worker[i];
            if (w->length > capacity - *used)
                return pithi_fail_numbers(&work->error, PITH_ERR_SPACE,
                                          "the frame has # bytes and more, the capacity is #",
                                          c->frame.header_bytes + *used + w->length,
                                          c->frame.header_bytes + capacity);
            memcpy(c->bytes + *used, w->coded, w->length);
            pithi_put32(c->bytes + 4 * block, (uint32_t)w->length | (w->plain ? PITHI_PLAIN : 0));
            *used += w->length;
        }
    }
    return PITH_OK;
}

void pithi_encode_close(struct pithi_coding *c, uint8_t *dst, uint64_t payload_bytes) {
    const struct pithi_payload *p = &c->frame.payload;
    const uint64_t index_end = p->fixed ? 0 : 4 * p->blocks;
    const uint64_t checks_end = p->checks + 8 * p->check_count;
    const size_t exempt_values = (size_t)c->frame.exempt_bytes,
                 padded = (size_t)pithi_pad16(exempt_values);
    if (p->data) { /* there are tables before the data */
        memset(c->bytes + index_end, 0, (size_t)(p->checks - index_end));
        memset(c->bytes + checks_end, 0, (size_t)(p->data - checks_end));
    }
    if (exempt_values) {
        memset(c->bytes + p->exempt_values + exempt_values, 0, padded - exempt_values);
        pithi_encode_check(c, p->blocks, c->bytes + p->exempt_values, padded);
    }
    c->frame.payload_bytes = payload_bytes;
    pithi_frame_write(&c->frame, dst);
}

pith_status pithi_encode_frame(struct pithi_coding *c, uint8_t *dst, size_t cap, bool hash_base,
                               size_t *written) {
    pith_work *const work = c->work;
    pithi_encode_open(c, dst);
    const struct pithi_payload *l = &c->frame.payload;
    const uint64_t least = c->frame.header_bytes + l->data;
    const uint64_t most = least + l->data_bytes;
    if (cap < least || (cap < most && (l->fixed || c->update)))
        return pithi_fail_with(&work->error, PITH_ERR_SPACE, most,
                               "the frame needs # bytes, the capacity is #",
                               &(struct pithi_words){.number = {most, cap}});
    pithi_parallel_begin(work);
    uint64_t used = l->data + l->data_bytes;
    c->nontemporal = l->fixed && !c->frame.checksums && used >= PITHI_LARGE_OUTPUT;
    const uint64_t capacity = cap - c->frame.header_bytes;
    c->began = l->fixed;
    if (l->fixed)
        PITHI_TRY(pithi_parallel_for(work, 0, l->blocks, encode_job, c));
    else if (c->frame.params.codec->frame_hooks)
        PITHI_TRY(c->frame.params.codec->frame_hooks->encode(c, capacity, &used));
    else
        PITHI_TRY(pithi_encode_waves(c, capacity, &used));
    pithi_parallel_results(work, work->worker, &c->hash, &c->saturated, &c->poisoned);
    pithi_parallel_counts(work, &c->exact, &c->nonzero);
    if (hash_base && c->frame.has_base_hash)
        c->frame.base_hash =
            pithi_nh_finish(c->hash, c->frame.count * pithi_dtype_bytes(c->frame.params.base_dtype),
                            c->frame.params.base_dtype);
    pithi_encode_close(c, dst, used);
    *written = (size_t)(c->frame.header_bytes + used);
    return PITH_OK;
}

/* ---- Opening a frame -------------------------------------------------------------------------*/

const uint8_t *pithi_block_at(const struct pithi_coding *c, uint64_t block, size_t *length,
                              bool *plain) {
    const struct pithi_payload *p = &c->frame.payload;
    *plain = false;
    if (p->fixed) {
        *length =
            (size_t)c->frame.params.codec->block_bytes(&c->frame.params, elements_of(c, block));
        return c->bytes + pithi_block_offset(p, block);
    }
    const uint32_t entry = pithi_get32(c->bytes + 4 * block);
    *length = entry & ~PITHI_PLAIN;
    *plain = entry & PITHI_PLAIN;
    uint64_t at = c->block_offset ? c->block_offset[block / c->stride] : p->data;
    uint64_t i = c->block_offset ? block / c->stride * c->stride : 0;
    for (; i < block; i++) at += pithi_get32(c->bytes + 4 * i) & ~PITHI_PLAIN;
    return c->bytes + at;
}

static pith_status fail_block(const struct pithi_coding *c, pith_status status, const char *text,
                              uint64_t block) {
    size_t length;
    bool plain;
    const uint8_t *at = pithi_block_at(c, block, &length, &plain);
    return pithi_fail_at(&c->work->error, status, text,
                         c->frame.header_bytes + (uint64_t)(at - c->bytes));
}

static bool zeros(const uint8_t *p, uint64_t from, uint64_t to) {
    uint8_t any = 0;
    for (; from < to; from++) any |= p[from];
    return any == 0;
}

pith_status pithi_find_blocks(struct pithi_coding *c) {
    const struct pithi_payload *p = &c->frame.payload;
    pith_error *error = &c->work->error;
    uint64_t at = p->data;
    if (!c->stride) {
        c->stride = 1;
        c->block_offset = c->work->worker[0].block_offset;
    }
    for (uint64_t i = 0; i < p->blocks; i++) {
        const uint64_t entry = c->frame.header_bytes + 4 * i;
        const uint64_t length = pithi_get32(c->bytes + 4 * i) & ~PITHI_PLAIN;
        const uint64_t most =
            c->frame.params.codec->block_bytes(&c->frame.params, elements_of(c, i));
        if (c->block_offset && i % c->stride == 0) c->block_offset[i / c->stride] = at;
        if (length > most || length > c->frame.payload_bytes - at)
            return pithi_fail_at(error, PITH_ERR_CORRUPT, "a block is too long", entry);
        at += length;
    }
    if (at != c->frame.payload_bytes)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "blocks do not fill the payload",
                             c->frame.header_bytes + at);
    return PITH_OK;
}

static pith_status check_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *c = arg;
    size_t length;
    bool plain;
    if (!pithi_touches(&c->frame, block, c->first, c->count)) return PITH_OK;
    const uint8_t *bytes = pithi_block_at(c, block, &length, &plain);
    w->detail = "a block checksum differs";
    return checksum(c, bytes, length, block) ==
                   pithi_get64(c->bytes + c->frame.payload.checks + 8 * block)
               ? PITH_OK
               : PITH_ERR_CHECKSUM;
}

pith_status pithi_parallel_blocks(const struct pithi_coding *c, uint64_t first, uint64_t count,
                                  pithi_block_fn *fn, void *arg) {
    const pith_status status = pithi_parallel_for(c->work, first, count, fn, arg);
    if (status == PITH_OK || status == PITH_ERR_RUNNER) return status;
    const pith_error e = c->work->error; /* its text is written over */
    return fail_block(c, status, e.text, e.offset);
}

static pith_status check_tables(struct pithi_coding *c) {
    const struct pithi_payload *p = &c->frame.payload;
    const uint64_t index_end = p->fixed ? 0 : 4 * p->blocks;
    const uint64_t checks_end = p->checks + 8 * p->check_count;
    const uint64_t exempt_end = p->exempt_values + c->frame.exempt_bytes;
    if (!zeros(c->bytes, index_end, p->checks) || !zeros(c->bytes, checks_end, p->data))
        return pithi_fail_at(&c->work->error, PITH_ERR_CORRUPT, "padding is not 0",
                             c->frame.header_bytes + index_end);
    if (c->frame.exempt_bytes && !zeros(c->bytes, exempt_end, pithi_pad16(exempt_end)))
        return pithi_fail_at(&c->work->error, PITH_ERR_CORRUPT, "padding is not 0",
                             c->frame.header_bytes + exempt_end);
    return p->fixed ? PITH_OK : pithi_find_blocks(c);
}

/* Counts the blocks from the first to the last that hold elements [c->first, c->first + c->count);
 * tiles in between may hold none. */
static uint64_t blocks_of(const struct pithi_coding *c, uint64_t *first) {
    const uint64_t block = c->frame.params.block;
    *first = 0;
    if (c->count && c->count == c->frame.count) return c->frame.payload.blocks;
    if (c->frame.tiling.runs && c->count) {
        *first = pithi_tile_of(&c->frame.tiling, c->first);
        return pithi_tile_of(&c->frame.tiling, c->first + c->count - 1) - *first + 1;
    }
    if (pithi_is_tiled(&c->frame)) return c->count ? c->frame.tiling.tiles : 0;
    *first = c->first / block;
    return c->count ? (c->first + c->count - 1) / block - *first + 1 : 0;
}

pith_status pithi_check_blocks(struct pithi_coding *c) {
    uint64_t first;
    if (!c->frame.checksums) return PITH_OK;
    const uint64_t count = blocks_of(c, &first);
    pithi_parallel_begin(c->work);
    PITHI_TRY(pithi_parallel_blocks(c, first, count, check_job, c));
    const struct pithi_payload *p = &c->frame.payload;
    if (!c->frame.exempt_bytes ||
        checksum(c, c->bytes + p->exempt_values, (size_t)pithi_pad16(c->frame.exempt_bytes),
                 p->blocks) == pithi_get64(c->bytes + p->checks + 8 * p->blocks))
        return PITH_OK;
    return pithi_fail_at(&c->work->error, PITH_ERR_CHECKSUM, "the exempt values' checksum differs",
                         c->frame.header_bytes + p->exempt_values);
}

/* Whether the frame has more blocks than the plan, whose work has memory for that many offsets. */
static bool too_many_blocks(const struct pithi_coding *c) {
    return !c->frame.payload.fixed && c->frame.payload.blocks > c->plan->blocks;
}

/* Fails with the first difference between a frame and what the slot of a plan makes. */
static pith_status compare(const struct pithi_frame *f, const struct pithi_frame *wanted,
                           pith_error *error) {
    const struct pithi_params *const given = &f->params, *const p = &wanted->params;
    if (given->codec != p->codec)
        return pithi_fail_with(error, PITH_ERR_MISMATCH, 0, "the frame is of codec $, expected $",
                               &(struct pithi_words){.name = {given->codec->name, p->codec->name}});
    if (given->dtype != p->dtype || given->base_dtype != p->base_dtype)
        return pithi_fail_with(
            error, PITH_ERR_MISMATCH, 0, "the frame's dtype or base dtype is $, expected $",
            &(struct pithi_words){
                .name = {
                    pith_dtype_name(given->dtype != p->dtype ? given->dtype : given->base_dtype),
                    pith_dtype_name(given->dtype != p->dtype ? p->dtype : p->base_dtype)}});
    if (f->count != wanted->count)
        return pithi_fail_numbers(error, PITH_ERR_MISMATCH, "the slot has # elements, the frame #",
                                  wanted->count, f->count);
    if (!pithi_params_same(given, p)) {
        char spec[2][PITH_SPEC_MAX];
        pithi_spec_print(p, spec[0], sizeof spec[0]);
        pithi_spec_print(given, spec[1], sizeof spec[1]);
        spec[0][100] = spec[1][100] = 0; /* space for both in the text */
        return pithi_fail_with(error, PITH_ERR_MISMATCH, 0, "expected a frame of $, found $",
                               &(struct pithi_words){.name = {spec[0], spec[1]}});
    }
    if (!pithi_frame_same_tiles(f, wanted) || !pithi_frame_same_exempt(f, wanted))
        return pithi_fail(error, PITH_ERR_MISMATCH,
                          "the frame's blocks or exempt ranges are not the slot's");
    return PITH_OK;
}

/* Finds the payload of a frame whose header is read. The slot begins at element `origin` of the
 * plan's exempt elements. */
static pith_status open_payload(struct pithi_coding *c, uint64_t origin, const uint8_t *bytes,
                                size_t length) {
    pith_error *const error = &c->work->error;
    if (c->frame.payload_bytes > length - c->frame.header_bytes)
        return pithi_fail_with(
            error, PITH_ERR_TRUNCATED, length, "the frame has # bytes, found #",
            &(struct pithi_words){
                .number = {c->frame.header_bytes + c->frame.payload_bytes, length}});
    c->bytes = (uint8_t *)(uintptr_t)bytes + c->frame.header_bytes;
    c->first = 0;
    c->count = c->frame.count;
    if (c->frame.exempt_bytes)
        c->exempt_values = (struct pithi_exempt_values){&c->plan->exempt, origin,
                                                        c->bytes + c->frame.payload.exempt_values};
    if (too_many_blocks(c))
        return pithi_fail_numbers(
            error, PITH_ERR_MISMATCH,
            "another plan's frame: it has # blocks, those of the plan at most #",
            c->frame.payload.blocks, c->plan->blocks);
    c->frame.params.most = c->plan->params.most;
    memcpy(c->frame.params.extent, c->plan->params.extent, sizeof c->frame.params.extent);
    c->frame.params.decode_only = c->plan->params.decode_only;
    return check_tables(c);
}

pith_status pithi_decode_open(struct pithi_coding *c, pith_work *work, const pith_plan *plan,
                              const void *frame, size_t bytes) {
    c->work = work;
    c->plan = plan;
    PITHI_TRY(pithi_frame_read(frame, bytes, &c->frame, &work->error));
    return open_payload(c, 0, frame, bytes);
}

pith_status pithi_decode_slot(struct pithi_coding *c, pith_work *work, const pith_plan *plan,
                              uint64_t slot, const void *frame, size_t bytes) {
    c->work = work;
    c->plan = plan;
    pithi_plan_frame(plan, slot, false, &c->frame);
    const uint64_t origin = c->frame.exempt_origin;
    if (!pithi_frame_recognize(&c->frame, frame, bytes)) {
        const struct pithi_frame wanted = c->frame;
        PITHI_TRY(pithi_frame_read(frame, bytes, &c->frame, &work->error));
        PITHI_TRY(compare(&c->frame, &wanted, &work->error));
    }
    PITHI_TRY(open_payload(c, origin, frame, bytes));
    return pithi_check_blocks(c);
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* Limits the block to the elements that are wanted of it. */
static void cut_block(const struct pithi_coding *c, struct pithi_block *b) {
    const uint64_t end = b->first + b->count, last = c->first + c->count;
    if (c->first > b->first) b->paged.from = (size_t)(c->first - b->first);
    if (last < end) b->paged.until = (size_t)(last - b->first);
}

/* Decodes a block into out, or, where that is NULL, to output; where both are NULL, values go
 * nowhere. */
static pith_status decode_block(const struct pithi_coding *c, uint64_t block, void *out,
                                uint32_t out_dtype, void *base, struct pithi_worker *w,
                                struct pithi_output *output) {
    struct pithi_block b;
    pithi_block_open(c, block, base, w, &b);
    struct pithi_tile tile;
    set_tile_and_section(c, block, &tile, &b);
    b.bytes = (uint8_t *)(uintptr_t)pithi_block_at(c, block, &b.length, &b.plain);
    b.out = out;
    b.out_dtype = out_dtype;
    b.tiled.output = output;
    if (output && output->count == c->frame.count)
        pithi_find_tile_layout(&c->frame, &tile, output->view, &b.tiled.layout);
    if (out == w->values) b.nontemporal = false; /* they are read again, on their way to the view */
    if (c->frame.tiling.runs && !c->update) cut_block(c, &b);
    const struct pithi_codec *const codec = c->frame.params.codec;
    const pith_status status = c->add                 ? codec->decode_add(&b)
                               : codec->decode_placed ? codec->decode_placed(&b)
                                                      : codec->decode(&b);
    pithi_collect(w, &b);
    if (status == PITH_OK) keep_sum(c, block, &b, w);
    return status;
}

pith_status pithi_decode_one(const struct pithi_coding *c, uint64_t block, void *out,
                             uint32_t out_dtype, void *base, struct pithi_worker *w) {
    return decode_block(c, block, out, out_dtype, base, w, NULL);
}

static pith_status decode_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *c = arg;
    if (!pithi_touches(&c->frame, block, c->first, c->count)) return PITH_OK;
    const bool placed = c->frame.params.codec->decode_placed;
    void *const place = c->view ? pithi_place(&c->frame, block, c->first, c->count, c->view) : NULL;
    void *const out = place || !c->view || placed ? place : w->values;
    const uint32_t dtype = c->view ? c->view->dtype : c->frame.params.dtype;
    pithi_move_fn *const move = c->nontemporal ? c->plan->kernels.move_nontemporal : NULL;
    struct pithi_output output = {&c->frame, c->view, c->first, c->count, move, {0}};
    PITHI_TRY(decode_block(c, block, out, dtype, read_base(c, block, w), w,
                           c->view && !out ? &output : NULL));
    if (out && !place) pithi_block_store(&c->frame, block, c->first, c->count, c->view, out, move);
    write_base(c, block, w);
    return PITH_OK;
}

pith_status pithi_check_heads(const struct pithi_coding *c) {
    const struct pithi_frame_hooks *const hooks = c->frame.params.codec->frame_hooks;
    if (!hooks || !hooks->check_heads || c->count != c->frame.count) return PITH_OK;
    const char *const fault = hooks->check_heads(c);
    return fault ? pithi_fail(&c->work->error, PITH_ERR_CORRUPT, fault) : PITH_OK;
}

pith_status pithi_admit(struct pithi_coding *c) {
    const struct pithi_frame_hooks *const hooks = c->frame.params.codec->frame_hooks;
    if (hooks && hooks->admit) PITHI_TRY(hooks->admit(c));
    return pithi_check_heads(c);
}

pith_status pithi_decode_blocks(struct pithi_coding *c) {
    uint64_t first;
    const uint64_t count = blocks_of(c, &first);
    PITHI_TRY(pithi_admit(c));
    c->nontemporal = c->view && c->count * c->view->element >= PITHI_LARGE_OUTPUT;
    pithi_parallel_begin(c->work);
    PITHI_TRY(pithi_parallel_blocks(c, first, count, decode_job, c));
    pithi_parallel_results(c->work, c->work->worker, &c->hash, &c->saturated, &c->poisoned);
    return PITH_OK;
}
