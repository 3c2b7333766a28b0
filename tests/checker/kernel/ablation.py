"""The rules of the kernel, and how tests leave each out. Nothing of this is in the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest.mock import patch

from syncverify.checker.kernel import accounting, hops, obligations, ranks, trees
from syncverify.checker.kernel.linear import equal
from syncverify.checker.kernel.protocol import Level

accept = import_module("syncverify.checker.kernel.accept")
Off = Callable[[], Iterator[AbstractContextManager[Any]]]


@dataclass(frozen=True, slots=True)
class Rule:
    """``families``: right protocols that it matters for; none: all."""

    off: Off
    families: tuple[str, ...] = ()


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _without(*rules: str) -> Off:
    """Some obligations are not owed; trees for them are surplus, which is then no reason to reject."""

    def off() -> Iterator[AbstractContextManager[Any]]:
        for name in ("owed", "growing"):
            real = getattr(accept, name)
            yield patch.object(
                accept, name, lambda *a, r=real: (o for o in r(*a) if not o.rule.startswith(rules))
            )
        yield _surplus()

    return off


def _surplus() -> AbstractContextManager[Any]:
    """Surplus trees are accepted."""
    real = accept._Kernel.run

    def run(self: Any) -> None:
        before = dict(self.proof.trees)
        try:
            real(self)
        except accept.RejectedError as e:
            if "which nobody asks for" not in str(e):
                raise
        assert before == self.proof.trees

    return patch.object(accept._Kernel, "run", run)


def _put(owner: Any, name: str, new: Any) -> Off:
    return lambda: iter([patch.object(owner, name, new)])


def _everywhere(name: str, *owners: Any) -> Off:
    return lambda: (patch.object(owner, name, _nothing) for owner in owners)


def _demand(**changed: Any) -> Off:
    real = obligations.Demand
    return _put(obligations, "Demand", lambda **k: real(**{**k, **changed}))


def _unique(real: Callable[..., None]) -> Callable[..., None]:
    """Whether other events land in the turn is not looked at."""

    def check(p: Any, premises: Any, tree: Any, needs: Any, scope: frozenset[str]) -> None:
        if "u'" not in scope or "j" not in scope:
            real(p, premises, tree, needs, scope)

    return check


def _existing(real: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    """The events of a turn need not exist."""

    def needs(self: Any, payload: Any, premises: Any, scope: frozenset[str]) -> Sequence[Any]:
        found = list(real(self, payload, premises, scope))
        return [t for t in found if "j" in t.names()]

    return needs


def _one_level(self: Any, a: Any, b: Any, level: int) -> list[Any]:
    """Program order by its deciding level alone."""
    low, high = self.position(a), self.position(b)
    return [high[level] - low[level] - 1, *self.exists(b)]


def _absent(self: Any, a: Any, b: Any, level: int) -> list[Any]:
    from syncverify.checker.kernel.linear import lexicographic

    if hops.Half.DONE in (a.half, b.half) or self.sites[a.site].role != self.sites[b.site].role:
        raise hops.RejectedError("no program order between these")
    return [*lexicographic(self.position(a), self.position(b), level)]


def _any_turn(self: Any, a: Any, b: Any, causal: bool) -> list[Any]:
    """A wait follows all contributions of its ring."""
    x, y = self.sites[a.site].op, self.sites[b.site].op
    if x.kind not in hops.CONTRIBUTIONS or x.ring != y.ring:
        raise hops.RejectedError("no contribution to the wait's ring")
    return [*self.exists(b)]


def _few_commits(self: Any, a: Any, b: Any, how: Any, reach: Level) -> Any:
    """A drain is complete whatever it leaves pending."""
    if self.sites[a.site].op.kind is not hops.Kind.ASYNC or self.sites[b.site].op.kind is not hops.Kind.DRAIN:
        raise hops.RejectedError("no drain of the operation's group")
    return [*equal(a.u, a.u)][:0], max(reach, Level.WARPGROUP)


def _of_one_version(real: Callable[..., Any]) -> Callable[..., Any]:
    """Accesses of one version are not ordered, whatever they are."""

    def goal(g: Any, x: Any, y: Any, either: Any) -> Any:
        return None if x.version is not None and x.version == y.version else real(g, x, y, either)

    return goal


RULES: dict[str, Rule] = {
    "nothing is left out": Rule(lambda: iter(())),
    **{
        f"{x} is not owed": Rule(_without(x))
        for x in (
            "O1",
            "O2",
            "O3",
            "O4",
            "O5",
            "O6",
            "in",
            "means",
            "slot",
            "once",
            "apart",
            "depth",
            "hazard",
            "rank",
        )
    },
    "sums of a turn": Rule(_put(accounting.Account, "total", _nothing)),
    "who else lands in a turn": Rule(_put(accounting, "check", _unique(accounting.check))),
    "events of a turn exist": Rule(_put(accounting.Account, "needs", _existing(accounting.Account.needs))),
    "all turns have accounts": Rule(_put(accept, "account", _nothing)),
    "whole warps meet": Rule(_put(accounting.Account, "meeting", _nothing)),
    "registers fit the pool": Rule(_put(accept, "registers", _nothing), ("register pool",)),
    "one order at a barrier": Rule(_put(accept, "shared_barriers", _nothing)),
    "claims are numbers and closed": Rule(_put(accept._Kernel, "claims", _nothing)),
    "protocols are well formed": Rule(_put(accept, "malformed", _nothing)),
    "sums are checked": Rule(_put(trees, "follows", _nothing)),
    "terms are in scope": Rule(_everywhere("scoped", trees, obligations, accounting)),
    "paths lead from all to all": Rule(_put(hops.Graph, "between", lambda *_: Level.THREAD)),
    "bridges": Rule(_demand(bridge=False)),
    "uses bridge where there is none": Rule(_put(hops.Graph, "_used", lambda *_: True)),
    "causality": Rule(_demand(causal=False)),
    "program order is lexicographic": Rule(_put(hops.Graph, "order", _one_level)),
    "steps of a path exist": Rule(_put(hops.Graph, "order", _absent)),
    "turns of a hop agree": Rule(_put(hops.Graph, "_waited", _any_turn)),
    "drains leave groups pending": Rule(_put(hops.Graph, "_drained", _few_commits)),
    "accesses meet": Rule(_put(obligations, "overlap", lambda *_: None)),
    "versions come in order": Rule(_put(obligations, "_goal", lambda g, x, y, either: either)),
    "one version is of writes alone": Rule(_put(obligations, "_goal", _of_one_version(obligations._goal))),
    "edges of drains": Rule(_put(ranks, "_drains", lambda _: ())),
    "edges of turns": Rule(_put(ranks, "_meeting", lambda _: ())),
    "edges of register pools": Rule(_without("registers"), ("register pool",)),
}
