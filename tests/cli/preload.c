/* preload.c - another system for a program that is tested: LD_PRELOAD, by lib.sh.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Run the command in this variable of the environment, the first time. */
static void at(const char *variable) {
    const char *text = getenv(variable);
    char command[1000];
    if (!text || strlen(text) >= sizeof command) return;
    strcpy(command, text);
    unsetenv(variable);
    if (system(command) != 0) _exit(99);
}

/* TEST_AT_LOCK: what other programs do just before a file is locked that is its own, TEST_AT_TRY: a
 * file that may be another's. */
int flock(int fd, int operation) {
    at(operation & LOCK_NB ? "TEST_AT_TRY" : "TEST_AT_LOCK");
    return (int)syscall(SYS_flock, fd, operation);
}

/* TEST_AT_MADE: what happens just after a file is made that has a temporary name or none. With
 * TEST_UNNAMED set none with a name is. */
int mkstemp(char *path) {
    char *const end = strchr(path, '\0') - 6;
    int fd = -1;
    errno = EACCES;
    if (getenv("TEST_UNNAMED")) return -1;
    for (char c = 'a'; c <= 'z' && fd < 0; c++) {
        snprintf(end, 7, "%05u%c", (unsigned)getpid() % 100000, c);
        fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd < 0 && errno != EEXIST) return -1;
    }
    at("TEST_AT_MADE");
    return fd;
}

/* With TEST_INTERRUPTED set every second call to read and write is, by a signal. */
static int is_interrupted(void) {
    static int calls;
    const int interrupted = getenv("TEST_INTERRUPTED") && calls++ % 2 == 0;
    if (interrupted) errno = EINTR;
    return interrupted;
}

ssize_t read(int fd, void *bytes, size_t length) {
    return is_interrupted() ? -1 : syscall(SYS_read, fd, bytes, length);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    return is_interrupted() ? -1 : syscall(SYS_write, fd, bytes, length);
}

/* With TEST_NO_PROC set there is no /proc. */
static int is_missing(const char *path) {
    const int missing = getenv("TEST_NO_PROC") && strncmp(path, "/proc/", 6) == 0;
    if (missing) errno = ENOENT;
    return missing;
}

int stat(const char *path, struct stat *out) {
    return is_missing(path) ? -1 : fstatat(AT_FDCWD, path, out, 0);
}

/* TEST_AT_NAME: what they do just before a file gets its name, TEST_AT_NAMED: just after. With
 * TEST_TAKEN set the first temporary name that is tried is there already. */
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
    at("TEST_AT_NAME");
    if (is_missing(from)) return -1;
    if (strstr(to, ".pith.tmp-") && getenv("TEST_TAKEN")) {
        unsetenv("TEST_TAKEN");
        errno = EEXIST;
        return -1;
    }
    const int result = (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags);
    if (result == 0) at("TEST_AT_NAMED");
    return result;
}

int link(const char *from, const char *to) {
    at("TEST_AT_NAME");
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* TEST_AT_RENAME: the same before a rename. */
int rename(const char *from, const char *to) {
    at("TEST_AT_RENAME");
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* With TEST_BROKEN set the disk fails at the end. */
int fsync(int fd) {
    if (!getenv("TEST_BROKEN")) return (int)syscall(SYS_fsync, fd);
    errno = EIO;
    return -1;
}

/* With TEST_MODES set who runs this is not root, who may write to any file. */
int openat(int directory, const char *path, int flags, ...) {
    struct stat st;
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (getenv("TEST_MODES") && (flags & O_ACCMODE) == O_RDWR &&
        fstatat(directory, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && !(st.st_mode & S_IWUSR)) {
        errno = EACCES;
        return -1;
    }
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

/* With TEST_NAMED set there are no files without a name. */
int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if ((flags & O_TMPFILE) == O_TMPFILE && getenv("TEST_NAMED")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if ((flags & O_TMPFILE) == O_TMPFILE && fd >= 0) at("TEST_AT_MADE");
    return fd;
}

/* TEST_PAGES: the pages of memory the machine has. */
long sysconf(int name) {
    const char *text = getenv("TEST_PAGES");
    if (text && name == _SC_PHYS_PAGES) return atol(text);
    long (*real)(int);
    *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
    return real(name);
}

/* With TEST_CLOCK set a second passes between two looks at a clock. */
int clock_gettime(clockid_t clock, struct timespec *out) {
    static time_t seconds;
    if (!getenv("TEST_CLOCK")) return (int)syscall(SYS_clock_gettime, clock, out);
    *out = (struct timespec){.tv_sec = ++seconds};
    return 0;
}

/* TEST_FREE: the blocks that are free and their size, or anything else: nobody knows. */
int fstatvfs(int fd, struct statvfs *out) {
    const char *text = getenv("TEST_FREE");
    unsigned long long blocks = 0;
    unsigned long unit = 0;
    (void)fd;
    memset(out, 0, sizeof *out);
    if (!text || sscanf(text, "%llu,%lu", &blocks, &unit) != 2) {
        errno = ENOSYS;
        return -1;
    }
    out->f_bavail = blocks;
    out->f_bfree = out->f_blocks = 3 * blocks;
    out->f_frsize = unit;
    out->f_bsize = 7 * unit;
    return 0;
}
