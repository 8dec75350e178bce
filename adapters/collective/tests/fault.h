/* fault.h - transports around that of the world, which is the real one: some that damage, mislead,
 * stop or leave things open on demand, and some that promise less.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>

#include "pith/pith_collective.h"

/* The tags of messages that a rank forwards, in channels whose sums have two levels, and of those
 * that belong to no hop. */
enum { FAULT_FORWARDED = 3, FAULT_VOTES = 4 };

/* One bit of one of this rank's messages with the tag, after `count` others; or its end is lost; or
 * it tells another status, by a header that is whole. */
struct fault_damage {
    bool on;
    uint32_t tag;
    long byte;      /* from the start, or from the end when negative */
    int count;      /* messages left alone before; -1 when it has happened */
    long lost;      /* bytes at its end, and then no bit is damaged */
    int32_t status; /* not 0: stands at `byte`, and no bit is damaged */
};
extern struct fault_damage fault_damage;

/* Messages that go astray: this rank's with the tag to one of two ranks go to the other. */
struct fault_astray {
    bool on;
    uint32_t tag, to[2];
    int count; /* messages that went astray */
};
extern struct fault_astray fault_astray;

/* After so many sends, with one tag or, where that is negative, any, this rank does this; NULL: it
 * goes on. */
extern void (*fault_at_send)(void);
extern int fault_sends_left, fault_send_tag;
/* After so many calls of test the transport fails; negative: never. */
extern int fault_tests_left;
/* Sends of this rank that begin meanwhile never end, and cannot be cancelled. */
extern bool fault_pending;
extern int fault_pending_sends;

/* Makes a transport for sim_change that can do all of this. */
void fault_wrap(pith_transport *transport);
/* Makes a transport that takes receives of exactly the size of their message, and says so. */
void fault_exact(pith_transport *transport);
/* Makes a transport that does not know how long the messages are that arrive, cannot cancel, and
 * cannot wait. */
void fault_silent(pith_transport *transport);
/* Frees the copies in which messages were damaged. */
void fault_end(void);

#endif
