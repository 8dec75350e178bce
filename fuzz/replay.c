/* replay.c - feeds files and folders of files to a fuzz target, without libFuzzer.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fuzz.h"

static size_t inputs;

static void replay_bytes(const uint8_t *bytes, size_t length) {
    uint8_t *copy = guard_copy(bytes, length);
    LLVMFuzzerTestOneInput(copy, length);
    guard_free(copy, length);
    inputs++;
}

static int replay_file(const char *path, size_t length) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(length + 1);
    const bool good = file && bytes && fread(bytes, 1, length, file) == length;
    fprintf(stderr, "%s\n", path); /* before it runs: the last line names an input that crashes */
    if (good) replay_bytes(bytes, length);
    free(bytes);
    if (file) fclose(file);
    return good ? 0 : 1;
}

static int replay(const char *path);

static int replay_folder(const char *path) {
    int failed = 0;
    DIR *folder = opendir(path);
    if (!folder) return 1;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char name[4096];
        if (entry->d_name[0] == '.') continue;
        const int length = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        failed += length < (int)sizeof name ? replay(name) : 1;
    }
    closedir(folder);
    return failed;
}

static int replay(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        return 1;
    }
    return S_ISDIR(info.st_mode) ? replay_folder(path) : replay_file(path, (size_t)info.st_size);
}

int main(int argc, char **argv) {
    int failed = 0;
    replay_bytes(NULL, 0);
    for (int i = 1; i < argc; i++) failed += replay(argv[i]);
    printf("%zu inputs, %d could not be read\n", inputs, failed);
    return failed != 0;
}
