/* packed.h - compressed files: a bare frame, or a .safetensors whose tensors are frames.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The container's header begins with exactly PACKED_LEAD, sixteen hexadecimal digits and
 * PACKED_MIDDLE, followed by the header of the original file as one JSON string. The digits are
 * the XXH64 (seed 0) of the length prefix and the whole header with the digits taken as '0'. */
#ifndef PITH_CLI_PACKED_H
#define PITH_CLI_PACKED_H

#include "tensors.h"

#define PACKED_SIGN "{\"__metadata__\":{\"pith\":\""
#define PACKED_LEAD PACKED_SIGN "1\",\"pith.check\":\""
#define PACKED_MIDDLE "\",\"pith.header\":"
enum { PACKED_DIGITS = 16 };

struct packed {
    struct input in;
    struct mapping mapping; /* the frame of a container that was last requested */
    bool container;
    struct safetensors outer, inner; /* headers of a container and of what it holds */
    struct npy npy;                  /* the .npy header in a bare frame */
    bool has_npy;
    size_t count;
    uint64_t raw_bytes; /* bytes of the original tensors */
};

struct packed_item {
    const char *name; /* "" for a bare frame */
    const uint8_t *frame;
    size_t bytes;
    pith_info info;
    struct tensor home; /* the tensor in the original file, without data */
};

/* Whether the first bytes look like those of a compressed file. */
bool packed_is(const struct input *in);
/* Refuses (said) a .safetensors that is compressed, unless `like`, the header of another file, is
 * that of a compressed one too. */
int packed_refuse(const struct tensor_set *set, const struct safetensors *like);
/* packed_open and packed_item say what is wrong and return an exit code. They verify the header's
 * check, the rules of .safetensors and the agreement of frames and original header, not payloads.
 * An item's frame is visible until the next one is requested. */
int packed_open(struct packed *p, const char *path);
int packed_item(struct packed *p, size_t index, struct packed_item *out);
void packed_close(struct packed *p);
/* Refuses (said) a file whose tensors are larger together than what was requested with
 * --max-output, or, with 0, than the default; else sets the library's limit. */
int packed_limit(const struct packed *p, uint64_t requested, pith_env *env);

/* Says why a library call failed on one tensor. */
int say_status(const char *path, const char *name, pith_status status, const pith_error *error);

/* Writes the digits for these bytes: a length prefix and a header of PACKED_LEAD and so on. */
void packed_check(const uint8_t *bytes, size_t length, char digits[PACKED_DIGITS]);

/* Makes the prefix and header of a container of at least `least` bytes in all, padded with spaces;
 * malloc'ed. ends[i] is where frame i ends in the data. NULL without memory. */
uint8_t *packed_header(const struct tensor_set *original, const uint64_t *ends, size_t least,
                       size_t *length);

#endif
