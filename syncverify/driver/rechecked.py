"""Files of certificates: their entries with right digests, and what the recheck of one has met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from syncverify.base.certificate_data import RejectedError, digest, listed, number, read, take
from syncverify.base.diagnostics import Policy, ScopeKind


@dataclass(slots=True)
class Met:
    """``counts``: of systems, nodes and events. ``reasons``: one for each system that the kernel does not
    judge, whose obligations rest on the checker's handlers. ``assumed``: what the kernel takes for granted.
    """

    counts: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    assumed: dict[str, None] = field(default_factory=dict)

    def add(self, what: str, n: int = 1) -> None:
        if n:
            self.counts[what] = self.counts.get(what, 0) + n

    def join(self, other: Met) -> None:
        for what, n in other.counts.items():
            self.add(what, n)
        self.reasons += other.reasons
        self.assumed |= other.assumed


@dataclass(frozen=True, slots=True)
class Rechecked:
    """A proof that holds: of what, and what it rests on."""

    kernel: str
    policy: Policy
    scope: ScopeKind
    values: Mapping[str, int]
    kind: str
    met: Met
    assumptions: tuple[str, ...] = ()  # the facts that were given, and what the check assumes besides

    @property
    def judged(self) -> bool:
        """Whether the kernel judged and accepted all of it. It judges no verdict of strict mode: what a proof
        may assume there is not settled."""
        return self.policy is not Policy.STRICT and not self.met.reasons


#: The kind of proofs that the kernel accepts alone.
INDUCTION = "induction"
#: Lists whose entries have digests of their own.
PARTS = ("kernels", "systems", "cases", "parts")


def _unsealed(data: Any, where: str, inside: str = "") -> Any:
    """The data without digests, each of which must be right."""
    if isinstance(data, list):
        return [_unsealed(x, f"{where}[{i}]", inside) for i, x in enumerate(data)]
    if not isinstance(data, dict):
        return data
    out = {k: _unsealed(v, f"{where}.{k}" if where else k, k if k in PARTS else "") for k, v in data.items()}
    if inside or "format" in data:
        if out.pop("digest", None) != digest(data):
            raise RejectedError(where or "digest", "the digest is not that of the data")
    return out


def entries(text: str, file: str) -> list[Any]:
    """What a file of certificates says of each kernel, its digests checked and left out."""
    data = _unsealed(read(text, file), "")
    _, _, found = take(data, "", "format", "version", "kernels")
    if not listed(found, "kernels"):
        raise RejectedError("kernels", "nothing is proved")
    return list(found)


def given_values(data: Any, where: str) -> dict[str, int]:
    """The numbers that a certificate gives to parameters."""
    if not isinstance(data, dict):
        raise RejectedError(where, "not an object")
    return {k: number(v, f"{where}.{k}") for k, v in data.items()}
