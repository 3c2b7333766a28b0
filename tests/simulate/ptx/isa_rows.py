"""The rows of the front end's table of the ISA beside what the reader can execute."""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.frontends.ptx.isa.rows import Role, Row
from syncverify.frontends.ptx.isa.targets import Target
from syncverify.simulate.ptx import CannotExecute
from syncverify.simulate.ptx.program import BUILDERS, Context, Symbols
from syncverify.simulate.ptx.syntax import Instr, parse
from tests.frontends.ptx.isa.samples import all_rows, choices, registers_of, text

HOPPER = Target(90, "a")


def refused(target: Target = HOPPER, most: int = 40) -> Iterator[tuple[Row, str, str]]:
    """The rows that an architecture has and the reader refuses: a row, its first such instruction, and why."""
    asked = list(_instructions(target, most))
    body = "\n".join(line for _, line in asked)
    head = ".version 9.3\n.target sm_90a\n.address_size 64\n"
    module = parse(f"{head}.entry k() {{ {registers_of(body)}\n{body}\nL: ret; }}")
    function, seen = module.functions[0], set[int]()
    context = Context(module, function, Symbols(), 0)
    for (row, line), instr in zip(asked, function.body, strict=False):
        why = refusal(context, instr) if id(row) not in seen else None
        if why is not None:
            seen.add(id(row))
            yield row, line, why


def _instructions(target: Target, most: int) -> Iterator[tuple[Row, str]]:
    """The instructions that the modelled rows of an architecture describe."""
    for row in all_rows():
        for words in choices(row, most) if not row.unmodelled and target.has(row.arch) else ():
            line = text(row, words)
            if line is not None and all(slot.role is not Role.UNMODELLED for slot, _ in words):
                yield row, line


def refusal(context: Context, instr: Instr) -> str | None:
    """Why the reader cannot execute an instruction; None if it can."""
    context.instr = instr
    make = BUILDERS.get(instr.op)
    if make is None:
        return "unknown instruction"
    try:
        make(context, instr)
    except CannotExecute as e:
        return e.why or "a form that is not known"
    except (IndexError, KeyError, ValueError, AttributeError, TypeError) as e:
        return f"a form that is not known ({e})"
    return None
