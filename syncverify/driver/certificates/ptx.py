"""Certificates of PTX kernels: the proofs that the front end's check asked for, in their order.

The front end derives the systems, and what it takes of the launch, again each time. ``check_module`` is run
with a judge that follows each system as a certificate says, and decides nothing that is not shown there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from syncverify.base.certificate_data import RejectedError, listed, number, same, sealed, take
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.reason import Reason, as_data, heard
from syncverify.base.source import InputError, Span
from syncverify.checker.outcome import Outcome
from syncverify.checker.prover.budget import without_rotations
from syncverify.checker.prover.parametric.strategy import ParametricResult, Problem
from syncverify.driver import by_kernel
from syncverify.driver.certificates import exact, graphs, protocols, sizes
from syncverify.driver.certificates.met import Met, Rechecked
from syncverify.driver.ptx_assumptions import PLACED_BY_DATA
from syncverify.driver.ptx_check import check_module
from syncverify.driver.ptx_task import Checker, Prove
from syncverify.driver.rechecked import entries
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.syntax.nodes import Module
from syncverify.ir.consistency import NoLaunchError
from syncverify.model.events import System


@dataclass(slots=True)
class _Recorder:
    """A checker whose proofs are written down."""

    search: Prove
    parts: list[dict[str, Any]] = field(default_factory=list)
    inside: bool = False  # numbers that a proof for every size tries are no part of it

    def judge(self, system: System, policy: Policy) -> Outcome:
        if self.inside:
            return run_system(system, policy)
        try:
            self.parts.append({"is": "system", **exact.described(system, policy)})
        except RejectedError as e:  # what has no number yet is left to a proof for every size
            reason = Reason(str(e), parts=(e.what,))
            self.parts.append({"is": "open", "reason": as_data(reason)})
            return Outcome(Verdict.UNKNOWN, (), None, reason, {})
        return Outcome(Verdict.PROVED)

    def prove(
        self,
        open_: Any,
        facts: Any,
        systems: Any,
        exact_: Callable[..., Verdict],
        policy: Policy,
        clusters: int,
        _: Any,
    ) -> Any:
        self.inside = True
        try:
            found = self.search(open_, facts, systems, exact_, policy, clusters, None)
        finally:
            self.inside = False
        if found.verdict is Verdict.REFUTED:
            raise RejectedError("", "sizes refute it")
        if found.verdict is Verdict.UNKNOWN:  # left to a later step, as in the check
            self.parts.append({"is": "open", "reason": as_data(found.reason or "")})
            return found
        written = graphs.to_plain(found)
        nested = [sealed(s) for s in written.pop("systems")]
        self.parts.append({"is": "sizes", **written, "systems": nested})
        return found


def certify(
    module: Module,
    name: str,
    text: str,
    facts: LaunchFacts,
    values: Mapping[str, int],
    policy: Policy,
    search: Prove,
) -> dict[str, Any]:
    """The certificate of an entry that a check proved. Raises InputError where it cannot be written down.

    ``text``: the hash of the file; ``search``: what proves an entry for every size.
    """
    recorder = _Recorder(search)
    try:
        with without_rotations():
            report = _checked(module, name, facts, values, policy, recorder)
    except RejectedError as e:
        raise InputError(f"kernel {name}: no certificate: {e}", Span(module.path)) from e
    if report.verdict is not Verdict.PROVED:
        raise InputError(f"kernel {name}: the proof was not found again: {report.reason}", Span(module.path))
    proof = {"kind": "ptx", "parts": [sealed(p) for p in recorder.parts]}
    head = {"kernel": name, "text": text, "policy": str(policy), "values": dict(values)}
    return sealed({**head, "proof": proof})


def by_kernel_alone(source: Any, report: KernelReport, values: Mapping[str, int]) -> dict[str, Any]:
    """The certificate of an entry of a source whose proof the kernel accepted."""
    head = {"kernel": report.name, "text": source.hash, "policy": str(report.policy)}
    proof = protocols.written(report.protocol.problems)
    return sealed({**head, "values": dict(values), "proof": proof})


def _checked(
    module: Module,
    name: str,
    facts: LaunchFacts,
    values: Mapping[str, int],
    policy: Policy,
    by: _Recorder | _Claims,
) -> KernelReport:
    checker = Checker(by.judge, by.prove, again=False)
    reports = check_module(module, facts, policy, checker, kernel=name, values=values, scope=ScopeKind.ALL)
    found = [r for r in reports if r.name == name]
    if len(found) != 1 or len(reports) != 1:
        raise InputError(f"{len(reports)} kernels are named {name}", Span(module.path))
    return found[0]


@dataclass(slots=True)
class _Claims:
    """A checker that finds what a certificate says, or raises RejectedError."""

    parts: list[Any]
    where: str
    met: Met = field(default_factory=Met)
    taken: int = 0

    def next(self, *kinds: str) -> tuple[dict[str, Any], str]:
        at = f"{self.where}.parts[{self.taken}]"
        if self.taken >= len(self.parts):
            raise RejectedError(self.where, "systems of the launch are left out")
        part = self.parts[self.taken]
        self.taken += 1
        if not isinstance(part, dict) or part.get("is") not in kinds:
            raise RejectedError(at, f"no proof of this kind: {', '.join(kinds)}")
        return part, at

    def judge(self, system: System, policy: Policy) -> Outcome:
        part, at = self.next("system", "open")
        if part["is"] == "open":
            _, reason = take(part, at, "is", "reason")  # says only which proofs come next
            return Outcome(Verdict.UNKNOWN, (), None, _reason(reason, at), {})
        found = {"is": "system", **exact.described(system, policy, self.met)}
        same(found, part, at)
        self.met.add("systems")
        return Outcome(Verdict.PROVED)

    def prove(
        self, open_: Any, facts: Any, systems: Any, exact_: Callable[..., Verdict], policy: Policy, *_: Any
    ) -> Any:
        part, at = self.next("sizes", "open")
        if part["is"] == "open":
            _, reason = take(part, at, "is", "reason")  # says only which proofs come next
            return ParametricResult(Verdict.UNKNOWN, reason=_reason(reason, at))
        proof = {**{k: v for k, v in part.items() if k != "is"}, "kind": "sizes"}
        if part.get("kind") != "sizes":
            raise RejectedError(f"{at}.kind", "no proof for all sizes")
        self.met.join(sizes.recheck(proof, lambda: Problem(open_, facts, systems, exact_), policy, at))
        stops = any(node["is"] == "stopped" for graph in part["systems"] for node in graph["nodes"])
        # whether it rests on an assertion decides which steps may follow; the lines are the check's to tell
        return ParametricResult(Verdict.PROVED, stopped={0: "an assertion of the kernel"} if stops else {})


def recheck(text: str, file: str, module: Module, source_hash: str, facts: LaunchFacts) -> list[Rechecked]:
    """Validates a file of certificates against the entries of a PTX module, as launched.

    Raises RejectedError where some certificate proves nothing, InputError for a file that is none.
    """
    done: list[Rechecked] = []
    for i, entry in enumerate(entries(text, file)):
        done.append(_entry(entry, f"kernels[{i}]", module, source_hash, facts))
    if len({r.kernel for r in done}) != len(done):
        raise RejectedError("kernels", "a kernel is there twice")
    return done


def _entry(entry: Any, where: str, module: Module, source_hash: str, facts: LaunchFacts) -> Rechecked:
    name, text, policy, values, proof = take(entry, where, "kernel", "text", "policy", "values", "proof")
    if name not in [f.name for f in module.entries]:
        raise RejectedError(f"{where}.kernel", f"there is no kernel {name!r}")
    if text != source_hash:
        raise RejectedError(f"{where}.text", "the certificate is of another text")
    if policy not in [str(p) for p in Policy]:
        raise RejectedError(f"{where}.policy", f"{policy!r} is no policy")
    if not isinstance(values, dict):
        raise RejectedError(f"{where}.values", "not an object")
    given = {k: number(v, f"{where}.values.{k}") for k, v in values.items()}
    at = f"{where}.proof"
    if isinstance(proof, dict) and proof.get("kind") == by_kernel.KIND:
        e = by_kernel.CertifiedKernel(name, text, Policy(policy), given, proof, at)
        scope, bound, met = by_kernel.of_entry(module, facts, e)
        return Rechecked(name, Policy(policy), scope, bound, by_kernel.KIND, met)
    kind, parts = take(proof, at, "kind", "parts")
    if kind != "ptx":
        raise RejectedError(f"{at}.kind", f"{kind!r} is no proof of PTX")
    claims = _Claims(listed(parts, f"{at}.parts"), at)
    try:
        report = _checked(module, name, facts, given, Policy(policy), claims)
    except NoLaunchError:  # the launch file is wrong, not the certificate
        raise
    except InputError as e:
        raise RejectedError(where, e.message) from None
    if report.verdict is not Verdict.PROVED:
        raise RejectedError(at, f"it does not follow: {report.reason or report.verdict}")
    if claims.taken != len(claims.parts):
        raise RejectedError(f"{at}.parts", "more than the launch has")
    assumed = (*(a for a in report.assumptions if PLACED_BY_DATA in a), *claims.met.assumed)
    return Rechecked(name, Policy(policy), report.scope.kind, report.scope.values, "ptx", claims.met, assumed)


def _reason(data: Any, at: str) -> Reason:
    """A reason of a certificate, whole: RejectedError where a part of it is missing."""
    take(data, f"{at}.reason", "text", "causes", "of")
    return heard(data)


__all__ = ["certify", "recheck"]
