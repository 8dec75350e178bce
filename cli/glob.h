/* glob.h - shell patterns against names of tensors; depends on nothing but cli.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_GLOB_H
#define PITH_CLI_GLOB_H

#include <stdbool.h>

/* True when the whole name matches: * is any characters, ? is one, [a-z], [!a-z] and [[:digit:]]
 * are one of a set, \ takes what follows literally. A character is one of UTF-8, whatever the
 * locale; the classes are those of ASCII. Time is at most the product of the lengths. */
bool glob_match(const char *glob, const char *name);

#endif
