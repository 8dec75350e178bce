# t_killed.sh - a run that was ended with SIGKILL left its temporary file for ever.
# SPDX-License-Identifier: Apache-2.0
mkdir work
cat >killed.py <<'END'
import os, random, signal, subprocess, sys, time

pith, named = sys.argv[1], 'TEST_NAMED' in os.environ
rng = random.Random(3)
with open('big.bin', 'wb') as f:
    f.write(rng.randbytes(1 << 23))
open('small.bin', 'wb').write(bytes(100))
here = os.path.realpath('work') + '/'
command = [pith, 'compress', '-q', '-f', '--dtype', 'u8']

def output_of(child):
    """Whether the process has a file open in the folder."""
    try:
        fds = os.listdir('/proc/%d/fd' % child.pid)
        return any(os.readlink('/proc/%d/fd/%s' % (child.pid, f)).startswith(here) for f in fds)
    except OSError:
        return False

def begin(name):
    """A run that has begun to write and is stopped."""
    child = subprocess.Popen(command + ['--shape', str(1 << 23), '-C', 'lossless:effort=19', '-o',
                                        'work/' + name, 'big.bin'])
    deadline = time.time() + 60
    while not output_of(child):
        assert child.poll() is None and time.time() < deadline, 'too early to be interrupted'
    time.sleep(0.05) # from when it has its file to when it holds the lock; coding takes longer
    child.send_signal(signal.SIGSTOP)
    assert child.poll() is None
    return child

def small():
    subprocess.check_call(command + ['--shape', '100', '-o', 'work/small', 'small.bin'])

for name in ('new', 'old'):
    open('work/old', 'w').write('before')
    child = begin(name)
    left = [n for n in os.listdir('work') if n.startswith('.pith.tmp-')]
    assert len(left) == named, left
    child.kill()
    child.wait()
    assert sorted(os.listdir('work')) == sorted(left + ['old']), os.listdir('work')
    assert open('work/old').read() == 'before'

    # The next run clears away what nobody uses, and nothing else.
    other = begin('other')
    used = [n for n in os.listdir('work') if n.startswith('.pith.tmp-')]
    assert len(used) == named and not set(left) & set(used), (left, used)
    kept = ['.pith.tmp-abcde', '.pith.tmp-abcdefg', '.pith.tmp-abc.ef', 'x.pith.tmp-abcdef']
    for n in kept:
        open('work/' + n, 'w').close()
    os.mkdir('work/.pith.tmp-folder')
    os.symlink('old', 'work/.pith.tmp-symbol')
    kept += ['.pith.tmp-folder', '.pith.tmp-symbol']
    open('work/.pith.tmp-Left09', 'w').close()
    small()
    small()
    assert sorted(os.listdir('work')) == sorted(used + kept + ['old', 'small']), os.listdir('work')
    other.send_signal(signal.SIGCONT)
    assert other.wait() == 0
    assert sorted(os.listdir('work')) == sorted(kept + ['old', 'small', 'other'])
    subprocess.check_call([pith, 'test', '-q', 'work/other'])
    os.rmdir('work/.pith.tmp-folder')
    for n in os.listdir('work'):
        os.remove('work/' + n)
END
python3 killed.py "$PITH" || die 'without names'
elsewhere TEST_NAMED=1
python3 killed.py "$PITH" || die 'with names'
only work killed.py big.bin small.bin preload.so
