"""Registers in static single assignment form, made on demand (Braun et al., 2013).

A *version* of a register is one write of it, what a block merges of the versions that come to it along its
edges, or what a register holds that nothing has written. An instruction reads exactly one version of each of
its registers, the condition code among them. Registers that several parts of a function use for different
things thereby come apart.

An example: after ``mov r, 0; @p bra A; add r, r, 1; A: st [x], r`` the store reads a merge, at A, of the
version of ``mov`` and that of ``add``.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from syncverify.frontends.ptx.syntax.operands import results

if TYPE_CHECKING:
    from syncverify.frontends.ptx.flow.control_flow import Flow


class Versions:
    """The versions of a function's registers, as numbers."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        #: by version: its register, its block, and the instruction that writes it (-1: none does)
        self.name: list[str] = []
        self.block: list[int] = []
        self.writer: list[int] = []
        self._merged: dict[int, list[tuple[int, int]]] = {}
        self._same: dict[int, int] = {}  # a merge of one version alone is that version
        self._written: dict[tuple[str, int], int] = {}
        self._entering: dict[tuple[str, int], int] = {}
        self._unset: dict[str, int] = {}
        self._pending: list[int] = []

    @cached_property
    def writes(self) -> dict[str, dict[int, list[int]]]:
        """By register and block, the instructions that write it, in order."""
        found: dict[str, dict[int, list[int]]] = {}
        for n in sorted(self.flow.reached):
            b = self.flow.blocks[n]
            for k in range(b.lo, b.hi):
                for name in results(self.flow.body[k]):
                    at = found.setdefault(name, {}).setdefault(n, [])
                    if at[-1:] != [k]:
                        at.append(k)
        return found

    def read(self, name: str, k: int) -> int:
        """The version of a register that instruction ``k`` reads."""
        block = self.flow.block_of[k]
        here = self.writes.get(name, {}).get(block, ())
        n = bisect_left(here, k)
        return self.written(name, here[n - 1]) if n else self.entering(name, block)

    def written(self, name: str, k: int) -> int:
        """The version that instruction ``k`` writes."""
        found = self._written.get((name, k))
        if found is None:
            found = self._written[name, k] = self._new(name, self.flow.block_of[k], k)
        return found

    def entering(self, name: str, block: int) -> int:
        """The version that a register has where a block begins."""
        found = self._entry(name, block)
        made: list[int] = []
        while self._pending:
            v = self._pending.pop()
            made.append(v)
            at = self.block[v]
            self._merged[v] = [(p, self._leaving(name, p)) for p in self._before(at)]
            if at == 0:
                self._merged[v].append((-1, self.unset(name)))
        self._simplify(made)
        return self._find(found)

    def merged(self, v: int) -> list[tuple[int, int]]:
        """What a version merges: blocks, and the versions that come from them; -1: before the function."""
        return [(b, self._find(x)) for b, x in self._merged.get(v, ())]

    def is_unset(self, v: int) -> bool:
        """Whether a version is what a register holds before anything was written."""
        return self._unset.get(self.name[v]) == v

    def unset(self, name: str) -> int:
        """The version of a register that nothing has written."""
        found = self._unset.get(name)
        if found is None:
            found = self._unset[name] = self._new(name, 0, -1)
        return found

    # ------------------------------------------------------------

    def _new(self, name: str, block: int, k: int) -> int:
        self.name.append(name)
        self.block.append(block)
        self.writer.append(k)
        return len(self.name) - 1

    def _before(self, block: int) -> list[int]:
        return [p for p in self.flow.blocks[block].pred if p in self.flow.reached]

    def _leaving(self, name: str, block: int) -> int:
        here = self.writes.get(name, {}).get(block)
        return self.written(name, here[-1]) if here else self._entry(name, block)

    def _entry(self, name: str, block: int) -> int:
        passed: list[int] = []
        while True:
            found = self._entering.get((name, block))
            if found is not None:
                break
            passed.append(block)
            before = self._before(block)
            if not before:
                found = self.unset(name)
                break
            if len(before) > 1 or block == 0:
                found = self._new(name, block, -1)
                self._pending.append(found)
                break
            block = before[0]
            here = self.writes.get(name, {}).get(block)
            if here:
                found = self.written(name, here[-1])
                break
        for b in passed:
            self._entering[name, b] = found
        return found

    def _find(self, v: int) -> int:
        while v in self._same:
            v = self._same[v]
        return v

    def _simplify(self, made: list[int]) -> None:
        """Replaces merges of one version alone by that version."""
        grown = True
        while grown:
            grown = False
            for v in made:
                if v in self._same:
                    continue
                found = {self._find(x) for _, x in self._merged[v]} - {v}
                if len(found) == 1:
                    self._same[v] = found.pop()
                    grown = True


__all__ = ["Versions"]
