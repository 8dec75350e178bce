#!/usr/bin/env bash
# check_examples.sh - the hex examples of doc/FORMAT.md are the golden files of the same name.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
seen=0
while read -r name; do
    written=$(awk -v heading="### $name" '
        $0 == heading { in_section = 1; next }
        in_section && /^```/ { if (in_code) exit; in_code = 1; next }
        in_code { $1 = ""; print }' doc/FORMAT.md | tr -s ' \n' ' ' | sed 's/^ //;s/ $//')
    golden=$(od -An -v -tx1 "tests/golden/v1/$name.pith" | tr -s ' \n' ' ' | sed 's/^ //;s/ $//')
    [ "$written" = "$golden" ] || {
        echo "doc/FORMAT.md: $name is not its golden file" >&2
        exit 1
    }
    seen=$((seen + 1))
done < <(sed -n 's/^### \(example-[a-z]*\)$/\1/p' doc/FORMAT.md)
codecs=$(grep -c '^PITH_CODEC(' codec/registry.def)
[ "$seen" = "$codecs" ] || { echo "doc/FORMAT.md: $seen examples for $codecs codecs" >&2; exit 1; }
echo "$seen examples are golden files"
