# t_manual.sh - a line of the manual page that begins with .pith.tmp was a macro to roff, and left
# out with the rest of its line.
# SPDX-License-Identifier: Apache-2.0
page=$REPO/doc/pith.1
macros='^\.(\\"|TH|SH|PP|TP|B|I|BI|BR|IB|IR|RB|RI|br|nf|fi)( |$)'
grep "^[.']" "$page" | grep -vE "$macros" >lines || :
[ ! -s lines ] || die "no macros: $(cat lines)"

# It has every flag and command of --help, and every field of the JSON.
sed 's/\\-/-/g' "$page" >text
for command in compress decompress inspect test codecs compare bench advise; do
    exits 0 pith $command --help
    grep -qxF ".B pith $command" text || die "nothing on $command"
    for flag in $(grep -oE -- '(^|[^A-Za-z0-9-])--?[A-Za-z][a-z-]*' out | grep -o -- '-.*'); do
        grep -qE -- "(^|[ \"])$flag( |\"|\\\\|$)" text || die "nothing on $flag of $command"
    done
done
cp "$DATA/npy/f32.npy" a.npy
exits 0 pith compress -q a.npy
for command in "inspect --json a.npy.pith" "compare --json a.npy a.npy" \
    "bench --quick --json -C raw" "advise --json --ranks 4 --links 1G --size 1G"; do
    exits 0 pith $command
    for field in $(grep -oE '^ *"[a-z_]+":' out | tr -d '": ' | sort -u); do
        grep -qw -- "$field" text || die "nothing on $field"
    done
done
only a.npy a.npy.pith lines text
