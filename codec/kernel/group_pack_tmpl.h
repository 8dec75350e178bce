/* group_pack_tmpl.h - codes from lanes in every form that loops ask for, where only one form packs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For instruction sets of which pack64() is the one way to pack. */

/* The bits of each lane of q[0..3] from 16 up, in order. */
static inline void pack64_high(uint8_t *to, size_t room, const struct packing *p, const v16 q[4],
                               bool stream) {
    const v16 high[4] = {v_shr(q[0], 16), v_shr(q[1], 16), v_shr(q[2], 16), v_shr(q[3], 16)};
    pack64(to, room, p, high, stream);
}

/* The same for lanes that are the codes as integers. */
static inline void pack64_whole(uint8_t *to, size_t room, const struct packing *p, const v16 q[4],
                                bool stream) {
    pack64(to, room, p, q, stream);
}

/* Four runs of 32 values transformed, in the order that pack_rotated takes their codes. */
static inline __attribute__((always_inline)) void rotate_runs(v16 v[8], unsigned bits, bool turn) {
    (void)bits;
    (void)turn;
    f_transform32x4(v);
}
static inline void pack_rotated(uint8_t *to, size_t room, const struct packing *p, const v16 q[8],
                                bool stream) {
    pack64(to, room, p, q, stream);
    pack64(to + 8 * p->bits, room - 8 * p->bits, p, q + 4, stream);
}
