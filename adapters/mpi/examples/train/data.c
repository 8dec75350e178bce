/* data.c - reads the text, splits it into training and validation, cuts it into windows.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

/* Every 20th piece of the text is kept for validation, so that both parts come from all books. */
enum { PIECE = 4096, VALID_EVERY = 20 };

static uint8_t *read_file(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    uint8_t *text = NULL;
    long size = -1;
    if (fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    if (size > 0 && fseek(file, 0, SEEK_SET) == 0) text = malloc((size_t)size);
    if (text && fread(text, 1, (size_t)size, file) != (size_t)size) {
        free(text);
        text = NULL;
    }
    fclose(file);
    *count = text ? (size_t)size : 0;
    return text;
}

/* Replace every character by its number among those that occur. */
static int number_characters(uint8_t *text, size_t count) {
    uint8_t number[256] = {0};
    int used = 0;
    for (size_t i = 0; i < count; i++) number[text[i]] = 1;
    for (int c = 0; c < 256; c++)
        if (number[c]) number[c] = (uint8_t)used++;
    for (size_t i = 0; i < count; i++) text[i] = number[text[i]];
    return used <= VOCAB ? 0 : -1;
}

static void split(struct data *data, const uint8_t *text, size_t count) {
    for (size_t first = 0; first < count; first += PIECE) {
        const size_t n = count - first < PIECE ? count - first : PIECE;
        if (first / PIECE % VALID_EVERY == VALID_EVERY - 1) {
            memcpy(data->valid + data->valid_count, text + first, n);
            data->valid_count += n;
        } else {
            memcpy(data->train + data->train_count, text + first, n);
            data->train_count += n;
        }
    }
}

int data_load(struct data *data, const char *path) {
    memset(data, 0, sizeof *data);
    size_t count;
    uint8_t *text = read_file(path, &count);
    if (!text || number_characters(text, count)) {
        fprintf(stderr, "train: %s: cannot be read, or has over %d characters\n", path, VOCAB);
        free(text);
        return -1;
    }
    data->train = malloc(count);
    data->valid = malloc(count);
    if (data->train && data->valid) split(data, text, count);
    free(text);
    if (data->train_count > CONTEXT + 1 && data_valid_batches(data) > 0) return 0;
    fprintf(stderr, "train: %s: too short, or no memory\n", path);
    data_free(data);
    return -1;
}

void data_free(struct data *data) {
    free(data->train);
    free(data->valid);
    memset(data, 0, sizeof *data);
}

static void set_window(struct batch *batch, size_t index, const uint8_t *text) {
    memcpy(batch->input[index], text, CONTEXT);
    memcpy(batch->target[index], text + 1, CONTEXT);
}

void data_batch(const struct data *data, uint64_t seed, uint64_t step, uint64_t rank,
                struct batch *batch) {
    uint64_t state = seed;
    state = random_next(&state) ^ step;
    state = random_next(&state) ^ rank;
    for (size_t i = 0; i < WINDOWS; i++) {
        const size_t first = (size_t)(random_next(&state) % (data->train_count - CONTEXT - 1));
        set_window(batch, i, data->train + first);
    }
}

size_t data_valid_batches(const struct data *data) {
    return data->valid_count < 2 ? 0 : (data->valid_count - 1) / (WINDOWS * CONTEXT);
}

void data_valid_batch(const struct data *data, size_t index, struct batch *batch) {
    for (size_t i = 0; i < WINDOWS; i++)
        set_window(batch, i, data->valid + (index * WINDOWS + i) * CONTEXT);
}
