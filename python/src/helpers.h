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
/* The pointer in a capsule of __dlpack_c_exchange_api__, where it can be used; else 0. */
size_t pithpy_exchange(size_t capsule);

/* ---- Marks -----------------------------------------------------------------------------------
 * Calls with the mark of each object that they use (marks.h), which they enter and leave: calls.def
 * lists them. PITH_ERR_BUSY where another call uses one; then nothing was done. */
#define PITHPY_CHANGE(name, parameters, arguments) int pithpy_##name parameters;
#define PITHPY_READ(name, parameters, arguments) int pithpy_##name parameters;
#define PITHPY_ANSWER(name, parameters, arguments) int pithpy_##name parameters;
#define PITHPY_LIST(name, reading, parameters, arguments) int pithpy_##name##_list parameters;
#include "calls.def"

/* pith_stream_bind_base to memory that an object of Python, given by its address, keeps: it becomes
 * attribute _base of `owner`, the stream's object, where the call succeeds. */
int pithpy_stream_bind_base(pith_work *work, pith_stream *stream, intptr_t *mark, void *base,
                            uint64_t step, size_t owner, size_t keeper);
/* As pith_kv_save, for a reader. *bytes is set to what it takes; nothing is written where that is
 * more than cap. */
int pithpy_kv_save(pith_work *work, const pith_kv *cache, intptr_t *mark, void *dst, size_t cap,
                   size_t *bytes);

/* ---- Calls -----------------------------------------------------------------------------------*/

/* Calls on tensors of up to so many elements keep the interpreter's lock. */
enum { PITHPY_BRIEF = 1024 };
/* What the functions encode and decode of Python (_core.pyi) take for a stream. */
typedef struct {
    pith_stream *stream;
    intptr_t *mark;
    int brief; /* its tensor has at most PITHPY_BRIEF elements */
} pithpy_end;
/* Add the functions of _core.pyi to a module of Python. By address (id), as the module: a tuple of
 * what views.py calls direct, source_of, bytes_at, refused, and errors.py made. Not 0 where that
 * failed. */
int pithpy_add_functions(size_t module, size_t objects);

/* Ask for huge pages for new memory, as NumPy does for arrays of as many bytes: to take fresh pages
 * of 4 KiB one by one takes several times as long as raw takes to fill them. Nothing below 4 MiB:
 * malloc has written into too many of the pages by then. Where the kernel has none all is as
 * before. */
void pithpy_ask_for_huge_pages(char *memory, size_t bytes);

/* pith_encode of a list, with the marks of its streams, item i to memory + offsets[i] with space up
 * to offsets[i + 1]. list: 0 or a list of as many elements, which become the frames as objects of
 * type bytes; those whose lengths are known are encoded there, and need no space; the others are
 * copied. lengths may be NULL; lengths[i] is set to the bytes
 * of frame i, 0 where it failed. */
int pithpy_encode_list(pith_work *work, intptr_t *const *marks, size_t marked, pith_item *items,
                       size_t count, char *memory, const uint64_t *offsets, uint32_t flags,
                       size_t list, uint64_t *lengths);
/* pith_reduce_encode of a list, with the marks of the streams of sums and items; the rest is as
 * above, and list is not 0. */
int pithpy_reduce_encode_list(pith_work *work, intptr_t *const *marks, size_t marked,
                              const pith_sum *sums, pith_item *items, size_t count, char *memory,
                              const uint64_t *offsets, size_t list);

/* Frame i is that of the list, which must live as long as they are used. 0 where one is not of type
 * bytes. */
int pithpy_frames(pith_item *items, size_t count, size_t list);

/* Whether what a call writes shares memory with what it reads, which it would damage before it has
 * read it: a view, or any of a list, and a frame; the views of a list and its frames; the views of
 * sums and their frames. -1: there is no memory to see it. */
int pithpy_share(const pith_view *view, const char *data, size_t length);
/* The same of two views, but for two of the same elements in the same order. */
int pithpy_share_otherwise(const pith_view *view, const pith_view *other);
int pithpy_views_share(const pith_item *items, size_t count, const char *data, size_t length);
int pithpy_items_share(const pith_item *items, size_t count);
int pithpy_sums_share(const pith_sum *sums, size_t count);

/* Pair i: the values at `values` + ids[i] * value_step bytes, the page at `pages` + i * page_step,
 * of tokens[i] tokens. */
void pithpy_pairs(pith_kv_pair *pairs, size_t count, char *values, int64_t value_step,
                  const int64_t *ids, char *pages, int64_t page_step, const uint32_t *tokens);

#endif
