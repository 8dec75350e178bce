/* util.c - what every test program uses: checks with context, reference conversions, streams.
 * SPDX-License-Identifier: Apache-2.0 */
#include "util.h"

#include <math.h>

#include "gen.h"

/* ---- Sanitizers ------------------------------------------------------------------------------*/

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
/* clang's OpenMP forgets what its threads had when a team shrinks. LeakSanitizer asks for this, so
 * that a test program needs no environment; lsan.supp says it of programs without this file. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libomp\n"; }
#endif
#endif

/* ---- Checks ----------------------------------------------------------------------------------*/

static char where[512];

void context(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(where, sizeof where, format, list);
    va_end(list);
}

void check_failed(const char *what, const char *file, int line) {
    fprintf(stderr, "%s:%d: %s\n    in: %s\n", file, line, what, where);
    _fail(file, line);
    abort(); /* reached only when a check stands outside a test */
}

void check_status(pith_status got, pith_status wanted, const char *what, const char *file,
                  int line) {
    if (got == wanted) return;
    fprintf(stderr, "%s instead of %s\n", pith_status_name(got), pith_status_name(wanted));
    check_failed(what, file, line);
}

/* ---- Memory ----------------------------------------------------------------------------------*/

void *allocate(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    if (!p) abort();
    return p;
}

void *copy_of(const void *bytes, size_t count) {
    void *p = allocate(count);
    if (count) memcpy(p, bytes, count);
    return p;
}

bool all_bytes(const void *p, size_t count, uint8_t value) {
    const uint8_t *const bytes = p;
    return !count || (bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0);
}

/* ---- Environment -----------------------------------------------------------------------------*/

pith_env test_env(void) {
    pith_env env = {.size = sizeof env};
    const char *mask = getenv("PITH_TEST_CPU_MASK");
    if (mask) env.cpu_mask = (uint32_t)strtoul(mask, NULL, 0);
    return env;
}

size_t test_step(size_t otherwise) {
    const char *const step = getenv("PITH_TEST_STEP");
    const size_t n = step ? (size_t)strtoul(step, NULL, 10) : otherwise;
    return n ? n : 1;
}

enum { USUAL_STEP = 193 };

bool is_sampled(uint64_t number, uint64_t of) {
    const size_t step = test_step(1);
    uint64_t seed = number;
    if (step > USUAL_STEP) of *= step / USUAL_STEP;
    return step == 1 || gen_next(&seed) % of == 0;
}

size_t sample_of(size_t all) { return test_step(1) == 1 ? all : (all + 7) / 8; }

int run_backwards(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    (void)user;
    while (count-- > 0) job(arg, count);
    return 0;
}

/* ---- Numbers ---------------------------------------------------------------------------------*/

uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

bool nonfinite(uint32_t u) { return (u & 0x7F800000u) == 0x7F800000u; }

static uint32_t widen_half(uint16_t h) {
    const uint32_t sign = (uint32_t)(h >> 15) << 31, e = h >> 10 & 31, m = h & 1023;
    if (e == 31) return sign | 0x7F800000u | m << 13;
    return sign | bits_of((float)(e ? ldexp(1024 + m, (int)e - 25) : ldexp(m, -24)));
}

uint32_t load_float(const void *p, uint32_t dtype, size_t i) {
    uint32_t word;
    uint16_t half;
    if (dtype == PITH_F32) {
        memcpy(&word, (const char *)p + 4 * i, 4);
        return word;
    }
    memcpy(&half, (const char *)p + 2 * i, 2);
    return dtype == PITH_BF16 ? (uint32_t)half << 16 : widen_half(half);
}

/* |x| to a multiple of 2^(exponent - digits), nearest even: exact arithmetic in double. */
static double round_digits(double x, int digits, int least) {
    int e;
    frexp(x, &e);
    e = e - 1 < least ? least : e - 1;
    return ldexp(nearbyint(ldexp(x, digits - e)), e - digits);
}

static uint16_t narrow_half(double x) {
    const double y = round_digits(x, 10, -14);
    int e;
    if (y >= 65536) return 0x7C00;
    if (y < 0x1p-14) return (uint16_t)ldexp(y, 24);
    frexp(y, &e);
    return (uint16_t)(((e + 14) << 10) + (int)ldexp(y, 11 - e) - 1024);
}

static uint16_t narrow(uint32_t dtype, uint32_t u) {
    const uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
    const uint32_t a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return dtype == PITH_BF16 ? 0x7FC0 : 0x7E00;
    if (a == 0x7F800000u) return sign | (dtype == PITH_BF16 ? 0x7F80 : 0x7C00);
    const double x = (double)float_of(a);
    if (dtype == PITH_F16) return sign | narrow_half(x);
    const double y = round_digits(x, 7, -126);
    return y >= 0x1p128 ? sign | 0x7F80 : (uint16_t)(sign | bits_of((float)y) >> 16);
}

void store_float(void *p, uint32_t dtype, size_t i, uint32_t u) {
    if (dtype == PITH_F32) {
        if ((u & 0x7FFFFFFFu) > 0x7F800000u) u = 0x7FC00000u;
        memcpy((char *)p + 4 * i, &u, 4);
        return;
    }
    const uint16_t half = narrow(dtype, u);
    memcpy((char *)p + 2 * i, &half, 2);
}

double load_real(const void *p, uint32_t dtype, size_t i) {
    double x;
    if (dtype != PITH_F64) return (double)float_of(load_float(p, dtype, i));
    memcpy(&x, (const char *)p + 8 * i, sizeof x);
    return x;
}

/* a - b = *sum + *rest, exactly. */
static void two_sum(double a, double b, double *sum, double *rest) {
    const double s = a - b, t = s - a;
    *sum = s;
    *rest = (a - (s - t)) - (b + t);
}

/* high + low <= bound, where |low| is at most half a unit of high. */
static bool at_most(double high, double low, double bound) {
    return high < bound || (high == bound && low <= 0);
}

bool within_bound(double x, double y, double bound) {
    double high, low;
    two_sum(x > y ? x : y, x > y ? y : x, &high, &low);
    return at_most(high, low, bound);
}

/* All scaled so that x is near 1, and both sides have two parts. */
bool within_share(double x, double y, double share) {
    double high, low, rest, a, b;
    int e;
    frexp(x, &e);
    x = ldexp(x, -e);
    y = ldexp(y, -e);
    two_sum(x > y ? x : y, x > y ? y : x, &high, &low);
    const double most = share * fabs(x), more = fma(share, fabs(x), -most);
    two_sum(high, most, &a, &rest);
    two_sum(low + rest, more, &b, &rest);
    return a + b <= 0;
}

uint32_t largest_of(uint32_t dtype) {
    return dtype == PITH_F32 ? 0x7F7FFFFFu : dtype == PITH_BF16 ? 0x7F7F0000u : bits_of(65504);
}

uint32_t reference_update(uint32_t base, uint32_t x, uint32_t base_dtype, uint64_t *saturated) {
    if ((x & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC00000u;
    const float b = nonfinite(base) ? 0.0f : float_of(base);
    uint32_t out[1];
    store_float(out, base_dtype, 0, bits_of(b + float_of(x)));
    const uint32_t y = load_float(out, base_dtype, 0);
    if (!nonfinite(y)) return y;
    ++*saturated;
    return (y & 0x80000000u) | largest_of(base_dtype);
}

/* ---- Layouts, frames, streams ----------------------------------------------------------------*/

pith_layout flat_layout(uint32_t dtype, uint32_t base_dtype, uint64_t count) {
    return (pith_layout){.size = sizeof(pith_layout),
                         .dtype = dtype,
                         .base_dtype = base_dtype,
                         .ndim = 1,
                         .shape = {count}};
}

struct frame compress(const char *spec, const pith_view *view, const pith_view *base,
                      uint32_t flags) {
    const pith_layout layout = {.size = sizeof layout, .flags = flags};
    const pith_env env = test_env();
    uint64_t bound;
    size_t written;
    CHECK_OK(pith_compress_bound(spec, view, base, &layout, &bound, NULL));
    uint8_t *place = allocate((size_t)bound);
    CHECK_OK(pith_compress(spec, view, base, &layout, &env, place, (size_t)bound, &written, NULL));
    CHECK(written <= bound);
    const struct frame f = {copy_of(place, written), written};
    free(place);
    return f;
}

size_t header_of(const struct frame *f) {
    pith_info info = {.size = sizeof info};
    CHECK_OK(pith_inspect(f->bytes, f->length, &info, NULL));
    return (size_t)info.header_bytes;
}

/* ---- Lists of one item -----------------------------------------------------------------------*/

pith_status encode_one(pith_work *work, pith_stream *stream, const pith_view *view, uint64_t slot,
                       uint32_t flags, void *dst, size_t cap, size_t *written) {
    pith_item item = {.size = sizeof item,
                      .stream = stream,
                      .slot = slot,
                      .frame = dst,
                      .capacity = cap,
                      .length = SIZE_MAX,
                      .status = PITH_ERR_INTERNAL};
    if (view) item.view = *view;
    const pith_status status = pith_encode(work, &item, 1, flags);
    if (work) CHECK(item.status == status);
    *written = item.length;
    return status;
}

pith_status decode_one(pith_work *work, pith_stream *stream, uint64_t slot, const void *frame,
                       size_t bytes, const pith_view *view, uint32_t flags) {
    pith_item item = {.size = sizeof item,
                      .stream = stream,
                      .slot = slot,
                      .frame = (void *)(uintptr_t)frame,
                      .length = bytes,
                      .status = PITH_ERR_INTERNAL};
    if (view) item.view = *view;
    const pith_status status = pith_decode(work, &item, 1, flags);
    if (work) CHECK(item.status == status);
    return status;
}

pith_status reduce_one(pith_work *work, pith_stream *stream, uint64_t slot,
                       const void *const *frames, const size_t *lengths, size_t count, float scale,
                       const pith_view *view) {
    pith_sum sum = {.size = sizeof sum,
                    .stream = stream,
                    .slot = slot,
                    .frames = frames,
                    .lengths = lengths,
                    .count = count,
                    .scale = scale,
                    .status = PITH_ERR_INTERNAL};
    if (view) sum.view = *view;
    const pith_status status = pith_reduce(work, &sum, 1);
    if (work) CHECK(sum.status == status);
    return status;
}

pith_status reduce_encode_one(pith_work *work, pith_stream *stream, uint64_t slot,
                              const void *const *frames, const size_t *lengths, size_t count,
                              float scale, pith_stream *out, uint64_t out_slot, void *dst,
                              size_t cap, size_t *written) {
    const pith_sum sum = {.size = sizeof sum,
                          .stream = stream,
                          .slot = slot,
                          .frames = frames,
                          .lengths = lengths,
                          .count = count,
                          .scale = scale};
    pith_item item = {.size = sizeof item,
                      .stream = out,
                      .slot = out_slot,
                      .frame = dst,
                      .capacity = cap,
                      .length = SIZE_MAX,
                      .status = PITH_ERR_INTERNAL};
    const pith_status status = pith_reduce_encode(work, &sum, &item, 1);
    if (work) CHECK(item.status == status);
    *written = item.length;
    return status;
}

/* ---- One end of a sequence of frames ---------------------------------------------------------*/

pith_work *work_for(const pith_plan *const *plans, size_t count, const pith_env *env,
                    void **memory) {
    const pith_env own = test_env();
    if (!env) env = &own;
    const uint64_t bytes = pith_work_bytes(plans, count, env->threads);
    pith_work *work = NULL;
    *memory = allocate((size_t)bytes);
    CHECK_OK(pith_work_init(*memory, (size_t)bytes, env, &work, NULL));
    return work;
}

static void open_end(struct stream *s, const pith_env *env, const pith_stream_options *options) {
    s->sizes.size = sizeof s->sizes;
    CHECK_OK(pith_plan_sizes(s->plan, &s->sizes));
    s->work = work_for(&s->plan, 1, env, &s->work_memory);
    s->memory = allocate((size_t)s->sizes.stream_bytes);
    CHECK_OK(pith_stream_init(s->plan, s->memory, (size_t)s->sizes.stream_bytes, options,
                              &s->stream, NULL));
}

void stream_open_with(struct stream *s, const char *spec, const pith_layout *layout,
                      const pith_env *env, const pith_stream_options *options) {
    const pith_env own = test_env();
    if (!env) env = &own;
    *s = (struct stream){0};
    CHECK_OK(pith_plan_create(&s->plan, spec, layout, env, NULL));
    open_end(s, env, options);
}

void stream_open(struct stream *s, const char *spec, const pith_layout *layout,
                 const pith_env *env) {
    stream_open_with(s, spec, layout, env, NULL);
}

void stream_open_end(struct stream *end, const struct stream *s,
                     const pith_stream_options *options) {
    *end = (struct stream){.plan = s->plan, .borrowed = true};
    open_end(end, NULL, options);
}

void stream_close(struct stream *s) {
    if (!s->borrowed) pith_plan_destroy(s->plan);
    free(s->memory);
    free(s->work_memory);
    *s = (struct stream){0};
}

struct frame stream_encode(struct stream *s, const pith_view *view, uint64_t slot, bool key) {
    const int is_key = key || pith_plan_is_key(s->plan, pith_stream_step(s->stream, slot));
    const size_t cap = (size_t)pith_plan_frame_bytes(s->plan, slot, is_key);
    struct frame f = {allocate(cap), 0};
    CHECK_OK(encode_one(s->work, s->stream, view, slot, key ? PITH_KEY_FRAME : 0, f.bytes, cap,
                        &f.length));
    CHECK(f.length <= cap);
    return f;
}

void *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    uint8_t *bytes = size >= 0 ? allocate((size_t)size) : NULL;
    *length = bytes ? fread(bytes, 1, (size_t)size, file) : 0;
    fclose(file);
    return bytes;
}
