# t_output.sh - names, -f, streams, full disks, signals: nothing is left behind.
# SPDX-License-Identifier: Apache-2.0
cp "$DATA/npy/f32.npy" a.npy
cp "$DATA/st/base.safetensors" m.safetensors
cp "$DATA/raw/f32.bin" r.bin

# Default names, and never over an existing file without -f.
exits 0 pith compress a.npy
exits 0 pith compress m.safetensors
exits 0 pith compress --dtype f32 --shape 1200 r.bin
for packed in a.npy.pith m.safetensors.pith.safetensors r.bin.pith; do
    [ -f $packed ] || die "no $packed"
    exits 1 pith decompress $packed
    says 'exists'
    exits 0 pith decompress -f $packed
done
same a.npy "$DATA/npy/f32.npy"
same m.safetensors "$DATA/st/base.safetensors"
same r.bin "$DATA/raw/f32.bin"
exits 1 pith compress a.npy
says 'exists'
cp a.npy.pith before
exits 1 pith compress -C raw a.npy
same a.npy.pith before
exits 0 pith compress -f -C raw a.npy
cmp -s a.npy.pith before && die '-f did not overwrite'
# -f replaced the input by its output; a device is not replaced.
cp a.npy x
ln x y
for out in x ./x y; do
    exits 1 pith compress -f -o $out x
    says "$out: is the input"
done
same x a.npy
cp a.npy.pith x
exits 1 pith decompress -f -o ./x x
says './x: is the input'
same x a.npy.pith
rm x y
exits 0 pith compress --dtype u8 --shape 0 -o /dev/null /dev/null
# The suffix of the original format comes back.
mv before b.pith
exits 0 pith decompress b.pith
same b.npy a.npy
cp m.safetensors.pith.safetensors n.pith.safetensors
exits 0 pith decompress n.pith.safetensors
same n.safetensors m.safetensors
cp b.pith odd
exits 2 pith decompress odd
says '-o'
exits 0 pith compress -o out.pith -f -q a.npy
exits 1 pith compress -o . -f a.npy
exits 1 pith compress -o no/such/place a.npy
exits 1 pith compress .
exits 1 pith compress nowhere.npy
says 'nowhere.npy'
[ "$(stat -c %a out.pith)" = "$(printf '%o' $((0666 & ~$(umask))))" ] || die 'mode of the output'

# Who could not read the input cannot read the output, new or overwritten.
for mode in 600 640 444; do
    rm -f secret secret.pith
    (umask 022 && cp a.npy secret && chmod $mode secret &&
        exits 0 pith compress -q secret && cp -f a.npy secret.pith && chmod 666 secret.pith &&
        exits 0 pith compress -q -f secret && exits 0 pith decompress -q -o secret.out secret.pith)
    for made in secret.pith secret.out; do
        [ "$(stat -c %a $made)" = $mode ] || die "$made has mode $(stat -c %a $made), not $mode"
    done
    rm -f secret.out
done
(umask 077 && exits 0 pith compress -q -f -o secret.pith a.npy)
[ "$(stat -c %a secret.pith)" = 600 ] || die 'wider than the umask'
rm -f secret secret.pith

# Names up to the limit of the file system, and one beyond it at once.
for length in 245 255; do
    long=$(printf 'x%.0s' $(seq $length))
    exits 0 pith compress -q -o $long a.npy
    rm $long
done
exits 1 pith compress -q -o ${long}x a.npy
says 'too long'
# JSON does not mix with data.
for out in - /dev/stdout /dev/fd/1; do
    rc=0
    pith compress --json -o $out a.npy 2>err | cat >out || rc=$?
    [ ! -s out ] || die "JSON and data on $out"
    says '--json'
done
exits 0 pith compress -q --json -o /dev/null a.npy

# Streams: pipes in and out, from files too.
for file in a.npy m.safetensors; do
    cat $file | pith compress -q - >s.pith
    pith decompress -q - <s.pith >s.restored
    same s.restored $file
    cat s.pith | pith decompress -q -o s2 -
    same s2 $file
    rm s2
    cat s.pith | pith test -q -
    cat s.pith | pith inspect --json - >out
    json out "len(d['tensors']) > 0"
    exits 0 pith compress -q -o s3.pith $file
    same s3.pith s.pith
    rm s3.pith
done

# A full disk, a file size limit, a closed stdout; t_pipe.sh has a reader that went away.
before=$(ls -A)
exits 1 pith compress -q -o /dev/full m.safetensors
says 'No space left'
exits 1 pith compress -q -o /dev/full a.npy
exits 1 pith decompress -q -o /dev/full a.npy.pith
for command in "inspect --json a.npy.pith" "codecs" "compare a.npy a.npy" "compress --help"; do
    rc=0
    pith $command >/dev/full 2>err || rc=$?
    [ $rc = 1 ] || die "exit $rc with a full stdout: $command"
    rc=0
    pith $command >&- 2>err || rc=$?
    [ $rc = 1 ] || die "exit $rc with a closed stdout: $command"
done
rc=0
pith compress -q -o - a.npy >&- 2>err || rc=$?
[ $rc = 1 ] || die "exit $rc with a closed stdout"
head -c 400000 /dev/zero >big.bin
exits 1 bash -c 'ulimit -f 64
    exec "$PITH" compress -C raw --dtype u8 --shape 400000 -q -o big.pith big.bin'
[ ! -e big.pith ] || die 'an output over the limit'
rm big.bin
[ "$before" = "$(ls -A)" ] || die "left behind: $(ls -A)"

# Signals while waiting for a pipe that does not end (t_signals.sh has SIGINT: a shell starts its
# background commands with it ignored).
for signal in TERM HUP; do
    mkfifo pipe
    pith compress -q -o late.pith pipe 2>err &
    child=$!
    exec 9>pipe
    head -c 1000 a.npy >&9
    kill -$signal $child 2>/dev/null
    rc=0
    wait $child || rc=$?
    exec 9>&-
    rm pipe
    [ $rc -gt 2 ] || die "exit $rc after SIG$signal"
    [ -z "$(ls -A | grep late)" ] || die "SIG$signal left $(ls -A | grep late)"
done
