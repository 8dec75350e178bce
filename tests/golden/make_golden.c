/* make_golden.c - writes golden frames, bad frames, saved streams and their lists into a directory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * make_golden DIR [-f]: existing files are final and stay as they are, unless -f is given. */
#define XXH_INLINE_ALL
#include <sys/stat.h>
#include <xxhash.h>

#include "bad.h"
#include "golden.h"

static bool overwrite;

static void write_new(const char *path, const void *bytes, size_t length) {
    FILE *file = overwrite ? NULL : fopen(path, "rb");
    if (file) {
        fclose(file);
        return;
    }
    file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file)) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(1);
    }
}

static void add_hash(FILE *list, const char *dir, const char *name) {
    char path[512];
    size_t length;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    void *bytes = read_file(path, &length);
    if (!bytes) exit(1);
    fprintf(list, "%016llx %s\n", (unsigned long long)XXH64(bytes, length, 0), name);
    free(bytes);
}

static void put(FILE *list, const char *dir, const char *name, const char *suffix,
                const void *bytes, size_t length) {
    char path[512], file[256];
    snprintf(file, sizeof file, "v1/%s.%s", name, suffix);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    write_new(path, bytes, length);
    add_hash(list, dir, file);
}

static void put_golden(FILE *list, const char *dir, const struct golden *g) {
    struct golden_made m;
    context("golden %s", g->name);
    golden_make(g, &m);
    const size_t raw_bytes = m.count * pith_dtype_bytes(g->dtype);
    void *raw = allocate(raw_bytes);
    const pith_view out = pith_view_flat(raw, g->dtype, m.count);
    const pith_view base = pith_view_flat(m.base, g->base_dtype, m.count);
    CHECK_OK(
        pith_decompress(m.frame.bytes, m.frame.length, m.base ? &base : NULL, NULL, &out, NULL));
    put(list, dir, g->name, "pith", m.frame.bytes, m.frame.length);
    put(list, dir, g->name, "raw", raw, raw_bytes);
    if (m.base && !g->key) put(list, dir, g->name, "base", m.base, m.base_bytes);
    if (g->same_set) {
        put(list, dir, g->name, "held", m.held.bytes, m.held.length);
        put(list, dir, g->name, "map", m.map, (m.count + 7) / 8);
        put(list, dir, g->name, "blocks", m.blocks.bytes, m.blocks.length);
        put(list, dir, g->name, "after", m.after, m.count * sizeof *m.after);
    }
    free(raw);
    golden_free(&m);
}

static const struct golden *golden_named(const char *name) {
    const struct golden *g;
    for (size_t i = 0; (g = golden_at(i)) != NULL; i++)
        if (strcmp(g->name, name) == 0) return g;
    fprintf(stderr, "no golden frame %s\n", name);
    exit(1);
}

static void put_bad(FILE *expected, FILE *list, const char *dir, const struct bad *b) {
    char path[512], file[256];
    struct golden_made m;
    context("bad %s", b->name);
    golden_make(golden_named(b->from), &m);
    struct frame f = bad_make(b, &m.frame);
    snprintf(file, sizeof file, "../golden-bad/%s.pith", b->name);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    write_new(path, f.bytes, f.length);
    add_hash(list, dir, file);
    fprintf(expected, "%s %s %s\n", b->name, pith_status_name(b->wanted), b->from);
    free(f.bytes);
    golden_free(&m);
}

/* After two steps. */
static void put_stream(FILE *list, const char *dir, const struct golden_stream *g) {
    struct stream s;
    context("golden %s", g->name);
    golden_stream_open(g, &s);
    for (uint64_t step = 0; step < 2; step++) free(golden_stream_step(g, &s, step).bytes);
    const struct frame saved = golden_stream_save(&s);
    put(list, dir, g->name, "stream", saved.bytes, saved.length);
    free(saved.bytes);
    stream_close(&s);
}

static FILE *open_list(const char *dir, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    if (!file) exit(1);
    return file;
}

int main(int argc, char **argv) {
    const struct golden *g;
    const struct bad *b;
    const struct golden_stream *s;
    char path[512];
    if (argc < 2) return 2;
    overwrite = argc > 2;
    snprintf(path, sizeof path, "%s/v1", argv[1]);
    mkdir(argv[1], 0777);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/../golden-bad", argv[1]);
    mkdir(path, 0777);
    FILE *list = open_list(argv[1], "HASHES"),
         *expected = open_list(argv[1], "../golden-bad/EXPECTED");
    for (size_t i = 0; (g = golden_at(i)) != NULL; i++) put_golden(list, argv[1], g);
    for (size_t i = 0; (b = bad_at(i)) != NULL; i++) put_bad(expected, list, argv[1], b);
    for (size_t i = 0; (s = golden_stream_at(i)) != NULL; i++) put_stream(list, argv[1], s);
    return fclose(list) || fclose(expected);
}
