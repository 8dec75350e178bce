#!/usr/bin/env bash
# check_symbols.sh SHARED STATIC [HEADER]: what a library defines, exports and calls; pith.h's when
# no header is named.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
shared=$1 static=$2
root=$(dirname "$0")/../..
header=$root/include/pith/${3:-pith.h}
[ "${3-}" != pith_collective.h ] || header=$root/adapters/collective/include/pith/$3
headers=("$header")
[ $# -gt 2 ] || headers+=("${header%pith.h}bounds.h" "${header%pith.h}kv.h"
    "${header%pith.h}sparse.h"
    "$root/codec/device_plan.h") # what libpith_cuda calls of libpith
failed=0

expect_none() { # expect_none TITLE, lines on stdin
    local lines
    lines=$(cat)
    [ -n "$lines" ] || return 0
    printf '%s:\n%s\n' "$1" "$lines"
    failed=1
}

undefined=$(nm -A -u "$static" 2>/dev/null)
if grep -qE '__(asan|ubsan|tsan|msan)_' <<<"$undefined"; then
    echo 'sanitizers add symbols of their own; not checked'
    exit 77
fi

declared=$(cat "${headers[@]}" | tr '\n' ' ' |
    grep -oE 'PITH_API [a-z0-9_ *]*[ *]pithi?_[a-z0-9_]+\(' |
    grep -oE 'pithi?_[a-z0-9_]+\($' | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$shared" | awk '{ print $NF }' | sort -u)
[ "$(wc -l <<<"$declared")" -gt 20 ] || { echo "$header was not understood"; exit 1; }

expect_none 'exported, but not declared in the header' < <(
    comm -13 <(printf '%s\n' "$declared") <(printf '%s\n' "$exported"))
expect_none 'declared in the header, but not exported' < <(
    comm -23 <(printf '%s\n' "$declared") <(printf '%s\n' "$exported"))
expect_none 'defined in the archive without the prefix pith_ or pithi_' < <(
    nm -g --defined-only "$static" 2>/dev/null | awk 'NF == 3 && $3 !~ /^pithi?_/ { print $3 }')

# Everything else the library may call. caller.c holds the default allocator, parallel.c learns of
# forks, cuda.cu calls the CUDA runtime: nothing there may wait, or allocate.
allowed='^(pithi?_.*|ZSTD_.*|mem(cpy|move|set|cmp|chr)|bcmp|__mem(cpy|move|set)_chk'
allowed+='|str(len|cmp|ncmp|chr|cspn|spn)|GOMP_.*|omp_.*|__kmpc_.*|__stack_chk_fail'
allowed+='|_GLOBAL_OFFSET_TABLE_|__aarch64_.*|__cpu_(indicator_init|model|features2))$'
allocator=caller
# libpith_collective waits and has texts made, and only its transport on sockets has a world beyond.
if [ "${3-}" = pith_collective.h ]; then
    allocator=memory
    allowed="${allowed%)$}|clock_gettime|sched_yield|nanosleep|strstr|vsnprintf|__vsnprintf_chk)\$"
fi
expect_none 'called by the library, against its rules' < <(
    awk -v allowed="$allowed" -v allocator="(^|_)$allocator[.]c[.]o" '
        { object = $1; name = $NF; sub(/^.*\.a:/, "", object); sub(/:$/, "", object) }
        object ~ allocator &&
            name ~ /^(aligned_alloc|posix_memalign|malloc|free)$/ { next }
        object ~ /(^|_)parallel\.c\.o/ && name == "pthread_atfork" { next }
        object ~ /^sockets\.c\.o/ &&
            name ~ /^(calloc|realloc|free|poll|recv|sendmsg|close|__errno_location)$/ { next }
        object ~ /(cuda|kernels_[a-z_]*)\.o/ && name ~ /^(__cuda|cuda[A-Z]|atexit$)/ &&
            name !~ /Sync|Alloc|Create|Destroy|Free|Wait/ { next }
        NF && name !~ allowed { print object ": " name }' <<<"$undefined")
exit $failed
