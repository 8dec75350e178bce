/* world_fork.c - ranks as forked processes; channels between them on sockets.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: PROGRAM RANKS [ARGUMENT...]
 * Ranks are connected in pairs before they are forked. Over these connections they hand each other
 * the sockets of new transports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum { MOST = 16 };
int world_rank, world_ranks;
static int control[MOST]; /* sockets to every other rank */

static void need(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "rank %d: %s\n", world_rank, what);
    _exit(2);
}

/* Waits for all ranks; the parent is none. */
static void supervise(int children) {
    int worst = 0;
    for (int status; children && wait(&status) > 0; children--) {
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
        if (code > worst) worst = code;
    }
    exit(worst);
}

void world_begin(int *argc, char ***argv) {
    static int pairs[MOST][MOST];
    world_ranks = *argc > 1 ? atoi((*argv)[1]) : 0;
    need(world_ranks > 0 && world_ranks <= MOST, "usage: RANKS [ARGUMENT...]");
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int a = 0; a < world_ranks; a++)
        for (int b = a + 1; b < world_ranks; b++) {
            int ends[2];
            need(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "no sockets");
            pairs[a][b] = ends[0];
            pairs[b][a] = ends[1];
        }
    pid_t child = 1;
    for (world_rank = -1; child && ++world_rank < world_ranks;) {
        child = fork();
        need(child >= 0, "no processes");
    }
    for (int a = 0; a < world_ranks; a++)
        for (int b = 0; b < world_ranks; b++) {
            if (a == b) continue;
            if (!child && a == world_rank)
                control[b] = pairs[a][b];
            else
                close(pairs[a][b]);
        }
    if (child) supervise(world_ranks);
    (*argv)[1] = (*argv)[0];
    --*argc;
    ++*argv;
}

/* ---- Over the connections --------------------------------------------------------------------*/

static void give(int to, const void *data, size_t bytes) {
    need(send(control[to], data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes, "a rank is gone");
}

static void take(int from, void *data, size_t bytes) {
    need(recv(control[from], data, bytes, MSG_WAITALL) == (ssize_t)bytes, "a rank is gone");
}

void world_spread(void *data, size_t bytes) {
    char *const all = data;
    for (size_t at = 0; at < bytes; at += 4096) {
        const size_t some = bytes - at < 4096 ? bytes - at : 4096;
        for (int r = 1; r < world_ranks && world_rank == 0; r++) give(r, all + at, some);
        if (world_rank) take(0, all + at, some);
    }
    world_barrier();
}

uint64_t world_lowest(uint64_t x) {
    for (int r = 1; r < world_ranks && world_rank == 0; r++) {
        uint64_t other;
        take(r, &other, sizeof other);
        if (other < x) x = other;
    }
    if (world_rank) give(0, &x, sizeof x);
    for (int r = 1; r < world_ranks && world_rank == 0; r++) give(r, &x, sizeof x);
    if (world_rank) take(0, &x, sizeof x);
    return x;
}

void world_barrier(void) { world_lowest(0); }

int world_end(const char *name, int failures) {
    printf("%s, rank %d of %d: %s\n", name, world_rank, world_ranks, failures ? "FAILED" : "ok");
    fflush(stdout);
    return failures != 0;
}

/* ---- Transports ------------------------------------------------------------------------------*/

union rights {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static struct msghdr message_of(union rights *rights, struct iovec *part) {
    return (struct msghdr){
        .msg_iov = part, .msg_iovlen = 1, .msg_control = rights, .msg_controllen = sizeof *rights};
}

static void give_socket(int to, int fd) {
    union rights rights = {.bytes = {0}};
    char byte = 1;
    struct iovec part = {&byte, 1};
    struct msghdr message = message_of(&rights, &part);
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    need(sendmsg(control[to], &message, MSG_NOSIGNAL) == 1, "a socket was not sent");
    close(fd);
}

static int take_socket(int from) {
    union rights rights;
    char byte;
    int fd = -1;
    struct iovec part = {&byte, 1};
    struct msghdr message = message_of(&rights, &part);
    need(recvmsg(control[from], &message, 0) == 1, "a socket was not received");
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    need(c && c->cmsg_type == SCM_RIGHTS, "a message has no socket");
    memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

pith_status world_transport(pith_transport *transport) {
    int sockets[MOST] = {0};
    for (int r = world_rank + 1; r < world_ranks; r++) {
        int ends[2];
        need(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "no sockets");
        sockets[r] = ends[0];
        give_socket(r, ends[1]);
    }
    for (int r = 0; r < world_rank; r++) sockets[r] = take_socket(r);
    return pith_collective_sockets(transport, (uint32_t)world_rank, (uint32_t)world_ranks, sockets);
}
