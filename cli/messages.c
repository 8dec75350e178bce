/* messages.c - lines on stderr.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "progress.h"

/* Bytes of the character at the start of a text when it is UTF-8 and no control character (C0, DEL,
 * C1); else 0. Overlong forms of controls do not pass, the first bytes c0 and c1 being refused. */
static size_t printable(const unsigned char *at) {
    const unsigned char first = at[0];
    size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first < ' ' || first == 0x7f || (first >= 0x80 && first < 0xc2) || first > 0xf4) return 0;
    if (first == 0xc2 && at[1] < 0xa0) return 0;
    if (first == 0xe0 && at[1] < 0xa0) return 0;
    if (first == 0xf0 && at[1] < 0x90) return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return length;
}

char *make_printable(char *text) {
    for (char *at = text; *at;) {
        const size_t length = printable((const unsigned char *)at);
        if (length == 0) *at = '?';
        at += length ? length : 1;
    }
    return text;
}

static void put_printable(const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (text) {
        vsnprintf(text, (size_t)n + 1, format, args);
        fputs(make_printable(text), stderr);
    }
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

const char *tensor_label(const char *name) { return *name ? name : "(unnamed)"; }

const char *path_label(const char *path, bool output) {
    if (strcmp(path, "-") != 0) return path;
    return output ? "standard output" : "standard input";
}
