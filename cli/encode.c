/* encode.c - one tensor to one frame.
 * SPDX-License-Identifier: Apache-2.0 */
#include "encode.h"

#include <math.h>
#include <string.h>

#include "packed.h"
#include "progress.h"

/* ---- Non-finite values -----------------------------------------------------------------------*/

/* Whether any item has exponent bits that are all ones. Branch-free, so that compilers use
 * vectors. */
#define ANY(bits)                                                                     \
    static bool any_##bits(const void *values, uint64_t count, uint##bits##_t mask) { \
        const uint8_t *at = values;                                                   \
        unsigned found = 0;                                                           \
        for (uint64_t i = 0; i < count; i++, at += bits / 8) {                        \
            uint##bits##_t v;                                                         \
            memcpy(&v, at, sizeof v);                                                 \
            found |= (v & mask) == mask;                                              \
        }                                                                             \
        return found != 0;                                                            \
    }
ANY(16)
ANY(32)
ANY(64)

static bool any_nonfinite(const struct tensor *t, const void *values) {
    const uint64_t count = tensor_count(t);
    switch (t->dtype) {
    case PITH_F32: return any_32(values, count, 0x7F800000u);
    case PITH_F64: return any_64(values, count, UINT64_C(0x7FF0000000000000));
    case PITH_BF16: return any_16(values, count, 0x7f80);
    case PITH_F16: return any_16(values, count, 0x7c00);
    default: return false;
    }
}

/* ---- Frames ----------------------------------------------------------------------------------*/

static int spec_bound(const char *path, const char *spec, const struct tensor *tensor,
                      const struct tensor *base, size_t source_bytes, uint64_t *bytes) {
    pith_error error = {.size = sizeof error};
    const pith_status status = frame_bound(spec, tensor, base, source_bytes, bytes, &error);
    return status == PITH_OK ? EXIT_GOOD : say_status(path, tensor->name, status, &error);
}

int encode_bound(const char *path, const struct tensor *tensor, const struct choice *choice,
                 size_t source_bytes, uint64_t *bytes) {
    const char *const others[] = {SPEC_RAW, choice->lossy ? SPEC_LOSSLESS : SPEC_RAW};
    int code = spec_bound(path, choice->spec, tensor, choice->base, source_bytes, bytes);
    for (int i = 0; i < 2 && code == EXIT_GOOD; i++) {
        const bool raw = strcmp(others[i], SPEC_RAW) == 0;
        uint64_t other = 0;
        code = spec_bound(path, others[i], tensor, raw ? NULL : choice->base, source_bytes, &other);
        if (other > *bytes) *bytes = other;
    }
    return code;
}

static int encode_as(struct encoder *e, const struct tensor *tensor, const struct choice *choice,
                     const pith_layout *layout, const void *values, struct encoded *out) {
    const pith_view view = tensor_view(tensor, values);
    pith_view base = {0};
    pith_error error = {.size = sizeof error};
    if (choice->base) {
        const void *old = tensor_values(choice->base, &e->base);
        if (!old) return EXIT_FAILED;
        base = tensor_view(choice->base, old);
    }
    const double begun = clock_seconds();
    pith_status status =
        pith_compress(choice->spec, &view, choice->base ? &base : NULL, layout, &e->env,
                      e->frame.bytes, e->frame.capacity, &out->bytes, &error);
    out->seconds += clock_seconds() - begun;
    out->frame = e->frame.bytes;
    out->info.size = sizeof out->info;
    if (status == PITH_OK) status = pith_inspect(out->frame, out->bytes, &out->info, &error);
    if (status == PITH_OK) status = pith_error_bound(out->frame, out->bytes, &out->bound, &error);
    return status == PITH_OK ? EXIT_GOOD : say_status(e->path, tensor->name, status, &error);
}

/* Stores a tensor raw when its codec makes it no shorter, which also decodes faster and needs no
 * base; so it does where a few bytes saved would cost more in the rest of the frame. */
static int encode_shorter(struct encoder *e, const struct tensor *tensor, struct choice *choice,
                          const pith_layout *layout, const void *values, struct encoded *out) {
    uint64_t plain = 0;
    if (strcmp(out->info.codec_name, SPEC_RAW) == 0) return EXIT_GOOD;
    const uint64_t payload = out->bytes - out->info.header_bytes;
    const int code =
        spec_bound(e->path, SPEC_RAW, tensor, NULL, (size_t)layout->source_bytes, &plain);
    const bool shorter = plain >= out->bytes && payload < tensor->bytes;
    if (code != EXIT_GOOD || shorter) return code;
    choose_raw(choice);
    return encode_as(e, tensor, choice, layout, values, out);
}

/* Whether a lossy frame lost what it should have kept: its bound is not finite when a finite value
 * and a finite base are too far apart for f32, when the sums that a rotation forms are too large,
 * or when a frame has a set without values. One of rows' largest values has them all, but states no
 * bound on those that it leaves out. */
static bool loses_values(const struct encoded *out) {
    const bool leaves_out = out->info.value_bits && isinf(out->bound);
    return !isfinite(out->bound) && !leaves_out;
}

int encode(struct encoder *e, const struct tensor *tensor, struct choice *choice,
           const void *source, size_t source_bytes, struct encoded *out) {
    uint64_t bound = 0;
    const void *values = tensor_values(tensor, &e->values);
    if (!values) return EXIT_FAILED;
    if (choice->lossy && choice->finite && any_nonfinite(tensor, values))
        choose_lossless(choice, "holds NaN or infinity; stored lossless");
    int code = encode_bound(e->path, tensor, choice, source_bytes, &bound);
    if (code != EXIT_GOOD) return code;
    if (!scratch_reserve(&e->frame, bound)) return EXIT_FAILED;
    const pith_layout layout = file_layout(source, source_bytes);
    code = encode_as(e, tensor, choice, &layout, values, out);
    if (code == EXIT_GOOD && choice->lossy && loses_values(out)) {
        choose_lossless(choice, out->info.sent && !out->info.value_bits
                                    ? "would lose all values but their places; stored lossless"
                                : choice->base
                                    ? "its difference to the base overflows; stored lossless"
                                    : "overflows in the codec; stored lossless");
        code = encode_as(e, tensor, choice, &layout, values, out);
    }
    if (code != EXIT_GOOD) return code;
    return encode_shorter(e, tensor, choice, &layout, values, out);
}

void encoder_free(struct encoder *e) {
    scratch_free(&e->frame);
    tensor_memory_free(&e->values);
    tensor_memory_free(&e->base);
}
