/* set_list_tmpl.h - lists of sets, where the lowest one of a word is found in one step (BMI).
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included select_tmpl.h and defined
 *   list_word    the fastest way where ones are many: it writes the numbers of the ones of a word,
 *                and up to 16 more, and returns where the next go
 *   used_words   writes which of 16 words are not 0, numbered from its second argument on, and
 *                anything up to 16 numbers, and returns how many are not 0 */
#ifndef PITHI_SPARSE_SET_LIST_TMPL_H
#define PITHI_SPARSE_SET_LIST_TMPL_H

#include <immintrin.h>

#include "common/lanes_tmpl.h"

/* Words whose ones are counted before they are listed, since how many there are decides how. */
enum { CHUNK = 512 };

/* Lists the words of a chunk that are not 0. From each it takes `few` ones without asking whether
 * there are so many, which no branch could foresee; most words should have no more. */
ALWAYS uint32_t *list_used(const uint64_t *chunk, const uint32_t *used, size_t count,
                           uint32_t first, unsigned few, uint32_t *to) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t base = first + WORD * used[i];
        uint64_t word = chunk[used[i]];
        const unsigned ones = (unsigned)_mm_popcnt_u64(word);
        for (unsigned k = 0; k < few; k++, word = _blsr_u64(word))
            to[k] = base + (uint32_t)_tzcnt_u64(word);
        for (unsigned k = few; k < ones; k++, word = _blsr_u64(word))
            to[k] = base + (uint32_t)_tzcnt_u64(word);
        to += ones;
    }
    return to;
}

static size_t set_list(const uint64_t *set, size_t words, uint32_t *index) {
    uint32_t *to = index;
    for (size_t at = 0, n; at < words; at += n) {
        uint32_t used[CHUNK + UNIT];
        const uint64_t *const chunk = set + at;
        const uint32_t first = (uint32_t)(WORD * at);
        size_t count = 0, ones = 0, w = 0;
        n = words - at < CHUNK ? words - at : CHUNK;
        for (; w + UNIT <= n; w += UNIT) count += used_words(chunk + w, (uint32_t)w, used + count);
        for (; w < n; w++) {
            used[count] = (uint32_t)w;
            count += chunk[w] != 0;
        }
        for (size_t i = 0; i < count; i++) ones += (size_t)_mm_popcnt_u64(chunk[used[i]]);
        if (2 * ones <= 5 * count)
            to = list_used(chunk, used, count, first, 3, to);
        else if (ones <= 8 * count)
            to = list_used(chunk, used, count, first, 9, to);
        else
            for (w = 0; w < n; w++) to = list_word(chunk[w], first + WORD * (uint32_t)w, to);
    }
    return (size_t)(to - index);
}

#endif
