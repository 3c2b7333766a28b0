"""What a kernel releases in global memory, and no part of it acquires.

The flag may be for another kernel. Where it is for blocks of this one, which access without a wait what
others write, nothing orders the two: such accesses are followed in a second attempt, which refutes and never
proves (docs/decisions/words-of-several-blocks.md). Strong accesses, atomics among them, do not race with one
another.

Where nothing is released either, only places made of one pointer and numbers count. A host may rule out the
strides by which others overlap, so that parameters count in launches alone whose sizes all have numbers.

*Example.* ``part[blockIdx.x] = x;`` and, by the first block, ``for (b = 0; b < blocks; ++b) a += part[b];``
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from syncverify.frontends.ptx.analysis.global_memory.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE, Origins
from syncverify.frontends.ptx.analysis.handover.handover_detection import (
    HandOver,
    bulk_copies,
    global_operand,
    through_one_map,
    wide_fence,
)
from syncverify.frontends.ptx.decode.global_access import decode_global, scope_of, semantics, space_of
from syncverify.frontends.ptx.decode.parts import spaces
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Special, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.pure_operations import PURE
from syncverify.model.events import Flag
from syncverify.model.proxies import Scope


def released_unseen(flow: Flow) -> int | None:
    """The line of a release after bulk copies to global memory, where no part of the kernel looks at it."""
    if not any(
        flow.body[k].op == "cp" and spaces(flow.body[k].mods)[:1] == ["global"] for k in _executed(flow)
    ):
        return None
    return next((flow.body[k].line for k in _releases(flow)), None)


def exchanged(
    flow: Flow,
    generic: Mapping[int, bool],
    handing: HandOver | None,
    origins: Origins,
    *,
    sized: bool = False,
) -> HandOver | None:
    """The accesses and copies by which blocks may race, where nothing waits; None where there are none.

    ``generic``: as for ``hand_over``, which found ``handing``. ``sized``: parameters have numbers, so that
    strides say where accesses are.
    """
    if handing is not None and not all(_idle(flow, k) for k in handing.consumers):
        return None
    releases = [k for k in _releases(flow) if scope_of(flow.body[k]) >= Scope.GPU]
    placed = list(_placed(flow, generic, origins))
    if not releases:
        writers = _writers(flow)
        placed = [x for x in placed if _of_numbers(flow, writers, x, sized=sized)]
    both = _contended(placed)
    through_map = None if both or releases else _through_map(flow)
    if not both and through_map is None:
        return None
    plain = (k for k, _, found in placed if found & both and flow.body[k].op != "cp")
    kept = sorted({*releases, *plain})
    first = [*releases, *kept, *(k for k, _, found in placed if found & both), through_map or 0][0]
    accesses = {k: a for k in kept if (a := decode_global(flow.body[k], generic.get(k, False))) is not None}
    return HandOver(accesses, {}, flow.body[first].line, True, released=bool(releases))


#: Accesses, what they do, and the pointers that their places come from.
_Placed = tuple[int, "_Use", frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Use:
    """What an access does. ``strong``: so that no strong access of another block races with it (A3)."""

    what: str
    strong: bool = False

    def races(self, other: _Use) -> bool:
        """Whether such accesses of two threads may be a data race; stores beside stores are left out."""
        apart = self.what != other.what or self.what in ("combines", "copies")
        return apart and not (self.strong and other.strong)


def _contended(placed: list[_Placed]) -> frozenset[str]:
    """The pointers by which blocks may race."""
    uses: dict[str, set[_Use]] = {}
    for _, use, found in placed:
        for name in found:
            uses.setdefault(name, set()).add(use)
    return frozenset(x for x, of in uses.items() if any(a.races(b) for a in of for b in of))


def _placed(flow: Flow, generic: Mapping[int, bool], origins: Origins) -> Iterator[_Placed]:
    for k, use in _uses(flow, generic):
        i = flow.body[k]
        found = origins.of(global_operand(i) if i.op == "cp" and "bulk" in i.mods else _place(i))
        if found and ANYWHERE not in found:
            yield k, use, found


def _of_numbers(flow: Flow, writers: _Writers, placed: _Placed, *, sized: bool) -> bool:
    """Whether the place of an access is made of one pointer and numbers; parameters are, if ``sized``."""
    k, _, found = placed
    at = registers(_place(flow.body[k]))
    return len(found) == 1 and _specials(writers, at, found, sized=sized) is not None


#: What makes numbers of numbers, as far as places in global memory are made so.
_MADE = PURE | {"shfl"}


def _through_map(flow: Flow) -> int | None:
    """A store through a tensor map by which the kernel loads, at a place that the block's number says."""
    k = through_one_map(flow)
    if k is None:
        return None
    at = next(o for o in flow.body[k].operands if isinstance(o, Mem) and o.coords)
    specials = _specials(_writers(flow), [n for x in at.coords for n in registers(x)], frozenset())
    by_block = specials is not None and any(x.startswith(("%ctaid", "%clusterid")) for x in specials)
    return k if by_block else None


#: By register what writes it.
_Writers = Mapping[str, list[Instr]]


def _writers(flow: Flow) -> _Writers:
    found: dict[str, list[Instr]] = {}
    for k in _executed(flow):
        for name in results(flow.body[k]):
            found.setdefault(name, []).append(flow.body[k])
    return found


def _specials(
    writers: _Writers, made_of: Iterable[str], pointer: frozenset[str], *, sized: bool = False
) -> frozenset[str] | None:
    """The special registers that go into a place, beside a pointer; None where a size or data does, too.
    ``sized``: sizes may."""
    found, seen, work = set[str](), set[str](), list(made_of)
    while work:
        name = work.pop()
        if name in seen:
            continue
        seen.add(name)
        for i in writers.get(name, ()):
            if i.op == "ld" and "param" in i.mods and (sized or _parameter(i) in pointer):
                continue
            if i.op not in _MADE:
                return None
            found |= {x.name for x in i.operands if isinstance(x, Special)}
            work += sources(i)
    return frozenset(found)


def _parameter(i: Instr) -> str:
    """What a load of a parameter loads, as origins name it."""
    (place,) = _memory(i)
    return f"{place.base.name}+{place.offset}" if isinstance(place.base, Sym) else ""


def _executed(flow: Flow) -> Iterator[int]:
    for b in sorted(flow.reached):
        if b < flow.end:
            yield from range(flow.blocks[b].lo, flow.blocks[b].hi)


def _releases(flow: Flow) -> list[int]:
    """Writes by which others may know of what was written before."""
    places = list(_executed(flow))
    needed = Flag.STRONG if any(wide_fence(flow.body[k]) for k in places) else Flag.RELEASE
    return [k for k in places if flow.body[k].op in ("st", "red", "atom") and space_of(flow.body[k])
            and semantics(flow.body[k]) & needed]  # fmt: skip


def _idle(flow: Flow, k: int) -> bool:
    """Whether a load brings a value that nothing looks at: it may have come before any write."""
    i = flow.body[k]
    return i.op == "ld" and not any(set(results(i)).intersection(sources(x)) for x in flow.body)


def _uses(flow: Flow, generic: Mapping[int, bool]) -> Iterator[tuple[int, _Use]]:
    """Accesses to global memory, and what they do there."""
    (_, to), (_, from_) = bulk_copies(flow)
    yield from ((k, _Use("adds" if "reduce" in flow.body[k].mods else "copies")) for k in to)
    yield from ((k, _Use("reads")) for k in from_)
    for k in _executed(flow):
        i = flow.body[k]
        found = used_in_global(i)
        elsewhere = space_of(i) == "generic" and k not in generic
        if found is not None and not elsewhere:
            yield k, _Use(found[0], _is_strong(i))


def _is_strong(i: Instr) -> bool:
    """Whether an access is strong, with a scope that reaches other blocks. ``multimem.red`` is relaxed where
    it names nothing, and the scope of ``multimem`` is the system's."""
    if i.op != "multimem":
        return bool(semantics(i)) and scope_of(i) >= Scope.GPU
    reaches = {"cta", "cluster"}.isdisjoint(i.mods)
    return reaches and (i.mods[:1] == ("red",) or bool(semantics(i)))


def _memory(i: Instr) -> list[Mem]:
    return [o for o in i.operands if isinstance(o, Mem)]


def _place(i: Instr) -> Mem:
    if i.op == "cp" and "bulk" in i.mods:
        return _memory(i)[spaces(i.mods)[:1] != ["global"]]
    return _memory(i)[i.op == "cp"]
