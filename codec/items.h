/* items.h - checks of the calls that take lists, which other calls make too.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_ITEMS_H
#define PITHI_ITEMS_H

#include "frame_codec.h"

/* Returns PITH_ERR_DTYPE unless frames of this setting decode to values of the dtype. */
pith_status pithi_output_dtype(const struct pithi_params *params, uint32_t dtype,
                               pith_error *error);
/* Returns PITH_ERR_LIMIT where the frame decodes to more than env->max_output_bytes. */
pith_status pithi_check_limit(const pith_env *env, const struct pithi_frame *frame,
                              pith_error *error);

#endif
