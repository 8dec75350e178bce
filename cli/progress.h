/* progress.h - a bar on stderr, only on a terminal and only for long work.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_PROGRESS_H
#define PITH_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Begins a bar of `total` bytes. Nothing is shown before the work has taken half a second. */
void progress_begin(bool quiet, uint64_t total);
void progress_advance(uint64_t bytes);
/* Removes the bar, so that another line can be printed. */
void progress_clear(void);
/* Returns seconds of a clock that never goes back. */
double clock_seconds(void);

#endif
