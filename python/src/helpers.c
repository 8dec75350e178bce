/* helpers.c - what the Python package does in C: views of tensors, and calls in one step.
 * SPDX-License-Identifier: Apache-2.0 */
#include <Python.h>
#include <stdbool.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "helpers.h"
#include "marks.h"
#include "objects.h"

static int64_t refusal(int why, int64_t found) { return why | found * 256; }

/* Returns the pointer in a capsule of this name, or NULL. The caller holds the interpreter's
 * lock. */
static void *pointer_in(size_t object, const char *name) {
    PyObject *const capsule = (PyObject *)object; /* NOLINT: an address from id() */
    return PyCapsule_IsValid(capsule, name) ? PyCapsule_GetPointer(capsule, name) : NULL;
}

/* ---- NumPy -----------------------------------------------------------------------------------*/

/* The struct that __array_struct__ points to; its layout is frozen (NumPy, "The array interface
 * protocol"). */
struct array_interface {
    int two, nd;
    char kind;
    int itemsize, flags;
    Py_ssize_t *shape, *strides;
    void *data;
    PyObject *description;
};
enum { ARRAY_WRITEABLE = 0x400 };

static int64_t view_numpy(pith_view *view, size_t object, uint32_t dtype, int write) {
    const struct array_interface *const a = pointer_in(object, NULL);
    /* A subclass may say another dtype than its memory has: no more than that is read. */
    if (!a || a->two != 2 || (size_t)a->itemsize != pith_dtype_bytes(dtype))
        return refusal(PITHPY_OTHER, 0);
    if (a->nd > PITH_MAX_NDIM) return refusal(PITHPY_NDIM, a->nd);
    if (write && !(a->flags & ARRAY_WRITEABLE)) return refusal(PITHPY_READ_ONLY, 0);
    view->data = a->data;
    view->dtype = dtype;
    view->ndim = (uint32_t)a->nd;
    for (int i = 0; i < a->nd; i++) {
        view->shape[i] = (uint64_t)a->shape[i];
        /* The stride of a dimension of one element has no meaning. */
        const Py_ssize_t stride = a->shape[i] > 1 ? a->strides[i] : 0;
        if (stride % a->itemsize) return refusal(PITHPY_STRIDES, stride);
        view->stride[i] = stride / a->itemsize;
    }
    return 0;
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
/* The functions of a type (DLPack's exchange API, version 1.3). The last may be NULL. */
struct dl_exchange {
    uint32_t major, minor;
    const struct dl_exchange *older;
    void *allocate, *export_managed, *import_managed;
    int (*export_tensor)(void *object, struct dl_tensor *out);
    void *current_stream;
};
enum { DL_READ_ONLY = 0x1, DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11 };

static uint32_t dtype_of_dlpack(const struct dl_tensor *t) {
    static const struct {
        uint8_t code, bits, dtype;
    } known[] = {
        {0, 8, PITH_I8},   {0, 16, PITH_I16},    {0, 32, PITH_I32},    {0, 64, PITH_I64},
        {1, 8, PITH_U8},   {1, 16, PITH_U16},    {1, 32, PITH_U32},    {1, 64, PITH_U64},
        {2, 16, PITH_F16}, {2, 32, PITH_F32},    {2, 64, PITH_F64},    {4, 16, PITH_BF16},
        {6, 8, PITH_BOOL}, {10, 8, PITH_F8E4M3}, {12, 8, PITH_F8E5M2},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (t->code == known[i].code && t->bits == known[i].bits && t->lanes == 1)
            return known[i].dtype;
    return PITH_NONE;
}

static int64_t view_dl_tensor(pith_view *view, const struct dl_tensor *t) {
    if (t->device_type != DL_CPU && t->device_type != DL_CUDA_HOST &&
        t->device_type != DL_ROCM_HOST)
        return refusal(PITHPY_DEVICE, t->device_type);
    const uint32_t dtype = dtype_of_dlpack(t);
    if (dtype == PITH_NONE)
        return refusal(PITHPY_DTYPE, t->code | t->bits << 8 | (int64_t)t->lanes << 16);
    if (t->ndim > PITH_MAX_NDIM) return refusal(PITHPY_NDIM, t->ndim);
    *view = pith_view_dense((const char *)t->data + t->byte_offset, dtype, (uint32_t)t->ndim,
                            (const uint64_t *)t->shape);
    for (int i = 0; t->strides && i < t->ndim; i++)
        if (t->shape[i] > 1) view->stride[i] = t->strides[i];
    return 0;
}

static int64_t view_dlpack(pith_view *view, size_t object, int write) {
    const struct dl_versioned *const versioned = pointer_in(object, "dltensor_versioned");
    if (!versioned) {
        const struct dl_tensor *const t = pointer_in(object, "dltensor");
        return t ? view_dl_tensor(view, t) : refusal(PITHPY_OTHER, 0);
    }
    if (versioned->major != 1) return refusal(PITHPY_OTHER, 0);
    if (write && (versioned->flags & DL_READ_ONLY)) return refusal(PITHPY_READ_ONLY, 0);
    return view_dl_tensor(view, &versioned->tensor);
}

static int64_t view_exchange(pith_view *view, size_t object, size_t more) {
    const struct dl_exchange *const exchange = (const struct dl_exchange *)more; /* NOLINT */
    struct dl_tensor t;
    if (exchange->export_tensor((void *)object, &t) == 0) return view_dl_tensor(view, &t);
    PyErr_Clear(); /* the caller asks the object itself, and learns why */
    return refusal(PITHPY_OTHER, 0);
}

size_t pithpy_exchange(size_t capsule) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    const struct dl_exchange *exchange = pointer_in(capsule, "dlpack_exchange_api");
    while (exchange && exchange->major != 1) exchange = exchange->older;
    PyGILState_Release(lock);
    return exchange && exchange->export_tensor ? (size_t)exchange : 0;
}

/* ---- Views -----------------------------------------------------------------------------------*/

static int64_t view_of(pith_view *view, int kind, size_t object, size_t more, int write) {
    if (kind == PITHPY_NUMPY) return view_numpy(view, object, (uint32_t)more, write);
    if (kind == PITHPY_DLPACK) return view_dlpack(view, object, write);
    if (kind == PITHPY_EXCHANGE) return view_exchange(view, object, more);
    view->dtype = PITH_NONE;
    view->ndim = 0;
    return 0;
}

int64_t pithpy_view(pith_view *view, int kind, size_t object, size_t more, int write) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    const int64_t refused = view_of(view, kind, object, more, write);
    PyGILState_Release(lock);
    return refused;
}

int64_t pithpy_views(pith_item *items, size_t count, const int *kinds, const size_t *objects,
                     const size_t *more, int write, size_t *which) {
    int64_t refused = 0;
    const PyGILState_STATE lock = PyGILState_Ensure();
    for (size_t i = 0; i < count && !refused; i++) {
        refused = view_of(&items[i].view, kinds[i], objects[i], more[i], write);
        *which = i;
    }
    PyGILState_Release(lock);
    return refused;
}

/* Fill the view of an object whose type is known. False where it is refused or raised an exception.
 * The caller holds the interpreter's lock. */
static bool alike_numpy(pith_view *view, PyObject *x, PyObject *const names[2], PyObject *numbers,
                        int write) {
    PyObject *const interface = PyObject_GetAttr(x, names[0]);
    PyObject *const dtype = PyObject_GetAttr(x, names[1]);
    PyObject *const number = dtype ? PyDict_GetItemWithError(numbers, dtype) : NULL;
    const bool is_view =
        interface && number &&
        view_numpy(view, (size_t)interface, (uint32_t)PyLong_AsLong(number), write) == 0;
    Py_XDECREF(interface);
    Py_XDECREF(dtype);
    return is_view;
}

static bool alike_torch(pith_view *view, PyObject *x, PyObject *is_neg, size_t exchange) {
    PyObject *const negative = PyObject_CallMethodObjArgs(x, is_neg, NULL);
    Py_XDECREF(negative);
    return negative == Py_False && view_exchange(view, (size_t)x, exchange) == 0;
}

int pithpy_alike(pith_item *items, size_t count, size_t list, int kind, size_t more, int write) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *const tensors = (PyObject *)list; /* NOLINT: an address from id() */
    PyObject *const names[] = {
        PyUnicode_InternFromString(kind == PITHPY_NUMPY ? "__array_struct__" : "is_neg"),
        PyUnicode_InternFromString("dtype")};
    bool all = names[0] && names[1];
    for (size_t i = 0; i < count && all; i++) {
        PyObject *const x = PyList_GetItem(tensors, (Py_ssize_t)i);
        pith_view *const view = &items[i].view;
        all = x && Py_TYPE(x) == Py_TYPE(PyList_GetItem(tensors, 0)) &&
              (kind == PITHPY_NUMPY ? alike_numpy(view, x, names, (PyObject *)more, write)
                                    : alike_torch(view, x, names[0], more));
    }
    PyErr_Clear(); /* the caller asks the objects themselves, and learns why */
    Py_XDECREF(names[0]);
    Py_XDECREF(names[1]);
    PyGILState_Release(lock);
    return all;
}

/* ---- Marks -----------------------------------------------------------------------------------*/

#define PITHPY_CHANGE(name, parameters, arguments)        \
    int pithpy_##name parameters {                        \
        if (!enter(mark, false)) return PITH_ERR_BUSY;    \
        const pith_status status = pith_##name arguments; \
        leave(mark, false);                               \
        return status;                                    \
    }
#define PITHPY_READ(name, parameters, arguments)          \
    int pithpy_##name parameters {                        \
        if (!enter(mark, true)) return PITH_ERR_BUSY;     \
        const pith_status status = pith_##name arguments; \
        leave(mark, true);                                \
        return status;                                    \
    }
#define PITHPY_ANSWER(name, parameters, arguments)     \
    int pithpy_##name parameters {                     \
        if (!enter(mark, false)) return PITH_ERR_BUSY; \
        *answer = pith_##name arguments;               \
        leave(mark, false);                            \
        return PITH_OK;                                \
    }
#define PITHPY_LIST(name, reading, parameters, arguments)             \
    int pithpy_##name##_list parameters {                             \
        if (!enter_all(marks, marked, reading)) return PITH_ERR_BUSY; \
        const pith_status status = pith_##name arguments;             \
        leave_all(marks, marked, reading);                            \
        return status;                                                \
    }
#include "calls.def"

int pithpy_stream_bind_base(pith_work *work, pith_stream *stream, intptr_t *mark, void *base,
                            uint64_t step, size_t owner, size_t keeper) {
    PyObject *const object = (PyObject *)owner; /* NOLINT: addresses from id() */
    PyObject *const kept = (PyObject *)keeper;  /* NOLINT */
    if (!enter(mark, false)) return PITH_ERR_BUSY;
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *before = exchange_attribute(object, "_base", kept);
    PyGILState_Release(lock);
    pith_status status = PITH_ERR_MEMORY;
    if (before) status = pith_stream_bind_base(work, stream, base, step);
    lock = PyGILState_Ensure();
    if (before && status != PITH_OK) {
        Py_XDECREF(exchange_attribute(object, "_base", before));
    }
    leave(mark, false);
    Py_XDECREF(before);
    PyGILState_Release(lock);
    return status;
}

int pithpy_kv_save(pith_work *work, const pith_kv *cache, intptr_t *mark, void *dst, size_t cap,
                   size_t *bytes) {
    if (!enter(mark, true)) return PITH_ERR_BUSY;
    pith_status status = PITH_OK;
    *bytes = (size_t)pith_kv_save_bytes(cache);
    if (*bytes <= cap) status = pith_kv_save(work, cache, dst, cap, bytes);
    leave(mark, true);
    return status;
}

/* ---- Calls -----------------------------------------------------------------------------------*/

/* Returns the bytes that a frame of the stream's next step has, where they are known before it is
 * encoded; else 0. Sets that are held may have more elements than the plan's sizes are of. */
static uint64_t exact_bytes(const pith_stream *stream, uint64_t slot, uint32_t flags) {
    const pith_plan *const plan = pith_stream_plan(stream);
    pith_sizes sizes = {.size = sizeof sizes};
    if (flags & (PITH_SAME_SET | PITH_HELD_SET) || pith_plan_sizes(plan, &sizes) || !sizes.fixed)
        return 0;
    const int key =
        flags & PITH_KEY_FRAME || pith_plan_is_key(plan, pith_stream_step(stream, slot));
    return pith_plan_frame_bytes(plan, slot, key);
}

void pithpy_ask_for_huge_pages(char *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), lead = -(size_t)memory % page;
    if (bytes >= 4 << 20) (void)madvise(memory + lead, (bytes - lead) / page * page, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

/* Puts a new object of type bytes into a list, with a copy of what is at `data`, which may be the
 * object that is there; of unspecified contents where `data` is NULL. Returns its memory, or NULL
 * where there is none. The caller holds the interpreter's lock. */
static char *new_bytes(PyObject *list, size_t at, const char *data, uint64_t length) {
    PyObject *const bytes =
        length <= PY_SSIZE_T_MAX ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length) : NULL;
    char *const memory = bytes ? PyBytes_AsString(bytes) : NULL;
    if (memory) pithpy_ask_for_huge_pages(memory, (size_t)length);
    if (memory && data) memcpy(memory, data, (size_t)length);
    if (memory && PyList_SetItem(list, (Py_ssize_t)at, bytes) == 0) return memory;
    PyErr_Clear();
    return NULL;
}

/* Makes objects of type bytes in a list for those of the frames whose lengths are known, to be
 * encoded in place; the others have been given other memory, and get theirs by keep_frames. */
static pith_status make_frames(PyObject *list, pith_item *items, size_t count, uint32_t flags) {
    for (size_t i = 0; i < count; i++) {
        const uint64_t bytes = exact_bytes(items[i].stream, items[i].slot, flags);
        if (!bytes) continue;
        items[i].frame = new_bytes(list, i, NULL, bytes);
        items[i].capacity = (size_t)bytes;
        if (!items[i].frame) return PITH_ERR_MEMORY;
    }
    return PITH_OK;
}

/* Makes objects of frames that were encoded elsewhere, item i's to memory + offsets[i], and of such
 * as are shorter than expected. The interpreter's lock is taken where there is one. */
static pith_status keep_frames(PyObject *list, const pith_item *items, size_t count,
                               const char *memory, const uint64_t *offsets) {
    pith_status status = PITH_OK;
    PyGILState_STATE lock = PyGILState_UNLOCKED;
    bool locked = false;
    for (size_t i = 0; i < count && status == PITH_OK; i++) {
        if (items[i].frame != memory + offsets[i] && items[i].length == items[i].capacity) continue;
        if (!locked) lock = PyGILState_Ensure();
        locked = true;
        if (!new_bytes(list, i, items[i].frame, items[i].length)) status = PITH_ERR_MEMORY;
    }
    if (locked) PyGILState_Release(lock);
    return status;
}

int64_t pithpy_encode(pith_work *work, pith_item *item, intptr_t *mark, pith_stream *stream,
                      uint64_t slot, uint32_t flags, void *frame, size_t capacity, int kind,
                      size_t object, size_t more, size_t list) {
    PyObject *const frames = (PyObject *)list; /* NOLINT: an address from id() */
    const PyGILState_STATE lock = PyGILState_Ensure();
    const int64_t refused = view_of(&item->view, kind, object, more, 0);
    if (refused || !enter(mark, false)) {
        PyGILState_Release(lock);
        return refused ? PITHPY_REFUSED - refused : PITH_ERR_BUSY;
    }
    item->stream = stream;
    item->slot = slot;
    item->frame = frame;
    item->capacity = capacity;
    pith_status status = frames ? make_frames(frames, item, 1, flags) : PITH_OK;
    PyGILState_Release(lock);
    if (status == PITH_OK) status = pith_encode(work, item, 1, flags);
    leave(mark, false);
    if (frames && status == PITH_OK)
        status = keep_frames(frames, item, 1, frame, &(const uint64_t){0});
    return status == PITH_OK ? (int64_t)item->length : status;
}

int64_t pithpy_decode(pith_work *work, pith_item *item, intptr_t *mark, pith_stream *stream,
                      uint64_t slot, uint32_t flags, const void *frame, size_t length, int kind,
                      size_t object, size_t more) {
    const int64_t refused = pithpy_view(&item->view, kind, object, more, 1);
    if (refused) return PITHPY_REFUSED - refused;
    item->stream = stream;
    item->slot = slot;
    item->frame = (void *)(size_t)frame; /* only read */
    item->length = length;
    if (!enter(mark, false)) return PITH_ERR_BUSY;
    const pith_status status = pith_decode(work, item, 1, flags);
    leave(mark, false);
    return status;
}

/* Encodes the items' views or, where there are sums, these. */
static pith_status encode_list(pith_work *work, intptr_t *const *marks, size_t marked,
                               const pith_sum *sums, pith_item *items, size_t count, char *memory,
                               const uint64_t *offsets, uint32_t flags, size_t list) {
    PyObject *const frames = (PyObject *)list; /* NOLINT: an address from id() */
    pith_status status = PITH_OK;
    if (!enter_all(marks, marked, false)) return PITH_ERR_BUSY;
    for (size_t i = 0; i < count; i++) {
        items[i].frame = memory + offsets[i];
        items[i].capacity = (size_t)(offsets[i + 1] - offsets[i]);
        items[i].length = 0;
        items[i].status = PITH_OK;
    }
    if (frames) {
        const PyGILState_STATE lock = PyGILState_Ensure();
        status = make_frames(frames, items, count, flags);
        PyGILState_Release(lock);
    }
    if (status == PITH_OK)
        status = sums ? pith_reduce_encode(work, sums, items, count)
                      : pith_encode(work, items, count, flags);
    leave_all(marks, marked, false);
    if (frames && status != PITH_ERR_MEMORY) {
        const pith_status kept = keep_frames(frames, items, count, memory, offsets);
        if (status == PITH_OK) status = kept;
    }
    return status;
}

int pithpy_encode_list(pith_work *work, intptr_t *const *marks, size_t marked, pith_item *items,
                       size_t count, char *memory, const uint64_t *offsets, uint32_t flags,
                       size_t list, uint64_t *lengths) {
    const pith_status status =
        encode_list(work, marks, marked, NULL, items, count, memory, offsets, flags, list);
    for (size_t i = 0; lengths && i < count; i++) lengths[i] = items[i].length;
    return status;
}

int pithpy_reduce_encode_list(pith_work *work, intptr_t *const *marks, size_t marked,
                              const pith_sum *sums, pith_item *items, size_t count, char *memory,
                              const uint64_t *offsets, size_t list) {
    return encode_list(work, marks, marked, sums, items, count, memory, offsets, 0, list);
}

int pithpy_frames(pith_item *items, size_t count, size_t list) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    bool all = true;
    for (size_t i = 0; i < count && all; i++) {
        PyObject *const bytes = PyList_GetItem((PyObject *)list, (Py_ssize_t)i); /* NOLINT: id() */
        all = bytes && PyBytes_CheckExact(bytes);
        items[i].frame = all ? PyBytes_AsString(bytes) : NULL;
        items[i].length = all ? (size_t)PyBytes_Size(bytes) : 0;
    }
    PyGILState_Release(lock);
    return all;
}

void pithpy_pairs(pith_kv_pair *pairs, size_t count, char *values, int64_t value_step,
                  const int64_t *ids, char *pages, int64_t page_step, const uint32_t *tokens) {
    for (size_t i = 0; i < count; i++)
        pairs[i] = (pith_kv_pair){.values = values + ids[i] * value_step,
                                  .page = pages + (int64_t)i * page_step,
                                  .tokens = tokens[i]};
}
