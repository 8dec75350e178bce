/* memory.h - what kernels of entropy coding have besides: registers of a thread, memory of the
 * team, and the workspace of a frame.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BYTES_MEMORY_H
#define PITHI_GPU_DEVICE_BYTES_MEMORY_H

#include "bytes/rans.h"
#include "bytes/symbols_choice.h"
#include "bytes/top_choice.h"
#include "bytes/top_offset.h"
#include "bytes/word_value.h"
#include "device/predict/memory.h"
#include "predict/zero_choice.h"

/* A warp has a string. Warps that write need more memory than those that read, so that the others
 * of their team rest. */
enum { PITHI_RANS_READERS = PITHI_TEAM / PITHI_WARP, PITHI_RANS_WRITERS = 4 };
/* Symbols that a warp takes at once, a unit each thread; and how many states one has at most. */
enum { PITHI_RANS_BATCH = PITHI_WARP * PITHI_UNIT, PITHI_RANS_TURNS = 4 };
/* Symbols whose frequencies a thread has. */
enum { PITHI_RANS_OWN = 256 / PITHI_WARP };

struct pithi_rans_thread {
    /* States that take turns: the next one first. */
    uint32_t x[PITHI_RANS_TURNS];
    uint32_t symbol, vote, votes; /* votes: of the warp, bit i that of its thread i */
    uint32_t words;               /* of the string, so far; the same for the warp */
    uint32_t largest, most, sum;
    uint32_t count[PITHI_RANS_OWN], frequency[PITHI_RANS_OWN];
    uint32_t kinds, rest, precision;
    /* What is known of the string: its codes, states that are taken at once, how many turns they
     * take, where its words are and how many there may be. n 0: none runs. */
    uint32_t n, lanes, turns, capacity, log2_width;
    uint8_t *from;
    uint64_t next; /* codes of the next batch */
    uint32_t of[PITHI_UNIT],
        reciprocal[PITHI_UNIT]; /* encode: what is known of symbols of a batch */
    uint64_t total, own;        /* total: what is added up over the warp; own: what it was before */
    bool fault;
};

/* A string that a warp reads or writes. */
struct pithi_rans_string {
    uint8_t *codes;   /* n of them, of `bits` bits: 8 where each has a byte */
    uint8_t *coded;   /* the string */
    uint32_t length;  /* of it; writing: what it may have */
    uint32_t n, bits; /* of codes */
    uint32_t range;   /* bits that codes may have */
    uint32_t packed;  /* their bytes when they are not coded */
    uint32_t planned; /* writing: bytes that it was expected to take */
    uint32_t log2_states, log2_width;
    uint32_t head, words; /* bytes before the words; words that follow */
    bool piece;           /* bytes, not codes */
    bool quick;           /* writing: see pithi_rans_plan */
    bool live, runs;      /* live: there is a string; runs: it has states */
};

/* Slots below `split` of a bucket are of its first symbol, the others of its second. */
struct pithi_rans_writer {
    union {
        uint32_t counts[PITHI_RANS_SLOTS / 2]; /* several of each symbol */
        uint16_t slot[PITHI_RANS_SLOTS];       /* see bytes/rans.h */
    };
    union {
        struct {
            uint16_t frequency[256], start[256];
        };
        uint32_t of[256]; /* both of a symbol, frequencies low, once there are slots */
    };
    union {
        uint32_t bucket[256]; /* split, first symbol, second symbol: a byte each */
        uint32_t reciprocal[256];
    };
    union {
        uint16_t used[256]; /* slots of the first symbol before its bucket */
        uint64_t ring[PITHI_WARP];
    };
};
struct pithi_rans_reader {
    uint32_t bucket[256]; /* as above */
    uint32_t first[256];  /* frequency, then what makes a slot, mod 2^16, its number among those */
    uint32_t second[256]; /* of its symbol */
    uint16_t frequency[256];
    uint64_t ring[PITHI_WARP];
};

/* A block as a page of its tokens. */
struct pithi_coded_page {
    uint64_t at, first; /* in the payload in the staging buffer; element of the slot */
    uint32_t tokens, heads, dim, count;
    uint32_t groups, planes, width; /* width: bytes of a number */
    uint32_t string;                /* bytes of a head's codes, of one token */
    uint32_t codes, length;         /* where codes begin; bytes of the page */
};
/* A plane is cut less than eight times, its map having an eighth of its bytes, so that it has no
 * more strings than these. */
enum { PITHI_PIECE_STRINGS = 8 };

/* What a block of exact values consists of: see doc/FORMAT.md, codec lossless. */
struct pithi_lossless_block {
    uint32_t bits, low,
        base;         /* of symbols, or PITHI_LOSSLESS_TOPS; of a cut in tops and lower bits */
    uint32_t escapes; /* encode: of them; decode: bytes of those behind the lower bits */
    uint32_t parts;   /* strings of whole bytes: of symbols, and planes */
    uint32_t tail;    /* decode: where lower bits begin in the block */
    uint32_t update;  /* words are of an update: PITHI_LOSSLESS_UPDATE, or 0 */
    uint32_t shifted; /* symbols are, by offsets of rows and columns */
    uint32_t sound;   /* decode: there are values to be made of them */
};
/* What is tried of a block of exact values: the values, a sample of them, and the update of a base.
 * Without a base, and in key frames, only the first. */
enum { PITHI_FORM_VALUES, PITHI_FORM_SAMPLE, PITHI_FORM_UPDATE, PITHI_FORMS };
/* A block of exact values. values: in the staging buffer; before: those of the base, or NULL;
 * parts: there is space for `run` words; number: of the block's form; apart: how far apart the runs
 * of a sample are, else 0; limit: what the form must be shorter than, sampled: what the sample
 * takes; exponent: bits of it, 0 where tops are not tried, most: of the tops that are counted;
 * last: the largest of these that has a symbol; tally: words that symbols of 1, 2, 4 and 8 bits do
 * not hold. */
struct pithi_lossless_shared {
    struct pithi_lossless_block block;
    uint8_t *values, *parts;
    const uint8_t *before;
    uint64_t first, place, number, run;
    uint32_t count, width, kind, form, apart, limit, sampled;
    bool live; /* the form is tried */
    uint32_t exponent, most, last;
    struct pithi_top_costs costs;
    uint64_t bytes, second, symbols;
    uint64_t cost[4];
    uint32_t named;
    uint32_t tally[4];
    /* Where values are a matrix: elements of a row, 0 where there are none; the column of the first
     * word; bits of the finer tops that symbols are of when they are shifted, what these take more,
     * and the block without. */
    uint32_t row, column, finer;
    uint64_t finer_loss;
    struct pithi_lossless_block coarse;
};
/* What is known of symbols of a block that may be shifted (lossless_offsets.h). least: what must be
 * saved, in 1/256 bit a symbol. */
struct pithi_lossless_offsets {
    struct pithi_top_shift_sample sample;
    struct pithi_top_variance variance;
    struct pithi_top_sums all;
    struct pithi_top_shift_verdict worth;
    uint32_t square, kinds[4];
    uint64_t least, cost[4];
    union {
        uint8_t symbol[PITHI_TOP_SHIFT_SAMPLE];
        uint32_t count[4][256];
    };
};
/* What is coded of a block of rows: its map, its words, or both; see doc/FORMAT.md, Coded words. A
 * block of act has two of them, of both forms of its numbers. sound: decode: there are words to be
 * made. */
struct pithi_bounded_strings {
    uint32_t map_at, open; /* where a coded map is in the block; bytes of its open bits */
    uint32_t words_at;     /* where coded words are; decode: their low bits */
    uint32_t low, form, escapes;
    uint32_t symbols, others; /* of the first part, and of the second */
    uint32_t escapes_at;
    uint32_t sound;
};
/* A block of rows, or of act or eb, whose numbers are rows of one element; of eb a sequence of its
 * words. part: the first of its words. touched: decode, of eb: an element is wanted.
 * last: of each thread the place behind the last of its symbols that is not 0, or
 * 0; next: that of all strips before, of the strip that is looked at, and the next. */
struct pithi_bounded_shared {
    struct pithi_gpu_block block;
    struct pithi_gpu_rows rows;
    struct pithi_gpu_zeros zeros;
    struct pithi_bounded_strings coded;
    uint32_t part, touched;
    struct pithi_symbol_lengths lengths;
    uint64_t cost[PITHI_SYMBOLS_LOW_MOST + 1];
    const uint8_t *open; /* decode: open bits of the map */
    uint32_t escapes, next[2], last[PITHI_TEAM];
};
/* A map in lanes: see act_lanes.h. */
struct pithi_gpu_lanes {
    struct pithi_zero_cut cut;
    uint32_t mask;
    uint16_t chance[PITHI_ZERO_CONTEXTS];
    uint8_t level[PITHI_ZERO_CONTEXTS];
    const uint8_t *classes;  /* decode: their bits; encode: a byte for each plane */
    uint8_t *states;         /* of the lanes, and the words behind them */
    uint32_t words;          /* decode: how many; encode: how many there may be */
    uint32_t capacity, head; /* encode: bytes it may take, 0 for none; of them before the words */
    /* Encode: how often bits were 0 and 1, by all contexts and those of a mask; what each of these
     * takes; the mask that takes least so far. */
    struct pithi_zero_costs costs;
    uint32_t count[PITHI_ZERO_CONTEXTS][2], merged[PITHI_ZERO_CONTEXTS][2];
    uint32_t planes[PITHI_ZERO_BINS];
    uint64_t cost, fewest;
    uint32_t piece, limit, length; /* encode: bytes of the map as a piece, what it must take less
                                    * than in lanes, what it takes there; 0: it is not written */
};
struct pithi_lossless_sample {
    uint32_t top[1 << PITHI_TOPS_LOG2], second[256];
};

struct pithi_rans_shared {
    struct pithi_rans_string string[PITHI_RANS_READERS];
    uint64_t carry[2];       /* of the strips before; the strip that is summed, and the next */
    uint32_t batches, steps; /* the most of a string of the team, and of a batch */
    uint32_t fault, taking;
    struct pithi_coded_page page;
    uint64_t bound;
    /* A plane that is cut, by depth: what is cut there, and the bytes of it that are not 0. */
    uint32_t depth, cut;
    const uint8_t *from[PITHI_PIECE_STRINGS];
    uint8_t *others[PITHI_PIECE_STRINGS];
    uint32_t bytes[PITHI_PIECE_STRINGS], used[PITHI_PIECE_STRINGS];
    /* Decode: what is left of the block; a part that is not a string of states, and how far apart
     * its bytes are; where those that are not 0 go (nonzero). */
    const uint8_t *at, *copied;
    uint8_t *nonzero;
    uint32_t left, kind, step;
    bool live, plain;
    /* Used for exact values and rows: strings may be of zstd; one is; one waits for the launch that
     * reads it; the revision has no rANS strings. */
    bool exact, foreign, waits, former;
    union {
        struct pithi_rans_writer writer[PITHI_RANS_WRITERS];
        struct {
            struct pithi_lossless_shared words;
            struct pithi_bounded_shared bounded;
            union {
                struct pithi_lossless_sample sample;
                struct pithi_lossless_offsets offsets;
                struct pithi_gpu_lanes lanes;
                struct pithi_rans_reader reader[PITHI_RANS_READERS];
            };
        };
    };
};

/* A block in the workspace. length: with the flag PLAIN. Encode, of its string: head: bytes before
 * the words; skipped: words for which there is space before those that there are. */
struct pithi_rans_entry {
    uint64_t at;    /* in the payload */
    uint64_t bound; /* of a page, as bits */
    uint32_t length, head, words, skipped;
    uint32_t form, unused; /* encode, of exact values: the shortest so far */
};

/* A string of a block of pages. Encode: head, words and skipped as above; length: of it with the
 * `nested` kinds before it; plain: the symbols follow as they are, or packed. Decode: `at` and
 * length of entropy-coded codes. */
struct pithi_rans_piece {
    uint64_t from;  /* symbols, in the part of the frame */
    uint64_t at;    /* in the block */
    uint64_t place; /* of exact values: in the memory for the block's strings */
    uint32_t n, bits, packed, nested;
    uint32_t length, head, words, skipped;
    uint32_t need; /* bytes that the CPU wants to be left before it writes the string */
    bool codes, plain;
};

/* ---- The part of a frame in the workspace ----------------------------------------------------*/

/* What a string may take besides packed codes while it is made: its kind, table and states. */
enum { PITHI_RANS_ROOM = 1280 };
static_assert(4 + PITHI_RANS_TABLE_MOST + 4 * PITHI_RANS_STATES_MOST <= PITHI_RANS_ROOM,
              "heads fit");

PITHI_INLINE uint64_t pithi_coding_pad(uint64_t bytes) { return (bytes + 255) / 256 * 256; }
/* Space for a string of so many bytes before it is coded. */
PITHI_INLINE uint64_t pithi_coding_string_bytes(uint64_t packed) {
    return pithi_coding_pad(packed + PITHI_RANS_ROOM);
}
/* A plane of a byte for each group, its maps, less than half as many bytes, and what is not 0 of
 * one of these. */
PITHI_INLINE uint64_t pithi_coding_plane_bytes(uint64_t groups) {
    return pithi_coding_pad(2 * groups + groups / 2 + 64);
}
/* The most elements of a block that is a run; of rows, the last of which is made whole. */
PITHI_INLINE uint64_t pithi_coding_run(const struct pithi_device_plan *t) {
    const uint64_t block = (uint64_t)1 << t->block_log2, most = t->most < block ? t->most : block;
    return t->device.kind == PITHI_KIND_ROWS ? most + t->device.row : most;
}
/* Parts of a block of rows: symbols of the map; those of words, or gaps between them; those that
 * are not 0. eb has no map. Of act, whose map is bytes: the last two once more, of the other form
 * of numbers. */
enum { PITHI_STRINGS_MAP, PITHI_STRINGS_SYMBOLS, PITHI_STRINGS_OTHERS, PITHI_STRINGS_PARTS };
enum { PITHI_ACT_FORMS = 2, PITHI_ACT_PARTS = PITHI_STRINGS_PARTS + 2 };
/* Sequences of words of a block, each with symbols and strings of its own: of an interpolated one
 * the coarse words, then those of the finest level or of each of its classes. */
PITHI_INLINE uint32_t pithi_coding_sequences(const struct pithi_device_plan *t) {
    return pithi_interpolates(t) ? 1 + (uint32_t)PITHI_WEIGHTED_CLASSES : 1;
}
PITHI_INLINE bool pithi_coding_bounded(const struct pithi_device_plan *t) {
    return t->device.kind == PITHI_KIND_ROWS || t->device.kind == PITHI_KIND_ZEROS ||
           t->device.kind == PITHI_KIND_BOUNDED;
}
/* Strings have parts of blocks: so many. */
PITHI_INLINE uint32_t pithi_coding_bounded_parts(const struct pithi_device_plan *t) {
    return t->device.kind == PITHI_KIND_ZEROS ? (uint32_t)PITHI_ACT_PARTS
                                              : (uint32_t)PITHI_STRINGS_PARTS;
}
/* The most bytes of a block at a fixed rate; of codecs with a bound those of their parts. */
PITHI_INLINE uint64_t pithi_coding_block(const struct pithi_device_plan *t) {
    if (t->device.kind == PITHI_KIND_PAGES) return t->device.pages.most_bytes;
    if (t->device.kind == PITHI_KIND_RAW) return pithi_coding_run(t) * pithi_dtype_bytes(t->dtype);
    if (pithi_coding_bounded(t)) return pithi_coding_run(t) * pithi_coding_bounded_parts(t);
    return pithi_group_block_bytes(&t->device.groups.set, pithi_coding_run(t));
}

/* ---- Parts: of exact values symbols, and planes of bytes -------------------------------------*/

/* Kinds of pieces (doc/FORMAT.md). */
enum {
    PITHI_PIECE_PLAIN,
    PITHI_PIECE_CONSTANT,
    PITHI_PIECE_ZSTD,
    PITHI_PIECE_SPARSE,
    PITHI_PIECE_RANS
};
enum { PITHI_PIECE_SPARSE_MIN = 64 };

/* Matrices have offsets of rows and columns behind the others. */
PITHI_INLINE uint32_t pithi_lossless_parts(const struct pithi_device_plan *t) {
    return pithi_coding_bounded(t) ? pithi_coding_bounded_parts(t)
                                   : pithi_dtype_bytes(t->dtype) + (t->device.row ? 3u : 1u);
}
/* Strings of a part of n bytes: one, and one for each time that it can be cut into a map and what
 * is not 0. */
PITHI_INLINE uint32_t pithi_lossless_levels(uint64_t n) {
    uint32_t levels = 1;
    for (; n >= PITHI_PIECE_SPARSE_MIN; n = (n + 7) / 8) levels++;
    return levels;
}
/* A part of n bytes, its maps, less than n / 7 + 8 bytes, and what is not 0 of those that are cut,
 * less than as many. */
PITHI_INLINE uint64_t pithi_lossless_part_bytes(uint64_t n) {
    return pithi_coding_pad(n + n / 3 + 64);
}
/* Where lower bits and tops lie behind the parts of a block of n words, of which a sixteenth has
 * escapes at most. */
PITHI_INLINE uint64_t pithi_lossless_tail_bytes(uint64_t n) {
    return pithi_coding_pad(n + n / 8 + 64);
}
/* act: numbers of the other form, or bits of a map that is read; then classes of planes. */
PITHI_INLINE uint64_t pithi_act_tail_bytes(uint64_t n) { return pithi_coding_pad(5 * n + 64); }

/* The forms that are tried of a block. */
PITHI_INLINE uint32_t pithi_lossless_forms(const struct pithi_device_plan *t) {
    return t->base_dtype == PITH_NONE ? 1 : PITHI_FORMS;
}
/* The words of a sample of a block of so many, where blocks have one. */
PITHI_INLINE uint64_t pithi_lossless_sample_run(uint64_t run) {
    return run < PITHI_VALUES_LEAST ? 0 : PITHI_VALUES_SAMPLE;
}
/* What lies behind the parts; rows and tiles have nothing there. */
PITHI_INLINE uint64_t pithi_coding_tail_bytes(const struct pithi_device_plan *t, uint64_t run) {
    if (t->device.kind == PITHI_KIND_ZEROS) return pithi_act_tail_bytes(run);
    return pithi_coding_bounded(t) ? 0 : pithi_lossless_tail_bytes(run);
}
/* Where the symbols of a sequence begin in those of a block, and its strings in the space for
 * these, behind sequences of so many words. */
enum { PITHI_SEQUENCE_SLACK = 768 };
PITHI_INLINE uint64_t pithi_sequence_symbols(const struct pithi_device_plan *t, uint32_t sequence,
                                             uint64_t before) {
    return pithi_lossless_parts(t) *
           (pithi_coding_pad(before + before / 3) + (uint64_t)sequence * PITHI_SEQUENCE_SLACK);
}
PITHI_INLINE uint64_t pithi_sequence_place(const struct pithi_device_plan *t, uint64_t strings,
                                           uint32_t sequence, uint64_t before) {
    return pithi_coding_pad(before * pithi_lossless_parts(t)) +
           sequence * strings * pithi_coding_string_bytes(1);
}
/* Symbols, and space for strings, of a form of so many words. */
PITHI_INLINE uint64_t pithi_lossless_symbols_bytes(const struct pithi_device_plan *t,
                                                   uint64_t run) {
    return pithi_lossless_parts(t) * pithi_lossless_part_bytes(run) +
           pithi_coding_tail_bytes(t, run);
}
PITHI_INLINE uint64_t pithi_lossless_strings_bytes(const struct pithi_device_plan *t,
                                                   uint64_t strings, uint64_t run) {
    const uint64_t width = pithi_coding_bounded(t)
                               ? pithi_coding_bounded_parts(t)
                               : pithi_dtype_bytes(t->dtype) + (t->device.row != 0);
    return pithi_coding_pad(run * width) + strings * pithi_coding_string_bytes(1);
}

/* Where what a frame has lies in its part, and what a block has: entries; of pages, what is known
 * of strings; the staging buffer; symbols; strings without a place. */
PITHI_INLINE struct pithi_gpu_coding pithi_coding_layout(const struct pithi_device_plan *t) {
    const uint64_t block = pithi_coding_block(t), blocks = t->most_blocks;
    const uint64_t tables = t->longest_header + 16 * (blocks + 2);
    const bool paged = t->device.kind == PITHI_KIND_PAGES;
    const bool exact = t->device.kind == PITHI_KIND_RAW;
    const bool bounded = pithi_coding_bounded(t);
    const uint64_t record = exact     ? sizeof(struct pithi_lossless_block)
                            : bounded ? PITHI_ACT_FORMS * sizeof(struct pithi_bounded_strings)
                                      : 0;
    struct pithi_gpu_coding c;
    c.memory = NULL;
    c.frames = NULL;
    c.strings = c.levels = 0;
    c.form = 0;
    c.forms = c.tried = 1;
    c.symbols_each = 0;
    c.unplaced_each = pithi_coding_string_bytes(block);
    if (paged) {
        const uint32_t width = (uint32_t)pithi_scale_width(t->device.groups.set.scale_dtype);
        const uint32_t planes = width * (t->device.groups.set.asymmetric ? 2u : 1u);
        const uint64_t groups = block / planes;
        c.strings = planes * PITHI_PIECE_STRINGS + t->device.pages.most_heads;
        c.symbols_each = planes * pithi_coding_plane_bytes(groups) +
                         pithi_coding_pad(t->device.pages.most_elements);
        c.unplaced_each =
            planes * PITHI_PIECE_STRINGS * pithi_coding_string_bytes(groups) +
            pithi_coding_pad(block + t->device.pages.most_heads * (PITHI_RANS_ROOM + 256));
    }
    if (exact || bounded) {
        const uint64_t run = pithi_coding_run(t);
        c.levels = pithi_lossless_levels(run);
        c.strings = pithi_lossless_parts(t) * c.levels;
        const uint64_t sample = pithi_lossless_sample_run(run);
        c.forms = exact ? pithi_lossless_forms(t) : pithi_coding_sequences(t);
        c.symbols_each = pithi_lossless_symbols_bytes(t, run);
        c.unplaced_each = pithi_lossless_strings_bytes(t, c.strings, run);
        if (bounded) {
            c.tried = c.forms;
            c.symbols_each += pithi_sequence_symbols(t, c.forms - 1, 0);
            c.unplaced_each += pithi_sequence_place(t, c.strings, c.forms - 1, 0);
        }
        if (exact && c.forms > 1) {
            c.symbols_each = 2 * c.symbols_each + pithi_lossless_symbols_bytes(t, sample);
            c.unplaced_each =
                2 * c.unplaced_each + pithi_lossless_strings_bytes(t, c.strings, sample);
        }
    }
    c.blocks = pithi_coding_pad(blocks * sizeof(struct pithi_rans_entry));
    c.pieces = c.blocks + pithi_coding_pad(blocks * c.forms * record);
    c.staging =
        c.pieces + pithi_coding_pad(blocks * c.forms * c.strings * sizeof(struct pithi_rans_piece));
    c.before = c.staging + pithi_coding_pad(bounded ? 0 : tables + blocks * block);
    c.symbols = c.before + pithi_coding_pad(exact && c.forms > 1 ? blocks * block : 0);
    c.unplaced = c.symbols + blocks * c.symbols_each;
    c.each = c.unplaced + blocks * c.unplaced_each;
    return c;
}

#endif
