"""What is claimed of an agent's loops: where they are cut, and what registers hold there, in closed form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from syncverify.checker.induction.words import Stored

#: Names in forms, besides atoms of sizes: the whole periods of steps and of tiles, the steps before this
#: tile's loop, and the steps of this tile.
H, G, P, K = "h", "g", "p", "K"
#: In forms of registers that say where a tile begins: the whole periods of the steps before it.
Y = "y"
#: The whole periods in the steps of a tile.
Z = "z"


@dataclass(frozen=True, slots=True)
class Form:
    """A register: ``c`` plus the sum of coefficients and names; or any number."""

    c: int
    parts: tuple[tuple[Any, int], ...]
    any: bool = False
    moves: bool = False  # it moves from turn to turn, always by one sum of sizes
    kept: bool = False  # it is what it was where the loop begins, a sum of sizes

    def shape(self) -> Any:
        return "moves" if self.moves else "kept" if self.kept else "any" if self.any else "sum"


@dataclass(frozen=True, slots=True)
class Lanes(Form):
    """A register with one number for each lane."""

    lanes: tuple[int, ...] = ()

    def __init__(self, lanes: tuple[int, ...]) -> None:
        object.__setattr__(self, "c", 0)
        object.__setattr__(self, "parts", ())
        object.__setattr__(self, "any", False)
        object.__setattr__(self, "moves", False)
        object.__setattr__(self, "kept", False)
        object.__setattr__(self, "lanes", lanes)

    def shape(self) -> Any:
        return "lanes"


ANY = Form(0, (), True)
MOVES = Form(0, (), any=True, moves=True)
KEPT = Form(0, (), any=True, kept=True)


@dataclass(frozen=True, slots=True)
class Header:
    """A place where a loop is cut.

    ``tiles``: it has loops inside; ``outer``: the loop around it; ``late``: it asks behind its body whether
    it goes on. ``forms``: by the residues of the counters of steps and tiles. ``others``: what some of these
    registers may hold together instead. Example: a stage that is -1 in the first turn, and 4 in turns 5, 10,
    and so on, which both lead on to 0.
    """

    place: int
    tiles: bool
    outer: int | None
    late: bool
    forms: dict[tuple[int, int], dict[Any, Form]]
    others: dict[tuple[int, int], dict[Any, Form]] = field(default_factory=dict)
    # of a loop in a tile: what registers keep, by ranges of the residue of the steps before it
    begins: tuple[tuple[int, int, dict[Any, Form]], ...] = ()
    ahead: int = 0  # steps of a tile that are made before its loop
    trip: Form | None = None  # how many steps each tile has, over sizes, where that is to be known before
    apart: bool = False  # the last turn of a loop that asks behind its body stands behind the loop
    first: int = 0  # of a loop of tiles: its tiles are first, first + stride, and so on
    stride: int = 1

    def form(self, residue: tuple[int, int], slot: Any) -> Form | None:
        """What is claimed of a register; one that nothing is said of at all keeps its value."""
        if not any(slot in some for some in self.forms.values()):
            return KEPT
        return self.forms.get(residue, {}).get(slot)


@dataclass(frozen=True, slots=True)
class Claim:
    """``steps``, ``tiles``: after how many of them everything repeats. ``words``: what agents store in shared
    memory that steers; ``versions``: of the agent's accesses to it, in turn.
    """

    steps: int
    tiles: int
    headers: tuple[Header, ...]
    words: tuple[Stored, ...] = ()
    versions: tuple[int, ...] = ()
