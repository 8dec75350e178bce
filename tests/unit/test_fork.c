/* test_fork.c SCENE - a child of a process whose OpenMP runtime has threads never waits for them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One process a scene: what a parent has not used yet cannot be found out twice. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gen.h"
#include "util.h"

enum { N = 200000, SECONDS = 30, SKIPPED = 77 };
static const char spec[] = "wdiff:group=64,block=1024";

static float value[N];

#ifdef _OPENMP
static void open_with(struct stream *s, uint32_t threads,
                      int (*run)(void *, void (*)(void *, size_t), void *, size_t)) {
    const pith_env env = {.size = sizeof env, .threads = threads, .run = run};
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    stream_open(s, spec, &layout, &env);
}

static struct frame encode(struct stream *s) {
    const pith_view v = pith_view_flat(value, PITH_F32, N);
    return stream_encode(s, &v, 0, false);
}

/* With this work the same bytes as with one thread. */
static void check_stream(struct stream *s) {
    struct stream serial;
    open_with(&serial, 1, NULL);
    struct frame a = encode(&serial), b = encode(s);
    CHECK(a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0);
    free(a.bytes);
    free(b.bytes);
    stream_close(&serial);
}

static void check_new_stream(void) {
    struct stream s;
    open_with(&s, 2, NULL);
    check_stream(&s);
    stream_close(&s);
}

/* A region of the caller's own. */
static void use_openmp(void) {
    double sum = 0;
#pragma omp parallel for num_threads(2) reduction(+ : sum)
    for (int i = 0; i < N; i++) sum += (double)value[i];
    CHECK(sum == sum);
}

static int jobs;
static int count_jobs(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    jobs += (int)count;
    return run_backwards(user, job, arg, count);
}

/* ---- What children do ------------------------------------------------------------------------*/

static struct stream inherited;
static void use_inherited(void) { check_stream(&inherited); }

static void use_runner(void) {
    struct stream s;
    open_with(&s, 2, count_jobs);
    check_stream(&s);
    CHECK(jobs == 2);
    stream_close(&s);
}

static void in_child(void (*act)(void));
static void have_children(void) {
    check_new_stream();
    in_child(check_new_stream);
}

/* Acts in a child, which must end well, and soon. */
static void in_child(void (*act)(void)) {
    const struct timespec pause = {0, 10000000};
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        act();
        _exit(0);
    }
    int status = -1;
    pid_t ended = 0;
    for (int i = 0; i < SECONDS * 100 && ended == 0; i++) {
        ended = waitpid(child, &status, WNOHANG);
        if (ended == 0) nanosleep(&pause, NULL);
    }
    if (ended != child) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        check_failed("the child hangs", __FILE__, __LINE__);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- Scenes ----------------------------------------------------------------------------------*/

static void work_before(void) {
    open_with(&inherited, 2, NULL);
    check_stream(&inherited);
    in_child(use_inherited);
    check_stream(&inherited); /* the parent goes on as before */
    stream_close(&inherited);
}

static void work_after(void) {
    check_new_stream();
    in_child(check_new_stream);
}

static void own_openmp(void) {
    use_openmp();
    in_child(check_new_stream);
}

static void grandchild(void) {
    use_openmp();
    in_child(have_children);
}

static void runner(void) {
    use_openmp();
    in_child(use_runner);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*play)(void);
    } scenes[] = {{"work_before", work_before},
                  {"work_after", work_after},
                  {"own_openmp", own_openmp},
                  {"grandchild", grandchild},
                  {"runner", runner}};
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof scenes[0]; i++) {
        if (strcmp(argv[1], scenes[i].name) != 0) continue;
        context("%s", argv[1]);
        scenes[i].play();
        return 0;
    }
    fprintf(stderr, "usage: test_fork SCENE\n");
    return 2;
}
#else
int main(void) {
    puts("skipped: a build without OpenMP starts no threads");
    return SKIPPED;
}
#endif
