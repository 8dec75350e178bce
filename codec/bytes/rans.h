/* rans.h - strings of symbols by interleaved rANS, at the entropy of their frequencies.
 * SPDX-License-Identifier: Apache-2.0  Symbol i belongs to state i mod S. A state has 32 bits and
 * takes 16 more when it falls below 2^16; frequencies add up to 2^12, the slots. The slots lie in
 * buckets of which each has one or two symbols, so that vectors find a symbol by small tables.
 * doc/FORMAT.md, rANS string, is normative; decoding any bytes is defined. Source: J. Duda,
 * "Asymmetric numeral systems", arXiv 1311.2540; interleaving after F. Giesen, "Interleaved
 * entropy coders", arXiv 1402.3392. */
#ifndef PITHI_BYTES_RANS_H
#define PITHI_BYTES_RANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PITHI_RANS_LOG2_SLOTS = 12,
    PITHI_RANS_SLOTS = 1 << PITHI_RANS_LOG2_SLOTS,
    PITHI_RANS_LOG2_STATES_MOST = 7,
    PITHI_RANS_STATES_MOST = 1 << PITHI_RANS_LOG2_STATES_MOST
};
/* Every state is at least this before and after a symbol, and is this at the end of a string. */
#define PITHI_RANS_LOW UINT32_C(65536)

/* Symbol s has the slots slot[start[s] + k], k < frequency[s], in this order. Of symbols that occur
 * inverse is 2^44 / frequency, rounded up. */
enum { PITHI_RANS_INVERSE_SHIFT = 44 };
struct pithi_rans_encoder {
    uint64_t inverse[256];
    uint16_t frequency[256], start[256];
    uint16_t slot[PITHI_RANS_SLOTS + 2]; /* vectors read two bytes more than an element */
};

/* The slots of a bucket below `split` are of symbol[0], the others of symbol[1]; bias is what
 * makes a slot, mod 2^16, its number k among the slots of the symbol. */
struct pithi_rans_bucket {
    uint16_t split, frequency[2], bias[2];
    uint8_t symbol[2];
};
struct pithi_rans_decoder {
    unsigned log2_width; /* slots of a bucket: 2^4 .. 2^7 */
    struct pithi_rans_bucket bucket[256];
};

/* 2^log2 states: symbol i belongs to x[i mod 2^log2]. */
struct pithi_rans_states {
    unsigned log2;
    uint32_t x[PITHI_RANS_STATES_MOST];
};
/* Whether loops over vectors pay: a row waits for the one before, so that vectors of a few states
 * take longer than scalar C. */
static inline bool pithi_rans_by_vectors(const struct pithi_rans_states *x) { return x->log2 >= 5; }
/* Where words are put, each before those so far, which begin at `end`. */
struct pithi_rans_space {
    uint8_t *begin, *end;
};
/* Words that are still to be taken. */
struct pithi_rans_words {
    const uint8_t *at, *end;
};

/* Encodes src[0, n), last symbol first. False when the space is too small for their words. */
typedef bool pithi_rans_encode_fn(const struct pithi_rans_encoder *t, const uint8_t *src, size_t n,
                                  struct pithi_rans_states *states, struct pithi_rans_space *to);
/* Decodes n symbols to dst. False when the words are too few. */
typedef bool pithi_rans_decode_fn(const struct pithi_rans_decoder *t,
                                  struct pithi_rans_states *states, struct pithi_rans_words *from,
                                  uint8_t *dst, size_t n);
pithi_rans_encode_fn pithi_rans_encode_c;
pithi_rans_decode_fn pithi_rans_decode_c;

/* A head of three bytes and a table of frequencies, at most six bits and a frequency for each
 * symbol. */
enum { PITHI_RANS_TABLE_MOST = 3 + 256 * (6 + 11) / 8 };
enum { PITHI_RANS_SAMPLE = 8192, PITHI_RANS_TABLES = 8 };

/* Counts the symbols of src[0, n), n < 2^32, in the first table; the others are used on the way. */
typedef void pithi_symbol_count_fn(uint32_t table[PITHI_RANS_TABLES][256], const uint8_t *src,
                                   size_t n);
pithi_symbol_count_fn pithi_symbol_count_c;

/* What the tables of counts hold once the symbols are counted: their sums, and memory for those who
 * look at a string. */
struct pithi_rans_counted {
    uint32_t sums[256];
    uint16_t places[2048];
};

/* Memory of a worker; what it holds is of use only between a plan and its pack. */
struct pithi_rans {
    union {
        uint32_t count[PITHI_RANS_TABLES][256];
        struct pithi_rans_counted counted;
    };
    uint16_t frequency[256];
    uint16_t cost[256];       /* of each symbol that occurs, in 1/256 bit */
    unsigned rest, precision; /* of the table of frequencies */
    size_t table_bytes;
    struct pithi_rans_states states;
    union {
        struct pithi_rans_encoder encoder;
        struct pithi_rans_decoder decoder;
        uint8_t sample[PITHI_RANS_SAMPLE]; /* for those who look at a string before it is packed */
        uint32_t places[PITHI_RANS_SAMPLE / 4];
    } tables;
};

/* Counts the symbols of src[0, n), n < 2^32, with `count` or, NULL, the reference, and rounds their
 * frequencies. quick: a short string should take little time rather than few bytes. Returns the
 * most bytes that a string of them is expected to take; SIZE_MAX where fewer than two symbols
 * occur. */
size_t pithi_rans_plan(struct pithi_rans *m, pithi_symbol_count_fn *count, bool quick,
                       const uint8_t *src, size_t n);
/* Writes the string that was planned to dst and returns its length; 0 when it would be more than
 * cap. */
size_t pithi_rans_pack(struct pithi_rans *m, pithi_rans_encode_fn *encode, const uint8_t *src,
                       size_t n, uint8_t *dst, size_t cap);
/* Decodes src[0, length) to dst; true when it is exactly one string of n symbols, n > 0. */
bool pithi_rans_unpack(struct pithi_rans *m, pithi_rans_decode_fn *decode, const uint8_t *src,
                       size_t length, uint8_t *dst, size_t n);

/* Make tables of frequencies that add up to PITHI_RANS_SLOTS, none of them all. */
void pithi_rans_encoder_of(struct pithi_rans_encoder *t, const uint16_t frequency[256]);
void pithi_rans_decoder_of(struct pithi_rans_decoder *t, const uint16_t frequency[256]);

#endif
