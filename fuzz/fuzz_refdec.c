/* fuzz_refdec.c - any bytes to libpith and to the second decoder: one verdict, one tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "../tests/refdec/agree.h"
#include "fuzz.h"

/* Behind the frame: the base, repeated. */
enum { BASE_BYTES = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source input = {data, size};
    const struct fuzz_source base = fuzz_split(&input, BASE_BYTES);
    uint8_t *frame = guard_copy(input.bytes, input.length);
    const struct ref_verdict v = ref_agree(frame, input.length, base.bytes, base.length);
    if (!v.same)
        fprintf(stderr, "%s here, %s there\n", ref_status_name(v.ours), ref_status_name(v.theirs));
    FUZZ_CHECK(v.same);
    guard_free(frame, input.length);
    return 0;
}
