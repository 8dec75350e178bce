/* probe.c - says whether there is a device for the suite gpu: exit status 0, or 77 and why not.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "pith/pith_cuda.h"

enum { SKIPPED = 77 };

int main(void) {
    struct cudaDeviceProp properties;
    pith_error error = {.size = sizeof error};
    const pith_status status = pith_cuda_available(0, &error);
    if (status != PITH_OK) {
        printf("no CUDA device for this build: %s: %s\n", pith_status_name(status), error.text);
        return SKIPPED;
    }
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return 1;
    printf("on %s, sm_%d%d, %.0f GB\n", properties.name, properties.major, properties.minor,
           (double)properties.totalGlobalMem * 1e-9);
    return 0;
}
