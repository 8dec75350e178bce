/* cmd_decompress.c - pith decompress: the original file back.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "progress.h"

struct task {
    const struct options *options;
    struct packed packed;
    struct decoder decoder;
    struct output out;
};

static const char frame_suffix[] = ".pith", container_suffix[] = ".pith.safetensors";

static bool ends_with(const char *text, const char *suffix) {
    const size_t n = strlen(text), m = strlen(suffix);
    return n > m && strcmp(text + n - m, suffix) == 0;
}

/* Returns IN without what compress added, with the suffix of the original format; NULL without a
 * rule. */
static char *default_name(const struct task *t) {
    const char *in = t->options->operands[0];
    const char *added = t->packed.container ? container_suffix : frame_suffix;
    const char *suffix = t->packed.container ? ".safetensors" : t->packed.has_npy ? ".npy" : "";
    if (!ends_with(in, added)) return NULL;
    char *name = malloc(strlen(in) + strlen(suffix) + 1);
    if (!name) return NULL;
    strcpy(name, in);
    name[strlen(in) - strlen(added)] = '\0';
    return ends_with(name, suffix) ? name : strcat(name, suffix);
}

/* Writes what stood before the values: a .npy header, or the length prefix and the JSON. */
static bool write_head(struct task *t) {
    uint8_t prefix[ST_PREFIX];
    struct packed_item item;
    const struct safetensors *inner = &t->packed.inner;
    if (t->packed.container) {
        for (int i = 0; i < ST_PREFIX; i++)
            prefix[i] = (uint8_t)((uint64_t)inner->text_bytes >> (8 * i));
        return output_write(&t->out, prefix, sizeof prefix) &&
               output_write(&t->out, inner->text, inner->text_bytes);
    }
    if (!t->packed.has_npy) return true;
    return packed_item(&t->packed, 0, &item) == EXIT_GOOD &&
           output_write(&t->out, item.info.source, item.info.source_bytes);
}

static int write_tensors(struct task *t) {
    int code = write_head(t) ? EXIT_GOOD : EXIT_FAILED;
    progress_begin(t->options->quiet, t->packed.raw_bytes);
    for (size_t i = 0; i < t->packed.count && code == EXIT_GOOD; i++) {
        struct packed_item item;
        code = packed_item(&t->packed, i, &item);
        if (code == EXIT_GOOD) code = decode(&t->decoder, &item);
        if (code == EXIT_GOOD &&
            !output_write(&t->out, t->decoder.values.bytes, (size_t)item.home.bytes))
            code = EXIT_FAILED;
        progress_advance(item.home.bytes);
    }
    progress_clear();
    return code;
}

static int write_file(struct task *t, const char *path) {
    if (output_same_file(path, t->packed.in.fd))
        return say_error(path_label(path, true), "is the input");
    if (t->options->base && output_same_path(path, t->options->base))
        return say_error(path_label(path, true), "is the base, which the input needs");
    int code = output_open(&t->out, path, t->options->force, false, t->packed.in.mode);
    if (code != EXIT_GOOD) return code;
    code = write_tensors(t);
    if (code == EXIT_GOOD && !output_commit(&t->out)) code = EXIT_FAILED;
    if (code != EXIT_GOOD) output_abandon(&t->out);
    return code;
}

static int decompress(struct task *t) {
    const struct options *o = t->options;
    int code = packed_open(&t->packed, o->operands[0]);
    if (code != EXIT_GOOD) return code;
    const bool from_stdin = strcmp(o->operands[0], "-") == 0;
    char *name = o->out || from_stdin ? NULL : default_name(t);
    const char *path = name ? name : o->out ? o->out : from_stdin ? "-" : NULL;
    t->decoder =
        (struct decoder){.packed = &t->packed, .base_path = o->base, .env = options_env(o)};
    if (!path)
        return say_error(o->operands[0],
                         "holds %s, but its name does not end in %s; give the output with -o",
                         t->packed.container ? "a container" : "a frame",
                         t->packed.container ? container_suffix : frame_suffix);
    code = packed_limit(&t->packed, o->max_output, &t->decoder.env);
    if (code == EXIT_GOOD) code = write_file(t, path);
    if (code == EXIT_GOOD && !o->quiet)
        say_note(false, t->packed.in.path, "restored %" PRIu64 " bytes to %s", t->out.written,
                 path_label(path, true));
    free(name);
    return code;
}

static int check_options(const struct options *o) {
    const char *in = o->operands[0], *why = NULL;
    if (!o->out && strcmp(in, "-") != 0 && !ends_with(in, frame_suffix) &&
        !ends_with(in, container_suffix))
        why = "the name does not end in .pith or .pith.safetensors; give the output with -o";
    if (o->base && strcmp(o->base, "-") == 0) why = "--base wants a file";
    if (!why) return EXIT_GOOD;
    say_error("decompress", "%s", why);
    return EXIT_USAGE;
}

int run_decompress(const struct options *options) {
    struct task t = {.options = options};
    int code = check_options(options);
    if (code == EXIT_GOOD) code = decompress(&t);
    decoder_free(&t.decoder);
    packed_close(&t.packed);
    return code;
}
