# t_endless.sh - input that does not end was copied to the temporary folder until the disk was full,
# before its first bytes were looked at.
# SPDX-License-Identifier: Apache-2.0
export TMPDIR=$PWD/folder
mkdir folder
# ends TEXT COMMAND...: exits with 1 and says so, having written less than 64 MiB, in seconds.
ends() {
    local text=$1
    shift
    exits 1 timeout 30 bash -c 'ulimit -f 65536; "$@"' - "$@"
    says "$text"
    [ "$(wc -l <err)" = 1 ] || { cat err >&2; die 'more than one line'; }
}
endless() { # endless FILE ARGUMENT...: pith, reading the file and then zeros for ever
    local file=$1
    shift
    cat "$file" /dev/zero 2>pipe.err | ends "$text" "$PITH" "$@"
}

# Nothing that pith reads begins so.
for command in inspect test "decompress -o x"; do
    ends "/dev/zero: not a file that pith compressed" "$PITH" $command /dev/zero
    yes 2>yes.err | ends "standard input: not a file that pith compressed" "$PITH" $command -
done
text='standard input: neither .npy nor .safetensors'
endless /dev/null compress -o x -
text='standard input: at least 4096 bytes do not fit the dtype and shape, which need 64'
endless /dev/null compress -o x --dtype f32 --shape 4x4 -
text='neither .npy nor .safetensors'
endless /dev/null compare - "$DATA/npy/f32.npy"
endless /dev/null bench --quick -

# A whole file comes first: no more is read than it says it has.
exits 0 pith compress -q -o frame "$DATA/npy/f32.npy"
exits 0 pith compress -q -o container "$DATA/st/next.safetensors"
for command in inspect test "decompress -o x"; do
    text='standard input: (unnamed): damaged: bytes follow the frame'
    endless frame $command -
    text='standard input: damaged: bytes follow the last tensor'
    endless container $command -
done
text="standard input: bytes follow the .npy file's data"
endless "$DATA/npy/f32.npy" compress -o x -
text='standard input: bytes follow the last tensor'
endless "$DATA/st/next.safetensors" compress -o x -

# What declares more than a limit is refused before it is copied.
cat >declare.py <<'END'
import struct
text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 65536)}\n"
open('big.npy', 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text)
text = b'{"a":{"dtype":"U8","shape":[72057594037927936],"data_offsets":[0,72057594037927936]}}'
open('big.st', 'wb').write(struct.pack('<Q', len(text)) + text)
open('json.st', 'wb').write(struct.pack('<Q', 30000000) + b'{"a":"')
END
python3 declare.py
text='bytes that a pipe or device may fill of '$TMPDIR'; --max-spool raises it'
endless big.npy compress -o x -
endless big.st compress -o x -
endless /dev/null compress -o x --dtype u8 --shape 72057594037927936 -
text='standard input: byte 6 of the header: not valid JSON'
endless json.st compress -o x -

# --max-spool, exactly; it is not for files.
size=$(stat -c %s "$DATA/npy/f32.npy")
for limit in 100 4000 $((size - 1)); do
    exits 1 pith compress --max-spool $limit -o x - < <(cat "$DATA/npy/f32.npy")
    says "standard input: is longer than the $limit bytes that a pipe or device may fill"
done
exits 0 pith compress -q --max-spool $size -o x - < <(cat "$DATA/npy/f32.npy")
same x frame
exits 0 pith test -q --max-spool $(stat -c %s x) - < <(cat x)
exits 1 pith test -q --max-spool $(($(stat -c %s x) - 1)) - < <(cat x)
exits 0 pith compress -q --max-spool 1 -f -o x "$DATA/npy/f32.npy"
exits 0 pith compress -q --max-spool 1 -f -o x - <"$DATA/npy/f32.npy"
for bad in 0 -1 x 1T ''; do
    exits 2 pith test --max-spool "$bad" x
    says '--max-spool wants bytes'
done

# A base through a pipe, too.
exits 0 pith compress -q -f -o x --base <(cat "$DATA/npy/f32.npy") "$DATA/npy/f32_step.npy"
exits 0 pith decompress -q -o y --base <(cat "$DATA/npy/f32.npy") x
same y "$DATA/npy/f32_step.npy"
exits 0 pith compress -q -f -o x --dtype f32 --shape 1200 --base <(cat "$DATA/raw/f32.bin") \
    "$DATA/raw/f32_step.bin"
exits 0 pith decompress -q -f -o y --base <(cat "$DATA/raw/f32.bin") x
same y "$DATA/raw/f32_step.bin"
# A file without bytes is said to be one.
exits 1 pith test /dev/null
says '/dev/null: is empty'
only folder frame container x y declare.py big.npy big.st json.st yes.err pipe.err
[ -z "$(ls -A folder)" ] || die 'left in the temporary folder'
