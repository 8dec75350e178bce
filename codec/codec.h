/* codec.h - the internal contract: what a codec sees, what a kernel table holds.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_CODEC_H
#define PITHI_CODEC_H

#include <stdbool.h>

#include "common/exempt_values.h"
#include "common/nh.h"
#include "common/nontemporal.h"
#include "group/channel.h"
#include "group/codebook.h"
#include "group/group.h"
#include "group/hadamard.h"
#include "pith/pith.h"
#include "predict/bitplane.h"
#include "predict/fused_decode.h"
#include "predict/fused_encode.h"
#include "predict/interp.h"
#include "predict/lorenzo.h"
#include "predict/nonzero.h"
#include "predict/quant.h"
#include "predict/range.h"
#include "predict/tile.h"
#include "predict/tile_layout.h"

#define PITHI_TRY(expr)                   \
    do {                                  \
        const pith_status try_ = (expr);  \
        if (try_ != PITH_OK) return try_; \
    } while (0)

/* ---- Kernels: bound once per plan, scalar first, then each ISA the mask allows -------------- */

/* Encodes the transform of a job's values: as many groups from its beginning as the kernel rotates
 * in registers. Returns how many elements they are, 0 when it has no loop for such a job. */
typedef size_t pithi_rotate_encode_fn(const struct pithi_rotation *r, struct pithi_group_job *job);
pithi_rotate_encode_fn pithi_rotate_encode_c;

struct pithi_kernels {
    pithi_group_fn *group_encode;
    pithi_group_runs_fn *group_encode_runs;
    pithi_rotate_encode_fn *rotate_encode;
    pithi_group_fn *group_decode;
    pithi_group_fn *codebook_encode, *codebook_decode; /* of settings with a codebook */
    pithi_sum_fn *group_sum;
    pithi_channel_fn *channel_encode, *channel_decode;
    pithi_rotate_fn *rotate;
    pithi_unrotate_fn *unrotate;
    pithi_unrotate_fn *unrotate_nontemporal; /* `to` is large and will not be read soon */
    pithi_nh_fn *nh;
    pithi_quantize_fn *quantize;
    pithi_dequantize_fn *dequantize;
    pithi_predict_fn *predict;
    pithi_differ_fn *differ;
    pithi_unpredict_fn *unpredict;
    pithi_widths_fn *widths;
    pithi_bitplane_pack_fn *pack;
    pithi_bitplane_unpack_fn *unpack;
    pithi_fused_encode_fn *fused_encode;
    pithi_fused_decode_fn *fused_decode;
    pithi_split_fn *split;
    pithi_spread_fn *spread;
    pithi_move_fn *move_nontemporal;
    pithi_extremes_fn *extremes;
    pithi_interp_encode_fn *interp_encode;
    pithi_interp_decode_fn *interp_decode;
};
void pithi_kernels_bind(struct pithi_kernels *kernels, uint32_t cpu);

/* ---- Settings of a codec --------------------------------------------------------------------
 * A key is one row of a codec's table; its value is a uint32_t. Specs, their canonical text and
 * the 16 parameter bytes of a frame all follow from the rows, so a new key is one row. */
enum { PITHI_KEYS_MAX = 18, PITHI_PARAM_BYTES = 16 };

enum pithi_key_kind {
    PITHI_KEY_NUMBER, /* decimal, min..max, and in `allowed` when that is not 0 (bit v) */
    PITHI_KEY_POW2,   /* power of two, min..max, or 0 when min is 0; frames store the logarithm */
    PITHI_KEY_WORD,   /* one of `words`, separated by '|'; the value is its position */
    PITHI_KEY_DECAY,  /* none|full|ema:0.ddd; the value is 0, 1, or 1 + the thousandths */
    PITHI_KEY_REAL,   /* a decimal number (common/decimal.h) above 0, or none: 0 */
    PITHI_KEY_BLOCK   /* elements per block: a power of two, min..max, or whole: 0 */
};

/* Where frames store a key: a byte of the parameters (numbers that may exceed 255: four bytes),
 * the header's block size, or nowhere. Real numbers exclude each other and share four bytes; the
 * byte before them says which it is, by the key's `min`, or 0. */
enum { PITHI_WIRE_BLOCK = -1, PITHI_WIRE_NONE = -2 };

struct pithi_key {
    const char *name;
    enum pithi_key_kind kind;
    uint32_t initial, min, max, allowed;
    int wire;
    const char *words; /* WORD: the values; NUMBER and POW2: the same for people */
    const char *summary;
    bool informative; /* frames record it, but decoding does not depend on it */
};

/* A key that has no effect while the value of another one is 0, and what to say of it then. */
struct pithi_need {
    uint8_t key, other;
    const char *detail;
};

/* A key of former versions: an error says what it is called now. */
struct pithi_former {
    const char *key, *now;
    const char *more; /* behind the new name */
};

struct pithi_codec;
struct pithi_device;
struct pithi_whole;

/* What the ends of a stream remember because of a setting, beside a base. */
struct pithi_memory {
    bool base_hash;     /* frames against a base carry its hash, and decoders compare it */
    uint32_t key_every; /* steps that this divides are key frames; 0: none by themselves */
    uint32_t feedback;  /* of what encoding loses the next step gets: 0 nothing, 1 all of it, else
                           a moving mean that keeps feedback - 1 thousandths */
};

/* What a setting asks of the bound of a frame. Decimals are those of common/decimal.h; 0: none. */
struct pithi_bound_setting {
    uint32_t target; /* enum pithi_target; PITHI_TARGETS: none, or several */
    uint32_t value;  /* decimal, in the unit of the target */
    uint32_t range;  /* decimal: the range that rel and psnr speak of; 0: that of the values */
    uint32_t decay;  /* enum pithi_decay of a bound that begins loose */
    uint32_t start, steps; /* decimal: the first bound, in units of the last; and how long */
    bool signed_zeros;     /* -0 comes back as -0 */
};

struct pithi_params {
    const struct pithi_codec *codec;
    uint32_t value[PITHI_KEYS_MAX]; /* parallel to codec->keys */
    uint32_t dtype;
    uint32_t base_dtype; /* PITH_NONE: no base */
    uint32_t block;      /* most elements per block, a power of two; 0: to be made so for `whole` */
    uint32_t most;       /* elements of the largest block that occurs: what scratch must hold */
    uint32_t extent[PITHI_TILE_NDIM]; /* with a tiling: of that block */
    uint32_t heads, dim;              /* codec kv: a row has heads * dim elements; set by cut */
    uint32_t outliers;                /* codec kv: of a group; set by cut */
    bool key_frame;                   /* decodes without the base, to the exact new base */
    bool decode_only; /* the plan encodes nothing, whatever the frame says of its encoder */
    struct pithi_memory memory; /* from the values: pithi_params_remember */
};

/* Element types of the largest block: bounds every scratch size and u32 block length. */
enum { PITHI_BLOCK_LOG2_MIN = 4, PITHI_BLOCK_LOG2_MAX = 24 };

/* ---- One block, as a codec sees it: no headers, no threads, no allocation ------------------- */

/* Of codecs with a hook `cut`: which elements of the tensor the block has, and, for those that take
 * and put values where they lie (`encode_placed`, `decode_placed`), where that is. */
struct pithi_block_tiled {
    const struct pithi_tile *tile;
    struct pithi_tile_layout
        layout;   /* encode, value NULL; decode, out NULL, where `layout.first` is set */
    void *buffer; /* encode: capacity for pithi_block_values */
    struct pithi_output
        *output; /* decode, out NULL: for pithi_block_put; NULL: values go nowhere */
};

/* Of codecs with a hook `whole`: the bound of the frame, and what a block adds to statistics. */
struct pithi_block_bounded {
    const struct pithi_bound *bound;
    uint64_t exact;   /* result: values stored as they are because the bound asks for it */
    uint64_t nonzero; /* result, act: values other than 0; embed: values of rows coded in full */
};

/* Of codecs whose blocks are runs of the tensor (struct pithi_tiling). */
struct pithi_block_paged {
    bool more;          /* encode: values of the next block lie behind these */
    size_t from, until; /* decode: the elements of the block that are wanted */
};

/* Of streams with error feedback: the residual of the block's elements, in the codec's own domain,
 * before and after an encode; NULL: none. */
struct pithi_block_feedback {
    const float *before;
    float *after;
};

struct pithi_block {
    const struct pithi_params *params;
    const struct pithi_kernels *kernels;
    uint64_t first;    /* index in the slot of the block's first element */
    size_t count;      /* elements, 1..block */
    const void *value; /* encode: dense, params->dtype; NULL: see struct pithi_block_tiled */
    void *out;         /* decode: dense, out_dtype; NULL: only the base is wanted, or see there */
    uint32_t out_dtype;
    void *base; /* dense, base_dtype; NULL when there is none. Written iff update */
    bool update;
    /* out, or encode: bytes, will not be read soon; the frame outgrows the cache */
    bool nontemporal;
    bool plain;     /* variable rate: encode sets, decode reads the block's index flag */
    uint8_t *bytes; /* encode: capacity block_bytes(count); decode: length bytes, read only */
    size_t length;  /* encode: set to the bytes written */
    void *scratch;  /* scratch_bytes(params), 64-byte aligned, one per worker */
    struct pithi_entropy *coder; /* of coder_bytes(the plan's params), the same at every call */
    struct pithi_random random;
    const struct pithi_exempt_values *exempt_values; /* exempt elements of the slot; NULL: none */
    struct pithi_block_tiled tiled;
    struct pithi_block_bounded bounded;
    struct pithi_block_paged paged;
    struct pithi_block_feedback feedback;
    /* Results. hash: the partial hash of the base as the call leaves it (0 without a base). */
    uint64_t hash, saturated, poisoned;
    const char *detail; /* static text when the status is not OK */
};

/* Encode: the values, dense. */
const void *pithi_block_values(struct pithi_block *b);
/* Decode: values of the block's dtype go where its elements [at, at + count) belong. A
 * pithi_sink_fn of a struct pithi_block. */
void pithi_block_put(void *block, size_t at, size_t count, const void *values);

/* For codecs whose sums are formed in a domain of their own (grad: rotated). x holds elements
 * [at, at + count) of the block there; at is a multiple of PITHI_PIECE, count ends with the block
 * or is PITHI_PIECE. Exempt elements are none of their business. */
enum { PITHI_PIECE = 4096, PITHI_WINDOW_MAX = 256 };
struct pithi_domain {
    /* Whether the domains of two settings are the same. */
    bool (*alike)(const struct pithi_params *a, const struct pithi_params *b);
    /* x := (more: x +) the sum of this block of frames[0..frame_count), in order. */
    void (*sum)(struct pithi_block *block, size_t at, size_t count, const uint8_t *const *frames,
                size_t frame_count, bool more, float *x);
    /* to := scale * values of x. to may be x when dtype is f32; x is used up. */
    void (*leave)(const struct pithi_block *block, size_t at, size_t count, float *x, void *to,
                  uint32_t dtype, float scale);
    /* x := values, in the domain: what `leave` undoes. */
    void (*enter)(const struct pithi_block *block, size_t at, size_t count, float *x);
    /* Elements of a slot that the domain mixes: so many from a multiple on, or what is left. At
     * most PITHI_WINDOW_MAX. */
    uint32_t (*window)(const struct pithi_params *params);
    /* Encode x, which is used up, into the block's bytes. */
    void (*put)(struct pithi_block *block, size_t at, size_t count, float *x);
};

struct pithi_codec {
    uint8_t id, revision;
    const char *name, *summary;
    uint32_t traits, dtypes;
    const struct pithi_key *keys;
    uint32_t key_count;
    const struct pithi_need *needs; /* specs that set such a key in vain are refused */
    uint32_t need_count;
    const struct pithi_former *former;
    uint32_t former_count;
    uint32_t stream_keys; /* bit k: key k has an effect on streams and caches only */
    /* Let keys that stand for settings of others (bit k of seen: key k was given) set those that
     * were not given, and go back to their defaults. May be NULL. */
    void (*preset)(uint32_t value[PITHI_KEYS_MAX], uint32_t seen);
    /* Let keys, and the size of blocks, that stand for something of the layout say what that is.
     * Once more changes nothing. May be NULL. */
    void (*resolve)(struct pithi_params *params, uint32_t ndim, const uint64_t *shape);
    /* Rules across keys and dtypes. *detail is set on failure. */
    pith_status (*check)(const struct pithi_params *params, const char **detail);
    bool (*fixed)(const struct pithi_params *params);
    /* Bytes of a block of count elements: exact when fixed, else the most encode writes. */
    uint64_t (*block_bytes)(const struct pithi_params *params, uint64_t count);
    size_t (*scratch_bytes)(const struct pithi_params *params);
    /* Of a worker's entropy coder. NULL: there is none. */
    size_t (*coder_bytes)(const struct pithi_params *params);
    pith_status (*encode)(struct pithi_block *block);
    /* Any bytes of the given length: PITH_ERR_CORRUPT or values. */
    pith_status (*decode)(struct pithi_block *block);
    /* Error bound of one encoded block: NaN when poisoned, negative when the block is too short to
     * have one or states one that decode refuses. NULL: 0. */
    double (*bound)(const struct pithi_block *block);
    /* What streams of this setting remember; base_hash speaks of those with a base. NULL: the hash
     * of the base. */
    struct pithi_memory (*remember)(const struct pithi_params *params);
    /* With pithi_whole_bounded (predict/bounded.h): what is requested of the bound. */
    struct pithi_bound_setting (*bound_setting)(const struct pithi_params *params);
    /* Fill in what kernels of a device backend need of the setting, in a struct that is otherwise
     * 0; false when they cannot code with it. NULL: no device has kernels for the codec. */
    bool (*describe)(const struct pithi_params *params, struct pithi_device *device);
    uint32_t described_keys; /* bit k: an informative key whose legal values kernels can tell */
    const struct pithi_domain *domain; /* NULL: sums are formed of decoded values */
    /* How a slot is cut into blocks: into the tiles of this tiling. Sets in params what follows
     * from the shape alone. Returns why the setting does not take the shape, or NULL. The bytes of
     * blocks are in proportion to their elements, unless tiles are runs of the tensor. NULL: blocks
     * are runs of params->block elements. */
    const char *(*cut)(struct pithi_params *params, uint32_t ndim, const uint64_t *shape,
                       struct pithi_tiling *tiling);
    /* encode and decode of codecs that take and put values where they lie in the tensor; NULL:
     * blocks get them dense. */
    pith_status (*encode_placed)(struct pithi_block *block);
    pith_status (*decode_placed)(struct pithi_block *block);
    /* What frames have as a whole (whole.h). NULL: nothing but their blocks. */
    const struct pithi_whole *whole;
};

const struct pithi_codec *pithi_codec_by_id(uint32_t id);
const struct pithi_codec *pithi_codec_by_name(const char *name, size_t length);
const struct pithi_codec *pithi_codec_by_index(uint32_t index);
/* Set params->memory from its values. */
void pithi_params_remember(struct pithi_params *params);

#endif
