/* fault.c - what can go wrong with messages, done to those of a real transport.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "sim.h"

struct fault_damage fault_damage;
struct fault_astray fault_astray;
void (*fault_at_send)(void);
int fault_sends_left, fault_send_tag = -1, fault_tests_left = -1;
bool fault_pending;
int fault_pending_sends;

static uint64_t pending[1000];
enum { KEPT = 256 };
static struct { void *copy; } kept[KEPT];
static int kept_count;

void fault_end(void) {
    for (int i = 0; i < kept_count && i < KEPT; i++) free(kept[i].copy);
}

static uint32_t stray(uint32_t to, uint32_t tag) {
    struct fault_astray *a = &fault_astray;
    if (!a->on || tag != a->tag || (to != a->to[0] && to != a->to[1])) return to;
    a->count++;
    return to == a->to[0] ? a->to[1] : a->to[0];
}

/* The checksum of headers and votes, which stands in the last 8 of their 64 bytes. */
static void seal(unsigned char *bytes) {
    const uint64_t x = XXH64(bytes, 56, 0);
    memcpy(bytes + 56, &x, sizeof x);
}

/* Returns a damaged copy, so that the sender's own frame stays good. */
static const void *damaged(const void *data, uint32_t tag, uint64_t *bytes) {
    struct fault_damage *d = &fault_damage;
    if (!d->on || tag != d->tag || d->count < 0 || d->count-- > 0) return data;
    const long count = (long)*bytes;
    if (d->lost) {
        *bytes = (uint64_t)(d->lost < count ? count - d->lost : 1);
        return data;
    }
    unsigned char *copy = sim_take(*bytes);
    memcpy(copy, data, (size_t)*bytes);
    const long at = d->byte < 0 ? count + d->byte : d->byte;
    if (d->status) {
        memcpy(copy + at, &d->status, sizeof d->status);
        seal(copy);
    } else {
        copy[at < count && at >= 0 ? at : count - 1] ^= 0x10;
    }
    kept[kept_count++ % KEPT].copy = copy;
    return copy;
}

static int fault_isend(void *user, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                       uint64_t *request) {
    const pith_transport *inner = user;
    const bool counts = fault_send_tag < 0 || tag == (uint32_t)fault_send_tag;
    if (fault_at_send && counts && fault_sends_left-- == 0) fault_at_send();
    data = damaged(data, tag, &bytes);
    const int code = inner->isend(inner->user, stray(peer, tag), tag, data, bytes, request);
    if (fault_pending && fault_pending_sends < 1000) pending[fault_pending_sends++] = *request;
    return code;
}

static int fault_irecv(void *user, uint32_t peer, uint32_t tag, void *data, uint64_t bytes,
                       uint64_t *request) {
    const pith_transport *inner = user;
    return inner->irecv(inner->user, peer, tag, data, bytes, request);
}

static bool is_pending(uint64_t request) {
    for (int i = 0; fault_pending && i < fault_pending_sends; i++)
        if (pending[i] == request) return true;
    return false;
}

static int fault_test(void *user, uint64_t request, int *done, uint64_t *bytes) {
    const pith_transport *inner = user;
    *done = 0;
    if (is_pending(request)) return 0;
    if (fault_tests_left >= 0 && fault_tests_left-- == 0) return -1;
    return inner->test(inner->user, request, done, bytes);
}

static int fault_cancel(void *user, uint64_t request) {
    const pith_transport *inner = user;
    return is_pending(request) || inner->cancel(inner->user, request);
}

static int fault_wait(void *user, double seconds) {
    const pith_transport *inner = user;
    return inner->wait(inner->user, seconds);
}

static void fault_release(void *user, int broken) {
    pith_transport *inner = user;
    inner->release(inner->user, broken);
    free(inner);
}

void fault_wrap(pith_transport *t) {
    pith_transport *inner = sim_take(sizeof *inner);
    *inner = *t;
    t->user = inner;
    t->isend = fault_isend;
    t->irecv = fault_irecv;
    t->test = fault_test;
    t->cancel = fault_cancel;
    if (t->wait) t->wait = fault_wait;
    t->release = fault_release;
}

/* ---- Transports that promise less ------------------------------------------------------------*/

/* Tests a request of a transport whose sends, too, end with the size of the message. */
static int exact_test(void *user, uint64_t request, int *done, uint64_t *bytes) {
    const uint64_t sent = *bytes;
    const int code = fault_test(user, request, done, bytes);
    return code || (*done && *bytes != sent);
}

void fault_exact(pith_transport *t) {
    fault_wrap(t);
    t->test = exact_test;
    t->flags |= PITH_TRANSPORT_EXACT;
}

static int silent_test(void *user, uint64_t request, int *done, uint64_t *bytes) {
    uint64_t unknown = *bytes;
    return fault_test(user, request, done, &unknown);
}

void fault_silent(pith_transport *t) {
    fault_wrap(t);
    t->test = silent_test;
    t->cancel = NULL;
    t->wait = NULL;
}
