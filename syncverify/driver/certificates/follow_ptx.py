"""Certificates of PTX kernels followed: the proofs that the front end's check asks for, in their order.

The front end derives the systems, and what it takes of the launch, again each time. ``check_module`` is run
with a judge that follows each system as a certificate says, and decides nothing that is not shown there.
What follows proofs of a further kind is loaded where one is met.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.base.certificate_data import RejectedError, listed, same, take
from syncverify.base.diagnostics import Policy, Verdict
from syncverify.base.reason import Reason, heard
from syncverify.base.source import InputError
from syncverify.checker.kernel.exact import Follower
from syncverify.checker.outcome import Outcome
from syncverify.driver.certificates import exact
from syncverify.driver.certificates.blocks import BLOCKS, parts_of, same_launches, taken, with_block
from syncverify.driver.certificates.doubts import Doubts, why_not
from syncverify.driver.certificates.ptx_posed import checked
from syncverify.driver.posed import Found, Posed
from syncverify.driver.ptx.task import Checker
from syncverify.driver.rechecked import INDUCTION, Met, Rechecked, entries, given_values
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.syntax.nodes import Module
from syncverify.ir.consistency import NoLaunchError
from syncverify.model.events import System


@dataclass(slots=True)
class _Claims:
    """A checker that finds what a certificate says, or raises RejectedError."""

    parts: list[Any]
    where: str
    met: Met = field(default_factory=Met)
    taken: int = 0
    runs: list[Follower] = field(default_factory=list)  # that the judge accepted

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
        found = {"is": "system", **exact.described(system, policy, self.runs, self.met)}
        same(found, part, at)
        self.met.add("systems")
        return Outcome(Verdict.PROVED)

    def prove(self, open_: Any, facts: Any, systems: Any, exact_: Any, policy: Policy, *_: Any) -> Any:
        part, at = self.next("sizes", "open")
        if part["is"] == "open":
            _, reason = take(part, at, "is", "reason")  # says only which proofs come next
            return Found(Verdict.UNKNOWN, reason=_reason(reason, at))
        from syncverify.driver.certificates import sizes

        proof = {**{k: v for k, v in part.items() if k != "is"}, "kind": "sizes"}
        if part.get("kind") != "sizes":
            raise RejectedError(f"{at}.kind", "no proof for all sizes")
        met = sizes.recheck(proof, lambda: Posed(open_, facts, systems), policy, at)
        self.met.join(met)
        return Found(Verdict.PROVED, stopped=met.stopped)


@dataclass(frozen=True, slots=True)
class Launched:
    """A module of that hash, how it is launched, and who looks at what proofs take for granted."""

    module: Module
    hash: str
    facts: LaunchFacts
    doubts: Doubts


def recheck(text: str, file: str, of: Launched) -> list[Rechecked]:
    """Validates a file of certificates against the entries of a PTX module, as launched.

    Raises RejectedError where some certificate proves nothing, InputError for a file that is none.
    """
    done: list[Rechecked] = []
    for i, entry in enumerate(entries(text, file)):
        done.append(_entry(entry, f"kernels[{i}]", of))
    if len({r.kernel for r in done}) != len(done):
        raise RejectedError("kernels", "a kernel is there twice")
    return done


def _entry(entry: Any, where: str, of: Launched) -> Rechecked:
    name, text, policy, values, proof = take(entry, where, "kernel", "text", "policy", "values", "proof")
    if name not in [f.name for f in of.module.entries]:
        raise RejectedError(f"{where}.kernel", f"there is no kernel {name!r}")
    if text != of.hash:
        raise RejectedError(f"{where}.text", "the certificate is of another text")
    if policy not in [str(p) for p in Policy]:
        raise RejectedError(f"{where}.policy", f"{policy!r} is no policy")
    given = given_values(values, f"{where}.values")
    e = _Entry(name, text, Policy(policy), given, f"{where}.proof", of.doubts)
    if isinstance(proof, dict) and proof.get("kind") == BLOCKS:
        return e.for_blocks(of.module, of.facts, proof)
    return e.followed(of.module, of.facts, proof)


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry that a certificate is of, with how it was launched. ``where``: where its proof stands."""

    name: str
    text: str
    policy: Policy
    given: dict[str, int]
    where: str
    doubts: Doubts

    def for_blocks(self, module: Module, facts: LaunchFacts, proof: Any) -> Rechecked:
        """A proof with a part for each block, as nothing gives one."""
        parts = parts_of(proof, self.where, module, self.name, facts)
        done = [
            replace(self, where=f"{self.where}.parts[{i}].proof").followed(
                module, with_block(facts, self.name, block), own
            )
            for i, (block, own) in enumerate(parts)
        ]
        same_launches(done, f"{self.where}.parts")
        met = Met()
        for one in done:
            met.join(one.met)
        rests = dict.fromkeys(text for one in done for text in one.assumptions)
        kind = next((one.kind for one in done if one.kind != INDUCTION), INDUCTION)
        assumed = (*rests, taken([block for block, _ in parts]))
        return replace(done[0], kind=kind, met=met, assumptions=assumed)

    def followed(self, module: Module, facts: LaunchFacts, proof: Any) -> Rechecked:
        """A proof for one launch or for all of its sizes."""
        at = self.where
        if isinstance(proof, dict) and proof.get("kind") == INDUCTION:
            from syncverify.driver import by_kernel

            e = by_kernel.CertifiedKernel(self.name, self.text, self.policy, self.given, proof, at)
            return by_kernel.of_entry(module, facts, e, self.doubts)
        kind, parts = take(proof, at, "kind", "parts")
        if kind != "ptx":
            raise RejectedError(f"{at}.kind", f"{kind!r} is no proof of PTX")
        claims = _Claims(listed(parts, f"{at}.parts"), at)
        by = Checker(claims.judge, claims.prove, again=self.doubts.judge)
        try:
            report = checked(module, self.name, facts, self.given, self.policy, by)
            report = self.doubts.asked(report, module)
        except NoLaunchError:  # the launch file is wrong, not the certificate
            raise
        except InputError as e:
            raise RejectedError(at, e.message) from None
        if report.verdict is not Verdict.PROVED:
            raise RejectedError(at, f"it does not follow: {why_not(report)}")
        if claims.taken != len(claims.parts):
            raise RejectedError(f"{at}.parts", "more than the launch has")
        rests = (*report.scope.assume, *report.assumptions, *claims.met.assumed)
        scope = report.scope
        return Rechecked(self.name, self.policy, scope.kind, scope.values, "ptx", claims.met, rests)


def _reason(data: Any, at: str) -> Reason:
    """A reason of a certificate, whole: RejectedError where a part of it is missing."""
    take(data, f"{at}.reason", "text", "causes", "of")
    return heard(data)


__all__ = ["Launched", "recheck"]
