/* test_gpu_regressions.c - bugs that the CUDA backend once had, one test each with its story.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"
#include "gen.h"
#include "rig.h"

enum { N = 100 };

static void open_filled(struct rig *r, const char *spec, uint32_t base_dtype, struct frame *f) {
    const pith_layout layout = flat_layout(PITH_F32, base_dtype, N);
    float value[N];
    const pith_view view = pith_view_flat(value, PITH_F32, N);
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    CHECK(rig_open(r, spec, &layout));
    *f = stream_encode(&r->cpu, &view, 0, false);
    CHECK_OK(pith_stream_reset(r->cpu.work, r->cpu.stream));
}

static void close_filled(struct rig *r, struct frame *f) {
    free(f->bytes);
    rig_close(r);
}

/* Encoding without error feedback left the step of the device's stream at 0; it is one more than
 * the last encoded. Comparing saved streams showed it. */
static void test_step_without_residual(void **state) {
    (void)state;
    struct rig r;
    struct frame f;
    struct job j;
    struct stream host;
    context("step of a stream without residual");
    open_filled(&r, "grad", PITH_NONE, &f);
    rig_set_random(&r, 1, 2, 41);
    job_open(&j, &r, 1, 1, PITH_F32, 0);
    JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    uint8_t *const image = rig_stream_image(&r);
    stream_open_end(&host, &r.cpu, NULL);
    CHECK_OK(pith_cuda_stream_unpack(r.plan, host.work, host.stream, image,
                                     (size_t)r.sizes.stream_bytes, NULL));
    CHECK(pith_stream_step(host.stream, 0) == 42);
    stream_close(&host);
    free(image);
    job_close(&j);
    close_filled(&r, &f);
}

/* Keys that decoding does not depend on were not looked at: with a right header checksum, a
 * rounding that does not exist decoded, and so did a search together with random rounding. */
static void test_forged_keys(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint8_t at[2], value[2];
        pith_status wanted;
    } forged[] = {
        {"wdiff", {18, 18}, {2, 2}, PITH_ERR_CORRUPT},
        {"wdiff", {18, 18}, {4, 4}, PITH_ERR_CORRUPT},
        {"wdiff", {18, 18}, {1, 1}, PITH_OK},
        {"grad", {19, 21}, {3, 0}, PITH_ERR_CORRUPT},
        {"grad", {19, 21}, {0, 2}, PITH_ERR_CORRUPT},
        {"grad", {19, 21}, {1, 1}, PITH_ERR_CORRUPT},
        {"grad", {19, 21}, {2, 0}, PITH_OK},
        {"grad", {19, 21}, {0, 1}, PITH_OK},
    };
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        struct rig r;
        struct frame f;
        open_filled(&r, forged[i].spec, PITH_NONE, &f);
        context("forged keys, %zu", i);
        for (int k = 0; k < 2; k++) f.bytes[forged[i].at[k]] = forged[i].value[k];
        bad_seal(&f);
        CHECK_STATUS(forged[i].wanted, rig_try(&r, f.bytes, f.length, 0));
        close_filled(&r, &f);
    }
}

/* With base_hash=off the place of the base hash must hold 0; the device did not look. */
static void test_hash_not_declared(void **state) {
    (void)state;
    struct rig r;
    struct frame f;
    open_filled(&r, "wdiff:base_hash=off", PITH_BF16, &f);
    context("a base hash where there is none");
    CHECK_OK(rig_try(&r, f.bytes, f.length, 0));
    f.bytes[64 + 8 + 8] = 1;
    bad_seal(&f);
    CHECK(rig_try(&r, f.bytes, f.length, 0) != PITH_OK);
    close_filled(&r, &f);
}

/* The hash of a header of the other length was taken over the plan's own length: CHECKSUM, where
 * the CPU says what is wrong. */
static void test_wide_header(void **state) {
    (void)state;
    struct rig r;
    struct frame f;
    open_filled(&r, "raw", PITH_NONE, &f);
    context("a header of another length");
    f.bytes[11] |= 1;
    bad_seal(&f);
    CHECK(rig_try(&r, f.bytes, f.length, 0) != PITH_ERR_CHECKSUM);
    close_filled(&r, &f);
}

/* A revision that this library does not know was MISMATCH where it stands among the bytes that all
 * frames of a plan share; the CPU says NEWER, and CORRUPT of revision 0. */
static void test_revisions(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint8_t newest; /* which frames of the spec do not have, unless it is 1 */
    } codecs[] = {
        {"raw", 1},
        {"wdiff", 2},
        {"grad", 2},
        {"kv", 2},
        {"topk:k=10", 3},
        {"eb:abs=0.001", 3},
        {"embed:mode=fast,abs=0.001", 2},
        {"act:abs=0.001", 3},
    };
    static const uint8_t revisions[] = {0, 3, 4, 255};
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++)
        for (size_t k = 0; k < sizeof revisions; k++) {
            struct rig r;
            struct frame f;
            context("%s, revision %u", codecs[i].spec, revisions[k]);
            open_filled(&r, codecs[i].spec, PITH_NONE, &f);
            f.bytes[6] = revisions[k];
            bad_seal(&f);
            CHECK_STATUS(revisions[k] > codecs[i].newest ? PITH_ERR_NEWER : PITH_ERR_CORRUPT,
                         rig_try(&r, f.bytes, f.length, 0));
            close_filled(&r, &f);
        }
}

/* Flags that this library does not know were looked at behind the revision, and not as NEWER. */
static void test_flags(void **state) {
    (void)state;
    static const char *const specs[] = {"raw", "wdiff", "kv", "topk:k=10", "eb:abs=0.001"};
    for (size_t i = 0; i < 2 * sizeof specs / sizeof specs[0]; i++) {
        struct rig r;
        struct frame f;
        context("%s, unknown flags", specs[i / 2]);
        open_filled(&r, specs[i / 2], PITH_NONE, &f);
        f.bytes[11] |= 0x40;
        if (i % 2) f.bytes[6] = 0;
        bad_seal(&f);
        CHECK_STATUS(PITH_ERR_NEWER, rig_try(&r, f.bytes, f.length, 0));
        close_filled(&r, &f);
    }
}

/* The header of a frame with more dimensions than the plan was hashed beyond what a team had
 * fetched of it, where a source makes it long: CHECKSUM of a frame without damage. */
static void test_wide_header_with_a_source(void **state) {
    (void)state;
    static const char *const specs[] = {"eb:abs=0.001", "embed:mode=fast,abs=0.1", "topk:k=10"};
    static const size_t lengths[] = {100, 105, 120, 136, 152, 153};
    enum { EACH = sizeof lengths / sizeof lengths[0], SIDE = 4, COUNT = 1024 };
    uint8_t source[160];
    float value[COUNT];
    memset(source, 'a', sizeof source);
    gen_fill(GEN_NOISE, 1, PITH_F32, value, COUNT);
    for (size_t i = 0; i < EACH * sizeof specs / sizeof specs[0]; i++) {
        struct rig r;
        struct stream s;
        pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
        pith_view view = pith_view_flat(value, PITH_F32, COUNT);
        layout.source = source;
        layout.source_bytes = lengths[i % EACH];
        context("%s, five dimensions and a source of %zu", specs[i / EACH], lengths[i % EACH]);
        CHECK(rig_open(&r, specs[i / EACH], &layout));
        layout.ndim = view.ndim = 5;
        for (unsigned d = 0; d < 5; d++) {
            layout.shape[d] = view.shape[d] = SIDE;
            view.stride[d] = 1 << 2 * (4 - d);
        }
        stream_open(&s, specs[i / EACH], &layout, NULL);
        struct frame f = stream_encode(&s, &view, 0, false);
        struct job j;
        job_open(&j, &r, 1, 1, PITH_F32, 0);
        job_set_frame(&j, f.bytes, f.length);
        JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        CHECK_STATUS(PITH_ERR_MISMATCH, job_status(&j, 0));
        job_close(&j);
        stream_close(&s);
        close_filled(&r, &f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_without_residual),
        cmocka_unit_test(test_forged_keys),
        cmocka_unit_test(test_hash_not_declared),
        cmocka_unit_test(test_wide_header),
        cmocka_unit_test(test_revisions),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_wide_header_with_a_source),
    };
    return cmocka_run_group_tests_name("gpu_regressions", tests, NULL, NULL);
}
