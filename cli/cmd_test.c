/* cmd_test.c - pith test: is a compressed file whole, and with --base, does it decode.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "progress.h"

static int verify(const struct packed *p, const struct packed_item *item, const pith_env *env) {
    pith_error error = {.size = sizeof error};
    const pith_status status = pith_verify(item->frame, item->bytes, env, &error);
    return status == PITH_OK ? EXIT_GOOD : say_status(p->in.path, item->name, status, &error);
}

struct counts {
    size_t undecoded, unsummed;
};

static int test_item(struct decoder *d, size_t index, struct counts *counts) {
    struct packed_item item;
    int code = packed_item(d->packed, index, &item);
    if (code == EXIT_GOOD) code = verify(d->packed, &item, &d->env);
    if (code != EXIT_GOOD) return code;
    const bool based = item.info.base_dtype != PITH_NONE && !item.info.is_key;
    if (based && d->base_path) code = decode(d, &item);
    counts->undecoded += based && !d->base_path;
    counts->unsummed += !item.info.has_checksums;
    progress_advance(item.home.bytes);
    return code;
}

/* Prints the verdict. A bare "ok" is for a file that will decode, and would not if a bit had
 * flipped. */
static void print_good(const struct packed *p, const struct counts *counts) {
    char *path = make_printable(p->in.path);
    const size_t all = p->count;
    if (!path) return;
    printf("%s: %s", path, counts->undecoded || counts->unsummed ? "no damage found" : "ok");
    if (counts->undecoded)
        printf("; %zu of %zu tensors not checked: needs its base (--base)", counts->undecoded, all);
    if (counts->unsummed) printf("; %zu of %zu without checksums", counts->unsummed, all);
    putchar('\n');
    free(path);
}

static int test_all(struct decoder *d, bool quiet) {
    struct counts counts = {0};
    int code = EXIT_GOOD;
    progress_begin(quiet, d->packed->raw_bytes);
    for (size_t i = 0; i < d->packed->count && code == EXIT_GOOD; i++)
        code = test_item(d, i, &counts);
    progress_clear();
    if (code != EXIT_GOOD) return code;
    if (!quiet) print_good(d->packed, &counts);
    if (quiet && counts.undecoded) say_error(d->packed->in.path, "not checked: needs its base");
    return counts.undecoded ? EXIT_UNCHECKED : EXIT_GOOD;
}

int run_test(const struct options *options) {
    struct packed p;
    pith_env env = options_env(options);
    if (options->base && strcmp(options->base, "-") == 0) {
        say_error("test", "--base wants a file");
        return EXIT_USAGE;
    }
    int code = packed_open(&p, options->operands[0]);
    if (code != EXIT_GOOD) return code;
    code = packed_limit(&p, options->max_output, &env);
    struct decoder d = {.packed = &p, .base_path = options->base, .env = env};
    if (code == EXIT_GOOD) code = test_all(&d, options->quiet);
    decoder_free(&d);
    packed_close(&p);
    return code;
}
