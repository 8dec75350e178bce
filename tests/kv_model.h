/* kv_model.h - what a cache of tokens holds, by one-shot calls alone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tokens in plain arrays: as they came, and as the frame decodes in which they were finished. */
#ifndef PITH_TESTS_KV_MODEL_H
#define PITH_TESTS_KV_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_setting {
    const char *spec;
    uint32_t dtype, heads, dim, page, window;
    bool channel;
};

struct kv_model {
    struct kv_setting set;
    uint64_t capacity, tokens, finished;
    uint8_t *exact;
    uint8_t *decoded[3]; /* to f32, bf16, f16 */
};

void kv_model_open(struct kv_model *m, const struct kv_setting *set, uint64_t capacity);
void kv_model_close(struct kv_model *m);
/* Makes a model with the same tokens, in arrays of its own. */
void kv_model_copy(struct kv_model *to, const struct kv_model *from);
/* Append dense rows. False when a one-shot call fails. */
bool kv_model_append(struct kv_model *m, const void *rows, uint64_t count);
void kv_model_truncate(struct kv_model *m, uint64_t tokens);
/* One element as it is read: f32, bf16 or f16. */
void kv_model_get(const struct kv_model *m, uint64_t token, uint32_t head, uint32_t d,
                  uint32_t dtype, void *to);
/* Bytes of a token's row, in the layout's dtype. */
size_t kv_model_row(const struct kv_model *m);

#endif
