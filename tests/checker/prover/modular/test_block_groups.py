"""Blocks that share global memory in block groups, in grids of any size; relatives that must not be
proved.
"""

from __future__ import annotations

import json

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.certificates import certify, dumps, recheck
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ir.block_groups import group_size
from syncverify.ir.text.parser import parse
from tests.checker.prover.parametric.brute import assert_exact_alone, checked, fallback
from tests.checker.prover.parametric.group_programs import SEEDS, kernel_of, proved

_TEAM = """kernel team {{
  launch grid [{grid}] block [64] {launch}
  param T : i32
  {params}
  assume T >= 1
  tensor sums : f32[T * 1024 + 1024] inout
  tensor flag : u32[T * 64 + 64] inout
  tensor out : f32[T * 1024] inout
  shared tile : f32[128]

  elect p
  let team = (block // 3)
  let place = block % 3
  {wait}
  {work}
  {go}
}}
"""
_WAIT = """if place > 0 {
    if tid == 0 {
      spin.global.acquire.gpu flag[team] >= place
    }
    bar.sync 0
  }"""
_WORK = """ld.global y, sums[team * 128 + tid * 2 : 2]
  st.global sums[team * 128 + tid * 2 : 2], y + 1.0"""
_GO = """bar.sync 0
  if tid == 0 {
    fence.acq_rel.gpu
    atom.global.add.relaxed.gpu flag[team], 1
  }"""
_STORE = """st.shared tile[][tid * 2 : 2], 1.0
  fence.proxy.async.shared_cta
  bar.sync 0
  if warp == 0 and p {
    bulk.store sums[team * 128 : 128], tile
    bulk.commit
    bulk.wait 0
  }"""
_ADDED = _STORE.replace("bulk.store", "bulk.reduce.add")
_AHEAD = _WAIT.replace("    }\n    bar.sync", "      fence.proxy.async.global\n    }\n    bar.sync")
_LAST = _WAIT.replace("place > 0", "place == 2").replace(">= place", ">= 2")
_PARTS = """if place < 2 {
    st.global sums[block * 128 + tid * 2 : 2], 1.0
  } else {
    ld.global x, sums[(block - 1) * 128 + tid * 2 : 2]
    ld.global y, sums[(block - 2) * 128 + tid * 2 : 2]
  }"""
_RESET = """if place == 2 {
    bar.sync 0
    if tid == 0 {
      st.global.relaxed.gpu flag[team], 0
    }
  }"""
_OTHERS = _GO.replace("tid == 0", "tid == 0 and place < 2")
# the last waits for one of two signals of the second
_LATE, _SECOND = _LAST.replace(">= 2", ">= 1"), _GO.replace("tid == 0", "tid == 0 and place == 1")
_PART = """if place == 1 {
    st.global sums[block * 128 + tid * 2 : 2], 1.0
  }
  if place == 2 {
    ld.global x, sums[(block - 1) * 128 + tid * 2 : 2]
  }"""
_TWICE = """st.global out[block * 128 * K + tid * 2 : 2], 1.0
  st.shared tile[][tid * 2 : 2], 1.0
  fence.proxy.async.shared_cta
  bar.sync 0
  if warp == 0 and p {
    bulk.store out[block * 128 * K : 128], tile
    bulk.commit
    bulk.wait 0
  }"""
_OUT = "st.global out[block * 128 + tid * 2 : 2], 1.0"


def _by_warps(text: str) -> str:
    """The same with a flag for each warp."""
    text = text.replace("tid == 0", "lane == 0").replace("bar.sync 0", "warp.sync")
    return text.replace("flag[team]", "flag[team * 2 + warp]")


def _team(
    wait: str = _WAIT, work: str = _WORK, go: str = _GO, launch: str = "", params: str = "",
    grid: str = "T * 3",
) -> str:  # fmt: skip
    text = {"wait": wait, "work": work, "go": go, "launch": launch, "params": params, "grid": grid}
    return _TEAM.format(**text)


GOOD = {
    "each after the one before": _team(),
    "all at once": _team(launch="cooperative"),
    "a value that is left again": _team(wait=_WAIT.replace(">=", "==")),
    "stored": _team(go=_GO.replace("atom.global.add", "st.global").replace("], 1", "], place + 1")),
    "the last collects": _team(_LAST, _PARTS, _OTHERS),
    "and sets it back": _team(_LAST, _PARTS, f"{_OTHERS}\n{_RESET}"),
    "and sets it to 1": _team(_LAST, _PARTS, f"{_OTHERS}\n{_RESET}").replace("[team], 0", "[team], 1"),
    "set back, and perhaps raised again": _team(_LATE, _PART, f"{_SECOND}\n{_SECOND}\n{_RESET}"),
    "flags with gaps": _team().replace("flag[team]", "flag[team * 4 + 2]"),
    "flags of warps": _team(_by_warps(_WAIT), go=_by_warps(_GO)),
    "sums with gaps": _team(work=_WORK.replace("team * 128", "team * 200 + 8")),
    "in two places": _team(work=_WORK.replace("team * 128", "team * 256 + place % 2 * 128")),
    "by the async proxy": _team(work=_STORE),
    "added by the async proxy": _team(_AHEAD, _ADDED),
    "results of their own": _team(go=f"{_GO}\n{_OUT}"),
    "any number of turns": _team(work=f"for i in 0..K {{\n{_WORK}\n}}", params="param K : i32"),
    "any number of blocks that are given": _team(
        grid="B", params="param B : i32\n  assume B == T * 3"
    ),
    "clusters": _team(launch="cluster [3]"),
}  # fmt: skip
#: Those that may be launched again: flags are 0 at the end, whatever comes last.
RESTORED = {"and sets it back"}
#: None may be proved; those with sizes are refuted there.
BAD = {
    "the flag first": (_team(work="", go=f"{_GO}\n{_WORK}"), {"T": 1}),
    "no acquire": (_team(_WAIT.replace("acquire", "relaxed")), {"T": 1}),
    "no fence": (_team(go=_GO.replace("fence.acq_rel.gpu\n", "")), {"T": 1}),
    "a fence of one CTA": (_team(go=_GO.replace("acq_rel.gpu", "acq_rel.cta")), {"T": 1}),
    "an acquire of one CTA": (_team(_WAIT.replace("acquire.gpu", "acquire.cta")), {"T": 1}),
    "the others do not wait": (_team(_WAIT.replace("bar.sync 0", "")), {"T": 1}),
    "the others are not waited for": (_team(go=_GO.replace("bar.sync 0\n", "")), {"T": 1}),
    "the last does not wait": (_team(_WAIT.replace("> 0", "== 1")), {"T": 1}),
    "waits for less": (_team(_WAIT.replace(">= place", ">= 1")), {"T": 1}),
    "waits for more": (_team(_WAIT.replace(">= place", ">= place + 1")), {"T": 1}),
    "the store's source only": (_team(work=_STORE.replace("bulk.wait", "bulk.wait.read")), {"T": 1}),
    "released before the store": (
        _team(work=_STORE.replace("bulk.wait 0", ""), go=_GO + "\nif warp == 0 and p {\nbulk.wait 0\n}"),
        {"T": 1},
    ),
    "two signals of one block": (_team(_LAST, _PARTS, f"{_OTHERS}\n{_OTHERS}"), {}),
    "one collects too early": (_team(_LAST.replace(">= 2", ">= 1"), _PARTS, _OTHERS), {"T": 1}),
    "set back too early": (_team(_LAST, _PARTS, f"{_OTHERS}\n{_RESET.replace('== 2', '== 1')}"), {}),
    "the flag of the next team": (_team(_WAIT.replace("flag[team]", "flag[team + 1]")), {"T": 1}),
    "raises the next team's": (_team(go=_GO.replace("flag[team]", "flag[team + 1]")), {"T": 1}),
    "one flag for all": (_team().replace("flag[team]", "flag[team * 0]"), {}),
    "flags of two teams": (_team().replace("flag[team]", "flag[(team // 2)]"), {}),
    "sums of two teams": (_team(work=_WORK.replace("team * 128", "(team // 2) * 128")), {"T": 2}),
    "sums that overlap": (_team(work=_WORK.replace("team * 128", "team * 127")), {"T": 2}),
    "sums of all teams": (_team(work=_WORK.replace("team * 128", "0")), {"T": 2}),
    "the next team's sums": (
        _team(work=f"{_WORK}\nld.global z, sums[team * 128 + 128 + tid * 2 : 2]"), {"T": 2}
    ),
    "sums at a place from the end": (
        _team(work=_WORK + "\nif team + 1 == T {\nst.global sums[tid * 2 : 2], 1.0\n}"), {"T": 2}
    ),
    "read after the flag": (_team(go=f"{_GO}\nst.global sums[team * 128 + tid * 2 : 2], 1.0"), {"T": 1}),
    "a block more": (_team(grid="T * 3 + 1"), {}),
    "any number of blocks": (_team(grid="T"), {}),
    "waits for higher numbers": (
        _team(_WAIT.replace("> 0", "< 2").replace(">= place", ">= 2 - place")), {}
    ),
    "results through both proxies": (
        _team(go=f"{_GO}\n{_TWICE}", params="param K : i32\n  assume K >= 1").replace(
            "1024] inout\n  sh", "1024 * K] inout\n  sh"
        ),
        {"T": 1, "K": 1},
    ),
    "turns after the flag": (
        _team(go=f"{_GO}\nfor i in 0..K {{\n{_WORK}\n}}", params="param K : i32"), {"T": 1, "K": 1}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_teams(name: str) -> None:
    (kernel,) = parse(GOOD[name], name)
    assert group_size(kernel) == 3
    report = checked(GOOD[name], name)
    assert (report.verdict, report.scope.kind, fallback(report)) == (Verdict.PROVED, ScopeKind.ALL, None)
    left = ", and every launch leaves them so" if name in RESTORED else ""
    assert report.assumptions[0] == f"the flags in flag are 0 at launch{left}"
    for teams in (1, 2, 4):
        values = {"T": teams} | {p.name: 2 for p in kernel.params if p.name not in "TB"}
        values |= {"B": 3 * teams} if "param B" in GOOD[name] else {}
        assert check_kernel(kernel, values).verdict is Verdict.PROVED


#: Others of these tell of flags that belong elsewhere, of flags that are reset, and of numbers of blocks.
SELDOM = ("set back too early", "waits for higher numbers", "flags of two teams", "two signals of one block")


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow if x in SELDOM else ()) for x in BAD]
)
def test_no_teams(name: str) -> None:
    text, sizes = BAD[name]
    assert_exact_alone(checked(text, name), sizes)


def test_its_certificate() -> None:
    (kernel,) = parse(GOOD["any number of turns"], "turns")
    data = dumps([certify(kernel, check_kernel(kernel, scope=ScopeKind.ALL))])
    (done,) = recheck(json.dumps(json.loads(data)), "c.json", {kernel.name: kernel})
    assert (done.kind, done.scope) == ("sizes", ScopeKind.ALL)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_proved_is_right_in_small_grids(seed: int) -> None:
    kernel = kernel_of(seed)
    if proved(kernel):
        for teams in range(1, 4):
            assert check_kernel(kernel, {"T": teams}).verdict is Verdict.PROVED


def test_random_teams_are_of_both_kinds() -> None:
    right = [seed for seed in SEEDS[::2] if proved(kernel_of(seed))]
    assert len(SEEDS) // 16 < len(right) < len(SEEDS) * 7 // 16
