"""Edited tensor maps for every size: uses that may not be over, releases and acquires."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.certificates import certify, dumps, recheck
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.parametric.brute import brute, disagreement, fallback

_KERNEL = """kernel edits {{
  launch grid [1] block [64]
  param G : i32
  tensor out : f32[64, 256] out
  tensormap O of out box [1, 256]
  tensormap P of out box [1, 256]
  shared tile : f32[2, 256]

  elect p
  for g in 0..G {{
    bar.sync 0
    if warp == 0 and p {{
      bulk.wait.read 1
    }}
    bar.sync 0
    st.shared tile[g % 2][tid * 4 : 4], 1.0
    fence.proxy.async.shared_cta
    bar.sync 0
    if warp == {editor} {{
      if p and ({edits}) {{
        {before}
        tensormap.replace O, global_dim, g + 1
      }}
      warp.sync
      if {publishes} {{
        tensormap.cp_fence.gpu O
      }}
    }}
    bar.sync 0
    if warp == 0 and p {{
      if {acquires} {{
        fence.proxy.tensormap.acquire.gpu O
      }}
      tma.store {used}[g, 0], tile[g % 2]
      bulk.commit
    }}
  }}
  if warp == 0 and p {{
    {tail}
  }}
}}
"""
_WAIT = "bulk.wait.read 0"


def _text(
    edits: str = "g >= 0",
    before: str = _WAIT,
    acquires: str = "",
    publishes: str = "",
    editor: int = 0,
    used: str = "O",
    tail: str = _WAIT,
) -> str:
    return _KERNEL.format(
        edits=edits, before=before, acquires=acquires or edits, publishes=publishes or edits,
        editor=editor, used=used, tail=tail,
    )  # fmt: skip


_TILES = """kernel tiles {{
  launch grid [1] block [32]
  param T : i32
  param K : i32
  tensor out : f32[64, 256] out
  tensormap O of out box [1, 256]
  shared tile : f32[256]

  elect p
  for t in 0..T {{
    for k in 0..K {{
      if p and k == 2 {{
        tensormap.replace O, global_dim, t + 1
        {after}
      }}
      warp.sync
    }}
    {last}
    if p {{
      tma.store O[t, 0], tile
      bulk.commit
      bulk.wait.read 0
    }}
    warp.sync
  }}
}}
"""
_PUBLISH, _ACQUIRE = "fence.proxy.tensormap.release.gpu", "fence.proxy.tensormap.acquire.gpu O"
#: What a tile has done to the map is all that the lengths of its loop leave behind.
TILES = {
    "neither": (_TILES.format(after="", last=""), False),
    "only released": (_TILES.format(after=_PUBLISH, last=""), False),
    "in every tile": (_TILES.format(after=_PUBLISH, last=f"if p {{ {_ACQUIRE} }}"), True),
    "at once": (_TILES.format(after=f"{_PUBLISH}\n{_ACQUIRE}", last=""), True),
    "but in the third tile": (
        _TILES.format(after=_PUBLISH, last=f"if p and t != 2 {{ {_ACQUIRE} }}"), False
    ),
}  # fmt: skip

GOOD = {
    "every turn": _text(),
    "every third turn": _text("g % 3 == 0"),
    "acquired whether edited or not": _text("g % 3 == 0", acquires="g >= 0", publishes="g >= 0"),
    "another map": _text(before="bulk.wait.read 1", used="P"),
    "once, at the end": _text(
        "g < 0", acquires="g < 0", tail=f"{_WAIT}\n    tensormap.replace O, global_dim, G + 1"
    ),
    "before the fifth turn only": _text("g == 4"),
}
BAD = {
    "one copy may still use it": _text(before="bulk.wait.read 1"),
    "no wait in the sixth turn": _text(before=f"if g != 5 {{\n{_WAIT}\n}}"),
    "no wait from the tenth on": _text("g % 3 == 0", before=f"if g < 9 {{\n{_WAIT}\n}}"),
    "not acquired in the fifth turn": _text(acquires="g != 4"),
    "not acquired in a third turn": _text("g % 3 == 0", acquires="g % 3 == 0 and g != 6"),
    "not published": _text("g % 3 == 0", publishes="g % 3 == 0 and g < 7"),
    "another warp does not know of the copies": _text(editor=1, before="warp.sync"),
    "at the end, if there was more than one": _text(
        "g < 0", acquires="g < 0", tail="bulk.wait.read 1\n    if G > 1 {\n"
        f"    tensormap.replace O, global_dim, G + 1\n    }}\n    {_WAIT}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_edits_in_order_are_proved(name: str) -> None:
    (kernel,) = parse(GOOD[name], name)
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert (report.verdict, fallback(report)) == (Verdict.PROVED, None)
    assert disagreement(kernel, report, brute(kernel, laps=12)) is None
    recheck(dumps([certify(kernel, report)]), "c.json", {kernel.name: kernel})


#: They take seconds; ``BAD`` has one that is not acquired in the fifth turn.
SELDOM = ("in every tile", "but in the third tile")


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow if x in SELDOM else ()) for x in TILES]
)
def test_what_loops_leave_behind(name: str) -> None:
    text, good = TILES[name]
    (kernel,) = parse(text, name)
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert report.verdict is (Verdict.PROVED if good else Verdict.REFUTED)
    assert fallback(report) is None
    assert disagreement(kernel, report, brute(kernel, laps=4, most=60)) is None


@pytest.mark.parametrize("name", BAD)
def test_edits_out_of_order_are_refuted(name: str) -> None:
    (kernel,) = parse(BAD[name], name)
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert report.verdict is Verdict.REFUTED
    assert disagreement(kernel, report, brute(kernel, laps=12)) is None
