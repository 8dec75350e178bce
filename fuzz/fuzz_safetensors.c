/* fuzz_safetensors.c - any bytes to the command line's reader of .safetensors files.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../cli/safetensors.h"
#include "fuzz.h"

static void check_tensor(const struct st_tensor *t, uint64_t at) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < t->ndim; d++) count *= t->shape[d];
    FUZZ_CHECK(t->name && t->dtype && t->dtype->name);
    FUZZ_CHECK(t->begin == at && t->end >= t->begin);
    FUZZ_CHECK((t->end - t->begin) * 8 == count * t->dtype->bits);
    if (t->dtype->pith)
        FUZZ_CHECK(pith_dtype_bytes(pith_dtype_from_name(t->dtype->pith)) * 8 == t->dtype->bits);
}

static void check_file(const struct safetensors *st) {
    uint64_t at = 0;
    size_t length;
    for (size_t i = 0; i < st->count; i++) {
        check_tensor(&st->tensors[i], at);
        at = st->tensors[i].end;
    }
    FUZZ_CHECK(at == st->data_bytes);
    const char *text = st_metadata(st, "format", &length);
    if (text) FUZZ_CHECK(text[length] == 0);
}

/* The whole input as JSON: longer headers than a prefix of eight bytes would often allow. */
static void parse_text(const uint8_t *data, size_t size) {
    struct safetensors st;
    const char *why = NULL;
    uint8_t *text = guard_copy(data, size);
    if (st_parse_header(text, size, &st, &why)) {
        check_file(&st);
        st_free(&st);
    } else {
        FUZZ_CHECK(why && *why);
    }
    guard_free(text, size);
}

static void parse_file(const uint8_t *data, size_t size) {
    struct safetensors st;
    size_t text = 0;
    const char *why = NULL;
    uint8_t *bytes = guard_copy(data, size);
    const bool is = st_is(bytes, size);
    if (st_measure(bytes, size, &text, &why) &&
        st_parse_header(bytes + ST_PREFIX, text, &st, &why)) {
        FUZZ_CHECK(is);
        if (st_check_end(&st, size, &why))
            FUZZ_CHECK(ST_PREFIX + st.text_bytes + st.data_bytes == size);
        check_file(&st);
        st_free(&st);
    } else {
        FUZZ_CHECK(why && *why);
    }
    guard_free(bytes, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse_file(data, size);
    if (size > ST_PREFIX) parse_text(data + ST_PREFIX, size - ST_PREFIX);
    return 0;
}
