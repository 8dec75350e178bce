/* refdec_main.c - refdec FRAME [BASE] OUT: decodes one frame to raw bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "refdec.h"

static uint8_t *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        const long end = ftell(file);
        bytes = end >= 0 ? malloc((size_t)end + 1) : NULL;
        *length = (size_t)end;
        rewind(file);
        if (bytes && fread(bytes, 1, *length, file) != *length) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (!bytes) perror(path);
    if (file) fclose(file);
    return bytes;
}

static int write_file(const char *path, const uint8_t *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    const int good = file && fwrite(bytes, 1, length, file) == length;
    if (file && fclose(file) == 0 && good) return 0;
    perror(path);
    return 1;
}

int main(int argc, char **argv) {
    size_t length = 0, base_bytes = 0, out_bytes;
    uint8_t *out, *base = NULL;
    if (argc != 3 && argc != 4) {
        fputs("usage: refdec FRAME [BASE] OUT\n", stderr);
        return 2;
    }
    uint8_t *frame = read_file(argv[1], &length);
    if (argc == 4) base = read_file(argv[2], &base_bytes);
    if (!frame || (argc == 4 && !base)) return 1;
    const enum ref_status status =
        refdec(frame, length, base, base_bytes, UINT64_C(1) << 40, &out, &out_bytes);
    int failed = status != REF_OK;
    printf("%s\n", ref_status_name(status));
    if (!failed) failed = write_file(argv[argc - 1], out, out_bytes);
    free(out);
    free(base);
    free(frame);
    return failed;
}
