/* device_host.c - the host runner as the device under test.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory ends where it was asked to end, so that a sanitizer sees the first byte beyond. */
#include "device.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

enum { ALIGNMENT = 256, GUARD = 0xC7 };

/* An allocation with an offset, before which bytes must stay as they are. */
struct offset {
    struct offset *next;
    uint8_t *memory;
    size_t bytes;
};
static struct offset *offsets;

static void fail(const char *what) {
    fprintf(stderr, "device: %s\n", what);
    abort();
}

void *device_alloc_at(size_t bytes, size_t offset) {
    void *memory = NULL;
    if (offset >= ALIGNMENT || posix_memalign(&memory, ALIGNMENT, offset + bytes + !bytes))
        fail("no memory");
    memset(memory, GUARD, offset);
    memset((uint8_t *)memory + offset, 0xA5, bytes);
    if (!offset) return memory;
    struct offset *const o = malloc(sizeof *o);
    if (!o) fail("no memory");
    *o = (struct offset){offsets, memory, offset};
    offsets = o;
    return (uint8_t *)memory + offset;
}

void *device_alloc(size_t bytes) { return device_alloc_at(bytes, 0); }

static void check_guard(const struct offset *o) {
    for (size_t i = 0; i < o->bytes; i++)
        if (o->memory[i] != GUARD) fail("a byte before device memory was written");
}

void device_free(void *p) {
    for (struct offset **at = &offsets; *at; at = &(*at)->next) {
        struct offset *const o = *at;
        if (o->memory + o->bytes != (uint8_t *)p) continue;
        check_guard(o);
        *at = o->next;
        free(o->memory);
        free(o);
        return;
    }
    free(p);
}

void device_put(void *to, const void *from, size_t bytes) {
    if (bytes) memcpy(to, from, bytes);
}
void device_get(void *to, const void *from, size_t bytes) {
    if (bytes) memcpy(to, from, bytes);
}
void device_fill(void *p, int byte, size_t bytes) {
    if (bytes) memset(p, byte, bytes);
}
void device_wait(void) {}
void *device_stream(void) { return (void *)&offsets; }

int device_orders(void) { return PITHI_ORDERS; }
void device_order(int k) { pithi_runner_order(k, 0x5EED + (uint64_t)k); }
