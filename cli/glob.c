/* glob.c - shell patterns, without the locale that fnmatch depends on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "glob.h"

#include <ctype.h>
#include <string.h>

#include "cli.h"

/* Takes a character off the text; a byte that is not UTF-8 is a character of its own, beyond all
 * others. */
static uint32_t take(const char **at) {
    uint32_t code = 0;
    const size_t length = utf8_character(*at, &code);
    if (length == 0) code = 0x110000u + (unsigned char)**at;
    *at += length ? length : 1;
    return code;
}

/* Takes a character off a pattern, where a backslash quotes what follows. */
static uint32_t take_quoted(const char **at) {
    if (**at == '\\' && (*at)[1]) ++*at;
    return take(at);
}

/* Reads [:name:] at the start of a text: returns what follows it, and sets whether the character
 * belongs to the class. NULL when there is no such class. */
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

/* Reads a set from behind its bracket: returns what follows it; NULL when it does not end. */
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

/* Matches one character of the name against what stands for one in the pattern, no star. */
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

/* After a mismatch the last star takes one character more; no earlier star need be tried. */
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
