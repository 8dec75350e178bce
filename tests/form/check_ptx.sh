#!/usr/bin/env bash
# check_ptx.sh NVCC FOLDER FLAG...: what nvcc made of the kernels, in FOLDER/kernels_<family>.o,
# keeps to the rules of numbers.
# SPDX-License-Identifier: Apache-2.0
#
# -fmad=false reaches ptxas too, but a driver that compiles the PTX for a newer device does not see
# it, and may fuse a mul.f32 with an add.f32. So every sum and product must say how it is rounded.
set -euo pipefail
nvcc=$1 folder=$2
shift 2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
failed=0

# Objects hold PTX as text with a 0 behind it, not indented.
ptx_of() { # ptx_of OBJECT
    objcopy -O binary --only-section=.nv_fatbin "$1" "$place/section"
    LC_ALL=C grep -za '\.version ' "$place/section" | tr '\0' '\n'
}

# PITH_PTX_QUICK: code that is not optimised has calls, and arrays in memory.
lint() { # lint FILE [QUICK]: what breaks a rule in a PTX file, by rule, with the number of times
    awk -v quick="${2:-}" '
        /^\.func|^\.visible|^\.entry|^\/\// { next }
        { line = $0; sub(/^[ \t]+/, "", line); sub(/^@!?%p[0-9]+[ \t]+/, "", line) }
        { op = line; sub(/[ \t;].*/, "", op) }
        op ~ /^fma\./ || op ~ /^mad\.([a-z]+\.)*f/ { bad["contracted: " op]++ }
        op ~ /\.(approx|full|ftz)/ || op ~ /^(ex2|lg2|sin|cos|tanh|rsqrt)\./ {
            bad["approximate or flushing: " op]++ }
        op ~ /^(add|sub|mul|div|rcp|sqrt)\..*f(16|32|64)/ && op !~ /^[a-z]+\.rn\.f(32|64)$/ {
            bad["not rounded to nearest, each by itself: " op]++ }
        # Rounds two as the integers do, where pithi_bf16_pair says which.
        op == "cvt.rn.bf16x2.f32" { next }
        op ~ /\.b?f16/ { bad["16-bit floats, which stages convert by integers: " op]++ }
        !quick && op ~ /^\.local|^(ld|st)\.local/ { bad["local memory: " op]++ }
        !quick && op ~ /^call/ { bad["a call: " line]++ }
        # ptxas of CUDA 12.8 to 13.3 loses the sign of an absolute value written so, for sm_100.
        op == "neg.s32" { gsub(/[;,]/, "", line); split(line, word, " "); neg[word[2]] = word[3] }
        op == "max.s32" { gsub(/[;,]/, "", line); split(line, word, " ")
            if (neg[word[3]] == word[4] || neg[word[4]] == word[3])
                bad["a maximum of a number and its negative: " op]++ }
        END { for (rule in bad) printf "%s (%d times)\n", rule, bad[rule] }' "$1" | sort
}

# ---- The rules find what they are for ------------------------------------------------------------
cat >"$place/bad.cu" <<'EOF'
__global__ void contracts(float *p) { p[0] = p[0] * p[1] + p[2]; }
__global__ void divides(float *p) { p[0] = __fdividef(p[0], p[1]); }
__global__ void cuts(float *p) { p[0] = __fadd_rz(p[0], p[1]); }
__global__ void indexes(float *p, int n) {
    float held[64];
    for (int i = 0; i < 64; i++) held[i] = p[i];
    for (int i = 0; i < 64; i++) p[i] = held[i * n & 63];
}
__global__ void negates(int *p) {
    asm("{.reg .s32 t;\n neg.s32 t, %0;\n max.s32 %0, %0, t;\n}" : "+r"(p[0]));
}
EOF
"$nvcc" -std=c++17 -fmad=true -ftz=true -gencode arch=compute_90,code=compute_90 \
    -Xfatbin --compress=false -c "$place/bad.cu" -o "$place/bad.o"
ptx_of "$place/bad.o" >"$place/bad.ptx"
found=$(lint "$place/bad.ptx")
for rule in contracted approximate 'not rounded' 'local memory' 'a maximum'; do
    grep -q "^$rule" <<<"$found" || { echo "no longer found: $rule"; failed=1; }
done

# ---- The kernels ---------------------------------------------------------------------------------
# PITH_PTX_SWEEP: also what becomes of Hopper's in registers, in families with special kernels of
# these, which are to be fast; "all": of all kernels, and what the oldest devices get, not
# optimised: that takes half of the time and keeps the same rules of numbers. Minutes each.
# PITH_PTX_CACHE: a folder of what ptxas has said, by what it read, its flags and its version; of
# the same text it says the same again. What was not used for a month is deleted.
check() { # check NAME PTX...
    local name=$1 count ptx all=0
    shift
    for ptx in "$@"; do
        count=$(grep -cE '(add|sub|mul)\.rn\.f32' "$ptx" || true)
        all=$((all + count))
        found=$(lint "$ptx" "${PITH_PTX_QUICK:-}")
        [ -z "$found" ] || { printf '%s:\n%s\n' "${ptx##*/}" "$found"; failed=1; }
    done
    [ "$all" -gt 100 ] || { echo "$name: only $all sums and products were found"; failed=1; }
    printf '%s: %d files, %d sums and products, each rounded to nearest\n' "$name" $# "$all"
}

families=() held=()
for object in "$folder"/kernels_*.o; do
    family=${object##*/kernels_} family=${family%.o}
    families+=("$family") held+=("$place/$family.ptx")
    ptx_of "$object" >"$place/$family.ptx" || {
        echo "$family has no PTX"
        failed=1
    }
done
check 'as built' "${held[@]}"

if [ -n "${PITH_PTX_SWEEP:-}" ]; then
    compile() { # compile FAMILY FLAG...: for the oldest devices
        local family=$1
        shift
        "$NVCC" "$@" -O1 -Xcicc -O1 "-DPITHI_GPU_$family" "-DPITHI_GPU_FAMILY=$family" \
            -arch=compute_75 -ptx "$GPU/kernels.cu" -o "$PLACE/$family.75.ptx"
    }
    special() { # special PTX: without the general kernels, where there are special ones
        sed -n 's/^PITH_GPU_SPECIAL(\w*, \(\w*\), \(\w*\), \(\w*\))$/kernel_\1_\2_\3/p' \
            "$GPU/device/special.def" | awk '
            NR == FNR { wanted[$1]; next }
            FNR == 1 { pass++ }
            /^\.entry / {
                name = $2; sub(/.*kernel_/, "kernel_", name); sub(/14pithi_.*/, "", name) }
            pass == 1 { some = some || name in wanted; next }
            name == "" || !some || name in wanted
            { line = $0; depth += gsub(/[{]/, "", line) - gsub(/[}]/, "", line) }
            /^}/ && !depth { name = "" }' - "$1" "$1"
    }
    assemble() { # assemble PTX: as the build has it, for Hopper
        local name=${1##*/} from=$1 flags=(-v -arch=sm_90 --fmad false) key kept=
        if [ "$PITH_PTX_SWEEP" != all ]; then
            from=$PLACE/special_$name
            special "$1" >"$from"
        fi
        if [ -n "${PITH_PTX_CACHE:-}" ]; then
            key=$({ "$PTXAS" --version; echo "${flags[@]}"; cat "$from"; } | sha256sum)
            kept=$PITH_PTX_CACHE/${key%% *}
            if [ -s "$kept" ]; then
                touch "$kept"
                cp "$kept" "$PLACE/$name.usage"
                return
            fi
        fi
        "$PTXAS" "${flags[@]}" "$from" -o "$PLACE/$name.cubin" >"$PLACE/$name.usage" 2>&1 ||
            return 1
        [ -z "$kept" ] || { cp "$PLACE/$name.usage" "$kept.$$" && mv "$kept.$$" "$kept"; }
    }
    if [ -n "${PITH_PTX_CACHE:-}" ]; then
        mkdir -p "$PITH_PTX_CACHE"
        find "$PITH_PTX_CACHE" -type f -mtime +30 -delete
    fi
    export -f compile special assemble
    export NVCC=$nvcc PTXAS=${nvcc%nvcc}ptxas PLACE=$place GPU
    GPU=$(realpath "$(dirname "$0")/../../gpu")
    mapfile -t hopper < <(grep -lE '^\.target sm_90$' "${held[@]}")
    [ ${#hopper[@]} = ${#families[@]} ] || { echo 'the build has no PTX for Hopper'; failed=1; }
    if [ "$PITH_PTX_SWEEP" = all ]; then
        printf '%s\0' "${families[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c \
            'compile "$@"' compile {} "$@" || { echo 'nvcc failed'; failed=1; }
        PITH_PTX_QUICK=1 check compute_75 "$place"/*.75.ptx
    fi
    printf '%s\0' "${hopper[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c \
        'assemble "$@"' assemble {} || { echo 'ptxas failed'; failed=1; }
    cat "$place"/*.usage | awk '
        /Compiling entry/ { match($7, /kernel_[a-z_]*/); name = substr($7, RSTART, RLENGTH) }
        /stack frame/ { stack = $1; spilt = $5 + $9 }
        /Used .* registers/ {
            printf "%3d registers, %d bytes of stack, %d spilt: %s\n", $5, stack, spilt, name
            if (stack > 16) bad = 1 # ptxas sets a few values aside to fit more teams
            count++ }
        END { exit bad || !count }' || {
        echo 'sm_90: what should be in registers is not'
        failed=1
    }
fi
exit $failed
