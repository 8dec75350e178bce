/* fuzz_collective.c - ranks of one process whose messages are damaged on their way, and any bytes
 * to pith_collective_load.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Ranks make a channel in threads, since that waits for others; then one thread moves the calls of
 * all of them on, in turn, so that an input does the same every time, and where nothing moves any
 * more the clock jumps. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "channel.h"
#include "fuzz.h"
#include "pith/pith_collective.h"

enum { RANKS_MAX = 4, CALLS = 4, COUNT_MAX = 900, PARAMETER_BYTES = 96, SENT_MAX = 2048 };
enum { TIMEOUT = 60 }; /* seconds */

/* ---- Clock: in place of clock.c --------------------------------------------------------------*/

static double skipped; /* seconds, once threads are gone */

double pithi_collective_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + skipped;
}

double pithi_collective_cpu(void) { return 0; }

void pithi_collective_nap(uint32_t *idle_rounds) {
    const struct timespec nap = {0, 20000};
    ++*idle_rounds;
    nanosleep(&nap, NULL);
}

bool pithi_collective_idle(pith_collective_channel *ch, uint32_t *idle_rounds, double until) {
    (void)ch, (void)until;
    pithi_collective_nap(idle_rounds);
    return true;
}

/* ---- Mail ------------------------------------------------------------------------------------*/

/* A message that was sent, and `bytes` of it arrive; `taken` by a receive. */
struct letter {
    uint32_t from, to, tag;
    bool taken;
    uint8_t *data;
    size_t sent, bytes;
};

struct receive {
    uint32_t from, to, tag;
    bool open;
    uint8_t *data;
    size_t bytes;
};

/* What befalls one message: the one that a rank sends after so many others. */
struct damage {
    bool on, lost, seal, fix, fails;
    uint32_t from, after, keep; /* keep: bytes that are left of it, all where it has fewer */
    struct fuzz_source patches;
    bool struck, vote; /* it has happened; to one of the messages that agree on a status */
};

struct world {
    pthread_mutex_t lock;
    uint32_t ranks, sent_by[RANKS_MAX];
    struct letter letter[SENT_MAX];
    struct receive receive[SENT_MAX];
    size_t letters, receives, moved; /* moved: all that ever was sent and received */
    struct damage damage;
};

struct rank {
    struct world *world;
    uint32_t number;
    pith_collective_channel *channel;
    const pith_collective_options *options;
    pith_error error;
    pith_status status;
    float *in, *out;
};

/* Puts the checksum of a message's header right, and, with `fix`, that of its first frame's. */
static void seal(struct letter *l, bool fix) {
    if (l->bytes < PITHI_COLLECTIVE_HEADER) return;
    const size_t checked = PITHI_COLLECTIVE_HEADER - sizeof(uint64_t);
    const uint64_t check = pithi_collective_hash(l->data, checked, 0);
    memcpy(l->data + checked, &check, sizeof check);
    if (fix) fuzz_fix_frame(l->data + PITHI_COLLECTIVE_HEADER, l->bytes - PITHI_COLLECTIVE_HEADER);
}

static void strike(struct damage *d, struct letter *l) {
    d->struck = true;
    d->vote = l->tag == PITHI_COLLECTIVE_VOTE_TAG;
    if (d->keep && d->keep < l->bytes) l->bytes = d->keep;
    fuzz_patch(l->data, l->bytes, &d->patches);
    if (d->seal) seal(l, d->fix);
}

static int send_letter(void *user, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                       uint64_t *request) {
    const struct rank *const r = user;
    struct world *const w = r->world;
    struct damage *const d = &w->damage;
    int failed = 0;
    FUZZ_CHECK(peer < w->ranks && peer != r->number && tag < PITH_TRANSPORT_TAGS && bytes);
    pthread_mutex_lock(&w->lock);
    FUZZ_CHECK(w->letters < SENT_MAX);
    const bool strikes = d->on && d->from == r->number && d->after == w->sent_by[r->number];
    w->sent_by[r->number]++;
    w->moved++;
    *request = UINT64_MAX; /* it is gone already */
    if (strikes && d->fails) {
        d->struck = true;
        failed = 1;
    } else if (strikes && d->lost) {
        d->struck = true;
    } else {
        struct letter *const l = &w->letter[w->letters++];
        *l = (struct letter){r->number, peer, tag, false, guard_copy(data, bytes), bytes, bytes};
        if (strikes) strike(d, l);
    }
    pthread_mutex_unlock(&w->lock);
    return failed;
}

static int receive_letter(void *user, uint32_t peer, uint32_t tag, void *data, uint64_t bytes,
                          uint64_t *request) {
    const struct rank *const r = user;
    struct world *const w = r->world;
    FUZZ_CHECK(peer < w->ranks && peer != r->number && tag < PITH_TRANSPORT_TAGS && bytes);
    pthread_mutex_lock(&w->lock);
    FUZZ_CHECK(w->receives < SENT_MAX);
    *request = w->receives;
    w->receive[w->receives++] = (struct receive){peer, r->number, tag, true, data, bytes};
    pthread_mutex_unlock(&w->lock);
    return 0;
}

/* The receive gets the first message that no other has taken; receives between two ranks with one
 * tag are tested by one rank, and an earlier one that is open goes first. */
static struct letter *letter_for(struct world *w, const struct receive *asked) {
    for (const struct receive *r = w->receive; r < asked; r++)
        if (r->open && r->from == asked->from && r->to == asked->to && r->tag == asked->tag)
            return NULL;
    for (size_t i = 0; i < w->letters; i++) {
        struct letter *const l = &w->letter[i];
        if (!l->taken && l->from == asked->from && l->to == asked->to && l->tag == asked->tag)
            return l;
    }
    return NULL;
}

static int test_request(void *user, uint64_t request, int *done, uint64_t *bytes) {
    struct world *const w = ((const struct rank *)user)->world;
    *done = 1;
    if (request == UINT64_MAX) return 0;
    pthread_mutex_lock(&w->lock);
    struct receive *const r = &w->receive[request];
    struct letter *const l = letter_for(w, r);
    FUZZ_CHECK(r->open);
    *done = l != NULL;
    if (l) {
        FUZZ_CHECK(l->bytes <= r->bytes);
        memcpy(r->data, l->data, l->bytes);
        *bytes = l->bytes;
        l->taken = true;
        r->open = false;
        w->moved++;
    }
    pthread_mutex_unlock(&w->lock);
    return 0;
}

static int cancel_request(void *user, uint64_t request) {
    struct world *const w = ((const struct rank *)user)->world;
    if (request == UINT64_MAX) return 0;
    pthread_mutex_lock(&w->lock);
    w->receive[request].open = false;
    pthread_mutex_unlock(&w->lock);
    return 0;
}

/* Forgets what is over: all requests, and messages that nobody will ask for. */
static void clear_mail(struct world *w) {
    for (size_t i = 0; i < w->letters; i++) guard_free(w->letter[i].data, w->letter[i].sent);
    w->letters = w->receives = 0;
    memset(w->sent_by, 0, sizeof w->sent_by);
}

static void draw_damage(struct world *w, struct fuzz_source *s) {
    const uint8_t how = fuzz_u8(s);
    w->damage = (struct damage){.on = how & 1,
                                .seal = how & 2,
                                .fix = how & 4,
                                .lost = (how & 0x78) == 0x08,
                                .fails = (how & 0x78) == 0x10,
                                .from = fuzz_below(s, w->ranks),
                                .after = fuzz_below(s, 12)};
    if (how & 0x80) w->damage.keep = fuzz_below(s, 4096);
    w->damage.patches = fuzz_split(s, 12);
}

/* ---- Channels --------------------------------------------------------------------------------*/

static const struct {
    uint32_t kind;
    bool base;
    const char *spec;
} kinds[] = {
    {PITH_COLLECTIVE_REDUCE_SCATTER, false, "grad:bits=4,group=128"},
    {PITH_COLLECTIVE_REDUCE_SCATTER, false, "grad:codebook=trellis,bits=2,group=128,ef=full"},
    {PITH_COLLECTIVE_ALLREDUCE, false, "grad:bits=8,group=128,ef=full"},
    {PITH_COLLECTIVE_ALLREDUCE, false, "raw"},
    {PITH_COLLECTIVE_ALLGATHER, true, "wdiff:bits=4"},
    {PITH_COLLECTIVE_ALLGATHER, true, "lossless"},
    {PITH_COLLECTIVE_ALLGATHER, false, "eb:rel=0.001"},
    {PITH_COLLECTIVE_ALLTOALLV, false, "embed:rel=0.01,dim=16"},
    {PITH_COLLECTIVE_ALLTOALLV, false, "kv:bits=4"},
    {PITH_COLLECTIVE_SPARSE_GATHER, false, "topk:density=0.05,ef=full"},
    {PITH_COLLECTIVE_SPARSE_UNION, false, "topk:density=0.02,ef=full"},
    {PITH_COLLECTIVE_SPARSE_OKTOPK, false, "topk:density=0.05,ef=full"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct scene {
    struct world world;
    struct rank rank[RANKS_MAX];
    pith_collective_options options[RANKS_MAX];
    uint64_t counts[RANKS_MAX][RANKS_MAX]; /* all-to-all: from a rank to another */
    uint64_t got[RANKS_MAX][RANKS_MAX];
    uint32_t ranks, kind;
    uint64_t count;
    bool based, open; /* open: every rank has a channel that is as good as new */
    bool key;         /* the next call has to bring key frames */
};

/* Whether ranks wait as long as it takes, so that no message may be damaged while they make a
 * channel. Of others a busy machine may keep one too long. */
static bool is_patient(const struct scene *x) { return x->options[0].timeout == TIMEOUT; }

static void draw_scene(struct scene *x, struct fuzz_source *s) {
    const uint32_t which = fuzz_below(s, KINDS);
    x->ranks = x->world.ranks = 2 + fuzz_below(s, RANKS_MAX - 1);
    x->kind = kinds[which].kind;
    x->based = kinds[which].base;
    x->count = fuzz_u32(s) % COUNT_MAX;
    pith_collective_options o = {.size = sizeof o,
                                 .kind = x->kind,
                                 .dtype = PITH_F32,
                                 .base_dtype = x->based ? PITH_F32 : PITH_NONE,
                                 .count = x->count,
                                 .spec = kinds[which].spec,
                                 .ranks_per_node = fuzz_below(s, 4),
                                 .seed = 1,
                                 .slice = fuzz_below(s, 3) * 128,
                                 .timeout = fuzz_u8(s) & 7 ? TIMEOUT : 0.05};
    const bool sums = x->kind <= PITH_COLLECTIVE_ALLREDUCE;
    if (sums && fuzz_u8(s) & 1) o.inter = "grad:bits=4,group=128";
    if (x->kind < PITH_COLLECTIVE_SPARSE_GATHER && !x->based && fuzz_u8(s) & 1 &&
        x->kind != PITH_COLLECTIVE_ALLTOALLV)
        o.threshold = 300;
    for (uint32_t from = 0; from < x->ranks; from++)
        for (uint32_t to = 0; to < x->ranks; to++)
            x->counts[from][to] = x->got[to][from] = fuzz_u8(s) % 128 / 16 * 16;
    for (uint32_t r = 0; r < x->ranks; r++) {
        x->options[r] = o;
        if (x->kind == PITH_COLLECTIVE_ALLTOALLV) {
            x->options[r].count = 0;
            x->options[r].send_counts = x->counts[r];
            x->options[r].recv_counts = x->got[r];
        }
    }
}

static void *create_rank(void *argument) {
    struct rank *const r = argument;
    const pith_transport transport = {.size = sizeof transport,
                                      .user = r,
                                      .rank = r->number,
                                      .ranks = r->world->ranks,
                                      .isend = send_letter,
                                      .irecv = receive_letter,
                                      .test = test_request,
                                      .cancel = cancel_request};
    r->error = (pith_error){.size = sizeof r->error};
    r->status = pith_collective_create(&r->channel, &transport, r->options, &r->error);
    return NULL;
}

static bool same_status(const struct scene *x) {
    for (uint32_t r = 1; r < x->ranks; r++)
        if (x->rank[r].status != x->rank[0].status) return false;
    return true;
}

/* Whether a status that differs from that of others is one of those that end a channel. */
static bool explained(const struct scene *x, const struct damage *d) {
    if (d->struck && (d->vote || d->fails || d->lost)) return true;
    for (uint32_t r = 0; r < x->ranks; r++)
        if (x->rank[r].status == PITH_ERR_TIMEOUT || x->rank[r].status == PITH_ERR_BROKEN)
            return true;
    return false;
}

static void create(struct scene *x) {
    pthread_t thread[RANKS_MAX];
    for (uint32_t r = 0; r < x->ranks; r++) {
        x->rank[r].world = &x->world;
        x->rank[r].number = r;
        x->rank[r].options = &x->options[r];
        FUZZ_CHECK(!pthread_create(&thread[r], NULL, create_rank, &x->rank[r]));
    }
    for (uint32_t r = 0; r < x->ranks; r++) pthread_join(thread[r], NULL);
    for (uint32_t r = 0; r < x->ranks; r++) {
        const struct rank *const k = &x->rank[r];
        FUZZ_CHECK(fuzz_is_status(k->status) && !k->status == (k->channel != NULL));
        FUZZ_CHECK(fuzz_error_fits(&k->error, k->status));
    }
    x->open = same_status(x) && x->rank[0].status == PITH_OK;
    if (is_patient(x)) FUZZ_CHECK(same_status(x));
    clear_mail(&x->world);
}

/* ---- Calls -----------------------------------------------------------------------------------*/

static uint64_t total(const uint64_t *counts, uint32_t ranks) {
    uint64_t n = 0;
    for (uint32_t r = 0; r < ranks; r++) n += counts[r];
    return n;
}

static uint64_t in_count(const struct scene *x, uint32_t r) {
    return x->kind == PITH_COLLECTIVE_ALLTOALLV ? total(x->counts[r], x->ranks) : x->count;
}

static uint64_t out_count(const struct scene *x, uint32_t r) {
    uint64_t first, n = x->count;
    if (x->kind == PITH_COLLECTIVE_ALLTOALLV) return total(x->got[r], x->ranks);
    if (x->kind == PITH_COLLECTIVE_REDUCE_SCATTER)
        FUZZ_CHECK(pith_collective_shard(x->rank[r].channel, r, &first, &n) == PITH_OK);
    return n;
}

static bool finite(const float *values, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

/* What every rank has after a call without damage: the same, and finite numbers. What the numbers
 * should be is for tests that compute them (adapters/collective/tests/sim.c). */
static void check_outputs(const struct scene *x) {
    for (uint32_t r = 0; r < x->ranks; r++) FUZZ_CHECK(finite(x->rank[r].out, out_count(x, r)));
    if (x->kind == PITH_COLLECTIVE_REDUCE_SCATTER || x->kind == PITH_COLLECTIVE_ALLTOALLV) return;
    for (uint32_t r = 1; r < x->ranks; r++)
        FUZZ_CHECK(!x->count || !memcmp(x->rank[0].out, x->rank[r].out, x->count * sizeof(float)));
    for (uint32_t r = 1; x->based && r < x->ranks; r++)
        FUZZ_CHECK(pith_collective_base_hash(x->rank[0].channel) ==
                   pith_collective_base_hash(x->rank[r].channel));
}

static void call(struct scene *x, uint64_t step) {
    pith_collective_request *request[RANKS_MAX] = {0};
    pith_view in[RANKS_MAX], out[RANKS_MAX];
    bool busy = false;
    for (uint32_t r = 0; r < x->ranks; r++) {
        struct rank *const k = &x->rank[r];
        in[r] = pith_view_flat(k->in, PITH_F32, in_count(x, r));
        out[r] = pith_view_flat(k->out, PITH_F32, out_count(x, r));
        const pith_collective_call c = {.size = sizeof c,
                                        .inputs = &in[r],
                                        .outputs = &out[r],
                                        .input_count = 1,
                                        .output_count = 1,
                                        .flags = x->key ? PITH_KEY_FRAME : 0,
                                        .step = step};
        k->status = pith_collective_start(k->channel, &c, &request[r]);
        FUZZ_CHECK(k->status == PITH_OK && request[r]);
        busy = true;
    }
    while (busy) {
        const size_t moved = x->world.moved;
        busy = false;
        for (uint32_t r = 0; r < x->ranks; r++) {
            int done = 0;
            if (!request[r]) continue;
            x->rank[r].status = pith_collective_test(request[r], &done, NULL);
            if (done) request[r] = NULL;
            if (done) x->world.moved++;
            busy = busy || !done;
        }
        if (moved == x->world.moved) skipped += TIMEOUT / 1000.0;
    }
}

/* After a call: what its status promises. */
static void check_call(struct scene *x) {
    const struct damage *const d = &x->world.damage;
    const pith_status status = x->rank[0].status;
    for (uint32_t r = 0; r < x->ranks; r++) FUZZ_CHECK(fuzz_is_status(x->rank[r].status));
    FUZZ_CHECK(same_status(x) || explained(x, d));
    if (!d->struck) {
        FUZZ_CHECK(same_status(x) && status == PITH_OK);
        check_outputs(x);
    }
    x->key = x->based && status != PITH_OK;
    x->open = same_status(x) && status != PITH_ERR_TIMEOUT && status != PITH_ERR_TRANSPORT &&
              status != PITH_ERR_BROKEN;
}

/* ---- Saved channels --------------------------------------------------------------------------*/

static void load(struct rank *k, struct fuzz_source *s) {
    const size_t whole = (size_t)pith_collective_save_bytes(k->channel);
    uint8_t *const saved = guard_new(whole);
    size_t written = 0;
    const pith_status kept = pith_collective_save(k->channel, saved, whole, &written);
    FUZZ_CHECK(kept == PITH_ERR_STATE || (kept == PITH_OK && written == whole));
    if (kept) memset(saved, 0, whole);
    const uint8_t how = fuzz_u8(s);
    if (how & 1) fuzz_patch(saved, whole, s);
    const size_t length = how & 2 ? fuzz_u32(s) % (whole + 1) : whole;
    uint8_t *const copy = guard_copy(saved, length);
    const pith_status status = pith_collective_load(k->channel, copy, length);
    FUZZ_CHECK(fuzz_is_status(status));
    if (!kept && !(how & 3)) FUZZ_CHECK(status == PITH_OK);
    guard_free(copy, length);
    guard_free(saved, whole);
}

/* ---- An input --------------------------------------------------------------------------------*/

static float value_of(const uint8_t *bytes, size_t length, uint64_t i) {
    return length ? ((float)bytes[i % length] - 100) * (1 + (float)(i % 7)) / 64 : (float)(i % 5);
}

static void make_values(struct scene *x, const struct fuzz_source *s) {
    for (uint32_t r = 0; r < x->ranks; r++) {
        struct rank *const k = &x->rank[r];
        k->in = guard_new((size_t)in_count(x, r) * sizeof(float));
        k->out = guard_new((size_t)out_count(x, r) * sizeof(float));
        for (uint64_t i = 0; i < in_count(x, r); i++)
            k->in[i] = value_of(s->bytes, s->length, i + 3 * r);
    }
}

static void run(struct scene *x, struct fuzz_source *s, const struct fuzz_source *values) {
    uint64_t step = 0;
    make_values(x, values);
    for (int i = 0; i < CALLS && x->open; i++) {
        draw_damage(&x->world, s);
        call(x, step);
        check_call(x);
        clear_mail(&x->world);
        step += x->rank[0].status == PITH_OK;
    }
    for (uint32_t r = 0; r < x->ranks; r++) {
        load(&x->rank[r], s);
        guard_free(x->rank[r].in, (size_t)in_count(x, r) * sizeof(float));
        guard_free(x->rank[r].out, (size_t)out_count(x, r) * sizeof(float));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source values = {data, size}, s = fuzz_split(&values, PARAMETER_BYTES);
    struct scene *const x = calloc(1, sizeof *x);
    FUZZ_CHECK(x);
    pthread_mutex_init(&x->world.lock, NULL);
    draw_scene(x, &s);
    draw_damage(&x->world, &s);
    if (is_patient(x)) x->world.damage.on = false;
    create(x);
    if (x->open && is_patient(x)) run(x, &s, &values);
    for (uint32_t r = 0; r < x->ranks; r++) pith_collective_destroy(x->rank[r].channel);
    clear_mail(&x->world);
    pthread_mutex_destroy(&x->world.lock);
    free(x);
    return 0;
}
