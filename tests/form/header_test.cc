// header_test.cc - public headers in C++: stand alone, may come twice, link with C linkage.
// SPDX-License-Identifier: Apache-2.0
#include "pith/pith.h"
#include "pith/pith_cuda.h"

// Once more: the second time must change nothing.
#include "pith/pith.h"
#include "pith/pith_cuda.h"

int main() {
    const float value[3] = {1, 2, 3};
    const pith_view view = pith_view_flat(value, PITH_F32, 3);
    pith_env env{};
    env.size = sizeof env;
    pith_cuda_items items{};
    items.size = sizeof items;
    return view.ndim == 1 && items.size && pith_version() > 0 ? 0 : 1;
}
