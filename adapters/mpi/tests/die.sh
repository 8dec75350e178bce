#!/usr/bin/env bash
# die.sh MPIRUN TEST_MPI_TIMEOUT: one of four ranks dies in a call; the other three end in time.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail
lines=$(timeout 40 "$1" --oversubscribe --enable-recovery -n 4 "$2" die 2>&1)
survivors=$(grep -c '^survivor [0-2] of 4$' <<<"$lines")
[ "$survivors" = 3 ] && exit 0
printf '%s\n%s survivors, not 3\n' "$lines" "$survivors"
exit 1
