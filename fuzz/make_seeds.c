/* make_seeds.c - writes the hand-made part of the corpus: make_seeds FOLDER.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pith/pith.h"

static const char *root;

static void seed(const char *target, unsigned number, const void *bytes, size_t length) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/seed-%02u", root, target, number);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* ---- Frames ----------------------------------------------------------------------------------*/

static const struct {
    const char *spec;
    uint32_t dtype, base_dtype, ndim, flags;
    uint64_t shape[PITH_MAX_NDIM];
} frames[] = {
    {"raw", PITH_F32, 0, 1, 0, {9}},
    {"raw:block=16", PITH_U8, 0, 2, PITH_LAYOUT_CHECKSUMS, {5, 11}},
    {"raw", PITH_F64, 0, 0, 0, {0}},
    {"raw", PITH_BOOL, 0, 6, 0, {1, 2, 1, 3, 1, 2}},
    {"lossless", PITH_BF16, 0, 2, PITH_LAYOUT_CHECKSUMS, {20, 20}},
    {"lossless:block=64", PITH_F32, 0, 1, 0, {150}},
    {"lossless", PITH_I64, 0, 1, 0, {40}},
    {"lossless", PITH_U8, 0, 1, 0, {0}},
    {"lossless:block=128", PITH_BF16, PITH_BF16, 1, 0, {300}},
    {"lossless", PITH_F32, PITH_F32, 1, PITH_LAYOUT_CHECKSUMS, {100}},
    {"lossless", PITH_F16, PITH_F16, 1, 0, {200}},
    {"wdiff:group=16", PITH_F32, PITH_BF16, 1, 0, {100}},
    {"wdiff:bits=2,group=32", PITH_F32, PITH_F32, 2, PITH_LAYOUT_CHECKSUMS, {10, 13}},
    {"wdiff:bits=3,scale_dtype=bf16", PITH_F16, PITH_F16, 1, 0, {77}},
    {"wdiff:bits=6,group=16,block=16", PITH_BF16, PITH_NONE, 1, 0, {50}},
    {"wdiff:bits=8,base_hash=off", PITH_F32, PITH_BF16, 1, 0, {70}},
    {"wdiff:entropy=zstd,group=64,block=256", PITH_F32, PITH_F32, 1, 0, {600}},
    {"wdiff:bits=3,entropy=zstd,round=stochastic", PITH_F32, PITH_NONE, 1, 0, {400}},
    {"wdiff", PITH_F32, PITH_F32, 1, 0, {0}},
    {"grad", PITH_F32, 0, 1, 0, {300}},
    {"grad:preset=intra,group=32,block=64", PITH_BF16, 0, 2, 0, {10, 13}},
    {"grad:bits=2,rotate=0,group=32", PITH_F16, 0, 1, PITH_LAYOUT_CHECKSUMS, {100}},
    {"grad:bits=3,scale_dtype=e8m0,sign_seed=9,rotate=64", PITH_F32, 0, 1, 0, {191}},
    {"grad:bits=5,scale_dtype=bf16,search=mse,rotate=256,group=256", PITH_F32, 0, 1, 0, {255}},
    {"grad:bits=6,round=antithetic,group=32,block=32", PITH_F32, 0, 1, 0, {77}},
    {"grad", PITH_BF16, 0, 1, PITH_LAYOUT_CHECKSUMS, {0}},
    {"eb:abs=0.01", PITH_F32, 0, 3, 0, {5, 9, 7}},
    {"eb:abs=1e-4,block=64", PITH_BF16, 0, 2, PITH_LAYOUT_CHECKSUMS, {11, 13}},
    {"eb:pwrel=0.05,zeros=signed", PITH_F16, 0, 1, 0, {90}},
    {"eb:psnr=40", PITH_F64, 0, 1, 0, {120}},
    {"eb:mode=ratio,abs=0.05", PITH_F32, 0, 3, 0, {8, 6, 10}},
    {"eb:mode=ratio,pwrel=0.1", PITH_F32, 0, 2, 0, {30, 20}},
    {"eb:mode=auto,rel=0.02,block=256", PITH_F32, 0, 2, PITH_LAYOUT_CHECKSUMS, {25, 40}},
    {"eb", PITH_F32, 0, 2, 0, {3, 0}},
    {"embed:dim=8,rel=0.1", PITH_F32, 0, 1, 0, {800}},
    {"embed:mode=fast,abs=0.03,block=64", PITH_BF16, 0, 3, 0, {2, 10, 5}},
    {"embed:rel=0.3,zeros=signed", PITH_F64, 0, 2, PITH_LAYOUT_CHECKSUMS, {40, 4}},
    {"act:abs=0.1", PITH_F32, 0, 4, 0, {2, 3, 8, 9}},
    {"act:mode=ratio,abs=0.1,block=128", PITH_F32, 0, 2, PITH_LAYOUT_CHECKSUMS, {16, 50}},
    {"act:pwrel=0.2", PITH_F16, 0, 1, 0, {100}},
    {"topk:density=0.1,block=64", PITH_F32, 0, 1, 0, {150}},
    {"topk:k=9,values=f16,index=fast,block=128", PITH_BF16, 0, 1, PITH_LAYOUT_CHECKSUMS, {300}},
    {"topk:density=0.3,values=int8", PITH_F32, 0, 2, 0, {20, 20}},
    {"topk:density=0.02,values=none", PITH_F16, 0, 1, 0, {500}},
    {"topk:density=1,values=bf16,block=64", PITH_F32, 0, 1, 0, {70}},
    {"wdiff:entropy=rans,group=256", PITH_F32, PITH_BF16, 1, 0, {500}},
};

static const struct {
    const char *spec;
    uint32_t dtype, flags;
    uint64_t count;
    pith_exempt range[2];
} exempt[] = {
    {"grad:group=32,block=32", PITH_F32, 0, 40, {{1, 3, 2}, {38, 2, 1}}},
    {"grad:group=64,sign_seed=1", PITH_F32, PITH_LAYOUT_CHECKSUMS, 81, {{0, 9, 1}, {80, 1, 2}}},
    {"grad:group=32", PITH_F16, PITH_LAYOUT_CHECKSUMS, 64, {{0, 63, 1}, {63, 1, 2}}},
    {"grad:group=32,scale_dtype=e8m0,bits=2", PITH_BF16, 0, 120, {{5, 30, 2}, {60, 40, 1}}},
};

static void must(pith_status status) {
    if (status == PITH_OK) return;
    fprintf(stderr, "%s\n", pith_status_name(status));
    exit(1);
}

/* The targets that decode read parameters behind the frame; frame has space for them. */
static void frame_seed(unsigned number, uint8_t *frame, size_t length) {
    memset(frame + length, 0, 24);
    seed("inspect", number, frame, length);
    seed("decode", number, frame, length + 24);
    seed("refdec", number, frame, length + 24);
}

static void compressed(unsigned number, const char *spec, const pith_view *value,
                       const pith_view *base, const pith_layout *layout) {
    static uint8_t frame[1 << 16];
    size_t length;
    pith_error error = {.size = sizeof error};
    const pith_status status =
        pith_compress(spec, value, base, layout, NULL, frame, sizeof frame - 24, &length, &error);
    if (status != PITH_OK) {
        fprintf(stderr, "%s: %s: %s\n", spec, pith_status_name(status), error.text);
        exit(1);
    }
    frame_seed(number, frame, length);
}

static void frame_seeds(void) {
    static float value[1024], base[1024];
    for (unsigned i = 0; i < 1024; i++) value[i] = (float)((i * 2654435761u) >> 24) * 0.001f;
    for (unsigned i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        const pith_layout layout = {.size = sizeof layout, .flags = frames[i].flags};
        const pith_view v =
            pith_view_dense(value, frames[i].dtype, frames[i].ndim, frames[i].shape);
        const pith_view b =
            pith_view_dense(base, frames[i].base_dtype, frames[i].ndim, frames[i].shape);
        compressed(i, frames[i].spec, &v, frames[i].base_dtype ? &b : NULL, &layout);
    }
    for (unsigned i = 0; i < sizeof exempt / sizeof exempt[0]; i++) {
        const pith_layout layout = {.size = sizeof layout,
                                    .flags = exempt[i].flags,
                                    .exempt = exempt[i].range,
                                    .exempt_count = 2};
        const pith_view v = pith_view_flat(value, exempt[i].dtype, exempt[i].count);
        compressed(50 + i, exempt[i].spec, &v, NULL, &layout);
    }
}

/* Frames of entropy coding, of trellises and of pages, of a field with noise that is mostly 0 or
 * rises along its rows. */
static void coded_seeds(void) {
    enum { ROWS = 24, COLUMNS = 64 };
    static const struct {
        const char *spec;
        uint32_t dtype, zeros;
    } settings[] = {
        {"lossless", PITH_F32, 0},
        {"lossless:entropy=rans", PITH_BF16, 0},
        {"lossless:revision=2,block=512", PITH_F64, 1},
        {"eb:mode=auto,abs=0.02,entropy=rans", PITH_F32, 0},
        {"eb:mode=auto,abs=0.003", PITH_F16, 0},
        {"act:mode=ratio,abs=0.02,entropy=rans", PITH_F32, 1},
        {"act:mode=ratio,abs=0.02,block=256", PITH_BF16, 1},
        {"embed:abs=0.05,entropy=rans", PITH_F32, 1},
        {"wdiff:bits=3,group=64,codebook=trellis,entropy=rans", PITH_F32, 0},
        {"grad:bits=2,group=256,codebook=trellis,sign_seed=3", PITH_BF16, 0},
        {"kv:group=16,page=16", PITH_F32, 0},
        {"kv:axis=channel,group=16,page=16,bits=3,codebook=trellis", PITH_F16, 0},
        {"kv:preset=trellis2,page=16", PITH_F32, 0},
        {"kv:bits=4,group=32,codebook=lloyd,outliers=0.05", PITH_BF16, 0},
        {"kv:bits=2,group=32,codebook=trellis,outliers=0.05,entropy=rans", PITH_F32, 1},
        {"kv:axis=channel,bits=5,group=16,entropy=rans", PITH_F32, 1},
        {"kv:symmetric=on,bits=8,group=32,entropy=zstd", PITH_F32, 1},
    };
    static const uint64_t shape[2] = {ROWS, COLUMNS};
    static double values[ROWS * COLUMNS];
    for (unsigned k = 0; k < sizeof settings / sizeof settings[0]; k++) {
        for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
            const uint32_t noise = (i + 1) * 2654435761u >> 22, row = i / COLUMNS;
            const float x = settings[k].zeros && noise % 3
                                ? 0
                                : (float)(i % COLUMNS) * 0.01f + (float)row + (float)noise * 1e-4f;
            const double wide = x;
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            const uint16_t half =
                (uint16_t)(settings[k].dtype == PITH_F16 ? 0x3C00u + noise % 64 : bits >> 16);
            if (settings[k].dtype == PITH_F64)
                memcpy((uint8_t *)values + 8 * (size_t)i, &wide, 8);
            else if (settings[k].dtype == PITH_F32)
                memcpy((uint8_t *)values + 4 * (size_t)i, &x, 4);
            else
                memcpy((uint8_t *)values + 2 * (size_t)i, &half, 2);
        }
        const pith_view view = pith_view_dense(values, settings[k].dtype, 2, shape);
        compressed(100 + k, settings[k].spec, &view, NULL, NULL);
    }
}

/* Frames of topk, and parameters by which fuzz_gpu holds, sends and damages their sets. */
static void set_seeds(void) {
    static const struct {
        const char *spec;
        uint32_t dtype;
        uint64_t count;
    } sets[] = {{"topk:density=0.1,block=64", PITH_F32, 601},
                {"topk:k=9,values=f16,index=fast,block=128", PITH_BF16, 300},
                {"topk:density=0.3,values=int8,control=exact", PITH_F32, 333},
                {"topk:density=0.02,values=none", PITH_F16, 500},
                {"topk:k=1,block=64", PITH_F32, 1},
                {"topk:k=1,block=64", PITH_F32, 0}};
    static float value[1024];
    static uint8_t frame[1 << 12];
    for (unsigned i = 0; i < 1024; i++) value[i] = (float)((i * 2654435761u) >> 24) * 0.001f;
    for (unsigned i = 0; i < 24; i++) {
        const unsigned k = i % (sizeof sets / sizeof sets[0]);
        const pith_view view = pith_view_flat(value, sets[k].dtype, sets[k].count);
        size_t length;
        must(pith_compress(sets[k].spec, &view, NULL, NULL, NULL, frame, sizeof frame - 24, &length,
                           NULL));
        for (unsigned p = 0; p < 24; p++)
            frame[length + p] = (uint8_t)((24 * i + p + 1) * 2654435761u >> 22);
        seed("decode", 70 + i, frame, length + 24);
    }
}

/* ---- Streams ---------------------------------------------------------------------------------*/

static void *memory_of(uint64_t bytes) {
    void *const memory = malloc((size_t)bytes);
    if (!memory) exit(1);
    return memory;
}

/* One frame of a new stream, and the stream as it is saved behind it. The frame has space for the
 * parameters. */
static size_t stream_seed(unsigned number, const char *spec, const pith_layout *layout,
                          const pith_view *view, uint32_t flags, uint8_t *frame, size_t capacity) {
    const pith_plan *plan;
    pith_work *work;
    pith_stream *stream;
    pith_sizes sizes = {.size = sizeof sizes};
    size_t length;
    must(pith_plan_create(&plan, spec, layout, NULL, NULL));
    must(pith_plan_sizes(plan, &sizes));
    const uint64_t bytes = pith_work_bytes(&plan, 1, 1);
    void *const scratch = memory_of(bytes), *const memory = memory_of(sizes.stream_bytes);
    void *const saved = memory_of(sizes.save_bytes);
    must(pith_work_init(scratch, (size_t)bytes, NULL, &work, NULL));
    must(pith_stream_init(plan, memory, (size_t)sizes.stream_bytes, NULL, &stream, NULL));
    pith_item item = {.size = sizeof item,
                      .stream = stream,
                      .view = *view,
                      .frame = frame,
                      .capacity = capacity - 24};
    must(pith_encode(work, &item, 1, flags));
    must(pith_stream_save(work, stream, saved, (size_t)sizes.save_bytes, &length));
    seed("stream", number, saved, length);
    free(saved);
    free(memory);
    free(scratch);
    pith_plan_destroy(plan);
    return item.length;
}

/* Key frames come from streams only. */
static void key_seeds(void) {
    static const char *const specs[] = {"wdiff:group=16", "wdiff", "lossless:block=16"};
    static float value[40];
    uint8_t frame[1024];
    for (unsigned i = 0; i < 40; i++) value[i] = (float)i * 0.25f - 3;
    for (unsigned i = 0; i < 3; i++) {
        const pith_layout layout = {.size = sizeof layout,
                                    .dtype = PITH_F32,
                                    .ndim = 1,
                                    .base_dtype = i ? PITH_F32 : PITH_F16,
                                    .shape = {40}};
        const pith_view view = pith_view_flat(value, PITH_F32, 40);
        const size_t length =
            stream_seed(60 + i, specs[i], &layout, &view, PITH_KEY_FRAME, frame, sizeof frame);
        frame_seed(60 + i, frame, length);
    }
}

/* A residual, saved. */
static void residual_seeds(void) {
    static const char *const specs[] = {"grad:ef=full,group=32", "grad:ef=ema:0.75,bits=2", "grad",
                                        "topk:k=5,control=oktopk,ef=full"};
    static float value[40];
    uint8_t frame[1024];
    for (unsigned i = 0; i < 40; i++) value[i] = (float)(i * i % 23) * 0.3f - 3;
    for (unsigned i = 0; i < sizeof specs / sizeof *specs; i++) {
        const pith_layout layout = {
            .size = sizeof layout, .dtype = PITH_F32, .ndim = 1, .shape = {40}, .slots = 1 + i};
        const pith_view view = pith_view_flat(value, PITH_F32, 40);
        (void)stream_seed(70 + i, specs[i], &layout, &view, 0, frame, sizeof frame);
    }
}

/* ---- Everything else -------------------------------------------------------------------------*/

static void random_seeds(void) {
    static const char *const targets[] = {"roundtrip", "backends", "stream", "cache"};
    uint8_t bytes[400];
    uint32_t state = 1;
    for (unsigned t = 0; t < 4; t++)
        for (unsigned i = 0; i < 32; i++) {
            for (size_t k = 0; k < sizeof bytes; k++) {
                state = state * 1664525u + 1013904223u;
                bytes[k] = (uint8_t)(state >> 24);
            }
            seed(targets[t], i, bytes, 150 + state % 250);
        }
}

static void spec_seeds(void) {
    static const char *const specs[] = {
        "raw",
        "raw:block=4096",
        "lossless",
        "lossless:effort=19,block=65536",
        "wdiff",
        "wdiff:bits=3,group=128,round=stochastic,scale_dtype=bf16",
        "wdiff:entropy=zstd,base_hash=off",
        "wdiff:key_every=16,bits=8",
        "wdiff:bits=5",
        "wdiff:bits=4,bits=4",
        "wdiff:",
        "wdiff:bits",
        "eb:abs=1e-3",
        "wdiff:group=24",
        "wdiff:bits=4,",
        "wdiff:group=16384,block=16",
        "",
        "raw:block=99999999999999999999",
        "grad",
        "grad:preset=intra",
        "grad:preset=intra,bits=2",
        "grad:bits=5,group=4096,rotate=256,sign_seed=4294967295",
        "grad:sign_seed=4294967296",
        "grad:ef=full,search=mse,scale_dtype=e8m0",
        "grad:ef=ema:0.9",
        "grad:ef=ema:0.999,round=antithetic",
        "grad:ef=ema:0.0",
        "grad:ef=ema:1.0",
        "grad:ef=ema:0.1234",
        "grad:ef=ema:",
        "grad:rotate=16",
        "grad:rotate=64,group=32",
        "grad:sign_seed=1,rotate=0",
        "grad:search=mse,round=stochastic",
        "eb:rel=0.0001,range=2.5e3,block=whole",
        "eb:mode=auto,psnr=60,zeros=signed,effort=19",
        "eb:nmse=1e-300,block=16",
        "eb:abs=1,rel=1",
        "eb:abs=1e-301",
        "eb:pwrel=1",
        "embed:dim=64,decay=stairs,start=3,steps=1000",
        "embed:start=0.5",
        "act:mode=ratio,pwrel=9.99999e-1",
        "topk:density=1e-3,values=f16,control=micro,cap=4",
        "topk:k=100,control=every,every=7,ef=full,clear=call,momentum=0.9",
        "topk:density=0.5,k=3",
        "topk:density=1.5",
    };
    for (unsigned i = 0; i < sizeof specs / sizeof specs[0]; i++)
        seed("spec", i, specs[i], strlen(specs[i]) + 1);
}

static void npy_seeds(void) {
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
        "{'descr': '>f8', 'fortran_order': True, 'shape': (2, 0, 7), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }",
        "{'descr': '<V2', 'fortran_order': False, 'shape': (), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': [('a', '<i4'), ('b', '<f8')], 'fortran_order': False, 'shape': (2,), }",
        "{'shape': (4294967296, 4294967296), 'descr': '<c8', 'fortran_order': False}",
        "{'descr': '<U16', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }",
    };
    for (unsigned i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        uint8_t file[256] = "\x93NUMPY\1";
        const size_t head = i % 2 ? 12 : 10, text = strlen(headers[i]);
        const size_t whole = (head + text + 64) & ~(size_t)63;
        file[6] = (uint8_t)(i % 2 ? 2 + i % 4 / 3 : 1);
        file[8] = (uint8_t)(whole - head);
        memset(file + head, ' ', whole - head);
        memcpy(file + head, headers[i], text);
        file[whole - 1] = '\n';
        seed("npy", i, file, whole);
    }
}

static void safetensors_seeds(void) {
    static const struct {
        const char *text;
        size_t data;
    } files[] = {
        {"{}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24},
        {"{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"BF16\",\"shape\":[],"
         "\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
         2},
        {"{\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[1,9]},"
         "\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         9},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0},
        {"{\"a\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{}}  ", 1},
    };
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        uint8_t file[512] = {0};
        const size_t text = strlen(files[i].text);
        file[0] = (uint8_t)text;
        memcpy(file + 8, files[i].text, text);
        seed("safetensors", i, file, 8 + text + files[i].data);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: make_seeds FOLDER\n", stderr);
        return 2;
    }
    root = argv[1];
    frame_seeds();
    coded_seeds();
    set_seeds();
    key_seeds();
    residual_seeds();
    random_seeds();
    spec_seeds();
    npy_seeds();
    safetensors_seeds();
    return 0;
}
