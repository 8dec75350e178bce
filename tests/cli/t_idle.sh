# t_idle.sh - settings without an effect were taken without a word.
# SPDX-License-Identifier: Apache-2.0
F=$DATA/npy/f32.npy
refuses() { # refuses SPEC KEY TEXT: under -C and as a rule
    exits 2 pith compress -C "$1" --base "$F" -o no "$F"
    says "'$2': $3"
    exits 2 pith compress --rule 'x=raw' --rule "*=$1" --base "$F" -o no "$F"
    says "bad spec '$1': '$2': $3"
}
for spec in kv:effort=5 wdiff:effort=9 kv:effort=5,entropy=rans wdiff:effort=9,entropy=rans; do
    refuses $spec effort 'key effort has no effect without entropy=zstd'
done
for spec in kv:block=64 kv:block=64,bits=8; do
    refuses $spec block 'key block has no effect without entropy=zstd or rans'
done
for codec in eb act embed:mode=fast; do
    case $codec in *:*) at=, ;; *) at=: ;; esac
    refuses "$codec${at}effort=5" effort 'key effort has no effect with mode=fast'
done
refuses embed:start=3 start 'key start has no effect without decay'
refuses embed:decay=log decay 'key decay has no effect without steps'

# What streams and caches remember, a file does not.
for spec in kv:window=4 kv:preset=kivi4,window=64 wdiff:key_every=5 grad:bits=8,ef=full; do
    key=${spec##*[:,]}
    refuses $spec "${key%%=*}" 'is for streams and caches and has no effect on a file'
done
exits 2 pith compress -C lossless:key_every=3 -o no "$F"
exits 2 pith compress -C lossless:key_every=05 -o no "$F" # not key_every=0

# Nor is there a hash to leave out where there is no base.
exits 2 pith compress -C lossless:base_hash=off -o no "$F"
says "'base_hash': has no effect without --base"
exits 2 pith compress --rule '*=lossless:base_hash=off' -o no "$F"
says "'base_hash': has no effect without --base"
exits 0 pith compress -q -f -C lossless:base_hash=off --base "$F" -o yes "$F"
exits 0 pith compress -q -f -C lossless:base_hash=on -o yes "$F"

# A preset that caches use, what has an effect, and defaults that are spelled out.
for spec in kv:preset=kivi4 kv:preset=kivi4,window=0 kv:entropy=zstd,block=64,effort=2 \
    kv:entropy=rans,block=64 \
    kv:block=1048576,effort=1 eb:mode=ratio,effort=5 eb:effort=1 grad:ef=none \
    lossless:key_every=0; do
    exits 0 pith compress -q -f -C $spec -o yes "$F"
done
only yes
