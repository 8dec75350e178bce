/* runner.c - runs the kernels' phases on the host, thread by thread, team by team.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that is right on a device gives the same bytes here in every order of threads and teams.
 * The team's memory is allocated to its exact size, so that a sanitizer sees the first byte beyond,
 * and filled with garbage before every team; the threads' registers are before the first team of a
 * launch, and later teams find what earlier ones left. Under ThreadSanitizer every thread of a team
 * is one of its own. */
#include "runner.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "device/team.h"

static int the_order = PITHI_ORDER_FORWARD;
static uint64_t the_seed, the_launches;

void pithi_runner_order(int order, uint64_t seed) {
    the_order = order;
    the_seed = seed;
}

uint64_t pithi_runner_launches(void) { return the_launches; }

bool pithi_runner_watches(void) {
#ifdef PITHI_WATCHES
    return true;
#else
    return false;
#endif
}

void pithi_team_aligned(const void *p, size_t bytes) {
    if ((uintptr_t)p % bytes == 0) return;
    fprintf(stderr, "runner: a vector access to %p is not aligned to %zu bytes\n", p, bytes);
    abort();
}

/* ---- Orders ----------------------------------------------------------------------------------*/

static uint64_t next_random(uint64_t *seed) {
    *seed += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t x = *seed;
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* A number of 64 bits is enough for four places: there are at most PITHI_TEAM of them. */
static void shuffle(uint32_t *order, uint32_t threads, uint64_t *seed) {
    uint64_t random = 0;
    for (uint32_t i = threads - 1; i; i--) {
        if (i % 4 == 3 || i == threads - 1) random = next_random(seed);
        const uint32_t k = (uint32_t)(random & 0xFFFF) * (i + 1) >> 16, held = order[i];
        random >>= 16;
        order[i] = order[k];
        order[k] = held;
    }
}

void pithi_team_switch(struct pithi_team *team) {
    if (team->mode >= PITHI_ORDER_SHUFFLED) shuffle(team->order, team->threads, &team->seed);
}

static void start_team(struct pithi_team *team, uint32_t first, uint32_t threads,
                       struct pithi_meeting *meeting) {
    *team = (struct pithi_team){.first = first, .threads = threads, .meeting = meeting};
    team->mode = the_order;
    team->seed = the_seed + first;
    for (uint32_t i = 0; i < threads; i++)
        team->order[i] = first + (the_order == PITHI_ORDER_REVERSE ? threads - 1 - i : i);
    pithi_team_switch(team);
}

/* Returns the number of the i-th team that runs: any permutation will do. */
static uint64_t team_number(uint64_t i, uint64_t teams) {
    if (the_order == PITHI_ORDER_FORWARD) return i;
    if (the_order == PITHI_ORDER_REVERSE) return teams - 1 - i;
    return (i + the_seed % teams) % teams;
}

/* ---- Warps at once ---------------------------------------------------------------------------*/

enum { WARPS = PITHI_TEAM / PITHI_WARP };

/* Where the warps of a team meet: how many wait, behind which phase, and how often all have met. */
struct pithi_meeting {
    pthread_mutex_t lock;
    pthread_cond_t all;
    uint32_t waiting, ended;
    uint64_t met;
    const char *phase;
};

/* Sets of threads, of which teams take turns. */
#ifdef PITHI_WATCHES
enum { WATCHES = 2 };
#else
enum { WATCHES = 1 };
#endif

#ifdef PITHI_WATCHES
/* ---- Threads under ThreadSanitizer -----------------------------------------------------------*/

/* One thread of the host runs all, but tells ThreadSanitizer for which thread of a team it does so
 * (a fiber), and what orders them: barriers all of a team, PITHI_WARP_SYNC those of a warp, fences
 * those who come to one later. So it reports what two threads access without that, in one warp as
 * in several, but warps take turns with two sets of fibers; and in several teams, which do so too.
 * An exchange of registers orders nothing. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes); /* beyond POSIX */
void *__tsan_create_fiber(unsigned flags);
void *__tsan_get_current_fiber(void);
void __tsan_set_fiber_name(void *fiber, const char *name);
void __tsan_acquire(void *p);
void __tsan_release(void *p);
void AnnotateBenignRaceSized(const char *file, int line, const void *p, size_t bytes,
                             const char *what);
/* Its own calls and memory are no thread's. */
#define UNSEEN __attribute__((noinline, no_sanitize_thread))

static struct pithi_watch the_watches[WATCHES];
static char the_fence, the_launch;

UNSEEN static void watch_each(struct pithi_watch *w, void (*fn)(void *), void *at) {
    void *const back = __tsan_get_current_fiber();
    for (uint32_t i = 0; i <= PITHI_WATCHED; i++) {
        __tsan_switch_to_fiber(w->as[i], 1);
        fn(at);
    }
    __tsan_switch_to_fiber(back, 1);
}

UNSEEN static void watch_open(void) {
    static bool opened;
    if (opened) return;
    opened = true;
    for (uint32_t k = 0; k < WATCHES; k++) {
        for (uint32_t i = 0; i <= PITHI_WATCHED; i++) {
            char name[64];
            the_watches[k].as[i] = __tsan_create_fiber(0);
            snprintf(name, sizeof name,
                     i < PITHI_WATCHED ? "thread %u of team %u" : "body %u of team %u", i, k);
            __tsan_set_fiber_name(the_watches[k].as[i], name);
        }
    }
    /* Fibers share the stack, which is each one's own. */
    pthread_attr_t attributes;
    void *stack;
    size_t bytes;
    if (pthread_getattr_np(pthread_self(), &attributes) ||
        pthread_attr_getstack(&attributes, &stack, &bytes))
        abort();
    pthread_attr_destroy(&attributes);
    AnnotateBenignRaceSized(__FILE__, __LINE__, stack, bytes, "registers");
}

UNSEEN static void watch_team(struct pithi_watch *w) {
    watch_each(w, __tsan_release, &w->team);
    watch_each(w, __tsan_acquire, &w->team);
}
UNSEEN void pithi_watch_warps(struct pithi_watch *w) {
    void *const back = __tsan_get_current_fiber();
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < PITHI_WATCHED; i++) {
            __tsan_switch_to_fiber(w->as[i], 1);
            (k ? __tsan_acquire : __tsan_release)(&w->warp[i / PITHI_WARP]);
        }
    }
    __tsan_switch_to_fiber(back, 1);
}
UNSEEN void pithi_watch_fence(void) {
    __tsan_release(&the_fence);
    __tsan_acquire(&the_fence);
}

UNSEEN static void watch_launch(void) {
    watch_open();
    __tsan_release(&the_launch);
    for (uint32_t k = 0; k < WATCHES; k++) watch_each(&the_watches[k], __tsan_acquire, &the_launch);
}
UNSEEN static void watch_landing(void) {
    for (uint32_t k = 0; k < WATCHES; k++) watch_each(&the_watches[k], __tsan_release, &the_launch);
    __tsan_acquire(&the_launch);
}

UNSEEN static void watched_team(pithi_runner_body *fn, const struct pithi_gpu_call *call,
                                struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                uint64_t number, struct pithi_team *team) {
    void *const back = __tsan_get_current_fiber();
    watch_team(team->watch);
    __tsan_switch_to_fiber(team->watch->as[PITHI_WATCH_BODY], 1);
    fn(call, s, t, team, number);
    __tsan_switch_to_fiber(back, 1);
    watch_team(team->watch);
}
#endif

static void apart(const char *one, const char *other) {
    fprintf(stderr, "runner: warps of a team come to different barriers: %s, %s\n", one, other);
    abort();
}

void pithi_team_meet(struct pithi_team *team, const char *phase) {
    struct pithi_meeting *const m = team->meeting;
#ifdef PITHI_WATCHES
    if (team->watch) watch_team(team->watch);
#endif
    if (!m) return;
    pthread_mutex_lock(&m->lock);
    if (m->ended) apart(phase, "the end");
    if (m->waiting && strcmp(m->phase, phase) != 0) apart(phase, m->phase);
    m->phase = phase;
    if (++m->waiting == WARPS) {
        m->waiting = 0;
        m->met++;
        pthread_cond_broadcast(&m->all);
    } else {
        for (const uint64_t met = m->met; m->met == met;) pthread_cond_wait(&m->all, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
}

/* What a warp runs. */
struct warp {
    pithi_runner_body *fn;
    const struct pithi_gpu_call *call;
    struct pithi_gpu_shared *s;
    struct pithi_gpu_thread *t;
    uint64_t number;
    struct pithi_team team;
    pthread_t thread;
};

static void *run_warp(void *warp) {
    struct warp *const w = warp;
    struct pithi_meeting *const m = w->team.meeting;
    w->fn(w->call, w->s, w->t, &w->team, w->number);
    pthread_mutex_lock(&m->lock);
    if (m->waiting) apart("the end", m->phase);
    m->ended++;
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static void run_warps(pithi_runner_body *fn, const struct pithi_gpu_call *call,
                      struct pithi_gpu_shared *s, struct pithi_gpu_thread *t, uint64_t number) {
    struct warp warp[WARPS];
    struct pithi_meeting meeting = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                    .all = PTHREAD_COND_INITIALIZER};
    for (uint32_t i = 0; i < WARPS; i++) {
        warp[i] = (struct warp){.fn = fn, .call = call, .s = s, .t = t, .number = number};
        start_team(&warp[i].team, i * PITHI_WARP, PITHI_WARP, &meeting);
        if (pthread_create(&warp[i].thread, NULL, run_warp, &warp[i])) abort();
    }
    for (uint32_t i = 0; i < WARPS; i++) pthread_join(warp[i].thread, NULL);
}

/* ---- Launch ----------------------------------------------------------------------------------*/

/* Not inlined: kernels use the beginning of a team's memory, which ends before the struct does. A
 * compiler that sees both would warn. */
static __attribute__((noinline)) struct pithi_gpu_shared *team_memory(size_t bytes) {
    void *const s = malloc(bytes);
    if (!s) abort();
    return s;
}

/* watch: NULL where nothing looks for races of threads. */
static void run_team(pithi_runner_body *fn, const struct pithi_gpu_call *call,
                     struct pithi_gpu_shared *s, struct pithi_gpu_thread *t, uint64_t number,
                     struct pithi_watch *watch) {
    struct pithi_team team;
    PITHI_UNWATCHED(memset(s, 0xA5, pithi_shared_bytes(call)));
    if (the_order == PITHI_ORDER_AT_ONCE) {
        run_warps(fn, call, s, t, number);
        return;
    }
    start_team(&team, 0, PITHI_TEAM, NULL);
    team.watch = watch;
#ifdef PITHI_WATCHES
    if (watch) {
        watched_team(fn, call, s, t, number, &team);
        return;
    }
#endif
    fn(call, s, t, &team, number);
}

static void run_teams(pithi_runner_body *fn, const struct pithi_gpu_call *call, uint64_t teams) {
    /* Threads take one size in all launches: sanitizers would map these bytes anew for every
     * one. */
    static struct pithi_gpu_thread t[WATCHES][PITHI_TEAM];
    struct pithi_gpu_shared *s[WATCHES];
    struct pithi_watch *watch[WATCHES] = {NULL};
    PITHI_UNWATCHED(memset(t, 0xA5, sizeof t));
    for (uint32_t k = 0; k < WATCHES; k++) {
        s[k] = team_memory(pithi_shared_bytes(call));
        for (uint32_t i = 0; i < PITHI_TEAM; i++) {
            t[k][i].tid = i;
            t[k][i].special = the_launches % 2; /* kernels have both texts, general and special */
        }
    }
#ifdef PITHI_WATCHES
    const bool watched = the_order != PITHI_ORDER_AT_ONCE;
    for (uint32_t k = 0; k < WATCHES && watched; k++) watch[k] = &the_watches[k];
    if (watched) watch_launch();
#endif
    for (uint64_t i = 0; i < teams; i++) {
        const uint64_t k = i % WATCHES;
        run_team(fn, call, s[k], t[k], team_number(i, teams), watch[k]);
    }
#ifdef PITHI_WATCHES
    if (watched) watch_landing();
#endif
    for (uint32_t k = 0; k < WATCHES; k++) free(s[k]);
}

int pithi_gpu_launch(int device, enum pithi_gpu_kernel kernel, const struct pithi_gpu_call *call,
                     uint64_t teams, void *cuda_stream) {
    (void)device, (void)cuda_stream;
    the_launches++;
    run_teams(pithi_runner_bodies[kernel], call, teams);
    return 0;
}

int pithi_gpu_open(int device, uint32_t *processors) {
    *processors = 4;
    return device == 0 ? 0 : 101; /* 101: there is no such device */
}

int pithi_gpu_copy(int device, void *to, const void *from, size_t bytes, void *cuda_stream) {
    (void)device, (void)cuda_stream;
    memcpy(to, from, bytes);
    return 0;
}

int pithi_gpu_clear(int device, void *p, size_t bytes, void *cuda_stream) {
    (void)device, (void)cuda_stream;
    memset(p, 0, bytes);
    return 0;
}

const char *pithi_gpu_error_string(int error) {
    return error == 101 ? "no such device" : "failure";
}
int pithi_gpu_too_old(int error) { return error == 209; }
