"""A bulk copy names as many bytes of a tensor as of shared memory."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from syncverify.simulate.ir import explore
from tests.checker.prover.rings.kernels import GOOD

SIZES = {"S": 2, "N": 2}
COPIES = {
    "ring": "bulk.load tile[i % S], a[i * 64 : 64]",
    "staged store": "bulk.store out[i * 64 : 64], tile[i % S]",
}


@pytest.mark.parametrize("count", ["32", "128", "64 + 64 * (N // 2)"])
@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_other_bytes_is_refuted(name: str, count: str) -> None:
    text, copy = GOOD[name], COPIES[name]
    assert copy in text and check_kernel(*parse(text, "copy"), SIZES).verdict is Verdict.PROVED
    (wrong,) = parse(text.replace(copy, copy.replace(": 64]", f": {count}]")), "copy")
    report = check_kernel(wrong, SIZES)
    assert report.verdict is Verdict.REFUTED and report.diagnostics[0].rule == "SV701"
    seen = explore(wrong, SIZES, limit_states=500, first_only=True)
    assert "SV701" in {h.rule for h in seen.harms}
