/* refdec_header.c - header and sections, in the order of the list of what must be rejected.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "refdec.h"

#define TRY(expression)                            \
    do {                                           \
        const enum ref_status try_ = (expression); \
        if (try_ != REF_OK) return try_;           \
    } while (0)
#define REJECT_IF(condition)               \
    do {                                   \
        if (condition) return REF_CORRUPT; \
    } while (0)

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

bool ref_is_fixed(const struct ref_frame *f) {
    return f->codec == RAW || f->codec == GRAD || (f->codec == KV && !f->parameter[10]) ||
           (f->codec == WDIFF && (f->key || f->parameter[4] == 0));
}

uint64_t ref_blocks(const struct ref_frame *f) {
    return ref_is_tiled(f) ? f->tiles : f->n / f->block + (f->n % f->block != 0);
}

uint64_t ref_checks(const struct ref_frame *f) {
    return f->checksums ? ref_blocks(f) + (f->exempt != NULL) : 0;
}

unsigned ref_scale_bytes(const struct ref_frame *f) {
    static const uint8_t bytes[3] = {4, 2, 1};
    return bytes[f->codec == GRAD ? f->parameter[4] : f->parameter[3]];
}

uint64_t ref_block_bytes(const struct ref_frame *f, uint64_t count) {
    if (f->codec < WDIFF || ref_is_bounded(f)) return count * ref_dtype_bytes(f->dtype);
    if (f->key) return count * ref_dtype_bytes(f->base_dtype);
    if (f->codec == KV) return ref_page_bytes(f, count);
    const uint64_t group = UINT64_C(1) << f->parameter[1], groups = (count + group - 1) / group;
    return ref_pad16(groups * ref_scale_bytes(f)) + ref_pad16((count * f->parameter[0] + 7) / 8);
}

/* Index and checksums, and the blocks at their largest. n below 2^60 keeps all this below 2^64,
 * but for elements of eight bytes with everything else on top. */
static enum ref_status check_payload(const struct ref_frame *f) {
    const uint64_t blocks = ref_blocks(f), whole = f->n / f->block, rest = f->n % f->block;
    const uint64_t least =
        (ref_is_fixed(f) ? 0 : ref_pad16(4 * blocks)) + ref_pad16(8 * ref_checks(f));
    const uint64_t all = f->codec == KV
                             ? ref_pages_bytes(f)
                             : whole * ref_block_bytes(f, f->block) + ref_block_bytes(f, rest);
    const uint64_t most = least + all + ref_pad16(f->exempt_bytes);
    REJECT_IF(most - least >= UINT64_C(1) << 62);
    REJECT_IF(f->payload_bytes < least || f->payload_bytes > most);
    REJECT_IF(ref_is_fixed(f) && f->payload_bytes != most);
    return REF_OK;
}

/* ---- Header ----------------------------------------------------------------------------------*/

static bool is_float_16_32(unsigned dtype) {
    if (dtype < F32 || dtype > F16) return false;
    return true;
}

static enum ref_status check_raw(const struct ref_frame *f) {
    for (int i = 0; i < 16; i++) REJECT_IF(f->parameter[i]);
    REJECT_IF(f->base_dtype);
    return REF_OK;
}

static enum ref_status check_lossless(const struct ref_frame *f) {
    REJECT_IF(f->parameter[0] < 1 || f->parameter[0] > 22 || f->parameter[1] > 1);
    for (int i = 2; i < 16; i++) REJECT_IF(f->parameter[i]);
    REJECT_IF(f->base_dtype && f->base_dtype != f->dtype);
    return REF_OK;
}

static enum ref_status check_wdiff(const struct ref_frame *f) {
    const uint8_t *p = f->parameter, w = p[0];
    REJECT_IF(w != 2 && w != 3 && w != 4 && w != 6 && w != 8);
    REJECT_IF(p[1] < 4 || p[1] > 14);
    for (int i = 2; i < 6; i++) REJECT_IF(p[i] > 1);
    for (int i = 6; i < 16; i++) REJECT_IF(p[i]);
    REJECT_IF(!is_float_16_32(f->dtype) || (f->base_dtype && !is_float_16_32(f->base_dtype)));
    REJECT_IF(f->block < UINT64_C(1) << p[1]);
    return REF_OK;
}

static enum ref_status check_grad(const struct ref_frame *f) {
    const uint8_t *p = f->parameter, w = p[0];
    REJECT_IF(w < 2 || w == 7 || w > 8 || p[1] < 5 || p[1] > 12);
    REJECT_IF(p[2] && (p[2] < 5 || p[2] > 8 || p[2] > p[1]));
    for (int i = 3; i < 5; i++) REJECT_IF(p[i] > 2);
    REJECT_IF(p[5] > 1 || (p[5] && p[3]) || p[6] || p[7]);
    REJECT_IF(ref_le(p + 8, 4) && !p[2]);
    for (int i = 12; i < 16; i++) REJECT_IF(p[i]);
    REJECT_IF(!is_float_16_32(f->dtype) || f->base_dtype);
    REJECT_IF(f->block < UINT64_C(1) << p[1]);
    return REF_OK;
}

/* The number asked for: m * 10^e in one word. */
static enum ref_status check_asked(unsigned kind, uint64_t word) {
    const uint64_t m = word >> 10, e = word & 1023;
    REJECT_IF(m == 0 || m >= 1000000 || m % 10 == 0 || e < 212 || e > 812);
    REJECT_IF(kind == 3 && (double)m * pow(10, (double)e - 512) >= 1);
    return REF_OK;
}

static enum ref_status check_bounded(const struct ref_frame *f) {
    static const unsigned kinds[3] = {5, 2, 3};
    const uint8_t *p = f->parameter;
    const unsigned kind = p[3];
    REJECT_IF(p[0] < 1 || p[0] > 22 || p[1] > (f->codec == EB ? 2 : 1) || p[2] > 1);
    REJECT_IF(kind < 1 || kind > kinds[f->codec - EB]);
    TRY(check_asked(kind, ref_le(p + 4, 4)));
    if (f->codec == EMBED) REJECT_IF(ref_le(p + 8, 4) < 1 || ref_le(p + 8, 4) > 16777216);
    for (int i = f->codec == EMBED ? 12 : 8; i < 16; i++) REJECT_IF(p[i]);
    REJECT_IF(f->dtype > F64 || f->base_dtype);
    return REF_OK;
}

static enum ref_status check_share(uint64_t word) {
    TRY(check_asked(0, word));
    REJECT_IF((double)(word >> 10) * pow(10, (double)(word & 1023) - 512) > 0.125);
    return REF_OK;
}

static enum ref_status check_kv(const struct ref_frame *f) {
    const uint8_t *p = f->parameter, w = p[2];
    REJECT_IF(p[0] > 1 || p[1] > 1 || w < 2 || w == 7 || w > 8);
    REJECT_IF(p[3] < 4 || p[3] > 8 || p[4] < 4 || p[4] > 12);
    REJECT_IF(p[5] > 1 || p[6] > 2 || p[7] > 1 || p[8] > 1);
    REJECT_IF(p[9] > 2 || p[10] > 1 || p[11] > 1);
    if (p[11])
        TRY(check_share(ref_le(p + 12, 4)));
    else
        REJECT_IF(ref_le(p + 12, 4));
    REJECT_IF(!is_float_16_32(f->dtype) || (f->base_dtype && !is_float_16_32(f->base_dtype)));
    REJECT_IF(p[0] && p[4] < p[3]);
    REJECT_IF(p[9] && (w > 4 || !p[5] || p[7]));
    REJECT_IF(p[11] && p[8]);
    REJECT_IF(f->base_dtype && (p[0] || p[7] || p[8] || p[9] || p[10] || p[11]));
    return REF_OK;
}

static enum ref_status check_parameters(const struct ref_frame *f, unsigned block_log2) {
    REJECT_IF(f->dtype < 1 || f->dtype > 15);
    REJECT_IF(block_log2 < 4 || block_log2 > 24);
    REJECT_IF(f->key && !f->base_dtype);
    if (f->codec == RAW) return check_raw(f);
    if (f->codec == LOSSLESS) return check_lossless(f);
    if (ref_is_bounded(f)) return check_bounded(f);
    if (f->codec == KV) return check_kv(f);
    return f->codec == WDIFF ? check_wdiff(f) : check_grad(f);
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
    return f->codec == KV || !(f->codec == WDIFF ? f->parameter[5] : f->parameter[1]);
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

static double double_at(const uint8_t *bytes) {
    const uint64_t u = ref_le(bytes, 8);
    double x;
    memcpy(&x, &u, 8);
    return x;
}

static enum ref_status read_bound(const uint8_t *body, uint64_t length, struct ref_frame *f) {
    REJECT_IF(length != 24 || ref_le(body + 4, 4));
    const double bound = double_at(body + 8), largest = double_at(body + 16);
    f->bound_kind = (unsigned)ref_le(body, 4);
    f->bound = bound;
    REJECT_IF(f->bound_kind < 1 || f->bound_kind > 2);
    REJECT_IF(!(largest >= 0) || !isfinite(largest));
    if (f->bound_kind == 2) {
        REJECT_IF(!(bound > 0 && bound < 1));
    } else {
        REJECT_IF(signbit(bound) || !(bound >= 0) || bound != largest || !isfinite(2 * bound));
        REJECT_IF(f->dtype != F64 && (2 * bound > FLT_MAX || (double)(float)bound != bound));
    }
    return REF_OK;
}

static enum ref_status read_sections(const uint8_t *bytes, uint64_t length, struct ref_frame *f) {
    uint64_t last = 0;
    bool stream = false;
    for (uint64_t at = 0; at < length;) {
        const uint64_t type = ref_le(bytes + at, 4), body = ref_le(bytes + at + 4, 4);
        REJECT_IF(type <= last || body > length - at - 8);
        const uint64_t end = at + ref_pad16(8 + body);
        for (uint64_t i = at + 8 + body; i < end; i++) REJECT_IF(bytes[i]);
        if (type == 1) {
            TRY(read_stream(bytes + at + 8, body, f));
            stream = true;
        } else if (type == 2) {
            if (!ref_is_bounded(f)) return REF_NEWER;
            TRY(read_bound(bytes + at + 8, body, f));
        } else if (type == 3) {
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
    REJECT_IF(ref_is_bounded(f) && !f->bound_kind);
    REJECT_IF(stream && f->declares_base_hash != declares_base_hash(f));
    return REF_OK;
}

/* ---- What frames there are -------------------------------------------------------------------*/

static void note_codec(const struct ref_frame *f) {
    static const struct {
        const char *dtypes, *bases, *keys;
        uint32_t dtype, base;
    } lists[9] = {{NULL, NULL, NULL, 0, 0},
                  {"raw dtype", "raw base", "raw key", 0xFFFE, 1},
                  {"lossless dtype", "lossless base", "lossless key", 0xFFFE, 0xFFFF},
                  {"wdiff dtype", "wdiff base", "wdiff key", 0xE, 0xF},
                  {"grad dtype", "grad base", "grad key", 0xE, 1},
                  {"eb dtype", "eb base", "eb key", 0x1E, 1},
                  {"embed dtype", "embed base", "embed key", 0x1E, 1},
                  {"act dtype", "act base", "act key", 0x1E, 1},
                  {"kv dtype", "kv base", "kv key", 0xE, 0xF}};
    REF_CASE(lists[f->codec].dtypes, lists[f->codec].dtype, f->dtype);
    REF_CASE(lists[f->codec].bases, lists[f->codec].base, f->base_dtype);
    REF_CASE(lists[f->codec].keys, lists[f->codec].base > 1 ? 3 : 1, f->key);
    REF_CASE("dimensions", REF_UP_TO(8), f->ndim);
}

static void note_wdiff(const struct ref_frame *f) {
    const uint8_t *p = f->parameter;
    REF_CASE(p[4] ? "wdiff bits with entropy" : "wdiff bits", 0x15C, p[0]);
    REF_CASE("wdiff scale", 3, p[3]);
    if (f->key) REF_CASE("wdiff base of a key frame", 0xE, f->base_dtype);
}

static void note_grad(const struct ref_frame *f) {
    const uint8_t *p = f->parameter;
    REF_CASE("grad bits", 0x17C, p[0]);
    REF_CASE("grad rotation", 0x1E1, p[2]);
    REF_CASE("grad scale", 7, p[4]);
    REF_CASE("grad signs", 3, ref_le(p + 8, 4) != 0);
}

static void note_kv(const struct ref_frame *f) {
    const uint8_t *p = f->parameter;
    REF_CASE("kv axis and order", 0xF, 2 * p[0] + p[1]);
    REF_CASE("kv range and scale", 0x3F, 3 * p[5] + p[6]);
    REF_CASE("kv axis, range", 0xF, 2 * p[0] + p[5]);
    if (p[9])
        REF_CASE(p[9] == 1 ? "kv bits of nf" : "kv bits of lloyd", 0x1C, p[2]);
    else if (p[10])
        REF_CASE("kv bits with entropy", 0x17C, p[2]);
    else
        REF_CASE(p[5] ? "kv bits, symmetric" : "kv bits, asymmetric", 0x17C, p[2]);
    if (p[8]) REF_CASE("kv log2 of the rotation", 0x1E0, log2((double)f->dim_of_head));
    if (p[10]) REF_CASE("kv entropy: axis, range", 0xF, 2 * p[0] + p[5]);
    if (p[11]) REF_CASE("kv outliers: dtype", 0xE, f->dtype);
    if (p[11]) REF_CASE("kv outliers: axis, range", 0xF, 2 * p[0] + p[5]);
}

static void note(const struct ref_frame *f) {
    note_codec(f);
    if (f->codec == WDIFF) note_wdiff(f);
    if (f->codec == GRAD) note_grad(f);
    if (f->codec == KV) note_kv(f);
    if (ref_is_bounded(f))
        REF_CASE(f->bound_kind == 1 ? "absolute bound's dtype" : "relative bound's dtype", 0x1E,
                 f->dtype);
}

/* ---- All -------------------------------------------------------------------------------------*/

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
    if (bytes[11] > 7 || bytes[5] < RAW || bytes[5] > KV || bytes[6] > 1) return REF_NEWER;
    REJECT_IF(bytes[6] == 0);
    f->codec = bytes[5];
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
    TRY(read_shape(bytes, f));
    REJECT_IF(f->codec == KV && !ref_cut_pages(f));
    TRY(read_sections(bytes + header, sections, f));
    if (ref_is_bounded(f)) ref_cut_tiles(f);
    note(f);
    return check_payload(f);
}
