/* messages.c - lines on stderr.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "progress.h"

/* Prints the text; without memory, the lack of which may be what is to be said, its first bytes. */
static void put_printable(const char *format, va_list args) {
    char few[250] = "", shown[sizeof few * PRINTABLE_MOST];
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(few, sizeof few, format, again);
    va_end(again);
    char *text = n < (int)sizeof few ? NULL : malloc((size_t)n + 1);
    if (text) vsnprintf(text, (size_t)n + 1, format, args);
    char *printable = make_printable(text ? text : few);
    if (!printable) write_printable(shown, few);
    fputs(printable ? printable : shown, stderr);
    free(printable);
    free(text);
}

static void put(const char *format, ...) CLI_PRINTF(1, 2);
static void put(const char *format, ...) {
    va_list args;
    va_start(args, format);
    put_printable(format, args);
    va_end(args);
}

static void say(const char *subject, const char *format, va_list args) {
    progress_clear();
    fputs("pith: ", stderr);
    if (subject) put("%s: ", subject);
    put_printable(format, args);
    fputc('\n', stderr);
}

int say_error(const char *subject, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(subject, format, args);
    va_end(args);
    return EXIT_FAILED;
}

int say_errno(const char *subject, const char *what) {
    const char *text = strerror(errno);
    return say_error(subject, "%s: %s", what, text);
}

void say_note(bool quiet, const char *subject, const char *format, ...) {
    va_list args;
    if (quiet) return;
    va_start(args, format);
    say(subject, format, args);
    va_end(args);
}

const char *path_label(const char *path, bool output) {
    if (strcmp(path, "-") != 0) return path;
    return output ? "standard output" : "standard input";
}
