/* lane_masks.h - entries of a table for each mask of eight lanes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_LANE_MASKS_H
#define PITHI_COMMON_LANE_MASKS_H

/* of(l7, l6, ..., l0) for masks 0 to 255: the bits of a mask are literals, l0 that of lane 0, so
 * that sums of them stay short. */
#define PITHI_MASKS_1(of, ...) of(__VA_ARGS__, 0), of(__VA_ARGS__, 1)
#define PITHI_MASKS_2(of, ...) PITHI_MASKS_1(of, __VA_ARGS__, 0), PITHI_MASKS_1(of, __VA_ARGS__, 1)
#define PITHI_MASKS_3(of, ...) PITHI_MASKS_2(of, __VA_ARGS__, 0), PITHI_MASKS_2(of, __VA_ARGS__, 1)
#define PITHI_MASKS_4(of, ...) PITHI_MASKS_3(of, __VA_ARGS__, 0), PITHI_MASKS_3(of, __VA_ARGS__, 1)
#define PITHI_MASKS_5(of, ...) PITHI_MASKS_4(of, __VA_ARGS__, 0), PITHI_MASKS_4(of, __VA_ARGS__, 1)
#define PITHI_MASKS_6(of, ...) PITHI_MASKS_5(of, __VA_ARGS__, 0), PITHI_MASKS_5(of, __VA_ARGS__, 1)
#define PITHI_MASKS_7(of, ...) PITHI_MASKS_6(of, __VA_ARGS__, 0), PITHI_MASKS_6(of, __VA_ARGS__, 1)
#define PITHI_MASKS(of) PITHI_MASKS_7(of, 0), PITHI_MASKS_7(of, 1)

#endif
