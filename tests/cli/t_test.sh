# t_test.sh - pith test said a bare "ok" of files that it could not decode without their base.
# SPDX-License-Identifier: Apache-2.0
D=$DATA/st
prints() { # prints LINE: stdout of the last exits, and nothing on stderr
    silent
    [ "$(cat out)" = "$1" ] || die "printed: $(cat out)"
}
exits 0 pith compress -q --base $D/base.safetensors -o based $D/next.safetensors
exits 3 pith test based
prints 'based: no damage found; 2 of 4 tensors not checked: needs its base (--base)'
exits 0 pith test --base $D/base.safetensors based
prints 'based: ok'
exits 3 pith test -q based
[ ! -s out ] || die 'words on stdout under -q'
says 'pith: based: not checked: needs its base'
exits 0 pith test -q --base $D/base.safetensors based
prints ''
exits 1 pith test --base $D/other.safetensors based
says 'base differs'
[ ! -s out ] || die 'a word for a base that differs'

# Only what needs the base counts.
exits 0 pith compress -q --base $D/missing.safetensors -o some $D/next.safetensors
exits 3 pith test some
prints 'some: no damage found; 1 of 4 tensors not checked: needs its base (--base)'
exits 0 pith compress -q -o none $D/next.safetensors
exits 0 pith test none
prints 'none: ok'
exits 0 pith compress -q --base "$DATA/npy/f32.npy" -o one "$DATA/npy/f32_step.npy"
exits 3 pith test one
prints 'one: no damage found; 1 of 1 tensors not checked: needs its base (--base)'
exits 0 pith compress -q -o empty $D/empty.safetensors
exits 0 pith test empty
prints 'empty: ok'

# Damage comes before what is not checked.
head -c 500 one >cut
exits 1 pith test cut
rm cut

# Frames that other programs wrote without checksums: nothing is claimed of their values.
for name in act-bf16 eb-bits; do
    cp "$REPO/tests/golden/v1/$name.pith" $name
    exits 0 pith test $name
    prints "$name: no damage found; 1 of 1 without checksums"
    rm $name
done
# A key frame is whole without a base.
for name in wdiff-key-f32 lossless-key; do
    cp "$REPO/tests/golden/v1/$name.pith" $name
    exits 0 pith test $name
    prints "$name: no damage found; 1 of 1 without checksums"
    exits 0 pith test --base nowhere $name
    exits 0 pith decompress -q -o back $name
    same back "$REPO/tests/golden/v1/$name.raw"
    rm $name back
done
only based some none one empty
