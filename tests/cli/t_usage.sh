# t_usage.sh - help, version, and what counts as wrong usage.
# SPDX-License-Identifier: Apache-2.0
for arguments in --help -h help; do
    exits 0 pith $arguments
    silent
    grep -q '^usage: pith compress' out || die 'no usage on stdout'
done
for command in compress decompress inspect test codecs compare bench advise; do
    grep -qE "^  $command +[a-z]" out || die "no line for $command"
done
grep -q 'man pith' out || die 'no pointer to the manual page'
exits 0 pith --version
grep -qE '^pith [0-9]+\.[0-9]+\.[0-9]+, frame format [0-9]+$' out || die 'version'
for arguments in '--version x' '-V x' '--help compress x' '-h compress x' 'help compress x'; do
    exits 2 pith $arguments
    says "unexpected argument 'x'"
    [ ! -s out ] || die "stdout of $arguments"
done
for command in compress decompress inspect test codecs compare bench advise; do
    exits 0 pith $command --help
    silent
    grep -q "^usage: pith $command" out || die "help of $command"
    exits 0 pith $command -h
    exits 0 pith $command --help
    mv out help
    # help COMMAND gave the overview, whatever the command was.
    exits 0 pith help $command
    same out help
    rm help
    exits 2 pith $command --no-such-flag
    says "unknown flag '--no-such-flag'"
    [ ! -s out ] || die 'stdout on a usage error'
    exits 2 pith $command -Z
    says "unknown flag '-Z'"
done
# Help names the flags that the command takes, and no others.
for command in compress decompress inspect test codecs compare bench advise; do
    exits 0 pith $command --help
    sed -n '/^  -/p' out >help
    for flag in -C --base --rule --dtype --shape -T -o -f -q -v --json --max-abs --max-output \
        --max-spool --cpu --quick --ranks --ranks-per-node --links --latency --size --compute \
        --overlap --codec-speed; do
        exits 2 pith $command $flag 1 a b c
        if grep -qF 'is not for this command' err; then
            ! grep -qE -- "^ .*$flag( |,|$)" help || die "$command does not take $flag"
        else
            grep -qE -- "^ .*$flag( |,|$)" help || die "no help on $flag of $command"
        fi
    done
    rm help
done
exits 2 pith
says 'usage:'
exits 2 pith explode
says "unknown command 'explode'"
exits 2 pith help explode
says "unknown command 'explode'"
[ ! -s out ] || die 'stdout on a usage error'
for command in compress decompress inspect test compare; do
    exits 2 pith $command
    says 'a file is missing'
done
exits 2 pith compare a.npy
exits 2 pith compress a.npy b.npy
says "unexpected argument 'b.npy'"
exits 2 pith codecs x
says "no codec has the name 'x'"
exits 2 pith codecs raw kv
says "unexpected argument 'kv'"
exits 2 pith inspect -f x
exits 2 pith compress -C
says "needs an argument"
exits 2 pith compress -T x a.npy
exits 2 pith compress -T 99999 a.npy
exits 2 pith compress --dtype f33 a.npy
exits 2 pith compress --dtype f32 --shape 3x a.npy
exits 2 pith compress --dtype f32 --shape 1x1x1x1x1x1x1x1x1 a.npy
exits 2 pith compress --shape 3 a.npy
exits 2 pith compress --cpu fast a.npy
exits 2 pith compress --json -o - a.npy
exits 2 pith compress -C raw -C raw a.npy
exits 2 pith compress --rule raw a.npy
exits 2 pith compress --base - a.npy
exits 2 pith compare --max-abs -1 a b
exits 2 pith compare --max-abs x a b
exits 2 pith compare - -
says 'standard input can be one of the files, not both'

# The message names the flag, not its value.
exits 2 pith inspect -C raw x
says "inspect: '-C' is not for this command"
exits 2 pith inspect --codec=raw x
says "'-C' is not"
exits 2 pith codecs --base y
says "'--base' is not"
exits 2 pith compress --base
says "'--base' needs an argument"
exits 2 pith compress --q a.npy
says "ambiguous flag '--q'"
exits 2 pith inspect --json=yes a.npy
says "no argument is taken by '--json=yes'"
# Of letters that stand together the first may be the wrong one.
for before in --force --dtype=f32 --json; do
    exits 2 pith compress $before -Zf a.npy
    says "unknown flag '-Z'"
done
exits 2 pith compress --dtype=f32 -jf a.npy
says "unknown flag '-j'"
exits 2 pith compress -o '' a.npy
says '-o wants a file name'
exits 2 pith compress --base '' a.npy
says '--base wants a file name'
exits 2 pith compress --base b.npy --base b.npy a.npy
says '--base was given twice'
for command in "compress" "decompress" "compare a.npy"; do
    exits 2 pith $command ''
    says 'a file name is empty'
done
exits 2 pith codecs ''
says "codecs: no codec has the name ''"

# A bad spec names the key.
exits 2 pith compress -C wdiff:bitz=4 --base b.npy a.npy
says "'bitz'"
exits 2 pith compress -C wdiff:bits=5 --base b.npy a.npy
says "'bits'"
exits 2 pith compress -C wdiff:bits=4,bits=4 --base b.npy a.npy
says "'bits'"
# Keys that do not go together once stored every tensor lossless, with exit 0.
exits 2 pith compress -C wdiff:block=1024 --base "$DATA/st/base.safetensors" -o bad \
    "$DATA/st/next.safetensors"
says 'block is smaller than group'
exits 2 pith compress -C nothing a.npy
says "'nothing'"
exits 2 pith compress -C '' a.npy
exits 2 pith compress --rule '*=lossless:lebel=3' a.npy
says "'lebel'"
exits 2 pith bench -C wdiff:group=100
says "'group'"
says 'see pith codecs'
exits 2 pith compress -C eb:rel=-1 a.npy
says 'a number above 0'
exits 2 pith compress --dtype float32 --shape 1 a.npy
says 'none of f32 bf16 f16 f64 u8 i8 u16 i16 u32 i32 u64 i64 bool f8e4m3 f8e5m2'
printf 'PK\003\004 of another program' >zipped
exits 1 pith compress -o z.p zipped
says 'is a zip archive'
rm zipped
# A codec of differences without a base.
exits 2 pith compress -C wdiff a.npy
says '--base'
exits 2 pith compress --rule '*=wdiff' a.npy
says '--base'
only
