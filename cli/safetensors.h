/* safetensors.h - reads the header of a .safetensors file from memory and checks its rules.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_SAFETENSORS_H
#define PITH_CLI_SAFETENSORS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The format's own limit on the length of the JSON text, the bytes of its length prefix, and the
 * most dimensions taken (as many as NumPy has). */
enum { ST_MAX_HEADER = 100000000, ST_PREFIX = 8, ST_MAX_NDIM = 64, ST_WHERE = 256 };

struct st_dtype {
    const char *name; /* as in the file: "BF16" */
    const char *pith; /* the name pith has for it; NULL: only stored, as bytes */
    uint32_t bits;
};

struct st_tensor {
    const char *name; /* belongs to the header */
    const struct st_dtype *dtype;
    uint32_t ndim;
    uint64_t *shape;
    uint64_t begin, end; /* in the data section */
};

struct safetensors {
    json_t *json;
    const uint8_t *text; /* the JSON with its padding, in the caller's memory */
    size_t text_bytes;
    struct st_tensor *tensors; /* in the order of the data */
    size_t count;
    uint64_t *shapes; /* memory behind tensors[].shape */
    uint64_t data_bytes;
    char where[ST_WHERE]; /* what a failure is about: a tensor, a place; "": the whole */
    char found[32];       /* the beginning of a dtype that is unknown; else "" */
};

/* The reason why a header could not be read when that is no fault of the file. */
extern const char st_no_memory[];
/* Checks the JSON text alone. On success st_free must be called. On failure *why is a static
 * sentence, out->where and out->found are set, and there is nothing to free. */
bool st_parse_header(const uint8_t *text, size_t length, struct safetensors *out, const char **why);
/* These check the rest of a file of which a reader has only the beginning: st_measure finds the
 * length of the text, from at least ST_PREFIX bytes where the file has them; st_check_end then
 * checks, with a parsed header, the file's end. */
bool st_measure(const uint8_t *bytes, uint64_t file_bytes, size_t *text_bytes, const char **why);
bool st_check_end(const struct safetensors *st, uint64_t file_bytes, const char **why);
void st_free(struct safetensors *st);
/* Guesses cheaply from the first bytes, for telling formats apart. */
bool st_is(const uint8_t *bytes, size_t length);
/* Returns the string stored under key in __metadata__; NULL when absent. */
const char *st_metadata(const struct safetensors *st, const char *key, size_t *length);

#endif
