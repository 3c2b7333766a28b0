"""A kernel as a few agents, which stand for all of its warps.

Warps that do the same are one *kind*; some of its warps stand for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.checker.prover.rings.extract import walk
from syncverify.checker.prover.rings.linear import Lin
from syncverify.checker.prover.rings.program import Case, Op
from syncverify.ir import nodes as n


@dataclass(frozen=True, slots=True)
class Agent:
    """The lanes of one warp that do the same: ``threads`` of them, ``copies`` such warps in the block."""

    name: str
    warp: int
    kind: int  # warps of one kind have the same agents
    part: int  # which of the kind's agents
    threads: int
    copies: int
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """``depths``: slots of each ring of barriers and of each buffer; ``facts``: what the launch implies."""

    agents: tuple[Agent, ...]
    depths: dict[str, Lin]
    facts: tuple[Lin, ...]


def extract(kernel: n.Kernel, case: Case) -> Program:
    """The kernel's agents and rings in the launches of a case.

    OutsideError with the reason where the kernel is not of the class.
    """
    found = walk(kernel, case)
    return Program(representatives([(w.warp, w.parts()) for w in found.warps]), found.depths, found.facts)


def representatives(warps: list[tuple[int, list[tuple[int, tuple[Op, ...]]]]]) -> tuple[Agent, ...]:
    """Agents of a few warps of each kind: two of one warpgroup, and one of another.

    A warp comes with its parts: the number of lanes and the operations of each. Warps are of one kind if
    their parts are equal, bytes inside slots aside; a kind's bytes are those of all its warps.
    """
    kinds: dict[tuple[tuple[int, tuple[Op, ...]], ...], list[int]] = {}
    parts_of = dict(warps)
    for warp, parts in warps:
        kinds.setdefault(tuple(parts), []).append(warp)
    agents: list[Agent] = []
    for kind, members in enumerate(kinds.values()):
        group = [w for w in members if w // 4 == members[0] // 4][:2]
        other = [w for w in members if w // 4 != members[0] // 4][:1]
        for warp in [*group, *other]:
            for part, (threads, ops) in enumerate(parts_of[warp]):
                every = [parts_of[w][part][1] for w in members]
                merged = tuple(_merged(same) for same in zip(*every, strict=True)) if ops else ()
                agents.append(Agent(f"warp {warp}.{part}", warp, kind, part, threads, len(members), merged))
    return tuple(agents)


def _merged(same: tuple[Op, ...]) -> Op:
    touches = []
    for i, t in enumerate(same[0].touches):
        pieces = sorted({p for op in same for p in op.touches[i].pieces})
        touches.append(replace(t, pieces=tuple(pieces)))
    return replace(same[0], touches=tuple(touches))
