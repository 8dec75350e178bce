/* inline.h - how functions in headers are declared: the same source runs on host and device.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_INLINE_H
#define PITHI_COMMON_INLINE_H

#ifdef __CUDACC__
#define PITHI_INLINE static __host__ __device__ __forceinline__
#define PITHI_UNROLL _Pragma("unroll")
#define PITHI_ROLLED _Pragma("unroll 1")
#else
#define PITHI_INLINE static inline
#define PITHI_UNROLL
#define PITHI_ROLLED
#endif

#endif
