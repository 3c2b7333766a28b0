"""Certificates of proved kernels of the IR written, and the file of some certificates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from syncverify.base.certificate_data import FORMAT, VERSION, RejectedError, sealed, write
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.checker.prover.budget import without_members, without_rotations
from syncverify.checker.prover.parametric import enumerate_launches
from syncverify.checker.prover.parametric.strategy import ParametricResult, all_sizes
from syncverify.checker.prover.rings import decide_stages
from syncverify.checker.prover.rings.by_induction import InductionProof
from syncverify.checker.prover.rings.decide import Stages
from syncverify.checker.prover.rings.linear import plain_form
from syncverify.checker.prover.rings.prove_cases import to_plain
from syncverify.driver.certificates import exact, graphs, protocols
from syncverify.driver.verdicts import text_hash
from syncverify.frontends.ir.systems import systems
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.printer import print_kernel


def _never(values: Mapping[str, int]) -> Verdict:
    return Verdict.UNKNOWN


def certify(kernel: Kernel, report: KernelReport) -> dict[str, Any]:
    """The certificate of a kernel, as launched, that the report says is proved.

    A proof for sizes that the report does not hold is found once more. Raises InputError where it cannot be
    written down.
    """
    if report.verdict is not Verdict.PROVED:
        raise InputError(f"kernel {kernel.name} is {report.verdict}: there is no proof", kernel.span)
    values = dict(report.scope.values)
    try:
        if isinstance(report.protocol, InductionProof):
            proof = protocols.of(report.protocol)
        elif report.protocol is not None:
            rest = certify(kernel, replace(report, protocol=None))["proof"]
            proof = {"kind": "protocol", "rings": to_plain(report.protocol), "rest": rest}
        elif report.scope.kind is ScopeKind.EXACT or not kernel.params:
            proof = exact.written(systems(kernel, values), report.policy)
        else:
            known = report.proof
            found = None if known is None or known.alone or graphs.rotates(known) else known
            with without_rotations(), without_members():
                found = found or decide_stages(kernel, values, report.policy, _never)
                found = found or all_sizes(kernel, values, report.policy, _never)
            every = found.launches or (
                found.verdict is Verdict.UNKNOWN and enumerate_launches.launches(kernel, values)
            )
            proof = _few(kernel, values, every, report.policy) if every else _proof(kernel, found)
    except RejectedError as e:
        raise InputError(f"kernel {kernel.name}: no certificate: {e}", kernel.span) from e
    proof["systems"] = [sealed(s) for s in proof["systems"]] if "systems" in proof else None
    proof = {k: v for k, v in proof.items() if v is not None}
    text = text_hash(print_kernel(kernel))
    head = {"kernel": kernel.name, "text": text, "policy": str(report.policy), "values": values}
    return sealed({**head, "proof": proof})


def _few(
    kernel: Kernel, given: Mapping[str, int], every: Iterable[Mapping[str, int]], policy: Policy
) -> dict[str, Any]:
    """Exact proofs of the launches that represent all."""
    found = [(v, exact.written(systems(kernel, {**given, **v}), policy)) for v in every]
    parts = [sealed({"values": dict(v), "proof": _sealed(proof)}) for v, proof in found]
    return {"kind": "few", "parts": parts}


def _proof(kernel: Kernel, found: ParametricResult) -> dict[str, Any]:
    if found.verdict is not Verdict.PROVED:
        raise RejectedError("", f"the proof was not found again: {found.reason}")
    if not found.parts:
        return graphs.to_plain(found)
    parts = [sealed({"values": dict(v), "proof": _sealed(graphs.to_plain(p))}) for v, p in found.parts]
    if not isinstance(found.stages, Stages):
        return {"kind": "each", "parts": parts}
    cases = [
        sealed(
            {
                "sizes": [plain_form(f) for f in case.sizes],
                "elected": list(case.elected),
                "fixed": sorted(case.fixed),
                "certificate": certificate.to_dict(),
            }
        )
        for case, certificate in found.stages.cases
    ]
    return {"kind": "stages", "cases": cases, "parts": parts}


def _sealed(proof: dict[str, Any]) -> dict[str, Any]:
    return {**proof, "systems": [sealed(s) for s in proof["systems"]]}


def dumps(certificates: list[dict[str, Any]]) -> str:
    """The file of some kernels' certificates."""
    return write(sealed({"format": FORMAT, "version": VERSION, "kernels": certificates}))


__all__ = ["certify", "dumps"]
