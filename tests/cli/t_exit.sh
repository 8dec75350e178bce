# t_exit.sh - OpenMP ends the program when it cannot make its threads, and the unfinished output was
# left behind.
# SPDX-License-Identifier: Apache-2.0
# Sanitizers do not even start under such a limit.
(ulimit -v 1500000 && pith --version) >out 2>err || exit 0
head -c 8000000 /dev/zero >big
elsewhere TEST_FREE=
for system in TEST_HERE=1 TEST_NAMED=1; do
    rc=0
    (ulimit -v 1500000 && export OMP_STACKSIZE=500M $system &&
        pith compress -q -T 8 --dtype f32 --shape 2000000 -o x big) 2>err || rc=$?
    # Without OpenMP, or where memory is not limited so, it is done.
    [ $rc = 0 ] && [ -f x ] && rm x
    [ $rc -le 1 ] || die "exit $rc"
    only big preload.so
done
