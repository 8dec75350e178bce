/* group_sum_tmpl.h - the third part of group_tmpl.h: the sum of many frames in one pass.
 * SPDX-License-Identifier: Apache-2.0
 *
 * 64 sums stay in registers while the codes of up to SUMMED frames are added to them. More frames
 * take more passes over a batch, whose sums the cache holds meanwhile. */

/* How far reads run ahead is in bytes of each frame's codes. They go to the second-level cache:
 * lines of all streams often have one place in the first, which then loses them too early. */
enum { SUMMED = 8, SUM_AHEAD = 2048 };

/* A batch of up to SUMMED frames, pointers to its first element. */
struct addends {
    const struct pithi_group_setting *set;
    struct packing pack;
    const uint8_t *codes[SUMMED];
    size_t frames, count, room; /* bytes from the first code to the last of the job */
    uint32_t shift;             /* log2 of the group */
    float *sum;
    float scale[SUMMED][BATCH_GROUPS + 16];
};

/* What a loop is made for; constant in the common loops. */
struct sum_way {
    unsigned bits;
    bool one;  /* a unit has one scale */
    bool more; /* the sums go on */
};

/* i: the unit's place in the batch, code: where its codes begin. */
ALWAYS void add_frame(const struct addends *a, const struct packing *pack, struct sum_way w,
                      size_t k, size_t i, size_t code, bool first, v16 sum[4]) {
    const float *const s = a->scale[k], *const at = &s[i >> a->shift];
    const float *const scale[4] = {at, w.one ? at : &s[(i + 16) >> a->shift],
                                   w.one ? at : &s[(i + 32) >> a->shift],
                                   w.one ? at : &s[(i + 48) >> a->shift]};
    const float *const zero[4] = {NULL, NULL, NULL, NULL};
    v16 x[4];
    __builtin_prefetch(a->codes[k] + code + SUM_AHEAD, 0, 2);
    products(x, a->codes[k] + code, a->room - code, pack, scale, zero);
    sum[0] = first ? x[0] : f_add(sum[0], x[0]);
    sum[1] = first ? x[1] : f_add(sum[1], x[1]);
    sum[2] = first ? x[2] : f_add(sum[2], x[2]);
    sum[3] = first ? x[3] : f_add(sum[3], x[3]);
}

ALWAYS void sum_unit(const struct addends *a, const struct packing *pack, struct sum_way w,
                     size_t i, size_t code, uint8_t *to) {
    v16 sum[4];
    if (w.more) {
        sum[0] = v_load(to);
        sum[1] = v_load(to + 64);
        sum[2] = v_load(to + 128);
        sum[3] = v_load(to + 192);
        add_frame(a, pack, w, 0, i, code, false, sum);
    } else {
        add_frame(a, pack, w, 0, i, code, true, sum);
    }
    for (size_t k = 1; k < a->frames; k++) add_frame(a, pack, w, k, i, code, false, sum);
    v_store(to, sum[0]);
    v_store(to + 64, sum[1]);
    v_store(to + 128, sum[2]);
    v_store(to + 192, sum[3]);
}

static __attribute__((noinline)) void sum_end(struct addends *a, size_t i, bool more) {
    const size_t n = a->count - i, bits = a->set->bits;
    uint8_t codes[SUMMED][UNIT] = {{0}}, sum[UNIT * 4] = {0};
    for (size_t k = 0; k < a->frames; k++) {
        memcpy(codes[k], a->codes[k] + i * bits / 8, (n * bits + 7) / 8);
        a->codes[k] = codes[k];
    }
    a->room = UNIT;
    memcpy(sum, a->sum + i, n * sizeof *a->sum);
    sum_unit(a, &a->pack, (struct sum_way){(unsigned)bits, false, more}, i, 0, sum);
    memcpy(a->sum + i, sum, n * sizeof *a->sum);
}

/* pack: that no store can alias. */
ALWAYS void sum_units(struct addends *a, const struct packing *pack, struct sum_way w) {
    size_t i = 0;
    for (; i + UNIT <= a->count; i += UNIT)
        sum_unit(a, pack, w, i, i * w.bits / 8, (uint8_t *)(a->sum + i));
    if (i < a->count) sum_end(a, i, w.more);
}

/* The common kind: the first frames, of a width that the compiler knows. */
ALWAYS void sum_common(struct addends *a, unsigned bits) {
    struct packing pack;
    packing_make(&pack, bits, true);
    sum_units(a, &pack, (struct sum_way){bits, true, false});
}

/* Elements [i, i + count) of a job, frames from k on, up to SUMMED of them. */
struct turn {
    size_t i, count, k, frames;
    bool more;
};

static __attribute__((noinline)) void scalar_sum(struct pithi_sum_job *job, const struct turn *t) {
    struct pithi_sum_job p = *job;
    p.count = t->count;
    p.frames = job->frames + t->k;
    p.frame_count = t->frames;
    p.scales_at += pithi_group_scale_bytes(&job->set, t->i);
    p.codes_at += t->i * job->set.bits / 8;
    p.sum += t->i;
    p.more = t->more;
    pithi_group_sum_c(&p);
    job->saturated = p.saturated;
    job->poisoned = p.poisoned;
}

/* False when a group is poisoned or could overflow. */
static bool open_addends(struct addends *a, const struct pithi_sum_job *job, const struct turn *t) {
    const size_t at = job->scales_at + pithi_group_scale_bytes(&job->set, t->i);
    const size_t bytes = pithi_group_scale_bytes(&job->set, t->count);
    const size_t codes_at = job->codes_at + t->i * job->set.bits / 8;
    uint32_t worst = 0;
    for (size_t k = 0; k < t->frames; k++) {
        const uint8_t *const frame = job->frames[t->k + k];
        __builtin_prefetch(frame + at + bytes);
        const uint32_t w = read_scales(&job->set, frame + at, t->count, a->scale[k]);
        worst = w > worst ? w : worst;
        a->codes[k] = frame + codes_at;
    }
    a->frames = t->frames;
    a->count = t->count;
    a->room = pithi_group_code_bytes(&job->set, job->count) - t->i * job->set.bits / 8;
    a->sum = job->sum + t->i;
    return worst < LIMIT;
}

/* Never copies the job: what was just stored piece by piece cannot be loaded as a whole before the
 * stores ahead of it, which may be many codes on their way to memory. */
static void sum_turn(struct addends *a, struct pithi_sum_job *job, const struct turn *t) {
    const struct pithi_group_setting *s = &job->set;
    const bool common = s->group >= UNIT && !t->more;
    if (!open_addends(a, job, t)) {
        scalar_sum(job, t);
    } else if (common && s->bits == 8) {
        sum_common(a, 8);
    } else if (common && s->bits == 4) {
        sum_common(a, 4);
    } else {
        const struct packing pack = a->pack;
        sum_units(a, &pack, (struct sum_way){s->bits, false, t->more});
    }
}

static void group_sum(struct pithi_sum_job *job) {
    const struct pithi_group_setting *s = &job->set;
    const size_t step = batch_elements(s, DECODED);
    struct addends a; /* most of it is scales, so no initializer */
    a.set = s;
    a.shift = (uint32_t)__builtin_ctz(s->group);
    packing_init(&a.pack, s->bits, true);
    for (size_t i = 0; i < job->count; i += step) {
        const size_t n = job->count - i < step ? job->count - i : step;
        for (size_t k = 0; k < job->frame_count; k += SUMMED) {
            const size_t left = job->frame_count - k;
            sum_turn(&a, job,
                     &(struct turn){i, n, k, left < SUMMED ? left : SUMMED, job->more || k > 0});
        }
    }
}
