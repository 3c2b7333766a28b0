"""Which launches a kernel is taken to be meant for, where its launch file leaves the grid open.

One meaning serves proofs, refutations by numbers, executions and the report
(docs/decisions/grids-that-are-meant.md):

    an axis that the text asks about       any number of blocks
    any other axis                         as many blocks as a cluster has there: more would do the same again
    harm in a few of these launches        refutes a text that asks how many blocks there are
    harm in each of those                  refutes any other text, which may be meant for one number of blocks

Example: ``part[blockIdx.x] = sum`` and ``if (atomicAdd(&done, 1) == gridDim.x - 1)`` are meant for grids of
one row. With two rows each block would share its place with another one. With
``blockIdx.y * gridDim.x + blockIdx.x`` as its place, a kernel is meant for rows, too, and the same count is
too low.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from syncverify.base.source import InputError
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.small_sizes import some_sizes
from syncverify.frontends.ptx.syntax.nodes import FloatImm, Function, Imm, Instr, Operand, Reg, Special
from syncverify.frontends.ptx.syntax.operands import computed_from, results, sources
from syncverify.frontends.ptx.syntax.types import kind
from syncverify.ir.expr import Var

_AXES = "xyz"
_PLACES, _EXTENTS = ("%ctaid", "%clusterid"), ("%nctaid", "%nclusterid")
#: What adds numbers of a block up that are compared with 0: whether it is the first of all.
_SUMS = frozenset({"or", "add", "sub", "neg"})
_COPIES = frozenset({"mov", "cvt"})
#: What makes the number of a block of its places and of extents, and the number of all blocks of extents.
_NUMBERS = frozenset({"mul", "mad", "add"})
#: Clusters along the axes that are asked about: along one of them, and along all.
_TWO, _MORE = 2, 5
#: The first of them and two others.
_THREE = 3
#: What makes a constant that counts are compared with.
_NEAR = frozenset({"mov", "add", "sub"})
#: What leaves a count what it is, but for constants that are added; what makes no other number of it.
_PLAIN = _NEAR | {"cvt", "shfl"}
_NO_MAKERS = frozenset({"setp", "ld", "ldu", "atom", "st", "red", "bra"})
_CONSTANTS = (Imm, FloatImm)
_ELSEWHERE = frozenset({"global", "local", "const", "param"})
#: Numbers of blocks that the text may name: how many of them, how large.
_MOST_NAMED, _LARGEST_NAMED = 6, 60
#: How an assumption on axes ends that the text does not ask about.
_UNASKED = ": the kernel asks for no place of a block along there"


def asks_extents(function: Function) -> bool:
    """Whether a text asks how many blocks there are, but for a block's number ``y * nx + x``."""
    places, extents = _Held(_PLACES), _Held(_EXTENTS)
    for i in function.body:
        if i.op in _COPIES:
            places.follow(i)
            extents.follow(i)
        elif i.op in _NUMBERS and all(places.holds(o) or extents.holds(o) for o in i.operands[1:]):
            (places if places.in_some(i) else extents).take(i)
        elif extents.in_some(i):
            return True
    return False


def asks_places(function: Function) -> bool:
    """Whether a text asks about some axis: then any number of blocks is meant along it."""
    return any(_asks(function, axis) for axis in _AXES)


def with_others(facts: PtxFacts, function: Function) -> PtxFacts | None:
    """The facts with three clusters along open axes of which a text reads the place, and one along others;
    None where it reads none. A text that only asks which block is the first has others in mind, and two of
    them may do the same."""
    sizes = dict(zip(_AXES, facts.cluster or (1, 1, 1), strict=True))
    read = {a for a in _AXES for i in function.body if any(_is(o, _PLACES, a) for o in i.operands)}
    found = facts if read else None
    for axis in _AXES:
        if found is None or f"grid.{axis}" not in _open(facts):
            continue
        try:
            found = found.bind({f"grid.{axis}": sizes[axis] * (_THREE if axis in read else 1)})
        except InputError:
            found = None
    return found


def meant_axes(function: Function) -> tuple[str, ...]:
    """The axes along which a text asks where a block is, or how many there are; ``x`` if there are none."""
    return tuple(a for a in _AXES if _asks(function, a)) or ("x",)


def along_meant_axes(facts: PtxFacts, function: Function) -> PtxFacts:
    """The facts with one cluster along the open axes that the text does not ask about. An axis of which the
    launch file says something is left open."""
    found = facts
    for axis in _unasked(facts, function):
        least = (facts.cluster or (1, 1, 1))[_AXES.index(axis)]
        try:
            found = found.bind({f"grid.{axis}": least})
        except InputError:
            continue
    return found


def of_meant_axes(facts: PtxFacts, function: Function) -> list[str]:
    """That there is one cluster along the axes that the text does not ask about, if a verdict rests on it."""
    bound = along_meant_axes(facts, function)
    extents = [
        f"grid.{a} = {e}"
        for a, e, was in zip(_AXES, bound.grid, facts.grid, strict=True)
        if e != was and isinstance(e, int)
    ]
    if not extents:
        return []
    return [f"{' and '.join(extents)}{_UNASKED}"]


def is_of_meant_axes(assumption: str) -> bool:
    """Whether an assumption is that of ``of_meant_axes``."""
    return assumption.endswith(_UNASKED)


def asked_launches(facts: PtxFacts, function: Function, pointers: Collection[str] = ()) -> Iterator[PtxFacts]:
    """The launch; of an open grid a few of two clusters or more, along the axes that the text asks about.
    ``pointers``: open parameters that get no number."""
    if not facts.symbols() and all(isinstance(e, int) for e in facts.grid):
        yield facts
        return
    meant = along_meant_axes(facts, function)
    axes = [a for a in meant_axes(function) if f"grid.{a}" in _open(meant)]
    if not axes:
        yield from some_sizes(meant, pointers)
        yield from _of_named_sizes(meant, function, pointers)
        return
    shapes = [{axes[0]: _TWO}, dict.fromkeys(axes, _TWO), *({a: _TWO} for a in axes[1:]), {axes[0]: _MORE}]
    if not asks_extents(function):
        shapes += [{axes[0]: n} for n in _named(function)]
    found = False
    for n, shape in enumerate(shapes):
        for one in () if shape in shapes[:n] else _of_shape(meant, axes, shape):
            found = True
            yield from islice(some_sizes(one, pointers), 1 if n else None)
    if not found:
        yield from some_sizes(meant, pointers)


def _of_named_sizes(facts: PtxFacts, function: Function, pointers: Collection[str]) -> Iterator[PtxFacts]:
    """The facts with as many blocks as the text may be meant for, where the launch file names the number."""
    counts = [_MORE] if asks_extents(function) else [_MORE, *_named(function)]
    for name in dict.fromkeys(e.name for e in facts.grid if isinstance(e, Var)):
        for n in counts:
            try:
                one = facts.bind({name: n})
            except InputError:
                continue
            yield from islice(some_sizes(one, pointers), 1)


def _of_shape(facts: PtxFacts, axes: Sequence[str], shape: Mapping[str, int]) -> Iterator[PtxFacts]:
    """The facts with so many clusters along some axes, and with one along the others; none where they do not
    allow it."""
    sizes = dict(zip(_AXES, facts.cluster or (1, 1, 1), strict=True))
    try:
        yield facts.bind({f"grid.{a}": shape.get(a, 1) * sizes[a] for a in axes})
    except InputError:
        return


def unasked_counts(function: Function) -> list[int]:
    """Constants that a text compares counts with, where no number of blocks around them is asked: there are
    too many, or they are too large. A text that asks how many blocks there are is asked of any number."""
    if asks_extents(function):
        return []
    asked = {1, _TWO, _MORE, *_named(function)}
    return sorted(n for n in _compared(function) if n > 1 and asked.isdisjoint((n, n + 1)))


def asks_otherwise(function: Function) -> bool:
    """Whether a text that does not ask how many blocks there are compares what it makes of a count, other
    than by constants that it adds: for how many blocks it is meant is not read there then.

    Example: ``if ((atomicAdd(&done, 1) ^ 62) == 0) sum the parts;``.
    """
    if asks_extents(function):
        return False
    body = function.body
    counts = {r for i in body if i.op == "atom" and "global" in i.mods for r in results(i)}
    plain, made = _carried(counts, body, _PLAIN), _carried(counts, body, None)
    constants = {
        r for i in body if i.op == "mov" and isinstance(i.operands[1], _CONSTANTS) for r in results(i)
    }
    asking = (i for i in body if i.op == "setp" and not (made - plain).isdisjoint(sources(i)))
    return any(
        isinstance(op, _CONSTANTS) or (isinstance(op, Reg) and op.name in constants)
        for i in asking
        for op in i.operands[1:3]
    )


def _carried(counts: Collection[str], body: Sequence[Instr], by: Collection[str] | None) -> set[str]:
    """The registers that hold counts, or what some instructions make of them (None: all but comparisons);
    shared memory hands them on."""
    found, grown = set(counts), True
    while grown:
        before = len(found)
        handed = any(_hands_on(i) and not found.isdisjoint(sources(i)) for i in body)
        for i in body:
            takes = i.op not in _NO_MAKERS if by is None else i.op in by and not _of_floats(i)
            if (takes and not found.isdisjoint(sources(i))) or (handed and _takes_on(i)):
                found.update(results(i))
        grown = len(found) > before
    return found


def _of_floats(i: Instr) -> bool:
    return any(kind(m) not in ("u", "s", "b") for m in i.mods[-2:] if m[-1:].isdigit())


def _hands_on(i: Instr) -> bool:
    return i.op == "st" and "global" not in i.mods and "local" not in i.mods


def _takes_on(i: Instr) -> bool:
    """Whether an instruction loads integers from where blocks hand counts on."""
    return i.op == "ld" and _ELSEWHERE.isdisjoint(i.mods) and i.mods[-1][:1] in "usb"


def _named(function: Function) -> list[int]:
    """Numbers of blocks around those that a text may be meant for: constants that it compares counts in
    global memory with, and one and two more, for ``count == 3`` is asked by the last of four blocks."""
    constants = _compared(function)
    found = {n + more for n in constants if 1 < n <= _LARGEST_NAMED for more in (0, 1, 2)}
    return sorted(found - {_TWO, _MORE})[:_MOST_NAMED]


def _compared(function: Function) -> set[int]:
    """The constants that a text compares counts in global memory with."""
    brought = {r for i in function.body if i.op in ("atom", "ld") and "global" in i.mods for r in results(i)}
    counted = {r for i in function.body if i.op == "atom" and "global" in i.mods for r in results(i)}
    brought |= _carried(counted, function.body, _PLAIN)
    counts = computed_from(brought, function.body)
    asking = [i for i in function.body if i.op == "setp" and not counts.isdisjoint(sources(i))]
    others = {r for i in asking for r in sources(i)} - counts
    made, grows = list[Instr](), True
    while grows:
        more = [i for i in function.body if i.op in _NEAR and not others.isdisjoint(results(i))]
        grows, made = len(more) > len(made), more
        others |= {r for i in made for r in sources(i)} - counts
    return {o.value for i in (*asking, *made) for o in i.operands if isinstance(o, Imm)}


def _open(facts: PtxFacts) -> frozenset[str]:
    """The extents of the grid that nothing gives."""
    return frozenset(e.name for e in facts.grid if isinstance(e, Var) and e.name.startswith("grid."))


def _unasked(facts: PtxFacts, function: Function) -> list[str]:
    open_, meant = _open(facts), meant_axes(function)
    return [a for a in _AXES if f"grid.{a}" in open_ and a not in meant]


def _is(o: Operand, bases: Collection[str], axis: str = "") -> bool:
    if not isinstance(o, Special):
        return False
    base, _, at = o.name.partition(".")
    return base in bases and (not axis or at == axis)


def _asks(function: Function, axis: str) -> bool:
    """Whether a text does more with an axis than to ask which block is the first of all, as ``x + y + z``
    beside 0, and for the number of all, as ``nx * ny * nz``."""
    here, first = _Held(_PLACES, axis), _Held((*_PLACES, "%tid"))
    across, whole = _Held(_EXTENTS, axis), _Held(_EXTENTS)
    for i in function.body:
        asked, counted = here.in_some(i), across.in_some(i)
        if i.op in _COPIES:
            for held in (here, first, across, whole):
                held.follow(i)
            continue
        sums = i.op in _SUMS and first.in_all(i)
        products = i.op == "mul" and whole.in_all(i)
        if sums:
            first.take(i)
        if products:
            whole.take(i)
        compares = i.op == "setp" and i.mods[:1] in (("eq",), ("ne",)) and first.in_all(i)
        if asked and not sums and not compares:
            return True
        if counted and not products:
            return True
        if asked and sums:
            here.take(i)
    return False


class _Held:
    """The registers that hold some special registers, or what is made of them alone."""

    def __init__(self, bases: Collection[str], axis: str = "") -> None:
        self.bases, self.axis, self.registers = bases, axis, set[str]()

    def holds(self, o: Operand) -> bool:
        return _is(o, self.bases, self.axis) or (isinstance(o, Reg) and o.name in self.registers)

    def in_some(self, i: Instr) -> bool:
        """Whether an instruction reads one of them."""
        return any(map(self.holds, i.operands[1:]))

    def in_all(self, i: Instr) -> bool:
        """Whether it reads nothing else, but for 0."""
        return all(self.holds(o) or o == Imm(0) for o in i.operands[1:])

    def follow(self, i: Instr) -> None:
        if self.in_some(i):
            self.take(i)

    def take(self, i: Instr) -> None:
        self.registers.update(results(i))


__all__ = [
    "along_meant_axes",
    "asked_launches",
    "asks_extents",
    "asks_otherwise",
    "asks_places",
    "is_of_meant_axes",
    "meant_axes",
    "of_meant_axes",
    "unasked_counts",
    "with_others",
]
