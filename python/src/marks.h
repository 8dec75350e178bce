/* marks.h - which thread uses a stream, a cache or a channel: a mark beside each.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library's calls that only read a stream or a cache mark nothing, and nothing may change it
 * until they return. The package promises more, an exception, and has a mark for each object: 0: no
 * call uses it; n: so many calls that only read it; negative: a call of one thread that may change
 * it, whose own_mark() it is. One function of C enters, calls and leaves, and runs no code of
 * Python meanwhile, but for waits of collectives: handlers of signals and finalizers run before or
 * after it, so that their exceptions leave no mark behind, and their own calls find none. */
#ifndef PITH_PYTHON_MARKS_H
#define PITH_PYTHON_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The mark of a call of this thread that is alone: no other living thread has this address. */
static inline intptr_t own_mark(void) {
    static _Thread_local char here;
    return -(intptr_t)&here;
}

/* False where another call uses the object. */
static inline bool enter(intptr_t *mark, bool shared) {
    intptr_t found = 0, made;
    do {
        if (found < 0 || (found > 0 && !shared)) return false;
        made = shared ? found + 1 : own_mark();
    } while (!__atomic_compare_exchange_n(mark, &found, made, false, __ATOMIC_ACQUIRE,
                                          __ATOMIC_RELAXED));
    return true;
}

/* Whether this thread is in a call that is alone: what it runs now is a handler in a wait. */
static inline bool is_own(const intptr_t *mark) {
    return __atomic_load_n(mark, __ATOMIC_RELAXED) == own_mark();
}

static inline void leave(intptr_t *mark, bool shared) {
    if (shared)
        __atomic_fetch_add(mark, -1, __ATOMIC_RELEASE);
    else
        __atomic_store_n(mark, 0, __ATOMIC_RELEASE);
}

static inline void leave_all(intptr_t *const *marks, size_t count, bool reading) {
    for (size_t i = 0; i < count; i++) leave(marks[i], reading);
}

/* Enters all, no two of which are the same one, or none. */
static inline bool enter_all(intptr_t *const *marks, size_t count, bool reading) {
    for (size_t i = 0; i < count; i++)
        if (!enter(marks[i], reading)) {
            leave_all(marks, i, reading);
            return false;
        }
    return true;
}

#endif
