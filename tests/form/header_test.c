/* header_test.c - public headers stand alone, may come twice, and their types can be used.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pith/pith.h"
#include "pith/pith_cuda.h"

/* Once more: the second time must change nothing. */
#include "pith/pith.h"
#include "pith/pith_cuda.h"

int main(void) {
    const float value[3] = {1, 2, 3};
    const uint64_t shape[2] = {1, 3};
    const pith_view view = pith_view_dense(value, PITH_F32, 2, shape);
    const pith_stream_options options = {.size = sizeof options, .seed = 1};
    pith_env env = {0};
    pith_item item = {.size = sizeof item, .view = view};
    pith_cuda_items items = {0};
    env.size = sizeof env;
    items.size = sizeof items;
    return view.ndim == 2 && item.size && items.size && options.seed && pith_version() > 0 ? 0 : 1;
}
