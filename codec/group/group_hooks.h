/* group_hooks.h - the hooks of groups over vectors, which every instruction set has.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer has included group_encode_tmpl.h and, where it defines what that asks for,
 * group_base_tmpl.h. */
#include "group/group_decode_tmpl.h"

#include "group/group_channel_tmpl.h"

#include "group/transpose_tmpl.h"

static inline void bind_groups(struct pithi_kernels *k) {
    k->group_encode = group_encode;
    k->group_encode_runs = group_encode_runs;
    k->group_decode = group_decode;
    k->group_sum = group_sum;
    k->channel_encode = channel_encode;
    k->channel_decode = channel_decode;
    k->transpose_values = transpose_value_columns;
    k->transpose_codes = transpose_code_columns;
    k->rotate_encode = rotate_encode;
    k->rotate = rotate;
    k->unrotate = unrotate;
    k->unrotate_nontemporal = unrotate_nontemporal;
}
