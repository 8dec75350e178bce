#!/usr/bin/env bash
# run.sh - runs the tests of the command line: run.sh PITH [NAME...]
# SPDX-License-Identifier: Apache-2.0
#
# A test is a script t_NAME.sh, run by bash -e in a fresh directory with $PITH, $DATA (made by
# make_data.py) and the functions of lib.sh. What it prints must equal t_NAME.out when that exists.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] || { echo "usage: run.sh PITH [NAME...]" >&2; exit 2; }
PITH=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PITH HERE=$here DATA=$work/data REPO=$here/../..
export TMPDIR=$work/spool
mkdir -p "$DATA" "$TMPDIR"
python3 "$here/make_data.py" "$DATA" || exit 1

passed=0 failed=0
tests=("$@")
if [ ${#tests[@]} = 0 ]; then
    for script in "$here"/t_*.sh; do
        name=${script##*/t_}
        tests+=("${name%.sh}")
    done
fi
for name in "${tests[@]}"; do
    mkdir "$work/$name"
    (cd "$work/$name" &&
        exec timeout 300 bash -e -c '. "$0"; . "$1"' "$here/lib.sh" "$here/t_$name.sh") \
        >"$work/$name.out" 2>"$work/$name.err" </dev/null
    rc=$?
    if [ $rc = 0 ] && [ -f "$here/t_$name.out" ] &&
        ! diff -u "$here/t_$name.out" "$work/$name.out" >>"$work/$name.err"; then
        rc=1
    fi
    if [ $rc = 0 ] && [ -n "$(ls -A "$TMPDIR")" ]; then
        echo "left in TMPDIR: $(ls -A "$TMPDIR")" >>"$work/$name.err"
        rc=1
    fi
    if [ $rc = 0 ]; then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        failed=$((failed + 1))
        echo "FAILED  $name"
        tail -n 20 "$work/$name.out" "$work/$name.err" | sed 's/^/    /'
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
