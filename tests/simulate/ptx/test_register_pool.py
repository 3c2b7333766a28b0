"""setmaxnreg on both sides: what is undefined, and what is a warning (docs/hardware.md, at several places)."""

from __future__ import annotations

import numpy as np
import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.simulate.ptx import Kind, Launch, buffer, first_harm, run
from tests.simulate.ptx.support import kernel

PROVED, REFUTED = Verdict.PROVED, Verdict.REFUTED
DEC = "setmaxnreg.dec.sync.aligned.u32 {};"
FIRST = "setp.lt.u32 %p1, %r1, {};"
TWO = FIRST.format(64) + "@%p1 bra A; " + DEC.format(64) + "bra E;\n A: {} E:"
#: Body, threads, the verdict of the checker, and what the second reader sees.
CASES: dict[str, tuple[str, int, Verdict, Kind | None]] = {
    "one for all": (DEC.format(64), 128, PROVED, None),
    "the same number at two places": (TWO.format(DEC.format(64)), 128, PROVED, None),
    "two numbers": (TWO.format(DEC.format(72)), 128, REFUTED, Kind.UNDEFINED),
    "dec and inc": (TWO.format("setmaxnreg.inc.sync.aligned.u32 128;"), 128, REFUTED, Kind.UNDEFINED),
    "one warp does not": (
        FIRST.format(32) + "@%p1 bra E; " + DEC.format(64) + " E:",
        128,
        REFUTED,
        Kind.UNDEFINED,
    ),
    "half of a warp does not": (
        FIRST.format(16) + "@%p1 bra E; " + DEC.format(64) + " E:",
        128,
        REFUTED,
        Kind.UNDEFINED,
    ),
    "no whole warpgroup": (DEC.format(64), 64, REFUTED, Kind.UNDEFINED),
    "twice, met between": (DEC.format(64) + "bar.sync 0;" + DEC.format(40), 128, PROVED, None),
    "twice, not met": (DEC.format(64) + DEC.format(40), 128, REFUTED, Kind.UNDEFINED),
    "twice the same, not met": (DEC.format(64) + DEC.format(64), 128, PROVED, None),
    "beyond the pool": ("setmaxnreg.inc.sync.aligned.u32 256;", 128, REFUTED, Kind.HANG),
}


@pytest.mark.parametrize("name", CASES)
def test_both_sides_agree(name: str) -> None:
    body, threads, verdict, kind = CASES[name]
    text = kernel(body)
    facts = {"grid": [1], "block": [threads], "registers": 128}
    (report,) = syncverify.check(text, facts=facts, replay=False, advice=False)
    assert report.verdict is verdict, report.diagnostics
    launch = Launch((threads, 1, 1), params=(buffer(np.zeros(8, np.uint32)),), registers=128)
    found = first_harm(text, "k", launch, range(8))
    assert (None if found is None else found.kind) is kind, found


@pytest.mark.parametrize("name", ["the same number at two places", "twice the same, not met"])
def test_what_hardware_counts_is_a_warning_on_both_sides(name: str) -> None:
    body, threads, *_ = CASES[name]
    launch = Launch((threads, 1, 1), params=(buffer(np.zeros(8, np.uint32)),), registers=128)
    assert any("setmaxnreg" in str(w) for w in run(kernel(body), "k", launch, seed=1).warnings)
    (report,) = syncverify.check(
        kernel(body), facts={"grid": [1], "block": [threads]}, policy="strict", advice=False
    )
    assert {d.rule for d in report.diagnostics} == {"SV304"}
    assert report.verdict is Verdict.REFUTED
