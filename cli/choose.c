/* choose.c - which codec a tensor gets, and whether against the base.
 * SPDX-License-Identifier: Apache-2.0 */
#include "choose.h"

#include <stdio.h>
#include <string.h>

#include "glob.h"
#include "packed.h"

bool codec_of_spec(const char *spec, pith_codec_info *out) {
    const size_t n = strcspn(spec, ":");
    out->size = sizeof *out;
    for (uint32_t i = 0; pith_codec_at(i, out) == PITH_OK; i++)
        if (strlen(out->name) == n && memcmp(out->name, spec, n) == 0) return true;
    return false;
}

static uint32_t traits_of(const char *spec) {
    pith_codec_info info;
    return codec_of_spec(spec, &info) ? info.traits : 0;
}

/* Whether the spec names a lossy codec that codes differences only. */
static bool spec_needs_base(const char *spec) { return traits_of(spec) & PITH_TRAIT_UPDATE; }

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

pith_layout file_layout(const void *source, size_t source_bytes) {
    return (pith_layout){.size = sizeof(pith_layout),
                         .flags = PITH_LAYOUT_CHECKSUMS,
                         .source = source,
                         .source_bytes = source_bytes};
}

pith_status frame_bound(const char *spec, const struct tensor *tensor, const struct tensor *base,
                        size_t source_bytes, uint64_t *bytes, pith_error *error) {
    static const uint8_t any[1];
    const pith_layout layout = file_layout(source_bytes ? any : NULL, source_bytes);
    const pith_view view = tensor_view(tensor, NULL);
    const pith_view base_view = base ? tensor_view(base, NULL) : view;
    return pith_compress_bound(spec, &view, base ? &base_view : NULL, &layout, bytes, error);
}

/* Whether the library can code the tensor with this spec, which its own tables decide. When it
 * cannot for the dtype, shape or base, error->text says why, else it is empty; any other failure is
 * said and returned. */
static int can_code(const char *spec, const struct tensor *tensor, const struct tensor *base,
                    pith_error *error) {
    uint64_t bytes;
    *error = (pith_error){.size = sizeof *error};
    const pith_status status = frame_bound(spec, tensor, base, 0, &bytes, error);
    switch (status) {
    case PITH_OK:
    case PITH_ERR_DTYPE:
    case PITH_ERR_SHAPE:
    case PITH_ERR_UNSUPPORTED: return EXIT_GOOD;
    case PITH_ERR_SPEC: return say_bad_spec(spec, error);
    default: return say_status(tensor->in->path, tensor->name, status, error);
    }
}

static bool matches(const struct rule *rule, const struct tensor *tensor) {
    return glob_match(rule->glob, tensor->name);
}

void note_idle_rules(const struct options *options, const struct tensor_set *set) {
    for (size_t i = 0; i < options->rule_count; i++) {
        const struct rule *rule = &options->rules[i];
        size_t at = 0;
        while (at < set->count && !matches(rule, &set->items[at])) at++;
        if (at == set->count)
            say_note(options->quiet, NULL, "rule '%s=%s' matches no tensor", rule->glob,
                     rule->spec);
    }
}

static bool is_float(uint32_t dtype) {
    return dtype == PITH_F32 || dtype == PITH_BF16 || dtype == PITH_F16 || dtype == PITH_F64;
}

/* Sets the spec that was requested, before it is known whether it can be had. */
static void wanted(const struct options *options, const struct tensor *tensor, struct choice *out) {
    *out = (struct choice){.spec = SPEC_LOSSLESS};
    for (size_t i = 0; i < options->rule_count; i++)
        if (matches(&options->rules[i], tensor)) {
            out->spec = options->rules[i].spec;
            out->requested = !(traits_of(out->spec) & PITH_TRAIT_LOSSLESS);
            return;
        }
    if (options->spec_count == 0) return;
    const char *spec = options->specs[0];
    out->requested = !(traits_of(spec) & PITH_TRAIT_LOSSLESS);
    /* Norms and biases of a model, not what is a file by itself. */
    const bool small = tensor->rank < 2 && *tensor->name;
    out->by_kind = out->requested && (!is_float(tensor->dtype) || small);
    if (out->requested && !is_float(tensor->dtype))
        out->note = "is of no float dtype; stored lossless";
    else if (out->requested && small)
        out->note = "has fewer than two dimensions; stored lossless, since no --rule names it";
    else
        out->spec = spec;
}

void choose_lossless(struct choice *choice, const char *note) {
    choice->spec = SPEC_LOSSLESS;
    choice->lossy = false;
    choice->note = note;
}

void choose_raw(struct choice *choice) {
    if (choice->lossy) choice->note = "would become no shorter; stored as it is";
    choice->spec = SPEC_RAW;
    choice->lossy = false;
    choice->base = NULL;
}

/* Finds the tensor's counterpart in the base: *match is NULL, with the reason in *why, when the
 * base has none of its dtype. */
static int find_match(const struct tensor *tensor, const struct tensor_set *base,
                      const char *base_path, const struct tensor **match, const char **why) {
    *match = tensors_find(base, tensor->name);
    *why = "not in the base";
    if (!*match) return EXIT_GOOD;
    *why = "of another dtype in the base";
    const bool same = (*match)->dtype == tensor->dtype && (*match)->opaque == tensor->opaque;
    if ((*match)->opaque == tensor->opaque && !tensor_same_shape(tensor, *match))
        return say_other_shape(base_path, *match, tensor);
    if (!same) *match = NULL;
    return EXIT_GOOD;
}

static void note(struct choice *choice, const char *why, const char *outcome) {
    snprintf(choice->text, sizeof choice->text, "%s; %s", why, outcome);
    choice->note = choice->text;
}

static void note_missing(struct choice *choice, const char *why) {
    note(choice, why, choice->requested ? "stored lossless without it" : "stored without it");
    if (choice->lossy) choice->spec = SPEC_LOSSLESS;
    choice->lossy = false;
}

/* Chooses for a tensor that the codec refused: the spec as requested but without the base, where
 * the tensor can be coded so; else lossless. */
static int choose_fallback(const struct tensor *tensor, const char *why, struct choice *out) {
    pith_error still;
    if (out->lossy && out->base && !spec_needs_base(out->spec)) {
        const int code = can_code(out->spec, tensor, NULL, &still);
        if (code != EXIT_GOOD) return code;
        if (!*still.text) {
            out->base = NULL;
            note(out, why, "stored without it");
            return EXIT_GOOD;
        }
        why = still.text;
    }
    if (!out->lossy) {
        out->base = NULL;
        return EXIT_GOOD;
    }
    choose_lossless(out, NULL);
    note(out, why, "stored lossless");
    return EXIT_GOOD;
}

int choose(const struct options *options, const struct tensor *tensor,
           const struct tensor_set *base, const char *base_path, struct choice *out) {
    const struct tensor *match = NULL;
    const char *why = NULL;
    wanted(options, tensor, out);
    const uint32_t traits = traits_of(out->spec);
    out->lossy = !(traits & PITH_TRAIT_LOSSLESS);
    out->finite = out->lossy && !(traits & PITH_TRAIT_BOUND);
    int code = base ? find_match(tensor, base, base_path, &match, &why) : EXIT_GOOD;
    if (code != EXIT_GOOD) return code;
    if (traits & PITH_TRAIT_BASE) out->base = match;
    if (base && !match && (traits & PITH_TRAIT_BASE)) {
        note_missing(out, why);
        return EXIT_GOOD;
    }
    pith_error error = {.size = sizeof error};
    if (out->lossy || out->base) code = can_code(out->spec, tensor, out->base, &error);
    return code == EXIT_GOOD && *error.text ? choose_fallback(tensor, error.text, out) : code;
}
