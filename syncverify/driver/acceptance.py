"""Asks the trusted kernel about proofs: who accepted a verdict, and why it was not the kernel.

Kernels with open sizes become protocols, of which the kernel accepts a proof for every size. What the search
says of agents is read again from the certificate alone (``by_kernel``). Launches and graphs of decisions go
through their certificates, which the kernel's exact judge follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.base.diagnostics import Acceptance, KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.checker.kernel.accept import Accepted
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.checker.prover.parametric.result import ParametricResult
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.rings.by_induction import (
    Cases,
    InductionProof,
    NotReadError,
    holds_strictly,
    shown_cases,
)
from syncverify.checker.prover.rings.cases import OutsideError, accept_kernel
from syncverify.checker.prover.rings.program import stage_parameters
from syncverify.checker.prover.rings.prove_cases import NotFoundError, in_words, prove_kernel
from syncverify.driver import by_kernel
from syncverify.driver.certificates import RejectedError, dumps
from syncverify.driver.certificates.blocks import with_block
from syncverify.driver.executions.sought import sought
from syncverify.driver.explained import bare
from syncverify.driver.files import SourceFile, certificates, recheck
from syncverify.driver.ptx.check import Task, kernel_task, reports_of
from syncverify.driver.ptx.task import Checker
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.launch.tensormap_boxes import InferredBoxes
from syncverify.frontends.ptx.launch.usual_blocks import blocks_in_words
from syncverify.ir.nodes import Kernel

#: Why the kernel does not judge a verdict of strict mode.
NOT_IN_STRICT_MODE = "strict mode, in which what a proof assumes is not settled"
#: What a proof of a protocol leaves to the checker.
BESIDES = ("fragments of the tensor core, register pools, places in global memory",)


def asked(
    source: SourceFile,
    facts: LaunchFacts,
    values: Mapping[str, int],
    reports: Iterable[KernelReport],
    *,
    infer: bool = True,
) -> list[KernelReport]:
    """The reports, each proof with who accepted it. ``infer``: as of the check that made them.

    A kernel of PTX that the search leaves undecided at every size is proved if the kernel accepts a proof in
    practical mode.
    """
    return asked_after(KernelFirst(source, facts, values, infer), reports)


def asked_after(first: KernelFirst, reports: Iterable[KernelReport]) -> list[KernelReport]:
    """The same where the kernel may have been asked before the search."""
    source, facts, values = first.source, first.facts, first.values
    kernels = {k.name: facts.apply(k)[0] for k in source.kernels}
    out: list[KernelReport] = []
    for r in reports:
        if r.verdict is not Verdict.PROVED:
            out.append(_undecided(first, r) if r.verdict is Verdict.UNKNOWN else r)
            continue
        if r.policy is Policy.STRICT:
            out.append(replace(r, acceptance=Acceptance(reason=f"not judged: {NOT_IN_STRICT_MODE}")))
            continue
        if r.blocks:
            out.append(_with_each_block(source, facts, values, r, infer=first.infer))
            continue
        if r.name in kernels:
            found = _by_protocol(kernels[r.name], r)
        elif isinstance(r.protocol, InductionProof):  # its certificate was accepted
            out.append(r)
            continue
        else:
            found = _by_events(first, r)
        if found is not None and isinstance(found.protocol, InductionProof):
            found = _followed(source, facts, values, found)
        if found is None or not found.acceptance.kernel:
            before = "" if found is None else f"{found.acceptance.reason}; "
            found = _by_judge(source, facts, values, r, before)
        out.append(found)
    return out


def _with_each_block(
    source: SourceFile, facts: LaunchFacts, values: Mapping[str, int], r: KernelReport, *, infer: bool
) -> KernelReport:
    """A proof with blocks that nothing gives: the kernel has to accept it with each of them."""
    found: list[KernelReport] = []
    for block in r.blocks:
        own = with_block(facts, r.name, block)
        found += asked(source, own, values, [replace(r, blocks=())], infer=infer)
        said = found[-1].acceptance
        if not said.kernel:
            why = f"with block = {blocks_in_words([block])}: {said.reason}"
            return replace(r, acceptance=Acceptance(reason=why))
    assumed = dict.fromkeys(text for one in found for text in one.assumptions)
    invariants = dict.fromkeys(text for one in found for text in one.acceptance.invariants)
    accepted = Acceptance(True, None, tuple(invariants))
    protocols = tuple(one.protocol for one in found)
    return replace(r, assumptions=tuple(assumed), acceptance=accepted, protocol=protocols)


def _undecided(first: KernelFirst, r: KernelReport) -> KernelReport:
    """An undecided report, or the proof that the kernel accepts. Executions may contradict that proof as they
    may any other's: a protocol does not hold what blocks count in global memory. In strict mode it stays
    undecided: the executions that are tried look for harm, which strict mode does not wait for.
    """
    if r.policy is Policy.STRICT:
        return r
    source, facts, values = first.source, first.facts, first.values
    found = _by_events(first, r)
    if found is None or source.module is None or not found.acceptance.kernel:
        return r
    found = replace(found, assumptions=(*found.assumptions, *source.assumptions))
    searched = sought(found, source.module)
    if searched.verdict is not Verdict.PROVED:
        return bare(searched)
    found = _followed(source, facts, values, bare(searched))
    return found if found.acceptance.kernel else r


def _by_protocol(kernel: Kernel, r: KernelReport) -> KernelReport | None:
    """A proof for every size; None for a launch, which has no open size."""
    if r.scope.kind is ScopeKind.EXACT or not kernel.params:
        return None
    given = dict(r.scope.values)
    if not stage_parameters(kernel):
        return _read(
            r, lambda: InductionProof((tuple(shown_cases(problem_of(kernel, given, _exactly), r.policy)),))
        )
    try:
        proof = prove_kernel(kernel, given, r.policy)
        answer = accept_kernel(kernel, given, proof, r.policy)
    except OutsideError as e:
        return replace(r, acceptance=Acceptance(reason=f"it is no protocol of rings: {e}"))
    except NotFoundError as e:
        return replace(r, acceptance=Acceptance(reason=f"no proof of its protocol was found: {e}"))
    if not isinstance(answer, Accepted):
        return replace(r, acceptance=Acceptance(reason=f"rejected: {answer}"))
    words = in_words(kernel, given, proof)
    return replace(r, acceptance=Acceptance(True, None, words, BESIDES), protocol=proof)


def _exactly(_: Mapping[str, int]) -> Verdict:
    return Verdict.UNKNOWN


def _read(r: KernelReport, find: Callable[[], InductionProof]) -> KernelReport:
    """The report with what the kernel says of the protocols that are found."""
    try:
        found = find()
    except NotReadError as e:
        return replace(r, acceptance=Acceptance(reason=f"it is not read as a protocol: {e}"))
    except NotFoundError as e:
        return replace(r, acceptance=Acceptance(reason=f"no proof of its protocol was found: {e}"))
    return replace(r, acceptance=Acceptance(True, None, found.words()), protocol=found)


@dataclass(frozen=True, slots=True)
class ByEvents:
    """What the kernel says of an entry of PTX for every size. ``report``: of the check that posed its
    problems; ``shown``: of each of these, None where it has no proof; ``failed``: why. ``strictly``: strict
    mode asks for no more.
    """

    report: KernelReport
    shown: tuple[tuple[Cases, ...] | None, ...]
    failed: tuple[str, ...]
    strictly: bool


def by_events(task: Task, *, strictly: bool = False) -> ByEvents:
    """Asks the kernel alone about a task. ``strictly``: about strict mode, too, if it accepts the proof."""
    shown: list[tuple[Cases, ...] | None] = []
    failed: list[str] = []

    def prove(
        sizes: Any, given: Any, systems: Any, exact: Any, policy: Policy, _: int, alone: Any
    ) -> ParametricResult:
        try:
            problem = Problem(sizes, given, systems, exact, modular_systems=alone)
            shown.append(tuple(shown_cases(problem, policy)))
        except (NotReadError, NotFoundError) as e:
            failed.append(str(e))
            shown.append(None)
            return ParametricResult(Verdict.UNKNOWN, reason=str(e))
        return ParametricResult(Verdict.PROVED)

    k = task.kernel
    boxes = None if k.boxes is None else InferredBoxes()
    asking = replace(k, checker=replace(k.checker, prove=prove, briefly=None, ahead=None), boxes=boxes)
    found = list(reports_of(replace(task, kernel=asking), ScopeKind.ALL))[-1]
    proved = found.verdict is Verdict.PROVED and any(shown)
    more = strictly and proved and all(holds_strictly(x) for x in shown if x is not None)
    return ByEvents(found, tuple(shown), tuple(failed), more)


@dataclass(slots=True)
class KernelFirst:
    """Asks the kernel about entries of PTX before they are searched, and keeps what it says of each.

    Its proof takes the place of the search only where that would have nothing to add. A search warns of what
    strict mode asks, so the proof has to hold in strict mode, too; and its certificate has to be accepted.
    Whatever the kernel does not judge is searched as ever.
    """

    source: SourceFile
    facts: LaunchFacts
    values: Mapping[str, int]
    infer: bool = True
    kept: dict[str, ByEvents] = field(default_factory=dict)

    def __call__(self, task: Task) -> KernelReport | None:
        """The report of an entry that the kernel accepts; None where it has to be searched."""
        k = task.kernel
        is_open = bool(k.facts.symbols()) or not all(isinstance(e, int) for e in k.facts.grid)
        if k.policy is not Policy.PRACTICAL or k.facts.block is None or not is_open:
            return None
        found = self.kept[k.function.name] = by_events(task, strictly=True)
        if not found.strictly:
            return None
        proved = _read(found.report, lambda: InductionProof(found.shown))
        followed = _followed(self.source, self.facts, self.values, proved)
        return followed if followed.acceptance.kernel else None


def _by_events(first: KernelFirst, r: KernelReport) -> KernelReport | None:
    """A kernel of PTX for every size that is open; None for a launch."""
    source, facts, values, infer = first.source, first.facts, first.values, first.infer
    if r.scope.kind is ScopeKind.EXACT or source.module is None:
        return None
    f = next((f for f in source.module.entries if f.name == r.name), None)
    if f is None:
        return None
    known = first.kept.get(f.name)
    if known is None:
        checker = Checker(run_system)
        known = by_events(kernel_task(source.module, f, facts, r.policy, checker, values, source.hash, infer))
    found = known.report
    if not any(known.shown) or found.verdict is not Verdict.PROVED or found.scope != r.scope:
        why = known.failed[-1] if known.failed else "its problem for every size is not posed"
        return replace(
            r, acceptance=Acceptance(reason=f"it is not read as a protocol, or has no proof: {why}")
        )
    proved = found
    if r.verdict is Verdict.PROVED:  # the kernel may have accepted what rests on more
        missing = tuple(x for x in found.assumptions if x not in r.assumptions)
        proved = replace(r, assumptions=(*r.assumptions, *missing))
    return _read(proved, lambda: InductionProof(known.shown))


def _followed(
    source: SourceFile, facts: LaunchFacts, values: Mapping[str, int], r: KernelReport
) -> KernelReport:
    """A proof of agents as its certificate is followed, which knows nothing of the search."""
    try:
        (one,) = certificates(source, facts, values, [r])
        by_kernel.recheck(dumps([one]), r.file, source, facts)
    except (RejectedError, InputError) as e:
        return replace(r, acceptance=Acceptance(reason=f"its certificate is rejected: {e}"), protocol=None)
    return replace(r, protocol=replace(r.protocol, written=one["proof"]))


def _by_judge(
    source: SourceFile, facts: LaunchFacts, values: Mapping[str, int], r: KernelReport, before: str
) -> KernelReport:
    """A launch, or a graph of decisions, along its certificate. ``before``: what was tried in vain."""
    try:
        text = dumps(certificates(source, facts, values, [r]))
        (done,) = recheck(text, r.file, source, facts)
    except RejectedError as e:
        return replace(r, acceptance=Acceptance(reason=f"{before}rejected: {e}"))
    except InputError as e:
        return replace(r, acceptance=Acceptance(reason=f"{before}{e.message}"))
    if done.judged:
        missing = tuple(x for x in done.met.assumed if x not in r.assumptions)
        return replace(r, assumptions=(*r.assumptions, *missing), acceptance=Acceptance(True))
    why = "; ".join(dict.fromkeys(done.met.reasons))
    return replace(r, acceptance=Acceptance(reason=f"{before}not judged: {why}"))
