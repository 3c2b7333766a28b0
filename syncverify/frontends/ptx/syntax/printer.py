"""Operands and instructions as text, for reports."""

from __future__ import annotations

from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Imm,
    Instr,
    Label,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    Selected,
    Sink,
    Special,
    Sym,
    Vector,
)


def operand_text(op: Operand) -> str:
    """An operand as PTX writes it."""
    match op:
        case Selected(name, part):
            return f"{name}.{part}"
        case Reg(name) | Special(name) | Label(name, _):
            return name
        case Imm(value):
            return str(value)
        case FloatImm(bits, width):
            return f"0{'f' if width == 32 else 'd'}{bits:0{width // 4}X}"
        case Sym(name, offset):
            return f"{name}+{offset}" if offset else name
        case Mem(base, offset, coords):
            at = operand_text(base) + (f"+{offset}" if offset else "")
            return f"[{at}, {{{', '.join(map(operand_text, coords))}}}]" if coords else f"[{at}]"
        case Vector(items):
            shown = [operand_text(x) for x in items]
            if len(shown) > 8:
                shown = [*shown[:2], "...", shown[-1]]
            return f"{{{', '.join(shown)}}}"
        case Not(reg):
            return f"!{reg.name}"
        case Pair(a, b):
            return f"{operand_text(a)}|{operand_text(b)}"
        case Sink():
            return "_"


def instruction_text(i: Instr) -> str:
    """An instruction on one line, without its semicolon."""
    guard = "" if i.guard is None else f"@{'!' if i.negated else ''}{i.guard.name} "
    operands = ", ".join(operand_text(op) for op in i.operands)
    return f"{guard}{i.name} {operands}".rstrip()
