# t_lossy.sh - which tensors a lossy codec applies to, its bound, and what it must not lose.
# SPDX-License-Identifier: Apache-2.0
D=$DATA/st
codecs() { # codecs FILE: prints NAME=SPEC of every tensor
    exits 0 pith inspect --json "$1"
    python3 -c 'import json
print(*sorted(t["name"] + "=" + t["spec"] for t in json.load(open("out"))["tensors"]))'
}
C="pith compress -q --base $D/base.safetensors"

# -C: named float tensors of two or more dimensions; rules by name, the first match counts.
exits 0 $C -C wdiff:bits=8 -o a.p $D/next.safetensors
codecs a.p
exits 0 $C -C raw -o b.p $D/next.safetensors
codecs b.p
exits 0 $C -C wdiff --rule 'w2=raw' --rule 'w*=wdiff:bits=3' --rule '*=wdiff:bits=6' -o c.p \
    $D/next.safetensors
codecs c.p
exits 0 $C --rule 'b?=wdiff:group=16' -o d.p $D/next.safetensors
codecs d.p
exits 0 $C --rule 'nothing*=wdiff' -o e.p $D/next.safetensors
codecs e.p

# A rule for nothing is said; one that another comes before is not for nothing.
exits 0 pith compress --rule 'w1=raw' --rule 'nomatch*=kv' --rule 'w?=eb:rel=0.1' \
    -f -o e.p $D/next.safetensors
says "pith: rule 'nomatch*=kv' matches no tensor"
[ "$(grep -c 'matches no tensor' err)" = 1 ] || die 'rules that match were said to be idle'
exits 0 pith compress -q --rule 'nomatch*=kv' -f -o e.p $D/next.safetensors
silent
exits 0 pith compress --rule 'w?=eb:rel=0.1' -f -o e.p "$DATA/npy/f32.npy"
says "pith: rule 'w?=eb:rel=0.1' matches no tensor"

# A rule on a dtype the codec does not take: exact, and said.
exits 0 pith compress --base $D/base.safetensors --rule '*=wdiff' -o f.p $D/next.safetensors
says 'steps: wdiff does not take dtype i64; stored lossless'
codecs f.p

# A shape that the codec does not take, and a base that it cannot use: said, and no failure.
exits 0 pith compress -C kv:preset=quarot4 -o f2.p $D/next.safetensors
says 'w2: '
says '; stored lossless'
codecs f2.p
exits 0 pith compress --rule '*=kv:preset=quarot4' -o f3.p $D/next.safetensors
codecs f3.p
exits 0 pith compress --base $D/base.safetensors -C kv:preset=kivi4 -o f4.p $D/next.safetensors
says 'w1: a base needs plain groups along axis=token; stored without it'
codecs f4.p
exits 0 pith compress --base $D/base.safetensors -C kv:preset=quarot4 -o f5.p $D/next.safetensors
codecs f5.p
for packed in f4.p f5.p; do
    exits 0 pith decompress -qf --base $D/base.safetensors -o f $packed
    exits 0 pith compare --json $D/next.safetensors f
    json out "d['tensors'][0]['max_abs_error'] > 0 and d['overall']['max_abs_error'] < 0.1"
done

# The bound holds (f32: nothing but one rounding comes on top).
exits 0 pith decompress -q --base $D/base.safetensors -o a a.p
exits 0 pith inspect --json a.p
cp out a.json
exits 0 pith compare --json $D/next.safetensors a
cat >bound.py <<'END'
import json
bound = {t['name']: t['error_bound'] for t in json.load(open('a.json'))['tensors']}
for t in json.load(open('out'))['tensors']:
    slack = 2.0 ** -9 if t['name'] == 'w2' else 1e-8
    assert t['max_abs_error'] <= bound[t['name']] + slack, t
    assert t['nonfinite_mismatch'] == 0
    assert (bound[t['name']] == 0) == (t['name'] in ('b1', 'steps')), bound
END
python3 bound.py || die 'the bound'

# NaN, infinity, and differences that overflow are not for lossy codecs.
exits 0 pith compress --base $D/base.safetensors -C wdiff -o p.p $D/poisoned.safetensors
says 'w1: holds NaN or infinity; stored lossless'
codecs p.p
exits 0 pith decompress -q --base $D/base.safetensors -o p p.p
exits 0 pith compare --json $D/poisoned.safetensors p
json out "d['overall']['nonfinite_mismatch'] == 0 and d['tensors'][0]['differing_bits'] == 0"

# Pages of tokens: without a base, as coded again without a change, and smaller through zstd.
exits 0 pith compress -q -C kv:group=16,page=16 -o k.p $D/next.safetensors
codecs k.p
exits 0 pith decompress -q -o k.safetensors k.p
exits 0 pith compress -q -C kv:group=16,page=16 -o k2.p k.safetensors
exits 0 pith decompress -q -o k2.safetensors k2.p
same k2.safetensors k.safetensors
exits 0 $C -C kv:group=16,page=16 -o kb.p $D/next.safetensors
exits 0 pith decompress -q --base $D/base.safetensors -o kb kb.p
exits 3 pith test -q kb.p

# Codecs with a bound keep them, bit for bit, and the rest within the bound.
exits 0 pith compress -C eb:rel=0.01 -o q.p $D/poisoned.safetensors
codecs q.p
exits 0 pith decompress -q -o q q.p
exits 0 pith inspect --json q.p
bound=$(python3 -c 'import json
print(max(t["error_bound"] for t in json.load(open("out"))["tensors"]))')
exits 0 pith compare --json --max-abs "$bound" $D/poisoned.safetensors q
json out "d['overall']['nonfinite_mismatch'] == 0 and d['tensors'][0]['max_abs_error'] > 0"
exits 0 pith compress --base $D/far_base.safetensors -C wdiff -o far.p $D/far.safetensors
says 'w: its difference to the base overflows; stored lossless'
exits 0 pith decompress -q --base $D/far_base.safetensors -o far far.p
same far $D/far.safetensors
exits 0 pith compress -f -C grad:rotate=128 -o far.p $D/far.safetensors
says 'w: overflows in the codec; stored lossless'
exits 0 pith decompress -qf -o far far.p
same far $D/far.safetensors

# One tensor, of any rank: the same rules; its name is empty.
N=$DATA/npy
exits 0 pith compress -q --base $N/f32_1d.npy -C wdiff -o one.p $N/f32_1d.npy
codecs one.p
exits 0 pith compress -q --base $N/f32_1d.npy --rule '*=wdiff' -o one2.p $N/f32_1d.npy
codecs one2.p
exits 0 pith compress -v --base $N/f32.npy -C wdiff -o two.p $N/f32_step.npy
says '(unnamed)'
says 'GB/s'
codecs two.p

# Specs are shown in canonical form.
exits 0 pith compress -q --base $N/f32.npy -C wdiff:scale_dtype=f32,bits=3,group=2048 -o can.p \
    $N/f32_step.npy
codecs can.p
