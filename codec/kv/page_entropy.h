/* page_entropy.h - pages of codec kv through an entropy coder, for files and networks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_KV_PAGE_ENTROPY_H
#define PITHI_KV_PAGE_ENTROPY_H

#include "bytes/piece.h"
#include "kv/page.h"

/* Returns the bytes of the longest string that is coded by itself in a page of so many tokens:
 * pieces and `symbols` need memory for as many. */
size_t pithi_kv_symbols(const struct pithi_kv *k, uint32_t tokens);
/* Writes a page; false when it does not fit. */
bool pithi_kv_pack(const struct pithi_kv *k, uint8_t *page, uint32_t tokens, struct pithi_pen *pen,
                   uint8_t *symbols);
/* Reads all of a page but its padding. Returns NULL, or what is wrong; any bytes are safe. */
const char *pithi_kv_unpack(const struct pithi_kv *k, struct pithi_reader *r, uint32_t tokens,
                            uint8_t *page, uint8_t *symbols);

#endif
