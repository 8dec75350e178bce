/* version.h - the three numbers, which the build reads too: macros, so that #if can compare them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_VERSION_H
#define PITH_VERSION_H
#define PITH_VERSION_MAJOR 0
#define PITH_VERSION_MINOR 1
#define PITH_VERSION_PATCH 0
#endif
