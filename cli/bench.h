/* bench.h - the parts of pith bench: data, one measured case, the list of cases.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_BENCH_H
#define PITH_CLI_BENCH_H

#include "options.h"

/* Buffers of every case, each of `bytes`, with distinct pages. */
struct bench_data {
    size_t bytes;   /* bytes of each buffer; out of cache unless quick */
    uint64_t count; /* f32 values in a buffer */
    float *sample;  /* the values every case starts from */
    uint64_t sampled;
    void *value, *start, *sender, *receiver, *out, *frame;
    size_t frame_capacity;
    int repetitions;
};

/* Opens the data: with path NULL values like weights, N(0, 0.02), else the float tensors of the
 * file, repeated as often as needed. Says what is wrong and returns an exit code. */
int bench_data_open(struct bench_data *d, const char *path, bool quick);
void bench_data_close(struct bench_data *d);
/* Fills value with count values of the dtype, and start with the same values and a little noise, in
 * the base dtype (unless that is PITH_NONE). */
void bench_data_fill(struct bench_data *d, uint64_t count, uint32_t dtype, uint32_t base_dtype);
bool bench_reserve_frame(struct bench_data *d, uint64_t bytes);

struct bench_case {
    const char *spec;
    uint32_t dtype, base_dtype;
    uint32_t divide; /* divides the data's count: slow codecs take less */
};

struct bench_result {
    pith_codec_info codec;
    char spec[PITH_SPEC_MAX];
    uint32_t dtype, base_dtype;
    uint64_t raw_bytes, bytes;
    int repetitions;
    double encode, decode, encode_move, decode_move, read, fill, copy; /* seconds */
};

/* Returns false when the setting is good but cannot be had with this base. */
bool bench_takes(const struct bench_case *which, const struct bench_data *data);
/* Returns an exit code. Of a round trip that fails it says so and returns EXIT_FAILED. */
int bench_measure(const struct bench_case *which, struct bench_data *data, const pith_env *env,
                  struct bench_result *out);

#endif
