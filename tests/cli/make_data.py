"""make_data.py - writes the input files of the command line's tests; needs no NumPy.

SPDX-License-Identifier: Apache-2.0
"""
import json
import math
import os
import random
import struct
import sys

OUT = sys.argv[1]
random.seed(1)


def write(name, data):
    os.makedirs(os.path.dirname(os.path.join(OUT, name)), exist_ok=True)
    with open(os.path.join(OUT, name), 'wb') as f:
        f.write(data)


def npy_header(descr, shape, fortran=False, version=1, text=None):
    if text is None:
        quoted = descr if descr.startswith(('[', '(')) else repr(descr)
        text = "{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (quoted, fortran, shape)
    size = 2 if version == 1 else 4
    total = 8 + size + len(text) + 1
    text += ' ' * (-total % 64) + '\n'
    text = text.encode('utf-8')
    return (b'\x93NUMPY' + bytes([version, 0]) +
            struct.pack('<H' if size == 2 else '<I', len(text)) + text)


def npy(name, descr, shape, data, **more):
    write(name, npy_header(descr, shape, **more) + data)


def st_text(tensors, metadata=None, pad=8):
    head, at = {}, 0
    if metadata is not None:
        head['__metadata__'] = metadata
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head, separators=(',', ':'), ensure_ascii=False).encode('utf-8')
    return text + b' ' * (-len(text) % pad)


def st_file(text, data):
    return struct.pack('<Q', len(text)) + text + data


def safetensors(name, tensors, metadata=None, pad=8):
    write(name, st_file(st_text(tensors, metadata, pad),
                        b''.join(t[2] for t in tensors.values())))


def f32(values, order='<'):
    return struct.pack('%s%df' % (order, len(values)), *values)


def bf16(values):
    return b''.join(f32([v])[2:] for v in values)


def gauss(n, scale=0.02):
    return [random.gauss(0, scale) for _ in range(n)]


def noise(n):
    return bytes(random.getrandbits(8) for _ in range(n))


def step(values, scale=2e-5):
    return [v + random.gauss(0, scale) for v in values]


# ---- .npy ------------------------------------------------------------------------------------

w = gauss(40 * 30)
npy('npy/f32.npy', '<f4', (40, 30), f32(w))
npy('npy/f32_v2.npy', '<f4', (40, 30), f32(w), version=2)
npy('npy/f32_v3.npy', '<f4', (40, 30), f32(w), version=3)
npy('npy/f32_big.npy', '>f4', (40, 30), f32(w, '>'))
npy('npy/f32_fortran.npy', '<f4', (40, 30), f32(w), fortran=True)
npy('npy/f32_big_fortran.npy', '>f4', (4, 5, 60), f32(w, '>'), fortran=True)
npy('npy/f32_1d.npy', '<f4', (1200,), f32(w))
npy('npy/f32_0d.npy', '<f4', (), f32(w[:1]))
npy('npy/f32_one.npy', '<f4', (1,), f32(w[:1]))
npy('npy/f32_empty.npy', '<f4', (0,), b'')
npy('npy/f32_empty_3d.npy', '<f4', (3, 0, 5), b'', fortran=True)
npy('npy/f32_special.npy', '<f4', (2, 4), f32([math.nan, math.inf, -math.inf, -0.0, 1e-45, 3e38,
                                                1.0, -1.0]))
npy('npy/f32_9d.npy', '<f4', (1, 2, 1, 2, 1, 2, 1, 2, 3), f32(w[:48]))
npy('npy/f32_9d_fortran.npy', '>f4', (1, 2, 1, 2, 1, 2, 1, 2, 3), f32(w[:48]), fortran=True)
npy('npy/f32_9d_flat.npy', '<f4', (48,), f32(w[:48]))
npy('npy/f64.npy', '<f8', (10, 10), struct.pack('<100d', *w[:100]))
npy('npy/f16.npy', '<f2', (10, 10), struct.pack('<100e', *w[:100]))
npy('npy/f16_big.npy', '>f2', (10, 10), struct.pack('>100e', *w[:100]))
npy('npy/longdouble.npy', '<f16', (3,), bytes(range(48)))
npy('npy/c8.npy', '<c8', (5, 2), f32(w[:20]))
npy('npy/c16_big.npy', '>c16', (5,), struct.pack('>10d', *w[:10]))
npy('npy/bool.npy', '|b1', (6,), bytes([0, 1, 1, 0, 1, 0]))
for code, size in (('i', 1), ('i', 2), ('i', 4), ('i', 8), ('u', 1), ('u', 2), ('u', 4), ('u', 8)):
    for order in ('<', '>') if size > 1 else ('|',):
        npy('npy/%s%d_%s.npy' % (code, size, {'<': 'little', '>': 'big', '|': 'byte'}[order]),
            '%s%s%d' % (order, code, size), (7, 3), noise(21 * size))
npy('npy/str.npy', '<U3', (4,), 'abcdefghijkl'.encode('utf-32-le'))
npy('npy/bytes.npy', '|S5', (3,), b'hello' * 3)
npy('npy/bytes_none.npy', '|S0', (3,), b'')
npy('npy/date.npy', '<M8[ns]', (2,), bytes(16))
npy('npy/void.npy', '|V3', (4,), bytes(range(12)))
npy('npy/record.npy', "[('x', '<f4'), ('y', '<i2', (2, 3)), (('title', 'z'), [('a', '|u1')])]",
    (3,), bytes(range(51)))
npy('npy/record_v3.npy', "[('\u03b1', '<f4')]", (2,), bytes(8), version=3)
npy('npy/python2.npy', '', (), f32(w[:6]),
    text="{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }")
npy('npy/odd_spaces.npy', '', (), f32(w[:6]),
    text='{"shape":( 2 ,3, ) , "fortran_order":False,"descr" : "<f4"}')
npy('npy/bf16_u2.npy', '<u2', (40, 30), bf16(w))
npy('npy/bf16_v2.npy', '|V2', (40, 30), bf16(w))
npy('npy/bf16_u2_step.npy', '<u2', (40, 30), bf16(step(w, 2e-4)))
npy('npy/f32_step.npy', '<f4', (40, 30), f32(step(w)))
npy('npy/f32_other_shape.npy', '<f4', (30, 40), f32(w))

good = npy_header('<f4', (2,))
bad = {
    'object': npy_header('|O', (2,)) + bytes(16),
    'object_field': npy_header("[('a', '|O')]", (2,)) + bytes(16),
    'version_4': good[:6] + b'\x04' + good[7:] + bytes(8),
    'version_1_1': good[:7] + b'\x01' + good[8:] + bytes(8),
    'short_data': good + bytes(7),
    'long_data': good + bytes(9),
    'cut_header': good[:40],
    'cut_length': good[:9],
    'cut_magic': good[:5],
    'nothing': b'',
    'huge_header': b'\x93NUMPY\x02\x00\xff\xff\xff\x7f' + bytes(64),
}
texts = {
    'not_dict': "['descr']",
    'no_descr': "{'fortran_order': False, 'shape': (2,), }",
    'extra_key': "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
    'twice': "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
    'negative': "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
    'not_tuple': "{'descr': '<f4', 'fortran_order': False, 'shape': (2), }",
    'code': "{'descr': '<f4', 'fortran_order': False, 'shape': (1+1,), }",
    'call': "{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (2,), }",
    'bool': "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }",
    'overflow': "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
    'hidden': "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }",
    'digits': "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
    'trailing': "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x",
    'unclosed': "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), ",
    'string': "{'descr': '<f4",
    'item': "{'descr': '<f4x', 'fortran_order': False, 'shape': (2,), }",
    'letter': "{'descr': '<q4', 'fortran_order': False, 'shape': (2,), }",
    'size': "{'descr': '|V99999999999', 'fortran_order': False, 'shape': (2,), }",
    'dims': "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % ('1, ' * 65),
    'nested': "{'descr': %s'<f4'%s, 'fortran_order': False, 'shape': (2,), }" % (
        "[('a', " * 40, ')]' * 40),
    'deep': '(' * 60000,
}
for name, text in texts.items():
    bad[name] = npy_header('', (), text=text) + bytes(8)
for name, data in bad.items():
    write('npy_bad/%s.npy' % name, data)

# ---- .safetensors ----------------------------------------------------------------------------

a, b = gauss(64 * 32), gauss(48 * 16)
every = {
    'layer.weight': ('F32', [64, 32], f32(a)),
    'layer.bias': ('F32', [32], f32(a[:32])),
    'half': ('BF16', [48, 16], bf16(b)),
    'f16': ('F16', [4, 2], struct.pack('<8e', *b[:8])),
    'f64': ('F64', [2, 2], struct.pack('<4d', *b[:4])),
    'scalar': ('F32', [], f32([1.5])),
    'none': ('F32', [0, 4], b''),
    'also none': ('I64', [0], b''),
    'steps': ('I64', [2], struct.pack('<2q', 1, -1)),
    'i32': ('I32', [3], struct.pack('<3i', 1, -1, 7)),
    'i16': ('I16', [3], struct.pack('<3h', 1, -1, 7)),
    'i8': ('I8', [3], b'\x01\xff\x07'),
    'u64': ('U64', [1], b'\xff' * 8),
    'u32': ('U32', [1], b'\xff' * 4),
    'u16': ('U16', [1], b'\xff' * 2),
    'u8': ('U8', [5], bytes(5)),
    'bool': ('BOOL', [3], b'\x00\x01\x01'),
    'e4m3': ('F8_E4M3', [4], bytes(range(4))),
    'e5m2': ('F8_E5M2', [4], bytes(range(4))),
    'e8m0': ('F8_E8M0', [4], bytes(range(4))),
    'e4m3fnuz': ('F8_E4M3FNUZ', [4], bytes(range(4))),
    'e5m2fnuz': ('F8_E5M2FNUZ', [4], bytes(range(4))),
    'f6': ('F6_E2M3', [4], bytes(3)),
    'f6b': ('F6_E3M2', [2, 2], bytes(3)),
    'f4': ('F4', [3, 2], bytes(3)),
    'c64': ('C64', [2, 2], f32(a[:8])),
    'nine': ('F32', [1, 2, 1, 2, 1, 2, 1, 2, 1], f32(a[:16])),
    'name "with" \\ \u00e9\u4e2d and / signs': ('U8', [1], b'\x07'),
}
safetensors('st/every.safetensors', every, {'format': 'pt', 'note': 'quote " and \\ and \u00e9'})
safetensors('st/unaligned.safetensors', {'x': ('U8', [3], b'abc'), 'y': ('F32', [2], f32([1, 2]))},
            pad=1)
safetensors('st/padded.safetensors', {'x': ('U8', [3], b'abc')}, pad=4096)
safetensors('st/empty.safetensors', {})
safetensors('st/metadata_only.safetensors', {}, {'a': 'b'})
# Order in the JSON differs from order in the data; whitespace and an unknown key inside.
text = (b'{ "z" : {"dtype":"U8","shape":[2],"data_offsets":[1,3],"extra":null} ,\n'
        b'  "a":{"shape":[1],"dtype":"U8","data_offsets":[0,1]}, "__metadata__":{} }\n  ')
write('st/order.safetensors', st_file(text, b'abc'))

base = {'w1': ('F32', [64, 32], f32(a)), 'b1': ('F32', [32], f32(b[:32])),
        'w2': ('BF16', [48, 16], bf16(b)), 'steps': ('I64', [1], struct.pack('<q', 10))}
nxt = {'w1': ('F32', [64, 32], f32(step(a))), 'b1': ('F32', [32], f32(step(b[:32]))),
       'w2': ('BF16', [48, 16], bf16(step(b, 2e-4))), 'steps': ('I64', [1], struct.pack('<q', 11))}
safetensors('st/base.safetensors', base)
safetensors('st/next.safetensors', nxt)
safetensors('st/other.safetensors', {**base, 'w1': ('F32', [64, 32], f32(step(a)))})
safetensors('st/missing.safetensors', {k: base[k] for k in ('b1', 'w2')})
safetensors('st/reshaped.safetensors', {**base, 'w1': ('F32', [32, 64], f32(a))})
safetensors('st/redtyped.safetensors', {**base, 'b1': ('U32', [32], f32(b[:32]))})
poisoned = step(a)
poisoned[77] = math.nan
safetensors('st/poisoned.safetensors', {**nxt, 'w1': ('F32', [64, 32], f32(poisoned))})
far = {'w': ('F32', [2, 16], f32([3e38] * 32))}
safetensors('st/far.safetensors', far)
safetensors('st/far_base.safetensors', {'w': ('F32', [2, 16], f32([-3e38] * 32))})
safetensors('st/tiny.safetensors', {'w': ('F32', [2, 2], f32(a[:4])), 'n': ('I8', [2], b'ab')})
write('st/tiny_f32.npy', npy_header('<f4', (2, 3)) + f32(a[:6]))


def st_bad(name, text, data=b'', length=None):
    text = text.encode('utf-8') if isinstance(text, str) else text
    write('st_bad/%s.safetensors' % name,
          struct.pack('<Q', len(text) if length is None else length) + text + data)


def entry(dtype, shape, offsets):
    return '{"dtype":"%s","shape":%s,"data_offsets":%s}' % (dtype, shape, offsets)


u8 = entry('U8', '[2]', '[0,2]')
st_bad('hole', '{"a":%s,"b":%s}' % (u8, entry('U8', '[2]', '[3,5]')), bytes(5))
st_bad('start', '{"b":%s}' % entry('U8', '[2]', '[1,3]'), bytes(3))
st_bad('overlap', '{"a":%s,"b":%s}' % (u8, entry('U8', '[2]', '[1,3]')), bytes(3))
st_bad('same', '{"a":%s,"b":%s}' % (u8, u8), bytes(2))
st_bad('twice', '{"a":%s,"a":%s}' % (u8, entry('U8', '[2]', '[2,4]')), bytes(4))
st_bad('trailing', '{"a":%s}' % u8, bytes(3))
st_bad('short', '{"a":%s}' % u8, bytes(1))
st_bad('size', '{"a":%s}' % entry('F32', '[2]', '[0,2]'), bytes(2))
st_bad('backwards', '{"a":%s}' % entry('U8', '[2]', '[2,0]'), bytes(2))
st_bad('dtype', '{"a":%s}' % entry('F33', '[2]', '[0,2]'), bytes(2))
st_bad('bits', '{"a":%s}' % entry('F4', '[3]', '[0,2]'), bytes(2))
st_bad('negative', '{"a":%s}' % entry('U8', '[-2]', '[0,2]'), bytes(2))
st_bad('real', '{"a":%s}' % entry('U8', '[2.0]', '[0,2]'), bytes(2))
st_bad('overflow', '{"a":%s}' % entry('F32', '[4294967296,4294967296,4]', '[0,0]'))
st_bad('hidden', '{"a":%s}' % entry('F32', '[0,4294967296,4294967296,4]', '[0,0]'))
st_bad('three', '{"a":%s}' % entry('U8', '[2]', '[0,2,2]'), bytes(2))
st_bad('no_shape', '{"a":{"dtype":"U8","data_offsets":[0,2]}}', bytes(2))
st_bad('metadata', '{"__metadata__":{"a":1},"a":%s}' % u8, bytes(2))
st_bad('metadata_list', '{"__metadata__":[],"a":%s}' % u8, bytes(2))
st_bad('list', '[]')
st_bad('space_first', ' {"a":%s}' % u8, bytes(2))
st_bad('json', '{"a":%s' % u8, bytes(2))
st_bad('after', '{"a":%s}x' % u8, bytes(2))
st_bad('utf8', b'{"\xff":%s}' % u8.encode(), bytes(2))
st_bad('nul_name', '{"a\\u0000b":%s}' % u8, bytes(2))
st_bad('deep', '{"a":' + '[' * 100000 + ']' * 100000 + '}')
st_bad('length', '{"a":%s}' % u8, bytes(2), length=1 << 40)
st_bad('length_max', '{"a":%s}' % u8, bytes(2), length=(1 << 64) - 1)
st_bad('length_past', '{"a":%s}' % u8, bytes(2), length=1000)
st_bad('empty_text', '')
write('st_bad/prefix.safetensors', b'\x02\x00\x00')

# ---- Raw -------------------------------------------------------------------------------------

write('raw/f32.bin', f32(w))
write('raw/f32_step.bin', f32(step(w)))
write('raw/bf16.bin', bf16(w))
write('raw/empty.bin', b'')
write('raw/eight.bin', f32([1.5, -2.25]))
