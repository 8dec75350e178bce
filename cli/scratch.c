/* scratch.c - memory for one tensor, in a mapped unnamed file when memory might not do.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"
#include "io.h"

/* Returns a quarter of the machine's memory, at most 4 GiB: beyond it a file is used. */
static uint64_t memory_limit(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t most = (uint64_t)4 << 30;
    if (pages <= 0 || page <= 0) return (uint64_t)256 << 20;
    const uint64_t quarter = (uint64_t)pages / 4 * (uint64_t)page;
    return quarter < most ? quarter : most;
}

/* Maps a file whose disk space is taken first: a full disk is an error, not a signal. */
static void *map_file(size_t bytes) {
    const int fd = temporary_file();
    if (fd < 0) return NULL;
    const int error = posix_fallocate(fd, 0, (off_t)bytes);
    void *p = error ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (error) errno = error;
    const int saved = errno;
    close(fd);
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

static void say_no_space(bool mapped, uint64_t bytes) {
    const int error = errno;
    char text[64];
    snprintf(text, sizeof text, "a tensor of %" PRIu64 " bytes", bytes);
    errno = error;
    if (mapped)
        say_temporary(text);
    else
        say_errno(text, "no memory");
}

bool scratch_reserve(struct scratch *s, uint64_t bytes) {
    if (bytes <= s->capacity && s->bytes) return true;
    scratch_free(s);
    if (bytes > PTRDIFF_MAX) {
        say_error(NULL, "a tensor of %" PRIu64 " bytes does not fit in memory", bytes);
        return false;
    }
    s->capacity = bytes ? (size_t)bytes : 1;
    s->mapped = bytes > memory_limit();
    s->bytes = s->mapped ? map_file(s->capacity) : malloc(s->capacity);
    if (s->bytes) return true;
    say_no_space(s->mapped, bytes);
    *s = (struct scratch){0};
    return false;
}

void scratch_free(struct scratch *s) {
    if (s->mapped)
        munmap(s->bytes, s->capacity);
    else
        free(s->bytes);
    *s = (struct scratch){0};
}
