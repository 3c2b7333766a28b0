"""Sums over one iteration: every iteration of a ring gets exactly its arrivals and bytes, every barrier one
init.
"""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.checker.prover.rings.agents import Program
from syncverify.checker.prover.rings.linear import Facts, Lin, OutsideError, conjunction, num, var
from syncverify.checker.prover.rings.program import FIRST, Op, Ring, highs, single
from syncverify.checker.prover.rings.rules import Turns, depth, equal, turn
from syncverify.ir.expr import Binary, Call, Expr, Int

_TURN = "turn'"
#: Most bytes that one phase may expect (PTX ISA, mbarrier: tx-count).
TX_LIMIT = 2**20 - 1


def every(p: Program, ring: Ring, kinds: tuple[str, ...]) -> Iterator[tuple[int, Op]]:
    """The operations on a ring with the number of threads in the block that execute each."""
    seen: set[tuple[int, int]] = set()
    for a in p.agents:
        if (a.kind, a.part) in seen:
            continue
        seen.add((a.kind, a.part))
        for op in a.ops:
            if op.ring == ring and op.kind in kinds:
                yield a.threads * a.copies, op


def balanced(p: Program, t: Turns, ring: Ring, facts: Facts) -> str | None:
    """Why a ring's turns do not get what they need; None if all do."""
    inits = list(every(p, ring, ("init",)))
    counts = {op.count for _, op in inits}
    if len(counts) != 1 or not 1 <= min(counts) <= TX_LIMIT:
        return f"{ring[0]} is not initialized with one number"
    count = counts.pop()
    here, size = var(_TURN), depth(p, ring)
    once = _sum([(threads, 1, op, op.index) for threads, op in inits], here)
    inside = (here, size - here - 1)
    if not facts.holds(once.eq(1), inside) or not _nothing(once, here, size, facts):
        return f"{ring[0]} is not initialized once for every slot"
    ended = [(threads, 1, op, op.index) for threads, op in every(p, ring, ("inval",))]
    if ended and not facts.holds(_sum(ended, here) <= 1):
        return f"{ring[0]} is invalidated twice"
    end = t.end[ring]
    found = list(every(p, ring, ("arrive", "expect", "copy")))
    placed = [(threads, op, turn(p, t, op, var(FIRST))) for threads, op in found]
    arrivals = _sum([(k, op.count, op, at) for k, op, at in placed], here)
    expects = _sum([(k, op.bytes, op, at) for k, op, at in placed if op.kind != "copy"], here)
    copies = _sum([(k, op.bytes, op, at) for k, op, at in placed if op.kind == "copy"], here)
    inside = (here, end - here - 1)
    if not facts.holds(arrivals.eq(count), inside) or not _nothing(arrivals, here, end, facts):
        return f"the arrivals of a turn of {ring[0]} are not {count}"
    if not facts.holds(Binary("==", expects, copies)):
        return f"the bytes announced on {ring[0]} are not those that are copied"
    if not _nothing(copies, here, end, facts) or not facts.holds(expects <= TX_LIMIT):
        return f"the bytes of a turn of {ring[0]}"
    for _, op in every(p, ring, ("wait",)):
        means = turn(p, t, op, var(FIRST))
        if not facts.entails(op.domain, [(means + size, end - means - 1)]):
            return f"a wait on {ring[0]} means a turn that is never complete"
        if (t.lag[op.statement] - op.lag) % 2:
            return f"a wait on {ring[0]} means a turn of another parity"
    return None


def _nothing(total: Expr, here: Lin, end: Lin, facts: Facts) -> bool:
    """Whether the sum is 0 before iteration 0 and from turn ``end`` on."""
    none = total.eq(0)
    return facts.holds(none, (num(-1) - here,)) and facts.holds(none, (here - end,))


def _sum(parts: list[tuple[int, int, Op, Lin]], here: Lin) -> Expr:
    """The sum over an iteration of ``threads * amount`` of each operation that has an execution in it."""
    terms: list[Expr] = []
    for threads, amount, op, index in parts:
        if not amount:
            continue
        match index.coefficient(FIRST):
            case 1:
                at = here - index.put({FIRST: num(0)})
                holds = tuple(c.put({FIRST: at}) for c in op.domain)
            case 0 if single(op.domain) is not None:
                only = {FIRST: num(single(op.domain) or 0)}
                holds = (*(c.put(only) for c in op.domain), *equal(index, here))
            case _:
                raise OutsideError("an operation that skips turns or repeats one")
        terms.append(Call("select", (conjunction(holds), Int(threads * amount), Int(0))))
    total: Expr = Int(0)
    for term in terms:
        total = Binary("+", total, term)
    return total


def ends(p: Program, t: Turns, ring: Ring) -> list[Lin]:
    """Where the iterations of a ring may end: behind the last execution of some contribution."""
    found: list[Lin] = []
    for _, op in every(p, ring, ("arrive", "copy")):
        last = highs(op.domain) or [num(0)]
        found += [turn(p, t, op, high) + 1 for high in last]
    return list(dict.fromkeys([*found, num(0)]))
