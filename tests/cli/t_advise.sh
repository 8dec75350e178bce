# t_advise.sh - pith advise: sums by hand, what it advises, and what it refuses.
# SPDX-License-Identifier: Apache-2.0

# Four ranks at 100 Mbit/s, 40 MB of f32: a ring sends 3/4 of it twice, 60 MB at 12.5 MB/s.
four=(--ranks 4 --links 100M --size 40M --codec-speed 1T)
exits 0 pith advise --json "${four[@]}"
silent
json out 'abs(d["rows"][0]["sum_seconds"] - 4.8) < 1e-9 and d["rows"][0]["node_bytes"] == 60e6'
json out 'abs(d["rows"][1]["sum_seconds"] - 2.4) < 1e-9 and d["rows"][1]["codecs_seconds"] == 0'
# Slices of a tensor travel while others are encoded.
json out 'all(0 <= r["links_seconds"] + r["codecs_seconds"] - r["sum_seconds"] <=
    r["codecs_seconds"] for r in d["rows"]) and d["rows"][0]["links_seconds"] == 4.8'
# 4 bits and a scale for 128 of them, and headers: 0.53125 bytes and a little, both ways.
json out 'abs(d["rows"][3]["node_bytes"] / (10e6 * 2 * 0.75 * 0.53125) - 1) < 0.002'
# One level: settings for two are no rows. The most exact of the fast ones is the advice, and none
# of less than 4 bits.
json out '[r["inside"] == r["across"] for r in d["rows"]] == [True] * 6'
json out 'd["rows"][d["advice"]]["name"] == "grad:preset=inter"'
# Messages of a ring wait 3 times each way.
exits 0 pith advise --json "${four[@]}" --latency 0.1
json out 'abs(d["rows"][0]["sum_seconds"] - 5.4) < 1e-9'
# Frames do so for each of 20 slices of a shard; 12 s beside 7.97 MB at 12.5 MB/s.
json out 'abs(d["rows"][3]["links_seconds"] - (2 * 3 * 20 * 0.1 + 0.6375)) < 0.002'
# Computing hides what it overlaps: all of it, and then there is nothing to win; or half.
exits 0 pith advise --json "${four[@]}" --compute 5 --overlap 1
json out 'all(r["step_seconds"] == 5 for r in d["rows"]) and d["advice"] == 0'
exits 0 pith advise --json "${four[@]}" --compute 2 --overlap 0.5
json out 'abs(d["rows"][0]["step_seconds"] - 5.8) < 1e-9'

# Units that people write, and those that they do not mean.
exits 0 pith advise --json "${four[@]}" --latency 0.1 --compute 0.35 --transport 1G,2G
cp out plain
for links in 100Mbit 100Mbit/s 100Mb/s 100Mbps 0.1Gbps 12.5MB/s 100Mbit,100M 100000000bit/s; do
    exits 0 pith advise --json --ranks 4 --links $links --size 40MB --codec-speed 1TB/s \
        --latency 100ms,100000us --compute 350ms --transport 1GB/s,2G
    same out plain
done
for wrong in '--links 1gbit' '--links 1GB' '--links 1Gbits' '--links 1Gbit/' '--links 1G,1Gbit,' \
    '--links 1Gbit/ss' '--latency 5m' '--latency 5ns' '--size 1GiB' '--size 1GB/s' \
    '--codec-speed 1Gbit/s' '--transport 1GB' '--compute 1h' '--cores 4B' '--overlap 1s'; do
    exits 2 pith advise $wrong
    says "${wrong%% *} wants"
done
exits 2 pith advise --links 1Gbits
says 'suffix k M G T, unit bit/s bit bps b/s, or B/s for bytes'

# Two levels: 8 ranks on 2 nodes. f32 inside at 8 GB/s: 2 * 3/4; across at 1 GB/s: 2 * 1/2, of 4 GB.
exits 0 pith advise --json --ranks 8 --ranks-per-node 4 --links 64G,8G --size 4G --codec-speed 4G
json out 'abs(d["rows"][0]["sum_seconds"] - (0.75 + 4)) < 1e-9 and len(d["rows"]) == 7'
json out '(d["rows"][3]["inside"], d["rows"][3]["across"]) == ("grad:preset=intra",
    "grad:preset=inter")'
# 10^9 values of 0.53125 bytes. Inside, 3/4 of them to their owners; back, 1/8 to each of 3 ranks,
# and as much that is forwarded. Across, half of them to their owners, and back once.
json out 'abs(d["rows"][4]["links_seconds"] /
    (0.53125 * ((0.75 + 2 * 0.375) / 8 + 0.5 * 2)) - 1) < 0.002'
json out 'abs(d["rows"][4]["node_bytes"] / (1e9 * 0.53125 * 0.5 * 2) - 1) < 0.002'
# The reduce-scatter alone: there, and its codecs side by side with it: 2.5 s, once in 954 slices.
json out 'abs(d["rows"][4]["scatter_seconds"] -
    (2.5 + 0.53125 * (0.75 / 8 + 0.5) / 954)) < 1e-4 and
    abs(d["rows"][0]["scatter_seconds"] - 4.75 / 2) < 1e-9'
# 10^9 values at 10^9 a second: three times all of them, twice a quarter, once an eighth.
json out 'abs(d["rows"][3]["codecs_seconds"] - 3.625) < 1e-9'
# Inside, each of 239 slices waits for 3 messages there, and for those of two shards back.
exits 0 pith advise --json --ranks 8 --ranks-per-node 4 --links 64G,8G --size 1G --codec-speed 4G \
    --latency 0.1,0
json out 'abs(d["rows"][4]["links_seconds"] -
    (239 * 3 * (1 + 2) * 0.1 + 0.53125 * 1.1875 / 4)) < 0.01'
# At one level a ring goes through all links, 7/8 of 4 GB twice, and there is no row of two specs.
# Each of four ranks of a node sends an eighth of its frames to each of four elsewhere; back, half
# of all once. Codecs: all values three times, an eighth of them once more.
exits 0 pith advise --json --ranks 8 --ranks-per-node 4 --links 64G,8G --size 4G --codec-speed 4G \
    --levels 1
json out 'len(d["rows"]) == 6 and
    (d["rows"][0]["sum_seconds"], d["rows"][0]["node_bytes"]) == (7, 7e9)'
json out 'abs(d["rows"][3]["links_seconds"] /
    (0.53125 * ((3 / 8 + 3 / 4) / 8 + 4 * 4 / 8 + 0.5)) - 1) < 0.002'
json out 'abs(d["rows"][3]["node_bytes"] / (0.53125e9 * 2.5) - 1) < 0.002'
json out 'abs(d["rows"][3]["codecs_seconds"] - 3.125) < 1e-9'
# A message across for each slice and rank there, and one back.
exits 0 pith advise --json --ranks 8 --ranks-per-node 4 --links 64G,8G --size 1G --codec-speed 4G \
    --levels 1 --latency 0,0.1
json out 'abs(d["rows"][3]["links_seconds"] -
    (239 * (4 + 1) * 0.1 + 0.53125 * (1.125 / 8 + 2.5) / 4)) < 0.01'

# A core that has a rank alone sends 1 GB/s and copies 2 GB/s. Of 8 bits inside and 4 across a rank
# sends 3/4 inside, and 1/8 of 4 bits across; back 3/4 inside, and 1/8 across.
exits 0 pith advise --json --ranks 8 --ranks-per-node 4 --links 64G,8G --size 4G --codec-speed 4G \
    --transport 1G,2G
json out 'd["rows"][0]["transport_seconds"] == 7 and d["rows"][0]["copies_seconds"] == 2'
json out 'd["rows"][0]["sum_seconds"] == 9 and d["rows"][0]["scatter_seconds"] == 4.5'
json out 'abs(d["rows"][3]["transport_seconds"] -
    (0.75 * d["rows"][2]["node_bytes"] + d["rows"][4]["node_bytes"]) / 1e9) < 1e-9'
# Messages are work of the core beside codecs; copies are before the reduce-scatter, and after all.
json out 'abs(d["rows"][4]["sum_seconds"] -
    (2 + 3.625 + 1.75 * 0.53125 + d["rows"][4]["links_seconds"] / 954)) < 0.002'
json out 'abs(d["rows"][4]["scatter_seconds"] -
    (1 + 2.5 + 0.875 * 0.53125 + 0.53125 * (0.75 / 8 + 0.5) / 954)) < 0.002'
# Four ranks on two cores: all of that twice, and links as ever.
cp out alone
exits 0 pith advise --json --ranks 8 --ranks-per-node 4 --links 64G,8G --size 4G --codec-speed 4G \
    --transport 1G,2G --cores 2
json out 'all(abs(r[key] - factor * o[key]) < 1e-9
    for r, o in zip(d["rows"], __import__("json").load(open("alone"))["rows"])
    for key, factor in (("codecs_seconds", 2), ("transport_seconds", 2), ("copies_seconds", 2),
                        ("links_seconds", 1)))'
# A rank has no more than one core.
exits 0 pith advise --json --ranks 8 --ranks-per-node 4 --links 64G,8G --size 4G --codec-speed 4G \
    --transport 1G,2G --cores 5
same out alone
# Half a core for each rank; links hide the messages, twice 60 MB at 1 GB/s, but no copies.
exits 0 pith advise --json "${four[@]}" --transport 1G,2G --cores 0.5
json out 'abs(d["rows"][0]["sum_seconds"] - (4.8 + 2 * 40e6 / 2e9)) < 1e-9 and
    abs(d["rows"][0]["transport_seconds"] - 0.12) < 1e-9'

# With codecs as slow as that on fast links nothing is won.
exits 0 pith advise --json --ranks 8 --links 400G --size 4G --codec-speed 1G
json out 'd["rows"][d["advice"]]["inside"] is None'

# Measured here; two decimals of a table.
exits 0 pith advise --ranks 2 --links 1G --size 8M
silent
grep -q '^advice: ' out || die 'no advice'
grep -q "this machine's" out || die 'does not say whose speeds'

for wrong in '--ranks 0' '--ranks 4x' '--ranks-per-node -1' '--links 1G,' '--links 0' \
    '--links 1,2,3' '--links nan' '--latency -1' '--latency x' '--size 0' '--size 1Q' '--size inf' \
    '--compute -1' '--overlap 1.1' '--codec-speed 0' '--codec-speed 1G,0' '--levels 0' \
    '--levels 3' '--levels 12' '--cores 0' '--cores x' '--transport 0' '--transport 1G,'; do
    exits 2 pith advise $wrong
    says "${wrong%% *} wants"
done
exits 2 pith advise
says '--ranks is missing'
exits 2 pith advise --ranks 4
says '--links is missing'
exits 2 pith advise --ranks 4 --links 1G
says '--size is missing'
exits 2 pith advise --ranks 4 --ranks-per-node 3 --links 1G --size 1G
says 'no multiple'
for numbers in '--links 1e-308 --size 100G' '--links 1G --size 1G --latency 1e308' \
    '--links 1G --size 1G --transport 1e-308'; do
    exits 2 pith advise --ranks 8 --codec-speed 1G $numbers
    says 'no time comes of them'
    exits 2 pith advise --ranks 8 --codec-speed 1G --json $numbers
done
exits 2 pith advise --ranks 4 --links 1G --size 1G file
says "unexpected argument 'file'"

# The page is what the program says.
python3 "$REPO/tools/scale.py" "$PITH" >page
same page "$REPO/doc/SCALE.md"
