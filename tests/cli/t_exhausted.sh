# t_exhausted.sh - whichever allocation finds no memory left, the command says so, and leaves
# nothing. It said "pith: " and no more, for want of memory, and called good files damaged.
# SPDX-License-Identifier: Apache-2.0
! grep -q __asan_init "$PITH" || exit 0 # which has an allocator of its own
${CC:-cc} -shared -fPIC -o exhausted.so "$HERE/exhausted.c" || die 'cc'

# without_memory LEAST COMMAND...: at every allocation in turn, of which there are LEAST or more
without_memory() {
    local least=$1 left=0 rc
    shift
    while rc=0 && { LD_PRELOAD=$PWD/exhausted.so TEST_LEFT=$left pith "$@" >out 2>err || rc=$?
        [ $rc != 0 ]; }; do
        [ $rc = 1 ] || die "exit $rc, not 1, after $left allocations: $*"
        grep -qE '^pith: ([^:]+: )+[^:]*memory' err || die "$left: $(cat err)"
        [ "$(wc -l <err)" = 1 ] || die "$left: $(cat err)"
        ! grep -qF '(null)' err || die "$left: $(cat err)"
        ! grep -q damaged err || die "$left: $(cat err)"
        [ ! -e made ] || die "an output after $left allocations: $*"
        left=$((left + 1))
    done
    [ $left -ge $least ] || die "only $left allocations: $*"
    rm -f made
}
without_memory 10 compress -o made "$DATA/st/tiny.safetensors"
without_memory 10 compress -o made "$DATA/npy/f32.npy"
without_memory 10 compress -C wdiff --base "$DATA/npy/f32.npy" -o made "$DATA/npy/f32_step.npy"
exits 0 pith compress -o packed "$DATA/st/tiny.safetensors"
without_memory 4 inspect packed
without_memory 4 test packed
without_memory 4 decompress -o made packed
without_memory 8 compare "$DATA/st/tiny.safetensors" "$DATA/st/tiny.safetensors"
without_memory 10 bench --quick -C raw
only exhausted.so packed
