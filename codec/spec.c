/* spec.c - the "name:key=value,..." grammar, its canonical text and its bytes in frames.
 * SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include <string.h>

#include "caller.h"
#include "common/decimal.h"
#include "common/endian.h"
#include "error.h"

/* ---- One value against its row ---------------------------------------------------------------*/

/* Returns 0 for 0. */
static uint8_t log2_of(uint32_t v) {
    uint8_t n = 0;
    while (v >>= 1) n++;
    return n;
}

static bool legal(const struct pithi_key *key, uint32_t v) {
    if (key->kind == PITHI_KEY_REAL) return pithi_decimal_legal(v);
    if (key->kind == PITHI_KEY_BLOCK && v == 0) return true;
    if (v < key->min || v > key->max) return false;
    const bool power = key->kind == PITHI_KEY_POW2 || key->kind == PITHI_KEY_BLOCK;
    if (power && (v == 1 || v & (v - 1))) return false;
    const uint32_t bit = power ? log2_of(v) : v;
    return !key->allowed || (bit < 32 && (key->allowed >> bit & 1));
}

static bool parse_number(const char *text, size_t length, uint32_t *out) {
    uint64_t v = 0;
    if (length == 0 || length > 10) return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    *out = (uint32_t)v;
    return v <= UINT32_MAX;
}

static bool is(const char *text, size_t length, const char *word) {
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

/* Parses "none", "full" or "ema:0.8", which has up to three digits after the point. */
static bool parse_feedback(const char *text, size_t length, uint32_t *out) {
    const bool none = is(text, length, "none");
    uint32_t thousandths = 0, worth = 100;
    *out = none ? 0 : 1;
    if (none || is(text, length, "full")) return true;
    if (length < 7 || length > 9 || memcmp(text, "ema:0.", 6) != 0) return false;
    for (size_t i = 6; i < length; i++, worth /= 10) {
        if (text[i] < '0' || text[i] > '9') return false;
        thousandths += (uint32_t)(text[i] - '0') * worth;
    }
    *out = 1 + thousandths;
    return true;
}

/* Returns the word at position v of a list separated by '|'; NULL past the end. */
static const char *word_at(const char *words, uint32_t v, size_t *length) {
    while (v-- > 0) {
        words = strchr(words, '|');
        if (!words) return NULL;
        words++;
    }
    *length = strcspn(words, "|");
    return words;
}

static bool parse_real(const char *text, size_t length, uint32_t *out) {
    *out = 0;
    return is(text, length, "none") || (pithi_decimal_parse(text, length, out) && *out);
}

static bool parse_value(const struct pithi_key *key, const char *text, size_t length,
                        uint32_t *out) {
    if (key->kind == PITHI_KEY_FEEDBACK) return parse_feedback(text, length, out);
    if (key->kind == PITHI_KEY_REAL) return parse_real(text, length, out);
    if (key->kind == PITHI_KEY_BLOCK && is(text, length, "whole")) {
        *out = 0;
        return true;
    }
    if (key->kind == PITHI_KEY_BLOCK)
        return parse_number(text, length, out) && *out && legal(key, *out);
    if (key->kind != PITHI_KEY_WORD) return parse_number(text, length, out) && legal(key, *out);
    size_t n = 0;
    const char *word;
    for (uint32_t v = 0; (word = word_at(key->words, v, &n)) != NULL; v++) {
        if (n != length || memcmp(word, text, n) != 0) continue;
        *out = v;
        return true;
    }
    return false;
}

/* ---- Text ------------------------------------------------------------------------------------*/

static void set_block(struct pithi_params *params) {
    for (uint32_t i = 0; i < params->codec->key_count; i++)
        if (params->codec->keys[i].wire == PITHI_WIRE_BLOCK)
            params->block = params->most = params->value[i];
}

/* Sets the size of blocks, and the key that says it, which every codec has. */
void pithi_params_set_block(struct pithi_params *params, uint32_t block) {
    for (uint32_t i = 0; i < params->codec->key_count; i++)
        if (params->codec->keys[i].wire == PITHI_WIRE_BLOCK) params->value[i] = block;
    set_block(params);
}

void pithi_params_default(struct pithi_params *params, const struct pithi_codec *codec) {
    *params = (struct pithi_params){.codec = codec};
    for (uint32_t i = 0; i < codec->key_count; i++) params->value[i] = codec->keys[i].initial;
    set_block(params);
    pithi_params_set_stream(params);
}

static int find_key(const struct pithi_codec *codec, const char *text, size_t length) {
    for (uint32_t i = 0; i < codec->key_count; i++)
        if (strlen(codec->keys[i].name) == length && memcmp(codec->keys[i].name, text, length) == 0)
            return (int)i;
    return -1;
}

/* Which keys a spec gives (bit k: key k), and where in its text. */
struct given {
    uint32_t keys;
    size_t at[PITHI_KEYS_MAX];
};

/* A part of a spec as a string of its own, cut where it is longer than a key can be. */
struct word {
    char text[32];
};

static struct word word_of(const char *text, size_t length) {
    struct word w = {{0}};
    memcpy(w.text, text, length < sizeof w.text ? length : sizeof w.text - 1);
    return w;
}

/* Names, one after the other: as many as fit, and dots where there are more. */
struct names {
    char text[128];
    size_t length;
};

static void add_name(struct names *n, const char *name) {
    static const char between[] = ", ", more[] = ", ...";
    const size_t gap = n->length ? sizeof between - 1 : 0, length = strlen(name);
    if (n->length + gap + length + sizeof more <= sizeof n->text) {
        memcpy(n->text + n->length, between, gap);
        memcpy(n->text + n->length + gap, name, length + 1);
        n->length += gap + length;
    } else if (n->length + sizeof more <= sizeof n->text) {
        memcpy(n->text + n->length, more, sizeof more);
        n->length = sizeof n->text;
    }
}

static pith_status unknown_codec(const char *name, size_t length, pith_error *error) {
    const struct pithi_codec *codec;
    struct names names = {{0}, 0};
    for (uint32_t i = 0; (codec = pithi_codec_by_index(i)) != NULL; i++)
        add_name(&names, codec->name);
    if (!length)
        return pithi_fail_with(error, PITH_ERR_SPEC, 0, "a spec begins with a codec, one of $",
                               &(struct pithi_words){.name = {names.text}});
    return pithi_fail_with(error, PITH_ERR_SPEC, 0, "there is no codec $; there are $",
                           &(struct pithi_words){.name = {word_of(name, length).text, names.text}});
}

static pith_status unknown_key(const struct pithi_codec *codec, const char *key, size_t length,
                               size_t at, pith_error *error) {
    const struct word word = word_of(key, length);
    for (uint32_t i = 0; i < codec->former_count; i++) {
        const struct pithi_former *const f = &codec->former[i];
        if (is(key, length, f->key))
            return pithi_fail_with(error, PITH_ERR_SPEC, at, "key $ is now called $$",
                                   &(struct pithi_words){.name = {word.text, f->now, f->more}});
    }
    struct names names = {{0}, 0};
    for (uint32_t i = 0; i < codec->key_count; i++) add_name(&names, codec->keys[i].name);
    return pithi_fail_with(error, PITH_ERR_SPEC, at,
                           codec->key_count ? "$ has no key $; it has $" : "$ has no key $",
                           &(struct pithi_words){.name = {codec->name, word.text, names.text}});
}

/* Parses one "key=value" at text[at..end). */
static pith_status parse_pair(const char *text, size_t at, size_t end, struct pithi_params *params,
                              struct given *given, pith_error *error) {
    const char *pair = text + at;
    const char *equals = memchr(pair, '=', end - at);
    const size_t name = equals ? (size_t)(equals - pair) : end - at;
    const int key = find_key(params->codec, pair, name);
    if (key < 0) return unknown_key(params->codec, pair, name, at, error);
    const struct pithi_key *const row = &params->codec->keys[key];
    if (!equals || given->keys >> key & 1)
        return pithi_fail_with(error, PITH_ERR_SPEC, at,
                               equals ? "key $ stands twice" : "key $ needs =value",
                               &(struct pithi_words){.name = {row->name}});
    given->keys |= 1u << key;
    given->at[key] = at;
    if (!parse_value(row, equals + 1, end - at - name - 1, &params->value[key]))
        return pithi_fail_with(
            error, PITH_ERR_SPEC, at + name + 1,
            row->kind == PITHI_KEY_REAL
                ? "key $ takes $, of up to six digits and exponents within 300, not $"
                : "key $ takes $, not $",
            &(struct pithi_words){
                .name = {row->name, row->words, word_of(equals + 1, end - at - name - 1).text}});
    return PITH_OK;
}

/* Returns why the key has no effect with these values; NULL when it has one. */
static const char *why_idle(const struct pithi_params *params, uint32_t key) {
    const struct pithi_codec *codec = params->codec;
    for (uint32_t i = 0; i < codec->need_count; i++) {
        const struct pithi_need *const need = &codec->needs[i];
        const uint32_t value = params->value[need->other];
        const bool zero = need->value == PITHI_NEED_ZERO;
        const bool met = need->value && !zero ? value == need->value : !value == zero;
        if (need->key == key && !met) return need->detail;
    }
    return NULL;
}

/* Refuses keys that have no effect. A default that is spelled out is no mistake, and programs print
 * such specs. */
static pith_status check_effect(const struct pithi_params *params, const struct given *given,
                                pith_error *error) {
    for (uint32_t i = 0; i < params->codec->key_count; i++) {
        const bool set = given->keys >> i & 1 && params->value[i] != params->codec->keys[i].initial;
        const char *why = set ? why_idle(params, i) : NULL;
        if (why)
            return pithi_fail_with(
                error, PITH_ERR_SPEC, given->at[i], "key $ $",
                &(struct pithi_words){.name = {params->codec->keys[i].name, why}});
    }
    return PITH_OK;
}

pith_status pithi_params_check(const struct pithi_params *params, const char **detail) {
    return params->codec->check ? params->codec->check(params, detail) : PITH_OK;
}

/* Checks rules across keys with some dtype: they hold or not for every dtype alike. */
static pith_status check_keys(struct pithi_params params, pith_error *error) {
    const char *detail = "";
    for (params.dtype = 1; !(params.codec->dtypes >> params.dtype & 1);) params.dtype++;
    const pith_status status = pithi_params_check(&params, &detail);
    return status == PITH_OK ? PITH_OK : pithi_fail(error, status, detail);
}

pith_status pithi_spec_parse(const char *text, struct pithi_params *params, pith_error *error) {
    if (!text) return pithi_fail(error, PITH_ERR_ARG, "spec is NULL");
    const size_t length = strlen(text), name = strcspn(text, ":");
    if (length >= PITH_SPEC_MAX)
        return pithi_fail_numbers(error, PITH_ERR_SPEC,
                                  "a spec has less than # characters, this one #", PITH_SPEC_MAX,
                                  length);
    const struct pithi_codec *codec = pithi_codec_by_name(text, name);
    if (!codec) return unknown_codec(text, name, error);
    pithi_params_default(params, codec);
    struct given given = {0};
    for (size_t at = name; at < length;) {
        at++;
        const size_t end = at + strcspn(text + at, ",");
        PITHI_TRY(parse_pair(text, at, end, params, &given, error));
        at = end;
    }
    if (codec->preset) codec->preset(params->value, given.keys);
    set_block(params);
    pithi_params_set_stream(params);
    PITHI_TRY(check_effect(params, &given, error));
    return check_keys(*params, error);
}

struct text {
    char *to;
    size_t capacity;
};

static void put(struct text *t, const char *s, size_t n) {
    for (; n && t->capacity > 1; n--, t->capacity--) *t->to++ = *s++;
}

static void put_number(struct text *t, uint32_t v) {
    char digits[10];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + v % 10);
    } while ((v /= 10) != 0);
    put(t, digits + at, sizeof digits - at);
}

static void put_feedback(struct text *t, uint32_t v) {
    put(t, v == 0 ? "none" : v == 1 ? "full" : "ema:0.", v > 1 ? 6 : 4);
    for (uint32_t rest = v - 1, worth = 100; v > 1 && rest; rest %= worth, worth /= 10)
        put_number(t, rest / worth);
}

static void put_real(struct text *t, uint32_t v) {
    char digits[PITHI_DECIMAL_TEXT] = "none";
    const size_t n = v ? pithi_decimal_print(v, digits) : strlen(digits);
    put(t, digits, n);
}

static void put_value(struct text *t, const struct pithi_key *key, uint32_t v) {
    if (key->kind == PITHI_KEY_FEEDBACK) {
        put_feedback(t, v);
        return;
    }
    if (key->kind == PITHI_KEY_REAL) {
        put_real(t, v);
        return;
    }
    if (key->kind == PITHI_KEY_BLOCK && v == 0) {
        put(t, "whole", 5);
        return;
    }
    if (key->kind != PITHI_KEY_WORD) {
        put_number(t, v);
        return;
    }
    size_t n = 0;
    const char *word = word_at(key->words, v, &n);
    if (word) put(t, word, n);
}

/* Sets the values of keys that a text has without those at their initial value: a preset may then
 * set a key that was at its initial value, which therefore must stand in the text. */
static void set_defaults(const struct pithi_params *params, uint32_t value[PITHI_KEYS_MAX]) {
    const struct pithi_codec *codec = params->codec;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < codec->key_count; i++) {
        value[i] = params->value[i];
        if (value[i] != codec->keys[i].initial) seen |= 1u << i;
    }
    if (codec->preset) codec->preset(value, seen);
}

void pithi_spec_print(const struct pithi_params *params, char *text, size_t cap) {
    if (!cap) return;
    const struct pithi_codec *codec = params->codec;
    uint32_t value[PITHI_KEYS_MAX];
    struct text t = {text, cap};
    set_defaults(params, value);
    put(&t, codec->name, strlen(codec->name));
    const char *separator = ":";
    for (uint32_t i = 0; i < codec->key_count; i++) {
        const struct pithi_key *key = &codec->keys[i];
        if (params->value[i] == key->initial && value[i] == key->initial) continue;
        if (why_idle(params, i)) continue;
        /* A frame may be of a newer revision than a spec asks for. */
        if (key->wire == PITHI_WIRE_REVISION && params->value[i] > key->max) continue;
        put(&t, separator, 1);
        put(&t, key->name, strlen(key->name));
        put(&t, "=", 1);
        put_value(&t, key, params->value[i]);
        separator = ",";
    }
    *t.to = 0;
}

/* ---- Bytes -----------------------------------------------------------------------------------*/

/* Whether the value takes four bytes, as numbers do that need not fit in one. */
static bool wide(const struct pithi_key *key) {
    return key->kind == PITHI_KEY_NUMBER && key->max > UINT8_MAX;
}

/* Reads a value of one byte. A power of two is stored as its logarithm, where 0 stands for 0 when
 * the key may be 0. */
static bool from_byte(const struct pithi_key *key, uint8_t byte, uint32_t *value) {
    const bool power = key->kind == PITHI_KEY_POW2 || key->kind == PITHI_KEY_BLOCK;
    *value = byte;
    if (power && byte > 31) return false;
    if (power && (byte || key->min)) *value = 1u << byte;
    return legal(key, *value);
}

static void pack_real(const struct pithi_key *key, uint32_t v, uint8_t *bytes) {
    if (!v) return;
    bytes[key->wire - 1] = (uint8_t)key->min;
    pithi_put32(bytes + key->wire, v);
}

/* Reads a real number. The keys of real numbers share their bytes, which are those of this key when
 * the byte before them says so; if not, the key is 0. */
static bool unpack_real(const struct pithi_key *key, const uint8_t *bytes, uint32_t *value,
                        uint32_t *used) {
    *value = 0;
    if (bytes[key->wire - 1] != key->min) return true;
    *used |= 0x1Fu << (key->wire - 1);
    *value = pithi_get32(bytes + key->wire);
    return *value && pithi_decimal_legal(*value);
}

void pithi_params_pack(const struct pithi_params *params, uint8_t bytes[PITHI_PARAM_BYTES],
                       uint8_t *block_log2) {
    memset(bytes, 0, PITHI_PARAM_BYTES);
    *block_log2 = log2_of(params->block);
    for (uint32_t i = 0; i < params->codec->key_count; i++) {
        const struct pithi_key *key = &params->codec->keys[i];
        if (key->wire < 0) continue;
        const uint32_t v = params->value[i];
        if (key->kind == PITHI_KEY_REAL)
            pack_real(key, v, bytes);
        else if (wide(key))
            pithi_put32(bytes + key->wire, v);
        else
            bytes[key->wire] = key->kind == PITHI_KEY_POW2 ? log2_of(v) : (uint8_t)v;
    }
}

bool pithi_params_unpack(const struct pithi_codec *codec, const uint8_t bytes[PITHI_PARAM_BYTES],
                         uint8_t block_log2, struct pithi_params *params) {
    pithi_params_default(params, codec);
    uint32_t used = 0;
    for (uint32_t i = 0; i < codec->key_count; i++) {
        const struct pithi_key *key = &codec->keys[i];
        if (key->wire == PITHI_WIRE_NONE || key->wire == PITHI_WIRE_REVISION) continue;
        if (key->kind == PITHI_KEY_REAL) {
            if (!unpack_real(key, bytes, &params->value[i], &used)) return false;
            continue;
        }
        const bool block = key->wire == PITHI_WIRE_BLOCK;
        const uint8_t byte = block ? block_log2 : bytes[key->wire];
        if (!block) used |= (wide(key) ? 0xFu : 1u) << key->wire;
        if (wide(key)) params->value[i] = pithi_get32(bytes + key->wire);
        if (wide(key) ? !legal(key, params->value[i]) : !from_byte(key, byte, &params->value[i]))
            return false;
    }
    for (uint32_t b = 0; b < PITHI_PARAM_BYTES; b++)
        if (!(used >> b & 1) && bytes[b]) return false;
    set_block(params);
    pithi_params_set_stream(params);
    return true;
}

/* A setting that makes such frames at its initial value of the key keeps that value. */
bool pithi_params_set_revision(struct pithi_params *params, uint8_t revision) {
    if (pithi_frame_revision(params) == revision) return true;
    for (uint32_t i = 0; i < params->codec->key_count; i++)
        if (params->codec->keys[i].wire == PITHI_WIRE_REVISION) params->value[i] = revision;
    return pithi_frame_revision(params) == revision;
}

bool pithi_params_same(const struct pithi_params *a, const struct pithi_params *b) {
    if (a->codec != b->codec || a->dtype != b->dtype || a->base_dtype != b->base_dtype)
        return false;
    for (uint32_t i = 0; i < a->codec->key_count; i++)
        if (pithi_key_matters(&a->codec->keys[i]) && a->value[i] != b->value[i]) return false;
    return true;
}

/* ---- Codecs and specs ------------------------------------------------------------------------*/

pith_status pith_codec_at(uint32_t index, pith_codec_info *out) {
    const struct pithi_codec *c = pithi_codec_by_index(index);
    if (!c || !out) return PITH_ERR_ARG;
    const pith_codec_info info = {.id = c->id,
                                  .revision = c->revision,
                                  .traits = c->traits,
                                  .dtypes = c->dtypes,
                                  .name = c->name,
                                  .summary = c->summary};
    return pithi_give(out, &info, sizeof info);
}

pith_status pith_codec_key_at(uint32_t index, uint32_t key, pith_key_info *out) {
    const struct pithi_codec *c = pithi_codec_by_index(index);
    if (!c || !out || key >= c->key_count) return PITH_ERR_ARG;
    const struct pithi_key *k = &c->keys[key];
    pith_key_info info = {.name = k->name, .values = k->words, .summary = k->summary};
    if (c->stream_keys >> key & 1) info.traits = PITH_KEY_STREAM;
    struct text t = {info.initial, sizeof info.initial};
    put_value(&t, k, k->initial);
    *t.to = 0;
    return pithi_give(out, &info, sizeof info);
}

pith_status pith_spec_check(const char *spec, char *text, size_t cap, pith_error *error) {
    struct pithi_params params;
    pithi_clear(error);
    if (text && cap) *text = 0;
    PITHI_TRY(pithi_spec_parse(spec, &params, error));
    char canonical[PITH_SPEC_MAX];
    pithi_spec_print(&params, canonical, sizeof canonical);
    if (text && strlen(canonical) >= cap)
        return pithi_fail(error, PITH_ERR_SPACE, "the canonical spec does not fit");
    if (text) memcpy(text, canonical, strlen(canonical) + 1);
    return PITH_OK;
}
