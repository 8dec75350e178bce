/* report.h - tables for people and a log for the script that draws.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include "trainer.h"

/* Both curves side by side, then bytes and times; either may be NULL. */
void report_print(const struct world *world, const struct curve *plain, const struct curve *pith);
/* Tab-separated lines: kind, key, values. 0, or -1 with a message on stderr. */
int report_log(const struct world *world, const struct options *options, const char *name,
               const struct curve *curve);
/* 0 when the loss fell and, with both curves and a slack, the two last losses agree. */
int report_judge(const struct options *options, const struct curve *plain,
                 const struct curve *pith);

#endif
