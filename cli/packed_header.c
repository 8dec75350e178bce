/* packed_header.c - writes the header of a container.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packed.h"

/* A text that grows; failed is sticky. */
struct text {
    char *bytes;
    size_t length, capacity;
    bool failed;
};

static void append(struct text *t, const char *bytes, size_t n) {
    if (t->failed) return;
    if (n > t->capacity - t->length) {
        const size_t capacity = (t->length + n) * 2;
        char *grown = realloc(t->bytes, capacity);
        t->failed = !grown;
        if (!grown) return;
        t->bytes = grown;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->length, bytes, n);
    t->length += n;
}

static void append_text(struct text *t, const char *text) { append(t, text, strlen(text)); }

/* Appends a quoted JSON string. */
static void append_string(struct text *t, const char *bytes, size_t n) {
    json_t *string = json_stringn(bytes, n);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    if (quoted)
        append_text(t, quoted);
    else
        t->failed = true;
    free(quoted);
    json_decref(string);
}

static void append_entry(struct text *t, const char *name, uint64_t begin, uint64_t end) {
    char entry[128];
    append_text(t, ",");
    append_string(t, name, strlen(name));
    snprintf(entry, sizeof entry,
             ":{\"dtype\":\"U8\",\"shape\":[%" PRIu64 "],\"data_offsets\":[%" PRIu64 ",%" PRIu64
             "]}",
             end - begin, begin, end);
    append_text(t, entry);
}

static void append_header(struct text *t, const struct tensor_set *original, const uint64_t *ends) {
    append(t, "\0\0\0\0\0\0\0\0", ST_PREFIX);
    append_text(t, PACKED_LEAD "0000000000000000" PACKED_MIDDLE);
    append_string(t, (const char *)original->st.text, original->st.text_bytes);
    append_text(t, "}");
    for (size_t i = 0; i < original->count; i++)
        append_entry(t, original->items[i].name, i ? ends[i - 1] : 0, ends[i]);
    append_text(t, "}");
}

uint8_t *packed_header(const struct tensor_set *original, const uint64_t *ends, size_t least,
                       size_t *length) {
    struct text t = {0};
    char digits[PACKED_DIGITS];
    append_header(&t, original, ends);
    while (!t.failed && (t.length < least || t.length % 8 != 0)) append(&t, " ", 1);
    *length = t.length;
    if (t.failed) {
        free(t.bytes);
        return NULL;
    }
    for (int i = 0; i < ST_PREFIX; i++)
        t.bytes[i] = (char)((uint64_t)(t.length - ST_PREFIX) >> (8 * i) & 0xff);
    packed_check((uint8_t *)t.bytes, t.length, digits);
    memcpy(t.bytes + ST_PREFIX + sizeof PACKED_LEAD - 1, digits, PACKED_DIGITS);
    return (uint8_t *)t.bytes;
}
