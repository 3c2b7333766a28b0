"""Polls whose answers guard a wait: asked several times, or looked at again where the phase is waited for."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import ScopeKind, Severity, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse

KERNEL = """\
kernel k {
  launch grid [1] block [160]
  param N : i32 = 8
  assume N >= 1
  tensor src : f32[N * 256] in
  tensor out : f32[N * 256] out
  shared tile : f32[3, 256]
  mbarrier full[3]
  mbarrier empty[3]
  if warp == 4 {
    elect p
    if p {
      for s in 0..3 {
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 128
      }
      fence.mbarrier_init
    }
  }
  bar.sync 0
  role producer warps 4..5 {
    elect p
    if p {
      for i in 0..N {
        mbarrier.wait empty[i % 3], (i // 3 + 1) % 2
        mbarrier.arrive.expect_tx full[i % 3], 1024
        bulk.load tile[i % 3], src[i * 256 : 256], full[i % 3]
      }
    }
  }
  role consumer warps 0..4 {
    for i in 0..N {
      LOOK
      ld.shared x, tile[i % 3][tid * 2 : 2]
      fence.proxy.async.shared_cta
      mbarrier.arrive empty[i % 3]
      st.global out[i * 256 + tid * 2 : 2], x
    }
  }
}
"""
ON = "full[i % 3], (i // 3) % 2"
OTHER = ON.replace("3) % 2", "3 + 1) % 2")


def poll(name: str) -> str:
    return f"let p{name} = mbarrier.try {ON}\n"


def unless(name: str, body: str) -> str:
    return f"if p{name} == 0 {{\n {body}\n }}\n"


WAIT = f"mbarrier.wait {ON}"
CASES = [
    (poll("a") + unless("a", WAIT), True),
    (poll("a") + unless("a", WAIT) + unless("a", WAIT), True),
    (poll("a") + unless("a", poll("b") + unless("b", poll("c") + unless("c", WAIT))), True),
    (poll("a") + unless("a", poll("b")), False),  # no wait where both fail
    (poll("a") + unless("a", f"mbarrier.wait {OTHER}"), False),
    (poll("a") + unless("a", WAIT) + unless("a", f"mbarrier.wait {OTHER}"), False),
    (poll("a") + unless("a", WAIT) + unless("a", "mbarrier.arrive empty[i % 3]"), False),
    (poll("a") + unless("a", poll("b").replace(ON, OTHER) + unless("b", WAIT)), False),
]


@pytest.mark.parametrize("sizes", [{"values": {"N": 7}}, {"scope": ScopeKind.ALL}])
@pytest.mark.parametrize(("look", "right"), CASES)
def test_polls_that_guard_waits(sizes: dict[str, object], look: str, right: bool) -> None:
    (kernel,) = parse(KERNEL.replace("LOOK", look), "k.syncir")
    report = check_kernel(kernel, **sizes)  # type: ignore[arg-type]
    assert (report.verdict is Verdict.PROVED) is right, report.reason
    if right:
        assert all(d.severity is Severity.NOTE for d in report.diagnostics), report.diagnostics
