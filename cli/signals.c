/* signals.c - remove the unfinished output, then end as the signal would have.
 * SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* These signals are what people, schedulers, resource limits and readers that have seen enough end
 * a program with. */
static const int ending[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGALRM,
                             SIGXCPU, SIGUSR1, SIGUSR2, SIGPIPE};
enum { ENDING = sizeof ending / sizeof *ending };

static char guarded[PATH_MAX];

/* The thread that blocks signals while files come into being. */
static pthread_t first;

/* Signals that the first thread blocks come to threads of OpenMP, which know nothing of a file that
 * has a name and is not guarded yet: they wait for the first thread. */
static void end(int number) {
    if (!pthread_equal(pthread_self(), first)) {
        pthread_kill(first, number);
        return;
    }
    if (guarded[0]) unlink(guarded);
    signal(number, SIG_DFL);
    raise(number);
}

/* Handles SIGBUS: a mapped file has shrunk, or a disk has filled under a mapping. */
static void lost_page(int number) {
    static const char text[] = "pith: a mapped file became shorter, or the disk is full\n";
    (void)number;
    if (guarded[0]) unlink(guarded);
    const ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(n < 0 ? EXIT_FAILURE : EXIT_FAILED);
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler}, old;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < ENDING; i++) sigaddset(&action.sa_mask, ending[i]);
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

/* Removes the output when OpenMP ends the program, as it does when it cannot make its threads. */
static void leave(void) {
    if (guarded[0]) unlink(guarded);
}

void signals_begin(void) {
    atexit(leave);
    first = pthread_self();
    for (int i = 0; i < ENDING; i++) handle(ending[i], end);
    handle(SIGBUS, lost_page);
    signal(SIGXFSZ, SIG_IGN);
}

void signals_block(bool block) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < ENDING; i++) sigaddset(&set, ending[i]);
    sigprocmask(block ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

void signals_guard(const char *path) {
    guarded[0] = '\0';
    if (path && strlen(path) < sizeof guarded) strcpy(guarded, path);
}
