/* packed.c - opens compressed files and checks all but the payloads.
 * SPDX-License-Identifier: Apache-2.0 */
#include "packed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int say_status(const char *path, const char *name, pith_status status, const pith_error *error) {
    const struct label label = tensor_label(name);
    const char *tensor = label.text;
    switch (status) {
    case PITH_ERR_BASE:
        return say_error(path, "%s: the base differs from the one it was compressed against",
                         tensor);
    case PITH_ERR_NEWER: return say_error(path, "%s: %s", tensor, error->text);
    case PITH_ERR_TRUNCATED:
    case PITH_ERR_CORRUPT:
    case PITH_ERR_CHECKSUM:
        return say_error(path, "%s: damaged: %s (byte %" PRIu64 " of its frame)", tensor,
                         error->text, error->offset);
    case PITH_ERR_MEMORY: return say_error(path, "%s: out of memory", tensor);
    default: return say_error(path, "%s: %s (%s)", tensor, error->text, pith_status_name(status));
    }
}

/* ---- A bare frame ----------------------------------------------------------------------------*/

/* Takes the frame's own dtype and shape for the tensor's: the original file was raw. */
static void home_from_frame(struct tensor *home, const pith_info *info) {
    struct st_dtype dtype = {"", pith_dtype_name(info->dtype),
                             (uint32_t)pith_dtype_bytes(info->dtype) * 8};
    struct st_tensor entry = {.name = "",
                              .dtype = &dtype,
                              .ndim = info->ndim,
                              .shape = (uint64_t *)(uintptr_t)info->shape,
                              .end = info->raw_bytes};
    tensor_from_safetensors(home, &entry);
}

static bool agrees(const struct tensor *home, const pith_info *info) {
    return home->dtype == info->dtype && home->ndim == info->ndim &&
           home->bytes == info->raw_bytes &&
           memcmp(home->shape, info->shape, home->ndim * sizeof *home->shape) == 0;
}

/* Checks a frame, of which out->bytes of `length` bytes are there. */
static int check_item(const struct packed *p, struct packed_item *out, uint64_t length) {
    pith_error error = {.size = sizeof error};
    out->info.size = sizeof out->info;
    const pith_status status = pith_inspect(out->frame, out->bytes, &out->info, &error);
    if (status == PITH_ERR_MAGIC && !p->container)
        return say_error(p->in.path, "not a file that pith compressed");
    if (status == PITH_ERR_TRUNCATED && out->info.header_bytes > length)
        return say_error(p->in.path,
                         "%s: damaged: the header is cut short: found %" PRIu64
                         " bytes, expected at least %" PRIu64,
                         tensor_label(out->name).text, length, out->info.header_bytes);
    if (status != PITH_OK) return say_status(p->in.path, out->name, status, &error);
    if (out->info.frame_bytes > length)
        return say_error(p->in.path,
                         "%s: damaged: the frame is cut short: found %" PRIu64
                         " bytes, expected %" PRIu64,
                         tensor_label(out->name).text, length, out->info.frame_bytes);
    if (out->info.frame_bytes < length)
        return say_error(p->in.path, "%s: damaged: bytes follow the frame",
                         tensor_label(out->name).text);
    return EXIT_GOOD;
}

static int bare_item(const struct packed *p, struct packed_item *out) {
    *out = (struct packed_item){.name = "", .frame = p->in.bytes, .bytes = p->in.mapped};
    const int code = check_item(p, out, out->bytes);
    if (code != EXIT_GOOD) return code;
    if (p->has_npy)
        tensor_from_npy(&out->home, &p->npy, out->info.dtype);
    else
        home_from_frame(&out->home, &out->info);
    if (!agrees(&out->home, &out->info))
        return say_error(p->in.path, "damaged: the frame does not fit the .npy header in it");
    return EXIT_GOOD;
}

/* Takes the frame's whole header, then as much as it says that the frame has. */
static bool take_frame(struct input *in) {
    pith_info info = {.size = sizeof info};
    pith_status status = pith_inspect(in->bytes, in->mapped, &info, NULL);
    if (status == PITH_ERR_TRUNCATED) {
        if (!input_extend(in, info.header_bytes)) return false;
        status = pith_inspect(in->bytes, in->mapped, &info, NULL);
    }
    return status != PITH_OK || input_expect(in, info.frame_bytes);
}

static int open_bare(struct packed *p) {
    struct packed_item item = {.name = ""};
    const char *why;
    if (!take_frame(&p->in)) return EXIT_FAILED;
    item.frame = p->in.bytes;
    item.bytes = p->in.mapped;
    const int code = check_item(p, &item, p->in.length);
    if (code != EXIT_GOOD) return code;
    p->count = 1;
    p->raw_bytes = item.info.raw_bytes;
    /* Programs may put into the source what they like; only a .npy header means something here. */
    p->has_npy = item.info.source &&
                 npy_parse(item.info.source, item.info.source_bytes, &p->npy, &why) &&
                 p->npy.header_bytes == item.info.source_bytes;
    if (!input_extend(&p->in, p->in.length)) return EXIT_FAILED;
    return bare_item(p, &item);
}

/* ---- A container -----------------------------------------------------------------------------*/

void packed_check(const uint8_t *bytes, size_t length, char digits[PACKED_DIGITS]) {
    enum { LEAD = ST_PREFIX + sizeof PACKED_LEAD - 1, HEAD = LEAD + PACKED_DIGITS };
    uint8_t head[HEAD];
    XXH64_state_t state;
    uint64_t hash = 0;
    if (length >= HEAD) {
        memcpy(head, bytes, LEAD);
        memset(head + LEAD, '0', PACKED_DIGITS);
        XXH64_reset(&state, 0);
        XXH64_update(&state, head, HEAD);
        XXH64_update(&state, bytes + HEAD, length - HEAD);
        hash = XXH64_digest(&state);
    }
    for (int i = 0; i < PACKED_DIGITS; i++)
        digits[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
}

static bool begins(const struct input *in, const char *text) {
    const size_t n = strlen(text);
    return in->mapped >= ST_PREFIX + n && memcmp(in->bytes + ST_PREFIX, text, n) == 0;
}

int packed_refuse(const struct tensor_set *set, const struct safetensors *like) {
    if (set->format != FORMAT_SAFETENSORS || !packed_is(&set->in)) return EXIT_GOOD;
    const size_t n = sizeof PACKED_SIGN - 1;
    if (like->text_bytes >= n && memcmp(like->text, PACKED_SIGN, n) == 0) return EXIT_GOOD;
    return say_error(set->in.path, "is compressed by pith; decompress it first");
}

static int check_header(const struct packed *p) {
    const size_t lead = ST_PREFIX + sizeof PACKED_LEAD - 1;
    const size_t header = ST_PREFIX + p->outer.text_bytes;
    const char middle[] = PACKED_MIDDLE;
    char digits[PACKED_DIGITS];
    if (!begins(&p->in, PACKED_LEAD))
        return say_error(p->in.path,
                         "damaged, or of a container format that this pith does not "
                         "know: update pith");
    if (header < lead + PACKED_DIGITS + sizeof middle ||
        memcmp(p->in.bytes + lead + PACKED_DIGITS, middle, sizeof middle - 1) != 0)
        return say_error(p->in.path, "damaged: the container's header is not as pith writes it");
    packed_check(p->in.bytes, header, digits);
    if (memcmp(p->in.bytes + lead, digits, PACKED_DIGITS) != 0)
        return say_error(p->in.path, "damaged: the checksum of the header differs");
    return EXIT_GOOD;
}

/* Checks that tensor i of the original is frame i, under the same name. */
static int match_headers(struct packed *p) {
    if (p->outer.count != p->inner.count)
        return say_error(p->in.path, "damaged: the original header has other tensors");
    for (size_t i = 0; i < p->outer.count; i++) {
        const struct st_tensor *frame = &p->outer.tensors[i], *home = &p->inner.tensors[i];
        if (strcmp(frame->name, home->name) != 0 || frame->ndim != 1 ||
            strcmp(frame->dtype->name, "U8") != 0)
            return say_error(p->in.path, "damaged: the original header has other tensors");
    }
    p->count = p->outer.count;
    p->raw_bytes = p->inner.data_bytes;
    return EXIT_GOOD;
}

static int open_container(struct packed *p) {
    const char *why;
    size_t length = 0;
    p->container = true;
    int code = st_open(&p->in, &p->outer, "damaged: ");
    if (code == EXIT_GOOD) code = check_header(p);
    if (code != EXIT_GOOD) return code;
    const char *text = st_metadata(&p->outer, "pith.header", &length);
    if (!text) return say_error(p->in.path, "damaged: the original header is missing");
    if (!st_parse_header((const uint8_t *)text, length, &p->inner, &why))
        return say_error(p->in.path, "%sthe original header: %s%s%s%s",
                         why == st_no_memory ? "" : "damaged: ",
                         *p->inner.where ? tensor_label(p->inner.where).text : "",
                         *p->inner.where ? ": " : "", why, p->inner.found);
    return match_headers(p);
}

static int container_item(struct packed *p, size_t index, struct packed_item *out) {
    const struct st_tensor *t = &p->outer.tensors[index];
    *out = (struct packed_item){.name = t->name, .bytes = (size_t)(t->end - t->begin)};
    out->frame =
        map_part(&p->mapping, &p->in, ST_PREFIX + p->outer.text_bytes + t->begin, out->bytes);
    if (!out->frame) return EXIT_FAILED;
    const int code = check_item(p, out, out->bytes);
    if (code != EXIT_GOOD) return code;
    tensor_from_safetensors(&out->home, &p->inner.tensors[index]);
    if (!agrees(&out->home, &out->info))
        return say_error(p->in.path, "%s: damaged: the frame does not fit the original header",
                         tensor_label(out->name).text);
    return EXIT_GOOD;
}

/* ---- Either ----------------------------------------------------------------------------------*/

bool packed_is(const struct input *in) {
    enum { LEAST = 8 }; /* bytes that tell a frame */
    pith_info info = {.size = sizeof info};
    if (begins(in, PACKED_SIGN)) return true;
    return in->mapped >= LEAST &&
           pith_inspect(in->bytes, in->mapped, &info, NULL) != PITH_ERR_MAGIC;
}

int packed_open(struct packed *p, const char *path) {
    *p = (struct packed){0};
    if (!input_open(&p->in, path)) return EXIT_FAILED;
    int code = p->in.length ? EXIT_GOOD : say_error(p->in.path, "is empty");
    if (code == EXIT_GOOD) code = begins(&p->in, PACKED_SIGN) ? open_container(p) : open_bare(p);
    if (code != EXIT_GOOD) packed_close(p);
    return code;
}

int packed_item(struct packed *p, size_t index, struct packed_item *out) {
    return p->container ? container_item(p, index, out) : bare_item(p, out);
}

/* Returns the limit without --max-output: a few bytes can declare tensors that fill a disk; real
 * ones rarely shrink a thousandfold. */
static uint64_t default_limit(uint64_t file_bytes) {
    const uint64_t least = (uint64_t)1 << 30, factor = 1000;
    if (file_bytes > UINT64_MAX / factor) return UINT64_MAX;
    return file_bytes * factor > least ? file_bytes * factor : least;
}

int packed_limit(const struct packed *p, uint64_t requested, pith_env *env) {
    env->max_output_bytes = requested ? requested : default_limit(p->in.length);
    if (p->raw_bytes <= env->max_output_bytes) return EXIT_GOOD;
    return say_error(p->in.path,
                     "declares %" PRIu64 " bytes of tensors, more than the limit of %" PRIu64
                     "; --max-output raises it",
                     p->raw_bytes, env->max_output_bytes);
}

void packed_close(struct packed *p) {
    st_free(&p->outer);
    st_free(&p->inner);
    unmap_part(&p->mapping);
    input_close(&p->in);
    *p = (struct packed){0};
}
