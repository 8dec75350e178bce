/* report.c - the tensors of a compressed file as JSON and as a table.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "cli.h"
#include "tensors.h"

enum { LEFT_COLUMNS = 0x1f };

json_t *json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *json_unsigned(uint64_t value) {
    return json_integer((json_int_t)(value < INT64_MAX ? value : INT64_MAX));
}

/* Prints a part of JSON with DEL, the one control character that JSON lets stand, escaped. */
static int print_part(const char *text, size_t length, void *to) {
    for (size_t i = 0; i < length; i++)
        if (text[i] == 0x7f)
            fputs("\\u007f", to);
        else
            fputc(text[i], to);
    return 0;
}

/* Returns how many digits tell this number from its neighbours: jansson writes one count for
 * all. */
static size_t digits_of(double value) {
    enum { MOST = 17 };
    char text[32];
    for (int n = 1; n < MOST; n++) {
        snprintf(text, sizeof text, "%.*g", n, value);
        if (strtod(text, NULL) == value) return (size_t)n;
    }
    return MOST;
}

static void print_scalar(const json_t *value, FILE *to) {
    const size_t digits = json_is_real(value) ? digits_of(json_real_value(value)) : 0;
    json_dump_callback(value, print_part, to,
                       JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(digits));
}

static void begin_item(FILE *to, bool first, int depth) {
    fprintf(to, "%s\n%*s", first ? "" : ",", 2 * depth, "");
}

static void print_value(json_t *value, FILE *to, int depth) {
    const bool object = json_is_object(value), array = json_is_array(value);
    const char *key;
    json_t *item;
    size_t i;
    bool first = true;
    if (!object && !array) {
        print_scalar(value, to);
        return;
    }
    fputc(object ? '{' : '[', to);
    json_object_foreach(value, key, item) {
        json_t *name = json_string(key);
        begin_item(to, first, depth + 1);
        print_scalar(name, to);
        fputs(": ", to);
        print_value(item, to, depth + 1);
        json_decref(name);
        first = false;
    }
    json_array_foreach(value, i, item) {
        begin_item(to, first, depth + 1);
        print_value(item, to, depth + 1);
        first = false;
    }
    if (!first) fprintf(to, "\n%*s", 2 * depth, "");
    fputc(object ? '}' : ']', to);
}

void json_print(json_t *value, FILE *to) {
    print_value(value, to, 0);
    fputc('\n', to);
}

static void add_heading(struct report *r) {
    static const char *const names[] = {"tensor", "dtype",  "shape",      "codec",      "base",
                                        "raw",    "packed", "bits/value", "error bound"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) table_add(&r->table, "%s", names[i]);
    if (r->timed) table_add(&r->table, "GB/s");
}

static void add_sparse_heading(struct report *r) {
    static const char *const names[] = {"tensor",    "sent",       "density",
                                        "threshold", "index bits", "value bits"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) table_add(&r->sparse, "%s", names[i]);
}

void report_begin(struct report *r, bool json, bool timed) {
    *r = (struct report){.json = json, .timed = timed};
    r->table.columns = timed ? 10 : 9;
    r->sparse.columns = 6;
    if (json)
        r->tensors = json_array();
    else
        add_heading(r);
}

static json_t *shape_json(const pith_info *info) {
    json_t *shape = json_array();
    for (uint32_t i = 0; i < info->ndim; i++)
        json_array_append_new(shape, json_unsigned(info->shape[i]));
    return shape;
}

static double bits_per_value(uint64_t bytes, uint64_t count) {
    return count ? 8.0 * (double)bytes / (double)count : NAN;
}

/* Returns whether a frame is of a codec that sends some elements. */
static bool is_sparse(const pith_info *info) {
    pith_codec_info codec;
    return codec_of_spec(info->codec_name, &codec) && codec.traits & PITH_TRAIT_SPARSE;
}

static double density(const pith_info *info) {
    return info->count ? (double)info->sent / (double)info->count : NAN;
}

/* Returns the bits of a value that is sent. The scales of int8 are one for every 128 values. */
static double value_bits(const pith_info *info) {
    if (!info->sent) return NAN;
    return info->value_bits == 8 ? 8 + 32.0 / 128 : info->value_bits;
}

/* Returns for each value that is sent the bits of all that is neither header nor value. */
static double index_bits(const pith_info *info) {
    const uint64_t payload = info->frame_bytes - info->header_bytes;
    return bits_per_value(payload, info->sent) - value_bits(info);
}

static void add_sparse_json(json_t *t, const pith_info *info) {
    json_object_set_new(t, "sent", json_unsigned(info->sent));
    json_object_set_new(t, "density", json_number(density(info)));
    json_object_set_new(t, "threshold", json_number((double)info->threshold));
    json_object_set_new(t, "index_bits", json_number(index_bits(info)));
    json_object_set_new(t, "value_bits", json_number(value_bits(info)));
    json_object_set_new(t, "same_set", json_boolean(info->same_set == 1));
    json_object_set_new(t, "same_blocks", json_boolean(info->same_set == 2));
}

static void add_json(struct report *r, const char *name, const pith_info *info, double bound) {
    json_t *t = json_object();
    json_object_set_new(t, "name", json_string(name));
    json_object_set_new(t, "codec", json_string(info->codec_name));
    json_object_set_new(t, "spec", json_string(info->spec));
    json_object_set_new(t, "dtype", json_string(pith_dtype_name(info->dtype)));
    json_object_set_new(t, "shape", shape_json(info));
    json_object_set_new(t, "raw_bytes", json_unsigned(info->raw_bytes));
    json_object_set_new(t, "bytes", json_unsigned(info->frame_bytes));
    json_object_set_new(t, "bits_per_value",
                        json_number(bits_per_value(info->frame_bytes, info->count)));
    json_object_set_new(t, "error_bound", json_number(bound));
    if (is_sparse(info)) add_sparse_json(t, info);
    json_array_append_new(r->tensors, t);
}

/* Adds a number with so many digits after the point; 0: three significant ones. */
static void add_real(struct table *t, double value, int digits) {
    if (!isfinite(value))
        table_add(t, "-");
    else if (digits == 0)
        table_add(t, "%.3g", value);
    else
        table_add(t, "%.*f", digits, value);
}

static void add_sparse_row(struct report *r, const char *name, const pith_info *info) {
    struct table *t = &r->sparse;
    if (!t->count) add_sparse_heading(r);
    table_add(t, "%s", tensor_label(name).text);
    table_add(t, "%" PRIu64, info->sent);
    add_real(t, density(info), 0);
    add_real(t, (double)info->threshold, 0);
    add_real(t, index_bits(info), 2);
    add_real(t, value_bits(info), 2);
}

static void add_row(struct report *r, const char *name, const pith_info *info, double bound,
                    double seconds) {
    struct table *t = &r->table;
    table_add(t, "%s", tensor_label(name).text);
    table_add(t, "%s", pith_dtype_name(info->dtype));
    table_add(t, "%s", shape_text(info->shape, info->ndim).text);
    table_add(t, "%s", info->spec);
    table_add(t, "%s", info->base_dtype == PITH_NONE ? "-" : pith_dtype_name(info->base_dtype));
    table_add(t, "%" PRIu64, info->raw_bytes);
    table_add(t, "%" PRIu64, info->frame_bytes);
    add_real(t, bits_per_value(info->frame_bytes, info->count), 2);
    if (bound == 0)
        table_add(t, "exact");
    else
        add_real(t, bound, 0);
    if (r->timed) add_real(t, 1e-9 * (double)info->raw_bytes / seconds, 2);
}

void report_add(struct report *r, const char *name, const pith_info *info, double bound,
                double seconds) {
    r->count += info->count;
    r->raw_bytes += info->raw_bytes;
    r->bytes += info->frame_bytes;
    r->seconds += seconds;
    if (r->json)
        add_json(r, name, info, bound);
    else
        add_row(r, name, info, bound, seconds);
    if (!r->json && is_sparse(info)) add_sparse_row(r, name, info);
}

static void print_json(struct report *r, FILE *to, uint64_t file_bytes) {
    json_t *root = json_object();
    json_object_set(root, "tensors", r->tensors);
    json_object_set_new(root, "raw_bytes", json_unsigned(r->raw_bytes));
    json_object_set_new(root, "bytes", json_unsigned(file_bytes));
    json_print(root, to);
    json_decref(root);
}

static void print_table(struct report *r, FILE *to, uint64_t file_bytes) {
    struct table *t = &r->table;
    table_add(t, "whole file");
    for (int i = 0; i < 4; i++) table_add(t, "%s", "");
    table_add(t, "%" PRIu64, r->raw_bytes);
    table_add(t, "%" PRIu64, file_bytes);
    add_real(t, bits_per_value(file_bytes, r->count), 2);
    table_add(t, "%s", "");
    if (r->timed) add_real(t, 1e-9 * (double)r->raw_bytes / r->seconds, 2);
    table_print(t, to, LEFT_COLUMNS);
    if (!r->sparse.count) return;
    fputc('\n', to);
    table_print(&r->sparse, to, 1);
}

void report_end(struct report *r, FILE *to, uint64_t file_bytes) {
    if (r->json)
        print_json(r, to, file_bytes);
    else
        print_table(r, to, file_bytes);
    report_free(r);
}

void report_free(struct report *r) {
    json_decref(r->tensors);
    table_free(&r->table);
    table_free(&r->sparse);
    *r = (struct report){0};
}
