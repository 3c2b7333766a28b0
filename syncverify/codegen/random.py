"""Random numbers in CUDA: the counters of a thread's elements."""

from __future__ import annotations

from collections.abc import Callable, Collection

from syncverify.base.source import InputError
from syncverify.ir.expr import Call, Expr, Int, Var


def philox(
    name: str, e: Call, registers: Collection[str], index: Callable[[Expr], str], multiple: int
) -> str:
    """The call that fills a register; ``multiple``: what the first place is surely a multiple of."""
    seed, offset, first, count, rows, pitch = e.args
    if not (isinstance(count, Int) and isinstance(rows, Int) and isinstance(pitch, Int)):
        raise InputError("philox: the number of elements must be a constant")
    whole = count.value % 4 == 0 and multiple % 4 == 0 and (rows.value == 1 or pitch.value % 4 == 0)
    form = f"philox{'_aligned' if whole else ''}<{count.value}, {pitch.value}>"
    key = [f"{x.name}[0]" if isinstance(x, Var) and x.name in registers else index(x) for x in (seed, offset)]
    return f"{form}({name}, {', '.join(key)}, {index(first)});"


__all__ = ["philox"]
