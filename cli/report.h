/* report.h - what inspect and compress tell about the tensors of a compressed file.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_REPORT_H
#define PITH_CLI_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "pith/pith.h"
#include "table.h"

struct report {
    bool json, timed; /* timed: the table has a column of GB/s */
    json_t *tensors;
    struct table table, sparse; /* all frames; those that send some elements */
    uint64_t count, raw_bytes, bytes;
    double seconds;
};

void report_begin(struct report *r, bool json, bool timed);
/* Adds one frame, by its header; bound as pith_error_bound gives it. */
void report_add(struct report *r, const char *name, const pith_info *info, double bound,
                double seconds);
/* Prints the report as JSON or as a table, and frees it. file_bytes: length of the whole compressed
 * file. */
void report_end(struct report *r, FILE *to, uint64_t file_bytes);
void report_free(struct report *r);

/* Makes a JSON number, null for what is not finite. */
json_t *json_number(double value);
json_t *json_unsigned(uint64_t value);
/* Prints JSON, indented, with a newline; numbers with as few digits as read back to the same. */
void json_print(json_t *value, FILE *to);

#endif
