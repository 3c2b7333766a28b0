"""Verdicts for every number of stages of a kernel. See ``docs/stages.md``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from syncverify.base.diagnostics import Diagnostic, Policy, Verdict
from syncverify.base.source import InputError
from syncverify.checker.prover.parametric.strategy import ParametricResult, all_sizes
from syncverify.checker.prover.rings.agents import extract
from syncverify.checker.prover.rings.certificate import Certificate
from syncverify.checker.prover.rings.extract import elections, known
from syncverify.checker.prover.rings.fixed import with_fixed
from syncverify.checker.prover.rings.linear import Facts, Lin, OutsideError, linear, num, var
from syncverify.checker.prover.rings.program import Case, stage_parameters
from syncverify.checker.prover.rings.search import NotFoundError, find
from syncverify.checker.prover.rings.validate import Cases, validate
from syncverify.ir.expr import Expr, Int, evaluate, names, substitute
from syncverify.ir.layout import layout
from syncverify.ir.nodes import Kernel

#: Numbers of stages that are checked by themselves before all of them are tried together.
FIRST_ONES = 2
#: Where shared memory allows no more than this many choices, each is proved by itself.
MOST_EACH = 10
#: Numbers of stages among which a mistake is searched.
MOST_TRIED = 5

Exact = Callable[[Mapping[str, int]], Verdict]


@dataclass(frozen=True, slots=True)
class Stages:
    """A proof for every number of stages. ``cases`` leave no launch out; each has its certificate."""

    kernel: Kernel
    cases: Cases
    questions: int = 0


def decide_stages(
    kernel: Kernel, given: Mapping[str, int], policy: Policy, exact: Exact
) -> ParametricResult | None:
    """Whether the kernel is right for every number of stages and all other sizes that ``given`` leaves open.

    None where no open parameter decides how many slots or barriers there are. ``exact`` has the last word
    on every refutation.
    """
    open_ = [p.name for p in kernel.params if p.name not in given]
    few, more = (
        [p for p in open_ if p in some] for some in (stage_parameters(kernel), related_parameters(kernel))
    )
    if not few:
        return None
    found = _Decision(kernel, dict(given), policy, exact, few).run()
    if found.verdict is Verdict.UNKNOWN and more != few:
        return _Decision(kernel, dict(given), policy, exact, more).run()
    return found


@dataclass(slots=True)
class _Decision:
    kernel: Kernel
    given: dict[str, int]
    policy: Policy
    exact: Exact
    stage: list[str]

    def run(self) -> ParametricResult:
        runs = 0
        notes: list[Diagnostic] = []
        tried: list[dict[str, int]] = []
        first: ParametricResult | None = None
        for values in self.choices():
            found = self.at(values)
            tried.append(values)
            runs += found.stats.get("runs", 0)
            notes += found.diagnostics
            if found.verdict is Verdict.REFUTED:
                return found
            first = first or found
            if len(tried) == FIRST_ONES:
                break
        if first is None:
            return ParametricResult(
                Verdict.UNKNOWN, reason="no number of stages keeps the assumptions and fits shared memory"
            )
        reason, hints = first.reason or "not decided", []
        if first.verdict is Verdict.PROVED:
            try:
                return self.together(runs, notes, (tried[0], first))
            except NotFoundError as e:
                reason, hints = str(e), e.sizes
            except OutsideError as e:
                reason = str(e)
        return self.one_by_one(tried, hints, f"for a symbolic number of stages: {reason}", notes)

    def together(
        self, runs: int, notes: list[Diagnostic], one: tuple[Mapping[str, int], ParametricResult]
    ) -> ParametricResult:
        """The proof for all stages at once; NotFoundError or OutsideError where there is none.

        ``one``: what is no matter of stages, proved for one number of them.
        """
        if self.policy is not Policy.PRACTICAL:
            raise OutsideError("strict mode")
        proof = prove_stages(self.kernel, self.given, frozenset(self.stage))
        stats = {
            "runs": runs,
            "obligations": sum(len(c.paths) for _, c in proof.cases),
            "paths": sum(len(some or ()) for _, c in proof.cases for some in c.paths),
            "questions": proof.questions,
        }
        kept = {(d.rule, d.span, d.contested): d for d in notes}
        shown = tuple(kept.values())
        stage = ", ".join(self.stage)
        return ParametricResult(
            Verdict.PROVED, stage, diagnostics=shown, stats=stats, parts=(one,), stages=proof
        )

    def one_by_one(
        self, tried: list[dict[str, int]], hints: list[dict[str, int]], reason: str, notes: list[Diagnostic]
    ) -> ParametricResult:
        """Every number of stages that shared memory allows, if they are few; else some, to refute."""
        every = self.all_choices()
        if every is not None and len(every) <= MOST_EACH:
            wanted = every
        else:
            wanted = [{p: h[p] for p in self.stage if p in h} for h in hints[:3]]
            wanted = [w for w in wanted if set(w) == set(self.stage) and self.launches(w)]
            for count, values in enumerate(self.choices()):
                if count == MOST_TRIED:
                    break
                wanted.append(values)
            wanted.sort(key=lambda v: (sum(v.values()), list(v.values())))
        undecided: str | None = None
        parts: list[tuple[Mapping[str, int], ParametricResult]] = []
        for values in wanted:
            found = self.at(values)
            parts.append((values, found))
            notes += found.diagnostics
            if found.verdict is Verdict.REFUTED:
                return found
            if found.verdict is Verdict.UNKNOWN and undecided is None:
                shown = ", ".join(f"{k} = {v}" for k, v in values.items())
                undecided = f"with {shown}: {found.reason}"
        if every is None or wanted is not every:
            return ParametricResult(Verdict.UNKNOWN, ", ".join(self.stage), reason=reason)
        if undecided is not None:
            return ParametricResult(Verdict.UNKNOWN, ", ".join(self.stage), reason=undecided)
        kept = {(d.rule, d.span, d.contested): d for d in notes}
        stats = {"stages": len(every)}
        stage, notes_ = ", ".join(self.stage), tuple(kept.values())
        return ParametricResult(Verdict.PROVED, stage, diagnostics=notes_, stats=stats, parts=tuple(parts))

    # ------------------------------------------------------------ numbers of stages

    def at(self, values: Mapping[str, int]) -> ParametricResult:
        """All other sizes, with these numbers of stages."""
        given = {**self.given, **values}
        found = all_sizes(with_values(self.kernel, values), given, self.policy, self.exact)
        if found.verdict is Verdict.REFUTED and not set(values) <= set(found.values):
            found.values = {**found.values, **values}
        return found

    def launches(self, values: Mapping[str, int]) -> bool:
        """Whether a block with so many stages exists and keeps the assumptions that speak of them alone."""
        env = {**self.given, **values}
        for fact in self.kernel.assumes:
            if names(fact) <= set(env) and not _true(fact, env):
                return False
        try:
            layout(self.kernel, env)
        except (InputError, KeyError):
            return False
        return True

    def choices(self, most: int = 16) -> Iterator[dict[str, int]]:
        """Numbers of stages, the smallest first."""
        for some in sorted(product(range(most), repeat=len(self.stage)), key=lambda v: (sum(v), v)):
            values = dict(zip(self.stage, some, strict=True))
            if self.launches(values):
                yield values

    def all_choices(self) -> list[dict[str, int]] | None:
        """Every choice that a launch can have; None where they are too many, or their end is not known."""
        sizes = {x for e in _sizes(self.kernel) for x in names(e)}
        most = MOST_EACH + 2
        try:
            grows = all(k >= 0 for e in _sizes(self.kernel) for _, k in linear(e).terms)
        except OutsideError:
            return None
        others = dict.fromkeys(self.stage, 1)
        for p in sizes & set(self.stage):
            try:
                layout(self.kernel, {**self.given, **others, p: most})
                return None
            except InputError:
                pass
        facts = Facts(_facts(self.kernel, self.given))
        small = [num(most - 1) - var(p) for p in sizes & set(self.stage)]
        for p in set(self.stage) - sizes:
            if not facts.entails(small, [(var(p), num(most) - var(p))]):
                return None
        return list(self.choices(most + 1)) if grows else None


def with_values(kernel: Kernel, values: Mapping[str, int]) -> Kernel:
    """The kernel with assumptions that speak of numbers instead of some parameters."""
    known: dict[str, Expr] = {p: Int(v) for p, v in values.items()}
    return replace(kernel, assumes=tuple(substitute(f, known) for f in kernel.assumes))


def every_choice(
    kernel: Kernel, given: Mapping[str, int], policy: Policy, stage: list[str]
) -> list[dict[str, int]] | None:
    """All values of the parameters ``stage`` that a launch can have; None where their end is not known."""
    return _Decision(kernel, dict(given), policy, lambda _: Verdict.UNKNOWN, stage).all_choices()


def prove_stages(
    kernel: Kernel, given: Mapping[str, int] | None = None, checked: frozenset[str] = frozenset()
) -> Stages:
    """A proof of everything that depends on the number of stages, checked by ``validate``.

    What does not depend on it (registers of the tensor core, register pools, sizes of copies) is for
    ``all_sizes`` at one number of stages, and at one value of all that is ``checked`` so. Raises OutsideError
    for a kernel that is not of the class, and NotFoundError where no proof was found.
    """
    kernel = with_fixed(kernel, given or {})
    try:
        return _proof(kernel, [()], checked)
    except NotFoundError as e:
        low = _facts(kernel, {})
        open_ = [p.name for p in kernel.params if not Facts(low).entails((), [(var(p.name),)])]
        sized = {x for s in _sizes(kernel) for x in names(s)}
        open_ = [p for p in open_ if p not in sized]
        if not open_:
            raise
        # loops over a negative number of iterations do nothing, which no linear sum of iterations can say
        try:
            return _proof(
                kernel, [tuple(var(p) for p in open_), *((num(-1) - var(p),) for p in open_)], checked
            )
        except NotFoundError:
            raise e from None


def _proof(kernel: Kernel, cases: list[tuple[Lin, ...]], checked: frozenset[str]) -> Stages:
    done: list[tuple[Case, Certificate]] = []
    questions = 0
    for case in (Case(sizes, lanes, checked) for lanes in elections(kernel) for sizes in cases):
        program = extract(kernel, case)
        facts = Facts(program.facts)
        done.append((case, find(program, facts)))
        questions += facts.questions
    wrong = validate(kernel, tuple(done))
    if wrong is not None:
        raise NotFoundError(wrong, [])
    return Stages(kernel, tuple(done), questions)


def _facts(kernel: Kernel, given: Mapping[str, int]) -> tuple[Lin, ...]:
    """The linear facts that a launch keeps."""
    return (*known(kernel), *(f for p, v in given.items() for f in (var(p) - v, num(v) - var(p))))


def _sizes(kernel: Kernel) -> list[Expr]:
    return [d for s in kernel.shared for d in s.shape] + [b.count for b in kernel.barriers]


def _true(fact: Expr, env: Mapping[str, int]) -> bool:
    try:
        return bool(evaluate(fact, env))
    except ZeroDivisionError:
        return False


def related_parameters(kernel: Kernel) -> frozenset[str]:
    """Those, and all that facts relate to them: how far a prefetch runs ahead, say."""
    found = stage_parameters(kernel)
    facts = [names(f) & {p.name for p in kernel.params} for f in kernel.assumes]
    return found.union(*(f for f in facts if f & found))


__all__ = ["Stages", "decide_stages", "every_choice", "prove_stages", "with_values"]
