/* test_gpu_golden.c - committed frames on the device: the good ones decode to what was committed
 * with them and are made again; the bad ones are refused before anything is written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"
#include "rig.h"

static const char *dir;

static pith_layout layout_of(const struct golden *g, const struct golden_file *f) {
    pith_layout layout = {.size = sizeof layout,
                          .dtype = g->dtype,
                          .base_dtype = g->base_dtype,
                          .ndim = g->ndim,
                          .flags = g->flags,
                          .source = f->info.source,
                          .source_bytes = f->info.source_bytes,
                          .exempt = g->exempt};
    memcpy(layout.shape, g->shape, sizeof layout.shape);
    while (layout.exempt_count < 3 && g->exempt[layout.exempt_count].count) layout.exempt_count++;
    return layout;
}

/* False for what devices do not code. */
static bool open_one(const struct golden *g, struct golden_file *f, struct rig *r) {
    golden_load(dir, g->name, f);
    const pith_layout layout = layout_of(g, f);
    if (rig_open(r, g->spec, &layout)) return true;
    golden_close(f);
    return false;
}

static void close_one(struct golden_file *f, struct rig *r) {
    rig_close(r);
    golden_close(f);
}

/* The streams before the frame, as golden_make has them. */
static void prepare(const struct golden *g, struct rig *r, const void *base) {
    const pith_stream_options options = {.size = sizeof options,
                                         .seed = 0x123456789ABCDEF,
                                         .rng_stream = 77,
                                         .rank = g->rank,
                                         .ranks = g->ranks,
                                         .step = g->step};
    if (base) rig_set_base(r, base, g->base_dtype, g->step);
    rig_set_options(r, &options);
}

/* ---- Good frames -----------------------------------------------------------------------------*/

static void check_decodes(const struct golden *g, const struct golden_file *f, struct rig *r,
                          size_t offset) {
    struct job j;
    prepare(g, r, f->base);
    job_open(&j, r, 1, 1, g->dtype, offset);
    job_set_frame(&j, f->frame.bytes, f->frame.length);
    JOB_RUN(&j, pith_cuda_decode(r->plan, r->stream, &j.items, 0, device_stream(), NULL));
    /* Predicted numbers in packed words are read by CPUs, and written by no encoder. */
    if (strcmp(g->name, "act-predicted-packed") == 0) {
        CHECK_STATUS(PITH_ERR_UNSUPPORTED, job_status(&j, 0));
    } else {
        CHECK_OK(job_status(&j, 0));
        CHECK(memcmp(j.tensor.host, f->raw, f->raw_bytes) == 0);
    }
    job_close(&j);
}

static void test_decode(void **state) {
    (void)state;
    const struct golden *g;
    size_t decoded = 0;
    for (size_t i = 0; (g = golden_at(i)) != NULL; i++) {
        struct golden_file f;
        struct rig r;
        if (!open_one(g, &f, &r)) continue;
        for (int k = 0; k < device_orders(); k++) {
            context("golden frame %s, order %d", g->name, k);
            device_order(k);
            check_decodes(g, &f, &r, 0);
            check_decodes(g, &f, &r, 1 + decoded % 15);
        }
        close_one(&f, &r);
        decoded++;
    }
    CHECK(decoded > 70);
}

static void encode(const struct golden *g, struct rig *r, struct job *j) {
    const uint32_t flags = g->key ? PITH_KEY_FRAME : 0;
    JOB_RUN(j, pith_cuda_encode(r->plan, r->stream, &j->items, flags, device_stream(), NULL));
    CHECK_OK(job_status(j, 0));
}

static void check_encodes(const struct golden *g, const struct golden_file *f, struct rig *r) {
    struct golden_made m;
    struct job j;
    golden_make(g, &m);
    context("golden frame %s made again", g->name);
    prepare(g, r, m.base);
    job_open(&j, r, 1, 1, g->dtype, 0);
    memcpy(j.tensor.host, m.value, j.tensor.bytes);
    for (int i = 0; i < g->before; i++) {
        encode(g, r, &j);
        rig_set_step(r, 0, g->step);
    }
    encode(g, r, &j);
    CHECK(*job_length(&j, 0) == f->frame.length);
    CHECK(memcmp(j.frame.host, f->frame.bytes, f->frame.length) == 0);
    job_close(&j);
    golden_free(&m);
}

static void test_encode(void **state) {
    (void)state;
    const struct golden *g;
    size_t made = 0;
    for (size_t i = 0; (g = golden_at(i)) != NULL; i++) {
        struct golden_file f;
        struct rig r;
        if (g->patch[0].width || g->former || !open_one(g, &f, &r)) continue;
        device_order((int)(i % (size_t)device_orders()));
        check_encodes(g, &f, &r);
        close_one(&f, &r);
        made++;
    }
    CHECK(made > 70);
}

/* ---- Bad frames ------------------------------------------------------------------------------*/

static const struct golden *golden_named(const char *name) {
    const struct golden *g;
    for (size_t i = 0; (g = golden_at(i)) != NULL; i++)
        if (strcmp(g->name, name) == 0) return g;
    return NULL;
}

static bool one_bad(const char *name, const char *from) {
    const struct golden *const g = golden_named(from);
    struct golden_file f;
    struct rig r;
    char path[512];
    size_t length;
    context("bad frame %s", name);
    CHECK(g != NULL);
    if (!open_one(g, &f, &r)) return false;
    context("bad frame %s", name);
    snprintf(path, sizeof path, "%s/golden-bad/%s.pith", dir, name);
    uint8_t *const bytes = read_file(path, &length);
    CHECK(bytes != NULL);
    prepare(g, &r, f.base);
    rig_try(&r, bytes, length, 0);
    rig_try(&r, bytes, length, length % 15 + 1);
    free(bytes);
    close_one(&f, &r);
    return true;
}

static void test_bad(void **state) {
    (void)state;
    char path[512], name[128], from[64];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/golden-bad/EXPECTED", dir);
    FILE *const list = fopen(path, "r");
    context("list of bad frames");
    CHECK(list != NULL);
    while (fscanf(list, "%127s %*s %63s", name, from) == 2) count += one_bad(name, from);
    fclose(list);
    CHECK(count > 100);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_bad),
    };
    if (argc < 2) return 2;
    dir = argv[1];
    return cmocka_run_group_tests_name("gpu_golden", tests, NULL, NULL);
}
