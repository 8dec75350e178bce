/* objects.h - objects of Python that keep what the library goes on using.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_PYTHON_OBJECTS_H
#define PITH_PYTHON_OBJECTS_H

#include <Python.h>

/* Sets an attribute as the object's class had no say in it, and returns what was there before, for
 * which the caller drops a reference: finalizers run then. The caller holds the interpreter's
 * lock. NULL where it failed. */
static inline PyObject *exchange_attribute(PyObject *owner, const char *name, PyObject *value) {
    PyObject *const key = PyUnicode_InternFromString(name);
    PyObject *before = key ? PyObject_GenericGetAttr(owner, key) : NULL;
    if (before && PyObject_GenericSetAttr(owner, key, value)) {
        Py_DECREF(before);
        before = NULL;
    }
    Py_XDECREF(key);
    PyErr_Clear();
    return before;
}

#endif
