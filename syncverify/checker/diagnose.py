"""From failures to findings: one mistake gives one error, its consequences become notes."""

from __future__ import annotations

from dataclasses import dataclass

from syncverify.checker.engine import Run
from syncverify.checker.failure import Failure, Obligation
from syncverify.diagnostics import Diagnostic, Label, Policy, Severity

#: Failures of the barrier protocol: one mistake usually breaks several.
PROTOCOL = frozenset(
    {Obligation.O1, Obligation.O2, Obligation.O3, Obligation.O4, Obligation.O6, Obligation.O7, Obligation.OVERFLOW}
)
#: Mistakes that make everything after them meaningless.
FIRST = frozenset({Obligation.UB, Obligation.SYNC, Obligation.O5})


@dataclass(frozen=True, slots=True)
class Group:
    """A root failure and what follows from it."""

    root: Failure
    consequences: tuple[Failure, ...]


def group(failures: list[Failure], hang: Failure | None) -> list[Group]:
    """Splits failures into mistakes, most important first."""
    errors = [f for f in failures if f.severity == Severity.ERROR]
    protocol = [f for f in errors if f.obligation in PROTOCOL]
    if hang is not None:
        protocol.append(hang)
    sync = [f for f in errors if f.rule in ("SV301", "SV302", "SV303")]
    early = sorted((f for f in errors if f.obligation in FIRST and f not in sync), key=lambda f: f.position)
    registers = [f for f in errors if f.obligation == Obligation.O8]
    races = [f for f in errors if f.obligation == Obligation.RACE]
    groups: list[Group] = []
    if sync:
        root = min(sync, key=lambda f: f.position)
        groups.append(Group(root, tuple(f for f in [*sync, *protocol, *races] if f is not root)))
        protocol, races = [], []
    elif protocol:
        root = protocol_root(protocol)
        cause = next((f for f in early if f.position <= root.position and f.rule != "SV211"), None)
        rest = tuple(f for f in [*protocol, *races] if f is not root)
        if cause is not None:
            groups.append(Group(cause, (root, *rest)))
            early.remove(cause)
        else:
            groups.append(Group(root, rest))
        races = []
    groups += _by_rule(early)
    groups += _by_rule(registers)
    groups += _races(races)
    return groups


def protocol_root(failures: list[Failure]) -> Failure:
    """An open phase whose accounting is broken first, then the earliest; a bare hang last."""
    open_phase = [f for f in failures if f.obligation == Obligation.O4 and f.past is None]
    if open_phase:
        return open_phase[0]
    aliased = [f for f in failures if f.obligation == Obligation.O7]
    others = [f for f in failures if f.obligation not in (Obligation.O6, Obligation.O7)]
    return min(others or aliased or failures, key=lambda f: f.position)


def _by_rule(failures: list[Failure]) -> list[Group]:
    groups: dict[tuple[str, int], list[Failure]] = {}
    for f in failures:
        groups.setdefault((f.rule, f.barrier if f.rule == "SV208" else -1), []).append(f)
    return [Group(fs[0], tuple(fs[1:])) for fs in groups.values()]


def _races(races: list[Failure]) -> list[Group]:
    """Races that share an access belong to one mistake."""
    groups: list[list[Failure]] = []
    for f in sorted(races, key=lambda f: f.position):
        for g in groups:
            if any(_related(f, o) for o in g):
                g.append(f)
                break
        else:
            groups.append([f])
    return [Group(g[0], tuple(g[1:])) for g in groups]


def _sites(f: Failure) -> set[int]:
    return {r.site for r in (f.first, f.second) if r is not None}


def _related(a: Failure, b: Failure) -> bool:
    return bool(_sites(a) & _sites(b)) or not _sites(a) or not _sites(b)


# ------------------------------------------------------------------ text


def diagnostic(run: Run, f: Failure, policy: Policy, severity: Severity | None = None) -> Diagnostic:
    """One failure as a finding."""
    sites = run.info.sites
    labels = [Label(sites[s].span, text) for s, text in f.labels if s >= 0]
    if f.first is not None and f.first.site != f.site:
        labels.append(Label(sites[f.first.site].span, "the other access"))
    return Diagnostic(
        rule=f.rule, severity=severity or f.severity, message=f.message, span=sites[f.site].span, fix=f.fix or fix_of(run, f),
        contested=f.contested, related=tuple(labels),
    )  # fmt: skip


_FIX = {
    "SV101": "fence.proxy.async.shared_cta by every writer, after its last write and before the hand-over",
    "SV102": "move the proxy fence behind the last write and before the hand-over",
    "SV103": "name shared memory in the fence: fence.proxy.async.shared_cta",
    "SV105": "use the values before the hand-over, or put fence.proxy.async.shared_cta between",
    "SV104": "wait for the copy's reads (bulk.wait.read) and let a barrier follow before the write",
    "SV403": "let the thread that issued the operations wait, then hand over through a barrier",
    "SV115": "use cluster scope at both ends",
    "SV110": "order them: wait for the barrier that tells of the first",
    "SV111": "order them: release the buffer only after the reads are done",
    "SV112": "order them: wait for the first to be complete",
    "SV204": "make the init visible first: a barrier (with fence.mbarrier_init for a cluster) between init and use",
}


def fix_of(run: Run, f: Failure) -> str | None:
    return _FIX.get(f.rule)
