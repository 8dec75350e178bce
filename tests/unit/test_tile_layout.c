/* test_tile_layout.c - walks over the elements of a tile: skipped, they end where reading ends.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tile_layout.h"
#include "util.h"

/* Behind the last element there is none, however one asks. */
static void check_end(struct pithi_tile_layout_walk *walk) {
    size_t count = 1, pitch;
    pithi_tile_layout_rows(walk, 2, 9, &count, &pitch);
    CHECK(count == 0);
    count = 1;
    pithi_tile_layout_skip(walk, 3);
    pithi_tile_layout_next(walk, 9, &count);
    CHECK(count == 0);
}

/* Every tile of a tensor of `shape`, skipped as far as `skipped` and read from there on. */
static void check_skips(const uint64_t shape[4], uint32_t block) {
    struct pithi_tiling tiling;
    pithi_tiling_init(&tiling, shape, 4, block, false);
    const uint64_t all = shape[0] * shape[1] * shape[2] * shape[3];
    uint32_t *const values = allocate(all * 4), *const found = allocate(block * 4);
    for (uint64_t i = 0; i < all; i++) values[i] = (uint32_t)i;
    for (uint64_t t = 0; t < tiling.tiles; t++) {
        const struct pithi_tile tile = pithi_tile_at(&tiling, t);
        const struct pithi_tile_layout layout = {(uint8_t *)values, 4, &tiling, &tile};
        for (size_t skipped = 0; skipped < tile.count; skipped++) {
            const size_t left = (size_t)tile.count - skipped, half = left / 2;
            struct pithi_tile_layout_walk walk;
            pithi_tile_layout_begin(&walk, &layout);
            pithi_tile_layout_skip(&walk, skipped);
            pithi_tile_layout_read(&walk, half, found);
            pithi_tile_layout_skip(&walk, left - half - 1);
            pithi_tile_layout_read(&walk, 1, found + half);
            for (size_t i = 0; i <= half; i++) {
                const size_t at = i < half ? skipped + i : (size_t)tile.count - 1;
                CHECK(found[i] == *(uint32_t *)(void *)pithi_tile_layout_at(&layout, at));
            }
            check_end(&walk);
        }
    }
    free(values);
    free(found);
}

static void test_skips(void **state) {
    (void)state;
    static const uint64_t shapes[][4] = {{1, 1, 1, 40}, {1, 1, 7, 11}, {1, 5, 6, 7},
                                         {3, 4, 5, 6},  {2, 2, 9, 3},  {6, 5, 1, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t block = 16; block <= 128; block *= 2) {
            context("shape %zu, tiles of %u elements", i, block);
            check_skips(shapes[i], block);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_skips)};
    return cmocka_run_group_tests_name("tile_layout", tests, NULL, NULL);
}
