"""Kernels whose groups of warps take tiles in turn, and skip the steps of each other, and mistakes.

A loader fills a ring for all tiles. Of two groups each takes every second tile: it keeps the slot and the
phase that its tile begins with, and moves both by the steps of two tiles behind it. A barrier for each group
says whose turn it is.
"""

from __future__ import annotations

from tests.checker.induction.advanced import ADVANCED, edited

_HEAD, _REST = ADVANCED.split("  role load")
_LOAD = "  role load" + _REST.split("  role math")[0]
_HEAD = edited(_HEAD, "  mbarrier begun\n", "  mbarrier turn[2]\n")
_HEAD = edited(
    _HEAD,
    "      mbarrier.init begun, 1\n",
    "      mbarrier.init turn[0], 32\n      mbarrier.init turn[1], 32\n",
)
_HEAD = edited(_HEAD, "block [64]", "block [96]")
_LOAD = edited(_LOAD, "      let first = 1\n", "")
_LOAD = edited(
    _LOAD, "        if first == 1 {\n          mbarrier.arrive begun\n        }\n        first = 0\n", ""
)
IN_TURN = f"""{_HEAD}{_LOAD}  role math warps 1..3 {{
    let w = warp - 1
    let stage = (w * N) % 3
    let phase = ((w * N) // 3) % 2
    let k = 0
    for r in (block + w * B)..R step 2 * B {{
      let s = stage
      let h = phase
      mbarrier.wait turn[w], (k + 1 - w) % 2
      for i in 0..N {{
        mbarrier.wait full[s], h
        st.shared tile[s][lane * 2 : 2], 1.0
        fence.proxy.async.shared_cta
        mbarrier.arrive empty[s]
        s = s + 1
        if s == 3 {{
          s = 0
          h = h ^ 1
        }}
      }}
      mbarrier.arrive turn[1 - w]
      k = k + 1
      let q = stage + 2 * N
      phase = (phase + q // 3) % 2
      stage = q % 3
    }}
  }}
}}
"""
_ACCESS = "        st.shared tile[s][lane * 2 : 2], 1.0\n        fence.proxy.async.shared_cta\n"
_COPY = "arrive.expect_tx full[s], 256\n        bulk.load tile[s], a[i * 64 : 64], full[s]\n"
#: The same with barriers alone, where both groups have a tile: it is read soonest.
BARE = edited(edited(IN_TURN, _ACCESS, ""), _COPY, "arrive full[s]\n")
BARE = edited(BARE, "assume R >= B", "assume R >= 2 * B")


def _ahead(text: str, access: str) -> str:
    """The kernel with the first step of a tile in front of its loop, to which a tile of one step does not
    come.
    """
    turn = f"""        mbarrier.wait full[s], h
{access}        mbarrier.arrive empty[s]
        s = s + 1
        if s == 3 {{
          s = 0
          h = h ^ 1
        }}
"""
    loop = f"      for i in 0..N {{\n{turn}      }}\n"
    rest = f"      if N > 1 {{\n        for i in 1..N {{\n{turn}        }}\n      }}\n"
    return edited(text, loop, turn + rest)


AHEAD, BARE_AHEAD = _ahead(IN_TURN, _ACCESS), _ahead(BARE, "")
_HAND_ON = "      mbarrier.arrive turn[1 - w]\n"
_MEET = "      bar.sync 1, 64\n"


def _of_two_warps(before: str, behind: str) -> str:
    """The bare kernel with groups of two warps, and what they do before and behind the end of their turn."""
    text = edited(BARE, "block [96]", "block [160]")
    text = edited(edited(text, "warps 1..3 {", "warps 1..5 {"), "w = warp - 1", "w = ((warp - 1) // 2)")
    for ring in ("turn[0]", "turn[1]", "empty[s]"):
        text = edited(text, f"init {ring}, 32", f"init {ring}, 64")
    return edited(text, _HAND_ON, before + _HAND_ON + behind)


#: Both groups meet at one barrier, twice in each tile: before the other one's turn; behind that; one of each.
MEETINGS = _of_two_warps(_MEET * 2, "")
MISTAKES_OF_MEETINGS = {
    "groups meet behind their turn": _of_two_warps("", _MEET * 2),
    "groups meet once behind their turn": _of_two_warps(_MEET, _MEET),
}
_FEW, _STEP = {"B": 1, "N": 2, "R": 4}, {"B": 1, "N": 1, "R": 4}
_LOOP = "for i in 0..N {\n        mbarrier.wait full"
_PHASE = "      phase = (phase + q // 3) % 2\n      stage"
#: By what is wrong, the kernel. Each is refuted at ``SIZES``.
MISTAKES = {
    "a group skips a step less": edited(IN_TURN, "stage + 2 * N", "stage + 2 * N - 1"),
    "a group skips no tile": edited(IN_TURN, "stage + 2 * N", "stage + N"),
    "a group begins with the slot of the other's tile": edited(IN_TURN, "(w * N) % 3", "((1 - w) * N) % 3"),
    "a group begins with the other's tile": edited(IN_TURN, "block + w * B", "block + (1 - w) * B"),
    "a group's tiles have a step more": edited(IN_TURN, _LOOP, _LOOP.replace("0..N", "0..N + 1")),
    "a group takes every third tile": edited(IN_TURN, "step 2 * B", "step 3 * B"),
    "the phase is that of the tile before": edited(IN_TURN, _PHASE, "      stage"),
    "turns are not handed on": edited(IN_TURN, "      mbarrier.arrive turn[1 - w]\n", ""),
}
#: The same of tiles of which the first step stands in front of the loop. Tiles of one step show it.
MISTAKES_AHEAD = {
    f"{x}, ahead": edited(AHEAD, *edit)
    for x, edit in {
        "a group skips a step less": ("stage + 2 * N", "stage + 2 * N - 1"),
        "a group skips no tile": ("stage + 2 * N", "stage + N"),
        "a group begins with the slot of the other's tile": ("(w * N) % 3", "((1 - w) * N) % 3"),
        "a group begins with the phase of the other's tile": ("((w * N) // 3) % 2", "((w * N) // 3 + w) % 2"),
        "a group takes every third tile": ("step 2 * B", "step 3 * B"),
        "the phase is that of the tile before": (_PHASE, "      stage"),
        "turns are not handed on": ("      mbarrier.arrive turn[1 - w]\n", ""),
        "turns of the groups are exchanged": ("wait turn[w]", "wait turn[1 - w]"),
        "a group makes the other steps of its tile alone": ("        mbarrier.wait full[s], h\n", ""),
    }.items()
}
SIZES = (
    dict.fromkeys(MISTAKES_AHEAD, _STEP)
    | dict.fromkeys(MISTAKES | MISTAKES_OF_MEETINGS, _FEW)
    | {
        "a group begins with the other's tile": {"B": 1, "N": 2, "R": 3},
        "a group begins with the slot of the other's tile, ahead": {"B": 1, "N": 1, "R": 3},
    }
)

__all__ = [
    "AHEAD",
    "BARE",
    "BARE_AHEAD",
    "IN_TURN",
    "MEETINGS",
    "MISTAKES",
    "MISTAKES_AHEAD",
    "MISTAKES_OF_MEETINGS",
    "SIZES",
]
