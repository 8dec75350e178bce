/* device_plan.h - a plan as a device backend sees it: sizes, places and headers, in plain memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_DEVICE_PLAN_H
#define PITHI_DEVICE_PLAN_H

#include <assert.h>

#include "group/device_groups.h"
#include "kv/device_pages.h"
#include "pith/version.h"
#include "predict/device_bound.h"
#include "sparse/device_sets.h"
#include "tile.h"

/* Which kernels of a device backend code for a codec: its hook `describe` says it. */
enum pithi_device_kind {
    PITHI_KIND_NONE,
    PITHI_KIND_RAW,
    PITHI_KIND_GROUPS,
    PITHI_KIND_BOUNDED,
    PITHI_KIND_ROWS,
    PITHI_KIND_ZEROS,
    PITHI_KIND_PAGES,
    PITHI_KIND_SETS
};

/* The bytes of a header that hold keys on which decoding does not depend. Bit v0 | v1 << 2 of
 * `legal` says whether values v0 and v1 go together. number: 0, or the byte of one more, which may
 * have any value from least to most. */
struct pithi_free_keys {
    uint32_t count, at[2], legal;
    uint32_t number, least, most;
    uint32_t revision; /* the newest; a higher one in a header is a newer program's */
};

/* A codec's setting, as far as kernels need it: what all see, groups of values, and the part of the
 * family that `kind` names. pages is the longest part, so that initializers clear all of them. */
struct pithi_device {
    uint32_t kind;
    struct pithi_free_keys free_keys;
    uint32_t row;      /* codecs in rows: elements of a row */
    uint32_t feedback; /* of errors: 0 none, 1 full, 1 + thousandths */
    bool base_hash;    /* frames carry the hash of their base */
    bool coded;        /* codes are entropy-coded, and blocks of variable length */
    struct pithi_groups groups;
    union {
        struct pithi_pages pages;
        struct pithi_requested requested; /* kinds bounded, rows and zeros */
        struct pithi_sets sets;
    };
};
static_assert(sizeof(struct pithi_pages) >= sizeof(struct pithi_requested) &&
                  sizeof(struct pithi_pages) >= sizeof(struct pithi_sets),
              "pages is the longest");

/* One kind of frame of a slot. `header` is the offset in the plan of a header of header_bytes,
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
    union {
        struct pithi_sets_slot sets;
        struct pithi_pages_slot pages;
    };
};

/* Exempt elements [first, first + count) of the tensor; `at` bytes of exempt values come before. */
struct pithi_device_plan_range {
    uint64_t first, count, at;
    uint32_t dtype, unused;
};

/* The beginning of a device plan. Slots follow at `slots_at`, then exempt ranges, then headers. */
struct pithi_device_plan {
    uint32_t version; /* PITHI_DEVICE_PLAN_VERSION */
    uint32_t dtype, base_dtype, block_log2;
    uint64_t bytes, slots_at, slots;
    uint64_t count, most;        /* elements of the tensor, and of its largest slot */
    uint64_t most_blocks;        /* blocks of the slot that has most */
    uint64_t stream_fingerprint; /* what streams of equal plans have */
    uint64_t longest_header;
    uint64_t ranges_at, ranges; /* struct pithi_device_plan_range, ascending */
    uint64_t saved_bytes;       /* of a slot in a saved stream, behind what every codec has of it */
    bool checksums, external;
    struct pithi_device device;
};
/* Writes a device plan, which has *bytes bytes. Where cap is less, dst gets as much of the
 * beginning, struct pithi_device_plan, as fits. PITH_ERR_UNSUPPORTED: no device codes with this
 * setting. error may be NULL. The function is exported for libpith_cuda alone and private to
 * libraries of one version. */
PITH_NODISCARD PITH_API pith_status pithi_device_plan_write(const pith_plan *plan, void *dst,
                                                            size_t cap, size_t *bytes,
                                                            pith_error *error);

/* A device plan is read by a library of the same version, and by no other. */
#define PITHI_DEVICE_PLAN_VERSION \
    (PITH_VERSION_MAJOR * 1000000u + PITH_VERSION_MINOR * 1000u + PITH_VERSION_PATCH)

#endif
