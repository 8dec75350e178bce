/* waits.h - channels of collectives, and waits in which handlers of Python's signals run.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_PYTHON_WAITS_H
#define PITH_PYTHON_WAITS_H

#include "pith/pith_collective.h"

/* A channel, and the mark of the call that uses it, since the library is inside a channel once at a
 * time: marks.h. */
typedef struct pithpy_channel {
    pith_collective_channel *channel; /* NULL: closed */
    intptr_t mark;
    int in_flight; /* whether a call is; for who has entered */
} pithpy_channel;

/* What calls with a channel return besides a status, which is never above 0. */
enum {
    PITHPY_INSIDE = 1, /* another call is inside it; nothing was done */
    PITHPY_CLOSED = 2
};

/* A call of Python's. Its object, given by its address, is attribute _in_flight of the channel's
 * object from the start of the call to its end, else that is None: both are changed by the function
 * of C that starts or ends the call, so that an exception of a handler comes before or after. */
typedef struct pithpy_request {
    pith_collective_request *request; /* NULL: not started */
    pith_collective_report *report;
    pith_error *error; /* as pith_collective_last_error, once the call has ended */
    int ended;
    size_t object, owner; /* addresses of the call's and the channel's object */
} pithpy_request;

/* Waits of a collective on this transport end when a handler of a signal raises an exception, and
 * the channel is broken then: as the transport's, whose `wait` fails. */
void pithpy_heed_signals(pith_transport *transport);
/* From now on such waits fail, in every thread, and the channels are broken that wait. */
void pithpy_end_waits(void);
/* pith_collective_create and _wait, whose waits on such a transport run handlers of signals ten
 * times a second. raised: a list of Python's main thread that takes the exception; 0: none run.
 * stop: break the channel rather than wait for other ranks. Where another thread is inside the
 * channel, _wait waits for it, too; PITHPY_INSIDE: it is a handler in a wait of this thread. */
int pithpy_collective_create(pithpy_channel *channel, const pith_transport *transport,
                             const pith_collective_options *options, pith_error *error,
                             size_t raised);
int pithpy_collective_wait(pithpy_channel *channel, pithpy_request *request, int stop,
                           size_t raised);
int pithpy_collective_test(pithpy_channel *channel, pithpy_request *request);
/* As pith_collective_wait_all, and also while other threads are inside some of the channels:
 * requests[i] is of channels[i]. 0, when all have ended; or PITHPY_INSIDE, as of _wait. An
 * exception of a handler breaks the channels of all that had not ended. */
int pithpy_collective_wait_all(pithpy_channel *const *channels, pithpy_request *const *requests,
                               size_t count, size_t raised);
/* pith_collective_break_even, which heeds signals as pith_collective_create; then the transport's
 * release. */
int pithpy_collective_break_even(pith_transport *transport, const pith_collective_options *options,
                                 pith_collective_measure *out, pith_error *error, size_t raised);
int pithpy_collective_start(pithpy_channel *channel, const pith_collective_call *call,
                            pithpy_request *request);
/* PITH_ERR_BUSY: a call is in flight. Closed channels are closed again. */
int pithpy_collective_close(pithpy_channel *channel);
/* pith_collective_bind_base. owner is the address of the channel's object, whose attribute _base
 * becomes the object at keeper where it succeeds: it keeps the memory. */
int pithpy_collective_bind_base(pithpy_channel *channel, pith_error *error, void *base,
                                uint64_t step, size_t owner, size_t keeper);
/* For the end of the channel's object. */
void pithpy_collective_destroy(pithpy_channel *channel);

/* Calls that are local: channels.def lists them. error becomes pith_collective_last_error, or has
 * no text. */
#define PITHPY_LOCAL(name, parameters, arguments) int pithpy_collective_##name parameters;
#define PITHPY_ANSWER(name, parameters, arguments) int pithpy_collective_##name parameters;
#include "channels.def"

#endif
