"""A bulk load names as many bytes of a tensor as of shared memory."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from syncverify.simulate.ir import explore
from tests.checker.prover.rings.kernels import GOOD

LOAD = "a[i * 64 : 64]"


@pytest.mark.parametrize("count", [32, 128])
def test_a_load_of_other_bytes_is_refuted(count: int) -> None:
    text = GOOD["ring"]
    assert LOAD in text and check_kernel(*parse(text, "copy"), {"S": 2, "N": 2}).verdict is Verdict.PROVED
    (wrong,) = parse(text.replace(LOAD, LOAD.replace(": 64", f": {count}")), "copy")
    report = check_kernel(wrong, {"S": 2, "N": 2})
    assert report.verdict is Verdict.REFUTED and report.diagnostics[0].rule == "SV701"
    seen = explore(wrong, {"S": 2, "N": 2}, limit_states=500, first_only=True)
    assert "SV701" in {h.rule for h in seen.harms}
