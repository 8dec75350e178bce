/* fuzz_npy.c - any bytes to the command line's reader of .npy headers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../cli/npy.h"
#include "fuzz.h"

static void check_header(const struct npy *npy, size_t length) {
    uint64_t count = 1;
    FUZZ_CHECK(npy->header_bytes >= 10 && npy->header_bytes <= length);
    FUZZ_CHECK(npy->ndim <= NPY_MAX_NDIM);
    for (uint32_t d = 0; d < npy->ndim; d++) count *= npy->shape[d];
    FUZZ_CHECK(count == npy->count);
    FUZZ_CHECK(npy->data_bytes == npy->count * npy->item_bytes);
    FUZZ_CHECK(npy->item_bytes == 0 || npy->data_bytes / npy->item_bytes == npy->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *bytes = guard_copy(data, size);
    struct npy npy;
    const char *why = NULL;
    const bool is = npy_is(bytes, size);
    if (npy_parse(bytes, size, &npy, &why)) {
        FUZZ_CHECK(is);
        check_header(&npy, size);
        struct npy alone;
        uint8_t *header = guard_copy(data, npy.header_bytes);
        FUZZ_CHECK(npy_parse(header, npy.header_bytes, &alone, &why));
        FUZZ_CHECK(alone.data_bytes == npy.data_bytes);
        guard_free(header, npy.header_bytes);
    } else {
        FUZZ_CHECK(why && *why);
    }
    guard_free(bytes, size);
    return 0;
}
