"""What an atomic operation makes of the old value and its operand: ``atom``, ``red``, bulk reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from syncverify.simulate.ptx import floats, integers
from syncverify.simulate.ptx.types import FLOATS, Lanes


def _increase(a: Lanes, b: Lanes) -> Lanes:
    return np.where(a >= b, a.dtype.type(0), a + a.dtype.type(1))


def _decrease(a: Lanes, b: Lanes) -> Lanes:
    return np.where((a == 0) | (a > b), b, a - a.dtype.type(1))


def combine(op: str, kind: str) -> Callable[[Lanes, Lanes], Lanes] | None:
    """The new value from the old one and the operand."""
    if kind in FLOATS:
        if op in ("add", "min", "max"):
            return floats.arithmetic(op, kind, ("rn",))
        return (lambda a, b: b) if op == "exch" else None
    match op:
        case "add":
            return integers.add
        case "min":
            return integers.minimum(kind)
        case "max":
            return integers.maximum(kind)
        case "inc":
            return _increase
        case "dec":
            return _decrease
        case "and":
            return np.bitwise_and
        case "or":
            return np.bitwise_or
        case "xor":
            return np.bitwise_xor
        case "exch":
            return lambda a, b: b
    return None
