#!/usr/bin/env bash
# check_tsan.sh [BUILD]: plans, works and streams of many threads, and the warps and threads of a
# kernel's teams, under ThreadSanitizer, in a build folder of their own (build-tsan), which is made
# when it is missing.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build-tsan}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# Kernels may randomize addresses more than the runtime takes; then programs run without that.
run=()
${CC:-cc} -fsanitize=thread -x c - -o "$place/empty" <<<'int main(void) { return 0; }' \
    2>"$place/log" || { echo "not checked: ${CC:-cc} has no ThreadSanitizer"; exit 77; }
"$place/empty" 2>"$place/log" || run=(setarch -R)
"${run[@]}" "$place/empty" || { echo 'not checked: ThreadSanitizer does not run here'; exit 77; }

# OpenMP's runtime is not instrumented: the threads are those of the test.
[ -f "$build/build.ninja" ] || meson setup "$build" --buildtype=plain -Ddebug=true \
    -Doptimization=1 -Db_sanitize=thread -Db_lundef=false -Dopenmp=disabled -Dcli=disabled \
    -Dmpi=disabled -Dlapack=disabled -Dcuda=disabled -Dbench=false -Dtests=true -Dfuzz=none
ninja -C "$build" ${JOBS:+-j "$JOBS"} tests/test_threads tests/gpu/gpu_host_runner \
    tests/gpu/gpu_host_warps
export TSAN_OPTIONS=halt_on_error=1
"${run[@]}" "$build/tests/test_threads"
"${run[@]}" "$build/tests/gpu/gpu_host_runner"
PITH_TEST_STEP=193 "${run[@]}" "$build/tests/gpu/gpu_host_warps" tests
echo 'no data race was found'
