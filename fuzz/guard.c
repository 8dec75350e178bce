/* guard.c - guarded memory and the environment of fuzz targets.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#if defined(__SANITIZE_ADDRESS__)
#define GUARDED_BY_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARDED_BY_ASAN 1
#endif
#endif

_Noreturn void fuzz_fail(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: %s does not hold\n", file, line, condition);
    abort();
}

#ifdef GUARDED_BY_ASAN
void *guard_new(size_t bytes) {
    void *memory = malloc(bytes);
    FUZZ_CHECK(memory);
    return memory;
}

void guard_free(void *memory, size_t bytes) {
    (void)bytes;
    free(memory);
}
#else
static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }
static size_t whole_pages(size_t bytes) { return (bytes + page() - 1) / page() * page(); }

void *guard_new(size_t bytes) {
    const size_t whole = whole_pages(bytes);
    uint8_t *map =
        mmap(NULL, whole + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_CHECK(map != MAP_FAILED);
    FUZZ_CHECK(mprotect(map + whole, page(), PROT_NONE) == 0);
    return map + whole - bytes;
}

void guard_free(void *memory, size_t bytes) {
    const size_t whole = whole_pages(bytes);
    FUZZ_CHECK(munmap((uint8_t *)memory + bytes - whole, whole + page()) == 0);
}
#endif

void *guard_copy(const void *bytes, size_t length) {
    void *copy = guard_new(length);
    if (length) memcpy(copy, bytes, length);
    return copy;
}

/* ---- Environment -----------------------------------------------------------------------------*/

static void *env_alloc(void *user, size_t bytes, size_t align) {
    struct fuzz_env *e = user;
    void *memory = NULL;
    FUZZ_CHECK(align && align <= 64 && (align & (align - 1)) == 0);
    e->allocations++;
    if (e->allocations == e->fail_at || bytes > (size_t)1 << 28) return NULL;
    FUZZ_CHECK(e->live < FUZZ_HEAP_BLOCKS);
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, bytes))
        return NULL;
    memset(memory, 0xA5, bytes); /* the library must not count on zeros */
    e->block[e->live].memory = memory;
    e->block[e->live++].bytes = bytes;
    return memory;
}

static void env_release(void *user, void *memory, size_t bytes) {
    struct fuzz_env *e = user;
    for (size_t i = 0; i < e->live; i++) {
        if (e->block[i].memory != memory) continue;
        FUZZ_CHECK(e->block[i].bytes == bytes);
        e->block[i] = e->block[--e->live];
        free(memory);
        return;
    }
    fuzz_fail("released memory was allocated", __FILE__, __LINE__);
}

int fuzz_run_backwards(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    (void)user;
    while (count--) job(arg, count);
    return 0;
}

void fuzz_env_init(struct fuzz_env *e) {
    memset(e, 0, sizeof *e);
    e->env.size = sizeof e->env;
    e->env.alloc = env_alloc;
    e->env.release = env_release;
    e->env.alloc_user = e;
    e->env.max_output_bytes = FUZZ_OUTPUT_LIMIT;
}

void fuzz_env_draw(struct fuzz_env *e, struct fuzz_source *s) {
    static const uint32_t masks[] = {0, PITH_CPU_SCALAR, PITH_CPU_AVX2, PITH_CPU_AVX512};
    const uint8_t bits = fuzz_u8(s);
    fuzz_env_init(e);
    e->env.cpu_mask = masks[bits & 3];
    if (bits & 4) {
        e->env.run = fuzz_run_backwards;
        e->env.threads = 3;
    }
    if ((bits & 24) == 24) e->fail_at = 1u + (bits >> 5);
}

void fuzz_env_done(const struct fuzz_env *e) { FUZZ_CHECK(e->live == 0); }

bool fuzz_is_status(pith_status status) {
    return status != PITH_ERR_INTERNAL && strcmp(pith_status_name(status), "PITH_ERR_UNKNOWN") != 0;
}
