/* helpers.h - what the Python package does in C: views of tensors, and calls in one step.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The functions are called through cffi, without the interpreter's lock; those that look into
 * objects of Python take it. */
#ifndef PITH_PYTHON_HELPERS_H
#define PITH_PYTHON_HELPERS_H

#include "pith/pith.h"

/* Why an object of Python is no view: the lowest 8 bits of what the functions below return. The
 * bits above them have what was found. */
enum {
    PITHPY_OK = 0,
    PITHPY_OTHER = 1,     /* not a capsule of the kind, or one that was used already */
    PITHPY_READ_ONLY = 2, /* its values are to be written */
    PITHPY_STRIDES = 3,   /* its strides are no multiple of its element's bytes */
    PITHPY_NDIM = 4,      /* more than PITH_MAX_NDIM dimensions: their number */
    PITHPY_DEVICE = 5,    /* not in the memory of the CPU: DLPack's device type */
    PITHPY_DTYPE = 6      /* no dtype of pith: DLPack's code, bits and lanes */
};

/* The view of a NumPy array, from the address of the object that its __array_struct__ gives. */
int64_t pithpy_view_numpy(pith_view *view, size_t object, uint32_t dtype, int write);
/* The view of a tensor, from the address of the object that its __dlpack__() gives. The object
 * stays as it is and must live as long as the view is used. */
int64_t pithpy_view_dlpack(pith_view *view, size_t object, int write);
/* A view from its parts. strides NULL: dense. */
void pithpy_view_set(pith_view *view, size_t data, uint32_t dtype, uint32_t ndim,
                     const uint64_t *shape, const int64_t *strides);

/* pith_encode and pith_decode of one item: the frame's bytes, or the status when that is negative.
 * A decoder's frame is as the item says. */
int64_t pithpy_encode(pith_work *work, pith_item *item, uint32_t flags);
int64_t pithpy_decode(pith_work *work, pith_item *item, const void *frame, size_t bytes,
                      uint32_t flags);

/* pith_encode of a list, item i into memory + offsets[i] with room up to offsets[i + 1]; lengths[i]
 * is set to the frame's bytes, 0 where it failed. */
int pithpy_encode_list(pith_work *work, pith_item *items, size_t count, char *memory,
                       const uint64_t *offsets, uint32_t flags, uint64_t *lengths);

/* Pair i: the values at `values` + ids[i] * value_step bytes, the page at `pages` + i * page_step,
 * of tokens[i] tokens. */
void pithpy_pairs(pith_kv_pair *pairs, size_t count, char *values, int64_t value_step,
                  const int64_t *ids, char *pages, int64_t page_step, const uint32_t *tokens);

#endif
