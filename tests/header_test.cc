// header_test.cc - pith.h in C++: stands alone, may come twice, links with C linkage.
// SPDX-License-Identifier: Apache-2.0
#include "pith/pith.h"

// Once more: the second time must change nothing.
#include "pith/pith.h"

int main() {
    const float value[3] = {1, 2, 3};
    const pith_view view = pith_view_flat(value, PITH_F32, 3);
    pith_env env{};
    env.size = sizeof env;
    return view.ndim == 1 && pith_version() > 0 ? 0 : 1;
}
