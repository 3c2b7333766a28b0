"""Events and sequences as certificates hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def plain(x: Any) -> Any:
    """Arguments of events as JSON holds them."""
    if isinstance(x, tuple | list):
        return [plain(y) for y in x]
    return x if x is None or isinstance(x, str | bool) else int(x)


#: Repetitions are looked for up to this length.
LONGEST_PERIOD = 64


def compressed(items: Sequence[int]) -> list[Any]:
    """A sequence of numbers, repeated stretches written once as ``[times, stretch]``."""
    out: list[Any] = []
    i = 0
    while i < len(items):
        best, times = 0, 1
        for period in range(1, min(LONGEST_PERIOD, (len(items) - i) // 2) + 1):
            if items[i] != items[i + period]:
                continue
            stretch = list(items[i : i + period])
            n = 1
            while list(items[i + n * period : i + (n + 1) * period]) == stretch:
                n += 1
            if n > 1 and (n - 1) * period > (times - 1) * best:
                best, times = period, n
        if times > 1 and (times - 1) * best > 2:
            out.append([times, list(items[i : i + best])])
            i += times * best
        else:
            out.append(items[i])
            i += 1
    return out
