"""What is said of fences between proxies and of their halves, beside three lists of what the ISA says."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Policy
from syncverify.checker.happens_before import race_findings, vector_clocks
from tests.checker.happens_before.drawn_proxy_fences import Handover, handover
from tests.sweeps import part_of

SEEDS = range(2_000)
#: One of so many in each run.
EVERY = 80


def _report(k: Handover, policy: Policy) -> KernelReport:
    given = {"grid": [1], "block": [64], "params": {"0": "ptr"}}
    (found,) = syncverify.check(k.text(), facts={"kernel": {"k": given}}, policy=policy, advice=False)
    return found


def wrong(seed: int) -> str:
    """What is said of a handover that the lists contradict; nothing if they do not."""
    k = handover(seed)
    practical, strict = _report(k, Policy.PRACTICAL), _report(k, Policy.STRICT)
    said, label = str(practical.verdict), k.label()
    if label == "right":
        return f"{said}, and it is right" if said != "proved" else ""
    if str(strict.verdict) == "proved" or (label == "open" and said != "unknown"):
        return f"{said}, in strict mode {strict.verdict}, and it is {label}"
    warned = any(d.contested for d in practical.diagnostics)
    if said == "proved" and not (warned and k.has_a_half):
        return "proved, and it is wrong"
    return ""


@pytest.mark.parametrize("seed", part_of(SEEDS, EVERY))
def test_what_is_said_of_fences_and_halves_holds(seed: int) -> None:
    assert wrong(seed) == ""


@pytest.mark.slow
def test_what_is_said_of_many_holds() -> None:
    assert {s: said for s in SEEDS if (said := wrong(s))} == {}


def test_a_mistake_about_halves_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both halves are a whole fence, wherever they stand."""
    bridge = vector_clocks.Clock.bridge_shared

    def whole(self: vector_clocks.Clock, classes: int, half: int, *more: object) -> None:
        bridge(self, classes, 0, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(vector_clocks.Clock, "bridge_shared", whole)
    assert wrong(137).startswith("proved, in strict mode")


def test_a_mistake_about_what_halves_may_order_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves order nothing: what lies around both is refuted."""
    monkeypatch.setattr(race_findings, "_between_halves", lambda *_: False)
    assert any(wrong(seed).startswith("refuted") for seed in OPEN)


#: Handovers that halves may order, and nothing else does.
OPEN = [seed for seed in range(150) if handover(seed).label() == "open"]
