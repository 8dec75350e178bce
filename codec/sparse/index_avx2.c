/* index_avx2.c - sets of elements as Elias-Fano and as packed differences, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "sparse/index_x86.h"

#include "sparse/index_tmpl.h"

void pithi_index_bind_avx2(struct pithi_kernels *k);
void pithi_index_bind_avx2(struct pithi_kernels *k) {
    BIND(k);
    k->packed_take = packed_take;
}
