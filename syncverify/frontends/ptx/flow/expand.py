"""A function some of whose instructions are replaced by several: labels follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Label, Operand


def expanded(function: Function, by: Mapping[int, Sequence[Instr]], registers: Mapping[str, str]) -> Function:
    """``by``: for the number of an instruction, what comes in its place; ``registers``: new ones and types.

    A label before a replaced instruction stands before the first of those in its place.
    """
    places: list[int] = []
    out: list[Instr] = []
    for k, i in enumerate(function.body):
        places.append(len(out))
        out += by.get(k, (i,))
    places.append(len(out))

    def moved(op: Operand) -> Operand:
        return Label(op.name, places[op.target]) if isinstance(op, Label) else op

    body = [
        replace(i, operands=tuple(map(moved, i.operands)))
        if any(isinstance(op, Label) for op in i.operands)
        else i
        for i in out
    ]
    return replace(
        function,
        body=tuple(body),
        registers={**function.registers, **registers},
        labels={name: places[at] for name, at in function.labels.items()},
    )


__all__ = ["expanded"]
