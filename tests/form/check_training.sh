#!/usr/bin/env bash
# check_training.sh: tools/train_torch.py says how it is called, and what ends it leaves no network.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
export PYTHONDONTWRITEBYTECODE=1

# ---- How it is called ----------------------------------------------------------------------------
python3 "$tools/train_torch.py" --help >out
grep -q '^    ./dev train --torch --results$' out || { echo '--help says nothing'; exit 1; }
for words in '' --losses '--steps=3 folder'; do
    rc=0
    python3 "$tools/train_torch.py" $words >out 2>&1 || rc=$?
    [ $rc = 2 ] || { echo "exit $rc without a folder: $words"; exit 1; }
done
[ "$(ls)" = out ] || { echo "made where no folder was named: $(ls)"; exit 1; }

# ---- What ends it --------------------------------------------------------------------------------
cat >held.py <<'END'
import signal, sys
sys.path.insert(0, sys.argv[1])
import network
why = network.missing()
if why:
    sys.exit("no network: " + why)
network.end_by_signals()
with network.Network(2) as net:
    print(net.names[0], flush=True)
    signal.pause()
END
for signal in TERM HUP; do
    mkfifo names
    python3 held.py "$tools" >names 2>why &
    held=$!
    name=
    read -r name <names || true
    rm names
    if [ -z "$name" ]; then
        wait $held || true
        echo "networks are not checked: $(cat why)"
        exit 77
    fi
    kill -s "$signal" $held
    wait $held || true
    if ip netns list | grep -F "${name%n0}"; then
        echo "left behind after SIG$signal"
        exit 1
    fi
done
echo 'says how it is called; leaves no network behind'
