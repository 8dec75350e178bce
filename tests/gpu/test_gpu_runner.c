/* test_gpu_runner.c - the host runner notices what it is there for: phases that race, vectors that
 * are not aligned, memory beyond the team's; and counts launches.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../../gpu/runner.c"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gen.h"
#include "rig.h"

/* ---- Bodies that are wrong -------------------------------------------------------------------*/

PITHI_PHASE(put, uint64_t number) {
    (void)a, (void)number;
    s->group.largest[t->tid] = t->tid;
}
/* Reads what another thread of the same phase writes. */
PITHI_PHASE(shift, uint64_t number) {
    (void)a, (void)number;
    s->group.largest[t->tid] = s->group.largest[(t->tid + 1) % PITHI_TEAM] + 1;
}
PITHI_PHASE(fetch, uint64_t number) {
    (void)a, (void)number;
    t->group.largest[0] = s->group.largest[(t->tid + 1) % PITHI_TEAM] + 1;
}
PITHI_PHASE(store, uint64_t number) {
    (void)a, (void)number;
    s->group.largest[t->tid] = t->group.largest[0];
}
PITHI_PHASE(publish, uint64_t number) {
    (void)number;
    a->to.items.lengths[t->tid] = s->group.largest[t->tid];
}

PITHI_BODY(racy) {
    PITHI_RUN(put, number);
    PITHI_RUN(shift, number);
    PITHI_RUN(publish, number);
}

/* Reads memory of the team that nobody wrote. */
PITHI_BODY(forgetful) { PITHI_RUN(publish, number); }

static void outcome(pithi_runner_body *fn, int order, uint64_t seed, uint64_t out[PITHI_TEAM]) {
    pithi_runner_body *const volatile body = fn; /* a compiler that knew it would inline it */
    struct pithi_gpu_call call;
    memset(&call, 0, sizeof call);
    call.to.items.lengths = out;
    pithi_runner_order(order, seed);
    run_teams(body, &call, 1);
}

#ifndef PITHI_WATCHES
PITHI_BODY(sound) {
    PITHI_RUN(put, number);
    PITHI_RUN(fetch, number);
    PITHI_RUN(store, number);
    PITHI_RUN(publish, number);
}

static bool differs(pithi_runner_body *fn, int order, uint64_t seed) {
    uint64_t forward[PITHI_TEAM], other[PITHI_TEAM];
    outcome(fn, PITHI_ORDER_FORWARD, 1, forward);
    outcome(fn, order, seed, other);
    return memcmp(forward, other, sizeof other) != 0;
}

static void test_races(void **state) {
    (void)state;
    context("a race");
    CHECK(differs(racy, PITHI_ORDER_REVERSE, 1));
    CHECK(differs(racy, PITHI_ORDER_SHUFFLED, 1));
    CHECK(differs(racy, PITHI_ORDER_SHUFFLED, 2));
    CHECK(!differs(sound, PITHI_ORDER_REVERSE, 1));
    CHECK(!differs(sound, PITHI_ORDER_SHUFFLED, 1));
}
#endif

static void test_poison(void **state) {
    (void)state;
    uint64_t out[PITHI_TEAM];
    context("memory of the team that nobody wrote");
    outcome(forgetful, PITHI_ORDER_FORWARD, 1, out);
    for (int i = 0; i < PITHI_TEAM; i++) CHECK(out[i] == 0xA5A5A5A5u);
}

/* ---- What ends the program -------------------------------------------------------------------*/

typedef void deed(void);

/* Whether it ends a child process. */
static bool is_fatal(deed *fn) {
    int status = 0;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        signal(SIGABRT, SIG_DFL);
        fn();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static _Alignas(16) uint8_t bytes[64];

static void quad_at_8(void) { pithi_put_quad(bytes, pithi_get_quad(bytes + 8)); }
static void quad_to_4(void) { pithi_put_quad(bytes + 4, pithi_get_quad(bytes)); }
static void word64_at_4(void) { pithi_put_aligned64(bytes, pithi_get_aligned64(bytes + 4)); }
static void word32_to_2(void) { pithi_put_aligned32(bytes + 2, 1); }
static void aligned(void) {
    pithi_put_quad(bytes + 16, pithi_get_quad(bytes));
    pithi_put_aligned64(bytes + 40, pithi_get_aligned64(bytes + 8));
    pithi_put_aligned32(bytes + 4, pithi_get_aligned32(bytes + 12));
}

static void test_alignment(void **state) {
    (void)state;
    context("vectors that are not aligned");
    CHECK(is_fatal(quad_at_8) && is_fatal(quad_to_4));
    CHECK(is_fatal(word64_at_4) && is_fatal(word32_to_2));
    CHECK(!is_fatal(aligned));
}

static void before_memory(void) {
    uint8_t *const p = device_alloc_at(10, 3);
    p[-1] = 0;
    device_free(p);
}
static void in_memory(void) {
    uint8_t *const p = device_alloc_at(10, 3);
    p[0] = p[9] = 0;
    device_free(p);
}

static void test_guards(void **state) {
    (void)state;
    context("guards");
    CHECK(is_fatal(before_memory));
    CHECK(!is_fatal(in_memory));
}

#if defined(__SANITIZE_ADDRESS__)
PITHI_PHASE(overrun, uint64_t number) {
    (void)a, (void)number;
    *((uint8_t *)s + sizeof *s + t->tid) = 0;
}
PITHI_BODY(beyond) { PITHI_RUN(overrun, number); }
static void run_beyond(void) {
    struct pithi_gpu_call call;
    memset(&call, 0, sizeof call);
    run_teams(beyond, &call, 1);
}
static void past_memory(void) { ((volatile uint8_t *)device_alloc(10))[10] = 0; }
static void test_overruns(void **state) {
    (void)state;
    context("overruns under a sanitizer");
    CHECK(is_fatal(run_beyond));
    CHECK(is_fatal(past_memory));
}
#endif

#ifdef PITHI_WATCHES
/* Reads what another thread of the warp wrote: behind a barrier, none, or one of the warp. */
PITHI_PHASE(fetch_near, uint64_t number) {
    (void)a, (void)number;
    t->group.largest[0] = s->group.largest[t->tid ^ 1];
}
PITHI_BODY(single) {
    PITHI_RUN(put, number);
    PITHI_RUN(fetch, number);
    PITHI_RUN(store, number);
}
PITHI_BODY(hasty) {
    PITHI_STEP(put, number);
    PITHI_STEP(fetch_near, number);
}
PITHI_BODY(in_step) {
    PITHI_STEP(put, number);
    PITHI_WARP_SYNC();
    PITHI_STEP(fetch_near, number);
}
/* Two teams write the same; or one hands over to the other. */
PITHI_PHASE(put_outside, uint64_t number) {
    (void)s;
    a->to.items.lengths[(t->tid + number) % PITHI_TEAM] = number;
}
PITHI_BODY(crowded) { PITHI_RUN(put_outside, number); }
PITHI_PHASE(hand_over, uint64_t number) {
    (void)s;
    if (t->tid) return;
    pithi_fence();
    const bool last = pithi_atomic_add32((uint32_t *)(void *)a->to.items.slots, 1) == 1;
    pithi_fence();
    if (last) a->to.items.lengths[number] = a->to.items.lengths[!number];
}
PITHI_PHASE(put_own, uint64_t number) {
    (void)s;
    if (t->tid == 0) a->to.items.lengths[number] = number;
}
PITHI_BODY(orderly) {
    PITHI_RUN(put_own, number);
    PITHI_RUN(hand_over, number);
}

static void run_twice(pithi_runner_body *fn) {
    pithi_runner_body *const volatile body = fn;
    static uint64_t out[PITHI_TEAM], arrived; /* the stack is every thread's own */
    struct pithi_gpu_call call;
    memset(&call, 0, sizeof call);
    call.to.items.lengths = out;
    call.to.items.slots = &arrived;
    pithi_runner_order(PITHI_ORDER_SHUFFLED, 1);
    run_teams(body, &call, 2);
}
static void run_racy(void) { run_twice(racy); }
static void run_sound(void) { run_twice(single); }
static void run_hasty(void) { run_twice(hasty); }
static void run_in_step(void) { run_twice(in_step); }
static void run_crowded(void) { run_twice(crowded); }
static void run_orderly(void) { run_twice(orderly); }
static void test_watched(void **state) {
    (void)state;
    context("races of a warp, and of teams, under a sanitizer");
    CHECK(is_fatal(run_racy) && !is_fatal(run_sound));
    CHECK(is_fatal(run_hasty) && !is_fatal(run_in_step));
    CHECK(is_fatal(run_crowded) && !is_fatal(run_orderly));
}
#endif

/* ---- Launches --------------------------------------------------------------------------------*/

static uint64_t launches_since(uint64_t *before) {
    const uint64_t since = pithi_runner_launches() - *before;
    *before = pithi_runner_launches();
    return since;
}

/* One launch a call where frames have no checksums, however many items. */
static void test_launches(void **state) {
    (void)state;
    struct rig r, out;
    struct job j, made;
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 50000);
    layout.slots = 4;
    context("launches");
    CHECK(rig_open(&r, "grad", &layout) && rig_open(&out, "grad:ef=full", &layout));
    job_open(&j, &r, 4, 4, PITH_F32, 0);
    job_open(&made, &out, 4, 4, PITH_F32, 0);
    gen_fill(GEN_NOISE, 1, PITH_F32, j.tensor.host, r.count);
    job_push(&j);
    uint64_t before = pithi_runner_launches();
    CHECK_OK(pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    CHECK(launches_since(&before) == 1);
    CHECK_OK(pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    CHECK(launches_since(&before) == 1);
    CHECK_OK(pith_cuda_decode(r.plan, r.stream, &j.items, PITH_ADD, device_stream(), NULL));
    CHECK(launches_since(&before) == 1);
    CHECK_OK(pith_cuda_reduce(r.plan, r.stream, &j.items, 1, 1, device_stream(), NULL));
    CHECK(launches_since(&before) == 1);
    CHECK_OK(pith_cuda_reduce_encode(r.plan, r.stream, &j.items, 1, 1, out.plan, out.stream,
                                     &made.items, device_stream(), NULL));
    CHECK(launches_since(&before) == 1);
    job_close(&made);
    job_close(&j);
    rig_close(&out);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#ifdef PITHI_WATCHES
        cmocka_unit_test(test_watched),
#else
        cmocka_unit_test(test_races),
#endif
        cmocka_unit_test(test_poison),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_guards),
#if defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(test_overruns),
#endif
        cmocka_unit_test(test_launches),
    };
    return cmocka_run_group_tests_name("gpu_runner", tests, NULL, NULL);
}
