/* device_plan.h - a plan as a device backend sees it: sizes, places and headers, in plain memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_DEVICE_PLAN_H
#define PITHI_DEVICE_PLAN_H

#include "group/codebook_value.h"
#include "group/group_value.h"
#include "group/hadamard.h"
#include "group/trellis_value.h"
#include "pith/version.h"
#include "predict/bound_value.h"
#include "predict/tile.h"

/* Which kernels of a device backend code for a codec: its hook `describe` says it. */
enum pithi_device_kind {
    PITHI_DEVICE_none,
    PITHI_DEVICE_raw,
    PITHI_DEVICE_groups,
    PITHI_DEVICE_bounded,
    PITHI_DEVICE_rows,
    PITHI_DEVICE_zeros,
    PITHI_DEVICE_pages,
    PITHI_DEVICE_sets
};

/* The bytes of a header that hold keys on which decoding does not depend. Bit v0 | v1 << 2 of
 * `legal` says whether values v0 and v1 go together. number: 0, or the byte of one more, which may
 * have any value from least to most. */
struct pithi_free_keys {
    uint32_t count, at[2], legal;
    uint32_t number, least, most;
    uint32_t revision; /* the newest; a higher one in a header is a newer program's */
};

/* What a setting requests of the bound. range is 0 when it is that of the values. */
struct pithi_requested {
    uint32_t target; /* enum pithi_target */
    bool signed_zeros;
    double request, range;
};

/* Coded codes of pages have a string a head: as many as devices have memory for. */
enum { PITHI_CODED_HEADS = 256 };

/* What kernels need of codecs whose blocks are pages of tokens. */
struct pithi_pages {
    uint32_t tokens; /* tokens of a page */
    bool channel;    /* groups run along tokens */
    bool rotated;    /* heads are rotated */
    bool outliers;   /* some values of every group are kept exactly */
    struct pithi_codebook book;
};

/* What kernels need of codecs that send sets of elements and their values. */
struct pithi_sets {
    uint32_t values;  /* dtype; PITH_I8: groups of the setting; PITH_NONE: the elements are 1 */
    uint32_t control; /* enum pithi_control_kind */
    uint32_t every;   /* steps from one exact threshold to the next */
    bool packed;      /* sets are coded as PACKED in place of ELIAS_FANO */
    bool clears;      /* an encode takes what it sends out of the residual */
    bool rows;        /* elements are chosen of every row by itself */
    uint32_t unit;    /* sent are all elements of a unit that has one to send; 0: that one */
    float momentum;   /* what is kept of it from step to step; 0: there is none */
};

/* A codec's setting, as far as kernels need it. */
struct pithi_device {
    uint32_t kind;
    struct pithi_group_setting set;
    struct pithi_rotation rotation;
    struct pithi_free_keys free_keys;
    struct pithi_requested requested;
    struct pithi_pages pages;
    struct pithi_sets sets;
    struct pithi_trellis trellis;             /* settings with codebook=trellis */
    int16_t factors[PITHI_SEARCH_CANDIDATES]; /* of candidates; settings that search for scales */
    uint32_t row;                             /* codecs in rows: elements of a row */
    uint32_t decay;                           /* error feedback: 0 none, 1 full, 1 + thousandths */
    bool base_hash;                           /* frames carry the hash of their base */
    bool domain;                              /* sums are formed before the rotation is undone */
    bool coded; /* codes are coded codes, and blocks of variable length */
    bool antithetic;
};

/* One kind of frame of a slot. `header` is the offset in the table of a header of header_bytes,
 * behind which stands a mask of as many bytes, 0 where the plan's frames differ from each other.
 * checks and data count from the payload's beginning. All blocks but the last have block_bytes; in
 * codecs with pages, all pages of a sequence but its last have, and the pages of a sequence have
 * run_bytes. */
struct pithi_device_plan_form {
    uint64_t header, header_bytes;
    uint64_t checks, data, block_bytes, run_bytes, payload_bytes;
};

struct pithi_device_plan_slot {
    uint64_t first, count, blocks;
    uint64_t fixed_bytes;                  /* bytes of its headers before their sections */
    uint64_t checks;                       /* entries of a checksum table */
    struct pithi_device_plan_form form[2]; /* [0]: ordinary frames, [1]: key frames */
    /* Exempt elements: where their values stand in the payload, how many bytes they have, the `at`
     * of the first one's range, and a hash of which elements they are. */
    uint64_t exempt_values, exempt_bytes, exempt_from, exempt_digest;
    struct pithi_tiling tiling; /* codecs with a tiling */
    uint32_t heads, dim;        /* codecs in pages: a row has heads * dim elements */
    uint32_t outliers, unused;  /* codecs in pages: outliers of a group */
    /* Codecs that send sets: elements to choose, and the hard limit; the most bytes that a whole
     * block, the last block and a payload that is read can have. */
    uint64_t chosen, chosen_most;
    /* row above 0: elements of a row, and how many are chosen of each; 0: it is too long. */
    uint64_t row, row_chosen;
    uint64_t block_most, last_most, read_most;
};

/* Exempt elements [first, first + count) of the tensor; `at` bytes of exempt values come before. */
struct pithi_device_plan_range {
    uint64_t first, count, at;
    uint32_t dtype, unused;
};

/* The beginning of a table. Slots follow at `slots_at`, then exempt ranges, then headers. */
struct pithi_device_plan {
    uint32_t version; /* PITHI_TABLE_VERSION */
    uint32_t dtype, base_dtype, block_log2;
    uint64_t bytes, slots_at, slots;
    uint64_t count, most; /* elements of the tensor, and of its largest slot */
    uint64_t most_blocks; /* blocks of the slot that has most */
    uint64_t most_chosen; /* the largest hard limit of a slot */
    /* Codecs in pages: the most bytes and elements of a page, and heads of a slot. */
    uint64_t most_page_bytes, most_page, most_heads;
    uint64_t fingerprint; /* the fingerprint of streams */
    uint64_t longest_header;
    uint64_t ranges_at, ranges; /* struct pithi_device_plan_range, ascending */
    bool checksums, external;
    struct pithi_device device;
};
/* Writes the table that device backends work from, of *bytes bytes. Where cap is less, dst gets as
 * much of the beginning, struct pithi_device_plan, as fits. PITH_ERR_UNSUPPORTED: no device codes
 * with this setting. error may be NULL. The function is exported for libpith_cuda alone and private
 * to libraries of one version. */
PITH_NODISCARD PITH_API pith_status pithi_device_plan_write(const pith_plan *plan, void *dst,
                                                            size_t cap, size_t *bytes,
                                                            pith_error *error);

/* A table is read by a library of the same version, and by no other. */
#define PITHI_TABLE_VERSION \
    (PITH_VERSION_MAJOR * 1000000u + PITH_VERSION_MINOR * 1000u + PITH_VERSION_PATCH)

#endif
