/* kernels.cu - the kernels of one family as CUDA knows them: compiled once for each, with
 * PITHI_GPU_<family> defined, so that an edit of one family leaves the others as they are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"
#include "device/bodies.h"

/* The team's memory is aligned as its longest access. */
#define KERNEL(name, is_special, teams)                                     \
    static __global__ void __launch_bounds__(PITHI_TEAM, teams)             \
        kernel_##name(const __grid_constant__ struct pithi_gpu_call call) { \
        extern __shared__ __align__(16) struct pithi_gpu_shared shared[];   \
        struct pithi_gpu_thread thread;                                     \
        thread.tid = threadIdx.x;                                           \
        thread.special = is_special;                                        \
        pithi_##name(&call, shared, &thread, nullptr, blockIdx.x);          \
    }
/* Returns the teams of a processor: without a number ptxas aims at one of its own, and spills for
 * it. */
static constexpr int teams_of(int kernel) {
    if (kernel >= PITHI_GPU_trellis_paged_encode && kernel <= PITHI_GPU_trellis_pairs_decode)
        return 3;
    return kernel == PITHI_GPU_encode_raw || kernel == PITHI_GPU_decode_raw ? 4 : 2;
}
#define PITH_GPU_KERNEL(family, name) \
    PITHI_IF_##family(KERNEL(name, false, teams_of(PITHI_GPU_##name)))
/* Special kernels fit into the registers of three teams a processor, the number that hides the
 * latency of memory; general ones would not. Those of trellises need few, but with a base. */
[[maybe_unused]] static constexpr int special_teams_of(int kernel) {
#ifdef PITHI_GPU_trellis
    return kernel == PITHI_GPU_trellis_encode_any_paths_ff ||
                   kernel == PITHI_GPU_trellis_decode_paths_ff_any
               ? 3
               : 4;
#else
    return kernel < 0 ? 0 : 3;
#endif
}
#define PITH_GPU_SPECIAL(family, body, from, to) \
    PITHI_IF_##family(                           \
        KERNEL(body##_##from##_##to, true, special_teams_of(PITHI_GPU_##body##_##from##_##to)))
#include "kernels.def"
#undef PITH_GPU_KERNEL

#define JOINED(a, b) a##b
#define OF_FAMILY(family) JOINED(pithi_gpu_kernel_, family)

extern "C" const void *OF_FAMILY(PITHI_GPU_FAMILY)(enum pithi_gpu_kernel number) {
    switch (number) {
#define PITH_GPU_KERNEL(family, name) \
    PITHI_IF_##family(case PITHI_GPU_##name : return (const void *)kernel_##name;)
#include "kernels.def"
#undef PITH_GPU_KERNEL
    default: return nullptr;
    }
}
