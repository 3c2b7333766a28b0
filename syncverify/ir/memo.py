"""What is found of a kernel is found once: it does not change, and is checked at many sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Of = TypeVar("Of")
Found = TypeVar("Found")
#: Kernels of which something is remembered.
MOST = 32


def once(find: Callable[[Of], Found]) -> Callable[[Of], Found]:
    """A function of one object, which is not changed and is distinguished from others by identity."""
    known: dict[int, tuple[Of, Found]] = {}

    @wraps(find)
    def remembered(x: Of) -> Found:
        found = known.get(id(x))
        if found is None:
            if len(known) >= MOST:
                known.clear()
            found = known[id(x)] = x, find(x)  # it is kept, so that no other has its identity
        return found[1]

    return remembered


__all__ = ["once"]
