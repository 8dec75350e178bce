/* refdec_tile.c - tensors cut into tiles, and what codecs with a bound share.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "refdec.h"

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

static void four_dimensions(struct ref_frame *f) {
    for (int d = 0; d < 4; d++) f->shape[d] = 1;
    for (unsigned i = 0; i < f->ndim; i++) {
        const unsigned behind = f->ndim - 1 - i;
        f->shape[behind < 4 ? 3 - behind : 0] *= f->dim[i];
    }
}

bool ref_cut_tiles(struct ref_frame *f, void (*extents)(struct ref_frame *f)) {
    f->tiles = 0;
    if (f->n == 0) return true;
    four_dimensions(f);
    for (int d = 0; d < 4; d++) f->extent[d] = 1;
    extents(f);
    f->tiles = 1;
    for (int d = 0; d < 4; d++) {
        f->extent[d] = least(f->extent[d], f->shape[d]);
        f->grid[d] = ceil_div(f->shape[d], f->extent[d]);
        f->tiles *= f->grid[d];
    }
    return true;
}

struct ref_tile ref_tile(const struct ref_frame *f, uint64_t number) {
    struct ref_tile t = {.count = 1};
    for (int d = 3; d >= 0; d--) {
        t.origin[d] = number % f->grid[d] * f->extent[d];
        t.extent[d] = least(f->extent[d], f->shape[d] - t.origin[d]);
        t.count *= t.extent[d];
        number /= f->grid[d];
    }
    return t;
}

uint64_t ref_tile_first(const struct ref_frame *f, const struct ref_tile *t) {
    uint64_t at = 0;
    for (int d = 0; d < 4; d++) at = at * f->shape[d] + t->origin[d];
    return at;
}

void ref_place_tile(const struct ref_frame *f, const struct ref_tile *t, const uint8_t *values,
                    uint8_t *out) {
    const unsigned bytes = ref_dtype_bytes(f->dtype);
    for (uint64_t i = 0; i < t->count; i++) {
        uint64_t rest = i, place[4], at = 0;
        for (int d = 3; d >= 0; d--) {
            place[d] = t->origin[d] + rest % t->extent[d];
            rest /= t->extent[d];
        }
        for (int d = 0; d < 4; d++) at = at * f->shape[d] + place[d];
        memcpy(out + at * bytes, values + i * bytes, bytes);
    }
}

enum ref_status ref_check_bounded(const struct ref_frame *f, unsigned modes, unsigned kinds,
                                  unsigned end) {
    const uint8_t *p = f->parameter;
    REJECT_IF(p[0] < 1 || p[0] > 22 || p[1] >= modes || p[2] > 1);
    REJECT_IF(p[3] < 1 || p[3] > kinds || !ref_zeros(p, end, 16));
    return ref_check_requested(p[3], ref_le(p + 4, 4));
}

static double double_at(const uint8_t *bytes) {
    const uint64_t u = ref_le(bytes, 8);
    double x;
    memcpy(&x, &u, 8);
    return x;
}

enum ref_status ref_read_bound(const uint8_t *body, uint64_t length, struct ref_frame *f) {
    REJECT_IF(length != 24 || ref_le(body + 4, 4));
    const double bound = double_at(body + 8), largest = double_at(body + 16);
    f->bound_kind = (unsigned)ref_le(body, 4);
    f->bound = bound;
    REJECT_IF(f->bound_kind < 1 || f->bound_kind > 2);
    REJECT_IF(!(largest >= 0) || !isfinite(largest));
    if (f->bound_kind == 2) {
        REJECT_IF(!(bound > 0 && bound < 1));
    } else {
        REJECT_IF(signbit(bound) || !(bound >= 0) || bound != largest || !isfinite(2 * bound));
        REJECT_IF(f->dtype != F64 && (2 * bound > FLT_MAX || (double)(float)bound != bound));
    }
    return REF_OK;
}
