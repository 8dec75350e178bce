/* fuzz_pieces.c - any bytes as a piece, by scalar C and by the kernels of this CPU; and any bytes
 * there and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bytes/entropy.h"
#include "bytes/piece.h"
#include "codec.h"
#include "cpu.h"
#include "fuzz.h"

enum { MOST = 1 << 15 };

static const struct pithi_kernels *kernels(unsigned scalar) {
    static struct pithi_kernels bound[2];
    if (!bound[0].rans_decode) {
        pithi_kernels_bind(&bound[0], pithi_cpu_select(0));
        pithi_kernels_bind(&bound[1], 0);
    }
    return &bound[scalar];
}

static void *memory(size_t bytes) {
    void *const p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    FUZZ_CHECK(p);
    return memset(p, 0xA5, bytes);
}

static struct pithi_entropy *coder_of(size_t n, int level) {
    const size_t bytes = pithi_entropy_bytes(n, level);
    return pithi_entropy_open(memory(bytes), bytes);
}

/* Reads n bytes of a piece, by a coder of a level that makes nothing; copies them to `out`. */
static bool take(const uint8_t *bytes, size_t length, int level, unsigned scalar, size_t n,
                 uint8_t *out, size_t *left) {
    void *const scratch = memory(pithi_piece_take_scratch(n));
    struct pithi_entropy *const coder = coder_of(n, level);
    struct pithi_reader r = {bytes, length, scratch, coder, kernels(scalar)->rans_decode};
    uint8_t *const buffer = guard_new(n);
    const uint8_t *const piece = pithi_piece_take(&r, n, buffer);
    if (piece) memcpy(out, piece, n);
    *left = r.left;
    guard_free(buffer, n);
    free(scratch);
    free(coder);
    return piece != NULL;
}

static void check_take(const uint8_t *bytes, size_t length, int level, size_t n) {
    uint8_t *const copy = guard_copy(bytes, length), *const out[2] = {guard_new(n), guard_new(n)};
    size_t left[2];
    const bool good = take(copy, length, level, 0, n, out[0], &left[0]);
    FUZZ_CHECK(take(copy, length, level, 1, n, out[1], &left[1]) == good);
    FUZZ_CHECK(!good || (left[0] == left[1] && memcmp(out[0], out[1], n) == 0));
    guard_free(copy, length);
    for (int i = 0; i < 2; i++) guard_free(out[i], n);
}

static size_t put(const uint8_t *bytes, size_t n, int level, unsigned scalar, uint8_t *to,
                  size_t cap) {
    void *const scratch = memory(pithi_piece_scratch(n));
    struct pithi_entropy *const coder = coder_of(n, level);
    struct pithi_pen pen = {to,
                            cap,
                            level,
                            scratch,
                            coder,
                            kernels(scalar)->rans_encode,
                            kernels(scalar)->symbol_count,
                            false};
    const bool fits = pithi_piece_put(&pen, n, bytes, n);
    free(scratch);
    free(coder);
    return fits ? (size_t)(pen.at - to) : 0;
}

static void check_put(const uint8_t *bytes, size_t n, int level, size_t cap) {
    uint8_t *const copy = guard_copy(bytes, n), *const to[2] = {guard_new(cap), guard_new(cap)};
    const size_t length = put(copy, n, level, 0, to[0], cap);
    FUZZ_CHECK(put(copy, n, level, 1, to[1], cap) == length);
    FUZZ_CHECK(memcmp(to[0], to[1], length) == 0);
    FUZZ_CHECK(length || cap < n + 1);
    if (length) {
        uint8_t *const back = guard_new(n);
        size_t left = 1;
        const int reader = level == PITHI_EFFORT_RANS ? level : PITHI_EFFORT_NONE;
        FUZZ_CHECK(take(to[0], length, reader, 0, n, back, &left) && left == 0);
        FUZZ_CHECK(memcmp(back, bytes, n) == 0);
        guard_free(back, n);
    }
    guard_free(copy, n);
    for (int i = 0; i < 2; i++) guard_free(to[i], cap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source s = {data, size};
    const bool damaged = fuzz_u8(&s) & 1;
    const int drawn = 1 + (int)fuzz_below(&s, 5);
    const int level = drawn <= PITHI_EFFORT_SEARCH ? drawn : PITHI_EFFORT_RANS;
    const int reader = level < 0 ? level : PITHI_EFFORT_NONE;
    const size_t n = 1 + fuzz_below(&s, MOST), short_of = fuzz_below(&s, 64);
    if (damaged)
        check_take(s.bytes, s.length, reader, n);
    else if (s.length && s.length <= MOST)
        check_put(s.bytes, s.length, level, s.length + 1 > short_of ? s.length + 1 - short_of : 0);
    return 0;
}
