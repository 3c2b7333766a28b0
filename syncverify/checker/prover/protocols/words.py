"""What a proof of a protocol claims, in words: which iteration each wait means, and whom a step follows."""

from __future__ import annotations

from syncverify.checker.kernel.hops import CONTRIBUTIONS, Graph
from syncverify.checker.kernel.linear import Term, num
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import Kind, N, Protocol, U


def invariants(p: Protocol, proof: Proof) -> tuple[str, ...]:
    """One sentence for each ring, and one for each wait on it."""
    g = Graph(p, proof.shift)
    out = [f"{f}(t): the steps of all tiles before tile t" for f in p.prefix]
    for name, ring in p.rings.items():
        if ring.named:
            continue
        waits, lands = g.of(name, (Kind.WAIT,)), g.of(name, CONTRIBUTIONS)
        if not waits or not lands:
            continue
        depth = _bracketed(ring.depth)
        slot = f"{name}[j mod {depth}]: turn j is phase j div {depth}"
        if ring.depth == num(1):
            slot = f"{name}: turn j is phase j"
        out.append(f"{slot}; complete for 0 <= j < {proof.end[name]}")
        givers = sorted({p.roles[g.sites[i].role].name for i in lands})
        for i in waits:
            turn = g.turn(i, U, N)
            who = p.roles[g.sites[i].role].name
            step = g.sites[i].op.index
            out.append(f"step {step} of {who} follows turn {turn} of {' and '.join(givers)} ({name})")
    return tuple(dict.fromkeys(out))


def _bracketed(t: Term) -> str:
    return f"({t})" if len(t.parts) + bool(t.const) > 1 else str(t)
