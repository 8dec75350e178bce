#!/usr/bin/env python3
"""Make the arrays that bench/bounded measures: raw little-endian float32; needs numpy.

SPDX-License-Identifier: Apache-2.0

    tools/bench_arrays.py DIRECTORY

    weights.f32   2^24 normal values, deviation 0.02
    field256.f32  a smooth Gaussian random field, 256 x 256 x 256
    dlrm16.f32    rows that a batch of 2048 looks up in 26 embedding tables, 26 x 2048 x 16
    dlrm64.f32    the same rows in tables of 64 columns

The generator, its seed and the order of the draws are fixed, because what other compressors reach
on these very arrays was measured once. Files that exist with the right length are left alone.
"""
import os
import sys

import numpy as np

SEED = 12345
SIDE = 256
BATCH = 2048
# Rows of the 26 categorical features of the Criteo Kaggle data set.
TABLES = (1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27,
          14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572)
DIMS = (16, 64)
COUNTS = {"weights": 1 << 24, "field256": SIDE**3,
          **{f"dlrm{dim}": len(TABLES) * BATCH * dim for dim in DIMS}}


def make_weights(rng):
    return rng.standard_normal(COUNTS["weights"], dtype=np.float32) * np.float32(0.02)


def make_field(rng):
    """An isotropic spectrum, amplitude k^(-11/6 - 1) up to k = 64."""
    k = np.fft.fftfreq(SIDE) * SIDE
    kz = np.fft.rfftfreq(SIDE) * SIDE
    kk = np.sqrt(k[:, None, None]**2 + k[None, :, None]**2 + kz[None, None, :]**2)
    kk = kk.astype(np.float32)
    falling = np.maximum(kk, 1e-3)**(-11 / 6.0 - 1.0)
    amplitude = np.where((kk > 0.5) & (kk <= 64), falling, 0).astype(np.float32)
    phase = rng.standard_normal(kk.shape, dtype=np.float32) + \
        1j * rng.standard_normal(kk.shape, dtype=np.float32)
    # NumPy 2 would keep to single precision.
    spectrum = (phase * amplitude).astype(np.complex128)
    field = np.fft.irfftn(spectrum, s=(SIDE, SIDE, SIDE))
    return (field / field.std()).astype(np.float32)


def draw_rows(rng, rows):
    """Which rows a batch looks up: a bounded Zipf law of exponent 1.1, continuously inverted."""
    a = 1 - 1.1
    x = ((rows**a - 1) * rng.random(BATCH) + 1)**(1 / a)
    return np.minimum(x.astype(np.int64), rows) - 1


def make_lookups(rng, index, dim):
    """Rows begin uniform; training has moved the popular ones further."""
    out = np.empty((len(TABLES), BATCH, dim), np.float32)
    for t, rows in enumerate(TABLES):
        used, inverse = np.unique(index[t], return_inverse=True)
        start = (rng.random((len(used), dim), dtype=np.float32) * 2 - 1) * \
            np.float32(1 / np.sqrt(rows))
        moved = 0.25 * (1.0 + used.astype(np.float64))**-0.25
        noise = rng.standard_normal((len(used), dim)) * moved[:, None]
        out[t] = (start + noise.astype(np.float32))[inverse]
    return out


def arrays():
    rng = np.random.default_rng(SEED)
    yield "weights", make_weights(rng)
    yield "field256", make_field(rng)
    index = [draw_rows(rng, rows) for rows in TABLES]
    for dim in DIMS:
        yield f"dlrm{dim}", make_lookups(rng, index, dim)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    paths = {name: os.path.join(sys.argv[1], name + ".f32") for name in COUNTS}
    if all(os.path.isfile(p) and os.path.getsize(p) == 4 * COUNTS[n] for n, p in paths.items()):
        return
    for name, values in arrays():
        values.astype("<f4").tofile(paths[name])


if __name__ == "__main__":
    main()
