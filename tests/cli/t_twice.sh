# t_twice.sh - a .safetensors that pith had compressed was compressed again, with exit 0: scripts
# that went over a folder twice got x.pith.safetensors.pith.safetensors.
# SPDX-License-Identifier: Apache-2.0
cp "$DATA/st/next.safetensors" m.safetensors
cp "$DATA/npy/f32.npy" a.npy
exits 0 pith compress -q m.safetensors
exits 0 pith compress -q a.npy
packed=m.safetensors.pith.safetensors
for flags in "" "-q" "-C eb:rel=0.1" "-o x" "-o -"; do
    exits 1 pith compress $flags $packed
    says "pith: $packed: is already compressed by pith; -f compresses it again"
    [ ! -s out ] || die 'something on stdout'
done
exits 1 pith compress - <$packed
says 'standard input: is already compressed'
only m.safetensors a.npy $packed a.npy.pith

# With -f it is, and comes back.
exits 0 pith compress -q -f -o x $packed
exits 0 pith decompress -q -o y x
same y $packed
rm x y

# A frame is bytes like others only to who says so.
for flags in "" "-f" "--dtype u8"; do
    exits 1 pith compress $flags -o x a.npy.pith
    says 'pith: a.npy.pith: is already compressed by pith'
done
exits 0 pith compress -q --dtype u8 --shape $(stat -c %s a.npy.pith) -o x a.npy.pith
exits 0 pith decompress -q -o y x
same y a.npy.pith

# Metadata of others that only looks alike.
python3 - <<'END'
import struct
text = b'{"__metadata__":{"pith.org":"1"},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
open('z', 'wb').write(struct.pack('<Q', len(text)) + text + b'x')
END
exits 0 pith compress -q -o zz z
only m.safetensors a.npy $packed a.npy.pith x y z zz
