/* cmd_compare.c - pith compare: two tensor files, tensor by tensor and as a whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "metrics.h"
#include "options.h"
#include "packed.h"
#include "report.h"

struct task {
    const struct options *options;
    struct tensor_set a, b;
    struct tensor_memory memory[2];
    json_t *json;
    struct table table;
    struct sums overall;
};

/* ---- Output ----------------------------------------------------------------------------------*/

static json_t *sums_json(const struct sums *s) {
    const struct metrics m = metrics_of(s);
    json_t *o = json_object();
    json_object_set_new(o, "max_abs_error", json_number(m.max_abs_error));
    json_object_set_new(o, "nmse", json_number(m.nmse));
    json_object_set_new(o, "psnr_db", json_number(m.psnr_db));
    json_object_set_new(o, "cosine", json_number(m.cosine));
    json_object_set_new(o, "nonfinite_mismatch", json_unsigned(s->nonfinite_mismatch));
    json_object_set_new(o, "differing_bits",
                        s->has_bits ? json_unsigned(s->differing_bits) : json_null());
    return o;
}

static void add_number(struct table *t, double v, const char *undefined, int digits) {
    if (isfinite(v))
        table_add(t, "%.*g", digits, v);
    else
        table_add(t, "%s", undefined);
}

static void add_row(struct table *t, const char *name, const struct sums *s) {
    const struct metrics m = metrics_of(s);
    table_add(t, "%s", name);
    add_number(t, m.max_abs_error, "-", 6);
    add_number(t, m.nmse, "-", 6);
    add_number(t, m.psnr_db, "-", 5);
    add_number(t, m.cosine, "-", 9);
    table_add(t, "%" PRIu64, s->nonfinite_mismatch);
    if (s->has_bits)
        table_add(t, "%" PRIu64, s->differing_bits);
    else
        table_add(t, "-");
}

static void begin_output(struct task *t) {
    static const char *const heads[] = {"tensor", "max_abs_error",      "nmse",          "psnr_db",
                                        "cosine", "nonfinite_mismatch", "differing_bits"};
    t->table.columns = sizeof heads / sizeof *heads;
    t->json = json_array();
    for (size_t i = 0; i < t->table.columns; i++) table_add(&t->table, "%s", heads[i]);
}

static void print_result(struct task *t) {
    if (!t->options->json) {
        add_row(&t->table, "overall", &t->overall);
        table_print(&t->table, stdout, 1);
        return;
    }
    json_t *root = json_object();
    json_object_set(root, "tensors", t->json);
    json_object_set_new(root, "overall", sums_json(&t->overall));
    json_print(root, stdout);
    json_decref(root);
}

/* ---- Comparing -------------------------------------------------------------------------------*/

static bool is_float(const struct tensor *t) {
    return t->dtype == PITH_F32 || t->dtype == PITH_BF16 || t->dtype == PITH_F16 ||
           t->dtype == PITH_F64;
}

static int check_pair(const struct task *t, const struct tensor *a, const struct tensor *b) {
    const struct label label = tensor_label(a->name);
    const char *name = label.text;
    if (!b) return say_error(t->b.in.path, "has no tensor %s", name);
    if (!tensor_same_shape(a, b))
        return say_error(t->b.in.path, "%s: another shape, %s instead of %s", name,
                         tensor_shape_text(b).text, tensor_shape_text(a).text);
    if (a->opaque != b->opaque) /* a dtype that has no name here */
        return say_error(t->b.in.path, "%s: another dtype", name);
    if (a->dtype != b->dtype && !(is_float(a) && is_float(b)))
        return say_error(t->b.in.path, "%s: another dtype, %s instead of %s", name,
                         pith_dtype_name(b->dtype), pith_dtype_name(a->dtype));
    return EXIT_GOOD;
}

static int compare_tensor(struct task *t, const struct tensor *a) {
    const struct tensor *b = tensors_find(&t->b, a->name);
    struct sums sums;
    const int code = check_pair(t, a, b);
    if (code != EXIT_GOOD) return code;
    const uint8_t *x = tensor_bytes(a, &t->memory[0]), *y = tensor_bytes(b, &t->memory[1]);
    if (!x || !y) return EXIT_FAILED;
    sums_of(a, x, b, y, &sums);
    sums_add(&t->overall, &sums);
    if (t->options->json) {
        json_t *row = json_pack("{s:s}", "name", a->name);
        json_t *numbers = sums_json(&sums);
        json_object_update(row, numbers);
        json_decref(numbers);
        json_array_append_new(t->json, row);
    } else {
        add_row(&t->table, tensor_label(a->name).text, &sums);
    }
    return EXIT_GOOD;
}

static int compare_all(struct task *t) {
    for (size_t i = 0; i < t->b.count; i++)
        if (!tensors_find(&t->a, t->b.items[i].name))
            return say_error(t->a.in.path, "has no tensor %s",
                             tensor_label(t->b.items[i].name).text);
    for (size_t i = 0; i < t->a.count; i++) {
        const int code = compare_tensor(t, &t->a.items[i]);
        if (code != EXIT_GOOD) return code;
    }
    return EXIT_GOOD;
}

static int check_limit(const struct task *t) {
    const struct sums *s = &t->overall;
    if (!t->options->has_max_abs) return EXIT_GOOD;
    if (s->nonfinite_mismatch)
        return say_error(t->b.in.path, "%" PRIu64 " non-finite values differ",
                         s->nonfinite_mismatch);
    if (s->max_abs > t->options->max_abs)
        return say_error(t->b.in.path, "the largest error is %g", s->max_abs);
    if (s->opaque_bits) return say_error(t->b.in.path, "bytes of a dtype without numbers differ");
    return EXIT_GOOD;
}

static int compare(struct task *t) {
    begin_output(t);
    t->overall.has_bits = true;
    int code = packed_refuse(&t->a, &t->b.st);
    if (code == EXIT_GOOD) code = packed_refuse(&t->b, &t->a.st);
    if (code == EXIT_GOOD) code = compare_all(t);
    if (code != EXIT_GOOD) return code;
    print_result(t);
    return check_limit(t);
}

int run_compare(const struct options *options) {
    struct task t = {.options = options};
    if (strcmp(options->operands[0], "-") == 0 && strcmp(options->operands[1], "-") == 0) {
        say_error("compare", "standard input can be one of the files, not both");
        return EXIT_USAGE;
    }
    int code = tensors_open(&t.a, options->operands[0], &options->hint, true);
    if (code != EXIT_GOOD) return code;
    code = tensors_open(&t.b, options->operands[1], &options->hint, true);
    if (code == EXIT_GOOD) {
        code = compare(&t);
        tensors_close(&t.b);
    }
    json_decref(t.json);
    table_free(&t.table);
    tensor_memory_free(&t.memory[0]);
    tensor_memory_free(&t.memory[1]);
    tensors_close(&t.a);
    return code;
}
