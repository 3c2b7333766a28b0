"""A role that fills and empties a ring, its first slots ahead of the loop, and ends its barriers one by one.

Agents at several places of the ring do not end them in one order.
"""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.prover.reach.ring.positions import RegisterRoles
from syncverify.checker.prover.reach.ring.product import RotatedAgents, SymmetryBroken
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.reach.kernels import proof

READ = "ld.shared x, tile[stage][tid : 1]"


def flat(
    stages: int = 3,
    *,
    ends: tuple[int, ...] | None = None,
    before_end: str = "bar.sync 0",
    read: str = READ,
    together: str = "bar.sync 0",
    wait: str = "mbarrier.wait full[stage], phase",
    more: str = "i + {ahead} < N",
) -> str:
    """The read of a slot is one iteration before its next copy."""
    ahead = stages - 1
    inits = "\n      ".join(f"mbarrier.init full[{s}], 1" for s in range(stages))
    first = "\n    ".join(
        f"""if tid == 0 {{
      if N > {s} {{
        mbarrier.arrive.expect_tx full[{s}], 256
        bulk.load tile[{s}], a[{s} * 64 : 64], full[{s}]
      }}
    }}"""
        for s in range(ahead)
    )
    invals = "\n      ".join(f"mbarrier.inval full[{s}]" for s in (range(stages) if ends is None else ends))
    return f"""kernel flat {{
  launch block [64] registers 168
  param N : i32 = 6
  assume N >= 1
  tensor a : f32[N * 64 + 64] in
  shared tile : f32[{stages}, 64]
  mbarrier full[{stages}]
  if warp == 0 {{
    elect p
    if p {{
      {inits}
      fence.mbarrier_init
    }}
  }}
  bar.sync 0
  role all warps 0..2 {{
    {first}
    let stage = 0
    let phase = 0
    let next = {ahead}
    for i in 0..N {{
      {wait}
      {read}
      fence.proxy.async.shared_cta
      {together}
      if tid == 0 {{
        if {more.format(ahead=ahead)} {{
          mbarrier.arrive.expect_tx full[next], 256
          bulk.load tile[next], a[(i + {ahead}) * 64 : 64], full[next]
        }}
      }}
      next = next + 1
      if next == {stages} {{
        next = 0
      }}
      stage = stage + 1
      if stage == {stages} {{
        stage = 0
        phase = 1 - phase
      }}
    }}
    {before_end}
    if tid == 0 {{
      {invals}
    }}
  }}
}}
"""


@pytest.mark.parametrize("stages", [3, 4])
def test_barriers_are_ended_at_each_place_by_itself(stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parted: list[int] = []
    stay = RotatedAgents.restrict_to

    def noted(self: RotatedAgents, run: object, places: frozenset[int]) -> None:
        parted.append(len(places))
        stay(self, run, places)  # type: ignore[arg-type]

    monkeypatch.setattr(RotatedAgents, "restrict_to", noted)
    found = proof(flat(stages, ends=(2, 0, *range(3, stages), 1)))
    assert found.verdict is Verdict.PROVED
    assert any(g.rotates for g in found.graphs)
    assert parted


WRONG = {
    "one barrier is ended twice": {"ends": (0, 1, 2, 1)},
    "one barrier is ended before the last turn of some runs": {
        "wait": """if tid == 0 and i == 4 {
        mbarrier.inval full[1]
      }
      mbarrier.wait full[stage], phase"""
    },
    "a slot is filled while others read it": {"together": "compute nothing = 0.0"},
    "one slot is read too late": {
        "together": """bar.sync 0
      if stage == 1 {
        ld.shared y, tile[(stage + 2) % 3][tid : 1]
      }"""
    },
    "one copy too many": {"more": "i + {ahead} <= N"},
    "one slot of one lap is awaited with the wrong parity": {
        "wait": """if phase == 1 and stage == 2 {
        mbarrier.wait full[stage], 0
      } else {
        mbarrier.wait full[stage], phase
      }"""
    },
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refuted(what: str) -> None:
    text = flat(**WRONG[what])  # type: ignore[arg-type]
    found = proof(text)
    assert found.verdict is Verdict.REFUTED
    (kernel,) = parse(text, "flat.syncir")
    assert check_kernel(kernel, found.values).verdict is Verdict.REFUTED


def test_what_seems_to_count_is_learned_in_order() -> None:
    kinds = RegisterRoles(size=4)
    kinds.ring_index_registers = {(0, "stage"): (0, 3), (1, "stage"): (0, 3)}
    kinds.varying_counts.update({(0, "step"): 20, (0, "stage"): 1})
    assert kinds.refine(SymmetryBroken("events", frozenset({(0, "k")})))
    assert kinds.monotone_registers == {(0, "k"), (1, "k")}  # in all classes
    assert kinds.refine(SymmetryBroken("events"))
    assert kinds.monotone_registers == {(c, r) for c in (0, 1) for r in ("k", "step")}
    assert kinds.refine(SymmetryBroken("events"))
    assert (0, "stage") in kinds.monotone_registers
    assert not kinds.refine(SymmetryBroken("events"))
