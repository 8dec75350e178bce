/* waits.c - waits of collectives, in which handlers of Python's signals run.
 * SPDX-License-Identifier: Apache-2.0 */
#include <Python.h>
#include <stdbool.h>
#include <time.h>

#include "waits.h"

static int (*wait_of_sockets)(void *user, double seconds);

/* What the call that this thread is in knows of signals. */
static _Thread_local struct {
    size_t raised;
    bool stop;
    double checked; /* seconds of the clock when handlers ran last */
} heeding;

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

static int wait_or_signal(void *user, double seconds) {
    if (heeding.stop) return -1;
    if (wait_of_sockets(user, seconds < 0.1 ? seconds : 0.1)) return -1;
    if (!heeding.raised || now() - heeding.checked < 0.1) return 0;
    heeding.checked = now();
    return interrupted(heeding.raised) ? -1 : 0;
}

void pithpy_heed_signals(pith_transport *transport) {
    __atomic_store_n(&wait_of_sockets, transport->wait, __ATOMIC_RELAXED); /* always the same */
    transport->wait = wait_or_signal;
}

int pithpy_collective_create(pith_collective_channel **channel, const pith_transport *transport,
                             const pith_collective_options *options, pith_error *error,
                             size_t raised) {
    heeding.raised = raised;
    const pith_status status = pith_collective_create(channel, transport, options, error);
    heeding.raised = 0;
    return status;
}

int pithpy_collective_wait(pith_collective_request *request, pith_collective_report *report,
                           int stop, size_t raised) {
    heeding.raised = raised;
    heeding.stop = stop;
    const pith_status status = pith_collective_wait(request, report);
    heeding.raised = 0;
    heeding.stop = false;
    return status;
}
