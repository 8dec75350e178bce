/* test_gpu_updates.c - exact updates of a base on the device: frames, key frames, values and bases.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bad.h"
#include "common/endian.h"
#include "frame_header.h"
#include "gen.h"
#include "trip.h"

enum { STEP = 7 };

/* How values differ from the base: in few of them; by little; by little but for some; in sign and
 * all; not at all; or they are other values, of which symbols say more than updates, or less, in
 * the sample or only outside of it. */
enum fill { RARELY, LITTLE, MOSTLY, WHOLLY, NEVER, OTHERS, CALM, HIDDEN, FILLS };

static uint64_t value_of(enum fill fill, size_t i, uint64_t base, uint64_t *seed) {
    const uint64_t r = gen_next(seed);
    switch (fill) {
    case RARELY: return r % 100 ? base : base + (r >> 60);
    case LITTLE: return base + (r >> 40) % 21 - 10;
    case MOSTLY: return r % 9 ? base + (r >> 62) : r >> 7;
    case WHOLLY: return ~base;
    case NEVER: return base;
    case CALM: return 0x3C3C3C3C3C3C3C3C + (r >> 62);
    case HIDDEN: return i % 4096 < 512 ? r : 0;
    default: return r;
    }
}

/* Fills base and value with values of the plan's dtype; where it is BOOL, 0 and 1. */
static void fill_both(uint32_t dtype, enum fill fill, size_t count, uint64_t number, uint8_t *base,
                      uint8_t *value) {
    const size_t width = pith_dtype_bytes(dtype);
    uint64_t seed = number + 1;
    gen_fill(fill == MOSTLY ? GEN_BITS : GEN_NOISE, number, dtype, base, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t x = 0;
        memcpy(&x, base + i * width, width);
        x = value_of(fill, i, x, &seed);
        if (dtype == PITH_BOOL) x &= 1;
        memcpy(value + i * width, &x, width);
    }
}

struct setup {
    struct rig r;
    size_t bytes, offset;
    uint8_t *base, *value, *other; /* other: values of the step after */
};

static void open_with(struct setup *u, const char *spec, uint32_t dtype, uint64_t count,
                      enum fill fill, uint64_t number) {
    pith_layout layout = flat_layout(dtype, dtype, count);
    layout.flags = number % 2 ? PITH_LAYOUT_CHECKSUMS : 0;
    if (number % 7 == 6) layout.flags |= PITH_LAYOUT_EXTERNAL_BASE;
    *u = (struct setup){.bytes = (size_t)count * pith_dtype_bytes(dtype),
                        .offset = number % 3 ? 0 : (size_t)(number / 3 % 16)};
    context("%s of %s x %llu, values %d, number %llu", spec, pith_dtype_name(dtype),
            (unsigned long long)count, fill, (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    CHECK(rig_open(&u->r, spec, &layout));
    u->base = allocate(u->bytes);
    u->value = allocate(u->bytes);
    u->other = allocate(u->bytes);
    fill_both(dtype, fill, (size_t)count, number, u->base, u->value);
    memcpy(u->other, u->value, u->bytes);
    for (size_t i = 0; dtype != PITH_BOOL && i < u->bytes; i += 64) u->other[i] ^= 2;
    rig_set_base(&u->r, u->base, dtype, STEP);
}

static void close_with(struct setup *u) {
    free(u->base);
    free(u->value);
    free(u->other);
    rig_close(&u->r);
}

static pith_view view_of(const struct setup *u, void *values) {
    return pith_view_flat(values, u->r.layout.dtype, u->r.count);
}

/* CPU and device encode the values as the next step. */
static struct frame encode_next(struct setup *u, uint8_t *value, bool key) {
    const pith_view view = view_of(u, value);
    struct frame f = stream_encode(&u->r.cpu, &view, 0, key);
    struct job j;
    job_open(&j, &u->r, 1, 1, u->r.layout.dtype, u->offset);
    memcpy(j.tensor.host, value, u->bytes);
    JOB_RUN(&j, pith_cuda_encode(u->r.plan, u->r.stream, &j.items, key ? PITH_KEY_FRAME : 0,
                                 device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(*job_length(&j, 0) == f.length);
    CHECK(memcmp(job_frame(&j, 0), f.bytes, f.length) == 0);
    CHECK(all_bytes(j.frame.host + f.length, j.frame.bytes - f.length, UNTOUCHED));
    rig_check_stream(&u->r);
    job_close(&j);
    return f;
}

/* A call that reads the frame, from memory of exactly its length. */
static void reader_open(struct job *j, const struct setup *u, const struct frame *f) {
    job_open(j, &u->r, 1, 1, u->r.layout.dtype, u->offset);
    job_set_frame(j, f->bytes, f->length);
}

/* Looks at a part and all of it, then goes on to it; without a tensor where `blind`. */
static void decode_next(struct setup *u, const struct frame *f, const uint8_t *value, bool blind) {
    const size_t width = pith_dtype_bytes(u->r.layout.dtype);
    const uint64_t first = u->r.count / 3, end = first + u->r.count / 2;
    uint8_t *const out = allocate(u->bytes);
    pith_view view = view_of(u, out);
    struct job j;
    reader_open(&j, u, f);
    JOB_RUN(&j, pith_cuda_verify(u->r.plan, u->r.stream, &j.items, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    JOB_RUN(&j, pith_cuda_decode_range(u->r.plan, u->r.stream, &j.items, first, end - first,
                                       device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(all_bytes(j.tensor.host, first * width, UNTOUCHED));
    CHECK(memcmp(j.tensor.host + first * width, value + first * width, (end - first) * width) == 0);
    CHECK(all_bytes(j.tensor.host + end * width, u->bytes - end * width, UNTOUCHED));
    if (blind) j.items.tensor = NULL;
    CHECK_OK(decode_one(u->r.cpu.work, u->r.cpu.stream, 0, f->bytes, f->length, &view, 0));
    CHECK(memcmp(out, value, u->bytes) == 0);
    JOB_RUN(&j, pith_cuda_decode(u->r.plan, u->r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(blind || memcmp(j.tensor.host, value, u->bytes) == 0);
    rig_check_stream(&u->r);
    job_close(&j);
    free(out);
}

/* Added to a tensor that is the base; and to one that is not. */
static void add_to(struct setup *u, const struct frame *f, const uint8_t *base,
                   const uint8_t *value, bool key) {
    struct job j;
    reader_open(&j, u, f);
    memcpy(j.tensor.host, base, u->bytes);
    JOB_RUN(&j,
            pith_cuda_decode(u->r.plan, u->r.stream, &j.items, PITH_ADD, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(memcmp(j.tensor.host, value, u->bytes) == 0);
    if (u->bytes && !key) {
        memset(j.tensor.host, 1, u->bytes);
        j.tensor.host[u->bytes - 1] = 0;
        JOB_RUN(&j, pith_cuda_decode(u->r.plan, u->r.stream, &j.items, PITH_ADD, device_stream(),
                                     NULL));
        CHECK_STATUS(PITH_ERR_BASE, job_status(&j, 0));
        CHECK(all_bytes(j.tensor.host, u->bytes - 1, 1));
    }
    rig_check_stream(&u->r);
    job_close(&j);
}

/* An update, then a key frame, then an update again; read by a receiver that begins at the update,
 * and by one that begins at the key frame. */
static void one_trip(const char *spec, uint32_t dtype, uint64_t count, enum fill fill,
                     uint64_t number) {
    struct setup u;
    open_with(&u, spec, dtype, count, fill, number);
    struct frame update = encode_next(&u, u.value, false), key = encode_next(&u, u.other, true),
                 last = encode_next(&u, u.base, false);
    rig_set_base(&u.r, u.base, dtype, STEP);
    add_to(&u, &update, u.base, u.value, false);
    add_to(&u, &key, u.value, u.other, true);
    decode_next(&u, &update, u.value, number % 4 == 1);
    if (number % 2) rig_set_base(&u.r, u.base, dtype, STEP + 40);
    decode_next(&u, &key, u.other, number % 4 == 2);
    decode_next(&u, &last, u.base, false);
    free(update.bytes);
    free(key.bytes);
    free(last.bytes);
    close_with(&u);
}

static void test_trips(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint64_t counts[4];
    } settings[] = {
        {"lossless:entropy=rans", {0, 1, 1025, 9001}},
        {"lossless:entropy=rans,block=16", {15, 17, 100, 333}},
        {"lossless:entropy=rans,block=1024", {1023, 1024, 2049, 3500}},
        {"lossless:entropy=rans,block=4096", {63, 4095, 4100, 8191}},
    };
    uint64_t number = 0;
    for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++)
        for (size_t i = 0; i < 4; i++)
            for (size_t d = 0; d < TRIP_DTYPES; d++)
                for (int fill = 0; fill < FILLS; fill++, number++)
                    if ((number + number / 16) % (settings[k].counts[i] < 1000 ? 7 : 23) == 0 &&
                        is_sampled(number, 3))
                        one_trip(settings[k].spec, trip_dtypes[d], settings[k].counts[i],
                                 (enum fill)fill, number);
}

/* Blocks of 32768 words have a sample of values, which says whether these are tried. */
static void test_sampled(void **state) {
    (void)state;
    for (int fill = 0; fill < FILLS; fill++) {
        if (!is_sampled((uint64_t)fill, 2)) continue;
        one_trip("lossless:entropy=rans,block=32768", fill % 2 ? PITH_BF16 : PITH_U16, 32768 + 100,
                 (enum fill)fill, (uint64_t)fill);
        one_trip("lossless:entropy=rans", fill % 2 ? PITH_I32 : PITH_F32, 33000, (enum fill)fill,
                 (uint64_t)fill + 1);
    }
}

/* ---- Slots -----------------------------------------------------------------------------------*/

static void test_slots(void **state) {
    (void)state;
    enum { COUNT = 5000, SLOT = 1111 };
    for (int fill = 0; fill < FILLS; fill += 3) {
        pith_layout layout = flat_layout(PITH_BF16, PITH_BF16, COUNT);
        struct rig r;
        uint8_t *const base = allocate(2 * COUNT), *const value = allocate(2 * COUNT);
        layout.slots = (COUNT + SLOT - 1) / SLOT;
        layout.slot_count = SLOT;
        context("slots, values %d", fill);
        CHECK(rig_open(&r, "lossless:entropy=rans,block=512", &layout));
        fill_both(PITH_BF16, (enum fill)fill, COUNT, 1, base, value);
        rig_set_base(&r, base, PITH_BF16, STEP);
        struct job j;
        job_open(&j, &r, r.slots, r.slots, PITH_BF16, 0);
        memcpy(j.tensor.host, value, 2 * COUNT);
        JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        for (uint64_t s = 0; s < r.slots; s++) trip_check_frame(&r, &j, s, s);
        rig_check_stream(&r);
        rig_set_base(&r, base, PITH_BF16, STEP);
        memset(j.tensor.host, UNTOUCHED, 2 * COUNT);
        JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        for (uint64_t s = 0; s < r.slots; s++) CHECK_OK(job_status(&j, s));
        CHECK(memcmp(j.tensor.host, value, 2 * COUNT) == 0);
        job_close(&j);
        rig_close(&r);
        free(base);
        free(value);
    }
}

/* Space is wanted for values as they are, since the base changes before lengths are known. */
static void test_space(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    for (int key = 0; key < 2; key++) {
        struct setup u;
        struct job j;
        open_with(&u, "lossless:entropy=rans", PITH_F32, COUNT, LITTLE, 0);
        uint8_t *const before = rig_stream_image(&u.r);
        job_open(&j, &u.r, 1, 1, PITH_F32, 0);
        memcpy(j.tensor.host, u.value, u.bytes);
        j.items.capacity--;
        JOB_RUN(&j, pith_cuda_encode(u.r.plan, u.r.stream, &j.items, key ? PITH_KEY_FRAME : 0,
                                     device_stream(), NULL));
        CHECK_STATUS(PITH_ERR_SPACE, job_status(&j, 0));
        CHECK(*job_length(&j, 0) == 0 && all_bytes(j.frame.host, j.frame.bytes, UNTOUCHED));
        uint8_t *const after = rig_stream_image(&u.r);
        CHECK(memcmp(before, after, (size_t)u.r.sizes.stream_bytes) == 0);
        free(before);
        free(after);
        job_close(&j);
        close_with(&u);
    }
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

/* A frame of the step, or a key frame, made by another stream. */
static struct frame frame_of(const struct setup *u, const char *spec, uint64_t step, bool key) {
    const pith_view base = view_of(u, u->base), value = view_of(u, u->value);
    struct stream other;
    stream_open(&other, spec, &u->r.layout, NULL);
    if (u->r.layout.flags & PITH_LAYOUT_EXTERNAL_BASE)
        CHECK_OK(pith_stream_bind_base(other.work, other.stream, u->other, step));
    CHECK_OK(pith_stream_set_base(other.work, other.stream, &base, step));
    struct frame f = stream_encode(&other, &value, 0, key);
    stream_close(&other);
    return f;
}

static void attack(struct setup *u, struct frame *f, uint64_t seed) {
    for (size_t n = 0; n < f->length; n += 1 + n / 7)
        if (is_sampled(n, 8)) rig_try(&u->r, f->bytes, n, u->offset);
    for (size_t i = 0; i < f->length; i += f->length < 500 ? 1 : 1 + gen_next(&seed) % 9) {
        const uint8_t bit = (uint8_t)(1u << gen_next(&seed) % 8);
        uint8_t *const kept = copy_of(f->bytes, f->length);
        if (is_sampled(i, 8)) {
            f->bytes[i] ^= bit;
            if (i < 112 && gen_next(&seed) % 2) bad_seal(f);
            rig_try(&u->r, f->bytes, f->length, u->offset);
        }
        memcpy(f->bytes, kept, f->length);
        free(kept);
    }
}

/* Several blocks each, so that one is damaged behind others that are not. */
static void test_hostile(void **state) {
    (void)state;
    static const struct {
        uint32_t dtype;
        uint64_t count;
        enum fill fill;
    } cases[] = {{PITH_BF16, 300, RARELY}, {PITH_F32, 200, LITTLE}, {PITH_U8, 300, MOSTLY},
                 {PITH_I64, 100, MOSTLY},  {PITH_F16, 200, CALM},   {PITH_F64, 90, RARELY}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        static const char spec[] = "lossless:entropy=rans,block=64";
        struct setup u;
        const size_t number = i + i / 6; /* none has an external base, which is not set back */
        open_with(&u, spec, cases[i / 2].dtype, cases[i / 2].count, cases[i / 2].fill, number);
        struct frame f = frame_of(&u, spec, STEP, i % 2);
        CHECK_OK(rig_try(&u.r, f.bytes, f.length, u.offset));
        attack(&u, &f, i);
        free(f.bytes);
        close_with(&u);
    }
}

/* Another step, another base, another setting; entropy=auto where no string is of zstd. */
static void test_others(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    static const char spec[] = "lossless:entropy=rans,block=1024";
    static const struct {
        const char *spec;
        uint64_t step;
        bool changed;
        pith_status wanted;
    } others[] = {
        {"lossless:entropy=rans,block=1024", STEP, false, PITH_OK},
        {"lossless:entropy=rans,block=1024", STEP + 1, false, PITH_ERR_STEP},
        {"lossless:entropy=rans,block=1024", STEP, true, PITH_ERR_BASE},
        {"lossless:entropy=rans,block=1024,base_hash=off", STEP, false, PITH_ERR_MISMATCH},
        {"lossless:revision=1,block=1024", STEP, false, PITH_ERR_MISMATCH},
        {"lossless:effort=3,block=1024", STEP, false, PITH_OK},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct setup u;
        open_with(&u, spec, PITH_F32, COUNT, i == 5 ? OTHERS : LITTLE, i);
        context("%s at step %llu", others[i].spec, (unsigned long long)others[i].step);
        if (others[i].changed) u.base[5] ^= 1;
        struct frame f = frame_of(&u, others[i].spec, others[i].step, false);
        CHECK_STATUS(others[i].wanted, rig_try(&u.r, f.bytes, f.length, 0));
        free(f.bytes);
        close_with(&u);
    }
}

/* Heads: an update in a key frame, or of tops, or where bits cannot be. */
static void test_heads(void **state) {
    (void)state;
    enum { COUNT = 100, HEADS = 256 };
    static const char spec[] = "lossless:entropy=rans";
    for (int key = 0; key < 2; key++) {
        struct setup u;
        open_with(&u, spec, PITH_F32, COUNT, LITTLE, 0);
        struct frame f = frame_of(&u, spec, STEP, key);
        const size_t at = f.length - (pithi_get64(f.bytes + PITHI_AT_PAYLOAD) - 16);
        const uint8_t kept = f.bytes[at];
        CHECK(key || kept == 0x18);
        for (unsigned head = 0; head < HEADS; head++) {
            context("head %u, key %d", head, key);
            f.bytes[at] = (uint8_t)head;
            const pith_status got = rig_try(&u.r, f.bytes, f.length, 0);
            CHECK(head == kept ? got == PITH_OK : got != PITH_OK || head == (kept & 15u));
        }
        free(f.bytes);
        close_with(&u);
    }
}

/* A key frame whose content is not what it declares, whole otherwise. */
static void test_wrong_key(void **state) {
    (void)state;
    enum { COUNT = 600 };
    static const char spec[] = "lossless:entropy=rans,block=256";
    struct setup u;
    open_with(&u, spec, PITH_BF16, COUNT, LITTLE, 0);
    struct frame f = frame_of(&u, spec, STEP, true);
    context("another hash of the base");
    f.bytes[PITHI_HEADER_BYTES + PITHI_SECTION_HEAD + PITHI_STREAM_BASE] ^= 1;
    bad_seal(&f);
    CHECK_STATUS(PITH_ERR_CHECKSUM, rig_try(&u.r, f.bytes, f.length, 0));
    struct job j;
    reader_open(&j, &u, &f);
    JOB_RUN(&j, pith_cuda_verify(u.r.plan, u.r.stream, &j.items, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_CHECKSUM, job_status(&j, 0));
    JOB_RUN(&j, pith_cuda_decode(u.r.plan, u.r.stream, &j.items, PITH_ADD, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_CHECKSUM, job_status(&j, 0));
    CHECK(all_bytes(j.tensor.host, u.bytes, UNTOUCHED));
    job_close(&j);
    free(f.bytes);
    close_with(&u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trips),   cmocka_unit_test(test_sampled),
        cmocka_unit_test(test_slots),   cmocka_unit_test(test_space),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_others),
        cmocka_unit_test(test_heads),   cmocka_unit_test(test_wrong_key),
    };
    return cmocka_run_group_tests_name("gpu_updates", tests, NULL, NULL);
}
