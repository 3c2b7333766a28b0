"""Certificates of kernels of the IR followed: each against the text that it is of.

What follows a kind of proofs is loaded where one is met, and no search of any kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from syncverify.base.certificate_data import RejectedError, listed, take
from syncverify.base.diagnostics import Policy, ScopeKind
from syncverify.base.source import InputError
from syncverify.driver.certificates import exact
from syncverify.driver.launch_values import check_assumes, launch_values
from syncverify.driver.rechecked import INDUCTION, Met, Rechecked, entries, given_values
from syncverify.driver.reports.outcomes import text_hash
from syncverify.frontends.ir.open_kernel import open_kernel
from syncverify.frontends.ir.systems import systems
from syncverify.ir.check.well_formed import verify
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.printer import print_kernel


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
    given = given_values(values, f"{where}.values")
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
        elif kind == "protocol":
            met = _protocol(kernel, given, Policy(policy), proof, at)
        elif kind == INDUCTION:
            from syncverify.driver import by_kernel

            met = by_kernel.of_kernel(kernel, given, Policy(policy), proof, at)
        else:
            found = _every_size(kernel, given, Policy(policy), proof, at)
            if found is None:
                raise RejectedError(f"{at}.kind", f"{kind!r} is no kind of proof")
            met = found
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
    from syncverify.driver.certificates import follow_rings

    _, rings, rest = take(proof, where, "kind", "rings", "rest")
    obligations = follow_rings.obligations(kernel, given, policy, rings, f"{where}.rings")
    is_proof = isinstance(rest, dict)
    followed = _every_size(kernel, given, policy, rest, f"{where}.rest") if is_proof else None
    if followed is None:
        kind = rest.get("kind") if is_proof else None
        raise RejectedError(f"{where}.rest.kind", f"{kind!r} is no proof for sizes")
    return Met({**followed.counts, "obligations": obligations})


def _every_size(
    kernel: Kernel, given: Mapping[str, int], policy: Policy, proof: dict[str, Any], where: str
) -> Met | None:
    """Follows a proof for every size; None where it is none."""
    match proof.get("kind"):
        case "sizes":
            from syncverify.driver.certificates import sizes

            return sizes.recheck(proof, partial(open_kernel, kernel, given), policy, where)
        case "stages" | "each":
            from syncverify.driver.certificates import follow_rings

            return follow_rings.parts(kernel, given, policy, proof, where)
        case "few":
            return _launches(kernel, given, policy, proof, where)
        case _:
            return None


def _launches(
    kernel: Kernel, given: Mapping[str, int], policy: Policy, proof: dict[str, Any], where: str
) -> Met:
    """Exact proofs of all launches that differ."""
    from syncverify.checker.prover.parametric import enumerate_launches

    _, parts = take(proof, where, "kind", "parts")
    parts = listed(parts, f"{where}.parts")
    every = enumerate_launches.launches(kernel, given)
    if every is None or len(parts) != len(every):
        raise RejectedError(f"{where}.parts", "not one for each launch, or they are not few")
    total = Met()
    for i, (part, wanted) in enumerate(zip(parts, every, strict=True)):
        at = f"{where}.parts[{i}]"
        values, own = take(part, at, "values", "proof")
        if given_values(values, f"{at}.values") != wanted:
            raise RejectedError(f"{at}.values", "not the values of that launch")
        if not isinstance(own, dict) or own.get("kind") != "exact":
            raise RejectedError(f"{at}.proof", "no proof for numbers")
        total.join(exact.recheck(own, systems(kernel, {**given, **wanted}), policy, f"{at}.proof"))
    return total


__all__ = ["recheck"]
