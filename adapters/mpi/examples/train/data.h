/* data.h - the text that the example learns: characters, training batches, validation windows.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "model.h"

struct data {
    uint8_t *train, *valid; /* characters as numbers below VOCAB */
    size_t train_count, valid_count;
};

/* 0, or -1 with a message on stderr. */
int data_load(struct data *data, const char *path);
void data_free(struct data *data);

/* Windows of the training text at places that depend on (seed, step, rank) only. */
void data_batch(const struct data *data, uint64_t seed, uint64_t step, uint64_t rank,
                struct batch *batch);

/* Batches that cover the validation text once, and number `index` of them. */
size_t data_valid_batches(const struct data *data);
void data_valid_batch(const struct data *data, size_t index, struct batch *batch);

#endif
