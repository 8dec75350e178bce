# t_places.sh - -f -o /dev/stdout with stdout in a file replaced the link /dev/stdout (of which root
# is capable), and what a file appended to itself was compressed without a word.
# SPDX-License-Identifier: Apache-2.0
cp "$DATA/npy/f32.npy" a.npy
cp "$DATA/st/next.safetensors" m.safetensors
exits 0 pith compress -q -o a.want a.npy
exits 0 pith compress -q -o m.want m.safetensors

# Names of descriptors are written to where they are, a link to one too, and frames and containers.
ln -s /proc/self/fd/1 link
for in in a.npy m.safetensors; do
    name=${in%%.*}
    for out in - /dev/stdout /dev/fd/1 /proc/self/fd/1 link sent; do
        for flag in -q -qf; do
            echo before >sent
            rc=0
            pith compress $flag -o $out $in >>sent 2>err || rc=$?
            [ $rc = 0 ] || { cat err >&2; die "exit $rc for $out"; }
            same <(tail -n +2 sent) $name.want
            [ "$(head -n 1 sent)" = before ] || die "what stood in the file is lost: $out"
        done
    done
    [ "$(readlink link)" = /proc/self/fd/1 ] || die 'the link was replaced'
    exits 0 pith compress -q -o /dev/fd/7 $in 7>sent
    same sent $name.want
    pith compress -q -o /dev/stderr $in 2>sent
    same sent $name.want
done
exits 1 pith compress -o /dev/fd/77 a.npy
says '/dev/fd/77: cannot write: Bad file descriptor'
rm link sent

# The input under any name, standard output among them.
for in in a.npy -; do
    rc=0
    pith compress -q -o - $in <a.npy >>a.npy 2>err || rc=$?
    [ $rc = 1 ] || die "exit $rc"
    says 'standard output: is the input'
    exits 1 pith compress -f -o ./a.npy $in <a.npy
    says './a.npy: is the input'
done
rc=0
pith compress -q --base a.npy -o - "$DATA/npy/f32_step.npy" >>a.npy 2>err || rc=$?
[ $rc = 1 ] || die "exit $rc"
says 'is the base'
same a.npy "$DATA/npy/f32.npy"
cp a.want b.want
rc=0
pith decompress -q -o - b.want >>b.want 2>err || rc=$?
[ $rc = 1 ] || die "exit $rc"
says 'standard output: is the input'
same a.want b.want
rm b.want

# A link that leads nowhere is in the way like a file, and found so at once; -f puts the output in
# place of a link, not of what it leads to.
ln -s nowhere lost
exits 1 pith compress -o lost a.npy
says 'lost: exists; -f overwrites'
exits 0 pith compress -q -f -o lost a.npy
[ ! -L lost ] || die 'the link is still there'
[ ! -e nowhere ] || die 'a file where the link led'
cp a.npy victim
ln -sf victim lost
exits 0 pith compress -q -f -o lost a.npy
same victim a.npy
same lost a.want
rm lost
ln -s lost lost
exits 1 pith compress -f -o lost a.npy
says 'lost: cannot write: Too many levels'
rm lost victim
exits 1 pith compress -f -o a.npy/ m.safetensors
says 'a.npy/: cannot write: Not a directory'
exits 1 pith compress -o none/out a.npy
says 'none/out: cannot write: No such file or directory'
exits 1 pith inspect .
says '.: cannot read: Is a directory'

# What a file is opened as is not taken for standard output or standard error that are closed.
for flag in --json -v; do
    rc=0
    pith compress $flag -f -o x a.npy <&- >&- 2>&- || rc=$?
    [ $rc -le 1 ] || die "exit $rc"
    same x a.want
    pith decompress -f -o y x <&- >&- 2>&-
    same y a.npy
    pith compress $flag -C eb --base "$DATA/st/base.safetensors" -f -o x m.safetensors \
        <&- >&- 2>&- || :
    exits 0 pith test --base "$DATA/st/base.safetensors" x
done
only a.npy m.safetensors a.want m.want x y
