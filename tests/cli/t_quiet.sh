# t_quiet.sh - -q with -v, as scripts with flags of their own pass them on, printed the table.
# SPDX-License-Identifier: Apache-2.0
exits 0 pith compress -v -q -o x "$DATA/npy/f32.npy"
silent
exits 0 pith compress -qfv --rule 'no=raw' -o x "$DATA/npy/f32.npy"
says 'lossless'
says 'matches no tensor'
exits 0 pith compress -vfq --rule 'no=raw' -o x "$DATA/npy/f32.npy"
silent
exits 1 pith compress -q -o x "$DATA/npy/f32.npy"
says 'exists'
only x
