/* group_part.h - parts of a job that vectors leave to scalar C.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer has included lanes_<isa>.h. */
#ifndef PITHI_GROUP_GROUP_PART_H
#define PITHI_GROUP_GROUP_PART_H

#include "common/lanes_tmpl.h"
#include "group/group.h"

/* Returns the part of a job that begins at element i, with which a group begins. */
static inline struct pithi_group_job part_of(const struct pithi_group_job *job, size_t i,
                                             size_t count) {
    struct pithi_group_job p = *job;
    p.count = count;
    if (job->value) p.value = (const uint8_t *)job->value + i * width(job->value_dtype);
    if (job->out) p.out = (uint8_t *)job->out + i * width(job->out_dtype);
    if (job->base) p.base = (uint8_t *)job->base + i * width(job->base_dtype);
    p.codes = job->codes + i * job->set.bits / 8;
    p.scales = job->scales + pithi_group_scale_bytes(&job->set, i);
    p.first = job->first + i;
    return p;
}

/* Encodes or decodes a part of a job with the scalar reference. */
static __attribute__((noinline)) void scalar_part(struct pithi_group_job *job, size_t i,
                                                  size_t count, pithi_group_fn *fn) {
    struct pithi_group_job p = part_of(job, i, count);
    fn(&p);
    job->saturated = p.saturated;
    job->poisoned = p.poisoned;
}

#endif
