# t_threads.sh - threads and CPU levels change no byte.
# SPDX-License-Identifier: Apache-2.0
next=$REPO/tests/data/ckpt_next_bf16.safetensors
prev=$REPO/tests/data/ckpt_prev_bf16.safetensors
for spec in lossless wdiff wdiff:bits=3,group=128,round=stochastic; do
    exits 0 pith compress -q -f -C $spec --base $prev -o one.p $next
    for flags in '-T 3' '-T 0' '--cpu scalar' '--cpu avx2 -T 2'; do
        exits 0 pith compress -q -f -C $spec $flags --base $prev -o other.p $next
        same one.p other.p
        exits 0 pith decompress -q -f $flags --base $prev -o other one.p
        exits 0 pith decompress -q -f --base $prev -o one one.p
        same one other
    done
done
exits 0 pith compress -q -f --base $prev -o exact.p $next
exits 0 pith decompress -q --base $prev -T 2 -o exact exact.p
same exact $next
