/* grad.c - codec grad: rotated, group-quantized gradients that sums are formed of.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: SDP4Bit (NeurIPS 2024), sections 3.2 and 3.3: two levels, Hadamard smoothing;
 * error feedback as in LoCo (TPAMI 2025) and EF-SGD (ICML 2019); shifted rounding across ranks is
 * antithetic sampling. Sums stay in the rotated domain: the transform is linear. The quantizer is
 * group/group.c, the rotation group/hadamard.c. */
#include <string.h>

#include "codec.h"
#include "common/pad.h"
#include "device_plan.h"
#include "group/group_coder.h"

enum { PRESET, BITS, GROUP, ROTATE, ROUND, SCALE_DTYPE, SEARCH, EF, SIGN_SEED, BLOCK, CODEBOOK };
enum { NEAREST, STOCHASTIC, ANTITHETIC };

static const struct pithi_key keys[] = {
    [PRESET] = {"preset", PITHI_KEY_WORD, 0, 0, 1, 0, PITHI_WIRE_NONE, "inter|intra",
                "hop of the two-level scheme: bits=4 across nodes, bits=8 inside", false},
    [BITS] = {"bits", PITHI_KEY_NUMBER, 4, 2, 8, 0x17C, 0, "2,3,4,5,6,8", "bits per code", false},
    [GROUP] = {"group", PITHI_KEY_POW2, 128, 32, 4096, 0, 1, "32..4096, a power of two",
               "elements that share a scale", false},
    [ROTATE] = {"rotate", PITHI_KEY_POW2, 32, 0, 256, 0x1E1, 2, "0,32,64,128,256, at most group",
                "order of the Hadamard transform; 0: none", false},
    [ROUND] = {"round", PITHI_KEY_WORD, 0, 0, 2, 0, 3, "nearest|stochastic|antithetic",
               "rounding of codes", true},
    [SCALE_DTYPE] = {"scale_dtype", PITHI_KEY_WORD, 0, 0, 2, 0, 4, "f32|bf16|e8m0",
                     "dtype of the scales", false},
    [SEARCH] =
        {"search", PITHI_KEY_WORD, 0, 0, 1, 0, 5, "none|mse",
         "scale from the largest value, or searched for the least error: the latter by default "
         "at 2 and 3 bits with round=nearest",
         true},
    [EF] = {"ef", PITHI_KEY_FEEDBACK, 0, 0, 1000, 0, PITHI_WIRE_NONE, "none|full|ema:0.W",
            "error feedback: what is lost is added to the next step", false},
    [SIGN_SEED] = {"sign_seed", PITHI_KEY_NUMBER, 0, 0, UINT32_MAX, 0, 8, "0..4294967295",
                   "seed of random signs before the transform; 0: none", false},
    [BLOCK] = {"block", PITHI_KEY_POW2, 16384, 32, 1u << PITHI_BLOCK_LOG2_MAX, 0, PITHI_WIRE_BLOCK,
               "32..16777216, a power of two, at least group", "elements per block", false},
    [CODEBOOK] = {"codebook", PITHI_KEY_WORD, 0, 0, 1, 0, 6, "uniform|trellis",
                  "what codes mean: steps, or levels along paths through a trellis", false},
};

/* With two or three bits most values of a group lie below half a step of the scale that its largest
 * value asks for: they decode to 0 or to twice and more of what they are. A searched scale clips
 * that value and loses a fraction of the error. Rounding at random stays with the plain scale: it
 * is unbiased only where nothing is clipped. */
static void preset(uint32_t value[PITHI_KEYS_MAX], uint32_t seen) {
    if (seen >> PRESET & 1 && !(seen >> BITS & 1)) value[BITS] = value[PRESET] ? 8 : 4;
    value[PRESET] = keys[PRESET].initial;
    if (!(seen >> SEARCH & 1))
        value[SEARCH] = value[BITS] <= 3 && value[ROUND] == NEAREST && !value[CODEBOOK];
}

/* Fills in the setting in its final place: pithi_group_job_open says why. */
static inline void set(struct pithi_group_setting *s, const struct pithi_params *p) {
    static const uint8_t scales[] = {PITH_F32, PITH_BF16, PITHI_E8M0};
    memset(s, 0, sizeof *s);
    s->group = p->value[GROUP];
    s->bits = (uint8_t)p->value[BITS];
    s->scale_dtype = scales[p->value[SCALE_DTYPE]];
    s->stochastic = p->value[ROUND] != NEAREST;
    s->search = p->value[SEARCH] == 1;
    s->codebook = p->value[CODEBOOK] ? PITHI_CODEBOOK_TRELLIS : PITHI_CODEBOOK_NONE;
}

static struct pithi_group_setting setting(const struct pithi_params *p) {
    struct pithi_group_setting s;
    set(&s, p);
    return s;
}

static struct pithi_rotation rotation(const struct pithi_params *p) {
    return (struct pithi_rotation){p->value[ROTATE], p->value[SIGN_SEED]};
}

/* ---- Sizes -----------------------------------------------------------------------------------*/

static pith_status check(const struct pithi_params *p, const char **detail) {
    if (p->block < p->value[GROUP]) {
        *detail = "block is smaller than group";
    } else if (p->value[GROUP] < p->value[ROTATE]) {
        *detail = "group is smaller than rotate";
    } else if (p->value[SEARCH] && p->value[ROUND] != NEAREST) {
        *detail = "search=mse needs round=nearest";
    } else if (p->value[SIGN_SEED] && !p->value[ROTATE]) {
        *detail = "signs need rotate";
    } else if (p->value[CODEBOOK] && p->value[BITS] > 4) {
        *detail = "codebook=trellis has 2 to 4 bits";
    } else if (p->value[CODEBOOK] && (p->value[ROUND] != NEAREST || p->value[SEARCH])) {
        *detail = "codebook=trellis needs round=nearest and search=none";
    } else if (p->value[CODEBOOK] && p->value[SCALE_DTYPE] == 2) {
        *detail = "codebook=trellis needs scale_dtype=f32 or bf16";
    } else {
        return PITH_OK;
    }
    return PITH_ERR_SPEC;
}

static bool fixed(const struct pithi_params *p) {
    (void)p;
    return true;
}

static uint64_t block_bytes(const struct pithi_params *p, uint64_t count) {
    const struct pithi_group_setting s = setting(p);
    return pithi_group_block_bytes(&s, count);
}

static size_t chunk_of(const struct pithi_params *p) {
    return p->most < PITHI_CHUNK ? p->most : PITHI_CHUNK;
}

/* Returns the bytes of a rotated chunk and, with error feedback, of what it decodes to. */
static size_t scratch_bytes(const struct pithi_params *p) {
    const size_t chunk = (size_t)pithi_pad64(chunk_of(p) * sizeof(float));
    return p->value[EF] ? 2 * chunk : chunk;
}

static float *first_scratch(const struct pithi_block *b) { return b->scratch; }
static float *second_scratch(const struct pithi_block *b) {
    return first_scratch(b) + pithi_pad64(chunk_of(b->params) * sizeof(float)) / sizeof(float);
}

/* ---- Codes of a chunk ------------------------------------------------------------------------*/

static struct pithi_group_job job_of(const struct pithi_block *b, size_t at, size_t count) {
    const struct pithi_params *p = b->params;
    struct pithi_group_job job;
    pithi_group_job_open(&job, b->random);
    set(&job.set, p);
    job.count = count;
    if (p->value[ROUND] != ANTITHETIC) job.random.shift = 0;
    job.scales = b->bytes + pithi_group_scale_bytes(&job.set, at);
    job.codes =
        b->bytes + pithi_group_codes_at(&job.set, b->count) + pithi_group_code_bytes(&job.set, at);
    job.first = b->first + at;
    return job;
}

static void encode_codes(struct pithi_block *b, size_t at, size_t count, const void *x,
                         uint32_t dtype, const void *prefetch) {
    struct pithi_group_job job = job_of(b, at, count);
    job.value = x;
    job.value_dtype = dtype;
    job.prefetch = prefetch;
    job.nontemporal = b->nontemporal && !b->feedback.before;
    pithi_group_encoder(b->kernels, &job.set)(&job);
    b->poisoned += job.poisoned;
}

static void decode_codes(struct pithi_block *b, size_t at, size_t count, void *out,
                         uint32_t dtype) {
    struct pithi_group_job job = job_of(b, at, count);
    job.out = out;
    job.out_dtype = dtype;
    job.nontemporal = b->nontemporal && out == b->out; /* a rotated chunk is read again at once */
    pithi_group_decoder(b->kernels, &job.set)(&job);
    b->poisoned += job.poisoned;
    b->saturated += job.saturated;
}

static void clear_padding(struct pithi_block *b) {
    const struct pithi_group_setting s = setting(b->params);
    const size_t scales = pithi_group_scale_bytes(&s, b->count);
    const size_t codes = pithi_group_code_bytes(&s, b->count);
    const size_t begin = pithi_group_codes_at(&s, b->count);
    b->length = pithi_group_block_bytes(&s, b->count);
    memset(b->bytes + scales, 0, begin - scales);
    memset(b->bytes + begin + codes, 0, b->length - begin - codes);
}

/* ---- Error feedback --------------------------------------------------------------------------*/

/* Mixes what encoding x lost with what was lost before. x holds values with the residual added. */
static void keep_loss(struct pithi_block *b, size_t at, size_t count, const float *x) {
    float *const decoded = second_scratch(b);
    const float *const before = b->feedback.before + at;
    float *const after = b->feedback.after + at;
    const uint32_t ef = b->params->value[EF];
    const float decay = (float)(ef - 1) / 1000.0f, gain = (float)(1001 - ef) / 1000.0f;
    struct pithi_group_job job = job_of(b, at, count);
    job.out = decoded;
    job.out_dtype = PITH_F32;
    pithi_group_decoder(b->kernels, &job.set)(&job);
    for (size_t i = 0; i < count; i++) {
        const float lost = x[i] - decoded[i];
        const float next = ef == 1 ? lost : decay * before[i] + gain * lost;
        after[i] = pithi_nonfinite(pithi_bits(next)) ? before[i] : next;
    }
}

/* Encodes a chunk. prefetch points at the values in memory that are read after x. */
static void put_chunk(struct pithi_block *b, size_t at, size_t count, float *x,
                      const void *prefetch) {
    if (b->feedback.before)
        for (size_t i = 0; i < count; i++) x[i] += b->feedback.before[at + i];
    encode_codes(b, at, count, x, PITH_F32, prefetch);
    if (b->feedback.before) keep_loss(b, at, count, x);
}

static void put(struct pithi_block *b, size_t at, size_t count, float *x) {
    put_chunk(b, at, count, x, NULL);
    if (at + count == b->count) clear_padding(b);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

static void encode_chunk(struct pithi_block *b, size_t at, size_t count) {
    const uint32_t dtype = b->params->dtype;
    const struct pithi_rotation r = rotation(b->params), none = {0};
    const void *values = (const uint8_t *)b->value + at * pithi_dtype_bytes(dtype);
    float *const x = first_scratch(b);
    if (b->exempt_values) {
        pithi_exempt_values_take(b->exempt_values, b->first + at, count, values, dtype);
        b->kernels->rotate(&none, x, values, dtype, count, 0);
        pithi_exempt_values_clear(b->exempt_values, b->first + at, count, x);
        b->kernels->rotate(&r, x, x, PITH_F32, count, b->first + at);
    } else {
        b->kernels->rotate(&r, x, values, dtype, count, b->first + at);
    }
    put_chunk(b, at, count, x, (const uint8_t *)values + count * pithi_dtype_bytes(dtype));
}

/* Encodes from the values, without a copy of rotated ones, as much of the block as kernels can from
 * its beginning. Returns how many elements that is. */
static size_t encode_direct(struct pithi_block *b) {
    const struct pithi_rotation r = rotation(b->params);
    struct pithi_group_job job = job_of(b, 0, b->count);
    size_t done = b->count;
    if (b->exempt_values || b->feedback.before) return 0;
    job.value = b->value;
    job.value_dtype = b->params->dtype;
    job.prefetch = b->next_value;
    job.nontemporal = b->nontemporal;
    if (r.order)
        done = b->kernels->rotate_encode(&r, &job);
    else
        pithi_group_encoder(b->kernels, &job.set)(&job);
    b->poisoned += job.poisoned;
    return done;
}

static pith_status encode(struct pithi_block *b) {
    for (size_t at = encode_direct(b); at < b->count; at += PITHI_CHUNK)
        encode_chunk(b, at, b->count - at < PITHI_CHUNK ? b->count - at : PITHI_CHUNK);
    clear_padding(b);
    return PITH_OK;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static void leave(const struct pithi_block *b, size_t at, size_t count, float *x, void *to,
                  uint32_t dtype, float scale) {
    const struct pithi_rotation r = rotation(b->params);
    pithi_unrotate_fn *const fn =
        b->nontemporal ? b->kernels->unrotate_nontemporal : b->kernels->unrotate;
    fn(&r, to, dtype, x, count, b->first + at, scale);
}

static pith_status decode(struct pithi_block *b) {
    const size_t width = pithi_dtype_bytes(b->out_dtype);
    if (!b->params->value[ROTATE]) decode_codes(b, 0, b->count, b->out, b->out_dtype);
    for (size_t at = 0; at < b->count && b->params->value[ROTATE]; at += PITHI_CHUNK) {
        const size_t count = b->count - at < PITHI_CHUNK ? b->count - at : PITHI_CHUNK;
        float *const x = first_scratch(b);
        decode_codes(b, at, count, x, PITH_F32);
        leave(b, at, count, x, (uint8_t *)b->out + at * width, b->out_dtype, 1.0f);
    }
    if (b->exempt_values)
        pithi_exempt_values_put(b->exempt_values, b->first, b->count, b->out, b->out_dtype);
    return PITH_OK;
}

/* ---- Sums ------------------------------------------------------------------------------------*/

static bool alike(const struct pithi_params *a, const struct pithi_params *b) {
    return a->value[ROTATE] == b->value[ROTATE] && a->value[SIGN_SEED] == b->value[SIGN_SEED];
}

static void sum(struct pithi_block *b, size_t at, size_t count, const uint8_t *const *frames,
                size_t frame_count, bool more, float *x) {
    struct pithi_sum_job job;
    set(&job.set, b->params);
    job.count = count;
    job.frames = frames;
    job.frame_count = frame_count;
    job.scales_at = pithi_group_scale_bytes(&job.set, at);
    job.codes_at = pithi_group_codes_at(&job.set, b->count) + pithi_group_code_bytes(&job.set, at);
    job.more = more;
    job.sum = x;
    job.saturated = job.poisoned = 0;
    if (job.set.codebook)
        pithi_trellis_sum(&job, b->kernels->trellis_decode);
    else
        b->kernels->group_sum(&job);
    b->poisoned += job.poisoned;
    b->saturated += job.saturated;
}

static void enter(const struct pithi_block *b, size_t at, size_t count, float *x) {
    const struct pithi_rotation r = rotation(b->params);
    b->kernels->rotate(&r, x, x, PITH_F32, count, b->first + at);
}

static uint32_t transform_length(const struct pithi_params *p) {
    return p->value[ROTATE] ? p->value[ROTATE] : 1;
}

static const struct pithi_domain domain = {.alike = alike,
                                           .sum = sum,
                                           .leave = leave,
                                           .enter = enter,
                                           .length = transform_length,
                                           .put = put};

/* ---- Bound -----------------------------------------------------------------------------------*/

/* The inverse transform takes means of the errors of codes, and both transforms round. */
static double bound(const struct pithi_block *b) {
    const struct pithi_params *p = b->params;
    const struct pithi_group_setting s = setting(p);
    if (b->length < pithi_group_scale_bytes(&s, b->count)) return -1;
    const double group = pithi_group_bound(&s, b->bytes, b->count);
    double stages = 0, root = 2;
    for (uint32_t order = p->value[ROTATE]; order > 1; order /= 2) stages++;
    for (uint32_t order = p->value[ROTATE]; order > 1; order /= 4) root *= 2;
    return group * (1 + (double)(1 << p->value[BITS]) * stages * root * 0x1p-22);
}

static struct pithi_stream_setting stream_setting(const struct pithi_params *p) {
    return (struct pithi_stream_setting){.feedback = p->value[EF]};
}

static uint8_t frame_revision(const struct pithi_params *p) { return p->value[CODEBOOK] ? 2 : 1; }

static bool describe(const struct pithi_params *p, struct pithi_device *d) {
    struct pithi_groups *const g = &d->groups;
    d->kind = PITHI_KIND_GROUPS;
    g->set = setting(p);
    g->rotation = rotation(p);
    g->antithetic = p->value[ROUND] == ANTITHETIC;
    g->domain = true;
    if (g->set.codebook) pithi_trellis_init(&g->trellis, g->set.bits);
    if (g->set.search) memcpy(g->factors, pithi_search_factors(&g->set), sizeof g->factors);
    return true;
}

static const struct pithi_former former[] = {
    {"level", "preset", ""},
    {"mode", "search", ", with the values none and mse"},
    {"signs", "sign_seed", ""},
    {"scale", "scale_dtype", ""},
};

const struct pithi_codec pithi_codec_grad = {
    .id = 4,
    .revision = 2,
    .frame_revision = frame_revision,
    .name = "grad",
    .summary = "rotated, group-quantized gradients (SDP4Bit TLq-HS) for sums across ranks",
    .traits = PITH_TRAIT_FIXED_RATE | PITH_TRAIT_EXEMPT,
    .dtypes = 1u << PITH_F32 | 1u << PITH_BF16 | 1u << PITH_F16,
    .keys = keys,
    .key_count = sizeof keys / sizeof *keys,
    .former = former,
    .former_count = sizeof former / sizeof *former,
    .stream_keys = 1u << EF,
    .preset = preset,
    .check = check,
    .fixed = fixed,
    .block_bytes = block_bytes,
    .scratch_bytes = scratch_bytes,
    .encode = encode,
    .decode = decode,
    .bound = bound,
    .stream_setting = stream_setting,
    .describe = describe,
    .later_keys = 1u << CODEBOOK,
    .described_keys = 1u << ROUND | 1u << SEARCH,
    .domain = &domain,
};
