/* test_exempt.c - elements that go around codec grad: exact or at 16 bits, at every border.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "gen.h"
#include "grad_model.h"
#include "util.h"

enum { COUNT = 1000, RANGES = 5, X = PITH_EXEMPT_EXACT, H = PITH_EXEMPT_16 };
static const uint32_t reals[3] = {PITH_F32, PITH_BF16, PITH_F16};

struct map {
    const char *name;
    size_t count;
    pith_exempt range[RANGES];
};
static const struct map maps[] = {
    {"none", 0, {{0, 0, 0}}},
    {"first", 1, {{0, 1, X}}},
    {"last", 1, {{COUNT - 1, 1, H}}},
    {"whole exact", 1, {{0, COUNT, X}}},
    {"whole 16", 1, {{0, COUNT, H}}},
    {"inside a group", 2, {{3, 5, X}, {40, 1, H}}},
    {"neighbours", 4, {{10, 5, X}, {15, 5, H}, {20, 1, H}, {21, 11, X}}},
    {"over blocks", 3, {{60, 8, H}, {120, 16, X}, {250, 400, H}}},
    {"at borders", 4, {{64, 64, X}, {256, 1, H}, {383, 1, X}, {511, 2, H}}},
    {"odd bytes", 5, {{1, 1, H}, {3, 1, H}, {5, 1, H}, {700, 3, X}, {999, 1, H}}},
    {"over slots", 3, {{332, 4, X}, {600, 80, H}, {900, 100, X}}},
};
enum { MAPS = sizeof maps / sizeof maps[0] };

static const char *const specs[] = {"grad:group=32,block=64", "grad:bits=8,rotate=0,block=32768",
                                    "grad:sign_seed=3,search=mse,block=128"};

static pith_layout layout_of(const struct map *m, uint32_t dtype) {
    pith_layout l = flat_layout(dtype, PITH_NONE, COUNT);
    l.exempt = m->count ? m->range : NULL;
    l.exempt_count = m->count;
    return l;
}

/* How an element travels; 0: in its group. */
static uint64_t how_of(const struct map *m, size_t i) {
    for (size_t k = 0; k < m->count; k++)
        if (i >= m->range[k].first && i < m->range[k].first + m->range[k].count)
            return m->range[k].how;
    return 0;
}

/* What an exempt value of a tensor of dtype becomes, as f32 bits. */
static uint32_t kept(uint32_t bits, uint32_t dtype, uint64_t how) {
    uint32_t out;
    const uint32_t stored = how == X || dtype == PITH_F16 ? dtype : (uint32_t)PITH_BF16;
    store_float(&out, stored, 0, bits);
    return load_float(&out, stored, 0);
}

/* f32 bits in another dtype, widened again. */
static uint32_t rounded(uint32_t bits, uint32_t dtype) {
    uint32_t out;
    store_float(&out, dtype, 0, bits);
    return load_float(&out, dtype, 0);
}

/* A NaN may keep its payload. */
static bool same(uint32_t a, uint32_t b) {
    return a == b || ((a & 0x7FFFFFFFu) > 0x7F800000u && (b & 0x7FFFFFFFu) > 0x7F800000u);
}

/* ---- Frames ----------------------------------------------------------------------------------*/

/* Values are finite where they are coded; exempt ones are anything. */
static void fill(const struct map *m, uint32_t dtype, void *x, uint64_t seed) {
    const size_t width = pith_dtype_bytes(dtype);
    uint8_t any[4 * COUNT];
    gen_fill(GEN_NOISE, seed, dtype, x, COUNT);
    gen_fill(GEN_BITS, seed, dtype, any, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        if (how_of(m, i)) memcpy((uint8_t *)x + i * width, any + i * width, width);
}

static void check_decoded(const struct map *m, uint32_t dtype, const void *x, uint32_t out_dtype,
                          const void *out, double bound) {
    for (size_t i = 0; i < COUNT; i++) {
        const uint32_t from = load_float(x, dtype, i), to = load_float(out, out_dtype, i);
        const uint64_t how = how_of(m, i);
        if (how)
            CHECK(same(to, rounded(kept(from, dtype, how), out_dtype)));
        else if (out_dtype == PITH_F32)
            CHECK(fabs((double)float_of(from) - (double)float_of(to)) <= bound);
        else
            CHECK(!nonfinite(to));
    }
}

/* The bound covers coded and exempt values alike; NaN only where an exempt value is infinite. */
static double bound_of(const struct map *m, uint32_t dtype, const void *x, const struct frame *f) {
    double bound;
    bool infinite = false;
    CHECK_OK(pith_error_bound(f->bytes, f->length, &bound, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        const uint32_t from = load_float(x, dtype, i);
        if (how_of(m, i) != H || dtype != PITH_F32) continue;
        const uint32_t to = kept(from, dtype, H);
        infinite |= (to & 0x7FFFFFFFu) == 0x7F800000u;
        if (!nonfinite(to) && !isnan(bound))
            CHECK(fabs((double)float_of(from) - (double)float_of(to)) <= bound);
    }
    CHECK(isnan(bound) == infinite);
    return isnan(bound) ? 1 : bound;
}

static void check_frame(const char *spec, const struct map *m, uint32_t dtype, uint32_t flags) {
    struct stream s;
    uint8_t x[4 * COUNT], out[4 * COUNT];
    pith_layout layout = layout_of(m, dtype);
    layout.flags = flags;
    const pith_view v = pith_view_flat(x, dtype, COUNT);
    fill(m, dtype, x, 1);
    stream_open(&s, spec, &layout, NULL);
    struct frame f = stream_encode(&s, &v, 0, false);
    CHECK(f.length == s.sizes.slot_bytes);
    const double bound = bound_of(m, dtype, x, &f);
    for (int d = 0; d < 3; d++) {
        const pith_view to = pith_view_flat(out, reals[d], COUNT);
        CHECK_OK(decode_one(s.work, s.stream, 0, f.bytes, f.length, &to, 0));
        check_decoded(m, dtype, x, reals[d], out, bound);
        CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &to, NULL));
        check_decoded(m, dtype, x, reals[d], out, bound);
    }
    pith_stats stats = {.size = sizeof stats};
    CHECK_OK(pith_stream_stats(s.stream, &stats));
    CHECK(stats.poisoned == 0);
    CHECK_OK(pith_verify(f.bytes, f.length, NULL, NULL));
    free(f.bytes);
    stream_close(&s);
}

static void test_frames(void **state) {
    (void)state;
    for (size_t i = 0; i < MAPS; i++)
        for (int d = 0; d < 3; d++)
            for (int k = 0; k < 3; k++)
                for (uint32_t flags = 0; flags <= PITH_LAYOUT_CHECKSUMS; flags++) {
                    context("%s %s %s %u", maps[i].name, pith_dtype_name(reals[d]), specs[k],
                            flags);
                    check_frame(specs[k], &maps[i], reals[d], flags);
                }
}

/* Blocks are those of the tensor with zeros in the exempt places; values and zeros follow. */
static void test_bytes(void **state) {
    (void)state;
    const struct model m = {4, 32, 32, 0, MODEL_NEAREST, 64, PITH_F32, 0, 0, 0, 0, 1, 0};
    const size_t blocks = model_bytes(&m, COUNT);
    for (size_t i = 0; i < MAPS; i++) {
        struct stream s;
        float x[COUNT];
        uint8_t coded[2 * COUNT], exempt_values[4 * COUNT + 16] = {0};
        size_t used = 0;
        const pith_layout layout = layout_of(&maps[i], PITH_F32);
        const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
        context("%s", maps[i].name);
        fill(&maps[i], PITH_F32, x, 4);
        stream_open(&s, specs[0], &layout, NULL);
        struct frame f = stream_encode(&s, &v, 0, false);
        for (size_t k = 0; k < COUNT; k++) {
            const uint64_t how = how_of(&maps[i], k);
            if (!how) continue;
            if (how == X)
                memcpy(exempt_values + used, &x[k], 4);
            else
                store_float(exempt_values + used, PITH_BF16, 0, bits_of(x[k]));
            used += how == X ? 4 : 2;
            x[k] = 0;
        }
        CHECK(blocks <= sizeof coded);
        model_rotate(&m, x, COUNT);
        model_code(&m, x, COUNT, coded);
        used = (used + 15) / 16 * 16;
        CHECK(f.length == header_of(&f) + blocks + used);
        CHECK(memcmp(f.bytes + header_of(&f), coded, blocks) == 0);
        CHECK(memcmp(f.bytes + header_of(&f) + blocks, exempt_values, used) == 0);
        free(f.bytes);
        stream_close(&s);
    }
}

static void test_one_shot(void **state) {
    (void)state;
    for (size_t i = 0; i < MAPS; i++)
        for (int d = 0; d < 3; d++) {
            uint8_t x[4 * COUNT], out[4 * COUNT];
            const pith_layout layout = layout_of(&maps[i], reals[d]);
            const pith_view v = pith_view_flat(x, reals[d], COUNT);
            uint64_t bound, exempt = 0;
            size_t length;
            pith_info info = {.size = sizeof info};
            context("%s %s", maps[i].name, pith_dtype_name(reals[d]));
            fill(&maps[i], reals[d], x, 2);
            CHECK_OK(pith_compress_bound("grad:block=256", &v, NULL, &layout, &bound, NULL));
            uint8_t *bytes = allocate((size_t)bound);
            CHECK_OK(pith_compress("grad:block=256", &v, NULL, &layout, NULL, bytes, (size_t)bound,
                                   &length, NULL));
            CHECK(length == bound);
            CHECK_OK(pith_inspect(bytes, length, &info, NULL));
            for (size_t k = 0; k < COUNT; k++) exempt += how_of(&maps[i], k) != 0;
            CHECK(info.exempt == exempt && info.frame_bytes == length);
            const struct frame f = {bytes, length};
            const pith_view to = pith_view_flat(out, reals[d], COUNT);
            CHECK_OK(pith_decompress(bytes, length, NULL, NULL, &to, NULL));
            const double most = bound_of(&maps[i], reals[d], x, &f);
            check_decoded(&maps[i], reals[d], x, reals[d], out, most);
            free(bytes);
        }
}

static void test_ranges(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 2, 7, 64, 65, 333};
    for (size_t i = 0; i < MAPS; i++) {
        float x[COUNT], whole[COUNT], part[COUNT];
        uint8_t bytes[8192];
        size_t length;
        const pith_layout layout = layout_of(&maps[i], PITH_F32);
        const pith_view v = pith_view_flat(x, PITH_F32, COUNT),
                        to = pith_view_flat(whole, PITH_F32, COUNT);
        fill(&maps[i], PITH_F32, x, 3);
        CHECK_OK(
            pith_compress(specs[0], &v, NULL, &layout, NULL, bytes, sizeof bytes, &length, NULL));
        CHECK_OK(pith_decompress(bytes, length, NULL, NULL, &to, NULL));
        for (size_t k = 0; k < 6; k++)
            for (size_t first = 0; first + lengths[k] <= COUNT; first += 1 + first % 13) {
                const pith_view range = pith_view_flat(part, PITH_F32, lengths[k]);
                context("%s from %zu, %zu", maps[i].name, first, lengths[k]);
                CHECK_OK(pith_decode_range(bytes, length, NULL, first, NULL, &range, NULL));
                CHECK(memcmp(part, whole + first, lengths[k] * 4) == 0);
            }
    }
}

static void test_strided_views(void **state) {
    (void)state;
    for (size_t i = 0; i < MAPS; i++) {
        struct stream s;
        float x[COUNT], spread[3 * COUNT], back[COUNT], wanted[COUNT];
        const pith_layout layout = layout_of(&maps[i], PITH_F32);
        const pith_view dense = pith_view_flat(x, PITH_F32, COUNT),
                        out = pith_view_flat(wanted, PITH_F32, COUNT),
                        in = {spread, PITH_F32, 1, {COUNT}, {3}},
                        down = {back + COUNT - 1, PITH_F32, 1, {COUNT}, {-1}};
        context("%s strided", maps[i].name);
        fill(&maps[i], PITH_F32, x, 5);
        for (size_t k = 0; k < COUNT; k++) spread[3 * k] = x[k];
        stream_open(&s, specs[2], &layout, NULL);
        struct frame a = stream_encode(&s, &dense, 0, false), b = stream_encode(&s, &in, 0, false);
        CHECK(a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0);
        CHECK_OK(decode_one(s.work, s.stream, 0, a.bytes, a.length, &out, 0));
        CHECK_OK(decode_one(s.work, s.stream, 0, a.bytes, a.length, &down, 0));
        for (size_t k = 0; k < COUNT; k++)
            CHECK(bits_of(back[COUNT - 1 - k]) == bits_of(wanted[k]));
        free(a.bytes);
        free(b.bytes);
        stream_close(&s);
    }
}

/* ---- Slots -----------------------------------------------------------------------------------*/

/* Every cut gives each slot the part of the map that lies in it. */
static void test_slots(void **state) {
    (void)state;
    static const uint64_t counts[] = {2, 3, 7, 16};
    for (size_t i = 0; i < MAPS; i++)
        for (size_t k = 0; k < 4; k++) {
            struct stream s;
            float x[COUNT], out[COUNT];
            pith_layout layout = layout_of(&maps[i], PITH_F32);
            layout.slots = counts[k];
            const pith_view v = pith_view_flat(x, PITH_F32, COUNT),
                            to = pith_view_flat(out, PITH_F32, COUNT);
            fill(&maps[i], PITH_F32, x, 6);
            stream_open(&s, specs[0], &layout, NULL);
            const size_t each = (size_t)s.sizes.slot_bytes;
            uint8_t *bytes = allocate(counts[k] * each);
            pith_item items[16];
            uint64_t seen = 0, wanted = 0;
            for (uint64_t slot = 0; slot < counts[k]; slot++)
                items[slot] = (pith_item){.size = sizeof(pith_item),
                                          .stream = s.stream,
                                          .slot = slot,
                                          .view = v,
                                          .frame = bytes + slot * each,
                                          .capacity = each};
            CHECK_OK(pith_encode(s.work, items, counts[k], 0));
            for (uint64_t slot = 0; slot < counts[k]; slot++) {
                pith_info info = {.size = sizeof info};
                context("%s slot %u of %u", maps[i].name, (unsigned)slot, (unsigned)counts[k]);
                const size_t length = items[slot].length;
                CHECK(length == pith_plan_frame_bytes(s.plan, slot, 0));
                CHECK_OK(decode_one(s.work, s.stream, slot, bytes + slot * each, length, &to, 0));
                CHECK_OK(pith_inspect(bytes + slot * each, length, &info, NULL));
                seen += info.exempt;
            }
            for (size_t e = 0; e < COUNT; e++) wanted += how_of(&maps[i], e) != 0;
            CHECK(seen == wanted);
            check_decoded(&maps[i], PITH_F32, x, PITH_F32, out, 0.1);
            free(bytes);
            stream_close(&s);
        }
}

/* ---- Sums ------------------------------------------------------------------------------------*/

enum { FRAMES = 3 };

/* scale * the f32 sum of what the frames bring, in order. */
static uint32_t exempt_sum(const struct map *m, float x[FRAMES][COUNT], size_t i, float scale) {
    float sum = 0;
    for (int k = 0; k < FRAMES; k++) {
        const float v = float_of(kept(bits_of(x[k][i]), PITH_F32, how_of(m, i)));
        sum = k ? sum + v : v;
    }
    if (scale != 1) sum = sum * scale;
    return rounded(bits_of(sum), PITH_F32);
}

static void check_sums(const struct map *m, const char *in_spec, const char *out_spec,
                       float scale) {
    struct stream in, out;
    static float x[FRAMES][COUNT], direct[COUNT], second[COUNT];
    struct frame f[FRAMES];
    const void *bytes[FRAMES];
    size_t lengths[FRAMES], length;
    const pith_layout layout = layout_of(m, PITH_F32);
    const pith_view to = pith_view_flat(direct, PITH_F32, COUNT),
                    again = pith_view_flat(second, PITH_F32, COUNT);
    stream_open(&in, in_spec, &layout, NULL);
    stream_open(&out, out_spec, &layout, NULL);
    const pith_plan *const plans[2] = {in.plan, out.plan};
    void *memory;
    pith_work *const work = work_for(plans, 2, NULL, &memory);
    for (size_t k = 0; k < FRAMES; k++) {
        const pith_view v = pith_view_flat(x[k], PITH_F32, COUNT);
        fill(m, PITH_F32, x[k], 10 + k);
        f[k] = stream_encode(&in, &v, 0, false);
        bytes[k] = f[k].bytes;
        lengths[k] = f[k].length;
    }
    CHECK_OK(reduce_one(in.work, in.stream, 0, bytes, lengths, FRAMES, scale, &to));
    uint8_t *sum = allocate((size_t)out.sizes.slot_bytes);
    CHECK_OK(reduce_encode_one(work, in.stream, 0, bytes, lengths, FRAMES, scale, out.stream, 0,
                               sum, (size_t)out.sizes.slot_bytes, &length));
    CHECK(length == out.sizes.slot_bytes);
    CHECK_OK(decode_one(out.work, out.stream, 0, sum, length, &again, 0));
    for (size_t i = 0; i < COUNT; i++) {
        const uint64_t how = how_of(m, i);
        if (!how) {
            CHECK(fabsf(direct[i] - second[i]) < 0.2f);
            continue;
        }
        const uint32_t wanted = exempt_sum(m, x, i, scale);
        CHECK(bits_of(direct[i]) == wanted);
        CHECK(bits_of(second[i]) == kept(wanted, PITH_F32, how));
    }
    for (size_t k = 0; k < FRAMES; k++) free(f[k].bytes);
    free(sum);
    free(memory);
    stream_close(&in);
    stream_close(&out);
}

static void test_sums(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"grad:preset=intra,block=64,group=64", "grad:block=512"}, /* alike */
        {"grad:preset=intra,block=1024", "grad:group=32,block=64"},
        {"grad:preset=intra,block=128", "grad:rotate=0,block=256"}, /* through values */
        {"grad:preset=intra,sign_seed=1,block=256", "grad:sign_seed=2,block=128"},
    };
    for (size_t i = 0; i < MAPS; i++)
        for (size_t k = 0; k < 4; k++) {
            context("%s: %s to %s", maps[i].name, pairs[k][0], pairs[k][1]);
            check_sums(&maps[i], pairs[k][0], pairs[k][1], 1);
            check_sums(&maps[i], pairs[k][0], pairs[k][1], 0.3f);
        }
}

/* Each frame says for itself whether a table of checksums moves its exempt values. */
static void test_sum_with_and_without_checksums(void **state) {
    (void)state;
    for (size_t i = 0; i < MAPS; i++) {
        struct stream s[2];
        float x[COUNT], sum[COUNT], back[COUNT];
        struct frame f[2];
        const pith_view v = pith_view_flat(x, PITH_F32, COUNT),
                        to = pith_view_flat(sum, PITH_F32, COUNT),
                        o = pith_view_flat(back, PITH_F32, COUNT);
        fill(&maps[i], PITH_F32, x, 7);
        for (uint32_t k = 0; k < 2; k++) {
            pith_layout layout = layout_of(&maps[i], PITH_F32);
            layout.flags = k ? PITH_LAYOUT_CHECKSUMS : 0;
            stream_open(&s[k], specs[0], &layout, NULL);
            f[k] = stream_encode(&s[k], &v, 0, false);
        }
        CHECK_OK(decode_one(s[0].work, s[0].stream, 0, f[0].bytes, f[0].length, &o, 0));
        for (int k = 0; k < 4; k++) {
            const void *const bytes[2] = {f[k % 2].bytes, f[!(k % 2)].bytes};
            const size_t lengths[2] = {f[k % 2].length, f[!(k % 2)].length};
            context("%s, checksums in frame %d", maps[i].name, !(k % 2));
            CHECK_OK(reduce_one(s[k / 2].work, s[k / 2].stream, 0, bytes, lengths, 2, 0.5f, &to));
            for (size_t e = 0; e < COUNT; e++) {
                const uint32_t wanted = bits_of((back[e] + back[e]) * 0.5f);
                if (how_of(&maps[i], e)) CHECK(same(bits_of(sum[e]), wanted));
            }
        }
        for (int k = 0; k < 2; k++) {
            free(f[k].bytes);
            stream_close(&s[k]);
        }
    }
}

/* ---- Refusals --------------------------------------------------------------------------------*/

static void refused(const char *spec, const pith_exempt *ranges, size_t count, pith_status wanted,
                    const char *text) {
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    const pith_plan *plan = NULL;
    const pith_view v = pith_view_flat(NULL, PITH_F32, COUNT); /* its data is not used */
    pith_error error = {.size = sizeof error};
    uint64_t bytes;
    layout.exempt = ranges;
    layout.exempt_count = count;
    CHECK_STATUS(wanted, pith_plan_create(&plan, spec, &layout, NULL, &error));
    CHECK(!plan);
    CHECK(strcmp(error.text, text) == 0);
    CHECK_STATUS(wanted, pith_compress_bound(spec, &v, NULL, &layout, &bytes, &error));
    CHECK(strcmp(error.text, text) == 0);
}

static void test_bad_maps(void **state) {
    (void)state;
    static const struct {
        pith_exempt range[2];
        const char *text;
    } bad[] = {
        {{{0, 5, X}, {4, 1, X}}, "exempt[1] begins at element 4, the range before it ends at 5"},
        {{{10, 5, X}, {3, 1, X}}, "exempt[1] begins at element 3, the range before it ends at 15"},
        {{{0, 5, X}, {5, 0, X}}, "exempt[1] has no elements"},
        {{{0, 5, X}, {COUNT, 1, X}}, "exempt[1] has 1 element, the tensor 0 from there on"},
        {{{COUNT - 1, 2, X}, {0, 5, X}}, "exempt[0] has 2 elements, the tensor 1 from there on"},
        {{{0, 5, X}, {COUNT - 1, UINT64_MAX, X}},
         "exempt[1] has 18446744073709551615 elements, the tensor 1 from there on"},
        {{{0, 5, X}, {UINT64_MAX, 2, X}},
         "exempt[1] begins at element 18446744073709551615, the tensor has 1000"},
        {{{0, 5, X}, {10, 1, 0}}, "exempt[1] has how 0, expected 1 (16) or 2 (exact)"},
        {{{0, 5, 3}, {10, 1, X}}, "exempt[0] has how 3, expected 1 (16) or 2 (exact)"},
        {{{0, 5, X}, {10, 1, UINT64_C(0x100000000) | X}}, /* beyond 32 bits */
         "exempt[1] has how 4294967298, expected 1 (16) or 2 (exact)"},
    };
    static const pith_exempt good = {0, 5, X};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        context("bad map %zu", i);
        refused("grad", bad[i].range, 2, PITH_ERR_ARG, bad[i].text);
    }
    context("no map");
    refused("grad", NULL, 1, PITH_ERR_ARG, "exempt is NULL, exempt_count is 1");
    refused("grad", &good, PITH_EXEMPT_MAX + 1, PITH_ERR_ARG,
            "at most 65536 exempt ranges, not 65537");
    context("codec without exempt elements");
    static const char *const none[] = {"wdiff", "raw", "lossless"};
    for (size_t i = 0; i < 3; i++) {
        char text[80];
        snprintf(text, sizeof text, "codec %s takes no exempt ranges: exempt has to be none",
                 none[i]);
        refused(none[i], &good, 1, PITH_ERR_UNSUPPORTED, text);
    }
}

/* Frames of another map are another plan's. */
static void test_other_maps(void **state) {
    (void)state;
    for (size_t i = 0; i < MAPS; i++)
        for (size_t k = 0; k < MAPS; k++) {
            struct stream a, b;
            float x[COUNT], out[COUNT];
            const pith_layout from = layout_of(&maps[i], PITH_F32),
                              to = layout_of(&maps[k], PITH_F32);
            const pith_view v = pith_view_flat(x, PITH_F32, COUNT),
                            o = pith_view_flat(out, PITH_F32, COUNT);
            context("%s to %s", maps[i].name, maps[k].name);
            gen_fill(GEN_NOISE, 1, PITH_F32, x, COUNT);
            memset(out, 0x5A, sizeof out);
            stream_open(&a, "grad", &from, NULL);
            stream_open(&b, "grad:bits=4", &to, NULL);
            struct frame f = stream_encode(&a, &v, 0, false);
            const void *const bytes = f.bytes;
            if (i != k) {
                CHECK_STATUS(PITH_ERR_MISMATCH,
                             decode_one(b.work, b.stream, 0, f.bytes, f.length, &o, 0));
                CHECK_STATUS(PITH_ERR_MISMATCH,
                             reduce_one(b.work, b.stream, 0, &bytes, &f.length, 1, 1, &o));
                CHECK_STATUS(PITH_ERR_MISMATCH,
                             decode_one(b.work, b.stream, 0, f.bytes, f.length, &o, PITH_ADD));
                CHECK(all_bytes(out, sizeof out, 0x5A));
            }
            free(f.bytes);
            stream_close(&a);
            stream_close(&b);
        }
}

/* A sum goes to a plan with the same exempt elements; how they travel may differ. */
static void test_reduce_encode_to_another_map(void **state) {
    (void)state;
    static const struct map from = {"from", 2, {{3, 5, X}, {40, 1, H}}};
    static const struct {
        struct map map;
        pith_status wanted;
    } to[] = {{{"same", 2, {{3, 5, X}, {40, 1, H}}}, PITH_OK},
              {{"other kinds", 2, {{3, 5, H}, {40, 1, X}}}, PITH_OK},
              {{"longer", 2, {{3, 6, X}, {40, 1, H}}}, PITH_ERR_ARG},
              {{"less", 1, {{3, 5, X}}}, PITH_ERR_ARG},
              {{"none", 0, {{0, 0, 0}}}, PITH_ERR_ARG}};
    float x[COUNT], out[COUNT];
    struct stream in, s;
    uint8_t bytes[4096];
    size_t length;
    const pith_layout layout = layout_of(&from, PITH_F32);
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT),
                    o = pith_view_flat(out, PITH_F32, COUNT);
    stream_open(&in, "grad:preset=intra", &layout, NULL);
    gen_fill(GEN_NOISE, 1, PITH_F32, x, COUNT);
    struct frame f = stream_encode(&in, &v, 0, false);
    const void *const frame = f.bytes;
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
        const pith_layout l = layout_of(&to[i].map, PITH_F32);
        context("%s", to[i].map.name);
        stream_open(&s, "grad", &l, NULL);
        const pith_plan *const plans[2] = {in.plan, s.plan};
        void *memory;
        pith_work *const work = work_for(plans, 2, NULL, &memory);
        CHECK_STATUS(to[i].wanted, reduce_encode_one(work, in.stream, 0, &frame, &f.length, 1, 1,
                                                     s.stream, 0, bytes, sizeof bytes, &length));
        CHECK((length > 0) == (to[i].wanted == PITH_OK));
        if (length) {
            CHECK_OK(decode_one(s.work, s.stream, 0, bytes, length, &o, 0));
            for (size_t k = 3; k < 8; k++)
                CHECK(out[k] == float_of(kept(bits_of(x[k]), PITH_F32, i ? H : X)));
        }
        free(memory);
        stream_close(&s);
    }
    free(f.bytes);
    stream_close(&in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_one_shot),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_strided_views),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_sum_with_and_without_checksums),
        cmocka_unit_test(test_bad_maps),
        cmocka_unit_test(test_other_maps),
        cmocka_unit_test(test_reduce_encode_to_another_map),
    };
    return cmocka_run_group_tests_name("exempt", tests, NULL, NULL);
}
