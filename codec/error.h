/* error.h - how a failure is told: status, static sentence, place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_ERROR_H
#define PITHI_ERROR_H

#include "pith/pith.h"

static inline pith_status pithi_fail_at(pith_error *error, pith_status status, const char *text,
                                        uint64_t offset) {
    if (error) {
        error->text = text;
        error->offset = offset;
    }
    return status;
}

static inline pith_status pithi_fail(pith_error *error, pith_status status, const char *text) {
    return pithi_fail_at(error, status, text, 0);
}

#endif
