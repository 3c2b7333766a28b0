"""Proofs for every size of a kernel, and the smallest size that refutes it. See ``docs/symbolic.md``.

A parameter that nothing depends on (a batch, a grid) needs no number. One that steers is studied: each
remainder modulo the periods in use is a family of sizes, proved by a cycle and its tails. What is
refuted is refuted by the exact check of the smallest such size; what is neither is ``unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from syncverify.checker import Outcome, check
from syncverify.checker.engine import Unmodelled
from syncverify.checker.explore.lasso import Limits, Spine, spine, tail
from syncverify.diagnostics import Diagnostic, Policy, Verdict
from syncverify.ir.execute import IrSystem
from syncverify.ir.execute_sized import sized_systems
from syncverify.ir.expr import Binary, Call, Expr, Int, Var, evaluate, names
from syncverify.ir.nodes import Kernel
from syncverify.model.events import LaneSplit
from syncverify.model.symbols import Family, Matters, NeedsPeriod, NotUniform, SizedSystem, Symbolic
from syncverify.model.terms import Space
from syncverify.source import InputError

#: Remainders are taken one by one up to this period.
MAX_PERIOD = 128
#: Class splits and changes of what is studied, after which the search gives up.
MAX_RESTARTS = 256
#: Sizes checked before all else.
EARLY = 4
#: Where sizes cannot be proved together, exact checks of this many, each below its least plus ``SMALL``.
MOST_SMALL, SMALL = 48, 16
_FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel whose sizes have no number, whatever front end it came from.

    ``sizes``: the open ones, with their type's range. ``facts``: conditions over them and over nothing else.
    ``systems``: the systems that together stand for every launch, given what stands for each size (an int or
    a ``Term``) and the space that the terms live in; they may be asked for more than once. ``exact``: the
    verdict for numbers; it has the last word on every refutation. ``defaults``: numbers for sizes that do not
    matter. ``fixed``: what else ``exact`` is given.
    """

    sizes: Mapping[str, tuple[int, int]]
    facts: tuple[Expr, ...]
    systems: Callable[[Mapping[str, Any], Space], Iterable[SizedSystem]]
    exact: Callable[[Mapping[str, int]], Verdict]
    defaults: Mapping[str, int] = field(default_factory=dict)
    fixed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Effort:
    """What a proof may cost; counts, so that two runs agree."""

    limits: Limits = Limits()
    events: int = 1_500_000  # of all exact runs together
    sizes: int = 4_000  # exact runs


@dataclass(slots=True)
class Sized:
    """What is known of all sizes. ``values``: where the kernel is refuted; ``reason``: why it is unknown."""

    verdict: Verdict
    studied: str | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    stats: dict[str, int] = field(default_factory=dict)


def all_sizes(
    kernel: Kernel,
    given: Mapping[str, int],
    policy: Policy,
    exact: Callable[[Mapping[str, int]], Verdict],
    effort: Effort = Effort(),
) -> Sized:
    """Whether the kernel is right for all values of the parameters that ``given`` does not fix.

    ``exact`` is the exact check of the kernel; it has the last word on every refutation.
    """
    values = {p.name: p.default if p.default is not None else 1 for p in kernel.params} | dict(given)
    open_ = [p.name for p in kernel.params if p.name not in given]
    fixed = {p: _pinned(kernel, p) for p in open_}
    values |= {p: v for p, v in fixed.items() if v is not None}
    open_ = [p for p in open_ if fixed[p] is None]
    found, steering = _search(kernel, values, open_, policy, exact, effort)
    if found.verdict is Verdict.UNKNOWN and not found.values:
        refuted = smallest(kernel, values, steering or open_, exact)
        if refuted is not None:
            return Sized(Verdict.REFUTED, found.studied, refuted)
    return found


def _search(
    kernel: Kernel,
    values: Mapping[str, int],
    open_: list[str],
    policy: Policy,
    exact: Callable[[Mapping[str, int]], Verdict],
    effort: Effort,
) -> tuple[Sized, list[str]]:
    """The verdict over the size that steers, and the names of all that were found to."""
    study: str | None = None
    while True:
        search = _Search(kernel, values, study, tuple(p for p in open_ if p != study), policy, exact, effort)
        steering = [study] if study is not None else []
        try:
            return search.run(), steering
        except Matters as e:
            if study is None and e.name in open_:
                study = e.name
                continue
            steering.append(e.name)
            reason = f"sizes that steer together: {' and '.join(steering)}"
        except (Symbolic, Unmodelled) as e:
            reason = str(e)
        except InputError as e:
            reason = e.message
        return Sized(Verdict.UNKNOWN, study, reason=reason), [x for x in steering if x in open_]


def smallest(
    kernel: Kernel,
    values: Mapping[str, int],
    steering: list[str],
    exact: Callable[[Mapping[str, int]], Verdict],
) -> dict[str, int] | None:
    """The smallest sizes, by their sum, that the exact check refutes, among the first few."""
    ranges = [bounds(kernel, name)[0] or 0 for name in steering]
    choices = product(*(range(low, low + SMALL) for low in ranges))
    for tried, some in enumerate(sorted(choices, key=lambda x: (sum(x), x))):
        if tried == MOST_SMALL:
            return None
        sizes = {**values, **dict(zip(steering, some, strict=True))}
        if not all(_true(f, sizes) for f in kernel.assumes):
            continue
        try:
            if exact(sizes) is Verdict.REFUTED:
                return sizes
        except InputError:
            continue  # no such launch
    return None


@dataclass(slots=True)
class _Job:
    """One system and one family of its sizes, with what its spine came to."""

    system: IrSystem
    family: Family
    spine: Spine


@dataclass(slots=True)
class _Search:
    kernel: Kernel
    values: Mapping[str, int]
    study: str | None
    free: tuple[str, ...]
    policy: Policy
    exact: Callable[[Mapping[str, int]], Verdict]
    effort: Effort
    period: int = 1
    events: int = 0
    runs: int = 0
    notes: dict[tuple[object, ...], Diagnostic] = field(default_factory=dict)

    def run(self) -> Sized:
        while True:
            try:
                systems = list(sized_systems(self.kernel, self.values, self.study, self.free, self.period))
                if self.study is None:
                    return self.without_size(systems)
                early = self.early(systems)
                if early is not None:
                    return early
                return self.judge([job for system in systems for job in self.jobs(system)])
            except NeedsPeriod as e:
                self.period *= e.factor
                if self.period > MAX_PERIOD:
                    raise Symbolic(f"{self.study} is taken modulo {self.period} and more") from None

    def stats(self, jobs: list[_Job]) -> dict[str, int]:
        return {
            "families": len(jobs),
            "period": self.period,
            "points": sum(j.spine.points for j in jobs),
            "runs": self.runs,
            "events": self.events + sum(j.spine.events for j in jobs),
        }

    def without_size(self, systems: list[IrSystem]) -> Sized:
        for system in systems:
            outcome = self.check(system)
            if outcome.verdict is not Verdict.PROVED:
                return self.confirmed(dict(self.values), outcome.reason)
        return Sized(Verdict.PROVED, None, diagnostics=tuple(self.notes.values()), stats=self.stats([]))

    def early(self, systems: list[IrSystem]) -> Sized | None:
        """A refutation by one of the first few sizes, before anything dearer is tried."""
        assert self.study is not None
        low, high = bounds(self.kernel, self.study)
        for size in range(low or 0, (low or 0) + EARLY):
            for system in systems if self.allowed(size, low, high) else []:
                if self.check(system.sized(size)).verdict is Verdict.REFUTED:
                    found = self.at(size, None)
                    if found is not None and found.verdict is Verdict.REFUTED:
                        return found
        return None

    def jobs(self, system: IrSystem) -> list[_Job]:
        """Spines of all families of a system; classes split until they go through."""
        for _ in range(MAX_RESTARTS):
            try:
                return [
                    _Job(system, f, spine(system, f, self.policy, self.effort.limits))
                    for f in self.families()
                ]
            except LaneSplit as split:
                system = system.refined(split)
        raise Symbolic("lane classes did not settle")

    def families(self) -> Iterator[Family]:
        low, _ = bounds(self.kernel, self.study or "")
        for r in range(self.period):
            if self.possible(Family(self.period, r, 0)):
                yield Family(self.period, r, 0)
        if low is None or low < 0:
            for r in range(self.period):
                if self.possible(Family(-self.period, -1 - r, 0)):
                    yield Family(-self.period, -1 - r, 0)

    def possible(self, family: Family) -> bool:
        """Whether the kernel's own facts on remainders allow some size of the family."""
        facts = [f for f in conjuncts(self.kernel) if names(f) == {self.study} and _modular(f, self.period)]
        return all(_true(f, {str(self.study): family.size(0)}) for f in facts)

    # ------------------------------------------------------------ exact runs

    def check(self, system: IrSystem) -> Outcome:
        self.runs += 1
        outcome = check(system, self.policy)
        self.events += int(outcome.stats.get("events", 0))
        if self.events > self.effort.events or self.runs > self.effort.sizes:
            raise Symbolic(f"the runs up to where states repeat exceed {self.effort.events} events")
        for d in outcome.diagnostics:
            self.notes.setdefault((d.rule, d.span, d.contested), d)
        return outcome

    def judge(self, jobs: list[_Job]) -> Sized:
        """Tails first; then exact runs, in the order of sizes, of whatever they do not cover."""
        assert self.study is not None
        low, high = bounds(self.kernel, self.study)
        plan: list[tuple[int, int, int, _Job]] = []
        covered: set[int] = set()
        reason: str | None = None
        for i, job in enumerate(jobs):
            sizes, clean, open_end = self.tails(job)
            reason = reason or open_end
            covered |= {abs(job.family.size(m)) for m in clean}
            plan += [(abs(job.family.size(m)), m, i, job) for m in sizes]
        undecided: Sized | None = None
        for _, m, _, job in sorted(plan, key=lambda x: x[:3]):
            size = job.family.size(m)
            if not self.allowed(size, low, high):
                continue
            outcome = self.check(job.system.sized(size))
            if outcome.verdict is not Verdict.PROVED:
                found = self.at(size, outcome.reason)
                if found is not None and found.verdict is Verdict.REFUTED:
                    return found
                undecided = undecided or found
        if undecided is not None:
            return undecided
        everything = high is not None and self.enumerated(covered | {x[0] for x in plan}, low or 0, high)
        if reason is not None and not everything:
            return Sized(Verdict.UNKNOWN, self.study, reason=reason, stats=self.stats(jobs))
        notes = tuple(self.notes.values())
        return Sized(Verdict.PROVED, self.study, diagnostics=notes, stats=self.stats(jobs))

    def tails(self, job: _Job) -> tuple[list[int], list[int], str | None]:
        """The m left to exact runs, the m whose tails are clean after any number of cycles, and why the
        others may not be."""
        cycle = job.spine.cycle
        if cycle is None:
            reason = f"large {self.study} fails, as no exact run shows" if job.spine.failed else None
            return [*range(job.spine.threshold + 1), *self.beyond(job)], [], reason
        sizes = [*range(cycle.first.threshold + 1), cycle.second.threshold]
        clean: list[int] = []
        reason = None
        for m in range(cycle.first.threshold + 1, cycle.second.threshold + 1):
            size = job.family.size(m)
            sizes.append(m)
            try:
                if tail(job.system, job.family, cycle, m, self.policy, self.effort.limits):
                    clean.append(m)
                    sizes.pop()
                elif check(job.system.sized(size), self.policy).verdict is not Verdict.PROVED:
                    reason = reason or f"the run for {self.study} = {size} is not clean"
            except NotUniform as e:
                reason = reason or f"the end of the run for {self.study} = {size}: {e}"
            except LaneSplit:
                reason = reason or f"lanes part at the end of the run for {self.study} = {size} only"
        return sizes, clean, reason

    def beyond(self, job: _Job) -> list[int]:
        """One size above the threshold of a spine that ended: all of them run alike."""
        low, high = bounds(self.kernel, self.study or "")
        first = job.spine.threshold + 1
        if low is not None:
            first = max(first, (low - job.family.remainder) // job.family.period)
        found = next(
            (m for m in range(first, first + 1024) if self.allowed(job.family.size(m), low, high)), None
        )
        if found is None and high is None:
            raise Symbolic(f"no size beyond {job.family.size(first)} keeps the assumptions")
        return [] if found is None else [found]

    def allowed(self, size: int, low: int | None, high: int | None) -> bool:
        if (low is not None and size < low) or (high is not None and size > high):
            return False
        facts = [f for f in conjuncts(self.kernel) if names(f) == {self.study}]
        return all(_true(f, {str(self.study): size}) for f in facts)

    def enumerated(self, seen: set[int], low: int, high: int) -> bool:
        """Whether the sizes seen are all that there are."""
        return low >= 0 and seen >= {s for s in range(low, high + 1) if self.allowed(s, low, high)}

    def at(self, size: int, reason: str | None) -> Sized | None:
        """What the exact check says of one size; None if no such launch exists (an empty grid, say)."""
        try:
            return self.confirmed({**self.values, str(self.study): size}, reason)
        except InputError:
            return None

    def confirmed(self, values: Mapping[str, int], reason: str | None) -> Sized:
        """A refutation, if the exact check of the kernel itself agrees; facts about other sizes are kept."""
        found = repaired(self.kernel, values, self.study)
        if found is None:
            return Sized(
                Verdict.UNKNOWN, self.study, reason="no launch values that keep the assumptions were found"
            )
        verdict = self.exact(found)
        if verdict is Verdict.REFUTED:
            return Sized(Verdict.REFUTED, self.study, found, stats={"runs": self.runs, "events": self.events})
        shown = ", ".join(f"{k} = {v}" for k, v in found.items())
        return Sized(Verdict.UNKNOWN, self.study, found, reason=f"with {shown}: {reason or 'not decided'}")


# ---------------------------------------------------------------- facts about sizes


def conjuncts(kernel: Kernel) -> list[Expr]:
    """The ``assume`` lines, taken apart at ``and``."""
    out: list[Expr] = []
    work = list(kernel.assumes)
    while work:
        e = work.pop(0)
        if isinstance(e, Binary) and e.op == "and":
            work = [e.left, e.right, *work]
        else:
            out.append(e)
    return out


def bounds(kernel: Kernel, name: str) -> tuple[int | None, int | None]:
    """What the kernel's own facts say of a parameter's range; a grid has at least one block."""
    low: int | None = None
    high: int | None = None
    for f in conjuncts(kernel):
        match f:
            case Binary(op, Var(n), Int(v)) if n == name and op in _FLIP:
                pass
            case Binary(op, Int(v), Var(n)) if n == name and op in _FLIP:
                op = _FLIP[op]
            case _:
                continue
        if op in (">", ">=", "=="):
            low = max(v + (op == ">"), low if low is not None else v)
        if op in ("<", "<=", "=="):
            high = min(v - (op == "<"), high if high is not None else v)
    for e in kernel.launch.grid if low is None else ():
        match e:
            case Var(n) | Call("cdiv", (Var(n), Int())) if n == name:
                low = 1
            case Binary("//", Var(n), Int(v)) if n == name:
                low = v
    if low is None and any(p.name == name and p.dtype.startswith("u") for p in kernel.params):
        low = 0
    return low, high


def _pinned(kernel: Kernel, name: str) -> int | None:
    """The only value that the kernel's facts allow, if there is one."""
    low, high = bounds(kernel, name)
    return low if low is not None and low == high else None


def _modular(f: Expr, period: int) -> bool:
    """Whether a fact has the same truth for all sizes of one remainder."""
    match f:
        case Binary("==" | "!=", Binary("%", Var(), Int(m)), Int()):
            return period % m == 0
    return False


def _true(f: Expr, values: Mapping[str, int]) -> bool:
    try:
        return bool(evaluate(f, values))
    except (KeyError, ZeroDivisionError):
        return False


def repaired(kernel: Kernel, values: Mapping[str, int], study: str | None) -> dict[str, int] | None:
    """Values that keep all assumptions, other sizes changed where they must be."""
    found = dict(values)
    if all(_true(f, found) for f in kernel.assumes):
        return found
    from syncverify.ir import solver

    facts: list[Expr] = [*kernel.assumes]
    if study is not None:
        facts.append(Binary("==", Var(study), Int(values[study])))
    facts += [Binary(">=", Var(p.name), Int(1)) for p in kernel.params if p.name != study]
    model = solver.model(facts)
    return None if model is None else {**found, **{k: v for k, v in model.items() if k in found}}


__all__ = ["Effort", "Sized", "all_sizes", "bounds"]
