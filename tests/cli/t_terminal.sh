# t_terminal.sh - names from files never reach a terminal as control characters, and no frames do.
# SPDX-License-Identifier: Apache-2.0
cat >make.py <<'END'
import json, struct
def st(name, tensors):
    head = {n: {'dtype': 'F32', 'shape': [1, 4], 'data_offsets': [16 * i, 16 * i + 16]}
            for i, n in enumerate(tensors)}
    text = json.dumps(head).encode()
    data = struct.pack('<4f', 1, 2, 3, 4) * len(tensors)
    open(name, 'wb').write(struct.pack('<Q', len(text)) + text + data)
st('a', ['\x1b]0;pwned\x07', 'line\nbreak', '\x9b31mred', 'caf\u00e9', 'del\x7f'])
st('b', ['w'])
END
python3 make.py
# plain FILE: no control character but newlines, in UTF-8 or as a byte.
plain() {
    python3 -c 'import sys, unicodedata as u
text = open(sys.argv[1], "rb").read().decode()
sys.exit(any(u.category(c) == "Cc" and c != "\n" for c in text))' "$1" || die "controls in $1"
}
exits 0 pith compress -v -C wdiff --base b -o p a
plain err
says 'line\x0abreak: not in the base'
says '\u009b31mred: not in the base'
says $'caf\xc3\xa9: not in the base'
exits 0 pith inspect p
plain out
exits 0 pith inspect --json p
plain out
exits 0 pith compare a a
plain out
exits 1 pith compare a b
plain err
for name in $'no\x1b[2J\nfile' $'no\xc2\x9b1m' $'no\x9b1m' $'no\xe0\x82\x9b'; do
    exits 1 pith test "$name"
    plain err
    [ "$(wc -l <err)" = 1 ] || die 'a name broke the line'
    cp p "$name"
    exits 0 pith test "$name"
    plain out
    exits 2 pith "$name"
    plain err
done

# To a terminal only when forced.
cat >far.py <<'END'
import os, pty, subprocess, sys, tempfile
def run(*arguments):
    near, far = pty.openpty()
    with tempfile.TemporaryFile() as err:
        command = [os.environ['PITH'], *arguments]
        code = subprocess.run(command, stdout=far, stderr=err).returncode
        os.close(far)
        err.seek(0)
        text = err.read()
    got = b''
    try:
        while part := os.read(near, 1 << 16):
            got += part
    except OSError:
        pass
    os.close(near)
    return code, text, got
code, text, got = run('compress', '-o', '-', sys.argv[1])
assert code == 2 and got == b'', (code, len(got))
assert text.startswith(b'pith: standard output: binary data for a terminal; use -o or -f\n'), text
code, text, got = run('compress', '-f', '-o', '-', sys.argv[1])
assert code == 0 and len(got) > 100, (code, text, len(got))
END
python3 far.py "$DATA/npy/f32.npy" || die 'a frame for a terminal'

# What takes longer than half a second shows a bar, which is gone at the end: on a terminal only,
# and not under -q.
cat >bar.py <<'END'
import os, pty, subprocess
def run(*arguments):
    near, far = pty.openpty()
    code = subprocess.run([os.environ['PITH'], *arguments], stdout=subprocess.DEVNULL,
                          stderr=far).returncode
    os.write(far, b'|') # the end: a terminal hands over what was written in parts
    got = b''
    while not got.endswith(b'|'):
        got += os.read(near, 1 << 16)
    os.close(near)
    os.close(far)
    assert code == 0, (arguments, got)
    return got.decode().rstrip('|')
filled = ''.join('\r[%-40s] %3d%% ' % ('#' * 8 * n, 20 * n) for n in range(1, 6))
gone = '\r' + 49 * ' ' + '\r'
for arguments in (['compress', '-f', '-o', 'bar', 'a'], ['test', 'bar'],
                  ['decompress', '-f', '-o', 'back', 'bar']):
    got = run(*arguments)
    assert got.startswith(filled + gone), (arguments, got)
    assert '#' not in got[len(filled):], got
    assert '#' not in run(arguments[0], '-q', *arguments[1:]), arguments
END
elsewhere TEST_CLOCK=
python3 bar.py || die 'the bar'
exits 0 pith compress -f -o bar a
grep -q '#' err && die 'a bar that is not on a terminal'
same a back
