"""Architectures: what ``.target`` names, which instructions it has, which rules and limits hold for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_NAME = re.compile(r"sm_(\d+)([af]?)")

#: By architecture: the first PTX version that knows it, and the shared memory of a block in KiB (CUDA
#: Programming Guide, technical specifications per compute capability).
_KNOWN: dict[int, tuple[tuple[int, int], int]] = {
    50: ((4, 0), 48), 52: ((4, 1), 48), 53: ((4, 2), 48), 60: ((5, 0), 48), 61: ((5, 0), 48),
    62: ((5, 0), 48), 70: ((6, 0), 96), 72: ((6, 1), 96), 75: ((6, 3), 64), 80: ((7, 0), 163),
    86: ((7, 1), 99), 87: ((7, 4), 163), 88: ((9, 0), 99), 89: ((7, 8), 99), 90: ((7, 8), 227),
    100: ((8, 6), 227), 101: ((8, 6), 227), 103: ((8, 8), 227), 107: ((9, 4), 227), 110: ((9, 0), 227),
    120: ((8, 7), 99), 121: ((8, 8), 99),
}  # fmt: skip
#: By architecture with a suffix: the first PTX version that knows it, where it is a later one.
_SUFFIXED = {"90a": (8, 0), "100f": (8, 8), "101f": (8, 8), "120f": (8, 8)}
#: sm_101 was renamed to sm_110 in PTX ISA 9.0.
_RENAMED = {101: 110}
#: The memory model and threads that go on by themselves: PTX ISA, memory consistency model (scope).
_FIRST_WITH_RULES = 70
#: Where cp.async before a wgmma or another asynchronous reader is no mere warning: docs/model.md K6.
_STRICT_COPIES = range(100, 120)


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture, ``sm_90a`` say: its number, and ``a`` or ``f`` where its text may use what only this
    architecture or its family has."""

    number: int
    suffix: str = ""

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}"

    @property
    def known(self) -> bool:
        return self.number in _KNOWN and (not self.suffix or self.number >= 90) and str(self) != "sm_90f"

    @property
    def since(self) -> tuple[int, int]:
        """The first PTX version that knows it."""
        return _SUFFIXED.get(f"{self.number}{self.suffix}", _KNOWN[self.number][0])

    @property
    def shared_bytes(self) -> int:
        """The shared memory that a block can have, in bytes."""
        return _KNOWN[self.number][1] * 1024

    def has(self, needs: tuple[str, ...]) -> bool:
        """Whether it has what needs one of these: ``80``: that or a later one; ``-62``: that or an earlier
        one; ``90a``: exactly that; ``100f``: a later one of that family, with a suffix."""
        return not needs or any(map(self._has, needs))

    def _has(self, need: str) -> bool:
        if need.startswith("-"):
            return self.number <= int(need[1:])
        if not need[-1].isalpha():
            return self.number >= int(need)
        number, here = int(need[:-1]), _RENAMED.get(self.number, self.number)
        if need.endswith("a"):
            return self.suffix == "a" and here == number
        return bool(self.suffix) and here // 10 == number // 10 and here >= number

    @property
    def without_rules(self) -> str | None:
        """Why no rules are known for it; None where they are."""
        if not self.known:
            return f"no rules are known for the architecture {self}"
        if self.number < _FIRST_WITH_RULES:
            return f"{self} is older than the PTX memory model, which begins with sm_{_FIRST_WITH_RULES}"
        return None


@lru_cache(maxsize=256)
def target(name: str) -> Target | None:
    """The architecture that ``.target`` names; None for what is none (``texmode_independent``)."""
    m = _NAME.fullmatch(name)
    return Target(int(m[1]), m[2]) if m else None


def shared_bytes(name: str) -> int:
    """The most shared memory that a block can have on the architecture that ``.target`` names."""
    here = target(name)
    return here.shared_bytes if here is not None and here.known else _KNOWN[90][1] * 1024


def copies_need_fence(name: str) -> bool:
    """Whether practical policy too asks for a proxy fence between cp.async and an asynchronous reader."""
    here = target(name)
    return here is not None and here.number in _STRICT_COPIES


def needed(needs: tuple[str, ...]) -> str:
    """Architectures as words: ``sm_90a``, ``sm_100f or sm_110f``, ``sm_80 or later``."""
    words = [
        f"sm_{n[1:]} or earlier" if n[0] == "-" else f"sm_{n}" if n[-1].isalpha() else f"sm_{n} or later"
        for n in needs
    ]
    return " or ".join(words)
