# t_messages.sh - headers made to mislead got messages that misled: nested metadata was called a
# shape, a negative dimension a missing number, a full TMPDIR an error of standard input.
# SPDX-License-Identifier: Apache-2.0
cat >make.py <<'END'
import struct, sys
def st(name, text, data=b''):
    text = text.encode() if isinstance(text, str) else text
    open(name + '.safetensors', 'wb').write(struct.pack('<Q', len(text)) + text + data)
entry = '{"dtype":%s,"shape":%s,"data_offsets":%s}'
st('metadata_nested', '{"__metadata__":{"a":[[1]]},"w":%s}' % (entry % ('"U8"', [2], [0, 2])))
st('metadata_object', '{"__metadata__":{"a":[{}]}}')
st('metadata_long', '{"__metadata__":{"a":[%s1]}}' % ('1,' * 99))
st('metadata_array', '{"__metadata__":[[]]}')
st('shape_nested', '{"v":{"shape":[2]},"w":%s}' % (entry % ('"U8"', '[[2]]', [0, 2])))
st('shape_long', '{"w":%s}' % (entry % ('"U8"', [1] * 65, [0, 1])))
st('offsets_nested', '{"w":%s}' % (entry % ('"U8"', [2], '[[0],2]')))
st('offsets_long', '{"w":%s}' % (entry % ('"U8"', [2], [0] * 99)))
st('other_nested', '{"w":{"x":[[]]}}')
st('array', '{"w":[[]]}')
st('dtype', '{"v":%s,"w":%s}' % (entry % ('"U8"', [2], [0, 2]), entry % ('"U9"', [2], [2, 4])))
st('shape_real', '{"w":%s}' % (entry % ('"U8"', [2.5], [0, 2])))
st('escaped', '{"q\\"[[x":{"shape":[-1],"dtype":"U8","data_offsets":[0,1]}}')
st('json', '{"w":}')
st('number', '{"w":%s}' % (entry % ('"U8"', [1 << 64], [0, 1])))
st('real', '{"w":1e999}')
st('twice', '{"__metadata__":{"a":"b","a":"c"}}')
st('nul', '{"__metadata__":{"a":"\\u0000"}}')
st('deep', '{"w":' * 3000)
def npy(name, shape, text="{'descr': '<f4', 'fortran_order': False, 'shape': %s, }\n"):
    text = (text % shape if '%' in text else text).encode()
    open(name + '.npy', 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text)
npy('negative', '(3, -4)')
npy('real', '(3, 4.0)')
npy('sum', '(3+4, 4)')
npy('word', '(True, 4)')
npy('list', '[3, 4]')
npy('cut', "(3, 4")
npy('open', '', '{\n')
npy('colon', '', "{'descr' '<f4'}\n")
npy('string', '', "{'descr")
npy('escape', '', "{'descr\\")
END
python3 make.py
refused() { # refused FILE TEXT: the message names the file, the thing and the cause
    exits 1 pith compress -o x "$1"
    [ "$(cat err)" = "pith: $1: $2" ] || { cat err >&2; die "not: $1: $2"; }
}
for name in metadata_nested metadata_object metadata_long metadata_array; do
    refused $name.safetensors '__metadata__: holds something other than strings'
done
refused shape_nested.safetensors 'w: the shape is not a list of whole numbers of at least 0'
refused shape_real.safetensors 'w: the shape is not a list of whole numbers of at least 0'
refused escaped.safetensors 'q"[[x: the shape is not a list of whole numbers of at least 0'
refused shape_long.safetensors 'w: the shape has more than 64 dimensions'
refused offsets_nested.safetensors 'w: the data_offsets are not two whole numbers of at least 0'
refused offsets_long.safetensors 'w: the data_offsets are not two whole numbers of at least 0'
refused other_nested.safetensors 'w: its entry has an array that is nested or too long'
refused array.safetensors 'w: lacks dtype, shape or data_offsets'
refused dtype.safetensors "w: the dtype is unknown: 'U9'"
refused json.safetensors 'byte 6 of the header: not valid JSON'
refused twice.safetensors 'byte 28 of the header: a key for the second time'
for name in number real; do
    exits 1 pith compress -o x $name.safetensors
    says 'of the header: a number is too big'
done
exits 1 pith compress -o x nul.safetensors
says 'of the header: a string holds the character NUL'
exits 1 pith compress -o x deep.safetensors
says 'of the header: nested too deeply'
# A file that was meant to be .safetensors, by its name or its JSON, is no unknown one.
absurd='the .safetensors header is longer than 100 MB: found a length of'
absurd="$absurd 18446744073709551615 in a file of"
printf '\377\377\377\377\377\377\377\377{"a":' | tee absurd.safetensors >absurd
refused absurd.safetensors "$absurd 13 bytes"
refused absurd "$absurd 13 bytes"
printf '\377\0\0\0\0\0\0\0{"a":' >short.safetensors
ends='the file ends inside its .safetensors header'
refused short.safetensors "$ends: found a length of 255 in a file of 13 bytes"
head -c 3 short.safetensors >field.safetensors
refused field.safetensors 'the file is shorter than its length field: found 3 bytes'
printf '\003\0\0\0\0\0\0\0[1]' >bracket.safetensors
refused bracket.safetensors 'the header does not begin with {'
printf '\377\377\377\377\377\377\377\377-"a":' >other
refused other 'neither .npy nor .safetensors; raw bytes need --dtype and --shape'
exits 0 pith compress --dtype u8 --shape 13 -o x absurd.safetensors
rm x
refused negative.npy 'the shape in the .npy header has a negative dimension'
for name in real sum word; do
    refused $name.npy 'the shape in the .npy header holds something other than whole numbers'
done
refused list.npy 'the shape in the .npy header is not a tuple'
refused cut.npy 'the shape in the .npy header holds something other than whole numbers'
refused open.npy 'the .npy header ends inside its dictionary'
for name in string escape; do
    refused $name.npy 'a string in the .npy header does not end'
done
head -c 130 "$DATA/npy/f32.npy" >data.npy
refused data.npy 'the .npy file ends inside its data: found 2 bytes of it, expected 4800'
refused colon.npy 'the .npy header is not a dictionary as NumPy writes it'
: >empty
refused empty 'is empty; raw bytes need --dtype and --shape'

# A temporary folder that is full, and none at all: neither is the fault of what is read.
mkdir folder
export TMPDIR=$PWD/folder
head -c 400000 /dev/zero >big
small() { # small COMMAND...: pith, which may write files of up to 64 KiB
    exits 1 bash -c 'ulimit -f 64; exec "$PITH" "$@"' - "$@"
}
cat big | small compress -o x --dtype u8 --shape 400000 -
says "pith: standard input: cannot be kept in a temporary file in $TMPDIR: File too large"
cat big | small compress -o x --dtype u8 --shape 400000 /dev/stdin
says "pith: /dev/stdin: cannot be kept in a temporary file in $TMPDIR: File too large"
python3 - <<'END'
import struct
text = b'{"w":{"dtype":"U8","shape":[400000],"data_offsets":[0,400000]}}'
open('big.st', 'wb').write(struct.pack('<Q', len(text)) + text + bytes(400000))
END
small compress -C raw -o - big.st
says "pith: standard output: cannot be kept in a temporary file in $TMPDIR: File too large"
small compress -C raw -o x big.st
says 'pith: x: cannot write: File too large'
[ ! -e x ] || die 'an output'
[ -z "$(ls -A folder)" ] || die 'left in the temporary folder'
