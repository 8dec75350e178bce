"""Codec topk: its streams, sets of elements in two phases, planning of sparse sums.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import pickle

import numpy as np
import pytest
from conftest import noise, same

import pith
from pith import sparse

N = 5000


def stream(spec="topk:density=0.02,control=exact,block=1024", n=N, dtype="f32", **keys):
    return pith.Stream(pith.Plan(spec, shape=n, dtype=dtype, **keys))


def largest(x, k):
    """Return the k elements of largest magnitude in ascending order, of equal ones the first."""
    return np.sort(np.argsort(-np.abs(x), kind="stable")[:k])


def only(x, elements):
    """Return x with zeros at all other elements."""
    out = np.zeros_like(x)
    out[elements] = x[elements]
    return out


# ---- Frames -------------------------------------------------------------------------------------


def test_frames_of_any_length():
    a, b = stream(), stream()
    x, lengths = noise(N), set()
    for step in range(4):
        x[: 1000 * step] = 0  # fewer blocks have elements
        frame = a.encode(x)
        lengths.add(len(frame))
        assert len(frame) <= a.plan.sizes.slot_bytes and not a.plan.sizes.fixed
        assert same(b.decode(frame), only(x, largest(x, 100)))
        pith.verify(frame)
    assert len(lengths) > 1
    space = bytearray(a.plan.sizes.slot_bytes)
    n = a.encode(x, out=space)
    assert same(b.decode(memoryview(space)[:n]), only(x, largest(x, 100)))
    assert same(b.decode(space), only(x, largest(x, 100)))  # what follows the frame is ignored
    with pytest.raises(pith.SpaceError):
        a.encode(x, out=bytearray(100))


def test_feedback_keeps_what_is_not_sent():
    end = stream("topk:density=0.02,control=exact,ef=full,block=1024")
    residual = np.zeros(N, np.float32)
    for step in range(3):
        acc = residual + noise(N, seed=step)
        sent = largest(acc, 100)
        frame = end.encode(noise(N, seed=step))
        assert same(end.decode(frame), only(acc, sent))
        residual = acc - only(acc, sent)
        assert same(end.get_residual(), residual)
    assert end.sparse_state().sent == 100


def test_sums():
    end, frames, parts = stream(), [], []
    for r in range(3):
        x = noise(N, seed=r)
        frames.append(stream().encode(x))
        parts.append(only(x, largest(x, 100)))
    total = parts[0] + parts[1] + parts[2]
    assert same(end.reduce(frames, scale=0.5), total * np.float32(0.5))
    out = np.ones((50, 100), np.float32)[:, ::-1]
    assert end.decode_add(frames[0], out) is out
    assert same(out.ravel().copy(), np.float32(1) + parts[0])
    again = stream("topk:density=0.05,control=nonzero,block=512")
    frame = end.reduce_encode(frames, again)
    assert same(stream("topk:density=0.05,control=nonzero,block=512").decode(frame), total)
    ends = pith.Bucket([stream(), stream(n=300)])
    pair = ends.encode([noise(N), noise(300)])
    assert same(ends.decode(pair)[1], only(noise(300), largest(noise(300), 6)))


def test_same_set_sends_values_alone():
    a, b = stream(), stream()
    x = noise(N)
    b.decode(a.encode(x))
    sent, reply = largest(x, 100), noise(N, seed=1)
    frame = a.encode(reply, same_set=True)
    assert same(b.decode(frame), only(reply, sent))
    assert len(frame) < len(a.encode(reply))
    assert pith.Bucket([b]).encode([reply], same_set=True) == [frame]
    b.decode(a.encode(noise(N, seed=2)))
    b.decode(stream().encode(x))
    with pytest.raises(pith.BaseMismatchError, match="set"):
        b.decode(a.encode(reply, same_set=True))
    with pytest.raises(pith.StateError, match="set"):
        stream().decode(frame)
    with pytest.raises(pith.StateError):
        stream().encode(x, same_set=True)
    with pytest.raises(pith.UnsupportedError):
        stream("grad").encode(x, same_set=True)


def test_same_blocks_sends_indices_of_blocks_that_changed():
    spec = "topk:k=100,block=512,control=nonzero,values=f32"
    a, b, plain = (pith.Stream(pith.Plan(spec, shape=(N,), dtype="f32")) for _ in range(3))
    x = only(noise(N), largest(noise(N), 100))
    first = a.encode(x, same_blocks=True)
    assert first == plain.encode(x) and not pith.inspect(first).same_blocks
    b.decode(first)
    x[:64] = 1
    frame = a.encode(x, same_blocks=True)
    assert len(frame) < len(plain.encode(x))
    info = pith.inspect(frame)
    assert info.same_blocks and not info.same_set and info.revision == 3
    late = pith.Stream(b.plan)
    with pytest.raises(pith.StateError, match="set"):
        late.decode(frame)
    with pytest.raises(pith.UnsupportedError):
        late.hold([frame])
    assert same(b.decode(frame), x)
    assert pith.Bucket([a]).encode([x], same_blocks=True) != [frame]  # nothing changed since
    with pytest.raises(pith.ArgumentError):
        a.encode(x, same_blocks=True, same_set=True)


def test_inspect():
    end = stream("topk:density=0.02,control=exact,values=int8,block=1024")
    x = noise(N)
    info = pith.inspect(end.encode(x))
    assert (info.sent, info.value_bits, info.same_set) == (100, 8, False)
    assert info.threshold == np.sort(np.abs(x))[-100]
    info = pith.inspect(end.encode(x, same_set=True))
    assert (info.sent, info.threshold, info.same_set) == (100, 0, True)
    info = pith.inspect(pith.compress(x))
    assert (info.sent, info.threshold, info.value_bits, info.same_set) == (None, None, None, False)


# ---- Sets in two phases -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["union", "intersection"])
def test_two_phases(how):
    spec = "topk:density=0.02,control=exact,values=none,ef=full,clear=call,block=1024"
    ranks = [stream(spec) for _ in range(3)]
    residuals = [np.zeros(N, np.float32) for _ in ranks]
    for step in range(4):
        common = noise(N, seed=100 + step)
        gradients = [common + noise(N, seed=10 * step + r) / 2 for r in range(3)]
        accs = [r + g for r, g in zip(residuals, gradients, strict=True)]
        frames = [end.encode(g) for end, g in zip(ranks, gradients, strict=True)]
        sets = [largest(acc, 100) for acc in accs]
        merge = np.union1d if how == "union" else np.intersect1d
        chosen = merge(merge(sets[0], sets[1]), sets[2])
        assert 0 < len(chosen) != 100
        gathered = []
        for end, acc in zip(ranks, accs, strict=True):
            assert end.sparse_state().held == end.sparse_state().sent == 100
            end.hold(frames, how)
            assert end.sparse_state().held == len(chosen) and end.sparse_state().holds
            gathered.append(end.gather())
            assert same(gathered[-1], acc[chosen])
        total = gathered[0] + gathered[1] + gathered[2]
        wanted = np.zeros(N, np.float32)
        wanted[chosen] = total * np.float32(1 / 3)
        for i, end in enumerate(ranks):
            out = np.zeros(N, np.float32)
            assert end.scatter(total, out, scale=1 / 3) is out
            assert same(out, wanted)
            end.clear()
            end.report(len(chosen))
            residuals[i] = accs[i].copy()
            residuals[i][chosen] = 0
            assert same(end.get_residual(), residuals[i])


def test_gather_and_scatter_of_slots_and_strides():
    end = stream("topk:k=10,control=exact,block=64", n=(10, 30), slots=3)
    x = noise(10, 30)
    end.encode(x, slot=1)
    sent = largest(x.ravel()[100:200], 10)
    assert same(end.gather(x, slot=1), x.ravel()[100:200][sent])
    assert same(end.gather(x.ravel()[100:200], slot=1), x.ravel()[100:200][sent])
    half = np.zeros(20, np.float16)[::2]
    assert end.gather(x, half, slot=1) is half
    assert same(half.copy(), x.ravel()[100:200][sent].astype(np.float16))
    assert end.gather(x, slot=1, dtype="f16").dtype == np.float16
    out = np.ones((30, 10), np.float32).T
    end.scatter(half, out, scale=2, slot=1)
    wanted = np.ones(300, np.float32)
    wanted[100 + sent] += 2 * half.astype(np.float32)
    assert same(out.ravel(), wanted)


def test_sets_of_ones_own():
    a, b = stream(n=(50, 100)), stream(n=(50, 100))
    x = noise(50, 100)
    for elements in ([4999, 0, 70], np.array([70, 0, 4999], np.int32)[:, None]):
        a.hold_elements(elements)
        frame = a.encode(x, held_set=True)
        assert same(b.decode(frame).ravel(), only(x.ravel(), [0, 70, 4999]))
        assert not pith.inspect(frame).same_set and pith.Bucket([a]).encode([x], held_set=True) == [
            frame
        ]
    a.hold_elements([7, 3], 100)
    rows = b.decode(a.encode(x, held_set=True))
    assert same(rows[[3, 7]], x[[3, 7]]) and np.count_nonzero(rows) == 200
    a.hold_elements([])
    assert a.sparse_state().held == 0 and a.sparse_state().holds
    for wrong, run in (([5000], 1), ([50], 100), ([-1], 1), ([1], 0)):
        with pytest.raises(pith.ArgumentError):
            a.hold_elements(wrong, run)
    with pytest.raises(pith.DtypeError):
        a.hold_elements([0.5])
    with pytest.raises(pith.ArgumentError):
        a.encode(x, same_set=True, held_set=True)
    with pytest.raises(pith.StateError):
        stream().encode(noise(N), held_set=True)


@pytest.mark.parametrize("values", ["f32", "f16", "int8", "none"])
def test_held_sets_above_the_limit(values):
    spec = f"topk:density=0.01,cap=1,block=64,values={values}"
    a, b, c = (stream(spec, checksums=True) for _ in range(3))
    x = 1 + np.abs(noise(N))  # nothing rounds to 0
    for elements in (range(0, N, 2), range(N), range(N // 2), range(0, N, 33)):
        for end in (a, b, c):
            end.hold_elements(elements)
        assert a.sparse_state().held > a.sparse_state().most
        most = a.plan.sizes.slot_bytes + 12 * (len(elements) - a.sparse_state().most) + 4
        for which in ({"held_set": True}, {"same_set": True}):
            frame = a.encode(x, **which)
            assert len(frame) <= most and np.count_nonzero(b.decode(frame)) == len(elements)
            assert pith.Bucket([c]).encode([x], **which) == [frame]
            assert c.encode(x, **which, out=bytearray(most)) == len(frame)


def test_requests():
    end = stream("topk:density=0.02,cap=3,control=exact,block=1024")
    x = noise(N)

    def chosen():
        return np.flatnonzero(end.decode(end.encode(x)))

    end.request(1000, 2000, k=7)
    assert np.array_equal(chosen(), 1000 + largest(x[1000:3000], 7))
    end.request(*sparse.partition(N, 4, 3), threshold=2.5)
    assert np.array_equal(chosen(), 3750 + np.flatnonzero(np.abs(x[3750:]) >= 2.5))
    assert end.sparse_state().threshold == 2.5
    for none in ({"first": 70, "count": 0}, {"first": N}):
        end.request(**none)
        assert len(chosen()) == 0
    end.request(threshold=1e-30)
    assert np.array_equal(chosen(), largest(x, 300))
    state = end.sparse_state()
    assert (state.k, state.most, state.sent) == (100, 300, 300)
    assert state.overflowed == np.count_nonzero(x) - 300
    end.request()
    assert np.array_equal(chosen(), largest(x, 100))
    for bad in ({"first": N + 1}, {"first": N + 1, "count": 0}, {"first": 1, "count": N}):
        with pytest.raises(pith.ArgumentError):
            end.request(**bad)
    for threshold in (-1.0, float("inf"), float("nan")):
        with pytest.raises(pith.ArgumentError, match="threshold"):
            end.request(threshold=threshold)
    with pytest.raises(pith.ArgumentError, match="slot"):
        end.request(slot=1)


def test_what_sets_are_refused():
    x, fresh = noise(N), stream()
    assert fresh.sparse_state() == pith.SparseState(100, 200, 0, 0, 0, 0.0, False)
    for call in (fresh.clear, lambda: fresh.gather(x), lambda: fresh.scatter(x[:0], x.copy())):
        with pytest.raises(pith.StateError):
            call()
    with pytest.raises(pith.StateError, match="chosen"):
        fresh.report(3)
    frame = fresh.encode(x)
    with pytest.raises(pith.StateError, match="feedback"):
        fresh.gather()
    with pytest.raises(pith.StateError, match="feedback"):
        fresh.clear()
    for values, out in ((x[:99], x), (x[:100], x[:99])):
        with pytest.raises(pith.ShapeError):
            fresh.scatter(values, out.copy())
    with pytest.raises(pith.DtypeError):
        fresh.gather(x.astype(np.float64))
    held = x[:100].copy()
    held.flags.writeable = False
    with pytest.raises(pith.ArgumentError, match="read-only"):
        fresh.gather(x, held)
    with pytest.raises(pith.ArgumentError, match="intersection"):
        fresh.hold([frame], "difference")
    with pytest.raises(pith.ArgumentError):
        fresh.hold([])
    with pytest.raises(pith.MismatchError):
        fresh.hold([stream(n=N + 1).encode(noise(N + 1))])
    with pytest.raises(pith.UnsupportedError):
        fresh.hold([fresh.encode(x, same_set=True)])
    with pytest.raises(pith.TruncatedError):
        fresh.hold([frame[:-1]])
    assert fresh.sparse_state().held == 100
    grad = stream("grad")
    for call in (grad.sparse_state, grad.clear, grad.request, lambda: grad.hold([frame])):
        with pytest.raises(pith.UnsupportedError):
            call()


def test_torch(torch):
    x = torch.from_numpy(noise(N)).to(torch.bfloat16)
    end = stream("topk:k=20,control=exact,ef=full,clear=call,values=none", dtype=torch.bfloat16)
    end.hold([end.encode(x)])
    sent = largest(x.float().numpy(), 20)
    values = end.gather(x, dtype=torch.bfloat16)
    assert torch.equal(values, x[sent])
    assert same(end.gather(), x.float().numpy()[sent])
    out = torch.zeros(2 * N, dtype=torch.bfloat16)[::2]
    assert end.scatter(values, out, scale=-2) is out
    assert torch.equal(out[sent], -2 * values) and out.count_nonzero() == 20
    assert sparse.norm(x[:4]) == pytest.approx(float(x[:4].float().norm()))


# ---- Planning -----------------------------------------------------------------------------------


def test_partitions():
    assert [sparse.part(4, r, 2) for r in range(4)] == [2, 3, 0, 1]
    assert sparse.partition(10, 4, 1, 2) == (8, 2) and sparse.partition(10, 4, 3, 2) == (3, 3)
    assert sparse.imbalance([1, 2, 3, 2]) == 0.5 and sparse.imbalance([]) == 0
    with pytest.raises(pith.ArgumentError, match="no rank 4"):
        sparse.partition(10, 4, 4)
    with pytest.raises(OverflowError):
        sparse.partition(-1, 4, 0)


def test_exdyna():
    plan = sparse.ExDyna(131072 + 77, 4)  # 1024 blocks of 128
    assert (plan.n, plan.ranks, plan.step) == (131149, 4, 0)
    assert plan.range(3) == (768 * 128, 256 * 128 + 77)
    twins = [copy.copy(plan), pickle.loads(pickle.dumps(plan))]
    plan.update([200, 50, 100, 50])
    assert plan.step == 1 and twins[0].step == 0
    assert plan.range(3) == (0, 255 * 128) and plan.range(0) == (255 * 128, 257 * 128)
    for twin in twins:
        twin.update([200, 50, 100, 50])
        assert [twin.range(r) for r in range(4)] == [plan.range(r) for r in range(4)]
    for wrong in ([1, 2, 3], [1] * 5, [131149, 1, 0, 0]):
        with pytest.raises(pith.ArgumentError):
            plan.update(wrong)
    for ranks in (0, 257):
        with pytest.raises(pith.ArgumentError, match="1 to 256"):
            sparse.ExDyna(9, ranks)
    broken = sparse.ExDyna.__new__(sparse.ExDyna)
    broken.__setstate__(bytes(len(plan.__getstate__())))
    with pytest.raises(pith.StateError):
        broken.range(0)
    with pytest.raises(pith.ArgumentError):
        broken.__setstate__(b"")
    assert "ExDyna" in repr(plan)


def test_deft():
    pieces = sparse.deft_pieces([10, 0, 3, 47, 20], 4)
    assert pieces == [(0, 10), (10, 3), (13, 12), (25, 12), (37, 12), (49, 11), (60, 20)]
    assert sparse.deft_pieces([], 4) == [] == sparse.deft_counts([], [], 3)
    for sizes, ranks in (([3], 0), ([2**64 - 1, 1], 2)):
        with pytest.raises(pith.ArgumentError, match=r"expected at least 1 and below 2\*\*64"):
            sparse.deft_pieces(sizes, ranks)
    pieces = [(0, 100), (100, 5), (105, 100), (205, 100)]
    assert sparse.deft_counts(pieces, [1, 6, 3, 0], 20) == [4, 5, 11, 1]
    for norms in ([1, 1, -1, 1], [1, 1, float("nan"), 1], [1, 1, 1]):
        with pytest.raises(pith.ArgumentError, match="norm"):
            sparse.deft_counts(pieces, norms, 20)
    sizes = [64, 8, 64, 100, 100, 128, 100]
    pieces = [(sum(sizes[:i]), n) for i, n in enumerate(sizes)]
    ks = [8, 8, 2, 1, 2, 16, 1]
    assert sparse.deft_pack(pieces, ks, 3) == [1, None, 2, 2, 2, 0, 1]
    assert sparse.deft_pack([], [], 3) == []
    for wrong, ranks in (([65, *ks[1:]], 3), (ks[1:], 3), (ks, 0)):
        with pytest.raises(pith.ArgumentError):
            sparse.deft_pack(pieces, wrong, ranks)
    x = noise(37, 41).T
    assert sparse.norm(x) == pytest.approx(np.linalg.norm(x.astype(np.float64)), rel=1e-13)
    with pytest.raises(pith.DtypeError):
        sparse.norm(np.zeros(3))


@pytest.mark.parametrize("values,bits", [("f32", 32), ("bf16", 16), ("int8", 8), ("none", 0)])
def test_bytes_are_those_of_frames(values, bits):
    n, k, block = 1 << 18, 2621, 32768
    for index in ("small", "fast"):
        spec = f"topk:k={k},cap=1,control=exact,values={values},index={index},block={block}"
        frame = pith.compress(noise(n), spec, checksums=False)
        expected = sparse.expected_bytes(n, k, value_bits=bits, index=index, block=block)
        assert abs(len(frame) - expected) < 0.03 * expected + 32
        assert len(frame) <= sparse.largest_bytes(n, k, value_bits=bits, block=block)


def test_links():
    links = [sparse.Link(1000000, 1e9), sparse.Link(1000000, 1e8), (100, 1e9)]
    seconds = sparse.link_seconds(links, 100)
    assert seconds == pytest.approx(sparse.expected_bytes(10**6, 10**6) / 1e8 / 100, rel=1e-4)
    ks = sparse.link_counts(links, seconds)
    assert ks[0] > 9 * ks[1] > 9 and ks[2] == 100
    assert sparse.expected_bytes(10**6, ks[1]) / 1e8 <= seconds
    assert sparse.expected_bytes(10**6, ks[1] + 1) / 1e8 >= seconds * (1 - 1e-3)
    assert sparse.link_counts([], 1.0) == []
    for call in (
        lambda: sparse.link_seconds(links, 0),
        lambda: sparse.link_seconds([(5, 0)], 1),
        lambda: sparse.link_counts(links, 0),
        lambda: sparse.link_counts(links, 1, index="tiny"),
        lambda: sparse.expected_bytes(5, 6),
        lambda: sparse.expected_bytes(5, 4, value_bits=7),
        lambda: sparse.largest_bytes(5, 6),
    ):
        with pytest.raises(pith.ArgumentError):
            call()
