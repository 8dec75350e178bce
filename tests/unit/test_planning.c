/* test_planning.c - who chooses from which elements, how many, and the bytes of their frames.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "util.h"

static uint64_t seed = UINT64_C(88172645463325252);
static uint64_t draw(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}
static double uniform(void) { return ((double)(draw() >> 11) + 0.5) * 0x1p-53; }
static double normal(void) {
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* ---- Partitions ------------------------------------------------------------------------------*/

/* Elements [first, first + count). */
struct range {
    uint64_t first, count;
};

static void check_range(uint64_t first, uint64_t count, const struct range *r) {
    CHECK(r->first == first && r->count == count);
}

/* The ranks' ranges, in the order of their parts, follow one another from 0 to n. */
static void check_cover(const struct range *ranges, uint32_t ranks, uint64_t step, uint64_t n) {
    uint64_t at = 0;
    for (uint32_t part = 0; part < ranks; part++) {
        const uint32_t rank = (uint32_t)((part + ranks - step % ranks) % ranks);
        CHECK(pith_sparse_part(ranks, rank, step) == part);
        CHECK(ranges[rank].first == at);
        at += ranges[rank].count;
    }
    CHECK(at == n);
}

static void test_partitions_go_round(void **state) {
    (void)state;
    struct range r[9];
    CHECK_OK(pith_sparse_partition(10, 4, 1, 2, &r[0].first, &r[0].count, NULL));
    check_range(8, 2, &r[0]);
    CHECK_OK(pith_sparse_partition(10, 4, 3, 2, &r[0].first, &r[0].count, NULL));
    check_range(3, 3, &r[0]);
    CHECK_OK(pith_sparse_partition(UINT64_MAX, 2, 1, 0, &r[0].first, &r[0].count, NULL));
    check_range(UINT64_C(1) << 63, UINT64_MAX >> 1, &r[0]);
    for (uint64_t n = 0; n < 40; n += 3)
        for (uint32_t ranks = 1; ranks <= 9; ranks++)
            for (uint64_t step = UINT64_MAX - 20; step != 20; step++) {
                for (uint32_t rank = 0; rank < ranks; rank++)
                    CHECK_OK(pith_sparse_partition(n, ranks, rank, step, &r[rank].first,
                                                   &r[rank].count, NULL));
                check_cover(r, ranks, step, n);
            }
    pith_error error = {.size = sizeof error};
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_sparse_partition(10, 4, 4, 0, &r[0].first, &r[0].count, &error));
    CHECK(strcmp(error.text, "a group of 4 ranks has no rank 4") == 0);
    CHECK_STATUS(PITH_ERR_ARG, pith_sparse_partition(10, 0, 0, 0, &r[0].first, &r[0].count, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_sparse_partition(10, 4, 0, 0, NULL, &r[0].count, NULL));
    CHECK(pith_sparse_part(0, 5, 5) == 0);
}

static void test_imbalance(void **state) {
    (void)state;
    CHECK(pith_sparse_imbalance((const uint64_t[]){1, 2, 3, 2}, 4) == 0.5);
    CHECK(pith_sparse_imbalance((const uint64_t[]){7, 7, 7}, 3) == 0);
    CHECK(pith_sparse_imbalance((const uint64_t[]){0, 0}, 2) == 0);
    CHECK(pith_sparse_imbalance(NULL, 0) == 0);
}

/* The sums, 2^65 and 2^64, have more than 64 bits. */
static void test_imbalance_of_counts_that_fill_64_bits(void **state) {
    (void)state;
    CHECK(pith_sparse_imbalance((const uint64_t[]){UINT64_MAX, UINT64_MAX, 2}, 3) == 0.5);
    CHECK(pith_sparse_imbalance((const uint64_t[]){UINT64_MAX, 1}, 2) == 1);
}

/* ---- ExDyna ----------------------------------------------------------------------------------*/

static void test_exdyna_by_hand(void **state) {
    (void)state;
    pith_exdyna plan = {.size = sizeof plan};
    struct range r;
    CHECK_OK(pith_exdyna_init(&plan, 131072 + 77, 4, NULL)); /* 1024 blocks of 128 */
    CHECK_OK(pith_exdyna_range(&plan, 3, &r.first, &r.count, NULL));
    check_range(UINT64_C(768) * 128, 256 * 128 + 77, &r);
    /* The first partition has twice the mean, the second half of it; a block has 0.39 elements. */
    CHECK_OK(pith_exdyna_update(&plan, (const uint64_t[]){200, 50, 100, 50}, NULL));
    CHECK_OK(pith_exdyna_range(&plan, 3, &r.first, &r.count, NULL)); /* partition 0 */
    check_range(0, 255 * 128, &r);
    CHECK_OK(pith_exdyna_range(&plan, 0, &r.first, &r.count, NULL));
    check_range(255 * 128, 257 * 128, &r);
    /* Rank 3 chose from partition 0, ranks 0 to 2 from 1 to 3. Partition 2 gives a block of 47
     * elements to 1, and of the new counts, which are 1047, 953 and 1000, 2 gets none from 3. */
    CHECK_OK(pith_exdyna_update(&plan, (const uint64_t[]){11000, 14000, 11900, 11100}, NULL));
    CHECK(plan.blocks[0] == 255 && plan.blocks[1] == 258 && plan.blocks[2] == 255 &&
          plan.blocks[3] == 256);
    CHECK_OK(pith_exdyna_range(&plan, 0, &r.first, &r.count, NULL)); /* partition 2 */
    check_range(UINT64_C(513) * 128, 255 * 128, &r);
}

static void test_exdyna_falls_back_to_even_partitions(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0, 5, 32767};
    pith_exdyna plan = {.size = sizeof plan};
    struct range r, even;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(pith_exdyna_init(&plan, sizes[i], 3, NULL));
        for (uint64_t step = 0; step < 7; step++) {
            for (uint32_t rank = 0; rank < 3; rank++) {
                CHECK_OK(pith_exdyna_range(&plan, rank, &r.first, &r.count, NULL));
                CHECK_OK(
                    pith_sparse_partition(sizes[i], 3, rank, step, &even.first, &even.count, NULL));
                check_range(even.first, even.count, &r);
            }
            CHECK_OK(pith_exdyna_update(&plan, (const uint64_t[]){sizes[i], 0, 0}, NULL));
        }
    }
    CHECK_OK(pith_exdyna_init(&plan, 32768, 3, NULL));
    CHECK(plan.block == 32);
}

/* The published code on arrays, with its own names. */
struct published {
    int num, blk_part[PITH_EXDYNA_RANKS_MAX], blk_pos[PITH_EXDYNA_RANKS_MAX];
    long sz_blk;
};

static void published_update(struct published *p, double numel, long iter, const uint64_t *ks) {
    const double min_blk = 1024 / (4.0 * p->num);
    double tk[PITH_EXDYNA_RANKS_MAX], total = 0;
    for (int i = 0; i < p->num; i++) tk[(iter - 1 + i) % p->num] = (double)ks[i];
    for (int i = 0; i < p->num; i++) total += (double)ks[i];
    const double k_acc = floor(total / p->num), m = floor((double)p->sz_blk * (total / numel));
    for (int i = 0; i < p->num - 1; i++) {
        const double d1 = tk[i] / k_acc, d2 = tk[i + 1] / k_acc;
        if (d1 > 1.05 && d2 < 0.95238) {
            if (p->blk_part[i] - 1 < min_blk) continue;
            p->blk_part[i]--, p->blk_part[i + 1]++, p->blk_pos[i + 1]--;
            tk[i] -= m, tk[i + 1] += m;
        }
        if (d1 < 0.95238 && d2 > 1.05) {
            if (p->blk_part[i + 1] - 1 < min_blk) continue;
            p->blk_part[i]++, p->blk_part[i + 1]--, p->blk_pos[i + 1]++;
            tk[i] += m, tk[i + 1] -= m;
        }
    }
}

/* Counts that each rank finds where elements of block b are chosen with a density of shape(b). */
static uint64_t found_in(const pith_exdyna *plan, uint32_t rank, int shape) {
    struct range r;
    double sum = 0;
    CHECK_OK(pith_exdyna_range(plan, rank, &r.first, &r.count, NULL));
    for (uint64_t b = r.first / plan->block; b < (r.first + r.count) / plan->block; b++) {
        const double density = shape == 0 ? 0.002 + 0.00001 * (double)b : b < 100 ? 0.05 : 0.0004;
        sum += density * plan->block * (0.9 + 0.2 * uniform());
    }
    return (uint64_t)sum;
}

static void test_exdyna_is_the_published_code(void **state) {
    (void)state;
    static const uint32_t ranks[] = {1, 2, 3, 8, 17, 256};
    for (int i = 0; i < 6; i++)
        for (int shape = 0; shape < 2; shape++) {
            const uint64_t n = 1000003;
            pith_exdyna plan = {.size = sizeof plan};
            struct published p = {.num = (int)ranks[i], .sz_blk = 960};
            uint64_t counts[PITH_EXDYNA_RANKS_MAX];
            double first = 0, last = 0;
            CHECK_OK(pith_exdyna_init(&plan, n, ranks[i], NULL));
            CHECK(plan.block == 960);
            for (int j = 0; j < p.num; j++) {
                p.blk_part[j] = 1024 / p.num + (j < 1024 % p.num);
                p.blk_pos[j] = j ? p.blk_pos[j - 1] + p.blk_part[j - 1] : 0;
            }
            for (long iter = 0; iter < 500; iter++) {
                context("%u ranks, shape %d, step %d", ranks[i], shape, (int)iter);
                struct range r[PITH_EXDYNA_RANKS_MAX];
                for (uint32_t rank = 0; rank < ranks[i]; rank++) {
                    const int part = (int)((iter % p.num + rank) % p.num);
                    CHECK_OK(pith_exdyna_range(&plan, rank, &r[rank].first, &r[rank].count, NULL));
                    CHECK(r[rank].first == (uint64_t)(p.blk_pos[part] * p.sz_blk));
                    counts[rank] = found_in(&plan, rank, shape);
                }
                check_cover(r, ranks[i], (uint64_t)iter, n);
                last = pith_sparse_imbalance(counts, ranks[i]);
                if (iter == 0) first = last;
                CHECK_OK(pith_exdyna_update(&plan, counts, NULL));
                published_update(&p, (double)n, iter + 1, counts);
                for (int j = 0; j < p.num; j++) CHECK(plan.blocks[j] == (uint32_t)p.blk_part[j]);
            }
            /* Neighbours on both sides of the mean come together; in a smooth gradient few are. */
            if (ranks[i] == 2 && shape == 0) CHECK(first > 0.3 && last < 0.06);
            if (ranks[i] > 1 && shape == 1) CHECK(last < first);
        }
}

static void test_exdyna_refuses_what_it_has_not_made(void **state) {
    (void)state;
    pith_exdyna plan = {.size = sizeof plan}, good = plan;
    struct range r;
    const uint64_t counts[4] = {1, 1, 1, 1};
    pith_error error = {.size = sizeof error};
    CHECK_STATUS(PITH_ERR_ARG, pith_exdyna_init(&plan, 99999, 0, &error));
    CHECK_STATUS(PITH_ERR_ARG, pith_exdyna_init(&plan, 99999, 257, &error));
    CHECK(strcmp(error.text, "ranks are 1 to 256, not 257") == 0);
    plan.size--;
    CHECK_STATUS(PITH_ERR_ARG, pith_exdyna_init(&plan, 99999, 4, &error));
    CHECK_OK(pith_exdyna_init(&good, 99999, 4, NULL));
    for (int damage = 0; damage < 7; damage++) {
        plan = good;
        if (damage == 0) plan.ranks = 0;
        if (damage == 1) plan.ranks = 257;
        if (damage == 2) plan.ranks = 3;
        if (damage == 3) plan.block++;
        if (damage == 4) plan.blocks[1]++;
        if (damage == 5) plan.n = 999999;
        if (damage == 6) plan.size = 0;
        const pith_exdyna before = plan;
        context("damage %d", damage);
        CHECK_STATUS(PITH_ERR_STATE, pith_exdyna_range(&plan, 0, &r.first, &r.count, NULL));
        CHECK_STATUS(PITH_ERR_STATE, pith_exdyna_update(&plan, counts, NULL));
        CHECK(memcmp(&plan, &before, sizeof plan) == 0);
    }
    plan = good;
    CHECK_STATUS(PITH_ERR_ARG, pith_exdyna_range(&plan, 4, &r.first, &r.count, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_exdyna_update(&plan, (const uint64_t[]){99999, 0, 0, 1}, NULL));
    CHECK(memcmp(&plan, &good, sizeof plan) == 0);
    /* A partition without blocks, which no update makes, has none to give. */
    plan.blocks[0] = 0, plan.blocks[1] = 512;
    CHECK_OK(pith_exdyna_update(&plan, (const uint64_t[]){500, 10, 100, 100}, NULL));
    CHECK(plan.blocks[0] == 0 && plan.blocks[1] == 512);
    /* Fewer elements than ranks: nothing moves. */
    plan = good;
    CHECK_OK(pith_exdyna_update(&plan, (const uint64_t[]){3, 0, 0, 0}, NULL));
    CHECK(memcmp(plan.blocks, good.blocks, sizeof plan.blocks) == 0 && plan.step == 1);
}

/* ---- DEFT ------------------------------------------------------------------------------------*/

static void test_deft_cuts_large_tensors(void **state) {
    (void)state;
    static const uint64_t sizes[] = {10, 0, 3, 47, 20}; /* 80: more than 20 is cut into 4 */
    uint64_t pieces[8];
    CHECK(pith_deft_pieces(sizes, 5, 4, NULL, 0) == 7);
    CHECK(pith_deft_pieces(sizes, 5, 4, pieces, 8) == 7);
    static const uint64_t wanted[] = {10, 3, 12, 12, 12, 11, 20};
    for (int i = 0; i < 7; i++) CHECK(pieces[i] == wanted[i]);
    pieces[2] = 99;
    CHECK(pith_deft_pieces(sizes, 5, 4, pieces, 2) == 7);
    CHECK(pieces[2] == 99);
    /* Fewer elements than ranks: pieces of one element. */
    CHECK(pith_deft_pieces((const uint64_t[]){2, 1}, 2, 7, pieces, 8) == 3);
    CHECK(pieces[2] == 1);
    CHECK(pith_deft_pieces(sizes, 5, 0, pieces, 8) == 0);
    CHECK(pith_deft_pieces((const uint64_t[]){UINT64_MAX, 1}, 2, 1, pieces, 8) == 0);
}

static void test_deft_shares_k_by_norms(void **state) {
    (void)state;
    static const uint64_t pieces[] = {100, 5, 100, 100};
    uint8_t memory[200];
    uint64_t ks[4];
    CHECK(pith_deft_bytes(4, 2) <= sizeof memory);
    /* 20 * 6 / 10 = 12, of which the piece has 5; 15 * 3 / 4 = 11; 4 * 1 / 1; and 1 for 0. */
    CHECK_OK(pith_deft_counts(pieces, (const double[]){1, 6, 3, 0}, 4, 20, memory, sizeof memory,
                              ks, NULL));
    CHECK(ks[0] == 4 && ks[1] == 5 && ks[2] == 11 && ks[3] == 1);
    /* Of equal norms the first piece is the first; k may be used up. */
    CHECK_OK(pith_deft_counts(pieces, (const double[]){2, 2, 2, 2}, 4, 6, memory + 1,
                              sizeof memory - 1, ks, NULL));
    CHECK(ks[0] == 1 && ks[1] == 1 && ks[2] == 2 && ks[3] == 2);
    CHECK_OK(pith_deft_counts(pieces, (const double[]){9, 0, -0.0, 1}, 4, 2, memory, sizeof memory,
                              ks, NULL));
    CHECK(ks[0] == 1 && ks[1] == 1 && ks[2] == 1 && ks[3] == 1);
    static const double bad[] = {-1, NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(PITH_ERR_ARG, pith_deft_counts(pieces, (const double[]){1, 1, bad[i], 1}, 4,
                                                    20, memory, sizeof memory, ks, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_deft_counts((const uint64_t[]){0}, (const double[]){1}, 1, 20,
                                                memory, sizeof memory, ks, NULL));
    CHECK_STATUS(PITH_ERR_SPACE, pith_deft_counts(pieces, (const double[]){1, 6, 3, 0}, 4, 20,
                                                  memory, pith_deft_bytes(4, 0) - 1, ks, NULL));
    CHECK_OK(pith_deft_counts(NULL, NULL, 0, 20, memory, sizeof memory, NULL, NULL));
}

/* Norms whose sum, and whose product with k, are no doubles share k as smaller ones do. */
static void test_deft_shares_k_by_norms_that_overflow_together(void **state) {
    (void)state;
    static const uint64_t pieces[] = {100, 5, 100, 100};
    static const double norms[] = {0x1.8p1023, 0x1.8p1023, 0x1.8p1023, 1};
    uint8_t memory[200];
    uint64_t ks[4];
    /* 20 / 3; 14 / 2, of which the piece has 5; 9; and 1 for the least. */
    CHECK_OK(pith_deft_counts(pieces, norms, 4, 20, memory, sizeof memory, ks, NULL));
    CHECK(ks[0] == 6 && ks[1] == 5 && ks[2] == 9 && ks[3] == 1);
    CHECK_OK(pith_deft_counts(pieces, norms, 4, UINT64_MAX, memory, sizeof memory, ks, NULL));
    CHECK(ks[0] == 100 && ks[1] == 5 && ks[2] == 100 && ks[3] == 1);
}

/* A share of 2^64, which no uint64_t holds, made k 0 for pieces that are as long as a double can
 * tell: of k that are more than it can. */
static void test_deft_gives_the_longest_pieces_all(void **state) {
    (void)state;
    static const uint64_t pieces[] = {UINT64_MAX, UINT64_MAX - 1};
    uint8_t memory[200];
    uint64_t ks[2];
    uint32_t bins[2];
    CHECK_OK(pith_deft_counts(pieces, (const double[]){1, 0}, 2, UINT64_MAX, memory, sizeof memory,
                              ks, NULL));
    CHECK(ks[0] == UINT64_MAX && ks[1] == 1);
    CHECK_OK(pith_deft_pack(pieces, ks, 2, 2, memory, sizeof memory, bins, NULL));
    CHECK(bins[0] == PITH_DEFT_COMMON && bins[1] == 0);
}

static void test_deft_packs_the_costliest_first(void **state) {
    (void)state;
    enum { COUNT = 7, RANKS = 3 };
    static const uint64_t pieces[COUNT] = {64, 8, 64, 100, 100, 128, 100};
    /* Costs 64 * 3, all, 64 * 1, 100, 100, 128 * 4 and, with k = 1, its size. */
    static const uint64_t ks[COUNT] = {8, 8, 2, 1, 2, 16, 1};
    uint32_t bins[COUNT];
    uint8_t memory[400];
    CHECK_OK(pith_deft_pack(pieces, ks, COUNT, RANKS, memory, sizeof memory, bins, NULL));
    /* 512 to bin 0, 192 to 1, 100 to 2, 100 to 2 (100 < 192), 100 to 1 (192 < 200), 64 to 2. */
    static const uint32_t wanted[COUNT] = {1, PITH_DEFT_COMMON, 2, 2, 2, 0, 1};
    for (int i = 0; i < COUNT; i++) {
        context("piece %d", i);
        CHECK(bins[i] == wanted[i]);
    }
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_deft_pack(pieces, ks, COUNT, 0, memory, sizeof memory, bins, NULL));
    CHECK_STATUS(PITH_ERR_SPACE, pith_deft_pack(pieces, ks, COUNT, RANKS, memory,
                                                pith_deft_bytes(COUNT, RANKS) - 1, bins, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_deft_pack(pieces, (const uint64_t[]){65, 8, 2, 1, 2, 16, 1},
                                              COUNT, RANKS, memory, sizeof memory, bins, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_deft_pack(pieces, (const uint64_t[]){8, 8, 2, 1, 2, 16, 0},
                                              COUNT, RANKS, memory, sizeof memory, bins, NULL));
}

/* The rule by searches for the first maximum and the first minimum. */
static void test_deft_packs_as_the_rule_says(void **state) {
    (void)state;
    enum { COUNT = 300, RANKS = 13 };
    uint64_t *pieces = allocate(COUNT * sizeof *pieces);
    uint64_t ks[COUNT];
    uint32_t bins[COUNT];
    double cost[COUNT], load[RANKS] = {0};
    bool packed[COUNT] = {false};
    void *memory = allocate((size_t)pith_deft_bytes(COUNT, RANKS));
    for (int i = 0; i < COUNT; i++) {
        pieces[i] = 1 + draw() % 64;
        ks[i] = 1 + draw() % pieces[i] % 8;
        const double size = (double)pieces[i];
        cost[i] = ks[i] > 1 ? size * log2((double)ks[i]) : size;
    }
    CHECK_OK(pith_deft_pack(pieces, ks, COUNT, RANKS, memory, (size_t)pith_deft_bytes(COUNT, RANKS),
                            bins, NULL));
    for (int left = COUNT; left > 0; left--) {
        int top = -1, bin = 0;
        for (int i = 0; i < COUNT; i++)
            if (!packed[i] && ks[i] < pieces[i] && (top < 0 || cost[i] > cost[top] + 1e-9)) top = i;
        if (top < 0) break;
        for (int r = 0; r < RANKS; r++)
            if (load[r] < load[bin] - 1e-9) bin = r;
        context("piece %d", top);
        CHECK(bins[top] == (uint32_t)bin);
        packed[top] = true;
        load[bin] += cost[top];
    }
    for (int i = 0; i < COUNT; i++) CHECK((bins[i] == PITH_DEFT_COMMON) == (ks[i] == pieces[i]));
    free(pieces);
    free(memory);
}

static void test_norms(void **state) {
    (void)state;
    enum { ROWS = 37, COLUMNS = 301 };
    float *x = allocate(ROWS * COLUMNS * sizeof *x), *turned = allocate(ROWS * COLUMNS * sizeof *x);
    double sum = 0, norm, other;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)normal();
        turned[i % COLUMNS * ROWS + i / COLUMNS] = x[i];
        sum += (double)x[i] * x[i];
    }
    const uint64_t shape[] = {ROWS, COLUMNS};
    const pith_view dense = pith_view_dense(x, PITH_F32, 2, shape);
    pith_view strided = pith_view_dense(turned, PITH_F32, 2, shape);
    strided.stride[0] = 1, strided.stride[1] = ROWS;
    CHECK_OK(pith_sparse_norm(&dense, &norm, NULL));
    CHECK_OK(pith_sparse_norm(&strided, &other, NULL));
    CHECK(norm == other && fabs(norm / sqrt(sum) - 1) < 1e-13);
    x[5] = NAN, x[6] = -INFINITY;
    sum -=
        (double)turned[5 * ROWS] * turned[5 * ROWS] + (double)turned[6 * ROWS] * turned[6 * ROWS];
    CHECK_OK(pith_sparse_norm(&dense, &norm, NULL));
    CHECK(fabs(norm / sqrt(sum) - 1) < 1e-13);
    const uint64_t none[] = {0}, two[] = {2};
    const pith_view empty = pith_view_dense(x, PITH_F32, 1, none);
    CHECK_OK(pith_sparse_norm(&empty, &norm, NULL));
    CHECK(norm == 0);
    float large[] = {3e38f, -2e38f};
    const pith_view huge = pith_view_dense(large, PITH_F32, 1, two);
    CHECK_OK(pith_sparse_norm(&huge, &norm, NULL));
    CHECK(fabs(norm / hypot(large[0], large[1]) - 1) < 1e-13);
    double reals[] = {1, 2};
    const pith_view wide = pith_view_dense(reals, PITH_F64, 1, two);
    CHECK_STATUS(PITH_ERR_DTYPE, pith_sparse_norm(&wide, &norm, NULL));
    free(x);
    free(turned);
}

/* ---- Bytes -----------------------------------------------------------------------------------*/

static const struct {
    const char *name;
    uint32_t bits;
} value_kinds[] = {{"f32", 32}, {"bf16", 16}, {"int8", 8}, {"none", 0}};

static void test_bytes_are_those_of_frames(void **state) {
    (void)state;
    enum { N = 1 << 18 };
    static const uint64_t ks[] = {26, 262, 2621, 13107, 26214, 104857, 200000};
    float *x = allocate(N * sizeof *x);
    for (int i = 0; i < N; i++) x[i] = (float)normal();
    const uint64_t shape[] = {N};
    const pith_view view = pith_view_dense(x, PITH_F32, 1, shape);
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
        for (int kind = 0; kind < 4; kind++)
            for (uint32_t index = 0; index < 2; index++) {
                char spec[200];
                snprintf(spec, sizeof spec,
                         "topk:k=%u,cap=1,control=exact,values=%s,index=%s,block=32768",
                         (unsigned)ks[i], value_kinds[kind].name, index ? "fast" : "small");
                const struct frame f = compress(spec, &view, NULL, 0);
                const uint32_t bits = value_kinds[kind].bits;
                const uint64_t largest = pith_sparse_largest_bytes(N, ks[i], bits, 32768);
                const double expected =
                    (double)pith_sparse_expected_bytes(N, ks[i], bits, index, 32768);
                context("%s: %u bytes, %g expected, at most %u", spec, (unsigned)f.length, expected,
                        (unsigned)largest);
                CHECK(f.length <= largest);
                CHECK(fabs((double)f.length - expected) < 0.03 * expected + 32);
                free(f.bytes);
            }
    free(x);
}

static void test_largest_bytes_are_those_of_plans(void **state) {
    (void)state;
    static const uint64_t counts[] = {1, 63, 4096, 100000, 1000001};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (uint64_t k = 1; k <= counts[i]; k = 7 * k + 3)
            for (int kind = 0; kind < 4; kind++)
                for (uint64_t block = 64; block <= 1 << 20; block *= 16) {
                    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, counts[i]);
                    const pith_plan *plan;
                    char spec[200];
                    snprintf(spec, sizeof spec, "topk:k=%u,cap=1,values=%s,block=%u", (unsigned)k,
                             value_kinds[kind].name, (unsigned)block);
                    CHECK_OK(pith_plan_create(&plan, spec, &layout, NULL, NULL));
                    context("%s of %u", spec, (unsigned)counts[i]);
                    CHECK(pith_plan_frame_bytes(plan, 0, 0) ==
                          pith_sparse_largest_bytes(counts[i], k, value_kinds[kind].bits, block));
                    pith_plan_destroy(plan);
                }
}

static void test_block_of_a_density_is_the_spec_s(void **state) {
    (void)state;
    static const char *const densities[] = {"1",    "0.5",   "0.25",   "0.1",
                                            "0.01", "0.001", "0.0001", "0.00003125"};
    const uint64_t n = 100000000;
    for (size_t i = 0; i < sizeof densities / sizeof densities[0]; i++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, n);
        const pith_plan *plan;
        char spec[200];
        snprintf(spec, sizeof spec, "topk:density=%s,cap=1", densities[i]);
        CHECK_OK(pith_plan_create(&plan, spec, &layout, NULL, NULL));
        context("%s", spec);
        const uint64_t k = (uint64_t)(strtod(densities[i], NULL) * (double)n + 0.5);
        CHECK(pith_plan_frame_bytes(plan, 0, 0) == pith_sparse_largest_bytes(n, k, 32, 0));
        pith_plan_destroy(plan);
    }
}

static void test_bytes_by_hand(void **state) {
    (void)state;
    /* Two blocks: header 96, index 16, heads 8, a map of 9 bytes less than 28, 3 values. */
    CHECK(pith_sparse_largest_bytes(70, 3, 32, 64) == 96 + 16 + 8 + 11 + 12);
    CHECK(pith_sparse_largest_bytes(100000, 1, 0, 131072) == 96 + 16 + 4 + 12);
    CHECK(pith_sparse_largest_bytes(100, 3, 31, 64) == 0);
    CHECK(pith_sparse_largest_bytes(100, 101, 32, 64) == 0);
    CHECK(pith_sparse_largest_bytes((UINT64_C(1) << 56) + 1, 3, 32, 64) == 0);
    CHECK(pith_sparse_expected_bytes(100, 3, 32, 2, 64) == 0);
    static const uint64_t no_blocks[] = {1, 32, 63, 96, 65, 1 << 25, UINT64_C(1) << 32, UINT64_MAX};
    for (size_t i = 0; i < sizeof no_blocks / sizeof *no_blocks; i++) {
        CHECK(pith_sparse_largest_bytes(100, 3, 32, no_blocks[i]) == 0);
        CHECK(pith_sparse_expected_bytes(100, 3, 32, 0, no_blocks[i]) == 0);
    }
    CHECK(pith_sparse_largest_bytes(100, 3, 32, 1 << 24) > 0);
    /* A quarter of the elements or more: a bit each. All of them: their values alone. */
    CHECK(pith_sparse_expected_bytes(8192, 4096, 16, 0, 8192) == 96 + 16 + 4 + 1024 + 8192);
    CHECK(pith_sparse_expected_bytes(8192, 8192, 16, 0, 8192) == 96 + 16 + 4 + 16384);
    CHECK(pith_sparse_expected_bytes(8192, 0, 16, 0, 8192) == 96 + 16 + 4);
    /* Entropy of 1 in 1000: 11.41 bits. */
    const double bits =
        8 * (double)(pith_sparse_expected_bytes(1 << 24, 16777, 0, 0, 1 << 24) - 116) / 16777;
    CHECK(fabs(bits - 11.41 - 0.55) < 0.01);
}

/* ---- AdaTopK ---------------------------------------------------------------------------------*/

static void test_links_send_in_the_time_there_is(void **state) {
    (void)state;
    static const pith_sparse_link links[] = {{1 << 20, 1e6}, {1 << 20, 4e6}, {1 << 20, 1e9},
                                             {1 << 10, 1e6}, {1000, 10},     {0, 1}};
    enum { COUNT = sizeof links / sizeof links[0] };
    uint64_t ks[COUNT];
    for (int kind = 0; kind < 3; kind++)
        for (uint32_t index = 0; index < 2; index++) {
            const uint32_t bits = value_kinds[kind].bits;
            const double seconds = pith_sparse_link_seconds(links, 4, bits, 20);
            const double dense = (double)pith_sparse_expected_bytes(1 << 20, 1 << 20, bits, 0, 0);
            CHECK(fabs(seconds * 20 * 1e6 / dense - 1) < 1e-5);
            CHECK_OK(pith_sparse_link_counts(links, COUNT, bits, index, seconds, ks, NULL));
            for (int i = 0; i < COUNT; i++) {
                const uint64_t n = links[i].n, k = ks[i];
                context("link %d, %s: k = %u", i, value_kinds[kind].name, (unsigned)k);
                CHECK(k <= n && (k >= 1 || n == 0));
                const double most = seconds * links[i].bytes_per_second;
                if (k > 1) CHECK((double)pith_sparse_expected_bytes(n, k, bits, index, 0) <= most);
                if (k < n)
                    CHECK((double)pith_sparse_expected_bytes(n, k + 1, bits, index, 0) > most - 1);
            }
            CHECK(ks[0] < (1 << 20) / 20 && ks[0] > (1 << 20) / 50);
            CHECK(ks[1] > 3 * ks[0] && ks[2] == 1 << 20 && ks[3] == 1 << 10 && ks[4] == 1);
        }
}

static void test_links_that_are_none(void **state) {
    (void)state;
    const pith_sparse_link good = {100, 5};
    static const double bad[] = {0, -1, NAN, INFINITY};
    uint64_t ks[1] = {77};
    for (int i = 0; i < 4; i++) {
        const pith_sparse_link link = {100, bad[i]};
        CHECK_STATUS(PITH_ERR_ARG, pith_sparse_link_counts(&link, 1, 32, 0, 1, ks, NULL));
        CHECK_STATUS(PITH_ERR_ARG, pith_sparse_link_counts(&good, 1, 32, 0, bad[i], ks, NULL));
        CHECK(isnan(pith_sparse_link_seconds(&link, 1, 32, 10)));
        CHECK(isnan(pith_sparse_link_seconds(&good, 1, 32, bad[i])));
    }
    CHECK_STATUS(PITH_ERR_ARG, pith_sparse_link_counts(&good, 1, 33, 0, 1, ks, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_sparse_link_counts(&good, 1, 32, 2, 1, ks, NULL));
    CHECK(ks[0] == 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partitions_go_round),
        cmocka_unit_test(test_imbalance),
        cmocka_unit_test(test_imbalance_of_counts_that_fill_64_bits),
        cmocka_unit_test(test_exdyna_by_hand),
        cmocka_unit_test(test_exdyna_falls_back_to_even_partitions),
        cmocka_unit_test(test_exdyna_is_the_published_code),
        cmocka_unit_test(test_exdyna_refuses_what_it_has_not_made),
        cmocka_unit_test(test_deft_cuts_large_tensors),
        cmocka_unit_test(test_deft_shares_k_by_norms),
        cmocka_unit_test(test_deft_shares_k_by_norms_that_overflow_together),
        cmocka_unit_test(test_deft_gives_the_longest_pieces_all),
        cmocka_unit_test(test_deft_packs_the_costliest_first),
        cmocka_unit_test(test_deft_packs_as_the_rule_says),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_bytes_by_hand),
        cmocka_unit_test(test_bytes_are_those_of_frames),
        cmocka_unit_test(test_largest_bytes_are_those_of_plans),
        cmocka_unit_test(test_block_of_a_density_is_the_spec_s),
        cmocka_unit_test(test_links_send_in_the_time_there_is),
        cmocka_unit_test(test_links_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
