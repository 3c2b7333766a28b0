"""Without any one rule of the reading some wrong kernel is accepted; with all of them none is."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.checker.induction.acceptance import of_ptx, of_text
from tests.checker.induction.bases import PTX_FACTS
from tests.checker.induction.sweep import ptx_refuted
from tests.checker.induction.switches import COMPILED_SWITCHES, SWITCHES

#: These are tried in every run.
QUICK = ("parities follow turns", "four warps execute a wgmma", "registers of the tensor core",
         "what is asked of turns is asked at its residue")  # fmt: skip
#: Takes twenty seconds.
LONG = "a loop that ends where its counter is a number begins below it"


@pytest.mark.parametrize(
    "rule", [pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow) for x in SWITCHES]
)
def test_a_rule_that_is_off_lets_a_wrong_kernel_in(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = SWITCHES[rule]
    (kernel,) = parse(switch.kernel, "wrong.syncir")
    assert check_kernel(kernel, switch.size).verdict is Verdict.REFUTED
    kept_out = of_text(switch.kernel)
    assert not kept_out.accepted and kept_out.cause != "no kernel", kept_out
    switch.off(monkeypatch)
    let_in = of_text(switch.kernel)
    assert let_in.accepted, let_in


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(x, marks=[pytest.mark.slow] if x == LONG or s.slow else [])
        for x, s in COMPILED_SWITCHES.items()
    ],
)
def test_a_rule_that_is_off_lets_a_wrong_compiled_kernel_in(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = COMPILED_SWITCHES[rule]
    assert ptx_refuted(switch.kernel, (1, 4)) is not None
    switch.claim(monkeypatch)
    kept_out = of_ptx(switch.kernel, PTX_FACTS)
    assert not kept_out.accepted and kept_out.cause != "no kernel", kept_out
    switch.off(monkeypatch)
    let_in = of_ptx(switch.kernel, PTX_FACTS)
    assert let_in.accepted, let_in
