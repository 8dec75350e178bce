/* device.h - memory of the device under test: a CUDA device's, or the host runner's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Test programs say nothing of either; they are linked with device_cuda.c or device_host.c. What
 * fails here ends the program. */
#ifndef PITH_TESTS_DEVICE_H
#define PITH_TESTS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* The device's number. */
enum { DEVICE = 0 };

/* Not initialised; never NULL. A byte that is written before or behind the memory ends the program,
 * at once (host, under a sanitizer) or when it is freed. */
void *device_alloc(size_t bytes);                   /* aligned to 256 */
void *device_alloc_at(size_t bytes, size_t offset); /* `offset`, below 256, behind such a place */
void device_free(void *p);                          /* NULL is allowed */

/* Whatever was put on device_stream() before is done first; complete on return. */
void device_put(void *to, const void *from, size_t bytes);
void device_get(void *to, const void *from, size_t bytes);
void device_fill(void *p, int byte, size_t bytes);
void device_wait(void);

/* The stream that tests use: never the default one. */
void *device_stream(void);

/* In how many orders of threads a test is to run, and to take the k-th: one where hardware decides,
 * several on the host runner. */
int device_orders(void);
void device_order(int k);

#endif
