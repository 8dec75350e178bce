/* refdec_header.c - header and sections, in the order of the list of what must be rejected.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "refdec.h"

/* The codecs, by number. */
#define PITH_KERNEL(folder, name, isa)
#define PITH_CODEC(id, name) extern const struct ref_codec ref_codec_##name;
#include "../../codec/registry.def"
#undef PITH_CODEC
static const struct ref_codec *const codecs[256] = {
#define PITH_CODEC(id, name) [id] = &ref_codec_##name,
#include "../../codec/registry.def"
#undef PITH_CODEC
};

enum { WIDE = 1, KEY = 2, CHECKSUMS = 4 };

uint64_t ref_le(const uint8_t *bytes, unsigned count) {
    uint64_t value = 0;
    while (count--) value = value << 8 | bytes[count];
    return value;
}

uint64_t ref_pad16(uint64_t x) { return (x + 15) / 16 * 16; }

unsigned ref_dtype_bytes(unsigned dtype) {
    static const uint8_t bytes[16] = {0, 4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1, 1};
    return bytes[dtype % 16];
}

/* ---- Sizes -----------------------------------------------------------------------------------*/

bool ref_is_fixed(const struct ref_frame *f) { return f->codec->fixed && f->codec->fixed(f); }

uint64_t ref_blocks(const struct ref_frame *f) {
    return f->codec->cut ? f->tiles : f->n / f->block + (f->n % f->block != 0);
}

uint64_t ref_checks(const struct ref_frame *f) {
    return f->checksums ? ref_blocks(f) + (f->exempt != NULL) : 0;
}

uint64_t ref_block_bytes(const struct ref_frame *f, uint64_t count) {
    return f->codec->block_bytes(f, count);
}

/* Index and checksums, and the blocks at their largest. n below 2^60 keeps all this below 2^64,
 * but for elements of eight bytes with everything else on top. */
static enum ref_status check_payload(const struct ref_frame *f) {
    const uint64_t blocks = ref_blocks(f), whole = f->n / f->block, rest = f->n % f->block;
    const uint64_t least =
        (ref_is_fixed(f) ? 0 : ref_pad16(4 * blocks)) + ref_pad16(8 * ref_checks(f));
    const uint64_t last = rest ? ref_block_bytes(f, rest) : 0;
    const uint64_t all =
        f->codec->all_bytes ? f->codec->all_bytes(f) : whole * ref_block_bytes(f, f->block) + last;
    const uint64_t most = least + all + ref_pad16(f->exempt_bytes);
    REJECT_IF(most - least >= UINT64_C(1) << 62);
    REJECT_IF(f->payload_bytes < least || f->payload_bytes > most);
    REJECT_IF(ref_is_fixed(f) && f->payload_bytes != most);
    return REF_OK;
}

/* ---- Header ----------------------------------------------------------------------------------*/

enum ref_status ref_check_requested(unsigned kind, uint64_t word) {
    const uint64_t m = word >> 10, e = word & 1023;
    REJECT_IF(m == 0 || m >= 1000000 || m % 10 == 0 || e < 212 || e > 812);
    REJECT_IF(kind == 3 && (double)m * pow(10, (double)e - 512) >= 1);
    return REF_OK;
}

static enum ref_status check_parameters(const struct ref_frame *f, unsigned block_log2) {
    REJECT_IF(f->dtype > 15 || !(f->codec->dtypes >> f->dtype & 1));
    REJECT_IF(f->base_dtype > 15 || !(f->codec->bases >> f->base_dtype & 1));
    REJECT_IF(block_log2 < 4 || block_log2 > 24);
    REJECT_IF(f->key && !f->base_dtype);
    return f->codec->check(f);
}

static enum ref_status read_shape(const uint8_t *bytes, struct ref_frame *f) {
    const unsigned entries = f->wide ? 8 : 4, size = f->wide ? 8 : 4;
    const uint64_t most = (UINT64_C(1) << 60) - 1;
    bool needs_wide = f->ndim > 4;
    REJECT_IF(f->ndim > entries);
    f->n = 1;
    for (unsigned i = 0; i < entries; i++) {
        const uint64_t dim = ref_le(bytes + 40 + i * size, size);
        REJECT_IF(i >= f->ndim && dim);
        if (i >= f->ndim) continue;
        f->dim[i] = dim;
        needs_wide |= dim > 0xFFFFFFFFu;
        REJECT_IF(dim && f->n > most / dim);
        f->n *= dim;
    }
    REJECT_IF(f->wide != needs_wide);
    return REF_OK;
}

/* ---- Sections --------------------------------------------------------------------------------*/

static bool declares_base_hash(const struct ref_frame *f) {
    return f->codec->base_hash ? f->codec->base_hash(f) : true;
}

static enum ref_status read_stream(const uint8_t *body, uint64_t length, struct ref_frame *f) {
    REJECT_IF(length != 24);
    const uint64_t flags = ref_le(body + 20, 4);
    f->step = ref_le(body, 8);
    f->base_hash = ref_le(body + 8, 8);
    f->declares_base_hash = flags & 1;
    REJECT_IF(flags > 1 || (f->base_hash && !f->declares_base_hash));
    return REF_OK;
}

static enum ref_status read_sections(const uint8_t *bytes, uint64_t length, struct ref_frame *f) {
    uint64_t last = 0;
    bool stream = false, own = false;
    for (uint64_t at = 0; at < length;) {
        const uint64_t type = ref_le(bytes + at, 4), body = ref_le(bytes + at + 4, 4);
        REJECT_IF(type <= last || body > length - at - 8);
        const uint64_t end = at + ref_pad16(8 + body);
        for (uint64_t i = at + 8 + body; i < end; i++) REJECT_IF(bytes[i]);
        if (type == 1) {
            TRY(read_stream(bytes + at + 8, body, f));
            stream = true;
        } else if (type == f->codec->section) {
            TRY(f->codec->read_section(bytes + at + 8, body, f));
            own = true;
        } else if (type == 3) {
            REJECT_IF(!f->codec->exempt);
            TRY(ref_read_exempt(bytes + at + 8, body, f));
        } else if (type < UINT64_C(1) << 31) {
            return REF_NEWER;
        } else if (type == 0x80000001u) {
            REJECT_IF(body < 1 || body > 1048576);
        }
        last = type;
        at = end;
    }
    REJECT_IF(stream != (f->base_dtype != 0));
    REJECT_IF(f->codec->section && !own);
    REJECT_IF(stream && f->declares_base_hash != declares_base_hash(f));
    return REF_OK;
}

/* ---- What frames there are -------------------------------------------------------------------*/

static void note(const struct ref_frame *f) {
    const struct ref_codec *c = f->codec;
    char dtypes[40], bases[40], keys[40];
    snprintf(dtypes, sizeof dtypes, "%s dtype", c->name);
    snprintf(bases, sizeof bases, "%s base", c->name);
    snprintf(keys, sizeof keys, "%s key", c->name);
    REF_CASE(dtypes, c->dtypes, f->dtype);
    REF_CASE(bases, c->bases, f->base_dtype);
    REF_CASE(keys, c->bases > 1 ? 3 : 1, f->key);
    REF_CASE("dimensions", REF_UP_TO(8), f->ndim);
    if (f->bound_kind)
        REF_CASE(f->bound_kind == 1 ? "absolute bound's dtype" : "relative bound's dtype", 0x1E,
                 f->dtype);
    if (c->note) c->note(f);
}

/* ---- All -------------------------------------------------------------------------------------*/

unsigned ref_any_revision(const struct ref_frame *f) {
    (void)f;
    return 0;
}

static enum ref_status begin(const uint8_t *bytes, size_t length, uint64_t *header,
                             uint64_t *sections) {
    static const uint8_t magic[4] = {0xF1, 'P', 'T', 'H'};
    if (memcmp(bytes, magic, length < 4 ? length : 4) != 0) return REF_MAGIC;
    if (length < 5) return REF_TRUNCATED;
    REJECT_IF(bytes[4] == 0);
    if (bytes[4] > 1) return REF_NEWER;
    if (length < 64) return REF_TRUNCATED;
    *header = bytes[11] & WIDE ? 112 : 64;
    *sections = ref_le(bytes + 12, 4);
    REJECT_IF(*sections % 16 || *sections > 2097152);
    return length < *header + *sections ? REF_TRUNCATED : REF_OK;
}

enum ref_status ref_header(const uint8_t *bytes, size_t length, struct ref_frame *f) {
    uint64_t header, sections;
    memset(f, 0, sizeof *f);
    TRY(begin(bytes, length, &header, &sections));
    const uint64_t hash = ref_xxh64(bytes + header, sections, ref_xxh64(bytes, header - 8, 0));
    if (hash != ref_le(bytes + header - 8, 8)) return REF_CHECKSUM;
    f->codec = codecs[bytes[5]];
    if (bytes[11] > 7 || !f->codec || bytes[6] > f->codec->revision) return REF_NEWER;
    REJECT_IF(bytes[6] == 0);
    f->revision = bytes[6];
    f->dtype = bytes[7];
    f->base_dtype = bytes[8];
    f->ndim = bytes[9];
    f->wide = bytes[11] & WIDE;
    f->key = bytes[11] & KEY;
    f->checksums = bytes[11] & CHECKSUMS;
    memcpy(f->parameter, bytes + 16, 16);
    f->payload_bytes = ref_le(bytes + 32, 8);
    f->header_bytes = header + sections;
    f->block = UINT64_C(1) << (bytes[10] & 31);
    TRY(check_parameters(f, bytes[10]));
    const unsigned only = f->codec->only_revision ? f->codec->only_revision(f) : 1;
    REJECT_IF(only && f->revision != only);
    TRY(read_shape(bytes, f));
    REJECT_IF(f->codec->cut && !f->codec->cut(f));
    TRY(read_sections(bytes + header, sections, f));
    note(f);
    return check_payload(f);
}
