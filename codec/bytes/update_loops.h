/* update_loops.h - the hooks of updates over vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer defines what update_tmpl.h takes of words of 16 and 32 bits, with these numbers as
 * suffixes. Other words are left to scalar C. */

#define WORD uint16_t
#define NAME(name) name##16
#include "bytes/update_tmpl.h"
#define WORD uint32_t
#define NAME(name) name##32
#include "bytes/update_tmpl.h"

static size_t cut(const struct pithi_update *u, const void *values, size_t most, uint8_t *symbols,
                  void *escapes) {
    switch (u->width) {
    case 2:
        return u->ordered ? cut16(u, true, values, most, symbols, escapes)
                          : cut16(u, false, values, most, symbols, escapes);
    case 4:
        return u->ordered ? cut32(u, true, values, most, symbols, escapes)
                          : cut32(u, false, values, most, symbols, escapes);
    default: return pithi_update_cut_c(u, values, most, symbols, escapes);
    }
}

#define CALL(name, u, ...)                            \
    switch ((u)->width) {                             \
    case 2:                                           \
        if ((u)->ordered)                             \
            name##16(u, true, __VA_ARGS__);           \
        else                                          \
            name##16(u, false, __VA_ARGS__);          \
        break;                                        \
    case 4:                                           \
        if ((u)->ordered)                             \
            name##32(u, true, __VA_ARGS__);           \
        else                                          \
            name##32(u, false, __VA_ARGS__);          \
        break;                                        \
    default: pithi_update_##name##_c(u, __VA_ARGS__); \
    }

static void join(const struct pithi_update *u, void *values, const uint8_t *symbols,
                 const void *escapes) {
    CALL(join, u, values, symbols, escapes)
}

static void split(const struct pithi_update *u, const void *values, uint8_t *const *planes) {
    CALL(split, u, values, planes)
}

static void merge(const struct pithi_update *u, void *values, const uint8_t *const *planes) {
    CALL(merge, u, values, planes)
}

#undef CALL
