"""Certificates of PTX kernels written: the proofs that the front end's check asks for, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.base.certificate_data import RejectedError, sealed
from syncverify.base.diagnostics import KernelReport, Policy, Verdict
from syncverify.base.reason import Reason, as_data
from syncverify.base.source import InputError, Span
from syncverify.checker.kernel.exact import Follower
from syncverify.checker.outcome import Outcome
from syncverify.checker.prover.budget import without_rotations
from syncverify.driver.certificates import exact, graphs, protocols
from syncverify.driver.certificates.blocks import BLOCKS, with_block
from syncverify.driver.certificates.ptx_posed import checked
from syncverify.driver.ptx.task import Checker, Prove
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.syntax.nodes import Module
from syncverify.model.events import System


@dataclass(slots=True)
class _Recorder:
    """A checker whose proofs are written down."""

    search: Prove
    parts: list[dict[str, Any]] = field(default_factory=list)
    runs: list[Follower] = field(default_factory=list)  # that the kernel's judge accepted
    inside: bool = False  # numbers that a proof for every size tries are no part of it

    def judge(self, system: System, policy: Policy) -> Outcome:
        if self.inside:
            return run_system(system, policy)
        try:
            self.parts.append({"is": "system", **exact.described(system, policy, self.runs)})
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
            report = checked(
                module, name, facts, values, policy, Checker(recorder.judge, recorder.prove, again=False)
            )
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
    proof = protocols.of(report.protocol)
    return sealed({**head, "values": dict(values), "proof": proof})


def for_blocks(
    source: Any, report: KernelReport, facts: LaunchFacts, values: Mapping[str, int], search: Prove
) -> dict[str, Any]:
    """The certificate of an entry that was proved with blocks that nothing gives: a proof for each of them,
    the kernel's own where it accepted one."""
    parts = []
    for block, protocol in zip(report.blocks, report.protocol or [None] * len(report.blocks), strict=True):
        if protocol is None:
            own = with_block(facts, report.name, block)
            entry = certify(source.module, report.name, source.hash, own, values, report.policy, search)
        else:
            entry = by_kernel_alone(source, replace(report, protocol=protocol), values)
        parts.append(sealed({"block": list(block), "proof": entry["proof"]}))
    head = {"kernel": report.name, "text": source.hash, "policy": str(report.policy)}
    return sealed({**head, "values": dict(values), "proof": {"kind": BLOCKS, "parts": parts}})


__all__ = ["by_kernel_alone", "certify", "for_blocks"]
