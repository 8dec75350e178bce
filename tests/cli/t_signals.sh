# t_signals.sh - signals while the output is being written leave nothing behind.
# SPDX-License-Identifier: Apache-2.0
python3 - <<'END'
import random
random.seed(2)
block = bytes(random.getrandbits(8) for _ in range(1 << 16))
with open('big.bin', 'wb') as f:
    for _ in range(512):
        f.write(block)
END
cat >interrupt.py <<'END'
import os, resource, signal, subprocess, sys, time
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
pith, number = sys.argv[1], getattr(signal, sys.argv[2])
child = subprocess.Popen([pith, 'compress', '-q', '-C', 'lossless:effort=19', '--dtype', 'u8',
                          '--shape', str(1 << 25), '-o', 'x.pith', 'big.bin'])
here = os.getcwd() + '/'
def writes():
    """Whether there is an output, with a name or without."""
    try:
        at = '/proc/%d/fd/' % child.pid
        return any(n.startswith((here + '.pith.tmp-', here + '#')) or n.endswith('(deleted)')
                   for n in (os.readlink(at + f) for f in os.listdir(at)))
    except OSError:
        return False
deadline = time.time() + 20
while time.time() < deadline and not writes():
    if child.poll() is not None:
        sys.exit('it ended too early to be interrupted')
child.send_signal(number)
if child.wait() != -number:
    sys.exit('exit %d' % child.returncode)
if any('.pith' in n for n in os.listdir('.')):
    sys.exit('left behind: %s' % os.listdir('.'))
END
for signal in SIGINT SIGTERM SIGHUP SIGQUIT SIGALRM SIGXCPU SIGUSR1 SIGUSR2 SIGPIPE; do
    python3 interrupt.py "$PITH" $signal || die $signal
done
elsewhere TEST_NAMED=1
for signal in SIGINT SIGTERM SIGHUP SIGQUIT SIGALRM SIGXCPU SIGUSR1 SIGUSR2 SIGPIPE; do
    python3 interrupt.py "$PITH" $signal || die "$signal, with a name"
done

# Input that another program cuts short while it is read.
for system in TEST_HERE=1 TEST_NAMED=1; do
    cp big.bin cut.bin
    exits 1 env $system TEST_AT_MADE=': >cut.bin' "$PITH" compress -q -C raw --dtype u8 \
        --shape 33554432 -o x.pith cut.bin
    says 'pith: a mapped file became shorter'
    only big.bin cut.bin interrupt.py preload.so
done
