/* cmd_advise.c - pith advise: what compressing gradients would win on a machine, by a model.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "report.h"
#include "roofline.h"
#include "scale.h"

/* Slices are as long as the collective layer's, and so many that they leave the caches. */
enum { SLICE = 131072, SLICES = 16, VALUES = SLICE * SLICES, ROUNDS = 5 };

/* All kinds, from exact to coarse: of two that are as fast the first is the advice. Where `inside`
 * is NULL, links add the numbers, of so many bytes. A kind that is only shown is never the advice,
 * since not every model trains as well with it. */
static const struct kind {
    const char *inside, *across;
    double bytes;
    const char *name;
    bool shown;
} kinds[] = {
    {NULL, NULL, 4, "f32, not compressed", false},
    {NULL, NULL, 2, "bf16, not compressed", false},
    {"grad:preset=intra", "grad:preset=intra", 0, NULL, false},
    {"grad:preset=intra", "grad:preset=inter", 0, NULL, false},
    {"grad:preset=inter", "grad:preset=inter", 0, NULL, false},
    {"grad:bits=3", "grad:bits=3", 0, NULL, true},
    {"grad:bits=2", "grad:bits=2", 0, NULL, true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- Codecs of this machine ------------------------------------------------------------------*/

struct speeds {
    double bytes;               /* bytes of a frame for each value */
    double encode, add, decode; /* seconds for a value */
};

/* One setting with all that its measurement needs, in one block of memory. */
struct rig {
    const pith_plan *plan;
    pith_work *work;
    pith_stream *stream;
    pith_sizes sizes;
    uint8_t *memory, *frames;
    float *values, *sum;
    pith_item items[SLICES];
    pith_sum sums[SLICES];
    const void *frame[SLICES][1];
    size_t length[SLICES][1];
};

static void rig_close(struct rig *r) {
    pith_plan_destroy(r->plan);
    free(r->memory);
    free(r->frames);
    free(r->values);
    free(r->sum);
    free(r);
}

static size_t frame_stride(const struct rig *r) {
    return ((size_t)r->sizes.slot_bytes + 63) & ~(size_t)63;
}

static int say_plan(const char *spec, const pith_error *error) {
    return say_error("advise", "%s: %s", spec, error->text);
}

/* Fills in values like gradients, and allocates the frames and sums. */
static int rig_fill(struct rig *r, const pith_env *env) {
    pith_error error = {.size = sizeof error};
    const pith_plan *const plans[] = {r->plan};
    const size_t work = (size_t)pith_work_bytes(plans, 1, env->threads);
    r->memory = malloc(work + (size_t)r->sizes.stream_bytes);
    r->frames = malloc(SLICES * frame_stride(r));
    r->values = malloc(VALUES * sizeof *r->values);
    r->sum = malloc(VALUES * sizeof *r->sum);
    if (!r->memory || !r->frames || !r->values || !r->sum) return say_errno("advise", "memory");
    uint32_t seed = 1;
    for (size_t i = 0; i < VALUES; i++) {
        seed = seed * 1664525u + 1013904223u;
        r->values[i] = ((float)(seed >> 8) * 0x1p-24f - 0.5f) * 0.01f;
    }
    memset(r->sum, 0, VALUES * sizeof *r->sum);
    memset(r->frames, 0, SLICES * frame_stride(r));
    if (pith_work_init(r->memory, work, env, &r->work, &error) != PITH_OK ||
        pith_stream_init(r->plan, r->memory + work, (size_t)r->sizes.stream_bytes, NULL, &r->stream,
                         &error) != PITH_OK)
        return say_error("advise", "%s", error.text);
    return EXIT_GOOD;
}

static void rig_lists(struct rig *r) {
    for (size_t i = 0; i < SLICES; i++) {
        uint8_t *const frame = r->frames + i * frame_stride(r);
        r->items[i] = (pith_item){.size = sizeof(pith_item),
                                  .stream = r->stream,
                                  .slot = i,
                                  .view = pith_view_flat(r->values + i * SLICE, PITH_F32, SLICE),
                                  .frame = frame,
                                  .capacity = (size_t)r->sizes.slot_bytes};
        r->frame[i][0] = frame;
        r->sums[i] = (pith_sum){.size = sizeof(pith_sum),
                                .stream = r->stream,
                                .slot = i,
                                .frames = r->frame[i],
                                .lengths = r->length[i],
                                .count = 1,
                                .view = pith_view_flat(r->sum + i * SLICE, PITH_F32, SLICE)};
    }
}

static int rig_open(struct rig **out, const char *spec, const pith_env *env) {
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 1, .shape = {VALUES}, .slots = SLICES};
    pith_error error = {.size = sizeof error};
    struct rig *const r = *out = calloc(1, sizeof *r);
    if (!r) return say_errno("advise", "memory");
    r->sizes.size = sizeof r->sizes;
    if (pith_plan_create(&r->plan, spec, &layout, env, &error) != PITH_OK)
        return say_plan(spec, &error);
    pith_plan_sizes(r->plan, &r->sizes);
    const int code = rig_fill(r, env);
    if (code == EXIT_GOOD) rig_lists(r);
    return code;
}

enum { ENCODE, ADD, DECODE, CALLS };

static pith_status call(struct rig *r, int which) {
    if (which == ADD) return pith_reduce(r->work, r->sums, SLICES);
    for (size_t i = 0; i < SLICES && which == DECODE; i++)
        r->items[i].view.data = r->sum + i * SLICE;
    const pith_status status = which == ENCODE ? pith_encode(r->work, r->items, SLICES, 0)
                                               : pith_decode(r->work, r->items, SLICES, 0);
    for (size_t i = 0; i < SLICES; i++) {
        r->length[i][0] = r->items[i].length;
        r->items[i].view.data = r->values + i * SLICE;
    }
    return status;
}

static int compare_seconds(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Measures the speeds, as medians of rounds; the first round warms up. */
static int measure(struct rig *r, struct speeds *out) {
    double *const to[CALLS] = {&out->encode, &out->add, &out->decode};
    for (int which = 0; which < CALLS; which++) {
        double seconds[ROUNDS];
        for (int round = -1; round < ROUNDS; round++) {
            const double from = roofline_clock();
            const pith_status status = call(r, which);
            if (status != PITH_OK) return say_error("advise", "%s", pith_work_error(r->work)->text);
            if (round >= 0) seconds[round] = roofline_clock() - from;
        }
        qsort(seconds, ROUNDS, sizeof *seconds, compare_seconds);
        *to[which] = seconds[ROUNDS / 2] / VALUES;
    }
    return EXIT_GOOD;
}

/* Finds the speeds of a spec: bytes from the plan; times as measured, or as the user gave them in
 * bytes of f32 values per second. */
static int speeds_of(const struct options *o, const char *spec, struct speeds *out) {
    const pith_env env = options_env(o);
    struct rig *r;
    int code = rig_open(&r, spec, &env);
    if (code == EXIT_GOOD) {
        out->bytes = (double)r->sizes.slot_bytes / SLICE;
        if (o->advise.speed[0] > 0) {
            out->encode = sizeof(float) / o->advise.speed[0];
            out->add = out->decode = sizeof(float) / o->advise.speed[1];
        } else {
            code = measure(r, out);
        }
    }
    if (r) rig_close(r);
    return code;
}

/* ---- Rows ------------------------------------------------------------------------------------*/

struct row {
    const struct kind *kind;
    struct scale_time time;
    double step;
};

struct answer {
    struct scale_machine machine;
    struct row rows[KINDS];
    int count;
};

/* Whether the kind applies: with one rank on every node, or one node, or where all ranks sum
 * together, there is one level, and kinds with two settings do not apply. */
static bool applies(const struct scale_machine *m, const struct kind *kind) {
    const bool two_levels = m->per_node > 1 && m->per_node < m->ranks && !m->one_level;
    return !kind->inside || two_levels || strcmp(kind->inside, kind->across) == 0;
}

static int scheme_of(const struct options *o, const struct kind *kind, struct scale_scheme *out) {
    struct speeds inside, across;
    int code = speeds_of(o, kind->inside, &inside);
    if (code == EXIT_GOOD) code = speeds_of(o, kind->across, &across);
    if (code != EXIT_GOOD) return code;
    *out = (struct scale_scheme){.inside = inside.bytes,
                                 .across = across.bytes,
                                 .encode = inside.encode,
                                 .add = inside.add,
                                 .decode = across.decode};
    return EXIT_GOOD;
}

static int find_row(const struct options *o, const struct scale_machine *m, struct row *row) {
    const struct advise *const a = &o->advise;
    const double values = a->bytes / sizeof(float);
    struct scale_scheme scheme;
    if (row->kind->inside) {
        const int code = scheme_of(o, row->kind, &scheme);
        if (code != EXIT_GOOD) return code;
        row->time = scale_sum(m, &scheme, values, SLICE);
    } else {
        row->time = scale_ring(m, row->kind->bytes, values);
    }
    const double exposed = row->time.sum - a->overlap * a->compute;
    row->step = a->compute + (exposed > 0 ? exposed : 0);
    return EXIT_GOOD;
}

/* Returns the most exact of the kinds that are within a twentieth of the fastest. */
static int best_of(const struct answer *a) {
    double least = INFINITY;
    for (int i = 0; i < a->count; i++)
        if (!a->rows[i].kind->shown && a->rows[i].step < least) least = a->rows[i].step;
    int best = 0;
    while (a->rows[best].step > 1.05 * least) best++;
    return best;
}

/* ---- Output ----------------------------------------------------------------------------------*/

static void name_of(const struct kind *kind, char *to, size_t size) {
    if (!kind->inside)
        snprintf(to, size, "%s", kind->name);
    else if (strcmp(kind->inside, kind->across) == 0)
        snprintf(to, size, "%s", kind->inside);
    else
        snprintf(to, size, "%s inside, %s across", kind->inside, kind->across);
}

static void print_rows(const struct options *o, const struct answer *a) {
    static const char *const heads[] = {"sums of gradients", "MB a node sends", "links, s",
                                        "codecs, s",         "transport, s",    "step, s",
                                        "speed-up"};
    char name[2 * PITH_SPEC_MAX + 16];
    struct table t = {.columns = sizeof heads / sizeof *heads};
    for (size_t i = 0; i < t.columns; i++) table_add(&t, "%s", heads[i]);
    for (const struct row *row = a->rows; row < a->rows + a->count; row++) {
        name_of(row->kind, name, sizeof name);
        table_add(&t, "%s", name);
        table_add(&t, "%.4g", row->time.across_bytes * 1e-6);
        table_add(&t, "%.3g", row->time.links);
        table_add(&t, "%.3g", row->time.codecs);
        table_add(&t, "%.3g", row->time.transport + row->time.copies);
        table_add(&t, "%.3g", row->step);
        if (row->step > 0)
            table_add(&t, "%.2f", a->rows[0].step / row->step);
        else
            table_add(&t, "-"); /* one rank that computes nothing sends nothing */
    }
    table_print(&t, stdout, 1);
    table_free(&t);
    name_of(a->rows[best_of(a)].kind, name, sizeof name);
    printf("\nadvice: %s\n", name);
    if (o->advise.speed[0] <= 0)
        puts("The codecs' speeds are this machine's; --codec-speed gives those of another.");
}

static json_t *text_or_null(const char *text) { return text ? json_string(text) : json_null(); }

static void print_json(const struct answer *a) {
    char name[2 * PITH_SPEC_MAX + 16];
    json_t *list = json_array(), *root = json_object();
    for (const struct row *row = a->rows; row < a->rows + a->count; row++) {
        json_t *to = json_object();
        name_of(row->kind, name, sizeof name);
        json_object_set_new(to, "name", json_string(name));
        json_object_set_new(to, "inside", text_or_null(row->kind->inside));
        json_object_set_new(to, "across", text_or_null(row->kind->across));
        json_object_set_new(to, "node_bytes", json_number(row->time.across_bytes));
        json_object_set_new(to, "links_seconds", json_number(row->time.links));
        json_object_set_new(to, "codecs_seconds", json_number(row->time.codecs));
        json_object_set_new(to, "transport_seconds", json_number(row->time.transport));
        json_object_set_new(to, "copies_seconds", json_number(row->time.copies));
        json_object_set_new(to, "sum_seconds", json_number(row->time.sum));
        json_object_set_new(to, "scatter_seconds", json_number(row->time.scatter));
        json_object_set_new(to, "step_seconds", json_number(row->step));
        json_array_append_new(list, to);
    }
    json_object_set_new(root, "rows", list);
    json_object_set_new(root, "advice", json_integer(best_of(a)));
    json_print(root, stdout);
    json_decref(root);
}

static int usage(const char *text) {
    say_error("advise", "%s", text);
    return EXIT_USAGE;
}

static int machine_of(const struct advise *a, struct scale_machine *out) {
    if (!a->ranks) return usage("--ranks is missing");
    if (a->link[0] <= 0) return usage("--links is missing");
    if (a->bytes <= 0) return usage("--size is missing");
    const uint32_t per_node = a->per_node ? a->per_node : 1;
    const bool transport = a->transport[0] > 0;
    *out = (struct scale_machine){.ranks = a->ranks,
                                  .per_node = per_node,
                                  .one_level = a->levels == 1,
                                  .inside = a->link[0] / 8,
                                  .across = a->link[1] / 8,
                                  .latency_inside = a->latency[0],
                                  .latency_across = a->latency[1],
                                  .ranks_per_core = a->cores > 0 ? fmax(per_node / a->cores, 1) : 1,
                                  .send = transport ? a->transport[0] : INFINITY,
                                  .copy = transport ? a->transport[1] : INFINITY};
    if (out->ranks % out->per_node) return usage("--ranks is no multiple of --ranks-per-node");
    return EXIT_GOOD;
}

int run_advise(const struct options *o) {
    struct answer a = {.count = 0};
    int code = machine_of(&o->advise, &a.machine);
    for (int i = 0; i < KINDS && code == EXIT_GOOD; i++) {
        if (!applies(&a.machine, &kinds[i])) continue;
        struct row *const row = &a.rows[a.count++];
        row->kind = &kinds[i];
        code = find_row(o, &a.machine, row);
        if (code == EXIT_GOOD && !isfinite(row->step))
            code = usage("the numbers are so large, or so small, that no time comes of them");
    }
    if (code != EXIT_GOOD) return code;
    if (o->json)
        print_json(&a);
    else
        print_rows(o, &a);
    return EXIT_GOOD;
}
