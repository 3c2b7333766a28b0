"""Kernels to text: ``parse(print_kernel(k))`` is ``(k,)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from syncverify.base.source import InputError
from syncverify.ir import nodes
from syncverify.ir.expr import Expr, Int
from syncverify.ir.text import forms
from syncverify.ir.text.printed_expressions import ATOM, inside_brackets, print_expr, wrapped


def print_kernel(kernel: nodes.Kernel) -> str:
    """The whole kernel, in the form of docs/syncir.md."""
    lines = [f"kernel {kernel.name} {{", *("  " + x for x in _header(kernel))]
    if kernel.body and len(lines) > 1:
        lines.append("")
    lines += _block(kernel.body, 1)
    return "\n".join([*lines, "}"]) + "\n"


def print_kernels(kernels: Iterable[nodes.Kernel]) -> str:
    """A file of kernels."""
    return "\n".join(map(print_kernel, kernels))


def print_stmt(stmt: nodes.Stmt) -> str:
    """One statement on one line; of control flow only the head."""
    match stmt:
        case nodes.For():
            step = "" if stmt.step == Int(1) else f" step {print_expr(stmt.step)}"
            unroll = "" if stmt.unroll is None else f" unroll {stmt.unroll}"
            return f"for {stmt.var} in {print_expr(stmt.lo)}..{print_expr(stmt.hi)}{step}{unroll}"
        case nodes.If():
            return f"if {print_expr(stmt.cond)}"
        case nodes.Role():
            return f"role {stmt.name} {stmt.unit} {print_expr(stmt.lo)}..{print_expr(stmt.hi)}"
        case nodes.Let():
            return f"let {stmt.name} = {print_expr(stmt.value)}"
        case nodes.Assign():
            return f"{stmt.name} = {print_expr(stmt.value)}"
        case nodes.Compute():
            return f"compute {stmt.name} = {print_expr(stmt.value)}"
    return _operation(stmt)


def print_region(r: nodes.Region) -> str:
    text = r.buffer
    if r.index or r.start is not None:
        text += _list(r.index)
    if r.start is not None and r.count is not None:
        rows = ""
        if r.rows is not None and r.pitch is not None:
            rows = f" rows {inside_brackets(r.rows)} pitch {inside_brackets(r.pitch)}"
        text += f"[{inside_brackets(r.start)} : {inside_brackets(r.count)}{rows}]"
    if (r.start is None) != (r.count is None) or (r.rows is None) != (r.pitch is None):
        raise InputError(f"a range of {r.buffer} lacks its start, count, rows or pitch")
    if r.rows is not None and r.start is None:
        raise InputError(f"rows of {r.buffer} need a range")
    return text + _rank(r.rank)


def print_barrier(b: nodes.BarrierRef) -> str:
    return b.name + ("" if b.index is None else f"[{inside_brackets(b.index)}]") + _rank(b.rank)


def print_global(g: nodes.GlobalRegion) -> str:
    if g.rows is not None and g.pitch is not None:
        count = (
            f" : {inside_brackets(g.count)} rows {inside_brackets(g.rows)} pitch {inside_brackets(g.pitch)}"
        )
    else:
        count = "" if g.count == Int(1) else f" : {inside_brackets(g.count)}"
    return f"{g.tensor}[{inside_brackets(g.start)}{count}]"


# ---------------------------------------------------------------- expressions


def _list(items: Iterable[Expr | int]) -> str:
    return "[" + ", ".join(str(x) if isinstance(x, int) else inside_brackets(x) for x in items) + "]"


def _rank(rank: Expr | None) -> str:
    return "" if rank is None else f" @ {wrapped(rank, ATOM, inside=False)}"


# ---------------------------------------------------------------- statements


def _operation(stmt: nodes.Stmt) -> str:
    for form in forms.BY_NODE.get(type(stmt), ()):
        if all(getattr(stmt, name) == value for name, value in form.fixed.items()):
            break
    else:
        raise InputError(f"this {type(stmt).__name__} has no text form", stmt.span)
    text = form.mnemonic
    shown: set[str] = set()
    for s in form.suffixes:
        value = getattr(stmt, s.field)
        wanted = s.required or s.follows in shown or value != form.defaults.get(s.field, ...)
        if not wanted:
            continue
        for name, choice in s.choices.items():
            if choice == value:
                text += "." + name
                shown.add(s.field)
                break
        else:
            if value is not False or s.required:
                raise InputError(f"{form.mnemonic} cannot have {s.field} {value}", stmt.span)
    operands = list(_operands(form, stmt))
    if operands:
        text += " " + ", ".join(operands)
    target = getattr(stmt, form.target) if form.target else None
    if target is not None:
        text = f"{'let ' if form.target_let else ''}{target} = {text}"
    return text


def _operands(form: forms.Form, stmt: nodes.Stmt) -> Iterator[str]:
    for o in form.operands:
        value: Any = getattr(stmt, o.field)
        if o.optional and value == form.defaults.get(o.field):
            continue
        match o.kind:
            case "map":
                yield f"{value}{_list(getattr(stmt, 'coords'))}"  # noqa: B009
            case "compare":
                assert isinstance(stmt, nodes.SpinGlobal)
                yield f"{print_global(stmt.src)} {stmt.cmp} {print_expr(stmt.value)}"
            case _:
                yield (f"{o.key} " if o.key else "") + _operand(value, bool(o.key))


def _operand(value: Any, keyed: bool) -> str:
    match value:
        case nodes.Region():
            return print_region(value)
        case nodes.BarrierRef():
            return print_barrier(value)
        case nodes.GlobalRegion():
            return print_global(value)
        case Expr():
            text = print_expr(value)
            # after a key word an expression starts with a letter, a digit or a parenthesis
            return f"({text})" if keyed and (text[0] == "-" or text in ("inf", "nan")) else text
    return str(value)


def _block(body: Iterable[nodes.Stmt], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for s in body:
        match s:
            case nodes.If():
                yield from _if(s, pad, depth)
            case nodes.For() | nodes.Role():
                yield f"{pad}{print_stmt(s)} {{"
                yield from _block(s.body, depth + 1)
                yield f"{pad}}}"
            case _:
                yield pad + print_stmt(s)


def _if(s: nodes.If, pad: str, depth: int) -> Iterator[str]:
    head = f"{pad}{print_stmt(s)} {{"
    while True:
        yield head
        yield from _block(s.then, depth + 1)
        if len(s.orelse) != 1 or not isinstance(s.orelse[0], nodes.If):
            break
        s = s.orelse[0]
        head = f"{pad}}} else {print_stmt(s)} {{"
    if s.orelse:
        yield f"{pad}}} else {{"
        yield from _block(s.orelse, depth + 1)
    yield f"{pad}}}"


# ---------------------------------------------------------------- header


def _header(k: nodes.Kernel) -> Iterator[str]:
    yield f"arch {k.arch}"
    at = k.launch
    launch = f"launch grid {_dims(at.grid)} block {_dims(at.block)} cluster {_dims(at.cluster)}"
    if at.registers is not None:
        launch += f" registers {at.registers}"
    yield launch + (" cooperative" if at.cooperative else "") + (" dependent" if at.dependent else "")
    for p in k.params:
        yield f"param {p.name} : {p.dtype}" + ("" if p.default is None else f" = {p.default}")
    for a in k.assumes:
        yield f"assume {print_expr(a)}"
    for t in k.tensors:
        yield f"tensor {t.name} : {t.dtype}{_list(t.shape)} {t.mode}"
    for m in k.maps:
        yield f"tensormap {m.name} of {m.tensor} box {_list(m.box)}{_swizzle(m.swizzle)}"
    for s in k.shared:
        offset = "" if s.offset is None else f" offset {print_expr(s.offset)}"
        yield f"shared {s.name} : {s.dtype}{_list(s.shape)} align {s.align}{offset}{_swizzle(s.swizzle)}"
    for b in k.barriers:
        offset = "" if b.offset is None else f" offset {print_expr(b.offset)}"
        yield f"mbarrier {b.name}[{inside_brackets(b.count)}]{offset}"
    for f in k.fragments:
        yield f"fragment {f.name} : {f.dtype}{_list(f.shape)}"


def _dims(sizes: tuple[Expr | int, ...]) -> str:
    used = list(sizes)
    while len(used) > 1 and used[-1] in (1, Int(1)):
        used.pop()
    return _list(used)


def _swizzle(name: str) -> str:
    return "" if name == "none" else f" swizzle {name}"
