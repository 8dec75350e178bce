/* wdiff.c - codec wdiff: group-quantized weight differences against the receivers' own base.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: SDP4Bit (NeurIPS 2024), section 3.1, with the difference taken in f32. Both ends apply
 * the same decoded difference to the same base, so replicas stay bit-identical and the error of
 * one step is part of the next difference (closed loop). The quantizer is group/group.c. */
#include <string.h>

#include "bytes/block_pieces.h"
#include "bytes/entropy.h"
#include "codec.h"
#include "common/convert.h"
#include "common/pad.h"
#include "device_plan.h"
#include "group/code_symbols.h"
#include "group/group_coder.h"

enum { BITS, GROUP, ROUND, SCALE_DTYPE, ENTROPY, BASE_HASH, KEY_EVERY, BLOCK, EFFORT, CODEBOOK };
enum { NONE, ZSTD, RANS }; /* values of ENTROPY */

static const struct pithi_key keys[] = {
    [BITS] = {"bits", PITHI_KEY_NUMBER, 4, 2, 8, 0x15C, 0, "2,3,4,6,8", "bits per code", false},
    [GROUP] = {"group", PITHI_KEY_POW2, 2048, 16, 16384, 0, 1, "16..16384, a power of two",
               "elements that share a scale", false},
    [ROUND] = {"round", PITHI_KEY_WORD, 0, 0, 1, 0, 2, "nearest|stochastic", "rounding of codes",
               true},
    [SCALE_DTYPE] = {"scale_dtype", PITHI_KEY_WORD, 0, 0, 1, 0, 3, "f32|bf16",
                     "dtype of the scales", false},
    [ENTROPY] = {"entropy", PITHI_KEY_WORD, NONE, NONE, RANS, 0, 4, "none|zstd|rans",
                 "entropy coding of the codes, for files", false},
    [BASE_HASH] = {"base_hash", PITHI_KEY_WORD, 0, 0, 1, 0, 5, "on|off",
                   "carry and compare the hash of the base", false},
    [KEY_EVERY] = {"key_every", PITHI_KEY_NUMBER, 0, 0, UINT32_MAX, 0, PITHI_WIRE_NONE,
                   "0..4294967295", "make every step divisible by this a key frame; 0: none",
                   false},
    [BLOCK] = {"block", PITHI_KEY_POW2, 16384, 16, 1u << PITHI_BLOCK_LOG2_MAX, 0, PITHI_WIRE_BLOCK,
               "16..16777216, a power of two, at least group", "elements per block", false},
    [EFFORT] = {"effort", PITHI_KEY_NUMBER, 3, PITHI_EFFORT_MIN, PITHI_EFFORT_MAX, 0,
                PITHI_WIRE_NONE, "1..22", "effort of entropy=zstd", false},
    [CODEBOOK] = {"codebook", PITHI_KEY_WORD, 0, 0, 1, 0, 6, "uniform|trellis",
                  "what codes mean: steps, or levels along paths through a trellis", false},
};

static const struct pithi_need needs[] = {
    {EFFORT, ENTROPY, ZSTD, "has no effect without entropy=zstd"},
};

/* Fills in the setting in its final place: pithi_group_job_open says why. */
static inline void set(struct pithi_group_setting *s, const struct pithi_params *p) {
    memset(s, 0, sizeof *s);
    s->group = p->value[GROUP];
    s->bits = (uint8_t)p->value[BITS];
    s->scale_dtype = p->value[SCALE_DTYPE] ? PITH_BF16 : PITH_F32;
    s->stochastic = p->value[ROUND] == 1;
    s->codebook = p->value[CODEBOOK] ? PITHI_CODEBOOK_TRELLIS : PITHI_CODEBOOK_NONE;
}

static struct pithi_group_setting setting(const struct pithi_params *p) {
    struct pithi_group_setting s;
    set(&s, p);
    return s;
}

/* ---- Sizes -----------------------------------------------------------------------------------*/

static pith_status check(const struct pithi_params *p, const char **detail) {
    if (p->base_dtype != PITH_NONE && !pithi_is_float16_32(p->base_dtype)) {
        *detail = "wdiff takes a base of dtype f32, bf16 or f16";
        return PITH_ERR_DTYPE;
    }
    if (p->block < p->value[GROUP]) {
        *detail = "block is smaller than group";
        return PITH_ERR_SPEC;
    }
    if (p->value[CODEBOOK] && p->value[BITS] > 4) {
        *detail = "codebook=trellis has 2 to 4 bits";
        return PITH_ERR_SPEC;
    }
    if (p->value[CODEBOOK] && p->value[ROUND]) {
        *detail = "codebook=trellis needs round=nearest";
        return PITH_ERR_SPEC;
    }
    return PITH_OK;
}

static bool fixed(const struct pithi_params *p) { return p->key_frame || !p->value[ENTROPY]; }

static uint64_t block_bytes(const struct pithi_params *p, uint64_t count) {
    if (p->key_frame) return count * pithi_dtype_bytes(p->base_dtype);
    const struct pithi_group_setting s = setting(p);
    return pithi_group_block_bytes(&s, count);
}

static bool one_to_a_byte(const struct pithi_params *p) {
    return pithi_codes_take_bytes(p->value[ENTROPY] == RANS, p->value[BITS]);
}

static size_t symbol_bytes(const struct pithi_params *p, size_t count) {
    const struct pithi_group_setting s = setting(p);
    return one_to_a_byte(p) ? count : pithi_group_code_bytes(&s, count);
}

static size_t scratch_bytes(const struct pithi_params *p) {
    if (!p->value[ENTROPY]) return 0;
    const struct pithi_group_setting s = setting(p);
    return pithi_pad64(pithi_group_code_bytes(&s, p->most)) + pithi_pad64(symbol_bytes(p, p->most));
}

static size_t coder_bytes(const struct pithi_params *p) {
    if (!p->value[ENTROPY]) return 0;
    const int effort = p->value[ENTROPY] == RANS ? PITHI_EFFORT_RANS
                       : p->decode_only          ? PITHI_EFFORT_NONE
                                                 : (int)p->value[EFFORT];
    return pithi_entropy_bytes(symbol_bytes(p, p->most), effort);
}

/* ---- Groups, in chunks that stay in the first-level cache for the hash that follows ----------*/

static size_t chunk_of(const struct pithi_block *b) {
    const struct pithi_params *p = b->params;
    if (!b->base || p->value[BASE_HASH]) return p->block; /* no hash follows */
    return p->value[GROUP] > 4096 ? p->value[GROUP] : 4096;
}

static uint64_t hash_base(const struct pithi_block *b, const uint8_t *base, uint64_t at,
                          size_t count) {
    const size_t element = pithi_dtype_bytes(b->params->base_dtype);
    if (!base || b->params->value[BASE_HASH]) return 0;
    return b->kernels->nh(base, count * element, (b->first + at) * element / 8);
}

/* Sets the place of `count` elements from `at` on. */
static void place(struct pithi_group_job *job, const struct pithi_block *b, uint8_t *scales,
                  uint8_t *codes, size_t at, size_t count) {
    const struct pithi_params *p = b->params;
    job->count = count;
    job->value = b->value ? (const uint8_t *)b->value + at * pithi_dtype_bytes(p->dtype) : NULL;
    job->out = b->out ? (uint8_t *)b->out + at * pithi_dtype_bytes(b->out_dtype) : NULL;
    job->base = b->base ? (uint8_t *)b->base + at * pithi_dtype_bytes(p->base_dtype) : NULL;
    job->scales = scales + pithi_group_scale_bytes(&job->set, at);
    job->codes = codes + pithi_group_code_bytes(&job->set, at);
    job->first = b->first + at;
}

/* Encodes and hashes what a kernel does in one pass; returns how many elements. */
static size_t encode_hashed(struct pithi_block *b, struct pithi_group_job *job, uint8_t *scales,
                            uint8_t *codes) {
    uint64_t hash = 0;
    if (!b->update || job->set.codebook) return 0;
    place(job, b, scales, codes, 0, b->count);
    const size_t done = b->kernels->encode_hashed(job, &hash);
    if (!b->params->value[BASE_HASH]) b->hash += hash;
    return done;
}

static void run_groups(struct pithi_block *b, bool encode, uint8_t *scales, uint8_t *codes) {
    const struct pithi_params *p = b->params;
    const size_t chunk = chunk_of(b);
    struct pithi_group_job job;
    pithi_group_job_open(&job, b->random);
    job.random.shift = 0; /* ranks differ with round=antithetic only */
    set(&job.set, p);
    pithi_group_fn *const kernel = encode ? pithi_group_encoder(b->kernels, &job.set)
                                          : pithi_group_decoder(b->kernels, &job.set);
    job.prefetch = b->next_value;
    job.prefetch_base = b->next_base;
    job.value_dtype = p->dtype;
    job.out_dtype = b->out_dtype;
    job.base_dtype = p->base_dtype;
    job.update = b->update;
    job.nontemporal = b->nontemporal;
    for (size_t at = encode ? encode_hashed(b, &job, scales, codes) : 0; at < b->count;
         at += chunk) {
        place(&job, b, scales, codes, at, b->count - at < chunk ? b->count - at : chunk);
        kernel(&job);
        b->hash += hash_base(b, job.base, at, job.count);
    }
    b->saturated += job.saturated;
    b->poisoned += job.poisoned;
}

/* ---- Key frames: the new base itself ---------------------------------------------------------*/

static void encode_key(struct pithi_block *b) {
    const struct pithi_params *p = b->params;
    b->length = (size_t)block_bytes(p, b->count);
    b->saturated += pithi_convert_finite(b->bytes, p->base_dtype, b->value, p->dtype, b->count);
    if (b->update) memcpy(b->base, b->bytes, b->length);
    b->hash += hash_base(b, b->base, 0, b->count);
}

static void decode_key(struct pithi_block *b) {
    if (b->update) memcpy(b->base, b->bytes, b->length);
    if (b->out) pithi_convert(b->out, b->out_dtype, b->bytes, b->params->base_dtype, b->count);
    b->hash += hash_base(b, b->base, 0, b->count);
}

/* ---- Entropy coding --------------------------------------------------------------------------*/

struct coding {
    struct pithi_group_setting set;
    size_t scales, codes, symbols; /* in bytes */
    uint8_t *code_buffer, *symbol_buffer;
};

/* Fills in c in its final place, as set() does. */
static void open_coding(struct coding *c, const struct pithi_block *b) {
    set(&c->set, b->params);
    c->scales = pithi_group_codes_at(&c->set, b->count);
    c->codes = pithi_group_code_bytes(&c->set, b->count);
    c->symbols = symbol_bytes(b->params, b->count);
    c->code_buffer = b->scratch;
    c->symbol_buffer =
        c->code_buffer + pithi_pad64(pithi_group_code_bytes(&c->set, b->params->most));
}

/* Returns the bytes of a coded string; 0 where it would not be shorter than packed codes. */
static size_t put_zstd(struct pithi_block *b, const struct coding *c) {
    const uint8_t *symbols = c->code_buffer;
    if (one_to_a_byte(b->params)) {
        pithi_codes_to_symbols(c->set.bits, c->code_buffer, b->count, c->symbol_buffer);
        symbols = c->symbol_buffer;
    }
    return pithi_entropy_pack(b->coder, (int)b->params->value[EFFORT], symbols, c->symbols,
                              b->bytes + c->scales, c->codes);
}

static struct pithi_code_strings strings_of(const struct pithi_block *b, const struct coding *c) {
    return (struct pithi_code_strings){
        .at = c->code_buffer, .count = 1, .codes = b->count, .bits = c->set.bits};
}

/* Codes the block's codes by rANS, as put_zstd does by zstd. */
static size_t put_rans(struct pithi_block *b, const struct coding *c) {
    const struct pithi_code_strings s = strings_of(b, c);
    struct pithi_pen pen =
        pithi_block_pen(b, b->bytes + c->scales, c->codes - 1, PITHI_EFFORT_RANS, NULL);
    if (!pithi_codes_put(&pen, &s, c->symbol_buffer)) return 0;
    return (size_t)(pen.at - (b->bytes + c->scales));
}

static void encode_entropy(struct pithi_block *b) {
    struct coding c;
    open_coding(&c, b);
    memset(b->bytes, 0, c.scales);
    run_groups(b, true, b->bytes, c.code_buffer);
    const size_t coded = b->params->value[ENTROPY] == RANS ? put_rans(b, &c) : put_zstd(b, &c);
    b->plain = coded == 0;
    b->length = c.scales + (b->plain ? c.codes : coded);
    if (b->plain) memcpy(b->bytes + c.scales, c.code_buffer, c.codes);
}

static pith_status corrupt(struct pithi_block *b, const char *detail) {
    b->detail = detail;
    return PITH_ERR_CORRUPT;
}

static const char *take_zstd(struct pithi_block *b, const struct coding *c, const uint8_t *coded,
                             size_t length) {
    uint8_t *const symbols = one_to_a_byte(b->params) ? c->symbol_buffer : c->code_buffer;
    if (!pithi_entropy_unpack(b->coder, coded, length, symbols, c->symbols))
        return "the codes do not decompress";
    if (one_to_a_byte(b->params) &&
        pithi_symbols_to_codes(c->set.bits, symbols, b->count, c->code_buffer) >> c->set.bits)
        return "a code is out of range";
    return NULL;
}

static const char *take_rans(struct pithi_block *b, const struct coding *c, const uint8_t *coded,
                             size_t length) {
    const struct pithi_code_strings s = strings_of(b, c);
    struct pithi_reader r = pithi_block_reader(b, coded, length, NULL);
    const char *const fault = pithi_codes_take(&r, &s, c->symbol_buffer);
    return fault || !r.left ? fault : "bytes after the codes";
}

static pith_status decode_entropy(struct pithi_block *b) {
    struct coding c;
    open_coding(&c, b);
    if (b->length < c.scales) return corrupt(b, "the block is shorter than its scales");
    const uint8_t *coded = b->bytes + c.scales;
    const size_t length = b->length - c.scales;
    if (b->plain) {
        if (length != c.codes) return corrupt(b, "plain codes of a wrong length");
        memcpy(c.code_buffer, coded, c.codes);
    } else {
        const char *const fault = b->params->value[ENTROPY] == RANS
                                      ? take_rans(b, &c, coded, length)
                                      : take_zstd(b, &c, coded, length);
        if (fault) return corrupt(b, fault);
    }
    run_groups(b, false, b->bytes, c.code_buffer);
    return PITH_OK;
}

/* ---- The codec -------------------------------------------------------------------------------*/

static pith_status encode(struct pithi_block *b) {
    if (b->params->key_frame) {
        encode_key(b);
    } else if (b->params->value[ENTROPY]) {
        encode_entropy(b);
    } else {
        const struct pithi_group_setting s = setting(b->params);
        const size_t scales = pithi_group_scale_bytes(&s, b->count);
        const size_t codes_at = (size_t)pithi_pad16(scales);
        const size_t end = codes_at + pithi_group_code_bytes(&s, b->count);
        b->length = (size_t)pithi_pad16(end);
        if (scales < codes_at) memset(b->bytes + scales, 0, codes_at - scales);
        if (end < b->length) memset(b->bytes + end, 0, b->length - end);
        run_groups(b, true, b->bytes, b->bytes + codes_at);
    }
    return PITH_OK;
}

static pith_status decode(struct pithi_block *b) {
    if (!b->params->key_frame && b->params->value[ENTROPY]) return decode_entropy(b);
    if (b->params->key_frame) {
        decode_key(b);
    } else {
        const struct pithi_group_setting s = setting(b->params);
        run_groups(b, false, b->bytes, b->bytes + pithi_group_codes_at(&s, b->count));
    }
    return PITH_OK;
}

static double bound(const struct pithi_block *b) {
    if (b->params->key_frame) return 0;
    const struct pithi_group_setting s = setting(b->params);
    if (b->length < pithi_group_scale_bytes(&s, b->count)) return -1;
    return pithi_group_bound(&s, b->bytes, b->count);
}

static struct pithi_stream_setting stream_setting(const struct pithi_params *p) {
    return (struct pithi_stream_setting){.base_hash = !p->value[BASE_HASH],
                                         .key_every = p->value[KEY_EVERY]};
}

static uint8_t frame_revision(const struct pithi_params *p) {
    return p->value[CODEBOOK] || p->value[ENTROPY] == RANS ? 2 : 1;
}

/* Devices take no setting with key_every: the host does not know the step that a device is at, nor
 * so which steps are key frames. */
static bool describe(const struct pithi_params *p, struct pithi_device *d) {
    d->kind = PITHI_KIND_GROUPS;
    d->groups.set = setting(p);
    d->coded = p->value[ENTROPY] == RANS;
    if (d->groups.set.codebook) pithi_trellis_init(&d->groups.trellis, d->groups.set.bits);
    return p->value[ENTROPY] != ZSTD && !p->value[KEY_EVERY];
}

static const struct pithi_former former[] = {
    {"scale", "scale_dtype", ""},
    {"identity", "base_hash", ""},
    {"key", "key_every", ""},
    {"level", "effort", ""},
};

const struct pithi_codec pithi_codec_wdiff = {
    .id = 3,
    .revision = 2,
    .frame_revision = frame_revision,
    .name = "wdiff",
    .summary = "weight differences, group-quantized (SDP4Bit)",
    .traits = PITH_TRAIT_FIXED_RATE | PITH_TRAIT_BASE | PITH_TRAIT_UPDATE,
    .dtypes = 1u << PITH_F32 | 1u << PITH_BF16 | 1u << PITH_F16,
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .former = former,
    .former_count = sizeof former / sizeof *former,
    .needs = needs,
    .need_count = sizeof needs / sizeof needs[0],
    .stream_keys = 1u << KEY_EVERY,
    .check = check,
    .fixed = fixed,
    .block_bytes = block_bytes,
    .scratch_bytes = scratch_bytes,
    .coder_bytes = coder_bytes,
    .open_coder = pithi_entropy_open,
    .encode = encode,
    .decode = decode,
    .stream_setting = stream_setting,
    .describe = describe,
    .later_keys = 1u << CODEBOOK,
    .described = "devices code wdiff without entropy=zstd and key_every",
    .described_keys = 1u << ROUND,
    .bound = bound,
};
