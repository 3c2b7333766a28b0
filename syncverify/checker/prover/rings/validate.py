"""Checks a certificate against its kernel: arithmetic only, no search.

The kernel's operations and all obligations are derived again; ``certificate`` only says which iterations
belong together, how ranks grow, and along which steps each obligation is met.
"""

from __future__ import annotations

from collections import defaultdict

from syncverify.base.source import InputError
from syncverify.checker.prover.rings import accounting, ranks
from syncverify.checker.prover.rings.agents import Program, extract
from syncverify.checker.prover.rings.certificate import Certificate, Path
from syncverify.checker.prover.rings.extract import elections, known
from syncverify.checker.prover.rings.linear import Facts, Lin, OutsideError, num
from syncverify.checker.prover.rings.program import Case
from syncverify.checker.prover.rings.rules import (
    Obligation,
    Step,
    Turns,
    enabling,
    equal,
    exists,
    hop,
    obligations,
    op_of,
    rings,
    turn,
)
from syncverify.ir.nodes import Kernel
from syncverify.model.ordering import ordering

Cases = tuple[tuple[Case, Certificate], ...]


def validate(kernel: Kernel, cases: Cases) -> str | None:
    """Why the certificates prove nothing of this kernel; None if they hold for every number of stages.

    Together their cases must leave no launch out.
    """
    try:
        for lanes in elections(kernel):
            sizes = [case.sizes for case, _ in cases if case.elected == lanes]
            if not sizes or not Facts(known(kernel)).entails((), sizes):
                return "some launches are left out"
        for case, certificate in cases:
            program = extract(kernel, case)
            wrong = flaw(program, certificate, Facts(program.facts))
            if wrong is not None:
                return wrong
        return None
    except OutsideError as e:
        return str(e)
    except (KeyError, IndexError, InputError) as e:
        return f"it is not of this kernel: {e!r}"


def flaw(p: Program, c: Certificate, facts: Facts) -> str | None:
    """What is wrong with a certificate of a program; None if nothing is."""
    if set(c.turns.end) != set(rings(p)) or set(c.ranks) != set(ranks.keys(p)):
        return "it is not of this kernel"
    named = {o.statement for a in p.agents for o in a.ops if o.ring is not None}
    if (set(c.turns.shift) | set(c.turns.lag)) - named:
        return "it is not of this kernel"
    for ring in rings(p):
        wrong = accounting.balanced(p, c.turns, ring, facts)
        if wrong is not None:
            return wrong
    wrong = ranks.unordered(p, c.turns, c.ranks, facts)
    return wrong if wrong is not None else _paths(p, c, facts)


def _paths(p: Program, c: Certificate, facts: Facts) -> str | None:
    owed = list(obligations(p, c.turns))
    if len(owed) != len(c.paths):
        return "it has paths for other obligations"
    chosen: dict[str, set[str]] = defaultdict(set)
    skipped: dict[str, set[str]] = defaultdict(set)
    for o, some in zip(owed, c.paths, strict=True):
        pair, which = alternative(o)
        if some is None:
            if pair is None:
                return f"no path for {describe(p, o)}"
            skipped[pair].add(which)
            continue
        if pair is not None:
            chosen[pair].add(which)
        cases = [constraints(p, c.turns, o, path) for path in some]
        if not facts.entails(o.given, [x for x in cases if x is not None] or [(num(-1),)]):
            return f"not ordered: {describe(p, o)}"
    for pair, out in skipped.items():
        if not chosen[pair] - out:
            return f"no order is chosen for {pair}"
    return None


def alternative(o: Obligation) -> tuple[str | None, str]:
    """The pair whose order is chosen, and which choice the obligation belongs to."""
    _, found, rest = o.name.partition("Choice ")
    if not found:
        return None, ""
    which, _, pair = rest.partition(" ")
    return pair, which


def constraints(p: Program, t: Turns, o: Obligation, path: Path) -> tuple[Lin, ...] | None:
    """When a path meets an obligation: all its hops hold. None if it cannot."""
    if not path or path[0] != o.start:
        return None
    needs: list[Lin] = []
    crossed = fenced = False
    for i in range(len(path) - 1):
        a, b = path[i], path[i + 1]
        found = hop(p, t, a, b, i == 0) if o.causal else enabling(p, t, a, b)
        if found is None:
            return None
        crossed |= found[0]
        fenced |= op_of(p, b).kind == "fence"
        needs += found[1]
    end = _reaches(p, t, o, path[-1])
    if end is None or (o.crosses and not crossed):
        return None
    if o.bridge and not fenced and not used(p, o, path):
        return None
    return (*needs, *end)


def used(p: Program, o: Obligation, path: Path) -> bool:
    """Whether the path leads through the first use of the read that it starts with (contested point K1)."""
    if o.goal is None or len(path) < 2:
        return False
    first, second = op_of(p, o.start), op_of(p, path[1])
    after = path[1].agent == o.start.agent and path[1].at == o.start.at
    if not (after and second.kind == "use" and second.of == first.place):
        return False
    pairs = [(x, y) for x in first.touches for y in op_of(p, o.goal).touches if x.buffer == y.buffer]
    return all(ordering(x.access, y.access).contested == "K1" for x, y in pairs)


def _reaches(p: Program, t: Turns, o: Obligation, last: Step) -> tuple[Lin, ...] | None:
    op = op_of(p, last)
    if o.goal is not None:
        return () if last == o.goal else None
    if o.ring is None:
        return () if op.kind in ("wait", "drain") and last.half == "out" else None
    kinds = ("arrive",) if o.name == "O4" else ("arrive", "expect", "copy")
    if op.kind in kinds and op.ring == o.ring and last.half == "in":
        return (*exists(op, last.at), *equal(turn(p, t, op, last.at), o.turn))
    return None


def describe(p: Program, o: Obligation) -> str:
    """What an obligation is about, for people."""
    x = op_of(p, o.start)
    if o.goal is None:
        about = f"on {o.ring[0]}" if o.ring is not None else "at the end"
        return f"{o.name} of {x.kind} (line {x.span.line}) {about}"
    y = op_of(p, o.goal)
    what = o.name.partition(" ")[0]
    return f"{what} from {x.kind} (line {x.span.line}) to {y.kind} (line {y.span.line})"


__all__ = ["validate"]
