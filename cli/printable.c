/* printable.c - names from files as text that cannot steer a terminal or hide in it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* These characters are not seen, or change how others are: soft hyphen, joiners, fillers, marks and
 * overrides of direction, ends of lines and paragraphs, selectors of variants, tags. */
static const struct {
    uint32_t first, last;
} unseen[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},     {0x61c, 0x61c},
    {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
    {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

static bool is_seen(uint32_t code) {
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++)
        if (code >= unseen[i].first && code <= unseen[i].last) return false;
    return true;
}

size_t utf8_character(const char *text, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    const size_t length = *at < 0x80 ? 1 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    if ((*at >= 0x80 && *at < 0xc0) || *at >= 0xf8) return 0;
    *code = length == 1 ? *at : *at & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (at[i] & 0x3f);
    }
    const bool surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code < least[length] || *code > 0x10ffff || surrogate ? 0 : length;
}

/* Writes what is shown for the character at *text, and goes on to the next one. */
static char *put_character(char *to, const char **text) {
    uint32_t code = 0;
    const size_t length = utf8_character(*text, &code);
    const unsigned byte = (unsigned char)**text;
    if (length && is_seen(code)) {
        memcpy(to, *text, length);
        to += length;
    } else if (length < 2) {
        to += sprintf(to, "\\x%02x", byte);
    } else {
        to += sprintf(to, code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
    }
    *text += length ? length : 1;
    return to;
}

void write_printable(char *to, const char *text) {
    while (*text) to = put_character(to, &text);
    *to = '\0';
}

char *make_printable(const char *text) {
    char *const made = malloc(strlen(text) * PRINTABLE_MOST + 1);
    if (made) write_printable(made, text);
    return made;
}

size_t text_columns(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Returns the byte at which column n begins. */
static size_t column_at(const char *text, size_t n) {
    size_t at = 0;
    while (text[at] && (n > 0 || ((unsigned char)text[at] & 0xc0) == 0x80))
        n -= ((unsigned char)text[at++] & 0xc0) != 0x80;
    return at;
}

struct label tensor_label(const char *name) {
    enum { TAIL = LABEL_COLUMNS / 3, HEAD = LABEL_COLUMNS - TAIL - 3 };
    struct label label = {"(unnamed)"};
    char *text = *name ? make_printable(name) : NULL;
    if (!text) return label;
    const size_t columns = text_columns(text);
    const size_t head = column_at(text, columns > LABEL_COLUMNS ? HEAD : columns);
    const size_t tail = columns > LABEL_COLUMNS ? column_at(text, columns - TAIL) : head;
    snprintf(label.text, sizeof label.text, "%.*s%s%s", (int)head, text, tail > head ? "..." : "",
             text + tail);
    free(text);
    return label;
}
