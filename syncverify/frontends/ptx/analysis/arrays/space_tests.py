"""Whether ``isspacep`` has an answer: its address is a place in variables of one state space.

    mov.u64 a, s;  cvta.shared.u64 a, a;  isspacep.shared p, a;      // it is in shared memory
    isspacep.shared p, 4294967296;                                   // nobody knows

Where the windows of the generic address space begin is the implementation's choice (PTX ISA, 5.1 and
9.7.9.6), so that a number has no answer, and neither has what came out of memory or a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable

from syncverify.frontends.ptx.analysis.arrays.named_arrays import NamedArrays
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.syntax.nodes import Reg, Variable

#: Spaces that are asked for, by the space of the variables that lie there.
_ASKED = {"shared": ("shared", "shared::cta", "shared::cluster"), "local": ("local",), "global": ("global",),
          "param": ("param", "param::entry"), "const": ("const",)}  # fmt: skip


def space_answer(flow: Flow, k: int, variables: Iterable[Variable]) -> bool | None:
    """What the ``isspacep`` at an instruction answers; None where that is not known."""
    i = flow.body[k]
    spaces = {v.name: v.space for v in variables}
    x = i.operands[1] if len(i.operands) > 1 else None
    named = NamedArrays(flow, dict.fromkeys(spaces, 1))
    found = {spaces[name] for name in named.whose(x, k)} if isinstance(x, Reg) else set()
    if len(found) != 1 or not isinstance(x, Reg):
        return None
    (space,) = found
    makers = [flow.body[at] for v in behind(flow, [flow.versions.read(x.name, k)])
              if (at := flow.versions.writer[v]) >= 0]  # fmt: skip
    made = [m for m in makers if m.op == "cvta"]
    if any(m.op == "mapa" or m.guard is not None for m in makers) or any(
        m.mods[:1] != (space,) for m in made
    ):
        return None  # the place of another block, or in a space's own window
    return i.mods[0] in _ASKED.get(space, ()) if made or space == "global" else None


__all__ = ["space_answer"]
