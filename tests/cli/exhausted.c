/* exhausted.c - a system whose memory ends: LD_PRELOAD, by t_exhausted.sh.
 * SPDX-License-Identifier: Apache-2.0
 *
 * TEST_LEFT: the allocations of the program and of libpith, other libraries apart, that succeed. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

struct search {
    uintptr_t at;
    int found;
};

/* The program is the object without a name. */
static int look(struct dl_phdr_info *info, size_t size, void *arg) {
    struct search *const s = arg;
    (void)size;
    if (*info->dlpi_name && !strstr(info->dlpi_name, "libpith")) return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            s->found |= s->at >= from && s->at - from < info->dlpi_phdr[i].p_memsz;
    }
    return 0;
}

static int is_out(const void *caller) {
    static long calls;
    const char *const left = getenv("TEST_LEFT");
    struct search s = {(uintptr_t)caller, 0};
    if (!left) return 0;
    dl_iterate_phdr(look, &s);
    if (!s.found || calls++ < atol(left)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes) {
    return is_out(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    return is_out(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    return is_out(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return is_out(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    if (is_out(__builtin_return_address(0))) return ENOMEM;
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}
