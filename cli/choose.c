/* choose.c - which codec a tensor gets, and whether against the base.
 * SPDX-License-Identifier: Apache-2.0 */
#include "choose.h"

#include <fnmatch.h>
#include <string.h>

bool codec_of_spec(const char *spec, pith_codec_info *out) {
    const size_t n = strcspn(spec, ":");
    for (uint32_t i = 0; pith_codec_at(i, out) == PITH_OK; i++)
        if (strlen(out->name) == n && memcmp(out->name, spec, n) == 0) return true;
    return false;
}

static uint32_t traits_of(const char *spec) {
    pith_codec_info info;
    return codec_of_spec(spec, &info) ? info.traits : 0;
}

bool spec_needs_base(const char *spec) {
    const uint32_t traits = traits_of(spec);
    return (traits & PITH_TRAIT_BASE) && !(traits & PITH_TRAIT_LOSSLESS);
}

int check_base_given(const struct options *options) {
    const char *needy = NULL;
    for (size_t i = 0; i < options->rule_count; i++)
        if (spec_needs_base(options->rules[i].spec)) needy = options->rules[i].spec;
    for (size_t i = 0; i < options->spec_count; i++)
        if (spec_needs_base(options->specs[i])) needy = options->specs[i];
    if (!needy || options->base) return EXIT_GOOD;
    say_error(NULL, "'%s' codes differences and needs --base", needy);
    return EXIT_USAGE;
}

pith_layout layout_of(const struct tensor *tensor, const struct tensor *base) {
    pith_layout layout = {.size = sizeof layout,
                          .dtype = tensor->dtype,
                          .base_dtype = base ? base->dtype : PITH_NONE,
                          .ndim = tensor->ndim,
                          .flags = PITH_LAYOUT_CHECKSUMS};
    memcpy(layout.shape, tensor->shape, sizeof layout.shape);
    return layout;
}

/* Whether the library codes this dtype so: its own tables decide. */
static bool can_code(const char *spec, const struct tensor *tensor, const struct tensor *base) {
    const pith_layout layout = layout_of(tensor, base);
    uint64_t bytes;
    return pith_compress_bound(spec, &layout, &bytes, NULL) == PITH_OK;
}

static bool is_float(uint32_t dtype) {
    return dtype == PITH_F32 || dtype == PITH_BF16 || dtype == PITH_F16 || dtype == PITH_F64;
}

/* Sets the spec that was asked for, before it is known whether it can be had. */
static void wanted(const struct options *options, const struct tensor *tensor, struct choice *out) {
    *out = (struct choice){.spec = SPEC_LOSSLESS};
    for (size_t i = 0; i < options->rule_count; i++)
        if (fnmatch(options->rules[i].glob, tensor->name, 0) == 0) {
            out->spec = options->rules[i].spec;
            return;
        }
    if (options->spec_count == 0) return;
    const char *spec = options->specs[0];
    const bool exempt = tensor->rank < 2 || !is_float(tensor->dtype);
    if ((traits_of(spec) & PITH_TRAIT_LOSSLESS) || !exempt) out->spec = spec;
}

void choose_lossless(const struct tensor *tensor, struct choice *choice, const char *note) {
    choice->spec = SPEC_LOSSLESS;
    choice->lossy = false;
    choice->note = note;
    if (choice->base && !can_code(choice->spec, tensor, choice->base)) choice->base = NULL;
}

static int check_match(const struct tensor *tensor, const struct tensor *base,
                       const char *base_path) {
    if (!tensor_same_shape(tensor, base))
        return say_error(base_path, "%s: the base has another shape", tensor_label(tensor->name));
    if (tensor->dtype != base->dtype)
        return say_error(base_path, "%s: the base is %s, the tensor %s", tensor_label(tensor->name),
                         pith_dtype_name(base->dtype), pith_dtype_name(tensor->dtype));
    return EXIT_GOOD;
}

int choose(const struct options *options, const struct tensor *tensor,
           const struct tensor_set *base, const char *base_path, struct choice *out) {
    const struct tensor *match = base ? tensors_find(base, tensor->name) : NULL;
    wanted(options, tensor, out);
    const uint32_t traits = traits_of(out->spec);
    out->lossy = !(traits & PITH_TRAIT_LOSSLESS);
    if (match) {
        const int code = check_match(tensor, match, base_path);
        if (code != EXIT_GOOD) return code;
    }
    if (traits & PITH_TRAIT_BASE) out->base = match;
    const bool missing = base && !match && (traits & PITH_TRAIT_BASE);
    if (missing && out->lossy)
        choose_lossless(tensor, out, "not in the base; stored lossless without it");
    else if (missing)
        out->note = "not in the base; stored without it";
    else if (out->lossy && !can_code(out->spec, tensor, out->base))
        choose_lossless(tensor, out, "the codec does not take this dtype; stored lossless");
    else if (out->base && !can_code(out->spec, tensor, out->base))
        out->base = NULL;
    return EXIT_GOOD;
}
