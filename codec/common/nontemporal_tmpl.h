/* nontemporal_tmpl.h - copies by non-temporal stores, by whole lines.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has defined stream_line: 64 bytes to an aligned place. */
#ifndef PITHI_COMMON_NONTEMPORAL_TMPL_H
#define PITHI_COMMON_NONTEMPORAL_TMPL_H

static void move_nontemporal(void *to, const void *from, size_t bytes) {
    enum { LINE = 64 };
    uint8_t *d = to;
    const uint8_t *s = from;
    const size_t unaligned = -(uintptr_t)d % LINE, lead = unaligned < bytes ? unaligned : bytes;
    if (lead) memcpy(d, s, lead);
    d += lead, s += lead, bytes -= lead;
    for (; bytes >= LINE; d += LINE, s += LINE, bytes -= LINE) stream_line(d, s);
    if (bytes) memcpy(d, s, bytes);
}

#endif
