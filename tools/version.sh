#!/bin/sh
# Print the version that include/pith/version.h states.
sed -n 's/^#define PITH_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$(dirname "$0")/../include/pith/version.h" |
    paste -sd. -
