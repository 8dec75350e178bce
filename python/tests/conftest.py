"""What several tests share: tensors of every library that is here, and the golden frames.

SPDX-License-Identifier: Apache-2.0
"""

import importlib.util
import os
import pathlib
import sys
import threading

import numpy as np
import pytest

GOLDEN = pathlib.Path(
    os.environ.get("PITH_TEST_DATA", pathlib.Path(__file__).resolve().parents[2] / "tests")
)


def has(module):
    """Whether a module can be imported."""
    return importlib.util.find_spec(module) is not None


def noise(*shape, seed=0, dtype=np.float32):
    """Return normal values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def same(a, b):
    """Whether two arrays have the same bits."""
    a, b = np.asarray(a), np.asarray(b)
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
    )


class Interrupted(BaseException):
    """What a handler of a signal raises."""


def interruptions(call):
    """Make a call until it ends, with an exception one instruction later each time, and yield.

    It comes between any two instructions of the package, or of contextlib for it, that the call
    executes, as that of a signal's handler may.
    """
    at, before = 0, sys.gettrace()

    def trace(frame, event, _):
        nonlocal left
        if frame.f_globals["__name__"].partition(".")[0] not in ("pith", "contextlib"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                raise Interrupted
        return trace

    while True:
        left = at
        sys.settrace(trace)
        try:
            call()
        except Interrupted:
            at += 1
        else:
            return
        finally:
            sys.settrace(before)
        yield at


def elsewhere(call):
    """Return what a call in another thread returns, or the exception that it raises."""
    found = []

    def other():
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    return found[0]


class OnlyDlpack:
    """An array of which nothing is known but DLPack's two methods."""

    def __init__(self, x, old=False):
        self.x, self.old = x, old

    def __dlpack__(self, **keys):
        """Return the capsule, as it was before version 1 where the test asks for that."""
        if self.old and keys:
            raise TypeError("no arguments are known")
        return self.x.__dlpack__(**keys)

    def __dlpack_device__(self):
        """Return the device."""
        return self.x.__dlpack_device__()


@pytest.fixture
def torch():
    """PyTorch, or skip."""
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def ml_dtypes():
    """ml_dtypes, or skip."""
    return pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
