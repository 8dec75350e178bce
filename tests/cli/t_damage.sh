# t_damage.sh - every flipped bit and every truncation of a compressed file is detected. With
# PITH_TEST_STEP a bit of one byte in four, and one truncation in eleven.
# SPDX-License-Identifier: Apache-2.0
exits 0 pith compress -q -o frame "$DATA/st/tiny_f32.npy"
exits 0 pith compress -q -o raw_frame -C raw --dtype f32 --shape 1x2 "$DATA/raw/eight.bin"
exits 0 pith compress -q -o container "$DATA/st/tiny.safetensors"
exits 0 pith compress -q -o based --base "$DATA/npy/f32.npy" -C wdiff "$DATA/npy/f32_step.npy"
cat >damage.py <<'END'
import os, subprocess, sys
pith, path, bits = sys.argv[1], sys.argv[2], int(sys.argv[3])
sample = int(os.environ.get('PITH_TEST_STEP', '1')) > 1
if sample:
    bits = 1
data = bytearray(open(path, 'rb').read())
null = open(os.devnull, 'w')

def rejected(content, what):
    with open('bad', 'wb') as f:
        f.write(content)
    code = subprocess.call([pith, 'test', 'bad'], stdout=null, stderr=null)
    if code != 1:
        sys.exit('%s: exit %d for %s' % (path, code, what))

for at in range(0, len(data), 4 if sample else 1):
    for bit in [(at * 5 + k * 3) % 8 for k in range(bits)]:
        data[at] ^= 1 << bit
        rejected(data, 'a flip of bit %d of byte %d' % (bit, at))
        data[at] ^= 1 << bit
for length in range(0, len(data), 11 if sample else 7 if len(data) >= 600 else 1):
    rejected(data[:length], 'length %d of %d' % (length, len(data)))
rejected(data + b'\0', 'a byte at the end')
rejected(data + data, 'the file twice')
END
for file in frame:8 raw_frame:8 container:3 based:1; do
    exits $([ $file = based:1 ] && echo 3 || echo 0) pith test ${file%:*}
    python3 damage.py "$PITH" ${file%:*} ${file#*:} || die "damage to $file"
done
# A damaged file restores nothing.
printf '\001' | dd of=container bs=1 seek=$(($(stat -c %s container) - 1)) conv=notrunc 2>/dev/null
exits 1 pith decompress -o restored container
says 'damaged'
# What ends too early says how much is there, and how much was to be.
head -c 40 frame >bad
exits 1 pith test bad
says 'bad: (unnamed): damaged: the header is cut short: found 40 bytes, expected at least 64'
bytes=$(stat -c %s frame)
head -c $((bytes - 1)) frame >bad
for input in bad -; do
    exits 1 pith test $input <bad
    says "damaged: the frame is cut short: found $((bytes - 1)) bytes, expected $bytes"
done
cat bad | exits 1 pith test -
says "damaged: the frame is cut short: found $((bytes - 1)) bytes, expected $bytes"
bytes=$(stat -c %s container)
head -c $((bytes - 9)) container >bad
exits 1 pith test bad
says "bad: damaged: the file ends inside its data: found $((bytes - 9)) bytes, expected $bytes"
head -c 300 container >bad
exits 1 pith test bad
says 'bad: damaged: the file ends inside its .safetensors header: found a length of '
says ' in a file of 300 bytes'
# A frame whose checksums are right and whose content breaks a rule.
exits 1 pith test "$REPO/tests/golden-bad/act-form-3.pith"
says 'damaged: '
says ' of its frame)'
exits 1 pith inspect "$DATA/npy/f32.npy"
says 'not a file that pith compressed'
exits 1 pith test "$DATA/st/every.safetensors"
exits 1 pith decompress -o restored "$DATA/st/every.safetensors"
only frame raw_frame container based damage.py bad
