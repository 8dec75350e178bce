/* transform_tmpl.h - the Walsh-Hadamard transform of 32 values from that of 16, one run at a time.
 * SPDX-License-Identifier: Apache-2.0 */

static inline __attribute__((always_inline)) void f_transform32(v16 v[2]) {
    const v16 a = transform16(v[0]), b = transform16(v[1]);
    v[0] = f_add(a, b);
    v[1] = f_sub(a, b);
}
static inline __attribute__((always_inline)) void f_transform32x4(v16 v[8]) {
    f_transform32(v);
    f_transform32(v + 2);
    f_transform32(v + 4);
    f_transform32(v + 6);
}
