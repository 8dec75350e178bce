/* kernels.c - which kernels a plan binds: scalar C, then what the CPU has.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#if defined(__AVX__) || defined(__AVX512F__)
#error "kernels.c is run by every CPU: build it with baseline flags only"
#endif

#if defined(__x86_64__)
#define ON_avx2(x) x
#define ON_avx512(x) x
#define ON_neon(x)
#elif defined(__aarch64__)
#define ON_avx2(x)
#define ON_avx512(x)
#define ON_neon(x) x
#else
#define ON_avx2(x)
#define ON_avx512(x)
#define ON_neon(x)
#endif
#define HAS_avx2 PITH_CPU_AVX2
#define HAS_avx512 (PITH_CPU_AVX2 | PITH_CPU_AVX512)
#define HAS_neon PITH_CPU_NEON

#define PITH_CODEC(id, name)
#define PITH_KERNEL(folder, name, isa) \
    ON_##isa(void pithi_##name##_bind_##isa(struct pithi_kernels *kernels);)
#include "registry.def"
#undef PITH_KERNEL

/* Rows of one kernel stand in ascending ISA order, so the last one that fits stays. */
void pithi_kernels_bind(struct pithi_kernels *k, uint32_t cpu) {
    k->group_encode = pithi_group_encode_c;
    k->encode_hashed = pithi_encode_hashed_c;
    k->group_encode_runs = pithi_group_encode_runs_c;
    k->rotate_encode = pithi_rotate_encode_c;
    k->group_decode = pithi_group_decode_c;
    k->codebook_encode = pithi_codebook_encode_c;
    k->codebook_decode = pithi_codebook_decode_c;
    k->trellis_encode = pithi_trellis_encode_c;
    k->trellis_decode = pithi_trellis_decode_c;
    k->group_sum = pithi_group_sum_c;
    k->channel_encode = pithi_channel_encode_c;
    k->channel_decode = pithi_channel_decode_c;
    k->levels_encode = pithi_channel_encode_c;
    k->levels_decode = pithi_levels_decode_c;
    k->transpose_values = pithi_transpose_values_c;
    k->transpose_codes = pithi_transpose_codes_c;
    k->outliers_take = pithi_outliers_columns_c;
    k->rotate = pithi_rotate_c;
    k->unrotate = k->unrotate_nontemporal = pithi_unrotate_c;
    k->nh = pithi_nh_c;
    k->quantize = pithi_quantize_c;
    k->dequantize = pithi_dequantize_c;
    k->rows_number = pithi_rows_number_c;
    k->predict = pithi_predict_c;
    k->differ = pithi_differ_c;
    k->unpredict = pithi_unpredict_c;
    k->widths = pithi_widths_c;
    k->pack = pithi_bitplane_pack_c;
    k->unpack = pithi_bitplane_unpack_c;
    k->sample = pithi_sample_c;
    k->fused_encode = pithi_fused_encode_c;
    k->fused_decode = pithi_fused_decode_c;
    k->split = pithi_split_c;
    k->spread = pithi_spread_c;
    k->median = pithi_nonzero_median;
    k->zero_encode = pithi_zero_encode_c;
    k->zero_decode = pithi_zero_decode_c;
    k->move_nontemporal = pithi_move_c;
    k->add = pithi_add_c;
    k->extremes = pithi_extremes_c;
    k->interp_encode = pithi_interp_encode_c;
    k->interp_weigh = pithi_interp_weigh_c;
    k->interp_fit = pithi_interp_fit_c;
    k->interp_decode = pithi_interp_decode_c;
    k->select = pithi_select_c;
    k->histogram = pithi_histogram_c;
    k->moments = pithi_moments_c;
    k->set_list = pithi_set_list_c;
    k->elias_fano_put = pithi_elias_fano_put_c;
    k->elias_fano_take = pithi_elias_fano_take_c;
    k->packed_put = pithi_packed_put_c;
    k->packed_take = pithi_packed_take_c;
    k->rans_encode = pithi_rans_encode_c;
    k->rans_decode = pithi_rans_decode_c;
    k->symbol_count = pithi_symbol_count_c;
    k->top_cut = pithi_top_cut_c;
    k->top_join = pithi_top_join_c;
    k->top_shift = pithi_top_shift_c;
    k->update_cut = pithi_update_cut_c;
    k->update_join = pithi_update_join_c;
    k->update_split = pithi_update_split_c;
    k->update_merge = pithi_update_merge_c;
    k->symbols_cut = pithi_symbols_cut_c;
    k->symbols_join = pithi_symbols_join_c;
    k->symbols_lengths = pithi_symbols_lengths_c;
    (void)cpu;
#define PITH_KERNEL(folder, name, isa) \
    ON_##isa(if ((cpu & HAS_##isa) == HAS_##isa) pithi_##name##_bind_##isa(k);)
#include "registry.def"
#undef PITH_KERNEL
}
#undef PITH_CODEC
