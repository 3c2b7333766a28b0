"""A word that is handed over once a tile, beside a ring: what is known of the one is not lost for the other.

A class's actions are known in order, so a state that was made to miss the word's wait would miss the later
waits for slots as well, and the ring would seem to lap its readers.
"""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from tests.checker.prover.reach.kernels import proof

WAIT = "mbarrier.wait seen, 1 - turn"
ARRIVE = "mbarrier.arrive seen"
READ = """ld.shared w, word[0][0 : 1]
      compute y = w"""


def told(stages: int, wait: str = WAIT, read: str = READ, arrive: str = ARRIVE) -> str:
    """Tiles of K steps through a ring; after each the producer tells a word, and all readers give it back."""
    return f"""kernel told {{
  launch block [96] registers 168
  param T : i32 = 3
  param K : i32 = 2
  assume K >= 1
  tensor a : f32[T * K * 64 + 64] in
  shared tile : f32[{stages}, 64]
  shared word : f32[1, 4]
  mbarrier full[{stages}]
  mbarrier empty[{stages}]
  mbarrier told
  mbarrier seen
  if warp == 2 {{
    elect p
    if p {{
      for s in 0..{stages} {{
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 64
      }}
      mbarrier.init told, 1
      mbarrier.init seen, 64
      fence.mbarrier_init
    }}
  }}
  bar.sync 0
  role producer warps 2..3 {{
    elect p
    if p {{
      let stage = 0
      let phase = 1
      let turn = 0
      for t in 0..T {{
        for k in 0..K {{
          mbarrier.wait empty[stage], phase
          mbarrier.arrive.expect_tx full[stage], 256
          bulk.load tile[stage], a[(t * K + k) * 64 : 64], full[stage]
          stage = stage + 1
          if stage == {stages} {{
            stage = 0
            phase = 1 - phase
          }}
        }}
        {wait}
        compute x = 1.0
        st.shared word[0][0 : 1], x
        mbarrier.arrive told
        turn = 1 - turn
      }}
    }}
  }}
  role math warps 0..2 {{
    let stage = 0
    let phase = 0
    let turn = 0
    for t in 0..T {{
      for k in 0..K {{
        mbarrier.wait full[stage], phase
        ld.shared x, tile[stage][tid : 1]
        fence.proxy.async.shared_cta
        mbarrier.arrive empty[stage]
        stage = stage + 1
        if stage == {stages} {{
          stage = 0
          phase = 1 - phase
        }}
      }}
      mbarrier.wait told, turn
      {read}
      {arrive}
      turn = 1 - turn
    }}
  }}
}}
"""


@pytest.mark.parametrize("stages", [2, 4, 6])
def test_it_is_proved_round_the_ring(stages: int) -> None:
    found = proof(told(stages))
    assert found.verdict is Verdict.PROVED
    assert any(g.rotates for g in found.graphs)


def test_each_slot_more_takes_few_decisions() -> None:
    nodes = {n: proof(told(n)).stats["nodes"] for n in (4, 8)}
    assert nodes[8] - nodes[4] <= 24 * (8 - 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"wait": "compute q = 0.0"},
        {"wait": "mbarrier.wait seen, turn"},
        {"arrive": "compute q = 0.0"},
        {"read": ARRIVE, "arrive": READ},
        {"arrive": f"{ARRIVE}\n      {ARRIVE}"},
    ],
    ids=[
        "nobody waits for the readers",
        "the other parity",
        "nobody gives it back",
        "read too late",
        "twice",
    ],
)
def test_a_mistake_with_the_word_is_found(wrong: dict[str, str]) -> None:
    assert proof(told(4, **wrong)).verdict is Verdict.REFUTED
