/* kernels.h - the table of kernels, of all families of codecs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_KERNELS_H
#define PITHI_KERNELS_H

#include "bytes/rans.h"
#include "bytes/symbols.h"
#include "bytes/top_shift.h"
#include "bytes/top_symbols.h"
#include "bytes/update.h"
#include "common/convert.h"
#include "common/nh.h"
#include "common/nontemporal.h"
#include "group/channel.h"
#include "group/codebook.h"
#include "group/codebook_value.h"
#include "group/group.h"
#include "group/hadamard.h"
#include "group/outliers.h"
#include "group/trellis.h"
#include "pith/pith.h"
#include "predict/bitplane.h"
#include "predict/fused.h"
#include "predict/interp.h"
#include "predict/lorenzo.h"
#include "predict/nonzero.h"
#include "predict/quant.h"
#include "predict/range.h"
#include "predict/rows.h"
#include "predict/sample.h"
#include "predict/zero_lanes.h"
#include "sparse/index.h"
#include "sparse/select.h"

/* Bound once per plan: scalar first, then each ISA that the mask allows. */
struct pithi_kernels {
    pithi_group_fn *group_encode;
    pithi_encode_hashed_fn *encode_hashed;
    pithi_group_runs_fn *group_encode_runs;
    pithi_rotate_encode_fn *rotate_encode;
    pithi_group_fn *group_decode;
    pithi_group_fn *codebook_encode, *codebook_decode; /* of settings with a codebook of levels */
    pithi_group_fn *trellis_encode, *trellis_decode;   /* of those with codebook=trellis */
    pithi_sum_fn *group_sum;
    pithi_channel_fn *channel_encode, *channel_decode;
    pithi_channel_fn *levels_encode; /* of normal floats */
    pithi_channel_fn *levels_decode; /* of any codebook */
    pithi_transpose_values_fn *transpose_values;
    pithi_transpose_codes_fn *transpose_codes;
    pithi_outliers_fn *outliers_take;
    pithi_rotate_fn *rotate;
    pithi_unrotate_fn *unrotate;
    pithi_unrotate_fn *unrotate_nontemporal; /* `to` is large and will not be read soon */
    pithi_nh_fn *nh;
    pithi_quantize_fn *quantize;
    pithi_dequantize_fn *dequantize;
    pithi_rows_number_fn *rows_number;
    pithi_predict_fn *predict;
    pithi_differ_fn *differ;
    pithi_unpredict_fn *unpredict;
    pithi_widths_fn *widths;
    pithi_bitplane_pack_fn *pack;
    pithi_bitplane_unpack_fn *unpack;
    pithi_sample_fn *sample;
    pithi_fused_encode_fn *fused_encode;
    pithi_fused_decode_fn *fused_decode;
    pithi_split_fn *split;
    pithi_spread_fn *spread;
    pithi_median_fn *median;
    pithi_zero_encode_fn *zero_encode;
    pithi_zero_decode_fn *zero_decode;
    pithi_move_fn *move_nontemporal;
    pithi_add_fn *add;
    pithi_extremes_fn *extremes;
    pithi_interp_encode_fn *interp_encode;
    pithi_interp_decode_fn *interp_decode;
    pithi_select_fn *select;
    pithi_histogram_fn *histogram;
    pithi_moments_fn *moments;
    pithi_set_list_fn *set_list;
    pithi_elias_fano_put_fn *elias_fano_put;
    pithi_elias_fano_take_fn *elias_fano_take;
    pithi_packed_put_fn *packed_put;
    pithi_packed_take_fn *packed_take;
    pithi_rans_encode_fn *rans_encode;
    pithi_rans_decode_fn *rans_decode;
    pithi_symbol_count_fn *symbol_count;
    pithi_top_cut_fn *top_cut;
    pithi_top_join_fn *top_join;
    pithi_top_shift_fn *top_shift;
    pithi_update_cut_fn *update_cut;
    pithi_update_join_fn *update_join;
    pithi_update_split_fn *update_split;
    pithi_update_merge_fn *update_merge;
    pithi_symbols_cut_fn *symbols_cut;
    pithi_symbols_join_fn *symbols_join;
    pithi_symbols_lengths_fn *symbols_lengths;
    pithi_interp_weigh_fn *interp_weigh;
    pithi_interp_fit_fn *interp_fit;
};
void pithi_kernels_bind(struct pithi_kernels *kernels, uint32_t cpu);

#endif
