#!/usr/bin/env bash
# gpu.sh - run suite gpu and bench/gpu of a build with CUDA: tools/gpu.sh BUILD [OPTION] [NAME...].
# SPDX-License-Identifier: Apache-2.0
#
# Needs neither Meson nor a compiler, so that a build can be taken to another machine; there libpith
# needs zstd and OpenMP's runtime, and the tests need cmocka (libzstd.so.1, libgomp.so.1,
# libcmocka.so.0). The example with NCCL runs too, where it was built. NAME: only these programs of
# the suite (args, graph, ...), and neither bench nor example. --sanitizer: under compute-sanitizer,
# memcheck and then racecheck, without the bench. Exit status 77: no device.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$1
shift
sanitizer=
if [ "${1:-}" = --sanitizer ]; then
    sanitizer=yes
    shift
fi
programs=$build/tests/gpu/cuda
names=("$@")
if [ $# = 0 ]; then
    for program in "$programs"/gpu_*; do
        [ -f "$program" ] && [ -x "$program" ] && names+=("${program##*/gpu_}")
    done
fi

rc=0
"$programs/probe" || rc=$?
if [ $rc = 77 ]; then
    printf 'SKIPPED: suite gpu and bench/gpu\n'
    [ "${PITH_REQUIRE_GPU:-}" != 1 ] || exit 1
    exit 77
fi
if [ $rc != 0 ]; then
    printf 'FAILED: %s did not run\n' "$programs/probe"
    exit 1
fi

failed=0
run_all() { # run_all LABEL NAME...: the programs, one line each
    local label=$1 name from log=$build/gpu.log rc args
    shift
    for name in "$@"; do
        args=("$root/tests")
        case $name in device | graph | streams | large) args=() ;; esac
        from=$SECONDS
        rc=0
        timeout "${PITH_GPU_LIMIT:-600}" "$root/tests/gpu/cuda/gate.sh" "$programs/probe" \
            "$programs/gpu_$name" ${args[@]+"${args[@]}"} >"$log" 2>&1 || rc=$?
        if [ $rc = 0 ]; then
            printf '%s %-10s ok, %d s\n' "$label" "$name" $((SECONDS - from))
            grep -h '^SKIPPED' "$log" || true
        else
            tail -n 40 "$log"
            printf '%s %-10s FAILED (%d), %d s\n' "$label" "$name" $rc $((SECONDS - from))
            failed=1
        fi
    done
}

# Memory and time of the large tensors are beyond a sanitizer.
small_names() {
    local name
    for name in "${names[@]}"; do [ "$name" = large ] || printf '%s\n' "$name"; done
}

if [ -z "$sanitizer" ]; then
    run_all test "${names[@]}"
    [ $# = 0 ] || exit $failed
    if [ -x "$build/gpu/examples/allgather" ]; then
        "$build/gpu/examples/allgather" || failed=1
    else
        printf 'SKIPPED: gpu/examples/allgather was not built: no NCCL\n'
    fi
    "$build/bench/gpu" || failed=1
    exit $failed
fi

tool=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || {
    printf 'SKIPPED: compute-sanitizer was not found\n'
    [ "${PITH_REQUIRE_GPU:-}" != 1 ] || exit 1
    exit 77
}
mapfile -t small < <(small_names)
# Programs that make calls fail on purpose would be reported.
common="--error-exitcode 9 --report-api-errors no"
PITH_GPU_WRAP="$tool --tool memcheck $common" run_all memcheck "${small[@]}"
PITH_GPU_WRAP="$tool --tool racecheck $common" run_all racecheck "${small[@]}"
exit $failed
