"""Lanes that matter to each other: what ``shfl`` and ``vote`` take from others, and who may be elected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from syncverify.frontends.ptx.analysis.registers.uniformity import LANES as LANE_BITS
from syncverify.frontends.ptx.analysis.registers.uniformity import MOST_BLOCKS, Uniformity
from syncverify.frontends.ptx.analysis.slicing.slice import Slice, slice_of
from syncverify.frontends.ptx.decode.effects import Effect, Unsupported
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import reads, writes
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Special
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.values.register_values import WARP
from syncverify.model.events import ThreadClass

ACROSS = frozenset({"shfl", "vote", "redux", "match"})
#: What instructions with events are decoded as.
Decoded = Effect | Unsupported | Access
#: Special registers that differ between the lanes of a warp.
LANES = ("%tid", "%laneid", "%lanemask")


def crossing(flow: Flow, whole: Slice) -> Slice:
    """What values that lanes take from other lanes depend on: registers, branches that decide them, and those
    that decide which lanes come there."""
    roots = {}
    for k in whole.pure:
        i = flow.body[k]
        if i.op in ACROSS:
            roots[k] = Effect(lambda ctx, site, v: (), i.operands[1:])
    if not roots:
        return Slice(frozenset(), frozenset(), frozenset(), frozenset())
    found = slice_of(flow, roots, control=False)
    deciding = {
        flow.blocks[b].hi - 1 for b in _deciding(flow.controllers(), (flow.block_of[k] for k in roots))
    }
    return replace(found, branches=found.branches | (deciding & whole.branches))


def _deciding(controllers: Sequence[set[int]], blocks: Iterable[int]) -> set[int]:
    """The blocks whose branches decide whether some blocks are executed, and those that decide about them."""
    found, work = set[int](), list(blocks)
    while work:
        new = controllers[work.pop()] - found
        found |= new
        work += new
    return found


#: The largest block of one row, and the numbers of threads in others.
_ONE_ROW = (1024, 1, 1)
_ROWS = ("%tid", "%tid.y", "%tid.z")


@dataclass(frozen=True, slots=True)
class Elections:
    """``any``: some instruction elects; ``named``: guards distinguish lanes; ``nested``: so do guards that
    only an elected lane comes to; ``groups_by_number``: a lane that its number names waits for bulk groups,
    and an elected one commits some. ``apart``: registers that place what lanes do, by instruction, and that
    may differ from lane to lane; ``alone``: of these instructions those that only elected lanes come to, or
    that ask who is elected; ``announced``: all lanes learn who is, and something depends on it."""

    any: bool
    named: bool
    nested: bool
    groups_by_number: bool = False
    apart: Mapping[int, frozenset[str]] = field(default_factory=dict)
    alone: frozenset[int] = frozenset()
    announced: bool = False

    @property
    def matter(self) -> bool:
        """Whether it may make a difference which lane is elected."""
        return self.named or self.announced or bool(self.apart)


def elections(flow: Flow, whole: Slice, decided: Mapping[int, Decoded]) -> Elections:
    """What the function says about the choice of elected lanes. ``decided``: instructions with events."""
    body = flow.body
    if not any(body[k].op == "elect" for b in flow.reached for k in _span(flow, b)):
        return Elections(False, False, False)
    elected = _tainted(flow, whole, lambda i: results(i) if i.op == "elect" else ())
    numbered = _numbered(flow, whole)
    varying = _tainted(flow, whole, lambda i: {*_of_lanes(flow, i), *numbered.intersection(results(i))})
    controllers = flow.controllers()
    named = nested = False
    for k in {*whole.branches, *decided}:
        guard = body[k].guard
        if guard is None or guard.name not in varying:
            continue
        named = True
        nested |= guard.name in numbered and _under(flow, controllers, flow.block_of[k], elected)

    def decided_by(k: int, by: set[str]) -> bool:
        guard = body[k].guard
        return (guard is not None and guard.name in by) or _under(flow, controllers, flow.block_of[k], by)

    waits = [k for k in decided if _of_bulk_groups(body[k], "wait_group") and not decided_by(k, elected)]
    commits = [k for k in decided if _of_bulk_groups(body[k], "commit_group")]
    by_number = any(decided_by(k, varying) for k in waits) and _some_lanes(flow, waits)
    asked = {k: frozenset(_asked(body[k], d, whole)) for k, d in decided.items()}
    apart = {k: names & varying for k, names in asked.items() if names & varying}
    alone = {k for k in apart if asked[k] & elected or decided_by(k, elected)}
    numbers = _numbers(flow, whole, elected)
    guards = {guard.name for k in {*whole.branches, *decided} if (guard := body[k].guard) is not None}
    return Elections(
        True,
        named,
        nested,
        by_number and any(decided_by(k, elected) for k in commits),
        apart,
        frozenset(alone),
        not numbers.isdisjoint(guards.union(*asked.values())),
    )


def _asked(i: Instr, decoded: Decoded, whole: Slice) -> Iterable[str]:
    """The registers that place what an instruction does; what it stores, too, where that steers."""
    if isinstance(decoded, Unsupported) or (
        i.op != "elect" and whole.spaces and not isinstance(decoded, Effect)
    ):
        return sources(i)
    if isinstance(decoded, Effect):
        return [] if i.op == "elect" else [r for op in decoded.operands for r in registers(op)]
    return registers(decoded.address)


def _numbers(flow: Flow, whole: Slice, elected: set[str]) -> set[str]:
    """Registers that tell all lanes who is elected: its number, or what lanes hand on of their predicates."""
    found: set[str] = set()
    changed = True
    while changed:
        changed = False
        for k in whole.pure:
            i = flow.body[k]
            passes_on = i.op in ACROSS and not elected.isdisjoint(sources(i))
            number = [x for x in results(i)[:1] if flow.function.registers.get(x) != "pred"]
            comes = passes_on or not found.isdisjoint((*sources(i), *_left_for(i)))
            new = number if i.op == "elect" else [*results(i), *_leaves(i)] if comes else ()
            if not found.issuperset(new):
                found.update(new)
                changed = True
    return found


def _some_lanes(flow: Flow, instructions: Iterable[int]) -> bool:
    """Whether a warp may come to one of some instructions with a part of its lanes alone: the lane that it
    elected is not among them then. Where all come, as behind ``tid / 32 == 0``, it is."""
    uniformity = Uniformity(flow, _ONE_ROW, MOST_BLOCKS)
    return _has_rows(flow) or any(uniformity.decided_by(k) & LANE_BITS for k in instructions)


def _has_rows(flow: Flow) -> bool:
    """Whether more than the number of a thread in its row, or in a block of another shape, is asked for."""
    return any(isinstance(x, Special) and x.name in _ROWS for i in flow.body for x in i.operands)


def _of_bulk_groups(i: Instr, what: str) -> bool:
    return i.op == "cp" and "bulk" in i.mods and what in i.mods


def ordered(classes: list[ThreadClass], elected: int, electing: set[tuple[int, int]]) -> list[ThreadClass]:
    """Warp-major, then by lowest lane. An elected lane alone comes last in its warp: it then goes on as soon
    as the lanes have met for the election."""

    def key(c: ThreadClass) -> tuple[int, int, bool, int]:
        last = c.lanes == 1 << elected and (c.cta, c.warp) in electing
        return c.cta, c.warp, last, c.lanes & -c.lanes

    return sorted(classes, key=key)


def _span(flow: Flow, block: int) -> range:
    return range(flow.blocks[block].lo, flow.blocks[block].hi)


def _of_lanes(flow: Flow, i: Instr) -> Iterable[str]:
    """What an instruction writes that may differ from lane to lane, though all it is made of is one value."""
    if _uniform(i):
        return ()
    if any(isinstance(op, Special) and op.name.startswith(LANES) for op in i.operands):
        return results(i)
    # whether the lane that shfl takes from is there
    return [x for x in results(i) if i.op == "shfl" and flow.function.registers.get(x) == "pred"]


def _numbered(flow: Flow, whole: Slice) -> set[str]:
    """Registers that may differ between the lanes of a warp by the numbers of these, not by who is elected:
    by what they are computed from, or because a branch on such a one decides whether they are."""
    uniformity, rows = Uniformity(flow, _ONE_ROW, MOST_BLOCKS), _has_rows(flow)

    @cache
    def differs(name: str) -> bool:
        return rows or bool(uniformity.of({name}) & LANE_BITS)

    return _tainted(flow, whole, lambda i: filter(differs, _of_lanes(flow, i)), differs)


def _tainted(
    flow: Flow,
    whole: Slice,
    starts: Callable[[Instr], Iterable[str]],
    differs: Callable[[str], bool] | None = None,
) -> set[str]:
    """Registers that may differ between lanes because of what some instructions write.

    ``differs``: whether one does so at all, among the lanes of a warp; then registers count, too, whose
    instructions a branch on such a one decides about.
    """
    found, controllers = set[str](), flow.controllers()

    @cache
    def guards(block: int) -> set[str]:
        ends = (flow.blocks[b].hi - 1 for b in _deciding(controllers, [block]))
        return {guard.name for e in ends if (guard := flow.body[e].guard) is not None}

    changed = True
    while changed:
        changed = False
        for k in whole.pure:
            i = flow.body[k]
            new = {*starts(i)} - found
            if not _uniform(i) and i.op != "elect" and not found.isdisjoint((*sources(i), *_left_for(i))):
                new |= {x for x in results(i) if differs is None or differs(x)}
                new.update(_leaves(i))
            if differs is not None and not found.isdisjoint(guards(flow.block_of[k])):
                new.update(results(i), _leaves(i))
            new -= found
            if new:
                found |= new
                changed = True
    return found


#: What instructions leave for others beside registers: the memory of a thread.
_MEMORY = "%memory"
#: State spaces that are a thread's own. A generic address may lead there.
_OWN_MEMORY = ("local", "param")


def _leaves(i: Instr) -> Iterator[str]:
    """What an instruction writes beside registers that later ones of the same thread may read."""
    if writes(i, *_OWN_MEMORY):
        yield _MEMORY


def _left_for(i: Instr) -> Iterator[str]:
    """What an instruction reads of that."""
    if reads(i, *_OWN_MEMORY):
        yield _MEMORY


def _uniform(i: Instr) -> bool:
    """Every lane gets the same, whatever lanes put in: of ``shfl.idx`` if its segment is the warp."""
    if i.op == "shfl":
        return "idx" in i.mods and isinstance(i.operands[2], Imm) and i.operands[3] == Imm(WARP - 1)
    return i.op in ("vote", "redux")


def _under(flow: Flow, controllers: list[set[int]], block: int, elected: set[str]) -> bool:
    """Whether some branch on an election decides whether a block is executed."""
    work, seen = [block], set[int]()
    while work:
        b = work.pop()
        if b in seen:
            continue
        seen.add(b)
        for c in controllers[b]:
            guard = flow.body[flow.blocks[c].hi - 1].guard
            if guard is not None and guard.name in elected:
                return True
            work.append(c)
    return False
