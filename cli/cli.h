/* cli.h - what every part of the command line shares: exit codes and messages.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_H
#define PITH_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* EXIT_UNCHECKED: nothing is wrong that could be seen without a base. */
enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_UNCHECKED = 3 };

#if defined(__GNUC__)
#define CLI_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define CLI_PRINTF(a, b)
#endif

/* One line on stderr, "pith: subject: text"; the subject may be NULL. Both return EXIT_FAILED, so
 * that a caller can fail and say why in one statement. */
int say_error(const char *subject, const char *format, ...) CLI_PRINTF(2, 3);
/* The same with the text of errno behind it. */
int say_errno(const char *subject, const char *what);
/* A line that -q silences. */
void say_note(bool quiet, const char *subject, const char *format, ...) CLI_PRINTF(3, 4);
/* Bytes of the character at the start of a text; 0 when it is not UTF-8: too long a form, a
 * surrogate, beyond the last plane or cut. */
size_t utf8_character(const char *text, uint32_t *code);
/* The text with escapes (\x1b, \u202e) for control characters, for what is not seen or changes how
 * the rest is, and for what is not UTF-8: names come from files and must not reach a terminal as
 * they are. malloc'ed; NULL without memory. */
char *make_printable(const char *text);
/* The same into memory of the caller's: PRINTABLE_MOST bytes for each of the text, and one. */
enum { PRINTABLE_MOST = 4 }; /* \x1b */
void write_printable(char *to, const char *text);
/* Characters of a printable text. Wide ones count as one. */
size_t text_columns(const char *text);
/* What to call a tensor, printable; long names lose their middle, and no name is "(unnamed)". */
enum { LABEL_COLUMNS = 64 };
struct label {
    char text[LABEL_COLUMNS * 4 + 1];
};
struct label tensor_label(const char *name);
/* "-" by its spoken name. */
const char *path_label(const char *path, bool output);

#endif
