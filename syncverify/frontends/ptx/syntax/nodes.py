"""What a PTX module holds once it is read: scopes resolved, vectors of registers expanded, labels as indices.

Names of registers and variables are unique within a function: those declared in an inner scope are renamed
(PTX ISA, 5.4 and 5.5). Numbers of instructions index ``Function.body``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from syncverify.base.source import Span

_LIBRARY = re.compile(r"(?:^|[/\\])(?:include|site-packages|dist-packages)[/\\]")
#: Operations that C++ has no word for: functions of inline assembly wrap them.
WRAPPED = frozenset(
    {"mbarrier", "wgmma", "cp", "fence", "barrier", "setmaxnreg", "elect", "tensormap", "stmatrix"}
)


@dataclass(frozen=True, slots=True)
class Reg:
    """A register; its type is in ``Function.registers``."""

    name: str


@dataclass(frozen=True, slots=True)
class Selected(Reg):
    """A part of a register, as video instructions name it: ``b0`` to ``b3``, ``h0``, ``h1``."""

    part: str = ""


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as ``%tid.x``; ``name`` has the percent sign and the component."""

    name: str


@dataclass(frozen=True, slots=True)
class Imm:
    """An integer constant, as written (it may be negative or wider than its use)."""

    value: int


@dataclass(frozen=True, slots=True)
class FloatImm:
    """A floating-point constant: its bits in ``width`` (32 or 64) bits."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Sym:
    """The address of a variable, a parameter or a function, plus an offset in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target: the number of the instruction that it stands before; at the very end ``len(body)``."""

    name: str
    target: int


@dataclass(frozen=True, slots=True)
class Mem:
    """``[base + offset]``; with ``coords`` a tensor operand ``[map, {c0, c1, ...}]``."""

    base: Operand
    offset: int = 0
    coords: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """A negated predicate source ``!p``."""

    reg: Reg


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations ``d|p``."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """The destination ``_``."""


#: (file index, line, column) of a ``.loc``; 0 for none.
Loc = tuple[int, int, int]

Operand = Reg | Special | Imm | FloatImm | Sym | Label | Mem | Vector | Not | Pair | Sink


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction.

    ``op``: the text before the first dot, ``mods``: what is between the dots after it, in order (``::``
    stays inside a modifier: ``shared::cluster``). ``line``: in the PTX file. ``loc``: of the ``.loc`` in
    force; ``callers``: where that code was inlined, innermost first; ``inlined_together``: how many of these
    came in one run of ``.loc`` right before. ``guard``/``negated``: the predicate. ``brx.idx`` has its index
    and its table as a ``Sym``. ``call`` has always three operands: Vector of results, callee (a ``Sym`` or a
    register), Vector of arguments; a fourth is a prototype or a table.
    """

    op: str
    mods: tuple[str, ...]
    operands: tuple[Operand, ...]
    line: int
    loc: Loc = (0, 0, 0)
    guard: Reg | None = None
    negated: bool = False
    callers: tuple[Loc, ...] = ()
    inlined_together: int = 0

    @property
    def name(self) -> str:
        return ".".join((self.op, *self.mods))


@dataclass(frozen=True, slots=True)
class InitialAddress:
    """An address among the initial values of a variable: at a byte, of a width; of a variable, plus bytes.

    ``generic``: the generic one, not that of the variable's space; ``byte``: which of its bytes, -1 for all.
    """

    at: int
    width: int
    name: str
    plus: int = 0
    generic: bool = False
    byte: int = -1


@dataclass(frozen=True, slots=True)
class Initial:
    """The initial values of a variable: its bytes, zeros where an address stands; None where not known."""

    data: bytes | None
    addresses: tuple[InitialAddress, ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or parameter.

    ``space``: shared, global, const, local or param; ``size`` in bytes, 0 for an unsized ``extern`` array;
    ``initial``: its initial values if it has any; ``ptr``: the state space that a parameter's ``.ptr`` names
    (``generic`` if none), with ``align`` then the pointee's. Vectors count as their bytes.
    ``source_name``: of a parameter, its name in the CUDA source, empty where that is not known; ``signed``:
    that it is a signed integer there; ``placed``: it is a part of another one, whose place numbers say.
    """

    name: str
    space: str
    type: str
    size: int
    align: int
    extern: bool = False
    initial: Initial | None = None
    ptr: str | None = None
    line: int = 0
    source_name: str = ""
    signed: bool = False
    placed: bool = False

    @property
    def init(self) -> bytes | None:
        """Its initial bytes, where the text gives them and all are numbers."""
        return None if self.initial is None or self.initial.addresses else self.initial.data


@dataclass(frozen=True, slots=True)
class Function:
    """An entry or a device function. Without a body it is a declaration."""

    name: str
    entry: bool
    params: tuple[Variable, ...]
    results: tuple[Variable, ...]
    registers: Mapping[str, str]  # name -> type without its dot: b32, pred, f32x2 ...
    variables: tuple[Variable, ...]  # shared, local, global and const variables and call parameters inside
    body: tuple[Instr, ...]
    labels: Mapping[str, int]
    tables: Mapping[str, tuple[str, ...]]  # .branchtargets and .calltargets
    directives: Mapping[str, tuple[int, ...]]  # reqntid, maxntid, reqnctapercluster, maxnreg ...
    line: int = 0


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX file."""

    path: str
    version: tuple[int, int]
    target: str
    address_size: int
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    files: Mapping[int, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)  # .alias name -> function
    #: places inlined in several others: a later .loc need not say again in which
    shared_code: frozenset[Loc] = frozenset()
    #: places inside functions that only wrap an operation: ``call_chain.wrappers``
    wrappers: frozenset[Loc] = frozenset()
    #: what the source calls the barriers that an ``mbarrier.init`` initializes, by its line of PTX
    barrier_names: Mapping[int, str] = field(default_factory=dict)
    #: what it calls the members that accesses are to, by the line of PTX of each access
    data_names: Mapping[int, str] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[Function, ...]:
        return tuple(f for f in self.functions if f.entry and f.body)

    def span(self, instr: Instr) -> Span:
        """Where an instruction comes from, as its author sees it: ``places``, else its line of PTX."""
        return next(iter(self.places(instr)), Span(self.path, instr.line))

    def places(self, instr: Instr) -> tuple[Span, ...]:
        """The place that an instruction comes from, and where that code is called from.

        First comes the innermost place of its ``.loc``, or of the calls that were inlined there, that lies
        in no library (``include`` and ``site-packages`` folders) and in no wrapper; then the next such place.
        Where all lie in libraries, the kernel itself is a library's: the innermost place, but of what only
        inline assembly can say, the first beyond the file that wraps it; and the first place in each of two
        further files.
        """
        frames = [loc for loc in (instr.loc, *instr.callers) if loc[1] and loc[0] in self.files]
        chain = [Span(self.files[index], line) for index, line, _ in frames]
        doubtful = (
            n for n, loc in enumerate(frames) if n > instr.inlined_together and loc in self.shared_code
        )
        known = next(doubtful, len(frames)) + 1
        own = [n for n, place in enumerate(chain) if _LIBRARY.search(place.file) is None]
        most = 2
        if not own:
            most = 3
            own = list({chain[n].file: n for n in reversed(range(len(chain)))}.values())[::-1]
            own = own[instr.op in WRAPPED and len(own) > 1 :]
        else:
            known_own = [n for n in own if n < known]
            own = [n for n in known_own if frames[n] not in self.wrappers] or known_own or own
        return tuple(chain[n] for i, n in enumerate(own[:most]) if not i or n < known)

    def entry_place(self, entry: Function) -> Span:
        """Where an entry begins: of a CUDA source the first line of its code that is known."""
        if self.path not in self.files.values():
            return Span(self.path, entry.line)
        places = (p for i in entry.body for p in self.places(i) if p.file == self.path)
        return next(places, Span(self.path))

    def wrapped(self, instr: Instr) -> Span | None:
        """The place of an instruction inside its wrapper; None where ``places`` begins there."""
        index, line, _ = instr.loc
        inside = instr.loc in self.wrappers and index in self.files
        place = Span(self.files[index], line) if inside else None
        return None if place in self.places(instr)[:1] else place
