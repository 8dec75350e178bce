/* golden.h - the tables of golden frames and saved streams, how they were made, and the committed
 * files.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_TESTS_GOLDEN_H
#define PITH_TESTS_GOLDEN_H

#include "bad.h"
#include "gen.h"
#include "util.h"

struct golden {
    const char *name, *spec;
    uint32_t dtype, base_dtype;
    uint32_t ndim;
    uint64_t shape[PITH_MAX_NDIM];
    enum gen kind;
    double near;              /* with a base: values are the base plus noise of this deviation */
    const void *value, *base; /* or: literal elements */
    int walk;                 /* the last so many dimensions are summed: data without jumps */
    float offset;             /* added to f32 */
    bool scaled;              /* f32 of rows and columns of different scales */
    bool planes;              /* f32: those of the last two dimensions times 0, 1, 2, 3, 0 .. */
    bool waves;               /* or: f32 waves along three last dimensions, 64 elements a row */
    uint32_t flags;
    uint64_t step;
    bool same_set;            /* also frames that follow it with its set, or with that of blocks */
    bool key, source, stable; /* stable: the bytes do not depend on the version of zstd */
    bool former;              /* what an encoder wrote once, and today's no longer does */
    uint32_t rank, ranks;     /* ranks 0: left alone */
    int before;               /* encodes whose frames nobody keeps: error feedback */
    pith_exempt exempt[3];    /* as many as have elements */
    struct patch patch[4];    /* of the frame: what no encoder writes today, but may */
};

/* Number index, or NULL past the last. */
const struct golden *golden_at(size_t index);

/* What an encoder makes of a row today. */
struct golden_made {
    struct frame frame;
    void *base, *value;
    size_t base_bytes, count;
    /* Of a row with same_set: NAME.map, the set of `frame`, a bit per element; NAME.held, the frame
     * of 1, 2, 3 ... with that set; NAME.blocks, that of the values with the last two elements at
     * other places, with the set of all other blocks, and NAME.after, what it decodes to. */
    uint8_t *map;
    struct frame held, blocks;
    float *after;
};
void golden_make(const struct golden *g, struct golden_made *made);
void golden_free(struct golden_made *made);

/* A saved stream: its plan, for 75 elements. */
struct golden_stream {
    const char *name, *spec;
    uint32_t dtype, base_dtype;
    uint64_t slots;
    const uint64_t *slot_counts; /* or NULL */
    pith_exempt exempt;          /* one range, or none */
};

/* Number index, or NULL past the last. */
const struct golden_stream *golden_stream_at(size_t index);
/* A new stream of the plan, and one step of it: the frames of all slots, one behind the other. */
void golden_stream_open(const struct golden_stream *g, struct stream *s);
struct frame golden_stream_step(const struct golden_stream *g, struct stream *s, uint64_t step);
/* What is saved of a stream. */
struct frame golden_stream_save(struct stream *s);

/* One committed frame with what it needs and what it decodes to. */
struct golden_file {
    char name[64]; /* without .pith */
    struct frame frame;
    uint8_t *base; /* NULL: needs none */
    size_t base_bytes;
    uint8_t *raw;
    size_t raw_bytes;
    pith_info info;
};
/* The index-th frame that v1/HASHES below dir lists; false past the last. */
bool golden_open(const char *dir, size_t index, struct golden_file *file);
/* The one of this name. */
void golden_load(const char *dir, const char *name, struct golden_file *file);
void golden_close(struct golden_file *file);
/* The view of its base; *view is filled, NULL when it needs none. */
const pith_view *golden_base(const struct golden_file *file, pith_view *view);

/* The index-th line of a HASHES file. */
bool hashes_line(const char *path, size_t index, uint64_t *hash, char name[128]);

#endif
