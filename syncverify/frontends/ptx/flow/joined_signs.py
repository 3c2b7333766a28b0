"""Signs of two numbers that are asked of their ``or``, as two comparisons.

``if (x >= 0 && y >= 0)`` is compiled to one ``or`` and one comparison, for the highest bit of ``x | y`` is
set where that of either is. Of the ``or`` of two open numbers nothing else is known. Example:

    or.b32 %r3, %r1, %r2;  setp.lt.s32 %p1, %r3, 0;

becomes ``setp.lt.s32 %p2, %r1, 0; setp.lt.s32 %p3, %r2, 0; or.pred %p1, %p2, %p3;``. The two forms mean the
same, where the registers hold at the comparison what they held at the ``or``: each in one version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Operand, Reg

#: Comparisons of one number with another that ask for its sign, and what joins the answers for two numbers.
_SIGNS = {("lt", 0): "or", ("le", -1): "or", ("ge", 0): "and", ("gt", -1): "and"}
_WIDTHS = {"s32": ("b32", 32), "s64": ("b64", 64)}
#: How deep an ``or`` of others is looked at.
_DEEPEST = 3


def with_signs_apart(function: Function) -> Function:
    """The function with a comparison for each number; itself where there is no such ``or``."""
    if not any(i.op == "or" for i in function.body):
        return function
    for _ in range(_DEEPEST):
        again = _once(function)
        if again is function:
            break
        function = again
    return function


def _once(function: Function) -> Function:
    body = function.body
    asked = [k for k, i in enumerate(body) if _joins(i) is not None]
    if not asked:
        return function
    flow = Flow(function)
    by: dict[int, Sequence[Instr]] = {}
    registers: dict[str, str] = {}
    for k in asked:
        two = _joined(flow, k) if flow.block_of[k] in flow.reached else None
        if two is None:
            continue
        names = [f"%sign.{len(function.registers) + len(registers) + n}" for n in range(2)]
        registers.update(dict.fromkeys(names, "pred"))
        by[k] = _apart(body[k], two, names)
    return expanded(function, by, registers) if by else function


def _joins(i: Instr) -> str | None:
    """What joins the signs of two numbers whose ``or`` an instruction asks for its sign."""
    if i.op != "setp" or i.guard is not None or len(i.operands) != 3 or len(i.mods) != 2:
        return None
    to, asked, bound = i.operands
    if i.mods[1] not in _WIDTHS or not isinstance(to, Reg) or not isinstance(asked, Reg):
        return None
    return _SIGNS.get((i.mods[0], _signed(bound, _WIDTHS[i.mods[1]][1])))


def _signed(op: Operand, bits: int) -> int:
    """A constant as a number with a sign; 1 for anything else."""
    if not isinstance(op, Imm) or not isinstance(op.value, int):
        return 1
    return ((op.value & ((1 << bits) - 1)) ^ (1 << (bits - 1))) - (1 << (bits - 1))


def _joined(flow: Flow, k: int) -> tuple[Operand, Operand] | None:
    """The two numbers whose ``or`` instruction ``k`` asks, where it could as well ask these."""
    i, versions = flow.body[k], flow.versions
    asked = i.operands[1]
    assert isinstance(asked, Reg)
    at = versions.writer[versions.read(asked.name, k)]
    if at < 0:
        return None
    made = flow.body[at]
    if made.op != "or" or made.mods != (_WIDTHS[i.mods[1]][0],) or made.guard is not None:
        return None
    one, two = made.operands[1:]
    for op in (one, two):
        if not isinstance(op, Reg) or versions.read(op.name, at) != versions.read(op.name, k):
            return None
    return one, two


def _apart(i: Instr, two: tuple[Operand, Operand], names: Sequence[str]) -> tuple[Instr, ...]:
    """The comparison of each number, and what joins them."""
    to, _, bound = i.operands
    assert isinstance(to, Reg)
    first, second = (replace(to, name=name) for name in names)
    join = _joins(i)
    assert join is not None
    return (
        replace(i, operands=(first, two[0], bound)),
        replace(i, operands=(second, two[1], bound)),
        replace(i, op=join, mods=("pred",), operands=(to, first, second)),
    )


__all__ = ["with_signs_apart"]
