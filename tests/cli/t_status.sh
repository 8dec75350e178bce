# t_status.sh - some misfits of --dtype and --shape were usage errors and some failures: 2 is for
# what is wrong whatever the files hold, 1 for what depends on them.
# SPDX-License-Identifier: Apache-2.0
N=$DATA/npy S=$DATA/st
cp "$DATA/raw/f32.bin" raw
cp "$N/f32.npy" a.npy
cp "$S/base.safetensors" a.safetensors

# Usage: no such file is ever opened.
for arguments in "--shape 3" "--dtype f32 --shape 4294967296x4294967296" \
    "--dtype f64 --shape 1152921504606846976" "--dtype u8 --shape 18446744073709551615" \
    "--dtype u8 --shape 18446744073709551616" "--dtype u8 --shape -1" "--dtype u8 --shape 3,4" \
    "--dtype u8 --shape x" "--dtype u8 --shape 3x" "--dtype u8 --shape 1x1x1x1x1x1x1x1x1" \
    "--dtype F32" "--dtype ''"; do
    exits 2 pith compress $arguments -o x nowhere
    exits 2 pith compare $arguments nowhere nowhere
    [ ! -s out ] || die 'something on stdout'
done
exits 2 pith compress --dtype u8 --shape 18446744073709551615 -o x raw
says 'no file can have so many bytes as --dtype and --shape say'

# The files: each of these fits another file.
for arguments in "--dtype f32 a.safetensors" "--dtype bf16 a.npy" "--dtype f64 a.npy" \
    "--dtype u32 a.npy" "--dtype f32 raw" "--dtype f32 --shape 40x31 raw" \
    "--dtype f32 --shape 40x29 raw" "--dtype f64 --shape 40x30 raw" \
    "--dtype u8 --shape scalar raw" \
    "--dtype f32 --shape 40x30 a.npy" "--dtype f32 --shape 40x30 a.safetensors" \
    "--dtype f64 --shape 1152921504606846975 raw" "--dtype f32 --shape 40x30 nowhere" raw; do
    exits 1 pith compress -o x $arguments
    says "pith: ${arguments##* }: "
    exits 1 pith compare $arguments ${arguments##* }
    says "pith: ${arguments##* }: "
done
exits 1 pith compare --dtype f32 a.npy a.safetensors
exits 1 pith compare --dtype f32 a.safetensors a.npy
exits 1 pith compress --dtype u16 -o x "$N/i2_little.npy"
exits 0 pith compress -q --dtype bf16 -o x "$N/bf16_u2.npy"
exits 1 pith compress -q --dtype f32 -o y "$N/bf16_u2.npy"
exits 1 pith compress -q --dtype bf16 -o y --base raw "$N/bf16_u2.npy"

# The rest of the rule.
exits 2 pith decompress nowhere.odd
says 'the name does not end in .pith or .pith.safetensors; give the output with -o'
exits 1 pith decompress nowhere.pith
exits 0 pith compress -q -o odd.pith a.safetensors
exits 1 pith decompress odd.pith
says 'odd.pith: holds a container, but its name does not end in .pith.safetensors'
mv x odd.pith.safetensors
exits 1 pith decompress odd.pith.safetensors
says 'holds a frame, but its name does not end in .pith;'
mv odd.pith.safetensors x
rm odd.pith
exits 2 pith decompress --base - nowhere.pith
exits 1 pith decompress -o y raw
exits 1 pith decompress -q --base nowhere -o raw x
says 'exists'
exits 2 pith compress -C nothing nowhere
exits 2 pith compress -C wdiff nowhere
exits 1 pith compress -C wdiff --base nowhere a.npy
exits 1 pith bench --quick nowhere
exits 1 pith inspect nowhere
exits 1 pith test raw
only raw a.npy a.safetensors x
