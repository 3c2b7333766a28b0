"""Python's search for cycles, less often during proofs: they make many objects and few cycles."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Objects that are made before young ones are searched.
SELDOM = 50_000

_lock = threading.Lock()
_inside = 0
_before = 0


@contextmanager
def seldom() -> Iterator[None]:
    """Young objects are searched after ``SELDOM`` of them; the last to leave sets it back."""
    global _inside, _before
    with _lock:
        _inside += 1
        if _inside == 1:
            _before, *_ = gc.get_threshold()
            # 0 is off, and stays off
            gc.set_threshold(max(_before, SELDOM) if _before else 0)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                gc.set_threshold(_before)


__all__ = ["SELDOM", "seldom"]
