"""Comparisons of launch constants that are only added: ``n = each + (block < more)``.

Where sizes have no number, such an answer is an unknown 0 or 1 at first, which no path has to decide.

And comparisons that choose how long the loops of a turn go on: ``n = turn < turns ? all : part``. Where sizes
have no number, that is an unknown of the turn (``lengths.chosen``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from syncverify.frontends.ptx.analysis.slicing.slice import Slice
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand, Reg, Special
from syncverify.frontends.ptx.syntax.operands import results, sources

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


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long loops inside others go on, where a comparison chooses it among two values: the registers that
    hold it, and the predicates."""

    chosen: frozenset[str] = frozenset()
    predicates: frozenset[str] = frozenset()


def chosen_lengths(flow: Flow, needed: Slice, effects: Iterable[int]) -> Lengths:
    """Those that are chosen in the outer loop, and only compared with; of instructions that are needed, or
    have ``effects``. What decides may part ways as well."""
    makers: dict[str, list[int]] = {}
    users: dict[str, list[int]] = {}
    guards: set[str] = set()
    for k in sorted(needed.pure | needed.branches | set(effects)):
        i = flow.body[k]
        for r in results(i):
            makers.setdefault(r, []).append(k)
        for r in sources(i):
            users.setdefault(r, []).append(k)
        if i.guard is not None and i.op != "bra":
            guards.add(i.guard.name)
    nested = {b for loop in flow.loops if any(x < loop for x in flow.loops) for b in loop}

    def made(r: str, op: str) -> Instr | None:
        found = makers.get(r, [])
        i = flow.body[found[0]] if len(found) == 1 else None
        return i if i is not None and i.op == op and i.guard is None else None

    def integers(k: int) -> bool:
        i = flow.body[k]
        plain = isinstance(i.operands[0], Reg)  # the answer alone, not its opposite beside it
        return i.op == "setp" and plain and len(i.mods) == 2 and i.mods[0] in _ORDER and i.mods[1][0] != "f"

    def length(r: str) -> str | None:
        """What decides a length."""
        i = made(r, "selp")
        if i is None or flow.block_of[makers[r][0]] not in nested or i.mods[-1] not in ("b32", "s32", "u32"):
            return None
        p = i.operands[3]
        return p.name if isinstance(p, Reg) and r in users and all(map(integers, users[r])) else None

    deciding = {r: p for r in makers if (p := length(r)) is not None}
    chosen = {r: p for r, p in deciding.items() if made(p, "setp") is not None and integers(makers[p][0])}
    free = set(chosen.values()) - guards
    held = {p for p in free if all(_only_chooses(flow.body[k], chosen) for k in users[p])}
    found = frozenset(r for r, p in chosen.items() if p in held)
    return Lengths(found, frozenset(held)) if found else Lengths()


def _only_chooses(i: Instr, chosen: Mapping[str, str]) -> bool:
    """Whether an instruction uses a predicate for lengths alone, or parts ways by it."""
    return i.op == "bra" or (i.op == "selp" and set(results(i)) <= chosen.keys())
