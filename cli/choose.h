/* choose.h - which codec a tensor gets, and whether against the base.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_CHOOSE_H
#define PITH_CLI_CHOOSE_H

#include "options.h"
#include "tensors.h"

#define SPEC_LOSSLESS "lossless"
#define SPEC_RAW "raw"

struct choice {
    const char *spec;
    bool lossy;
    bool requested;                  /* -C or a rule asked for a lossy codec, whatever came of it */
    bool finite;                     /* the lossy codec would not keep values that are not finite */
    const struct tensor *base;       /* the tensor's counterpart in the base; NULL: none */
    const char *note;                /* why the choice is not what was requested; NULL: it is */
    bool by_kind;                    /* the reason is the tensor's dtype or rank */
    char text[PITH_ERROR_TEXT + 64]; /* memory of a note that is put together */
};

/* Chooses for one tensor: the first --rule whose glob matches the name; else -C, where a lossy one
 * counts for float tensors only, and of those with names for such of two or more dimensions; else
 * lossless. base may be NULL. Fails (said) when the base has the tensor in another shape; another
 * dtype counts as missing. */
int choose(const struct options *options, const struct tensor *tensor,
           const struct tensor_set *base, const char *base_path, struct choice *out);
/* Says which rules match no name of the set: a mistyped pattern would go unnoticed. */
void note_idle_rules(const struct options *options, const struct tensor_set *set);
/* Makes the choice lossless, still against the base, for a tensor that a lossy codec cannot
 * keep. */
void choose_lossless(struct choice *choice, const char *note);
/* Makes the choice raw, for a tensor that its codec makes no shorter. */
void choose_raw(struct choice *choice);
/* Returns EXIT_USAGE (said) when a spec needs --base and there is none. */
int check_base_given(const struct options *options);
/* Returns what the layouts of all frames in files say beyond their views. source may be NULL. */
pith_layout file_layout(const void *source, size_t source_bytes);
/* Does pith_compress_bound for a tensor's frame; base may be NULL. No value is read. */
pith_status frame_bound(const char *spec, const struct tensor *tensor, const struct tensor *base,
                        size_t source_bytes, uint64_t *bytes, pith_error *error);
/* Finds the codec that a canonical spec names. */
bool codec_of_spec(const char *spec, pith_codec_info *out);

#endif
