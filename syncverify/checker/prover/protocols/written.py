"""Proofs and claims as plain data, as certificates hold them: the formats of docs/proof_format.md.

Not trusted: ``kernel.proof`` and ``induction.claims_text`` read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from syncverify.checker.induction.claims import Claim, Form, Header, Lanes
from syncverify.checker.induction.program import Claimed
from syncverify.checker.kernel.hops import Drained, How, Program, Same, Step, Turn
from syncverify.checker.kernel.linear import Apply, Sum, Term
from syncverify.checker.kernel.proof import (
    FORMAT,
    VERSION,
    Along,
    Events,
    Follows,
    Grows,
    Payload,
    Proof,
    SameEvent,
)
from syncverify.checker.kernel.trees import (
    Absurd,
    Congruent,
    Instance,
    Leaf,
    Monotone,
    Residues,
    Split,
    Tile,
    Tree,
)


@dataclass(slots=True)
class _Writer:
    """Terms are written once, and referred to by number."""

    terms: dict[Term, int] = field(default_factory=dict)

    def term(self, t: Term) -> int:
        return self.terms.setdefault(t, len(self.terms))

    def sum(self, s: Sum) -> list[Any]:
        return [s.divisor, *([i, m] for i, m in s.multipliers)]

    def step(self, s: Step) -> list[Any]:
        return [s.site, s.half.value, self.term(s.u), self.term(s.n)]

    def how(self, h: How) -> list[Any]:
        match h:
            case Program(level):
                return ["program", level]
            case Same():
                return ["same"]
            case Turn():
                return ["turn"]
            case Drained(commits, levels, twin):
                return ["drained", [self.step(c) for c in commits], list(levels), twin]

    def payload(self, p: Payload) -> list[Any]:
        match p:
            case Follows():
                return ["follows"]
            case Along(path, reverse):
                hops = [[self.how(h), self.step(s)] for h, s in path]
                return ["reverse" if reverse else "along", hops]
            case SameEvent():
                return ["same"]
            case Grows(level):
                return ["grows", level]
            case Events(events, only):
                listed = [[i, self.term(u), self.term(n)] for i, u, n in events]
                return ["events", listed, [[i, self.tree(t)] for i, t in only.items()]]

    def tree(self, t: Tree) -> list[Any]:
        match t:
            case Split(term, yes, no):
                return ["split", self.term(term), self.tree(yes), self.tree(no)]
            case Residues(term, name, kids):
                return ["residues", self.term(term), name, [self.tree(k) for k in kids]]
            case Tile(f, term, top, name, by, kid):
                sums = [self.sum(s) for s in by]
                return ["tile", f, self.term(term), self.term(top), name, sums, self.tree(kid)]
            case Monotone(f, low, high, by_, kid):
                return ["monotone", f, self.term(low), self.term(high), self.sum(by_), self.tree(kid)]
            case Congruent(f, a, b, by2, kid):
                return [
                    "congruent",
                    f,
                    self.term(a),
                    self.term(b),
                    [self.sum(s) for s in by2],
                    self.tree(kid),
                ]
            case Instance(schema, term, kid):
                return ["instance", schema, self.term(term), self.tree(kid)]
            case Absurd(by_):
                return ["absurd", self.sum(by_)]
            case Leaf(payload, by_all):
                return ["leaf", self.payload(payload), [self.sum(s) for s in by_all]]


def term(t: Term) -> list[Any]:
    """A term as plain data."""
    parts = sorted(t.parts.items(), key=str)
    return [
        t.const,
        *([k, [a.function, term(a.argument)] if isinstance(a, Apply) else a] for a, k in parts),
    ]


def proof(some: Proof) -> dict[str, Any]:
    """The proof as plain data."""
    terms: dict[Term, int] = {}
    rest = body(some, terms)
    return {"format": FORMAT, "version": VERSION, "terms": list(map(term, terms)), **rest}


def body(some: Proof, terms: dict[Term, int]) -> dict[str, Any]:
    """What a proof says by the numbers of terms. Those that have none yet get the next ones."""
    w = _Writer(terms)
    return {
        "shift": [[i, k] for i, k in some.shift.items()],
        "end": {ring: w.term(t) for ring, t in some.end.items()},
        "rank": [[i, done, [w.term(t) for t in ts]] for (i, done), ts in some.rank.items()],
        "trees": {key: w.tree(t) for key, t in some.trees.items()},
    }


def claims(claimed: Claimed) -> dict[str, Any]:
    """The claims of all classes of lanes, each written once, and the splits of classes."""
    table: list[Any] = []
    of = []
    for c in claimed.claims:
        plain = _claim(c)
        if plain not in table:
            table.append(plain)
        of.append(table.index(plain))
    return {"splits": [[cls, list(parts)] for cls, parts in claimed.splits], "claims": table, "of": of}


def _claim(claim: Claim) -> list[Any]:
    headers = [_header(h) for h in claim.headers]
    words = [[w.version, w.memory, w.first, w.size, w.value] for w in claim.words]
    return [claim.steps, claim.tiles, headers, *([words, list(claim.versions)] if words else ())]


def _header(h: Header) -> list[Any]:
    late = "apart" if h.apart else h.late and not h.tiles  # of tiles the reading finds it
    plain = [h.place, h.tiles, h.outer, late, _residues(h.forms)]
    begins = [[low, end, _registers(f)] for low, end, f in h.begins]
    turn = [h.first, h.stride] if h.stride > 1 else []
    more = [_residues(h.others), begins, h.ahead, None if h.trip is None else _register(h.trip), *turn]
    while more and not more[-1]:
        more.pop()
    return [*plain, *more]


def _residues(by: dict[tuple[int, int], dict[Any, Form]]) -> list[Any]:
    return [[r, q, _registers(f)] for (r, q), f in sorted(by.items())]


def _registers(forms: dict[Any, Form]) -> list[Any]:
    return [[list(slot) if isinstance(slot, tuple) else slot, _register(f)] for slot, f in forms.items()]


def _register(f: Form) -> Any:
    if f.any:
        return f.shape()
    if isinstance(f, Lanes):
        return ["lanes", *f.lanes]
    return [f.c, *([name, k] for name, k in f.parts)]


__all__ = ["body", "claims", "proof", "term"]
