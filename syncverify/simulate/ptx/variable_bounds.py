"""Variables that stand apart, and accesses that leave them.

Where the assembler places a variable is its own choice (PTX ISA, state spaces). So an access that leaves the
variable whose address it was computed from meets what the assembler put there: another variable, or bytes of
none. A launch with ``apart`` has gaps of drawn lengths between the variables of shared, local, constant and
parameter memory. An access to a gap is harm of the kind ``outside``.

This is no rule of the ISA: the text of a kernel may rely on one layout. Arrays of dynamic shared memory all
begin at one place, so they and the whole of it are one variable here. Gaps of shared memory are multiples of
1024 bytes: the low bits of addresses stay, as swizzles and alignments need them. What jumps over a gap
lands in a variable; another launch has another gap. Local memory is looked at in kernels without calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.harm import Kind
from syncverify.simulate.ptx.types import Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.addressing import Part
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Fragment

#: By space, the unit of gaps in bytes; how many of them there may be between two variables.
_UNITS = {"shared": 1024, "local": 64, "const": 256, "param": 64}
_MOST = 4


@dataclass
class Bounds:
    """Which bytes of each space are whose. Without ``gaps`` there are none, and no access is outside.

    ``dynamic``: bytes of dynamic shared memory.
    """

    dynamic: int = 0
    gaps: np.random.Generator | None = None
    owners: dict[str, Lanes] = field(default_factory=dict)  # space -> by byte the variable, -1 for none

    def gap(self, space: str) -> int:
        """The bytes to leave before the next variable."""
        return 0 if self.gaps is None else _UNITS[space] * int(self.gaps.integers(1, _MOST + 1))

    def place(self, space: str, variables: Iterable[tuple[int, int]], size: int) -> None:
        """Notes the variables of a space by their first bytes and sizes."""
        if self.gaps is None:
            return
        owner = np.full(size, -1, np.int32)
        for number, (at, length) in enumerate(variables):
            owner[at : at + length] = number
        self.owners[space] = owner

    def spaced(
        self, space: str, sizes: Iterable[tuple[str, int, int]], at: int
    ) -> Iterator[tuple[str, int, int]]:
        """Places for variables (name, size, alignment) from a byte on: name, first byte, the byte behind."""
        for number, (name, size, align) in enumerate(sizes):
            at += self.gap(space) if number else 0
            at = -(-at // max(align, 1)) * max(align, 1)
            yield name, at, at + size
            at += size


def inside(m: Machine, f: Fragment, part: Part, size: int) -> None:
    """Harm if bytes of an access are no variable's, or those of two. ``part``: in its own space."""
    owner = m.loaded.bounds.owners.get(part.space)
    if owner is None:
        return
    first, last = owner[np.maximum(part.at, 0)], owner[np.maximum(part.at + size - 1, 0)]
    bad = (part.at >= 0) & ((first < 0) | (first != last))
    if np.count_nonzero(bad):
        lane = int(part.lanes[int(np.argmax(bad))])
        raise m.harm(
            Kind.OUTSIDE,
            m.here(f, lane),
            f"an access of {size} bytes leaves its variable in {part.space} memory",
            "state spaces",
            space=part.space,
        )
