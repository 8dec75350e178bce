/* bench.h - the parts of pith bench: data, one measured case, the list of cases.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_BENCH_H
#define PITH_CLI_BENCH_H

#include "options.h"

/* Buffers of every case, each of `bytes`, with distinct pages. */
struct bench_data {
    size_t bytes;   /* of f32 values; out of cache unless quick */
    uint64_t count; /* f32 values */
    float *sample;  /* the values every case starts from */
    uint64_t sampled;
    void *value, *start, *sender, *receiver, *out, *frame;
    size_t frame_capacity;
    int repetitions;
};

/* path NULL: values like weights, N(0, 0.02). Else the float tensors of the file, repeated as
 * often as needed. Says what is wrong and returns an exit code. */
int bench_data_open(struct bench_data *d, const char *path, bool quick);
void bench_data_close(struct bench_data *d);
/* value := count values of the dtype; start := the same with a little noise, in the base dtype
 * (unless that is PITH_NONE). */
void bench_data_fill(struct bench_data *d, uint64_t count, uint32_t dtype, uint32_t base_dtype);
bool bench_reserve_frame(struct bench_data *d, uint64_t bytes);

struct bench_case {
    const char *spec;
    uint32_t dtype, base_dtype;
    uint32_t divide; /* of the data's count: slow codecs take a part */
};

struct bench_result {
    pith_codec_info codec;
    char spec[PITH_SPEC_MAX];
    uint32_t dtype, base_dtype;
    uint64_t raw_bytes, bytes;
    int repetitions;
    double encode, decode, encode_move, decode_move, read, fill, copy; /* seconds */
};

/* False when the setting is good but cannot be had with this base. */
bool bench_takes(const struct bench_case *which, const struct bench_data *data);
/* Returns an exit code; a round trip that fails is said and EXIT_FAILED. */
int bench_measure(const struct bench_case *which, struct bench_data *data, const pith_env *env,
                  struct bench_result *out);

#endif
