/* tensors.c - finds the format of a file and lists its tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packed.h"

static bool host_is_big_endian(void) {
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 0;
}

static void set_shape(struct tensor *t, const uint64_t *shape, uint32_t ndim) {
    t->rank = ndim;
    t->ndim = ndim;
    memcpy(t->shape, shape, ndim * sizeof *shape);
}

static void set_flat(struct tensor *t, uint32_t rank, uint64_t count) {
    t->rank = rank;
    t->ndim = 1;
    t->shape[0] = count;
}

/* ---- .npy -----------------------------------------------------------------------------------*/

static uint32_t natural_dtype(const struct npy *npy) {
    static const struct {
        char kind;
        uint8_t bytes, dtype;
    } rows[] = {
        {'f', 2, PITH_F16}, {'f', 4, PITH_F32}, {'f', 8, PITH_F64}, {'b', 1, PITH_BOOL},
        {'u', 1, PITH_U8},  {'u', 2, PITH_U16}, {'u', 4, PITH_U32}, {'u', 8, PITH_U64},
        {'i', 1, PITH_I8},  {'i', 2, PITH_I16}, {'i', 4, PITH_I32}, {'i', 8, PITH_I64},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].kind == npy->kind && rows[i].bytes == npy->item_bytes) return rows[i].dtype;
    return PITH_NONE;
}

void tensor_from_npy(struct tensor *t, const struct npy *npy, uint32_t dtype) {
    const bool opaque = npy->kind == 'u' || npy->kind == 'V';
    const bool fits = dtype != PITH_NONE && opaque && pith_dtype_bytes(dtype) == npy->item_bytes;
    *t = (struct tensor){.name = "", .bytes = npy->data_bytes};
    t->dtype = fits ? dtype : natural_dtype(npy);
    if (t->dtype == PITH_NONE) {
        t->dtype = PITH_U8;
        t->item_bytes = 1;
        t->opaque = true;
        set_flat(t, npy->ndim, npy->data_bytes);
        return;
    }
    t->item_bytes = (uint32_t)npy->item_bytes;
    t->swapped = t->item_bytes > 1 && npy->big_endian != host_is_big_endian();
    if (npy->ndim > PITH_MAX_NDIM) {
        set_flat(t, npy->ndim, npy->count);
        return;
    }
    set_shape(t, npy->shape, npy->ndim);
    t->fortran_order = npy->fortran_order && npy->ndim > 1;
}

static int say_other_dtype(const struct tensor_set *set, uint32_t dtype) {
    const struct npy *const npy = &set->npy;
    const uint32_t natural = natural_dtype(npy);
    char found[64];
    if (natural != PITH_NONE)
        snprintf(found, sizeof found, "%s", pith_dtype_name(natural));
    else if (npy->kind == '[')
        snprintf(found, sizeof found, "records of %" PRIu64 " bytes", npy->item_bytes);
    else
        snprintf(found, sizeof found, "items %c of %" PRIu64 " bytes", npy->kind, npy->item_bytes);
    return say_error(set->in.path,
                     "--dtype %s does not fit this .npy file, whose header says %s: only unsigned "
                     "and void items of as many bytes are taken for another dtype",
                     pith_dtype_name(dtype), found);
}

static int open_npy(struct tensor_set *set, const struct tensor_hint *hint, bool exact) {
    const char *why;
    set->format = FORMAT_NPY;
    if (!input_extend(&set->in, NPY_MAX_HEADER)) return EXIT_FAILED;
    if (!npy_parse(set->in.bytes, set->in.mapped, &set->npy, &why))
        return say_error(set->in.path, "%s", why);
    if (!input_expect(&set->in, set->npy.header_bytes + set->npy.data_bytes)) return EXIT_FAILED;
    const uint64_t rest = set->in.length - set->npy.header_bytes;
    if (rest < set->npy.data_bytes)
        return say_error(set->in.path,
                         "the .npy file ends inside its data: found %" PRIu64
                         " bytes of it, expected %" PRIu64,
                         rest, set->npy.data_bytes);
    if (rest > set->npy.data_bytes)
        return say_error(set->in.path, "bytes follow the .npy file's data");
    tensor_from_npy(set->items, &set->npy, hint->dtype);
    set->items->in = &set->in;
    set->items->offset = set->npy.header_bytes;
    set->count = 1;
    if (exact && hint->dtype != PITH_NONE && hint->dtype != set->items->dtype)
        return say_other_dtype(set, hint->dtype);
    return EXIT_GOOD;
}

/* ---- .safetensors ----------------------------------------------------------------------------*/

void tensor_from_safetensors(struct tensor *t, const struct st_tensor *entry) {
    *t = (struct tensor){.name = entry->name, .bytes = entry->end - entry->begin};
    if (!entry->dtype->pith) {
        t->dtype = PITH_U8;
        t->item_bytes = 1;
        t->opaque = true;
        set_flat(t, entry->ndim, t->bytes);
        return;
    }
    t->dtype = pith_dtype_from_name(entry->dtype->pith);
    t->item_bytes = entry->dtype->bits / 8;
    t->swapped = t->item_bytes > 1 && host_is_big_endian();
    if (entry->ndim > PITH_MAX_NDIM)
        set_flat(t, entry->ndim, t->bytes / t->item_bytes);
    else
        set_shape(t, entry->shape, entry->ndim);
}

/* Maps as much of the header as there is. A stream has no length yet that it could be checked
 * against. */
static bool map_header(struct input *in, size_t *text, const char **why) {
    const uint64_t length = in->stream < 0 || in->length < ST_PREFIX ? in->length : UINT64_MAX;
    if (!st_measure(in->bytes, length, text, why)) return true;
    if (!input_extend(in, ST_PREFIX + *text)) return false;
    st_measure(in->bytes, in->length, text, why);
    return true;
}

/* Says what a header that does not fit the file claims; the rest of a stream is not known. */
static int say_bad_measure(const struct input *in, const char *lead, const char *why,
                           uint64_t text) {
    if (in->length < ST_PREFIX)
        return say_error(in->path, "%s%s: found %" PRIu64 " bytes", lead, why, in->length);
    if (in->stream >= 0)
        return say_error(in->path, "%s%s: found a length of %" PRIu64, lead, why, text);
    return say_error(in->path, "%s%s: found a length of %" PRIu64 " in a file of %" PRIu64 " bytes",
                     lead, why, text, in->length);
}

int st_open(struct input *in, struct safetensors *st, const char *lead) {
    const char *why;
    size_t text = 0;
    if (!map_header(in, &text, &why)) return EXIT_FAILED;
    if (why) return say_bad_measure(in, lead, why, text);
    if (st_parse_header(in->bytes + ST_PREFIX, text, st, &why)) {
        const uint64_t expected = ST_PREFIX + text + st->data_bytes;
        const bool there = input_expect(in, expected);
        if (there && st_check_end(st, in->length, &why)) return EXIT_GOOD;
        st_free(st);
        if (!there) return EXIT_FAILED;
        if (in->length < expected)
            return say_error(in->path, "%s%s: found %" PRIu64 " bytes, expected %" PRIu64, lead,
                             why, in->length, expected);
    }
    if (why == st_no_memory) lead = "";
    return say_error(in->path, "%s%s%s%s%s", lead, *st->where ? tensor_label(st->where).text : "",
                     *st->where ? ": " : "", why, st->found);
}

static int open_safetensors(struct tensor_set *set) {
    const int code = st_open(&set->in, &set->st, "");
    if (code != EXIT_GOOD) return code;
    set->format = FORMAT_SAFETENSORS;
    free(set->items);
    set->items = calloc(set->st.count + 1, sizeof *set->items);
    if (!set->items) return say_errno(set->in.path, "cannot read");
    const uint64_t data = ST_PREFIX + set->st.text_bytes;
    for (size_t i = 0; i < set->st.count; i++) {
        tensor_from_safetensors(&set->items[i], &set->st.tensors[i]);
        set->items[i].in = &set->in;
        set->items[i].offset = data + set->st.tensors[i].begin;
    }
    set->count = set->st.count;
    return EXIT_GOOD;
}

/* ---- Raw -------------------------------------------------------------------------------------*/

bool tensor_hint_bytes(const struct tensor_hint *hint, uint64_t *bytes) {
    const pith_view v = pith_view_dense(NULL, hint->dtype, hint->ndim, hint->shape);
    const uint64_t count = pith_view_count(&v), size = pith_dtype_bytes(hint->dtype);
    if (size == 0 || count > (uint64_t)INT64_MAX / size) return false;
    *bytes = count * size;
    return true;
}

/* Whether a file whose header is not one of .safetensors was meant to be one: by its name, or since
 * JSON begins behind the length. */
static bool meant_safetensors(const struct input *in) {
    static const char suffix[] = ".safetensors";
    const size_t n = strlen(in->path), m = sizeof suffix - 1;
    if (in->length > 0 && n > m && strcmp(in->path + n - m, suffix) == 0) return true;
    return in->mapped > ST_PREFIX + 1 && memcmp(in->bytes + ST_PREFIX, "{\"", 2) == 0;
}

static const char *why_unknown(const struct input *in) {
    if (packed_is(in)) return "is already compressed by pith; pith decompress restores it";
    if (in->length == 0) return "is empty; raw bytes need --dtype and --shape";
    if (in->mapped >= 4 && memcmp(in->bytes, "PK\003\004", 4) == 0)
        return "is a zip archive: unpack a .npz first; a .pt is read by its name, by the command "
               "line of the Python package";
    return "neither .npy nor .safetensors; raw bytes need --dtype and --shape";
}

static int open_raw(struct tensor_set *set, const struct tensor_hint *hint, bool exact) {
    uint64_t bytes = 0;
    struct tensor *t = set->items;
    set->format = FORMAT_RAW;
    if (hint->dtype == PITH_NONE || !hint->has_shape) {
        if (meant_safetensors(&set->in) && !packed_is(&set->in)) return open_safetensors(set);
        return say_error(set->in.path, "%s", why_unknown(&set->in));
    }
    if (!tensor_hint_bytes(hint, &bytes))
        return say_error(set->in.path, "no file can have so many bytes as the dtype and shape");
    if (!input_expect(&set->in, bytes)) return EXIT_FAILED;
    if (bytes != set->in.length && !exact && packed_is(&set->in))
        return say_error(set->in.path, "is compressed by pith; decompress it first");
    if (bytes != set->in.length && !exact)
        return say_error(set->in.path,
                         "the base has %s%" PRIu64 " bytes, not the %" PRIu64 " of the tensor",
                         set->in.stream < 0 ? "" : "at least ", set->in.length, bytes);
    if (bytes != set->in.length)
        return say_error(set->in.path,
                         "%s%" PRIu64 " bytes do not fit the dtype and shape, which need %" PRIu64,
                         set->in.stream < 0 ? "" : "at least ", set->in.length, bytes);
    *t = (struct tensor){.name = "", .dtype = hint->dtype, .bytes = bytes, .in = &set->in};
    set_shape(t, hint->shape, hint->ndim);
    t->item_bytes = (uint32_t)pith_dtype_bytes(hint->dtype);
    t->swapped = t->item_bytes > 1 && host_is_big_endian();
    set->count = 1;
    return EXIT_GOOD;
}

/* ---- Any -------------------------------------------------------------------------------------*/

static int open_content(struct tensor_set *set, const struct tensor_hint *hint, bool exact) {
    uint64_t bytes = 0;
    if (exact && hint->has_shape) return open_raw(set, hint, exact);
    if (npy_is(set->in.bytes, set->in.mapped)) return open_npy(set, hint, exact);
    if (!st_is(set->in.bytes, set->in.mapped)) return open_raw(set, hint, exact);
    if (hint->has_shape && tensor_hint_bytes(hint, &bytes)) {
        if (!input_expect(&set->in, bytes)) return EXIT_FAILED;
        if (bytes == set->in.length) return open_raw(set, hint, exact);
    }
    if (exact && hint->dtype != PITH_NONE)
        return say_error(set->in.path, "--dtype does not apply to a .safetensors file");
    return open_safetensors(set);
}

static int compare_names(const void *a, const void *b) {
    const struct tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int compare_key(const void *key, const void *item) {
    const struct tensor *const *t = item;
    return strcmp(key, (*t)->name);
}

static int index_names(struct tensor_set *set) {
    set->by_name = calloc(set->count + 1, sizeof *set->by_name);
    if (!set->by_name) return say_errno(set->in.path, "cannot read");
    for (size_t i = 0; i < set->count; i++) {
        set->by_name[i] = &set->items[i];
        set->bytes += set->items[i].bytes;
    }
    qsort(set->by_name, set->count, sizeof *set->by_name, compare_names);
    return EXIT_GOOD;
}

int tensors_open(struct tensor_set *set, const char *path, const struct tensor_hint *hint,
                 bool exact) {
    *set = (struct tensor_set){0};
    if (!input_open(&set->in, path)) return EXIT_FAILED;
    set->items = calloc(1, sizeof *set->items);
    int code = set->items ? open_content(set, hint, exact) : say_errno(path, "cannot read");
    if (code == EXIT_GOOD) code = index_names(set);
    if (code != EXIT_GOOD) tensors_close(set);
    return code;
}

void tensors_close(struct tensor_set *set) {
    if (set->format == FORMAT_SAFETENSORS) st_free(&set->st);
    free(set->items);
    free(set->by_name);
    input_close(&set->in);
    *set = (struct tensor_set){0};
}

const struct tensor *tensors_find(const struct tensor_set *set, const char *name) {
    const struct tensor **found =
        bsearch(name, set->by_name, set->count, sizeof *set->by_name, compare_key);
    return found ? *found : NULL;
}

uint64_t tensor_count(const struct tensor *t) {
    return t->item_bytes ? t->bytes / t->item_bytes : 0;
}

bool tensor_same_shape(const struct tensor *a, const struct tensor *b) {
    return a->ndim == b->ndim && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0;
}

struct shape_text shape_text(const uint64_t *shape, uint32_t ndim) {
    struct shape_text out = {"scalar"};
    size_t n = 0;
    for (uint32_t i = 0; i < ndim; i++) {
        const int more =
            snprintf(out.text + n, sizeof out.text - n, "%s%" PRIu64, i ? "x" : "", shape[i]);
        n += more > 0 ? (size_t)more : 0;
    }
    return out;
}

struct shape_text tensor_shape_text(const struct tensor *t) {
    struct shape_text out = shape_text(t->shape, t->ndim);
    if (t->rank != t->ndim) snprintf(out.text, sizeof out.text, "%" PRIu32 " dimensions", t->rank);
    return out;
}

int say_other_shape(const char *base_path, const struct tensor *base, const struct tensor *tensor) {
    return say_error(base_path,
                     "%s: the base has another shape, %s, and %" PRIu64
                     " bytes; the tensor has %s and %" PRIu64,
                     tensor_label(tensor->name).text, tensor_shape_text(base).text, base->bytes,
                     tensor_shape_text(tensor).text, tensor->bytes);
}

void swap_items(uint8_t *bytes, uint64_t count, uint32_t item_bytes) {
    for (uint64_t i = 0; i < count; i++, bytes += item_bytes) {
        for (uint32_t a = 0, b = item_bytes - 1; a < b; a++, b--) {
            const uint8_t kept = bytes[a];
            bytes[a] = bytes[b];
            bytes[b] = kept;
        }
    }
}

const uint8_t *tensor_bytes(const struct tensor *t, struct tensor_memory *memory) {
    return map_part(&memory->mapping, t->in, t->offset, t->bytes);
}

const void *tensor_values(const struct tensor *t, struct tensor_memory *memory) {
    const uint8_t *bytes = tensor_bytes(t, memory);
    if (!bytes || !t->swapped) return bytes;
    if (!scratch_reserve(&memory->swapped, t->bytes)) return NULL;
    memcpy(memory->swapped.bytes, bytes, (size_t)t->bytes);
    swap_items(memory->swapped.bytes, tensor_count(t), t->item_bytes);
    return memory->swapped.bytes;
}

void tensor_memory_free(struct tensor_memory *memory) {
    unmap_part(&memory->mapping);
    scratch_free(&memory->swapped);
}

pith_view tensor_view(const struct tensor *t, const void *values) {
    pith_view v = pith_view_dense(values, t->dtype, t->ndim, t->shape);
    int64_t step = 1;
    if (!t->fortran_order || tensor_count(t) == 0) return v;
    for (uint32_t i = 0; i < t->ndim; i++) {
        v.stride[i] = step;
        step *= (int64_t)t->shape[i];
    }
    return v;
}
