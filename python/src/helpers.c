/* helpers.c - what the Python package does in C: views of tensors, and calls in one step.
 * SPDX-License-Identifier: Apache-2.0 */
#include <Python.h>

#include "helpers.h"

static int64_t refusal(int why, int64_t found) { return why | found * 256; }

/* ---- NumPy -----------------------------------------------------------------------------------*/

/* What __array_struct__ points to; the layout is frozen (NumPy, "The array interface protocol"). */
struct array_interface {
    int two, nd;
    char kind;
    int itemsize, flags;
    Py_ssize_t *shape, *strides;
    void *data;
    PyObject *description;
};
enum { ARRAY_WRITEABLE = 0x400 };

static const void *capsule_pointer(size_t object, const char *name) {
    PyObject *const capsule = (PyObject *)object; /* NOLINT: an address from id() */
    const PyGILState_STATE lock = PyGILState_Ensure();
    const void *pointer = NULL;
    if (PyCapsule_IsValid(capsule, name)) pointer = PyCapsule_GetPointer(capsule, name);
    PyGILState_Release(lock);
    return pointer;
}

int64_t pithpy_view_numpy(pith_view *view, size_t object, uint32_t dtype, int write) {
    const struct array_interface *const a = capsule_pointer(object, NULL);
    if (!a || a->two != 2) return PITHPY_OTHER;
    if (a->nd > PITH_MAX_NDIM) return refusal(PITHPY_NDIM, a->nd);
    if (write && !(a->flags & ARRAY_WRITEABLE)) return PITHPY_READ_ONLY;
    view->data = a->data;
    view->dtype = dtype;
    view->ndim = (uint32_t)a->nd;
    for (int i = 0; i < a->nd; i++) {
        view->shape[i] = (uint64_t)a->shape[i];
        /* Of a dimension of one element NumPy promises nothing. */
        const Py_ssize_t stride = a->shape[i] > 1 ? a->strides[i] : 0;
        if (stride % a->itemsize) return PITHPY_STRIDES;
        view->stride[i] = stride / a->itemsize;
    }
    return PITHPY_OK;
}

/* ---- DLPack ----------------------------------------------------------------------------------
 * The structs of its C header, version 1; those before it had no version in front. */

struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    struct dl_tensor tensor;
};
enum { DL_READ_ONLY = 0x1, DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11 };

static uint32_t dtype_of_dlpack(const struct dl_tensor *t) {
    static const struct {
        uint8_t code, bits, dtype;
    } known[] = {
        {0, 8, PITH_I8},      {0, 16, PITH_I16},    {0, 32, PITH_I32},     {0, 64, PITH_I64},
        {1, 8, PITH_U8},      {1, 16, PITH_U16},    {1, 32, PITH_U32},     {1, 64, PITH_U64},
        {2, 16, PITH_F16},    {2, 32, PITH_F32},    {2, 64, PITH_F64},     {4, 16, PITH_BF16},
        {6, 8, PITH_BOOL},    {10, 8, PITH_F8E4M3}, {12, 8, PITH_F8E5M2},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (t->code == known[i].code && t->bits == known[i].bits && t->lanes == 1)
            return known[i].dtype;
    return PITH_NONE;
}

int64_t pithpy_view_dlpack(pith_view *view, size_t object, int write) {
    const struct dl_versioned *const versioned = capsule_pointer(object, "dltensor_versioned");
    const struct dl_tensor *t;
    if (versioned) {
        if (versioned->major != 1) return PITHPY_OTHER;
        if (write && (versioned->flags & DL_READ_ONLY)) return PITHPY_READ_ONLY;
        t = &versioned->tensor;
    } else if (!(t = capsule_pointer(object, "dltensor"))) {
        return PITHPY_OTHER;
    }
    if (t->device_type != DL_CPU && t->device_type != DL_CUDA_HOST &&
        t->device_type != DL_ROCM_HOST)
        return refusal(PITHPY_DEVICE, t->device_type);
    const uint32_t dtype = dtype_of_dlpack(t);
    if (dtype == PITH_NONE)
        return refusal(PITHPY_DTYPE, t->code | t->bits << 8 | (int64_t)t->lanes << 16);
    if (t->ndim > PITH_MAX_NDIM) return refusal(PITHPY_NDIM, t->ndim);
    pithpy_view_set(view, (size_t)t->data + (size_t)t->byte_offset, dtype, (uint32_t)t->ndim,
                    (const uint64_t *)t->shape, t->strides);
    return PITHPY_OK;
}

/* ---- Parts -----------------------------------------------------------------------------------*/

void pithpy_view_set(pith_view *view, size_t data, uint32_t dtype, uint32_t ndim,
                     const uint64_t *shape, const int64_t *strides) {
    *view = pith_view_dense((const void *)data, dtype, ndim, shape); /* NOLINT: an address */
    for (uint32_t i = 0; strides && i < ndim; i++)
        view->stride[i] = shape[i] > 1 ? strides[i] : 0;
}

/* ---- Calls -----------------------------------------------------------------------------------*/

int64_t pithpy_encode(pith_work *work, pith_item *item, uint32_t flags) {
    const pith_status status = pith_encode(work, item, 1, flags);
    return status == PITH_OK ? (int64_t)item->length : status;
}

int64_t pithpy_decode(pith_work *work, pith_item *item, const void *frame, size_t bytes,
                      uint32_t flags) {
    item->frame = (void *)(size_t)frame; /* only read */
    item->length = bytes;
    return pith_decode(work, item, 1, flags);
}

int pithpy_encode_list(pith_work *work, pith_item *items, size_t count, char *memory,
                       const uint64_t *offsets, uint32_t flags, uint64_t *lengths) {
    for (size_t i = 0; i < count; i++) {
        items[i].frame = memory + offsets[i];
        items[i].capacity = (size_t)(offsets[i + 1] - offsets[i]);
        items[i].length = 0;
    }
    const pith_status status = pith_encode(work, items, count, flags);
    for (size_t i = 0; i < count; i++) lengths[i] = items[i].length;
    return status;
}

void pithpy_pairs(pith_kv_pair *pairs, size_t count, char *values, int64_t value_step,
                  const int64_t *ids, char *pages, int64_t page_step, const uint32_t *tokens) {
    for (size_t i = 0; i < count; i++)
        pairs[i] = (pith_kv_pair){.values = values + ids[i] * value_step,
                                  .page = pages + (int64_t)i * page_step,
                                  .tokens = tokens[i]};
}
