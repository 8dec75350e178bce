/* byte_planes.h - words of 1, 2, 4 or 8 bytes to and from byte planes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_BYTES_BYTE_PLANES_H
#define PITHI_BYTES_BYTE_PLANES_H

#include <stddef.h>
#include <stdint.h>

/* Takes a plane from words: plane[i] is byte `index` (0: least significant) of word i. */
void pithi_plane_take(uint8_t *plane, const void *words, size_t width, size_t index, size_t count);
/* Makes words from `width` planes. */
void pithi_planes_merge(void *words, const uint8_t *const *planes, size_t width, size_t count);

#endif
