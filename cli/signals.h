/* signals.h - the one path that must be removed when the process is told to end.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_SIGNALS_H
#define PITH_CLI_SIGNALS_H

#include <stdbool.h>

void signals_begin(void);
/* Holds signals back while a file comes into being or loses its name. */
void signals_block(bool block);
/* Sets the path to remove on a signal; NULL: none. Call with signals blocked. */
void signals_guard(const char *path);

#endif
