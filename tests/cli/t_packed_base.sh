# t_packed_base.sh - a base, or one of two files to compare, that was itself compressed was said to
# have tensors of another shape.
# SPDX-License-Identifier: Apache-2.0
cp "$DATA/st/base.safetensors" b.safetensors
cp "$DATA/st/next.safetensors" n.safetensors
cp "$DATA/npy/f32.npy" a.npy
exits 0 pith compress -q b.safetensors
exits 0 pith compress -q a.npy
bp=b.safetensors.pith.safetensors
refused() {
    exits 1 pith "$@"
    says "pith: $bp: is compressed by pith; decompress it first"
}
refused compress -C wdiff --base $bp -o x n.safetensors
refused compare b.safetensors $bp
refused compare $bp b.safetensors
exits 0 pith compress -q --base b.safetensors -o n.p n.safetensors
refused decompress --base $bp -o x n.p
refused test --base $bp n.p
for command in "compress --base a.npy.pith -o x $DATA/npy/f32_step.npy" \
    "compare a.npy a.npy.pith"; do
    exits 1 pith $command
    says 'a.npy.pith: is already compressed by pith'
done

# Compressed files as such may be compared, and be each other's base.
exits 0 pith compare --max-abs 0 $bp $bp
exits 0 pith compress -q -f --base $bp -o twice $bp
exits 0 pith decompress -q --base $bp -o once twice
same once $bp
exits 1 pith decompress -q --base b.safetensors -o again twice
only b.safetensors n.safetensors a.npy a.npy.pith $bp n.p twice once
