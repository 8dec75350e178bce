# t_memory.sh - memory is bounded by a tensor, not by the file.
# SPDX-License-Identifier: Apache-2.0
cat >memory.py <<'END'
import json, os, resource, struct, subprocess, sys
COUNT, ROW, LIMIT_KIB = 96, 1024 * 4, 110 * 1024
head, total = {}, 0
for i in range(COUNT): # each larger than the last, 4 MiB in the end
    rows = 1024 * (i + 1) // COUNT
    head['t%d' % i] = {'dtype': 'F32', 'shape': [rows, 1024],
                       'data_offsets': [total, total + rows * ROW]}
    total += rows * ROW
text = json.dumps(head).encode()
noise = os.urandom(1 << 20).replace(b'\xff', b'\xfe').replace(b'\x7f', b'\x7e')
with open('big', 'wb') as f:
    f.write(struct.pack('<Q', len(text)) + text)
    for at in range(0, total, len(noise)):
        f.write(noise[:total - at])
pith = sys.argv[1]
for arguments in (['compress', '-q', '-C', 'raw', '-o', 'packed', 'big'], ['test', '-q', 'packed'],
                  ['inspect', 'packed'], ['decompress', '-q', '-o', 'again', 'packed'],
                  ['compress', '-q', '-C', 'wdiff', '--base', 'again', '-o', 'based', 'big'],
                  ['decompress', '-q', '-f', '--base', 'again', '-o', 'packed', 'based']):
    subprocess.run([pith] + arguments, check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if used > LIMIT_KIB:
        sys.exit('%d KiB for %s' % (used, arguments))
END
# AddressSanitizer keeps what was freed for a while.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=1 python3 memory.py "$PITH" ||
    die 'too much memory'
same big again

# A tensor too large for the machine's memory is kept in a temporary file, of which a full disk is
# said; others are not.
python3 -c 'open("zeros", "wb").write(bytes(4000000))'
elsewhere TEST_FREE=
for command in "compress -q --dtype u8 --shape 4000000 -f -o /dev/null zeros" \
    "decompress -q -f -o /dev/null zeros.p"; do
    exits 0 pith compress -q --dtype u8 --shape 4000000 -f -o zeros.p zeros
    exits 0 env TEST_PAGES=4 "$PITH" $command
    exits 0 bash -c 'ulimit -f 100 && exec "$PITH" "$@"' - $command
    exits 1 env TEST_PAGES=4 bash -c 'ulimit -f 100 && exec "$PITH" "$@"' - $command
    says "bytes: cannot be kept in a temporary file in $TMPDIR: File too large"
done
