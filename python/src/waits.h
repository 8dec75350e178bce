/* waits.h - waits of collectives, in which handlers of Python's signals run.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_PYTHON_WAITS_H
#define PITH_PYTHON_WAITS_H

#include "pith/pith_collective.h"

/* Waits of a collective on this transport end when a handler of a signal raises an exception, and
 * the channel is broken then: as the transport's, whose `wait` fails. */
void pithpy_heed_signals(pith_transport *transport);
/* pith_collective_create and _wait, whose waits on such a transport run handlers of signals ten
 * times a second. raised: a list of Python's main thread that takes the exception; 0: none run.
 * stop: break the channel rather than wait for other ranks. */
int pithpy_collective_create(pith_collective_channel **channel, const pith_transport *transport,
                             const pith_collective_options *options, pith_error *error,
                             size_t raised);
int pithpy_collective_wait(pith_collective_request *request, pith_collective_report *report,
                           int stop, size_t raised);

#endif
