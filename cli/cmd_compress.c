/* cmd_compress.c - pith compress: a tensor file to a frame or a container of frames.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "encode.h"
#include "packed.h"
#include "progress.h"
#include "report.h"

struct task {
    const struct options *options;
    struct tensor_set set, base;
    bool has_base;
    struct choice *choices;
    uint64_t *ends; /* where the frames end: upper bounds first, then the true ends */
    struct encoder encoder;
    struct output out;
    struct report report;
    size_t kept;  /* tensors that were to be coded with loss and are stored without */
    size_t based; /* tensors that were coded against the base */
};

/* ---- Reading ---------------------------------------------------------------------------------*/

static int check_base_format(const struct task *t) {
    if (t->set.format != FORMAT_SAFETENSORS && t->base.format == FORMAT_SAFETENSORS)
        return say_error(t->options->base, "the base is a .safetensors, the input is not");
    if (t->set.format == FORMAT_SAFETENSORS && t->base.format != FORMAT_SAFETENSORS)
        return say_error(t->options->base, "the input is a .safetensors, the base is not");
    return EXIT_GOOD;
}

/* Returns what is known of a base file: the dtype and shape of the input's only tensor, so that raw
 * bases can be read. */
static struct tensor_hint base_hint(const struct task *t) {
    struct tensor_hint hint = {0};
    if (t->set.format == FORMAT_SAFETENSORS) return hint;
    const struct tensor *only = &t->set.items[0];
    hint.dtype = only->dtype;
    hint.has_shape = t->set.format == FORMAT_RAW;
    hint.ndim = only->ndim;
    memcpy(hint.shape, only->shape, sizeof hint.shape);
    return hint;
}

static int open_inputs(struct task *t) {
    const struct options *o = t->options;
    int code = tensors_open(&t->set, o->operands[0], &o->hint, true);
    if (code == EXIT_GOOD && !o->force && t->set.format == FORMAT_SAFETENSORS &&
        packed_is(&t->set.in))
        code = say_error(t->set.in.path, "is already compressed by pith; -f compresses it again");
    if (code != EXIT_GOOD || !o->base) return code;
    const struct tensor_hint hint = base_hint(t);
    code = tensors_open(&t->base, o->base, &hint, false);
    t->has_base = code == EXIT_GOOD;
    if (code == EXIT_GOOD) code = check_base_format(t);
    return code == EXIT_GOOD ? packed_refuse(&t->base, &t->set.st) : code;
}

/* ---- Choosing --------------------------------------------------------------------------------*/

static size_t source_bytes(const struct task *t) {
    return t->set.format == FORMAT_NPY ? t->set.npy.header_bytes : 0;
}

static int choose_one(struct task *t, size_t i, uint64_t *bound) {
    const struct tensor *tensor = &t->set.items[i];
    const int code =
        choose(t->options, tensor, t->has_base ? &t->base : NULL, t->options->base, &t->choices[i]);
    if (code != EXIT_GOOD) return code;
    return encode_bound(t->set.in.path, tensor, &t->choices[i], source_bytes(t), bound);
}

static int choose_all(struct task *t) {
    t->choices = calloc(t->set.count + 1, sizeof *t->choices);
    t->ends = calloc(t->set.count + 1, sizeof *t->ends);
    if (!t->choices || !t->ends) return say_errno(t->set.in.path, "cannot compress");
    for (size_t i = 0; i < t->set.count; i++) {
        uint64_t bound = 0;
        const int code = choose_one(t, i, &bound);
        if (code != EXIT_GOOD) return code;
        t->ends[i] = (i ? t->ends[i - 1] : 0) + bound;
    }
    note_idle_rules(t->options, &t->set);
    return EXIT_GOOD;
}

/* ---- Writing ---------------------------------------------------------------------------------*/

static int write_frame(struct task *t, size_t i) {
    const struct tensor *tensor = &t->set.items[i];
    struct encoded frame = {0};
    const void *source = source_bytes(t) ? t->set.in.bytes : NULL;
    const int code = encode(&t->encoder, tensor, &t->choices[i], source, source_bytes(t), &frame);
    if (code != EXIT_GOOD) return code;
    if (!output_write(&t->out, frame.frame, frame.bytes)) return EXIT_FAILED;
    t->ends[i] = (i ? t->ends[i - 1] : 0) + frame.bytes;
    report_add(&t->report, tensor->name, &frame.info, frame.bound, frame.seconds);
    t->kept += t->choices[i].requested && !t->choices[i].lossy;
    t->based += frame.info.base_dtype != PITH_NONE;
    progress_advance(tensor->bytes);
    return EXIT_GOOD;
}

static int write_frames(struct task *t) {
    int code = EXIT_GOOD;
    progress_begin(t->options->quiet, t->set.bytes);
    for (size_t i = 0; i < t->set.count && code == EXIT_GOOD; i++) code = write_frame(t, i);
    progress_clear();
    return code;
}

/* Makes the header from the upper bounds of the frames' ends, so that it never has to grow
 * later. */
static uint8_t *make_header(const struct task *t, size_t least, size_t *length) {
    uint8_t *header = packed_header(&t->set, t->ends, least, length);
    if (!header) {
        say_errno(t->set.in.path, "cannot compress");
    } else if (*length - ST_PREFIX > ST_MAX_HEADER) {
        say_error(t->set.in.path, "the header would be longer than 100 MB");
        free(header);
        header = NULL;
    }
    return header;
}

static int write_container(struct task *t) {
    size_t capacity = 0, length = 0;
    uint8_t *header = make_header(t, 0, &capacity);
    if (!header) return EXIT_FAILED;
    const bool reserved = output_write(&t->out, header, capacity);
    free(header);
    const int code = reserved ? write_frames(t) : EXIT_FAILED;
    if (code != EXIT_GOOD) return code;
    header = make_header(t, capacity, &length);
    if (!header) return EXIT_FAILED;
    const bool good = length == capacity && output_rewrite(&t->out, 0, header, length);
    free(header);
    return good ? EXIT_GOOD : EXIT_FAILED;
}

static char *default_name(const struct task *t) {
    const char *in = t->options->operands[0];
    const char *suffix = t->set.format == FORMAT_SAFETENSORS ? ".pith.safetensors" : ".pith";
    if (t->options->out || strcmp(in, "-") == 0) return NULL;
    char *name = malloc(strlen(in) + strlen(suffix) + 1);
    if (name) strcat(strcpy(name, in), suffix);
    return name;
}

static int write_file(struct task *t, const char *path) {
    const bool container = t->set.format == FORMAT_SAFETENSORS;
    if (output_same_file(path, t->set.in.fd))
        return say_error(path_label(path, true), "is the input");
    if (t->has_base && output_same_file(path, t->base.in.fd))
        return say_error(path, "is the base, without which the result could not be read");
    int code = output_open(&t->out, path, t->options->force, container, t->set.in.mode);
    if (code != EXIT_GOOD) return code;
    code = container ? write_container(t) : write_frames(t);
    if (code == EXIT_GOOD && !output_commit(&t->out)) code = EXIT_FAILED;
    if (code != EXIT_GOOD) output_abandon(&t->out);
    return code;
}

/* ---- Reporting -------------------------------------------------------------------------------*/

static void summarize(const struct task *t, const char *path) {
    const struct report *r = &t->report;
    const double raw = (double)t->set.in.length, packed = (double)t->out.written;
    say_note(false, t->set.in.path,
             "%" PRIu64 " -> %" PRIu64 " bytes (%.1f %%), %zu tensor%s, %.2f GB/s, %s",
             (uint64_t)t->set.in.length, t->out.written, raw > 0 ? 100 * packed / raw : 0.0,
             t->set.count, t->set.count == 1 ? "" : "s",
             r->seconds > 0 ? 1e-9 * (double)r->raw_bytes / r->seconds : 0.0,
             path_label(path, true));
}

/* Says why tensors are not coded as asked. Of those whose kind is the reason only the first is
 * named, unless all are wanted; where values or a base are, each is. */
static void explain_choices(struct task *t) {
    const struct options *const o = t->options;
    for (size_t i = 0; i < t->set.count; i++) {
        const char *const note = t->choices[i].note, *const name = t->set.items[i].name;
        size_t more = 0;
        if (!note) continue;
        for (size_t k = i + 1; k < t->set.count && t->choices[i].by_kind && !o->verbose; k++) {
            struct choice *const other = &t->choices[k];
            if (!other->by_kind || !other->note || strcmp(other->note, note) != 0) continue;
            other->note = NULL;
            more++;
        }
        if (more)
            say_note(o->quiet, t->set.in.path, "%s and %zu more: %s", tensor_label(name).text, more,
                     note);
        else
            say_note(o->quiet, t->set.in.path, "%s: %s", tensor_label(name).text, note);
    }
}

static int compress(struct task *t) {
    const struct options *o = t->options;
    int code = open_inputs(t);
    if (code == EXIT_GOOD) code = choose_all(t);
    if (code != EXIT_GOOD) return code;
    char *name = default_name(t);
    const char *path = name ? name : o->out ? o->out : "-";
    report_begin(&t->report, o->json, !o->json);
    t->encoder = (struct encoder){.path = t->set.in.path, .env = options_env(o)};
    code = write_file(t, path);
    if (code == EXIT_GOOD) explain_choices(t);
    if (code == EXIT_GOOD && o->verbose && !o->json) {
        report_end(&t->report, stderr, t->out.written);
    } else if (code == EXIT_GOOD) {
        if (!o->quiet) summarize(t, path);
        if (o->json) report_end(&t->report, stdout, t->out.written);
    }
    if (code == EXIT_GOOD && t->has_base && !t->based)
        say_note(o->quiet, o->base, "has no effect: no tensor is coded against it");
    if (code == EXIT_GOOD && o->quiet && t->kept)
        say_note(false, t->set.in.path, "%zu of %zu tensors stored without the loss asked for",
                 t->kept, t->set.count);
    free(name);
    return code;
}

static int check_options(const struct options *o) {
    const bool to_stdout = o->out ? output_is_stdout(o->out) : strcmp(o->operands[0], "-") == 0;
    const char *why = NULL;
    if (o->spec_count > 1) why = "-C was given twice";
    if (o->json && to_stdout) why = "--json and the output cannot both go to standard output";
    if (o->base && strcmp(o->base, "-") == 0) why = "--base wants a file";
    if (!why) {
        const int code = check_base_given(o);
        return code == EXIT_GOOD ? check_file_specs(o) : code;
    }
    say_error("compress", "%s", why);
    return EXIT_USAGE;
}

int run_compress(const struct options *options) {
    struct task t = {.options = options};
    int code = check_options(options);
    if (code == EXIT_GOOD) code = compress(&t);
    report_free(&t.report);
    encoder_free(&t.encoder);
    free(t.choices);
    free(t.ends);
    tensors_close(&t.base);
    tensors_close(&t.set);
    return code;
}
