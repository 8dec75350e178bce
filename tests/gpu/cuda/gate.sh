#!/usr/bin/env bash
# gate.sh - run a program of suite gpu where there is a device: gate.sh PROBE PROGRAM [ARG...].
# SPDX-License-Identifier: Apache-2.0
#
# Without one the test is skipped, which Meson shows, and fails where PITH_REQUIRE_GPU is 1: there
# nothing may pass that has not run. PITH_GPU_WRAP is a command put before the program, such as
# compute-sanitizer with its options.
set -euo pipefail
probe=$1
shift
rc=0
"$probe" || rc=$?
if [ $rc = 77 ] && [ "${PITH_REQUIRE_GPU:-}" != 1 ]; then
    printf 'SKIPPED: %s\n' "${1##*/}"
    exit 77
fi
[ $rc = 0 ] || exit 1
# One word per argument.
read -r -a wrap <<<"${PITH_GPU_WRAP:-}"
exec ${wrap[@]+"${wrap[@]}"} "$@"
