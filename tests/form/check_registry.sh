#!/usr/bin/env bash
# check_registry.sh: a row of registry.def has all its parts (CONTRIBUTING.md, Add a codec), a part
# has its row, and a script of the command line is run.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
failed=0

complain() {
    echo "$1"
    failed=1
}

codecs=$(sed -nE 's/^PITH_CODEC\(([0-9]+), *([a-z0-9]+)\).*/\1 \2/p' codec/registry.def)
row='PITH_KERNEL\(([a-z0-9_]+), *([a-z0-9_]+), *([a-z0-9]+)\)'
kernels=$(sed -nE "s|^$row.*|codec/\\1/\\2_\\3.c|p" codec/registry.def)
[ -n "$codecs" ] && [ -n "$kernels" ] || { echo 'registry.def was not understood'; exit 1; }

# The lines of doc/FORMAT.md from a heading to the next one that is not below it.
section() { # section HEADING
    awk -v heading="$1" '
        /^#+ / { depth = index($0, " ") - 1 }
        inside && /^#+ / && depth <= own { inside = 0 }
        !inside && index($0, heading) == 1 { inside = 1; own = depth }
        inside' doc/FORMAT.md
}
blocks=$(section '### 3.3 ') sizes=$(section '### 3.4 ') table=$(section '## 6. ')
refused=$(section '## 11. ') examples=$(section '## 12. ')
for part in "$blocks" "$sizes" "$table" "$refused" "$examples"; do
    [ -n "$part" ] || { echo 'doc/FORMAT.md was not understood'; exit 1; }
done

# ---- Codecs: the list of CONTRIBUTING.md, Add a codec --------------------------------------------
has() { grep -qE "$1" <<<"$2"; } # has PATTERN TEXT
while read -r id name; do
    lacks() { complain "codec $name: $1"; }
    quoted="\`$name\`"
    if [ -f "codec/codecs/$name.c" ]; then
        grep -qE "^ *\.id = $id," "codec/codecs/$name.c" ||
            lacks "codec/codecs/$name.c does not say .id = $id"
    else
        lacks "there is no codec/codecs/$name.c"
    fi
    has "^### 6\.[0-9]+ Codec $id $quoted$" "$table" ||
        lacks "doc/FORMAT.md has no heading '### 6.N Codec $id $quoted'"
    grep -qE "^6\. Codecs: .*$quoted" doc/FORMAT.md ||
        lacks "doc/FORMAT.md does not name it in its list of sections"
    has "^\| $id \| $quoted " "$table" ||
        lacks "doc/FORMAT.md has no row for it in the table of section 6"
    has "^\|.*$quoted" "$blocks" || lacks "doc/FORMAT.md has no row for its blocks in section 3.3"
    has "^\|.*$quoted" "$sizes" || lacks "doc/FORMAT.md has no row for its sizes in section 3.4"
    has "$quoted" "$refused" ||
        lacks "doc/FORMAT.md does not say in section 11 what of it must be rejected"
    has "^### example-$name$" "$examples" ||
        lacks "doc/FORMAT.md has no example-$name in section 12"
    grep -qE "^## $quoted$" doc/CODECS.md || lacks "doc/CODECS.md has no section on it"
    grep -qE "^PITH_TEST\($name," tests/codecs.def || lacks "tests/codecs.def has no row for it"
    grep -qE "\"example-$name\"" tests/golden/golden.def ||
        lacks "tests/golden/golden.def has no row example-$name"
    for end in pith raw; do
        file=v1/example-$name.$end
        [ -f "tests/golden/$file" ] || lacks "there is no tests/golden/$file"
        grep -qE " $file$" tests/golden/HASHES || lacks "tests/golden/HASHES does not list $file"
    done
    grep -qxF "refdec_$name.c" tests/golden/COVERAGE.txt ||
        lacks "tests/golden/COVERAGE.txt does not say which golden frames reach its decoder"
    file=tests/refdec/refdec_$name.c
    if [ -f "$file" ]; then
        grep -qE "^const struct ref_codec ref_codec_$name = " "$file" ||
            lacks "$file does not define ref_codec_$name"
    else
        lacks "there is no $file, the second decoder's"
    fi
done <<<"$codecs"

for file in tests/refdec/refdec_*.c; do
    name=$(sed -nE 's/^const struct ref_codec ref_codec_([a-z0-9]+) = .*/\1/p' "$file")
    [ -z "$name" ] || grep -qE "^[0-9]+ $name$" <<<"$codecs" ||
        complain "$file: codec/registry.def has no row for codec $name"
done
for file in codec/codecs/*.c; do
    name=${file#codec/codecs/}
    grep -qE "^[0-9]+ ${name%.c}$" <<<"$codecs" ||
        complain "$file: codec/registry.def has no row for codec ${name%.c}"
done

# ---- Kernels -------------------------------------------------------------------------------------
for kernel in $kernels; do
    [ -f "$kernel" ] || complain "codec/registry.def has a kernel without its file $kernel"
done
for file in codec/*/*_{avx2,avx512,neon}.c; do
    grep -qxF "$file" <<<"$kernels" || complain "$file: codec/registry.def has no row for it"
done
checks=$(sed -nE 's/^PITH_CHECK\([a-z_]+, ([a-z_]+), ([a-z_]+), [a-z0-9]+\)$/\1 \2/p' \
    tests/kernel/kernels.def)
[ -n "$checks" ] || { echo 'kernels.def was not understood'; exit 1; }
while read -r source kernel; do
    [ -f "tests/kernel/$source.c" ] || complain "there is no tests/kernel/$source.c"
    has "/${kernel}_[a-z0-9]+\.c$" "$kernels" ||
        complain "tests/kernel/kernels.def: codec/registry.def has no kernels $kernel"
done <<<"$checks"
for kernel in $(sed -nE "s|^$row.*|\\2|p" codec/registry.def | sort -u); do
    has " $kernel$" "$checks" ||
        complain "kernels $kernel: tests/kernel/kernels.def has no row for them"
done

# ---- Scripts of the command line -----------------------------------------------------------------
for file in tests/cli/t_*.sh; do
    name=${file#tests/cli/t_}
    grep -qF "'${name%.sh}'" tests/cli/meson.build || complain "$file: not in tests/cli/meson.build"
done

# ---- Devices -------------------------------------------------------------------------------------
kinds=$(sed -nE 's/^    PITHI_KIND_([A-Z]+),?$/\1/p' codec/device_plan.h)
[ -n "$kinds" ] || { echo 'codec/device_plan.h was not understood'; exit 1; }
for kind in $kinds; do
    [ "$kind" = NONE ] || grep -rqE "\bPITHI_KIND_$kind\b" gpu ||
        complain "codec/device_plan.h: no kernels in gpu/ for $kind"
    [ "$kind" = NONE ] || grep -qE "\bPITHI_KIND_$kind\b" codec/codecs/*.c ||
        complain "codec/device_plan.h: no codec is described as $kind"
done
gpu_kernels=$(sed -nE 's/^PITH_GPU_KERNEL\([a-z_]+, ([a-z0-9_]+)\)$/\1/p' gpu/kernels.def)
[ -n "$gpu_kernels" ] || { echo 'gpu/kernels.def was not understood'; exit 1; }
for kernel in $gpu_kernels; do
    grep -qE "^PITHI_BODY\(pithi_$kernel\)" gpu/device/{,*/}*.h ||
        complain "kernel $kernel: no body in gpu/device/"
    grep -qE "\bPITHI_GPU_$kernel\b" gpu/*.c || complain "kernel $kernel: nobody launches it"
done
cut -d' ' -f1 <<<"$codecs" | sort | uniq -d | grep . && complain 'a codec number is used twice'
exit $failed
