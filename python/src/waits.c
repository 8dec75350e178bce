/* waits.c - channels of collectives, and waits in which handlers of Python's signals run.
 * SPDX-License-Identifier: Apache-2.0 */
#include <Python.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "marks.h"
#include "objects.h"
#include "waits.h"

static int (*wait_of_sockets)(void *user, double seconds);
static bool ending; /* no rank is waited for any more */

/* What the call that this thread is in knows of signals. A handler may make such a call, too, which
 * leaves this as it was. */
struct heeding {
    size_t raised;
    bool stop;
    double checked; /* seconds of the clock when handlers ran last */
};
static _Thread_local struct heeding heeding;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whether a handler has raised an exception, which the list then has. */
static bool interrupted(size_t raised) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    const bool found = PyErr_CheckSignals() != 0;
    if (found) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        if (PyList_Append((PyObject *)raised, value)) PyErr_Clear(); /* NOLINT: from id() */
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    }
    PyGILState_Release(lock);
    return found;
}

/* Runs handlers, unless they ran a moment ago. Whether one has raised an exception. */
static bool heed(void) {
    if (!heeding.raised || now() - heeding.checked < 0.1) return false;
    heeding.checked = now();
    return interrupted(heeding.raised);
}

static int wait_or_signal(void *user, double seconds) {
    if (heeding.stop || __atomic_load_n(&ending, __ATOMIC_RELAXED)) return -1;
    if (wait_of_sockets(user, seconds < 0.1 ? seconds : 0.1)) return -1;
    return heed() ? -1 : 0;
}

void pithpy_heed_signals(pith_transport *transport) {
    __atomic_store_n(&wait_of_sockets, transport->wait, __ATOMIC_RELAXED); /* always the same */
    transport->wait = wait_or_signal;
}

void pithpy_end_waits(void) { __atomic_store_n(&ending, true, __ATOMIC_RELAXED); }

/* ---- Channels --------------------------------------------------------------------------------*/

/* 0, and the channel is this call's; else PITHPY_INSIDE or PITHPY_CLOSED. */
static int enter_channel(pithpy_channel *c) {
    if (!enter(&c->mark, false)) return PITHPY_INSIDE;
    if (c->channel) return 0;
    leave(&c->mark, false);
    return PITHPY_CLOSED;
}

static void leave_channel(pithpy_channel *c, pith_error *error) {
    *error = *pith_collective_last_error(c->channel);
    leave(&c->mark, false);
}

#define PITHPY_LOCAL(name, parameters, arguments)                    \
    int pithpy_collective_##name parameters {                        \
        const int refused = enter_channel(c);                        \
        if (refused) return refused;                                 \
        const pith_status status = pith_collective_##name arguments; \
        leave_channel(c, error);                                     \
        return status;                                               \
    }
#define PITHPY_ANSWER(name, parameters, arguments)  \
    int pithpy_collective_##name parameters {       \
        const int refused = enter_channel(c);       \
        if (refused) return refused;                \
        *answer = pith_collective_##name arguments; \
        leave_channel(c, error);                    \
        return PITH_OK;                             \
    }
#include "channels.def"

int pithpy_collective_create(pithpy_channel *channel, const pith_transport *transport,
                             const pith_collective_options *options, pith_error *error,
                             size_t raised) {
    const struct heeding before = heeding;
    heeding = (struct heeding){.raised = raised};
    const pith_status status = pith_collective_create(&channel->channel, transport, options, error);
    heeding = before;
    return status;
}

int pithpy_collective_break_even(pith_transport *transport, const pith_collective_options *options,
                                 pith_collective_measure *out, pith_error *error, size_t raised) {
    const struct heeding before = heeding;
    heeding = (struct heeding){.raised = raised};
    const pith_status status = pith_collective_break_even(transport, options, out, error);
    heeding = before;
    transport->release(transport->user, status != PITH_OK);
    return status;
}

void pithpy_collective_destroy(pithpy_channel *c) {
    pith_collective_destroy(c->channel);
    c->channel = NULL;
}

int pithpy_collective_close(pithpy_channel *c) {
    const int refused = enter_channel(c);
    if (refused) return refused == PITHPY_CLOSED ? PITH_OK : refused;
    const bool busy = c->in_flight;
    if (!busy) pithpy_collective_destroy(c);
    leave(&c->mark, false);
    return busy ? PITH_ERR_BUSY : PITH_OK;
}

int pithpy_collective_bind_base(pithpy_channel *c, pith_error *error, void *base, uint64_t step,
                                size_t owner, size_t keeper) {
    PyObject *const object = (PyObject *)owner; /* NOLINT: addresses from id() */
    PyObject *const kept = (PyObject *)keeper;  /* NOLINT */
    const int refused = enter_channel(c);
    if (refused) return refused;
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *const before = exchange_attribute(object, "_base", kept);
    PyGILState_Release(lock);
    pith_status status = PITH_ERR_MEMORY;
    if (before) status = pith_collective_bind_base(c->channel, base, step);
    lock = PyGILState_Ensure();
    if (before && status != PITH_OK) Py_XDECREF(exchange_attribute(object, "_base", before));
    leave_channel(c, error);
    Py_XDECREF(before);
    PyGILState_Release(lock);
    return status;
}

/* ---- Calls -----------------------------------------------------------------------------------*/

/* Makes an object, or None, attribute _in_flight of the channel's. */
static void set_in_flight(pithpy_channel *c, const pithpy_request *r, bool in_flight) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *const object = in_flight ? (PyObject *)r->object : Py_None; /* NOLINT: from id() */
    PyObject *const before =
        exchange_attribute((PyObject *)r->owner, "_in_flight", object); /* NOLINT */
    c->in_flight = in_flight;
    leave(&c->mark, false);
    Py_XDECREF(before);
    PyGILState_Release(lock);
}

int pithpy_collective_start(pithpy_channel *c, const pith_collective_call *call,
                            pithpy_request *r) {
    const int refused = enter_channel(c);
    if (refused) return refused;
    const pith_status status = pith_collective_start(c->channel, call, &r->request);
    if (r->request)
        set_in_flight(c, r, true);
    else
        leave(&c->mark, false);
    return status;
}

/* Leaves the channel, in which the call was carried on. */
static void leave_call(pithpy_channel *c, pithpy_request *r, int ended) {
    if (!ended) {
        leave(&c->mark, false);
        return;
    }
    r->ended = 1;
    *r->error = *pith_collective_last_error(c->channel);
    set_in_flight(c, r, false);
}

int pithpy_collective_test(pithpy_channel *c, pithpy_request *r) {
    const int refused = enter_channel(c);
    if (refused) return refused;
    int done = 0;
    pith_status status = PITH_OK;
    if (r->request && !r->ended) status = pith_collective_test(r->request, &done, r->report);
    leave_call(c, r, done);
    return status;
}

int pithpy_collective_wait(pithpy_channel *c, pithpy_request *r, int stop, size_t raised) {
    const struct heeding before = heeding;
    pith_status status = PITH_OK;
    heeding = (struct heeding){.raised = raised, .stop = stop};
    while (!enter(&c->mark, false)) {
        /* Another thread is inside: it waits for this call, or does what takes a moment. */
        if (is_own(&c->mark) || heed()) {
            heeding = before;
            return PITHPY_INSIDE;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    const bool open = c->channel && r->request && !r->ended;
    if (open) status = pith_collective_wait(r->request, r->report);
    leave_call(c, r, open);
    heeding = before;
    return status;
}

/* Moves each call on once; how many have not ended. *own: a channel is inside a call that this
 * thread's handler interrupts. */
static size_t test_all(pithpy_channel *const *channels, pithpy_request *const *requests,
                       size_t count, bool *own) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (requests[i]->ended || !requests[i]->request) continue;
        const int status = pithpy_collective_test(channels[i], requests[i]);
        if (status == PITHPY_CLOSED || requests[i]->ended) continue;
        left++;
        *own = *own || (status == PITHPY_INSIDE && is_own(&channels[i]->mark));
    }
    return left;
}

int pithpy_collective_wait_all(pithpy_channel *const *channels, pithpy_request *const *requests,
                               size_t count, size_t raised) {
    const struct heeding before = heeding;
    int found = 0;
    unsigned idle_rounds = 0;
    heeding = (struct heeding){.raised = raised};
    for (bool own = false;;) {
        const double begin = now();
        if (!test_all(channels, requests, count, &own)) break;
        if (own || heed()) {
            found = own ? PITHPY_INSIDE : 0;
            /* Other ranks will not be waited for: what is left is broken. */
            for (size_t i = 0; i < count && !own; i++)
                if (!requests[i]->ended) pithpy_collective_wait(channels[i], requests[i], 1, 0);
            break;
        }
        /* A round without work takes some microseconds: yielding first keeps latency low, and
         * sleeping later leaves the core to a rank that computes. */
        idle_rounds = now() - begin > 5e-5 ? 0 : idle_rounds + 1;
        if (idle_rounds < 500)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    heeding = before;
    return found;
}
