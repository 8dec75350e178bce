/* output.c - a file without a name, or a temporary one beside the target, synchronised, then given
 * its name.
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "io.h"
#include "signals.h"

/* The temporary name of the one output a command has; empty while there is no file of this name. */
static char temporary[PATH_MAX];
#define TEMPORARY_LEAD ".pith.tmp-"
static const char pattern[] = TEMPORARY_LEAD "XXXXXX";

static bool failed(const struct output *out) {
    say_errno(path_label(out->path, true), "cannot write");
    return false;
}

/* Says that a write to the file behind fd failed, which may be a file that collects a stream. */
static bool write_failed(const struct output *out) {
    if (out->target < 0) return failed(out);
    return say_temporary(path_label(out->path, true)) == EXIT_GOOD;
}

/* Opens an output on fd, a descriptor that is written in place, or -1 with errno. An output that
 * rewinds is collected first. */
static int open_stream(struct output *out, int fd, bool force) {
    out->fd = fd;
    if (fd < 0) return say_errno(path_label(out->path, true), "cannot write");
    if (isatty(fd) && !force) {
        say_error(path_label(out->path, true), "binary data for a terminal; use -o or -f");
        return EXIT_USAGE;
    }
    if (!out->rewinds) return EXIT_GOOD;
    out->target = fd;
    out->fd = temporary_file();
    return out->fd >= 0 ? EXIT_GOOD : say_temporary(path_label(out->path, true));
}

/* Sets permissions: mkstemp gives 0600; a new file gets what open would have given it, and nobody
 * who could not read the input may read it. */
static void set_mode(const struct output *out) {
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(out->fd, 0666 & ~mask & (mode_t)out->mode) != 0) errno = 0;
}

/* ---- Files ------------------------------------------------------------------------------------*/

static bool same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether path, in the directory, is a name of the file that is open as fd. */
static bool names(int directory, const char *path, int fd) {
    struct stat a, b;
    return fstatat(directory, path, &a, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &b) == 0 &&
           same(&a, &b);
}

static bool is_temporary(const char *name) {
    const size_t lead = sizeof TEMPORARY_LEAD - 1;
    if (strlen(name) != sizeof pattern - 1 || strncmp(name, TEMPORARY_LEAD, lead) != 0)
        return false;
    for (const char *at = name + lead; *at; at++)
        if (!isalnum((unsigned char)*at)) return false;
    return true;
}

/* Removes a file that a killed program left. A file whose program runs is locked. The lock is kept
 * until the name is gone: a program that has just made a file of this name waits for it, and then
 * finds that it has to make another. */
static void remove_abandoned(int directory, const char *name) {
    const int flags = O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
    struct stat st;
    int fd = openat(directory, name, O_RDWR | flags);
    if (fd < 0 && errno == EACCES) fd = openat(directory, name, O_RDONLY | flags);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && names(directory, name, fd))
        unlinkat(directory, name, 0);
    close(fd);
}

static void remove_all_abandoned(const char *directory) {
    DIR *d = opendir(directory);
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (is_temporary(e->d_name)) remove_abandoned(dirfd(d), e->d_name);
    closedir(d);
}

/* Finds the target's directory, with a final slash, or empty. */
static bool directory_of(const char *path, char directory[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (n >= PATH_MAX) return false;
    memcpy(directory, path, n);
    directory[n] = '\0';
    return true;
}

/* Makes a temporary name in the target's directory, which does not grow with the target's name. */
static bool make_name(const char *directory) {
    const size_t n = strlen(directory);
    if (n + sizeof pattern > sizeof temporary) return false;
    memcpy(temporary, directory, n);
    memcpy(temporary + n, pattern, sizeof pattern);
    return true;
}

/* Opens a file with a temporary name, locked. A file system without locks keeps what a killed
 * program leaves. */
static int open_named(const char *directory) {
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES && make_name(directory); i++) {
        const int fd = mkstemp(temporary);
        if (fd < 0) break;
        const bool locked = flock(fd, LOCK_EX) == 0;
        if (!locked || names(AT_FDCWD, temporary, fd)) return fd;
        close(fd);
    }
    temporary[0] = '\0';
    return -1;
}

/* The path by which a file without a name can be linked. */
struct link_path {
    char text[48];
};
static struct link_path link_path(int fd) {
    struct link_path p;
    snprintf(p.text, sizeof p.text, "/proc/self/fd/%d", fd);
    return p;
}

/* Opens a file without a name. Without /proc it could get none later, and is not taken. */
static int open_unnamed(const char *directory) {
    struct stat a, b;
    const int fd = unnamed_file(directory, true);
    if (fd < 0) return -1;
    if (stat(link_path(fd).text, &a) == 0 && fstat(fd, &b) == 0 && same(&a, &b)) return fd;
    close(fd);
    return -1;
}

static int open_file(struct output *out) {
    char directory[PATH_MAX];
    if (!directory_of(out->path, directory)) {
        errno = ENAMETOOLONG;
        return say_errno(out->path, "cannot write");
    }
    const char *place = *directory ? directory : ".";
    remove_all_abandoned(place);
    signals_block(true);
    out->fd = open_unnamed(place);
    if (out->fd < 0) out->fd = open_named(directory);
    if (temporary[0]) signals_guard(temporary);
    signals_block(false);
    if (out->fd < 0) return say_errno(out->path, "cannot write");
    out->file = true;
    set_mode(out);
    return EXIT_GOOD;
}

/* Returns the descriptor that a path is a name of, so that it is not taken for a file to be
 * replaced; -1: none. */
static int descriptor_of(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    struct stat a, b;
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(folders[i]);
        char *end;
        if (strncmp(path, folders[i], n) != 0 || path[n] < '0' || path[n] > '9') continue;
        const unsigned long fd = strtoul(path + n, &end, 10);
        if (*end == '\0' && fd <= INT_MAX) return (int)fd;
    }
    const bool known = stat(path, &a) == 0 && fstat(STDOUT_FILENO, &b) == 0;
    return known && S_ISREG(a.st_mode) && same(&a, &b) ? STDOUT_FILENO : -1;
}

static bool leads_to(const char *path, const struct stat *file) {
    struct stat st;
    const int out = descriptor_of(path);
    const bool known = out >= 0 ? fstat(out, &st) == 0 : stat(path, &st) == 0;
    return known && S_ISREG(st.st_mode) && same(&st, file);
}

bool output_same_file(const char *path, int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && leads_to(path, &st);
}

bool output_same_path(const char *path, const char *other) {
    struct stat st;
    return stat(other, &st) == 0 && leads_to(path, &st);
}

bool output_is_stdout(const char *path) {
    struct stat a, b;
    if (descriptor_of(path) == STDOUT_FILENO) return true;
    if (stat(path, &a) != 0 || fstat(STDOUT_FILENO, &b) != 0) return false;
    if (S_ISCHR(a.st_mode) && !isatty(STDOUT_FILENO)) return false;
    return same(&a, &b);
}

/* Finds what stands at the path: a file, a device, a symbolic link that leads nowhere. False with
 * errno. */
static bool find(const char *path, struct stat *st) {
    struct stat to;
    if (lstat(path, st) != 0) return false;
    if (!S_ISLNK(st->st_mode)) return true;
    if (stat(path, &to) == 0)
        *st = to;
    else if (errno != ENOENT)
        return false;
    return true;
}

static int open_path(struct output *out, bool force) {
    struct stat st;
    if (!find(out->path, &st))
        return errno == ENOENT ? open_file(out) : say_errno(out->path, "cannot write");
    if (S_ISDIR(st.st_mode)) return say_error(out->path, "is a directory");
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return open_stream(out, open(out->path, O_WRONLY | O_CLOEXEC), force);
    if (!force) return say_error(out->path, "exists; -f overwrites");
    return open_file(out);
}

int output_open(struct output *out, const char *path, bool force, bool rewinds, unsigned mode) {
    const int fd = descriptor_of(path);
    *out = (struct output){
        .path = path, .fd = -1, .target = -1, .rewinds = rewinds, .replace = force, .mode = mode};
    return fd < 0 ? open_path(out, force) : open_stream(out, dup(fd), force);
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

/* Sends the collected bytes of a stream that needed to go back. */
static bool send_collected(struct output *out) {
    static uint8_t buffer[1 << 16];
    ssize_t n = lseek(out->fd, 0, SEEK_SET) < 0 ? -1 : 1;
    while (n > 0) {
        n = read(out->fd, buffer, sizeof buffer);
        if (n > 0 && !write_all(out->target, buffer, (size_t)n)) n = -1;
    }
    return n == 0 || failed(out);
}

static bool link_unnamed(int fd, const char *path) {
    return linkat(AT_FDCWD, link_path(fd).text, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

/* Gives a file without a name a temporary one: only a rename replaces a file in one step, and that
 * needs a name. The lock comes first, so that nobody takes the name for one that was left. */
static bool name_unnamed(int fd, const char *path) {
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    enum { TRIES = 100, LETTERS = sizeof letters - 1 };
    char directory[PATH_MAX];
    struct timespec now = {0};
    bool named = false;
    if (!directory_of(path, directory)) return false;
    if (flock(fd, LOCK_EX) != 0) errno = 0;
    for (int i = 0; i < TRIES && !named; i++) {
        if (!make_name(directory)) break;
        clock_gettime(CLOCK_REALTIME, &now);
        uint64_t number = (uint64_t)now.tv_nsec * 1048573u + (uint64_t)getpid() * 7919u;
        for (char *at = strchr(temporary, '\0') - 6; *at; at++, number /= LETTERS)
            *at = letters[number % LETTERS];
        named = link_unnamed(fd, temporary);
        if (!named && errno != EEXIST) break;
    }
    if (!named) temporary[0] = '\0';
    signals_guard(temporary);
    return named;
}

/* Gives the file its name. Unless it may replace, link refuses a file that appeared meanwhile; some
 * file systems have no links. */
static bool give_name(struct output *out) {
    if (!temporary[0]) {
        if (link_unnamed(out->fd, out->path)) return true;
        if (errno != EEXIST || !out->replace || !name_unnamed(out->fd, out->path)) return false;
    } else if (!out->replace) {
        if (link(temporary, out->path) == 0) return unlink(temporary) == 0;
        if (errno == EEXIST) return false;
    }
    return rename(temporary, out->path) == 0;
}

/* Synchronises the directory, so that the new name itself survives a crash; one that cannot be
 * synchronised is no error. */
static void sync_directory(const char *path) {
    char directory[PATH_MAX];
    if (!directory_of(path, directory)) return;
    const int fd = open(*directory ? directory : ".", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (fsync(fd) != 0) errno = 0;
    close(fd);
}

/* Gives up the temporary name, after a rename or with its file. Signals are blocked. */
static void drop_temporary(bool remove_file) {
    if (remove_file && temporary[0]) unlink(temporary);
    signals_guard(NULL);
    temporary[0] = '\0';
}

/* Commits a file. It stays open, and locked, until it has its name. After fsync, close has nothing
 * left to report. */
static bool commit_file(struct output *out) {
    const bool synced = fsync(out->fd) == 0;
    signals_block(true);
    const bool named = synced && give_name(out);
    const int error = errno;
    drop_temporary(!named);
    signals_block(false);
    close(out->fd);
    out->fd = -1;
    errno = error;
    if (!named) return failed(out);
    sync_directory(out->path);
    return true;
}

bool output_commit(struct output *out) {
    if (out->file) return commit_file(out);
    if (out->target >= 0 && !send_collected(out)) return false;
    int *const last = out->target >= 0 ? &out->target : &out->fd;
    const bool closed = close(*last) == 0;
    *last = -1;
    if (!closed) return failed(out);
    output_abandon(out);
    return true;
}

void output_abandon(struct output *out) {
    signals_block(true);
    drop_temporary(true);
    signals_block(false);
    if (out->fd >= 0) close(out->fd);
    if (out->target >= 0) close(out->target);
    out->fd = out->target = -1;
}

bool stdout_finish(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    say_errno("standard output", "cannot write");
    return false;
}
