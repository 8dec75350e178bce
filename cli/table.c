/* table.c - aligned columns of text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <stdarg.h>
#include <stdlib.h>

#include "cli.h"

static bool grow(struct table *t) {
    const size_t capacity = t->capacity ? t->capacity * 2 : 64;
    char **cells = realloc(t->cells, capacity * sizeof *cells);
    if (!cells) return false;
    t->cells = cells;
    t->capacity = capacity;
    return true;
}

void table_add(struct table *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (!text) return;
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    char *cell = make_printable(text);
    free(text);
    if (cell && (t->count < t->capacity || grow(t)))
        t->cells[t->count++] = cell;
    else
        free(cell);
}

static void print_cell(FILE *to, const char *text, size_t width, bool left, bool last) {
    const int pad = (int)(width - text_columns(text));
    if (left && last)
        fputs(text, to);
    else if (left)
        fprintf(to, "%s%*s", text, pad, "");
    else
        fprintf(to, "%*s%s", pad, "", text);
    fputs(last ? "\n" : "  ", to);
}

void table_print(const struct table *t, FILE *to, unsigned left) {
    size_t width[TABLE_MAX_COLUMNS] = {0};
    for (size_t i = 0; i < t->count; i++) {
        const size_t n = text_columns(t->cells[i]), c = i % t->columns;
        if (n > width[c]) width[c] = n;
    }
    for (size_t i = 0; i < t->count; i++) {
        const size_t c = i % t->columns;
        print_cell(to, t->cells[i], width[c], left >> c & 1, c + 1 == t->columns);
    }
}

void table_free(struct table *t) {
    for (size_t i = 0; i < t->count; i++) free(t->cells[i]);
    free(t->cells);
    *t = (struct table){0};
}
