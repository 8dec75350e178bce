/* codec.h - the internal contract: what a codec sees, and what it must provide.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_CODEC_H
#define PITHI_CODEC_H

#include <stdbool.h>

#include "common/convert.h"
#include "common/dtype.h"
#include "common/exempt_values.h"
#include "families.h"
#include "kernels.h"
#include "pith/pith.h"
#include "tile.h"
#include "tile_layout.h"

#define PITHI_TRY(expr)                   \
    do {                                  \
        const pith_status try_ = (expr);  \
        if (try_ != PITH_OK) return try_; \
    } while (0)

/* ---- Settings of a codec --------------------------------------------------------------------
 * A key is one row of a codec's table; its value is a uint32_t. Specs, their canonical text and
 * the 16 parameter bytes of a frame all follow from the rows, so a new key is one row. */
enum { PITHI_KEYS_MAX = 18, PITHI_PARAM_BYTES = 16 };

enum pithi_key_kind {
    PITHI_KEY_NUMBER, /* a decimal number, min..max, and in `allowed` when that is not 0 (bit v) */
    PITHI_KEY_POW2,   /* a power of two, min..max, or 0 when min is 0; frames store the logarithm */
    PITHI_KEY_WORD,   /* one of `words`, separated by '|'; the value is its position */
    PITHI_KEY_FEEDBACK, /* none|full|ema:0.ddd; the value is 0, 1, or 1 + the thousandths */
    PITHI_KEY_REAL,     /* a decimal number (common/decimal.h) above 0, or none: 0 */
    PITHI_KEY_BLOCK     /* elements per block: a power of two, min..max, or whole: 0 */
};

/* Where frames store a key: a byte of the parameters (numbers that may exceed 255: four bytes),
 * the header's block size or codec revision, or nowhere. Real numbers exclude each other and share
 * four bytes; the byte before them says which it is, by the key's `min`, or 0. */
enum { PITHI_WIRE_BLOCK = -1, PITHI_WIRE_NONE = -2, PITHI_WIRE_REVISION = -3 };

struct pithi_key {
    const char *name;
    enum pithi_key_kind kind;
    uint32_t initial, min, max, allowed;
    int wire;
    const char *words; /* WORD: the values; NUMBER and POW2: the values, as errors tell them */
    const char *summary;
    /* Frames record it, but decoding does not depend on that of a receiver's plan. */
    bool informative;
};

/* A key that has no effect unless another one has a certain value, 0 standing for every one but 0
 * and PITHI_NEED_ZERO for 0, and what the text of the error has behind "key NAME". */
enum { PITHI_NEED_ZERO = 255 };
struct pithi_need {
    uint8_t key, other, value;
    const char *detail;
};

/* A key that former versions of the codec had: the error for it says what it is called now. */
struct pithi_former {
    const char *key, *now;
    const char *more; /* text behind the new name */
};

struct pithi_codec;
struct pithi_device;
struct pithi_device_plan;
struct pithi_device_plan_slot;
struct pithi_frame;
struct pithi_frame_hooks;
struct pithi_worker;

/* What the ends of a stream remember because of a setting, besides a base. */
struct pithi_stream_setting {
    bool base_hash;     /* frames against a base carry its hash, and decoders compare it */
    uint32_t key_every; /* steps that are multiples of it are key frames; 0: no steps are */
    /* What an encode loses goes into the next step: 0 nothing of it, 1 all of it, else a moving
     * mean that keeps feedback - 1 thousandths. */
    uint32_t feedback;
    bool momentum; /* beside the residual, the momentum of what is encoded */
};

struct pithi_params {
    const struct pithi_codec *codec;
    uint32_t value[PITHI_KEYS_MAX]; /* parallel to codec->keys */
    uint32_t dtype;
    uint32_t base_dtype; /* PITH_NONE: no base */
    uint32_t block; /* most elements per block, a power of two; 0 (whole): the layout decides */
    uint32_t most;  /* elements of the largest block that occurs, for which scratch must suffice */
    uint32_t extent[PITHI_TILE_NDIM]; /* with a tiling: extents of the largest block */
    union pithi_params_own own;       /* what the codec's hook `cut` found in the shape */
    bool key_frame;                   /* decodes without the base, to the exact new base */
    bool decode_only; /* the plan encodes nothing, whatever the frame says of its encoder */
    struct pithi_stream_setting stream; /* follows from the values: pithi_params_set_stream */
};

/* Logarithms of the least and largest number of elements in a block. The largest limits scratch
 * memory and keeps the length of a block in 32 bits. */
enum { PITHI_BLOCK_LOG2_MIN = 4, PITHI_BLOCK_LOG2_MAX = 24 };

/* ---- One block, as a codec sees it: no headers, no threads, no allocation ------------------- */

/* What a block has in codecs with a hook `cut`: the elements of the tensor that it holds and, for
 * codecs that take and put values where they lie (`encode_placed`, `decode_placed`), where they
 * lie. */
struct pithi_block_tiled {
    const struct pithi_tile *tile;
    struct pithi_tile_layout
        layout;   /* encode, value NULL; decode, out NULL, where `layout.first` is set */
    void *buffer; /* encode: capacity for pithi_block_values */
    struct pithi_output
        *output; /* decode, out NULL: for pithi_block_put; NULL: values go nowhere */
};

/* What a block has in codecs whose blocks are runs of the tensor (struct pithi_tiling). */
struct pithi_block_paged {
    bool more;          /* encode: values of the next block lie behind these */
    size_t from, until; /* decode: the elements of the block that are wanted */
};

/* What a block has in streams with error feedback: the residual of its elements, in the codec's own
 * domain, before and after an encode; NULL when there is none. */
struct pithi_block_feedback {
    const float *before;
    float *after;
};

struct pithi_block {
    const struct pithi_params *params;
    const struct pithi_kernels *kernels;
    uint64_t first;    /* index in the slot of the block's first element */
    size_t count;      /* elements, 1..block */
    const void *value; /* encode: dense, params->dtype; NULL: the values are where `tiled` says */
    /* Encode: where the values of the next item of a list lie, to be fetched beside these where
     * they do not come right behind them; NULL: they do, or there is none. next_base: its base. */
    const void *next_value;
    void *out; /* decode: dense, out_dtype; NULL: see `tiled`, or only the base is wanted */
    uint32_t out_dtype;
    void *base; /* dense, base_dtype; NULL when there is none. Written only with update */
    const void *next_base;
    bool update;
    bool coefficients; /* decode: `out` gets what the codec's domain has, in f32 */
    /* The output (encode: bytes) is larger than caches and will not be read soon. */
    bool nontemporal;
    bool plain;     /* variable rate: flag of the index entry, set by encode, read by decode */
    uint8_t *bytes; /* encode: capacity block_bytes(count); decode: length bytes, read only */
    size_t length;  /* encode: set to the bytes written */
    void *scratch;  /* scratch_bytes(params), 64-byte aligned, one per worker */
    struct pithi_entropy *coder; /* coder_bytes(the plan's params) bytes, kept between calls */
    struct pithi_random random;
    const struct pithi_exempt_values *exempt_values; /* exempt elements of the slot; NULL: none */
    struct pithi_block_tiled tiled;
    struct pithi_block_paged paged;
    struct pithi_block_feedback feedback;
    /* Codecs with frame hooks: what the frame's section says, and what hooks->open_block fills
     * in; NULL: there is none. */
    const union pithi_frame_own *said;
    union pithi_worker_own *own;
    double left_out; /* bound: what hooks->left_out says of the frame, else 0 */
    /* Results. hash is the partial hash of the base as the call leaves it, 0 without a base. */
    uint64_t hash, saturated, poisoned;
    uint64_t exact;     /* values stored as they are because a bound asks for it, or chosen */
    uint64_t nonzero;   /* values other than 0, or of what is coded in full */
    const char *detail; /* static text when the status is not OK */
};

/* Returns the values that a block encodes, one after the other. */
const void *pithi_block_values(struct pithi_block *b);
/* Puts decoded values of the block's dtype where its elements [at, at + count) belong. The function
 * is a pithi_sink_fn for a struct pithi_block. */
void pithi_block_put(void *block, size_t at, size_t count, const void *values);

/* A domain of a codec is a transform of its values in which sums are formed and residuals are kept
 * (rotated values, say). x holds elements [at, at + count) of the block in the domain; at is a
 * multiple of PITHI_CHUNK, and count is PITHI_CHUNK or ends with the block. The functions do not
 * look at exempt elements. `sum` and `put` are NULL in codecs that choose what is sent by its size
 * in the domain: they encode values that have entered it already, and sums are of what they decode
 * with `coefficients`. */
enum { PITHI_CHUNK = 4096, PITHI_TRANSFORM_MAX = 256 };
struct pithi_domain {
    /* Says whether the domains of two settings are the same. */
    bool (*alike)(const struct pithi_params *a, const struct pithi_params *b);
    /* Writes to x the sum of this block of frames[0..frame_count) in order; with `more` the sum
     * begins with what x holds. */
    void (*sum)(struct pithi_block *block, size_t at, size_t count, const uint8_t *const *frames,
                size_t frame_count, bool more, float *x);
    /* Writes scale * the values that x stands for to `to`, which may be x when dtype is f32. The
     * contents of x are lost. */
    void (*leave)(const struct pithi_block *block, size_t at, size_t count, float *x, void *to,
                  uint32_t dtype, float scale);
    /* Transforms values in x into the domain: the inverse of `leave`. */
    void (*enter)(const struct pithi_block *block, size_t at, size_t count, float *x);
    /* Returns how many elements are transformed together: each part of a slot that begins at a
     * multiple of the length, also the shorter one at the end. At most PITHI_TRANSFORM_MAX. */
    uint32_t (*length)(const struct pithi_params *params);
    /* Encodes x into the block's bytes. The contents of x are lost. */
    void (*put)(struct pithi_block *block, size_t at, size_t count, float *x);
};

struct pithi_codec {
    uint8_t id, revision; /* the newest revision */
    /* Returns the revision of the frames that a setting makes: the least one that has all of it, so
     * that older programs read what they can. NULL: 1. A key whose wire is PITHI_WIRE_REVISION says
     * which revisions encoders may use. */
    uint8_t (*frame_revision)(const struct pithi_params *params);
    const char *name, *summary;
    uint32_t traits, dtypes;
    const struct pithi_key *keys;
    uint32_t key_count;
    const struct pithi_need *needs; /* specs that set a key which then has no effect are refused */
    uint32_t need_count;
    const struct pithi_former *former;
    uint32_t former_count;
    uint32_t stream_keys; /* bit k: key k has an effect on streams and caches only */
    /* Lets presets, keys that stand for the settings of others, set those which the spec does not
     * give (bit k of seen: key k is given), and go back to their own defaults. May be NULL. */
    void (*preset)(uint32_t value[PITHI_KEYS_MAX], uint32_t seen);
    /* Replaces keys and block sizes that depend on the layout by what they mean for it. A second
     * call changes nothing. May be NULL. */
    void (*resolve)(struct pithi_params *params, uint32_t ndim, const uint64_t *shape);
    /* Checks rules across keys and dtypes. *detail is set on failure. May be NULL. */
    pith_status (*check)(const struct pithi_params *params, const char **detail);
    bool (*fixed)(const struct pithi_params *params);
    /* Returns the bytes of a block of count elements: exact when fixed, else the most that encode
     * writes. */
    uint64_t (*block_bytes)(const struct pithi_params *params, uint64_t count);
    size_t (*scratch_bytes)(const struct pithi_params *params);
    /* Returns the bytes of a worker's entropy coder. NULL: the codec has none. */
    size_t (*coder_bytes)(const struct pithi_params *params);
    /* Makes the coder, in memory of so many bytes where it begins. */
    struct pithi_entropy *(*open_coder)(void *memory, size_t bytes);
    pith_status (*encode)(struct pithi_block *block);
    /* Decodes any bytes of the given length: PITH_ERR_CORRUPT or values. */
    pith_status (*decode)(struct pithi_block *block);
    /* Returns the error bound of one encoded block: NaN when it is poisoned, negative when it is
     * too short to have one or states one that decode refuses. NULL: the bound is 0. */
    double (*bound)(const struct pithi_block *block);
    /* Returns what streams of this setting remember; base_hash is about streams with a base. NULL:
     * the hash of the base. */
    struct pithi_stream_setting (*stream_setting)(const struct pithi_params *params);
    /* Fills in what kernels of a device backend need of the setting, in a struct that is otherwise
     * 0; false when they cannot code with it. NULL: no device has kernels for the codec. */
    bool (*describe)(const struct pithi_params *params, struct pithi_device *device);
    /* For codecs with `describe`: fills in what kernels need of a slot besides, and of the slots
     * together, after each of its forms; and returns why they cannot code for a plan, or NULL.
     * NULL, either: there is nothing to add. */
    void (*describe_slot)(const struct pithi_frame *f, struct pithi_device_plan_slot *slot,
                          struct pithi_device *device);
    const char *(*refuse_device)(const struct pithi_device_plan *plan);
    /* Kernels know the rules across described_keys too, and need no list of the values that go
     * together. */
    bool described_rules;
    const char *described; /* which settings they can code with, for errors; NULL: all */
    /* Bit k: key k came later than the codec. Plans in which it has its initial value have the
     * fingerprint that they had before. */
    uint32_t later_keys;
    uint32_t described_keys; /* bit k: kernels know the legal values of informative key k */
    const struct pithi_domain *domain; /* NULL: sums are formed of decoded values */
    /* Cuts a slot into the tiles of this tiling, its blocks, and sets in params what follows from
     * the shape alone. Returns why the setting does not take the shape, or NULL. The bytes of
     * blocks are in proportion to their elements, unless tiles are runs of the tensor. NULL: blocks
     * are runs of params->block elements. */
    const char *(*cut)(struct pithi_params *params, uint32_t ndim, const uint64_t *shape,
                       struct pithi_tiling *tiling);
    /* Returns why calls on caches and pages (pith/kv.h) do not take the setting, or NULL: they do.
     * NULL: blocks of the codec are no pages. */
    const char *(*refuse_pages)(const struct pithi_params *params);
    /* These replace encode and decode in codecs that take and put values where they lie in the
     * tensor. NULL: blocks get them one after the other. */
    pith_status (*encode_placed)(struct pithi_block *block);
    pith_status (*decode_placed)(struct pithi_block *block);
    /* Returns the most bytes that all blocks of a frame of this shape have together, where that is
     * less than the sum of the most of each. NULL: it is that sum. */
    uint64_t (*data_bytes)(const struct pithi_frame *frame, uint64_t most);
    /* Adds what the block decodes to, to the values that `out` holds, with NaNs canonical, touching
     * no others: of codecs most of whose values are 0. It is not called where the codec transforms,
     * unless with `coefficients`. NULL: the caller adds. */
    pith_status (*decode_add)(struct pithi_block *block);
    /* What frames of the codec have beside blocks (frame_hooks.h). NULL: nothing. */
    const struct pithi_frame_hooks *frame_hooks;
    union pithi_codec_own own; /* what its family asks of it (families.h) */
};

/* Returns how many elements are transformed together; 1: the setting transforms nothing. */
PITHI_INLINE uint32_t pithi_transform_length(const struct pithi_params *p) {
    return p->codec->domain ? p->codec->domain->length(p) : 1;
}

/* Whether frames decode to coefficients, which are summed before they are transformed back. */
PITHI_INLINE bool pithi_has_coefficients(const struct pithi_params *p) {
    return pithi_transform_length(p) > 1 && !p->codec->domain->sum;
}

/* Whether frames of the setting can be summed, and sums be encoded as such. */
PITHI_INLINE bool pithi_codec_sums(const struct pithi_params *p) {
    return (p->codec->decode_add || p->codec->fixed(p)) && p->base_dtype == PITH_NONE &&
           pithi_is_float16_32(p->dtype);
}

/* Returns the revision of frames with these params. */
PITHI_INLINE uint8_t pithi_frame_revision(const struct pithi_params *p) {
    return p->codec->frame_revision ? p->codec->frame_revision(p) : 1;
}

const struct pithi_codec *pithi_codec_by_id(uint32_t id);
const struct pithi_codec *pithi_codec_by_name(const char *name, size_t length);
const struct pithi_codec *pithi_codec_by_index(uint32_t index);
/* Sets params->stream, which follows from the other values. */
void pithi_params_set_stream(struct pithi_params *params);

#endif
