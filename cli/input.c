/* input.c - parts of files mapped into memory; pipes through an unnamed temporary file.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "io.h"
#include "signals.h"

static const uint8_t nothing[1];

/* stdin, stdout and stderr may be closed; a file opened later must not take their place. */
static void occupy(int fd, int flags) {
    if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
        const int got = open("/dev/null", flags);
        if (got >= 0 && got != fd) close(got);
    }
}

void io_begin(void) {
    signals_begin();
    occupy(STDIN_FILENO, O_WRONLY);
    occupy(STDOUT_FILENO, O_RDONLY);
    occupy(STDERR_FILENO, O_RDONLY);
}

/* Large data belongs in /var/tmp: /tmp is memory on many machines. */
int temporary_file(void) {
    const char *places[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    int fd = -1;
    for (int i = 0; i < 3 && fd < 0; i++) {
        char path[PATH_MAX];
        if (!places[i] || !*places[i] || strlen(places[i]) + 16 > sizeof path) continue;
        strcpy(path, places[i]);
        strcat(path, "/pith-XXXXXX");
        signals_block(true);
        fd = mkstemp(path);
        if (fd >= 0) unlink(path);
        signals_block(false);
    }
    return fd;
}

bool write_all(int fd, const void *bytes, size_t length) {
    const uint8_t *at = bytes;
    while (length > 0) {
        const ssize_t n = write(fd, at, length < (1u << 30) ? length : 1u << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        length -= (size_t)n;
    }
    return true;
}

static bool copy_all(int from, int to) {
    static uint8_t buffer[1 << 16];
    for (;;) {
        const ssize_t n = read(from, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n == 0;
        if (!write_all(to, buffer, (size_t)n)) return false;
    }
}

/* A descriptor of a regular file with the same bytes; closes fd. */
static int spool(int fd) {
    const int copy = temporary_file();
    const bool good = copy >= 0 && copy_all(fd, copy);
    const int error = errno;
    close(fd);
    if (good) return copy;
    if (copy >= 0) close(copy);
    errno = error;
    return -1;
}

static bool is_plain(int fd, const struct stat *st) {
    return S_ISREG(st->st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
}

static int open_plain(const char *path, unsigned *mode) {
    struct stat st;
    const int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) return -1;
    if (S_ISDIR(st.st_mode)) {
        close(fd);
        errno = EISDIR;
        return -1;
    }
    *mode = S_ISREG(st.st_mode) ? (unsigned)st.st_mode & 0666 : 0666;
    return is_plain(fd, &st) ? fd : spool(fd);
}

const uint8_t *window_map(struct window *w, const struct input *in, uint64_t offset,
                          uint64_t bytes) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = offset % page;
    window_unmap(w);
    if (bytes == 0) return nothing;
    void *p = MAP_FAILED;
    errno = ENOMEM;
    if (bytes < PTRDIFF_MAX)
        p = mmap(NULL, (size_t)(before + bytes), PROT_READ, MAP_PRIVATE, in->fd,
                 (off_t)(offset - before));
    if (p == MAP_FAILED) {
        say_errno(in->path, "cannot read");
        return NULL;
    }
    w->map = p;
    w->length = (size_t)(before + bytes);
    return (const uint8_t *)p + before;
}

void window_unmap(struct window *w) {
    if (w->map) munmap(w->map, w->length);
    *w = (struct window){0};
}

bool input_extend(struct input *in, uint64_t bytes) {
    struct window head = {0};
    if (bytes <= in->mapped) return true;
    const uint8_t *p = window_map(&head, in, 0, bytes);
    if (!p) return false;
    if (in->mapped) munmap((void *)(uintptr_t)in->bytes, in->mapped);
    in->bytes = p;
    in->mapped = (size_t)bytes;
    return true;
}

bool input_open(struct input *in, const char *path) {
    struct stat st;
    *in = (struct input){.path = path_label(path, false), .bytes = nothing};
    in->fd = open_plain(path, &in->mode);
    const bool known = in->fd >= 0 && fstat(in->fd, &st) == 0;
    if (!known) say_errno(in->path, "cannot read");
    if (known) in->length = (uint64_t)st.st_size;
    if (known && input_extend(in, in->length < INPUT_HEAD ? in->length : INPUT_HEAD)) return true;
    if (in->fd >= 0) close(in->fd);
    *in = (struct input){.bytes = nothing};
    return false;
}

void input_close(struct input *in) {
    if (in->mapped) munmap((void *)(uintptr_t)in->bytes, in->mapped);
    if (in->path) close(in->fd);
    *in = (struct input){0};
}
