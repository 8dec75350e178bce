/* fault.h - transports around that of the world, which is the real one: some that damage, mislead,
 * stop or leave things open on demand, and some that promise less.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>

#include "pith/pith_collective.h"

enum { FAULT_VOTES = 3 }; /* the tag of what is neither of hop 0, 1 nor 2 */

/* One bit of one of this rank's messages with the tag, after `count` others; or its end is lost. */
struct fault_damage {
    bool on;
    uint32_t tag;
    long byte; /* from the start, or from the end when negative */
    int count; /* messages left alone before; -1 when it has happened */
    long lost; /* bytes at its end, and then no bit is damaged */
};
extern struct fault_damage fault_damage;

/* This rank's messages with the tag to one of two ranks go to the other. */
struct fault_astray {
    bool on;
    uint32_t tag, to[2];
    int count; /* messages that did */
};
extern struct fault_astray fault_astray;

/* After so many sends this rank does this; NULL: it goes on. */
extern void (*fault_at_send)(void);
extern int fault_sends_left;
/* After so many calls of test the transport fails; negative: never. */
extern int fault_tests_left;
/* Sends of this rank that begin meanwhile never end, and cannot be cancelled. */
extern bool fault_pending;
extern int fault_pending_sends;

/* For sim_change: the transport can do the above. */
void fault_wrap(pith_transport *transport);
/* It takes receives of exactly the size of their message, and says so. */
void fault_exact(pith_transport *transport);
/* It does not know how long the messages are that arrive, cannot cancel, and cannot wait. */
void fault_silent(pith_transport *transport);
/* Frees what messages were damaged in. */
void fault_end(void);

#endif
