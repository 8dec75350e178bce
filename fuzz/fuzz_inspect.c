/* fuzz_inspect.c - any bytes to pith_inspect: what it reports must hold together.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"

static void check_spec(const pith_info *info) {
    char text[PITH_SPEC_MAX];
    FUZZ_CHECK(pith_spec_check(info->spec, text, sizeof text, NULL) == PITH_OK);
    FUZZ_CHECK(strcmp(text, info->spec) == 0);
}

static void check_info(const pith_info *info, const uint8_t *bytes, size_t length) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < info->ndim; d++) count *= info->shape[d];
    FUZZ_CHECK(info->ndim <= PITH_MAX_NDIM && count == info->count);
    FUZZ_CHECK(info->raw_bytes == count * pith_dtype_bytes(info->dtype));
    FUZZ_CHECK(info->header_bytes <= length && info->header_bytes % 16 == 0);
    FUZZ_CHECK(info->frame_bytes >= info->header_bytes);
    FUZZ_CHECK(info->exempt <= info->count);
    FUZZ_CHECK((info->source == NULL) == (info->source_bytes == 0));
    if (info->source) {
        const uint8_t *source = info->source;
        FUZZ_CHECK(source >= bytes && source + info->source_bytes <= bytes + info->header_bytes);
    }
    check_spec(info);
}

/* A header cut short asks for more than it has and never for more than there is. */
static void check_cuts(const pith_info *whole, const uint8_t *bytes) {
    const size_t cuts[] = {0, 1, 4, 15, 63, 64, (size_t)whole->header_bytes - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        pith_info info = {.size = sizeof info};
        if (cuts[i] >= whole->header_bytes) continue;
        uint8_t *cut = guard_copy(bytes, cuts[i]);
        FUZZ_CHECK(pith_inspect(cut, cuts[i], &info, NULL) == PITH_ERR_TRUNCATED);
        FUZZ_CHECK(info.header_bytes > cuts[i] && info.header_bytes <= whole->header_bytes);
        guard_free(cut, cuts[i]);
    }
}

/* A caller with an older, shorter struct gets that much of it. */
static void check_short(const pith_info *whole, const uint8_t *bytes, size_t length) {
    const size_t size = 8 * (1 + length % (sizeof *whole / 8));
    const size_t plain = size < offsetof(pith_info, ndim) ? size : offsetof(pith_info, ndim);
    pith_info *info = guard_new(size);
    memcpy(info, &size, sizeof size);
    FUZZ_CHECK(pith_inspect(bytes, length, info, NULL) == PITH_OK);
    FUZZ_CHECK(memcmp((const uint8_t *)info + 8, (const uint8_t *)whole + 8, plain - 8) == 0);
    guard_free(info, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *bytes = guard_copy(data, size);
    pith_info info = {.size = sizeof info};
    pith_error error = {.size = sizeof error};
    const pith_status status = pith_inspect(bytes, size, &info, &error);
    FUZZ_CHECK(fuzz_is_status(status) && fuzz_error_fits(&error, status));
    if (status == PITH_OK) {
        check_info(&info, bytes, size);
        check_cuts(&info, bytes);
        check_short(&info, bytes, size);
    } else if (status == PITH_ERR_TRUNCATED) {
        FUZZ_CHECK(info.header_bytes > size);
    }
    guard_free(bytes, size);
    return 0;
}
