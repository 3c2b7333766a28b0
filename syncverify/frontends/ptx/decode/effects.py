"""How an instruction that synchronizes, copies or touches shared memory becomes events.

``decode`` (in ``effect_*.py``) turns an instruction into an ``Effect`` once, when the function is compiled.
Each time a class of lanes executes it, its ``operands`` are evaluated and ``emit`` gives the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from syncverify.frontends.ptx.syntax.nodes import Operand
from syncverify.ir.footprints import Range
from syncverify.model.events import Event, Footprint, Undefined

#: What a register holds: an int (the unsigned bits; all lanes alike), a Vec (one value per lane), a size
#: without a number (``model.symbols``), or an Unknown.
Value = Any
#: Byte offset of a CTA's first shared variable, as on the hardware: what lies before is the system's.
SHARED_BASE = 1024


class Opaque(Exception):  # noqa: N818 -- becomes an UNKNOWN event
    """The instruction needs a number where there is none; the text says which and why. ``unwritten``: because
    no instruction has written the register."""

    def __init__(self, text: str, unwritten: bool = False) -> None:
        super().__init__(text)
        self.reason = text
        self.unwritten = unwritten
        self.address = False  # of shared memory


class Beyond(Undefined):
    """The reason of an UNKNOWN at an access behind the most that a block's shared memory can have, where
    nobody says how many bytes the dynamic part has: no launch with these sizes holds what is accessed."""

    __slots__ = ()


class Context(Protocol):
    """What ``emit`` sees of the class of lanes that executes."""

    cta: int  # rank in the cluster
    ctas: int  # of the cluster
    warp: int
    lanes: tuple[int, ...]  # of the class, ascending
    warp_lanes: int  # mask of the lanes that the warp has at all
    shared_start: int  # byte offset of the first shared variable that the kernel names
    shared_end: int  # byte offset at which the CTA's shared memory ends
    #: where nobody says how many bytes of dynamic shared memory it has, and sizes may lead behind the most:
    #: by site, CTA and warp, the lanes whose accesses were seen inside; else None
    grows: dict[tuple[int, int, int], int] | None
    arrays: Sequence[tuple[int, int, str]]  # shared variables: first byte, end and name
    #: static ones, with the alignment that is declared: no more is known of where they are placed
    declared: Sequence[tuple[int, int, str, int]]
    spaced: bool  # they are laid out with room between them, where nothing lies
    crowded: bool  # they are too many for that, though some address may be in several
    local_end: int  # byte offset at which a thread's local memory ends
    footprints: Sequence[Footprint]  # by number

    def number(self, value: Value, what: str) -> int:
        """The number that all lanes hold. Lanes that differ split the class; no number raises Opaque."""

    def each(self, value: Value, what: str) -> tuple[int, ...]:
        """The number that each lane of the class holds; Opaque where one has none."""

    def shared(self, address: int, space: str, what: str) -> tuple[int, int]:
        """(CTA, byte offset) of an address in space ``shared`` (``shared::cta`` and ``shared::cluster``
        alike) or ``generic``; Opaque where it lies in another window."""

    def barrier(self, cta: int, offset: int) -> int:
        """The number of the mbarrier object at that place."""

    def anywhere(self, site: int, address: Value, why: str, bits: int) -> Range | None:
        """Data says where in shared memory an access of ``bits`` bits goes: all bytes that it may reach, on
        which nothing but a proof may rest. None where such accesses are left out. Opaque with ``why`` where
        it may go elsewhere, or contents of shared memory steer."""

    def apart(self, site: int) -> int:
        """By how many bytes the places of lanes of one access differ at least, wherever data says that they
        are; 0: not known."""

    def kept(self, site: int, which: int = 0) -> tuple[int, int, str] | None:
        """The array that an access must not leave: its first byte, its end and its name. ``which``: of the
        addresses of the instruction, in the order of the text."""

    def slot(self, site: int, why: str, size: int) -> tuple[Range | None, int] | None:
        """The bytes that an access of ``size`` bytes may reach at slots that atomics hand out (None where
        such accesses are left out), and ``Footprint.slots``. Only a proof may rest on that. None: it has no
        slot."""

    def slot_group(self, site: int) -> int:
        """``Footprint.slots`` of a store whose place has a number in these lanes; 0: it has no slot."""

    def group(self, site: int) -> int:
        """The group of an access of which no two race (``Footprint.slots``); 0: it is in none."""

    def only_groups(self) -> bool:
        """Whether all accesses to shared memory are in groups, so that their places say nothing more."""

    def in_its_array(self, site: int) -> bool:
        """Whether an access that lies inside shared memory, or ``kept``, lies in its group's array."""

    def strided(self, site: int, address: Value, why: str, size: int) -> Sequence[Range] | None:
        """Where each lane's access of ``size`` bytes may go in dynamic shared memory whose bytes nobody gave:
        each multiple of a step away from a place of its own. Only a proof may rest on that. Empty where such
        accesses are left out; None where less is known."""

    def variable(self, name: str) -> int:
        """Where a variable outside of shared memory begins in its state space."""

    def part(self, active: Value) -> Context | None:
        """The lanes of the class for which a guard holds."""

    def footprint(self, fp: Footprint) -> int:
        """The number of a footprint."""

    def one_value(self, site: int, lanes: Iterable[int]) -> bool:
        """Whether data flow shows that lanes of the warp store one value there."""

    def vary(self, names: Iterable[str], site: int) -> int:
        """What some registers vary with where the block of an instruction reads them, taken together: see
        ``analysis.registers.uniformity``."""

    def differs(self, names: Iterable[str], since: int | None = None) -> bool:
        """Whether lanes of a warp may hold different values of some register; ``since``: of those that came
        together to that instruction."""

    def global_bytes(self, value: Value, size: int, rows: int = 1, pitch: int = 0, element: int = 0) -> int:
        """The number of the footprint of ``size`` bytes at each lane's global address, and of so many rows
        of them; -1 where global memory is not tracked. ``element``: ``Footprint.element``."""

    def flag(self, value: Value, size: int) -> int:
        """The same for a flag of ``size`` bytes, one for all lanes; Opaque if it is not in global memory."""

    def lock(self, address: int, size: int, *, free: bool) -> int:
        """How many hold the lock of ``size`` bytes there before this block, which takes it or lets it go
        (``free``)."""

    def try_lock(self, address: int, size: int) -> int | None:
        """The same for a block that tries the lock once; None: it is not free then."""

    def shared_lock(self, offset: int, size: int, site: int) -> int:
        """How many turns come before the one that takes a lock of ``size`` bytes in shared memory there."""

    def shared_turn(self, offset: int, size: int, k: int, amount: int | None, most: int | None) -> int | None:
        """The same of one that an atomic tries, None if it is held; or the number that a counter brings, None
        if it is not the last. ``k``: the instruction; ``amount``, ``most``: ``SharedTurn``."""

    def shared_asked(self, offset: int, numbers: Sequence[int]) -> None:
        """What such a counter brings is compared with some numbers alone."""

    def shared_free(self, offset: int, site: int, *, alone: bool) -> int | None:
        """How many turns have come once the class lets a lock in shared memory go; None if it has not taken
        it, or is not one lane (``alone``)."""

    def shared_stored(self, cta: int, offset: int, value: int) -> None:
        """The class stores a number where a lock or a counter may be."""

    def is_shared_lock(self, cta: int, offset: int) -> bool:
        """Whether turns are counted at a word of shared memory: nobody finds another number there free."""

    def shared_word(self, cta: int, offset: int, size: int) -> None:
        """The class accesses bytes of shared memory that may be a lock's, and takes none and lets none go."""

    def shared_poll(self, cta: int, offset: int, size: int, *, polls: bool) -> None:
        """The class waits for bytes of shared memory (``polls``), or writes them strongly by what is no
        signal: Opaque where both is done."""

    def wrote(self, addresses: Iterable[int], size: int) -> None:
        """Lanes write so many bytes of global memory at some addresses, by what lets no lock go."""

    def addresses(self, value: Value) -> tuple[int, ...] | None:
        """Each lane's global address; None where it is not known and the access goes without a footprint,
        on which no proof may rest. Opaque where blocks wait for each other."""

    def global_box(
        self, tensor_map: Value, coords: Sequence[Value], writes: bool = False, *, reduces: bool = False
    ) -> int:
        """The number of the footprint of a tensor map's box in global memory; -1 where it is not tracked.
        ``reduces``: each of its elements is changed by itself."""

    def read_handle(self) -> int:
        """The ``reg`` of the READ that this instruction's ``unknown`` destinations come from (-1: dead)."""

    def tensor_map(self, value: Value) -> MapFacts:
        """What is known of the tensor map that an address names."""

    def publish_map(self, value: Value, facts: MapFacts | None) -> None:
        """The kernel publishes a tensor map at that address, of which it has made what the facts say."""

    def define_map(self, value: Value, facts: MapFacts) -> None:
        """The kernel itself writes a tensor map with these facts to that address."""

    def map_index(self, value: Value) -> int:
        """The number of a tensor map (``System.maps``) at that address."""

    def fragment(self, name: str) -> int:
        """The number of a group of registers (``System.fragments``)."""


@dataclass(frozen=True, slots=True)
class MapFacts:
    """A tensor map: box in elements (innermost first), element bytes, swizzle in bytes (0: none).
    ``bytes`` of a whole box; None where not known. ``rank``: dimensions, where the kernel sets them.
    ``unfit``: why no copy may use what the kernel has made of it, empty if nothing is wrong. ``partly``: the
    kernel sets some of what says how large the box is, and not all of it."""

    name: str
    box: tuple[int, ...] | None
    element: int | None
    swizzle: int
    bytes: int | None
    rank: int | None = None
    unfit: str = ""
    partly: bool = False

    @property
    def dimensions(self) -> int | None:
        """How many dimensions the tensor has, if that is known."""
        return len(self.box) if self.rank is None and self.box is not None else self.rank


Emit = Callable[[Context, int, Sequence[Value]], Sequence[Event]]


@dataclass(frozen=True, slots=True)
class Effect:
    """One instruction's events.

    ``operands``: what is evaluated, in this order (a Mem gives its address). ``answer``: the destination
    that takes the answer of the *last* event (poll, token), if any. ``unknown``: destinations that hold data.
    """

    emit: Emit
    operands: tuple[Operand, ...] = ()
    answer: Operand | None = None
    unknown: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An instruction that may matter and is not understood: reaching it is ``unknown``."""

    reason: str
