# t_safetensors.sh - every legal .safetensors comes back byte for byte, every bad one is refused.
# SPDX-License-Identifier: Apache-2.0
for file in "$DATA"/st/*.safetensors; do
    round_trip "$file"
    round_trip "$file" -C raw
done

# The output is a valid .safetensors of U8 tensors with the same names, in the order of the data.
cp "$DATA/st/every.safetensors" "$DATA/st/order.safetensors" .
exits 0 pith compress every.safetensors
exits 0 pith compress order.safetensors
cat >check.py <<'END'
import json, struct, sys
def read(path):
    data = open(path, 'rb').read()
    n = struct.unpack('<Q', data[:8])[0]
    assert n % 8 == 0 or 'pith' not in path
    return json.loads(data[8:8 + n]), data[8 + n:], data[8:8 + n].decode()
for name in ('every', 'order'):
    head, data, text = read(name + '.safetensors')
    packed, frames, _ = read(name + '.safetensors.pith.safetensors')
    meta = packed.pop('__metadata__')
    assert all(isinstance(v, str) for v in meta.values())
    assert meta['pith'] == '1' and meta['pith.header'] == text
    head.pop('__metadata__', None)
    order = sorted(head, key=lambda k: (head[k]['data_offsets'], k))
    assert list(packed) == order, (list(packed), order)
    at = 0
    for t in packed.values():
        assert t['dtype'] == 'U8' and t['data_offsets'][0] == at
        assert t['shape'] == [t['data_offsets'][1] - at]
        at = t['data_offsets'][1]
    assert at == len(frames)
END
python3 check.py || die 'not a valid container'

# A compressed file is a .safetensors like any other.
round_trip every.safetensors.pith.safetensors -f
for file in "$DATA"/st_bad/*.safetensors; do
    exits 1 pith compress -o bad.safetensors "$file"
    says "$file"
    [ ! -e bad.safetensors ] || die "an output for $file"
done
exits 1 pith compress --dtype f32 -o bad every.safetensors
only every.safetensors order.safetensors every.safetensors.pith.safetensors \
    order.safetensors.pith.safetensors check.py trip.json
