/* test_sockets.c - what a socket may bring: the other end of a transport on sockets is this test.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim.h"

/* Rank 0 of two makes a channel while these bytes arrive from rank 1, and then the end of
 * its messages if `leave`. */
static pith_status create_with(const void *bytes, size_t count, bool leave, double timeout,
                               double *seconds) {
    const pith_collective_options o = {.size = sizeof o,
                                       .kind = PITH_COLLECTIVE_ALLREDUCE,
                                       .dtype = PITH_F32,
                                       .count = 100,
                                       .spec = "grad:bits=8",
                                       .timeout = timeout};
    pith_collective_channel *channel;
    pith_transport transport;
    pith_error error = {.size = sizeof error};
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const int sockets[2] = {-1, ends[0]};
    CHECK_STATUS(pith_collective_sockets(&transport, 0, 2, sockets), PITH_OK);
    if (count) CHECK(send(ends[1], bytes, count, MSG_NOSIGNAL) == (ssize_t)count);
    if (leave) shutdown(ends[1], SHUT_WR); /* so that sends do not fail */
    const double begin = sim_now();
    const pith_status status = pith_collective_create(&channel, &transport, &o, &error);
    *seconds = sim_now() - begin;
    CHECK(channel == NULL && status != PITH_OK);
    close(ends[1]);
    return status;
}

/* The header before a message, as sockets.c has it. */
struct head {
    uint32_t magic, tag;
    uint64_t bytes;
};

enum { VOTES = 4, VOTE_BYTES = 64 };

static pith_status create_after(uint32_t magic, uint32_t tag, uint64_t bytes, size_t sent) {
    unsigned char message[256];
    const struct head head = {magic, tag, bytes};
    double seconds;
    memset(message, 0xA5, sizeof message);
    memcpy(message, &head, sizeof head);
    const pith_status status = create_with(message, sent, false, 0.3, &seconds);
    CHECK(seconds < (status == PITH_ERR_TIMEOUT ? 2.0 : 0.2));
    return status;
}

/* Rank 0 of three hears a header with a tag that there is not from rank 1, and goes on to wait for
 * rank 2, which says nothing. */
static void hear_another(uint32_t magic) {
    const struct head head = {magic, UINT32_MAX, VOTE_BYTES};
    unsigned char got[2][VOTE_BYTES];
    pith_transport t;
    uint64_t request[2], bytes;
    int ends[2][2], done;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[0]) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[1]) == 0);
    const int sockets[3] = {-1, ends[0][0], ends[1][0]};
    CHECK_STATUS(pith_collective_sockets(&t, 0, 3, sockets), PITH_OK);
    for (uint32_t k = 0; k < 2; k++)
        CHECK(t.irecv(t.user, 1 + k, VOTES, got[k], VOTE_BYTES, &request[k]) == 0);
    CHECK(send(ends[0][1], &head, sizeof head, MSG_NOSIGNAL) == (ssize_t)sizeof head);
    for (int i = 0; i < 3; i++) CHECK(t.test(t.user, request[1], &done, &bytes) == 0 && !done);
    CHECK(t.test(t.user, request[0], &done, &bytes) != 0);
    t.release(t.user, 1);
    close(ends[0][1]);
    close(ends[1][1]);
}

int main(void) {
    const uint32_t magic = 0x50545331u;
    unsigned char noise[600];
    double seconds;
    /* Rank 1 says nothing, or is gone: before a message, or within one. */
    CHECK_STATUS(create_with(NULL, 0, false, 0.3, &seconds), PITH_ERR_TIMEOUT);
    CHECK(seconds > 0.25 && seconds < 2);
    CHECK_STATUS(create_with(NULL, 0, true, 30, &seconds), PITH_ERR_TRANSPORT);
    CHECK(seconds < 10);
    CHECK_STATUS(create_with(&magic, 3, true, 30, &seconds), PITH_ERR_TRANSPORT);
    CHECK(seconds < 10);
    /* These are headers that no rank sends. */
    CHECK_STATUS(create_after(magic + 1, VOTES, VOTE_BYTES, 80), PITH_ERR_TRANSPORT);
    CHECK_STATUS(create_after(magic, PITH_TRANSPORT_TAGS, VOTE_BYTES, 80), PITH_ERR_TRANSPORT);
    CHECK_STATUS(create_after(magic, UINT32_MAX, VOTE_BYTES, 80), PITH_ERR_TRANSPORT);
    CHECK_STATUS(create_after(magic, VOTES, 0, 80), PITH_ERR_TRANSPORT);
    CHECK_STATUS(create_after(magic, VOTES, VOTE_BYTES + 1, 81), PITH_ERR_TRANSPORT);
    CHECK_STATUS(create_after(magic, VOTES, UINT64_MAX, 200), PITH_ERR_TRANSPORT);
    hear_another(magic);
    /* A vote may be noise, too short, or cut, and a message may be one that nobody waits for. */
    CHECK_STATUS(create_after(magic, VOTES, VOTE_BYTES, 80), PITH_ERR_TRANSPORT);
    CHECK_STATUS(create_after(magic, VOTES, 10, 26), PITH_ERR_TRANSPORT);
    CHECK_STATUS(create_after(magic, VOTES, VOTE_BYTES, 79), PITH_ERR_TIMEOUT);
    CHECK_STATUS(create_after(magic, 0, VOTE_BYTES, 80), PITH_ERR_TIMEOUT);
    for (unsigned i = 0; i < 400; i++) {
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (unsigned char)(int)(sim_value(i, k, 1, true) * 64);
        if (i % 2) memcpy(noise, &magic, sizeof magic);
        if (i % 4 == 3) memcpy(noise + 4, &(uint32_t){VOTES}, 4);
        const pith_status status =
            create_with(noise, 1 + i % sizeof noise, i % 3 == 0, 0.01, &seconds);
        CHECK(status == PITH_ERR_TRANSPORT || status == PITH_ERR_TIMEOUT);
        CHECK(seconds < 2);
    }
    printf("sockets: %s\n", sim_failures() ? "FAILED" : "ok");
    return sim_failures() != 0;
}
