/* test_golden.c - frames that were committed once decode for ever, and bad ones stay refused; saved
 * streams load.
 * SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <dirent.h>
#include <xxhash.h>

#include "bad.h"
#include "golden.h"

static const char *dir;

static size_t count_files(const char *name) {
    char path[512];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    DIR *d = opendir(path);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        count += strcmp(e->d_name, "EXPECTED") != 0 && e->d_name[0] != '.';
    closedir(d);
    return count;
}

/* No file changes, none appears and none vanishes without its line in HASHES. */
static void test_files_are_final(void **state) {
    (void)state;
    char list[512], name[128], path[512];
    uint64_t hash;
    size_t lines = 0, length;
    snprintf(list, sizeof list, "%s/golden/HASHES", dir);
    for (; hashes_line(list, lines, &hash, name); lines++) {
        context("golden file %s", name);
        snprintf(path, sizeof path, "%s/golden/%s", dir, name);
        void *bytes = read_file(path, &length);
        CHECK(bytes != NULL && XXH64(bytes, length, 0) == hash);
        free(bytes);
    }
    context("golden files not listed");
    CHECK(lines > 200);
    CHECK(count_files("golden/v1") + count_files("golden-bad") == lines);
}

/* ---- Good frames -----------------------------------------------------------------------------*/

static void check_decodes(const struct golden_file *f, const pith_env *env) {
    pith_view base;
    uint8_t *out = allocate(f->raw_bytes);
    const pith_view view = pith_view_flat(out, f->info.dtype, f->info.count);
    CHECK(f->info.raw_bytes == f->raw_bytes && f->info.frame_bytes == f->frame.length);
    CHECK_OK(pith_verify(f->frame.bytes, f->frame.length, env, NULL));
    CHECK_OK(
        pith_decompress(f->frame.bytes, f->frame.length, golden_base(f, &base), env, &view, NULL));
    CHECK(memcmp(out, f->raw, f->raw_bytes) == 0);
    free(out);
}

static void test_decode(void **state) {
    (void)state;
    struct golden_file f;
    size_t i = 0;
    for (; golden_open(dir, i, &f); i++) {
        static const uint32_t masks[3] = {0, PITH_CPU_SCALAR, PITH_CPU_AVX2};
        for (size_t k = 0; k < 6; k++) {
            pith_env env = {.size = sizeof env, .cpu_mask = masks[k % 3]};
            env.threads = k / 3 ? 3 : 0;
            env.run = k / 3 ? run_backwards : NULL;
            context("golden frame %s, mask %x", f.name, masks[k % 3]);
            check_decodes(&f, &env);
        }
        golden_close(&f);
    }
    CHECK(i > 60);
}

/* Today's encoder writes the same bytes, wherever no zstd is involved. */
static void test_encode(void **state) {
    (void)state;
    const struct golden *g;
    size_t same = 0;
    for (size_t i = 0; (g = golden_at(i)) != NULL; i++) {
        char path[512];
        size_t length;
        struct golden_made m;
        const bool fixed = strncmp(g->spec, "lossless", 8) != 0 && !strstr(g->spec, "zstd");
        context("golden frame %s made again", g->name);
        golden_make(g, &m);
        snprintf(path, sizeof path, "%s/golden/v1/%s.pith", dir, g->name);
        uint8_t *bytes = read_file(path, &length);
        CHECK(bytes != NULL);
        if ((fixed || g->stable) && !g->former) {
            CHECK(length == m.frame.length && memcmp(bytes, m.frame.bytes, length) == 0);
            same++;
        }
        free(bytes);
        golden_free(&m);
    }
    CHECK(same > 40);
}

/* ---- Bad frames ------------------------------------------------------------------------------*/

/* The hash of FORMAT.md, written again. */
static uint64_t reference_nh(const uint8_t *bytes, size_t length, uint64_t tag) {
    const uint64_t weyl = UINT64_C(0x9E3779B97F4A7C15), m = UINT64_C(0xD6E8FEB86659FD93);
    uint64_t sum = 0;
    for (size_t i = 0; i * 8 < length; i++) {
        uint64_t lane = 0;
        memcpy(&lane, bytes + 8 * i, length - 8 * i < 8 ? length - 8 * i : 8);
        lane ^= (i + 1) * weyl;
        const uint64_t lo = lane & UINT32_MAX, hi = lane >> 32;
        sum += lo * hi + (lo << 32) + hi;
    }
    uint64_t x = sum + length * weyl + tag * m;
    x = (x ^ x >> 32) * m;
    x = (x ^ x >> 32) * m;
    return x ^ x >> 32;
}

static void test_base_hashes(void **state) {
    (void)state;
    struct golden_file f;
    size_t declared = 0;
    for (size_t i = 0; golden_open(dir, i, &f); i++) {
        context("base hash in golden frame %s", f.name);
        const bool own_bytes = f.info.is_key && f.info.dtype == f.info.base_dtype;
        if (f.info.has_base_hash && !f.info.is_key)
            CHECK(f.info.base_hash == reference_nh(f.base, f.base_bytes, f.info.base_dtype));
        if (f.info.has_base_hash && own_bytes)
            CHECK(f.info.base_hash == reference_nh(f.raw, f.raw_bytes, f.info.base_dtype));
        declared += f.info.has_base_hash;
        golden_close(&f);
    }
    CHECK(declared > 10);
}

/* Statuses that only a decoder with a base or a held set can find. */
static pith_status without_base(pith_status wanted) {
    return wanted == PITH_ERR_BASE || wanted == PITH_ERR_STATE ? PITH_OK : wanted;
}

/* Whether the text says which version, codec, revision, flags or section the frame has, all of them
 * small numbers in one byte but for sections, and what to do. */
static bool tells_newer(const pith_error *error, const uint8_t *frame) {
    char found[16];
    uint32_t number = frame[error->offset];
    if (error->offset >= 64)
        for (int i = 1; i < 4; i++) number |= (uint32_t)frame[error->offset + (size_t)i] << 8 * i;
    snprintf(found, sizeof found, " %u", (unsigned)number);
    return strstr(error->text, found) && strstr(error->text, ": update pith");
}

static void check_bad(const char *name, const char *status, const char *from) {
    struct golden_file f;
    pith_view base;
    char path[512];
    size_t length;
    context("bad frame %s", name);
    golden_load(dir, from, &f);
    snprintf(path, sizeof path, "%s/golden-bad/%s.pith", dir, name);
    uint8_t *bytes = read_file(path, &length), *exact = copy_of(bytes, length);
    const bool wrong_base = strcmp(status, "PITH_ERR_BASE") == 0;
    uint8_t *out = allocate(f.raw_bytes), *first = allocate(f.raw_bytes);
    memset(out, 0x5A, f.raw_bytes);
    const pith_view view = pith_view_flat(out, f.info.dtype, f.info.count);
    for (int k = 0; k < 2; k++) {
        const pith_env env = {.size = sizeof env, .cpu_mask = k ? PITH_CPU_SCALAR : 0};
        pith_error error = {.size = sizeof error, .offset = UINT64_MAX, .text = "x"};
        context("bad frame %s", name);
        const pith_status got =
            pith_decompress(exact, length, golden_base(&f, &base), &env, &view, &error);
        CHECK(strcmp(pith_status_name(got), status) == 0);
        CHECK(got == PITH_OK ? error.text[0] == 0 && error.offset == 0
                             : error.text[0] && error.offset <= length + 2097152);
        CHECK(!wrong_base || all_bytes(out, f.raw_bytes, 0x5A));
        CHECK(got != PITH_ERR_NEWER || tells_newer(&error, bytes));
        if (got == PITH_OK && k == 0) memcpy(first, out, f.raw_bytes);
        CHECK(got != PITH_OK || memcmp(first, out, f.raw_bytes) == 0);
        CHECK_STATUS(without_base(got), pith_verify(exact, length, &env, &error));
    }
    free(out);
    free(first);
    free(exact);
    free(bytes);
    golden_close(&f);
}

static void test_bad(void **state) {
    (void)state;
    char path[512], name[128], status[64], from[64];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/golden-bad/EXPECTED", dir);
    FILE *list = fopen(path, "r");
    context("list of bad frames");
    CHECK(list != NULL);
    for (; fscanf(list, "%127s %63s %63s", name, status, from) == 3; count++)
        check_bad(name, status, from);
    fclose(list);
    CHECK(count > 80);
}

/* Bytes behind a frame belong to somebody else. */
static void test_trailing_bytes(void **state) {
    (void)state;
    struct golden_file f;
    for (size_t i = 0; golden_open(dir, i, &f); i++) {
        uint8_t *longer = allocate(f.frame.length + 13);
        memcpy(longer, f.frame.bytes, f.frame.length);
        memset(longer + f.frame.length, 0xF1, 13);
        free(f.frame.bytes);
        f.frame.bytes = longer;
        pith_view base;
        uint8_t *out = allocate(f.raw_bytes);
        const pith_view view = pith_view_flat(out, f.info.dtype, f.info.count);
        context("golden frame %s with bytes behind it", f.name);
        CHECK_OK(pith_decompress(longer, f.frame.length + 13, golden_base(&f, &base), NULL, &view,
                                 NULL));
        CHECK(memcmp(out, f.raw, f.raw_bytes) == 0);
        free(out);
        golden_close(&f);
    }
}

/* A committed file is what is made today. */
static void check_made(const struct golden *g, const char *suffix, const void *made, size_t bytes) {
    char path[512];
    size_t length;
    snprintf(path, sizeof path, "%s/golden/v1/%s.%s", dir, g->name, suffix);
    uint8_t *const file = read_file(path, &length);
    CHECK(file && length == bytes && memcmp(file, made, bytes) == 0);
    free(file);
}

/* Frames without indices decode where the frame before them did: element i of the set is i + 1;
 * and, of one that lacks those of some blocks, what the same values decode to with all. */
static void test_held_sets(void **state) {
    (void)state;
    const struct golden *g;
    size_t frames = 0;
    for (size_t i = 0; (g = golden_at(i)) != NULL; i++) {
        struct golden_made m;
        struct stream s;
        if (!g->same_set) continue;
        context("golden frame %s and the one that follows it", g->name);
        golden_make(g, &m);
        check_made(g, "held", m.held.bytes, m.held.length);
        check_made(g, "map", m.map, (m.count + 7) / 8);
        check_made(g, "blocks", m.blocks.bytes, m.blocks.length);
        check_made(g, "after", m.after, m.count * sizeof *m.after);
        const pith_layout layout = flat_layout(g->dtype, PITH_NONE, m.count);
        float *const out = allocate(m.count * sizeof *out);
        const pith_view view = pith_view_flat(out, PITH_F32, m.count);
        stream_open(&s, g->spec, &layout, NULL);
        const struct frame *const follow[] = {&m.held, &m.blocks};
        for (size_t k = 0; k < 2; k++)
            CHECK_STATUS(PITH_ERR_STATE, decode_one(s.work, s.stream, 0, follow[k]->bytes,
                                                    follow[k]->length, &view, 0));
        CHECK_OK(decode_one(s.work, s.stream, 0, m.frame.bytes, m.frame.length, &view, 0));
        CHECK_OK(decode_one(s.work, s.stream, 0, m.held.bytes, m.held.length, &view, 0));
        for (size_t k = 0; k < m.count; k++) {
            const float wanted = m.map[k / 8] >> k % 8 & 1 ? (float)(k + 1) : 0;
            CHECK(wanted == 0 ? out[k] == 0 : out[k] > wanted - 1 && out[k] < wanted + 1);
        }
        CHECK_OK(decode_one(s.work, s.stream, 0, m.blocks.bytes, m.blocks.length, &view, 0));
        CHECK(memcmp(out, m.after, m.count * sizeof *out) == 0);
        frames++;
        free(out);
        stream_close(&s);
        golden_free(&m);
    }
    CHECK(frames > 0);
}

/* ---- Saved streams ---------------------------------------------------------------------------*/

/* What was saved once loads for ever, and goes on with the frames that the same steps lead to
 * today: nothing that is saved was coded by zstd. */
static void test_saved_streams(void **state) {
    (void)state;
    const struct golden_stream *g;
    size_t i = 0;
    for (; (g = golden_stream_at(i)) != NULL; i++) {
        struct stream before, loaded;
        char path[512];
        size_t length;
        context("saved stream %s", g->name);
        snprintf(path, sizeof path, "%s/golden/v1/%s.stream", dir, g->name);
        uint8_t *const bytes = read_file(path, &length);
        CHECK(bytes != NULL);
        golden_stream_open(g, &loaded);
        CHECK_OK(pith_stream_load(loaded.work, loaded.stream, bytes, length));
        golden_stream_open(g, &before);
        for (uint64_t step = 0; step < 2; step++) free(golden_stream_step(g, &before, step).bytes);
        const struct frame saved = golden_stream_save(&before);
        CHECK(saved.length == length && memcmp(saved.bytes, bytes, length) == 0);
        const struct frame wanted = golden_stream_step(g, &before, 2);
        const struct frame next = golden_stream_step(g, &loaded, 2);
        CHECK(next.length == wanted.length && memcmp(next.bytes, wanted.bytes, next.length) == 0);
        free(wanted.bytes);
        free(next.bytes);
        free(saved.bytes);
        free(bytes);
        stream_close(&before);
        stream_close(&loaded);
    }
    CHECK(i >= 11);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_final),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_base_hashes),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_held_sets),
        cmocka_unit_test(test_saved_streams),
        cmocka_unit_test(test_trailing_bytes),
    };
    if (argc < 2) return 2;
    dir = argv[1];
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
