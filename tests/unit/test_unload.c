/* test_unload.c LIBRARY - a process that unloaded the library forks as if it had never had it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, dlerror());
    return 1;
}

int main(int argc, char **argv) {
    for (int round = 0; round < 3 && argc > 1; round++) {
        void *const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) return fail("dlopen");
        uint32_t (*version)(void);
        *(void **)(void *)&version = dlsym(library, "pith_version");
        if (!version || !version()) return fail("dlsym");
        if (dlclose(library)) return fail("dlclose");
        /* A library that is still loaded would make what follows pass. */
        if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD)) return fail("the library is still loaded");
        const pid_t child = fork();
        if (child == 0) _exit(0);
        int status = -1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return fail("the child did not end well");
    }
    return argc > 1 ? 0 : 2;
}
