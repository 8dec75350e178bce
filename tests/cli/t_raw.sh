# t_raw.sh - raw bytes with --dtype and --shape.
# SPDX-License-Identifier: Apache-2.0
round_trip "$DATA/raw/f32.bin" --dtype f32 --shape 40x30
json trip.json "d['tensors'] == [{**d['tensors'][0], 'name': '', 'dtype': 'f32', 'shape': [40, 30],
    'raw_bytes': 4800, 'codec': 'lossless', 'spec': 'lossless:dim=30', 'error_bound': 0}]"
round_trip "$DATA/raw/bf16.bin" --dtype bf16 --shape 1200
round_trip "$DATA/raw/empty.bin" --dtype f32 --shape 0x3
json trip.json "d['tensors'][0]['bits_per_value'] is None and d['raw_bytes'] == 0"
head -c 4 "$DATA/raw/f32.bin" >scalar.bin
round_trip scalar.bin --dtype f32 --shape scalar
json trip.json "d['tensors'][0]['shape'] == []"

# A shape means raw, whatever the bytes look like.
size=$(stat -c %s "$DATA/npy/f32.npy")
round_trip "$DATA/npy/f32.npy" --dtype u8 --shape "$size"

exits 1 pith compress -o x "$DATA/raw/f32.bin"
says '--dtype'
exits 1 pith compress --dtype f32 -o x "$DATA/raw/f32.bin"
says '--shape'
exits 1 pith compress --dtype f32 --shape 40x31 -o x "$DATA/raw/f32.bin"
says 'do not fit'
exits 2 pith compress --dtype f32 --shape 4294967296x4294967296 -o x "$DATA/raw/f32.bin"
exits 0 pith compress --dtype f32 --shape 40x30 -q -C wdiff --base "$DATA/raw/f32.bin" -o x \
    "$DATA/raw/f32_step.bin"
exits 0 pith decompress --base "$DATA/raw/f32.bin" -q -o y x
exits 0 pith compare --dtype f32 --shape 40x30 --json "$DATA/raw/f32_step.bin" y
json out "0 < d['overall']['max_abs_error'] < 1e-4"
only scalar.bin x y trip.json
