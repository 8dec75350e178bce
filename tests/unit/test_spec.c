/* test_spec.c - the grammar of codec specs, their canonical text and the tables behind it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "util.h"

static void accepts(const char *spec, const char *wanted) {
    char text[PITH_SPEC_MAX];
    pith_error error = {.size = sizeof error, .offset = 9, .text = "x"};
    context("spec %s", spec);
    CHECK_OK(pith_spec_check(spec, text, sizeof text, &error));
    CHECK(strcmp(text, wanted) == 0);
    CHECK(error.text[0] == 0 && error.offset == 0 && error.item == 0);
    CHECK_OK(pith_spec_check(wanted, text, sizeof text, NULL));
    CHECK(strcmp(text, wanted) == 0);
    CHECK_OK(pith_spec_check(spec, NULL, 0, NULL));
}

/* The offset points at the key or the value that is wrong. */
static void refuses(const char *spec, size_t offset) {
    char text[PITH_SPEC_MAX] = "x";
    pith_error error = {.size = sizeof error, .offset = 9999, .item = 7};
    context("spec %s", spec);
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check(spec, text, sizeof text, &error));
    CHECK(text[0] == 0 && error.text[0]);
    CHECK(error.offset == offset && error.item == 0);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 5);
    const pith_plan *plan;
    CHECK_STATUS(PITH_ERR_SPEC, pith_plan_create(&plan, spec, &layout, NULL, &error));
    CHECK(plan == NULL && error.offset == offset);
}

static void test_canonical(void **state) {
    (void)state;
    accepts("raw", "raw");
    accepts("raw:block=65536", "raw");
    accepts("raw:block=16", "raw:block=16");
    accepts("wdiff", "wdiff");
    accepts(
        "wdiff:bits=4,group=2048,round=nearest,scale_dtype=f32,entropy=none,base_hash=on,key_every="
        "0",
        "wdiff");
    accepts("wdiff:group=128,bits=8", "wdiff:bits=8,group=128");
    accepts("wdiff:key_every=4294967295", "wdiff:key_every=4294967295");
    accepts("wdiff:bits=08", "wdiff:bits=8");
    accepts("wdiff:scale_dtype=bf16,round=stochastic,entropy=zstd,effort=19,base_hash=off",
            "wdiff:round=stochastic,scale_dtype=bf16,entropy=zstd,base_hash=off,effort=19");
    accepts("wdiff:entropy=rans,effort=3", "wdiff:entropy=rans");
    accepts("lossless:effort=3", "lossless");
    accepts("lossless:effort=19", "lossless:effort=19");
    accepts("eb", "eb:rel=1e-3");
    accepts("eb:rel=0.001", "eb:rel=1e-3");
    accepts("eb:rel=1e-3,block=64", "eb:rel=1e-3,block=64");
    accepts("eb:block=whole,abs=2.50E-3", "eb:abs=2.5e-3,block=whole");
    accepts("eb:range=1200,rel=1e-9", "eb:rel=1e-9,range=1200");
    accepts("eb:psnr=060.5", "eb:psnr=60.5");
    accepts("embed:rel=.01", "embed:rel=0.01");
    accepts("act:zeros=signed,pwrel=5e-1", "act:pwrel=0.5,zeros=signed");
}

static void test_refused(void **state) {
    (void)state;
    refuses("", 0);
    refuses("wdif", 0);
    refuses("wdiffs", 0);
    refuses("WDIFF", 0);
    refuses(" wdiff", 0);
    refuses("wdiff,bits=4", 0);
    refuses("wdiff:", 6);
    refuses("wdiff:bit=4", 6);
    refuses("wdiff:bits", 6);
    refuses("wdiff:bits=", 11);
    refuses("wdiff:=4", 6);
    refuses("wdiff:bits=4,", 13);
    refuses("wdiff:bits=4,,group=16", 13);
    refuses("wdiff:bits=4,bits=4", 13);
    refuses("wdiff:bits=5", 11);
    refuses("wdiff:bits=1", 11);
    refuses("wdiff:bits=-4", 11);
    refuses("wdiff:bits=+4", 11);
    refuses("wdiff:bits= 4", 11);
    refuses("wdiff:bits=4 ", 11);
    refuses("wdiff:bits=4x", 11);
    refuses("wdiff:bits=0x4", 11);
    refuses("wdiff:bits=4294967300", 11);
    refuses("wdiff:key_every=4294967296", 16);
    refuses("wdiff:key_every=99999999999999999999", 16);
    refuses("wdiff:group=15", 12);
    refuses("wdiff:group=17", 12);
    refuses("wdiff:group=8", 12);
    refuses("wdiff:group=32768", 12);
    refuses("wdiff:group=0", 12);
    refuses("wdiff:bits=8,round=up", 19);
    refuses("wdiff:round=nearest|stochastic", 12);
    refuses("wdiff:round=near", 12);
    refuses("wdiff:bits=8:group=16", 11);
    refuses("raw:bits=4", 4);
    refuses("lossless:effort=0", 16);
    refuses("lossless:effort=23", 16);
    refuses("eb:abs=0", 7);
    refuses("eb:abs=", 7);
    refuses("eb:abs=-1", 7);
    refuses("eb:abs=1e-301", 7);
    refuses("eb:abs=1.2345678", 7);
    refuses("eb:abs=nan", 7);
    refuses("eb:zeros=any,rel=1e", 17);
    refuses("eb:rel=1e-3,rel=1e-3", 12);
    refuses("eb:block=17", 9);
    refuses("act:psnr=3", 4);
    refuses("embed:pwrel=0.1", 6);
}

/* What keys were called before they had one meaning in every codec. */
static void test_former_spellings(void **state) {
    (void)state;
    static const char *const specs[][2] = {{"grad:level=intra", "preset"},
                                           {"grad:mode=mse", "search"},
                                           {"grad:scale=bf16", "scale_dtype"},
                                           {"grad:signs=7", "sign_seed"},
                                           {"wdiff:scale=bf16", "scale_dtype"},
                                           {"wdiff:identity=off", "base_hash"},
                                           {"wdiff:key=5", "key_every"},
                                           {"wdiff:entropy=zstd,level=3", "effort"},
                                           {"lossless:identity=off", "base_hash"},
                                           {"lossless:key=5", "key_every"},
                                           {"lossless:level=9", "effort"},
                                           {"eb:level=9", "effort"},
                                           {"embed:level=9", "effort"},
                                           {"act:level=9", "effort"},
                                           {"kv:range=symmetric", "symmetric"},
                                           {"kv:rotate=head", "rotate_heads"},
                                           {"kv:scale=bf16", "scale_dtype"},
                                           {"kv:entropy=zstd,level=2", "effort"}};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        pith_error error = {.size = sizeof error};
        char want[64];
        context("%s", specs[i][0]);
        CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check(specs[i][0], NULL, 0, &error));
        snprintf(want, sizeof want, "now called %s", specs[i][1]);
        CHECK(strstr(error.text, want));
    }
    pith_error error = {.size = sizeof error};
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("raw:effort=3", NULL, 0, &error));
    CHECK(strcmp(error.text, "raw has no key effort; it has block") == 0);
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("grad:bits=9", NULL, 0, &error));
    CHECK(strstr(error.text, "key bits takes ") && strstr(error.text, ", not 9"));
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("eb:abs=0.1234567", NULL, 0, &error));
    CHECK(strstr(error.text, "of up to six digits and exponents within 300, not 0.1234567"));
    CHECK_OK(pith_spec_check("eb:abs=1e-300", NULL, 0, &error));
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("eb:abs=1e-301", NULL, 0, &error));
    CHECK(strstr(error.text, "exponents within 300, not 1e-301"));
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("grad:bits=4,bits=4", NULL, 0, &error));
    CHECK(strcmp(error.text, "key bits stands twice") == 0);
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("grand:bits=4", NULL, 0, &error));
    CHECK(strncmp(error.text, "there is no codec grand; there are raw, lossless, wdiff", 55) == 0);
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("", NULL, 0, &error));
    CHECK(strncmp(error.text, "a spec begins with a codec, one of raw, lossless, wdiff", 55) == 0);
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check(":bits=4", NULL, 0, &error));
    CHECK(strncmp(error.text, "a spec begins with a codec, one of raw, lossless, wdiff", 55) == 0);
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("wdiff:bit=4", NULL, 0, &error));
    CHECK(strncmp(error.text, "wdiff has no key bit; it has bits, ", 35) == 0);
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("kv:bit=4", NULL, 0, &error));
    CHECK(strcmp(error.text + strlen(error.text) - 5, ", ...") == 0);
}

/* Whether every word of `values` is one of `all`, both separated by '|'. */
static bool all_among(const char *values, const char *all) {
    for (size_t n; *values; values += n + (values[n] == '|')) {
        bool found = false;
        n = strcspn(values, "|");
        for (const char *w = all; *w && !found; w += strcspn(w, "|"), w += *w == '|')
            found = strcspn(w, "|") == n && memcmp(w, values, n) == 0;
        if (!found) return false;
    }
    return true;
}

enum meaning { WORD, NUMBER, REAL };
static const struct {
    const char *name;
    enum meaning kind;
    const char *words;
} meanings[] = {
#define PITH_TEST(codec, spec, dtypes, bases, kind)
#define PITH_STREAM_KEY(codec, key)
#define PITH_KEY(name, kind, words) {#name, kind, words},
#include "codecs.def"
#undef PITH_KEY
#undef PITH_STREAM_KEY
};
static const char *const stream_keys[] = {
#define PITH_KEY(name, kind, words)
#define PITH_STREAM_KEY(codec, key) #codec ":" #key,
#include "codecs.def"
#undef PITH_STREAM_KEY
};
enum { STREAM_KEYS = sizeof stream_keys / sizeof *stream_keys };

/* A key means one thing in every codec: its values are of one kind, words are of one list. */
static void test_one_meaning_per_key(void **state) {
    (void)state;
    pith_codec_info codec = {.size = sizeof codec};
    pith_key_info key = {.size = sizeof key};
    for (uint32_t c = 0; pith_codec_at(c, &codec) == PITH_OK; c++)
        for (uint32_t k = 0; pith_codec_key_at(c, k, &key) == PITH_OK; k++) {
            const bool digit = key.values[0] >= '0' && key.values[0] <= '9';
            size_t lists = 0;
            context("%s:%s=%s", codec.name, key.name, key.values);
            for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
                if (strcmp(key.name, meanings[i].name) != 0) continue;
                if (meanings[i].kind == WORD)
                    lists += all_among(key.values, meanings[i].words);
                else
                    lists +=
                        meanings[i].kind == NUMBER ? digit : !digit && !strchr(key.values, '|');
            }
            CHECK(lists == 1);
            CHECK(strcmp(key.name, "mode") != 0 || codec.traits & PITH_TRAIT_BOUND);
            CHECK(strcmp(key.name, "effort") != 0 || strcmp(key.values, "1..22") == 0);
        }
}

/* Such settings were taken and changed nothing. */
static void test_keys_without_effect(void **state) {
    (void)state;
    refuses("kv:block=64", 3);
    refuses("kv:bits=8,block=64", 10);
    refuses("kv:preset=q8,effort=2", 13);
    refuses("wdiff:effort=9", 6);
    refuses("wdiff:entropy=rans,effort=9", 19);
    refuses("kv:effort=9,entropy=rans", 3);
    refuses("eb:abs=1,effort=2", 9);
    refuses("act:effort=2", 4);
    refuses("embed:mode=fast,effort=2", 16);
    refuses("embed:start=3", 6);
    refuses("embed:steps=3", 6);
    refuses("embed:decay=log", 6);
    refuses("lossless:entropy=rans,effort=9", 22);
    accepts("lossless:entropy=rans,effort=3", "lossless:entropy=rans");
    accepts("lossless:entropy=auto,effort=9", "lossless:effort=9");
    refuses("embed:entropy=rans,effort=9", 19);
    refuses("embed:entropy=rans,mode=fast", 6);
    refuses("embed:revision=1,entropy=rans", 17);
    accepts("embed:rel=0.01,entropy=rans,revision=2", "embed:rel=0.01,entropy=rans");
    refuses("act:mode=ratio,entropy=rans,effort=9", 28);
    refuses("act:entropy=rans", 4);
    refuses("act:mode=ratio,entropy=rans,revision=2", 15);
    accepts("act:entropy=rans,mode=ratio", "act:mode=ratio,rel=1e-3,entropy=rans");
    refuses("eb:mode=auto,entropy=rans,effort=9", 26);
    refuses("eb:abs=1,entropy=rans", 9);
    refuses("eb:mode=ratio,entropy=rans,revision=2", 14);
    accepts("eb:entropy=rans,mode=auto", "eb:mode=auto,rel=1e-3,entropy=rans");
    accepts("eb:mode=ratio,entropy=rans,effort=1,revision=3",
            "eb:mode=ratio,rel=1e-3,entropy=rans");
    accepts("topk:k=9,index=fast,revision=2", "topk:k=9,index=fast,block=1048576");
    accepts("topk:k=9,index=fast,revision=1", "topk:k=9,index=fast,block=1048576,revision=1");
    accepts("kv:block=1048576,effort=1", "kv");
    accepts("kv:entropy=zstd,block=64,effort=2", "kv:entropy=zstd,effort=2,block=64");
    accepts("kv:entropy=rans,block=64", "kv:entropy=rans,block=64");
    accepts("eb:effort=2,mode=auto", "eb:mode=auto,rel=1e-3,effort=2");
    accepts("embed:effort=2", "embed:rel=0.01,effort=2");
    accepts("embed:start=3,decay=log,steps=9", "embed:rel=0.01,start=3,decay=log,steps=9");
    /* The text says which key it is. */
    pith_error error = {.size = sizeof error};
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("embed:decay=log", NULL, 0, &error));
    CHECK(strcmp(error.text, "key decay has no effect without steps") == 0);
    CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check("topk:k=9,clear=call", NULL, 0, &error));
    CHECK(strcmp(error.text, "key clear goes with ef") == 0);
}

static void test_keys_of_streams(void **state) {
    (void)state;
    pith_codec_info codec = {.size = sizeof codec};
    pith_key_info key = {.size = sizeof key};
    size_t found = 0;
    for (uint32_t c = 0; pith_codec_at(c, &codec) == PITH_OK; c++)
        for (uint32_t k = 0; pith_codec_key_at(c, k, &key) == PITH_OK; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s:%s", codec.name, key.name);
            if (!(key.traits & PITH_KEY_STREAM)) continue;
            CHECK(found < STREAM_KEYS && strcmp(name, stream_keys[found]) == 0);
            found++;
        }
    CHECK(found == STREAM_KEYS);
}

static void test_rules_across_keys(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 5);
    const pith_plan *plan;
    pith_error error = {.size = sizeof error};
    context("block below group");
    CHECK_STATUS(PITH_ERR_SPEC,
                 pith_plan_create(&plan, "wdiff:group=128,block=64", &layout, NULL, &error));
    CHECK(error.text[0]);
    static const char *const bounds[] = {"eb:abs=1,rel=1",
                                         "eb:pwrel=0.1,psnr=3",
                                         "eb:pwrel=1",
                                         "eb:nmse=1e-5,abs=1",
                                         "eb:range=1,abs=1",
                                         "eb:nmse=0.1,range=2",
                                         "act:pwrel=0.5,range=2",
                                         "embed:abs=1,rel=1",
                                         "embed:start=0.5",
                                         "lossless:entropy=rans,revision=1"};
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        context("spec %s", bounds[i]);
        error = (pith_error){.size = sizeof error};
        CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check(bounds[i], NULL, 0, &error));
        CHECK(error.text[0]);
    }
    static const char *const trellises[] = {"bits=5",           "bits=6",           "bits=8",
                                            "round=stochastic", "round=antithetic", "search=mse",
                                            "scale_dtype=e8m0"};
    for (size_t i = 0; i < 2 * sizeof trellises / sizeof trellises[0]; i++) {
        char spec[80];
        snprintf(spec, sizeof spec, "%s:codebook=trellis,%s", i % 2 ? "grad" : "wdiff",
                 trellises[i / 2]);
        context("spec %s", spec);
        CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check(spec, NULL, 0, &error));
    }
    for (int bits = 2; bits <= 4; bits++) { /* 2 and 3 bits search by themselves without it */
        char spec[80], text[PITH_SPEC_MAX];
        snprintf(spec, sizeof spec, "grad:codebook=trellis,bits=%d", bits);
        CHECK_OK(pith_spec_check(spec, text, sizeof text, NULL));
        CHECK(!strstr(text, "search"));
    }
    CHECK_STATUS(PITH_ERR_ARG, pith_spec_check(NULL, NULL, 0, &error));
}

static void test_too_long(void **state) {
    (void)state;
    char spec[PITH_SPEC_MAX + 40] = "wdiff:key_every=";
    context("long spec");
    for (size_t i = 10; i < sizeof spec; i++) spec[i] = '0';
    for (size_t n = PITH_SPEC_MAX - 3; n < sizeof spec; n++) {
        const char kept = spec[n];
        spec[n] = 0;
        CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check(spec, NULL, 0, NULL));
        spec[n] = kept;
    }
}

/* A buffer that is too small gets an empty text, and says so: a cut spec may parse. */
static void test_small_buffers(void **state) {
    (void)state;
    const char *spec = "wdiff:bits=8,group=128";
    for (size_t cap = 0; cap <= strlen(spec) + 1; cap++) {
        char text[64];
        memset(text, 'X', sizeof text);
        context("buffer of %zu", cap);
        const bool fits = cap > strlen(spec);
        CHECK_STATUS(fits ? PITH_OK : PITH_ERR_SPACE, pith_spec_check(spec, text, cap, NULL));
        CHECK(all_bytes(text + cap, sizeof text - cap, 'X'));
        if (cap) CHECK(strcmp(text, fits ? spec : "") == 0);
    }
}

/* ---- Tables ----------------------------------------------------------------------------------*/

/* Every key takes its own default, at most once, and leaves the canonical text as it is without
 * any key. */
static void test_every_key(void **state) {
    (void)state;
    pith_codec_info info = {.size = sizeof info};
    pith_key_info key = {.size = sizeof key};
    uint32_t codec = 0, keys = 0;
    for (; pith_codec_at(codec, &info) == PITH_OK; codec++) {
        CHECK(info.name[0] && info.summary[0] && info.id && info.revision && info.dtypes);
        for (uint32_t k = 0; pith_codec_key_at(codec, k, &key) == PITH_OK; k++, keys++) {
            char spec[256], plain[PITH_SPEC_MAX];
            CHECK(key.name[0] && key.values[0] && key.summary[0] && key.initial[0]);
            snprintf(spec, sizeof spec, "%s:%s=%s", info.name, key.name, key.initial);
            CHECK_OK(pith_spec_check(info.name, plain, sizeof plain, NULL));
            accepts(spec, plain);
            const size_t at = strlen(spec) + 1;
            snprintf(spec, sizeof spec, "%s:%s=%s,%s=%s", info.name, key.name, key.initial,
                     key.name, key.initial);
            refuses(spec, at);
            snprintf(spec, sizeof spec, "%s:%s=?", info.name, key.name);
            refuses(spec, strlen(spec) - 1);
        }
    }
    CHECK(codec >= 3 && keys >= 10);
    CHECK_STATUS(PITH_ERR_ARG, pith_codec_at(codec, &info));
    CHECK_STATUS(PITH_ERR_ARG, pith_codec_key_at(0, 99, &key));
    CHECK_STATUS(PITH_ERR_ARG, pith_codec_at(0, NULL));
}

static void test_dtypes(void **state) {
    (void)state;
    static const size_t bytes[16] = {0, 4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1, 1};
    context("dtypes");
    for (uint32_t d = 0; d < 40; d++) {
        CHECK(pith_dtype_bytes(d) == (d < 16 ? bytes[d] : 0));
        CHECK(pith_dtype_from_name(pith_dtype_name(d)) == (d < 16 ? d : 0));
        CHECK((strcmp(pith_dtype_name(d), "none") == 0) == (d == 0 || d > 15));
    }
    CHECK(pith_dtype_from_name("F32") == PITH_NONE && pith_dtype_from_name("") == PITH_NONE);
    CHECK(pith_dtype_from_name(NULL) == PITH_NONE);
    CHECK(strcmp(pith_dtype_name(PITH_BF16), "bf16") == 0);
    CHECK(pith_dtype_from_name("f8e4m3") == PITH_F8E4M3);
}

static void test_names(void **state) {
    (void)state;
    context("names");
    CHECK(strcmp(pith_status_name(PITH_OK), "PITH_OK") == 0);
    CHECK(strcmp(pith_status_name(PITH_ERR_BASE), "PITH_ERR_BASE") == 0);
    CHECK(strcmp(pith_status_name(PITH_ERR_INTERNAL), "PITH_ERR_INTERNAL") == 0);
    CHECK(strcmp(pith_status_name((pith_status)-12), "PITH_ERR_UNKNOWN") == 0);
    CHECK(pith_format_version() == 1);
    CHECK(pith_version() ==
          PITH_VERSION_MAJOR * 1000000u + PITH_VERSION_MINOR * 1000u + PITH_VERSION_PATCH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_former_spellings),
        cmocka_unit_test(test_one_meaning_per_key),
        cmocka_unit_test(test_keys_without_effect),
        cmocka_unit_test(test_keys_of_streams),
        cmocka_unit_test(test_rules_across_keys),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_small_buffers),
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
