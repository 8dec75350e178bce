#!/usr/bin/env bash
# check_pip.sh: the Python package can be installed from a clone by pip alone, which fetches what
# builds it, and works there.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

git clone --quiet "$source" "$place/clone"
python3 -m venv "$place/venv"
# Kernels for devices take long to compile; nothing here would run them. The folder lies where that
# of ./dev test does, so that ccache has what that compiled.
"$place/venv/bin/pip" install --quiet --disable-pip-version-check \
    -Cbuild-dir="$place/clone/build-python/build" -Csetup-args=-Dpith:cuda=disabled \
    "$place/clone/python"
cd "$place"
mv clone/doc/PYTHON.md . && rm -rf clone
awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' PYTHON.md >program.py
venv/bin/python program.py
venv/bin/pith --version
