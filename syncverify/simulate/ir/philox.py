"""Philox 4x32-10: random numbers that depend on a counter and a key only (Salmon et al., SC 2011)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)

Words = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def philox(counter: Words, key: tuple[Any, Any]) -> Words:
    """Four 32-bit words, in arrays of 64 bits, for each counter of four such words."""
    c0, c1, c2, c3 = counter
    k0, k1 = (np.asarray(k, np.uint64) for k in key)
    a, b = (np.uint64(m) for m in _MULTIPLIERS)
    for _ in range(_ROUNDS):
        first, second = a * c0, b * c2
        c0, c2 = (second >> _SHIFT) ^ c1 ^ k0, (first >> _SHIFT) ^ c3 ^ k1
        c1, c3 = second & _LOW, first & _LOW
        k0, k1 = (k0 + np.uint64(_STEPS[0])) & _LOW, (k1 + np.uint64(_STEPS[1])) & _LOW
    return c0, c1, c2, c3


def uniform(places: Any, seed: Any, offset: Any) -> NDArray[Any]:
    """A number in [0, 1) for each place, in float32.

    Place p takes word p % 4 of the counter (p // 4, offset), both of 64 bits, under the key ``seed``; its
    upper 24 bits are the number.
    """
    p, s, o = (np.asarray(x).astype(np.int64).astype(np.uint64) for x in (places, seed, offset))
    p, s, o = np.broadcast_arrays(p, s, o)
    block = p >> np.uint64(2)
    words = philox((block & _LOW, block >> _SHIFT, o & _LOW, o >> _SHIFT), (s & _LOW, s >> _SHIFT))
    word = np.choose((p & np.uint64(3)).astype(np.int64), words)
    return (word >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


__all__ = ["philox", "uniform"]
