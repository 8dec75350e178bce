/* npy.h - reads the header of a NumPy .npy file from memory; depends on nothing else.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_NPY_H
#define PITH_CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NumPy itself allows 64 dimensions since 2.0. A frame's source holds at most 1 MiB. */
enum { NPY_MAX_NDIM = 64, NPY_MAX_HEADER = 1048576 };

struct npy {
    size_t header_bytes; /* bytes before the values: magic to the end of the padding */
    char kind;           /* the descr's letter (f i u b V c S U m M ...), or '[' for records */
    bool big_endian;
    bool fortran_order;
    uint64_t item_bytes;
    uint32_t ndim;
    uint64_t shape[NPY_MAX_NDIM];
    uint64_t count;
    uint64_t data_bytes; /* count * item_bytes */
};

/* Reads and checks the header at the start of bytes; versions 1.0, 2.0 and 3.0. Any bytes are safe.
 * Returns false with a static sentence in *why. The values need not be present. */
bool npy_parse(const uint8_t *bytes, size_t length, struct npy *out, const char **why);
/* Whether the bytes begin as a .npy file does. */
bool npy_is(const uint8_t *bytes, size_t length);

#endif
