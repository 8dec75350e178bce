/* nontemporal.c - copies into memory that will not be read soon: in C they are ordinary ones.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/nontemporal.h"

#include <string.h>

void pithi_move_c(void *to, const void *from, size_t bytes) {
    if (bytes) memcpy(to, from, bytes);
}
