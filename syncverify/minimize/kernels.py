"""Minimizing a kernel of the IR: one statement after the other is left out and the rest checked again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.driver.ir_advice import exchanges_globally
from syncverify.driver.launch_values import launch_values
from syncverify.ir.nodes import Kernel, Stmt, WgmmaFence
from syncverify.minimize.candidates import joins_lanes, protocols, synchronizing, taken_out
from syncverify.minimize.reasons import Reason
from syncverify.passes.edits import Path, statement


@dataclass(frozen=True, slots=True)
class Removal:
    """Statements that can go together; more than one where each alone would be missed by the others."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """Statements that the proof does without, and why they stay."""

    stmts: tuple[Stmt, ...]
    reason: Reason


@dataclass(frozen=True, slots=True)
class Minimized:
    """What came of one kernel. ``report``: the check of the kernel as it was; unless that is ``proved``,
    nothing was tried. ``total``: its synchronizing statements."""

    kernel: Kernel
    report: KernelReport
    total: int = 0
    removed: tuple[Removal, ...] = ()
    kept: tuple[Kept, ...] = ()

    @property
    def needed(self) -> int:
        """Statements that the checker needs: without any one of them the kernel is not proved."""
        gone = sum(len(r.stmts) for r in self.removed)
        return self.total - gone - sum(len(k.stmts) for k in self.kept)


def minimize(
    kernel: Kernel,
    values: Mapping[str, int] | None = None,
    policy: Policy = Policy.PRACTICAL,
    scope: ScopeKind = ScopeKind.ALL,
) -> Minimized:
    """Leaves out every synchronizing statement in turn, and keeps those without which a check says less.

    A statement can go if the kernel without it is proved under the same policy, for the same launches, and
    with no finding that it lacked. Removals add up: all of them hold together. ``values`` and ``scope`` are
    those of ``check_kernel``. Raises InputError for a kernel that is not well formed.
    """
    report = check_kernel(kernel, values, policy, scope=scope)
    if report.verdict is not Verdict.PROVED:
        return Minimized(kernel, report)
    search = _Search(kernel, dict(values or {}), policy, scope, report)
    search.run()
    total = len(synchronizing(kernel.body))
    return Minimized(search.kernel, report, total, tuple(search.removed), tuple(search.kept))


@dataclass(slots=True)
class _Search:
    kernel: Kernel
    values: dict[str, int]
    policy: Policy
    scope: ScopeKind
    report: KernelReport
    removed: list[Removal] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def run(self) -> None:
        """Single statements first, last ones before first ones, then what is only of use together.

        After a removal everything is tried again: what served only what is gone can go as well.
        """
        tried: list[tuple[Stmt, ...]] = []
        while (found := self._untried(tried)) is not None:
            gone, stmts = found
            tried.append(stmts)
            if self._try(gone, stmts):
                tried.clear()

    def _untried(self, tried: list[tuple[Stmt, ...]]) -> tuple[frozenset[Path], tuple[Stmt, ...]] | None:
        body = self.kernel.body
        singles = [frozenset({p}) for p in sorted(synchronizing(body), reverse=True)]
        for gone in (*singles, *protocols(body)):
            stmts = tuple(statement(body, p) for p in sorted(gone))
            if not any(_same(stmts, t) for t in tried):
                return gone, stmts
        return None

    def _try(self, gone: frozenset[Path], stmts: tuple[Stmt, ...]) -> bool:
        if len(stmts) == 1 and any(_holds(stmts, k.stmts) for k in self.kept):
            return False
        variant = taken_out(self.kernel, gone)
        exact = self._exact(variant, self.policy)
        if exact is not None and exact.verdict is not Verdict.PROVED:
            return False
        found = check_kernel(variant, self.values, self.policy, scope=self.scope)
        if found.verdict is not Verdict.PROVED or found.scope.kind is not self.report.scope.kind:
            if exact is not None and len(stmts) == 1:
                self.kept.append(Kept(stmts, Reason.SIZES))
            return False
        reason = self._reason(gone, variant, found)
        if reason is None:
            self.kernel = variant
            self.removed.append(Removal(stmts))
            self.kept = [k for k in self.kept if not _holds(stmts, k.stmts)]
        elif len(stmts) == 1:
            self.kept.append(Kept(stmts, reason))
        return reason is None

    def _reason(self, gone: frozenset[Path], variant: Kernel, found: KernelReport) -> Reason | None:
        """Why something stays without which the kernel is proved; None if it can go."""
        known = {(d.rule, d.span) for d in self.report.diagnostics}
        if not {(d.rule, d.span) for d in found.diagnostics} <= known:
            return Reason.CONTESTED
        if exchanges_globally(self.kernel):
            return Reason.GLOBAL
        if any(joins_lanes(self.kernel.body, p) for p in gone):
            return Reason.CONVERGENCE
        if all(isinstance(statement(self.kernel.body, p), WgmmaFence) for p in gone):
            return Reason.ASSEMBLER
        if self._missed_elsewhere(variant):
            return Reason.POLICY
        return None

    def _exact(self, variant: Kernel, policy: Policy) -> KernelReport | None:
        """A check for numbers, which refutes most variants at a fraction of the cost of all sizes.

        None where some parameter has neither a value nor a default.
        """
        bound, missing = launch_values(variant, self.values)
        return None if missing else check_kernel(variant, bound, policy)

    def _missed_elsewhere(self, variant: Kernel) -> bool:
        """Whether the other policy proves the kernel, and the variant no more."""
        other = Policy.STRICT if self.policy is Policy.PRACTICAL else Policy.PRACTICAL
        before, after = self._exact(self.kernel, other), self._exact(variant, other)
        if before is None or after is None:
            return False
        return before.verdict is Verdict.PROVED and after.verdict is not Verdict.PROVED


def _same(a: tuple[Stmt, ...], b: tuple[Stmt, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _holds(stmts: tuple[Stmt, ...], kept: tuple[Stmt, ...]) -> bool:
    return any(s is k for s in stmts for k in kept)
