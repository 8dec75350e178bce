/* version.h - the three numbers; the build reads them too.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_VERSION_H
#define PITH_VERSION_H
#define PITH_VERSION_MAJOR 0
#define PITH_VERSION_MINOR 1
#define PITH_VERSION_PATCH 0
#endif
