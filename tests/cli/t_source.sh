# t_source.sh - a frame whose source is no .npy header, as other programs may write, is raw bytes.
# SPDX-License-Identifier: Apache-2.0
exits 0 pith compress -q -C raw -o npy.pith "$DATA/npy/f32.npy"
cat >forge.py <<'END'
import os, sys
sys.path.insert(0, os.environ['HERE'])
sys.dont_write_bytecode = True
from xxh64 import xxh64
frame = bytearray(open('npy.pith', 'rb').read())
sections = int.from_bytes(frame[12:16], 'little')
seal = lambda: xxh64(bytes(frame[64:64 + sections]), xxh64(bytes(frame[:56])))
assert seal() == int.from_bytes(frame[56:64], 'little')
for name, text in (('text', b'no such magic'), ('cut', b'\x93NUMPY\x01\x00\xff\xff')):
    frame[72:72 + len(text)] = text
    frame[56:64] = seal().to_bytes(8, 'little')
    open(name + '.pith', 'wb').write(frame)
END
python3 forge.py || die 'cannot forge'
for name in text cut; do
    exits 0 pith inspect $name.pith
    exits 0 pith test $name.pith
    exits 0 pith decompress $name.pith
    cmp $name <(tail -c "$(stat -c %s $name)" "$DATA/npy/f32.npy") || die 'other values'
done
[ "$(stat -c %s text)" = 4800 ] || die 'not the raw bytes'
