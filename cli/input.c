/* input.c - parts of files mapped into memory; of pipes, what was copied to a temporary file.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
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

/* ---- Streams ---------------------------------------------------------------------------------*/

/* The limit is one for the process, which runs one command. */
static uint64_t limit;

void input_limit(uint64_t bytes) { limit = bytes; }

static ssize_t read_some(int fd, void *bytes, size_t capacity) {
    ssize_t n;
    do n = read(fd, bytes, capacity);
    while (n < 0 && wait_for(fd, POLLIN));
    return n;
}

static void end_stream(struct input *in) {
    if (in->stream >= 0) close(in->stream);
    in->stream = -1;
}

static bool copy_until(struct input *in, uint64_t length) {
    static uint8_t buffer[1 << 16];
    while (in->stream >= 0 && in->length < length) {
        const uint64_t left = length - in->length;
        const ssize_t n =
            read_some(in->stream, buffer, left < sizeof buffer ? (size_t)left : sizeof buffer);
        if (n < 0) {
            say_errno(in->path, "cannot read");
            return false;
        }
        if (n == 0) end_stream(in);
        if (!write_all(in->fd, buffer, (size_t)n)) return say_temporary(in->path) == EXIT_GOOD;
        in->length += (uint64_t)n;
    }
    return true;
}

static bool too_long(const struct input *in) {
    say_error(in->path,
              "is longer than the %" PRIu64
              " bytes that a pipe or device may fill of %s; "
              "--max-spool raises it",
              in->most, temporary_folder());
    return false;
}

/* Copies the stream until `bytes` bytes of it, or all of a shorter one, are there. */
static bool reach(struct input *in, uint64_t bytes) {
    if (in->stream < 0) return true;
    if (!copy_until(in, bytes <= in->most ? bytes : in->most + 1)) return false;
    return in->length <= in->most || too_long(in);
}

bool input_expect(struct input *in, uint64_t bytes) {
    if (in->stream < 0) return true;
    return bytes <= in->most ? reach(in, bytes + 1) : too_long(in);
}

/* Makes fd a temporary file, to which the stream is copied as it is needed. */
static bool begin_stream(struct input *in) {
    in->stream = in->fd;
    in->fd = temporary_file();
    if (in->fd < 0) return say_temporary(in->path) == EXIT_GOOD;
    in->most = limit ? limit : temporary_capacity(in->fd);
    return reach(in, INPUT_HEAD);
}

/* ---- Files -----------------------------------------------------------------------------------*/

static bool is_plain(int fd, const struct stat *st) {
    return S_ISREG(st->st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
}

static bool open_any(struct input *in, const char *path) {
    struct stat st;
    in->fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0 || fstat(in->fd, &st) != 0) {
        say_errno(in->path, "cannot read");
        return false;
    }
    in->mode = S_ISREG(st.st_mode) ? (unsigned)st.st_mode & 0666 : 0666;
    if (!is_plain(in->fd, &st)) return begin_stream(in);
    in->length = (uint64_t)st.st_size;
    return true;
}

const uint8_t *map_part(struct mapping *m, const struct input *in, uint64_t offset,
                        uint64_t bytes) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = offset % page;
    unmap_part(m);
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
    m->map = p;
    m->length = (size_t)(before + bytes);
    return (const uint8_t *)p + before;
}

void unmap_part(struct mapping *m) {
    if (m->map) munmap(m->map, m->length);
    *m = (struct mapping){0};
}

bool input_extend(struct input *in, uint64_t bytes) {
    struct mapping head = {0};
    if (bytes <= in->mapped) return true;
    if (!reach(in, bytes)) return false;
    if (bytes > in->length) bytes = in->length;
    if (bytes <= in->mapped) return true;
    const uint8_t *p = map_part(&head, in, 0, bytes);
    if (!p) return false;
    if (in->mapped) munmap((void *)(uintptr_t)in->bytes, in->mapped);
    in->bytes = p;
    in->mapped = (size_t)bytes;
    return true;
}

bool input_open(struct input *in, const char *path) {
    *in = (struct input){.path = path_label(path, false), .fd = -1, .stream = -1, .bytes = nothing};
    if (open_any(in, path) && input_extend(in, INPUT_HEAD)) return true;
    input_close(in);
    return false;
}

void input_close(struct input *in) {
    if (!in->path) return;
    if (in->mapped) munmap((void *)(uintptr_t)in->bytes, in->mapped);
    if (in->fd >= 0) close(in->fd);
    end_stream(in);
    *in = (struct input){0};
}
