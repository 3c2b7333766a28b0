"""Products into the same registers that follow each other, as one event: a step along K takes several.

Nothing happens between them that others could tell, and a wait covers all of them or none (PTX ISA,
wgmma.wait_group): whoever knows of one of them, or is to know of it, does so of all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from syncverify.frontends.ptx.compile.state import Decoded
from syncverify.frontends.ptx.decode.effects import Effect
from syncverify.frontends.ptx.decode.matrix import Matrices, matrices, products
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Vector
from syncverify.frontends.ptx.syntax.operands import registers, results


@dataclass(slots=True)
class Together:
    """By the last product of several the first, and registers that all of them read."""

    first: dict[int, int] = field(default_factory=dict)
    reads: dict[int, tuple[str, ...]] = field(default_factory=dict)


def together(
    flow: Flow, decoded: dict[int, Decoded], touches: Collection[int]
) -> tuple[dict[int, Decoded], Together]:
    """What instructions do, with products that follow each other at the last of them; ``touches``:
    instructions whose registers have events of their own."""
    out: dict[int, Decoded] = {}
    found = Together()
    some: list[tuple[int, Matrices]] = []
    for k in sorted(decoded):
        m = _product(flow, k) if isinstance(decoded[k], Effect) else None
        if m is None or not (some and _follows(flow, some, k, m, touches)):
            _close(some, decoded, out, found)
            some = []
        if m is None:
            out[k] = decoded[k]
        else:
            some.append((k, m))
    _close(some, decoded, out, found)
    return out, found


def _product(flow: Flow, k: int) -> Matrices | None:
    """A product of what lies in shared memory, of every lane."""
    i = flow.body[k]
    m = matrices(i) if i.op == "wgmma" and i.mods[:1] == ("mma_async",) else None
    return None if m is None or i.guard is not None or isinstance(m.a, Vector) or m.a_registers else m


def _follows(
    flow: Flow, some: list[tuple[int, Matrices]], k: int, m: Matrices, touches: Collection[int]
) -> bool:
    first, last = some[0][0], some[-1][0]
    between = range(last + 1, k + 1)
    if (
        m.acc != some[0][1].acc
        or flow.block_of[first] != flow.block_of[k]
        or any(j in touches for j in between)
    ):
        return False
    return not any(
        name in _read(x) for at, x in some for j in range(at + 1, k) for name in results(flow.body[j])
    )


def _read(m: Matrices) -> tuple[str, ...]:
    return tuple(name for op in (m.b, m.a) for name in registers(op))


def _close(
    some: list[tuple[int, Matrices]],
    decoded: dict[int, Decoded],
    out: dict[int, Decoded],
    found: Together,
) -> None:
    if len(some) == 1:
        out[some[0][0]] = decoded[some[0][0]]
    elif some:
        last = some[-1][0]
        out[last] = products([m for _, m in some])
        found.first[last] = some[0][0]
        found.reads[last] = tuple(name for _, m in some for name in _read(m))


__all__ = ["Together", "together"]
