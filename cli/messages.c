/* messages.c - lines on stderr.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "progress.h"

static void say(const char *subject, const char *format, va_list args) {
    progress_clear();
    fputs("pith: ", stderr);
    if (subject) fprintf(stderr, "%s: ", subject);
    vfprintf(stderr, format, args);
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
