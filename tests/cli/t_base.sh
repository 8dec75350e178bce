# t_base.sh - --base: matched by name, shape and dtype; the wrong one is refused.
# SPDX-License-Identifier: Apache-2.0
D=$DATA/st
exits 0 pith compress --base $D/base.safetensors -o l.p $D/next.safetensors
exits 0 pith compress -o alone.p $D/next.safetensors
[ "$(stat -c %s l.p)" -lt "$(stat -c %s alone.p)" ] || die 'the base saves nothing'
exits 0 pith decompress --base $D/base.safetensors -o l l.p
same l $D/next.safetensors
exits 3 pith test l.p
exits 0 pith test --base $D/base.safetensors l.p

# Without its base, or with another one, nothing is written.
exits 1 pith decompress -o bad l.p
says 'pith: l.p: w1: needs the base it was compressed against; use --base'
exits 1 pith decompress --base $D/other.safetensors -o bad l.p
says 'base differs'
exits 1 pith test --base $D/other.safetensors l.p
says 'base differs'
exits 1 pith decompress --base $D/missing.safetensors -o bad l.p
says 'missing.safetensors: the base has no tensor w1'
exits 1 pith decompress --base $D/reshaped.safetensors -o bad l.p
exits 1 pith decompress --base nowhere -o bad l.p
exits 1 pith decompress --base $DATA/npy/f32.npy -o bad l.p

# A tensor missing in the base is stored without it, and said; under wdiff exactly.
exits 0 pith compress --base $D/missing.safetensors -o m.p $D/next.safetensors
says 'w1: not in the base'
exits 0 pith decompress --base $D/missing.safetensors -o m m.p
same m $D/next.safetensors
exits 0 pith compress -C wdiff --base $D/missing.safetensors -o mw.p $D/next.safetensors
says 'w1: not in the base; stored lossless'
exits 0 pith inspect --json mw.p
json out "{t['name']: t['codec'] for t in d['tensors']} == {'w1': 'lossless', 'b1': 'raw',
    'w2': 'wdiff', 'steps': 'raw'}"
exits 0 pith compress -q --base $D/missing.safetensors -o q.p $D/next.safetensors
silent

# A base tensor of another dtype counts as missing.
exits 0 pith compress --base $D/redtyped.safetensors -o d.p $D/next.safetensors
says 'b1: of another dtype in the base; stored without it'
exits 0 pith decompress -q --base $D/redtyped.safetensors -o d d.p
same d $D/next.safetensors
exits 0 pith compress --rule 'b1=wdiff' --base $D/redtyped.safetensors -f -o d.p $D/next.safetensors
says 'b1: of another dtype in the base; stored lossless without it'

# A base that nothing was coded against went without a word, and was kept as if it were needed.
for spec in raw eb kv:preset=kivi4 wdiff; do
    exits 0 pith compress -C $spec --base "$DATA/npy/f32.npy" -f -o u.p "$DATA/npy/f32_step.npy"
    [ $spec = wdiff ] || says 'f32.npy: has no effect: no tensor is coded against it'
    [ $spec != wdiff ] || ! grep -q 'no effect' err || die 'the base is needed'
done
exits 0 pith compress -C raw -q --base "$DATA/npy/f32.npy" -f -o u.p "$DATA/npy/f32_step.npy"
silent
exits 0 pith compress --rule 'w1=wdiff' --rule '*=raw' --base $D/base.safetensors -f -o u.p \
    $D/next.safetensors
grep -q 'no effect' err && die 'the base of one tensor is needed'
rm u.p

# A base tensor of items that only the file knows, with as many bytes, counts as missing.
cat >other.py <<'END'
import json, struct
for name, dtype, shape in (('u8', 'U8', [2000]), ('e8', 'F8_E8M0', [2000]),
                           ('e8_2d', 'F8_E8M0', [50, 40])):
    text = json.dumps({'x': {'dtype': dtype, 'shape': shape, 'data_offsets': [0, 2000]}}).encode()
    open(name, 'wb').write(struct.pack('<Q', len(text)) + text + bytes(range(250)) * 8)
END
python3 other.py
for names in 'u8 e8' 'e8 u8' 'u8 e8_2d' 'e8_2d u8'; do
    exits 0 pith compress -f --base ${names% *} -o d.p ${names#* }
    says "${names#* }: x: of another dtype in the base; stored without it"
done
exits 1 pith compress -f --base e8 -o bad e8_2d
says 'e8: x: the base has another shape, 2000, and 2000 bytes; the tensor has 2 dimensions and 2000'
rm other.py u8 e8 e8_2d
exits 0 pith compress -q -f --base $D/redtyped.safetensors -o d.p $D/next.safetensors

# Another shape is an error.
exits 1 pith compress --base $D/reshaped.safetensors -o bad $D/next.safetensors
says 'w1: the base has another shape, '
exits 1 pith compress --base $DATA/npy/f32.npy -o bad $D/next.safetensors
exits 1 pith compress --base $D/base.safetensors -o bad $DATA/npy/f32.npy
exits 1 pith compress --base nowhere -o bad $D/next.safetensors
# -f overwrote the base itself, and nothing could read the result.
cp $D/base.safetensors own.safetensors
exits 1 pith compress -f --base own.safetensors -o ./own.safetensors $D/next.safetensors
says 'is the base, without which the result could not be read'
same own.safetensors $D/base.safetensors
exits 1 pith decompress -f --base own.safetensors -o ./own.safetensors d.p
says './own.safetensors: is the base'
same own.safetensors $D/base.safetensors
rm own.safetensors

# .npy bases, in any order and byte order of the same values.
N=$DATA/npy
exits 0 pith compress --base $N/f32.npy -C wdiff -q -o n.p $N/f32_step.npy
exits 0 pith decompress --base $N/f32_big.npy -q -o n1 n.p
exits 0 pith decompress --base $N/f32_v3.npy -q -o n2 n.p
same n1 n2
exits 1 pith decompress --base $N/f32_step.npy -q -o bad n.p
exits 1 pith decompress --base $N/f32_other_shape.npy -q -o bad n.p
exits 1 pith compress --base $N/f32_other_shape.npy -q -o bad $N/f32_step.npy
exits 0 pith compress --dtype bf16 --base $N/bf16_v2.npy -q -o b.p $N/bf16_u2_step.npy
exits 0 pith decompress --base $N/bf16_u2.npy -q -o b b.p
same b $N/bf16_u2_step.npy
exits 0 pith inspect --json b.p
json out "d['tensors'][0]['dtype'] == 'bf16' and d['tensors'][0]['bits_per_value'] < 16"
only d.p d l.p l alone.p m.p m mw.p q.p n.p n1 n2 b.p b
