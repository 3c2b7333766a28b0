"""What a proof of a protocol claims, in words: which iteration each wait means, and whom a step follows."""

from __future__ import annotations

from syncverify.checker.kernel.hops import CONTRIBUTIONS, Graph
from syncverify.checker.kernel.linear import Term, num
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import Kind, N, Protocol, U


def invariants(p: Protocol, proof: Proof) -> tuple[str, ...]:
    """One sentence for each ring, and one for each wait on it."""
    g = Graph(p, proof.shift)
    fixed = _numbers(p)

    def shown(t: Term) -> Term:
        return t.put(fixed)

    out = [f"{f}(t): the steps of all tiles before tile t" for f in p.prefix]
    for name, ring in p.rings.items():
        if ring.named:
            continue
        waits, lands = g.of(name, (Kind.WAIT,)), g.of(name, CONTRIBUTIONS)
        if not waits or not lands:
            continue
        depth = _bracketed(shown(ring.depth))
        slot = f"{name}[j mod {depth}]: turn j is phase j div {depth}"
        if shown(ring.depth) == num(1):
            slot = f"{name}: turn j is phase j"
        out.append(f"{slot}; complete for 0 <= j < {shown(proof.end[name])}")
        givers = sorted({p.roles[g.sites[i].role].name for i in lands})
        for i in waits:
            turn = shown(g.turn(i, U, N))
            who = p.roles[g.sites[i].role].name
            step = shown(g.sites[i].op.index)
            out.append(f"step {step} of {who} follows turn {turn} of {' and '.join(givers)} ({name})")
    for site in g.sites:
        for touch in site.op.touches:
            slots = shown(p.buffers[touch.buffer])
            if touch.access.writes and slots != num(1):
                index, who = shown(touch.slot), p.roles[site.role].name
                place = f"slot {_bracketed(index)} mod {_bracketed(slots)} of {touch.buffer}"
                out.append(f"{place} holds step {index} of {who}")
    return tuple(dict.fromkeys(out))


def _numbers(p: Protocol) -> dict[str, Term]:
    """Parameters to which the facts give a number: those of slots, mostly."""
    found: dict[str, Term] = {}
    for f in p.facts:
        if len(f.parts) == 1 and -f in p.facts:
            ((name, k),) = f.parts.items()
            if isinstance(name, str) and abs(k) == 1:
                found[name] = num(-f.const * k)
    return found


def _bracketed(t: Term) -> str:
    return f"({t})" if len(t.parts) + bool(t.const) > 1 else str(t)
