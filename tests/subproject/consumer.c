/* consumer.c - a program of somebody else that links pith.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pith/pith.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    static float value[1000], back[1000];
    static unsigned char frame[8192];
    for (int i = 0; i < 1000; i++) value[i] = (float)(i % 37) / 8.0f;
    const pith_view in = pith_view_flat(value, PITH_F32, 1000);
    const pith_view out = pith_view_flat(back, PITH_F32, 1000);
    pith_error error = {.size = sizeof error};
    size_t bytes = 0;
    if (pith_compress("lossless", &in, NULL, NULL, NULL, frame, sizeof frame, &bytes, &error) ||
        pith_decompress(frame, bytes, NULL, NULL, &out, &error)) {
        printf("pith %u: %s\n", (unsigned)pith_version(), error.text);
        return 1;
    }
    printf("pith %u: %zu bytes for %zu\n", (unsigned)pith_version(), bytes, sizeof value);
    return memcmp(value, back, sizeof value) != 0 || bytes >= sizeof value;
}
