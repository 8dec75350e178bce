/* npy.c - the .npy header: magic, version, length and a dictionary in Python's literal syntax.
 * SPDX-License-Identifier: Apache-2.0 */
#include "npy.h"

#include <string.h>

enum { MAGIC_BYTES = 6, NESTING_MAX = 16, STRING_MAX = 64 };
static const uint8_t magic[MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* A cursor over the dictionary's text. why is set by the first failure. */
struct text {
    const uint8_t *at, *end;
    const char *why;
};

static bool fail(struct text *t, const char *why) {
    if (!t->why) t->why = why;
    return false;
}

static bool is_space(uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void skip_space(struct text *t) {
    while (t->at < t->end && is_space(*t->at)) t->at++;
}

static int peek(struct text *t) {
    skip_space(t);
    return t->at < t->end ? *t->at : -1;
}

static bool accept(struct text *t, char c) {
    if (peek(t) != c) return false;
    t->at++;
    return true;
}

static bool expect(struct text *t, char c) {
    return accept(t, c) || fail(t, "the .npy header is not a dictionary as NumPy writes it");
}

/* Reads a quoted string and keeps the first STRING_MAX - 1 bytes, escapes as they stand. */
static bool read_string(struct text *t, char out[STRING_MAX]) {
    const int quote = peek(t);
    size_t n = 0;
    if (quote == -1) return fail(t, "the .npy header ends inside its dictionary");
    if (quote != '\'' && quote != '"')
        return fail(t, "a key in the .npy header is not a quoted string");
    for (t->at++; t->at < t->end && *t->at != quote; t->at++) {
        if (*t->at < ' ') return fail(t, "a string in the .npy header holds a control character");
        if (*t->at == '\\' && ++t->at == t->end) break;
        if (n + 1 < STRING_MAX) out[n++] = (char)*t->at;
    }
    out[n] = '\0';
    if (t->at == t->end) return fail(t, "a string in the .npy header does not end");
    t->at++;
    return true;
}

/* Reads a dimension, and checks that a comma or a parenthesis follows. */
static bool read_dimension(struct text *t, uint64_t *out) {
    uint64_t v = 0;
    const int first = peek(t);
    if (first == '-') return fail(t, "the shape in the .npy header has a negative dimension");
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        const uint64_t digit = (uint64_t)(*t->at - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return fail(t, "a dimension in the .npy header is too big");
        v = v * 10 + digit;
    }
    /* Python 2 wrote long integers with this suffix. */
    if (t->at < t->end && *t->at == 'L') t->at++;
    *out = v;
    if (peek(t) == -1) return fail(t, "the shape in the .npy header does not end");
    if (first >= '0' && first <= '9' && (*t->at == ',' || *t->at == ')')) return true;
    return fail(t, "the shape in the .npy header holds something other than whole numbers");
}

static bool read_word(struct text *t, const char *word) {
    const size_t n = strlen(word);
    skip_space(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0) return false;
    t->at += n;
    return true;
}

static bool read_bool(struct text *t, bool *out) {
    *out = read_word(t, "True");
    return *out || read_word(t, "False") || fail(t, "fortran_order is neither True nor False");
}

/* Reads a shape: (), (3,), (3, 4) or (3, 4,); as in Python, (3) is not a tuple. */
static bool read_shape(struct text *t, uint64_t shape[NPY_MAX_NDIM], uint32_t *ndim) {
    bool comma = true;
    *ndim = 0;
    if (!accept(t, '(')) return fail(t, "the shape in the .npy header is not a tuple");
    while (!accept(t, ')')) {
        if (*ndim == NPY_MAX_NDIM) return fail(t, "the .npy file has more than 64 dimensions");
        if (!read_dimension(t, &shape[(*ndim)++])) return false;
        comma = accept(t, ',');
    }
    if (*ndim == 1 && !comma) return fail(t, "the shape in the .npy header is not a tuple");
    return true;
}

static bool multiply(uint64_t *a, uint64_t b) {
    if (b != 0 && *a > (uint64_t)INT64_MAX / b) return false;
    *a *= b;
    return true;
}

/* Multiplies the dimensions. The product of those that are not zero must fit as well. */
static bool volume(const uint64_t *shape, uint32_t ndim, uint64_t item, uint64_t *count) {
    uint64_t product = 1;
    bool empty = false;
    for (uint32_t i = 0; i < ndim; i++) {
        empty |= shape[i] == 0;
        if (shape[i] && !multiply(&product, shape[i])) return false;
    }
    *count = empty ? 0 : product;
    return multiply(&product, item);
}

/* ---- descr ---------------------------------------------------------------------------------*/

struct descr {
    char kind;
    bool big_endian;
    uint64_t bytes;
};

static bool scalar_bytes(struct text *t, char kind, const char *digits, uint64_t *out) {
    uint64_t v = 0;
    const char *p = digits;
    for (; *p >= '0' && *p <= '9'; p++)
        if (!multiply(&v, 10) || (v += (uint64_t)(*p - '0')) > INT32_MAX)
            return fail(t, "the item size in the .npy header is too big");
    const bool units = (kind == 'm' || kind == 'M') && *p == '[';
    if (p == digits || (*p != '\0' && !units))
        return fail(t, "the descr in the .npy header is not understood");
    *out = kind == 'U' ? v * 4 : v;
    return true;
}

static bool read_scalar(struct text *t, struct descr *out) {
    char s[STRING_MAX];
    const char *p = s;
    if (peek(t) != '\'' && peek(t) != '"')
        return fail(t, "the descr in the .npy header is not understood");
    if (!read_string(t, s)) return false;
    if (*p != '\0' && strchr("<>|=", *p)) out->big_endian = *p++ == '>';
    if (*p == '\0' || !strchr("biufcmMOSUVa", *p))
        return fail(t, "the descr in the .npy header is not understood");
    out->kind = *p++;
    if (out->kind == 'O') return fail(t, "Python objects in a .npy file are not data; refused");
    return scalar_bytes(t, out->kind, p, &out->bytes);
}

static bool read_descr(struct text *t, struct descr *out, int depth);

/* Reads ('name', descr) or ('name', descr, shape); a name may be a pair ('title', 'name'). */
static bool read_field(struct text *t, uint64_t *bytes, int depth) {
    char name[STRING_MAX];
    struct descr field = {0};
    uint64_t shape[NPY_MAX_NDIM], count = 1;
    uint32_t ndim = 0;
    const bool titled = accept(t, '(') && accept(t, '(');
    if (titled && !(read_string(t, name) && expect(t, ','))) return false;
    if (!read_string(t, name) || (titled && !expect(t, ')'))) return false;
    if (!expect(t, ',') || !read_descr(t, &field, depth + 1)) return false;
    if (accept(t, ',') && peek(t) == '(' && !read_shape(t, shape, &ndim)) return false;
    accept(t, ',');
    if (!expect(t, ')')) return false;
    if (!volume(shape, ndim, field.bytes, &count) || !multiply(&field.bytes, count) ||
        field.bytes > (uint64_t)INT64_MAX - *bytes)
        return fail(t, "the item size in the .npy header is too big");
    *bytes += field.bytes;
    return true;
}

static bool read_record(struct text *t, struct descr *out, int depth) {
    if (depth > NESTING_MAX) return fail(t, "records in the .npy header are nested too deeply");
    *out = (struct descr){.kind = '['};
    if (!expect(t, '[')) return false;
    while (!accept(t, ']')) {
        if (peek(t) != '(') return fail(t, "the descr in the .npy header is not understood");
        if (!read_field(t, &out->bytes, depth)) return false;
        if (!accept(t, ',') && peek(t) != ']') return expect(t, ']');
    }
    return true;
}

/* Reads a subarray: (descr, shape). */
static bool read_subarray(struct text *t, struct descr *out, int depth) {
    uint64_t shape[NPY_MAX_NDIM], count = 1;
    uint32_t ndim = 0;
    if (depth > NESTING_MAX) return fail(t, "records in the .npy header are nested too deeply");
    if (!expect(t, '(') || !read_descr(t, out, depth + 1) || !expect(t, ',')) return false;
    if (!read_shape(t, shape, &ndim) || !expect(t, ')')) return false;
    out->kind = '[';
    if (!volume(shape, ndim, out->bytes, &count) || !multiply(&out->bytes, count))
        return fail(t, "the item size in the .npy header is too big");
    return true;
}

static bool read_descr(struct text *t, struct descr *out, int depth) {
    switch (peek(t)) {
    case '[': return read_record(t, out, depth);
    case '(': return read_subarray(t, out, depth);
    default: return read_scalar(t, out);
    }
}

/* ---- The dictionary -------------------------------------------------------------------------*/

enum { HAS_DESCR = 1, HAS_ORDER = 2, HAS_SHAPE = 4, HAS_ALL = 7 };

static bool read_entry(struct text *t, struct npy *out, struct descr *descr, int *seen) {
    char key[STRING_MAX];
    if (!read_string(t, key) || !expect(t, ':')) return false;
    const int bit = strcmp(key, "descr") == 0           ? HAS_DESCR
                    : strcmp(key, "fortran_order") == 0 ? HAS_ORDER
                    : strcmp(key, "shape") == 0         ? HAS_SHAPE
                                                        : 0;
    if (bit == 0) return fail(t, "the .npy header has an unknown key");
    if (*seen & bit) return fail(t, "the .npy header has a key twice");
    *seen |= bit;
    if (bit == HAS_DESCR) return read_descr(t, descr, 0);
    if (bit == HAS_ORDER) return read_bool(t, &out->fortran_order);
    return read_shape(t, out->shape, &out->ndim);
}

static bool read_dictionary(struct text *t, struct npy *out) {
    struct descr descr = {0};
    int seen = 0;
    if (!expect(t, '{')) return false;
    while (!accept(t, '}')) {
        if (!read_entry(t, out, &descr, &seen)) return false;
        if (!accept(t, ',') && peek(t) != '}') return expect(t, '}');
    }
    if (seen != HAS_ALL) return fail(t, "the .npy header lacks descr, fortran_order or shape");
    if (peek(t) != -1) return fail(t, "the .npy header has text after the dictionary");
    out->kind = descr.kind;
    out->big_endian = descr.big_endian;
    out->item_bytes = descr.bytes;
    if (!volume(out->shape, out->ndim, out->item_bytes, &out->count))
        return fail(t, "the shape in the .npy header is too big");
    out->data_bytes = out->count * out->item_bytes;
    return true;
}

bool npy_is(const uint8_t *bytes, size_t length) {
    return length >= MAGIC_BYTES && memcmp(bytes, magic, MAGIC_BYTES) == 0;
}

/* Reads magic, version and the length field, which has 2 bytes in version 1 and 4 later. */
static const char *read_prefix(const uint8_t *b, size_t length, size_t *prefix, size_t *text) {
    if (!npy_is(b, length)) return "not a .npy file";
    if (length < 10) return "the .npy header is cut short";
    if (b[6] < 1 || b[6] > 3 || b[7] != 0) return "the .npy version is not 1.0, 2.0 or 3.0";
    *prefix = b[6] == 1 ? 10 : 12;
    if (length < *prefix) return "the .npy header is cut short";
    *text = (size_t)b[8] | (size_t)b[9] << 8;
    if (b[6] > 1) *text |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (*text > NPY_MAX_HEADER - *prefix) return "the .npy header is longer than 1 MiB";
    if (*text > length - *prefix) return "the .npy header is cut short";
    return NULL;
}

bool npy_parse(const uint8_t *bytes, size_t length, struct npy *out, const char **why) {
    size_t prefix = 0, size = 0;
    struct text t = {0};
    memset(out, 0, sizeof *out);
    *why = read_prefix(bytes, length, &prefix, &size);
    if (*why) return false;
    out->header_bytes = prefix + size;
    t.at = bytes + prefix;
    t.end = t.at + size;
    if (read_dictionary(&t, out)) return true;
    *why = t.why;
    return false;
}
