"""Modules back to PTX text, to compare what was read with what was written."""

from __future__ import annotations

import re

from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Function,
    Imm,
    Instr,
    Label,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Special,
    Sym,
    Variable,
    Vector,
)

_TOKEN = re.compile(r"0[fFdDxX][0-9a-fA-F]+|[%$\w.:]+|\S")


def tokens(text: str) -> list[str]:
    """The words of a text without its comments; integers in decimal."""
    words = _TOKEN.findall(re.sub(r"//[^\n]*", "", text))
    return [str(int(w, 0)) if re.fullmatch(r"0[xX][0-9a-fA-F]+|[1-9]\d*", w) else w for w in words]


def operand(o: Operand) -> str:
    match o:
        case Reg(name) | Special(name) | Label(name):
            return name
        case Imm(value):
            return str(value)
        case FloatImm(bits, width):
            return f"0{'f' if width == 32 else 'd'}{bits:0{width // 4}X}"
        case Sym(name, offset):
            return name + _plus(offset)
        case Mem(base, offset, coords):
            inside = operand(base) + _plus(offset)
            return f"[{inside}, {operand(Vector(coords))}]" if coords else f"[{inside}]"
        case Vector(items):
            return "{" + ", ".join(map(operand, items)) + "}"
        case Not(reg):
            return f"!{reg.name}"
        case Pair(first, second):
            return f"{operand(first)}|{operand(second)}"
    return "_"


def _plus(offset: int) -> str:
    return f"+{offset}" if offset else ""


def instruction(i: Instr) -> str:
    operands = [operand(o) for o in i.operands]
    if i.op == "call":
        results, callee, arguments, *rest = operands
        operands = [f"({results[1:-1]})", callee, f"({arguments[1:-1]})", *rest]
    guard = f"@{'!' if i.negated else ''}{i.guard.name} " if i.guard else ""
    return f"{guard}{i.name} {', '.join(operands)};"


def body(f: Function) -> str:
    """The instructions and labels of a function."""
    lines = []
    at: dict[int, list[str]] = {}
    for name, index in f.labels.items():
        at.setdefault(index, []).append(name)
    for index, i in enumerate(f.body):
        lines += [f"{name}:" for name in at.get(index, ())]
        lines.append(instruction(i))
    lines += [f"{name}:" for name in at.get(len(f.body), ())]
    return "\n".join(lines)


def variable(v: Variable) -> str:
    pointee = f".ptr{'' if v.ptr == 'generic' else ' .' + v.ptr} " if v.ptr else ""
    linkage = ".extern " if v.extern else ""
    init = "" if v.init is None else f" = {{{', '.join(map(str, v.init))}}}"
    size = "" if v.space in ("param", "reg") and not init and v.type != "b8" else f"[{v.size or ''}]"
    kind = v.type if not size else "b8"
    return f"{linkage}.{v.space} .{kind} {pointee}.align {v.align} {v.name}{size}{init}"


def function(f: Function) -> str:
    results = f"({', '.join(map(variable, f.results))}) " if f.results else ""
    head = f"{'.entry' if f.entry else '.func'} {results}{f.name}({', '.join(map(variable, f.params))})"
    bounds = "".join(f" .{k} {', '.join(map(str, v))}" for k, v in f.directives.items())
    if not f.body:
        return f"{head}{bounds};"
    own = [f".reg .{kind} {name};" for name, kind in f.registers.items() if "." not in name]
    vectors = {name.partition(".")[0]: kind for name, kind in f.registers.items() if "." in name}
    own += [f".reg .v4 .{kind} {name};" for name, kind in vectors.items()]
    own += [variable(v) + ";" for v in f.variables]
    own += [
        f"{name}: .{'branchtargets ' + ', '.join(t) if t else 'callprototype _'};"
        for name, t in f.tables.items()
    ]
    return "\n".join([f"{head}{bounds}", "{", *own, body(f), "}"])


def module(m: Module) -> str:
    settings = [".version {}.{}".format(*m.version), f".target {m.target}", f".address_size {m.address_size}"]
    return "\n".join([*settings, *(variable(v) + ";" for v in m.variables), *map(function, m.functions)])
