"""Whether the kernel accepts a kernel of the IR or of PTX that is read from its events, and whether some
small size refutes it: the two sides of every sweep.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.checker.kernel.accept import Accepted, accept
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import Protocol
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.checker.prover.parametric.result import ParametricResult
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.protocols import prove
from syncverify.checker.prover.rings.by_induction import NotFoundError, NotReadError, protocols
from syncverify.driver.ir import check_kernel
from syncverify.driver.ptx.check import kernel_task, reports_of
from syncverify.driver.ptx.task import Checker
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.syntax.parser import parse as parse_ptx
from syncverify.ir.check.well_formed import verify
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.simulate.ir import explore

#: Sizes are tried up to this; so many states are explored for each.
LARGEST, STATES, FEW_STATES = 8, 1_500, 40
Known = Sequence[tuple[Protocol, Proof]]


@dataclass(frozen=True, slots=True)
class Answer:
    """``accepted``, or else why not: ``cause`` is "not read", "no proof" or "no kernel"."""

    accepted: bool
    cause: str = ""
    why: str = ""
    known: Known = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """How the kernel is asked. ``proofs``: of other kernels, which are handed in before any is searched; none
    is searched where ``search`` says so.
    """

    policy: Policy = Policy.PRACTICAL
    proofs: Known = ()
    search: bool = True


PLAIN = Ask()


def answered(problem: Problem, ask: Ask) -> Answer:
    """What the kernel says."""
    found: list[tuple[Protocol, Proof]] = []
    try:
        for p in protocols(problem, ask.policy):
            mine = next((q for _, q in ask.proofs if isinstance(accept(p, q, ask.policy), Accepted)), None)
            if mine is None and not ask.search:
                return Answer(False, "no proof", "none of the right kernel fits")
            found.append((p, mine or prove(p, ask.policy, seeds=(1,)).proof))
    except NotReadError as e:
        return Answer(False, "not read", str(e))
    except NotFoundError as e:
        return Answer(False, "no proof", str(e))
    return Answer(True, known=found)


def of_text(text: str, given: Mapping[str, int] | None = None, ask: Ask = PLAIN) -> Answer:
    """The same of a kernel of the IR."""
    try:
        (kernel,) = parse(text, "mutant.syncir")
        verify(kernel)
        problem = problem_of(kernel, given or {}, lambda _: Verdict.UNKNOWN)
        return answered(problem, ask)
    except InputError as e:
        return Answer(False, "no kernel", e.message)


class _PosedError(Exception):
    """Carries a problem out of the check that poses it."""


def of_ptx(text: str, facts: Mapping[str, Any], ask: Ask = PLAIN) -> Answer:
    """The same of a kernel of PTX."""
    posed: list[Problem] = []

    def pose(sizes: Any, given: Any, systems: Any, exact: Any, _: Policy, __: int, alone: Any) -> Any:
        posed.append(Problem(sizes, given, systems, exact, modular_systems=alone))
        return ParametricResult(Verdict.UNKNOWN, reason="posed")

    try:
        module = parse_ptx(text, "mutant.ptx")
        (entry,) = module.entries
        launch = LaunchFacts.of({"kernel": {entry.name: dict(facts)}})
        task = kernel_task(module, entry, launch, ask.policy, Checker(run_system, pose), {}, "", True)
        list(reports_of(task, ScopeKind.ALL))
    except InputError as e:
        return Answer(False, "no kernel", e.message)
    return answered(posed[0], ask) if posed else Answer(False, "not read", "no size is open")


def small(kernel: Kernel, given: Mapping[str, int], most: int = 60) -> Iterator[dict[str, int]]:
    """Small values of the parameters, the smallest first."""
    names = [p.name for p in kernel.params if p.name not in given]
    every = sorted(itertools.product(range(LARGEST + 1), repeat=len(names)), key=lambda v: (sum(v), v))
    for values in every[:most]:
        yield {**dict(zip(names, values, strict=True)), **given}


def refuted(
    text: str,
    given: Mapping[str, int] | None = None,
    policy: Policy = Policy.PRACTICAL,
    sizes: Sequence[Mapping[str, int]] = (),
) -> str | None:
    """A small size at which the exact check or an exploration of all schedules finds harm, and which.

    ``sizes``: these instead, at which few schedules are explored: kernels that have them are large.
    """
    (kernel,) = parse(text, "mutant.syncir")
    states = FEW_STATES if sizes else STATES
    for values in sizes or small(kernel, given or {}):
        try:
            report = check_kernel(kernel, values, policy)
            if report.verdict is Verdict.REFUTED:
                return f"{values}: {report.diagnostics[0].rule}"
            seen = explore(kernel, values, policy=policy, limit_states=states, first_only=True)
        except InputError:
            continue  # no such launch
        harms = [h for h in seen.harms if h not in seen.differences]
        if harms:
            return f"{values}: simulated {harms[0].kind}"
    return None
