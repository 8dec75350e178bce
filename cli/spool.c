/* spool.c - unnamed temporary files, and writing to a descriptor until it is done.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* O_TMPFILE */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli.h"
#include "io.h"
#include "signals.h"

/* The folder where the last temporary file was made, or could not be. */
static const char *folder = "/tmp";

const char *temporary_folder(void) { return folder; }

int say_temporary(const char *subject) {
    const char *text = strerror(errno);
    return say_error(subject, "cannot be kept in a temporary file in %s: %s", folder, text);
}

int unnamed_file(const char *place, bool named_later) {
#ifdef O_TMPFILE
    return open(place, O_TMPFILE | O_RDWR | O_CLOEXEC | (named_later ? 0 : O_EXCL), 0600);
#else
    (void)place, (void)named_later;
    errno = EOPNOTSUPP;
    return -1;
#endif
}

/* Makes a temporary file, which has a name for an instant where files have names from the start. */
static int make_file(const char *place) {
    static const char pattern[] = "/pith-XXXXXX";
    char path[PATH_MAX];
    const size_t n = strlen(place);
    const int unnamed = unnamed_file(place, false);
    if (unnamed >= 0 || n + sizeof pattern > sizeof path) return unnamed;
    memcpy(path, place, n);
    memcpy(path + n, pattern, sizeof pattern);
    signals_block(true);
    const int fd = mkstemp(path);
    if (fd >= 0) unlink(path);
    signals_block(false);
    return fd;
}

/* Large data belongs in /var/tmp: /tmp is memory on many machines. */
int temporary_file(void) {
    const char *places[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    int fd = -1;
    for (int i = 0; i < 3 && fd < 0; i++) {
        if (!places[i] || !*places[i]) continue;
        folder = places[i];
        fd = make_file(folder);
    }
    return fd;
}

uint64_t temporary_capacity(int fd) {
    struct statvfs fs;
    if (fstatvfs(fd, &fs) != 0) return (uint64_t)1 << 30;
    const uint64_t unit = fs.f_frsize ? fs.f_frsize : 1, blocks = fs.f_bavail / 2;
    return blocks < INT64_MAX / unit ? blocks * unit : INT64_MAX;
}

bool wait_for(int fd, short events) {
    struct pollfd one = {.fd = fd, .events = events};
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    return poll(&one, 1, -1) >= 0 || errno == EINTR;
}

bool write_all(int fd, const void *bytes, size_t length) {
    const uint8_t *at = bytes;
    while (length > 0) {
        const ssize_t n = write(fd, at, length < (1u << 30) ? length : 1u << 30);
        if (n < 0 && wait_for(fd, POLLOUT)) continue;
        if (n <= 0) return false;
        at += n;
        length -= (size_t)n;
    }
    return true;
}
