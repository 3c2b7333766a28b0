"""Kernels whose tiles move a ring on by all their steps at once, as CUTLASS writes them, and mistakes.

The loader keeps the slot and the phase that a tile begins with; its loop moves copies of them. Behind the
loop it adds the steps of the tile to what it kept. In the first tile alone the loader tells the readers so.
"""

from __future__ import annotations

from tests.checker.induction.test_read import RING

_STEP = """        mbarrier.wait empty[s], h ^ 1
        mbarrier.arrive.expect_tx full[s], 256
        bulk.load tile[s], a[i * 64 : 64], full[s]
        s = s + 1
        if s == 3 {
          s = 0
          h = h ^ 1
        }
"""
_USE = """      mbarrier.wait full[{s}], {h}
      st.shared tile[{s}][lane * 2 : 2], 1.0
      fence.proxy.async.shared_cta
      mbarrier.arrive empty[{s}]
"""
ADVANCED = f"""kernel ring {{
  launch grid [B] block [64]
  param B : i32 = 2
  param N : i32 = 5
  param R : i32 = 4
  assume B >= 1
  assume N >= 1
  assume R >= B
  tensor a : f32[N * 64] in
  shared tile : f32[3, 64] align 128
  mbarrier full[3]
  mbarrier empty[3]
  mbarrier begun

  elect p
  role init warps 0..1 {{
    if p {{
      for s in 0..3 {{
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 32
      }}
      mbarrier.init begun, 1
    }}
  }}
  bar.sync 0
  role load warps 0..1 {{
    if p {{
      let stage = 0
      let phase = 0
      let first = 1
      for r in block..R step B {{
        let s = stage
        let h = phase
        for i in 0..N {{
{_STEP}        }}
        let q = stage + N
        phase = (phase + q // 3) % 2
        stage = q % 3
        if first == 1 {{
          mbarrier.arrive begun
        }}
        first = 0
      }}
    }}
  }}
  role math warps 1..2 {{
    let n = 0
    let first = 1
    for r in block..R step B {{
      for i in 0..N {{
{_USE.format(s="n % 3", h="(n // 3) % 2")}      n = n + 1
      }}
      if first == 1 {{
        mbarrier.wait begun, 0
      }}
      first = 0
    }}
  }}
}}
"""
#: The readers take the first step of a tile before their loop.
PEELED = ADVANCED.replace("assume N >= 1", "assume N >= 2").replace(
    "      for i in 0..N {\n      mbarrier.wait full",
    f"{_USE.format(s='n % 3', h='(n // 3) % 2')}      n = n + 1\n"
    "      for i in 1..N {\n      mbarrier.wait full",
)
_WAIT = "      mbarrier.wait full[n % 3], (n // 3) % 2\n"
_RELEASE = "      mbarrier.arrive empty[n % 3]\n"


def edited(text: str, old: str, new: str) -> str:
    """The text with the first such part changed."""
    assert old in text
    return text.replace(old, new, 1)


#: The first step of a tile waits for the phase before.
UNWAITED = edited(PEELED, _WAIT, _WAIT.replace("(n // 3) % 2", "(n // 3 + 1) % 2"))
MISTAKES = {
    "a tile moves the slot by a step less": edited(ADVANCED, "stage + N\n", "stage + N - 1\n"),
    "the phase stays": edited(ADVANCED, "        phase = (phase + q // 3) % 2\n", ""),
    "the slot stays": edited(ADVANCED, "        stage = q % 3\n", ""),
    "every tile is the first one": edited(ADVANCED, "        first = 0\n", ""),
    "no tile is the first one": edited(ADVANCED, "let first = 1", "let first = 0"),
    "what is kept changes in a step": edited(
        ADVANCED,
        "        s = s + 1\n",
        "        s = s + 1\n        if i == 70 {\n          stage = 0\n        }\n",
    ),
    "the first step is not waited for": edited(PEELED, _WAIT, ""),
    "the first step waits for the phase before": UNWAITED,
    "the first step is not released": edited(PEELED, _RELEASE, ""),
    "the loop begins a step later": edited(PEELED, "for i in 1..N", "for i in 2..N"),
}
#: Sizes that refute them where small ones do not.
SIZES = {
    "every tile is the first one": {"B": 1, "N": 1, "R": 6},
    "what is kept changes in a step": {"B": 1, "N": 73, "R": 3},
}
#: A register that moves by a size falls below -200 at D = 101, in turn 2; nothing is released from there on.
FALLING = edited(
    edited(
        edited(RING, "param N", "param D : i32 = 2\n  param N"),
        "  assume N >= 1\n",
        "  assume N >= 1\n  assume D >= 1\n",
    ),
    "    for i in 0..N {\n      mbarrier.wait full",
    "    let c = 0\n    for i in 0..N {\n      mbarrier.wait full",
)
FALLING = edited(
    FALLING, "      mbarrier.arrive empty[i % 3]\n",
    "      if c >= -200 {\n        mbarrier.arrive empty[i % 3]\n      }\n      c = c - D\n"
)  # fmt: skip
#: The readers arrive at a third barrier in the first turn, which the loader waits for in the end; and again
#: in turn 72.
AGAIN = edited(
    edited(RING, "      for s in 0..3 {\n", "      mbarrier.init once, 32\n      for s in 0..3 {\n"),
    "  mbarrier full[3]\n",
    "  mbarrier full[3]\n  mbarrier once\n",
)
AGAIN = edited(
    AGAIN,
    "          phase = phase ^ 1\n        }\n      }\n",
    "          phase = phase ^ 1\n        }\n      }\n      mbarrier.wait once, 0\n",
)
AGAIN = edited(
    AGAIN, "    for i in 0..N {\n      mbarrier.wait full",
    "    let first = 1\n    for i in 0..N {\n      if first == 1 {\n        mbarrier.arrive once\n      }\n"
    "      first = 0\n      if i == 71 {\n        first = 1\n      }\n      mbarrier.wait full",
)  # fmt: skip


__all__ = ["ADVANCED", "AGAIN", "FALLING", "MISTAKES", "PEELED", "SIZES", "UNWAITED", "edited"]
