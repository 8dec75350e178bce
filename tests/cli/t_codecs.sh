# t_codecs.sh - doc/CODECS.md has every codec with its keys, their values and defaults; a codec is
# listed by its name as in the whole list.
# SPDX-License-Identifier: Apache-2.0
exits 0 pith codecs --json
silent
cat >check.py <<'END'
import json, re, sys
text = open(sys.argv[1]).read()
sections = dict(re.findall(r'(?ms)^## `(\w+)`\n(.*?)(?=^## |\Z)', text))
codecs = json.load(open('out'))['codecs']
assert list(sections) == [c['name'] for c in codecs], list(sections)
for c in codecs:
    rows = re.findall(r'(?m)^\| `(\w+)` \| ([^|]*) \| ([^|]*) \| [^|]+ \|$', sections[c['name']])
    keys = [(k['name'], k['values'].replace('|', ', '), k['default']) for k in c['keys']]
    assert rows == keys, (c['name'], rows, keys)
print(*sections)
END
codecs=$(python3 check.py "$REPO/doc/CODECS.md") || die 'doc/CODECS.md is not what pith codecs says'
exits 0 pith codecs
for codec in $codecs; do
    grep -q "^$codec - " out || die "no $codec in the list"
done
mv out all
for codec in $codecs; do
    exits 0 pith codecs $codec
    silent
    awk -v name="$codec" '!NF { on = 0; next } $1 == name && $2 == "-" { on = 1 } on' all >one
    [ -s one ] || die "no $codec in the list"
    cmp one out || die "$codec alone is not as in the list"
    exits 0 pith codecs --json $codec
    json out "[c['name'] for c in d['codecs']] == ['$codec']"
done
for traits in 'lossless base' 'fixed_rate base update' 'fixed_rate exempt' bound sparse; do
    grep -qx "    traits: $traits" all || die "no codec is $traits"
done
[ "$(grep -c '^    traits: ' all)" = "$(wc -w <<<"$codecs")" ] || die 'a codec has no traits'
rm all one
