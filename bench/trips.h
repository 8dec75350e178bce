/* trips.h - tensors through a codec with a bound and back: bytes, times, and what came back.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_BENCH_TRIPS_H
#define PITH_BENCH_TRIPS_H

#include <stddef.h>

#include "weights.h"

/* What decoding may change, taken in double precision from the values alone. */
struct trip_errors {
    double bound;    /* rel times the range of the finite values; without rel what the frame says */
    double largest;  /* error of a finite value, over the bound */
    double mean;     /* squared error over squared range, of finite values */
    double nmse;     /* sum of squared errors over that of squared values */
    double relative; /* largest error over its value */
    size_t beyond;   /* finite values further off than the bound, others whose bits changed */
};

/* Codec and keys without a bound, such as "eb:mode=fast", and the bound, such as "0.001"; or with
 * what is requested, and NULL. */
struct trip_spec {
    const char *codec, *rel;
};

/* Once. Returns 0 on success, and only if the frame states no larger bound. */
struct trip {
    size_t bytes;
    struct trip_errors errors;
};
int trip_once(const struct weights *w, const struct trip_spec *spec, struct trip *out);

/* Again and again, one thread, each time on another copy, and checked each time: medians in
 * seconds beside those of a read-only sum and of the better fill of as many bytes. */
struct trip_times {
    double encode, decode, read, fill;
};
int trip_measure(const struct weights *w, const struct trip_spec *spec, int runs, struct trip *out,
                 struct trip_times *times);

/* Bytes that a coder of the rounded values x / (2 bound), one by one, cannot go below. */
double trip_entropy(const struct weights *w, const char *rel);

#endif
