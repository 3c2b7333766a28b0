"""Attributes of other packages that are replaced for a while, and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Puts something back as it was.
Undo = Callable[[], None]


def wrap(owner: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Undo:
    """Puts ``around(original)`` in the place of a function; does nothing where there is none."""
    original = getattr(owner, name, None)
    if original is None:
        return lambda: None
    new = around(original)
    setattr(owner, name, new)

    def undo() -> None:
        if getattr(owner, name, None) is new:
            setattr(owner, name, original)

    return undo
