/* helpers.h - what the Python package does in C: views of tensors, and calls in one step.
 * SPDX-License-Identifier: Apache-2.0
 *
 * cffi calls these functions without the interpreter's lock; those that look into objects of Python
 * take it. */
#ifndef PITH_PYTHON_HELPERS_H
#define PITH_PYTHON_HELPERS_H

#include "pith/pith.h"

/* ---- Views -----------------------------------------------------------------------------------
 * A tensor is an object of Python, given by its address (id), and how it says where it lies. */
enum {
    PITHPY_NOTHING = 0, /* no tensor: a view of dtype PITH_NONE */
    PITHPY_NUMPY = 1,   /* object: what __array_struct__ gives; more: the dtype */
    PITHPY_DLPACK = 2,  /* object: the capsule that __dlpack__() gives, which stays as it is */
    PITHPY_EXCHANGE = 3 /* object: the tensor; more: the pointer of its type's
                           __dlpack_c_exchange_api__ (pithpy_exchange) */
};

/* Why an object is no view: the lowest 8 bits of a refusal. The bits above have what was found. */
enum {
    PITHPY_OTHER = 1,     /* not a capsule of the kind, or the object raised an exception */
    PITHPY_READ_ONLY = 2, /* its values are to be written */
    PITHPY_STRIDES = 3,   /* its strides are no multiple of its element's bytes */
    PITHPY_NDIM = 4,      /* more than PITH_MAX_NDIM dimensions: their number */
    PITHPY_DEVICE = 5,    /* not in the memory of the CPU: DLPack's device type */
    PITHPY_DTYPE = 6      /* no dtype of pith: DLPack's code, bits and lanes */
};

/* Fill a view, which is good while the object lives; 0, or a refusal. */
int64_t pithpy_view(pith_view *view, int kind, size_t object, size_t more, int write);
/* Fill the views of items, as pithpy_view does one; *which is the item that was refused. */
int64_t pithpy_views(pith_item *items, size_t count, const int *kinds, const size_t *objects,
                     const size_t *more, int write, size_t *which);
/* The same of a list of tensors at once: all of one type, NumPy's arrays (PITHPY_NUMPY; more: the
 * dictionary of numbers by dtype) or a type of PyTorch (PITHPY_EXCHANGE; more: as above). 0 where
 * one of them is not, or is refused: then some views are filled. */
int pithpy_alike(pith_item *items, size_t count, size_t list, int kind, size_t more, int write);
/* The pointer in a capsule of __dlpack_c_exchange_api__, where it can be used; else 0. */
size_t pithpy_exchange(size_t capsule);

/* ---- Marks -----------------------------------------------------------------------------------
 * The library's calls that only read a stream or a cache mark nothing, and nothing may change it
 * until they return. The package promises more, an exception, and has a mark for each object: 0: no
 * call uses it; n: so many calls that only read it; negative: a call of one thread that may change
 * it. That thread may enter again: it is inside no call of the library then, but an exception of a
 * signal's handler came between enter and leave, or the handler itself makes the call. */

/* Mark all for a call that may change them. 0, or PITH_ERR_BUSY where one is in use; then none was
 * marked. */
int pithpy_enter(intptr_t *const *marks, size_t count);
void pithpy_leave(intptr_t *const *marks, size_t count);

/* The library's calls that only read a cache, with the mark of a reader for as long as they run: an
 * exception of a signal's handler comes before or after, and leaves no reader behind. */
int pithpy_kv_read(pith_work *work, const pith_kv *cache, intptr_t *mark, uint64_t first,
                   uint64_t count, uint32_t head, uint32_t heads, const pith_view *view);
int pithpy_kv_read_add(pith_work *work, const pith_kv *cache, intptr_t *mark, uint64_t first,
                       uint64_t count, const pith_view *base);
int pithpy_kv_fork(pith_work *work, const pith_kv *parent, intptr_t *mark, uint64_t tokens,
                   uint32_t flags, void *memory, size_t bytes, pith_kv **child);
/* *bytes is set to what it takes; nothing is written where that is more than cap. */
int pithpy_kv_save(pith_work *work, const pith_kv *cache, intptr_t *mark, void *dst, size_t cap,
                   size_t *bytes);
int pithpy_kv_stats(const pith_kv *cache, intptr_t *mark, pith_stats *out);

/* ---- Calls -----------------------------------------------------------------------------------
 * mark is that of the stream, which the call takes for itself; else PITH_ERR_BUSY. The result is
 * what the text says where it is not negative; a status from -1 on down; and at or below
 * PITHPY_REFUSED, PITHPY_REFUSED less a refusal of the tensor. */
enum { PITHPY_REFUSED = -1000 };

/* pith_encode of one tensor: the frame's length. list: 0, and the frame goes to `capacity` bytes at
 * `frame`; or a list of one element, which becomes the frame as an object of type bytes. Where its
 * length is known beforehand it is encoded there, else to `frame`, and copied. */
int64_t pithpy_encode(pith_work *work, pith_item *item, intptr_t *mark, pith_stream *stream,
                      uint64_t slot, uint32_t flags, void *frame, size_t capacity, int kind,
                      size_t object, size_t more, size_t list);
/* pith_decode of one frame: 0. */
int64_t pithpy_decode(pith_work *work, pith_item *item, intptr_t *mark, pith_stream *stream,
                      uint64_t slot, uint32_t flags, const void *frame, size_t length, int kind,
                      size_t object, size_t more);
/* pith_encode of a list, item i to memory + offsets[i] with room up to offsets[i + 1]. list: 0 or a
 * list of as many elements, which become the frames as above; those whose lengths are known need no
 * room. lengths may be NULL; lengths[i] is set to the frame's bytes, 0 where it failed. */
int pithpy_encode_list(pith_work *work, pith_item *items, size_t count, char *memory,
                       const uint64_t *offsets, uint32_t flags, size_t list, uint64_t *lengths);

/* Frame i is that of the list, which must live as long as they are used. 0 where one is not of type
 * bytes. */
int pithpy_frames(pith_item *items, size_t count, size_t list);

/* Pair i: the values at `values` + ids[i] * value_step bytes, the page at `pages` + i * page_step,
 * of tokens[i] tokens. */
void pithpy_pairs(pith_kv_pair *pairs, size_t count, char *values, int64_t value_step,
                  const int64_t *ids, char *pages, int64_t page_step, const uint32_t *tokens);

#endif
