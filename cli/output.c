/* output.c - a temporary file beside the target, synchronised, then given its name.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "io.h"
#include "signals.h"

/* The temporary name of the one output a command has. */
static char temporary[PATH_MAX];

static bool failed(const struct output *out) {
    say_errno(path_label(out->path, true), "cannot write");
    return false;
}

/* To the file behind fd, which may be one that collects a stream. */
static bool write_failed(const struct output *out) {
    if (out->stream || temporary[0]) return failed(out);
    return say_temporary(path_label(out->path, true)) == EXIT_GOOD;
}

static int open_stream(struct output *out, bool force) {
    if (isatty(out->fd) && !force) {
        say_error(path_label(out->path, true), "binary data for a terminal; use -o or -f");
        return EXIT_USAGE;
    }
    out->stream = !out->rewinds;
    if (out->stream) return EXIT_GOOD;
    out->fd = temporary_file();
    return out->fd >= 0 ? EXIT_GOOD : say_temporary(path_label(out->path, true));
}

/* mkstemp gives 0600; a new file gets what open would have given it, and nobody who could not read
 * the input may read it. */
static void set_mode(const struct output *out) {
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(out->fd, 0666 & ~mask & (mode_t)out->mode) != 0) errno = 0;
}

/* In the target's directory under a name of its own, so that long names are no problem. */
static bool make_name(const char *path) {
    static const char pattern[] = ".pith.tmp-XXXXXX";
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (n + sizeof pattern > sizeof temporary) return false;
    memcpy(temporary, path, n);
    memcpy(temporary + n, pattern, sizeof pattern);
    return true;
}

static int open_temporary(struct output *out) {
    if (!make_name(out->path)) {
        errno = ENAMETOOLONG;
        return say_errno(out->path, "cannot write");
    }
    signals_block(true);
    out->fd = mkstemp(temporary);
    if (out->fd >= 0)
        signals_guard(temporary);
    else
        temporary[0] = '\0';
    signals_block(false);
    if (out->fd < 0) return say_errno(out->path, "cannot write");
    set_mode(out);
    return EXIT_GOOD;
}

/* A device or a pipe is written to in place; there is nothing to replace. */
static int open_special(struct output *out, bool force) {
    out->fd = open(out->path, O_WRONLY | O_CLOEXEC);
    if (out->fd < 0) return say_errno(out->path, "cannot write");
    return open_stream(out, force);
}

bool output_same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

bool output_is_stdout(const char *path) {
    struct stat a, b;
    if (strcmp(path, "-") == 0) return true;
    if (stat(path, &a) != 0 || fstat(STDOUT_FILENO, &b) != 0) return false;
    if (S_ISCHR(a.st_mode) && !isatty(STDOUT_FILENO)) return false;
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int output_open(struct output *out, const char *path, bool force, bool rewinds, unsigned mode) {
    struct stat st;
    *out =
        (struct output){.path = path, .fd = -1, .rewinds = rewinds, .replace = force, .mode = mode};
    if (strcmp(path, "-") == 0) {
        out->fd = STDOUT_FILENO;
        return open_stream(out, force);
    }
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) return say_error(path, "is a directory");
        if (!S_ISREG(st.st_mode)) return open_special(out, force);
        if (!force) return say_error(path, "exists; -f overwrites");
    } else if (errno != ENOENT) {
        return say_errno(path, "cannot write");
    }
    return open_temporary(out);
}

bool output_write(struct output *out, const void *bytes, size_t length) {
    if (!write_all(out->fd, bytes, length)) return write_failed(out);
    out->written += length;
    return true;
}

bool output_rewrite(struct output *out, uint64_t offset, const void *bytes, size_t length) {
    if (lseek(out->fd, (off_t)offset, SEEK_SET) < 0 || !write_all(out->fd, bytes, length) ||
        lseek(out->fd, 0, SEEK_END) < 0)
        return write_failed(out);
    return true;
}

/* The collected bytes of a stream that needed to go back. */
static bool send_collected(struct output *out) {
    static uint8_t buffer[1 << 16];
    const bool standard = strcmp(out->path, "-") == 0;
    const int target = standard ? STDOUT_FILENO : open(out->path, O_WRONLY | O_CLOEXEC);
    ssize_t n = target < 0 || lseek(out->fd, 0, SEEK_SET) < 0 ? -1 : 1;
    while (n > 0) {
        n = read(out->fd, buffer, sizeof buffer);
        if (n > 0 && !write_all(target, buffer, (size_t)n)) n = -1;
    }
    if (n == 0 && !standard && close(target) != 0) n = -1;
    return n == 0 || failed(out);
}

/* Without leave to replace, link refuses a file that appeared meanwhile. Some file systems have
 * no links. */
static bool give_name(struct output *out) {
    if (!out->replace) {
        if (link(temporary, out->path) == 0) return unlink(temporary) == 0;
        if (errno == EEXIST) return false;
    }
    return rename(temporary, out->path) == 0;
}

/* The new name itself must survive a crash; a directory that cannot be synchronised is no error. */
static void sync_directory(const char *path) {
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (n >= sizeof directory) return;
    memcpy(directory, path, n);
    strcpy(directory + n, ".");
    const int fd = open(directory, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (fsync(fd) != 0) errno = 0;
    close(fd);
}

static bool commit_file(struct output *out) {
    const bool closed = fsync(out->fd) == 0 && close(out->fd) == 0;
    out->fd = -1;
    signals_block(true);
    const bool named = closed && give_name(out);
    const int error = errno;
    if (!named) unlink(temporary);
    signals_guard(NULL);
    temporary[0] = '\0';
    signals_block(false);
    errno = error;
    if (!named) return failed(out);
    sync_directory(out->path);
    return true;
}

static bool is_special(const struct output *out) { return out->stream && out->fd != STDOUT_FILENO; }

bool output_commit(struct output *out) {
    if (temporary[0]) return commit_file(out);
    if (out->rewinds && !send_collected(out)) return false;
    if (is_special(out) && close(out->fd) != 0) return failed(out);
    out->fd = -1;
    return true;
}

void output_abandon(struct output *out) {
    if (out->fd >= 0 && out->fd != STDOUT_FILENO) close(out->fd);
    out->fd = -1;
    signals_block(true);
    if (temporary[0]) unlink(temporary);
    signals_guard(NULL);
    temporary[0] = '\0';
    signals_block(false);
}

bool stdout_finish(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    say_errno("standard output", "cannot write");
    return false;
}
