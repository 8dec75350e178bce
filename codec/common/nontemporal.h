/* nontemporal.h - copies into memory that will not be read soon.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_NONTEMPORAL_H
#define PITHI_COMMON_NONTEMPORAL_H

#include <stddef.h>

/* Copies as memcpy does. */
typedef void pithi_move_fn(void *to, const void *from, size_t bytes);
pithi_move_fn pithi_move_c;

#endif
