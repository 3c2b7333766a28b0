"""Dependent launches of any size: who has waited for the grid before, himself or through others (SV503)."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.strategy import all_sizes
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse

_RING = """kernel k {{
  launch block [96] dependent
  param T : i32 = 3
  param K : i32 = 2
  assume K >= 1
  tensor a : f32[T * K * 64 + 64] in
  tensor out : f32[T * 64 + 64] out
  shared tile : f32[4, 64]
  mbarrier full[4]
  mbarrier empty[4]
  if warp == 2 {{
    elect p
    if p {{
      for s in 0..4 {{
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 64
      }}
      fence.mbarrier_init
    }}
  }}
  {set_up}
  bar.sync 0
  {all}
  role producer warps 2..3 {{
    elect p
    if p {{
      {first}
      let stage = 0
      let phase = 1
      for t in 0..T {{
        for k in 0..K {{
          mbarrier.wait empty[stage], phase
          mbarrier.arrive.expect_tx full[stage], 256
          bulk.load tile[stage], a[(t * K + k) * 64 : 64], full[stage]
          {turn}
        }}
        {later}
      }}
    }}
  }}
  role consumer warps 0..2 {{
    {early}
    let stage = 0
    let phase = 0
    for t in 0..T {{
      for k in 0..K {{
        mbarrier.wait full[stage], phase
        ld.shared x, tile[stage][tid : 1]
        fence.proxy.async.shared_cta
        mbarrier.arrive empty[stage]
        {turn}
      }}
      st.global.relaxed.gpu out[t * 64 + tid : 1], x
    }}
  }}
}}"""
_TURN = """stage = stage + 1
          if stage == 4 {
            stage = 0
            phase = 1 - phase
          }"""
_WAIT = "griddep.wait"
_STORE = "st.global.relaxed.gpu out[tid : 1], 0.0"


def text(**parts: str) -> str:
    empty = dict.fromkeys(("set_up", "all", "first", "later", "early"), "")
    return _RING.format(**{**empty, "turn": _TURN, **parts})


def report(source: str) -> KernelReport:
    (kernel,) = parse(source, "k.syncir")
    return check_kernel(kernel, scope=ScopeKind.ALL)


@pytest.mark.parametrize(
    "parts",
    [
        {"all": _WAIT},
        {"first": _WAIT},  # the others know by what the producer's copies complete
        {"first": _WAIT, "early": _WAIT},
        {"all": _WAIT + "\n  griddep.launch", "later": _WAIT},
    ],
)
def test_whoever_knows_of_a_wait_is_not_early(parts: dict[str, str]) -> None:
    found = report(text(**parts))
    assert (found.verdict, found.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize(
    "parts",
    [
        {"set_up": _STORE, "all": _WAIT},
        {"early": _WAIT},  # nothing tells the producer
        {"first": _WAIT, "early": _STORE},
        {"first": f"if T > 7 {{\n {_WAIT}\n }}"},
        {"later": _WAIT},  # behind the first tile
        {"early": _STORE + "\n" + _WAIT, "first": _WAIT},
    ],
)
def test_who_does_not_is(parts: dict[str, str]) -> None:
    found = report(text(**parts))
    assert found.verdict is Verdict.REFUTED
    assert "SV503" in {d.rule for d in found.diagnostics}


def test_waits_of_all_are_nothing_to_tell_states_apart() -> None:
    """As many decisions as without."""

    def decisions(source: str) -> int:
        (kernel,) = parse(source, "k.syncir")
        found = all_sizes(kernel, {}, Policy.PRACTICAL, lambda _: Verdict.UNKNOWN)
        assert found.verdict is Verdict.PROVED
        return found.stats["nodes"]

    assert decisions(text(all=_WAIT)) == decisions(text().replace(" dependent", ""))
