/* test_eb.c - blocks of codec eb without zstd: what they are made of, and what that costs.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "bytes/entropy.h"
#include "codec.h"
#include "cpu.h"
#include "families.h"
#include "gen.h"
#include "predict/bound_value.h"
#include "spec.h"
#include "tile.h"
#include "util.h"

static const uint32_t dtypes[4] = {PITH_F32, PITH_BF16, PITH_F16, PITH_F64};

/* Kinds of values, so that blocks are coded by each of the methods. */
enum field { SMOOTH, WAVES, LOOKED_UP, MOSTLY_ZERO, NORMAL, FIELDS };
enum { N1 = 24, N2 = 28, N3 = 64, COUNT = N1 * N2 * N3 };

static double value_of(enum field field, size_t i, uint64_t *seed) {
    const double x = (double)(i % N3), y = (double)(i / N3 % N2), z = (double)(i / N3 / N2);
    const double noise = gen_normal(seed);
    uint64_t row = i / N3 * 7919 % 5 + 1; /* of five rows */
    switch (field) {
    case SMOOTH: return sin(0.05 * x + 0.03 * y) + cos(0.04 * z);
    case WAVES: return sin(0.9 * x + 1.1 * y - 1.3 * z) + sin(1.2 * x - 0.7 * y + z);
    case LOOKED_UP: return sin((double)row * (x + 1) * 12.9898);
    case MOSTLY_ZERO: return i % 97 ? 0 : noise;
    default: return i % 4999 == 17 ? (double)NAN : noise;
    }
}

static void *make_field(enum field field, uint32_t dtype) {
    uint8_t *const values = allocate(COUNT * pith_dtype_bytes(dtype));
    uint64_t seed = 11;
    for (size_t i = 0; i < COUNT; i++) {
        const double x = value_of(field, i, &seed);
        if (dtype == PITH_F64)
            memcpy(values + i * sizeof x, &x, sizeof x);
        else
            store_float(values, dtype, i, bits_of((float)x));
    }
    return values;
}

/* ---- Blocks by hand --------------------------------------------------------------------------*/

static void *aligned(size_t bytes) {
    void *const memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    CHECK(memory);
    return memset(memory, 0xA5, bytes);
}

/* One block of N1 x N2 x N3 elements, and what coding it takes. */
struct one_block {
    struct pithi_params params;
    struct pithi_kernels kernels;
    struct pithi_tile tile;
    union pithi_frame_own said;
    struct pithi_block block;
};

static void block_open(struct one_block *o, const char *spec, uint32_t dtype) {
    const uint32_t extent[PITHI_TILE_NDIM] = {1, N1, N2, N3};
    *o = (struct one_block){.tile.count = COUNT, .said.bound = pithi_bound_absolute(dtype, 0.01)};
    CHECK_OK(pithi_spec_parse(spec, &o->params, NULL));
    o->params.dtype = dtype;
    o->params.most = COUNT;
    memcpy(o->params.extent, extent, sizeof extent);
    memcpy(o->tile.extent, extent, sizeof extent);
    pithi_kernels_bind(&o->kernels, pithi_cpu_select(test_env().cpu_mask));
    const size_t bytes = o->params.codec->coder_bytes(&o->params);
    o->block = (struct pithi_block){.params = &o->params,
                                    .kernels = &o->kernels,
                                    .count = COUNT,
                                    .out_dtype = dtype,
                                    .bytes = aligned(COUNT * pith_dtype_bytes(dtype)),
                                    .scratch = aligned(o->params.codec->scratch_bytes(&o->params)),
                                    .coder = pithi_entropy_open(aligned(bytes), bytes),
                                    .tiled.tile = &o->tile,
                                    .said = &o->said};
}

static void block_close(struct one_block *o) {
    free(o->block.bytes);
    free(o->block.scratch);
    free(o->block.coder);
}

/* Whether a reader without zstd decodes the block to what a reader with it makes of it. */
static bool decodes_without_zstd(struct one_block *o, size_t raw) {
    const size_t bytes = pithi_entropy_bytes(COUNT, PITHI_EFFORT_RANS);
    struct pithi_block reader = o->block;
    uint8_t *const with = allocate(raw), *const without = allocate(raw);
    o->block.out = with;
    CHECK_OK(o->params.codec->decode(&o->block));
    reader.out = without;
    reader.coder = pithi_entropy_open(aligned(bytes), bytes);
    const bool good = o->params.codec->decode(&reader) == PITH_OK;
    if (good) CHECK(memcmp(with, without, raw) == 0);
    free(reader.coder);
    free(with);
    free(without);
    return good;
}

/* Blocks of either mode and of every method, some of which have strings of zstd otherwise. */
static void no_block_has_a_string_of_zstd(void **state) {
    (void)state;
    static const char *const specs[] = {"eb:mode=ratio,abs=0.01", "eb:mode=auto,abs=0.01",
                                        "eb:mode=ratio,abs=0.01,entropy=rans",
                                        "eb:mode=auto,abs=0.01,entropy=rans"};
    unsigned methods = 0, with_zstd = 0;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++)
        for (size_t d = 0; d < 4; d++)
            for (enum field field = 0; field < FIELDS; field++) {
                struct one_block o;
                void *const values = make_field(field, dtypes[d]);
                context("%s, %s, field %d", specs[s], pith_dtype_name(dtypes[d]), (int)field);
                block_open(&o, specs[s], dtypes[d]);
                o.block.value = values;
                CHECK_OK(o.params.codec->encode(&o.block));
                CHECK(!o.block.plain);
                if (s >= 2) methods |= 1u << o.block.bytes[0];
                const bool without = decodes_without_zstd(&o, COUNT * pith_dtype_bytes(dtypes[d]));
                if (s < 2)
                    with_zstd += !without;
                else
                    CHECK(without);
                block_close(&o);
                free(values);
            }
    context("methods %x, %u blocks with zstd", methods, with_zstd);
    CHECK(methods == 0x1C && with_zstd > 4);
}

/* ---- Frames ----------------------------------------------------------------------------------*/

/* Plans of either setting read frames of both, and of another mode. */
static void every_plan_reads_every_frame(void **state) {
    (void)state;
    enum { SPECS = 4 };
    static const char *const specs[SPECS] = {
        "eb:mode=ratio,abs=0.01,block=4096", "eb:mode=ratio,abs=0.01,entropy=rans,block=4096",
        "eb:mode=auto,abs=0.01,entropy=rans,block=4096", "eb:abs=0.01,block=4096"};
    void *const values = make_field(LOOKED_UP, PITH_F32);
    float *const back = allocate(COUNT * sizeof *back);
    const pith_view v = pith_view_flat(values, PITH_F32, COUNT);
    const pith_view to = pith_view_flat(back, PITH_F32, COUNT);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct stream s[SPECS];
    struct frame f[SPECS];
    for (size_t i = 0; i < SPECS; i++) {
        stream_open(&s[i], specs[i], &layout, NULL);
        f[i] = stream_encode(&s[i], &v, 0, false);
    }
    for (size_t i = 0; i < SPECS * SPECS; i++) {
        const struct frame *const frame = &f[i / SPECS];
        struct stream *const reader = &s[i % SPECS];
        context("%s reads %s", specs[i % SPECS], specs[i / SPECS]);
        CHECK_OK(decode_one(reader->work, reader->stream, 0, frame->bytes, frame->length, &to, 0));
        for (size_t k = 0; k < COUNT; k++)
            CHECK(within_bound((double)float_of(load_float(values, PITH_F32, k)), (double)back[k],
                               0.01));
    }
    for (size_t i = 0; i < SPECS; i++) {
        free(f[i].bytes);
        stream_close(&s[i]);
    }
    free(values);
    free(back);
}

static struct frame frame_of(const char *spec, const pith_view *v, const pith_env *env) {
    const pith_layout layout = {.size = sizeof layout};
    const size_t capacity = COUNT * sizeof(double) + 4096;
    struct frame f = {allocate(capacity), 0};
    CHECK_OK(pith_compress(spec, v, NULL, &layout, env, f.bytes, capacity, &f.length, NULL));
    return f;
}

/* In blocks and in one, from scalar C and from several threads; and hardly longer, but where rows
 * repeat, which is what zstd is for. */
static void one_frame_everywhere(void **state) {
    (void)state;
    static const char *const specs[] = {"eb:mode=ratio,abs=0.01,block=4096",
                                        "eb:mode=auto,pwrel=0.02,block=16384",
                                        "eb:mode=ratio,rel=0.001,block=whole"};
    const pith_env scalar = {.size = sizeof scalar, .cpu_mask = 0x40000000};
    pith_env threads = test_env();
    threads.threads = 3;
    for (enum field field = 0; field < FIELDS; field++) {
        void *const values = make_field(field, PITH_F32);
        const uint64_t shape[3] = {N1, N2, N3};
        const pith_view v = pith_view_dense(values, PITH_F32, 3, shape);
        for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
            char spec[80];
            snprintf(spec, sizeof spec, "%s,entropy=rans", specs[s]);
            struct frame was = frame_of(specs[s], &v, &scalar), f = frame_of(spec, &v, &scalar);
            struct frame again = frame_of(spec, &v, &threads);
            context("%s, field %d: %zu bytes, %zu with zstd", spec, (int)field, f.length,
                    was.length);
            CHECK(again.length == f.length && memcmp(again.bytes, f.bytes, f.length) == 0);
            if (field == NORMAL) CHECK(f.length <= was.length + was.length / 100);
            free(was.bytes);
            free(again.bytes);
            free(f.bytes);
        }
        free(values);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_block_has_a_string_of_zstd),
        cmocka_unit_test(every_plan_reads_every_frame),
        cmocka_unit_test(one_frame_everywhere),
    };
    return cmocka_run_group_tests_name("eb", tests, NULL, NULL);
}
