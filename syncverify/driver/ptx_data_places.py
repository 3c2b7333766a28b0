"""Atomics at places of data beside plain accesses of other blocks: some input places both on one word.

    if (block == 0) bins[thread] = 0;   atomicAdd(&bins[x & 63], 1);       // nothing orders the two

Only what certainly is executed at a known place counts on one side, and on the other what the kernel bounds
(``analysis/data_places.py``). Blocks of one cluster are left out: its barrier may order them.
"""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.driver.ptx_assumptions import holds, places_of_blocks
from syncverify.frontends.ptx.analysis.counted_blocks import used_counts
from syncverify.frontends.ptx.analysis.data_places import Touched, covered
from syncverify.frontends.ptx.analysis.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.analysis.read_only_loads import may_write
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.global_access import semantics
from syncverify.frontends.ptx.decode.memory import Access, decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.syntax.nodes import Mem


def placed_on_others(facts: PtxFacts, program: Program) -> tuple[int, int] | None:
    """An atomic that some input places on what another block stores or loads plainly, in no order, and that
    access: of a launch in numbers whose blocks do not wait for each other."""
    numbers = not facts.symbols() and all(isinstance(n, int) for n in facts.grid)
    if facts.block is None or program.handing is not None or not numbers or facts.grid == (1, 1, 1):
        return None
    atomics = list(_accesses(program, "atom", "red"))
    plain = [(k, a) for k, a in _accesses(program, "st", "ld") if not semantics(program.body[k])]
    if not atomics or not plain or holds(facts) or _polls(program):
        return None
    places = places_of_blocks(facts, program, facts.block)
    is_input = _Inputs(program)
    touched = dict[int, list[Touched | None]]()
    for k, access in atomics:
        for n, reach in enumerate(places.reached(k, access, is_input)):
            for j, other in plain if reach is not None else ():
                if j not in touched:
                    touched[j] = places.touched(j, other)
                at = touched[j][n]
                if reach is not None and at is not None and covered(reach[0], access.bytes, reach[1], at):
                    return k, j
    return None


def _polls(program: Program) -> bool:
    """Whether a loop asks what others write: blocks may wait there, in whatever form."""
    flow, counts = program.flow, used_counts(program.flow)
    inside = (k for k, i in enumerate(program.body) if i.op in ("ld", "atom") and _in_a_loop(flow, k))
    return any(k in counts or (program.body[k].op == "ld" and semantics(program.body[k])) for k in inside)


def _in_a_loop(flow: Flow, k: int) -> bool:
    return any(flow.block_of[k] in loop for loop in flow.loops)


class _Inputs:
    """Whether a load brings what no part of the kernel writes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        writes = [
            next((x for x in i.operands if isinstance(x, Mem)), None) for i in program.body if may_write(i)
        ]
        self.written = frozenset[str]().union(
            *(program.origins.of(x) or {ANYWHERE} for x in writes if x is not None)
        )

    def __call__(self, k: int) -> bool:
        used = used_in_global(self.program.body[k])
        of = self.program.origins.of(used[1]) if used is not None else frozenset()
        return bool(of) and ANYWHERE not in of | self.written and not of & self.written


def _accesses(program: Program, *ops: str) -> Iterator[tuple[int, Access]]:
    """The accesses to global memory by some instructions, of which one pointer is known."""
    for k, i in enumerate(program.body):
        if i.op not in ops or program.flow.block_of[k] not in program.flow.reached:
            continue
        access, used = decode_place(i), used_in_global(i)
        if access is not None and used is not None and ANYWHERE not in program.origins.of(used[1]):
            yield k, access


__all__ = ["placed_on_others"]
