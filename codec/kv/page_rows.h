/* page_rows.h - what codecs in pages find in a shape (families.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_KV_PAGE_ROWS_H
#define PITHI_KV_PAGE_ROWS_H

#include <stdint.h>

/* A row, what a token has, has heads * dim elements; outliers: of a group. */
struct pithi_page_rows {
    uint32_t heads, dim, outliers;
};

#endif
