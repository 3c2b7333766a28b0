"""Functions that are generated as text: the same text is compiled once."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType

#: Texts whose code is kept.
MOST = 32


@lru_cache(MOST)
def compiled(text: str, filename: str) -> CodeType:
    """The code of a module's text, to be executed in whatever namespace."""
    return compile(text, filename, "exec")


__all__ = ["compiled"]
