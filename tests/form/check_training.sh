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
grep -q '^    ./dev train --torch --results\[=steps|=losses|=sgd|=clipped\]$' out ||
    { echo '--help says nothing'; exit 1; }
for words in '' --losses '--steps=3 folder'; do
    rc=0
    python3 "$tools/train_torch.py" $words >out 2>&1 || rc=$?
    [ $rc = 2 ] || { echo "exit $rc without a folder: $words"; exit 1; }
done
[ "$(ls)" = out ] || { echo "made where no folder was named: $(ls)"; exit 1; }

# ---- The page -----------------------------------------------------------------------------------
# Losses alone are written anew: what the page says of steps stays, and times follow from it. And
# steps alone: losses stay, but for seconds to a loss.
cat >page.py <<'END'
import os, shutil, sys
sys.path.insert(0, sys.argv[1])
import train_torch, training_page
shutil.copy(training_page.PAGE, ".")
training_page.DOC, training_page.PAGE = os.getcwd(), os.path.abspath("TRAINING.md")
before = open("TRAINING.md").read()
steps = train_torch.page_steps(before)
assert list(steps) == [(n, rate) for n in (1, 2) for rate in train_torch.RATES], list(steps)
curve = [(0, 5.0), (100, 3.0), (200, 2.0)]
ran = {"curve": curve, "loss": 2.0, "parameters": 1000, "chosen": [[10, 10, 0.5]]}
losses = {name: [ran] * len(train_torch.SEEDS) for name in train_torch.LEARNING}
more = {name: [ran] * len(seeds) for name, seeds in train_torch.SEEDS_OF.items()}
train_torch.write_losses(losses, more)
after = open("TRAINING.md").read()
assert after.split("\n## Losses")[0] == before.split("\n## Losses")[0]
assert after != before and os.path.exists("training_torch_time.svg")
assert "| pith-4/4-mse | %d | 2.0000 | +0.00 |" % len(train_torch.MORE_SEEDS) in after
clipped = {name: [ran] * len(train_torch.SEEDS)
           for name in (*train_torch.LEARNING_CLIPPED, *train_torch.LEARNING_LOWER)}
clipped["clipped-no-hook"] = [ran] * len(train_torch.MORE_SEEDS)
train_torch.write_clipped(clipped)
assert "| clipped-bf16 | 3 | 2.0000 | +0.00 |" in open("TRAINING.md").read()
# 2.02 nats are reached at step 198.
seconds = steps[1, 250]["no-hook"]["seconds"][0]
row, = (line for line in after.splitlines() if line.startswith("| no-hook | 198 |"))
assert row.split(" | ")[3] == "%.0f" % (198 * seconds), row
faster = {key: {way: {**result, "seconds": [result["seconds"][0] / 2]}
                for way, result in results.items()} for key, results in steps.items()}
part = after.partition("\n## Losses")[2].partition("\n# ")[0]
assert train_torch.kept_losses(steps).strip() == ("## Losses" + part).strip()
row, = (line for line in train_torch.kept_losses(faster).splitlines() if "| 198 |" in line
        and line.startswith("| no-hook |"))
assert row.split(" | ")[3] == "%.0f" % (198 * seconds / 2), row
END
python3 page.py "$tools" >out
rm page.py TRAINING.md ./*.svg

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
