/* table.h - aligned columns of text.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_TABLE_H
#define PITH_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { TABLE_MAX_COLUMNS = 12 };

struct table {
    size_t columns, count, capacity;
    char **cells; /* row by row; the first row is the heading */
};

/* Adds a cell; a full row ends by itself. Without memory the table loses cells, which is all it can
 * lose. */
void table_add(struct table *t, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/* Prints the table. Columns whose bit is set in left are aligned to the left. */
void table_print(const struct table *t, FILE *to, unsigned left);
void table_free(struct table *t);

#endif
