"""What a kernel releases in global memory, and no part of it acquires.

The flag may be for another kernel. Where it is for blocks of this one, which read what others write without
a wait, nothing orders the two: such accesses are followed in a second attempt, which refutes and never
proves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from syncverify.frontends.ptx.analysis.handover_detection import (
    HandOver,
    bulk_copies,
    global_operand,
    wide_fence,
)
from syncverify.frontends.ptx.analysis.pointer_provenance import ANYWHERE, Origins
from syncverify.frontends.ptx.decode.global_access import decode_global, scope_of, semantics, space_of
from syncverify.frontends.ptx.decode.parts import spaces
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem
from syncverify.frontends.ptx.syntax.operands import results, sources
from syncverify.model.events import Flag
from syncverify.model.proxies import Scope

_BOTH = {"reads", "writes"}


def released_unseen(flow: Flow) -> int | None:
    """The line of a release after bulk copies to global memory, where no part of the kernel looks at it."""
    if not any(
        flow.body[k].op == "cp" and spaces(flow.body[k].mods)[:1] == ["global"] for k in _executed(flow)
    ):
        return None
    return next((flow.body[k].line for k in _releases(flow)), None)


def exchanged(
    flow: Flow, generic: Mapping[int, bool], handing: HandOver | None, origins: Origins
) -> HandOver | None:
    """The plain accesses and copies by which blocks may read what others write, where something is released
    and nothing waits for it; None where there are none.

    ``generic``: as for ``hand_over``, which found ``handing``.
    """
    if handing is not None and not all(_idle(flow, k) for k in handing.consumers):
        return None
    releases = [k for k in _releases(flow) if scope_of(flow.body[k]) >= Scope.GPU]
    if not releases or any(i.op == "multimem" for i in flow.body):
        return None
    uses: dict[str, set[str]] = {}
    plain: dict[int, frozenset[str]] = {}
    for k, use in _uses(flow, generic):
        i = flow.body[k]
        found = origins.of(global_operand(i) if i.op == "cp" and "bulk" in i.mods else _place(i))
        if not found or ANYWHERE in found:
            continue
        for name in found:
            uses.setdefault(name, set()).add(use)
        if i.op != "cp":
            plain[k] = found
    both = {name for name, of in uses.items() if of >= _BOTH}
    if not both:
        return None
    kept = sorted({*releases, *(k for k, found in plain.items() if found & both)})
    accesses = {k: a for k in kept if (a := decode_global(flow.body[k], generic.get(k, False))) is not None}
    return HandOver(accesses, {}, flow.body[releases[0]].line, True)


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


def _uses(flow: Flow, generic: Mapping[int, bool]) -> Iterator[tuple[int, str]]:
    """Accesses to global memory that order nothing, and what they do there."""
    (_, to), (_, from_) = bulk_copies(flow)
    yield from ((k, "writes") for k in to)
    yield from ((k, "reads") for k in from_)
    for k in _executed(flow):
        i = flow.body[k]
        if i.op in ("ld", "ldu", "st") and not semantics(i) and (space_of(i) == "global" or k in generic):
            yield k, "writes" if i.op == "st" else "reads"
        elif i.op == "cp" and i.mods[:1] == ("async",) and "bulk" not in i.mods and len(_memory(i)) > 1:
            yield k, "reads"


def _memory(i: Instr) -> list[Mem]:
    return [o for o in i.operands if isinstance(o, Mem)]


def _place(i: Instr) -> Mem:
    return _memory(i)[i.op == "cp"]
