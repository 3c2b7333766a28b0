"""Comparisons of launch constants that are only added: ``n = each + (block < more)``.

Where sizes have no number, such an answer is an unknown 0 or 1 at first, which no path has to decide.
"""

from __future__ import annotations

from collections.abc import Sequence

from syncverify.frontends.ptx.nodes import Imm, Instr, Operand, Reg, Special
from syncverify.frontends.ptx.operands import results, sources

_ORDER = frozenset("lt le gt ge lo ls hi hs".split())
_ONE_OR_ZERO = (Imm(1), Imm(0))
_PLACES = ("%ctaid", "%nctaid")


def added_comparisons(body: Sequence[Instr]) -> frozenset[str]:
    """The predicates that hold them."""
    if not any(i.op == "selp" and i.operands[1:3] == _ONE_OR_ZERO for i in body):
        return frozenset()
    makers: dict[str, list[Instr]] = {}
    users: dict[str, list[Instr]] = {}
    for i in body:
        for r in results(i):
            makers.setdefault(r, []).append(i)
        for r in sources(i):
            users.setdefault(r, []).append(i)

    def once(r: str) -> Instr | None:
        made = makers.get(r, [])
        return made[0] if len(made) == 1 and made[0].guard is None else None

    def constant(op: Operand) -> bool:
        if isinstance(op, Imm):
            return True
        made = once(op.name) if isinstance(op, Reg) else None
        if made is None:
            return False
        if made.op == "mov":
            of = made.operands[1]
            return isinstance(of, Special) and of.name.partition(".")[0] in _PLACES
        return made.op == "ld" and "param" in made.mods

    def added(i: Instr) -> bool:
        to = i.operands[0]
        return (
            i.op == "selp"
            and i.guard is None
            and i.operands[1:3] == _ONE_OR_ZERO
            and isinstance(to, Reg)
            and once(to.name) is i
            and all(u.op in ("add", "sub") and "cc" not in u.mods for u in users.get(to.name, []))
        )

    def compared(p: str) -> bool:
        made = once(p)
        if made is None or made.op != "setp" or len(made.mods) != 2:
            return False
        integers = made.mods[0] in _ORDER and made.mods[1][0] != "f"
        return integers and made.operands[0] == Reg(p) and all(map(constant, made.operands[1:]))

    return frozenset(p for p in makers if compared(p) and all(map(added, users.get(p, []))))
