#!/bin/sh
# version.sh: print the version that include/pith/version.h states.
# SPDX-License-Identifier: Apache-2.0
header=$(dirname "$0")/../include/pith/version.h
sed -n 's/^#define PITH_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$header" | paste -sd. -
