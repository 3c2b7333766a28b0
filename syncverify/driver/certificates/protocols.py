"""Proofs that the kernel accepts alone, written down: see ``driver.by_kernel``, which reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syncverify.checker.induction.quotients import Product
from syncverify.checker.prover.protocols import written as texts
from syncverify.checker.prover.rings.by_induction import Cases, NamedCases, Shown, SizeCases
from syncverify.driver.rechecked import INDUCTION
from syncverify.driver.shared_lists import shared


def written(problems: Sequence[Sequence[Cases] | None]) -> dict[str, Any]:
    """The proof of a kernel: for each problem that it poses, the cases of each system; null for one that it
    leaves undecided.
    """
    plain = [None if some is None else [_plain(x) for x in some] for some in problems]
    return {"kind": INDUCTION, "problems": plain}


def _plain(x: Cases | None) -> Any:
    if isinstance(x, SizeCases):
        return ["parted", [x.c, *(list(p) for p in x.parts)], _plain(x.yes), _plain(x.no)]
    if isinstance(x, NamedCases):
        size = x.size
        if isinstance(size, Product):
            return ["product", *size.factors, _plain(x.inner)]
        c, parts = size.total
        return ["quotient", [c, *(list(p) for p in parts)], size.divisor, _plain(x.inner)]
    if isinstance(x, Shown):
        # the certificate has a format and digests of its own
        proof = {k: v for k, v in texts.proof(x.proof).items() if k != "format"}
        proof["shared"], proof["trees"] = shared(proof["trees"])
        claimed = texts.claims(x.reading.claimed)
        claimed["shared"], some = shared({"claims": claimed["claims"]})
        return ["proof", claimed | some[""], proof]
    return None
