/* sockets.c - a transport on connected stream sockets, one to every other rank.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On a socket a message is a header and its bytes. A message whose receive was not started yet
 * stays in the socket, and so do those behind it: a channel starts its receives in an order in
 * which that ends, since a rank sends nothing of its next call before it has sent all of this
 * one. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "channel.h"

struct head {
    uint32_t magic, tag;
    uint64_t bytes;
};

#define MAGIC 0x50545331u
#define NONE UINT32_MAX

/* An entry of the table of requests. Requests that wait for one thing are linked in a list. */
struct request {
    uint32_t peer, next;
    struct head head;
    uint8_t *data;
    uint64_t moved; /* bytes through the socket; a send counts its header, too */
    bool ended;
};

struct list {
    uint32_t first, last;
};

struct peer {
    int socket;
    bool gone;
    struct list sends, receives[PITH_TRANSPORT_TAGS];
    uint32_t open;    /* receives that have not ended */
    struct head head; /* head of the message that arrives */
    uint64_t moved;   /* bytes of that message so far, with the head */
};

struct sockets {
    uint32_t rank, ranks;
    struct peer *peers;
    struct pollfd *polled; /* one for every peer */
    struct request *requests;
    uint32_t capacity, unused; /* unused: the first entry in the list of unused ones */
    bool news;                 /* a request has ended since the last wait */
};

/* ---- Requests --------------------------------------------------------------------------------*/

static uint32_t new_request(struct sockets *s) {
    if (s->unused == NONE) {
        const uint32_t more = s->capacity ? 2 * s->capacity : 64;
        struct request *table = realloc(s->requests, more * sizeof *table);
        if (!table) return NONE;
        for (uint32_t i = s->capacity; i < more; i++) table[i].next = i + 1 < more ? i + 1 : NONE;
        s->unused = s->capacity;
        s->capacity = more;
        s->requests = table;
    }
    const uint32_t index = s->unused;
    s->unused = s->requests[index].next;
    return index;
}

static int start(struct sockets *s, struct list *list, const struct request *r, uint64_t *request) {
    const uint32_t index = new_request(s);
    if (index == NONE) return -1;
    s->requests[index] = *r;
    if (list->first == NONE)
        list->first = index;
    else
        s->requests[list->last].next = index;
    list->last = index;
    *request = index;
    return 0;
}

static int sockets_isend(void *user, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                         uint64_t *request) {
    struct sockets *s = user;
    const struct request r = {.peer = peer,
                              .next = NONE,
                              .head = {MAGIC, tag, bytes},
                              .data = (uint8_t *)(uintptr_t)data};
    return start(s, &s->peers[peer].sends, &r, request);
}

static int sockets_irecv(void *user, uint32_t peer, uint32_t tag, void *data, uint64_t bytes,
                         uint64_t *request) {
    struct sockets *s = user;
    const struct request r = {
        .peer = peer, .next = NONE, .head = {MAGIC, tag, bytes}, .data = data};
    if (start(s, &s->peers[peer].receives[tag], &r, request)) return -1;
    s->peers[peer].open++;
    return 0;
}

static void end_first(struct sockets *s, struct list *list) {
    struct request *r = &s->requests[list->first];
    list->first = r->next;
    r->ended = s->news = true;
}

/* ---- Progress --------------------------------------------------------------------------------*/

/* Returns how many bytes a call on a socket moved, 0 when it would have to wait; notes the end of
 * the peer. */
static size_t moved(struct peer *p, ssize_t result, bool reading) {
    if (result > 0) return (size_t)result;
    if (result == 0 ? reading : errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        p->gone = true;
    return 0;
}

static void send_all(struct sockets *s, struct peer *p) {
    while (p->sends.first != NONE && !p->gone) {
        struct request *r = &s->requests[p->sends.first];
        const uint64_t head = sizeof r->head, total = head + r->head.bytes;
        const uint64_t of_head = r->moved < head ? head - r->moved : 0;
        struct iovec part[2] = {
            {(char *)&r->head + (head - of_head), of_head},
            {r->data + (r->moved + of_head - head), total - r->moved - of_head}};
        const struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};
        const size_t sent =
            moved(p, sendmsg(p->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL), false);
        if (!sent) return;
        r->moved += sent;
        if (r->moved == total) end_first(s, &p->sends);
    }
}

/* Returns the request that takes the message that arrives; NONE while nobody waits for it. */
static uint32_t receiver(const struct peer *p) {
    return p->moved < sizeof p->head ? NONE : p->receives[p->head.tag].first;
}

static void receive_all(struct sockets *s, struct peer *p) {
    while (p->open && !p->gone) {
        const uint64_t head = sizeof p->head;
        if (p->moved < head) {
            char *to = (char *)&p->head + p->moved;
            const size_t got = moved(p, recv(p->socket, to, head - p->moved, MSG_DONTWAIT), true);
            if (!got) return;
            p->moved += got;
            if (p->moved < head) continue;
            if (p->head.magic != MAGIC || p->head.tag >= PITH_TRANSPORT_TAGS || !p->head.bytes)
                p->gone = true;
        }
        const uint32_t index = p->gone ? NONE : receiver(p);
        if (index == NONE) return;
        struct request *r = &s->requests[index];
        if (p->head.bytes > r->head.bytes) {
            p->gone = true;
            return;
        }
        const uint64_t done = p->moved - head;
        const size_t got =
            moved(p, recv(p->socket, r->data + done, p->head.bytes - done, MSG_DONTWAIT), true);
        if (!got) return;
        p->moved += got;
        if (p->moved < head + p->head.bytes) continue;
        r->head.bytes = p->head.bytes;
        p->moved = 0;
        p->open--;
        end_first(s, &p->receives[p->head.tag]);
    }
}

/* Waits for the sockets on which something can move, and moves it. */
static int progress(struct sockets *s, int milliseconds) {
    for (uint32_t r = 0; r < s->ranks; r++) {
        const struct peer *p = &s->peers[r];
        const bool here = r != s->rank && !p->gone; /* the head of a peer that is gone may be any */
        const bool sends = here && p->sends.first != NONE;
        const bool receives = here && p->open && (p->moved < sizeof p->head || receiver(p) != NONE);
        s->polled[r].fd = sends || receives ? p->socket : -1;
        s->polled[r].events = (short)((sends ? POLLOUT : 0) | (receives ? POLLIN : 0));
    }
    const int ready = poll(s->polled, s->ranks, milliseconds);
    if (ready < 0) return errno == EINTR ? 0 : -1;
    for (uint32_t r = 0; ready && r < s->ranks; r++) {
        if (s->polled[r].fd < 0 || !s->polled[r].revents) continue;
        send_all(s, &s->peers[r]);
        receive_all(s, &s->peers[r]);
    }
    return 0;
}

static int sockets_test(void *user, uint64_t request, int *done, uint64_t *bytes) {
    struct sockets *s = user;
    *done = 0;
    if (!s->requests[request].ended && progress(s, 0)) return -1;
    struct request *r = &s->requests[request];
    if (!r->ended) return s->peers[r->peer].gone ? -1 : 0;
    *done = 1;
    *bytes = r->head.bytes;
    r->next = s->unused;
    s->unused = (uint32_t)request;
    return 0;
}

static int sockets_wait(void *user, double seconds) {
    struct sockets *s = user;
    if (!s->news && progress(s, 1 + (int)(seconds * 1e3))) return -1;
    s->news = false;
    return 0;
}

/* Nothing is left to cancel: bytes move in `progress` alone, which is not called any more. */
static int sockets_cancel(void *user, uint64_t request) {
    (void)user;
    (void)request;
    return 0;
}

/* ---- Life ------------------------------------------------------------------------------------*/

static void sockets_release(void *user, int broken) {
    struct sockets *s = user;
    (void)broken;
    for (uint32_t r = 0; s->peers && r < s->ranks; r++)
        if (r != s->rank && s->peers[r].socket >= 0) close(s->peers[r].socket);
    free(s->peers);
    free(s->polled);
    free(s->requests);
    free(s);
}

pith_status pith_collective_sockets(pith_transport *transport, uint32_t rank, uint32_t ranks,
                                    const int *sockets) {
    if (!transport || !sockets || rank >= ranks) return PITH_ERR_ARG;
    struct sockets *s = calloc(1, sizeof *s);
    if (!s) return PITH_ERR_MEMORY;
    *s = (struct sockets){.rank = rank, .ranks = ranks, .unused = NONE};
    struct peer *peers = calloc(ranks, sizeof *peers);
    s->polled = calloc(ranks, sizeof *s->polled);
    if (!peers || !s->polled) {
        free(peers);
        sockets_release(s, 0);
        return PITH_ERR_MEMORY;
    }
    for (uint32_t r = 0; r < ranks; r++) {
        peers[r].socket = sockets[r];
        peers[r].sends.first = NONE;
        for (uint32_t t = 0; t < PITH_TRANSPORT_TAGS; t++) peers[r].receives[t].first = NONE;
    }
    s->peers = peers;
    *transport = (pith_transport){.size = sizeof *transport,
                                  .user = s,
                                  .rank = rank,
                                  .ranks = ranks,
                                  .isend = sockets_isend,
                                  .irecv = sockets_irecv,
                                  .test = sockets_test,
                                  .cancel = sockets_cancel,
                                  .wait = sockets_wait,
                                  .release = sockets_release};
    return PITH_OK;
}
