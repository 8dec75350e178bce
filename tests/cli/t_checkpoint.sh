# t_checkpoint.sh - the real pair of checkpoints, exactly and with wdiff.
# SPDX-License-Identifier: Apache-2.0
next=$REPO/tests/data/ckpt_next_bf16.safetensors
prev=$REPO/tests/data/ckpt_prev_bf16.safetensors
exits 0 pith compress --base $prev -o exact.p --json $next
json out "d['bytes'] * 8 < d['raw_bytes'] / 2 * 2.2"
exits 0 pith decompress --base $prev -o exact exact.p
same exact $next
exits 0 pith compress --base $prev -C wdiff -o w.p --json $next
json out "{t['codec'] for t in d['tensors']} == {'wdiff', 'lossless'} and
    all((t['codec'] == 'wdiff') == (len(t['shape']) > 1) for t in d['tensors'])"
exits 0 pith decompress --base $prev -o w w.p
exits 0 pith compare --json $next w
json out "d['overall']['nmse'] < 1e-5 and d['overall']['nonfinite_mismatch'] == 0"
exits 1 pith decompress --base $next -o bad w.p
says 'base differs'
[ ! -e bad ] || die 'an output against the wrong base'
