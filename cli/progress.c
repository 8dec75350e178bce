/* progress.c - a bar on stderr, redrawn at most ten times a second.
 * SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 40 };

/* There is one bar, since one command runs per process. */
static struct {
    bool on, drawn;
    uint64_t total, done;
    double begun, redrawn;
} bar;

double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_begin(bool quiet, uint64_t total) {
    bar.on = !quiet && total > 0 && isatty(STDERR_FILENO);
    bar.total = total;
    bar.done = 0;
    bar.begun = bar.redrawn = clock_seconds();
}

static void draw(void) {
    const double share = (double)bar.done / (double)bar.total;
    const int filled = (int)(share * BAR_WIDTH);
    fprintf(stderr, "\r[%.*s%*s] %3d%% ", filled, "########################################",
            BAR_WIDTH - filled, "", (int)(share * 100));
    fflush(stderr);
    bar.drawn = true;
}

void progress_advance(uint64_t bytes) {
    if (!bar.on) return;
    const uint64_t left = bar.total - bar.done;
    const double now = clock_seconds();
    bar.done += bytes < left ? bytes : left;
    if (now - bar.begun < 0.5 || now - bar.redrawn < 0.1) return;
    bar.redrawn = now;
    draw();
}

void progress_clear(void) {
    if (!bar.drawn) return;
    fprintf(stderr, "\r%*s\r", BAR_WIDTH + 9, "");
    bar.drawn = false;
}
