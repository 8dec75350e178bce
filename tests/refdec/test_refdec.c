/* test_refdec.c - libpith and the second decoder on golden frames, whole and damaged.
 * SPDX-License-Identifier: Apache-2.0
 *
 * test_refdec FOLDER [MUTATIONS [SEED]] */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"

struct golden {
    char name[128];
    uint8_t *frame, *base, *raw;
    size_t length, base_bytes, raw_bytes;
};

static struct golden *golden;
static size_t golden_count;
static unsigned long failures;
static uint64_t state = 1;

static uint32_t below(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

/* ---- Golden frames ---------------------------------------------------------------------------*/

static uint8_t *load(const char *folder, const char *name, const char *suffix, size_t *length) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
    FILE *file = fopen(path, "rb");
    *length = 0;
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    const long end = ftell(file);
    uint8_t *bytes = end < 0 ? NULL : malloc((size_t)end + 1);
    rewind(file);
    if (bytes) *length = fread(bytes, 1, (size_t)end, file);
    fclose(file);
    return bytes;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct golden *)a)->name, ((const struct golden *)b)->name);
}

static void read_golden(const char *path) {
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const size_t stem = strlen(entry->d_name);
        if (stem < 5 || stem > 100 || strcmp(entry->d_name + stem - 5, ".pith") != 0) continue;
        golden = realloc(golden, (golden_count + 1) * sizeof *golden);
        if (!golden) exit(2);
        struct golden *g = &golden[golden_count++];
        snprintf(g->name, sizeof g->name, "%.*s", (int)stem - 5, entry->d_name);
        g->frame = load(path, g->name, ".pith", &g->length);
        g->base = load(path, g->name, ".base", &g->base_bytes);
        g->raw = load(path, g->name, ".raw", &g->raw_bytes);
    }
    if (folder) closedir(folder);
    if (golden_count) qsort(golden, golden_count, sizeof *golden, by_name);
}

static void check_golden(const struct golden *g) {
    uint8_t *out;
    size_t length;
    const enum ref_status status =
        refdec(g->frame, g->length, g->base, g->base_bytes, 1 << 22, &out, &length);
    const bool good =
        status == REF_OK && length == g->raw_bytes && memcmp(out, g->raw, length) == 0;
    const struct ref_verdict v = ref_agree(g->frame, g->length, g->base, g->base_bytes);
    if (!good || !v.same) {
        printf("%s: %s here, %s there\n", g->name, ref_status_name(status),
               ref_status_name(v.theirs));
        failures++;
    }
    free(out);
}

/* The frame whose set the receiver holds: element i of the set is i + 1, to one step of int8; and
 * the one of which the receiver holds the set of some blocks. With no set, and with another, they
 * are refused. */
static void check_held(const char *folder) {
    size_t length, map_bytes, out_bytes, after_bytes;
    uint8_t *frame = load(folder, "topk-held", ".held", &length);
    uint8_t *const map = load(folder, "topk-held", ".map", &map_bytes), *out;
    if (!frame || !map) exit(2);
    bool good = refdec(frame, length, NULL, 0, 1 << 22, &out, &out_bytes) == REF_STATE;
    good &= refdec(frame, length, map, map_bytes, 1 << 22, &out, &out_bytes) == REF_OK;
    for (size_t i = 0; good && i < out_bytes / 4; i++) {
        const float x = ref_as_float(ref_load(out, i, F32)), wanted = (float)(i + 1);
        good = ref_bit(map, i) ? x > wanted - 1 && x < wanted + 1 : x == 0;
    }
    free(out);
    map[0] ^= 1;
    good &= refdec(frame, length, map, map_bytes, 1 << 22, &out, &out_bytes) == REF_BASE;
    free(frame);
    frame = load(folder, "topk-held", ".blocks", &length);
    uint8_t *const after = load(folder, "topk-held", ".after", &after_bytes);
    if (!frame || !after) exit(2);
    good &= refdec(frame, length, map, map_bytes, 1 << 22, &out, &out_bytes) == REF_BASE;
    map[0] ^= 1;
    good &= refdec(frame, length, NULL, 0, 1 << 22, &out, &out_bytes) == REF_STATE;
    good = good && refdec(frame, length, map, map_bytes, 1 << 22, &out, &out_bytes) == REF_OK &&
           out_bytes == after_bytes && memcmp(out, after, after_bytes) == 0;
    free(out);
    free(after);
    if (!good) printf("a frame of a held set is not decoded\n");
    failures += !good;
    free(map);
    free(frame);
}

static const struct golden *golden_named(const char *name) {
    for (size_t i = 0; i < golden_count; i++)
        if (strcmp(golden[i].name, name) == 0) return &golden[i];
    return NULL;
}

/* Frames that break one rule each, and those that are legal but that no encoder writes: status and
 * values. The list beside them names the golden frame whose base they have. */
static void check_bad(const char *folder) {
    char path[4096], name[128], status[64], from[128];
    unsigned long count = 0;
    snprintf(path, sizeof path, "%s/../../golden-bad", folder);
    char *const end = path + strlen(path);
    snprintf(end, sizeof path - (size_t)(end - path), "/EXPECTED");
    FILE *list = fopen(path, "r");
    *end = 0;
    for (; list && fscanf(list, "%127s %63s %127s", name, status, from) == 3; count++) {
        const struct golden *g = golden_named(from);
        size_t length;
        uint8_t *frame = load(path, name, ".pith", &length);
        if (!frame || !g) exit(2);
        const struct ref_verdict v = ref_agree(frame, length, g->base, g->base_bytes);
        if (!v.same) {
            printf("bad frame %s: %s here, %s there\n", name, ref_status_name(v.ours),
                   ref_status_name(v.theirs));
            failures++;
        }
        free(frame);
    }
    if (list) fclose(list);
    if (count == 0) failures++;
    printf("%lu bad frames\n", count);
}

/* ---- Damage ----------------------------------------------------------------------------------*/

static void put64(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++, value >>= 8) at[i] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++, value >>= 8) at[i] = (uint8_t)value;
}

static void fix_header(uint8_t *frame, size_t length) {
    if (length < 64) return;
    const size_t header = frame[11] & 1 ? 112 : 64;
    const uint64_t sections = ref_le(frame + 12, 4);
    if (length < header || sections > length - header) return;
    put64(frame + header - 8, ref_xxh64(frame + header, sections, ref_xxh64(frame, header - 8, 0)));
}

/* Checksums of the blocks where the header allows to find them. */
static void fix_blocks(uint8_t *frame, size_t length) {
    struct ref_frame f;
    if (ref_header(frame, length, &f) != REF_OK || !f.checksums) return;
    if (length - f.header_bytes < f.payload_bytes) return;
    uint8_t *const payload = frame + f.header_bytes;
    const uint64_t blocks = ref_blocks(&f), checks = ref_is_fixed(&f) ? 0 : ref_pad16(4 * blocks);
    uint64_t at = checks + ref_pad16(8 * ref_checks(&f));
    for (uint64_t b = 0; b < ref_checks(&f); b++) {
        uint64_t bytes = ref_pad16(f.exempt_bytes);
        if (b < blocks)
            bytes = ref_is_fixed(&f) ? ref_block_bytes(&f, ref_block_count(&f, b))
                                     : ref_le(payload + 4 * b, 4) & 0x7FFFFFFFu;
        if (bytes > f.payload_bytes - at) return;
        put64(payload + checks + 8 * b, ref_nh(payload + at, bytes, (UINT64_C(1) << 32) + b));
        at += bytes;
    }
}

static void damage_byte(uint8_t *frame, size_t length) {
    const uint32_t most = (uint32_t)length, near = most < 160 ? most : 160;
    const uint32_t at = below(2) ? below(near) : below(most);
    if (below(2))
        frame[at] ^= (uint8_t)(1u << below(8));
    else
        frame[at] = below(2) ? (uint8_t)below(256) : (uint8_t)(frame[at] + below(5) - 2);
}

static size_t damage(uint8_t *frame, size_t length) {
    for (uint32_t n = 1 + below(3); n--;) damage_byte(frame, length);
    const size_t cut = below(8) ? length : below((uint32_t)length + 1);
    if (below(16)) fix_header(frame, cut);
    if (below(4)) fix_blocks(frame, cut);
    return cut;
}

static void check_damaged(const struct golden *g, unsigned long number, unsigned long seen[]) {
    uint8_t *const frame = malloc(g->length);
    if (!frame || g->length == 0) exit(2);
    memcpy(frame, g->frame, g->length);
    const size_t length = damage(frame, g->length);
    const struct ref_verdict v = ref_agree(frame, length, g->base, g->base_bytes);
    seen[v.ours]++;
    if (!v.same) {
        failures++;
        printf("%s, mutation %lu: %s here, %s there\n", g->name, number, ref_status_name(v.ours),
               ref_status_name(v.theirs));
    }
    free(frame);
}

/* ---- Sections of the largest lengths ---------------------------------------------------------*/

enum {
    EXEMPT = 3,
    MOST_SECTION = 1048576,
    RANGE_BYTES = 16,
    RANGED = 1 << 17,
    RANGED_BLOCKS = 98304
};

static const uint32_t SOURCE = 0x80000001u;

/* A frame whose only section has `length` bytes of body; `wanted` of both decoders. */
static void check_section(const char *from, uint32_t type, size_t length, enum ref_status wanted) {
    const struct golden *g = golden_named(from);
    const size_t section = (size_t)ref_pad16(8 + length);
    if (!g) exit(2);
    uint8_t *const frame = calloc(1, g->length + section);
    if (!frame) exit(2);
    memcpy(frame, g->frame, 64);
    memcpy(frame + 64 + section, g->frame + 64, g->length - 64);
    put32(frame + 12, (uint32_t)section);
    put32(frame + 64, type);
    put32(frame + 68, (uint32_t)length);
    if (type == EXEMPT) { /* of the last of 2^17 elements one range each; values are missing */
        const uint64_t ranges = length / RANGE_BYTES;
        put64(frame + 32, RANGED_BLOCKS + ref_pad16(4 * ranges));
        put32(frame + 40, RANGED);
        for (uint64_t i = 0; i < ranges; i++) {
            put64(frame + 72 + 16 * i, RANGED - ranges + i);
            put64(frame + 80 + 16 * i, UINT64_C(2) << 60 | 1);
        }
    }
    fix_header(frame, g->length + section);
    const struct ref_verdict v = ref_agree(frame, g->length + section, NULL, 0);
    if (!v.same || v.ours != wanted) {
        printf("section %u of %zu bytes: %s here, %s there\n", (unsigned)type, length,
               ref_status_name(v.ours), ref_status_name(v.theirs));
        failures++;
    }
    free(frame);
}

static void check_sections(void) {
    check_section("raw-f32", SOURCE, MOST_SECTION, REF_OK);
    check_section("raw-f32", SOURCE, MOST_SECTION + 1, REF_CORRUPT);
    check_section("grad-bits4", EXEMPT, MOST_SECTION, REF_TRUNCATED);
    check_section("grad-bits4", EXEMPT, MOST_SECTION + 16, REF_CORRUPT);
}

int main(int argc, char **argv) {
    const unsigned long mutations = argc > 2 ? strtoul(argv[2], NULL, 10) : 20000;
    unsigned long seen[REF_MEMORY + 1] = {0};
    if (argc > 3) state = strtoull(argv[3], NULL, 10);
    read_golden(argc > 1 ? argv[1] : "tests/golden/v1");
    for (size_t i = 0; i < golden_count; i++) check_golden(&golden[i]);
    check_held(argc > 1 ? argv[1] : "tests/golden/v1");
    check_bad(argc > 1 ? argv[1] : "tests/golden/v1");
    check_sections();
    for (unsigned long i = 0; golden_count && i < mutations; i++)
        check_damaged(&golden[below((uint32_t)golden_count)], i, seen);
    for (int i = 0; i <= REF_MEMORY; i++)
        if (seen[i]) printf("%8lu %s\n", seen[i], ref_status_name((enum ref_status)i));
    printf("%zu golden frames, %lu mutations, %lu failures\n", golden_count, mutations, failures);
    for (size_t i = 0; i < golden_count; i++) {
        free(golden[i].frame);
        free(golden[i].base);
        free(golden[i].raw);
    }
    free(golden);
    return golden_count == 0 || failures != 0;
}
