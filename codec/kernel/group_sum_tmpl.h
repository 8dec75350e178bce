/* group_sum_tmpl.h - the third part of group_tmpl.h: the sum of many frames in one pass.
 * SPDX-License-Identifier: Apache-2.0
 *
 * 64 sums stay in registers while the codes of up to SUMMED frames are added to them. More frames
 * take more passes over a batch, whose sums the cache holds meanwhile. */

/* How far reads run ahead is in bytes of each frame's codes: many streams share the cache. */
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

/* i: the unit's place in the batch, code: where its codes begin. */
ALWAYS void add_frame(const struct addends *a, const struct packing *pack, size_t k, size_t i,
                      size_t code, bool first, v16 sum[4]) {
    const float *const s = a->scale[k];
    const float *const scale[4] = {&s[i >> a->shift], &s[(i + 16) >> a->shift],
                                   &s[(i + 32) >> a->shift], &s[(i + 48) >> a->shift]};
    v16 x[4];
    __builtin_prefetch(a->codes[k] + code + SUM_AHEAD);
    products(x, a->codes[k] + code, a->room - code, pack, scale);
    sum[0] = first ? x[0] : f_add(sum[0], x[0]);
    sum[1] = first ? x[1] : f_add(sum[1], x[1]);
    sum[2] = first ? x[2] : f_add(sum[2], x[2]);
    sum[3] = first ? x[3] : f_add(sum[3], x[3]);
}

ALWAYS void sum_unit(const struct addends *a, const struct packing *pack, size_t i, size_t code,
                     bool more, uint8_t *to) {
    v16 sum[4];
    if (more) {
        sum[0] = v_load(to);
        sum[1] = v_load(to + 64);
        sum[2] = v_load(to + 128);
        sum[3] = v_load(to + 192);
        add_frame(a, pack, 0, i, code, false, sum);
    } else {
        add_frame(a, pack, 0, i, code, true, sum);
    }
    for (size_t k = 1; k < a->frames; k++) add_frame(a, pack, k, i, code, false, sum);
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
    sum_unit(a, &a->pack, i, 0, more, sum);
    memcpy(a->sum + i, sum, n * sizeof *a->sum);
}

ALWAYS void sum_units(struct addends *a, bool more) {
    const struct packing pack = a->pack; /* a copy no store can alias */
    size_t i = 0;
    for (; i + UNIT <= a->count; i += UNIT)
        sum_unit(a, &pack, i, i * pack.bits / 8, more, (uint8_t *)(a->sum + i));
    if (i < a->count) sum_end(a, i, more);
}

/* The part of a job that begins at element i, frames from k on. */
static struct pithi_sum_job sum_part(const struct pithi_sum_job *job, size_t i, size_t count,
                                     size_t k, size_t frames) {
    struct pithi_sum_job p = *job;
    p.count = count;
    p.frames = job->frames + k;
    p.frame_count = frames;
    p.scales_at += pithi_group_scale_bytes(&job->set, i);
    p.codes_at += i * job->set.bits / 8;
    p.sum += i;
    p.more = job->more || k > 0;
    return p;
}

/* False when a group is poisoned or could overflow. */
static bool open_addends(struct addends *a, const struct pithi_sum_job *p) {
    const size_t bytes = pithi_group_scale_bytes(&p->set, p->count);
    uint32_t worst = 0;
    for (size_t k = 0; k < p->frame_count; k++) {
        const uint8_t *const scales = p->frames[k] + p->scales_at;
        __builtin_prefetch(scales + bytes);
        const uint32_t w = read_scales(&p->set, scales, p->count, a->scale[k]);
        worst = w > worst ? w : worst;
        a->codes[k] = p->frames[k] + p->codes_at;
    }
    a->frames = p->frame_count;
    a->count = p->count;
    a->sum = p->sum;
    return worst < LIMIT;
}

static void sum_batch(struct addends *a, struct pithi_sum_job *job, struct pithi_sum_job p) {
    if (!open_addends(a, &p)) {
        p.saturated = p.poisoned = 0;
        pithi_group_sum_c(&p);
        job->saturated += p.saturated;
        job->poisoned += p.poisoned;
    } else if (p.more) {
        sum_units(a, true);
    } else {
        sum_units(a, false);
    }
}

static void group_sum(struct pithi_sum_job *job) {
    const struct pithi_group_setting *s = &job->set;
    const size_t step = batch_elements(s, DECODED), all = pithi_group_code_bytes(s, job->count);
    struct addends a; /* most of it is scales, so no initializer */
    a.set = s;
    a.shift = (uint32_t)__builtin_ctz(s->group);
    packing_init(&a.pack, s->bits, true);
    for (size_t i = 0; i < job->count; i += step) {
        const size_t n = job->count - i < step ? job->count - i : step;
        for (size_t k = 0; k < job->frame_count; k += SUMMED) {
            const size_t left = job->frame_count - k;
            a.room = all - i * s->bits / 8;
            sum_batch(&a, job, sum_part(job, i, n, k, left < SUMMED ? left : SUMMED));
        }
    }
}
