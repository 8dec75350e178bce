# t_pipe.sh - "pith inspect FILE | head -1" said that standard output was a broken pipe.
# SPDX-License-Identifier: Apache-2.0
exits 0 pith compress -q -o m.p "$DATA/st/next.safetensors"
head -c 4000000 /dev/zero >big.bin
cat >closed.py <<'END'
import os, signal, subprocess, sys
def closed():
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer
if len(sys.argv) == 2:
    # Where the signal is ignored, as other tools do.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    p = subprocess.Popen([sys.argv[1], 'inspect', 'm.p'], stdout=closed(), stderr=subprocess.PIPE,
                         restore_signals=False)
    assert p.stderr.read() == b'pith: standard output: cannot write: Broken pipe\n'
    assert p.wait() == 1
for command in sys.argv[2:]:
    p = subprocess.Popen([sys.argv[1]] + command.split(), stdout=closed(), stderr=subprocess.PIPE)
    said = p.stderr.read()
    assert p.wait() == -signal.SIGPIPE and not said, (command, p.returncode, said)
END
python3 closed.py "$PITH" 'inspect m.p' 'inspect --json m.p' codecs --help \
    'compress -q -C raw --dtype u8 --shape 4000000 -o - big.bin' 'decompress -q -o - m.p' ||
    die 'a closed pipe'

python3 closed.py "$PITH" || die 'a closed pipe, ignored'
only m.p big.bin closed.py
