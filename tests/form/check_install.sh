#!/usr/bin/env bash
# check_install.sh: pith can be installed, found with pkg-config and by CMake, and used as a Meson
# subproject.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
place=$(mktemp -d)
# Where ccache has what another release build of the checkout compiled, as .ci/run does.
build=$source/build-install
trap 'rm -rf "$place" "$build"' EXIT
rm -rf "$build"
read -ra cc <<<"${CC:-cc}" # CC may be more than a word: ccache gcc

run() { # quiet unless it fails
    "$@" >"$place/log" 2>&1 || {
        cat "$place/log"
        printf 'failed: %s\n' "$*"
        exit 1
    }
}

# ---- Installed -----------------------------------------------------------------------------------
run meson setup "$build" "$source" --prefix="$place/usr" --libdir=lib --buildtype=release \
    -Dtests=false -Dbench=false -Dfuzz=none -Dcuda=disabled
run meson install -C "$build"
for file in include/pith/{bounds,kv,pith,pith_collective,pith_cuda,version}.h \
    include/pith/pith.hpp lib/lib{pith,pith_collective,pith_cuda}.{so,a} \
    lib/pkgconfig/{pith,pith_collective,pith_cuda}.pc bin/pith share/man/man1/pith.1 \
    lib/cmake/pith/pith-config{,-version}.cmake; do
    [ -e "$place/usr/$file" ] || { echo "not installed: $file"; exit 1; }
done
export PKG_CONFIG_PATH=$place/usr/lib/pkgconfig
run "${cc[@]}" -std=c11 -Werror -x c - -o "$place/collective" \
    $(pkg-config --cflags --libs pith_collective) <<'END'
#include <pith/pith_collective.h>
int main(void) {
    const int sockets[1] = {-1};
    pith_transport transport;
    if (pith_collective_sockets(&transport, 0, 1, sockets)) return 1;
    transport.release(transport.user, 0);
    return 0;
}
END
run env LD_LIBRARY_PATH="$place/usr/lib" "$place/collective"
if command -v mpicc >/dev/null; then
    run "${cc[@]}" -std=c11 -Werror -c -x c - -o "$place/mpi.o" $(pkg-config --cflags pith_mpi) \
        $(mpicc --showme:compile) <<<'#include <pith/pith_mpi.h>
pith_status none(pith_transport *t) { return pith_mpi_transport(t, MPI_COMM_WORLD); }'
    [ -e "$place/usr/lib/libpith_mpi.so" ] || { echo 'not installed: libpith_mpi'; exit 1; }
fi
if pkg-config --exists lapacke; then
    run "${cc[@]}" -std=c11 -Werror -x c - -o "$place/svd" \
        $(pkg-config --cflags --libs pith_svd) <<'END'
#include <pith/pith_svd.h>
int main(void) {
    float w = -2, u, s, vt;
    return pith_svd_thin(1, 1, &w, &u, &s, &vt) != PITH_OK || s != 2;
}
END
    run env LD_LIBRARY_PATH="$place/usr/lib" "$place/svd"
fi
# README.md says how to compile its example with an installed pith.
line=$(grep '^    cc example\.c .*(pkg-config --cflags --libs pith)$' "$source/README.md")
awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$source/README.md" >"$place/example.c"
(cd "$place" && run eval "${line/cc/${cc[*]}}")
run env LD_LIBRARY_PATH="$place/usr/lib" "$place/example"
grep -q 'off by' "$place/log" || { echo 'the example of README.md says no error'; exit 1; }
# A stub: it links everywhere, and says what it is.
run "${cc[@]}" -std=c11 -Wall -Wextra -Werror -x c - -o "$place/cuda" \
    $(pkg-config --cflags --libs pith_cuda) <<'END'
#include <pith/pith_cuda.h>
#include <stdio.h>
int main(void) {
    pith_error error = {.size = sizeof error};
    const pith_status status = pith_cuda_available(0, &error);
    printf("%s: %s\n", pith_status_name(status), error.text);
    return status != PITH_ERR_UNSUPPORTED;
}
END
run env LD_LIBRARY_PATH="$place/usr/lib" "$place/cuda"
grep -q 'no CUDA' "$place/log" || { echo 'the stub does not say why'; exit 1; }
[ "$(pkg-config --modversion pith)" = "$("$source/tools/version.sh")" ] ||
    { echo 'pith.pc states another version than version.h'; exit 1; }
consumer=$source/tests/subproject/consumer.c
run "${cc[@]}" -std=c11 -Wall -Wextra -Werror "$consumer" -o "$place/shared" \
    $(pkg-config --cflags --libs pith)
run env LD_LIBRARY_PATH="$place/usr/lib" "$place/shared"
cat "$place/log"
ldd_line=$(LD_LIBRARY_PATH=$place/usr/lib ldd "$place/shared" | grep libpith || true)
[ -n "$ldd_line" ] || { echo 'the consumer does not use the shared library'; exit 1; }
if command -v cmake >/dev/null; then
    cp -r "$source/tests/cmake" "$place/cmake"
    cp "$consumer" "$place/cmake"
    # The tree is where it was moved to; a component that is missing and another version are not.
    mv "$place/usr" "$place/moved"
    run cmake -S "$place/cmake" -B "$place/cmake/build" -DCMAKE_PREFIX_PATH="$place/moved"
    run cmake --build "$place/cmake/build"
    for program in shared static collective; do
        run "$place/cmake/build/$program"
    done
    mv "$place/moved" "$place/usr"
    echo 'found by CMake'
fi
rm "$place"/usr/lib/libpith.so*
run "${cc[@]}" -std=c11 "$consumer" -o "$place/static" $(pkg-config --static --cflags --libs pith)
run "$place/static"
echo 'installed, found with pkg-config, linked shared and static'

# ---- Subproject ----------------------------------------------------------------------------------
# Folders, options and Meson are those of the wheel (dev, wheel): ccache has its kernels.
unset PKG_CONFIG_PATH
outer=$place/python inner=$place/build-python/build
PATH=$source/build-python/tools/bin:$PATH
cp -r "$source/tests/subproject" "$outer"
mkdir -p "$outer/subprojects"
ln -s "$source" "$outer/subprojects/pith"
run meson setup "$inner" "$outer" --buildtype=release -Db_ndebug=if-release \
    --force-fallback-for=pith
run ninja -C "$inner" ${JOBS:+-j "$JOBS"}
run meson test -C "$inner" consumer
echo 'used as a subproject'
