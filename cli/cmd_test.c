/* cmd_test.c - pith test: is a compressed file whole, and with --base, does it decode.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "progress.h"

static int verify(const struct packed *p, const struct packed_item *item, const pith_env *env) {
    pith_error error = {"", 0};
    const pith_status status = pith_verify(item->frame, item->bytes, env, &error);
    return status == PITH_OK ? EXIT_GOOD : say_status(p->in.path, item->name, status, &error);
}

static int test_item(struct decoder *d, size_t index, const pith_env *env) {
    struct packed_item item;
    int code = packed_item(d->packed, index, &item);
    if (code == EXIT_GOOD) code = verify(d->packed, &item, env);
    const bool based = item.info.base_dtype != PITH_NONE && !item.info.is_key;
    if (code == EXIT_GOOD && based && d->base_path) code = decode(d, &item);
    progress_advance(item.home.bytes);
    return code;
}

static void print_good(const char *path) {
    char *text = make_printable(path);
    if (text) printf("%s: ok\n", text);
    free(text);
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
    progress_begin(options->quiet, p.raw_bytes);
    for (size_t i = 0; i < p.count && code == EXIT_GOOD; i++) code = test_item(&d, i, &env);
    progress_clear();
    if (code == EXIT_GOOD && !options->quiet) print_good(p.in.path);
    decoder_free(&d);
    packed_close(&p);
    return code;
}
