/* device_sets.h - what device kernels know of a codec that sends sets of elements.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_SPARSE_DEVICE_SETS_H
#define PITHI_SPARSE_DEVICE_SETS_H

#include <stdbool.h>
#include <stdint.h>

/* The part of struct pithi_device that kinds of sets have. */
struct pithi_sets {
    uint32_t values;  /* dtype; PITH_I8: groups of the setting; PITH_NONE: the elements are 1 */
    uint32_t control; /* enum pithi_control_kind */
    uint32_t every;   /* steps from one exact threshold to the next */
    bool elias_fano;  /* sets may be coded in this form */
    bool patched;     /* and in this one */
    bool clears;      /* an encode takes what it sends out of the residual */
    bool rows;        /* elements are chosen of every row by itself */
    uint32_t unit;    /* sent are all elements of a unit that has one to send; 0: that one */
    /* Elements are coefficients of runs: of 64 by cosines, of 32 by Walsh-Hadamard; 1: values. */
    uint32_t run;
    float momentum;       /* what is kept of it from step to step; 0: there is none */
    uint64_t most_chosen; /* the largest hard limit of a slot */
};

/* The part of struct pithi_device_plan_slot that kinds of sets have: elements to choose, and the
 * hard limit; row above 0: elements of a row, how many are chosen of each, 0 where a row is too
 * long, and how many at most; the most bytes that a whole block, the last block and a payload that
 * is read can have. */
struct pithi_sets_slot {
    uint64_t chosen, chosen_most;
    uint64_t row, row_chosen, row_most;
    uint64_t block_most, last_most, read_most;
};

#endif
