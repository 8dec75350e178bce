#!/usr/bin/env bash
# check_python.sh [--torch] [ARG...]: the tests of the Python package pass with the wheel that is in
# folder PITH_TEST_WHEEL, in an environment that has nothing but what it needs, and where PyTorch is
# those with its tensors; --torch: only these. ARGs go to pytest, files in python/tests/ among them.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
if [ -z "${PITH_TEST_WHEEL:-}" ]; then
    echo 'skipped: no wheel was built; ./dev test and ./dev python do'
    exit 77
fi
cd "$(dirname "$0")/../.."
only_torch=
if [ "${1:-}" = --torch ]; then
    only_torch=yes
    shift
fi
wheel=$(echo "$PITH_TEST_WHEEL"/libpith-*-cp310-abi3-*.whl)
[ -f "$wheel" ] || { echo "no wheel for every Python from 3.10 in $PITH_TEST_WHEEL"; exit 1; }
# What it links beside libraries that are everywhere is inside, and nothing that no user needs.
files=$(python3 -m zipfile -l "$wheel" | awk '{ print $1 }')
for file in pith/_core.abi3.so pith/_cuda.abi3.so pith/py.typed pith/bin/pith; do
    grep -qxF "$file" <<<"$files" || { echo "not in the wheel: $file"; exit 1; }
done
if grep -E '\.(c|h|pyc)$|tests/|mesonpy' <<<"$files"; then
    echo 'the wheel has what no user needs'
    exit 1
fi

try() { # try ENVIRONMENT ARG...
    local bin=$1/bin
    # Each rank of a test imports PyTorch: bytecode is kept, whatever the environment says of it.
    unset PYTHONDONTWRITEBYTECODE
    export PYTHONPYCACHEPREFIX=$1/bytecode
    shift
    "$bin/pip" install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall \
        "$wheel"
    # Not in python/: the package that is tested is the installed one.
    (cd python/tests && "$bin/pytest" -q -rs -p no:cacheprovider -c ../pyproject.toml "$@")
}

[ -n "$only_torch" ] || try "$PWD/build-python/clean" "$@"
if [ -x build-torch/bin/pytest ]; then
    export PITH_TEST_CUDA_HOST=$PWD/build-python/build/_cuda_host.abi3.so
    [ $# -gt 0 ] || set -- test_{torch,cli,cuda}.py with_torch
    try "$PWD/build-torch" "$@"
else
    echo 'left out: tensors and files of PyTorch, pith.torch, pith.cuda over the host runner:'
    echo 'PyTorch is not in build-torch/ (./dev need torch)'
    [ -z "$only_torch" ] || exit 1
fi
