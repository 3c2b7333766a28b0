"""Roles inside the loop that they share: the form in which the synthesizing passes take a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from syncverify.ir.expr import Int
from syncverify.ir.nodes import BulkLoad, BulkStore, For, Kernel, Let, Role, Stmt
from syncverify.passes.rewrite import contains
from syncverify.passes.roles import COMPUTE, merge_roles


@dataclass(frozen=True)
class InlineRoles:
    """Gives every statement of a tile loop to a role: copies of each barrier of ``loads`` to a warp of their
    own, bulk stores to one more, and all else, in the loop and behind it, to ``compute_warps`` warps.

    Compute warps come first, so that ``tid`` counts them from 0; then the loads, then the stores.
    """

    loads: Mapping[str, int]
    compute_warps: int
    name: str = "inline-roles"

    def apply(self, kernel: Kernel) -> Kernel:
        body = tuple(s if isinstance(s, Let) else self._placed(s) for s in kernel.body)
        threads = (self.compute_warps + len(self.loads) + 1) * 32
        return replace(kernel, body=body, launch=replace(kernel.launch, block=(threads, 1, 1)))

    def _placed(self, s: Stmt) -> Stmt:
        if isinstance(s, For) and contains(s, (BulkLoad, BulkStore)):
            return replace(s, body=merge_roles(tuple(self._role(x) for x in s.body)))
        return self._role(s)

    def _role(self, s: Stmt) -> Stmt:
        match s:
            case Let():
                return s
            case BulkLoad(bar=bar):
                warp = self.loads[bar.name]
                return self._warp(f"load{warp}", warp, s)
            case BulkStore():
                return self._warp("store", len(self.loads), s)
        return Role(COMPUTE, "warps", Int(0), Int(self.compute_warps), (s,))

    def _warp(self, name: str, number: int, s: Stmt) -> Role:
        at = self.compute_warps + number
        return Role(name, "warps", Int(at), Int(at + 1), (s,))
