"""What blocks that share global memory in block groups reach there (docs/block_groups.md, "Block groups")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.checker.prover.modular.group_positions import multiples
from syncverify.checker.prover.modular.group_strides import Strides
from syncverify.frontends.ptx.decode.effects import Context, Effect, Value
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.decode.parts import spaces
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem
from syncverify.frontends.ptx.values.register_values import INTS, PerLane
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.model.events import Footprint
from syncverify.symbolic.context import AffineTerm, NotConcrete, SymbolicContext

#: What agents hold the number of their block group by, and that of their cluster among all.
BLOCK_GROUP, MEMBER = "%block_group", "%member"


@dataclass(frozen=True, slots=True)
class BlockGroups:
    """``size``: blocks of a block group; ``rows``: which is a row of the grid. ``quiet``: copies and accesses
    whose
    place in global memory is not compared. ``tracked``: those where it is; ``more`` of them, which nobody
    waits for; ``each``: where it is determined by which block of a row a block is. ``written``: where none is
    compared."""

    size: int
    quiet: frozenset[int]
    tracked: frozenset[int]
    more: Mapping[int, Access]
    written: tuple[str, ...]
    rows: bool = False
    each: frozenset[int] = frozenset()


@dataclass(slots=True)
class Places:
    """Where the blocks of a block group reach tracked memory: each place moves with the number of the block
    group by so
    many bytes as lie between the places of two block groups, and all that one reaches there lies between.

    ``base_of``: where the memory starts that an address lies in; ``alone``: there is no other group;
    ``at_launch``: its number at the start; ``number``: the same, as the agent holds it that runs."""

    space: SymbolicContext
    base_of: Callable[[int], int | None]
    alone: bool
    at_launch: Any
    number: Any = 0
    strides: dict[int, int] = field(default_factory=dict)
    member: Any = 0  # the number of the cluster, if that is any one of a block group
    anyone: Strides | None = None
    each: bool = False  # whether the place that is told moves with the cluster

    def note_unit(self, number: Any, each: bool) -> None:
        """Takes note of the number that the next place is determined by: of the block group, or of ``each``
        cluster.
        """
        self.number, self.each = number, each

    def as_numbers(self, values: tuple[Any, ...]) -> tuple[tuple[int, ...], int]:
        """Addresses as numbers, without the part that moves with the block group; and how far that moves
        them.
        """
        plain, number = tuple(map(_term, values)), _term(self.number)
        found, times = self.space.relative_address(plain, number)
        if self.anyone is not None:
            found = tuple([x + self.anyone.ahead(times, self.each) for x in found])
        return found, times

    def keep_within(self, step: int, reached: Footprint) -> None:
        """Raises NotConcrete where another block group may reach the same."""
        low = min(a for a, _ in reached.intervals)
        base = self.base_of(low)
        if base is None:
            raise NotConcrete("block groups access global memory that no pointer is known to lead to")
        if self.anyone is not None:
            self.anyone.keep(base, step, self.each, reached.intervals)
            return
        if self.alone:
            return
        if self.strides.setdefault(base, step) != step:
            raise NotConcrete("block groups access one tensor with several strides")
        if any(a < base or base + step < b for a, b in reached.intervals):
            raise NotConcrete("block groups may access the same global memory")


def address_only(key: tuple[Any, ...]) -> bool:
    """Whether of what decides the event of an access nothing but its place holds sizes, and that the number
    of the block group alone, which comes last: it is determined by that whatever is known of it."""
    _, address, *others, number = key
    if not (isinstance(number, SymbolicWord) and isinstance(number.term, AffineTerm)) or any(
        map(sized, others)
    ):
        return False
    lanes = address.lanes if address.__class__ is PerLane else (address,)
    terms = [x.term for x in lanes if x.__class__ is SymbolicWord]
    alike = multiples((x for x in terms if isinstance(x, AffineTerm)), number.term)
    return alike and all(x.__class__ is SymbolicWord or x.__class__ in INTS for x in lanes)


def sized(value: Any) -> bool:
    """Whether a register holds a size, of which what is told may not hold elsewhere."""
    return isinstance(value, SymbolicWord) or (value.__class__ is PerLane and not value.fixed)


def _term(value: Any) -> Any:
    return getattr(value, "term", value)


# ---------------------------------------------------------------- effects


class _Elsewhere:
    """What an effect sees that need not tell where in global memory it is."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def global_bytes(self, value: Value, size: int, rows: int = 1, pitch: int = 0, element: int = 0) -> int:
        return -1

    def global_box(
        self, tensor_map: Value, coords: Any, writes: bool = False, *, reduces: bool = False
    ) -> int:
        return -1


_NOWHERE = Imm(0)


def without_address(i: Instr, effect: Effect) -> Effect:
    """The effect of a copy without its place in global memory."""

    def emit(ctx: Context, site: int, v: Any) -> Any:
        return effect.emit(_Elsewhere(ctx), site, v)

    operands = list(effect.operands)
    if "tensor" in i.mods:
        n = max((len(o.coords) for o in i.operands if isinstance(o, Mem)), default=0)
        operands[len(operands) - n :] = [_NOWHERE] * n
    else:
        operands[0 if spaces(i.mods)[:1] == ["global"] else 1] = _NOWHERE
    return replace(effect, emit=emit, operands=tuple(operands))


__all__ = ["MEMBER", "BLOCK_GROUP", "Places", "BlockGroups", "address_only", "sized", "without_address"]
