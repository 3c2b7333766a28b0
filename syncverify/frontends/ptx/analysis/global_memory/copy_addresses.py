"""Global addresses of bulk copies and of ``cp.async`` whose alignment the text decides.

Both ask for addresses that are multiples of 16, or of what they copy (PTX ISA, cp.async.bulk and cp.async).
An address is judged where it is made of pointer parameters, constants and numbers of threads and blocks
alone: then every launch has it. Where its alignment does not show, and the number of the block is open, it
is unknown. One that sizes or loaded values go into is the caller's to align. It is unknown where one of the
definitions that reach it shows to be off, or where it and an earlier copy's, or another thread's, are not a
multiple apart. One that goes through memory which the kernel writes, and whose alignment does not show, is
nobody's: it is unknown.

Example: two copies of 16 bytes from ``[P]`` and ``[P + 8]`` are never both aligned, whatever ``P`` is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, product

from syncverify.frontends.ptx.analysis.arrays.stored_words import StoredWords
from syncverify.frontends.ptx.analysis.global_memory.copy_trials import Asked, Trials
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import reaches
from syncverify.frontends.ptx.analysis.registers.thread_numbers import ThreadNumbers
from syncverify.frontends.ptx.decode.effects import Context, Effect, Opaque, Value
from syncverify.frontends.ptx.decode.parts import fault
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.isa.addresses import addresses
from syncverify.frontends.ptx.syntax.nodes import (
    Function,
    Imm,
    Instr,
    Mem,
    Operand,
    Reg,
    Special,
    Sym,
    Variable,
    Vector,
)
from syncverify.frontends.ptx.syntax.operands import registers
from syncverify.frontends.ptx.syntax.types import kind, width
from syncverify.frontends.ptx.values.register_values import PerLane
from syncverify.model.events import Event

#: What pointers are aligned to where nothing else is said, in bytes.
DEFAULT = 16
_NUMBERS = ("%tid", "%laneid", "%ntid", "%ctaid", "%cluster")
#: Instructions that an address is followed through. Quotients and bit fields of an
#: open grid are not: states that hold them do not repeat.
_PURE = frozenset(
    "add bfi cvt cvta lop3 mad max min mov mul neg not and or prmt selp shf shl shr sub xor".split()
)


#: By parameter and offset, what the pointer there is a multiple of; others of DEFAULT.
Multiples = Mapping[tuple[str, int], int]
NOTHING_SAID: Multiples = {}


@dataclass(frozen=True, slots=True)
class CopyAddresses:
    """``judged``: the copies whose global address is such a one, with the operand of their effect that it is;
    ``pointers``: parameters, with the offset, of those that are not multiples of 16 by the text."""

    judged: Mapping[int, int] = field(default_factory=dict)
    #: those of them that are aligned by the text
    aligned: frozenset[int] = frozenset()
    pointers: frozenset[tuple[str, int]] = frozenset()
    #: by copy, which operand of its effect is so many bytes past a multiple of what, whatever the launch is
    off: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)
    #: copies whose address goes through memory that the kernel writes and is not shown to be aligned, or is
    #: off by one of the definitions that reach it, where another is loaded, or where another copy's is
    hidden: frozenset[int] = frozenset()


def copy_addresses(
    function: Function, multiples: Multiples = NOTHING_SAID, variables: Sequence[Variable] = ()
) -> CopyAddresses:
    """The copies of a function whose global addresses are judged. ``variables``: those of its module."""
    copies = {k: at for k, i in enumerate(function.body) if (at := _global_operand(i)) is not None}
    if not copies:
        return CopyAddresses()
    flow = Flow(function)
    params = {p.name for p in function.params} if function.entry else set()
    aligned, pointers, hidden = set(), set(), set()
    judged: dict[int, int] = {}
    loaded: dict[int, tuple[int, frozenset[_Sum]]] = {}
    off: dict[int, tuple[int, int, int]] = {}
    words: dict[Hashable, int] = {}
    asked: dict[int, Asked] = {}
    for k, at in copies.items():
        if flow.block_of[k] not in flow.reached:
            continue
        assert isinstance(at.base, Reg)
        start = flow.versions.read(at.base.name, k)
        known = _remainders(start, flow, multiples)
        m, r = _moved(known[start] or (_MOST, 0), at.offset)
        unit = _unit(function.body[k])
        operand = 0 if at is function.body[k].operands[0] else 1
        if m >= unit and r % unit and function.entry:
            off[k] = operand, r % unit, unit
        elif (m < unit or r % unit) and _in_local_memory(k, at.base, flow):
            hidden.add(k)
        made = _pointers(k, at.base, flow, params)
        if made is None and k not in off:
            sums = _Sums(flow, known, unit, words).of(start, at.offset)
            if any(more and not terms for terms, more in sums):
                hidden.add(k)
            loaded[k] = unit, sums
            if m < unit or r % unit:
                asked[k] = Asked(start, at.offset, unit)
        if not made:
            continue
        judged[k] = operand
        if unit > 1 and m >= unit and not r % unit:
            aligned.add(k)
        if m < DEFAULT or r % DEFAULT:
            pointers |= made
    hidden |= _contradicted(loaded, flow)
    threads = ThreadNumbers(flow)
    hidden |= {k for k, (unit, sums) in loaded.items() if _apart_by_number(k, unit, sums, threads)}
    given = {v.name: v for v in (*variables, *function.variables) if v.space in ("const", "global")}
    asked = {k: a for k, a in asked.items() if k not in hidden}
    named = {part.name for i in function.body for op in i.operands for part in _symbols(op)}
    begun = any(given[n].initial is not None for n in named & given.keys())
    stored = StoredWords(flow)
    kept = any(stored.passes_memory(a.version) for a in asked.values())
    if begun or kept or not all(_aligned_by_zeros(a, flow) for a in asked.values()):
        hidden |= Trials(flow, threads, given, stored).unaligned(asked)
    return CopyAddresses(judged, frozenset(aligned), frozenset(pointers), off, frozenset(hidden))


def _global_operand(i: Instr) -> Mem | None:
    """The operand of a copy that is an address in global memory."""
    if "async" not in i.mods or "tensor" in i.mods or "prefetch" in i.mods:
        return None
    places = addresses(i)
    at = next((at for at, space in places[:2] if space == "global"), None) if len(places) > 1 else None
    return at if at is not None and isinstance(at.base, Reg) else None


def _unit(i: Instr) -> int:
    """What a copy's address has to be a multiple of; 1 where its size is not written out."""
    if "bulk" in i.mods:
        return DEFAULT
    size = i.operands[2]
    return size.value if isinstance(size, Imm) and size.value in (4, 8, DEFAULT) else 1


def _pointers(k: int, base: Reg, flow: Flow, params: set[str]) -> set[tuple[str, int]] | None:
    """The pointers that an address of instruction ``k`` is made of; None where something else goes into it.

    Definitions count that reach the copy: what a register held before says nothing of its address.
    """
    pointers: set[tuple[str, int]] = set()
    for v in _versions_of(k, base, flow, _sources):
        made = flow.versions.writer[v]
        if made < 0:
            continue
        i = flow.body[made]
        m = i.operands[1] if len(i.operands) > 1 else None
        if i.op == "ld" and "param" in i.mods and isinstance(m, Mem) and isinstance(m.base, Sym):
            if m.base.name not in params or width(i.mods[-1]) != 64:
                return None
            pointers.add((m.base.name, m.base.offset + m.offset))
        elif i.op not in _PURE or not all(map(_is_plain, _parts(_sources(i)))):
            return None
    return pointers


def _is_plain(op: Operand) -> bool:
    """Whether an operand is a register, a constant, or a number of the thread or the block."""
    return isinstance(op, Reg | Imm) or (isinstance(op, Special) and op.name.startswith(_NUMBERS))


def _parts(ops: Sequence[Operand]) -> list[Operand]:
    return [e for op in ops for e in (op.items if isinstance(op, Vector) else (op,))]


def _in_local_memory(k: int, base: Reg, flow: Flow) -> bool:
    """Whether a part of an address of instruction ``k`` is loaded from local memory."""
    makers = (flow.versions.writer[v] for v in _versions_of(k, base, flow, lambda i: i.operands[1:]))
    return any(flow.body[n].op == "ld" and "local" in flow.body[n].mods for n in makers if n >= 0)


def _versions_of(k: int, base: Reg, flow: Flow, read: Callable[[Instr], Sequence[Operand]]) -> Iterator[int]:
    """The versions that go into an address of instruction ``k``; ``read``: the operands of one that count."""
    first = flow.versions.read(base.name, k)
    return behind(flow, [first], lambda i: [n for op in read(i) for n in _named(op)])


def _sources(i: Instr) -> Sequence[Operand]:
    """The operands that a result is made of; which side ``selp`` takes is not asked."""
    return i.operands[1:3] if i.op == "selp" else i.operands[1:]


#: What is known of a number: its remainder modulo a power of two.
Remainder = tuple[int, int]
_MOST = 1 << 12


#: A sum modulo a copy's unit: versions and their factors, and a number.
_Sum = tuple[tuple[tuple[int, int], ...], int]
#: Sums of one address that are looked at.
_MOST_SUMS = 256
#: Instructions in a row by which the place of a word is named.
_MOST_STEPS = 8
#: Loads that say that others write meanwhile.
_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio"})
#: Terms of one sum that are replaced by what they are made of.
_MOST_TERMS = 512


@dataclass(frozen=True)
class _Sums:
    """The sums that an address may be equal to, modulo a unit, by the definitions that reach it.

    ``words``: by the place of a word, the first version that was loaded from it, of any copy.
    """

    flow: Flow
    known: Mapping[int, Remainder | None]
    unit: int
    words: dict[Hashable, int]

    def of(self, start: int, more: int) -> frozenset[_Sum]:
        seen, work = set[_Sum](), [self._expanded(((start, 1),), more)]
        while work and len(seen) < _MOST_SUMS:
            now = work.pop()
            if now not in seen:
                seen.add(now)
                work += self._alternatives(now)
        return frozenset(seen)

    def _alternatives(self, now: _Sum) -> Iterator[_Sum]:
        """The sums that one is equal to by the paths that lead to a merge, or by a guard or a selection."""
        versions, (terms, more) = self.flow.versions, now
        for v, factor in terms:
            k = versions.writer[v]
            if k < 0:
                merged = {x: dict(versions.merged(x)) for x, _ in terms if self._met_with(x, v)}
                for b, _ in versions.merged(v):
                    yield self._expanded([(merged.get(x, {}).get(b, x), f) for x, f in terms], more)
                continue
            rest = [x for x in terms if x[0] != v]
            i = self.flow.body[k]
            values = [] if i.guard is None else [versions.read(versions.name[v], k)]
            if i.op in ("mov", "cvta", "selp"):
                values += [versions.read(n, k) for op in _sources(i) for n in _named(op)]
            for x in values:
                yield self._expanded([*rest, (x, factor)], more)

    def _met_with(self, x: int, v: int) -> bool:
        versions = self.flow.versions
        return versions.writer[x] < 0 and versions.block[x] == versions.block[v]

    def _expanded(self, terms: Sequence[tuple[int, int]], more: int) -> _Sum:
        """A sum in which no version is known, or a sum or a multiple of others."""
        found: dict[int, int] = {}
        work = list(terms)
        for steps in count():
            if not work:
                break
            v, factor = work.pop()
            x = _product(self.known.get(v) or (1, 0), (_MOST, factor % _MOST))
            if x[0] >= self.unit:
                more += x[1]
                continue
            parts = self._parts(v) if steps < _MOST_TERMS else None
            if parts is None:
                word = self.words.setdefault(_place(v, self.flow) or v, v)
                found[word] = found.get(word, 0) + factor
                continue
            work += [(x, factor * f) for x, f in parts[0]]
            more += factor * parts[1]
        left = ((v, f % self.unit) for v, f in sorted(found.items()))
        return tuple((v, f) for v, f in left if f), more % self.unit

    def _parts(self, v: int) -> tuple[list[tuple[int, int]], int] | None:
        """The versions and factors, and the number, whose sum a version is; None for what is no sum."""
        k = self.flow.versions.writer[v]
        i = self.flow.body[k] if k >= 0 else None
        if i is None or i.guard is not None or isinstance(i.operands[0], Vector):
            return None
        if kind(i.mods[-1] if i.mods else "") not in ("u", "s", "b") or "sat" in i.mods or "hi" in i.mods:
            return None
        match i.op, i.operands[1:]:
            case "mov" | "cvta", [Reg() as a]:
                return self._linear(k, ((a, 1),))
            case "cvt", [Reg() as a] if width(i.mods[-1]) >= 32 and width(i.mods[-2]) >= 32:
                return self._linear(k, ((a, 1),))
            case "add", [a, b]:
                return self._linear(k, ((a, 1), (b, 1)))
            case "sub", [a, b]:
                return self._linear(k, ((a, 1), (b, -1)))
            case "shl", [a, Imm(n)] if 0 <= n < _MOST.bit_length():
                return self._linear(k, ((a, 1 << n),))
            case "mul", [a, Imm(n)]:
                return self._linear(k, ((a, n),))
            case "mad", [a, Imm(n), b]:
                return self._linear(k, ((a, n), (b, 1)))
        return None

    def _linear(
        self, k: int, some: Sequence[tuple[Operand, int]]
    ) -> tuple[list[tuple[int, int]], int] | None:
        if not all(isinstance(op, Reg | Imm) for op, _ in some):
            return None
        read = self.flow.versions.read
        terms = [(read(op.name, k), factor) for op, factor in some if isinstance(op, Reg)]
        return terms, sum(op.value * factor for op, factor in some if isinstance(op, Imm))


def _place(v: int, flow: Flow) -> Hashable:
    """From where a version is loaded, by a plain load of one word; None where it is not."""
    k = flow.versions.writer[v]
    i = flow.body[k] if k >= 0 else None
    if i is None or i.op != "ld" or i.guard is not None or not isinstance(i.operands[0], Reg):
        return None
    m = i.operands[1]
    if not isinstance(m, Mem) or not _STRONG.isdisjoint(i.mods):
        return None
    return i.mods[-1], m.offset, _named_by(m.base, k, flow, _MOST_STEPS)


def _named_by(op: Operand, k: int, flow: Flow, steps: int) -> Hashable:
    """An operand of instruction ``k`` by what it is made of: equal names are of equal values, if the versions
    and words that they are made of are."""
    if not isinstance(op, Reg):
        return op
    v = flow.versions.read(op.name, k)
    at = flow.versions.writer[v]
    i = flow.body[at] if at >= 0 else None
    if i is None or i.guard is not None or not steps or i.operands[0] != op:
        return v
    if i.op == "ld" and "param" in i.mods and isinstance(i.operands[1], Mem):
        m = i.operands[1]
        return (i.mods[-1], m.base, m.offset) if isinstance(m.base, Sym) else v
    if i.op not in _PURE:
        return v
    if i.op in ("mov", "cvta") and len(i.operands) == 2:
        return _named_by(i.operands[1], at, flow, steps - 1)
    return i.op, i.mods, *(_named_by(x, at, flow, steps - 1) for x in i.operands[1:])


def _contradicted(copies: Mapping[int, tuple[int, frozenset[_Sum]]], flow: Flow) -> set[int]:
    """The copies that come after one whose address is aligned only if theirs is not."""
    uses: dict[tuple[tuple[int, int], ...], list[tuple[int, int, int]]] = {}
    for k, (unit, sums) in copies.items():
        for terms, more in sums:
            uses.setdefault(terms, []).append((k, unit, more))
    found: set[int] = set()
    for terms, some in uses.items():
        if len({more for _, _, more in some}) < 2:
            continue
        again = {flow.versions.writer[v] for v, _ in terms}
        found |= {
            second
            for (first, unit, at), (second, other, to) in product(some, some)
            if (at - to) % min(unit, other) and reaches(flow, first, second, again.__contains__)
        }
    return found


def _apart_by_number(k: int, unit: int, sums: frozenset[_Sum], threads: ThreadNumbers) -> bool:
    """Whether a copy's address is aligned in one thread, or block, only if it is not in another one."""
    return any(
        len({sum(x) % unit for x in values}) > 1
        for terms, _ in sums
        for of_block in (False, True)
        for values in _by_number(k, terms, threads, of_block=of_block)
    )


def _by_number(
    k: int, terms: Sequence[tuple[int, int]], threads: ThreadNumbers, *, of_block: bool
) -> Iterator[Iterable[list[int]]]:
    """What numbers of threads, or of blocks, make in an address, by each that executes the copy; if the
    rest is the same for all of them."""
    varying = [(v, f) for v, f in terms if threads.made_of(v, of_block=of_block)]
    first = threads.threads[0]
    open_ = [v for v, _ in varying if threads.value(v, first) is None]
    if open_ and all(map(threads.alone, open_)):
        yield [0], [1]  # what they make is not told
    if open_ or not varying:
        return
    for some in [threads.others(x) for x in threads.threads] if of_block else [threads.threads]:
        yield [[f * (threads.value(v, x) or 0) for v, f in varying] for x in some if threads.comes(k, x)]


def _symbols(op: Operand) -> list[Sym]:
    return [x for x in (op.base if isinstance(op, Mem) else op,) if isinstance(x, Sym)]


def _aligned_by_zeros(a: Asked, flow: Flow) -> bool:
    """Whether a copy's address is aligned where all words that are loaded are multiples of a large number."""
    found = _remainders(a.version, flow, None)[a.version]
    m, r = _moved(found or (1, 0), a.more)
    return m >= a.unit and not r % a.unit


def remainder(flow: Flow, v: int, multiples: Multiples = NOTHING_SAID) -> Remainder | None:
    """What a version is modulo a power of two: the power, and the rest; None where no path writes it."""
    return _remainders(v, flow, multiples)[v]


def _moved(x: Remainder, more: int) -> Remainder:
    return x[0], (x[1] + more) % x[0]


def _remainders(start: int, flow: Flow, multiples: Multiples | None) -> Mapping[int, Remainder | None]:
    """What a version, and those that go into it, are modulo a power of two on every path that gives them a
    value; None where no path does. ``multiples``: None where all words are multiples.

    An address without a value is judged by ``unset_paths.py``.
    """
    found, work = dict[int, list[int]](), [start]
    while work:
        v = work.pop()
        if v not in found:
            found[v] = _made_of(v, flow)
            work += found[v]
    known: dict[int, Remainder | None] = dict.fromkeys(found)
    changed = True
    while changed:
        changed = False
        for v in sorted(found):
            new = _version(v, found[v], known, flow, multiples)
            if new != known[v]:
                known[v], changed = new, True
    return known


def _made_of(v: int, flow: Flow) -> list[int]:
    """The versions that go into one."""
    versions = flow.versions
    k = versions.writer[v]
    if k < 0:
        return [x for _, x in versions.merged(v)]
    i = flow.body[k]
    kept = () if i.guard is None else (versions.name[v],)
    return [versions.read(n, k) for n in (*kept, *(n for op in i.operands[1:] for n in _named(op)))]


def _version(
    v: int, of: Sequence[int], known: Mapping[int, Remainder | None], flow: Flow, multiples: Multiples | None
) -> Remainder | None:
    """What a version is by those that go into it; it only gets less known."""
    versions, new = flow.versions, known[v]
    k = versions.writer[v]
    if k < 0:
        for x in of:
            new = _either(new, known[x])
        return new if of or versions.is_unset(v) else (1, 0)
    i, name = flow.body[k], versions.name[v]
    new = _either(new, _made(i, name, {versions.name[x]: known[x] for x in of}, multiples))
    return new if i.guard is None else _either(new, known[versions.read(name, k)])


def _either(a: Remainder | None, b: Remainder | None) -> Remainder | None:
    """What holds of a number that is one or the other; None: no path is known yet."""
    if a is None or b is None:
        return a or b
    m = min(a[0], b[0])
    apart = (a[1] - b[1]) % m
    m = apart & -apart if apart else m
    return m, a[1] % m


def _made(
    i: Instr, name: str, known: Mapping[str, Remainder | None], multiples: Multiples | None
) -> Remainder | None:
    """What an instruction makes of a register; None while an operand waits for its first path."""
    ops = i.operands[1:]
    if i.op == "mov" and (isinstance(i.operands[0], Vector) or isinstance(ops[0], Vector)):
        return _lowest(i, name, known)
    if i.op == "ld":
        return (_MOST, 0) if multiples is None else _parameter(i, multiples)
    if "sat" in i.mods or kind(i.mods[-1]) not in ("u", "s", "b"):
        return 1, 0
    found: list[Remainder] = []
    for op in ops:
        x = known.get(op.name, (1, 0)) if isinstance(op, Reg) else (1, 0)
        if isinstance(op, Imm):
            x = (_MOST, op.value % _MOST)
        if x is None:
            return None
        found.append(x)
    match i.op:
        case "mov" | "cvt" | "cvta" if width(i.mods[-1]) >= 32:
            return _taken(i, found[0])
        case "add":
            return _sum(found[0], found[1], 1)
        case "sub":
            return _sum(found[0], found[1], -1)
        case "or" | "xor" | "and":
            return _bits(i.op, found[0], found[1])
        case "selp":
            return _either(found[0], found[1])
        case "shl" if isinstance(ops[1], Imm) and ops[1].value >= 0:
            return _product(found[0], (_MOST, (1 << min(ops[1].value, 12)) % _MOST))
        case "mul" if "hi" not in i.mods:
            return _product(found[0], found[1])
        case "mad" if "hi" not in i.mods:
            return _sum(_product(found[0], found[1]), found[2], 1)
    return 1, 0


def _parameter(i: Instr, multiples: Multiples) -> Remainder:
    """What a pointer in a parameter is by what is said of it, and by default."""
    m = i.operands[1]
    if "param" not in i.mods or width(i.mods[-1]) != 64 or not isinstance(m, Mem):
        return 1, 0
    place = (m.base.name, m.base.offset + m.offset) if isinstance(m.base, Sym) else ("", 0)
    return min(multiples.get(place, DEFAULT), _MOST), 0


def _lowest(i: Instr, name: str, known: Mapping[str, Remainder | None]) -> Remainder | None:
    """A word made of parts is what its lowest part is, and the lowest part is what the word is."""
    to, of = i.operands
    if isinstance(to, Vector) and registers(to)[:1] != (name,):
        return 1, 0
    low = of.items[0] if isinstance(of, Vector) else of
    parts = to if isinstance(to, Vector) else of
    bits = width(i.mods[-1]) // (len(parts.items) if isinstance(parts, Vector) else 1)
    x = known.get(low.name, (1, 0)) if isinstance(low, Reg) else (1, 0)
    return None if x is None else (min(x[0], 1 << bits), x[1] % min(x[0], 1 << bits))


def _taken(i: Instr, x: Remainder) -> Remainder:
    """What a move leaves of a number, or a conversion; a float's bits are not the number that it is."""
    if i.op != "cvt":
        return x
    m = min(x[0], 1 << width(i.mods[-2]) if kind(i.mods[-2]) in ("u", "s", "b") else 1)
    return m, x[1] % m


def _sum(a: Remainder, b: Remainder, sign: int) -> Remainder:
    m = min(a[0], b[0])
    return m, (a[1] + sign * b[1]) % m


def _bits(op: str, a: Remainder, b: Remainder) -> Remainder:
    """The low bits of a result are made of those of the operands; known zeros make zeros of ``and``."""
    m = min(a[0], b[0])
    match op:
        case "or":
            return m, (a[1] | b[1]) % m
        case "xor":
            return m, (a[1] ^ b[1]) % m
    wide = max(x & -x if x else n for n, x in (a, b))
    return (m, (a[1] & b[1]) % m) if m >= wide else (wide, 0)


def _product(a: Remainder, b: Remainder) -> Remainder:
    """``(m x + r) (n y + s)``: all but ``r s`` is a multiple of ``m n``, ``m s`` and ``n r``."""
    (m, r), (n, s) = a, b
    found = min(x & -x for x in (m * n, m * s, n * r, _MOST) if x)
    return found, r * s % found


def _named(op: Operand) -> tuple[str, ...]:
    return registers(op) if isinstance(op, Reg | Vector) else ()


def misplaced(effect: Effect, at: int, off: int, unit: int) -> Effect:
    """A copy whose address, operand ``at`` of its effect, is so many bytes past a multiple of ``unit``."""

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        found = effect.emit(ctx, site, v)
        numbers = v[at].lanes if isinstance(v[at], PerLane) else (v[at],)
        if all(isinstance(x, int) and x for x in numbers):
            return found  # judged as a number; an address that is not followed is zero
        text = f"the address in global memory is {off} bytes past a multiple of {unit}"
        return [fault(site, "SV701", text), *found]

    return replace(effect, emit=emit)


def numbered(effect: Effect, at: int) -> Effect:
    """A copy whose alignment does not show: unknown where its address, operand ``at``, is no number."""

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        numbers = [v[at].lanes[n] for n in ctx.lanes] if isinstance(v[at], PerLane) else [v[at]]
        if not all(isinstance(x, int) for x in numbers):
            what = "whether the address in global memory is aligned"
            ctx.each(v[at], what)  # says what decides, where the value tells
            raise Opaque(f"{what} depends on the number of the block")
        return effect.emit(ctx, site, v)

    return replace(effect, emit=emit)


def hidden(effect: Effect) -> Effect:
    """A copy of which it is not known whether its address is aligned."""

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        why = "depends on words that are stored, on which definition reaches it, or on another copy or thread"
        raise Opaque(f"whether the address in global memory is aligned {why}")

    return replace(effect, emit=emit)


__all__ = [
    "NOTHING_SAID",
    "CopyAddresses",
    "Multiples",
    "copy_addresses",
    "hidden",
    "misplaced",
    "numbered",
    "remainder",
]
