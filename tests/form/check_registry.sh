#!/usr/bin/env bash
# check_registry.sh: a registry row has its files, its section in FORMAT.md, its tests and kernels,
# and a script of the command line is run.
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

while read -r id name; do
    [ -f "codec/codecs/$name.c" ] || complain "codec $name: no codec/codecs/$name.c"
    grep -qE "^#+ .*[Cc]odec $id\b.*\b$name\b" doc/FORMAT.md ||
        complain "codec $name: no heading 'Codec $id ... $name' in doc/FORMAT.md"
    grep -qE "\(.*\b$name\b" tests/codecs.def || complain "codec $name: no row in tests/codecs.def"
done <<<"$codecs"
for kernel in $kernels; do
    [ -f "$kernel" ] || complain "registry.def: no $kernel"
done

for file in codec/codecs/*.c; do
    name=${file#codec/codecs/}
    grep -qE "^[0-9]+ ${name%.c}$" <<<"$codecs" || complain "$file: no row in registry.def"
done
for file in codec/*/*_{avx2,avx512,neon}.c; do
    grep -qxF "$file" <<<"$kernels" || complain "$file: no row in registry.def"
done

# ---- Scripts of the command line -----------------------------------------------------------------
for file in tests/cli/t_*.sh; do
    name=${file#tests/cli/t_}
    grep -qF "'${name%.sh}'" tests/cli/meson.build || complain "$file: not in tests/cli/meson.build"
done

# ---- Devices -------------------------------------------------------------------------------------
for device in $(sed -nE 's/^    PITHI_DEVICE_([a-z]+),?$/\1/p' codec/device_plan.h); do
    [ "$device" = none ] || grep -rqE "\bPITHI_DEVICE_$device\b" gpu ||
        complain "codec/device_plan.h: no kernels in gpu/ for $device"
    [ "$device" = none ] || grep -qE "\bPITHI_DEVICE_$device\b" codec/codecs/*.c ||
        complain "codec/device_plan.h: no codec is described as $device"
done
kernels=$(sed -nE 's/^PITH_GPU_KERNEL\([a-z_]+, ([a-z0-9_]+)\)$/\1/p' gpu/kernels.def)
[ -n "$kernels" ] || { echo 'kernels.def was not understood'; exit 1; }
for kernel in $kernels; do
    grep -qE "^PITHI_BODY\(pithi_$kernel\)" gpu/device/{,*/}*.h ||
        complain "kernel $kernel: no body in gpu/device/"
    grep -qE "\bPITHI_GPU_$kernel\b" gpu/*.c || complain "kernel $kernel: nobody launches it"
done
cut -d' ' -f1 <<<"$codecs" | sort | uniq -d | grep . && complain 'a codec number is used twice'
exit $failed
