"""A copy from or to an address that nobody has written is no proof."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{{ .reg .b32 %r<9>; .reg .b64 %d<9>; .shared .align 16 .b8 c[1024];
  ld.param.u64 %d1, [p];
  mov.u32 %r1, %tid.x;
  shl.b32 %r1, %r1, 4;
  mov.u32 %r2, c;
  add.u32 %r2, %r2, %r1;
  {widen}
  add.s64 %d2, %d1, %d2;
  cp.async.cg.shared.global [%r2], [%d2], 16;
  cp.async.wait_all;
  ret;
}}
"""


@pytest.mark.parametrize(
    ("widen", "expected"), [("cvt.u64.u32 %d2, %r1;", Verdict.PROVED), ("", Verdict.REFUTED)]
)
def test_the_source_of_a_copy(widen: str, expected: Verdict) -> None:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "block": [64, 1, 1], "params": {"0": {"ptr": "A"}}}}}
    (report,) = syncverify.check(KERNEL.format(widen=widen), facts=facts, advice=False)
    assert report.verdict is expected
