# t_sparse.sh - codec topk: files of every kind come back, and inspect says what was sent.
# SPDX-License-Identifier: Apache-2.0
cat >make.py <<'PY'
import json, random, struct
random.seed(1)
x = struct.pack('<20000f', *(random.gauss(0, 1) for _ in range(20000)))
head = str({'descr': '<f4', 'fortran_order': False, 'shape': (100, 200)})
head = head.ljust(64 * 2 - 11) + '\n'
head = b'\x93NUMPY\1\0' + struct.pack('<H', len(head)) + head.encode()
open('gradients.npy', 'wb').write(head + x)
open('gradients.bin', 'wb').write(x)
tensors = {name: {'dtype': 'F32', 'shape': shape, 'data_offsets': [0 + at, at + 4 * n]}
           for name, shape, at, n in (('w', [90, 200], 0, 18000), ('b', [2000], 72000, 2000))}
text = json.dumps(tensors).encode()
open('m.safetensors', 'wb').write(struct.pack('<Q', len(text)) + text + x)
PY
python3 make.py

exits 0 pith compress -q -C topk:density=0.01,control=exact gradients.npy
exits 0 pith test -q gradients.npy.pith
exits 0 pith inspect --json gradients.npy.pith
json out "[list(t) for t in d['tensors']] == [['name', 'codec', 'spec', 'dtype', 'shape',
    'raw_bytes', 'bytes', 'bits_per_value', 'error_bound', 'sent', 'density', 'threshold',
    'index_bits', 'value_bits', 'same_set', 'same_blocks']]"
json out "d['tensors'][0]['codec'] == 'topk' and d['tensors'][0]['sent'] == 200 and
    d['tensors'][0]['density'] == 0.01 and d['tensors'][0]['value_bits'] == 32 and
    d['tensors'][0]['same_set'] is False"
# 8.1 bits of entropy, Elias-Fano has half a bit more; and there are a head, a table and a checksum.
json out "8 < d['tensors'][0]['index_bits'] <= 11 and 2.3 < d['tensors'][0]['threshold'] < 2.8
    and d['tensors'][0]['error_bound'] == d['tensors'][0]['threshold']"
for field in $(grep -oE '^ *"[a-z_]+":' out | tr -d '": ' | sort -u); do
    grep -qw -- "$field" "$REPO/doc/pith.1" || die "the manual has nothing on $field"
done
cp out sent.json
exits 0 pith inspect gradients.npy.pith
grep -qE '^tensor +sent +density +threshold +index bits +value bits$' out || die 'the table'
grep -qE ' 200 +0\.01 +2\.[0-9]+ +[0-9]+\.[0-9]+ +32\.00$' out || die "the row: $(cat out)"

# What is not 0 is what was sent: the largest, as they were.
exits 0 pith decompress -q -o back.npy gradients.npy.pith
cat >check.py <<'PY'
import json, struct, sys
def values(name):
    data = open(name, 'rb').read()
    return struct.unpack('<20000f', data[-80000:])
x, y = values(sys.argv[1]), values(sys.argv[2])
sent = [i for i in range(20000) if y[i]]
threshold = sorted(map(abs, x))[-200]
assert len(sent) == 200 and all(abs(x[i]) >= threshold and x[i] == y[i] for i in sent)
assert threshold == json.load(open('sent.json'))['tensors'][0]['threshold']
PY
python3 check.py gradients.npy back.npy || die 'other values came back'

# Raw bytes, and tensors of which one has one dimension and stays exact; values of 8 and 16 bits.
exits 0 pith compress -q --dtype f32 --shape 100x200 -C topk:k=200,control=exact -o raw.pith \
    gradients.bin
exits 0 pith decompress -q -o back.bin raw.pith
python3 check.py gradients.bin back.bin || die 'other raw values came back'
exits 0 pith compress -q -C topk:k=100,values=int8,control=exact m.safetensors
exits 0 pith test -q m.safetensors.pith.safetensors
exits 0 pith inspect --json m.safetensors.pith.safetensors
json out "{t['name']: (t.get('sent'), t.get('value_bits')) for t in d['tensors']} == {
    'w': (100, 8.25), 'b': (None, None)}"
exits 0 pith inspect m.safetensors.pith.safetensors
[ "$(grep -cE '^w +100 ' out)" = 1 ] || die "the second table: $(cat out)"
[ "$(grep -c '^b ' out)" = 1 ] || die "a tensor of which all is sent: $(cat out)"
exits 0 pith compress -q --rule 'b=topk:values=bf16' -f m.safetensors
exits 0 pith inspect --json m.safetensors.pith.safetensors
json out "[t.get('value_bits') for t in d['tensors']] == [None, 16]"
# A set alone decodes to ones, which is no tensor that a file should have.
exits 0 pith compress --rule 'w=topk:values=none' -f m.safetensors
says 'w: would lose all values but their places; stored lossless'

# The largest of every row: no threshold says how far off the others are. Values that overflow in
# f16 are not kept that way.
exits 0 pith compress -C topk:k=2,scope=row -o rows.pith gradients.npy
exits 0 pith inspect --json rows.pith
json out "[(t['sent'], t['error_bound']) for t in d['tensors']] == [(200, None)]"
exits 0 pith inspect rows.pith
grep -qE '^\(unnamed\) .* -$' out || die "the bound of rows: $(cat out)"
exits 0 pith decompress -q -o rows.npy rows.pith
cat >rows.py <<'PY'
import struct
x, y = (struct.unpack('<20000f', open(name, 'rb').read()[-80000:])
        for name in ('gradients.npy', 'rows.npy'))
for at in range(0, 20000, 200):
    largest = sorted(range(at, at + 200), key=lambda i: -abs(x[i]))[:2]
    assert [i for i in range(at, at + 200) if y[i]] == sorted(largest)
    assert all(y[i] == x[i] for i in largest)
open('large.bin', 'wb').write(struct.pack('<2000f', 1e6, *[1.0] * 1999))
PY
python3 rows.py || die 'other elements of rows came back'
exits 0 pith compress --dtype f32 --shape 20x100 -C topk:k=2,scope=row,values=f16 -o large.pith \
    large.bin
says 'overflows in the codec; stored lossless'

# Nothing is sent of zeros.
head -c 8000 /dev/zero >zeros.bin
exits 0 pith compress -q --dtype f32 --shape 20x100 -C topk -o zeros.pith zeros.bin
exits 0 pith inspect --json zeros.pith
json out "[(t['sent'], t['density'], t['index_bits'], t['value_bits']) for t in d['tensors']] ==
    [(0, 0, None, None)]"
exits 0 pith inspect zeros.pith
grep -qE ' 0 +0 +[^ ]+ +- +-$' out || die "zeros: $(cat out)"

# What streams alone heed, and damage.
exits 2 pith compress -q -C topk:ef=full -o x.pith gradients.npy
says 'ef'
head -c 500 gradients.npy.pith >cut.pith
exits 1 pith test -q cut.pith
exits 1 pith inspect --json <(printf 'none')
