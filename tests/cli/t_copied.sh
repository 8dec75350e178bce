# t_copied.sh - where the copy of a pipe is kept, on systems with files without a name and others;
# nothing is left there.
# SPDX-License-Identifier: Apache-2.0
export TMPDIR=$PWD/folder
mkdir folder
size=200000
head -c $size /dev/urandom >in
exits 0 pith compress -q -C raw --dtype u8 --shape $size -o want in
long=$(printf '/long%.0s' $(seq 2000))
root=$(ls -A /)
export root
elsewhere TEST_FREE=1000000,4096
packs() { # packs NAME=VALUE...: what comes through a pipe, there
    exits 0 env "$@" "$PITH" compress -q -C raw --dtype u8 --shape $size -f -o x - < <(cat in)
    same x want
    [ -z "$(ls -A folder)" ] || die "left in the temporary folder: $(ls -A folder)"
}
packs TEST_UNNAMED=1
for system in TEST_HERE=1 TEST_NAMED=1; do
    packs $system
    packs $system TEST_INTERRUPTED=1
    # Where the folder does not do another one does.
    packs $system TMPDIR="$PWD/nowhere"
    packs $system TMPDIR="$PWD/in"
    packs $system TMPDIR="$long"
    packs $system TMPDIR= TEST_AT_MADE='[ "$(ls -A /)" = "$root" ]'
done

# A signal in the instant in which the file has a name.
for out in x new -; do
    for signal in TERM HUP USR1; do
        rc=0
        (ulimit -c 0 && exec env TEST_NAMED=1 TEST_AT_MADE="kill -$signal \$PPID" "$PITH" compress \
            -q -C raw --dtype u8 --shape $size -f -o $out -) < <(cat in) >out 2>err || rc=$?
        [ $rc -gt 128 ] || die "exit $rc after SIG$signal"
        [ -z "$(ls -A folder)" ] || die "left in the temporary folder: $(ls -A folder)"
        rc=0
        (ulimit -c 0 && exec env TEST_NAMED=1 TEST_AT_MADE="kill -$signal \$PPID" "$PITH" compress \
            -q -C raw --dtype u8 --shape $size -f -o $out in) >out 2>err || rc=$?
        [ $out = - ] || [ $rc -gt 128 ] || die "exit $rc after SIG$signal"
        only folder in want x preload.so
    done
done
