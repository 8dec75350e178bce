# t_halves.sh - f16, bf16 and f64 under a lossy -C: coded, and stored lossless where a value is not
# finite, of which no codec with groups keeps anything.
# SPDX-License-Identifier: Apache-2.0
cat >make.py <<'END'
import json, math, random, struct
rng = random.Random(11)
cut = lambda values: b''.join(struct.pack('<f', v)[2:] for v in values)
kinds = {'F16': lambda v: struct.pack('<%de' % len(v), *v), 'BF16': cut,
         'F32': lambda v: struct.pack('<%df' % len(v), *v),
         'F64': lambda v: struct.pack('<%dd' % len(v), *v)}
values = [rng.gauss(0, 1) for _ in range(2048)]
changed = lambda v: values[:1000] + [v] + values[1001:]
head, data = {}, b''
for dtype, pack in kinds.items():
    for name, v in (('good', values), ('nan', changed(math.nan)), ('inf', changed(-math.inf))):
        part = pack(v)
        head[dtype + name] = {'dtype': dtype, 'shape': [64, 32],
                              'data_offsets': [len(data), len(data) + len(part)]}
        data += part
text = json.dumps(head).encode()
open('m', 'wb').write(struct.pack('<Q', len(text)) + text + data)
END
python3 make.py
exits 0 pith compress -C eb:rel=0.01 -o p m
grep -v "^pith: m: [0-9]* -> " err && die "a word for what is kept"
exits 0 pith inspect --json p
json out "{t['codec'] for t in d['tensors']} == {'eb'}"
for spec in kv:group=32,page=32 grad; do
    exits 0 pith compress --json -f -C $spec -o p m
    cp out p.json
    for dtype in F16 BF16 F32; do
        for name in nan inf; do
            says "m: $dtype$name: holds NaN or infinity; stored lossless"
        done
        grep -q "$dtype""good" err && die "a word for $dtype"
        json p.json "{t['name'][${#dtype}:]: t['codec'] for t in d['tensors']
            if t['name'].startswith('$dtype')} == {'good': '${spec%%:*}', 'nan': 'lossless',
            'inf': 'lossless'}"
    done
    exits 0 pith decompress -q -f -o back p
    exits 0 pith compare --json m back
    json out "d['overall']['nonfinite_mismatch'] == 0"
done
only make.py m p p.json back
