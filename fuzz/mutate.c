/* mutate.c - libFuzzer's mutator for targets whose inputs begin with a frame.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 16) fuzz_fix_frame(data, size);
    return size;
}
