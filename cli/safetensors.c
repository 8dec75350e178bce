/* safetensors.c - the .safetensors header: a length, a JSON object, offsets without holes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct st_dtype dtypes[] = {
    {"F32", "f32", 32},   {"BF16", "bf16", 16},     {"F16", "f16", 16},
    {"F64", "f64", 64},   {"U8", "u8", 8},          {"I8", "i8", 8},
    {"U16", "u16", 16},   {"I16", "i16", 16},       {"U32", "u32", 32},
    {"I32", "i32", 32},   {"U64", "u64", 64},       {"I64", "i64", 64},
    {"BOOL", "bool", 8},  {"F8_E4M3", "f8e4m3", 8}, {"F8_E5M2", "f8e5m2", 8},
    {"F8_E8M0", NULL, 8}, {"F8_E4M3FNUZ", NULL, 8}, {"F8_E5M2FNUZ", NULL, 8},
    {"F6_E2M3", NULL, 6}, {"F6_E3M2", NULL, 6},     {"F4", NULL, 4},
    {"C64", NULL, 64},
};

static const char metadata_key[] = "__metadata__";
const char st_no_memory[] = "out of memory";

/* What can be found wrong in the text as well as in the JSON. */
static const char no_entry[] = "lacks dtype, shape or data_offsets";
static const char bad_shape[] = "the shape is not a list of whole numbers of at least 0";
static const char bad_offsets[] = "the data_offsets are not two whole numbers of at least 0";
static const char unknown_dtype[] = "the dtype is unknown:";
static const char bad_metadata[] = "holds something other than strings";

/* Sets the place of a failure to a name, cut where a character begins. */
static void set_where(struct safetensors *st, const char *name, size_t length) {
    if (length >= sizeof st->where) {
        length = sizeof st->where - 1;
        while (length > 0 && ((uint8_t)name[length] & 0xc0) == 0x80) length--;
    }
    memcpy(st->where, name, length);
    st->where[length] = '\0';
}

static const struct st_dtype *find_dtype(const char *name) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0) return &dtypes[i];
    return NULL;
}

static bool read_unsigned(const json_t *value, uint64_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* Computes the bits of the tensor, with every product checked. */
static bool tensor_bits(const struct st_tensor *t, uint64_t *out) {
    uint64_t bits = t->dtype->bits;
    bool empty = false;
    for (uint32_t i = 0; i < t->ndim; i++) {
        empty |= t->shape[i] == 0;
        if (t->shape[i] && bits > UINT64_MAX / t->shape[i]) return false;
        bits *= t->shape[i] ? t->shape[i] : 1;
    }
    *out = empty ? 0 : bits;
    return true;
}

static const char *check_size(const struct st_tensor *t) {
    uint64_t bits = 0;
    if (!tensor_bits(t, &bits)) return "the shape is too big";
    if (bits % 8 != 0) return "does not end at a whole byte";
    if (t->begin > t->end || t->end - t->begin != bits / 8)
        return "the data_offsets do not fit the dtype and shape";
    return NULL;
}

static const char *read_tensor(const char *name, const json_t *entry, struct st_tensor *t,
                               uint64_t *shape) {
    const json_t *dtype = json_object_get(entry, "dtype");
    const json_t *dims = json_object_get(entry, "shape");
    const json_t *span = json_object_get(entry, "data_offsets");
    if (!json_is_string(dtype) || !json_is_array(dims) || !json_is_array(span)) return no_entry;
    *t = (struct st_tensor){.name = name, .shape = shape, .ndim = (uint32_t)json_array_size(dims)};
    t->dtype = find_dtype(json_string_value(dtype));
    if (!t->dtype) return unknown_dtype;
    for (uint32_t i = 0; i < t->ndim; i++)
        if (!read_unsigned(json_array_get(dims, i), &shape[i])) return bad_shape;
    if (json_array_size(span) != 2 || !read_unsigned(json_array_get(span, 0), &t->begin) ||
        !read_unsigned(json_array_get(span, 1), &t->end))
        return bad_offsets;
    return check_size(t);
}

static const char *check_metadata(json_t *metadata) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) return "is not an object";
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value)) return bad_metadata;
    }
    return NULL;
}

/* Allocates all tensors and all shapes, sized from the JSON itself. */
static const char *reserve(struct safetensors *st) {
    const char *key;
    json_t *value;
    size_t tensors = 0, dims = 0;
    json_object_foreach(st->json, key, value) {
        tensors++;
        dims += json_array_size(json_object_get(value, "shape"));
    }
    st->tensors = calloc(tensors + 1, sizeof *st->tensors);
    st->shapes = calloc(dims + 1, sizeof *st->shapes);
    return st->tensors && st->shapes ? NULL : st_no_memory;
}

static const char *read_tensors(struct safetensors *st) {
    const char *key;
    json_t *value;
    uint64_t *shape = st->shapes;
    json_object_foreach(st->json, key, value) {
        struct st_tensor *t = &st->tensors[st->count];
        const bool metadata = strcmp(key, metadata_key) == 0;
        const char *why = metadata ? check_metadata(value) : read_tensor(key, value, t, shape);
        if (why) {
            set_where(st, key, strlen(key));
            if (why == unknown_dtype)
                snprintf(st->found, sizeof st->found, " '%.24s'",
                         json_string_value(json_object_get(value, "dtype")));
            return why;
        }
        if (metadata) continue;
        shape += t->ndim;
        st->count++;
    }
    return NULL;
}

static int by_offset(const void *a, const void *b) {
    const struct st_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static const char *check_holes(struct safetensors *st) {
    uint64_t at = 0;
    qsort(st->tensors, st->count, sizeof *st->tensors, by_offset);
    for (size_t i = 0; i < st->count; i++) {
        if (st->tensors[i].begin != at) {
            set_where(st, st->tensors[i].name, strlen(st->tensors[i].name));
            return "the data_offsets overlap or leave holes";
        }
        at = st->tensors[i].end;
    }
    st->data_bytes = at;
    return NULL;
}

/* ---- The text, before it is JSON -------------------------------------------------------------*/

struct span {
    const char *at;
    size_t length;
};

/* Where a scan of the text is: the last string, and the keys above, of a tensor and in it. */
struct scan {
    struct span string, keys[2];
    size_t depth, items; /* items: entries of the array around, with the one being read; 0: none */
};

static bool span_is(const struct span *s, const char *text) {
    return s->length == strlen(text) && memcmp(s->at, text, s->length) == 0;
}

static const char *array_fault(const struct scan *s, bool nested) {
    if (span_is(&s->keys[0], metadata_key)) return bad_metadata;
    if (s->depth < 2) return no_entry;
    if (span_is(&s->keys[1], "data_offsets")) return bad_offsets;
    if (!span_is(&s->keys[1], "shape")) return "its entry has an array that is nested or too long";
    return nested ? bad_shape : "the shape has more than 64 dimensions";
}

/* Scans a character outside strings. NULL, or what is wrong. */
static const char *scan_mark(struct scan *s, uint8_t c) {
    if (s->items && (c == '[' || c == '{')) return array_fault(s, true);
    if (s->items && c == ',' && ++s->items > ST_MAX_NDIM) return array_fault(s, false);
    if (c == '[' || c == ']') s->items = c == '[';
    if (c == ':' && s->depth - 1 < 2) s->keys[s->depth - 1] = s->string;
    if (c == '{') s->depth++;
    if (c == '}' && s->depth > 0) s->depth--;
    return NULL;
}

/* Returns the byte after the string that begins at `at`, or the end. */
static size_t skip_string(const uint8_t *text, size_t at, size_t length) {
    for (at++; at < length && text[at] != '"'; at++)
        if (text[at] == '\\') at++;
    return at < length ? at + 1 : length;
}

/* Refuses arrays that no shape can be before anything is allocated for them. */
static const char *check_arrays(struct safetensors *st) {
    struct scan s = {{"", 0}, {{"", 0}, {"", 0}}, 0, 0};
    const char *why = NULL;
    for (size_t i = 0; i < st->text_bytes && !why;) {
        if (st->text[i] != '"') {
            why = scan_mark(&s, st->text[i++]);
            continue;
        }
        const size_t after = skip_string(st->text, i, st->text_bytes);
        s.string =
            (struct span){(const char *)st->text + i + 1, after - i - (after - i > 1 ? 2 : 1)};
        i = after;
    }
    if (why) set_where(st, s.keys[0].at, s.keys[0].length);
    return why;
}

static const char *json_fault(const json_error_t *error) {
    switch (json_error_code(error)) {
    case json_error_duplicate_key: return "a key for the second time";
    case json_error_invalid_utf8: return "not UTF-8";
    case json_error_out_of_memory: return st_no_memory;
    case json_error_numeric_overflow: return "a number is too big";
    case json_error_stack_overflow: return "nested too deeply";
    case json_error_null_byte_in_key:
    case json_error_null_character: return "a string holds the character NUL";
    default: return "not valid JSON";
    }
}

static const char *read_json(struct safetensors *st) {
    json_error_t error;
    if (st->text_bytes == 0 || st->text[0] != '{') return "the header does not begin with {";
    const char *why = check_arrays(st);
    if (why) return why;
    st->json = json_loadb((const char *)st->text, st->text_bytes, JSON_REJECT_DUPLICATES, &error);
    if (st->json) return NULL;
    snprintf(st->where, sizeof st->where, "byte %d of the header", error.position);
    return json_fault(&error);
}

bool st_parse_header(const uint8_t *text, size_t length, struct safetensors *out,
                     const char **why) {
    *out = (struct safetensors){.text = text, .text_bytes = length};
    *why =
        length > ST_MAX_HEADER ? "the .safetensors header is longer than 100 MB" : read_json(out);
    if (!*why) *why = reserve(out);
    if (!*why) *why = read_tensors(out);
    if (!*why) *why = check_holes(out);
    if (!*why) return true;
    struct safetensors rest = *out;
    *out = (struct safetensors){0};
    memcpy(out->where, rest.where, sizeof out->where);
    memcpy(out->found, rest.found, sizeof out->found);
    st_free(&rest);
    return false;
}

static uint64_t read_prefix(const uint8_t *bytes) {
    uint64_t v = 0;
    for (int i = ST_PREFIX - 1; i >= 0; i--) v = v << 8 | bytes[i];
    return v;
}

bool st_is(const uint8_t *bytes, size_t length) {
    return length > ST_PREFIX && read_prefix(bytes) <= ST_MAX_HEADER && bytes[ST_PREFIX] == '{';
}

bool st_measure(const uint8_t *bytes, uint64_t file_bytes, size_t *text_bytes, const char **why) {
    const uint64_t text = file_bytes < ST_PREFIX ? 0 : read_prefix(bytes);
    *text_bytes = (size_t)text;
    *why = NULL;
    if (file_bytes < ST_PREFIX)
        *why = "the file is shorter than its length field";
    else if (text > ST_MAX_HEADER)
        *why = "the .safetensors header is longer than 100 MB";
    else if (text > file_bytes - ST_PREFIX)
        *why = "the file ends inside its .safetensors header";
    return !*why;
}

bool st_check_end(const struct safetensors *st, uint64_t file_bytes, const char **why) {
    const uint64_t rest = file_bytes - ST_PREFIX - st->text_bytes;
    *why = NULL;
    if (st->data_bytes > rest) *why = "the file ends inside its data";
    if (st->data_bytes < rest) *why = "bytes follow the last tensor";
    return !*why;
}

void st_free(struct safetensors *st) {
    json_decref(st->json);
    free(st->tensors);
    free(st->shapes);
    *st = (struct safetensors){0};
}

const char *st_metadata(const struct safetensors *st, const char *key, size_t *length) {
    const json_t *value = json_object_get(json_object_get(st->json, metadata_key), key);
    if (!json_is_string(value)) return NULL;
    *length = json_string_length(value);
    return json_string_value(value);
}
