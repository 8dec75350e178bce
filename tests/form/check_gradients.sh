#!/usr/bin/env bash
# check_gradients.sh PROGRAM: bench/gradients says which data it has no rows for, and fails.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
program=$(realpath "$1")
simulated=4096
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# Eight ranks, of which one may have another element count than the others.
make_ranks() {
    python3 - "$place/$1.safetensors" "$2" <<'PY'
import json, random, struct, sys
random.seed(1)
header, body = {}, b''
for rank in range(8):
    count = int(sys.argv[2]) if rank == 3 else 600
    data = struct.pack('<%df' % count, *[random.gauss(0, 1) for _ in range(count)])
    header['r%d' % rank] = {'dtype': 'F32', 'shape': [count],
                            'data_offsets': [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header, separators=(',', ':')) + ' '
with open(sys.argv[1], 'wb') as file:
    file.write(struct.pack('<Q', len(text)) + text.encode() + body)
PY
}

# All rows of a table have as many cells as its head.
whole_rows() {
    awk -F'|' '!/^\|/ { cells = 0; next } cells && NF != cells { bad = 1 } { cells = NF }
        / nan | -[0-9]/ { bad = 1 } END { exit bad }' "$place/out" ||
        { echo "$1: rows without numbers"; cat "$place/out"; exit 1; }
}

# Rows of `early` are those of the file that is made badly.
fails() {
    local status=0
    "$program" "$place" "$simulated" >"$place/out" 2>"$place/err" || status=$?
    [ "$status" = 1 ] || { echo "$1: exit status $status"; cat "$place/err"; exit 1; }
    grep -q "^gradients: grads_early: $2\$" "$place/err" ||
        { echo "$1: says"; cat "$place/err"; exit 1; }
    grep -q '^| late, 4 x 2 ' "$place/out" || { echo "$1: no rows of good data"; exit 1; }
    ! grep -q '^| early' "$place/out" || { echo "$1: rows of bad data"; exit 1; }
    whole_rows "$1"
}

make_ranks grads_late 600
for count in 1 700; do
    make_ranks grads_early "$count"
    fails "a rank of $count elements" 'the ranks differ in how many elements they have'
done
rm "$place/grads_early.safetensors"
fails 'no file' 'cannot be read'
make_ranks grads_early 600
"$program" "$place" "$simulated" >"$place/out"
whole_rows 'good data'
[ "$(grep -c '^| early' "$place/out")" = 4 ] || { echo 'good data: not all rows'; exit 1; }
echo 'bench/gradients reports data that it cannot use'
