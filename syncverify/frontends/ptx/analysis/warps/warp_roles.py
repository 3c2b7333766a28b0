"""Whether a kernel tells its threads apart before they wait: which block sizes its text can be meant for."""

from __future__ import annotations

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import from_outside
from syncverify.frontends.ptx.syntax.nodes import Instr, Label, Special
from syncverify.frontends.ptx.syntax.operands import is_poll, registers, results, sources

_THREAD = ("%tid", "%laneid", "%warpid")


def has_roles(flow: Flow) -> bool:
    """Whether some threads wait where others do not come: a branch on the thread's number leads there.

    A block of fewer threads lacks some of the roles, and nobody launches it.
    """
    body = flow.body
    if any(i.op == "setmaxnreg" for i in body):
        return True
    apart = _of_thread(body)
    waiting = {flow.block_of[k] for k, i in enumerate(body) if _waits(i)}
    if any(i.guard is not None and i.guard.name in apart for i in body if _waits(i)):
        return True
    controllers = flow.controllers()
    work, seen = list(waiting), set(waiting)
    while work:
        for c in controllers[work.pop()]:
            branch = body[flow.blocks[c].hi - 1]
            asked = [branch.guard.name] if branch.guard is not None else []
            if branch.op == "brx":
                asked += [n for op in branch.operands if not isinstance(op, Label) for n in registers(op)]
            if apart.intersection(asked):
                return True
            if c not in seen:
                seen.add(c)
                work.append(c)
    return False


def counts_threads(flow: Flow) -> bool:
    """Whether some barrier has a count of its own, instead of that of the block."""
    return any(
        (i.op == "mbarrier" and i.mods[:1] == ("init",))
        or (
            i.op in ("bar", "barrier")
            and "cluster" not in i.mods
            and "warp" not in i.mods
            and len(i.operands) > 1
        )
        for i in flow.body
    )


def _waits(i: Instr) -> bool:
    if i.op in ("bar", "barrier"):
        return "warp" not in i.mods and "arrive" not in i.mods
    return is_poll(i)


def _of_thread(body: tuple[Instr, ...]) -> set[str]:
    """The registers that may differ between threads by their numbers."""
    found: set[str] = set()
    while True:
        before = len(found)
        for i in body:
            named = any(isinstance(op, Special) and op.name.startswith(_THREAD) for op in i.operands)
            if named or (not from_outside(i) and not found.isdisjoint(sources(i))):
                found.update(results(i))
        if len(found) == before:
            return found


__all__ = ["counts_threads", "has_roles"]
