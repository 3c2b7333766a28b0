"""Looks at barriers before a wait, and waits for the grid before, in the judge of one launch."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.certificates import Rechecked, certify, dumps, recheck
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access
from tests.driver.certificates.test_exact import CORPUS, found

#: The reader looks ahead for the third phase of ``full``, and waits for it where it got no.
LOOK = """
kernel look {
  launch grid [1] block [64]
  tensor out : f32[64] out
  shared t : f32[64] align 128
  mbarrier full
  mbarrier empty
  if tid == 0 {
    mbarrier.init full, 32
    mbarrier.init empty, 1
  }
  bar.sync 0
  if warp == 0 {
    mbarrier.arrive full
    mbarrier.wait empty, 0
    mbarrier.arrive full
    mbarrier.wait empty, 1
    st.shared t[][lane:1], 1.0
    mbarrier.arrive full
  }
  if tid == 32 {
    mbarrier.wait full, 0
    @early
    mbarrier.arrive empty
    mbarrier.wait full, 1
    @late
    mbarrier.arrive empty
    if p == @no {
      mbarrier.wait full, 0
    }
    ld.shared x, t[][lane:1]
    st.global out[lane:1], x
  }
}
"""
POLL = "let p = mbarrier.test full, 0"
#: The first warp waits for the grid before, and tells the second one.
GRID = """
kernel grid {
  launch grid [1] block [64]
  tensor out : f32[64] out
  mbarrier b
  if tid == 0 {
    mbarrier.init b, 32
  }
  bar.sync 0
  if warp == 0 {
    griddep.wait
    mbarrier.arrive b
  }
  if warp == 1 {
    @wait
    st.global out[lane:1], 1.0
  }
}
"""


def judged(text: str) -> tuple[Verdict, str]:
    (kernel,) = parse(text, "k.syncir")
    return check_kernel(kernel, scope=ScopeKind.EXACT).verdict, found(kernel)


def look(*, early: str = "", late: str = "", no: int = 0) -> str:
    return LOOK.replace("@early", early).replace("@late", late).replace("@no", str(no))


def test_a_look_that_saves_a_wait_is_that_wait() -> None:
    assert judged(look(late=POLL)) == (Verdict.PROVED, "holds")


def test_a_look_may_not_see_the_phase_before_the_last() -> None:
    """There the first phase, of the same parity, says yes at once, and nobody waits."""
    verdict, said = judged(look(early=POLL))
    assert verdict is not Verdict.PROVED
    assert said != "holds"


def test_who_goes_on_without_the_phase_is_not_judged() -> None:
    verdict, said = judged(look(late=POLL, no=1))
    assert verdict is not Verdict.PROVED
    assert said != "holds"


RING = (CORPUS / "rulebook" / "E24_ignored_try_wait.good.syncir").read_text("utf-8")
WAIT = "mbarrier.wait full[i % 3], (i // 3) % 2\n"
PEEK = f"let done = mbarrier.test full[i % 3], (i // 3) % 2\nif done == 0 {{\n{WAIT}}}\n"


def test_looks_in_a_ring_of_any_length() -> None:
    """Beside the replay of a proof for every size, which knows what a look is for."""
    (good,) = parse(RING.replace(WAIT, PEEK), "ring.syncir")
    assert rechecked(good).judged
    assert WAIT in RING
    (bad,) = parse(RING.replace(WAIT, PEEK.replace("done == 0", "done == 1")), "ring.syncir")
    assert check_kernel(bad, scope=ScopeKind.ALL).verdict is not Verdict.PROVED


def rechecked(kernel: Kernel) -> Rechecked:
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert report.verdict is Verdict.PROVED
    (done,) = recheck(dumps([certify(kernel, report)]), "c.json", {kernel.name: kernel})
    return done


def test_one_warp_may_wait_for_the_grid_before_others() -> None:
    assert judged(GRID.replace("@wait", "mbarrier.wait b, 0")) == (Verdict.PROVED, "holds")
    assert judged(GRID.replace("@wait", "")) == (Verdict.REFUTED, "rejected")


@pytest.mark.parametrize("kind", [f for f in Access if not f.writes])
def test_reads_need_no_order(kind: Access) -> None:
    assert all(ordering(kind, g).need is Need.NOTHING for g in Access if not g.writes)
