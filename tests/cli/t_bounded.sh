# t_bounded.sh - codecs with a bound on files: what is said, and that it holds.
# SPDX-License-Identifier: Apache-2.0
N=$DATA/npy
bound() { # the largest that inspect --json shows
    python3 -c 'import json
print(max(t["error_bound"] for t in json.load(open("out"))["tensors"]))'
}

# keeps FILE SPEC: the bound that inspect shows holds, as compare measures it.
keeps() {
    local file=$1 spec=$2 b
    exits 0 pith compress -qf --rule "*=$spec" -o k.p "$file"
    exits 0 pith test -q k.p
    exits 0 pith inspect --json k.p
    grep -q "\"${spec%%:*}" out || grep -q '"raw_bytes": [0-9]\?[0-9],' out ||
        die "another codec than $spec"
    b=$(bound)
    exits 0 pith decompress -qf -o "k.${file##*.}" k.p
    exits 0 pith compare --json --max-abs "$b" "$file" "k.${file##*.}"
    json out "d['overall']['nonfinite_mismatch'] == 0"
}
for spec in eb:rel=1e-3 eb:mode=ratio,abs=0.001 eb:mode=auto,pwrel=0.01 eb:psnr=40 eb:nmse=1e-4 \
    embed:dim=10 act:mode=ratio,rel=0.01; do
    for file in f32 f64 f32_special; do keeps "$N/$file.npy" "$spec"; done
done
for file in f16 f32_fortran f32_big f32_0d f32_empty_3d; do keeps "$N/$file.npy" eb:mode=ratio; done

# The bound stated is the one asked for, rounded down.
exits 0 pith compress -q -C eb:abs=0.001 -o a.p "$N/f32.npy"
exits 0 pith inspect --json a.p
json out "0.0009999998 < d['tensors'][0]['error_bound'] <= 0.001"
json out "d['tensors'][0]['spec'] == 'eb:abs=1e-3'"
exits 0 pith inspect a.p
grep -q '0\.001' out || die 'the table lacks the bound'

# -0, NaN and infinities bit for bit.
exits 0 pith compress -q --rule '*=eb:abs=1e30,zeros=signed' -o s.p "$N/f32_special.npy"
exits 0 pith decompress -q -o s.npy s.p
cat >special.py <<'PY'
import struct, sys
a, b = (open(f, 'rb').read()[-32:] for f in sys.argv[1:])
assert a[:16] == b[:16], (a, b)
PY
python3 special.py "$N/f32_special.npy" s.npy || die 'special values'

# Raw bytes and checkpoints; a frame names its spec.
exits 0 pith compress -q -C eb:rel=0.01 -o st.p "$DATA/st/next.safetensors"
exits 0 pith decompress -q -o st.safetensors st.p
exits 0 pith inspect --json st.p
b=$(bound)
exits 0 pith compare --json --max-abs "$b" "$DATA/st/next.safetensors" st.safetensors
head -c 4800 /dev/zero >raw.bin
exits 0 pith compress -q --rule '*=act:abs=1' --dtype f32 --shape 1200 -o raw.p raw.bin
exits 0 pith decompress -q -o raw.back raw.p
same raw.bin raw.back
[ "$(stat -c %s raw.p)" -lt 300 ] || die 'zeros cost something'

# What cannot be: two bounds, no number, a share of everything.
for spec in eb:abs=1,rel=1 eb:abs=nan eb:abs=-1 eb:pwrel=1 embed:psnr=3 eb:range=1,abs=1; do
    exits 2 pith compress -C "$spec" -o no.p "$N/f32.npy"
    [ ! -e no.p ] || die 'a file for a spec that cannot be'
done
