/* test_gpu_hostile.c - frames cut, flipped and forged: the CPU's status, and nothing written by a
 * decoder that refuses.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"
#include "gen.h"
#include "rig.h"

static const char source[1500] = "a header longer than what a team checks by itself";

struct target {
    const char *spec;
    uint32_t dtype, base_dtype;
    uint64_t count;
    uint32_t flags;
    bool key;
    size_t source_bytes;
};
static const struct target targets[] = {
    {"wdiff:group=16,block=32", PITH_F32, PITH_BF16, 150, 0, false, 0},
    {"wdiff:group=16,block=32", PITH_BF16, PITH_F32, 75, PITH_LAYOUT_CHECKSUMS, false, 0},
    {"wdiff:group=16,base_hash=off", PITH_F32, PITH_F16, 33, 0, false, 0},
    {"wdiff:group=16,block=32", PITH_F32, PITH_BF16, 70, 0, true, 0},
    {"wdiff:group=16,block=32", PITH_BF16, PITH_BF16, 70, PITH_LAYOUT_CHECKSUMS, true, 0},
    {"wdiff:bits=3,group=16,scale_dtype=bf16", PITH_F16, PITH_NONE, 61, 0, false, 0},
    {"grad", PITH_F32, PITH_NONE, 300, 0, false, 0},
    {"grad:group=32,block=64", PITH_BF16, PITH_NONE, 100, PITH_LAYOUT_CHECKSUMS, false, 0},
    {"grad:group=32,scale_dtype=e8m0,bits=5", PITH_F32, PITH_NONE, 100, 0, false, 0},
    {"grad:group=32", PITH_F32, PITH_NONE, 40, 0, false, sizeof source},
    {"grad:codebook=trellis,group=32", PITH_F32, PITH_NONE, 100, 0, false, 0},
    {"wdiff:codebook=trellis,bits=3,group=16,block=32", PITH_F32, PITH_BF16, 75, 0, false, 0},
    {"raw", PITH_F32, PITH_NONE, 20, 0, false, 0},
    {"raw:block=16", PITH_U8, PITH_NONE, 75, PITH_LAYOUT_CHECKSUMS, false, 20},
};
enum { TARGETS = sizeof targets / sizeof targets[0] };

/* A rig whose streams stand before `frame`. */
static void target_open(const struct target *t, struct rig *r, struct frame *frame) {
    pith_layout layout = flat_layout(t->dtype, t->base_dtype, t->count);
    uint8_t *const value = allocate(t->count * 8), *const base = allocate(t->count * 8);
    const pith_view view = pith_view_flat(value, t->dtype, t->count);
    layout.flags = t->flags;
    layout.source = t->source_bytes ? source : NULL;
    layout.source_bytes = t->source_bytes;
    CHECK(rig_open(r, t->spec, &layout));
    gen_fill(GEN_NOISE, 1, t->dtype, value, t->count);
    if (t->base_dtype) {
        gen_fill(GEN_NOISE, 2, t->base_dtype, base, t->count);
        rig_set_base(r, base, t->base_dtype, 7);
    }
    const struct frame made = stream_encode(&r->cpu, &view, 0, t->key);
    *frame = (struct frame){copy_of(made.bytes, made.length), made.length};
    CHECK_OK(pith_stream_reset(r->cpu.work, r->cpu.stream));
    if (t->base_dtype) rig_set_base(r, base, t->base_dtype, 7);
    free(made.bytes);
    free(base);
    free(value);
}

static void target_close(struct rig *r, struct frame *frame) {
    free(frame->bytes);
    rig_close(r);
}

typedef void attack(struct rig *r, struct frame *frame, uint64_t seed);

static void each_target(const char *what, attack *fn) {
    for (size_t i = 0; i < TARGETS; i++) {
        struct rig r;
        struct frame frame;
        context("%s: %s, key %d, flags %u", what, targets[i].spec, targets[i].key,
                targets[i].flags);
        device_order((int)(i % (size_t)device_orders()));
        target_open(&targets[i], &r, &frame);
        CHECK_OK(rig_try(&r, frame.bytes, frame.length, 0));
        fn(&r, &frame, i);
        target_close(&r, &frame);
    }
}

/* ---- Attacks ---------------------------------------------------------------------------------*/

static void cut(struct rig *r, struct frame *f, uint64_t seed) {
    const size_t header = header_of(f);
    for (size_t n = 0; n < f->length; n += n < header + 40 && n < 200 ? 1 : 13)
        CHECK(rig_try(r, f->bytes, n, (seed + n) % 16) != PITH_OK);
}

static void flip(struct rig *r, struct frame *f, uint64_t seed) {
    const size_t header = header_of(f), head = 8 * (header < 200 ? header : 200);
    for (size_t bit = 0; bit < 8 * f->length; bit += bit < head ? 1 : 37) {
        f->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        const pith_status status = rig_try(r, f->bytes, f->length, (seed + bit) % 16);
        CHECK(status != PITH_OK || bit >= 8 * header);
        f->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* What a flip changes stays behind a checksum that is right. */
static void forge(struct rig *r, struct frame *f, uint64_t seed) {
    const size_t header = header_of(f), head = 8 * (header < 200 ? header : 200);
    uint8_t *const kept = copy_of(f->bytes, f->length);
    for (size_t bit = 0; bit < head; bit++) {
        f->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        bad_seal(f);
        rig_try(r, f->bytes, f->length, (seed + bit) % 16);
        memcpy(f->bytes, kept, f->length);
    }
    free(kept);
}

/* Damages bytes behind a good header; block checksums see it where there are any. */
static void overwrite(struct rig *r, struct frame *f, uint64_t seed) {
    const size_t header = header_of(f), payload = f->length - header;
    uint8_t *const kept = copy_of(f->bytes, f->length);
    for (int k = 0; k < 60; k++) {
        const size_t at = header + gen_next(&seed) % payload;
        const size_t most = f->length - at < 24 ? f->length - at : 24;
        gen_fill(GEN_BITS, gen_next(&seed), PITH_U8, f->bytes + at, 1 + gen_next(&seed) % most);
        rig_try(r, f->bytes, f->length, (size_t)k % 16);
        memcpy(f->bytes, kept, f->length);
    }
    free(kept);
}

static void invent(struct rig *r, struct frame *f, uint64_t seed) {
    for (size_t n = 0; n < 200; n += 3) {
        uint8_t *const bytes = allocate(n);
        gen_fill(GEN_BITS, gen_next(&seed), PITH_U8, bytes, n);
        CHECK(rig_try(r, bytes, n, n % 16) != PITH_OK);
        if (n > 16) memcpy(bytes, f->bytes, 16);
        CHECK(rig_try(r, bytes, n, n % 16) != PITH_OK);
        free(bytes);
    }
}

static void test_cut(void **state) {
    (void)state;
    each_target("cut", cut);
}
static void test_flip(void **state) {
    (void)state;
    each_target("flipped", flip);
}
static void test_forge(void **state) {
    (void)state;
    each_target("forged", forge);
}
static void test_overwrite(void **state) {
    (void)state;
    each_target("overwritten", overwrite);
}
static void test_invent(void **state) {
    (void)state;
    each_target("invented", invent);
}

/* Frames of one plan are not another's, whatever they share. */
static void test_other_plans(void **state) {
    (void)state;
    size_t refused = 0;
    for (size_t i = 0; i < TARGETS; i++)
        for (size_t k = 0; k < TARGETS; k++) {
            struct rig r, other;
            struct frame frame, of_other;
            context("a frame of %s to %s", targets[k].spec, targets[i].spec);
            target_open(&targets[i], &r, &frame);
            target_open(&targets[k], &other, &of_other);
            refused += rig_try(&r, of_other.bytes, of_other.length, 0) != PITH_OK;
            target_close(&other, &of_other);
            target_close(&r, &frame);
        }
    CHECK(refused == TARGETS * (TARGETS - 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),    cmocka_unit_test(test_flip),
        cmocka_unit_test(test_forge),  cmocka_unit_test(test_overwrite),
        cmocka_unit_test(test_invent), cmocka_unit_test(test_other_plans),
    };
    return cmocka_run_group_tests_name("gpu_hostile", tests, NULL, NULL);
}
