# t_inspect.sh - the JSON of inspect, compress and codecs.
# SPDX-License-Identifier: Apache-2.0
cp "$DATA/st/every.safetensors" m.safetensors
exits 0 pith compress --json m.safetensors
cp out compress.json
exits 0 pith inspect --json m.safetensors.pith.safetensors
same out compress.json
cat >check.py <<'END'
import json, os
d = json.load(open('compress.json'))
assert list(d) == ['tensors', 'raw_bytes', 'bytes']
keys = ['name', 'codec', 'spec', 'dtype', 'shape', 'raw_bytes', 'bytes', 'bits_per_value',
        'error_bound']
assert all(list(t) == keys for t in d['tensors'])
t = {t['name']: t for t in d['tensors']}
assert t['layer.weight']['shape'] == [64, 32] and t['layer.weight']['dtype'] == 'f32'
assert t['half']['dtype'] == 'bf16' and t['scalar']['shape'] == [] and t['none']['shape'] == [0, 4]
assert t['none']['bits_per_value'] is None and t['half']['error_bound'] == 0
assert t['e4m3']['dtype'] == 'f8e4m3' and t['f6']['dtype'] == 'u8' and t['f6']['shape'] == [3]
for r in t.values():
    n = r['raw_bytes'] // {'f32': 4, 'bf16': 2}.get(r['dtype'], 1)
    if r['dtype'] in ('f32', 'bf16') and n:
        assert abs(r['bits_per_value'] - 8 * r['bytes'] / n) < 1e-9
assert d['raw_bytes'] == sum(r['raw_bytes'] for r in t.values())
assert d['bytes'] == os.path.getsize('m.safetensors.pith.safetensors')
END
python3 check.py || die 'the JSON of inspect'
exits 0 pith inspect m.safetensors.pith.safetensors
grep -q 'layer.weight .*f32 .*64x32 .*lossless' out || die 'the table'
grep -qE '^scalar +f32 +scalar +' out || die "a shape without dimensions: $(cat out)"
exits 0 pith codecs --json
json out "[c['name'] for c in d['codecs']][:3] == ['raw', 'lossless', 'wdiff'] and
    all(set(k) == {'name', 'values', 'default', 'summary'} for c in d['codecs'] for k in c['keys'])"
exits 0 pith codecs
grep -q 'bits=' out || die 'the keys'
# A name with control characters does not reach the terminal.
python3 - <<'END'
import struct
text = b'{"a\\u001b[31mb":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
open('c.safetensors', 'wb').write(struct.pack('<Q', len(text)) + text + b'x')
END
exits 0 pith compress -q c.safetensors
exits 0 pith inspect c.safetensors.pith.safetensors
! grep -q "$(printf '\033')" out || die 'an escape on the terminal'
