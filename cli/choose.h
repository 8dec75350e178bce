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
    bool requested;                  /* for loss, by -C or a rule, whatever came of it */
    bool finite;                     /* lossy, and what is not finite would be lost */
    const struct tensor *base;       /* NULL: none */
    const char *note;                /* why it is not what was requested; NULL: it is */
    char text[PITH_ERROR_TEXT + 64]; /* behind note, when it is put together */
};

/* The first --rule whose glob matches the name; else -C, where a lossy one counts for float
 * tensors of two or more dimensions only; else lossless. base may be NULL. Fails (said) when the
 * base has the tensor in another shape; another dtype counts as missing. */
int choose(const struct options *options, const struct tensor *tensor,
           const struct tensor_set *base, const char *base_path, struct choice *out);
/* Say which rules match no name of the set: a mistyped pattern would go unnoticed. */
void note_idle_rules(const struct options *options, const struct tensor_set *set);
/* What to do when a lossy codec cannot keep this tensor: lossless, still against the base. */
void choose_lossless(struct choice *choice, const char *note);
/* What to do when the codec makes the tensor no shorter. */
void choose_raw(struct choice *choice);
/* EXIT_USAGE (said) when a spec needs --base and there is none. */
int check_base_given(const struct options *options);
/* What the layouts of all frames in files say beyond their views. source may be NULL. */
pith_layout file_layout(const void *source, size_t source_bytes);
/* pith_compress_bound of a tensor's frame; base may be NULL. No value is read. */
pith_status frame_bound(const char *spec, const struct tensor *tensor, const struct tensor *base,
                        size_t source_bytes, uint64_t *bytes, pith_error *error);
/* The codec a canonical spec names. */
bool codec_of_spec(const char *spec, pith_codec_info *out);
/* A lossy codec that codes differences only. */
bool spec_needs_base(const char *spec);

#endif
