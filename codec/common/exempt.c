/* exempt.c - elements that go around a codec: where they lie and where their values stand.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/exempt.h"

uint32_t pithi_exempt_dtype(uint32_t how, uint32_t dtype) {
    if (how == PITH_EXEMPT_EXACT) return dtype;
    if (how != PITH_EXEMPT_16) return PITH_NONE;
    return dtype == PITH_F16 ? PITH_F16 : PITH_BF16;
}

size_t pithi_exempt_build(struct pithi_exempt_range *to, const struct pithi_exempt_source *source,
                          uint32_t dtype, uint64_t count, uint64_t *bytes) {
    uint64_t end = 0;
    *bytes = 0;
    for (size_t i = 0; i < source->count; i++) {
        const pith_exempt r = source->at(source->from, i);
        const uint32_t how = r.how <= PITH_EXEMPT_EXACT ? (uint32_t)r.how : 0;
        const uint32_t stored = pithi_exempt_dtype(how, dtype);
        if (r.first < end || r.first > count || !r.count || r.count > count - r.first ||
            stored == PITH_NONE)
            return i;
        if (to) to[i] = (struct pithi_exempt_range){r.first, r.count, *bytes, how, stored};
        *bytes += r.count * pith_dtype_bytes(stored);
        end = r.first + r.count;
    }
    return source->count;
}

/* Returns the first range that ends after element e. */
static size_t range_after(const struct pithi_exempt_map *map, uint64_t e) {
    size_t lo = 0, hi = map->count;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        const struct pithi_exempt_range *r = &map->range[middle];
        if (r->first + r->count > e)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

uint64_t pithi_exempt_at(const struct pithi_exempt_map *map, uint64_t e) {
    const size_t i = range_after(map, e);
    if (i < map->count) {
        const struct pithi_exempt_range *r = &map->range[i];
        return r->at + (e > r->first ? e - r->first : 0) * pith_dtype_bytes(r->dtype);
    }
    if (!map->count) return 0;
    const struct pithi_exempt_range *last = &map->range[map->count - 1];
    return last->at + last->count * pith_dtype_bytes(last->dtype);
}

bool pithi_exempt_next(const struct pithi_exempt_map *map, uint64_t *first, uint64_t end,
                       struct pithi_exempt_run *run) {
    const size_t i = range_after(map, *first);
    if (i == map->count || map->range[i].first >= end || *first >= end) return false;
    const struct pithi_exempt_range *r = &map->range[i];
    const uint64_t from = *first > r->first ? *first : r->first, r_end = r->first + r->count;
    run->first = from;
    run->count = (end < r_end ? end : r_end) - from;
    run->at = r->at + (from - r->first) * pith_dtype_bytes(r->dtype);
    run->how = r->how;
    run->dtype = r->dtype;
    *first = from + run->count;
    return true;
}
