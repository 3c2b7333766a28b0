"""Lanes that meet: ``elect`` gathers a warp; a warp may arrive at a named barrier, then wait there."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.simulate.ir import explore
from tests.simulate.ir.support import kernel

#: One lane of warp 0 hands over; the others only wait, and may fall behind where nothing gathers the warp.
RING = """
mbarrier b
mbarrier c
if tid == 0 {{
  mbarrier.init b, 1
  mbarrier.init c, 1
}}
bar.sync 0
if warp == 0 {{
  for i in 0..3 {{
    mbarrier.wait c, (i + 1) % 2
    {choice}
    if p == 1 {{
      mbarrier.arrive b
    }}
  }}
}}
if tid == 32 {{
  for i in 0..3 {{
    mbarrier.wait b, i % 2
    mbarrier.arrive c
  }}
}}
"""
ITSELF = """
if warp == 0 {
  bar.arrive 1, 64
  bar.sync 1, 64
}
"""
BLOCK = "launch grid [1] block [64]"


@pytest.mark.parametrize(("choice", "hangs"), [("elect p", False), ("let p = lane == 0", True)])
def test_elect_holds_the_lanes_together(choice: str, hangs: bool) -> None:
    found = explore(kernel(RING.format(choice=choice), BLOCK))
    assert found.complete
    assert ("hang" in found.kinds) == hangs


@pytest.mark.parametrize(("policy", "rules"), [(Policy.PRACTICAL, set()), (Policy.STRICT, {"SV301"})])
def test_a_warp_may_give_itself_the_first_turn(policy: Policy, rules: set[str]) -> None:
    found = explore(kernel(ITSELF, BLOCK), policy=policy)
    assert found.complete
    assert found.rules == rules
