"""Each field of an event that a front end emits is noticed: with another value the protocol is another one.

Or there is none. What is not noticed is listed, and why nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.induction import read
from syncverify.checker.induction.operations import essence
from syncverify.checker.kernel.protocol import Protocol
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.rings.by_induction import NotReadError, protocols
from syncverify.ir.text.parser import parse
from syncverify.model.events import Ev, Event, Flag
from tests.checker.induction.bases import IR

ALONE = "followed along the ways of each thread (`alone`)"
MAP = "an edited map is an event of its own, which is refused"
STRONG = "a strong access is ordered no less than a plain one"
UNSEEN: dict[tuple[Ev, int], str] = {
    (Ev.BULK_LOAD, 4): MAP,
    (Ev.BULK_STORE, 4): MAP,
    (Ev.BULK_STORE, 5): "a reduction reads the same bytes of shared memory",
    (Ev.BULK_WAIT, 3): "a store to a place that others read is refused, so that reads alone are waited for",
    (Ev.GLOBAL_READ, 3): STRONG,
    (Ev.GLOBAL_READ, 4): STRONG,
    (Ev.GLOBAL_WRITE, 3): STRONG,
    (Ev.GLOBAL_WRITE, 4): STRONG,
    (Ev.WGMMA, 2): ALONE,
    (Ev.WGMMA, 4): ALONE,
    (Ev.WGMMA, 6): "compared between the warps of a warpgroup",
    (Ev.WGMMA, 7): "rows of other warps, which are read strictly alone",
}
#: Another value of a field, where the next number is none.
OTHER: dict[tuple[Ev, int], Callable[[Any], Any]] = {
    (Ev.ARRIVE, 4): lambda x: x + 16,
    (Ev.GLOBAL_ATOMIC, 3): lambda x: x ^ Flag.RELEASE,
    (Ev.GLOBAL_ATOMIC, 4): lambda _: 0,
    (Ev.SPIN, 3): lambda x: x ^ Flag.ACQUIRE,
    (Ev.SPIN, 4): lambda _: 0,
}
BASES = ("threads write, two slots", "ring of three", "staged store, two slots", "pair", "blocks", "products",
         "expect apart, two slots")  # fmt: skip


def changed(x: Any) -> Any:
    if isinstance(x, int):
        return x + 1
    if isinstance(x, tuple):
        return tuple((fp, bar, size + 16) for fp, bar, size in x)
    return "other" if isinstance(x, str) else 1


def protocols_of(
    name: str, patch: pytest.MonkeyPatch, seen: Callable[[Event], Event]
) -> list[Protocol] | None:
    """The protocols of a base whose events are taken for others; None where it is not read."""
    real = essence
    (kernel,) = parse(IR[name].text, "base.syncir")
    with patch.context() as p:
        p.setattr(read, "essence", lambda e: real(seen(e)))
        try:
            return protocols(problem_of(kernel, IR[name].given, lambda _: Verdict.UNKNOWN))
        except (NotReadError, IndexError):  # or there is no such barrier, or no such piece of memory
            return None


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[] if x == BASES[0] else pytest.mark.slow) for x in BASES]
)
def test_a_field_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fields: dict[tuple[Ev, int], None] = {}

    def noted(e: Event) -> Event:
        if essence(e) is not None:
            fields.update(dict.fromkeys((Ev(e[0]), i) for i in range(2, len(e))))
        return e

    plain = protocols_of(name, monkeypatch, noted)
    assert plain is not None
    for kind, i in fields:

        def other(e: Event, kind: Ev = kind, i: int = i) -> Event:
            if e[0] != kind or len(e) <= i or essence(e) is None:
                return e
            return (*e[:i], OTHER.get((kind, i), changed)(e[i]), *e[i + 1 :])

        unseen = (kind, i) in UNSEEN
        assert unseen or protocols_of(name, monkeypatch, other) != plain, f"{kind.name}, field {i}"
