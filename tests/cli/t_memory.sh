# t_memory.sh - memory is bounded by a tensor, not by the file.
# SPDX-License-Identifier: Apache-2.0
cat >memory.py <<'END'
import json, os, resource, struct, subprocess, sys
COUNT, ROWS, LIMIT_KIB = 64, 1024, 110 * 1024
size = ROWS * 1024 * 4
head = {'t%d' % i: {'dtype': 'F32', 'shape': [ROWS, 1024],
                    'data_offsets': [i * size, (i + 1) * size]} for i in range(COUNT)}
text = json.dumps(head).encode()
noise = os.urandom(1 << 20).replace(b'\xff', b'\xfe').replace(b'\x7f', b'\x7e')
with open('big', 'wb') as f:
    f.write(struct.pack('<Q', len(text)) + text)
    for i in range(COUNT * size >> 20):
        f.write(noise)
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
python3 memory.py "$PITH" || die 'too much memory'
same big again
