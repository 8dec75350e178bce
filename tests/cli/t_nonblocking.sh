# t_nonblocking.sh - pipes that other programs have set not to block, as those between event loops
# are, failed with "Resource temporarily unavailable" when the other end was slow.
# SPDX-License-Identifier: Apache-2.0
head -c 3000000 /dev/urandom >big
exits 0 pith compress -q -C raw --dtype u8 --shape 3000000 -o want big
cat >slow.py <<'END'
import os, subprocess, sys, threading, time
data = open('big', 'rb').read()
pipes = [os.pipe(), os.pipe()]
for pair in pipes:
    for end in pair:
        os.set_blocking(end, False)
(read_in, write_in), (read_out, write_out) = pipes
child = subprocess.Popen([sys.argv[1], 'compress', '-q', '-C', 'raw', '--dtype', 'u8', '--shape',
                          str(len(data)), '-o', '-', '-'], stdin=read_in, stdout=write_out)
os.close(read_in)
os.close(write_out)
os.set_blocking(write_in, True)
os.set_blocking(read_out, True)

def feed():
    time.sleep(0.2)
    for at in range(0, len(data), 1000000):
        os.write(write_in, data[at:at + 10000])
        time.sleep(0.1)
        os.write(write_in, data[at + 10000:at + 1000000])
    os.close(write_in)

feeder = threading.Thread(target=feed)
feeder.start()
time.sleep(1)
got = b''
while part := os.read(read_out, 1 << 16):
    got += part
feeder.join()
if child.wait() != 0 or got != open('want', 'rb').read():
    sys.exit('exit %d, %d bytes' % (child.returncode, len(got)))
END
python3 slow.py "$PITH" || die 'a pipe that does not block'
