/* weights.c - the tensors of the repository's own .safetensors files, for quality figures.
 * SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pith/pith.h"

/* The header becomes a string: its length field is kept, its last blank becomes 0. */
void *weights_load(const char *directory, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.safetensors", directory, name);
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    uint8_t *bytes = size > 8 ? malloc((size_t)size) : NULL;
    if (bytes && fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

static void read_shape(const char *text, struct weights *out) {
    static const char key[] = "\"shape\":[";
    while (memcmp(text, key, sizeof key - 1) != 0) text++;
    text += sizeof key - 1;
    for (out->ndim = 0; *text != ']' && out->ndim < 4; text += *text == ',') {
        char *end;
        out->shape[out->ndim++] = strtoull(text, &end, 10);
        text = end;
    }
}

/* The tensor entry at the text; returns where the next one may begin, NULL when there is none. */
static const char *next_entry(const char *text, const char *end, struct weights *out,
                              unsigned long long offset[2]) {
    static const char key[] = "\"data_offsets\":[", type[] = "\":{\"dtype\":\"";
    for (; text + sizeof type < end; text++) {
        if (memcmp(text, type, sizeof type - 1) != 0) continue;
        const char *name = text;
        while (name[-1] != '"') name--;
        snprintf(out->name, sizeof out->name, "%.*s", (int)(text - name), name);
        text += sizeof type - 1;
        out->dtype = *text == 'B' ? PITH_BF16 : PITH_F32;
        read_shape(text, out);
        while (memcmp(text, key, sizeof key - 1) != 0) text++;
        sscanf(text + sizeof key - 1, "%llu,%llu", &offset[0], &offset[1]);
        return text;
    }
    return NULL;
}

int weights_at(const void *file, size_t index, struct weights *out) {
    uint64_t header;
    unsigned long long offset[2] = {0, 0};
    memcpy(&header, file, sizeof header);
    const char *text = (const char *)file + 8, *end = text + header;
    do {
        text = next_entry(text, end, out, offset);
        if (!text) return 0;
    } while (index-- > 0);
    out->data = end + offset[0];
    out->count = (size_t)(offset[1] - offset[0]) / pith_dtype_bytes(out->dtype);
    return 1;
}
