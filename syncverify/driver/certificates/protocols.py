"""Proofs that the kernel accepts alone, written down: see ``driver.by_kernel``, which reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syncverify.checker.induction.quotients import Product
from syncverify.checker.kernel.linear import Term
from syncverify.checker.prover.protocols import written as texts
from syncverify.checker.prover.rings.by_induction import (
    Cases,
    InductionProof,
    NamedCases,
    Shown,
    SizeCases,
)
from syncverify.driver.rechecked import INDUCTION
from syncverify.driver.shared_lists import shared


def of(proof: InductionProof) -> dict[str, Any]:
    """A proof as a certificate has it. It is written once: a certificate is followed before it is kept."""
    return dict(proof.written) if proof.written is not None else written(proof.problems)


def written(problems: Sequence[Sequence[Cases] | None]) -> dict[str, Any]:
    """The proof of a kernel: for each problem that it poses, the cases of each system; null for one that it
    leaves undecided. Terms and lists that several cases have are written once.
    """
    terms: dict[Term, int] = {}
    plain = [None if some is None else [_plain(x, terms) for x in some] for some in problems]
    table, rest = shared({"terms": list(map(texts.term, terms)), "problems": plain})
    return {"kind": INDUCTION, "shared": table, **rest}


def _plain(x: Cases | None, terms: dict[Term, int]) -> Any:
    if isinstance(x, SizeCases):
        return ["parted", [x.c, *(list(p) for p in x.parts)], _plain(x.yes, terms), _plain(x.no, terms)]
    if isinstance(x, NamedCases):
        size = x.size
        if isinstance(size, Product):
            return ["product", *size.factors, _plain(x.inner, terms)]
        c, parts = size.total
        return ["quotient", [c, *(list(p) for p in parts)], size.divisor, _plain(x.inner, terms)]
    if isinstance(x, Shown):
        proof = texts.body(x.proof, terms)  # the certificate has a format and digests of its own
        return ["proof", texts.claims(x.reading.claimed), proof | {"trees": _together(proof["trees"])}]
    return None


def _together(trees: dict[str, Any]) -> dict[str, Any]:
    """Trees by their names without the last word: these words in one text, and the trees in their order."""
    out: dict[str, tuple[list[str], list[Any]]] = {}
    for name, tree in trees.items():
        first, _, last = name.rpartition(" ")
        words, some = out.setdefault(first, ([], []))
        words.append(last)
        some.append(tree)
    return {first: [[" ".join(words)], some] for first, (words, some) in out.items()}
