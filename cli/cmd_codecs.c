/* cmd_codecs.c - pith codecs: the codecs and their keys.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

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

static json_t *codec_json(uint32_t index, const pith_codec_info *c) {
    return json_pack("{s:s, s:I, s:I, s:s, s:b, s:b, s:b, s:o, s:o}", "name", c->name, "id",
                     (json_int_t)c->id, "revision", (json_int_t)c->revision, "summary", c->summary,
                     "lossless", (int)(c->traits & PITH_TRAIT_LOSSLESS), "fixed_rate",
                     (int)(c->traits & PITH_TRAIT_FIXED_RATE), "base",
                     (int)(c->traits & PITH_TRAIT_BASE), "dtypes", dtypes_json(c->dtypes), "keys",
                     keys_json(index));
}

static void print_json(void) {
    json_t *list = json_array();
    pith_codec_info codec = {.size = sizeof codec};
    for (uint32_t i = 0; pith_codec_at(i, &codec) == PITH_OK; i++)
        json_array_append_new(list, codec_json(i, &codec));
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

int run_codecs(const struct options *options) {
    pith_codec_info codec = {.size = sizeof codec};
    if (options->json) {
        print_json();
        return EXIT_GOOD;
    }
    for (uint32_t i = 0; pith_codec_at(i, &codec) == PITH_OK; i++) {
        printf("%s%s - %s\n    dtypes:", i ? "\n" : "", codec.name, codec.summary);
        for (uint32_t d = 1; d < 32; d++)
            if (codec.dtypes >> d & 1) printf(" %s", pith_dtype_name(d));
        putchar('\n');
        print_keys(i);
    }
    return EXIT_GOOD;
}
