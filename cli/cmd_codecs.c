/* cmd_codecs.c - pith codecs: the codecs, or one, with traits and keys.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "report.h"

static json_t *dtypes_json(uint32_t dtypes) {
    json_t *list = json_array();
    for (uint32_t d = 1; d < 32; d++)
        if (dtypes >> d & 1) json_array_append_new(list, json_string(pith_dtype_name(d)));
    return list;
}

static json_t *keys_json(uint32_t index) {
    json_t *list = json_array();
    pith_key_info key = {.size = sizeof key};
    for (uint32_t k = 0; pith_codec_key_at(index, k, &key) == PITH_OK; k++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s}", "name", key.name, "values", key.values,
                            "default", key.initial, "summary", key.summary));
    return list;
}

static const struct {
    uint32_t trait;
    const char *name;
} traits[] = {{PITH_TRAIT_LOSSLESS, "lossless"}, {PITH_TRAIT_FIXED_RATE, "fixed_rate"},
              {PITH_TRAIT_BASE, "base"},         {PITH_TRAIT_EXEMPT, "exempt"},
              {PITH_TRAIT_BOUND, "bound"},       {PITH_TRAIT_UPDATE, "update"},
              {PITH_TRAIT_SPARSE, "sparse"}};
enum { TRAITS = sizeof traits / sizeof *traits };

static json_t *codec_json(uint32_t index, const pith_codec_info *c) {
    json_t *object = json_pack("{s:s, s:I, s:I, s:s}", "name", c->name, "id", (json_int_t)c->id,
                               "revision", (json_int_t)c->revision, "summary", c->summary);
    for (size_t t = 0; t < TRAITS; t++)
        json_object_set_new(object, traits[t].name, json_boolean(c->traits & traits[t].trait));
    json_object_set_new(object, "dtypes", dtypes_json(c->dtypes));
    json_object_set_new(object, "keys", keys_json(index));
    return object;
}

/* Whether the codec is to be listed: it is the one of that name, or name is NULL. */
static bool is_listed(const pith_codec_info *codec, const char *name) {
    return !name || !strcmp(codec->name, name);
}

static void print_json(const char *name) {
    json_t *list = json_array();
    pith_codec_info codec = {.size = sizeof codec};
    for (uint32_t i = 0; pith_codec_at(i, &codec) == PITH_OK; i++)
        if (is_listed(&codec, name)) json_array_append_new(list, codec_json(i, &codec));
    json_t *root = json_pack("{s:o}", "codecs", list);
    json_print(root, stdout);
    json_decref(root);
}

static void print_keys(uint32_t index) {
    struct table t = {.columns = 4};
    pith_key_info key = {.size = sizeof key};
    for (uint32_t k = 0; pith_codec_key_at(index, k, &key) == PITH_OK; k++) {
        table_add(&t, "    %s=", key.name);
        table_add(&t, "%s", key.values);
        table_add(&t, "[%s]", key.initial);
        table_add(&t, "%s", key.summary);
    }
    table_print(&t, stdout, 0xf);
    table_free(&t);
}

static void print_traits(uint32_t of_codec) {
    const char *before = "    traits: ";
    for (size_t t = 0; t < TRAITS; t++)
        if (of_codec & traits[t].trait) printf("%s%s", before, traits[t].name), before = " ";
    if (of_codec) putchar('\n');
}

int run_codecs(const struct options *options) {
    const char *const name = options->operand_count ? options->operands[0] : NULL;
    pith_codec_info codec = {.size = sizeof codec};
    uint32_t first = 0;
    while (pith_codec_at(first, &codec) == PITH_OK && !is_listed(&codec, name)) first++;
    if (pith_codec_at(first, &codec) != PITH_OK) {
        say_error("codecs", "no codec has the name '%s'; 'pith codecs' lists them", name);
        return EXIT_USAGE;
    }
    if (options->json) {
        print_json(name);
        return EXIT_GOOD;
    }
    for (uint32_t i = first; pith_codec_at(i, &codec) == PITH_OK; i++) {
        if (!is_listed(&codec, name)) continue;
        printf("%s%s - %s\n    dtypes:", i > first ? "\n" : "", codec.name, codec.summary);
        for (uint32_t d = 1; d < 32; d++)
            if (codec.dtypes >> d & 1) printf(" %s", pith_dtype_name(d));
        putchar('\n');
        print_traits(codec.traits);
        print_keys(i);
    }
    return EXIT_GOOD;
}
