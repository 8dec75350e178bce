# t_limits.sh - small files that declare much are refused before time or memory is spent.
# SPDX-License-Identifier: Apache-2.0
head -c 3000000 /dev/zero >z
exits 0 pith compress -q --dtype u8 --shape 3000000 -o z.p z
for command in "test z.p" "decompress -o again z.p"; do
    exits 1 pith $command --max-output 2929K
    says '--max-output'
    only z z.p
    exits 0 pith $command --max-output 2930K -q
    rm -f again
done
exits 0 pith decompress --max-output 3000000 -q -o again z.p
for bad in 0 -1 x 1T 1KK 9999999999G ''; do
    exits 2 pith test --max-output "$bad" z.p
    says '--max-output'
done

# The sum counts, and by default it is limited as well.
cat >forge.py <<'END'
import json, os, sys
sys.path.insert(0, os.environ['HERE'])
sys.dont_write_bytecode = True
from xxh64 import xxh64
half = 1 << 29
inner = json.dumps({n: {'dtype': 'U8', 'shape': [half], 'data_offsets': [i * half, (i + 1) * half]}
                    for i, n in enumerate('abc')})
lead = b'{"__metadata__":{"pith":"1","pith.check":"'
rest = '","pith.header":%s}' % json.dumps(inner)
for i, n in enumerate('abc'):
    rest += ',"%s":{"dtype":"U8","shape":[64],"data_offsets":[%d,%d]}' % (n, i * 64, i * 64 + 64)
rest = rest.encode() + b'}'
size = (len(lead) + 16 + len(rest)).to_bytes(8, 'little')
digits = b'%016x' % xxh64(size + lead + b'0' * 16 + rest)
open('bomb', 'wb').write(size + lead + digits + rest + bytes(192))
END
python3 forge.py
exits 1 pith test bomb
says 'declares 1610612736 bytes of tensors, more than the limit of 1073741824; --max-output'
exits 1 pith decompress -o again2 bomb
says '--max-output'
exits 1 pith test --max-output 2G bomb
says 'not a pith frame'

# Shapes: 64 dimensions are stored, 65 refused, and so are millions.
cat >shapes.py <<'END'
import json, struct, sys
def st(name, shape):
    text = '{"t":{"dtype":"U8","shape":%s,"data_offsets":[0,1]}}' % shape
    open(name, 'wb').write(struct.pack('<Q', len(text)) + text.encode() + b'x')
st('most.safetensors', [1] * 64)
st('many', [1] * 65)
st('bomb2', '[' + '1,' * 1000000 + '1]')
st('nested', '[' + '[],' * 1000000 + '1]')
END
python3 shapes.py
round_trip most.safetensors
exits 1 pith compress -o bad many
says 'more than 64 dimensions'
exits 1 pith compress -o bad bomb2
says 'more than 64 dimensions'
exits 1 pith compress -o bad nested
says 'not a list of whole numbers'
