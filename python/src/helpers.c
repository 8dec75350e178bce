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

/* What the functions of Python have as self, a tuple: what views.py gives to pithpy_add_functions,
 * and names of attributes. Each import of the package has its own. */
enum part {
    DIRECT_TYPES,
    SOURCE_OF,
    BYTES_AT,
    REFUSED_ERROR,
    STATUS_ERROR,
    FROM_VIEWS,
    ARRAY_STRUCT = FROM_VIEWS,
    DTYPE,
    IS_NEG,
    REQUIRES_GRAD,
    PARTS
};
static PyObject *part(PyObject *self, enum part which) { return PyTuple_GetItem(self, which); }

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
    return view_exchange(view, object, more);
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

static uint64_t number_at(PyObject *tuple, Py_ssize_t at) {
    PyObject *const number = PyTuple_GetItem(tuple, at);
    return number ? PyLong_AsUnsignedLongLongMask(number) : 0;
}

static bool direct_numpy(PyObject *self, pith_view *view, PyObject *x, PyObject *numbers,
                         int write) {
    PyObject *const interface = PyObject_GetAttr(x, part(self, ARRAY_STRUCT));
    PyObject *const dtype = interface ? PyObject_GetAttr(x, part(self, DTYPE)) : NULL;
    PyObject *const number = dtype ? PyDict_GetItemWithError(numbers, dtype) : NULL;
    const bool is_view =
        number && view_numpy(view, (size_t)interface, (uint32_t)PyLong_AsLong(number), write) == 0;
    Py_XDECREF(interface);
    Py_XDECREF(dtype);
    return is_view;
}

/* Takes the reference to an object that a function returned, NULL where it raised an exception. */
static bool is_false(PyObject *result) {
    Py_XDECREF(result);
    return result == Py_False;
}

static bool direct_torch(PyObject *self, pith_view *view, PyObject *x, size_t exchange,
                         PyObject *is_grad_enabled, int write) {
    if (!is_false(PyObject_CallMethodObjArgs(x, part(self, IS_NEG), NULL))) return false;
    if (write && !is_false(PyObject_GetAttr(x, part(self, REQUIRES_GRAD))) &&
        (PyErr_Occurred() || !is_false(PyObject_CallObject(is_grad_enabled, NULL))))
        return false;
    return view_exchange(view, (size_t)x, exchange) == 0;
}

/* Fill the view of a tensor of a type that views.direct has. False where it has not, or the tensor
 * is refused or has something special that views.py looks at; then an exception may be set: of
 * Python's functions, which PyTorch may call for its own, and of handlers of signals, which these
 * run. */
static bool view_direct(PyObject *self, pith_view *view, PyObject *x, int write) {
    PyObject *const how = PyDict_GetItemWithError(part(self, DIRECT_TYPES), (PyObject *)Py_TYPE(x));
    if (!how) return false;
    if (number_at(how, 0) == PITHPY_NUMPY)
        return direct_numpy(self, view, x, PyTuple_GetItem(how, 1), write);
    return direct_torch(self, view, x, (size_t)number_at(how, 1), PyTuple_GetItem(how, 2), write);
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

/* Returns a new object of type bytes, with a copy of what is at `data`; of unspecified contents
 * where that is NULL. NULL where there is no memory. The caller holds the interpreter's lock. */
static PyObject *new_bytes(const char *data, uint64_t length) {
    PyObject *const bytes =
        length <= PY_SSIZE_T_MAX ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length) : NULL;
    char *const memory = bytes ? PyBytes_AsString(bytes) : NULL;
    PyErr_Clear();
    if (memory) pithpy_ask_for_huge_pages(memory, (size_t)length);
    if (memory && data) memcpy(memory, data, (size_t)length);
    return bytes;
}

/* Puts such an object into a list, where `data` may be that of the object that is there. Returns
 * its memory, or NULL where there is none. */
static char *list_bytes(PyObject *list, size_t at, const char *data, uint64_t length) {
    PyObject *const bytes = new_bytes(data, length);
    char *const memory = bytes ? PyBytes_AsString(bytes) : NULL;
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
        items[i].frame = list_bytes(list, i, NULL, bytes);
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
        if (!list_bytes(list, i, items[i].frame, items[i].length)) status = PITH_ERR_MEMORY;
    }
    if (locked) PyGILState_Release(lock);
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

/* ---- Functions of Python ---------------------------------------------------------------------
 * The calls that a loop makes for each small tensor, without cffi, which converts a dozen arguments
 * and gives the interpreter's lock away before they can look at objects: that takes longer than
 * coding does. _core.pyi says what they take and return. */

/* False with an exception where a function has another number of arguments. */
static bool takes(Py_ssize_t expected, Py_ssize_t found) {
    if (found != expected) PyErr_SetString(PyExc_TypeError, "another number of arguments");
    return found == expected;
}

static PyObject *truth(bool is) { return is ? Py_True : Py_False; }

static void *address_of(PyObject *number) { return PyLong_AsVoidPtr(number); }

/* False with an exception where x is no integer from 0 on, or has more than 64 bits. */
static bool unsigned_of(PyObject *x, uint64_t *number) {
    PyObject *const exact = PyNumber_Index(x);
    *number = exact ? PyLong_AsUnsignedLongLong(exact) : 0;
    Py_XDECREF(exact);
    return exact && !(*number == UINT64_MAX && PyErr_Occurred());
}

/* Raises an exception, whose reference it takes. All of these return NULL, as functions of Python
 * do then. */
static PyObject *raise(PyObject *exception) {
    if (exception) PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    return NULL;
}

/* error may be NULL. */
static PyObject *raise_status(PyObject *self, pith_status status, const pith_error *error) {
    const unsigned long long offset = error ? error->offset : 0, item = error ? error->item : 0;
    return raise(PyObject_CallFunction(part(self, STATUS_ERROR), "iyKK", (int)status,
                                       error ? error->text : "", offset, item));
}

static PyObject *raise_no_memory(PyObject *self, uint64_t bytes) {
    pith_error error = {.size = sizeof error};
    PyOS_snprintf(error.text, sizeof error.text, "no memory for %llu bytes",
                  (unsigned long long)bytes);
    return raise_status(self, PITH_ERR_MEMORY, &error);
}

/* Of a call with a work, of which a busy one has the text of another call. */
static PyObject *raise_failed(PyObject *self, pith_status status, const pith_work *work) {
    return raise_status(self, status, status == PITH_ERR_BUSY ? NULL : pith_work_error(work));
}

static PyObject *raise_refused(PyObject *self, int64_t refused, PyObject *x) {
    return raise(PyObject_CallFunction(part(self, REFUSED_ERROR), "LO", (long long)refused, x));
}

/* Fills the view of a tensor. *keep is a new reference to what must live as long as the view is
 * used, or NULL. False with an exception. */
static bool view_tensor(PyObject *self, pith_view *view, PyObject *x, bool write, PyObject **keep) {
    *keep = NULL;
    if (view_direct(self, view, x, write)) return true;
    PyObject *const source = PyErr_Occurred() ? NULL
                                              : PyObject_CallFunctionObjArgs(part(self, SOURCE_OF),
                                                                             x, truth(write), NULL);
    if (!source) return false;
    const int64_t refused =
        view_of(view, (int)number_at(source, 0), number_at(source, 1), number_at(source, 2), write);
    *keep = source;
    return !refused || raise_refused(self, refused, x);
}

static bool is_dense(const pith_view *view) {
    const pith_view dense = pith_view_dense(view->data, view->dtype, view->ndim, view->shape);
    for (uint32_t i = 0; i < view->ndim; i++)
        if (view->shape[i] > 1 && view->stride[i] != dense.stride[i]) return false;
    return true;
}

/* Contiguous bytes, and a new reference to what must live as long as they are used, or NULL. */
struct bytes {
    char *data;
    size_t length;
    PyObject *keep;
};

/* False with an exception. brief: the interpreter's lock is kept as long as they are used; else
 * another thread could resize a bytearray, unless there is a memoryview of it. */
static bool bytes_of(PyObject *self, struct bytes *bytes, PyObject *x, bool write, bool brief) {
    *bytes = (struct bytes){0};
    if (!write && PyBytes_CheckExact(x)) {
        bytes->data = PyBytes_AsString(x);
        bytes->length = (size_t)PyBytes_Size(x);
        return true;
    }
    if (PyByteArray_CheckExact(x)) {
        if (!brief && !(bytes->keep = PyMemoryView_FromObject(x))) return false;
        bytes->data = PyByteArray_AsString(x);
        bytes->length = (size_t)PyByteArray_Size(x);
        return true;
    }
    pith_view view;
    if (view_direct(self, &view, x, write) && is_dense(&view)) {
        static char nothing; /* PyTorch has no address for no elements */
        bytes->data = view.data ? view.data : &nothing;
        bytes->length = (size_t)(pith_view_count(&view) * pith_dtype_bytes(view.dtype));
        return true;
    }
    if (PyErr_Occurred()) return false;
    bytes->keep = PyObject_CallFunctionObjArgs(part(self, BYTES_AT), x, truth(write), NULL);
    if (!bytes->keep) return false;
    bytes->data = (char *)(size_t)number_at(bytes->keep, 0); /* NOLINT: an address of views.py */
    bytes->length = (size_t)number_at(bytes->keep, 1);
    return true;
}

/* Calls write before they have read everything. False with an exception where a frame and a tensor,
 * of which one is read and the other written, share memory. */
static bool are_apart(PyObject *self, const pith_view *tensor, const struct bytes *frame) {
    pith_error error = {.size = sizeof error};
    if (!pithpy_share(tensor, frame->data, frame->length)) return true;
    PyOS_snprintf(error.text, sizeof error.text, "the frame and the tensor share memory");
    raise_status(self, PITH_ERR_ARG, &error);
    return false;
}

/* Values may take the place of their base, element by element. False with an exception where they
 * lie in its memory otherwise. */
static bool is_apart_from_base(PyObject *self, const pith_view *out, const pith_view *base) {
    pith_error error = {.size = sizeof error};
    if (!pithpy_share_otherwise(out, base)) return true;
    PyOS_snprintf(error.text, sizeof error.text,
                  "out and base share memory, but not as one tensor");
    raise_status(self, PITH_ERR_ARG, &error);
    return false;
}

/* Calls that take less time than giving the interpreter's lock away and getting it back can take
 * keep it: that is 5 ms where another thread computes. */
static bool is_brief(uint64_t elements) { return elements <= PITHPY_BRIEF; }
static PyThreadState *unlock(bool brief) { return brief ? NULL : PyEval_SaveThread(); }
static void lock_again(PyThreadState *state) {
    if (state) PyEval_RestoreThread(state);
}

/* Makes a call that uses a stream, whose mark is entered, and leaves it. */
static pith_status use(pith_status (*call)(pith_work *, pith_item *, size_t, uint32_t),
                       const pithpy_end *end, pith_work *work, pith_item *item, uint32_t flags) {
    PyThreadState *const state = unlock(end->brief);
    const pith_status status = call(work, item, 1, flags);
    leave(end->mark, false);
    lock_again(state);
    return status;
}

/* Returns a frame as an object of type bytes: `frame`, whose reference it takes, where that has as
 * many bytes, else a copy of what is at `data`. */
static PyObject *frame_of(PyObject *self, PyObject *frame, size_t capacity, const char *data,
                          size_t length) {
    if (frame && length == capacity) return frame;
    PyObject *const copy = new_bytes(data, length);
    Py_XDECREF(frame);
    return copy ? copy : raise_no_memory(self, length);
}

static PyObject *encode_to(PyObject *self, const pithpy_end *end, pith_work *work, pith_item *item,
                           uint32_t flags, PyObject *out) {
    struct bytes to;
    PyObject *length = NULL;
    if (!bytes_of(self, &to, out, true, end->brief)) return NULL;
    if (are_apart(self, &item->view, &to)) {
        item->frame = to.data;
        item->capacity = to.length;
        pith_status status = PITH_ERR_BUSY;
        if (enter(end->mark, false)) status = use(pith_encode, end, work, item, flags);
        length =
            status == PITH_OK ? PyLong_FromSize_t(item->length) : raise_failed(self, status, work);
    }
    Py_XDECREF(to.keep);
    return length;
}

static PyObject *encode_new(PyObject *self, const pithpy_end *end, pith_work *work, pith_item *item,
                            uint32_t flags, char *scratch, size_t capacity) {
    if (!enter(end->mark, false)) return raise_failed(self, PITH_ERR_BUSY, work);
    const size_t known = (size_t)exact_bytes(end->stream, item->slot, flags);
    PyObject *const frame = known ? new_bytes(NULL, known) : NULL;
    if (known && !frame) {
        leave(end->mark, false);
        return raise_no_memory(self, known);
    }
    item->frame = frame ? PyBytes_AsString(frame) : scratch;
    item->capacity = frame ? known : capacity;
    const pith_status status = use(pith_encode, end, work, item, flags);
    if (status == PITH_OK) return frame_of(self, frame, known, item->frame, item->length);
    Py_XDECREF(frame);
    return raise_failed(self, status, work);
}

static PyObject *encode(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    if (!takes(8, count)) return NULL;
    const pithpy_end *const end = address_of(args[0]);
    pith_work *const work = address_of(args[1]);
    PyObject *const out = args[3];
    const uint32_t flags = (uint32_t)PyLong_AsUnsignedLongMask(args[5]);
    pith_item item = {.size = sizeof item, .stream = end->stream};
    PyObject *keep = NULL, *made = NULL;
    if (!unsigned_of(args[4], &item.slot)) return NULL;
    if (view_tensor(self, &item.view, args[2], false, &keep))
        made = out != Py_None ? encode_to(self, end, work, &item, flags, out)
                              : encode_new(self, end, work, &item, flags, address_of(args[6]),
                                           PyLong_AsSize_t(args[7]));
    Py_XDECREF(keep);
    return made;
}

static PyObject *decode(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    if (!takes(6, count)) return NULL;
    const pithpy_end *const end = address_of(args[0]);
    pith_work *const work = address_of(args[1]);
    PyObject *const out = args[3];
    const uint32_t flags = (uint32_t)PyLong_AsUnsignedLongMask(args[5]);
    pith_item item = {.size = sizeof item, .stream = end->stream};
    struct bytes from = {0};
    PyObject *keep = NULL, *none = NULL;
    if (!unsigned_of(args[4], &item.slot)) return NULL;
    if ((out == Py_None || view_tensor(self, &item.view, out, true, &keep)) &&
        bytes_of(self, &from, args[2], false, end->brief) &&
        (out == Py_None || are_apart(self, &item.view, &from))) {
        item.frame = from.data;
        item.length = from.length;
        pith_status status = PITH_ERR_BUSY;
        if (enter(end->mark, false)) status = use(pith_decode, end, work, &item, flags);
        none = status == PITH_OK ? Py_NewRef(Py_None) : raise_failed(self, status, work);
    }
    Py_XDECREF(from.keep);
    Py_XDECREF(keep);
    return none;
}

/* What a call without a stream uses. */
struct once {
    pith_view view, base;
    bool has_base, brief;
    PyObject *keep, *keep_base;
    pith_env env;
    pith_error error;
};

/* Takes the tensors of a call. False with an exception; release() follows in either case. */
static bool take(PyObject *self, struct once *o, PyObject *x, bool write, PyObject *base,
                 PyObject *threads) {
    *o = (struct once){.has_base = base != Py_None,
                       .env = {.size = sizeof o->env, .threads = (uint32_t)PyLong_AsLong(threads)},
                       .error = {.size = sizeof o->error}};
    if (!view_tensor(self, &o->view, x, write, &o->keep)) return false;
    o->brief = is_brief(pith_view_count(&o->view));
    return !o->has_base || view_tensor(self, &o->base, base, false, &o->keep_base);
}

static void release(struct once *o) {
    Py_XDECREF(o->keep);
    Py_XDECREF(o->keep_base);
}

static const pith_view *base_of(const struct once *o) { return o->has_base ? &o->base : NULL; }

static pith_status compress_at(struct once *o, const char *spec, const pith_layout *layout,
                               char *data, size_t capacity, size_t *length) {
    PyThreadState *const state = unlock(o->brief);
    const pith_status status = pith_compress(spec, &o->view, base_of(o), layout, &o->env, data,
                                             capacity, length, &o->error);
    lock_again(state);
    return status;
}

static PyObject *compress_to(PyObject *self, struct once *o, const char *spec,
                             const pith_layout *layout, PyObject *out) {
    struct bytes to;
    size_t length;
    PyObject *made = NULL;
    if (!bytes_of(self, &to, out, true, o->brief)) return NULL;
    if (are_apart(self, &o->view, &to)) {
        const pith_status status = compress_at(o, spec, layout, to.data, to.length, &length);
        made =
            status == PITH_OK ? PyLong_FromSize_t(length) : raise_status(self, status, &o->error);
    }
    Py_XDECREF(to.keep);
    return made;
}

static PyObject *compress_new(PyObject *self, struct once *o, const char *spec,
                              const pith_layout *layout) {
    uint64_t most;
    size_t length;
    pith_status status = pith_compress_bound(spec, &o->view, base_of(o), layout, &most, &o->error);
    if (status != PITH_OK) return raise_status(self, status, &o->error);
    PyObject *const frame = new_bytes(NULL, most);
    if (!frame) return raise_no_memory(self, most);
    char *const data = PyBytes_AsString(frame);
    status = compress_at(o, spec, layout, data, (size_t)most, &length);
    if (status == PITH_OK) return frame_of(self, frame, (size_t)most, data, length);
    Py_DECREF(frame);
    return raise_status(self, status, &o->error);
}

static PyObject *compress(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    if (!takes(9, count)) return NULL;
    const char *const spec = PyBytes_AsString(args[0]);
    const pith_layout layout = {.size = sizeof layout,
                                .flags = (uint32_t)PyLong_AsUnsignedLongMask(args[4]),
                                .source = PyBytes_AsString(args[5]),
                                .source_bytes = (size_t)PyBytes_Size(args[5]),
                                .exempt = address_of(args[6]),
                                .exempt_count = PyLong_AsSize_t(args[7])};
    struct once o;
    PyObject *made = NULL;
    if (take(self, &o, args[1], false, args[2], args[8]))
        made = args[3] == Py_None ? compress_new(self, &o, spec, &layout)
                                  : compress_to(self, &o, spec, &layout, args[3]);
    release(&o);
    return made;
}

static PyObject *decompress(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    if (!takes(5, count)) return NULL;
    struct once o;
    struct bytes from = {0};
    PyObject *none = NULL;
    if (take(self, &o, args[2], true, args[1], args[4]) &&
        unsigned_of(args[3], &o.env.max_output_bytes) &&
        bytes_of(self, &from, args[0], false, o.brief) && are_apart(self, &o.view, &from) &&
        (!o.has_base || is_apart_from_base(self, &o.view, &o.base))) {
        PyThreadState *const state = unlock(o.brief);
        const pith_status status =
            pith_decompress(from.data, from.length, base_of(&o), &o.env, &o.view, &o.error);
        lock_again(state);
        none = status == PITH_OK ? Py_NewRef(Py_None) : raise_status(self, status, &o.error);
    }
    Py_XDECREF(from.keep);
    release(&o);
    return none;
}

/* Fills the views of items from a list of tensors. False where one is no direct view, though some
 * may be filled then. */
static PyObject *direct(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    if (!takes(3, count)) return NULL;
    pith_item *const items = address_of(args[0]);
    const Py_ssize_t length = PyList_Size(args[1]);
    const int write = args[2] == Py_True;
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *const x = Py_XNewRef(PyList_GetItem(args[1], i));
        const bool is_view = x && view_direct(self, &items[i].view, x, write);
        Py_XDECREF(x);
        if (!is_view) return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
    }
    return Py_NewRef(Py_True);
}

static PyObject *new_self(PyObject *from_views) {
    static const char *const names[] = {"__array_struct__", "dtype", "is_neg", "requires_grad"};
    PyObject *const self = PyTuple_New(PARTS);
    for (int i = 0; self && i < PARTS; i++) {
        PyObject *const given = i < FROM_VIEWS ? PyTuple_GetItem(from_views, i) : NULL;
        Py_XINCREF(given);
        PyObject *const own =
            i < FROM_VIEWS ? given : PyUnicode_InternFromString(names[i - FROM_VIEWS]);
        if (!own || PyTuple_SetItem(self, i, own)) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return self;
}

int pithpy_add_functions(size_t module, size_t objects) {
    static PyMethodDef functions[] = {
        {"encode", (PyCFunction)(void (*)(void))encode, METH_FASTCALL, NULL},
        {"decode", (PyCFunction)(void (*)(void))decode, METH_FASTCALL, NULL},
        {"compress", (PyCFunction)(void (*)(void))compress, METH_FASTCALL, NULL},
        {"decompress", (PyCFunction)(void (*)(void))decompress, METH_FASTCALL, NULL},
        {"direct", (PyCFunction)(void (*)(void))direct, METH_FASTCALL, NULL}};
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *const self = new_self((PyObject *)objects); /* NOLINT: addresses from id() */
    bool good = self;
    for (size_t i = 0; good && i < sizeof functions / sizeof *functions; i++) {
        PyObject *const function = PyCFunction_NewEx(&functions[i], self, NULL);
        good = function && PyObject_SetAttrString((PyObject *)module, functions[i].ml_name,
                                                  function) == 0; /* NOLINT */
        Py_XDECREF(function);
    }
    Py_XDECREF(self);
    PyErr_Clear();
    PyGILState_Release(lock);
    return !good;
}

/* ---- Memory that calls read and write --------------------------------------------------------*/

struct range {
    uintptr_t begin, end; /* from the first byte to the last, whatever lies between elements */
    bool written;
};

static struct range range_of(const pith_view *view, bool written) {
    const uintptr_t element = pith_dtype_bytes(view->dtype);
    uintptr_t low = (uintptr_t)view->data, high = low + element;
    for (uint32_t i = 0; i < view->ndim; i++) {
        if (!view->shape[i]) return (struct range){0, 0, written};
        const uintptr_t reach =
            (uintptr_t)(view->shape[i] - 1) * (uintptr_t)view->stride[i] * element;
        if (view->stride[i] < 0)
            low += reach;
        else
            high += reach;
    }
    return (struct range){low, high, written};
}

static int by_begin(const void *a, const void *b) {
    const uintptr_t x = ((const struct range *)a)->begin, y = ((const struct range *)b)->begin;
    return (x > y) - (x < y);
}

/* Whether something that is written overlaps something that is read. */
static bool any_share(struct range *ranges, size_t count) {
    uintptr_t end[2] = {0, 0}; /* the largest so far, of what is read and of what is written */
    qsort(ranges, count, sizeof *ranges, by_begin);
    for (size_t i = 0; i < count; i++) {
        const struct range r = ranges[i];
        if (r.begin == r.end) continue;
        if (r.begin < end[!r.written]) return true;
        if (end[r.written] < r.end) end[r.written] = r.end;
    }
    return false;
}

int pithpy_share(const pith_view *view, const char *data, size_t length) {
    const struct range r = range_of(view, true);
    return r.begin < (uintptr_t)data + length && (uintptr_t)data < r.end;
}

int pithpy_share_otherwise(const pith_view *view, const pith_view *other) {
    const struct range a = range_of(view, true), b = range_of(other, false);
    if (a.begin >= b.end || b.begin >= a.end) return false;
    if (view->data != other->data || view->dtype != other->dtype) return true;
    if (is_dense(view) && is_dense(other)) return false;
    bool same = view->ndim == other->ndim;
    for (uint32_t i = 0; same && i < view->ndim; i++)
        same = view->shape[i] == other->shape[i] && view->stride[i] == other->stride[i];
    return !same;
}

int pithpy_views_share(const pith_item *items, size_t count, const char *data, size_t length) {
    for (size_t i = 0; i < count; i++)
        if (pithpy_share(&items[i].view, data, length)) return true;
    return false;
}

int pithpy_items_share(const pith_item *items, size_t count) {
    struct range *const ranges = malloc((2 * count + 1) * sizeof *ranges);
    if (!ranges) return -1;
    for (size_t i = 0; i < count; i++) {
        const uintptr_t frame = (uintptr_t)items[i].frame;
        ranges[2 * i] = range_of(&items[i].view, true);
        ranges[2 * i + 1] = (struct range){frame, frame + items[i].length, false};
    }
    const bool share = any_share(ranges, 2 * count);
    free(ranges);
    return share;
}

int pithpy_sums_share(const pith_sum *sums, size_t count) {
    size_t all = count;
    for (size_t i = 0; i < count; i++) all += sums[i].count;
    struct range *const ranges = malloc((all + 1) * sizeof *ranges), *to = ranges;
    if (!ranges) return -1;
    for (size_t i = 0; i < count; i++) {
        *to++ = range_of(&sums[i].view, true);
        for (size_t k = 0; k < sums[i].count; k++) {
            const uintptr_t frame = (uintptr_t)sums[i].frames[k];
            *to++ = (struct range){frame, frame + sums[i].lengths[k], false};
        }
    }
    const bool share = any_share(ranges, all);
    free(ranges);
    return share;
}
