"""Certificates of proved kernels, and their validation against a kernel's text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from syncverify.base.certificate_data import (
    FORMAT,
    VERSION,
    RejectedError,
    listed,
    number,
    sealed,
    take,
    write,
)
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.checker.kernel import Rejected, UnreadableError
from syncverify.checker.prover.budget import without_members, without_rotations
from syncverify.checker.prover.parametric import enumerate_launches
from syncverify.checker.prover.parametric.strategy import ParametricResult, Problem, all_sizes, problem_of
from syncverify.checker.prover.rings import decide_stages, validate
from syncverify.checker.prover.rings.by_induction import InductionProof
from syncverify.checker.prover.rings.cases import accept_kernel, from_plain
from syncverify.checker.prover.rings.certificate import from_dict
from syncverify.checker.prover.rings.decide import Stages, every_choice, with_values
from syncverify.checker.prover.rings.fixed import with_fixed
from syncverify.checker.prover.rings.linear import form, plain_form
from syncverify.checker.prover.rings.program import Case
from syncverify.checker.prover.rings.prove_cases import to_plain
from syncverify.driver import by_kernel
from syncverify.driver.certificates import exact, graphs, protocols, sizes
from syncverify.driver.certificates.met import Met, Rechecked
from syncverify.driver.ir import check_assumes, launch_values
from syncverify.driver.rechecked import entries
from syncverify.driver.verdicts import text_hash
from syncverify.frontends.ir.systems import systems
from syncverify.ir.check.well_formed import verify
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.printer import print_kernel


def _never(values: Mapping[str, int]) -> Verdict:
    return Verdict.UNKNOWN


# ------------------------------------------------------------------ writing


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
            proof = protocols.written(report.protocol.problems)
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


# ------------------------------------------------------------------ validating


def recheck(text: str, file: str, kernels: Mapping[str, Kernel]) -> list[Rechecked]:
    """Validates a file of certificates against the kernels, as launched, by name.

    Raises RejectedError where some certificate proves nothing, InputError for a file that is none.
    """
    done = [_kernel(e, f"kernels[{i}]", kernels) for i, e in enumerate(entries(text, file))]
    if len({r.kernel for r in done}) != len(done):
        raise RejectedError("kernels", "a kernel is there twice")
    return done


def _kernel(entry: Any, where: str, kernels: Mapping[str, Kernel]) -> Rechecked:
    name, text, policy, values, proof = take(entry, where, "kernel", "text", "policy", "values", "proof")
    kernel = kernels.get(name) if isinstance(name, str) else None
    if kernel is None:
        raise RejectedError(f"{where}.kernel", f"there is no kernel {name!r}")
    verify(kernel)
    if text != text_hash(print_kernel(kernel)):
        raise RejectedError(f"{where}.text", "the certificate is of another text")
    if policy not in [str(p) for p in Policy]:
        raise RejectedError(f"{where}.policy", f"{policy!r} is no policy")
    given = _values(values, f"{where}.values")
    if not isinstance(proof, dict):
        raise RejectedError(f"{where}.proof", "not an object")
    at, kind = f"{where}.proof", proof.get("kind")
    met = Met()
    try:
        bound, missing = launch_values(kernel, given)
        if kind == "exact":
            if missing or bound != given:
                raise RejectedError(f"{where}.values", "not every parameter has a value")
            check_assumes(kernel, bound)
            met = exact.recheck(proof, systems(kernel, bound), Policy(policy), at)
        elif kind == "sizes":
            met = sizes.recheck(proof, _problem(kernel, given), Policy(policy), at)
        elif kind in ("stages", "each"):
            met = _parts(kernel, given, Policy(policy), proof, at)
        elif kind == "few":
            met = _launches(kernel, given, Policy(policy), proof, at)
        elif kind == "protocol":
            met = _protocol(kernel, given, Policy(policy), proof, at)
        elif kind == by_kernel.KIND:
            met = by_kernel.of_kernel(kernel, given, Policy(policy), proof, at)
        else:
            raise RejectedError(f"{at}.kind", f"{kind!r} is no kind of proof")
    except InputError as e:
        raise RejectedError(where, e.message) from None
    scope = (
        ScopeKind.EXACT
        if kind == "exact" and kernel.params
        else ScopeKind.PARTIAL
        if given
        else ScopeKind.ALL
    )
    return Rechecked(name, Policy(policy), scope, given, str(kind), met, tuple(met.assumed))


def _protocol(
    kernel: Kernel, given: Mapping[str, int], policy: Policy, proof: dict[str, Any], where: str
) -> Met:
    """A proof of the rings that the kernel accepts; the rest is followed for what no protocol speaks of."""
    _, rings, rest = take(proof, where, "kind", "rings", "rest")
    try:
        answer = accept_kernel(kernel, given, from_plain(rings), policy)
    except UnreadableError as e:
        raise RejectedError(f"{where}.rings", str(e)) from None
    if isinstance(answer, Rejected):
        raise RejectedError(f"{where}.rings", str(answer))
    kind = rest.get("kind") if isinstance(rest, dict) else None
    at = f"{where}.rest"
    if kind == "sizes":
        followed = sizes.recheck(rest, _problem(kernel, given), policy, at)
    elif kind in ("stages", "each"):
        followed = _parts(kernel, given, policy, rest, at)
    elif kind == "few":
        followed = _launches(kernel, given, policy, rest, at)
    else:
        raise RejectedError(f"{at}.kind", f"{kind!r} is no proof for sizes")
    met = Met({**followed.counts, "obligations": answer.obligations})
    return met


def _values(data: Any, where: str) -> dict[str, int]:
    if not isinstance(data, dict):
        raise RejectedError(where, "not an object")
    return {k: number(v, f"{where}.{k}") for k, v in data.items()}


def _problem(kernel: Kernel, given: Mapping[str, int]) -> Callable[[], Problem]:
    return lambda: problem_of(kernel, given, _never)


def _parts(
    kernel: Kernel, given: Mapping[str, int], policy: Policy, proof: dict[str, Any], where: str
) -> Met:
    """A proof for all numbers of stages: together, or one by one."""
    together = proof["kind"] == "stages"
    _, parts, *more = take(proof, where, "kind", "parts", *(["cases"] if together else []))
    chosen: list[dict[str, int]] = []
    total = Met()
    for i, part in enumerate(listed(parts, f"{where}.parts")):
        at = f"{where}.parts[{i}]"
        values, own = take(part, at, "values", "proof")
        here = _values(values, f"{at}.values")
        if set(here) & set(given):
            raise RejectedError(f"{at}.values", "a parameter has two values")
        launch_values(kernel, {**given, **here})
        chosen.append(here)
        if not isinstance(own, dict) or own.get("kind") != "sizes":
            raise RejectedError(f"{at}.proof", "no proof for all sizes")
        problem = _problem(with_values(kernel, here), {**given, **here})
        total.join(sizes.recheck(own, problem, policy, f"{at}.proof"))
    if together:
        _stages(kernel, given, policy, more[0], chosen, f"{where}.cases")
        total.reasons.append("paths for every number of stages, which are validated with z3")
        return total
    every = every_choice(kernel, given, policy, list(chosen[0])) if chosen else None
    if every is None or sorted(map(_key, every)) != sorted(map(_key, chosen)):
        raise RejectedError(f"{where}.parts", "some numbers of stages are left out, or none of a launch")
    return total


def _launches(
    kernel: Kernel, given: Mapping[str, int], policy: Policy, proof: dict[str, Any], where: str
) -> Met:
    """Exact proofs of all launches that differ."""
    _, parts = take(proof, where, "kind", "parts")
    parts = listed(parts, f"{where}.parts")
    every = enumerate_launches.launches(kernel, given)
    if every is None or len(parts) != len(every):
        raise RejectedError(f"{where}.parts", "not one for each launch, or they are not few")
    total = Met()
    for i, (part, wanted) in enumerate(zip(parts, every, strict=True)):
        at = f"{where}.parts[{i}]"
        values, own = take(part, at, "values", "proof")
        if _values(values, f"{at}.values") != wanted:
            raise RejectedError(f"{at}.values", "not the values of that launch")
        if not isinstance(own, dict) or own.get("kind") != "exact":
            raise RejectedError(f"{at}.proof", "no proof for numbers")
        total.join(exact.recheck(own, systems(kernel, {**given, **wanted}), policy, f"{at}.proof"))
    return total


def _key(values: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(values.items()))


def _stages(
    kernel: Kernel,
    given: Mapping[str, int],
    policy: Policy,
    data: Any,
    chosen: list[dict[str, int]],
    where: str,
) -> None:
    if policy is not Policy.PRACTICAL:
        raise RejectedError(where, "strict mode")
    cases = []
    for i, entry in enumerate(listed(data, where)):
        at = f"{where}[{i}]"
        limits, elected, fixed, certificate = take(entry, at, "sizes", "elected", "fixed", "certificate")
        try:
            case = Case(
                tuple(form(f) for f in listed(limits, at)),
                tuple(number(x, at, 0) for x in listed(elected, at)),
                frozenset(map(str, listed(fixed, at))),
            )
            proof = from_dict(certificate)
        except (ValueError, AttributeError, TypeError, InputError) as e:
            raise RejectedError(at, str(e)) from None
        once = all(len(set(some)) == len(some) for some in proof.paths if some is not None)
        if not once or proof.to_dict() != certificate or [plain_form(f) for f in case.sizes] != limits:
            raise RejectedError(at, "not as such proofs are written: every entry once, and every number")
        if len(chosen) != 1 or sorted(case.fixed) != sorted(chosen[0]) or fixed != sorted(case.fixed):
            raise RejectedError(f"{at}.fixed", "not the parameters that the part has numbers for")
        cases.append((case, proof))
    wrong = validate(with_fixed(kernel, given), tuple(cases))
    if wrong is not None:
        raise RejectedError(where, wrong)


__all__ = ["Rechecked", "certify", "dumps", "entries", "recheck"]
