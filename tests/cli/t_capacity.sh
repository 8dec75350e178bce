# t_capacity.sh - how much of a pipe is copied where what is free is known, and where it is not.
# SPDX-License-Identifier: Apache-2.0
zeros() { head -c 5000 /dev/zero; }
takes() { # takes FREE BYTES: that many are not too many, but more than there are
    exits 1 env TEST_FREE="$1" "$PITH" compress -o x --dtype u8 --shape "$2" - < <(zeros)
    says "5000 bytes do not fit the dtype and shape, which need $2"
}
refuses() { # refuses FREE BYTES LIMIT
    exits 1 env TEST_FREE="$1" "$PITH" compress -o x --dtype u8 --shape "$2" - < <(zeros)
    says "standard input: is longer than the $3 bytes that a pipe or device may fill"
}
elsewhere TEST_FREE=
takes 20,1000 10000
refuses 20,1000 10001 10000
takes 20000,0 10000
refuses 20000,0 10001 10000
refuses 1,4096 5 0
takes 4611686018427387904,4096 1000000000000
takes unknown 1073741824
refuses unknown 1073741825 1073741824
only preload.so
