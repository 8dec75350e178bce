/* errors.c - how failures are told, and structs of the caller filled in.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "channel.h"

void pithi_collective_say(pith_error *error, const char *format, ...) {
    va_list arguments;
    *error = (pith_error){.size = sizeof *error};
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
}

pith_status pithi_collective_give(void *to, const void *from, size_t bytes) {
    size_t size = 0;
    if (to) memcpy(&size, to, sizeof size);
    if (size < sizeof size || size > 4096) return PITH_ERR_ARG;
    const size_t known = size < bytes ? size : bytes;
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size, known - sizeof size);
    memset((char *)to + known, 0, size - known);
    return PITH_OK;
}

void pithi_collective_give_error(pith_error *to, const pith_error *from) {
    if (pithi_collective_give(to, from, sizeof *from) || to->size <= offsetof(pith_error, text))
        return;
    const size_t capacity = to->size - offsetof(pith_error, text);
    if (capacity < sizeof to->text) to->text[capacity - 1] = 0;
}
