/* tensors.h - a tensor file of any format as a list of tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_TENSORS_H
#define PITH_CLI_TENSORS_H

#include "cli.h"
#include "io.h"
#include "npy.h"
#include "pith/pith.h"
#include "safetensors.h"

/* One tensor: how a frame holds it (dtype, ndim, shape) and how the file does (the rest). Dtypes
 * that pith does not have are bytes in a row; so are more than PITH_MAX_NDIM dimensions flat. */
struct tensor {
    const char *name; /* "" for the only tensor of a .npy or raw file */
    uint32_t dtype;
    uint32_t ndim;
    uint64_t shape[PITH_MAX_NDIM];
    uint32_t rank; /* dimensions that the file states */
    uint32_t item_bytes;
    bool fortran_order;     /* first dimension fastest */
    bool swapped;           /* the other byte order than this machine's */
    bool opaque;            /* bytes of a dtype that pith does not have */
    const struct input *in; /* the file that holds the values, at `offset` */
    uint64_t offset;
    uint64_t bytes;
};

/* What the command line or a frame knows about a file beforehand. */
struct tensor_hint {
    uint32_t dtype; /* PITH_NONE: unknown */
    bool has_shape;
    uint32_t ndim;
    uint64_t shape[PITH_MAX_NDIM];
};

/* Computes the bytes of such a tensor; false when no file can have so many. */
bool tensor_hint_bytes(const struct tensor_hint *hint, uint64_t *bytes);

enum tensor_format { FORMAT_RAW, FORMAT_NPY, FORMAT_SAFETENSORS };

struct tensor_set {
    enum tensor_format format;
    struct input in;
    struct npy npy;
    struct safetensors st;
    struct tensor *items;
    const struct tensor **by_name;
    size_t count;
    uint64_t bytes; /* bytes of all tensors */
};

/* Opens a file by its content; a file of no known format is raw when the hint has dtype and shape.
 * exact: the hint came from the user, so a shape means raw and a dtype that does not fit is an
 * error. Says what is wrong and returns an exit code. Tensors point into the set: it must not
 * move. */
int tensors_open(struct tensor_set *set, const char *path, const struct tensor_hint *hint,
                 bool exact);
void tensors_close(struct tensor_set *set);
/* Opens a .safetensors file by its header, which stays mapped. Says what is wrong, after the
 * lead. */
int st_open(struct input *in, struct safetensors *st, const char *lead);
/* Returns NULL when there is no tensor of this name. */
const struct tensor *tensors_find(const struct tensor_set *set, const char *name);

/* Sets the frame's side of a tensor from the file's. dtype reinterprets unsigned and void items of
 * its size (bf16 has no name of its own in .npy); PITH_NONE and misfits leave the natural dtype. */
void tensor_from_npy(struct tensor *t, const struct npy *npy, uint32_t dtype);
void tensor_from_safetensors(struct tensor *t, const struct st_tensor *entry);
uint64_t tensor_count(const struct tensor *t);
bool tensor_same_shape(const struct tensor *a, const struct tensor *b);

/* A shape as text: "4x1024", or "scalar". */
struct shape_text {
    char text[PITH_MAX_NDIM * 21 + 1];
};
struct shape_text shape_text(const uint64_t *shape, uint32_t ndim);
/* Returns the shape of a tensor as text. Of a tensor that is one dimension to the library, for its
 * number of dimensions or its items, the shape in the file is not kept. */
struct shape_text tensor_shape_text(const struct tensor *t);
/* Says that the base's tensor has not the shape of the one it is for; returns EXIT_FAILED. */
int say_other_shape(const char *base_path, const struct tensor *base, const struct tensor *tensor);

/* Memory in which one tensor of a file is visible, and its values in the machine's byte order. */
struct tensor_memory {
    struct mapping mapping;
    struct scratch swapped;
};
/* Returns the bytes as they are in the file, until the next call with this memory. NULL (said on
 * stderr) when there is no memory. */
const uint8_t *tensor_bytes(const struct tensor *t, struct tensor_memory *memory);
/* Returns the values in this machine's byte order, in the file's order of elements. */
const void *tensor_values(const struct tensor *t, struct tensor_memory *memory);
void tensor_memory_free(struct tensor_memory *memory);
/* Returns a view of values that tensor_values returned. */
pith_view tensor_view(const struct tensor *t, const void *values);
/* Reverses the bytes of every item, in place. */
void swap_items(uint8_t *bytes, uint64_t count, uint32_t item_bytes);

#endif
