#!/usr/bin/env bash
# check_style.sh: the rules of the house that a machine can check.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C
failed=0

expect_none() { # expect_none TITLE, lines on stdin
    local lines
    lines=$(head -n 20)
    [ -n "$lines" ] || return 0
    printf '%s:\n%s\n' "$1" "$lines"
    failed=1
}

places=()
for place in include codec gpu cli adapters bench fuzz python tests tools; do
    [ -d "$place" ] && places+=("$place")
done
listed() { find "${places[@]}" -type f -regextype posix-extended -regex "$1" | sort; }
mapfile -t c_files < <(listed '.*\.([ch]|cc|cpp|hpp|cu)')
mapfile -t scripts < <(listed '.*\.(sh|py)')
scripts+=(dev .ci/run)
mapfile -t others < <(listed '.*(\.def|\.md|\.1|/meson[a-z_.]*)' | grep -v '/golden')
others+=(meson.build meson_options.txt ./*.md doc/*.md)
all=("${c_files[@]}" "${scripts[@]}" "${others[@]}")
[ ${#c_files[@]} -gt 20 ] || { echo 'the sources were not found'; exit 1; }

# ---- Text ----------------------------------------------------------------------------------------
expect_none 'tabs, carriage returns or non-ASCII characters' < <(grep -nE '[^ -~]' "${all[@]}")
expect_none 'blanks at the end of a line' < <(grep -nE ' +$' "${all[@]}")
expect_none 'over 100 columns' < <(grep -nE '^.{101}' "${c_files[@]}" "${scripts[@]}")
expect_none 'no newline at the end' < <(
    for file in "${all[@]}"; do
        [ -z "$(tail -c 1 "$file")" ] || echo "$file"
    done)
expect_none 'no SPDX line near the top' < <(
    for file in "${c_files[@]}" "${scripts[@]}"; do
        head -n 5 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file"
    done)
marks='TO''DO|FIX''ME|\bXX''X\b|not imple''mented|unimple''mented'
expect_none 'unfinished marks' < <(grep -nE "$marks" "${c_files[@]}" "${scripts[@]}")

# ---- Includes: include <- codec <- gpu <- {cli, adapters, bench} ---------------------------------
includes() { # FILE:"what or FILE:<what
    find "$@" -type f -name '*.[ch]' -exec grep -HoE '^ *# *include +["<][^">]+' {} + |
        sed -E 's/: *# *include +/:/'
}
foreign() { # what is neither public, nor of the system, nor in the includer's own folder
    local file what
    while IFS=: read -r file what; do
        case $what in
        '"pith/'* | '<'*) ;;
        '"..'*) printf '%s: %s\n' "$file" "${what#\"}" ;;
        *) [ -f "$(dirname "$file")/${what#\"}" ] || printf '%s: %s\n' "$file" "${what#\"}" ;;
        esac
    done
}
expect_none 'a public header includes more than stddef.h, stdint.h and pith/' < <(
    includes include | grep -vE ':(<std(def|int)\.h|"pith/)')
expect_none 'only pith/*.h and headers of the own folder may be included here' < <(
    for place in cli adapters; do
        [ ! -d $place ] || includes $place | foreign
    done)
expect_none 'the library includes what stands on top of it' < <(
    includes codec | grep -E '"(\.\./)*(gpu|cli|adapters|tests|bench|fuzz)/')
# Families plug into the framework by hooks (codec.h, frame_hooks.h). What they add to its table of
# kernels, its structs and the tables of devices is in three headers.
read_framework() { # FILE:text without comments, of all of the framework but these and the registry
    local file
    for file in codec/*.[ch]; do
        case $file in
        codec/kernels.h | codec/families.h | codec/device_plan.h | codec/registry.c) ;;
        *) sed -zE 's,/\*([^*]|\*+[^*/])*\*+/,,g' "$file" | sed "s,^,$file:," ;;
        esac
    done
}
text=$(read_framework)
framework() { printf '%s\n' "$text"; }
families=$(find codec -mindepth 1 -maxdepth 1 -type d ! -name common -printf '%f|' | sed 's/|$//')
codecs=$(sed -nE 's/^PITH_CODEC\([0-9]+, (\w+)\)$/\1/p' codec/registry.def | paste -sd '|')
expect_none 'the framework includes a header of a family' < <(
    framework | grep -E "# *include +\"($families)/")
expect_none 'the framework names a codec' < <(
    framework | grep -E "pithi_codec_($codecs)\\b|\"($codecs)\"")
# Codecs have keys, frames and blocks in common; these are words of single families. Sentences for
# the caller may have them (all strings are taken out), and the file that binds kernels.
words='heads|outliers|tokens|bounded|sparse|codebook|rotation|trellis|lorenzo|interp'
expect_none 'the framework has a word of a family' < <(
    framework | grep -v '^codec/kernels\.c:' | sed -E 's/"([^"\\]|\\.)*"//g; s/\w*check_heads//g' |
        grep -E "\b(\w*_)?($words)(_\w*)?\b|\bpithi_(kv|group|sets?|selection)_")
expect_none 'the framework asks for a flag of a family' < <(
    framework | grep -E 'PITH_(SAME|HELD)_SET' | grep -v '\.flags = ')
# A key has the meaning of its codec, which alone knows what it was called before.
expect_none 'the framework has the name of a key' < <(
    framework | grep -E '"(effort|level|scale|scale_dtype|identity|base_hash|key|key_every)"')
expect_none 'a codec includes another codec' < <(
    includes codec/codecs | grep -E '"codecs/')
expect_none 'a kernel includes more than kernels.h, cpu.h, common/ and its own folder' < <(
    for place in bytes common group predict sparse; do
        find codec/$place -regextype posix-extended -regex '.*_(tmpl|avx2|avx512|neon)\.[ch]' \
            -exec grep -HoE '^ *# *include +"[^"]+' {} + | sed -E 's/: *# *include +/:/' |
            grep -vE ":\"(kernels\.h|cpu\.h|common/.*|$place/.*)$"
    done)

# ---- Commands ------------------------------------------------------------------------------------
expect_none 'a command of ./dev help that ./dev has not' < <(
    sed -n "/^usage: /,/^END/s/^  \\([a-z]\\+\\) .*/\\1/p" dev | sort -u | while read -r command; do
        [ "$command" = help ] || grep -q "^cmd_$command()" dev || echo "$command"
    done)

# ---- What the library must not do ----------------------------------------------------------------
calls='getenv|[a-z]*printf|f?puts|_?exit|abort|assert|malloc|calloc|realloc|alloca'
expect_none 'the library must not print, exit, assert, allocate or read the environment' < <(
    find codec -name '*.[ch]' -exec grep -nE "\b($calls)\(" {} +)
exit $failed
