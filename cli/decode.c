/* decode.c - one frame of a compressed file back to the bytes of the original file.
 * SPDX-License-Identifier: Apache-2.0 */
#include "decode.h"

#include <string.h>

static int open_bases(struct decoder *d, const struct packed_item *item) {
    struct tensor_hint hint = {.dtype = item->info.base_dtype, .ndim = item->info.ndim};
    if (d->bases_open) return EXIT_GOOD;
    hint.has_shape = !d->packed->container;
    memcpy(hint.shape, item->info.shape, sizeof hint.shape);
    const int code = tensors_open(&d->bases, d->base_path, &hint, false);
    d->bases_open = code == EXIT_GOOD;
    return code == EXIT_GOOD ? packed_refuse(&d->bases, &d->packed->inner) : code;
}

/* Finds the base's view, when the frame needs one. */
static int find_base(struct decoder *d, const struct packed_item *item, pith_view *view) {
    const struct label label = tensor_label(item->name);
    const char *path = d->packed->in.path, *name = label.text;
    if (!d->base_path)
        return say_error(path, "%s: needs the base it was compressed against; use --base", name);
    const int code = open_bases(d, item);
    if (code != EXIT_GOOD) return code;
    const struct tensor *base = tensors_find(&d->bases, item->name);
    if (!base) return say_error(d->base_path, "the base has no tensor %s", name);
    if (base->dtype != item->info.base_dtype)
        return say_error(d->base_path, "%s: the base is of another dtype, %s instead of %s", name,
                         pith_dtype_name(base->dtype), pith_dtype_name(item->info.base_dtype));
    if (!tensor_same_shape(base, &item->home))
        return say_other_shape(d->base_path, base, &item->home);
    const void *values = tensor_values(base, &d->base);
    if (!values) return EXIT_FAILED;
    *view = tensor_view(base, values);
    return EXIT_GOOD;
}

int decode(struct decoder *d, const struct packed_item *item) {
    const struct tensor *home = &item->home;
    const bool based = item->info.base_dtype != PITH_NONE && !item->info.is_key;
    pith_view base = {0};
    pith_error error = {.size = sizeof error};
    if (based) {
        const int code = find_base(d, item, &base);
        if (code != EXIT_GOOD) return code;
    }
    if (!scratch_reserve(&d->values, home->bytes)) return EXIT_FAILED;
    const pith_view view = tensor_view(home, d->values.bytes);
    const pith_status status =
        pith_decompress(item->frame, item->bytes, based ? &base : NULL, &d->env, &view, &error);
    if (status != PITH_OK) return say_status(d->packed->in.path, item->name, status, &error);
    if (home->swapped) swap_items(d->values.bytes, tensor_count(home), home->item_bytes);
    return EXIT_GOOD;
}

void decoder_free(struct decoder *d) {
    if (d->bases_open) tensors_close(&d->bases);
    scratch_free(&d->values);
    tensor_memory_free(&d->base);
}
