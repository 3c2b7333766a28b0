"""Proofs of rings followed: for every number of stages, and of protocols that the kernel accepts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from syncverify.base.certificate_data import RejectedError, listed, number, take
from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.checker.kernel.accept import Rejected
from syncverify.checker.kernel.proof import UnreadableError
from syncverify.checker.prover.rings.cases import accept_kernel, from_plain
from syncverify.checker.prover.rings.certificate import from_dict
from syncverify.checker.prover.rings.decide import every_choice, with_values
from syncverify.checker.prover.rings.fixed import with_fixed
from syncverify.checker.prover.rings.linear import form, plain_form
from syncverify.checker.prover.rings.program import Case
from syncverify.checker.prover.rings.validate import validate
from syncverify.driver.certificates import sizes
from syncverify.driver.launch_values import launch_values
from syncverify.driver.rechecked import Met, given_values
from syncverify.frontends.ir.open_kernel import open_kernel
from syncverify.ir.nodes import Kernel


def obligations(kernel: Kernel, given: Mapping[str, int], policy: Policy, rings: Any, where: str) -> int:
    """How many obligations of a proof of rings the kernel discharged; RejectedError where it accepts none."""
    try:
        answer = accept_kernel(kernel, given, from_plain(rings), policy)
    except UnreadableError as e:
        raise RejectedError(where, str(e)) from None
    if isinstance(answer, Rejected):
        raise RejectedError(where, str(answer))
    return answer.obligations


def parts(kernel: Kernel, given: Mapping[str, int], policy: Policy, proof: dict[str, Any], where: str) -> Met:
    """A proof for all numbers of stages: together, or one by one."""
    together = proof["kind"] == "stages"
    _, every_part, *more = take(proof, where, "kind", "parts", *(["cases"] if together else []))
    chosen: list[dict[str, int]] = []
    total = Met()
    for i, part in enumerate(listed(every_part, f"{where}.parts")):
        at = f"{where}.parts[{i}]"
        values, own = take(part, at, "values", "proof")
        here = given_values(values, f"{at}.values")
        if set(here) & set(given):
            raise RejectedError(f"{at}.values", "a parameter has two values")
        launch_values(kernel, {**given, **here})
        chosen.append(here)
        if not isinstance(own, dict) or own.get("kind") != "sizes":
            raise RejectedError(f"{at}.proof", "no proof for all sizes")
        pose = partial(open_kernel, with_values(kernel, here), {**given, **here})
        total.join(sizes.recheck(own, pose, policy, f"{at}.proof"))
    if together:
        _stages(kernel, given, policy, more[0], chosen, f"{where}.cases")
        total.reasons.append("paths for every number of stages, which are validated with z3")
        return total
    every = every_choice(kernel, given, policy, list(chosen[0])) if chosen else None
    if every is None or sorted(map(_key, every)) != sorted(map(_key, chosen)):
        raise RejectedError(f"{where}.parts", "some numbers of stages are left out, or none of a launch")
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


__all__ = ["obligations", "parts"]
