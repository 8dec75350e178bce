/* preload.c - another system for a program that is tested: LD_PRELOAD, by lib.sh.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
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
