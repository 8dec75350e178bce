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
assert {r['spec'] for r in results} >= {'raw', 'wdiff', 'grad', 'kv', 'wdiff:group=128',
    'wdiff:round=stochastic', 'grad:round=stochastic', 'eb:mode=ratio,rel=1e-3',
    'act:mode=ratio,rel=1e-3'}
END
python3 check.py || die 'the JSON of bench'
exits 0 pith bench --quick --json --cpu scalar -T 2 -C wdiff:bits=8 -C raw \
    "$DATA/st/next.safetensors"
json out "{r['isa'] for r in d['results']} == {'scalar'} and
    {r['threads'] for r in d['results']} == {2} and
    {r['spec'] for r in d['results']} == {'wdiff:bits=8', 'raw'}"
exits 0 pith bench --quick -C raw
heading='codec +value +base +ratio +encode +/read +/move +decode +/fill +/move +memcpy +of'
grep -qE "^$heading\$" out || die 'the heading'
# The help names each column, and doc/FILES.md explains it.
exits 0 pith bench --help
columns=$(sed -n '/^Columns:/,/^$/p' out)
for column in ${heading// +/ }; do
    grep -q -- "$column" <<<"$columns" || die "the help lacks column $column"
    grep -q "^|.*\`$column\`.*|" "$REPO/doc/FILES.md" || die "doc/FILES.md lacks column $column"
done

# Settings that take no base have no rows with one; heads are of a dimension that can be rotated.
settings=()
for keys in preset=kivi2 preset=kivi4 preset=kvquant-lite preset=quarot4 preset=q4 entropy=zstd \
    entropy=rans outliers=0.01 rotate_heads=on rotate_heads=on,order=heads; do
    settings+=(-C "kv:$keys")
done
exits 0 pith bench --quick --json "${settings[@]}" -C kv:bits=8
silent
json out "[r['base'] for r in d['results']] == [None] * 11 + ['f32', 'bf16'] and
    all(r['ratio'] > 3 for r in d['results'])"
exits 1 pith bench --quick "$DATA/npy/i4_big.npy"
exits 1 pith bench --quick nowhere

# Without --quick tensors are so large that all of them take half of the machine's memory, at most.
elsewhere TEST_PAGES=12000
exits 0 pith bench --json -C raw
page=$(getconf PAGESIZE)
json out "{r['raw_bytes'] for r in d['results']} == {12000 * $page // 2 // 6 // 4096 * 4096} and
    {r['repetitions'] for r in d['results']} == {7}"
