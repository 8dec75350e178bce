/* page.h - blocks that have several strings, of entropy-coded pages and of exact values: where
 * their parts lie.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block has a string for each byte of the numbers of groups, a plane, and one for the codes of
 * each head. Planes are pieces: one of few bytes that are not 0 is cut into a map of these and
 * them, the map again, so that a plane has several strings. Symbols lie in the workspace, a byte
 * each. */
#ifndef PITHI_GPU_DEVICE_BYTES_PAGE_H
#define PITHI_GPU_DEVICE_BYTES_PAGE_H

#include "device/bytes/frame.h"
#include "device/predict/tiles.h"

enum { PITHI_PAGE_BOUND = 8 };

PITHI_DEVICE struct pithi_coded_page pithi_coded_page(const struct pithi_device_plan *p,
                                                      const struct pithi_gpu_item *it,
                                                      uint64_t number) {
    const struct pithi_tiling *const t = &it->slot->tiling;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const uint64_t run = number / t->grid[2], page = number % t->grid[2];
    const uint64_t left = t->shape[2] - page * t->extent[2];
    struct pithi_coded_page g;
    g.tokens = left < t->extent[2] ? (uint32_t)left : t->extent[2];
    g.heads = it->slot->pages.heads;
    g.dim = it->slot->pages.dim;
    g.count = g.tokens * g.heads * g.dim;
    g.first = (run * t->shape[2] + page * t->extent[2]) * t->shape[3];
    g.at = it->form->data + run * it->form->run_bytes + page * it->form->block_bytes;
    g.width = (uint32_t)pithi_scale_width(set->scale_dtype);
    g.planes = g.width * (set->asymmetric ? 2u : 1u);
    g.groups = p->device.pages.channel
                   ? (g.tokens + set->group - 1) / set->group * g.heads * g.dim
                   : g.tokens * g.heads * ((g.dim + set->group - 1) / set->group);
    g.string = (uint32_t)pithi_group_code_bytes(set, g.dim);
    g.codes = (uint32_t)pithi_pad16((uint64_t)g.groups * g.planes);
    g.length = g.codes + (uint32_t)pithi_pad16((uint64_t)g.tokens * g.heads * g.string);
    return g;
}

PITHI_DEVICE bool pithi_coded_paged(const struct pithi_device_plan *p) {
    return p->device.kind == PITHI_KIND_PAGES;
}
PITHI_DEVICE bool pithi_coded_exact(const struct pithi_device_plan *p) {
    return p->device.kind == PITHI_KIND_RAW;
}
PITHI_DEVICE bool pithi_coded_zeros(const struct pithi_device_plan *p) {
    return p->device.kind == PITHI_KIND_ZEROS;
}
PITHI_DEVICE bool pithi_coded_tiles(const struct pithi_device_plan *p) {
    return p->device.kind == PITHI_KIND_BOUNDED;
}
/* Whether a block has several strings. */
PITHI_DEVICE bool pithi_coded_parted(const struct pithi_device_plan *p) {
    return pithi_coded_paged(p) || pithi_coded_exact(p) || pithi_coding_bounded(p);
}

/* Elements of a block of exact values. */
PITHI_DEVICE uint32_t pithi_lossless_count(const struct pithi_device_plan *p,
                                           const struct pithi_gpu_item *it, uint64_t number) {
    const uint64_t size = (uint64_t)1 << p->block_log2, left = it->slot->count - number * size;
    return (uint32_t)(left < size ? left : size);
}

/* The most bytes of a block; and whether it has an element that is wanted. */
PITHI_DEVICE uint32_t pithi_coded_most(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_item *it, uint64_t number) {
    if (pithi_coded_paged(p)) return pithi_coded_page(p, it, number).length;
    if (pithi_coded_exact(p))
        return pithi_lossless_count(p, it, number) * pithi_dtype_bytes(p->dtype);
    const struct pithi_coded_block b = pithi_coded_block(p, it, number);
    return b.scales + (uint32_t)pithi_pad16(b.codes);
}
PITHI_DEVICE bool pithi_coded_touches(const struct pithi_gpu_call *a, uint64_t first,
                                      uint32_t count) {
    if (a->first >= first + count) return false;
    return a->first >= first ? a->count > 0 : first - a->first < a->count;
}

/* Where byte `plane` of the numbers of a group is in the page. */
PITHI_DEVICE uint32_t pithi_plane_byte(const struct pithi_device_plan *p,
                                       const struct pithi_coded_page *g, uint32_t plane,
                                       uint32_t group) {
    const uint32_t numbers = g->planes / g->width, row = g->heads * g->dim;
    const uint32_t number = plane / g->width, byte = plane % g->width;
    if (!p->device.pages.channel) return (group * numbers + number) * g->width + byte;
    return ((group / row * numbers + number) * row + group % row) * g->width + byte;
}

/* ---- The workspace ---------------------------------------------------------------------------*/

PITHI_DEVICE struct pithi_rans_piece *pithi_coding_piece(const struct pithi_gpu_call *a,
                                                         uint64_t frame, uint64_t block,
                                                         uint32_t string) {
    uint8_t *const pieces = pithi_coding_of(a, frame) + a->coding.pieces;
    return (struct pithi_rans_piece *)(void *)pieces + block * a->coding.strings + string;
}
/* Symbols of a block: of planes, each with what it is cut into, then of heads. */
PITHI_DEVICE uint8_t *pithi_coding_symbols(const struct pithi_gpu_call *a, uint64_t frame,
                                           uint64_t block) {
    return pithi_coding_of(a, frame) + a->coding.symbols + block * a->coding.symbols_each;
}
PITHI_DEVICE uint8_t *pithi_coding_plane(const struct pithi_gpu_call *a,
                                         const struct pithi_coded_page *g, uint64_t frame,
                                         uint64_t block, uint32_t plane) {
    return pithi_coding_symbols(a, frame, block) + plane * pithi_coding_plane_bytes(g->groups);
}
PITHI_DEVICE uint8_t *pithi_coding_head(const struct pithi_gpu_call *a,
                                        const struct pithi_coded_page *g, uint64_t frame,
                                        uint64_t block, uint32_t head) {
    return pithi_coding_plane(a, g, frame, block, g->planes) + (uint64_t)head * g->tokens * g->dim;
}
/* Space for the strings of a block. */
PITHI_DEVICE uint8_t *pithi_coding_strings(const struct pithi_gpu_call *a, uint64_t frame,
                                           uint64_t block) {
    return pithi_coding_of(a, frame) + a->coding.unplaced + block * a->coding.unplaced_each;
}
/* Space for the string of number `string`. */
PITHI_DEVICE uint8_t *pithi_coding_string(const struct pithi_gpu_call *a,
                                          const struct pithi_coded_page *g, uint64_t frame,
                                          uint64_t block, uint32_t string) {
    const uint32_t planes = g->planes * PITHI_PIECE_STRINGS;
    const uint64_t each = pithi_coding_string_bytes(g->groups);
    uint8_t *const strings = pithi_coding_strings(a, frame, block);
    if (string < planes) return strings + string * each;
    return strings + planes * each +
           (string - planes) * pithi_coding_string_bytes((uint64_t)g->tokens * g->string);
}

#endif
