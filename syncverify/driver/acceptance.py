"""Asks the trusted kernel about proofs: who accepted a verdict, and why it was not the kernel.

Launches and graphs of decisions go through their certificates, which the kernel's exact judge follows. Ring
kernels of the IR with open sizes become protocols, of which the kernel accepts a proof for every size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from syncverify.base.diagnostics import Acceptance, KernelReport, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.checker.kernel import Accepted
from syncverify.checker.prover.rings.cases import (
    NotFoundError,
    OutsideError,
    accept_kernel,
    in_words,
    prove_kernel,
)
from syncverify.driver.certificates import RejectedError, dumps
from syncverify.driver.files import SourceFile, certificates, recheck
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.ir.nodes import Kernel

#: What a proof of a protocol leaves to the checker.
BESIDES = ("fragments of the tensor core, register pools, places in global memory",)


def asked(
    source: SourceFile, facts: LaunchFacts, values: Mapping[str, int], reports: Iterable[KernelReport]
) -> list[KernelReport]:
    """The reports, each proof with who accepted it."""
    kernels = {k.name: facts.apply(k)[0] for k in source.kernels}
    out: list[KernelReport] = []
    for r in reports:
        if r.verdict is not Verdict.PROVED:
            out.append(r)
            continue
        found = _by_protocol(kernels[r.name], r) if r.name in kernels else None
        if found is None or not found.acceptance.kernel:
            before = "" if found is None else f"{found.acceptance.reason}; "
            found = _by_judge(source, facts, values, r, before)
        out.append(found)
    return out


def _by_protocol(kernel: Kernel, r: KernelReport) -> KernelReport | None:
    """A proof for every size; None for a launch, which has no open size."""
    if r.scope.kind is ScopeKind.EXACT or not kernel.params:
        return None
    given = dict(r.scope.values)
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
        return replace(r, acceptance=Acceptance(True))
    why = "; ".join(dict.fromkeys(done.met.reasons))
    return replace(r, acceptance=Acceptance(reason=f"{before}not judged: {why}"))
