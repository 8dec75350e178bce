# t_rules.sh - a rule 'a?b=eb:rel=0.1' left a tensor lossless: to fnmatch, in the locale C, which is
# that of a program that sets none, ? is a byte, and a letter with an accent has two.
# SPDX-License-Identifier: Apache-2.0
cat >make.py <<'END'
import json, struct, sys
names = json.loads(sys.argv[2])
head = {n: {'dtype': 'F32', 'shape': [32, 16], 'data_offsets': [2048 * i, 2048 * i + 2048]}
        for i, n in enumerate(names)}
text = json.dumps(head).encode()
data = struct.pack('<512f', *range(512)) * len(names)
open(sys.argv[1], 'wb').write(struct.pack('<Q', len(text)) + text + data)
END
python3 make.py m '["a=b", "axb", "a\u00e9b", "a\u4e2db", "a\ud83d\ude00b", "ab", "axxb", "a/b",
    ".b", "a[b", "a]b", "a*b", "a\\b", "a-b", "a3b", "aXb", "A?B", "\u00e9", "\u00e8", "a\nb"]'
cat >matched.py <<'END'
import json, sys
want = json.loads(sys.argv[1])
d = json.load(open('out'))['tensors']
got = [t['name'] for t in d if t['codec'] == 'eb']
assert sorted(got) == sorted(want), (got, want)
END
# matches GLOB JSON: the names the pattern matches, of 20.
matches() {
    exits 0 pith compress -q --json -f --rule "$1=eb:rel=0.1" -o p m
    python3 matched.py "$2" || die "$1"
}
one='"a=b", "axb", "a\u00e9b", "a\u4e2db", "a\ud83d\ude00b", "a/b", "a[b", "a]b", "a*b", "a\\b"'
one+=', "a-b", "a3b", "aXb", "a\nb"'
for locale in C C.UTF-8 en_US.UTF-8 tr_TR; do
    export LC_ALL=$locale
    matches 'a?b' "[$one]"
done
unset LC_ALL
matches 'a??b' '["axxb"]'
matches 'a*b' "[$one, \"ab\", \"axxb\"]"
matches '?' '["\u00e9", "\u00e8"]'
matches '*b' "[$one, \"ab\", \"axxb\", \".b\"]"
matches 'a[x-z3]b' '["axb", "a3b"]'
matches 'a[!x]b' "[${one/\"axb\", /}]"
matches 'a[^x]b' "[${one/\"axb\", /}]"
matches 'a[]*[\\-]b' '["a]b", "a*b", "a[b", "a\\b", "a-b"]'
matches 'a[[:digit:][:upper:]]b' '["a3b", "aXb"]'
matches 'a[b' '["a[b"]'
matches 'a\*b' '["a*b"]'
matches 'a\\b' '["a\\b"]'
matches $'[\xc3\xa8-\xc3\xa9]' '["\u00e9", "\u00e8"]'
matches $'a\xc3\xa9b' '["a\u00e9b"]'
matches $'a\xc3?b' '[]'
matches 'a[?]b' '[]'
matches 'A?B' '["A?B"]'

# The same rules give the same file every time, whatever the order of tensors and threads.
exits 0 pith compress -q -f --rule 'a?b=eb:rel=0.1' --rule '*=raw' -o p m
for i in 1 2 3 4 5 6 7 8; do
    exits 0 pith compress -q -f -T $i --rule 'a?b=eb:rel=0.1' --rule '*=raw' -o q m
    same p q
done

# Many stars and a long name take no time to speak of.
python3 make.py long "[\"$(printf 'a%.0s' $(seq 3000))\"]"
exits 0 timeout 20 "$PITH" compress -q -o q -f --rule "$(printf '*a%.0s' $(seq 40))b=raw" long
exits 0 timeout 20 "$PITH" compress --json -o q -f --rule "$(printf '*a%.0s' $(seq 40))=raw" long
json out "d['tensors'][0]['codec'] == 'raw'"
