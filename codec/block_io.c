/* block_io.c - the elements of a block, in a view and out of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "block_io.h"

#include <string.h>

#include "common/convert.h"

/* Walks the runs of a block one after the other; a block that is no tile is one run. */
struct runs {
    const struct pithi_frame *frame;
    struct pithi_tile tile;
    struct pithi_tile_run run;
    uint64_t next;
};

static struct runs runs_of(const struct pithi_frame *f, uint64_t block) {
    struct runs r = {.frame = f};
    if (pithi_is_tiled(f))
        r.tile = pithi_tile_at(&f->tiling, block);
    else
        r.tile = (struct pithi_tile){.origin = {block * f->params.block},
                                     .count = pithi_block_count(f, block)};
    return r;
}

/* Returns a block that is no tile, for which no walk is needed. */
static struct pithi_tile_run only_run(const struct pithi_frame *f, uint64_t block) {
    return (struct pithi_tile_run){.at = block * f->params.block,
                                   .count = pithi_block_count(f, block)};
}

static bool next_run(struct runs *r, struct pithi_tile_run *run) {
    const uint64_t number = r->next++;
    if (r->run.more) {
        pithi_tile_run_next(&r->run);
    } else if (pithi_is_tiled(r->frame)) {
        if (!pithi_tile_run_at(&r->frame->tiling, &r->tile, number, &r->run)) return false;
    } else {
        r->run = (struct pithi_tile_run){.at = r->tile.origin[0], .count = r->tile.count};
        if (number) return false;
    }
    *run = r->run;
    return true;
}

/* Cuts the run to what is in [first, first + count); false when nothing is. */
static bool cut_run(struct pithi_tile_run *run, uint64_t first, uint64_t count) {
    const uint64_t end = run->at + run->count, last = first + count;
    const uint64_t lo = run->at > first ? run->at : first, hi = end < last ? end : last;
    if (lo >= hi) return false;
    run->in += lo - run->at;
    run->at = lo;
    run->count = hi - lo;
    return true;
}

/* Prefetchers in hardware do not follow the short rows of a tile, so that the row which comes
 * PREFETCH_ROWS later is fetched here. Rows of more than LONG bytes need no help. */
enum { PREFETCH_ROWS = 8, LINE = 64, LONG = 1024 };

static void prefetch(const struct pithi_span *view, const struct pithi_tile_run *run, bool write) {
    const size_t bytes = (size_t)run->count * view->element;
    if (!view->dense || run->more < PREFETCH_ROWS || bytes > LONG) return;
    const uint8_t *const p = pithi_span_at(view, run->at + PREFETCH_ROWS * run->stride);
    for (size_t i = 0; i < bytes; i += LINE)
        if (write)
            __builtin_prefetch(p + i, 1);
        else
            __builtin_prefetch(p + i);
}

void *pithi_block_load(const struct pithi_frame *f, uint64_t block, const struct pithi_span *view,
                       void *buffer) {
    struct pithi_tile_run run;
    if (!pithi_is_tiled(f))
        return pithi_span_read(view, block * f->params.block, pithi_block_count(f, block), buffer);
    if (f->tiling.tiles == 1) return pithi_span_read(view, 0, f->count, buffer);
    struct runs r = runs_of(f, block);
    for (bool first = true; next_run(&r, &run); first = false) {
        if (first && run.count == r.tile.count)
            return pithi_span_read(view, run.at, run.count, buffer);
        prefetch(view, &run, false);
        uint8_t *const to = (uint8_t *)buffer + run.in * view->element;
        const void *from = pithi_span_read(view, run.at, run.count, to);
        if (from != to) memcpy(to, from, (size_t)(run.count * view->element));
    }
    return buffer;
}

static void put_run(const struct pithi_span *view, uint64_t at, uint64_t count, const uint8_t *from,
                    pithi_move_fn *move) {
    if (move && view->dense)
        move(pithi_span_at(view, at), from, (size_t)(count * view->element));
    else
        pithi_span_write(view, at, count, from);
}

void pithi_block_store(const struct pithi_frame *f, uint64_t block, uint64_t first, uint64_t count,
                       const struct pithi_span *view, const void *elements, pithi_move_fn *move) {
    struct runs r = runs_of(f, block);
    for (struct pithi_tile_run run; next_run(&r, &run);) {
        if (!move && count == f->count) prefetch(view, &run, true);
        if (cut_run(&run, first, count))
            put_run(view, run.at - first, run.count,
                    (const uint8_t *)elements + run.in * view->element, move);
    }
}

/* Moves o->run to the run that holds element `at` of the tile: mostly the run that it is at, or one
 * soon after it. */
static void find_run(struct pithi_output *o, const struct pithi_tile *tile, uint64_t at) {
    struct pithi_tile_run *const run = &o->run;
    if (!run->count || at < run->in) pithi_tile_run_at(&o->frame->tiling, tile, 0, run);
    if (at - run->in < run->count) return;
    const uint64_t skipped = (at - run->in) / run->count;
    if (skipped > run->more) {
        pithi_tile_run_at(&o->frame->tiling, tile, at / run->count, run);
        return;
    }
    run->at += skipped * run->stride;
    run->in += skipped * run->count;
    run->more -= skipped;
}

static void put_part(const struct pithi_block *b, uint64_t at, uint64_t count,
                     const uint8_t *values) {
    struct pithi_output *const o = b->tiled.output;
    while (count) {
        find_run(o, b->tiled.tile, at);
        const uint64_t skip = at - o->run.in, left = o->run.count - skip;
        const uint64_t n = left < count ? left : count;
        struct pithi_tile_run part = {.at = o->run.at + skip, .count = n};
        if (!o->move && o->count == o->frame->count && !skip) prefetch(o->view, &o->run, true);
        if (cut_run(&part, o->first, o->count))
            put_run(o->view, part.at - o->first, part.count, values + part.in * o->view->element,
                    o->move);
        at += n, count -= n;
        values += n * o->view->element;
    }
}

void pithi_block_put(void *block, size_t at, size_t count, const void *values) {
    enum { PART = 512 };
    const struct pithi_block *const b = block;
    const uint32_t dtype = b->params->dtype;
    const size_t from = pithi_dtype_bytes(dtype), to = pithi_dtype_bytes(b->out_dtype);
    const uint8_t *value = values;
    if (b->out && b->nontemporal && b->out_dtype == dtype)
        b->kernels->move_nontemporal((uint8_t *)b->out + at * to, values, count * to);
    else if (b->out)
        pithi_convert((uint8_t *)b->out + at * to, b->out_dtype, values, dtype, count);
    else if (b->tiled.output && b->out_dtype == dtype)
        put_part(b, at, count, values);
    else if (b->tiled.output)
        for (size_t n; count; at += n, count -= n, value += n * from) {
            uint64_t part[PART];
            n = count < PART ? count : PART;
            pithi_convert(part, b->out_dtype, value, dtype, n);
            put_part(b, at, n, (const uint8_t *)part);
        }
}

void *pithi_place(const struct pithi_frame *f, uint64_t block, uint64_t first, uint64_t count,
                  const struct pithi_span *view) {
    struct pithi_tile_run run;
    if (!view->dense) return NULL;
    if (pithi_is_tiled(f)) {
        struct runs r = runs_of(f, block);
        if (!next_run(&r, &run) || run.count != r.tile.count) return NULL;
    } else {
        run = only_run(f, block);
    }
    const uint64_t all = run.count;
    return cut_run(&run, first, count) && run.count == all ? pithi_span_at(view, run.at - first)
                                                           : NULL;
}

bool pithi_find_tile_layout(const struct pithi_frame *f, const struct pithi_tile *tile,
                            const struct pithi_span *view, struct pithi_tile_layout *layout) {
    struct pithi_tile_run run;
    if (!view->dense || tile->count == f->count || !pithi_tile_run_at(&f->tiling, tile, 0, &run) ||
        run.count == tile->count)
        return false;
    *layout = (struct pithi_tile_layout){pithi_span_at(view, 0), view->element, &f->tiling, tile};
    return true;
}

const void *pithi_block_values(struct pithi_block *b) {
    enum { STEP = 256, PREFETCH = 4 * STEP };
    struct pithi_tile_layout_walk walk, further;
    if (b->value) return b->value;
    pithi_tile_layout_begin(&walk, &b->tiled.layout);
    pithi_tile_layout_begin(&further, &b->tiled.layout);
    pithi_tile_layout_prefetch(&further, PREFETCH);
    for (size_t at = 0; at < b->count; at += STEP) {
        const size_t left = b->count - at;
        pithi_tile_layout_prefetch(&further, STEP);
        pithi_tile_layout_read(&walk, left < STEP ? left : STEP,
                               (uint8_t *)b->tiled.buffer + at * b->tiled.layout.element);
    }
    return b->value = b->tiled.buffer;
}

bool pithi_touches(const struct pithi_frame *f, uint64_t block, uint64_t first, uint64_t count) {
    struct pithi_tile_run run;
    if (!pithi_is_tiled(f)) {
        run = only_run(f, block);
        return cut_run(&run, first, count);
    }
    for (struct runs r = runs_of(f, block); next_run(&r, &run);)
        if (cut_run(&run, first, count)) return true;
    return false;
}
