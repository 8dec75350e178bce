/* errors.c - how calls fail and say why, and structs of the caller filled in.
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

/* ---- Statuses of a call ----------------------------------------------------------------------*/

void pithi_collective_fail(pith_collective_channel *ch, pith_status status, int culprit,
                           const pith_error *why) {
    struct pithi_collective_call *call = &ch->call;
    const int new = (int)status, old = (int)call->status;
    if (new > old || (new == old &&culprit >= call->culprit)) return;
    call->status = status;
    call->culprit = culprit;
    if (why)
        ch->error = *why;
    else
        pithi_collective_say(&ch->error, "%s", "");
}

void pithi_collective_fail_text(pith_collective_channel *ch, pith_status status, const char *text) {
    pith_error why;
    pithi_collective_say(&why, "%s", text);
    pithi_collective_fail(ch, status, (int)ch->place.rank, &why);
}

bool pithi_collective_good(pith_collective_channel *ch, pith_status status) {
    if (status == PITH_OK) return true;
    pithi_collective_fail(ch, status, (int)ch->place.rank, pith_work_error(ch->work));
    return false;
}

void pithi_collective_break(pith_collective_channel *ch, pith_status status) {
    ch->broken = true;
    ch->call.status = status;
    ch->call.culprit = -1;
    pithi_collective_say(&ch->error, "%s",
                         status == PITH_ERR_TIMEOUT ? "not all ranks took part before the timeout"
                                                    : "the transport failed");
}

bool pithi_collective_is_told(int status) {
    return status < 0 && status >= -99 && status != (int)PITH_ERR_TIMEOUT &&
           status != (int)PITH_ERR_TRANSPORT && status != (int)PITH_ERR_BROKEN &&
           status != (int)PITH_ERR_BUSY;
}
