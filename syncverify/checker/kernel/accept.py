"""The kernel: whether a proof of a protocol holds. No search, no solver; what is malformed is rejected.

``accept`` derives sites, edges and obligations from the protocol, so that a proof can leave none out, and
checks one tree for each. Where it accepts, the protocol at every value of its parameters neither hangs nor
races nor is undefined (docs/kernel.md, theorem K).
"""

from __future__ import annotations

from dataclasses import dataclass

from syncverify.base.diagnostics import Policy
from syncverify.base.source import UNKNOWN_SPAN, Span
from syncverify.checker.kernel.accounting import account, account_keys, registers, shared_barriers
from syncverify.checker.kernel.hops import Graph
from syncverify.checker.kernel.linear import ZERO, RejectedError, Term, apply, equal
from syncverify.checker.kernel.obligations import Owed, impossible, observed, owed
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import Protocol, malformed
from syncverify.checker.kernel.ranks import growing
from syncverify.checker.kernel.trees import check


@dataclass(frozen=True, slots=True)
class Accepted:
    """The protocol is right at every value of its parameters that meets these."""

    assumptions: tuple[str, ...] = ()
    obligations: int = 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """``obligation``: the key of the tree, or what else was looked at; ``where``: in the source, if it is
    known.
    """

    obligation: str
    where: Span
    why: str

    def __str__(self) -> str:
        place = "" if self.where == UNKNOWN_SPAN else f" ({self.where})"
        return f"{self.obligation}{place}: {self.why}"


def always(p: Protocol) -> list[Term]:
    """The premises of every obligation: the facts, and that prefix sums begin at 0."""
    return [*p.facts, *(c for f in p.prefix for c in equal(apply(f, ZERO), ZERO))]


def accept(p: Protocol, proof: Proof, policy: Policy = Policy.PRACTICAL) -> Accepted | Rejected:
    """Whether the proof shows that the protocol is right at every value of its parameters."""
    kernel = _Kernel(p, proof, policy)
    try:
        kernel.run()
    except RejectedError as e:
        return Rejected(kernel.at, kernel.where, str(e))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as e:
        return Rejected(kernel.at, kernel.where, f"malformed: {e!r}")
    shown = (*(f"{f} >= 0" for f in p.facts), *(f"{s} >= 0 for every x" for s in p.schemas))
    return Accepted(shown, kernel.checked)


@dataclass(slots=True)
class _Kernel:
    p: Protocol
    proof: Proof
    policy: Policy
    at: str = "protocol"
    where: Span = UNKNOWN_SPAN
    checked: int = 0

    def run(self) -> None:
        p, proof = self.p, self.proof
        why = malformed(p)
        if why is not None:
            raise RejectedError(why)
        g = Graph(p, proof.shift, self.policy)
        self.at = "claims"
        self.claims(g)
        registers(g, proof.trees)
        shared_barriers(g)
        premises, scope = always(p), p.parameters | {"u", "n", "u'", "n'"}
        keys = set(account_keys(g))
        for ring in p.rings:
            self.at = f"turns of {ring}"
            account(g, ring, proof.end[ring], proof.trees, premises)
        for o in (*owed(g, proof.end), *growing(g, proof.rank), *observed(g)):
            if impossible(o.premises) or (o.optional and o.key not in proof.trees):
                continue
            self.at, self.where = o.key, g.sites[o.sites[0]].op.span if o.sites else UNKNOWN_SPAN
            keys.add(o.key)
            self.meets(o, premises, scope)
        self.at, self.where, self.checked = "proof", UNKNOWN_SPAN, len(keys)
        if set(proof.trees) != keys:
            raise RejectedError(f"it has a tree for {min(set(proof.trees) - keys)!r}, which nobody asks for")

    def claims(self, g: Graph) -> None:
        """Shifts are numbers of sites on rings, ends are functions of the parameters."""
        p, proof = self.p, self.proof
        if any(
            not 0 <= i < len(g.sites) or not g.sites[i].op.ring or type(k) is not int
            for i, k in proof.shift.items()
        ):
            raise RejectedError("a shift of no site on a ring")
        if any(k and p.rings[g.sites[i].op.ring].named for i, k in proof.shift.items()):
            raise RejectedError("generations are not shifted")
        if set(proof.end) != set(p.rings):
            raise RejectedError("ends of other rings")
        for t in proof.end.values():
            if not t.names() <= p.parameters or not t.functions() <= {*p.prefix, *p.marks}:
                raise RejectedError(f"the end {t} is no function of the parameters")

    def meets(self, o: Owed, premises: list[Term], scope: frozenset[str]) -> None:
        tree = self.proof.trees.get(o.key)
        if tree is None:
            raise RejectedError("there is no tree for it")
        goal = o.goal
        check(self.p, [*premises, *o.premises], tree, lambda x, _, names: goal.needs(x, names), scope)
