# t_compare.sh - compare: every number of its JSON, undefined ones, and --max-abs.
# SPDX-License-Identifier: Apache-2.0
cat >make.py <<'END'
import json, math, struct
def st(name, tensors):
    head, data = {}, b''
    for key, (dtype, shape, values) in tensors.items():
        span = [len(data), len(data) + len(values)]
        head[key] = {'dtype': dtype, 'shape': shape, 'data_offsets': span}
        data += values
    text = json.dumps(head).encode()
    open(name, 'wb').write(struct.pack('<Q', len(text)) + text + data)
f = lambda *v: struct.pack('<%df' % len(v), *v)
nan, inf = math.nan, math.inf
st('a.safetensors', {'x': ('F32', [4], f(1, 2, 3, 4)), 'i': ('I8', [2], b'\x80\x7f'),
    'n': ('F32', [5], f(nan, inf, -inf, 1, inf)),
    'z': ('F32', [2], f(0, 0)), 'e': ('F32', [0], b''),
    'c': ('C64', [1], f(1, 2))})
st('b.safetensors', {'x': ('F32', [4], f(1, 2, 3, 4.5)), 'i': ('I8', [2], b'\x7f\x80'),
    'n': ('F32', [5], f(nan, inf, inf, nan, 5)),
    'z': ('F32', [2], f(0, 1)), 'e': ('F32', [0], b''),
    'c': ('C64', [1], f(1, 2.5))})
st('one.safetensors', {'x': ('F32', [4], f(1, 2, 3, 4))})
st('p.safetensors', {'x': ('F32', [4], f(1, 2, 3, 4)), 'y': ('F32', [2], f(0, 8))})
st('q.safetensors', {'x': ('F32', [4], f(1, 2, 3, 4.5)), 'y': ('F32', [2], f(0, 8))})
st('bf16.safetensors', {'x': ('BF16', [4], b''.join(f(v)[2:] for v in (1, 2, 3, 4.5)))})
st('u8.safetensors', {'x': ('U8', [2], b'ab')})
st('e8.safetensors', {'x': ('F8_E8M0', [2], b'ab')})
st('flat.safetensors', {'x': ('F32', [2, 2], f(1, 2, 3, 4))})
END
python3 make.py
exits 0 pith compare --json a.safetensors b.safetensors
silent
cat >check.py <<'END'
import json, math
d = json.load(open('out'))
keys = ['max_abs_error', 'nmse', 'psnr_db', 'cosine', 'nonfinite_mismatch', 'differing_bits']
assert list(d) == ['tensors', 'overall'] and list(d['overall']) == keys
t = {r.pop('name'): r for r in d['tensors']}
assert all(list(r) == keys for r in t.values()) and list(t) == ['x', 'i', 'n', 'z', 'e', 'c']
near = lambda a, b: abs(a - b) <= 1e-12 * abs(b)
x = t['x']
assert x['max_abs_error'] == 0.5 and near(x['nmse'], 0.25 / 30) and x['nonfinite_mismatch'] == 0
assert near(x['psnr_db'], 10 * math.log10(9 / (0.25 / 4))) and x['differing_bits'] == 1
assert near(x['cosine'], 32 / math.sqrt(30 * 34.25))
assert t['i']['max_abs_error'] == 255 and t['i']['differing_bits'] == 16
n = t['n']
assert n['nonfinite_mismatch'] == 3 and n['max_abs_error'] == 0
assert n['nmse'] is n['psnr_db'] is n['cosine'] is None
z = t['z']
assert z['max_abs_error'] == 1 and z['nmse'] is z['psnr_db'] is z['cosine'] is None
assert t['e'] == dict.fromkeys(keys, None) | {'max_abs_error': 0, 'nonfinite_mismatch': 0,
                                              'differing_bits': 0}
assert t['c']['max_abs_error'] is None and t['c']['differing_bits'] == 1
o = d['overall']
assert o['max_abs_error'] == 255 and o['nonfinite_mismatch'] == 3
assert o['differing_bits'] == sum(r['differing_bits'] for r in t.values())
END
python3 check.py || die 'a number'

exits 0 pith compare --json p.safetensors q.safetensors
json out "abs(d['overall']['psnr_db'] - 31.864) < 1e-3 and d['tensors'][1]['psnr_db'] is None"
exits 0 pith compare p.safetensors q.safetensors
grep -qE '^x +0\.5 +0\.00833333 +21\.584 +0\.998295384 +0 +1$' out || die "a row: $(cat out)"
exits 0 pith compare --json a.safetensors a.safetensors
json out "d['overall']['differing_bits'] == 0 and d['overall']['max_abs_error'] == 0
    and d['overall']['psnr_db'] is None and d['tensors'][0]['nmse'] == 0"
exits 0 pith compare one.safetensors bf16.safetensors
exits 0 pith compare --json one.safetensors bf16.safetensors
json out "d['overall']['max_abs_error'] == 0.5 and d['overall']['differing_bits'] is None"

# --max-abs
exits 0 pith compare --max-abs 0.5 one.safetensors bf16.safetensors
exits 1 pith compare --max-abs 0.49 one.safetensors bf16.safetensors
says 'largest error'
exits 1 pith compare --max-abs 1e9 a.safetensors b.safetensors
says 'non-finite'
exits 0 pith compare --max-abs 0 a.safetensors a.safetensors

# Values are compared in their logical order, whatever that of the file is.
cat >orders.py <<'END'
import itertools, struct
shape = 3, 4, 5
value = {at: float(100 * at[0] + 10 * at[1] + at[2])
         for at in itertools.product(*map(range, shape))}
def save(name, order, places):
    text = str({'descr': '<f4', 'fortran_order': order, 'shape': shape}).ljust(117) + '\n'
    head = b'\x93NUMPY\1\0' + struct.pack('<H', len(text)) + text.encode()
    open(name, 'wb').write(head + b''.join(struct.pack('<f', value[at]) for at in places))
save('c.npy', False, sorted(value))
save('f.npy', True, sorted(value, key=lambda at: at[::-1]))
END
python3 orders.py
exits 0 pith compare --json c.npy f.npy
json out "d['overall']['differing_bits'] == 0 and d['overall']['max_abs_error'] == 0"

# Other sets of tensors, other shapes.
exits 1 pith compare a.safetensors one.safetensors
exits 1 pith compare one.safetensors a.safetensors
exits 1 pith compare one.safetensors flat.safetensors
exits 1 pith compare u8.safetensors e8.safetensors
says 'pith: e8.safetensors: x: another dtype'
exits 1 pith compare e8.safetensors u8.safetensors
says 'pith: u8.safetensors: x: another dtype'
exits 1 pith compare one.safetensors "$DATA/npy/f32.npy"
exits 1 pith compare "$DATA/npy/f32.npy" "$DATA/npy/f32_other_shape.npy"
# The message has what was found and what the reference is.
cat >others.py <<'END'
import struct
for name, descr, shape in ('pair', '<f4', (2,)), ('row', '<f4', (1, 2)), ('whole', '<i4', (2,)):
    text = str({'descr': descr, 'fortran_order': False, 'shape': shape}).ljust(117) + '\n'
    head = b'\x93NUMPY\1\0' + struct.pack('<H', len(text)) + text.encode()
    open(name + '.npy', 'wb').write(head + bytes(8))
END
python3 others.py
exits 1 pith compare pair.npy row.npy
says 'row.npy: (unnamed): another shape, 1x2 instead of 2'
exits 1 pith compare pair.npy whole.npy
says 'whole.npy: (unnamed): another dtype, i32 instead of f32'
exits 0 pith compress -q pair.npy
exits 1 pith compare pair.npy pair.npy.pith
says 'pair.npy.pith: is already compressed by pith; pith decompress restores it'
rm others.py pair.npy pair.npy.pith row.npy whole.npy
exits 1 pith compare "$DATA/npy/f32.npy" "$DATA/npy/u4_big.npy"
exits 1 pith compare "$DATA/npy/f32.npy" nowhere.npy

# Byte order is not a difference; the order of elements is taken into account.
exits 0 pith compare --max-abs 0 "$DATA/npy/f32.npy" "$DATA/npy/f32_big.npy"
exits 0 pith compare --json "$DATA/npy/f32.npy" "$DATA/npy/f32_fortran.npy"
json out "d['overall']['max_abs_error'] > 0"
exits 0 pith compare --json --dtype bf16 "$DATA/npy/bf16_u2.npy" "$DATA/npy/bf16_u2_step.npy"
json out "d['overall']['max_abs_error'] < 0.01"

# Values of 8 and 16 bits, 0 against the number of each row: subnormals, the least normal number and
# the largest number, with the sign of the last.
cat >small.py <<'END'
import json, os, subprocess
rows = {'f16': [(0x0001, 2**-24), (0x03ff, 1023 * 2**-24), (0x0400, 2**-14), (0xfbff, 65504)],
        'bf16': [(0x0001, 2**-133), (0x0080, 2**-126), (0xc040, 3)],
        'f8e5m2': [(0x01, 2**-16), (0x03, 3 * 2**-16), (0x04, 2**-14), (0xfb, 57344)],
        'f8e4m3': [(0x01, 2**-9), (0x07, 7 * 2**-9), (0x08, 2**-6), (0xfe, 448)]}
for dtype, numbers in rows.items():
    for bits, value in numbers:
        item = 1 if dtype.startswith('f8') else 2
        open('zero', 'wb').write(bytes(item))
        open('number', 'wb').write(bits.to_bytes(item, 'little'))
        text = subprocess.run([os.environ['PITH'], 'compare', '--json', '--dtype', dtype,
                               '--shape', '1', 'zero', 'number'], check=True, capture_output=True)
        got = json.loads(text.stdout)['overall']['max_abs_error']
        assert got == value, (dtype, hex(bits), got, value)
END
python3 small.py || die 'a small float'

# Integers that are the same as doubles differ.
python3 - <<'END'
import struct
for name, values in (('i1', (1 << 53, -(1 << 63))), ('i2', ((1 << 53) + 1, -(1 << 63) + 1)),
                     ('i3', (1 << 53, (1 << 63) - 1))):
    open(name, 'wb').write(struct.pack('<2q', *values))
END
exits 1 pith compare --max-abs 0 --dtype i64 --shape 2 i1 i2
exits 0 pith compare --max-abs 1 --json --dtype i64 --shape 2 i1 i2
json out "d['overall']['max_abs_error'] == 1 and d['overall']['nmse'] > 0"
exits 0 pith compare --json --dtype i64 --shape 2 i1 i3
json out "d['overall']['max_abs_error'] == 2.0 ** 64"
exits 1 pith compare --max-abs 0 --dtype u64 --shape 2 i1 i2
