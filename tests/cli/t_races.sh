# t_races.sh - what other programs do between two steps of writing an output, and disks that fail at
# the last one.
# SPDX-License-Identifier: Apache-2.0
head -c 1000 /dev/urandom >in.bin
head -c 400000 /dev/urandom >big.bin
mkdir work
export small="compress -q --dtype u8 --shape 1000"
elsewhere TEST_FREE=
# holds NAME...: the folder has these files and no other.
holds() {
    local all
    all=$(ls -A work | LC_ALL=C sort | tr '\n' ' ')
    [ "$all" = "${*:+$* }" ] || die "the folder holds: $all"
}
systems=('' TEST_NAMED=1 TEST_NO_PROC=1)

for system in "${systems[@]}"; do
    # A file that appears at the last moment stays, unless -f was given.
    exits 1 env $system TEST_AT_NAME='echo mine >work/x' "$PITH" $small -o work/x in.bin
    says 'pith: work/x: cannot write: File exists'
    [ "$(cat work/x)" = mine ] || die "it was overwritten: $system"
    holds x
    rm work/x
    exits 0 env $system TEST_AT_NAME='echo mine >work/x' "$PITH" $small -f -o work/x in.bin
    exits 0 pith test work/x
    holds x

    # What is being written is not cleared away by another run, whenever that comes.
    for moment in TEST_AT_NAME TEST_AT_RENAME; do
        exits 0 env $system $moment='"$PITH" $small -f -o work/y in.bin' \
            "$PITH" $small -f -o work/x in.bin
        exits 0 pith test work/x
        rm -f work/y
        holds x
    done

    # A disk that fails when the file is to be made last.
    cp work/x before
    exits 1 env $system TEST_BROKEN=1 "$PITH" $small -f -o work/x in.bin
    says 'pith: work/x: cannot write: Input/output error'
    same work/x before
    exits 1 env $system TEST_BROKEN=1 "$PITH" $small -o work/z in.bin
    exits 1 env $system bash -c 'ulimit -f 64
        exec "$PITH" compress -q -C raw --dtype u8 --shape 400000 -o work/z big.bin'
    says 'pith: work/z: cannot write: File too large'
    holds x
    rm work/x before
done

# A signal in the instant in which a file that replaces another has a name of its own.
for signal in TERM HUP USR1; do
    exits 0 pith $small -f -o work/x in.bin
    rc=0
    (exec env TEST_AT_NAMED="kill -$signal \$PPID" "$PITH" $small -f -o work/x in.bin) 2>err ||
        rc=$?
    [ $rc -gt 128 ] || die "exit $rc after SIG$signal"
    exits 0 pith test work/x
    holds x
    rm work/x
done

# Signals that the first thread holds back in that instant came to another one, which ended the run
# without knowing the file.
threaded="compress -q -T 2 -C grad --dtype f32 --shape 1000000"
head -c 4000000 /dev/zero >f32.bin
for signal in TERM HUP USR1; do
    exits 0 pith $threaded -f -o work/x f32.bin
    rc=0
    (exec env TEST_AT_NAMED="kill -$signal \$PPID; sleep 0.3" \
        "$PITH" $threaded -f -o work/x f32.bin) 2>err || rc=$?
    [ $rc -gt 128 ] || die "exit $rc after SIG$signal, with threads"
    exits 0 pith test work/x
    holds x
done
rm work/x f32.bin

# A name that is there already, and one that is gone before its file was locked.
exits 0 pith $small -o work/x in.bin
exits 0 env TEST_TAKEN=1 "$PITH" $small -f -o work/x in.bin
holds x
exits 0 env TEST_NAMED=1 TEST_AT_LOCK='rm work/.pith.tmp-*' "$PITH" $small -f -o work/x in.bin
exits 0 pith test work/x
holds x

# Of what a killed run may have left, the name has become another's meanwhile.
touch work/.pith.tmp-aaaaaa
exits 0 env TEST_AT_TRY='cd work && mv .pith.tmp-aaaaaa y && touch .pith.tmp-aaaaaa' \
    "$PITH" $small -f -o work/x in.bin
holds .pith.tmp-aaaaaa x y

# What cannot be written can be cleared away; what nobody ever writes to does not hold a run up.
chmod 444 work/.pith.tmp-aaaaaa
mkfifo -m 444 work/.pith.tmp-fifo00
kept=(.pith.tmp-fifo00)
if [ "$(id -u)" = 0 ]; then
    install -o 65534 /dev/null work/.pith.tmp-others
    kept+=(.pith.tmp-others)
fi
exits 0 env TEST_MODES=1 timeout 20 "$PITH" $small -f -o work/x in.bin
holds "${kept[@]}" x y
only in.bin big.bin work preload.so
