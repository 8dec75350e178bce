# t_names.sh - names with marks of direction and invisible characters were printed as they are, and
# one name of 20000 characters padded every row of a table to its width.
# SPDX-License-Identifier: Apache-2.0
cat >make.py <<'END'
import json, struct
def st(name, tensors):
    head = {n: {'dtype': 'F32', 'shape': [1, 4], 'data_offsets': [16 * i, 16 * i + 16]}
            for i, n in enumerate(tensors)}
    text = json.dumps(head).encode()
    open(name, 'wb').write(struct.pack('<Q', len(text)) + text +
                           struct.pack('<4f', 1, 2, 3, 4) * len(tensors))
unseen = [0x7f, 0x80, 0x9b, 0x9f, 0xad, 0x34f, 0x61c, 0x115f, 0x180e, 0x200b, 0x200c, 0x200d,
          0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2060, 0x2061,
          0x2066, 0x2067, 0x2068, 0x2069, 0x206f, 0x3164, 0xfe0f, 0xfeff, 0xffa0, 0xfff9, 0xfffb,
          0x1bca0, 0x1d173, 0xe0001, 0xe007f, 0xe0100]
seen = [0x20, 0x7e, 0xa0, 0xe9, 0x7ff, 0x800, 0x4e2d, 0xd7ff, 0xe000, 0xfffd, 0x10000, 0x1f600,
        0x10ffff]
names = ['u%x_%c' % (c, c) for c in unseen + seen]
names += ['a' * 20000 + 'z', 'b' + '\u4e2d' * 20000, 'c' + '\u202e' * 5000, 'layer\u202egnp.exe',
          'd' * 64, 'e' * 65]
st('odd', names)
st('plain', ['w'])
END
python3 make.py
exits 0 pith compress -v -C wdiff --base plain -o p odd
cp err verbose
exits 0 pith inspect p
cat >check.py <<'END'
import sys, unicodedata as u
sys.path.insert(0, '.')
from make import names, seen, unseen
for name in ('verbose', 'out'):
    text = open(name, 'rb').read().decode()
    bad = [c for c in text if c != '\n' and (u.category(c) in ('Cc', 'Cf', 'Zl', 'Zp') or
                                             ord(c) in unseen)]
    assert not bad, (name, bad)
    assert max(map(len, text.split('\n'))) < 220, name
    for c in unseen:
        escape = '\\x%02x' if c < 0x80 else '\\u%04x' if c < 0x10000 else '\\U%08x'
        assert 'u%x_%s' % (c, escape % c) in text, (name, hex(c))
    for c in seen:
        assert 'u%x_%c' % (c, c) in text, (name, hex(c))
    assert 'layer\\u202egnp.exe' in text
    assert '\n' + 'a' * 40 + '...' + 'a' * 20 + 'z ' in text
    assert '\nb' + '\u4e2d' * 39 + '...' + '\u4e2d' * 21 + ' ' in text
    assert '\n' + 'd' * 64 + ' ' in text and 'e' * 65 not in text
table = open('out', encoding='utf-8').read().split('\n')
column = table[0].index('dtype')
assert column == 66, column
assert all(row[column:column + 3] == 'f32' for row in table[1:-2]), table
END
python3 check.py || die 'names in a table'
# Nothing is shortened or lost for a program.
exits 0 pith inspect --json p
cat >whole.py <<'END'
import json
from make import names
assert [t['name'] for t in json.load(open('out'))['tensors']] == names
END
python3 whole.py || die 'names in JSON'
exits 0 pith compare odd odd
[ "$(wc -L <out)" -lt 300 ] || die 'a wide table of compare'
exits 0 pith compare --json odd odd
python3 whole.py || die 'names in JSON of compare'
# Messages about a tensor.
exits 1 pith compare plain odd
[ "$(wc -c <err)" -lt 200 ] || die 'a long message'
exits 1 pith compress -o x <(python3 -c "
import struct
text = ('{\"' + 'k' * 30000 + '\":{}}').encode()
import sys
sys.stdout.buffer.write(struct.pack('<Q', len(text)) + text)")
[ "$(wc -c <err)" -lt 200 ] || die 'a long message'
says '...kkkkkkkkkkkkkkkkkkkkk: lacks dtype'
# File names, where bytes need not be UTF-8.
for name in $'r\xe2\x80\xaegpj' $'s\xed\xa0\x80' $'t\xf4\x90\x80\x80' $'u\xc0\x9b' $'v\xe2\x80'; do
    exits 1 pith test "$name"
    python3 -c "
text = open('err', 'rb').read()
assert all(32 <= c < 127 or c == 10 for c in text) and b'\\\\' in text, text" || die 'a file name'
done
