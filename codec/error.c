/* error.c - how a failure is told: status, sentence, place.
 * SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <string.h>

/* Returns the bytes of text that fit, the final 0 included; 0 when nothing may be written. */
static size_t capacity_of(const pith_error *e) {
    const size_t head = offsetof(pith_error, text);
    if (!e || e->size <= head) return 0;
    return (e->size < sizeof *e ? e->size : sizeof *e) - head;
}

void pithi_clear(pith_error *e) {
    if (!capacity_of(e)) return;
    e->offset = e->item = 0;
    e->text[0] = 0;
    if (e->size > sizeof *e && e->size <= 4096) memset(e + 1, 0, e->size - sizeof *e);
}

struct line {
    char *at, *end; /* end: where the final 0 goes at the latest */
};

static void put(struct line *l, const char *text, size_t bytes) {
    const size_t left = (size_t)(l->end - l->at), n = bytes < left ? bytes : left;
    memcpy(l->at, text, n);
    l->at += n;
}

static void put_number(struct line *l, uint64_t number) {
    char digits[20];
    size_t n = sizeof digits;
    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    put(l, digits + n, sizeof digits - n);
}

/* Returns the bytes of the plural at the start of a text, " elements", without its last letter; 0
 * for another word. Of the words that end in s, " is", " was" and " has" are none. */
static size_t singular_of(const char *text) {
    size_t n = *text == ' ';
    while (n && text[n] >= 'a' && text[n] <= 'z') n++;
    return n > 4 && text[n - 1] == 's' ? n - 1 : 0;
}

pith_status pithi_fail_with(pith_error *e, pith_status status, uint64_t offset, const char *text,
                            const struct pithi_words *words) {
    const size_t capacity = capacity_of(e);
    if (!capacity) return status;
    struct line l = {e->text, e->text + capacity - 1};
    e->offset = offset;
    e->item = 0;
    for (size_t numbers = 0, names = 0; *text; text++) {
        if (*text == '#') {
            const uint64_t number = words->number[numbers++];
            const size_t singular = number == 1 ? singular_of(text + 1) : 0;
            put_number(&l, number);
            put(&l, text + 1, singular);
            if (singular) text += singular + 1;
        } else if (*text == '$')
            put(&l, words->name[names], strlen(words->name[names])), names++;
        else
            put(&l, text, 1);
    }
    *l.at = 0;
    return status;
}

pith_status pithi_fail_numbers(pith_error *e, pith_status status, const char *text,
                               uint64_t expected, uint64_t found) {
    const struct pithi_words words = {.number = {expected, found}};
    return pithi_fail_with(e, status, 0, text, &words);
}

pith_status pithi_fail_at(pith_error *e, pith_status status, const char *text, uint64_t offset) {
    const size_t capacity = capacity_of(e);
    if (!capacity) return status;
    struct line l = {e->text, e->text + capacity - 1};
    e->offset = offset;
    e->item = 0;
    put(&l, text, strlen(text));
    *l.at = 0;
    return status;
}

pith_status pithi_fail(pith_error *e, pith_status status, const char *text) {
    return pithi_fail_at(e, status, text, 0);
}

void pithi_error_copy(pith_error *to, const pith_error *from) {
    pithi_fail_at(to, PITH_OK, from->text, from->offset);
    if (capacity_of(to)) to->item = from->item;
}
