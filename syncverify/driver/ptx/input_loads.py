"""Loads that bring what no part of the kernel writes: an input, of which the launch file says nothing."""

from __future__ import annotations

from syncverify.driver.ptx.assumptions import holds_at
from syncverify.frontends.ptx.analysis.global_memory.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.analysis.global_memory.read_only_loads import may_write
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.syntax.nodes import Mem


class InputLoads:
    """Whether a load brings what no part of the kernel writes, and of which the launch file says nothing."""

    def __init__(self, facts: PtxFacts, program: Program) -> None:
        self.facts, self.program = facts, program
        writes = [
            next((x for x in i.operands if isinstance(x, Mem)), None) for i in program.body if may_write(i)
        ]
        self.written = frozenset[str]().union(
            *(program.origins.of(x) or {ANYWHERE} for x in writes if x is not None)
        )

    def __call__(self, k: int) -> bool:
        return ANYWHERE not in self.written and self.stays(k)

    def stays(self, k: int) -> bool:
        """The same if no store through a pointer from memory goes there: who takes pointers out of a table
        does not store them there."""
        i = self.program.body[k]
        if not {"param", "const"}.isdisjoint(i.mods):
            return True
        used = used_in_global(i)
        of = self.program.origins.of(used[1]) if used is not None else frozenset()
        if not of or ANYWHERE in of or of & self.written:
            return False
        return not holds_at(self.facts, self.program, of)


__all__ = ["InputLoads"]
