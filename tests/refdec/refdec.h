/* refdec.h - a second decoder of pith frames, written from doc/FORMAT.md alone: plain and slow.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef REFDEC_H
#define REFDEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the page calls the status of a bad frame, and three words for what is not the frame's
 * fault. */
enum ref_status {
    REF_OK,
    REF_TRUNCATED,
    REF_MAGIC,
    REF_NEWER,
    REF_CORRUPT,
    REF_CHECKSUM,
    REF_BASE,    /* the base is not the encoder's */
    REF_NO_BASE, /* none was given, or one of another size */
    REF_STATE,   /* the receiver holds no set */
    REF_LIMIT,
    REF_MEMORY
};
const char *ref_status_name(enum ref_status status);

/* Dtype numbers of the page. */
enum { F32 = 1, BF16, F16, F64, U8, I8, U16, I16, U32, I32, U64, I64, BOOL, F8E4M3, F8E5M2 };
unsigned ref_dtype_bytes(unsigned dtype);

#define TRY(expression)                            \
    do {                                           \
        const enum ref_status try_ = (expression); \
        if (try_ != REF_OK) return try_;           \
    } while (0)
#define REJECT_IF(condition)               \
    do {                                   \
        if (condition) return REF_CORRUPT; \
    } while (0)

/* ---- Codecs ----------------------------------------------------------------------------------
 * What section 6 says of a codec stands in refdec_<name>.c, as ref_codec_<name>. Which codecs there
 * are, and their numbers, is codec/registry.def's; all else is the page's. */
struct ref_frame;
struct ref_block;
struct ref_codec {
    const char *name;
    unsigned revision;
    uint32_t dtypes, bases; /* bit d: dtype d is legal; bit 0 of bases: so is none */
    bool exempt;            /* whether a section EXEMPT is legal */
    /* The type of a section that each of its frames has, and what reads the body. 0: none. */
    uint32_t section;
    enum ref_status (*read_section)(const uint8_t *body, uint64_t length, struct ref_frame *f);
    /* The parameters, and rules across them, the dtypes and the block size. */
    enum ref_status (*check)(const struct ref_frame *f);
    /* The revision that frames with these parameters must have, 0: any. NULL: the first. */
    unsigned (*only_revision)(const struct ref_frame *f);
    /* Whether the rate is fixed. NULL: never. */
    bool (*fixed)(const struct ref_frame *f);
    /* Whether frames with a base declare its hash. NULL: always. */
    bool (*base_hash)(const struct ref_frame *f);
    /* Blocks that are no runs of B elements: set shape, extent, grid and tiles, or return false for
     * a shape that the codec does not take. NULL: runs. */
    bool (*cut)(struct ref_frame *f);
    /* A fixed-rate block's bytes, a variable-rate one's bound. */
    uint64_t (*block_bytes)(const struct ref_frame *f, uint64_t count);
    /* Bytes of all blocks, at most 2^62. NULL: as if blocks were runs. */
    uint64_t (*all_bytes)(const struct ref_frame *f);
    /* Whether the set that the receiver holds, a map of so many bytes or NULL, is the frame's.
     * NULL: no frame has one. */
    enum ref_status (*check_held)(const struct ref_frame *f, const uint8_t *map, uint64_t bytes);
    enum ref_status (*decode)(const struct ref_block *b);
    /* How many values the blocks have added to those decoded. NULL: they add none. */
    enum ref_status (*check_values)(const struct ref_frame *f, uint64_t values);
    /* REF_CASE of the parameters, for frames that are legal. NULL: none. */
    void (*note)(const struct ref_frame *f);
};

/* ---- refdec_header.c: header and sections ----------------------------------------------------*/
struct ref_frame {
    const struct ref_codec *codec;
    unsigned revision, dtype, base_dtype, ndim;
    uint64_t dim[8], n;
    uint64_t block; /* elements */
    bool key, checksums, wide;
    uint8_t parameter[16];
    bool declares_base_hash;
    uint64_t step, base_hash;
    uint64_t header_bytes, payload_bytes; /* header with sections */
    const uint8_t *exempt;                /* body of the section, inside the frame */
    uint64_t exempt_ranges, exempt_bytes; /* bytes without padding */
    unsigned bound_kind;                  /* 0: no section BOUND */
    double bound;
    uint64_t shape[4], extent[4], grid[4], tiles; /* of codecs with a hook `cut` */
    uint64_t heads, dim_of_head;                  /* codec 8 */
    struct {
        uint64_t values, hash;
        bool held, same_blocks;
    } chosen; /* codec 9 */
};

/* Everything up to and without the payload. */
enum ref_status ref_header(const uint8_t *bytes, size_t length, struct ref_frame *frame);
uint64_t ref_block_bytes(const struct ref_frame *f, uint64_t count);
bool ref_is_fixed(const struct ref_frame *f);
uint64_t ref_blocks(const struct ref_frame *f);
/* Entries of the table of checksums: one per block, one for the exempt values. */
uint64_t ref_checks(const struct ref_frame *f);
uint64_t ref_pad16(uint64_t x);
uint64_t ref_le(const uint8_t *bytes, unsigned count);

/* Elements of a block. */
uint64_t ref_block_count(const struct ref_frame *f, uint64_t block);
/* A number m * 10^e in one word, as frames record what was requested; kind 3: below 1. */
enum ref_status ref_check_requested(unsigned kind, uint64_t word);

/* ---- refdec_tile.c: blocks that are tiles ----------------------------------------------------*/
/* Cut the tensor: `extents` sets f->extent, which is 1 everywhere, from f->shape, its four
 * dimensions. */
bool ref_cut_tiles(struct ref_frame *f, void (*extents)(struct ref_frame *f));
struct ref_tile {
    uint64_t origin[4], extent[4], count;
};
struct ref_tile ref_tile(const struct ref_frame *f, uint64_t number);
/* The number of its first element. */
uint64_t ref_tile_first(const struct ref_frame *f, const struct ref_tile *t);
void ref_place_tile(const struct ref_frame *f, const struct ref_tile *t, const uint8_t *values,
                    uint8_t *out);
/* Parameters that codecs with a bound share: so many modes and kinds of bounds, and the bytes from
 * `end` on are 0. */
enum ref_status ref_check_bounded(const struct ref_frame *f, unsigned modes, unsigned kinds,
                                  unsigned end);
/* The section BOUND. */
enum { BOUND = 2 };
enum ref_status ref_read_bound(const uint8_t *body, uint64_t length, struct ref_frame *f);

/* ---- refdec_hash.c ---------------------------------------------------------------------------*/
uint64_t ref_xxh64(const uint8_t *bytes, size_t length, uint64_t seed);
uint64_t ref_nh(const uint8_t *bytes, size_t length, uint64_t tag);

/* ---- refdec_number.c: floats as bits of f32 --------------------------------------------------*/
float ref_as_float(uint32_t u);
uint32_t ref_as_bits(float value);
bool ref_finite(uint32_t u);
bool ref_is_nan(uint32_t u);
uint32_t ref_canonical_nan(void);
/* Element i of an array of f32, bf16 or f16. */
uint32_t ref_load(const uint8_t *bytes, size_t i, unsigned dtype);
void ref_store(uint8_t *bytes, size_t i, unsigned dtype, uint32_t u);
/* Infinity becomes the largest finite value of the dtype. */
uint32_t ref_saturated(uint32_t u, unsigned dtype);
uint32_t ref_decoded(int code, uint32_t scale);
unsigned ref_code_at(const uint8_t *string, size_t i, unsigned w);
int ref_sign_extended(unsigned code, unsigned w);
/* What a code of codebook trellis means: code[0], with those before it in its sequence, the nearest
 * one first, and 0 where there is none. */
uint32_t ref_trellis(unsigned w, const unsigned code[4], uint32_t scale);

/* ---- One block -------------------------------------------------------------------------------*/
struct ref_block {
    const struct ref_frame *frame;
    const uint8_t *bytes;
    size_t length, count;
    uint64_t first; /* number of its first element */
    bool plain;
    const uint8_t *base;         /* the block's elements; NULL without a base */
    uint8_t *out;                /* in the frame's dtype, dense */
    uint8_t *new_base;           /* in the base dtype */
    const struct ref_tile *tile; /* of codecs with a hook `cut` */
    const uint8_t *held;         /* the map of the whole held set; NULL without one */
    uint64_t *values;            /* how many values all blocks have, which each adds to */
};
/* Bytes that are 0. */
bool ref_zeros(const uint8_t *bytes, uint64_t from, uint64_t to);
/* A block of values as they are. */
enum ref_status ref_plain(const struct ref_block *b);
uint64_t ref_plain_bytes(const struct ref_frame *f, uint64_t count);
/* A scale of f32, bf16 or e8m0. */
unsigned ref_scale_bytes(unsigned how);
/* Scales and codes of wdiff and grad. */
uint64_t ref_group_bytes(const struct ref_frame *f, unsigned scale, uint64_t count);
/* A block of a key frame of codecs 3 and 8. */
enum ref_status ref_key_frame(const struct ref_block *b);
/* Element i of a new base, from that of the old one and a difference. */
void ref_update(uint8_t *new_base, size_t i, unsigned dtype, uint32_t b, uint32_t x);
/* The inverse rotation of `order` values, without signs. */
void ref_transform_back(float *x, size_t order);
/* The body of a section EXEMPT; its values over those that blocks gave. */
enum ref_status ref_read_exempt(const uint8_t *body, uint64_t length, struct ref_frame *f);
void ref_put_exempt(const struct ref_frame *f, const uint8_t *bytes, uint8_t *out);

enum { REF_ZSTD, REF_ZSTD_AND_RANS, REF_RANS };
struct ref_reader {
    const uint8_t *bytes;
    size_t left;
    unsigned coders; /* what pieces may be: coded strings, rANS strings too, or those alone */
};
bool ref_take(struct ref_reader *r, size_t count, const uint8_t **bytes);
bool ref_bit(const uint8_t *bytes, uint64_t i);
/* A piece of codec 2, n > 0. */
bool ref_piece(struct ref_reader *r, size_t n, uint8_t *out);
/* Parts of blocks of codecs with a bound (refdec_words.c). */
struct ref_exact {
    const uint8_t *which, *values;
    uint64_t number;
    bool listed;
};
bool ref_take_exact(struct ref_reader *r, const struct ref_block *b, struct ref_exact *e);
void ref_put_exact(const struct ref_block *b, const struct ref_exact *e);
bool ref_packed(struct ref_reader *r, uint64_t n, uint32_t *words);
bool ref_coded(struct ref_reader *r, uint64_t n, uint32_t *words);
/* The number that a word stands for: 0, -1, 1, -2 ... */
int32_t ref_number(uint32_t word);
void ref_put_value(const struct ref_frame *f, int32_t code, uint8_t *out, uint64_t i);
/* Entropy-coded codes: n codes of m code strings, one in a byte (refdec_words.c). */
bool ref_coded_codes(struct ref_reader *r, uint64_t n, uint64_t m, unsigned w, uint8_t *codes);
/* A rANS string of n symbols (refdec_words.c). */
bool ref_rans(const uint8_t *bytes, size_t length, uint8_t *out, size_t n);
/* Any revision (refdec_header.c). */
unsigned ref_any_revision(const struct ref_frame *f);
/* A coded string of codec 2 that must give n bytes. */
bool ref_unzstd(const uint8_t *bytes, size_t length, uint8_t *out, size_t n);

/* ---- Lists of the page -----------------------------------------------------------------------
 * Where the page lists values and the code has a table or arithmetic instead of a branch for each,
 * REF_CASE notes the value met: tests/form/check_golden_coverage.py demands that golden frames
 * have all that `legal` has a bit for. */
#ifdef REFDEC_CASES
#include <inttypes.h>
#include <stdio.h>
#define REF_CASE(list, legal, value) \
    fprintf(stderr, "%s:%" PRIu64 ":%" PRIu64 "\n", list, (uint64_t)(legal), (uint64_t)(value))
#else
#define REF_CASE(list, legal, value) ((void)(list), (void)(legal), (void)(value))
#endif
/* Bits for the members of a list. */
#define REF_BIT(i) (UINT64_C(1) << (i))
#define REF_UP_TO(i) (REF_BIT((i) + 1) - 1)

/* ---- refdec.c --------------------------------------------------------------------------------*/
/* Decode a frame. base: dense, in the frame's base dtype; of a frame whose set is the one that the
 * receiver holds, the map of that set; NULL when there is none. The values go to *out in the
 * frame's dtype, which the caller frees. At most `limit` bytes are made. */
enum ref_status refdec(const uint8_t *bytes, size_t length, const uint8_t *base, size_t base_bytes,
                       uint64_t limit, uint8_t **out, size_t *out_bytes);

#endif
