"""Floats beside other programs, exact and within a bound: sizes, and speeds on one thread.

SPDX-License-Identifier: Apache-2.0

./dev peers installs them and runs this; --write makes doc/PEERS.md and its pictures. Candidates
take turns, every result is compared with what went in, and speeds are medians of a run, in GB of
values a second. A checkpoint is worked tensor by tensor, memory given back included. Values within
a bound are in peers_bounded.py.
"""
import argparse
import importlib.metadata
import itertools
import json
import os
import pathlib
import statistics
import struct
import subprocess
import tempfile
import time

import blosc2
import ml_dtypes
import numpy
import zipnn
import zstandard

import peers_bounded
import peers_picture
import pith

TOP = pathlib.Path(__file__).resolve().parent.parent
DOC = TOP / "doc"
PAGE = DOC / "PEERS.md"
DATA = TOP / "tests" / "data"
DTYPES = {"BF16": ml_dtypes.bfloat16, "F16": numpy.float16, "F32": numpy.float32}
PAGE_HEAD = """# Beside other programs

Made by `./dev peers --write`: floats [exactly](#exactly) and
[within a bound](#values-within-a-bound), and [coders of bytes alone](#coders-of-bytes), on one
thread, GB of values a second in and out. Candidates took turns on one machine, so that figures
compare within a table. Every result was compared with what went in.
"""
EXACT_HEAD = """## Exactly

Codec `lossless`: what is left in percent.

![ratio against speed, exactly](peers_lossless.svg)
"""
CODERS_HEAD = """## Coders of bytes

The exponents of bf16 values as symbols, in strings of 128 KiB, each with its table: what
`lossless` does to a block of them, beside the rANS of htscodecs, which has vectors for its 32
states, and zstd, whose literals are Huffman codes. "Entropy": that of the counts of each string,
by which a table and the states of a coder take more. Recoil, which no registry has, was built from
its source of 2023-06-26 on 2026-12-01: exponents of 32 million bell-shaped weights as one string of
one split, with 12 bits of probability, took 34.99 percent, and its decoder for AVX-512 made 1.66
GB/s, median of nine; it encodes a value at a time. DietGPU and DFloat11 decode on a GPU alone.
"""
ROW = "| {} | {:.2f} | {:.2f} | {:.2f} |\n"
TABLE = "| | percent | in, GB/s | out, GB/s |\n|---|---|---|---|\n"


def tensors(path):
    """The arrays of a .safetensors file, by name, in their shapes."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    arrays = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + at for at in entry["data_offsets"])
            flat = numpy.frombuffer(data[begin:end], DTYPES[entry["dtype"]])
            arrays[name] = flat.reshape(entry["shape"])
    return arrays


def processor():
    for line in open("/proc/cpuinfo", encoding="ascii"):
        if line.startswith("model name"):
            model = line.split(":")[1].strip()
    return f"{model} with {pith.cpu_features()[-1]}" if hasattr(pith, "cpu_features") else model


def bell(count, dtype):
    """Weights as a trained layer has them: Gaussian, of one deviation a row of 4096."""
    random = numpy.random.default_rng(1)
    rows = random.standard_normal((count // 4096, 4096), numpy.float32)
    return (rows * random.uniform(0.01, 0.04, (len(rows), 1))).astype(dtype)


class Pith:
    name = "pith"

    def compress(self, x, base):
        return pith.compress(x, "lossless", base=base, checksums=False)

    def decompress(self, data, like, base):
        return pith.decompress(data, base=base)


class Bytes:
    """A program that takes bytes; a difference to a base is what the exclusive or leaves."""

    def compress(self, x, base):
        return self.pack(self.bytes_of(x) if base is None else self.other(x, base), x.dtype)

    def decompress(self, data, like, base):
        bytes_ = numpy.frombuffer(self.unpack(data, like), numpy.uint8)
        return (bytes_ if base is None else self.other(bytes_, base)).view(like.dtype)

    def other(self, x, base):
        return numpy.bitwise_xor(self.bytes_of(x), self.bytes_of(base))

    def bytes_of(self, x):
        return x.ravel().view(numpy.uint8)


class Zipnn(Bytes):
    name = "zipnn " + importlib.metadata.version("zipnn")

    def of(self, dtype):
        names = {2: "bfloat16", 4: "float32"}
        return zipnn.ZipNN(bytearray_dtype=names[dtype.itemsize], threads=1)

    def pack(self, x, dtype):
        return self.of(dtype).compress(bytearray(x.tobytes()))

    def unpack(self, data, like):
        return self.of(like.dtype).decompress(data)


class Zstd(Bytes):
    name = "zstd -3"

    def pack(self, x, dtype):
        return zstandard.ZstdCompressor(level=3).compress(x)

    def unpack(self, data, like):
        return zstandard.ZstdDecompressor().decompress(data)


class Blosc2(Bytes):
    name = "blosc2, bitshuffle and zstd"

    def pack(self, x, dtype):
        return blosc2.compress2(
            x, typesize=dtype.itemsize, clevel=3, codec=blosc2.Codec.ZSTD,
            filters=[blosc2.Filter.BITSHUFFLE], nthreads=1,
        )  # fmt: skip

    def unpack(self, data, like):
        return blosc2.decompress2(data)


blosc2.set_nthreads(1)
CANDIDATES = (Pith(), Zipnn(), Zstd(), Blosc2())


def measure(arrays, bases, rounds):
    """What each candidate makes of all arrays: percent, and GB/s in and out."""
    sizes, times = {}, {c.name: ([], []) for c in CANDIDATES}
    for _, c in itertools.product(range(rounds), CANDIDATES):
        start = time.perf_counter()
        packed = {name: c.compress(x, bases.get(name)) for name, x in arrays.items()}
        middle = time.perf_counter()
        back = {n: c.decompress(p, arrays[n], bases.get(n)) for n, p in packed.items()}
        end = time.perf_counter()
        for name, x in arrays.items():
            if back[name].tobytes() != x.tobytes():
                raise SystemExit(f"{c.name} lost {name}")
        sizes[c.name] = sum(len(p) for p in packed.values())
        times[c.name][0].append(middle - start)
        times[c.name][1].append(end - middle)
    whole = sum(x.nbytes for x in arrays.values())
    return {
        name: (100 * sizes[name] / whole, *(whole / statistics.median(t) / 1e9 for t in both))
        for name, both in times.items()
    }


def sets(more):
    """What is compressed: title, arrays, bases."""
    new, old = (tensors(DATA / f"ckpt_{w}_bf16.safetensors") for w in ("next", "prev"))
    yield "bf16 checkpoint of a small model, 2 MB in 67 tensors", new, {}
    yield "the same as the update of the one before; others by exclusive or", new, old
    yield "gradients of it, bf16, 0.4 MB", tensors(DATA / "grads_late.safetensors"), {}
    rows, kept = (tensors(DATA / f"{n}.safetensors") for n in ("dlrm_lookup_grad", "adam_late"))
    yield "gradients of looked-up rows, f32, 0.4 MB", rows, {}
    yield "what AdamW keeps of two matrices, f32, 0.5 MB", kept, {}
    yield "bell-shaped weights, bf16, 64 MB", {"x": bell(1 << 25, ml_dtypes.bfloat16)}, {}
    yield "bell-shaped weights, f32, 64 MB", {"x": bell(1 << 24, numpy.float32)}, {}
    for path in more:
        arrays = {n: x for n, x in tensors(pathlib.Path(path)).items() if x.size}
        yield os.path.basename(path), arrays, {}


def exactly(more, rounds):
    """The text of the page's part, and for the picture the figures by set and program."""
    text, pictured = EXACT_HEAD, {}
    for title, arrays, bases in sets(more):
        text += f"\n**{title[0].upper() + title[1:]}**\n\n{TABLE}"
        pictured[title.split(";")[0].split(" in ")[0]] = points = {}
        for name, (percent, *speeds) in measure(arrays, bases, rounds).items():
            text += ROW.format(name, percent, *speeds)
            points[name] = [(100 / percent, *speeds)]
    return text, pictured


def exponents(arrays):
    """The exponents of bf16 arrays, one behind the other."""
    words = numpy.concatenate([x.ravel().view(numpy.uint16) for x in arrays.values()])
    return (words >> 7 & 0xFF).astype(numpy.uint8)


def coders():
    """The text of the page's part, by bench/coders."""
    text = CODERS_HEAD
    for title, arrays, _ in sets(()):
        if "bf16" not in title or "update" in title:
            continue
        with tempfile.NamedTemporaryFile() as file:
            exponents(arrays).tofile(file.name)
            command = [TOP / "build-peers" / "build" / "bench" / "coders", file.name]
            rows = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        text += f"\n**Of: {title}**\n\n{TABLE}"
        for row in rows.splitlines():
            text += "| {} | {} | {} | {} |\n".format(*row.split("\t"), "", "")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write doc/PEERS.md, doc/peers_*.svg")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("files", nargs="*", help="more .safetensors files of floats")
    args = parser.parse_args()
    (field,) = tensors(DATA / "field64.safetensors").values()
    exact, exact_pictured = exactly(args.files, args.rounds)
    bounded, bounded_pictured = peers_bounded.page(field.reshape(64, 64, 64), args.rounds)
    head = f"{PAGE_HEAD}\nOf {processor()}, pith {pith.__version__}.\n"
    text = f"{head}\n{exact}\n{coders()}\n{bounded}"
    print(text)
    if args.write:
        PAGE.write_text(text, encoding="ascii")
        peers_picture.draw(DOC / "peers_lossless.svg", exact_pictured)
        peers_picture.draw(DOC / "peers_bounded.svg", bounded_pictured)


if __name__ == "__main__":
    main()
