# t_bench.sh - bench runs every codec and prints its JSON.
# SPDX-License-Identifier: Apache-2.0
exits 0 pith bench --quick --json
silent
cat >check.py <<'END'
import json
results = json.load(open('out'))['results']
numbers = ['bytes', 'ratio', 'encode_gbps', 'decode_gbps', 'encode_move_gbps', 'decode_move_gbps',
           'read_gbps', 'fill_gbps', 'memcpy_gbps']
for r in results:
    assert all(r[k] > 0 for k in numbers), r
    assert r['repetitions'] == 3
    assert r['isa'] in ('scalar', 'avx2', 'avx512', 'neon') and r['threads'] == 1
assert {r['codec'] for r in results} >= {'raw', 'lossless', 'wdiff'}
assert {(r['base'], r['mode']) for r in results if r['spec'] == 'wdiff'} == {
    (None, 'stateless'), ('f32', 'stream'), ('bf16', 'stream')}
END
python3 check.py || die 'the JSON of bench'
exits 0 pith bench --quick --json --cpu scalar -T 2 -C wdiff:bits=8 -C raw \
    "$DATA/st/next.safetensors"
json out "{r['isa'] for r in d['results']} == {'scalar'} and
    {r['threads'] for r in d['results']} == {2} and
    {r['spec'] for r in d['results']} == {'wdiff:bits=8', 'raw'}"
exits 0 pith bench --quick -C raw
exits 1 pith bench --quick "$DATA/npy/i4_big.npy"
exits 1 pith bench --quick nowhere
