/* cli.h - what every part of the command line shares: exit codes and messages.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_H
#define PITH_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* EXIT_UNCHECKED says that nothing is wrong as far as can be seen without a base. */
enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_UNCHECKED = 3 };

#if defined(__GNUC__)
#define CLI_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define CLI_PRINTF(a, b)
#endif

/* Prints one line on stderr, "pith: subject: text"; the subject may be NULL. say_error and
 * say_errno return EXIT_FAILED, so that a caller can fail and say why in one statement. */
int say_error(const char *subject, const char *format, ...) CLI_PRINTF(2, 3);
/* Prints such a line with the text of errno behind it. */
int say_errno(const char *subject, const char *what);
/* Prints a line that -q silences. */
void say_note(bool quiet, const char *subject, const char *format, ...) CLI_PRINTF(3, 4);
/* Returns the bytes of the character at the start of a text; 0 when it is not UTF-8: too long a
 * form, a surrogate, beyond the last plane or cut. */
size_t utf8_character(const char *text, uint32_t *code);
/* Returns the text with escapes (\x1b, \u202e) for control characters, for characters that are not
 * seen or change how others are, and for what is not UTF-8: names come from files and must not
 * reach a terminal as they are. malloc'ed; NULL without memory. */
char *make_printable(const char *text);
/* Writes what make_printable would return into memory of the caller's: PRINTABLE_MOST bytes for
 * each byte of the text, and one. */
enum { PRINTABLE_MOST = 4 }; /* as long as \x1b */
void write_printable(char *to, const char *text);
/* Counts the characters of a printable text. Wide ones count as one. */
size_t text_columns(const char *text);
/* A label is what a message calls a tensor: printable, without the middle of a long name, and
 * "(unnamed)" without a name. */
enum { LABEL_COLUMNS = 64 };
struct label {
    char text[LABEL_COLUMNS * 4 + 1];
};
struct label tensor_label(const char *name);
/* Returns the path, and for "-" its spoken name. */
const char *path_label(const char *path, bool output);

#endif
