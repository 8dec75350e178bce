/* glob.c - shell patterns, without the locale that fnmatch depends on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "glob.h"

#include <ctype.h>
#include <string.h>

#include "cli.h"

/* Take a character; a byte that is not UTF-8 is one of its own, beyond all others. */
static uint32_t take(const char **at) {
    uint32_t code = 0;
    const size_t length = utf8_character(*at, &code);
    if (length == 0) code = 0x110000u + (unsigned char)**at;
    *at += length ? length : 1;
    return code;
}

/* The same in a pattern, where a backslash quotes what follows. */
static uint32_t take_quoted(const char **at) {
    if (**at == '\\' && (*at)[1]) ++*at;
    return take(at);
}

/* [:name:] at the start of a text: what follows it, and whether the character belongs to it. NULL
 * when there is no such class. */
static const char *match_class(const char *at, uint32_t c, bool *hit) {
    static const struct {
        const char *name;
        int (*has)(int);
    } classes[] = {
        {"[:alnum:]", isalnum}, {"[:alpha:]", isalpha}, {"[:blank:]", isblank},
        {"[:cntrl:]", iscntrl}, {"[:digit:]", isdigit}, {"[:graph:]", isgraph},
        {"[:lower:]", islower}, {"[:print:]", isprint}, {"[:punct:]", ispunct},
        {"[:space:]", isspace}, {"[:upper:]", isupper}, {"[:xdigit:]", isxdigit},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const size_t n = strlen(classes[i].name);
        if (strncmp(at, classes[i].name, n) != 0) continue;
        *hit = *hit || (c < 0x80 && classes[i].has((int)c));
        return at + n;
    }
    return NULL;
}

/* A set, from behind its bracket: what follows it. NULL when it does not end. */
static const char *match_set(const char *at, uint32_t c, bool *hit) {
    const bool negated = *at == '!' || *at == '^';
    const char *const first = at += negated;
    *hit = false;
    while (*at && (*at != ']' || at == first)) {
        const char *after = match_class(at, c, hit);
        if (after) {
            at = after;
            continue;
        }
        const uint32_t low = take_quoted(&at);
        const bool range = at[0] == '-' && at[1] && at[1] != ']';
        at += range;
        const uint32_t high = range ? take_quoted(&at) : low;
        *hit = *hit || (c >= low && c <= high);
    }
    *hit = *hit != negated;
    return *at ? at + 1 : NULL;
}

/* One character of the name against what is one character of the pattern, no star. */
static bool match_one(const char **glob, const char **name) {
    const uint32_t c = take(name);
    bool hit = true;
    if (**glob == '?') {
        ++*glob;
        return true;
    }
    const char *after = **glob == '[' ? match_set(*glob + 1, c, &hit) : NULL;
    if (after)
        *glob = after;
    else
        hit = take_quoted(glob) == c;
    return hit;
}

/* After a mismatch the last star takes one character more; no earlier one need be tried. */
bool glob_match(const char *glob, const char *name) {
    const char *star = NULL, *taken = NULL;
    while (*name) {
        const char *next_glob = glob, *next_name = name;
        if (*glob == '*') {
            star = ++glob;
            taken = name;
        } else if (*glob && match_one(&next_glob, &next_name)) {
            glob = next_glob;
            name = next_name;
        } else if (star) {
            take(&taken);
            name = taken;
            glob = star;
        } else {
            return false;
        }
    }
    while (*glob == '*') glob++;
    return *glob == '\0';
}
