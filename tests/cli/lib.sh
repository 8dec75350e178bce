# lib.sh - what the tests of the command line share.
# SPDX-License-Identifier: Apache-2.0

pith() { "$PITH" "$@"; }

# die TEXT: with the line of the script, whatever functions it was in.
die() {
    local i=0
    while [ "${FUNCNAME[i + 1]}" != source ]; do i=$((i + 1)); done
    echo "line ${BASH_LINENO[i]}: $*" >&2
    exit 1
}

# exits CODE COMMAND...: stdout and stderr go to the files out and err.
exits() {
    local want=$1 rc=0
    shift
    "$@" >out 2>err || rc=$?
    [ "$rc" = "$want" ] || { cat err >&2; die "exit $rc, not $want: $*"; }
}

# says TEXT: stderr of the last exits contains it.
says() { grep -qF -- "$1" err || { cat err >&2; die "stderr lacks: $1"; }; }

silent() { [ ! -s err ] || { cat err >&2; die "stderr is not empty"; }; }

same() { cmp "$1" "$2" >&2 || die "$1 and $2 differ"; }

# only NAME...: the directory holds these (and out, err) and nothing else.
only() {
    local rest
    rest=$(comm -23 <(ls -A | sort) <(printf '%s\n' out err "$@" | sort))
    [ -z "$rest" ] || die "left behind: $rest"
}

# json FILE EXPRESSION: Python, true for the parsed file d.
json() {
    python3 -c 'import json, sys
def refuse(word): raise ValueError(word)
d = json.load(open(sys.argv[1]), parse_constant=refuse)
sys.exit(not eval("(" + sys.argv[2] + ")"))' "$1" "$2" && return
    cat "$1" >&2
    die "not true of $1: $2"
}

# round_trip FILE [FLAG...]: compress and decompress with the default names, byte for byte.
round_trip() {
    local file=$1 base name packed
    shift
    name=$(basename "$file")
    mkdir trip
    cp "$file" "trip/$name"
    exits 0 pith compress "$@" "trip/$name"
    packed=trip/$name.pith
    case $name in *.safetensors) packed=trip/$name.pith.safetensors ;; esac
    [ -f "$packed" ] || die "no $packed"
    exits 0 pith test "$packed"
    rm "trip/$name"
    exits 0 pith decompress "$packed"
    same "$file" "trip/$name"
    exits 0 pith inspect --json "$packed"
    cp out trip.json
    rm -r trip
}

# elsewhere NAME=VALUE...: from here on pith runs on another system (preload.c).
elsewhere() {
    [ -f preload.so ] || ${CC:-cc} -D_FILE_OFFSET_BITS=64 -shared -fPIC -o preload.so \
        "$HERE/preload.c" -ldl || die 'cc'
    export "$@" LD_PRELOAD=$PWD/preload.so
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0
}
