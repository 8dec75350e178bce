# t_fallback.sh - what -C did not apply to was stored without loss and without a word; small tensors
# became longer than raw bytes with a header.
# SPDX-License-Identifier: Apache-2.0
N=$DATA/npy
cat >make.py <<'END'
import json, random, struct
rng = random.Random(7)
floats = lambda n: struct.pack('<%df' % n, *(rng.gauss(0, 1) for _ in range(n)))
tensors = [('matrix', 'F32', [64, 32], floats(2048)), ('norm', 'F32', [512], floats(512)),
           ('scale', 'F32', [], floats(1)), ('count', 'I64', [20, 30], bytes(4800)),
           ('tiny', 'F32', [2, 2], floats(4)), ('byte', 'U8', [1], b'x'),
           ('random', 'U8', [300000], rng.randbytes(300000))]
head, data = {}, b''
for name, dtype, shape, values in tensors:
    head[name] = {'dtype': dtype, 'shape': shape,
                  'data_offsets': [len(data), len(data) + len(values)]}
    data += values
text = json.dumps(head).encode()
open('m', 'wb').write(struct.pack('<Q', len(text)) + text + data)
END
python3 make.py
exits 0 pith compress -C eb:rel=0.01 --json -o p m
cp out p.json
says 'm: norm and 1 more: has fewer than two dimensions; stored lossless, since no --rule names it'
says 'm: count and 2 more: is of no float dtype; stored lossless'
says 'm: tiny: would become no shorter; stored as it is'
grep -q 'matrix' err && die 'a word for what was coded as asked'
grep -q 'stored without the loss' err && die 'a count after every one was named'
exits 0 pith compress -f -v -C eb:rel=0.01 -o q m
says 'm: norm: has fewer than two dimensions; stored lossless, since no --rule names it'
says 'm: scale: has fewer than two dimensions; stored lossless'
says 'm: random: is of no float dtype; stored lossless'
exits 0 pith compress -qf -C eb:rel=0.01 -o q m
[ "$(cat err)" = 'pith: m: 6 of 7 tensors stored without the loss asked for' ] ||
    die "said: $(cat err)"
exits 0 pith compress -qf --rule 'norm=eb:rel=0.01' --rule 'tiny=eb' -o q m
[ "$(cat err)" = 'pith: m: 1 of 7 tensors stored without the loss asked for' ] ||
    die "said: $(cat err)"
for flags in '' '-C lossless' '-C raw' '--rule matrix=eb' '--rule *=lossless -C eb'; do
    exits 0 pith compress -qf $flags -o q m
    silent
done
# What is a file by itself is no norm of a model.
exits 0 pith compress -f -C eb -o q "$N/f32_1d.npy"
grep -q 'stored' err && die 'a flat array was not coded as asked'
while read -r file note; do
    exits 0 pith compress -f -C eb -o q "$N/$file.npy"
    says "$note"
    exits 0 pith compress -qf -C eb -o q "$N/$file.npy"
    says "$file.npy: 1 of 1 tensors stored without the loss asked for"
done <<'END'
f32_0d would become no shorter; stored as it is
i4_big is of no float dtype; stored lossless
END
exits 0 pith compress -f -C wdiff --base "$DATA/st/missing.safetensors" -o q \
    "$DATA/st/next.safetensors"
says 'steps: not in the base; stored lossless without it'

exits 1 pith compress -qf -C eb:rel=0.01 -o /dev/full m
[ "$(cat err)" = 'pith: /dev/full: cannot write: No space left on device' ] ||
    die "said of a file that is not there: $(cat err)"

# No frame is longer than its values, a header and checksums: 64 bytes and 8 a block, padded to 16.
json p.json "all(t['bytes'] <= t['raw_bytes'] + 64 + -(-t['raw_bytes'] // 65536 * 8 // 16) * 16 + 16
    for t in d['tensors'])"
json p.json "{t['name']: t['codec'] for t in d['tensors']} == {'matrix': 'eb', 'norm': 'lossless',
    'scale': 'raw', 'count': 'lossless', 'tiny': 'raw', 'byte': 'raw', 'random': 'raw'}"
exits 0 pith decompress -q -o back p
exits 0 pith compare --json m back
json out "all((t['max_abs_error'] or 0) == 0 for t in d['tensors'] if t['name'] != 'matrix')"
for n in 0 1 3 15 16 17 100; do
    head -c $n /dev/urandom >r
    exits 0 pith compress -qf --dtype u8 --shape $n -o q r
    [ "$(stat -c %s q)" -le $((n + 64 + 16)) ] || die "$n bytes became $(stat -c %s q)"
    exits 0 pith decompress -qf -o r2 q
    same r r2
done

# One of a few bytes or none whose codec shortens it, but not its frame.
for n in 14 0; do
    head -c $((4 * n)) /dev/zero >r
    exits 0 pith compress -f --dtype f32 --shape 2x$((n / 2)) -C eb -o q r
    says 'r: (unnamed): would become no shorter; stored as it is'
    [ "$(stat -c %s q)" = $((64 + (n ? 16 + 4 * n : 0))) ] || die "$n zeros became $(stat -c %s q)"
done
exits 0 pith compress -f --dtype f32 --shape 0x7 -C grad -o q r
says 'would become no shorter'

# One that is raw needs no base; what its codec does shorten keeps it.
head -c 40 /dev/urandom >r
head -c 40 /dev/urandom >base
exits 0 pith compress -qf --dtype u8 --shape 40 --base base -o q r
exits 0 pith test q

# The base is named, with what is wrong with it.
head -c 41 /dev/urandom >base
exits 1 pith compress --dtype u8 --shape 40 --base base -o no r
says 'base: the base has 41 bytes, not the 40 of the tensor'
exits 1 pith compress --base "$N/f32_other_shape.npy" -o no "$N/f32.npy"
says 'f32_other_shape.npy: (unnamed): the base has another shape, 30x40, and 4800 bytes; '
says 'the tensor has 40x30 and 4800'
exits 0 pith compress -qf --base "$N/f32.npy" -o q "$N/f32_step.npy"
exits 1 pith decompress --base "$N/f32_other_shape.npy" -o no q
says 'f32_other_shape.npy: (unnamed): the base has another shape, 30x40'
exits 1 pith test --base "$N/f64.npy" q
says 'f64.npy: (unnamed): the base is of another dtype, f64 instead of f32'
exits 0 pith compress -qf --dtype f32 --shape 1200 --base "$DATA/raw/f32.bin" -o q \
    "$DATA/raw/f32_step.bin"
exits 1 pith decompress --base r -o no q
says 'r: the base has 40 bytes, not the 4800 of the tensor'
exits 1 pith decompress --base <(head -c 9000 /dev/zero) -o no q
says ': the base has at least 4801 bytes, not the 4800 of the tensor'
exits 1 pith decompress --base q -o no q
says 'q: is compressed by pith; decompress it first'
exits 1 pith compress --base "$N/f32_9d.npy" -o no "$N/f32_9d_flat.npy"
says 'f32_9d.npy: (unnamed): the base has another shape, 9 dimensions, and 192 bytes; '
says 'the tensor has 48 and 192'
only make.py m p p.json q back r r2 base
