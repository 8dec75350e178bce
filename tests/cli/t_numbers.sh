# t_numbers.sh - JSON had 17 digits of every number, and nobody looked at the GB/s.
# SPDX-License-Identifier: Apache-2.0
N=$DATA/npy
cat >shortest.py <<'END'
import json, re, sys
text = open('out').read()
reals = re.findall(r'(?<=: )-?\d[\d.]*(?:e[+-]?\d+)?(?=[,\n])', text)
reals = [r for r in reals if '.' in r or 'e' in r]
assert len(reals) >= int(sys.argv[1]), text
def digits(t): return len(re.sub(r'e.*|[.-]', '', t).strip('0')) or 1
for r in reals:
    assert digits(r) <= digits(repr(float(r))), (r, repr(float(r)))
plain = lambda t: re.sub(r'(?<=: )-?\d[\d.]*(e[+-]?\d+)?(?=[,\n])', '0', t).lower()
text = text.rstrip().replace('\\u007f', '\x7f')
assert plain(json.dumps(json.loads(text), indent=2)) == plain(text)
END
for spec in eb:abs=0.001 eb:rel=0.0001 eb:pwrel=0.01 grad kv:group=32,page=16; do
    exits 0 pith compress -qf -C $spec -o n.p "$N/f32.npy"
    exits 0 pith inspect --json n.p
    python3 shortest.py 2 || die "$spec"
done
exits 0 pith decompress -qf -o n.npy n.p
exits 0 pith compare --json "$N/f32.npy" n.npy
python3 shortest.py 4 || die 'compare'
exits 0 pith codecs --json
python3 shortest.py 0 || die 'codecs'
exits 0 pith compress -qf -o n.p "$DATA/st/every.safetensors"
exits 0 pith inspect --json n.p
python3 shortest.py 2 || die 'names and shapes'
exits 0 pith compress -qf -o n.p "$DATA/st/empty.safetensors"
exits 0 pith inspect --json n.p
grep -q '"tensors": \[\],' out || die 'an empty list'

# The speed of the whole lies between those of its tensors, in the table and in the line.
cat >three.py <<'END'
import json, random, struct
n = 1 << 21
rng = random.Random(5)
data = [bytes(n), rng.randbytes(n), (rng.randbytes(1 << 10)) * (n >> 10)]
head = {'t%d' % i: {'dtype': 'F32', 'shape': [n >> 6, 16], 'data_offsets': [i * n, (i + 1) * n]}
        for i in range(3)}
text = json.dumps(head).encode()
open('three', 'wb').write(struct.pack('<Q', len(text)) + text + b''.join(data))
END
python3 three.py
cat >speeds.py <<'END'
import re
rows = [line.split() for line in open('err')]
speed = [float(r[-1]) for r in rows if re.match(r't\d', r[0])]
whole = [float(r[-1]) for r in rows if r[0] == 'whole']
assert len(speed) == 3 and len(whole) == 1, rows
assert 0 < min(speed) and min(speed) - 0.01 <= whole[0] <= max(speed) + 0.01, (speed, whole)
END
exits 0 pith compress -v --rule 't0=raw' --rule 't2=lossless:effort=9' -o three.p three
python3 speeds.py || { cat err >&2; die 'the speeds of the table'; }
exits 0 pith compress -f -C raw -o three.p three
grep -Eq ' ([1-9][0-9]*\.[0-9]+|0\.[0-9]*[1-9][0-9]*) GB/s' err || die "the speed: $(cat err)"
says ' %), 3 tensors, '
exits 0 pith compress -f -o one.p "$DATA/npy/f32_big.npy"
says ' %), 1 tensor, '
