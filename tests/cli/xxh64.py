"""xxh64.py - the checksum of frames and containers, for tests that forge headers.

SPDX-License-Identifier: Apache-2.0
"""
MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                      0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def rotate(v, n):
    return (v << n | v >> (64 - n)) & MASK


def lane(v, word):
    return rotate((v + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data, seed=0):
    word = lambda at, n: int.from_bytes(data[at:at + n], 'little')
    at, size = 0, len(data)
    if size >= 32:
        v = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while at + 32 <= size:
            for i in range(4):
                v[i] = lane(v[i], word(at + 8 * i, 8))
            at += 32
        h = sum(rotate(v[i], n) for i, n in enumerate((1, 7, 12, 18))) & MASK
        for x in v:
            h = ((h ^ lane(0, x)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + size) & MASK
    while at + 8 <= size:
        h = (rotate(h ^ lane(0, word(at, 8)), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= size:
        h = (rotate(h ^ word(at, 4) * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32
