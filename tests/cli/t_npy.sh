# t_npy.sh - every kind of .npy file comes back byte for byte.
# SPDX-License-Identifier: Apache-2.0
for file in "$DATA"/npy/*.npy; do
    round_trip "$file"
done
round_trip "$DATA/npy/f32.npy" -C raw
round_trip "$DATA/npy/f32_big_fortran.npy" -C lossless:effort=1
cp "$DATA/npy/f32_big_fortran.npy" x.npy
exits 0 pith compress --json x.npy
json out "d['tensors'][0]['shape'] == [4, 5, 60] and d['tensors'][0]['dtype'] == 'f32'"

# Frames hold values in C order and the machine's byte order: all four spellings decode alike.
for name in f32 f32_big; do
    exits 0 pith compress -o $name.pith "$DATA/npy/$name.npy"
done
[ "$(stat -c %s f32.pith)" = "$(stat -c %s f32_big.pith)" ] || die 'byte order changes the size'

# A header of more than 64 KiB, whose length takes three bytes.
cat >long.py <<'END'
import struct
text = str({'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}).ljust(70003) + '\n'
head = b'\x93NUMPY\2\0' + struct.pack('<I', len(text))
open('x.npy', 'wb').write(head + text.encode() + bytes(24))
END
python3 long.py
rm long.py
round_trip x.npy
json trip.json "d['tensors'][0]['shape'] == [3, 2]"

# bf16 hides in unsigned and void items.
for name in bf16_u2 bf16_v2; do
    round_trip "$DATA/npy/$name.npy" --dtype bf16
    json trip.json "d['tensors'][0]['dtype'] == 'bf16' and d['tensors'][0]['shape'] == [40, 30]"
done
for command in 'compress -o y.pith' 'compare f32.npy'; do
    cp "$DATA/npy/f32.npy" .
    exits 1 pith $command --dtype bf16 f32.npy
    says 'f32.npy: --dtype bf16 does not fit this .npy file, whose header says f32: only unsigned'
done
rm f32.npy
exits 0 pith compress --dtype f32 -q -o y.pith "$DATA/npy/f32.npy"
for file in "$DATA"/npy_bad/*.npy; do
    exits 1 pith compress -o bad.pith "$file"
    says "$file"
    [ ! -e bad.pith ] || die "an output for $file"
done
exits 1 pith compress -o bad.pith "$DATA/npy_bad/object.npy"
says 'Python objects'
only x.npy x.npy.pith f32.pith f32_big.pith y.pith trip.json
